//! Commands in shell scripts: with ignored signals, full or unread outputs, and children that are
//! not waited for. Each script has a time limit; `$OXMPI` is the command under test, `$DIR` a
//! directory of the script.

use std::process::{Command, Stdio};

use crate::support::{TestDirectory, texts};

#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

struct ScriptDirectory(TestDirectory);

impl ScriptDirectory {
    fn new() -> ScriptDirectory {
        ScriptDirectory(TestDirectory::new("shell"))
    }

    fn run(&self, script: &str) -> Ended {
        let mut command = Command::new("timeout");
        command
            .args(["-k", "1", "60", "bash", "-c", script])
            .env("DIR", &self.0)
            .stdin(Stdio::null());
        let suffix = self.0.file_name().unwrap();
        command.env("OXMPI_MCA_boot_session_suffix", suffix).env("OXMPI_PARAM_FILES", "none");
        command.env("REMOTE", self.0.remote_shell());
        let output = command.env("OXMPI", env!("CARGO_BIN_EXE_oxmpi")).output().unwrap();
        let (code, out, err) = texts(&output);
        Ended { code, out, err }
    }
}

fn run(script: &str) -> Ended {
    ScriptDirectory::new().run(script)
}

#[test]
fn signals_that_were_ignored_at_the_start_end_no_job() {
    // The ranks end with the input. A signal that ends the job comes, and is seen, before that.
    for signal in ["HUP", "INT", "QUIT", "TERM", "TSTP"] {
        let script = format!(
            "mkfifo $DIR/in; exec 3<>$DIR/in
             env --ignore-signal={signal} \"$OXMPI\" mpirun -n 2 sh -c 'echo up; read x; exit 0' <$DIR/in >$DIR/out &
             until [ $(grep -c up $DIR/out) = 2 ]; do sleep 0.01; done
             kill -{signal} $!; echo go >&3; exec 3>&-; wait $!; echo \"ended with $?\""
        );
        let ended = run(&script);
        assert_eq!((ended.code, &*ended.out), (0, "ended with 0\n"), "{signal}: {ended:?}");
    }
}

#[test]
fn jobs_in_the_background_of_a_shell_do_not_end_by_ctrl_c() {
    // Without job control a shell starts background processes with SIGINT and SIGQUIT ignored.
    let script = "\"$OXMPI\" mpirun -n 1 sh -c 'until [ -e $DIR/go ]; do sleep 0.01; done' &
         sleep 0.3; kill -INT $!; kill -QUIT $!; touch $DIR/go; wait $!; echo \"ended with $?\"";
    let ended = run(script);
    assert_eq!(&*ended.out, "ended with 0\n", "{ended:?}");
}

#[test]
fn codes_are_known_with_sigchld_ignored_at_the_start() {
    for how in ["--ignore-signal=CHLD", "--block-signal=CHLD", "--ignore-signal", "--block-signal"]
    {
        let mpirun = |rest: &str| run(&format!("exec env {how} \"$OXMPI\" mpirun {rest}"));
        let good = mpirun("-n 3 sh -c '/bin/true && echo fine'");
        assert_eq!((good.code, &*good.out, &*good.err), (0, "fine\nfine\nfine\n", ""), "{how}");
        let bad = mpirun("-n 2 sh -c 'exit 5'");
        assert!(bad.code == 5 && bad.err.contains("exited with code 5"), "{how}: {bad:?}");
        let hosts = mpirun("--mca plm_rsh_agent $REMOTE -H a.invalid,b.invalid sh -c 'exit 6'");
        assert!(hosts.code == 6 && hosts.err.contains("exited with code 6"), "{how}: {hosts:?}");
    }
}

#[test]
fn ranks_get_the_signals_that_mpirun_was_given_and_sigchld_as_usual() {
    let read = "grep -E 'Sig(Ign|Blk)' /proc/self/status";
    let words = |ended: &Ended, name: &str| {
        let lines = ended.out.lines().filter(|line| line.starts_with(name));
        let mask =
            |line: &str| u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
        lines.map(mask).collect::<Vec<_>>()
    };
    let bit = |signal: u32| 1u64 << (signal - 1);
    let (hup, usr1, pipe, chld) = (bit(1), bit(10), bit(13), bit(17));
    for hosts in ["-n 2", "--mca plm_rsh_agent $REMOTE -H a.invalid,b.invalid"] {
        let env = "env --ignore-signal=HUP,CHLD,PIPE --block-signal=USR1";
        let ended = run(&format!("{env} \"$OXMPI\" mpirun {hosts} {read}"));
        for ignored in words(&ended, "SigIgn") {
            assert_eq!(ignored & (hup | chld | pipe), hup, "{ended:?}");
        }
        let blocked = if hosts == "-n 2" { usr1 } else { 0 };
        assert_eq!(words(&ended, "SigBlk"), [blocked, blocked], "{ended:?}");
    }
}

#[test]
fn an_agent_keeps_the_signals_ignored_at_its_start() {
    let script = "exec env --ignore-signal=HUP,INT \"$OXMPI\" mpirun --mca plm_rsh_agent $REMOTE -H a.invalid \
                  sh -c 'kill -HUP $PPID; kill -INT $PPID; echo up'";
    let ended = run(script);
    assert_eq!((ended.code, &*ended.out, &*ended.err), (0, "up\n", ""));
}

#[test]
fn a_daemon_keeps_the_signals_ignored_at_its_start_and_its_programs_do_not() {
    let script = "env --ignore-signal \"$OXMPI\" boot || exit
         \"$OXMPI\" exec n0 sh -c 'kill -HUP $PPID; kill -INT $PPID; kill -TERM $PPID; exit 4'; echo \"ended with $?\"
         \"$OXMPI\" exec n0 sh -c 'kill -TERM $$'; echo \"ended with $?\"
         env --ignore-signal=CHLD \"$OXMPI\" mpirun -n 1 sh -c 'exit 5'; echo \"ended with $?\"
         env --ignore-signal=CHLD \"$OXMPI\" halt; echo \"ended with $?\"";
    let ended = run(script);
    let codes: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("ended")).collect();
    assert_eq!(
        codes,
        ["ended with 4", "ended with 143", "ended with 5", "ended with 0"],
        "{ended:?}"
    );
}

#[test]
fn a_guard_kills_the_ranks_of_an_mpirun_that_ignored_signals() {
    let script =
        "env --ignore-signal \"$OXMPI\" mpirun -n 2 sh -c 'echo $$ >>$DIR/pids; exec sleep 60' & mpirun=$!
         until [ $(wc -l <$DIR/pids) = 2 ]; do sleep 0.01; done 2>/dev/null
         kill -KILL $mpirun; while kill -0 $(cat $DIR/pids) 2>/dev/null; do sleep 0.01; done; echo gone";
    let ended = run(script);
    assert!(ended.out.ends_with("gone\n"), "{ended:?}");
}

#[test]
fn the_doctor_makes_its_tests_with_sigchld_ignored() {
    let ended = run("env --ignore-signal=CHLD \"$OXMPI\" doctor");
    assert!(
        ended.out.contains("single copy") && !ended.out.contains("could not be tried"),
        "{ended:?}"
    );
}

/// The largest number of zombies of a rank's former children while the rank runs.
const FEW: &str = "for i in $(seq 300); do (sh -c : & ) ; done; n=99
     for try in $(seq 500); do
         n=$(cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | grep -c \"^Z $PPID \"); [ $n -lt 5 ] && break; sleep 0.02
     done; [ $n -lt 5 ] && echo few; exit 7";

#[test]
fn zombies_of_ranks_are_reaped_while_the_ranks_run() {
    let scratch = ScriptDirectory::new();
    std::fs::write(scratch.0.join("leave"), FEW).unwrap();
    for hosts in ["-n 1", "--mca plm_rsh_agent $REMOTE -H a.invalid"] {
        let ended = scratch.run(&format!("exec \"$OXMPI\" mpirun {hosts} bash $DIR/leave"));
        assert!(ended.code == 7 && ended.out == "few\n", "{ended:?}");
        assert!(ended.err.contains("exited with code 7"), "{ended:?}");
    }
}

#[test]
fn output_for_which_there_is_no_room_is_counted_and_the_job_goes_on() {
    let scratch = ScriptDirectory::new();
    for hosts in ["-n 2", "--mca plm_rsh_agent $REMOTE -H a.invalid,b.invalid"] {
        let script = "\"$OXMPI\" mpirun HOSTS sh -c 'echo one; sleep 0.1; printf two; touch $DIR/$OXMPI_COMM_WORLD_RANK' >/dev/full
             echo \"ended with $?\"; rm $DIR/[01] && echo done";
        let ended = scratch.run(&script.replace("HOSTS", hosts));
        assert_eq!(&*ended.out, "ended with 1\ndone\n", "{ended:?}");
        let first = "mpirun: warning: cannot write the standard output: No space left on device (os error 28);";
        assert!(ended.err.starts_with(first), "{ended:?}");
        let last = "mpirun: output was lost: 14 bytes in 3 lines of the standard output (No space left on device (os error 28))\n  \
                    The job ends with exit code 1.\n";
        assert!(ended.err.ends_with(last), "{ended:?}");
        assert_eq!(ended.err.matches("mpirun: ").count(), 2, "{ended:?}");
    }
}

#[test]
fn a_job_that_fails_ends_with_its_code_though_its_output_is_lost() {
    let ended = run("exec \"$OXMPI\" mpirun -n 1 sh -c 'echo x; exit 7' >/dev/full");
    assert!(
        ended.code == 7 && ended.err.contains("2 bytes in 1 line of the standard output"),
        "{ended:?}"
    );
    assert!(ended.err.ends_with("The job ends with exit code 7.\n"), "{ended:?}");
}

#[test]
fn a_file_that_may_not_grow_keeps_what_it_has_and_the_rest_is_counted() {
    let scratch = ScriptDirectory::new();
    // The limit is for mpirun alone. In ranks it would also hit their shared memory, which is a
    // file.
    let limited = |options: &str, script: &str, then: &str| {
        let wait =
            "touch $DIR/up.$OXMPI_COMM_WORLD_RANK; until [ -e $DIR/go ]; do sleep 0.01; done";
        scratch.run(&format!(
            "rm -f $DIR/up.* $DIR/go; \"$OXMPI\" mpirun {options} sh -c '{wait}; {script}' >$DIR/out 2>$DIR/err &
             until [ -e $DIR/up.0 -a -e $DIR/up.1 ]; do sleep 0.01; done; prlimit --pid $! --fsize=4096; touch $DIR/go
             wait $!; echo \"ended with $? and\" {then}; cat $DIR/err >&2"
        ))
    };
    let script =
        "if [ $OXMPI_COMM_WORLD_RANK = 0 ]; then head -c 10000 /dev/zero; sleep 0.1; echo; fi";
    let ended = limited("-n 2", script, "$(stat -c %s $DIR/out)");
    assert_eq!(&*ended.out, "ended with 1 and 4096\n", "{ended:?}");
    assert!(
        ended.err.contains("5905 bytes in 1 line of the standard output (File too large"),
        "{ended:?}"
    );
    let then = "$(cat $DIR/files/rank.*/stderr) $(stat -c %s $DIR/files/rank.*/stdout)";
    let script = "head -c 10000 /dev/zero; echo e >&2";
    let ended = limited("-n 2 --output-filename $DIR/files:nocopy", script, then);
    assert_eq!(&*ended.out, "ended with 1 and e e 4096 4096\n", "{ended:?}");
    for rank in [0, 1] {
        let text = format!(
            "5904 bytes in 1 line of {}/files/rank.{rank}/stdout (File too large",
            scratch.0.display()
        );
        assert!(ended.err.contains(&text), "{text}: {ended:?}");
    }
}

#[test]
fn the_limit_on_the_size_of_files_holds_for_a_rank() {
    let ended = run(
        "exec \"$OXMPI\" mpirun -n 1 sh -c 'ulimit -f 4; exec head -c 10000 /dev/zero >$DIR/x'",
    );
    assert!(ended.code == 128 + 25 && ended.err.contains("SIGXFSZ"), "{ended:?}");
    // The shared memory of ranks is a file, and has no room either.
    let ended = run("ulimit -f 4; exec \"$OXMPI\" mpirun -n 1 true");
    assert!(
        ended.code == 1 && ended.err.contains("the limit on the size of files is"),
        "{ended:?}"
    );
}

#[test]
fn a_full_standard_error_is_a_failure_without_a_panic() {
    for (what, code) in [
        ("mpirun -n 2 sh -c 'echo e >&2'", 1),
        ("mpirun -n 2 sh -c 'exit 9'", 9),
        ("mpirun no-such-program-anywhere", 127),
        ("mpirun --no-such-option", 2),
        ("mpirun --mca plm_rsh_agent $REMOTE -H a.invalid sh -c 'exit 9'", 9),
        ("mpicc", 1),
        ("explain coll no-such-collective --ranks 4", 2),
        ("no-such-word", 2),
        ("info --no-such-option", 2),
        ("doctor --no-such-option", 2),
        ("tune --no-such-option", 2),
        ("quiesce 0", 2),
        ("nodes", 1),
        ("exec n0 true", 1),
    ] {
        let ended = run(&format!("exec \"$OXMPI\" {what} 2>/dev/full"));
        assert_eq!(ended.code, code, "{what}: {ended:?}");
    }
}

const PRINTS: [&str; 12] = [
    "--help",
    "--version",
    "mpirun --help",
    "mpirun --version",
    "mpicc -help",
    "ompi_info",
    "info",
    "info --params",
    "man mpirun",
    "completions bash",
    "explain coll allreduce --ranks 4",
    "tune --help",
];

#[test]
fn commands_whose_output_is_lost_report_it_and_fail() {
    for what in PRINTS {
        let ended = run(&format!("exec \"$OXMPI\" {what} >/dev/full"));
        assert_eq!(ended.code, 1, "{what}: {ended:?}");
        let text = "cannot write the standard output: No space left on device (os error 28)\n";
        assert!(ended.err.ends_with(text) && ended.err.lines().count() == 1, "{what}: {ended:?}");
    }
    let ended = run("exec \"$OXMPI\" doctor --json >/dev/full");
    assert!(ended.code == 1 && ended.err.contains("cannot write the standard output"), "{ended:?}");
}

/// Descriptor 4 is a pipe that no process reads.
const UNREAD: &str = "mkfifo $DIR/unread; exec 3<>$DIR/unread 4>$DIR/unread 3>&-; ";

#[test]
fn commands_whose_output_nobody_reads_end_as_by_sigpipe_without_a_word() {
    for what in PRINTS {
        let ended = run(&format!("{UNREAD} exec \"$OXMPI\" {what} >&4"));
        assert_eq!((ended.code, &*ended.err), (141, ""), "{what}");
    }
}

#[test]
fn a_job_whose_output_nobody_reads_ends_as_by_sigpipe_without_a_word() {
    for hosts in ["-n 2", "--mca plm_rsh_agent $REMOTE -H a.invalid,b.invalid"] {
        for (what, to) in [
            ("yes", ">&4"),
            ("sh -c 'yes >&2'", "2>&4"),
            // A rank that inherits ignored signals, as children of Python and Java ignore SIGPIPE.
            ("sh -c \"trap '' PIPE TERM; while :; do echo x 2>/dev/null; done\"", ">&4"),
            ("sh -c '[ $OXMPI_COMM_WORLD_RANK = 0 ] && echo x; sleep 50'", ">&4"),
            ("echo x", ">&4"),
        ] {
            let ended = run(&format!("{UNREAD} exec \"$OXMPI\" mpirun {hosts} {what} {to}"));
            assert_eq!((ended.code, &*ended.err), (141, ""), "{what}");
        }
    }
    let ended = run("\"$OXMPI\" mpirun -n 2 yes | head -1; echo ${PIPESTATUS[0]}");
    assert_eq!((&*ended.out, &*ended.err), ("y\n141\n", ""));
    let ended = run(&format!("{UNREAD} exec \"$OXMPI\" mpirun -n 1 sh -c 'exit 3' >&4"));
    assert!(ended.code == 3 && ended.err.contains("exited with code 3"), "{ended:?}");
}

#[test]
fn an_interrupt_ends_the_wait_for_a_slow_reader() {
    // The ranks have ended; their output is longer than a pipe holds.
    let script = "mkfifo $DIR/slow; exec 3<>$DIR/slow
         \"$OXMPI\" mpirun -n 1 sh -c 'head -c 300000 /dev/zero; touch $DIR/done' >$DIR/slow & until [ -e $DIR/done ]; do sleep 0.01; done
         sleep 0.5; kill -INT $!; wait $!; echo \"ended with $?\"";
    // With job control, as SIGINT would be ignored in the background of a script.
    let ended = run(&format!("set -m; {script}"));
    assert_eq!(&*ended.out, "ended with 130\n", "{ended:?}");
}

#[test]
fn lost_output_of_programs_under_daemons_is_reported() {
    let script = "\"$OXMPI\" boot >/dev/null || exit
         \"$OXMPI\" exec n0 echo x >/dev/full; echo \"ended with $?\"
         \"$OXMPI\" exec n0 sh -c 'echo x >&2' 2>/dev/full; echo \"ended with $?\"
         \"$OXMPI\" exec n0 sh -c 'echo x; exit 5' >/dev/full; echo \"ended with $?\"
         \"$OXMPI\" exec n0 yes >&4; echo \"ended with $?\"
         \"$OXMPI\" exec n0 sh -c 'yes >&2' 2>&4; echo \"ended with $?\"
         \"$OXMPI\" nodes >/dev/full; echo \"ended with $?\"
         \"$OXMPI\" halt";
    let ended = run(&format!("{UNREAD}{script}"));
    let codes: Vec<&str> =
        ended.out.lines().filter_map(|line| line.strip_prefix("ended with ")).collect();
    assert_eq!(codes, ["1", "1", "5", "141", "141", "1"], "{ended:?}");
}
