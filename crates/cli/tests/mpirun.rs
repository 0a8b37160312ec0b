//! `mpirun` with programs that do not use MPI. Every test ends by itself within its time limit.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(30);

fn mpirun(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxmpi"));
    command.arg("mpirun").args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs to the end; kills it and fails when the time limit is over.
fn finish(mut child: Child) -> Output {
    let (out, err) = (child.stdout.take().map(read_all), child.stderr.take().map(read_all));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("mpirun did not end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let [stdout, stderr] = [out, err].map(|thread| thread.map(|t| t.join().unwrap()).unwrap_or_default());
    Output { status, stdout, stderr }
}

fn read_all(mut from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

fn run(args: &[&str]) -> (i32, String, String) {
    parts(finish(mpirun(args).spawn().unwrap()))
}

fn parts(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Processes that have `marker` among their arguments.
fn processes_with(marker: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(args) = std::fs::read(entry.path().join("cmdline")) else { continue };
        if name != own && name.parse::<u32>().is_ok() && String::from_utf8_lossy(&args).contains(marker) {
            found.push(format!("{name}: {}", String::from_utf8_lossy(&args)));
        }
    }
    found
}

fn await_none(marker: &str) {
    let start = Instant::now();
    while !processes_with(marker).is_empty() {
        assert!(start.elapsed() < LIMIT, "left behind: {:?}", processes_with(marker));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A word that no other process has among its arguments.
fn marker(name: &str) -> String {
    format!("marker-{name}-{}", std::process::id())
}

/// Reads from a child's output until `count` lines have come.
fn await_lines(child: &mut Child, count: usize) {
    let out = child.stdout.as_mut().unwrap();
    let mut byte = [0];
    let mut lines = 0;
    while lines < count {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "the output ended early");
        lines += usize::from(byte[0] == b'\n');
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn each_rank_knows_its_number() {
    let script = "echo $OXMPI_COMM_WORLD_RANK/$OXMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE";
    let (code, out, err) = run(&["-n", "3", "sh", "-c", script]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(sorted(&out), ["0/3 0/3", "1/3 1/3", "2/3 2/3"]);
}

#[test]
fn the_first_failing_ranks_code_is_the_jobs_and_there_is_one_report() {
    let script = "if [ $OXMPI_COMM_WORLD_RANK = 2 ]; then exit 7; fi; sleep 60";
    let start = Instant::now();
    let (code, _, err) = run(&["-n", "4", "sh", "-c", script]);
    assert_eq!(code, 7);
    assert_eq!(err.matches("mpirun:").count(), 1, "{err}");
    assert!(err.contains("rank 2") && err.contains("exited with code 7"), "{err}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_rank_killed_by_a_signal_is_named_with_it() {
    let script = "if [ $OXMPI_COMM_WORLD_RANK = 1 ]; then kill -SEGV $$; fi; sleep 60";
    let (code, _, err) = run(&["-n", "3", "sh", "-c", script]);
    assert_eq!(code, 128 + 11);
    assert!(err.contains("rank 1") && err.contains("SIGSEGV") && err.contains("Next:"), "{err}");
    assert_eq!(err.matches("mpirun:").count(), 1, "{err}");
}

#[test]
fn ranks_that_ignore_sigterm_are_killed() {
    let script =
        "if [ $OXMPI_COMM_WORLD_RANK = 0 ]; then exit 3; fi; trap '' TERM; while :; do sleep 0.1; done";
    assert_eq!(run(&["-n", "3", "sh", "-c", script]).0, 3);
}

#[test]
fn a_missing_program_is_said_to_be_missing() {
    let (code, _, err) = run(&["-n", "2", "no-such-program-here"]);
    assert_eq!(code, 127);
    assert!(err.starts_with("mpirun: cannot run 'no-such-program-here': no such file in PATH ("), "{err}");
    let (code, _, err) = run(&["-n", "2", "./no-such-program-here"]);
    assert_eq!(code, 127, "{err}");
    let (code, _, err) = run(&["-n", "2", "/etc/passwd"]);
    assert_eq!(code, 126);
    assert!(err.contains("not executable"), "{err}");
}

#[test]
fn a_script_without_an_interpreter_line_runs() {
    let file = std::env::temp_dir().join(marker("script"));
    std::fs::write(&file, "echo it runs $1\n").unwrap();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(&file, mode).unwrap();
    let (code, out, err) = run(&["-n", "2", file.to_str().unwrap(), "well"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!((code, out.as_str()), (0, "it runs well\nit runs well\n"), "{err}");
}

#[test]
fn bad_options_are_refused_before_anything_starts() {
    for (args, text) in [
        (&["--tag-ouput", "true"][..], "did you mean '--tag-output'"),
        (&["-n", "x", "true"], "-n x"),
        (&["--bind-to", "core", "true"], "cannot be bound"),
        (&["--mca", "shm_ring_slot", "9", "true"], "did you mean 'shm_ring_slots'"),
        (&["--mca", "shm_ring_slots", "9", "true"], "'9' is not"),
        (&["-x", "OXMPI_MCA_wait_spin_us=abc", "true"], "'abc' is not"),
        (&[], "no program to run"),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?} {err}");
        assert!(err.contains(text), "{args:?} {err}");
    }
}

#[test]
fn options_that_describe_what_happens_anyway_are_accepted() {
    let args = [
        "--oversubscribe",
        "--allow-run-as-root",
        "--bind-to",
        "none",
        "--map-by",
        ":OVERSUBSCRIBE",
        "-np",
        "2",
        "true",
    ];
    assert_eq!(run(&args), (0, String::new(), String::new()));
}

#[test]
fn output_is_tagged_by_whole_lines() {
    let script = "for i in 1 2 3; do printf 'a%s ' $i; printf 'b\n'; done; printf end";
    let (code, out, _) = run(&["-n", "2", "--tag-output", "sh", "-c", script]);
    assert_eq!(code, 0);
    assert_eq!(
        sorted(&out),
        ["[0] a1 b", "[0] a2 b", "[0] a3 b", "[0] end", "[1] a1 b", "[1] a2 b", "[1] a3 b", "[1] end"]
    );
}

#[test]
fn lines_of_many_writers_stay_whole_and_none_is_lost() {
    let script =
        "for i in $(seq 500); do echo line-$OXMPI_COMM_WORLD_RANK-$i-abcdefghijklmnopqrstuvwxyz; done";
    let (code, out, _) = run(&["-n", "8", "sh", "-c", script]);
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 8 * 500);
    for line in out.lines() {
        assert!(
            line.starts_with("line-") && line.ends_with("-abcdefghijklmnopqrstuvwxyz") && line.len() < 50,
            "{line}"
        );
    }
}

#[test]
fn all_output_arrives_before_mpirun_ends() {
    let (code, out, _) =
        run(&["-n", "2", "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; (sleep 0.05; echo late) &"]);
    assert_eq!(code, 0);
    assert_eq!(out.bytes().filter(|&b| b == b'x').count(), 2_000_000);
    assert_eq!(out.matches("late").count(), 2);
}

#[test]
fn a_slow_reader_loses_nothing() {
    let mut child = mpirun(&["-n", "2", "seq", "200000"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let mut out = String::new();
    child.stdout.as_mut().unwrap().read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(out.lines().count(), 400_000);
}

#[test]
fn when_nobody_reads_the_output_the_job_ends() {
    let mut child = mpirun(&["-n", "2", "yes"]).spawn().unwrap();
    await_lines(&mut child, 1);
    drop(child.stdout.take());
    let (code, _, err) = parts(finish(child));
    assert!(err.contains("SIGPIPE"), "{err}");
    assert_eq!(code, 128 + 13);
}

#[test]
fn standard_input_goes_to_rank_0() {
    let mut child = mpirun(&["-n", "3", "sh", "-c", "wc -c"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"12345").unwrap();
    let (code, out, _) = parts(finish(child));
    assert_eq!(code, 0);
    assert_eq!(sorted(&out), ["0", "0", "5"]);
}

#[test]
fn a_timeout_ends_the_job_with_124() {
    let mark = marker("timeout");
    let (code, _, err) = run(&["-n", "2", "--timeout", "0.5", "sh", "-c", "sleep 60", &mark]);
    assert_eq!(code, 124);
    assert!(
        err.contains("the time of 0.5 s")
            && err.contains("rank 0")
            && err.contains("rank 1")
            && err.contains("has not called MPI_Init"),
        "{err}"
    );
    await_none(&mark);
}

#[test]
fn several_programs_are_one_job() {
    let echo = "echo $OXMPI_COMM_WORLD_RANK/$OXMPI_COMM_WORLD_SIZE $0 $A";
    let line =
        ["-n", "1", "sh", "-c", echo, "first", ":", "-n", "2", "-x", "A=b", "sh", "-c", echo, "second"];
    let (code, out, _) = run(&line);
    assert_eq!(code, 0);
    assert_eq!(sorted(&out), ["0/3 first", "1/3 second b", "2/3 second b"]);
}

#[test]
fn variables_and_parameters_reach_the_ranks() {
    let (code, out, _) =
        run(&["-x", "A=b", "--mca", "single_copy", "off", "sh", "-c", "echo $A $OXMPI_MCA_single_copy"]);
    assert_eq!((code, out.as_str()), (0, "b off\n"));
}

#[test]
fn an_interrupt_is_passed_on_and_ends_the_job() {
    let mark = marker("interrupt");
    let script = "trap 'echo got it; exit 0' INT; echo ready; while :; do sleep 0.05; done";
    let mut child = mpirun(&["-n", "2", "sh", "-c", script, &mark]).spawn().unwrap();
    await_lines(&mut child, 2);
    send(&child, Signal::INT);
    let (code, out, err) = parts(finish(child));
    assert_eq!(code, 130);
    assert_eq!(out.matches("got it").count(), 2, "{out}");
    assert!(err.contains("SIGINT"), "{err}");
    await_none(&mark);
}

#[test]
fn a_second_interrupt_kills() {
    let mark = marker("second");
    let script = "trap 'echo no' INT TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = mpirun(&["-n", "2", "sh", "-c", script, &mark]).spawn().unwrap();
    await_lines(&mut child, 2);
    send(&child, Signal::INT);
    await_lines(&mut child, 2);
    send(&child, Signal::INT);
    let (code, _, _) = parts(finish(child));
    assert_eq!(code, 130);
    await_none(&mark);
}

#[test]
fn killing_mpirun_leaves_no_process() {
    let mark = marker("kill9");
    // Each rank has a child of its own that would stay.
    let script = format!("sh -c 'sleep 60' {mark}-child & echo ready; sleep 60");
    let mut child = mpirun(&["-n", "3", "sh", "-c", &script, &mark]).spawn().unwrap();
    await_lines(&mut child, 3);
    assert!(processes_with(&mark).len() >= 6);
    send(&child, Signal::KILL);
    child.wait().unwrap();
    await_none(&mark);
}

#[test]
fn background_children_do_not_outlive_the_job() {
    let mark = marker("background");
    let script = format!("setsid sh -c 'echo up; sleep 60' {mark}-child & sleep 0.2; exit 0");
    let (code, _, _) = run(&["-n", "2", "sh", "-c", &script]);
    assert_eq!(code, 0);
    await_none(&mark);
}

#[test]
fn more_ranks_than_cores_are_normal() {
    let (code, out, err) = run(&["-n", "64", "sh", "-c", "echo x"]);
    assert_eq!((code, out.len(), err.as_str()), (0, 128, ""));
}
