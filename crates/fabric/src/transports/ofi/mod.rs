//! Messages over libfabric, matched by its provider: Open MPI's MTL `ofi` (fi_tagged(3)).
//!
//! `module.rs` is what it says of itself, `providers.rs` which provider a job uses. What the providers differ in is in the guide
//! `docs/ofi.md`. Its ranks can be threads of a test, too (`core/tests/ofi.rs`).
//!
//! A process has one endpoint of a provider, and beside it a transport for frames. Messages of communicators go by tag (`tags.rs` says
//! what the bits mean), and the provider matches them. What the engine says of itself goes in frames; so does the first
//! word between two processes, which tells each where the provider finds the other: whoever has not proved to be of the job on the
//! frames' side is never known to the provider's.
//!
//! Rules
//!
//! 1. One function drains the queue of completions, a number of events at a time, until it is empty. An event finds its operation by the
//!    context that libfabric gives back.
//! 2. A synchronous message has a bit that says so. Its sender first posts a receive for the answer, an empty message with the
//!    same context and tag, and another bit; the receiver sends that when the message is matched. Answers of one peer with the same
//!    context and tag come in the order of the messages, so each finds its own.
//! 3. In the full mode a receive from one process names it by its address, and its number travels beside the message; in the
//!    others both are in the tag.
//! 4. A process sleeps on the provider's descriptor together with those of the frames. A provider without one is polled.
//! 5. What fails in the provider names the peer: nothing can be said to it any more, and it is lost. A receive from anybody that fails ends
//!    the job, for nobody knows whose message it was.

mod module;
mod providers;
mod tags;

pub use self::tags::{ModeError, Parts, TagLayout, TagMode, TagProtocol};

use crate::routes::Nodes;
use crate::transports::Tell;
use crate::{
    Connected, Connections, Counts, Limits, MatchingTransport, Membership, Message, Probed, Sent, Sink,
    Statistics, TaggedReceive, TaggedSend, Traffic, Transport, Unreachable,
};
use oxmpi_libfabric::{
    Admission, Claimed, Ended, Ending, Endpoint, EndpointError, Label, LibraryError, PeerAddress, Provider,
    TagFilter,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::Tags;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Completions that are read at a time, if nothing else is asked for (`mtl_ofi_progress_event_cnt`).
pub const EVENTS: usize = 100;
/// Polls of the provider for one of the frames, which costs a system call, as long as nothing comes in frames.
const POLLS: u32 = 8;
/// The provider's descriptor, in the poller on which the process sleeps.
const DESCRIPTOR: u64 = 3 << 33;
/// How long to wait for an operation that is withdrawn by force.
const FORCE: Duration = Duration::from_secs(10);

/// What an operation of the endpoint is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A message of the engine's.
    Send,
    /// The receive for the answer to a synchronous one.
    Answer,
    /// A receive of the engine's.
    Receive,
    /// The answer to a synchronous message.
    Matched,
    /// A probe.
    Peek,
}

/// The name of an operation of the endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Name {
    kind: Kind,
    /// The engine's name for it.
    token: u64,
    /// The peer; [`u32::MAX`]: anybody.
    peer: u32,
}

/// How a process uses libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfiSettings {
    /// Completions that are read at a time.
    pub events: usize,
    /// The bits of tags.
    pub layout: TagLayout,
    /// Whether contexts have transmit and receive contexts of their own, if the provider has scalable endpoints.
    pub grouped: bool,
}

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum OfiError {
    /// libfabric refuses it.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The tags cannot name this process.
    #[error(
        "{mode} has room for process numbers up to {last}, and this is process {own}: mtl_ofi_tag_mode ofi_tag_full has no such limit"
    )]
    Processes {
        /// The mode.
        mode: TagMode,
        /// The last process that it can name.
        last: u32,
        /// This one.
        own: u32,
    },
    /// Its descriptor cannot be slept on.
    #[error("the descriptor of the provider cannot be watched: {0}")]
    Descriptor(#[from] io::Error),
}

/// The transport of one process over libfabric. What is the same for all messages is a constant parameter, so that no message tests
/// it: `FULL`, the source travels beside a message ([`TagMode::Full`]); `GROUPED`, each context has a pair of transmit and
/// receive contexts of a scalable endpoint (`mtl_ofi_thread_grouping`).
#[derive(Debug)]
pub struct Ofi<const FULL: bool, const GROUPED: bool> {
    own: u32,
    /// What the tag of each of its messages says of it.
    own_bits: u64,
    last_tag: i32,
    endpoint: Endpoint<Name, GROUPED>,
    frames: Box<dyn Transport>,
    settings: OfiSettings,
    tell: OfTell,
    /// By process number; those with whom contact was made.
    peers: Vec<Option<PeerAddress>>,
    events: Vec<Ended<Name>>,
    /// Events that were read while something else was waited for.
    early: VecDeque<Ended<Name>>,
    /// Synchronous messages of which one half is done, by the engine's names.
    halves: HashSet<u64>,
    /// Answers that wait for room: to whom, and how they are named.
    unanswered: VecDeque<(u32, Label)>,
    /// Messages that probes have taken out, by the names that they got.
    claimed: HashMap<u64, (Claimed, (u32, u64))>,
    next_claim: u64,
    /// Peers that cannot be reached any more, of which the engine is to hear.
    lost: Vec<u32>,
    polls: u32,
    reads: u64,
    sent: Traffic,
    received: Traffic,
    /// Which processes belong to this launcher: those of others go in frames, as their numbers are others there. `None`: all do.
    nodes: Option<Nodes>,
}

/// Tells the user something.
struct OfTell(Tell);

impl std::fmt::Debug for OfTell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tell")
    }
}

/// The transport of process `own` over `provider`, with `frames` beside it. The process sleeps on `poller`. `nodes`: those of a launcher that
/// has to do with others.
///
/// # Errors
/// See [`OfiError`].
pub fn open(
    own: u32,
    provider: &Provider,
    frames: Box<dyn Transport>,
    settings: OfiSettings,
    (poller, tell): (&Poller, Tell),
    nodes: Option<Nodes>,
) -> Result<Box<dyn Transport>, OfiError> {
    let is_full = settings.layout.mode() == TagMode::Full;
    let parts = (frames, settings, poller, tell, nodes);
    Ok(match (is_full, settings.grouped && provider.contexts > 1) {
        (false, false) => Box::new(Ofi::<false, false>::new(own, provider, parts)?),
        (false, true) => Box::new(Ofi::<false, true>::new(own, provider, parts)?),
        (true, false) => Box::new(Ofi::<true, false>::new(own, provider, parts)?),
        (true, true) => Box::new(Ofi::<true, true>::new(own, provider, parts)?),
    })
}

/// What a transport is made of.
type Ingredients<'a> = (Box<dyn Transport>, OfiSettings, &'a Poller, Tell, Option<Nodes>);

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    fn new(
        own: u32,
        provider: &Provider,
        (frames, settings, poller, tell, nodes): Ingredients<'_>,
    ) -> Result<Self, OfiError> {
        let layout = &settings.layout;
        if own > layout.last_source() {
            return Err(OfiError::Processes { mode: layout.mode(), last: layout.last_source(), own });
        }
        let endpoint = Endpoint::open(provider)?;
        if let Some(fd) = endpoint.wait_fd() {
            poller.add(fd, DESCRIPTOR, false)?;
        }
        Ok(Ofi {
            own,
            own_bits: layout.bits_of(own),
            last_tag: layout.last_tag(),
            endpoint,
            frames,
            settings,
            tell: OfTell(tell),
            peers: Vec::new(),
            events: Vec::new(),
            early: VecDeque::new(),
            halves: HashSet::new(),
            unanswered: VecDeque::new(),
            claimed: HashMap::new(),
            next_claim: 0,
            lost: Vec::new(),
            polls: 0,
            reads: 0,
            sent: Traffic::default(),
            received: Traffic::default(),
            nodes,
        })
    }

    /// How a message with these parts is named to the provider.
    #[inline(always)]
    fn label(&self, parts: Parts) -> Label {
        Label { context: parts.context, tag: self.settings.layout.encode(parts), data: self.data() }
    }

    /// The remote CQ data of a message (rule 3).
    #[inline(always)]
    fn data(&self) -> Option<u64> {
        if FULL { Some(u64::from(self.own)) } else { None }
    }

    /// Messages of a context from this source, or from anybody, with these tags.
    #[inline(always)]
    fn wanted(&self, context: u32, from: Option<u32>, tags: Tags) -> TagFilter {
        let (tag, ignore) = self.settings.layout.wanted(context, from, tags);
        TagFilter { context, from: self.directed(from), tag, ignore }
    }

    fn address_of(&self, peer: u32) -> Option<PeerAddress> {
        *self.peers.get(peer as usize)?
    }

    /// The address by which a receive names its source; none where the tag does.
    #[inline(always)]
    fn directed(&self, from: Option<u32>) -> Option<PeerAddress> {
        if FULL { from.and_then(|from| self.address_of(from)) } else { None }
    }

    /// Nothing sensible can be done.
    fn give_up(&self, what: &str) -> ! {
        (self.tell.0)(&format!(
            "rank {}: libfabric, provider {}: {what}",
            self.own,
            self.endpoint.provider()
        ));
        std::process::abort();
    }

    fn unreachable(&self, peer: u32, error: &EndpointError) -> Unreachable {
        Unreachable { peer, why: error.to_string() }
    }

    /// Reads what the queue has, up to the number of events that are read at a time.
    fn read(&mut self) {
        if let Err(error) = self.endpoint.read(self.settings.events, &mut self.events) {
            self.give_up(&error.to_string());
        }
        self.reads += u64::from(!self.events.is_empty());
    }

    /// Drains the queue (rule 1). Whether there was anything.
    fn drain(&mut self, sink: &mut dyn Sink) -> bool {
        let mut any = false;
        while let Some(event) = self.early.pop_front() {
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
        self.answer_waiting();
        any
    }

    /// An operation is over.
    fn end(&mut self, Ended { token: name, outcome }: Ended<Name>, sink: &mut dyn Sink) {
        let Name { kind, token, peer } = name;
        match (kind, outcome) {
            // One half of a synchronous message, in either order; the other one ends it.
            (Kind::Send, Ending::Sent) | (Kind::Answer, Ending::Came { .. })
                if self.halves.remove(&token) => {}
            (Kind::Send, Ending::Sent) | (Kind::Answer, Ending::Came { .. }) => sink.sent(token),
            (Kind::Receive, Ending::Came { tag, data, length }) => {
                let parts = self.settings.layout.decode(tag);
                let from = self.source(parts, data);
                self.received.add(length);
                if parts.protocol == TagProtocol::Synchronous {
                    let parts = Parts { protocol: TagProtocol::Matched, source: self.own, ..parts };
                    self.unanswered.push_back((from, self.label(parts)));
                }
                sink.received(token, from, parts.tag, length);
            }
            (Kind::Receive, Ending::Cancelled) => sink.not_received(token),
            (Kind::Send | Kind::Answer | Kind::Receive, Ending::Failed(why)) if peer != u32::MAX => {
                (self.tell.0)(&format!(
                    "rank {}: libfabric, provider {}: nothing goes to process {peer} any more: {why}",
                    self.own,
                    self.endpoint.provider()
                ));
                sink.lost(peer);
            }
            (Kind::Receive, Ending::Failed(why)) => self.give_up(&format!("a receive has failed: {why}")),
            // A probe whose answer nobody waits for any more, or an answer whose receiver is gone.
            _ => {}
        }
    }

    /// Sends the answers to synchronous messages, as far as there is room.
    fn answer_waiting(&mut self) {
        while let Some(&(to, label)) = self.unanswered.front() {
            let Some(address) = self.address_of(to) else {
                self.unanswered.pop_front();
                continue;
            };
            let name = Name { kind: Kind::Matched, token: 0, peer: to };
            match self.endpoint.send(address, label, &UserBuf::empty(), name) {
                Ok(Admission::NoRoom) => return,
                // Whoever cannot be reached waits for nothing.
                Ok(Admission::Yes) | Err(_) => drop(self.unanswered.pop_front()),
            }
        }
    }

    /// Who has sent a message (rule 3).
    fn source(&self, parts: Parts, data: u64) -> u32 {
        if FULL { data as u32 } else { parts.source }
    }

    /// Waits for the end of one operation; what else ends meanwhile is handed up later.
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
        self.frames.reaches(peer)
    }

    fn limits(&self, to: u32) -> Limits {
        self.frames.limits(to)
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        self.frames.piece_limit(to)
    }

    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable> {
        self.frames.send(to, message)
    }

    /// What was posted is cancelled, and a receive is waited for: nothing is written into its memory any more. Some providers never end
    /// a send to who is gone, and may read its memory again, which is no harm.
    fn release(&mut self, token: u64) {
        self.frames.release(token);
        let is_it =
            |name: &Name| name.token == token && name.kind != Kind::Matched && name.kind != Kind::Peek;
        self.halves.remove(&token);
        self.early.retain(|event| !is_it(&event.token));
        if !self.endpoint.forget(is_it) {
            return;
        }
        self.endpoint.cancel(is_it);
        let start = Instant::now();
        while self.endpoint.is_live(|name| is_it(name) && name.kind != Kind::Send) {
            self.read();
            self.early.extend(self.events.drain(..));
            if start.elapsed() > FORCE {
                self.give_up("an operation was withdrawn and does not end");
            }
        }
    }

    fn poll(&mut self, except: Option<u32>, sink: &mut dyn Sink) -> bool {
        for peer in std::mem::take(&mut self.lost) {
            sink.lost(peer);
        }
        let came = self.drain(sink);
        self.polls += 1;
        if self.polls < POLLS {
            return came;
        }
        let came_in_frames = self.frames.poll(except, sink);
        self.polls = if came_in_frames { POLLS - 1 } else { 0 };
        came_in_frames || came
    }

    fn poll_all_next(&mut self) {
        self.polls = POLLS;
        self.frames.poll_all_next();
    }

    fn before_sleep(&mut self) -> bool {
        self.polls = POLLS;
        let may = self.early.is_empty()
            && self.lost.is_empty()
            && (self.endpoint.wait_fd().is_none() || self.endpoint.may_wait());
        self.frames.before_sleep() && may
    }

    /// Rule 4.
    fn sleeps_lightly(&self) -> bool {
        self.endpoint.wait_fd().is_none() || !self.unanswered.is_empty() || self.frames.sleeps_lightly()
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        // Room in the provider comes with a completion, if anything is under way; else nobody tells of it.
        self.frames.announce_waiting(peer) && self.endpoint.live() > 0
    }

    fn share_among_threads(&mut self) {
        self.frames.share_among_threads();
    }

    fn set_eager_limit(&mut self, bytes: usize) {
        self.frames.set_eager_limit(bytes);
    }

    fn matching(&mut self) -> Option<&mut dyn MatchingTransport> {
        Some(self)
    }

    fn connections(&mut self) -> Option<&mut dyn Connections> {
        self.frames.connections()
    }
}

impl<const FULL: bool, const GROUPED: bool> MatchingTransport for Ofi<FULL, GROUPED> {
    fn matches(&mut self, peer: u32) -> bool {
        self.nodes.as_mut().is_none_or(|nodes| nodes.node(peer).is_some())
    }

    fn address(&self) -> &[u8] {
        self.endpoint.address()
    }

    fn last_context(&self) -> u32 {
        self.settings.layout.last_context()
    }

    fn last_tag(&self) -> i32 {
        self.settings.layout.last_tag()
    }

    fn knows(&self, peer: u32) -> bool {
        self.address_of(peer).is_some()
    }

    fn learn(&mut self, peer: u32, address: &[u8]) -> Result<(), Unreachable> {
        if self.knows(peer) {
            return Ok(());
        }
        let address = self.endpoint.insert(address).map_err(|error| self.unreachable(peer, &error))?;
        let at = peer as usize;
        if self.peers.len() <= at {
            self.peers.resize(at + 1, None);
        }
        self.peers[at] = Some(address);
        Ok(())
    }

    fn tsend(&mut self, to: u32, message: &TaggedSend<'_>) -> Result<Sent, Unreachable> {
        let TaggedSend { context, tag, buffer, is_synchronous, token } = *message;
        let Some(address) = self.address_of(to) else {
            return Err(Unreachable { peer: to, why: "no contact was made".into() });
        };
        if buffer.packed_len() > self.endpoint.max_message() {
            let why =
                format!("the provider sends no message of more than {} bytes", self.endpoint.max_message());
            return Err(Unreachable { peer: to, why });
        }
        let layout = self.settings.layout;
        let protocol = if is_synchronous { TagProtocol::Synchronous } else { TagProtocol::Plain };
        let parts = Parts { context, source: self.own, protocol, tag };
        let answer = Name { kind: Kind::Answer, token, peer: to };
        if is_synchronous {
            // Rule 2.
            let tag = layout.encode(Parts { source: to, protocol: TagProtocol::Matched, ..parts });
            let wanted = TagFilter { context, from: self.directed(Some(to)), tag, ignore: 0 };
            match self.endpoint.receive(wanted, &UserBuf::empty(), answer) {
                Ok(Admission::Yes) => _ = self.halves.insert(token),
                Ok(Admission::NoRoom) => return Ok(Sent::Full),
                Err(error) => return Err(self.unreachable(to, &error)),
            }
        }
        let name = Name { kind: Kind::Send, token, peer: to };
        let posted = self.endpoint.send(address, self.label(parts), buffer, name);
        if is_synchronous && !matches!(posted, Ok(Admission::Yes)) {
            self.halves.remove(&token);
            self.endpoint.forget(|name| *name == answer);
            self.endpoint.cancel(|name| *name == answer);
        }
        match posted {
            Ok(Admission::Yes) => {
                self.sent.add(buffer.packed_len() as u64);
                Ok(Sent::Later)
            }
            Ok(Admission::NoRoom) => Ok(Sent::Full),
            Err(error) => Err(self.unreachable(to, &error)),
        }
    }

    /// Most short messages are complete at the first read of the queue.
    #[inline]
    fn tsend_short(&mut self, to: u32, context: u32, tag: i32, bytes: Bytes<'_>, token: u64) -> Sent {
        if bytes.len() > Endpoint::<Name, GROUPED>::SHORT || !(0..=self.last_tag).contains(&tag) {
            return Sent::Full;
        }
        let Some(Some(address)) = self.peers.get(to as usize).copied() else { return Sent::Full };
        let bits = self.settings.layout.encode_plain(self.own_bits, context, tag);
        let label = Label { context, tag: bits, data: self.data() };
        let name = Name { kind: Kind::Send, token, peer: to };
        // `tsend` reports an error.
        let posted = self.endpoint.send_short(address, label, bytes, name);
        if !matches!(posted, Ok(Admission::Yes)) {
            return Sent::Full;
        }
        self.sent.add(bytes.len() as u64);
        self.read();
        let mut sent = Sent::Later;
        for event in self.events.drain(..) {
            if event.token == name && event.outcome == Ending::Sent {
                sent = Sent::Done;
            } else {
                self.early.push_back(event);
            }
        }
        sent
    }

    fn open_context(&mut self, context: u32) {
        if GROUPED && let Err(error) = self.endpoint.open_pair(context) {
            self.give_up(&error.to_string());
        }
    }

    fn trecv(&mut self, receive: &TaggedReceive<'_>) -> bool {
        let TaggedReceive { from, context, tags, buffer, token } = *receive;
        let name = Name { kind: Kind::Receive, token, peer: from.unwrap_or(u32::MAX) };
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
        self.endpoint.cancel(|name| name.kind == Kind::Receive && name.token == token);
    }

    fn tprobe(&mut self, from: Option<u32>, context: u32, tags: Tags, takes: bool) -> Option<Probed> {
        let wanted = self.wanted(context, from, tags);
        let name = Name { kind: Kind::Peek, token: self.next_claim, peer: u32::MAX };
        self.next_claim += 1;
        let (posted, claimed) = match self.endpoint.peek(wanted, takes, name) {
            Ok(peeked) => peeked,
            Err(error) => self.give_up(&error.to_string()),
        };
        if posted == Admission::NoRoom {
            return None;
        }
        let Ending::Came { tag, data, length } = self.wait_for(name) else { return None };
        let parts = self.settings.layout.decode(tag);
        let from = self.source(parts, data);
        if takes {
            self.claimed.insert(name.token, (claimed, (context, tag)));
        }
        Some(Probed { from, tag: parts.tag, length, name: takes.then_some(name.token) })
    }

    fn receive_probed(&mut self, name: u64, buffer: &UserBuf, token: u64) -> bool {
        let Some(&(claimed, tag)) = self.claimed.get(&name) else { return true };
        let operation = Name { kind: Kind::Receive, token, peer: u32::MAX };
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
        let has_left = self.frames.has_left(peer);
        if has_left {
            // What it had sent comes with the next poll.
            self.polls = POLLS;
        }
        has_left
    }

    fn attach(&mut self, peer: u32) {
        self.frames.attach(peer);
    }

    fn settle(&mut self, peer: u32) -> bool {
        self.frames.settle(peer)
    }

    fn detach(&mut self, peer: u32) {
        self.frames.detach(peer);
    }

    fn leave(&mut self) -> bool {
        if !self.rest_of_answers() {
            return false;
        }
        if let Some(file) = self.own_file() {
            // Peers that have mapped it keep it; it may be gone.
            let _ = std::fs::remove_file(file);
        }
        self.frames.leave()
    }

    fn rest(&mut self) -> bool {
        self.rest_of_answers() && self.frames.rest()
    }

    fn await_end(&mut self, peer: u32, sink: &mut dyn Sink) {
        self.drain(sink);
        self.frames.await_end(peer, sink);
    }

    fn bury(&mut self, peer: u32) {
        self.unanswered.retain(|(to, _)| *to != peer);
        self.frames.bury(peer);
    }
}

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    /// Whether the answers to synchronous messages are gone.
    fn rest_of_answers(&mut self) -> bool {
        self.unanswered.is_empty() && !self.endpoint.is_live(|name| name.kind == Kind::Matched)
    }
}

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    /// The file in which peers of the provider `shm` find this process: it is left behind when a process ends. Its name is the end of
    /// the address (`fi_shm://PID:0:0`).
    fn own_file(&self) -> Option<PathBuf> {
        let address = std::str::from_utf8(self.endpoint.address()).ok()?;
        let name = address.trim_end_matches('\0').strip_prefix("fi_shm://")?;
        let is_own = name.starts_with(&format!("{}:", std::process::id())) && !name.contains('/');
        is_own.then(|| PathBuf::from("/dev/shm").join(name))
    }
}

impl<const FULL: bool, const GROUPED: bool> Statistics for Ofi<FULL, GROUPED> {
    fn count(&mut self, counts: &mut Counts) {
        self.frames.count(counts);
        counts.completion_reads += self.reads;
        counts.context_pairs += self.endpoint.open_pairs() as u64;
        counts.far_sent += self.sent;
        counts.far_received += self.received;
    }

    fn watch_connections(&mut self, watch: bool) {
        self.frames.watch_connections(watch);
    }

    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        self.frames.take_connections()
    }
}
