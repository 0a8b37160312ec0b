//! The parameters of the component ftagree. `failure/agreement` of the crate `oxmpi_core`
//! implements the algorithms.

use oxmpi_param::Params;
use std::fmt;

/// The algorithm of an agreement; the parameter `coll_ftagree_agreement` has its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgreementAlgorithm {
    /// A reduction to rank 0 and a broadcast, over a binomial tree. Fails if any rank fails.
    Allreduce,
    /// Over a tree that is mended around failed ranks. A rank returns when it knows the decision.
    EarlyReturning,
    /// Rounds in which every rank sends to all others, until a round brings no change.
    EarlyTerminating,
}

/// The shape of the tree of an early returning agreement; its number is the parameter
/// `coll_ftagree_era_topology`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeShape {
    Binary,
    Star,
    String,
    /// The root has as many children as the highest rank has binary digits.
    Binomial,
}

/// The agreements of a communicator; the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AgreementSettings {
    pub algorithm: AgreementAlgorithm,
    pub shape: TreeShape,
    /// Whether each tree has only the ranks that have survived the previous agreement.
    pub rebuild: bool,
}

impl AgreementAlgorithm {
    pub const ALL: [AgreementAlgorithm; 3] = [
        AgreementAlgorithm::Allreduce,
        AgreementAlgorithm::EarlyReturning,
        AgreementAlgorithm::EarlyTerminating,
    ];
}

impl TreeShape {
    /// Each shape at the index of its number less one.
    pub const ALL: [TreeShape; 4] =
        [TreeShape::Binary, TreeShape::Star, TreeShape::String, TreeShape::Binomial];

    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TreeShape::Binary => "binary",
            TreeShape::Star => "star",
            TreeShape::String => "string",
            TreeShape::Binomial => "binomial",
        }
    }
}

impl Default for AgreementSettings {
    /// The values of Open MPI without parameters. Processes of several jobs always use them.
    fn default() -> AgreementSettings {
        AgreementSettings {
            algorithm: AgreementAlgorithm::EarlyReturning,
            shape: TreeShape::Binary,
            rebuild: false,
        }
    }
}

impl AgreementSettings {
    /// The agreement of the component basic: a reduction and a broadcast.
    #[must_use]
    pub fn plain() -> AgreementSettings {
        AgreementSettings {
            algorithm: AgreementAlgorithm::Allreduce,
            ..AgreementSettings::default()
        }
    }

    /// The settings of the parameters.
    #[must_use]
    pub fn new(params: &Params) -> AgreementSettings {
        // The parameters accept only numbers that the tables have.
        let algorithm = AgreementAlgorithm::ALL.get(params.coll_ftagree_agreement() as usize);
        let shape =
            TreeShape::ALL.get((params.coll_ftagree_era_topology() as usize).saturating_sub(1));
        let default = AgreementSettings::default();
        AgreementSettings {
            algorithm: algorithm.copied().unwrap_or(default.algorithm),
            shape: shape.copied().unwrap_or(default.shape),
            rebuild: params.coll_ftagree_era_rebuild(),
        }
    }
}

impl fmt::Display for AgreementSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm {
            AgreementAlgorithm::Allreduce => {
                f.write_str("algorithm 0 allreduce, not fault tolerant")
            }
            AgreementAlgorithm::EarlyTerminating => f.write_str("algorithm 2 early terminating"),
            AgreementAlgorithm::EarlyReturning => {
                let rebuilt = if self.rebuild { ", rebuilt after failures" } else { "" };
                write!(f, "algorithm 1 early returning, {} tree{rebuilt}", self.shape.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_the_numbers_of_open_mpi() {
        let said = |text: &[(&'static str, &str)]| {
            let params = text
                .iter()
                .fold(Params::default(), |params, (name, value)| params.with(name, value).unwrap());
            AgreementSettings::new(&params).to_string()
        };
        assert_eq!(said(&[]), "algorithm 1 early returning, binary tree");
        assert_eq!(AgreementSettings::new(&Params::default()), AgreementSettings::default());
        assert_eq!(
            said(&[("coll_ftagree_agreement", "0")]),
            "algorithm 0 allreduce, not fault tolerant"
        );
        assert_eq!(said(&[("coll_ftagree_agreement", "2")]), "algorithm 2 early terminating");
        for (number, name) in [("1", "binary"), ("2", "star"), ("3", "string"), ("4", "binomial")] {
            let text =
                said(&[("coll_ftagree_era_topology", number), ("coll_ftagree_era_rebuild", "1")]);
            assert_eq!(
                text,
                format!("algorithm 1 early returning, {name} tree, rebuilt after failures")
            );
        }
        for (name, value) in [("coll_ftagree_agreement", "3"), ("coll_ftagree_era_topology", "0")] {
            assert!(Params::default().with(name, value).is_err(), "{name} {value}");
        }
    }
}
