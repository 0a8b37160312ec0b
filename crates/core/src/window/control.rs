//! The control words of a window: a few words of each process, which all processes of a node map.
//!
//! ```text
//! word 0        the lock: number of shared holders, or rank of the exclusive holder; bit WAITING
//! word 1        the element lock (oxmpi_mem::atomics), whose owner is a rank word 2        the
//! number of completed access epochs to this process words 3, 4    used length of the list of
//! regions; number of regions that have no entry there from 8 on     a bit for each rank that waits
//! for the lock then          for each rank the number of exposure epochs that it has opened to
//! this process then          for each rank the number of access epochs to this process that it has
//! completed, and a mark while the rank holds the lock shared then          the attached regions of
//! a dynamic window: address and length; length 0 if the entry is free then          in a window of
//! MPI_Win_create the mailboxes (oxmpi_shm::mailbox), a buffer for the data of one request of this
//! process, and a buffer for the data that come back
//! ```
//!
//! Rules
//! 1. *Lock.* A rank that cannot have the lock sets its own bit among the waiting ranks, then
//!    WAITING in the lock, each atomically. If the lock has changed meanwhile, the rank tries
//!    again.
//! 2. *Unlock.* A rank that leaves the lock free clears WAITING with the same or a later change,
//!    takes the bits of the waiting ranks and rings their doors. By rule 1 the rank that set
//!    WAITING has its bit there.
//! 3. A rank that wakes up tries again. No rank has priority: while some ranks hold the lock
//!    shared, another rank gets it shared even if a rank waits for an exclusive lock.
//! 4. *Signals.* The sender raises a count (release), then rings the door of the owner, which loads
//!    the count (acquire).
//! 5. *Regions.* Only the owner changes the list, one thread at a time: the address first, then the
//!    length (release).
//! 6. *Failed ranks.* The word with a rank's completed epochs and mark has one writer: the rank, or
//!    the owner for a rank that shares no memory with it. The rank counts an epoch there first, and
//!    then in word 2; so word 2 is not exact once a rank has failed between the two. The rank has
//!    its mark from before it takes the lock shared until after it has given the lock up. So a
//!    failed holder has its mark, and a rank that failed just before it got the lock counts as a
//!    holder.
//! 7. *Elements.* Each accumulate to the memory of this process holds the element lock here. If a
//!    rank fails with this lock, the next rank takes it over.

use super::Flavor;
use oxmpi_shm::mailbox::{Mailboxes, mailbox_bytes};
use oxmpi_shm::robust_lock::RobustGuard;
use oxmpi_sys::bytes::BytesMut;
use oxmpi_sys::memory::Memory;
use std::sync::atomic::{AtomicU64, Ordering};

/// The control words of one process. A clone is another view of the same words.
#[derive(Clone, Debug)]
pub(crate) struct ControlWords {
    memory: Memory,
    ranks: u32,
    flavor: Flavor,
}

/// The longest data of a request in a mailbox, in bytes.
pub(crate) const BUFFER_BYTES: usize = 64 << 10;

const LOCK: usize = 0;
const ELEMENTS: usize = 1;
const COMPLETED: usize = 2;
const LISTED: usize = 3;
const UNLISTED: usize = 4;
const WAITERS: usize = 8;

const EXCLUSIVE: u64 = 1 << 62;
/// In the lock, the rank of the exclusive holder.
const HOLDER: u64 = u32::MAX as u64;
/// The mark of a rank that holds the lock shared.
const SHARES: u64 = 1 << 63;
const WAITING: u64 = 1 << 63;

const REGIONS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    Yes,
    No,
    /// Only the owner of the memory knows.
    Perhaps,
}

impl ControlWords {
    pub(crate) const fn bytes(ranks: u32, flavor: Flavor) -> usize {
        let buffers = if ControlWords::has_mailboxes(ranks, flavor) { 2 * BUFFER_BYTES } else { 0 };
        ControlWords::cleared(ranks, flavor) + buffers
    }

    pub(crate) const fn cleared(ranks: u32, flavor: Flavor) -> usize {
        match flavor {
            _ if ControlWords::has_mailboxes(ranks, flavor) => ControlWords::buffer(ranks),
            Flavor::Dynamic => 8 * (ControlWords::regions(ranks) + 2 * REGIONS),
            _ => 8 * ControlWords::regions(ranks),
        }
    }

    /// Only a window of MPI_Win_create has mailboxes: the memory of other windows is mapped.
    const fn has_mailboxes(ranks: u32, flavor: Flavor) -> bool {
        matches!(flavor, Flavor::Create) && ranks > 1
    }

    const fn mailboxes_at(ranks: u32) -> usize {
        ControlWords::regions(ranks).next_multiple_of(8)
    }

    const fn buffer(ranks: u32) -> usize {
        8 * ControlWords::mailboxes_at(ranks) + mailbox_bytes(ranks)
    }

    const fn posts(ranks: u32) -> usize {
        WAITERS + (ranks as usize).div_ceil(64)
    }

    const fn ranks(ranks: u32) -> usize {
        ControlWords::posts(ranks) + ranks as usize
    }

    const fn regions(ranks: u32) -> usize {
        ControlWords::ranks(ranks) + ranks as usize
    }

    pub(crate) fn new(memory: Memory, ranks: u32, flavor: Flavor) -> ControlWords {
        ControlWords { memory, ranks, flavor }
    }

    #[inline]
    pub(crate) fn mailboxes(&self) -> Option<Mailboxes<'_, Memory>> {
        let has_some = ControlWords::has_mailboxes(self.ranks, self.flavor);
        has_some.then(|| Mailboxes::new(&self.memory, ControlWords::mailboxes_at(self.ranks)))
    }

    /// The first `len` bytes of both buffers: a request's data, and the data that come back.
    pub(crate) fn buffers(&self, len: usize) -> Option<(BytesMut<'_>, BytesMut<'_>)> {
        if !ControlWords::has_mailboxes(self.ranks, self.flavor) || len > BUFFER_BYTES {
            return None;
        }
        let at = ControlWords::buffer(self.ranks);
        self.memory.bytes(at, len).zip(self.memory.bytes(at + BUFFER_BYTES, len))
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.start().as_ptr().expose_provenance() as u64
    }

    #[inline]
    pub(crate) fn hold_elements(
        &self,
        rank: u32,
        has_died: impl FnMut(u32) -> bool,
    ) -> RobustGuard<'_> {
        RobustGuard::acquire(self.memory.word(ELEMENTS), rank, has_died)
    }

    /// Takes the lock for `holder` if it is free; otherwise sets the bit of `waiter` (rule 1).
    #[inline]
    pub(crate) fn try_lock(&self, exclusive: bool, holder: u32, waiter: u32) -> bool {
        let lock = self.memory.word(LOCK);
        let mut now = lock.load(Ordering::Relaxed);
        loop {
            let held = if exclusive { now & !WAITING != 0 } else { now & EXCLUSIVE != 0 };
            let next = match (held, exclusive) {
                (false, true) => now | EXCLUSIVE | u64::from(holder),
                (false, false) => {
                    self.mark(holder, true);
                    now + 1
                }
                (true, _) => {
                    let waiters = self.memory.word(WAITERS + waiter as usize / 64);
                    waiters.fetch_or(1 << (waiter % 64), Ordering::SeqCst);
                    now | WAITING
                }
            };
            match lock.compare_exchange_weak(now, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    if held && !exclusive {
                        self.mark(holder, false);
                    }
                    return !held;
                }
                Err(other) => now = other,
            }
        }
    }

    /// [`ControlWords::try_lock`] that sets no bit of a waiter. It does not load before the
    /// exchange, so that the cache line is fetched once, for writing.
    #[inline(always)]
    pub(crate) fn lock_if_free(&self, exclusive: bool, holder: u32) -> bool {
        let lock = self.memory.word(LOCK);
        let held = if exclusive { EXCLUSIVE | u64::from(holder) } else { 1 };
        if !exclusive {
            self.mark(holder, true);
        }
        let is_free = lock.compare_exchange(0, held, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if !is_free && !exclusive {
            self.mark(holder, false);
        }
        is_free
    }

    /// Sets or removes the mark of a rank (rule 6).
    #[inline]
    fn mark(&self, rank: u32, shares: bool) {
        let word = self.of_rank(rank);
        let completed = word.load(Ordering::Relaxed) & !SHARES;
        word.store(if shares { completed | SHARES } else { completed }, Ordering::Release);
    }

    fn of_rank(&self, rank: u32) -> &AtomicU64 {
        self.memory.word(ControlWords::ranks(self.ranks) + rank as usize)
    }

    /// Unlocks. Returns whether the caller must wake the ranks of [`ControlWords::take_waiters`].
    #[inline]
    pub(crate) fn unlock(&self, exclusive: bool, holder: u32) -> bool {
        let lock = self.memory.word(LOCK);
        if exclusive {
            return lock.swap(0, Ordering::SeqCst) & WAITING != 0;
        }
        let before = lock.fetch_sub(1, Ordering::SeqCst);
        self.mark(holder, false);
        before & !WAITING == 1
            && before & WAITING != 0
            && lock.compare_exchange(WAITING, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Whether a rank has the lock, or may have had it when it failed (rule 6).
    pub(crate) fn is_held_by(&self, rank: u32) -> bool {
        let lock = self.memory.word(LOCK).load(Ordering::SeqCst);
        match lock & EXCLUSIVE != 0 {
            true => lock & HOLDER == u64::from(rank),
            false => self.of_rank(rank).load(Ordering::SeqCst) & SHARES != 0,
        }
    }

    /// Takes the bits of the ranks that wait for the lock; the caller wakes these ranks (rule 2).
    #[cold]
    pub(crate) fn take_waiters(&self) -> Vec<u32> {
        let mut ranks = Vec::new();
        for at in 0..self.ranks.div_ceil(64) {
            let mut bits = self.memory.word(WAITERS + at as usize).swap(0, Ordering::SeqCst);
            while bits != 0 {
                ranks.push(at * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        ranks.retain(|rank| *rank < self.ranks);
        ranks
    }

    /// Counts an access epoch to this process that `rank` has completed (rules 4 and 6).
    pub(crate) fn complete(&self, rank: u32) {
        self.complete_for_own_count(rank);
        self.memory.word(COMPLETED).fetch_add(1, Ordering::SeqCst);
    }

    /// The first of the two counts of [`ControlWords::complete`].
    pub(crate) fn complete_for_own_count(&self, rank: u32) {
        let word = self.of_rank(rank);
        word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    pub(crate) fn completed_by(&self, rank: u32) -> u64 {
        self.of_rank(rank).load(Ordering::Acquire) & !SHARES
    }

    pub(crate) fn completed(&self) -> u64 {
        self.memory.word(COMPLETED).load(Ordering::Acquire)
    }

    /// Counts an exposure epoch that `rank` has opened to this process (rule 4).
    pub(crate) fn post(&self, rank: u32) {
        self.memory
            .word(ControlWords::posts(self.ranks) + rank as usize)
            .fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn posted(&self, rank: u32) -> u64 {
        self.memory.word(ControlWords::posts(self.ranks) + rank as usize).load(Ordering::Acquire)
    }

    fn region(&self, at: usize) -> (&AtomicU64, &AtomicU64) {
        let word = ControlWords::regions(self.ranks) + 2 * at;
        (self.memory.word(word), self.memory.word(word + 1))
    }

    pub(crate) fn list(&self, address: u64, len: u64) {
        let listed = self.memory.word(LISTED).load(Ordering::Relaxed) as usize;
        let vacant = (0..listed).find(|at| self.region(*at).1.load(Ordering::Relaxed) == 0);
        let at = vacant.unwrap_or(listed);
        if at >= REGIONS {
            self.memory.word(UNLISTED).fetch_add(1, Ordering::Release);
            return;
        }
        let (start, length) = self.region(at);
        start.store(address, Ordering::Relaxed);
        length.store(len, Ordering::Release);
        if at == listed {
            self.memory.word(LISTED).store(at as u64 + 1, Ordering::Release);
        }
    }

    pub(crate) fn unlist(&self, address: u64, len: u64) {
        let listed = self.memory.word(LISTED).load(Ordering::Relaxed) as usize;
        for at in 0..listed {
            let (start, length) = self.region(at);
            if (start.load(Ordering::Relaxed), length.load(Ordering::Relaxed)) == (address, len) {
                length.store(0, Ordering::Release);
                return;
            }
        }
        self.memory.word(UNLISTED).fetch_sub(1, Ordering::Release);
    }

    /// Whether all data from `from` to before `to` lie in attached regions.
    pub(crate) fn lists(&self, from: u64, to: u64) -> Listed {
        // A peer wrote the count, so it is not trusted.
        let listed = (self.memory.word(LISTED).load(Ordering::Acquire) as usize).min(REGIONS);
        let end_around = |at: u64| {
            (0..listed).find_map(|region| {
                let (start, length) = self.region(region);
                let (length, start) =
                    (length.load(Ordering::Acquire), start.load(Ordering::Relaxed));
                let end = start.checked_add(length)?;
                (start..end).contains(&at).then_some(end)
            })
        };
        if from > to {
            return Listed::No;
        }
        let mut at = from;
        // Data may lie in several regions that touch each other.
        for _ in 0..listed {
            match end_around(at) {
                Some(end) if at < to => at = end,
                _ => break,
            }
        }
        if at >= to {
            return Listed::Yes;
        }
        if self.memory.word(UNLISTED).load(Ordering::Acquire) != 0 {
            return Listed::Perhaps;
        }
        // Whether a hole between two regions has data is unknown here; both ends certainly have.
        if at > from && end_around(to - 1).is_some() { Listed::Perhaps } else { Listed::No }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(ranks: u32) -> ControlWords {
        let flavor = Flavor::Dynamic;
        ControlWords::new(
            Memory::zeroed(ControlWords::bytes(ranks, flavor), 64).unwrap(),
            ranks,
            flavor,
        )
    }

    #[test]
    fn a_lock_is_exclusive_or_shared() {
        let c = control(70);
        let try_lock = |exclusive, rank| c.try_lock(exclusive, rank, rank);
        assert!(try_lock(false, 1) && try_lock(false, 2));
        assert!(!try_lock(true, 69) && try_lock(false, 3));
        assert!(!c.unlock(false, 2) && !c.unlock(false, 1));
        assert!(c.unlock(false, 3), "the last one wakes");
        assert_eq!(c.take_waiters(), [69]);
        assert!(try_lock(true, 69) && !try_lock(false, 1) && !try_lock(true, 65));
        assert!(c.unlock(true, 69));
        assert_eq!(c.take_waiters(), [1, 65]);
        assert!(try_lock(true, 0) && !c.unlock(true, 0), "nobody waits");
    }

    #[test]
    fn a_holder_of_the_lock_can_be_found() {
        let c = control(5);
        let holders = || (0..5).filter(|rank| c.is_held_by(*rank)).collect::<Vec<_>>();
        assert_eq!(holders(), [0; 0]);
        assert!(c.try_lock(true, 3, 2) && !c.try_lock(false, 1, 1) && !c.try_lock(true, 0, 0));
        assert_eq!(holders(), [3]);
        assert!(c.unlock(true, 3));
        assert!(c.try_lock(false, 0, 0) && c.try_lock(false, 4, 2) && !c.try_lock(true, 1, 1));
        assert_eq!(holders(), [0, 4]);
        c.complete(4);
        c.unlock(false, 0);
        assert_eq!((holders(), c.completed_by(4), c.completed()), (vec![4], 1, 1));
        c.unlock(false, 4);
        assert_eq!((holders(), c.completed_by(4)), (vec![], 1));
    }

    #[test]
    fn regions_come_and_go() {
        let c = control(3);
        c.list(1000, 100);
        c.list(5000, 10);
        assert_eq!(
            [(1000, 1100), (1050, 1050), (999, 1001), (1050, 1101), (5000, 5010), (4000, 4001)]
                .map(|(from, to)| c.lists(from, to)),
            [Listed::Yes, Listed::Yes, Listed::No, Listed::No, Listed::Yes, Listed::No]
        );
        c.list(1100, 50);
        assert_eq!(
            [(1050, 1150), (1050, 1151), (1050, 5005), (1050, 4990), (1150, 5005)]
                .map(|(from, to)| c.lists(from, to)),
            [Listed::Yes, Listed::No, Listed::Perhaps, Listed::No, Listed::No],
            "two touch, and behind them is a hole"
        );
        c.unlist(1100, 50);
        c.unlist(1000, 100);
        assert_eq!(c.lists(1000, 1001), Listed::No);
        for n in 0..REGIONS as u64 {
            c.list(10_000 + n * 10, 10);
        }
        assert_eq!(c.lists(1, 2), Listed::Perhaps);
        c.unlist(10_000 + (REGIONS as u64 - 1) * 10, 10);
        assert_eq!(c.lists(1, 2), Listed::No);
    }

    #[test]
    fn threads_exclude_each_other() {
        let c = control(4);
        let (inside, total) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for rank in 0..4 {
                let (c, inside, total) = (&c, &inside, &total);
                scope.spawn(move || {
                    for round in 0..500 {
                        let exclusive = (round + rank) % 2 == 0;
                        while !c.try_lock(exclusive, rank, rank) {
                            std::thread::yield_now();
                        }
                        let weight = if exclusive { 1000 } else { 1 };
                        let before = inside.fetch_add(weight, Ordering::SeqCst);
                        assert!(if exclusive { before == 0 } else { before < 1000 });
                        total.fetch_add(1, Ordering::Relaxed);
                        inside.fetch_sub(weight, Ordering::SeqCst);
                        if c.unlock(exclusive, rank) {
                            c.take_waiters();
                        }
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 2000);
        assert!(c.try_lock(true, 0, 0));
    }
}
