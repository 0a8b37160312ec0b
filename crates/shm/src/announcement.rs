//! Announcements: messages that lie with their sender until their receiver reads them, and that the sender may take back.
//!
//! A sender that announces a message by its address has to leave the memory alone until it was read. If it cannot wait for that it
//! *takes the message back*: it makes a copy of its own, and one compare-exchange decides whether the receiver finds that or has
//! begun to read where the message lay before. Each such message has an *entry* in its sender's segment, which the announcement names.
//!
//! ```text
//! entry   word 0: turn 62 | state 2      word 1: the address of the copy; while it is open 1: the sender will not send it
//! state   0: closed      1: open      2: claimed      3: kept
//! ```
//!
//! Rules
//! 1. *One sender.* The segment's owner alone opens, keeps and closes entries. It opens one that is closed, in the next turn,
//!    before it sends the announcement, which orders that for the receiver. All memory is zero at the start.
//! 2. *Claim.* Before the receiver reads, it changes open to claimed (compare-exchange, acquire), and then reads where the announcement
//!    says. If it finds kept (acquire), it reads at the address in word 1. Anything else is no announcement that still holds. A sender
//!    whose message is pulled claims it likewise before it sends it, unless the receiver has claimed it and pulls all the same. If it has
//!    no room it declines (word 1, relaxed), which is a hint: the receiver claims the message then, and reads.
//! 3. *Keep.* The sender that takes a message back copies it, stores where the copy lies (relaxed), and changes open to kept
//!    (compare-exchange, release). If that fails, the message is claimed, and the sender waits for the receiver, which reads.
//! 4. *Close.* The sender closes an entry when the receiver has said that it has the message, or that nobody gets it, or is known to
//!    be dead. Until then neither memory changes.

use oxmpi_sys::line::Keep;
use oxmpi_sys::sync::{AtomicU64, Ordering};
use std::ptr::NonNull;
#[cfg(loom)]
use std::sync::Arc;

/// How many messages a process may have announced at a time and still take back.
pub const ANNOUNCEMENTS: u32 = if cfg!(loom) { 2 } else { 256 };

/// One entry: its state and turn, and the address of the copy.
#[repr(C)]
#[derive(Debug, Default)]
pub struct AnnouncementEntry {
    state: AtomicU64,
    copy: AtomicU64,
}

/// In place of the address of a copy: the sender declines.
const DECLINED: u64 = 1;

const STATE: u64 = 3;
const TURN: u64 = STATE + 1;
const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const CLAIMED: u64 = 2;
const KEPT: u64 = 3;

/// The entries of one process. Cloning it gives another view of the same ones.
#[derive(Clone, Debug)]
pub struct AnnouncementArea {
    entries: NonNull<AnnouncementEntry>,
    _keep: Keep,
}

// SAFETY: atomics, which `_keep` keeps mapped.
unsafe impl Send for AnnouncementArea {}
// SAFETY: as above.
unsafe impl Sync for AnnouncementArea {}

/// Names an announcement of a process: its turn, and its entry plus 1. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement(u64);

/// Entries are named in so many bits.
const INDEX_BITS: u32 = 16;
const _: () = assert!(ANNOUNCEMENTS < 1 << INDEX_BITS);

impl Announcement {
    /// As a number, for the wire; never 0.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The announcement of this number, which may be nobody's; `None` for 0.
    pub const fn from_raw(raw: u64) -> Option<Announcement> {
        if raw == 0 { None } else { Some(Announcement(raw)) }
    }

    /// Its entry, if there can be such a one, and its turn in the bits above the state.
    fn split(self) -> Option<(usize, u64)> {
        let index = (self.0 & ((1 << INDEX_BITS) - 1)).checked_sub(1)?;
        (index < u64::from(ANNOUNCEMENTS)).then_some((index as usize, (self.0 >> INDEX_BITS) * TURN))
    }
}

/// Where a receiver finds an announced message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Where the announcement says; the sender waits until the receiver says that it has read it.
    AsAnnounced,
    /// At this address, where the sender keeps a copy.
    Copy(u64),
    /// The sender has no such announcement.
    Gone,
}

impl AnnouncementArea {
    /// Closed entries on the heap, for threads of one process.
    #[cfg(loom)]
    pub fn on_heap() -> AnnouncementArea {
        let entries: Arc<[AnnouncementEntry]> =
            (0..ANNOUNCEMENTS).map(|_| AnnouncementEntry::default()).collect();
        AnnouncementArea { entries: NonNull::from(&entries[0]), _keep: Arc::new(entries) }
    }

    /// The entries at `at`.
    ///
    /// # Safety
    /// There must be [`ANNOUNCEMENTS`] of them, zero at first, mapped and writable while `keep` lives.
    #[cfg(not(loom))]
    pub(crate) const unsafe fn from_raw(at: NonNull<AnnouncementEntry>, keep: Keep) -> AnnouncementArea {
        AnnouncementArea { entries: at, _keep: keep }
    }

    fn entry(&self, index: usize) -> &AnnouncementEntry {
        assert!(index < ANNOUNCEMENTS as usize);
        // SAFETY: one of the entries, mapped while `_keep` lives.
        unsafe { self.entries.add(index).as_ref() }
    }

    /// Rule 2: whether the sender will not send a message that is open.
    pub fn is_declined(&self, announcement: Announcement) -> bool {
        announcement
            .split()
            .is_some_and(|(index, _)| self.entry(index).copy.load(Ordering::Relaxed) == DECLINED)
    }

    /// Rule 2: claims a message of this process's before it is read.
    pub fn claim(&self, announcement: Announcement) -> Claim {
        let Some((index, turn)) = announcement.split() else { return Claim::Gone };
        let AnnouncementEntry { state, copy } = self.entry(index);
        match state.compare_exchange(turn | OPEN, turn | CLAIMED, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => Claim::AsAnnounced,
            Err(found) if found == turn | KEPT => Claim::Copy(copy.load(Ordering::Relaxed)),
            Err(_) => Claim::Gone,
        }
    }
}

/// The sending side: one in the life of a segment.
#[derive(Debug)]
pub struct AnnouncementSender {
    area: AnnouncementArea,
    /// The closed entries, the one to be opened next last.
    closed: Vec<u16>,
    /// For each entry its last turn, and whether this side has it open ([`OPEN`]) or closed, as nobody else changes that.
    turns: Box<[u64]>,
}

impl AnnouncementSender {
    /// The sending side of entries of which none was opened yet.
    pub fn new(area: AnnouncementArea) -> AnnouncementSender {
        let turns = vec![CLOSED; ANNOUNCEMENTS as usize].into_boxed_slice();
        AnnouncementSender { area, closed: (0..ANNOUNCEMENTS as u16).rev().collect(), turns }
    }

    /// Opens an entry for a message that will be announced (rule 1). `None`: all are open.
    pub fn open(&mut self) -> Option<Announcement> {
        let index = self.closed.pop()?;
        let AnnouncementEntry { state, copy } = self.area.entry(usize::from(index));
        copy.store(0, Ordering::Relaxed);
        let own = &mut self.turns[usize::from(index)];
        let turn = own.wrapping_add(TURN) & !STATE;
        *own = turn | OPEN;
        state.store(turn | OPEN, Ordering::Relaxed);
        Some(Announcement((turn / TURN) << INDEX_BITS | (u64::from(index) + 1)))
    }

    /// Takes a message back, of which a copy lies at `copy` (rule 3). `false`: it is claimed, and has to stay where it was announced.
    pub fn keep(&self, announcement: Announcement, copy: u64) -> bool {
        let Some((index, turn)) = announcement.split() else { return false };
        let entry = self.area.entry(index);
        entry.copy.store(copy, Ordering::Relaxed);
        entry.state.compare_exchange(turn | OPEN, turn | KEPT, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Rule 2: claims a message to send it. `false`: its receiver has claimed it.
    pub fn claim(&self, announcement: Announcement) -> bool {
        let Some((index, turn)) = announcement.split() else { return false };
        let state = &self.area.entry(index).state;
        let found = state.compare_exchange(turn | OPEN, turn | CLAIMED, Ordering::Relaxed, Ordering::Relaxed);
        found.is_ok() || found == Err(turn | KEPT)
    }

    /// Rule 2: declines the pull of a message.
    pub fn decline(&self, announcement: Announcement) {
        if let Some((index, _)) = announcement.split() {
            self.area.entry(index).copy.store(DECLINED, Ordering::Relaxed);
        }
    }

    /// Closes the entry of a message (rule 4).
    pub fn close(&mut self, announcement: Announcement) {
        let Some((index, turn)) = announcement.split() else { return };
        if self.turns[index] == turn | OPEN {
            self.turns[index] = turn | CLOSED;
            self.area.entry(index).state.store(turn | CLOSED, Ordering::Relaxed);
            self.closed.push(index as u16);
        }
    }
}
