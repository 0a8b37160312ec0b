//! The pair ring: messages from one process to one other, in order, a cache line each, or a part of one.
//!
//! A ring is made of *slots* of 64 bytes, a *credit line*, an *exchange line* (rule 13) and a *data ring*. A message of up to 56 bytes is one
//! slot; its first word publishes it, so that it costs the transfer of one cache line. Messages of up to 8 bytes that follow
//! one another share slots: four cost one transfer, if their receiver is that far behind. A longer one (to
//! [`RingShape::max_data`]) is copied to the data ring in chunks, each announced by a slot of its own, so that the
//! receiver copies the first chunk out while the sender copies the second one in. Or it is copied to the sender's
//! [`pool`](crate::pool), which is larger and takes longer messages. No payload can look like a
//! header: where one of those may lie no bytes of a user lie, or another lap is stored there first (rule 12).
//!
//! ```text
//! slot    word 0: lap 8 | length 6, form 2 | context 16 | tag 32          words 1-7: payload
//!         form 0: a whole message    form 1: one with another header behind it, in word 2, 4 or 6 (rule 12)
//!         form 2: a frame of another protocol
//!         form 3: a chunk; the length says where it lies (rule 9), or that there is none: the rest is skipped (rule 12), or
//!         there is a notice (rule 14)
//! chunk   word 1: total length 32 | chunk length 32     word 2: data position 32 | offset in the message 32
//! frame   the tag is the length of the body that follows it in chunks
//! notice  word 1: what is taken of the opposite ring, laps 48 | slots 16, and the exchange line is open; or zero, it is closed
//! in the exchange line, form 3: the message lies in the exchange area      word 1: length (rule 13)
//! credit  word 0: slots taken 32 | data taken 32        word 1: the sender waits       word 2: complaints
//! ```
//!
//! Rules
//! 1. *One each.* One [`RingSender`] and one [`RingReceiver`] use a ring. The sender alone writes slots and data, the
//!    receiver alone writes the credit word. Both write the waiting word (rule 7). All memory is zero at the start.
//! 2. *Publish.* The sender fills the words behind a header (relaxed) and then stores the header (release). The receiver
//!    loads it (acquire) and reads the others only if its lap is the one it expects.
//! 3. *Lap.* The lap of the n-th slot in a ring of s slots is n / s + 1, in 8 bits. A slot's word 0 holds the lap before
//!    the expected one until it is published, so a lap may return after 256 times without harm. Slots are never
//!    cleared.
//! 4. *Slot credit.* The sender fills a slot only if fewer than s slots are not yet taken, by the credit word it
//!    last saw (acquire). The receiver adds to that word (release) after its last look at slot and data: every
//!    quarter ring of slots or of data, not with every message.
//! 5. *Data.* A chunk lies contiguous in the data ring, at its position modulo the size, and takes whole lines. If
//!    the rest up to the end is too short the sender skips it. Positions are counted in 32 bits and wrap. The sender
//!    copies only into bytes that the credit word says are taken.
//! 6. *All or nothing.* The sender starts a message of several chunks only if there is room for all of them, and
//!    then publishes each as soon as it is copied. Every chunk but the last has the same length.
//! 7. *Waiting.* A sender that wants to sleep for lack of credits stores 1 to the waiting word (relaxed), then heavy
//!    barrier, then looks at the credit word once more. The receiver stores the credit word, then light barrier, then
//!    loads the waiting word; if it is 1 it stores 0 and has the sender's door rung. So one of them sees the other.
//! 8. *No deadlock.* A receiver that has taken all holds back less than a quarter of slots and data; a message needs at most
//!    half, one slot more if it has a frame, and one more if there is a rest to skip. A notice wakes nobody, so its reader may have
//!    left it: a sender that is about to wait for credits rings for it ([`RingSender::rings_for_notice`]).
//! 9. *Pool.* The position of a pool chunk is one in the sender's pool, and no byte of the data ring is used. Rule 6 holds as
//!    well, but for the equal lengths. What was copied by streaming stores is fenced before its slot is published. The length
//!    in the header has bit 2. It has bit 0 if the piece is the last one in its block or blocks, and then the receiver frees
//!    them (rule 4 of [`pool`](crate::pool)) when it releases the slot. It has bit 1 if the position is one in the receiver's
//!    own pool (rule 9 there), and then the receiver keeps them instead. It has bit 5 if the receiver had better copy by vectors: if the
//!    message is spread (rule 8 there), which says that the two processors are near, and not short.
//! 10. *Body.* A frame may have a body. It follows in chunks or pool chunks directly behind the frame's slot, with offsets
//!     from 0, tag 0 and context 0; rule 6 holds for all of them together.
//! 11. *Complaints.* The receiver counts in a word of its own (relaxed) how often it took it long to copy most of the last pool
//!     chunks out. The sender looks at it (relaxed) before each message that goes through the pool, and then copies otherwise
//!     for a while, unless the message before lay in place (rule 9 of the pool). Nothing else depends on it.
//! 12. *Shared slots.* Behind a message of form 1, which has at most 8 bytes, the next header lies in the same slot, two
//!     words on, and has the same lap. Before the sender publishes the message it stores another lap there (relaxed), so that
//!     nothing of a user that lay there is taken for a header. If the next message is none of up to 8 bytes, the sender
//!     publishes it in the next slot, and then writes where its header would lie that the rest of the slot is skipped
//!     (release): a receiver that finds that finds something in the next slot. It takes a slot when it goes to the next one.
//! 13. *Exchange line.* While messages of up to [`EXCHANGE_MAX`] bytes answer one another, two processes with rings for each other
//!     write them in turns to one line: so it comes to its reader together with the right to write the answer, which takes half the
//!     time. A message lies there as in a slot, its lap being the number of all those in this line, whoever wrote them; if it has
//!     more than 56 bytes it lies in the *exchange area* behind the line, written before the header. Who has taken one has the turn,
//!     and the area with it.
//! 14. *Opening.* Most of the time nobody looks there. One of the two, always the same, opens the line of the ring that leads
//!     to it, by a notice in the other one that says how far it has taken the first; and looks there from now on. Who reads that
//!     has the turn, and uses it if all its slots are taken by that word. Its first message lies in the area, however short; word 7
//!     says how far it has taken the ring of the notice; so the other one knows whether it may use its turn, which it has now.
//! 15. *Order.* Who uses the line fills no slots. So whatever lies there is older than all that lies in the ring, but a notice.
//! 16. *Closing.* Who has used the line and is to send otherwise, as the message is longer or follows another one, or who must
//!     not use its first turn, closes it: by a notice in the ring, before anything else there. Who finds that takes what is in the
//!     line first, looks there no more, and closes it as well, before whatever it sends next. The one who opened it may do so
//!     again when both have closed it.

mod exchange;
mod pooled;
mod receiver;
mod sender;

pub use exchange::Notice;
pub use pooled::Pooling;
pub use receiver::{RingReceiver, Slot};
pub use sender::RingSender;

use crate::{
    barrier::BarrierKind,
    line::{Keep, LINE_BYTES, Line, Watched, heap_data, heap_lines},
    sync::AtomicU64,
};
use std::{ptr::NonNull, sync::Arc};

/// The longest message that travels in its slot, in bytes.
pub const INLINE_MAX: usize = 56;

/// The longest message that lies in the exchange area, in bytes (rule 13).
pub const EXCHANGE_MAX: usize = if cfg!(loom) { 128 } else { 4 << 10 };

/// What the length in the header of a chunk says (rules 9, 12 and 14).
const ENDS_BLOCK: usize = 1;
const ANSWER: usize = 2;
const IN_POOL: usize = 4;
const HOLDS_NOTHING: usize = 8;
const IS_NOTICE: usize = 16;
const BY_VECTORS: usize = 32;

/// The longest message that may share its slot, in bytes, and how many words it takes (rule 12).
const SHARED_MAX_BYTES: usize = 8;
const SHARED_WORDS: usize = 2;

/// The sizes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// Slots of 64 bytes: a power of two, 4 to 65536.
    pub slots: u32,
    /// Bytes of the data ring: a power of two, 1 KiB to 1 GiB.
    pub data_bytes: u32,
    /// The longest chunk in bytes: a power of two, 64 to a quarter of the data ring.
    pub chunk_bytes: u32,
}

impl RingShape {
    /// What is wrong with these sizes, if anything.
    pub fn check(&self) -> Result<(), String> {
        let RingShape { slots, data_bytes, chunk_bytes } = *self;
        if !slots.is_power_of_two() || !(4..=1 << 16).contains(&slots) {
            return Err(format!(
                "a ring of {slots} slots: the number must be a power of two from 4 to 65536"
            ));
        }
        if !data_bytes.is_power_of_two() || !(1 << 10..=1 << 30).contains(&data_bytes) {
            return Err(format!(
                "a data ring of {data_bytes} bytes: the number must be a power of two from 1024 to 2^30"
            ));
        }
        if !chunk_bytes.is_power_of_two() || !(64..=data_bytes / 4).contains(&chunk_bytes) {
            return Err(format!(
                "chunks of {chunk_bytes} bytes: the number must be a power of two from 64 to {} (a quarter of the data ring)",
                data_bytes / 4
            ));
        }
        Ok(())
    }

    /// The longest message of [`RingSender::try_send_data`] in bytes (rule 8): half the data ring, and no more
    /// chunks than half the slots.
    pub const fn max_data(&self) -> usize {
        let by_slots = self.slots as usize / 2 * self.chunk_bytes as usize;
        let by_data = self.data_bytes as usize / 2;
        if by_slots < by_data { by_slots } else { by_data }
    }

    /// Bytes of memory a ring takes.
    pub const fn bytes(&self) -> usize {
        self.data_offset() + self.data_bytes as usize
    }

    /// A line lies between the slots, the credit line, the exchange line with its area and the data, so that fetching pairs of lines
    /// does not couple them, nor fetching a slot in advance.
    const fn credit_line(&self) -> usize {
        self.slots as usize + 1
    }

    /// Apart, as the credit line.
    const fn exchange_line(&self) -> usize {
        self.credit_line() + 2
    }

    const fn data_offset(&self) -> usize {
        (self.exchange_line() + 2) * LINE_BYTES + EXCHANGE_MAX
    }
}

/// The memory of one ring, in a segment or on the heap. Cloning it gives another view of the same ring.
#[derive(Clone, Debug)]
pub struct RingArea {
    slots: NonNull<Line>,
    credit: NonNull<Line>,
    exchange: NonNull<Line>,
    /// Where a longer message lies whose header is in the exchange line.
    exchange_data: NonNull<u8>,
    data: NonNull<u8>,
    shape: RingShape,
    barrier: BarrierKind,
    watched: Watched,
    watched_exchange: Watched,
    keep: Keep,
}

// SAFETY: the memory behind the pointers is atomics, and bytes that the protocol hands from one side to the other
// (rules 2, 4, 5); `keep` keeps it mapped.
unsafe impl Send for RingArea {}
// SAFETY: as above; nothing can be done through a shared `RingArea` but to clone it.
unsafe impl Sync for RingArea {}

impl RingArea {
    /// A ring of zeroes on the heap, for two threads of one process.
    ///
    /// # Panics
    /// If [`RingShape::check`] finds something wrong.
    pub fn on_heap(shape: RingShape, barrier: BarrierKind) -> RingArea {
        if let Err(wrong) = shape.check() {
            panic!("{wrong}");
        }
        let lines = heap_lines(shape.exchange_line() + 1);
        let data = heap_data(shape.data_bytes as usize);
        let exchange_data = heap_data(EXCHANGE_MAX);
        let first = NonNull::from(&lines[0]);
        RingArea {
            slots: first,
            credit: NonNull::from(&lines[shape.credit_line()]),
            exchange: NonNull::from(&lines[shape.exchange_line()]),
            exchange_data: NonNull::from(&exchange_data[0]).cast(),
            data: NonNull::from(&data[0]).cast(),
            shape,
            barrier,
            watched: Watched::new(shape.data_bytes as usize),
            watched_exchange: Watched::new(EXCHANGE_MAX),
            keep: Arc::new((lines, exchange_data, data)),
        }
    }

    /// A ring at `at`.
    ///
    /// # Safety
    /// [`RingShape::bytes`] bytes at `at`, aligned to 64, must be zero or a ring of this shape, and stay mapped
    /// and writable while `keep` lives.
    #[cfg(not(loom))]
    pub(crate) unsafe fn from_raw(
        at: NonNull<u8>,
        shape: RingShape,
        barrier: BarrierKind,
        keep: Keep,
    ) -> Self {
        debug_assert!(shape.check().is_ok());
        let behind = |bytes| {
            // SAFETY: all offsets below lie inside the `shape.bytes()` bytes which the caller vouches for.
            unsafe { at.add(bytes) }
        };
        RingArea {
            slots: at.cast(),
            credit: behind(shape.credit_line() * LINE_BYTES).cast(),
            exchange: behind(shape.exchange_line() * LINE_BYTES).cast(),
            exchange_data: behind((shape.exchange_line() + 1) * LINE_BYTES),
            data: behind(shape.data_offset()),
            shape,
            barrier,
            watched: Watched::new(shape.data_bytes as usize),
            watched_exchange: Watched::new(EXCHANGE_MAX),
            keep,
        }
    }

    /// The ring's sizes.
    pub fn shape(&self) -> RingShape {
        self.shape
    }

    /// Makes the ring new, for another sender. Only while neither side uses it.
    pub fn reset(&self) {
        for slot in 0..self.shape.slots as usize {
            // SAFETY: the area has `slots` lines from `self.slots` on, mapped while `self.keep` lives.
            unsafe { self.slots.add(slot).as_ref() }.words[0].store(0, crate::sync::Ordering::Relaxed);
        }
        // SAFETY: the exchange line is inside the area, mapped while `self.keep` lives.
        unsafe { self.exchange.as_ref() }.words[0].store(0, crate::sync::Ordering::Relaxed);
        self.credit_word().store(0, crate::sync::Ordering::Relaxed);
        self.complaints_word().store(0, crate::sync::Ordering::Relaxed);
        self.waiting_word().store(0, crate::sync::Ordering::Release);
    }

    /// Slots and data taken, in 32 bits each.
    fn credit_word(&self) -> &AtomicU64 {
        // SAFETY: the credit line is inside the area, mapped while `self.keep` lives.
        unsafe { &self.credit.as_ref().words[0] }
    }

    /// Whether the sender waits for credits.
    fn waiting_word(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { &self.credit.as_ref().words[1] }
    }

    /// How often the receiver has found the pool slow (rule 11).
    fn complaints_word(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { &self.credit.as_ref().words[2] }
    }

    /// The first slot, and the one past the last.
    fn slot_range(&self) -> (*const Line, *const Line) {
        let first = self.slots.as_ptr().cast_const();
        // SAFETY: the area has `slots` lines from `first` on.
        (first, unsafe { first.add(self.shape.slots as usize) })
    }
}

/// What a slot holds.
mod form {
    pub(super) const WHOLE: u8 = 0;
    pub(super) const FOLLOWED: u8 = 1;
    pub(super) const FRAME: u8 = 2;
    pub(super) const CHUNK: u8 = 3;
}

/// In a header: the form of a whole message with another one behind it, instead of that of one without.
const FOLLOWED: u64 = (form::FOLLOWED as u64) << FORM_SHIFT;
const _: () = assert!(form::WHOLE == 0);

const FORM_SHIFT: u32 = 14;

/// The first word of a slot.
#[inline(always)]
const fn header(tag: i32, context: u16, form: u8, len: usize, lap: u64) -> u64 {
    (tag as u32 as u64) << 32
        | (context as u64) << 16
        | (form as u64) << FORM_SHIFT
        | (len as u64) << 8
        | (lap as u8) as u64
}

/// A place in a ring as one number: laps from this bit on, and the slot below.
const POSITION_SHIFT: u32 = 16;

/// `len` rounded up to whole lines.
#[inline(always)]
const fn whole_lines(len: u32) -> u32 {
    (len + (LINE_BYTES as u32 - 1)) & !(LINE_BYTES as u32 - 1)
}
