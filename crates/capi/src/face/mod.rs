//! The C face, which the build script writes from the table of functions.
// SAFETY of all calls: the contract of the C interface (see `mpi!`).
#![allow(clippy::all, clippy::undocumented_unsafe_blocks, unused_unsafe)]

#[macro_use]
mod export;

use crate::arguments::strings::{self, *};
use crate::arguments::{self, *};
use crate::errors::*;
use crate::operations::bodies::*;
use crate::operations::collectives::arguments::*;
use crate::operations::files::on_file;
use crate::operations::sessions::on_session;
use crate::operations::tool;
use crate::operations::windows::on_win;
use crate::state::handlers::HandlerKind;
use crate::state::library::*;
use crate::state::named::*;
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Session;
use oxmpi_abi::types::*;
use oxmpi_engine::Mode;
use oxmpi_objects::attribute::{Language, ObjectKind};
use oxmpi_objects::datatype::Form as TypeForm;
use std::ffi::{c_char, c_int, c_void};

include!(concat!(env!("OUT_DIR"), "/face.rs"));

/// The names of the Fortran conversions before MPI-5.0, for the same functions. `mpi.h` has inline
/// functions of these names, but build systems still search the library for them with their own
/// declarations (AC_CHECK_FUNCS). A Fortran library that defines the names takes precedence. They
/// must be in the object file of the functions, so in this module (see `mpi!`).
macro_rules! fortran_names {
    ($($kind:literal)*) => { $(
        std::arch::global_asm!(
            concat!(".weak MPI_", $kind, "_c2f"),
            concat!(".set MPI_", $kind, "_c2f, PMPI_", $kind, "_toint"),
            concat!(".weak PMPI_", $kind, "_c2f"),
            concat!(".set PMPI_", $kind, "_c2f, PMPI_", $kind, "_toint"),
            concat!(".weak MPI_", $kind, "_f2c"),
            concat!(".set MPI_", $kind, "_f2c, PMPI_", $kind, "_fromint"),
            concat!(".weak PMPI_", $kind, "_f2c"),
            concat!(".set PMPI_", $kind, "_f2c, PMPI_", $kind, "_fromint"),
        );
    )* };
}

fortran_names! { "Comm" "Errhandler" "File" "Group" "Info" "Message" "Op" "Request" "Session" "Type" "Win" }
