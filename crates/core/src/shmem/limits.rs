//! Which collectives of how many bytes go through shared memory: measured cut-offs.
//!
//! All is by numbers that the ranks of a call know alike.

use super::spread::{self, spreads};
use super::steps::Pieces;
use oxmpi_fabric::shm::copy_policy::CopyFacts;
use oxmpi_plan::Collective;
use oxmpi_shm::control_section::{FETCHED_BYTES, MAX_RANKS};
use std::sync::LazyLock;

/// Whether a collective of so many ranks goes past the plans. `bytes` are those of a block, or of the vector of a broadcast,
/// reduction or scan, as `Facts::bytes` has them.
#[must_use]
#[inline]
pub fn serves(collective: Collective, ranks: u32, bytes: usize) -> bool {
    if !(2..=MAX_RANKS).contains(&ranks) {
        return false;
    }
    let all = bytes.saturating_mul(ranks as usize);
    let is_short = match collective {
        Collective::Barrier => return true,
        // What has no room goes by messages.
        Collective::Gatherv | Collective::Scatterv | Collective::Alltoallv | Collective::Neighbor => {
            return true;
        }
        Collective::Bcast => bytes <= LONG,
        // Each rank combines a share, but of what lies in the pools of all.
        Collective::Allreduce => all <= LONG,
        // One rank combines all.
        Collective::Reduce | Collective::Scan | Collective::Exscan => all <= LONG,
        Collective::Gather
        | Collective::Scatter
        | Collective::Allgather
        | Collective::Allgatherv
        | Collective::Alltoall => all <= LONG,
        Collective::ReduceScatterBlock => bytes <= LONG,
        _ => return false,
    };
    bytes > 0 && is_short
}

/// As [`serves`], of a nonblocking collective: what all write is written when it is called, as far as there is room.
#[must_use]
#[inline]
pub fn serves_later(collective: Collective, ranks: u32, bytes: usize) -> bool {
    let all = bytes.saturating_mul(ranks as usize);
    let is_short = match collective {
        Collective::Barrier => true,
        Collective::Bcast => bytes <= SHORT / 2,
        Collective::Allreduce => all <= SHORT || shares_later(ranks, bytes),
        // Of two ranks one would wait until all is written that the other one, by messages, takes piece by piece.
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

/// The most that a rank writes in a short collective, bytes: what lies in the pool is fetched with the look whether it was
/// published.
pub(super) const STRAIGHT: usize = FETCHED_BYTES;

/// What is longer goes better by messages, bytes.
const LONG: usize = 4 << 20;

/// As [`LONG`], of a nonblocking collective: the blocks or vectors of as many as there are ranks, bytes. So a look of one of them
/// does not take long.
const SHORT: usize = 128 << 10;

/// As [`SHORT`], of those that messages do slower wherever it was measured (with 2, 4 and 8 ranks).
const MIDDLE: usize = 512 << 10;

/// The longest piece of one rank for another, bytes: what is longer is read later, and leaves the caches earlier; shorter ones
/// are slower between distant cores.
pub(super) const PIECE: usize = 64 << 10;

/// The longest piece of blocks, or a vector, of so many bytes. Where data go one way, and so all that is written before
/// somebody reads is time lost, there are two at least, but of very short ones, and where ranks take turns on the processors:
/// there each piece may cost a change of process.
#[inline]
pub(super) fn longest(collective: Collective, bytes: usize, is_oversubscribed: bool) -> usize {
    if is_one_way(collective) && bytes < 2 * PIECE && !is_oversubscribed { PIECE / 2 } else { PIECE }
}

/// Whether data go one way in a collective.
pub(super) fn is_one_way(collective: Collective) -> bool {
    use Collective::{Bcast, Exscan, Gather, Gatherv, Reduce, Scan, Scatter, Scatterv};
    matches!(collective, Bcast | Exscan | Gather | Gatherv | Reduce | Scan | Scatter | Scatterv)
}

/// Whether `len` bytes, at least [`TURNING`], that a rank writes in a step lie elsewhere with every lap of the segments, if
/// each rank has a processor: what goes one way and is not so long that a lap fills the caches anyway. Nobody else brings the
/// lines back to the cache of the one who writes there next, as in an exchange; in a scatter they lie in their reader's part of
/// the pool, with every lap in the same.
pub(super) fn turns(collective: Collective, len: usize) -> bool {
    is_one_way(collective) && (len <= PIECE / 2 || collective == Collective::Scatter)
}

/// Whether `len` bytes that a rank writes in a step are stored past the caches, if each rank has a processor: what goes one way, where
/// the processor would fetch the lines from who has read them. In an exchange between two ranks each writes where it has read, so that it
/// has the lines; what turns has left the caches of near cores, not those of far ones.
pub(super) fn goes_past_caches(collective: Collective, len: usize) -> bool {
    len >= PAST_CACHES && is_one_way(collective) && *OVERWRITING_IS_SLOW
}

/// Whether a processor that overwrites what a far one has read takes several times as long as past the caches: it fetches the lines.
static OVERWRITING_IS_SLOW: LazyLock<bool> = LazyLock::new(|| {
    let far = CopyFacts::here().far;
    far.in_ns > 2.0 * far.in_past_caches_ns
});

/// The shortest data that are stored past the caches, bytes.
const PAST_CACHES: usize = 2 << 10;

/// The shortest data that turn, bytes.
pub(super) const TURNING: usize = 16 << 10;

/// The longest piece of a nonblocking collective, bytes, in segments of so many bytes.
pub(super) fn longest_later(collective: Collective, ranks: u32, bytes: usize, segment_bytes: usize) -> usize {
    let most = segment_bytes.min(longest(collective, bytes, false));
    if spreads(collective) { spread::longest(segment_bytes, most, ranks, bytes) } else { most }
}

/// Whether so many segments of so many bytes have room for a nonblocking collective that [`serves_later`] says is one for them:
/// all of it may be under way at a time, and as much of another one.
#[must_use]
pub fn fits_later(
    collective: Collective,
    ranks: u32,
    bytes: usize,
    (segment_bytes, segments): (usize, u64),
) -> bool {
    let most = longest_later(collective, ranks, bytes, segment_bytes);
    most > 0 && Pieces::how_many(bytes, most) <= segments / 2
}

/// How many segments of a pool a piece of blocks takes at a time, with more ranks than processors, if a rank has `bytes` bytes
/// for all others: so many that all is one piece, or all segments. A lap holds a whole number of pieces.
pub(super) fn segments_of(bytes: usize, segment_bytes: usize, segments: u64) -> u64 {
    let needed = bytes.div_ceil(segment_bytes.max(1)) as u64;
    (needed..segments).find(|width| segments.is_multiple_of(*width)).unwrap_or(segments)
}

/// Whether the segments of a pool have room for a line for each rank.
#[must_use]
#[inline]
pub fn has_room(segment_bytes: usize, ranks: u32) -> bool {
    segment_bytes >= 64 * (ranks as usize - 1)
}

/// Whether two ranks of an allreduce combine a half each, in the same memory.
#[inline]
pub(super) fn halves_allreduce(ranks: u32, bytes: usize) -> bool {
    ranks == 2 && bytes >= 64 << 10
}

/// As [`shares_allreduce`], of a nonblocking one.
#[inline]
pub(super) fn shares_later(ranks: u32, bytes: usize) -> bool {
    shares_allreduce(ranks, bytes) && bytes <= 2 * SHORT
}

/// Whether the ranks of an allreduce combine a share each, and not all of it.
#[inline]
pub(super) fn shares_allreduce(ranks: u32, bytes: usize) -> bool {
    ranks > 2 && bytes.saturating_mul(ranks as usize) > 64 << 10
}

/// As [`shares_allreduce`], of one that goes element by element.
#[inline]
pub(super) fn shares_elements(bytes: usize) -> bool {
    bytes >= 16 << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_crowded_ranks_fill_whole_parts_of_a_lap() {
        let segment = 64 << 10;
        let widths = [1, segment, segment + 1, 3 * segment, 5 * segment, 9 * segment];
        assert_eq!(widths.map(|bytes| segments_of(bytes, segment, 8)), [1, 1, 2, 4, 8, 8]);
        assert_eq!([2, 3].map(|n| segments_of(n * segment, segment, 7)), [7, 7]);
        assert_eq!([2, 3, 4].map(|n| segments_of(n * segment, segment, 6)), [2, 3, 6]);
    }

    #[test]
    fn only_crowded_ranks_have_one_piece_of_what_goes_one_way() {
        let of = |bytes, is_oversubscribed| longest(Collective::Gather, bytes, is_oversubscribed);
        assert_eq!((of(64 << 10, false), of(64 << 10, true)), (PIECE / 2, PIECE));
        assert_eq!((of(256 << 10, false), of(256 << 10, true)), (PIECE, PIECE));
    }
}
