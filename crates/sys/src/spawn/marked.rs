//! Ends all processes that have a mark in their environment, also in other process groups and
//! sessions, and with other parents.

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use std::{ffi::CStr, fs, thread, time::Duration};

/// The process name of a guard. The guard of a launcher that a rank has started carries the mark as
/// well, and must live until it has ended the ranks of that launcher.
pub(super) const GUARD_NAME: &CStr = c"mpirun-guard";

/// The most passes over all processes. A killed process may have started others before, and a
/// program in the middle of execve has no environment for a moment.
const PASSES: usize = 200;
const QUIET_PASSES: usize = 3;
const PAUSE: Duration = Duration::from_millis(2);

/// Kills all processes of this user, except this one, with `mark` (`NAME=VALUE`) in their
/// environment.
pub(super) fn kill_all(mark: &str) {
    let mut quiet = 0;
    for _ in 0..PASSES {
        quiet = if kill_once(mark) == 0 { quiet + 1 } else { 0 };
        if quiet == QUIET_PASSES {
            return;
        }
        thread::sleep(PAUSE);
    }
}

fn kill_once(mark: &str) -> usize {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(Pid::from_raw)
        .filter(|pid| *pid != getpid() && kill_if_marked(*pid, mark))
        .count()
}

fn kill_if_marked(pid: Pid, mark: &str) -> bool {
    // Opened first, so that the pidfd never refers to another process that gets the number.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let is_marked = fs::read(format!("{folder}/environ"))
        .is_ok_and(|text| text.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()));
    let is_guard = || {
        fs::read(format!("{folder}/comm"))
            .is_ok_and(|name| name.trim_ascii_end() == GUARD_NAME.to_bytes())
    };
    is_marked && !is_guard() && pidfd_send_signal(&process, Signal::KILL).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    #[test]
    fn processes_with_the_mark_are_killed_and_no_others() {
        let mark = format!("OXMPI_TEST_MARK={}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let sleeper = || {
            let mut command = Command::new("/bin/sleep");
            command.arg("60").stdin(Stdio::null());
            command
        };
        let mut marked = sleeper().env(name, value).spawn().unwrap();
        let mut longer = sleeper().env(name, format!("{value}0")).spawn().unwrap();
        let mut bare = sleeper().spawn().unwrap();
        kill_all(&mark);
        assert_eq!(marked.wait().unwrap().signal(), Some(9));
        for other in [&mut longer, &mut bare] {
            assert!(other.try_wait().unwrap().is_none());
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}
