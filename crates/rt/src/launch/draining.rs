//! Passing on what ranks write, until they have ended and the last of it is printed.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use oxmpi_param::Transport;
use rustix::event::{PollFd, PollFlags, poll};

use super::launcher::{Launcher, Member};
use super::output::{Came, Sink, is_ready, read_some};
use crate::job::Event;

/// How long the output of a job is awaited when its ranks have ended but others still hold their pipes.
const DRAIN_GRACE: Duration = Duration::from_millis(200);
/// How long it is awaited that agents pass on what daemons have said.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often it is looked then whether output of other hosts may still come.
const DRAIN_STEP: Duration = Duration::from_millis(10);

impl Launcher<'_> {
    /// Takes what a rank wrote. `kind` is 0 for standard output, 1 for standard error.
    pub(super) fn output(&mut self, rank: u32, kind: usize) {
        let Some(Some(fd)) = self.members.get(&rank).map(|member| &member.outputs[kind]) else { return };
        match read_some(fd, &mut self.buffer[..]) {
            Came::Bytes(n) => {
                let buffer = std::mem::take(&mut self.buffer);
                self.take_output(rank, kind, &buffer[..n]);
                self.buffer = buffer;
            }
            Came::Nothing => {}
            Came::End => self.take_output(rank, kind, &[]),
        }
    }

    /// Passes on what a rank wrote; nothing: it has closed this output.
    pub(super) fn take_output(&mut self, rank: u32, kind: usize, bytes: &[u8]) {
        let Some(Member { lines, .. }) = self.members.get_mut(&rank) else { return };
        let lines = &mut lines[kind];
        if bytes.is_empty() {
            lines.end(self.sinks[kind].queue());
            self.close(rank, kind);
        } else {
            if self.launch.output_files.as_ref().is_none_or(|files| files.print) {
                lines.take(bytes, self.sinks[kind].queue());
            }
            if let Some(text) = self.files.as_mut().and_then(|files| files.write(rank, kind, bytes)) {
                self.tell(Event::Say { text });
            }
        }
        self.sinks[kind].write();
    }

    pub(super) fn close(&mut self, rank: u32, kind: usize) {
        let Some(member) = self.members.get_mut(&rank) else { return };
        // Closing takes it out of the epoll set, too: nobody else has this end.
        if member.outputs[kind].take().is_some() || std::mem::take(&mut member.far_open[kind]) {
            self.open_count -= 1;
        }
        self.drop_forgotten(rank);
    }

    /// Drops a member for whom nobody will ask, and who writes nothing more.
    pub(super) fn drop_forgotten(&mut self, rank: u32) {
        let is_done = |member: &Member| {
            member.is_forgotten && member.outputs.iter().all(Option::is_none) && member.far_open == [false; 2]
        };
        if self.members.get(&rank).is_some_and(is_done) {
            self.members.remove(&rank);
            self.files.iter_mut().for_each(|files| files.close(rank));
        }
    }

    /// What daemons have said until the last rank ended counts, on whichever host they are.
    fn hear_last_words(&mut self) -> rustix::io::Result<()> {
        if self.launch.transport != Transport::Lamd {
            return Ok(());
        }
        self.hear_relays();
        let limit = Instant::now() + LAST_WORDS;
        while !self.is_look_over() && Instant::now() < limit {
            self.grace = Some(limit);
            self.wait()?;
        }
        Ok(())
    }

    /// The ranks have ended: passes on what is still in their pipes.
    pub(super) fn drain(&mut self) -> rustix::io::Result<()> {
        let end = Instant::now() + DRAIN_GRACE;
        // An agent that held output back has been told by its answer that it may go on.
        self.look_far();
        self.hear_last_words()?;
        while self.open_count > 0 {
            let full = self.sinks.iter().any(Sink::is_full);
            let now = Instant::now();
            if now >= end && !full && !is_ready(&self.outputs, PollFlags::IN) && !self.is_far_busy(now) {
                break;
            }
            self.grace = Some(if full { now + DRAIN_GRACE } else { end.max(now + DRAIN_STEP) });
            self.wait()?;
            if self.sinks.iter().any(Sink::is_broken) {
                break;
            }
        }
        for member in self.members.values_mut() {
            for kind in [0, 1] {
                if member.outputs[kind].is_some() || member.far_open[kind] {
                    member.lines[kind].end(self.sinks[kind].queue());
                }
            }
        }
        self.grace = None;
        // Whoever reads our output may take its time, and nobody else is to wait for that.
        self.part_with_others();
        while self.sinks.iter().any(|s| s.waiting().is_some()) {
            self.sinks.iter_mut().for_each(Sink::write);
            let waiting: Vec<BorrowedFd<'_>> = self.sinks.iter().filter_map(Sink::waiting).collect();
            let mut fds = vec![PollFd::new(self.signals, PollFlags::IN)];
            fds.extend(waiting.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
            if fds.len() > 1 {
                poll(&mut fds, None)?;
            }
            if is_ready(self.signals, PollFlags::IN) {
                break; // the user does not want to wait for a slow reader
            }
        }
        Ok(())
    }
}
