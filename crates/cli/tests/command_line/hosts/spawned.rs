//! Processes that jobs on several hosts spawn.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::testbed::{B, LIMIT, outcome, testbed};
use crate::support::sorted;

/// Common functions of the programs below: the end of a spawned process, and of another one.
const COMMON: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void end_refused(int code, int speaker)
{
    char text[MPI_MAX_ERROR_STRING];
    int rank, length;
    MPI_Error_string(code, text, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == speaker) printf("%s\n", text);
    MPI_Finalize();
    exit(0);
}
static int end_together(MPI_Comm parent, int is_child)
{
    static char data[1 << 20];
    MPI_Comm all;
    int rank, size, sum, one = 1;
    MPI_Intercomm_merge(parent, is_child, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    for (int peer = 0; peer < size; peer++)
        MPI_Bcast(data, sizeof data, MPI_BYTE, peer, all);
    if (sum != size) MPI_Abort(MPI_COMM_WORLD, 5);
    if (rank == 0) printf("%d together\n", sum);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}
"#;

/// spawned HOSTS NUMBER MODE: spawns processes on HOSTS ("-" leaves the choice to mpirun), which
/// print their host and exchange messages with the parents and with each other. In some modes a
/// child then dies.
const SPAWNED: &str = r#"
int main(int argc, char **argv)
{
    MPI_Comm parent;
    int rank, code, is_child;
    char host[256];
    MPI_Init(&argc, &argv);
    gethostname(host, sizeof host);
    MPI_Comm_get_parent(&parent);
    is_child = parent != MPI_COMM_NULL;
    if (!is_child) {
        MPI_Info info;
        MPI_Info_create(&info);
        if (strcmp(argv[1], "-")) MPI_Info_set(info, "host", argv[1]);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        code = MPI_Comm_spawn(argv[0], argv + 1, atoi(argv[2]), info, 0, MPI_COMM_WORLD, &parent, MPI_ERRCODES_IGNORE);
        if (code) end_refused(code, 0);
    } else {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        printf("child %d on %s\n", rank, host);
        fflush(stdout);
        if (!strcmp(argv[3], "die") && rank == 1) abort();
    }
    return end_together(parent, is_child);
}
"#;

#[test]
fn processes_are_spawned_on_hosts_of_the_job() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile_text("spawned", &[COMMON, SPAWNED].concat());
    let spawn = |options: &[&str], hosts: &str, words: [&str; 3]| {
        let words = [options, &["-n", "2", "-H", hosts, &program], &words].concat();
        let (code, out, err) = bed.run(&words);
        assert_eq!((code, &*err), (Some(0), ""), "{words:?}: {out}");
        sorted(&out).join(", ")
    };
    let named =
        "2 together, child 0 on nodeb, child 1 on nodea, child 2 on nodeb".replace('2', "5");
    let named = named.replace("child 5", "child 2");
    for rpi in ["shm", "tcp", "lamd", "crtcp"] {
        let options = ["--mca", "rpi", rpi];
        assert_eq!(spawn(&options, "nodea,nodeb", ["nodeb,nodea", "3", "-"]), named, "{rpi}");
    }
    let free = spawn(&[], "nodea:1,nodeb:3", ["-", "2", "-"]);
    assert_eq!(free, "4 together, child 0 on nodeb, child 1 on nodeb");
    let here = spawn(&[], "nodea,nodeb", ["localhost,nodea", "2", "-"]);
    assert_eq!(here, "4 together, child 0 on head, child 1 on nodea");
    let one = spawn(&[], "nodeb:2", ["-", "2", "-"]);
    assert_eq!(one, "4 together, child 0 on nodeb, child 1 on nodeb");
    let error = spawn(&[], "nodea,nodeb", ["nodea,other", "2", "-"]);
    assert!(
        error.contains("host 'other' is not among the hosts of the job, nodea, nodeb"),
        "{error}"
    );
    bed.is_clean();
}

#[test]
fn the_end_of_a_spawned_process_is_reported_with_its_host() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile_text("spawned", &[COMMON, SPAWNED].concat());
    let words = ["-n", "2", "-H", "nodea,nodeb", &program, "nodea,nodeb", "2", "die"];
    let (code, _, err) = outcome(bed.mpirun(&words).output().unwrap());
    assert_eq!(code, Some(134), "{err}");
    assert!(
        err.contains("rank 1 of spawned job 1 (pid ")
            && err.contains("host nodeb) was killed by SIGABRT"),
        "{err}"
    );
    bed.is_clean();
}

/// several MODE: spawns two programs, which print their host; in the mode `wrong` one of them does
/// not exist.
const SEVERAL: &str = r#"
int main(int argc, char **argv)
{
    MPI_Comm parent;
    int rank, *app, flag, is_child;
    char host[256];
    MPI_Init(&argc, &argv);
    gethostname(host, sizeof host);
    MPI_Comm_get_parent(&parent);
    is_child = parent != MPI_COMM_NULL;
    if (!is_child) {
        char *commands[] = {argv[0], strcmp(argv[1], "wrong") ? argv[0] : "/no/such/program"};
        char *first[] = {"first", NULL}, *second[] = {"second", NULL}, **words[] = {first, second};
        int counts[] = {2, 3}, codes[5] = {-1, -1, -1, -1, -1};
        MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
        if (strcmp(argv[1], "free")) {
            MPI_Info_create(&infos[0]);
            MPI_Info_set(infos[0], "host", "nodeb");
            MPI_Info_create(&infos[1]);
            MPI_Info_set(infos[1], "host", "nodea:2,localhost");
            MPI_Info_set(infos[1], "wdir", "/tmp");
        }
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int code = MPI_Comm_spawn_multiple(2, commands, words, counts, infos, 1, MPI_COMM_WORLD, &parent, codes);
        if (code) end_refused(code, 1);
        for (int i = 0; i < 5; i++)
            if (codes[i] != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 3);
    } else {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &flag);
        char here[256];
        if (!getcwd(here, sizeof here)) MPI_Abort(MPI_COMM_WORLD, 4);
        printf("%d: program %d, %s, on %s%s\n", rank, flag ? *app : -1, argv[1], host, strcmp(here, "/tmp") ? "" : " in /tmp");
    }
    return end_together(parent, is_child);
}
"#;

#[test]
fn several_programs_are_spawned_on_hosts_at_once() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile_text("several", &[COMMON, SEVERAL].concat());
    for rpi in ["shm", "tcp", "lamd", "usysv"] {
        let words = ["--mca", "rpi", rpi, "-n", "2", "-H", "nodea,nodeb", &program, "named"];
        let (code, out, err) = bed.run(&words);
        assert_eq!((code, &*err), (Some(0), ""), "{rpi}: {out}");
        let wanted = [
            "0: program 0, first, on nodeb",
            "1: program 0, first, on nodeb",
            "2: program 1, second, on nodea in /tmp",
            "3: program 1, second, on nodea in /tmp",
            "4: program 1, second, on head in /tmp",
            "7 together",
        ];
        assert_eq!(sorted(&out), wanted, "{rpi}");
    }
    let (code, out, err) =
        bed.run(&["-n", "2", "-H", "nodea:3,nodeb:4", "--map-by", "node", &program, "free"]);
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    let hosts = |name: &str| out.lines().filter(|line| line.ends_with(name)).count();
    assert_eq!((hosts("on nodea"), hosts("on nodeb")), (2, 3), "where slots are free: {out}");
    let (code, out, err) = bed.run(&["-n", "2", "-H", "nodea,nodeb", &program, "wrong"]);
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    assert!(out.contains("/no/such/program") && !out.contains("together"), "{out}");
    bed.is_clean();
}

/// often DIRECTORY: spawns processes one after another, prints after 3 and after 15, then runs
/// until the file "go" exists. With a second word it prints "ready", and spawns when the file
/// exists.
const OFTEN: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    MPI_Comm parent, child;
    int rank;
    char go[1000];
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (parent != MPI_COMM_NULL) {
        MPI_Barrier(parent);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    snprintf(go, sizeof go, "%s/go", argv[1]);
    if (argc > 2) {
        if (rank == 0) { printf("ready\n"); fflush(stdout); }
        while (access(go, F_OK)) usleep(10000);
    }
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "host", "nodeb");
    for (int number = 1; number <= 15; number++) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, info, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
        MPI_Barrier(child);
        MPI_Comm_disconnect(&child);
        if (rank == 0 && number == 15) { printf("%d\n", number); fflush(stdout); }
    }
    while (access(go, F_OK)) usleep(10000);
    MPI_Finalize();
    return 0;
}
"#;

fn kept(pid: i32) -> (usize, usize) {
    let fds = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).unwrap().count();
    let is_its = |entry: &fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
        rest.trim().starts_with(&format!("Z {pid} "))
    };
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    (fds, all.filter(is_its).count())
}

#[test]
fn an_agent_keeps_nothing_of_spawned_processes_that_have_ended() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile_text("often", OFTEN);
    let directory = bed.directory.to_str().unwrap().to_string();
    for rpi in ["shm", "tcp"] {
        let words = ["--mca", "rpi", rpi, "-n", "2", "-H", "localhost,nodeb", &program, &directory];
        let job = bed.begin(&words, 1);
        assert_eq!(job.first, ["15"]);
        let agent = bed.await_process(B, "oxmpi agent");
        let end = Instant::now() + LIMIT;
        // For the living rank: its control socket, process, two outputs, segment, and with sockets
        // its alarm and more.
        loop {
            let (fds, zombies) = kept(agent);
            if zombies == 0 && fds < 30 {
                break;
            }
            assert!(Instant::now() < end, "{rpi}: {fds} descriptors, {zombies} zombies");
            std::thread::sleep(Duration::from_millis(20));
        }
        fs::write(bed.directory.join("go"), "").unwrap();
        let (code, _, err) = job.end();
        assert_eq!((code, &*err), (Some(0), ""));
        fs::remove_file(bed.directory.join("go")).unwrap();
    }
    bed.is_clean();
}

#[test]
fn the_end_of_a_job_does_not_wait_for_hosts_that_are_to_start_processes() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile_text("often", OFTEN);
    let directory = bed.directory.to_str().unwrap().to_string();
    for timeout in ["50", "6"] {
        let words = [
            "--timeout",
            timeout,
            "-n",
            "2",
            "-H",
            "localhost,nodeb",
            &program,
            &directory,
            "later",
        ];
        let job = bed.begin(&words, 1);
        assert_eq!(job.first, ["ready"]);
        let agent = Pid::from_raw(bed.await_process(B, "oxmpi agent")).unwrap();
        kill_process(agent, Signal::STOP).unwrap();
        let began = Instant::now();
        fs::write(bed.directory.join("go"), "").unwrap();
        let code = if timeout == "50" {
            std::thread::sleep(Duration::from_secs(2));
            kill_process(Pid::from_child(&job.child), Signal::TERM).unwrap();
            143
        } else {
            124
        };
        let (ended, _, err) = job.end();
        // An agent may take 30 s to start processes, and 60 s for any answer.
        assert!(
            ended == Some(code) && began.elapsed() < Duration::from_secs(25),
            "{:?}: {err}",
            began.elapsed()
        );
        kill_process(agent, Signal::CONT).unwrap();
        fs::remove_file(bed.directory.join("go")).unwrap();
        bed.is_clean();
    }
}

/// stall DIRECTORY: spawns a process on the head and one on nodeb, which wait; the first dies when
/// the file "die" exists. The others go on when the file "go" exists.
const STALL: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void await_file(const char *directory, const char *name)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    while (access(path, F_OK)) usleep(10000);
}
int main(int argc, char **argv)
{
    MPI_Comm parent, child;
    MPI_Info info;
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
        if (rank == 0) {
            await_file(argv[1], "die");
            abort();
        }
        MPI_Barrier(MPI_COMM_WORLD);
        return 0;
    }
    MPI_Info_create(&info);
    MPI_Info_set(info, "host", "localhost,nodeb");
    MPI_Comm_spawn(argv[0], argv + 1, 2, info, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
    MPI_Comm_disconnect(&child);
    if (rank == 0) { printf("ready\n"); fflush(stdout); }
    await_file(argv[1], "go");
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn an_agent_that_stalls_when_it_is_to_kill_processes_loses_these_alone() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile_text("stall", STALL);
    let directory = bed.directory.to_str().unwrap().to_string();
    let words = ["-n", "2", "-H", "localhost,nodeb", &program, &directory];
    let mut job = bed.begin(&words, 1);
    assert_eq!(job.first, ["ready"]);
    let agent = Pid::from_raw(bed.await_process(B, "oxmpi agent")).unwrap();
    kill_process(agent, Signal::STOP).unwrap();
    fs::write(bed.directory.join("die"), "").unwrap();
    // The first report is the death of the process, the next the loss of the other one of its job.
    let mut errors = BufReader::new(job.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let report = errors.next().unwrap();
    assert!(report.contains("rank 0 of spawned job 1 (pid "), "{report}");
    let given_up = errors.find(|line| line.starts_with("mpirun: ")).unwrap();
    assert!(
        given_up.contains("host nodeb has not confirmed the end of 1 of its ranks"),
        "{given_up}"
    );
    kill_process(agent, Signal::CONT).unwrap();
    fs::write(bed.directory.join("go"), "").unwrap();
    assert_eq!(job.lines.next().unwrap().unwrap(), "sum 1");
    assert_eq!(job.child.wait().unwrap().code(), Some(134));
    assert_eq!(errors.next(), None);
    bed.is_clean();
}
