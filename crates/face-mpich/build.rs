//! Writes the functions of the library from the table of functions.

use oxmpi_abi::table::Function;
use oxmpi_face_build::{Face, HandleKind};

/// The names of MPICH for functions that became standard later, and of its conversions of handles,
/// which are macros in some versions and functions in others (4.2).
fn other_name(function: &Function) -> Option<String> {
    let renamed = [
        ("MPI_Remove_error_", "", "MPIX_Delete_error_", ""),
        ("MPI_", "_toint", "MPI_", "_c2f"),
        ("MPI_", "_fromint", "MPI_", "_f2c"),
    ];
    renamed.into_iter().find_map(|(start, end, new_start, new_end)| {
        let word = function.name.strip_prefix(start)?.strip_suffix(end)?;
        Some(format!("{new_start}{word}{new_end}"))
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    oxmpi_face_build::write(&Face {
        constants: oxmpi_abi::foreign::MPICH,
        soname: "libmpi.so.12",
        handles: HandleKind::Integers,
        by_hand: &["MPI_File_fromint", "MPI_File_toint"],
        other_name,
        ignored_statuses: &[
            ("MPI_F_STATUS_IGNORE", "mpipriv1_ + 8"),
            ("MPI_F_STATUSES_IGNORE", "mpipriv2_"),
            ("MPI_F08_STATUS_IGNORE", "MPIR_F08_MPI_STATUS_IGNORE_OBJ"),
            ("MPI_F08_STATUSES_IGNORE", "MPIR_F08_MPI_STATUSES_IGNORE_OBJ"),
        ],
        exports: &["MPIR_*", "MPII_*"],
    })
}
