//! Postboxes and a pool: the shared segment of the components guide's modules sysv and usysv.
//!
//! All processes of a job on a node share one segment. A *postbox* holds one packet from one
//! process to another; each ordered pair has one. Longer messages take space from a common *pool*.
//!
//! ```text
//! line 0            the lock of the pool: holder 31 | a process sleeps 1 (rule 4);
//!                   not used if the lock is a semaphore
//! line 1            the map of the pool: a bit for each of at most 512 blocks, 1 if it is taken
//! then              N (N-1) lines, one for each postbox: word 0 the state, words 1 to 7 the frame
//! then              N (N-1) times S bytes, the data in each postbox
//! then              P bytes, the pool
//!
//! state             total length of the data 32 | 0 | the sender waits 1 | kind 2
//! ```
//!
//! With lines of C bytes these are 2C + N (N-1) (S + C) + P bytes.
//!
//! Rules
//! 1. *Post.* Only the sender writes a postbox of kind 0 (empty): first frame and data, then the
//!    state, with release.
//! 2. *Take.* Only the receiver empties it: it loads the state with acquire, uses frame and data,
//!    and swaps 0 in, with release. The sender loads the state with acquire before it writes.
//! 3. *Wait.* A sender that waits adds its bit to the state of a full postbox, by a
//!    compare-exchange. Either the receiver's swap finds the bit, or the sender finds the postbox
//!    empty.
//! 4. *Allocate.* Only the holder of the lock sets bits of the map, for a row of free blocks.
//! 5. *Free.* The receiver of a row clears its bits after it has read the data, with release and
//!    without the lock. The allocating process loads the map with acquire.
//! 6. *Pooled.* A packet with data in the pool hands the row to the receiver, which frees it. The
//!    receiver empties the postbox (rule 2) before it copies the data.
//! 7. *Death.* A process that does not get the lock in time continues without the pool. A process
//!    that knows that the holder is dead opens the lock. A row of a dead process stays taken.

#[cfg(not(loom))]
mod file;
mod pool;
mod shape;

#[cfg(not(loom))]
pub use self::file::PostboxError;
pub use self::pool::{PoolLock, PoolRoom};
pub use self::shape::{MOST_POOL, MOST_RANKS, MOST_SHORT, PostboxShape};
use oxmpi_sys::{
    bytes::{Bytes, BytesMut},
    line::{Keep, LINE_BYTES, LINE_WORDS, Line, Touch, Watched, heap_data, heap_lines},
    sync::{AtomicU32, Ordering},
};
use std::{ptr::NonNull, sync::Arc};

pub const FRAME_MOST: usize = LINE_BYTES - 8;
/// The most bytes of a frame in a postbox with data in the pool.
pub const POOLED_FRAME_MOST: usize = FRAME_MOST - 8;

#[derive(Debug)]
#[repr(C, align(64))]
struct LockLine {
    word: AtomicU32,
}

#[derive(Debug)]
#[repr(C)]
struct Head {
    lock: LockLine,
    map: Line,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Head>() == 2 * LINE_BYTES);

/// Memory with postboxes and a pool. A clone is a view of the same memory.
#[derive(Clone, Debug)]
pub struct PostboxArea {
    head: NonNull<Head>,
    lines: NonNull<Line>,
    data: NonNull<u8>,
    shape: PostboxShape,
    watched: Watched,
    _keep: Keep,
}

// SAFETY: the memory behind the pointers is atomics, and bytes that the rules give to one process
// at a time; `_keep` keeps it mapped.
unsafe impl Send for PostboxArea {}
// SAFETY: as above.
unsafe impl Sync for PostboxArea {}

impl PostboxArea {
    /// Empty postboxes on the heap, for threads. Panics if [`PostboxShape::check`] fails.
    pub fn on_heap(shape: PostboxShape) -> PostboxArea {
        if let Err(wrong) = shape.check() {
            panic!("{wrong}");
        }
        let head =
            Arc::new(Head { lock: LockLine { word: AtomicU32::new(0) }, map: Line::default() });
        let lines = heap_lines(shape.boxes().max(1) as usize);
        let bytes =
            ((shape.pool_at() + shape.pool) as usize).next_multiple_of(LINE_BYTES).max(LINE_BYTES);
        let data = heap_data(bytes);
        PostboxArea {
            head: NonNull::from(&*head),
            lines: NonNull::from(&lines[0]),
            data: NonNull::from(&data[0]).cast(),
            shape,
            watched: Watched::new(bytes),
            _keep: Arc::new((head, lines, data)),
        }
    }

    /// Safety: [`PostboxShape::bytes`] bytes at `at`, aligned to 64, are zero or postboxes of this
    /// shape, and stay mapped and writable while `keep` lives.
    #[cfg(not(loom))]
    unsafe fn from_raw(at: NonNull<u8>, shape: PostboxShape, keep: Keep) -> PostboxArea {
        let boxes = shape.boxes() as usize;
        // SAFETY: all three are inside the caller's bytes.
        let (lines, data) = unsafe {
            let lines: NonNull<Line> = at.add(size_of::<Head>()).cast();
            (lines, lines.add(boxes).cast())
        };
        PostboxArea { head: at.cast(), lines, data, shape, watched: Watched::new(0), _keep: keep }
    }

    /// Its sizes.
    pub fn shape(&self) -> &PostboxShape {
        &self.shape
    }

    fn head(&self) -> &Head {
        // SAFETY: mapped while `_keep` lives, atomics only.
        unsafe { self.head.as_ref() }
    }

    fn line(&self, index: u64) -> &Line {
        debug_assert!(index < self.shape.boxes());
        // SAFETY: one of the lines, mapped while `_keep` lives, atomics only.
        unsafe { self.lines.add(index as usize).as_ref() }
    }

    fn read(&self, at: u64, len: usize) -> Bytes<'_> {
        assert!(at + len as u64 <= self.shape.pool_at() + self.shape.pool, "{len} bytes at {at}");
        self.watched.touch(at as usize, len, Touch::Read);
        // SAFETY: inside the area, mapped while `_keep` lives.
        unsafe { Bytes::from_raw(self.data.add(at as usize).as_ptr(), len) }
    }

    fn write(&self, at: u64, len: usize) -> BytesMut<'_> {
        assert!(at + len as u64 <= self.shape.pool_at() + self.shape.pool, "{len} bytes at {at}");
        self.watched.touch(at as usize, len, Touch::Write);
        // SAFETY: inside the area, mapped while `_keep` lives.
        unsafe { BytesMut::from_raw(self.data.add(at as usize).as_ptr(), len) }
    }

    /// The sender's side of the postbox between two processes, by their indices. Panics without
    /// one.
    pub fn sender(&self, from: u32, to: u32) -> PostboxSender {
        PostboxSender { index: self.pair(from, to), area: self.clone() }
    }

    /// The receiver's side. Panics if there is no such pair.
    pub fn receiver(&self, from: u32, to: u32) -> PostboxReceiver {
        PostboxReceiver { index: self.pair(from, to), area: self.clone() }
    }

    fn pair(&self, from: u32, to: u32) -> u64 {
        let ranks = self.shape.ranks;
        assert!(
            from != to && from < ranks && to < ranks,
            "a postbox from {from} to {to} of {ranks} processes"
        );
        self.shape.index(from, to)
    }
}

const KIND: u64 = 3;
const FRAME: u64 = 1;
const MORE: u64 = 2;
const POOLED: u64 = 3;
/// The sender waits (rule 3).
const WAITED: u64 = 4;

/// The frame of a packet, with the bytes behind it in the line.
pub type FrameBytes = [u8; FRAME_MOST];

/// The sender's side of a postbox: one.
#[derive(Debug)]
pub struct PostboxSender {
    area: PostboxArea,
    index: u64,
}

impl PostboxSender {
    /// Whether a packet can be posted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.area.line(self.index).words[0].load(Ordering::Acquire) == 0
    }

    /// The most bytes of data in a packet.
    #[inline]
    pub fn short(&self) -> usize {
        self.area.shape.short as usize
    }

    /// Posts a frame with `total` bytes of data in an empty postbox. `fill` writes the data that
    /// fit, whose number of bytes is returned. Panics if the frame is too long, or `total` exceeds
    /// 2^32 - 1.
    pub fn post(&mut self, frame: &[u8], total: usize, fill: impl FnOnce(BytesMut<'_>)) -> usize {
        assert!(frame.len() <= FRAME_MOST && u32::try_from(total).is_ok(), "{total} bytes of data");
        let now = total.min(self.area.shape.short as usize);
        self.put_frame(frame);
        if now > 0 {
            fill(self.data(now));
        }
        self.publish(FRAME, total);
        now
    }

    /// Posts the next `len` bytes of data in an empty postbox. Panics if they do not fit.
    pub fn post_more(&mut self, len: usize, fill: impl FnOnce(BytesMut<'_>)) {
        fill(self.data(len));
        self.publish(MORE, len);
    }

    /// Posts a frame with data in the pool (rule 6) in an empty postbox. Panics if it is too long.
    pub fn post_pooled(&mut self, frame: &[u8], row: PoolRoom) {
        assert!(frame.len() <= POOLED_FRAME_MOST);
        self.put_frame(frame);
        let line = self.area.line(self.index);
        line.words[LINE_WORDS - 1].store(row.at, Ordering::Relaxed);
        self.publish(POOLED, row.len);
    }

    /// Requests a ring from the receiver when it has emptied the postbox (rule 3). `false`: it is
    /// empty now.
    pub fn want_room(&self) -> bool {
        let state = &self.area.line(self.index).words[0];
        let noted = |now: u64| (now != 0).then_some(now | WAITED);
        state.fetch_update(Ordering::Acquire, Ordering::Acquire, noted).is_ok()
    }

    /// Takes back the packet, and its row, for a receiver *that must be known to be dead*.
    pub fn take_back(&mut self) {
        let receiver = PostboxReceiver { area: self.area.clone(), index: self.index };
        if let Some(Packet::Pooled { row, .. }) = receiver.peek() {
            self.area.free_row(row);
        }
        receiver.release();
    }

    fn data(&self, len: usize) -> BytesMut<'_> {
        let short = self.area.shape.short;
        assert!(len as u64 <= short, "{len} bytes for a postbox of {short}");
        self.area.write(self.index * short, len)
    }

    fn put_frame(&self, frame: &[u8]) {
        let line = self.area.line(self.index);
        for (word, eight) in line.words[1..].iter().zip(frame.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..eight.len()].copy_from_slice(eight);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
    }

    fn publish(&self, kind: u64, total: usize) {
        self.area.line(self.index).words[0].store((total as u64) << 32 | kind, Ordering::Release);
    }
}

/// The content of a postbox.
#[derive(Debug)]
pub enum Packet<'a> {
    Frame {
        frame: FrameBytes,
        total: usize,
        first: Bytes<'a>,
    },
    /// More data of the last frame.
    More(Bytes<'a>),
    /// A frame, and the row of the pool with its data, which the receiver frees.
    Pooled {
        frame: FrameBytes,
        row: PoolRoom,
    },
    /// A packet that no correct sender posts.
    Nonsense,
}

/// The receiver's side of a postbox: one.
#[derive(Debug)]
pub struct PostboxReceiver {
    area: PostboxArea,
    index: u64,
}

impl PostboxReceiver {
    /// The packet in the postbox, if any. It is valid until [`PostboxReceiver::release`].
    #[inline]
    pub fn peek(&self) -> Option<Packet<'_>> {
        let state = self.area.line(self.index).words[0].load(Ordering::Acquire);
        if state == 0 { None } else { Some(self.packet(state)) }
    }

    fn packet(&self, state: u64) -> Packet<'_> {
        let (total, short) = ((state >> 32) as usize, self.area.shape.short);
        let here = |len: usize| self.area.read(self.index * short, len);
        match state & KIND {
            FRAME => {
                Packet::Frame { frame: self.frame(), total, first: here(total.min(short as usize)) }
            }
            MORE if total as u64 <= short => Packet::More(here(total)),
            POOLED => {
                let at = self.area.line(self.index).words[LINE_WORDS - 1].load(Ordering::Relaxed);
                match self.area.named_row(at, total) {
                    Some(row) => Packet::Pooled { frame: self.frame(), row },
                    None => Packet::Nonsense,
                }
            }
            _ => Packet::Nonsense,
        }
    }

    fn frame(&self) -> FrameBytes {
        let mut frame = [0; FRAME_MOST];
        let words = &self.area.line(self.index).words[1..];
        for (eight, word) in frame.chunks_exact_mut(8).zip(words) {
            eight.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        frame
    }

    /// Empties the postbox (rule 2). Returns whether its sender waits for a ring.
    #[inline]
    pub fn release(&self) -> bool {
        self.area.line(self.index).words[0].swap(0, Ordering::AcqRel) & WAITED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
