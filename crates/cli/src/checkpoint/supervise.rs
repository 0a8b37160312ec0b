//! The parent of a job's mpirun: it waits for its end, passes signals on, and makes checkpoints without being asked.
//!
//! An image is one of `mpirun` and all its descendants, so who makes it must not be one of these. With `--every` or
//! `--checkpoint-on-term` `mpirun` therefore goes on as two processes: a parent, which is what the user has started, and a child, which
//! runs the job and is imaged. `oxmpi restart` is the parent of a job that was brought back, and goes on with the same.
//!
//! A signal that ends the job is the parent's affair, whoever it was sent to: the child passes it on to the parent, and ends the job when
//! the parent relays it ([`oxmpi_sys::spawn::relay`]). What is sent to the whole group, by a terminal or by timeout(1), so comes to
//! the parent twice, and counts once.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use oxmpi_checkpoint::making::Checkpoint;
use oxmpi_checkpoint::set::JobName;
use oxmpi_param::Params;
use oxmpi_rt::launch::Supervision;
use oxmpi_sys::process_stat::ProcessStat;
use oxmpi_sys::spawn::{self, RELAYED, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};

use super::terminal::Terminal;
use super::{Maker, MakerError};
use crate::command::{Stop, failed};

/// The exit code of a job that has ended because SIGTERM was to make a checkpoint, and has: EX_TEMPFAIL of sysexits(3), "try again".
const CHECKPOINTED: i32 = 75;

/// Signals that are meant for the job.
const PASSED_ON: [Signal; 7] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::CONT];
/// Those that a terminal sends to the whole group.
const OF_TERMINAL: [Signal; 3] = [Signal::INT, Signal::QUIT, Signal::CONT];
/// The same signal within this time is the same one, on its two ways.
const SAME: Duration = Duration::from_millis(500);
/// How long a failure is not told: the job may just be ending, and a checkpoint of it fails for that.
const GRACE: Duration = Duration::from_secs(1);
/// How long the end of a job is awaited that was killed while it was being imaged.
const KILLED: Duration = Duration::from_secs(5);

/// What is done about checkpoints.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) supervision: Supervision,
    pub(super) maker: Maker,
    /// Whether only failures are told.
    pub(super) is_quiet: bool,
}

/// The parent of an mpirun.
pub(super) struct Supervisor<'s> {
    /// What stands before all that it says.
    name: &'static str,
    job: Pid,
    signals: &'s Signals,
    terminal: Terminal,
    /// Whether that mpirun knows that it has a parent of this kind.
    is_known: bool,
    plan: Option<Plan>,
    /// When the next checkpoint is made.
    next: Option<Instant>,
    work: Option<Work>,
    /// SIGTERM has come, and the job ends with a checkpoint.
    is_ending: bool,
    /// It has been waited for: its number may be somebody else's.
    has_ended: bool,
    /// The signal that was heeded last.
    last: Option<(Signal, Instant)>,
    /// A failure that is told at a time.
    untold: Option<(Instant, String)>,
    /// What was told last.
    told: Option<String>,
    has_told_set: bool,
}

/// A checkpoint that is being made.
struct Work {
    ends: bool,
    /// Its other end is closed when it is done.
    done: OwnedFd,
    thread: JoinHandle<Result<Checkpoint, MakerError>>,
}

/// What an mpirun with these options does; whatever is missing for it is told before there is a job.
pub(crate) fn plan(supervision: Supervision, params: &Params, is_quiet: bool) -> Result<Plan, Stop> {
    let base = super::usable_base(params)?;
    let maker = Maker {
        is_tree: false,
        criu: super::criu_of_job(params)?,
        program: super::program()?,
        base,
        keep: super::keep(params),
        supervision: None,
    };
    Ok(Plan { supervision, maker, is_quiet })
}

/// Lets `mpirun` go on as two processes. Returns the exit code in the parent when the job has ended, and `None` in the child, which
/// has to run the job.
pub(crate) fn in_parent(plan: Plan) -> Result<Option<i32>, Stop> {
    // Before the job is there: no signal may be lost.
    let signals = signals().map_err(|error| failed(format!("cannot watch signals: {error}")))?;
    let child = spawn::split().map_err(|error| failed(format!("cannot go on as two processes: {error}")))?;
    let Some(job) = child else { return Ok(None) };
    let supervisor = Supervisor::new("mpirun", job, &signals, true).with(Some(plan));
    supervisor.watch().map(Some).map_err(|error| failed(format!("cannot wait for the job: {error}")))
}

/// The signals that a supervisor has to see.
pub(super) fn signals() -> io::Result<Signals> {
    Signals::new(&PASSED_ON.map(Signal::as_raw))
}

/// The exit code of a process that has ended, as a shell has it.
fn code_of(status: rustix::process::WaitStatus) -> i32 {
    // One that was relayed kills an mpirun that has not begun to collect signals.
    let signal = status.terminating_signal().map(|signal| spawn::stands_for(signal).unwrap_or(signal));
    status.exit_status().or_else(|| signal.map(|signal| 128 + signal)).unwrap_or(1)
}

impl<'s> Supervisor<'s> {
    /// Of this process; `is_known` says whether its mpirun was started with such a parent.
    pub(super) fn new(name: &'static str, job: Pid, signals: &'s Signals, is_known: bool) -> Supervisor<'s> {
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
            untold: None,
            told: None,
            has_told_set: false,
        }
    }

    /// Makes checkpoints as well.
    pub(super) fn with(mut self, plan: Option<Plan>) -> Supervisor<'s> {
        self.next = plan.as_ref().and_then(|plan| plan.supervision.every).map(|time| Instant::now() + time);
        self.plan = plan;
        self
    }

    /// Passes on what the job writes to this terminal.
    pub(super) fn at(mut self, terminal: Terminal) -> Supervisor<'s> {
        self.terminal = terminal;
        self
    }

    /// Waits for the end of mpirun. Returns its exit code, or that of a shell for a signal that killed it.
    pub(super) fn watch(mut self) -> io::Result<i32> {
        let process = pidfd_open(self.job, PidfdFlags::empty())?;
        loop {
            let is_done = self.sleep(process.as_fd())?;
            self.terminal.pass_on();
            while let Some(signal) = self.signals.next()?.and_then(Signal::from_named_raw) {
                if let Some(code) = self.heed(signal) {
                    return Ok(code);
                }
            }
            if is_done && let Some(code) = self.finish_work() {
                return Ok(code);
            }
            if let Some((_, status)) = waitpid(Some(self.job), WaitOptions::NOHANG)? {
                self.has_ended = true;
                self.terminal.pass_on();
                // What has begun is brought to its end: the set may be the last word of a job that has failed.
                let code = self.finish_work();
                return Ok(code.unwrap_or_else(|| code_of(status)));
            }
            self.see_to_times(Instant::now());
        }
    }

    /// Sleeps until something happens; whether a checkpoint is done.
    fn sleep(&self, process: BorrowedFd<'_>) -> io::Result<bool> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(process, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        fds.extend(self.terminal.output().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        fds.extend(self.work.as_ref().map(|work| PollFd::new(&work.done, PollFlags::IN)));
        let next = self.next.filter(|_| self.work.is_none());
        let untold = self.untold.as_ref().map(|(time, _)| *time);
        let timeout = next.into_iter().chain(untold).min().map(|time| {
            let left = time.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        if fds.first().is_some_and(is_ready) {
            // One that CRIU traces cannot be waited for until that has noticed its end.
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(self.work.is_some() && fds.last().is_some_and(is_ready))
    }

    /// Does what a signal asks for. Returns the exit code if the job is not waited for any longer.
    fn heed(&mut self, signal: Signal) -> Option<i32> {
        let now = Instant::now();
        if !self.is_known {
            // What a terminal sends comes to the whole group, so mpirun has it already if it is in ours.
            let group = |pid| ProcessStat::of(pid).map(|stat| stat.group);
            let job = group(self.job.as_raw_pid().cast_unsigned());
            let has_own_group = job.is_some() && job != group(std::process::id());
            if has_own_group || !OF_TERMINAL.contains(&signal) {
                self.pass(signal);
            }
            return None;
        }
        if RELAYED.contains(&signal.as_raw()) {
            let is_same = |(last, time): (Signal, Instant)| last == signal && now.duration_since(time) < SAME;
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
        // If it is gone, its end is what comes next.
        let _ = match self.is_known && RELAYED.contains(&signal.as_raw()) {
            true => spawn::relay(self.job, signal.as_raw()),
            false => kill_process(self.job, signal).map_err(io::Error::from),
        };
    }

    /// Somebody does not want to wait for the checkpoint. CRIU, which is not killed, finds the processes gone.
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

    /// Tells a failure, or begins with the next checkpoint, if it is time to.
    fn see_to_times(&mut self, now: Instant) {
        if let Some((_, text)) = self.untold.take_if(|(time, _)| *time <= now) {
            self.tell(&text);
        }
        if self.work.is_none() && self.next.is_some_and(|time| time <= now) {
            self.begin_work();
        }
    }

    /// Begins with a checkpoint, in a thread of its own: signals are heeded meanwhile.
    fn begin_work(&mut self) {
        let Some(plan) = &self.plan else { return };
        let (maker, ends) = (plan.maker.clone(), self.is_ending);
        let job = self.job.as_raw_nonzero().get().cast_unsigned();
        let begun = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from).and_then(|(done, end)| {
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

    /// Waits for the checkpoint that is being made, if there is one. Returns the exit code if the job has ended with it.
    fn finish_work(&mut self) -> Option<i32> {
        let Work { ends, thread, .. } = self.work.take()?;
        let made = thread.join().map_err(|_| io::Error::other("the thread that made it has failed"));
        match made
            .map_err(|error| error.to_string())
            .and_then(|made| made.map_err(|error| if ends { error.reason() } else { error.to_string() }))
        {
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

    /// A set is there, and the job goes on.
    fn note_set(&mut self, made: &Checkpoint) {
        (self.told, self.untold) = (None, None);
        self.set_next();
        for left in &made.left {
            self.tell(&format!("an old set cannot be removed: {left}"));
        }
        let every = self.plan.as_ref().and_then(|plan| plan.supervision.every);
        let is_quiet = self.plan.as_ref().is_some_and(|plan| plan.is_quiet);
        if let Some(every) = every
            && !std::mem::replace(&mut self.has_told_set, true)
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

    /// There is no set, for this reason.
    fn give_up(&mut self, ends: bool, text: String) {
        if self.has_ended {
            return;
        }
        if !ends {
            self.set_next();
            let every = self.plan.as_ref().and_then(|plan| plan.supervision.every);
            let next = every.map(|time| format!("; the next one is made in {}", interval_text(time)));
            // Told at its time, unless the same was told before.
            let text = text + &next.unwrap_or_default();
            if self.told.as_ref() != Some(&text) {
                self.untold.get_or_insert((Instant::now() + GRACE, text));
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

    /// Says something, once.
    fn tell(&mut self, text: &str) {
        if self.told.as_deref() != Some(text) {
            oxmpi_sys::complain!("{}: {text}", self.name);
            self.told = Some(text.into());
        }
    }
}

/// A time as `--every` takes it.
pub(super) fn interval_text(time: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m")];
    let ms = time.as_millis() as u64;
    let unit = UNITS.iter().find(|(unit, _)| ms >= *unit && ms.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{}s", time.as_secs_f64()), |(unit, name)| format!("{}{name}", ms / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_they_are_given() {
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
