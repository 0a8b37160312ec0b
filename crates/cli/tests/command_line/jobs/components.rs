//! Collective components: results are right with each of them, the report names them, and
//! impossible choices are refused.

use super::harness::{Outcome, Programs, compile};

const COLLECTIVES: [&str; 14] = oxmpi_param::tuned::COLLECTIVES;

fn run(
    programs: &Programs,
    ranks: u32,
    said: &[(&str, &str)],
    program: &str,
    arguments: &[&str],
) -> Outcome {
    let options: Vec<&str> = said.iter().flat_map(|(name, value)| ["--mca", name, value]).collect();
    programs.run(ranks, &options, program, arguments)
}

/// The job reports success, and nothing else is printed.
fn check(
    programs: &Programs,
    ranks: u32,
    said: &[(&str, &str)],
    program: &str,
    arguments: &[&str],
) {
    let outcome = run(programs, ranks, said, program, arguments);
    let good = (outcome.code, outcome.out.as_str(), outcome.err.as_str()) == (0, "ok\n", "");
    assert!(good, "{ranks} ranks, {said:?}, {program} {arguments:?}: {outcome:?}");
}

const SETTINGS: [&[(&str, &str)]; 8] = [
    &[("coll", "basic")],
    &[("coll", "basic,self,libnbc"), ("coll_crossover", "2"), ("coll_reduce_crossover", "16")],
    &[("coll", "^tuned,xhc"), ("rpi", "tcp")],
    &[("coll_smp_virtual_nodes", "2")],
    &[("coll_han_virtual_nodes", "0,1"), ("rpi", "tcp")],
    &[("coll_base_associative", "0")],
    &[("mpi_virtual_nodes", "2")],
    &[("mpi_virtual_nodes", "2"), ("rpi", "tcp")],
];

#[test]
fn every_collective_is_right_with_each_component() {
    let programs = compile(&["jobs/forced"]);
    for said in SETTINGS {
        for collective in COLLECTIVES {
            check(&programs, 5, said, "forced", &[collective]);
        }
    }
}

#[test]
fn mpi_init_aborts_when_no_component_is_left_for_the_world() {
    let programs = compile(&["jobs/many"]);
    for coll in ["self", "smp", "inter", "sync"] {
        let outcome = run(&programs, 2, &[("coll", coll)], "many", &["init"]);
        let text = "no component of collectives is left for MPI_COMM_WORLD, 2 ranks; ";
        assert!(outcome.code != 0 && outcome.out.is_empty(), "{coll}: {outcome:?}");
        assert_eq!(outcome.err.matches(text).count(), 1, "{coll}: {outcome:?}");
        assert!(
            outcome.err.contains("MPI_Init")
                && outcome.err.contains("not selected (parameter coll)"),
            "{outcome:?}"
        );
    }
    for (coll, ranks) in
        [("self", 1), ("shmem", 2), ("libnbc", 2), ("self,basic", 2), ("self,base", 2)]
    {
        run(&programs, ranks, &[("coll", coll)], "many", &["init"]).is_fine(ranks as usize, " of ");
    }
}

/// `tuned` and `sm` have no collectives on intercommunicators, and of gatherv only the blocking
/// form.
#[test]
fn base_serves_collectives_that_no_listed_component_has() {
    let programs = compile(&["coll_gatherv", "jobs/components", "jobs/forced"]);
    check(&programs, 4, &[("coll", "tuned,sm")], "coll_gatherv", &[]);
    check(&programs, 3, &[("coll", "shmem,self")], "forced", &["reduce_scatter"]);
    let report =
        run(&programs, 3, &[("coll", "tuned,sm"), ("coll_verbose", "1")], "components", &["mixed"]);
    assert_eq!((report.code, &*report.out), (0, "ok\n"), "{report:?}");
    for text in [
        "coll: MPI_COMM_WORLD, 3 ranks is served by: shmem 50, tuned 30, base 0\n",
        ", 3 ranks is served by: base 0\n",
        ", component base\n",
    ] {
        assert!(report.err.contains(text), "{text}: {}", report.err);
    }
}

#[test]
fn rank_order_and_repeated_results_hold_with_each_component() {
    let programs = compile(&["jobs/components"]);
    for said in SETTINGS {
        check(&programs, 4, said, "components", &["order"]);
        check(&programs, 3, said, "components", &["mixed"]);
    }
    let grouped = [("coll_base_associative", "1"), ("coll_smp_virtual_nodes", "2")];
    check(&programs, 5, &grouped, "components", &["order"]);
}

#[test]
fn strict_order_is_strict_until_the_program_changes_it() {
    let programs = compile(&["jobs/components"]);
    for more in [
        ("rpi", "shm"),
        ("rpi", "tcp"),
        ("coll_smp_virtual_nodes", "2"),
        ("mpi_virtual_nodes", "2"),
    ] {
        check(&programs, 4, &[("coll_base_associative", "0"), more], "components", &["strict"]);
    }
}

#[test]
fn barriers_of_sync_hold_a_fast_rank_back() {
    let programs = compile(&["jobs/components"]);
    check(&programs, 3, &[("coll_sync_barrier_before", "4")], "components", &["sync", "4"]);
    check(
        &programs,
        3,
        &[("coll_sync_barrier_after", "1"), ("rpi", "tcp")],
        "components",
        &["sync", "1"],
    );
}

#[test]
fn exactly_each_nth_collective_has_a_barrier_of_sync() {
    let programs = compile(&["jobs/barriers"]);
    for (before, after, more) in [
        ("3", "0", ("rpi", "shm")),
        ("0", "4", ("rpi", "tcp")),
        ("2", "5", ("coll", "^shmem")),
        ("1", "1", ("mpi_virtual_nodes", "2")),
    ] {
        let said = [("coll_sync_barrier_before", before), ("coll_sync_barrier_after", after), more];
        check(&programs, 3, &said, "barriers", &[before, after]);
    }
}

#[test]
fn an_attribute_names_the_component_of_new_communicators() {
    let programs = compile(&["jobs/components"]);
    check(&programs, 3, &[], "components", &["attribute"]);
    let report = run(&programs, 2, &[("coll_verbose", "1")], "components", &["attribute"]).err;
    let lines: Vec<&str> = report.lines().collect();
    // Each rank prints the line of its own MPI_COMM_SELF, so that line and the one of
    // MPI_COMM_WORLD come in either order.
    for line in [
        "mpirun: coll: MPI_COMM_WORLD, 2 ranks is served by: shmem 50, tuned 30, libnbc 10, basic 0",
        "mpirun: coll: MPI_COMM_SELF, 1 rank is served by: self 75, tuned 30, libnbc 10, basic 0",
    ] {
        assert_eq!(lines[..2].iter().filter(|first| **first == line).count(), 1, "{report}");
    }
    assert!(lines.iter().any(|line| line.ends_with(", 2 ranks is served by: basic 0")), "{report}");
    assert!(
        lines.iter().any(|line| line.ends_with(", 2 ranks is served by: no component")),
        "{report}"
    );
    let served =
        "on basic only, 2 ranks: algorithm 1 basic_linear, by the crossovers, component basic";
    assert!(lines.iter().any(|line| line.ends_with(served)), "{report}");
}

#[test]
fn an_info_names_the_component_of_the_communicator_that_is_made_with_it() {
    let programs = compile(&["jobs/components"]);
    for ranks in [1, 3] {
        check(&programs, ranks, &[], "components", &["info"]);
    }
    check(&programs, 4, &[("rpi", "tcp")], "components", &["info"]);
    let report = run(&programs, 2, &[("coll_verbose", "1")], "components", &["info"]).err;
    let served =
        "on named by info, 2 ranks: algorithm 1 basic_linear, by the crossovers, component basic";
    assert!(report.lines().any(|line| line.ends_with(served)), "{report}");
    assert!(
        report.lines().any(|line| line.ends_with(", 2 ranks is served by: inter 40")),
        "{report}"
    );
}

#[test]
fn an_attribute_says_what_is_associative_on_one_communicator() {
    let programs = compile(&["jobs/components"]);
    for said in [
        &[][..],
        &[("rpi", "tcp")],
        &[("coll_smp_virtual_nodes", "2")],
        &[("coll_base_associative", "1")],
    ] {
        check(&programs, 4, said, "components", &["associative"]);
    }
    check(&programs, 1, &[], "components", &["associative"]);
    let report = run(&programs, 2, &[("coll_verbose", "1")], "components", &["associative"]).err;
    let served = |name: &str, by: &str| {
        let start = format!("mpirun: coll: allreduce of 4 bytes on {name}, 2 ranks: ");
        report.lines().any(|line| line.starts_with(&start) && line.ends_with(by))
    };
    assert!(served("strict", "component basic") && served("heir", "component shmem"), "{report}");
}

#[test]
fn the_component_of_each_collective_is_reported() {
    let programs = compile(&["jobs/components"]);
    let report = |said: &[(&str, &str)]| {
        let said = [said, &[("coll_verbose", "1")]].concat();
        run(&programs, 4, &said, "components", &["mixed"]).err
    };
    let smp = report(&[("coll_smp_virtual_nodes", "2")]);
    for text in [
        "coll: MPI_COMM_WORLD, 4 ranks on 2 nodes is served by: smp 50, tuned 30, libnbc 10, basic 0\n",
        "coll: allreduce of 8 bytes on MPI_COMM_WORLD, 4 ranks: algorithm 32 smp, by the 2 nodes, component smp\n",
        "4 ranks on 2 nodes is served by: inter 40, libnbc 10, basic 0\n",
    ] {
        assert!(smp.contains(text), "{text}: {smp}");
    }
    // The line also depends on whether the node is oversubscribed.
    let is_inter = |line: &str| {
        line.contains(": algorithm 32 leaders, by the fixed rules (all other sizes")
            && line.ends_with("), component inter")
    };
    assert!(smp.lines().any(is_inter), "{smp}");
    // Real nodes count, whatever the transport between them.
    for transport in ["shm", "tcp"] {
        let smp = report(&[("mpi_virtual_nodes", "2"), ("rpi", transport)]);
        for text in [
            "coll: MPI_COMM_WORLD, 4 ranks on 2 nodes is served by: smp 50, tuned 30, libnbc 10, basic 0\n",
            "coll: allreduce of 8 bytes on MPI_COMM_WORLD, 4 ranks: algorithm 32 smp, by the 2 nodes, component smp\n",
        ] {
            assert!(smp.contains(text), "{transport}, {text}: {smp}");
        }
    }
    let sync = report(&[("coll_sync_barrier_after", "2"), ("coll", "^shmem")]);
    let text = "is served by: tuned 30, libnbc 10, basic 0; around those to 50: sync\n";
    assert!(sync.contains(text), "{sync}");
}

#[test]
fn long_vectors_travel_in_segments_between_nodes() {
    let programs = compile(&["jobs/segments"]);
    for (ranks, segment, rpi) in
        [(4, "65536", "shm"), (5, "100000", "shm"), (4, "65536", "tcp"), (6, "262144", "shm")]
    {
        let said = [("mpi_virtual_nodes", "2"), ("rpi", rpi), ("coll_smp_segmentsize", segment)];
        check(&programs, ranks, &said, "segments", &[segment]);
    }
    let whole = [("mpi_virtual_nodes", "2"), ("coll_smp_segmentsize", "4194304")];
    check(&programs, 8, &whole, "segments", &["0"]);
}

#[test]
fn impossible_choices_are_refused_with_the_reason() {
    let programs = compile(&["jobs/forced"]);
    for (parameter, value, text) in [
        (
            "coll",
            "basic,shmen",
            "there is no collective component 'shmen' (did you mean 'shmem'?): expected accelerator, ",
        ),
        ("coll", "^base", "'base' serves what no other collective component does"),
        (
            "coll_smp_virtual_nodes",
            "two",
            "'two' is neither a number of nodes, from 1 on, nor a list",
        ),
    ] {
        let outcome = run(&programs, 2, &[(parameter, value)], "forced", &["bcast"]);
        let wanted = format!("mpirun: --mca {parameter} {value}: parameter '{parameter}': {text}");
        assert!(
            outcome.code != 0 && outcome.out.is_empty() && outcome.err.starts_with(&wanted),
            "{outcome:?}"
        );
    }
}

#[test]
fn ranks_of_two_jobs_choose_alike() {
    let programs = compile(&["jobs/merged"]);
    for said in
        [&[][..], &[("coll", "basic")], &[("coll_base_associative", "0")], &[("coll", "^shmem")]]
    {
        check(&programs, 2, said, "merged", &[]);
    }
}
