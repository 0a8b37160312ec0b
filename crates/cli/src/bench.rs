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

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use oxmpi_fabric::Constructor;
use oxmpi_param::nearest::nearest;
use oxmpi_param::{Job, Module, Params};

use figures::{Figures, Measurement};

pub(crate) use rank::main as rank_main;

pub(crate) const HELP: &str = "\
oxmpi bench: measures the transports of this installation on this machine

  oxmpi bench [WHAT]...      latency, bandwidth, overlap, idle; all if none is named

  --rpi NAME                 this transport alone (may be given several times); default: all transports of this machine, and
                             virtual-nodes: a job with a virtual node for each rank, whose ranks talk over sockets
  --ranks N                  number of ranks (2); ranks 0 and 1 are measured, the others wait in a barrier
  --mca NAME VALUE           a parameter of the job
  --json                     the figures as JSON
  --markdown FILE            puts them into FILE: for each transport the table between its markers
                             <!-- bench NAME --> and <!-- end bench NAME -->; a transport without markers gets a section at the end

latency: half a round trip. bandwidth: windows of 8 messages one way. overlap: which part of a message's transfer, begun by
MPI_Isend and MPI_Irecv on both sides and ended by MPI_Wait, goes on while both compute for as long as it takes alone. idle: CPU
time per second of a rank that waits in MPI_Recv.
";

/// The name of a job with virtual nodes among the transports.
const NODES: &str = "virtual-nodes";

/// Limit of a job that measures one transport, in seconds.
const LIMIT: u32 = 120;

#[derive(Debug, Default)]
struct BenchOptions {
    what: Vec<Measurement>,
    transports: Vec<String>,
    ranks: u32,
    mca: Vec<(String, String)>,
    json: bool,
    markdown: Option<PathBuf>,
}

pub(crate) fn main(args: &[OsString]) -> i32 {
    let words: Vec<String> = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        crate::say(HELP);
        return 0;
    }
    let options = match parse(&words) {
        Ok(options) => options,
        Err(text) => {
            oxmpi_sys::complain!("oxmpi bench: {text} ('oxmpi bench --help' explains)");
            return 2;
        }
    };
    match run(&options) {
        Ok(text) => {
            crate::say(&text);
            0
        }
        Err(text) => {
            oxmpi_sys::complain!("oxmpi bench: {text}");
            1
        }
    }
}

/// The names that `--rpi` accepts: the transports that can connect two ranks, and `virtual-nodes`.
fn known() -> Vec<&'static str> {
    let pair = Job { ranks: Some(2), ..Job::default() };
    let can = |module: &&&Module| module.refusal(&Params::default(), &pair).is_none();
    Module::all().iter().filter(can).map(|module| module.name).chain([NODES]).collect()
}

/// The known transports that a job on this machine can use, as far as the launcher can tell before
/// it starts.
fn found() -> Vec<&'static str> {
    let is_found = |name: &&str| {
        let constructor = Module::named(name).and_then(Constructor::of);
        constructor.is_none_or(|one| (one.decide)(&Params::default(), true).is_ok())
    };
    known().into_iter().filter(is_found).collect()
}

fn parse(words: &[String]) -> Result<BenchOptions, String> {
    let mut options = BenchOptions { ranks: 2, ..BenchOptions::default() };
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value =
            |what: &str| words.next().map(str::to_string).ok_or(format!("{word} wants {what} behind it"));
        match word {
            "--json" => options.json = true,
            "--markdown" => options.markdown = Some(value("a file")?.into()),
            "--mca" => options.mca.push((value("a name and a value")?, value("a value behind the name")?)),
            "--ranks" => {
                let text = value("a number")?;
                options.ranks = text
                    .parse()
                    .ok()
                    .filter(|ranks| *ranks >= 2)
                    .ok_or(format!("--ranks '{text}' is not a number of at least 2"))?;
            }
            "--rpi" => {
                let name = value("the name of a transport")?;
                if !known().contains(&&*name) {
                    return Err(format!("there is no transport '{name}' (there are {})", known().join(", ")));
                }
                options.transports.push(name);
            }
            _ => match Measurement::ALL.into_iter().find(|what| what.name() == word) {
                Some(what) => options.what.push(what),
                None => {
                    let all = Measurement::ALL.map(Measurement::name);
                    let hint = nearest(word, all).map(|near| format!("; did you mean '{near}'?"));
                    return Err(format!("unknown word '{word}'{}", hint.unwrap_or_default()));
                }
            },
        }
    }
    if options.json && options.markdown.is_some() {
        return Err("--json and --markdown do not go together".to_string());
    }
    if options.what.is_empty() {
        options.what = Measurement::ALL.to_vec();
    }
    if options.transports.is_empty() {
        options.transports = found().into_iter().map(str::to_string).collect();
    }
    Ok(options)
}

fn run(options: &BenchOptions) -> Result<String, String> {
    // An unreadable page fails here, and not after minutes of measuring.
    let page = options.markdown.as_deref().map(read).transpose()?;
    let mut all = Vec::new();
    for transport in &options.transports {
        oxmpi_sys::complain!("oxmpi bench: {transport} ...");
        all.push((transport.clone(), measure(options, transport)?));
    }
    match (&options.markdown, page) {
        (Some(file), Some(page)) => {
            let text =
                page::refreshed(&page, &all).map_err(|error| format!("{}: {error}", file.display()))?;
            std::fs::write(file, text)
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            Ok(String::new())
        }
        _ if options.json => Ok(page::as_json(&all, options.ranks)),
        _ => Ok(page::as_text(&all, options.ranks)),
    }
}

fn read(file: &Path) -> Result<String, String> {
    oxmpi_param::file::read_text(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

fn measure(options: &BenchOptions, transport: &str) -> Result<Figures, String> {
    let own = oxmpi_sys::library::program().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(&own);
    command.args(["mpirun", "--quiet", "-n", &options.ranks.to_string(), "--timeout", &LIMIT.to_string()]);
    match transport {
        // With fewer virtual nodes than ranks, neighbouring ranks share a node.
        NODES => command.args(["--mca", "mpi_virtual_nodes", &options.ranks.to_string()]),
        name => command.args(["--mca", "rpi", name]),
    };
    for (name, value) in &options.mca {
        command.args(["--mca", name, value]);
    }
    command.arg(&own).arg("bench-rank").args(options.what.iter().map(|what| what.name()));
    let done = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let done = done.map_err(|error| format!("cannot start {} mpirun: {error}", own.display()))?;
    if !done.status.success() {
        return Err(format!("the job over {transport} has failed ({})", done.status));
    }
    Ok(Figures::parse(&String::from_utf8_lossy(&done.stdout)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<BenchOptions, String> {
        parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn without_words_all_is_measured() {
        let options = parsed("").unwrap();
        assert_eq!((options.what.len(), options.ranks), (4, 2));
        assert_eq!(options.transports, found());
        assert!(found().iter().all(|name| known().contains(name)));
        let options = parsed("idle --rpi tcp --ranks 5 --json --mca a b").unwrap();
        assert_eq!((options.what, options.transports), (vec![Measurement::Idle], vec!["tcp".to_string()]));
        assert_eq!((options.ranks, options.json, options.mca.len()), (5, true, 1));
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, wanted) in [
            ("latensy", "'latensy'; did you mean 'latency'?"),
            ("--rpi pigeon", "there is no transport 'pigeon' (there are shm, "),
            ("--ranks 1", "--ranks '1' is not a number of at least 2"),
            ("--ranks", "--ranks wants a number"),
            ("--mca a", "--mca wants a value"),
            ("--json --markdown x", "do not go together"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }
}
