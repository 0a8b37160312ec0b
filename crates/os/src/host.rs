//! Who this host is.

/// The host's name, as uname(2) knows it.
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
