//! The command lines of checkpoints and restarts.

use std::ffi::OsString;

use oxmpi_param::nearest::nearest;
use oxmpi_param::{Found, Params, Source};

use crate::prefix;

/// What was wrong with a command, and its exit code.
pub(super) struct Stop(pub(super) String, pub(super) i32);

pub(super) fn usage(text: impl ToString) -> Stop {
    Stop(text.to_string(), 2)
}

pub(super) fn failed(text: impl ToString) -> Stop {
    Stop(text.to_string(), 1)
}

/// A command line that was read.
pub(super) struct Command {
    pub(super) params: Params,
    pub(super) words: Vec<String>,
    /// Options that were given, with their values.
    options: Vec<(&'static str, String)>,
}

impl Command {
    /// Reads a command line with these options, of which some take a value; `None` if help was wanted.
    pub(super) fn read(
        args: &[OsString],
        known: &[&'static str],
        with_value: &[&str],
    ) -> Result<Option<Command>, Stop> {
        let found = Found::gather(std::env::vars_os(), prefix::find().as_deref());
        if !found.errors.is_empty() {
            return Err(usage(found.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")));
        }
        let mut command = Command { params: found.params, words: Vec::new(), options: Vec::new() };
        let mut args = args.iter().map(|arg| arg.to_string_lossy().into_owned());
        while let Some(arg) = args.next() {
            let (option, inline) = match arg.split_once('=') {
                Some((option, value)) if arg.starts_with("--") => (option, Some(value.to_string())),
                _ => (arg.as_str(), None),
            };
            match option {
                "-h" | "--help" => return Ok(None),
                "--mca" | "-mca" | "-ssi" | "--ssi" => {
                    let (Some(name), Some(value)) = (args.next(), args.next()) else {
                        return Err(usage(format!("{option} needs a parameter and its value after it")));
                    };
                    let source = Source::CommandLine(format!("{option} {name} {value}"));
                    command.params.set_from(&name, &value, source).map_err(usage)?;
                }
                _ if option.starts_with('-') && option.len() > 1 => {
                    let Some(name) = known.iter().find(|name| **name == option) else {
                        let all = known.iter().copied().chain(["--help", "--mca"]);
                        let hint = nearest(option, all).map(|n| format!("; did you mean '{n}'?"));
                        return Err(usage(format!("unknown option '{option}'{}", hint.unwrap_or_default())));
                    };
                    let value = match (with_value.contains(name), inline) {
                        (true, inline) => inline
                            .or_else(|| args.next())
                            .ok_or_else(|| usage(format!("{option} needs a value after it")))?,
                        (false, None) => String::new(),
                        (false, Some(_)) => return Err(usage(format!("{option} takes no value"))),
                    };
                    command.options.push((name, value));
                }
                _ => command.words.push(arg),
            }
        }
        Ok(Some(command))
    }

    /// Whether an option was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The value of an option; the last one counts.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }
}

/// Says what came of a command, and returns its exit code.
pub(super) fn answer(name: &str, help: &str, done: Result<Option<i32>, Stop>) -> i32 {
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
