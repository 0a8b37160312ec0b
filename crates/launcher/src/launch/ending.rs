//! The end of the jobs: their time limits, and how they have ended.

use std::time::{Duration, Instant};

use super::Deadline;

/// The exit status of a job that has ended with a checkpoint: EX_TEMPFAIL of sysexits(3), "try
/// again".
const CHECKPOINTED: i32 = 75;

#[derive(Debug, Default)]
pub(super) struct JobEnd {
    /// The time limit of the job (`--timeout`).
    limit: Option<Instant>,
    /// When the state machine continues to end the processes.
    grace: Option<Instant>,
    /// The exit status, when all ranks have ended.
    finished: Option<i32>,
    is_checkpointed: bool,
    /// The signal that ends the wait for the reader of the output.
    interrupted: Option<i32>,
}

impl JobEnd {
    pub(super) fn of(deadline: Option<Deadline>) -> JobEnd {
        let limit = deadline.map(|deadline| Instant::now() + deadline.left());
        JobEnd { limit, ..JobEnd::default() }
    }

    pub(super) fn time(&self) -> Option<Instant> {
        self.limit.into_iter().chain(self.grace).min()
    }

    pub(super) fn time_left(&self, now: Instant) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_duration_since(now))
    }

    /// Whether the time limit of the job is over, and not handled yet.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.limit.is_some_and(|limit| limit <= now)
    }

    /// Returns, once, whether the time limit of the job is over.
    pub(super) fn take_limit(&mut self, now: Instant) -> bool {
        self.limit.take_if(|limit| *limit <= now).is_some()
    }

    /// Gives processes time to end.
    pub(super) fn grant(&mut self, time: Duration) {
        self.grace = Some(Instant::now() + time);
    }

    /// Returns, once, whether that time is over.
    pub(super) fn take_grace(&mut self, now: Instant) -> bool {
        self.grace.take_if(|grace| *grace <= now).is_some()
    }

    /// All ranks have ended.
    pub(super) fn finish(&mut self, code: i32) {
        self.finished = Some(code);
    }

    /// The exit status, when all ranks have ended. Only output is awaited then, without limits.
    pub(super) fn finished(&mut self) -> Option<i32> {
        let code = self.finished?;
        (self.limit, self.grace) = (None, None);
        Some(code)
    }

    pub(super) fn is_over(&self) -> bool {
        self.finished.is_some()
    }

    /// The job ends with a checkpoint, from which it can be restarted.
    pub(super) fn note_checkpoint(&mut self) {
        self.is_checkpointed = true;
    }

    /// The exit status of a job that ends with a checkpoint.
    pub(super) fn checkpointed(&self) -> Option<i32> {
        self.is_checkpointed.then_some(CHECKPOINTED)
    }

    pub(super) fn interrupt(&mut self, signal: i32) {
        self.interrupted = Some(signal);
    }

    pub(super) fn interrupted(&self) -> Option<i32> {
        self.interrupted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_over_once_and_none_is_left_when_the_ranks_have_ended() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut end = JobEnd { limit: Some(now + second), ..JobEnd::default() };
        assert_eq!(end.time_left(now + 3 * second), Some(Duration::ZERO));
        assert!(!end.is_late(now) && !end.take_limit(now) && end.is_late(now + second));
        assert!(end.take_limit(now + second) && !end.take_limit(now + second));
        end.grant(second);
        assert!(end.time().is_some() && !end.take_grace(now) && !end.is_over());
        end.finish(3);
        assert_eq!((end.finished(), end.time(), end.checkpointed()), (Some(3), None, None));
        end.note_checkpoint();
        assert_eq!(end.checkpointed(), Some(CHECKPOINTED));
    }
}
