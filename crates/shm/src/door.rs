//! The door: how a process waits, and how a peer wakes it.
//!
//! A waiting process first polls, then yields the processor between two polls, and at last sleeps
//! until a peer rings. A word in its segment says whether it sleeps.
//!
//! ```text
//! door word   state 2 (lowest) | number 30
//! state       0: awake   1: asleep on the futex   2: asleep on a descriptor
//! ```
//!
//! Rules
//! 1. *Announce.* A sleeper stores "asleep" with a new number to the word of its own segment
//!    (relaxed), then does a heavy barrier, then polls *all* its sources once more, then waits on
//!    the futex until the word differs from the stored value.
//! 2. *Ring.* A process that has made something visible by a store does a light barrier, then loads
//!    the word (relaxed). If the state is not 0, it swaps 0 in and, if it was 1, wakes all waiters.
//! 3. The barriers ensure that the sleeper sees the store or the ringing process sees the
//!    announcement.
//! 4. *Several sleepers.* Threads of the process announce one after another, under a lock. A thread
//!    that has announced and finds the word changed, by a ring or by another announcement, polls
//!    again instead of waiting. A ring wakes all threads that wait, whichever of them it is for.
//! 5. *Leave.* A thread that wakes, or decides not to sleep, leaves and polls all sources again.
//!    The last thread that leaves stores 0.
//! 6. *Descriptors.* In a process with sockets one waiting thread *leads*: it sleeps in state 2, in
//!    poll(2) on all descriptors, which include the *alarm*, an eventfd. The other threads sleep on
//!    the futex (state 3 if there are any). The leader polls all sources for all threads, and wakes
//!    threads by rule 2. A ring that swaps out a 2 or 3 raises the alarm. The leader lowers the
//!    alarm before it announces, so a late raise can only wake it needlessly. Other processes wake
//!    the leader by a socket or, if they share memory with it, by the alarm, which the launcher
//!    makes and gives to them. A leader may also sleep on a System V semaphore
//!    (`oxmpi_sys::semaphore`) that its segment names.
//! 7. *Turns.* A thread that announces while no thread leads is the leader until its wait is over.
//!    A thread that ends its wait while no thread leads and others have announced stores a new
//!    number and wakes one of them, which polls all sources and leads if it sleeps again.
//! 8. *Death.* If a process dies between the two steps of rule 2, the word says "awake" and no
//!    later ring wakes the sleepers. So a report of a death wakes them regardless of the word.

use oxmpi_sys::{
    barrier::BarrierKind,
    sync::{AtomicU32, Mutex, Ordering},
};
use std::time::Duration;

const ASLEEP: u32 = 1;
/// The leader sleeps on descriptors (rule 6). With `ASLEEP`, other threads sleep on the futex.
const POLLING: u32 = 2;
const STATE_MASK: u32 = 3;

/// The word of a door, initially zero ("awake").
#[derive(Debug)]
#[cfg_attr(not(loom), repr(transparent))]
pub struct DoorWord {
    word: AtomicU32,
    /// Loom has no futex: a condition variable takes its place.
    #[cfg(loom)]
    futex: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

impl Default for DoorWord {
    fn default() -> Self {
        DoorWord {
            word: AtomicU32::new(0),
            #[cfg(loom)]
            futex: Default::default(),
        }
    }
}

impl DoorWord {
    /// Wakes the owner (rule 2). Call it after the store that the owner must see.
    #[inline(always)]
    pub fn ring(&self, kind: BarrierKind) {
        kind.light();
        if self.word.load(Ordering::Relaxed) & STATE_MASK != 0 {
            self.wake();
        }
    }

    /// Whether a thread of the owner sleeps, or is about to.
    pub fn has_sleepers(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STATE_MASK != 0
    }

    /// Wakes the owner after the store that reports a death (rule 8). `raise` raises its alarm, if
    /// any.
    pub fn ring_after_death(&self, raise: impl FnOnce()) {
        BarrierKind::Symmetric.light();
        if self.wake() & ASLEEP == 0 {
            self.futex_wake(i32::MAX as u32);
        }
        raise();
    }

    /// As [`DoorWord::ring`], for an owner that may sleep on descriptors; `raise` raises its alarm.
    #[inline(always)]
    pub fn ring_with(&self, kind: BarrierKind, raise: impl FnOnce()) {
        kind.light();
        if self.word.load(Ordering::Relaxed) & STATE_MASK != 0 {
            self.wake_with(raise);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_with(&self, raise: impl FnOnce()) {
        if self.wake() & POLLING != 0 {
            raise();
        }
    }

    /// Returns the old state.
    #[cold]
    #[inline(never)]
    fn wake(&self) -> u32 {
        let state = self.word.swap(0, Ordering::SeqCst) & STATE_MASK;
        if state & ASLEEP != 0 {
            self.futex_wake(i32::MAX as u32);
        }
        state
    }

    #[cfg(not(loom))]
    fn futex_wake(&self, most: u32) {
        // The result is the number of woken threads. Only a bad address is an error.
        let _ =
            rustix::thread::futex::wake(&self.word, rustix::thread::futex::Flags::empty(), most);
    }

    /// Returns when the word is not `expected`, at a wake, after `timeout`, or spuriously.
    #[cfg(not(loom))]
    fn futex_wait(&self, expected: u32, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|t| rustix::time::Timespec::try_from(t).ok());
        let _ = rustix::thread::futex::wait(
            &self.word,
            rustix::thread::futex::Flags::empty(),
            expected,
            timeout.as_ref(),
        );
    }

    #[cfg(loom)]
    fn futex_wake(&self, most: u32) {
        let _held = self.futex.0.lock().expect("no thread panics with it");
        if most == 1 {
            self.futex.1.notify_one();
        } else {
            self.futex.1.notify_all();
        }
    }

    #[cfg(loom)]
    fn futex_wait(&self, expected: u32, _timeout: Option<Duration>) {
        let held = self.futex.0.lock().expect("no thread panics with it");
        if self.word.load(Ordering::SeqCst) == expected {
            drop(self.futex.1.wait(held).expect("no thread panics with it"));
        }
    }
}

/// Wakes threads that sleep on descriptors (rule 6).
#[derive(Debug)]
pub struct Alarm {
    #[cfg(not(loom))]
    means: wait::Means,
    /// For loom: whether the alarm is raised, whether the socket is ready, and the waiters.
    #[cfg(loom)]
    state: (loom::sync::Mutex<(bool, bool)>, loom::sync::Condvar),
}

#[cfg(loom)]
impl Alarm {
    /// An alarm beside one socket.
    #[expect(clippy::new_without_default, reason = "as the real one, it is made on purpose")]
    pub fn new() -> Alarm {
        Alarm { state: Default::default() }
    }

    /// Makes the socket ready.
    pub fn arrive(&self) {
        self.state.0.lock().expect("no thread panics with it").1 = true;
        self.state.1.notify_all();
    }

    /// Takes the event of the socket, if there is one.
    pub fn take(&self) -> bool {
        std::mem::take(&mut self.state.0.lock().expect("no thread panics with it").1)
    }

    /// Wakes the thread that leads (rule 6).
    pub fn raise(&self) {
        self.state.0.lock().expect("no thread panics with it").0 = true;
        self.state.1.notify_all();
    }

    fn lower(&self) {
        self.state.0.lock().expect("no thread panics with it").0 = false;
    }

    fn wait(&self, _timeout: Option<Duration>) {
        let mut state = self.state.0.lock().expect("no thread panics with it");
        while *state == (false, false) {
            state = self.state.1.wait(state).expect("no thread panics with it");
        }
    }
}

/// The threads of a process that sleep at its door (rule 4), in memory of this process alone.
#[derive(Debug, Default)]
pub struct Sleepers {
    inside: Mutex<Inside>,
    #[cfg(not(loom))]
    slept: Slept,
}

#[cfg(not(loom))]
#[derive(Debug, Default)]
struct Slept {
    times: oxmpi_sys::sync::AtomicU64,
    ticks: oxmpi_sys::sync::AtomicU64,
}

#[derive(Debug, Default)]
struct Inside {
    /// Threads that have announced and not left.
    count: u32,
    number: u32,
    is_led: bool,
    leader_sleeps: bool,
}

impl Inside {
    fn announcement(&mut self) -> u32 {
        self.number = self.number.wrapping_add(1);
        let others = self.count > u32::from(self.leader_sleeps);
        self.number << 2
            | if self.leader_sleeps { POLLING } else { 0 }
            | if others { ASLEEP } else { 0 }
    }
}

/// The part of a thread in sleeping on descriptors, for one wait (rules 6 and 7).
#[derive(Debug, Default)]
pub struct DoorTurn {
    leads: bool,
    has_announced: bool,
}

impl Sleepers {
    /// Does rule 1, up to and including the heavy barrier. The caller must then poll all its
    /// sources.
    pub fn announce<'a>(&'a self, word: &'a DoorWord, kind: BarrierKind) -> Sleepy<'a> {
        let mut inside = self.lock();
        inside.count += 1;
        self.announced(inside, word, kind, None)
    }

    /// As [`Sleepers::announce`] in a process that sleeps on descriptors (rules 6 and 7).
    pub fn announce_turn<'a>(
        &'a self,
        word: &'a DoorWord,
        kind: BarrierKind,
        alarm: &'a Alarm,
        turn: &mut DoorTurn,
    ) -> Sleepy<'a> {
        let mut inside = self.lock();
        inside.count += 1;
        turn.has_announced = true;
        turn.leads |= !std::mem::replace(&mut inside.is_led, true);
        if turn.leads {
            alarm.lower();
            inside.leader_sleeps = true;
        }
        self.announced(inside, word, kind, turn.leads.then_some(alarm))
    }

    fn announced<'a>(
        &'a self,
        mut inside: impl std::ops::DerefMut<Target = Inside>,
        word: &'a DoorWord,
        kind: BarrierKind,
        alarm: Option<&'a Alarm>,
    ) -> Sleepy<'a> {
        let announced = inside.announcement();
        word.word.store(announced, Ordering::Release);
        drop(inside);
        kind.heavy();
        Sleepy { sleepers: self, word, announced, kind, alarm }
    }

    /// Ends the wait of this thread (rule 7).
    pub fn end_turn(&self, word: &DoorWord, turn: &DoorTurn) {
        if !turn.has_announced {
            return;
        }
        let mut inside = self.lock();
        if turn.leads {
            inside.is_led = false;
        }
        if !inside.is_led && inside.count > 0 {
            let new = inside.announcement();
            word.word.store(new, Ordering::Relaxed);
            drop(inside);
            word.futex_wake(1);
        }
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = Inside> + '_ {
        // The content is sound after each statement, even if another thread panics.
        self.inside.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A thread that has announced its sleep. Dropping it is [`Sleepy::cancel`].
#[derive(Debug)]
#[must_use = "poll all sources, then sleep or cancel"]
pub struct Sleepy<'a> {
    sleepers: &'a Sleepers,
    word: &'a DoorWord,
    announced: u32,
    kind: BarrierKind,
    alarm: Option<&'a Alarm>,
}

impl Sleepy<'_> {
    /// Leaves without sleeping, after a successful poll.
    pub fn cancel(self) {}

    /// Sleeps until a ring, until `timeout`, or spuriously. Poll again afterwards in any case.
    pub fn sleep(self, timeout: Option<Duration>) {
        // A process that is not registered may miss a ring (rule 5 of the barriers).
        let timeout = match self.kind {
            BarrierKind::Unregistered => Some(timeout.map_or(MISSED_RING, |t| t.min(MISSED_RING))),
            _ => timeout,
        };
        #[cfg(not(loom))]
        let (slept, started) = (&self.sleepers.slept, oxmpi_sys::clock::ticks());
        match self.alarm {
            Some(alarm) => alarm.wait(timeout),
            None => self.word.futex_wait(self.announced, timeout),
        }
        #[cfg(not(loom))]
        {
            slept.times.fetch_add(1, Ordering::Relaxed);
            slept
                .ticks
                .fetch_add(oxmpi_sys::clock::ticks().wrapping_sub(started), Ordering::Relaxed);
        }
    }
}

impl Drop for Sleepy<'_> {
    fn drop(&mut self) {
        let mut inside = self.sleepers.lock();
        inside.count -= 1;
        if self.alarm.is_some() {
            inside.leader_sleeps = false;
        }
        if inside.count == 0 {
            self.word.word.store(0, Ordering::Relaxed);
        }
    }
}

/// The longest sleep of a process without asymmetric barriers, which may miss a ring.
const MISSED_RING: Duration = Duration::from_millis(1);

#[cfg(not(loom))]
mod wait;
#[cfg(not(loom))]
pub use wait::{Bell, Door, Next, Policy, PollLimits, Raise, Wait};

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn rule_8_the_death_of_a_ringer_leaves_nobody_asleep() {
        let (sleepers, word) = (Arc::new(Sleepers::default()), Arc::new(DoorWord::default()));
        let sleeper = {
            let (sleepers, word) = (sleepers.clone(), word.clone());
            std::thread::spawn(move || sleepers.announce(&word, BarrierKind::Symmetric).sleep(None))
        };
        while word.word.load(Ordering::SeqCst) & ASLEEP == 0 {
            std::thread::yield_now();
        }
        // Time to reach the futex. If the thread is slower, the test passes without a check.
        std::thread::sleep(Duration::from_millis(20));
        // A process that rings does this and then dies, so later rings find "awake".
        word.word.swap(0, Ordering::SeqCst);
        word.ring(BarrierKind::Symmetric);
        word.ring_after_death(|| ());
        sleeper.join().expect("it is awake");
    }
}
