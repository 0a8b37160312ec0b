//! The control section of a small team: all ranks leave a few bytes, the last one to arrive makes the result.
//!
//! Collectives of a few bytes on one node are dearest in what surrounds them: messages, matching, and, with more ranks
//! than processors, a change of process for each message. Here each rank writes to a cell of its own and counts itself
//! in; the last one combines all cells and raises the generation, for which the others wait. Of ranks that take turns
//! on a processor each runs once per operation.
//!
//! ```text
//! line 0  word 0: ranks that have arrived     word 1: ranks that have left for good
//! line 1  word 0: generation                  word 1: somebody sleeps
//! then    the result, CELL_BYTES              then a cell of CELL_BYTES for each rank
//! ```
//!
//! Rules
//! 1. *Cell.* A rank writes its own cell only between the end of one operation and its arrival at the next.
//! 2. *Arrive.* It adds 1 to the count (acquire and release). Who makes it the number of ranks is last.
//! 3. *Result.* The last one alone reads and changes all cells, writes the result, stores 0 to the count (relaxed) and
//!    raises the generation (release). The others load the generation (acquire) until it is that of their operation,
//!    then read the result; of an exchange, in which each rank has one of its own, their cells.
//! 4. *One is enough.* The result is written again only when all have arrived at the next operation, so after all have
//!    read it; a cell, by its rank, after the operation in which it was read has ended. Nothing must be there twice.
//! 5. *Sleep.* A rank that is about to sleep stores 1 to the sleeper word (relaxed), then heavy barrier, then looks at
//!    the generation once more. The last one raises the generation, then light barrier, then loads the sleeper word; if
//!    it is 1 it stores 0 and has the doors of all rung. So one of them sees the other.
//! 6. *Leave.* A rank that will not come again counts itself out. When all have, another team may use the section.

use crate::{
    barrier::BarrierKind,
    bytes::{Bytes, BytesMut},
    line::{Keep, LINE_BYTES, Line, heap_lines},
    sync::{AtomicU64, Ordering},
};
use std::ptr::NonNull;

/// Room for a contribution and for the result, bytes.
pub const CELL_BYTES: usize = 256;

const CELL_LINES: usize = CELL_BYTES / LINE_BYTES;
const RESULT_LINE: usize = 2;

/// A control section for a team of some ranks. Cloning it gives another view of the same one.
#[derive(Clone, Debug)]
pub struct ControlSection {
    lines: NonNull<Line>,
    ranks: u32,
    barrier: BarrierKind,
    /// Loom watches who touches a cell when.
    #[cfg(loom)]
    cells: std::sync::Arc<[loom::cell::UnsafeCell<[u8; CELL_BYTES]>]>,
    _keep: Keep,
}

// SAFETY: the memory behind `lines` is atomics, and cells that the protocol hands from rank to rank (rules 1 to 4);
// `_keep` keeps it mapped.
unsafe impl Send for ControlSection {}
// SAFETY: as above.
unsafe impl Sync for ControlSection {}

impl ControlSection {
    /// Bytes of memory that a section for `ranks` ranks takes.
    pub const fn bytes(ranks: u32) -> usize {
        ControlSection::lines(ranks) * LINE_BYTES
    }

    const fn lines(ranks: u32) -> usize {
        RESULT_LINE + (1 + ranks as usize) * CELL_LINES
    }

    /// A section in zeroed memory on the heap, for threads of one process.
    pub fn on_heap(ranks: u32, barrier: BarrierKind) -> ControlSection {
        let lines = heap_lines(ControlSection::lines(ranks));
        ControlSection {
            lines: NonNull::from(&lines[..]).cast(),
            ranks,
            barrier,
            #[cfg(loom)]
            cells: (0..=ranks).map(|_| loom::cell::UnsafeCell::new([0; CELL_BYTES])).collect(),
            _keep: std::sync::Arc::new(lines),
        }
    }

    /// A section in memory that `keep` keeps mapped.
    ///
    /// # Safety
    /// `lines` must point to [`ControlSection::bytes`] bytes for `ranks`, zero at first and used for nothing else.
    #[cfg(not(loom))]
    pub(crate) unsafe fn from_raw(
        lines: NonNull<u8>,
        ranks: u32,
        barrier: BarrierKind,
        keep: Keep,
    ) -> ControlSection {
        ControlSection { lines: lines.cast(), ranks, barrier, _keep: keep }
    }

    #[inline]
    fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        // SAFETY: all callers name the first two lines, which every section has.
        unsafe { &(*self.lines.as_ptr().add(line)).words[word] }
    }

    /// Cell `index` to write: 0 is the result, then the ranks'.
    #[inline]
    fn write<R>(&self, index: u32, f: impl FnOnce(*mut u8) -> R) -> R {
        assert!(index <= self.ranks);
        #[cfg(loom)]
        return self.cells[index as usize].with_mut(|cell| f(cell.cast()));
        #[cfg(not(loom))]
        // SAFETY: the result and the cells of all ranks lie in the section.
        f(unsafe { self.lines.as_ptr().add(RESULT_LINE + index as usize * CELL_LINES) }.cast())
    }

    /// As [`ControlSection::write`], to read.
    #[inline]
    fn read<R>(&self, index: u32, f: impl FnOnce(*const u8) -> R) -> R {
        #[cfg(loom)]
        return self.cells[index as usize].with(|cell| f(cell.cast()));
        #[cfg(not(loom))]
        self.write(index, |cell| f(cell))
    }

    /// Leaves a rank's contribution and counts it in (rules 1 and 2). Returns whether it is the last one, which must
    /// then call [`ControlSection::complete`].
    ///
    /// # Panics
    /// If there is no such rank, or the contribution is longer than [`CELL_BYTES`].
    #[inline]
    pub fn arrive(&self, rank: u32, contribution: Bytes<'_>) -> bool {
        assert!(
            rank < self.ranks && contribution.len() <= CELL_BYTES,
            "rank {rank} of {} arrives with {} bytes",
            self.ranks,
            contribution.len()
        );
        let len = contribution.len();
        if len > 0 {
            // SAFETY: the cell is this rank's to write now (rule 1), and long enough.
            self.write(rank + 1, |cell| contribution.copy_to(unsafe { BytesMut::from_raw(cell, len) }));
        }
        self.word(0, 0).fetch_add(1, Ordering::AcqRel) + 1 == u64::from(self.ranks)
    }

    /// Ends the operation: the last one's part (rule 3). `combine(lower, higher)` is called along the ranks, for the first
    /// `len` bytes of two neighbours' cells, and leaves the combination of all ranks so far in `higher`. Returns whether
    /// somebody sleeps and must be woken (rule 5).
    ///
    /// # Panics
    /// If `len` is longer than [`CELL_BYTES`].
    pub fn complete(
        &self,
        generation: u64,
        len: usize,
        mut combine: impl FnMut(Bytes<'_>, BytesMut<'_>),
    ) -> bool {
        assert!(len <= CELL_BYTES, "a result of {len} bytes does not fit a cell");
        if len > 0 {
            // All ranks have arrived, so the cells and the result are ours alone (rules 3 and 4).
            for rank in 1..self.ranks {
                self.read(rank, |lower| {
                    self.write(rank + 1, |higher| {
                        // SAFETY: two cells, long enough, and ours.
                        unsafe { combine(Bytes::from_raw(lower, len), BytesMut::from_raw(higher, len)) }
                    })
                });
            }
            self.read(self.ranks, |last| {
                self.write(0, |result| {
                    // SAFETY: the last rank's cell and the result, long enough, and ours.
                    unsafe { Bytes::from_raw(last, len).copy_to(BytesMut::from_raw(result, len)) }
                })
            });
        }
        self.end(generation)
    }

    /// As [`ControlSection::complete`], for an exchange: a contribution is a block of `block` bytes for each rank, and
    /// afterwards each rank's cell holds the blocks for it, in the order of the ranks ([`ControlSection::own`]).
    ///
    /// # Panics
    /// If the blocks are longer than [`CELL_BYTES`] together.
    pub fn exchange(&self, generation: u64, block: usize) -> bool {
        let ranks = self.ranks as usize;
        assert!(block <= CELL_BYTES / ranks.max(1), "{ranks} blocks of {block} bytes do not fit a cell");
        // All ranks have arrived, so the cells are ours alone (rule 3).
        for rank in 0..ranks {
            for other in 0..rank {
                self.write(rank as u32 + 1, |mine| {
                    self.write(other as u32 + 1, |its| {
                        // SAFETY: two cells, which do not overlap and are ours; both blocks lie in them.
                        unsafe {
                            std::ptr::swap_nonoverlapping(
                                mine.add(other * block),
                                its.add(rank * block),
                                block,
                            );
                        }
                    })
                });
            }
        }
        self.end(generation)
    }

    /// Ends an operation whose result is made (rules 3 and 5). Returns whether somebody sleeps.
    #[inline]
    fn end(&self, generation: u64) -> bool {
        self.word(0, 0).store(0, Ordering::Relaxed);
        self.word(1, 0).store(generation, Ordering::Release);
        self.barrier.light();
        if self.word(1, 1).load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.word(1, 1).store(0, Ordering::Relaxed);
        true
    }

    /// Whether the operation with this number is over. Then [`ControlSection::result`] may be read, until the next one.
    #[inline]
    pub fn is_over(&self, generation: u64) -> bool {
        self.word(1, 0).load(Ordering::Acquire).wrapping_sub(generation) < 1 << 63
    }

    /// The number of the last operation that is over.
    pub fn generation(&self) -> u64 {
        self.word(1, 0).load(Ordering::Acquire)
    }

    /// Copies the first bytes of the result, which fill `to`.
    ///
    /// # Panics
    /// If `to` is longer than [`CELL_BYTES`].
    #[inline]
    pub fn result(&self, to: BytesMut<'_>) {
        assert!(to.len() <= CELL_BYTES, "{} bytes of a result are wanted", to.len());
        if !to.is_empty() {
            // SAFETY: the result is long enough, and not written before this rank has arrived at the next operation (rule 4).
            self.read(0, |result| unsafe { Bytes::from_raw(result, to.len()) }.copy_to(to));
        }
    }

    /// Copies the first bytes of a rank's own cell, which fill `to`: what an exchange has brought it.
    ///
    /// # Panics
    /// If there is no such rank, or `to` is longer than [`CELL_BYTES`].
    #[inline]
    pub fn own(&self, rank: u32, to: BytesMut<'_>) {
        assert!(
            rank < self.ranks && to.len() <= CELL_BYTES,
            "rank {rank} of {} wants {} bytes",
            self.ranks,
            to.len()
        );
        // SAFETY: the cell is long enough, and nobody else's from the end of the operation on (rule 1).
        self.read(rank + 1, |cell| unsafe { Bytes::from_raw(cell, to.len()) }.copy_to(to));
    }

    /// Announces that this rank is about to sleep, and looks once more (rule 5). `true`: the operation is over.
    #[cold]
    pub fn want(&self, generation: u64) -> bool {
        self.word(1, 1).store(1, Ordering::Relaxed);
        self.barrier.heavy();
        self.is_over(generation)
    }

    /// A rank will not come again (rule 6).
    pub fn leave(&self) {
        self.word(0, 1).fetch_add(1, Ordering::AcqRel);
    }

    /// Takes the section for another team if all ranks of the last one have left (rule 6).
    pub fn reuse(&self, ranks_before: u32) -> bool {
        let left = self.word(0, 1);
        left.compare_exchange(u64::from(ranks_before), 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
