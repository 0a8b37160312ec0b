//! Jobs that other launchers have started, and that fail.

use super::runs::{Ran, SLURM, lines, run_here, run_on_cluster};
use crate::support::launchers::Launcher;

const JOINED: &[&str] = &["tests/c/jobs/joined"];

const KILL: &str = r#""$joined" end kill 1"#;
const ABORT: &str = r#""$joined" end abort 3"#;
const EXIT: &str = r#""$joined" end exit 2"#;

/// There is one report, and the launcher knows of the failure.
fn reports(ran: &Ran, parts: &[&str]) {
    assert!(ran.code != 0 && !ran.out.contains("ok"), "{ran:?}");
    assert_eq!(ran.err.matches("mpirun:").count(), 1, "{ran:?}");
    ran.says(parts);
}

/// The report names a rank that has ended without MPI_Finalize. Hydra kills the other processes at
/// once: the head can see the end of one of them first.
fn has_ended(ran: &Ran, launcher: Launcher, rank: u32) {
    let text = "ended without calling MPI_Finalize";
    match launcher {
        Launcher::Hydra => reports(ran, &["mpirun: rank ", text]),
        _ => reports(ran, &[&format!("mpirun: rank {rank} (pid "), text]),
    }
}

fn is_aborted(ran: &Ran, launcher: Launcher) {
    reports(ran, &["mpirun: rank 3 (pid ", "called MPI_Abort with code 7"]);
    // prterun sometimes crashes after it has ended the job.
    let has_code = match launcher {
        Launcher::Srun("pmi2" | "none") => ran.code >= 128,
        Launcher::Prterun => ran.code == 7 || ran.code >= 128,
        _ => ran.code == 7,
    };
    assert!(has_code, "{launcher:?}: {ran:?}");
}

fn end_as_expected(launchers: &[Launcher], all: &[Ran]) {
    let ends = [KILL, ABORT, EXIT];
    assert_eq!(all.len(), launchers.len() * ends.len());
    for (launcher, of_launcher) in launchers.iter().zip(all.chunks(ends.len())) {
        has_ended(&of_launcher[0], *launcher, 1);
        is_aborted(&of_launcher[1], *launcher);
        has_ended(&of_launcher[2], *launcher, 2);
    }
}

#[test]
fn a_failed_process_of_hydra_or_prterun_ends_the_job_with_a_report() {
    // At a port Hydra can hang when a process has died.
    let launchers = [Launcher::Hydra, Launcher::Prterun];
    let all = run_here(JOINED, &lines(&launchers, &[KILL, ABORT, EXIT]));
    if all.len() == launchers.len() * 3 {
        end_as_expected(&launchers, &all);
    }
}

#[test]
fn a_failed_task_ends_the_step_with_a_report() {
    let (none, pmix) = (Launcher::Srun("none"), Launcher::Srun("pmix"));
    let all = [lines(&[none], &[KILL]), lines(&[pmix], &[ABORT])].concat();
    let Some(all) = run_on_cluster(JOINED, &all) else { return };
    has_ended(&all[0], none, 1);
    all[0].says(&["host nodea)"]);
    is_aborted(&all[1], pmix);
    all[1].says(&["host nodeb)"]);
}

/// Every protocol, and ends from outside.
mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn failed_tasks_end_steps_of_every_protocol() {
        let Some(all) = run_on_cluster(JOINED, &lines(&SLURM, &[KILL, ABORT, EXIT])) else {
            return;
        };
        end_as_expected(&SLURM, &all);
    }

    /// The steps with each protocol whose four ranks wait, and a command that ends them.
    fn ended_by(command: &str) -> Option<Vec<Ran>> {
        // Commands run beside the step.
        ended_by_with("export SLURM_OVERLAP=1", command)
    }

    /// The same, with another command before the start.
    fn ended_by_with(before: &str, command: &str) -> Option<Vec<Ran>> {
        let waiting = "until [ $(grep -c ^rank out) = 4 ]; do sleep 0.02; done";
        let steps = lines(&SLURM, &["\"$joined\" wait"]);
        let steps = steps.into_iter().map(|step| {
            format!("{before}; : >out; {step} >out & {waiting}; {command}; wait $!; code=$?; cat out; exit $code")
        });
        run_on_cluster(JOINED, &steps.collect::<Vec<_>>())
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn a_cancelled_step_leaves_nothing() {
        for command in ["scancel $(squeue -h -o %i)", "kill -KILL $!; scancel -u root"] {
            let Some(all) = ended_by(command) else { return };
            all.iter().for_each(|ran| assert!(ran.code >= 128, "{ran:?}"));
        }
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn killed_agents_end_the_whole_step() {
        // The agent is older than its guard.
        let agent = "$(sh ./processes 'mpirun --join*' | sort -n | head -n 1)";
        let all = "$(sh ./processes 'mpirun --join*') $(sh ./processes '/*joined wait')";
        let on_b = "srun -w nodeb -N1 -n1 --overlap --jobid=$(squeue -h -o %i) --mpi=none";
        let far = agent.replace('$', "\\$");
        let commands = [
            format!("kill -KILL {agent}"),
            format!("kill -KILL {all}"),
            format!("{on_b} sh -c \"kill -KILL {far}\""),
        ];
        for command in commands {
            let Some(all) = ended_by(&command) else { return };
            all.iter().for_each(|ran| assert!(ran.code != 0 && ran.code != 124, "{ran:?}"));
        }
    }

    /// The other node is silent for a time.
    #[test]
    #[ignore = "cargo xtask nightly"]
    fn ranks_beside_a_silent_node_end_with_a_report() {
        let silence = "export OXMPI_MCA_mpi_agent_silence_s=2";
        let ended = "while [ -n \"$(sh ./processes '/*joined wait')\" ]; do sleep 0.1; done";
        let silent = format!("ip link set nodea down; {ended}; ip link set nodea up");
        let Some(all) = ended_by_with(silence, &format!("{silent}; scancel -u root")) else {
            return;
        };
        for ran in &all {
            assert!(ran.code != 0 && ran.code != 124, "{ran:?}");
            ran.says(&["mpirun: ", "nodeb"]);
        }
    }

    /// The processes of one node cannot become ranks, and the others do not wait for them.
    #[test]
    #[ignore = "cargo xtask nightly"]
    fn a_failed_mpi_init_ends_the_step() {
        let few = r#"sh -c '[ "$SLURM_NODEID" = 1 ] && ulimit -n 32; exec "$joined" 4'"#;
        let managers = [Launcher::Srun("pmi2"), Launcher::Srun("pmix")];
        let Some(all) = run_on_cluster(JOINED, &lines(&managers, &[few])) else { return };
        for ran in all {
            assert!(ran.code != 0 && ran.out.is_empty() && !ran.err.contains("within"), "{ran:?}");
            ran.says(&["the limit on open files must be 64 or more (ulimit -n)"]);
        }
    }
}
