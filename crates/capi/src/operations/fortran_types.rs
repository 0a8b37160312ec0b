//! Fortran's types by precision, range or size, and pairs by their members (MPI-5.0 sections 19.1.9
//! and 6.9.4).
//!
//! A type by precision and range has no name but belongs to the library. The same arguments always
//! give the same handle, which the program must not free. `state::fortran` has these handles.

use crate::state::library::{Running, TypeRef};
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Datatype as Handle;
use oxmpi_objects::datatype::{Combiner, Datatype};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::predefined::{by_size, pair_of};
use oxmpi_objects::shown::{self, ValueKind};
use std::ffi::c_int;
use std::sync::Arc;

/// A handle for a type that was a constructor argument: the library's own handle, or a new one for
/// a type of the program.
pub(crate) fn handle_of(library: &Running, datatype: &Datatype) -> Handle {
    match named(datatype) {
        Some(handle) => handle,
        None if datatype.contents().combiner.is_predefined() => {
            library.fortran_types.handle(&library.datatypes, datatype.again())
        }
        None => library.datatypes.insert(Arc::new(datatype.again())).raw() as Handle,
    }
}

/// The handle of a datatype that the standard names.
fn named(datatype: &Datatype) -> Option<Handle> {
    let facts = datatype.facts().filter(|_| datatype.contents().combiner == Combiner::Named)?;
    Some(facts.handle.into())
}

pub(crate) fn type_create_f90_real(library: &Running, p: c_int, r: c_int) -> Result<Handle> {
    Ok(library.fortran_types.handle(&library.datatypes, Datatype::f90_real(p, r)?))
}

pub(crate) fn type_create_f90_complex(library: &Running, p: c_int, r: c_int) -> Result<Handle> {
    Ok(library.fortran_types.handle(&library.datatypes, Datatype::f90_complex(p, r)?))
}

pub(crate) fn type_create_f90_integer(library: &Running, r: usize) -> Result<Handle> {
    Ok(library.fortran_types.handle(&library.datatypes, Datatype::f90_integer(r as c_int)?))
}

pub(crate) fn type_match_size(_: &Running, typeclass: c_int, size: usize) -> Result<Handle> {
    let wrong = |text| MpiError::new(abi::MPI_ERR_ARG, text);
    let class = match typeclass {
        abi::MPI_TYPECLASS_INTEGER => "integer",
        abi::MPI_TYPECLASS_REAL => "real",
        abi::MPI_TYPECLASS_COMPLEX => "complex",
        abi::MPIX_TYPECLASS_LOGICAL => "logical",
        other => {
            let other = shown::number(ValueKind::TypeClass, other);
            return Err(wrong(format!("typeclass is {other}, which is none")));
        }
    };
    let found = by_size(typeclass, size as c_int);
    let found = found.ok_or_else(|| {
        wrong(format!("size is {size}: there is no {class} type of {size} bytes"))
    })?;
    Ok(found.handle.into())
}

/// MPI_DATATYPE_NULL if there is no such pair.
pub(crate) fn type_get_value_index(
    _: &Running,
    value: TypeRef<'_>,
    index: TypeRef<'_>,
) -> Result<Handle> {
    let pair = named(&value).zip(named(&index)).and_then(|(value, index)| pair_of(value, index));
    Ok(pair.map_or(abi::MPI_DATATYPE_NULL, |facts| facts.handle.into()))
}
