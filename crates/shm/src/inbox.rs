//! The inbox: a bounded queue of frames with many producers, the peers, and one consumer.
//!
//! Peers that seldom send share it, so that memory does not grow with the square of the ranks. It
//! has *cells* of 512 bytes and a line with a hint.
//!
//! ```text
//! cell    word 0: producer 32 | turn 30 | state 2      word 1: length      words 2-63: payload
//!         state 0: free for this turn    1: claimed by the producer    2: published
//! hint    word 0: a position that is not beyond the first free cell
//! ```
//!
//! Position p is cell p modulo the number of cells, and its turn is p divided by that number.
//!
//! Rules
//! 1. *Claim.* A producer claims the cell of position p by a compare-exchange (acquire) of its word
//!    from "free, turn of p" to "claimed by me, turn of p". So the word names the producer.
//! 2. *In order.* It tries position p + 1 only after it has seen that the cell of p is claimed or
//!    published in the turn of p. So claims have no gaps.
//! 3. *Hint.* A producer that finds the cell of p taken, or takes it, moves the hint from p to p +
//!    1 (compare-exchange, relaxed; failure is ignored). So the hint is never ahead, and no death
//!    stops it.
//! 4. *Publish.* The producer fills its cell and stores "published" (release). The consumer loads
//!    the word (acquire) and reads the rest only if it says "published" in the consumer's turn.
//! 5. *Free.* The consumer stores "free" for the next turn (release) after its last read of the
//!    cell. If a producer finds a cell in an older turn than its own, the inbox is full.
//! 6. *Death.* If a producer is known to be dead, the consumer frees its claimed cell as in rule 5,
//!    and the frame is lost.
//!
//! The consumer does not know of a producer that finds the inbox full, so this producer sleeps only
//! for a limited time.

use oxmpi_sys::{
    bytes::{Bytes, BytesMut},
    line::{Keep, LINE_BYTES, LINE_WORDS, Line, heap_lines},
    sync::{AtomicU64, Ordering},
};
use std::ptr::NonNull;

pub const CELL_BYTES: usize = 512;
/// The longest frame, in bytes.
pub const CELL_PAYLOAD: usize = CELL_BYTES - 16;

const CELL_LINES: usize = CELL_BYTES / LINE_BYTES;
const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const PUBLISHED: u64 = 2;
const TURN_MASK: u64 = (1 << 30) - 1;

/// The memory of an inbox, in a segment or on the heap. A clone is a view of the same inbox.
#[derive(Clone, Debug)]
pub struct InboxArea {
    hint: NonNull<Line>,
    cells: NonNull<Line>,
    /// log2 of the number of cells.
    shift: u32,
    _keep: Keep,
}

// SAFETY: the memory behind the pointers is atomics, and bytes that the protocol hands from one
// side to the other (rules 1, 4, 5); `_keep` keeps it mapped.
unsafe impl Send for InboxArea {}
// SAFETY: as above.
unsafe impl Sync for InboxArea {}

impl InboxArea {
    /// Checks the number of cells; the error is a text for the user.
    pub fn check(cells: u32) -> Result<(), String> {
        if cells.is_power_of_two() && (2..=1 << 16).contains(&cells) {
            return Ok(());
        }
        Err(format!("an inbox of {cells} cells: the number must be a power of two from 2 to 65536"))
    }

    /// Bytes of an inbox of `cells` cells.
    pub const fn bytes(cells: u32) -> usize {
        // The processor fetches lines in pairs: an unused line separates the hint from the first
        // cell.
        2 * LINE_BYTES + cells as usize * CELL_BYTES
    }

    /// An empty inbox on the heap, for threads. Panics if [`InboxArea::check`] returns an error.
    pub fn on_heap(cells: u32) -> InboxArea {
        if let Err(wrong) = InboxArea::check(cells) {
            panic!("{wrong}");
        }
        let lines = heap_lines(2 + cells as usize * CELL_LINES);
        InboxArea {
            hint: NonNull::from(&lines[0]),
            cells: NonNull::from(&lines[2]),
            shift: cells.trailing_zeros(),
            _keep: std::sync::Arc::new(lines),
        }
    }

    /// Safety: [`InboxArea::bytes`] bytes at `at`, aligned to 64, are zero or an inbox of `cells`
    /// cells, and stay mapped and writable while `keep` lives.
    #[cfg(not(loom))]
    pub(crate) unsafe fn from_raw(at: NonNull<u8>, cells: u32, keep: Keep) -> Self {
        debug_assert!(InboxArea::check(cells).is_ok());
        let hint: NonNull<Line> = at.cast();
        let shift = cells.trailing_zeros();
        // SAFETY: the third line is inside the caller's bytes.
        let cells = unsafe { hint.add(2) };
        InboxArea { hint, cells, shift, _keep: keep }
    }

    fn hint(&self) -> &AtomicU64 {
        // SAFETY: inside the area, mapped while `self._keep` lives.
        unsafe { &self.hint.as_ref().words[0] }
    }

    fn cell(&self, position: u64) -> NonNull<Line> {
        let cell = position as usize & ((1 << self.shift) - 1);
        // SAFETY: the cell is inside the area.
        unsafe { self.cells.add(cell * CELL_LINES) }
    }

    fn word(&self, position: u64, word: usize) -> &AtomicU64 {
        // SAFETY: the word is inside the cell, mapped while `self._keep` lives.
        let line = unsafe { self.cell(position).add(word / LINE_WORDS).as_ref() };
        &line.words[word % LINE_WORDS]
    }

    fn turn(&self, position: u64) -> u64 {
        (position >> self.shift) & TURN_MASK
    }
}

const fn cell_word(producer: u32, turn: u64, state: u64) -> u64 {
    (producer as u64) << 32 | turn << 2 | state
}

const fn parts(word: u64) -> (u32, u64, u64) {
    ((word >> 32) as u32, (word >> 2) & TURN_MASK, word & 3)
}

/// Whether a cell's word is of an older turn, which means that the inbox is full (rule 5).
const fn is_before(word: u64, turn: u64) -> bool {
    parts(word).1.wrapping_sub(turn) & TURN_MASK > TURN_MASK / 2
}

/// A producer; an inbox may have several.
#[derive(Clone, Debug)]
pub struct InboxSender {
    area: InboxArea,
}

impl InboxSender {
    /// A producer for the inbox.
    pub fn new(area: InboxArea) -> InboxSender {
        InboxSender { area }
    }

    /// Appends a frame of `len` bytes of `producer`, which `fill` writes. `false`: the inbox is
    /// full. Panics if `len` is more than [`CELL_PAYLOAD`]. If `fill` panics, the cell stays
    /// claimed for ever.
    pub fn try_send(&mut self, producer: u32, len: usize, fill: impl FnOnce(BytesMut<'_>)) -> bool {
        assert!(
            len <= CELL_PAYLOAD,
            "a frame of {len} bytes does not fit a cell, which takes {CELL_PAYLOAD}"
        );
        let Some(position) = self.claim(producer) else { return false };
        self.area.word(position, 1).store(len as u64, Ordering::Relaxed);
        #[cfg(not(loom))]
        // SAFETY: words 2 to 63 of the cell are contiguous and have `CELL_PAYLOAD` bytes. They
        // belong to this producer until it publishes (rule 1).
        fill(unsafe {
            BytesMut::from_raw(
                std::ptr::from_ref(self.area.word(position, 0)).cast_mut().cast::<u8>().add(16),
                len,
            )
        });
        #[cfg(loom)]
        {
            let mut bytes = vec![0u8; len];
            fill(BytesMut::from(&mut bytes[..]));
            for (index, eight) in bytes.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..eight.len()].copy_from_slice(eight);
                self.area
                    .word(position, 2 + index)
                    .store(u64::from_ne_bytes(word), Ordering::Relaxed);
            }
        }
        // Rule 4.
        let published = cell_word(producer, self.area.turn(position), PUBLISHED);
        self.area.word(position, 0).store(published, Ordering::Release);
        true
    }

    /// Claims a cell and returns its position (rules 1 to 3); `None` if the inbox is full.
    fn claim(&self, producer: u32) -> Option<u64> {
        let mut position = self.area.hint().load(Ordering::Relaxed);
        loop {
            let turn = self.area.turn(position);
            let word = self.area.word(position, 0);
            // A load first, so that producers that wait for a full inbox do not write to it. Not
            // under loom, whose search would miss that the consumer has read before.
            #[cfg(not(loom))]
            if is_before(word.load(Ordering::Relaxed), turn) {
                return None;
            }
            let claimed = word.compare_exchange(
                cell_word(0, turn, FREE),
                cell_word(producer, turn, CLAIMED),
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if claimed.is_err_and(|word| is_before(word, turn)) {
                return None;
            }
            let next = position + 1;
            let hint = self.area.hint().compare_exchange(
                position,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if claimed.is_ok() {
                return Some(position);
            }
            // The cell is taken in this turn or a later one: the position was old.
            position = next.max(hint.unwrap_or_else(|now| now));
        }
    }
}

/// The next frame of an inbox. The view is valid until the cell is released.
#[derive(Clone, Copy, Debug)]
pub struct ReadCell<'a> {
    pub producer: u32,
    pub bytes: Bytes<'a>,
}

// SAFETY: `next` points into the area, which may move between threads.
unsafe impl Send for InboxReceiver {}

/// The consumer: one for each inbox.
#[derive(Debug)]
pub struct InboxReceiver {
    area: InboxArea,
    head: u64,
    next: NonNull<Line>,
    /// The low half of the next cell's word once it is published (rule 4).
    expected: u32,
    #[cfg(loom)]
    payload: Vec<u64>,
}

impl InboxReceiver {
    /// The consumer of a new inbox.
    pub fn new(area: InboxArea) -> InboxReceiver {
        InboxReceiver {
            next: area.cell(0),
            area,
            head: 0,
            expected: PUBLISHED as u32,
            #[cfg(loom)]
            payload: Vec::new(),
        }
    }

    /// Whether the next cell is not published yet.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        // SAFETY: a cell of the area, mapped while `self.area` lives.
        let word = unsafe { &self.next.as_ref().words[0] };
        word.load(Ordering::Acquire) as u32 != self.expected
    }

    /// The next frame, if it is published. It stays the next until it is released.
    #[inline]
    pub fn peek(&mut self) -> Option<ReadCell<'_>> {
        let word = self.area.word(self.head, 0).load(Ordering::Acquire);
        if word as u32 != self.expected {
            return None;
        }
        let len = (self.area.word(self.head, 1).load(Ordering::Relaxed) as usize).min(CELL_PAYLOAD);
        #[cfg(not(loom))]
        let start = std::ptr::from_ref(self.area.word(self.head, 0)).cast::<u8>().wrapping_add(16);
        #[cfg(loom)]
        let start = {
            let words = len.div_ceil(8);
            self.payload = (0..words)
                .map(|index| self.area.word(self.head, 2 + index).load(Ordering::Relaxed))
                .collect();
            self.payload.as_ptr().cast::<u8>()
        };
        // SAFETY: the cell has `CELL_PAYLOAD` bytes from its third word on, mapped while
        // `self.area` lives (under loom: the copy has `len` bytes and lives as long as the borrow
        // of `self`).
        let bytes = unsafe { Bytes::from_raw(start, len) };
        Some(ReadCell { producer: (word >> 32) as u32, bytes })
    }

    /// Frees the cell of the last [`InboxReceiver::peek`].
    pub fn release(&mut self) {
        let next_turn = self.area.turn(self.head + (1 << self.area.shift));
        // Rule 5.
        self.area.word(self.head, 0).store(cell_word(0, next_turn, FREE), Ordering::Release);
        self.head += 1;
        self.next = self.area.cell(self.head);
        self.expected = cell_word(0, self.area.turn(self.head), PUBLISHED) as u32;
    }

    /// The producer of the next cell if the cell is claimed and not yet published. If that process
    /// is dead, later cells can be read only after [`InboxReceiver::skip_dead`].
    pub fn claimed_by(&self) -> Option<u32> {
        let (producer, turn, state) = parts(self.area.word(self.head, 0).load(Ordering::Acquire));
        (state == CLAIMED && turn == self.area.turn(self.head)).then_some(producer)
    }

    /// Skips the next cell if `producer`, *which must be known to be dead*, has claimed and not
    /// published it (rule 6). `true`: a cell was skipped; call again.
    pub fn skip_dead(&mut self, producer: u32) -> bool {
        let skip = self.claimed_by() == Some(producer);
        if skip {
            self.release();
        }
        skip
    }
}
