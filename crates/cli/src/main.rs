//! One program with several names. The name by which it is called selects the tool.
//!
//! | name | tool |
//! |---|---|
//! | `mpirun`, `mpiexec` | start the ranks of a job: [`mpirun`] |
//! | `mpicc`, `mpicxx`, `mpic++`, `mpiCC` | compile C and C++ programs: [`wrapper`] |
//! | `mpifort`, `mpif90`, `mpif77` | compile Fortran programs: [`wrapper`] |
//! | `ompi_info`, `laminfo` | `oxmpi info` in the form of Open MPI and LAM/MPI: [`ompi_info`] |
//! | `lamboot`, `lamhalt`, `lamnodes`, `lamexec` | as `oxmpi boot` and so on: [`daemons`] |
//! | `lamcheckpoint`, `cr_checkpoint` | as `oxmpi checkpoint`: [`checkpoint`] |
//! | `lamrestart`, `cr_restart` | as `oxmpi restart`: [`checkpoint`] |
//! | `oxmpi` | the commands of [`Verb`] |
//!
//! `oxmpi mpirun ...` is the same as `mpirun ...`, and so on.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // these macros panic when nobody reads the output

mod bench;
mod checkpoint;
mod collectives;
mod command;
mod daemons;
mod doctor;
mod explain;
mod info;
mod mpirun;
mod ompi_info;
mod pages;
mod prefix;
mod quiesce;
mod relay;
mod uninstall;
mod wrapper;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::exit;

use crate::command::Stop;
use oxmpi_launcher::hosts::named::{RESOLVER_WORD, resolver};
use oxmpi_launcher::hosts::step::CALL_OPTION;
use oxmpi_launcher::launch::{NAMESPACE_WORD, RELAY_WORD};
use oxmpi_sys::stdio;
use wrapper::Language;

/// An MPI library and launcher.
#[derive(Debug, clap::Parser)]
#[command(name = "oxmpi", version, max_term_width = 100, arg_required_else_help = true)]
#[command(disable_help_subcommand = true, args_override_self = true)]
#[command(after_help = "\
'mpirun -n N PROGRAM ...' runs a job ('mpirun --help'), 'mpicc ...' compiles a program ('mpicc
--help'). 'oxmpi mpirun ...' is the same as 'mpirun ...', and so on.")]
struct Oxmpi {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Info(info::InfoArgs),
    Bench(bench::BenchArgs),
    Doctor(doctor::DoctorArgs),
    Explain(explain::ExplainArgs),
    Tune(Box<oxmpi_tune::options::TuneArgs>),
    Boot(daemons::BootArgs),
    Nodes(daemons::NodesArgs),
    Exec(daemons::ExecArgs),
    Halt(daemons::HaltArgs),
    Quiesce(quiesce::QuiesceArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Restart(checkpoint::RestartArgs),
    /// Print a manual page as roff
    Man {
        /// mpirun, mpicc, oxmpi, oxmpi-params, ompi_info, lamcheckpoint, or oxmpi-VERB
        page: String,
    },
    /// Print the completions of mpirun or of oxmpi for a shell
    Completions {
        shell: clap_complete::Shell,
        #[arg(value_enum, default_value = "mpirun")]
        command: pages::Completed,
    },
    Uninstall(uninstall::UninstallArgs),
}

fn main() {
    stdio::begin();
    oxmpi_sys::spawn::unignore_children();
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let mut name = args
        .first()
        .and_then(|a| Path::new(a).file_name())
        .map(|n| n.to_string_lossy().into_owned());
    // In a distribution's /usr/bin each program has a name that no other MPI has.
    if let Some(own) = name.as_deref().and_then(|name| name.strip_suffix(".oxmpi")) {
        name = Some(own.to_owned());
    }
    if !args.is_empty() {
        args.remove(0);
    }
    let tools = tools();
    if !name.as_deref().is_some_and(|n| tools.contains(&n))
        && args.first().and_then(|a| a.to_str()).is_some_and(|a| tools.contains(&a))
    {
        name = Some(args.remove(0).to_string_lossy().into_owned());
    }
    let name = name.as_deref().unwrap_or_default();
    let code = match Language::of(name) {
        Some(language) => wrapper::main(language, name, &args),
        None if name == "mpirun" || name == "mpiexec" => mpirun::main(name, &args),
        None if name == checkpoint::ACTION_PROGRAM => checkpoint::at_action(),
        None if checkpoint::LAM_NAMES.contains(&name) => checkpoint::called(name, &args),
        None if ompi_info::NAMES.contains(&name) => ompi_info::main(name, &args),
        None => {
            if let Some((_, word)) = daemons::NAMES.iter().find(|(lam, _)| *lam == name) {
                args.insert(0, word.into());
            }
            oxmpi(&args)
        }
    };
    exit(stdio::end(if name.is_empty() { "oxmpi" } else { name }, code))
}

/// Prints a text for the user. A failed write changes the exit code at the end ([`stdio::end`]).
fn say(text: &str) {
    stdio::say(text.as_bytes());
}

/// The names other than `oxmpi` by which this program is called.
fn tools() -> Vec<&'static str> {
    let tools = ["mpirun", "mpiexec", "ompi_info", "laminfo"];
    let tools = tools
        .into_iter()
        .chain(wrapper::NAMES)
        .chain(daemons::NAMES.map(|(name, _)| name))
        .chain(checkpoint::LAM_NAMES);
    tools.collect()
}

fn oxmpi(args: &[OsString]) -> i32 {
    internal(args).unwrap_or_else(|| match command::read::<Oxmpi>("oxmpi", args) {
        Ok(Oxmpi { verb }) => {
            let (name, words) = args.split_first().map_or((OsStr::new(""), args), |(n, w)| (n, w));
            command::answer(&format!("oxmpi {}", name.display()), run(&verb, words))
        }
        Err(code) => code,
    })
}

/// Runs a process that this installation starts for itself; `None`: a user's command.
fn internal(args: &[OsString]) -> Option<i32> {
    let words: Vec<&str> = args.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    Some(match words[..] {
        ["bench-rank", ref measurements @ ..] => bench::rank_main(measurements),
        ["daemon"] => daemons::serve(""),
        ["daemon", level] => daemons::serve(level),
        ["tune-rank"] => tune_rank(),
        ["doctor", ref words @ ..] => return doctor::internal(words),
        [RELAY_WORD] => relay::main(),
        [RESOLVER_WORD, ref names @ ..] => resolver(names),
        [NAMESPACE_WORD, above] => oxmpi_sys::spawn::init(above.parse().unwrap_or(0)),
        ["agent"] => mpirun::agent("", None),
        ["agent", CALL_OPTION, invitation] => mpirun::agent("", Some(invitation)),
        ["agent", level] => mpirun::agent(level, None),
        ["agent", level, CALL_OPTION, invitation] => mpirun::agent(level, Some(invitation)),
        _ => return None,
    })
}

/// `words` follow the name of the command on the command line.
fn run(verb: &Verb, words: &[OsString]) -> Result<i32, Stop> {
    match verb {
        Verb::Info(args) => info::main(args),
        Verb::Bench(args) => bench::main(args),
        Verb::Doctor(args) => doctor::main(args),
        Verb::Explain(args) => explain::main(args),
        Verb::Tune(args) => Ok(oxmpi_tune::command::main(args)),
        Verb::Boot(args) => daemons::boot(args),
        Verb::Nodes(args) => daemons::nodes(args),
        Verb::Exec(args) => daemons::exec(args),
        Verb::Halt(args) => daemons::halt(args),
        Verb::Quiesce(args) => quiesce::main(args),
        Verb::Checkpoint(args) => checkpoint::checkpoint(args),
        Verb::Restart(args) => checkpoint::restart(args, words),
        Verb::Man { page } => pages::man(page),
        Verb::Completions { shell, command } => pages::completions(*shell, *command),
        Verb::Uninstall(args) => uninstall::main(args),
    }
}

fn tune_rank() -> i32 {
    match oxmpi_tune::rank::main() {
        Ok(()) => 0,
        Err(text) => {
            oxmpi_sys::complain!("oxmpi tune: {text}");
            1
        }
    }
}
