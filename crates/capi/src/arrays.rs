//! Datatypes that are parts of arrays (MPI-5.0 sections 5.1.3 and 5.1.4).

use crate::datatypes::{derive, numbers};
use crate::library::array;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Count, Datatype as Handle};
use oxmpi_objects::datatype::{ArrayOrder, Datatype, Distribution, Form};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;
use std::sync::Arc;

fn dimensions(ndims: c_int) -> Result<usize> {
    usize::try_from(ndims).ok().filter(|&n| n > 0).ok_or_else(|| {
        MpiError::new(abi::MPI_ERR_ARG, format!("ndims is {ndims}; it must be positive"))
    })
}

/// The datatype of a box in an array.
/// # Safety
/// Each array must be null or point to `ndims` numbers.
unsafe fn subarray<T: Copy + Into<i64>>(
    form: Form,
    ndims: c_int,
    [sizes, subsizes, starts]: [*const T; 3],
    order: c_int,
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    let n = dimensions(ndims)? as i64;
    // SAFETY: by the contract of this function.
    let (sizes, subsizes, starts) = unsafe {
        (
            numbers(sizes, n, "array_of_sizes")?,
            numbers(subsizes, n, "array_of_subsizes")?,
            numbers(starts, n, "array_of_starts")?,
        )
    };
    Datatype::subarray(form, &sizes, &subsizes, &starts, ArrayOrder::from_int(order)?, old)
}

struct DarrayArgs<T> {
    gsizes: *const T,
    distribs: *const c_int,
    dargs: *const c_int,
    psizes: *const c_int,
}

/// The datatype of one process's part of a distributed array.
/// # Safety
/// Each array must be null or point to `ndims` numbers.
unsafe fn darray<T: Copy + Into<i64>>(
    form: Form,
    (size, rank, ndims): (c_int, c_int, c_int),
    arrays: DarrayArgs<T>,
    order: c_int,
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    let n = dimensions(ndims)?;
    // SAFETY: by the contract of this function.
    unsafe {
        let distribution = Distribution {
            size,
            rank,
            gsizes: &numbers(arrays.gsizes, n as i64, "array_of_gsizes")?,
            distribs: array(arrays.distribs, n, "array_of_distribs")?,
            dargs: array(arrays.dargs, n, "array_of_dargs")?,
            psizes: array(arrays.psizes, n, "array_of_psizes")?,
            order: ArrayOrder::from_int(order)?,
        };
        Datatype::darray(form, &distribution, old)
    }
}

mpi! {
    fn MPI_Type_create_subarray(ndims: c_int, array_of_sizes: *const c_int, array_of_subsizes: *const c_int, array_of_starts: *const c_int, order: c_int, oldtype: Handle, newtype: *mut Handle) -> c_int {
        let arrays = [array_of_sizes, array_of_subsizes, array_of_starts];
        derive(FuncId::MPI_Type_create_subarray, oldtype, newtype, |old| {
            // SAFETY: the C program passes arrays of `ndims` numbers.
            unsafe { subarray(Form::Int, ndims, arrays, order, old) }
        })
    }

    fn MPI_Type_create_subarray_c(ndims: c_int, array_of_sizes: *const Count, array_of_subsizes: *const Count, array_of_starts: *const Count, order: c_int, oldtype: Handle, newtype: *mut Handle) -> c_int {
        let arrays = [array_of_sizes, array_of_subsizes, array_of_starts];
        derive(FuncId::MPI_Type_create_subarray_c, oldtype, newtype, |old| {
            // SAFETY: the C program passes arrays of `ndims` numbers.
            unsafe { subarray(Form::Count, ndims, arrays, order, old) }
        })
    }

    fn MPI_Type_create_darray(size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: *const c_int, array_of_distribs: *const c_int, array_of_dargs: *const c_int, array_of_psizes: *const c_int, order: c_int, oldtype: Handle, newtype: *mut Handle) -> c_int {
        let arrays = DarrayArgs { gsizes: array_of_gsizes, distribs: array_of_distribs, dargs: array_of_dargs, psizes: array_of_psizes };
        derive(FuncId::MPI_Type_create_darray, oldtype, newtype, |old| {
            // SAFETY: the C program passes arrays of `ndims` numbers.
            unsafe { darray(Form::Int, (size, rank, ndims), arrays, order, old) }
        })
    }

    fn MPI_Type_create_darray_c(size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: *const Count, array_of_distribs: *const c_int, array_of_dargs: *const c_int, array_of_psizes: *const c_int, order: c_int, oldtype: Handle, newtype: *mut Handle) -> c_int {
        let arrays = DarrayArgs { gsizes: array_of_gsizes, distribs: array_of_distribs, dargs: array_of_dargs, psizes: array_of_psizes };
        derive(FuncId::MPI_Type_create_darray_c, oldtype, newtype, |old| {
            // SAFETY: the C program passes arrays of `ndims` numbers.
            unsafe { darray(Form::Count, (size, rank, ndims), arrays, order, old) }
        })
    }
}
