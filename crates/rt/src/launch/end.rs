//! Leaving nothing behind.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use super::start::{Rank, Started};

/// Sends `signal` to the process group of a rank. The rank has not been reaped, so the group is its own.
pub(super) fn signal_group(rank: &Rank, signal: Signal) {
    if let Some(group) = Pid::from_raw(rank.process.pid) {
        // It fails if nobody is left in the group.
        let _ = kill_process_group(group, signal);
    }
}

/// Kills what still runs in the ranks' groups.
pub(super) fn kill_groups(ranks: &[Rank]) {
    for rank in ranks {
        signal_group(rank, Signal::KILL);
    }
}

/// Dismisses the guard, waits for all ranks (which have ended or been killed) and kills processes of theirs that have
/// left their groups: the launcher is a subreaper, so those are its children by now.
pub(super) fn reap(started: Started) {
    let Started { ranks, guard, .. } = started;
    let guard_pid = guard.pid();
    for rank in &ranks {
        let _ = waitid(WaitId::PidFd(rank.process.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
    for _ in 0..100 {
        let strangers: Vec<Pid> =
            children().into_iter().filter(|pid| pid.as_raw_nonzero().get() != guard_pid).collect();
        if strangers.is_empty() {
            break;
        }
        for pid in strangers {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    guard.dismiss();
}

/// The launcher's children; none if this kernel does not list them.
fn children() -> Vec<Pid> {
    std::fs::read_to_string("/proc/thread-self/children")
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
        .collect()
}
