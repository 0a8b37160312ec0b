//! Jobs over libfabric (`--mca mtl ofi`) within one host: providers, modes of tags, refusals.

use super::harness::{Outcome, Programs, compile, compiled_library};

/// No message goes through memory or sockets.
const ALONE: [&str; 6] = ["--mca", "mtl", "ofi", "--mca", "mtl_ofi_shm", "0"];

fn exchange(programs: &Programs, ranks: u32, options: &[&str]) -> Outcome {
    programs.run(ranks, &[&ALONE, options].concat(), "ofi", &[])
}

fn says(outcome: &Outcome, line: &str) {
    assert_eq!((outcome.code, outcome.out.as_str()), (0, &*format!("{line}\nok\n")), "{outcome:?}");
    assert_eq!(outcome.err, "");
}

/// `sockets` matches sources wrongly in the full mode, so it does not have that mode; `net` keeps a
/// bit of the tags.
#[test]
fn each_provider_matches_messages_in_the_best_mode_that_it_has() {
    let programs = compile(&["jobs/ofi"]);
    let all = format!("MPI_TAG_UB {}, messages were matched", i32::MAX);
    says(&exchange(&programs, 4, &[]), &all);
    for provider in ["tcp;ofi_rxm", "net", "sockets"] {
        let options =
            ["--mca", "mtl_ofi_provider_include", provider, "--mca", "mtl_ofi_match", "provider"];
        says(&exchange(&programs, 2, &options), &all);
    }
}

/// When they match messages, both providers hang or truncate silently if a message is longer than
/// its receive (libfabric 1.17).
#[test]
fn providers_that_do_not_report_truncation_are_used_by_name_alone_and_match_no_messages() {
    let programs = compile(&["p2p_truncate"]);
    for provider in ["net", "udp;ofi_rxd"] {
        let named = ["--mca", "mtl_ofi_provider_include", provider];
        let outcome = programs.run(2, &[&ALONE, &named[..]].concat(), "p2p_truncate", &[]);
        assert_eq!(
            (outcome.code, &*outcome.out, &*outcome.err),
            (0, "ok\n", ""),
            "{provider}: {outcome:?}"
        );
    }
    let others = ["--mca", "mtl_ofi_provider_exclude", "tcp;ofi_rxm,net;ofi_rxm,sockets,shm"];
    let outcome = programs.run(2, &[&ALONE, &others[..]].concat(), "p2p_truncate", &[]);
    let refused = "net: it loses the connection";
    assert!(outcome.code == 2 && outcome.err.contains(refused), "{outcome:?}");
}

#[test]
fn tags_go_as_far_as_their_mode_says() {
    let programs = compile(&["jobs/ofi"]);
    for (mode, limit) in
        [("ofi_tag_1", i32::MAX), ("ofi_tag_2", 524_287), ("ofi_tag_full", i32::MAX)]
    {
        let outcome = exchange(&programs, 2, &["--mca", "mtl_ofi_tag_mode", mode]);
        says(&outcome, &format!("MPI_TAG_UB {limit}, messages were matched"));
    }
}

#[test]
fn memory_goes_before_the_provider_within_a_node_alone() {
    let programs = compile(&["jobs/ofi"]);
    let run = |options: &[&str]| programs.run(4, options, "ofi", &[]);
    for choice in [["mtl", "ofi"], ["pml", "cm"], ["rpi", "ofi"]] {
        let near = run(&["--mca", choice[0], choice[1]]);
        says(&near, &format!("MPI_TAG_UB {}, nothing was matched", i32::MAX));
    }
    let far = run(&["--mca", "mtl", "ofi", "--mca", "mpi_virtual_nodes", "2"]);
    says(&far, &format!("MPI_TAG_UB {}, messages were matched", i32::MAX));
}

#[test]
fn refusals_come_before_there_are_ranks() {
    let programs = compile(&["jobs/ofi"]);
    for (options, texts) in [
        (
            &["--mca", "mtl_ofi_library", "/nonexistent.so"][..],
            &["/nonexistent.so", "install it", "mtl_ofi_library"][..],
        ),
        (
            &["--mca", "mtl_ofi_library", "libc.so.6"],
            &["'libc.so.6' has no function fi_", "no libfabric"],
        ),
        (
            &["--mca", "mtl_ofi_provider_include", "gni"],
            &["'gni' is no provider", "there are ", "shm"],
        ),
        (&["--mca", "mtl_ofi_provider_exclude", "gni"], &["'gni' is no provider"]),
        (
            &[
                "--mca",
                "mtl_ofi_provider_include",
                "shm",
                "--mca",
                "mtl_ofi_provider_exclude",
                "net",
            ],
            &["are both given", "leave out one of the two"],
        ),
        (
            &[
                "--mca",
                "mtl_ofi_provider_include",
                "sockets",
                "--mca",
                "mtl_ofi_tag_mode",
                "ofi_tag_full",
            ],
            &["sockets: ofi_tag_full needs FI_DIRECTED_RECV", "oxmpi info --ofi"],
        ),
    ] {
        let outcome = exchange(&programs, 2, options);
        assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{options:?}: {outcome:?}");
        assert!(
            outcome.err.starts_with("mpirun: no transport 'ofi' for this job: "),
            "{outcome:?}"
        );
        let has = |text: &&&str| outcome.err.contains(**text);
        assert_eq!(texts.iter().find(|text| !has(text)), None, "{options:?}: {outcome:?}");
    }
}

#[test]
fn jobs_over_libfabric_are_not_checkpointed() {
    let programs = compile(&["jobs/ofi"]);
    for (options, code, text) in [
        (["--every", "1h"], 2, "the job cannot be checkpointed: its messages go over 'ofi'"),
        (["--mca", "cr"], 2, "rpi ofi supports no checkpoints"),
    ] {
        let value = if options[0] == "--mca" { &["blcr"][..] } else { &[] };
        let outcome = programs.run(2, &[&ALONE, &options[..], value].concat(), "ofi", &[]);
        assert!(outcome.code == code && outcome.err.contains(text), "{options:?}: {outcome:?}");
    }
}

#[test]
fn completions_are_read_in_batches() {
    let programs = compile(&["jobs/ofi"]);
    for (options, count, how) in [
        (&[][..], "100", "in batches"),
        (&["--mca", "mtl_ofi_progress_event_cnt", "1"], "1", "one by one"),
    ] {
        let outcome =
            limited(&programs, 2, (options, &[("LIMITED_EVENTS", count)]), "ofi", &["batch"]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(
            outcome.out.starts_with(&format!("completions were read {how}\n")),
            "{options:?}: {outcome:?}"
        );
    }
}

/// `sockets` has scalable endpoints, `tcp;ofi_rxm` has none. A provider may have any number of
/// contexts.
#[test]
fn communicators_have_their_own_contexts_on_request() {
    let programs = compile(&["jobs/ofi_groups"]);
    let run = |provider: &str, grouping: &str, limits: &[(&str, &str)]| {
        let options = [
            "--mca",
            "mtl_ofi_provider_include",
            provider,
            "--mca",
            "mtl_ofi_thread_grouping",
            grouping,
        ];
        let outcome = limited(&programs, 2, (&options, limits), "ofi_groups", &[]);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let pairs =
            outcome.out.strip_suffix(" pairs\nok\n").and_then(|count| count.parse::<u32>().ok());
        (pairs.unwrap_or_else(|| panic!("{outcome:?}")), outcome.err)
    };
    assert_eq!(run("sockets", "0", &[]), (0, String::new()));
    let (pairs, said) = run("sockets", "1", &[]);
    assert!(pairs > 5 && said.is_empty(), "{pairs} {said}");
    assert_eq!(run("sockets", "1", &[("LIMITED_CONTEXTS", "5")]), (5, String::new()));
    let (pairs, said) = run("tcp;ofi_rxm", "1", &[]);
    assert!(
        pairs == 0 && said.matches("mtl_ofi_thread_grouping has no effect").count() == 1,
        "{said}"
    );
}

/// The provider that lacks something in most tests.
const RXM: [&str; 3] = ["--mca", "mtl_ofi_provider_include", "tcp;ofi_rxm"];

/// Runs a program on a libfabric whose provider lacks the features in the variables, and aborts a
/// rank that uses one.
fn limited(
    programs: &Programs,
    ranks: u32,
    (options, limits): (&[&str], &[(&str, &str)]),
    program: &str,
    arguments: &[&str],
) -> Outcome {
    let library = compiled_library("c/libfabric/limited.c", "limited.so").display().to_string();
    let own = ["--mca", "mtl_ofi_library", &library];
    let mut mpirun =
        programs.mpirun(ranks, &[&ALONE[..], &own, options].concat(), program, arguments);
    mpirun.envs(limits.iter().copied());
    programs.start(mpirun).end()
}

#[test]
fn missing_features_of_a_provider_are_never_used() {
    let programs = compile(&["jobs/ofi", "jobs/ofi_frames"]);
    for (limits, tag_limit) in [
        (&[("LIMITED_TAG_BITS", "42")][..], i32::MAX),
        (&[("LIMITED_NO_DATA", "1"), ("LIMITED_TAG_BITS", "60")], i32::MAX),
        (&[("LIMITED_NO_DIRECTED", "1"), ("LIMITED_TAG_BITS", "50")], 524_287),
    ] {
        says(
            &limited(&programs, 3, (&RXM, limits), "ofi", &[]),
            &format!("MPI_TAG_UB {tag_limit}, messages were matched"),
        );
        // Tags have room for 255 or 1023 contexts, and the program needs 2 * 300.
        says(
            &limited(&programs, 3, (&RXM, limits), "ofi_frames", &[]),
            "messages were matched, frames have come",
        );
    }
    for (limits, why) in [
        (&[("LIMITED_TAG_BITS", "47"), ("LIMITED_NO_DATA", "1")][..], "8 are needed"),
        (&[("LIMITED_MAX", "1000")], "its longest message has 1000 bytes"),
    ] {
        let outcome = limited(&programs, 2, (&RXM, limits), "ofi", &[]);
        assert!(outcome.code == 2 && outcome.err.contains(why), "{limits:?}: {outcome:?}");
    }
}

#[test]
fn messages_that_are_too_long_for_the_provider_go_in_parts() {
    let programs = compile(&["jobs/ofi_parts"]);
    for limits in [
        &[("LIMITED_MAX", "70001")][..],
        &[("LIMITED_MAX", "70001"), ("LIMITED_NO_DATA", "1")],
        &[("LIMITED_MAX", "70001"), ("LIMITED_NO_DATA", "1"), ("LIMITED_TAG_BITS", "50")],
    ] {
        let outcome = limited(&programs, 2, (&RXM, limits), "ofi_parts", &["70001"]);
        assert_eq!((outcome.code, &*outcome.out, &*outcome.err), (0, "ok\n", ""), "{limits:?}");
    }
}

/// `sockets` has the source in its tags, `tcp;ofi_rxm` in the remote CQ data.
#[test]
fn messages_of_a_dead_rank_can_be_received_and_no_others_instead() {
    let programs = compile(&["jobs/ofi_dead"]);
    for provider in ["tcp;ofi_rxm", "sockets"] {
        let options = ["--with-ft", "ulfm", "--mca", "mtl_ofi_provider_include", provider];
        let outcome = programs.run(3, &[&ALONE, &options[..]].concat(), "ofi_dead", &[]);
        assert_eq!(outcome.out, "ok\n", "{provider}: {outcome:?}");
    }
}

/// Debian's libfabric loads libinfinipath, whose constructor sets handlers of six signals.
#[test]
fn signal_handlers_are_those_of_the_program_and_not_of_a_loaded_library() {
    let programs = compile(&["jobs/own_signals"]);
    let outcome = programs.run(2, &ALONE, "own_signals", &["keep"]);
    outcome.is_fine(2, "is done");
}

#[test]
fn a_crash_is_reported_as_one_although_a_library_takes_the_signal() {
    let programs = compile(&["jobs/own_signals"]);
    let outcome = programs.run(2, &ALONE, "own_signals", &["crash"]);
    outcome.reports(139, "rank 1 ");
    assert!(outcome.err.contains("SIGSEGV") && !outcome.out.contains("handler"), "{outcome:?}");
}

mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn the_network_carries_frames_and_all_messages_if_it_shall_not_match_them() {
        let programs = compile(&["jobs/ofi_frames"]);
        for provider in ["tcp;ofi_rxm", "sockets"] {
            for (who, matched) in [("provider", "messages were"), ("software", "nothing was")] {
                let options =
                    ["--mca", "mtl_ofi_provider_include", provider, "--mca", "mtl_ofi_match", who];
                let outcome = programs.run(3, &[&ALONE, &options[..]].concat(), "ofi_frames", &[]);
                says(&outcome, &format!("{matched} matched, frames have come"));
            }
        }
    }
}
