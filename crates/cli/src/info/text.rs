//! The facts as text for people.

use oxmpi_param::registry::{Level, Param};
use oxmpi_param::{Params, foreign};

use super::{Asked, Facts, MISSING};

pub(super) fn text(asked: &Asked, facts: &Facts) -> String {
    let mut out = String::new();
    let functions = oxmpi_abi::FuncId::all().len();
    if asked.basic {
        let prefix = facts.prefix.as_deref().unwrap_or("not installed");
        out += &format!(
            "OxMPI {}\n\
             prefix:      {prefix}\n\
             interface:   MPI 5.0 standard ABI (libmpi_abi.so.1)\n\
             functions:   {} of {functions} are there\n",
            env!("CARGO_PKG_VERSION"),
            functions - MISSING.len()
        );
    }
    if asked.select {
        out += &selection(&facts.found.params);
    }
    if asked.params {
        out += "parameters ('mpirun --mca NAME VALUE' or OXMPI_MCA_NAME=VALUE; 'oxmpi info --help' has all ways):\n";
        for param in &facts.params {
            out += &one(&facts.found.params, param);
        }
        if asked.only.is_none() {
            out += &ignored(facts);
        }
    }
    if asked.collectives {
        out += &if asked.parsable { crate::collectives::parsable() } else { crate::collectives::text() };
    }
    if asked.missing {
        out += &format!(
            "{} of {functions} functions of MPI-5.0 are not there yet; calling one is an error:\n",
            MISSING.len()
        );
        MISSING.iter().for_each(|name| out += &format!("  {name}\n"));
    }
    out
}

fn selection(params: &Params) -> String {
    let mut out = String::from("transport (parameter 'rpi'):\n");
    for candidate in params.selection().candidates {
        let name = candidate.transport.name();
        out += &format!("  {name:<5} priority {:>3}, {}\n", candidate.priority, candidate.reason);
    }
    out
}

fn one(params: &Params, param: &Param) -> String {
    let quoted = |value| {
        let text = param.show(&value);
        if text.is_empty() { "''".to_string() } else { text }
    };
    let level = match param.level {
        Level::User => "for users",
        Level::Tune => "for tuning",
        Level::Develop => "for work on OxMPI itself",
    };
    let aliases = match param.aliases {
        [] => String::new(),
        names => format!("; also named {}", names.join(", ")),
    };
    format!(
        "  {} = {}\n      from: {}; default {}; {}; {level}{aliases}\n      {}\n",
        param.name,
        quoted(params.value(param)),
        params.source(param),
        quoted(param.default_value()),
        param.wanted(),
        param.help,
    )
}

fn ignored(facts: &Facts) -> String {
    let mut out = String::new();
    if !facts.found.ignored.is_empty() {
        out += "ignored, as OxMPI has no such parameters (they are taken to be meant for Open MPI):\n";
    }
    for ignored in &facts.found.ignored {
        let name = ignored.variable.strip_prefix(oxmpi_param::FOREIGN_ENV_PREFIX).unwrap_or_default();
        let hint = match (ignored.nearest, foreign::instead_of(name)) {
            (Some(nearest), _) => format!(": did you mean '{nearest}'?"),
            (None, Some(instead)) => format!(": {instead}"),
            (None, None) => String::new(),
        };
        out += &format!("  {}{hint}\n", ignored.variable);
    }
    out
}
