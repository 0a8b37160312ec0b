use oxmpi_verbs::{Device, DevicePort};
use std::fs;
use std::path::Path;

pub(super) const DEVICES: &str = "/sys/class/infiniband";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortRequest {
    /// `None`: the first device with such a port.
    pub(super) device: Option<String>,
    /// `None`: the first active port.
    pub(super) port: Option<u8>,
    pub(super) mtu: usize,
}

/// Reads the kernel's files, so that a machine without an active port opens no library.
pub(super) fn has_active_port(devices: &Path) -> bool {
    let entries =
        |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_active = |port: &Path| {
        fs::read_to_string(port.join("state")).is_ok_and(|state| state.contains("ACTIVE"))
    };
    entries(devices).any(|device| entries(&device.join("ports")).any(|port| is_active(&port)))
}

/// Whether a device has fast reliable connections, by the driver in its name. The named devices
/// have none, or only emulate them, and libfabric has providers for them.
pub(super) fn has_reliable_connections(device: &str) -> bool {
    !["efa", "usnic", "hfi1"].iter().any(|driver| device.starts_with(driver))
}

pub(super) fn listing(devices: &[Device]) -> String {
    if devices.is_empty() {
        return "there is no device".into();
    }
    let port = |port: &DevicePort| format!("port {} {}", port.number, port.state_name());
    let device = |device: &Device| match &device.trouble {
        Some(why) => format!("{}: {why}", device.name),
        None => {
            let ports: Vec<_> = device.ports.iter().map(port).collect();
            format!("{}: {}", device.name, ports.join(", "))
        }
    };
    let all: Vec<_> = devices.iter().map(device).collect();
    format!("this host has {}", all.join("; "))
}

/// The error is for the user.
pub(super) fn choose<'a>(
    devices: &'a [Device],
    request: &PortRequest,
) -> Result<(&'a str, &'a DevicePort), String> {
    if !matches!(request.mtu, 256 | 512 | 1024 | 2048 | 4096) {
        return Err(format!(
            "rpi_ib_mtu is {}, and not one of 256, 512, 1024, 2048, 4096",
            request.mtu
        ));
    }
    let wanted = |device: &&Device| request.device.as_ref().is_none_or(|name| *name == device.name);
    let candidates: Vec<_> = devices.iter().filter(wanted).collect();
    if let (Some(name), true) = (&request.device, candidates.is_empty()) {
        return Err(format!("rpi_ib_hca_id names device '{name}': {}", listing(devices)));
    }
    let suits = |port: &&DevicePort| {
        port.is_active() && request.port.is_none_or(|number| number == port.number)
    };
    let found =
        candidates.iter().find_map(|one| Some((one.name.as_str(), one.ports.iter().find(suits)?)));
    let (device, port) = found.ok_or_else(|| match request.port {
        Some(number) => {
            format!("rpi_ib_port names port {number}, which is not active: {}", listing(devices))
        }
        None => format!("no port is active: {}", listing(devices)),
    })?;
    if request.mtu > port.mtu {
        return Err(format!(
            "rpi_ib_mtu is {}, and port {} of device {device} has {}",
            request.mtu, port.number, port.mtu
        ));
    }
    Ok((device, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_verbs::AtomicScope;

    fn port(number: u8, state: i32) -> DevicePort {
        DevicePort {
            number,
            state,
            mtu: 1024,
            max_mtu: 4096,
            lid: 1,
            is_ethernet: false,
            gid: None,
        }
    }

    fn devices() -> Vec<Device> {
        let device = |name: &str, ports| Device {
            name: name.into(),
            ports,
            atomics: AtomicScope::None,
            trouble: None,
        };
        vec![device("a0", vec![port(1, 1)]), device("b0", vec![port(1, 1), port(2, 4)])]
    }

    fn chosen(device: Option<&str>, port: Option<u8>, mtu: usize) -> Result<(String, u8), String> {
        let request = PortRequest { device: device.map(String::from), port, mtu };
        choose(&devices(), &request).map(|(device, port)| (device.to_string(), port.number))
    }

    #[test]
    fn the_first_active_port_is_used() {
        assert_eq!(chosen(None, None, 1024), Ok(("b0".into(), 2)));
        assert_eq!(chosen(Some("b0"), Some(2), 256), Ok(("b0".into(), 2)));
    }

    #[test]
    fn a_missing_device_is_reported_with_the_existing_ones() {
        let why = chosen(Some("c0"), None, 1024).unwrap_err();
        assert_eq!(
            why,
            "rpi_ib_hca_id names device 'c0': this host has a0: port 1 down; b0: port 1 down, port 2 active"
        );
        let why = chosen(None, Some(1), 1024).unwrap_err();
        assert!(why.contains("port 1") && why.contains("b0: port 1 down, port 2 active"), "{why}");
        assert!(chosen(Some("a0"), None, 1024).unwrap_err().contains("no port is active"));
    }

    #[test]
    fn an_mtu_above_that_of_the_port_is_refused_with_both() {
        let why = chosen(None, None, 2048).unwrap_err();
        assert!(why.contains("2048") && why.contains("1024"), "{why}");
        assert!(chosen(None, None, 1000).unwrap_err().contains("1000"));
    }

    #[test]
    fn networks_without_reliable_connections_are_known() {
        let known = |names: [&str; 3]| names.map(has_reliable_connections);
        assert_eq!(known(["mlx5_0", "rxe0", "irdma1"]), [true; 3]);
        assert_eq!(known(["efa_0", "usnic_1", "hfi1_0"]), [false; 3]);
    }

    #[test]
    fn a_machine_without_devices_has_no_active_port() {
        let root = std::env::temp_dir().join(format!("oxmpi-ib-{}", std::process::id()));
        let port = root.join("mlx5_0/ports/1");
        let nothing = has_active_port(&root);
        fs::create_dir_all(&port).unwrap();
        let with = |state: &str| {
            fs::write(port.join("state"), state).unwrap();
            has_active_port(&root)
        };
        let found = (nothing, with("1: DOWN\n"), with("4: ACTIVE\n"));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, (false, false, true));
    }
}
