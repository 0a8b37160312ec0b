//! Writes the functions of the library from the table of functions.

use oxmpi_face_build::{Face, HandleKind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    oxmpi_face_build::write(&Face {
        constants: oxmpi_abi::foreign::OPEN_MPI,
        soname: "libmpi.so.40",
        handles: HandleKind::Addresses,
        by_hand: &[],
        missing: &[],
        exports: &["OMPI_*", "ompi_*"],
    })
}
