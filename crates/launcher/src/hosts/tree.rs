//! The tree of agents: pure decisions, without system calls.
//!
//! The head starts the agents of at most `fan_out` hosts, each of these the agents of as many more,
//! and so on ([`divide`]). Below the head each agent is a [`Junction`]:
//!
//! 1. It forwards a message from above to the children whose branches have receivers.
//! 2. If the receivers must answer (a [`BranchRound`]), it sends one report upward, when all these
//!    children and the agent itself have answered. So an agent, and the head, get one answer from
//!    each child.
//! 3. It collects the ends of processes, and sends them together ([`Junction::take_events`]).
//! 4. When a child is lost, all agents of its branch are: no round waits for them, and one message
//!    upward names them.
//! 5. In a job that survives failures only the child itself is lost: the agents below it connect
//!    with this one ([`Stranded`]). Both sides keep messages ([`Kept`]) until the other side has
//!    them, and send them again then, so that none is lost and none is handled twice.
//! 6. A question about states must not wait for an agent that hangs: after a time its branch counts
//!    as silent ([`Junction::give_up`]). An agent with more levels below it waits longer, so that
//!    the answer of its healthy children is there in time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use oxmpi_rt_proto::agent::{BranchReport, BranchRound, ProcessEvent, Receivers, Seen};

/// The wait for states is shorter than this for any number of levels. The head waits longer.
const STATES: Duration = Duration::from_millis(1800);

/// Divides hosts among at most `fan_out` children, as equally as possible. The first host of each
/// part is the child, and the others are below it.
pub(crate) fn divide<T>(hosts: Vec<T>, fan_out: usize) -> Vec<Vec<T>> {
    let (count, parts) = (hosts.len(), fan_out.clamp(1, hosts.len().max(1)));
    let mut hosts = hosts.into_iter();
    let size = |part| (part + 1) * count / parts - part * count / parts;
    (0..parts).map(|part| hosts.by_ref().take(size(part)).collect()).collect()
}

/// The number of levels of a tree with this many agents below its root.
fn levels(agents: usize, fan_out: usize) -> u32 {
    let part = agents.div_ceil(fan_out.max(1));
    match agents {
        0 => 0,
        _ if fan_out <= 1 => agents as u32,
        _ => 1 + levels(part - 1, fan_out),
    }
}

/// Numbered messages that are kept until their receivers have them.
#[derive(Debug)]
pub(crate) struct Kept<T>(VecDeque<(u64, T)>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(VecDeque::new())
    }
}

impl<T> Kept<T> {
    /// Keeps a message. Numbers ascend.
    pub(crate) fn keep(&mut self, number: u64, message: T) {
        self.0.push_back((number, message));
    }

    /// The receivers have all messages up to this number.
    pub(crate) fn note_received(&mut self, number: u64) {
        let got = self.0.partition_point(|(of, _)| *of <= number);
        self.0.drain(..got);
    }

    /// The messages behind this number.
    pub(crate) fn after(&self, number: u64) -> impl Iterator<Item = &(u64, T)> {
        self.0.iter().filter(move |(of, _)| *of > number)
    }

    /// The number of the first message that receivers may not have.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.front().map(|(number, _)| *number)
    }
}

/// The agents below a lost one, which will connect with its parent.
#[derive(Debug)]
pub(crate) struct Stranded {
    /// The hosts, with their names.
    pub(crate) hosts: Vec<(u32, String)>,
    pub(crate) kept: Kept<Vec<u8>>,
    /// When the hosts count as lost.
    pub(crate) until: Instant,
}

impl Stranded {
    /// Whether a message has receivers among them.
    pub(crate) fn are_for(&self, to: &Receivers) -> bool {
        self.hosts.iter().any(|(node, _)| to.has(*node))
    }

    /// Takes the hosts of a branch out, if all of them are here.
    pub(crate) fn take(&mut self, branch: &[u32]) -> Option<Vec<(u32, String)>> {
        let name = |node: &u32| self.hosts.iter().find(|(of, _)| of == node).cloned();
        let taken: Vec<(u32, String)> = branch.iter().map(name).collect::<Option<_>>()?;
        self.hosts.retain(|(node, _)| !branch.contains(node));
        Some(taken).filter(|taken| !taken.is_empty())
    }
}

/// An agent's part in the tree.
#[derive(Debug, Default)]
pub(crate) struct Junction {
    node: u32,
    /// The hosts of each child's branch, the child's own first; empty: the branch is lost.
    children: Vec<Vec<u32>>,
    levels: u32,
    gathers: BTreeMap<BranchRound, Gather>,
    events: Vec<ProcessEvent>,
    /// The processes of the branch that run.
    running: usize,
    /// States of answers that came after their round: their agents do not send them again.
    late: Vec<(u32, Seen)>,
}

#[derive(Debug)]
struct Gather {
    /// The children without an answer.
    awaited: BTreeSet<usize>,
    awaits_own: bool,
    until: Option<Instant>,
    report: BranchReport,
}

/// The answers that are complete.
pub(crate) type Complete = Vec<(BranchRound, BranchReport)>;

impl Junction {
    /// The agent of host `node`, whose children have these branches.
    pub(crate) fn new(node: u32, children: Vec<Vec<u32>>, fan_out: usize) -> Junction {
        let levels = levels(children.iter().map(Vec::len).sum(), fan_out);
        Junction { node, children, levels, ..Junction::default() }
    }

    /// The children whose branches have receivers.
    pub(crate) fn children_for(&self, to: &Receivers) -> Vec<usize> {
        let leads = |hosts: &Vec<u32>| hosts.iter().any(|node| to.has(*node));
        let all = self.children.iter().enumerate();
        all.filter(|(_, hosts)| leads(hosts)).map(|(at, _)| at).collect()
    }

    /// Begins to collect the answers of a round, which this agent forwards to these children.
    pub(crate) fn begin(
        &mut self,
        round: BranchRound,
        to: &Receivers,
        children: &[usize],
        now: Instant,
    ) {
        let is_timed = matches!(round, BranchRound::Seen { .. });
        let limit = STATES * self.levels / (self.levels + 1);
        let gather = Gather {
            awaited: children.iter().copied().collect(),
            awaits_own: to.has(self.node),
            until: is_timed.then_some(now + limit),
            report: BranchReport {
                seen: if is_timed { std::mem::take(&mut self.late) } else { Vec::new() },
                ..BranchReport::default()
            },
        };
        self.gathers.insert(round, gather);
    }

    /// Adds an answer: of a child, or this agent's own. Returns the branch's if it is complete.
    pub(crate) fn add(
        &mut self,
        round: BranchRound,
        child: Option<usize>,
        report: BranchReport,
    ) -> Option<BranchReport> {
        let Some(gather) = self.gathers.get_mut(&round) else {
            self.late.extend(report.seen);
            return None;
        };
        gather.report.add(report);
        match child {
            Some(child) => _ = gather.awaited.remove(&child),
            None => gather.awaits_own = false,
        }
        self.complete(round)
    }

    fn complete(&mut self, round: BranchRound) -> Option<BranchReport> {
        let gather = self.gathers.get(&round)?;
        let is_complete = gather.awaited.is_empty() && !gather.awaits_own;
        if is_complete { self.gathers.remove(&round).map(|gather| gather.report) } else { None }
    }

    /// Forgets the rounds of a job that is abandoned.
    pub(crate) fn abandon(&mut self, base: u32) {
        self.gathers.retain(|round, _| match round {
            BranchRound::Ready { base: of } | BranchRound::Started { base: of } => *of != base,
            BranchRound::Reached | BranchRound::Seen { .. } => true,
        });
    }

    /// Takes a child's branch out. Returns its hosts, and the answers that are complete without it.
    pub(crate) fn lose(&mut self, child: usize) -> (Vec<u32>, Complete) {
        let hosts = self.children.get_mut(child).map(std::mem::take).unwrap_or_default();
        let rounds: Vec<BranchRound> = self.gathers.keys().copied().collect();
        self.gathers.values_mut().for_each(|gather| _ = gather.awaited.remove(&child));
        let complete = |round| Some((round, self.complete(round)?));
        (hosts, rounds.into_iter().filter_map(complete).collect())
    }

    /// Takes hosts out that an agent below a child has reported as lost.
    pub(crate) fn lose_below(&mut self, child: usize, lost: &[u32]) {
        let hosts = self.children.get_mut(child);
        hosts.into_iter().for_each(|hosts| hosts.retain(|node| !lost.contains(node)));
    }

    /// Adds a child: an agent whose parent is lost, with its branch.
    pub(crate) fn adopt(&mut self, hosts: Vec<u32>) {
        self.children.push(hosts);
    }

    /// The time of the next [`Junction::give_up`].
    pub(crate) fn time(&self) -> Option<Instant> {
        self.gathers.values().filter_map(|gather| gather.until).min()
    }

    /// Ends the rounds whose time is over: the branches without an answer are silent.
    pub(crate) fn give_up(&mut self, now: Instant) -> Complete {
        let late = |gather: &Gather| gather.until.is_some_and(|until| until <= now);
        let rounds: Vec<BranchRound> =
            self.gathers.iter().filter(|(_, gather)| late(gather)).map(|(at, _)| *at).collect();
        let mut complete = Vec::new();
        for round in rounds {
            let Some(mut gather) = self.gathers.remove(&round) else { continue };
            let silent = gather.awaited.iter().filter_map(|child| self.children.get(*child));
            gather.report.silent.extend(silent.flatten());
            complete.push((round, gather.report));
        }
        complete
    }

    /// Counts processes of the branch that have started.
    pub(crate) fn note_started(&mut self, count: usize) {
        self.running += count;
    }

    /// Queues changes of processes for [`Junction::take_events`]. Returns whether they are urgent:
    /// the branch has no process any more, or one has failed.
    pub(crate) fn queue_events(&mut self, events: Vec<ProcessEvent>) -> bool {
        let ends = events.iter().filter(|event| matches!(event, ProcessEvent::Exited { .. }));
        self.running = self.running.saturating_sub(ends.count());
        let is_urgent = events.iter().any(is_failure);
        self.events.extend(events);
        is_urgent || self.running == 0
    }

    /// The queued changes, in their order.
    pub(crate) fn take_events(&mut self) -> Vec<ProcessEvent> {
        std::mem::take(&mut self.events)
    }

    /// Whether changes are queued.
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }
}

/// Whether the launcher must act on the end of a process.
fn is_failure(event: &ProcessEvent) -> bool {
    use oxmpi_rt_proto::process::Exit;
    match event {
        ProcessEvent::Closed { .. } => false,
        ProcessEvent::Exited { exit: Exit::Code(0), seen, .. } => seen.stage.is_inside(),
        ProcessEvent::Exited { .. } => true,
    }
}

#[cfg(test)]
mod tests;
