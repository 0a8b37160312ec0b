//! Messages over libfabric, matched by its provider: Open MPI's MTL `ofi` (fi_tagged(3)).
//!
//! `module.rs` is its description, `providers.rs` chooses the provider. The guide `docs/ofi.md` has
//! the differences between providers. Threads of a test can be its ranks, too
//! (`core/tests/ofi.rs`).
//!
//! A process has one endpoint of a provider, and the sockets of `tcp`. Messages of communicators go
//! by tag (`tags.rs` has the meaning of the bits), and the provider matches them. The engine's own
//! traffic goes in frames, which are messages of the provider without a tag. Over the sockets two
//! processes only exchange introductions (`exchange.rs`), and learn when the other ends. So the
//! provider never gets the address of a process that has not proved that it belongs to the job.
//! Processes of other launchers may have no common provider with this one, so all messages to them
//! go over sockets.
//!
//! Rules
//!
//! 1. One function drains the completion queue, a number of events at a time, until it is empty.
//!    libfabric returns the context of each operation, which names the operation.
//! 2. A synchronous message has a bit in its tag. Its receiver acknowledges the match by a frame
//!    ([`Frame::Matched`]) with the tag of the message. If several messages have the same tag, the
//!    acknowledgement counts for the oldest: the sender cannot see the difference.
//! 3. In the full mode a receive from one process names the source by its address, and each message
//!    carries its source next to the tag. In the other modes the tag contains the source.
//! 4. A process sleeps on the provider's descriptor and those of the sockets. A provider without a
//!    descriptor is polled.
//! 5. After a failed operation with a peer the peer is lost: nothing can be sent to it any more. A
//!    failed receive from MPI_ANY_SOURCE ends the job, as the source of its message is unknown. If
//!    the peer has left, the failed operation was not needed.
//! 6. After the introductions, all frames between two processes go over the provider. Each begins
//!    with the receiver's cookie (`frames.rs`). The provider may end long messages later than short
//!    ones that were sent after them, so each part of a body is sent when the part before has
//!    ended.
//! 7. A process that ends or rests sends each peer the number of messages that it has received from
//!    the peer ([`Frame::Arrived`]). When all its sends to a peer have ended and the peer has not
//!    sent this number, it requests the number ([`Frame::AskArrived`]) and waits: the end of a send
//!    does not mean that the message has arrived. The request comes behind all messages. On
//!    endpoints with several contexts it may overtake some, so the peer answers when the number of
//!    messages in the request has arrived. Then the process leaves by the sockets.
//! 8. A message that is too long for the provider goes in parts (`parts.rs`).

mod ending;
mod exchange;
mod frames;
mod module;
mod parts;
mod providers;
mod tags;

pub use self::tags::{ModeError, TagFields, TagLayout, TagMode, TagProtocol};

use self::exchange::Introduction;
use self::frames::{BODY, BodyRest, ROOM, ROOMS};
use crate::introductions::Introductions;
use crate::routes::Nodes;
use crate::transports::{Tell, Teller};
use crate::{
    Connected, Connections, Counts, FrameSink, Limits, MatchingTransport, Membership,
    OutgoingMessage, Probed, Sent, Statistics, TaggedReceive, TaggedSend, Traffic, Transport,
    Unreachable,
};
use oxmpi_libfabric::{
    Admission, Claimed, Ended, Ending, Endpoint, EndpointError, FrameRoom, Label, PeerAddress,
    Provider, ShortSend, TagFilter,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::foreign::LibraryError;
use oxmpi_sys::net::fill_random;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::{Frame, Tags};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The default number of completions that are read at a time (`mtl_ofi_progress_event_cnt`).
pub const EVENTS: usize = 100;
/// The number of polls of the provider for one poll of the sockets, which costs a system call.
const POLLS: u32 = 8;
/// The name of the provider's descriptor in the poller on which the process sleeps.
const DESCRIPTOR: u64 = 3 << 33;
/// The longest wait for an operation that is being cancelled.
const FORCE: Duration = Duration::from_secs(10);
/// The time for a peer with a failed operation to turn out to have left.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OperationKind {
    Send,
    Receive,
    Peek,
    Frame,
    Room,
    Part,
    LaterPart,
}

impl OperationKind {
    fn is_send(self) -> bool {
        matches!(self, OperationKind::Send | OperationKind::Frame | OperationKind::Part)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Name {
    kind: OperationKind,
    token: u64,
    /// [`u32::MAX`]: any peer.
    peer: u32,
}

/// The settings of libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfiSettings {
    pub events: usize,
    pub layout: TagLayout,
    /// Whether each context has a pair of transmit and receive contexts, if the provider has free
    /// ones.
    pub grouped: bool,
    /// Whether the engine matches the messages, so that all go in frames.
    pub matches_itself: bool,
}

/// The reason why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum OfiError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Rooms(#[from] EndpointError),
    #[error("the system has no random numbers: {0}")]
    Random(io::Error),
    #[error(
        "{mode} has room for process numbers up to {last}, and this is process {own}: mtl_ofi_tag_mode ofi_tag_full has no such limit"
    )]
    Processes {
        mode: TagMode,
        /// The highest rank that the mode can name.
        last: u32,
        own: u32,
    },
    #[error("the descriptor of the provider cannot be watched: {0}")]
    Descriptor(#[from] io::Error),
}

#[derive(Debug)]
struct OfiPeer {
    address: PeerAddress,
    /// The peer is lost: nothing goes to it. Its earlier messages can still be received.
    is_gone: bool,
    /// The two have no communicator any more, and neither waits for the other.
    is_detached: bool,
    cookie: u64,
    /// Messages sent to the peer that must arrive (rule 7).
    sent: u64,
    /// The number of these that have arrived, by the peer's report.
    delivered: u64,
    /// The number in the last request to the peer.
    last_request: u64,
    /// Messages received from the peer.
    received: u64,
    /// The number of received messages in the last report to the peer.
    reported: u64,
    /// The number in the peer's request, until it can be answered.
    question: Option<u64>,
    rest: Option<BodyRest>,
    arriving: Option<frames::ArrivingBody>,
}

impl OfiPeer {
    fn new(address: PeerAddress, cookie: u64) -> OfiPeer {
        let (sent, delivered, last_request, received, reported) = (0, 0, 0, 0, 0);
        OfiPeer {
            address,
            is_gone: false,
            is_detached: false,
            cookie,
            sent,
            delivered,
            last_request,
            received,
            reported,
            question: None,
            rest: None,
            arriving: None,
        }
    }
}

#[derive(Debug)]
struct FailedOperation {
    name: Name,
    why: String,
    since: Instant,
}

/// The transport of one process over libfabric. Constant parameters, which no message tests, have
/// the properties that are the same for all messages. `FULL`: the source travels next to the tag of
/// a message ([`TagMode::Full`]). `GROUPED`: each context has a pair of transmit and receive
/// contexts of a scalable endpoint (`mtl_ofi_thread_grouping`).
#[derive(Debug)]
pub struct Ofi<const FULL: bool, const GROUPED: bool> {
    own: u32,
    own_bits: u64,
    last_tag: i32,
    endpoint: Endpoint<Name, GROUPED>,
    sockets: Box<dyn Transport>,
    settings: OfiSettings,
    tell: Teller,
    peers: Vec<Option<Box<OfiPeer>>>,
    introduction: Introduction,
    introductions: Introductions,
    /// Peers to which this process has introduced itself, and that have not answered.
    introduced: HashSet<u32>,
    unanswered: Vec<u32>,
    /// Frames of the transport itself that wait for room.
    own_frames: VecDeque<(u32, Frame)>,
    /// Peers for which the rest of a long frame waits for room.
    unfinished_frames: Vec<u32>,
    unposted_rooms: Vec<FrameRoom>,
    /// Received frames of processes that have not answered: sender, receive, length.
    held_rooms: Vec<(u32, FrameRoom, usize)>,
    failed: Vec<FailedOperation>,
    in_parts: parts::MessagesInParts,
    /// Whether the user was warned that an unauthenticated process sends to this one.
    is_intruder_reported: bool,
    frames_sent: u64,
    frames_received: u64,
    events: Vec<Ended<Name>>,
    /// Events that were read during a wait for another operation.
    early: VecDeque<Ended<Name>>,
    /// Synchronous messages without a match, oldest first: receiver, label, the engine's token.
    unmatched: VecDeque<(u32, u64, u64)>,
    /// Tokens of synchronous messages of which either the send or the match has ended.
    halves: HashSet<u64>,
    claimed: HashMap<u64, (Claimed, (u32, u64), u32)>,
    next_claim: u64,
    /// Lost peers that the engine does not know of.
    lost: Vec<u32>,
    /// Peers that were lost before their introduction.
    never_met: HashSet<u32>,
    /// Receives for frames that have failed in a row.
    failed_rooms: u32,
    polls: u32,
    reads: u64,
    sent: Traffic,
    received: Traffic,
    /// The processes of this launcher; messages to others go over sockets. `None`: all are of it.
    nodes: Option<Nodes>,
}

/// The transport of process `own` over `provider` and `sockets`. The process sleeps on `poller`.
/// `nodes` is necessary to communicate with processes of other launchers.
pub fn open(
    own: u32,
    provider: &Provider,
    sockets: Box<dyn Transport>,
    settings: OfiSettings,
    (poller, tell): (&Poller, Tell),
    nodes: Option<Nodes>,
) -> Result<Box<dyn Transport>, OfiError> {
    let is_full = settings.layout.mode() == TagMode::Full;
    let parts = (sockets, settings, poller, tell, nodes);
    Ok(match (is_full, settings.grouped && provider.contexts > 1) {
        (false, false) => Box::new(Ofi::<false, false>::new(own, provider, parts)?),
        (false, true) => Box::new(Ofi::<false, true>::new(own, provider, parts)?),
        (true, false) => Box::new(Ofi::<true, false>::new(own, provider, parts)?),
        (true, true) => Box::new(Ofi::<true, true>::new(own, provider, parts)?),
    })
}

type TransportParts<'a> = (Box<dyn Transport>, OfiSettings, &'a Poller, Tell, Option<Nodes>);

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    fn new(
        own: u32,
        provider: &Provider,
        (sockets, settings, poller, tell, nodes): TransportParts<'_>,
    ) -> Result<Self, OfiError> {
        let layout = &settings.layout;
        if own > layout.last_source() {
            return Err(OfiError::Processes {
                mode: layout.mode(),
                last: layout.last_source(),
                own,
            });
        }
        let mut endpoint = Endpoint::open(provider, settings.events)?;
        endpoint.keep_buffers(layout.first_part_bits());
        endpoint.open_rooms(
            ROOMS,
            ROOM,
            Name { kind: OperationKind::Room, token: 0, peer: u32::MAX },
        )?;
        let mut cookie = [0; 8];
        fill_random(&mut cookie).map_err(OfiError::Random)?;
        if let Some(fd) = endpoint.wait_fd() {
            poller.add(fd, DESCRIPTOR, false)?;
        }
        Ok(Ofi {
            own,
            own_bits: layout.bits_of(own),
            last_tag: layout.last_tag(),
            introduction: Introduction {
                cookie: u64::from_le_bytes(cookie),
                address: endpoint.address().to_vec(),
            },
            endpoint,
            sockets,
            settings,
            tell: Teller(tell),
            peers: Vec::new(),
            introductions: Introductions::default(),
            introduced: HashSet::new(),
            unanswered: Vec::new(),
            own_frames: VecDeque::new(),
            unfinished_frames: Vec::new(),
            unposted_rooms: Vec::new(),
            held_rooms: Vec::new(),
            failed: Vec::new(),
            in_parts: parts::MessagesInParts::default(),
            is_intruder_reported: false,
            frames_sent: 0,
            frames_received: 0,
            events: Vec::new(),
            early: VecDeque::new(),
            unmatched: VecDeque::new(),
            halves: HashSet::new(),
            claimed: HashMap::new(),
            next_claim: 0,
            lost: Vec::new(),
            never_met: HashSet::new(),
            failed_rooms: 0,
            polls: 0,
            reads: 0,
            sent: Traffic::default(),
            received: Traffic::default(),
            nodes,
        })
    }

    #[inline(always)]
    fn label(&self, parts: TagFields) -> Label {
        Label { context: parts.context, tag: self.settings.layout.encode(parts), data: self.data() }
    }

    #[inline(always)]
    fn data(&self) -> Option<u64> {
        if FULL { Some(u64::from(self.own)) } else { None }
    }

    #[inline(always)]
    fn wanted(&self, context: u32, from: Option<u32>, tags: Tags) -> TagFilter {
        let (tag, ignore) = self.settings.layout.wanted(context, from, tags);
        TagFilter { context, from: self.directed(from), tag, ignore }
    }

    fn peer(&mut self, peer: u32) -> Option<&mut OfiPeer> {
        self.peers.get_mut(peer as usize)?.as_deref_mut()
    }

    fn address_of(&self, peer: u32) -> Option<PeerAddress> {
        Some(self.peers.get(peer as usize)?.as_deref()?.address)
    }

    #[inline]
    fn address_to(&self, peer: u32) -> Option<PeerAddress> {
        let peer = self.peers.get(peer as usize)?.as_deref()?;
        if peer.is_gone { None } else { Some(peer.address) }
    }

    #[inline(always)]
    fn directed(&self, from: Option<u32>) -> Option<PeerAddress> {
        if FULL { from.and_then(|from| self.address_of(from)) } else { None }
    }

    fn say(&self, what: &str) {
        let provider = self.endpoint.provider();
        (self.tell.0)(&format!("rank {}: libfabric, provider {provider}: {what}", self.own));
    }

    fn give_up(&self, what: &str) -> ! {
        self.say(what);
        std::process::abort();
    }

    fn not_sent(&mut self, peer: u32, error: &EndpointError) -> Result<Sent, Unreachable> {
        if self.sockets.has_left(peer) {
            return Ok(Sent::Done);
        }
        self.forget(peer);
        Err(Unreachable { peer, why: error.to_string() })
    }

    /// A peer that has closed its endpoint never has room, and needs no message.
    fn no_room(&mut self, peer: u32) -> Sent {
        if self.sockets.has_left(peer) { Sent::Done } else { Sent::Full }
    }

    fn read(&mut self) -> bool {
        let any = match self.endpoint.read(&mut self.events) {
            Ok(any) => any,
            Err(error) => self.give_up(&error.to_string()),
        };
        self.reads += u64::from(!self.events.is_empty());
        any
    }

    fn drain(&mut self, sink: &mut dyn FrameSink) -> bool {
        let mut any = false;
        while let Some(event) = self.early.pop_front() {
            any = true;
            self.end(event, sink);
        }
        while self.read() {
            any |= !self.events.is_empty();
            let mut events = std::mem::take(&mut self.events);
            for event in events.drain(..) {
                self.end(event, sink);
            }
            self.events = events;
        }
        self.go_on_with_parts(sink);
        self.send_waiting_frames();
        any
    }

    fn end(&mut self, Ended { token: name, outcome }: Ended<Name>, sink: &mut dyn FrameSink) {
        let Name { kind, token, peer } = name;
        match (kind, outcome) {
            (OperationKind::Send, Ending::Sent) => self.end_half(token, sink),
            (OperationKind::Receive, Ending::Came { tag, data, length, order }) => {
                let parts = self.settings.layout.decode(tag);
                let from = self.source(parts, data);
                self.count_came(from);
                self.received.add(length);
                match parts.protocol {
                    TagProtocol::Plain => {}
                    TagProtocol::Synchronous => {
                        let label = self.settings.layout.label(tag);
                        self.own_frames.push_back((from, Frame::Matched { label }));
                    }
                    TagProtocol::FirstPart => {
                        return self.received_first_part((from, parts), (token, tag), order);
                    }
                }
                sink.received(token, from, parts.tag, length);
            }
            (OperationKind::Frame, Ending::Sent) => {
                self.end_part_of_frame(peer);
                if token != 0 {
                    sink.sent(token);
                }
            }
            (OperationKind::Receive, Ending::Unwanted { tag, data, order }) => {
                let parts = self.settings.layout.decode(tag);
                let from = self.source(parts, data);
                self.count_came(from);
                self.gave_up_first_part((from, parts), tag, order);
            }
            (OperationKind::Room, Ending::NoFrame { room, why }) => {
                self.post_failed_room(room, &why)
            }
            (OperationKind::Part, Ending::Sent) => self.sent_part(token, sink),
            (OperationKind::LaterPart, Ending::Came { .. }) => {
                self.count_came(peer);
                self.received_part(token);
            }
            (OperationKind::Room, Ending::Frame { room, length }) => {
                self.take_frame(room, length, sink)
            }
            (OperationKind::Receive, Ending::Cancelled) => sink.not_received(token),
            (
                OperationKind::Send
                | OperationKind::Receive
                | OperationKind::Frame
                | OperationKind::Part
                | OperationKind::LaterPart,
                Ending::Failed(why),
            ) if peer != u32::MAX => self.fail(name, why),
            (OperationKind::Receive, Ending::Failed(why)) => {
                self.give_up(&format!("a receive has failed: {why}"));
            }
            // A probe for which nothing waits any more.
            _ => {}
        }
    }

    #[inline(always)]
    fn count_sent(&mut self, to: u32) {
        if let Some(peer) = self.peer(to) {
            peer.sent += 1;
        }
    }

    #[inline(always)]
    fn count_came(&mut self, from: u32) {
        if let Some(peer) = self.peer(from) {
            peer.received += 1;
            if GROUPED && peer.question.is_some() {
                self.report(from);
            }
        }
    }

    /// A send has ended; of a synchronous send, either the send or the match.
    #[inline(always)]
    fn end_half(&mut self, token: u64, sink: &mut dyn FrameSink) {
        if self.halves.is_empty() || !self.halves.remove(&token) {
            sink.sent(token);
        }
    }

    fn matched(&mut self, from: u32, label: u64, sink: &mut dyn FrameSink) {
        let found = self.unmatched.iter().position(|(to, of, _)| (*to, *of) == (from, label));
        if let Some((.., token)) = found.and_then(|found| self.unmatched.remove(found)) {
            self.end_half(token, sink);
        }
    }

    fn source(&self, parts: TagFields, data: u64) -> u32 {
        if FULL { data as u32 } else { parts.source }
    }

    /// Keeps other events for later.
    fn wait_for(&mut self, name: Name) -> Ending {
        loop {
            self.read();
            let mut found = None;
            for event in self.events.drain(..) {
                if event.token == name && found.is_none() {
                    found = Some(event.outcome);
                } else {
                    self.early.push_back(event);
                }
            }
            if let Some(outcome) = found {
                return outcome;
            }
        }
    }
}

impl<const FULL: bool, const GROUPED: bool> Transport for Ofi<FULL, GROUPED> {
    fn name(&self) -> &'static str {
        "ofi"
    }

    fn reaches(&self, peer: u32) -> bool {
        self.sockets.reaches(peer)
    }

    fn limits(&self, to: u32) -> Limits {
        let Limits { eager, announced } = self.sockets.limits(to);
        Limits { eager: eager.min(BODY), announced }
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        self.sockets.piece_limit(to).min(BODY)
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        if self.address_of(to).is_some() {
            return self.send_frame(to, message);
        }
        if !self.is_of_launcher(to) {
            return self.sockets.send(to, message);
        }
        self.request_introduction(to)?;
        Ok(if self.sockets.has_left(to) { Sent::Done } else { Sent::Full })
    }

    /// Cancels posted operations, and waits for receives, whose memory is the program's again. Some
    /// providers never end a send to a dead process, and may read its memory again.
    fn release(&mut self, token: u64) {
        self.sockets.release(token);
        let is_it = |name: &Name| {
            name.token == token && !matches!(name.kind, OperationKind::Peek | OperationKind::Room)
        };
        self.halves.remove(&token);
        self.unmatched.retain(|(.., of)| *of != token);
        self.give_up_early(is_it);
        self.release_parts(token);
        for rest in self.peers.iter_mut().flatten().filter_map(|peer| peer.rest.as_mut()) {
            rest.release(token);
        }
        if !self.endpoint.forget(is_it) {
            return;
        }
        self.endpoint.cancel(is_it);
        let start = Instant::now();
        while self.endpoint.is_live(|name| is_it(name) && !name.kind.is_send()) {
            self.read();
            self.early.extend(self.events.drain(..));
            if start.elapsed() > FORCE {
                self.give_up("a cancelled operation does not end");
            }
        }
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
        let may = self.early.is_empty()
            && self.lost.is_empty()
            && (self.endpoint.wait_fd().is_none() || self.endpoint.may_wait());
        self.sockets.before_sleep() && may
    }

    fn sleeps_lightly(&self) -> bool {
        let waits_for_room = !(self.own_frames.is_empty()
            && self.unfinished_frames.is_empty()
            && self.unposted_rooms.is_empty()
            && self.failed.is_empty()
            && !self.in_parts.waits_for_room());
        self.endpoint.wait_fd().is_none() || waits_for_room || self.sockets.sleeps_lightly()
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        // The introduction comes over sockets. Room is an event only if an operation is under way.
        self.sockets.announce_waiting(peer)
            && (self.address_of(peer).is_none()
                || self.endpoint.is_live(|name| name.kind.is_send()))
    }

    fn share_among_threads(&mut self) {
        self.sockets.share_among_threads();
    }

    fn set_eager_limit(&mut self, bytes: usize) {
        self.sockets.set_eager_limit(bytes);
    }

    fn matching(&mut self) -> Option<&mut dyn MatchingTransport> {
        if self.settings.matches_itself { None } else { Some(self) }
    }

    fn connections(&mut self) -> Option<&mut dyn Connections> {
        self.sockets.connections()
    }
}

impl<const FULL: bool, const GROUPED: bool> MatchingTransport for Ofi<FULL, GROUPED> {
    fn matches(&mut self, peer: u32) -> bool {
        self.is_of_launcher(peer)
    }

    fn last_context(&self) -> u32 {
        self.settings.layout.last_context()
    }

    fn last_tag(&self) -> i32 {
        self.settings.layout.last_tag()
    }

    fn meets(&mut self, peer: u32) -> bool {
        if self.address_of(peer).is_some() {
            return true;
        }
        if self.request_introduction(peer).is_err() && self.never_met.insert(peer) {
            self.lost.push(peer);
        }
        false
    }

    fn tsend(&mut self, to: u32, message: &TaggedSend<'_>) -> Result<Sent, Unreachable> {
        let TaggedSend { context, tag, buffer, is_synchronous, token } = *message;
        let Some(address) = self.address_to(to) else {
            return Err(Unreachable {
                peer: to,
                why: "the two have no contact, or it is lost".into(),
            });
        };
        if buffer.packed_len() > self.endpoint.max_message() {
            return self.send_in_parts(to, message);
        }
        let protocol = if is_synchronous { TagProtocol::Synchronous } else { TagProtocol::Plain };
        let label = self.label(TagFields { context, source: self.own, protocol, tag });
        let name = Name { kind: OperationKind::Send, token, peer: to };
        match self.endpoint.send(address, label, buffer, name) {
            Ok(Admission::Yes) => {}
            Ok(Admission::NoRoom) => return Ok(self.no_room(to)),
            Err(error) => return self.not_sent(to, &error),
        }
        if is_synchronous {
            self.halves.insert(token);
            self.unmatched.push_back((to, self.settings.layout.label(label.tag), token));
        }
        self.count_sent(to);
        self.sent.add(buffer.packed_len() as u64);
        Ok(Sent::Later)
    }

    /// Most short messages are complete at the first read of the queue.
    #[inline]
    fn tsend_short(
        &mut self,
        to: u32,
        context: u32,
        tag: i32,
        bytes: Bytes<'_>,
        token: u64,
    ) -> Sent {
        if bytes.len() > Endpoint::<Name, GROUPED>::SHORT || !(0..=self.last_tag).contains(&tag) {
            return Sent::Full;
        }
        let Some(address) = self.address_to(to) else { return Sent::Full };
        let bits = self.settings.layout.encode_plain(self.own_bits, context, tag);
        let label = Label { context, tag: bits, data: self.data() };
        let name = Name { kind: OperationKind::Send, token, peer: to };
        // `tsend` reports an error.
        let posted = self.endpoint.send_short(address, label, bytes, name);
        let Ok(Some(posted)) = posted else { return Sent::Full };
        self.count_sent(to);
        self.sent.add(bytes.len() as u64);
        if self.is_gone(posted) { Sent::Done } else { Sent::Later }
    }

    fn open_context(&mut self, context: u32) {
        if GROUPED && let Err(error) = self.endpoint.open_pair(context) {
            self.give_up(&error.to_string());
        }
    }

    fn trecv(&mut self, receive: &TaggedReceive<'_>) -> bool {
        let TaggedReceive { from, context, tags, buffer, token } = *receive;
        let name = Name { kind: OperationKind::Receive, token, peer: from.unwrap_or(u32::MAX) };
        match self.endpoint.receive(self.wanted(context, from, tags), buffer, name) {
            Ok(Admission::Yes) => true,
            Ok(Admission::NoRoom) => false,
            Err(error) => match from {
                Some(peer) => {
                    (self.tell.0)(&format!("rank {}: {error}", self.own));
                    self.lost.push(peer);
                    true
                }
                None => self.give_up(&error.to_string()),
            },
        }
    }

    fn tcancel(&mut self, token: u64) {
        self.endpoint.cancel(|name| name.kind == OperationKind::Receive && name.token == token);
    }

    fn tprobe(
        &mut self,
        from: Option<u32>,
        context: u32,
        tags: Tags,
        takes: bool,
    ) -> Option<Probed> {
        let wanted = self.wanted(context, from, tags);
        // A message in parts is taken out only if its length is known.
        let mut known = None;
        if takes && self.may_be_in_parts() {
            known = Some(self.peek(wanted, false)?.0.length?);
        }
        let (found, name, claimed) = self.peek(wanted, takes)?;
        let length = known.or(found.length)?;
        if takes {
            self.claimed.insert(name, (claimed, (context, found.bits), found.key.from));
            if found.parts.protocol == TagProtocol::FirstPart {
                self.take_in_parts(found.key, found.order);
            }
        }
        Some(Probed {
            from: found.key.from,
            tag: found.parts.tag,
            length,
            name: takes.then_some(name),
        })
    }

    fn receive_probed(&mut self, name: u64, buffer: &UserBuf, token: u64) -> bool {
        let Some(&(claimed, tag, from)) = self.claimed.get(&name) else { return true };
        let operation = Name { kind: OperationKind::Receive, token, peer: from };
        match self.endpoint.receive_claimed(claimed, tag, buffer, operation) {
            Ok(Admission::Yes) => {
                self.claimed.remove(&name);
                true
            }
            Ok(Admission::NoRoom) => false,
            Err(error) => self.give_up(&error.to_string()),
        }
    }
}

impl<const FULL: bool, const GROUPED: bool> Membership for Ofi<FULL, GROUPED> {
    fn has_left(&mut self, peer: u32) -> bool {
        let has_left = self.sockets.has_left(peer);
        if has_left {
            self.polls = POLLS;
        }
        has_left
    }

    fn attach(&mut self, peer: u32) {
        self.set_detached(peer, false);
        self.sockets.attach(peer);
    }

    fn settle(&mut self, peer: u32) -> bool {
        let has_arrived = self.sockets.has_left(peer) || self.has_arrived_at(peer);
        let is_owed = self.own_frames.iter().any(|(to, _)| *to == peer);
        has_arrived && !is_owed && self.sockets.settle(peer)
    }

    fn detach(&mut self, peer: u32) {
        self.set_detached(peer, true);
        self.sockets.detach(peer);
    }

    fn lost_messages(&mut self) -> Option<String> {
        self.sockets.lost_messages()
    }

    fn leave(&mut self) -> bool {
        if !self.has_all_arrived() {
            return false;
        }
        if let Some(file) = self.own_file() {
            // Peers that have mapped the file keep it. It may already be removed.
            let _ = std::fs::remove_file(file);
        }
        self.sockets.leave()
    }

    fn rest(&mut self) -> bool {
        self.has_all_arrived() && self.has_said_all() && self.sockets.rest()
    }

    fn await_end(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        self.drain(sink);
        self.sockets.await_end(peer, &mut self.introductions.watch(sink));
        self.end_introductions(sink);
    }

    fn remove_failed(&mut self, peer: u32) {
        self.forget(peer);
        self.sockets.remove_failed(peer);
    }
}

struct ProbeResult {
    key: parts::MessageKey,
    bits: u64,
    parts: TagFields,
    /// The place of the probe in the order of receives.
    order: u64,
    /// The length of the whole message, if it is known.
    length: Option<u64>,
}

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    fn may_be_in_parts(&self) -> bool {
        self.endpoint.max_message() < 1 << 48
    }

    /// Returns the message, the name of the probe, and the handle to receive a claimed message.
    fn peek(&mut self, wanted: TagFilter, claims: bool) -> Option<(ProbeResult, u64, Claimed)> {
        let name = Name { kind: OperationKind::Peek, token: self.next_claim, peer: u32::MAX };
        self.next_claim += 1;
        let (posted, claimed) = match self.endpoint.peek(wanted, claims, name) {
            Ok(peeked) => peeked,
            Err(error) => self.give_up(&error.to_string()),
        };
        if posted == Admission::NoRoom {
            return None;
        }
        let Ending::Came { tag: bits, data, length, order } = self.wait_for(name) else {
            return None;
        };
        let parts = self.settings.layout.decode(bits);
        let key = parts::MessageKey {
            from: self.source(parts, data),
            label: self.settings.layout.label(bits),
        };
        let is_whole = parts.protocol != TagProtocol::FirstPart;
        let length = if is_whole { Some(length) } else { self.length_in_parts(key, parts.context) };
        Some((ProbeResult { key, bits, parts, order, length }, name.token, claimed))
    }

    /// Whether a send that has just begun is complete, after one read of the queue.
    #[inline]
    fn has_ended(&mut self, name: Name) -> bool {
        self.read();
        let mut has_ended = false;
        for event in self.events.drain(..) {
            if !has_ended && event.token == name && event.outcome == Ending::Sent {
                has_ended = true;
            } else {
                self.early.push_back(event);
            }
        }
        has_ended
    }

    #[inline]
    fn is_gone(&mut self, send: ShortSend) -> bool {
        let is_gone = match self.endpoint.read_after(send, &mut self.events) {
            Ok(is_gone) => is_gone,
            Err(error) => self.give_up(&error.to_string()),
        };
        self.reads += u64::from(is_gone || !self.events.is_empty());
        self.early.extend(self.events.drain(..));
        is_gone
    }
}

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    /// The file in which peers of the provider `shm` find this process; it would remain after the
    /// process. Its name is the end of the address (`fi_shm://PID:0:0`).
    fn own_file(&self) -> Option<PathBuf> {
        let address = std::str::from_utf8(self.endpoint.address()).ok()?;
        let name = address.trim_end_matches('\0').strip_prefix("fi_shm://")?;
        let is_own = name.starts_with(&format!("{}:", std::process::id())) && !name.contains('/');
        is_own.then(|| PathBuf::from("/dev/shm").join(name))
    }
}

impl<const FULL: bool, const GROUPED: bool> Statistics for Ofi<FULL, GROUPED> {
    fn count(&mut self, counts: &mut Counts) {
        self.sockets.count(counts);
        counts.network_frames_sent += self.frames_sent;
        counts.network_frames_received += self.frames_received;
        counts.completion_reads += self.reads;
        counts.context_pairs += self.endpoint.open_pairs() as u64;
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
