//! `oxmpi restart`: brings a job back, and waits for its end as its mpirun did.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use oxmpi_checkpoint::files::Policy;
use oxmpi_checkpoint::restart::{bring_back, clear};
use oxmpi_checkpoint::set::Set;
use oxmpi_checkpoint::tree::session_of;
use oxmpi_sys::spawn::Signals;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpgid, getpgrp, kill_process, pidfd_open, setsid, waitpid,
};

use super::command::Command;
use super::terminal::{Terminal, needs_new};
use crate::command::{Stop, answer, failed, usage};

pub(crate) const HELP: &str = "\
oxmpi restart: bring back a job of which 'oxmpi checkpoint' has made a set

  oxmpi restart SET             SET is the directory of a set, or the name of the job's sets without their number: the newest
      --files cut|refuse        what to do about files that the job had open for writing and that have grown since (parameter
                                cr_files): cut them back to what they were, which is the default, or refuse
      --mca NAME VALUE          set a parameter: cr_files, cr_blcr_criu, cr_blcr_options

The job goes on where it was, on the same host, with the process numbers that it had. Where mpirun's input, output and errors were a
terminal or a pipe, those of this command take their place; files go on as files. If mpirun had a terminal and this command has none,
the job writes to this command's output, and gets no input. Signals are passed on to mpirun, and its exit code is the one of this
command; 1 if the job cannot be restarted.
";

/// Signals that are meant for the job.
const PASSED_ON: [Signal; 8] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::URG,
    Signal::CONT,
];

/// Answers `oxmpi restart`.
pub(crate) fn restart(args: &[OsString]) -> i32 {
    answer("restart", HELP, try_restart(args))
}

fn try_restart(args: &[OsString]) -> Result<Option<i32>, Stop> {
    let Some(mut command) = Command::read(args, &["--files"], &["--files"])? else { return Ok(None) };
    if let Some(files) = command.value("--files").map(String::from) {
        let source = oxmpi_param::Source::CommandLine(format!("--files {files}"));
        command.params.set_from("cr_files", &files, source).map_err(usage)?;
    }
    let path = match &command.words[..] {
        [path] => Path::new(path),
        [] => return Ok(None),
        [_, more, ..] => return Err(usage(format!("'{more}': one set is restarted at a time"))),
    };
    let set = Set::open(path).map_err(failed)?;
    let criu = super::criu(&command.params)?;
    let policy = if command.params.cr_files_refuse() { Policy::Refuse } else { Policy::Cut };
    let is_outside = session_of(std::process::id()).is_ok_and(|leader| leader == 0);
    if (is_outside || needs_new(&set.manifest.job.streams)) && setsid().is_err() {
        // A new terminal needs a session, and a job cannot go on in one of another PID namespace. The leader of a group cannot begin
        // one: its child can.
        return in_child(args).map(Some).map_err(failed);
    }
    let cleared = clear(&set, policy).map_err(failed)?;
    for (file, bytes) in &cleared.cut {
        oxmpi_sys::complain!("oxmpi restart: {} is cut back to {bytes} bytes", file.display());
    }
    for note in &cleared.notes {
        oxmpi_sys::complain!("oxmpi restart: {note}");
    }
    let work = Work::make()?;
    // Before the job is there: none of them may be lost.
    let signals = Signals::new(&PASSED_ON.map(Signal::as_raw)).map_err(failed)?;
    let (slave, terminal) = Terminal::of(&set.manifest.job.streams).map_err(failed)?;
    let mpirun = bring_back(&set, &criu, &work.0, (&super::program()?, slave)).map_err(failed)?;
    drop(work);
    let pid = i32::try_from(mpirun).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| failed(format!("process number {mpirun} makes no sense")))?;
    wait_for(pid, &signals, terminal)
        .map(Some)
        .map_err(|error| failed(format!("mpirun (process {mpirun}): {error}")))
}

/// Does the same in a child of this process.
fn in_child(args: &[OsString]) -> std::io::Result<i32> {
    let signals = Signals::new(&PASSED_ON.map(Signal::as_raw))?;
    let child =
        std::process::Command::new(oxmpi_sys::library::program()?).arg("restart").args(args).spawn()?;
    wait_for(Pid::from_child(&child), &signals, Terminal::none())
}

/// Waits for the end of mpirun, and passes signals on. Returns its exit code, or that of a shell for a signal that killed it.
fn wait_for(pid: Pid, signals: &Signals, mut terminal: Terminal) -> std::io::Result<i32> {
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let mut fds = vec![
            PollFd::new(&process, PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        fds.extend(terminal.output().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
        drop(fds);
        terminal.pass_on();
        while let Some(signal) = signals.next()?.and_then(Signal::from_named_raw) {
            let is_of_terminal = [Signal::INT, Signal::QUIT, Signal::CONT].contains(&signal);
            // What a terminal sends comes to the whole group, so mpirun has it already if it is in ours.
            let has_own_group = getpgid(Some(pid)).is_ok_and(|group| group != getpgrp());
            if has_own_group || !is_of_terminal {
                // If it is gone, its end is what comes next.
                let _ = kill_process(pid, signal);
            }
        }
        if let Some((_, status)) = waitpid(Some(pid), WaitOptions::NOHANG)? {
            terminal.pass_on();
            let code = status.exit_status();
            return Ok(code.or_else(|| status.terminating_signal().map(|signal| 128 + signal)).unwrap_or(1));
        }
    }
}

/// A directory for CRIU's log, which is removed.
struct Work(PathBuf);

impl Work {
    fn make() -> Result<Work, Stop> {
        let directory = std::env::temp_dir().join(format!("oxmpi-restart-{}", std::process::id()));
        let made = std::fs::create_dir(&directory);
        made.map_err(|error| failed(format!("{} cannot be made: {error}", directory.display())))?;
        Ok(Work(directory))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // It is in nobody's way.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
