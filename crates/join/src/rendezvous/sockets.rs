//! The sockets of a [`NodeMeeting`].

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_sys::net::{Listener, Socket, end_when_unanswered};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::credential::Credentials;
use super::dialing::Dialing;
use super::lookup::{Lookup, LookupResult};
use super::meeting::{LinkId, MeetingPhase, NodeMeeting, PROOF};

/// A node that does not answer for this time has failed.
const UNANSWERED: Duration = Duration::from_secs(30);
/// The time between checks for new addresses, and for targets that are due.
const DIAL: Duration = Duration::from_millis(10);
const READ: usize = 64 << 10;
/// The connections that are accepted before others are served.
const AT_ONCE: usize = 16;

#[derive(Debug)]
struct OpenSocket {
    socket: Socket,
    /// The target of a member's connection.
    target: Option<SocketAddr>,
}

/// A member's search for node 0.
#[derive(Debug)]
struct HubSearch {
    dialing: Dialing,
    lookup: Lookup,
    connecting: BTreeMap<SocketAddr, (Socket, Instant)>,
}

/// The sockets of one process.
#[derive(Debug)]
pub(super) struct MeetingSockets {
    /// Of the hub, with its port, until all are here.
    listener: Option<(Listener, u16)>,
    /// After an error the listener rests.
    accepts_from: Instant,
    /// Of a member, until all are here.
    search: Option<HubSearch>,
    open: BTreeMap<LinkId, OpenSocket>,
}

impl MeetingSockets {
    fn new(listener: Option<(Listener, u16)>, search: Option<HubSearch>) -> MeetingSockets {
        MeetingSockets { listener, accepts_from: Instant::now(), search, open: BTreeMap::new() }
    }

    /// The sockets of a meeting of one node.
    pub(super) fn none() -> MeetingSockets {
        MeetingSockets::new(None, None)
    }

    /// Listens at the first of these ports that is free. The error is that of the last port.
    pub(super) fn hub(ports: &[u16]) -> io::Result<MeetingSockets> {
        let mut last = io::ErrorKind::AddrInUse.into();
        for port in ports {
            match listen(*port) {
                Ok(listener) => {
                    return Ok(MeetingSockets::new(Some((listener, *port)), None));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Searches node 0 at the addresses of the lookup.
    pub(super) fn member(ports: Vec<u16>, lookup: Lookup) -> MeetingSockets {
        let dialing = Dialing::new(ports);
        let search = HubSearch { dialing, lookup, connecting: BTreeMap::new() };
        MeetingSockets::new(None, Some(search))
    }

    /// Waits at most this long for an event, and serves all connections.
    pub(super) fn serve<C: Credentials>(
        &mut self,
        meeting: &mut NodeMeeting<C>,
        wait: Duration,
    ) -> io::Result<()> {
        let now = Instant::now();
        meeting.tick(now);
        let is_searching = self.search.is_some() && !meeting.has_hub();
        match &mut self.search {
            Some(search) if is_searching => search.dial(meeting, now),
            Some(search) => {
                // They count as ended when the hub is searched again.
                for target in std::mem::take(&mut search.connecting).into_keys() {
                    search.dialing.ended(target, now);
                }
            }
            None => {}
        }
        self.flush(meeting, now);

        let mut fds = Vec::new();
        let listener = self.listener.as_ref().filter(|_| self.accepts_from <= now);
        fds.extend(
            listener.map(|(listener, _)| PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)),
        );
        let listeners = fds.len();
        let connecting = self.search.iter().flat_map(|search| search.connecting.values());
        fds.extend(
            connecting.map(|(socket, _)| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::OUT)),
        );
        let attempts = fds.len();
        for (id, open) in &self.open {
            let is_behind = !meeting.output(*id).is_empty();
            let flags = if is_behind { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            fds.push(PollFd::from_borrowed_fd(open.socket.as_fd(), flags));
        }
        let wait = if is_searching || self.accepts_from > now { wait.min(DIAL) } else { wait };
        let wait = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut fds, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);

        let now = Instant::now();
        let (accepts, others) = is_ready.split_at(listeners);
        let (attempts, others) = others.split_at(attempts - listeners);
        let ids: Vec<LinkId> = self.open.keys().copied().collect();
        for id in ids.into_iter().zip(others).filter(|(_, is_ready)| **is_ready).map(|(id, _)| id) {
            self.receive(id, meeting, now);
        }
        if let Some(search) = &mut self.search {
            let targets: Vec<SocketAddr> = search.connecting.keys().copied().collect();
            for target in targets.into_iter().zip(attempts).filter(|(_, ready)| **ready) {
                if let Some((id, socket)) = search.connected(target.0, meeting, now) {
                    self.open.insert(id, OpenSocket { socket, target: Some(target.0) });
                }
            }
        }
        if accepts.contains(&true) {
            self.accept(meeting, now);
        }
        self.flush(meeting, now);
        Ok(())
    }

    fn accept<C: Credentials>(&mut self, meeting: &mut NodeMeeting<C>, now: Instant) {
        let Some((listener, port)) = &self.listener else { return };
        for _ in 0..AT_ONCE {
            match listener.accept() {
                Ok(Some((socket, from))) => {
                    let from = from.map_or("an unknown address".into(), |from| shown(from.ip()));
                    let id = meeting.accepted(from, *port, now);
                    add(&mut self.open, id, OpenSocket { socket, target: None });
                }
                Ok(None) => return,
                Err(error) => {
                    // There are no more descriptors, for example.
                    meeting.skipped.add("this node", &format!("accept(2) fails: {error}"));
                    self.accepts_from = now + Duration::from_millis(100);
                    return;
                }
            }
        }
    }

    fn receive<C: Credentials>(&mut self, id: LinkId, meeting: &mut NodeMeeting<C>, now: Instant) {
        let Some(open) = self.open.get(&id) else { return };
        let mut bytes = [0; READ];
        let why = match open.socket.receive(&mut bytes) {
            Ok(0) => "the connection has ended".into(),
            Ok(count) => return meeting.received(id, &bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => error.to_string(),
        };
        self.end(id, meeting, &why, now);
    }

    fn end<C: Credentials>(
        &mut self,
        id: LinkId,
        meeting: &mut NodeMeeting<C>,
        why: &str,
        now: Instant,
    ) {
        meeting.ended(id, why);
        self.drop_socket(id, now);
    }

    fn drop_socket(&mut self, id: LinkId, now: Instant) {
        if let Some(target) = self.open.remove(&id).and_then(|open| open.target)
            && let Some(search) = &mut self.search
        {
            search.dialing.ended(target, now);
        }
    }

    /// Sends everything for which the sockets have room, and closes connections that are over. Once
    /// all nodes are here, the port is free for the next program of the step.
    pub(super) fn flush<C: Credentials>(&mut self, meeting: &mut NodeMeeting<C>, now: Instant) {
        for (id, open) in &self.open {
            loop {
                let output = meeting.output(*id);
                if output.is_empty() {
                    break;
                }
                match open.socket.send_bytes(output) {
                    Ok(count) => meeting.sent(*id, count),
                    // The next receive reports the end of a connection.
                    Err(_) => break,
                }
            }
        }
        for id in meeting.closed() {
            self.drop_socket(id, now);
        }
        if meeting.phase() == MeetingPhase::Running {
            (self.listener, self.search) = (None, None);
        }
    }
}

fn add(open: &mut BTreeMap<LinkId, OpenSocket>, id: LinkId, socket: OpenSocket) {
    // It fails only if the connection is gone, which the next receive reports.
    let _ = end_when_unanswered(&socket.socket, UNANSWERED);
    open.insert(id, socket);
}

impl HubSearch {
    fn dial<C: Credentials>(&mut self, meeting: &mut NodeMeeting<C>, now: Instant) {
        for result in self.lookup.results.try_iter() {
            match result {
                LookupResult::Addresses(all) => {
                    all.into_iter().for_each(|address| self.dialing.add(address, now));
                }
                LookupResult::Failed(why) => meeting.skipped.add("node 0", &why),
            }
        }
        let late = |since: &Instant| now.saturating_duration_since(*since) >= PROOF;
        let lost: Vec<SocketAddr> = self
            .connecting
            .iter()
            .filter(|(_, (_, since))| late(since))
            .map(|(target, _)| *target)
            .collect();
        for target in lost {
            self.connecting.remove(&target);
            self.fail(target, meeting, "no answer", now);
        }
        for target in self.dialing.due(now) {
            match Socket::connect(target, None) {
                Ok(socket) => _ = self.connecting.insert(target, (socket, now)),
                Err(error) => self.fail(target, meeting, &error.to_string(), now),
            }
        }
    }

    fn fail<C>(&mut self, target: SocketAddr, meeting: &mut NodeMeeting<C>, why: &str, now: Instant)
    where
        C: Credentials,
    {
        meeting.skipped.add(&target.to_string(), why);
        self.dialing.ended(target, now);
    }

    /// An attempt has ended.
    fn connected<C: Credentials>(
        &mut self,
        target: SocketAddr,
        meeting: &mut NodeMeeting<C>,
        now: Instant,
    ) -> Option<(LinkId, Socket)> {
        let (socket, _) = self.connecting.remove(&target)?;
        let made = socket.outcome().map_err(|error| error.to_string()).and_then(|()| {
            // It fails only if the connection is gone, which the next receive reports.
            let _ = end_when_unanswered(&socket, UNANSWERED);
            let connected = meeting.connected(target.to_string(), target.port(), now);
            connected.map_err(|error| error.to_string())
        });
        match made {
            Ok(id) => Some((id, socket)),
            Err(why) => {
                self.fail(target, meeting, &why, now);
                None
            }
        }
    }
}

/// An address without the prefix of IPv4 addresses in IPv6.
fn shown(address: std::net::IpAddr) -> String {
    address.to_canonical().to_string()
}

fn listen(port: u16) -> io::Result<Listener> {
    // An IPv6 socket takes IPv4 connections as well, unless the machine has no IPv6.
    let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)) {
        Ok(listener) => listener,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?,
    };
    listener.set_nonblocking(true)?;
    Listener::from_fd(OwnedFd::from(listener))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hub_listens_at_the_first_port_that_is_free() {
        let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let free = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let ports = [&taken, &free].map(|listener| listener.local_addr().unwrap().port());
        let error = MeetingSockets::hub(&ports).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(free);
        let sockets = MeetingSockets::hub(&ports).unwrap();
        assert_eq!(sockets.listener.map(|(_, port)| port), Some(ports[1]));
        assert!(MeetingSockets::hub(&[]).is_err());
    }

    #[test]
    fn addresses_are_shown_without_the_prefix_of_ipv4_in_ipv6() {
        assert_eq!(shown("::ffff:10.0.0.1".parse().unwrap()), "10.0.0.1");
        assert_eq!(shown("fd00::1".parse().unwrap()), "fd00::1");
    }
}
