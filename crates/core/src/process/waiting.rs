//! Progress and waiting.

use super::Process;
use super::domain::{Domain, DueWork};
use crate::tool::ObservedEvents;
use crate::wait_reason::{Awaited, WaitNoteWriter};
use oxmpi_engine::{CopiedSends, RequestId, Rest};
use oxmpi_fabric::Fabric;
use oxmpi_shm::door::Next;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest sleep while messages wait for room at peers that do not wake this process.
const SHORT_SLEEP: Duration = Duration::from_millis(1);

enum Progressed<F, R, Q> {
    Answered(R),
    Due(DueWork<F>, Q),
}

impl<F: Fabric> Process<F> {
    /// Makes progress without waiting, then calls `question`. Functions of the program that are due
    /// are called here, without a lock.
    #[inline]
    pub(crate) fn look<R>(&self, question: impl FnOnce(&mut Domain<F>) -> R) -> R {
        self.look_all(|domain, _| question(domain))
    }

    /// [`Process::look`] for a question that the program repeats while the answer is `in_vain`;
    /// after such an answer it yields the processor on an oversubscribed node.
    #[inline]
    pub(crate) fn look_again<R>(
        &self,
        question: impl FnOnce(&mut Domain<F>) -> R,
        in_vain: impl FnOnce(&R) -> bool,
    ) -> R {
        let answer = self.look(question);
        if in_vain(&answer)
            && let Some(door) = &self.door
            && door.is_oversubscribed()
        {
            door.step_aside();
        }
        answer
    }

    #[inline]
    pub(crate) fn look_all<R>(&self, question: impl FnOnce(&mut Domain<F>, bool) -> R) -> R {
        let mut question = question;
        loop {
            match self.look_once(question) {
                Progressed::Answered(answer) => return answer,
                Progressed::Due(due, unasked) => {
                    self.carry_out(due);
                    question = unasked;
                }
            }
        }
    }

    #[inline]
    fn look_once<R, Q: FnOnce(&mut Domain<F>, bool) -> R>(
        &self,
        question: Q,
    ) -> Progressed<F, R, Q> {
        let (progressed, seen) = self.look_once_unreported(question);
        if let Some(seen) = seen {
            self.tool.report(seen);
        }
        progressed
    }

    #[inline]
    fn look_once_unreported<R, Q: FnOnce(&mut Domain<F>, bool) -> R>(
        &self,
        question: Q,
    ) -> (Progressed<F, R, Q>, Option<ObservedEvents>) {
        self.enter_unreported(|domain| {
            let mut came = domain.lane.progress();
            if domain.lane.take_alarm() {
                domain.attend();
            }
            if came || domain.serving {
                came |= domain.serve();
            }
            let idle = domain.runs.is_empty() && domain.works.0.is_empty();
            match if idle { None } else { domain.advance() } {
                Some(due) => Progressed::Due(due, question),
                None => Progressed::Answered(question(domain, came)),
            }
        })
    }

    /// The caller holds no lock and has not announced a sleep.
    fn carry_out(&self, due: DueWork<F>) {
        match due {
            DueWork::Call { request, call, reduction } => {
                let left = UserCallGuard { process: self, request };
                call(&reduction);
                std::mem::forget(left);
                self.domain.lock().callback_done(request);
            }
            DueWork::Works(works) => works.into_iter().for_each(|work| work(self)),
        }
    }

    /// Calls `f` with the lane locked. Wakes sleeping threads if `f` has news for them.
    #[inline]
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&mut Domain<F>) -> R) -> R {
        let (result, seen) = self.enter_unreported(f);
        if let Some(seen) = seen {
            self.tool.report(seen);
        }
        result
    }

    #[inline]
    fn enter_unreported<R>(
        &self,
        f: impl FnOnce(&mut Domain<F>) -> R,
    ) -> (R, Option<ObservedEvents>) {
        let mut domain = self.domain.lock();
        let result = f(&mut domain);
        // `observe` marks an observed process as one with threads, which saves all others a test.
        if !self.threaded.load(Ordering::Relaxed) {
            return (result, None);
        }
        let wake = domain.lane.take_news();
        let seen = self.tool.collect(&mut domain);
        drop(domain);
        if wake && let Some(door) = &self.door {
            door.ring_own();
        }
        (result, seen)
    }

    /// Makes progress until `question` has an answer; `awaited` describes the wait.
    pub(crate) fn wait_for<R>(
        &self,
        awaited: &Awaited<'_, F>,
        question: impl FnMut(&mut Domain<F>) -> Option<R>,
    ) -> R {
        self.wait_for_announced(awaited, question, || ())
    }

    /// [`Process::wait_for`] for an answer that does not come by the fabric. Before each sleep,
    /// `announce` notifies the process that brings the answer, and `question` is called once more.
    pub(crate) fn wait_for_announced<R>(
        &self,
        awaited: &Awaited<'_, F>,
        mut question: impl FnMut(&mut Domain<F>) -> Option<R>,
        mut announce: impl FnMut(),
    ) -> R {
        if let Some(answer) = self.look(&mut question) {
            return answer;
        }
        let mut note_writer = self.wait_note_writer(awaited);
        loop {
            if let Some(answer) =
                self.wait_at_most(None, &mut note_writer, &mut question, &mut announce)
            {
                return answer;
            }
        }
    }

    /// [`Process::wait_for`] until about `limit`. Returns `None` if there was no answer by then.
    pub(crate) fn wait_until<R>(
        &self,
        limit: Instant,
        note_writer: &mut WaitNoteWriter<'_, F>,
        mut question: impl FnMut(&mut Domain<F>) -> Option<R>,
    ) -> Option<R> {
        match self.look(&mut question) {
            None => self.wait_at_most(Some(limit), note_writer, question, || ()),
            answer => answer,
        }
    }

    fn wait_at_most<R>(
        &self,
        limit: Option<Instant>,
        note_writer: &mut WaitNoteWriter<'_, F>,
        mut question: impl FnMut(&mut Domain<F>) -> Option<R>,
        mut announce: impl FnMut(),
    ) -> Option<R> {
        let Some(door) = &self.door else {
            // Scripts of the virtual world repeat their question when a frame arrives.
            panic!("a process without a door waits");
        };
        if door.has_semaphores() {
            door.will_await(note_writer.awaits());
        }
        // In a process with threads, another thread may wait for any of the sends.
        let is_shared = self.is_threaded();
        let awaited = note_writer.awaited();
        let kept =
            |domain: &Domain<F>| if is_shared { CopiedSends::All } else { domain.kept(awaited) };
        let mut wait = door.begin();
        let mut at_once = false;
        loop {
            let (mut came, mut came_late, mut has_slept) = (false, false, false);
            // A tool's function may call MPI and wait, so another thread must be able to poll.
            if self.tool.is_observed() {
                wait.end_turn();
            }
            let (mut observed, mut nap) = (None, None);
            let has_spun = wait.has_spun();
            let due = match if at_once { Next::Poll } else { wait.next() } {
                Next::Poll => {
                    let answer = self.look_all(|domain, something| {
                        came = something;
                        // The awaited process may itself wait for one of this process's sends.
                        if has_spun && domain.lane.has_keepable() {
                            domain.lane.keep_sends(kept(domain));
                        }
                        question(domain)
                    });
                    if let Some(answer) = answer {
                        return Some(answer);
                    }
                    None
                }
                Next::Sleep(sleepy) => {
                    announce();
                    self.domain.lock().announce_sleep_above();
                    let (last, seen) = self.look_once_unreported(|domain, something| {
                        came_late = something;
                        // UCC and hcoll do not wake a process.
                        nap = domain.handed.nap();
                        question(domain).ok_or_else(|| {
                            if something || domain.moved {
                                return Rest::Not;
                            }
                            let kept = kept(domain);
                            domain.lane.announce_sleep(kept)
                        })
                    });
                    match last {
                        last if seen.is_some() => {
                            sleepy.cancel();
                            let (answer, due) = match last {
                                Progressed::Answered(answer) => (answer.ok(), None),
                                Progressed::Due(due, _) => (None, Some(due)),
                            };
                            observed = seen.map(|seen| (seen, answer));
                            due
                        }
                        Progressed::Answered(Ok(answer)) => {
                            sleepy.cancel();
                            return Some(answer);
                        }
                        Progressed::Answered(Err(rest)) => {
                            let left =
                                limit.map(|limit| limit.saturating_duration_since(Instant::now()));
                            match rest {
                                _ if left.is_some_and(|left| left.is_zero()) => return None,
                                Rest::Not => sleepy.cancel(),
                                Rest::Short => {
                                    note_writer.before_sleep();
                                    sleepy.sleep(nap.into_iter().chain([SHORT_SLEEP]).min());
                                    has_slept = true;
                                }
                                Rest::Long => {
                                    let most = note_writer.before_sleep();
                                    sleepy.sleep(most.into_iter().chain(left).chain(nap).min());
                                    has_slept = true;
                                }
                            }
                            None
                        }
                        Progressed::Due(due, _) => {
                            sleepy.cancel();
                            Some(due)
                        }
                    }
                }
            };
            if let Some((seen, answer)) = observed {
                wait.end_turn();
                self.tool.report(seen);
                if answer.is_some() {
                    return answer;
                }
            }
            if let Some(due) = due {
                // The work may take long, so another thread must be able to poll.
                wait.end_turn();
                self.carry_out(due);
            }
            if came | came_late {
                note_writer.note_news();
            }
            // Announcing a sleep takes a barrier. The first poll after a sleep needs none. After an
            // arrival the next frames may follow at once.
            at_once = has_slept || (came | came_late) && wait.renew();
        }
    }
}

struct UserCallGuard<'a, F: Fabric> {
    process: &'a Process<F>,
    request: RequestId,
}

impl<F: Fabric> Drop for UserCallGuard<'_, F> {
    fn drop(&mut self) {
        self.process.domain.lock().callback_left(self.request);
    }
}
