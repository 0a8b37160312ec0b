//! Reduction of the data that ranks have written for a step, in the order of the ranks.

use oxmpi_mem::kernels::Kernel;
use oxmpi_shm::control_section::{ControlSection, Extent};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ops::Range;

/// The data of the ranks for a step, and the offset of the part to combine in each rank's data.
pub(super) struct Written<A: Fn(u32) -> Extent, P: Fn(u32) -> usize> {
    pub(super) step: u64,
    pub(super) all: A,
    pub(super) part: P,
}

/// Combines the parts in the order of the ranks. `own` is this rank's part if not in the section.
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
    // Predefined operations are commutative.
    show(first, &mut |before| match second {
        None => before.copy_to(to.reborrow()),
        Some(second) => show(second, &mut |part| kernel.apply_apart(part, before, to.reborrow())),
    });
    for rank in ranks {
        show(rank, &mut |part| kernel.apply(part, to.reborrow()));
    }
}

/// The range of a piece of `len` bytes that a rank combines, in whole cache lines.
pub(super) fn share(rank: u32, ranks: u32, len: usize) -> Range<usize> {
    let most = len.div_ceil(ranks as usize).next_multiple_of(64);
    let start = (rank as usize * most).min(len);
    start..len.min(start + most)
}

/// The range of a piece of `len` bytes that a rank combines, in whole elements of `size` bytes.
pub(super) fn share_of_elements(rank: u32, ranks: u32, len: usize, size: usize) -> Range<usize> {
    let count = len / size;
    let at = |rank: u32| count * rank as usize / ranks as usize * size;
    at(rank)..at(rank + 1)
}
