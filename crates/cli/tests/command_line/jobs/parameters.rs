//! The effect of each parameter: `observed.rs` lists the test of each.

use std::fs;

use oxmpi_core::copy_costs::{Platform, render};
use oxmpi_fabric::shm::copy_policy::CopyFacts;

use super::harness::{Outcome, Programs, compile};

type Said<'a> = &'a [(&'a str, &'a str)];

fn run(p: &Programs, ranks: u32, said: Said<'_>, words: &[&str]) -> Outcome {
    let options: Vec<&str> = said.iter().flat_map(|(name, value)| ["--mca", name, value]).collect();
    p.run(ranks, &options, "parameters", words)
}

fn check(p: &Programs, ranks: u32, said: Said<'_>, words: &[&str]) {
    let outcome = run(p, ranks, said, words);
    assert_eq!((outcome.code, &*outcome.out), (0, "ok\n"), "{said:?} {words:?}: {outcome:?}");
}

#[test]
fn arguments_are_checked_or_trusted() {
    let p = compile(&["jobs/parameters"]);
    for checked in ["0", "1"] {
        check(&p, 1, &[("mpi_param_check", checked)], &["arguments", checked]);
    }
}

#[test]
fn operations_beyond_the_standard_are_refused_on_request() {
    let p = compile(&["jobs/parameters"]);
    for strict in ["0", "1"] {
        for transport in ["shm", "tcp"] {
            check(&p, 2, &[("rpi", transport), ("mpi_strict", strict)], &["strict", strict]);
        }
    }
}

#[test]
fn errors_go_to_the_named_handler() {
    let p = compile(&["jobs/parameters"]);
    check(&p, 1, &[("mpi_initial_errhandler", "mpi_errors_return")], &["errors"]);
    for (handler, whom) in
        [("mpi_errors_are_fatal", "MPI_ERRORS_ARE_FATAL"), ("mpi_errors_abort", "MPI_ERRORS_ABORT")]
    {
        let outcome = run(&p, 1, &[("mpi_initial_errhandler", handler)], &["errors"]);
        assert!(outcome.code != 0 && outcome.err.contains(whom), "{outcome:?}");
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn longer_messages_are_announced() {
    let p = compile(&["jobs/parameters"]);
    for (transport, name, value, limit) in [
        ("shm", "shm_eager_limit_bytes", "5000", "5000"),
        ("tcp", "rpi_tcp_short", "1000", "1000"),
        ("crtcp", "rpi_crtcp_short", "200000", "200000"),
        ("usysv", "rpi_usysv_short", "1000", "2000"),
        ("sysv", "rpi_sysv_short", "1000", "2000"),
    ] {
        check(&p, 2, &[("rpi", transport), (name, value)], &["eager", limit]);
    }
}

#[test]
fn the_kernel_buffers_the_requested_bytes() {
    let p = compile(&["jobs/parameters"]);
    let most = |direction: &str| -> usize {
        let text = fs::read_to_string(format!("/proc/sys/net/core/{direction}mem_max")).unwrap();
        text.trim().parse().unwrap()
    };
    let most = most("r").min(most("w"));
    for (transport, name, short) in [
        ("tcp", "rpi_tcp_sockbuf", "rpi_tcp_short"),
        ("crtcp", "rpi_crtcp_sockbuf", "rpi_crtcp_short"),
    ] {
        check(&p, 2, &[("rpi", transport), (name, "100000")], &["buffers", "100000"]);
        // Room for the longest short message, and at least 1 MiB.
        for (limit, wanted) in [("65535", 1 << 20), ("2m", 2 << 20)] {
            if wanted <= most {
                let said = [("rpi", transport), (name, "-1"), (short, limit)];
                check(&p, 2, &said, &["buffers", &wanted.to_string()]);
            }
        }
    }
}

#[test]
fn rings_and_inboxes_have_the_requested_size() {
    let p = compile(&["jobs/parameters"]);
    for (slots, most) in [("16", "80"), ("128", "192")] {
        check(&p, 2, &[("shm_ring_slots", slots)], &["depth", "16", slots, most]);
    }
    check(&p, 2, &[("shm_ring_slots", "16")], &["depth", "8", "48", "128"]);
    check(&p, 2, &[("shm_ring_data_bytes", "32k")], &["depth", "1000", "16", "32"]);
    check(&p, 2, &[("shm_ring_data_bytes", "65536")], &["depth", "1000", "33", "65"]);
    let no_rings = ("shm_max_rings", "0");
    check(&p, 2, &[no_rings, ("shm_inbox_cells", "4")], &["depth", "8", "1", "4"]);
    check(&p, 2, &[no_rings, ("shm_inbox_cells", "64")], &["depth", "8", "33", "64"]);
    for (granted, wanted) in [("2", "2"), ("16", "3")] {
        check(&p, 4, &[("shm_max_rings", granted)], &["rings", wanted]);
    }
}

#[test]
fn the_pool_and_the_heap_have_the_requested_size() {
    let p = compile(&["jobs/parameters"]);
    for bytes in [0, 1 << 20, 4 << 20] {
        let has = if cores() < 2 { bytes / 4 } else { bytes };
        check(&p, 2, &[("shm_pool_bytes", &bytes.to_string())], &["pool", &has.to_string()]);
    }
    for bytes in ["0", "67108864"] {
        check(&p, 2, &[("shm_heap_bytes", bytes)], &["heap", bytes]);
    }
}

#[test]
fn receivers_copy_messages_alone_on_request() {
    let p = compile(&["jobs/parameters"]);
    for bytes in ["1100", "6000", "60000", "250000"] {
        check(&p, 2, &[("single_copy", "on")], &["copies", "1", bytes]);
        check(&p, 2, &[("single_copy", "off")], &["copies", "0", bytes]);
    }
    // A computing sender does not copy into the pool.
    for (value, copies) in [("on", "1"), ("auto", "1"), ("off", "0")] {
        check(&p, 2, &[("single_copy", value)], &["alone", copies]);
    }
}

#[test]
fn messages_are_copied_as_the_file_of_costs_says() {
    let p = compile(&["jobs/parameters"]);
    let name = format!("costs-of-a-job-{}", std::process::id());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut facts = CopyFacts::here();
    for (call_ns, copies) in [(1.0, "1"), (1e8, "0")] {
        (facts.single_copy.call_ns, facts.single_copy.both_ns) = (call_ns, 1.0);
        fs::write(&file, render(&Platform::here(), &facts, &[])).unwrap();
        check(&p, 2, &[("shm_copy_costs", file.to_str().unwrap())], &["copies", copies, "60000"]);
    }
    fs::remove_file(&file).unwrap();
}

#[test]
fn a_rank_waits_awake_for_the_requested_time() {
    let p = compile(&["jobs/parameters"]);
    if cores() >= 2 {
        for (spin, offer, asleep) in [("0", "0", "1"), ("1000000", "0", "0"), ("0", "1000000", "0")]
        {
            let said = [("wait_spin_us", spin), ("wait_yield_us", offer), ("wait_sleeping", "0")];
            check(&p, 2, &said, &["asleep", asleep]);
        }
    }
    let ranks = 2 * cores() as u32;
    for (yields, asleep) in [("0", "1"), ("1000000", "0")] {
        check(&p, ranks, &[("wait_yields", yields), ("wait_sleeping", "0")], &["asleep", asleep]);
    }
    for (slow, sleeping, asleep) in [("1", "1000", "1"), ("1", "0", "0"), ("1000000", "1000", "0")]
    {
        let said =
            [("wait_yields", "1000000"), ("wait_slow_yield_us", slow), ("wait_sleeping", sleeping)];
        check(&p, ranks, &said, &["asleep", asleep]);
    }
}

#[test]
fn postboxes_are_polled_the_requested_number_of_times() {
    let p = compile(&["jobs/parameters"]);
    let usysv = ("rpi", "usysv");
    for (polls, asleep) in [("1000000000", "0"), ("0", "1")] {
        let said = [usysv, ("rpi_usysv_readlockpoll", polls), ("wait_yields", "0")];
        check(&p, 2, &said, &["asleep", asleep]);
    }
    for (polls, pauses) in [("0", "1"), ("1", "1"), ("1000000000", "0")] {
        check(&p, 2, &[usysv, ("rpi_usysv_writelockpoll", polls)], &["pauses", pauses]);
    }
    // A select() of 10 microseconds gives up the core each time; a yield only if another process
    // wants the core.
    for (value, least, most) in [("0", "50", "1000000"), ("1", "0", "10")] {
        let often =
            [("rpi_usysv_readlockpoll", "0"), ("wait_yields", "1000000"), ("wait_sleeping", "0")];
        let said = [&[usysv, ("rpi_usysv_pollyield", value)], &often[..]].concat();
        check(&p, 2, &said, &["gives", least, most]);
    }
    for (value, least, most) in [("0", "2", "6"), ("1", "0", "1")] {
        check(&p, 2, &[("rpi", "sysv"), ("rpi_sysv_pollyield", value)], &["gives", least, most]);
    }
}

#[test]
fn the_highest_priority_is_selected() {
    let p = compile(&["jobs/parameters"]);
    for (transport, name) in [
        ("shm", "rpi_shm_priority"),
        ("tcp", "rpi_tcp_priority"),
        ("usysv", "rpi_usysv_priority"),
        ("sysv", "rpi_sysv_priority"),
        ("crtcp", "rpi_crtcp_priority"),
        ("lamd", "rpi_lamd_priority"),
    ] {
        let said = [(name, "100"), ("mpi_show_select", "1")];
        let outcome = run(&p, 2, &said, &["collectives"]);
        let text = format!("5. rpi {transport} is selected");
        assert!(outcome.code == 0 && outcome.err.contains(&text), "{outcome:?}");
    }
}

fn component_report(p: &Programs, ranks: u32, said: Said<'_>) -> String {
    let outcome = run(p, ranks, &[said, &[("coll_verbose", "1")]].concat(), &["collectives"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    outcome.err
}

#[test]
fn the_component_of_the_highest_priority_serves() {
    let p = compile(&["jobs/parameters"]);
    let on_self = "MPI_COMM_SELF, 1 rank is served by: ";
    let on_world = "MPI_COMM_WORLD, 4 ranks is served by: ";
    for (said, line) in [
        (&[("coll_self_priority", "5")][..], format!("{on_self}tuned 30, libnbc 10, self 5, basic 0\n")),
        (&[("coll_shmem_priority", "20")], format!("{on_world}tuned 30, shmem 20, libnbc 10, basic 0\n")),
        (&[("coll_tuned_priority", "60")], format!("{on_world}tuned 60, shmem 50, libnbc 10, basic 0\n")),
        (&[("coll_libnbc_priority", "40")], format!("{on_world}shmem 50, libnbc 40, tuned 30, basic 0\n")),
        (&[("coll_basic_priority", "99")], format!("{on_world}basic 99, shmem 50, tuned 30, libnbc 10\n")),
        (&[("coll_inter_priority", "3")], "is served by: libnbc 10, inter 3, basic 0\n".to_string()),
        (
            &[("coll_smp_priority", "20"), ("mpi_virtual_nodes", "2")],
            "MPI_COMM_WORLD, 4 ranks on 2 nodes is served by: tuned 30, smp 20, libnbc 10, basic 0\n"
                .to_string(),
        ),
        (
            &[("coll_sync_priority", "20"), ("coll_sync_barrier_after", "2")],
            format!("{on_world}shmem 50, tuned 30, libnbc 10, basic 0; around those to 20: sync\n"),
        ),
    ] {
        let report = component_report(&p, 4, said);
        assert!(report.contains(&line), "{said:?}, {line}: {report}");
    }
    let served = "allreduce of 16 bytes on MPI_COMM_WORLD, 4 ranks: algorithm 1 basic_linear, by the crossovers, component basic\n";
    let report = component_report(&p, 4, &[("coll_basic_priority", "99")]);
    assert!(report.contains(served), "{report}");
}

#[test]
fn basic_crosses_over_at_the_parameters() {
    let p = compile(&["jobs/parameters"]);
    let algorithm = |call: &str, said: Said<'_>| {
        let report = component_report(&p, 4, &[&[("coll", "basic")], said].concat());
        let start = format!("mpirun: coll: {call} on MPI_COMM_WORLD, 4 ranks: algorithm ");
        let line = report.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{start}: {report}")).split(',').next().unwrap().to_string()
    };
    let (bcast, reduce) = ("bcast of 64 bytes", "reduce of 16 bytes");
    for (most, is_linear) in [("4", true), ("3", false)] {
        let said = [("coll_crossover", most)];
        assert_eq!(algorithm(bcast, &said).contains("linear"), is_linear);
        assert!(algorithm(reduce, &said).contains("linear"));
    }
    for (most, is_linear) in [("16", true), ("15", false)] {
        let said = [("coll_reduce_crossover", most)];
        assert!(algorithm(bcast, &said).contains("linear"));
        assert_eq!(algorithm(reduce, &said).contains("linear"), is_linear);
    }
}

#[test]
fn a_message_pool_needs_room_for_a_line_for_each_rank_in_its_segments() {
    let p = compile(&["jobs/parameters"]);
    for (bytes, segments, serves) in
        [("4096", "64", false), ("4096", "8", true), ("65536", "64", true)]
    {
        let said = [
            ("coll_base_shmem_message_pool_size", bytes),
            ("coll_base_shmem_num_segments", segments),
        ];
        let report = component_report(&p, 4, &said);
        let by = "bcast of 64 bytes on MPI_COMM_WORLD, 4 ranks: through shared memory";
        assert_eq!(report.contains(by), serves, "{said:?}: {report}");
    }
}

#[test]
fn the_tuning_of_a_forced_algorithm_counts() {
    let p = compile(&["jobs/parameters"]);
    let number = |ranks, said: Said<'_>, words: &[&str]| {
        let outcome =
            run(&p, ranks, &[&[("coll_tuned_use_dynamic_rules", "1")], said].concat(), words);
        assert!(outcome.code == 0 && outcome.out.ends_with("ok\n"), "{said:?}: {outcome:?}");
        outcome.out.split(' ').next().unwrap().parse::<u32>().unwrap()
    };
    for (chains, segment, sent) in [("1", "16384", 4), ("2", "16384", 8), ("2", "32768", 4)] {
        let said = [
            ("coll_tuned_bcast_algorithm", "chain"),
            ("coll_tuned_bcast_algorithm_chain_fanout", chains),
            ("coll_tuned_bcast_algorithm_segmentsize", segment),
        ];
        assert_eq!(number(5, &said, &["sent"]), sent, "{said:?}");
    }
    for (children, sent) in [("2", 3), ("4", 4)] {
        let said = [
            ("coll_tuned_bcast_algorithm", "knomial"),
            ("coll_tuned_bcast_algorithm_tree_fanout", children),
        ];
        assert_eq!(number(5, &said, &["sent"]), sent, "{said:?}");
    }
    for (most, announced) in [("1", 1), ("2", 2), ("8", 3)] {
        let said = [
            ("coll_tuned_alltoall_algorithm", "linear_sync"),
            ("coll_tuned_alltoall_algorithm_max_requests", most),
        ];
        assert_eq!(number(4, &said, &["outstanding"]), announced, "{said:?}");
    }
}
