//! Communicators (MPI-5.0 chapter 7).

use crate::attributes;
use crate::errors::{on_comm, outcome};
use crate::library::{self, Running, fetch, null, put};
use crate::unsupported::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Comm;
use oxmpi_core::Communicator;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::hints::CommHints;
use std::ffi::c_int;
use std::sync::Arc;

/// Gives a new communicator its handle.
pub(crate) fn give(library: &Running, place: *mut Comm, made: Communicator) -> Result<()> {
    let made = Arc::new(made);
    let handle = library.communicators.insert(made.clone());
    made.errhandler_cell().set_object(handle.raw() as Comm);
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, handle.raw() as Comm, "newcomm") }
}

mpi! {
    /// MPI-5.0 section 7.4.1.
    fn MPI_Comm_rank(comm: Comm, rank: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Comm_rank, comm, |_, communicator| {
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(rank, communicator.rank(), "rank") }
        })
    }

    /// MPI-5.0 section 7.4.1.
    fn MPI_Comm_size(comm: Comm, size: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Comm_size, comm, |_, communicator| {
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(size, communicator.size(), "size") }
        })
    }

    /// MPI-5.0 section 7.4.2. Collective.
    fn MPI_Comm_dup(comm: Comm, newcomm: *mut Comm) -> c_int {
        let result = attributes::duplicate(comm, Ok(CommHints::default()), newcomm);
        outcome(FuncId::MPI_Comm_dup, Some(On::Comm(comm)), result)
    }

    /// MPI-5.0 section 7.4.2. Collective.
    fn MPI_Comm_split(comm: Comm, color: c_int, key: c_int, newcomm: *mut Comm) -> c_int {
        on_comm(FuncId::MPI_Comm_split, comm, |library, communicator| {
            if newcomm.is_null() {
                return Err(null("newcomm"));
            }
            match library.process.split(communicator, color, key)? {
                Some(made) => give(library, newcomm, made),
                // SAFETY: the C program passes a place for a handle.
                None => unsafe { put(newcomm, abi::MPI_COMM_NULL, "newcomm") },
            }
        })
    }

    /// MPI-5.0 section 7.4.3.
    fn MPI_Comm_free(comm: *mut Comm) -> c_int {
        // SAFETY: the C program passes a place with a handle.
        let handle = unsafe { fetch(comm, "comm") };
        let on = handle.as_ref().ok().map(|handle| On::Comm(*handle));
        outcome(FuncId::MPI_Comm_free, on, library::library().and_then(|library| {
            let handle = handle?;
            if handle == abi::MPI_COMM_WORLD || handle == abi::MPI_COMM_SELF {
                return Err(MpiError::new(abi::MPI_ERR_COMM, "a predefined communicator cannot be freed"));
            }
            let communicator = Arc::clone(&*library.communicator(handle)?);
            attributes::delete_attributes(handle, &communicator.attributes)?;
            library.process.close(&communicator);
            drop(communicator);
            let freed = library.communicators.free(Handle::from_raw(handle as u64));
            freed.map_err(|bad| MpiError::new(abi::MPI_ERR_COMM, bad.to_string()))?;
            // SAFETY: as above.
            unsafe { put(comm, abi::MPI_COMM_NULL, "comm") }
        }))
    }
}
