//! `oxmpi bench`: measures the transports of this installation on this machine, by ranks that it
//! starts.
//!
//! | module | what it is |
//! |---|---|
//! | [`rank`] | the program that measures, as a rank of a job |
//! | [`figures`] | the measured quantities, as lines from a rank to the command |
//! | [`page`] | the figures as text, as JSON, and as tables of a page |

mod figures;
mod page;
mod rank;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::builder::PossibleValuesParser;
use oxmpi_fabric::Constructor;
use oxmpi_param::{Job, Module, Params};

use figures::{Figures, Measurement};

use crate::command::{Settings, Stop, failed, within};

pub(crate) use rank::main as rank_main;

/// `--rpi` accepts this name besides the names of transports: a job with a virtual node for each
/// rank.
const NODES: &str = "virtual-nodes";

/// For the job of one transport, in seconds.
const LIMIT: u32 = 120;

/// Measure the transports of this installation on this machine
///
/// latency: half a round trip. bandwidth: windows of 8 messages one way. overlap: the part of a
/// transfer that computing hides. Both ranks start the transfer (MPI_Isend, MPI_Irecv), compute for
/// as long as the transfer takes alone, and end it (MPI_Wait). idle: CPU time per second of a rank
/// that waits in MPI_Recv.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// The measurements
    #[arg(value_name = "MEASUREMENT", default_values_t = Measurement::ALL, value_enum)]
    measurements: Vec<Measurement>,
    /// Measure this transport; may be given several times
    ///
    /// Without it all transports of this machine are measured, and virtual-nodes: a job with a
    /// virtual node for each rank, whose ranks talk over sockets.
    #[arg(long = "rpi", value_name = "NAME", value_parser = PossibleValuesParser::new(known()))]
    transports: Vec<String>,
    /// Start this number of ranks; ranks 0 and 1 are measured, the others wait in a barrier
    #[arg(long, value_name = "N", default_value = "2", value_parser = ranks)]
    ranks: u32,
    #[command(flatten)]
    settings: Settings,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Put the figures into this file
    ///
    /// For each transport the table between the markers <!-- bench NAME --> and <!-- end bench NAME
    /// --> is replaced. A transport without markers gets a section at the end.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    markdown: Option<PathBuf>,
}

fn ranks(text: &str) -> Result<u32, String> {
    within(text, 2..=i32::MAX as u64).map(|ranks| ranks as u32)
}

pub(crate) fn main(args: &BenchArgs) -> Result<i32, Stop> {
    crate::say(&run(args).map_err(failed)?);
    Ok(0)
}

/// The names that `--rpi` accepts: the transports that can connect two ranks, and `virtual-nodes`.
fn known() -> Vec<&'static str> {
    let pair = Job { ranks: Some(2), ..Job::default() };
    let can = |module: &&&Module| module.refusal(&Params::default(), &pair).is_none();
    Module::all().iter().filter(can).map(|module| module.name).chain([NODES]).collect()
}

/// The known transports that a job on this machine can use, by the checks of the launcher.
fn found() -> Vec<&'static str> {
    let is_found = |name: &&str| {
        let constructor = Module::named(name).and_then(Constructor::of);
        constructor.is_none_or(|one| (one.decide)(&Params::default(), true).is_ok())
    };
    known().into_iter().filter(is_found).collect()
}

fn run(options: &BenchArgs) -> Result<String, String> {
    // An unreadable page fails here, and not after minutes of measuring.
    let page = options.markdown.as_deref().map(read).transpose()?;
    let mut all = Vec::new();
    let transports = match &options.transports[..] {
        [] => found(),
        named => named.iter().map(String::as_str).collect(),
    };
    for transport in transports {
        oxmpi_sys::complain!("oxmpi bench: {transport} ...");
        all.push((transport.to_string(), measure(options, transport)?));
    }
    match (&options.markdown, page) {
        (Some(file), Some(page)) => {
            let text = page::refreshed(&page, &all)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            std::fs::write(file, text)
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            Ok(String::new())
        }
        _ if options.json => Ok(page::as_json(&all, options.ranks)),
        _ => Ok(page::as_text(&all, options.ranks)),
    }
}

fn read(file: &Path) -> Result<String, String> {
    oxmpi_param::file::read_text(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))
}

fn measure(options: &BenchArgs, transport: &str) -> Result<Figures, String> {
    let own = oxmpi_sys::library::program()
        .map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(&own);
    command.args([
        "mpirun",
        "--quiet",
        "-n",
        &options.ranks.to_string(),
        "--timeout",
        &LIMIT.to_string(),
    ]);
    match transport {
        // With fewer virtual nodes than ranks, neighbouring ranks share a node.
        NODES => command.args(["--mca", "mpi_virtual_nodes", &options.ranks.to_string()]),
        name => command.args(["--mca", "rpi", name]),
    };
    for (name, value) in options.settings.pairs() {
        command.args(["--mca", name, value]);
    }
    command.arg(&own).arg("bench-rank").args(options.measurements.iter().map(|one| one.name()));
    let done = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let done = done.map_err(|error| format!("cannot start {} mpirun: {error}", own.display()))?;
    if !done.status.success() {
        return Err(format!("the job over {transport} has failed ({})", done.status));
    }
    Ok(Figures::parse(&String::from_utf8_lossy(&done.stdout)))
}
