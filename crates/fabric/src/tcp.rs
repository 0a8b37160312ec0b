//! Sockets: the path between processes that share no memory, or when it is asked for.
//!
//! A connection to a peer is made when there is something to send to it, after both have proved that they know the
//! secret of the job ([`greeting`]). What goes over it are *records* ([`record`]), numbered in each direction.
//!
//! Rules
//! 1. A record is kept until the peer has acknowledged it: copied if it is eager, by a reference to the user's memory if
//!    it is a piece of an announced message, which so is complete when the peer has it. ([`outgoing`])
//! 2. A message is taken only if everything before it is with the kernel; it is [`Sent::Done`] if it is with the kernel
//!    as well. So nothing waits here that the engine does not know of.
//! 3. A connection that breaks is made again, by either side. Both say what they have received; the rest is sent again,
//!    from that byte on. Nothing is lost, doubled or reordered.
//! 4. Attempts end after some time ([`trouble`]); then the peer is lost.
//! 5. A process that ends waits until all that it has sent is acknowledged, then says goodbye to each peer it has
//!    a connection with, and closes that when the peer's kernel has the goodbye. Who hears it takes all it has
//!    sent for received. A peer to which the goodbye did not come finds out from the launcher, when it tries to connect.
//! 6. Who connects and is not of the job costs a few bytes and some time: greetings have one place each, of which there
//!    are few, and a time limit.
//!
//! Rules 1 to 3 are a state machine without sockets, the link (`link.rs`); this file moves bytes and times.

mod greeting;
mod greetings;
mod link;
mod outgoing;
mod peer;
mod record;
mod trouble;

pub use greeting::{
    Acceptor, GreetingError, HELLO, Identity, Initiator, Nonce, PROOF, Secret, VERDICT, WELCOME,
};
pub use link::Link;
pub use outgoing::Pieces;
pub use record::{Header, Incoming, Kind, Point, RECORD_HEADER, Upper};

use self::greetings::Greetings;
use self::peer::{Peer, Way};
use crate::{Body, Fabric, Message, Sent, Sink, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_os::net::{Listener, Socket};
use oxmpi_os::poller::{CLOCK, Poller, Ready};
use oxmpi_wire::{Frame, MAX_FRAME_LEN, WireError};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest piece of an announced message, bytes.
const PIECE: usize = 1 << 20;
/// Bytes that are received at a time.
const BUFFER: usize = 256 << 10;
/// How often that is done for one peer before the others get their turn.
const READS: usize = 4;
/// How long a process that ends waits for its peers' kernels to take its goodbyes.
const GOODBYE: Duration = Duration::from_secs(5);
/// How often it looks.
const GOODBYE_LOOK: Duration = Duration::from_millis(1);
/// How long the higher rank waits for the lower one to make a broken connection again, if it has nothing to send.
const YOURS: Duration = Duration::from_millis(20);
/// How long nobody is accepted when there are no descriptors left.
const DEAF: Duration = Duration::from_millis(100);
/// How long a kernel may take to answer an attempt to connect.
const CONNECTING: Duration = Duration::from_secs(5);
/// A connection that was used for so long was a good one, even if nothing came over it.
const STABLE: Duration = Duration::from_secs(1);

/// How sockets are used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Longest eager message, bytes.
    pub eager_limit: usize,
    /// Bytes that the kernel shall buffer for each socket and direction, if not as many as it likes.
    pub buffers: Option<usize>,
    /// How long to try to reach a peer before it counts as lost.
    pub patience: Duration,
    /// How long a greeting may take of which nothing but silence or noise has come.
    pub greeting_time: Duration,
    /// How long one may take that began with a Hello of the job.
    pub welcome_time: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            eager_limit: 65535,
            buffers: Some(65535),
            patience: Duration::from_secs(10),
            greeting_time: Duration::from_secs(5),
            welcome_time: Duration::from_secs(600),
        }
    }
}

/// Where a process can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where it listens.
    pub socket: SocketAddr,
    /// The interface there.
    pub interface: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%{}", self.socket, self.interface)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || format!("'{text}' is no address of the form IP:PORT%INTERFACE");
        // An IPv6 address may have a scope of its own, before the bracket.
        let (socket, interface) = text.rsplit_once('%').ok_or_else(wrong)?;
        let socket = socket.parse().map_err(|_| wrong())?;
        Ok(Address { socket, interface: interface.to_string() })
    }
}

/// What is known of a peer's whereabouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// It can be reached here.
    At(Vec<Address>),
    /// It has ended as it should.
    Left,
}

/// Finds a process of this job; the error is for a person.
pub type Find = Box<dyn FnMut(u32) -> Result<Whereabouts, String> + Send>;

/// Tells a person something.
pub type Tell = Box<dyn Fn(&str) + Send>;

/// What a peer has sent makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No header of a record.
    #[error("the bytes that begin with {0:#018x} are no header of a record")]
    Header(u64),
    /// Not the record that must come.
    #[error("record {number} from byte {start} came, not {records} from byte {bytes}")]
    Place {
        /// The number that must come.
        records: u64,
        /// The byte that must come.
        bytes: u32,
        /// The number that came.
        number: u64,
        /// The byte that came.
        start: u32,
    },
    /// A record too short for its frame.
    #[error("a record of {length} bytes has a frame of {frame}")]
    Length {
        /// Bytes of the record.
        length: u32,
        /// Bytes of the frame.
        frame: usize,
    },
    /// No frame.
    #[error(transparent)]
    Frame(#[from] WireError),
    /// A frame of another process, or of shared memory.
    #[error("a frame that only shared memory or another process sends")]
    Foreign,
    /// More than was written is acknowledged.
    #[error("{records} records are acknowledged, {written} were sent")]
    Acknowledged {
        /// Records acknowledged.
        records: u64,
        /// Records written.
        written: u64,
    },
    /// The point from which to go on cannot be.
    #[error("{point:?} is said to have come; the first record kept is {first}, and {written:?} was sent")]
    Resume {
        /// The point.
        point: Point,
        /// The first record that is kept.
        first: u64,
        /// Up to where was ever sent.
        written: Point,
    },
}

/// The way of one process over sockets.
pub struct Tcp {
    own: Identity,
    secret: Secret,
    settings: Settings,
    find: Find,
    tell: Tell,
    poller: Arc<Poller>,
    listener: Option<Listener>,
    /// Nobody is accepted for some time.
    deaf_until: Option<Duration>,
    greetings: Greetings,
    /// By process index; made at first contact.
    peers: Vec<Option<Box<Peer>>>,
    buffer: Vec<u8>,
    ready: Vec<Ready>,
    start: Instant,
    /// When the clock rings.
    alarm: Option<Duration>,
    /// Peers whose messages are gone, or that are lost, and of which the sink was not told yet.
    news: Vec<u32>,
    /// When the process began to say goodbye.
    leaving: Option<Duration>,
}

impl fmt::Debug for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ways: Vec<_> =
            self.peers.iter().enumerate().flat_map(|(at, p)| Some((at, &p.as_ref()?.way))).collect();
        f.debug_struct("Tcp").field("own", &self.own).field("ways", &ways).finish_non_exhaustive()
    }
}

/// The names of descriptors in the poller: what it is, and which.
const LISTENER: u64 = 1 << 32;
const GREETING: u64 = 2 << 32;
const PEER: u64 = 3 << 32;

impl Tcp {
    /// The way of the process `own`, whose peers connect to `listener`. The caller sleeps on `poller`.
    ///
    /// # Errors
    /// If the listener cannot be added to the poller.
    pub fn new(
        own: Identity,
        secret: Secret,
        settings: Settings,
        (listener, poller): (Listener, Arc<Poller>),
        find: Find,
        tell: Tell,
    ) -> std::io::Result<Tcp> {
        poller.add(&listener, LISTENER, false)?;
        Ok(Tcp {
            own,
            secret,
            settings,
            find,
            tell,
            poller,
            listener: Some(listener),
            deaf_until: None,
            greetings: Greetings::new(own.size as usize),
            peers: Vec::new(),
            buffer: vec![0; BUFFER],
            ready: Vec::new(),
            start: Instant::now(),
            alarm: None,
            news: Vec::new(),
            leaving: None,
        })
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn peer(&mut self, at: u32) -> &mut Peer {
        let place = at as usize;
        if self.peers.len() <= place {
            self.peers.resize_with(place + 1, || None);
        }
        self.peers[place].get_or_insert_default()
    }

    fn known(&mut self, at: u32) -> Option<&mut Peer> {
        self.peers.get_mut(at as usize)?.as_deref_mut()
    }

    /// Wakes the process at `time`, or earlier.
    fn wake_at(&mut self, time: Duration) {
        if self.alarm.is_none_or(|alarm| time < alarm) {
            self.alarm = Some(time);
            self.poller.set_clock(Some(time.saturating_sub(self.now())));
        }
    }

    /// The time of the clock has come: sees who has waited for it, and sets it anew.
    fn on_clock(&mut self) {
        self.alarm = None;
        let now = self.now();
        for old in self.greetings.expire(now) {
            self.poller.remove(&old);
        }
        if self.deaf_until.is_some_and(|until| until <= now)
            && let Some(listener) = &self.listener
        {
            self.deaf_until = None;
            // It fails only if the descriptor is there already.
            let _ = self.poller.add(listener, LISTENER, false);
        }
        for at in 0..self.peers.len() as u32 {
            match self.known(at).map(|peer| &peer.way) {
                Some(Way::Pause { until }) if *until <= now => self.connect(at),
                Some(Way::Connecting { limit, .. }) if *limit <= now => {
                    self.cut(at, "it does not answer");
                }
                _ => {}
            }
        }
        let peers = self.peers.iter().flatten().filter_map(|peer| match peer.way {
            Way::Pause { until: time } | Way::Connecting { limit: time, .. } => Some(time),
            _ => None,
        });
        let next = peers.chain(self.greetings.next_limit()).chain(self.deaf_until).min();
        if let Some(time) = next {
            self.wake_at(time);
        }
    }

    /// Writes what is to be written to a peer, as far as there is room. A connection that cannot be written is read to
    /// its end, so that what came before is not lost.
    fn write(&mut self, at: u32) {
        let poller = self.poller.clone();
        let Some(peer) = self.known(at) else { return };
        let Way::Up(socket) = &peer.way else { return };
        while !peer.is_blocked
            && let Some(pieces) = peer.link.pending()
        {
            let all = pieces.len();
            match socket.send(pieces.as_slice()) {
                Ok(sent) => {
                    peer.link.wrote(sent);
                    peer.is_blocked = sent < all;
                }
                Err(error) => {
                    peer.is_blocked = true;
                    if error.kind() != std::io::ErrorKind::WouldBlock {
                        // The next look reads the end of it; without an event for writing, which would come at once.
                        peer.is_broken = true;
                    }
                }
            }
        }
        let wants = peer.is_blocked && !peer.is_broken;
        if wants != peer.wants_room {
            peer.wants_room = wants;
            // It fails only if the descriptor is not there, and it is.
            let _ = poller.change(socket, PEER | u64::from(at), wants);
        }
    }

    /// A descriptor of a peer's is ready.
    fn on_peer<S: Sink>(&mut self, at: u32, ready: Ready, sink: &mut S) {
        let Some(peer) = self.known(at) else { return };
        match &peer.way {
            Way::Connecting { .. } => self.on_connected(at),
            Way::Greeting { .. } => self.on_greeted(at),
            Way::Up(_) => {
                if ready.writable {
                    peer.is_blocked = peer.is_broken;
                }
                if ready.readable {
                    self.read(at, sink);
                }
                self.write(at);
                if let Some(peer) = self.known(at) {
                    peer.link.tell_gone(sink);
                }
            }
            Way::Apart | Way::Pause { .. } | Way::Left | Way::Lost(_) => {}
        }
    }

    /// Reads what has come from a peer, and hands it up.
    fn read<S: Sink>(&mut self, at: u32, sink: &mut S) {
        let Some(Some(peer)) = self.peers.get_mut(at as usize) else { return };
        let Way::Up(socket) = &peer.way else { return };
        let mut end = None;
        for _ in 0..READS {
            let read = match socket.receive(&mut self.buffer) {
                Ok(0) => Err("the connection was closed".to_string()),
                Ok(n) => Ok(n),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => Err(error.to_string()),
            };
            match read.and_then(|n| {
                peer.link.take(at, &self.buffer[..n], sink).map(|()| n).map_err(|error| error.to_string())
            }) {
                Ok(n) => {
                    peer.trouble.over();
                    if n < self.buffer.len() {
                        break;
                    }
                }
                Err(why) => {
                    end = Some(why);
                    break;
                }
            }
        }
        let left = peer.link.has_left();
        if left {
            self.part(at, Way::Left);
        } else if let Some(why) = end {
            self.cut(at, &why);
        }
    }

    /// A connection is over; how it goes on is `way`.
    fn part(&mut self, at: u32, way: Way) {
        let poller = self.poller.clone();
        let Some(peer) = self.known(at) else { return };
        if let Way::Connecting { socket, .. } | Way::Greeting { socket, .. } | Way::Up(socket) = &peer.way {
            poller.remove(socket);
        }
        if matches!(way, Way::Left | Way::Lost(_)) {
            peer.link.clear();
        }
        peer.way = way;
        (peer.is_blocked, peer.is_broken, peer.wants_room) = (false, false, false);
        self.news.push(at);
    }

    /// A connection, or an attempt to make one, has failed: tries again soon, or gives up (rule 4).
    fn cut(&mut self, at: u32, why: &str) {
        let (now, own, patience) = (self.now(), self.own.rank, self.settings.patience);
        if self.leaving.is_some() {
            // Everything is acknowledged, so nobody misses anything.
            return self.part(at, Way::Left);
        }
        let Some(peer) = self.known(at) else { return };
        let was_up = matches!(peer.way, Way::Up(_));
        if was_up && now.saturating_sub(peer.up_since) > STABLE {
            peer.trouble.over();
        }
        let tried = peer.tried.take();
        match peer.trouble.failed(now, patience) {
            trouble::Next::Again(pause) => {
                let mine = own < at || !peer.link.is_acknowledged() || !was_up;
                let until = now + if mine { pause } else { pause.max(YOURS) };
                self.part(at, Way::Pause { until });
                self.wake_at(until);
            }
            trouble::Next::GiveUp { tries, time } => {
                let to = tried.map_or("no address was found".into(), |a| {
                    format!("the last address was {} on interface {}", a.socket, a.interface)
                });
                let text = format!(
                    "rank {own} cannot reach rank {at} over sockets: {why}; tried {tries} times in {:.1} s, {to}",
                    time.as_secs_f64()
                );
                (self.tell)(&text);
                self.part(at, Way::Lost(text));
            }
        }
    }

    /// Begins to make a connection.
    fn connect(&mut self, at: u32) {
        let found = (self.find)(at);
        let buffers = self.settings.buffers;
        let addresses = match found {
            Ok(Whereabouts::At(addresses)) => addresses,
            Ok(Whereabouts::Left) => return self.part(at, Way::Left),
            Err(why) => return self.cut(at, &why),
        };
        if addresses.is_empty() {
            return self.cut(at, "it listens nowhere");
        }
        let peer = self.peer(at);
        let address = addresses[peer.attempts as usize % addresses.len()].clone();
        peer.attempts = peer.attempts.wrapping_add(1);
        let to = address.socket;
        peer.tried = Some(address);
        let connected = Socket::connect(to, buffers)
            .and_then(|socket| self.poller.add(&socket, PEER | u64::from(at), true).map(|()| socket));
        match connected {
            Ok(socket) => {
                let limit = self.now() + CONNECTING;
                self.peer(at).way = Way::Connecting { socket, limit };
                self.wake_at(limit);
            }
            Err(error) => self.cut(at, &error.to_string()),
        }
    }

    /// An attempt to connect is decided: if it went well, the greeting begins.
    fn on_connected(&mut self, at: u32) {
        let (own, secret) = (self.own, self.secret.clone());
        let poller = self.poller.clone();
        let Some(peer) = self.known(at) else { return };
        let Way::Connecting { socket, .. } = &peer.way else { return };
        let greeted = socket.outcome().and_then(|()| {
            let mut nonce = [0; 32];
            oxmpi_os::net::fill_random(&mut nonce)?;
            let (greeting, hello) = Initiator::new(own, at, &secret, &nonce);
            greetings::send_whole(socket, &hello)?;
            poller.change(socket, PEER | u64::from(at), false)?;
            Ok(greeting)
        });
        match greeted {
            Ok(greeting) => {
                if let Way::Connecting { socket, .. } = std::mem::replace(&mut peer.way, Way::Apart) {
                    peer.way = Way::Greeting { socket, greeting, got: Vec::new(), is_welcome: false };
                }
            }
            Err(error) => self.cut(at, &error.to_string()),
        }
    }

    /// Something came in the greeting that we have begun.
    fn on_greeted(&mut self, at: u32) {
        let Some(peer) = self.known(at) else { return };
        match peer.greeted() {
            Ok(None) => {}
            Ok(Some(point)) => {
                if let Way::Greeting { socket, .. } = std::mem::replace(&mut peer.way, Way::Apart) {
                    self.begin(at, socket, point);
                }
            }
            Err(why) => self.cut(at, &why),
        }
    }

    /// Both sides believe each other: the connection is used. Its descriptor is in the poller under the peer's name.
    fn begin(&mut self, at: u32, socket: Socket, point: Point) {
        let now = self.now();
        let peer = self.peer(at);
        peer.way = Way::Up(socket);
        peer.up_since = now;
        (peer.is_blocked, peer.is_broken, peer.wants_room) = (false, false, false);
        if let Err(error) = peer.link.resume(point) {
            return self.cut(at, &error.to_string());
        }
        self.news.push(at);
        self.write(at);
    }

    /// Others connect.
    fn on_listener(&mut self) {
        for _ in 0..greetings::AT_ONCE {
            let Some(listener) = &self.listener else { return };
            let socket = match listener.accept() {
                Ok(Some((socket, _))) => socket,
                Ok(None) => return,
                Err(_) => {
                    // No descriptors left: those who connect wait, and nobody asks for them all the time.
                    self.poller.remove(listener);
                    let until = self.now() + DEAF;
                    self.deaf_until = Some(until);
                    return self.wake_at(until);
                }
            };
            let limit = self.now() + self.settings.greeting_time;
            let (place, old) = self.greetings.add(socket, limit);
            if let Some(old) = old {
                self.poller.remove(&old);
            }
            match self.greetings.socket(place) {
                Some(socket) if self.poller.add(socket, GREETING | place, false).is_ok() => {
                    self.wake_at(limit);
                }
                _ => drop(self.greetings.take(place)),
            }
        }
    }

    /// Something came from somebody who has connected.
    fn on_greeting(&mut self, place: u64) {
        let limit = self.now() + self.settings.welcome_time;
        match self.greetings.greeted(place, self.own, &self.secret, limit) {
            Ok(None) => {}
            Ok(Some((acceptor, point))) => {
                if let Some(socket) = self.greetings.take(place) {
                    self.poller.remove(&socket);
                    self.judge(acceptor, socket, point);
                }
            }
            Err(_) => {
                if let Some(socket) = self.greetings.take(place) {
                    self.poller.remove(&socket);
                }
            }
        }
    }

    /// A peer has proved who it is: takes the connection, or not.
    fn judge(&mut self, acceptor: Acceptor, socket: Socket, point: Point) {
        let (at, incarnation) = acceptor.from();
        if !matches!(socket.receive(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock) {
            // It has given this attempt up meanwhile, for a better one, or says what it must not.
            return;
        }
        let (poller, is_leaving) = (self.poller.clone(), self.leaving.is_some());
        let peer = self.peer(at);
        let own_attempt = matches!(peer.way, Way::Connecting { .. } | Way::Greeting { .. });
        let is_old = peer.incarnation.is_some_and(|known| incarnation < known);
        let is_new = peer.incarnation.is_some_and(|known| incarnation > known);
        if is_new {
            let text = format!("rank {at} was started anew");
            return self.part(at, Way::Lost(text));
        }
        if is_old
            || (own_attempt && acceptor.loses_to_own())
            || matches!(peer.way, Way::Left | Way::Lost(_))
            || is_leaving
        {
            // It finds out by itself if this does not arrive.
            let _ = greetings::send_whole(&socket, &acceptor.judge(None));
            return;
        }
        peer.incarnation = Some(incarnation);
        if let Way::Connecting { socket: old, .. } | Way::Greeting { socket: old, .. } | Way::Up(old) =
            std::mem::replace(&mut peer.way, Way::Apart)
        {
            poller.remove(&old);
        }
        let verdict = acceptor.judge(Some(peer.link.point()));
        let welcome = greetings::send_whole(&socket, &verdict)
            .and_then(|()| poller.add(&socket, PEER | u64::from(at), false));
        match welcome {
            Ok(()) => self.begin(at, socket, point),
            Err(error) => self.cut(at, &error.to_string()),
        }
    }

    /// Whether a message of `len` bytes may go to a peer now; if not, sees that it will some time.
    fn may_send(&mut self, to: u32, len: usize) -> Result<bool, Unreachable> {
        match &mut self.peer(to).way {
            Way::Apart => {
                self.connect(to);
                Ok(false)
            }
            Way::Lost(why) => Err(Unreachable { peer: to, why: why.clone() }),
            Way::Connecting { .. } | Way::Greeting { .. } | Way::Pause { .. } => Ok(false),
            Way::Left => Ok(true),
            Way::Up(_) => {
                let peer = self.peer(to);
                if peer.link.has_room(len) {
                    return Ok(!peer.is_blocked);
                }
                if peer.link.is_written() {
                    // Too much is kept: the peer may not know that somebody waits for its word.
                    peer.link.ask();
                    self.write(to);
                }
                Ok(false)
            }
        }
    }

    /// Tells the sink what has happened outside of a poll.
    fn tell_news<S: Sink>(&mut self, sink: &mut S) {
        while let Some(at) = self.news.pop() {
            let Some(peer) = self.known(at) else { continue };
            peer.link.tell_gone(sink);
            if matches!(peer.way, Way::Lost(_)) && !std::mem::replace(&mut peer.is_told, true) {
                sink.lost(at);
            }
        }
    }

    /// Whether a peer's kernel has our goodbye, or needs none.
    fn has_parted(&mut self, at: u32, is_late: bool) -> bool {
        let Some(peer) = self.known(at) else { return true };
        let Way::Up(socket) = &peer.way else {
            // Nobody there who waits; who comes later finds nobody.
            self.part(at, Way::Left);
            return true;
        };
        let has_it = peer.link.is_written() && socket.unsent().is_ok_and(|bytes| bytes == 0);
        if has_it || is_late || peer.is_broken {
            socket.finish();
            self.part(at, Way::Left);
            return true;
        }
        false
    }
}

impl Fabric for Tcp {
    fn eager_limit(&mut self, _to: u32) -> usize {
        self.settings.eager_limit
    }

    fn piece_limit(&mut self, _to: u32) -> usize {
        PIECE
    }

    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable> {
        if !self.may_send(to, message.body.len())? {
            return Ok(Sent::Full);
        }
        let me = self.own.rank;
        let peer = self.peer(to);
        if matches!(peer.way, Way::Left) {
            return Ok(Sent::Done);
        }
        peer.link.push(me, message);
        self.write(to);
        let peer = self.peer(to);
        Ok(if peer.link.took_newest() { Sent::Done } else { Sent::Later })
    }

    fn send_piece(
        &mut self,
        to: u32,
        message: &Message<'_>,
        buffer: &UserBuf,
        offset: usize,
    ) -> Result<Sent, Unreachable> {
        let len = message.body.len();
        if !self.may_send(to, 0)? {
            return Ok(Sent::Full);
        }
        let me = self.own.rank;
        let peer = self.peer(to);
        if matches!(peer.way, Way::Left) {
            return Ok(Sent::Done);
        }
        peer.link.lend(me, message, (buffer.clone(), offset, len));
        self.write(to);
        Ok(Sent::Later)
    }

    fn release(&mut self, token: u64) {
        for peer in self.peers.iter_mut().flatten() {
            peer.link.release(token);
        }
    }

    fn poll<S: Sink>(&mut self, sink: &mut S) -> bool {
        let mut any = !self.news.is_empty();
        self.tell_news(sink);
        let mut ready = std::mem::take(&mut self.ready);
        self.poller.look(&mut ready);
        any |= !ready.is_empty();
        for one in &ready {
            let index = one.name & u64::from(u32::MAX);
            match one.name & !u64::from(u32::MAX) {
                LISTENER => self.on_listener(),
                GREETING => self.on_greeting(index),
                PEER => self.on_peer(index as u32, *one, sink),
                _ => {}
            }
        }
        // Last: what has come in time counts, even if nobody looked for long.
        if ready.iter().any(|one| one.name == CLOCK) {
            self.on_clock();
        }
        self.ready = ready;
        self.tell_news(sink);
        any
    }

    fn announce_waiting(&mut self, _peer: u32) -> bool {
        // Room, an acknowledgement, a connection: all of them are events.
        true
    }

    fn leave(&mut self) -> bool {
        let now = self.now();
        let Some(since) = self.leaving else {
            let mut is_acknowledged = true;
            for at in 0..self.peers.len() as u32 {
                let Some(peer) = self.known(at) else { continue };
                if !peer.link.is_acknowledged() {
                    is_acknowledged = false;
                    peer.link.ask();
                    self.write(at);
                }
            }
            if is_acknowledged {
                self.leaving = Some(now);
                if let Some(listener) = self.listener.take() {
                    self.poller.remove(&listener);
                }
                for socket in self.greetings.expire(Duration::MAX) {
                    self.poller.remove(&socket);
                }
                for at in 0..self.peers.len() as u32 {
                    if let Some(Peer { way: Way::Up(_), link, .. }) = self.known(at) {
                        link.say_bye();
                        self.write(at);
                    }
                }
                return self.leave();
            }
            return false;
        };
        let is_late = now.saturating_sub(since) > GOODBYE;
        let mut all = true;
        for at in 0..self.peers.len() as u32 {
            all &= self.has_parted(at, is_late);
        }
        if !all {
            self.wake_at(now + GOODBYE_LOOK);
        }
        all
    }
}

/// Whether a frame may come over a socket from process `from`.
fn is_ours(from: u32, source: u32, frame: &Frame) -> bool {
    source == from && !matches!(frame, Frame::RingGrant { .. } | Frame::RingOpen { .. })
}

const _: () = assert!(PIECE + MAX_FRAME_LEN <= u32::MAX as usize);

/// The longest body of any record.
fn body_fits(body: &Body<'_>) -> bool {
    body.len() <= u32::MAX as usize - MAX_FRAME_LEN
}
