//! Messages over Portals 4, matched by its network: Open MPI's MTL `portals4`.
//!
//! `module.rs` is its description. A process has one interface of Portals ([`PortalsInterface`]),
//! and the sockets of the transport between nodes. Messages of communicators are put and matched by
//! Portals (`bits.rs` has the meaning of the match bits). All other traffic goes in frames over the
//! sockets. The sockets also report the end of a process, and carry the introductions
//! (`exchange.rs`): a process never uses the address of a process that has not proved that it
//! belongs to the job.
//!
//! Rules
//!
//! 1. A message of up to `mtl_portals4_eager_limit` bytes is put whole. A copy is retained until
//!    the acknowledgement, so the sender's buffer is free at once. After the acknowledgement the
//!    message cannot get lost: it is in a receive, or in a block for unexpected messages.
//!    [`Sent::Done`] has one exception here: a refused message waits for its sender's next call
//!    into the library. This happens only while the receiver's entry is closed (rule 4).
//! 2. A longer message is announced by an empty put (`fetches.rs`). Its sender exposes it under the
//!    number in the announcement, and its receiver gets it in parts of the longest message that
//!    both interfaces take. The last get has its own match bits; it ends the send.
//! 3. For a synchronous message that is put whole, an empty message is exposed in the same way. The
//!    acknowledgement does not end it, as the message may be in a block. The receiver's get after
//!    the match ends it.
//! 4. The network keeps the order of puts, even if it refuses some (`flow.rs`).
//! 5. A process cannot wait for events of Portals together with others, as Portals has no
//!    descriptor. So a process that waits polls, with short sleeps.
//! 6. A process leaves when all its puts are acknowledged, and all its gets and exposures have
//!    ended. A process that has left needs nothing more. Messages that a lost process has put whole
//!    can be received, and its announced ones cannot.

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
use crate::transports::{Tell, Teller};
use crate::{
    Connected, Connections, Counts, FrameSink, Limits, MatchingTransport, Membership,
    OutgoingMessage, Sent, Statistics, Traffic, Transport, Unreachable,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_portals::{
    InterfaceOptions, MatchCriteria, PortalsEnding, PortalsEvent, PortalsInterface, PortalsLibrary,
    PutMessage, RemoteEntry,
};
use oxmpi_sys::foreign::LibraryError;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of polls of the interface for one poll of the sockets, which costs a system call.
const POLLS: u32 = 8;
/// The longest wait for an operation that is being cancelled.
const FORCE: Duration = Duration::from_secs(10);
/// The time for a peer with a failed operation to turn out to have left.
const GRACE: Duration = Duration::from_secs(1);

/// The settings of Portals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortalsSettings {
    /// The longest message that is put whole, in bytes.
    pub eager: usize,
    pub blocks: usize,
    pub block_len: usize,
    pub send_events: usize,
    pub receive_events: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PortalsName {
    Put { to: u32, number: u64 },
    Exposed { number: u32 },
    Receive { token: u64, wanted: MatchCriteria },
    Get { fetch: u64 },
    Probe { number: u64 },
}

#[derive(Debug)]
struct PortalsPeer {
    /// The peer's entry for messages.
    messages: RemoteEntry,
    /// The peer's entry for exposed memory.
    exposed: RemoteEntry,
    max_message: usize,
    /// The peer is lost: nothing goes to it. Its earlier messages can still be received.
    is_gone: bool,
    /// The two have no communicator any more, and neither waits for the other.
    is_detached: bool,
    under_way: u32,
    /// The peer's entry is closed.
    is_stopped: bool,
    /// The peer waits for [`Word::Stopped`](exchange::Word::Stopped).
    wants_stop: bool,
    /// Messages that the peer has refused, by number.
    refused: BTreeMap<u64, PutMessage>,
}

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

#[derive(Debug)]
struct PortalsFailure {
    peer: u32,
    why: String,
    since: Instant,
}

/// The transport of one process over Portals 4.
#[derive(Debug)]
pub struct Portals {
    own: u32,
    interface: PortalsInterface<PortalsName>,
    sockets: Box<dyn Transport>,
    settings: PortalsSettings,
    tell: Teller,
    peers: Vec<Option<Box<PortalsPeer>>>,
    introductions: Introductions,
    /// Peers to which this process has introduced itself, and that have not answered.
    introduced: HashSet<u32>,
    unanswered: Vec<u32>,
    /// Words for the sockets: receiver, whether it has to answer, and the body of the frame.
    outbox: VecDeque<(u32, bool, Vec<u8>)>,
    closed: Option<ClosedEntry>,
    /// Whether a peer may wait for a word about its entry, or have refused a message.
    is_flow_due: bool,
    events: Vec<PortalsEvent<PortalsName>>,
    /// Events that were read during a wait for another operation.
    early: VecDeque<PortalsEvent<PortalsName>>,
    /// Exposed messages, by number: receiver, and the engine's token.
    announced: HashMap<u32, (u32, u64)>,
    next_number: u32,
    next_put: u64,
    fetches: Vec<PortalsFetch>,
    next_fetch: u64,
    /// Messages of processes whose introduction is under way.
    unmet: Vec<UnmetArrival>,
    ended: VecDeque<ReceiveEnd>,
    taken: HashMap<u64, TakenMessage>,
    next_probe: u64,
    failed: Vec<PortalsFailure>,
    /// Lost peers that the engine does not know of.
    lost: Vec<u32>,
    /// Peers that were lost before their introduction.
    never_met: HashSet<u32>,
    is_intruder_reported: bool,
    polls: u32,
    reads: u64,
    sent: Traffic,
    received: Traffic,
    /// The processes of this launcher; messages to others go over sockets. `None`: all are of it.
    nodes: Option<Nodes>,
}

impl Portals {
    /// The transport of process `own` over an interface of `library` and `sockets`. `nodes` is
    /// necessary to communicate with processes of other launchers.
    pub fn new(
        own: u32,
        library: &Arc<PortalsLibrary>,
        sockets: Box<dyn Transport>,
        settings: PortalsSettings,
        tell: Tell,
        nodes: Option<Nodes>,
    ) -> Result<Portals, LibraryError> {
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
            tell: Teller(tell),
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
            is_intruder_reported: false,
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

    fn give_up(&self, what: &str) -> ! {
        (self.tell.0)(&format!("rank {}: {what}", self.own));
        std::process::abort();
    }

    fn read(&mut self) -> bool {
        let more = match self.interface.poll(&mut self.events) {
            Ok(more) => more,
            Err(error) => self.give_up(&error.to_string()),
        };
        self.reads += u64::from(!self.events.is_empty());
        self.early.extend(self.events.drain(..));
        more
    }

    fn drain(&mut self, sink: &mut dyn FrameSink) -> bool {
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

    fn end(&mut self, name: PortalsName, ending: PortalsEnding, sink: &mut dyn FrameSink) {
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
            // A failed receive stays posted: its message fails at the sender, too.
            _ => {}
        }
    }

    /// Waits until no such operation is left; keeps other events for later.
    fn wait_while(&mut self, is_it: impl Fn(&PortalsName) -> bool) {
        let start = Instant::now();
        loop {
            self.interface.unlink(&is_it);
            if !self.interface.is_live(&is_it) {
                return;
            }
            self.read();
            if start.elapsed() > FORCE {
                self.give_up("Portals 4: a cancelled operation does not end");
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

    /// Unlinks memory, waits for operations that were matched, and drops their messages.
    fn release(&mut self, token: u64) {
        self.sockets.release(token);
        self.ended.retain(|end| end.token() != token);
        for one in self.unmet.iter_mut().filter(|one| one.token == token) {
            (one.token, one.buffer) = (0, UserBuf::empty());
        }
        self.wait_while(
            |name| matches!(name, PortalsName::Receive { token: of, .. } if *of == token),
        );
        for event in &mut self.early {
            if let PortalsEvent::Ended { token: name, ending: PortalsEnding::Came(_, buffer) } =
                event
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
        let may = self.early.is_empty() && self.ended.is_empty() && self.lost.is_empty();
        self.sockets.before_sleep() && may
    }

    fn sleeps_lightly(&self) -> bool {
        true
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        // The peer's introduction comes over sockets. Portals has no event for room.
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
