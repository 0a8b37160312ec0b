//! The pair ring: messages from one process to one other, in order, a cache line each.
//!
//! A ring has *slots* of 64 bytes, a *credit line* and a *data ring*. A message of up to 56 bytes
//! is one slot, published by its first word, and costs the transfer of one cache line. A longer
//! message (up to [`RingShape::max_data`]) is copied to the data ring in chunks. Each chunk has its
//! own slot, so the receiver copies the first chunk out while the sender copies the second one in.
//! Still longer messages are copied to the sender's [`pool`](crate::pool).
//!
//! ```text
//! slot    word 0: lap 8 | length 6, form 2 | context 16 | tag 32          words 1-7: payload
//!         form 0: a whole message    form 2: a frame of another protocol
//!         form 3: a chunk; the length says whether it is in the pool (rule 7)
//! chunk   word 1: total length 32 | chunk length 32
//!         word 2: data position 32 | offset in the message 32
//! frame   the tag is the length of the body that follows it in chunks
//! credit  word 0: slots taken 32 | data taken 32        word 1: the sender waits
//! ```
//!
//! Rules
//! 1. *One each.* One [`RingSender`] and one [`RingReceiver`] use a ring. Only the sender writes
//!    slots and data, only the receiver writes the credit word, and both write the waiting word.
//!    All memory is zero at the start.
//! 2. *Publish.* The sender fills the words behind a header (relaxed) and then stores the header
//!    (release). The receiver loads the header (acquire) and reads the other words only if the lap
//!    is the expected one: n / s + 1 for the n-th slot in a ring of s slots, in 8 bits. Until then
//!    the slot has the lap before, so a lap may return after 256 laps.
//! 3. *Credit.* The sender fills a slot only if fewer than s slots are not yet taken, by the credit
//!    word it last saw (acquire). It copies only into bytes of the data ring that this word counts
//!    as taken. The receiver adds to the credit word (release) after its last read, every quarter
//!    ring of slots or data.
//! 4. *Chunks.* A chunk is contiguous in the data ring, at its position modulo the size, and takes
//!    whole lines. If the rest up to the end is too short, the sender skips the rest. Positions
//!    wrap at 32 bits. The sender starts a message only if there is room for all its chunks, then
//!    publishes each chunk as soon as it is copied. All chunks but the last have the same length.
//! 5. *Waiting.* Before it sleeps for lack of credits, a sender stores 1 to the waiting word
//!    (relaxed), then does a heavy barrier, then loads the credit word again. The receiver stores
//!    the credit word, then does a light barrier, then loads the waiting word; if it is 1, the
//!    receiver stores 0 and rings the sender's door. So one of the two sees the other's store.
//! 6. *No deadlock.* A receiver that has taken everything withholds the credits of less than a
//!    quarter of slots and data. A message needs at most half of them, and one slot more if it has
//!    a frame.
//! 7. *Pool.* A pool chunk, whose header has length 1, has a position in the sender's pool and no
//!    bytes in the data ring. Its lengths may differ; otherwise rule 4 holds. Streaming stores are
//!    fenced before the slot is published. When the receiver releases the slot, it frees the blocks
//!    (rule 4 of [`pool`](crate::pool)).
//! 8. *Body.* The body of a frame follows in chunks or pool chunks directly behind the frame's
//!    slot, with offsets from 0, tag 0 and context 0. Rule 4 holds for frame and body together.

mod pooled;
mod receiver;
mod sender;

pub use pooled::Pooling;
pub use receiver::{RingReceiver, RingSlot};
pub use sender::RingSender;

use oxmpi_sys::{
    barrier::BarrierKind,
    line::{Keep, LINE_BYTES, Line, Watched, heap_data, heap_lines},
    sync::{AtomicU64, Ordering},
};
use std::{ptr::NonNull, sync::Arc};

/// The longest message in its slot, in bytes.
pub const INLINE_MAX: usize = 56;

/// The length in the header of a pool chunk (rule 7). A chunk in the data ring has 0 there.
const IN_POOL: usize = 1;

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
    /// Checks the sizes; the error is a text for the user.
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

    /// The longest message of [`RingSender::try_send_data`] (rule 6): half of data and slots.
    pub const fn max_data(&self) -> usize {
        let by_slots = self.slots as usize / 2 * self.chunk_bytes as usize;
        let by_data = self.data_bytes as usize / 2;
        if by_slots < by_data { by_slots } else { by_data }
    }

    /// Bytes of a ring.
    pub const fn bytes(&self) -> usize {
        self.data_offset() + self.data_bytes as usize
    }

    /// An unused line on each side, since the processor fetches lines in pairs and ahead of a slot.
    const fn credit_line(&self) -> usize {
        self.slots as usize + 1
    }

    const fn data_offset(&self) -> usize {
        (self.credit_line() + 3) * LINE_BYTES
    }
}

/// The memory of one ring, in a segment or on the heap. A clone is a view of the same ring.
#[derive(Clone, Debug)]
pub struct RingArea {
    slots: NonNull<Line>,
    credit: NonNull<Line>,
    data: NonNull<u8>,
    shape: RingShape,
    barrier: BarrierKind,
    watched: Watched,
    _keep: Keep,
}

// SAFETY: the memory behind the pointers is atomics, and bytes that the protocol hands from one
// side to the other (rules 2 to 4); `_keep` keeps it mapped.
unsafe impl Send for RingArea {}
// SAFETY: as above; a shared `RingArea` can only be cloned.
unsafe impl Sync for RingArea {}

impl RingArea {
    /// A zeroed ring on the heap, for threads. Panics if [`RingShape::check`] returns an error.
    pub fn on_heap(shape: RingShape, barrier: BarrierKind) -> RingArea {
        if let Err(wrong) = shape.check() {
            panic!("{wrong}");
        }
        let lines = heap_lines(shape.credit_line() + 1);
        let data = heap_data(shape.data_bytes as usize);
        let first = NonNull::from(&lines[0]);
        RingArea {
            slots: first,
            credit: NonNull::from(&lines[shape.credit_line()]),
            data: NonNull::from(&data[0]).cast(),
            shape,
            barrier,
            watched: Watched::new(shape.data_bytes as usize),
            _keep: Arc::new((lines, data)),
        }
    }

    /// Safety: [`RingShape::bytes`] bytes at `at`, aligned to 64, are zero or a ring of this shape,
    /// and stay mapped and writable while `keep` lives.
    #[cfg(not(loom))]
    pub(crate) unsafe fn from_raw(
        at: NonNull<u8>,
        shape: RingShape,
        barrier: BarrierKind,
        keep: Keep,
    ) -> Self {
        debug_assert!(shape.check().is_ok());
        let behind = |bytes| {
            // SAFETY: all offsets below are inside the `shape.bytes()` bytes of the caller.
            unsafe { at.add(bytes) }
        };
        RingArea {
            slots: at.cast(),
            credit: behind(shape.credit_line() * LINE_BYTES).cast(),
            data: behind(shape.data_offset()),
            shape,
            barrier,
            watched: Watched::new(shape.data_bytes as usize),
            _keep: keep,
        }
    }

    /// The sizes of the ring.
    pub fn shape(&self) -> RingShape {
        self.shape
    }

    /// Zeroes the ring for another sender. Call it only while neither side uses the ring.
    pub fn reset(&self) {
        for slot in 0..self.shape.slots as usize {
            // SAFETY: the area has `slots` lines, mapped while `self._keep` lives.
            unsafe { self.slots.add(slot).as_ref() }.words[0].store(0, Ordering::Relaxed);
        }
        self.credit_word().store(0, Ordering::Relaxed);
        self.waiting_word().store(0, Ordering::Release);
    }

    fn credit_word(&self) -> &AtomicU64 {
        // SAFETY: the credit line is inside the area, mapped while `self._keep` lives.
        unsafe { &self.credit.as_ref().words[0] }
    }

    fn waiting_word(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { &self.credit.as_ref().words[1] }
    }

    fn slot_range(&self) -> (*const Line, *const Line) {
        let first = self.slots.as_ptr().cast_const();
        // SAFETY: the area has `slots` lines from `first` on.
        (first, unsafe { first.add(self.shape.slots as usize) })
    }
}

mod form {
    pub(super) const WHOLE: u8 = 0;
    pub(super) const FRAME: u8 = 2;
    pub(super) const CHUNK: u8 = 3;
}

const FORM_SHIFT: u32 = 14;

#[inline(always)]
const fn header(tag: i32, context: u16, form: u8, len: usize, lap: u64) -> u64 {
    (tag as u32 as u64) << 32
        | (context as u64) << 16
        | (form as u64) << FORM_SHIFT
        | (len as u64) << 8
        | (lap as u8) as u64
}

#[inline(always)]
const fn whole_lines(len: u32) -> u32 {
    (len + (LINE_BYTES as u32 - 1)) & !(LINE_BYTES as u32 - 1)
}
