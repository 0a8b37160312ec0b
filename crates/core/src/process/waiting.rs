//! Progress and waiting.

use super::Process;
use super::domain::{Domain, Due};
use crate::awaited::{Awaited, Telling};
use crate::tool::Seen;
use oxmpi_engine::{Kept, RequestId, Rest};
use oxmpi_fabric::Fabric;
use oxmpi_shm::door::Next;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest sleep while messages wait for room at peers that cannot wake this process.
const SHORT_SLEEP: Duration = Duration::from_millis(1);

enum Looked<F, R, Q> {
    Answered(R),
    /// Work must be done before the question.
    Due(Due<F>, Q),
}

impl<F: Fabric> Process<F> {
    /// Makes progress without waiting, then calls `question`. Due functions of the program are
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

    /// [`Process::look`] whose question also receives whether frames arrived, so that more may
    /// follow.
    #[inline]
    pub(crate) fn look_all<R>(&self, question: impl FnOnce(&mut Domain<F>, bool) -> R) -> R {
        let mut question = question;
        loop {
            match self.look_once(question) {
                Looked::Answered(answer) => return answer,
                Looked::Due(due, unasked) => {
                    self.carry_out(due);
                    question = unasked;
                }
            }
        }
    }

    /// Makes progress until a function of the program is due, or to the end; only then calls the
    /// question.
    #[inline]
    fn look_once<R, Q: FnOnce(&mut Domain<F>, bool) -> R>(&self, question: Q) -> Looked<F, R, Q> {
        let (looked, seen) = self.look_once_untold(question);
        if let Some(seen) = seen {
            self.tool.tell(seen);
        }
        looked
    }

    /// [`Process::look_once`]; the caller reports the observations to the tool, when it holds no
    /// lock.
    #[inline]
    fn look_once_untold<R, Q: FnOnce(&mut Domain<F>, bool) -> R>(
        &self,
        question: Q,
    ) -> (Looked<F, R, Q>, Option<Seen>) {
        self.enter_untold(|domain| {
            let mut came = domain.lane.progress();
            if domain.lane.take_alarm() {
                domain.attend();
            }
            if came || domain.serving {
                came |= domain.serve();
            }
            let idle = domain.runs.is_empty() && domain.works.0.is_empty();
            match if idle { None } else { domain.advance() } {
                Some(due) => Looked::Due(due, question),
                None => Looked::Answered(question(domain, came)),
            }
        })
    }

    /// Carries out due work. No lock is held, and this thread has not announced a sleep.
    fn carry_out(&self, due: Due<F>) {
        match due {
            Due::Call { request, call, reduction } => {
                let left = Left { process: self, request };
                call(&reduction);
                std::mem::forget(left);
                self.domain.lock().callback_done(request);
            }
            Due::Works(works) => works.into_iter().for_each(|work| work(self)),
        }
    }

    /// Calls `f` with the lane locked, and wakes the sleeping threads of this process if something
    /// happened for them.
    #[inline]
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&mut Domain<F>) -> R) -> R {
        let (result, seen) = self.enter_untold(f);
        if let Some(seen) = seen {
            self.tool.tell(seen);
        }
        result
    }

    /// [`Process::enter`]; the caller reports the observations to the tool, when it holds no lock.
    #[inline]
    fn enter_untold<R>(&self, f: impl FnOnce(&mut Domain<F>) -> R) -> (R, Option<Seen>) {
        let mut domain = self.domain.lock();
        let result = f(&mut domain);
        // An observed process counts as one with threads (`observe`), so that others need one test
        // only.
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

    /// Waits until `question` has an answer, and makes progress meanwhile; `awaited` describes the
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
        let mut telling = self.telling(awaited);
        loop {
            if let Some(answer) = self.wait_at_most(None, &mut telling, &mut question, &mut announce) {
                return answer;
            }
        }
    }

    /// [`Process::wait_for`] until about `limit`; `None`: there was no answer.
    pub(crate) fn wait_until<R>(
        &self,
        limit: Instant,
        telling: &mut Telling<'_, F>,
        mut question: impl FnMut(&mut Domain<F>) -> Option<R>,
    ) -> Option<R> {
        match self.look(&mut question) {
            None => self.wait_at_most(Some(limit), telling, question, || ()),
            answer => answer,
        }
    }

    fn wait_at_most<R>(
        &self,
        limit: Option<Instant>,
        telling: &mut Telling<'_, F>,
        mut question: impl FnMut(&mut Domain<F>) -> Option<R>,
        mut announce: impl FnMut(),
    ) -> Option<R> {
        let Some(door) = &self.door else {
            // Scripts of the virtual world repeat their question when a frame arrives.
            panic!("a process without a door waits");
        };
        if door.has_semaphores() {
            door.will_await(telling.awaits());
        }
        // Another thread may wait for a send.
        let is_shared = self.is_threaded();
        let awaited = telling.awaited();
        let kept = |domain: &Domain<F>| if is_shared { Kept::All } else { domain.kept(awaited) };
        let mut wait = door.begin();
        let mut at_once = false;
        loop {
            let (mut came, mut came_late, mut has_slept) = (false, false, false);
            // A tool's function may call MPI and wait: another thread must poll the sockets
            // meanwhile.
            if self.tool.is_observed() {
                wait.end_turn();
            }
            let (mut heard, mut nap) = (None, None);
            let has_spun = wait.has_spun();
            let due = match if at_once { Next::Look } else { wait.next() } {
                Next::Look => {
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
                    let (last, seen) = self.look_once_untold(|domain, something| {
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
                                Looked::Answered(answer) => (answer.ok(), None),
                                Looked::Due(due, _) => (None, Some(due)),
                            };
                            heard = seen.map(|seen| (seen, answer));
                            due
                        }
                        Looked::Answered(Ok(answer)) => {
                            sleepy.cancel();
                            return Some(answer);
                        }
                        Looked::Answered(Err(rest)) => {
                            let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
                            match rest {
                                _ if left.is_some_and(|left| left.is_zero()) => return None,
                                Rest::Not => sleepy.cancel(),
                                Rest::Short => {
                                    telling.before_sleep();
                                    sleepy.sleep(nap.into_iter().chain([SHORT_SLEEP]).min());
                                    has_slept = true;
                                }
                                Rest::Long => {
                                    let most = telling.before_sleep();
                                    sleepy.sleep(most.into_iter().chain(left).chain(nap).min());
                                    has_slept = true;
                                }
                            }
                            None
                        }
                        Looked::Due(due, _) => {
                            sleepy.cancel();
                            Some(due)
                        }
                    }
                }
            };
            if let Some((seen, answer)) = heard {
                wait.end_turn();
                self.tool.tell(seen);
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
                telling.note_news();
            }
            // After a sleep the first poll needs no announcement, which takes a barrier; after an
            // arrival more may follow at once.
            at_once = has_slept || (came | came_late) && wait.renew();
        }
    }
}

/// The call of a user's function, which an exception may leave.
struct Left<'a, F: Fabric> {
    process: &'a Process<F>,
    request: RequestId,
}

impl<F: Fabric> Drop for Left<'_, F> {
    fn drop(&mut self) {
        self.process.domain.lock().callback_left(self.request);
    }
}
