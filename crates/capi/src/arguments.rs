//! The arguments of a call: checks, and places of results. The C face uses them; each body gets
//! checked values.

use crate::library::{CommRef, Running, check_count, null, put};
use crate::p2p::plain;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Count, Datatype, Info, Request};
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_objects::error::{MpiError, Result};
use std::borrow::Cow;
use std::ffi::{c_int, c_void};
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
        library.buffer(self.address, self.count, self.datatype)
    }

    /// The memory of `blocks` consecutive buffers like this one.
    pub(crate) fn blocks(&self, library: &Running, blocks: i32) -> Result<UserBuf> {
        check_count(self.count)?;
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
pub(crate) unsafe fn numbers<'a, T: Number + 'a>(
    first: *const T,
    count: usize,
    argument: &str,
) -> Result<Cow<'a, [i64]>> {
    // SAFETY: by the contract of this function.
    let all = unsafe { crate::library::array(first, count, argument) }?;
    Ok(T::widen(all))
}

/// A number of the plain or the large form.
pub(crate) trait Number: Copy + Into<i64> {
    fn widen(all: &[Self]) -> Cow<'_, [i64]>;
    /// The number as a result; MPI_UNDEFINED if it does not fit.
    fn narrow(number: i64) -> Self;
}

impl Number for c_int {
    fn widen(all: &[c_int]) -> Cow<'_, [i64]> {
        all.iter().map(|number| i64::from(*number)).collect()
    }

    #[inline]
    fn narrow(number: i64) -> c_int {
        c_int::try_from(number).unwrap_or(abi::MPI_UNDEFINED)
    }
}

impl Number for Count {
    fn widen(all: &[Count]) -> Cow<'_, [i64]> {
        Cow::Borrowed(all)
    }

    #[inline]
    fn narrow(number: i64) -> Count {
        number
    }
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

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Stores the leading values; values beyond the room are not stored.
    pub(crate) fn put(&self, values: impl IntoIterator<Item = T>) {
        for (at, value) in values.into_iter().take(self.count).enumerate() {
            // SAFETY: `at < count`, and there is room by the contract of `new`.
            unsafe { self.first.add(at).write(value) };
        }
    }
}
