//! Checks of buffers in the memory of accelerators ([`Accelerator`](crate::state::accelerator)).

use crate::state::accelerator::on_device;
use crate::state::library::{Running, library};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::Result;
use std::ffi::{c_int, c_void};

impl Running {
    /// Checks that the library itself may access an address, now or later. `what` is the reason for
    /// the error text.
    /// # Errors
    /// The address is on a device.
    #[inline]
    pub(crate) fn check_on_host(&self, address: *const c_void, what: &str) -> Result<()> {
        if !self.accelerator.is_watched || address.is_null() {
            return Ok(());
        }
        match self.accelerator.locate(address.addr())? {
            None => Ok(()),
            Some(_) => Err(on_device(address.addr(), what)),
        }
    }

    /// The check for a buffer of [`Running::buffer`].
    #[inline]
    pub(crate) fn on_host(&self, buffer: UserBuf, what: &str) -> Result<UserBuf> {
        if buffer.is_on_device() {
            Err(on_device(buffer.as_ptr().addr(), what))
        } else {
            Ok(buffer)
        }
    }

    /// A buffer that is only read, copied to host memory if it is on a device.
    /// # Errors
    /// The driver cannot copy the data, or there is no memory.
    #[inline]
    pub(crate) fn to_read(&self, buffer: UserBuf) -> Result<UserBuf> {
        match buffer.staged() {
            None => Ok(buffer),
            Some(copy) => copy.map_err(oxmpi_core::staging_error),
        }
    }

    #[inline]
    pub(crate) fn watches_devices(&self) -> bool {
        self.accelerator.is_watched
    }
}

/// Open MPI's extension "CUDA". Test: tests/c/jobs/accelerator.c.
pub(crate) fn query_cuda_support() -> c_int {
    c_int::from(library().is_ok_and(|library| library.accelerator.serves()))
}
