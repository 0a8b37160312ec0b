//! Nonblocking sockets, and the networks of this host.

use crate::bytes::{Bytes, BytesMut};
use crate::descriptor::Descriptor;
use crate::file::until_done;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, acceptfrom_with, bind,
    connect, getpeername, getsockname, ipproto, listen, recv, send, shutdown, socket_with, sockopt,
};
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The most pieces of memory in one send. The kernel's limits are 1024 pieces (IOV_MAX) and
/// 0x7ffff000 bytes.
pub const MAX_PIECES: usize = 16;

/// Up to this length in bytes the pieces of a send are copied to one buffer.
const GATHERED: usize = 512;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// One end of a TCP connection, established or not.
#[derive(Debug)]
pub struct Socket(Descriptor);

/// The reason why a socket did not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The send buffer is full; the socket becomes writable later.
    Full,
    /// The program's memory at the given address is not mapped.
    BadAddress,
    /// The kernel has no memory; the poller does not report the end of this state.
    NoMemory,
    /// The connection is over; earlier data can still be received, and then its end.
    Ended,
    Other,
}

impl Socket {
    /// Begins to connect. The socket becomes writable when the attempt has ended
    /// ([`Socket::outcome`]). `buffers` is the size in bytes of the kernel's buffer for each
    /// direction; `None` leaves it to the kernel.
    pub fn connect(to: SocketAddr, buffers: Option<usize>) -> io::Result<Socket> {
        let fd = socket_with(family(to), SocketType::STREAM, FLAGS, Some(ipproto::TCP))?;
        set_buffers(fd.as_fd(), buffers)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        match connect(&fd, &to) {
            // An interrupted connect continues in the background (connect(2)).
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(Socket(Descriptor::new(fd)?)),
            Err(error) => Err(error.into()),
        }
    }

    /// After a restore from an image, which keeps no connections, takes the unconnected socket that
    /// has replaced this one.
    pub fn adopt(&mut self) {
        self.0.adopt(is_left_behind);
    }

    /// The result of the attempt to connect. Call it once, when the socket is writable.
    pub fn outcome(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&*self.0)??)
    }

    /// Sends the pieces, one after another, as far as the send buffer has room. Returns the number
    /// of bytes. Only the first [`MAX_PIECES`] non-empty pieces are sent. Errors: `WouldBlock` if
    /// there is no room at all, otherwise the error of sendmsg(2), such as `ConnectionReset`.
    pub fn send(&self, pieces: &[Bytes<'_>]) -> io::Result<usize> {
        let all: usize = pieces.iter().map(Bytes::len).sum();
        if all <= GATHERED {
            return self.send_gathered(pieces, all);
        }
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_PIECES];
        let mut count = 0;
        for (vector, piece) in
            vectors.iter_mut().zip(pieces.iter().filter(|piece| !piece.is_empty()))
        {
            *vector =
                libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
            count += 1;
        }
        // SAFETY: all zeros is a valid msghdr: no address, no vectors, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = count;
        // SAFETY: the vectors live here, and the pieces stay mapped during the call; the kernel
        // only reads them.
        until_done(|| unsafe {
            libc::sendmsg(self.0.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
        })
    }

    /// [`Socket::send`] for at most [`GATHERED`] bytes: one copy costs less than passing a list of
    /// pieces to the kernel.
    fn send_gathered(&self, pieces: &[Bytes<'_>], all: usize) -> io::Result<usize> {
        let mut gathered = [0; GATHERED];
        let mut at = 0;
        for piece in pieces {
            piece.copy_to(BytesMut::from(&mut gathered[at..at + piece.len()]));
            at += piece.len();
        }
        self.send_bytes(&gathered[..all])
    }

    /// Classifies an error of [`Socket::send`].
    pub fn refusal(error: &io::Error) -> Refusal {
        match error.raw_os_error() {
            Some(libc::EAGAIN) => Refusal::Full,
            Some(libc::EFAULT) => Refusal::BadAddress,
            Some(libc::ENOMEM | libc::ENOBUFS) => Refusal::NoMemory,
            Some(libc::EPIPE | libc::ECONNRESET | libc::ETIMEDOUT) => Refusal::Ended,
            _ => Refusal::Other,
        }
    }

    /// Receives the available bytes, as far as they fit; 0 at the end of the other side. Errors:
    /// `WouldBlock` if none are available, otherwise the error of recv(2).
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| recv(&*self.0, &mut *into, RecvFlags::empty()))?.0)
    }

    /// Receives the available bytes into both buffers, one after another. Returns the number of
    /// bytes; 0 at the end of the other side. Errors: `WouldBlock` if none are available;
    /// `InvalidInput` (EFAULT) if the memory is not mapped, otherwise the error of recvmsg(2).
    pub fn receive_two(&self, first: &mut BytesMut<'_>, second: &mut [u8]) -> io::Result<usize> {
        let mut vectors = [
            libc::iovec { iov_base: first.as_mut_ptr().cast(), iov_len: first.len() },
            libc::iovec { iov_base: second.as_mut_ptr().cast(), iov_len: second.len() },
        ];
        // SAFETY: all zeros is a valid msghdr: no address, no vectors, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = vectors.len();
        // SAFETY: the vectors live here and refer to memory that the two arguments lend for writing
        // during this call.
        until_done(|| unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) })
    }

    /// [`Socket::receive`] into memory that others may use at the same time.
    pub fn receive_into(&self, into: &mut BytesMut<'_>) -> io::Result<usize> {
        let len = into.len();
        // SAFETY: the argument lends this memory for writing during this call.
        until_done(|| unsafe { libc::recv(self.0.as_raw_fd(), into.as_mut_ptr().cast(), len, 0) })
    }

    /// Sends the bytes as far as the send buffer has room. Returns the number of bytes.
    pub fn send_bytes(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| send(&*self.0, bytes, SendFlags::NOSIGNAL))?)
    }

    /// Whether the two ends have the same address, or loopback addresses, and so are in one network
    /// namespace. `false` without a connection.
    pub fn is_within_host(&self) -> bool {
        let ip = |address: rustix::net::SocketAddrAny| {
            SocketAddr::try_from(address).map(|at| at.ip().to_canonical())
        };
        match (getsockname(&*self.0).map(ip), getpeername(&*self.0).map(|peer| peer.map(ip))) {
            (Ok(Ok(own)), Ok(Some(Ok(peer)))) => {
                own == peer || own.is_loopback() && peer.is_loopback()
            }
            _ => false,
        }
    }

    /// Selects the plain congestion control (RFC 5681) if both ends of the connection are on this
    /// host. Nothing between them can be congested, and the administrator's choice for networks may
    /// pace the data (BBR does) or wait long for each acknowledgement.
    pub fn tune_within_host(&self) {
        if self.is_within_host() {
            // Every kernel has it and allows it; if it fails, the connection works without it.
            let _ = sockopt::set_tcp_congestion(&*self.0, "reno");
        }
    }

    /// The bytes that the other side's kernel has not acknowledged yet.
    pub fn unsent(&self) -> io::Result<usize> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: SIOCOUTQ, whose number is TIOCOUTQ's (tcp(7)), stores an integer.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(usize::try_from(bytes).unwrap_or(0))
        }
    }

    /// Shuts down the sending direction: the other side sees the end of the data.
    pub fn finish(&self) {
        // It fails only if the connection is gone.
        let _ = shutdown(&*self.0, Shutdown::Write);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A TCP socket that accepts connections.
#[derive(Debug)]
pub struct Listener(Descriptor);

/// Makes the kernel end a connection (by ETIMEDOUT, or by the network's error) after `time` without
/// an answer of the other kernel. An idle connection is probed; the other kernel answers also for a
/// stopped process.
///
/// Use it for connections with little traffic: data for which a stopped process has no room count
/// as unanswered as well (tcp(7), TCP_USER_TIMEOUT).
pub fn end_when_unanswered(fd: impl AsFd, time: Duration) -> io::Result<()> {
    let seconds = time.as_secs().clamp(1, MAX_UNANSWERED);
    // Half of the time before the first probe, a tenth between the others, so that one lost answer
    // does no harm.
    sockopt::set_tcp_keepidle(&fd, Duration::from_secs((seconds / 2).clamp(1, MAX_IDLE)))?;
    sockopt::set_tcp_keepintvl(&fd, Duration::from_secs((seconds / 10).clamp(1, MAX_IDLE)))?;
    // The highest count, so that only TCP_USER_TIMEOUT ends the connection.
    sockopt::set_tcp_keepcnt(&fd, MAX_PROBES)?;
    sockopt::set_tcp_user_timeout(&fd, (seconds * 1000) as u32)?;
    Ok(sockopt::set_socket_keepalive(&fd, true)?)
}

/// Undoes [`end_when_unanswered`], for a connection whose data may wait for a stopped process.
pub fn wait_when_unanswered(fd: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_user_timeout(&fd, 0)?;
    Ok(sockopt::set_socket_keepalive(&fd, false)?)
}

/// The longest time in seconds of [`end_when_unanswered`]: 31 bits of milliseconds.
const MAX_UNANSWERED: u64 = 2_000_000;
/// The kernel's limit for the time before the first probe and between probes, in seconds.
const MAX_IDLE: u64 = 32_767;
/// The kernel's limit for the number of probes.
const MAX_PROBES: u32 = 127;

/// The addresses of this host.
#[derive(Clone, Debug, Default)]
pub struct OwnAddresses(Vec<IpAddr>);

impl OwnAddresses {
    /// Reads the addresses of all interfaces; none if the kernel does not list them.
    pub fn read() -> OwnAddresses {
        let all = interfaces().unwrap_or_default();
        OwnAddresses(all.into_iter().map(|interface| interface.address).collect())
    }

    /// Whether an address belongs to this host. All addresses of the loopback network do, of which
    /// an interface lists one.
    pub fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || self.0.contains(&address)
    }
}

/// Checks that processes of this host reach each other at one of its addresses. Errors: the error
/// of the connection; `TimedOut` after a second without an answer.
pub fn reach_own(address: IpAddr) -> io::Result<()> {
    let listener = Listener::bind(address, None)?;
    let socket = Socket::connect(listener.address()?, None)?;
    let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
    let mut fds = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::OUT)];
    match retry_on_intr(|| rustix::event::poll(&mut fds, Some(&second)))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => socket.outcome(),
    }
}

/// The most connections that wait for accept(2). The kernel lowers it to net.core.somaxconn.
const BACKLOG: i32 = 4096;

impl Listener {
    /// Listens at an address, at a port of the kernel's choice. Accepted connections have `buffers`
    /// (see [`Socket::connect`]).
    pub fn bind(address: IpAddr, buffers: Option<usize>) -> io::Result<Listener> {
        let to = SocketAddr::new(address, 0);
        let fd = socket_with(family(to), SocketType::STREAM, FLAGS, Some(ipproto::TCP))?;
        // Before listen(2), which fixes the largest window that can be announced.
        set_buffers(fd.as_fd(), buffers)?;
        // Accepted sockets inherit this option. Their connections in TIME_WAIT then do not keep the
        // port from the listener of a restart from a checkpoint.
        sockopt::set_socket_reuseaddr(&fd, true)?;
        bind(&fd, &to)?;
        listen(&fd, BACKLOG)?;
        Ok(Listener(Descriptor::new(fd)?))
    }

    /// Takes a listening socket that another process has made.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Listener> {
        if !sockopt::socket_acceptconn(&fd)? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket does not listen"));
        }
        Ok(Listener(Descriptor::new(fd)?))
    }

    /// [`Socket::adopt`] for a listener, which then no longer listens.
    pub fn adopt(&mut self) {
        self.0.adopt(is_left_behind);
    }

    /// The local address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let any = getsockname(&*self.0)?;
        SocketAddr::try_from(any)
            .map_err(|_| io::Error::other("the socket has no internet address"))
    }

    /// Accepts the next connection, with the address of its other end; `None` if there is none.
    pub fn accept(&self) -> io::Result<Option<(Socket, Option<SocketAddr>)>> {
        loop {
            match acceptfrom_with(&*self.0, FLAGS) {
                Ok((fd, from)) => {
                    // It fails if the connection is gone; the next receive reports that.
                    let _ = sockopt::set_tcp_nodelay(&fd, true);
                    return Ok(Some((
                        Socket(Descriptor::new(fd)?),
                        from.and_then(|a| SocketAddr::try_from(a).ok()),
                    )));
                }
                Err(Errno::AGAIN) => return Ok(None),
                // The connection was gone before it was accepted (accept(2) lists these errors).
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

/// Whether a TCP socket has no port: a restore has put it in place of a connection or a listener.
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

/// A network interface's address on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub address: IpAddr,
    /// The length of the network part of `address`, in bits.
    pub prefix: u8,
    pub is_loopback: bool,
}

/// The addresses of all interfaces that are up.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call stores the head of a list in its argument.
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
        // SAFETY: each is null or points to a socket address of its family's length.
        let (address, mask) = unsafe { (ip_at(entry.ifa_addr), ip_at(entry.ifa_netmask)) };
        let Some(address) = address else { continue };
        // SAFETY: every element has a name, a C string.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let is_loopback = flags & libc::IFF_LOOPBACK as u32 != 0;
        found.push(Interface { name, address, prefix: mask.map_or(0, prefix_of), is_loopback });
    }
    // SAFETY: the list came from getifaddrs, and no element of it is used any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// Reads an IP address; `None` for null and for other families.
///
/// # Safety
/// `address` must be null or point to a socket address of the length that its family has.
unsafe fn ip_at(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null; a socket address begins with its family, which decides the length.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
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

/// Fills `bytes` with unpredictable numbers.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        at += retry_on_intr(|| getrandom(&mut bytes[at..], GetRandomFlags::empty()))?;
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
    fn data_sent_in_parts_arrive_in_order() {
        let (a, b) = connected();
        let data: Vec<u8> = (0..20_000_000u32).map(|i| (i / 7) as u8).collect();
        let (mut sent, mut got) = (0, Vec::new());
        let mut buffer = vec![0; 1 << 20];
        while got.len() < data.len() {
            // Send until the buffer is full: it never holds all of the data.
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
