//! Descriptors that the library opens in the user's process. The program may close them, as code
//! that closes all descriptors from 3 on does, and may reuse their numbers for its own files.

use rustix::fs::fstat;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

/// A descriptor with the identity of its file. If the program has closed it and reused its number
/// for another file, nothing is done to that file, also on drop.
#[derive(Debug)]
pub struct Descriptor {
    fd: ManuallyDrop<OwnedFd>,
    /// Device and inode. Sockets and files in memory have inodes of their own.
    identity: (u64, u64),
}

/// The program has closed a descriptor of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("descriptor {number}, which is {what}, was closed by the program")]
pub struct Closed {
    pub number: RawFd,
    /// The purpose of the descriptor, such as "OxMPI's control socket".
    pub what: &'static str,
}

impl Descriptor {
    /// Takes an open descriptor and reads its identity by fstat(2).
    pub fn new(fd: OwnedFd) -> io::Result<Descriptor> {
        let identity = identity_of(fd.as_fd())?;
        Ok(Descriptor { fd: ManuallyDrop::new(fd), identity })
    }

    /// The descriptor, after a check by one system call that it is still the same file. Errors: the
    /// program has closed the descriptor; `what` names its purpose in the message.
    pub fn get(&self, what: &'static str) -> Result<BorrowedFd<'_>, Closed> {
        match identity_of(self.fd.as_fd()) {
            Ok(identity) if identity == self.identity => Ok(self.fd.as_fd()),
            _ => Err(Closed { number: self.fd.as_raw_fd(), what }),
        }
    }
}

impl Descriptor {
    /// Takes the new identity of the file after a restore of the process from an image, if the
    /// number is open and `is_it` accepts the file. Returns whether the descriptor is valid now.
    pub fn adopt(&mut self, is_it: impl FnOnce(BorrowedFd<'_>) -> bool) -> bool {
        match identity_of(self.fd.as_fd()) {
            Ok(identity) if identity == self.identity => true,
            Ok(identity) if is_it(self.fd.as_fd()) => {
                self.identity = identity;
                true
            }
            _ => false,
        }
    }
}

/// The descriptor without a check, for system calls that do no harm to another file with its
/// number, such as calls for sockets, which fail on files.
impl Deref for Descriptor {
    type Target = OwnedFd;

    #[inline(always)]
    fn deref(&self) -> &OwnedFd {
        &self.fd
    }
}

fn identity_of(fd: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let stat = fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.get("").is_ok() {
            // SAFETY: `fd` is not used again, and its number still refers to its file.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fdpass;

    #[test]
    fn a_restored_descriptor_is_adopted_if_it_is_of_the_same_kind() {
        let (a, b) = fdpass::pair().unwrap();
        let mut ours = Descriptor::new(a).unwrap();
        // SAFETY: both descriptors are open and owned here; dup2(2) replaces a file.
        unsafe { libc::dup2(b.as_raw_fd(), ours.fd.as_raw_fd()) };
        assert!(ours.get("a socket").is_err());
        assert!(!ours.adopt(|_| false) && ours.get("a socket").is_err());
        assert!(ours.adopt(|fd| fdpass::is_one(fd)) && ours.get("a socket").is_ok());
        assert!(ours.adopt(|_| false), "it is what it was");
    }

    #[test]
    fn another_file_with_the_same_number_is_left_alone() {
        let (a, b) = fdpass::pair().unwrap();
        let ours = Descriptor::new(a).unwrap();
        assert!(ours.get("a socket").is_ok());
        // SAFETY: closes the number as a program would; the descriptor is not closed again.
        unsafe { libc::close(ours.fd.as_raw_fd()) };
        let closed = ours.get("a socket").unwrap_err();
        assert_eq!(closed.number, ours.fd.as_raw_fd());
        assert!(closed.to_string().contains("a socket, was closed by the program"));
        // SAFETY: `b` is open; the number is free, so dup2(2) closes nothing.
        let other = unsafe { libc::dup2(b.as_raw_fd(), closed.number) };
        assert_eq!((other, ours.get("a socket").unwrap_err()), (closed.number, closed));
        drop(ours);
        // SAFETY: F_GETFD only reads; close(2) then ends the copy, which only this test owns.
        unsafe {
            assert!(libc::fcntl(other, libc::F_GETFD) >= 0, "it was closed");
            libc::close(other);
        }
    }
}
