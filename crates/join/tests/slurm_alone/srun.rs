//! The meeting under Slurm itself: `srun --mpi=none` on two nodes (`tests/slurm/two-nodes.sh`). The
//! tasks are this program.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use oxmpi_join::munge::LIBRARY;
use oxmpi_join::slurm::SlurmStep;
use oxmpi_join::{ProcessManager, SlurmAlone};

use super::cluster::skip;
use super::{LIMIT, talk};

/// The variable by which this program learns that it is a task, and what it does.
const TASK: &str = "OXMPI_TEST_TASK";
/// The variable with the file for the result of a task.
const RESULT: &str = "OXMPI_TEST_RESULT";

/// The output of a shell script on a cluster, in which `$task` is the command of a task. `None`:
/// the machine has no Slurm, and the test may be left out.
fn on_cluster(script: &str, configuration: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        skip("two-nodes.sh needs root");
        return None;
    }
    if ["/usr/sbin/slurmd", "/usr/sbin/slurmctld", "/usr/sbin/munged", "/usr/bin/srun"]
        .iter()
        .any(|file| !Path::new(file).exists())
    {
        skip(
            "there is no Slurm: apt-get install munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins",
        );
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = std::env::current_exe().unwrap();
    let task = format!("{} --exact srun::program_of_a_task --nocapture", program.display());
    let output = Command::new(root.join("tests/slurm/two-nodes.sh"))
        .args(["bash", "-c", script])
        .env("task", task)
        .env("TWO_NODES_CONF", configuration)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{error}");
    Some(format!("{out}{error}"))
}

/// The words behind `here` in the lines that tasks have written.
fn lines(output: &str) -> Vec<Vec<&str>> {
    let words = output.lines().filter_map(|line| line.split_once("here ")).map(|(_, words)| words);
    let mut all: Vec<Vec<&str>> = words.map(|words| words.split(' ').collect()).collect();
    all.sort();
    all
}

#[test]
fn the_nodes_of_a_step_meet() {
    let script = "OXMPI_TEST_TASK=talk srun -N2 -n3 --mpi=none $task";
    let Some(output) = on_cluster(script, "") else { return };
    let lines = lines(&output);
    assert!(
        lines.len() == 2 && lines[0][..2] == ["0", "2"] && lines[1][..2] == ["1", "2"],
        "{output}"
    );
    assert!(lines[0][2] == lines[1][2] && lines[0][2].starts_with("slurm-1.0-"), "{output}");
}

#[test]
fn two_programs_of_a_script_and_components_meet_and_steps_at_once_do_not() {
    let script = "export OXMPI_TEST_TASK=talk
        srun -N2 --mpi=none sh -c \"$task && $task\"
        echo here next
        srun -N1 -n1 --mpi=none $task : -N1 -n1 --mpi=none $task
        echo here next
        salloc -Q -N2 sh -c 'for i in 1 2 3; do srun --overlap -N2 --mpi=none $task & done; wait'";
    // Slurm starts heterogeneous jobs at this interval, which is 30 s by default.
    let configuration = "MpiParams=ports=12000-12009\nSchedulerParameters=bf_interval=1";
    let Some(output) = on_cluster(script, configuration) else { return };
    let mut parts = output.split("here next");
    let mut next = || {
        let lines = lines(parts.next().unwrap());
        let mut jobs: Vec<String> = lines.iter().map(|words| words[2].to_string()).collect();
        jobs.sort();
        let both = jobs.chunks(2).all(|pair| pair.len() == 2 && pair[0] == pair[1]);
        assert!(both && lines.iter().all(|words| words[1] == "2"), "{output}");
        jobs.dedup();
        jobs.len()
    };
    assert_eq!((next(), next(), next()), (2, 1, 3), "{output}");
}

#[test]
fn a_killed_task_ends_the_fence_of_the_other_node_and_a_missing_one_is_named() {
    // After a SIGKILL of a task, srun drops output of the others that has not come yet.
    let script = "export OXMPI_TEST_RESULT=$(mktemp)
        OXMPI_TEST_TASK=die srun --no-kill --kill-on-bad-exit=0 -N2 --mpi=none $task
        cat $OXMPI_TEST_RESULT
        rm $OXMPI_TEST_RESULT
        OXMPI_TEST_TASK=stay_away srun -N2 --mpi=none $task
        exit 0";
    let Some(output) = on_cluster(script, "") else { return };
    assert!(output.contains("nodeb (node 1) is gone (the connection has ended)"), "{output}");
    assert!(
        output.contains("within 1 s (here: nodea (node 0); missing: nodeb (node 1)"),
        "{output}"
    );
}

#[test]
fn a_step_whose_names_cannot_be_resolved_meets_by_the_addresses_of_the_controller() {
    // The files of /etc/hosts are mounted on each node.
    let script = "OXMPI_TEST_TASK=talk srun -N2 --mpi=none unshare -m sh -c '
        umount /etc/hosts
        getent hosts nodea || echo no name
        exec $task'";
    let Some(output) = on_cluster(script, "") else { return };
    assert_eq!((lines(&output).len(), output.matches("no name").count()), (2, 2), "{output}");
}

/// The program of a task; for the runner of tests it does nothing.
#[test]
fn program_of_a_task() {
    let Ok(action) = std::env::var(TASK) else { return };
    let step = SlurmStep::of_environment().unwrap().unwrap();
    if step.local > 0 {
        return;
    }
    let meet = |limit| SlurmAlone::meet(&step, LIBRARY, None, limit);
    match (action.as_str(), step.node) {
        ("talk", node) => {
            let (job, _) = talk(meet(LIMIT).unwrap(), &step);
            println!("here {node} {} {job}", step.nodes.len());
        }
        ("die", 1) => {
            let _manager = meet(LIMIT).unwrap();
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
        }
        ("die", _) => {
            let error = meet(LIMIT).unwrap().fence(LIMIT).unwrap_err();
            std::fs::write(std::env::var(RESULT).unwrap(), error.to_string()).unwrap();
        }
        ("stay_away", 1) => {}
        ("stay_away", _) => println!("{}", meet(Duration::from_secs(1)).unwrap_err()),
        other => panic!("unknown task {other:?}"),
    }
}
