//! Forwarding the ranks' output until they have ended and all of it is printed.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use oxmpi_sys::stdio::UNREAD_CODE;
use rustix::event::{PollFd, PollFlags, poll};

use super::files::Files;
use super::launcher::{JobMember, Launcher};
use super::output::{Sink, is_ready};
use crate::job::JobEvent;
use crate::report;

/// How long output is awaited when the ranks have ended but other processes hold their pipes.
const DRAIN_GRACE: Duration = Duration::from_millis(200);
/// How long the last notices of daemons are awaited from agents.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The exit status of a job that has succeeded but whose output is partly lost.
const LOST_CODE: i32 = 1;
/// The interval of checks for output of other hosts.
const DRAIN_STEP: Duration = Duration::from_millis(10);

impl Launcher<'_> {
    /// Prints output of a rank; without bytes it is closed. `kind` is 0 for standard output, 1 for
    /// standard error.
    pub(super) fn take_output(&mut self, rank: u32, kind: usize, bytes: &[u8]) {
        let Some(JobMember { lines, .. }) = self.members.get_mut(&rank) else { return };
        let (lines, sink) = (&mut lines[kind], self.launch.output.sink(kind));
        if bytes.is_empty() {
            lines.end(self.sinks[sink].queue());
            self.half_lines.remove(&(rank, kind));
            self.sinks[sink].write();
            return self.close(rank, kind);
        }
        let has_file = self.files.as_ref().is_some_and(|files| files.has(rank, kind));
        if !has_file || self.launch.output_files.as_ref().is_none_or(|files| files.print) {
            lines.take(bytes, Instant::now(), self.sinks[sink].queue());
        }
        if let Some(text) = self.files.as_mut().and_then(|files| files.write(rank, kind, bytes)) {
            self.handle_event(JobEvent::Say { text });
        }
        self.sinks[sink].write();
        self.note_half_line(rank, kind);
    }

    /// Notes whether an output ends in an incomplete line, which is forwarded after a time.
    pub(super) fn note_half_line(&mut self, rank: u32, kind: usize) {
        let due = self.members.get(&rank).and_then(|member| member.lines[kind].due());
        match due {
            Some(_) => self.half_lines.insert((rank, kind)),
            None => self.half_lines.remove(&(rank, kind)),
        };
    }

    pub(super) fn half_lines_time(&self) -> Option<Instant> {
        let due = |(rank, kind): &(u32, usize)| self.members.get(rank)?.lines[*kind].due();
        self.half_lines.iter().filter_map(due).min()
    }

    pub(super) fn pass_half_lines(&mut self, now: Instant) {
        let (members, sinks, style) = (&mut self.members, &mut self.sinks, self.launch.output);
        self.half_lines.retain(|(rank, kind)| {
            let Some(JobMember { lines, .. }) = members.get_mut(rank) else { return false };
            lines[*kind].pass_half(now, sinks[style.sink(*kind)].queue());
            lines[*kind].due().is_some()
        });
    }

    pub(super) fn close(&mut self, rank: u32, kind: usize) {
        let Some(member) = self.members.get_mut(&rank) else { return };
        if std::mem::take(&mut member.open[kind]) {
            self.open_count -= 1;
        }
        let (is_own, is_forgotten) = (member.host.is_none(), member.is_forgotten);
        if is_own {
            self.host.ranks.close(rank, kind);
        }
        if is_forgotten {
            self.drop_forgotten(rank);
        }
    }

    /// Drops a member that no request can name, and that has no open outputs.
    pub(super) fn drop_forgotten(&mut self, rank: u32) {
        let is_done = |member: &JobMember| member.is_forgotten && member.open == [false; 2];
        if self.members.get(&rank).is_some_and(is_done) {
            self.members.remove(&rank);
            self.files.iter_mut().for_each(|files| files.close(rank));
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
        while !self.are_checks_answered() && Instant::now() < limit {
            self.grace = Some(limit);
            self.wait()?;
        }
        Ok(())
    }

    pub(super) fn drain(&mut self) -> rustix::io::Result<()> {
        let end = Instant::now() + DRAIN_GRACE;
        // The answer to an agent that held output back was also its permission to send.
        self.query_agents();
        self.await_last_notices()?;
        while self.open_count > 0 {
            let full = self.sinks.iter().any(Sink::is_full);
            let now = Instant::now();
            if now >= end
                && !full
                && !is_ready(&self.host.outputs, PollFlags::IN)
                && !self.is_far_busy(now)
            {
                break;
            }
            self.grace = Some(if full { now + DRAIN_GRACE } else { end.max(now + DRAIN_STEP) });
            self.wait()?;
            if self.sinks.iter().any(Sink::is_broken) || self.interrupted.is_some() {
                break;
            }
        }
        for member in self.members.values_mut() {
            for kind in [0, 1] {
                if member.open[kind] {
                    member.lines[kind].end(self.sinks[self.launch.output.sink(kind)].queue());
                }
            }
        }
        self.grace = None;
        // The reader of our output may be slow, and others must not wait for it.
        self.part_with_others();
        self.flush_sinks()
    }

    fn flush_sinks(&mut self) -> rustix::io::Result<()> {
        while self.interrupted.is_none() && self.sinks.iter().any(|s| s.waiting().is_some()) {
            self.sinks.iter_mut().for_each(Sink::write);
            let waiting: Vec<BorrowedFd<'_>> =
                self.sinks.iter().filter_map(Sink::waiting).collect();
            let mut fds = vec![PollFd::new(self.signals, PollFlags::IN)];
            fds.extend(waiting.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
            if fds.len() > 1 {
                match poll(&mut fds, None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
            self.signalled()?;
        }
        Ok(())
    }

    /// Warns once if standard output cannot be written; ends the job if a reader is gone.
    pub(super) fn check_sinks(&mut self) {
        if let Some(error) = self.sinks[0].lost.unreported() {
            let text = format!(
                "warning: cannot write the standard output: {error}; what does not fit there is lost, and the job goes on, but \
                 mpirun will not end with code 0"
            );
            self.handle_event(JobEvent::Say { text });
        }
        for kind in [0, 1] {
            if self.sinks[kind].is_broken() {
                // The ranks see closed pipes, as if they wrote there themselves.
                let all: Vec<u32> = self.members.keys().copied().collect();
                all.into_iter().for_each(|rank| self.close(rank, kind));
                self.handle_event(JobEvent::Unread);
            }
        }
    }

    /// Reports lost output; returns the exit status, [`LOST_CODE`] if only output was lost.
    pub(super) fn settle(&mut self, code: i32) -> rustix::io::Result<i32> {
        if let Some(signal) = self.interrupted {
            return Ok(if code == 0 { 128 + signal } else { code });
        }
        let outputs = self.sinks.iter().zip(["the standard output", "the standard error"]);
        let mut lost: Vec<String> =
            outputs.filter_map(|(sink, name)| sink.lost.shown(name)).collect();
        lost.extend(self.files.iter().flat_map(Files::lost));
        if !lost.is_empty() {
            self.print(&report::lost_output(&lost, if code == 0 { LOST_CODE } else { code }));
            self.flush_sinks()?;
        }
        let is_lost = !lost.is_empty() || self.sinks.iter().any(|sink| sink.lost.is_any());
        Ok(match code {
            0 if is_lost => LOST_CODE,
            0 if self.sinks.iter().any(Sink::is_broken) => UNREAD_CODE,
            code => code,
        })
    }
}
