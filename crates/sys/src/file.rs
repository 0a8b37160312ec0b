//! Files: reads and writes at an offset, from and to memory that other threads may write at the
//! same time, and locks on ranges of bytes.
//!
//! Each function makes one system call, which may transfer fewer bytes than requested. An
//! interrupted call is repeated.

use crate::bytes::{Bytes, BytesMut};
use rustix::fs::FallocateFlags;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The most bytes that the kernel transfers in one call.
pub const LONGEST_TRANSFER: usize = 0x7fff_f000;

fn to_off_t(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))
}

/// Makes a system call again while a signal interrupts it; a negative result is an error.
pub(crate) fn until_done(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        let result = call();
        if let Ok(done) = usize::try_from(result) {
            return Ok(done);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Reads from byte `offset` of the file on (pread(2)). Returns the length; 0 at the end.
pub fn read_at(file: BorrowedFd<'_>, mut to: BytesMut<'_>, offset: u64) -> io::Result<usize> {
    let (offset, len) = (to_off_t(offset)?, to.len().min(LONGEST_TRANSFER));
    // SAFETY: `to` is writable for `len` bytes.
    until_done(|| unsafe { libc::pread(file.as_raw_fd(), to.as_mut_ptr().cast(), len, offset) })
}

/// Writes from byte `offset` of the file on (pwrite(2)). Returns the number of bytes.
pub fn write_at(file: BorrowedFd<'_>, from: Bytes<'_>, offset: u64) -> io::Result<usize> {
    let (offset, len) = (to_off_t(offset)?, from.len().min(LONGEST_TRANSFER));
    // SAFETY: `from` is readable for `len` bytes.
    until_done(|| unsafe { libc::pwrite(file.as_raw_fd(), from.as_ptr().cast(), len, offset) })
}

/// The locks that a [`RangeLock`] excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Excludes exclusive locks only.
    Shared,
    Exclusive,
}

/// A lock on a range of bytes of a file, released on drop, and by the kernel when the process ends.
/// It belongs to the open file description: it excludes all others that have opened the file, also
/// in this process, but not threads that use the same descriptor.
#[derive(Debug)]
pub struct RangeLock<'a> {
    file: BorrowedFd<'a>,
    start: libc::off_t,
    len: libc::off_t,
}

fn set_lock(
    file: BorrowedFd<'_>,
    kind: i32,
    (start, len): (libc::off_t, libc::off_t),
    command: i32,
) -> io::Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    // SAFETY: the structure lives during the call.
    until_done(|| unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) } as isize)
        .map(drop)
}

/// Locks `len` bytes from `start` on (up to the end of the file if `len` is 0), and waits for
/// conflicting locks.
pub fn lock_range(
    file: BorrowedFd<'_>,
    kind: LockKind,
    start: u64,
    len: u64,
) -> io::Result<RangeLock<'_>> {
    let (start, len) = (to_off_t(start)?, to_off_t(len)?);
    let lock_type = match kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    };
    set_lock(file, lock_type, (start, len), libc::F_OFD_SETLKW)?;
    Ok(RangeLock { file, start, len })
}

impl Drop for RangeLock<'_> {
    fn drop(&mut self) {
        // An unlock of a held range does not fail.
        let _ = set_lock(self.file, libc::F_UNLCK, (self.start, self.len), libc::F_OFD_SETLK);
    }
}

/// Allocates the first `len` bytes of a file on its device. The file becomes at least that long.
/// Errors: the kernel's error; `Unsupported` if the file system cannot allocate.
pub fn allocate(file: impl AsFd, len: u64) -> io::Result<()> {
    let allocate = || rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len);
    Ok(rustix::io::retry_on_intr(allocate)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    #[test]
    fn bytes_come_back_and_the_end_is_reported() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(write_at(file.as_fd(), Bytes::from(&b"hello"[..]), 3).unwrap(), 5);
        let mut room = [9; 12];
        assert_eq!(read_at(file.as_fd(), BytesMut::from(&mut room[..]), 0).unwrap(), 8);
        assert_eq!(&room[..9], b"\0\0\0hello\x09");
        assert_eq!(read_at(file.as_fd(), BytesMut::from(&mut room[..]), 8).unwrap(), 0);
        let error = read_at(file.as_fd(), BytesMut::from(&mut room[..]), u64::MAX).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOVERFLOW));
        allocate(&file, 100).unwrap();
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_size, 100);
    }

    #[test]
    fn a_lock_excludes_other_open_file_descriptions() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let other = std::fs::File::options().read(true).write(true).open(path).unwrap();
        let held = lock_range(file.as_fd(), LockKind::Exclusive, 10, 5).unwrap();
        let try_lock =
            |start, len| set_lock(other.as_fd(), libc::F_WRLCK, (start, len), libc::F_OFD_SETLK);
        assert_eq!(try_lock(14, 1).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        try_lock(15, 1).unwrap();
        drop(held);
        try_lock(14, 1).unwrap();
    }
}
