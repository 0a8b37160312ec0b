//! The pauses between attempts to reach a peer, the time to give up, and the reason to report.

use super::peer::{ConnectionFailure, FailureKind};
use std::time::Duration;

/// The pause after the first failure; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The least number of attempts, however long they take: the process may have been stopped
/// meanwhile.
const LEAST_TRIES: u32 = 10;

/// The attempts to reach a peer that have failed since the last success. Only failures that concern
/// the peer count: it refused or closed the connection, has no route, or has ended.
#[derive(Debug, Default)]
pub(super) struct FailedAttempts {
    tries: u32,
    since: Duration,
    /// All pauses, also those after failures that do not count.
    pauses: u32,
    /// The reason to report: the latest failure that this side has found itself. A connection that
    /// the other end closes or refuses tells no reason, and both often follow such a failure.
    reason: Option<ConnectionFailure>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Retry {
    Again(Duration),
    GiveUp {
        tries: u32,
        /// From the first failure to the last.
        time: Duration,
        reason: String,
    },
}

impl FailedAttempts {
    /// Counts a failed attempt, or a connection that brought nothing new. `now` is the time on any
    /// clock.
    pub(super) fn failed(
        &mut self,
        now: Duration,
        patience: Duration,
        failure: &ConnectionFailure,
    ) -> Retry {
        if self.tries == 0 {
            (self.since, self.reason) = (now, None);
        }
        let has_reason = |failure: &ConnectionFailure| failure.kind == FailureKind::Unreachable;
        if has_reason(failure) || !self.reason.as_ref().is_some_and(has_reason) {
            self.reason = Some(failure.clone());
        }
        self.tries += 1;
        let time = now.saturating_sub(self.since);
        if self.tries >= LEAST_TRIES && time >= patience {
            let reason = self.reason.as_ref().unwrap_or(failure).why.clone();
            return Retry::GiveUp { tries: self.tries, time, reason };
        }
        Retry::Again(self.unclear())
    }

    /// The pause after a failure that does not concern the peer.
    pub(super) fn unclear(&mut self) -> Duration {
        let doublings = self.pauses.min(16);
        self.pauses = self.pauses.saturating_add(1);
        (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE)
    }

    pub(super) fn over(&mut self) {
        (self.tries, self.pauses) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::greeting::GreetingError;
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let (mut failures, mut now, patience) =
            (FailedAttempts::default(), Duration::from_secs(3), Duration::from_secs(10));
        let mut pauses = Vec::new();
        let (tries, time) = loop {
            match failures.failed(now, patience, &ConnectionFailure::closed()) {
                Retry::Again(pause) => {
                    pauses.push(pause.as_millis());
                    now += pause;
                }
                Retry::GiveUp { tries, time, .. } => break (tries, time),
            }
        };
        assert_eq!(pauses[..12], [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500, 500]);
        assert_eq!(tries as usize, pauses.len() + 1);
        assert!(time >= patience && time < patience + LONGEST_PAUSE);
        failures.over();
        assert_eq!(
            failures.failed(now, patience, &ConnectionFailure::closed()),
            Retry::Again(FIRST_PAUSE)
        );
    }

    #[test]
    fn a_silent_peer_is_tried_for_ever() {
        let mut failures = FailedAttempts::default();
        let pauses: Vec<_> = (0..1000).map(|_| failures.unclear()).collect();
        assert_eq!(
            (pauses[0], pauses[1], pauses[999]),
            (FIRST_PAUSE, 2 * FIRST_PAUSE, LONGEST_PAUSE)
        );
        assert_eq!(
            failures.failed(Duration::MAX, Duration::ZERO, &ConnectionFailure::closed()),
            Retry::Again(LONGEST_PAUSE),
            "no pause counts"
        );
    }

    #[test]
    fn the_reported_reason_is_the_latest_of_this_side() {
        let changed = |n: usize| ConnectionFailure::from(format!("record {n} was changed"));
        let refused = ConnectionFailure::from(GreetingError::Refused);
        let closed = ConnectionFailure::closed();
        let series = [&closed, &changed(1), &refused, &changed(2), &closed, &refused];
        let mut failures = FailedAttempts::default();
        let mut reported = |failure: &ConnectionFailure| {
            for _ in 1..LEAST_TRIES {
                failures.failed(Duration::ZERO, Duration::ZERO, failure);
            }
            match failures.failed(Duration::ZERO, Duration::ZERO, &refused) {
                Retry::GiveUp { reason, .. } => reason,
                Retry::Again(_) => panic!("it has failed often enough"),
            }
        };
        let reasons = series.map(&mut reported);
        assert_eq!(reasons[0], refused.why, "none of this side");
        assert_eq!(reasons[1..3], [changed(1).why, changed(1).why]);
        assert_eq!(reasons[3..], [changed(2).why, changed(2).why, changed(2).why]);
        failures.over();
        assert_eq!(
            failures.failed(Duration::ZERO, Duration::ZERO, &closed),
            Retry::Again(FIRST_PAUSE)
        );
        assert_eq!(failures.reason, Some(closed), "it belongs to this series");
    }

    #[test]
    fn a_process_that_was_away_tries_some_times_more() {
        let mut failures = FailedAttempts::default();
        let hour = Duration::from_secs(3600);
        let gave_up = (0..20).find(|n| {
            matches!(
                failures.failed(hour * *n, hour / 60, &ConnectionFailure::closed()),
                Retry::GiveUp { .. }
            )
        });
        assert_eq!(gave_up, Some(LEAST_TRIES - 1));
    }
}
