//! Events that are handled only when all earlier reports from other hosts are known.

use std::time::{Duration, Instant};

use super::super::launcher::Launcher;
use crate::job::JobEvent;

const CHECK_GRACE: Duration = Duration::from_secs(2);

/// The events that wait.
#[derive(Debug, Default)]
pub(in super::super) struct DeferredEvents {
    events: Vec<JobEvent>,
    until: Option<Instant>,
    /// Aborts that wait until all messages so far are read.
    aborts: Vec<JobEvent>,
}

impl DeferredEvents {
    pub(in super::super) fn time(&self) -> Option<Instant> {
        self.until
    }

    fn add(&mut self, event: JobEvent, now: Instant) {
        self.events.push(event);
        self.until.get_or_insert(now + CHECK_GRACE);
    }

    /// Returns the event if it need not wait behind another one.
    fn pass(&mut self, event: JobEvent) -> Option<JobEvent> {
        if self.events.is_empty() {
            return Some(event);
        }
        self.events.push(event);
        None
    }

    /// The events, if the reports are known or the wait is over.
    fn take(&mut self, now: Instant, is_known: bool) -> Vec<JobEvent> {
        if !is_known && self.until.is_none_or(|until| until > now) {
            return Vec::new();
        }
        self.until = None;
        std::mem::take(&mut self.events)
    }

    /// Returns whether the abort is the first one, behind which others queue.
    pub(in super::super) fn add_abort(&mut self, abort: JobEvent) -> bool {
        self.aborts.push(abort);
        self.aborts.len() == 1
    }

    pub(in super::super) fn take_aborts(&mut self) -> Vec<JobEvent> {
        std::mem::take(&mut self.aborts)
    }
}

impl Launcher<'_> {
    /// Handles an event when all earlier reports of other hosts are known.
    pub(in super::super) fn handle_after_checks(&mut self, event: JobEvent) {
        self.branches.query();
        let now = Instant::now();
        self.deferred.add(event, now);
        self.handle_deferred(now);
    }

    /// Handles an event after the deferred ones.
    pub(in super::super) fn handle_in_order(&mut self, event: JobEvent) {
        if let Some(event) = self.deferred.pass(event) {
            self.handle_event(event);
        }
    }

    /// Handles the deferred events if the reports are known, or the wait is over.
    pub(in super::super) fn handle_deferred(&mut self, now: Instant) {
        let is_known = self.branches.are_queries_answered();
        self.begin_quiescing(now, is_known);
        for event in self.deferred.take(now, is_known) {
            let event = match event {
                JobEvent::TimedOut { time, .. } => {
                    JobEvent::TimedOut { time, seen: self.glimpses(), waits: self.waits() }
                }
                event => event,
            };
            let ended = if let JobEvent::Exited { rank, .. } = event { Some(rank) } else { None };
            self.handle_event(event);
            ended.into_iter().for_each(|rank| self.links.report_end(rank, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_wait_for_reports_or_their_limit_and_keep_their_order() {
        let (mut all, now) = (DeferredEvents::default(), Instant::now());
        let event = JobEvent::Signal;
        assert_eq!(all.pass(event(1)), Some(event(1)));
        all.add(event(2), now);
        all.add(event(3), now + CHECK_GRACE / 2);
        assert_eq!(all.pass(event(4)), None);
        assert_eq!((all.take(now, false), all.time()), (Vec::new(), Some(now + CHECK_GRACE)));
        assert_eq!(all.take(now + CHECK_GRACE, false), [event(2), event(3), event(4)]);
        assert_eq!((all.time(), all.pass(event(5))), (None, Some(event(5))));
        all.add(event(6), now);
        assert_eq!(all.take(now, true), [event(6)]);
    }

    #[test]
    fn aborts_queue_behind_the_first_one() {
        let mut all = DeferredEvents::default();
        assert!(all.add_abort(JobEvent::GraceOver) && !all.add_abort(JobEvent::Unread));
        assert_eq!(all.take_aborts(), [JobEvent::GraceOver, JobEvent::Unread]);
    }
}
