//! Fortran's types by precision, range or size, and pairs by their members (MPI-5.0 sections 19.1.9
//! and 6.9.4).
//!
//! A type by precision and range has no name but belongs to the library. The same arguments always
//! give the same handle, which the program must not free. [`FortranTypes`] has these handles.

use crate::errors::on_none;
use crate::library::{Running, null, put};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Datatype as Handle;
use oxmpi_objects::datatype::{Combiner, Datatype};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::predefined::{by_size, pair_of};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// Handles by constructor and arguments. Fortran has few kinds, so their number is bounded.
#[derive(Debug, Default)]
pub(crate) struct FortranTypes(Mutex<HashMap<(c_int, Vec<i32>), Handle>>);

impl FortranTypes {
    /// The one handle for all types with the arguments of `datatype`.
    pub(crate) fn handle(&self, library: &Running, datatype: Datatype) -> Handle {
        let contents = datatype.contents();
        let key = (contents.combiner.to_int(), contents.integers.to_vec());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known
            .entry(key)
            .or_insert_with(|| library.datatypes.insert(Arc::new(datatype)).raw() as Handle)
    }
}

/// A handle for a type that was a constructor argument: the library's own handle, or a new one for
/// a type of the program.
pub(crate) fn handle_of(library: &Running, datatype: &Datatype) -> Handle {
    match (datatype.contents().combiner, datatype.facts()) {
        (Combiner::Named, Some(facts)) => facts.handle.into(),
        (combiner, _) if combiner.is_predefined() => {
            library.fortran_types.handle(library, datatype.again())
        }
        _ => library.datatypes.insert(Arc::new(datatype.again())).raw() as Handle,
    }
}

fn by_kind(function: FuncId, place: *mut Handle, make: impl FnOnce() -> Result<Datatype>) -> c_int {
    on_none(function, |library| {
        if place.is_null() {
            return Err(null("newtype"));
        }
        let handle = library.fortran_types.handle(library, make()?);
        // SAFETY: the C program passes a place for a handle.
        unsafe { put(place, handle, "newtype") }
    })
}

mpi! {
    fn MPI_Type_create_f90_real(p: c_int, r: c_int, newtype: *mut Handle) -> c_int {
        by_kind(FuncId::MPI_Type_create_f90_real, newtype, || Datatype::f90_real(p, r))
    }

    fn MPI_Type_create_f90_complex(p: c_int, r: c_int, newtype: *mut Handle) -> c_int {
        by_kind(FuncId::MPI_Type_create_f90_complex, newtype, || Datatype::f90_complex(p, r))
    }

    fn MPI_Type_create_f90_integer(r: c_int, newtype: *mut Handle) -> c_int {
        by_kind(FuncId::MPI_Type_create_f90_integer, newtype, || Datatype::f90_integer(r))
    }

    fn MPI_Type_match_size(typeclass: c_int, size: c_int, datatype: *mut Handle) -> c_int {
        on_none(FuncId::MPI_Type_match_size, |_| {
            let class = match typeclass {
                abi::MPI_TYPECLASS_INTEGER => "integer",
                abi::MPI_TYPECLASS_REAL => "real",
                abi::MPI_TYPECLASS_COMPLEX => "complex",
                abi::MPIX_TYPECLASS_LOGICAL => "logical",
                other => return Err(MpiError::new(abi::MPI_ERR_ARG, format!("typeclass is {other}, which is none"))),
            };
            let found = by_size(typeclass, size).ok_or_else(|| {
                MpiError::new(abi::MPI_ERR_ARG, format!("size is {size}: there is no {class} type of {size} bytes"))
            })?;
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(datatype, found.handle.into(), "datatype") }
        })
    }

    /// MPI_DATATYPE_NULL if there is no such pair.
    fn MPI_Type_get_value_index(value_type: Handle, index_type: Handle, pair_type: *mut Handle) -> c_int {
        on_none(FuncId::MPI_Type_get_value_index, |library| {
            library.datatype(value_type)?;
            library.datatype(index_type)?;
            let pair = pair_of(value_type, index_type).map_or(abi::MPI_DATATYPE_NULL, |facts| facts.handle.into());
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(pair_type, pair, "pair_type") }
        })
    }
}
