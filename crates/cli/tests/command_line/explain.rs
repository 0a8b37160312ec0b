//! `oxmpi explain` and `oxmpi info --collectives`.

use std::process::Command;

use serde_json::Value;

use crate::support::{TestDirectory, texts};

fn oxmpi(line: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxmpi"));
    texts(&command.env("OXMPI_PARAM_FILES", "none").args(line.split_whitespace()).output().unwrap())
}

#[test]
fn the_fixed_rules_are_explained() {
    let (code, out, err) = oxmpi("explain coll allreduce --ranks 64 --bytes 4096 --type-size 8");
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.starts_with(
            "allreduce: 64 ranks, 4096 bytes, commutative operation, a processor for each rank\n  algorithm:     "
        ),
        "{out}"
    );
    assert!(out.contains("\n  chosen by:     the fixed rules (up to "), "{out}");
    assert!(
        out.contains(
            "\n  message size:  4096 in rules files (datatype size x count); collective 2\n"
        ),
        "{out}"
    );
    assert!(out.contains(" 4 ring                     legal\n"), "{out}");
    assert!(out.contains("go through shared memory (shmem)"), "{out}");

    let (_, out, _) = oxmpi("explain coll allreduce --ranks 64 --bytes 4096 --noncommutative");
    assert!(out.contains(", operation not commutative, a processor for each rank\n"), "{out}");
    assert!(
        out.contains(
            "Calls (blocking) with this number of bytes on one node go through shared memory"
        ),
        "{out}"
    );
    assert!(
        out.contains(" 4 ring                     illegal: it needs a commutative operation\n"),
        "{out}"
    );
    let (_, out, _) = oxmpi("explain coll allreduce --ranks 64 --bytes 8 --type-size 8");
    assert!(
        out.contains("Calls (blocking and nonblocking) with this number of bytes on one node go"),
        "{out}"
    );
    for (ranks, algorithm, which) in
        [(64, "6 rabenseifner", "powers of two"), (65, "4 ring", "no powers of two")]
    {
        let call = format!("explain coll allreduce --ranks {ranks} --bytes 1m --type-size 8");
        let (_, out, _) = oxmpi(&call);
        assert!(out.contains(&format!("\n  algorithm:     {algorithm}: ")), "{out}");
        let reason = out
            .lines()
            .find(|line| line.starts_with("  chosen by:     the fixed rules ("))
            .unwrap();
        assert!(reason.split(&[',', '(', ')']).any(|word| word.trim() == which), "{out}");
    }
    let (_, out, _) = oxmpi("explain coll gatherv --ranks 3");
    assert!(!out.contains("message size"), "{out}");
}

#[test]
fn the_component_is_explained() {
    let (code, out, _) = oxmpi("explain coll allreduce --ranks 4 --bytes 8 --type-size 8");
    assert_eq!(code, 0);
    let plain = "  component:     shmem (blocking), shmem (nonblocking), tuned (persistent)\n";
    assert!(out.contains(plain), "{out}");
    for collective in ["scatter", "alltoall", "scan", "exscan", "reduce_scatter_block"] {
        let (_, out, _) =
            oxmpi(&format!("explain coll {collective} --ranks 4 --bytes 1k --type-size 8"));
        assert!(out.contains(plain), "{out}");
    }
    let (_, long, _) = oxmpi("explain coll allreduce --ranks 4 --bytes 512k --type-size 8");
    let long_later = "  component:     shmem (blocking), tuned (nonblocking), tuned (persistent)\n";
    assert!(long.contains(long_later), "{long}");
    // All pieces of a nonblocking call must have room in half of the pool.
    let many = "explain coll alltoall --ranks 32 --bytes 16k";
    let (_, out_of_room, _) = oxmpi(many);
    assert!(out_of_room.contains(long_later), "{out_of_room}");
    let (_, in_more, _) = oxmpi(&format!("{many} --mca coll_base_shmem_message_pool_size 4m"));
    assert!(in_more.contains(plain), "{in_more}");
    for rpi in ["crtcp", "lamd"] {
        let (_, out, _) = oxmpi(&format!(
            "explain coll allreduce --ranks 4 --bytes 8 --type-size 8 --mca rpi {rpi}"
        ));
        let without =
            "  component:     tuned (blocking), tuned (nonblocking), tuned (persistent)\n";
        let why = format!("Over rpi {rpi} a job has no shared memory for collectives (shmem).");
        assert!(out.contains(without) && out.contains(&why), "{out}");
    }
    let (_, over_tcp, _) =
        oxmpi("explain coll allreduce --ranks 4 --bytes 8 --type-size 8 --mca rpi tcp");
    assert_eq!(over_tcp, out);
    let nodes =
        "explain coll allreduce --ranks 6 --bytes 8k --type-size 8 --mca coll_smp_virtual_nodes 2";
    let (_, out, _) = oxmpi(nodes);
    assert!(
        out.contains("  algorithm:     32 smp: ")
            && out.contains("  chosen by:     the 2 nodes, by smp\n"),
        "{out}"
    );
    assert!(
        out.contains("  component:     smp (blocking), smp (nonblocking), smp (persistent)\n"),
        "{out}"
    );
    let (_, cut, _) = oxmpi(&format!("{nodes} --mca coll_smp_segmentsize 1024"));
    assert!(
        cut.contains("  chosen by:     the 2 nodes, in segments of 1024 bytes, by smp\n"),
        "{cut}"
    );
    let (_, cut, _) = oxmpi(&nodes.replace("8k", "4m"));
    assert!(
        cut.contains("  chosen by:     the 2 nodes, in segments of 65536 bytes, by smp\n"),
        "{cut}"
    );
    let (_, of_job, _) = oxmpi(&nodes.replace("coll_smp", "mpi"));
    assert!(
        of_job.contains("  component:     smp (blocking), smp (nonblocking), smp (persistent)\n"),
        "{of_job}"
    );
    let (_, out, _) = oxmpi(&format!("{nodes} --inexact"));
    assert!(out.contains("  component:     tuned (blocking), "), "{out}");
    let (_, out, _) = oxmpi(&format!("{nodes} --inexact --mca coll_base_associative 1"));
    assert!(out.contains("  component:     smp (blocking), "), "{out}");
    let (_, out, _) =
        oxmpi("explain coll reduce --ranks 9 --bytes 1m --mca coll_base_associative 0 --json");
    let explained: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&explained["by"], &explained["algorithm"]["name"]),
        (&"component".into(), &"linear".into())
    );
    assert_eq!(explained["components"]["persistent"], "basic");
    let (code, out, _) = oxmpi("explain coll bcast --ranks 9 --mca coll libnbc,self");
    let by_base = "  component:     base (blocking), libnbc (nonblocking), libnbc (persistent)\n";
    assert!(code == 0 && out.contains(by_base), "{out}");
    let (code, _, err) = oxmpi("explain coll bcast --ranks 9 --mca coll libnb");
    assert_eq!(code, 2);
    assert!(
        err.contains("there is no collective component 'libnb' (did you mean 'libnbc'?)"),
        "{err}"
    );
}

#[test]
fn every_collective_of_mpi_is_explained_in_any_form() {
    let plain = [
        "barrier",
        "bcast",
        "gather",
        "gatherv",
        "scatter",
        "scatterv",
        "allgather",
        "allgatherv",
        "alltoall",
        "alltoallv",
        "alltoallw",
        "reduce",
        "allreduce",
        "reduce_scatter",
        "reduce_scatter_block",
        "scan",
        "exscan",
        "neighbor_allgather",
        "neighbor_allgatherv",
        "neighbor_alltoall",
        "neighbor_alltoallv",
        "neighbor_alltoallw",
    ];
    for name in plain {
        let (code, explained, err) = oxmpi(&format!("explain coll {name} --ranks 4 --bytes 64"));
        assert_eq!((code, err.as_str()), (0, ""), "{name}");
        let (title, _) = explained.split_once(':').unwrap();
        assert!(title == name || title.starts_with(&format!("{name} (as ")), "{explained}");
        for form in [
            format!("MPI_{name}"),
            format!("MPI_I{name}"),
            format!("{name}_init"),
            format!("MPI_{name}_INIT"),
        ] {
            let (_, other, err) = oxmpi(&format!("explain coll {form} --ranks 4 --bytes 64"));
            assert_eq!((other.as_str(), err.as_str()), (explained.as_str(), ""), "{form}");
        }
    }
    let (code, _, err) = oxmpi("explain coll neighbour_allgather --ranks 4");
    assert!(code == 2 && err.contains("did you mean 'neighbor_allgather'?"), "{err}");
}

#[test]
fn counts_that_not_all_ranks_know_are_not_used() {
    // Not all ranks know their own counts, so the choice for such a collective does not use them.
    let short = "  component:     shmem (blocking), shmem (nonblocking), tuned (persistent)\n";
    let (_, out, _) = oxmpi("explain coll barrier --ranks 4 --bytes 1m");
    assert!(
        out.starts_with("barrier: 4 ranks, a processor for each rank\n") && out.contains(short),
        "{out}"
    );
    assert_eq!(
        oxmpi("explain coll alltoallv --ranks 4 --bytes 1m"),
        oxmpi("explain coll alltoallv --ranks 4")
    );
}

#[test]
fn other_decisions_hold_where_ranks_share_processors() {
    let call = "explain coll reduce --ranks 4 --bytes 4k --type-size 8";
    let (_, roomy, _) = oxmpi(call);
    let (_, oversubscribed, _) = oxmpi(&format!("{call} --oversubscribed"));
    assert!(
        oversubscribed.starts_with(
            "reduce: 4 ranks, 4096 bytes, commutative operation, more ranks than processors\n"
        ),
        "{oversubscribed}"
    );
    assert!(
        roomy.contains("algorithm:     2 chain")
            && oversubscribed.contains("algorithm:     1 linear"),
        "{roomy}{oversubscribed}"
    );
    let (_, json, _) = oxmpi(&format!("{call} --oversubscribed --json"));
    let explained: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&explained["oversubscribed"], &explained["algorithm"]["id"]),
        (&true.into(), &1.into())
    );
}

#[test]
fn parameters_and_rules_are_explained_and_their_order() {
    let directory = TestDirectory::new("explain");
    let file =
        directory.write("rules.conf", "rule-file-version-2\n1 2 1 8 2\n0 3 0 0\n4096 4 0 1024 7\n");
    let name = file.display().to_string();
    let line = format!("explain coll allreduce --ranks 9 --bytes 5k --rules {name} --json");
    let (code, out, err) = oxmpi(&line);
    let (_, text, _) = oxmpi(&line.replace(" --json", ""));
    let not_legal = oxmpi(&format!("{line} --noncommutative"));
    let forced = "--mca coll_tuned_allreduce_algorithm nonoverlapping";
    let stronger = oxmpi(&format!("{line} {forced}"));

    assert_eq!((code, err.as_str()), (0, ""));
    let explained: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&explained["by"], &explained["algorithm"]["name"]),
        (&"rule".into(), &"ring".into())
    );
    assert_eq!(
        explained["reason"],
        format!("the rule at {name}:4:1 (from 8 ranks and 4096 bytes on)")
    );
    assert_eq!((&explained["segment_size"], &explained["max_requests"]), (&1024.into(), &7.into()));
    assert!(text.contains("\n  not used:      segment size 1024, max requests 7\n"), "{text}");

    let explained: Value = serde_json::from_str(&not_legal.1).unwrap();
    assert_eq!(explained["by"], "fixed");
    let passed = explained["passed_over"].as_str().unwrap();
    assert!(
        passed.starts_with(&format!("{name}:4:1: the rule selects allreduce algorithm 4 ring")),
        "{passed}"
    );

    let explained: Value = serde_json::from_str(&stronger.1).unwrap();
    assert_eq!((&explained["by"], &explained["algorithm"]["id"]), (&"parameter".into(), &2.into()));
    assert_eq!(explained["reason"], format!("coll_tuned_allreduce_algorithm ({forced})"));
}

#[test]
fn a_forced_algorithm_that_is_illegal_is_an_error_with_the_reason() {
    let on = "--mca coll_tuned_use_dynamic_rules 1";
    let line =
        format!("explain coll allgather --ranks 6 {on} --mca coll_tuned_allgather_algorithm 3");
    let (code, out, _) = oxmpi(&line);
    assert_eq!(code, 1);
    let text = "error:         coll_tuned_allgather_algorithm forces the algorithm 3 recursive_doubling (--mca \
                coll_tuned_allgather_algorithm 3), which cannot serve this call of 6 ranks: it needs a power of two ranks\n";
    assert!(out.contains(text), "{out}");
    assert_eq!(oxmpi(&line.replace("ranks 6", "ranks 8")).0, 0);
    let (code, _, err) = oxmpi(&line.replace("algorithm 3", "algorithm rink"));
    assert_eq!(code, 2);
    assert!(err.contains("'rink' is no algorithm of allgather (did you mean 'ring'?)"), "{err}");
    let (code, _, err) = oxmpi("explain coll bcast --ranks 4 --rules /nonexistent");
    assert_eq!((code, err.ends_with("/nonexistent: there is no such file\n")), (2, true), "{err}");
}

#[test]
fn all_algorithms_are_listed() {
    let (code, out, _) = oxmpi("info --collectives --parsable");
    assert_eq!(code, 0);
    for line in [
        "allreduce:4:ring:it needs a commutative operation:",
        "allgather:1:linear::",
        "scatter:2:binomial::",
    ] {
        assert!(out.lines().any(|l| l.starts_with(line)), "{line}\n{out}");
    }
    assert!(out.starts_with("allgather:1:"), "{out}");
    let (_, text, _) = oxmpi("info --collectives");
    assert!(
        text.starts_with(
            "components of collectives (coll, coll_NAME_priority):\n    78 accelerator "
        ),
        "{text}"
    );
    assert!(text.contains(
        "\n  scan (coll_tuned_scan_algorithm; in rules files 14, message size: datatype size x ranks)\n"
    ));
    let (_, text, _) = oxmpi("info --collectives --json");
    let all: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(all["collectives"].as_array().unwrap().len(), out.lines().count());
    let (_, text, _) = oxmpi("info --param coll_tuned_alltoall_max_requests");
    assert!(text.contains("coll_tuned_alltoall_algorithm_max_requests = 0\n"), "{text}");
}

/// The guide permits the last numbers of a rule to be unused. `oxmpi explain` marks numbers that
/// the algorithm does not read.
#[test]
fn numbers_that_an_algorithm_does_not_read_are_marked() {
    let directory = TestDirectory::new("explain");
    let file = directory
        .write("rules.conf", "rule-file-version-2\n1\n7\n1\n2\n2\n0 6 3 4096 9\n8 1 0 0\n");
    let call = format!("explain coll bcast --ranks 4 --bytes 0 --rules {}", file.display());
    let (_, out, _) = oxmpi(&call);
    assert!(out.contains("\n  with:          segment size 4096\n"), "{out}");
    assert!(out.contains("\n  not used:      fan-out 3, max requests 9\n"), "{out}");
    let (_, json, _) = oxmpi(&format!("{call} --json"));
    std::fs::remove_file(&file).unwrap();
    let explained: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&explained["segment_size"], &explained["fan_out"]), (&4096.into(), &3.into()));
    assert_eq!(explained["not_used"], serde_json::json!(["fan-out 3", "max requests 9"]));
}

#[test]
fn the_protocol_of_a_message_is_explained_by_facts() {
    let (code, out, err) = oxmpi("explain copy --bytes 64k --processor AMDfamily25");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("--processor AMDfamily25: there are sheets of AMD family 25, "), "{err}");
    let copy = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxmpi"));
        let words = ["explain", "copy", "--bytes", "64k"].iter().chain(words);
        let output = command.env("OXMPI_PARAM_FILES", "none").args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let intel = copy(&["--processor", "Intel family 6"]);
    assert!(
        intel.contains("65536 bytes")
            && intel.contains(": copied by its receiver from the sender's memory\n"),
        "{intel}"
    );
    assert!(intel.contains("waits for no message takes it back"), "{intel}");
    let denied = copy(&["--processor", "Intel family 6", "--denied"]);
    assert!(denied.contains(": through the sender's pool, "), "{denied}");
    assert_eq!(
        denied.split_once("  facts:").unwrap().1,
        intel.split_once("  facts:").unwrap().1,
        "the same facts"
    );
    let amd = copy(&["--processor", "AMD family 25", "--place", "far", "--denied"]);
    assert!(
        amd.contains("share no cache: through the sender's pool, copied in past the caches\n"),
        "{amd}"
    );
    let near = copy(&["--processor", "AMD family 25", "--place", "near"]);
    assert!(near.contains("through the sender's pool, by plain copies\n"), "{near}");
    let on = copy(&["--processor", "AMD family 25", "--mca", "single_copy", "on", "--json"]);
    let on: Value = serde_json::from_str(&on).unwrap();
    assert_eq!(on["way"], "copied by its receiver from the sender's memory");
    assert_eq!(on["predicted"].as_array().unwrap().len(), 4);
    for (words, allocated) in [(&["--bytes", "4k"], false), (&["--bytes", "64k"], true)] {
        let explained = copy(&[&words[..], &["--processor", "AMD family 26"]].concat());
        let mapped = "in memory of MPI_Alloc_mem: copied by its receiver from its own mapping of the sender's memory\n";
        assert!(
            explained.contains(": through the sender's pool")
                && explained.contains(mapped) == allocated,
            "{explained}"
        );
    }
    // Long messages in one direction take the pool; those in both directions are single copies.
    let long = copy(&["--bytes", "4m", "--processor", "AMD family 25"]);
    let explained = "one way:  through the sender's pool, copied in past the caches, while";
    assert!(
        long.contains(explained) && long.contains("both:     copied by its receiver"),
        "{long}"
    );
    assert!(
        long.contains("at once:  131072 bytes; at most 524288 bytes for one receiver"),
        "{long}"
    );
    assert!(!near.contains("one way:  ") && on["one_way"].is_null(), "{near}");
    let (code, _, err) = oxmpi("explain copy --place near");
    assert!(code == 2 && err.contains("--bytes is needed"), "{err}");
}
