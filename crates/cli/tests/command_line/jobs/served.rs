//! The component of each collective: the components guide and `oxmpi explain` compared with the
//! reports of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use oxmpi_sys::cpus;
use serde_json::Value;

use super::harness::{Outcome, Programs, compile, installed};

type Said = [(&'static str, &'static str)];

const FORMS: [&str; 3] = ["blocking", "nonblocking", "persistent"];

fn run(programs: &Programs, ranks: u32, said: &Said, arguments: &[&str]) -> Outcome {
    let said = said.iter().chain(&[("coll_verbose", "1")]);
    let options: Vec<&str> = said.flat_map(|(name, value)| ["--mca", name, value]).collect();
    let outcome = programs.run(ranks, &options, "every", arguments);
    assert!(
        outcome.code == 0 && outcome.out.lines().all(|line| line == "ok"),
        "{arguments:?}: {outcome:?}"
    );
    outcome
}

struct ServedCall<'a> {
    collective: &'a str,
    bytes: Option<&'a str>,
    algorithm: Option<&'a str>,
    component: &'a str,
}

fn served_calls<'a>(outcome: &'a Outcome, comm: &str) -> Vec<ServedCall<'a>> {
    let of = |line: &'a str| {
        let (call, served) = line.strip_prefix("mpirun: coll: ")?.split_once(": ")?;
        let (call, on) = call.split_once(" on ")?;
        let (collective, bytes) = match call.split_once(" of ") {
            Some((collective, bytes)) => (collective, bytes.strip_suffix(" bytes")),
            None => (call, None),
        };
        let (how, component) = served.rsplit_once(", component ")?;
        let algorithm = how.strip_prefix("algorithm ").and_then(|how| how.split(' ').next());
        on.starts_with(comm).then_some(ServedCall { collective, bytes, algorithm, component })
    };
    outcome.err.lines().filter_map(of).collect()
}

fn explained(call: &ServedCall<'_>, ranks: u32, count: usize, said: &Said) -> Value {
    let mut command = Command::new(installed("oxmpi"));
    let bytes = call.bytes.map_or((4 * count).to_string(), str::to_string);
    command.env("OXMPI_PARAM_FILES", "none").args(["explain", "coll", call.collective, "--json"]);
    command.args(["--ranks", &ranks.to_string(), "--bytes", &bytes, "--type-size", "4"]);
    said.iter().for_each(|(name, value)| {
        command.args(["--mca", name, value]);
    });
    if ranks as usize > cpus::usable() {
        command.arg("--oversubscribed");
    }
    serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
}

const SETTINGS: [&Said; 9] = [
    &[],
    &[("coll", "basic"), ("coll_crossover", "2"), ("coll_reduce_crossover", "16")],
    &[("coll", "^tuned,shmem")],
    &[("coll_tuned_priority", "60"), ("coll_basic_priority", "50")],
    &[("coll_base_associative", "0")],
    &[("coll_smp_virtual_nodes", "2")],
    &[("mpi_virtual_nodes", "2")],
    &[("coll_tuned_use_dynamic_rules", "1"), ("coll_tuned_reduce_algorithm", "7")],
    &[("rpi", "lamd"), ("coll_base_shmem_message_pool_size", "4096")],
];

#[test]
fn explain_names_the_components_of_a_job() {
    let programs = compile(&["jobs/every"]);
    for said in SETTINGS {
        for (ranks, count) in [(4, 1_usize), (3, 9000), (2, 100_000)] {
            for form in FORMS {
                let outcome = run(&programs, ranks, said, &["dup", &count.to_string(), form]);
                let calls = served_calls(&outcome, "a communicator");
                assert_eq!(
                    calls.len(),
                    16,
                    "MPI_Alltoallw is reported as alltoallv: {}",
                    outcome.err
                );
                for call in calls {
                    let why = explained(&call, ranks, count, said);
                    let case =
                        format!("{said:?}, {ranks} ranks, {form}, {}: {why}", call.collective);
                    assert_eq!(why["components"][form], call.component, "{case}");
                    // The explanation of the algorithm is for the blocking form, and for components
                    // that choose alike for all forms.
                    let is_same = why["components"]["blocking"] == call.component;
                    if let Some(algorithm) = call.algorithm.filter(|_| is_same) {
                        assert_eq!(why["algorithm"]["id"].to_string(), algorithm, "{case}");
                    }
                }
            }
        }
    }
}

fn by_component<'a>(outcome: &'a Outcome, comm: &str) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    served_calls(outcome, comm).iter().for_each(|call| {
        all.entry(call.component).or_default().insert(call.collective);
    });
    all
}

/// "SMP-optimized" in the guide's table of smp; reduce_scatter_block came later.
const OF_SMP: [&str; 8] = [
    "allgather",
    "allgatherv",
    "allreduce",
    "barrier",
    "bcast",
    "reduce",
    "reduce_scatter",
    "scan",
];
/// "Implemented using shared memory" in the guide's table of shmem.
const OF_SHMEM: [&str; 8] =
    ["allgather", "allreduce", "alltoall", "barrier", "bcast", "gather", "reduce", "scatter"];

#[test]
fn components_serve_the_collectives_of_the_guide_and_basic_the_rest() {
    let programs = compile(&["jobs/every"]);
    for (component, said, guide, more) in [
        (
            "smp",
            &[("coll", "smp,basic"), ("coll_smp_virtual_nodes", "2")][..],
            &OF_SMP[..],
            &["reduce_scatter_block"][..],
        ),
        (
            "shmem",
            &[("coll", "shmem,basic")],
            &OF_SHMEM,
            &[
                "allgatherv",
                "alltoallv",
                "exscan",
                "gatherv",
                "reduce_scatter_block",
                "scan",
                "scatterv",
            ],
        ),
    ] {
        let outcome = run(&programs, 4, said, &["dup", "3", "blocking"]);
        let served = by_component(&outcome, "a communicator");
        let wanted: BTreeSet<&str> = guide.iter().chain(more).copied().collect();
        assert_eq!(served[component], wanted, "{outcome:?}");
        assert_eq!(served[component].len() + served["basic"].len(), 16, "{outcome:?}");
        let alone = run(&programs, 2, said, &["self", "3", "blocking"]);
        assert_eq!(
            by_component(&alone, "MPI_COMM_SELF").keys().collect::<Vec<_>>(),
            [&"basic"],
            "{alone:?}"
        );
    }
    // Only with two nodes at least, and two ranks on one of them.
    for (ranks, nodes) in [(4, "1"), (4, "4"), (2, "2")] {
        let said = [("coll", "smp,basic"), ("coll_smp_virtual_nodes", nodes)];
        let outcome = run(&programs, ranks, &said, &["dup", "3", "blocking"]);
        assert_eq!(
            by_component(&outcome, "a communicator").keys().collect::<Vec<_>>(),
            [&"basic"],
            "{nodes}"
        );
    }
}

#[test]
fn basic_and_inter_have_everything_of_two_groups() {
    let programs = compile(&["jobs/every"]);
    for (said, component) in [
        (&[][..], "inter"),
        (&[("coll", "^inter,libnbc")], "basic"),
        (&[("coll", "inter,self,tuned")], "inter"),
        (&[("coll_basic_priority", "41")], "basic"),
        (&[("coll_basic_priority", "40")], "inter"),
        (&[("coll_inter_priority", "0")], "inter"),
    ] {
        for ranks in [2, 3] {
            let outcome = run(&programs, ranks, said, &["inter", "2", "blocking"]);
            let served = by_component(&outcome, "a communicator");
            let all: BTreeSet<&str> = ["barrier", "inter_move", "inter_reduce"].into();
            assert_eq!(served.get(component), Some(&all), "{said:?}: {outcome:?}");
            assert_eq!(served.len(), 1, "{said:?}: {outcome:?}");
        }
        for form in &FORMS[1..] {
            run(&programs, 3, said, &["inter", "2", form]);
        }
    }
}

#[test]
fn neighbours_and_merged_groups_are_served_like_others() {
    let programs = compile(&["jobs/every"]);
    for form in FORMS {
        let outcome = run(&programs, 3, &[], &["cart", "2", form]);
        let by = if form == "blocking" { "shmem" } else { "libnbc" };
        assert!(by_component(&outcome, "a communicator")[by].contains("neighbor"), "{outcome:?}");
        let outcome = run(&programs, 3, &[], &["merged", "2", form]);
        assert_eq!(served_calls(&outcome, "a communicator").len(), 16, "{outcome:?}");
    }
}

#[test]
fn each_component_of_a_collective_is_reported() {
    let programs = compile(&["jobs/components"]);
    let options = ["--mca", "coll_verbose", "1", "--mca", "coll", "libnbc,basic"];
    let outcome = programs.run(2, &options, "components", &["mixed"]);
    let by = |component: &str| {
        let start = "mpirun: coll: inter_reduce on ";
        let end = format!(", component {component}");
        outcome.err.lines().any(|line| line.starts_with(start) && line.ends_with(&end))
    };
    assert!(by("basic") && by("libnbc"), "{outcome:?}");
}

#[test]
fn ranks_of_several_jobs_keep_to_the_fixed_decisions_with_a_report() {
    let programs = compile(&["jobs/every"]);
    for said in [&[][..], &[("coll", "basic")], &[("rpi", "tcp")]] {
        let outcome = run(&programs, 2, said, &["several", "2", "blocking"]);
        let end =
            ", 4 ranks of several jobs is served by: the fixed decisions, whatever parameters say";
        let lines = outcome.err.lines().filter(|line| line.ends_with(end)).count();
        assert_eq!(lines, 2, "{said:?}: {outcome:?}");
        assert_eq!(served_calls(&outcome, "a communicator").len(), 0, "{said:?}: {outcome:?}");
    }
}

#[test]
fn where_virtual_nodes_share_processors_vectors_stay_whole() {
    let programs = compile(&["jobs/segments"]);
    let core = *cpus::allowed().unwrap().last().unwrap();
    for nodes in ["mpi_virtual_nodes", "coll_smp_virtual_nodes"] {
        let outcome = std::thread::scope(|scope| {
            let job = scope.spawn(|| {
                cpus::set_cpu(core).unwrap();
                programs.run(4, &["--mca", nodes, "2"], "segments", &["0"])
            });
            job.join().unwrap()
        });
        outcome.is_fine(1, "ok");
    }
}
