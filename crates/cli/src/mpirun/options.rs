//! The command line of `mpirun`: one table of options, which parsing, help and suggestions use.
//!
//! The grammar is older than any library for command lines: long options with one or two dashes
//! (`-np`, `--tag-output`), values after a blank or a `=`, options with two values (`--mca KEY
//! VALUE`), and `:` between programs of one job. The first word that is no option is the program;
//! all words after it are the program's.

mod help;
mod table;
mod words;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oxmpi_daemon::is_notation;
use oxmpi_join::slurm::SlurmAllocation;
use oxmpi_launcher::hosts::named::Hosts;
use oxmpi_launcher::hosts::placement::By;
use oxmpi_launcher::launch::{Bind, OutputFiles, OutputStyle, Stdin};
use oxmpi_param::Param;
use oxmpi_param::nearest::nearest;

use self::table::{Id, SPECS, Spec};

pub(crate) use self::help::{Chapter, Opt, USAGE, chapters, help, topic};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MpirunAction {
    Run(Box<LaunchOptions>),
    Help(Option<String>),
    Version,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaunchOptions {
    pub(crate) programs: Vec<ProgramOptions>,
    pub(crate) output: OutputStyle,
    pub(crate) output_files: Option<OutputFiles>,
    /// `None`: rank 0 gets the standard input.
    pub(crate) stdin: Option<Stdin>,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    pub(crate) report_bindings: bool,
    /// Whether a table has the times of the job's start.
    pub(crate) times: bool,
    pub(crate) oversubscribe: bool,
    pub(crate) no_oversubscribe: bool,
    /// The allocation of Slurm in which this program runs; no option names it.
    pub(crate) allocation: Option<SlurmAllocation>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) every: Option<Duration>,
    pub(crate) checkpoint_on_term: bool,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) inherit: Inherit,
    pub(crate) mca: Vec<Setting>,
    /// Files of `--tune`, the strongest first.
    pub(crate) tune: Vec<PathBuf>,
    /// Files of `--am`, the strongest first.
    pub(crate) am: Vec<PathBuf>,
    pub(crate) by: By,
    rank_by: Option<(ParsedOption, By)>,
    pub(crate) no_local: bool,
    /// The prefix of OxMPI on other hosts, if it differs from this one.
    pub(crate) prefix: Option<PathBuf>,
    pub(crate) no_wait: bool,
    pub(crate) universe_size: Option<u32>,
    pub(crate) no_effect: Vec<String>,
    bind_to: Option<BindTarget>,
    /// Cores for each rank (`--map-by slot:PE=N`).
    cores_each: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// As the user spelt it.
    pub(crate) option: String,
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramOptions {
    pub(crate) count: RankCount,
    pub(crate) per_host: Option<u32>,
    /// Whether placement starts again with the first host when each host has `per_host` ranks, as
    /// in Hydra.
    pub(crate) per_host_again: bool,
    /// Places of ranks in the guide's notation (`n0-3`, `c1`), except `C` or `N` alone.
    pub(crate) places: Vec<String>,
    pub(crate) hosts: Hosts,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) path: Option<OsString>,
    pub(crate) words: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// The variables that its ranks inherit, if they differ from the other programs'.
    pub(crate) inherit: Option<Inherit>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RankCount {
    #[default]
    Unset,
    Number(u32),
    /// One for each processor (`C`).
    PerProcessor,
    /// One for each host (`N`).
    PerHost,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Inherit {
    #[default]
    All,
    Only(Vec<OsString>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BindTarget {
    None,
    Core,
    HardwareThread,
    Package,
    Numa,
}

impl LaunchOptions {
    fn has_no_effect(&mut self, given: &ParsedOption, why: &str) {
        let words: Vec<_> = (0..given.values.len()).map(|i| given.shown(i)).collect();
        let text = [&given.name, " ", &words.join(" ")].concat();
        let text = format!("{} {why}", text.trim_end());
        if !self.no_effect.contains(&text) {
            self.no_effect.push(text);
        }
    }

    pub(crate) fn bind(&self) -> Bind {
        match (self.bind_to, self.cores_each) {
            (Some(BindTarget::None), _) => Bind::None,
            (Some(BindTarget::HardwareThread), _) => Bind::HardwareThread,
            (Some(BindTarget::Package), _) => Bind::Package,
            (Some(BindTarget::Numa), _) => Bind::Numa,
            (Some(BindTarget::Core), each) => Bind::Cores(each.unwrap_or(1)),
            (None, Some(each)) => Bind::Cores(each),
            (None, None) => Bind::Split,
        }
    }
}

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
    Wrong { option: String, value: String, why: String },
    #[error("{option}: {why}")]
    NotYet { option: String, why: &'static str },
    #[error("'{word}' and -ppn both say how many ranks a host has: leave one out")]
    Places { word: String },
    #[error("no program to run: write 'mpirun -n 4 PROGRAM ARGUMENTS' ('mpirun --help' explains)")]
    NoProgram,
    #[error("no program between two ':' or after the last one")]
    EmptyProgram,
    #[error("{file}:{line}: {why}")]
    HostFile { file: String, line: usize, why: String },
    #[error(
        "{file}: it is not executable, so it is taken for a file of programs, as by -configfile: {why}"
    )]
    Schema { file: String, why: String },
    #[error("{option} {value}: nothing can follow it, but '{word}' does; put options before it")]
    AfterFile { option: String, value: String, word: String },
}

/// In bytes.
const LONGEST_SCHEMA: u64 = 1 << 20;

/// The values of `--timeout`: a millisecond to thirty years, far below the limits of clocks.
const TIMEOUT_SECONDS: std::ops::RangeInclusive<f64> = 1e-3..=1e9;

pub(crate) fn timeout(text: &str) -> Option<Duration> {
    let seconds = text.parse().ok().filter(|seconds| TIMEOUT_SECONDS.contains(seconds))?;
    Some(Duration::from_secs_f64(seconds))
}

/// The expected text in error messages about [`timeout`].
pub(crate) const TIMEOUT_WANTED: &str =
    "a number of seconds from 0.001 to 1000000000, such as 90 or 0.5";

/// The times that may pass between two checkpoints.
const INTERVAL_SECONDS: std::ops::RangeInclusive<f64> = 0.1..=1e9;

pub(crate) fn interval(text: &str) -> Option<Duration> {
    let unit_s = match text.chars().last()? {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        'd' => 86400.0,
        _ => return interval_of(text, 1.0),
    };
    interval_of(&text[..text.len() - 1], unit_s)
}

fn interval_of(number: &str, unit_s: f64) -> Option<Duration> {
    let seconds = number.parse::<f64>().ok().map(|number| number * unit_s);
    seconds.filter(|seconds| INTERVAL_SECONDS.contains(seconds)).map(Duration::from_secs_f64)
}

pub(crate) const INTERVAL_WANTED: &str = "a time of 0.1s or more, such as 90s, 30m, 2h or 1d";

/// Reads the command line, without the name of mpirun itself.
pub(crate) fn parse(args: &[OsString]) -> Result<MpirunAction, UsageError> {
    let mut parser = CommandLineReader {
        words: args.iter().cloned().collect(),
        options: LaunchOptions::default(),
        program: ProgramOptions::default(),
        lines: None,
    };
    loop {
        let first = parser.options.programs.is_empty();
        while let Some(word) = parser.words.pop_front() {
            let text = word.to_string_lossy();
            if text == ":" && parser.lines.is_none() {
                return Err(UsageError::EmptyProgram);
            }
            if is_notation(&text) {
                parser.program.places.push(text.into_owned());
            } else if text == "--" {
                parser.program.words.extend(parser.words.pop_front());
                break;
            } else if !text.starts_with('-') || text == "-" {
                parser.program.words.push(word);
                break;
            } else if let Some(command) = parser.option(&text)? {
                return Ok(command);
            }
        }
        if parser.take_schema()? {
            continue;
        }
        parser.place()?;
        let mut program = std::mem::take(&mut parser.program);
        if program.words.is_empty() {
            return Err(if first { UsageError::NoProgram } else { UsageError::EmptyProgram });
        }
        let more = parser.rest_of(&mut program);
        parser.options.programs.push(program);
        if !more {
            parser.check()?;
            return Ok(MpirunAction::Run(Box::new(parser.options)));
        }
    }
}

struct CommandLineReader {
    words: VecDeque<OsString>,
    options: LaunchOptions,
    program: ProgramOptions,
    /// The remaining lines of a file of programs, if `words` is a line of it. In such a line `:` is
    /// an ordinary word.
    lines: Option<VecDeque<Vec<OsString>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ParsedOption {
    name: String,
    values: Vec<OsString>,
}

impl ParsedOption {
    fn shown(&self, i: usize) -> String {
        self.values.get(i).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn bad(&self, wanted: &'static str) -> UsageError {
        UsageError::Value { option: self.name.clone(), value: self.shown(0), wanted }
    }

    fn wrong(&self, why: impl ToString) -> UsageError {
        UsageError::Wrong { option: self.name.clone(), value: self.shown(0), why: why.to_string() }
    }

    fn number(&self, wanted: &'static str) -> Result<u32, UsageError> {
        self.shown(0).parse().ok().filter(|&n| n > 0).ok_or_else(|| self.bad(wanted))
    }

    fn file(&self) -> Result<String, UsageError> {
        oxmpi_param::file::read_text(self.values[0].as_ref()).map_err(|error| self.wrong(error))
    }

    fn pair(&self) -> (OsString, OsString) {
        (self.values[0].clone(), self.values[1].clone())
    }

    fn as_parameter(&self, name: &str) -> Setting {
        Setting { option: self.name.clone(), name: name.into(), value: self.shown(0) }
    }

    /// A switch that the option itself sets.
    fn of_switch(&self, name: &str, value: bool) -> Setting {
        let value = u8::from(value).to_string();
        Setting { option: self.name.clone(), name: name.into(), value }
    }

    fn names(&self) -> Inherit {
        let names = self.values[0].as_bytes().split(|&b| b == b',').filter(|name| !name.is_empty());
        Inherit::Only(names.map(|name| OsStr::from_bytes(name).to_owned()).collect())
    }
}

impl CommandLineReader {
    /// Adds the arguments of a program. Returns whether another program follows.
    fn rest_of(&mut self, program: &mut ProgramOptions) -> bool {
        if let Some(lines) = &mut self.lines {
            program.words.extend(self.words.drain(..));
            let next = lines.pop_front();
            let more = next.is_some();
            self.words = next.unwrap_or_default().into();
            return more;
        }
        let end = self.words.iter().position(|word| word == ":");
        program.words.extend(self.words.drain(..end.unwrap_or(self.words.len())));
        self.words.pop_front();
        end.is_some()
    }

    /// LAM/MPI's `mpirun SCHEMA`: a command line of one word is a file of programs if it names a
    /// text file that cannot be run.
    fn take_schema(&mut self) -> Result<bool, UsageError> {
        let is_first =
            self.lines.is_none() && self.options.programs.is_empty() && self.words.is_empty();
        let [word] = &self.program.words[..] else { return Ok(false) };
        let is_bare = self.program
            == ProgramOptions { words: vec![word.clone()], ..ProgramOptions::default() };
        if !is_first || !is_bare {
            return Ok(false);
        }
        let Some(text) = schema(Path::new(word)) else { return Ok(false) };
        let wrong =
            |why: String| UsageError::Schema { file: word.to_string_lossy().into_owned(), why };
        let mut lines: VecDeque<_> = words::of_file(&text).map_err(wrong)?.into();
        self.words = lines.pop_front().ok_or_else(|| wrong("it names no program".into()))?.into();
        self.lines = Some(lines);
        self.program = ProgramOptions::default();
        Ok(true)
    }

    fn check(&self) -> Result<(), UsageError> {
        match &self.options.rank_by {
            Some((given, by)) if *by != self.options.by => Err(given.wrong(
                "ranks are numbered in the order in which they are placed: leave the option out, or set the order by --map-by",
            )),
            _ => Ok(()),
        }
    }

    /// Applies the guide's notation. Beside `C` or `N` alone, -n sets the number of ranks.
    fn place(&mut self) -> Result<(), UsageError> {
        let ProgramOptions { places, count, per_host, .. } = &mut self.program;
        let only = match &places[..] {
            [word] if word == "C" => RankCount::PerProcessor,
            [word] if word == "N" => RankCount::PerHost,
            [] => return Ok(()),
            [word, ..] if per_host.is_some() => {
                return Err(UsageError::Places { word: word.clone() });
            }
            _ => return Ok(()),
        };
        places.clear();
        if *count == RankCount::Unset {
            *count = only;
        }
        Ok(())
    }

    /// Takes an option with its values. Returns an action if the option requests something other
    /// than a job.
    fn option(&mut self, text: &str) -> Result<Option<MpirunAction>, UsageError> {
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (text, None),
        };
        let spec = Spec::find(name).ok_or_else(|| UsageError::Unknown {
            option: name.to_string(),
            nearest: nearest(name, SPECS.iter().flat_map(|s| s.names.iter().copied())),
        })?;
        let given = self.values(spec, name, inline)?;
        match spec.id {
            Id::Help => {
                let topic = self.words.pop_front();
                return Ok(Some(MpirunAction::Help(
                    topic.map(|topic| topic.to_string_lossy().into_owned()),
                )));
            }
            Id::Version => return Ok(Some(MpirunAction::Version)),
            Id::NotYet => return Err(UsageError::NotYet { option: given.name, why: spec.help }),
            Id::NoEffect => self.options.has_no_effect(&given, spec.help),
            Id::ConfigFile => self.programs_from(&given)?,
            id if self.of_program(id, &given)? => {}
            id => self.of_job(id, &given)?,
        }
        Ok(None)
    }

    fn values(
        &mut self,
        spec: &Spec,
        name: &str,
        inline: Option<String>,
    ) -> Result<ParsedOption, UsageError> {
        let wanted = spec.wanted();
        let mut values: Vec<OsString> = Vec::new();
        match inline {
            Some(value) if wanted.is_empty() => {
                return Err(UsageError::Surplus { option: name.into(), value });
            }
            Some(value) => values.push(value.into()),
            None => {}
        }
        let is_env = matches!(spec.id, Id::JobEnv | Id::ProgramEnv);
        // -genv=NAME=VALUE is accepted, too.
        if is_env && let Some((name, value)) = values.first().and_then(|value| cut(value)) {
            values = vec![name, value];
        }
        while values.len() < wanted.len() {
            let missing = UsageError::Missing { option: name.into(), wanted: wanted[values.len()] };
            values.push(self.words.pop_front().ok_or(missing)?);
            // -genv NAME=VALUE is accepted, too.
            if is_env && let Some((name, value)) = cut(&values[0]) {
                values = vec![name, value];
            }
        }
        Ok(ParsedOption { name: name.to_string(), values })
    }

    /// Takes an option of the program that follows. Returns whether it was one.
    fn of_program(&mut self, id: Id, given: &ParsedOption) -> Result<bool, UsageError> {
        let first = self.options.programs.is_empty();
        let program = &mut self.program;
        match id {
            Id::Ranks => {
                program.count = RankCount::Number(given.number("a number of ranks, 1 or more")?)
            }
            Id::PerHost | Id::PerHostAgain => {
                program.per_host = Some(given.number("a number of ranks, 1 or more")?);
                program.per_host_again = id == Id::PerHostAgain;
            }
            Id::OnePerHost => {
                (program.per_host, program.per_host_again) = (Some(1), given.name.ends_with("-rr"));
            }
            Id::Directory => program.directory = Some(PathBuf::from(&given.values[0])),
            Id::Path => program.path = Some(given.values[0].clone()),
            Id::Host => {
                program.hosts = Hosts::of_list(&given.shown(0)).map_err(|why| given.wrong(why))?
            }
            Id::HostFile => {
                program.hosts =
                    Hosts::of_file(&given.file()?).map_err(|(line, why)| match line {
                        Some(line) => UsageError::HostFile { file: given.shown(0), line, why },
                        None => given.wrong(why),
                    })?;
            }
            Id::Export => {
                let env = if first { &mut self.options.env } else { &mut program.env };
                match variable(&given.values[0]) {
                    Ok(Some(variable)) => env.push(variable),
                    Ok(None) => self
                        .options
                        .has_no_effect(given, "has no effect: no variable of this name is set"),
                    Err(()) => {
                        return Err(given.bad("a variable: NAME=VALUE, or a NAME that is set"));
                    }
                }
            }
            Id::ProgramEnv => program.env.push(given.pair()),
            Id::ProgramEnvList => program.inherit = Some(given.names()),
            Id::ProgramEnvAll => program.inherit = Some(Inherit::All),
            Id::ProgramEnvNone => program.inherit = Some(Inherit::Only(Vec::new())),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn of_job(&mut self, id: Id, given: &ParsedOption) -> Result<(), UsageError> {
        let options = &mut self.options;
        match id {
            Id::JobEnv => options.env.push(given.pair()),
            Id::JobEnvList => options.inherit = given.names(),
            Id::JobEnvAll => options.inherit = Inherit::All,
            Id::JobEnvNone => options.inherit = Inherit::Only(Vec::new()),
            Id::TagOutput => options.output.tags = true,
            Id::TimestampOutput => options.output.times = true,
            Id::MergeOutput => options.output.merges = true,
            Id::Output => output(options, given)?,
            Id::OutputFilename => options.output_files = Some(output_files(&given.values[0])),
            Id::OutPattern | Id::ErrPattern => {
                let files = options.output_files.get_or_insert_default();
                files.print = false;
                files.patterns[usize::from(id == Id::ErrPattern)] = Some(given.values[0].clone());
            }
            Id::Stdin => {
                let rank = |_| given.bad("a rank, 'none' or 'all'");
                options.stdin = Some(match given.shown(0).as_str() {
                    "none" => Stdin::None,
                    "all" => Stdin::All,
                    text => Stdin::Rank(text.parse().map_err(rank)?),
                })
            }
            Id::UniverseSize => {
                options.universe_size = Some(given.number("a number of ranks, 1 or more")?)
            }
            Id::Prefix => options.prefix = Some(PathBuf::from(&given.values[0])),
            Id::Quiet => options.quiet = true,
            Id::Verbose => options.verbose = true,
            Id::Oversubscribe => options.oversubscribe = true,
            Id::NoOversubscribe => options.no_oversubscribe = true,
            Id::BindToCore => options.bind_to = Some(BindTarget::Core),
            Id::BindToNone => options.bind_to = Some(BindTarget::None),
            Id::BindTo => options.bind_to = Some(target(given)?),
            Id::CoresEach => {
                options.cores_each = Some(given.number("a number of cores, 1 or more")? as usize)
            }
            Id::MapBy => map_by(options, &mut self.program, given)?,
            Id::ByNode => options.by = By::Node,
            Id::BySlot => options.by = By::Slot,
            Id::RankBy => options.rank_by = Some((given.clone(), rank_by(given)?)),
            Id::NoLocal => options.no_local = true,
            Id::Display => {
                for word in given.shown(0).to_ascii_lowercase().split(',') {
                    match word {
                        "times" => options.times = true,
                        word if word.contains("bind") => options.report_bindings = true,
                        _ => options.verbose = true,
                    }
                }
            }
            Id::ReportBindings => options.report_bindings = true,
            Id::Timeout => {
                options.timeout =
                    Some(timeout(&given.shown(0)).ok_or_else(|| given.bad(TIMEOUT_WANTED))?);
            }
            Id::Every => {
                options.every =
                    Some(interval(&given.shown(0)).ok_or_else(|| given.bad(INTERVAL_WANTED))?);
            }
            Id::CheckpointOnTerm => options.checkpoint_on_term = true,
            Id::Watchdog => options.mca.push(given.as_parameter("mpi_watchdog")),
            Id::NoForeign => options.mca.push(given.of_switch("mpi_foreign", false)),
            Id::Interface => options.mca.push(given.as_parameter("btl_tcp_if_include")),
            Id::RemoteShell => match given.shown(0).as_str() {
                "ssh" | "rsh" => options.mca.push(given.as_parameter("plm_rsh_agent")),
                _ if given.name.ends_with("-exec") => {
                    options.mca.push(given.as_parameter("plm_rsh_agent"))
                }
                _ => options.has_no_effect(
                    given,
                    "has no effect: other hosts are reached by ssh, rsh or 'oxmpi boot'",
                ),
            },
            Id::LauncherParameter if Param::find(&given.shown(0)).is_none() => {
                options.has_no_effect(
                    given,
                    "has no effect: OxMPI's launcher is neither PRRTE nor PMIx",
                );
            }
            Id::Mca | Id::LauncherParameter => options.mca.push(Setting {
                option: given.name.clone(),
                name: given.shown(0),
                value: given.shown(1),
            }),
            Id::FaultTolerance => {
                let value = match given.shown(0).to_ascii_lowercase().as_str() {
                    "ulfm" | "mpi" | "yes" | "true" | "1" => "1",
                    "none" | "no" | "false" | "0" => "0",
                    _ => return Err(given.bad("one of ulfm, mpi, none")),
                };
                options.mca.push(fault_tolerance(given, value));
            }
            Id::NoWait => options.no_wait = true,
            Id::GoOn => options.mca.push(fault_tolerance(given, "1")),
            Id::InitialErrhandler => options.mca.push(given.as_parameter("mpi_initial_errhandler")),
            Id::Tune => options.tune.extend(files(&given.shown(0), &[','])),
            Id::Am => options.am.extend(files(&given.shown(0), &[',', ':'])),
            _ => {} // options for a default behaviour; all others are handled above
        }
        Ok(())
    }

    fn programs_from(&mut self, given: &ParsedOption) -> Result<(), UsageError> {
        let (option, value) = (given.name.clone(), given.shown(0));
        if self.lines.is_some() {
            return Err(given.wrong("a file of programs cannot name another one"));
        }
        if let Some(word) = self.words.front() {
            return Err(UsageError::AfterFile {
                option,
                value,
                word: word.to_string_lossy().into_owned(),
            });
        }
        let mut lines: VecDeque<_> =
            words::of_file(&given.file()?).map_err(|why| given.wrong(why))?.into();
        self.words = lines.pop_front().ok_or_else(|| given.wrong("it names no program"))?.into();
        self.lines = Some(lines);
        Ok(())
    }
}

/// The text of a file that stands in place of a program: it is neither executable nor a script.
fn schema(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let is_program = found.permissions().mode() & 0o111 != 0;
    let is_found_elsewhere = || {
        let directories = std::env::var_os("PATH").unwrap_or_default();
        path.components().count() == 1
            && std::env::split_paths(&directories).any(|directory| directory.join(path).is_file())
    };
    if !found.is_file() || is_program || found.len() > LONGEST_SCHEMA || is_found_elsewhere() {
        return None;
    }
    std::fs::read_to_string(path)
        .ok()
        .filter(|text| !text.starts_with("#!") && !text.contains('\0'))
}

fn files<'t>(text: &'t str, separators: &'t [char]) -> impl Iterator<Item = PathBuf> + 't {
    text.split(separators).filter(|name| !name.is_empty()).map(PathBuf::from)
}

fn fault_tolerance(given: &ParsedOption, value: &str) -> Setting {
    Setting { option: given.name.clone(), name: "mpi_ft_enable".into(), value: value.into() }
}

fn target(given: &ParsedOption) -> Result<BindTarget, UsageError> {
    match given.shown(0).to_ascii_lowercase().as_str() {
        "none" => Ok(BindTarget::None),
        "core" => Ok(BindTarget::Core),
        "hwthread" | "thread" | "hwt" => Ok(BindTarget::HardwareThread),
        "socket" | "package" => Ok(BindTarget::Package),
        "numa" => Ok(BindTarget::Numa),
        "l1cache" | "l2cache" | "l3cache" | "board" | "user" => Err(given.wrong(
            "ranks cannot be bound to these yet; write none, core, socket, numa or hwthread, or leave the option out",
        )),
        _ => Err(given.bad("one of none, core, socket, numa, hwthread")),
    }
}

fn rank_by(given: &ParsedOption) -> Result<By, UsageError> {
    let text = given.shown(0).to_ascii_lowercase();
    match text.split(':').next().unwrap_or_default() {
        "slot" | "fill" | "core" | "hwthread" => Ok(By::Slot),
        "node" => Ok(By::Node),
        _ => Err(given.bad("one of slot, node")),
    }
}

fn output_files(text: &OsStr) -> OutputFiles {
    match text.as_bytes().strip_suffix(b":nocopy") {
        Some(directory) => OutputFiles::in_directory(OsStr::from_bytes(directory), false),
        None => OutputFiles::in_directory(text, true),
    }
}

/// `--output tag,timestamp,merge,directory=DIR`.
fn output(options: &mut LaunchOptions, given: &ParsedOption) -> Result<(), UsageError> {
    for word in given.shown(0).split(',').filter(|word| !word.is_empty()) {
        match (word.to_ascii_lowercase().as_str(), word.split_once('=')) {
            ("tag" | "tag-detailed" | "tag-fullname", _) => options.output.tags = true,
            ("timestamp", _) => options.output.times = true,
            ("merge" | "merge-stderr-to-stdout", _) => options.output.merges = true,
            (_, Some(("directory" | "dir", directory))) => {
                options.output_files = Some(output_files(directory.as_ref()))
            }
            _ => return Err(given.bad("a list of tag, timestamp, merge, directory=DIR")),
        }
    }
    Ok(())
}

/// `--map-by slot:PE=2:OVERSUBSCRIBE`, `--map-by ppr:2:node`.
fn map_by(
    options: &mut LaunchOptions,
    program: &mut ProgramOptions,
    given: &ParsedOption,
) -> Result<(), UsageError> {
    let text = given.shown(0).to_ascii_lowercase();
    let mut parts = text.split(':');
    match parts.next().unwrap_or_default() {
        "" | "slot" | "core" | "hwthread" => options.by = By::Slot,
        "node" => options.by = By::Node,
        "ppr" => {
            let each = parts.next().and_then(|each| each.parse().ok()).filter(|each| *each > 0);
            let (Some(each), Some("node")) = (each, parts.next()) else {
                return Err(given.bad("ppr:N:node, which is N ranks on each host"));
            };
            program.per_host = Some(each);
            program.per_host_again = false;
        }
        _ => {
            return Err(
                given.wrong("ranks cannot be placed so yet; 'slot' and 'core' fill one host after the other, 'node' places one rank on each host after another, 'ppr:N:node' starts N on each")
            );
        }
    }
    for part in parts {
        match (part, part.strip_prefix("pe=")) {
            ("hwtcpus" | "corecpus", _) => {}
            ("oversubscribe", _) => options.oversubscribe = true,
            ("nooversubscribe", _) => options.no_oversubscribe = true,
            (_, Some(cores)) => {
                let wanted = "a number of cores for each rank behind PE=, 1 or more";
                let cores =
                    cores.parse().ok().filter(|&n| n > 0).ok_or_else(|| given.bad(wanted))?;
                options.cores_each = Some(cores);
            }
            _ => {
                let why = format!("'{part}' is none of PE=N, OVERSUBSCRIBE, NOOVERSUBSCRIBE");
                return Err(given.wrong(why));
            }
        }
    }
    Ok(())
}

/// Reads the value of `-x`: a variable with its value, or the name of a variable of mpirun.
fn variable(text: &OsStr) -> Result<Option<(OsString, OsString)>, ()> {
    match cut(text) {
        Some((name, _)) if name.is_empty() => Err(()),
        Some(variable) => Ok(Some(variable)),
        None if text.is_empty() => Err(()),
        None => Ok(std::env::var_os(text).map(|value| (text.to_owned(), value))),
    }
}

fn cut(text: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|&b| b == b'=')?;
    let part = |bytes| OsStr::from_bytes(bytes).to_owned();
    Some((part(&bytes[..at]), part(&bytes[at + 1..])))
}

#[cfg(test)]
mod tests;
