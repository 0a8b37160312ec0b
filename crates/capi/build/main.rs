//! Writes the C face from the table of functions, and sets the linker arguments for the exports.

mod bodies;
mod face;
mod tools;

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    println!("cargo::rerun-if-changed=build");

    let faces: String = oxmpi_abi::table::functions().iter().map(face::face).collect();
    fs::write(out.join("face.rs"), faces + &addresses())?;
    link_arguments(out)
}

/// The table by which the libraries of this installation for other ABIs call functions past symbols
/// of the same names.
fn addresses() -> String {
    let all = oxmpi_abi::table::functions();
    let fields: String =
        all.iter().map(|function| format!("    {0}: {0},\n", function.name)).collect();
    format!(
        "{}\n#[unsafe(no_mangle)]\npub(crate) static oxmpi_functions: FunctionTable = FunctionTable {{\n    \
         functions: {},\n    spawned_codes: crate::operations::spawn::spawned_codes,\n    \
         show_values_by: oxmpi_objects::shown::show_values_by,\n{fields}}};\n",
        oxmpi_abi::table::address_table(),
        all.len()
    )
}

/// The compiler's version script exports only the `PMPI_` functions, since the weak `MPI_` names
/// exist only in assembler. A second, anonymous script adds them. lld, the linker of the toolchain,
/// joins the two scripts; GNU ld refuses.
fn link_arguments(out: &Path) -> Result<(), Box<dyn Error>> {
    let script = out.join("exports.map");
    fs::write(&script, "{ global: MPI_*; PMPI_*; MPIX_*; oxmpi_functions; };\n")?;
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", script.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    // The table of addresses has this library's functions, whatever library comes first.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // The symbols around the list of transports must not be exported.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,start-stop-visibility=hidden");
    order_functions()
}

/// In release builds the functions that most programs use lie together. `cargo xtask order` writes
/// the script, and explains it.
fn order_functions() -> Result<(), Box<dyn Error>> {
    let script = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("order.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    if env::var("PROFILE")? == "release" {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{}", script.display());
    }
    Ok(())
}
