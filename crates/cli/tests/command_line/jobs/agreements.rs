//! Agreements by the component ftagree: with each algorithm the living ranks agree, and the report
//! names the algorithm.

use super::harness::{Outcome, Programs, compile};

/// The algorithms that tolerate failures, and their trees.
const TOLERANT: [&[(&str, &str)]; 7] = [
    &[("coll_ftagree_era_topology", "1")],
    &[("coll_ftagree_era_topology", "2")],
    &[("coll_ftagree_era_topology", "3")],
    &[("coll_ftagree_era_topology", "4")],
    &[("coll_ftagree_era_topology", "4"), ("coll_ftagree_era_rebuild", "1")],
    &[("coll_ftagree_era_topology", "1"), ("coll_ftagree_era_rebuild", "1")],
    &[("coll_ftagree_agreement", "2")],
];

fn run(
    programs: &Programs,
    ranks: u32,
    said: &[(&str, &str)],
    program: &str,
    arguments: &[&str],
) -> Outcome {
    let said = said.iter().flat_map(|(name, value)| ["--mca", name, value]);
    let options: Vec<&str> = ["--with-ft", "ulfm"].into_iter().chain(said).collect();
    programs.run(ranks, &options, program, arguments)
}

fn deaths(outcome: &Outcome) -> usize {
    let gone = "  none of the others runs any more.";
    outcome.err.matches("  the job goes on without it; ").count()
        + outcome.err.matches(gone).count()
}

#[test]
fn the_living_agree_by_each_algorithm_while_others_die() {
    let programs = compile(&["jobs/ftagree"]);
    for said in TOLERANT {
        let mut dead = 0;
        for (ranks, seed) in [(4, 1), (5, 2), (7, 3), (8, 4), (8, 5)] {
            let more = if seed % 2 == 0 { ("rpi", "tcp") } else { ("rpi", "shm") };
            let said = [said, &[more]].concat();
            let outcome = run(&programs, ranks, &said, "ftagree", &["kill", &seed.to_string()]);
            assert_eq!(
                (outcome.code, &*outcome.out),
                (0, "ok\n"),
                "{ranks} ranks, {said:?}: {outcome:?}"
            );
            dead += deaths(&outcome);
        }
        assert!(dead > 4, "{said:?}: only {dead} have died");
    }
}

#[test]
fn programs_shrink_and_go_on_by_each_algorithm() {
    let programs = compile(&["jobs/ulfm_kill", "jobs/ulfm_rules"]);
    for said in TOLERANT {
        let mut dead = 0;
        for (ranks, seed) in [(4, 1), (5, 3), (7, 2), (7, 5)] {
            let outcome =
                run(&programs, ranks, said, "ulfm_kill", &[&seed.to_string(), "messages"]);
            let left = format!("{} of {ranks} are left\n", ranks as usize - deaths(&outcome));
            assert_eq!(
                (outcome.code, &outcome.out),
                (0, &left),
                "{said:?}, seed {seed}: {outcome:?}"
            );
            dead += deaths(&outcome);
        }
        assert!(dead > 0, "{said:?}: no rank has died");
        for (how, lines) in [("kill", 1), ("leave", 1), ("spawn", 3)] {
            let outcome = run(&programs, 4, said, "ulfm_rules", &[how]);
            let out = "went on\n".repeat(lines);
            assert_eq!((outcome.code, &outcome.out), (0, &out), "{said:?}, {how}: {outcome:?}");
        }
    }
}

#[test]
fn without_tolerance_a_failure_is_an_error_of_the_agreement() {
    let programs = compile(&["jobs/ftagree"]);
    for said in
        [[("coll_ftagree_agreement", "0")], [("coll", "^ftagree")], [("coll_basic_priority", "31")]]
    {
        for ranks in [2, 5] {
            let outcome = run(&programs, ranks, &said, "ftagree", &["fail"]);
            let ok = if ranks == 2 { "" } else { "ok\n" };
            let out = (outcome.out.as_str(), deaths(&outcome));
            assert_eq!(out, (ok, 1), "{ranks} ranks, {said:?}: {outcome:?}");
            assert_eq!(outcome.code, 0, "{ranks} ranks, {said:?}: {outcome:?}");
        }
    }
}

#[test]
fn agreements_that_no_component_serves_are_errors() {
    let programs = compile(&["jobs/ftagree"]);
    for coll in ["^ftagree,basic", "shmem,tuned,libnbc"] {
        let outcome = run(&programs, 3, &[("coll", coll)], "ftagree", &["refused"]);
        assert_eq!(
            (outcome.code, &*outcome.out, &*outcome.err),
            (0, "ok\n", ""),
            "{coll}: {outcome:?}"
        );
    }
}

#[test]
fn the_component_of_an_agreement_is_reported() {
    let programs = compile(&["jobs/ftagree"]);
    let reports = |ranks: u32, options: &[&str], line: &str| {
        let options = [&["--mca", "coll_verbose", "1"], options].concat();
        let outcome = programs.run(ranks, &options, "ftagree", &["fine"]);
        assert_eq!((outcome.code, &*outcome.out), (0, "ok\n"), "{options:?}: {outcome:?}");
        let line = format!("mpirun: coll: agreement on MPI_COMM_WORLD, {ranks} ranks: {line}\n");
        assert_eq!(outcome.err.matches(&line).count(), 1, "{options:?}, {line}: {outcome:?}");
        outcome.err
    };
    let with_ft = |options: &[&str], line: &str| {
        reports(4, &[&["--with-ft", "ulfm"], options].concat(), line)
    };
    let set = |name, value| ["--mca", name, value];
    let err = with_ft(&[], "algorithm 1 early returning, binary tree, component ftagree");
    assert!(
        err.contains("is served by: shmem 50, tuned 30, ftagree 30, libnbc 10, basic 0\n"),
        "{err}"
    );
    for (tree, name) in [("1", "binary"), ("2", "star"), ("3", "string"), ("4", "binomial")] {
        let line = format!("algorithm 1 early returning, {name} tree, component ftagree");
        with_ft(&set("coll_ftagree_era_topology", tree), &line);
    }
    let rebuilt =
        "algorithm 1 early returning, binary tree, rebuilt after failures, component ftagree";
    with_ft(&set("coll_ftagree_era_rebuild", "1"), rebuilt);
    let terminating = "algorithm 2 early terminating, component ftagree";
    with_ft(&set("coll_ftagree_agreement", "2"), terminating);
    let plain = "algorithm 0 allreduce, not fault tolerant, component";
    with_ft(&set("coll_ftagree_agreement", "0"), &format!("{plain} ftagree"));
    with_ft(&set("coll", "^ftagree"), &format!("{plain} basic"));
    with_ft(&set("coll_basic_priority", "31"), &format!("{plain} basic"));
    let first = ["--mca", "coll_basic_priority", "31", "--mca", "coll_ftagree_priority", "32"];
    with_ft(&first, "algorithm 1 early returning, binary tree, component ftagree");
    reports(3, &set("coll_ftagree_agreement", "2"), &format!("{plain} basic"));
}
