//! The choice among the algorithms of a collective.
//!
//! It reads shared knowledge only, so that all ranks choose alike, and looks at restrictions, so that what it chooses
//! is legal.

use crate::call::Collective;
use crate::knowledge::Shared;
use crate::table::{AlgorithmId, by_name, first};

/// Chooses an algorithm that is legal for any such call.
///
/// `bytes` is what [`Call::count`](crate::Call::count) counts, in bytes: the whole vector of a broadcast, reduction or scan, one block of
/// the other collectives. `commutative` is [`Call::commutative`](crate::Call::commutative). All arguments are the same on all ranks, and so is
/// the choice.
///
/// It walks through a few rules, from the first on.
#[must_use]
pub fn choose(collective: Collective, size: u32, bytes: Shared<usize>, commutative: bool) -> AlgorithmId {
    choose_within(collective, size, bytes, commutative).algorithm
}

/// A choice, and up to where it is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The algorithm.
    pub algorithm: AlgorithmId,
    /// The largest team for which the cut-offs name it here; `u32::MAX`: any.
    pub max_size: u32,
    /// The most bytes for which they do; `usize::MAX`: any number.
    pub max_bytes: usize,
}

/// As [`choose`], with the cut-offs that led to the choice.
#[must_use]
pub fn choose_within(collective: Collective, size: u32, bytes: Shared<usize>, commutative: bool) -> Chosen {
    let fits = |choice: &&Choice| {
        choice.collective == collective && size <= choice.max_size && bytes.0 <= choice.max_bytes
    };
    CHOICES
        .iter()
        .filter(fits)
        .filter_map(|choice| {
            let algorithm = by_name(collective, choice.name)?;
            Some(Chosen { algorithm, max_size: choice.max_size, max_bytes: choice.max_bytes })
        })
        .find(|chosen| chosen.algorithm.algorithm().refusal(size, commutative).is_none())
        // A test sees to it that each collective has a last choice without bounds and restrictions.
        .unwrap_or_else(|| Chosen { algorithm: first(collective), max_size: ANY, max_bytes: LONG })
}

/// One rule of the selection: the algorithm for teams and blocks up to some size, if it is legal.
struct Choice {
    collective: Collective,
    max_size: u32,
    max_bytes: usize,
    name: &'static str,
}

macro_rules! choices {
    ($($collective:ident, $max_size:expr, $max_bytes:expr => $name:literal;)*) => {
        /// The rules; the first that fits counts. The cut-offs are estimates until they are measured.
        const CHOICES: &[Choice] = &[
            $(Choice {
                collective: Collective::$collective,
                max_size: $max_size,
                max_bytes: $max_bytes,
                name: $name,
            }),*
        ];
    };
}

const ANY: u32 = u32::MAX;
const LONG: usize = usize::MAX;
const KIB: usize = 1024;

choices! {
    Barrier, ANY, LONG => "bruck";
    Bcast, 4, 8 * KIB => "basic_linear";
    Bcast, ANY, 256 * KIB => "binomial";
    Bcast, ANY, LONG => "scatter_allgather_ring";
    Gather, 8, LONG => "basic_linear";
    Gather, ANY, 4 * KIB => "binomial";
    Gather, ANY, LONG => "basic_linear";
    Scatter, 8, LONG => "basic_linear";
    Scatter, ANY, 4 * KIB => "binomial";
    Scatter, ANY, LONG => "basic_linear";
    Allgather, ANY, 16 * KIB => "recursive_doubling";
    Allgather, ANY, 4 * KIB => "bruck-k-fanout";
    Allgather, ANY, LONG => "ring";
    Alltoall, 4, 32 * KIB => "linear";
    Alltoall, ANY, 128 => "modified_bruck";
    Alltoall, ANY, 4 * KIB => "linear";
    Alltoall, ANY, LONG => "pairwise";
    Reduce, ANY, 64 * KIB => "binomial";
    Reduce, 64, LONG => "pipeline";
    Reduce, ANY, LONG => "binomial";
    Allreduce, ANY, 16 * KIB => "recursive_doubling";
    Allreduce, ANY, 256 * KIB => "rabenseifner";
    Allreduce, 32, LONG => "ring";
    Allreduce, ANY, LONG => "rabenseifner";
    Allreduce, ANY, LONG => "nonoverlapping";
    ReduceScatterBlock, ANY, LONG => "basic_linear";
    Scan, ANY, LONG => "recursive_doubling";
    Exscan, ANY, LONG => "recursive_doubling";
    Gatherv, ANY, LONG => "default";
    Scatterv, ANY, LONG => "default";
    Allgatherv, ANY, 4 * KIB => "bruck";
    Allgatherv, ANY, LONG => "ring";
    Alltoallv, ANY, LONG => "basic_linear";
    ReduceScatter, ANY, LONG => "non-overlapping";
    Neighbor, ANY, LONG => "linear";
    InterMove, ANY, LONG => "linear";
    InterReduce, ANY, LONG => "leaders";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_names_an_algorithm_and_the_last_one_always_fits() {
        for choice in CHOICES {
            assert!(by_name(choice.collective, choice.name).is_some(), "{}", choice.name);
        }
        for collective in Collective::ALL {
            let last = CHOICES.iter().rfind(|choice| choice.collective == collective).unwrap();
            let row = by_name(collective, last.name).unwrap().algorithm();
            assert_eq!((last.max_size, last.max_bytes), (ANY, LONG));
            assert!(row.restrictions.is_empty(), "{collective}: {}", last.name);
        }
    }
}
