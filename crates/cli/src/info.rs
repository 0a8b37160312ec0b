//! `oxmpi info`: what this installation is.

use oxmpi_param::{
    Params,
    registry::{Level, Param},
};

use crate::prefix;

/// The functions that the C library does not have yet, found in its sources when this program was built.
const MISSING: &[&str] = include!(concat!(env!("OUT_DIR"), "/missing.rs"));

/// What this installation is, as text: `basic` facts, the `params`, the functions that are `missing`.
pub(crate) fn text(basic: bool, params: bool, missing: bool) -> String {
    let mut out = String::new();
    let functions = oxmpi_abi::FuncId::all().len();
    if basic {
        let prefix = prefix::find().map(|p| p.display().to_string());
        let prefix = prefix.as_deref().unwrap_or("not installed");
        out += &format!(
            "OxMPI {}\n\
             prefix:      {prefix}\n\
             interface:   MPI 5.0 standard ABI (libmpi_abi.so.1)\n\
             functions:   {} of {functions} are there\n\
             transports:  shared memory, one host\n",
            env!("CARGO_PKG_VERSION"),
            functions - MISSING.len()
        );
    }
    if params {
        out += &params_text();
    }
    if missing {
        out += &format!(
            "{} of {functions} functions of MPI-5.0 are not there yet; calling one is an error:\n",
            MISSING.len()
        );
        MISSING.iter().for_each(|name| out += &format!("  {name}\n"));
    }
    out
}

fn params_text() -> String {
    let mut out = String::new();
    let params = Params::from_env().unwrap_or_else(|error| {
        out += &format!("parameters are at their defaults, because of an error: {error}\n");
        Params::default()
    });
    out += "parameters ('mpirun --mca NAME VALUE' or OXMPI_MCA_NAME=VALUE):\n";
    for (param, value) in params.iter() {
        out += &param_text(param, value);
    }
    out
}

fn param_text(param: &Param, value: u64) -> String {
    let changed = if value == param.default {
        String::new()
    } else {
        format!(" (default {})", param.show(param.default))
    };
    let level = match param.level {
        Level::User => "for users",
        Level::Tune => "for tuning",
        Level::Develop => "for work on OxMPI itself",
    };
    format!(
        "  {} = {}{changed}\n      {}\n      {}; {level}\n",
        param.name,
        param.show(value),
        param.help,
        param.wanted()
    )
}
