//! The arguments of a call: checks, and places of results. The C face uses them; each body gets
//! checked values.

use crate::library::{CommRef, Running, array, check_count, null, put};
use crate::p2p::{plain, received};
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count, Datatype, Info, Request, Status};
use oxmpi_engine::Completion;
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_objects::datatype::Datatype as DatatypeObject;
use oxmpi_objects::datatype::ShortList;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::topology::check_index;
use std::ffi::{c_int, c_void};
use std::fmt::Display;
use std::ops::Deref;

/// An object that the program names by a handle.
pub(crate) struct Named<T> {
    pub(crate) handle: usize,
    pub(crate) object: T,
}

impl<T> Deref for Named<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.object
    }
}

/// The communicator of a call.
pub(crate) type CommArgument = Named<CommRef<'static>>;

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

/// Adds the name of the argument to the error of a look-up.
pub(crate) trait OfArgument {
    fn of(self, argument: &'static str) -> Self;
}

impl<T> OfArgument for Result<T> {
    #[inline(always)]
    fn of(self, argument: &'static str) -> Result<T> {
        self.map_err(|error| named(&error, argument))
    }
}

#[cold]
fn named(error: &MpiError, argument: &str) -> MpiError {
    MpiError::new(error.class(), format!("{argument}: {error}"))
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
