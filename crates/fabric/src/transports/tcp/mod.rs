//! Sockets: the transport between processes that share no memory, or that the user selects.
//!
//! A process connects to a peer when it has something to send to it, after each has proved to the
//! other that it knows the secret of the job (`greeting.rs`). A connection carries *records*
//! (`record.rs`), numbered in each direction.
//!
//! Rules
//! 1. A record is retained until the peer has acknowledged it: an eager message as a copy, a piece
//!    of an announced message as a reference to the user's memory. The piece is complete when the
//!    peer has it (`outgoing.rs`). A longer eager message is also retained as a reference, and
//!    copied only if the acknowledgement comes late (`lending.rs`).
//! 2. A message is taken only if the kernel has all data before it. It is [`Sent::Done`] if the
//!    kernel has it, too. So the engine knows of everything that waits. (Short messages are written
//!    only while few records are retained, so that the kernel has room. If the kernel still takes
//!    only a part, the next poll writes the rest: `fast_path.rs`.)
//! 3. Either side may replace a broken connection. Both state their received points, and everything
//!    behind these is sent again. Nothing is lost, doubled or reordered.
//! 4. If no attempt to connect succeeds for some time (`attempts.rs`), the peer is lost. Only a
//!    peer that is silent, but runs according to the launcher, is tried forever: it may compute,
//!    and poll its sockets seldom. If instead each connection is closed, another program accepts
//!    connections at the address, or something between the two changes their data.
//! 5. A process that ends waits until all its records are acknowledged. Then it sends a goodbye to
//!    each connected peer, and closes the connection when the peer's kernel has the goodbye. A peer
//!    that gets it counts all its own records as received. A peer that misses it tries to connect,
//!    and then learns from the launcher that the process has ended. A process that may come back
//!    ([`Membership::rest`]) sends no goodbye: it also waits, acknowledges everything, and leaves
//!    its connections and its listener open. Peers that write to it wait until it polls again or
//!    ends.
//! 6. Processes of different jobs that give up their last communicator wait until each has
//!    everything that it needs from the other (it does not need hints). From then on neither waits
//!    for the other: not at its end, and not when the connection breaks.
//! 7. A process outside the job can cost this process only a few bytes and some time. Greetings
//!    have a limited number of places, and each connection takes one. If none is free, a new
//!    connection takes the place of the longest silent one.
//! 8. A connection is encrypted if one end wants it (`greeting.rs` rule 6, `sealed.rs`): the same
//!    records go through a cipher with keys for this connection alone. Data that cannot be opened
//!    end the connection, and rule 3 holds.
//! 9. Before the first connection with a peer is used, records may be sent early: with the first
//!    message of a greeting, before the peer's process has answered (`greeting.rs` rules 7 to 10).
//!    So the kernel has them, as rule 2 wants, while the peer computes.
//! 10. If messages can be quiesced, all processes stop sending on the launcher's order, wait until
//!     everything is acknowledged, and end their connections and listeners (`quiesce.rs`). Then
//!     each listens anew, perhaps on another host, and connects when it has something to send, as
//!     after a broken connection (rule 3). `routes/quiesce.rs` has the steps.
//! 11. A process that was restored from an image has no connections and no listeners, and nothing
//!     was quiesced. All processes of the job were stopped before the first image was made, so the
//!     senders retain all data that were in the kernel or on the wire (rule 1). These go over the
//!     next connection (rule 3), which has new keys. The launcher reports the new addresses of
//!     peers.
//!
//! Rules 1 to 3 are a state machine without sockets, the link (`link.rs`). This file moves bytes
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
    /// Peers of this launcher connect to the first; peers of other launchers to the others.
    listeners: Vec<Listener>,
    /// The time before which no connection is accepted.
    accepts_after: Option<Duration>,
    is_pause_reported: bool,
    greetings: Greetings,
    /// By rank; `None` before the first contact.
    peers: Vec<Option<Box<TcpPeer>>>,
    buffer: Vec<u8>,
    ahead: Ahead,
    record: Vec<u8>,
    plain: Vec<u8>,
    /// The most retained records at which a message is written before it is retained.
    records_with_room: usize,
    /// Whether one thread calls, and reports its sleeps.
    is_alone: bool,
    ready: Vec<Ready>,
    start: Instant,
    alarm: Option<Duration>,
    /// Peers that are lost or have complete messages, before the report to the sink.
    news: Vec<u32>,
    undelivered: Option<String>,
    /// The time of the first goodbye.
    leaving: Option<Duration>,
    /// Whether all sent records have arrived, and nothing is sent for now.
    is_quiet: bool,
    watch: ConnectionLog,
    /// Peers with lent eager messages that may be incomplete.
    lenders: Vec<u32>,
    /// Polls in vain since the last arrival.
    vain: u32,
    /// Polls during which a lent message was not copied.
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

/// The names of descriptors in the poller: a kind, plus a number below 2^32.
const LISTENER: u64 = 1 << 32;
const GREETING: u64 = 2 << 32;
const PEER: u64 = 3 << 32;

impl Tcp {
    /// The sockets of process `own`. Peers connect to `listener`; its events come by the caller's
    /// `poller`.
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

    /// Accepts processes of other launchers whose secret is known.
    #[must_use]
    pub fn with_secrets(self, secret_of: SecretOf) -> Tcp {
        Tcp { secret_of, ..self }
    }

    /// For a process of one thread that reports its sleeps: until
    /// [`Transport::share_among_threads`] the poller may omit one socket (`poll_set.rs`).
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
        // Bytes that were already received make no descriptor ready.
        !copied && self.ahead.of().is_none() && self.news.is_empty()
    }

    fn announce_waiting(&mut self, _peer: u32) -> bool {
        // Room, acknowledgements and connections are all events.
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
    /// All peers have left.
    pub(crate) fn of_a_test(size: u32, poller: Arc<Poller>) -> Tcp {
        let own = Identity { job: 1, rank: 0, size, incarnation: 1 };
        let listener = Listener::bind(std::net::Ipv4Addr::LOCALHOST.into(), None).unwrap();
        let find: Find = Box::new(|_| Ok(PeerLocation::Left));
        let tell: Tell = Box::new(|text| panic!("{text}"));
        Tcp::new(own, Secret([0; 32]), TcpSettings::default(), (listener, poller), find, tell)
            .unwrap()
    }
}
