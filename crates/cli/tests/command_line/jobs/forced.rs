//! Algorithms of collectives, chosen by parameters and by rules files: each runs where it is
//! forced, and only there.

use serde_json::Value;
use std::process::Command;

use super::harness::{Outcome, Programs, compile};

const ON: [&str; 3] = ["--mca", "coll_tuned_use_dynamic_rules", "1"];

fn oxmpi(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_oxmpi")).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn refusal(collective: &str, id: &str, ranks: u32) -> Option<String> {
    refusal_with(collective, id, ranks, &[])
}

fn refusal_with(collective: &str, id: &str, ranks: u32, more: &[&str]) -> Option<String> {
    let ranks = ranks.to_string();
    let text =
        oxmpi(&[&["explain", "coll", collective, "--ranks", &ranks, "--json"], more].concat());
    let (explained, id): (Value, u8) = (serde_json::from_str(&text).unwrap(), id.parse().unwrap());
    let row =
        explained["algorithms"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
    row["refusal"].as_str().map(String::from)
}

fn run(programs: &Programs, ranks: u32, options: &[&str], collective: &str) -> Outcome {
    run_with(programs, ranks, options, &[collective])
}

fn run_with(programs: &Programs, ranks: u32, options: &[&str], args: &[&str]) -> Outcome {
    let options: Vec<&str> = ON.iter().chain(options).copied().collect();
    programs.run(ranks, &options, "forced", args)
}

fn served<'a>(outcome: &'a Outcome, collective: &str) -> Vec<&'a str> {
    let is_it = |line: &&str| {
        let line = line.strip_prefix(&format!("mpirun: coll: {collective}"));
        line.is_some_and(|line| {
            line.starts_with([' ', ':']) && line.contains(" on MPI_COMM_WORLD, ")
        })
    };
    outcome.err.lines().filter(is_it).collect()
}

/// Forces each algorithm of a collective on several numbers of ranks. Either the results are right
/// and only that algorithm has run, as the report and the performance variables show, or the call
/// is refused with the reason.
fn all_of(collective: &str) {
    let programs = compile(&["jobs/forced"]);
    let all = oxmpi(&["info", "--collectives", "--parsable"]);
    let rows: Vec<Vec<&str>> = all.lines().map(|line| line.split(':').collect()).collect();
    let own: Vec<_> = rows.iter().filter(|row| row[0] == collective).collect();
    assert!(!own.is_empty(), "{all}");
    let parameter = format!("coll_tuned_{collective}_algorithm");
    for (index, row) in own.into_iter().enumerate() {
        let (id, name) = (row[1], row[2]);
        if name == "smp" {
            assert!(
                refusal(collective, id, 4).is_some_and(|why| why.contains("the component smp"))
            );
            continue;
        }
        let value = if index % 2 == 0 { id } else { name };
        for (turn, ranks) in [2, 3, 4, 7].into_iter().enumerate() {
            let transport = if (index + turn) % 3 == 1 { "tcp" } else { "shm" };
            let options = [
                "--mca",
                "rpi",
                transport,
                "--mca",
                "coll_verbose",
                "1",
                "--mca",
                &parameter,
                value,
            ];
            if let Some(reason) = refusal(collective, id, ranks) {
                let outcome = run(&programs, ranks, &options, collective);
                let text = format!("{parameter} forces the algorithm {id} {name} (");
                assert_eq!(outcome.code, 3, "{outcome:?}");
                assert!(
                    outcome.out.contains(&text) && outcome.out.contains(&reason),
                    "{outcome:?}"
                );
                continue;
            }
            let outcome = run_with(&programs, ranks, &options, &[collective, name]);
            assert_eq!(
                (outcome.code, outcome.out.as_str()),
                (0, "ok\n"),
                "{collective} {name}: {outcome:?}"
            );
            let served = served(&outcome, collective);
            let wanted = format!(" {ranks} ranks: algorithm {id} {name}, by {parameter} (");
            assert!(!served.is_empty(), "{outcome:?}");
            assert!(served.iter().all(|line| line.contains(&wanted)), "{wanted}: {outcome:?}");
        }
    }
}

/// The first algorithm of each collective in one job, the second of each in the next, and so on: in
/// place and not, with commutative and other operations, short and long, with the first and the
/// last root.
#[test]
fn every_algorithm_of_seven_ranks_is_right_in_place_and_in_rank_order() {
    const RANKS: u32 = 7;
    let programs = compile(&["jobs/algorithms"]);
    let all = oxmpi(&["info", "--collectives", "--parsable"]);
    let rows: Vec<Vec<&str>> = all.lines().map(|line| line.split(':').collect()).collect();
    let of = |collective: &str| {
        let own = rows.iter().filter(|row| row[0] == collective && row[2] != "smp");
        own.map(|row| (row[1], row[2])).collect::<Vec<_>>()
    };
    let algorithms = oxmpi_param::tuned::COLLECTIVES.map(|collective| (collective, of(collective)));
    let most = algorithms.iter().map(|(_, all)| all.len()).max().unwrap();
    let mut tried = 0;
    for turn in 0..most {
        let (mut options, mut args) = (Vec::new(), Vec::new());
        for (collective, all) in &algorithms {
            let Some((id, name)) = all.get(turn) else { continue };
            if refusal(collective, id, RANKS).is_some() {
                continue;
            }
            tried += 1;
            let ordered = refusal_with(collective, id, RANKS, &["--noncommutative"]);
            args.push(format!("{collective}={name}=1{}", u8::from(ordered.is_none())));
            options.extend([
                "--mca".to_string(),
                format!("coll_tuned_{collective}_algorithm"),
                id.to_string(),
            ]);
        }
        let words = |all: &[String]| all.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        let (options, args) = (words(&options), words(&args));
        let options: Vec<&str> = ON.into_iter().chain(options.split(' ')).collect();
        let args: Vec<&str> = args.split(' ').collect();
        let outcome = programs.run(RANKS, &options, "algorithms", &args);
        assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{args:?}: {outcome:?}");
    }
    // The other algorithms need two ranks, an even number of them or a power of two.
    assert_eq!(tried, 67);
}

macro_rules! collectives {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            all_of(stringify!($name));
        })*

        #[test]
        fn there_is_a_test_for_each_collective() {
            assert_eq!([$(stringify!($name)),*], oxmpi_param::tuned::COLLECTIVES);
        }
    };
}

collectives! {
    allgather allgatherv allreduce alltoall alltoallv barrier bcast exscan gather reduce reduce_scatter
    reduce_scatter_block scan scatter
}

#[test]
fn a_rules_file_chooses_by_sizes_and_a_parameter_is_stronger() {
    let programs = compile(&["jobs/forced"]);
    let rules = "rule-file-version-2\n1\n2 # allreduce\n1\n4 # ranks\n3\n0 1 0 0 0\n100 0 0 0\n10000 4 0 0\n";
    let rules = programs.file("my.conf", rules.as_bytes(), 0o600);
    let rules = rules.to_str().unwrap();
    let file = ["--mca", "coll_verbose", "1", "--mca", "coll_tuned_dynamic_rules_filename", rules];
    let outcome = run(&programs, 4, &file, "allreduce");
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
    let lines = served(&outcome, "allreduce");
    let has =
        |text: &str| assert!(lines.iter().any(|line| line.contains(text)), "{text}: {outcome:?}");
    has(&format!(
        "of 4 bytes on MPI_COMM_WORLD, 4 ranks: algorithm 1 basic_linear, by the rule at {rules}:7:1 "
    ));
    has(
        "of 2800 bytes on MPI_COMM_WORLD, 4 ranks: through shared memory, as no algorithm is forced, component shmem",
    );
    has(&format!(
        "of 36000 bytes on MPI_COMM_WORLD, 4 ranks: algorithm 4 ring, by the rule at {rules}:9:1 "
    ));
    let outcome = run(&programs, 3, &file, "allreduce");
    assert!(served(&outcome, "allreduce")[1].contains(": through shared memory, "), "{outcome:?}");

    let forced: Vec<_> =
        file.iter().copied().chain(["--mca", "coll_tuned_allreduce_algorithm", "2"]).collect();
    let outcome = run(&programs, 4, &forced, "allreduce");
    assert_eq!(outcome.out, "ok\n");
    assert!(
        served(&outcome, "allreduce")
            .iter()
            .all(|line| line.contains("2 nonoverlapping, by coll_tuned"))
    );
}

#[test]
fn an_impossible_rule_is_reported_once_and_the_fixed_decisions_choose() {
    let programs = compile(&["jobs/forced"]);
    let rules = r#"{"rule_file_version": 3, "module": "tuned", "collectives": {
        "allgather": [{"rules": [{"alg": "recursive_doubling"}]}]}}"#;
    let rules = programs.file("my.json", rules.as_bytes(), 0o600);
    let rules = rules.to_str().unwrap();
    let file = ["--mca", "coll_tuned_dynamic_rules_filename", rules];
    let outcome = run(&programs, 5, &file, "allgather");
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
    assert_eq!(
        outcome.err,
        format!(
            "mpirun: {rules}:2:34: the rule selects allgather algorithm 3 recursive_doubling, which cannot serve every \
             call of this size: it needs a power of two ranks; the fixed rules choose for the calls that it cannot serve\n"
        )
    );
    assert_eq!(run(&programs, 4, &file, "allgather").err, "");
}

#[test]
fn wrong_choices_are_reported_before_the_job_starts() {
    let programs = compile(&["jobs/forced"]);
    let outcome = run(&programs, 2, &["--mca", "coll_tuned_bcast_algorithm", "binomal"], "bcast");
    let text = "mpirun: --mca coll_tuned_bcast_algorithm binomal: parameter 'coll_tuned_bcast_algorithm': 'binomal' is no \
                algorithm of bcast (did you mean 'binomial'?): expected 0 (fixed rules), 1 basic_linear, ";
    assert!(
        outcome.code != 0 && outcome.out.is_empty() && outcome.err.starts_with(text),
        "{outcome:?}"
    );

    let rules = programs.file("bad.conf", b"1\n2\n1\n4 1\n0 three 0 0\n", 0o600);
    let rules = rules.to_str().unwrap();
    let outcome =
        run(&programs, 2, &["--mca", "coll_tuned_dynamic_rules_filename", rules], "bcast");
    let text = format!(
        "mpirun: {rules}:5:3: expected the number of an algorithm, a number from 0 on, found 'three'\n"
    );
    assert_eq!((outcome.out.as_str(), outcome.err), ("", text));

    let mut alone = Command::new(programs.path("forced"));
    alone.env("OXMPI_MCA_coll_tuned_use_dynamic_rules", "1").arg("bcast");
    let output = alone.env("OXMPI_MCA_coll_tuned_dynamic_rules_filename", rules).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        err.starts_with(&format!("MPI_Init: MPI_ERR_OTHER: {rules}:5:3: expected the number")),
        "{err}"
    );

    let outcome =
        programs.run(2, &["--mca", "coll_tuned_bcast_algorithm", "6"], "forced", &["bcast"]);
    assert_eq!(outcome.out, "ok\n");
    assert_eq!(
        outcome.err,
        "mpirun: coll_tuned_bcast_algorithm has no effect without coll_tuned_use_dynamic_rules 1\n"
    );
}
