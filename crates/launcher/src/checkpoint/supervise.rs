//! The supervisor, the parent of a job's mpirun: it waits for mpirun's end, passes signals on, and
//! makes checkpoints without a request.
//!
//! An image is one of `mpirun` and all its descendants, so the process that makes it must not be
//! one of these. With `--every` or `--checkpoint-on-term` `mpirun` therefore continues as two
//! processes: a parent, which the user has started, and a child, which runs the job and is imaged.
//! `oxmpi restart` is the parent of a restored job, and does the same.
//!
//! A signal that ends the job is the parent's task, even if it was sent to the child: the child
//! passes it on to the parent, and ends the job when the parent relays it
//! ([`oxmpi_sys::spawn::relay`]). So a signal to the whole group, by a terminal or by timeout(1),
//! reaches the parent twice, and counts once.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use oxmpi_checkpoint::making::Checkpoint;
use oxmpi_checkpoint::set::JobName;
use oxmpi_param::Params;
use oxmpi_sys::process_stat::ProcessStat;
use oxmpi_sys::spawn::{self, RELAYED, Signals};
use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};

use super::terminal::Terminal;
use super::{Maker, MakerError};
use crate::launch::Supervision;
use crate::polling::wait_for;

/// A job that SIGTERM has ended with a checkpoint: EX_TEMPFAIL of sysexits(3), "try again".
const CHECKPOINTED: i32 = 75;

const PASSED_ON: [Signal; 7] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::CONT,
];
/// Signals that a terminal sends to the whole group.
const OF_TERMINAL: [Signal; 3] = [Signal::INT, Signal::QUIT, Signal::CONT];
/// Within this time the same signal has reached the parent directly and through the child.
const SAME: Duration = Duration::from_millis(500);
/// The delay of a failure report: a checkpoint also fails because the job is just ending.
const GRACE: Duration = Duration::from_secs(1);
/// The longest wait for the end of a job that was killed while it was imaged.
const KILLED: Duration = Duration::from_secs(5);

/// The automatic checkpoints of a job.
#[derive(Debug)]
pub struct SupervisionPlan {
    pub(super) supervision: Supervision,
    pub(super) maker: Maker,
    /// Whether only failures are reported.
    pub(super) is_quiet: bool,
}

/// The parent of an mpirun.
pub(super) struct Supervisor<'s> {
    /// The beginning of all its messages.
    name: &'static str,
    job: Pid,
    signals: &'s Signals,
    terminal: Terminal,
    /// Whether that mpirun knows that it has a supervisor.
    is_known: bool,
    plan: Option<SupervisionPlan>,
    /// The time of the next checkpoint.
    next: Option<Instant>,
    work: Option<Work>,
    /// SIGTERM has come, and the job ends with a checkpoint.
    is_ending: bool,
    /// mpirun was collected: another process may have its number.
    has_ended: bool,
    last: Option<(Signal, Instant)>,
    /// A failure, and the time of its report.
    pending_report: Option<(Instant, String)>,
    last_report: Option<String>,
    has_reported_set: bool,
}

struct Work {
    ends: bool,
    /// The other end is closed after the checkpoint.
    done: OwnedFd,
    thread: JoinHandle<Result<Checkpoint, MakerError>>,
}

/// The plan of an mpirun with these options; reports missing requirements before the job.
pub fn plan(
    supervision: Supervision,
    params: &Params,
    is_quiet: bool,
) -> Result<SupervisionPlan, String> {
    let base = super::usable_base(params)?;
    let maker = Maker {
        is_tree: false,
        criu: super::criu_of_job(params)?,
        program: super::program()?,
        base,
        keep: super::keep(params),
        supervision: None,
    };
    Ok(SupervisionPlan { supervision, maker, is_quiet })
}

/// Continues `mpirun` as two processes: returns the exit code in the parent, `None` in the child.
pub fn in_parent(plan: SupervisionPlan) -> Result<Option<i32>, String> {
    // Before the job exists, so that no signal is lost.
    let signals = signals().map_err(|error| format!("cannot watch signals: {error}"))?;
    let child =
        spawn::split().map_err(|error| format!("cannot go on as two processes: {error}"))?;
    let Some(job) = child else { return Ok(None) };
    let supervisor = Supervisor::new("mpirun", job, &signals, true).with(Some(plan));
    supervisor.watch().map(Some).map_err(|error| format!("cannot wait for the job: {error}"))
}

pub(super) fn signals() -> io::Result<Signals> {
    Signals::new(&PASSED_ON.map(Signal::as_raw))
}

/// The exit code of an ended process, as in a shell.
fn code_of(status: rustix::process::WaitStatus) -> i32 {
    // A relayed signal kills an mpirun that does not yet collect signals.
    let signal =
        status.terminating_signal().map(|signal| spawn::stands_for(signal).unwrap_or(signal));
    status.exit_status().or_else(|| signal.map(|signal| 128 + signal)).unwrap_or(1)
}

impl<'s> Supervisor<'s> {
    /// A supervisor in this process; `is_known` says whether its mpirun knows of it.
    pub(super) fn new(
        name: &'static str,
        job: Pid,
        signals: &'s Signals,
        is_known: bool,
    ) -> Supervisor<'s> {
        Supervisor {
            name,
            job,
            signals,
            terminal: Terminal::none(),
            is_known,
            plan: None,
            next: None,
            work: None,
            is_ending: false,
            has_ended: false,
            last: None,
            pending_report: None,
            last_report: None,
            has_reported_set: false,
        }
    }

    /// Adds automatic checkpoints.
    pub(super) fn with(mut self, plan: Option<SupervisionPlan>) -> Supervisor<'s> {
        self.next =
            plan.as_ref().and_then(|plan| plan.supervision.every).map(|time| Instant::now() + time);
        self.plan = plan;
        self
    }

    pub(super) fn at(mut self, terminal: Terminal) -> Supervisor<'s> {
        self.terminal = terminal;
        self
    }

    /// Waits for the end of mpirun; returns its exit code, or that of a shell for a signal.
    pub(super) fn watch(mut self) -> io::Result<i32> {
        let process = pidfd_open(self.job, PidfdFlags::empty())?;
        loop {
            let is_done = self.sleep(process.as_fd())?;
            self.terminal.pass_on();
            while let Some(signal) = self.signals.next()?.and_then(Signal::from_named_raw) {
                if let Some(code) = self.handle_signal(signal) {
                    return Ok(code);
                }
            }
            if is_done && let Some(code) = self.finish_work() {
                return Ok(code);
            }
            if let Some((_, status)) = waitpid(Some(self.job), WaitOptions::NOHANG)? {
                self.has_ended = true;
                self.terminal.pass_on();
                // A checkpoint in progress is completed: its set may be the last of a failed job.
                let code = self.finish_work();
                return Ok(code.unwrap_or_else(|| code_of(status)));
            }
            self.act_on_time(Instant::now());
        }
    }

    fn sleep(&self, process: BorrowedFd<'_>) -> io::Result<bool> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(process, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        fds.extend(self.terminal.output().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        fds.extend(self.work.as_ref().map(|work| PollFd::new(&work.done, PollFlags::IN)));
        let next = self.next.filter(|_| self.work.is_none());
        let pending_report = self.pending_report.as_ref().map(|(time, _)| *time);
        let next = next.into_iter().chain(pending_report).min();
        wait_for(&mut fds, next.map(|time| time.saturating_duration_since(Instant::now())))?;
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        if fds.first().is_some_and(is_ready) {
            // A process that CRIU traces cannot be waited for until CRIU has noticed its end.
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(self.work.is_some() && fds.last().is_some_and(is_ready))
    }

    /// Handles a signal. Returns the exit code if the job is not waited for any longer.
    fn handle_signal(&mut self, signal: Signal) -> Option<i32> {
        let now = Instant::now();
        if !self.is_known {
            // A terminal sends a signal to the whole group, so to an mpirun in our group.
            let group = |pid| ProcessStat::of(pid).map(|stat| stat.group);
            let job = group(self.job.as_raw_pid().cast_unsigned());
            let has_own_group = job.is_some() && job != group(std::process::id());
            if has_own_group || !OF_TERMINAL.contains(&signal) {
                self.pass(signal);
            }
            return None;
        }
        if RELAYED.contains(&signal.as_raw()) {
            let is_same =
                |(last, time): (Signal, Instant)| last == signal && now.duration_since(time) < SAME;
            if self.last.is_some_and(is_same) {
                return None;
            }
            self.last = Some((signal, now));
        }
        let on_term = self.plan.as_ref().is_some_and(|plan| plan.supervision.on_term);
        if signal != Signal::TERM || !on_term {
            self.pass(signal);
            return None;
        }
        if std::mem::replace(&mut self.is_ending, true) {
            return Some(self.end_at_once());
        }
        if self.work.is_none() {
            self.begin_work();
        }
        None
    }

    fn pass(&self, signal: Signal) {
        if self.has_ended {
            return;
        }
        // If mpirun is gone, its end is the next event.
        let _ = match self.is_known && RELAYED.contains(&signal.as_raw()) {
            true => spawn::relay(self.job, signal.as_raw()),
            false => kill_process(self.job, signal).map_err(io::Error::from),
        };
    }

    /// The user does not want to wait for the checkpoint. CRIU finds the processes gone.
    fn end_at_once(&self) -> i32 {
        oxmpi_sys::complain!(
            "{}: SIGTERM once more: the job is ended at once, without a checkpoint",
            self.name
        );
        self.pass(Signal::KILL);
        let start = Instant::now();
        while let Ok(None) = waitpid(Some(self.job), WaitOptions::NOHANG)
            && start.elapsed() < KILLED
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        128 + Signal::TERM.as_raw()
    }

    /// Reports a failure, or begins the next checkpoint, if it is time.
    fn act_on_time(&mut self, now: Instant) {
        if let Some((_, text)) = self.pending_report.take_if(|(time, _)| *time <= now) {
            self.report(&text);
        }
        if self.work.is_none() && self.next.is_some_and(|time| time <= now) {
            self.begin_work();
        }
    }

    /// Begins a checkpoint in its own thread, so that signals are handled meanwhile.
    fn begin_work(&mut self) {
        let Some(plan) = &self.plan else { return };
        let (maker, ends) = (plan.maker.clone(), self.is_ending);
        let job = self.job.as_raw_nonzero().get().cast_unsigned();
        let begun =
            pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from).and_then(|(done, end)| {
                let work = move || {
                    let _end = end;
                    maker.make(job, ends)
                };
                let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(work)?;
                Ok(Work { ends, done, thread })
            });
        match begun {
            Ok(work) => self.work = Some(work),
            Err(error) => self.give_up(ends, error.to_string()),
        }
    }

    /// Waits for the checkpoint in progress; returns the exit code if the job has ended with it.
    fn finish_work(&mut self) -> Option<i32> {
        let Work { ends, thread, .. } = self.work.take()?;
        let made =
            thread.join().map_err(|_| io::Error::other("the thread that made it has failed"));
        match made.map_err(|error| error.to_string()).and_then(|made| {
            made.map_err(|error| if ends { error.reason() } else { error.to_string() })
        }) {
            Ok(made) if ends => {
                oxmpi_sys::complain!(
                    "{}: SIGTERM: the job was checkpointed and has ended; 'oxmpi restart {}' brings it back",
                    self.name,
                    made.set.path.display()
                );
                return Some(CHECKPOINTED);
            }
            Ok(made) => self.note_set(&made),
            Err(text) => self.give_up(ends, text),
        }
        if self.is_ending && !ends && !self.has_ended {
            self.begin_work();
        }
        None
    }

    fn note_set(&mut self, made: &Checkpoint) {
        (self.last_report, self.pending_report) = (None, None);
        self.set_next();
        for left in &made.left {
            self.report(&format!("an old set cannot be removed: {left}"));
        }
        let every = self.plan.as_ref().and_then(|plan| plan.supervision.every);
        let is_quiet = self.plan.as_ref().is_some_and(|plan| plan.is_quiet);
        if let Some(every) = every
            && !std::mem::replace(&mut self.has_reported_set, true)
            && !is_quiet
        {
            let name = JobName::new(&made.set.manifest.job.program, &made.set.manifest.job.id);
            let base = made.set.path.parent().map(PathBuf::from).unwrap_or_default();
            oxmpi_sys::complain!(
                "{}: the job is checkpointed every {}; 'oxmpi restart {}' brings the newest set back",
                self.name,
                interval_text(every),
                base.join(name.to_string()).display()
            );
        }
    }

    fn give_up(&mut self, ends: bool, text: String) {
        if self.has_ended {
            return;
        }
        if !ends {
            self.set_next();
            let every = self.plan.as_ref().and_then(|plan| plan.supervision.every);
            let next =
                every.map(|time| format!("; the next one is made in {}", interval_text(time)));
            // Reported after the delay, unless it repeats the last report.
            let text = text + &next.unwrap_or_default();
            if self.last_report.as_ref() != Some(&text) {
                self.pending_report.get_or_insert((Instant::now() + GRACE, text));
            }
            return;
        }
        oxmpi_sys::complain!(
            "{}: SIGTERM: no checkpoint can be made, and the job ends without one: {text}",
            self.name
        );
        (self.is_ending, self.next) = (false, None);
        if let Some(plan) = &mut self.plan {
            // The next SIGTERM is the second one to mpirun.
            plan.supervision.on_term = false;
        }
        self.pass(Signal::TERM);
    }

    fn set_next(&mut self) {
        let every = self.plan.as_ref().and_then(|plan| plan.supervision.every);
        self.next = every.map(|time| Instant::now() + time);
    }

    fn report(&mut self, text: &str) {
        if self.last_report.as_deref() != Some(text) {
            oxmpi_sys::complain!("{}: {text}", self.name);
            self.last_report = Some(text.into());
        }
    }
}

/// A time in the form of `--every`.
pub fn interval_text(time: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m")];
    let ms = time.as_millis() as u64;
    let unit = UNITS.iter().find(|(unit, _)| ms >= *unit && ms.is_multiple_of(*unit));
    unit.map_or_else(
        || format!("{}s", time.as_secs_f64()),
        |(unit, name)| format!("{}{name}", ms / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_they_are_given() {
        for (ms, text) in [
            (1_800_000, "30m"),
            (5_400_000, "90m"),
            (7_200_000, "2h"),
            (86_400_000, "1d"),
            (1500, "1.5s"),
            (90_000, "90s"),
        ] {
            assert_eq!(interval_text(Duration::from_millis(ms)), text);
        }
    }
}
