//! When the messages of a job stand still: which step all processes have taken. A state machine without a system call in it.

use std::collections::BTreeSet;

/// Steps of one time: become quiet, close, resume.
const STEPS: u32 = 3;

/// What is asked of processes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// To end their connections, by taking this step. A listener must be there for each.
    Close(u32),
    /// To go on, by taking this step.
    Resume(u32),
}

/// How far the processes of all jobs of a launcher are.
#[derive(Debug, Default)]
pub(crate) struct Quiescence {
    /// The step that was asked for last.
    step: u32,
    /// Those who have not taken it yet.
    missing: BTreeSet<u32>,
    /// Those who take part, from the first step to the last.
    all: BTreeSet<u32>,
}

impl Quiescence {
    /// Of processes that were restored from images. The step that was asked for `last` then was the end of one time. They are to go on as after
    /// another one whose earlier steps they have not taken: that is how they notice.
    pub(crate) fn restored(last: u32) -> Quiescence {
        Quiescence { step: last.wrapping_add(STEPS), ..Quiescence::default() }
    }

    /// The step that was asked for last.
    pub(crate) fn step(&self) -> u32 {
        self.step
    }

    /// Whether messages stand still, or are about to.
    pub(crate) fn is_on(&self) -> bool {
        !self.step.is_multiple_of(STEPS)
    }

    /// Those who are waited for.
    pub(crate) fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        self.missing.iter().copied()
    }

    /// How many take part.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Begins with these processes. Returns the step that they shall take; none if they do so already.
    pub(crate) fn begin(&mut self, processes: impl Iterator<Item = u32>) -> Option<u32> {
        if self.is_on() {
            return None;
        }
        self.all = processes.collect();
        Some(self.ask())
    }

    fn ask(&mut self) -> u32 {
        self.step = self.step.wrapping_add(1);
        self.missing = self.all.clone();
        self.step
    }

    /// A process says that it has taken a step. Returns what all are asked for now, if it was the last one.
    pub(crate) fn reached(&mut self, process: u32, step: u32) -> Option<Next> {
        if step == self.step && self.missing.remove(&process) { self.next() } else { None }
    }

    /// A process will send nothing any more, nor take a step. Returns what all are asked for now, if it was the last one.
    pub(crate) fn gone(&mut self, process: u32) -> Option<Next> {
        self.all.remove(&process);
        if self.is_on() && self.missing.remove(&process) { self.next() } else { None }
    }

    fn next(&mut self) -> Option<Next> {
        if !self.missing.is_empty() {
            return None;
        }
        let step = self.ask();
        if self.is_on() {
            return Some(Next::Close(step));
        }
        // Nobody says that it goes on.
        self.missing.clear();
        Some(Next::Resume(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_is_asked_for_when_all_have_taken_one() {
        let mut all = Quiescence::default();
        for from in [0, 3] {
            assert_eq!(all.begin([0, 1, 2].into_iter()), Some(from + 1));
            assert_eq!(all.begin([0].into_iter()), None, "it goes on already");
            assert_eq!(all.reached(0, from + 1), None);
            assert_eq!(all.reached(0, from + 1), None, "it is counted once");
            assert_eq!(all.reached(1, from), None, "an old step is not this one");
            assert_eq!(all.reached(7, from + 1), None, "nobody has asked it");
            assert_eq!(all.missing().collect::<Vec<_>>(), [1, 2]);
            assert_eq!(all.reached(2, from + 1), None);
            assert_eq!(all.reached(1, from + 1), Some(Next::Close(from + 2)));
            assert!((0..2).all(|process| all.reached(process, from + 2).is_none()));
            assert_eq!(all.reached(2, from + 2), Some(Next::Resume(from + 3)));
            assert!(!all.is_on());
        }
    }

    #[test]
    fn who_was_restored_goes_on_as_after_another_time() {
        let mut all = Quiescence::restored(3);
        assert_eq!((all.step(), all.is_on(), all.len()), (6, false, 0));
        assert_eq!(all.begin([0].into_iter()), Some(7));
    }

    #[test]
    fn who_is_gone_is_not_waited_for() {
        let mut all = Quiescence::default();
        all.begin([0, 1].into_iter());
        assert_eq!(all.reached(0, 1), None);
        assert_eq!(all.gone(1), Some(Next::Close(2)));
        assert_eq!(all.gone(1), None);
        assert_eq!(all.gone(0), Some(Next::Resume(3)), "nobody is left");
        assert_eq!(all.gone(0), None, "it is over");
    }
}
