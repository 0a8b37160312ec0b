//! When to poll, when to yield, when to sleep: the policy of the door.

use super::{Alarm, DoorTurn, Sleepers, Sleepy};
use crate::segment::Segment;
use oxmpi_sys::{
    barrier::{self, BarrierKind},
    clock,
    pause::Pause,
    poller::Poller,
    semaphore::{Awaits, OwnSemaphores, Semaphore, SemaphoreWait},
};
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
use std::time::Duration;

/// How a process waits. All times are real time in nanoseconds.
///
/// If each rank has a processor, a wait polls every `poll_gap_ns` for `spin_ns`, then yields
/// between two polls until `yield_ns` after its start, and then sleeps. It restarts whenever
/// something arrives ([`Wait::renew`]). On an oversubscribed node it does not spin, since that
/// would delay the awaited rank, but yields `yields_before_sleep` times and then sleeps.
///
/// A yield longer than `slow_yield_ns` means that another program computes on the processor. A
/// yield to it lasts a time slice, but the kernel wakes a sleeper at once, as it has used less
/// time. So the next waits sleep without yielding: a few waits at first, twice as many each time
/// that another slow yield follows soon, at most `sleeping_waits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub oversubscribed: bool,
    pub spin_ns: u64,
    /// From the start of a wait to its sleep. Not used if oversubscribed.
    pub yield_ns: u64,
    pub yields_before_sleep: u32,
    /// A longer yield means that another program computes on the processor.
    pub slow_yield_ns: u64,
    /// The most waits that sleep without yielding after a slow yield.
    pub sleeping_waits: u32,
    /// Faster polls while spinning would take the line from the writer just before it is written.
    pub poll_gap_ns: u64,
    /// Limits of a wait that counts its polls instead of the time.
    pub poll_limits: Option<PollLimits>,
    pub pause: Pause,
}

/// The number of polls before the sleep, for a wait that counts polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollLimits {
    /// Polls without a yield.
    pub spinning: u32,
    pub yields: u32,
}

impl Policy {
    /// The defaults, which were measured.
    pub const fn new(oversubscribed: bool) -> Policy {
        Policy {
            oversubscribed,
            spin_ns: 20_000,
            yield_ns: 1_000_000,
            yields_before_sleep: 32,
            slow_yield_ns: 500_000,
            sleeping_waits: 1000,
            poll_gap_ns: 40,
            poll_limits: None,
            pause: Pause::Yield,
        }
    }
}

/// The waiting side of a segment's door. Any thread of the segment's owner may wait here.
#[derive(Debug)]
pub struct Door {
    segment: Arc<Segment>,
    sleepers: Sleepers,
    kind: BarrierKind,
    policy: Mutex<Policy>,
    restored: AtomicU32,
    oversubscribed: AtomicBool,
    /// In ticks. [`Door::retune`] may change the limits at any time; waits follow soon.
    spin: AtomicU64,
    until_sleep: AtomicU64,
    slow_yield: AtomicU64,
    yields: AtomicU32,
    gap: AtomicU64,
    poll_limits: Option<PollLimits>,
    pause: Pause,
    foreign_load: ForeignLoad,
    alarm: OnceLock<Alarm>,
}

/// The object on which the leader of a process sleeps (rule 6 of the door).
#[derive(Debug)]
pub(super) enum Means {
    Descriptors(Arc<Poller>),
    Semaphores {
        own: OwnSemaphores,
        segment: Arc<Segment>,
        /// The semaphore of the next sleep
        /// ([`Semaphore::to_word`](oxmpi_sys::semaphore::Semaphore)).
        next: AtomicU64,
    },
}

/// The longest sleep of a process whose semaphore was removed: no peer can wake it.
const WITHOUT_SEMAPHORE: Duration = Duration::from_millis(1);

impl Alarm {
    /// The alarm of a set of descriptors.
    pub fn new(poller: Arc<Poller>) -> Alarm {
        Alarm { means: Means::Descriptors(poller) }
    }

    /// Wakes the thread that leads (rule 6).
    pub fn raise(&self) {
        match &self.means {
            Means::Descriptors(poller) => poller.raise_alarm(),
            Means::Semaphores { segment, .. } => segment.raise_semaphore(),
        }
    }

    pub(super) fn lower(&self) {
        match &self.means {
            Means::Descriptors(poller) => poller.lower_alarm(),
            Means::Semaphores { segment, next, .. } => {
                if let Some(semaphore) = Semaphore::from_word(next.load(Ordering::Relaxed)) {
                    semaphore.lower();
                    segment.set_semaphore(semaphore);
                }
            }
        }
    }

    pub(super) fn wait(&self, timeout: Option<Duration>) {
        match &self.means {
            Means::Descriptors(poller) => poller.wait(timeout),
            Means::Semaphores { segment, .. } => {
                let slept = segment
                    .semaphore()
                    .map_or(SemaphoreWait::Gone, |semaphore| semaphore.wait(timeout));
                if slept == SemaphoreWait::Gone {
                    std::thread::sleep(WITHOUT_SEMAPHORE);
                }
            }
        }
    }
}

impl Door {
    /// The door of the caller's own segment. Registers the process for asymmetric barriers if
    /// needed, so make the door before mapping a peer's segment.
    pub fn new(segment: Arc<Segment>, policy: Policy) -> Door {
        let kind = barrier::start(segment.boot().asymmetric);
        segment.set_registered(kind == BarrierKind::Asymmetric);
        let restored = segment.status().restored();
        Door {
            segment,
            sleepers: Sleepers::default(),
            kind,
            restored: AtomicU32::new(restored),
            oversubscribed: AtomicBool::new(policy.oversubscribed),
            spin: AtomicU64::new(spin_ticks(&policy)),
            until_sleep: AtomicU64::new(clock::ticks_of_ns(policy.yield_ns)),
            slow_yield: AtomicU64::new(clock::ticks_of_ns(policy.slow_yield_ns)),
            yields: AtomicU32::new(policy.yields_before_sleep),
            gap: AtomicU64::new(clock::ticks_of_ns(policy.poll_gap_ns)),
            poll_limits: policy.poll_limits,
            pause: policy.pause,
            foreign_load: ForeignLoad::new(policy.sleeping_waits),
            policy: Mutex::new(policy),
            alarm: OnceLock::new(),
        }
    }

    /// Whether waits spin for a time, rather than for a number of polls or not at all.
    #[inline]
    pub fn spins(&self) -> bool {
        self.poll_limits.is_none() && self.spin.load(Ordering::Relaxed) > 0
    }

    /// Yields the processor once. On an oversubscribed node, waiting peers see that the process is
    /// away.
    pub fn step_aside(&self) {
        if !self.is_oversubscribed() {
            return self.pause.pass();
        }
        self.segment.set_away(true);
        self.pause.pass();
        self.segment.set_away(false);
    }

    /// Whether ranks share processors. Changes only at a restore from an image.
    #[inline]
    pub fn is_oversubscribed(&self) -> bool {
        self.oversubscribed.load(Ordering::Relaxed)
    }

    /// The door of a process that sleeps on these descriptors (rule 6).
    pub fn with_descriptors(self, poller: Arc<Poller>) -> Door {
        Door { alarm: OnceLock::from(Alarm::new(poller)), ..self }
    }

    /// Makes the process sleep on these descriptors from now on (rule 6). `false`: it already
    /// sleeps on semaphores or on other descriptors.
    pub fn sleep_on(&self, poller: Arc<Poller>) -> bool {
        let is_new = self.alarm.set(Alarm::new(poller)).is_ok();
        // The threads wake and announce again, and one of them leads.
        self.segment.door_word().ring(self.kind);
        is_new
    }

    /// The door of a process that sleeps on these semaphores (rule 6).
    pub fn with_semaphores(self, own: OwnSemaphores) -> Door {
        let next = AtomicU64::new(own.to_sleep_on(Awaits::Anything).to_word());
        let means = Means::Semaphores { own, segment: self.segment.clone(), next };
        Door { alarm: OnceLock::from(Alarm { means }), ..self }
    }

    /// Whether the process sleeps on semaphores, so that [`Door::will_await`] has an effect.
    #[inline]
    pub fn has_semaphores(&self) -> bool {
        matches!(self.alarm.get(), Some(Alarm { means: Means::Semaphores { .. } }))
    }

    /// Chooses the semaphore of the next sleep by the events that the process awaits.
    pub fn will_await(&self, awaits: Awaits) {
        if let Some(Alarm { means: Means::Semaphores { own, next, .. } }) = self.alarm.get() {
            next.store(own.to_sleep_on(awaits).to_word(), Ordering::Relaxed);
        }
    }

    /// Changes the policy, except `oversubscribed`, `poll_gap_ns` and `poll_limits`.
    pub fn retune(&self, policy: &Policy) {
        let mut kept = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        let fixed = *kept;
        let policy = Policy {
            oversubscribed: fixed.oversubscribed,
            poll_gap_ns: fixed.poll_gap_ns,
            poll_limits: fixed.poll_limits,
            pause: fixed.pause,
            ..*policy
        };
        *kept = policy;
        self.take(&policy);
    }

    /// After a restore from an image, reads the launcher's facts about the new host: the processors
    /// of the ranks, and the rate of the counter. Each wait calls this before it sleeps.
    #[inline]
    fn notice_new_host(&self) {
        if self.segment.status().restored() != self.restored.load(Ordering::Relaxed) {
            self.take_new_host();
        }
    }

    #[cold]
    fn take_new_host(&self) {
        let mut kept = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        let status = self.segment.status();
        self.restored.store(status.restored(), Ordering::Relaxed);
        clock::measure_again();
        kept.oversubscribed = status.restored_oversubscribed().unwrap_or(kept.oversubscribed);
        self.oversubscribed.store(kept.oversubscribed, Ordering::Relaxed);
        self.gap.store(clock::ticks_of_ns(kept.poll_gap_ns), Ordering::Relaxed);
        self.take(&kept);
    }

    fn take(&self, policy: &Policy) {
        let policy = *policy;
        self.spin.store(spin_ticks(&policy), Ordering::Relaxed);
        self.until_sleep.store(clock::ticks_of_ns(policy.yield_ns), Ordering::Relaxed);
        self.slow_yield.store(clock::ticks_of_ns(policy.slow_yield_ns), Ordering::Relaxed);
        self.yields.store(policy.yields_before_sleep, Ordering::Relaxed);
        self.foreign_load.set_most(policy.sleeping_waits);
    }

    /// The number and the total time of the sleeps of this process's threads at this door.
    pub fn slept(&self) -> (u64, Duration) {
        let slept = &self.sleepers.slept;
        let ns = clock::ns_of_ticks(slept.ticks.load(Ordering::Relaxed));
        (slept.times.load(Ordering::Relaxed), Duration::from_nanos(ns))
    }

    /// The segment whose owner waits here.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The kind of barriers that this process uses for its rings.
    pub fn kind(&self) -> BarrierKind {
        self.kind
    }

    /// Begins a wait. Poll once before each [`Wait::next`]:
    ///
    /// ```
    /// # use oxmpi_shm::{door::*, segment::*};
    /// # let boot = Boot::on_one_node(1, 0, 1);
    /// # let segment = Segment::map(Segment::create(&boot)?)?;
    /// # let door = Door::new(segment, Policy::new(false));
    /// # let mut polls = 0;
    /// # let mut poll = || { polls += 1; polls > 3 };
    /// let mut wait = door.begin();
    /// while !poll() {
    ///     match wait.next() {
    ///         Next::Poll => continue,
    ///         Next::Sleep(sleepy) => {
    ///             if poll() {
    ///                 sleepy.cancel();
    ///                 break;
    ///             }
    ///             sleepy.sleep(None);
    ///         }
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn begin(&self) -> Wait<'_> {
        self.segment.set_waiting(true);
        Wait {
            door: self,
            started: None,
            polls: 0,
            yields: 0,
            phase: Phase::Spin,
            turn: DoorTurn::default(),
        }
    }

    /// Wakes the sleeping threads of this process, after this thread has completed something.
    #[inline]
    pub fn ring_own(&self) {
        match self.alarm.get() {
            None => self.segment.door_word().ring(self.kind),
            Some(alarm) => self.segment.door_word().ring_with(self.kind, || alarm.raise()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Spin,
    Yield,
    Sleep,
}

/// One wait, from [`Door::begin`] until a poll is successful.
#[derive(Debug)]
pub struct Wait<'d> {
    door: &'d Door,
    started: Option<u64>,
    polls: u32,
    yields: u32,
    phase: Phase,
    turn: DoorTurn,
}

impl Drop for Wait<'_> {
    #[inline]
    fn drop(&mut self) {
        self.end_turn();
        self.door.segment.set_waiting(false);
    }
}

/// The next action of a waiting thread.
#[derive(Debug)]
pub enum Next<'w> {
    Poll,
    /// The sleep is announced: poll *all* sources again, then sleep or cancel, then poll again.
    Sleep(Sleepy<'w>),
}

impl Wait<'_> {
    /// Whether the wait has ended its spinning, and yields or sleeps.
    #[inline]
    pub fn has_spun(&self) -> bool {
        self.phase != Phase::Spin
    }

    /// Counts a poll; whether the wait continues to spin. `false`: use [`Wait::next`].
    #[inline]
    pub fn is_spinning(&mut self) -> bool {
        let now = clock::ticks();
        let started = *self.started.get_or_insert(now);
        self.phase == Phase::Spin && self.spins_at(now, started)
    }

    /// Waits, while it spins, until the next poll is due.
    #[inline]
    pub fn pass_gap(&self) {
        clock::pass_ticks(self.door.gap.load(Ordering::Relaxed));
    }

    #[inline]
    fn spins_at(&mut self, now: u64, started: u64) -> bool {
        match self.door.poll_limits {
            None => now.wrapping_sub(started) < self.door.spin.load(Ordering::Relaxed),
            Some(limits) => {
                self.polls = self.polls.saturating_add(1);
                self.polls <= limits.spinning
            }
        }
    }

    /// Restarts this wait, because something other than the awaited event arrived, such as a piece
    /// of a long message. Returns whether to poll again at once: `false` if oversubscribed, because
    /// the next sender may need this processor, and would need a system call to wake a sleeper.
    #[inline]
    pub fn renew(&mut self) -> bool {
        (self.started, self.phase, self.polls, self.yields) = (None, Phase::Spin, 0, 0);
        !self.door.is_oversubscribed()
    }

    /// Ends this thread's turn before long work, so that another thread polls the descriptors.
    #[inline]
    pub fn end_turn(&mut self) {
        if self.door.alarm.get().is_some() {
            let turn = std::mem::take(&mut self.turn);
            self.door.sleepers.end_turn(self.door.segment.door_word(), &turn);
        }
    }

    /// Call it after an unsuccessful poll: waits until the next poll is due, or announces a sleep.
    #[expect(clippy::should_implement_trait, reason = "it lends, and it does not end")]
    pub fn next(&mut self) -> Next<'_> {
        let door = self.door;
        let now = clock::ticks();
        let started = *self.started.get_or_insert(now);
        if self.phase == Phase::Spin {
            if self.spins_at(now, started) {
                clock::pass_ticks_from(now, door.gap.load(Ordering::Relaxed));
                return Next::Poll;
            }
            self.phase = if door.foreign_load.shall_sleep() { Phase::Sleep } else { Phase::Yield };
        }
        if self.phase == Phase::Yield {
            let over = if let Some(limits) = door.poll_limits {
                self.yields >= limits.yields
            } else if door.is_oversubscribed() {
                self.yields >= door.yields.load(Ordering::Relaxed)
            } else {
                now.wrapping_sub(started) >= door.until_sleep.load(Ordering::Relaxed)
            };
            if !over {
                self.yields += 1;
                door.yield_once(now);
                return Next::Poll;
            }
            self.phase = Phase::Sleep;
        }
        door.notice_new_host();
        let word = door.segment.door_word();
        Next::Sleep(match door.alarm.get() {
            None => {
                let sleepy = door.sleepers.announce(word, door.kind);
                if door.alarm.get().is_some() {
                    // Another thread has added descriptors without seeing this announcement.
                    sleepy.cancel();
                    return Next::Poll;
                }
                sleepy
            }
            Some(alarm) => door.sleepers.announce_turn(word, door.kind, alarm, &mut self.turn),
        })
    }
}

impl Door {
    fn yield_once(&self, now: u64) {
        self.step_aside();
        // A select() takes as long as the kernel's timers, even on a free processor.
        if self.pause == Pause::Yield
            && clock::ticks().wrapping_sub(now) > self.slow_yield.load(Ordering::Relaxed)
        {
            self.foreign_load.met_one();
        }
    }
}

fn spin_ticks(policy: &Policy) -> u64 {
    if policy.oversubscribed { 0 } else { clock::ticks_of_ns(policy.spin_ns) }
}

/// Other programs on our processors. Threads may lose each other's counts, which is harmless.
#[derive(Debug)]
struct ForeignLoad {
    most: AtomicU32,
    sleeping: AtomicU32,
    left: AtomicU32,
    yielding: AtomicU32,
}

/// Waits that sleep after the first slow yield in a long time.
const FIRST_SLEEPING: u32 = 32;

impl ForeignLoad {
    fn new(most: u32) -> ForeignLoad {
        let zero = || AtomicU32::new(0);
        ForeignLoad { most: AtomicU32::new(most), sleeping: zero(), left: zero(), yielding: zero() }
    }

    fn set_most(&self, most: u32) {
        self.most.store(most, Ordering::Relaxed);
        self.left.fetch_min(most, Ordering::Relaxed);
    }

    /// Records a slow yield. If it follows soon after the last one, the same program still
    /// computes.
    fn met_one(&self) {
        let before = self.sleeping.load(Ordering::Relaxed);
        let stays = self.yielding.load(Ordering::Relaxed) <= before;
        let sleeping = if stays { before.saturating_mul(2) } else { 0 };
        let sleeping = sleeping.max(FIRST_SLEEPING).min(self.most.load(Ordering::Relaxed));
        self.sleeping.store(sleeping, Ordering::Relaxed);
        self.left.store(sleeping, Ordering::Relaxed);
        self.yielding.store(0, Ordering::Relaxed);
    }

    /// Counts a wait; whether it sleeps without yielding.
    fn shall_sleep(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        let count = if left > 0 { &self.left } else { &self.yielding };
        let counted = if left > 0 {
            left - 1
        } else {
            self.yielding.load(Ordering::Relaxed).saturating_add(1)
        };
        count.store(counted, Ordering::Relaxed);
        left > 0
    }
}

/// Raises the alarm of a peer that sleeps on descriptors (rule 6).
pub type Raise = Arc<dyn Fn() + Send + Sync>;

/// The ringing side of a peer's door.
#[derive(Clone)]
pub struct Bell {
    segment: Arc<Segment>,
    kind: BarrierKind,
    raise: Option<Raise>,
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bell")
            .field("kind", &self.kind)
            .field("raise", &self.raise.is_some())
            .finish_non_exhaustive()
    }
}

impl Bell {
    /// The bell of the owner of `segment`, for a process with barriers of this `kind`.
    pub fn new(segment: &Arc<Segment>, kind: BarrierKind) -> Bell {
        Bell { segment: segment.clone(), kind, raise: None }
    }

    /// As [`Bell::new`], for a peer that may sleep on descriptors.
    #[must_use]
    pub fn with_alarm(self, raise: Raise) -> Bell {
        Bell { raise: Some(raise), ..self }
    }

    /// Whether the peer sleeps, so that [`Bell::ring`] is needed. Makes no call.
    #[inline(always)]
    pub fn finds_sleeper(&self) -> bool {
        self.kind.light();
        self.segment.door_word().has_sleepers()
    }

    /// Wakes the peer if it sleeps. Call it after each store that the peer may wait for.
    #[inline(always)]
    pub fn ring(&self) {
        self.segment.door_word().ring_with(self.kind, || self.raise());
    }

    #[cold]
    fn raise(&self) {
        if let Some(raise) = &self.raise {
            raise();
        }
        self.segment.raise_semaphore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records a slow yield after `yielding` waits; returns the waits that sleep because of it.
    fn sleep_after(foreign_load: &ForeignLoad, yielding: u32) -> u32 {
        for _ in 0..yielding {
            assert!(!foreign_load.shall_sleep());
        }
        foreign_load.met_one();
        (0..).find(|_| !foreign_load.shall_sleep()).expect("it ends")
    }

    #[test]
    fn a_foreign_process_that_stays_is_remembered_longer_and_longer() {
        let foreign_load = ForeignLoad::new(1000);
        // One more wait has yielded than the argument says: the one that ended the count before.
        let slept: Vec<u32> = (0..8).map(|_| sleep_after(&foreign_load, 3)).collect();
        assert_eq!(slept, [32, 64, 128, 256, 512, 1000, 1000, 1000]);
        assert_eq!(sleep_after(&foreign_load, 999), 1000);
        assert_eq!(sleep_after(&foreign_load, 1000), 32, "a new one");
        assert_eq!(sleep_after(&foreign_load, 100), 32, "another new one");
    }

    fn alone(oversubscribed: bool) -> Arc<Segment> {
        let boot =
            crate::segment::Boot { oversubscribed, ..crate::segment::Boot::on_one_node(1, 0, 1) };
        Segment::map(Segment::create(&boot).unwrap()).unwrap()
    }

    #[test]
    fn the_policy_may_be_changed_at_any_time() {
        let segment = alone(false);
        let hour = 3_600_000_000_000;
        let door = Door::new(segment, Policy { spin_ns: hour, ..Policy::new(false) });
        let mut wait = door.begin();
        assert!((0..10).all(|_| wait.is_spinning()), "it spins for an hour");
        let policy = Policy {
            spin_ns: 0,
            yield_ns: 0,
            slow_yield_ns: 7_000,
            sleeping_waits: 3,
            ..Policy::new(true)
        };
        door.retune(&policy);
        assert!(!wait.is_spinning());
        assert!(matches!(wait.next(), Next::Sleep(_)), "and sleeps at once");
        assert_eq!(door.slow_yield.load(Ordering::Relaxed), clock::ticks_of_ns(7_000));
        assert_eq!(door.foreign_load.most.load(Ordering::Relaxed), 3);
        assert!(!door.is_oversubscribed(), "what the machine is like stays");
        assert_eq!(door.slept().0, 0, "nobody has slept yet");
        if let Next::Sleep(sleepy) = door.begin().next() {
            sleepy.sleep(Some(Duration::from_millis(1)));
        }
        assert_eq!(door.slept().0, 1);
        assert!(door.slept().1 > Duration::ZERO);
    }

    #[test]
    fn a_process_that_was_restored_waits_as_its_new_host_has_processors() {
        let segment = alone(false);
        // On a busy machine yields are slow, and after a slow yield a wait would sleep sooner.
        let policy = Policy { slow_yield_ns: u64::MAX >> 24, ..Policy::new(false) };
        let door = Door::new(segment.clone(), Policy { yield_ns: 0, ..policy });
        let to_its_sleep = || {
            let mut wait = door.begin();
            (0..).find(|_| matches!(wait.next(), Next::Sleep(_)))
        };
        assert!(to_its_sleep().is_some() && door.spins() && !door.is_oversubscribed());
        for (oversubscribed, spins) in [(true, false), (false, true)] {
            segment.status().note_restored(oversubscribed);
            assert_ne!(
                door.is_oversubscribed(),
                oversubscribed,
                "not before a wait is about to sleep"
            );
            to_its_sleep();
            assert_eq!((door.is_oversubscribed(), door.spins()), (oversubscribed, spins));
        }
        segment.status().note_restored(true);
        to_its_sleep();
        door.retune(&policy);
        assert!(
            door.is_oversubscribed() && !door.spins(),
            "a change of the policy is none of the host"
        );
        assert_eq!(to_its_sleep(), Some(32), "the yields of a process that shares its processor");
    }

    #[test]
    fn a_wait_that_shares_its_processor_yields_anew_when_something_came() {
        let policy =
            Policy { slow_yield_ns: u64::MAX >> 24, yields_before_sleep: 4, ..Policy::new(true) };
        let door = Door::new(alone(true), policy);
        let mut wait = door.begin();
        for yields in [3, 4] {
            assert!((0..yields).all(|_| matches!(wait.next(), Next::Poll)));
            assert!(!wait.renew(), "others have the processor first");
        }
        assert_eq!((0..).find(|_| matches!(wait.next(), Next::Sleep(_))), Some(4));
        wait.renew();
        assert!(matches!(wait.next(), Next::Poll), "also after a sleep");
    }

    #[test]
    fn a_wait_may_count_its_polls() {
        let segment = alone(true);
        for (spinning, yields) in [(10_000, 3), (0, 1), (7, 0)] {
            for pause in [Pause::Yield, Pause::Select] {
                let policy = Policy {
                    poll_limits: Some(PollLimits { spinning, yields }),
                    pause,
                    slow_yield_ns: u64::MAX >> 24,
                    ..Policy::new(true)
                };
                let door = Door::new(segment.clone(), policy);
                let started = std::time::Instant::now();
                let mut wait = door.begin();
                let polls = (0..).find(|_| matches!(wait.next(), Next::Sleep(_)));
                assert_eq!(polls, Some(spinning + yields));
                if pause == Pause::Select {
                    assert!(started.elapsed() >= Duration::from_micros(10) * yields);
                }
            }
        }
    }

    #[test]
    fn no_wait_sleeps_if_none_shall() {
        let foreign_load = ForeignLoad::new(0);
        assert_eq!([0, 1, 100].map(|yielding| sleep_after(&foreign_load, yielding)), [0; 3]);
        assert_eq!(sleep_after(&ForeignLoad::new(5), 0), 5);
        let foreign_load = ForeignLoad::new(5);
        foreign_load.met_one();
        foreign_load.set_most(2);
        assert_eq!((0..).find(|_| !foreign_load.shall_sleep()), Some(2));
    }
}
