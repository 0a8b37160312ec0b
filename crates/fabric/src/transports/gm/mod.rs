//! Myrinet through GM 2: the module `gm` of the components guide.
//!
//! `module.rs` is its description. A process has one port ([`GmPort`]) and the sockets of the
//! transport between nodes. Over the sockets two processes only exchange introductions
//! (`exchange.rs`), and learn when the other ends. Processes of other launchers, which may be on no
//! common network, use the sockets for all messages.
//!
//! Rules
//!
//! 1. At first contact a process provides buffers for the peer, and introduces itself
//!    (`introduction.rs`); the peer does the same. A process that has the peer's introduction may
//!    send, since GM has no connections. So a message may come before the introduction of its
//!    sender.
//! 2. A message is a head (number of returned buffers, the receiver's key for this sender, 4 bytes
//!    each), a frame and a body of at most `rpi_gm_tinymsglen` bytes. A message with another key
//!    belongs to a job that had the port before, and is dropped.
//! 3. A sender has one credit for each buffer that is provided for it, and sends nothing without a
//!    credit. So GM never waits for a buffer, however long the receiver computes. With
//!    `rpi_gm_fast` the receiver provides buffers for all peers together, and does not count them.
//!    If a receiver then calls MPI too seldom, GM gives up after its time limit (30 s), and rule 5
//!    applies.
//! 4. A used buffer is provided again at once. The head of each message in the other direction has
//!    the number of returned buffers. When half of the credits are due, this number is put into a
//!    word of the sender's memory, which takes no buffer. The last send token is for that, and for
//!    rule 5. All grants together never exceed the receive tokens of the port. The first peers are
//!    granted all their credits, until half of the tokens are granted; the other half is for peers
//!    of one buffer each.
//! 5. GM stops the sends to a peer when one has failed. If the receiver still exists
//!    (GM_SEND_TIMED_OUT), all queued messages are dropped and sent again, in order, before
//!    anything else (`sending.rs`). After any other failure the peer is lost, and the error names
//!    it, unless it has left.
//! 6. Longer messages are announced. When the receiver requests the data, the sender registers them
//!    and sends their address ([`Frame::DataAt`]), and the receiver registers its buffer. The
//!    receiver answers with the buffer's address ([`Frame::DataRead`]); the sender puts the data
//!    there and confirms that (`DataAt` without an address). With `rpi_gm_cr` the receiver gets the
//!    data, and then a check that says whether they were still the message; it answers that it has
//!    them. So a program's memory is registered for one message. A piece comes in messages through
//!    slots if it is short, has gaps on either side, or cannot be registered; with `rpi_gm_nopin`
//!    also if it does not lie in memory of MPI_Alloc_mem (`lending.rs`, `landing.rs`).
//! 7. A message has arrived when its callback has come. A process that ends waits for that.
//! 8. GM has no descriptor to sleep on, so a process sleeps lightly.
//! 9. With `rpi_gm_cr` the port can be closed when all messages have arrived (rule 7) and no
//!    process waits for an introduction. When another port is opened later, all processes exchange
//!    introductions again (`quiesce.rs`).

mod allocated;
mod ending;
mod events;
mod exchange;
#[cfg(test)]
mod fake;
mod introduction;
mod landing;
mod lending;
mod module;
mod peer;
mod port;
mod quiesce;
mod sending;
#[cfg(test)]
mod tests;

pub use self::port::GmPort;

use self::allocated::Allocated;
use self::ending::FailedSend;
use self::landing::Landings;
use self::lending::{Lending, PIECE_MOST};
use self::peer::GmPeer;
use self::port::ReopenedPort;
use crate::introductions::Introductions;
use crate::routes::Nodes;
use crate::transports::{Tell, Teller, peer_of};
use crate::{
    Connected, Connections, Counts, FrameSink, LastingMemory, Limits, OutgoingMessage, Sent,
    Statistics, Traffic, Transport, Unreachable,
};
use oxmpi_gm::{GmEvent, GmSlot};
use oxmpi_wire::{Frame, MAX_FRAME_LEN};
use std::collections::VecDeque;
use std::time::Duration;

/// The number of polls of the port for one poll of the sockets, which costs a system call.
const POLLS: u32 = 8;
/// The time for a peer with a failed send to turn out to have left.
const GRACE: Duration = Duration::from_secs(1);
const HEAD: usize = 8;
const CREDITS: u32 = 32;

/// The settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GmSettings {
    /// The longest body that leaves before its receive is known, in bytes.
    pub tiny: usize,
    /// Whether the receivers do not count their buffers.
    pub is_fast: bool,
    /// Whether all memory is registered for long messages; else only that of MPI_Alloc_mem.
    pub pins: bool,
    /// Whether the receiver gets long messages; else their sender puts them.
    pub gets: bool,
}

impl GmSettings {
    /// The least length of a message buffer, in bytes.
    pub fn message_len(&self) -> usize {
        HEAD + MAX_FRAME_LEN + self.tiny
    }
}

/// The transport of one process over a port.
#[derive(Debug)]
pub struct Gm<P: GmPort> {
    own: u32,
    port: P,
    sockets: Box<dyn Transport>,
    settings: GmSettings,
    speaker: Teller,
    allocated: Allocated,
    nodes: Option<Nodes>,
    introductions: Introductions,
    peers: Vec<Option<Box<GmPeer>>>,
    tokens: u32,
    unanswered: Vec<u32>,
    /// Peers to which messages are to be dropped or sent again (rule 5).
    stopped: Vec<u32>,
    /// Peers whose word was not written for lack of a token.
    unreported: Vec<u32>,
    /// Buffers that GM has.
    provided: u32,
    /// Buffers that GM has and that are granted to no peer.
    spare: u32,
    send_slots: Vec<GmSlot>,
    receive_slots: Vec<GmSlot>,
    made_send_slots: u32,
    lending: Lending,
    landings: Landings,
    /// Frames of the transport itself that wait for room, perhaps with an address.
    owed: VecDeque<(u32, Frame, Option<u64>)>,
    /// Nothing is sent before the port is opened again (rule 9).
    is_closed: bool,
    /// All messages have arrived, and peers may close their ports: sends may fail now.
    is_resting: bool,
    listeners: usize,
    has_warned: bool,
    failed: Vec<FailedSend>,
    lost: Vec<u32>,
    events: Vec<GmEvent>,
    early: Vec<GmEvent>,
    polls: u32,
    reads: u64,
    frames_sent: u64,
    frames_received: u64,
    sent: Traffic,
    received: Traffic,
}

impl<P: GmPort> Gm<P> {
    /// The transport of process `own`. `nodes` is necessary to communicate with processes of other
    /// launchers.
    pub fn new(
        own: u32,
        port: P,
        sockets: Box<dyn Transport>,
        settings: GmSettings,
        tell: Tell,
        nodes: Option<Nodes>,
    ) -> Gm<P> {
        Gm {
            own,
            tokens: port.send_tokens(),
            port,
            sockets,
            settings,
            speaker: Teller(tell),
            allocated: Allocated::default(),
            nodes,
            introductions: Introductions::default(),
            peers: Vec::new(),
            unanswered: Vec::new(),
            stopped: Vec::new(),
            unreported: Vec::new(),
            provided: 0,
            spare: 0,
            send_slots: Vec::new(),
            receive_slots: Vec::new(),
            made_send_slots: 0,
            lending: Lending::default(),
            landings: Landings::default(),
            owed: VecDeque::new(),
            is_closed: false,
            is_resting: false,
            listeners: 1,
            has_warned: false,
            failed: Vec::new(),
            lost: Vec::new(),
            events: Vec::new(),
            early: Vec::new(),
            polls: 0,
            reads: 0,
            frames_sent: 0,
            frames_received: 0,
            sent: Traffic::default(),
            received: Traffic::default(),
        }
    }

    fn peer(&mut self, peer: u32) -> Option<&mut GmPeer> {
        peer_of(&mut self.peers, peer)
    }

    fn say(&self, what: &str) {
        (self.speaker.0)(&format!("rank {}: gm, {}: {what}", self.own, self.port.describe()));
    }

    fn poll_sockets(&mut self, sink: &mut dyn FrameSink) -> bool {
        let came = self.sockets.poll(None, &mut self.introductions.watch(sink));
        self.end_introductions();
        for peer in self.introductions.take_lost() {
            self.drain(sink);
            self.lose(peer, sink);
        }
        self.end_sends_to_left();
        for failed in std::mem::take(&mut self.failed) {
            self.settle_failed(failed, sink);
        }
        came
    }
}

impl<P: GmPort> Transport for Gm<P> {
    fn name(&self) -> &'static str {
        "gm"
    }

    fn reaches(&self, peer: u32) -> bool {
        self.sockets.reaches(peer)
    }

    fn limits(&self, to: u32) -> Limits {
        let Limits { eager, announced } = self.sockets.limits(to);
        Limits {
            eager: eager.min(self.settings.tiny),
            announced: announced.min(self.settings.tiny),
        }
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        if self.is_of_launcher(to) { PIECE_MOST } else { self.sockets.piece_limit(to) }
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        if self.peer(to).is_some_and(|peer| peer.met.is_some() || peer.is_gone) {
            let sent = match (message.frame, message.lent) {
                _ if self.sockets.has_left(to) => Sent::Done,
                (Frame::Data { receiver, offset }, Some(buffer))
                    if message.body.len() > self.slot_piece() =>
                {
                    self.lend(to, message, (receiver, offset), buffer)?
                }
                (Frame::Data { .. }, _) => {
                    let sent = self.send_message(to, message)?;
                    self.lending.copied_bytes +=
                        if sent == Sent::Done { message.body.len() as u64 } else { 0 };
                    sent
                }
                _ => self.send_message(to, message)?,
            };
            if sent != Sent::Full {
                self.frames_sent += 1;
                self.sent.note(&message.frame, message.body.len());
            }
            return Ok(sent);
        }
        if !self.is_of_launcher(to) {
            return self.sockets.send(to, message);
        }
        if self.is_closed {
            return Ok(Sent::Full);
        }
        self.request_introduction(to)?;
        Ok(if self.sockets.has_left(to) { Sent::Done } else { Sent::Full })
    }

    fn release(&mut self, token: u64) {
        self.sockets.release(token);
        self.take_back(token);
        self.stop_receive(token);
    }

    fn poll(&mut self, _except: Option<u32>, sink: &mut dyn FrameSink) -> bool {
        for peer in std::mem::take(&mut self.lost) {
            self.lose(peer, sink);
        }
        let came = self.drain(sink);
        self.polls += 1;
        if self.polls < POLLS {
            return came;
        }
        let came_over_sockets = self.poll_sockets(sink);
        self.polls = if came_over_sockets { POLLS - 1 } else { 0 };
        came_over_sockets || came
    }

    fn poll_all_next(&mut self) {
        self.polls = POLLS;
        self.sockets.poll_all_next();
    }

    fn before_sleep(&mut self) -> bool {
        self.polls = POLLS;
        if self.is_closed {
            return self.sockets.before_sleep();
        }
        self.read();
        self.early.append(&mut self.events);
        let has_news =
            self.lending.pieces.has_news() || self.landings.has_news() || !self.lost.is_empty();
        self.sockets.before_sleep() && self.early.is_empty() && !has_news
    }

    fn sleeps_lightly(&self) -> bool {
        true
    }

    fn share_among_threads(&mut self) {
        self.sockets.share_among_threads();
    }

    fn set_eager_limit(&mut self, bytes: usize) {
        self.sockets.set_eager_limit(bytes);
    }

    fn connections(&mut self) -> Option<&mut dyn Connections> {
        if self.settings.gets { Some(self) } else { None }
    }

    fn lasting_memory(&mut self) -> Option<&mut dyn LastingMemory> {
        if self.settings.pins { None } else { Some(self) }
    }
}

impl<P: GmPort> Statistics for Gm<P> {
    fn count(&mut self, counts: &mut Counts) {
        self.sockets.count(counts);
        counts.network_frames_sent += self.frames_sent;
        counts.network_frames_received += self.frames_received;
        counts.completion_reads += self.reads;
        counts.rdma_bytes += self.landings.got_bytes;
        counts.rdma_bytes_written += self.lending.put_bytes;
        counts.auxiliary_bytes += self.lending.copied_bytes;
        counts.far_sent += self.sent;
        counts.far_received += self.received;
    }

    fn watch_connections(&mut self, watch: bool) {
        self.sockets.watch_connections(watch);
    }

    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        self.sockets.take_connections()
    }
}
