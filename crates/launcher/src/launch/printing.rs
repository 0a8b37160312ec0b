//! What `mpirun` prints and writes into files: the output of the ranks, and its own texts.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use oxmpi_sys::stdio::UNREAD_CODE;

use super::Launch;
use super::files::{Files, Named};
use super::output::{Lines, OutputStyle, Sink};
use crate::report;
use oxmpi_daemon::diagnostics::HeldLines;

/// The exit status of a job that has succeeded but whose output is partly lost.
const LOST_CODE: i32 = 1;

/// An output of a rank: the rank, and 0 for standard output or 1 for standard error.
type OutputName = (u32, usize);

/// Prints the output of the ranks and the texts of `mpirun`. It never blocks.
pub(super) struct Printer<'a> {
    style: OutputStyle,
    /// Whether output that goes to a file is printed too.
    prints_filed: bool,
    /// Standard output and standard error.
    sinks: [Sink<'a>; 2],
    lines: BTreeMap<OutputName, Lines>,
    open: BTreeSet<OutputName>,
    /// The outputs with an incomplete line that is due at some time.
    half_lines: BTreeSet<OutputName>,
    files: Option<Files>,
    /// Diagnostics that wait to be printed.
    diagnostics: HeldLines,
}

impl<'a> Printer<'a> {
    /// Prints to `fds`: standard output and standard error.
    pub(super) fn new(launch: &Launch, fds: [BorrowedFd<'a>; 2]) -> Printer<'a> {
        let prints_filed = launch.output_files.as_ref().is_none_or(|files| files.print);
        Printer::styled(launch.output, prints_filed, fds)
    }

    fn styled(style: OutputStyle, prints_filed: bool, fds: [BorrowedFd<'a>; 2]) -> Printer<'a> {
        Printer {
            style,
            prints_filed,
            sinks: fds.map(Sink::new),
            lines: BTreeMap::new(),
            open: BTreeSet::new(),
            half_lines: BTreeSet::new(),
            files: None,
            diagnostics: HeldLines::begin(),
        }
    }

    /// Writes output of the ranks to these files too.
    pub(super) fn write_to(&mut self, files: Option<Files>) {
        self.files = files;
    }

    /// Opens the files of a new process; a warning if that fails.
    pub(super) fn open_files(&mut self, number: u32, process: Named<'_>) -> Option<String> {
        let (path, error) = self.files.as_mut()?.add(number, process, false).err()?;
        let (name, path) = (process.rank, path.display());
        Some(format!("warning: output of rank {name} goes to no file: {path}: {error}"))
    }

    /// Expects output of a process that is called `name` in marked lines.
    pub(super) fn add(&mut self, rank: u32, name: &str, open: [bool; 2]) {
        for (kind, open) in open.into_iter().enumerate() {
            let tag = self.style.tags.then_some(name);
            self.lines.insert((rank, kind), Lines::new(tag, self.style.times));
            if open {
                self.open.insert((rank, kind));
            }
        }
    }

    /// Forgets a process.
    pub(super) fn remove(&mut self, rank: u32) {
        for name in [(rank, 0), (rank, 1)] {
            self.lines.remove(&name);
            self.open.remove(&name);
        }
        self.files.iter_mut().for_each(|files| files.close(rank));
    }

    /// Prints output of a rank. Returns a warning if the rank's file cannot be written.
    pub(super) fn take(&mut self, name: OutputName, bytes: &[u8], now: Instant) -> Option<String> {
        let (rank, kind) = name;
        let lines = self.lines.get_mut(&name)?;
        let sink = &mut self.sinks[self.style.sink(kind)];
        let has_file = self.files.as_ref().is_some_and(|files| files.has(rank, kind));
        if !has_file || self.prints_filed {
            lines.take(bytes, now, sink.queue());
        }
        sink.write();
        self.note_half_line(name);
        self.files.as_mut()?.write(rank, kind, bytes)
    }

    /// A rank has closed an output: prints the rest.
    pub(super) fn end(&mut self, name: OutputName) {
        let Some(lines) = self.lines.get_mut(&name) else { return };
        let sink = &mut self.sinks[self.style.sink(name.1)];
        lines.end(sink.queue());
        sink.write();
        self.half_lines.remove(&name);
        self.close(name);
    }

    /// Nothing more comes from an output, or nothing is wanted.
    pub(super) fn close(&mut self, name: OutputName) {
        self.open.remove(&name);
    }

    pub(super) fn is_open(&self, name: OutputName) -> bool {
        self.open.contains(&name)
    }

    /// Whether output of the process may come.
    pub(super) fn awaits(&self, rank: u32) -> bool {
        self.is_open((rank, 0)) || self.is_open((rank, 1))
    }

    /// Whether output of any process may come.
    pub(super) fn awaits_any(&self) -> bool {
        !self.open.is_empty()
    }

    /// Prints the incomplete lines of outputs that other processes keep open.
    pub(super) fn end_open_lines(&mut self) {
        for name in &self.open {
            if let Some(lines) = self.lines.get_mut(name) {
                lines.end(self.sinks[self.style.sink(name.1)].queue());
            }
        }
    }

    /// Notes whether an output ends in an incomplete line, which is forwarded after a time.
    fn note_half_line(&mut self, name: OutputName) {
        match self.lines.get(&name).and_then(Lines::due) {
            Some(_) => self.half_lines.insert(name),
            None => self.half_lines.remove(&name),
        };
    }

    /// When an incomplete line is printed; `None` also while there is no room for it.
    pub(super) fn time(&self) -> Option<Instant> {
        let due = |name: &OutputName| self.lines.get(name)?.due();
        self.half_lines.iter().filter_map(due).min().filter(|_| !self.is_full())
    }

    pub(super) fn pass_half_lines(&mut self, now: Instant) {
        let Printer { half_lines, lines, sinks, style, .. } = self;
        half_lines.retain(|name| {
            let Some(lines) = lines.get_mut(name) else { return false };
            lines.pass_half(now, sinks[style.sink(name.1)].queue());
            lines.due().is_some()
        });
    }

    /// Prints the diagnostics so far, and a text.
    pub(super) fn print(&mut self, text: &str) {
        let lines = self.diagnostics.take();
        self.print_bytes((lines + text).as_bytes());
    }

    /// Prints bytes on standard error.
    pub(super) fn print_bytes(&mut self, bytes: &[u8]) {
        self.sinks[1].queue().extend_from_slice(bytes);
        self.sinks[1].write();
    }

    /// Writes the bytes that wait, until an output has no room for more.
    pub(super) fn write(&mut self) {
        self.sinks.iter_mut().for_each(Sink::write);
    }

    /// The descriptors to poll for room, as bytes wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = BorrowedFd<'a>> {
        self.sinks.iter().filter_map(Sink::waiting)
    }

    /// Whether no further output is to be read, as too many bytes wait.
    pub(super) fn is_full(&self) -> bool {
        self.sinks.iter().any(Sink::is_full)
    }

    /// The bytes of output that may be read.
    pub(super) fn room(&self) -> u64 {
        self.sinks.iter().map(Sink::room).min().unwrap_or(0) as u64
    }

    /// Whether the reader of an output is gone.
    pub(super) fn is_unread(&self, kind: usize) -> bool {
        self.sinks[kind].is_broken()
    }

    /// A warning, once, if standard output cannot be written.
    pub(super) fn take_warning(&mut self) -> Option<String> {
        let error = self.sinks[0].lost.unreported()?;
        Some(format!(
            "warning: cannot write the standard output: {error}; what does not fit there is lost, and the job goes on, but \
             mpirun will not end with code 0"
        ))
    }

    /// The amounts of output that are lost, for the user.
    fn lost(&self) -> Vec<String> {
        let outputs = self.sinks.iter().zip(["the standard output", "the standard error"]);
        let lost = outputs.filter_map(|(sink, name)| sink.lost.shown(name));
        lost.chain(self.files.iter().flat_map(Files::lost)).collect()
    }

    /// Reports lost output at the end of a job with this exit status.
    pub(super) fn report_lost(&mut self, code: i32) {
        let lost = self.lost();
        if !lost.is_empty() {
            self.print(&report::lost_output(&lost, if code == 0 { LOST_CODE } else { code }));
        }
    }

    /// The exit status of a job that has ended with `code`: [`LOST_CODE`] if only output was lost.
    pub(super) fn exit_code(&self, code: i32) -> i32 {
        match code {
            0 if !self.lost().is_empty() => LOST_CODE,
            0 if self.sinks.iter().any(Sink::is_broken) => UNREAD_CODE,
            code => code,
        }
    }

    /// The bytes that wait for room in standard output and standard error.
    pub(super) fn unwritten(&self) -> [Vec<u8>; 2] {
        self.sinks.each_ref().map(|sink| sink.unwritten().to_vec())
    }

    /// The incomplete lines of a process.
    pub(super) fn partial_lines(&self, rank: u32) -> [Vec<u8>; 2] {
        let partial = |kind| self.lines.get(&(rank, kind)).map(|lines| lines.partial().to_vec());
        [0, 1].map(|kind| partial(kind).unwrap_or_default())
    }

    /// Continues with the unwritten bytes from a checkpoint.
    pub(super) fn go_on(&mut self, unwritten: &[Vec<u8>; 2]) {
        for (sink, bytes) in self.sinks.iter_mut().zip(unwritten) {
            sink.queue().extend_from_slice(bytes);
        }
    }

    /// Continues the incomplete lines of a process from a checkpoint.
    pub(super) fn go_on_with(&mut self, rank: u32, partial: &[Vec<u8>; 2], now: Instant) {
        for (kind, partial) in partial.iter().enumerate() {
            if let Some(lines) = self.lines.get_mut(&(rank, kind)) {
                lines.go_on(partial, now);
            }
            self.note_half_line((rank, kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Seek as _};
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    use rustix::fs::MemfdFlags;

    use super::*;
    use crate::launch::OutputFiles;

    /// Two files in place of standard output and standard error.
    fn files() -> [File; 2] {
        let new = |_| rustix::fs::memfd_create("out", MemfdFlags::CLOEXEC).unwrap();
        [0, 1].map(new).map(File::from)
    }

    fn text(mut file: &File) -> String {
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    fn printer(style: OutputStyle, files: &[File; 2]) -> Printer<'_> {
        let mut printer = Printer::styled(style, false, files.each_ref().map(File::as_fd));
        (0..2).for_each(|rank| printer.add(rank, &rank.to_string(), [true; 2]));
        printer
    }

    #[test]
    fn each_output_goes_to_its_own_or_all_to_one_with_tags() {
        let style = OutputStyle { tags: true, merges: true, ..OutputStyle::default() };
        for (style, expected) in [
            (OutputStyle::default(), ["one\nthree", "two\nmpirun: four\n"]),
            (style, ["[0] one\n[1] two\n[0] three\n", "mpirun: four\n"]),
        ] {
            let files = files();
            let (mut printer, now) = (printer(style, &files), Instant::now());
            assert_eq!(printer.take((0, 0), b"one\nthree", now), None);
            assert_eq!(printer.take((1, 1), b"two\n", now), None);
            assert_eq!(printer.take((7, 1), b"of no process\n", now), None);
            printer.end((0, 0));
            printer.print("mpirun: four\n");
            assert_eq!(files.each_ref().map(text), expected);
        }
    }

    #[test]
    fn half_a_line_is_printed_when_it_is_due_and_ends_with_its_output() {
        let files = files();
        let (mut printer, now) = (printer(OutputStyle::default(), &files), Instant::now());
        printer.take((0, 0), b"N = ", now);
        let due = printer.time().unwrap();
        assert!(due > now);
        printer.pass_half_lines(now);
        printer.write();
        assert_eq!(text(&files[0]), "");
        printer.pass_half_lines(due);
        printer.write();
        assert_eq!((text(&files[0]).as_str(), printer.time()), ("N = ", None));
        printer.take((1, 0), b"M = ", now);
        printer.end((1, 0));
        assert_eq!((text(&files[0]).as_str(), printer.time()), ("N = M = ", None));
    }

    #[test]
    fn output_is_awaited_until_all_outputs_are_closed() {
        let files = files();
        let mut printer = printer(OutputStyle::default(), &files);
        printer.end((0, 0));
        assert!(printer.awaits(0) && !printer.is_open((0, 0)));
        printer.close((0, 1));
        assert!(!printer.awaits(0) && printer.awaits(1) && printer.awaits_any());
        printer.take((1, 0), b"held open", Instant::now());
        printer.end_open_lines();
        printer.write();
        assert_eq!(text(&files[0]), "held open");
        printer.remove(1);
        assert!(!printer.awaits_any());
    }

    #[test]
    fn a_job_from_a_checkpoint_continues_its_lines() {
        let files = files();
        let (mut old, now) = (printer(OutputStyle::default(), &files), Instant::now());
        old.take((0, 1), b"half a ", now);
        old.sinks[0].queue().extend_from_slice(b"unwritten\n");
        let (unwritten, partial) = (old.unwritten(), old.partial_lines(0));
        let mut new = printer(OutputStyle::default(), &files);
        new.go_on(&unwritten);
        new.go_on_with(0, &partial, now);
        assert!(new.time().is_some_and(|due| due > now + Duration::from_millis(1)));
        new.take((0, 1), b"line\n", now);
        new.write();
        assert_eq!(files.each_ref().map(text), ["unwritten\n", "half a line\n"]);
    }

    #[test]
    fn lost_output_makes_the_exit_code_1() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let [_, error] = files();
        let pattern = Some("/dev/full".into());
        let of = OutputFiles { patterns: [pattern, None], print: false };
        for filed in [false, true] {
            let outputs = [full.try_clone().unwrap(), error.try_clone().unwrap()];
            let mut printer = printer(OutputStyle::default(), &outputs);
            printer.write_to(filed.then(|| Files::new(&of)));
            let named = Named { rank: "0", node: None, host: "a" };
            assert_eq!(printer.open_files(0, named), None);
            assert_eq!(printer.exit_code(0), 0);
            let warning = printer.take((0, 0), b"one\n", Instant::now());
            assert_eq!(warning.is_some(), filed);
            assert_eq!(printer.take_warning().is_some(), !filed);
            assert_eq!((printer.exit_code(0), printer.exit_code(3)), (LOST_CODE, 3));
            printer.report_lost(0);
        }
        assert_eq!(text(&error).matches("4 bytes in 1 line of").count(), 2);
    }
}
