//! Buffers in the memory of accelerators.
//!
//! Only a program that has loaded the driver of a device can have device memory.
//!
//! On a machine without a device the library never examines addresses. On a machine with a device,
//! addresses are *watched*. No datatype is plain then ([`forget_plain_sizes`]), so each call goes
//! through `Running::buffer`, which calls [`Accelerator::placed`]. Until the program loads the
//! driver, this call only compares the number of loaded libraries. Afterwards it queries the
//! driver.
//!
//! A buffer on a device becomes a [`UserBuf`] that the driver packs and unpacks. Such a buffer is
//! an error (MPI_ERR_BUFFER) with `accelerator null`, and in functions that access memory in place.
//! `docs/accelerator.md` lists the functions.

use oxmpi_abi::constants as abi;
use oxmpi_cuda::{CudaContext, DeviceRegion, Driver, Location, error_name, has_device, loads};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::predefined::forget_plain_sizes;
use oxmpi_param::Accelerator as Use;
use oxmpi_sys::foreign::LibraryError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub(crate) struct Accelerator {
    wanted: Use,
    library: String,
    /// Whether addresses may be on a device.
    pub(crate) is_watched: bool,
    /// The number of loaded libraries at the last search for the driver.
    loads: AtomicU64,
    driver: OnceLock<Arc<Driver>>,
}

pub(crate) struct OnDevice<'a> {
    driver: &'a Arc<Driver>,
    context: CudaContext,
}

/// The first value of `loads`. No count of libraries reaches it, so the first call searches for the
/// driver.
const NEVER: u64 = u64::MAX;

impl Accelerator {
    /// # Errors
    /// The parameters require the driver, and it cannot be loaded or initialised.
    pub(crate) fn new((wanted, library): (Use, String)) -> Result<Accelerator> {
        let is_named = library != "libcuda.so.1";
        let is_watched = match wanted {
            Use::Off => false,
            Use::Cuda => true,
            Use::Auto | Use::Null => is_named || has_device(),
        };
        let driver = OnceLock::new();
        if wanted == Use::Cuda {
            let failed = |error: LibraryError| {
                let text = format!(
                    "{error}. The parameter accelerator is 'cuda', which needs the driver; with 'auto' only programs that load the driver use it"
                );
                MpiError::new(abi::MPI_ERR_OTHER, text)
            };
            let opened = Driver::open(&library).map_err(failed)?;
            opened.initialise().map_err(failed)?;
            // The cell is new.
            let _ = driver.set(opened);
        }
        if is_watched {
            forget_plain_sizes();
        }
        Ok(Accelerator { wanted, library, is_watched, loads: AtomicU64::new(NEVER), driver })
    }

    /// Whether buffers on a device are accepted.
    pub(crate) fn serves(&self) -> bool {
        self.is_watched && matches!(self.wanted, Use::Auto | Use::Cuda)
    }

    /// The driver, if it is loaded in this process.
    /// # Errors
    /// The program has loaded a library that cannot be used as a driver. Buffers could then be on a
    /// device unnoticed.
    fn driver(&self) -> Result<Option<&Arc<Driver>>> {
        if let Some(driver) = self.driver.get() {
            return Ok(Some(driver));
        }
        let loads = loads();
        if self.loads.load(Ordering::Relaxed) == loads {
            return Ok(None);
        }
        let found = Driver::of_program(&self.library).map_err(|error| {
            let text = format!(
                "{error}, so it cannot be said which buffers are in the memory of a device: install a later driver, or set the parameter \
                 accelerator to 'off' if the program gives no such buffers to MPI"
            );
            MpiError::new(abi::MPI_ERR_BUFFER, text)
        })?;
        if let Some(found) = found {
            // Another thread may have set the driver first.
            return Ok(Some(self.driver.get_or_init(|| found)));
        }
        self.loads.store(loads, Ordering::Relaxed);
        Ok(None)
    }

    /// The device of an address; `None` for host memory.
    #[cold]
    pub(crate) fn locate(&self, address: usize) -> Result<Option<OnDevice<'_>>> {
        match self.driver()? {
            Some(driver) => self.locate_by(driver, address),
            None => Ok(None),
        }
    }

    fn locate_by<'a>(
        &self,
        driver: &'a Arc<Driver>,
        address: usize,
    ) -> Result<Option<OnDevice<'a>>> {
        match driver.find(address) {
            Ok(Location::Host) => Ok(None),
            Ok(Location::Device(context)) if self.wanted == Use::Null => {
                let _ = context;
                let text = "the parameter accelerator is 'null', so buffers there are errors: leave it out, or copy the data to memory of the host";
                Err(on_device(address, text))
            }
            Ok(Location::Device(context)) => Ok(Some(OnDevice { driver, context })),
            Err(code) => {
                let text = format!(
                    "the CUDA driver cannot say where the buffer at {address:#x} lies: {} ({code}). Work that the program has given to the \
                     device before has failed; cuCtxSynchronize or cudaDeviceSynchronize says which",
                    error_name(code)
                );
                Err(MpiError::new(abi::MPI_ERR_BUFFER, text))
            }
        }
    }

    /// Marks a buffer on a device as device memory.
    #[inline]
    pub(crate) fn placed(&self, buffer: UserBuf) -> Result<UserBuf> {
        if !self.is_watched { Ok(buffer) } else { self.placed_where_it_is(buffer) }
    }

    #[cold]
    fn placed_where_it_is(&self, buffer: UserBuf) -> Result<UserBuf> {
        let Some(driver) = self.driver()? else { return Ok(buffer) };
        // With displacements from MPI_BOTTOM the blocks may be in different allocations, so each is
        // located. Any other buffer is in one allocation.
        let most = if buffer.as_ptr().is_null() { usize::MAX } else { 1 };
        let mut found = None;
        for block in buffer.data_blocks(most) {
            if let Some(on_device) = self.locate_by(driver, block.start)? {
                let span = if most == 1 { block } else { 0..0 };
                found = Some((on_device, span));
                break;
            }
        }
        let Some((OnDevice { driver, context }, span)) = found else { return Ok(buffer) };
        Ok(buffer.on_device(Box::new(DeviceRegion::new(driver, context, span))))
    }
}

pub(crate) fn on_device(address: usize, what: &str) -> MpiError {
    let text = format!("the buffer at {address:#x} is in the memory of a device, and {what}");
    MpiError::new(abi::MPI_ERR_BUFFER, text)
}
