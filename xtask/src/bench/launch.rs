//! One launch: a command with a time limit in its own process group, which is then gone.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// The time in which a launcher ends its ranks after a signal.
const GRACE: Duration = Duration::from_secs(5);
/// Of a command's error text in a report.
const MOST_ERROR_TEXT: usize = 400;

pub(crate) struct Ended {
    pub(crate) output: String,
    pub(crate) seconds: f64,
}

#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) why: String,
    /// The command reached its time limit, and is not tried again.
    pub(crate) timed_out: bool,
}

impl Failed {
    pub(crate) fn new(why: impl Into<String>) -> Failed {
        Failed { why: why.into(), timed_out: false }
    }
}

/// Runs `command` for at most `limit`. Its output goes through files in `directory`, as a process
/// that outlives the command could hold a pipe open.
pub(crate) fn launch(
    mut command: Command,
    limit: Duration,
    directory: &Path,
) -> Result<Ended, Failed> {
    let (output, errors) = (directory.join("launch.out"), directory.join("launch.err"));
    let program = command.get_program().to_string_lossy().into_owned();
    let cannot = |error: io::Error| Failed::new(format!("cannot run {program}: {error}"));
    command.stdin(Stdio::null()).process_group(0);
    command.stdout(File::create(&output).map_err(cannot)?);
    command.stderr(File::create(&errors).map_err(cannot)?);
    let begin = Instant::now();
    let mut child = command.spawn().map_err(cannot)?;
    let status = wait_or_end(&mut child, limit).map_err(cannot)?;
    let seconds = begin.elapsed().as_secs_f64();
    let Some(status) = status else {
        return Err(Failed { why: format!("no end after {} s", limit.as_secs()), timed_out: true });
    };
    if !status.success() {
        let text = read(&errors);
        return Err(Failed::new(format!("{status}: {}", shortened(&text))));
    }
    Ok(Ended { output: read(&output), seconds })
}

/// The status of a child that ended in time. Its group is gone in any case.
fn wait_or_end(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let group = Pid::from_child(child);
    // The group exists until its leader is waited for; an empty group is no error.
    let signal = |signal| {
        let _ = kill_process_group(group, signal);
    };
    let in_time = ends_within(child, limit)?;
    if !in_time {
        signal(Signal::TERM);
        ends_within(child, GRACE)?;
    }
    signal(Signal::KILL);
    let status = child.wait()?;
    Ok(in_time.then_some(status))
}

fn ends_within(child: &Child, limit: Duration) -> io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let from = line.char_indices().rev().nth(MOST_ERROR_TEXT - 1).map_or(0, |(at, _)| at);
    line[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn shell(name: &str, script: &str, limit: Duration) -> (Result<Ended, Failed>, PathBuf) {
        let directory = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(&directory);
        (launch(command, limit, &directory), directory)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_is_returned() {
        let (ended, directory) = shell("output", "echo point; echo warning >&2", LONG);
        fs::remove_dir_all(directory).unwrap();
        assert_eq!(
            ended.map_err(|failed| failed.why).map(|ended| ended.output),
            Ok("point\n".into())
        );
    }

    #[test]
    fn a_failure_says_what_the_command_said() {
        let (ended, directory) = shell("failure", "echo 'no such  transport' >&2; exit 3", LONG);
        fs::remove_dir_all(directory).unwrap();
        let failed = ended.err().unwrap();
        assert!(
            failed.why.contains("no such transport") && failed.why.contains('3'),
            "{}",
            failed.why
        );
        assert!(!failed.timed_out);
    }

    #[test]
    fn a_command_that_does_not_end_is_ended_with_its_children() {
        let (ended, directory) =
            shell("endless", "sleep 1000 & echo $! > child; wait", Duration::from_millis(500));
        assert!(ended.err().unwrap().timed_out);
        let child = fs::read_to_string(directory.join("child")).unwrap();
        fs::remove_dir_all(directory).unwrap();
        // The process may end later, as a zombie whose parent does not wait.
        let status = format!("/proc/{}/stat", child.trim());
        while fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let text = shortened(&"ü".repeat(1000));
        assert_eq!(text.chars().count(), MOST_ERROR_TEXT);
    }
}
