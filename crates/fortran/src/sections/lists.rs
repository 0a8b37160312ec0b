//! Lists of counts and displacements, one of each for a process.

use super::types::DatatypeFacts;
use crate::arguments::{Whole, datatype, rank_in};
use std::ffi::c_int;

fn places(blocks: c_int) -> std::ops::Range<usize> {
    0..usize::try_from(blocks).unwrap_or(0)
}

/// The bytes of each block, at displacements in extents of the datatype.
pub(super) unsafe fn spans<C: Whole, D: Whole>(
    facts: &DatatypeFacts,
    counts: *const C,
    displacements: *const D,
    blocks: c_int,
) -> Vec<(i64, i64)> {
    let span = |at| {
        let (count, displacement) =
            unsafe { ((*counts.add(at)).whole(), (*displacements.add(at)).whole()) };
        let (begin, end) = facts.span(count);
        let from = displacement.saturating_mul(facts.extent);
        (begin.saturating_add(from), end.saturating_add(from))
    };
    places(blocks).map(span).filter(|(begin, end)| begin < end).collect()
}

/// The bytes of each block, at displacements in bytes.
/// # Errors
/// The code, after the error handler was called for a bad datatype.
pub(super) unsafe fn spans_of_types<C: Whole, D: Whole>(
    counts: *const C,
    displacements: *const D,
    blocks: c_int,
    datatypes: *const c_int,
) -> Result<Vec<(i64, i64)>, c_int> {
    let mut spans = Vec::new();
    for at in places(blocks) {
        unsafe {
            let count = (*counts.add(at)).whole();
            if count <= 0 {
                continue;
            }
            let facts = DatatypeFacts::of(datatype::of(*datatypes.add(at)))?;
            let (begin, end) = facts.span(count);
            let from = (*displacements.add(at)).whole();
            spans.push((begin.saturating_add(from), end.saturating_add(from)));
        }
    }
    Ok(spans)
}

/// The number of elements of a reduction that gives each process a part.
pub(crate) unsafe fn sum<C: Whole>(counts: *const C, blocks: c_int) -> i64 {
    places(blocks).map(|at| unsafe { (*counts.add(at)).whole() }).fold(0, i64::saturating_add)
}

/// The number of elements that this process gets in such a reduction.
pub(crate) unsafe fn own<C: Whole>(counts: *const C, comm: *const c_int) -> i64 {
    let rank = usize::try_from(unsafe { rank_in(comm) });
    rank.map_or(0, |rank| unsafe { (*counts.add(rank)).whole() })
}
