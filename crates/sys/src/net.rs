//! Sockets and the networks of this host: nonblocking, close-on-exec, without SIGPIPE.

use crate::bytes::{Bytes, BytesMut};
use crate::descriptor::Descriptor;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, acceptfrom_with, bind, connect,
    getpeername, getsockname, ipproto, listen, recv, send, shutdown, socket_with, sockopt,
};
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Pieces of memory that one call of the kernel takes at most here. Its own limit is 1024 (IOV_MAX), and that on the bytes
/// of a call 0x7ffff000, beyond which it takes a part.
pub const MAX_PIECES: usize = 16;

/// Bytes that are sent from one place, wherever they lie.
const GATHERED: usize = 512;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// One end of a connection, or of one that is being made.
#[derive(Debug)]
pub struct Socket(Descriptor);

/// Why a socket did not take what was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room; an event tells when there is.
    Full,
    /// The bytes are not where they should be: the program's memory is not mapped.
    BadAddress,
    /// The kernel has no memory; no event tells when it has.
    NoMemory,
    /// The connection is over; what came before can still be received, and then its end.
    Ended,
    /// Anything else.
    Other,
}

impl Socket {
    /// Begins to connect. The socket becomes writable when that is over, one way or the other: see
    /// [`Socket::outcome`]. `buffers` is how many bytes the kernel shall buffer in each direction, if not as many as it
    /// likes.
    ///
    /// # Errors
    /// What socket(2) or connect(2) says at once.
    pub fn connect(to: SocketAddr, buffers: Option<usize>) -> io::Result<Socket> {
        let fd = socket_with(family(to), SocketType::STREAM, FLAGS, Some(ipproto::TCP))?;
        set_buffers(fd.as_fd(), buffers)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        match connect(&fd, &to) {
            // An interrupted connect goes on as if it had not been (connect(2)).
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(Socket(Descriptor::new(fd)?)),
            Err(error) => Err(error.into()),
        }
    }

    /// The process was restored from an image, which keeps no connections: a socket without one is in place of this one. It is closed
    /// with it from now on.
    pub fn adopt(&mut self) {
        self.0.adopt(is_left_behind);
    }

    /// How the attempt to connect has ended, asked once when the socket is writable.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn outcome(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&*self.0)??)
    }

    /// Sends as much of the pieces, one after the other, as there is room for, and returns how much that was. Only the
    /// first [`MAX_PIECES`] that are not empty are looked at.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room at all; else what sendmsg(2) says, such as `ConnectionReset`.
    pub fn send(&self, pieces: &[Bytes<'_>]) -> io::Result<usize> {
        let all: usize = pieces.iter().map(Bytes::len).sum();
        if all <= GATHERED {
            return self.send_gathered(pieces, all);
        }
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_PIECES];
        let mut count = 0;
        for (vector, piece) in vectors.iter_mut().zip(pieces.iter().filter(|piece| !piece.is_empty())) {
            *vector = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
            count += 1;
        }
        // SAFETY: all zeros is a valid msghdr: no address, no vectors, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = count;
        loop {
            // SAFETY: the vectors live here, and the pieces that they name stay mapped during the call; the kernel only
            // reads them.
            let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
            if sent >= 0 {
                return Ok(sent.cast_unsigned());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// As [`Socket::send`], for at most [`GATHERED`] bytes: to copy them costs less than to describe the pieces to the kernel.
    fn send_gathered(&self, pieces: &[Bytes<'_>], all: usize) -> io::Result<usize> {
        let mut gathered = [0; GATHERED];
        let mut at = 0;
        for piece in pieces {
            piece.copy_to(BytesMut::from(&mut gathered[at..at + piece.len()]));
            at += piece.len();
        }
        self.send_bytes(&gathered[..all])
    }

    /// What follows from an error of [`Socket::send`].
    pub fn refusal(error: &io::Error) -> Refusal {
        match error.raw_os_error() {
            Some(libc::EAGAIN) => Refusal::Full,
            Some(libc::EFAULT) => Refusal::BadAddress,
            Some(libc::ENOMEM | libc::ENOBUFS) => Refusal::NoMemory,
            Some(libc::EPIPE | libc::ECONNRESET | libc::ETIMEDOUT) => Refusal::Ended,
            _ => Refusal::Other,
        }
    }

    /// Receives what is there, at most as much as fits; 0 at the end of the other side.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing; else what recv(2) says.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(&*self.0, &mut *into, RecvFlags::empty()) {
                Ok((n, _)) => return Ok(n),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives into the memory of both, one after the other, what is there; the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there; `InvalidInput` (EFAULT) if the memory is not mapped; else what recvmsg(2) says.
    pub fn receive_two(&self, first: &mut BytesMut<'_>, second: &mut [u8]) -> io::Result<usize> {
        let mut vectors = [
            libc::iovec { iov_base: first.as_mut_ptr().cast(), iov_len: first.len() },
            libc::iovec { iov_base: second.as_mut_ptr().cast(), iov_len: second.len() },
        ];
        // SAFETY: all zeros is a valid msghdr: no address, no vectors, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = vectors.len();
        loop {
            // SAFETY: the vectors live here and name memory that the two arguments lend to be written, for as long as this call.
            let got = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
            if got >= 0 {
                return Ok(got.cast_unsigned());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Receives what is there, at most as much as fits, as [`Socket::receive`] into memory that others may use.
    ///
    /// # Errors
    /// As [`Socket::receive_two`].
    pub fn receive_into(&self, into: &mut BytesMut<'_>) -> io::Result<usize> {
        loop {
            // SAFETY: the argument lends this memory to be written, for as long as this call.
            let got = unsafe { libc::recv(self.0.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), 0) };
            if got >= 0 {
                return Ok(got.cast_unsigned());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Sends as much of the bytes as there is room for, and returns how much that was.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub fn send_bytes(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(&*self.0, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => return Ok(sent),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether both ends of the connection are on this host, or at least in this network namespace: they have the same address, or
    /// addresses of the loopback. `false` if there is no connection.
    pub fn is_within_host(&self) -> bool {
        let ip = |address: rustix::net::SocketAddrAny| {
            SocketAddr::try_from(address).map(|at| at.ip().to_canonical())
        };
        match (getsockname(&*self.0).map(ip), getpeername(&*self.0).map(|peer| peer.map(ip))) {
            (Ok(Ok(own)), Ok(Some(Ok(peer)))) => own == peer || own.is_loopback() && peer.is_loopback(),
            _ => false,
        }
    }

    /// Chooses the plain congestion control (RFC 5681) if both ends of the connection are on this host: there is no network
    /// between them that could be congested, and what the administrator has chosen for networks may pace what is sent (BBR does),
    /// or take long for each acknowledgement.
    pub fn tune_within_host(&self) {
        if self.is_within_host() {
            // Every kernel has it, and lets everybody use it. If not, the connection works as it is.
            let _ = sockopt::set_tcp_congestion(&*self.0, "reno");
        }
    }

    /// Bytes that the other side's kernel has not acknowledged yet.
    ///
    /// # Errors
    /// What ioctl(2) says.
    pub fn unsent(&self) -> io::Result<usize> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ (tcp(7)), stores an integer where its argument points.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(usize::try_from(bytes).unwrap_or(0)) }
    }

    /// Says to the other side that nothing more comes.
    pub fn finish(&self) {
        // It fails if the connection is gone: then the other side knows.
        let _ = shutdown(&*self.0, Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A socket that others connect to.
#[derive(Debug)]
pub struct Listener(Descriptor);

/// Has the kernel end a connection (ETIMEDOUT, or what it knows of why nothing gets through) when its other end's has not
/// answered for such a time. It asks by itself when nothing is said, and the other kernel answers also for a process that is stopped.
///
/// This is for connections over which little is sent: data for which a stopped process has no room for so long count as
/// unanswered, too (tcp(7), TCP_USER_TIMEOUT).
///
/// # Errors
/// If the kernel does not know one of these options.
pub fn end_when_unanswered(fd: impl AsFd, time: Duration) -> io::Result<()> {
    let seconds = time.as_secs().clamp(1, MAX_UNANSWERED);
    // It asks first when half of the time is over, then more often, so that one answer that is lost does no harm.
    sockopt::set_tcp_keepidle(&fd, Duration::from_secs((seconds / 2).clamp(1, MAX_IDLE)))?;
    sockopt::set_tcp_keepintvl(&fd, Duration::from_secs((seconds / 10).clamp(1, MAX_IDLE)))?;
    // With the time below only that decides.
    sockopt::set_tcp_keepcnt(&fd, MAX_PROBES)?;
    sockopt::set_tcp_user_timeout(&fd, (seconds * 1000) as u32)?;
    Ok(sockopt::set_socket_keepalive(&fd, true)?)
}

/// The longest time in seconds of [`end_when_unanswered`]: the kernel counts milliseconds in 31 bits.
const MAX_UNANSWERED: u64 = 2_000_000;
/// What the kernel takes at most for the time before it asks, and between two questions, in seconds.
const MAX_IDLE: u64 = 32_767;
/// The most questions that the kernel asks.
const MAX_PROBES: u32 = 127;

/// Whether an address is this host's: one can only bind a socket to an address of one's own.
pub fn is_own(address: IpAddr) -> bool {
    !address.is_unspecified() && std::net::UdpSocket::bind((address, 0)).is_ok()
}

/// Whether this host's processes reach each other at one of its addresses, which they do over the loopback interface.
///
/// # Errors
/// Why they do not; `TimedOut` if nothing is heard for a second.
pub fn reach_own(address: IpAddr) -> io::Result<()> {
    let listener = Listener::bind(address, None)?;
    let socket = Socket::connect(listener.address()?, None)?;
    let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
    let mut fds = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::OUT)];
    match rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&second)))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => socket.outcome(),
    }
}

/// Connections that may wait to be accepted. The kernel takes less if net.core.somaxconn is less.
const BACKLOG: i32 = 4096;

impl Listener {
    /// Listens at an address, at a port of the kernel's choice, with such `buffers` for what is accepted
    /// (see [`Socket::connect`]).
    ///
    /// # Errors
    /// What socket(2), bind(2) or listen(2) says.
    pub fn bind(address: IpAddr, buffers: Option<usize>) -> io::Result<Listener> {
        let to = SocketAddr::new(address, 0);
        let fd = socket_with(family(to), SocketType::STREAM, FLAGS, Some(ipproto::TCP))?;
        // Before listen(2), because that fixes how large a window can be announced.
        set_buffers(fd.as_fd(), buffers)?;
        // What is accepted inherits it: closed connections that are in TIME_WAIT do not keep the port from the listener that a
        // restart from a checkpoint binds to it.
        sockopt::set_socket_reuseaddr(&fd, true)?;
        bind(&fd, &to)?;
        listen(&fd, BACKLOG)?;
        Ok(Listener(Descriptor::new(fd)?))
    }

    /// A listening socket that somebody else has made, such as the launcher.
    ///
    /// # Errors
    /// If the descriptor is no listening socket.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Listener> {
        if !sockopt::socket_acceptconn(&fd)? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket does not listen"));
        }
        Ok(Listener(Descriptor::new(fd)?))
    }

    /// As [`Socket::adopt`]; it does not listen any more.
    pub fn adopt(&mut self) {
        self.0.adopt(is_left_behind);
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What getsockname(2) says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let any = getsockname(&*self.0)?;
        SocketAddr::try_from(any).map_err(|_| io::Error::other("the socket has no internet address"))
    }

    /// The next connection, if there is one, and who made it.
    ///
    /// # Errors
    /// What accept(2) says, such as that there are too many open files.
    pub fn accept(&self) -> io::Result<Option<(Socket, Option<SocketAddr>)>> {
        loop {
            match acceptfrom_with(&*self.0, FLAGS) {
                Ok((fd, from)) => {
                    // It fails if the connection is gone already, which its reader will see.
                    let _ = sockopt::set_tcp_nodelay(&fd, true);
                    return Ok(Some((
                        Socket(Descriptor::new(fd)?),
                        from.and_then(|a| SocketAddr::try_from(a).ok()),
                    )));
                }
                Err(Errno::AGAIN) => return Ok(None),
                // The connection was gone before it was accepted (accept(2) names these).
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether a socket is what a restored process has instead of a connection or a listener: one of TCP, bound to nothing.
fn is_left_behind(fd: BorrowedFd<'_>) -> bool {
    let is_stream = sockopt::socket_type(fd) == Ok(SocketType::STREAM);
    let address = getsockname(fd).ok().and_then(|address| SocketAddr::try_from(address).ok());
    is_stream && address.is_some_and(|address| address.port() == 0)
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn set_buffers(fd: BorrowedFd<'_>, buffers: Option<usize>) -> io::Result<()> {
    if let Some(bytes) = buffers {
        sockopt::set_socket_send_buffer_size(fd, bytes)?;
        sockopt::set_socket_recv_buffer_size(fd, bytes)?;
    }
    Ok(())
}

/// An address of this host, and the network it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The host's address there.
    pub address: IpAddr,
    /// How many bits of it name the network.
    pub prefix: u8,
    /// Whether only this host is there.
    pub is_loopback: bool,
}

/// The addresses of the interfaces that are up.
///
/// # Errors
/// What getifaddrs(3) says.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call stores the head of a list where the argument points.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: an element of the list, which lives until freeifaddrs below.
        let entry = unsafe { &*at };
        at = entry.ifa_next;
        let flags = entry.ifa_flags;
        if flags & libc::IFF_UP as u32 == 0 {
            continue;
        }
        // SAFETY: each of the two is null or points to an address as long as its family says.
        let (address, mask) = unsafe { (ip_at(entry.ifa_addr), ip_at(entry.ifa_netmask)) };
        let Some(address) = address else { continue };
        // SAFETY: every element has a name, a C string.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let is_loopback = flags & libc::IFF_LOOPBACK as u32 != 0;
        found.push(Interface { name, address, prefix: mask.map_or(0, prefix_of), is_loopback });
    }
    // SAFETY: the list is getifaddrs's, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// The internet address at a place, if it is one.
///
/// # Safety
/// The place must be null or hold a socket address as long as its family says.
unsafe fn ip_at(place: *const libc::sockaddr) -> Option<IpAddr> {
    if place.is_null() {
        return None;
    }
    // SAFETY: not null; every socket address begins with its family. The longer ones are read as their family says.
    unsafe {
        match i32::from((*place).sa_family) {
            libc::AF_INET => {
                let v4 = place.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
            }
            libc::AF_INET6 => {
                let v6 = place.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)))
            }
            _ => None,
        }
    }
}

fn prefix_of(mask: IpAddr) -> u8 {
    match mask {
        IpAddr::V4(v4) => v4.to_bits().leading_ones() as u8,
        IpAddr::V6(v6) => v6.to_bits().leading_ones() as u8,
    }
}

/// Fills `bytes` with what nobody can guess.
///
/// # Errors
/// What getrandom(2) says.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[at..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => at += n,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poller::Poller;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn connected() -> (Socket, Socket) {
        let listener = Listener::bind(LOOPBACK, None).unwrap();
        let poller = Poller::new().unwrap();
        poller.add(&listener, 1, false).unwrap();
        let ours = Socket::connect(listener.address().unwrap(), None).unwrap();
        poller.wait(Some(Duration::from_secs(10)));
        let (theirs, _) = listener.accept().unwrap().unwrap();
        ours.outcome().unwrap();
        (ours, theirs)
    }

    #[test]
    fn what_is_sent_in_parts_arrives_in_order() {
        let (a, b) = connected();
        let data: Vec<u8> = (0..20_000_000u32).map(|i| (i / 7) as u8).collect();
        let (mut sent, mut got) = (0, Vec::new());
        let mut buffer = vec![0; 1 << 20];
        while got.len() < data.len() {
            // Until there is no room, and there is never room for all.
            while sent < data.len() {
                let middle = sent + (data.len() - sent) / 2;
                match a.send(&[Bytes::from(&data[sent..middle]), Bytes::from(&data[middle..])]) {
                    Ok(n) => sent += n,
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        break;
                    }
                }
            }
            match b.receive(&mut buffer) {
                Ok(n) => got.extend_from_slice(&buffer[..n]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert!(got == data);
        drop(a);
        assert_eq!(b.receive(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn more_bytes_than_a_call_takes_and_more_pieces_are_taken_in_part() {
        let (a, _b) = connected();
        // The same megabyte many times: no call takes 2 GiB, nor 2000 pieces.
        let megabyte = vec![1u8; 1 << 20];
        let pieces = vec![Bytes::from(&megabyte[..]); 2000];
        let sent = a.send(&pieces).unwrap();
        assert!(sent > 0 && sent <= MAX_PIECES << 20, "{sent}");
        let small = vec![Bytes::from(b"x"); 2000];
        let (a, b) = connected();
        assert_eq!(a.send(&small).unwrap(), MAX_PIECES);
        let mut buffer = [0; 64];
        let poller = Poller::new().unwrap();
        poller.add(&b, 1, false).unwrap();
        poller.wait(Some(Duration::from_secs(10)));
        assert_eq!(b.receive(&mut buffer).unwrap(), MAX_PIECES);
    }

    #[test]
    fn a_refused_connection_says_so() {
        let address = Listener::bind(LOOPBACK, None).unwrap().address().unwrap();
        let error = match Socket::connect(address, None) {
            Err(error) => error,
            Ok(socket) => {
                let poller = Poller::new().unwrap();
                poller.add(&socket, 1, true).unwrap();
                poller.wait(Some(Duration::from_secs(10)));
                socket.outcome().unwrap_err()
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let (socket, peer) = connected();
        drop(peer);
        let mut result = Ok(0);
        for _ in 0..1000 {
            result = socket.send(&[Bytes::from(&[0u8; 100])]);
            if result.is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let kind = result.unwrap_err().kind();
        assert!(
            matches!(kind, io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
            "and no SIGPIPE: {kind}"
        );
    }

    #[test]
    fn any_time_is_one_after_which_a_connection_ends() {
        let (a, _b) = connected();
        for (seconds, wanted) in [(0, 1000), (1, 1000), (60, 60_000), (u64::MAX, 2_000_000_000)] {
            end_when_unanswered(&a, Duration::from_secs(seconds)).unwrap();
            assert_eq!(sockopt::tcp_user_timeout(&a).unwrap(), wanted);
        }
        assert!(sockopt::socket_keepalive(&a).unwrap());
    }

    #[test]
    fn the_loopback_is_there() {
        let all = interfaces().unwrap();
        let loopback = all.iter().find(|i| i.address == LOOPBACK).unwrap();
        assert!(loopback.is_loopback && loopback.prefix == 8, "{all:?}");
    }
}
