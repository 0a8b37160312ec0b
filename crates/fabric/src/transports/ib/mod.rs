//! InfiniBand and RoCE through libibverbs: the module `ib` of the components guide.
//!
//! `module.rs` is its description, `ports.rs` chooses the port. A process has one port ([`IbPort`])
//! and the sockets of the transport between nodes. Over the sockets two processes exchange
//! introductions, and learn when the other ends. Processes of other launchers, which may be on no
//! common network, use the sockets for all messages. So does a process on a host without a port
//! (`without_port.rs`).
//!
//! Rules
//!
//! 1. A connection (a queue pair at each end) is made at first contact. The initiator makes its
//!    queue pair, posts the envelopes, and sends an introduction (`introduction.rs`) that requests
//!    the peer's. The peer makes its queue pair, connects it, and answers. The initiator connects
//!    its own and sends an empty envelope. A process that has got an answer or an envelope knows
//!    that the other end receives, and sends from then on. If both processes begin, both answer.
//! 2. An envelope is a head (number of returned envelopes, 4 bytes), a frame and a body of at most
//!    `rpi_ib_tinymsglen` bytes. A sender has one credit for each envelope that is posted for it,
//!    and sends nothing without a credit, so a receiver is always ready.
//! 3. A used envelope is posted again at once. The head of each envelope in the other direction has
//!    the number of returned envelopes. When half of the credits are due, this number is written
//!    into a word of the sender's memory, which takes no envelope; so one envelope for each peer is
//!    enough. A written word wakes no process, so a sender without credits sleeps lightly.
//! 4. Longer messages are announced. When the receiver requests the data, the sender registers them
//!    and sends their address ([`Frame::DataAt`]). The receiver registers its buffer, its adapter
//!    reads the data, and it answers ([`Frame::DataRead`]). A piece goes in several envelopes if it
//!    is short, has gaps on either side, or cannot be registered (`lending.rs`, `reading.rs`).
//! 5. The peers share the envelopes of a shared receive queue. The first peers are granted all
//!    their credits, until half of the queue is granted; the other half is for peers of one credit
//!    each. Credits of a lost peer are granted again when its queue pair is destroyed: by then each
//!    of its slots is in the queue, or no longer counts.
//! 6. A finished send means that the peer's adapter has the data. A process that ends waits for
//!    that.
//! 7. The adapter repeats packets for about `rpi_ib_timeout`. A failed connection is closed, and
//!    made again when all envelopes received over it were processed. Each end states the number of
//!    envelopes that it has received. All others are sent again from their slots, in order, and
//!    unfinished reads are repeated. So nothing is lost, and nothing arrives twice
//!    (`reconnecting.rs`). A peer is lost, and the error reported, if no packet has reached it for
//!    `rpi_ib_timeout` and no new connection can be made for 1 s.
//! 8. An adapter writes into the memory of a receive only by its own reads. Before such memory
//!    returns to the program ([`Transport::release`], a lost peer), the transport waits for these
//!    reads. They end soon, as no process takes part in them; otherwise the transport closes their
//!    connection, which ends them. A peer may still read memory that its sender has taken back.
//!    After the data the peer reads the check of the memory
//!    ([`RemoteMemory`](oxmpi_verbs::RemoteMemory)), and finds another value than in the
//!    announcement.
//! 9. Memory is registered for each message, since the transport does not learn when the program
//!    unmaps it. Memory that lasts until the process itself frees it stays registered from its
//!    first message on ([`LastingMemory`]); each message has its own check there, too. Before such
//!    memory is freed, all reads into it and its registration have ended. A read of it by a peer
//!    then fails, and fails again over the next connection.
//! 10. The adapter accesses windows that could be registered (`rpi_ib_rma`): it writes the data of
//!     MPI_Put and reads the data of MPI_Get. Data that fit into a slot go through a slot, others
//!     through the program's buffer, which is registered. When a connection fails, unfinished
//!     accesses are repeated over the next connection, from the beginning. This is allowed because
//!     no other process may use the same bytes before the epoch has ended, and the epoch ends after
//!     all accesses. The next connection is made when the queue pairs of the failed one are
//!     destroyed on both sides, so no access arrives late. An access that the peer's adapter
//!     refuses twice has failed.
//! 11. The peer's adapter carries out atomic operations on words of windows, each through a slot.
//!     An operation is repeated over the next connection only if it certainly had no effect:
//!     because the peer's adapter has refused it (one repetition, as in rule 10), or because it
//!     follows a refused operation on its connection. If a connection fails otherwise with an
//!     atomic operation under way, or this process closes it, the effect is unknown, and the peer
//!     is lost. On some adapters such operations are atomic only to each other, and not to the
//!     processor. There a process changes its own words by the adapter, too, over a queue pair that
//!     is connected with itself. If that fails, the operation has failed, and no process is lost.

mod accesses;
mod ending;
mod envelopes;
mod exchange;
#[cfg(test)]
mod fake;
mod introduction;
mod lending;
mod module;
mod peer;
mod port;
mod ports;
mod reading;
mod reconnecting;
mod settings;
#[cfg(test)]
mod tests;
mod without_port;

pub use self::port::IbPort;
pub use self::settings::IbSettings;

use self::accesses::Accesses;
use self::lending::{Lending, PIECE_MOST, REGISTER_FROM};
use self::peer::IbPeer;
use self::reading::Readings;
use crate::introductions::Introductions;
use crate::routes::Nodes;
use crate::transports::{Tell, Teller, peer_of};
use crate::{
    Connected, Counts, FrameSink, LastingMemory, Limits, Membership, OutgoingMessage, RemoteAccess,
    Sent, Statistics, Traffic, Transport, Unreachable,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::poller::Poller;
use oxmpi_verbs::{Completion, SlotId, VerbsError};
use oxmpi_wire::Frame;
use std::collections::{HashMap, HashSet};

/// The number of polls of the port for one poll of the sockets, which costs a system call.
const POLLS: u32 = 8;
/// The name of the port's descriptor in the poller on which the process sleeps.
const DESCRIPTOR: u64 = 3 << 33;

/// The transport of one process over a port.
#[derive(Debug)]
pub struct Ib<P: IbPort> {
    own: u32,
    port: P,
    sockets: Box<dyn Transport>,
    settings: IbSettings,
    tell: Teller,
    nodes: Option<Nodes>,
    introductions: Introductions,
    portless: HashSet<u32>,
    peers: Vec<Option<Box<IbPeer>>>,
    /// Ranks, by the numbers of their queue pairs.
    numbers: HashMap<u32, u32>,
    /// Queue pairs on which operations behind a refused one had no effect (rule 11).
    untouched: HashSet<u32>,
    unanswered: Vec<u32>,
    /// Peers to which this process owes an empty envelope (rule 1).
    unconfirmed: Vec<u32>,
    /// Envelopes in the shared queue.
    posted: u32,
    /// Envelopes in the shared queue that are granted to no peer.
    spare: u32,
    receive_slots: Vec<SlotId>,
    send_slots: Vec<SlotId>,
    made_send_slots: usize,
    lending: Lending,
    readings: Readings,
    accesses: Accesses,
    has_warned: bool,
    broken: Vec<u32>,
    lost: Vec<u32>,
    events: Vec<Completion>,
    early: Vec<Completion>,
    is_armed: bool,
    polls: u32,
    reads: u64,
    frames_sent: u64,
    frames_received: u64,
    sent: Traffic,
    received: Traffic,
}

impl<P: IbPort> Ib<P> {
    /// The transport of process `own` over `port` and `sockets`. The process sleeps on `poller`.
    /// `nodes` is necessary to communicate with processes of other launchers.
    pub fn new(
        own: u32,
        port: P,
        sockets: Box<dyn Transport>,
        settings: IbSettings,
        (poller, tell): (Option<&Poller>, Tell),
        nodes: Option<Nodes>,
    ) -> std::io::Result<Ib<P>> {
        if let (Some(poller), Some(fd)) = (poller, port.wait_fd()) {
            poller.add(fd, DESCRIPTOR, false)?;
        }
        Ok(Ib {
            own,
            port,
            sockets,
            settings,
            tell: Teller(tell),
            nodes,
            introductions: Introductions::default(),
            portless: HashSet::new(),
            peers: Vec::new(),
            numbers: HashMap::new(),
            untouched: HashSet::new(),
            unanswered: Vec::new(),
            unconfirmed: Vec::new(),
            posted: 0,
            spare: 0,
            receive_slots: Vec::new(),
            send_slots: Vec::new(),
            made_send_slots: 0,
            lending: Lending::default(),
            readings: Readings::default(),
            accesses: Accesses::default(),
            has_warned: false,
            broken: Vec::new(),
            lost: Vec::new(),
            events: Vec::new(),
            early: Vec::new(),
            is_armed: false,
            polls: 0,
            reads: 0,
            frames_sent: 0,
            frames_received: 0,
            sent: Traffic::default(),
            received: Traffic::default(),
        })
    }

    fn peer(&mut self, peer: u32) -> Option<&mut IbPeer> {
        peer_of(&mut self.peers, peer)
    }

    fn say(&self, what: &str) {
        (self.tell.0)(&format!("rank {}: ib, {}: {what}", self.own, self.port.describe()));
    }

    fn give_up(&self, why: &VerbsError) -> ! {
        self.say(&why.to_string());
        std::process::abort();
    }
}

impl<P: IbPort> Transport for Ib<P> {
    fn name(&self) -> &'static str {
        "ib"
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
        if self.goes_by_port(to) { PIECE_MOST } else { self.sockets.piece_limit(to) }
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        if self.peer(to).is_some_and(|peer| peer.is_ready || peer.is_gone) {
            let sent = match (message.frame, message.lent) {
                _ if self.sockets.has_left(to) => Sent::Done,
                (Frame::Data { receiver, offset }, Some(buffer))
                    if message.body.len() > self.settings.piece_len() =>
                {
                    self.lend(to, message, (receiver, offset), buffer)?
                }
                _ => self.send_envelope(to, Some(message))?,
            };
            if sent != Sent::Full {
                self.frames_sent += 1;
                self.sent.note(&message.frame, message.body.len());
            }
            return Ok(sent);
        }
        if !self.goes_by_port(to) {
            return self.sockets.send(to, message);
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
        if std::mem::take(&mut self.is_armed) {
            self.port.take_events();
        }
        let came = self.drain(sink);
        // After their frames, and before the end of an access to them is reported.
        for peer in std::mem::take(&mut self.lost) {
            self.lose(peer, sink);
        }
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
        if let Err(error) = self.port.arm() {
            self.give_up(&error);
        }
        self.is_armed = true;
        // Operations that ended before this call of `arm` raise no event.
        self.read();
        self.early.append(&mut self.events);
        let has_news = !self.early.is_empty()
            || self.lending.pieces.has_news()
            || self.readings.has_news()
            || !self.lost.is_empty();
        self.sockets.before_sleep() && !has_news
    }

    fn sleeps_lightly(&self) -> bool {
        let waits =
            !(self.unanswered.is_empty() && self.unconfirmed.is_empty() && self.broken.is_empty())
                || self.lending.pieces.wait_for_room()
                || self.readings.waits_for_room()
                || self.accesses.wait_for_room();
        self.port.wait_fd().is_none() || waits || self.sockets.sleeps_lightly()
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        let is_starved = |peer: &IbPeer| peer.is_ready && peer.credits() == 0;
        self.sockets.announce_waiting(peer)
            && !self
                .peers
                .get(peer as usize)
                .and_then(|peer| peer.as_deref())
                .is_some_and(is_starved)
    }

    fn share_among_threads(&mut self) {
        self.sockets.share_among_threads();
    }

    fn set_eager_limit(&mut self, bytes: usize) {
        self.sockets.set_eager_limit(bytes);
    }

    fn remote_access(&mut self) -> Option<&mut dyn RemoteAccess> {
        if self.settings.rma { Some(self) } else { None }
    }

    fn lasting_memory(&mut self) -> Option<&mut dyn LastingMemory> {
        Some(self)
    }
}

impl<P: IbPort> LastingMemory for Ib<P> {
    fn keep_memory(&mut self, memory: &UserBuf) {
        if memory.packed_len() >= REGISTER_FROM {
            self.port.keep(memory);
        }
    }

    fn forget_memory(&mut self, start: usize) {
        if self.port.forget(start) {
            return;
        }
        let into: Vec<_> =
            self.regions_read_into().filter(|region| self.port.is_of(*region, start)).collect();
        self.stop_reads_into(&into);
        let is_forgotten = self.port.forget(start);
        debug_assert!(is_forgotten, "nothing is read into it any more");
    }
}

impl<P: IbPort> Membership for Ib<P> {
    fn has_left(&mut self, peer: u32) -> bool {
        let has_left = self.sockets.has_left(peer);
        if has_left {
            self.polls = POLLS;
        }
        has_left
    }

    fn attach(&mut self, peer: u32) {
        if let Some(peer) = self.peer(peer) {
            peer.is_detached = false;
        }
        self.sockets.attach(peer);
    }

    fn settle(&mut self, peer: u32) -> bool {
        let owes = self.lending.owes(peer) || self.readings.owes(peer) || self.accesses.owes(peer);
        let is_quiet = !owes && self.peer(peer).is_none_or(|peer| peer.is_quiet());
        (is_quiet || self.sockets.has_left(peer)) && self.sockets.settle(peer)
    }

    fn detach(&mut self, peer: u32) {
        if let Some(peer) = self.peer(peer) {
            peer.is_detached = true;
        }
        self.sockets.detach(peer);
    }

    fn lost_messages(&mut self) -> Option<String> {
        self.sockets.lost_messages()
    }

    fn leave(&mut self) -> bool {
        self.has_all_arrived() && self.sockets.leave()
    }

    fn rest(&mut self) -> bool {
        self.has_all_arrived() && self.sockets.rest()
    }

    fn await_end(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        self.drain(sink);
        self.sockets.await_end(peer, &mut self.introductions.watch(sink));
        self.end_introductions();
    }

    fn remove_failed(&mut self, peer: u32) {
        self.forget(peer);
        self.sockets.remove_failed(peer);
    }
}

impl<P: IbPort> Statistics for Ib<P> {
    fn count(&mut self, counts: &mut Counts) {
        self.sockets.count(counts);
        counts.network_frames_sent += self.frames_sent;
        counts.network_frames_received += self.frames_received;
        counts.completion_reads += self.reads;
        counts.rdma_bytes += self.readings.bytes + self.accesses.read;
        counts.rdma_bytes_written += self.accesses.written;
        counts.rdma_atomics += self.accesses.atomics;
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
