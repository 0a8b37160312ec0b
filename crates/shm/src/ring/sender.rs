//! The sending side of a pair ring.

use super::{INLINE_MAX, RingArea, form, header, whole_lines};
use oxmpi_sys::{
    bytes::{Bytes, BytesMut},
    hint::prefetch_to_write,
    line::{LINE_BYTES, LINE_WORDS, Line, Touch},
    sync::{AtomicU64, Ordering},
};

/// The sender's side. Make it once in the life of a ring, or after [`RingArea::reset`]. None of its
/// calls waits: `false` means that there is no room now and nothing was sent.
#[derive(Debug)]
pub struct RingSender {
    slot: *const Line,
    pub(super) lap: u64,
    /// Slots that may be filled, by `slots_taken`.
    free: u32,
    first: *const Line,
    end: *const Line,
    /// The credit word last seen.
    slots_taken: u32,
    data_taken: u32,
    /// The position of the next chunk (rule 4).
    data_tail: u32,
    pub(super) area: RingArea,
}

// SAFETY: `slot`, `first` and `end` point into the area, which may move between threads.
unsafe impl Send for RingSender {}

impl RingSender {
    /// The sending side of a new ring.
    pub fn new(area: RingArea) -> RingSender {
        let (first, end) = area.slot_range();
        RingSender {
            slot: first,
            lap: 1,
            free: area.shape.slots,
            first,
            end,
            slots_taken: 0,
            data_taken: 0,
            data_tail: 0,
            area,
        }
    }

    /// The longest message that this ring carries, in bytes.
    pub fn max_data(&self) -> usize {
        self.area.shape.max_data()
    }

    /// Whether a message of `len` bytes could be sent now, in a slot or in chunks.
    pub fn room_for(&mut self, len: usize) -> bool {
        if len > INLINE_MAX { self.room_for_data(len, 0) } else { self.has_slots(1) }
    }

    /// Sends a message of at most 56 bytes in a slot. Panics if it is longer.
    pub fn try_send_inline(&mut self, tag: i32, context: u16, bytes: Bytes<'_>) -> bool {
        self.has_slots(1) && self.send_inline_now(tag, context, bytes)
    }

    /// As [`RingSender::try_send_inline`], but never reads the credit word
    /// ([`RingSender::finds_credits`]). Panics if `bytes` is too long.
    #[inline(always)]
    pub fn send_inline_now(&mut self, tag: i32, context: u16, bytes: Bytes<'_>) -> bool {
        if self.free == 0 {
            return false;
        }
        assert!(
            bytes.len() <= INLINE_MAX,
            "a message of {} bytes does not fit a slot",
            bytes.len()
        );
        // SAFETY: `slot` is inside the area, and free.
        let words = unsafe { &(*self.slot).words };
        // A separate, short path for the most frequent length.
        if bytes.len() == 8 {
            // SAFETY: `bytes` has eight bytes.
            words[1].store(unsafe { word_at(bytes, 0) }, Ordering::Relaxed);
        } else {
            fill_words(words, bytes);
        }
        self.publish(header(tag, context, form::WHOLE, bytes.len(), self.lap));
        true
    }

    /// Reads the credit word; whether there are new credits.
    #[cold]
    pub fn finds_credits(&mut self) -> bool {
        self.read_credits();
        self.free > 0
    }

    /// Sends a frame of another protocol in order. Panics if it has more than 56 bytes.
    #[inline]
    pub fn try_send_frame(&mut self, frame: Bytes<'_>) -> bool {
        self.send_frame(0, frame)
    }

    /// Sends a message of `total` bytes in chunks, all or nothing. `fill(offset, chunk)` writes the
    /// message's bytes from `offset` on to each chunk in order. Panics if `total` is more than
    /// [`RingSender::max_data`].
    pub fn try_send_data(
        &mut self,
        tag: i32,
        context: u16,
        total: usize,
        mut fill: impl FnMut(usize, BytesMut<'_>),
    ) -> bool {
        if !self.room_for_data(total, 0) {
            return false;
        }
        self.send_chunks(tag, context, total, &mut fill);
        true
    }

    /// Copies and publishes a message for whose chunks there is room (rule 4).
    #[inline]
    pub(super) fn send_chunks(
        &mut self,
        tag: i32,
        context: u16,
        total: usize,
        fill: &mut impl FnMut(usize, BytesMut<'_>),
    ) {
        let (size, longest) = (self.area.shape.data_bytes, self.area.shape.chunk_bytes);
        let total = total as u32;
        let mut offset = 0;
        loop {
            let len = longest.min(total - offset);
            let taken = whole_lines(len);
            let mut at = self.data_tail & (size - 1);
            if at + taken > size {
                self.data_tail = self.data_tail.wrapping_add(size - at);
                at = 0;
            }
            self.area.watched.touch(at as usize, taken as usize, Touch::Write);
            // SAFETY: `at + taken <= size`, so the chunk is inside the data ring, which `self.area`
            // keeps mapped. The receiver has taken these bytes (`room_for_data`, rule 3), so no
            // other process uses them.
            let chunk = unsafe {
                let start = self.area.data.as_ptr().add(at as usize);
                for line in (0..taken as usize).step_by(LINE_BYTES) {
                    prefetch_to_write(start.wrapping_add(line));
                }
                BytesMut::from_raw(start, len as usize)
            };
            fill(offset as usize, chunk);
            // SAFETY: `slot` is inside the area, and free (`room_for_data`).
            unsafe { self.fill_chunk_words(total, len, self.data_tail, offset) };
            self.publish(header(tag, context, form::CHUNK, 0, self.lap));
            self.data_tail = self.data_tail.wrapping_add(taken);
            offset += len;
            if offset == total {
                return;
            }
        }
    }

    /// Writes words 1 and 2 of a chunk. Safety: `slot` is free.
    #[inline(always)]
    pub(super) unsafe fn fill_chunk_words(&self, total: u32, len: u32, position: u32, offset: u32) {
        // SAFETY: `slot` is inside the area, and free by the caller.
        let words = unsafe { &(*self.slot).words };
        words[1].store(u64::from(total) | u64::from(len) << 32, Ordering::Relaxed);
        words[2].store(u64::from(position) | u64::from(offset) << 32, Ordering::Relaxed);
    }

    /// Announces that this side is about to sleep, and reads the credit word once more (rule 5).
    /// Call it after [`Next::Sleep`](crate::door::Next::Sleep). `true`: credits have come, try
    /// again. `false`: the receiver will ring.
    #[cold]
    pub fn want_credits(&mut self) -> bool {
        self.area.waiting_word().store(1, Ordering::Relaxed);
        self.area.barrier.heavy();
        let before = (self.slots_taken, self.data_taken);
        self.read_credits();
        before != (self.slots_taken, self.data_taken)
    }

    /// Sends a frame; its tag is the length of the body.
    pub(super) fn send_frame(&mut self, body_len: i32, frame: Bytes<'_>) -> bool {
        assert!(frame.len() <= INLINE_MAX, "a frame of {} bytes does not fit a slot", frame.len());
        if !self.has_slots(1) {
            return false;
        }
        // SAFETY: `slot` is inside the area, and free.
        unsafe { fill_words(&(*self.slot).words, frame) };
        self.publish(header(body_len, 0, form::FRAME, frame.len(), self.lap));
        true
    }

    /// Publishes the slot (rule 2) and moves to the next one. Does *not* prefetch the next slot: by
    /// measurement that costs a tenth of the latency of a small message, though it helps with data.
    #[inline(always)]
    pub(super) fn publish(&mut self, header: u64) {
        debug_assert!(self.free > 0);
        // SAFETY: `slot` is always inside the area.
        unsafe { &(*self.slot).words[0] }.store(header, Ordering::Release);
        self.free -= 1;
        // SAFETY: `slot` is below `end`, so the next one is at most `end`.
        self.slot = unsafe { self.slot.add(1) };
        if self.slot == self.end {
            self.slot = self.first;
            self.lap = self.lap.wrapping_add(1);
        }
    }

    #[inline(always)]
    pub(super) fn has_slots(&mut self, slots: u32) -> bool {
        slots <= self.free || {
            self.read_credits();
            slots <= self.free
        }
    }

    /// Whether there is room for `more` slots, and a message in chunks behind them.
    pub(super) fn room_for_data(&mut self, total: usize, more: u32) -> bool {
        let shape = self.area.shape;
        assert!(
            total <= shape.max_data(),
            "a message of {total} bytes does not fit this ring, which takes {} at most",
            shape.max_data()
        );
        let total = total as u32;
        let slots =
            ((total + (shape.chunk_bytes - 1)) >> shape.chunk_bytes.trailing_zeros()).max(1) + more;
        let lines = whole_lines(total);
        let rest = shape.data_bytes - (self.data_tail & (shape.data_bytes - 1));
        // All chunks but the last have the same length, so the remainder is skipped at the end.
        let bytes = if lines > rest { lines + (rest & (shape.chunk_bytes - 1)) } else { lines };
        let fits = |this: &Self| {
            let used = this.data_tail.wrapping_sub(this.data_taken);
            slots <= this.free && bytes <= shape.data_bytes - used
        };
        fits(self) || {
            self.read_credits();
            fits(self)
        }
    }

    #[cold]
    fn read_credits(&mut self) {
        let credit = self.area.credit_word().load(Ordering::Acquire);
        let slots_taken = credit as u32;
        self.free += slots_taken.wrapping_sub(self.slots_taken);
        self.slots_taken = slots_taken;
        self.data_taken = (credit >> 32) as u32;
    }
}

/// Writes `bytes`, 56 at most, behind a header: without a loop, a call, or a read past their end.
#[cfg(not(loom))]
#[inline(always)]
fn fill_words(words: &[AtomicU64; LINE_WORDS], bytes: Bytes<'_>) {
    let (from, to, len) =
        (bytes.as_ptr(), words[1..].as_ptr().cast::<u8>().cast_mut(), bytes.len());
    debug_assert!(len <= INLINE_MAX);
    // SAFETY: both sides have `len` bytes, and `at` is such that the copy ends within them. Until
    // the header is published no other process reads or writes the slot.
    let copy_16 = |at: usize| unsafe {
        to.add(at).cast::<u128>().write_unaligned(from.add(at).cast::<u128>().read_unaligned())
    };
    // SAFETY: as above.
    let copy_8 = |at: usize| unsafe {
        to.add(at).cast::<u64>().write_unaligned(from.add(at).cast::<u64>().read_unaligned())
    };
    if len > 16 {
        copy_16(0);
        if len > 32 {
            copy_16(16);
        }
        if len > 48 {
            copy_16(32);
        }
        // These overlap the bytes copied before.
        copy_16(len - 16);
    } else if len >= 8 {
        copy_8(0);
        copy_8(len - 8);
    } else {
        words[1].store(short_word(bytes), Ordering::Relaxed);
    }
}

/// For the model checker, whose words have another size.
#[cfg(loom)]
fn fill_words(words: &[AtomicU64; LINE_WORDS], bytes: Bytes<'_>) {
    for (word, bytes) in words[1..].iter().zip(bytes.to_vec().chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
}

/// Eight bytes from `at` on; arbitrary if the program writes them meanwhile. Safety: they exist.
#[inline(always)]
unsafe fn word_at(bytes: Bytes<'_>, at: usize) -> u64 {
    debug_assert!(at + 8 <= bytes.len());
    // SAFETY: by the contract of this function; they are mapped for the lifetime of `bytes`.
    unsafe { bytes.as_ptr().add(at).cast::<u64>().read_unaligned() }
}

/// Less than eight bytes, as the low ones of a word.
#[cfg(not(loom))]
#[inline(always)]
fn short_word(bytes: Bytes<'_>) -> u64 {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    debug_assert!(len < 8);
    if len >= 4 {
        // SAFETY: as in `word_at`; two overlapping reads of four bytes.
        let (low, high) = unsafe {
            (from.cast::<u32>().read_unaligned(), from.add(len - 4).cast::<u32>().read_unaligned())
        };
        u64::from(low) | u64::from(high) << (8 * (len - 4))
    } else if len > 0 {
        // SAFETY: as in `word_at`; the first, middle and last of one to three bytes.
        let (low, mid, high) = unsafe { (*from, *from.add(len / 2), *from.add(len - 1)) };
        u64::from(low) | u64::from(mid) << (8 * (len / 2)) | u64::from(high) << (8 * (len - 1))
    } else {
        0
    }
}
