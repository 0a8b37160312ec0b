//! Single copy: one process reads or writes the memory of another (process_vm_readv(2)).
//!
//! The kernel allows it between processes of one user, unless a security module or a container
//! forbids it. Only a transfer shows that, so each pair tries one ([`RemoteProcess::probe`]).

use crate::bytes::{Bytes, BytesMut};
use std::io;

/// Another process of this node, which itself guarantees the addresses that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteProcess {
    pub pid: u32,
}

impl RemoteProcess {
    /// Whether that process's memory is readable: the word at `address` must be `expected`.
    pub fn probe(&self, address: u64, expected: u64) -> bool {
        let mut word = [0; 8];
        self.read(address, BytesMut::from(&mut word[..])).is_ok()
            && u64::from_ne_bytes(word) == expected
    }

    /// Copies `to.len()` bytes from the remote `address` to `to`. Errors: `PermissionDenied`,
    /// EFAULT for an address that is not mapped, ESRCH if the process is gone.
    pub fn read(&self, address: u64, mut to: BytesMut<'_>) -> io::Result<()> {
        self.transfer(libc::SYS_process_vm_readv, to.as_mut_ptr() as u64, address, to.len())
    }

    /// Copies `from` to the remote `address`.
    pub fn write(&self, address: u64, from: Bytes<'_>) -> io::Result<()> {
        self.transfer(libc::SYS_process_vm_writev, from.as_ptr() as u64, address, from.len())
    }

    /// Repeats the call until all is copied: the kernel stops at 0x7ffff000 bytes and at an
    /// unmapped page. The `len` bytes at `local` are mapped, and writable for a read.
    fn transfer(&self, call: libc::c_long, local: u64, remote: u64, len: usize) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let rest = |start: u64| libc::iovec {
                iov_base: start.wrapping_add(done as u64) as *mut libc::c_void,
                iov_len: len - done,
            };
            let (here, there) = (rest(local), rest(remote));
            // SAFETY: `here` is mapped, and writable for a read, as the caller's view guarantees;
            // the kernel checks `there`.
            let copied = unsafe {
                let pid = self.pid as libc::pid_t;
                libc::syscall(call, pid, &raw const here, 1usize, &raw const there, 1usize, 0usize)
            };
            if copied < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            } else if copied == 0 {
                return Err(io::Error::from_raw_os_error(libc::EFAULT));
            } else {
                done += copied as usize;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> RemoteProcess {
        RemoteProcess { pid: std::process::id() }
    }

    #[test]
    fn bytes_come_and_go() {
        let word = 0x1234_5678_9abc_def0_u64;
        let at = std::ptr::from_ref(&word) as u64;
        assert!(me().probe(at, word) && !me().probe(at, 1) && !me().probe(8, word));
        let from = [7u8; 100];
        let mut to = [0u8; 100];
        let remote = to.as_mut_ptr() as u64;
        me().write(remote, Bytes::from(&from)).unwrap();
        assert_eq!(std::hint::black_box(&to), &from);
        me().read(remote, BytesMut::from(&mut [0u8; 0][..])).unwrap();
        assert_eq!(
            me().read(8, BytesMut::from(&mut [0u8; 1][..])).unwrap_err().raw_os_error(),
            Some(libc::EFAULT)
        );
    }
}
