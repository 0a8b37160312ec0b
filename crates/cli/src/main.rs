//! One program with several names. The name by which it is called selects the tool.
//!
//! | name | tool |
//! |---|---|
//! | `mpirun`, `mpiexec` | start the ranks of a job: [`mpirun`] |
//! | `mpicc`, `mpicxx`, `mpic++`, `mpiCC` | compile C and C++ programs: [`wrapper`] |
//! | `mpifort`, `mpif90`, `mpif77` | fail, lest build systems take those of another MPI |
//! | `ompi_info`, `laminfo` | `oxmpi info` in the form of Open MPI and LAM/MPI: [`ompi_info`] |
//! | `lamboot`, `lamhalt`, `lamnodes`, `lamexec` | as `oxmpi boot` and so on: [`daemons`] |
//! | `lamcheckpoint`, `cr_checkpoint` | as `oxmpi checkpoint`: [`checkpoint`] |
//! | `lamrestart`, `cr_restart` | as `oxmpi restart`: [`checkpoint`] |
//! | `oxmpi` | [`info`], [`explain`], [`doctor`], [`oxmpi_tune`], [`mod@bench`] and others |
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
mod words;
mod wrapper;

use std::ffi::OsString;
use std::path::Path;
use std::process::exit;

use oxmpi_rt::launch::{NAMESPACE_WORD, RELAY_WORD};
use oxmpi_sys::stdio;
use wrapper::Language;

const HELP: &str = "\
oxmpi: an MPI library and launcher

  mpirun -n N PROGRAM ...   run a job ('mpirun --help')
  mpicc ..., mpicxx ...     compile a C or C++ program ('mpicc --help')
  oxmpi info                what this installation is ('oxmpi info --help')
  oxmpi info --params       the parameters and their values ('mpirun --mca NAME VALUE' sets one)
  oxmpi bench               how fast the transports are here ('oxmpi bench --help')
  oxmpi doctor              check this machine and recommend remedies; measure costs of copies ('oxmpi doctor --help')
  oxmpi boot [FILE]         start a daemon for you on each host of a file ('oxmpi boot --help')
  oxmpi nodes               list the nodes where you have daemons
  oxmpi exec PLACES PROGRAM run a program there, which need not use MPI ('oxmpi exec --help')
  oxmpi halt                end your daemons and what they have started
  oxmpi man PAGE            a manual page as roff: mpirun, mpicc, oxmpi, oxmpi-params
  oxmpi completions SHELL   what bash, zsh or fish offer behind mpirun
  oxmpi explain coll NAME   which algorithm serves a collective, and why ('oxmpi explain --help')
  oxmpi explain copy        how a message goes between two processes of this node, and why
  oxmpi quiesce PID         let the messages of a job stand still ('oxmpi quiesce --help')
  oxmpi checkpoint          write an image of a running job to disk ('oxmpi checkpoint --help')
  oxmpi restart SET         bring it back ('oxmpi restart --help')
  oxmpi tune                find the fastest algorithms here, or by a model, and write rules ('oxmpi tune --help')
  oxmpi uninstall           remove what the installation has put below its prefix ('oxmpi uninstall --help')
";

fn main() {
    stdio::begin();
    oxmpi_sys::spawn::unignore_children();
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let mut name =
        args.first().and_then(|a| Path::new(a).file_name()).map(|n| n.to_string_lossy().into_owned());
    if !args.is_empty() {
        args.remove(0);
    }
    let tools = ["mpirun", "mpiexec", "mpicc", "mpicxx", "mpic++", "mpiCC", "ompi_info", "laminfo"];
    let tools = tools
        .into_iter()
        .chain(wrapper::FORTRAN_NAMES)
        .chain(daemons::NAMES.map(|(name, _)| name))
        .chain(checkpoint::LAM_NAMES);
    let tools: Vec<&str> = tools.collect();
    if !name.as_deref().is_some_and(|n| tools.contains(&n))
        && args.first().and_then(|a| a.to_str()).is_some_and(|a| tools.contains(&a))
    {
        name = Some(args.remove(0).to_string_lossy().into_owned());
    }
    let name = name.as_deref().unwrap_or_default();
    let code = match Language::of(name) {
        Some(language) => wrapper::main(language, name, &args),
        None if wrapper::FORTRAN_NAMES.contains(&name) => wrapper::no_fortran(name),
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

fn oxmpi(args: &[OsString]) -> i32 {
    let words: Vec<String> = args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["-h" | "--help" | "help"] => say(HELP),
        ["--version"] => say(concat!("oxmpi ", env!("CARGO_PKG_VERSION"), "\n")),
        ["info", ..] => return info::main(&args[1..]),
        ["bench", ..] => return bench::main(&args[1..]),
        ["bench-rank", ref measurements @ ..] => return bench::rank_main(measurements),
        ["explain", ..] => return explain::main(&args[1..]),
        ["boot", ..] => return daemons::boot(&args[1..]),
        ["halt", ..] => return daemons::halt(&args[1..]),
        ["nodes", ..] => return daemons::nodes(&args[1..]),
        ["exec", ..] => return daemons::exec(&args[1..]),
        ["daemon"] => return daemons::serve(),
        ["doctor", ..] => return doctor::main(&args[1..]),
        ["man", ..] => return pages::man(&args[1..]),
        ["completions", ..] => return pages::completions(&args[1..]),
        ["quiesce", ..] => return quiesce::main(&args[1..]),
        ["checkpoint", ..] => return checkpoint::checkpoint(&args[1..]),
        ["restart", ..] => return checkpoint::restart(&args[1..]),
        ["tune", ref words @ ..] => return tune(words),
        ["uninstall", ref words @ ..] => return uninstall::main(words),
        ["tune-rank"] => return tune_rank(),
        [RELAY_WORD] => return relay::main(),
        [NAMESPACE_WORD, above] => return oxmpi_sys::spawn::init(above.parse().unwrap_or(0)),
        ["agent"] => return mpirun::agent(),
        [wrong, ..] => {
            let hint = oxmpi_param::nearest::nearest(wrong, words::WORDS.iter().copied());
            let hint = hint.map(|h| format!("; did you mean '{h}'?")).unwrap_or_default();
            oxmpi_sys::complain!("oxmpi: unknown word '{wrong}'{hint} ('oxmpi --help' lists all)");
            return 2;
        }
    }
    0
}

fn tune(words: &[&str]) -> i32 {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    oxmpi_tune::command::main(&words)
}

/// Runs a rank of a job that `oxmpi tune` has started.
fn tune_rank() -> i32 {
    match oxmpi_tune::rank::main() {
        Ok(()) => 0,
        Err(text) => {
            oxmpi_sys::complain!("oxmpi tune: {text}");
            1
        }
    }
}
