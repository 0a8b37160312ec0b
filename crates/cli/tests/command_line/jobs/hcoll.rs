//! Collectives by HCOLL, with an emulation of its interface that the tests compile
//! (`tests/hcoll-emulation/hcoll.c`): HCOLL itself was not available.

use super::harness::{Outcome, Programs, compile, compiled_library};
use std::collections::BTreeMap;

struct Prepared {
    programs: Programs,
    library: String,
}

fn prepare(names: &[&str]) -> Prepared {
    let programs = compile(names);
    let library = compiled_library("hcoll-emulation/hcoll.c", "libhcoll-emulation.so.1")
        .display()
        .to_string();
    Prepared { programs, library }
}

impl Prepared {
    fn run(
        &self,
        (ranks, program): (u32, &str),
        options: &[&str],
        variables: &[(&str, &str)],
    ) -> Outcome {
        let enabled = ["--mca", "coll_hcoll_enable", "1", "--mca", "coll_hcoll_verbose", "2"];
        let options =
            [&enabled[..], &["--mca", "coll_hcoll_library", &self.library], options].concat();
        let mut command = self.programs.mpirun(ranks, &options, program, &[]);
        command.envs(variables.iter().copied());
        self.programs.start(command).end()
    }

    /// The calls by rank and function, and the contexts that each rank has not freed.
    fn run_counted(
        &self,
        ranks: u32,
        program: &str,
        options: &[&str],
    ) -> BTreeMap<(u32, String), u32> {
        let log = self.programs.directory.join("log");
        let _ = std::fs::remove_file(&log);
        let outcome =
            self.run((ranks, program), options, &[("HCOLL_EMULATION_LOG", log.to_str().unwrap())]);
        is_well(&outcome);
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let line = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            ((words[0].parse().unwrap(), words[1].to_string()), words[2].parse().unwrap())
        };
        text.lines().map(line).collect()
    }
}

fn is_well(outcome: &Outcome) {
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
    for text in ["has failed", "no context for a communicator of", "emulation:"] {
        let wrong =
            outcome.err.lines().find(|line| line.contains(text) && !line.contains(" yet: "));
        assert_eq!(wrong, None, "{outcome:?}");
    }
}

const FUNCTIONS: [&str; 8] = [
    "ibarrier",
    "ibcast",
    "iallgather",
    "iallgatherv",
    "iallreduce",
    "ireduce",
    "igatherv",
    "ialltoallv",
];

/// Blocking and nonblocking, all operations on all elements, in place and not, on several
/// communicators.
#[test]
fn results_are_those_of_mpi() {
    let prepared = prepare(&["jobs/ucc"]);
    for ranks in 2..=4 {
        let counted = prepared.run_counted(ranks, "ucc", &[]);
        for rank in 0..ranks {
            // A plan would give the same results, so the calls are counted.
            for function in FUNCTIONS {
                assert!(counted[&(rank, function.to_string())] > 2, "{function} {counted:?}");
            }
            // All contexts are freed but the one of MPI_COMM_WORLD, which lasts as long as the
            // process.
            let count = |what: &str| counted[&(rank, what.to_string())];
            assert!(count("contexts") == 1 && count("made") > 1, "{counted:?}");
        }
    }
    let counted = prepared.run_counted(2, "ucc", &["--mca", "rpi", "tcp"]);
    assert!(counted[&(1, "iallreduce".to_string())] > 100, "{counted:?}");
}

#[test]
fn programs_of_other_tests_run_over_hcoll() {
    let names =
        ["coll_basic", "coll_nonblocking", "coll_types", "coll_later", "coll_uneven", "coll_order"];
    let prepared = prepare(&names);
    for name in names {
        is_well(&prepared.run((3, name), &[], &[("HCOLL_EMULATION_LATE", "3")]));
    }
}

#[test]
fn the_first_call_of_a_communicator_does_not_wait() {
    let prepared = prepare(&["jobs/hcoll_first"]);
    for ranks in [2, 3] {
        let counted = prepared.run_counted(ranks, "hcoll_first", &[]);
        assert!(counted[&(0, "iallgather".to_string())] >= 2, "{counted:?}");
    }
    is_well(&prepared.run((4, "hcoll_first"), &["--mca", "rpi", "tcp"], &[]));
}

#[test]
fn a_plan_serves_calls_that_hcoll_refuses() {
    let prepared = prepare(&["jobs/ucc"]);
    let refusals = [("HCOLL_EMULATION_REFUSE", "11:3,6:10"), ("HCOLL_EMULATION_LARGEST", "2000")];
    let outcome = prepared.run((3, "ucc"), &[], &refusals);
    is_well(&outcome);
    for text in [
        "coll: hcoll: a context for a communicator of 3 ranks by HCOLL 4.0.0-emulation",
        "coll: hcoll: Allreduce of Float32 is served by a plan: it does not support that",
        "coll: hcoll: Allreduce of Float32 is served by HCOLL",
        "coll: hcoll: Bcast of Uint8 is served by a plan: it does not support that",
        "coll: hcoll: Alltoallv of Uint8 is served by HCOLL",
    ] {
        assert!(outcome.err.contains(text), "{text}: {outcome:?}");
    }
    let said = |options: &[&str]| {
        let options = [&["--mca", "coll_verbose", "1"], options].concat();
        let outcome = prepared.run((2, "ucc"), &options, &[]);
        is_well(&outcome);
        outcome.err
    };
    assert!(said(&[]).contains("offered to HCOLL, component hcoll"));
    assert!(!said(&["--mca", "coll_hcoll_np", "3"]).contains("offered to HCOLL"));
    let later = said(&["--mca", "coll_hcoll_priority", "1"]);
    assert!(!later.contains("offered to HCOLL"), "{later}");
    let without = said(&["--mca", "cr", "none", "--mca", "mpi_ft_enable", "1"]);
    assert!(!without.contains("coll: hcoll:"), "{without}");
}

#[test]
fn without_a_context_at_one_rank_plans_serve_all_ranks_with_the_reason() {
    let mut prepared = prepare(&["jobs/ucc"]);
    for (variable, text) in [
        (("HCOLL_EMULATION_HOOKS", "1"), "mem_hook_needed"),
        (("HCOLL_EMULATION_NO_CONTEXT", "0"), "HCOLL's hcoll_create_context has failed"),
        (("HCOLL_EMULATION_NO_CONTEXT", "2"), "rank 2 of it has no context"),
    ] {
        let outcome = prepared.run((3, "ucc"), &[], &[variable]);
        assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
        assert!(
            outcome.err.contains(text) && outcome.err.contains("plans serve it"),
            "{outcome:?}"
        );
    }
    prepared.library = "/nonexistent/libhcoll.so".to_string();
    let outcome = prepared.run((2, "ucc"), &[], &[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
    for text in [
        "no context for a communicator of 2 ranks",
        "/nonexistent/libhcoll.so",
        "HPC-X",
        "coll_hcoll_library",
    ] {
        assert!(outcome.err.contains(text), "{text}: {outcome:?}");
    }
    let silent = prepared.programs.run(
        2,
        &["--mca", "coll_hcoll_library", "/nonexistent/libhcoll.so"],
        "ucc",
        &[],
    );
    assert_eq!((silent.code, silent.err.as_str()), (0, ""), "{silent:?}");
}
