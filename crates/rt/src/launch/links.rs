//! Other launchers of this user on this machine, whose processes have to do with ours (MPI-5.0 chapter 11).
//!
//! A launcher that is to be found takes a *place*: a small number of which only one launcher of the user has it at a time, since
//! it is part of the name of the socket where others connect. That name is in no file system, and gone with the launcher. Ports
//! and names of processes say the place, and the launcher's *universe*, which tells a stale one from the launcher that has
//! the place now. Who connects, and who is connected to, must belong to the same user (SO_PEERCRED); a name that another user
//! has taken is in nobody's way (`claims.rs`).
//!
//! Processes of others get numbers of ours, a job in a row. Over a connection one launcher asks for its processes what they would
//! ask their own, so that the other answers as if they were its own; and says what becomes of its processes. Nothing here
//! waits: what does not fit a socket is kept until it does.

mod asking;
mod claims;
mod doors;
mod ends;
mod greeting;
mod numbers;
mod services;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use oxmpi_sys::local::{self, PeerCredentials};
use oxmpi_sys::{fdpass, net};
use rustix::event::epoll;

use self::claims::Refused;
use super::abroad::Reach;
use super::launcher::{DOORS, LINK, Launcher};
use crate::control::{MAX_MESSAGE, Reply, Request};
use crate::job::Event;
use crate::link::Message;

/// Places are from 1 to this: they fit the contexts' names, beside the processes' numbers.
pub(super) const MAX_PLACE: u32 = 4094;
/// Numbers of processes that have to do with those of other launchers are below this.
pub(super) const MAX_NUMBER: u32 = 1 << 20;
/// Messages that are taken from a connection before others get their turn.
const BURST: usize = 32;

/// A message and its descriptor.
type Parcel = (Vec<u8>, Option<OwnedFd>);

/// All that has to do with other launchers.
#[derive(Default)]
pub(super) struct Links {
    /// Our place, and where others connect, if that was wanted.
    door: Option<(u32, OwnedFd)>,
    /// Published names that others can look up: whose they are, and where others connect that look for them.
    names: HashMap<String, (u32, OwnedFd)>,
    connections: BTreeMap<u32, Connection>,
    /// By universe.
    others: BTreeMap<u64, Other>,
    /// By the number here of the first process.
    jobs: BTreeMap<u32, OtherJob>,
    /// The connections so far.
    connected: u32,
    asking: asking::Asking,
    /// By which processes of others prove who they are when they connect to ours over sockets.
    secret: [u8; 32],
    /// What nobody guesses of the names of our ports. It says nothing of any secret.
    port_word: u64,
    /// Until when nobody is let in.
    shut: Option<Instant>,
    /// Our processes that wait to hear on what they have to be reached.
    undecided: Vec<u32>,
    /// Our processes that have ended as they should not.
    unwell: HashSet<u32>,
}

/// A connection, on either side.
struct Connection {
    socket: OwnedFd,
    peer: PeerCredentials,
    /// Whom we mean, if we have connected; 0: whoever is there.
    wanted: Option<u64>,
    /// Who it is, when it has said so.
    universe: Option<u64>,
    /// What does not fit the socket yet.
    queue: VecDeque<Parcel>,
    /// Why we have connected, if it is to look up a name: the process that asks, and the name.
    search: Option<(u32, String)>,
    /// Until when who it is must have been said.
    limit: Instant,
    /// Neither side closes it as needless.
    lasts: bool,
    /// Nothing more is written to it.
    is_closing: bool,
}

/// Another launcher.
struct Other {
    place: u32,
    pid: i32,
    /// By which our processes prove who they are to its.
    secret: [u8; 32],
    /// On what our processes reach its processes, and they ours; only said when it has said who it is.
    reach: Option<Reach>,
    /// Where it is written to, when it has said who it is.
    connection: Option<u32>,
    /// What is to be written then.
    waiting: Vec<Parcel>,
    /// It has said that all its processes have ended.
    has_parted: bool,
}

/// A job of another launcher.
struct OtherJob {
    universe: u64,
    /// The number there of its first process.
    first: u32,
    size: u32,
}

/// The name of the socket of a place (see `claims.rs`).
fn door_name(place: u32) -> String {
    format!("oxmpi.{}.{place}", user())
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Who is at the other end, if it may be.
fn trusted(socket: &OwnedFd) -> Result<PeerCredentials, String> {
    match local::peer(socket) {
        Ok(peer) if peer.user == user() => Ok(peer),
        Ok(peer) => Err(format!("it belongs to user {}, and this is user {}", peer.user, user())),
        Err(error) => Err(error.to_string()),
    }
}

impl Links {
    /// Whether there are any others.
    pub(super) fn is_any(&self) -> bool {
        !self.others.is_empty()
    }

    /// Our place; 0 if others cannot find us.
    pub(super) fn place(&self) -> u32 {
        self.door.as_ref().map_or(0, |(place, _)| *place)
    }

    /// What nobody guesses of the names of our ports, once others can find us.
    pub(super) fn port_word(&self) -> u64 {
        self.port_word
    }
}

impl Launcher<'_> {
    /// Sees that others can find us. Returns our place.
    ///
    /// # Errors
    /// Why they cannot, for a person.
    pub(super) fn reach(&mut self) -> Result<u32, String> {
        if let Some((place, _)) = &self.links.door {
            return Ok(*place);
        }
        if self.job.next() > MAX_NUMBER {
            return Err(format!(
                "this mpirun has had more than {MAX_NUMBER} processes: it cannot have to do with others"
            ));
        }
        let mut drawn = [0; 44];
        net::fill_random(&mut drawn).map_err(|error| format!("no random bytes: {error}"))?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, secret @ ..] = drawn;
        let start = u32::from_le_bytes([a, b, c, d]) % MAX_PLACE;
        for place in (0..MAX_PLACE).map(|at| (start + at) % MAX_PLACE + 1) {
            match claims::claim(&door_name(place)) {
                Ok(listener) => {
                    self.listen(&self.events, listener.as_fd(), DOORS, 0).map_err(|e| e.to_string())?;
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
        Err(format!("{MAX_PLACE} mpiruns of this user have to do with others already, which is the limit"))
    }

    /// Connects to who listens under a name.
    fn call(
        &mut self,
        name: &str,
        wanted: u64,
        search: Option<(u32, String)>,
    ) -> Result<PeerCredentials, String> {
        let place = self.reach()?;
        let (socket, peer) = claims::find(name)?;
        let hello = Message::Hello(self.own_hello(wanted, place));
        let connection = self.connect(socket, peer, (Some(wanted), search))?;
        self.post(connection, hello.encode(), None);
        Ok(peer)
    }

    fn connect(
        &mut self,
        socket: OwnedFd,
        peer: PeerCredentials,
        (wanted, search): (Option<u64>, Option<(u32, String)>),
    ) -> Result<u32, String> {
        self.links.connected = self.links.connected.wrapping_add(1);
        let number = self.links.connected;
        self.listen(&self.events, socket.as_fd(), LINK, number.into()).map_err(|e| e.to_string())?;
        let limit = Instant::now() + doors::patience(wanted.is_some());
        let (universe, queue) = (None, VecDeque::new());
        let (lasts, is_closing) = (false, false);
        let connection =
            Connection { socket, peer, wanted, universe, queue, search, limit, lasts, is_closing };
        self.links.connections.insert(number, connection);
        Ok(number)
    }

    /// Sends a message over a connection, now or when there is room.
    fn post(&mut self, number: u32, bytes: Option<Vec<u8>>, fd: Option<OwnedFd>) {
        let (Some(bytes), Some(connection)) = (bytes, self.links.connections.get_mut(&number)) else {
            return;
        };
        connection.queue.push_back((bytes, fd));
        self.flush(number);
    }

    fn flush(&mut self, number: u32) {
        let Some(connection) = self.links.connections.get_mut(&number) else { return };
        while let Some((bytes, fd)) = connection.queue.front() {
            match fdpass::send(&connection.socket, bytes, fd.as_ref().map(AsFd::as_fd)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Of a connection that is broken the end is read.
                _ => _ = connection.queue.pop_front(),
            }
        }
        let wanted = if connection.queue.is_empty() {
            epoll::EventFlags::IN
        } else {
            epoll::EventFlags::IN | epoll::EventFlags::OUT
        };
        let name = epoll::EventData::new_u64(LINK << 32 | u64::from(number));
        // It fails only if the socket is not there, and it is.
        let _ = epoll::modify(&self.events, &connection.socket, name, wanted);
    }

    /// Sends a message to another launcher, as soon as it has said who it is.
    fn post_to(&mut self, universe: u64, bytes: Option<Vec<u8>>, fd: Option<OwnedFd>) {
        let Some(other) = self.links.others.get_mut(&universe) else { return };
        match (other.connection, bytes) {
            (Some(connection), bytes) => self.post(connection, bytes, fd),
            (None, Some(bytes)) => other.waiting.push((bytes, fd)),
            (None, None) => {}
        }
    }

    /// A connection can be read, or written.
    pub(super) fn link_ready(&mut self, number: u32) {
        self.flush(number);
        for _ in 0..BURST {
            let Some(connection) = self.links.connections.get(&number) else { return };
            let mut bytes = [0; MAX_MESSAGE];
            match fdpass::receive(&connection.socket, &mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok((0, _)) => return self.end(number),
                Err(error) => return self.lose(number, &format!("cannot be heard: {error}")),
                Ok((n, fd)) => match Message::decode(&bytes[..n]) {
                    Ok(message) => self.take(number, message, fd),
                    Err(error) => return self.lose(number, &format!("is not understood: {error}")),
                },
            }
        }
    }

    fn take(&mut self, number: u32, message: Message, fd: Option<OwnedFd>) {
        let Some(connection) = self.links.connections.get(&number) else { return };
        match (message, connection.universe) {
            (Message::Hello(hello), None) => self.meet_other(number, hello),
            (Message::Refused { reason }, None) => self.lose(number, &reason),
            (Message::Ask { id, process, request }, Some(universe)) => {
                match self.number_for(universe, process) {
                    Ok(alias) => {
                        self.links.asking.begin(alias, (universe, id));
                        match Request::decode(&request) {
                            Ok(request) => self.heed(alias, request, fd),
                            Err(error) => self.conclude(alias, Err(error.to_string())),
                        }
                    }
                    Err(reason) => {
                        let reply = Reply::Refused { rank: process.number, reason }.encode();
                        self.post_to(universe, Message::Answer { id, reply }.encode(), None);
                    }
                }
            }
            (Message::Answer { id, reply }, Some(universe)) => self.hear_answer((universe, id), &reply, fd),
            (Message::Exited { number, is_well }, Some(universe)) => {
                if let Some(rank) = self.links.number(universe, number) {
                    self.ports.ended(rank);
                    self.tell_in_turn(Event::OtherExited { rank, is_well });
                }
            }
            (Message::Ending { first, code, text }, Some(universe)) => {
                if let Some(first) = self.links.number(universe, first) {
                    let pid = self.links.others.get(&universe).map_or(0, |other| other.pid);
                    let text = format!("mpirun {pid}: {text}");
                    // Who of ours has to do with it may have said so only just now, on other hosts too.
                    self.hear_all();
                    self.tell_after_look(Event::OtherFailed { first, code, text });
                }
            }
            (Message::Numbered { first, size }, Some(universe)) => {
                self.tell_who_has_ended(universe, first, size);
            }
            (Message::Farewell, Some(universe)) => {
                self.links.others.get_mut(&universe).into_iter().for_each(|other| other.has_parted = true);
            }
            _ => self.lose(number, "says what it must not"),
        }
    }

    /// Another launcher, which is connected to if it is not known.
    ///
    /// # Errors
    /// Why it cannot be reached.
    fn other(&mut self, universe: u64, place: u32) -> Result<&mut Other, String> {
        if !self.links.others.contains_key(&universe) {
            let peer = self.call(&door_name(place), universe, None)?;
            self.links.others.insert(universe, Other::new(place, peer.pid));
        }
        self.links.others.get_mut(&universe).ok_or_else(|| "its mpirun has ended".to_string())
    }

    /// By which secret processes of another launcher prove who they are.
    ///
    /// # Errors
    /// If it is not known.
    pub(super) fn secret_for(&self, universe: u64) -> Result<[u8; 32], String> {
        match self.links.others.get(&universe) {
            Some(_) => Ok(self.links.secret),
            None => Err("no such mpirun is known".to_string()),
        }
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
