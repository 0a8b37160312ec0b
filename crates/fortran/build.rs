//! Writes the Fortran entry points from the table of functions, and sets the linker arguments.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use oxmpi_abi::table::functions;
use oxmpi_fortran_build::{F08, FortranLibrary};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let all = functions().iter().filter(|function| !function.is_extension());
    let types: String = all.map(oxmpi_fortran_build::function_type).collect();
    fs::write(out.join("c.rs"), oxmpi_fortran_build::declarations() + &types)?;
    let special = oxmpi_fortran_build::own_variables();
    let library = FortranLibrary { special: &special, f08: F08::Descriptors, missing: &[] };
    oxmpi_fortran_build::write(out, &library)?;
    link_arguments(out)
}

fn link_arguments(out: &Path) -> Result<(), Box<dyn Error>> {
    let script = out.join("exports.map");
    fs::write(&script, "{ global: mpi_*; pmpi_*; MPI_*; PMPI_*; oxmpi*; };\n")?;
    for argument in [
        format!("--version-script={}", script.display()),
        "-soname,libmpifort_oxmpi.so.1".to_owned(),
        // The C library is in the same directory.
        "-rpath,$ORIGIN".to_owned(),
        "--enable-new-dtags".to_owned(),
    ] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    }
    // The library needs libmpi_abi.so.1, which is not built yet: an empty library of this name.
    let stub = out.join("libmpi_abi.so");
    let source = out.join("empty.c");
    fs::write(&source, "")?;
    let made = Command::new("cc")
        .args(["-shared", "-nostdlib", "-Wl,-soname,libmpi_abi.so.1", "-o"])
        .args([&stub, &source])
        .status()?;
    if !made.success() {
        return Err("cc cannot make an empty library".into());
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,--no-as-needed");
    println!("cargo::rustc-cdylib-link-arg={}", stub.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,--as-needed");
    Ok(())
}
