//! Forwarding the ranks' output until they have ended and all of it is printed.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::launcher::Launcher;
use super::output::is_ready;
use crate::job::JobEvent;
use crate::polling::wait_for;

/// How long output is awaited when the ranks have ended but other processes hold their pipes.
const DRAIN_GRACE: Duration = Duration::from_millis(200);
/// How long the last notices of daemons are awaited from agents.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The interval of checks for output of other hosts.
const DRAIN_STEP: Duration = Duration::from_millis(10);

impl Launcher<'_> {
    /// Prints output of a rank; without bytes it is closed. `kind` is 0 for standard output, 1 for
    /// standard error.
    pub(super) fn take_output(&mut self, rank: u32, kind: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            self.output.end((rank, kind));
            return self.close(rank, kind);
        }
        if let Some(text) = self.output.take((rank, kind), bytes, Instant::now()) {
            self.handle_event(JobEvent::Say { text });
        }
    }

    pub(super) fn close(&mut self, rank: u32, kind: usize) {
        self.output.close((rank, kind));
        self.host.ranks.close(rank, kind);
        self.drop_forgotten(rank);
    }

    /// Drops a member that no request can name, and that has no open outputs.
    pub(super) fn drop_forgotten(&mut self, rank: u32) {
        if !self.output.awaits(rank) && self.members.drop_forgotten(rank) {
            self.output.remove(rank);
        }
    }

    /// Notices of daemons from before the last rank's end count, on any host.
    fn await_last_notices(&mut self) -> rustix::io::Result<()> {
        if !self.launch.transport.has_daemons() {
            return Ok(());
        }
        self.host.read_relays();
        self.handle_host_messages();
        let limit = Instant::now() + LAST_WORDS;
        while !self.branches.are_queries_answered() && Instant::now() < limit {
            self.wait(Some(limit))?;
        }
        Ok(())
    }

    pub(super) fn drain(&mut self) -> rustix::io::Result<()> {
        let end = Instant::now() + DRAIN_GRACE;
        // The answer to an agent that held output back was also its permission to send.
        self.branches.query();
        self.await_last_notices()?;
        while self.output.awaits_any() {
            let full = self.output.is_full();
            let now = Instant::now();
            if now >= end
                && !full
                && !is_ready(&self.host.outputs, PollFlags::IN)
                && !self.is_far_busy(now)
            {
                break;
            }
            self.wait(Some(if full { now + DRAIN_GRACE } else { end.max(now + DRAIN_STEP) }))?;
            if [0, 1].iter().any(|kind| self.output.is_unread(*kind))
                || self.end.interrupted().is_some()
            {
                break;
            }
        }
        self.output.end_open_lines();
        // The reader of our output may be slow, and others must not wait for it.
        self.links.part();
        self.flush_sinks()
    }

    fn flush_sinks(&mut self) -> rustix::io::Result<()> {
        while self.end.interrupted().is_none() && self.output.waiting().next().is_some() {
            self.output.write();
            let waiting: Vec<BorrowedFd<'_>> = self.output.waiting().collect();
            let mut fds = vec![PollFd::new(self.signals, PollFlags::IN)];
            fds.extend(waiting.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
            if fds.len() > 1 {
                wait_for(&mut fds, None)?;
            }
            self.signalled()?;
        }
        Ok(())
    }

    /// Warns once if standard output cannot be written; ends the job if a reader is gone.
    pub(super) fn check_sinks(&mut self) {
        if let Some(text) = self.output.take_warning() {
            self.handle_event(JobEvent::Say { text });
        }
        for kind in [0, 1] {
            if self.output.is_unread(kind) {
                // The ranks see closed pipes, as if they wrote there themselves.
                self.members.numbers().into_iter().for_each(|rank| self.close(rank, kind));
                self.handle_event(JobEvent::Unread);
            }
        }
    }

    /// Reports lost output; returns the exit status.
    pub(super) fn settle(&mut self, code: i32) -> rustix::io::Result<i32> {
        if let Some(signal) = self.end.interrupted() {
            return Ok(if code == 0 { 128 + signal } else { code });
        }
        self.output.report_lost(code);
        self.flush_sinks()?;
        Ok(self.output.exit_code(code))
    }
}
