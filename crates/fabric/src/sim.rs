//! A virtual network with a virtual clock: thousands of processes in one thread, and a seed that
//! replays a failure.
//!
//! All processes of a world share one [`Network`]. A sent frame becomes an event at a later virtual
//! time. Several paths lead to each peer: frames on one path stay in order, frames on different
//! paths can overtake each other. The network sometimes refuses messages (a full ring), takes some
//! messages before they leave, and delivers long bodies in parts over several polls. It can kill a
//! process at a given time, which it reports to the others. Between nodes it may match messages
//! ([`LinkFaults::matched_beyond`]).
//!
//! The driver polls processes in any order, and calls [`Network::advance`] when none can continue.
//! All randomness comes from the seed. Worlds that differ in anything differ in their
//! [`Network::trace`].

mod link_faults;
mod matching;

pub use link_faults::{LinkFaults, Random};

use crate::{
    Announcements, Fabric, FrameSink, MatchingTransport, Membership, OneSided, OutgoingMessage,
    Sections, Sent, SentNow, Statistics, Unreachable, dispatch,
};
use link_faults::mix;
use matching::{Queues, Tagged};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, Context, Envelope, Frame, MAX_FRAME_LEN};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;

#[derive(Debug)]
enum Event {
    Arrive {
        to: u32,
        from: u32,
        bytes: Vec<u8>,
        number: Option<u64>,
    },
    /// The rest of a body whose first `at` bytes have been handed up.
    Rest {
        from: u32,
        body: Vec<u8>,
        at: usize,
    },
    Gone {
        at: u32,
        token: u64,
    },
    Tagged {
        to: u32,
        message: Tagged,
    },
    Received {
        at: u32,
        token: u64,
        from: u32,
        tag: i32,
        length: u64,
    },
    NotReceived {
        at: u32,
        token: u64,
    },
    CancelTagged {
        at: u32,
        token: u64,
    },
    Death {
        process: u32,
    },
    Lost {
        at: u32,
        process: u32,
    },
    /// A message came to process `process`, which had left.
    Left {
        at: u32,
        process: u32,
    },
    Wake {
        at: u32,
    },
}

impl Event {
    fn source(&self) -> Option<u32> {
        match self {
            Event::Arrive { from, .. } | Event::Rest { from, .. } => Some(*from),
            Event::Lost { process, .. } | Event::Left { process, .. } => Some(*process),
            Event::Gone { .. }
            | Event::Tagged { .. }
            | Event::Received { .. }
            | Event::NotReceived { .. }
            | Event::CancelTagged { .. }
            | Event::Death { .. }
            | Event::Wake { .. } => None,
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum ProcessState {
    #[default]
    Alive,
    Left,
    Dead,
}

#[derive(Debug, Default)]
struct Port {
    came: VecDeque<Event>,
    life: ProcessState,
    /// The arrival time of the last frame that the process has sent.
    quiet_ns: u64,
    queues: Queues,
}

/// The most frames between the oldest that has not arrived and the newest (promise 1).
const UNDER_WAY: usize = 100;

#[derive(Debug, Default)]
struct SimLink {
    last_on_path: Vec<u64>,
    last_tagged: u64,
    /// The number of the oldest matched frame that has not arrived; `arrived` begins with it.
    oldest: u64,
    arrived: VecDeque<bool>,
}

impl SimLink {
    fn arrive(&mut self, number: u64) {
        if let Some(at) = self.arrived.get_mut((number - self.oldest) as usize) {
            *at = true;
        }
        while self.arrived.front() == Some(&true) {
            self.arrived.pop_front();
            self.oldest += 1;
        }
    }
}

/// The virtual network of one world.
#[derive(Debug)]
pub struct Network {
    faults: LinkFaults,
    random: Random,
    now_ns: u64,
    /// By time; of two events at one time the older comes first.
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    ports: Vec<Port>,
    links: HashMap<(u32, u32), SimLink>,
    frames: u64,
    undecodable: u64,
    trace: u64,
}

impl Network {
    /// A network of `processes` processes.
    pub fn new(processes: u32, seed: u64, faults: LinkFaults) -> Rc<RefCell<Network>> {
        Rc::new(RefCell::new(Network {
            faults,
            random: Random::new(seed),
            now_ns: 0,
            events: BTreeMap::new(),
            next_event: 0,
            ports: (0..processes).map(|_| Port::default()).collect(),
            links: HashMap::new(),
            frames: 0,
            undecodable: 0,
            trace: seed,
        }))
    }

    /// The virtual time in nanoseconds since the world began.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The number of frames sent.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The number of frames that arrived and were dropped because they could not be decoded.
    pub fn undecodable(&self) -> u64 {
        self.undecodable
    }

    /// A hash of all times, receivers and bytes so far.
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// A random number below `n`, from the world's seed.
    pub fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    /// Changes the simulated faults from now on.
    pub fn set_faults(&mut self, faults: LinkFaults) {
        self.faults = faults;
    }

    /// Kills a process `after_ns` from now, unless it has left by then. Its sent messages still
    /// arrive.
    pub fn kill_after(&mut self, process: u32, after_ns: u64) {
        self.at(self.now_ns + after_ns, Event::Death { process });
    }

    /// Kills a process now.
    pub fn kill(&mut self, process: u32) {
        self.die(process);
    }

    /// A process leaves in good order: no frame reaches it any more, and senders get a notice.
    pub fn leave(&mut self, process: u32) {
        let port = &mut self.ports[process as usize];
        let came = std::mem::take(&mut port.came);
        if port.life == ProcessState::Alive {
            port.life = ProcessState::Left;
            came.iter().for_each(|event| self.turn_away(process, event));
        }
    }

    fn turn_away(&mut self, process: u32, event: &Event) {
        if let Event::Arrive { from, .. } = event {
            self.tell_left(*from, process);
        }
    }

    /// Notifies process `at` that `process` has left, after all frames of `process`.
    fn tell_left(&mut self, at: u32, process: u32) {
        let when = self.ports[process as usize].quiet_ns.max(self.now_ns) + 1;
        self.at(when, Event::Left { at, process });
    }

    /// Whether a process was killed.
    pub fn is_dead(&self, process: u32) -> bool {
        self.ports.get(process as usize).is_some_and(|p| p.life == ProcessState::Dead)
    }

    /// Makes [`Network::advance`] return a process `after_ns` from now.
    pub fn wake_after(&mut self, process: u32, after_ns: u64) {
        self.at(self.now_ns + after_ns, Event::Wake { at: process });
    }

    /// Lets any bytes arrive at a process now, such as those of a faulty peer.
    pub fn forge(&mut self, from: u32, to: u32, bytes: Vec<u8>) {
        self.at(self.now_ns, Event::Arrive { to, from, bytes, number: None });
    }

    /// Advances to the next event. Returns its process, if it has one; the outer `None`: no event
    /// is left.
    pub fn advance(&mut self) -> Option<Option<u32>> {
        let ((time_ns, _), event) = self.events.pop_first()?;
        self.now_ns = time_ns;
        self.note(time_ns);
        let event = match event {
            Event::Tagged { to, message } => {
                self.note(u64::from(to));
                return Some(self.take_in_tagged(to, message).then_some(to));
            }
            Event::CancelTagged { at, token } => {
                self.note(token);
                self.cancel_tagged(at, token);
                return Some(None);
            }
            other => other,
        };
        let at = match &event {
            Event::Arrive { to, from, bytes, number } => {
                if let Some(number) = *number
                    && let Some(link) = self.links.get_mut(&(*from, *to))
                {
                    link.arrive(number);
                }
                let sum = bytes
                    .iter()
                    .fold(0, |sum: u64, byte| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte));
                let to = *to;
                self.note(sum);
                to
            }
            Event::Gone { at, .. }
            | Event::Received { at, .. }
            | Event::NotReceived { at, .. }
            | Event::Lost { at, .. }
            | Event::Left { at, .. }
            | Event::Wake { at } => *at,
            Event::Death { process } => {
                let process = *process;
                self.note(u64::from(process));
                if self.ports[process as usize].life == ProcessState::Left {
                    return Some(None);
                }
                self.die(process);
                return Some(Some(process));
            }
            Event::Rest { .. } | Event::Tagged { .. } | Event::CancelTagged { .. } => {
                return Some(None);
            }
        };
        self.note(u64::from(at));
        let port = &mut self.ports[at as usize];
        match port.life {
            ProcessState::Alive => port.came.push_back(event),
            ProcessState::Left => {
                self.turn_away(at, &event);
                return Some(None);
            }
            ProcessState::Dead => return Some(None),
        }
        Some(Some(at))
    }

    fn note(&mut self, what: u64) {
        self.trace = mix(self.trace.wrapping_add(what).wrapping_add(0x9e37_79b9_7f4a_7c15));
    }

    fn die(&mut self, process: u32) {
        let port = &mut self.ports[process as usize];
        if std::mem::replace(&mut port.life, ProcessState::Dead) == ProcessState::Dead {
            return;
        }
        port.came.clear();
        self.drop_tagged(process);
        let port = &self.ports[process as usize];
        // The others get the notice after everything that the dead process had sent.
        let quiet = port.quiet_ns.max(self.now_ns);
        for at in (0..self.ports.len() as u32).filter(|at| *at != process) {
            let when = quiet + 1 + self.random.below(self.faults.detection_ns);
            self.at(when, Event::Lost { at, process });
        }
    }

    fn at(&mut self, time_ns: u64, event: Event) {
        let number = self.next_event;
        self.next_event += 1;
        self.events.insert((time_ns, number), event);
    }

    fn has_room(&mut self, from: u32, to: u32, matches: bool) -> bool {
        let link = self.links.entry((from, to)).or_default();
        let full = (matches && link.arrived.len() >= UNDER_WAY)
            || self.random.of_256(self.faults.full_of_256);
        if full {
            // The sender will try again, for which an event must come.
            let soon = 1 + self.random.below(self.faults.max_delay_ns);
            self.wake_after(from, soon);
        }
        !full
    }

    /// Sends a frame, for which `body` writes its body. Returns the arrival time.
    fn put(
        &mut self,
        from: u32,
        to: u32,
        sequence: Option<u8>,
        frame: Frame,
        len: usize,
        body: impl FnOnce(BytesMut<'_>),
    ) -> u64 {
        self.frames += 1;
        let link = self.links.entry((from, to)).or_default();
        let mut number = None;
        if frame.matches() {
            number = Some(link.oldest + link.arrived.len() as u64);
            link.arrived.push_back(false);
        }
        let sequence = sequence.unwrap_or(number.unwrap_or(0) as u8);
        // An address has no meaning here, and differs from run to run.
        let frame = match frame {
            Frame::Rendezvous { envelope, announced } => {
                Frame::Rendezvous { envelope, announced: Announced { address: 0, ..announced } }
            }
            other => other,
        };
        let mut head = [0; MAX_FRAME_LEN];
        let head_len = frame.encode(sequence, from, &mut head);
        let mut bytes = vec![0; head_len + len];
        bytes[..head_len].copy_from_slice(&head[..head_len]);
        body(BytesMut::from(&mut bytes[head_len..]));

        let paths = self.faults.paths.max(1);
        let path = self.random.below(u64::from(paths)) as usize;
        let spread = self.faults.max_delay_ns.saturating_sub(self.faults.min_delay_ns);
        let mut when = self.now_ns + self.faults.min_delay_ns + self.random.below(spread + 1);
        if link.last_on_path.len() <= path {
            link.last_on_path.resize(path + 1, 0);
        }
        let last = &mut link.last_on_path[path];
        when = when.max(*last + 1);
        *last = when;
        let port = &mut self.ports[from as usize];
        port.quiet_ns = port.quiet_ns.max(when);
        self.at(when, Event::Arrive { to, from, bytes, number });
        when
    }

    fn send(&mut self, from: u32, to: u32, message: &OutgoingMessage<'_>) -> Sent {
        if !self.has_room(from, to, message.frame.matches()) {
            return Sent::Full;
        }
        let fill = |to: BytesMut<'_>| message.body.fill(0, to);
        let when =
            self.put(from, to, Some(message.sequence), message.frame, message.body.len(), fill);
        if self.random.of_256(self.faults.later_of_256) {
            // The answer of the receiver may come before this.
            let gone = when + self.random.below(4 * self.faults.max_delay_ns);
            self.at(gone, Event::Gone { at: from, token: message.token });
            return Sent::Later;
        }
        Sent::Done
    }
}

/// The access of one process to the virtual network.
#[derive(Debug)]
pub struct Sim {
    me: u32,
    network: Rc<RefCell<Network>>,
    left: HashSet<u32>,
}

impl Sim {
    /// The access of process `me`.
    pub fn new(me: u32, network: Rc<RefCell<Network>>) -> Sim {
        Sim { me, network, left: HashSet::new() }
    }

    /// Delivers the bytes of a body from `at` on. Returns the rest that waits for another poll.
    fn hand_up<S: FrameSink>(
        &self,
        from: u32,
        body: Vec<u8>,
        mut at: usize,
        sink: &mut S,
    ) -> Option<Event> {
        while at < body.len() {
            let mut network = self.network.borrow_mut();
            let pause = network.faults.pause_of_256;
            if network.random.of_256(pause) {
                return Some(Event::Rest { from, body, at });
            }
            drop(network);
            let end = at + (body.len() - at).div_ceil(2);
            sink.more(from, at, Bytes::from(&body[at..end]));
            at = end;
        }
        None
    }
}

impl Announcements for Sim {}
impl OneSided for Sim {}
impl Sections for Sim {}
impl Statistics for Sim {}

impl Membership for Sim {
    fn has_left(&mut self, peer: u32) -> bool {
        self.left.contains(&peer)
    }
}

impl Fabric for Sim {
    fn eager_limit(&mut self, _to: u32) -> usize {
        self.network.borrow().faults.eager_limit
    }

    fn announced_limit(&mut self, _to: u32) -> usize {
        self.network.borrow().faults.announced_limit
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        self.eager_limit(to) / 2 + 17
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        let mut network = self.network.borrow_mut();
        if network.ports.len() <= to as usize {
            return Err(Unreachable {
                peer: to,
                why: "there is no such process in the world".into(),
            });
        }
        Ok(network.send(self.me, to, message))
    }

    fn is_matched(&mut self, peer: u32) -> bool {
        self.is_beyond(peer)
    }

    fn matching(&mut self) -> Option<&mut dyn MatchingTransport> {
        self.network.borrow().faults.matched_beyond?;
        Some(self)
    }

    fn release(&mut self, token: u64) {
        self.network.borrow_mut().unpost_tagged(self.me, token);
    }

    fn send_short_now(&mut self, to: u32, context: u32, tag: i32, bytes: Bytes<'_>) -> SentNow {
        if self.is_beyond(to) || context == u32::MAX {
            return SentNow::No;
        }
        let mut network = self.network.borrow_mut();
        let allowed = network.faults.now_of_256;
        if bytes.len() > network.faults.eager_limit
            || !network.random.of_256(allowed)
            || !network.has_room(self.me, to, true)
        {
            return SentNow::No;
        }
        let envelope = Envelope { context: Context::Local(context), tag };
        network
            .put(self.me, to, None, Frame::Eager { envelope }, bytes.len(), |to| bytes.copy_to(to));
        SentNow::Done
    }

    fn poll<S: FrameSink>(&mut self, sink: &mut S) -> bool {
        let came = std::mem::take(&mut self.network.borrow_mut().ports[self.me as usize].came);
        let any = !came.is_empty();
        let mut held = VecDeque::new();
        let mut cut: Vec<u32> = Vec::new();
        for event in came {
            let source = event.source();
            if source.is_some_and(|source| cut.contains(&source)) {
                held.push_back(event);
                continue;
            }
            let rest = match event {
                Event::Arrive { from, mut bytes, .. } => {
                    let Ok(got) = Frame::decode(&bytes) else {
                        self.network.borrow_mut().undecodable += 1;
                        continue;
                    };
                    let body = bytes.split_off(got.body_at);
                    // A long body comes in parts, as from a ring; the body of an announced message
                    // does not.
                    let is_announced = matches!(got.frame, Frame::Rendezvous { .. });
                    let first =
                        if body.len() > 64 && !is_announced { body.len() / 3 } else { body.len() };
                    dispatch(from, &got, body.len(), Bytes::from(&body[..first]), sink);
                    self.hand_up(from, body, first, sink)
                }
                Event::Rest { from, body, at } => self.hand_up(from, body, at, sink),
                Event::Gone { token, .. } => {
                    sink.sent(token);
                    None
                }
                Event::Lost { process, .. } => {
                    sink.lost(process);
                    None
                }
                Event::Left { process, .. } => {
                    self.left.insert(process);
                    sink.left(process);
                    None
                }
                Event::Received { token, from, tag, length, .. } => {
                    sink.received(token, from, tag, length);
                    None
                }
                Event::NotReceived { token, .. } => {
                    sink.not_received(token);
                    None
                }
                Event::Tagged { .. }
                | Event::CancelTagged { .. }
                | Event::Death { .. }
                | Event::Wake { .. } => None,
            };
            if let Some(rest) = rest {
                cut.extend(rest.source());
                held.push_back(rest);
            }
        }
        if !held.is_empty() {
            let mut network = self.network.borrow_mut();
            network.ports[self.me as usize].came = held;
            let soon = 1 + network.below(1000);
            network.wake_after(self.me, soon);
        }
        any
    }
}
