//! The CUDA driver, opened when a program runs, and the memory of its devices behind safe functions.
//!
//! Nothing of CUDA is needed to build OxMPI, nor to run it. A [`Driver`] is the library `libcuda.so.1`: loaded by name
//! ([`Driver::open`]), or found where the program has loaded it ([`Driver::of_program`]), which loads nothing. It says where an address lies
//! ([`Driver::find`]), and a [`Region`] is memory of a device that it copies from and to
//! ([`DeviceMemory`](oxmpi_mem::device::DeviceMemory)).
//!
//! Device memory is mapped at addresses of the process that no load, store or system call reaches. Managed memory, and
//! memory of the host that the driver has registered, are read and written as any other: for these the answer is [`Location::Host`].
//!
//! A long region is copied in *pieces*: two pieces of pinned host memory, each with a stream of its own, so that the device fills one while
//! the other is read (read-ahead), or empties one while the other is written (write-behind). All copies are made in the context in
//! which the memory was allocated; the calling thread has its own context back afterwards.
//!
//! `declarations` has what the public documentation of the CUDA driver API says; it is the only unsafe foreign interface here.

mod declarations;
mod library;
mod region;

pub use library::{Context, Driver, DriverError, Location, error_name, has_device, loads};
pub use region::{PIECE_BYTES, Region};
