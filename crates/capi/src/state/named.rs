//! Objects by their handles, and the names of arguments in errors of look-ups.

use crate::state::library::CommRef;
use oxmpi_objects::error::{MpiError, Result};
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
pub(crate) fn named(error: &MpiError, argument: &str) -> MpiError {
    MpiError::new(error.class(), format!("{argument}: {error}"))
}
