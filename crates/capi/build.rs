//! Completes the C library: a stub for each function that no source file defines, the exact signature of every function
//! for the compiler to hold the definitions against, and the link arguments that make the exports right.

use std::env;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use oxmpi_abi::FuncId;
use oxmpi_abi::coverage::Coverage;
use oxmpi_abi::extensions::EXTENSIONS;
use oxmpi_abi::prototype::{Param, params, rust_base};

fn main() -> Result<(), Box<dyn Error>> {
    let sources = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("src");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-changed=build.rs");

    let coverage = Coverage::scan(&sources)?;
    for mistake in &coverage.mistakes {
        println!("cargo::error={mistake}");
    }
    let mut stubs = String::new();
    for id in coverage.missing() {
        if id.function().result != "int" {
            // A stub reports through its result, so it needs one that can be an error code.
            println!("cargo::error={id} returns {} and must be written by hand", id.function().result);
            continue;
        }
        stub(&mut stubs, id)?;
    }
    fs::write(out.join("stubs.rs"), stubs)?;
    fs::write(out.join("signatures.rs"), signatures()?)?;
    link_arguments(out)
}

/// One function that only says that it is not there.
fn stub(text: &mut String, id: FuncId) -> Result<(), Box<dyn Error>> {
    let mut on = None;
    writeln!(text, "mpi! {{\n    fn {id}(")?;
    for param in params(id.function().params) {
        let kind = if on.is_none() { handled_as(&param) } else { None };
        let unused = if kind.is_some() { "" } else { "_" };
        writeln!(text, "        {unused}{}: {},", param.name, param.rust_type())?;
        on = on.or(kind.map(|kind| format!("Some(On::{kind}({}))", param.name)));
    }
    let on = on.as_deref().unwrap_or("None");
    writeln!(text, "    ) -> c_int {{\n        unsupported::raise(FuncId::{id}, {on})\n    }}\n}}")?;
    Ok(())
}

/// Whether an error of the call is raised on this argument, and as what kind of object.
fn handled_as(param: &Param<'_>) -> Option<String> {
    let kinds = ["MPI_Comm", "MPI_Win", "MPI_File", "MPI_Session"];
    (param.by_value() && kinds.contains(&param.base)).then(|| rust_base(param.base))
}

/// The type of each function as a Rust function pointer, under the function's name.
fn signatures() -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    for id in FuncId::all() {
        let types: Vec<_> = params(id.function().params).map(|param| param.rust_type()).collect();
        let result = rust_base(id.function().result);
        writeln!(text, "pub(crate) type {id} = unsafe extern \"C\" fn({}) -> {result};", types.join(", "))?;
    }
    Ok(text)
}

/// The compiler's own version script exports the `PMPI_` functions only, for the weak `MPI_` names exist in assembler alone.
/// A second, anonymous script adds them: lld, the toolchain's linker here, joins the two; GNU ld refuses.
fn link_arguments(out: &Path) -> Result<(), Box<dyn Error>> {
    let script = out.join("exports.map");
    let extensions: String = EXTENSIONS.iter().map(|name| format!(" {name}; P{name};")).collect();
    fs::write(&script, format!("{{ global: MPI_*; PMPI_*;{extensions} }};\n"))?;
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", script.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    Ok(())
}
