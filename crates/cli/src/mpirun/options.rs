//! The command line of `mpirun`: one table of options, from which parsing, help and suggestions come.
//!
//! The grammar is older than any library for command lines: long options with one or two dashes (`-np`,
//! `--tag-output`), values after a blank or a `=`, one that takes two values (`--mca KEY VALUE`), and `:` between
//! programs of one job. The first word that is no option is the program; all words after it are the program's.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use oxmpi_param::nearest::nearest;

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Run(Options),
    Help,
    Version,
}

/// What the command line says about the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) programs: Vec<Program>,
    pub(crate) tag_output: bool,
    pub(crate) timeout: Option<Duration>,
    /// Variables for all ranks.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) mca: Vec<(String, String)>,
}

/// One program of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) ranks: u32,
    /// The program's name and arguments.
    pub(crate) words: Vec<OsString>,
    /// Variables for its ranks, by `-x` after the first `:`.
    pub(crate) env: Vec<(OsString, OsString)>,
}

/// What is wrong with a command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("unknown option '{option}'{}; 'mpirun --help' lists all", nearest.map(|n| format!(" (did you mean '{n}'?)")).unwrap_or_default())]
    Unknown { option: String, nearest: Option<&'static str> },
    #[error("{option} needs {wanted} after it")]
    Missing { option: String, wanted: &'static str },
    #[error("{option} takes no value, but got '{value}'")]
    Surplus { option: String, value: String },
    #[error("{option} {value}: not {wanted}")]
    Value { option: String, value: String, wanted: &'static str },
    #[error("{option} {value}: {why}")]
    NotYet { option: String, value: String, why: &'static str },
    #[error("no program to run: write 'mpirun -n 4 PROGRAM ARGUMENTS' ('mpirun --help' explains)")]
    NoProgram,
    #[error("no program between two ':' or after the last one")]
    EmptyProgram,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    Ranks,
    Env,
    TagOutput,
    Timeout,
    Mca,
    InitialErrhandler,
    BindTo,
    MapBy,
    Nothing,
    Help,
    Version,
}

/// One option: what it is called, its values, what it does.
struct Spec {
    id: Id,
    /// All spellings; the first is the one that the help shows first.
    names: &'static [&'static str],
    values: &'static [&'static str],
    help: &'static str,
}

const SPECS: &[Spec] = &[
    Spec {
        id: Id::Ranks,
        names: &["-n", "-np", "--np", "--n", "-c"],
        values: &["N"],
        help: "start N ranks (default 1); more than there are cores is fine",
    },
    Spec {
        id: Id::Env,
        names: &["-x"],
        values: &["NAME[=VALUE]"],
        help: "give the ranks this environment variable (all of mpirun's own are passed on anyway)",
    },
    Spec {
        id: Id::TagOutput,
        names: &["--tag-output"],
        values: &[],
        help: "put [rank] in front of each line of output",
    },
    Spec {
        id: Id::Timeout,
        names: &["--timeout"],
        values: &["SECONDS"],
        help: "end the job after this time, such as 90 or 0.5, with exit code 124",
    },
    Spec {
        id: Id::Mca,
        names: &["--mca"],
        values: &["NAME", "VALUE"],
        help: "set a parameter; 'oxmpi info --params' lists them",
    },
    Spec {
        id: Id::InitialErrhandler,
        names: &["--initial-errhandler"],
        values: &["HANDLER"],
        help: "mpi_errors_are_fatal (default), mpi_errors_abort or mpi_errors_return",
    },
    Spec {
        id: Id::BindTo,
        names: &["--bind-to"],
        values: &["none"],
        help: "ranks are never bound to cores yet, so this changes nothing",
    },
    Spec { id: Id::MapBy, names: &["--map-by"], values: &[":OVERSUBSCRIBE"], help: "allowed anyway" },
    Spec { id: Id::Nothing, names: &["--oversubscribe"], values: &[], help: "allowed anyway" },
    Spec { id: Id::Nothing, names: &["--allow-run-as-root"], values: &[], help: "allowed anyway" },
    Spec { id: Id::Help, names: &["--help", "-h"], values: &[], help: "print this" },
    Spec { id: Id::Version, names: &["--version", "-V"], values: &[], help: "print the version" },
];

/// What `--timeout` may be: a millisecond to thirty years, far from what clocks can hold.
const TIMEOUT_SECONDS: std::ops::RangeInclusive<f64> = 1e-3..=1e9;

/// The help text.
pub(crate) fn help() -> String {
    let mut out = String::from(
        "Usage: mpirun [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...\n\n\
         Starts the ranks of an MPI job on this host and waits for them. Programs that do not use MPI run too.\n\n",
    );
    for spec in SPECS {
        let left = format!("{} {}", spec.names.join(", "), spec.values.join(" "));
        out.push_str(&format!("  {left:<34} {}\n", spec.help));
    }
    out.push_str(
        "\nSeveral programs, separated by ':', are one job; ranks are numbered through.\n\
         Exit code: 0; or that of the first rank that failed (128 + signal if one killed it); or MPI_Abort's;\n\
         124 after a timeout; 127 if there is no such program; 2 for a wrong command line.\n\
         Ctrl-C ends the job, a second Ctrl-C at once.\n",
    );
    out
}

/// Reads the command line (without the program's own name).
pub(crate) fn parse(args: &[OsString]) -> Result<Command, UsageError> {
    let mut options = Options::default();
    let mut words = args.iter();
    let mut first = true;
    loop {
        let mut program = Program { ranks: 1, ..Program::default() };
        let mut more = false;
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            if !text.starts_with('-') || text == "-" {
                if text == ":" {
                    return Err(UsageError::EmptyProgram);
                }
                program.words.push(word.clone());
                break;
            }
            if text == "--" {
                program.words.extend(words.next().cloned());
                break;
            }
            if let Some(command) = option(&text, &mut words, &mut options, &mut program, first)? {
                return Ok(command);
            }
        }
        if program.words.is_empty() {
            return Err(if first { UsageError::NoProgram } else { UsageError::EmptyProgram });
        }
        for word in words.by_ref() {
            if word == ":" {
                more = true;
                break;
            }
            program.words.push(word.clone());
        }
        options.programs.push(program);
        first = false;
        if !more {
            return Ok(Command::Run(options));
        }
    }
}

fn option<'a>(
    text: &str,
    words: &mut impl Iterator<Item = &'a OsString>,
    options: &mut Options,
    program: &mut Program,
    first: bool,
) -> Result<Option<Command>, UsageError> {
    let (name, inline) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_string())),
        None => (text, None),
    };
    let spec = find(name).ok_or_else(|| UsageError::Unknown {
        option: name.to_string(),
        nearest: nearest(name, SPECS.iter().flat_map(|s| s.names.iter().copied())),
    })?;
    let mut values: Vec<OsString> = Vec::new();
    match (inline, spec.values) {
        (Some(value), []) => return Err(UsageError::Surplus { option: name.into(), value }),
        (Some(value), _) => values.push(value.into()),
        (None, _) => {}
    }
    while values.len() < spec.values.len() {
        let missing = || UsageError::Missing { option: name.into(), wanted: spec.values[values.len()] };
        values.push(words.next().cloned().ok_or_else(missing)?);
    }
    let shown = |i: usize| values[i].to_string_lossy().into_owned();
    let bad = |wanted| UsageError::Value { option: name.into(), value: shown(0), wanted };
    match spec.id {
        Id::Ranks => {
            program.ranks = shown(0)
                .parse()
                .ok()
                .filter(|&n| n > 0)
                .ok_or_else(|| bad("a number of ranks, 1 or more"))?;
        }
        Id::Env => {
            let env = if first { &mut options.env } else { &mut program.env };
            env.extend(
                variable(&values[0]).map_err(|()| bad("a variable: NAME=VALUE, or a NAME that is set"))?,
            );
        }
        Id::TagOutput => options.tag_output = true,
        Id::Timeout => {
            let seconds = shown(0).parse().ok().filter(|seconds| TIMEOUT_SECONDS.contains(seconds));
            let wanted = "a number of seconds from 0.001 to 1000000000, such as 90 or 0.5";
            options.timeout = Some(Duration::from_secs_f64(seconds.ok_or_else(|| bad(wanted))?));
        }
        Id::Mca => options.mca.push((shown(0), shown(1))),
        Id::InitialErrhandler => options.mca.push(("mpi_initial_errhandler".into(), shown(0))),
        Id::BindTo if shown(0) == "none" => {}
        Id::BindTo => {
            let why = "ranks cannot be bound to cores yet; leave the option out, or say '--bind-to none'";
            return Err(UsageError::NotYet { option: name.into(), value: shown(0), why });
        }
        Id::MapBy if shown(0).eq_ignore_ascii_case(":oversubscribe") => {}
        Id::MapBy => {
            let why = "ranks cannot be placed yet (there is one host); only ':OVERSUBSCRIBE' is understood";
            return Err(UsageError::NotYet { option: name.into(), value: shown(0), why });
        }
        Id::Nothing => {}
        Id::Help => return Ok(Some(Command::Help)),
        Id::Version => return Ok(Some(Command::Version)),
    }
    Ok(None)
}

/// `--option` and `-option` are the same, as they always were.
fn find(name: &str) -> Option<&'static Spec> {
    let is = |known: &str| known == name || (known.len() > 3 && known.strip_prefix('-') == Some(name));
    SPECS.iter().find(|spec| spec.names.iter().any(|known| is(known)))
}

/// Reads the value of `-x`: a variable with its value, or one of our own (which is nothing new to the ranks).
fn variable(text: &OsStr) -> Result<Option<(OsString, OsString)>, ()> {
    let bytes = text.as_encoded_bytes();
    match bytes.iter().position(|&b| b == b'=') {
        Some(0) => Err(()),
        None if bytes.is_empty() => Err(()),
        None => Ok(std::env::var_os(text).map(|value| (text.to_owned(), value))),
        Some(at) => {
            // Cut at an ASCII character, which is never inside another one.
            let text = text.to_string_lossy();
            Ok(Some((text[..at.min(text.len())].into(), text[at + 1..].into())))
        }
    }
}

#[cfg(test)]
mod tests;
