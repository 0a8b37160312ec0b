//! The library, and the devices and ports of this machine.

use crate::declarations::{
    DeviceAttr, IBV_LINK_LAYER_ETHERNET, IBV_PORT_ACTIVE, IbvContext, Opaque, PortAttr,
    VerbsSymbols,
};
use crate::limits::AtomicScope;
use libc::c_int;
use oxmpi_sys::foreign::{ForeignLibrary, LibraryError, LibraryTexts, keep_signals, text};
use std::fmt;
use std::mem::zeroed;
use std::sync::Arc;

/// libibverbs' file name for the loader.
pub const LIBRARY: &str = "libibverbs.so.1";

static VERBS: LibraryTexts = LibraryTexts {
    name: "libibverbs",
    needed: "libibverbs",
    remedy: "install it (Debian: libibverbs1 and ibverbs-providers), \
             or name its file by the parameter rpi_ib_library",
};

/// The reason why InfiniBand cannot be used, with a text for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerbsError {
    #[error("libibverbs, device {device}: {call} says: {why}")]
    Call { device: String, call: &'static str, errno: i32, why: String },
    #[error(
        "rpi_ib_num_envelopes is {envelopes}, and device {device} has room for at most {most} {what}: {remedy}"
    )]
    Limit { device: String, envelopes: u32, most: u32, what: &'static str, remedy: &'static str },
    #[error("device {device} has no more {what}")]
    Exhausted { device: String, what: &'static str },
}

impl VerbsError {
    /// Whether a limit is reached: on locked memory, or of a resource of the device.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            VerbsError::Call { errno, .. } => [libc::ENOMEM, libc::EAGAIN].contains(errno),
            VerbsError::Exhausted { .. } => true,
            _ => false,
        }
    }
}

/// libibverbs, loaded into this program for good, as its providers are.
#[derive(Debug)]
pub struct VerbsLibrary {
    pub(crate) symbols: VerbsSymbols,
    library: ForeignLibrary,
}

impl fmt::Display for VerbsLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.library.fmt(f)
    }
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePort {
    /// From 1.
    pub number: u8,
    /// As in ibv_query_port(3); 4 is active.
    pub state: i32,
    /// The active MTU in bytes.
    pub mtu: usize,
    /// The port's limit in bytes.
    pub max_mtu: usize,
    /// The local identifier; 0 over Ethernet.
    pub lid: u16,
    /// RoCE.
    pub is_ethernet: bool,
    /// The global identifier in use, with its index in the port's table.
    pub gid: Option<(u8, [u8; 16])>,
}

impl DevicePort {
    /// Whether the port carries data.
    pub fn is_active(&self) -> bool {
        self.state == IBV_PORT_ACTIVE
    }

    /// The name of the state.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            1 => "down",
            2 => "initialising",
            3 => "armed",
            4 => "active",
            5 => "active, deferred",
            _ => "unknown",
        }
    }
}

/// A device, as its driver reported it when it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub name: String,
    /// Empty if the device could not be opened.
    pub ports: Vec<DevicePort>,
    pub atomics: AtomicScope,
    /// The reason why the device could not be opened.
    pub trouble: Option<String>,
}

fn mtu_bytes(number: c_int) -> usize {
    if (1..=5).contains(&number) { 128 << number } else { 0 }
}

/// An open context, closed on drop.
pub(crate) struct OpenContext {
    library: Arc<VerbsLibrary>,
    pub(crate) raw: *mut IbvContext,
}

impl Drop for OpenContext {
    fn drop(&mut self) {
        // SAFETY: it is open, and the adapter drops it after all objects made from it.
        unsafe { (self.library.symbols.ibv_close_device)(self.raw) };
    }
}

impl VerbsLibrary {
    /// Loads the library `name`: a file name as the loader takes it.
    pub fn open(name: &str) -> Result<Arc<VerbsLibrary>, LibraryError> {
        let library = ForeignLibrary::open(&VERBS, name)?;
        let symbols = VerbsSymbols::of(&library)?;
        keep_signals(|| fork_safely(&library));
        Ok(Arc::new(VerbsLibrary { symbols, library }))
    }

    #[cfg(test)]
    pub(crate) fn with_symbols(symbols: VerbsSymbols) -> Arc<VerbsLibrary> {
        let library = ForeignLibrary::open(&VERBS, "libc.so.6").unwrap();
        Arc::new(VerbsLibrary { symbols, library })
    }

    /// The devices of this machine and the states of their ports.
    pub fn devices(self: &Arc<VerbsLibrary>) -> Result<Vec<Device>, VerbsError> {
        self.each_device(|name, raw| {
            let found = self.open_context(name, raw).and_then(|context| {
                let atomics = AtomicScope::of(&self.query_device(name, &context)?);
                Ok((self.ports(name, &context)?, atomics, None))
            });
            let nothing =
                |error: VerbsError| (Vec::new(), AtomicScope::None, Some(error.to_string()));
            let (ports, atomics, trouble) = found.unwrap_or_else(nothing);
            Some(Device { name: name.to_string(), ports, atomics, trouble })
        })
    }

    pub(crate) fn open_named(
        self: &Arc<VerbsLibrary>,
        wanted: &str,
    ) -> Result<OpenContext, VerbsError> {
        let found =
            self.each_device(|name, raw| (name == wanted).then(|| self.open_context(name, raw)))?;
        found
            .into_iter()
            .next()
            .unwrap_or_else(|| Err(self.error(wanted, "ibv_get_device_list", libc::ENODEV)))
    }

    fn each_device<T>(
        self: &Arc<VerbsLibrary>,
        of: impl FnMut(&str, *mut Opaque) -> Option<T>,
    ) -> Result<Vec<T>, VerbsError> {
        // The first list starts libibverbs, which opens the drivers of the devices; a driver starts
        // with its first device.
        keep_signals(|| self.list_devices(of))
    }

    fn list_devices<T>(
        self: &Arc<VerbsLibrary>,
        mut of: impl FnMut(&str, *mut Opaque) -> Option<T>,
    ) -> Result<Vec<T>, VerbsError> {
        let mut count = 0;
        // SAFETY: it writes the number of devices, and returns a list that ends with null.
        let list = unsafe { (self.symbols.ibv_get_device_list)(&mut count) };
        if list.is_null() {
            let errno = last_errno();
            // A kernel without the subsystem has no devices.
            if errno == libc::ENOSYS {
                return Ok(Vec::new());
            }
            return Err(self.error("(any)", "ibv_get_device_list", errno));
        }
        let mut all = Vec::new();
        for at in 0..count.max(0) as usize {
            // SAFETY: the list has `count` devices, and exists until it is freed below.
            unsafe {
                let device = *list.add(at);
                let name = text((self.symbols.ibv_get_device_name)(device));
                all.extend(of(&name, device));
            }
        }
        // SAFETY: the list is the library's; open contexts keep their devices.
        unsafe { (self.symbols.ibv_free_device_list)(list) };
        Ok(all)
    }

    fn open_context(
        self: &Arc<VerbsLibrary>,
        name: &str,
        device: *mut Opaque,
    ) -> Result<OpenContext, VerbsError> {
        // SAFETY: a device of a list that is not freed yet.
        let raw = unsafe { (self.symbols.ibv_open_device)(device) };
        if raw.is_null() {
            return Err(self.error(name, "ibv_open_device", last_errno()));
        }
        Ok(OpenContext { library: self.clone(), raw })
    }

    pub(crate) fn query_device(
        &self,
        name: &str,
        context: &OpenContext,
    ) -> Result<DeviceAttr, VerbsError> {
        // SAFETY: zeros are valid for this structure of numbers; the call fills it.
        let (attr, answer) = unsafe {
            let mut attr: DeviceAttr = zeroed();
            let answer = (self.symbols.ibv_query_device)(context.raw, &mut attr);
            (attr, answer)
        };
        if answer == 0 { Ok(attr) } else { Err(self.error(name, "ibv_query_device", answer)) }
    }

    pub(crate) fn ports(
        &self,
        name: &str,
        context: &OpenContext,
    ) -> Result<Vec<DevicePort>, VerbsError> {
        let count = self.query_device(name, context)?.phys_port_cnt;
        (1..=count).map(|number| self.port(name, context, number)).collect()
    }

    fn port(
        &self,
        name: &str,
        context: &OpenContext,
        number: u8,
    ) -> Result<DevicePort, VerbsError> {
        // SAFETY: zeros are valid for these numbers; the library writes the first 48 bytes.
        let (attr, answer) = unsafe {
            let mut attr: PortAttr = zeroed();
            let answer = (self.symbols.ibv_query_port)(context.raw, number, &mut attr);
            (attr, answer)
        };
        if answer != 0 {
            return Err(self.error(name, "ibv_query_port", answer));
        }
        let is_ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
        let gids = (0..attr.gid_tbl_len.clamp(0, 255)).filter_map(|at| {
            let mut gid = [0u64; 2];
            // SAFETY: it writes 16 bytes.
            let answer = unsafe { (self.symbols.ibv_query_gid)(context.raw, number, at, &mut gid) };
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&gid[0].to_ne_bytes());
            bytes[8..].copy_from_slice(&gid[1].to_ne_bytes());
            (answer == 0 && gid != [0, 0]).then_some((at as u8, bytes))
        });
        let kind = |at: u8| gid_kind(name, number, at);
        Ok(DevicePort {
            number,
            state: attr.state,
            mtu: mtu_bytes(attr.active_mtu),
            max_mtu: mtu_bytes(attr.max_mtu),
            lid: attr.lid,
            is_ethernet,
            gid: best_gid(gids.collect(), is_ethernet, kind),
        })
    }

    pub(crate) fn error(&self, device: &str, call: &'static str, errno: c_int) -> VerbsError {
        let why = std::io::Error::from_raw_os_error(errno.abs()).to_string();
        VerbsError::Call { device: device.to_string(), call, errno: errno.abs(), why }
    }

    pub(crate) fn status(&self, status: c_int) -> String {
        // SAFETY: it returns a constant string.
        unsafe { text((self.symbols.ibv_wc_status_str)(status)) }
    }
}

/// The identifier to use: of an Ethernet port the first of RoCE version 2 for an IPv4 address, else
/// of that version, else any; of InfiniBand the first.
fn best_gid(
    gids: Vec<(u8, [u8; 16])>,
    is_ethernet: bool,
    kind: impl Fn(u8) -> String,
) -> Option<(u8, [u8; 16])> {
    if !is_ethernet {
        return gids.into_iter().next();
    }
    let rank = |(at, gid): &(u8, [u8; 16])| {
        let is_second = kind(*at).contains("v2");
        let is_ipv4 = gid[..10] == [0; 10] && gid[10..12] == [0xff; 2];
        (!is_second, !is_ipv4, *at)
    };
    gids.into_iter().min_by_key(rank)
}

/// The kernel's text for the type of an identifier.
fn gid_kind(device: &str, port: u8, at: u8) -> String {
    let file = format!("/sys/class/infiniband/{device}/ports/{port}/gid_attrs/types/{at}");
    std::fs::read_to_string(file).unwrap_or_default()
}

pub(crate) fn last_errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Calls ibv_fork_init(3), which keeps a device's memory out of forked children: their
/// copy-on-write would take its pages from the device. Must come before any device is opened.
/// Returns whether the library has the function; without it the adapter works as long as the
/// process does not fork.
fn fork_safely(library: &ForeignLibrary) -> bool {
    // SAFETY: the library's function of this name has no arguments and returns an errno.
    let init = unsafe { library.function::<unsafe extern "C" fn() -> c_int>("ibv_fork_init") };
    // SAFETY: a second call does nothing.
    init.is_ok_and(|init| unsafe { init() == 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_remedy() {
        let why = VerbsLibrary::open("/nonexistent/libibverbs.so.1").unwrap_err().to_string();
        assert!(
            why.contains("/nonexistent/libibverbs.so.1") && why.contains("rpi_ib_library"),
            "{why}"
        );
    }

    #[test]
    fn fork_protection_is_optional_and_can_be_repeated() {
        let other = ForeignLibrary::open(&VERBS, "libm.so.6").unwrap();
        assert!(!fork_safely(&other), "libm.so.6 has no such function");
        let Ok(verbs) = ForeignLibrary::open(&VERBS, LIBRARY) else {
            eprintln!(
                "skipped: this machine has no libibverbs.so.1, so only its absence was tested"
            );
            return;
        };
        assert_eq!([fork_safely(&verbs), fork_safely(&verbs)], [true; 2]);
    }

    #[test]
    fn over_ethernet_the_address_of_version_2_for_ipv4_is_used() {
        let mapped = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, last];
        let gids = vec![(0, [0xfe; 16]), (1, mapped(1)), (2, [0xfe; 16]), (3, mapped(1))];
        let kind = |at: u8| if at < 2 { "IB/RoCE v1\n" } else { "RoCE v2\n" }.to_string();
        assert_eq!(best_gid(gids.clone(), true, kind), Some((3, mapped(1))));
        assert_eq!(best_gid(gids, false, kind), Some((0, [0xfe; 16])));
    }
}
