//! Commands as a shell's script has them: with signals ignored, outputs that are full or that nobody reads, and processes that
//! nobody waits for. Each script has a time limit; `$OXMPI` is the command under test, `$DIR` a directory of the script's own.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// How a script ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

/// A directory for one script's files; it goes with the test.
struct Room(PathBuf);

impl Room {
    fn new() -> Room {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("oxmpi-shell-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Room(path)
    }

    fn run(&self, script: &str) -> Ended {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "60", "bash", "-c", script]).env("DIR", &self.0).stdin(Stdio::null());
        let suffix = self.0.file_name().unwrap();
        command.env("OXMPI_MCA_boot_session_suffix", suffix).env("OXMPI_PARAM_FILES", "none");
        // A remote shell for hosts that are this one.
        let remote = self.0.join("remote");
        std::fs::write(&remote, "#!/bin/sh\nshift; exec sh -c \"$*\"\n").unwrap();
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        std::fs::set_permissions(&remote, mode).unwrap();
        command.env("REMOTE", remote);
        let output = command.env("OXMPI", env!("CARGO_BIN_EXE_oxmpi")).output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ended {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(script: &str) -> Ended {
    Room::new().run(script)
}

#[test]
fn signals_that_were_ignored_at_the_start_end_no_job() {
    // The ranks end with the input. A signal that ends the job is seen before that, as it comes before.
    for signal in ["HUP", "INT", "QUIT", "TERM", "TSTP"] {
        let script = format!(
            "mkfifo $DIR/in; exec 3<>$DIR/in
             env --ignore-signal={signal} $OXMPI mpirun -n 2 sh -c 'echo up; read x; exit 0' <$DIR/in >$DIR/out &
             until [ $(grep -c up $DIR/out) = 2 ]; do sleep 0.01; done
             kill -{signal} $!; echo go >&3; exec 3>&-; wait $!; echo \"ended with $?\""
        );
        let ended = run(&script);
        assert_eq!((ended.code, &*ended.out), (0, "ended with 0\n"), "{signal}: {ended:?}");
    }
}

#[test]
fn jobs_in_the_background_of_a_shell_do_not_end_by_ctrl_c() {
    // Without job control a shell has SIGINT and SIGQUIT ignored by what it starts with '&'.
    let script = "$OXMPI mpirun -n 1 sh -c 'until [ -e $DIR/go ]; do sleep 0.01; done' &
         sleep 0.3; kill -INT $!; kill -QUIT $!; touch $DIR/go; wait $!; echo \"ended with $?\"";
    let ended = run(script);
    assert_eq!(&*ended.out, "ended with 0\n", "{ended:?}");
}

#[test]
fn codes_are_known_with_sigchld_ignored_at_the_start() {
    for how in ["--ignore-signal=CHLD", "--block-signal=CHLD", "--ignore-signal", "--block-signal"] {
        let mpirun = |rest: &str| run(&format!("exec env {how} $OXMPI mpirun {rest}"));
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
        let mask = |line: &str| u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
        lines.map(mask).collect::<Vec<_>>()
    };
    let bit = |signal: u32| 1u64 << (signal - 1);
    let (hup, usr1, pipe, chld) = (bit(1), bit(10), bit(13), bit(17));
    for hosts in ["-n 2", "--mca plm_rsh_agent $REMOTE -H a.invalid,b.invalid"] {
        let env = "env --ignore-signal=HUP,CHLD,PIPE --block-signal=USR1";
        let ended = run(&format!("{env} $OXMPI mpirun {hosts} {read}"));
        for ignored in words(&ended, "SigIgn") {
            assert_eq!(ignored & (hup | chld | pipe), hup, "{ended:?}");
        }
        // On another host the shell there clears the mask.
        let blocked = if hosts == "-n 2" { usr1 } else { 0 };
        assert_eq!(words(&ended, "SigBlk"), [blocked, blocked], "{ended:?}");
    }
}

#[test]
fn an_agent_ignores_what_it_was_started_to_ignore() {
    // The agent is the rank's parent.
    let script = "exec env --ignore-signal=HUP,INT $OXMPI mpirun --mca plm_rsh_agent $REMOTE -H a.invalid \
                  sh -c 'kill -HUP $PPID; kill -INT $PPID; echo up'";
    let ended = run(script);
    assert_eq!((ended.code, &*ended.out, &*ended.err), (0, "up\n", ""));
}

#[test]
fn a_daemon_ignores_what_it_was_started_to_ignore_and_its_programs_do_not() {
    let script = "env --ignore-signal $OXMPI boot || exit
         $OXMPI exec n0 sh -c 'kill -HUP $PPID; kill -INT $PPID; kill -TERM $PPID; exit 4'; echo \"ended with $?\"
         $OXMPI exec n0 sh -c 'kill -TERM $$'; echo \"ended with $?\"
         env --ignore-signal=CHLD $OXMPI mpirun -n 1 sh -c 'exit 5'; echo \"ended with $?\"
         env --ignore-signal=CHLD $OXMPI halt; echo \"ended with $?\"";
    let ended = run(script);
    let codes: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("ended")).collect();
    assert_eq!(codes, ["ended with 4", "ended with 143", "ended with 5", "ended with 0"], "{ended:?}");
}

#[test]
fn a_guard_kills_the_ranks_of_an_mpirun_that_ignored_signals() {
    let script =
        "env --ignore-signal $OXMPI mpirun -n 2 sh -c 'echo $$ >>$DIR/pids; exec sleep 60' & mpirun=$!
         until [ $(wc -l <$DIR/pids) = 2 ]; do sleep 0.01; done 2>/dev/null
         kill -KILL $mpirun; while kill -0 $(cat $DIR/pids) 2>/dev/null; do sleep 0.01; done; echo gone";
    let ended = run(script);
    assert!(ended.out.ends_with("gone\n"), "{ended:?}");
}

#[test]
fn the_doctor_tries_what_it_tries_with_sigchld_ignored() {
    let ended = run("env --ignore-signal=CHLD $OXMPI doctor");
    assert!(ended.out.contains("single copy") && !ended.out.contains("could not be tried"), "{ended:?}");
}

/// What ranks left behind, at most, that has ended and is not reaped while they run.
const FEW: &str = "for i in $(seq 300); do (sh -c : & ) ; done; n=99
     for try in $(seq 500); do
         n=$(cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | grep -c \"^Z $PPID \"); [ $n -lt 5 ] && break; sleep 0.02
     done; [ $n -lt 5 ] && echo few; exit 7";

#[test]
fn what_ranks_leave_behind_is_reaped_while_they_run() {
    let room = Room::new();
    std::fs::write(room.0.join("leave"), FEW).unwrap();
    for hosts in ["-n 1", "--mca plm_rsh_agent $REMOTE -H a.invalid"] {
        let ended = room.run(&format!("exec $OXMPI mpirun {hosts} bash $DIR/leave"));
        // How the rank itself has ended is known all the same.
        assert!(ended.code == 7 && ended.out == "few\n", "{ended:?}");
        assert!(ended.err.contains("exited with code 7"), "{ended:?}");
    }
}
