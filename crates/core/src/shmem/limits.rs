//! Which collectives of how many bytes go through shared memory: measured cut-offs.
//!
//! All is by numbers that the ranks of a call know alike.

use oxmpi_os::control_section::MAX_RANKS;
use oxmpi_plan::Collective;

/// Whether a collective of so many ranks goes past the plans. `bytes` are those of a block, or of the vector of a broadcast,
/// reduction or scan, as `Facts::bytes` has them.
#[must_use]
#[inline]
pub fn serves(collective: Collective, ranks: u32, bytes: usize) -> bool {
    if !(2..=MAX_RANKS).contains(&ranks) {
        return false;
    }
    let most = match collective {
        Collective::Barrier => return true,
        Collective::Bcast
        | Collective::Gather
        | Collective::Scatter
        | Collective::Allgather
        | Collective::Alltoall
        | Collective::Reduce
        | Collective::Allreduce
        | Collective::ReduceScatterBlock
        | Collective::Scan
        | Collective::Exscan => 4 << 20,
        _ => return false,
    };
    bytes > 0 && bytes <= most
}

/// Whether the segments of a pool have room for a line for each rank.
#[inline]
pub(super) fn has_room(segment_bytes: usize, ranks: u32) -> bool {
    segment_bytes >= 64 * (ranks as usize - 1)
}

/// Whether the ranks of an allreduce combine a share each, and not all of it.
#[inline]
pub(super) fn shares_allreduce(ranks: u32, bytes: usize) -> bool {
    match ranks {
        2 => bytes >= 512 << 10,
        _ => bytes.saturating_mul(ranks as usize) > 64 << 10,
    }
}
