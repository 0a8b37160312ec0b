//! The door: how a process waits, and how it is woken.
//!
//! A process that waits looks again and again, first at short distances, then giving the processor to others between
//! two looks, and at last it sleeps until a peer rings. Its segment has a word that says whether it sleeps.
//!
//! ```text
//! door word   state 2 (lowest) | number 30      state 0: awake   1: asleep on the futex   2: asleep on a descriptor
//! ```
//!
//! Rules
//! 1. *Announce.* A sleeper stores "asleep" with a new number to the word of its own segment (relaxed), then heavy
//!    barrier, then looks at *all* its sources once more, and only then waits on the futex for the word to change
//!    from what it stored.
//! 2. *Ring.* Whoever has made something for the process to see does so by a store, then light barrier, then loads the
//!    word (relaxed). If the state is not 0 it swaps 0 in and, if it was 1, wakes all who wait on the futex.
//! 3. So the sleeper sees the store or the ringer sees the announcement.
//! 4. *Several sleepers.* Threads of the process announce one after the other (a lock). A thread that has announced
//!    and not yet waits finds the word changed, by a ring or by another announcement, and looks again. One that waits
//!    is woken by the next ring, whoever it was for.
//! 5. *Leave.* A thread that does not sleep after all, or wakes, leaves; the last one to leave stores 0. Who is woken
//!    looks at everything again.
//! 6. *Descriptors.* A process with sockets announces state 2 and sleeps in poll(2) on all its descriptors, among them
//!    the *alarm*, an eventfd. A sibling thread that rings and swaps a 2 out raises the alarm. It stays raised, so that
//!    all who sleep wake, until somebody announces while nobody else has announced: he lowers it before he stores the
//!    word. A raise that comes late wakes somebody for nothing. Other processes wake the sleeper by what they write to
//!    a socket: in a job with sockets nobody rings another process's bell.

use crate::{
    barrier::BarrierKind,
    sync::{AtomicU32, Mutex, Ordering},
};
use std::time::Duration;

const ASLEEP: u32 = 1;
/// Asleep on descriptors (rule 6).
const POLLING: u32 = 2;
const STATE_MASK: u32 = 3;

/// The word of a door. Zero, its first state, is "awake".
#[derive(Debug)]
#[cfg_attr(not(loom), repr(transparent))]
pub struct DoorWord {
    word: AtomicU32,
    /// Loom knows no futex: waiting is a condition variable.
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
    /// Rule 2, after the store of what is to be seen.
    #[inline(always)]
    pub fn ring(&self, kind: BarrierKind) {
        kind.light();
        if self.word.load(Ordering::Relaxed) & STATE_MASK != 0 {
            self.wake();
        }
    }

    /// Rules 2 and 6, of a sibling thread in a process that sleeps on descriptors.
    pub fn ring_with(&self, kind: BarrierKind, alarm: &Alarm) {
        kind.light();
        if self.word.load(Ordering::Relaxed) & STATE_MASK != 0 && self.wake() == POLLING {
            alarm.raise();
        }
    }

    /// Returns the state from before.
    #[cold]
    #[inline(never)]
    fn wake(&self) -> u32 {
        let state = self.word.swap(0, Ordering::SeqCst) & STATE_MASK;
        if state == ASLEEP {
            self.futex_wake_all();
        }
        state
    }

    #[cfg(not(loom))]
    fn futex_wake_all(&self) {
        // The result is the number of those woken. It can fail only for a bad address.
        let _ =
            rustix::thread::futex::wake(&self.word, rustix::thread::futex::Flags::empty(), i32::MAX as u32);
    }

    /// Waits until the word is not `expected` or somebody wakes, or for no reason.
    #[cfg(not(loom))]
    fn futex_wait(&self, expected: u32, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|t| rustix::time::Timespec::try_from(t).ok());
        // Woken, changed, interrupted, timed out: in each case the caller looks again.
        let _ = rustix::thread::futex::wait(
            &self.word,
            rustix::thread::futex::Flags::empty(),
            expected,
            timeout.as_ref(),
        );
    }

    #[cfg(loom)]
    fn futex_wake_all(&self) {
        let _held = self.futex.0.lock().expect("no thread panics with it");
        self.futex.1.notify_all();
    }

    #[cfg(loom)]
    fn futex_wait(&self, expected: u32, _timeout: Option<Duration>) {
        let held = self.futex.0.lock().expect("no thread panics with it");
        if self.word.load(Ordering::SeqCst) == expected {
            drop(self.futex.1.wait(held).expect("no thread panics with it"));
        }
    }
}

/// What wakes threads that sleep on descriptors (rule 6).
#[derive(Debug)]
pub struct Alarm {
    #[cfg(not(loom))]
    poller: std::sync::Arc<crate::poller::Poller>,
    /// Loom knows no eventfd: whether it is raised, and who waits.
    #[cfg(loom)]
    raised: (loom::sync::Mutex<bool>, loom::sync::Condvar),
}

#[cfg(not(loom))]
impl Alarm {
    /// The alarm of a set of descriptors.
    pub fn new(poller: std::sync::Arc<crate::poller::Poller>) -> Alarm {
        Alarm { poller }
    }

    fn raise(&self) {
        self.poller.raise_alarm();
    }

    fn lower(&self) {
        self.poller.lower_alarm();
    }

    fn wait(&self, timeout: Option<Duration>) {
        self.poller.wait(timeout);
    }
}

#[cfg(loom)]
impl Alarm {
    /// An alarm without descriptors.
    #[expect(clippy::new_without_default, reason = "as the real one, it is made on purpose")]
    pub fn new() -> Alarm {
        Alarm { raised: Default::default() }
    }

    fn raise(&self) {
        *self.raised.0.lock().expect("no thread panics with it") = true;
        self.raised.1.notify_all();
    }

    fn lower(&self) {
        *self.raised.0.lock().expect("no thread panics with it") = false;
    }

    fn wait(&self, _timeout: Option<Duration>) {
        let mut raised = self.raised.0.lock().expect("no thread panics with it");
        while !*raised {
            raised = self.raised.1.wait(raised).expect("no thread panics with it");
        }
    }
}

/// The threads of a process that sleep at its door (rule 4). Lives in the process, not in shared memory.
#[derive(Debug, Default)]
pub struct Sleepers {
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    /// Threads that have announced and not left.
    count: u32,
    /// The number of the last announcement.
    number: u32,
}

impl Sleepers {
    /// Rule 1, up to and including the heavy barrier. The caller must now look at all its sources.
    pub fn announce<'a>(&'a self, word: &'a DoorWord, kind: BarrierKind) -> Sleepy<'a> {
        self.announce_with(word, kind, None)
    }

    /// As [`Sleepers::announce`]; with an alarm the sleep is on descriptors (rule 6).
    pub fn announce_with<'a>(
        &'a self,
        word: &'a DoorWord,
        kind: BarrierKind,
        alarm: Option<&'a Alarm>,
    ) -> Sleepy<'a> {
        let announced = {
            let mut inside = self.lock();
            if inside.count == 0
                && let Some(alarm) = alarm
            {
                alarm.lower();
            }
            inside.count += 1;
            inside.number = inside.number.wrapping_add(1);
            let announced = inside.number << 2 | if alarm.is_some() { POLLING } else { ASLEEP };
            word.word.store(announced, Ordering::Relaxed);
            announced
        };
        kind.heavy();
        Sleepy { sleepers: self, word, announced, kind, alarm }
    }

    fn lock(&self) -> impl std::ops::DerefMut<Target = Inside> + '_ {
        // What is inside is sound after each statement, so a panic elsewhere does not matter.
        self.inside.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A thread that has announced its sleep. Dropping it is [`Sleepy::cancel`].
#[derive(Debug)]
#[must_use = "look at all sources, then sleep or cancel"]
pub struct Sleepy<'a> {
    sleepers: &'a Sleepers,
    word: &'a DoorWord,
    announced: u32,
    kind: BarrierKind,
    alarm: Option<&'a Alarm>,
}

impl Sleepy<'_> {
    /// Does not sleep: the last look has found something.
    pub fn cancel(self) {}

    /// Sleeps until somebody rings, `timeout` is over, or for no reason. Look again afterwards in any case.
    pub fn sleep(self, timeout: Option<Duration>) {
        // Who is not registered may miss a ring (rule 5 of the barriers).
        let timeout = match self.kind {
            BarrierKind::Unregistered => Some(timeout.map_or(MISSED_RING, |t| t.min(MISSED_RING))),
            _ => timeout,
        };
        match self.alarm {
            Some(alarm) => alarm.wait(timeout),
            None => self.word.futex_wait(self.announced, timeout),
        }
    }
}

impl Drop for Sleepy<'_> {
    /// Rule 5.
    fn drop(&mut self) {
        let mut inside = self.sleepers.lock();
        inside.count -= 1;
        if inside.count == 0 {
            self.word.word.store(0, Ordering::Relaxed);
        }
    }
}

/// How long a ring can be missed by a process that could not register for asymmetric barriers.
const MISSED_RING: Duration = Duration::from_millis(1);

#[cfg(not(loom))]
mod wait;
#[cfg(not(loom))]
pub use wait::{Bell, Door, Next, Policy, Wait};
