//! What a call takes, by a model: a pure function that walks the plans of all ranks.
//!
//! A message of `m` bytes costs what LogGP says (Alexandrov et al., "LogGP: incorporating long messages into the LogP
//! model"), with parameters of one of two levels, inside a node or between nodes: the sender is busy for the overhead
//! `o`; then the message waits for its way out, on which a message occupies the greater of the gap `g` and `m G`; it
//! reaches the receiver's way in after the latency `L`, occupies that as long, and costs the receiver `o` when it is
//! there and asked for: `2 o + L + m G` in all if no way is taken. Inside a node each rank has a way out and a way in of
//! its own, between nodes all ranks of a node share one of each. Copies and reductions cost a time per byte.
//!
//! Sends are complete when the data are on their way, as those of short messages are. Dependencies and windows hold as
//! in [`ir`](crate::ir). Ranks are dealt to nodes in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::call::{Call, Member};
use crate::ir::{Action, After, Generator, Step, Unit};
use crate::table::{AlgorithmId, Parameters, PlanError, make};

/// The LogGP parameters of one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogGp {
    /// `L`: from the way out to the way in, in nanoseconds.
    pub latency_ns: f64,
    /// `o`: what sending or receiving a message costs a rank, in nanoseconds.
    pub overhead_ns: f64,
    /// `g`: the least time between two messages on a way, in nanoseconds.
    pub gap_ns: f64,
    /// `G`: the time of a byte on a way, in nanoseconds.
    pub byte_ns: f64,
}

/// A machine: nodes of equally many ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// How many ranks are on a node; 0 counts as 1.
    pub ranks_per_node: u32,
    /// Between ranks of one node.
    pub inside: LogGp,
    /// Between nodes.
    pub between: LogGp,
    /// What copying a byte costs, in nanoseconds.
    pub copy_byte_ns: f64,
    /// What combining two bytes costs, in nanoseconds.
    pub reduce_byte_ns: f64,
}

/// Why there is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// There is no such plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plans of the ranks do not fit together.
    #[error("rank {rank} waits for ever")]
    Deadlock {
        /// The first rank that is not through.
        rank: u32,
    },
}

/// The time in nanoseconds of a call that all of `size` ranks make alike, from the start of all to the end of the last.
/// `element_bytes` is the length of an element of a reduction; other collectives count bytes.
///
/// # Errors
/// If the algorithm cannot serve the call.
pub fn estimate(
    machine: &Machine,
    algorithm: AlgorithmId,
    size: u32,
    call: &Call,
    element_bytes: usize,
    parameters: &Parameters,
) -> Result<f64, CostError> {
    let plans = (0..size).map(|rank| make(algorithm, Member { rank, size }, call, parameters));
    time(machine, element_bytes, plans.collect::<Result<_, _>>()?)
}

/// The time in nanoseconds of plans, one for each rank.
///
/// # Errors
/// If the plans do not fit together.
pub fn time<G: Generator>(machine: &Machine, element_bytes: usize, plans: Vec<G>) -> Result<f64, CostError> {
    let outline = outline(machine, element_bytes, plans, usize::MAX, f64::INFINITY)?;
    Ok(outline.map_or(f64::INFINITY, |outline| outline.time_ns))
}

/// What a call takes, and what all ranks together do for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outline {
    /// From the start of all to the end of the last, in nanoseconds.
    pub time_ns: f64,
    /// How long ranks are at work rather than waiting, in nanoseconds, all together: overheads, bytes on their way,
    /// copies and reductions.
    pub work_ns: f64,
    /// How many messages were fetched by their receivers.
    pub fetched: u64,
    /// The most receivers that fetch from the memory of one rank at the same time: there they meet on one lock of the kernel.
    pub readers: usize,
}

/// As [`time`], with the work that is done. `None`: the call takes longer than `most_ns`, which is found out sooner than
/// how long it takes.
///
/// Messages inside a node of at least `fetched_from` bytes are not sent: their receivers copy them from the senders' memory,
/// several at the same time if need be, and the send is complete when its sender has heard of that.
///
/// # Errors
/// If the plans do not fit together.
pub fn outline<G: Generator>(
    machine: &Machine,
    element_bytes: usize,
    plans: Vec<G>,
    fetched_from: usize,
    most_ns: f64,
) -> Result<Option<Outline>, CostError> {
    let mut walk = Walk { fetched_from, ..Walk::new(machine, element_bytes, plans) };
    let most = (most_ns * PER_NS).min(Time::MAX as f64) as Time;
    let Some(time) = walk.run(most)? else { return Ok(None) };
    let (time_ns, work_ns) = (time as f64 / PER_NS, walk.work as f64 / PER_NS);
    Ok(Some(Outline { time_ns, work_ns, fetched: walk.fetched, readers: most_readers(&walk.reads) }))
}

/// How many of these reads of one source overlap at most. One that begins when another one ends comes after it.
fn most_readers(reads: &[(u32, Time, Time)]) -> usize {
    let changes = |&(source, start, end): &(u32, Time, Time)| [(source, start, true), (source, end, false)];
    let mut changes: Vec<_> = reads.iter().filter(|(_, start, end)| start < end).flat_map(changes).collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0_usize, 0);
    for (_, _, begins) in changes {
        now = if begins { now + 1 } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    most
}

/// A time in picoseconds.
type Time = u64;

const PER_NS: f64 = 1000.0;

fn picoseconds(nanoseconds: f64) -> Time {
    (nanoseconds * PER_NS).round() as Time
}

/// All ranks, and what is under way.
struct Walk<G> {
    machine: Machine,
    element_bytes: usize,
    ranks: Vec<Rank<G>>,
    /// When the ways out and in are free: those of the ranks, then those of the nodes.
    out: Vec<Time>,
    into: Vec<Time>,
    /// Messages by the time of what happens to them next; the number makes the order the same each time.
    events: BinaryHeap<Reverse<(Time, u64, Message)>>,
    events_made: u64,
    /// From one rank to another: what has come and what is awaited, of which one is empty.
    channels: HashMap<(u32, u32), Channel>,
    /// From how many bytes on messages inside a node are fetched by their receivers.
    fetched_from: usize,
    fetched: u64,
    /// From whose memory each of those was fetched, from when to when.
    reads: Vec<(u32, Time, Time)>,
    /// What all ranks have done so far.
    work: Time,
}

/// A message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    from: u32,
    to: u32,
    bytes: usize,
    stage: Stage,
}

/// What happens to a message next; with the number of the send, as long as that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It takes its way out.
    Leaves(u64),
    /// It takes its way in.
    Arrives,
    /// The receiver hears of it, and may fetch it.
    Offered(u64),
    /// The sender hears that it was fetched.
    Fetched(u64),
}

#[derive(Default)]
struct Channel {
    /// When each message was there; of one that is to be fetched the bytes and the number of its send.
    here: VecDeque<(Time, Option<(usize, u64)>)>,
    /// The receives, and when each was issued.
    asked: VecDeque<(u64, Time)>,
}

struct Rank<G> {
    plan: G,
    next: Option<Step>,
    issued: u64,
    /// When the rank may go on.
    now: Time,
    /// Issued and not known to be over by `now`; with the time of their end, if that is known.
    open: Vec<(u64, Option<Time>)>,
}

impl<G: Generator> Walk<G> {
    fn new(machine: &Machine, element_bytes: usize, plans: Vec<G>) -> Self {
        let machine = Machine { ranks_per_node: machine.ranks_per_node.max(1), ..*machine };
        let size = plans.len();
        let ways = size + size.div_ceil(machine.ranks_per_node as usize);
        let rank = |mut plan: G| {
            let next = plan.next();
            Rank { plan, next, issued: 0, now: 0, open: Vec::new() }
        };
        Self {
            machine,
            element_bytes,
            ranks: plans.into_iter().map(rank).collect(),
            out: vec![0; ways],
            into: vec![0; ways],
            events: BinaryHeap::new(),
            events_made: 0,
            channels: HashMap::new(),
            fetched_from: usize::MAX,
            fetched: 0,
            reads: Vec::new(),
            work: 0,
        }
    }

    /// `None`: it takes longer than `most`.
    fn run(&mut self, most: Time) -> Result<Option<Time>, CostError> {
        for rank in 0..self.ranks.len() as u32 {
            self.issue(rank);
        }
        while let Some(Reverse((time, _, message))) = self.events.pop() {
            if time > most {
                return Ok(None);
            }
            let (level, from_way, to_way) = self.route(message);
            let length = picoseconds(level.byte_ns * message.bytes as f64);
            let occupied = length.max(picoseconds(level.gap_ns));
            match message.stage {
                Stage::Leaves(number) => {
                    let start = time.max(self.out[from_way]);
                    let is_fetched = from_way == message.from as usize && message.bytes >= self.fetched_from;
                    let stage = if is_fetched { Stage::Offered(number) } else { Stage::Arrives };
                    self.out[from_way] =
                        start + if is_fetched { picoseconds(level.gap_ns) } else { occupied };
                    self.work += length + 2 * picoseconds(level.overhead_ns);
                    self.push(start + picoseconds(level.latency_ns), Message { stage, ..message });
                    if !is_fetched {
                        self.ranks[message.from as usize].close(number, start + length);
                    }
                    self.issue(message.from);
                }
                Stage::Arrives => {
                    let start = time.max(self.into[to_way]);
                    self.into[to_way] = start + occupied;
                    self.arrive(message, (start + length, None));
                }
                Stage::Offered(number) => self.arrive(message, (time, Some((message.bytes, number)))),
                Stage::Fetched(number) => {
                    self.ranks[message.from as usize].close(number, time);
                    self.issue(message.from);
                }
            }
        }
        let through = |rank: &Rank<G>| rank.next.is_none() && rank.open.iter().all(|(_, end)| end.is_some());
        if let Some(rank) = self.ranks.iter().position(|rank| !through(rank)) {
            return Err(CostError::Deadlock { rank: rank as u32 });
        }
        let end = |rank: &Rank<G>| rank.open.iter().filter_map(|(_, end)| *end).fold(rank.now, Time::max);
        Ok(Some(self.ranks.iter().map(end).max().unwrap_or(0)).filter(|time| *time <= most))
    }

    /// The level of a message, and its ways out and in.
    fn route(&self, message: Message) -> (LogGp, usize, usize) {
        let node = |rank: u32| (rank / self.machine.ranks_per_node) as usize;
        let (from, to) = (node(message.from), node(message.to));
        if from == to {
            (self.machine.inside, message.from as usize, message.to as usize)
        } else {
            (self.machine.between, self.ranks.len() + from, self.ranks.len() + to)
        }
    }

    fn push(&mut self, time: Time, message: Message) {
        self.events.push(Reverse((time, self.events_made, message)));
        self.events_made += 1;
    }

    fn arrive(&mut self, message: Message, here: (Time, Option<(usize, u64)>)) {
        self.channels.entry((message.from, message.to)).or_default().here.push_back(here);
        self.meet(message.from, message.to);
        self.issue(message.to);
    }

    /// The first message from one rank to another meets the first receive.
    fn meet(&mut self, from: u32, to: u32) {
        let probe = Message { from, to, bytes: 0, stage: Stage::Arrives };
        let (level, _, to_way) = self.route(probe);
        let overhead = picoseconds(level.overhead_ns);
        let Some(channel) = self.channels.get_mut(&(from, to)) else { return };
        if channel.here.is_empty() || channel.asked.is_empty() {
            return;
        }
        let met = (channel.here.pop_front(), channel.asked.pop_front());
        if channel.here.is_empty() && channel.asked.is_empty() {
            self.channels.remove(&(from, to));
        }
        let (Some((here, fetched)), Some((number, asked))) = met else { return };
        let mut end = here.max(asked);
        if let Some((bytes, send)) = fetched {
            self.fetched += 1;
            let start = end.max(self.into[to_way]);
            end = start + picoseconds(level.byte_ns * bytes as f64);
            self.into[to_way] = end;
            self.reads.push((from, start, end));
            let stage = Stage::Fetched(send);
            self.push(end + picoseconds(level.latency_ns), Message { stage, ..probe });
        }
        self.ranks[to as usize].close(number, end + overhead);
    }

    /// Issues all steps that a rank can.
    fn issue(&mut self, rank: u32) {
        while let Some(step) = self.ranks[rank as usize].may_issue() {
            let state = &mut self.ranks[rank as usize];
            let (number, now) = (state.issued, state.now);
            let unit = if state.plan.unit() == Unit::Elements { self.element_bytes } else { 1 };
            let work = &mut self.work;
            let mut local = |cost_ns: f64, len: usize| {
                let cost = picoseconds(cost_ns * (len * unit) as f64);
                state.now += cost;
                *work += cost;
                state.now
            };
            let end = match step.action {
                Action::Copy { from, .. } => Some(local(self.machine.copy_byte_ns, from.len)),
                Action::Reduce { left, .. } => Some(local(self.machine.reduce_byte_ns, left.len)),
                Action::Send { .. } | Action::Receive { .. } => None,
            };
            state.open.push((number, end));
            state.issued += 1;
            state.next = state.plan.next();
            match step.action {
                Action::Send { to, what } => {
                    let message =
                        Message { from: rank, to, bytes: what.len * unit, stage: Stage::Leaves(number) };
                    let overhead = picoseconds(self.route(message).0.overhead_ns);
                    self.ranks[rank as usize].now += overhead;
                    self.push(now + overhead, message);
                }
                Action::Receive { from, .. } => {
                    self.channels.entry((from, rank)).or_default().asked.push_back((number, now));
                    self.meet(from, rank);
                }
                Action::Copy { .. } | Action::Reduce { .. } => {}
            }
        }
    }
}

impl<G: Generator> Rank<G> {
    fn close(&mut self, number: u64, end: Time) {
        if let Some(open) = self.open.iter_mut().find(|(other, _)| *other == number) {
            open.1 = Some(end);
        }
    }

    /// The end of a step; none if it is not known.
    fn end(&self, number: u64) -> Option<Time> {
        self.open.iter().find(|(other, _)| *other == number).map_or(Some(0), |(_, end)| *end)
    }

    /// The next step, when it is known that it may be issued, which `now` then is.
    fn may_issue(&mut self) -> Option<Step> {
        let step = self.next?;
        let back = |distance: u32| self.end(self.issued.saturating_sub(u64::from(distance)));
        let due = match step.after {
            After::None => 0,
            After::All => self.open.iter().try_fold(0, |due, (_, end)| Some(due.max((*end)?)))?,
            After::One(one) => back(one)?,
            After::Two(one, other) => back(one)?.max(back(other)?),
        };
        self.now = self.now.max(due);
        loop {
            let now = self.now;
            self.open.retain(|(_, end)| end.is_none_or(|end| end > now));
            if self.open.len() < self.plan.window() {
                return Some(step);
            }
            // Whichever is known to end first makes room.
            self.now = self.open.iter().filter_map(|(_, end)| *end).min()?;
        }
    }
}
