//! Writes the functions of the library from the table of functions.

use oxmpi_face_build::{Face, HandleKind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    oxmpi_face_build::write(&Face {
        constants: oxmpi_abi::foreign::MPICH,
        soname: "libmpi.so.12",
        handles: HandleKind::Integers,
        by_hand: &["MPI_File_fromint", "MPI_File_toint"],
        missing: &[],
        exports: &["MPIR_*", "MPII_*"],
    })
}
