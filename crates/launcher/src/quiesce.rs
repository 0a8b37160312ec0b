//! The quiescence of a job's messages: which processes have taken which step. A state machine
//! without system calls.

use std::collections::BTreeSet;

/// Steps of one quiescence: become quiet, close connections, resume.
const STEPS: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Close connections. Each process needs a new listener before.
    Close(u32),
    Resume(u32),
}

/// The progress of all jobs' processes.
#[derive(Debug, Default)]
pub(crate) struct Quiescence {
    step: u32,
    /// Processes that have not taken it.
    missing: BTreeSet<u32>,
    /// Processes that take part in this quiescence.
    all: BTreeSet<u32>,
}

impl Quiescence {
    /// For restored processes: `last` was the last requested step, the end of a quiescence. They
    /// continue as after one more quiescence, of which they have only the last step to take; by
    /// that step they notice the restart.
    pub(crate) fn restored(last: u32) -> Quiescence {
        Quiescence { step: last.wrapping_add(STEPS), ..Quiescence::default() }
    }

    pub(crate) fn step(&self) -> u32 {
        self.step
    }

    pub(crate) fn is_on(&self) -> bool {
        !self.step.is_multiple_of(STEPS)
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        self.missing.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Begins with these processes. Returns the step to request; `None` if a quiescence is in
    /// progress.
    pub(crate) fn begin(&mut self, processes: impl Iterator<Item = u32>) -> Option<u32> {
        if self.is_on() {
            return None;
        }
        self.all = processes.collect();
        Some(self.next_step())
    }

    fn next_step(&mut self) -> u32 {
        self.step = self.step.wrapping_add(1);
        self.missing = self.all.clone();
        self.step
    }

    /// Notes that a process has taken a step. Returns the next request if it was the last process.
    pub(crate) fn reached(&mut self, process: u32, step: u32) -> Option<Next> {
        if step == self.step && self.missing.remove(&process) { self.next() } else { None }
    }

    /// Notes that a process takes no more steps. Returns the next request if it was the last.
    pub(crate) fn gone(&mut self, process: u32) -> Option<Next> {
        self.all.remove(&process);
        if self.is_on() && self.missing.remove(&process) { self.next() } else { None }
    }

    fn next(&mut self) -> Option<Next> {
        if !self.missing.is_empty() {
            return None;
        }
        let step = self.next_step();
        if self.is_on() {
            return Some(Next::Close(step));
        }
        // Processes do not confirm that they resume.
        self.missing.clear();
        Some(Next::Resume(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_is_requested_when_all_have_taken_one() {
        let mut all = Quiescence::default();
        for from in [0, 3] {
            assert_eq!(all.begin([0, 1, 2].into_iter()), Some(from + 1));
            assert_eq!(all.begin([0].into_iter()), None, "it goes on already");
            assert_eq!(all.reached(0, from + 1), None);
            assert_eq!(all.reached(0, from + 1), None, "it is counted once");
            assert_eq!(all.reached(1, from), None, "an old step is not this one");
            assert_eq!(all.reached(7, from + 1), None, "nobody has requested it");
            assert_eq!(all.missing().collect::<Vec<_>>(), [1, 2]);
            assert_eq!(all.reached(2, from + 1), None);
            assert_eq!(all.reached(1, from + 1), Some(Next::Close(from + 2)));
            assert!((0..2).all(|process| all.reached(process, from + 2).is_none()));
            assert_eq!(all.reached(2, from + 2), Some(Next::Resume(from + 3)));
            assert!(!all.is_on());
        }
    }

    #[test]
    fn a_restored_process_continues_as_after_another_quiescence() {
        let mut all = Quiescence::restored(3);
        assert_eq!((all.step(), all.is_on(), all.len()), (6, false, 0));
        assert_eq!(all.begin([0].into_iter()), Some(7));
    }

    #[test]
    fn a_process_that_is_gone_is_not_awaited() {
        let mut all = Quiescence::default();
        all.begin([0, 1].into_iter());
        assert_eq!(all.reached(0, 1), None);
        assert_eq!(all.gone(1), Some(Next::Close(2)));
        assert_eq!(all.gone(1), None);
        assert_eq!(all.gone(0), Some(Next::Resume(3)), "nobody is left");
        assert_eq!(all.gone(0), None, "it is over");
    }
}
