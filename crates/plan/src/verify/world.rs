//! All ranks of a verification: issue, matching, completion of steps.

use std::collections::{HashMap, VecDeque};

use super::entered::{self, BarrierKnowledge};
use super::symbol::{Contributors, Requirement, Symbol, SymbolBuffer, agrees, index, mix};
use super::{Check, Cost, Violation};
use crate::call::Call;
use crate::ir::{Action, After, Generator, PlanStep, Span};

/// A rank that issues more steps counts as endless.
const TOO_MANY_STEPS: u64 = 100_000_000;

pub(super) struct PlanSimulation<'a, G> {
    check: &'a Check,
    ranks: Vec<SimulatedRank<G>>,
    /// For each sender and receiver: sends without a receive, or receives without a send.
    channels: HashMap<(u32, u32), UnmatchedSteps>,
    ready: Vec<(u32, u64)>,
    random: u64,
    cost: Cost,
}

#[derive(Default)]
struct UnmatchedSteps {
    sends: VecDeque<(u64, Span, Option<entered::EnteredRanks>)>,
    receives: VecDeque<(u64, Span)>,
}

struct SimulatedRank<G> {
    plan: G,
    next: Option<PlanStep>,
    issued: u64,
    window: usize,
    /// Input, output, temporaries.
    buffers: Vec<SymbolBuffer>,
    outstanding: Vec<(u64, Action)>,
    /// Issued steps on which no later step has depended.
    unsettled: Vec<(u64, Action)>,
    /// In a barrier: the ranks that have entered, as far as this rank knows.
    entered: Option<BarrierKnowledge>,
}

impl<'a, G: Generator> PlanSimulation<'a, G> {
    pub(super) fn new(check: &'a Check, plans: Vec<G>) -> Result<Self, Violation> {
        let mut ranks = Vec::with_capacity(plans.len());
        for (rank, plan) in (0..check.size()).zip(plans) {
            if plan.temporaries().len() > 4 {
                return Err(Violation::Generator {
                    rank,
                    why: "it has more than four temporaries",
                });
            }
            if plan.window() == 0 {
                return Err(Violation::Generator { rank, why: "its window is 0" });
            }
            let (input, output) = Requirement { calls: &check.calls, rank }.buffers();
            let temporaries = plan.temporaries().iter().map(|len| SymbolBuffer::scratch(*len));
            let buffers = [input, output].into_iter().chain(temporaries).collect();
            let window = plan.window();
            ranks.push(SimulatedRank {
                plan,
                next: None,
                issued: 0,
                window,
                buffers,
                outstanding: Vec::new(),
                unsettled: Vec::new(),
                entered: matches!(check.calls[rank as usize], Call::Barrier)
                    .then(|| BarrierKnowledge::new(rank, check.size())),
            });
        }
        Ok(Self {
            check,
            ranks,
            channels: HashMap::new(),
            ready: Vec::new(),
            random: mix(check.seed),
            cost: Cost::default(),
        })
    }

    pub(super) fn run(mut self) -> Result<Cost, Violation> {
        for rank in 0..self.check.size() {
            self.ranks[rank as usize].advance();
            self.issue(rank)?;
        }
        while let Some((rank, number)) = self.pick() {
            self.complete(rank, number)?;
            self.issue(rank)?;
        }
        let waiting: Vec<_> = (0..self.check.size())
            .zip(&self.ranks)
            .filter(|(_, state)| state.next.is_some() || !state.outstanding.is_empty())
            .map(|(rank, state)| (rank, state.outstanding.first().map(|(_, action)| *action)))
            .collect();
        if !waiting.is_empty() {
            return Err(Violation::Deadlock { waiting });
        }
        self.check_results()?;
        Ok(self.cost)
    }

    /// The step that completes next: random, newest or oldest, depending on the seed.
    fn pick(&mut self) -> Option<(u32, u64)> {
        if self.ready.is_empty() {
            return None;
        }
        self.random = mix(self.random);
        let at = match self.check.seed % 4 {
            1 => self.ready.len() - 1,
            2 => 0,
            _ => (self.random % self.ready.len() as u64) as usize,
        };
        Some(self.ready.swap_remove(at))
    }

    fn issue(&mut self, rank: u32) -> Result<(), Violation> {
        while let Some(step) = self.ranks[rank as usize].may_issue(rank)? {
            let state = &mut self.ranks[rank as usize];
            let (number, action) = (state.issued, step.action);
            well_formed(rank, self.check.size(), number, action)?;
            state.settle(step.after);
            state.check_access(rank, action)?;
            state.check_hazards(rank, action)?;
            state.outstanding.push((number, action));
            state.unsettled.push((number, action));
            state.issued += 1;
            self.cost.steps += 1;
            self.cost.outstanding = self.cost.outstanding.max(state.outstanding.len());
            if state.issued > TOO_MANY_STEPS {
                return Err(Violation::Generator { rank, why: "it does not end" });
            }
            state.advance();
            match action {
                Action::Send { to, what } => {
                    let reported = state.entered.as_ref().map(BarrierKnowledge::knowledge);
                    self.channels
                        .entry((rank, to))
                        .or_default()
                        .sends
                        .push_back((number, what, reported));
                    self.match_one(rank, to)?;
                }
                Action::Receive { from, into } => {
                    self.channels
                        .entry((from, rank))
                        .or_default()
                        .receives
                        .push_back((number, into));
                    self.match_one(from, rank)?;
                }
                Action::Copy { .. } | Action::Reduce { .. } => self.ready.push((rank, number)),
            }
        }
        Ok(())
    }

    fn match_one(&mut self, from: u32, to: u32) -> Result<(), Violation> {
        let channel = self.channels.entry((from, to)).or_default();
        if channel.sends.is_empty() || channel.receives.is_empty() {
            return Ok(());
        }
        let (Some((sent, what, reported)), Some((received, into))) =
            (channel.sends.pop_front(), channel.receives.pop_front())
        else {
            return Ok(());
        };
        if what.len != into.len {
            return Err(Violation::Length { from, to, sent: what.len, received: into.len });
        }
        self.cost.messages += 1;
        self.cost.units += what.len as u64;
        let data = self.ranks[from as usize].read(from, Action::Send { to, what }, what)?;
        self.ranks[to as usize].write(into, &data);
        if let (Some(entered), Some(reported)) = (&mut self.ranks[to as usize].entered, reported) {
            entered.deliver(received, reported);
        }
        self.ready.push((from, sent));
        self.ready.push((to, received));
        Ok(())
    }

    fn complete(&mut self, rank: u32, number: u64) -> Result<(), Violation> {
        let state = &mut self.ranks[rank as usize];
        let Some(at) = state.outstanding.iter().position(|(other, _)| *other == number) else {
            return Ok(());
        };
        let (_, action) = state.outstanding.remove(at);
        match action {
            Action::Send { .. } | Action::Receive { .. } => {}
            Action::Copy { from, into } => {
                let data = state.read(rank, action, from)?;
                state.write(into, &data);
            }
            Action::Reduce { left, right } => {
                let operands = state.read(rank, action, left)?;
                let mut data = state.read(rank, action, right)?;
                for (offset, (left_symbol, symbol)) in
                    operands.into_iter().zip(&mut data).enumerate()
                {
                    *symbol = Symbol::combine(left_symbol, *symbol).ok_or_else(|| {
                        Violation::Combination {
                            rank,
                            action,
                            unit: left.start + offset,
                            left: left_symbol.to_string(),
                            right: symbol.to_string(),
                        }
                    })?;
                }
                state.write(right, &data);
            }
        }
        Ok(())
    }

    fn check_results(&self) -> Result<(), Violation> {
        let calls = &self.check.calls;
        let commutative = calls.first().is_none_or(Call::commutative);
        let everyone = Contributors::below(self.check.size(), commutative);
        for (rank, state) in (0..self.check.size()).zip(&self.ranks) {
            if let Some(missing) =
                state.entered.clone().and_then(|entered| entered.missing(self.check.size()))
            {
                return Err(Violation::Early { rank, missing });
            }
            let requirement = Requirement { calls, rank };
            let output = &state.buffers[1].units;
            for (unit, found) in output.iter().enumerate().take(requirement.required()) {
                let expected = requirement.expected(unit, everyone);
                if !agrees(*found, expected) {
                    let (found, expected) = (found.to_string(), expected.to_string());
                    return Err(Violation::Result { rank, unit, found, expected });
                }
                if matches!(calls[0], Call::Allreduce { .. })
                    && *found != self.ranks[0].buffers[1].units[unit]
                {
                    return Err(Violation::Expression { rank, unit });
                }
            }
        }
        Ok(())
    }
}

impl<G: Generator> SimulatedRank<G> {
    fn advance(&mut self) {
        self.next = self.plan.next();
    }

    fn is_outstanding(&self, number: u64) -> bool {
        self.outstanding.iter().any(|(other, _)| *other == number)
    }

    fn may_issue(&self, rank: u32) -> Result<Option<PlanStep>, Violation> {
        let Some(step) = self.next else { return Ok(None) };
        let malformed = || Violation::Malformed {
            rank,
            step: self.issued,
            action: step.action,
            why: "it waits for a step that never was",
        };
        let done = |back: u32| {
            let number = self
                .issued
                .checked_sub(u64::from(back))
                .filter(|_| back > 0)
                .ok_or_else(malformed)?;
            Ok(!self.is_outstanding(number))
        };
        let free = match step.after {
            After::None => true,
            After::All => self.outstanding.is_empty(),
            After::One(back) => done(back)?,
            After::Two(one, other) => done(one)? & done(other)?,
        };
        Ok((free && self.outstanding.len() < self.window).then_some(step))
    }

    /// Removes the steps that are certainly complete once a step with dependencies `after` is
    /// issued.
    fn settle(&mut self, after: After) {
        let issued = self.issued;
        match after {
            _ if self.window == 1 => self.unsettled.clear(),
            After::None => {}
            After::All => self.unsettled.clear(),
            After::One(back) => {
                self.unsettled.retain(|(number, _)| issued - number != u64::from(back))
            }
            After::Two(one, other) => self.unsettled.retain(|(number, _)| {
                issued - number != u64::from(one) && issued - number != u64::from(other)
            }),
        }
        if let Some(entered) = &mut self.entered {
            entered.settle(|receive| self.unsettled.iter().any(|(number, _)| *number == receive));
        }
    }

    fn check_access(&self, rank: u32, action: Action) -> Result<(), Violation> {
        let fits = |span: &Span| {
            span.len == 0
                || self.buffers.get(index(span.place)).is_some_and(|buffer| {
                    span.start.checked_add(span.len).is_some_and(|end| end <= buffer.units.len())
                })
        };
        let writable = |span: &Span| {
            span.len == 0
                || self.buffers.get(index(span.place)).is_some_and(|buffer| buffer.writable)
        };
        for span in action.reads().into_iter().flatten() {
            if !fits(&span) {
                return Err(Violation::Access { rank, action, span });
            }
        }
        match action.writes() {
            Some(span) if !fits(&span) || !writable(&span) => {
                Err(Violation::Access { rank, action, span })
            }
            _ => Ok(()),
        }
    }

    fn check_hazards(&self, rank: u32, action: Action) -> Result<(), Violation> {
        for (earlier_step, earlier) in &self.unsettled {
            if conflict(action, *earlier) {
                let (earlier_step, earlier, step) =
                    (*earlier_step, Box::new(*earlier), self.issued);
                return Err(Violation::Hazard { rank, step, action, earlier_step, earlier });
            }
        }
        Ok(())
    }

    fn read(&self, rank: u32, action: Action, span: Span) -> Result<Vec<Symbol>, Violation> {
        if span.len == 0 {
            return Ok(Vec::new());
        }
        let units = &self.buffers[index(span.place)].units[span.start..span.end()];
        match units.iter().position(|symbol| *symbol == Symbol::Undefined) {
            Some(offset) => Err(Violation::Undefined { rank, action, unit: span.start + offset }),
            None => Ok(units.to_vec()),
        }
    }

    fn write(&mut self, span: Span, data: &[Symbol]) {
        if span.len > 0 {
            self.buffers[index(span.place)].units[span.start..span.end()].copy_from_slice(data);
        }
    }
}

fn conflict(one: Action, other: Action) -> bool {
    let uses = |written: Option<Span>, action: Action| {
        written.is_some_and(|written| {
            let mut spans = action.reads().into_iter().chain([action.writes()]).flatten();
            spans.any(|span| span.overlaps(&written))
        })
    };
    uses(one.writes(), other) || uses(other.writes(), one)
}

fn well_formed(rank: u32, size: u32, step: u64, action: Action) -> Result<(), Violation> {
    let pair = |one: Span, other: Span| {
        if one.len != other.len {
            Some("its spans differ in length")
        } else if one.overlaps(&other) {
            Some("its spans overlap")
        } else {
            None
        }
    };
    let why = match action {
        Action::Send { to: peer, .. } | Action::Receive { from: peer, .. } => {
            if peer == rank {
                Some("the peer is the rank itself")
            } else if peer >= size {
                Some("the peer is not in the team")
            } else {
                None
            }
        }
        Action::Copy { from, into } => pair(from, into),
        Action::Reduce { left, right } => pair(left, right),
    };
    why.map_or(Ok(()), |why| Err(Violation::Malformed { rank, step, action, why }))
}
