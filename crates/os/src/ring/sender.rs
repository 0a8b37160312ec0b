//! The sending side of a pair ring.

use super::{INLINE_MAX, RingArea, form, header, whole_lines};
use crate::{
    bytes::{Bytes, BytesMut},
    hint::prefetch_to_write,
    line::{LINE_BYTES, LINE_WORDS, Line, Touch},
    sync::{AtomicU64, Ordering},
};

/// The sending side of a ring. Start it once in the life of a ring (or after [`RingArea::reset`]).
///
/// None of its calls waits: `false` means that there is no room now and nothing was sent.
#[derive(Debug)]
pub struct RingSender {
    /// The next slot to fill.
    slot: *const Line,
    /// The lap it gets (rule 3).
    pub(super) lap: u8,
    /// Slots that may be filled, by the credit word last seen.
    pub(super) free: u32,
    first: *const Line,
    end: *const Line,
    /// The credit word last seen.
    slots_taken: u32,
    data_taken: u32,
    /// Where the next chunk goes (rule 5).
    data_tail: u32,
    /// The receiver's complaints last seen (rule 11).
    pub(super) complaints: u64,
    pub(super) area: RingArea,
}

// SAFETY: `slot`, `first` and `end` point into the area, which may move between threads.
unsafe impl Send for RingSender {}

impl RingSender {
    /// The sending side of a ring that nobody has sent on yet.
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
            complaints: 0,
            area,
        }
    }

    /// The longest message that this ring carries, in bytes.
    pub fn max_data(&self) -> usize {
        self.area.shape.max_data()
    }

    /// Whether a message of `len` bytes (inline if it fits, else in chunks) could be sent now.
    pub fn room_for(&mut self, len: usize) -> bool {
        if len <= INLINE_MAX {
            self.free > 0 || self.look_for_credits() > 0
        } else {
            self.room_for_data(len, 0)
        }
    }

    /// Sends a message of at most 56 bytes in a slot. `false`: no room now.
    ///
    /// # Panics
    /// If `bytes` is longer.
    #[inline]
    pub fn try_send_inline(&mut self, tag: i32, context: u16, bytes: Bytes<'_>) -> bool {
        self.send_slot(tag, context, form::INLINE, bytes)
    }

    /// Sends a frame of another protocol, at most 56 bytes, in order with the messages. `false`: no room now.
    ///
    /// # Panics
    /// If `frame` is longer.
    #[inline]
    pub fn try_send_frame(&mut self, frame: Bytes<'_>) -> bool {
        self.send_slot(0, 0, form::FRAME, frame)
    }

    /// Sends a message of `total` bytes in chunks, all or nothing. `fill(offset, chunk)` is called for each chunk in
    /// turn and writes the message's bytes from `offset` on to it, all of them. `false`: no room now, and `fill` was
    /// not called.
    ///
    /// # Panics
    /// If `total` is more than [`RingSender::max_data`].
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

    /// Copies and publishes a message for whose chunks there is room (rules 5 and 6).
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
                // Rule 5: skip the rest.
                self.data_tail = self.data_tail.wrapping_add(size - at);
                at = 0;
            }
            self.area.watched.touch(at as usize, taken as usize, Touch::Write);
            // SAFETY: `at + taken <= size`, so the chunk lies inside the data ring, which `self.area` keeps
            // mapped. The receiver has taken these bytes (`room_for_data`, rule 5) and nobody else uses them.
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
            self.publish(header(tag, context, form::CHUNK, 16, self.lap));
            self.data_tail = self.data_tail.wrapping_add(taken);
            offset += len;
            if offset == total {
                return;
            }
        }
    }

    /// Words 1 and 2 of a chunk.
    ///
    /// # Safety
    /// There must be a free slot.
    #[inline(always)]
    pub(super) unsafe fn fill_chunk_words(&self, total: u32, len: u32, position: u32, offset: u32) {
        // SAFETY: `slot` is inside the area, and free by the caller.
        let words = unsafe { &(*self.slot).words };
        words[1].store(u64::from(total) | u64::from(len) << 32, Ordering::Relaxed);
        words[2].store(u64::from(position) | u64::from(offset) << 32, Ordering::Relaxed);
    }

    /// Announces that this side is about to sleep until there is more room, and looks once more (rule 7). `true`:
    /// credits have come meanwhile, try again instead of sleeping. `false`: the receiver will ring. Call it between
    /// [`Next::Sleep`](crate::door::Next::Sleep) and the sleep.
    #[cold]
    pub fn want_credits(&mut self) -> bool {
        self.area.waiting_word().store(1, Ordering::Relaxed);
        self.area.barrier.heavy();
        let before = (self.slots_taken, self.data_taken);
        self.look_for_credits();
        before != (self.slots_taken, self.data_taken)
    }

    #[inline(always)]
    pub(super) fn send_slot(&mut self, tag: i32, context: u16, form: u8, bytes: Bytes<'_>) -> bool {
        assert!(bytes.len() <= INLINE_MAX, "a message of {} bytes does not fit a slot", bytes.len());
        if self.free == 0 && self.look_for_credits() == 0 {
            return false;
        }
        self.fill_payload(bytes);
        self.publish(header(tag, context, form, bytes.len(), self.lap));
        true
    }

    /// Rule 2: the release store; then on to the next slot. The next slot is *not* fetched in advance: that was
    /// measured to cost a tenth of the latency of a small message, though it helps with data (`try_send_data`).
    #[inline(always)]
    pub(super) fn publish(&mut self, header: u64) {
        debug_assert!(self.free > 0);
        // SAFETY: `slot` is always inside the area.
        unsafe { &*self.slot }.words[0].store(header, Ordering::Release);
        self.free -= 1;
        // SAFETY: `slot` is below `end`, so the next one is at most `end`.
        self.slot = unsafe { self.slot.add(1) };
        if self.slot == self.end {
            self.slot = self.first;
            self.lap = self.lap.wrapping_add(1);
        }
    }

    /// Writes `bytes` to words 1-7 of the slot, whole words, never reading past the end of `bytes`.
    #[inline(always)]
    fn fill_payload(&mut self, bytes: Bytes<'_>) {
        // SAFETY: `slot` is inside the area.
        let words = unsafe { &(*self.slot).words };
        if bytes.len() == 8 {
            // SAFETY: the eight bytes are mapped for the lifetime of `bytes`. Another thread may write them meanwhile;
            // that is its error, and what we read is then arbitrary.
            let word = unsafe { bytes.as_ptr().cast::<u64>().read_unaligned() };
            words[1].store(word, Ordering::Relaxed);
            return;
        }
        fill_words(words, bytes);
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
        let slots = ((total + (shape.chunk_bytes - 1)) >> shape.chunk_bytes.trailing_zeros()).max(1) + more;
        let lines = whole_lines(total);
        let rest = shape.data_bytes - (self.data_tail & (shape.data_bytes - 1));
        // All chunks but the last are equally long, so what is skipped at the end is the remainder.
        let bytes = if lines > rest { lines + (rest & (shape.chunk_bytes - 1)) } else { lines };
        let fits = |this: &Self| {
            let used = this.data_tail.wrapping_sub(this.data_taken);
            slots <= this.free && bytes <= shape.data_bytes - used
        };
        fits(self) || {
            self.look_for_credits();
            fits(self)
        }
    }

    /// Loads the credit word (rule 4), and says how many slots are free.
    #[cold]
    pub(super) fn look_for_credits(&mut self) -> u32 {
        let credit = self.area.credit_word().load(Ordering::Acquire);
        let slots_taken = credit as u32;
        self.free += slots_taken.wrapping_sub(self.slots_taken);
        self.slots_taken = slots_taken;
        self.data_taken = (credit >> 32) as u32;
        self.free
    }
}

/// Writes `bytes` to words 1-7 of a slot, for any length. Apart from the commonest length, so that the way of that one
/// stays short.
#[inline(never)]
fn fill_words(words: &[AtomicU64; LINE_WORDS], bytes: Bytes<'_>) {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    // SAFETY (all reads below): they lie inside the `len` bytes at `from`, which are mapped for the lifetime of
    // `bytes`. Another thread may write them meanwhile; that is its error, and what we read is then arbitrary.
    let whole = len / 8;
    for (index, word) in words[1..].iter().enumerate().take(whole) {
        // SAFETY: see above; `index < whole`.
        word.store(unsafe { from.cast::<u64>().add(index).read_unaligned() }, Ordering::Relaxed);
    }
    let rest = len % 8;
    if rest != 0 {
        let last = if whole > 0 {
            // SAFETY: see above; `len > 8`, the last eight bytes. The shift drops those already copied.
            unsafe { from.add(len - 8).cast::<u64>().read_unaligned() >> (8 * (8 - rest)) }
        } else if rest >= 4 {
            // SAFETY: see above; two overlapping reads of four bytes.
            let (low, high) = unsafe {
                (from.cast::<u32>().read_unaligned(), from.add(rest - 4).cast::<u32>().read_unaligned())
            };
            u64::from(low) | u64::from(high) << (8 * (rest - 4))
        } else {
            // SAFETY: see above; the first, middle and last of one to three bytes.
            let (low, mid, high) = unsafe { (*from, *from.add(rest / 2), *from.add(rest - 1)) };
            u64::from(low) | u64::from(mid) << (8 * (rest / 2)) | u64::from(high) << (8 * (rest - 1))
        };
        words[1 + whole].store(last, Ordering::Relaxed);
    }
}
