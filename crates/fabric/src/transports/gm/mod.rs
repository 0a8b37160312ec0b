//! Myrinet through GM 2: the module `gm` of the components guide.
//!
//! `module.rs` is what it says of itself. A process has one port ([`GmPort`]) and the sockets of the transport between nodes. Over the sockets
//! two processes only meet (`meeting.rs`), and hear of each other's end; processes of other launchers, which may be on no common network,
//! use the sockets for everything.
//!
//! Rules
//!
//! 1. At first contact a process provides buffers for the peer, and introduces itself (`introduction.rs`); the peer does the same. Who
//!    has the peer's introduction may send: GM has no connections. So a message may come before the introduction of its sender.
//! 2. A message is a head (number of returned buffers, key of the receiver for this sender, 4 bytes each), a frame and a body of at most
//!    `rpi_gm_tinymsglen` bytes. One with another key is of a job that had the port before, and is dropped.
//! 3. A sender has one credit for each buffer that is provided for it, and sends nothing without one, so GM never waits for a buffer,
//!    however long the receiver computes. With `rpi_gm_fast` the receiver provides buffers for all together, and nobody counts: if a
//!    receiver calls MPI too seldom, GM gives up after its time limit (30 s), and rule 5 applies.
//! 4. An emptied buffer is provided again at once. The number of those is in the head of each message that goes the other way; when
//!    half of them are due it is put into a word of the sender's memory, which takes no buffer. The last send token is for that, and for
//!    rule 5. All grants together are no more than the port has receive tokens: the first peers are granted all their credits, until
//!    half of the tokens are granted; the other half is for peers of one buffer each.
//! 5. GM stops an order of messages in which one has failed. If the receiver is there (GM_SEND_TIMED_OUT) all that is queued is dropped and
//!    sent again, in order, before anything else (`sending.rs`). What has failed otherwise names the peer, which is lost if it has not left.
//! 6. Longer messages are announced. When the receiver requests the data, the sender registers them and says where they lie
//!    ([`Frame::DataAt`]), and the receiver registers its buffer. It answers where that is ([`Frame::DataRead`]), the sender puts the data
//!    there and says so (`DataAt` without an address); with `rpi_gm_cr` the receiver gets them, and then a word that says whether they
//!    were the message still, and answers that it has them. So a program's memory is registered for one message. What is short, does not
//!    lie in one piece on both sides or cannot be registered comes in pieces through slots, each a message; with `rpi_gm_nopin` all does
//!    that is not in memory of MPI_Alloc_mem (`lending.rs`, `landing.rs`).
//! 7. A message has arrived when its callback has come. A process that ends waits for that.
//! 8. GM has no descriptor to sleep on, so a process sleeps lightly.
//! 9. With `rpi_gm_cr` the port can be closed when all has arrived (rule 7) and nobody waits for an introduction, and another one be opened
//!    later: then all meet again (`quiesce.rs`).

mod allocated;
#[cfg(test)]
mod fake;
mod introduction;
mod landing;
mod lending;
mod meeting;
mod module;
mod peer;
mod port;
mod quiesce;
mod sending;
#[cfg(test)]
mod tests;

pub use self::port::GmPort;

use self::allocated::Allocated;
use self::landing::{Landings, OwnFrame, read_words};
use self::lending::{Lending, PIECE_MOST};
use self::peer::GmPeer;
use self::port::ReopenedPort;
use crate::meetings::Meetings;
use crate::routes::Nodes;
use crate::transports::Tell;
use crate::{
    Connected, Connections, Counts, LastingMemory, Limits, Membership, Message, Sent, Sink, Statistics,
    Traffic, Transport, Unreachable, dispatch,
};
use oxmpi_gm::{GmEvent, GmOperation, GmSlot, GmStatus};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Frame, MAX_FRAME_LEN};
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// Polls of the port for one of the sockets, which costs a system call, as long as nothing comes over these.
const POLLS: u32 = 8;
/// For how long a peer to which something failed may turn out to have left.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes before the frame in a message.
const HEAD: usize = 8;
/// Buffers that the first peers are granted.
const CREDITS: u32 = 32;

/// How a process uses its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GmSettings {
    /// The longest body that leaves before its receive is known, bytes.
    pub tiny: usize,
    /// Nobody counts the buffers of receivers.
    pub is_fast: bool,
    /// The program's memory is registered for long messages; else that of MPI_Alloc_mem alone.
    pub pins: bool,
    /// The receiver gets long messages; else their sender puts them.
    pub gets: bool,
}

impl GmSettings {
    /// The length of a message at least, bytes.
    pub fn message_len(&self) -> usize {
        HEAD + MAX_FRAME_LEN + self.tiny
    }
}

/// Something to a peer that has failed.
#[derive(Debug)]
struct FailedSend {
    peer: u32,
    why: String,
    since: Instant,
}

/// Prints text for the user.
struct Speaker(Tell);

impl fmt::Debug for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Speaker")
    }
}

/// The transport of one process over a port.
#[derive(Debug)]
pub struct Gm<P: GmPort> {
    own: u32,
    port: P,
    sockets: Box<dyn Transport>,
    settings: GmSettings,
    speaker: Speaker,
    allocated: Allocated,
    /// Which processes belong to this launcher. `None`: all do.
    nodes: Option<Nodes>,
    meetings: Meetings,
    /// By process number.
    peers: Vec<Option<Box<GmPeer>>>,
    /// Send tokens of the port.
    tokens: u32,
    /// Those to whom this process owes an answer.
    unanswered: Vec<u32>,
    /// Those to whom something is to be sent again, or dropped first (rule 5).
    stopped: Vec<u32>,
    /// Those whose word was to be written when there was no token.
    unreported: Vec<u32>,
    /// Buffers that GM has, and how many of these are granted to no peer.
    provided: u32,
    spare: u32,
    send_slots: Vec<GmSlot>,
    receive_slots: Vec<GmSlot>,
    made_send_slots: u32,
    lending: Lending,
    landings: Landings,
    /// Frames of the transport itself that wait for room, with an address perhaps.
    owed: VecDeque<(u32, Frame, Option<u64>)>,
    /// Nothing goes before the port is opened again (rule 9).
    is_closed: bool,
    /// All that was sent has arrived, and peers may close their ports: what fails now returns buffers that nobody needs any more.
    is_resting: bool,
    /// To how many listeners others connect.
    listeners: usize,
    /// It has said that memory cannot be registered.
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
    /// The transport of process `own` over `port` and `sockets`. `is_allocated` says what memory is of MPI_Alloc_mem. `nodes`: those of a
    /// launcher that has to do with others.
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
            speaker: Speaker(tell),
            allocated: Allocated::default(),
            nodes,
            meetings: Meetings::default(),
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
        self.peers.get_mut(peer as usize)?.as_deref_mut()
    }

    fn say(&self, what: &str) {
        (self.speaker.0)(&format!("rank {}: gm, {}: {what}", self.own, self.port.describe()));
    }

    /// Polls the sockets, and does what follows.
    fn poll_sockets(&mut self, sink: &mut dyn Sink) -> bool {
        let came = self.sockets.poll(None, &mut self.meetings.watch(sink));
        self.end_meetings();
        for peer in self.meetings.take_lost() {
            // What it had sent comes first.
            self.drain(sink);
            self.lose(peer, sink);
        }
        self.end_sends_to_left();
        for failed in std::mem::take(&mut self.failed) {
            self.settle_failed(failed, sink);
        }
        came
    }

    /// Nothing is kept of a peer any more.
    fn forget(&mut self, peer: u32) {
        self.unanswered.retain(|to| *to != peer);
        let Some(known) = self.peers.get_mut(peer as usize).and_then(|peer| peer.as_deref_mut()) else {
            return;
        };
        if !std::mem::replace(&mut known.is_gone, true) {
            let granted = std::mem::take(&mut known.granted);
            self.send_slots.extend(known.gives_up());
            if granted != peer::UNCOUNTED {
                self.spare += granted;
            }
        }
        self.forget_landings(peer);
        self.forget_lent(peer);
    }

    fn lose(&mut self, peer: u32, sink: &mut dyn Sink) {
        self.forget(peer);
        sink.lost(peer);
    }

    /// Something to a peer has failed, which is no lack of buffers.
    fn fail(&mut self, to: u32, why: String) {
        if self.is_resting {
            return;
        }
        let Some(peer) = self.peers.get_mut(to as usize).and_then(|peer| peer.as_deref_mut()) else { return };
        if !peer.is_gone && !std::mem::replace(&mut peer.has_failed, true) {
            self.send_slots.extend(peer.gives_up());
            self.failed.push(FailedSend { peer: to, why, since: Instant::now() });
        }
        self.polls = POLLS;
    }

    /// Rule 5.
    fn settle_failed(&mut self, failed: FailedSend, sink: &mut dyn Sink) {
        let FailedSend { peer, why, since } = &failed;
        if self.sockets.has_left(*peer) {
            // What it had sent comes first.
            self.drain(sink);
            self.forget(*peer);
        } else if self.peer(*peer).is_none_or(|peer| peer.is_gone) {
            // It is lost by now.
        } else if since.elapsed() < GRACE {
            self.failed.push(failed);
        } else {
            self.say(&format!("nothing goes to process {peer} any more: {why}"));
            self.lose(*peer, sink);
        }
    }

    fn read(&mut self) {
        let before = self.events.len();
        self.port.poll(&mut self.events);
        self.reads += u64::from(self.events.len() > before);
        // Puts and gets hand up nothing by themselves, so that their ends can be heard of where nobody may be called.
        let is_move = |event: &mut GmEvent| {
            let GmEvent::Ended { operation, .. } = event else { return false };
            matches!(operation, GmOperation::Put(_) | GmOperation::Get(_) | GmOperation::GetWord(_))
        };
        let moves: Vec<GmEvent> = self.events.extract_if(before.., is_move).collect();
        for event in moves {
            if let GmEvent::Ended { label, operation, status } = event {
                self.end_move(label, operation, &status);
            }
        }
    }

    /// A put or get is over.
    fn end_move(&mut self, with: u32, operation: GmOperation, status: &GmStatus) {
        match operation {
            GmOperation::Put(region) => self.put_ended(region, status),
            GmOperation::Get(region) => self.get_ended(region, status),
            GmOperation::GetWord(word) => self.check_ended(word, status),
            _ => {}
        }
        if matches!(status, GmStatus::TimedOut | GmStatus::Failed(_)) {
            self.stop(with);
        }
    }

    /// GM has stopped the order of messages to a peer (rule 5).
    fn stop(&mut self, to: u32) {
        let Some(peer) = self.peer(to) else { return };
        peer.needs_drop = true;
        if !self.stopped.contains(&to) {
            self.stopped.push(to);
        }
    }

    /// Takes all that has happened at the port. Whether there was anything.
    fn drain(&mut self, sink: &mut dyn Sink) -> bool {
        if self.is_closed {
            return false;
        }
        let mut any = false;
        for event in std::mem::take(&mut self.early) {
            any = true;
            self.take(event, sink);
        }
        loop {
            self.read();
            if self.events.is_empty() {
                break;
            }
            any = true;
            let mut events = std::mem::take(&mut self.events);
            for event in events.drain(..) {
                self.take(event, sink);
            }
            self.events = events;
        }
        any |= self.finish_landings(sink);
        self.go_on();
        any |= self.send_owed();
        any |= self.send_streams();
        any | self.report_gone(sink)
    }

    fn take(&mut self, event: GmEvent, sink: &mut dyn Sink) {
        match event {
            GmEvent::Received { slot, len, .. } => self.receive(slot, len, sink),
            GmEvent::Ended { label, operation, status } => self.end(label, operation, status),
        }
    }

    /// An operation is over.
    fn end(&mut self, to: u32, operation: GmOperation, status: GmStatus) {
        let Some(peer) = self.peers.get_mut(to as usize).and_then(|peer| peer.as_deref_mut()) else { return };
        let is_done = status == GmStatus::Done;
        let stops = matches!(status, GmStatus::TimedOut | GmStatus::Failed(_));
        let what = match operation {
            GmOperation::Send(slot) => {
                // What fails for good is not sent again.
                if peer.lands(slot, is_done || matches!(status, GmStatus::Failed(_))) {
                    self.send_slots.push(slot);
                }
                "a message"
            }
            GmOperation::PutWord => {
                peer.reported(is_done);
                "the return of buffers"
            }
            GmOperation::Drop => {
                peer.is_dropping = false;
                "dropping messages"
            }
            GmOperation::Put(_) | GmOperation::Get(_) | GmOperation::GetWord(_) => return,
        };
        if stops {
            self.stop(to);
        }
        if let GmStatus::Failed(why) = status {
            self.fail(to, format!("{what} has failed: {why}"));
        }
        self.report(to);
    }

    /// A message has come.
    fn receive(&mut self, slot: GmSlot, len: usize, sink: &mut dyn Sink) {
        let Gm { peers, port, received, frames_received, .. } = self;
        let bytes = port.slot(slot);
        let bytes = &bytes[..len.min(bytes.len())];
        let (mut from, mut own) = (None, None);
        if let Some((head, rest)) = bytes.split_first_chunk::<HEAD>()
            && let Ok(got) = Frame::decode(rest)
            && let Some(peer) = peers.get_mut(got.source as usize).and_then(|peer| peer.as_deref_mut())
        {
            let [r0, r1, r2, r3, key @ ..] = *head;
            // Rule 2.
            if u32::from_le_bytes(key) == peer.key && !peer.is_gone {
                from = Some(got.source);
                peer.returns_lower(u32::from_le_bytes([r0, r1, r2, r3]));
                let body = &rest[got.body_at..];
                received.note(&got.frame, body.len());
                *frames_received += 1;
                let frame = dispatch(got.source, &got, body.len(), Bytes::from(body), sink);
                own =
                    frame.map(|frame| OwnFrame { frame, place: read_words(body), address: read_words(body) });
            }
        }
        if let Err(error) = self.port.provide(slot) {
            // The token of the message that came is there, so this does not happen.
            self.receive_slots.push(slot);
            self.provided = self.provided.saturating_sub(1);
            self.say(&format!("a buffer cannot be provided again: {error}"));
            return;
        }
        if let Some(from) = from
            && let Some(peer) = self.peer(from)
        {
            peer.frees();
            self.report(from);
        }
        if let (Some(from), Some(own)) = (from, own) {
            self.take_own(from, &own, sink);
        }
    }

    /// Whether all that was sent has arrived (rule 7), and no peer that has not left waits for this process.
    fn has_all_arrived(&mut self) -> bool {
        let Gm { peers, sockets, lending, landings, owed, .. } = self;
        let mut is_over = |(at, peer): (usize, &Option<Box<GmPeer>>)| {
            let at = at as u32;
            let owes = || lending.owes(at) || landings.owes(at) || owed.iter().any(|(to, ..)| *to == at);
            peer.as_ref().is_none_or(|peer| peer.is_quiet() && !owes() || peer.is_detached)
                || sockets.has_left(at)
        };
        let has_arrived = peers.iter().enumerate().all(&mut is_over);
        let waiting = self.unanswered.clone();
        has_arrived && !waiting.into_iter().any(|to| self.awaits(to) && !self.is_detached(to))
    }

    fn is_detached(&mut self, peer: u32) -> bool {
        self.peer(peer).is_some_and(|peer| peer.is_detached)
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
        Limits { eager: eager.min(self.settings.tiny), announced: announced.min(self.settings.tiny) }
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        if self.is_of_launcher(to) { PIECE_MOST } else { self.sockets.piece_limit(to) }
    }

    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable> {
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
        self.begin_meeting(to)?;
        // A process that has left takes nothing.
        Ok(if self.sockets.has_left(to) { Sent::Done } else { Sent::Full })
    }

    fn release(&mut self, token: u64) {
        self.sockets.release(token);
        self.take_back(token);
        self.stop_receive(token);
    }

    fn poll(&mut self, _except: Option<u32>, sink: &mut dyn Sink) -> bool {
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
        let has_news = self.lending.has_news() || self.landings.has_news() || !self.lost.is_empty();
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

impl<P: GmPort> Membership for Gm<P> {
    fn has_left(&mut self, peer: u32) -> bool {
        let has_left = self.sockets.has_left(peer);
        if has_left {
            // What it had sent comes with the next poll.
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
        let owes = self.lending.owes(peer)
            || self.landings.owes(peer)
            || self.owed.iter().any(|(to, ..)| *to == peer);
        let is_quiet = !owes && self.peer(peer).is_none_or(|peer| peer.is_quiet());
        (is_quiet || self.sockets.has_left(peer)) && self.sockets.settle(peer)
    }

    fn detach(&mut self, peer: u32) {
        if let Some(peer) = self.peer(peer) {
            peer.is_detached = true;
        }
        self.sockets.detach(peer);
    }

    fn leave(&mut self) -> bool {
        self.has_all_arrived() && self.sockets.leave()
    }

    fn rest(&mut self) -> bool {
        self.has_all_arrived() && self.sockets.rest()
    }

    fn await_end(&mut self, peer: u32, sink: &mut dyn Sink) {
        self.drain(sink);
        self.sockets.await_end(peer, &mut self.meetings.watch(sink));
        self.end_meetings();
    }

    fn bury(&mut self, peer: u32) {
        self.forget(peer);
        self.sockets.bury(peer);
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
