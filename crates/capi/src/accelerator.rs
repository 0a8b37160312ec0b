//! Buffers in the memory of accelerators.
//!
//! A program with device memory has loaded the driver of the device, so where no driver is loaded there is nothing to do. Whether one is loaded
//! is not tested where it costs: on a machine without a device addresses are never examined. On one with a device they are *watched*: no
//! datatype is plain any more ([`forget_plain_sizes`]), so every call comes to [`Running::buffer`], which asks [`Accelerator::locate`]. As long as
//! the program has loaded no driver that compares one number of the loader; afterwards it asks the driver.
//!
//! What lies on a device becomes a [`UserBuf`] that the driver packs and unpacks, or an error (MPI_ERR_BUFFER): with `accelerator null`, and for
//! functions that read and write memory where it is. `docs/accelerator.md` says which do what.

use crate::library::{Running, library};
use oxmpi_abi::constants as abi;
use oxmpi_cuda::{CudaContext, DeviceRegion, Driver, Location, error_name, has_device, loads};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::predefined::forget_plain_sizes;
use oxmpi_param::Accelerator as Use;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What the process knows of the driver of accelerators.
#[derive(Debug)]
pub(crate) struct Accelerator {
    wanted: Use,
    library: String,
    /// Whether addresses may be those of a device.
    is_watched: bool,
    /// How many libraries had been loaded when the driver was looked for last.
    loads: AtomicU64,
    driver: OnceLock<Arc<Driver>>,
}

/// Where an address lies that is on a device.
struct OnDevice<'a> {
    driver: &'a Arc<Driver>,
    context: CudaContext,
}

/// No program has loaded so many libraries.
const NEVER: u64 = u64::MAX;

impl Accelerator {
    /// As parameters want it.
    ///
    /// # Errors
    /// The driver is wanted, and cannot be loaded or initialised.
    pub(crate) fn new((wanted, library): (Use, String)) -> Result<Accelerator> {
        let is_named = library != "libcuda.so.1";
        let is_watched = match wanted {
            Use::Off => false,
            Use::Cuda => true,
            Use::Auto | Use::Null => is_named || has_device(),
        };
        let driver = OnceLock::new();
        if wanted == Use::Cuda {
            let failed = |error: oxmpi_cuda::DriverError| {
                let text = format!(
                    "{error}. The parameter accelerator is 'cuda', which needs it; with 'auto' it is used only by programs that load it"
                );
                MpiError::new(abi::MPI_ERR_OTHER, text)
            };
            let opened = Driver::open(&library).map_err(failed)?;
            opened.initialise().map_err(failed)?;
            // It is the first to be set.
            let _ = driver.set(opened);
        }
        if is_watched {
            forget_plain_sizes();
        }
        Ok(Accelerator { wanted, library, is_watched, loads: AtomicU64::new(NEVER), driver })
    }

    /// Whether buffers on a device are served, once there are any.
    fn serves(&self) -> bool {
        self.is_watched && matches!(self.wanted, Use::Auto | Use::Cuda)
    }

    /// The driver, if it is in this process.
    ///
    /// # Errors
    /// The program has loaded what cannot be used as a driver: buffers may be on a device, and nothing says which.
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
            // Another thread may have been faster.
            return Ok(Some(self.driver.get_or_init(|| found)));
        }
        self.loads.store(loads, Ordering::Relaxed);
        Ok(None)
    }

    /// Where an address lies; `None`: in memory of this process, or nowhere.
    #[cold]
    fn locate(&self, address: usize) -> Result<Option<OnDevice<'_>>> {
        match self.driver()? {
            Some(driver) => self.locate_by(driver, address),
            None => Ok(None),
        }
    }

    fn locate_by<'a>(&self, driver: &'a Arc<Driver>, address: usize) -> Result<Option<OnDevice<'a>>> {
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

    /// The buffer, as memory of a device if it lies there.
    #[inline]
    pub(crate) fn placed(&self, buffer: UserBuf) -> Result<UserBuf> {
        if !self.is_watched { Ok(buffer) } else { self.placed_where_it_is(buffer) }
    }

    #[cold]
    fn placed_where_it_is(&self, buffer: UserBuf) -> Result<UserBuf> {
        let Some(driver) = self.driver()? else { return Ok(buffer) };
        // Displacements from MPI_BOTTOM may lead anywhere: each block is looked at. All others belong to one allocation.
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

fn on_device(address: usize, what: &str) -> MpiError {
    let text = format!("the buffer at {address:#x} is in the memory of a device, and {what}");
    MpiError::new(abi::MPI_ERR_BUFFER, text)
}

impl Running {
    /// An address whose memory the library itself reads and writes, now or later.
    ///
    /// # Errors
    /// It is that of a device; `what` says why it may not be.
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

    /// The same of a buffer; [`Running::buffer`] has made it.
    #[inline]
    pub(crate) fn on_host(&self, buffer: UserBuf, what: &str) -> Result<UserBuf> {
        if buffer.is_on_device() { Err(on_device(buffer.as_ptr().addr(), what)) } else { Ok(buffer) }
    }

    /// The data of a buffer that is only read, in memory of this process.
    ///
    /// # Errors
    /// The driver cannot copy them, or there is no room.
    #[inline]
    pub(crate) fn to_read(&self, buffer: UserBuf) -> Result<UserBuf> {
        match buffer.staged() {
            None => Ok(buffer),
            Some(copy) => copy.map_err(oxmpi_core::staging_error),
        }
    }

    /// Whether the memory of a device may be among what the program names.
    #[inline]
    pub(crate) fn watches_devices(&self) -> bool {
        self.accelerator.is_watched
    }
}

mpix! {
    /// Open MPI's extension "CUDA": whether buffers may be on a device, here and with these parameters. Test: tests/c/jobs/accelerator.c.
    fn MPIX_Query_cuda_support() -> c_int {
        c_int::from(library().is_ok_and(|library| library.accelerator.serves()))
    }
}
