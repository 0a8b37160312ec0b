//! Common parts of the commands beside `mpirun`: parameters on a command line, and the end of a
//! command.

use std::ffi::OsString;

use oxmpi_param::nearest::nearest;
use oxmpi_param::{Found, Params, Source};

use crate::prefix;

/// The message of a failed command, and its exit code.
pub(crate) struct Stop(pub(crate) String, pub(crate) i32);

/// The error of a wrong command line: exit code 2.
pub(crate) fn usage(text: impl ToString) -> Stop {
    Stop(text.to_string(), 2)
}

/// The error of a command that could not do its work: exit code 1.
pub(crate) fn failed(text: impl ToString) -> Stop {
    Stop(text.to_string(), 1)
}

/// Ends a command: prints the help for `None`, or the error. Returns the exit code.
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

/// The parameters of the environment and of the parameter files.
pub(crate) fn parameters() -> Result<Params, Stop> {
    let found = Found::gather(std::env::vars_os(), prefix::find().as_deref());
    if found.errors.is_empty() {
        return Ok(found.params);
    }
    Err(usage(found.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))
}

pub(crate) fn words(args: &[OsString]) -> impl Iterator<Item = String> {
    args.iter().map(|arg| arg.to_string_lossy().into_owned())
}

/// Splits `--option=value` at the `=`.
pub(crate) fn split(arg: &str) -> (&str, Option<String>) {
    match arg.split_once('=') {
        Some((option, value)) if arg.starts_with("--") => (option, Some(value.to_string())),
        _ => (arg, None),
    }
}

/// Whether a parameter name and a value follow this option ([`set_parameter`]).
pub(crate) fn sets_parameter(option: &str) -> bool {
    ["--mca", "-mca", "-ssi", "--ssi"].contains(&option)
}

/// Sets the parameter from the name and the value that follow `option`.
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

/// Whether an argument is an option. A lone `-` is none.
pub(crate) fn is_option(option: &str) -> bool {
    option.starts_with('-') && option.len() > 1
}

/// The error of an option that the command does not have.
pub(crate) fn unknown(option: &str, known: &[&'static str]) -> Stop {
    let all = known.iter().copied().chain(["--help", "--mca"]);
    let hint = nearest(option, all).map(|n| format!("; did you mean '{n}'?"));
    usage(format!("unknown option '{option}'{}", hint.unwrap_or_default()))
}
