//! The name and the identity of this host.

/// As uname(2) reports it.
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The release of the kernel (uname(2)).
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// A number that all processes of one running kernel have in common and that differs between
/// kernels: the boot identifier, or a hash of the host name if the kernel does not show the
/// identifier.
pub fn identity() -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let digits: String =
        boot.iter().flat_map(|id| id.chars()).filter(char::is_ascii_hexdigit).collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(id) => (id >> 64) as u64 ^ id as u64,
        Err(_) => fnv1a(name().as_bytes()),
    }
}

/// The hash of Fowler, Noll and Vo: the same in every process and every build.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_identity() {
        assert_eq!(identity(), identity());
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_ne!(fnv1a(b"node1"), fnv1a(b"node2"));
    }
}
