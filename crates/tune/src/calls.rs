//! The calls that are compared, and the variants of each.

use oxmpi_plan::table::{Parameter, algorithms, by_number};
use oxmpi_plan::{
    Algorithm, AlgorithmId, Blocks, Call, Collective, Paired, PlanUnit, Shared, choose,
};
use oxmpi_tuned::{CollectiveFacts, Tuning};
use std::fmt;

/// Bytes of an element of the compared reductions: a double.
pub const ELEMENT_BYTES: usize = 8;

/// The longest buffer of a rank, in bytes; calls with longer buffers are left out.
pub const MAX_BUFFER_BYTES: usize = 256 << 20;

/// A call that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    pub ranks: u32,
    pub collective: Collective,
    /// As [`CollectiveFacts::bytes`]: of the whole vector of a broadcast, reduction or scan, of one
    /// block of other collectives.
    pub bytes: usize,
}

impl Cell {
    /// The properties on which the choice of an algorithm depends.
    pub fn facts(&self) -> CollectiveFacts {
        CollectiveFacts::new(self.collective, self.ranks, self.bytes, self.element(), true)
    }

    /// Bytes of an element: of a double for reductions, 1 for other collectives.
    pub fn element(&self) -> usize {
        match oxmpi_plan::table::unit(self.collective) {
            PlanUnit::Elements => ELEMENT_BYTES,
            PlanUnit::Bytes => 1,
        }
    }

    /// The call of every rank: root 0, not in place, commutative operation. `None`: the collective
    /// cannot be tuned, or its blocks are too long.
    pub fn call(&self) -> Option<Call> {
        use Collective as C;
        let (root, commutative, in_place) = (0, true, false);
        let count = Shared(self.bytes / self.element());
        let blocks = || Blocks::new(std::iter::repeat_n(count.0, self.ranks as usize));
        Some(match self.collective {
            C::Barrier => Call::Barrier,
            C::Bcast => Call::Bcast { root, bytes: count },
            C::Gather => Call::Gather { root, block: count, in_place },
            C::Scatter => Call::Scatter { root, block: count, in_place },
            C::Allgather => Call::Allgather { block: count, in_place },
            C::Alltoall => Call::Alltoall { block: count, in_place },
            C::Reduce => Call::Reduce { root, count, commutative, in_place },
            C::Allreduce => Call::Allreduce { count, commutative, in_place },
            C::ReduceScatterBlock => {
                Call::ReduceScatterBlock { block: count, commutative, in_place }
            }
            C::Scan => Call::Scan { count, commutative, in_place },
            C::Exscan => Call::Exscan { count, commutative, in_place },
            C::Allgatherv => Call::Allgatherv { blocks: Shared(blocks()?), in_place },
            C::Alltoallv => {
                let blocks = blocks()?;
                Call::Alltoallv { send: Paired(blocks.clone()), receive: Paired(blocks), in_place }
            }
            C::ReduceScatter => {
                Call::ReduceScatter { blocks: Shared(blocks()?), commutative, in_place }
            }
            _ => return None,
        })
    }

    /// Bytes of the longer buffer of a rank.
    pub fn buffer_bytes(&self) -> usize {
        use Collective as C;
        match self.collective {
            C::Bcast | C::Reduce | C::Allreduce | C::Scan | C::Exscan | C::Barrier => self.bytes,
            _ => self.bytes.saturating_mul(self.ranks as usize),
        }
    }

    /// The algorithm of the fixed cut-offs.
    pub fn fixed(&self) -> AlgorithmId {
        choose(
            self.collective,
            self.ranks,
            Shared(self.facts().bytes * usize::from(self.facts().knows_bytes())),
            true,
        )
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes on {} ranks", self.collective, self.bytes, self.ranks)
    }
}

/// An algorithm with parameters that may serve a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `None`: the choice of the library without tuning.
    pub algorithm: Option<AlgorithmId>,
    pub tuning: Tuning,
}

impl Variant {
    /// The choice of the library without tuning.
    pub const FIXED: Variant = Variant {
        algorithm: None,
        tuning: Tuning { segment_bytes: 0, fan_out: 0, max_requests: 0 },
    };

    /// `ALGORITHM/SEGMENT/FAN-OUT/REQUESTS`, all as numbers.
    pub fn word(&self) -> String {
        let Tuning { segment_bytes, fan_out, max_requests } = self.tuning;
        let number = self.algorithm.map_or(0, |id| id.algorithm().number);
        format!("{number}/{segment_bytes}/{fan_out}/{max_requests}")
    }

    /// Parses [`Variant::word`]; `None` if it is no variant of the collective.
    pub fn of_word(collective: Collective, word: &str) -> Option<Variant> {
        let mut parts = word.split('/');
        let algorithm = match parts.next()?.parse().ok()? {
            0 => None,
            number => Some(by_number(collective, number)?),
        };
        let tuning = Tuning {
            segment_bytes: parts.next()?.parse().ok()?,
            fan_out: parts.next()?.parse().ok()?,
            max_requests: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(Variant { algorithm, tuning })
    }

    /// Whether the algorithm serves communicators of any number of ranks.
    pub fn serves_any_ranks(&self) -> bool {
        // 7 violates every restriction on the number of ranks: it is odd, not a power of two, not
        // two.
        self.algorithm.is_none_or(|id| id.algorithm().refusal(7, true).is_none())
    }
}

/// The variants of a call: first the fixed choice, then every legal algorithm with its default
/// parameters, and with other values of the parameters that matter for the call.
pub fn variants(cell: &Cell) -> Vec<Variant> {
    let mut all = vec![Variant::FIXED];
    for id in algorithms(cell.collective) {
        let row = id.algorithm();
        if row.refusal(cell.ranks, true).is_some() {
            continue;
        }
        let tunings = std::iter::once(Tuning::default()).chain(tunings(cell, row));
        all.extend(tunings.map(|tuning| Variant { algorithm: Some(id), tuning }));
    }
    all
}

/// Values other than the algorithm's defaults, one parameter at a time.
fn tunings(cell: &Cell, row: &'static Algorithm) -> impl Iterator<Item = Tuning> {
    let (bytes, ranks) = (cell.bytes as u64, cell.ranks);
    let each = move |parameter: &Parameter| -> Vec<Tuning> {
        match parameter {
            Parameter::Segment => [8 << 10, 64 << 10]
                .into_iter()
                .filter(|segment| segment * 2 <= bytes)
                .map(|segment_bytes| Tuning { segment_bytes, ..Tuning::default() })
                .collect(),
            Parameter::TreeFanout | Parameter::ChainFanout => [2, 4, 8]
                .into_iter()
                .filter(|fan_out| *fan_out + 1 < ranks)
                .filter(|fan_out| *fan_out != own_fan_out(row))
                .map(|fan_out| Tuning { fan_out, ..Tuning::default() })
                .collect(),
            Parameter::MaxRequests => [4, 16]
                .into_iter()
                .filter(|max_requests| *max_requests + 1 < ranks)
                .map(|max_requests| Tuning { max_requests, ..Tuning::default() })
                .collect(),
        }
    };
    row.parameters.iter().flat_map(each)
}

pub(crate) fn own_fan_out(row: &Algorithm) -> u32 {
    if row.collective == Collective::Allgather { 2 } else { oxmpi_plan::table::DEFAULT_FANOUT }
}

/// The cells of a comparison, by ranks, collectives and sizes. Cells with too long buffers, and
/// cells that round to the size of another, are left out.
pub fn cells(
    collectives: &[Collective],
    ranks: &[u32],
    sizes: &[usize],
    most_bytes: usize,
) -> Vec<Cell> {
    let mut all = Vec::new();
    for &ranks in ranks {
        for &collective in collectives {
            let mut last = None;
            for &bytes in sizes {
                let element = Cell { ranks, collective, bytes }.element();
                let bytes = if collective == Collective::Barrier {
                    0
                } else {
                    bytes.div_ceil(element) * element
                };
                let cell = Cell { ranks, collective, bytes };
                if last == Some(bytes) || cell.buffer_bytes() > most_bytes {
                    continue;
                }
                last = Some(bytes);
                all.push(cell);
            }
        }
    }
    all
}

/// Sizes from `min` to `max`: multiples of four, and `max`.
pub fn sizes(min: usize, max: usize) -> Vec<usize> {
    let mut all: Vec<usize> = std::iter::successors(Some(min.max(1)), |size| size.checked_mul(4))
        .take_while(|size| *size < max)
        .collect();
    all.push(max);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_plan::table::by_name;
    use oxmpi_tuned::collectives::TUNABLE;

    #[test]
    fn every_collective_has_calls_with_all_legal_algorithms() {
        for row in TUNABLE {
            let cell = Cell { ranks: 8, collective: row.collective, bytes: 1 << 20 };
            assert_eq!(cell.call().unwrap().collective(), row.collective);
            let all = variants(&cell);
            assert_eq!(all[0], Variant::FIXED);
            for id in algorithms(row.collective) {
                let is_legal = id.algorithm().refusal(8, true).is_none();
                assert_eq!(all.iter().any(|v| v.algorithm == Some(id)), is_legal, "{id}");
            }
            for variant in all {
                assert_eq!(Variant::of_word(row.collective, &variant.word()), Some(variant));
            }
        }
        let ring = by_name(Collective::Allreduce, "ring");
        assert!(Variant { algorithm: ring, ..Variant::FIXED }.serves_any_ranks());
        let doubling = by_name(Collective::Allgather, "recursive_doubling");
        assert!(!Variant { algorithm: doubling, ..Variant::FIXED }.serves_any_ranks());
    }

    #[test]
    fn invalid_words_are_no_variants() {
        for word in ["", "9/0/0", "9/0/0/0/0", "x/0/0/0", "99/0/0/0", "1/-1/0/0"] {
            assert_eq!(Variant::of_word(Collective::Allreduce, word), None, "{word}");
        }
    }

    #[test]
    fn sizes_are_whole_elements_and_a_barrier_has_one() {
        assert_eq!(sizes(8, 100), [8, 32, 100]);
        assert_eq!(sizes(8, 8), [8]);
        let of = |collective| -> Vec<usize> {
            cells(&[collective], &[4], &sizes(1, 16), MAX_BUFFER_BYTES)
                .iter()
                .map(|cell| cell.bytes)
                .collect()
        };
        assert_eq!(of(Collective::Allreduce), [8, 16]);
        assert_eq!(of(Collective::Bcast), [1, 4, 16]);
        assert_eq!(of(Collective::Barrier), [0]);
        assert!(
            cells(&[Collective::Alltoall], &[1 << 20], &[1 << 20], MAX_BUFFER_BYTES).is_empty()
        );
    }
}
