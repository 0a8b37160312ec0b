//! The choice of an algorithm for a call: forced, by a rule, or fixed.

use crate::collectives::{Facts, TUNABLE, index_of};
use crate::position::Position;
use crate::rules::{CommRules, Distribution, MessageRule, Rules};
use oxmpi_plan::{AlgorithmId, Chosen, Collective, Parameters, Restriction, Setup, Shared, choose_on};
use std::fmt;

/// What may be said to an algorithm; 0 is its own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tuning {
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Fan-out of trees and chains.
    pub fan_out: u32,
    /// Requests outstanding at most.
    pub max_requests: u32,
}

impl Tuning {
    /// As a plan takes it, whose unit has so many bytes.
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
    /// The algorithm.
    pub algorithm: AlgorithmId,
    /// What is said to it.
    pub tuning: Tuning,
    /// The name of the parameter.
    pub parameter: String,
    /// Where it was set.
    pub source: String,
}

/// Which algorithm serves which calls.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    forced: [Option<Forced>; TUNABLE.len()],
    /// What the parameters say about requests, for rules that do not.
    max_requests: [u32; TUNABLE.len()],
    rules: Option<Rules>,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The algorithm.
    pub algorithm: AlgorithmId,
    /// What is said to it.
    pub tuning: Tuning,
    /// Who chose.
    pub reason: Reason<'a>,
    /// The rule that asked for another algorithm, which cannot serve the call.
    pub refused: Option<RefusedRule<'a>>,
}

/// Who chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason<'a> {
    /// A parameter.
    Forced(&'a Forced),
    /// A rule of a file.
    Rule {
        /// The name of the file.
        file: &'a str,
        /// The rules for such communicators.
        comm: &'a CommRules,
        /// The rule among them.
        rule: &'a MessageRule,
    },
    /// The fixed cut-offs.
    Fixed(Chosen),
}

/// A rule that cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedRule<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// Where it stands.
    pub at: Position,
    /// What it asks for.
    pub algorithm: AlgorithmId,
    /// Why the algorithm cannot serve the call.
    pub restriction: Restriction,
}

/// A parameter forces an algorithm that cannot serve the call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} forces the algorithm {} {} ({}), which cannot serve this call of {ranks} ranks: {restriction}",
    forced.parameter, forced.algorithm.algorithm().number, forced.algorithm.algorithm().name, forced.source
)]
pub struct IllegalForced {
    /// What is forced, and where.
    pub forced: Forced,
    /// Ranks of the call.
    pub ranks: u32,
    /// What the algorithm cannot do.
    pub restriction: Restriction,
}

impl Selection {
    /// With this algorithm forced for its collective.
    #[must_use]
    pub fn with_forced(mut self, forced: Forced) -> Selection {
        if let Some(index) = index_of(forced.algorithm.algorithm().collective) {
            self.forced[index] = Some(forced);
        }
        self
    }

    /// With rules of a file, instead of those before.
    #[must_use]
    pub fn with_rules(mut self, rules: Rules) -> Selection {
        self.rules = Some(rules);
        self
    }

    /// With a number of requests for rules that have none, by the place of the collective in [`TUNABLE`].
    #[must_use]
    pub(crate) fn with_max_requests(mut self, index: usize, max_requests: u32) -> Selection {
        self.max_requests[index] = max_requests;
        self
    }

    /// What is forced for a collective.
    #[must_use]
    pub fn forced(&self, collective: Collective) -> Option<&Forced> {
        self.forced[index_of(collective)?].as_ref()
    }

    /// The rules of the file.
    #[must_use]
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }

    /// Whether a parameter or a rule says anything about a collective, so that the fixed cut-offs may not count.
    #[must_use]
    pub fn is_tuned(&self, collective: Collective) -> bool {
        self.forced(collective).is_some()
            || self.rules.as_ref().is_some_and(|rules| rules.mentions(collective))
    }

    /// Chooses for a call on a communicator with all ranks on one node.
    ///
    /// # Errors
    /// A parameter forces an algorithm that cannot serve the call. A rule that does so is left, which the decision says.
    pub fn decide(&self, facts: &Facts) -> Result<Decision<'_>, IllegalForced> {
        self.decide_on(facts, Distribution::SingleNode)
    }

    /// As [`Selection::decide`], for ranks that are spread over nodes in a certain way.
    ///
    /// # Errors
    /// As [`Selection::decide`].
    pub fn decide_on(
        &self,
        facts: &Facts,
        distribution: Distribution,
    ) -> Result<Decision<'_>, IllegalForced> {
        // One rank has nothing to choose: whatever is forced for the others must not fail here.
        if facts.ranks < 2 {
            return Ok(fixed(facts, None));
        }
        if let Some(forced) = self.forced(facts.collective) {
            return match refusal(forced.algorithm, facts) {
                None => Ok(Decision {
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
        Ok(Decision {
            algorithm,
            tuning,
            reason: Reason::Rule { file: &rules.file, comm, rule },
            refused: None,
        })
    }
}

/// Why an algorithm cannot serve a call.
#[must_use]
pub fn refusal(algorithm: AlgorithmId, facts: &Facts) -> Option<Restriction> {
    algorithm.algorithm().refusal(facts.ranks, facts.commutative)
}

fn fixed<'a>(facts: &Facts, refused: Option<RefusedRule<'a>>) -> Decision<'a> {
    let Facts { collective, ranks, bytes, commutative, setup, .. } = *facts;
    let chosen = choose_on(Shared(setup), collective, ranks, Shared(bytes), commutative);
    let segment_bytes = chosen.segment_bytes as u64;
    Decision {
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
                if chosen.setup == Setup::Crowded {
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
            "{}:{}: the rule asks for {} algorithm {} {}, which cannot serve every call of this size: {}; the fixed \
             rules choose for those",
            self.file, self.at, row.collective, row.number, row.name, self.restriction
        )
    }
}
