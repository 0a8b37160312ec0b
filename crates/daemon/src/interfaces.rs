//! Which network the sockets of a job use.

use oxmpi_sys::net::Interface;
use std::net::{IpAddr, SocketAddr};

#[derive(Debug, PartialEq, Eq)]
enum NetworkEntry<'a> {
    Name(&'a str),
    /// An address, and how many of its leading bits are compared.
    Network(IpAddr, u8),
}

impl NetworkEntry<'_> {
    fn names(&self, interface: &Interface) -> bool {
        match (self, interface.address) {
            (NetworkEntry::Name(name), _) => *name == interface.name,
            (NetworkEntry::Network(IpAddr::V4(network), prefix), IpAddr::V4(address)) => {
                (network.to_bits() ^ address.to_bits()).leading_zeros() >= u32::from(*prefix)
            }
            (NetworkEntry::Network(IpAddr::V6(network), prefix), IpAddr::V6(address)) => {
                (network.to_bits() ^ address.to_bits()).leading_zeros() >= u32::from(*prefix)
            }
            _ => false,
        }
    }
}

/// Sorts the addresses on a network of this host to the front.
pub fn near_first(addresses: &mut [SocketAddr]) {
    let there = oxmpi_sys::net::interfaces().unwrap_or_default();
    let is_near = |interface: &Interface, address: IpAddr| {
        NetworkEntry::Network(address, interface.prefix).names(interface)
    };
    addresses
        .sort_by_key(|address| !there.iter().any(|interface| is_near(interface, address.ip())));
}

/// Why no interface could be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    #[error(
        "parameter '{parameter}': '{entry}' is not of the form ADDRESS/BITS, such as 10.0.0.0/8"
    )]
    Syntax { parameter: &'static str, entry: String },
    #[error(
        "parameter '{parameter}': this host has no interface '{entry}'; it has {}",
        list(there)
    )]
    Unknown { parameter: &'static str, entry: String, there: Vec<Interface> },
    #[error(
        "no network interface of this host is up, not even its loopback, and sockets need one: 'ip link set lo up' brings that up; \
         '--mca rpi shm' needs none on one host"
    )]
    NoneUp,
    #[error(
        "the parameters 'btl_tcp_if_include' ('{include}') and 'btl_tcp_if_exclude' ('{exclude}') leave no interface of {}",
        list(there)
    )]
    None { include: String, exclude: String, there: Vec<Interface> },
}

fn list(there: &[Interface]) -> String {
    let all: Vec<_> =
        there.iter().map(|i| format!("{} ({}/{})", i.name, i.address, i.prefix)).collect();
    if all.is_empty() { "none that is up".into() } else { all.join(", ") }
}

/// Chooses among `there`, the interfaces that are up: at least one, the best first. If all ranks
/// are on this host the loopback is preferred, as no other host can reach it; otherwise it is left
/// out unless a parameter names it. IPv4 is preferred to IPv6, and interfaces of virtual machines
/// and containers come last.
pub fn choose<'a>(
    there: &'a [Interface],
    include: &str,
    exclude: &str,
    is_one_host: bool,
) -> Result<Vec<&'a Interface>, InterfaceError> {
    let all = ranked(there, include, exclude, is_one_host)?;
    if there.is_empty() {
        return Err(InterfaceError::NoneUp);
    }
    if all.is_empty() {
        return Err(InterfaceError::None {
            include: include.into(),
            exclude: exclude.into(),
            there: there.to_vec(),
        });
    }
    Ok(all)
}

/// As [`choose`], but the result may be empty.
pub fn ranked<'a>(
    there: &'a [Interface],
    include: &str,
    exclude: &str,
    is_one_host: bool,
) -> Result<Vec<&'a Interface>, InterfaceError> {
    let included = entries("btl_tcp_if_include", include, there)?;
    let excluded = entries("btl_tcp_if_exclude", exclude, there)?;
    let usable = there.iter().filter(|i| {
        (included.is_empty() || included.iter().any(|entry| entry.names(i)))
            && !excluded.iter().any(|entry| entry.names(i))
            && !is_link_local(i.address)
            && (is_one_host || !included.is_empty() || !i.is_loopback)
    });
    let mut usable: Vec<&Interface> = usable.collect();
    // The user's order in btl_tcp_if_include counts before this order.
    let place = |i: &Interface| included.iter().position(|entry| entry.names(i)).unwrap_or(0);
    usable.sort_by_key(|i| {
        (place(i), i.is_loopback != is_one_host, is_for_guests(&i.name), i.address.is_ipv6())
    });
    Ok(usable)
}

/// Whether a name is usual for interfaces of virtual machines, containers or tunnels.
fn is_for_guests(name: &str) -> bool {
    ["docker", "br-", "virbr", "lxc", "lxd", "vmnet", "vboxnet", "cni", "tun", "tap", "wg"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Whether an address is valid only together with an interface.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn entries<'t>(
    parameter: &'static str,
    text: &'t str,
    there: &[Interface],
) -> Result<Vec<NetworkEntry<'t>>, InterfaceError> {
    let mut all = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let entry = match word.split_once('/') {
            Some((address, bits)) => {
                let network = address.parse::<IpAddr>().ok().zip(bits.parse::<u8>().ok());
                match network {
                    Some((ip, bits)) if bits <= if ip.is_ipv4() { 32 } else { 128 } => {
                        NetworkEntry::Network(ip, bits)
                    }
                    _ => return Err(InterfaceError::Syntax { parameter, entry: word.into() }),
                }
            }
            None => NetworkEntry::Name(word),
        };
        // A network may be excluded on many hosts, some of which do not have it.
        let must_be_there =
            parameter == "btl_tcp_if_include" || matches!(entry, NetworkEntry::Name(_));
        if must_be_there && !there.iter().any(|i| entry.names(i)) {
            return Err(InterfaceError::Unknown {
                parameter,
                entry: word.into(),
                there: there.to_vec(),
            });
        }
        all.push(entry);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<Interface> {
        [
            ("lo", "127.0.0.1", 8),
            ("lo", "::1", 128),
            ("eth0", "fe80::1", 64),
            ("eth0", "fd00::5", 64),
        ]
        .into_iter()
        .chain([("eth0", "10.1.2.3", 16), ("ib0", "192.168.7.9", 24)])
        .map(|(name, address, prefix)| Interface {
            name: name.into(),
            address: address.parse().unwrap(),
            prefix,
            is_loopback: name == "lo",
        })
        .collect()
    }

    fn chosen(include: &str, exclude: &str, is_one_host: bool) -> Result<String, String> {
        choose(&host(), include, exclude, is_one_host)
            .map(|all| all[0].address.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_loopback_is_for_one_host_and_parameters_are_obeyed() {
        assert_eq!(chosen("", "", true).unwrap(), "127.0.0.1");
        assert_eq!(chosen("", "", false).unwrap(), "10.1.2.3");
        assert_eq!(chosen("", "lo", true).unwrap(), "10.1.2.3");
        assert_eq!(chosen("", "127.0.0.0/8, 172.16.0.0/12", true).unwrap(), "::1");
        assert_eq!(chosen("ib0", "", true).unwrap(), "192.168.7.9");
        assert_eq!(chosen("ib0,lo", "", true).unwrap(), "192.168.7.9");
        assert_eq!(chosen("192.168.0.0/16", "", true).unwrap(), "192.168.7.9");
        assert_eq!(chosen("fd00::/8", "", true).unwrap(), "fd00::5");
        assert_eq!(chosen("10.1.2.3/32", "", true).unwrap(), "10.1.2.3");
        assert_eq!(chosen("eth0", "10.0.0.0/8", true).unwrap(), "fd00::5", "and no link-local one");
    }

    #[test]
    fn several_hosts_use_all_networks_but_the_loopback_and_those_of_guests_last() {
        let mut there = host();
        there.insert(0, Interface { name: "docker0".into(), ..there[4].clone() });
        let names = |include| -> Vec<String> {
            let all = choose(&there, include, "", false).unwrap();
            all.iter().map(|i| format!("{} {}", i.name, i.address)).collect()
        };
        let all = ["eth0 10.1.2.3", "ib0 192.168.7.9", "eth0 fd00::5", "docker0 10.1.2.3"];
        assert_eq!(names(""), all);
        assert_eq!(names("lo")[0], "lo 127.0.0.1");
        assert!(
            choose(&there[1..3], "", "", false)
                .unwrap_err()
                .to_string()
                .contains("lo (127.0.0.1/8)")
        );
    }

    #[test]
    fn an_unknown_interface_is_reported_with_the_known_ones() {
        let error = chosen("eth1", "", true).unwrap_err();
        assert!(
            error.contains("'btl_tcp_if_include': this host has no interface 'eth1'"),
            "{error}"
        );
        assert!(
            error.contains("lo (127.0.0.1/8)") && error.contains("ib0 (192.168.7.9/24)"),
            "{error}"
        );
        assert!(chosen("", "eth1", true).unwrap_err().contains("'btl_tcp_if_exclude'"));
        assert!(
            chosen("172.16.0.0/12", "", true).unwrap_err().contains("no interface '172.16.0.0/12'")
        );
        for wrong in ["10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/x", "/8"] {
            assert!(chosen(wrong, "", true).unwrap_err().contains("ADDRESS/BITS"), "{wrong}");
        }
        assert!(chosen("ib0", "ib0", true).unwrap_err().contains("leave no interface of lo"));
        assert!(
            choose(&[], "", "", true).unwrap_err().to_string().contains("not even its loopback")
        );
    }
}
