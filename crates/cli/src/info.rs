//! `oxmpi info`: what this installation is.

use oxmpi_param::{Params, registry::Param};

use crate::prefix;

/// The functions that the C library does not have yet, found in its sources when this program was built.
const MISSING: &[&str] = include!(concat!(env!("OUT_DIR"), "/missing.rs"));

/// Prints what this installation is. `all` adds the environment's say, `params` the parameters, `missing` the
/// functions that are not there yet.
pub(crate) fn show(all: bool, params: bool, missing: bool) {
    let functions = oxmpi_abi::FuncId::all().len();
    if all || !(params || missing) {
        println!("OxMPI {}", env!("CARGO_PKG_VERSION"));
        let prefix = prefix::find().map(|p| p.display().to_string());
        println!("prefix:      {}", prefix.as_deref().unwrap_or("not installed"));
        println!("interface:   MPI 5.0 standard ABI (libmpi_abi.so.1)");
        println!("functions:   {} of {functions} are there", functions - MISSING.len());
        println!("transports:  shared memory, one host");
    }
    if params {
        show_params();
    }
    if missing {
        println!(
            "{} of {functions} functions of MPI-5.0 are not there yet; calling one is an error:",
            MISSING.len()
        );
        MISSING.iter().for_each(|name| println!("  {name}"));
    }
}

fn show_params() {
    let params = Params::from_env().unwrap_or_else(|error| {
        println!("parameters are at their defaults, because of an error: {error}");
        Params::default()
    });
    println!("parameters ('mpirun --mca NAME VALUE' or OXMPI_MCA_NAME=VALUE):");
    for (param, value) in params.iter() {
        show_param(param, value);
    }
}

fn show_param(param: &Param, value: u64) {
    let changed = if value == param.default {
        String::new()
    } else {
        format!(" (default {})", param.show(param.default))
    };
    println!("  {} = {}{changed}", param.name, param.show(value));
    println!("      {}", param.help);
    println!("      {}; for {:?} use", param.wanted(), param.level);
}
