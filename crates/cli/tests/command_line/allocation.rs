//! `mpirun` in allocations of Slurm on two nodes: below `salloc`, in a batch script, below `srun`,
//! and on a host that is no node.

use std::path::PathBuf;

use crate::support::launchers::two_nodes;
use crate::support::{TestDirectory, compiled, criu, installed, shell_word, sorted, texts};

/// Prints each rank with its host. With an argument the rank of this number is killed by a signal,
/// and the others wait for it, or for the seconds of the second argument.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, sum;
    char host[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    printf("rank %d on %s: %d\n", rank, host, sum);
    fflush(stdout);
    if (argc > 1) {
        if (rank == atoi(argv[1])) raise(SIGKILL);
        sleep(argc > 2 ? atoi(argv[2]) : 50);
        if (argc > 2) printf("rank %d ends\n", rank);
    }
    MPI_Finalize();
    return 0;
}
"#;
const FOUR: [&str; 4] =
    ["rank 0 on nodea: 6", "rank 1 on nodea: 6", "rank 2 on nodeb: 6", "rank 3 on nodeb: 6"];
/// Prints the processes of jobs that the nodes still have after some time.
const LEFT: &str = r#"srun -N2 -n2 --overcommit --mpi=none sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do
    found=$(ps -eo args | grep -E "[m]pirun|[o]xmpi agent|[a]llocated") || exit 0
    sleep 0.3
done; echo "left: $found"'"#;

struct Cluster {
    directory: TestDirectory,
    program: PathBuf,
}

impl Cluster {
    fn new(name: &str) -> Cluster {
        let directory = TestDirectory::new(name);
        let program = compiled(&directory.write("allocated.c", PROGRAM)).unwrap();
        Cluster { directory, program }
    }

    /// Runs scripts of bash, one after another, on the first node of a new cluster. `$mpirun` and
    /// `$program` are the words for a job of all slots, `left` prints the processes that jobs have
    /// left. The results are in the order of the scripts; none if this machine cannot have a
    /// cluster.
    fn run(&self, scripts: &[String]) -> Vec<(i32, String, String)> {
        let Some(mut command) = two_nodes() else { return Vec::new() };
        let mut text = format!(
            "#!/bin/bash\nexport mpirun={} program={} oxmpi={}\ncd {}\nleft() {{ {LEFT}\n}}\n",
            shell_word(&installed("mpirun")),
            shell_word(&self.program),
            shell_word(&installed("oxmpi")),
            shell_word(&self.directory),
        );
        for (at, script) in scripts.iter().enumerate() {
            text += &format!("({script}\n) >{at}.out 2>{at}.err; echo $? >{at}.code\n");
        }
        command.args(["bash", &self.directory.script("script", &text)]);
        let (code, out, err) = texts(&command.env("OXMPI_PARAM_FILES", "none").output().unwrap());
        assert_eq!(code, 0, "{out}{err}");
        let file = |at: usize, kind: &str| {
            let path = self.directory.join(format!("{at}.{kind}"));
            String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
        };
        let result =
            |at| (file(at, "code").trim().parse().unwrap(), file(at, "out"), file(at, "err"));
        (0..scripts.len()).map(result).collect()
    }
}

#[test]
fn a_job_has_the_nodes_and_slots_of_its_allocation() {
    let cluster = Cluster::new("allocation-jobs");
    let batch = cluster.directory.script("batch", "#!/bin/bash\nexec $mpirun $program\n");
    // `script` gives the shell of srun a terminal. A host with another name is no node, so both
    // nodes have agents there.
    let scripts = [
        "salloc -Q -N2 -n4 $mpirun $program",
        &format!("sbatch -Q -W -N2 --ntasks-per-node=2 -o out {batch}; c=$?; cat out; exit $c"),
        r#"script -qec 'salloc -Q -N2 -n4 srun -N1 -n1 --pty bash -c "\$mpirun \$program"' /dev/null"#,
        "salloc -Q -N2 -n4 unshare --uts bash -c 'hostname login; exec $mpirun $program'",
        "export SLURM_EXPORT_ENV=NONE SLURM_LABELIO=1 SLURM_CPUS_PER_TASK=1\n\
         salloc -Q -N2 -n4 $mpirun sh -c '[ $SLURM_CPUS_PER_TASK = 1 ] && exec $program'",
    ];
    let scripts = scripts.map(String::from);
    for ((code, out, err), script) in cluster.run(&scripts).into_iter().zip(&scripts) {
        // A terminal also has the echo of the end of its input.
        let rows = out.lines().filter_map(|line| Some(line[line.find("rank")?..].trim_end()));
        let rows = rows.collect::<Vec<_>>().join("\n");
        assert_eq!((code, sorted(&rows)), (0, FOUR.to_vec()), "{script}: {out}{err}");
    }
}

#[test]
fn hosts_are_chosen_within_the_allocation_and_slots_are_not_exceeded() {
    let cluster = Cluster::new("allocation-hosts");
    let wrong_option = ["--mca", "plm_slurm_args", "--no-such-option", "$program"].join(" ");
    let table = [
        ("--host nodeb $program", 0, "rank 1 on nodeb: 1", ""),
        ("-n 5 --oversubscribe $program", 0, "rank 4 on nodea: 10", ""),
        ("-n 5 $program", 2, "", "5 ranks on 4 slots of the allocation of Slurm (nodea, nodeb)"),
        ("--host nodec $program", 2, "", "host 'nodec' is not in the allocation of Slurm's job"),
        ("--host nodea:3 $program", 2, "", "--oversubscribe allows more"),
        ("--prefix /nonexistent $program", 1, "", "/nonexistent/bin/oxmpi"),
        (&wrong_option, 1, "", "--no-such-option"),
    ];
    let mut scripts: Vec<String> =
        table.iter().map(|(words, ..)| format!("salloc -Q -N2 -n4 $mpirun {words}")).collect();
    scripts.push("salloc -Q -N2 -n4 $oxmpi info --allocation".into());
    scripts.push("$oxmpi info --allocation".into());
    let mut results = cluster.run(&scripts);
    let (Some(outside), Some(inside)) = (results.pop(), results.pop()) else { return };
    for ((code, out, err), (words, wanted, row, error)) in results.into_iter().zip(table) {
        assert_eq!(code, wanted, "{words}: {out}{err}");
        assert!(row.is_empty() || out.lines().any(|line| line == row), "{words}: {out}{err}");
        assert!(err.contains(error), "{words}: {out}{err}");
    }
    for text in ["slots:      4", "nodea      2  this host", "nodeb      2", "--nodelist=nodeb"] {
        assert!(inside.0 == 0 && inside.1.contains(text), "{text}: {inside:?}");
    }
    assert!(outside.0 == 0 && outside.1.starts_with("No allocation of Slurm"), "{outside:?}");
}

#[test]
fn a_job_that_ends_early_is_reported_and_leaves_no_process() {
    let cluster = Cluster::new("allocation-ends");
    let running =
        "$mpirun $program 4 >rows & while [ $(grep -c rank rows) -lt 4 ]; do sleep 0.1; done";
    let table = [
        ("$mpirun $program 3", 137, "rank 3 (pid "),
        // Slurm kills the agent and the ranks, and the agent may still report the end of a rank.
        ("scancel $SLURM_JOB_ID.0; wait $!", -1, "host nodeb"),
        ("kill -9 $!; wait $!", 137, ""),
        ("kill $!; wait $!", 143, "SIGTERM"),
        // Slurm ends this script too.
        ("scancel $SLURM_JOB_ID; wait", -1, ""),
    ];
    let script = |(at, (text, ..)): (usize, &(&str, i32, &str))| {
        let begin = if at == 0 { String::new() } else { format!("{running}; ") };
        format!(": >rows; salloc -Q -N2 -n4 bash -c '{begin}{text}'; c=$?; left; exit $c")
    };
    let scripts: Vec<String> = table.iter().enumerate().map(script).collect();
    for ((code, out, err), (text, wanted, error)) in cluster.run(&scripts).into_iter().zip(table) {
        assert!(code == wanted || wanted < 0, "{text}: {code}: {out}{err}");
        assert!(err.contains(error) && !out.contains("left: "), "{text}: {out}{err}");
    }
}

/// The restored mpirun has the environment of its first allocation, except for Slurm's variables.
#[test]
fn a_job_with_images_goes_on_in_another_allocation() {
    let Some(criu) = criu() else { return };
    let cluster = Cluster::new("allocation-images");
    let criu = format!("export OXMPI_MCA_cr_blcr_criu={}", shell_word(&criu));
    let settings = "--mca cr blcr --mca rpi crtcp --mca cr_base_dir $PWD";
    let scripts = [
        format!(
            "{criu}; salloc -Q -N2 -n4 bash -c ': >rows; setsid --wait $mpirun {settings} $program 4 9 >rows & \
             while [ $(grep -c rank rows) -lt 4 ]; do sleep 0.1; done; $oxmpi checkpoint --kill $!'"
        ),
        format!(
            "{criu}; salloc -Q -N2 -n4 setsid --wait $oxmpi restart allocated-*; c=$?; cat rows; exit $c"
        ),
    ];
    let results = cluster.run(&scripts);
    let Some((_, out, _)) = results.last() else { return };
    let ends = out.lines().filter(|line| line.ends_with(" ends")).count();
    assert!(results.iter().all(|(code, ..)| *code == 0) && ends == 4, "{results:?}");
}

mod night {
    use super::*;

    /// The ranks write more than all buffers between them and the stopped `mpirun` take.
    #[test]
    #[ignore = "cargo xtask nightly"]
    fn an_mpirun_that_is_stopped_keeps_its_agents() {
        let cluster = Cluster::new("allocation-stopped");
        let words = "sh -c 'echo; sleep 1; head -c 9000000 /dev/zero; sleep 2'";
        let script = format!(
            "export mpirun=\"$mpirun --mca mpi_agent_silence_s 3\" words={}; salloc -Q -N2 -n2 bash -c '$mpirun bash -c \"$words\" >bytes & \
             until [ -s bytes ]; do sleep 0.1; done; kill -STOP $!; sleep 12; kill -CONT $!; wait $! && wc -c <bytes'",
            shell_word(words.as_ref())
        );
        for (code, out, err) in cluster.run(&[script]) {
            assert_eq!((code, out.trim(), &*err), (0, "18000002", ""));
        }
    }
}
