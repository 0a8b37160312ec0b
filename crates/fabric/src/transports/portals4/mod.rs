//! Messages over Portals 4, matched by its network: Open MPI's MTL `portals4`.
//!
//! `module.rs` is what it says of itself. A process has one interface of Portals ([`PortalsInterface`]), and the sockets of the
//! transport between nodes. Messages of communicators are put and matched by Portals (`bits.rs` says what the match bits mean).
//! Everything else goes in frames over the sockets, which also say that a process has ended, and over which two processes meet
//! (`meeting.rs`): a process that has not proved there to be of the job is never known here.
//!
//! Rules
//!
//! 1. A message of up to `mtl_portals4_eager_limit` bytes is put whole. It is copied and kept until its acknowledgement, so the
//!    sender's buffer is free at once. The acknowledgement says that the message is in a receive or in a block for unexpected messages:
//!    nothing is lost from then on, though nobody may have received it. A message that was refused waits for its sender's next look at
//!    the library, other than [`Sent::Done`] says of other transports: only while the receiver's entry is closed (rule 4).
//! 2. A longer message is announced by a put of nothing (`fetches.rs`). Its sender exposes it under a number that the announcement has, and
//!    its receiver gets it in parts of the longest message that both interfaces take. The last get has match bits of its own; it ends
//!    the send.
//! 3. Of a synchronous message that is put whole an empty part is exposed likewise. An acknowledgement alone does not end it, as it may
//!    be of a block: the get does, which its receiver makes when it is matched.
//! 4. The network keeps the order of puts, also when it refuses some (`flow.rs`).
//! 5. There is no descriptor on which to wait for events of Portals beside others, so a process that waits polls, with short sleeps.
//! 6. A process leaves when all its puts are acknowledged, and all its gets and exposed memory are done with. Who has left needs nothing
//!    more. Of a lost process, what has been put can be received; what was only announced cannot.

mod bits;
mod ending;
mod exchange;
mod fetches;
mod flow;
mod messages;
mod module;

use self::fetches::PortalsFetch;
use self::flow::ClosedEntry;
use self::messages::{TakenMessage, UnmetArrival};
use crate::introductions::Introductions;
use crate::routes::Nodes;
use crate::transports::Tell;
use crate::{
    Connected, Connections, Counts, Limits, MatchingTransport, Membership, OutgoingMessage, Sent, Sink,
    Statistics, Traffic, Transport, Unreachable,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_portals::{
    InterfaceOptions, MatchCriteria, PortalsEnding, PortalsEvent, PortalsInterface, PortalsLibrary,
    PortalsLibraryError, PutMessage, RemoteEntry,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Polls of the interface for one of the sockets, which costs a system call, as long as nothing comes over these.
const POLLS: u32 = 8;
/// How long to wait for an operation that is withdrawn by force.
const FORCE: Duration = Duration::from_secs(10);
/// For how long a peer to which something failed may turn out to have left.
const GRACE: Duration = Duration::from_secs(1);

/// How a process uses Portals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortalsSettings {
    /// The longest message that is put whole, bytes.
    pub eager: usize,
    /// Blocks for unexpected messages.
    pub blocks: usize,
    /// Bytes of each.
    pub block_len: usize,
    /// Events of sends that find room.
    pub send_events: usize,
    /// Events of receives that find room.
    pub receive_events: usize,
}

/// The name of an operation of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PortalsName {
    /// A message, the `number`th of all.
    Put { to: u32, number: u64 },
    /// Memory of an announced message.
    Exposed { number: u32 },
    /// A receive of the engine's.
    Receive { token: u64, wanted: MatchCriteria },
    /// A part of a message.
    Get { fetch: u64 },
    /// A probe.
    Probe { number: u64 },
}

/// A process with which this one has met.
#[derive(Debug)]
struct PortalsPeer {
    /// Where it gets messages, and where it exposes memory.
    messages: RemoteEntry,
    exposed: RemoteEntry,
    /// The longest message between the two.
    max_message: usize,
    /// It is lost: nothing goes to it. What it had sent can still be received.
    is_gone: bool,
    /// The two have no communicator any more, and neither waits for the other ([`Membership::detach`]).
    is_detached: bool,
    /// Puts to it that are not acknowledged.
    under_way: u32,
    /// Nothing may be put to it until it says so; it wants to hear when nothing is under way (`flow.rs`).
    is_stopped: bool,
    wants_stop: bool,
    /// Messages that it has refused, by their numbers.
    refused: BTreeMap<u64, PutMessage>,
}

/// The end of a receive that is to be handed up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReceiveEnd {
    Received { token: u64, from: u32, tag: i32, length: u64 },
    NotReceived { token: u64 },
}

impl ReceiveEnd {
    fn token(&self) -> u64 {
        match *self {
            ReceiveEnd::Received { token, .. } | ReceiveEnd::NotReceived { token } => token,
        }
    }
}

/// Something to a peer that has failed.
#[derive(Debug)]
struct PortalsFailure {
    peer: u32,
    why: String,
    since: Instant,
}

/// Tells the user something.
struct PortalsTell(Tell);

impl fmt::Debug for PortalsTell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// The transport of one process over Portals 4.
#[derive(Debug)]
pub struct Portals {
    own: u32,
    interface: PortalsInterface<PortalsName>,
    sockets: Box<dyn Transport>,
    settings: PortalsSettings,
    tell: PortalsTell,
    /// By process number; those with whom this process has met.
    peers: Vec<Option<Box<PortalsPeer>>>,
    introductions: Introductions,
    /// Those to whom this process has introduced itself, and who have not answered.
    introduced: HashSet<u32>,
    /// Those to whom it owes an answer.
    unanswered: Vec<u32>,
    /// What is to be said over the sockets: to whom, whether it wants an answer, and the body of the frame.
    outbox: VecDeque<(u32, bool, Vec<u8>)>,
    /// The entry for messages is closed.
    closed: Option<ClosedEntry>,
    /// A peer may wait for a word about its entry, or have refused something.
    is_flow_due: bool,
    events: Vec<PortalsEvent<PortalsName>>,
    /// Events that were read while something else was waited for.
    early: VecDeque<PortalsEvent<PortalsName>>,
    /// Messages whose memory is exposed, by number: to whom, and the engine's name.
    announced: HashMap<u32, (u32, u64)>,
    next_number: u32,
    next_put: u64,
    fetches: Vec<PortalsFetch>,
    next_fetch: u64,
    /// Messages of processes whose introduction is still under way.
    unmet: Vec<UnmetArrival>,
    ended: VecDeque<ReceiveEnd>,
    /// Messages that probes have taken out, by the names that they got.
    taken: HashMap<u64, TakenMessage>,
    next_probe: u64,
    /// What has failed, of which it is not known yet whether the peer has left.
    failed: Vec<PortalsFailure>,
    /// Peers that cannot be reached any more, of which the engine is to hear.
    lost: Vec<u32>,
    /// Those of which it has heard before this process has met them.
    never_met: HashSet<u32>,
    is_stranger_told: bool,
    polls: u32,
    reads: u64,
    sent: Traffic,
    received: Traffic,
    /// Which processes belong to this launcher; all that goes to those of others goes over sockets. `None`: all do.
    nodes: Option<Nodes>,
}

impl Portals {
    /// The transport of process `own` over an interface of `library` and `sockets`. `nodes`: those of a launcher that has to do with
    /// others.
    pub fn new(
        own: u32,
        library: &Arc<PortalsLibrary>,
        sockets: Box<dyn Transport>,
        settings: PortalsSettings,
        tell: Tell,
        nodes: Option<Nodes>,
    ) -> Result<Portals, PortalsLibraryError> {
        let options = InterfaceOptions {
            initiator_events: settings.send_events,
            target_events: settings.receive_events,
            blocks: settings.blocks,
            block_len: settings.block_len,
            longest_unexpected: settings.eager,
        };
        Ok(Portals {
            own,
            interface: PortalsInterface::open(library, options)?,
            sockets,
            settings,
            tell: PortalsTell(tell),
            peers: Vec::new(),
            introductions: Introductions::default(),
            introduced: HashSet::new(),
            unanswered: Vec::new(),
            outbox: VecDeque::new(),
            closed: None,
            is_flow_due: false,
            events: Vec::new(),
            early: VecDeque::new(),
            announced: HashMap::new(),
            next_number: 0,
            next_put: 0,
            fetches: Vec::new(),
            next_fetch: 0,
            unmet: Vec::new(),
            ended: VecDeque::new(),
            taken: HashMap::new(),
            next_probe: 0,
            failed: Vec::new(),
            lost: Vec::new(),
            never_met: HashSet::new(),
            is_stranger_told: false,
            polls: 0,
            reads: 0,
            sent: Traffic::default(),
            received: Traffic::default(),
            nodes,
        })
    }

    fn peer(&mut self, peer: u32) -> Option<&mut PortalsPeer> {
        self.peers.get_mut(peer as usize)?.as_deref_mut()
    }

    fn is_met(&self, peer: u32) -> bool {
        self.peers.get(peer as usize).is_some_and(Option::is_some)
    }

    /// Nothing sensible can be done.
    fn give_up(&self, what: &str) -> ! {
        (self.tell.0)(&format!("rank {}: {what}", self.own));
        std::process::abort();
    }

    /// Reads what has happened, for [`Portals::drain`].
    fn read(&mut self) -> bool {
        let more = match self.interface.poll(&mut self.events) {
            Ok(more) => more,
            Err(error) => self.give_up(&error.to_string()),
        };
        self.reads += u64::from(!self.events.is_empty());
        self.early.extend(self.events.drain(..));
        more
    }

    /// Handles all that has happened. Whether there was anything.
    fn drain(&mut self, sink: &mut dyn Sink) -> bool {
        let mut any = false;
        loop {
            let more = self.read();
            while let Some(event) = self.early.pop_front() {
                any = true;
                match event {
                    PortalsEvent::Disabled => self.close_entry(),
                    PortalsEvent::Ended { token, ending } => self.end(token, ending, sink),
                }
            }
            if !more {
                break;
            }
        }
        while let Some(end) = self.ended.pop_front() {
            any = true;
            match end {
                ReceiveEnd::Received { token, from, tag, length } => {
                    sink.received(token, from, tag, length);
                }
                ReceiveEnd::NotReceived { token } => sink.not_received(token),
            }
        }
        self.go_on_with_fetches();
        self.go_on_with_flow();
        self.flush_outbox();
        any
    }

    /// An operation is over.
    fn end(&mut self, name: PortalsName, ending: PortalsEnding, sink: &mut dyn Sink) {
        match (name, ending) {
            (PortalsName::Put { to, number }, ending) => self.end_put(to, number, ending),
            (PortalsName::Exposed { number }, PortalsEnding::Fetched) => {
                self.withdraw_exposed(number);
                if let Some((_, token)) = self.announced.remove(&number) {
                    sink.sent(token);
                }
            }
            (PortalsName::Receive { token, wanted }, PortalsEnding::Came(arrival, buffer)) => {
                self.came(token, wanted, arrival, buffer);
            }
            (PortalsName::Get { fetch }, ending) => self.end_get(fetch, ending),
            // A receive that has failed stays: what the network could not bring fails at its sender, too.
            _ => {}
        }
    }

    /// Waits until no such operation goes on any more; what else ends meanwhile is handed up later.
    fn wait_while(&mut self, is_it: impl Fn(&PortalsName) -> bool) {
        let start = Instant::now();
        loop {
            self.interface.unlink(&is_it);
            if !self.interface.is_live(&is_it) {
                return;
            }
            self.read();
            if start.elapsed() > FORCE {
                self.give_up("Portals 4: an operation was withdrawn and does not end");
            }
        }
    }
}

impl Transport for Portals {
    fn name(&self) -> &'static str {
        "portals4"
    }

    fn reaches(&self, peer: u32) -> bool {
        self.sockets.reaches(peer)
    }

    fn limits(&self, to: u32) -> Limits {
        self.sockets.limits(to)
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        self.sockets.piece_limit(to)
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        self.sockets.send(to, message)
    }

    /// What was posted or exposed is unlinked. What has been matched already is waited for, and its message is gone.
    fn release(&mut self, token: u64) {
        self.sockets.release(token);
        self.ended.retain(|end| end.token() != token);
        for one in self.unmet.iter_mut().filter(|one| one.token == token) {
            (one.token, one.buffer) = (0, UserBuf::empty());
        }
        self.wait_while(|name| matches!(name, PortalsName::Receive { token: of, .. } if *of == token));
        for event in &mut self.early {
            if let PortalsEvent::Ended { token: name, ending: PortalsEnding::Came(_, buffer) } = event
                && let PortalsName::Receive { token: of, .. } = name
                && *of == token
            {
                (*of, *buffer) = (0, UserBuf::empty());
            }
        }
        self.release_fetches(token);
        let is_it = |(number, (_, of)): (&u32, &(u32, u64))| (*of == token).then_some(*number);
        for number in self.announced.iter().filter_map(is_it).collect::<Vec<_>>() {
            self.withdraw_exposed(number);
            self.announced.remove(&number);
        }
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
        let may = self.early.is_empty() && self.ended.is_empty() && self.lost.is_empty();
        self.sockets.before_sleep() && may
    }

    /// Rule 5.
    fn sleeps_lightly(&self) -> bool {
        true
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        // The answer of a peer that is to be met comes over sockets; for room in Portals there is no event.
        self.sockets.announce_waiting(peer) && !self.is_met(peer)
    }

    fn share_among_threads(&mut self) {
        self.sockets.share_among_threads();
    }

    fn set_eager_limit(&mut self, bytes: usize) {
        self.sockets.set_eager_limit(bytes);
    }

    fn matching(&mut self) -> Option<&mut dyn MatchingTransport> {
        Some(self)
    }

    fn connections(&mut self) -> Option<&mut dyn Connections> {
        self.sockets.connections()
    }
}

impl Membership for Portals {
    fn has_left(&mut self, peer: u32) -> bool {
        let has_left = self.sockets.has_left(peer);
        if has_left {
            // What it had sent comes with the next poll.
            self.polls = POLLS;
        }
        has_left
    }

    fn attach(&mut self, peer: u32) {
        self.set_detached(peer, false);
        self.sockets.attach(peer);
    }

    fn settle(&mut self, peer: u32) -> bool {
        self.has_arrived_at(peer) && self.sockets.settle(peer)
    }

    fn detach(&mut self, peer: u32) {
        self.set_detached(peer, true);
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

    fn await_end(&mut self, peer: u32, sink: &mut dyn Sink) {
        self.drain(sink);
        self.sockets.await_end(peer, &mut self.introductions.watch(sink));
        self.end_introductions(sink);
    }

    fn remove_failed(&mut self, peer: u32) {
        self.forget(peer);
        self.sockets.remove_failed(peer);
    }
}

impl Statistics for Portals {
    fn count(&mut self, counts: &mut Counts) {
        self.sockets.count(counts);
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
