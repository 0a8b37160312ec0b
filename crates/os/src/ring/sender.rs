//! The sending side of a pair ring.

use super::{INLINE_MAX, RingArea, form, header, whole_lines};
use crate::{
    bytes::{Bytes, BytesMut, CopyKind},
    hint::{prefetch_to_write, store_fence},
    line::{LINE_BYTES, LINE_WORDS, Line, Touch},
    pool::{CopyChoice, Pool, PoolShape},
    sync::{AtomicU64, Ordering},
};

/// The longest piece of a message in the pool, in bytes. Each piece has a price of its own (its slot goes from core to
/// core, the receiver misses its first lines), which shorter ones were measured not to earn back by starting the
/// receiver earlier.
const LONG_PIECE: u32 = 8 << 10;
/// Streaming stores are slower, so that for messages up to `SHORT_MESSAGE` shorter pieces do.
const SHORT_MESSAGE: u32 = 16 << 10;
const SHORT_STREAMING_PIECE: u32 = 4 << 10;

/// The sender's pool, for one message.
#[derive(Debug)]
pub struct Pooling<'a> {
    /// The pool.
    pub pool: &'a mut Pool,
    /// The process at the other end of the ring, for [`Pool::forget`].
    pub to: u32,
    /// How the message's pieces are copied. It learns from the time that plain ones take; so a caller whose copies are slow
    /// by themselves (it packs a derived datatype, say) passes [`CopyChoice::always`].
    pub copies: &'a mut CopyChoice,
}

/// The sending side of a ring. Start it once in the life of a ring (or after [`RingArea::reset`]).
///
/// None of its calls waits: `false` means that there is no room now and nothing was sent.
#[derive(Debug)]
pub struct RingSender {
    /// The next slot to fill.
    slot: *const Line,
    /// The lap it gets (rule 3).
    lap: u8,
    /// Slots that may be filled, by the credit word last seen.
    free: u32,
    first: *const Line,
    end: *const Line,
    /// The credit word last seen.
    slots_taken: u32,
    data_taken: u32,
    /// Where the next chunk goes (rule 5).
    data_tail: u32,
    /// The receiver's complaints last seen (rule 11).
    complaints: u64,
    area: RingArea,
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

    /// The longest message in bytes that may be sent on this ring through a pool of this shape: half of the pool, and
    /// no more pieces than half the slots (rule 8).
    pub fn max_pooled(&self, pool: &PoolShape) -> usize {
        let by_slots = self.area.shape.slots as usize / 2 * pool.block_bytes.min(LONG_PIECE) as usize;
        pool.max_message().min(by_slots)
    }

    /// Sends a message of `total` bytes through the sender's pool, all or nothing. `fill(offset, piece, kind)` is
    /// called for each piece in turn and writes the message's bytes from `offset` on to it, all of them. If `kind` is
    /// streaming it may do so by streaming stores, [`Bytes::copy_by`]. `false`: no room now, in the ring or in the
    /// pool, and `fill` was not called. There may be room in the data ring; nobody wakes a sender that waits for the
    /// pool.
    ///
    /// # Panics
    /// If `total` is more than [`RingSender::max_pooled`].
    pub fn try_send_pooled(
        &mut self,
        tag: i32,
        context: u16,
        total: usize,
        pooling: Pooling<'_>,
        mut fill: impl FnMut(usize, BytesMut<'_>, CopyKind),
    ) -> bool {
        let Some(piece) = self.room_for_pooled(total, &mut *pooling.pool, pooling.copies.kind(), 0) else {
            return false;
        };
        self.send_pieces(tag, context, total, piece, pooling, &mut fill);
        true
    }

    /// Sends a frame of at most 56 bytes and, behind it, a body of `body_len` bytes, all or nothing (rule 10): through
    /// the pool if one is given, else through the data ring with plain copies. `fill` as for
    /// [`RingSender::try_send_pooled`]. `false`: no room now, and `fill` was not called.
    ///
    /// # Panics
    /// If `frame` is longer than 56 bytes, or the body longer than [`RingSender::max_pooled`] or
    /// [`RingSender::max_data`].
    pub fn try_send_frame_with_body(
        &mut self,
        frame: Bytes<'_>,
        body_len: usize,
        pooling: Option<Pooling<'_>>,
        mut fill: impl FnMut(usize, BytesMut<'_>, CopyKind),
    ) -> bool {
        let tag = body_len as u32 as i32;
        match pooling {
            _ if body_len == 0 => self.try_send_frame(frame),
            None => {
                let gone = self.room_for_data(body_len, 1) && self.send_slot(tag, 0, form::FRAME, frame);
                if gone {
                    let mut plain = |offset, chunk: BytesMut<'_>| fill(offset, chunk, CopyKind::Plain);
                    self.send_chunks(0, 0, body_len, &mut plain);
                }
                gone
            }
            Some(pooling) => {
                let kind = pooling.copies.kind();
                let Some(piece) = self.room_for_pooled(body_len, &mut *pooling.pool, kind, 1) else {
                    return false;
                };
                let gone = self.send_slot(tag, 0, form::FRAME, frame);
                if gone {
                    self.send_pieces(0, 0, body_len, piece, pooling, &mut fill);
                }
                gone
            }
        }
    }

    /// Copies and publishes a message for whose chunks there is room (rules 5 and 6).
    #[inline]
    fn send_chunks(
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

    /// Copies and publishes a message for whose pieces there is room (rules 6 and 9).
    #[inline]
    fn send_pieces(
        &mut self,
        tag: i32,
        context: u16,
        total: usize,
        longest: u32,
        pooling: Pooling<'_>,
        fill: &mut impl FnMut(usize, BytesMut<'_>, CopyKind),
    ) {
        let Pooling { pool, to, copies } = pooling;
        let complaints = self.area.complaints_word().load(Ordering::Relaxed);
        if std::mem::replace(&mut self.complaints, complaints) != complaints {
            copies.reader_was_slow();
        }
        let start = pool.take(total, to);
        let total = total as u32;
        let mut offset = 0;
        loop {
            let len = longest.min(total - offset);
            let position = start.wrapping_add(offset);
            copy_piece(pool, position, len as usize, copies, |piece, kind| {
                fill(offset as usize, piece, kind)
            });
            // SAFETY: `slot` is inside the area, and free (`room_for_pooled`).
            unsafe { self.fill_chunk_words(total, len, position, offset) };
            self.publish(header(tag, context, form::POOLED, 16, self.lap));
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
    unsafe fn fill_chunk_words(&self, total: u32, len: u32, position: u32, offset: u32) {
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
    fn send_slot(&mut self, tag: i32, context: u16, form: u8, bytes: Bytes<'_>) -> bool {
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
    fn publish(&mut self, header: u64) {
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
    fn room_for_data(&mut self, total: usize, more: u32) -> bool {
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

    /// If there is room for `more` slots and a message in the pool behind them: the length of its pieces.
    fn room_for_pooled(&mut self, total: usize, pool: &mut Pool, kind: CopyKind, more: u32) -> Option<u32> {
        let shape = pool.shape();
        let longest = self.max_pooled(&shape);
        assert!(
            total <= longest,
            "a message of {total} bytes does not fit this pool, which takes {longest} at most"
        );
        let total = total as u32;
        let mut piece = match kind {
            CopyKind::Streaming if total <= SHORT_MESSAGE => SHORT_STREAMING_PIECE,
            CopyKind::Plain if total <= SHORT_MESSAGE => 8 << 10,

            _ => LONG_PIECE,
        }
        .min(shape.block_bytes);
        // All these are powers of two, so that a piece never crosses a block; whole blocks are long enough.
        while total.div_ceil(piece) > self.area.shape.slots / 2 {
            piece *= 2;
        }
        let slots = total.div_ceil(piece).max(1) + more;
        let fits = slots <= self.free || slots <= self.look_for_credits();
        (fits && pool.room_for(total as usize)).then_some(piece)
    }

    /// Loads the credit word (rule 4), and says how many slots are free.
    #[cold]
    fn look_for_credits(&mut self) -> u32 {
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

/// Has a piece copied into the pool, by the kind that `copies` says, and tells it how long that took.
#[inline]
fn copy_piece(
    pool: &mut Pool,
    position: u32,
    len: usize,
    copies: &mut CopyChoice,
    fill: impl FnOnce(BytesMut<'_>, CopyKind),
) {
    let kind = copies.kind();
    if kind == CopyKind::Streaming {
        fill(pool.piece(position, len), kind);
        // Rule 9.
        store_fence();
        copies.streamed();
        return;
    }
    let piece = pool.piece(position, len);
    #[cfg(not(loom))]
    let before = copies.wants_time(len).then(crate::clock::ticks);
    fill(piece, kind);
    #[cfg(not(loom))]
    if let Some(before) = before.filter(|_| pool.is_warm()) {
        copies.plain_took(len, crate::clock::ticks().wrapping_sub(before));
    }
}
