//! The steps of a plan, written down once and gone through any number of times.

use oxmpi_plan::{AlgorithmId, AnyPlan, Generator, PlanStep, PlanUnit};

/// How many steps are written down at most. What a longer plan does after them is generated anew each time.
const MOST: usize = 64;

/// What a rank has to do, step by step.
#[derive(Debug)]
pub(crate) struct Script {
    written: Vec<PlanStep>,
    /// How many of those were done.
    at: usize,
    /// What comes after them; never stepped itself.
    rest: Option<Box<AnyPlan>>,
    /// A copy of the rest, as far as it was gone through.
    going: Option<Box<AnyPlan>>,
    /// The next step of that.
    held: Option<PlanStep>,
    pub(crate) unit: PlanUnit,
    pub(crate) window: usize,
    pub(crate) algorithm: Option<(AlgorithmId, usize)>,
}

impl Script {
    pub(crate) fn new(mut plan: AnyPlan) -> Script {
        let (unit, window, algorithm) = (plan.unit(), plan.window(), plan.algorithm());
        let mut written = Vec::with_capacity(8);
        let rest = loop {
            if written.len() == MOST {
                break Some(Box::new(plan));
            }
            match plan.next() {
                Some(step) => written.push(step),
                None => break None,
            }
        };
        Script { written, at: 0, rest, going: None, held: None, unit, window, algorithm }
    }

    /// From the first step on.
    pub(crate) fn restart(&mut self) {
        (self.at, self.going, self.held) = (0, None, None);
    }

    /// The next step, which stays the next.
    pub(crate) fn peek(&mut self) -> Option<PlanStep> {
        match self.written.get(self.at) {
            Some(step) => Some(*step),
            None if self.rest.is_none() => None,
            None => self.peek_rest(),
        }
    }

    #[inline(never)]
    fn peek_rest(&mut self) -> Option<PlanStep> {
        if self.held.is_none() {
            if self.going.is_none() {
                self.going.clone_from(&self.rest);
            }
            self.held = self.going.as_mut()?.next();
        }
        self.held
    }

    /// The next step is done.
    pub(crate) fn pass(&mut self) {
        if self.at < self.written.len() {
            self.at += 1;
        } else {
            self.held = None;
        }
    }
}
