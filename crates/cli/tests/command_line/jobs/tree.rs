//! Jobs on many hosts, whose agents are a tree. All agents run on this machine: a script in place
//! of ssh runs the command of each host here, and writes down the agent's process number. As with
//! ssh, an agent does not die with the process that has called the script.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use super::harness::{Outcome, Programs, compile};
use crate::support::await_that;

const HOSTS: u32 = 40;
const FAN_OUT: usize = 3;
/// A small tree: the head, hosts 1 and 4, hosts 2, 3, 5 and 6, and host 7 below host 6.
const FEW_HOSTS: u32 = 7;
const DEEPEST: u32 = 6;

/// Prints the sum of all ranks' numbers. A rank with the number of the first argument then ends as
/// the second one says, and the others wait for it.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d: %d\n", rank, sum);
    fflush(stdout);
    if (argc > 3) {
        if (rank == atoi(argv[1]) && !strcmp(argv[2], "exit")) exit(7);
        if (rank == atoi(argv[1]) && !strcmp(argv[2], "kill")) raise(SIGKILL);
        MPI_Barrier(MPI_COMM_WORLD);
        sleep(50);
    }
    MPI_Finalize();
    return 0;
}
"#;

/// Meets in barriers until the count of survivors is that of the argument, and prints it on each
/// rank. A rank names its place before the first barrier.
const SURVIVORS: &str = r#"
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, least = atoi(argv[1]);
    MPI_Comm all;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    MPI_Comm_rank(all, &rank);
    printf("rank %d is there\n", rank);
    fflush(stdout);
    for (;;) {
        MPI_Comm next;
        MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
        if (MPI_Barrier(all) != MPI_SUCCESS) {
            MPIX_Comm_revoke(all);
            MPIX_Comm_shrink(all, &next);
            all = next;
        }
        MPI_Comm_size(all, &size);
        if (size <= least) break;
        usleep(1000);
    }
    MPI_Comm_set_errhandler(all, MPI_ERRORS_ARE_FATAL);
    MPI_Barrier(all);
    printf("rank %d of %d survivors\n", rank, size);
    MPI_Finalize();
    return 0;
}
"#;

/// Prints the input, waits for SIGUSR2, and then prints numbered lines.
const SPEAKERS: &str = r#"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t goes_on;
static void note(int signal) { goes_on = signal; }

int main(int argc, char **argv) {
    char text[64];
    int rank;
    signal(SIGUSR2, note);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (fgets(text, sizeof text, stdin)) printf("rank %d: input %s", rank, text);
    printf("rank %d: there\n", rank);
    fflush(stdout);
    while (!goes_on) usleep(1000);
    for (int line = 0; line < 2000; line++) printf("rank %d: line %d\n", rank, line);
    MPI_Finalize();
    return 0;
}
"#;

/// Spawns a process on each of the hosts of the argument. Each child prints its parent process.
const SPAWNER: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Comm parent, all;
    int rank, size, sum, one = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    int is_child = parent != MPI_COMM_NULL;
    if (is_child) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        printf("child %d of %d\n", rank, (int)getppid());
    } else {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "host", argv[1]);
        MPI_Comm_spawn(argv[0], argv + 1, 2, info, 0, MPI_COMM_WORLD, &parent, MPI_ERRCODES_IGNORE);
    }
    MPI_Intercomm_merge(parent, is_child, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_size(all, &size);
    MPI_Comm_rank(all, &rank);
    if (rank == 0) printf("%d of %d together\n", sum, size);
    MPI_Finalize();
    return 0;
}
"#;

struct Tree {
    programs: Programs,
    hosts: u32,
    options: Vec<String>,
}

fn tree() -> Tree {
    tree_of(HOSTS, FAN_OUT)
}

fn tree_of(hosts: u32, fan_out: usize) -> Tree {
    let programs = compile(&[]);
    programs.compile_text("sum", PROGRAM);
    programs.compile_text("survivors", SURVIVORS);
    let shell = "#!/bin/sh\nhost=$1; shift\n\
                 [ $host != 10.99.0.99 ] || { echo it is off >&2; exit 255; }\n\
                 exec 3<&0 4>&2 2>/dev/null; file=${0%/*}/$host\n\
                 setsid sh -c \"echo \\$\\$ > '$file'; exec $*\" <&3 2>&4 3<&- 4>&- &\n\
                 exec 3<&- 4>&-; wait $!\n";
    let shell = programs.file("shell", shell.as_bytes(), 0o755);
    let names: Vec<String> = (1..=hosts).map(|at| format!("10.99.0.{at}")).collect();
    let options = ["--mca", "plm_rsh_agent", shell.to_str().unwrap(), "--mca", "mpi_agent_fan_out"]
        .map(String::from);
    let options = [&options[..], &[fan_out.to_string(), "-H".into(), names.join(",")]].concat();
    Tree { programs, hosts, options }
}

impl Tree {
    fn options(&self) -> Vec<&str> {
        self.options.iter().map(String::as_str).collect()
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        self.programs.run(self.hosts, &self.options(), "sum", arguments)
    }

    /// The process number of the agent of a host.
    fn agent(&self, host: u32) -> i32 {
        std::fs::read_to_string(self.pid_file(host)).unwrap().trim().parse().unwrap()
    }

    /// Kills the agent of a host.
    fn kill(&self, host: u32) {
        kill_process(Pid::from_raw(self.agent(host)).unwrap(), Signal::KILL).unwrap();
    }

    fn pid_file(&self, host: u32) -> PathBuf {
        self.programs.path(&format!("10.99.0.{host}"))
    }

    /// No agent of a host is left.
    fn has_ended(&self) {
        await_that("all agents have ended", || {
            (1..=self.hosts).all(|host| {
                let Ok(pid) = std::fs::read_to_string(self.pid_file(host)) else { return true };
                let words = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()));
                words.is_ok_and(|words| !words.contains("oxmpi\0agent")) || !is_there(&pid)
            })
        });
    }
}

fn is_there(pid: &str) -> bool {
    std::path::Path::new(&format!("/proc/{}", pid.trim())).exists()
}

fn lines_with(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

#[test]
fn the_head_has_as_many_children_and_answers_as_the_fan_out() {
    let tree = tree();
    let mut command = tree.programs.mpirun(HOSTS, &tree.options(), "sum", &[]);
    command.env("OXMPI_LOG", "launcher=trace,agent=info");
    let outcome = tree.programs.start(command).end();
    let sum = HOSTS * (HOSTS - 1) / 2;
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert_eq!(lines_with(&outcome.out, &format!(": {sum}")), HOSTS as usize);
    let of_head = |part: &str| {
        let lines = outcome.err.lines().filter(|line| line.contains(" launcher "));
        lines.filter(|line| line.contains(part)).count()
    };
    assert_eq!(of_head("starting an agent"), FAN_OUT);
    assert_eq!(of_head("kind=Order"), 0, "one order is encoded for all");
    // Agents answer these, but for a rank that does not reach its peer at once.
    let requests = of_head("request=Addresses") + of_head("request=Nodes");
    assert!(requests <= FAN_OUT, "{requests} requests");
    let (reports, queries) = (of_head("kind=Report"), of_head("kind=QueryState"));
    // Each child reports the start of its branch in three steps, and then answers queries.
    assert!(reports <= 3 * FAN_OUT + queries, "{reports} reports, {queries} queries");
    assert!(of_head("kind=Events") < HOSTS as usize, "ends come together");
    let parents = lines_with(&outcome.err, "starting the agents below this one");
    assert!(parents > FAN_OUT, "the tree has more than two levels: {parents}");
}

#[test]
fn one_report_names_the_host_that_takes_others_with_it() {
    let tree = tree();
    let command = tree.programs.mpirun(HOSTS, &tree.options(), "sum", &["0", "stay", "-"]);
    let mut job = tree.programs.start(command);
    (0..HOSTS).for_each(|_| _ = job.line());
    tree.kill(1);
    let outcome = job.end();
    assert_ne!(outcome.code, 0, "{outcome:?}");
    let below = HOSTS as usize / FAN_OUT - 1;
    let words = format!("with it {below} hosts that were reached through it");
    assert!(outcome.err.contains("host 10.99.0.1 is lost, with 13 ranks"), "{}", outcome.err);
    assert!(outcome.err.contains(&words), "{}", outcome.err);
    assert_eq!(outcome.err.matches("mpirun: ").count(), 1, "{}", outcome.err);
    tree.has_ended();
}

#[test]
fn the_end_of_a_rank_on_a_deep_host_is_reported_with_its_host() {
    let tree = tree();
    let outcome = tree.run(&["12", "exit", "-"]);
    assert_eq!(outcome.code, 7, "{outcome:?}");
    let err = &outcome.err;
    assert!(err.contains("rank 12 (pid ") && err.contains("host 10.99.0.13) exited"), "{err}");
    tree.has_ended();
}

#[test]
fn a_deep_host_that_cannot_be_reached_is_named_with_the_host_that_has_tried() {
    let mut tree = tree();
    let hosts = tree.options.last_mut().unwrap();
    *hosts = hosts.replace("10.99.0.12,", "10.99.0.99,");
    let outcome = tree.run(&[]);
    let err = &outcome.err;
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{err}");
    assert!(err.contains("host '10.99.0.99': cannot start an agent there"), "{err}");
    assert!(err.contains("it is off") && err.contains("mpi_agent_fan_out 65535"), "{err}");
    assert!(err.contains(&format!("Where:   on host {}", oxmpi_sys::host::name())), "{err}");
    tree.has_ended();
}

#[test]
fn agents_below_a_lost_one_go_to_its_parent_and_their_ranks_survive() {
    let tree = tree();
    let mut options = tree.options();
    options.extend(["--with-ft", "ulfm"]);
    let survivors = HOSTS as usize - 3;
    let command = tree.programs.mpirun(HOSTS, &options, "survivors", &[&survivors.to_string()]);
    let mut job = tree.programs.start(command);
    (0..HOSTS).for_each(|_| _ = job.line());
    // A child of the head, a host below it that then has the head as its parent, and a deeper one.
    for host in [1, 2, 19] {
        tree.kill(host);
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let outcome = job.end();
    let words = format!("of {survivors} survivors\n");
    assert_eq!(lines_with(&outcome.out, words.trim()), survivors, "{}", outcome.err);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    for host in [1, 2, 19] {
        let lost = format!("host 10.99.0.{host} is lost, with 1 rank");
        assert_eq!(outcome.err.matches(&lost).count(), 1, "{}", outcome.err);
    }
    tree.has_ended();
}

#[test]
fn signals_input_and_output_pass_through_the_tree_in_order() {
    let tree = tree_of(FEW_HOSTS, 2);
    tree.programs.compile_text("speakers", SPEAKERS);
    let input = tree.programs.file("input", b"one\ntwo\n", 0o644);
    let deepest = DEEPEST.to_string();
    let options = [tree.options(), vec!["-stdin", &deepest]].concat();
    let mpirun = tree.programs.mpirun(FEW_HOSTS, &options, "speakers", &[]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "file=$1; shift; exec \"$@\" < $file", "sh"]).arg(input);
    command.arg(mpirun.get_program()).args(mpirun.get_args());
    let mut job = tree.programs.start(command);
    (0..FEW_HOSTS + 2).for_each(|_| _ = job.line());
    job.signal(Signal::USR2);
    let outcome = job.end();
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    for rank in 0..FEW_HOSTS {
        let begin = format!("rank {rank}: ");
        let said: Vec<&str> =
            outcome.out.lines().filter_map(|line| line.strip_prefix(&begin)).collect();
        let input: &[&str] = if rank == DEEPEST { &["input one", "input two"] } else { &[] };
        let lines: Vec<String> = (0..2000).map(|line| format!("line {line}")).collect();
        let lines = ["there"].into_iter().chain(lines.iter().map(String::as_str));
        assert!(input.iter().copied().chain(lines).eq(said), "rank {rank}");
    }
    tree.has_ended();
}

#[test]
fn the_death_of_a_deep_rank_and_a_signal_to_mpirun_end_all_ranks() {
    let tree = tree_of(FEW_HOSTS, 2);
    let outcome = tree.run(&[&DEEPEST.to_string(), "kill", "-"]);
    outcome.reports(137, "rank 6 (pid ");
    assert!(outcome.err.contains("host 10.99.0.7) "), "{}", outcome.err);
    tree.has_ended();
    let command = tree.programs.mpirun(FEW_HOSTS, &tree.options(), "sum", &["0", "stay", "-"]);
    let mut job = tree.programs.start(command);
    (0..FEW_HOSTS).for_each(|_| _ = job.line());
    job.signal(Signal::TERM);
    let outcome = job.end();
    assert_eq!(outcome.code, 143, "{outcome:?}");
    let said = "mpirun: SIGTERM; ending 7 ranks (once more to kill them at once)\n";
    assert_eq!(outcome.err, said);
    tree.has_ended();
}

#[test]
fn an_inner_agent_takes_only_its_own_branch_with_it() {
    let tree = tree_of(FEW_HOSTS, 2);
    let command = tree.programs.mpirun(FEW_HOSTS, &tree.options(), "sum", &["0", "stay", "-"]);
    let mut job = tree.programs.start(command);
    (0..FEW_HOSTS).for_each(|_| _ = job.line());
    tree.kill(6);
    let outcome = job.end();
    assert_ne!(outcome.code, 0, "{outcome:?}");
    outcome.reports_once();
    let words = "with it another host, which was reached through it";
    assert!(outcome.err.contains("host 10.99.0.6 is lost, with 2 ranks"), "{}", outcome.err);
    assert!(outcome.err.contains(words), "{}", outcome.err);
    tree.has_ended();
}

#[test]
fn processes_are_spawned_on_deep_hosts() {
    let tree = tree_of(FEW_HOSTS, 2);
    tree.programs.compile_text("spawner", SPAWNER);
    let hosts = ["10.99.0.7,10.99.0.3"];
    let outcome = tree.programs.run(FEW_HOSTS, &tree.options(), "spawner", &hosts);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    for line in [
        format!("child 0 of {}", tree.agent(7)),
        format!("child 1 of {}", tree.agent(3)),
        format!("{0} of {0} together", FEW_HOSTS + 2),
    ] {
        assert_eq!(lines_with(&outcome.out, &line), 1, "{line}: {}", outcome.out);
    }
    tree.has_ended();
}
