//! System V semaphores: the processes of a node sleep on them and lock the pool with them, as the
//! module sysv of LAM/MPI does.
//!
//! Each pair of processes has a set of six, three for each of the two. One more set is for the
//! pool.
//!
//! ```text
//! set of a pair     0, 1, 2: of the process with the lower place    3, 4, 5: of its peer
//!                   0, 3     the process sleeps until its peer sends it something
//!                   1, 4     the process sleeps until its peer takes something
//!                   2, 5     the process sleeps until any process does something
//! set of the pool   0: 1 if the lock is free    1: never used
//! ```
//!
//! Rules
//! 1. *Sleep.* At most one thread of a process sleeps on a semaphore ([`Semaphore::wait`]). Before
//!    it announces its sleep at its door, it stores the semaphore in its segment and sets the
//!    semaphore to 0 (rule 6 of the door).
//! 2. *Wake.* A process that rings and finds the sleeper asleep adds 1 to the semaphore that the
//!    sleeper's segment names then. A late wake-up ends a later sleep early. No wake-up is lost: a
//!    process that announces a sleep again has polled everything since.
//! 3. *Lock.* The lock is taken and opened with SEM_UNDO: the kernel opens it when its holder dies.
//! 4. *End.* The launcher makes the sets and removes them. If the launcher is killed, its guard
//!    removes them ([`remove_abandoned`]), or else the next launcher. A set is abandoned when all
//!    processes that were the last to use one of its semaphores have ended. The launcher is the
//!    first to use each semaphore, and the only user of the second one of the pool's set. A set
//!    that was never used is abandoned when it is older than [`MAKING_S`]: its launcher was killed
//!    while making it.

use crate::process_stat::ProcessStat;
use std::ffi::c_int;
use std::io;
use std::time::Duration;

const OF_PAIR: usize = 6;
const OF_POOL: usize = 2;
/// The most processes of a node that can have sets: the kernel has at most 32768 sets.
pub const MOST_RANKS: u32 = 256;
const MAKING_S: i64 = 10;
/// The upper half of the key of each set of OxMPI.
const MARK: i32 = 0x6f58;

/// A System V semaphore: its set and its number in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semaphore {
    set: i32,
    number: u16,
}

/// The event that a process sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    Message(u32),
    /// This process takes something.
    Room(u32),
    Anything,
}

/// The reason why a wait on a semaphore has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SemaphoreWait {
    Raised,
    Interrupted,
    Gone,
}

impl Semaphore {
    /// A word that is not 0, for [`Semaphore::from_word`].
    pub const fn to_word(self) -> u64 {
        (self.set as u32 as u64) << 32 | (self.number as u64 + 1)
    }

    /// Decodes [`Semaphore::to_word`]; `None` for any other word.
    pub fn from_word(word: u64) -> Option<Semaphore> {
        let number = u16::try_from(word as u32).ok()?.checked_sub(1)?;
        let set = i32::try_from(word >> 32).ok()?;
        (usize::from(number) < OF_PAIR).then_some(Semaphore { set, number })
    }

    /// Sleeps until the semaphore is at least 1, at most for `timeout`, and subtracts 1.
    pub fn wait(self, timeout: Option<Duration>) -> SemaphoreWait {
        match self.change(-1, 0, timeout) {
            Ok(()) => SemaphoreWait::Raised,
            Err(error) if is_gone(&error) => SemaphoreWait::Gone,
            Err(_) => SemaphoreWait::Interrupted,
        }
    }

    /// Adds 1.
    pub fn raise(self) {
        // It fails if the set was removed, or at 32767; in both cases the sleeper wakes.
        let _ = self.change(1, 0, None);
    }

    /// Sets the semaphore to 0.
    pub fn lower(self) {
        // SAFETY: semctl(2) with SETVAL takes an int, and accesses no memory.
        // It fails if the set was removed, which the sleep reports.
        let _ = unsafe { libc::semctl(self.set, self.number.into(), libc::SETVAL, 0 as c_int) };
    }

    /// Takes the semaphore as a lock, after at most `limit` (rule 3). Returns whether it was taken.
    pub fn lock(self, limit: Duration) -> bool {
        self.change(-1, libc::SEM_UNDO, Some(limit)).is_ok()
    }

    /// Releases the lock.
    pub fn unlock(self) {
        // It fails if the set was removed; then no process gets the lock.
        let _ = self.change(1, libc::SEM_UNDO, None);
    }

    fn change(self, by: i16, flags: c_int, timeout: Option<Duration>) -> io::Result<()> {
        let mut change = libc::sembuf { sem_num: self.number, sem_op: by, sem_flg: flags as i16 };
        let limit = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i32::MAX.into()),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the kernel reads one operation, and a time unless the pointer is null.
        let done = unsafe {
            libc::syscall(libc::SYS_semtimedop, self.set, &raw mut change, 1 as libc::size_t, limit)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIDRM | libc::EINVAL | libc::ENOSYS | libc::EACCES))
}

/// The semaphores of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSemaphores {
    /// The numbers of the processes that share the sets, in the order of their places.
    members: Vec<u32>,
    place: usize,
    /// The set with each other process, in the order of places.
    pairs: Vec<i32>,
    pool: i32,
}

impl OwnSemaphores {
    /// The semaphores of process `me` among `members`, whose numbers ascend. `sets` comes from
    /// [`SemaphoreSets::of`]. Errors: a text for users if `sets` does not fit `members`.
    pub fn new(me: u32, members: Vec<u32>, sets: &[i32]) -> Result<OwnSemaphores, String> {
        let place = members.iter().position(|member| *member == me);
        match (place, sets) {
            (Some(place), [pool, pairs @ ..])
                if !pairs.is_empty() && pairs.len() + 1 == members.len() =>
            {
                Ok(OwnSemaphores { place, pairs: pairs.to_vec(), pool: *pool, members })
            }
            _ => Err(format!("{} semaphore sets for process {me} among {members:?}", sets.len())),
        }
    }

    /// The lock of the pool.
    pub fn pool_lock(&self) -> Semaphore {
        Semaphore { set: self.pool, number: 0 }
    }

    /// The semaphore for a sleep. [`Awaits::Anything`], and peers without a set, use a semaphore in
    /// the set with the next process.
    pub fn to_sleep_on(&self, awaits: Awaits) -> Semaphore {
        let (peer, kind) = match awaits {
            Awaits::Message(peer) => (Some(peer), 0),
            Awaits::Room(peer) => (Some(peer), 1),
            Awaits::Anything => (None, 2),
        };
        let known = peer.and_then(|peer| self.members.binary_search(&peer).ok());
        let (other, kind) = match known.filter(|other| *other != self.place) {
            Some(other) => (other, kind),
            None => ((self.place + 1) % self.members.len(), 2),
        };
        let index = if other > self.place { other - 1 } else { other };
        let first = if self.place < other { 0 } else { OF_PAIR as u16 / 2 };
        Semaphore { set: self.pairs[index], number: first + kind }
    }
}

/// The reason why the sets could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SemaphoreError {
    #[error(
        "{ranks} ranks of a node and System V semaphores (rpi_sysv_semaphores 1): at most {MOST_RANKS} can have a set for \
         each pair; start fewer of them on a node, or leave rpi_sysv_semaphores at 0"
    )]
    Ranks { ranks: u32 },
    #[error(
        "{ranks} ranks of a node need {needed} System V semaphore sets, six semaphores for each pair of them \
         (rpi_sysv_semaphores 1), and the kernel gave {made}: {error}. Its limits (/proc/sys/kernel/sem) are {limits}, and \
         {used} sets are there. Raise the limits: sysctl -w kernel.sem=\"32000 1024000000 500 32000\"; or remove sets that nobody \
         uses (ipcs -s, ipcrm -s ID), start fewer ranks, or leave rpi_sysv_semaphores at 0"
    )]
    Limit {
        ranks: u32,
        needed: usize,
        made: usize,
        limits: String,
        /// The number of sets of all users after the failure.
        used: usize,
        error: io::Error,
    },
    #[error(
        "cannot {what} a System V semaphore set (rpi_sysv_semaphores 1): {error}; with rpi_sysv_semaphores 0 none are needed"
    )]
    Kernel { what: &'static str, error: io::Error },
}

/// The sets of a job's processes on one node, in the launcher. Dropping it removes them.
#[derive(Debug)]
pub struct SemaphoreSets {
    ranks: u32,
    /// The pool's set, and one for each pair: (0, 1), (0, 2), (1, 2), (0, 3) and so on.
    sets: Vec<i32>,
}

impl SemaphoreSets {
    /// Makes the sets for `ranks` processes, all semaphores at 0 and the lock free. Removes
    /// abandoned sets of this user first (rule 4). Errors: see [`SemaphoreError`]; no set is left
    /// then.
    pub fn create(ranks: u32) -> Result<SemaphoreSets, SemaphoreError> {
        if ranks > MOST_RANKS {
            return Err(SemaphoreError::Ranks { ranks });
        }
        remove_abandoned(None);
        let pairs = (ranks as usize * (ranks as usize).saturating_sub(1)) / 2;
        let mut made = SemaphoreSets { ranks, sets: Vec::with_capacity(pairs + 1) };
        let mut lower = std::process::id() as u16;
        for at in 0..=pairs {
            let set = match at {
                0 => make(&mut lower, &[1u16, 0]),
                _ => make(&mut lower, &[0; OF_PAIR]),
            };
            match set {
                Ok(set) => made.sets.push(set),
                Err(error @ SemaphoreError::Kernel { .. }) => {
                    return Err(refused(ranks, pairs + 1, made.sets.len(), error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }

    /// The sets of the process at `place`: the pool's, then those with the other processes by
    /// place. Empty without such a place, and for a single process.
    pub fn of(&self, place: u32) -> Vec<i32> {
        if place >= self.ranks || self.ranks < 2 {
            return Vec::new();
        }
        let pair = |other: u32| {
            let (low, high) = (place.min(other) as usize, place.max(other) as usize);
            self.sets[1 + high * (high - 1) / 2 + low]
        };
        let others = (0..self.ranks).filter(|other| *other != place);
        std::iter::once(self.sets[0]).chain(others.map(pair)).collect()
    }
}

impl Drop for SemaphoreSets {
    fn drop(&mut self) {
        self.sets.iter().for_each(|set| remove(*set));
    }
}

fn make(lower: &mut u16, values: &[u16]) -> Result<i32, SemaphoreError> {
    let refused = |what| SemaphoreError::Kernel { what, error: io::Error::last_os_error() };
    for _ in 0..=u16::MAX {
        let key = MARK << 16 | i32::from(*lower);
        *lower = lower.wrapping_add(1);
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
        // SAFETY: semget(2) takes numbers only.
        let set = unsafe { libc::semget(key, values.len() as c_int, flags) };
        if set >= 0 {
            // SAFETY: SETALL reads one value for each semaphore of the set.
            if unsafe { libc::semctl(set, 0, libc::SETALL, values.as_ptr()) } < 0 {
                let error = refused("set the values of");
                remove(set);
                return Err(error);
            }
            // Makes the kernel record the launcher as the first user. The last semaphore is 0, so
            // the call returns at once.
            let last = Semaphore { set, number: values.len() as u16 - 1 };
            let _ = last.change(0, 0, None);
            return Ok(set);
        }
        if io::Error::last_os_error().raw_os_error() != Some(libc::EEXIST) {
            break;
        }
    }
    Err(refused("make"))
}

fn refused(ranks: u32, needed: usize, made: usize, error: SemaphoreError) -> SemaphoreError {
    match error {
        // EINVAL: the limit for one set is below six semaphores.
        SemaphoreError::Kernel { what: "make", error }
            if matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EINVAL | libc::EEXIST)) =>
        {
            let text = std::fs::read_to_string("/proc/sys/kernel/sem").unwrap_or_default();
            let limit: Vec<&str> = text.split_ascii_whitespace().collect();
            let limits = match limit[..] {
                [of_set, of_all, _, sets] => {
                    format!("{of_set} semaphores in a set, {of_all} in all, and {sets} sets")
                }
                _ => "not known".into(),
            };
            SemaphoreError::Limit { ranks, needed, made, limits, used: listed().count(), error }
        }
        other => other,
    }
}

fn remove(set: i32) {
    // SAFETY: IPC_RMID takes numbers only. It fails if the set was removed already.
    let _ = unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
}

/// Removes the abandoned sets of this user (rule 4). The process `also_dead`, a launcher that is
/// just ending, counts as dead. Returns the number of OxMPI's sets that are left.
pub fn remove_abandoned(also_dead: Option<i32>) -> usize {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    remove_abandoned_at(now.map_or(0, |now| now.as_secs() as i64), also_dead)
}

fn remove_abandoned_at(now_s: i64, also_dead: Option<i32>) -> usize {
    // SAFETY: geteuid(2) has no preconditions.
    let user = u64::from(unsafe { libc::geteuid() });
    let is_dead = |pid: i32| Some(pid) == also_dead || !lives(pid);
    let mut left = 0;
    for [key, set, _, count, _, _, creator, _, used_s, made_s] in listed() {
        let is_ours = key >> 16 == i64::from(MARK) && creator == user as i64;
        let (Ok(set), Ok(count)) = (i32::try_from(set), u16::try_from(count)) else { continue };
        if !is_ours || !matches!(usize::from(count), OF_PAIR | OF_POOL) {
            continue;
        }
        let last = |number: u16| {
            // SAFETY: GETPID takes numbers only and returns the last user of the semaphore.
            unsafe { libc::semctl(set, number.into(), libc::GETPID) }
        };
        let is_unfinished = used_s == 0 && now_s - made_s > MAKING_S;
        // 0: a process of another PID namespace, or the semaphore was never used.
        if is_unfinished
            || (0..count).all(|number| matches!(last(number), pid if pid > 0 && is_dead(pid)))
        {
            remove(set);
        } else {
            left += 1;
        }
    }
    left
}

/// The kernel's list of sets: key, identifier, mode, semaphores, user, group, creator, the
/// creator's group, time of the last use (0: never), time of the last change.
fn listed() -> impl Iterator<Item = [i64; 10]> {
    let text = std::fs::read_to_string("/proc/sysvipc/sem").unwrap_or_default();
    let rows: Vec<[i64; 10]> = text.lines().filter_map(row).collect();
    rows.into_iter()
}

fn row(line: &str) -> Option<[i64; 10]> {
    let mut words = line.split_ascii_whitespace().map(|word| word.parse().ok());
    let mut row = [0; 10];
    for number in &mut row {
        *number = words.next()??;
    }
    Some(row)
}

/// Whether a process runs. A process that has ended and is not reaped does not.
fn lives(pid: i32) -> bool {
    // SAFETY: signal 0 only checks that the process exists.
    let is_there = unsafe { libc::kill(pid, 0) } == 0
        || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    let has_ended = || ProcessStat::of(pid.cast_unsigned()).is_some_and(|stat| stat.has_ended());
    is_there && !has_ended()
}

#[cfg(test)]
mod tests;
