//! Jobs that go on when ranks fail (`--with-ft ulfm`).

use std::process::Command;

use super::harness::{Outcome, Programs, compile};

/// Each failure is reported once, without other errors; returns the number of reports.
fn notes(outcome: &Outcome) -> usize {
    let notes = outcome.err.matches("  the job goes on without it; ").count()
        + outcome.err.matches("  none of the others runs any more.").count();
    assert_eq!(outcome.err.matches("mpirun: ").count(), notes, "{outcome:?}");
    assert_eq!(outcome.err.lines().count(), 2 * notes, "{outcome:?}");
    notes
}

fn survive(programs: &Programs, ranks: u32, options: &[&str], seeds: std::ops::Range<u32>) {
    survive_at(programs, ranks, options, "messages", seeds);
}

fn survive_at(
    programs: &Programs,
    ranks: u32,
    options: &[&str],
    work: &str,
    seeds: std::ops::Range<u32>,
) {
    let options = [&["--with-ft", "ulfm"], options].concat();
    let mut deaths = 0;
    for seed in seeds {
        let outcome = programs.run(ranks, &options, "ulfm_kill", &[&seed.to_string(), work]);
        let count = notes(&outcome);
        let left = format!("{} of {ranks} are left\n", ranks as usize - count);
        assert_eq!(
            (outcome.code, &*outcome.out),
            (0, &*left),
            "seed {seed}, {options:?}: {outcome:?}"
        );
        deaths += count;
    }
    assert!(deaths > 0, "no rank has failed");
}

#[test]
fn survivors_shrink_and_go_on_in_shared_memory() {
    let p = compile(&["jobs/ulfm_kill"]);
    survive(&p, 4, &[], 1..11);
    survive(&p, 7, &[], 1..9);
    survive(&p, 5, &["--mca", "shm_max_rings", "0", "--mca", "shm_inbox_cells", "4"], 1..7);
    survive(&p, 5, &["--mca", "shm_ring_slots", "4", "--mca", "shm_eager_limit_bytes", "0"], 1..7);
}

/// The inbox of an ended rank is full, and others have notices for it.
#[test]
fn late_notices_do_not_delay_the_end() {
    let p = compile(&["jobs/ulfm_kill"]);
    for seeds in [44..47, 79..82, 91..94, 119..122] {
        survive(&p, 7, &["--mca", "shm_max_rings", "0", "--mca", "shm_inbox_cells", "4"], seeds);
    }
}

#[test]
fn survivors_shrink_and_go_on_over_sockets() {
    let p = compile(&["jobs/ulfm_kill"]);
    survive(&p, 4, &["--mca", "rpi", "tcp"], 1..21);
    survive(&p, 7, &["--mca", "rpi", "tcp"], 1..16);
}

#[test]
fn survivors_shrink_and_go_on_over_postboxes() {
    let p = compile(&["jobs/ulfm_kill"]);
    survive(&p, 4, &["--mca", "rpi", "usysv", "--mca", "rpi_usysv_shmpoolsize", "64k"], 1..6);
    survive(&p, 7, &["--mca", "rpi", "sysv", "--mca", "rpi_sysv_short", "64"], 1..6);
    survive(&p, 7, &["--mca", "rpi", "sysv", "--mca", "rpi_sysv_semaphores", "1"], 1..6);
}

#[test]
fn survivors_shrink_and_go_on_with_daemons() {
    let p = compile(&["jobs/ulfm_kill"]);
    survive(&p, 4, &["--mca", "rpi", "lamd"], 1..11);
    survive(&p, 5, &["--mca", "rpi", "lamd", "--mca", "mpi_virtual_nodes", "2"], 1..11);
}

#[test]
fn survivors_shrink_and_go_on_on_several_nodes() {
    let p = compile(&["jobs/ulfm_kill"]);
    survive(&p, 4, &["--mca", "mpi_virtual_nodes", "2"], 1..11);
    survive(&p, 7, &["--mca", "mpi_virtual_nodes", "3"], 1..11);
}

#[test]
fn survivors_get_the_errors_that_the_functions_define() {
    let p = compile(&["jobs/ulfm_rules"]);
    for transport in ["shm", "tcp"] {
        for ranks in [3, 4, 7] {
            for (how, deaths, lines) in
                [("kill", 1, 1), ("code", 1, 1), ("leave", 1, 1), ("late", 1, 1), ("spawn", 2, 3)]
            {
                let options = ["--with-ft", "ulfm", "--mca", "rpi", transport];
                let outcome = p.run(ranks, &options, "ulfm_rules", &[how]);
                assert_eq!(outcome.code, 0, "{ranks} {transport} {how}: {outcome:?}");
                assert_eq!(notes(&outcome), deaths, "{ranks} {transport} {how}: {outcome:?}");
                assert_eq!(
                    outcome.out,
                    "went on\n".repeat(lines),
                    "{ranks} {transport} {how}: {outcome:?}"
                );
            }
        }
    }
}

/// One rank knows a communicator whose creation has failed, and left data in the memory of
/// collectives.
#[test]
fn remains_of_a_failed_communicator_reach_no_other_one() {
    let p = compile(&["jobs/ulfm_names"]);
    let options =
        ["--with-ft", "ulfm", "--mca", "shm_max_rings", "0", "--mca", "shm_inbox_cells", "4"];
    let outcome = p.run(3, &options, "ulfm_names", &[]);
    assert_eq!((outcome.code, &*outcome.out), (0, "ok\n"), "{outcome:?}");
}

#[test]
fn survivors_of_windows_and_files_go_on() {
    let p = compile(&["jobs/ulfm_kill"]);
    for transport in ["shm", "tcp"] {
        survive_at(&p, 4, &["--mca", "rpi", transport], "objects", 1..13);
        survive_at(&p, 7, &["--mca", "rpi", transport], "objects", 1..7);
    }
}

#[test]
fn no_rank_waits_for_failed_ones_in_windows_files_and_connections() {
    let p = compile(&["jobs/ulfm_windows"]);
    let windows = ["fence", "target", "exclusive", "shared", "epochs", "revoked"];
    let cases = windows.into_iter().flat_map(|how| [(how, "memory"), (how, "messages")]);
    let others = ["create", "files", "meetings"].into_iter().map(|how| (how, ""));
    for (how, by) in cases.chain(others) {
        for (transport, ranks) in [("shm", 3), ("shm", 5), ("tcp", 3), ("tcp", 5)] {
            let options = ["--with-ft", "ulfm", "--mca", "rpi", transport];
            let outcome = p.run(ranks, &options, "ulfm_windows", &[how, by]);
            assert_eq!(
                (outcome.code, notes(&outcome)),
                (0, 1),
                "{ranks} {transport} {how} {by}: {outcome:?}"
            );
            assert_eq!(outcome.out, "went on\n", "{ranks} {transport} {how} {by}: {outcome:?}");
        }
    }
}

#[test]
fn no_rank_waits_for_one_that_failed_in_an_accumulate() {
    let p = compile(&["jobs/ulfm_windows"]);
    // Ranks of another node send rank 0 requests. Rank 0 then takes the lock from the failed rank.
    for (nodes, ranks) in [("1", 3), ("1", 5), ("2", 4), ("2", 6)] {
        let options = ["--with-ft", "ulfm", "--mca", "mpi_virtual_nodes", nodes];
        let outcome = p.run(ranks, &options, "ulfm_windows", &["within"]);
        assert_eq!((outcome.code, notes(&outcome)), (0, 1), "{ranks} on {nodes}: {outcome:?}");
        assert_eq!(outcome.out, "went on\n", "{ranks} on {nodes}: {outcome:?}");
    }
}

#[test]
fn a_singleton_survives_its_children() {
    let p = compile(&["jobs/ulfm_rules"]);
    let mut command = Command::new(p.path("ulfm_rules"));
    command.env("OXMPI_MCA_mpi_ft_enable", "1").args(["spawn", p.marker()]);
    let outcome = p.start(command).end();
    assert_eq!((outcome.code, notes(&outcome)), (0, 2), "{outcome:?}");
    assert_eq!(outcome.out, "went on\n".repeat(3), "{outcome:?}");
}

/// In the middle of a long message: the failed rank's part of the pool is free again, and no rank
/// waits for pieces.
#[test]
fn long_messages_of_failed_ranks_delay_no_rank() {
    let p = compile(&["jobs/long_death"]);
    for role in ["0", "1", "2"] {
        for (ranks, single_copy) in [(2, "auto"), (3, "auto"), (3, "off")] {
            let options = ["--with-ft", "ulfm", "--mca", "single_copy", single_copy];
            let outcome = p.run(ranks, &options, "long_death", &[role]);
            let lines = "whole\n".repeat(ranks as usize - 1);
            assert_eq!(
                (outcome.code, &*outcome.out),
                (0, &*lines),
                "{ranks} {role} {single_copy}: {outcome:?}"
            );
            assert_eq!(notes(&outcome), 1, "{outcome:?}");
        }
    }
}

#[test]
fn a_rank_that_fails_before_mpi_init_or_aborts_ends_the_job() {
    let p = compile(&["jobs/die", "jobs/ulfm_rules"]);
    let outcome = p.run(3, &["--enable-recovery"], "die", &["before", "kill"]);
    assert_eq!(outcome.code, 137, "{outcome:?}");
    outcome.reports_once();
    // The survivors of this job do not return errors, so they end the job themselves.
    let outcome = p.run(3, &["-disable-auto-cleanup"], "die", &["between", "kill"]);
    assert!(outcome.err.contains("the job goes on without it") && outcome.code != 0, "{outcome:?}");
    assert!(outcome.err.contains("MPI_ERRORS_ARE_FATAL"), "{outcome:?}");
    let outcome = p.run(3, &["--with-ft", "none"], "ulfm_rules", &["kill"]);
    assert_eq!(outcome.code, 137, "{outcome:?}");
    outcome.reports_once();
}

mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn survivors_shrink_and_go_on_over_libfabric() {
        let p = compile(&["jobs/ulfm_kill"]);
        survive(&p, 7, &["--mca", "mtl", "ofi", "--mca", "mpi_virtual_nodes", "3"], 1..9);
    }
}
