//! Names of communicators (MPI-5.0 section 7.8), and MPI_Pcontrol.

use crate::errors::on_comm;
use crate::library::null;
use crate::strings::{put_named, text};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Comm;
use std::ffi::{c_char, c_int};

/// The part of a name that is stored: the limit includes the closing zero (MPI-5.0 section 7.8).
pub(crate) fn kept(name: &[u8]) -> &[u8] {
    &name[..name.len().min(abi::MPI_MAX_OBJECT_NAME as usize - 1)]
}

mpi! {
    /// A longer name is cut. Test: tests/c/names.c.
    fn MPI_Comm_set_name(comm: Comm, comm_name: *const c_char) -> c_int {
        on_comm(FuncId::MPI_Comm_set_name, comm, |_, communicator| {
            // SAFETY: the C program passes a string.
            communicator.set_name(kept(unsafe { text(comm_name, "comm_name") }?));
            Ok(())
        })
    }

    /// MPI_COMM_NULL has a name too.
    fn MPI_Comm_get_name(comm: Comm, comm_name: *mut c_char, resultlen: *mut c_int) -> c_int {
        if comm == abi::MPI_COMM_NULL {
            return crate::errors::on_none(FuncId::MPI_Comm_get_name, |_| {
                // SAFETY: the C program passes MPI_MAX_OBJECT_NAME characters and an integer.
                unsafe { put_named(b"MPI_COMM_NULL", abi::MPI_MAX_OBJECT_NAME, comm_name, "comm_name", resultlen) }
            });
        }
        on_comm(FuncId::MPI_Comm_get_name, comm, |_, communicator| {
            if comm_name.is_null() {
                return Err(null("comm_name"));
            }
            // SAFETY: the C program passes MPI_MAX_OBJECT_NAME characters and an integer.
            unsafe { put_named(&communicator.name(), abi::MPI_MAX_OBJECT_NAME, comm_name, "comm_name", resultlen) }
        })
    }

    /// MPI-5.0 section 15.2.4: tools define this function; the library's own does nothing.
    fn MPI_Pcontrol(_level: c_int) -> c_int {
        abi::MPI_SUCCESS
    }
}
