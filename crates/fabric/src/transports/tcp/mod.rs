//! Sockets: the transport between processes that share no memory, or when the user selects it.
//!
//! A connection to a peer is made when there is something to send to it, after both have proved
//! that they know the secret of the job (`greeting.rs`). It carries *records* (`record.rs`),
//! numbered in each direction.
//!
//! Rules
//! 1. A record is retained until the peer has acknowledged it: as a copy if it is eager, as a
//!    reference to the user's memory if it is a piece of an announced message, which is complete
//!    when the peer has it (`outgoing.rs`). A longer eager message is also retained as a reference,
//!    and copied only if the acknowledgement comes late (`lending.rs`).
//! 2. A message is taken only if the kernel has everything before it; it is [`Sent::Done`] if the
//!    kernel has it as well. So nothing waits here without the engine's knowledge. (Short messages
//!    are written only while so few records are retained that the kernel has room; if the kernel
//!    still takes only a part, the next poll writes the rest: `fast_path.rs`.)
//! 3. A broken connection is made again, by either side. Both state their received points; the rest
//!    is sent again, from that byte on. Nothing is lost, doubled or reordered.
//! 4. Attempts end if none of them has brought anything new for some time (`attempts.rs`); then the
//!    peer is lost. Only a peer that is silent, but runs, as the launcher says, is tried for ever:
//!    it may compute, and poll its sockets seldom. If each connection is closed instead, another
//!    program accepts connections at that address, or something between the two changes their data.
//! 5. A process that ends waits until everything that it has sent is acknowledged, then says
//!    goodbye to each connected peer, and closes the connection when the peer's kernel has the
//!    goodbye. A peer that gets it counts everything it has sent as received. A peer that did not
//!    get the goodbye learns from the launcher, when it tries to connect, that the process has
//!    ended. A process that may come back ([`Membership::rest`]) says no goodbye: it also waits,
//!    acknowledges everything, and leaves its connections and its listener open. Peers that write
//!    to it wait until it polls again or ends.
//! 6. Processes of different jobs that give up their last communicator wait until each has
//!    everything from the other that it needs (it does not need hints). From then on neither waits
//!    for the other: not when it ends, and not when the connection breaks.
//! 7. A connection of a process outside the job costs a few bytes and some time: there are few
//!    places for greetings, one each; a new connection without a place takes that of the longest
//!    silent one.
//! 8. A connection whose ends want it is encrypted (`greeting.rs` rule 6, `sealed.rs`): the same
//!    records go through a cipher, whose keys are of this connection alone. Data that cannot be
//!    opened end the connection, and rule 3 holds.
//! 9. Records to a peer before its first connection is used may be sent early: with the first
//!    message of a greeting, before the peer's process has answered (`greeting.rs` rules 7 to 10).
//!    So the kernel has them, as rule 2 wants it, while the peer computes.
//! 10. Where messages can be quiesced, all processes stop sending on the launcher's order, wait
//!     until everything is acknowledged, and end their connections and listeners (`quiesce.rs`).
//!     Then each listens anew, on whatever host it is by then, and connects when it has something
//!     to send, as if a connection had broken (rule 3). `routes/quiesce.rs` has the steps.
//! 11. A process that was restored from an image has no connections and no listeners, and nothing
//!     was quiesced: all processes of the job were stopped before the first image was made, so data
//!     in the kernel or on the wire are retained by their sender (rule 1), and go over the next
//!     connection (rule 3), which has new keys. The launcher reports the new addresses of peers.
//!
//! Rules 1 to 3 are a state machine without sockets, the link (`link.rs`); this file moves bytes
//! and measures times.

mod attempts;
mod connecting;
mod connection_log;
mod early;
mod error;
mod fast_path;
mod greeting;
mod greetings;
mod incoming;
mod leaving;
mod lending;
mod link;
mod module;
mod outgoing;
mod peer;
mod poll_set;
mod quiesce;
mod reading;
mod record;
mod retained;
mod sealed;
mod settings;
mod timers;
mod writing;

pub use crate::addresses::{Address, PeerLocation};
pub use crate::transports::Tell;
pub use early::EARLY_BYTES;
pub use error::RecordError;
pub use greeting::{
    Acceptor, GreetingError, HELLO, Identity, Initiator, Nonce, PROOF, Secret, VERDICT, WELCOME,
};
pub use incoming::{IncomingRecords, RecordSink};
pub use link::Link;
pub use outgoing::Pieces;
pub use oxmpi_wire::noise::Encryption;
pub use record::{ALIGNMENT, Point, RECORD_HEADER, RecordHeader, RecordKind};
pub use settings::{Find, SecretOf, TcpSettings};

use self::connection_log::ConnectionLog;
use self::fast_path::Ahead;
use self::greetings::Greetings;
use self::lending::LEND_FROM;
use self::peer::{Bond, ConnectionState, TcpPeer};
use self::poll_set::RecentPeer;
use crate::{
    Body, Connected, Connections, Counts, FrameSink, Limits, Membership, OutgoingMessage, Sent,
    Statistics, Taken, Traffic, Transport, Unreachable,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::net::Listener;
use oxmpi_sys::poller::{Poller, Ready};
use oxmpi_wire::{Frame, MAX_FRAME_LEN, Tags};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The source in frames to a process of another launcher, which numbers this process differently.
const ANYBODY: u32 = u32::MAX;
/// The longest piece of an announced message, in bytes.
const PIECE: usize = 1 << 20;
const BUFFER: usize = 256 << 10;

/// The sockets of one process.
pub struct Tcp {
    own: Identity,
    secret: Secret,
    settings: TcpSettings,
    find: Find,
    secret_of: SecretOf,
    tell: Tell,
    poller: Arc<Poller>,
    /// Peers of this launcher connect to the first; peers of others to the others.
    listeners: Vec<Listener>,
    /// No connection is accepted before.
    accepts_after: Option<Duration>,
    is_pause_reported: bool,
    greetings: Greetings,
    /// By rank; made at first contact.
    peers: Vec<Option<Box<TcpPeer>>>,
    buffer: Vec<u8>,
    ahead: Ahead,
    record: Vec<u8>,
    /// The content of an encrypted record.
    plain: Vec<u8>,
    /// The most retained records when one is written before it is retained.
    records_with_room: usize,
    /// Whether one thread calls, and reports its sleeps.
    is_alone: bool,
    ready: Vec<Ready>,
    start: Instant,
    /// The time of the next event of the clock.
    alarm: Option<Duration>,
    /// Peers that are lost or have complete messages, not yet reported to the sink.
    news: Vec<u32>,
    undelivered: Option<String>,
    /// The time at which the process began to say goodbye.
    leaving: Option<Duration>,
    /// Whether everything that was sent has arrived, and nothing is sent for now.
    is_quiet: bool,
    watch: ConnectionLog,
    /// Peers to which whole messages were lent that may be incomplete.
    lenders: Vec<u32>,
    /// Polls in vain since something arrived.
    vain: u32,
    /// Polls since a lent message could be copied.
    uncopied: u32,
    recent: RecentPeer,
    sent: Traffic,
}

impl fmt::Debug for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states: Vec<_> = self
            .peers
            .iter()
            .enumerate()
            .flat_map(|(at, p)| Some((at, &p.as_ref()?.state)))
            .collect();
        f.debug_struct("Tcp")
            .field("own", &self.own)
            .field("states", &states)
            .finish_non_exhaustive()
    }
}

/// The names of descriptors in the poller: the kind, and a number below.
const LISTENER: u64 = 1 << 32;
const GREETING: u64 = 2 << 32;
const PEER: u64 = 3 << 32;

impl Tcp {
    /// The sockets of `own`, to whose `listener` peers connect, with the caller's `poller`.
    pub fn new(
        own: Identity,
        secret: Secret,
        settings: TcpSettings,
        (listener, poller): (Listener, Arc<Poller>),
        find: Find,
        tell: Tell,
    ) -> std::io::Result<Tcp> {
        poller.add(&listener, LISTENER, false)?;
        let records_with_room = Tcp::records_with_room(settings.buffers);
        Ok(Tcp {
            own,
            secret,
            settings,
            find,
            secret_of: Box::new(|_| None),
            tell,
            poller,
            listeners: vec![listener],
            accepts_after: None,
            is_pause_reported: false,
            greetings: Greetings::new(own.size as usize),
            peers: Vec::new(),
            buffer: vec![0; BUFFER],
            ahead: Ahead::new(),
            record: Vec::new(),
            plain: Vec::new(),
            records_with_room,
            is_alone: false,
            ready: Vec::new(),
            start: Instant::now(),
            alarm: None,
            news: Vec::new(),
            undelivered: None,
            leaving: None,
            is_quiet: false,
            watch: ConnectionLog::default(),
            lenders: Vec::new(),
            vain: 0,
            uncopied: 0,
            recent: RecentPeer::new(),
            sent: Traffic::default(),
        })
    }

    /// Lets processes of other launchers connect whose secret is known.
    #[must_use]
    pub fn with_secrets(self, secret_of: SecretOf) -> Tcp {
        Tcp { secret_of, ..self }
    }

    /// For a process of one thread that reports its sleeps: the poller need not report everything,
    /// until [`Transport::share_among_threads`].
    #[must_use]
    pub fn for_one_thread(self) -> Tcp {
        Tcp { is_alone: true, ..self }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn peer(&mut self, at: u32) -> &mut TcpPeer {
        let place = at as usize;
        if self.peers.len() <= place {
            self.peers.resize_with(place + 1, || None);
        }
        self.peers[place].get_or_insert_default()
    }

    fn is_up(&self, at: u32) -> bool {
        matches!(self.peers.get(at as usize), Some(Some(peer)) if peer.state.connection().is_some())
    }

    fn known(&mut self, at: u32) -> Option<&mut TcpPeer> {
        self.peers.get_mut(at as usize)?.as_deref_mut()
    }

    fn on_peer(&mut self, at: u32, ready: Ready, sink: &mut dyn FrameSink) {
        let Some(peer) = self.known(at) else { return };
        match &peer.state {
            ConnectionState::Connecting { .. } => self.on_connected(at),
            ConnectionState::Greeting { .. } => self.on_greeted(at),
            ConnectionState::Up(_) | ConnectionState::Sealed(_) => {
                if ready.writable {
                    peer.is_blocked = peer.is_broken;
                }
                if ready.readable && self.read(at, sink) {
                    self.note_came(at);
                }
                self.write(at);
                if let Some(peer) = self.known(at) {
                    peer.link.tell_gone(sink);
                }
            }
            ConnectionState::Apart
            | ConnectionState::Pause { .. }
            | ConnectionState::Left
            | ConnectionState::Lost(_) => {}
        }
    }

    fn tell_news(&mut self, sink: &mut dyn FrameSink) {
        while let Some(at) = self.news.pop() {
            let Some(peer) = self.known(at) else { continue };
            peer.link.tell_gone(sink);
            let is_lost = match peer.state {
                ConnectionState::Lost(_) => true,
                ConnectionState::Left => false,
                _ => continue,
            };
            if !std::mem::replace(&mut peer.is_reported, true) {
                if is_lost { sink.lost(at) } else { sink.left(at) }
            }
        }
    }
}

impl Tcp {
    fn send_copy(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        if !self.may_send_copy(to, message.body.len())? {
            return Ok(Sent::Full);
        }
        let own = self.own.rank;
        let peer = self.peer(to);
        if matches!(peer.state, ConnectionState::Left) {
            return Ok(Sent::Done);
        }
        peer.link.push(peer.source(own), message);
        self.write_newest(to);
        let peer = self.peer(to);
        if let ConnectionState::Lost(why) = &peer.state {
            return Err(Unreachable { peer: to, why: why.clone() });
        }
        Ok(if peer.link.took_newest() { Sent::Done } else { Sent::Later })
    }

    fn send_lent(
        &mut self,
        to: u32,
        message: &OutgoingMessage<'_>,
        buffer: &UserBuf,
    ) -> Result<Sent, Unreachable> {
        if let Frame::Data { offset, .. } = message.frame {
            let piece = (buffer.clone(), offset as usize, message.body.len());
            return self.lend_by(to, |link, source| link.lend(source, message, piece));
        }
        if message.body.len() < LEND_FROM || buffer.as_contiguous().is_none() {
            return self.send_copy(to, message);
        }
        match self.lend_whole(to, message, buffer)? {
            Sent::Full if self.peer(to).takes_early(message.body.len()) => {
                self.send_copy(to, message)
            }
            sent => Ok(sent),
        }
    }

    fn poll_all(&mut self, sink: &mut dyn FrameSink) -> bool {
        let mut any = !self.news.is_empty();
        self.tell_news(sink);
        if let Some(at) = self.ahead.of() {
            any |= self.poll_peer(at, sink);
        }
        any |= match self.last_alone() {
            Some(at) => self.poll_peer(at, sink),
            None => self.poll_descriptors(None, sink),
        };
        if !self.lenders.is_empty() {
            any |= self.copy_lent_if_due(any, sink);
        }
        any
    }

    fn poll_all_but(&mut self, peer: u32, sink: &mut dyn FrameSink) -> bool {
        let mut any = !self.news.is_empty();
        self.tell_news(sink);
        if let Some(at) = self.ahead.of().filter(|at| *at != peer) {
            any |= self.poll_peer(at, sink);
        }
        any | (!self.recent.was_polled_lately() && self.poll_descriptors(Some(peer), sink))
    }
}

impl Transport for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn limits(&self, _to: u32) -> Limits {
        Limits { eager: self.settings.eager_limit, announced: 0 }
    }

    fn piece_limit(&mut self, _to: u32) -> usize {
        PIECE
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        let sent = match message.lent {
            Some(buffer) => self.send_lent(to, message, buffer)?,
            None => self.send_copy(to, message)?,
        };
        if sent != Sent::Full {
            self.sent.note(&message.frame, message.body.len());
        }
        Ok(sent)
    }

    fn send_now(
        &mut self,
        to: u32,
        context: u32,
        tag: i32,
        sequence: u8,
        bytes: Bytes<'_>,
    ) -> bool {
        self.send_fast(to, (context, tag, sequence), bytes)
    }

    fn receive_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        self.receive_fast(from, context, tags, into)
    }

    fn release(&mut self, token: u64) {
        for peer in self.peers.iter_mut().flatten() {
            peer.link.release(token);
        }
    }

    fn poll(&mut self, except: Option<u32>, sink: &mut dyn FrameSink) -> bool {
        match except {
            None => self.poll_all(sink),
            Some(peer) => self.poll_all_but(peer, sink),
        }
    }

    fn share_among_threads(&mut self) {
        self.is_alone = false;
        self.watch_all();
    }

    fn before_sleep(&mut self) -> bool {
        self.watch_all();
        let copied = self.copy_lent_before_sleep();
        // Bytes that were received already make no descriptor ready.
        !copied && self.ahead.of().is_none() && self.news.is_empty()
    }

    fn announce_waiting(&mut self, _peer: u32) -> bool {
        // Room, an acknowledgement, a connection: all of them are events.
        true
    }

    fn set_eager_limit(&mut self, bytes: usize) {
        self.settings.eager_limit = bytes;
    }

    fn connections(&mut self) -> Option<&mut dyn Connections> {
        Some(self)
    }
}

impl Membership for Tcp {
    fn lost_messages(&mut self) -> Option<String> {
        self.undelivered.clone()
    }

    fn has_left(&mut self, peer: u32) -> bool {
        self.known(peer).is_some_and(|peer| matches!(peer.state, ConnectionState::Left))
    }

    fn attach(&mut self, peer: u32) {
        if let Some(peer) = self.known(peer) {
            peer.bond = Bond::Close;
        }
    }

    fn settle(&mut self, at: u32) -> bool {
        self.settle_with(at)
    }

    fn detach(&mut self, at: u32) {
        self.detach_from(at);
    }

    fn rest(&mut self) -> bool {
        self.settle_all()
    }

    fn leave(&mut self) -> bool {
        self.say_goodbye()
    }

    fn await_end(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        self.read_to_end(peer, sink);
    }

    fn remove_failed(&mut self, at: u32) {
        self.end_connection(at, ConnectionState::Lost("its process has ended".into()));
        // The caller reports the loss.
        self.peer(at).is_reported = true;
    }
}

impl Statistics for Tcp {
    fn count(&mut self, counts: &mut Counts) {
        for peer in self.peers.iter().flatten() {
            counts.connections += u64::from(peer.state.connection().is_some());
            counts.connections_made += u64::from(peer.connections);
            counts.connections_remade += u64::from(peer.connections.saturating_sub(1));
        }
        counts.far_sent += self.sent;
        counts.far_received += self.peers.iter().flatten().map(|peer| peer.link.received()).sum();
    }

    fn watch_connections(&mut self, watch: bool) {
        self.watch = ConnectionLog::new(watch);
    }

    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        self.watch.take()
    }
}

fn is_ours(from: u32, source: u32, frame: &Frame) -> bool {
    (source == from || source == ANYBODY) && !frame.is_of_segments()
}

const _: () = assert!(PIECE + MAX_FRAME_LEN <= u32::MAX as usize);

fn body_fits(body: &Body<'_>) -> bool {
    body.len() <= u32::MAX as usize - MAX_FRAME_LEN
}

#[cfg(test)]
impl Tcp {
    /// All others have left.
    pub(crate) fn of_a_test(size: u32, poller: Arc<Poller>) -> Tcp {
        let own = Identity { job: 1, rank: 0, size, incarnation: 1 };
        let listener = Listener::bind(std::net::Ipv4Addr::LOCALHOST.into(), None).unwrap();
        let find: Find = Box::new(|_| Ok(PeerLocation::Left));
        let tell: Tell = Box::new(|text| panic!("{text}"));
        Tcp::new(own, Secret([0; 32]), TcpSettings::default(), (listener, poller), find, tell)
            .unwrap()
    }
}
