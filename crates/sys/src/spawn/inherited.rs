//! The descriptors with which this program was started.

use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Closes all descriptors except the standard ones and `kept`, for a program that has inherited
/// descriptors by accident.
pub fn close_others(kept: &[RawFd]) {
    let mut from = 3;
    let mut kept: Vec<RawFd> = kept.iter().copied().filter(|number| *number > 2).collect();
    kept.sort_unstable();
    for end in kept.into_iter().map(|number| number - 1).chain([RawFd::MAX]) {
        if from <= end {
            // SAFETY: close_range(2) at the start of a program that has opened no descriptors
            // itself.
            unsafe { libc::syscall(libc::SYS_close_range, from, end, 0u32) };
        }
        from = end.saturating_add(2);
    }
}

/// Takes a descriptor with which this program was started, and makes it close-on-exec. `None` if it
/// is not open, or is close-on-exec: then it was taken before, or code of this process has opened
/// it.
pub fn take_inherited(number: RawFd) -> Option<OwnedFd> {
    if number <= 2 {
        return None; // the standard descriptors belong to the program
    }
    // SAFETY: fcntl(2) fails on a number that is no descriptor. The descriptor is taken only if it
    // lacks close-on-exec, so no Rust code of this process owns it.
    unsafe {
        let flags = libc::fcntl(number, libc::F_GETFD);
        if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
            return None;
        }
        if libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) < 0 {
            return None;
        }
        Some(OwnedFd::from_raw_fd(number))
    }
}

/// Whether a descriptor is open, not close-on-exec, and a file without a name, such as a memfd.
pub fn inherited_is_segment(number: RawFd) -> bool {
    inherited_mode(number)
        .is_some_and(|s| s.st_mode & libc::S_IFMT == libc::S_IFREG && s.st_nlink == 0)
}

/// Whether a descriptor is open, not close-on-exec, and a socket that keeps message boundaries.
pub fn inherited_is_control(number: RawFd) -> bool {
    if inherited_mode(number).is_none_or(|s| s.st_mode & libc::S_IFMT != libc::S_IFSOCK) {
        return false;
    }
    let mut kind: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `kind`.
    let failed = unsafe {
        libc::getsockopt(
            number,
            libc::SOL_SOCKET,
            libc::SO_TYPE,
            (&raw mut kind).cast(),
            &raw mut length,
        )
    };
    failed == 0 && kind == libc::SOCK_SEQPACKET
}

/// Whether a descriptor is an open socket whose other end is not closed.
pub fn is_live_socket(number: RawFd) -> bool {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat(2) fails on a number that is no descriptor, and fills `stat` if it succeeds.
    let is_socket = unsafe {
        number >= 0
            && libc::fstat(number, stat.as_mut_ptr()) == 0
            && stat.assume_init().st_mode & libc::S_IFMT == libc::S_IFSOCK
    };
    let mut polled = libc::pollfd { fd: number, events: 0, revents: 0 };
    // SAFETY: `polled` is one structure, which lives during the call; poll(2) accepts any number as
    // a descriptor.
    is_socket && unsafe { libc::poll(&raw mut polled, 1, 0) } >= 0 && polled.revents == 0
}

fn inherited_mode(number: RawFd) -> Option<libc::stat> {
    let mut stat = std::mem::MaybeUninit::uninit();
    // SAFETY: both calls fail on a number that is no descriptor; fstat fills `stat` if it succeeds.
    unsafe {
        let flags = libc::fcntl(number, libc::F_GETFD);
        if flags < 0 || flags & libc::FD_CLOEXEC != 0 || libc::fstat(number, stat.as_mut_ptr()) != 0
        {
            return None;
        }
        Some(stat.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn only_an_inheritable_descriptor_is_taken_and_only_once() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(take_inherited(file.as_raw_fd()).is_none(), "close-on-exec: somebody's");
        assert!(
            take_inherited(1).is_none()
                && take_inherited(-1).is_none()
                && take_inherited(9999).is_none()
        );
        // SAFETY: a new descriptor, without close-on-exec, as an exec would leave it.
        let number = unsafe { libc::dup(file.as_raw_fd()) };
        let taken = take_inherited(number).unwrap();
        assert!(take_inherited(number).is_none());
        drop(taken);
    }

    #[test]
    fn a_socket_lives_as_long_as_its_other_end() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let (a, b) = crate::fdpass::pair().unwrap();
        assert!(is_live_socket(a.as_raw_fd()));
        assert!(![-1, 9990, file.as_raw_fd()].into_iter().any(is_live_socket));
        drop(b);
        assert!(!is_live_socket(a.as_raw_fd()));
    }
}
