//! Parts of all commands but `mpirun`: reading the command line by clap, and exit codes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use oxmpi_param::nearest::nearest;
use oxmpi_param::{Found, Params, Source};

use crate::mpirun::{TIMEOUT_WANTED, seconds};
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

/// Prints the error of a failed command. Returns the exit code.
pub(crate) fn answer(name: &str, done: Result<i32, Stop>) -> i32 {
    done.unwrap_or_else(|Stop(text, code)| {
        oxmpi_sys::complain!("{name}: {text}");
        code
    })
}

/// Reads the arguments of the command `name`. `Err`: the exit code, after the help, the version or
/// the error was printed.
pub(crate) fn read<A: clap::Parser>(name: &str, args: &[OsString]) -> Result<A, i32> {
    let command = A::command();
    let inner = args.first().and_then(|word| command.find_subcommand(word));
    let name =
        inner.map_or_else(|| name.to_string(), |inner| format!("{name} {}", inner.get_name()));
    parse(args).map_err(|error| match error {
        CommandLineError::Text(text) => {
            crate::say(&text);
            0
        }
        CommandLineError::Wrong(text) => {
            oxmpi_sys::complain!("{name}: {text} ('{name} --help' explains)");
            2
        }
    })
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandLineError {
    #[error("{0}")]
    Text(String),
    #[error("{0}")]
    Wrong(String),
}

pub(crate) fn parse<A: clap::Parser>(args: &[OsString]) -> Result<A, CommandLineError> {
    let mut command = A::command();
    command.build(); // adds --help
    // The arguments of a subcommand follow its name.
    let inner = args.first().and_then(|word| command.find_subcommand(word)).unwrap_or(&command);
    let words = args.iter().map(|word| with_two_dashes(inner, word));
    let words: Vec<OsString> = std::iter::once(command.get_name().into()).chain(words).collect();
    let matches = command.try_get_matches_from(words);
    let read = matches.and_then(|matches| A::from_arg_matches(&matches));
    read.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            CommandLineError::Text(error.render().to_string())
        }
        _ => CommandLineError::Wrong(message(&error)),
    })
}

/// Gives a long option of `command` its second dash: users of other MPI libraries type `-mca`. The
/// words of `oxmpi exec` stay, as options of its program are among them.
fn with_two_dashes(command: &clap::Command, word: &OsString) -> OsString {
    if command.get_positionals().any(clap::Arg::is_trailing_var_arg_set) {
        return word.clone();
    }
    let bare = word.to_str().and_then(|text| text.strip_prefix('-')).filter(|bare| bare.len() > 1);
    let name = bare.map(|bare| bare.split('=').next().unwrap_or(bare));
    let is_long = |name| {
        command.get_arguments().any(|arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(name) || aliases.contains(&name)
        })
    };
    match (name, bare) {
        (Some(name), Some(bare)) if is_long(name) => format!("--{bare}").into(),
        _ => word.clone(),
    }
}

/// The error of a command line in one sentence, which names the wrong argument.
fn message(error: &clap::Error) -> String {
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(all)) => all.join(", "),
        Some(ContextValue::StyledStrs(all)) => all.iter().map(StyledStr::to_string).collect(),
        Some(ContextValue::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let arg = of(ContextKind::InvalidArg);
    // `--ranks <N>` is `--ranks`; `<PID>` is `PID`.
    let name = arg.split(' ').next().unwrap_or_default().trim_matches(['<', '>', '[', ']', '.']);
    let value = of(ContextKind::InvalidValue);
    let given =
        if name.starts_with('-') { format!("{name} {value}") } else { format!("'{value}'") };
    let hint = |kind| match of(kind) {
        near if near.is_empty() => String::new(),
        near => format!("; did you mean '{near}'?"),
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let what = if arg.starts_with('-') { "option" } else { "word" };
            format!("unknown {what} '{arg}'{}", hint(ContextKind::SuggestedArg))
        }
        ErrorKind::InvalidSubcommand => {
            let word = of(ContextKind::InvalidSubcommand);
            format!("unknown word '{word}'{}", hint(ContextKind::SuggestedSubcommand))
        }
        ErrorKind::MissingRequiredArgument => format!("{name} is needed"),
        ErrorKind::MissingSubcommand => "a word is needed".to_string(),
        ErrorKind::InvalidValue if value.is_empty() => format!("{name} needs a value after it"),
        ErrorKind::InvalidValue => {
            let hint = hint(ContextKind::SuggestedValue);
            format!("{given}: expected {}{hint}", of(ContextKind::ValidValue))
        }
        ErrorKind::WrongNumberOfValues => {
            format!("{name} needs {} values after it", of(ContextKind::ExpectedNumValues))
        }
        ErrorKind::TooManyValues => format!("{name} takes no value"),
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            format!("{given}: {why}")
        }
        ErrorKind::ArgumentConflict => {
            let prior = of(ContextKind::PriorArg);
            let prior = prior.split(' ').next().unwrap_or_default();
            if prior == name {
                format!("{name} is given twice")
            } else {
                format!("{name} has no meaning beside {prior}")
            }
        }
        _ => error.to_string(),
    }
}

/// `--mca NAME VALUE`, any number of times.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Settings {
    /// Set a parameter ('oxmpi info --params' lists all)
    #[arg(long = "mca", aliases = ["ssi", "gmca"], num_args = 2, value_names = ["NAME", "VALUE"])]
    #[arg(allow_hyphen_values = true, action = clap::ArgAction::Append)]
    words: Vec<String>,
}

impl Settings {
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.words.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str()))
    }

    pub(crate) fn push(&mut self, name: &str, value: &str) {
        self.words.extend([name.to_string(), value.to_string()]);
    }

    pub(crate) fn apply(&self, params: &mut Params) -> Result<(), String> {
        self.pairs().try_for_each(|(name, value)| {
            let source = Source::CommandLine(format!("--mca {name} {value}"));
            params.set_from(name, value, source).map_err(|error| error.to_string())
        })
    }

    /// The parameters of the environment and of the parameter files, overridden by the settings.
    pub(crate) fn parameters(&self) -> Result<Params, Stop> {
        let mut found = Found::gather(std::env::vars_os(), prefix::find().as_deref());
        if !found.errors.is_empty() {
            let all: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
            return Err(usage(all.join("\n")));
        }
        self.apply(&mut found.params).map_err(usage)?;
        Ok(found.params)
    }
}

pub(crate) fn pid(text: &str) -> Result<u32, String> {
    let wrong = "not the number of a process".to_string();
    text.parse().ok().filter(|pid| *pid > 0).ok_or(wrong)
}

pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    seconds(text).ok_or_else(|| format!("not {TIMEOUT_WANTED}"))
}

pub(crate) fn within(text: &str, limits: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let wrong = || format!("expected a whole number from {} to {}", limits.start(), limits.end());
    text.parse().ok().filter(|number| limits.contains(number)).ok_or_else(wrong)
}

/// The suffixes k and m mean KiB and MiB.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    oxmpi_param::bytes(text)
        .ok_or_else(|| format!("expected a whole number from 0 to {}", isize::MAX))
}

pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

pub(crate) fn words(args: &[OsString]) -> impl Iterator<Item = String> {
    args.iter().map(|arg| arg.to_string_lossy().into_owned())
}

pub(crate) fn program() -> Result<PathBuf, Stop> {
    let program = oxmpi_sys::library::program();
    program.map_err(|error| failed(format!("cannot find this program itself: {error}")))
}

pub(crate) fn split(arg: &str) -> (&str, Option<String>) {
    match arg.split_once('=') {
        Some((option, value)) if arg.starts_with("--") => (option, Some(value.to_string())),
        _ => (arg, None),
    }
}

/// Whether a parameter name and a value follow this option.
pub(crate) fn sets_parameter(option: &str) -> bool {
    ["--mca", "-mca", "-ssi", "--ssi"].contains(&option)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Oxmpi;

    fn read_line(line: &str) -> Result<Oxmpi, CommandLineError> {
        parse(&line.split_whitespace().map(Into::into).collect::<Vec<_>>())
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (line, wanted) in [
            ("inof", "unknown word 'inof'; did you mean 'info'?"),
            ("--verison", "unknown option '--verison'; did you mean '--version'?"),
            ("info --event", "unknown option '--event'; did you mean '--events'?"),
            ("info --param", "--param needs a value after it"),
            ("info --mca rpi", "--mca needs 2 values after it"),
            ("info --ranks 0", "--ranks 0: expected a whole number from 1 to 2147483647"),
            (
                "bench latensy",
                "'latensy': expected latency, bandwidth, overlap, idle; did you mean 'latency'?",
            ),
            ("bench --rpi pigeon", "--rpi pigeon: expected shm, "),
            ("bench --ranks 1", "--ranks 1: expected a whole number from 2"),
            ("bench --json --markdown x", "has no meaning beside"),
            ("boot a b", "unknown word 'b'"),
            ("boot --timeout 0", "--timeout 0: not a number of seconds"),
            ("halt --verbos", "unknown option '--verbos'; did you mean '--verbose'?"),
            ("doctor --measure=1", "--measure takes no value"),
            ("quiesce --timeout x 1", "--timeout x: not a number of seconds"),
            ("quiesce --timeout 1", "PID is needed"),
            ("quiesce -1", "'-1': not the number of a process"),
            ("quiesce 1 2", "unknown word '2'"),
            ("checkpoint --kill", "PID is needed"),
            ("checkpoint --dir /x", "PID is needed"),
            ("checkpoint 7 8", "unknown word '8'"),
            ("checkpoint --advise 0", "--advise 0: not a number of seconds above 0"),
            ("restart --mca cr_files cut", "SET is needed"),
            (
                "restart --files cat set",
                "--files cat: expected cut, refuse, accept; did you mean 'cut'?",
            ),
            ("restart --every 1y set", "--every 1y: not a time of 0.1s or more"),
            ("restart --host a --app b set", "has no meaning beside"),
            ("tune --resume a --mca b c", "--resume has no meaning beside --mca"),
            ("tune --network 1,2,3,4", "--simulate is needed"),
        ] {
            match read_line(line) {
                Err(CommandLineError::Wrong(text)) => {
                    assert!(text.contains(wanted), "{line}: {text}")
                }
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn one_dash_is_as_good_as_two_and_help_ends_the_command() {
        assert!(
            read_line("quiesce -timeout=5 7").is_ok()
                && read_line("info --ranks 2 --ranks 3").is_ok()
                && read_line("restart -ssi cr_keep 1 set").is_ok()
        );
        assert!(read_line("nodes -nc").is_ok() && read_line("checkpoint -tree --kill 7").is_ok());
        match read_line("exec N find -help --help").map(|oxmpi| oxmpi.verb) {
            Ok(crate::Verb::Exec(args)) => {
                assert_eq!(args.words, ["N", "find", "-help", "--help"]);
            }
            other => panic!("{other:?}"),
        }
        for line in ["", "info -help", "quiesce", "checkpoint", "restart", "explain", "exec --help"]
        {
            assert!(matches!(read_line(line), Err(CommandLineError::Text(_))), "{line}");
        }
    }
}
