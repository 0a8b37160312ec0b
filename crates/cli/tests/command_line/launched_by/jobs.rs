//! Jobs that other launchers have started, and that succeed.

use super::runs::{LOCAL, Ran, SLURM, lines, run_here, run_on_cluster};
use crate::support::launchers::Launcher;

const JOINED: &[&str] = &["tests/c/jobs/joined"];

const WORLD: &str = r#""$joined" 4"#;
/// A rank that runs an MPI program.
const TOOL: &str = r#""$joined" tool"#;
const SCRIPT: &str = r#"sh -c '"$joined" 4; "$joined" 4'"#;
/// One process calls MPI_Init, which has a limit of one second, and the others do not.
fn some(limit: &str) -> String {
    format!(r#"env {limit}=1 "$joined" some"#)
}

const SINGLETON: &str = r#"env OXMPI_MCA_mpi_allow_singletons=1 "$joined" some"#;

#[test]
fn the_processes_of_a_step_are_one_job() {
    let ends = [WORLD, SCRIPT];
    // PMI-1 alone passes an inherited socket on to tools.
    let tool = lines(&SLURM[..1], &[TOOL]);
    let Some(all) = run_on_cluster(JOINED, &[lines(&SLURM, &ends), tool].concat()) else { return };
    for (ran, oks) in all.iter().zip([1, 2, 1, 2, 1, 2, 2]) {
        ran.is_fine(oks);
    }
}

#[test]
fn the_processes_of_hydra_and_prterun_are_one_job() {
    let ends = [WORLD, TOOL, SINGLETON];
    let all = run_here(JOINED, &lines(&LOCAL, &ends));
    for of_launcher in all.chunks(ends.len()) {
        let [world, tool, singleton] = of_launcher else { panic!("{all:?}") };
        world.is_fine(1);
        tool.is_fine(2);
        singleton.is_fine(1);
    }
}

/// At a port, Hydra ends the job when its second program connects.
#[test]
fn a_second_program_below_a_closed_socket_is_refused() {
    for ran in run_here(JOINED, &lines(&[Launcher::Hydra], &[SCRIPT])) {
        assert!(ran.code != 0 && ran.out == "ok\n", "{ran:?}");
        ran.says(&["PMI_SIZE=4", "is closed here", "mpirun -n 4 SCRIPT"]);
    }
}

/// A process that waits in vain for the others says so after the limit.
fn names_the_missing(ran: &Ran) {
    assert!(ran.code != 0 && !ran.out.contains("ok"), "{ran:?}");
    ran.says(&["1 s", "OXMPI_MCA_mpi_allow_singletons=1"]);
}

/// Longer jobs, and each way to place tasks.
mod night {
    use super::*;

    /// Programs about all parts of the library, whose messages must take sockets between the nodes.
    const PROGRAMS: &[&str] = &[
        "tests/c/coll_basic",
        "tests/c/coll_nonblocking",
        "tests/c/comm_compare",
        "tests/c/file_shared",
        "tests/c/p2p_deep_queues",
        "tests/c/p2p_derived",
        "tests/c/p2p_mprobe",
        "tests/c/p2p_order",
        "tests/c/persistent_basic",
        "tests/c/spawn",
        "tests/c/win_accumulate",
        "tests/c/win_far",
        "tests/c/win_pscw",
        "examples/heat",
        "examples/pi",
        "examples/ring",
    ];

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn c_programs_and_examples_run_as_steps() {
        for launcher in SLURM {
            let names = PROGRAMS.iter().map(|program| program.rsplit('/').next().unwrap());
            let moved = "env CHECK_MOVED=tcp_messages_sent";
            let ends: Vec<String> = names.map(|name| format!("{moved} \"${name}\"")).collect();
            let ends: Vec<&str> = ends.iter().map(String::as_str).collect();
            let Some(all) = run_on_cluster(PROGRAMS, &lines(&[launcher], &ends)) else { return };
            all.iter().for_each(Ran::has_succeeded);
        }
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn tasks_may_be_placed_in_any_way() {
        let mut all = Vec::new();
        for protocol in ["pmi2", "pmix", "none"] {
            let srun = format!("srun --overcommit --mpi={protocol}");
            all.extend([
                format!("{srun} -N2 -n4 -m cyclic \"$joined\" 4"),
                format!("printf 'nodeb\\nnodea\\nnodeb\\nnodeb\\n' >hosts; SLURM_HOSTFILE=hosts {srun} -n4 -m arbitrary \"$joined\" 4"),
                format!("{srun} -N2 -n3 \"$joined\" 3"),
                format!("{srun} -N1 -n3 \"$joined\" 3"),
                format!("{srun} -N1 -n1 \"$joined\" 1"),
                format!("{srun} -N2 -n16 \"$joined\" 16"),
                format!("{srun} -N2 -n4 {SINGLETON}"),
            ]);
        }
        let Some(all) = run_on_cluster(JOINED, &all) else { return };
        all.iter().for_each(|ran| ran.is_fine(1));
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn messages_between_nodes_cannot_be_read_unless_encryption_is_off() {
        let line = |protocol, encrypt| {
            format!(
                ": >ready; \"$listen\" heard >ready & until grep -q listening ready; do sleep 0.02; done; \
                 OXMPI_MCA_mpi_encrypt={encrypt} srun -N2 -n2 --mpi={protocol} \"$speak\"; code=$?; \
                 kill $!; wait; grep -aq 'open sesame!' heard && echo heard; exit $code"
            )
        };
        let lines =
            [line("none", "auto"), line("pmi2", "auto"), line("pmix", "auto"), line("none", "0")];
        let programs = ["tests/c/jobs/listen", "tests/c/jobs/speak"];
        let Some(all) = run_on_cluster(&programs, &lines) else { return };
        all[..3].iter().for_each(|ran| ran.is_fine(1));
        assert_eq!((all[3].code, &*all[3].out), (0, "ok\nheard\n"), "{:?}", all[3]);
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn fifty_steps_leave_nothing_and_steps_at_once_do_not_meet() {
        let step = |protocol| format!("srun -N2 -n4 --overcommit --overlap --mpi={protocol}");
        let protocols = ["pmi2", "pmix", "none"];
        let in_a_row = protocols.map(|protocol| {
            let step = step(protocol);
            format!("for i in $(seq 50); do {step} \"$joined\" 4 || echo step $i; done")
        });
        let at_once = protocols.map(|protocol| {
            let job = format!("{} \"$joined\" 4", step(protocol));
            format!("salloc -Q -N2 -n4 --overcommit sh -c '{job} & {job} & {job} & wait'")
        });
        let programs = "\"$joined\" 4; ".repeat(5);
        let scripts = protocols.map(|protocol| {
            format!("for i in $(seq 10); do {} sh -c '{programs}'; done", step(protocol))
        });
        let all = [in_a_row, at_once, scripts].concat();
        let Some(all) = run_on_cluster(JOINED, &all) else { return };
        for (ran, oks) in all.iter().zip([50, 50, 50, 3, 3, 3, 50, 50, 50]) {
            ran.is_fine(oks);
        }
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn processes_that_do_not_call_mpi_init_are_missed() {
        let some = some("OXMPI_MCA_mpi_join_limit_s");
        // prterun ends the job when a process has ended without a call of PMIx.
        run_here(JOINED, &lines(&[Launcher::Hydra], &[&some])).iter().for_each(names_the_missing);
        let Some(all) = run_on_cluster(JOINED, &lines(&SLURM, &[&some])) else { return };
        all.iter().for_each(names_the_missing);
        all[2].says(&["missing: nodeb (node 1)"]);
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn a_tool_of_a_rank_is_a_job_of_its_own() {
        let Some(all) = run_on_cluster(JOINED, &lines(&SLURM, &[TOOL])) else { return };
        all.iter().for_each(|ran| ran.is_fine(2));
    }
}
