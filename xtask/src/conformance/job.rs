//! One job: a command in a process group of its own, which is ended when it takes too long or
//! makes no progress.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::run::Failure;

/// The time in which `mpirun` ends its ranks after a signal.
const GRACE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(20);
/// The ending of files that a slow rank writes: they are no progress.
const SLOWNESS: &str = "stacks";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself, with an exit code (128 + signal if one killed it).
    Exit(i32),
    /// Ended, as its directory did not change for the time limit.
    Stalled,
    TimedOut,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The longest time without a new byte in the job's directory, its log aside.
    pub(super) patience: Duration,
    pub(super) total: Duration,
}

/// Runs `command` with its output in `log`. Its writes into `directory` are its progress.
pub(super) fn run(
    mut command: Command,
    directory: &Path,
    log: &Path,
    limits: Limits,
) -> Result<Ending, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let cannot = |error: io::Error| Failure::new(format!("cannot run {program}: {error}"));
    let output = File::create(log).map_err(cannot)?;
    command.stdin(Stdio::null()).process_group(0);
    command.stdout(output.try_clone().map_err(cannot)?).stderr(output);
    let mut child = command.spawn().map_err(cannot)?;
    watch(&mut child, directory, limits).map_err(cannot)
}

/// Waits for the child or ends it. No process of its group is left.
fn watch(child: &mut Child, directory: &Path, limits: Limits) -> io::Result<Ending> {
    let group = Pid::from_child(child);
    // An empty group is no error. It keeps its number until its leader is
    // waited for.
    let signal = |signal| {
        let _ = kill_process_group(group, signal);
    };
    let begin = Instant::now();
    let (mut size, mut news) = (0, begin);
    let ending = loop {
        if has_ended(group)? {
            break None;
        }
        let now = Instant::now();
        let grown = bytes_in(directory);
        if grown != size {
            (size, news) = (grown, now);
        }
        if now - begin >= limits.total {
            break Some(Ending::TimedOut);
        }
        if now - news >= limits.patience {
            break Some(Ending::Stalled);
        }
        std::thread::sleep(TICK);
    };
    if ending.is_some() {
        signal(Signal::TERM);
        let end = Instant::now() + GRACE;
        while Instant::now() < end && !has_ended(group)? {
            std::thread::sleep(TICK);
        }
    }
    signal(Signal::KILL);
    let status = child.wait()?;
    Ok(ending.unwrap_or_else(|| {
        use std::os::unix::process::ExitStatusExt;
        Ending::Exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }))
}

/// Whether the child has ended. It is not waited for, so that no other group gets its number.
fn has_ended(child: Pid) -> io::Result<bool> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(child), options)?.is_some())
}

/// The bytes written, without the records of slowness.
fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let records = entries.filter(|entry| entry.path().extension() != Some(SLOWNESS.as_ref()));
    records.filter_map(|entry| entry.metadata().ok()).map(|data| data.len()).sum()
}

pub(super) fn tail(path: &Path, lines: usize) -> String {
    last_lines(&String::from_utf8_lossy(&fs::read(path).unwrap_or_default()), lines)
}

pub(super) fn last_lines(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const SOON: Duration = Duration::from_millis(300);
    const LATE: Duration = Duration::from_secs(60);

    /// Runs a script whose directory is `records` in a directory of its own, which the caller
    /// removes.
    fn shell(name: &str, script: &str, limits: Limits) -> (Ending, PathBuf) {
        let directory =
            std::env::temp_dir().join(format!("xtask-job-{name}-{}", std::process::id()));
        let records = directory.join("records");
        fs::create_dir_all(&records).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(&records);
        (run(command, &records, &directory.join("log"), limits).unwrap(), directory)
    }

    #[test]
    fn the_exit_code_is_that_of_the_command() {
        let (ending, directory) =
            shell("exit", "echo a; echo b; exit 3", Limits { patience: LATE, total: LATE });
        assert_eq!((ending, tail(&directory.join("log"), 1)), (Ending::Exit(3), "b".into()));
        fs::remove_dir_all(directory).unwrap();
        let (ending, directory) =
            shell("signal", "kill -SEGV $$", Limits { patience: LATE, total: LATE });
        assert_eq!(ending, Ending::Exit(139));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_does_nothing_is_ended_with_its_children() {
        let limits = Limits { patience: SOON, total: LATE };
        let (ending, directory) = shell(
            "stall",
            "(while echo >> 0.stacks; do sleep 0.01; done) & echo $! > child; wait",
            limits,
        );
        assert_eq!(ending, Ending::Stalled);
        let child = fs::read_to_string(directory.join("records/child")).unwrap();
        fs::remove_dir_all(directory).unwrap();
        // The process may end later, as a zombie whose parent does not wait.
        let status = format!("/proc/{}/stat", child.trim());
        while fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_goes_on_for_ever_is_ended_at_the_limit() {
        let script = "while true; do echo >> lines; sleep 0.01; done";
        let (ending, directory) = shell("endless", script, Limits { patience: LATE, total: SOON });
        fs::remove_dir_all(directory).unwrap();
        assert_eq!(ending, Ending::TimedOut);
    }
}
