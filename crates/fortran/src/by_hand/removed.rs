//! Procedures that MPI-3.0 removed. Their addresses and extents are INTEGERs.

use super::*;
use crate::types::Aint;

/// Stores an address or an extent in an INTEGER, if it fits.
unsafe fn put_short(procedure: &str, instead: &str, value: Aint, place: *mut c_int) -> c_int {
    let Ok(short) = c_int::try_from(value) else {
        let reason = format!(
            "the result {value} does not fit an INTEGER of 4 bytes; {instead} returns it in an \
             INTEGER(KIND=MPI_ADDRESS_KIND)"
        );
        return refuse(procedure, abi::MPI_ERR_ARG, &reason);
    };
    unsafe { put(place, short) };
    0
}

pub(crate) unsafe fn address(
    call: c::GetAddressFn,
    location: *mut c_void,
    address: *mut c_int,
) -> c_int {
    let mut found = 0;
    unsafe {
        match call(choice_address(location), &mut found) {
            0 => put_short("MPI_ADDRESS", "MPI_GET_ADDRESS", found, address),
            code => code,
        }
    }
}

unsafe fn extent_of(
    call: c::TypeGetExtentFn,
    datatype: *mut c_int,
    place: *mut c_int,
    procedure: &str,
    result: fn(Aint, Aint) -> Aint,
) -> c_int {
    let (mut lower, mut extent) = (0, 0);
    unsafe {
        match call(datatype::input(datatype), &mut lower, &mut extent) {
            0 => put_short(procedure, "MPI_TYPE_GET_EXTENT", result(lower, extent), place),
            code => code,
        }
    }
}

pub(crate) unsafe fn type_extent(
    call: c::TypeGetExtentFn,
    datatype: *mut c_int,
    extent: *mut c_int,
) -> c_int {
    unsafe { extent_of(call, datatype, extent, "MPI_TYPE_EXTENT", |_, extent| extent) }
}

pub(crate) unsafe fn type_lb(
    call: c::TypeGetExtentFn,
    datatype: *mut c_int,
    displacement: *mut c_int,
) -> c_int {
    unsafe { extent_of(call, datatype, displacement, "MPI_TYPE_LB", |lower, _| lower) }
}

pub(crate) unsafe fn type_ub(
    call: c::TypeGetExtentFn,
    datatype: *mut c_int,
    displacement: *mut c_int,
) -> c_int {
    let upper = |lower: Aint, extent| lower.wrapping_add(extent);
    unsafe { extent_of(call, datatype, displacement, "MPI_TYPE_UB", upper) }
}

pub(crate) unsafe fn type_hvector(
    call: c::TypeCreateHvectorFn,
    count: *mut c_int,
    blocklength: *mut c_int,
    stride: *mut c_int,
    oldtype: *mut c_int,
    newtype: *mut c_int,
) -> c_int {
    let mut made = UNSET;
    unsafe {
        let old = datatype::input(oldtype);
        let code = call(*count, *blocklength, *stride as Aint, old, &mut made);
        datatype::output(newtype, made);
        code
    }
}

unsafe fn widened(values: *const c_int, count: c_int) -> Vec<Aint> {
    (0..usize::try_from(count).unwrap_or(0)).map(|at| unsafe { *values.add(at) as Aint }).collect()
}

pub(crate) unsafe fn type_hindexed(
    call: c::TypeCreateHindexedFn,
    count: *mut c_int,
    blocklengths: *mut c_int,
    displacements: *mut c_int,
    oldtype: *mut c_int,
    newtype: *mut c_int,
) -> c_int {
    let mut made = UNSET;
    unsafe {
        let displacements = widened(displacements, *count);
        let old = datatype::input(oldtype);
        let code = call(*count, blocklengths, displacements.as_ptr(), old, &mut made);
        datatype::output(newtype, made);
        code
    }
}

pub(crate) unsafe fn type_struct(
    call: c::TypeCreateStructFn,
    count: *mut c_int,
    blocklengths: *mut c_int,
    displacements: *mut c_int,
    types: *mut c_int,
    newtype: *mut c_int,
) -> c_int {
    let mut made = UNSET;
    unsafe {
        let displacements = widened(displacements, *count);
        let types = datatype::read(types, *count);
        let code = call(*count, blocklengths, displacements.as_ptr(), types.as_ptr(), &mut made);
        datatype::output(newtype, made);
        code
    }
}

pub(crate) unsafe fn errhandler_get(
    call: c::CommGetErrhandlerFn,
    comm: *mut c_int,
    errhandler: *mut c_int,
) -> c_int {
    let mut found = UNSET;
    unsafe {
        let code = call(comm::input(comm), &mut found);
        errhandler::output(errhandler, found);
        code
    }
}

pub(crate) unsafe fn errhandler_set(
    call: c::CommSetErrhandlerFn,
    comm: *mut c_int,
    errhandler: *mut c_int,
) -> c_int {
    unsafe { call(comm::input(comm), errhandler::input(errhandler)) }
}
