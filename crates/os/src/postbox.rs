//! Postboxes and a pool: the shared segment of the components guide's modules sysv and usysv.
//!
//! All processes of one job on one node share one segment. A *postbox* is a one-way place for one packet from one process
//! to another, and each ordered pair has one. Longer messages take their space from one *pool* that all have in common.
//!
//! ```text
//! line 0            the lock of the pool: holder 31 | somebody sleeps 1 (rule 4); not used if the lock is a semaphore
//! line 1            the map of the pool: a bit for each of at most 512 blocks, 1 if it is taken
//! then              N (N-1) lines, one for each postbox: word 0 the state, words 1 to 7 the frame
//! then              N (N-1) times S bytes, the data in each postbox
//! then              P bytes, the pool
//!
//! state             total length of the data 32 | 0 | the sender waits 1 | kind 2
//! ```
//!
//! With lines of C bytes these are 2C + N (N-1) (S + C) + P bytes, as the guide has it.
//!
//! Rules
//! 1. *Post.* The sender alone writes a postbox of kind 0 (empty): first frame and data, then the state, with release.
//! 2. *Take.* The receiver alone empties it: it loads the state with acquire, and when it has used frame and data it swaps 0 in,
//!    with release. The sender looks at the state with acquire before it writes.
//! 3. *Wait.* A sender that waits adds its bit to the state of a full postbox, by a compare-exchange. The receiver, which swaps,
//!    sees the bit or the sender finds the postbox empty.
//! 4. *Allocate.* Who holds the lock alone sets bits of the map, for a row of blocks that are free.
//! 5. *Free.* Whoever was told of a row clears its bits when it has read the data, with release and without the lock. Who
//!    allocates loads the map with acquire.
//! 6. *Pooled.* A packet whose data lie in the pool hands the row over to the receiver, which frees it (rule 5). The postbox is
//!    empty again (rule 2) before the data are copied.
//! 7. *Death.* Nobody waits for the lock for ever: who does not get it does without the pool. Who knows that its holder is
//!    dead opens it. A row that a dead process held stays taken.

#[cfg(not(loom))]
use crate::semaphore::Semaphore;
use crate::{
    bytes::{Bytes, BytesMut},
    line::{Keep, LINE_BYTES, LINE_WORDS, Line, Touch, Watched, heap_data, heap_lines},
    sync::{AtomicU32, Ordering},
};
use std::{ptr::NonNull, sync::Arc};

/// The most bytes of a frame in a postbox.
pub const FRAME_MOST: usize = LINE_BYTES - 8;
/// The most bytes of a frame in a postbox whose data lie in the pool.
pub const POOLED_FRAME_MOST: usize = FRAME_MOST - 8;
/// The most processes that share a segment.
pub const MOST_RANKS: u32 = 4096;
/// The most bytes of data in a postbox.
pub const MOST_SHORT: u64 = 1 << 30;
/// The most bytes of the pool.
pub const MOST_POOL: u64 = 1 << 36;

const MAP_WORDS: usize = LINE_WORDS;
const MAP_BITS: u64 = 64 * MAP_WORDS as u64;

/// The sizes of a segment with postboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostboxShape {
    /// Processes that share it: the guide's N.
    pub ranks: u32,
    /// Bytes of data in a postbox: the guide's S.
    pub short: u64,
    /// Bytes of the pool: the guide's P.
    pub pool: u64,
}

impl PostboxShape {
    /// Bytes of a whole segment, by the guide's formula.
    pub const fn bytes(&self) -> u64 {
        let line = LINE_BYTES as u64;
        2 * line + self.boxes() * (self.short + line) + self.pool
    }

    /// What is wrong with these sizes, if anything.
    ///
    /// # Errors
    /// A text for a person, with the value.
    pub fn check(&self) -> Result<(), String> {
        let PostboxShape { ranks, short, pool } = *self;
        if !(1..=MOST_RANKS).contains(&ranks) {
            return Err(format!(
                "postboxes for {ranks} processes of a node: 1 to {MOST_RANKS} can have them"
            ));
        }
        if short == 0 || short > MOST_SHORT {
            return Err(format!("postboxes of {short} bytes: 1 to {MOST_SHORT} are possible"));
        }
        if pool > MOST_POOL {
            return Err(format!("a pool of {pool} bytes: at most {MOST_POOL} are possible"));
        }
        Ok(())
    }

    const fn boxes(&self) -> u64 {
        let ranks = self.ranks as u64;
        ranks * (ranks - 1)
    }

    /// The postbox from one process to another, by their places.
    const fn index(&self, from: u32, to: u32) -> u64 {
        let of_sender = if to > from { to - 1 } else { to };
        from as u64 * (self.ranks as u64 - 1) + of_sender as u64
    }

    const fn pool_at(&self) -> u64 {
        self.boxes() * self.short
    }

    /// Bytes of a block of the pool.
    const fn block(&self) -> u64 {
        let least = self.pool.div_ceil(MAP_BITS).next_multiple_of(LINE_BYTES as u64);
        if least == 0 { LINE_BYTES as u64 } else { least }
    }

    /// Whole blocks in the pool.
    const fn blocks(&self) -> u64 {
        self.pool / self.block()
    }
}

/// The line of the lock.
#[derive(Debug)]
#[repr(C, align(64))]
struct LockLine {
    word: AtomicU32,
}

/// What lies before the postboxes.
#[derive(Debug)]
#[repr(C)]
struct Head {
    lock: LockLine,
    map: Line,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Head>() == 2 * LINE_BYTES);

/// A process sleeps until the lock is free.
const CONTENDED: u32 = 1 << 31;

/// Memory with postboxes and a pool. Cloning it gives another view of the same memory.
#[derive(Clone, Debug)]
pub struct PostboxArea {
    head: NonNull<Head>,
    lines: NonNull<Line>,
    data: NonNull<u8>,
    shape: PostboxShape,
    watched: Watched,
    _keep: Keep,
}

// SAFETY: the memory behind the pointers is atomics, and bytes that the rules give to one process at a time; `_keep` keeps it
// mapped.
unsafe impl Send for PostboxArea {}
// SAFETY: as above.
unsafe impl Sync for PostboxArea {}

impl PostboxArea {
    /// Empty postboxes on the heap, for threads of one process.
    ///
    /// # Panics
    /// If [`PostboxShape::check`] finds something wrong.
    pub fn on_heap(shape: PostboxShape) -> PostboxArea {
        if let Err(wrong) = shape.check() {
            panic!("{wrong}");
        }
        let head = Arc::new(Head { lock: LockLine { word: AtomicU32::new(0) }, map: Line::new() });
        let lines = heap_lines(shape.boxes().max(1) as usize);
        let bytes = ((shape.pool_at() + shape.pool) as usize).next_multiple_of(LINE_BYTES).max(LINE_BYTES);
        let data = heap_data(bytes);
        PostboxArea {
            head: NonNull::from(&*head),
            lines: NonNull::from(&lines[0]),
            data: NonNull::from(&data[0]).cast(),
            shape,
            watched: Watched::new(bytes),
            _keep: Arc::new((head, lines, data)),
        }
    }

    /// Postboxes at `at`.
    ///
    /// # Safety
    /// [`PostboxShape::bytes`] bytes at `at`, aligned to 64, must be zero or postboxes of this shape, and stay mapped and
    /// writable while `keep` lives.
    #[cfg(not(loom))]
    unsafe fn from_raw(at: NonNull<u8>, shape: PostboxShape, keep: Keep) -> PostboxArea {
        let boxes = shape.boxes() as usize;
        // SAFETY: all three lie inside the bytes that the caller vouches for.
        let (lines, data) = unsafe {
            let lines: NonNull<Line> = at.add(size_of::<Head>()).cast();
            (lines, lines.add(boxes).cast())
        };
        PostboxArea { head: at.cast(), lines, data, shape, watched: Watched::new(0), _keep: keep }
    }

    /// Its sizes.
    pub fn shape(&self) -> &PostboxShape {
        &self.shape
    }

    fn head(&self) -> &Head {
        // SAFETY: mapped while `_keep` lives, atomics only.
        unsafe { self.head.as_ref() }
    }

    fn line(&self, index: u64) -> &Line {
        debug_assert!(index < self.shape.boxes());
        // SAFETY: one of the lines, mapped while `_keep` lives, atomics only.
        unsafe { self.lines.add(index as usize).as_ref() }
    }

    /// `len` bytes of data and pool at `at`, to be read.
    fn read(&self, at: u64, len: usize) -> Bytes<'_> {
        assert!(at + len as u64 <= self.shape.pool_at() + self.shape.pool, "{len} bytes at {at}");
        self.watched.touch(at as usize, len, Touch::Read);
        // SAFETY: inside the area, mapped while `_keep` lives.
        unsafe { Bytes::from_raw(self.data.add(at as usize).as_ptr(), len) }
    }

    /// As [`PostboxArea::read`], to be written.
    fn write(&self, at: u64, len: usize) -> BytesMut<'_> {
        assert!(at + len as u64 <= self.shape.pool_at() + self.shape.pool, "{len} bytes at {at}");
        self.watched.touch(at as usize, len, Touch::Write);
        // SAFETY: inside the area, mapped while `_keep` lives.
        unsafe { BytesMut::from_raw(self.data.add(at as usize).as_ptr(), len) }
    }

    /// The sending side of the postbox from one process to another, by their places.
    ///
    /// # Panics
    /// If there is no such pair.
    pub fn sender(&self, from: u32, to: u32) -> PostboxSender {
        PostboxSender { index: self.pair(from, to), area: self.clone() }
    }

    /// The receiving side.
    ///
    /// # Panics
    /// If there is no such pair.
    pub fn receiver(&self, from: u32, to: u32) -> PostboxReceiver {
        PostboxReceiver { index: self.pair(from, to), area: self.clone() }
    }

    fn pair(&self, from: u32, to: u32) -> u64 {
        let ranks = self.shape.ranks;
        assert!(
            from != to && from < ranks && to < ranks,
            "a postbox from {from} to {to} of {ranks} processes"
        );
        self.shape.index(from, to)
    }

    /// Takes the lock of the pool for the process with this place, if it is free (rule 4).
    #[inline]
    pub fn try_lock(&self, holder: u32) -> Option<PoolLock<'_>> {
        self.try_lock_as(holder + 1)
    }

    fn try_lock_as(&self, word: u32) -> Option<PoolLock<'_>> {
        let lock = &self.head().lock.word;
        let taken = lock.compare_exchange(0, word, Ordering::Acquire, Ordering::Relaxed);
        // Not made for nothing: dropping it opens the lock.
        taken.is_ok().then(|| PoolLock { area: self, by: LockedBy::Word })
    }

    /// Takes the lock of the pool, asleep while others have it, but not much longer than `limit` (rule 7).
    #[cfg(not(loom))]
    pub fn lock(&self, holder: u32, limit: std::time::Duration) -> Option<PoolLock<'_>> {
        use rustix::thread::futex::{self, Flags};
        let lock = &self.head().lock.word;
        if let Some(taken) = self.try_lock(holder) {
            return Some(taken);
        }
        let end = std::time::Instant::now() + limit;
        loop {
            let now = lock.load(Ordering::Relaxed);
            let left = end.saturating_duration_since(std::time::Instant::now());
            // Who has slept leaves the word saying so: others may sleep still.
            if now == 0
                && let Some(taken) = self.try_lock_as((holder + 1) | CONTENDED)
            {
                return Some(taken);
            }
            if left.is_zero() {
                return None;
            }
            let noted = now | CONTENDED;
            let stands = now & CONTENDED != 0
                || lock.compare_exchange(now, noted, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if now != 0 && stands {
                let timeout = rustix::time::Timespec::try_from(left).ok();
                // Woken, changed, interrupted, timed out: look again.
                let _ = futex::wait(lock, Flags::empty(), noted, timeout.as_ref());
            }
        }
    }

    /// Takes the lock of the pool by a semaphore, which is what all of its users do then; asleep while others have it, but not
    /// much longer than `limit` (rule 7; the kernel opens the lock of the dead).
    #[cfg(not(loom))]
    pub fn lock_by(&self, semaphore: Semaphore, limit: std::time::Duration) -> Option<PoolLock<'_>> {
        semaphore.lock(limit).then(|| PoolLock { area: self, by: LockedBy::Semaphore(semaphore) })
    }

    /// Opens the lock if this process, *which must be known to be dead*, holds it (rule 7). Whether it did.
    pub fn break_lock(&self, dead: u32) -> bool {
        let lock = &self.head().lock.word;
        let now = lock.load(Ordering::Relaxed);
        let held = now & !CONTENDED == dead + 1;
        let broken = held && lock.compare_exchange(now, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if broken && now & CONTENDED != 0 {
            self.wake_one();
        }
        broken
    }

    fn wake_one(&self) {
        #[cfg(not(loom))]
        {
            let lock = &self.head().lock.word;
            // It can fail only for a bad address.
            let _ = rustix::thread::futex::wake(lock, rustix::thread::futex::Flags::empty(), 1);
        }
    }

    /// How many of `wanted` bytes the longest free row of blocks takes now, as far as a look without the lock shows.
    pub fn room(&self, wanted: usize) -> usize {
        let blocks = (wanted as u64).div_ceil(self.shape.block());
        let mut longest = 0;
        self.rows(|_, len| {
            longest = len.max(longest);
            longest < blocks
        });
        wanted.min((longest * self.shape.block()) as usize)
    }

    /// Bytes of the pool that are taken now.
    pub fn taken(&self) -> u64 {
        let bits: u32 =
            self.head().map.words.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum();
        u64::from(bits) * self.shape.block()
    }

    /// Shows the free rows of blocks, first and number, until the answer is `false` (rule 5).
    fn rows(&self, mut show: impl FnMut(u64, u64) -> bool) {
        let blocks = self.shape.blocks();
        let (mut start, mut at) = (0, 0);
        while at < blocks {
            let word = self.head().map.words[(at / 64) as usize].load(Ordering::Acquire) >> (at % 64);
            let left = (64 - at % 64).min(blocks - at);
            let free = u64::from(word.trailing_zeros()).min(left);
            at += free;
            if free < left {
                // A taken one ends the row.
                if at > start && !show(start, at - start) {
                    return;
                }
                at += 1;
                start = at;
            }
        }
        if at > start {
            show(start, at - start);
        }
    }

    /// Frees a row (rule 5).
    fn free(&self, first: u64, blocks: u64) {
        for (word, bits) in bits_of(first, blocks) {
            self.head().map.words[word].fetch_and(!bits, Ordering::Release);
        }
    }
}

/// The words and bits of the map for a row of blocks.
fn bits_of(first: u64, blocks: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = first + blocks;
    (first / 64..end.div_ceil(64)).map(move |word| {
        let (from, to) = (first.max(word * 64) - word * 64, end.min(word * 64 + 64) - word * 64);
        let ones = if to - from == 64 { !0 } else { (1 << (to - from)) - 1 };
        (word as usize, ones << from)
    })
}

/// The lock of the pool, held. Dropping it opens the lock.
#[derive(Debug)]
pub struct PoolLock<'a> {
    area: &'a PostboxArea,
    by: LockedBy,
}

/// What the lock is.
#[derive(Clone, Copy, Debug)]
enum LockedBy {
    /// The word in the segment.
    Word,
    #[cfg(not(loom))]
    Semaphore(Semaphore),
}

impl PoolLock<'_> {
    /// Takes room for `len` bytes, at least one, in one piece (rule 4). `None`: there is none.
    pub fn allocate(&self, len: usize) -> Option<Row> {
        let area = self.area;
        let wanted = (len as u64).div_ceil(area.shape.block());
        let mut found = None;
        area.rows(|first, blocks| {
            found = (blocks >= wanted).then_some(first);
            found.is_none()
        });
        let first = found.filter(|_| wanted > 0)?;
        for (word, bits) in bits_of(first, wanted) {
            area.head().map.words[word].fetch_or(bits, Ordering::Relaxed);
        }
        Some(Row { at: first * area.shape.block(), len })
    }
}

impl Drop for PoolLock<'_> {
    fn drop(&mut self) {
        match self.by {
            LockedBy::Word => {
                if self.area.head().lock.word.swap(0, Ordering::Release) & CONTENDED != 0 {
                    self.area.wake_one();
                }
            }
            #[cfg(not(loom))]
            LockedBy::Semaphore(semaphore) => semaphore.unlock(),
        }
    }
}

/// Room in the pool that was taken.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "it stays taken until it is posted or freed"]
pub struct Row {
    /// Where it begins in the pool, bytes.
    at: u64,
    /// Bytes that are used.
    len: usize,
}

impl PostboxArea {
    /// The row, to be filled by who has taken it.
    pub fn row_mut(&self, row: &mut Row) -> BytesMut<'_> {
        self.write(self.shape.pool_at() + row.at, row.len)
    }

    /// The data of a row that was posted.
    pub fn row(&self, row: &Row) -> Bytes<'_> {
        self.read(self.shape.pool_at() + row.at, row.len)
    }

    /// Gives a row back (rule 5).
    pub fn free_row(&self, row: Row) {
        let block = self.shape.block();
        self.free(row.at / block, (row.len as u64).div_ceil(block));
    }

    /// The row that a packet names, if there can be one.
    fn named_row(&self, at: u64, len: usize) -> Option<Row> {
        let end = at.checked_add(len as u64)?;
        let is_row = len > 0
            && at.is_multiple_of(self.shape.block())
            && end <= self.shape.blocks() * self.shape.block();
        is_row.then_some(Row { at, len })
    }
}

const KIND: u64 = 3;
const FRAME: u64 = 1;
const MORE: u64 = 2;
const POOLED: u64 = 3;
/// The sender waits (rule 3).
const WAITED: u64 = 4;

/// The frame of a packet, with what was in the line behind it.
pub type FrameBytes = [u8; FRAME_MOST];

/// The sending side of a postbox: one.
#[derive(Debug)]
pub struct PostboxSender {
    area: PostboxArea,
    index: u64,
}

impl PostboxSender {
    /// Whether a packet can be posted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.area.line(self.index).words[0].load(Ordering::Acquire) == 0
    }

    /// Bytes of data that a packet has at most.
    #[inline]
    pub fn short(&self) -> usize {
        self.area.shape.short as usize
    }

    /// Posts a frame with `total` bytes of data, of which `fill` writes the first to the postbox: as many as it takes. The
    /// postbox must be empty. Returns how many that were.
    ///
    /// # Panics
    /// If the frame is too long, or more than 2^32 - 1 bytes follow.
    pub fn post(&mut self, frame: &[u8], total: usize, fill: impl FnOnce(BytesMut<'_>)) -> usize {
        assert!(frame.len() <= FRAME_MOST && u32::try_from(total).is_ok(), "{total} bytes of data");
        let now = total.min(self.area.shape.short as usize);
        self.put_frame(frame);
        if now > 0 {
            fill(self.data(now));
        }
        self.publish(FRAME, total);
        now
    }

    /// Posts the next `len` bytes of data behind a frame, no more than the postbox takes, which must be empty.
    ///
    /// # Panics
    /// If they are more.
    pub fn post_more(&mut self, len: usize, fill: impl FnOnce(BytesMut<'_>)) {
        fill(self.data(len));
        self.publish(MORE, len);
    }

    /// Posts a frame whose data lie in the pool, which the receiver will free (rule 6). The postbox must be empty.
    ///
    /// # Panics
    /// If the frame is too long.
    pub fn post_pooled(&mut self, frame: &[u8], row: Row) {
        assert!(frame.len() <= POOLED_FRAME_MOST);
        self.put_frame(frame);
        let line = self.area.line(self.index);
        line.words[LINE_WORDS - 1].store(row.at, Ordering::Relaxed);
        self.publish(POOLED, row.len);
    }

    /// Has the receiver ring when it has emptied the postbox (rule 3). `false`: it is empty.
    pub fn want_room(&self) -> bool {
        let state = &self.area.line(self.index).words[0];
        let noted = |now: u64| (now != 0).then_some(now | WAITED);
        state.fetch_update(Ordering::Acquire, Ordering::Acquire, noted).is_ok()
    }

    /// Takes back what lies in the postbox, *whose receiver must be known to be dead*: a row goes back to the pool.
    pub fn take_back(&mut self) {
        let receiver = PostboxReceiver { area: self.area.clone(), index: self.index };
        if let Some(Packet::Pooled { row, .. }) = receiver.peek() {
            self.area.free_row(row);
        }
        receiver.release();
    }

    fn data(&self, len: usize) -> BytesMut<'_> {
        let short = self.area.shape.short;
        assert!(len as u64 <= short, "{len} bytes for a postbox of {short}");
        self.area.write(self.index * short, len)
    }

    fn put_frame(&self, frame: &[u8]) {
        let line = self.area.line(self.index);
        for (word, eight) in line.words[1..].iter().zip(frame.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..eight.len()].copy_from_slice(eight);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
    }

    /// Rule 1.
    fn publish(&self, kind: u64, total: usize) {
        self.area.line(self.index).words[0].store((total as u64) << 32 | kind, Ordering::Release);
    }
}

/// What lies in a postbox.
#[derive(Debug)]
pub enum Packet<'a> {
    /// A frame, and the first of its data.
    Frame {
        /// The frame.
        frame: FrameBytes,
        /// Bytes of data in all.
        total: usize,
        /// Those that are here.
        first: Bytes<'a>,
    },
    /// More of the data of the last frame.
    More(Bytes<'a>),
    /// A frame, and where in the pool its data lie. Whoever has it frees the row.
    Pooled {
        /// The frame.
        frame: FrameBytes,
        /// The row, which the receiver frees.
        row: Row,
    },
    /// Something that no sender can have posted.
    Nonsense,
}

/// The receiving side of a postbox: one.
#[derive(Debug)]
pub struct PostboxReceiver {
    area: PostboxArea,
    index: u64,
}

impl PostboxReceiver {
    /// What lies in the postbox, if anything. It is good until [`PostboxReceiver::release`].
    #[inline]
    pub fn peek(&self) -> Option<Packet<'_>> {
        let state = self.area.line(self.index).words[0].load(Ordering::Acquire);
        if state == 0 { None } else { Some(self.packet(state)) }
    }

    fn packet(&self, state: u64) -> Packet<'_> {
        let (total, short) = ((state >> 32) as usize, self.area.shape.short);
        let here = |len: usize| self.area.read(self.index * short, len);
        match state & KIND {
            FRAME => Packet::Frame { frame: self.frame(), total, first: here(total.min(short as usize)) },
            MORE if total as u64 <= short => Packet::More(here(total)),
            POOLED => {
                let at = self.area.line(self.index).words[LINE_WORDS - 1].load(Ordering::Relaxed);
                match self.area.named_row(at, total) {
                    Some(row) => Packet::Pooled { frame: self.frame(), row },
                    None => Packet::Nonsense,
                }
            }
            _ => Packet::Nonsense,
        }
    }

    fn frame(&self) -> FrameBytes {
        let mut frame = [0; FRAME_MOST];
        let words = &self.area.line(self.index).words[1..];
        for (eight, word) in frame.chunks_exact_mut(8).zip(words) {
            eight.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        frame
    }

    /// Empties the postbox (rule 2). Whether its sender wants to be rung.
    #[inline]
    pub fn release(&self) -> bool {
        self.area.line(self.index).words[0].swap(0, Ordering::AcqRel) & WAITED != 0
    }
}

#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
pub use file::PostboxError;

#[cfg(all(test, not(loom)))]
mod tests;
