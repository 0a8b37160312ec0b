//! Output of the ranks, forwarded to the launcher's own output in whole lines.
//!
//! An incomplete line, such as a question or dots of progress, is forwarded when its stream has
//! been silent for a while, as its end may never come. Whole lines of other streams do not wait for
//! it, because its end may depend on them. A line with a mark in front waits for its end, or for
//! the end of its stream.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use oxmpi_sys::clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::polling::timespec;

/// In bytes. A longer line is forwarded in pieces.
const MAX_LINE: usize = 64 << 10;
/// In bytes. With more waiting in a sink, the ranks' outputs are not read.
const MAX_QUEUE: usize = 1 << 20;
/// The bytes that a pipe takes without blocking when poll(2) reports it writable (PIPE_BUF).
const ATOMIC: usize = 4096;
/// The silence after which an incomplete line is forwarded. The pieces of a line that a program
/// writes by several calls come faster.
const SILENCE: Duration = Duration::from_millis(100);
/// The longest wait of a line that keeps growing.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The style of the ranks' output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputStyle {
    pub tags: bool,
    pub times: bool,
    pub merges: bool,
}

impl OutputStyle {
    /// The launcher's output for an output of a rank.
    pub(super) fn sink(self, kind: usize) -> usize {
        if self.merges { 0 } else { kind }
    }
}

/// One output of one rank, cut into lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    tag: Option<String>,
    times: bool,
    /// When an incomplete line is forwarded, and the latest time for that.
    due: Option<(Instant, Instant)>,
}

impl Lines {
    /// Lines with `[tag] ` in front, if given, and with the time before that if `times`.
    pub(crate) fn new(tag: Option<&str>, times: bool) -> Lines {
        Lines { tag: tag.map(|tag| format!("[{tag}] ")), times, ..Lines::default() }
    }

    pub(crate) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Continues a line from a checkpoint.
    pub(crate) fn go_on(&mut self, partial: &[u8], now: Instant) {
        self.partial = partial.to_vec();
        self.wait_for_end(now);
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.map(|(due, _)| due)
    }

    pub(crate) fn pass_half(&mut self, now: Instant, out: &mut Vec<u8>) {
        if self.due().is_some_and(|due| due <= now) {
            self.put(out);
        }
    }

    /// Sets the time until which the end of the line is awaited.
    fn wait_for_end(&mut self, now: Instant) {
        let latest = self.due.map_or(now + MAX_WAIT, |(_, latest)| latest);
        let waits = !self.partial.is_empty() && !self.are_marked();
        self.due = waits.then(|| (latest.min(now + SILENCE), latest));
    }

    fn are_marked(&self) -> bool {
        self.times || self.tag.is_some()
    }

    /// Adds a rank's output; whole lines go to `out`.
    pub(crate) fn take(&mut self, bytes: &[u8], now: Instant, out: &mut Vec<u8>) {
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        if whole > 0 {
            self.partial.extend_from_slice(&bytes[..whole]);
            self.put(out);
        }
        self.partial.extend_from_slice(&bytes[whole..]);
        if self.partial.len() > MAX_LINE {
            self.put(out);
        }
        self.wait_for_end(now);
    }

    /// The rank has closed this output: the rest goes to `out`.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        if self.are_marked() && !self.partial.is_empty() {
            self.partial.push(b'\n');
        }
        self.put(out);
    }

    fn put(&mut self, out: &mut Vec<u8>) {
        if self.are_marked() {
            let time = if self.times { format!("{} ", clock::local_time()) } else { String::new() };
            let mark = time + self.tag.as_deref().unwrap_or_default();
            for line in self.partial.split_inclusive(|&b| b == b'\n') {
                out.extend_from_slice(mark.as_bytes());
                out.extend_from_slice(line);
            }
        } else {
            out.extend_from_slice(&self.partial);
        }
        self.partial.clear();
        self.due = None;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Bytes(usize),
    /// Nothing now: an empty descriptor that another process has made nonblocking.
    Nothing,
    /// The end, or an error after which nothing can come.
    End,
}

/// Reads what is available, again after EINTR.
pub(crate) fn read_some(fd: impl AsFd, buffer: &mut [u8]) -> Came {
    match rustix::io::retry_on_intr(|| rustix::io::read(fd.as_fd(), &mut *buffer)) {
        Ok(0) => Came::End,
        Ok(n) => Came::Bytes(n),
        Err(Errno::AGAIN) => Came::Nothing,
        Err(_) => Came::End,
    }
}

/// Output that could not be written, as on a full disk.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    bytes: u64,
    ends: u64,
    /// Whether the last byte is not a newline.
    is_amid_line: bool,
    error: Option<io::Error>,
    is_reported: bool,
}

impl Lost {
    pub(crate) fn note(&mut self, bytes: &[u8], error: io::Error) {
        self.bytes += bytes.len() as u64;
        self.ends += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.is_amid_line = bytes.last().map_or(self.is_amid_line, |byte| *byte != b'\n');
        self.error.get_or_insert(error);
    }

    pub(crate) fn is_any(&self) -> bool {
        self.error.is_some()
    }

    pub(crate) fn unreported(&mut self) -> Option<&io::Error> {
        let error = self.error.as_ref().filter(|_| !self.is_reported)?;
        self.is_reported = true;
        Some(error)
    }

    /// The amount that is lost, for the user; `None` if nothing is lost.
    pub(crate) fn shown(&self, of: impl Display) -> Option<String> {
        let error = self.error.as_ref()?;
        let (bytes, lines) = (self.bytes, self.ends + u64::from(self.is_amid_line));
        let (byte, line) =
            (if bytes == 1 { "byte" } else { "bytes" }, if lines == 1 { "line" } else { "lines" });
        Some(format!("{bytes} {byte} in {lines} {line} of {of} ({error})"))
    }
}

/// One output of the launcher. It never blocks: bytes wait for room. Bytes that cannot be written
/// for another reason are lost and counted; later output may find room again.
#[derive(Debug)]
pub(crate) struct Sink<'a> {
    fd: BorrowedFd<'a>,
    piece: usize,
    queue: Vec<u8>,
    written: usize,
    broken: bool,
    pub(crate) lost: Lost,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(fd: BorrowedFd<'a>) -> Sink<'a> {
        let is_file = rustix::fs::fstat(fd)
            .is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile);
        let piece = if is_file { usize::MAX } else { ATOMIC };
        Sink { fd, piece, queue: Vec::new(), written: 0, broken: false, lost: Lost::default() }
    }

    /// The queue for bytes to write; [`Sink::write`] must follow.
    pub(crate) fn queue(&mut self) -> &mut Vec<u8> {
        &mut self.queue
    }

    pub(crate) fn unwritten(&self) -> &[u8] {
        &self.queue[self.written..]
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() - self.written > MAX_QUEUE
    }

    /// The bytes after which it is full.
    pub(crate) fn room(&self) -> usize {
        (MAX_QUEUE + 1).saturating_sub(self.queue.len() - self.written)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// The descriptor to poll for room, if bytes wait.
    pub(crate) fn waiting(&self) -> Option<BorrowedFd<'a>> {
        (!self.queue.is_empty()).then_some(self.fd)
    }

    pub(crate) fn lose(&mut self, error: io::Error) {
        self.lost.note(&self.queue[self.written..], error);
        self.queue.clear();
        self.written = 0;
    }

    pub(crate) fn write(&mut self) {
        while self.written < self.queue.len() && !self.broken && is_ready(self.fd, PollFlags::OUT) {
            let end = self.written.saturating_add(self.piece).min(self.queue.len());
            match rustix::io::write(self.fd, &self.queue[self.written..end]) {
                Ok(n) => self.written += n,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => self.broken = true,
                Err(error) => self.lose(error.into()),
            }
        }
        if self.broken || self.written == self.queue.len() {
            self.queue.clear();
            self.written = 0;
        } else if self.written > MAX_QUEUE {
            self.queue.drain(..self.written);
            self.written = 0;
        }
    }
}

/// Whether poll(2) reports one of `flags` now.
pub(crate) fn is_ready(fd: impl AsFd, flags: PollFlags) -> bool {
    let fd = fd.as_fd();
    let mut fds = [PollFd::new(&fd, flags)];
    poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok_and(|n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines, pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        for piece in pieces {
            lines.take(piece, Instant::now(), &mut out);
        }
        lines.end(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_waits_for_its_end() {
        let mut lines = Lines::new(None, false);
        let (mut out, now) = (Vec::new(), Instant::now());
        lines.take(b"one\ntw", now, &mut out);
        lines.pass_half(now + SILENCE / 2, &mut out);
        assert_eq!(out, b"one\n");
        lines.take(b"o\n", now + SILENCE, &mut out);
        assert_eq!((out.as_slice(), lines.due()), (&b"one\ntwo\n"[..], None));
    }

    #[test]
    fn a_line_without_an_end_is_passed_on_after_silence_or_a_second_unless_it_gets_a_mark() {
        let mut lines = Lines::new(None, false);
        let (mut out, mut now) = (Vec::new(), Instant::now());
        lines.go_on(b"N ", now);
        lines.take(b"= ", now + SILENCE / 2, &mut out);
        assert_eq!(lines.due(), Some(now + SILENCE / 2 + SILENCE));
        lines.pass_half(now + SILENCE, &mut out);
        assert_eq!(out, b"");
        now += SILENCE * 2;
        lines.pass_half(now, &mut out);
        assert_eq!((out.as_slice(), lines.due()), (&b"N = "[..], None));
        // Another line begins, and is never silent.
        lines.take(b"42\n", now, &mut out);
        let steps = MAX_WAIT.div_duration_f64(SILENCE / 2) as u32;
        for step in 0..steps {
            lines.take(b".", now + SILENCE / 2 * step, &mut out);
            lines.pass_half(now + SILENCE / 2 * step, &mut out);
        }
        assert_eq!(out, b"N = 42\n");
        lines.pass_half(now + MAX_WAIT, &mut out);
        assert_eq!(out.len(), b"N = 42\n".len() + steps as usize);

        for mut marked in [Lines::new(Some("7"), false), Lines::new(None, true)] {
            marked.take(b"N = ", now, &mut out);
            assert_eq!(marked.due(), None);
        }
    }

    #[test]
    fn bytes_are_untouched_without_tags_and_each_line_is_tagged_with() {
        assert_eq!(all(&mut Lines::new(None, false), &[b"a\n\nb", b"c"]), "a\n\nbc");
        assert_eq!(
            all(&mut Lines::new(Some("7"), false), &[b"a\n\nb", b"c"]),
            "[7] a\n[7] \n[7] bc\n"
        );
        assert_eq!(all(&mut Lines::new(Some("7"), false), &[]), "");
    }

    #[test]
    fn a_very_long_line_does_not_wait() {
        let mut lines = Lines::new(None, false);
        let mut out = Vec::new();
        lines.take(&vec![b'x'; MAX_LINE + 1], Instant::now(), &mut out);
        assert_eq!(out.len(), MAX_LINE + 1);
    }

    #[test]
    fn an_empty_pipe_has_not_ended() {
        use rustix::pipe::PipeFlags;
        let (read, write) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(read_some(&read, &mut buffer), Came::Nothing);
        rustix::io::write(&write, b"abc").unwrap();
        assert_eq!(read_some(&read, &mut buffer), Came::Bytes(3));
        // Reading from the write end is a real error.
        assert_eq!(read_some(&write, &mut buffer), Came::End);
        drop(write);
        assert_eq!(read_some(&read, &mut buffer), Came::End);
    }

    #[test]
    fn a_sink_that_cannot_be_written_counts_what_is_lost_and_goes_on() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut sink = Sink::new(full.as_fd());
        assert_eq!(sink.lost.shown("x"), None);
        for text in ["one\ntwo\n", "three"] {
            sink.queue().extend(text.as_bytes());
            sink.write();
            assert!(sink.waiting().is_none() && !sink.is_broken());
        }
        assert_eq!(sink.lost.unreported().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
        assert!(sink.lost.unreported().is_none());
        let shown = "13 bytes in 3 lines of x (No space left on device (os error 28))";
        assert_eq!(sink.lost.shown("x").as_deref(), Some(shown));
    }

    #[test]
    fn a_sink_whose_reader_is_gone_is_broken_and_one_that_is_slow_fills() {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let mut sink = Sink::new(write.as_fd());
        sink.queue().extend(vec![b'x'; 2 << 20]);
        sink.write();
        assert!(sink.is_full() && sink.waiting().is_some() && !sink.is_broken());
        drop(read);
        sink.write();
        assert!(sink.is_broken() && sink.waiting().is_none());
    }
}
