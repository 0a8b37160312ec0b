// The modules that all libraries for Fortran programs of other MPIs share: each includes this file.
// `convert` and `kinds` convert numbers and handles of C here; the handles are those of the
// standard ABI already.

include!("../../fortran/src/modules.rs");

#[path = "../common/convert.rs"]
mod convert;
mod creators;
mod functions;
mod handles;
mod interface;
#[path = "../common/kinds.rs"]
mod kinds;
#[path = "../common/results.rs"]
mod results;
#[path = "../common/shown.rs"]
mod shown;
mod special;
#[path = "../common/standard.rs"]
mod standard;
#[path = "../common/states.rs"]
mod states;
#[path = "../common/statuses.rs"]
mod statuses;

pub(crate) use standard::core;

/// The constants of the standard ABI. Numbers have the values of the other ABI.
mod abi {
    pub(crate) use oxmpi_abi::constants::*;

    include!(concat!(env!("OUT_DIR"), "/numbers.rs"));
}

/// Programs of the other ABI cannot ask for the sizes of Fortran's types.
mod sizes {
    pub(crate) fn set() {}
}

/// The types of the standard ABI, with the other ABI's status.
mod types {
    pub(crate) use crate::status::ForeignStatus as Status;
    pub(crate) use oxmpi_abi::types::*;
    use std::ffi::{c_int, c_void};

    pub(crate) type GrequestQueryFunction =
        unsafe extern "C-unwind" fn(*mut c_void, *mut Status) -> c_int;
}
