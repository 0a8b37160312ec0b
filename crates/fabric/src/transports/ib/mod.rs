//! InfiniBand and RoCE through libibverbs: the module `ib` of the components guide.
//!
//! `module.rs` is what it says of itself, `ports.rs` which port a process uses. A process has one port ([`IbPort`]) and the sockets of the
//! transport between nodes. Over the sockets two processes only meet, and hear of each other's end; processes of other launchers, which
//! may be on no common network, use the sockets for everything.
//!
//! Rules
//!
//! 1. A connection (a queue pair at each end) is made at first contact. Who wants it makes its end, posts the envelopes, and sends an
//!    introduction (`introduction.rs`) that requests the peer's. The peer makes its end, connects it, and answers; the first one
//!    connects its own and sends an empty envelope. Who has got an answer, or any envelope, knows that the other end receives, and
//!    sends from then on. If both begin, both answer.
//! 2. An envelope is a head (number of returned envelopes, 4 bytes), a frame and a body of at most `rpi_ib_tinymsglen` bytes. A sender has
//!    one credit for each envelope that is posted for it, and sends nothing without one: so a receiver is never not ready.
//! 3. An emptied envelope is posted again at once. The number of those is in the head of each envelope that goes the other way; when
//!    half of them are due it is written into a word of the sender's memory, which takes no envelope. So one envelope for each peer is
//!    enough. A sender without credits sleeps lightly, since a written word wakes no process.
//! 4. Longer messages are announced; when the receiver requests the data, they come in pieces, one in each envelope.
//! 5. With a shared receive queue envelopes are the peers' together. The first peers are granted all their credits, until half of the queue
//!    is granted; the other half is for peers of one credit each. Credits of a peer that is gone are granted again when its queue pair is
//!    gone too: by then each slot is in the queue or was taken off the count.
//! 6. What is sent is in the adapter of the peer when its send has ended. A process that ends waits for that.
//! 7. The adapter repeats packets for about `rpi_ib_timeout`. What has failed then names the peer, which is lost if it has not left.

#[cfg(test)]
mod fake;
mod introduction;
mod module;
mod peer;
mod port;
mod ports;
#[cfg(test)]
mod tests;

pub use self::port::IbPort;

use self::introduction::IbIntroduction;
use self::peer::IbPeer;
use crate::meetings::Meetings;
use crate::routes::Nodes;
use crate::transports::Tell;
use crate::{
    Body, Connected, Connections, Counts, Limits, Membership, Message, Sent, Sink, Statistics, Traffic,
    Transport, Unreachable, dispatch,
};
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::net::fill_random;
use oxmpi_sys::poller::Poller;
use oxmpi_verbs::{Completion, Operation, SlotId, VerbsError};
use oxmpi_wire::{Frame, MAX_FRAME_LEN};
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

/// Polls of the port for one of the sockets, which costs a system call, as long as nothing comes over these.
const POLLS: u32 = 8;
/// The port's descriptor, in the poller on which the process sleeps.
const DESCRIPTOR: u64 = 3 << 33;
/// For how long a peer to which something failed may turn out to have left.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes before the frame in an envelope.
const HEAD: usize = 4;
/// Slots from which envelopes are sent, at most.
const SEND_SLOTS: usize = 1024;

/// How a process uses its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IbSettings {
    /// The longest body of an envelope, bytes.
    pub tiny: usize,
    /// Envelopes for each peer.
    pub envelopes: u32,
    /// How many all peers share at most; `None`: each has its own.
    pub shared: Option<u32>,
    /// The MTU of connections, bytes.
    pub mtu: usize,
}

impl IbSettings {
    /// The length of an envelope, bytes.
    pub fn envelope_len(&self) -> usize {
        HEAD + MAX_FRAME_LEN + self.tiny
    }

    /// The longest body of a piece of a long message, bytes: an envelope of more than a packet is filled up to the end of a packet, since
    /// the few bytes beyond would cost one more for each piece.
    pub fn piece_len(&self) -> usize {
        let len = self.envelope_len();
        let packets = len.checked_div(self.mtu).unwrap_or(0);
        let full = (packets * self.mtu).saturating_sub(HEAD + MAX_FRAME_LEN);
        if full == 0 { self.tiny } else { full }
    }

    /// Operations that may be under way to one peer.
    pub fn send_depth(&self) -> u32 {
        // One more for the word.
        self.envelopes + 1
    }
}

/// Something to a peer that has failed.
#[derive(Debug)]
struct FailedConnection {
    peer: u32,
    why: String,
    since: Instant,
}

/// Prints text for the user.
struct Teller(Tell);

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

/// The transport of one process over a port.
#[derive(Debug)]
pub struct Ib<P: IbPort> {
    own: u32,
    port: P,
    sockets: Box<dyn Transport>,
    settings: IbSettings,
    tell: Teller,
    /// Which processes belong to this launcher. `None`: all do.
    nodes: Option<Nodes>,
    meetings: Meetings,
    /// By process number.
    peers: Vec<Option<Box<IbPeer>>>,
    /// By the numbers of their queue pairs.
    numbers: HashMap<u32, u32>,
    /// Those to whom this process owes an answer.
    unanswered: Vec<u32>,
    /// Those to whom it owes an empty envelope (rule 1).
    unconfirmed: Vec<u32>,
    /// Envelopes in the shared queue, and how many of these are granted to no peer.
    posted: u32,
    spare: u32,
    receive_slots: Vec<SlotId>,
    send_slots: Vec<SlotId>,
    made_send_slots: usize,
    failed: Vec<FailedConnection>,
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
    /// The transport of process `own` over `port` and `sockets`. The process sleeps on `poller`. `nodes`: those of a launcher that has to do
    /// with others.
    ///
    /// # Errors
    /// The descriptor of the port cannot be watched.
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
            meetings: Meetings::default(),
            peers: Vec::new(),
            numbers: HashMap::new(),
            unanswered: Vec::new(),
            unconfirmed: Vec::new(),
            posted: 0,
            spare: 0,
            receive_slots: Vec::new(),
            send_slots: Vec::new(),
            made_send_slots: 0,
            failed: Vec::new(),
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
        self.peers.get_mut(peer as usize)?.as_deref_mut()
    }

    fn is_of_launcher(&mut self, peer: u32) -> bool {
        self.nodes.as_mut().is_none_or(|nodes| nodes.node(peer).is_some())
    }

    fn say(&self, what: &str) {
        (self.tell.0)(&format!("rank {}: ib, {}: {what}", self.own, self.port.describe()));
    }

    /// Nothing sensible can be done.
    fn give_up(&self, why: &VerbsError) -> ! {
        self.say(&why.to_string());
        std::process::abort();
    }

    /// How many envelopes a new peer is granted (rule 5), 0 if each envelope of the queue is granted.
    fn grant(&self) -> u32 {
        let most = self.settings.envelopes;
        let Some(limit) = self.settings.shared else { return most };
        let granted = self.posted.saturating_sub(self.spare);
        let first_half = (limit / 2).saturating_sub(granted);
        most.min(first_half.max(1)).min(limit.saturating_sub(granted))
    }

    /// Makes the own end of a connection, and posts the envelopes of the peer.
    fn make_end(&mut self, to: u32) -> Result<(), String> {
        if self.peer(to).is_some() {
            return Ok(());
        }
        let granted = self.grant();
        if granted == 0 {
            let limit = self.settings.shared.unwrap_or(0);
            return Err(format!(
                "all {limit} envelopes of the shared receive queue are granted to others: lower rpi_ib_num_envelopes, or set rpi_ib_srq to 0"
            ));
        }
        let mut number = [0; 4];
        fill_random(&mut number).map_err(|error| format!("the system has no random numbers: {error}"))?;
        let first_packet = u32::from_le_bytes(number) & 0xff_ffff;
        let end = self.port.create(first_packet).map_err(|error| error.to_string())?;
        if let Err(why) = self.post_envelopes(end.queue_pair, granted) {
            self.port.close(end.queue_pair);
            return Err(format!("{why} (memory that a process may lock: 'ulimit -l')"));
        }
        self.numbers.insert(end.queue_pair, to);
        let at = to as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        self.peers[at] = Some(Box::new(IbPeer::new(end, granted)));
        Ok(())
    }

    /// Posts the envelopes of a peer. On an error none is granted: those that are in the shared queue are there for others.
    fn post_envelopes(&mut self, queue_pair: u32, count: u32) -> Result<(), VerbsError> {
        if self.settings.shared.is_none() {
            return (0..count).try_for_each(|_| self.post_new(queue_pair));
        }
        for _ in self.spare..count {
            self.post_new(queue_pair)?;
            (self.posted, self.spare) = (self.posted + 1, self.spare + 1);
        }
        self.spare -= count;
        Ok(())
    }

    /// Posts a slot that is not in use.
    fn post_new(&mut self, queue_pair: u32) -> Result<(), VerbsError> {
        if self.receive_slots.is_empty() {
            self.receive_slots = self.port.more_slots()?;
        }
        let Some(slot) = self.receive_slots.pop() else {
            return Err(VerbsError::Exhausted { device: self.port.describe(), what: "slots" });
        };
        self.port.receive(queue_pair, slot).inspect_err(|_| self.receive_slots.push(slot))
    }

    /// Introduces this process to a peer, and requests its introduction, once.
    fn begin_meeting(&mut self, to: u32) -> Result<(), Unreachable> {
        self.make_end(to).map_err(|why| Unreachable { peer: to, why })?;
        let is_due = self.peer(to).is_some_and(|peer| !peer.has_asked && !peer.is_connected);
        let has_asked = is_due && self.introduce(to, true)?;
        if let Some(peer) = self.peer(to) {
            peer.has_asked |= has_asked;
        }
        Ok(())
    }

    /// Sends a peer the introduction of this process. Whether there was room for it.
    fn introduce(&mut self, to: u32, asks: bool) -> Result<bool, Unreachable> {
        let envelope = self.settings.envelope_len() as u32;
        let Some(peer) = self.peer(to) else { return Ok(true) };
        let body = IbIntroduction { end: peer.end, granted: peer.granted, envelope }.encode();
        let body = Body::Bytes(Bytes::from(&body[..]));
        let message = Message { sequence: 0, frame: Frame::Meet { asks }, body, lent: None, token: 0 };
        Ok(self.sockets.send(to, &message)? != Sent::Full)
    }

    /// A peer has introduced itself.
    fn meet(&mut self, from: u32, asks: bool, body: &[u8]) -> Result<(), String> {
        let its = IbIntroduction::decode(body).ok_or("what it says of itself makes no sense")?;
        let own = self.settings.envelope_len();
        if its.envelope as usize != own {
            let its = its.envelope;
            return Err(format!("its envelopes are {its} bytes long, and those of this process {own}"));
        }
        self.make_end(from)?;
        let Some(peer) = self.peers.get_mut(from as usize).and_then(|peer| peer.as_deref_mut()) else {
            return Ok(());
        };
        if peer.is_gone {
            return Ok(());
        }
        if !peer.is_connected {
            self.port.connect(&peer.end, &its.end).map_err(|error| error.to_string())?;
            peer.connected(&its);
        }
        if asks {
            self.unanswered.push(from);
        } else {
            peer.is_ready = true;
            self.unconfirmed.push(from);
        }
        Ok(())
    }

    /// Takes in the peers that have introduced themselves, answers them, and confirms their answers.
    fn end_meetings(&mut self) {
        for (from, asks, body) in self.meetings.take() {
            if let Err(why) = self.meet(from, asks, &body) {
                self.say(&format!("process {from} cannot be met: {why}"));
                self.lost.push(from);
            }
        }
        for to in std::mem::take(&mut self.unanswered) {
            if !self.awaits(to) {
                continue;
            }
            match self.introduce(to, false) {
                Ok(true) => {}
                Ok(false) => self.unanswered.push(to),
                Err(_) => self.lost.push(to),
            }
        }
    }

    /// Whether a peer still waits for an answer or an empty envelope (rule 1): one that has got an envelope does not, nor one that ends.
    fn awaits(&mut self, to: u32) -> bool {
        self.peer(to).is_some_and(|peer| !peer.is_gone && !peer.was_sent_to()) && !self.sockets.has_left(to)
    }

    /// Polls the sockets, and does what follows.
    fn poll_sockets(&mut self, sink: &mut dyn Sink) -> bool {
        let came = self.sockets.poll(None, &mut self.meetings.watch(sink));
        self.end_meetings();
        self.regain();
        for peer in self.meetings.take_lost() {
            // What it had sent comes first.
            self.drain(sink);
            self.lose(peer, sink);
        }
        for failed in std::mem::take(&mut self.failed) {
            self.settle_failed(failed, sink);
        }
        came
    }

    /// Nothing is kept of a peer any more.
    fn forget(&mut self, peer: u32) {
        self.unanswered.retain(|to| *to != peer);
        self.unconfirmed.retain(|to| *to != peer);
        let Some(known) = self.peers.get_mut(peer as usize).and_then(|peer| peer.as_deref_mut()) else {
            return;
        };
        if !std::mem::replace(&mut known.is_gone, true) {
            self.port.close(known.end.queue_pair);
        }
    }

    /// Envelopes of peers whose queue pairs are gone are for others (rule 5). All completions that were read have been handled.
    fn regain(&mut self) {
        for queue_pair in self.port.take_closed() {
            let peer = self.numbers.remove(&queue_pair).and_then(|number| self.peer(number));
            let granted = peer.map_or(0, |peer| std::mem::take(&mut peer.granted));
            if self.settings.shared.is_some() {
                self.spare += granted;
            }
        }
    }

    fn lose(&mut self, peer: u32, sink: &mut dyn Sink) {
        self.forget(peer);
        sink.lost(peer);
    }

    /// Something to a peer has failed.
    fn fail(&mut self, peer: u32, why: String) {
        let is_known = self.failed.iter().any(|known| known.peer == peer);
        if !is_known && self.peer(peer).is_some_and(|peer| !peer.is_gone) {
            self.failed.push(FailedConnection { peer, why, since: Instant::now() });
        }
        self.polls = POLLS;
    }

    /// Rule 7.
    fn settle_failed(&mut self, failed: FailedConnection, sink: &mut dyn Sink) {
        let FailedConnection { peer, why, since } = &failed;
        if self.sockets.has_left(*peer) {
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
        if let Err(error) = self.port.poll(&mut self.events) {
            self.give_up(&error);
        }
        self.reads += u64::from(!self.events.is_empty());
    }

    /// Takes all that has ended. Whether there was anything.
    fn drain(&mut self, sink: &mut dyn Sink) -> bool {
        let mut any = false;
        for event in std::mem::take(&mut self.early) {
            any = true;
            self.end(event, sink);
        }
        loop {
            self.read();
            if self.events.is_empty() {
                break;
            }
            any = true;
            let mut events = std::mem::take(&mut self.events);
            for event in events.drain(..) {
                self.end(event, sink);
            }
            self.events = events;
        }
        for to in std::mem::take(&mut self.unconfirmed) {
            if self.awaits(to) && matches!(self.send_envelope(to, None), Ok(Sent::Full)) {
                self.unconfirmed.push(to);
            }
        }
        any
    }

    /// An operation is over.
    fn end(&mut self, Completion { queue_pair, operation, error }: Completion, sink: &mut dyn Sink) {
        let number = self.numbers.get(&queue_pair).copied();
        match operation {
            Operation::Send(slot) => {
                self.send_slots.push(slot);
                if let Some(peer) = number.and_then(|number| self.peer(number)) {
                    peer.in_flight = peer.in_flight.saturating_sub(1);
                }
            }
            Operation::WriteWord => {
                if let Some(peer) = number.and_then(|number| self.peer(number)) {
                    peer.is_reporting = false;
                }
            }
            Operation::Receive(slot, len) if error.is_none() => {
                self.take(number, (queue_pair, slot, len), sink)
            }
            // It counts as no envelope of the peer, with which the connection has failed.
            Operation::Receive(slot, _) if self.settings.shared.is_some() => {
                self.repost(number, (queue_pair, slot));
            }
            Operation::Receive(slot, _) => self.receive_slots.push(slot),
        }
        if let (Some(number), Some(error)) = (number, error) {
            let what = match operation {
                Operation::Send(_) => "a send",
                Operation::WriteWord => "the return of envelopes",
                Operation::Receive(..) => "a receive",
            };
            self.fail(number, format!("{what} has failed: {error}"));
        } else if let Some(number) = number {
            self.report(number);
        }
    }

    /// Returns envelopes to a peer by its word, if that is due (rule 3).
    fn report(&mut self, to: u32) {
        let Some(peer) = self.peers.get_mut(to as usize).and_then(|peer| peer.as_deref_mut()) else { return };
        if let Some(number) = peer.report()
            && let Err(error) = self.port.write_word(peer.end.queue_pair, number)
        {
            self.fail(to, error.to_string());
        }
    }

    /// An envelope has come.
    fn take(
        &mut self,
        from: Option<u32>,
        (queue_pair, slot, len): (u32, SlotId, usize),
        sink: &mut dyn Sink,
    ) {
        let Ib { peers, port, received, frames_received, .. } = self;
        let known = from.and_then(|from| Some((from, peers.get_mut(from as usize)?.as_deref_mut()?)));
        let bytes = &port.slot(slot);
        let bytes = &bytes[..len.min(bytes.len())];
        if let Some((from, peer)) = known
            && let Some((head, rest)) = bytes.split_first_chunk::<HEAD>()
        {
            peer.is_ready = true;
            peer.returns_lower(u32::from_le_bytes(*head));
            if let Ok(got) = Frame::decode(rest)
                && got.source == from
                && !peer.is_gone
            {
                let body = &rest[got.body_at..];
                received.note(&got.frame, body.len());
                *frames_received += 1;
                let _ = dispatch(from, &got, body.len(), Bytes::from(body), sink);
            }
        }
        if self.repost(from, (queue_pair, slot))
            && let Some(peer) = from.and_then(|from| self.peer(from))
        {
            peer.frees();
        }
    }

    /// Posts a slot again whose receive is over. Whether it is posted. A shared queue gets back each, of whatever queue pair and however its
    /// receive has ended; the queue of a connection only as long as that is in use.
    fn repost(&mut self, from: Option<u32>, (queue_pair, slot): (u32, SlotId)) -> bool {
        let is_shared = self.settings.shared.is_some();
        let is_open = from.and_then(|from| self.peer(from)).is_some_and(|peer| !peer.is_gone);
        if !is_shared && !is_open {
            self.receive_slots.push(slot);
            return false;
        }
        let Err(error) = self.port.receive(queue_pair, slot) else { return true };
        self.receive_slots.push(slot);
        if is_shared {
            self.posted = self.posted.saturating_sub(1);
            match from.and_then(|from| self.peer(from)) {
                Some(peer) if peer.granted > 0 => peer.granted -= 1,
                _ => self.spare = self.spare.saturating_sub(1),
            }
        }
        if let Some(from) = from {
            self.fail(from, error.to_string());
        }
        false
    }

    /// Sends an envelope with a frame, or an empty one.
    fn send_envelope(&mut self, to: u32, message: Option<&Message<'_>>) -> Result<Sent, Unreachable> {
        let (own, depth) = (self.own, self.settings.envelopes);
        if self.send_slots.is_empty() && self.made_send_slots < SEND_SLOTS {
            match self.port.more_slots() {
                Ok(slots) => {
                    self.made_send_slots += slots.len();
                    self.send_slots.extend(slots);
                }
                // The next completion frees one.
                Err(_) if self.made_send_slots > 0 => return Ok(Sent::Full),
                Err(error) => return Err(Unreachable { peer: to, why: error.to_string() }),
            }
        }
        let Ib { peers, port, send_slots, .. } = self;
        let known = peers.get_mut(to as usize).and_then(|peer| peer.as_deref_mut());
        let Some(peer) = known.filter(|peer| !peer.is_gone) else {
            return Err(Unreachable { peer: to, why: "it is gone".into() });
        };
        if peer.credits() == 0 {
            peer.returns(port.peer_word(peer.end.queue_pair));
        }
        if peer.credits() == 0 || peer.in_flight >= depth {
            return Ok(Sent::Full);
        }
        let Some(slot) = send_slots.pop() else { return Ok(Sent::Full) };
        let mut len = HEAD;
        let bytes = port.slot_mut(slot);
        if let Some(message) = message {
            let mut encoded = [0; MAX_FRAME_LEN];
            let frame = message.frame.encode(message.sequence, own, &mut encoded);
            bytes[HEAD..HEAD + frame].copy_from_slice(&encoded[..frame]);
            len += frame;
            let body = message.body.len();
            let Some(room) = bytes.get_mut(len..len + body) else {
                send_slots.push(slot);
                let why = format!("a body of {body} bytes is longer than an envelope");
                return Err(Unreachable { peer: to, why });
            };
            message.body.fill(0, room.into());
            len += body;
        }
        let head = peer.sends();
        bytes[..HEAD].copy_from_slice(&head.to_le_bytes());
        if let Err(error) = port.send(peer.end.queue_pair, slot, len) {
            peer.in_flight -= 1;
            send_slots.push(slot);
            self.fail(to, error.to_string());
            return Ok(Sent::Full);
        }
        Ok(Sent::Done)
    }

    /// Whether all that was sent has arrived (rule 6), and no peer that has not left waits for this process.
    fn has_all_arrived(&mut self) -> bool {
        let Ib { peers, sockets, .. } = self;
        let mut is_over = |(at, peer): (usize, &Option<Box<IbPeer>>)| {
            peer.as_ref().is_none_or(|peer| peer.is_quiet() || peer.is_detached)
                || sockets.has_left(at as u32)
        };
        let has_arrived = peers.iter().enumerate().all(&mut is_over);
        let waiting = [&self.unconfirmed[..], &self.unanswered[..]].concat();
        has_arrived && !waiting.into_iter().any(|to| self.awaits(to) && !self.is_detached(to))
    }

    fn is_detached(&mut self, peer: u32) -> bool {
        self.peer(peer).is_some_and(|peer| peer.is_detached)
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
        Limits { eager: eager.min(self.settings.tiny), announced: announced.min(self.settings.tiny) }
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        self.sockets.piece_limit(to).min(self.settings.piece_len())
    }

    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable> {
        if self.peer(to).is_some_and(|peer| peer.is_ready || peer.is_gone) {
            let sent =
                if self.sockets.has_left(to) { Sent::Done } else { self.send_envelope(to, Some(message))? };
            if sent == Sent::Done {
                self.frames_sent += 1;
                self.sent.note(&message.frame, message.body.len());
            }
            return Ok(sent);
        }
        if !self.is_of_launcher(to) {
            return self.sockets.send(to, message);
        }
        self.begin_meeting(to)?;
        // A process that has left takes nothing.
        Ok(if self.sockets.has_left(to) { Sent::Done } else { Sent::Full })
    }

    fn release(&mut self, token: u64) {
        self.sockets.release(token);
    }

    fn poll(&mut self, _except: Option<u32>, sink: &mut dyn Sink) -> bool {
        for peer in std::mem::take(&mut self.lost) {
            self.lose(peer, sink);
        }
        if std::mem::take(&mut self.is_armed) {
            self.port.take_events();
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
        if let Err(error) = self.port.arm() {
            self.give_up(&error);
        }
        self.is_armed = true;
        // What has ended before the queue was armed raises nothing.
        self.read();
        self.early.append(&mut self.events);
        self.sockets.before_sleep() && self.early.is_empty() && self.lost.is_empty()
    }

    fn sleeps_lightly(&self) -> bool {
        let waits = !(self.unanswered.is_empty() && self.unconfirmed.is_empty() && self.failed.is_empty());
        self.port.wait_fd().is_none() || waits || self.sockets.sleeps_lightly()
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        let is_starved = |peer: &IbPeer| peer.is_ready && peer.credits() == 0;
        self.sockets.announce_waiting(peer)
            && !self.peers.get(peer as usize).and_then(|peer| peer.as_deref()).is_some_and(is_starved)
    }

    fn share_among_threads(&mut self) {
        self.sockets.share_among_threads();
    }

    fn set_eager_limit(&mut self, bytes: usize) {
        self.sockets.set_eager_limit(bytes);
    }

    fn connections(&mut self) -> Option<&mut dyn Connections> {
        None
    }
}

impl<P: IbPort> Membership for Ib<P> {
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
        let is_quiet = self.peer(peer).is_none_or(|peer| peer.is_quiet());
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

impl<P: IbPort> Statistics for Ib<P> {
    fn count(&mut self, counts: &mut Counts) {
        self.sockets.count(counts);
        counts.network_frames_sent += self.frames_sent;
        counts.network_frames_received += self.frames_received;
        counts.completion_reads += self.reads;
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
