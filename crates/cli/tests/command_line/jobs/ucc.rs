//! Collectives by UCC. The loader that came with the library runs the programs, as UCC needs a
//! newer C library than that of the system.

use super::harness::{Outcome, Programs, compile};
use crate::support::{installed_libraries, ucc};
use std::path::Path;
use std::process::Command;

const ENABLED: [&str; 9] = [
    "--mca",
    "coll_ucc_enable",
    "1",
    "--mca",
    "coll_ucc_priority",
    "100",
    "--mca",
    "coll_ucc_verbose",
    "2",
];

fn run(
    programs: &Programs,
    libraries: &Path,
    (ranks, program): (u32, &str),
    options: &[&str],
) -> Outcome {
    let loader = std::fs::read_dir(libraries).unwrap().flatten().map(|entry| entry.path());
    let mut loaders =
        loader.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("ld-linux"));
    let mut command = Command::new(crate::support::installed("mpirun"));
    command.args(["-n", &ranks.to_string(), "--timeout", "50"]).args(ENABLED).args(options);
    command.arg(loaders.next().expect("a loader beside the library")).arg("--library-path");
    command.arg(format!("{}:{}", libraries.display(), installed_libraries().display()));
    command.arg(programs.path(program)).arg(programs.marker());
    programs.start(command).end()
}

fn is_well(outcome: &Outcome, ranks: u32) {
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
    let team = format!("coll: ucc: a team for a communicator of {ranks} ranks by UCC 1.");
    assert!(outcome.err.contains(&team), "{outcome:?}");
    // A plan would give the same results, so the report is checked.
    assert!(outcome.err.contains("is served by UCC"), "{outcome:?}");
    for text in ["no team", "has failed"] {
        assert!(!outcome.err.contains(text), "{text}: {outcome:?}");
    }
    // UCC 1.9 has only the form of MPI_Scatter with displacements; it serves all other calls.
    let planned = outcome.err.lines().find(|line| {
        line.contains("is served by a plan")
            && !line.contains("Scatter of Uint8 is served by a plan: UCC's ucc_collective_init")
    });
    assert_eq!(planned, None, "{outcome:?}");
}

#[test]
fn results_are_those_of_mpi() {
    let Some(libraries) = ucc() else { return };
    let programs = compile(&["jobs/ucc"]);
    for ranks in 2..=4 {
        is_well(
            &run(&programs, &libraries, (ranks, "ucc"), &["--mca", "coll_ucc_cls", "basic"]),
            ranks,
        );
    }
    is_well(&run(&programs, &libraries, (2, "ucc"), &["--mca", "rpi", "tcp"]), 2);
}

#[test]
fn types_and_sizes_are_chosen() {
    let Some(libraries) = ucc() else { return };
    let programs = compile(&["coll_later"]);
    let said = |options: &[&str]| {
        let options = [&["--mca", "coll_verbose", "1"], options].concat();
        let outcome = run(&programs, &libraries, (2, "coll_later"), &options);
        assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
        outcome.err
    };
    assert!(said(&[]).contains("offered to UCC"));
    let without = said(&["--mca", "coll_ucc_cts", "alltoallv"]);
    assert!(!without.contains("offered to UCC"), "{without}");
    assert!(!said(&["--mca", "coll_ucc_np", "3"]).contains("offered to UCC"));
}

/// Debian's package of the library has its modules under other names than those by which UCC finds
/// them.
#[test]
fn a_library_without_modules_is_reported() {
    let Some(libraries) = ucc() else { return };
    let programs = compile(&["jobs/ucc"]);
    let room = programs.directory.join("bare");
    std::fs::create_dir(&room).unwrap();
    for name in ["libucc.so.1", "libucs.so.0"] {
        std::fs::copy(libraries.join(name), room.join(name)).unwrap();
    }
    let library = room.join("libucc.so.1").display().to_string();
    let outcome = run(&programs, &libraries, (2, "ucc"), &["--mca", "coll_ucc_library", &library]);
    // UCC itself prints errors on standard output.
    assert!(outcome.code == 0 && outcome.out.ends_with("ok\n"), "{outcome:?}");
    assert!(
        outcome.err.contains("finds none of its modules") && outcome.err.contains("libucc-dev"),
        "{outcome:?}"
    );
}

#[test]
fn without_the_library_plans_serve_with_the_reason() {
    let programs = compile(&["jobs/ucc"]);
    let library =
        ["--mca", "coll_verbose", "1", "--mca", "coll_ucc_library", "/nonexistent/libucc.so"];
    let options = [&ENABLED[..], &library].concat();
    let outcome = programs.run(3, &options, "ucc", &[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
    for text in [
        "no team for a communicator of 3 ranks",
        "/nonexistent/libucc.so",
        "install it",
        "coll_ucc_library",
    ] {
        assert!(outcome.err.contains(text), "{text}: {outcome:?}");
    }
    assert!(
        outcome.err.contains("not by UCC, which has no team for it")
            && !outcome.err.contains("offered to")
    );
    let silent =
        programs.run(2, &["--mca", "coll_ucc_library", "/nonexistent/libucc.so"], "ucc", &[]);
    assert_eq!((silent.code, silent.err.as_str()), (0, ""), "{silent:?}");
}

#[test]
fn jobs_with_fault_tolerance_do_not_use_ucc() {
    let programs = compile(&["jobs/ucc"]);
    let options = [&ENABLED[..], &["--mca", "mpi_ft_enable", "1"]].concat();
    let outcome = programs.run(2, &options, "ucc", &[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
    assert!(!outcome.err.contains("coll: ucc:"), "{outcome:?}");
}
