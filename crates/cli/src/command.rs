//! What the commands beside `mpirun` have in common: parameters on a command line, and how a command ends.

use std::ffi::OsString;

use oxmpi_param::nearest::nearest;
use oxmpi_param::{Found, Params, Source};

use crate::prefix;

/// What was wrong with a command, and its exit code.
pub(crate) struct Stop(pub(crate) String, pub(crate) i32);

/// The command line is wrong: exit code 2.
pub(crate) fn usage(text: impl ToString) -> Stop {
    Stop(text.to_string(), 2)
}

/// The command could not be carried out: exit code 1.
pub(crate) fn failed(text: impl ToString) -> Stop {
    Stop(text.to_string(), 1)
}

/// Says what came of a command, and returns its exit code; without a result it prints the help.
pub(crate) fn answer(name: &str, help: &str, done: Result<Option<i32>, Stop>) -> i32 {
    match done {
        Ok(Some(code)) => code,
        Ok(None) => {
            crate::say(help);
            0
        }
        Err(Stop(text, code)) => {
            oxmpi_sys::complain!("oxmpi {name}: {text}");
            code
        }
    }
}

/// The parameters of the environment and the files.
pub(crate) fn parameters() -> Result<Params, Stop> {
    let found = Found::gather(std::env::vars_os(), prefix::find().as_deref());
    if found.errors.is_empty() {
        return Ok(found.params);
    }
    Err(usage(found.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))
}

/// The words of a command line.
pub(crate) fn words(args: &[OsString]) -> impl Iterator<Item = String> {
    args.iter().map(|arg| arg.to_string_lossy().into_owned())
}

/// An option, and its value if that follows behind a `=`.
pub(crate) fn split(arg: &str) -> (&str, Option<String>) {
    match arg.split_once('=') {
        Some((option, value)) if arg.starts_with("--") => (option, Some(value.to_string())),
        _ => (arg, None),
    }
}

/// Whether this option sets a parameter, whose name and value follow it ([`set_parameter`]).
pub(crate) fn sets_parameter(option: &str) -> bool {
    ["--mca", "-mca", "-ssi", "--ssi"].contains(&option)
}

/// Sets the parameter that is named in the words behind such an option.
pub(crate) fn set_parameter(
    params: &mut Params,
    option: &str,
    args: &mut impl Iterator<Item = String>,
) -> Result<(), Stop> {
    let (Some(name), Some(value)) = (args.next(), args.next()) else {
        return Err(usage(format!("{option} needs a parameter and its value after it")));
    };
    let source = Source::CommandLine(format!("{option} {name} {value}"));
    params.set_from(&name, &value, source).map_err(usage)
}

/// Whether a word is an option, and no lone `-`.
pub(crate) fn is_option(option: &str) -> bool {
    option.starts_with('-') && option.len() > 1
}

/// An option that is none of those that the command has.
pub(crate) fn unknown(option: &str, known: &[&'static str]) -> Stop {
    let all = known.iter().copied().chain(["--help", "--mca"]);
    let hint = nearest(option, all).map(|n| format!("; did you mean '{n}'?"));
    usage(format!("unknown option '{option}'{}", hint.unwrap_or_default()))
}
