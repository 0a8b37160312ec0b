//! The time of a call by a model, which walks the plans of all ranks.
//!
//! A message of `m` bytes costs the time of LogGP (Alexandrov et al., "LogGP: incorporating long
//! messages into the LogP model"), with the parameters of one of two levels, inside a node or
//! between nodes. The sender is busy for the overhead `o`. The message waits for its link out,
//! which it occupies for the larger of the gap `g` and `m G`. After the latency `L` it reaches the
//! receiver's link in, and occupies it as long. The receiver spends `o` when the message has
//! arrived and its receive is posted. If no link is occupied, this is `2 o + L + m G`. Inside a
//! node each rank has its own links out and in; between nodes all ranks of a node share one of
//! each. Copies and reductions cost a time per byte.
//!
//! A send is complete when its data have left. Dependencies and windows are those of
//! [`ir`](crate::ir). Nodes have consecutive ranks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::call::{Call, TeamMember};
use crate::ir::{Action, After, Generator, PlanStep, PlanUnit};
use crate::table::{AlgorithmId, Parameters, PlanError, make};

/// The LogGP parameters of one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogGp {
    /// `L`: from the link out to the link in.
    pub latency_ns: f64,
    /// `o`: the time of a rank for sending or receiving a message.
    pub overhead_ns: f64,
    /// `g`: the least time between two messages on a link.
    pub gap_ns: f64,
    /// `G`: the time of a byte on a link.
    pub byte_ns: f64,
}

/// A machine: nodes with equal numbers of ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// 0 counts as 1.
    pub ranks_per_node: u32,
    pub inside: LogGp,
    pub between: LogGp,
    pub copy_byte_ns: f64,
    pub reduce_byte_ns: f64,
}

/// The reason why a call has no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("rank {rank} waits for ever")]
    Deadlock { rank: u32 },
}

/// The time in nanoseconds of a call that all of `size` ranks make with the same arguments, from
/// their common start to the end of the last. `element_bytes`: the length of an element of a
/// reduction.
pub fn estimate(
    machine: &Machine,
    algorithm: AlgorithmId,
    size: u32,
    call: &Call,
    element_bytes: usize,
    parameters: &Parameters,
) -> Result<f64, CostError> {
    let plans = (0..size).map(|rank| make(algorithm, TeamMember { rank, size }, call, parameters));
    time(machine, element_bytes, plans.collect::<Result<_, _>>()?)
}

/// The time in nanoseconds of plans, one for each rank.
pub fn time<G: Generator>(
    machine: &Machine,
    element_bytes: usize,
    plans: Vec<G>,
) -> Result<f64, CostError> {
    let outline = outline(machine, element_bytes, plans, usize::MAX, f64::INFINITY)?;
    Ok(outline.map_or(f64::INFINITY, |outline| outline.time_ns))
}

/// The time of a call, and the work of all its ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outline {
    pub time_ns: f64,
    /// The time in which ranks work, summed over all ranks: overheads, bytes on links, copies and
    /// reductions.
    pub work_ns: f64,
    /// Messages that their receivers copied from the memory of the senders.
    pub fetched: u64,
    /// The most receivers that copy from the memory of one rank at the same time. They contend for
    /// one lock of the kernel.
    pub readers: usize,
}

/// [`time`] with the work of the ranks. `None`: the call takes longer than `most_ns`, where the
/// walk stops.
///
/// Inside a node, messages of at least `fetched_from` bytes are not sent: their receivers copy them
/// from the sender's memory, several at the same time if necessary. A send is complete when the
/// sender is notified of the copy.
pub fn outline<G: Generator>(
    machine: &Machine,
    element_bytes: usize,
    plans: Vec<G>,
    fetched_from: usize,
    most_ns: f64,
) -> Result<Option<Outline>, CostError> {
    let mut walk = Walk { fetched_from, ..Walk::new(machine, element_bytes, plans) };
    let most = (most_ns * PER_NS).min(Picoseconds::MAX as f64) as Picoseconds;
    let Some(time) = walk.run(most)? else { return Ok(None) };
    let (time_ns, work_ns) = (time as f64 / PER_NS, walk.work as f64 / PER_NS);
    Ok(Some(Outline {
        time_ns,
        work_ns,
        fetched: walk.fetched,
        readers: most_readers(&walk.reads),
    }))
}

/// The largest number of overlapping reads from one source. A read that begins when another ends
/// does not overlap it.
fn most_readers(reads: &[(u32, Picoseconds, Picoseconds)]) -> usize {
    let changes = |&(source, start, end): &(u32, Picoseconds, Picoseconds)| {
        [(source, start, true), (source, end, false)]
    };
    let mut changes: Vec<_> =
        reads.iter().filter(|(_, start, end)| start < end).flat_map(changes).collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0_usize, 0);
    for (_, _, begins) in changes {
        now = if begins { now + 1 } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    most
}

type Picoseconds = u64;

const PER_NS: f64 = 1000.0;

fn picoseconds(nanoseconds: f64) -> Picoseconds {
    (nanoseconds * PER_NS).round() as Picoseconds
}

struct Walk<G> {
    machine: Machine,
    element_bytes: usize,
    ranks: Vec<RankClock<G>>,
    /// The times at which links become free: those of the ranks, then those of the nodes.
    out: Vec<Picoseconds>,
    into: Vec<Picoseconds>,
    /// Messages by the time of their next event; the number makes the order deterministic.
    events: BinaryHeap<Reverse<(Picoseconds, u64, MessageEvent)>>,
    events_made: u64,
    /// For each sender and receiver: unexpected messages and posted receives. One of the lists is
    /// empty.
    channels: HashMap<(u32, u32), CostChannel>,
    /// Inside a node, messages of at least this number of bytes are copied by their receivers.
    fetched_from: usize,
    fetched: u64,
    /// Source, start and end of each copy by a receiver.
    reads: Vec<(u32, Picoseconds, Picoseconds)>,
    work: Picoseconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MessageEvent {
    from: u32,
    to: u32,
    bytes: usize,
    stage: MessageStage,
}

/// The next event of a message, with the number of its send while the send is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MessageStage {
    /// It occupies its link out.
    Leaves(u64),
    /// It occupies its link in.
    Arrives,
    /// The receiver may copy it.
    Offered(u64),
    /// The sender is notified of the copy.
    Fetched(u64),
}

#[derive(Default)]
struct CostChannel {
    /// The arrival time of each message; for a message to be copied also its bytes and the number
    /// of its send.
    here: VecDeque<(Picoseconds, Option<(usize, u64)>)>,
    posted: VecDeque<(u64, Picoseconds)>,
}

struct RankClock<G> {
    plan: G,
    next: Option<PlanStep>,
    issued: u64,
    /// The time from which the rank may continue.
    now: Picoseconds,
    /// Issued steps that may be incomplete at `now`, each with its end if it is known.
    open: Vec<(u64, Option<Picoseconds>)>,
}

impl<G: Generator> Walk<G> {
    fn new(machine: &Machine, element_bytes: usize, plans: Vec<G>) -> Self {
        let machine = Machine { ranks_per_node: machine.ranks_per_node.max(1), ..*machine };
        let size = plans.len();
        let links = size + size.div_ceil(machine.ranks_per_node as usize);
        let rank = |mut plan: G| {
            let next = plan.next();
            RankClock { plan, next, issued: 0, now: 0, open: Vec::new() }
        };
        Self {
            machine,
            element_bytes,
            ranks: plans.into_iter().map(rank).collect(),
            out: vec![0; links],
            into: vec![0; links],
            events: BinaryHeap::new(),
            events_made: 0,
            channels: HashMap::new(),
            fetched_from: usize::MAX,
            fetched: 0,
            reads: Vec::new(),
            work: 0,
        }
    }

    /// `None`: the call takes longer than `most`.
    fn run(&mut self, most: Picoseconds) -> Result<Option<Picoseconds>, CostError> {
        for rank in 0..self.ranks.len() as u32 {
            self.issue(rank);
        }
        while let Some(Reverse((time, _, message))) = self.events.pop() {
            if time > most {
                return Ok(None);
            }
            let (level, from_link, to_link) = self.route(message);
            let length = picoseconds(level.byte_ns * message.bytes as f64);
            let occupied = length.max(picoseconds(level.gap_ns));
            match message.stage {
                MessageStage::Leaves(number) => {
                    let start = time.max(self.out[from_link]);
                    let is_fetched =
                        from_link == message.from as usize && message.bytes >= self.fetched_from;
                    let stage = if is_fetched {
                        MessageStage::Offered(number)
                    } else {
                        MessageStage::Arrives
                    };
                    self.out[from_link] =
                        start + if is_fetched { picoseconds(level.gap_ns) } else { occupied };
                    self.work += length + 2 * picoseconds(level.overhead_ns);
                    self.push(
                        start + picoseconds(level.latency_ns),
                        MessageEvent { stage, ..message },
                    );
                    if !is_fetched {
                        self.ranks[message.from as usize].close(number, start + length);
                    }
                    self.issue(message.from);
                }
                MessageStage::Arrives => {
                    let start = time.max(self.into[to_link]);
                    self.into[to_link] = start + occupied;
                    self.arrive(message, (start + length, None));
                }
                MessageStage::Offered(number) => {
                    self.arrive(message, (time, Some((message.bytes, number))))
                }
                MessageStage::Fetched(number) => {
                    self.ranks[message.from as usize].close(number, time);
                    self.issue(message.from);
                }
            }
        }
        let through = |rank: &RankClock<G>| {
            rank.next.is_none() && rank.open.iter().all(|(_, end)| end.is_some())
        };
        if let Some(rank) = self.ranks.iter().position(|rank| !through(rank)) {
            return Err(CostError::Deadlock { rank: rank as u32 });
        }
        let end = |rank: &RankClock<G>| {
            rank.open.iter().filter_map(|(_, end)| *end).fold(rank.now, Picoseconds::max)
        };
        Ok(Some(self.ranks.iter().map(end).max().unwrap_or(0)).filter(|time| *time <= most))
    }

    fn route(&self, message: MessageEvent) -> (LogGp, usize, usize) {
        let node = |rank: u32| (rank / self.machine.ranks_per_node) as usize;
        let (from, to) = (node(message.from), node(message.to));
        if from == to {
            (self.machine.inside, message.from as usize, message.to as usize)
        } else {
            (self.machine.between, self.ranks.len() + from, self.ranks.len() + to)
        }
    }

    fn push(&mut self, time: Picoseconds, message: MessageEvent) {
        self.events.push(Reverse((time, self.events_made, message)));
        self.events_made += 1;
    }

    fn arrive(&mut self, message: MessageEvent, here: (Picoseconds, Option<(usize, u64)>)) {
        self.channels.entry((message.from, message.to)).or_default().here.push_back(here);
        self.meet(message.from, message.to);
        self.issue(message.to);
    }

    fn meet(&mut self, from: u32, to: u32) {
        let probe = MessageEvent { from, to, bytes: 0, stage: MessageStage::Arrives };
        let (level, _, to_link) = self.route(probe);
        let overhead = picoseconds(level.overhead_ns);
        let Some(channel) = self.channels.get_mut(&(from, to)) else { return };
        if channel.here.is_empty() || channel.posted.is_empty() {
            return;
        }
        let met = (channel.here.pop_front(), channel.posted.pop_front());
        if channel.here.is_empty() && channel.posted.is_empty() {
            self.channels.remove(&(from, to));
        }
        let (Some((here, fetched)), Some((number, posted))) = met else { return };
        let mut end = here.max(posted);
        if let Some((bytes, send)) = fetched {
            self.fetched += 1;
            let start = end.max(self.into[to_link]);
            end = start + picoseconds(level.byte_ns * bytes as f64);
            self.into[to_link] = end;
            self.reads.push((from, start, end));
            let stage = MessageStage::Fetched(send);
            self.push(end + picoseconds(level.latency_ns), MessageEvent { stage, ..probe });
        }
        self.ranks[to as usize].close(number, end + overhead);
    }

    fn issue(&mut self, rank: u32) {
        while let Some(step) = self.ranks[rank as usize].may_issue() {
            let state = &mut self.ranks[rank as usize];
            let (number, now) = (state.issued, state.now);
            let unit = if state.plan.unit() == PlanUnit::Elements { self.element_bytes } else { 1 };
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
                    let message = MessageEvent {
                        from: rank,
                        to,
                        bytes: what.len * unit,
                        stage: MessageStage::Leaves(number),
                    };
                    let overhead = picoseconds(self.route(message).0.overhead_ns);
                    self.ranks[rank as usize].now += overhead;
                    self.push(now + overhead, message);
                }
                Action::Receive { from, .. } => {
                    self.channels.entry((from, rank)).or_default().posted.push_back((number, now));
                    self.meet(from, rank);
                }
                Action::Copy { .. } | Action::Reduce { .. } => {}
            }
        }
    }
}

impl<G: Generator> RankClock<G> {
    fn close(&mut self, number: u64, end: Picoseconds) {
        if let Some(open) = self.open.iter_mut().find(|(other, _)| *other == number) {
            open.1 = Some(end);
        }
    }

    /// The end of a step; `None` if it is not known yet.
    fn end(&self, number: u64) -> Option<Picoseconds> {
        self.open.iter().find(|(other, _)| *other == number).map_or(Some(0), |(_, end)| *end)
    }

    /// The next step, if the time is known from which it may be issued; `now` becomes this time.
    fn may_issue(&mut self) -> Option<PlanStep> {
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
            // The first known end of a step makes room in the window.
            self.now = self.open.iter().filter_map(|(_, end)| *end).min()?;
        }
    }
}
