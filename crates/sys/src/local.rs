//! Sockets with abstract names (unix(7)), for processes of one user on one machine.
//!
//! The name is in no file system: it vanishes with the last descriptor of its socket, also after a
//! crash. Messages keep their boundaries and can carry a descriptor, as in [`crate::fdpass`]. Every
//! process in the same network namespace can connect or take a name, so each side checks the
//! identity of the other ([`peer`]).

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect as connect_to, listen, socket_with,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

const BACKLOG: i32 = 256;

/// The process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// The process that has called connect(2) or listen(2).
    pub pid: i32,
    /// Its user at that time.
    pub user: u32,
}

fn socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Listens under a name (at most 107 bytes).
pub fn listen_as(name: &str) -> io::Result<OwnedFd> {
    let socket = socket()?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Takes a name for a stream socket; stream names are separate from others. Connections are refused
/// until [`listen_on`].
pub fn bind_stream(name: &str) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok(socket)
}

/// Listens on a socket with a name. For the connecting side, [`peer`] is the process that calls
/// this.
pub fn listen_on(socket: impl AsFd) -> io::Result<()> {
    Ok(listen(socket, BACKLOG)?)
}

/// Connects to the stream socket of this name. Does not wait; the returned socket is blocking.
/// Errors: `ConnectionRefused` if no process listens under this name; the errors of connect(2).
pub fn connect_stream(name: &str) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    connect_to(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok(socket)
}

/// Connects to the socket of this name. Does not wait. Errors: `ConnectionRefused` if no process
/// has this name, `WouldBlock` if the listener's backlog is full.
pub fn connect(name: &str) -> io::Result<OwnedFd> {
    let socket = socket()?;
    connect_to(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok(socket)
}

/// Accepts the next connection; `None` if there is none.
pub fn accept(listener: impl AsFd) -> io::Result<Option<OwnedFd>> {
    loop {
        match accept_with(&listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => return Ok(Some(socket)),
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The process at the other end (SO_PEERCRED). Errors: the error of getsockopt(2), or an error if
/// that process is in another PID namespace and has no number here.
pub fn peer(socket: impl AsFd) -> io::Result<PeerCredentials> {
    known(credentials(socket)?)
}

/// The user of the process at the other end, in any PID namespace.
pub fn peer_user(socket: impl AsFd) -> io::Result<u32> {
    Ok(credentials(socket)?.uid)
}

fn credentials(socket: impl AsFd) -> io::Result<libc::ucred> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes, which `credentials` has, and any bytes are a
    // valid ucred; the descriptor is open during the call. rustix's wrapper cannot represent pid 0.
    let done = unsafe {
        let to = (&raw mut credentials).cast();
        let fd = socket.as_fd().as_raw_fd();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut size)
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(credentials)
}

fn known(credentials: libc::ucred) -> io::Result<PeerCredentials> {
    match credentials.pid {
        1.. => Ok(PeerCredentials { pid: credentials.pid, user: credentials.uid }),
        _ => Err(io::Error::other("its process is in another PID namespace")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fdpass;

    #[test]
    fn a_stream_has_a_name_before_somebody_listens() {
        let name = format!("oxmpi-test-stream-{}", std::process::id());
        let taken = bind_stream(&name).unwrap();
        assert_eq!(bind_stream(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(connect_stream(&name).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        listen_on(&taken).unwrap();
        let ours = connect_stream(&name).unwrap();
        let theirs = accept(&taken).unwrap().unwrap();
        let own = PeerCredentials {
            pid: std::process::id().cast_signed(),
            user: rustix::process::geteuid().as_raw(),
        };
        assert_eq!((peer(&ours).unwrap(), peer(&theirs).unwrap()), (own, own));
    }

    #[test]
    fn a_process_without_a_number_here_is_refused() {
        let error = known(libc::ucred { pid: 0, uid: 1, gid: 1 }).unwrap_err();
        assert!(error.to_string().contains("PID namespace"));
        assert_eq!(
            known(libc::ucred { pid: 7, uid: 1, gid: 1 }).unwrap(),
            PeerCredentials { pid: 7, user: 1 }
        );
    }

    #[test]
    fn a_name_is_found_as_long_as_somebody_listens() {
        let name = format!("oxmpi-test-{}", std::process::id());
        let refused = || connect(&name).unwrap_err().kind();
        assert_eq!(refused(), io::ErrorKind::ConnectionRefused);
        let listener = listen_as(&name).unwrap();
        assert_eq!(listen_as(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(accept(&listener).unwrap().is_none());
        let ours = connect(&name).unwrap();
        let theirs = accept(&listener).unwrap().unwrap();
        let me = PeerCredentials {
            pid: std::process::id().cast_signed(),
            user: rustix::process::getuid().as_raw(),
        };
        assert_eq!((peer(&ours).unwrap(), peer(&theirs).unwrap()), (me, me));
        fdpass::send(&ours, b"hello", None).unwrap();
        assert_eq!(fdpass::receive(&theirs, &mut [0; 8]).unwrap().0, 5);
        drop(listener);
        assert_eq!(refused(), io::ErrorKind::ConnectionRefused);
    }
}
