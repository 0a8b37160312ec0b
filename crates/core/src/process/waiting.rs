//! Looks at what has come, and waits.

use super::Process;
use super::domain::{Domain, Due};
use crate::awaited::{Awaited, Telling};
use crate::tool::Seen;
use oxmpi_engine::{Kept, RequestId, Rest};
use oxmpi_fabric::Fabric;
use oxmpi_shm::door::Next;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a process sleeps at most while messages wait for room at peers that cannot wake it.
const SHORT_SLEEP: Duration = Duration::from_millis(1);

/// What came of a look.
enum Looked<F, R, Q> {
    Answered(R),
    /// Something must be done first; the question is not asked yet.
    Due(Due<F>, Q),
}

impl<F: Fabric> Process<F> {
    /// Lets things go on without waiting, then asks `question`. User functions that are due are called here, with no
    /// lock held.
    #[inline]
    pub(crate) fn look<R>(&self, question: impl FnOnce(&mut Domain<F>) -> R) -> R {
        self.look_all(|domain, _| question(domain))
    }

    /// As [`Process::look`] for a question that the program asks again and again as long as the answer is `in_vain`. With more
    /// ranks than processors it asks for something that another one must do, perhaps on this very processor.
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

    /// As [`Process::look`]; the question is also told whether anything came, so that more may lie there.
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

    /// Looks until a user's function is due, or until the end; only then the question is asked.
    #[inline]
    fn look_once<R, Q: FnOnce(&mut Domain<F>, bool) -> R>(&self, question: Q) -> Looked<F, R, Q> {
        let (looked, seen) = self.look_once_untold(question);
        if let Some(seen) = seen {
            self.tool.tell(seen);
        }
        looked
    }

    /// As [`Process::look_once`]; a tool is to be told of what was seen, when the caller holds nothing that others need.
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

    /// Does what is due. No lock is held, and this thread has announced nothing.
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

    /// Does something with the lane lock held. If anything has happened for which a thread of this process may sleep,
    /// they are woken.
    #[inline]
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&mut Domain<F>) -> R) -> R {
        let (result, seen) = self.enter_untold(f);
        if let Some(seen) = seen {
            self.tool.tell(seen);
        }
        result
    }

    /// As [`Process::enter`]; a tool is to be told of what was seen, when the caller holds nothing that others need.
    #[inline]
    fn enter_untold<R>(&self, f: impl FnOnce(&mut Domain<F>) -> R) -> (R, Option<Seen>) {
        let mut domain = self.domain.lock();
        let result = f(&mut domain);
        // A process that is observed has threads (`observe`), so that the others ask one question only.
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

    /// Waits until `question` has an answer, letting things go on meanwhile; `awaited` says what it is about.
    pub(crate) fn wait_for<R>(
        &self,
        awaited: &Awaited<'_, F>,
        question: impl FnMut(&mut Domain<F>) -> Option<R>,
    ) -> R {
        self.wait_for_announced(awaited, question, || ())
    }

    /// As [`Process::wait_for`], for an answer that does not come by the fabric: `announce` tells whoever makes it that
    /// this process is about to sleep, after which the question is asked once more.
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

    /// As [`Process::wait_for`], but not much longer than `limit`; `None`: there was no answer.
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

    /// Waits after a look in vain.
    fn wait_at_most<R>(
        &self,
        limit: Option<Instant>,
        telling: &mut Telling<'_, F>,
        mut question: impl FnMut(&mut Domain<F>) -> Option<R>,
        mut announce: impl FnMut(),
    ) -> Option<R> {
        let Some(door) = &self.door else {
            // The virtual world never waits: its scripts ask again when something has come.
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
            // A tool's function may call MPI and wait: another thread shall look at the sockets meanwhile.
            if self.tool.is_observed() {
                wait.end_turn();
            }
            let (mut heard, mut nap) = (None, None);
            let has_spun = wait.has_spun();
            let due = match if at_once { Next::Poll } else { wait.next() } {
                Next::Poll => {
                    let answer = self.look_all(|domain, something| {
                        came = something;
                        // What this process waits for may depend on a process that waits for one of its sends.
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
                        // Such libraries wake no process.
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
                // It may take long: another thread shall look at the sockets meanwhile.
                wait.end_turn();
                self.carry_out(due);
            }
            if came | came_late {
                telling.note_news();
            }
            // Whoever was woken finds what has come without announcing a sleep first, which takes a barrier; and whatever came, more of it
            // may follow at once.
            at_once = has_slept || (came | came_late) && wait.renew();
        }
    }
}

/// A call of a user's function, which an exception may leave.
struct Left<'a, F: Fabric> {
    process: &'a Process<F>,
    request: RequestId,
}

impl<F: Fabric> Drop for Left<'_, F> {
    fn drop(&mut self) {
        self.process.domain.lock().callback_left(self.request);
    }
}
