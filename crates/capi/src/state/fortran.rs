//! Fortran's types by precision and range, and facts of its compiler.

use oxmpi_abi::types::Datatype as Handle;
use oxmpi_mem::table::Table;
use oxmpi_objects::datatype::Datatype;
use oxmpi_objects::info::Info;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// Handles by constructor and arguments. Fortran has few kinds, so their number is bounded.
#[derive(Debug, Default)]
pub(crate) struct FortranTypes(Mutex<HashMap<(c_int, Vec<i32>), Handle>>);

impl FortranTypes {
    /// The one handle for all types with the arguments of `datatype`.
    pub(crate) fn handle(&self, table: &Table<Arc<Datatype>>, datatype: Datatype) -> Handle {
        let contents = datatype.contents();
        let key = (contents.combiner.to_int(), contents.integers.to_vec());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(key).or_insert_with(|| table.insert(Arc::new(datatype)).raw() as Handle)
    }
}

#[derive(Debug, Default)]
pub(crate) struct FortranAbi {
    pub(crate) info: Option<Info>,
    /// The bytes of .TRUE. and .FALSE., by the size of the LOGICAL.
    pub(crate) booleans: Vec<FortranBooleans>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FortranBooleans {
    pub(crate) yes: Vec<u8>,
    pub(crate) no: Vec<u8>,
}
