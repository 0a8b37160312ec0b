//! The sending side of a pair ring.

use super::{
    FOLLOWED, HOLDS_NOTHING, INLINE_MAX, IS_NOTICE, Notice, POSITION_SHIFT, RingArea, SHARED_MAX_BYTES,
    SHARED_WORDS, exchange::Watch, form, header, whole_lines,
};
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
    /// Where the next header goes, if its message fits there.
    next: *const AtomicU64,
    /// How many words of its slot are left, two or more. All: nothing lies in the slot yet.
    words_left: usize,
    /// The slot in which that is.
    slot: *const Line,
    /// Its lap (rule 3).
    pub(super) lap: u64,
    /// The message before had at most eight bytes, so that the next one may have as many.
    was_short: bool,
    /// Slots that may be filled, by the credit word last seen, that one included.
    free: u32,
    /// Slots are held back, all of them: what can goes by the exchange line (rule 15).
    pub(super) holds: bool,
    /// How many.
    held: u32,
    /// A notice that the exchange line is closed goes as soon as there is room. No slot is free before.
    owes_notice: bool,
    /// A notice went, for which nobody has rung yet.
    notice_went: bool,
    /// What this side knows of the exchange line.
    pub(super) watch: Watch,
    first: *const Line,
    end: *const Line,
    /// The credit word last seen.
    slots_taken: u32,
    data_taken: u32,
    /// Where the next chunk goes (rule 5).
    data_tail: u32,
    /// The receiver's complaints last seen (rule 11).
    pub(super) complaints: u64,
    /// Whether the last message through a pool lay in place (rule 9 of the pool).
    pub(super) was_in_place: bool,
    pub(super) area: RingArea,
}

// SAFETY: `next`, `slot`, `first` and `end` point into the area, which may move between threads.
unsafe impl Send for RingSender {}

impl RingSender {
    /// The sending side of a ring that nobody has sent on yet.
    pub fn new(area: RingArea) -> RingSender {
        let (first, end) = area.slot_range();
        RingSender {
            next: first.cast(),
            words_left: LINE_WORDS,
            slot: first,
            lap: 1,
            was_short: false,
            free: area.shape.slots,
            holds: false,
            held: 0,
            owes_notice: false,
            notice_went: false,
            watch: Watch::default(),
            first,
            end,
            slots_taken: 0,
            data_taken: 0,
            data_tail: 0,
            complaints: 0,
            was_in_place: false,
            area,
        }
    }

    /// The longest message that this ring carries, in bytes.
    pub fn max_data(&self) -> usize {
        self.area.shape.max_data()
    }

    /// Whether a message of `len` bytes (inline if it fits, else in chunks) could be sent now.
    pub fn room_for(&mut self, len: usize) -> bool {
        if len > INLINE_MAX {
            self.room_for_data(len, 0)
        } else if len > SHARED_MAX_BYTES {
            self.has_slots(1)
        } else {
            self.has_place()
        }
    }

    /// Sends a message of at most 56 bytes in a slot, which others share with it if it is short, as the one before, and
    /// `is_in_stream`: if others went before it and none came since. `false`: no room now, or slots are held back; then
    /// [`RingSender::send_in_turn_now`] may send it, or [`RingSender::try_send_in_slot`].
    ///
    /// # Panics
    /// If `bytes` is longer.
    pub fn try_send_inline(&mut self, tag: i32, context: u16, bytes: Bytes<'_>, is_in_stream: bool) -> bool {
        self.send_inline_now(tag, context, bytes, is_in_stream)
            || (self.finds_credits() && self.send_inline_now(tag, context, bytes, is_in_stream))
    }

    /// As [`RingSender::try_send_inline`], in one straight line without a call: it does not look for credits if none are left
    /// ([`RingSender::finds_credits`]).
    ///
    /// # Panics
    /// If `bytes` is longer.
    #[inline(always)]
    pub fn send_inline_now(&mut self, tag: i32, context: u16, bytes: Bytes<'_>, is_in_stream: bool) -> bool {
        if self.free == 0 {
            return false;
        }
        // Three ways, so that the one of the commonest length stays short.
        if bytes.len() == SHARED_MAX_BYTES {
            // SAFETY: there are eight.
            let word = unsafe { word_at(bytes, 0) };
            self.send_short(
                header(tag, context, form::WHOLE, SHARED_MAX_BYTES, self.lap),
                word,
                is_in_stream,
            );
        } else if bytes.len() < SHARED_MAX_BYTES {
            let header = header(tag, context, form::WHOLE, bytes.len(), self.lap);
            self.send_short(header, short_word(bytes), is_in_stream);
        } else {
            assert!(bytes.len() <= INLINE_MAX, "a message of {} bytes does not fit a slot", bytes.len());
            if self.empty_slots() == 0 {
                return false;
            }
            let rest = self.enter_empty_slot();
            // SAFETY: `slot` is inside the area, and free.
            unsafe { fill_words(&(*self.slot).words, bytes) };
            self.publish_among_others(header(tag, context, form::WHOLE, bytes.len(), self.lap), is_in_stream);
            self.skip(rest);
        }
        true
    }

    /// Whether there are credits that have not been seen yet, and slots are not held back.
    #[cold]
    pub fn finds_credits(&mut self) -> bool {
        !self.holds && self.look_for_credits() > 0
    }

    /// Sends at most eight bytes, where there is room; if it `is_in_stream`, it expects as many behind them (rule 12).
    #[inline(always)]
    fn send_short(&mut self, header: u64, word: u64, is_in_stream: bool) {
        // SAFETY: a quarter of a slot is there, which is free, or which the receiver does not leave before it has seen the next
        // message.
        unsafe { &*self.next.add(1) }.store(word, Ordering::Relaxed);
        let is_followed = is_in_stream && self.was_short && self.words_left > SHARED_WORDS;
        self.was_short = true;
        if !is_followed {
            self.publish_among_others(header, is_in_stream);
            return;
        }
        // SAFETY: there are more words behind the message in its slot.
        let behind = unsafe { self.next.add(SHARED_WORDS) };
        // SAFETY: as above. The receiver looks there when it has seen the header.
        unsafe { &*behind }.store(u64::from(self.lap.wrapping_sub(1) as u8), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { &*self.next }.store(header | FOLLOWED, Ordering::Release);
        self.next = behind;
        self.words_left -= SHARED_WORDS;
    }

    /// As [`RingSender::try_send_inline`], and if slots were held back the exchange line is closed before (rule 16).
    pub fn try_send_in_slot(&mut self, tag: i32, context: u16, bytes: Bytes<'_>, is_in_stream: bool) -> bool {
        if self.holds {
            self.look_for_credits();
        }
        self.try_send_inline(tag, context, bytes, is_in_stream)
    }

    /// Sends a frame of another protocol, at most 56 bytes, in order with the messages. `false`: no room now.
    ///
    /// # Panics
    /// If `frame` is longer.
    #[inline]
    pub fn try_send_frame(&mut self, frame: Bytes<'_>) -> bool {
        self.send_frame(0, frame)
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
            let rest = self.enter_empty_slot();
            // SAFETY: `slot` is inside the area, and free (`room_for_data`).
            unsafe { self.fill_chunk_words(total, len, self.data_tail, offset) };
            self.publish(header(tag, context, form::CHUNK, 0, self.lap));
            self.skip(rest);
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
    /// `slot` must be free and empty.
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

    /// Whether a notice went since this was asked last. It takes a slot, and its reader may sleep: who waits for credits rings, as
    /// else nobody does (rule 8).
    pub const fn rings_for_notice(&mut self) -> bool {
        std::mem::replace(&mut self.notice_went, false)
    }

    /// Sends a frame whose body has `body_len` bytes, as a tag.
    pub(super) fn send_frame(&mut self, body_len: i32, frame: Bytes<'_>) -> bool {
        assert!(frame.len() <= INLINE_MAX, "a frame of {} bytes does not fit a slot", frame.len());
        if !self.has_slots(1) {
            return false;
        }
        let rest = self.enter_empty_slot();
        // SAFETY: `slot` is inside the area, and free.
        unsafe { fill_words(&(*self.slot).words, frame) };
        self.publish(header(body_len, 0, form::FRAME, frame.len(), self.lap));
        self.skip(rest);
        true
    }

    /// Rule 2: the release store; then on to the next slot. The next slot is *not* fetched in advance: that was
    /// measured to cost a tenth of the latency of a small message, though it helps with data (`try_send_data`) and in streams.
    #[inline(always)]
    pub(super) fn publish(&mut self, header: u64) {
        // SAFETY: `next` is always inside the area.
        unsafe { &*self.next }.store(header, Ordering::Release);
        self.enter_next_slot();
    }

    /// As [`RingSender::publish`]. If the message `is_in_stream`, the slot after the next one is fetched: it is written soon, and its
    /// line still with the receiver. On distant cores 8 bytes take 26 ns so instead of 45.
    #[inline(always)]
    fn publish_among_others(&mut self, header: u64, is_in_stream: bool) {
        self.publish(header);
        if is_in_stream {
            // Behind the last one lies a line that nobody uses.
            prefetch_to_write(self.slot.wrapping_add(1));
        }
    }

    #[inline(always)]
    fn enter_next_slot(&mut self) {
        debug_assert!(self.free > 0);
        self.free -= 1;
        // SAFETY: `slot` is below `end`, so the next one is at most `end`.
        self.slot = unsafe { self.slot.add(1) };
        if self.slot == self.end {
            self.slot = self.first;
            self.lap = self.lap.wrapping_add(1);
        }
        (self.next, self.words_left) = (self.slot.cast(), LINE_WORDS);
    }

    /// Rule 12: has the next message lie in a slot of its own, of which there is one ([`RingSender::has_slots`]). The rest of
    /// the slot before, if it has one, is to be skipped when that message is published.
    #[inline(always)]
    pub(super) fn enter_empty_slot(&mut self) -> Option<Rest> {
        self.was_short = false;
        if self.words_left == LINE_WORDS {
            return None;
        }
        let rest = Rest { header: self.next, lap: self.lap };
        self.enter_next_slot();
        Some(rest)
    }

    /// Rule 12: what would lie in the rest of a slot is published in the next one.
    #[inline(always)]
    pub(super) fn skip(&self, rest: Option<Rest>) {
        if let Some(Rest { header: place, lap }) = rest {
            // SAFETY: it lies in a slot that the receiver has not left, and `self.area` keeps it mapped.
            unsafe { &*place }.store(header(0, 0, form::CHUNK, HOLDS_NOTHING, lap), Ordering::Release);
        }
    }

    /// Whether something may lie where the next header goes.
    #[inline(always)]
    fn has_place(&mut self) -> bool {
        self.free > 0 || self.look_for_credits() > 0
    }

    /// Whether so many empty slots may be filled.
    #[inline(always)]
    pub(super) fn has_slots(&mut self, slots: u32) -> bool {
        slots <= self.empty_slots() || {
            self.look_for_credits();
            slots <= self.empty_slots()
        }
    }

    /// Slots that may be filled and in which nothing lies, by the credit word last seen.
    #[inline(always)]
    pub(super) const fn empty_slots(&self) -> u32 {
        self.free - (self.words_left < LINE_WORDS) as u32
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
            slots <= this.empty_slots() && bytes <= shape.data_bytes - used
        };
        fits(self) || {
            self.look_for_credits();
            fits(self)
        }
    }

    /// Loads the credit word (rule 4), and says how many slots are free. If they were held back the exchange line is closed
    /// before (rule 16).
    #[cold]
    pub(super) fn look_for_credits(&mut self) -> u32 {
        if self.holds {
            self.leave_exchange();
        }
        let credit = self.area.credit_word().load(Ordering::Acquire);
        let slots_taken = credit as u32;
        self.free += slots_taken.wrapping_sub(self.slots_taken);
        self.slots_taken = slots_taken;
        self.data_taken = (credit >> 32) as u32;
        if self.owes_notice {
            self.owes_notice = !self.try_send_notice(Notice::CLOSED);
        }
        self.free
    }

    /// Fills no slots from now on, as all that were filled are taken.
    pub(super) fn hold_slots(&mut self) {
        self.held = std::mem::take(&mut self.free);
        self.holds = true;
    }

    /// Ends the use of the exchange line by this side, of which word goes as soon as there is room (rule 16).
    pub(super) fn leave_exchange(&mut self) {
        self.free += std::mem::take(&mut self.held);
        self.holds = false;
        self.watch.is_open = false;
        self.owes_notice = !self.try_send_notice(Notice::CLOSED);
    }

    /// Sends word about the exchange line, if there is a slot for it by the credit word last seen.
    pub(super) fn try_send_notice(&mut self, notice: Notice) -> bool {
        if self.empty_slots() == 0 {
            return false;
        }
        self.notice_went = true;
        let rest = self.enter_empty_slot();
        // SAFETY: `slot` is inside the area, and free.
        unsafe { &(*self.slot).words[1] }.store(notice.0, Ordering::Relaxed);
        self.publish(header(0, 0, form::CHUNK, HOLDS_NOTHING | IS_NOTICE, self.lap));
        self.skip(rest);
        true
    }

    /// Whether a notice is still to go.
    pub(super) const fn owes_notice(&self) -> bool {
        self.owes_notice
    }

    /// How far slots are filled; `None` if one is in part.
    #[inline(always)]
    pub(super) fn position(&self) -> Option<u64> {
        // SAFETY: both point into the slots.
        let index = unsafe { self.slot.offset_from_unsigned(self.first) };
        (self.words_left == LINE_WORDS).then_some(self.lap << POSITION_SHIFT | index as u64)
    }
}

/// The rest of a slot that others share.
#[derive(Debug)]
pub(super) struct Rest {
    /// Where the next header would lie.
    header: *const AtomicU64,
    lap: u64,
}

/// Writes `bytes`, 56 at most, behind the header of a slot, never reading past their end. No loop and no call: it is in the middle
/// of a send.
#[cfg(not(loom))]
#[inline(always)]
pub(super) fn fill_words(words: &[AtomicU64; LINE_WORDS], bytes: Bytes<'_>) {
    let (from, to, len) = (bytes.as_ptr(), words[1..].as_ptr().cast::<u8>().cast_mut(), bytes.len());
    debug_assert!(len <= INLINE_MAX);
    // SAFETY: the caller's bytes and the slot's, of which there are as many, and `at` is so that none are behind them. Until the
    // header is published nobody else reads or writes these.
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
        // These overlap what was copied before.
        copy_16(len - 16);
    } else if len >= 8 {
        copy_8(0);
        copy_8(len - 8);
    } else {
        words[1].store(short_word(bytes), Ordering::Relaxed);
    }
}

/// The same for the model checker, whose words are not as long.
#[cfg(loom)]
pub(super) fn fill_words(words: &[AtomicU64; LINE_WORDS], bytes: Bytes<'_>) {
    for (word, bytes) in words[1..].iter().zip(bytes.to_vec().chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
}

/// Eight bytes from `at` on. Another thread may write them meanwhile; that is its error, and what is read is then arbitrary.
///
/// # Safety
/// There must be so many.
#[inline(always)]
pub(super) unsafe fn word_at(bytes: Bytes<'_>, at: usize) -> u64 {
    debug_assert!(at + 8 <= bytes.len());
    // SAFETY: the caller vouches for eight bytes, and they are mapped for the lifetime of `bytes`.
    unsafe { bytes.as_ptr().add(at).cast::<u64>().read_unaligned() }
}

/// Less than eight bytes, as the low ones of a word.
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
