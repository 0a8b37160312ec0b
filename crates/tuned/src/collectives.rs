//! The collectives that may be tuned: their numbers in rules files, their names, and their message
//! sizes.

use oxmpi_plan::{Call, Collective, Setup};

/// The definition of the "message size" of a collective, in bytes ("Collectives and their
/// Algorithms" of Open MPI's guide to tuning collectives).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Datatype size x number of elements of the buffer; for a scatter, of one rank's block.
    Buffer,
    AllBlocks,
    Sum,
    /// Datatype size x number of ranks; the count does not matter.
    TypeByRanks,
    Unused,
}

impl Measure {
    /// The definition in words.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Buffer => "datatype size x count",
            Self::AllBlocks => "datatype size x ranks x count of a block",
            Self::Sum => "datatype size x sum of the counts",
            Self::TypeByRanks => "datatype size x ranks",
            Self::Unused => "not used",
        }
    }
}

/// A collective that may be tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    pub collective: Collective,
    pub id: u8,
    pub json: &'static str,
    pub measure: Measure,
}

const fn tunable(id: u8, collective: Collective, json: &'static str, measure: Measure) -> Tunable {
    Tunable { collective, id, json, measure }
}

pub const TUNABLE: [Tunable; 14] = [
    tunable(0, Collective::Allgather, "allgather", Measure::AllBlocks),
    tunable(1, Collective::Allgatherv, "allgatherv", Measure::Sum),
    tunable(2, Collective::Allreduce, "allreduce", Measure::Buffer),
    tunable(3, Collective::Alltoall, "alltoall", Measure::AllBlocks),
    tunable(4, Collective::Alltoallv, "alltoallv", Measure::Unused),
    tunable(6, Collective::Barrier, "barrier", Measure::Unused),
    tunable(7, Collective::Bcast, "bcast", Measure::Buffer),
    tunable(8, Collective::Exscan, "exscan", Measure::TypeByRanks),
    tunable(9, Collective::Gather, "gather", Measure::AllBlocks),
    tunable(11, Collective::Reduce, "reduce", Measure::Buffer),
    tunable(12, Collective::ReduceScatter, "reducescatter", Measure::Sum),
    tunable(13, Collective::ReduceScatterBlock, "reducescatterblock", Measure::AllBlocks),
    tunable(14, Collective::Scan, "scan", Measure::TypeByRanks),
    tunable(15, Collective::Scatter, "scatter", Measure::Buffer),
];

/// Collectives that Open MPI numbers, but has no algorithms for.
pub(crate) const UNTUNED: [(u8, &str); 8] = [
    (5, "alltoallw"),
    (10, "gatherv"),
    (16, "scatterv"),
    (17, "neighbor_allgather"),
    (18, "neighbor_allgatherv"),
    (19, "neighbor_alltoall"),
    (20, "neighbor_alltoallv"),
    (21, "neighbor_alltoallw"),
];

/// The index of a collective in [`TUNABLE`], if it may be tuned.
#[must_use]
pub const fn index_of(collective: Collective) -> Option<usize> {
    match collective {
        Collective::Allgather => Some(0),
        Collective::Allgatherv => Some(1),
        Collective::Allreduce => Some(2),
        Collective::Alltoall => Some(3),
        Collective::Alltoallv => Some(4),
        Collective::Barrier => Some(5),
        Collective::Bcast => Some(6),
        Collective::Exscan => Some(7),
        Collective::Gather => Some(8),
        Collective::Reduce => Some(9),
        Collective::ReduceScatter => Some(10),
        Collective::ReduceScatterBlock => Some(11),
        Collective::Scan => Some(12),
        Collective::Scatter => Some(13),
        _ => None,
    }
}

/// The properties of a call on which the choice of an algorithm depends; the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveFacts {
    pub collective: Collective,
    pub ranks: u32,
    /// Bytes of [`Call::count`].
    pub bytes: usize,
    /// The message size of rules files ([`Measure`]).
    pub message_size: u64,
    /// Bytes of one element of a reduction; 1 for a plan that counts bytes.
    pub unit: usize,
    pub commutative: bool,
    pub setup: Setup,
}

impl CollectiveFacts {
    /// The facts of a call with blocks of equal length: `bytes` as in [`CollectiveFacts::bytes`],
    /// of elements of `type_size` bytes.
    #[must_use]
    pub fn new(
        collective: Collective,
        ranks: u32,
        bytes: usize,
        type_size: usize,
        commutative: bool,
    ) -> CollectiveFacts {
        let all = (bytes as u64).saturating_mul(u64::from(ranks));
        let message_size = message_size(collective, bytes as u64, all, type_size, ranks);
        let unit = match oxmpi_plan::table::unit(collective) {
            oxmpi_plan::PlanUnit::Bytes => 1,
            oxmpi_plan::PlanUnit::Elements => type_size.max(1),
        };
        let setup = Setup::Dedicated;
        CollectiveFacts { collective, ranks, bytes, message_size, unit, commutative, setup }
    }

    /// These properties with another `setup`.
    #[must_use]
    pub const fn on(self, setup: Setup) -> CollectiveFacts {
        CollectiveFacts { setup, ..self }
    }

    /// Whether all ranks know the bytes of such a call; if not, `bytes` is 0.
    #[must_use]
    pub const fn knows_bytes(&self) -> bool {
        use Collective as C;
        let unknown = matches!(
            self.collective,
            C::Barrier
                | C::Gatherv
                | C::Scatterv
                | C::Alltoallv
                | C::Neighbor
                | C::InterMove
                | C::InterReduce
        );
        !unknown
    }

    /// The facts of `call` on `ranks` ranks. `unit`: bytes of an element of a reduction; otherwise
    /// 1.
    #[must_use]
    pub fn of_call(call: &Call, ranks: u32, unit: usize) -> CollectiveFacts {
        let collective = call.collective();
        let bytes = call.count().0.saturating_mul(unit);
        let all = match call {
            Call::Allgatherv { blocks, .. } | Call::ReduceScatter { blocks, .. } => {
                (blocks.0.total() as u64).saturating_mul(unit as u64)
            }
            _ => (bytes as u64).saturating_mul(u64::from(ranks)),
        };
        let message_size = message_size(collective, bytes as u64, all, unit, ranks);
        let (commutative, setup) = (call.commutative(), Setup::Dedicated);
        CollectiveFacts { collective, ranks, bytes, message_size, unit, commutative, setup }
    }
}

fn message_size(collective: Collective, bytes: u64, all: u64, type_size: usize, ranks: u32) -> u64 {
    match index_of(collective).map_or(Measure::Unused, |index| TUNABLE[index].measure) {
        Measure::Buffer => bytes,
        Measure::AllBlocks | Measure::Sum => all,
        Measure::TypeByRanks => (type_size as u64).saturating_mul(u64::from(ranks)),
        Measure::Unused => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_plan::{Blocks, Shared};

    #[test]
    fn the_table_is_in_order_and_found_by_collective() {
        for (index, row) in TUNABLE.iter().enumerate() {
            assert_eq!(index_of(row.collective), Some(index), "{}", row.collective);
        }
        assert!(TUNABLE.windows(2).all(|pair| pair[0].id < pair[1].id));
        assert_eq!(
            Collective::ALL.iter().filter(|c| index_of(**c).is_some()).count(),
            TUNABLE.len()
        );
        assert!(UNTUNED.iter().all(|(id, _)| TUNABLE.iter().all(|row| row.id != *id)));
    }

    #[test]
    fn the_parameters_have_the_names_of_the_collectives() {
        let names: Vec<_> = TUNABLE.iter().map(|row| row.collective.name()).collect();
        assert_eq!(names, oxmpi_param::tuned::COLLECTIVES);
    }

    /// Each row of the guide's table, with 8 ranks and 3 elements of 16 bytes.
    #[test]
    fn message_sizes_are_those_of_the_guide() {
        let size = |collective| CollectiveFacts::new(collective, 8, 48, 16, true).message_size;
        for (collective, wanted) in [
            (Collective::Allgather, 8 * 48),
            (Collective::Allgatherv, 8 * 48),
            (Collective::Allreduce, 48),
            (Collective::Alltoall, 8 * 48),
            (Collective::Alltoallv, 0),
            (Collective::Barrier, 0),
            (Collective::Bcast, 48),
            (Collective::Exscan, 8 * 16),
            (Collective::Gather, 8 * 48),
            (Collective::Reduce, 48),
            (Collective::ReduceScatter, 8 * 48),
            (Collective::ReduceScatterBlock, 8 * 48),
            (Collective::Scan, 8 * 16),
            (Collective::Scatter, 48),
        ] {
            assert_eq!(size(collective), wanted, "{collective}");
        }
    }

    #[test]
    fn a_call_has_the_message_size_of_its_numbers() {
        let count = Shared(3);
        let scan = Call::Scan { count, commutative: false, in_place: false };
        assert_eq!(
            CollectiveFacts::of_call(&scan, 8, 16),
            CollectiveFacts::new(Collective::Scan, 8, 48, 16, false)
        );
        let allgather = Call::Allgather { block: Shared(48), in_place: true };
        assert_eq!(
            CollectiveFacts::of_call(&allgather, 8, 1),
            CollectiveFacts::new(Collective::Allgather, 8, 48, 16, true)
        );
        let blocks = Shared(Blocks::new([1, 2, 9]).unwrap());
        let vector = Call::ReduceScatter { blocks, commutative: true, in_place: false };
        assert_eq!(CollectiveFacts::of_call(&vector, 3, 4).message_size, 48);
    }
}
