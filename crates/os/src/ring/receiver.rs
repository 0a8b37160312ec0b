//! The receiving side of a pair ring.

use super::{
    ANSWER, BY_VECTORS, ENDS_BLOCK, EXCHANGE_MAX, FOLLOWED, FORM_SHIFT, HOLDS_NOTHING, IN_POOL, IS_NOTICE,
    Notice, POSITION_SHIFT, RingArea, SHARED_WORDS,
    exchange::{Exchange, Turn},
    form, header as header_of, whole_lines,
};
#[cfg(loom)]
use crate::line::LINE_WORDS;
#[cfg(not(loom))]
use crate::pool::{SHORTEST_MEASURED, is_slow};
use crate::{
    bytes::Bytes,
    line::{LINE_BYTES, Line, Touch},
    pool::{OwnView, PoolView, Spell},
    sync::{AtomicU64, Ordering},
};

/// The shortest message in bytes that lies where the one lay that it answers, if messages do not come and go in turn.
const SHORTEST_ANSWER: usize = if cfg!(loom) { 0 } else { 8 << 10 };

/// The longest message in bytes of which more than the header is fetched with a look into the exchange line.
const FETCHED_IN_EXCHANGE: usize = 256;

/// What came next. The views are good until it is released.
#[derive(Clone, Copy, Debug)]
pub enum Slot<'a> {
    /// A whole message of at most 56 bytes.
    Inline {
        /// The message's tag.
        tag: i32,
        /// The receiver's number of the communicator.
        context: u16,
        /// Its bytes.
        bytes: Bytes<'a>,
    },
    /// A part of a longer message, in the data ring or a pool. The parts of a message come in order, with
    /// nothing between them.
    Chunk {
        /// The message's tag.
        tag: i32,
        /// The receiver's number of the communicator.
        context: u16,
        /// The length of the whole message in bytes.
        total: usize,
        /// Where in the message this part lies.
        offset: usize,
        /// The part.
        bytes: Bytes<'a>,
        /// It had better be copied by [`Bytes::copy_by_vectors`].
        by_vectors: bool,
    },
    /// A frame of another protocol.
    Frame {
        /// The frame.
        bytes: Bytes<'a>,
        /// The length of its body in bytes. If it has one, the next slots hold it, as chunks with tag 0 and context 0.
        body_len: usize,
    },
    /// Word about the exchange line. When it is released, hand it to [`RingSender::hear`](super::RingSender::hear).
    Notice(Notice),
}

/// The receiving side of a ring. Start it once in the life of a ring (or after [`RingArea::reset`]).
#[derive(Debug)]
pub struct RingReceiver {
    /// Where the next header will be.
    next: *const AtomicU64,
    /// The slot in which that is.
    slot: *const Line,
    /// The lap that it will have (rule 3).
    lap: u64,
    /// Slots until the credits are returned.
    until_return: u32,
    /// The other place where it may be, while the exchange line is open and has been used: the ring, or that line.
    other: Option<Place>,
    pub(super) turn: Turn,
    pub(super) exchange: Option<Exchange>,
    /// How many frames and parts of messages that are too long for the exchange area have been looked at.
    pub(super) others_seen: u32,
    /// The sender waited for credits when it got some.
    wakes_sender: bool,
    first: *const Line,
    end: *const Line,
    /// Slots taken up to the last return, and what the next one differs from a quarter.
    slots_returned: u32,
    /// How many slots lie between two returns.
    quarter: u32,
    /// The end of the last chunk seen, and what the sender knows of it.
    data_seen: u32,
    data_returned: u32,
    /// Bytes of the last message of which something was in the data ring or the exchange area.
    last_len: u32,
    /// The pool chunk that is being looked at.
    pooled: Option<Pooled>,
    pool: Option<PoolView>,
    own_pool: Option<OwnView>,
    /// A pool chunk whose copy takes longer is slow; `None`: nobody asks.
    slow_ticks_per_kib: Option<u64>,
    /// Whether slow ones prevail.
    spell: Spell,
    complaints: u64,
    pub(super) area: RingArea,
    #[cfg(loom)]
    payload: [u64; 7],
}

// SAFETY: `next`, `other`, `slot`, `first` and `end` point into the area, or the exchange line, which `exchange` keeps mapped; they
// may move between threads.
unsafe impl Send for RingReceiver {}

impl RingReceiver {
    /// The receiving side of a ring from which nobody has received yet.
    pub fn new(area: RingArea) -> RingReceiver {
        let (first, end) = area.slot_range();
        let quarter = area.shape.slots / 4;
        RingReceiver {
            next: first.cast(),
            slot: first,
            lap: 1,
            until_return: quarter,
            other: None,
            turn: Turn::Theirs,
            exchange: None,
            others_seen: 0,
            wakes_sender: false,
            first,
            end,
            slots_returned: 0,
            quarter,
            data_seen: 0,
            data_returned: 0,
            last_len: 0,
            pooled: None,
            pool: None,
            own_pool: None,
            slow_ticks_per_kib: None,
            spell: Spell::default(),
            complaints: 0,
            area,
            #[cfg(loom)]
            payload: [0; 7],
        }
    }

    /// Says where the sender's pool is. A sender that has one may use it from its first message on, so this comes
    /// before the first look into the ring.
    pub fn set_pool(&mut self, pool: PoolView) {
        self.pool = Some(pool);
    }

    /// Says where this process's own pool is: the sender may answer there. This comes before the first look into the ring, too.
    pub fn set_own_pool(&mut self, pool: OwnView) {
        self.own_pool = Some(pool);
    }

    /// The sender's pool, for a message of `len` bytes that answers (rule 9 of the pool). Not where it pays nothing: where the
    /// sender's next one is there already, as when messages go both ways all the time, and shorter ones, unless messages come and
    /// go `in_turn`.
    #[inline]
    pub fn pool_to_answer(&mut self, len: usize, in_turn: bool) -> Option<&mut PoolView> {
        let is_long = in_turn || len >= SHORTEST_ANSWER;
        if is_long && self.is_empty() { self.pool.as_mut() } else { None }
    }

    /// Lets this side complain if its copies out of the pool take longer than so many ticks per KiB (rule 11).
    pub fn complain_above(&mut self, ticks_per_kib: u64) {
        self.slow_ticks_per_kib = Some(ticks_per_kib);
    }

    /// What came next, if anything. It stays the next until it is released.
    ///
    /// # Panics
    /// If the slot holds what no sender of this protocol writes, or bytes in a pool of which
    /// [`RingReceiver::set_pool`] or [`RingReceiver::set_own_pool`] has not told.
    #[inline]
    pub fn peek(&mut self) -> Option<Slot<'_>> {
        let header = match self.next_header() {
            Some(header) => header,
            None => self.look_elsewhere()?,
        };
        if header & NOT_WHOLE == 0 {
            Some(self.whole(header))
        } else if holds_nothing(header) {
            self.peek_behind(header)
        } else {
            Some(self.peek_other(header))
        }
    }

    /// A whole message.
    #[inline(always)]
    fn whole(&mut self, header: u64) -> Slot<'_> {
        let bytes = self.payload(header_len(header));
        Slot::Inline { tag: header_tag(header), context: header_context(header), bytes }
    }

    /// The tag and bytes of what came next, if it is a whole message of at most 56 bytes, of this context, whose tag is
    /// `tag` in the bits of `tag_mask`: for a receive that expects just that. All of it is one comparison.
    #[inline(always)]
    pub fn peek_expected(&mut self, tag: i32, tag_mask: i32, context: u16) -> Option<(i32, Bytes<'_>)> {
        // SAFETY: `next` is always inside the area.
        let header = unsafe { &*self.next }.load(Ordering::Acquire);
        let expected = header_of(tag, context, form::WHOLE, 0, self.lap);
        let mask = (tag_mask as u32 as u64) << 32 | 0xffff << 16 | NOT_WHOLE | 0xff;
        if (header ^ expected) & mask != 0 {
            return None;
        }
        Some((header_tag(header), self.payload(header_len(header))))
    }

    /// As [`RingReceiver::peek_expected`], for a message in the exchange area.
    #[inline(always)]
    pub fn peek_expected_in_area(
        &mut self,
        tag: i32,
        tag_mask: i32,
        context: u16,
    ) -> Option<(i32, Bytes<'_>)> {
        if !self.is_at_exchange() {
            return None;
        }
        // SAFETY: `next` is always inside the area, or the exchange line.
        let header = unsafe { &*self.next }.load(Ordering::Acquire);
        let expected = header_of(tag, context, form::CHUNK, 0, self.lap);
        let mask = (tag_mask as u32 as u64) << 32 | 0xffff << 16 | FORM_MASK | 0xff;
        if (header ^ expected) & mask != 0 {
            return None;
        }
        Some((header_tag(header), self.exchanged_bytes()))
    }

    /// Fetches a slot some way ahead: in a stream it is written by now, and its line still with the sender. It takes a fifth
    /// of the time of a message in a burst. Not for a receive that expects one message: its line would be fetched too early.
    #[inline(always)]
    pub fn fetch_ahead(&self) {
        const AHEAD: usize = 4;
        if !self.is_at_slot() {
            return;
        }
        let ahead = self.slot.wrapping_add(AHEAD);
        if ahead < self.end {
            crate::hint::prefetch_to_read(ahead);
        }
    }

    /// Fetches what the next message has in the data ring or the exchange area, if it is as long as the last one there was, and that
    /// had at most `longest` bytes. Before a look: the sender writes it before the slot, so both come at the same time instead of one
    /// after the other. Of longer ones lines are taken from the sender before it has written them.
    #[inline(always)]
    pub fn fetch_data(&self, longest: usize) {
        let bytes = self.last_len as usize;
        if bytes == 0 || bytes > longest {
            return;
        }
        let start = match &self.exchange {
            Some(exchange) if self.looks_at_two() => {
                if bytes > FETCHED_IN_EXCHANGE {
                    return;
                }
                exchange.data()
            }
            _ => {
                let at = self.data_seen & (self.area.shape.data_bytes - 1);
                self.area.data.as_ptr().wrapping_add(at as usize).cast_const()
            }
        };
        for line in (0..bytes).step_by(LINE_BYTES) {
            crate::hint::prefetch_to_read(start.wrapping_add(line));
        }
    }

    /// Whether nothing came next yet.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.is_empty_here() && self.other.is_none_or(|other| other.header().is_none())
    }

    /// As [`RingReceiver::is_empty`], but of two places only the one where it is more likely to come.
    #[inline(always)]
    pub fn is_empty_here(&self) -> bool {
        self.next_header().is_none()
    }

    /// Whether there are two such places: the exchange line is open, and the turn not this side's.
    #[inline(always)]
    pub fn looks_at_two(&self) -> bool {
        self.other.is_some() && self.turn == Turn::Theirs
    }

    /// What lies in the other place of two, if something does. Then the next look is there first.
    #[inline(always)]
    fn look_elsewhere(&mut self) -> Option<u64> {
        let other = self.other?;
        let header = other.header()?;
        self.other = Some(self.here());
        self.look_at(other);
        Some(header)
    }

    /// Where the next header will be.
    #[inline(always)]
    const fn here(&self) -> Place {
        Place { next: self.next, lap: self.lap, until_return: self.until_return }
    }

    #[inline(always)]
    const fn look_at(&mut self, place: Place) {
        (self.next, self.lap, self.until_return) = (place.next, place.lap, place.until_return);
    }

    /// The other side has the turn: what it sends next lies in the exchange line, or in the ring.
    #[inline(always)]
    pub(super) fn pass_turn(&mut self) {
        self.turn = Turn::Theirs;
        // It has been looked at since the last message there ([`RingReceiver::take_turn`]), unless the ring was, too.
        if !self.is_at_exchange() {
            self.look_at_exchange();
        }
    }

    /// Looks at the exchange line first.
    #[inline(always)]
    pub(super) fn look_at_exchange(&mut self) {
        let Some((next, lap)) = self.exchange.as_ref().map(Exchange::next) else { return };
        self.other = Some(self.here());
        // One, so that the usual release does not ask where it is.
        self.look_at(Place { next, lap, until_return: 1 });
    }

    /// The exchange line is closed (rule 16): only the ring is looked at.
    pub(super) fn look_at_ring(&mut self) {
        self.turn = Turn::Theirs;
        if let Some(other) = self.other.take()
            && self.is_at_exchange()
        {
            self.look_at(other);
        }
    }

    /// Whether the exchange line is looked at first.
    #[inline(always)]
    pub(super) fn is_at_exchange(&self) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.is_at(self.next))
    }

    /// Rule 13: what lay in the exchange line is taken, and with it the turn. Whether it is the first of this side. The line is looked
    /// at on, for what answers this side's next message there, as most of the time that is what comes next.
    #[inline(always)]
    fn take_turn(&mut self) -> bool {
        self.turn = Turn::Ours;
        let Some(exchange) = &mut self.exchange else { return false };
        let is_first = exchange.take();
        (self.lap, self.until_return) = (exchange.next().1 + 1, 1);
        is_first
    }

    /// How far slots are taken; `None` if one is in part, or they are not looked at.
    #[inline(always)]
    pub(super) fn position(&self) -> Option<u64> {
        // SAFETY: both point into the slots.
        let index = unsafe { self.slot.offset_from_unsigned(self.first) };
        self.is_at_slot().then_some(self.lap << POSITION_SHIFT | index as u64)
    }

    /// Rule 2: the header of the next slot, if it is published.
    #[inline(always)]
    fn next_header(&self) -> Option<u64> {
        // SAFETY: `next` is always inside the area, or the exchange line.
        unsafe { published(self.next, self.lap) }
    }

    /// Rule 12: goes to the next slot, as the sender has done. The header there.
    #[inline(never)]
    fn after_rest(&mut self) -> Option<u64> {
        self.enter_next_slot();
        // The slot counts with the next release, which is near: the next slot is published.
        if self.until_return > 1 {
            self.until_return -= 1;
        } else {
            self.slots_returned = self.slots_returned.wrapping_add(1);
        }
        self.next_header()
    }

    /// A header behind which nothing lies: the rest of its slot is skipped, or it is a notice.
    #[inline(never)]
    fn peek_behind(&mut self, mut header: u64) -> Option<Slot<'_>> {
        if header_len(header) & IS_NOTICE == 0 {
            header = self.after_rest()?;
        }
        if holds_nothing(header) {
            match self.look_elsewhere() {
                // Rule 16.
                Some(older) => header = older,
                None => return Some(Slot::Notice(self.notice())),
            }
        }
        Some(if header & NOT_WHOLE == 0 { self.whole(header) } else { self.peek_other(header) })
    }

    /// A header of a frame, or of a part of a longer message.
    #[inline(never)]
    fn peek_other(&mut self, header: u64) -> Slot<'_> {
        let (tag, context) = (header_tag(header), header_context(header));
        match ((header & FORM_MASK) >> FORM_SHIFT) as u8 {
            form::CHUNK if self.is_at_exchange() => self.exchanged(tag, context),
            form::CHUNK if header_len(header) & IN_POOL != 0 => {
                self.pool_chunk(tag, context, header_len(header))
            }
            form::CHUNK => self.chunk(tag, context),
            _ => {
                self.others_seen = self.others_seen.wrapping_add(1);
                Slot::Frame { bytes: self.payload(header_len(header)), body_len: tag as u32 as usize }
            }
        }
    }

    /// Is done with what [`RingReceiver::peek`] showed, and gives its slot back to the sender if nothing lies behind it.
    /// `true`: the sender has got credits, or the turn to use the exchange line has come: ask [`RingReceiver::wakes_sender`], and
    /// tell the sender of the other direction ([`RingSender::see_release`](super::RingSender::see_release)).
    #[inline]
    pub fn release(&mut self) -> bool {
        if self.pooled.is_some() {
            self.leave_pool();
        }
        if self.last_header() & NOT_WHOLE != 0 { self.release_slot() } else { self.release_expected() }
    }

    /// As [`RingReceiver::release`], for a message that lies in its slot: [`Slot::Inline`], or what
    /// [`RingReceiver::peek_expected`] showed.
    #[inline(always)]
    pub fn release_expected(&mut self) -> bool {
        if self.last_header() & FOLLOWED != 0 {
            // SAFETY: `next` is two words or more before the end of `slot`.
            let behind = unsafe { self.next.add(SHARED_WORDS) };
            // A broken sender says so at the end of a slot, too.
            if !self.ends_slot(behind) {
                self.next = behind;
                return false;
            }
        }
        self.release_slot()
    }

    /// Whether a slot begins where the next header will be.
    #[inline(always)]
    fn is_at_slot(&self) -> bool {
        std::ptr::eq(self.next, self.slot.cast())
    }

    /// Whether this is the end of the slot.
    #[inline(always)]
    fn ends_slot(&self, word: *const AtomicU64) -> bool {
        // The model checker's words have no place in a line.
        #[cfg(not(loom))]
        return word.addr().is_multiple_of(LINE_BYTES);
        #[cfg(loom)]
        return std::ptr::eq(word, self.slot.cast::<AtomicU64>().wrapping_add(LINE_WORDS));
    }

    /// The header of what was shown last.
    #[inline(always)]
    fn last_header(&self) -> u64 {
        // SAFETY: `next` is always inside the area.
        unsafe { &*self.next }.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn release_slot(&mut self) -> bool {
        self.until_return -= 1;
        if self.until_return == 0 {
            return if self.is_at_exchange() { self.take_turn() } else { self.release_last() };
        }
        self.enter_next_slot();
        false
    }

    /// As [`RingReceiver::release_slot`], for the last slot before credits are returned.
    #[inline(never)]
    fn release_last(&mut self) -> bool {
        self.enter_next_slot();
        self.return_credits();
        true
    }

    /// Whether the sender waits for credits and has got some since this was asked last: ring its door (rule 7).
    pub const fn wakes_sender(&mut self) -> bool {
        std::mem::replace(&mut self.wakes_sender, false)
    }

    #[inline(always)]
    fn enter_next_slot(&mut self) {
        // SAFETY: `slot` is below `end`, so the next one is at most `end`.
        self.slot = unsafe { self.slot.add(1) };
        if self.slot == self.end {
            self.slot = self.first;
            self.lap = self.lap.wrapping_add(1);
        }
        self.next = self.slot.cast();
    }

    /// Rules 9 and 11.
    #[inline(never)]
    fn leave_pool(&mut self) {
        let Some(pooled) = self.pooled.take() else { return };
        if pooled.is_answer {
            if let Some(own) = self.own_pool.as_ref().filter(|_| pooled.is_last) {
                own.keep(pooled.position, pooled.len as usize);
            }
            return;
        }
        let Some(pool) = &mut self.pool else { return };
        if pooled.is_last {
            pool.free(pooled.position, pooled.len as usize);
        }
        // How messages of up to 4 KiB had better lie is tried (rule 8 of the pool): their pieces may be streamed already.
        #[cfg(not(loom))]
        if let Some(limit) = self.slow_ticks_per_kib
            && pooled.len as usize > SHORTEST_MEASURED
            && pool.note_use(pooled.position, pooled.len as usize)
        {
            let took = crate::clock::ticks().wrapping_sub(pooled.since);
            if self.spell.note(is_slow(limit, pooled.len as usize, took)) {
                self.complaints += 1;
                self.area.complaints_word().store(self.complaints, Ordering::Relaxed);
            }
        }
    }

    /// Rule 4, then rule 7.
    fn return_credits(&mut self) {
        self.slots_returned = self.slots_returned.wrapping_add(self.quarter);
        self.until_return = self.quarter;
        self.data_returned = self.data_seen;
        let credit = u64::from(self.slots_returned) | u64::from(self.data_returned) << 32;
        self.area.credit_word().store(credit, Ordering::Release);
        self.area.barrier.light();
        if self.area.waiting_word().load(Ordering::Relaxed) != 0 {
            self.area.waiting_word().store(0, Ordering::Relaxed);
            self.wakes_sender = true;
        }
    }

    /// The first `len` payload bytes of the slot.
    #[inline(always)]
    fn payload(&mut self, len: usize) -> Bytes<'_> {
        #[cfg(not(loom))]
        // SAFETY: `len` has 6 bits. A broken sender that claims more than the slot has left makes us read the start of the next
        // slot or of the credit line, which is mapped as well.
        unsafe {
            Bytes::from_raw(self.next.add(1).cast(), len)
        }
        #[cfg(loom)]
        {
            for (at, word) in self.payload.iter_mut().enumerate().take(len.div_ceil(8)) {
                // SAFETY: the model's messages are whole, and so their words are in the line of `next`.
                *word = unsafe { &*self.next.add(1 + at) }.load(Ordering::Relaxed);
            }
            // SAFETY: the copy has 56 bytes and lives as long as the borrow of `self`.
            unsafe { Bytes::from_raw(self.payload.as_ptr().cast(), len.min(56)) }
        }
    }

    /// Rule 13: a message in the exchange area.
    fn exchanged(&mut self, tag: i32, context: u16) -> Slot<'_> {
        let bytes = self.exchanged_bytes();
        Slot::Chunk { tag, context, total: bytes.len(), offset: 0, bytes, by_vectors: false }
    }

    /// The bytes of a message in the exchange area.
    #[inline(always)]
    fn exchanged_bytes(&mut self) -> Bytes<'_> {
        let bytes = self.exchange.as_ref().map_or(Bytes::empty(), Exchange::bytes);
        // With the right to write the answer there: on distant cores 1 KiB takes 0.25 us so instead of 0.44.
        for line in (0..bytes.len()).step_by(LINE_BYTES) {
            crate::hint::prefetch_to_write(bytes.as_ptr().wrapping_add(line));
        }
        self.last_len = bytes.len() as u32;
        bytes
    }

    #[inline(always)]
    fn chunk(&mut self, tag: i32, context: u16) -> Slot<'_> {
        let Chunk { total, len, position, offset } = self.words();
        let size = self.area.shape.data_bytes;
        let at = position & (size - 1);
        assert!(
            len <= size && at <= size - len && lies_inside(offset, len, total),
            "broken ring: a chunk of {len} bytes at {at} of {size}, bytes {offset}.. of a message of {total}"
        );
        self.data_seen = position.wrapping_add(whole_lines(len));
        self.last_len = total;
        if self.data_seen.wrapping_sub(self.data_returned) >= size / 4 && self.until_return > 1 {
            // Rule 4: return with the next release.
            self.slots_returned = self.slots_returned.wrapping_sub(self.until_return - 1);
            self.until_return = 1;
        }
        self.area.watched.touch(at as usize, len as usize, Touch::Read);
        // SAFETY: `at + len <= size`: inside the data ring, which `self.area` keeps mapped.
        let bytes = unsafe { Bytes::from_raw(self.area.data.as_ptr().add(at as usize), len as usize) };
        Slot::Chunk { tag, context, total: total as usize, offset: offset as usize, bytes, by_vectors: false }
    }

    /// Rule 9: a chunk in a pool.
    #[inline(always)]
    fn pool_chunk(&mut self, tag: i32, context: u16, bits: usize) -> Slot<'_> {
        let Chunk { total, len, position, offset } = self.words();
        let is_answer = bits & ANSWER != 0;
        let bytes = match (&self.pool, &self.own_pool) {
            (Some(pool), _) if !is_answer => pool.bytes(position, len as usize),
            (_, Some(own)) if is_answer => own.bytes(position, len as usize),
            _ => panic!("broken ring: {len} bytes in a pool of which the receiver was not told"),
        };
        let Some(bytes) = bytes.filter(|_| lies_inside(offset, len, total)) else {
            panic!(
                "broken ring: a chunk of {len} bytes at {position} of a pool, bytes {offset}.. of a message of {total}"
            )
        };
        self.pooled = Some(Pooled {
            position,
            len,
            is_last: bits & ENDS_BLOCK != 0,
            is_answer,
            #[cfg(not(loom))]
            since: if self.slow_ticks_per_kib.is_some() { crate::clock::ticks() } else { 0 },
        });
        let by_vectors = bits & BY_VECTORS != 0;
        Slot::Chunk { tag, context, total: total as usize, offset: offset as usize, bytes, by_vectors }
    }

    /// What the slot says of the exchange line.
    fn notice(&self) -> Notice {
        // SAFETY: as in `words`.
        Notice(unsafe { &(*self.slot).words[1] }.load(Ordering::Relaxed))
    }

    /// What the slot says of a chunk.
    #[inline(always)]
    fn words(&mut self) -> Chunk {
        // SAFETY: `slot` is inside the area. A chunk is the first in its slot, whatever a broken sender writes behind others.
        let words = unsafe { &(*self.slot).words };
        let (first, second) = (words[1].load(Ordering::Relaxed), words[2].load(Ordering::Relaxed));
        self.others_seen = self.others_seen.wrapping_add(u32::from(first as u32 > EXCHANGE_MAX as u32));
        Chunk {
            total: first as u32,
            len: (first >> 32) as u32,
            position: second as u32,
            offset: (second >> 32) as u32,
        }
    }
}

/// Where the next header may be.
#[derive(Clone, Copy, Debug)]
struct Place {
    next: *const AtomicU64,
    lap: u64,
    /// As in [`RingReceiver`].
    until_return: u32,
}

impl Place {
    /// The header there, if it is published.
    #[inline(always)]
    fn header(&self) -> Option<u64> {
        // SAFETY: the places of a receiver are inside its area, or in its exchange line.
        unsafe { published(self.next, self.lap) }
    }
}

/// Rule 2: the header at `next`, if it is published.
///
/// # Safety
/// It must point to a word that is mapped.
#[inline(always)]
unsafe fn published(next: *const AtomicU64, lap: u64) -> Option<u64> {
    // SAFETY: the caller vouches for it.
    let header = unsafe { &*next }.load(Ordering::Acquire);
    (header as u8 == lap as u8).then_some(header)
}

/// A chunk in a pool.
#[derive(Debug)]
struct Pooled {
    position: u32,
    len: u32,
    /// It lies in the receiver's own pool.
    is_answer: bool,
    /// Its block is free when it is released.
    is_last: bool,
    /// When it was first looked at, in ticks.
    #[cfg(not(loom))]
    since: u64,
}

/// Words 1 and 2 of a chunk's slot.
struct Chunk {
    total: u32,
    len: u32,
    position: u32,
    offset: u32,
}

#[inline(always)]
const fn lies_inside(offset: u32, len: u32, total: u32) -> bool {
    offset <= total && len <= total - offset
}

/// The tag in a header.
#[inline(always)]
const fn header_tag(header: u64) -> i32 {
    (header >> 32) as i32
}

/// The context in a header.
#[inline(always)]
const fn header_context(header: u64) -> u16 {
    (header >> 16) as u16
}

/// The length in a header.
#[inline(always)]
const fn header_len(header: u64) -> usize {
    (header >> 8) as usize & 0x3f
}

/// Whether a header says that nothing lies behind it (rules 12 and 14).
#[inline(always)]
const fn holds_nothing(header: u64) -> bool {
    const BITS: u64 = FORM_MASK | (HOLDS_NOTHING as u64) << 8;
    header & BITS == BITS
}

const FORM_MASK: u64 = 3 << FORM_SHIFT;
/// The bit of the form that those of whole messages lack.
const NOT_WHOLE: u64 = 2 << FORM_SHIFT;
const _: () = assert!((form::WHOLE | form::FOLLOWED) & 2 == 0 && form::CHUNK & form::FRAME & 2 != 0);
