//! The driver's library, and the location of addresses.

use crate::declarations::*;
use libc::{c_int, c_uint, c_void};
use oxmpi_mem::memory::Scratch;
use oxmpi_sys::foreign::{ForeignLibrary, LibraryError, LibraryTexts, keep_signals, text};
use std::fmt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

static CUDA: LibraryTexts = LibraryTexts {
    name: "the CUDA driver",
    needed: "CUDA driver of version 7 or later",
    remedy: "install NVIDIA's driver, or name its file by the parameter accelerator_cuda_library",
};

/// The CUDA driver, loaded into this program for good.
pub struct Driver {
    pub(crate) symbols: CudaSymbols,
    library: ForeignLibrary,
    /// Pinned memory of dropped regions, for reuse.
    pub(crate) cached_stages: Mutex<Vec<Scratch>>,
    /// The retained primary contexts, one for each device ordinal.
    primaries: Mutex<Vec<(c_int, CudaContext)>>,
}

/// The location of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In memory that this process reads and writes itself.
    Host,
    /// In memory of a device, allocated in this context.
    Device(CudaContext),
}

/// A context of the driver, in which calls for a device are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaContext(pub(crate) ContextHandle);

// SAFETY: a context belongs to no thread: each thread makes it current for itself.
unsafe impl Send for CudaContext {}
// SAFETY: a context belongs to no thread: each thread makes it current for itself.
unsafe impl Sync for CudaContext {}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.library.file();
        match self.version() {
            Some((major, minor)) => write!(f, "CUDA driver {major}.{minor} ({file})"),
            None => write!(f, "CUDA driver ({file})"),
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Driver({self})")
    }
}

/// The name of an error in the driver's header, for the errors of copies and queries.
pub fn error_name(code: i32) -> &'static str {
    match code {
        0 => "CUDA_SUCCESS",
        1 => "CUDA_ERROR_INVALID_VALUE",
        2 => "CUDA_ERROR_OUT_OF_MEMORY",
        3 => "CUDA_ERROR_NOT_INITIALIZED",
        4 => "CUDA_ERROR_DEINITIALIZED",
        100 => "CUDA_ERROR_NO_DEVICE",
        101 => "CUDA_ERROR_INVALID_DEVICE",
        201 => "CUDA_ERROR_INVALID_CONTEXT",
        214 => "CUDA_ERROR_ECC_UNCORRECTABLE",
        400 => "CUDA_ERROR_INVALID_HANDLE",
        700 => "CUDA_ERROR_ILLEGAL_ADDRESS",
        709 => "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        719 => "CUDA_ERROR_LAUNCH_FAILED",
        713 => "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        800 => "CUDA_ERROR_NOT_PERMITTED",
        803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        900 => "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        999 => "CUDA_ERROR_UNKNOWN",
        _ => "an error of the CUDA driver",
    }
}

/// Whether the kernel has a driver for devices. Without it no program can have device memory.
pub fn has_device() -> bool {
    // Discrete devices, Jetson, and WSL.
    [
        "/dev/nvidiactl",
        "/proc/driver/nvidia/version",
        "/sys/module/nvidia",
        "/dev/nvmap",
        "/dev/dxg",
    ]
    .iter()
    .any(|path| Path::new(path).exists())
}

/// The number of libraries that this program has loaded since its start. While it stays the same,
/// no library was added.
pub fn loads() -> u64 {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        to: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a description, and `to` points to `count` below.
        unsafe { *to.cast::<u64>() = (*info).dlpi_adds };
        // Every description has the number, so the first one ends the iteration.
        1
    }
    let mut count = 0_u64;
    // SAFETY: the function writes one number, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut count).cast()) };
    count
}

impl Driver {
    /// Loads the library `name`, a file name for the loader, without initialising it.
    pub fn open(name: &str) -> Result<Arc<Driver>, LibraryError> {
        Driver::of_library(ForeignLibrary::open(&CUDA, name)?)
    }

    /// The driver that the program has loaded by this name or file; `None` if it has loaded none.
    /// Loads nothing.
    pub fn of_program(name: &str) -> Result<Option<Arc<Driver>>, LibraryError> {
        ForeignLibrary::of_program(&CUDA, name).map(Driver::of_library).transpose()
    }

    fn of_library(library: ForeignLibrary) -> Result<Arc<Driver>, LibraryError> {
        let symbols = CudaSymbols::of(&library)?;
        let (cached_stages, primaries) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Driver { symbols, library, cached_stages, primaries }))
    }

    /// Initialises the driver, as a program does before it uses a device.
    pub fn initialise(&self) -> Result<(), LibraryError> {
        // SAFETY: no flag is defined.
        let status = keep_signals(|| unsafe { (self.symbols.cuInit)(0) });
        if status == CUDA_SUCCESS {
            return Ok(());
        }
        let (why, file) = (self.describe(status), self.library.file());
        Err(CUDA.call_failed("cuInit", format!("fails: {why} ('{file}')")))
    }

    /// The version of CUDA that the driver supports: major, minor.
    pub fn version(&self) -> Option<(i32, i32)> {
        let mut version = 0;
        // SAFETY: it writes one number, and may be called before the initialisation.
        let status = unsafe { (self.symbols.cuDriverGetVersion)(&mut version) };
        (status == CUDA_SUCCESS).then_some((version / 1000, version % 1000 / 10))
    }

    /// The text of an error of the driver.
    pub fn describe(&self, status: i32) -> String {
        let mut words = std::ptr::null();
        // SAFETY: it writes the address of a constant string, or null for an unknown error.
        let known = unsafe { (self.symbols.cuGetErrorString)(status, &mut words) };
        let name = error_name(status);
        if known != CUDA_SUCCESS || words.is_null() {
            return format!("{name} ({status})");
        }
        // SAFETY: a string of the driver, which ends with a zero.
        format!("{name} ({status}, {})", unsafe { text(words) })
    }

    /// The location of an address, in some hundred nanoseconds. A driver that is not initialised
    /// has no memory. The error is the driver's number.
    pub fn find(&self, address: usize) -> Result<Location, i32> {
        let (mut kind, mut is_managed): (c_uint, c_uint) = (0, 0);
        let mut context: ContextHandle = null_mut();
        let attributes = [
            CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            CU_POINTER_ATTRIBUTE_IS_MANAGED,
            CU_POINTER_ATTRIBUTE_CONTEXT,
        ];
        let places: [*mut c_void; 3] =
            [(&raw mut kind).cast(), (&raw mut is_managed).cast(), (&raw mut context).cast()];
        // SAFETY: each attribute has a destination of its size (a boolean: at most four bytes).
        let status = unsafe {
            (self.symbols.cuPointerGetAttributes)(
                attributes.len() as c_uint,
                attributes.as_ptr(),
                places.as_ptr(),
                address as DevicePointer,
            )
        };
        match status {
            CUDA_SUCCESS if kind == CU_MEMORYTYPE_DEVICE && is_managed & 0xff == 0 => {
                if context.is_null() {
                    self.primary_context(address).map(Location::Device)
                } else {
                    Ok(Location::Device(CudaContext(context)))
                }
            }
            // For an unknown address the driver returns the type 0, and older drivers an error.
            CUDA_SUCCESS
            | CUDA_ERROR_NOT_INITIALIZED
            | CUDA_ERROR_DEINITIALIZED
            | CUDA_ERROR_INVALID_VALUE
            | CUDA_ERROR_INVALID_CONTEXT => Ok(Location::Host),
            // The driver returns such an error for any address while a stream is captured (800), or
            // after work on the device has failed. Memory that this process can read is host memory
            // even then.
            _ if is_readable(address) => Ok(Location::Host),
            error => Err(error),
        }
    }

    /// Memory of a pool, and mapped memory, has no context: the primary context of its device
    /// reaches it. The attribute with the device exists since CUDA 9.2; older drivers have no such
    /// memory.
    fn primary_context(&self, address: usize) -> Result<CudaContext, i32> {
        let mut ordinal: c_int = -1;
        let attribute = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        let place: *mut c_void = (&raw mut ordinal).cast();
        // SAFETY: one attribute, with a destination of its size.
        check(unsafe {
            (self.symbols.cuPointerGetAttributes)(1, &attribute, &place, address as DevicePointer)
        })?;
        let mut primaries = self.primaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = primaries.iter().find(|(of, _)| *of == ordinal) {
            return Ok(*known);
        }
        let (mut device, mut primary) = (0, null_mut());
        // SAFETY: each writes one value.
        let status = unsafe {
            match (self.symbols.cuDeviceGet)(&mut device, ordinal) {
                CUDA_SUCCESS => (self.symbols.cuDevicePrimaryCtxRetain)(&mut primary, device),
                error => error,
            }
        };
        check(status)?;
        primaries.push((ordinal, CudaContext(primary)));
        Ok(CudaContext(primary))
    }

    pub(crate) fn within<R>(
        &self,
        context: CudaContext,
        f: impl FnOnce(&CudaSymbols) -> Result<R, i32>,
    ) -> Result<R, i32> {
        // SAFETY: the driver checks the handle, which it has returned itself.
        check(unsafe { (self.symbols.cuCtxPushCurrent_v2)(context.0) })?;
        let result = f(&self.symbols);
        let mut own = null_mut();
        // SAFETY: pops the context that was pushed above.
        let popped = check(unsafe { (self.symbols.cuCtxPopCurrent_v2)(&mut own) });
        result.and_then(|value| popped.map(|()| value))
    }
}

/// Whether this process can read the byte at an address. The kernel makes the access, so an
/// unreadable address raises no signal.
fn is_readable(address: usize) -> bool {
    let mut byte = 0_u8;
    let here = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let there = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: 1 };
    // SAFETY: it writes at most one byte, to `byte`; a process may read its own memory, and the
    // kernel checks the address.
    unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) == 1 }
}

pub(crate) fn check(status: CuResult) -> Result<(), i32> {
    if status == CUDA_SUCCESS { Ok(()) } else { Err(status) }
}
