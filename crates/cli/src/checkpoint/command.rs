//! The command lines of checkpoints and restarts.

use std::ffi::OsString;

use oxmpi_param::Params;

use crate::command::{
    Stop, is_option, parameters, set_parameter, sets_parameter, split, unknown, usage, words,
};

pub(super) struct Command {
    pub(super) params: Params,
    pub(super) words: Vec<String>,
    options: Vec<(&'static str, String)>,
}

impl Command {
    /// Reads a command line with these options, some with a value; `None` if help was requested.
    pub(super) fn read(
        args: &[OsString],
        known: &[&'static str],
        with_value: &[&str],
    ) -> Result<Option<Command>, Stop> {
        let mut command = Command { params: parameters()?, words: Vec::new(), options: Vec::new() };
        let mut args = words(args);
        while let Some(arg) = args.next() {
            let (option, inline) = split(&arg);
            match option {
                "-h" | "--help" => return Ok(None),
                _ if sets_parameter(option) => set_parameter(&mut command.params, option, &mut args)?,
                _ if is_option(option) => {
                    let name = known.iter().find(|name| **name == option);
                    let name = name.ok_or_else(|| unknown(option, known))?;
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

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }
}
