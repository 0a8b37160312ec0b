//! Other launchers of this user on this machine, whose processes communicate with ours (MPI-5.0
//! chapter 11).
//!
//! A launcher that others must find takes a *place*: a small number that only one launcher of the
//! user has at a time, as it is part of the abstract name of its listener. Names of ports and
//! processes contain the place, and the launcher's *universe*, which distinguishes the launcher
//! from later ones at that place. Both sides of a connection must belong to the same user
//! (SO_PEERCRED); names that another user has taken are avoided (`claims.rs`).
//!
//! Processes of other launchers get numbers of ours, those of a job consecutively. Over a
//! connection a launcher forwards its processes' requests, which the other answers as if they were
//! its own processes', and reports the ends of its processes. Nothing here blocks: messages are
//! queued until the socket has room.

mod asking;
mod claims;
mod doors;
mod ends;
mod greeting;
mod numbers;
mod services;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use oxmpi_sys::local::{self, PeerCredentials};
use oxmpi_sys::{fdpass, net};

use self::claims::Refused;
use super::abroad::Reach;
use super::launcher::{LAUNCHER_LISTENERS, LINK, Launcher};
use crate::host::HostLauncher;
use crate::job::JobEvent;
use oxmpi_rt_client::control::{MAX_MESSAGE, Reply, Request};
use oxmpi_rt_proto::link::LinkMessage;

/// Places are 1 to this: they fit into the names of contexts, beside process numbers.
pub(super) const MAX_PLACE: u32 = 4094;
/// The limit for numbers of processes that communicate with other launchers'.
pub(super) const MAX_NUMBER: u32 = 1 << 20;
/// The most messages of a connection before other events are served.
const BURST: usize = 32;

type Parcel = (Vec<u8>, Option<OwnedFd>);

#[derive(Default)]
pub(super) struct Links {
    /// Our place and its listener, if requested.
    door: Option<(u32, OwnedFd)>,
    /// Names that are published for others: the owner, and the listener for lookups.
    names: HashMap<String, (u32, OwnedFd)>,
    connections: BTreeMap<u32, LauncherConnection>,
    /// By universe.
    others: BTreeMap<u64, Other>,
    /// By the number in this launcher of the first process.
    jobs: BTreeMap<u32, OtherJob>,
    connected: u32,
    asking: asking::RequestsInFlight,
    /// Authenticates processes of others that connect to ours over sockets.
    secret: [u8; 32],
    /// The secret part of our ports' names, independent of all other secrets.
    port_word: u64,
    shut: Option<Instant>,
    /// Our processes that wait until it is known how they must be reachable.
    undecided: Vec<u32>,
    /// Our processes whose end needs a reaction of others.
    unwell: HashSet<u32>,
}

struct LauncherConnection {
    socket: OwnedFd,
    peer: PeerCredentials,
    /// The universe that we have connected to; 0: any. `None`: the other side has connected.
    wanted: Option<u64>,
    /// The peer's universe, after its greeting.
    universe: Option<u64>,
    queue: VecDeque<Parcel>,
    /// A name to look up on this connection: the requester, and the name.
    search: Option<(u32, String)>,
    limit: Instant,
    /// Neither side closes the connection as needless.
    lasts: bool,
    /// Our direction is closed.
    is_closing: bool,
}

struct Other {
    place: u32,
    pid: i32,
    /// Authenticates our processes at the other's.
    secret: [u8; 32],
    /// How our processes and the other's reach each other, after the greeting.
    reach: Option<Reach>,
    /// The connection for messages, after the greeting.
    connection: Option<u32>,
    waiting: Vec<Parcel>,
    /// The launcher has reported that all its processes have ended.
    has_parted: bool,
}

struct OtherJob {
    universe: u64,
    first: u32,
    size: u32,
}

/// The abstract name of a place's listener (see `claims.rs`).
fn door_name(place: u32) -> String {
    format!("oxmpi.{}.{place}", user())
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The peer, if it belongs to the same user.
fn trusted(socket: &OwnedFd) -> Result<PeerCredentials, String> {
    match local::peer(socket) {
        Ok(peer) if peer.user == user() => Ok(peer),
        Ok(peer) => Err(format!("it belongs to user {}, and this is user {}", peer.user, user())),
        Err(error) => Err(error.to_string()),
    }
}

impl Links {
    pub(super) fn is_any(&self) -> bool {
        !self.others.is_empty()
    }

    /// Our place; 0 if others cannot find us.
    pub(super) fn place(&self) -> u32 {
        self.door.as_ref().map_or(0, |(place, _)| *place)
    }

    /// The secret part of our ports' names, once others can find us.
    pub(super) fn port_word(&self) -> u64 {
        self.port_word
    }

    /// Adds a connection; returns its number. The error is for the user.
    fn connect(
        &mut self,
        host: &HostLauncher<'_>,
        (socket, peer): (OwnedFd, PeerCredentials),
        (wanted, search): (Option<u64>, Option<(u32, String)>),
    ) -> Result<u32, String> {
        self.connected = self.connected.wrapping_add(1);
        let number = self.connected;
        host.listen(socket.as_fd(), LINK, number).map_err(|e| e.to_string())?;
        let connection = LauncherConnection {
            socket,
            peer,
            wanted,
            universe: None,
            queue: VecDeque::new(),
            search,
            limit: Instant::now() + doors::patience(wanted.is_some()),
            lasts: false,
            is_closing: false,
        };
        self.connections.insert(number, connection);
        Ok(number)
    }

    /// Sends a message on a connection.
    fn post(&mut self, number: u32, bytes: Option<Vec<u8>>, fd: Option<OwnedFd>) {
        if let (Some(bytes), Some(connection)) = (bytes, self.connections.get_mut(&number)) {
            connection.queue.push_back((bytes, fd));
            connection.flush();
        }
    }

    /// Sends a message to another launcher, now or after its greeting.
    fn post_to(&mut self, universe: u64, bytes: Option<Vec<u8>>, fd: Option<OwnedFd>) {
        let Some(other) = self.others.get_mut(&universe) else { return };
        match (other.connection, bytes) {
            (Some(connection), bytes) => self.post(connection, bytes, fd),
            (None, Some(bytes)) => other.waiting.push((bytes, fd)),
            (None, None) => {}
        }
    }

    fn send_to_all(&mut self, message: &LinkMessage) {
        let all: Vec<u64> = self.others.keys().copied().collect();
        all.into_iter().for_each(|universe| self.post_to(universe, message.encode(), None));
    }

    /// The connections to poll for room, as messages wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let behind = self.connections.values().filter(|connection| !connection.queue.is_empty());
        behind.map(|connection| connection.socket.as_fd())
    }

    /// Sends the messages that wait, until a connection has no room for more.
    pub(super) fn write(&mut self) {
        self.connections.values_mut().for_each(LauncherConnection::flush);
    }

    /// The secret by which processes of a known launcher authenticate.
    pub(super) fn secret_for(&self, universe: u64) -> Result<[u8; 32], String> {
        match self.others.get(&universe) {
            Some(_) => Ok(self.secret),
            None => Err("no such mpirun is known".to_string()),
        }
    }
}

impl LauncherConnection {
    fn flush(&mut self) {
        while let Some((bytes, fd)) = self.queue.front() {
            match fdpass::send(&self.socket, bytes, fd.as_ref().map(AsFd::as_fd)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // If the connection is broken, reading finds its end.
                _ => _ = self.queue.pop_front(),
            }
        }
    }
}

impl Launcher<'_> {
    /// Makes this launcher reachable for others, and returns our place. The error is for the user.
    pub(super) fn reach(&mut self) -> Result<u32, String> {
        if let Some((place, _)) = &self.links.door {
            return Ok(*place);
        }
        if self.job.next() > MAX_NUMBER {
            return Err(format!(
                "this mpirun has had more than {MAX_NUMBER} processes: it cannot communicate with other mpiruns"
            ));
        }
        let mut drawn = [0; 44];
        net::fill_random(&mut drawn).map_err(|error| format!("no random bytes: {error}"))?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, secret @ ..] = drawn;
        let start = u32::from_le_bytes([a, b, c, d]) % MAX_PLACE;
        for place in (0..MAX_PLACE).map(|at| (start + at) % MAX_PLACE + 1) {
            match claims::claim(&door_name(place)) {
                Ok(listener) => {
                    self.host
                        .listen(listener.as_fd(), LAUNCHER_LISTENERS, 0)
                        .map_err(|e| e.to_string())?;
                    (self.links.door, self.links.secret) = (Some((place, listener)), secret);
                    self.links.port_word = u64::from_le_bytes([e, f, g, h, i, j, k, l]);
                    return Ok(place);
                }
                Err(Refused::Taken) => {}
                Err(Refused::Failed(error)) => {
                    return Err(format!("other mpiruns cannot find this one: {error}"));
                }
            }
        }
        Err(format!(
            "{MAX_PLACE} mpiruns of this user communicate with others already, which is the limit"
        ))
    }

    /// Connects to the listener with a name, and sends a greeting.
    fn call(
        &mut self,
        name: &str,
        wanted: u64,
        search: Option<(u32, String)>,
    ) -> Result<PeerCredentials, String> {
        let place = self.reach()?;
        let (socket, peer) = claims::find(name)?;
        let hello = LinkMessage::Hello(self.own_hello(wanted, place));
        let connection = self.links.connect(&self.host, (socket, peer), (Some(wanted), search))?;
        self.links.post(connection, hello.encode(), None);
        Ok(peer)
    }

    pub(super) fn link_ready(&mut self, number: u32) {
        for _ in 0..BURST {
            let Some(connection) = self.links.connections.get(&number) else { return };
            let mut bytes = [0; MAX_MESSAGE];
            match fdpass::receive(&connection.socket, &mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok((0, _)) => return self.end(number),
                Err(error) => return self.lose(number, &format!("cannot be read: {error}")),
                Ok((n, fd)) => match LinkMessage::decode(&bytes[..n]) {
                    Ok(message) => self.take(number, message, fd),
                    Err(error) => {
                        return self
                            .lose(number, &format!("has sent a malformed message: {error}"));
                    }
                },
            }
        }
    }

    fn take(&mut self, number: u32, message: LinkMessage, fd: Option<OwnedFd>) {
        let Some(connection) = self.links.connections.get(&number) else { return };
        match (message, connection.universe) {
            (LinkMessage::Hello(hello), None) => self.meet_other(number, hello),
            (LinkMessage::Refused { reason }, None) => self.lose(number, &reason),
            (LinkMessage::Ask { id, process, request }, Some(universe)) => {
                match self.number_for(universe, process) {
                    Ok(alias) => {
                        self.links.asking.begin(alias, (universe, id));
                        match Request::decode(&request) {
                            Ok(request) => self.handle_request(alias, request, fd),
                            Err(error) => self.conclude(alias, Err(error.to_string())),
                        }
                    }
                    Err(reason) => {
                        let reply = Reply::Refused { rank: process.number, reason }.encode();
                        self.links.post_to(
                            universe,
                            LinkMessage::Answer { id, reply }.encode(),
                            None,
                        );
                    }
                }
            }
            (LinkMessage::Answer { id, reply }, Some(universe)) => {
                self.handle_answer((universe, id), &reply, fd)
            }
            (LinkMessage::Exited { number, is_well }, Some(universe)) => {
                if let Some(rank) = self.links.number(universe, number) {
                    self.ports.ended(rank);
                    self.handle_in_order(JobEvent::OtherExited { rank, is_well });
                }
            }
            (LinkMessage::Ending { first, code, text }, Some(universe)) => {
                if let Some(first) = self.links.number(universe, first) {
                    let pid = self.links.others.get(&universe).map_or(0, |other| other.pid);
                    let text = format!("mpirun {pid}: {text}");
                    // Reports of connected processes, also on other hosts, count if they have come.
                    self.read_all();
                    self.handle_after_checks(JobEvent::OtherFailed { first, code, text });
                }
            }
            (LinkMessage::Numbered { first, size }, Some(universe)) => {
                self.report_ended(universe, first, size);
            }
            (LinkMessage::Farewell, Some(universe)) => {
                self.links
                    .others
                    .get_mut(&universe)
                    .into_iter()
                    .for_each(|other| other.has_parted = true);
            }
            _ => self.lose(number, "has sent an unexpected message"),
        }
    }

    /// The state of another launcher; connects to it if it is not known.
    fn other(&mut self, universe: u64, place: u32) -> Result<&mut Other, String> {
        if !self.links.others.contains_key(&universe) {
            let peer = self.call(&door_name(place), universe, None)?;
            self.links.others.insert(universe, Other::new(place, peer.pid));
        }
        self.links.others.get_mut(&universe).ok_or_else(|| "its mpirun has ended".to_string())
    }
}

impl Other {
    fn new(place: u32, pid: i32) -> Other {
        Other {
            place,
            pid,
            secret: [0; 32],
            reach: None,
            connection: None,
            waiting: Vec::new(),
            has_parted: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_for_room_and_keep_their_order() {
        let (socket, theirs) = fdpass::pair().unwrap();
        for end in [&socket, &theirs] {
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK).unwrap();
        }
        let mut links = Links::default();
        let connection = LauncherConnection {
            peer: local::peer(&socket).unwrap(),
            socket,
            wanted: None,
            universe: Some(7),
            queue: VecDeque::new(),
            search: None,
            limit: Instant::now(),
            lasts: true,
            is_closing: false,
        };
        links.connections.insert(1, connection);
        links.others.insert(7, Other { connection: Some(1), ..Other::new(3, 1) });
        let sent = 5000;
        for number in 0..sent {
            links.report_end(number, true);
        }
        assert_eq!(links.waiting().count(), 1);
        let (mut bytes, mut came) = ([0; MAX_MESSAGE], 0);
        while came < sent {
            match fdpass::receive(&theirs, &mut bytes) {
                Ok((length, _)) => {
                    let message = LinkMessage::decode(&bytes[..length]).unwrap();
                    assert!(
                        matches!(message, LinkMessage::Exited { number, .. } if number == came)
                    );
                    came += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    links.write();
                }
            }
        }
        assert_eq!(links.waiting().count(), 0);
    }
}
