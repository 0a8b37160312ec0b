//! State queries to other hosts, and events that are handled only when all earlier reports from
//! there are known.

use std::time::{Duration, Instant};

use super::super::launcher::Launcher;
use crate::hosts::head::RemoteAgent;
use crate::job::JobEvent;

const CHECK_GRACE: Duration = Duration::from_secs(2);

impl Launcher<'_> {
    /// Queries the state of the processes on other hosts.
    pub(in super::super) fn query_agents(&mut self) {
        self.far.iter_mut().flatten().for_each(RemoteAgent::query);
    }

    /// Queries the state of the processes on other hosts if the query before is answered. Returns
    /// whether all their states are newer than that query; never after the first one.
    pub(in super::super) fn watch_far(&mut self, is_first: bool) -> bool {
        let all = self.far.iter().flatten();
        let is_alone = all.clone().next().is_none();
        let is_answered = all.clone().all(RemoteAgent::has_answered_watch);
        if is_first || is_answered {
            self.far.iter_mut().flatten().for_each(RemoteAgent::watch);
        }
        is_alone || (is_answered && !is_first)
    }

    /// Handles an event when all earlier reports of other hosts are known.
    pub(in super::super) fn handle_after_checks(&mut self, event: JobEvent) {
        self.query_agents();
        self.deferred.push(event);
        let now = Instant::now();
        self.deferred_until.get_or_insert(now + CHECK_GRACE);
        self.handle_deferred(now);
    }

    /// Handles an event after the deferred ones.
    pub(in super::super) fn handle_in_order(&mut self, event: JobEvent) {
        if self.deferred.is_empty() {
            self.handle_event(event);
        } else {
            self.deferred.push(event);
        }
    }

    /// Handles the deferred events if the reports are known, or the wait is over.
    pub(in super::super) fn handle_deferred(&mut self, now: Instant) {
        let is_known = self.are_checks_answered();
        self.begin_quiescing(now, is_known);
        if self.deferred.is_empty()
            || !(is_known || self.deferred_until.is_some_and(|until| until <= now))
        {
            return;
        }
        self.deferred_until = None;
        for event in std::mem::take(&mut self.deferred) {
            let event = match event {
                JobEvent::TimedOut { time, .. } => {
                    JobEvent::TimedOut { time, seen: self.glimpses(), waits: self.waits() }
                }
                event => event,
            };
            let ended = if let JobEvent::Exited { rank, .. } = event { Some(rank) } else { None };
            self.handle_event(event);
            ended.into_iter().for_each(|rank| self.report_end_to_others(rank, false));
        }
    }

    pub(in super::super) fn are_checks_answered(&self) -> bool {
        self.far.iter().flatten().all(|far| far.unanswered_queries == 0)
    }
}
