//! `mpirun` with programs that do not use MPI. Every test has a time limit.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{TestDirectory, processes_with, shell_word, sorted, texts};

const LIMIT: Duration = Duration::from_secs(30);

fn mpirun(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxmpi"));
    command
        .arg("mpirun")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

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
    let [stdout, stderr] =
        [out, err].map(|thread| thread.map(|t| t.join().unwrap()).unwrap_or_default());
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
    texts(&finish(mpirun(args).spawn().unwrap()))
}

fn await_none(marker: &str) {
    let start = Instant::now();
    while !processes_with(marker).is_empty() {
        assert!(start.elapsed() < LIMIT, "left behind: {:?}", processes_with(marker));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn marker(name: &str) -> String {
    format!("marker-{name}-{}", std::process::id())
}

fn await_lines(child: &mut Child, count: usize) {
    let out = child.stdout.as_mut().unwrap();
    let mut byte = [0];
    let mut lines = 0;
    while lines < count {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "the output ended early");
        lines += usize::from(byte[0] == b'\n');
    }
}

fn await_text(out: &mut impl std::io::Read, wanted: &str) {
    let mut came = Vec::new();
    while came != wanted.as_bytes() {
        let mut byte = [0];
        let count = out.read(&mut byte).unwrap();
        came.extend_from_slice(&byte[..count]);
        let came = String::from_utf8_lossy(&came);
        assert!(count == 1 && wanted.starts_with(&*came), "'{came}' instead of '{wanted}'");
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
fn each_rank_knows_how_many_slots_there_are() {
    let cpus = oxmpi_sys::cpus::usable();
    let size = |options: &[&str]| {
        let script = "echo $OXMPI_UNIVERSE_SIZE $OMPI_UNIVERSE_SIZE";
        let (code, out, err) = run(&[options, &["sh", "-c", script]].concat());
        assert_eq!((code, err.as_str()), (0, ""));
        out
    };
    assert_eq!(size(&["-n", "1", "--bind-to", "core"]), format!("{cpus} {cpus}\n"));
    assert_eq!(size(&["-n", "1", "--host", "localhost:8"]), "8 8\n");
    assert_eq!(size(&["-n", "1", "--host", "localhost:3,localhost:4"]), "7 7\n");
    let most = (cpus + 3).to_string();
    assert_eq!(size(&["-n", &most]).lines().next(), Some(&*format!("{most} {most}")));
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
    let script = "if [ $OXMPI_COMM_WORLD_RANK = 0 ]; then exit 3; fi; trap '' TERM; while :; do sleep 0.1; done";
    assert_eq!(run(&["-n", "3", "sh", "-c", script]).0, 3);
}

#[test]
fn a_missing_program_is_said_to_be_missing() {
    let (code, _, err) = run(&["-n", "2", "no-such-program-here"]);
    assert_eq!(code, 127);
    assert!(
        err.starts_with("mpirun: cannot run 'no-such-program-here': no such file in PATH ("),
        "{err}"
    );
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
        (&["--bind-to", "board", "true"], "cannot be bound"),
        (&["--nolocal", "true"], "--nolocal: there is no host but this one"),
        (
            &["-host", "192.0.2.1", "-mca", "mpi_virtual_nodes", "2", "true"],
            "cannot have virtual nodes",
        ),
        (&["-wdir", "/no/such/directory", "true"], "-wdir /no/such/directory: No such file"),
        (&["-n", "2", "-stdin", "2", "true"], "the job has 2 ranks, numbered from 0"),
        (&["--nooversubscribe", "-H", "localhost:3", "-n", "4", "true"], "4 ranks on 3 slots"),
        (
            &["-n", "3", "-N", "2", "true"],
            "3 ranks with 2 on each host need 2 hosts, and there are 1",
        ),
        (&["--help", "bindin"], "did you mean 'binding'"),
        (&["--mca", "shm_ring_slot", "9", "true"], "did you mean 'shm_ring_slots'"),
        (&["--mca", "shm_ring_slots", "9", "true"], "'9' is not"),
        (&["-x", "OXMPI_MCA_wait_spin_us=abc", "true"], "'abc' is not"),
        (&[], "no program to run"),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?} {err}");
        assert!(err.contains(text), "{args:?} {err}");
    }
    let (_, _, err) = run(&["--frobnicate"]);
    assert!(
        err.lines().nth(1).is_some_and(|line| line.starts_with("Usage: mpirun [OPTIONS]")),
        "{err}"
    );
}

#[test]
fn options_for_the_default_behaviour_are_accepted() {
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
fn options_of_other_launchers_start_the_same_ranks() {
    for options in [
        &["-n", "2", "--rank-by", "slot"][..],
        &["-n", "2", "--use-hwthread-cpus"],
        &["-n", "2", "--bind-to", "socket"],
        &["-n", "2", "--bind-to", "numa"],
        &["--map-by", "ppr:2:node"],
        &["-ppn", "1", "-n", "2"],
        &["-n", "2", "--quiet", "--mca", "osc", "rdma"],
    ] {
        let (code, out, err) =
            run(&[options, &["sh", "-c", "echo $OXMPI_COMM_WORLD_RANK"]].concat());
        assert_eq!((code, sorted(&out), err.as_str()), (0, vec!["0", "1"], ""), "{options:?}");
    }
    for options in ["--display-map", "-print-rank-map"] {
        let (code, _, err) = run(&["-n", "2", options, "true"]);
        assert!(code == 0 && err.matches("mpirun: rank ").count() == 2, "{options} {err}");
    }
}

#[test]
fn ranks_know_which_values_the_command_line_has_set() {
    let home = std::env::temp_dir();
    let oxmpi = env!("CARGO_BIN_EXE_oxmpi");
    let source = |args: &[&str]| {
        let job = [args, &[oxmpi, "info", "--param", "wait_yields"]].concat();
        let child =
            mpirun(&job).env("HOME", &home).env("OXMPI_MCA_wait_spin_us", "3").spawn().unwrap();
        texts(&finish(child)).1
    };
    let said = source(&["-n", "1", "--mca", "wait_yields", "7"]);
    assert!(said.contains("from: --mca wait_yields 7;"), "{said}");
    let said = source(&["-n", "1", "env", "OXMPI_MCA_wait_yields=8"]);
    assert!(said.contains("from: environment variable OXMPI_MCA_wait_yields;"), "{said}");
    let said = source(&["-n", "1", "--mca", "wait_yields", "7", "env", "OXMPI_MCA_wait_yields=8"]);
    assert!(said.contains("from: environment variable OXMPI_MCA_wait_yields;"), "{said}");
}

#[test]
fn buffers_that_are_too_small_to_work_are_not_raised_in_silence() {
    let (code, _, err) = run(&["--mca", "rpi_tcp_sockbuf", "1k", "true"]);
    let wanted = "mpirun: warning: parameter 'rpi_tcp_sockbuf' is 1024: the buffer of each socket is 32768 bytes";
    assert!(code == 0 && err.starts_with(wanted) && err.lines().count() == 1, "{err}");
    assert_eq!(run(&["--quiet", "--mca", "rpi_tcp_sockbuf", "1k", "true"]).2, "");
}

#[test]
fn output_gets_its_time_and_goes_where_it_is_wanted() {
    let script = "echo out; echo err >&2";
    let (code, out, err) = run(&["-n", "2", "--merge-stderr-to-stdout", "sh", "-c", script]);
    assert_eq!((code, sorted(&out), err.as_str()), (0, vec!["err", "err", "out", "out"], ""));
    let (code, out, _) = run(&["--timestamp-output", "--tag-output", "sh", "-c", script]);
    let is_digit_or_mark = |c: char| c.is_ascii_digit() || "-:. ".contains(c);
    let time = out.strip_suffix(" [0] out\n").unwrap();
    assert!(
        code == 0
            && time.len() == "2026-11-26 07:20:15.042".len()
            && time.chars().all(is_digit_or_mark),
        "{out}"
    );
}

#[test]
fn a_file_of_programs_is_read_as_form_b_of_the_standard() {
    let scratch = TestDirectory::new("configfile");
    let file =
        scratch.script("programs", "# two programs\n-n 1 \\\n  echo a : b\n-n 2 echo '# c'\n");
    let (code, out, err) = run(&["-configfile", &file]);
    assert_eq!((code, sorted(&out), err.as_str()), (0, vec!["# c", "# c", "a : b"], ""));
}

#[test]
fn a_schema_of_lam_starts_its_programs() {
    let scratch = TestDirectory::new("schema");
    let file =
        scratch.script("schema", "# LAM/MPI's application schema\nn0 echo a\n-np 2 echo b $\n");
    let plain = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
    std::fs::set_permissions(&file, plain.clone()).unwrap();
    let (code, out, err) = run(&["--tag-output", &file]);
    assert_eq!((code, sorted(&out), err.as_str()), (0, vec!["[0] a", "[1] b $", "[2] b $"], ""));
    // With a number of ranks or arguments the file would be a program.
    for more in [&["-n", "2", &file][..], &[&file, "x"]] {
        let (code, _, err) = run(more);
        assert!(code == 126 && err.contains("not executable"), "{err}");
    }
    let script = scratch.script("script", "#!/bin/sh\n");
    std::fs::set_permissions(&script, plain.clone()).unwrap();
    let (code, _, err) = run(&[&script]);
    assert!(code == 126 && err.contains("not executable"), "{err}");
    let wrong = scratch.script("wrong", "-n 2 'a\n");
    std::fs::set_permissions(&wrong, plain).unwrap();
    let (code, _, err) = run(&[&wrong]);
    assert!(
        code == 2
            && err.contains("wrong: it is not executable, so it is taken for a file of programs"),
        "{err}"
    );
    assert!(err.contains("line 1: a quote is not closed"), "{err}");
}

#[test]
fn unknown_parameters_of_open_mpi_warn_and_misspelt_ones_are_refused() {
    let (code, _, err) = run(&["--mca", "rmaps_base_mapping_policy", "core", "true"]);
    let wanted = "mpirun: warning: --mca rmaps_base_mapping_policy core: this has no effect: it is Open MPI's;";
    assert!(code == 0 && err.starts_with(wanted), "{err}");
    let (code, _, err) = run(&["--mca", "btl_tcp_if_ninclude", "lo", "true"]);
    assert!(code == 2 && err.contains("did you mean 'btl_tcp_if_include'"), "{err}");
}

fn count(options: &[&str]) -> usize {
    let (code, out, err) = run(&[options, &["sh", "-c", "echo x"]].concat());
    assert_eq!(code, 0, "{options:?} {err}");
    out.lines().count()
}

#[test]
fn ranks_are_counted_by_number_slots_processors_or_hosts() {
    let scratch = TestDirectory::new("hosts");
    let file = scratch.script("hosts", "localhost slots=2 # here\nlocalhost:3\n");
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert_eq!(count(&[]), 1);
    assert_eq!(count(&["-H", "localhost"]), 1);
    assert_eq!(count(&["-H", "localhost:4"]), 4);
    assert_eq!(count(&["--host", "localhost,localhost"]), 2);
    assert_eq!(count(&["--hostfile", &file]), 5);
    assert_eq!(count(&["-machinefile", &file, "-n", "7"]), 7, "more ranks than slots are fine");
    assert_eq!(count(&["C"]), cpus);
    assert_eq!(count(&["N"]), 1);
    assert_eq!(count(&["-ppn", "3"]), 3);
    let full = scratch.script("full", "localhost max-slots=3\n");
    let (code, _, err) = run(&["-hostfile", &full, "-n", "4", "true"]);
    assert!(code == 2 && err.contains("the host file allows 3 (max-slots)"), "{err}");
}

#[test]
fn programs_start_in_their_directory_and_are_found_there_or_by_path() {
    let scratch = TestDirectory::new("wdir");
    scratch.script("tool", "#!/bin/sh\necho $(pwd) $PWD\n");
    let wanted = format!("{0} {0}\n", scratch.to_str().unwrap());
    assert_eq!(run(&["-wdir", scratch.to_str().unwrap(), "./tool"]), (0, wanted, String::new()));
    let (code, out, err) = run(&["-path", scratch.to_str().unwrap(), "-wd", "/", "tool"]);
    assert_eq!((code, out.as_str()), (0, "/ /\n"), "{err}");
    let (code, _, err) = run(&["-path", scratch.to_str().unwrap(), "tol"]);
    assert_eq!(code, 127);
    assert!(
        err.contains(&format!("no such file in -path ({}) and PATH (", scratch.to_str().unwrap())),
        "{err}"
    );
}

#[test]
fn the_environment_is_passed_on_in_full_in_part_or_not() {
    let script = "echo $A-$B-$C-$OXMPI_COMM_WORLD_RANK";
    let with = |options: &[&str]| {
        let mut command = mpirun(&[options, &["/bin/sh", "-c", script]].concat());
        let (code, out, err) =
            texts(&finish(command.env("A", "a").env("B", "b").env_remove("C").spawn().unwrap()));
        assert_eq!(code, 0, "{options:?} {err}");
        out
    };
    assert_eq!(with(&[]), "a-b--0\n");
    assert_eq!(with(&["-genvnone"]), "---0\n");
    assert_eq!(with(&["-genvlist", "B"]), "-b--0\n");
    assert_eq!(with(&["-genvnone", "-genv", "C", "c", "-x", "A"]), "a--c-0\n");
    assert_eq!(with(&["-envlist", "A", "-env", "C", "c"]), "a--c-0\n");
    let two = ["-genv", "C", "c", "-envnone", "/bin/sh", "-c", script, ":", "-env", "C", "d"];
    let mut lines: Vec<String> = with(&two).lines().map(String::from).collect();
    lines.sort();
    assert_eq!(lines, ["--c-0", "a-b-d-1"]);
    let mut command = mpirun(&["-genvnone", "/bin/sh", "-c", "echo $OXMPI_MCA_wait_yields"]);
    let child = command.env("OXMPI_MCA_wait_yields", "7").spawn().unwrap();
    assert_eq!(texts(&finish(child)).1, "7\n");
}

#[test]
fn output_goes_to_files_as_well_or_alone() {
    let scratch = TestDirectory::new("files");
    let script = "printf 'out %s' $OXMPI_COMM_WORLD_RANK; echo err >&2";
    for (suffix, printed) in [("", true), (":nocopy", false)] {
        let directory = format!("{}/a/b", scratch.to_str().unwrap());
        let (code, out, err) = run(&[
            "-n",
            "2",
            "--output-filename",
            &format!("{directory}{suffix}"),
            "sh",
            "-c",
            script,
        ]);
        assert_eq!(code, 0, "{err}");
        assert_eq!((out.contains("out 1"), err.contains("err")), (printed, printed), "{out} {err}");
        for rank in 0..2 {
            let read = |name: &str| {
                std::fs::read_to_string(format!("{directory}/rank.{rank}/{name}")).unwrap()
            };
            assert_eq!(read("stdout"), format!("out {rank}"));
            assert_eq!(read("stderr"), "err\n");
        }
    }
    let (code, _, err) = run(&["--output-filename", "/dev/null/x", "true"]);
    assert!(
        code == 1
            && err.starts_with(
                "mpirun: cannot make a file for the output, /dev/null/x/rank.0/stdout:"
            ),
        "{err}"
    );
}

/// Common options of Open MPI, Hydra and PRRTE have their effect, or one warning that they have
/// none.
#[test]
fn options_of_other_launchers_have_their_effect_or_a_warning() {
    let scratch = TestDirectory::new("others");
    let pattern = format!("{}/new/%%%r.%g.%p", scratch.to_str().unwrap());
    let script = "echo $OXMPI_UNIVERSE_SIZE $OXMPI_MCA_btl_tcp_if_include $OXMPI_MCA_plm_rsh_agent; echo err >&2";
    let done = [
        "-n",
        "2",
        "-usize",
        "7",
        "-iface",
        "lo",
        "-launcher",
        "rsh",
        "-outfile-pattern",
        &pattern,
    ];
    let not_done = [
        "-x OXMPI_NOT_SET",
        "--noprefix",
        "--tmpdir /x",
        "--report-uri -",
        "-print-all-exitcodes",
        "--prtemca rmaps_default_mapping_policy node",
        "-launcher fork",
    ];
    let words = not_done.iter().chain(&not_done).flat_map(|words| words.split(' '));
    let args: Vec<_> = done.into_iter().chain(words).chain(["sh", "-c", script]).collect();
    let (code, out, err) = run(&args);
    assert_eq!((code, out.as_str(), err.matches("err\n").count()), (0, "", 2), "{err}");
    for words in not_done {
        assert_eq!(
            err.matches(&format!("mpirun: {words} has no effect: ")).count(),
            1,
            "{words}: {err}"
        );
    }
    for rank in 0..2 {
        let read =
            std::fs::read_to_string(format!("{}/new/%{rank}.0.0", scratch.to_str().unwrap()))
                .unwrap();
        assert_eq!(read, "7 lo rsh\n");
    }
    let all = format!("{}/all", scratch.to_str().unwrap());
    let (code, _, err) = run(&[
        "-n",
        "2",
        "-q",
        "-x",
        "OXMPI_NOT_SET",
        "-errfile-pattern",
        &all,
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(
        (code, err.as_str(), std::fs::read_to_string(all).unwrap().as_str()),
        (0, "", "err\nerr\n")
    );
}

/// Rust opens /dev/null in place of a closed output before main: output there must count as lost.
#[test]
fn output_to_a_closed_descriptor_is_reported_as_lost() {
    let program = shell_word(Path::new(env!("CARGO_BIN_EXE_oxmpi")));
    for (words, name) in [("mpirun -n 2 echo x", "mpirun"), ("--version", "oxmpi")] {
        let script = format!("{program} {words} >&-");
        let command =
            Command::new("sh").args(["-c", &script]).stderr(Stdio::piped()).spawn().unwrap();
        let (code, _, err) = texts(&finish(command));
        assert!(
            code == 1 && err.contains(name) && err.contains("Bad file descriptor"),
            "{code} {err}"
        );
    }
    let script = format!("{program} mpirun sh -c 'echo x >&2' 2>&-; echo $?");
    let command = Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(texts(&finish(command)).1, "1\n");
}

#[test]
fn a_full_disk_is_reported_once_and_ends_no_job() {
    let scratch = TestDirectory::new("full");
    std::fs::create_dir_all(scratch.join("rank.0")).unwrap();
    std::os::unix::fs::symlink("/dev/full", scratch.join("rank.0/stdout")).unwrap();
    let (code, out, err) = run(&[
        "--output-filename",
        scratch.to_str().unwrap(),
        "sh",
        "-c",
        "echo a; sleep 0.1; echo b; sleep 0.1; echo c",
    ]);
    assert_eq!((code, out.as_str()), (1, "a\nb\nc\n"));
    let file = format!("{}/rank.0/stdout", scratch.to_str().unwrap());
    assert_eq!(
        err.matches(&format!("warning: cannot write {file}: No space left")).count(),
        1,
        "{err}"
    );
    assert!(
        err.contains(&format!("output was lost: 6 bytes in 3 lines of {file} (No space left")),
        "{err}"
    );
}

#[test]
fn standard_input_goes_to_the_rank_that_is_named_to_none_or_to_all() {
    let read = |which: &str| {
        let mut child = mpirun(&["-n", "3", "-stdin", which, "-l", "wc", "-c"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&vec![b'x'; 300_000]);
        });
        let (code, out, err) = texts(&finish(child));
        writer.join().unwrap();
        assert_eq!(code, 0, "{err}");
        sorted(&out).join(" ")
    };
    assert_eq!(read("2"), "[0] 0 [1] 0 [2] 300000");
    assert_eq!(read("none"), "[0] 0 [1] 0 [2] 0");
    assert_eq!(read("all"), "[0] 300000 [1] 300000 [2] 300000");
}

#[test]
fn started_programs_are_listed_on_request() {
    let (code, _, err) = run(&["-v", "-n", "2", "true"]);
    assert_eq!(code, 0);
    let (lines, events): (Vec<&str>, _) =
        err.lines().partition(|line| line.starts_with("mpirun: rank "));
    assert!(
        events.iter().all(|line: &&str| line.contains(" INFO  launcher "))
            && events.iter().any(|line| line.contains("starting a job ranks=2 hosts=1"))
            && lines.len() == 2
            && lines[1].starts_with("mpirun: rank 1: pid ")
            && lines[1].ends_with("/true"),
        "{err}"
    );
    for (args, text) in [
        (&["--help"][..], "\nBinding to cores\n"),
        (&["--help", "binding"], "rank 0 bound to core 0: [B/.]"),
    ] {
        let (code, out, err) = run(args);
        assert!(code == 0 && err.is_empty() && out.contains(text), "{out}");
    }
    assert!(run(&["-version"]).1.starts_with("mpirun (OxMPI) "));
}

#[test]
fn events_go_to_standard_error_as_the_environment_selects() {
    let run = |log: &str, args: &[&str]| {
        texts(&finish(mpirun(args).env("OXMPI_LOG", log).spawn().unwrap()))
    };
    let (code, out, err) = run("agent=trace,launcher=debug", &["-n", "2", "echo", "out"]);
    assert_eq!((code, &*out), (0, "out\nout\n"), "{err}");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for rank in [0, 1] {
        let event = format!(" DEBUG launcher {host}: a rank has ended rank={rank} pid=");
        let ended = err.lines().filter(|line| line.contains(&event)).collect::<Vec<_>>();
        assert!(ended.len() == 1 && ended[0].ends_with("exit=Code(0) stage=Untouched"), "{err}");
    }
    let decision = "the job machine has decided event=\"Exited { rank: ";
    assert!(err.contains(decision) && err.contains("actions=[Finish(0)]"), "{err}");
    assert_eq!(run("agent=trace,launcher=warn", &["true"]), (0, String::new(), String::new()));
    let (code, out, err) = run("launcher=info,agent=loud", &["echo", "out"]);
    assert_eq!((code, &*out), (2, ""), "{err}");
    let why = "mpirun: environment variable OXMPI_LOG: 'agent=loud' is neither a level nor";
    assert!(err.starts_with(why) && err.contains("launcher=debug,agent=trace"), "{err}");
}

#[test]
fn the_times_of_the_start_are_shown_on_request() {
    let (code, out, err) = run(&["-q", "--display", "times", "-n", "2", "true"]);
    assert_eq!((code, &*out), (0, ""), "{err}");
    let lines: Vec<&str> = err.lines().collect();
    assert!(lines[0].starts_with("mpirun: the start of 2 ranks has taken 0."), "{err}");
    let phases: Vec<&str> = lines[2..].iter().map(|line| line[..15].trim()).collect();
    assert_eq!(phases, ["resolve", "agents", "segments", "exec", "first contact"], "{err}");
    assert_eq!(lines[6], "  first contact  0.000000", "no rank has called MPI_Init");
}

#[test]
fn another_launchers_variable_limits_the_time_too() {
    let child = mpirun(&["sleep", "60"]).env("MPIEXEC_TIMEOUT", "0.2").spawn().unwrap();
    assert_eq!(texts(&finish(child)).0, 124);
    let child = mpirun(&["true"]).env("MPIEXEC_TIMEOUT", "soon").spawn().unwrap();
    let (code, _, err) = texts(&finish(child));
    assert!(
        code == 2 && err.contains("MPIEXEC_TIMEOUT: 'soon' is not a number of seconds"),
        "{err}"
    );
}

/// The allowed processors of each rank, from the kernel, in order of the ranks.
fn allowed(options: &[&str]) -> (Vec<String>, String) {
    let script = "echo $OXMPI_COMM_WORLD_RANK $(grep Cpus_allowed_list: /proc/self/status)";
    let (code, out, err) = run(&[options, &["sh", "-c", script]].concat());
    assert_eq!(code, 0, "{err}");
    let last = |line: &&str| line.split_whitespace().last().unwrap().to_string();
    (sorted(&out).iter().map(last).collect(), err)
}

#[test]
fn ranks_are_bound_to_their_share_of_the_cores() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let all = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap()
        .trim()
        .to_string();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let everything = |count: usize| vec![all.clone(); count];
    let many = (cpus + 1).to_string();
    let (found, err) = allowed(&["-n", &many, "--report-bindings"]);
    assert_eq!(found, everything(cpus + 1));
    let text = format!("rank {cpus} is not bound: {many} ranks share {cpus} processor");
    assert!(err.lines().count() == cpus + 1 && err.contains(&text), "{err}");
    assert_eq!(allowed(&[]).0, everything(1));
    assert_eq!(allowed(&["-n", "2", "--bind-to", "none"]).0, everything(2));
    let (found, err) = allowed(&["-n", "100", "--bind-to", "core"]);
    assert_eq!(found, everything(100));
    assert!(
        err.starts_with("mpirun: warning: the ranks are not bound: 100 ranks do not fit on "),
        "{err}"
    );
    assert_eq!(allowed(&["-n", "100", "-q", "--bind-to", "core"]).1, "");
    let (found, err) = allowed(&["-n", "2", "--bind-to", "hwthread", "--report-bindings"]);
    if err.starts_with("rank 0 bound to ") {
        assert_ne!(found[0], found[1], "{err}");
        assert!(found.iter().all(|one| one.parse::<u32>().is_ok()), "{found:?}");
        assert!(err.contains('B') && err.lines().count() == 2, "{err}");
    } else {
        assert!(cpus < 2 || err.contains("do not fit"), "{err}");
    }
}

#[test]
fn output_is_tagged_by_whole_lines() {
    // The pause is longer than a line without a tag waits for its end.
    let script = "for i in 1 2 3; do printf 'a%s ' $i; sleep 0.3; printf 'b\n'; done; printf end";
    let (code, out, _) = run(&["-n", "2", "--tag-output", "sh", "-c", script]);
    assert_eq!(code, 0);
    assert_eq!(
        sorted(&out),
        [
            "[0] a1 b", "[0] a2 b", "[0] a3 b", "[0] end", "[1] a1 b", "[1] a2 b", "[1] a3 b",
            "[1] end"
        ]
    );
}

#[test]
fn lines_of_many_writers_stay_whole_and_none_is_lost() {
    let script = "for i in $(seq 500); do echo line-$OXMPI_COMM_WORLD_RANK-$i-abcdefghijklmnopqrstuvwxyz; done";
    let (code, out, _) = run(&["-n", "8", "sh", "-c", script]);
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 8 * 500);
    for line in out.lines() {
        assert!(
            line.starts_with("line-")
                && line.ends_with("-abcdefghijklmnopqrstuvwxyz")
                && line.len() < 50,
            "{line}"
        );
    }
}

#[test]
fn all_output_arrives_before_mpirun_ends() {
    let (code, out, _) = run(&[
        "-n",
        "2",
        "sh",
        "-c",
        "head -c 1000000 /dev/zero | tr '\\0' x; (sleep 0.05; echo late) &",
    ]);
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
    let (code, _, err) = texts(&finish(child));
    assert_eq!((code, &*err), (128 + 13, ""));
}

#[test]
fn standard_input_goes_to_rank_0() {
    let mut child =
        mpirun(&["-n", "3", "sh", "-c", "wc -c"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"12345").unwrap();
    let (code, out, _) = texts(&finish(child));
    assert_eq!(code, 0);
    assert_eq!(sorted(&out), ["0", "0", "5"]);
}

/// A process that talks with a rank over pipes gets each question of the rank, on any output and
/// from any host.
#[test]
fn a_question_without_the_end_of_a_line_is_passed_on() {
    let scratch = TestDirectory::new("question");
    let shell = scratch.remote_shell();
    let ask = scratch.script(
        "ask",
        "[ $OXMPI_COMM_WORLD_RANK = $1 ] || exit 0
         for i in 1 2 3; do printf 'N = ' >&$2; read n; echo $((n * 2)) >&$2; done",
    );
    let files = format!("{}/files", scratch.to_str().unwrap());
    let far = ["--mca", "plm_rsh_agent", &shell, "-H", "a.invalid,b.invalid"];
    let answers = |options: &[&str], rank: &str, output: &str| {
        let options =
            [&["-n", "2", "--timeout", "20"], options, &["sh", &ask, rank, output]].concat();
        let mut child = mpirun(&options).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut out: Box<dyn std::io::Read> = match output {
            "1" => Box::new(child.stdout.take().unwrap()),
            _ => Box::new(child.stderr.take().unwrap()),
        };
        for _ in 0..3 {
            await_text(&mut out, "N = ");
            stdin.write_all(b"21\n").unwrap();
            await_text(&mut out, "42\n");
        }
        assert!(finish(child).status.success());
    };
    answers(&[], "0", "1");
    answers(&["-stdin", "1"], "1", "2");
    answers(&["-stdin", "all"], "1", "1");
    answers(&["--output-filename", &files], "0", "1");
    answers(&[&far[..], &["-stdin", "0"]].concat(), "0", "1");
    answers(&[&far[..], &["-stdin", "1"]].concat(), "1", "2");
}

#[test]
fn dots_are_passed_on_and_other_ranks_do_not_wait_for_their_line() {
    let scratch = TestDirectory::new("dots");
    let script = format!(
        "cd {}
         if [ $OXMPI_COMM_WORLD_RANK = 1 ]; then until [ -e go ]; do sleep 0.02; done; echo other; exit; fi
         for i in 1 2 3; do printf .; read x; done; echo done",
        scratch.to_str().unwrap()
    );
    let mut child = mpirun(&["-n", "2", "--timeout", "20", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    await_text(&mut out, ".");
    scratch.write("go", "");
    await_text(&mut out, "other\n");
    for _ in 0..2 {
        stdin.write_all(b"\n").unwrap();
        await_text(&mut out, ".");
    }
    stdin.write_all(b"\n").unwrap();
    await_text(&mut out, "done\n");
    assert!(finish(child).status.success());
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
    let line = [
        "-n", "1", "sh", "-c", echo, "first", ":", "-n", "2", "-x", "A=b", "sh", "-c", echo,
        "second",
    ];
    let (code, out, _) = run(&line);
    assert_eq!(code, 0);
    assert_eq!(sorted(&out), ["0/3 first", "1/3 second b", "2/3 second b"]);
}

#[test]
fn variables_and_parameters_reach_the_ranks() {
    let (code, out, _) = run(&[
        "-x",
        "A=b",
        "--mca",
        "single_copy",
        "off",
        "sh",
        "-c",
        "echo $A $OXMPI_MCA_single_copy",
    ]);
    assert_eq!((code, out.as_str()), (0, "b off\n"));
}

#[test]
fn an_interrupt_is_passed_on_and_ends_the_job() {
    let mark = marker("interrupt");
    let script = "trap 'echo got it; exit 0' INT; echo ready; while :; do sleep 0.05; done";
    let mut child = mpirun(&["-n", "2", "sh", "-c", script, &mark]).spawn().unwrap();
    await_lines(&mut child, 2);
    send(&child, Signal::INT);
    let (code, out, err) = texts(&finish(child));
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
    let (code, _, _) = texts(&finish(child));
    assert_eq!(code, 130);
    await_none(&mark);
}

#[test]
fn killing_mpirun_leaves_no_process() {
    let mark = marker("kill9");
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

#[test]
fn without_waiting_the_job_goes_on_by_itself() {
    let directory = TestDirectory::new("nw");
    let (go, done) = (directory.join("go"), directory.join("done"));
    let script = format!(
        "until [ -e {} ]; do sleep 0.02; done; read x; mv {} {}",
        go.display(),
        go.display(),
        done.display()
    );
    let mut command = mpirun(&["-nw", "--timeout", "20", "sh", "-c", &script]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success() && !done.exists());
    std::fs::write(&go, "").unwrap();
    let start = Instant::now();
    while !done.exists() {
        assert!(start.elapsed() < LIMIT, "the job does not go on");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (code, _, err) = run(&["-nw", "-stdin", "all", "true"]);
    assert!(code == 2 && err.contains("gets no input"), "{err}");
    let (code, _, err) = run(&["-nw", "no-such-program-anywhere"]);
    assert!(code == 127 && err.contains("no-such-program-anywhere"), "{err}");
}

#[test]
fn a_slow_reader_gets_all_output_of_other_hosts() {
    // More than an agent may send without an acknowledgement, and little enough that the rest fits
    // the pipe of a rank that has ended.
    let scratch = TestDirectory::new("far-output");
    let shell = scratch.remote_shell();
    let print = "head -c 1110000 /dev/zero";
    let mut command =
        mpirun(&["--mca", "plm_rsh_agent", &shell, "-H", "a.invalid,b.invalid,c.invalid"]);
    let mut child = command.args(["sh", "-c", print]).spawn().unwrap();
    let output = child.stdout.take();
    std::thread::sleep(Duration::from_millis(1500));
    child.stdout = output;
    let output = finish(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout.len(), 3 * 1_110_000);
}

#[test]
fn messages_behind_the_report_of_started_ranks_are_read() {
    use oxmpi_launcher::job::Exit;
    use oxmpi_rt_proto::agent::{
        BranchReport, BranchRound, FromAgent, HostReport, ProcessEvent, Seen, greeting,
    };
    let scratch = TestDirectory::new("far-said");
    let shell =
        scratch.script("shell", "#!/bin/sh\ncat \"${0%/*}/said\"; exec cat 3>&1 >/dev/null\n");
    let mut said = greeting().into_bytes();
    let report = |round, pids| {
        let report = BranchReport { pids, ..BranchReport::default() };
        FromAgent::Report { round, report: Box::new(report) }
    };
    let messages = [
        report(BranchRound::Ready { base: 0 }, Vec::new()),
        report(BranchRound::Started { base: 0 }, vec![(0, 1)]),
        FromAgent::Host(HostReport::Output {
            rank: 0,
            is_error: false,
            bytes: b"all at once\n".to_vec(),
        }),
        FromAgent::Events(vec![
            ProcessEvent::Closed { rank: 0, is_error: false },
            ProcessEvent::Closed { rank: 0, is_error: true },
            ProcessEvent::Exited { rank: 0, exit: Exit::Code(0), seen: Seen::default() },
        ]),
    ];
    messages.iter().for_each(|message| said.extend(message.encode(0, 0)));
    std::fs::write(scratch.join("said"), said).unwrap();
    let command = &["--timeout", "20", "--mca", "plm_rsh_agent", &shell, "-H", "a.invalid", "true"];
    let output = finish(mpirun(command).spawn().unwrap());
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert_eq!(output.stdout, b"all at once\n");
}

#[test]
fn files_without_an_end_are_refused() {
    for option in ["--hostfile", "--machinefile", "--app", "-configfile"] {
        let program: &[&str] =
            if option.ends_with("hostfile") || option.starts_with("--m") { &["true"] } else { &[] };
        let (code, out, err) = run(&[&[option, "/dev/zero"], program].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{option}: {err}");
        assert!(
            err.contains("/dev/zero") && err.contains("more than 16777216 bytes"),
            "{option}: {err}"
        );
        assert!(err.len() < 2000, "{option}: {} bytes", err.len());
    }
    let boot =
        Command::new(env!("CARGO_BIN_EXE_oxmpi")).args(["boot", "/dev/zero"]).output().unwrap();
    let err = String::from_utf8_lossy(&boot.stderr);
    assert!(err.contains("/dev/zero: it has more than 16777216 bytes"), "{err}");
    let (code, out, err) = run(&["--hostfile", "/dev/stdin", "-n", "1", "true"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("no host is named"), "a pipe or an empty file is read: {err}");
}

#[test]
fn the_time_of_a_job_ends_while_agents_hang() {
    use oxmpi_rt_proto::agent::{BranchRound, FromAgent, greeting};
    let scratch = TestDirectory::new("hanging-agents");
    let shell = scratch.script("shell", "#!/bin/sh\ncat \"${0%/*}/said\"; exec sleep 100\n");
    let ready = FromAgent::Report { round: BranchRound::Ready { base: 0 }, report: Box::default() }
        .encode(0, 0);
    let ready = [greeting().into_bytes(), ready].concat();
    let began = Instant::now();
    for (said, words) in [
        (Vec::new(), "has not answered"),
        (greeting().into_bytes(), "has not got the ranks ready"),
        (ready, "has not started the ranks"),
    ] {
        std::fs::write(scratch.join("said"), said).unwrap();
        let command =
            &["--timeout", "1", "--mca", "plm_rsh_agent", &shell, "-H", "a.invalid", "true"];
        let (code, out, err) = run(command);
        assert_eq!((code, out.as_str()), (124, ""), "{err}");
        let head =
            "mpirun: the time of 1 s (--timeout) is over, and the agent of host 'a.invalid' ";
        assert!(
            err.starts_with(&format!("{head}{words}; started by '{shell} a.invalid ")),
            "{err}"
        );
    }
    assert!(began.elapsed() < LIMIT, "it is not the patience with agents that has ended them");
}
