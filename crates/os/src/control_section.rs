//! The shared memory of one team's collectives: a control section and a message pool.
//!
//! Collectives on one node are dearest in what surrounds them: messages, matching, and, with more ranks than processors, a
//! change of process for each message. Here a rank writes what others need into memory of its own, and says so with one
//! word; who needs it waits for the word. Of ranks that take turns on a processor each runs once per operation. Longer data
//! go piece by piece through the segments of the pool, so that some write while others read.
//!
//! ```text
//! line 0            word 0: ranks that have left for good    word 1: the last step of the teams before
//! then, for each    a line, word 0: the last step it is done with
//! rank              a line, word 0: a bit for each rank that sleeps until it goes on
//!                   a line for each segment, word 0: the step that was published there, words 1 to 7: short data
//! then the pool     for each rank, for each segment, `segment_bytes`
//! ```
//!
//! The components guide has two lines for each segment of each rank, a pool that all ranks share in every step, and a barrier
//! behind the last segment. Here data of up to [`SHORT_BYTES`] ride in the line that announces them, each rank has a pool of
//! its own, and nobody waits for all but who wants to write where somebody may still read.
//!
//! Rules
//! 1. *Step.* The ranks of a team number the steps of their collectives alike. Step `s` uses segment `s` modulo the number of
//!    segments. A collective takes as many steps as follow from what all ranks know alike.
//! 2. *Write.* Nobody writes the segment of step `s`, line or pool, before all ranks are done with the step that used it
//!    last. A rank writes its own line alone, and its own part of the pool; in a step whose data all come from one rank
//!    (a scatter) that one writes the parts of all. Of two ranks, one that has seen a step may write over what the other has
//!    written for it, who reads that when it has seen a later step that says so (an allreduce).
//! 3. *Publish.* Then it stores `s` to word 0 of its line of the segment (release). Others read what it has written only
//!    after they have loaded `s` there (acquire).
//! 4. *Done.* A rank that will neither read nor write anything of the steps up to `s` stores `s` to its word of steps done
//!    (release), whether it had a part in them or not. Who wants to write loads it (acquire).
//! 5. *Seen.* A rank begins a blocking collective when it is done with all steps before. So who has seen that it published
//!    its first step of this one knows the same as from its word of steps done; of two ranks, who only reads, too.
//! 6. *Sleep.* A rank that is about to sleep until another one publishes or is done sets its bit in that one's word of
//!    sleepers (relaxed), then heavy barrier, then looks once more. The other one stores its word, then light barrier, then
//!    loads the word of sleepers; if it is not 0 it takes all bits and has the doors of those rung. So one of them sees the
//!    other.
//! 7. *Leave.* A rank that will not come again raises the last step to its own, then counts itself out. When all have,
//!    another team may use the section, with steps after that one.
//! 8. *Place.* The lines of a rank, and the beginning of the pool, are where they are whatever the size of the team. So what a
//!    team finds in the words of its lines are steps of teams before it, none later than the last step of those (rule 7).
//! 9. *Turn.* A nonblocking collective takes its steps when it is called, and may write and publish them at once (rule 2),
//!    though the rank is not done with steps before. All else a rank does with its open collectives in the order of their
//!    steps, the one whose turn it is, so that it is done with steps in their order (rule 4). Rule 5 says nothing of them.
//! 10. *Exchange.* Two ranks exchange their parts of the pool with every lap of the segments: each writes where it read a lap
//!     ago. The lines are in its cache since, and go from core to core once in a step and not twice. So one of two ranks is done
//!     itself, too, with the step that used a segment last before it writes there. Where a step names the parts (a scatter; an
//!     allreduce, in which what was written comes back) they are as they are.
//! 11. *Long.* Of more than two ranks one may write more than a segment at a time, if all know that it does: into several that
//!     lie side by side and not across the end of a lap. Each is a step; the last of them is published, and who is done with
//!     that is done with all. Steps that were left out before it, so that it fits, are ones that nobody needs (rule 4).

use crate::{
    barrier::BarrierKind,
    bytes::{Bytes, BytesMut},
    hint::prefetch_to_read,
    line::{Keep, LINE_BYTES, LINE_WORDS, Line, Touch, Watched, heap_data, heap_lines},
    sync::{AtomicU64, Ordering},
};
use std::ptr::NonNull;

/// The longest data that ride in the line that announces them, bytes.
pub const SHORT_BYTES: usize = (LINE_WORDS - 1) * size_of::<u64>();
/// The most ranks of a team: each has a bit in the words of sleepers.
pub const MAX_RANKS: u32 = 64;

/// Ranks whose pools are as long as was asked for; more ranks share as much memory.
const FULL_POOLS: usize = 16;
/// The longest data that [`ControlSection::fetch`] fetches, bytes. Of longer ones lines are taken from their writer before it has
/// written them.
pub const FETCHED_BYTES: usize = 512;
/// Lines of a rank before those of its segments.
const RANK_LINES: usize = 2;

/// The sizes of a message pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSegments {
    /// How many segments there are: 2 to 64.
    pub count: u32,
    /// Bytes of a segment of a rank: a multiple of 64. Teams of more than 16 ranks have less.
    pub bytes: u32,
}

impl PoolSegments {
    /// A pool of at most `bytes` bytes for a rank, in `count` segments of at least a line.
    pub const fn of_pool(bytes: u32, count: u32) -> PoolSegments {
        let lines = bytes / LINE_BYTES as u32 / if count == 0 { 1 } else { count };
        PoolSegments { count, bytes: LINE_BYTES as u32 * if lines == 0 { 1 } else { lines } }
    }

    /// What is wrong with these sizes, if anything.
    ///
    /// # Errors
    /// A text for the user.
    pub fn check(&self) -> Result<(), String> {
        if !(2..=64).contains(&self.count) {
            return Err(format!(
                "{} segments in a message pool of collectives: 2 to 64 are possible",
                self.count
            ));
        }
        let bytes = self.bytes as usize;
        if bytes == 0 || !bytes.is_multiple_of(LINE_BYTES) || bytes > 1 << 24 {
            return Err(format!(
                "segments of {bytes} bytes in a message pool of collectives: a multiple of {LINE_BYTES} up to 16 MiB is possible"
            ));
        }
        Ok(())
    }

    /// Bytes of a segment of each rank in a team of some ranks; 0 if there are too many.
    pub const fn bytes_for(&self, ranks: u32) -> usize {
        if ranks as usize <= FULL_POOLS {
            return self.bytes as usize;
        }
        (self.bytes as usize * FULL_POOLS / ranks as usize) & !(LINE_BYTES - 1)
    }
}

/// A control section with its message pool, for a team of some ranks. Cloning it gives another view of the same one.
#[derive(Clone, Debug)]
pub struct ControlSection {
    lines: NonNull<Line>,
    pool: NonNull<u8>,
    ranks: u32,
    segments: u32,
    segment_bytes: usize,
    barrier: BarrierKind,
    watched: Watched,
    _keep: [Keep; 2],
}

// SAFETY: the memory behind `lines` is atomics, that behind `pool` is handed from rank to rank by the protocol (rules 2
// to 5); `_keep` keeps both mapped.
unsafe impl Send for ControlSection {}
// SAFETY: as above.
unsafe impl Sync for ControlSection {}

impl ControlSection {
    /// Bytes of memory that a section for up to `ranks` ranks takes.
    pub const fn bytes(ranks: u32, segments: &PoolSegments) -> usize {
        let pools = if ranks as usize > FULL_POOLS { FULL_POOLS } else { ranks as usize };
        let pool = pools * segments.count as usize * segments.bytes as usize;
        ControlSection::lines(ranks, segments.count) * LINE_BYTES + pool
    }

    const fn lines(ranks: u32, segments: u32) -> usize {
        1 + ranks as usize * (RANK_LINES + segments as usize)
    }

    /// A section in zeroed memory on the heap, for threads of one process.
    pub fn on_heap(ranks: u32, segments: PoolSegments, barrier: BarrierKind) -> ControlSection {
        let lines = heap_lines(ControlSection::lines(ranks, segments.count));
        let segment_bytes = segments.bytes_for(ranks);
        let bytes = ranks as usize * segments.count as usize * segment_bytes;
        let pool = heap_data(bytes);
        ControlSection {
            lines: NonNull::from(&lines[..]).cast(),
            pool: NonNull::from(&pool[..]).cast(),
            ranks,
            segments: segments.count,
            segment_bytes,
            barrier,
            watched: Watched::new(bytes),
            _keep: [std::sync::Arc::new(lines), std::sync::Arc::new(pool)],
        }
    }

    /// A section for a team of some ranks, of `most` for which there is memory, which `keep` keeps mapped.
    ///
    /// # Safety
    /// `start` must point to [`ControlSection::bytes`] bytes for `most` ranks, on a cache line, zero at first and used for
    /// nothing else but other teams of it.
    #[cfg(not(loom))]
    pub(crate) unsafe fn from_raw(
        start: NonNull<u8>,
        (ranks, most): (u32, u32),
        segments: PoolSegments,
        barrier: BarrierKind,
        keep: Keep,
    ) -> ControlSection {
        let segment_bytes = segments.bytes_for(ranks);
        ControlSection {
            lines: start.cast(),
            // SAFETY: the pool lies behind the lines of all that there may be (rule 8), in the caller's memory.
            pool: unsafe { start.add(ControlSection::lines(most, segments.count) * LINE_BYTES) },
            ranks,
            segments: segments.count,
            segment_bytes,
            barrier,
            watched: Watched::new(0),
            _keep: [keep.clone(), keep],
        }
    }

    /// How many segments there are: so many steps may be under way at a time.
    #[inline]
    pub fn segments(&self) -> u64 {
        u64::from(self.segments)
    }

    /// The longest data of one rank in one step, bytes: a multiple of 64, 0 if the team is too large for the pool.
    #[inline]
    pub fn segment_bytes(&self) -> usize {
        self.segment_bytes
    }

    #[inline]
    fn line(&self, line: usize) -> &[AtomicU64; LINE_WORDS] {
        // SAFETY: all callers name a line of an existing rank and segment, or the first.
        unsafe { &(*self.lines.as_ptr().add(line)).words }
    }

    #[inline]
    fn rank_line(&self, rank: u32) -> usize {
        assert!(rank < self.ranks, "rank {rank} of {}", self.ranks);
        1 + rank as usize * (RANK_LINES + self.segments as usize)
    }

    #[inline]
    fn done(&self, rank: u32) -> &AtomicU64 {
        &self.line(self.rank_line(rank))[0]
    }

    #[inline]
    fn sleepers_of(&self, rank: u32) -> &AtomicU64 {
        &self.line(self.rank_line(rank) + 1)[0]
    }

    #[inline]
    fn segment_of(&self, step: u64) -> usize {
        // A division by what is not known before costs as much as a short collective.
        if self.segments.is_power_of_two() {
            (step & u64::from(self.segments - 1)) as usize
        } else {
            (step % u64::from(self.segments)) as usize
        }
    }

    #[inline]
    fn segment_line(&self, rank: u32, step: u64) -> &[AtomicU64; LINE_WORDS] {
        self.line(self.rank_line(rank) + RANK_LINES + self.segment_of(step))
    }

    /// Where the part of a rank begins in the pool.
    #[inline]
    fn part(&self, rank: u32, step: u64, len: usize) -> usize {
        let segment = self.segment_of(step);
        if len <= self.segment_bytes && rank < self.ranks {
            return (rank as usize * self.segments as usize + segment) * self.segment_bytes;
        }
        self.long_part(rank, segment, len)
    }

    /// As [`ControlSection::part`], of data that take several segments (rule 11).
    #[inline(never)]
    fn long_part(&self, rank: u32, last: usize, len: usize) -> usize {
        let needed = len.div_ceil(self.segment_bytes.max(1));
        assert!(
            rank < self.ranks && needed <= last + 1,
            "{len} bytes of rank {rank} in {} segments of {} bytes for {} ranks",
            last + 1,
            self.segment_bytes,
            self.ranks
        );
        (rank as usize * self.segments as usize + last + 1 - needed) * self.segment_bytes
    }

    /// In whose part a rank writes in a step (rule 10).
    #[inline]
    fn place(&self, rank: u32, step: u64) -> u32 {
        let segments = u64::from(self.segments);
        match self.ranks {
            2 if segments.is_power_of_two() => rank ^ u32::from(step & segments != 0),
            2 => rank ^ (step / segments % 2) as u32,
            _ => rank,
        }
    }

    /// Has `fill` write what `rank`, the caller, has for a step: `len` bytes (rule 2).
    ///
    /// # Panics
    /// If there is no such rank, or no room for so many bytes.
    #[inline]
    pub fn write(&self, rank: u32, step: u64, len: usize, fill: impl FnOnce(BytesMut<'_>)) {
        if len > SHORT_BYTES {
            return self.write_part(self.place(rank, step), step, len, fill);
        }
        let mut words = [0u64; LINE_WORDS - 1];
        // SAFETY: the words are ours and longer than that.
        fill(unsafe { BytesMut::from_raw(words.as_mut_ptr().cast(), len) });
        let line = self.segment_line(rank, step);
        for (to, word) in line[1..].iter().zip(words).take(len.div_ceil(size_of::<u64>())) {
            to.store(word, Ordering::Relaxed);
        }
    }

    /// As [`ControlSection::write`], always in the pool, and for the part of any rank in a step whose data all come from the
    /// caller, or which it writes over (rule 2).
    ///
    /// # Panics
    /// As [`ControlSection::write`].
    #[inline]
    pub fn write_part(&self, rank: u32, step: u64, len: usize, fill: impl FnOnce(BytesMut<'_>)) {
        let at = self.part(rank, step, len);
        self.watched.touch(at, len, Touch::Write);
        // SAFETY: the part lies in the pool and is the caller's until it publishes the step (rule 2).
        fill(unsafe { BytesMut::from_raw(self.pool.as_ptr().add(at), len) });
    }

    /// Shows `f` what a rank has written for a step, all `len` bytes of it; it has published the step (rule 3) or is the
    /// caller.
    ///
    /// # Panics
    /// As [`ControlSection::write`].
    #[inline]
    pub fn read<R>(&self, rank: u32, step: u64, len: usize, f: impl FnOnce(Bytes<'_>) -> R) -> R {
        if len > SHORT_BYTES {
            return self.read_part(self.place(rank, step), step, len, f);
        }
        let mut words = [0u64; LINE_WORDS - 1];
        let line = self.segment_line(rank, step);
        for (word, from) in words.iter_mut().zip(&line[1..]).take(len.div_ceil(size_of::<u64>())) {
            *word = from.load(Ordering::Relaxed);
        }
        // SAFETY: the words are ours and longer than that.
        f(unsafe { Bytes::from_raw(words.as_ptr().cast(), len) })
    }

    /// As [`ControlSection::read`], of what was written by [`ControlSection::write_part`].
    ///
    /// # Panics
    /// As [`ControlSection::write`].
    #[inline]
    pub fn read_part<R>(&self, rank: u32, step: u64, len: usize, f: impl FnOnce(Bytes<'_>) -> R) -> R {
        let at = self.part(rank, step, len);
        self.watched.touch(at, len, Touch::Read);
        // SAFETY: the part lies in the pool, and nobody writes it before the caller is done with the step (rules 2 and 4).
        f(unsafe { Bytes::from_raw(self.pool.as_ptr().add(at), len) })
    }

    /// Fetches the `len` bytes that a rank writes for a step in the pool, if they are at most [`FETCHED_BYTES`]. Before a look at
    /// whether it has published the step: both come at the same time then, instead of one after the other.
    ///
    /// # Panics
    /// As [`ControlSection::write`].
    #[inline]
    pub fn fetch(&self, rank: u32, step: u64, len: usize) {
        self.fetch_part(self.place(rank, step), step, len);
    }

    /// As [`ControlSection::fetch`], of what is written by [`ControlSection::write_part`].
    ///
    /// # Panics
    /// As [`ControlSection::write`].
    #[inline]
    pub fn fetch_part(&self, rank: u32, step: u64, len: usize) {
        let at = self.part(rank, step, len);
        if len > FETCHED_BYTES {
            return;
        }
        for line in (0..len).step_by(LINE_BYTES) {
            prefetch_to_read(self.pool.as_ptr().wrapping_add(at + line));
        }
    }

    /// Tells that `rank`, the caller, has written its data of a step (rule 3). Ask for sleepers afterwards.
    #[inline]
    pub fn publish(&self, rank: u32, step: u64) {
        self.segment_line(rank, step)[0].store(step, Ordering::Release);
    }

    /// Whether a rank has published a step (rule 3).
    #[inline]
    pub fn is_published(&self, rank: u32, step: u64) -> bool {
        self.segment_line(rank, step)[0].load(Ordering::Acquire) >= step
    }

    /// Tells that `rank`, the caller, is done with all steps up to this one (rule 4). Ask for sleepers afterwards.
    #[inline]
    pub fn finish(&self, rank: u32, step: u64) {
        self.done(rank).store(step, Ordering::Release);
    }

    /// The last step that a rank is done with (rule 4).
    #[inline]
    pub fn done_with(&self, rank: u32) -> u64 {
        self.done(rank).load(Ordering::Acquire)
    }

    /// The ranks, a bit for each, that sleep until `rank`, the caller, publishes or is done, which it just did; they must be
    /// woken (rule 6).
    #[inline]
    pub fn take_sleepers(&self, rank: u32) -> u64 {
        self.barrier.light();
        let sleepers = self.sleepers_of(rank);
        if sleepers.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        sleepers.swap(0, Ordering::Relaxed)
    }

    /// Announces that rank `me` is about to sleep until rank `of` goes on. Look once more afterwards (rule 6).
    #[cold]
    pub fn want(&self, of: u32, me: u32) {
        self.sleepers_of(of).fetch_or(1 << (me % MAX_RANKS), Ordering::Relaxed);
        self.barrier.heavy();
    }

    /// A rank that has taken part up to this step will not come again (rule 7).
    pub fn leave(&self, step: u64) {
        self.line(0)[1].fetch_max(step, Ordering::Relaxed);
        self.line(0)[0].fetch_add(1, Ordering::AcqRel);
    }

    /// Takes the section for another team if all ranks of the last one have left (rule 7).
    pub fn reuse(&self, ranks_before: u32) -> bool {
        let left = &self.line(0)[0];
        left.compare_exchange(u64::from(ranks_before), 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The last step of the teams before (rule 7).
    pub fn last_step(&self) -> u64 {
        self.line(0)[1].load(Ordering::Relaxed)
    }
}
