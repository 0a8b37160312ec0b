//! Jobs over Portals 4 (`--mca mtl portals4`), on an emulation that the tests compile
//! (`tests/portals-emulation/portals.c`). Neither a network nor a vendor's library was available,
//! so the tests show mainly that the transport and the emulation agree.

use super::harness::{Outcome, Programs, compile, compiled_library, installed};
use std::process::Command;

/// No message of a communicator goes through memory or sockets.
const ALONE: [&str; 6] = ["--mca", "mtl", "portals4", "--mca", "mtl_portals4_shm", "0"];

fn prepared(names: &[&str]) -> (Programs, String) {
    let programs = compile(names);
    let library = compiled_library("portals-emulation/portals.c", "libportals-of-tests.so.4")
        .display()
        .to_string();
    (programs, library)
}

fn run(
    (programs, library): &(Programs, String),
    ranks: u32,
    options: &[&str],
    program: &str,
    limits: &[(&str, &str)],
) -> Outcome {
    let options = [&ALONE[..], &["--mca", "mtl_portals4_library", library], options].concat();
    let mut command = programs.mpirun(ranks, &options, program, &[]);
    command.envs(limits.iter().copied());
    programs.start(command).end()
}

fn is_well(outcome: &Outcome) {
    assert!(
        outcome.code == 0 && outcome.out.ends_with("ok\n") && outcome.err.is_empty(),
        "{outcome:?}"
    );
}

fn all_run(programs: &[(&str, u32)], options: &[&str], limits: &[(&str, &str)]) {
    let mut names: Vec<_> = programs.iter().map(|(name, _)| *name).collect();
    names.dedup();
    let prepared = prepared(&names);
    for (name, ranks) in programs {
        let outcome = run(&prepared, *ranks, options, name, limits);
        assert!(
            outcome.code == 0 && outcome.out.ends_with("ok\n") && outcome.err.is_empty(),
            "{name} on {ranks} ranks, {options:?} {limits:?}: {outcome:?}"
        );
    }
}

#[test]
fn messages_go_point_to_point() {
    all_run(
        &[
            ("p2p_basic", 2),
            ("p2p_basic", 4),
            ("p2p_order", 4),
            ("p2p_wildcards", 4),
            ("p2p_derived", 2),
            ("p2p_truncate", 2),
            ("p2p_deep_queues", 2),
            ("p2p_bsend", 4),
        ],
        &[],
        &[],
    );
}

#[test]
fn probes_find_and_take_messages_and_receives_are_cancelled() {
    all_run(
        &[
            ("p2p_probe", 4),
            ("p2p_mprobe", 4),
            ("p2p_mprobe_threads", 2),
            // These cancel receives.
            ("p2p_waits", 4),
            ("request_complete_at_once", 2),
            ("p2p_persistent", 2),
        ],
        &[],
        &[],
    );
}

#[test]
fn collectives_communicators_and_windows_work() {
    all_run(
        &[
            ("coll_basic", 3),
            ("coll_nonblocking", 4),
            ("comm_split_dup", 4),
            ("comm_create", 4),
            ("comm_idup", 2),
            ("comm_disconnect", 2),
            ("comm_freed_requests", 2),
            ("intercomm_p2p", 4),
            ("spawn", 2),
            ("win_put_get", 4),
            ("partitioned_basic", 2),
        ],
        &["--mca", "coll", "^shmem"],
        &[],
    );
}

/// Ranks fail at any moment, also while a peer gets memory of theirs or has messages in it.
#[test]
fn the_others_go_on_when_ranks_die() {
    let (programs, library) = prepared(&["jobs/ulfm_kill"]);
    let options =
        [&ALONE[..], &["--with-ft", "ulfm", "--mca", "mtl_portals4_library", &library]].concat();
    for seed in 1..=4 {
        let outcome = programs.run(4, &options, "ulfm_kill", &[&seed.to_string(), "messages"]);
        assert!(
            outcome.code == 0 && outcome.out.contains(" of 4 are left"),
            "seed {seed}: {outcome:?}"
        );
    }
}

fn reported(outcome: &Outcome, name: &str) -> Vec<u64> {
    assert!(outcome.code == 0 && outcome.out.ends_with("ok\n"), "{outcome:?}");
    let lines =
        outcome.err.lines().filter_map(|line| line.split_once("portals: ").map(|(_, line)| line));
    let number = |line: &str| {
        let mut words = line.split(' ').skip_while(|word| *word != name).skip(1);
        words.next().unwrap().parse().unwrap()
    };
    lines.map(number).collect()
}

const REPORT: (&str, &str) = ("PORTALS_EMULATION_REPORT", "1");

#[test]
fn no_message_is_lost_or_overtaken_when_there_is_no_room() {
    let programs = prepared(&["p2p_flood", "p2p_deep_queues", "p2p_order"]);
    let blocks = [
        "--mca",
        "mtl_portals4_short_recv_num",
        "1",
        "--mca",
        "mtl_portals4_short_recv_size",
        "4096",
    ];
    let mut disabled = 0;
    for (program, ranks) in [("p2p_deep_queues", 2), ("p2p_order", 4)] {
        let outcome = run(&programs, ranks, &blocks, program, &[REPORT]);
        disabled += reported(&outcome, "disabled").iter().sum::<u64>();
    }
    assert!(disabled > 0);
    let queues = [
        "--mca",
        "mtl_portals4_recv_event_queue_size",
        "64",
        "--mca",
        "mtl_portals4_send_event_queue_size",
        "64",
    ];
    for (program, ranks) in [("p2p_flood", 2), ("p2p_deep_queues", 2)] {
        is_well(&run(&programs, ranks, &queues, program, &[]));
    }
}

#[test]
fn parameters_reach_the_network() {
    let programs = prepared(&["jobs/ofi"]);
    let one = |options: &[&str], name: &str| {
        let numbers = reported(&run(&programs, 2, options, "ofi", &[REPORT]), name);
        assert_eq!(numbers.len(), 2);
        numbers[0]
    };
    assert!(one(&[], "gets") > 0);
    assert_eq!(one(&["--mca", "mtl_portals4_eager_limit", "1048576"], "gets"), 0);
    assert_eq!(one(&["--mca", "mtl_portals4_short_recv_num", "3"], "blocks"), 3);
    assert_eq!(one(&["--mca", "mtl_portals4_short_recv_size", "8192"], "length"), 8192);
    assert_eq!(one(&["--mca", "mtl_portals4_send_event_queue_size", "70"], "queues"), 70);
    let receive = ["--mca", "mtl_portals4_recv_event_queue_size", "80"];
    let outcome = run(&programs, 2, &receive, "ofi", &[REPORT]);
    assert_eq!(outcome.err.matches("queues 1024 80\n").count(), 2, "{outcome:?}");
}

#[test]
fn memory_goes_before_the_network_within_a_node_alone() {
    let programs = prepared(&["jobs/ofi"]);
    for (shm, what) in [("1", "nothing was matched"), ("0", "messages were matched")] {
        let outcome = run(&programs, 4, &["--mca", "mtl_portals4_shm", shm], "ofi", &[]);
        assert_eq!(outcome.out, format!("MPI_TAG_UB {}, {what}\nok\n", i32::MAX), "{outcome:?}");
    }
    let nodes = ["--mca", "mtl_portals4_shm", "1", "--mca", "mpi_virtual_nodes", "2"];
    let outcome = run(&programs, 4, &nodes, "ofi", &[]);
    assert!(outcome.out.contains(", messages were matched\n"), "{outcome:?}");
}

#[test]
fn refusals_come_before_there_are_ranks() {
    let programs = prepared(&["jobs/ofi"]);
    for (options, texts) in [
        (
            &["--mca", "mtl_portals4_library", "/nonexistent/libportals.so.4"][..],
            &["'/nonexistent/libportals.so.4'", "No such file", "install", "mtl_portals4_library"]
                [..],
        ),
        (
            &["--mca", "mtl_portals4_library", "libc.so.6"],
            &["'libc.so.6' has no function PtlInit", "no library of Portals 4"],
        ),
        (&["--mca", "cr", "blcr"], &["portals4"]),
    ] {
        for parameter in ["mtl", "rpi"] {
            let library =
                ["--mca", parameter, "portals4", "--mca", "mtl_portals4_library", &programs.1];
            let outcome = programs.0.run(2, &[&library, options].concat(), "ofi", &[]);
            assert!(outcome.code != 0 && outcome.out.is_empty(), "{options:?}: {outcome:?}");
            let missing = texts.iter().find(|text| !outcome.err.contains(**text));
            assert_eq!(missing, None, "{options:?}: {outcome:?}");
        }
    }
    // A library without a network.
    let outcome = run(&programs, 2, &[], "ofi", &[("PORTALS_EMULATION_NO_DEVICE", "1")]);
    assert!(outcome.code != 0 && outcome.err.contains("PtlNIInit returns PTL_FAIL"), "{outcome:?}");
}

#[test]
fn the_interface_is_shown() {
    let (programs, library) = prepared(&["jobs/ofi"]);
    let info = |library: &str| {
        let mut command = Command::new(installed("oxmpi"));
        command.args(["info", "--portals4"]).current_dir(&programs.directory);
        command
            .env("OXMPI_MCA_mtl_portals4_library", library)
            .env("PORTALS_EMULATION_MAX_MSG", "12345");
        let output = command.output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let text = info(&library);
    assert!(
        text.contains(&library) && text.contains("12345") && text.contains("up to 2048 bytes"),
        "{text}"
    );
    assert!(info("/nonexistent.so").contains("/nonexistent.so"), "{text}");
}

mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn long_messages_are_got_whole_or_in_parts() {
        all_run(&[("p2p_large", 2), ("p2p_large", 4)], &[], &[]);
        let parts = [("PORTALS_EMULATION_MAX_MSG", "3000")];
        all_run(&[("p2p_basic", 3), ("p2p_derived", 2), ("p2p_truncate", 2)], &[], &parts);
        all_run(
            &[("p2p_basic", 2), ("p2p_mprobe", 2)],
            &["--mca", "mtl_portals4_eager_limit", "0"],
            &[],
        );
        // This program sends 3000 bytes around a ring before it receives.
        all_run(&[("p2p_communicators", 4)], &["--mca", "mtl_portals4_eager_limit", "4096"], &[]);
    }
}
