//! Jobs on several hosts, by the installed `mpirun`, agents and library: two hosts and the head,
//! each with an sshd, in network namespaces (`testbed.rs`). Where these cannot be made the tests
//! fail, or are skipped if that is allowed.

mod connected;
mod daemons;
mod diagnostics;
mod encrypted;
mod gone;
mod numbers;
mod quiesce;
mod restarts;
mod silence;
mod spawned;
mod testbed;
mod wire;

use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{TestDirectory, compiled_library, installed, sorted};
use testbed::{A, B, HEAD, LIMIT, Testbed, kill, outcome, testbed};

const PROGRAMS: &[&str] = &[
    "coll_basic",
    "coll_mixed_types",
    "coll_nonblocking",
    "comm_split_dup",
    "intercomm_merge",
    "p2p_basic",
    "p2p_large",
    "p2p_wildcards",
    "ports",
    "spawn",
    "win_lock",
    "win_put_get",
];

const HELLO: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, size, sum, length;
    char name[MPI_MAX_PROCESSOR_NAME], host[256];
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Get_processor_name(name, &length);
    gethostname(host, sizeof host);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int near;
    MPI_Comm_size(node, &near);
    MPI_Comm_free(&node);
    printf("rank %d of %d on %s: sum %d, %d here\n", rank, size, host, sum, near);
    MPI_Finalize();
    return 0;
}
"#;

const STAY: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, x;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d stays\n", rank);
    fflush(stdout);
    if (rank == 0)
        MPI_Recv(&x, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (;;)
        pause();
}
"#;

#[test]
fn ranks_are_placed_and_know_their_nodes() {
    let Some(bed) = testbed() else { return };
    let hello = bed.compile_text("hello", HELLO);
    let line = |rank, size, host: &str, sum, near| {
        format!("rank {rank} of {size} on {host}: sum {sum}, {near} here")
    };
    let (code, out, err) = bed.run(&["--host", "nodea:3,nodeb:3", &hello]);
    assert_eq!(code, Some(0), "{err}");
    let hosts = ["nodea", "nodea", "nodea", "nodeb", "nodeb", "nodeb"];
    let wanted: Vec<_> =
        hosts.iter().enumerate().map(|(rank, host)| line(rank, 6, host, 15, 3)).collect();
    assert_eq!(sorted(&out), wanted);

    let file = bed.directory.join("hosts");
    fs::write(&file, "# ours\nnodea cpu=2 user=root\nlocalhost slots=1\nnodeb schedule=no\n")
        .unwrap();
    let file = file.to_str().unwrap();
    for options in [&["--mca", "rpi", "tcp"][..], &[]] {
        let words = [options, &["--hostfile", file, "--map-by", "node", &hello]].concat();
        let (code, out, err) = bed.run(&words);
        assert_eq!(code, Some(0), "{err}");
        let wanted =
            [line(0, 3, "nodea", 3, 2), line(1, 3, "head", 3, 1), line(2, 3, "nodea", 3, 2)];
        assert_eq!(sorted(&out), wanted);
    }

    for (words, ranks) in [(&["N"][..], 2), (&["C"], 5), (&["-ppn", "2"], 4), (&["-n", "7"], 7)] {
        let words = [&["-H", "nodea:2,nodeb:3"], words, &["sh", "-c", "echo x"]].concat();
        let (code, out, err) = bed.run(&words);
        assert_eq!((code, out.lines().count()), (Some(0), ranks), "{words:?}: {err}");
    }
    let places = |options: &[&str], words: &[&str]| {
        let print = ["sh", "-c", "echo $OXMPI_COMM_WORLD_RANK:`hostname`"];
        let (code, out, err) = bed.run(&[options, words, &print].concat());
        assert_eq!((code, &*err), (Some(0), ""), "{words:?}");
        sorted(&out).join(" ")
    };
    let named = ["-H", "nodea:2,localhost:1,nodeb:3"];
    assert_eq!(places(&named, &["n0-2"]), "0:nodea 1:head 2:nodeb");
    assert_eq!(places(&named, &["n2,0"]), "0:nodeb 1:nodea");
    assert_eq!(places(&named, &["c1-3", "N"]), "0:nodea 1:head 2:nodeb 3:nodea 4:head 5:nodeb");
    assert_eq!(places(&named, &["-n", "3", "n1-2"]), "0:head 1:nodeb 2:head");
    bed.boot("head cpu=1\nnodea cpu=2\nnodeb cpu=2 schedule=no\n");
    assert_eq!(places(&[], &["n1-2"]), "0:nodea 1:nodeb");
    assert_eq!(places(&[], &["c0,2", "h", "o"]), "0:head 1:nodea 2:head 3:head");
    assert_eq!(places(&[], &["C"]), "0:head 1:nodea 2:nodea");
    for (word, why) in
        [("n3", "there is no node n3; the last one is n2"), ("c3", "there is no processor c3")]
    {
        let (code, _, err) = bed.run(&[word, "true"]);
        assert!(
            code == Some(2) && err.contains(why) && err.contains("head, nodea, nodeb"),
            "{err}"
        );
    }
    bed.halt();

    let (code, _, err) = bed.run(&["--nooversubscribe", "-n", "3", "-H", "nodea,nodeb", "true"]);
    assert!(code == Some(2) && err.contains("3 ranks on 2 slots"), "{err}");
    bed.is_clean();
}

#[test]
fn programs_run_across_hosts() {
    let Some(bed) = testbed() else { return };
    for name in PROGRAMS {
        let program = bed.compile(name);
        let began = Instant::now();
        let (code, out, err) = bed.run(&["-n", "6", "-H", "nodea:3,nodeb:3", &program]);
        println!("{name}: {:.1} s", began.elapsed().as_secs_f64());
        assert!(code == Some(0) && out.lines().last() == Some("ok"), "{name}: {out}{err}");
    }
    let program = bed.compile("coll_basic");
    for hosts in ["nodea:1,nodeb:6", "nodea:1,nodeb:3", "nodea:2,nodeb:3"] {
        let (code, out, err) = bed.run(&["-H", hosts, &program]);
        assert!(code == Some(0) && out.lines().last() == Some("ok"), "{hosts}: {out}{err}");
    }
    bed.is_clean();
}

/// The provider of libfabric matches the messages between the hosts; messages within a host go
/// through shared memory.
#[test]
fn messages_between_hosts_go_over_libfabric() {
    let Some(bed) = testbed() else { return };
    for name in ["jobs/ofi", "coll_basic", "p2p_wildcards", "spawn", "win_lock"] {
        let program = bed.compile(name);
        let (code, out, err) =
            bed.run(&["--mca", "mtl", "ofi", "-n", "4", "-H", "nodea:2,nodeb:2", &program]);
        assert!(code == Some(0) && out.lines().last() == Some("ok"), "{name}: {out}{err}");
        assert!(name != "jobs/ofi" || out.contains("messages were matched"), "{out}");
    }
    let words = [
        "--mca",
        "mtl",
        "ofi",
        "--mca",
        "mtl_ofi_provider_include",
        "shm",
        "-H",
        "nodea,nodeb",
        "true",
    ];
    let (code, _, err) = bed.run(&words);
    assert!(
        code == Some(2) && err.contains("shm: it stays on a host, and the job is on several"),
        "{err}"
    );
    bed.is_clean();
}

/// The kernel of this host gets a device of a fabric, and libfabric a provider for it, which is a
/// renamed other provider.
#[test]
fn a_job_between_hosts_with_a_fabric_goes_over_it() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile("jobs/ofi");
    let library = compiled_library("c/libfabric/limited.c", "limited.so").display().to_string();
    let with_device = "mount -t tmpfs none /mnt; mkdir -p /mnt/upper/cxi/cxi0 /mnt/work; \
                       mount -t overlay none -o lowerdir=/sys/class,upperdir=/mnt/upper,workdir=/mnt/work /sys/class; exec \"$@\"";
    for (script, options, how) in [
        (with_device, &[][..], "messages were"),
        (with_device, &["--mca", "rpi", "tcp"], "nothing was"),
        // Sockets have priority 20.
        (with_device, &["--mca", "mtl_ofi_priority", "19"], "nothing was"),
        ("exec \"$@\"", &[], "nothing was"),
    ] {
        let mut mpirun = bed.on(HEAD, "sh");
        mpirun.args(["-c", script, "sh", installed("mpirun").to_str().unwrap(), "--timeout", "50"]);
        mpirun.args(["--mca", "plm_rsh_agent", &bed.shell(), "--mca", "mtl_ofi_library", &library]);
        mpirun.args(["-x", "LIMITED_REAL", "-x", "LIMITED_NAME"]).args(options);
        mpirun.args(["-H", "nodea:1,nodeb:1", &program]).stdin(Stdio::null());
        mpirun.envs([("LIMITED_REAL", "tcp;ofi_rxm"), ("LIMITED_NAME", "cxi")]);
        let (code, out, err) = outcome(mpirun.output().unwrap());
        let matched = format!("{how} matched");
        assert!(code == Some(0) && out.contains(&matched), "{options:?}, {how}: {out}{err}");
    }
    bed.is_clean();
}

/// Runs a job whose standard input this text is, and which reads all of it.
fn fed(bed: &Testbed, words: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = bed.mpirun(words).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = input.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(bytes.as_bytes()));
    let outcome = outcome(child.wait_with_output().unwrap());
    writer.join().unwrap().unwrap();
    outcome
}

#[test]
fn output_input_and_variables_cross_hosts() {
    let Some(bed) = testbed() else { return };
    let script =
        "i=0; while [ $i -lt 20000 ]; do echo line $i of a long row of words; i=$((i+1)); done";
    let (code, out, err) =
        bed.run(&["--tag-output", "-n", "4", "-H", "nodea:2,nodeb:2", "sh", "-c", script]);
    assert_eq!(code, Some(0), "{err}");
    let mut next = [0; 4];
    for line in out.lines() {
        let (rank, text) = line.strip_prefix('[').unwrap().split_once("] ").unwrap();
        let at = &mut next[rank.parse::<usize>().unwrap()];
        assert_eq!(text, format!("line {at} of a long row of words"));
        *at += 1;
    }
    assert_eq!(next, [20000; 4]);

    let input = "words for the ranks\n".repeat(100_000);
    for (options, readers) in [(&[][..], 1), (&["-stdin", "all"], 2)] {
        let words = [options, &["-n", "2", "-H", "nodea,nodeb", "wc", "-c"]].concat();
        let (code, out, err) = fed(&bed, &words, &input);
        assert_eq!(code, Some(0), "{err}");
        let whole = out.lines().filter(|line| line.trim() == input.len().to_string()).count();
        assert_eq!((whole, out.lines().count()), (readers, 2), "{out}");
    }

    let script = "echo $RED $OXMPI_MCA_rpi_tcp_short $(pwd) $OXMPI_COMM_WORLD_LOCAL_RANK";
    let words = [
        "-x",
        "RED=blue",
        "--mca",
        "rpi_tcp_short",
        "77",
        "-n",
        "2",
        "-H",
        "nodea,nodeb",
        "sh",
        "-c",
        script,
    ];
    let (code, out, err) = bed.run(&words);
    assert_eq!(code, Some(0), "{err}");
    let line = format!("blue 77 {} 0", bed.directory.display());
    assert_eq!(out.lines().collect::<Vec<_>>(), [&*line; 2]);
    bed.is_clean();
}

#[test]
fn ranks_that_close_their_input_keep_none_from_others() {
    let Some(bed) = testbed() else { return };
    let read = "if [ $OXMPI_COMM_WORLD_RANK = $0 ]
                then read line; exec <&-; until [ -e done$0 ]; do sleep 0.1; done; echo $line
                else wc -c; touch done$0
                fi";
    let input = "words\n".repeat(1 << 20);
    for closes in ["0", "1"] {
        let words = ["-n", "2", "-stdin", "all", "-H", "localhost,nodea", "sh", "-c", read, closes];
        let (code, out, err) = fed(&bed, &words, &input);
        assert_eq!(code, Some(0), "{err}");
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, [&*input.len().to_string(), "words"]);
    }
    bed.is_clean();
}

#[test]
fn a_program_on_another_host_may_go_on_in_another_process() {
    let Some(bed) = testbed() else { return };
    let hello = bed.compile_text("hello", HELLO);
    let words = ["-n", "2", "-H", "nodea,nodeb", "setsid", "-f", &hello];
    let (code, out, err) = bed.run(&words);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(out.matches("of 2 on node").count(), 2, "{out}{err}");
    bed.is_clean();
}

#[test]
fn ends_are_reported_with_their_host() {
    let Some(bed) = testbed() else { return };
    let die = "if [ $OXMPI_COMM_WORLD_RANK = 1 ]; then kill -9 $$; else sleep 50; fi";
    let (code, _, err) = bed.run(&["-n", "2", "-H", "nodea,nodeb", "sh", "-c", die]);
    assert_eq!(code, Some(137), "{err}");
    assert!(
        err.contains("rank 1 (pid ") && err.contains("host nodeb) was killed by SIGKILL"),
        "{err}"
    );
    assert_eq!(err.matches("mpirun: ").count(), 1, "{err}");
    bed.is_clean();

    let stay = bed.compile_text("stay", STAY);
    let job = bed.begin(&["-n", "4", "-H", "nodea:2,nodeb:2", &stay, "--timeout", "x"], 4);
    job.all_end_with("stays");
    kill_gently(job.child.id());
    let (code, _, err) = job.end();
    assert!(code == Some(143) && err.contains("SIGTERM; ending 4 ranks"), "{code:?}: {err}");
    bed.is_clean();

    let mut words = vec!["--timeout", "3", "-n", "2", "-H", "nodea,nodeb"];
    words.push(&stay);
    let (code, _, err) = bed.run(&words);
    assert_eq!(code, Some(124), "{err}");
    assert!(
        err.contains("rank 0 on host nodea: pid ") && err.contains("its last MPI call was MPI_"),
        "{err}"
    );
    bed.is_clean();
}

fn kill_gently(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

#[test]
fn a_lost_agent_ends_the_job_or_is_survived_and_a_lost_head_ends_everything() {
    let Some(bed) = testbed() else { return };
    let stay = bed.compile_text("stay", STAY);
    let start = || {
        let job = bed.begin(&["-n", "4", "-H", "nodea:2,nodeb:2", &stay], 4);
        job.all_end_with("stays");
        job
    };
    let job = start();
    kill(bed.await_process(B, "oxmpi agent"));
    let (code, _, err) = job.end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("mpirun: host nodeb is lost, with 2 ranks: "), "{err}");
    assert_eq!(err.matches("Meaning:").count(), 1, "{err}");
    bed.is_clean();

    let mut job = start();
    kill(bed.await_process(HEAD, "mpirun --timeout"));
    job.child.wait().unwrap();
    bed.is_clean();

    // With fault tolerance the ranks of a lost host count as failed.
    let ulfm = bed.compile_text("shrink", SHRINK);
    let words = ["--with-ft", "ulfm", "-n", "4", "-H", "nodea:2,nodeb:2"];
    let job = bed.begin(&[&words[..], &[&ulfm]].concat(), 4);
    job.all_end_with("begins");
    kill(bed.await_process(B, "oxmpi agent"));
    let (code, mut out, err) = job.end();
    assert!(
        err.contains("host nodeb is lost, with 2 ranks") && err.contains("the job goes on"),
        "{err}"
    );
    out.sort_unstable();
    let left = ["rank 0: 2 are left", "rank 1: 2 are left"].map(String::from);
    assert_eq!((code, out), (Some(0), left.to_vec()), "{err}");
    bed.is_clean();
}

#[test]
fn a_rank_that_waits_for_an_ended_rank_of_another_host_ends_with_its_code() {
    let Some(bed) = testbed() else { return };
    let late = bed.compile("jobs/late");
    for order in ["nodea,nodeb", "nodeb,nodea"] {
        let (code, out, err) = bed.run(&["-n", "2", "-H", order, &late, "wait"]);
        assert_eq!((code, &*out), (Some(3), ""), "{err}");
        assert!(err.contains("rank 1 exited with code 3 after it had finalized MPI"), "{err}");
        assert!(err.contains("which rank 0 has not begun to"), "{err}");
    }
    bed.is_clean();
}

const SHRINK: &str = r#"
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, size;
    MPI_Comm left;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d begins\n", rank);
    fflush(stdout);
    while (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS)
        usleep(20000);
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    MPIX_Comm_shrink(MPI_COMM_WORLD, &left);
    MPI_Barrier(left);
    MPI_Comm_size(left, &size);
    printf("rank %d: %d are left\n", rank, size);
    MPI_Comm_free(&left);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn failed_starts_are_reported_with_host_and_remedy() {
    let Some(bed) = testbed() else { return };
    let fails = |words: &[&str], code: i32, texts: &[&str]| {
        let (ended, out, err) = bed.run(words);
        assert_eq!(ended, Some(code), "{words:?}: {out}{err}");
        texts
            .iter()
            .for_each(|text| assert!(err.contains(text), "{words:?}: no '{text}' in {err}"));
    };
    let unreachable = [
        "host '10.77.0.99': cannot start an agent there",
        "No route to host",
        "ssh 10.77.0.99 true",
    ];
    fails(&["-H", "nodea,10.77.0.99", "-n", "2", "true"], 1, &unreachable);
    let prefix =
        ["host 'nodeb': cannot start", "/nonexistent/bin/oxmpi agent", "exit code 127", "--prefix"];
    fails(&["-H", "nodeb", "--prefix", "/nonexistent", "true"], 1, &prefix);
    fails(&["-H", "nowhere.invalid", "true"], 1, &["host 'nowhere.invalid'", "Could not resolve"]);
    fails(
        &["-H", "nodea", "--mca", "plm_rsh_agent", "nosuchshell", "true"],
        127,
        &["plm_rsh_agent", "nosuchshell"],
    );
    let directory = TestDirectory::new("odd");
    let odd = directory.script("odd", "#!/bin/sh\necho 'OXMPI-AGENT 9.9 (agents 7)'; cat\n");
    fails(
        &["-H", "nodea", "--mca", "plm_rsh_agent", &odd, "true"],
        1,
        &["it is of OxMPI 9.9 (agents 7)"],
    );

    let private = bed.directory.join("of-the-head");
    fs::create_dir(&private).unwrap();
    let script = format!(
        "mount -t tmpfs t '{0}' && cp /bin/true '{0}/own' && cd '{0}' && exec \"$@\"",
        private.display()
    );
    let mpirun = installed("mpirun");
    let on_head = |words: &[&str]| {
        let mut command = bed.on(HEAD, "sh");
        command.args([
            "-c",
            &script,
            "sh",
            mpirun.to_str().unwrap(),
            "--mca",
            "plm_rsh_agent",
            &bed.shell(),
        ]);
        outcome(command.args(words).stdin(Stdio::null()).output().unwrap())
    };
    let own = format!("{}/own", private.display());
    let (code, _, err) = on_head(&["-wdir", "/", "-n", "2", "-H", "nodea,nodeb", &own]);
    assert!(
        code == Some(126) && err.contains("cannot run") && err.contains("host 'node"),
        "{code:?}: {err}"
    );
    fs::remove_dir(&private).unwrap();
    fs::create_dir(&private).unwrap();
    let gone = format!("mkdir '{0}/here' && cd '{0}/here' && exec \"$@\"", private.display());
    let script = format!("mount -t tmpfs t '{}' && {gone}", private.display());
    let mut command = bed.on(HEAD, "sh");
    command.args([
        "-c",
        &script,
        "sh",
        mpirun.to_str().unwrap(),
        "--mca",
        "plm_rsh_agent",
        &bed.shell(),
    ]);
    command.args(["-H", "nodea", "true"]).stdin(Stdio::null());
    let (code, _, err) = outcome(command.output().unwrap());
    let text =
        format!("host 'nodea': cannot start a program in {}/here: No such file", private.display());
    assert!(code == Some(1) && err.contains(&text), "{code:?}: {err}");
    bed.is_clean();
}

#[test]
fn sockets_need_a_loopback_and_shared_memory_does_not() {
    let Some(bed) = testbed() else { return };
    let hello = bed.compile_text("hello", HELLO);
    bed.take_loopback(A);
    let (code, out, err) = bed.run(&["-n", "2", "-H", "nodea:2", &hello]);
    assert_eq!((code, out.lines().count()), (Some(0), 2), "{err}");
    let (code, out, err) = bed.run(&["-n", "4", "-H", "nodea:2,nodeb:2", &hello]);
    assert_eq!((code, out.lines().count()), (Some(0), 4), "{err}");
    for hosts in ["nodea:2", "nodea:2,nodeb:2"] {
        let began = Instant::now();
        let (code, _, err) = bed.run(&["--mca", "rpi", "tcp", "-H", hosts, &hello]);
        assert!(code.is_some_and(|code| code != 0) && began.elapsed() < LIMIT, "{code:?}");
        assert!(err.contains("loopback"), "{err}");
    }
    bed.is_clean();
}

const STREAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
enum { MESSAGES = 3000, LONGEST = 100000 };
static int length(int number) { return 2 + (number * 7919) % LONGEST; }
int main(int argc, char **argv)
{
    int rank;
    static int out[LONGEST + 2], in[LONGEST + 2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int messages = argc > 1 ? atoi(argv[1]) : MESSAGES;
    for (int number = 0; number < messages; number++) {
        MPI_Request request;
        MPI_Status status;
        int count, n = length(number);
        for (int i = 0; i < n; i++)
            out[i] = number + i;
        MPI_Isend(out, n, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, &request);
        MPI_Recv(in, LONGEST + 2, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Get_count(&status, MPI_INT, &count);
        if (count != n)
            MPI_Abort(MPI_COMM_WORLD, 3);
        for (int i = 0; i < n; i++)
            if (in[i] != number + i)
                MPI_Abort(MPI_COMM_WORLD, 4);
        if (rank == 0 && number == 100) {
            printf("begun\n");
            fflush(stdout);
        }
    }
    if (rank == 0)
        printf("ok\n");
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn an_unreachable_address_is_skipped_and_reported() {
    let Some(bed) = testbed() else { return };
    let hello = bed.compile_text("hello", HELLO);
    // The other host has no route to the first address of this one.
    bed.put_address_first(B, "10.99.0.2");
    let (code, out, err) = bed.run(&["-n", "2", "-H", "nodea,nodeb", &hello]);
    assert_eq!((code, out.lines().count()), (Some(0), 2), "{err}");
    assert!(err.contains("rank 0 does not reach rank 1 at 10.99.0.2:"), "{err}");
    assert!(
        err.contains("on interface eth0 of host nodeb: Network is unreachable")
            && err.contains("other addresses"),
        "{err}"
    );
    let words =
        ["--mca", "btl_tcp_if_exclude", "10.99.0.0/16", "-n", "2", "-H", "nodea,nodeb", &hello];
    let (code, _, err) = bed.run(&words);
    assert_eq!((code, &*err), (Some(0), ""));
    let map = bed.directory.join("map");
    fs::write(&map, "10.99.0.2 10.77.0.2\n").unwrap();
    let words =
        ["--mca", "mpi_hostmap", map.to_str().unwrap(), "-n", "2", "-H", "nodea,nodeb", &hello];
    let (code, _, err) = bed.run(&words);
    assert_eq!((code, &*err), (Some(0), ""));
    bed.is_clean();
}

#[test]
fn nothing_is_lost_or_doubled_when_a_link_is_cut_for_a_while() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile_text("stream", STREAM);
    let job = bed.begin(&["-n", "2", "-H", "nodea,nodeb", &program], 1);
    assert_eq!(job.first, ["begun"]);
    for _ in 0..2 {
        bed.set_link(B, false);
        std::thread::sleep(Duration::from_secs(3));
        bed.set_link(B, true);
        std::thread::sleep(Duration::from_millis(700));
    }
    let (code, rest, err) = job.end();
    assert_eq!((code, rest), (Some(0), vec!["ok".to_string()]), "{err}");
    bed.is_clean();
}

mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn daemons_try_as_long_as_a_host_may_be_silent() {
        let Some(bed) = testbed() else { return };
        let program = bed.compile_text("stream", STREAM);
        let words = ["--mca", "rpi", "lamd", "-n", "2", "-H", "nodea,nodeb", &program, "250"];
        let job = bed.begin(&words, 1);
        assert_eq!(job.first, ["begun"]);
        // Longer than the time for which a rank over sockets repeats a connection without a route.
        bed.set_link(B, false);
        std::thread::sleep(Duration::from_secs(14));
        bed.set_link(B, true);
        let (code, rest, err) = job.end();
        assert_eq!((code, rest), (Some(0), vec!["ok".to_string()]), "{err}");
        bed.is_clean();
    }
}
