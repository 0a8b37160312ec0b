//! Announcements: messages that stay in the sender's memory until the receiver reads them, and that
//! the sender may take back.
//!
//! A sender that announces a message by its address must leave the memory unchanged until the
//! receiver has read it. If it cannot wait for that, it *takes the message back*: it makes a
//! private copy, and one compare-exchange decides whether the receiver finds the copy or has begun
//! to read the original. Each message has an *entry* in the sender's segment, which the
//! announcement names.
//!
//! ```text
//! entry   word 0  turn 62 | state 2
//!         word 1  kept: the address of the copy; else: 1 | turn 19 | bytes given 43 | stopped 1
//! state   0: closed      1: open      2: claimed      3: kept
//! ```
//!
//! Rules
//! 1. *One sender.* Only the segment's owner opens, keeps and closes entries. It opens a closed
//!    entry, in the next turn, before it sends the announcement. All memory is zero at the start.
//! 2. *Claim.* Before the receiver reads, it changes open to claimed (compare-exchange, acquire),
//!    and then reads at the announced address. If it finds kept (acquire), it reads at the address
//!    in word 1. Any other value means that the announcement is not valid any more. A sender whose
//!    message is pulled also claims the message before it sends any of it, unless the receiver has
//!    claimed it.
//! 3. *Keep.* The sender that takes a message back copies it, stores the address of the copy
//!    (relaxed), and changes open to kept (compare-exchange, release). If that fails, the receiver
//!    has claimed the message, and the sender waits until the receiver has read it.
//! 4. *Close.* The sender closes an entry when the receiver reports that it has read the message or
//!    that no receive matches it, or when the receiver is known to be dead. Until then neither
//!    memory changes.
//! 5. *Give.* A sender that has claimed a message gives it in pieces, from the beginning on. Before
//!    each piece it adds the length to the bytes given, by a compare-exchange (relaxed) that finds
//!    "not stopped". Either side may set "stopped", for good: the sender without room, the receiver
//!    when the sender has left the library. Then the receiver reads the rest at the announced
//!    address. The turn in the word protects the next message of the entry. The highest bit of word
//!    1 is set here and never in an address.

use oxmpi_sys::line::Keep;
use oxmpi_sys::sync::{AtomicU64, Ordering};
use std::ptr::NonNull;
#[cfg(loom)]
use std::sync::Arc;

/// The most messages that a process may have announced at a time and still take back.
pub const ANNOUNCEMENTS: u32 = if cfg!(loom) { 2 } else { 256 };

/// One entry. The module documentation has the bits of its words.
#[repr(C)]
#[derive(Debug, Default)]
pub struct AnnouncementEntry {
    state: AtomicU64,
    /// [`giving`], or the address of the copy.
    copy: AtomicU64,
}

/// Set in word 1 when the sender gives no more (rule 5); also the unit of the bytes given.
const STOPPED: u64 = 1;
const BYTE: u64 = STOPPED + 1;
const GIVEN_BITS: u32 = 44;
const GIVEN: u64 = (1 << GIVEN_BITS) - BYTE;

/// Word 1 of a message that was not taken back, after `given` bytes; the turn is that of `state`.
const fn giving(state: u64, given: u64) -> u64 {
    const MARK: u64 = 1 << 63;
    let turn = (state / TURN) << GIVEN_BITS;
    MARK | (turn & !MARK) | ((given * BYTE) & GIVEN)
}

const STATE: u64 = 3;
const TURN: u64 = STATE + 1;
const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const CLAIMED: u64 = 2;
const KEPT: u64 = 3;

/// The entries of one process. A clone is a view of the same entries.
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

const INDEX_BITS: u32 = 16;
const _: () = assert!(ANNOUNCEMENTS < 1 << INDEX_BITS);

impl Announcement {
    /// The number for the wire; never 0.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The announcement with this number, which may not exist; `None` for 0.
    pub const fn from_raw(raw: u64) -> Option<Announcement> {
        if raw == 0 { None } else { Some(Announcement(raw)) }
    }

    /// The entry, if the index is valid, and the turn in the bits above the state.
    fn split(self) -> Option<(usize, u64)> {
        let index = (self.0 & ((1 << INDEX_BITS) - 1)).checked_sub(1)?;
        (index < u64::from(ANNOUNCEMENTS))
            .then_some((index as usize, (self.0 >> INDEX_BITS) * TURN))
    }
}

/// The address at which the receiver finds an announced message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// At the announced address; the sender waits until the receiver has read it.
    AsAnnounced,
    Copy(u64),
    Gone,
}

/// The process that transfers the data of a message that the receiver has pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnClaim {
    /// The sender, in pieces; the receiver may read the rest itself at any time (rule 5).
    InPieces,
    /// The sender alone, because it has taken the message back.
    Whole,
    Receivers,
}

impl AnnouncementArea {
    /// Closed entries on the heap, for threads of one process.
    #[cfg(loom)]
    pub fn on_heap() -> AnnouncementArea {
        let entries: Arc<[AnnouncementEntry]> =
            (0..ANNOUNCEMENTS).map(|_| AnnouncementEntry::default()).collect();
        AnnouncementArea { entries: NonNull::from(&entries[0]), _keep: Arc::new(entries) }
    }

    /// Safety: at `at` are [`ANNOUNCEMENTS`] entries, zero at first, mapped and writable while
    /// `keep` lives.
    #[cfg(not(loom))]
    pub(crate) const unsafe fn from_raw(
        at: NonNull<AnnouncementEntry>,
        keep: Keep,
    ) -> AnnouncementArea {
        AnnouncementArea { entries: at, _keep: keep }
    }

    fn entry(&self, index: usize) -> &AnnouncementEntry {
        assert!(index < ANNOUNCEMENTS as usize);
        // SAFETY: one of the entries, mapped while `_keep` lives.
        unsafe { self.entries.add(index).as_ref() }
    }

    /// Whether "stopped" is set for a pulled message (rule 5).
    pub fn is_stopped(&self, announcement: Announcement) -> bool {
        let Some((index, turn)) = announcement.split() else { return false };
        self.entry(index).copy.load(Ordering::Relaxed) & !GIVEN == giving(turn, 0) | STOPPED
    }

    /// Claims the rest of a pulled message that the receiver has not claimed (rules 2 and 5).
    /// Returns the bytes that the sender has given. `None`: the sender gives all of them, or the
    /// announcement is not valid.
    pub fn take_rest(&self, announcement: Announcement) -> Option<u64> {
        let (index, turn) = announcement.split()?;
        let AnnouncementEntry { state, copy } = self.entry(index);
        match state.compare_exchange(
            turn | OPEN,
            turn | CLAIMED,
            Ordering::Acquire,
            Ordering::Acquire,
        ) {
            Ok(_) => Some(0),
            Err(found) if found == turn | CLAIMED => stop(copy, turn),
            Err(_) => None,
        }
    }

    /// Claims a message before the receiver reads it (rule 2).
    pub fn claim(&self, announcement: Announcement) -> Claim {
        let Some((index, turn)) = announcement.split() else { return Claim::Gone };
        let AnnouncementEntry { state, copy } = self.entry(index);
        match state.compare_exchange(
            turn | OPEN,
            turn | CLAIMED,
            Ordering::Acquire,
            Ordering::Acquire,
        ) {
            Ok(_) => Claim::AsAnnounced,
            Err(found) if found == turn | KEPT => Claim::Copy(copy.load(Ordering::Relaxed)),
            Err(_) => Claim::Gone,
        }
    }
}

/// Sets "stopped" in word 1 of this turn's message (rule 5); returns the bytes given.
fn stop(word: &AtomicU64, turn: u64) -> Option<u64> {
    let stopped =
        |found: u64| (found & !(GIVEN | STOPPED) == giving(turn, 0)).then_some(found | STOPPED);
    let found = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, stopped).ok()?;
    Some((found & GIVEN) / BYTE)
}

/// The sender's side of the entries: one in the life of a segment.
#[derive(Debug)]
pub struct AnnouncementSender {
    area: AnnouncementArea,
    /// The indices of closed entries; the last one is opened next.
    closed: Vec<u16>,
    /// The last state word of each entry: its turn, and [`OPEN`] or [`CLOSED`].
    turns: Box<[u64]>,
}

impl AnnouncementSender {
    /// The sender's side of entries that were never opened.
    pub fn new(area: AnnouncementArea) -> AnnouncementSender {
        let turns = vec![CLOSED; ANNOUNCEMENTS as usize].into_boxed_slice();
        AnnouncementSender { area, closed: (0..ANNOUNCEMENTS as u16).rev().collect(), turns }
    }

    /// Opens an entry for a message (rule 1). `None`: all entries are open.
    pub fn open(&mut self) -> Option<Announcement> {
        let index = self.closed.pop()?;
        let AnnouncementEntry { state, copy } = self.area.entry(usize::from(index));
        let own = &mut self.turns[usize::from(index)];
        let turn = own.wrapping_add(TURN) & !STATE;
        *own = turn | OPEN;
        copy.store(giving(turn, 0), Ordering::Relaxed);
        state.store(turn | OPEN, Ordering::Relaxed);
        Some(Announcement((turn / TURN) << INDEX_BITS | (u64::from(index) + 1)))
    }

    /// Takes a message back; its private copy is at `copy` (rule 3). `false`: the receiver has
    /// claimed it.
    pub fn keep(&self, announcement: Announcement, copy: u64) -> bool {
        let Some((index, turn)) = announcement.split() else { return false };
        let entry = self.area.entry(index);
        entry.copy.store(copy, Ordering::Relaxed);
        entry
            .state
            .compare_exchange(turn | OPEN, turn | KEPT, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Claims a message before the sender sends any of it (rule 2).
    pub fn claim(&self, announcement: Announcement) -> OwnClaim {
        let Some((index, turn)) = announcement.split() else { return OwnClaim::Receivers };
        let state = &self.area.entry(index).state;
        match state.compare_exchange(
            turn | OPEN,
            turn | CLAIMED,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            Ok(_) => OwnClaim::InPieces,
            Err(found) if found == turn | KEPT => OwnClaim::Whole,
            Err(_) => OwnClaim::Receivers,
        }
    }

    /// Adds `len` to the `given` bytes before a piece (rule 5). `false`: the receiver reads the
    /// rest.
    pub fn give(&self, announcement: Announcement, given: u64, len: u64) -> bool {
        let Some((index, turn)) = announcement.split() else { return false };
        let (before, after) = (giving(turn, given), giving(turn, given + len));
        let word = &self.area.entry(index).copy;
        word.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Gives no more of a message that this side has claimed (rule 5).
    pub fn stop(&self, announcement: Announcement) {
        if let Some((index, turn)) = announcement.split() {
            stop(&self.area.entry(index).copy, turn);
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
