//! The CUDA driver, opened at run time, and the memory of its devices, behind safe functions.
//!
//! OxMPI builds and runs without CUDA. A [`Driver`] is the library `libcuda.so.1`, loaded by name
//! ([`Driver::open`]), or found if the program has loaded it ([`Driver::of_program`]). It locates
//! addresses ([`Driver::find`]); a [`DeviceRegion`] copies from and to memory of a device
//! ([`DeviceMemory`](oxmpi_mem::device::DeviceMemory)).
//!
//! Device memory has addresses in the process, but loads, stores and system calls cannot access it.
//! Managed memory, and host memory that the driver has registered, are ordinary memory:
//! [`Location::Host`].
//!
//! A long region is copied through two *stages*: buffers of pinned host memory, each with its own
//! stream, so that the device fills one while the other is read (read-ahead), or empties one while
//! the other is written (write-behind). All copies are made in the context of the memory; the
//! calling thread gets its own context back afterwards.
//!
//! `declarations` follows the public documentation of the CUDA driver API; it is the only unsafe
//! foreign interface of this crate.

mod declarations;
mod library;
mod region;

pub use library::{CudaContext, Driver, Location, error_name, has_device, loads};
pub use region::{DeviceRegion, STAGE_BYTES};
