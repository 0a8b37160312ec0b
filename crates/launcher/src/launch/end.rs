//! Ending processes so that none is left.

use std::os::fd::AsFd;
use std::time::Duration;

use oxmpi_sys::spawn::Guard;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_send_signal, waitid,
};

use super::start::RankProcess;
use oxmpi_daemon::orphans::children;

/// Sends `signal` to the process group of a rank. An unreaped rank still owns its group number. A
/// rank that the launcher has not started may lead no group: its process alone gets the signal.
pub(crate) fn signal_group(rank: &RankProcess, signal: Signal) {
    if !rank.is_child() {
        let _ = pidfd_send_signal(&rank.process.pidfd, signal);
    } else if let Some(group) = Pid::from_raw(rank.process.pid)
        && kill_process_group(group, signal).is_err()
    {
        let _ = pidfd_send_signal(&rank.process.pidfd, signal);
    }
}

/// Kills the rest of a rank's group, and reaps the rank, whose number then becomes free.
pub(crate) fn kill_and_reap(rank: &RankProcess, guard: &Guard) {
    if rank.is_child() {
        signal_group(rank, Signal::KILL);
        let _ = guard.forget(rank.process.pid);
        let _ = waitid(WaitId::PidFd(rank.process.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}

/// Kills and reaps all ranks, dismisses the guard, and kills processes that have left their groups:
/// they are children of the launcher, a subreaper, by now.
pub(crate) fn reap<'a>(ranks: impl Iterator<Item = &'a RankProcess> + Clone, guard: Guard) {
    ranks.clone().filter(|rank| rank.is_child()).for_each(|rank| signal_group(rank, Signal::KILL));
    for rank in ranks.filter(|rank| rank.is_child()) {
        let _ = waitid(WaitId::PidFd(rank.process.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
    for _ in 0..100 {
        let orphans: Vec<Pid> = children()
            .into_iter()
            .filter(|pid| pid.as_raw_nonzero().get() != guard.pid())
            .collect();
        if orphans.is_empty() {
            break;
        }
        for pid in orphans {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    guard.dismiss();
}
