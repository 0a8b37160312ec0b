//! System V semaphores: what the processes of a node sleep on, and lock the pool with, in the manner of the guide's module sysv.
//!
//! Each pair of processes has a set of six, three for each of the two, and all have one more set, for the pool.
//!
//! ```text
//! set of a pair     0, 1, 2: of the process with the lower place    3, 4, 5: of the other one
//!                   0, 3     it sleeps until the other one sends it something
//!                   1, 4     it sleeps until the other one takes something
//!                   2, 5     it sleeps until anybody does something
//! set of the pool   0: 1 if the lock is free    1: never used
//! ```
//!
//! Rules
//! 1. *Sleep.* One thread of a process at a time sleeps on one semaphore ([`Semaphore::wait`]). Before it announces that at its
//!    door it says in its segment on which, and sets that to 0 (rule 6 of the door).
//! 2. *Wake.* Who rings and finds it asleep adds 1 to the semaphore that the segment names then. One that comes late wakes a
//!    sleep for nothing, never one too few: whoever has announced anew has looked at everything since.
//! 3. *Lock.* The lock is taken and opened with SEM_UNDO: the kernel opens it when its holder dies.
//! 4. *End.* The launcher makes the sets and removes them. If it is killed its guard does so ([`remove_abandoned`]), and else
//!    the next launcher: a set is abandoned when no process lives that has been the last to use any semaphore
//!    of it. The launcher is the first to use each, and nobody else uses the second one of the set of the pool. A set that nobody has
//!    used is abandoned when it is older than [`MAKING_S`]: its launcher was killed while it made the set.

use crate::process_stat::ProcessStat;
use std::ffi::c_int;
use std::io;
use std::time::Duration;

/// Semaphores of a pair.
const OF_PAIR: usize = 6;
/// Semaphores of the set for the pool.
const OF_POOL: usize = 2;
/// The most processes of a node that can have sets: the kernel has at most 32768.
pub const MOST_RANKS: u32 = 256;
/// How long it takes at most to make a set, seconds.
const MAKING_S: i64 = 10;
/// The upper half of the key of each set of ours.
const MARK: i32 = 0x6f58;

/// A semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semaphore {
    set: i32,
    number: u16,
}

/// What a process sleeps for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// Something that this process sends, by its number.
    Message(u32),
    /// That this process takes something.
    Room(u32),
    /// Whatever anybody does.
    Anything,
}

/// How a sleep on a semaphore has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SemaphoreWait {
    /// It was raised, and is one less again.
    Raised,
    /// The time is over, or a signal came.
    Interrupted,
    /// There is no such semaphore any more.
    Gone,
}

impl Semaphore {
    /// As a word that is not 0.
    pub const fn to_word(self) -> u64 {
        (self.set as u32 as u64) << 32 | (self.number as u64 + 1)
    }

    /// Reads [`Semaphore::to_word`]; `None`: it is no semaphore of ours.
    pub fn from_word(word: u64) -> Option<Semaphore> {
        let number = u16::try_from(word as u32).ok()?.checked_sub(1)?;
        let set = i32::try_from(word >> 32).ok()?;
        (usize::from(number) < OF_PAIR).then_some(Semaphore { set, number })
    }

    /// Sleeps until it is at least 1, and takes 1 off, but not longer than `timeout`.
    pub fn wait(self, timeout: Option<Duration>) -> SemaphoreWait {
        match self.change(-1, 0, timeout) {
            Ok(()) => SemaphoreWait::Raised,
            Err(error) if is_gone(&error) => SemaphoreWait::Gone,
            Err(_) => SemaphoreWait::Interrupted,
        }
    }

    /// Adds 1.
    pub fn raise(self) {
        // It fails if the set is gone, and so is whoever made it; or at 32767, which wakes as well.
        let _ = self.change(1, 0, None);
    }

    /// Sets it to 0.
    pub fn lower(self) {
        // SAFETY: semctl(2) with SETVAL takes an int, and touches no memory of ours.
        // It fails if the set is gone, which the sleep notices.
        let _ = unsafe { libc::semctl(self.set, self.number.into(), libc::SETVAL, 0 as c_int) };
    }

    /// Takes it as a lock, asleep while others have it, but not longer than `limit` (rule 3).
    pub fn lock(self, limit: Duration) -> bool {
        self.change(-1, libc::SEM_UNDO, Some(limit)).is_ok()
    }

    /// Opens the lock.
    pub fn unlock(self) {
        // It fails if the set is gone: then nobody gets the lock.
        let _ = self.change(1, libc::SEM_UNDO, None);
    }

    fn change(self, by: i16, flags: c_int, timeout: Option<Duration>) -> io::Result<()> {
        let mut change = libc::sembuf { sem_num: self.number, sem_op: by, sem_flg: flags as i16 };
        let limit = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i32::MAX.into()),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: one operation, and a time or none, which the kernel reads.
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
    /// The own place.
    place: usize,
    /// The set with each other process, by place without the own.
    pairs: Vec<i32>,
    /// The set of the pool.
    pool: i32,
}

impl OwnSemaphores {
    /// Those of process `me` among `members`, whose numbers rise, by the numbers of their sets as [`SemaphoreSets::of`] tells
    /// them.
    ///
    /// # Errors
    /// A text for a person, if there are not as many as two or more processes have.
    pub fn new(me: u32, members: Vec<u32>, sets: &[i32]) -> Result<OwnSemaphores, String> {
        let place = members.iter().position(|member| *member == me);
        match (place, sets) {
            (Some(place), [pool, pairs @ ..]) if !pairs.is_empty() && pairs.len() + 1 == members.len() => {
                Ok(OwnSemaphores { place, pairs: pairs.to_vec(), pool: *pool, members })
            }
            _ => Err(format!("{} semaphore sets for process {me} among {members:?}", sets.len())),
        }
    }

    /// The lock of the pool.
    pub fn pool_lock(&self) -> Semaphore {
        Semaphore { set: self.pool, number: 0 }
    }

    /// The semaphore to sleep on. For anything, and for processes that have no set with this one, that is in the set with
    /// the next process.
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

/// Why there are no sets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SemaphoreError {
    /// More processes of a node than can have sets.
    #[error(
        "{ranks} ranks of a node and System V semaphores (rpi_sysv_semaphores 1): at most {MOST_RANKS} can have a set for \
         each pair; start fewer of them on a node, or leave rpi_sysv_semaphores at 0"
    )]
    Ranks {
        /// The processes.
        ranks: u32,
    },
    /// The kernel gives no more.
    #[error(
        "{ranks} ranks of a node need {needed} System V semaphore sets, six semaphores for each pair of them \
         (rpi_sysv_semaphores 1), and the kernel gave {made}: {error}. Its limits (/proc/sys/kernel/sem) are {limits}, and \
         {used} sets are there. Raise the limits: sysctl -w kernel.sem=\"32000 1024000000 500 32000\"; or remove sets that nobody \
         uses (ipcs -s, ipcrm -s ID), start fewer ranks, or leave rpi_sysv_semaphores at 0"
    )]
    Limit {
        /// The processes.
        ranks: u32,
        /// Sets that they need.
        needed: usize,
        /// Sets that could be made.
        made: usize,
        /// The limits in words.
        limits: String,
        /// Sets of all users after that.
        used: usize,
        /// What semget(2) said.
        error: io::Error,
    },
    /// Something else that the kernel said.
    #[error(
        "cannot {what} a System V semaphore set (rpi_sysv_semaphores 1): {error}; with rpi_sysv_semaphores 0 none are needed"
    )]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// The answer.
        error: io::Error,
    },
}

/// The sets of the processes of a job on a node, as the launcher holds them. Dropping it removes them.
#[derive(Debug)]
pub struct SemaphoreSets {
    ranks: u32,
    /// That of the pool, and one for each pair: (0, 1), (0, 2), (1, 2), (0, 3) and so on.
    sets: Vec<i32>,
}

impl SemaphoreSets {
    /// Makes the sets for so many processes, all at 0, with the lock free. Abandoned sets of the same user are removed before
    /// (rule 4).
    ///
    /// # Errors
    /// See [`SemaphoreError`]; then none are left.
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

    /// The sets that the process at a place has: that of the pool, then those with the others by place. Nothing if there is no
    /// such place, or only one.
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

/// Makes a set with these values, with the next free key of ours.
fn make(lower: &mut u16, values: &[u16]) -> Result<i32, SemaphoreError> {
    let refused = |what| SemaphoreError::Kernel { what, error: io::Error::last_os_error() };
    for _ in 0..=u16::MAX {
        let key = MARK << 16 | i32::from(*lower);
        *lower = lower.wrapping_add(1);
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
        // SAFETY: plain system call.
        let set = unsafe { libc::semget(key, values.len() as c_int, flags) };
        if set >= 0 {
            // SAFETY: SETALL reads as many values as the set has semaphores.
            if unsafe { libc::semctl(set, 0, libc::SETALL, values.as_ptr()) } < 0 {
                let error = refused("set the values of");
                remove(set);
                return Err(error);
            }
            // The kernel notes when a set was first used. The last semaphore is 0, so this waits for nothing.
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

/// What there is to say when the kernel gives no set.
fn refused(ranks: u32, needed: usize, made: usize, error: SemaphoreError) -> SemaphoreError {
    match error {
        // EINVAL: six are more than a set may have.
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
    // SAFETY: plain system call. It fails if somebody else has removed it.
    let _ = unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
}

/// Removes the sets of this user that nobody alive has used last (rule 4). `also_dead` counts as dead: a launcher that is just
/// ending. Returns how many sets of launchers were found and are still there.
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
            // SAFETY: plain system call, which tells the process that has used a semaphore last.
            unsafe { libc::semctl(set, number.into(), libc::GETPID) }
        };
        let is_unfinished = used_s == 0 && now_s - made_s > MAKING_S;
        // 0: one of another PID namespace, or there was none yet.
        if is_unfinished || (0..count).all(|number| matches!(last(number), pid if pid > 0 && is_dead(pid))) {
            remove(set);
        } else {
            left += 1;
        }
    }
    left
}

/// The numbers that the kernel tells of each set: key, number, mode, semaphores, user, group, creator, the creator's group, when it was
/// used last (0: never) and changed last.
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

/// Whether a process runs: one that has ended and is not reaped does not.
fn lives(pid: i32) -> bool {
    // SAFETY: signal 0 is sent to nobody.
    let is_there =
        unsafe { libc::kill(pid, 0) } == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    let has_ended = || ProcessStat::of(pid.cast_unsigned()).is_some_and(|stat| stat.has_ended());
    is_there && !has_ended()
}

#[cfg(test)]
mod tests;
