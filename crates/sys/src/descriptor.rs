//! Descriptors of the library's in a process that is not its own: a program may close them behind its back, as code does that
//! closes all descriptors from 3 on, and may get their numbers for files of its own.

use rustix::fs::fstat;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

/// A descriptor of which it is known what it was when it was taken. What has its number since is left alone, at its end, too.
#[derive(Debug)]
pub struct Descriptor {
    fd: ManuallyDrop<OwnedFd>,
    /// Device and inode. Sockets and files in memory have inodes of their own.
    identity: (u64, u64),
}

/// The program has closed a descriptor of the library's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("descriptor {number}, which is {what}, was closed by the program")]
pub struct Closed {
    /// Its number.
    pub number: RawFd,
    /// What it was: "OxMPI's control socket".
    pub what: &'static str,
}

impl Descriptor {
    /// Takes a descriptor that is open.
    ///
    /// # Errors
    /// What fstat(2) says.
    pub fn new(fd: OwnedFd) -> io::Result<Descriptor> {
        let identity = identity_of(fd.as_fd())?;
        Ok(Descriptor { fd: ManuallyDrop::new(fd), identity })
    }

    /// The descriptor, if it is still what it was. One system call.
    ///
    /// # Errors
    /// The program has closed `what` it is.
    pub fn get(&self, what: &'static str) -> Result<BorrowedFd<'_>, Closed> {
        match identity_of(self.fd.as_fd()) {
            Ok(identity) if identity == self.identity => Ok(self.fd.as_fd()),
            _ => Err(Closed { number: self.fd.as_raw_fd(), what }),
        }
    }
}

impl Descriptor {
    /// The process was restored from an image, and with it the descriptor, which has another identity since. If it is open and
    /// `is_it` says that it is what belongs here, it is taken for this one again. Whether it is open as this one now.
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

/// The descriptor as it was: for system calls that do no harm to what may have its number, as those of sockets fail on files.
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
            // SAFETY: it is not used again; and it is ours, or the program has put what is the same in its place.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fdpass;

    #[test]
    fn what_was_restored_is_adopted_if_it_is_of_the_same_kind() {
        let (a, b) = fdpass::pair().unwrap();
        let mut ours = Descriptor::new(a).unwrap();
        // SAFETY: both are open; the number is ours, and what it named is closed by this.
        unsafe { libc::dup2(b.as_raw_fd(), ours.fd.as_raw_fd()) };
        assert!(ours.get("a socket").is_err());
        assert!(!ours.adopt(|_| false) && ours.get("a socket").is_err());
        assert!(ours.adopt(|fd| fdpass::is_one(fd)) && ours.get("a socket").is_ok());
        assert!(ours.adopt(|_| false), "it is what it was");
    }

    #[test]
    fn what_has_taken_the_number_is_left_alone() {
        let (a, b) = fdpass::pair().unwrap();
        let ours = Descriptor::new(a).unwrap();
        assert!(ours.get("a socket").is_ok());
        // SAFETY: as a program does it; the descriptor is not closed again.
        unsafe { libc::close(ours.fd.as_raw_fd()) };
        let closed = ours.get("a socket").unwrap_err();
        assert_eq!(closed.number, ours.fd.as_raw_fd());
        assert!(closed.to_string().contains("a socket, was closed by the program"));
        // SAFETY: `b` is open; the number is free, so that nothing is closed by this.
        let other = unsafe { libc::dup2(b.as_raw_fd(), closed.number) };
        assert_eq!((other, ours.get("a socket").unwrap_err()), (closed.number, closed));
        drop(ours);
        // SAFETY: fcntl(2) only asks; then the copy is closed, which nobody else owns.
        unsafe {
            assert!(libc::fcntl(other, libc::F_GETFD) >= 0, "it was closed");
            libc::close(other);
        }
    }
}
