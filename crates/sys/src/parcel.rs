//! Parcels: packets of some kilobytes, each with an optional file, over nonblocking sockets that
//! keep packet boundaries (unix(7), SOCK_SEQPACKET).
//!
//! Longer data are in a file without a name, whose descriptor travels with the packet.

use crate::bytes::Bytes;
use crate::{fdpass, file, nameless};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

const MAX_PIECES: usize = 4;
const BUFFER: usize = 1 << 20;
const CONTROL: usize = 64;

#[repr(C, align(16))]
struct AncillaryData([u8; CONTROL]);

/// Creates two connected sockets, nonblocking and close-on-exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    for socket in [&a, &b] {
        // The default size works, too, only slower.
        let _ = sockopt::set_socket_send_buffer_size(socket, BUFFER);
    }
    Ok((a, b))
}

/// Makes a descriptor nonblocking.
pub fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    Ok(fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}

/// Sends the pieces as one packet, with a file: all or nothing. Errors: `WouldBlock` if there is no
/// room, `InvalidInput` if there are more than four pieces, otherwise the error of sendmsg(2), such
/// as `BrokenPipe`, or `ConnectionReset` if the other side has ended with packets unread.
/// [`is_full`] recognises the temporary errors.
pub fn send(
    socket: impl AsFd,
    pieces: &[Bytes<'_>],
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    if pieces.len() > MAX_PIECES {
        let text = format!("a packet of {} pieces: it has at most {MAX_PIECES}", pieces.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_PIECES];
    for (vector, piece) in vectors.iter_mut().zip(pieces) {
        *vector = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
    }
    let mut ancillary = AncillaryData([0; CONTROL]);
    // SAFETY: all zeros is a valid msghdr: no address, no vectors, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = pieces.len();
    if let Some(file) = file {
        message.msg_control = ancillary.0.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE only computes a size.
        message.msg_controllen =
            unsafe { libc::CMSG_SPACE(size_of::<libc::c_int>() as u32) } as usize;
        // SAFETY: the ancillary data are CONTROL aligned bytes, which have room for a header and
        // one descriptor. So the first header exists, and the descriptor is written behind it.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as u32) as usize;
            libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(file.as_raw_fd());
        }
    }
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: the vectors and the ancillary data live here, and the pieces stay mapped during the
    // call, which only reads.
    file::until_done(|| unsafe {
        libc::sendmsg(number, &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    })
    .map(drop)
}

/// Whether an error of [`send`] is temporary. After errors other than `WouldBlock` the socket does
/// not become writable when the state ends.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EAGAIN
                | libc::ENOBUFS
                | libc::ENOMEM
                | libc::ETOOMANYREFS
                | libc::EMFILE
                | libc::ENFILE
        )
    )
}

/// Whether the memory of the packet cannot be read.
pub fn is_bad_address(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

/// Receives a packet. Returns its length (0: the other side has ended) and its file. Errors:
/// `WouldBlock` if there is none, `InvalidData` if it is too long, otherwise the error of
/// recvmsg(2).
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    fdpass::receive(socket, bytes)
}

/// Waits until the socket has room for a packet, or the other side has ended, or `time` is over.
pub fn wait_for_room(socket: impl AsFd, time: Duration) {
    wait_for(socket, PollFlags::OUT, time);
}

/// Waits until a packet has come, or the other side has ended, or `time` is over.
pub fn wait_for_packet(socket: impl AsFd, time: Duration) {
    wait_for(socket, PollFlags::IN, time);
}

fn wait_for(socket: impl AsFd, what: PollFlags, time: Duration) {
    let time =
        Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
    // An interrupted wait ends early: the caller tries again.
    let _ = poll(&mut [PollFd::new(&socket, what)], Some(&time));
}

/// Creates an empty file without a name.
pub fn new_file() -> io::Result<OwnedFd> {
    nameless::create("oxmpi-message")
}

/// Writes all bytes from `offset` of a file on.
pub fn write_all(to: impl AsFd, bytes: Bytes<'_>, offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file::write_at(
            to.as_fd(),
            bytes.slice(done, bytes.len() - done),
            offset + done as u64,
        )? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => done += n,
        }
    }
    Ok(())
}

/// Fills `to` from `offset` of a file on. Errors: `UnexpectedEof` if the file is shorter; the error
/// of pread(2).
pub fn read_all(from: impl AsFd, to: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < to.len() {
        match file::read_at(from.as_fd(), (&mut to[done..]).into(), offset + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => done += n,
        }
    }
    Ok(())
}

/// Whether a descriptor is a file of at least `length` bytes.
pub fn has_length(file: impl AsFd, length: u64) -> bool {
    fstat(&file).is_ok_and(|stat| u64::try_from(stat.st_size).is_ok_and(|size| size >= length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_whole_with_its_file_or_not_at_all() {
        let (a, b) = pair().unwrap();
        let file = new_file().unwrap();
        write_all(&file, Bytes::from(b"content"), 0).unwrap();
        assert!(has_length(&file, 7) && !has_length(&file, 8));
        send(&a, &[Bytes::from(b"one, "), Bytes::empty(), Bytes::from(b"two")], Some(file.as_fd()))
            .unwrap();
        drop(file);
        let mut bytes = [0; 16];
        let (n, file) = receive(&b, &mut bytes).unwrap();
        assert_eq!(&bytes[..n], b"one, two");
        let mut content = [0; 7];
        read_all(file.unwrap(), &mut content, 0).unwrap();
        assert_eq!(&content, b"content");
        assert_eq!(receive(&b, &mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);

        let long = vec![1u8; 60_000];
        let mut sent = 0;
        let error = loop {
            match send(&a, &[Bytes::from(&long[..])], None) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert!(is_full(&error) && sent > 0);
        let mut bytes = vec![0; 70_000];
        for _ in 0..sent {
            assert_eq!(receive(&b, &mut bytes).unwrap().0, long.len());
        }
        wait_for_room(&a, Duration::from_secs(5));
        send(&a, &[Bytes::from(b"again")], None).unwrap();
        wait_for_packet(&b, Duration::from_secs(5));
        assert_eq!(receive(&b, &mut bytes).unwrap().0, 5);
        drop(b);
        assert_eq!(
            send(&a, &[Bytes::from(b"x")], None).unwrap_err().kind(),
            io::ErrorKind::BrokenPipe
        );
    }
}
