//! Reaps orphans: processes whose parent has ended and whose new parent is this process, a
//! subreaper.
//!
//! A launcher, an agent and a daemon inherit the processes that their programs leave behind. An
//! ended process stays in the process table until it is reaped; ranks that run other programs in
//! the background would fill that table.
//!
//! 1. Children that this process has started are never reaped here: other code waits for each by
//!    its descriptor.
//! 2. [`PAUSE`] after SIGCHLD all children are checked, so that one check serves all that ended in
//!    that time. Checks are repeated until one finds nothing, as the kernel's list can be
//!    incomplete while children end (proc_pid_task(5)).

use std::collections::HashSet;
use std::time::{Duration, Instant};

use oxmpi_sys::process_stat::ProcessStat;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

const PAUSE: Duration = Duration::from_millis(50);

/// Processes that became children of this one because their parent has ended.
#[derive(Debug, Default)]
pub struct Orphans {
    due: Option<Instant>,
}

impl Orphans {
    /// Checks for ended orphans after a pause: a child has ended.
    pub fn note(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + PAUSE);
    }

    /// When the next call of [`Orphans::reap`] is due.
    pub fn time(&self) -> Option<Instant> {
        self.due
    }

    /// Reaps the ended children if a check is due, except `own`, the children that this process has
    /// started.
    pub fn reap(&mut self, now: Instant, own: impl FnOnce() -> HashSet<i32>) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        let own = own();
        let orphans = children().into_iter().filter(|pid| !own.contains(&pid.as_raw_pid()));
        let ended = |pid: &Pid| {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            waitid(WaitId::Pid(*pid), options).is_ok_and(|status| status.is_some())
        };
        let found = orphans.filter(ended).count();
        self.due = (found > 0).then(|| now + PAUSE);
    }
}

/// The children of this thread from the kernel's list. A kernel without that list: the children of
/// this process, from a scan of all processes.
pub fn children() -> Vec<Pid> {
    match std::fs::read_to_string("/proc/thread-self/children") {
        Ok(list) => list
            .split_ascii_whitespace()
            .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect(),
        Err(_) => children_where(|_| true),
    }
}

/// The children of this process in a wanted state (proc_pid_stat(5)), from a scan of all processes.
pub fn children_where(is_wanted: impl Fn(char) -> bool) -> Vec<Pid> {
    let own = std::process::id();
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let child = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = ProcessStat::of(pid)?;
        (stat.parent == own && is_wanted(stat.state)).then(|| Pid::from_raw(pid.cast_signed()))?
    };
    all.flatten().filter_map(child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn is_zombie(pid: u32) -> bool {
        let zombies = children_where(|state| state == 'Z');
        zombies.iter().any(|zombie| zombie.as_raw_pid().unsigned_abs() == pid)
    }

    #[test]
    fn rule_1_only_children_without_a_waiter_are_reaped() {
        let start = || Command::new("/bin/true").stdin(Stdio::null()).spawn().unwrap();
        let (mut own, orphan) = (start(), start());
        while !(is_zombie(own.id()) && is_zombie(orphan.id())) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut orphans = Orphans::default();
        let all = || HashSet::from([own.id().cast_signed()]);
        orphans.reap(Instant::now(), || unreachable!("nothing was noted"));
        orphans.note();
        orphans.reap(Instant::now(), || unreachable!("it is not time yet"));
        let later = orphans.time().unwrap();
        orphans.reap(later, all);
        assert!(is_zombie(own.id()) && !is_zombie(orphan.id()));
        // The check found one, so one more check is due.
        assert_eq!(orphans.time(), Some(later + PAUSE));
        orphans.reap(later + PAUSE, all);
        assert_eq!(orphans.time(), None);
        assert!(own.wait().unwrap().success());
    }
}
