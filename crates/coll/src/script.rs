//! The steps of a plan, recorded once and executed any number of times.

use oxmpi_plan::{AlgorithmId, AnyPlan, Generator, PlanStep, PlanUnit};

/// The most recorded steps. Each execution of a longer plan generates the other steps again.
const MOST: usize = 64;

#[derive(Debug)]
pub(crate) struct Script {
    recorded: Vec<PlanStep>,
    at: usize,
    /// The plan after the recorded steps. Only its copies generate steps.
    rest: Option<Box<AnyPlan>>,
    /// The copy that generates the steps of this execution.
    generator: Option<Box<AnyPlan>>,
    generated: Option<PlanStep>,
    pub(crate) unit: PlanUnit,
    pub(crate) window: usize,
    pub(crate) algorithm: Option<(AlgorithmId, usize)>,
}

impl Script {
    pub(crate) fn new(mut plan: AnyPlan) -> Script {
        let (unit, window, algorithm) = (plan.unit(), plan.window(), plan.algorithm());
        let mut recorded = Vec::with_capacity(8);
        let rest = loop {
            if recorded.len() == MOST {
                break Some(Box::new(plan));
            }
            match plan.next() {
                Some(step) => recorded.push(step),
                None => break None,
            }
        };
        Script { recorded, at: 0, rest, generator: None, generated: None, unit, window, algorithm }
    }

    pub(crate) fn restart(&mut self) {
        (self.at, self.generator, self.generated) = (0, None, None);
    }

    pub(crate) fn peek(&mut self) -> Option<PlanStep> {
        match self.recorded.get(self.at) {
            Some(step) => Some(*step),
            None if self.rest.is_none() => None,
            None => self.peek_rest(),
        }
    }

    #[inline(never)]
    fn peek_rest(&mut self) -> Option<PlanStep> {
        if self.generated.is_none() {
            if self.generator.is_none() {
                self.generator.clone_from(&self.rest);
            }
            self.generated = self.generator.as_mut()?.next();
        }
        self.generated
    }

    pub(crate) fn pass(&mut self) {
        if self.at < self.recorded.len() {
            self.at += 1;
        } else {
            self.generated = None;
        }
    }
}
