//! Datatypes that are parts of arrays (MPI-5.0 sections 5.1.3 and 5.1.4).

use crate::state::library::Running;
use oxmpi_abi::constants as abi;
use oxmpi_objects::datatype::{ArrayOrder, Datatype, Distribution, Form};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;
use std::sync::Arc;

fn check_dimensions(ndims: usize) -> Result<()> {
    if ndims == 0 {
        return Err(MpiError::new(abi::MPI_ERR_ARG, "ndims is 0; it must be positive"));
    }
    Ok(())
}

/// The datatype of a box in an array.
pub(crate) fn type_create_subarray(
    form: Form,
    _: &Running,
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: c_int,
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    check_dimensions(sizes.len())?;
    Datatype::subarray(form, sizes, subsizes, starts, ArrayOrder::from_int(order)?, old)
}

/// The datatype of one process's part of a distributed array.
#[allow(clippy::too_many_arguments)]
pub(crate) fn type_create_darray(
    form: Form,
    _: &Running,
    size: usize,
    rank: usize,
    gsizes: &[i64],
    distribs: &[c_int],
    dargs: &[c_int],
    psizes: &[c_int],
    order: c_int,
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    check_dimensions(gsizes.len())?;
    let (size, rank, order) = (size as c_int, rank as c_int, ArrayOrder::from_int(order)?);
    let distribution = Distribution { size, rank, gsizes, distribs, dargs, psizes, order };
    Datatype::darray(form, &distribution, old)
}
