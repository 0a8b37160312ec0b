//! The lifeline of an agent that no daemon has started: an idle connection with its parent in the
//! tree, which is `mpirun` or another agent.
//!
//! The kernels check each other by TCP keepalive, which also works while the parent is stopped or
//! debugged. If no answer comes for `mpi_agent_silence_s`, or the parent's host no longer knows the
//! connection (a restart), the parent's host or the network is gone, and the agent does as if its
//! stream had ended. If the parent closes the lifeline, the stream tells why. Without a lifeline
//! the agent works on.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use oxmpi_sys::net::{self, Socket};
use oxmpi_wire::Secret;
use rustix::event::epoll;

use super::encrypted::EncryptedSocket;
use oxmpi_daemon::channel::SecureChannel;
use oxmpi_rt_proto::agent::LifelineOffer;
use oxmpi_rt_proto::daemon::{DaemonMessage, Purpose};

/// In place of a node's number in the prologue: the parent is no daemon, and has a secret of its
/// own.
pub(crate) const HEAD: u32 = u32::MAX;

/// A connection with the parent, or the attempt to connect.
#[derive(Debug)]
pub(crate) struct Lifeline {
    addresses: VecDeque<SocketAddr>,
    secret: Secret,
    node: u32,
    silence: Duration,
    /// The data of its events in the poll set.
    name: u64,
    line: Option<LifelineSocket>,
}

#[derive(Debug)]
struct LifelineSocket {
    link: EncryptedSocket,
    is_connected: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Holds,
    None,
    /// The parent's host no longer answers.
    Broken,
}

impl Lifeline {
    /// Begins to connect. Events with `name` are for [`Lifeline::ready`].
    pub(crate) fn begin(
        offer: &LifelineOffer,
        (node, silence): (u32, Duration),
        (events, name): (&OwnedFd, u64),
    ) -> Lifeline {
        let mut addresses = offer.addresses.clone();
        oxmpi_daemon::interfaces::near_first(&mut addresses);
        let addresses = VecDeque::from(addresses);
        let mut lifeline =
            Lifeline { addresses, secret: Secret(offer.secret), node, silence, name, line: None };
        lifeline.try_next(events);
        lifeline
    }

    fn try_next(&mut self, events: &OwnedFd) -> Fate {
        self.line = None;
        while let Some(address) = self.addresses.pop_front() {
            let Ok(socket) = Socket::connect(address, None) else { continue };
            let Ok(channel) = SecureChannel::initiator(&self.secret, HEAD) else { continue };
            // A connection that does not end without answers is useless.
            if net::end_when_unanswered(&socket, self.silence).is_err() {
                continue;
            }
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT;
            if epoll::add(events, &socket, epoll::EventData::new_u64(self.name), flags).is_ok() {
                let link = EncryptedSocket { socket, channel };
                self.line = Some(LifelineSocket { link, is_connected: false });
                return Fate::Holds;
            }
        }
        Fate::None
    }

    /// Changes the time without answers after which the parent's host is gone.
    pub(crate) fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
        if let Some(line) = &self.line {
            // The earlier time stays where this fails.
            let _ = net::end_when_unanswered(&line.link.socket, silence);
        }
    }

    /// Whether the parent has proved that it knows the secret.
    pub(crate) fn is_proved(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.link.channel.is_open())
    }

    /// Handles an event of the connection.
    pub(crate) fn ready(&mut self, events: &OwnedFd) -> Fate {
        let (node, name) = (self.node, self.name);
        let Some(line) = &mut self.line else { return Fate::None };
        let had_answer = line.link.channel.is_open();
        match line.advance(node, (events, name)) {
            Ok(()) => Fate::Holds,
            Err(error) if had_answer => {
                self.line = None;
                if is_silence(&error) { Fate::Broken } else { Fate::None }
            }
            Err(_) => self.try_next(events),
        }
    }
}

impl LifelineSocket {
    fn advance(&mut self, node: u32, (events, name): (&OwnedFd, u64)) -> io::Result<()> {
        if !self.is_connected {
            let socket = &self.link.socket;
            socket.outcome()?;
            if socket.send_bytes(&[]).is_err() {
                return Ok(());
            }
            self.is_connected = true;
            let (data, flags) = (epoll::EventData::new_u64(name), epoll::EventFlags::IN);
            epoll::modify(events, socket, data, flags)?;
            self.link.send(&DaemonMessage::Purpose(Purpose::Peer { node }))?;
        }
        // The parent sends nothing after its greeting.
        match self.link.next()? {
            Some(_) => Err(io::ErrorKind::InvalidData.into()),
            None => Ok(()),
        }
    }
}

/// Whether the kernel reports missing answers, or a peer that does not know the connection.
fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let kinds = [
        Kind::TimedOut,
        Kind::HostUnreachable,
        Kind::NetworkUnreachable,
        Kind::NetworkDown,
        Kind::ConnectionReset,
    ];
    kinds.contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_sys::net::Listener;
    use std::net::{IpAddr, Ipv4Addr};

    fn offer(addresses: Vec<SocketAddr>) -> LifelineOffer {
        LifelineOffer { addresses, secret: [4; 32] }
    }

    fn events() -> OwnedFd {
        epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()
    }

    fn wait(events: &OwnedFd) {
        let mut list = Vec::with_capacity(4);
        let time = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        epoll::wait(events, rustix::buffer::spare_capacity(&mut list), Some(&time)).unwrap();
        assert_eq!(list.len(), 1, "it comes to nothing");
    }

    /// Accepts the lifeline.
    fn meet(
        listener: &Listener,
        secret: u8,
        lifeline: &mut Lifeline,
        events: &OwnedFd,
    ) -> (Socket, SecureChannel, Fate) {
        wait(events);
        lifeline.ready(events);
        let (socket, _) = loop {
            match listener.accept().unwrap() {
                Some(came) => break came,
                None => std::thread::yield_now(),
            }
        };
        let mut channel = SecureChannel::acceptor(&Secret([secret; 32]), HEAD);
        let mut bytes = [0; 512];
        let mut round = |channel: &mut SecureChannel| {
            let n = loop {
                match socket.receive(&mut bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        std::thread::yield_now()
                    }
                    other => break other.unwrap(),
                }
            };
            channel.feed(&bytes[..n]);
            let said = channel.next_message();
            socket.send_bytes(channel.output()).unwrap();
            channel.sent(channel.output().len());
            said
        };
        if round(&mut channel).is_err() {
            drop(socket);
            wait(events);
            let fate = lifeline.ready(events);
            return (Socket::connect(listener.address().unwrap(), None).unwrap(), channel, fate);
        }
        wait(events);
        let fate = lifeline.ready(events);
        let said = round(&mut channel).unwrap();
        assert_eq!(said, Some(DaemonMessage::Purpose(Purpose::Peer { node: 7 })));
        (socket, channel, fate)
    }

    #[test]
    fn a_head_that_closes_it_is_not_one_that_is_silent() {
        let (events, loopback) = (events(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let (refusing, listener) =
            (Listener::bind(loopback, None).unwrap(), Listener::bind(loopback, None).unwrap());
        let addresses = vec![refusing.address().unwrap(), listener.address().unwrap()];
        // Now the port refuses connections.
        drop(refusing);
        let time = Duration::from_secs(60);
        let mut lifeline = Lifeline::begin(&offer(addresses), (7, time), (&events, 1));
        if lifeline.addresses.len() == 1 {
            wait(&events);
            assert_eq!(lifeline.ready(&events), Fate::Holds);
        }
        let (socket, _, fate) = meet(&listener, 4, &mut lifeline, &events);
        assert_eq!(fate, Fate::Holds);
        drop(socket);
        wait(&events);
        assert_eq!((lifeline.ready(&events), lifeline.ready(&events)), (Fate::None, Fate::None));
    }

    #[test]
    fn a_peer_without_the_secret_is_no_head() {
        let (events, listener) =
            (events(), Listener::bind(IpAddr::V4(Ipv4Addr::LOCALHOST), None).unwrap());
        let addresses = vec![listener.address().unwrap()];
        let mut lifeline =
            Lifeline::begin(&offer(addresses), (7, Duration::from_secs(60)), (&events, 1));
        let (_, channel, fate) = meet(&listener, 5, &mut lifeline, &events);
        assert!(fate == Fate::None && !channel.is_open());
    }

    #[test]
    fn the_kernels_errors_for_silence_are_known() {
        for error in [
            rustix::io::Errno::TIMEDOUT,
            rustix::io::Errno::HOSTUNREACH,
            rustix::io::Errno::CONNRESET,
        ] {
            assert!(is_silence(&error.into()), "{error}");
        }
        assert!(
            !is_silence(&io::ErrorKind::UnexpectedEof.into())
                && !is_silence(&io::ErrorKind::BrokenPipe.into())
        );
    }
}
