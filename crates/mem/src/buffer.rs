//! A user's buffer: an address, a count and what an element looks like.
//!
//! Everything above sees such a buffer as its *packed* bytes, numbered from 0 to [`packed_len`](UserBuf::packed_len):
//! all elements in type-map order, without gaps. Any range of them can be packed or unpacked, in any order; a
//! [`Cursor`] makes going through them in sequence cheap for types of many pieces.

use crate::copy::{self, Place, Sides};
use crate::device::{DeviceFault, DeviceMemory, RowJoiner, Rows};
use crate::layout::{Layout, LayoutError};
use crate::memory::{Lease, Scratch, ScratchError};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The memory of `count` elements. Cheap to clone; all clones name the same memory.
///
/// Its methods take `&self` even to write: like [`Bytes`], it promises only that the memory is mapped.
#[derive(Clone, Debug)]
pub struct UserBuf {
    base: *mut u8,
    count: usize,
    shape: Shape,
    read_only: bool,
    lease: Option<Arc<Lease>>,
}

#[derive(Clone, Debug)]
enum Shape {
    /// Elements of `size` bytes without gaps.
    Contiguous {
        size: usize,
    },
    Strided(Arc<Layout>),
    /// Memory that only a driver copies.
    Device(Box<DeviceShape>),
}

/// Elements in the memory of a device.
#[derive(Clone, Debug)]
struct DeviceShape {
    elements: Elements,
    device: Arc<Device>,
    /// What is written is awaited only by [`UserBuf::settle`].
    writes_behind: bool,
}

/// As the other two of [`Shape`].
#[derive(Clone, Debug)]
enum Elements {
    Contiguous(usize),
    Strided(Arc<Layout>),
}

#[derive(Debug)]
struct Device {
    memory: Box<dyn DeviceMemory>,
    /// What the program gave as its address.
    address: u64,
    /// The first failure, the driver's number; 0: there was none.
    failure: AtomicI32,
}

impl Device {
    fn note(&self, result: Result<(), i32>) {
        if let Err(code) = result {
            // The first counts. Whoever completes the operation does so after all copies, by what orders them.
            let _ = self.failure.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl DeviceShape {
    fn with_elements(&self, elements: Elements) -> Shape {
        Shape::Device(Box::new(DeviceShape { elements, ..self.clone() }))
    }
}

/// Memory of a user in one piece: what most buffers are. A plain value, so that it costs nothing to keep one.
///
/// Like [`UserBuf`], it promises only that the memory is mapped.
#[derive(Clone, Copy, Debug)]
pub struct PlainBuf {
    start: *mut u8,
    len: usize,
}

// SAFETY: as for UserBuf below: an address and a length, whose promise holds on every thread.
unsafe impl Send for PlainBuf {}
// SAFETY: as for Send.
unsafe impl Sync for PlainBuf {}

impl PlainBuf {
    /// No bytes.
    pub const EMPTY: PlainBuf = PlainBuf { start: std::ptr::null_mut(), len: 0 };

    /// `len` bytes at `start`.
    ///
    /// # Safety
    /// As for [`UserBuf::new`]: the bytes stay mapped, readable and, if they are received into, writable as long as this value or
    /// a copy of it is used.
    #[inline(always)]
    pub const unsafe fn new(start: *mut u8, len: usize) -> PlainBuf {
        PlainBuf { start, len }
    }

    /// `len` zeros that are never freed, and so mapped for ever.
    pub fn leaked(len: usize) -> PlainBuf {
        let bytes = Vec::leak(vec![0u8; len]);
        PlainBuf { start: bytes.as_mut_ptr(), len }
    }

    /// Where they begin.
    #[inline(always)]
    pub const fn start(&self) -> *mut u8 {
        self.start
    }

    /// The number of bytes.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, to read.
    #[inline(always)]
    pub const fn bytes(&self) -> Bytes<'_> {
        // SAFETY: mapped by the promise of `new`.
        unsafe { Bytes::from_raw(self.start, self.len) }
    }

    /// The bytes, to write.
    #[inline(always)]
    pub const fn bytes_mut(&self) -> BytesMut<'_> {
        // SAFETY: mapped and writable by the promise of `new`.
        unsafe { BytesMut::from_raw(self.start, self.len) }
    }
}

impl From<PlainBuf> for UserBuf {
    #[inline]
    fn from(plain: PlainBuf) -> UserBuf {
        // SAFETY: the promise of `PlainBuf::new` is that of this function.
        unsafe { UserBuf::contiguous(plain.start, plain.len) }
    }
}

// SAFETY: a UserBuf is an address and facts about it. Whoever made it promised that the memory is mapped while any
// clone lives, on whatever thread that is; accesses are plain copies, and what a copy reads while the program
// writes the same bytes is the program's error and nobody relies on it.
unsafe impl Send for UserBuf {}
// SAFETY: as for Send; a shared UserBuf can do nothing that a sent clone cannot.
unsafe impl Sync for UserBuf {}

/// A place in the packed bytes of a [`UserBuf`], for going on from there. It remembers which piece of memory comes next;
/// used with another buffer it is still right, only slower.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    offset: usize,
    place: Place,
}

impl Cursor {
    /// The place of packed byte `offset`.
    pub fn at(offset: usize) -> Cursor {
        Cursor { offset, place: Place::default() }
    }

    /// The number of the next packed byte.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl UserBuf {
    /// `count` elements of `layout`, the first at `base`.
    ///
    /// `base` may be null: with absolute displacements (`MPI_BOTTOM`) the elements lie where the layout says.
    ///
    /// # Safety
    /// All data bytes of these elements must be mapped, readable and, if the buffer is received into, writable, as long
    /// as this value, a clone, a part or a [`PlainBuf`] of it exists. No Rust reference to them may be used meanwhile, except that
    /// shared ones are fine if the buffer is only read.
    ///
    /// # Panics
    /// If the packed size exceeds `isize::MAX` (see [`Layout::packed_len`]), which no mapped memory reaches without
    /// overlapping elements.
    #[inline]
    pub unsafe fn new(base: *mut u8, count: usize, layout: &Arc<Layout>) -> UserBuf {
        let fits = count.checked_mul(layout.size()).is_some_and(|n| isize::try_from(n).is_ok());
        assert!(fits, "{count} elements of {} bytes exceed the address space", layout.size());
        let shape = if layout.is_contiguous() {
            Shape::Contiguous { size: layout.size() }
        } else {
            Shape::Strided(Arc::clone(layout))
        };
        UserBuf { base, count, shape, read_only: false, lease: None }
    }

    /// `len` bytes at `base`, as elements of one byte.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline]
    pub unsafe fn contiguous(base: *mut u8, len: usize) -> UserBuf {
        UserBuf { base, count: len, shape: Shape::Contiguous { size: 1 }, read_only: false, lease: None }
    }

    /// `count` elements of `size` bytes without gaps.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline]
    pub(crate) unsafe fn of_size(base: *mut u8, count: usize, size: usize) -> UserBuf {
        UserBuf { base, count, shape: Shape::Contiguous { size }, read_only: false, lease: None }
    }

    /// No elements.
    #[inline]
    pub const fn empty() -> UserBuf {
        UserBuf {
            base: std::ptr::null_mut(),
            count: 0,
            shape: Shape::Contiguous { size: 1 },
            read_only: false,
            lease: None,
        }
    }

    /// The same buffer, which also keeps `lease` alive.
    pub fn with_lease(self, lease: Arc<Lease>) -> UserBuf {
        UserBuf { lease: Some(lease), ..self }
    }

    /// The same buffer, never to be written.
    pub fn read_only(self) -> UserBuf {
        UserBuf { read_only: true, ..self }
    }

    /// The address of element 0: what the user gave.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base
    }

    /// The number of elements.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The packed bytes of one element.
    #[inline]
    pub fn element_size(&self) -> usize {
        match &self.shape {
            Shape::Contiguous { size } => *size,
            Shape::Strided(layout) => layout.size(),
            Shape::Device(shape) => match &shape.elements {
                Elements::Contiguous(size) => *size,
                Elements::Strided(layout) => layout.size(),
            },
        }
    }

    /// Bytes from one element to the next.
    #[inline]
    pub fn extent(&self) -> isize {
        match &self.shape {
            Shape::Contiguous { size } => size.cast_signed(),
            Shape::Strided(layout) => layout.extent(),
            Shape::Device(shape) => match &shape.elements {
                Elements::Contiguous(size) => size.cast_signed(),
                Elements::Strided(layout) => layout.extent(),
            },
        }
    }

    /// The packed bytes of all elements.
    #[inline]
    pub fn packed_len(&self) -> usize {
        self.count * self.element_size()
    }

    /// Whether there is nothing to copy.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packed_len() == 0
    }

    /// Elements `start..start + len`.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn elements(&self, start: usize, len: usize) -> UserBuf {
        assert!(
            start <= self.count && len <= self.count - start,
            "elements {start}+{len} of a buffer of {}",
            self.count
        );
        let base = self.base.wrapping_offset(self.extent().wrapping_mul(start.cast_signed()));
        UserBuf { base, count: len, ..self.clone() }
    }

    /// Packed bytes `start..start + len` as a buffer of their own, if they lie in one piece or are whole elements.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn packed_range(&self, start: usize, len: usize) -> Option<UserBuf> {
        let all = self.packed_len();
        assert!(start <= all && len <= all - start, "packed bytes {start}+{len} of {all}");
        if start == 0 && len == all {
            return Some(self.clone());
        }
        if let Some(first) = if len == 0 { Some(self.base) } else { self.one_piece() } {
            let base = first.wrapping_add(if len == 0 { 0 } else { start });
            return Some(UserBuf { base, count: len, shape: Shape::Contiguous { size: 1 }, ..self.clone() });
        }
        if let Shape::Device(device) = &self.shape
            && let Elements::Contiguous(_) = device.elements
        {
            let shape = device.with_elements(Elements::Contiguous(1));
            return Some(UserBuf { base: self.base.wrapping_add(start), count: len, shape, ..self.clone() });
        }
        let size = self.element_size();
        (start.is_multiple_of(size) && len.is_multiple_of(size))
            .then(|| self.elements(start / size, len / size))
    }

    /// The same memory seen as `count` elements of `layout`, the first at the same address.
    ///
    /// # Errors
    /// If the data of these would lie outside of the bytes of this buffer, which must itself be contiguous.
    pub fn cast(&self, count: usize, layout: &Arc<Layout>) -> Result<UserBuf, LayoutError> {
        let outside = LayoutError::Overflow { what: "place in the buffer" };
        let (from, to) = layout.span(count)?;
        let len = layout.packed_len(count)?;
        let Shape::Contiguous { .. } = self.shape else { return Err(outside) };
        if len > 0 && (from < 0 || to > self.packed_len().cast_signed()) {
            return Err(outside);
        }
        // SAFETY: the data lie within the bytes of this buffer, whose promise and lease carry over.
        let cast = unsafe { UserBuf::new(self.base, count, layout) };
        Ok(UserBuf { read_only: self.read_only, lease: self.lease.clone(), ..cast })
    }

    /// Where the data lie, if they are in one piece.
    #[inline]
    fn one_piece(&self) -> Option<*mut u8> {
        match &self.shape {
            Shape::Contiguous { .. } => Some(self.base),
            Shape::Strided(layout) => {
                let start = layout.single_block()?;
                let touching = self.count == 1 || layout.extent() == layout.size().cast_signed();
                touching.then(|| self.base.wrapping_offset(start))
            }
            Shape::Device(_) => None,
        }
    }

    /// The packed bytes where they are, if they lie in one piece.
    #[inline]
    pub fn as_contiguous(&self) -> Option<Bytes<'_>> {
        if self.is_empty() {
            return Some(Bytes::empty());
        }
        let start = self.one_piece()?;
        // SAFETY: these are the data bytes, mapped while `self` lives by the promise of `new`.
        Some(unsafe { Bytes::from_raw(start, self.packed_len()) })
    }

    /// The packed bytes where they are, to write, if they lie in one piece.
    ///
    /// # Panics
    /// If the buffer is read-only.
    #[inline]
    pub fn as_contiguous_mut(&self) -> Option<BytesMut<'_>> {
        self.assert_writable();
        let start = if self.is_empty() { std::ptr::null_mut() } else { self.one_piece()? };
        // SAFETY: these are the data bytes, mapped while `self` lives by the promise of `new`, and not read-only.
        Some(unsafe { BytesMut::from_raw(start, self.packed_len()) })
    }

    /// The same memory as a plain value, if it lies in one piece, may be written and nothing else keeps it.
    #[inline]
    pub fn as_plain(&self) -> Option<PlainBuf> {
        if self.read_only || self.lease.is_some() {
            return None;
        }
        let start = if self.is_empty() { std::ptr::null_mut() } else { self.one_piece()? };
        Some(PlainBuf { start, len: self.packed_len() })
    }

    /// Calls `f` with the blocks that the packed bytes `from..from + len` are, one after the other: where each begins, and
    /// its length.
    ///
    /// # Panics
    /// If there are fewer packed bytes.
    pub(crate) fn blocks(&self, from: usize, len: usize, mut f: impl FnMut(*mut u8, usize)) {
        let total = self.packed_len();
        assert!(from <= total && len <= total - from, "packed bytes {from}+{len} of a buffer of {total}");
        let layout = match &self.shape {
            Shape::Contiguous { .. } => None,
            Shape::Strided(layout) => Some(layout),
            Shape::Device(shape) => match &shape.elements {
                Elements::Contiguous(_) => None,
                Elements::Strided(layout) => Some(layout),
            },
        };
        match layout {
            None if len == 0 => {}
            None => f(self.base.wrapping_add(from), len),
            Some(layout) => {
                let mut range = (from, len);
                for element in from / layout.size().max(1)..self.count {
                    let at = layout.extent().wrapping_mul(element.cast_signed());
                    if element == from / layout.size() {
                        range.0 = from % layout.size();
                    }
                    layout.program().blocks(self.base.wrapping_offset(at), &mut range, &mut f);
                    if range.1 == 0 {
                        break;
                    }
                }
            }
        }
    }

    /// The addresses of the first blocks of data, `most` of them at most.
    pub fn data_blocks(&self, most: usize) -> Vec<std::ops::Range<usize>> {
        let mut found = Vec::new();
        // Data in one piece, and the first block of others.
        let len = if most == 1 && self.one_piece().is_none() {
            self.packed_len().min(1)
        } else {
            self.packed_len()
        };
        self.blocks(0, len, |at, len| {
            if found.len() < most {
                found.push(at.addr()..at.addr() + len);
            }
        });
        found
    }

    /// Whether the elements are structs of `extent` bytes with data in just these (offset, length) blocks.
    pub(crate) fn is_array_of(&self, blocks: &[(isize, usize)], extent: usize) -> bool {
        match &self.shape {
            Shape::Contiguous { .. } | Shape::Device(_) => false,
            Shape::Strided(l) => l.extent() == extent.cast_signed() && l.has_blocks(blocks),
        }
    }

    #[inline]
    pub(crate) fn assert_writable(&self) {
        assert!(!self.read_only, "a buffer lent for reading is written");
    }

    /// Copies packed bytes from `offset` on to all of `to`.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn pack(&self, offset: usize, to: BytesMut<'_>) {
        self.pack_next(&mut Cursor::at(offset), to);
    }

    /// Copies all of `from` over the packed bytes from `offset` on.
    ///
    /// # Panics
    /// If there are fewer, or the buffer is read-only.
    #[inline]
    pub fn unpack(&self, offset: usize, from: Bytes<'_>) {
        self.unpack_next(&mut Cursor::at(offset), from);
    }

    /// Like [`pack`](Self::pack) from the cursor on, which is moved behind.
    ///
    /// # Panics
    /// As `pack`.
    #[inline]
    pub fn pack_next(&self, cursor: &mut Cursor, mut to: BytesMut<'_>) {
        let len = to.len();
        // SAFETY: `to` is writable for its length.
        unsafe { self.transfer::<true>(cursor, to.as_mut_ptr(), len) }
    }

    /// Like [`unpack`](Self::unpack) from the cursor on, which is moved behind.
    ///
    /// # Panics
    /// As `unpack`.
    #[inline]
    pub fn unpack_next(&self, cursor: &mut Cursor, from: Bytes<'_>) {
        self.assert_writable();
        // SAFETY: `from` is readable for its length, and `transfer` does not write there when it unpacks.
        unsafe { self.transfer::<false>(cursor, from.as_ptr().cast_mut(), from.len()) }
    }

    /// # Safety
    /// `packed` must be readable, and for `PACK` writable, for `len` bytes; the buffer writable unless `PACK`.
    #[inline]
    unsafe fn transfer<const PACK: bool>(&self, cursor: &mut Cursor, packed: *mut u8, len: usize) {
        let (from, total) = (cursor.offset, self.packed_len());
        assert!(from <= total && len <= total - from, "packed bytes {from}+{len} of a buffer of {total}");
        cursor.offset += len;
        if len == 0 {
            return;
        }
        match &self.shape {
            Shape::Contiguous { .. } => {
                let sides = Sides::<PACK> { user: self.base.wrapping_add(from), packed };
                // SAFETY: the range was checked above; the rest is the promise of `new` and of the caller.
                unsafe { sides.bytes(len) }
            }
            Shape::Strided(layout) => {
                let sides = Sides::<PACK> { user: self.base, packed };
                let range = (from, from + len);
                // SAFETY: as above; the layout says which bytes belong to the range.
                unsafe { copy::elements(layout.program(), sides, layout.extent(), range, &mut cursor.place) }
            }
            // SAFETY: by the contract of this function.
            Shape::Device(shape) => unsafe { self.transfer_on_device::<PACK>(shape, from, packed, len) },
        }
    }

    /// As [`transfer`](Self::transfer), by the driver.
    ///
    /// # Safety
    /// As there.
    #[cold]
    unsafe fn transfer_on_device<const PACK: bool>(
        &self,
        shape: &DeviceShape,
        from: usize,
        packed: *mut u8,
        len: usize,
    ) {
        let device = &shape.device;
        let mut joiner = RowJoiner::new(|at: *mut u8, offset, rows: Rows| {
            let there = packed.wrapping_add(offset);
            // SAFETY: the rows are within the packed bytes, which are readable, and for `PACK` writable.
            let done = unsafe {
                match (PACK, rows.height) {
                    (true, 1) => device.memory.read(at, there, rows.width),
                    (false, 1) => device.memory.write(at, there, rows.width),
                    (true, _) => device.memory.read_rows(at, rows, there),
                    (false, _) => device.memory.write_rows(at, rows, there),
                }
            };
            if PACK && done.is_err() {
                // SAFETY: as above. What is sent in its place must not be what was in this memory before.
                unsafe { there.write_bytes(0, rows.width * rows.height) };
            }
            device.note(done);
        });
        self.blocks(from, len, |at, len| joiner.add(at, len));
        joiner.end();
        if !PACK && !shape.writes_behind {
            device.note(device.memory.settle());
        }
    }

    /// The same elements, whose data are in the memory of a device: nothing but `memory` reads or writes them from now on.
    ///
    pub fn on_device(self, memory: Box<dyn DeviceMemory>) -> UserBuf {
        let elements = match &self.shape {
            Shape::Contiguous { size } => Elements::Contiguous(*size),
            Shape::Strided(layout) => Elements::Strided(Arc::clone(layout)),
            Shape::Device(shape) => shape.elements.clone(),
        };
        let address = self.base.addr() as u64;
        let device = Arc::new(Device { memory, address, failure: AtomicI32::new(0) });
        let shape = Shape::Device(Box::new(DeviceShape { elements, device, writes_behind: false }));
        UserBuf { shape, ..self }
    }

    /// Whether the data are in the memory of a device, in one piece, and so long that an operation should read them while it goes on
    /// instead of before.
    pub fn is_read_ahead(&self) -> bool {
        match &self.shape {
            Shape::Device(shape) => {
                matches!(shape.elements, Elements::Contiguous(_)) && self.packed_len() > STAGED_MAX
            }
            Shape::Contiguous { .. } | Shape::Strided(_) => false,
        }
    }

    /// Whether the data are in the memory of a device.
    #[inline]
    pub fn is_on_device(&self) -> bool {
        matches!(self.shape, Shape::Device(_))
    }

    /// The same buffer, for an operation that calls [`settle`](Self::settle) when it has written all: until then the device need not have
    /// it.
    #[inline]
    pub fn writes_behind(mut self) -> UserBuf {
        if let Shape::Device(shape) = &mut self.shape {
            shape.writes_behind = true;
        }
        self
    }

    /// Waits until a device has all that was written, and says whether one of the copies so far has failed.
    ///
    /// # Errors
    /// The first failure.
    #[inline]
    pub fn settle(&self) -> Result<(), DeviceFault> {
        match &self.shape {
            Shape::Device(shape) => shape.device.settle(),
            Shape::Contiguous { .. } | Shape::Strided(_) => Ok(()),
        }
    }

    /// An operation begins: the program may have changed the data since they were last packed, and what failed before is over.
    #[inline]
    pub fn renew(&self) {
        if let Shape::Device(shape) = &self.shape {
            shape.device.failure.store(0, Ordering::Relaxed);
            self.refresh();
        }
    }

    /// A part of an operation begins: the program may have changed data since others of the same memory were packed. What has failed
    /// since [`renew`](Self::renew) still counts.
    #[inline]
    pub fn refresh(&self) {
        if let Shape::Device(shape) = &self.shape {
            shape.device.note(shape.device.memory.renew());
        }
    }

    /// Room in memory of this process for the same elements, with the same gaps; nothing is copied there. `None`: they are in such
    /// memory.
    ///
    /// # Errors
    /// There is no room.
    pub fn twin(&self) -> Result<Option<UserBuf>, ScratchError> {
        let Shape::Device(shape) = &self.shape else { return Ok(None) };
        match &shape.elements {
            Elements::Strided(layout) => Ok(Some(Scratch::new(self.count, layout)?.buf().clone())),
            Elements::Contiguous(size) => {
                let room = Scratch::bytes(self.packed_len())?.buf().clone();
                Ok(Some(UserBuf { count: self.count, shape: Shape::Contiguous { size: *size }, ..room }))
            }
        }
    }

    /// A copy of the data in memory of this process, packed. `None`: they are there.
    ///
    /// # Errors
    /// There is no such room, or the driver could not copy them.
    pub fn staged(&self) -> Option<Result<UserBuf, StagingError>> {
        if !self.is_on_device() {
            return None;
        }
        Some(self.copied_here())
    }

    #[cold]
    fn copied_here(&self) -> Result<UserBuf, StagingError> {
        let room = Scratch::bytes(self.packed_len()).map_err(StagingError::Room)?;
        room.buf().copy_from(0, self, 0, self.packed_len());
        self.settle().map_err(StagingError::Device)?;
        Ok(room.buf().clone())
    }

    /// Copies `len` packed bytes of `other` from `other_offset` on over those of this buffer from `offset` on. The two may
    /// have different layouts.
    ///
    /// # Panics
    /// If there are fewer in either, or this buffer is read-only.
    pub fn copy_from(&self, offset: usize, other: &UserBuf, other_offset: usize, len: usize) {
        let total = self.packed_len();
        assert!(
            offset <= total && len <= total - offset,
            "packed bytes {offset}+{len} of a buffer of {total}"
        );
        if len == 0 {
            return;
        }
        if let Some(mut to) = self.as_contiguous_mut() {
            other.pack(other_offset, to.slice(offset, len));
        } else if let Some(from) = other.as_contiguous() {
            self.unpack(offset, from.slice(other_offset, len));
        } else {
            if self.is_on_device() || other.is_on_device() {
                return self.copy_by_driver(offset, other, other_offset, len);
            }
            let mut bounce = [0u8; 8 << 10];
            let (mut read, mut write) = (Cursor::at(other_offset), Cursor::at(offset));
            let mut left = len;
            while left > 0 {
                let n = left.min(bounce.len());
                other.pack_next(&mut read, BytesMut::from(&mut bounce[..n]));
                self.unpack_next(&mut write, Bytes::from(&bounce[..n]));
                left -= n;
            }
        }
    }
}

impl From<DeviceFault> for StagingError {
    fn from(fault: DeviceFault) -> StagingError {
        StagingError::Device(fault)
    }
}

/// Why there is no copy of a device's data.
#[derive(Clone, Copy, Debug)]
pub enum StagingError {
    /// No memory.
    Room(ScratchError),
    /// The driver has failed.
    Device(DeviceFault),
}

impl Device {
    #[cold]
    fn settle(&self) -> Result<(), DeviceFault> {
        self.note(self.memory.settle());
        match self.failure.load(Ordering::Relaxed) {
            0 => Ok(()),
            code => Err(DeviceFault { address: self.address, code }),
        }
    }
}

impl UserBuf {
    /// As [`copy_from`](Self::copy_from), in parts for which a driver's call is worth its while.
    #[cold]
    fn copy_by_driver(&self, offset: usize, other: &UserBuf, other_offset: usize, len: usize) {
        let mut bounce = vec![0; len.min(STAGED_MAX)];
        for at in (0..len).step_by(STAGED_MAX) {
            let part = &mut bounce[..STAGED_MAX.min(len - at)];
            other.pack(other_offset + at, BytesMut::from(&mut *part));
            self.unpack(offset + at, Bytes::from(&*part));
        }
    }
}

/// The longest data of a device, bytes, that are copied whole before an operation that sends them begins.
pub const STAGED_MAX: usize = 512 << 10;

impl Layout {
    /// Packs the elements at `base`, so many as fill `to`: for a call that keeps no buffer.
    ///
    /// # Safety
    /// All data bytes of these elements are mapped and readable.
    #[inline]
    pub unsafe fn pack(&self, base: *const u8, mut to: BytesMut<'_>) {
        let len = to.len();
        // SAFETY: `to` is writable for its length; the rest is the contract of this function. The user's side is only read.
        unsafe { self.whole_elements::<true>(base.cast_mut(), to.as_mut_ptr(), len) }
    }

    /// Unpacks all of `from` to elements at `base`.
    ///
    /// # Safety
    /// All data bytes of these elements are mapped and writable.
    #[inline]
    pub unsafe fn unpack(&self, base: *mut u8, from: Bytes<'_>) {
        // SAFETY: `from` is readable for its length and only read; the rest is the contract of this function.
        unsafe { self.whole_elements::<false>(base, from.as_ptr().cast_mut(), from.len()) }
    }

    /// # Safety
    /// The data bytes of as many elements at `user` as have `len` are mapped, and `packed` for `len` bytes; the target is writable.
    #[inline]
    unsafe fn whole_elements<const PACK: bool>(&self, user: *mut u8, packed: *mut u8, len: usize) {
        if len == 0 {
            return;
        }
        let sides = Sides::<PACK> { user, packed };
        // SAFETY: by the contract of this function.
        unsafe {
            if self.is_contiguous() {
                sides.bytes(len);
            } else {
                copy::elements(self.program(), sides, self.extent(), (0, len), &mut Place::default());
            }
        }
    }
}
