//! The choice of an algorithm for a call: forced, by a rule, or fixed.

use crate::collectives::{CollectiveFacts, TUNABLE, index_of};
use crate::position::Position;
use crate::rules::{CommRules, Distribution, MessageRule, Rules};
use oxmpi_plan::{
    AlgorithmId, Chosen, Collective, Parameters, Restriction, Setup, Shared, choose_on,
};
use std::fmt;

/// The parameters of an algorithm; 0 is the algorithm's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tuning {
    pub segment_bytes: u64,
    pub fan_out: u32,
    pub max_requests: u32,
}

impl Tuning {
    /// These parameters for a plan whose unit has `unit` bytes.
    #[must_use]
    pub fn parameters(&self, unit: usize) -> Parameters {
        let mut parameters = Parameters::default();
        if self.segment_bytes > 0 {
            let bytes = usize::try_from(self.segment_bytes).unwrap_or(usize::MAX);
            parameters.segment = (bytes / unit.max(1)).max(1);
        }
        parameters.fanout = self.fan_out;
        parameters.max_requests = self.max_requests as usize;
        parameters
    }
}

/// An algorithm that a parameter forces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forced {
    pub algorithm: AlgorithmId,
    pub tuning: Tuning,
    pub parameter: String,
    /// The source of the parameter's value.
    pub source: String,
}

/// The algorithms of all collectives: forced, by rules of a file, or fixed.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    forced: [Option<Forced>; TUNABLE.len()],
    /// The parameters `*_max_requests`, for rules that set none.
    max_requests: [u32; TUNABLE.len()],
    rules: Option<Rules>,
}

/// The algorithm of a call, and the reason of the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlgorithmDecision<'a> {
    pub algorithm: AlgorithmId,
    pub tuning: Tuning,
    pub reason: Reason<'a>,
    /// The rule of the call, if its algorithm cannot serve the call.
    pub refused: Option<RefusedRule<'a>>,
}

/// The mode that has chosen the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason<'a> {
    Forced(&'a Forced),
    Rule {
        file: &'a str,
        comm: &'a CommRules,
        rule: &'a MessageRule,
    },
    /// The decisions of [`oxmpi_plan::choose`].
    Fixed(Chosen),
}

/// A rule whose algorithm cannot serve a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedRule<'a> {
    pub file: &'a str,
    pub at: Position,
    pub algorithm: AlgorithmId,
    pub restriction: Restriction,
}

/// A parameter forces an algorithm that cannot serve the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} forces the algorithm {} {} ({}), which cannot serve this call of {ranks} ranks: {restriction}",
    forced.parameter, forced.algorithm.algorithm().number, forced.algorithm.algorithm().name, forced.source
)]
pub struct IllegalForced {
    pub forced: Forced,
    pub ranks: u32,
    pub restriction: Restriction,
}

impl Selection {
    /// Forces an algorithm for its collective.
    #[must_use]
    pub fn with_forced(mut self, forced: Forced) -> Selection {
        if let Some(index) = index_of(forced.algorithm.algorithm().collective) {
            self.forced[index] = Some(forced);
        }
        self
    }

    /// Replaces the rules of the file.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Selection {
        self.rules = Some(rules);
        self
    }

    /// Sets the number of requests for rules that set none; `index` is that of the collective in
    /// [`TUNABLE`].
    #[must_use]
    pub(crate) fn with_max_requests(mut self, index: usize, max_requests: u32) -> Selection {
        self.max_requests[index] = max_requests;
        self
    }

    /// The algorithm that a parameter forces for a collective.
    #[must_use]
    pub fn forced(&self, collective: Collective) -> Option<&Forced> {
        self.forced[index_of(collective)?].as_ref()
    }

    /// The rules of the file.
    #[must_use]
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }

    /// Whether a parameter or the rules file mentions a collective. If not, the fixed decisions
    /// apply.
    #[must_use]
    pub fn is_tuned(&self, collective: Collective) -> bool {
        self.forced(collective).is_some()
            || self.rules.as_ref().is_some_and(|rules| rules.mentions(collective))
    }

    /// The algorithm for a call on a communicator with all ranks on one node. Fails if a parameter
    /// forces an algorithm that cannot serve the call. If a rule names such an algorithm, the fixed
    /// decisions apply, and the result has the rule.
    pub fn decide(&self, facts: &CollectiveFacts) -> Result<AlgorithmDecision<'_>, IllegalForced> {
        self.decide_on(facts, Distribution::SingleNode)
    }

    /// [`Selection::decide`] for a communicator with this distribution of ranks.
    pub fn decide_on(
        &self,
        facts: &CollectiveFacts,
        distribution: Distribution,
    ) -> Result<AlgorithmDecision<'_>, IllegalForced> {
        // With one rank all algorithms are alike; an algorithm forced for larger communicators must
        // not fail.
        if facts.ranks < 2 {
            return Ok(fixed(facts, None));
        }
        if let Some(forced) = self.forced(facts.collective) {
            return match refusal(forced.algorithm, facts) {
                None => Ok(AlgorithmDecision {
                    algorithm: forced.algorithm,
                    tuning: forced.tuning,
                    reason: Reason::Forced(forced),
                    refused: None,
                }),
                Some(restriction) => {
                    Err(IllegalForced { forced: forced.clone(), ranks: facts.ranks, restriction })
                }
            };
        }
        let Some(rules) = &self.rules else { return Ok(fixed(facts, None)) };
        let found = rules.find(facts.collective, facts.ranks, distribution, facts.message_size);
        let Some((comm, rule)) = found else { return Ok(fixed(facts, None)) };
        let Some(algorithm) = rule.algorithm else { return Ok(fixed(facts, None)) };
        if let Some(restriction) = refusal(algorithm, facts) {
            let refused = RefusedRule { file: &rules.file, at: rule.at, algorithm, restriction };
            return Ok(fixed(facts, Some(refused)));
        }
        let default = index_of(facts.collective).map_or(0, |index| self.max_requests[index]);
        let tuning = Tuning {
            segment_bytes: rule.segment_bytes,
            fan_out: rule.fan_out,
            max_requests: rule.max_requests.unwrap_or(default),
        };
        Ok(AlgorithmDecision {
            algorithm,
            tuning,
            reason: Reason::Rule { file: &rules.file, comm, rule },
            refused: None,
        })
    }
}

/// The reason why an algorithm cannot serve a call.
#[must_use]
pub fn refusal(algorithm: AlgorithmId, facts: &CollectiveFacts) -> Option<Restriction> {
    algorithm.algorithm().refusal(facts.ranks, facts.commutative)
}

fn fixed<'a>(facts: &CollectiveFacts, refused: Option<RefusedRule<'a>>) -> AlgorithmDecision<'a> {
    let CollectiveFacts { collective, ranks, bytes, commutative, setup, .. } = *facts;
    let chosen = choose_on(Shared(setup), collective, ranks, Shared(bytes), commutative);
    let segment_bytes = chosen.segment_bytes as u64;
    AlgorithmDecision {
        algorithm: chosen.algorithm,
        tuning: Tuning { segment_bytes, fan_out: chosen.fan_out, max_requests: 0 },
        reason: Reason::Fixed(chosen),
        refused,
    }
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Forced(forced) => write!(f, "{} ({})", forced.parameter, forced.source),
            Reason::Rule { file, comm, rule } => write!(
                f,
                "the rule at {file}:{} (from {} ranks and {} bytes on)",
                rule.at, comm.ranks.min, rule.sizes.min
            ),
            Reason::Fixed(chosen) => {
                f.write_str("the fixed rules (")?;
                match (chosen.max_size, chosen.max_bytes) {
                    (u32::MAX, usize::MAX) => f.write_str("all other sizes"),
                    (ranks, usize::MAX) => write!(f, "up to {ranks} ranks"),
                    (u32::MAX, bytes) => write!(f, "up to {bytes} bytes"),
                    (ranks, bytes) => write!(f, "up to {ranks} ranks and {bytes} bytes"),
                }?;
                match chosen.powers_of_two {
                    Some(true) => f.write_str(", powers of two")?,
                    Some(false) => f.write_str(", no powers of two")?,
                    None => {}
                }
                if chosen.setup == Setup::Oversubscribed {
                    write!(f, ", {}", chosen.setup)?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for RefusedRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.algorithm.algorithm();
        write!(
            f,
            "{}:{}: the rule selects {} algorithm {} {}, which cannot serve every call of this size: {}; the fixed \
             rules choose for the calls that it cannot serve",
            self.file, self.at, row.collective, row.number, row.name, self.restriction
        )
    }
}
