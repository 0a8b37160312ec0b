//! What ranks have written for a step, combined in their order.

use oxmpi_mem::kernels::Kernel;
use oxmpi_shm::control_section::{ControlSection, Extent};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ops::Range;

/// What the ranks have written for a step: where a part of it lies that is combined.
pub(super) struct Written<A: Fn(u32) -> Extent, P: Fn(u32) -> usize> {
    pub(super) step: u64,
    /// All that a rank has written.
    pub(super) all: A,
    /// Where the part begins in what this rank has written.
    pub(super) part: P,
}

/// Combines the same part of what these ranks, from the first one on, have written for a step, in their order. `own` is
/// that of rank `me`, if it lies elsewhere.
#[inline]
pub(super) fn combine<A: Fn(u32) -> Extent, P: Fn(u32) -> usize>(
    (section, me): (&ControlSection, u32),
    kernel: &Kernel,
    mut ranks: Range<u32>,
    written: &Written<A, P>,
    own: Option<Bytes<'_>>,
    mut to: BytesMut<'_>,
) {
    let len = to.len();
    let show = |rank: u32, take: &mut dyn FnMut(Bytes<'_>)| match own {
        Some(own) if rank == me => take(own),
        _ => section.read(rank, written.step, (written.all)(rank), |all| {
            take(all.slice((written.part)(rank), len));
        }),
    };
    let (Some(first), second) = (ranks.next(), ranks.next()) else { return };
    // Predefined operations are commutative: what was combined before may be on the right.
    show(first, &mut |before| match second {
        None => before.copy_to(to.reborrow()),
        Some(second) => show(second, &mut |part| kernel.apply_apart(part, before, to.reborrow())),
    });
    for rank in ranks {
        show(rank, &mut |part| kernel.apply(part, to.reborrow()));
    }
}

/// Which bytes of a piece of `len` bytes a rank combines: whole lines.
pub(super) fn share(rank: u32, ranks: u32, len: usize) -> Range<usize> {
    let most = len.div_ceil(ranks as usize).next_multiple_of(64);
    let start = (rank as usize * most).min(len);
    start..len.min(start + most)
}

/// Which bytes of a piece of `len` bytes a rank combines, of elements of `size` bytes: whole ones.
pub(super) fn share_of_elements(rank: u32, ranks: u32, len: usize, size: usize) -> Range<usize> {
    let count = len / size;
    let at = |rank: u32| count * rank as usize / ranks as usize * size;
    at(rank)..at(rank + 1)
}
