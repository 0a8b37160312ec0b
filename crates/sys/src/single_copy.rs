//! Single copy: one process reads or writes the memory of another (process_vm_readv(2)).
//!
//! The kernel allows it between processes of one user, unless a security module or a container
//! forbids it. Only a transfer shows that, so each pair tries one ([`RemoteProcess::probe`]).

use crate::bytes::{Bytes, BytesMut};
use std::io;

/// The most pieces in one call, on either side (the kernel's UIO_MAXIOV).
pub const PIECES_MAX: usize = 1024;

/// A range of another process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemotePiece {
    /// In the address space of that process.
    pub address: u64,
    /// In bytes.
    pub len: usize,
}

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

    /// Copies `to.len()` bytes from the remote `address` to `to`.
    ///
    /// # Errors
    /// `PermissionDenied`, EFAULT for an address that is not mapped, ESRCH if the process is gone.
    pub fn read(&self, address: u64, mut to: BytesMut<'_>) -> io::Result<()> {
        let remote = iovec(address, to.len());
        let local = iovec(to.as_mut_ptr() as u64, to.len());
        self.transfer(libc::SYS_process_vm_readv, &mut [local], &mut [remote])
    }

    /// Copies `from` to the remote `address`.
    pub fn write(&self, address: u64, from: Bytes<'_>) -> io::Result<()> {
        let remote = iovec(address, from.len());
        let local = iovec(from.as_ptr() as u64, from.len());
        self.transfer(libc::SYS_process_vm_writev, &mut [local], &mut [remote])
    }

    /// Copies the remote pieces `from`, one after another, to the local pieces `to`. The lengths of
    /// single pieces may differ.
    ///
    /// # Errors
    /// `InvalidInput` if the sums of the lengths differ or a side has more than [`PIECES_MAX`]
    /// pieces; else as [`RemoteProcess::read`], after an unknown part was copied.
    pub fn read_pieces(&self, from: &[RemotePiece], to: &mut [BytesMut<'_>]) -> io::Result<()> {
        let mut local: Vec<_> =
            to.iter_mut().map(|piece| iovec(piece.as_mut_ptr() as u64, piece.len())).collect();
        self.transfer_pieces(libc::SYS_process_vm_readv, &mut local, from)
    }

    /// Copies the local pieces `from`, one after another, to the remote pieces `to`.
    pub fn write_pieces(&self, to: &[RemotePiece], from: &[Bytes<'_>]) -> io::Result<()> {
        let mut local: Vec<_> =
            from.iter().map(|piece| iovec(piece.as_ptr() as u64, piece.len())).collect();
        self.transfer_pieces(libc::SYS_process_vm_writev, &mut local, to)
    }

    fn transfer_pieces(
        &self,
        call: libc::c_long,
        local: &mut [libc::iovec],
        remote: &[RemotePiece],
    ) -> io::Result<()> {
        let here: usize = local.iter().map(|piece| piece.iov_len).sum();
        let there: usize = remote.iter().map(|piece| piece.len).sum();
        if here != there || local.len() > PIECES_MAX || remote.len() > PIECES_MAX {
            let text = format!(
                "single copy of {there} bytes in {} pieces there and {here} bytes in {} pieces here (at most {PIECES_MAX} pieces)",
                remote.len(),
                local.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut remote: Vec<_> =
            remote.iter().map(|piece| iovec(piece.address, piece.len)).collect();
        self.transfer(call, local, &mut remote)
    }

    /// Repeats the call until all is copied: the kernel stops at 0x7ffff000 bytes and at an
    /// unmapped page.
    fn transfer(
        &self,
        call: libc::c_long,
        mut local: &mut [libc::iovec],
        mut remote: &mut [libc::iovec],
    ) -> io::Result<()> {
        loop {
            local = advance(local, 0);
            remote = advance(remote, 0);
            if local.is_empty() {
                return Ok(());
            }
            // SAFETY: `local` lists memory that is mapped (and writable, for a read) as the
            // caller's views guarantee; the kernel checks `remote`. Both arrays live during the
            // call.
            let done = unsafe {
                libc::syscall(
                    call,
                    self.pid as libc::pid_t,
                    local.as_ptr(),
                    local.len(),
                    remote.as_ptr(),
                    remote.len(),
                    0usize,
                )
            };
            if done < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            if done == 0 {
                return Err(io::Error::from_raw_os_error(libc::EFAULT));
            }
            local = advance(local, done as usize);
            remote = advance(remote, done as usize);
        }
    }
}

fn iovec(address: u64, len: usize) -> libc::iovec {
    libc::iovec { iov_base: address as *mut libc::c_void, iov_len: len }
}

/// The rest of `pieces` after their first `bytes` bytes, without empty pieces in front.
fn advance(pieces: &mut [libc::iovec], mut bytes: usize) -> &mut [libc::iovec] {
    let mut done = 0;
    for piece in pieces.iter_mut() {
        if piece.iov_len > bytes {
            piece.iov_base = piece.iov_base.cast::<u8>().wrapping_add(bytes).cast();
            piece.iov_len -= bytes;
            break;
        }
        bytes -= piece.iov_len;
        done += 1;
    }
    &mut pieces[done..]
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

    #[test]
    fn pieces_are_cut_anew() {
        let from: Vec<u8> = (0..100).collect();
        let at = from.as_ptr() as u64;
        let remote: Vec<_> = [(0, 10), (50, 0), (20, 30), (90, 10)]
            .map(|(o, len)| RemotePiece { address: at + o, len })
            .into();
        let (mut a, mut b) = ([0u8; 45], [0u8; 5]);
        me().read_pieces(&remote, &mut [BytesMut::from(&mut a[..]), BytesMut::from(&mut b[..])])
            .unwrap();
        let expected: Vec<u8> = (0..10).chain(20..50).chain(90..100).collect();
        assert_eq!([&a[..], &b[..]].concat(), expected);
        let error = me().read_pieces(&remote[..1], &mut []).unwrap_err();
        assert!(
            error.kind() == io::ErrorKind::InvalidInput
                && error.to_string().contains("10 bytes in 1"),
            "{error}"
        );
    }

    #[test]
    fn copied_pieces_are_left_out() {
        let mut pieces = [iovec(100, 0), iovec(100, 10), iovec(200, 5), iovec(300, 0)];
        let left = advance(&mut pieces, 12);
        assert_eq!(left.len(), 2);
        assert_eq!((left[0].iov_base as u64, left[0].iov_len), (202, 3));
        assert!(advance(left, 3).is_empty());
    }
}
