//! Leaving nothing behind.

use std::os::fd::AsFd;
use std::time::Duration;

use oxmpi_sys::spawn::Guard;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_send_signal, waitid,
};

use super::start::Rank;
use crate::orphans::children;

/// Sends `signal` to the process group of a rank. The rank has not been reaped, so the group is its own. One that the
/// launcher has not started has no group of which that is known: the signal is for its process alone.
pub(crate) fn signal_group(rank: &Rank, signal: Signal) {
    // It fails if nobody is left.
    if !rank.is_child {
        let _ = pidfd_send_signal(&rank.process.pidfd, signal);
    } else if let Some(group) = Pid::from_raw(rank.process.pid)
        && kill_process_group(group, signal).is_err()
    {
        // One that goes on in place of the one that was started may lead no group.
        let _ = pidfd_send_signal(&rank.process.pidfd, signal);
    }
}

/// Kills what still runs of a rank, or of its group, and reaps it: nothing is left, and its number may become somebody else's.
pub(crate) fn bury(rank: &Rank, guard: &Guard) {
    if rank.is_child {
        signal_group(rank, Signal::KILL);
        // If the guard is gone it kills nobody.
        let _ = guard.forget(rank.process.pid);
        let _ = waitid(WaitId::PidFd(rank.process.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}

/// Kills all ranks that are left, waits for them, dismisses the guard, and kills processes of theirs that have left their
/// groups: the launcher is a subreaper, so those are its children by now.
pub(crate) fn reap<'a>(ranks: impl Iterator<Item = &'a Rank> + Clone, guard: Guard) {
    ranks.clone().filter(|rank| rank.is_child).for_each(|rank| signal_group(rank, Signal::KILL));
    for rank in ranks.filter(|rank| rank.is_child) {
        let _ = waitid(WaitId::PidFd(rank.process.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
    for _ in 0..100 {
        let strangers: Vec<Pid> =
            children().into_iter().filter(|pid| pid.as_raw_nonzero().get() != guard.pid()).collect();
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
