//! The receiving side of a pair ring.

use super::{FORM_SHIFT, IN_POOL, RingArea, form, header as header_of, whole_lines};
use crate::pool::PoolView;
use oxmpi_sys::{
    bytes::Bytes,
    line::{Line, Touch},
    sync::{AtomicU64, Ordering},
};

/// The next content of a ring. The views are valid until it is released.
#[derive(Clone, Copy, Debug)]
pub enum RingSlot<'a> {
    Inline {
        tag: i32,
        /// The receiver's number of the communicator.
        context: u16,
        bytes: Bytes<'a>,
    },
    /// A part of a longer message. All parts come in order, without other slots in between.
    Chunk {
        tag: i32,
        context: u16,
        total: usize,
        /// The place of this part in the message, in bytes.
        offset: usize,
        bytes: Bytes<'a>,
    },
    Frame {
        bytes: Bytes<'a>,
        /// In bytes. The body follows in the next slots, as chunks with tag 0 and context 0.
        body_len: usize,
    },
}

/// The receiver's side. Make it once in the life of a ring, or after [`RingArea::reset`].
#[derive(Debug)]
pub struct RingReceiver {
    slot: *const Line,
    /// The lap of the next header (rule 2).
    lap: u64,
    /// Slots until the credits are returned to the sender.
    until_return: u32,
    first: *const Line,
    end: *const Line,
    /// Slots taken up to the last return, corrected after a return before a full quarter.
    slots_returned: u32,
    quarter: u32,
    /// The end of the last chunk seen, and the last end that was returned to the sender.
    data_seen: u32,
    data_returned: u32,
    /// The pool chunk of the last peek.
    pooled: Option<Pooled>,
    pool: Option<PoolView>,
    area: RingArea,
    #[cfg(loom)]
    payload: [u64; 7],
}

// SAFETY: `slot`, `first` and `end` point into the area, which may move between threads.
unsafe impl Send for RingReceiver {}

impl RingReceiver {
    /// The receiving side of a new ring.
    pub fn new(area: RingArea) -> RingReceiver {
        let (first, end) = area.slot_range();
        let quarter = area.shape.slots / 4;
        RingReceiver {
            slot: first,
            lap: 1,
            until_return: quarter,
            first,
            end,
            slots_returned: 0,
            quarter,
            data_seen: 0,
            data_returned: 0,
            pooled: None,
            pool: None,
            area,
            #[cfg(loom)]
            payload: [0; 7],
        }
    }

    /// Sets the sender's pool. Call it before the first peek, as the first message may use the
    /// pool.
    pub fn set_pool(&mut self, pool: PoolView) {
        self.pool = Some(pool);
    }

    /// The next content, if it is published; it stays the next until it is released. Panics at
    /// content that no sender of this protocol writes, and at a pool chunk without
    /// [`RingReceiver::set_pool`].
    #[inline]
    pub fn peek(&mut self) -> Option<RingSlot<'_>> {
        let header = self.next_header()?;
        Some(if header & NOT_WHOLE == 0 {
            let bytes = self.payload(header_len(header));
            RingSlot::Inline { tag: header_tag(header), context: header_context(header), bytes }
        } else {
            self.peek_other(header)
        })
    }

    /// The tag and the bytes of the next content, if it is a whole message in its slot, of this
    /// context, whose tag is `tag` in the bits of `tag_mask`. One comparison decides.
    #[inline(always)]
    pub fn peek_expected(
        &mut self,
        tag: i32,
        tag_mask: i32,
        context: u16,
    ) -> Option<(i32, Bytes<'_>)> {
        let header = self.header_word().load(Ordering::Acquire);
        let expected = header_of(tag, context, form::WHOLE, 0, self.lap);
        let mask = (tag_mask as u32 as u64) << 32 | 0xffff << 16 | NOT_WHOLE | 0xff;
        if (header ^ expected) & mask != 0 {
            return None;
        }
        Some((header_tag(header), self.payload(header_len(header))))
    }

    /// Fetches a slot ahead, which in a stream of messages is written by now: saves a fifth of the
    /// time of a message in a burst. For a single expected message the fetch would come too early.
    #[inline(always)]
    pub fn fetch_ahead(&self) {
        const AHEAD: usize = 4;
        let ahead = self.slot.wrapping_add(AHEAD);
        if ahead < self.end {
            oxmpi_sys::hint::prefetch_to_read(ahead);
        }
    }

    /// Whether the next slot is not published yet.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.next_header().is_none()
    }

    #[inline(always)]
    fn header_word(&self) -> &AtomicU64 {
        // SAFETY: `slot` is always inside the area.
        unsafe { &(*self.slot).words[0] }
    }

    /// The header of the next slot, if it is published (rule 2).
    #[inline(always)]
    fn next_header(&self) -> Option<u64> {
        let header = self.header_word().load(Ordering::Acquire);
        (header as u8 == self.lap as u8).then_some(header)
    }

    #[inline(never)]
    fn peek_other(&mut self, header: u64) -> RingSlot<'_> {
        let (tag, context, len) = (header_tag(header), header_context(header), header_len(header));
        match ((header & FORM_MASK) >> FORM_SHIFT) as u8 {
            form::CHUNK if len == IN_POOL => self.pool_chunk(tag, context),
            form::CHUNK => self.chunk(tag, context),
            _ => RingSlot::Frame { bytes: self.payload(len), body_len: tag as u32 as usize },
        }
    }

    /// Returns the slot of the last peek. `true`: the sender waits, so ring its door (rule 5).
    #[inline]
    pub fn release(&mut self) -> bool {
        if self.pooled.is_some() {
            self.leave_pool();
        }
        self.release_expected()
    }

    /// As [`RingReceiver::release`], for a message in its slot.
    #[inline(always)]
    pub fn release_expected(&mut self) -> bool {
        // SAFETY: `slot` is below `end`, so the next one is at most `end`.
        self.slot = unsafe { self.slot.add(1) };
        if self.slot == self.end {
            self.slot = self.first;
            self.lap = self.lap.wrapping_add(1);
        }
        self.until_return -= 1;
        self.until_return == 0 && self.return_credits()
    }

    #[inline(never)]
    fn leave_pool(&mut self) {
        if let (Some(Pooled { position, len }), Some(pool)) = (self.pooled.take(), &mut self.pool) {
            pool.free(position, len as usize);
        }
    }

    /// Does rules 3 and 5. Returns whether the sender waits.
    #[inline(never)]
    fn return_credits(&mut self) -> bool {
        self.slots_returned = self.slots_returned.wrapping_add(self.quarter);
        self.until_return = self.quarter;
        self.data_returned = self.data_seen;
        let credit = u64::from(self.slots_returned) | u64::from(self.data_returned) << 32;
        self.area.credit_word().store(credit, Ordering::Release);
        self.area.barrier.light();
        let waits = self.area.waiting_word().load(Ordering::Relaxed) != 0;
        if waits {
            self.area.waiting_word().store(0, Ordering::Relaxed);
        }
        waits
    }

    #[inline(always)]
    fn payload(&mut self, len: usize) -> Bytes<'_> {
        #[cfg(not(loom))]
        // SAFETY: `len` has 6 bits. A broken sender that claims more than the slot has makes us
        // read the start of the next slot or of the credit line, which is mapped as well.
        unsafe {
            Bytes::from_raw((*self.slot).words.as_ptr().add(1).cast(), len)
        }
        #[cfg(loom)]
        {
            for (at, word) in self.payload.iter_mut().enumerate().take(len.div_ceil(8)) {
                // SAFETY: `slot` is always inside the area.
                *word = unsafe { &(*self.slot).words[1 + at] }.load(Ordering::Relaxed);
            }
            // SAFETY: the copy has 56 bytes and lives as long as the borrow of `self`.
            unsafe { Bytes::from_raw(self.payload.as_ptr().cast(), len.min(56)) }
        }
    }

    #[inline(always)]
    fn chunk(&mut self, tag: i32, context: u16) -> RingSlot<'_> {
        let Chunk { total, len, position, offset } = self.words();
        let size = self.area.shape.data_bytes;
        let at = position & (size - 1);
        assert!(
            len <= size && at <= size - len && lies_inside(offset, len, total),
            "broken ring: a chunk of {len} bytes at {at} of {size}, bytes {offset}.. of a message of {total}"
        );
        self.data_seen = position.wrapping_add(whole_lines(len));
        if self.data_seen.wrapping_sub(self.data_returned) >= size / 4 && self.until_return > 1 {
            // Rule 3: return with the next release.
            self.slots_returned = self.slots_returned.wrapping_sub(self.until_return - 1);
            self.until_return = 1;
        }
        self.area.watched.touch(at as usize, len as usize, Touch::Read);
        // SAFETY: `at + len <= size`: inside the data ring, which `self.area` keeps mapped.
        let bytes =
            unsafe { Bytes::from_raw(self.area.data.as_ptr().add(at as usize), len as usize) };
        RingSlot::Chunk { tag, context, total: total as usize, offset: offset as usize, bytes }
    }

    #[inline(always)]
    fn pool_chunk(&mut self, tag: i32, context: u16) -> RingSlot<'_> {
        let Chunk { total, len, position, offset } = self.words();
        let Some(pool) = &self.pool else {
            panic!("broken ring: {len} bytes in a pool that the receiver does not know")
        };
        let Some(bytes) =
            pool.bytes(position, len as usize).filter(|_| lies_inside(offset, len, total))
        else {
            panic!(
                "broken ring: a chunk of {len} bytes at {position} of a pool, bytes {offset}.. of a message of {total}"
            )
        };
        self.pooled = Some(Pooled { position, len });
        RingSlot::Chunk { tag, context, total: total as usize, offset: offset as usize, bytes }
    }

    #[inline(always)]
    fn words(&self) -> Chunk {
        // SAFETY: `slot` is always inside the area.
        let words = unsafe { &(*self.slot).words };
        let (first, second) = (words[1].load(Ordering::Relaxed), words[2].load(Ordering::Relaxed));
        Chunk {
            total: first as u32,
            len: (first >> 32) as u32,
            position: second as u32,
            offset: (second >> 32) as u32,
        }
    }
}

#[derive(Debug)]
struct Pooled {
    position: u32,
    len: u32,
}

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

#[inline(always)]
const fn header_tag(header: u64) -> i32 {
    (header >> 32) as i32
}

#[inline(always)]
const fn header_context(header: u64) -> u16 {
    (header >> 16) as u16
}

#[inline(always)]
const fn header_len(header: u64) -> usize {
    (header >> 8) as usize & 0x3f
}

const FORM_MASK: u64 = 3 << FORM_SHIFT;
/// Set in the form of everything except whole messages.
const NOT_WHOLE: u64 = 2 << FORM_SHIFT;
const _: () = assert!(form::WHOLE & 2 == 0 && form::CHUNK & form::FRAME & 2 != 0);
