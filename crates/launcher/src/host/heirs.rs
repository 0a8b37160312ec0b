//! A program that continues in another process than the one started as the rank: `setsid -f
//! PROGRAM`, and a program that puts itself into the background. The started process ends at once,
//! with exit status 0 and without calling MPI; the process that it leaves behind, its *heir*, is
//! the rank. Otherwise the job would be over and the program killed in the middle, with exit status
//! 0.
//!
//! 1. A rank has an heir only if its process has ended with exit status 0 and has not called
//!    MPI_Init itself.
//! 2. A process whose parent has ended is the launcher's child, as the launcher is a subreaper. It
//!    belongs to the rank whose control socket it has inherited, or whose number is in its
//!    environment.
//! 3. Such a child is the heir if it is an MPI program, or if it, or a descendant, has become the
//!    rank.
//! 4. Any other such child may soon execute or start an MPI program, as a shell does. So it is
//!    checked again for [`PATIENCE`]; after that it ends with the job, as all orphans.
//! 5. An heir that became the rank may have ended before the launcher saw it. It is not reaped as
//!    an orphan, because its exit status is that of the rank.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use oxmpi_sys::process_stat::ProcessStat;
use oxmpi_sys::spawn::{Guard, Process};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::ranks::LocalRank;
use super::{ENDED, HostLauncher};
use crate::job::Exit;
use crate::launch::parts::{RankProcess, STANDARD, is_standard};
use oxmpi_daemon::orphans::children;
use oxmpi_rt_client::client::{BOOT_VARIABLE, CONTROL_NUMBER, WAY_IN_VARIABLE, WayIn};
use oxmpi_rt_client::foreign::LAUNCHER_VARIABLE;
use oxmpi_rt_client::programs::program_of;
use oxmpi_sys::process_stat::{is_alive, line_of};

/// The longest time from fork(2) to the MPI program, on a busy machine. A job whose programs leave
/// other orphans ends later by this time.
const PATIENCE: Duration = Duration::from_secs(2);
/// The interval of checks meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Ranks whose process has ended, and which may have an heir.
#[derive(Debug, Default)]
pub(super) struct Heirs {
    awaited: BTreeMap<u32, Instant>,
    next_check: Option<Instant>,
}

impl Heirs {
    pub(super) fn time(&self) -> Option<Instant> {
        self.next_check.filter(|_| !self.awaited.is_empty())
    }

    /// Whether the end of this rank's process was seen before.
    pub(super) fn is_awaited(&self, rank: u32) -> bool {
        self.awaited.contains_key(&rank)
    }

    fn waits(&mut self, rank: u32, now: Instant) -> bool {
        let since = *self.awaited.entry(rank).or_insert(now);
        self.next_check = Some(now + CHECK_INTERVAL);
        now.duration_since(since) < PATIENCE
    }
}

enum Heir {
    Nobody,
    Is(Pid),
    /// A child may become the heir (rule 4).
    MayCome,
}

impl HostLauncher<'_> {
    /// Whether another process continues as the rank, or may, after the end of its process.
    pub(super) fn is_succeeded(&mut self, number: u32, exit: Exit) -> rustix::io::Result<bool> {
        let heir = match self.machine.is_ending() {
            true => Heir::Nobody,
            false => self.heir_of(number, exit),
        };
        if matches!(heir, Heir::MayCome) && self.heirs.waits(number, Instant::now()) {
            return Ok(true);
        }
        self.heirs.awaited.remove(&number);
        let Heir::Is(pid) = heir else { return Ok(false) };
        // The heir has ended meanwhile, and was reaped.
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(false) };
        let heir = Process { pid: pid.as_raw_pid(), pidfd };
        let Some(LocalRank { rank, .. }) = self.ranks.get_mut(number) else { return Ok(false) };
        let before = std::mem::replace(&mut rank.process, heir);
        let guard = self.guard.as_ref();
        guard.iter().for_each(|guard| _ = guard.forget(before.pid));
        let leads_a_group = |stat: ProcessStat| stat.group == pid.as_raw_pid().cast_unsigned();
        if ProcessStat::of(pid.as_raw_pid().cast_unsigned()).is_some_and(leads_a_group) {
            guard.iter().for_each(|guard| _ = guard.watch(pid.as_raw_pid()));
        }
        let _ = waitid(WaitId::PidFd(before.pidfd.as_fd()), WaitIdOptions::EXITED);
        let Some(one) = self.ranks.get(number) else { return Ok(false) };
        self.listen(one.rank.process.pidfd.as_fd(), ENDED, number)?;
        Ok(true)
    }

    fn heir_of(&self, number: u32, exit: Exit) -> Heir {
        let rank = self.ranks.get(number).map(|one| &one.rank);
        let rank = rank.filter(|rank| rank.is_child() && exit == Exit::Code(0));
        let Some(rank) = rank else {
            return Heir::Nobody;
        };
        // Rule 1.
        let owner = rank.owner();
        if owner == Some(rank.process.pid.cast_unsigned()) {
            return Heir::Nobody;
        }
        // Rule 5.
        if let Some(owner) = owner.filter(|owner| !is_alive(*owner)) {
            let ended =
                children().into_iter().find(|pid| pid.as_raw_pid().cast_unsigned() == owner);
            return ended.map_or(Heir::Nobody, Heir::Is);
        }
        let own = self.own_children();
        let left = children().into_iter().filter(|pid| !own.contains(&pid.as_raw_pid()));
        let mut heir = Heir::Nobody;
        for pid in left.filter(|pid| is_of(*pid, number, rank)) {
            let child = pid.as_raw_pid().cast_unsigned();
            let has_owner =
                |owner| line_of(owner, Some(std::process::id())).0.contains(&pid.as_raw_pid());
            let is_program = |pid| program_of(pid).is_ok_and(|program| is_standard(&program));
            if owner.is_some_and(has_owner) || is_program(child) || has_library(child) {
                return Heir::Is(pid);
            }
            heir = Heir::MayCome;
        }
        heir
    }

    /// The processes that this one has started.
    fn own_children(&self) -> HashSet<i32> {
        let ranks =
            self.ranks.processes().filter(|rank| rank.is_child()).map(|rank| rank.process.pid);
        let others = self.relays.pids().chain(self.guard.as_ref().map(Guard::pid));
        ranks.chain(others).chain(self.carriers.iter().copied()).collect()
    }

    /// The children that are not reaped as orphans: started ones, and heirs (rule 5).
    pub(super) fn awaited_children(&self) -> HashSet<i32> {
        let owners = self.ranks.processes().filter_map(|rank| Some(rank.owner()?.cast_signed()));
        self.own_children().into_iter().chain(owners).collect()
    }

    pub(super) fn check_heirs(&mut self, now: Instant, room: u64) -> rustix::io::Result<()> {
        if self.heirs.time().is_none_or(|next_check| next_check > now) {
            return Ok(());
        }
        let awaited: Vec<u32> = self.heirs.awaited.keys().copied().collect();
        awaited.into_iter().try_for_each(|rank| self.ended(rank, room))
    }
}

/// Whether a process is an orphan of a rank's process (rule 2).
fn is_of(pid: Pid, number: u32, rank: &RankProcess) -> bool {
    let folder = format!("/proc/{}", pid.as_raw_pid());
    let environment = std::fs::read(format!("{folder}/environ")).unwrap_or_default();
    let texts: Vec<&str> = environment
        .split(|byte| *byte == 0)
        .filter_map(|text| std::str::from_utf8(text).ok())
        .collect();
    let value = |name| texts.iter().find_map(|text| text.strip_prefix(name)?.strip_prefix('='));
    if value(LAUNCHER_VARIABLE).is_some() && value(BOOT_VARIABLE).is_none() {
        // The user has made it a job of its own.
        return false;
    }
    let control = std::fs::read_link(format!("{folder}/fd/{CONTROL_NUMBER}"));
    let socket = rank.peer.map(|peer| format!("socket:[{peer}]"));
    let has_socket =
        control.is_ok_and(|control| socket.is_some() && control.to_str() == socket.as_deref());
    let way_in = value(WAY_IN_VARIABLE).and_then(WayIn::read);
    has_socket || way_in.is_some_and(|way_in| way_in.number == number)
}

/// Whether a process has loaded the library, as an interpreter does.
fn has_library(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains(STANDARD))
}
