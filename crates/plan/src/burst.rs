//! The queue between an algorithm and its plan: the algorithm pushes the steps of a round into a
//! [`Burst`], which yields them one by one and converts the [`Mark`]s of the algorithm to
//! distances.

use crate::ir::{Action, After, PlanStep, Span};
use std::sync::Arc;

const CAPACITY: usize = 6;

/// A pushed step. A step that moves no data is left out, and its mark counts as complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    pub(crate) const NONE: Self = Self(u64::MAX);
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Nothing,
    All,
    One(Mark),
    Two(Mark, Mark),
}

#[derive(Clone, Debug)]
pub(crate) struct Burst {
    steps: [PlanStep; CAPACITY],
    head: u8,
    len: u8,
    pushed: u64,
    fenced: bool,
    /// Added to the ranks of pushed steps.
    first: u32,
    /// If set, the ranks of pushed steps are indices of this list.
    among: Option<Arc<[u32]>>,
}

impl Burst {
    pub(crate) fn new() -> Self {
        let idle =
            PlanStep { after: After::None, action: Action::Send { to: 0, what: Span::NOTHING } };
        Self {
            steps: [idle; CAPACITY],
            head: 0,
            len: 0,
            pushed: 0,
            fenced: false,
            first: 0,
            among: None,
        }
    }

    pub(crate) fn pop(&mut self) -> Option<PlanStep> {
        if self.head == self.len {
            (self.head, self.len) = (0, 0);
            return None;
        }
        let step = self.steps[usize::from(self.head)];
        self.head += 1;
        Some(step)
    }

    /// Makes the next step depend on all earlier steps, regardless of its [`Wait`].
    pub(crate) fn fence(&mut self) {
        self.fenced = true;
    }

    /// Makes rank `first` of the team rank 0 of further steps.
    pub(crate) fn count_ranks_from(&mut self, first: u32) {
        self.first = first;
        if self.among.is_some() {
            self.among = None;
        }
    }

    /// Makes the ranks of further steps indices of `ranks`.
    pub(crate) fn count_ranks_among(&mut self, ranks: &Arc<[u32]>) {
        if self.among.as_ref().is_none_or(|among| !Arc::ptr_eq(among, ranks)) {
            self.among = Some(ranks.clone());
        }
    }

    fn rank(&self, named: u32) -> u32 {
        match &self.among {
            None => named + self.first,
            Some(ranks) => ranks[named as usize],
        }
    }

    pub(crate) fn send(&mut self, wait: Wait, to: u32, what: Span) -> Mark {
        if what.len == 0 { Mark::NONE } else { self.push(wait, Action::Send { to, what }) }
    }

    pub(crate) fn receive(&mut self, wait: Wait, from: u32, into: Span) -> Mark {
        if into.len == 0 { Mark::NONE } else { self.push(wait, Action::Receive { from, into }) }
    }

    pub(crate) fn signal(&mut self, wait: Wait, to: u32) -> Mark {
        self.push(wait, Action::Send { to, what: Span::NOTHING })
    }

    pub(crate) fn await_signal(&mut self, wait: Wait, from: u32) -> Mark {
        self.push(wait, Action::Receive { from, into: Span::NOTHING })
    }

    /// Copies a span, unless it is empty or already in place.
    pub(crate) fn copy(&mut self, wait: Wait, from: Span, into: Span) -> Mark {
        if from.len == 0 || from == into {
            Mark::NONE
        } else {
            self.push(wait, Action::Copy { from, into })
        }
    }

    pub(crate) fn reduce(&mut self, wait: Wait, left: Span, right: Span) -> Mark {
        if left.len == 0 { Mark::NONE } else { self.push(wait, Action::Reduce { left, right }) }
    }

    fn push(&mut self, wait: Wait, action: Action) -> Mark {
        let fenced = std::mem::take(&mut self.fenced);
        let after = match wait {
            _ if self.pushed == 0 => After::None,
            _ if fenced => After::All,
            Wait::Nothing => After::None,
            Wait::All => After::All,
            Wait::One(mark) => self.after_two(mark, Mark::NONE),
            Wait::Two(one, other) => self.after_two(one, other),
        };
        let action = match action {
            Action::Send { to, what } => Action::Send { to: self.rank(to), what },
            Action::Receive { from, into } => Action::Receive { from: self.rank(from), into },
            other => other,
        };
        self.steps[usize::from(self.len)] = PlanStep { after, action };
        self.len += 1;
        let mark = Mark(self.pushed);
        self.pushed += 1;
        mark
    }

    fn after_two(&self, one: Mark, other: Mark) -> After {
        match (self.back(one), self.back(other)) {
            (Some(0), _) | (_, Some(0)) => After::All, // the distance does not fit: waiting for all is correct too
            (None, None) => After::None,
            (Some(back), None) | (None, Some(back)) => After::One(back),
            (Some(one), Some(other)) => After::Two(one, other),
        }
    }

    /// The distance to an earlier step: `Some(0)` if it does not fit.
    fn back(&self, mark: Mark) -> Option<u32> {
        (mark != Mark::NONE).then(|| u32::try_from(self.pushed - mark.0).unwrap_or(0))
    }
}
