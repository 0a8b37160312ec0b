//! Writes the functions of the library from the table of functions.

use oxmpi_abi::table::{Function, FunctionForm};
use oxmpi_face_build::{Face, HandleKind};

/// The names of persistent collectives in Open MPI 4, before they were in the standard.
fn other_name(function: &Function) -> Option<String> {
    let is_older = function.form == FunctionForm::Persistent
        && function.entry.is.contains(&"collective")
        && !function.name.ends_with("_c");
    is_older.then(|| function.name.replacen("MPI_", "MPIX_", 1))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    oxmpi_face_build::write(&Face {
        constants: oxmpi_abi::foreign::OPEN_MPI,
        soname: "libmpi.so.40",
        handles: HandleKind::Addresses,
        by_hand: &[],
        other_name,
        // Module mpi_f08 has the same variables.
        ignored_statuses: &[
            ("MPI_F_STATUS_IGNORE", "mpi_fortran_status_ignore_"),
            ("MPI_F_STATUSES_IGNORE", "mpi_fortran_statuses_ignore_"),
            ("MPI_F08_STATUS_IGNORE", "mpi_fortran_status_ignore_"),
            ("MPI_F08_STATUSES_IGNORE", "mpi_fortran_statuses_ignore_"),
        ],
        exports: &["OMPI_*", "ompi_*"],
    })
}
