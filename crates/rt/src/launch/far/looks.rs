//! Looks at how far processes on other hosts are, and events that are told only when what was known there is known here.

use std::time::{Duration, Instant};

use super::super::launcher::Launcher;
use crate::hosts::head::Far;
use crate::job::Event;

/// How long the answers to a look are awaited.
const LOOK_GRACE: Duration = Duration::from_secs(2);

impl Launcher<'_> {
    /// Asks how far the processes on other hosts are.
    pub(in super::super) fn look_far(&mut self) {
        self.far.iter_mut().flatten().for_each(Far::look);
    }

    /// Asks how far the processes on other hosts are if what was asked so before is answered. Whether that was, and all that is
    /// known of them has come since, as it has not if this is the first time.
    pub(in super::super) fn watch_far(&mut self, is_first: bool) -> bool {
        let all = self.far.iter().flatten();
        let is_alone = all.clone().next().is_none();
        let is_answered = all.clone().all(Far::has_answered_watch);
        if is_first || is_answered {
            self.far.iter_mut().flatten().for_each(Far::watch);
        }
        is_alone || (is_answered && !is_first)
    }

    /// Tells the state machine of an event when all that the other hosts have said by now is known.
    pub(in super::super) fn tell_after_look(&mut self, event: Event) {
        self.look_far();
        self.deferred.push(event);
        let now = Instant::now();
        self.deferred_until.get_or_insert(now + LOOK_GRACE);
        self.tell_deferred(now);
    }

    /// Tells it of an event behind those that wait for that.
    pub(in super::super) fn tell_in_turn(&mut self, event: Event) {
        if self.deferred.is_empty() {
            self.tell(event);
        } else {
            self.deferred.push(event);
        }
    }

    /// Does so if it is known, or nobody should wait any longer.
    pub(in super::super) fn tell_deferred(&mut self, now: Instant) {
        let is_known = self.is_look_over();
        self.begin_quiescing(now, is_known);
        if self.deferred.is_empty() || !(is_known || self.deferred_until.is_some_and(|until| until <= now)) {
            return;
        }
        self.deferred_until = None;
        for event in std::mem::take(&mut self.deferred) {
            let event = match event {
                Event::TimedOut { time, .. } => {
                    Event::TimedOut { time, seen: self.glimpses(), waits: self.waits() }
                }
                event => event,
            };
            let ended = if let Event::Exited { rank, .. } = event { Some(rank) } else { None };
            self.tell(event);
            ended.into_iter().for_each(|rank| self.tell_others_of_end(rank, false));
        }
    }

    /// Whether all agents have answered what they were asked.
    pub(in super::super) fn is_look_over(&self) -> bool {
        self.far.iter().flatten().all(|far| far.looks == 0)
    }
}
