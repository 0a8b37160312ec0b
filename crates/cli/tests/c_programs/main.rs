//! The C programs of `tests/c`, compiled once with the installed `mpicc` and run by the installed
//! `mpirun`.
//!
//! The first lines of a program ([`head`]) give its numbers of ranks and the transports that can
//! change its result. A program exits with 0 and prints `ok` as its last line. Each program,
//! transport ([`transport_options`]) and number of ranks is a test, `TRANSPORT::PROGRAM::RANKS`.
//! The everyday run takes two numbers of ranks over shared memory (and over sockets for programs
//! that send messages), and one over each transport that a program names for every day. All others
//! are `night::TRANSPORT::PROGRAM::RANKS`, which are ignored by default (`cargo xtask nightly`, or
//! `cargo nextest run --run-ignored all`).
//!
//! Most programs are also compiled for the ABIs of other MPIs ([`faces`]): `mpich::PROGRAM::RANKS`,
//! `openmpi::PROGRAM::RANKS`, `intel::PROGRAM::RANKS`. One has the C++ bindings of the first two
//! ([`cxx`]).
//!
//! `cargo xtask test` makes the installation and names it in OXMPI_TEST_PREFIX.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

mod cxx;
mod faces;
mod head;
#[path = "../support/mod.rs"]
mod support;
mod transport_options;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

use head::Head;
use support::{compiled, compiled_library, installed, root};
use transport_options::TransportOptions;

/// crates/abi checks this program at compile time; its main does not print `ok`.
const NOT_RUN: &[&str] = &["abi_assert"];

const EXAMPLES: [(&str, &[u32], &str); 4] = [
    ("hello", &[1, 4], "hello from rank 0"),
    ("ring", &[2, 4], "(right)"),
    ("pi", &[1, 4], "pi is about 3.14159265359"),
    ("heat", &[1, 2, 4, 6], "the result is right"),
];

/// Limits of an emulated Myrinet: few tokens, slow callbacks, little memory that can be registered.
const NETWORKS: [(&str, &str); 3] = [
    // The transport splits half of the receive tokens among its peers, at least one each. Some
    // programs that spawn have eight peers.
    ("GM_EMULATION_RECEIVE_TOKENS", "16"),
    ("GM_EMULATION_CALLBACK_MS", "3"),
    ("GM_EMULATION_REGISTERED", "100000"),
];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for name in names() {
        let source = std::fs::read_to_string(path_of(&name)).unwrap();
        match Head::read(&source) {
            Ok(head) => trials.extend(trials_of(&name, &head)),
            Err(error) => {
                trials.push(Trial::test(format!("head::{name}"), move || Err(error.into())))
            }
        }
    }
    trials.extend(names().iter().flat_map(|name| faces::trials(name)));
    trials.extend(faces::trials_of_faces());
    trials.extend(cxx::trials());
    trials.extend(EXAMPLES.iter().flat_map(trials_of_example));
    libtest_mimic::run(&arguments, trials).exit();
}

fn names() -> Vec<String> {
    let entries =
        std::fs::read_dir(root().join("tests/c")).unwrap().map(|entry| entry.unwrap().path());
    let sources = entries.filter(|path| path.extension().is_some_and(|extension| extension == "c"));
    let mut names: Vec<String> =
        sources.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.retain(|name| !NOT_RUN.contains(&name.as_str()));
    names.sort();
    names
}

fn path_of(name: &str) -> PathBuf {
    root().join("tests/c").join(name).with_extension("c")
}

fn trials_of(name: &str, head: &Head) -> Vec<Trial> {
    let mut trials = Vec::new();
    for transport in TransportOptions::ALL.into_iter().filter(|transport| head.takes(*transport)) {
        let every_day = every_day(head, transport);
        for &ranks in head.ranks.iter().filter(|ranks| **ranks <= transport.most_ranks()) {
            let is_nightly = !every_day.contains(&ranks);
            let night = if is_nightly { "night::" } else { "" };
            let program = name.to_string();
            let title = format!("{night}{}::{name}::{ranks}", transport.name());
            trials.push(
                Trial::test(title, move || says_ok(&program, transport, ranks, is_nightly))
                    .with_ignored_flag(is_nightly),
            );
        }
    }
    trials
}

/// The numbers of ranks of the everyday run: over shared memory and sockets the smallest with
/// messages between ranks and the largest, over other transports the largest.
fn every_day(head: &Head, transport: TransportOptions) -> Vec<u32> {
    if !head.every_day.contains(&transport) {
        return Vec::new();
    }
    let possible = || head.ranks.iter().copied().filter(|ranks| *ranks <= transport.most_ranks());
    let fewest = possible().find(|ranks| {
        *ranks > 1 && matches!(transport, TransportOptions::Shm | TransportOptions::Tcp)
    });
    fewest.into_iter().chain(possible().max()).collect()
}

/// Examples run every day with the most ranks over shared memory and over sockets.
fn trials_of_example((name, sizes, text): &'static (&str, &[u32], &str)) -> Vec<Trial> {
    let mut trials = Vec::new();
    for transport in [TransportOptions::Shm, TransportOptions::Tcp] {
        for &ranks in *sizes {
            let is_nightly = Some(&ranks) != sizes.last();
            let night = if is_nightly { "night::" } else { "" };
            let run = move || {
                let program = compiled(&root().join("examples").join(name).with_extension("c"))?;
                let out = output_of(mpirun(transport, ranks, is_nightly).arg(program))?;
                if out.contains(text) {
                    Ok(())
                } else {
                    Err(format!("no '{text}' in:\n{out}").into())
                }
            };
            let title = format!("{night}{}::examples::{name}::{ranks}", transport.name());
            trials.push(Trial::test(title, run).with_ignored_flag(is_nightly));
        }
    }
    trials
}

/// `mpirun -n RANKS` over a transport, with a time limit: programs of the night send up to 2 GiB,
/// which takes over a minute through daemons if other programs use the processors.
fn mpirun(transport: TransportOptions, ranks: u32, is_nightly: bool) -> Command {
    let mut command = Command::new(installed("mpirun"));
    let limit_s = if is_nightly { "240" } else { "60" };
    command.args(["-n", &ranks.to_string(), "--timeout", limit_s]).args(transport.options());
    command.env("CHECK_SECONDS", limit_s);
    command
}

fn output_of(command: &mut Command) -> Result<String, Failed> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("mpirun: {error}"))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(out);
    }
    let err = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}\n--- output\n{out}--- errors\n{err}", output.status).into())
}

fn says_ok(
    name: &str,
    transport: TransportOptions,
    ranks: u32,
    is_nightly: bool,
) -> Result<(), Failed> {
    let program = compiled(&path_of(name))?;
    let mut command = mpirun(transport, ranks, is_nightly);
    if let Some(counters) = transport.counters() {
        command.env("CHECK_MOVED", counters);
    }
    match transport {
        TransportOptions::ShmDenied => {
            // The argument 1 is EPERM.
            command.arg(compiled(&root().join("tests/c/jobs/deny.c"))?).arg("1");
            command.arg("process_vm_readv,process_vm_writev");
        }
        TransportOptions::Gm => over_emulation(&mut command, name, ranks)?,
        _ => {}
    }
    let out = output_of(command.arg(&program))?;
    match out.lines().last() {
        Some("ok") => Ok(()),
        _ => Err(format!("{command:?}: the last line is not 'ok':\n{out}").into()),
    }
}

fn over_emulation(command: &mut Command, name: &str, ranks: u32) -> Result<(), Failed> {
    let library = compiled_library("gm-emulation/gm.c", "libgm-of-tests.so");
    command.args(["--mca", "mpi_virtual_nodes", "64", "--mca", "rpi_gm_library"]).arg(library);
    // Some programs send messages of 4000 bytes to each other before they receive; the guide's
    // default of 1024 bytes is too small for them.
    command.args(["--mca", "rpi_gm_tinymsglen", "4096"]);
    command.env("GM_EMULATION_NETWORK", format!("{name}-{ranks}-{}", std::process::id()));
    // The emulation passes on a few thousand messages per second on two processors.
    command.env("CHECK_DIVISOR", "10");
    if ranks <= 2 {
        let (variable, value) = NETWORKS[name.len() % NETWORKS.len()];
        command.env(variable, value);
    }
    Ok(())
}
