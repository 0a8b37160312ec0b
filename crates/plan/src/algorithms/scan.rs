//! Prefix reductions, all in rank order.

use super::Rounds;
use crate::burst::{Burst, Mark, Wait};
use crate::call::TeamMember;
use crate::ir::{PlanBuffer, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanKind {
    Inclusive,
    Exclusive,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanTask {
    pub(crate) me: TeamMember,
    pub(crate) kind: ScanKind,
    pub(crate) count: usize,
    pub(crate) in_place: bool,
}

impl ScanTask {
    fn whole(&self, place: PlanBuffer) -> Span {
        place.span(0, self.count)
    }

    fn mine(&self) -> Span {
        self.whole(if self.in_place { PlanBuffer::Output } else { PlanBuffer::Input })
    }
}

/// Each rank adds its contribution to the result of the rank below, and sends it to the rank above.
#[derive(Clone, Debug)]
pub(crate) struct LinearScan {
    task: ScanTask,
}

impl LinearScan {
    pub(crate) fn new(task: ScanTask) -> Self {
        Self { task }
    }

    fn inclusive(&self, steps: &mut Burst) {
        let TeamMember { rank, size } = self.task.me;
        let output = self.task.whole(PlanBuffer::Output);
        let below = self.task.whole(PlanBuffer::Temporary(0));
        let mut done = steps.copy(Wait::Nothing, self.task.mine(), output);
        if rank > 0 {
            let received = steps.receive(Wait::Nothing, rank - 1, below);
            done = steps.reduce(Wait::Two(received, done), below, output);
        }
        if rank + 1 < size {
            steps.send(Wait::One(done), rank + 1, output);
        }
    }

    fn exclusive(&self, steps: &mut Burst) {
        let TeamMember { rank, size } = self.task.me;
        let output = self.task.whole(PlanBuffer::Output);
        let apart = self.task.whole(PlanBuffer::Temporary(0));
        let last = rank + 1 == size;
        if rank == 0 {
            if !last {
                steps.send(Wait::Nothing, 1, self.task.mine());
            }
        } else if last {
            steps.receive(Wait::Nothing, rank - 1, output);
        } else if self.task.in_place {
            let received = steps.receive(Wait::Nothing, rank - 1, apart);
            let reduced = steps.reduce(Wait::One(received), apart, output);
            let sent = steps.send(Wait::One(reduced), rank + 1, output);
            steps.copy(Wait::Two(sent, reduced), apart, output);
        } else {
            let received = steps.receive(Wait::Nothing, rank - 1, output);
            let copied = steps.copy(Wait::Nothing, self.task.mine(), apart);
            let reduced = steps.reduce(Wait::Two(received, copied), output, apart);
            steps.send(Wait::One(reduced), rank + 1, apart);
        }
    }
}

impl Rounds for LinearScan {
    fn round(&mut self, steps: &mut Burst) -> bool {
        match self.task.kind {
            ScanKind::Inclusive => self.inclusive(steps),
            ScanKind::Exclusive => self.exclusive(steps),
        }
        false
    }
}

/// At distances 1, 2, 4... a rank sends its combination to the rank above, and puts that of the
/// rank below on the left (Hillis and Steele, "Data parallel algorithms"). An exclusive scan first
/// moves all contributions up by one rank.
#[derive(Clone, Debug)]
pub(crate) struct ScanDoubling {
    task: ScanTask,
    /// 0 before the first exchange.
    distance: u32,
    reduced: Mark,
}

impl ScanDoubling {
    pub(crate) fn new(task: ScanTask) -> Self {
        Self { task, distance: 0, reduced: Mark::NONE }
    }

    fn start(&mut self, steps: &mut Burst) {
        let TeamMember { rank, size } = self.task.me;
        let (mine, output) = (self.task.mine(), self.task.whole(PlanBuffer::Output));
        let last = rank + 1 == size;
        match self.task.kind {
            ScanKind::Inclusive => {
                steps.copy(Wait::Nothing, mine, output);
            }
            ScanKind::Exclusive => {
                let sent =
                    if last { Mark::NONE } else { steps.send(Wait::Nothing, rank + 1, mine) };
                if rank > 0 && self.task.in_place && !last {
                    let apart = self.task.whole(PlanBuffer::Temporary(0));
                    let received = steps.receive(Wait::Nothing, rank - 1, apart);
                    steps.copy(Wait::Two(sent, received), apart, output);
                } else if rank > 0 {
                    steps.receive(Wait::Nothing, rank - 1, output);
                }
            }
        }
        steps.fence();
    }
}

impl Rounds for ScanDoubling {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let TeamMember { rank, size } = self.task.me;
        let distance = self.distance;
        if distance == 0 {
            self.start(steps);
            self.distance = 1;
            return true;
        }
        // In an exclusive scan, rank 0 has no contribution after the move.
        let first = u32::from(self.task.kind == ScanKind::Exclusive);
        if rank < first || distance >= size - first {
            return false;
        }
        let output = self.task.whole(PlanBuffer::Output);
        let mut sent = Mark::NONE;
        if rank + distance < size {
            sent = steps.send(Wait::All, rank + distance, output);
        }
        if rank >= first + distance {
            let below = self.task.whole(PlanBuffer::Temporary(0));
            let received = steps.receive(Wait::One(self.reduced), rank - distance, below);
            self.reduced = steps.reduce(Wait::Two(sent, received), below, output);
        }
        self.distance = distance.saturating_mul(2);
        true
    }
}
