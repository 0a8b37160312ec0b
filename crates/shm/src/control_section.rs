//! The shared memory of one team's collectives: a control section and a message pool.
//!
//! A rank writes the data for other ranks into its own memory and publishes them with one word, for
//! which the readers wait. This avoids messages, matching, and a process switch for each message:
//! if several ranks share a processor, each runs once per operation. Longer data go piece by piece
//! through the segments of the pool, so that writing and reading overlap.
//!
//! ```text
//! line 0            word 0: ranks that have left for good
//!                   word 1: the last step of earlier teams
//!                   words 2 and 3: two lengths of one call that differ (rule 15)
//! then, for each    a line, word 0: the last step it is done with
//! rank              a line, word 0: a bit for each rank that sleeps until this rank continues
//!                   a line for each segment, word 0: the step that was published there, and
//!                   the length of the call; words 1 to 7: short data, or else word 1: that length
//! then the pool     for each turn (rule 12), for each rank, for each segment, `segment_bytes`
//! ```
//!
//! Data of up to [`SHORT_BYTES`] are in the line that announces them. Each rank has its own pool. A
//! rank waits for all other ranks only before it writes where another rank may still read.
//!
//! Rules
//! 1. *Step.* The ranks of a team number the steps of their collectives alike. Step `s` uses
//!    segment `s` modulo the number of segments. The number of steps of a collective follows from
//!    facts that all ranks know.
//! 2. *Write.* No rank writes the segment of step `s`, line or pool, before all ranks are done with
//!    the last step that used it. A rank writes only its own line and its own part of the pool; in
//!    a step with data from one rank only (a scatter), that rank writes all parts. In a team of two
//!    ranks (an allreduce) a rank that has seen the other's step may overwrite the other's data
//!    with the result; the other reads the result after a later step is published.
//! 3. *Publish.* Then the rank stores `s` to word 0 of its line of the segment (release). Other
//!    ranks read the data only after they have loaded `s` there (acquire).
//! 4. *Done.* A rank that will neither read nor write anything of the steps up to `s`, or has no
//!    part in them, stores `s` to its word of steps done (release). A writer loads it (acquire).
//! 5. *Seen.* A rank begins a blocking collective only when it is done with all earlier steps. So a
//!    rank that sees another rank's first step in the collective knows this without the word of
//!    steps done. In a team of two it then knows this of all other ranks.
//! 6. *Sleep.* Before it sleeps until another rank publishes or is done, a rank sets its bit in
//!    that rank's word of sleepers (relaxed), then a heavy barrier, then polls once more. The other
//!    rank stores its word, then a light barrier, then loads the word of sleepers; if it is not 0,
//!    it takes all bits and rings the doors. So one of the two sees the other.
//! 7. *Leave.* A rank that will not use the section any more raises word 1 of line 0 to its last
//!    step, then counts itself in word 0. When all ranks have left, another team may use the
//!    section, with later steps.
//! 8. *Place.* The places of a rank's lines and of the pool do not depend on the size of the team.
//!    So a new team finds steps of earlier teams in its lines, none of them after the last step of
//!    rule 7.
//! 9. *Turn.* A section serves either blocking collectives or nonblocking ones. A nonblocking
//!    collective takes its steps when it is called, and may write and publish them at once (rule
//!    2). All its other work is in the order of the steps, so a rank is done with steps in their
//!    order (rule 4). Rule 5 does not hold.
//! 10. *Exchange.* Two ranks exchange their parts of the pool with every lap of the segments. So
//!     each writes lines that it has read a lap before and that are in its own cache, and a line
//!     crosses between cores once per step instead of twice. Each of the two ranks writes a segment
//!     only after it is itself done with the last step there. Parts are not exchanged where steps
//!     name them (a scatter; an allreduce in place).
//! 11. *Long.* In a team of more than two, a rank may write into several adjacent segments of one
//!     lap at a time, if all ranks know this. Each segment is a step. Only the last one is
//!     published, and a rank that is done with it is done with all. Steps skipped before the data
//!     are unused (rule 4).
//! 12. *Turn about.* Data may be in another place with every lap, if all ranks of a step know this.
//!     The private caches of the readers have then dropped the lines before they are written again.
//!     There is a pool for each turn. If pieces fit several times in a segment, they fill the
//!     segment before the next turn begins.
//! 13. *In time.* A reader that polls a line before it is written takes the line from the writer.
//!     If two ranks each publish a line and wait for the other's, this delays the later rank, which
//!     is then the first at the next step. Therefore each rank fetches the line of its next step
//!     for writing while it waits, and publishes by a locked instruction, which ends when the line
//!     is in its cache.
//! 14. *Length.* With the first step of a collective a rank states the length of its call: in the
//!     six low bits of word 0 or, for data in the pool, in word 1, which is written before word 0.
//!     The reader compares this length with that of its own call. For short data one comparison
//!     covers step and length.
//! 15. *Apart.* The number of steps may depend on the length. A rank that sees another length
//!     continues after the steps of the ranks that gave the data, if it knows that all other ranks
//!     do so. If not, it writes both lengths to line 0, once for the team, and wakes all ranks,
//!     which stop waiting.

use oxmpi_sys::{
    barrier::BarrierKind,
    bytes::{Bytes, BytesMut},
    hint::{prefetch_to_read, prefetch_to_write},
    line::{Keep, LINE_BYTES, LINE_WORDS, Line, Touch, Watched, heap_data, heap_lines},
    sync::{AtomicU64, Ordering},
};
use std::ptr::NonNull;
#[cfg(not(loom))]
use std::sync::Arc;

/// The longest data, in bytes, in the line that announces them.
pub const SHORT_BYTES: usize = (LINE_WORDS - 1) * size_of::<u64>();
/// The most ranks of a team: each has a bit in the words of sleepers.
pub const MAX_RANKS: u32 = 64;

/// The largest team with pools of the requested size; larger teams share the same memory.
const FULL_POOLS: usize = 16;
/// In bytes. For longer data [`ControlSection::fetch`] would take lines before they are written.
pub const FETCHED_BYTES: usize = 512;
/// A section has memory for the pools of at least this number of ranks: turns of small teams (rule
/// 12).
const LEAST_POOLS: usize = 8;
/// The most turns. Pools of the usual size then take twice the private caches of a core.
const MOST_TURNS: u32 = 4;
const STATED_BITS: u32 = 6;
/// The stated length of a step that states none.
const NOTHING_STATED: u64 = 62;
const STATED_IN_WORD_1: u64 = 63;
const _: () = assert!(SHORT_BYTES < NOTHING_STATED as usize);
const TEAM_LINES: usize = 1;
const RANK_LINES: usize = 2;

/// The sizes of a message pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSegments {
    /// Number of segments, 2 to 64.
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

    /// Checks the sizes; the error is a text for the user.
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

    /// Bytes of the pool of a rank.
    pub const fn all_bytes(&self) -> usize {
        self.count as usize * self.bytes as usize
    }

    /// Bytes of a segment of each rank in a team of `ranks` ranks; 0 if there are too many.
    pub const fn bytes_for(&self, ranks: u32) -> usize {
        if ranks as usize <= FULL_POOLS {
            return self.bytes as usize;
        }
        (self.bytes as usize * FULL_POOLS / ranks as usize) & !(LINE_BYTES - 1)
    }
}

/// The length of a rank's data in a step. A plain number means data without turns (rule 12).
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    len: usize,
    is_turning: bool,
}

impl Extent {
    /// `len` bytes that are in another place with every lap (rule 12).
    pub const fn turning(len: usize) -> Extent {
        Extent { len, is_turning: true }
    }
}

impl From<usize> for Extent {
    fn from(len: usize) -> Extent {
        Extent { len, is_turning: false }
    }
}

/// The length of a call that a rank states when it publishes a step (rule 14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stated {
    /// The step is not the first of a collective, or has no data.
    Nothing,
    /// In bytes, at most [`SHORT_BYTES`]: the data are in the line.
    InLine(usize),
    /// In bytes; the data are in the pool.
    InPool(usize),
}

impl Stated {
    /// The length of a call whose first data are in the line (`in_line`) or in the pool.
    #[inline(always)]
    pub const fn of(length: usize, in_line: bool) -> Stated {
        match in_line {
            false => Stated::InPool(length),
            true if length <= SHORT_BYTES => Stated::InLine(length),
            // A short piece of a longer message.
            true => Stated::Nothing,
        }
    }

    #[inline(always)]
    const fn word(self, step: u64) -> u64 {
        let low = match self {
            Stated::Nothing => NOTHING_STATED,
            Stated::InLine(length) => length as u64,
            Stated::InPool(_) => STATED_IN_WORD_1,
        };
        step << STATED_BITS | low
    }
}

/// A control section with its message pool, for one team. A clone is a view of the same section.
#[derive(Clone, Debug)]
pub struct ControlSection {
    lines: NonNull<Line>,
    pool: NonNull<u8>,
    ranks: u32,
    segments: u32,
    segment_bytes: usize,
    turns: u32,
    barrier: BarrierKind,
    /// A bit for each segment whose pages exist: of all ranks in the first turn, then in the next
    /// ones.
    #[cfg(not(loom))]
    populated: Arc<[AtomicU64]>,
    watched: Watched,
    _keep: [Keep; 2],
}

// SAFETY: the memory behind `lines` is atomics; the memory behind `pool` goes from rank to rank by
// rules 2 to 5; `_keep` keeps both mapped.
unsafe impl Send for ControlSection {}
// SAFETY: as above.
unsafe impl Sync for ControlSection {}

impl ControlSection {
    /// Bytes of a section for up to `ranks` ranks.
    pub const fn bytes(ranks: u32, segments: &PoolSegments) -> usize {
        ControlSection::lines(ranks, segments.count) * LINE_BYTES
            + ControlSection::pools(ranks) * segments.all_bytes()
    }

    const fn pools(ranks: u32) -> usize {
        match ranks as usize {
            0..LEAST_POOLS => LEAST_POOLS,
            few @ LEAST_POOLS..FULL_POOLS => few,
            _ => FULL_POOLS,
        }
    }

    /// The turns that a team of `ranks` ranks has in `pools` pools: a power of two (rule 12).
    const fn turns(ranks: u32, pools: usize) -> u32 {
        let mut turns = MOST_TURNS;
        while turns > 1 && turns as usize * ranks as usize > pools {
            turns /= 2;
        }
        turns
    }

    const fn lines(ranks: u32, segments: u32) -> usize {
        TEAM_LINES + ranks as usize * (RANK_LINES + segments as usize)
    }

    /// A section in zeroed memory on the heap, for threads of one process.
    pub fn on_heap(ranks: u32, segments: PoolSegments, barrier: BarrierKind) -> ControlSection {
        let lines = heap_lines(ControlSection::lines(ranks, segments.count));
        let segment_bytes = segments.bytes_for(ranks);
        // The model checker follows every line, so less memory is faster.
        let turns = if cfg!(loom) { 1 } else { MOST_TURNS };
        let pool_bytes = turns as usize * ranks as usize * segments.count as usize * segment_bytes;
        let pool = heap_data(pool_bytes);
        ControlSection {
            lines: NonNull::from(&lines[..]).cast(),
            pool: NonNull::from(&pool[..]).cast(),
            ranks,
            segments: segments.count,
            segment_bytes,
            turns,
            barrier,
            #[cfg(not(loom))]
            populated: (0..turns * ranks).map(|_| AtomicU64::new(0)).collect(),
            watched: Watched::new(pool_bytes),
            _keep: [std::sync::Arc::new(lines), std::sync::Arc::new(pool)],
        }
    }

    /// A section for a team of `ranks` ranks, in memory for `most`, which `keep` keeps mapped.
    ///  Safety: `start` points to [`ControlSection::bytes`] bytes for `most` ranks, on a cache
    /// line, zero at first and used only for teams of this section.
    #[cfg(not(loom))]
    pub(crate) unsafe fn from_raw(
        start: NonNull<u8>,
        (ranks, most): (u32, u32),
        segments: PoolSegments,
        barrier: BarrierKind,
        keep: Keep,
    ) -> ControlSection {
        let segment_bytes = segments.bytes_for(ranks);
        let pools = ControlSection::pools(most);
        let turns = ControlSection::turns(ranks, pools);
        ControlSection {
            lines: start.cast(),
            // SAFETY: the pool begins after the caller's lines for `most` ranks (rule 8).
            pool: unsafe { start.add(ControlSection::lines(most, segments.count) * LINE_BYTES) },
            ranks,
            segments: segments.count,
            segment_bytes,
            turns,
            barrier,
            populated: (0..turns * ranks).map(|_| AtomicU64::new(0)).collect(),
            watched: Watched::new(0),
            _keep: [keep.clone(), keep],
        }
    }

    /// The number of segments, which limits the steps under way at a time.
    #[inline]
    pub fn segments(&self) -> u64 {
        u64::from(self.segments)
    }

    /// The longest data of one rank in one step, in bytes; 0 if the team is too large for the pool.
    #[inline]
    pub fn segment_bytes(&self) -> usize {
        self.segment_bytes
    }

    #[inline]
    fn line(&self, line: usize) -> &[AtomicU64; LINE_WORDS] {
        // SAFETY: callers name a line of an existing rank and segment, or of the team.
        unsafe { &(*self.lines.as_ptr().add(line)).words }
    }

    #[inline]
    fn rank_line(&self, rank: u32) -> usize {
        assert!(rank < self.ranks, "rank {rank} of {}", self.ranks);
        TEAM_LINES + rank as usize * (RANK_LINES + self.segments as usize)
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
        // A division by a variable costs as much as a short collective.
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

    #[inline]
    fn part(&self, rank: u32, step: u64, Extent { len, is_turning }: Extent) -> usize {
        let segment = self.segment_of(step);
        if len > self.segment_bytes || rank >= self.ranks {
            return self.long_part(rank, segment, len);
        }
        if is_turning {
            return self.turning_part(rank, step, len);
        }
        (rank as usize * self.segments as usize + segment) * self.segment_bytes
    }

    /// As [`ControlSection::part`], for data that turn (rule 12).
    #[inline(never)]
    fn turning_part(&self, rank: u32, step: u64, len: usize) -> usize {
        let pieces = 1 << (self.segment_bytes / len.max(LINE_BYTES)).max(1).ilog2();
        let lap = (step / self.segments()) as usize % (pieces * self.turns as usize);
        let (turn, piece) = (lap / pieces, lap % pieces);
        let pool = turn * self.ranks as usize + rank as usize;
        let segment = self.segment_of(step);
        #[cfg(not(loom))]
        if self.populated[pool].load(Ordering::Relaxed) >> segment & 1 == 0 {
            self.populated[pool].fetch_or(1 << segment, Ordering::Relaxed);
            let start = (pool * self.segments as usize + segment) * self.segment_bytes;
            self.ask_for_pages(start, self.segment_bytes);
        }
        let piece_bytes = (self.segment_bytes / pieces) & !(LINE_BYTES - 1);
        (pool * self.segments as usize + segment) * self.segment_bytes + piece * piece_bytes
    }

    /// The kernel makes these pages in one call: single page faults take several times as long. The
    /// writer calls this first, so that the pages are on its NUMA node.
    #[cfg(not(loom))]
    #[cold]
    fn ask_for_pages(&self, start: usize, len: usize) {
        // SAFETY: the callers name bytes of the pools, which are whole pages of the mapping.
        unsafe { oxmpi_sys::memory::populate(self.pool.add(start), len) };
    }

    /// As [`ControlSection::part`], for data in several segments (rule 11).
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

    /// The rank in whose part `rank` writes in a step (rule 10).
    #[inline]
    fn place(&self, rank: u32, step: u64) -> u32 {
        let segments = u64::from(self.segments);
        match self.ranks {
            2 if segments.is_power_of_two() => rank ^ u32::from(step & segments != 0),
            2 => rank ^ (step / segments % 2) as u32,
            _ => rank,
        }
    }

    /// `fill` writes the `len` bytes of `rank`, the caller (rule 2). Panics without room.
    #[inline]
    pub fn write(
        &self,
        rank: u32,
        step: u64,
        extent: impl Into<Extent>,
        fill: impl FnOnce(BytesMut<'_>),
    ) {
        let extent @ Extent { len, .. } = extent.into();
        if len > SHORT_BYTES {
            return self.write_part(self.place(rank, step), step, extent, fill);
        }
        let mut words = [0u64; LINE_WORDS - 1];
        // SAFETY: `words` is a local of more than `len` bytes.
        fill(unsafe { BytesMut::from_raw(words.as_mut_ptr().cast(), len) });
        let line = self.segment_line(rank, step);
        for (to, word) in line[1..].iter().zip(words).take(len.div_ceil(size_of::<u64>())) {
            to.store(word, Ordering::Relaxed);
        }
    }

    /// As [`ControlSection::write`], never in a line, for any part that the caller may write.
    #[inline]
    pub fn write_part(
        &self,
        rank: u32,
        step: u64,
        extent: impl Into<Extent>,
        fill: impl FnOnce(BytesMut<'_>),
    ) {
        let extent @ Extent { len, .. } = extent.into();
        let at = self.part(rank, step, extent);
        self.watched.touch(at, len, Touch::Write);
        // SAFETY: the part belongs to the caller until it publishes the step (rule 2).
        fill(unsafe { BytesMut::from_raw(self.pool.as_ptr().add(at), len) });
    }

    /// Calls `f` with the `len` bytes of `rank` for a step, which is published (rule 3) unless
    /// `rank` is the caller.
    #[inline]
    pub fn read<R>(
        &self,
        rank: u32,
        step: u64,
        extent: impl Into<Extent>,
        f: impl FnOnce(Bytes<'_>) -> R,
    ) -> R {
        let extent @ Extent { len, .. } = extent.into();
        if len > SHORT_BYTES {
            return self.read_part(self.place(rank, step), step, extent, f);
        }
        let mut words = [0u64; LINE_WORDS - 1];
        let line = self.segment_line(rank, step);
        for (word, from) in words.iter_mut().zip(&line[1..]).take(len.div_ceil(size_of::<u64>())) {
            *word = from.load(Ordering::Relaxed);
        }
        // SAFETY: `words` is a local of more than `len` bytes.
        f(unsafe { Bytes::from_raw(words.as_ptr().cast(), len) })
    }

    /// As [`ControlSection::read`], for data written by [`ControlSection::write_part`].
    #[inline]
    pub fn read_part<R>(
        &self,
        rank: u32,
        step: u64,
        extent: impl Into<Extent>,
        f: impl FnOnce(Bytes<'_>) -> R,
    ) -> R {
        let extent @ Extent { len, .. } = extent.into();
        let at = self.part(rank, step, extent);
        self.watched.touch(at, len, Touch::Read);
        // SAFETY: no rank writes the part before the caller is done (rules 2 and 4).
        f(unsafe { Bytes::from_raw(self.pool.as_ptr().add(at), len) })
    }

    /// Fetches the data of a step in the pool, if they are at most [`FETCHED_BYTES`]. Call it
    /// before the poll for the step, so that both cache misses overlap.
    #[inline]
    pub fn fetch(&self, rank: u32, step: u64, len: usize) {
        self.fetch_part(self.place(rank, step), step, len);
    }

    /// As [`ControlSection::fetch`], for data written by [`ControlSection::write_part`].
    #[inline]
    pub fn fetch_part(&self, rank: u32, step: u64, len: usize) {
        let at = self.part(rank, step, len.into());
        if len > FETCHED_BYTES {
            return;
        }
        for line in (0..len).step_by(LINE_BYTES) {
            prefetch_to_read(self.pool.as_ptr().wrapping_add(at + line));
        }
    }

    /// Publishes a step of `rank`, the caller (rules 3 and 14). Wake the sleepers afterwards.
    #[inline]
    pub fn publish(&self, rank: u32, step: u64, stated: Stated) {
        let line = self.segment_line(rank, step);
        if let Stated::InPool(length) = stated {
            line[1].store(length as u64, Ordering::Relaxed);
        }
        line[0].store(stated.word(step), Ordering::Release);
    }

    /// As [`ControlSection::publish`], for data in the line, if two ranks publish the step and wait
    /// for each other (rule 13). For data in the pool this would gain nothing.
    #[inline]
    pub fn publish_to_other(&self, rank: u32, step: u64, length: usize) {
        self.segment_line(rank, step)[0].swap(Stated::InLine(length).word(step), Ordering::AcqRel);
        prefetch_to_write(self.segment_line(rank, step + 1));
    }

    /// Whether a rank has published a step (rule 3).
    #[inline]
    pub fn is_published(&self, rank: u32, step: u64) -> bool {
        self.segment_line(rank, step)[0].load(Ordering::Acquire) >> STATED_BITS >= step
    }

    /// Whether a rank has published a step with this stated length (rules 3 and 14).
    #[inline]
    pub fn is_published_as(&self, rank: u32, step: u64, stated: Stated) -> bool {
        let line = self.segment_line(rank, step);
        line[0].load(Ordering::Acquire) == stated.word(step)
            && match stated {
                Stated::InPool(length) => line[1].load(Ordering::Relaxed) == length as u64,
                Stated::Nothing | Stated::InLine(_) => true,
            }
    }

    /// The length stated with a step (rule 14). `None`: no length, or the rank is at a later step.
    #[inline]
    pub fn stated_length(&self, rank: u32, step: u64) -> Option<usize> {
        let line = self.segment_line(rank, step);
        let word = line[0].load(Ordering::Acquire);
        if word >> STATED_BITS != step {
            return None;
        }
        match word & ((1 << STATED_BITS) - 1) {
            NOTHING_STATED => None,
            STATED_IN_WORD_1 => Some(line[1].load(Ordering::Relaxed) as usize),
            length => Some(length as usize),
        }
    }

    /// Records two lengths of one call that differ (rule 15). Wake all ranks afterwards.
    #[cold]
    pub fn set_apart(&self, one: usize, other: usize) {
        let [_, _, longer, shorter, ..] = self.line(0);
        // Two ranks that write at the same time report the same fault.
        shorter.store(one.min(other) as u64, Ordering::Relaxed);
        longer.store(one.max(other).max(1) as u64, Ordering::Release);
    }

    /// The lengths that [`ControlSection::set_apart`] has recorded, the longer first (rule 15).
    #[inline]
    pub fn apart(&self) -> Option<(u64, u64)> {
        let [_, _, longer, shorter, ..] = self.line(0);
        let longer = longer.load(Ordering::Acquire);
        (longer != 0).then(|| (longer, shorter.load(Ordering::Relaxed)))
    }

    /// Records that `rank`, the caller, is done with steps (rule 4). Wake the sleepers afterwards.
    #[inline]
    pub fn finish(&self, rank: u32, step: u64) {
        self.done(rank).store(step, Ordering::Release);
    }

    /// The last step that a rank is done with (rule 4).
    #[inline]
    pub fn done_with(&self, rank: u32) -> u64 {
        self.done(rank).load(Ordering::Acquire)
    }

    /// Takes the set of ranks that sleep on `rank`, the caller, which must wake them (rule 6).
    #[inline]
    pub fn take_sleepers(&self, rank: u32) -> u64 {
        self.barrier.light();
        let sleepers = self.sleepers_of(rank);
        if sleepers.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        sleepers.swap(0, Ordering::Relaxed)
    }

    /// Announces that rank `me` will sleep until rank `of` continues. Poll again afterwards.
    #[cold]
    pub fn want(&self, of: u32, me: u32) {
        self.sleepers_of(of).fetch_or(1 << (me % MAX_RANKS), Ordering::Relaxed);
        self.barrier.heavy();
    }

    /// Records that a rank which has taken part up to this step leaves the section (rule 7).
    pub fn leave(&self, step: u64) {
        self.line(0)[1].fetch_max(step, Ordering::Relaxed);
        self.line(0)[0].fetch_add(1, Ordering::AcqRel);
    }

    /// Takes the section for another team if all ranks of the last team have left (rule 7).
    pub fn reuse(&self, ranks_before: u32) -> bool {
        let [left, _, longer, ..] = self.line(0);
        let is_left = left
            .compare_exchange(u64::from(ranks_before), 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if is_left {
            longer.store(0, Ordering::Relaxed);
        }
        is_left
    }

    /// The last step of earlier teams (rule 7).
    pub fn last_step(&self) -> u64 {
        self.line(0)[1].load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn at(section: &ControlSection, rank: u32, step: u64, extent: impl Into<Extent>) -> usize {
        section.part(rank, step, extent.into())
    }

    #[test]
    fn what_turns_lies_elsewhere_with_every_lap_and_in_the_memory_there_is() {
        let segments = PoolSegments { count: 6, bytes: 256 };
        for (ranks, most, turns) in
            [(2, 2, 4), (3, 3, 2), (4, 4, 2), (5, 5, 1), (2, 16, 4), (4, 16, 4), (9, 64, 1)]
        {
            let pools = ControlSection::pools(most);
            assert_eq!(ControlSection::turns(ranks, pools), turns, "{ranks} of {most} ranks");
            let heap = ControlSection::on_heap(ranks, segments, BarrierKind::Symmetric);
            let section = ControlSection { turns, ..heap };
            for (len, pieces) in [(256, 1), (129, 1), (128, 2), (100, 2), (64, 4), (1, 4)] {
                let (laps, room) = (pieces * u64::from(turns), 256 / pieces as usize);
                let mut starts = HashSet::new();
                for (step, rank) in
                    (0..6 * laps).flat_map(|step| (0..ranks).map(move |rank| (step, rank)))
                {
                    let start = at(&section, rank, step, Extent::turning(len));
                    assert!(start % room == 0 && start + room <= pools * segments.all_bytes());
                    assert!(starts.insert(start), "{len} bytes of rank {rank} in step {step}");
                    assert_eq!(start, at(&section, rank, step + 6 * laps, Extent::turning(len)));
                    assert_eq!(at(&section, rank, step, len), at(&section, rank, step + 6, len));
                }
            }
        }
    }
}
