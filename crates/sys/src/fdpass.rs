//! Datagrams, each with an optional file descriptor, over a Unix socket (unix(7), SCM_RIGHTS).
//!
//! The launcher and the ranks of a node exchange messages over SOCK_SEQPACKET pairs: a message
//! arrives whole or not at all and in order, and each side sees the end of the other.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair, sockopt,
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
};

pub const DATAGRAM_MAX: usize = 4096;

/// Creates two connected sockets, close-on-exec (socketpair(2)).
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Whether a descriptor is a Unix socket of type SOCK_SEQPACKET, as [`pair`] creates.
pub fn is_one(fd: impl AsFd) -> bool {
    sockopt::socket_domain(&fd) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(&fd) == Ok(SocketType::SEQPACKET)
}

/// Whether the other side has unread datagrams.
pub fn has_unread(socket: impl AsFd) -> io::Result<bool> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes a number to `bytes`, which lives during the call. For Unix sockets
    // TIOCOUTQ counts the bytes that the other side has not read (unix(7)).
    let failed = unsafe {
        libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, std::ptr::from_mut(&mut bytes))
    };
    if failed < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes > 0) }
}

/// Sends `bytes`, and `fd` with them. Waits for room unless the socket is nonblocking; does not
/// raise SIGPIPE. Errors: `InvalidInput` if `bytes` is empty (a length of 0 means the end) or
/// longer than [`DATAGRAM_MAX`], otherwise the error of sendmsg(2): `WouldBlock`, `BrokenPipe`.
pub fn send(socket: impl AsFd, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    if bytes.is_empty() || bytes.len() > DATAGRAM_MAX {
        let text = format!("a datagram of {} bytes: it must have 1 to {DATAGRAM_MAX}", bytes.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = fd.map(|fd| [fd]);
    if let Some(fds) = &fds {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(fds));
        debug_assert!(fits);
    }
    let bytes = [IoSlice::new(bytes)];
    rustix::io::retry_on_intr(|| sendmsg(&socket, &bytes, &mut ancillary, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a datagram into `bytes`. Returns its length (0 if the other side has ended) and the
/// descriptor that came with it (close-on-exec). Errors: `InvalidData` if the datagram is longer
/// than `bytes`, otherwise the error of recvmsg(2), such as `WouldBlock`.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    // Room for several descriptors: surplus ones are closed below.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let capacity = bytes.len();
    let received = loop {
        match recvmsg(
            &socket,
            &mut [IoSliceMut::new(bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            // ECONNRESET: the other side has ended with messages unread. The error comes once;
            // after it this side still receives the other side's messages, and then the end.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            other => break other?,
        }
    };
    let mut first = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            for fd in fds {
                first.get_or_insert(fd);
            }
        }
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        let text = format!("a datagram did not fit {capacity} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok((received.bytes, first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_datagrams_are_known() {
        let (a, b) = pair().unwrap();
        let (file, mut bytes) = (std::fs::File::open("/dev/null").unwrap(), [0; 8]);
        assert!(is_one(&a) && !is_one(&file) && has_unread(&file).is_err());
        assert!(!has_unread(&a).unwrap());
        send(&a, b"abc", Some(file.as_fd())).unwrap();
        assert!(has_unread(&a).unwrap() && !has_unread(&b).unwrap());
        receive(&b, &mut bytes).unwrap();
        assert!(!has_unread(&a).unwrap());
    }

    #[test]
    fn a_descriptor_travels_with_its_datagram() {
        let (a, b) = pair().unwrap();
        let (c, d) = pair().unwrap();
        send(&a, b"with", Some(c.as_fd())).unwrap();
        send(&a, b"without", None).unwrap();
        let mut bytes = [0; 16];
        let (len, fd) = receive(&b, &mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"with");
        let fd = fd.unwrap();
        let flags = rustix::io::fcntl_getfd(&fd).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        send(&fd, b"through", None).unwrap();
        assert_eq!(receive(&d, &mut bytes).unwrap().0, 7);
        let (len, none) = receive(&b, &mut bytes).unwrap();
        assert!(len == 7 && none.is_none());
        drop(a);
        assert_eq!(receive(&b, &mut bytes).unwrap().0, 0);
    }

    #[test]
    fn last_words_come_although_messages_were_left_unread() {
        let (a, b) = pair().unwrap();
        send(&a, b"last", None).unwrap();
        send(&b, b"unread", None).unwrap();
        drop(a);
        let mut bytes = [0; 16];
        assert_eq!(receive(&b, &mut bytes).unwrap().0, 4);
        assert_eq!(receive(&b, &mut bytes).unwrap().0, 0);
    }

    #[test]
    fn datagrams_that_do_not_fit_are_refused() {
        let (a, b) = pair().unwrap();
        assert_eq!(send(&a, b"", None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(
            send(&a, &[0; DATAGRAM_MAX + 1], None).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        send(&a, b"longer than two", None).unwrap();
        let error = receive(&b, &mut [0; 2]).unwrap_err();
        assert!(error.kind() == io::ErrorKind::InvalidData && error.to_string().contains('2'));
    }
}
