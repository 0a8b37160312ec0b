//! Jobs over Myrinet (`--mca rpi gm`), by an emulation of GM's calls between processes
//! (`tests/gm-emulation/gm.c`). Each rank is on its own virtual node, so that no message goes
//! through shared memory.

use super::harness::{Outcome, Programs, compile, compiled_library, installed, root};
use std::process::Command;

fn library() -> String {
    compiled_library("gm-emulation/gm.c", "libgm-of-tests.so").display().to_string()
}

fn job(
    programs: &Programs,
    ranks: u32,
    options: &[&str],
    (program, arguments): (&str, &[&str]),
    variables: &[(&str, &str)],
) -> Outcome {
    let library = library();
    let nodes = ["--mca", "mpi_virtual_nodes", "64", "--mca", "rpi_gm_library", &library];
    let mut command = programs.mpirun(ranks, &[&nodes, options].concat(), program, arguments);
    command.env("GM_EMULATION_NETWORK", programs.marker()).envs(variables.iter().copied());
    programs.start(command).end()
}

fn run(
    programs: &Programs,
    ranks: u32,
    options: &[&str],
    program: (&str, &[&str]),
    variables: &[(&str, &str)],
) -> Outcome {
    job(programs, ranks, &[&["--mca", "rpi", "gm"], options].concat(), program, variables)
}

fn passes(names: &[&str], ranks: &[u32], options: &[&str], variables: &[(&str, &str)]) {
    let programs = compile(names);
    // The emulation passes on a few thousand messages per second on few processors.
    let variables = [variables, &[("CHECK_DIVISOR", "10")]].concat();
    for name in names {
        for ranks in ranks {
            let outcome = run(&programs, *ranks, options, (name, &[]), &variables);
            let is_well = outcome.code == 0 && outcome.out.lines().last() == Some("ok");
            assert!(is_well && outcome.err.is_empty(), "{name} on {ranks}: {outcome:?}");
        }
    }
}

#[test]
fn messages_of_all_modes_arrive() {
    passes(&["p2p_basic", "p2p_probe", "p2p_truncate"], &[2, 4], &[], &[]);
}

#[test]
fn messages_keep_their_order() {
    passes(&["p2p_order", "p2p_wildcards"], &[2, 4], &[], &[]);
}

#[test]
fn long_messages_come_in_pieces() {
    passes(&["p2p_large"], &[2], &[], &[]);
    passes(&["p2p_derived"], &[2, 4], &[], &[]);
}

#[test]
fn seven_ranks_take_turns_on_few_processors() {
    passes(&["p2p_basic", "p2p_flood", "coll_nonblocking"], &[7], &[], &[]);
}

#[test]
fn collectives_and_windows_work() {
    passes(&["coll_basic", "win_put_get"], &[2, 4], &[], &[]);
}

#[test]
fn jobs_are_spawned_and_disconnected() {
    passes(&["spawn"], &[3], &[], &[]);
    passes(&["comm_disconnect"], &[2, 4], &[], &[]);
}

#[test]
fn callbacks_that_come_a_second_late_delay_and_lose_nothing() {
    let late = [("GM_EMULATION_CALLBACK_MS", "1000"), ("GM_EMULATION_SEND_TOKENS", "64")];
    let programs = compile(&["jobs/world"]);
    for ranks in [2, 3] {
        let outcome = run(&programs, ranks, &[], ("world", &[]), &late);
        assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    }
    let late = [("GM_EMULATION_CALLBACK_MS", "20")];
    passes(&["p2p_basic"], &[2, 4], &[], &late);
}

#[test]
fn messages_of_up_to_tinymsglen_leave_before_their_receive() {
    let programs = compile(&["jobs/gm"]);
    for (options, length) in [(&[][..], 1024), (&["--mca", "rpi_gm_tinymsglen", "5000"], 5000)] {
        let outcome = run(&programs, 2, options, ("gm", &["protocol"]), &[]);
        assert_eq!(
            (outcome.code, outcome.out),
            (0, format!("{length} bytes leave\nok\n")),
            "{}",
            outcome.err
        );
    }
}

#[test]
fn long_messages_are_moved_from_and_to_memory_that_may_be_registered() {
    let programs = compile(&["jobs/gm"]);
    let (nopin, gets) = (["--mca", "rpi_gm_nopin", "1"], ["--mca", "rpi_gm_cr", "1"]);
    for (options, memory, said) in [
        (&[][..], &[][..], "4 MiB put, 0 got, 0 copied\n"),
        (&nopin, &[], "0 MiB put, 0 got, 4 copied\n"),
        (&nopin, &["allocated"], "4 MiB put, 0 got, 0 copied\n"),
        (&gets, &[], "0 MiB put, 4 got, 0 copied\n"),
    ] {
        let outcome = run(&programs, 2, options, ("gm", &[&["moved"][..], memory].concat()), &[]);
        let ended = (outcome.code, outcome.out.as_str(), outcome.err.as_str());
        assert_eq!(ended, (0, &*format!("{said}ok\n"), ""), "{options:?}");
    }
}

#[test]
fn memory_is_registered_for_one_message() {
    passes(&["p2p_remapped"], &[2, 4], &[], &[]);
}

#[test]
fn unregistrable_memory_is_copied_with_one_warning() {
    let programs = compile(&["jobs/gm"]);
    let little = [("GM_EMULATION_REGISTERED", "1000000")];
    let outcome = run(&programs, 2, &[], ("gm", &["moved"]), &little);
    assert_eq!(
        (outcome.code, &*outcome.out),
        (0, "0 MiB put, 0 got, 4 copied\nok\n"),
        "{outcome:?}"
    );
    assert_eq!(outcome.err.lines().count(), 1, "{outcome:?}");
    for text in ["rank 0: gm, port ", "gm_register_memory says: out of memory", "rpi_gm_nopin"] {
        assert!(outcome.err.contains(text), "{outcome:?}");
    }
}

#[test]
fn a_node_that_vanishes_is_a_failed_process() {
    let programs = compile(&["jobs/gm"]);
    let gone = [("GM_EMULATION_VANISH", "4:50"), ("GM_EMULATION_TIMEOUT_MS", "1000")];
    let outcome = run(&programs, 2, &["--with-ft", "ulfm"], ("gm", &["silent"]), &gone);
    assert_eq!((outcome.code, outcome.out.as_str()), (3, "proc failed\n"), "{outcome:?}");
    let named = "nothing goes to process 1 any more: a message has failed";
    assert!(
        outcome.err.contains(named) && outcome.err.contains("target node was unreachable"),
        "{outcome:?}"
    );
}

#[test]
fn ports_are_taken_from_2_on_and_a_rank_without_one_ends_the_job() {
    let programs = compile(&["jobs/gm"]);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for (ranks, options, ports, texts) in [
        // 2 and 4: IP has port 3.
        (
            3,
            &["--mca", "rpi_gm_maxport", "4"][..],
            "16",
            ["ports 2 to 4", "port is busy", "rpi_gm_maxport"],
        ),
        (4, &[], "6", ["ports 2 to 32", "port is busy", "fewer processes"]),
        (
            2,
            &["--mca", "rpi_gm_port", "5"],
            "16",
            ["port 5 (rpi_gm_port)", "port is busy", "leave rpi_gm_port out"],
        ),
        (
            1,
            &["--mca", "rpi_gm_port", "20"],
            "16",
            ["port 20 (rpi_gm_port)", "gm_open says: invalid p", "leave rpi_gm_port out"],
        ),
    ] {
        let outcome = run(&programs, ranks, options, ("gm", &[]), &[("GM_EMULATION_PORTS", ports)]);
        assert!(outcome.code != 0 && outcome.out.is_empty(), "{outcome:?}");
        for text in texts.into_iter().chain([&*host]) {
            assert!(outcome.err.contains(text), "{text}: {outcome:?}");
        }
    }
    let outcome = run(&programs, 3, &[], ("gm", &[]), &[("GM_EMULATION_PORTS", "6")]);
    assert_eq!(
        (outcome.code, outcome.out.as_str(), outcome.err.as_str()),
        (0, "ok\n", ""),
        "2, 4 and 5"
    );
    let forced = ["--mca", "rpi_gm_port", "5"];
    let outcome = run(&programs, 1, &forced, ("gm", &[]), &[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
    let outcome = run(&programs, 1, &forced, ("gm", &["spawn"]), &[]);
    assert!(outcome.code != 0 && outcome.err.contains("port 5 (rpi_gm_port)"), "{outcome:?}");
}

#[test]
fn missing_libraries_are_named_and_checkpoints_need_their_parameter() {
    let programs = compile(&["jobs/gm"]);
    for (options, texts) in [
        (
            &["--mca", "rpi_gm_library", "/nonexistent/libgm.so"][..],
            ["/nonexistent/libgm.so", "No such file", "install"],
        ),
        (
            &["--mca", "rpi_gm_library", "libc.so.6"],
            ["'libc.so.6'", "no function gm_init", "no GM"],
        ),
        (&["--mca", "cr", "blcr"], ["rpi gm", "rpi_gm_cr is 0", "'--mca rpi_gm_cr 1'"]),
    ] {
        let outcome = run(&programs, 2, options, ("gm", &[]), &[]);
        assert!(outcome.code != 0 && outcome.out.is_empty(), "{options:?}: {outcome:?}");
        for text in texts {
            assert!(outcome.err.contains(text), "{options:?}, {text}: {outcome:?}");
        }
    }
    if !["/dev/gm0", "/dev/gmp0"].iter().any(|device| std::path::Path::new(device).exists()) {
        let outcome = programs.run(2, &["--mca", "rpi", "gm"], "gm", &[]);
        for text in ["libgm.so", "/dev/gm0", "load the driver", "rpi_gm_library"] {
            assert!(outcome.code != 0 && outcome.err.contains(text), "{outcome:?}");
        }
    }
}

fn info(programs: &Programs, arguments: &[&str], parameters: &[(&str, &str)]) -> String {
    let mut command = Command::new(installed("oxmpi"));
    command.arg("info").args(arguments).current_dir(root());
    command
        .env("GM_EMULATION_NETWORK", programs.marker())
        .env("OXMPI_MCA_rpi_gm_library", library());
    command.envs(parameters.iter().map(|(name, value)| (format!("OXMPI_MCA_{name}"), value)));
    let output = command.output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn gm_is_selected_by_its_priority_where_there_is_a_library() {
    let programs = compile(&[]);
    let text = info(&programs, &["--select"], &[]);
    assert!(text.contains("rpi gm is dropped: its priority is 50"), "{text}");
    let text = info(&programs, &["--select"], &[("rpi_gm_priority", "61")]);
    assert!(text.contains("rpi gm is selected: it has the highest priority, 61"), "{text}");
    let nowhere = [("rpi_gm_priority", "61"), ("rpi_gm_library", "/nonexistent.so")];
    let text = info(&programs, &["--select"], &nowhere);
    assert!(text.contains("rpi gm is dropped: GM cannot be loaded as '/nonexistent.so'"), "{text}");
    let text = info(&programs, &["--gm"], &[]);
    for part in ["libgm-of-tests.so", "would use port 2 of node 4097", "16           64", "2040\n"]
    {
        assert!(text.contains(part), "{text}");
    }
    let text = info(&programs, &["--gm"], &[("rpi_gm_library", "/nonexistent.so")]);
    assert!(text.contains("/nonexistent.so") && text.contains("install"), "{text}");
}

mod night {
    use super::*;

    /// As [`receivers_that_compute_lose_nothing`], for longer than GM waits for a receiver.
    #[test]
    #[ignore = "cargo xtask nightly"]
    fn a_receiver_that_computes_for_longer_than_gm_waits_loses_nothing() {
        let programs = compile(&["jobs/gm"]);
        for fast in ["1", "0"] {
            let outcome =
                run(&programs, 2, &["--mca", "rpi_gm_fast", fast], ("gm", &["compute", "33"]), &[]);
            assert_eq!((outcome.code, &*outcome.out, &*outcome.err), (0, "ok\n", ""), "{fast}");
        }
    }

    /// More ranks than processors, which sleep.
    #[test]
    #[ignore = "cargo xtask nightly"]
    fn receivers_that_compute_lose_nothing() {
        let programs = compile(&["jobs/gm"]);
        let short = [("GM_EMULATION_TIMEOUT_MS", "500")];
        for fast in ["0", "1"] {
            let options = ["--mca", "rpi_gm_fast", fast];
            for (ranks, mode) in [(2, "compute"), (5, "flood")] {
                let outcome = run(&programs, ranks, &options, ("gm", &[mode]), &short);
                assert_eq!(
                    (outcome.code, outcome.out.as_str()),
                    (0, "ok\n"),
                    "{mode} {fast}: {outcome:?}"
                );
                assert_eq!(outcome.err, "");
            }
        }
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn a_port_with_few_tokens_loses_nothing() {
        let few = [("GM_EMULATION_SEND_TOKENS", "2"), ("GM_EMULATION_RECEIVE_TOKENS", "7")];
        let names = ["p2p_basic", "p2p_flood"];
        passes(&names, &[2, 5], &[], &few);
        passes(&names, &[2, 4], &["--mca", "rpi_gm_fast", "1"], &few);
    }
}
