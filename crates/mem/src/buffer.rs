//! A user's buffer: an address, a count and a layout.
//!
//! The other crates see its *packed* bytes, numbered from 0 to [`packed_len`](UserBuf::packed_len):
//! all elements in type-map order, without gaps. Any range can be packed or unpacked, in any order;
//! a [`Cursor`] makes sequential access cheap for types of many blocks.

use crate::copy::{self, ResumePoint, Sides};
use crate::device::{DeviceFault, DeviceMemory, RowJoiner, Rows};
use crate::layout::{Layout, LayoutError};
use crate::memory::{Lease, Scratch, ScratchError};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The memory of `count` elements. Clones are cheap and name the same memory. Methods that write
/// take `&self`: like [`Bytes`], the value promises only that the memory is mapped.
#[derive(Clone, Debug)]
pub struct UserBuf {
    base: *mut u8,
    count: usize,
    shape: BufferShape,
    read_only: bool,
    lease: Option<Arc<Lease>>,
}

#[derive(Clone, Debug)]
enum BufferShape {
    Contiguous { size: usize },
    Strided(Arc<Layout>),
    Device(Box<DeviceShape>),
}

#[derive(Clone, Debug)]
struct DeviceShape {
    elements: DeviceElements,
    device: Arc<Device>,
    /// Whether writes may be incomplete until [`UserBuf::settle`].
    writes_behind: bool,
}

#[derive(Clone, Debug)]
enum DeviceElements {
    Contiguous(usize),
    Strided(Arc<Layout>),
}

#[derive(Debug)]
struct Device {
    memory: Box<dyn DeviceMemory>,
    address: u64,
    /// The driver's number of the first failure; 0 without failure.
    failure: AtomicI32,
}

impl Device {
    fn note(&self, result: Result<(), i32>) {
        if let Err(code) = result {
            // Relaxed: other means order the completion of the operation after all copies.
            let _ = self.failure.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl DeviceShape {
    fn with_elements(&self, elements: DeviceElements) -> BufferShape {
        BufferShape::Device(Box::new(DeviceShape { elements, ..self.clone() }))
    }
}

/// Contiguous memory of a user, as most buffers are: a plain value without a reference count. Like
/// [`UserBuf`], it promises only that the memory is mapped.
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
    pub const EMPTY: PlainBuf = PlainBuf { start: std::ptr::null_mut(), len: 0 };

    /// `len` bytes at `start`.
    ///
    /// # Safety
    /// As for [`UserBuf::new`]: the bytes stay mapped, readable and, if they are received into,
    /// writable as long as this value or a copy is used.
    #[inline(always)]
    pub const unsafe fn new(start: *mut u8, len: usize) -> PlainBuf {
        PlainBuf { start, len }
    }

    /// `len` zeros that are never freed.
    pub fn leaked(len: usize) -> PlainBuf {
        let bytes = Vec::leak(vec![0u8; len]);
        PlainBuf { start: bytes.as_mut_ptr(), len }
    }

    /// The address of the first byte.
    #[inline(always)]
    pub const fn start(&self) -> *mut u8 {
        self.start
    }

    /// The number of bytes.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
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

// SAFETY: a UserBuf is an address and facts about it. Its maker has promised that the memory is
// mapped while any clone lives, on every thread. Accesses are plain copies. If the program writes
// the same bytes meanwhile, that is an error of the program, and no code relies on the copied
// value.
unsafe impl Send for UserBuf {}
// SAFETY: as for Send; a shared UserBuf can do nothing that a sent clone cannot.
unsafe impl Sync for UserBuf {}

/// A position in the packed bytes, with the next block. In another buffer it is valid but slower.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    offset: usize,
    place: ResumePoint,
}

impl Cursor {
    /// The position of packed byte `offset`.
    pub fn at(offset: usize) -> Cursor {
        Cursor { offset, place: ResumePoint::default() }
    }

    /// The number of the next packed byte.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl UserBuf {
    /// `count` elements of `layout`, the first at `base`, which may be null with absolute
    /// displacements (`MPI_BOTTOM`). Panics if the packed size exceeds `isize::MAX`, which only
    /// overlapping elements can reach.
    ///
    /// # Safety
    /// All data bytes of these elements are mapped, readable and, if the buffer is received into,
    /// writable, as long as this value, a clone, a part or a [`PlainBuf`] of it exists. Meanwhile
    /// no Rust reference to them is used, except shared ones if the buffer is only read.
    #[inline]
    pub unsafe fn new(base: *mut u8, count: usize, layout: &Arc<Layout>) -> UserBuf {
        let fits = count.checked_mul(layout.size()).is_some_and(|n| isize::try_from(n).is_ok());
        assert!(fits, "{count} elements of {} bytes exceed the address space", layout.size());
        let shape = if layout.is_contiguous() {
            BufferShape::Contiguous { size: layout.size() }
        } else {
            BufferShape::Strided(Arc::clone(layout))
        };
        UserBuf { base, count, shape, read_only: false, lease: None }
    }

    /// `len` bytes at `base`, as elements of one byte.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    #[inline]
    pub unsafe fn contiguous(base: *mut u8, len: usize) -> UserBuf {
        UserBuf {
            base,
            count: len,
            shape: BufferShape::Contiguous { size: 1 },
            read_only: false,
            lease: None,
        }
    }

    /// `count` elements of `size` bytes without gaps. Safety: as for [`new`](Self::new).
    #[inline]
    pub(crate) unsafe fn of_size(base: *mut u8, count: usize, size: usize) -> UserBuf {
        UserBuf {
            base,
            count,
            shape: BufferShape::Contiguous { size },
            read_only: false,
            lease: None,
        }
    }

    /// No elements.
    #[inline]
    pub const fn empty() -> UserBuf {
        UserBuf {
            base: std::ptr::null_mut(),
            count: 0,
            shape: BufferShape::Contiguous { size: 1 },
            read_only: false,
            lease: None,
        }
    }

    /// The buffer, which also keeps `lease` alive.
    pub fn with_lease(self, lease: Arc<Lease>) -> UserBuf {
        UserBuf { lease: Some(lease), ..self }
    }

    /// The buffer; writes to it panic.
    pub fn read_only(self) -> UserBuf {
        UserBuf { read_only: true, ..self }
    }

    /// The address of element 0, as the user gave it.
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
            BufferShape::Contiguous { size } => *size,
            BufferShape::Strided(layout) => layout.size(),
            BufferShape::Device(shape) => match &shape.elements {
                DeviceElements::Contiguous(size) => *size,
                DeviceElements::Strided(layout) => layout.size(),
            },
        }
    }

    /// Bytes from one element to the next.
    #[inline]
    pub fn extent(&self) -> isize {
        match &self.shape {
            BufferShape::Contiguous { size } => size.cast_signed(),
            BufferShape::Strided(layout) => layout.extent(),
            BufferShape::Device(shape) => match &shape.elements {
                DeviceElements::Contiguous(size) => size.cast_signed(),
                DeviceElements::Strided(layout) => layout.extent(),
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

    /// Elements `start..start + len`. Panics if there are fewer.
    pub fn elements(&self, start: usize, len: usize) -> UserBuf {
        assert!(
            start <= self.count && len <= self.count - start,
            "elements {start}+{len} of a buffer of {}",
            self.count
        );
        let base = self.base.wrapping_offset(self.extent().wrapping_mul(start.cast_signed()));
        UserBuf { base, count: len, ..self.clone() }
    }

    /// Packed bytes `start..start + len` as a buffer, if they are contiguous or whole elements.
    pub fn packed_range(&self, start: usize, len: usize) -> Option<UserBuf> {
        let all = self.packed_len();
        assert!(start <= all && len <= all - start, "packed bytes {start}+{len} of {all}");
        if start == 0 && len == all {
            return Some(self.clone());
        }
        if let Some(first) = if len == 0 { Some(self.base) } else { self.one_piece() } {
            let base = first.wrapping_add(if len == 0 { 0 } else { start });
            return Some(UserBuf {
                base,
                count: len,
                shape: BufferShape::Contiguous { size: 1 },
                ..self.clone()
            });
        }
        if let BufferShape::Device(device) = &self.shape
            && let DeviceElements::Contiguous(_) = device.elements
        {
            let shape = device.with_elements(DeviceElements::Contiguous(1));
            return Some(UserBuf {
                base: self.base.wrapping_add(start),
                count: len,
                shape,
                ..self.clone()
            });
        }
        let size = self.element_size();
        (start.is_multiple_of(size) && len.is_multiple_of(size))
            .then(|| self.elements(start / size, len / size))
    }

    /// The memory as `count` elements of `layout`. Fails if their data exceed this buffer, which
    /// must be contiguous.
    pub fn cast(&self, count: usize, layout: &Arc<Layout>) -> Result<UserBuf, LayoutError> {
        let outside = LayoutError::Overflow { what: "place in the buffer" };
        let (from, to) = layout.span(count)?;
        let len = layout.packed_len(count)?;
        let BufferShape::Contiguous { .. } = self.shape else { return Err(outside) };
        if len > 0 && (from < 0 || to > self.packed_len().cast_signed()) {
            return Err(outside);
        }
        // SAFETY: the data lie within the bytes of this buffer, whose promise and lease carry over.
        let cast = unsafe { UserBuf::new(self.base, count, layout) };
        Ok(UserBuf { read_only: self.read_only, lease: self.lease.clone(), ..cast })
    }

    #[inline]
    fn one_piece(&self) -> Option<*mut u8> {
        match &self.shape {
            BufferShape::Contiguous { .. } => Some(self.base),
            BufferShape::Strided(layout) => {
                let start = layout.single_block()?;
                let touching = self.count == 1 || layout.extent() == layout.size().cast_signed();
                touching.then(|| self.base.wrapping_offset(start))
            }
            BufferShape::Device(_) => None,
        }
    }

    /// The packed bytes in place, if they are contiguous.
    #[inline]
    pub fn as_contiguous(&self) -> Option<Bytes<'_>> {
        if self.is_empty() {
            return Some(Bytes::empty());
        }
        let start = self.one_piece()?;
        // SAFETY: these are the data bytes, mapped while `self` lives by the promise of `new`.
        Some(unsafe { Bytes::from_raw(start, self.packed_len()) })
    }

    /// The packed bytes in place, writable, if contiguous. Panics if the buffer is read-only.
    #[inline]
    pub fn as_contiguous_mut(&self) -> Option<BytesMut<'_>> {
        self.assert_writable();
        let start = if self.is_empty() { std::ptr::null_mut() } else { self.one_piece()? };
        // SAFETY: the data bytes, mapped by the promise of `new`, and not read-only.
        Some(unsafe { BytesMut::from_raw(start, self.packed_len()) })
    }

    /// The memory as a plain value, if it is contiguous, writable and without a lease.
    #[inline]
    pub fn as_plain(&self) -> Option<PlainBuf> {
        if self.read_only || self.lease.is_some() {
            return None;
        }
        let start = if self.is_empty() { std::ptr::null_mut() } else { self.one_piece()? };
        Some(PlainBuf { start, len: self.packed_len() })
    }

    /// Calls `f` with address and length of each block of packed bytes `from..from + len`.
    pub(crate) fn blocks(&self, from: usize, len: usize, mut f: impl FnMut(*mut u8, usize)) {
        let total = self.packed_len();
        assert!(
            from <= total && len <= total - from,
            "packed bytes {from}+{len} of a buffer of {total}"
        );
        let layout = match &self.shape {
            BufferShape::Contiguous { .. } => None,
            BufferShape::Strided(layout) => Some(layout),
            BufferShape::Device(shape) => match &shape.elements {
                DeviceElements::Contiguous(_) => None,
                DeviceElements::Strided(layout) => Some(layout),
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

    /// The addresses of the first blocks of data, at most `most`.
    pub fn data_blocks(&self, most: usize) -> Vec<std::ops::Range<usize>> {
        let mut found = Vec::new();
        // One byte suffices to find the first block; contiguous data are one block.
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

    /// Whether the elements are structs of `extent` bytes with data in exactly these blocks.
    pub(crate) fn is_array_of(&self, blocks: &[(isize, usize)], extent: usize) -> bool {
        match &self.shape {
            BufferShape::Contiguous { .. } | BufferShape::Device(_) => false,
            BufferShape::Strided(l) => l.extent() == extent.cast_signed() && l.has_blocks(blocks),
        }
    }

    #[inline]
    pub(crate) fn assert_writable(&self) {
        assert!(!self.read_only, "a buffer lent for reading is written");
    }

    /// Copies packed bytes from `offset` on to all of `to`. Panics if there are fewer.
    #[inline]
    pub fn pack(&self, offset: usize, to: BytesMut<'_>) {
        self.pack_next(&mut Cursor::at(offset), to);
    }

    /// Copies `from` to the packed bytes from `offset` on. Panics without room, or if read-only.
    #[inline]
    pub fn unpack(&self, offset: usize, from: Bytes<'_>) {
        self.unpack_next(&mut Cursor::at(offset), from);
    }

    /// [`pack`](Self::pack) from the cursor on; advances the cursor.
    #[inline]
    pub fn pack_next(&self, cursor: &mut Cursor, mut to: BytesMut<'_>) {
        let len = to.len();
        // SAFETY: `to` is writable for its length.
        unsafe { self.transfer::<true>(cursor, to.as_mut_ptr(), len) }
    }

    /// [`unpack`](Self::unpack) from the cursor on; advances the cursor.
    #[inline]
    pub fn unpack_next(&self, cursor: &mut Cursor, from: Bytes<'_>) {
        self.assert_writable();
        // SAFETY: `from` is readable for its length; unpacking does not write to it.
        unsafe { self.transfer::<false>(cursor, from.as_ptr().cast_mut(), from.len()) }
    }

    /// Safety: `packed` has `len` bytes, writable for `PACK`; otherwise the buffer is writable.
    #[inline]
    unsafe fn transfer<const PACK: bool>(&self, cursor: &mut Cursor, packed: *mut u8, len: usize) {
        let (from, total) = (cursor.offset, self.packed_len());
        assert!(
            from <= total && len <= total - from,
            "packed bytes {from}+{len} of a buffer of {total}"
        );
        cursor.offset += len;
        if len == 0 {
            return;
        }
        match &self.shape {
            BufferShape::Contiguous { .. } => {
                let sides = Sides::<PACK> { user: self.base.wrapping_add(from), packed };
                // SAFETY: the range was checked; the rest is the promise of `new` and the caller.
                unsafe { sides.bytes(len) }
            }
            BufferShape::Strided(layout) => {
                let sides = Sides::<PACK> { user: self.base, packed };
                let range = (from, from + len);
                // SAFETY: as above; the layout says which bytes belong to the range.
                unsafe {
                    copy::elements(
                        layout.program(),
                        sides,
                        layout.extent(),
                        range,
                        &mut cursor.place,
                    )
                }
            }
            // SAFETY: by the contract of this function.
            BufferShape::Device(shape) => unsafe {
                self.transfer_on_device::<PACK>(shape, from, packed, len)
            },
        }
    }

    /// [`transfer`](Self::transfer) by the driver. Safety: as for [`transfer`](Self::transfer).
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
            // SAFETY: the rows are in the packed bytes, readable, and for `PACK` writable.
            let done = unsafe {
                match (PACK, rows.height) {
                    (true, 1) => device.memory.read(at, there, rows.width),
                    (false, 1) => device.memory.write(at, there, rows.width),
                    (true, _) => device.memory.read_rows(at, rows, there),
                    (false, _) => device.memory.write_rows(at, rows, there),
                }
            };
            if PACK && done.is_err() {
                // SAFETY: as above. Without zeros, old content of this memory could be sent.
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

    /// The elements in the memory of a device, which only `memory` reads and writes.
    pub fn on_device(self, memory: Box<dyn DeviceMemory>) -> UserBuf {
        let elements = match &self.shape {
            BufferShape::Contiguous { size } => DeviceElements::Contiguous(*size),
            BufferShape::Strided(layout) => DeviceElements::Strided(Arc::clone(layout)),
            BufferShape::Device(shape) => shape.elements.clone(),
        };
        let address = self.base.addr() as u64;
        let device = Arc::new(Device { memory, address, failure: AtomicI32::new(0) });
        let shape =
            BufferShape::Device(Box::new(DeviceShape { elements, device, writes_behind: false }));
        UserBuf { shape, ..self }
    }

    /// Whether the data are contiguous in a device and longer than [`STAGED_MAX`], so that an
    /// operation reads them in parts while it runs.
    pub fn is_read_ahead(&self) -> bool {
        match &self.shape {
            BufferShape::Device(shape) => {
                matches!(shape.elements, DeviceElements::Contiguous(_))
                    && self.packed_len() > STAGED_MAX
            }
            BufferShape::Contiguous { .. } | BufferShape::Strided(_) => false,
        }
    }

    /// Whether the data are in the memory of a device.
    #[inline]
    pub fn is_on_device(&self) -> bool {
        matches!(self.shape, BufferShape::Device(_))
    }

    /// Lets a device delay writes until [`settle`](Self::settle), which the operation must call.
    #[inline]
    pub fn writes_behind(mut self) -> UserBuf {
        if let BufferShape::Device(shape) = &mut self.shape {
            shape.writes_behind = true;
        }
        self
    }

    /// Waits until a device has all written data. Fails with the first failure of a copy.
    #[inline]
    pub fn settle(&self) -> Result<(), DeviceFault> {
        match &self.shape {
            BufferShape::Device(shape) => shape.device.settle(),
            BufferShape::Contiguous { .. } | BufferShape::Strided(_) => Ok(()),
        }
    }

    /// Discards data read ahead and earlier failures, before a new operation.
    #[inline]
    pub fn renew(&self) {
        if let BufferShape::Device(shape) = &self.shape {
            shape.device.failure.store(0, Ordering::Relaxed);
            self.refresh();
        }
    }

    /// [`renew`](Self::renew) for a further part of an operation: keeps failures.
    #[inline]
    pub fn refresh(&self) {
        if let BufferShape::Device(shape) = &self.shape {
            shape.device.note(shape.device.memory.renew());
        }
    }

    /// Memory of this process for the elements of a device buffer, with the same gaps.
    pub fn twin(&self) -> Result<Option<UserBuf>, ScratchError> {
        let BufferShape::Device(shape) = &self.shape else { return Ok(None) };
        match &shape.elements {
            DeviceElements::Strided(layout) => {
                Ok(Some(Scratch::new(self.count, layout)?.buf().clone()))
            }
            DeviceElements::Contiguous(size) => {
                let room = Scratch::bytes(self.packed_len())?.buf().clone();
                Ok(Some(UserBuf {
                    count: self.count,
                    shape: BufferShape::Contiguous { size: *size },
                    ..room
                }))
            }
        }
    }

    /// A packed copy of the data in memory of this process. `None`: they are there already.
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

    /// Copies `len` packed bytes of `other` from `other_offset` on to this buffer at `offset`.
    /// Panics without these bytes, or if this buffer is read-only.
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

/// The reason why the data of a device could not be copied to memory of this process.
#[derive(Clone, Copy, Debug)]
pub enum StagingError {
    Room(ScratchError),
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
    /// [`copy_from`](Self::copy_from), in parts that are long enough for a call of the driver.
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

/// The longest data of a device, in bytes, that are copied as a whole before they are sent.
pub const STAGED_MAX: usize = 512 << 10;

impl Layout {
    /// Packs the elements at `base` until `to` is full, for a call that keeps no buffer.
    ///
    /// # Safety
    /// All data bytes of these elements are mapped and readable.
    #[inline]
    pub unsafe fn pack(&self, base: *const u8, mut to: BytesMut<'_>) {
        let len = to.len();
        // SAFETY: `to` is writable for its length; the rest is the contract of this function.
        unsafe { self.whole_elements::<true>(base.cast_mut(), to.as_mut_ptr(), len) }
    }

    /// Unpacks all of `from` to elements at `base`, for a call that keeps no buffer.
    ///
    /// # Safety
    /// All data bytes of these elements are mapped and writable.
    #[inline]
    pub unsafe fn unpack(&self, base: *mut u8, from: Bytes<'_>) {
        // SAFETY: `from` is readable for its length and only read; else by the contract.
        unsafe { self.whole_elements::<false>(base, from.as_ptr().cast_mut(), from.len()) }
    }

    /// Safety: the data of the elements and `len` packed bytes are mapped; the target is writable.
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
                copy::elements(
                    self.program(),
                    sides,
                    self.extent(),
                    (0, len),
                    &mut ResumePoint::default(),
                );
            }
        }
    }
}
