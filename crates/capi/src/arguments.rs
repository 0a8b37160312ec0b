//! The arguments of a call: checks, and places of results. The C face uses them; each body gets
//! checked values.

pub(crate) mod strings;

use crate::state::library::{Running, check_count, library};
use crate::state::named::named;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count, Datatype, Info, Request, Status};
use oxmpi_engine::{Completion, Received};
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_objects::datatype::Datatype as DatatypeObject;
use oxmpi_objects::datatype::ShortList;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::predefined::plain_size;
use oxmpi_objects::topology::check_index;
use std::ffi::{c_int, c_void};
use std::fmt::Display;

/// The names of the arguments of a buffer.
pub(crate) struct BufferNames {
    pub(crate) address: &'static str,
    pub(crate) count: &'static str,
    pub(crate) datatype: &'static str,
}

/// The arguments of a buffer, unchecked.
#[derive(Clone, Copy)]
pub(crate) struct BufferArgs {
    pub(crate) address: *const c_void,
    pub(crate) count: i64,
    pub(crate) datatype: Datatype,
    pub(crate) names: &'static BufferNames,
}

impl BufferArgs {
    #[inline(always)]
    pub(crate) fn is_in_place(&self) -> bool {
        self.address as usize == abi::MPI_IN_PLACE
    }

    /// See [`plain`].
    #[inline(always)]
    pub(crate) fn plain(&self) -> Option<PlainBuf> {
        plain(self.address, self.count, self.datatype)
    }

    pub(crate) fn buffer(&self, library: &Running) -> Result<UserBuf> {
        let buffer = library.buffer(self.address, self.count, self.datatype);
        buffer.map_err(|error| self.explain(error))
    }

    /// Checks the elements without making a buffer of them, and returns their packed bytes.
    pub(crate) fn check(&self, library: &Running, datatype: &DatatypeObject) -> Result<usize> {
        let checked = library
            .check_address(self.address)
            .and_then(|()| library.check_elements(self.address, self.count, datatype));
        checked.map(|(_, bytes)| bytes).map_err(|error| self.explain(error))
    }

    /// The error with the name of the argument, which follows from its class.
    #[cold]
    fn explain(&self, error: MpiError) -> MpiError {
        let names = self.names;
        match (error.class(), error.detail().strip_prefix("count")) {
            (class, Some(rest)) => MpiError::new(class, format!("{}{rest}", names.count)),
            (abi::MPI_ERR_TYPE, _) => named(&error, names.datatype),
            (abi::MPI_ERR_BUFFER, _) => named(&error, names.address),
            _ => error,
        }
    }

    /// The memory of `blocks` consecutive buffers like this one.
    pub(crate) fn blocks(&self, library: &Running, blocks: i32) -> Result<UserBuf> {
        check_count(self.count).map_err(|error| self.explain(error))?;
        let Some(count) = self.count.checked_mul(i64::from(blocks)) else {
            let text = format!(
                "{} is {}: {blocks} blocks of this count have too many elements",
                self.names.count, self.count
            );
            return Err(MpiError::new(abi::MPI_ERR_COUNT, text));
        };
        BufferArgs { count, ..*self }.buffer(library)
    }
}

/// The form of a collective.
#[derive(Clone, Copy)]
pub(crate) enum CallForm {
    Blocking,
    Nonblocking(*mut Request),
    Persistent(Info, *mut Request),
}

/// A number of entries.
#[inline]
pub(crate) fn number(number: c_int, argument: &str) -> Result<usize> {
    length(number, argument, abi::MPI_ERR_ARG)
}

/// The number of entries of an array, or of elements.
#[inline]
pub(crate) fn length(number: impl Into<i64>, argument: &str, class: c_int) -> Result<usize> {
    let number = number.into();
    usize::try_from(number).map_err(|_| negative(number, argument, class))
}

#[cold]
fn negative(number: i64, argument: &str, class: c_int) -> MpiError {
    MpiError::new(class, format!("{argument} is {number}; it must not be negative"))
}

/// Checks the place of a result before the call does anything.
#[inline]
pub(crate) fn present<T>(place: *const T, argument: &str) -> Result<()> {
    if place.is_null() { Err(null(argument)) } else { Ok(()) }
}

/// An array of numbers, widened.
/// # Safety
/// `first` must be null or point to `count` readable numbers that no thread writes during the call.
pub(crate) unsafe fn numbers<T: Copy + Into<i64>>(
    first: *const T,
    count: usize,
    argument: &str,
) -> Result<ShortList<i64, 16>> {
    // SAFETY: by the contract of this function.
    let all = unsafe { array(first, count, argument) }?;
    Ok(all.iter().map(|number| (*number).into()).collect())
}

/// An array of numbers that the call changes.
/// # Safety
/// `first` must be null or point to `count` numbers, which nothing else reads or writes during the
/// call.
pub(crate) unsafe fn array_mut<'a>(
    first: *mut c_int,
    count: usize,
    argument: &str,
) -> Result<&'a mut [c_int]> {
    if count == 0 {
        return Ok(&mut []);
    }
    present(first, argument)?;
    // SAFETY: not null, and valid by the contract of this function.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, count) })
}

/// The length of an array that has as many entries as these numbers say together.
pub(crate) fn sum(all: &[c_int], argument: &str) -> Result<usize> {
    all.iter().enumerate().try_fold(0_usize, |sum, (at, number)| {
        let number = usize::try_from(*number).map_err(|_| {
            negative((*number).into(), &format!("{argument}[{at}]"), abi::MPI_ERR_ARG)
        })?;
        Ok(sum.saturating_add(number))
    })
}

/// The length of an array that ends at the last of these numbers, which must not decrease.
pub(crate) fn last(all: &[c_int], _: &str) -> Result<usize> {
    check_index(all)?;
    Ok(all.last().map_or(0, |end| *end as usize))
}

/// The type of a number of the plain or the large form.
pub(crate) trait Number {
    /// The number as a result; MPI_UNDEFINED if it does not fit.
    fn narrow(number: i64) -> Self;
}

impl Number for c_int {
    #[inline]
    fn narrow(number: i64) -> c_int {
        c_int::try_from(number).unwrap_or(abi::MPI_UNDEFINED)
    }
}

impl Number for Count {
    #[inline]
    fn narrow(number: i64) -> Count {
        number
    }
}

impl Number for Aint {
    #[inline]
    fn narrow(number: i64) -> Aint {
        number as Aint
    }
}

/// A number as a result, if it fits.
#[inline]
pub(crate) fn fitting<T: TryFrom<F>, F: Copy + Display>(number: F, argument: &str) -> Result<T> {
    T::try_from(number).map_err(|_| too_large(&number, argument))
}

#[cold]
fn too_large(number: &dyn Display, argument: &str) -> MpiError {
    let text = format!("{argument} is {number}, which its type cannot hold");
    MpiError::new(abi::MPI_ERR_VALUE_TOO_LARGE, text)
}

/// An object that a call makes. It gets a handle, which the face stores.
pub(crate) trait NewObject {
    /// # Safety
    /// `place` must be null or writable. A null pointer is an error, and the object goes.
    unsafe fn give(self, library: &Running, place: *mut usize, argument: &str) -> Result<()>;
}

/// A handle of an object that has one.
impl NewObject for usize {
    unsafe fn give(self, _: &Running, place: *mut usize, argument: &str) -> Result<()> {
        // SAFETY: by the contract of this function.
        unsafe { put(place, self, argument) }
    }
}

/// Without a result nothing is stored.
impl NewObject for Option<usize> {
    unsafe fn give(self, _: &Running, place: *mut usize, argument: &str) -> Result<()> {
        // SAFETY: by the contract of this function.
        self.map_or(Ok(()), |handle| unsafe { put(place, handle, argument) })
    }
}

/// A result for a status.
pub(crate) trait StatusResult {
    /// # Safety
    /// `status` must be MPI_STATUS_IGNORE or valid for writing.
    unsafe fn write(self, status: *mut Status) -> Result<()>;
}

/// The status of a failed operation is written too, since its source is known.
impl StatusResult for Completion {
    unsafe fn write(self, status: *mut Status) -> Result<()> {
        received(status, self)
    }
}

/// Without a result nothing is stored.
impl<T: StatusResult> StatusResult for Option<T> {
    unsafe fn write(self, status: *mut Status) -> Result<()> {
        // SAFETY: by the contract of this function.
        self.map_or(Ok(()), |result| unsafe { result.write(status) })
    }
}

/// Room for an array of results. The program's memory may be uninitialised.
pub(crate) struct Places<T> {
    first: *mut T,
    count: usize,
}

impl<T> Places<T> {
    /// # Safety
    /// `first` must be null or have room for `count` values.
    pub(crate) unsafe fn new(first: *mut T, count: usize, argument: &str) -> Result<Places<T>> {
        if first.is_null() && count > 0 {
            return Err(null(argument));
        }
        Ok(Places { first, count })
    }

    /// # Safety
    /// `first` must be MPI_STATUSES_IGNORE or have room for `count` values.
    pub(crate) unsafe fn ignorable(first: *mut T, count: usize) -> Places<T> {
        Places { first, count: if first.is_null() { 0 } else { count } }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The address of an entry; null beyond the room.
    pub(crate) fn at(&self, at: usize) -> *mut T {
        if at < self.count { self.first.wrapping_add(at) } else { std::ptr::null_mut() }
    }

    /// Stores the leading values; values beyond the room are not stored.
    pub(crate) fn put(&self, values: impl IntoIterator<Item = T>) {
        for (at, value) in values.into_iter().take(self.count).enumerate() {
            // SAFETY: `at < count`, and there is room by the contract of `new`.
            unsafe { self.first.add(at).write(value) };
        }
    }
}

/// Stores a result of the argument `what`.
/// # Safety
/// A non-null `place` must be valid for writing, which the caller of the C function guarantees.
#[inline]
pub(crate) unsafe fn put<T>(place: *mut T, value: T, what: &str) -> Result<()> {
    if place.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and valid by the contract of this function.
    unsafe { place.write(value) };
    Ok(())
}

/// Reads the argument `what`, which the program passes by address.
/// # Safety
/// A non-null `place` must be valid for reading, which the caller of the C function guarantees.
#[inline]
pub(crate) unsafe fn fetch<T: Copy>(place: *const T, what: &str) -> Result<T> {
    if place.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and valid by the contract of this function.
    Ok(unsafe { place.read() })
}

#[cold]
pub(crate) fn null(what: &str) -> MpiError {
    MpiError::new(abi::MPI_ERR_ARG, format!("{what} is a null pointer"))
}

/// An array argument.
/// # Safety
/// `first` must be null or point to `count` readable elements that no thread writes during the
/// call.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(null(what));
    }
    // SAFETY: by the contract of this function.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// The contiguous memory of a predefined datatype without gaps; `None` for other datatypes and for
/// wrong arguments.
#[inline(always)]
pub(crate) fn plain(buf: *const c_void, count: i64, datatype: Datatype) -> Option<PlainBuf> {
    let size = plain_size(datatype as u64)?;
    let count = usize::try_from(count).ok()?;
    // A null pointer is valid for 0 elements.
    if buf as usize <= abi::MPI_IN_PLACE && (count > 0 || !buf.is_null()) || count > MOST_ELEMENTS {
        return None;
    }
    // SAFETY: the program does not access its memory until the operation is complete, as the
    // standard requires (MPI-5.0 sections 3.2.1 and 3.7.2).
    Some(unsafe { PlainBuf::new(buf.cast_mut().cast(), count * size) })
}

// So one comparison covers null and MPI_IN_PLACE.
const _: () = assert!(abi::MPI_IN_PLACE == 1);

/// This number of elements of any predefined datatype fits in the address space.
const MOST_ELEMENTS: usize = isize::MAX as usize / 32;

/// Writes the result of one operation, but not MPI_ERROR (MPI-5.0 section 3.2.5).
/// # Safety
/// `status` must be MPI_STATUS_IGNORE or valid for writing.
#[inline]
pub(crate) unsafe fn put_status(status: *mut Status, completion: &Completion) {
    // MPI_STATUS_IGNORE is a null pointer in this ABI.
    if status.is_null() {
        return;
    }
    let bytes = completion.bytes;
    // SAFETY: valid by the contract of this function.
    unsafe {
        (*status).source = completion.source;
        (*status).tag = completion.tag;
        (*status).internal =
            [bytes as c_int, (bytes >> 32) as c_int, c_int::from(completion.cancelled), 0, 0];
    }
}

/// Writes the result of a successful operation, but not MPI_ERROR.
/// # Safety
/// `status` must be MPI_STATUS_IGNORE or valid for writing.
#[inline(always)]
pub(crate) unsafe fn put_received(status: *mut Status, received: Received) {
    if status.is_null() {
        return;
    }
    let Received { source, tag, bytes } = received;
    // SAFETY: valid by the contract of this function.
    unsafe {
        (*status).source = source;
        (*status).tag = tag;
        (*status).internal = [bytes as c_int, (bytes >> 32) as c_int, 0, 0, 0];
    }
}

/// Writes an empty status (MPI-5.0 section 3.7.3), with MPI_SUCCESS in MPI_ERROR.
/// # Safety
/// `status` must be MPI_STATUS_IGNORE or valid for writing.
pub(crate) unsafe fn put_empty(status: *mut Status) {
    if !status.is_null() {
        // SAFETY: by the contract of this function.
        unsafe {
            put_status(status, &Completion::EMPTY);
            (*status).error = abi::MPI_SUCCESS;
        }
    }
}

pub(crate) fn error_of(done: &Completion) -> Option<MpiError> {
    done.fault?;
    library().ok()?.process.error_of(done)
}

/// Writes the status even of a failed receive, since its source is known.
pub(crate) fn received(status: *mut Status, completion: Completion) -> Result<()> {
    // SAFETY: the C program passes a status or MPI_STATUS_IGNORE.
    unsafe { put_status(status, &completion) };
    error_of(&completion).map_or(Ok(()), Err)
}
