//! The common pool of all postboxes of a segment: the lock, and rows of blocks (rules 4, 5 and 7).

use super::PostboxArea;
#[cfg(not(loom))]
use oxmpi_sys::semaphore::Semaphore;
use oxmpi_sys::{
    bytes::{Bytes, BytesMut},
    sync::Ordering,
};

/// A process sleeps until the lock is free.
const CONTENDED: u32 = 1 << 31;

impl PostboxArea {
    /// Takes the lock of the pool for the process with this index, if it is free (rule 4).
    #[inline]
    pub fn try_lock(&self, holder: u32) -> Option<PoolLock<'_>> {
        self.try_lock_as(holder + 1)
    }

    fn try_lock_as(&self, word: u32) -> Option<PoolLock<'_>> {
        let lock = &self.head().lock.word;
        let taken = lock.compare_exchange(0, word, Ordering::Acquire, Ordering::Relaxed);
        // Made only if the lock was taken, as its drop opens the lock.
        taken.is_ok().then(|| PoolLock { area: self, by: LockedBy::Word })
    }

    /// Takes the lock of the pool, after a wait of little more than `limit` at most (rule 7).
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
            // A process that has slept keeps the mark in the word, since others may still sleep.
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
                let _ = futex::wait(lock, Flags::empty(), noted, timeout.as_ref());
            }
        }
    }

    /// As [`PostboxArea::lock`], by a semaphore, which all users of the pool must then use. The
    /// kernel opens it when its holder dies.
    #[cfg(not(loom))]
    pub fn lock_by(
        &self,
        semaphore: Semaphore,
        limit: std::time::Duration,
    ) -> Option<PoolLock<'_>> {
        semaphore.lock(limit).then(|| PoolLock { area: self, by: LockedBy::Semaphore(semaphore) })
    }

    /// Opens the lock if process `dead`, *which must be known to be dead*, holds it (rule 7).
    /// Returns whether it did.
    pub fn break_lock(&self, dead: u32) -> bool {
        let lock = &self.head().lock.word;
        let now = lock.load(Ordering::Relaxed);
        let held = now & !CONTENDED == dead + 1;
        let broken =
            held && lock.compare_exchange(now, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if broken && now & CONTENDED != 0 {
            self.wake_one();
        }
        broken
    }

    fn wake_one(&self) {
        #[cfg(not(loom))]
        {
            let lock = &self.head().lock.word;
            let _ = rustix::thread::futex::wake(lock, rustix::thread::futex::Flags::empty(), 1);
        }
    }

    /// The room of the longest free row, up to `wanted` bytes, read without the lock.
    pub fn room(&self, wanted: usize) -> usize {
        let blocks = (wanted as u64).div_ceil(self.shape.block());
        let mut longest = 0;
        self.rows(|_, len| {
            longest = len.max(longest);
            longest < blocks
        });
        wanted.min((longest * self.shape.block()) as usize)
    }

    /// Bytes of the pool that are in use.
    pub fn taken(&self) -> u64 {
        let bits: u32 = self
            .head()
            .map
            .words
            .iter()
            .map(|word| word.load(Ordering::Relaxed).count_ones())
            .sum();
        u64::from(bits) * self.shape.block()
    }

    /// Calls `show` with first block and number of blocks of each free row, until it returns
    /// `false`.
    fn rows(&self, mut show: impl FnMut(u64, u64) -> bool) {
        let blocks = self.shape.blocks();
        let (mut start, mut at) = (0, 0);
        while at < blocks {
            let word =
                self.head().map.words[(at / 64) as usize].load(Ordering::Acquire) >> (at % 64);
            let left = (64 - at % 64).min(blocks - at);
            let free = u64::from(word.trailing_zeros()).min(left);
            at += free;
            if free < left {
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

    fn free(&self, first: u64, blocks: u64) {
        for (word, bits) in bits_of(first, blocks) {
            self.head().map.words[word].fetch_and(!bits, Ordering::Release);
        }
    }
}

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

#[derive(Clone, Copy, Debug)]
enum LockedBy {
    Word,
    #[cfg(not(loom))]
    Semaphore(Semaphore),
}

impl PoolLock<'_> {
    /// Takes contiguous room for `len` bytes, at least one (rule 4). `None`: there is no such room.
    pub fn allocate(&self, len: usize) -> Option<PoolRoom> {
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
        Some(PoolRoom { at: first * area.shape.block(), len })
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

/// Taken room in the pool.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "it stays taken until it is posted or freed"]
pub struct PoolRoom {
    pub(super) at: u64,
    pub(super) len: usize,
}

impl PostboxArea {
    /// The row, to be filled by the process that has taken it.
    pub fn row_mut(&self, row: &mut PoolRoom) -> BytesMut<'_> {
        self.write(self.shape.pool_at() + row.at, row.len)
    }

    /// The data of a posted row.
    pub fn row(&self, row: &PoolRoom) -> Bytes<'_> {
        self.read(self.shape.pool_at() + row.at, row.len)
    }

    /// Frees a row (rule 5).
    pub fn free_row(&self, row: PoolRoom) {
        let block = self.shape.block();
        self.free(row.at / block, (row.len as u64).div_ceil(block));
    }

    /// The row that a packet names, if it is valid.
    pub(super) fn named_row(&self, at: u64, len: usize) -> Option<PoolRoom> {
        let end = at.checked_add(len as u64)?;
        let is_row = len > 0
            && at.is_multiple_of(self.shape.block())
            && end <= self.shape.blocks() * self.shape.block();
        is_row.then_some(PoolRoom { at, len })
    }
}
