//! The collectives and lengths that go through shared memory. The limits were measured. All
//! decisions use only numbers that the ranks of a call have in common.

use super::spread::{self, spreads};
use super::steps::StepPieces;
use oxmpi_fabric::shm::copy_policy::CopyFacts;
use oxmpi_plan::Collective;
use oxmpi_shm::control_section::{FETCHED_BYTES, MAX_RANKS};
use std::sync::LazyLock;

/// Whether shared memory serves a collective with blocks or a vector of `bytes` (`Facts::bytes`).
#[must_use]
#[inline]
pub fn serves(collective: Collective, ranks: u32, bytes: usize) -> bool {
    if !(2..=MAX_RANKS).contains(&ranks) {
        return false;
    }
    let all = bytes.saturating_mul(ranks as usize);
    let is_short = match collective {
        Collective::Barrier => return true,
        // A block that has no room goes by a message.
        Collective::Gatherv
        | Collective::Scatterv
        | Collective::Alltoallv
        | Collective::Neighbor => {
            return true;
        }
        Collective::Bcast | Collective::ReduceScatterBlock => bytes <= LONG,
        Collective::Allreduce
        | Collective::Reduce
        | Collective::Scan
        | Collective::Exscan
        | Collective::Gather
        | Collective::Scatter
        | Collective::Allgather
        | Collective::Allgatherv
        | Collective::Alltoall => all <= LONG,
        _ => return false,
    };
    bytes > 0 && is_short
}

/// [`serves`] for a nonblocking collective.
#[must_use]
#[inline]
pub fn serves_later(collective: Collective, ranks: u32, bytes: usize) -> bool {
    let all = bytes.saturating_mul(ranks as usize);
    let is_short = match collective {
        Collective::Barrier => true,
        Collective::Bcast => bytes <= SHORT / 2,
        Collective::Allreduce => all <= SHORT || shares_later(ranks, bytes),
        // By messages one rank would get its data piece after piece, instead of all at the end.
        Collective::Scan | Collective::Exscan if ranks == 2 => all <= SHORT / 2,
        Collective::Scan | Collective::Exscan | Collective::ReduceScatterBlock => all <= MIDDLE,
        Collective::Alltoall if ranks == 2 || ranks > 4 => all <= MIDDLE,
        Collective::Reduce
        | Collective::Gather
        | Collective::Scatter
        | Collective::Allgather
        | Collective::Alltoall => all <= SHORT,
        _ => false,
    };
    is_short && serves(collective, ranks, bytes)
}

/// The most data of a rank in a short collective, in bytes. Each poll prefetches them in the pool.
pub(super) const SHORT_CALL_BYTES: usize = FETCHED_BYTES;

/// In bytes. Longer data are faster by messages.
const LONG: usize = 4 << 20;

/// [`LONG`] for nonblocking collectives, summed over all ranks: it bounds a progress call.
const SHORT: usize = 128 << 10;

/// [`SHORT`] for collectives that are slow by messages with 2, 4 and 8 ranks.
const MIDDLE: usize = 512 << 10;

/// In bytes. Longer pieces leave the caches before they are read; shorter ones are slower between
/// distant cores.
pub(super) const PIECE: usize = 64 << 10;

/// The longest piece, in bytes. One-way data need at least two pieces to overlap the writer and the
/// reader. With more ranks than processors each piece may cost a context switch.
#[inline]
pub(super) fn longest(collective: Collective, bytes: usize, is_oversubscribed: bool) -> usize {
    if is_one_way(collective) && bytes < 2 * PIECE && !is_oversubscribed {
        PIECE / 2
    } else {
        PIECE
    }
}

pub(super) fn is_one_way(collective: Collective) -> bool {
    use Collective::{Bcast, Exscan, Gather, Gatherv, Reduce, Scan, Scatter, Scatterv};
    matches!(collective, Bcast | Exscan | Gather | Gatherv | Reduce | Scan | Scatter | Scatterv)
}

/// Whether data of at least [`ALTERNATING`] bytes have another address in each lap, if each rank
/// has a processor. They do if they are one-way and a lap of them fits the caches: unlike in an
/// exchange, no other rank brings the lines back to the writer's cache. Scatter has one part of the
/// pool for each reader in all laps.
pub(super) fn alternates(collective: Collective, len: usize) -> bool {
    is_one_way(collective) && (len <= PIECE / 2 || collective == Collective::Scatter)
}

/// Whether data are stored past the caches, if each rank has a processor. They are if they are
/// one-way: a normal store would fetch the lines from the reader's cache. In an exchange each rank
/// writes lines that it has just read.
pub(super) fn goes_past_caches(collective: Collective, len: usize) -> bool {
    len >= PAST_CACHES && is_one_way(collective) && *OVERWRITING_IS_SLOW
}

/// Whether a store to lines that a far processor has read takes long, since it fetches the lines.
static OVERWRITING_IS_SLOW: LazyLock<bool> = LazyLock::new(|| {
    let far = CopyFacts::here().far;
    far.in_ns > 2.0 * far.in_past_caches_ns
});

/// In bytes. Shorter data are not stored past the caches.
const PAST_CACHES: usize = 2 << 10;

/// In bytes. Shorter data do not alternate their address.
pub(super) const ALTERNATING: usize = 16 << 10;

pub(super) fn longest_later(
    collective: Collective,
    ranks: u32,
    bytes: usize,
    segment_bytes: usize,
) -> usize {
    let most = segment_bytes.min(longest(collective, bytes, false));
    if spreads(collective) { spread::longest(segment_bytes, most, ranks, bytes) } else { most }
}

/// Whether the segments have room for all data of a nonblocking collective, twice.
#[must_use]
pub fn fits_later(
    collective: Collective,
    ranks: u32,
    bytes: usize,
    (segment_bytes, segments): (usize, u64),
) -> bool {
    let most = longest_later(collective, ranks, bytes, segment_bytes);
    most > 0 && StepPieces::how_many(bytes, most) <= segments / 2
}

/// The number of segments of a piece with more ranks than processors, for `bytes` bytes for all
/// other ranks: enough for one piece, or all segments. A lap has a whole number of pieces.
pub(super) fn segments_of(bytes: usize, segment_bytes: usize, segments: u64) -> u64 {
    let needed = bytes.div_ceil(segment_bytes.max(1)) as u64;
    (needed..segments).find(|width| segments.is_multiple_of(*width)).unwrap_or(segments)
}

/// Whether the segments of a pool have room for a cache line for each rank.
#[must_use]
#[inline]
pub fn has_room(segment_bytes: usize, ranks: u32) -> bool {
    segment_bytes >= 64 * (ranks as usize - 1)
}

/// Whether each of two ranks of an allreduce combines one half in the same memory.
#[inline]
pub(super) fn halves_allreduce(ranks: u32, bytes: usize) -> bool {
    ranks == 2 && bytes >= 64 << 10
}

#[inline]
pub(super) fn shares_later(ranks: u32, bytes: usize) -> bool {
    shares_allreduce(ranks, bytes) && bytes <= 2 * SHORT
}

#[inline]
pub(super) fn shares_allreduce(ranks: u32, bytes: usize) -> bool {
    ranks > 2 && bytes.saturating_mul(ranks as usize) > 64 << 10
}

/// [`shares_allreduce`] for a reduction by elements.
#[inline]
pub(super) fn shares_elements(bytes: usize) -> bool {
    bytes >= 16 << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_oversubscribed_ranks_fill_whole_parts_of_a_lap() {
        let segment = 64 << 10;
        let widths = [1, segment, segment + 1, 3 * segment, 5 * segment, 9 * segment];
        assert_eq!(widths.map(|bytes| segments_of(bytes, segment, 8)), [1, 1, 2, 4, 8, 8]);
        assert_eq!([2, 3].map(|n| segments_of(n * segment, segment, 7)), [7, 7]);
        assert_eq!([2, 3, 4].map(|n| segments_of(n * segment, segment, 6)), [2, 3, 6]);
    }

    #[test]
    fn only_oversubscribed_ranks_have_one_piece_of_one_way_data() {
        let of = |bytes, is_oversubscribed| longest(Collective::Gather, bytes, is_oversubscribed);
        assert_eq!((of(64 << 10, false), of(64 << 10, true)), (PIECE / 2, PIECE));
        assert_eq!((of(256 << 10, false), of(256 << 10, true)), (PIECE, PIECE));
    }
}
