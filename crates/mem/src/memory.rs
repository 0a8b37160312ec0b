//! Memory that comes from safe Rust.
//!
//! - [`lend`], [`lend_mut`] (for slices), [`lend_buffer`] and [`lend_buffer_mut`] (for any
//!   [`Buffer`]) lend to an operation that ends before they return; [`lend_many`] lends any number
//!   of buffers to operations that all end before it returns.
//! - [`zeros`] is a vector to receive into.
//! - [`Owned`] is a vector moved in for longer operations. The caller gets the vector back when no
//!   buffer uses it.
//! - [`Scratch`] is room for elements of a layout.

use crate::buffer::UserBuf;
pub use crate::element::{Element, Plain};
use crate::layout::{Layout, LayoutError};
use crate::regions::elements_at;
pub use crate::regions::{Buffer, BufferMut};
use oxmpi_sys::bytes::Bytes;
use std::alloc;
use std::any::Any;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// Keeps the memory of a [`UserBuf`] alive, or shows that it is still in use.
#[derive(Debug)]
pub struct Lease {
    _content: LeaseContent,
}

enum LeaseContent {
    Lent,
    Block { _block: ZeroedBlock },
    Value { _value: Box<dyn Any + Send + Sync> },
}

impl std::fmt::Debug for LeaseContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LeaseContent::Lent => "lent",
            LeaseContent::Block { .. } => "memory",
            LeaseContent::Value { .. } => "value",
        })
    }
}

impl Lease {
    /// Keeps `value` until the last [`UserBuf`] with this lease is dropped.
    pub fn keep(value: impl Any + Send + Sync) -> Arc<Lease> {
        Arc::new(Lease { _content: LeaseContent::Value { _value: Box::new(value) } })
    }
}

/// The bytes of `slice`, for calls that keep no buffer: [`lend`] without a lease.
#[inline]
pub fn view<T: Plain>(slice: &[T]) -> Bytes<'_> {
    // SAFETY: the slice is borrowed as long as the view, and plain values are initialised bytes.
    unsafe { Bytes::from_raw(slice.as_ptr().cast(), size_of_val(slice)) }
}

/// Calls `f` with the data of a buffer if they are contiguous, as [`view`].
#[inline]
pub fn view_of<B: Buffer + ?Sized, R>(buffer: &B, f: impl FnOnce(Bytes<'_>) -> R) -> Option<R> {
    // SAFETY: the buffer is borrowed until this function returns, and its value dropped before.
    let buffer = unsafe { buffer.buffer() };
    buffer.as_contiguous().map(f)
}

/// Lends `slice` for reading while `f` runs. Aborts if a clone of the buffer outlives `f`.
pub fn lend<T: Element, R>(slice: &[T], f: impl FnOnce(UserBuf) -> R) -> R {
    lend_buffer(slice, f)
}

/// [`lend`] for reading and writing.
pub fn lend_mut<T: Element, R>(slice: &mut [T], f: impl FnOnce(UserBuf) -> R) -> R {
    lend_buffer_mut(slice, f)
}

/// [`lend`] for any buffer.
pub fn lend_buffer<B: Buffer + ?Sized, R>(buffer: &B, f: impl FnOnce(UserBuf) -> R) -> R {
    let closing = Closing::new();
    // SAFETY: `closing` checks before the end of the borrow that no clone is left; it is read-only.
    let buf = unsafe { buffer.buffer() }.read_only();
    f(buf.with_lease(Arc::clone(&closing.0)))
}

/// [`lend_mut`] for any buffer.
pub fn lend_buffer_mut<B: BufferMut + ?Sized, R>(
    buffer: &mut B,
    f: impl FnOnce(UserBuf) -> R,
) -> R {
    let closing = Closing::new();
    // SAFETY: `closing` checks before the end of the borrow that no clone is left.
    let buf = unsafe { buffer.buffer_mut() };
    f(buf.with_lease(Arc::clone(&closing.0)))
}

/// Aborts the process if the lease is in use when this value is dropped, also in a panic.
struct Closing(Arc<Lease>);

impl Closing {
    fn new() -> Closing {
        Closing(Arc::new(Lease { _content: LeaseContent::Lent }))
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if Arc::get_mut(&mut self.0).is_none() {
            eprintln!(
                "oxmpi: a buffer lent for one call is still in use after it (an operation was started and not \
                 completed); its memory is about to be reused, so the process ends here"
            );
            std::process::abort();
        }
    }
}

/// Lends buffers within [`lend_many`]. As with `std::thread::Scope`, lent memory outlives `'scope`,
/// which contains the whole call.
#[derive(Debug)]
pub struct Lender<'scope, 'env: 'scope> {
    lease: Arc<Lease>,
    /// Invariant: with a shorter `'scope` a slice could end before the check.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> Lender<'scope, '_> {
    /// Lends `buffer` for reading.
    pub fn lend<B: Buffer + ?Sized>(&self, buffer: &'scope B) -> UserBuf {
        // SAFETY: `lend_many` checks before the end of `'scope` that no buffer is left; until then
        // the memory is borrowed, and the buffer is read-only.
        let buf = unsafe { buffer.buffer() };
        buf.read_only().with_lease(Arc::clone(&self.lease))
    }

    /// Lends `buffer` for reading and writing.
    pub fn lend_mut<B: BufferMut + ?Sized>(&self, buffer: &'scope mut B) -> UserBuf {
        // SAFETY: as in `lend`; it is borrowed exclusively.
        let buf = unsafe { buffer.buffer_mut() };
        buf.with_lease(Arc::clone(&self.lease))
    }
}

/// Lends any number of slices while `f` runs.
pub fn lend_many<'env, R>(f: impl for<'scope> FnOnce(&'scope Lender<'scope, 'env>) -> R) -> R {
    let closing = Closing::new();
    let lender = Lender { lease: Arc::clone(&closing.0), scope: PhantomData, env: PhantomData };
    // `lender` holds the lease too, and is dropped before the check: locals drop in reverse order.
    f(&lender)
}

/// A vector of `len` zeros. Fails without memory, where `vec![0; len]` would abort.
pub fn zeros<T: Element>(len: usize) -> Result<Vec<T>, ScratchError> {
    let no_memory = ScratchError::NoMemory { bytes: len.saturating_mul(size_of::<T>()) };
    let layout = alloc::Layout::array::<T>(len).map_err(|_| no_memory)?;
    if layout.size() == 0 {
        // SAFETY: without bytes nothing is allocated, and values exist at any aligned address.
        return Ok(unsafe { Vec::from_raw_parts(NonNull::dangling().as_ptr(), len, len) });
    }
    // SAFETY: the size is not zero.
    let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or(no_memory)?;
    // SAFETY: just allocated for `len` values, and zero bytes are a valid T (any data bytes are).
    Ok(unsafe { Vec::from_raw_parts(start.cast::<T>().as_ptr(), len, len) })
}

struct ZeroedBlock {
    start: NonNull<u8>,
    /// The unaligned address of the allocator, and the layout of the request.
    given: NonNull<u8>,
    layout: alloc::Layout,
}

// SAFETY: the block owns its memory and gives access only through UserBufs (see there).
unsafe impl Send for ZeroedBlock {}
// SAFETY: as for Send.
unsafe impl Sync for ZeroedBlock {}

impl Drop for ZeroedBlock {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: allocated with this layout by the global allocator, and freed only here.
            unsafe { alloc::dealloc(self.given.as_ptr(), self.layout) }
        }
    }
}

/// A vector whose memory buffers may use at any time.
pub struct Owned<T: Element> {
    start: NonNull<T>,
    len: usize,
    capacity: usize,
    lease: Arc<Lease>,
}

// SAFETY: the vector is owned and its elements are Send and Sync; access is by UserBufs or `&mut`.
unsafe impl<T: Element> Send for Owned<T> {}
// SAFETY: as for Send.
unsafe impl<T: Element> Sync for Owned<T> {}

impl<T: Element> std::fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owned").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T: Element> Owned<T> {
    /// Takes the memory of `vec` without a copy.
    pub fn new(vec: Vec<T>) -> Owned<T> {
        let mut vec = ManuallyDrop::new(vec);
        let (len, capacity) = (vec.len(), vec.capacity());
        let start = NonNull::new(vec.as_mut_ptr()).unwrap_or(NonNull::dangling());
        // SAFETY: the vector has allocated just this, so it is a valid layout.
        let layout = unsafe {
            alloc::Layout::from_size_align_unchecked(capacity * size_of::<T>(), align_of::<T>())
        };
        let block = ZeroedBlock { start: start.cast(), given: start.cast(), layout };
        Owned {
            start,
            len,
            capacity,
            lease: Arc::new(Lease { _content: LeaseContent::Block { _block: block } }),
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A buffer of all values, which keeps the memory alive even after this value is dropped.
    pub fn buf(&self) -> UserBuf {
        // SAFETY: the lease keeps the memory; no reference to it exists while a lease is shared.
        let buf = unsafe { elements_at(self.start.as_ptr(), self.len) };
        buf.with_lease(Arc::clone(&self.lease))
    }

    /// The values, if no buffer is in use.
    pub fn as_slice(&mut self) -> Option<&mut [T]> {
        Arc::get_mut(&mut self.lease)?;
        // SAFETY: no buffer holds the lease, and `&mut self` prevents new ones meanwhile.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) })
    }

    /// The vector. Fails with this value while a buffer is in use.
    pub fn into_vec(mut self) -> Result<Vec<T>, Owned<T>> {
        if Arc::get_mut(&mut self.lease).is_none() {
            return Err(self);
        }
        let Owned { start, len, capacity, lease } = self;
        if let Some(Lease { _content: LeaseContent::Block { _block } }) = Arc::into_inner(lease) {
            std::mem::forget(_block);
        }
        // SAFETY: the parts of the vector given to `new`, unused; its block is forgotten.
        Ok(unsafe { Vec::from_raw_parts(start.as_ptr(), len, capacity) })
    }
}

/// Room for elements of a layout, zeroed and aligned to a cache line.
#[derive(Clone, Debug)]
pub struct Scratch {
    buf: UserBuf,
}

/// A cache line: enough for every basic type.
const SCRATCH_ALIGN: usize = 64;

/// The reason why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScratchError {
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("no memory for {bytes} bytes of temporary space")]
    NoMemory { bytes: usize },
}

impl Scratch {
    /// Room for `count` elements with the gaps between and inside them, as in the user's memory.
    pub fn new(count: usize, layout: &Arc<Layout>) -> Result<Scratch, ScratchError> {
        let (from, to) = layout.span(count)?;
        layout.packed_len(count)?;
        let bytes =
            to.checked_sub(from).ok_or(LayoutError::Overflow { what: "extent" })?.cast_unsigned();
        let block = ZeroedBlock::zeroed(bytes)?;
        let base = block.start.as_ptr().wrapping_offset(from.wrapping_neg());
        // SAFETY: all data lie in `from..to` of the base, which is the block that the lease keeps.
        let buf = unsafe { UserBuf::new(base, count, layout) };
        Ok(Scratch {
            buf: buf
                .with_lease(Arc::new(Lease { _content: LeaseContent::Block { _block: block } })),
        })
    }

    /// Room for `len` bytes.
    pub fn bytes(len: usize) -> Result<Scratch, ScratchError> {
        let block = ZeroedBlock::zeroed(len)?;
        // SAFETY: the block has `len` bytes, and the lease keeps it.
        let buf = unsafe { UserBuf::contiguous(block.start.as_ptr(), len) };
        Ok(Scratch {
            buf: buf
                .with_lease(Arc::new(Lease { _content: LeaseContent::Block { _block: block } })),
        })
    }

    /// The room as a buffer, whose clones keep the room alive even after this value is dropped.
    pub fn buf(&self) -> &UserBuf {
        &self.buf
    }
}

impl ZeroedBlock {
    fn zeroed(bytes: usize) -> Result<ZeroedBlock, ScratchError> {
        let no_memory = ScratchError::NoMemory { bytes };
        let room =
            if bytes == 0 { 0 } else { bytes.checked_add(SCRATCH_ALIGN).ok_or(no_memory)? };
        // A greater alignment would make the allocator write to every page.
        let layout = alloc::Layout::from_size_align(room, 8).map_err(|_| no_memory)?;
        if bytes == 0 {
            let nowhere = NonNull::dangling();
            return Ok(ZeroedBlock { start: nowhere, given: nowhere, layout });
        }
        // SAFETY: the size is not zero.
        let given = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or(no_memory)?;
        // SAFETY: fewer than SCRATCH_ALIGN bytes are skipped, which the request has in addition.
        let start = unsafe { given.add(given.align_offset(SCRATCH_ALIGN)) };
        Ok(ZeroedBlock { start, given, layout })
    }
}
