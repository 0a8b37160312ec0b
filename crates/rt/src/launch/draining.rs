//! Passing on what ranks write, until they have ended and the last of it is printed.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use oxmpi_sys::stdio::UNREAD_CODE;
use rustix::event::{PollFd, PollFlags, poll};

use super::files::Files;
use super::launcher::{Launcher, Member};
use super::output::{Came, Sink, is_ready, read_some};
use crate::job::Event;
use crate::report;

/// How long the output of a job is awaited when its ranks have ended but others still hold their pipes.
const DRAIN_GRACE: Duration = Duration::from_millis(200);
/// How long it is awaited that agents pass on what daemons have said.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The exit code of a job that has ended well and whose output is lost in part.
const LOST_CODE: i32 = 1;
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
        let (lines, sink) = (&mut lines[kind], self.launch.output.sink(kind));
        if bytes.is_empty() {
            lines.end(self.sinks[sink].queue());
            self.close(rank, kind);
        } else {
            let has_file = self.files.as_ref().is_some_and(|files| files.has(rank, kind));
            if !has_file || self.launch.output_files.as_ref().is_none_or(|files| files.print) {
                lines.take(bytes, Instant::now(), self.sinks[sink].queue());
            }
            if let Some(text) = self.files.as_mut().and_then(|files| files.write(rank, kind, bytes)) {
                self.tell(Event::Say { text });
            }
        }
        self.sinks[sink].write();
        self.note_half_line(rank, kind);
    }

    /// Takes note of whether an output has a line that waits for its end, but not for ever.
    pub(super) fn note_half_line(&mut self, rank: u32, kind: usize) {
        let due = self.members.get(&rank).and_then(|member| member.lines[kind].due());
        match due {
            Some(_) => self.half_lines.insert((rank, kind)),
            None => self.half_lines.remove(&(rank, kind)),
        };
    }

    /// When a line without an end is to be passed on.
    pub(super) fn half_lines_time(&self) -> Option<Instant> {
        let due = |(rank, kind): &(u32, usize)| self.members.get(rank)?.lines[*kind].due();
        self.half_lines.iter().filter_map(due).min()
    }

    /// Passes on the lines without an end that have waited long enough.
    pub(super) fn pass_half_lines(&mut self, now: Instant) {
        let (members, sinks, style) = (&mut self.members, &mut self.sinks, self.launch.output);
        self.half_lines.retain(|(rank, kind)| {
            let Some(Member { lines, .. }) = members.get_mut(rank) else { return false };
            lines[*kind].pass_half(now, sinks[style.sink(*kind)].queue());
            lines[*kind].due().is_some()
        });
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
        if !self.launch.transport.has_daemons() {
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
            if self.sinks.iter().any(Sink::is_broken) || self.interrupted.is_some() {
                break;
            }
        }
        for member in self.members.values_mut() {
            for kind in [0, 1] {
                if member.outputs[kind].is_some() || member.far_open[kind] {
                    member.lines[kind].end(self.sinks[self.launch.output.sink(kind)].queue());
                }
            }
        }
        self.grace = None;
        // Whoever reads our output may take its time, and nobody else is to wait for that.
        self.part_with_others();
        self.flush_sinks()
    }

    /// Waits until all is written, or the user does not want to wait for a slow reader.
    fn flush_sinks(&mut self) -> rustix::io::Result<()> {
        while self.interrupted.is_none() && self.sinks.iter().any(|s| s.waiting().is_some()) {
            self.sinks.iter_mut().for_each(Sink::write);
            let waiting: Vec<BorrowedFd<'_>> = self.sinks.iter().filter_map(Sink::waiting).collect();
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

    /// Says for the first time that the standard output cannot be written; ends the job if nobody reads an output.
    pub(super) fn look_at_sinks(&mut self) {
        if let Some(error) = self.sinks[0].lost.untold() {
            let text = format!(
                "warning: cannot write the standard output: {error}; what does not fit there is lost, and the job goes on, but \
                 mpirun will not end with code 0"
            );
            self.tell(Event::Say { text });
        }
        for kind in [0, 1] {
            if self.sinks[kind].is_broken() {
                // Let the ranks feel it as if they wrote there themselves.
                let all: Vec<u32> = self.members.keys().copied().collect();
                all.into_iter().for_each(|rank| self.close(rank, kind));
                self.tell(Event::Unread);
            }
        }
    }

    /// Says what was lost of the output. Returns the exit code: that of the job, unless it has ended well and its output has not.
    pub(super) fn settle(&mut self, code: i32) -> rustix::io::Result<i32> {
        if let Some(signal) = self.interrupted {
            return Ok(if code == 0 { 128 + signal } else { code });
        }
        let outputs = self.sinks.iter().zip(["the standard output", "the standard error"]);
        let mut lost: Vec<String> = outputs.filter_map(|(sink, name)| sink.lost.shown(name)).collect();
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
