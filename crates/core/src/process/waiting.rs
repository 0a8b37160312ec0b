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

/// The longest sleep while messages wait for room at peers that cannot wake this process.
const SHORT_SLEEP: Duration = Duration::from_millis(1);

enum Progressed<F, R, Q> {
    Answered(R),
    /// Work must be done before the question.
    Due(DueWork<F>, Q),
}

impl<F: Fabric> Process<F> {
    /// Makes progress without waiting, then calls `question`. DueWork functions of the program are
    /// called here, without a lock.
    #[inline]
    pub(crate) fn look<R>(&self, question: impl FnOnce(&mut Domain<F>) -> R) -> R {
        self.look_all(|domain, _| question(domain))
    }

    /// [`Process::look`] for a question that the program repeats while the answer is `in_vain`. On
    /// an oversubscribed node it yields the processor then, as the awaited process may need this
    /// very processor.
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

    /// [`Process::look`] whose question also receives whether frames arrived.
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

    /// Makes progress until a function of the program is due; without one, calls the question.
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

    /// [`Process::look_once`]; the caller must report the observations to the tool, without a lock.
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

    /// Carries out due work. No lock is held, and this thread has not announced a sleep.
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

    /// Calls `f` with the lane locked, and wakes sleeping threads if something happened for them.
    #[inline]
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&mut Domain<F>) -> R) -> R {
        let (result, seen) = self.enter_unreported(f);
        if let Some(seen) = seen {
            self.tool.report(seen);
        }
        result
    }

    /// [`Process::enter`]; the caller must report the observations to the tool, without a lock.
    #[inline]
    fn enter_unreported<R>(
        &self,
        f: impl FnOnce(&mut Domain<F>) -> R,
    ) -> (R, Option<ObservedEvents>) {
        let mut domain = self.domain.lock();
        let result = f(&mut domain);
        // An observed process counts as one with threads (`observe`): one test less for the others.
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

    /// Waits for an answer of `question` and makes progress meanwhile; `awaited` describes the
    /// wait.
    pub(crate) fn wait_for<R>(
        &self,
        awaited: &Awaited<'_, F>,
        question: impl FnMut(&mut Domain<F>) -> Option<R>,
    ) -> R {
        self.wait_for_announced(awaited, question, || ())
    }

    /// [`Process::wait_for`] for an answer that does not come by the fabric: `announce` announces
    /// the sleep to its sender; then the question is called once more.
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

    /// [`Process::wait_for`] until about `limit`; `None`: there was no answer.
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
        // Another thread may wait for a send.
        let is_shared = self.is_threaded();
        let awaited = note_writer.awaited();
        let kept =
            |domain: &Domain<F>| if is_shared { CopiedSends::All } else { domain.kept(awaited) };
        let mut wait = door.begin();
        let mut at_once = false;
        loop {
            let (mut came, mut came_late, mut has_slept) = (false, false, false);
            // A tool's function may call MPI and wait: another thread must poll the sockets.
            if self.tool.is_observed() {
                wait.end_turn();
            }
            let (mut observed, mut nap) = (None, None);
            let has_spun = wait.has_spun();
            let due = match if at_once { Next::Poll } else { wait.next() } {
                Next::Poll => {
                    let answer = self.look_all(|domain, something| {
                        came = something;
                        // The awaited process may wait for one of this process's sends itself.
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
                        // These libraries do not wake a process.
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
                // It may take long: another thread must poll the sockets meanwhile.
                wait.end_turn();
                self.carry_out(due);
            }
            if came | came_late {
                note_writer.note_news();
            }
            // After a sleep the first poll needs no announcement, which takes a barrier; after an
            // arrival more may follow at once.
            at_once = has_slept || (came | came_late) && wait.renew();
        }
    }
}

/// The call of a user's function, which an exception may leave.
struct UserCallGuard<'a, F: Fabric> {
    process: &'a Process<F>,
    request: RequestId,
}

impl<F: Fabric> Drop for UserCallGuard<'_, F> {
    fn drop(&mut self) {
        self.process.domain.lock().callback_left(self.request);
    }
}
