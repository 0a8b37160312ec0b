//! Names of communicators (MPI-5.0 section 7.8), and MPI_Pcontrol.

use crate::state::library::Running;
use crate::state::named::CommArgument;
use oxmpi_abi::constants as abi;
use oxmpi_objects::error::Result;
use std::ffi::c_int;

/// The part of a name that is stored: the limit includes the closing zero (MPI-5.0 section 7.8).
pub(crate) fn kept(name: &[u8]) -> &[u8] {
    &name[..name.len().min(abi::MPI_MAX_OBJECT_NAME as usize - 1)]
}

/// A longer name is cut. Test: tests/c/names.c.
pub(crate) fn comm_set_name(_: &Running, comm: &CommArgument, name: &[u8]) -> Result<()> {
    comm.set_name(kept(name));
    Ok(())
}

/// MPI_COMM_NULL has a name too.
pub(crate) fn comm_get_name(_: &Running, comm: Option<&CommArgument>) -> Result<Box<[u8]>> {
    Ok(comm.map_or_else(|| b"MPI_COMM_NULL".as_slice().into(), |comm| comm.name()))
}

/// MPI-5.0 section 15.2.4: tools define this function; the library's own does nothing.
pub(crate) fn pcontrol(_level: c_int) -> Result<()> {
    Ok(())
}
