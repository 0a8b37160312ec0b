//! What `mpirun` does: starts the ranks, passes on their output, answers them, and carries out what
//! [`Job`] decides.
//!
//! One thread, one loop: it sleeps in poll(2) until a rank writes, asks or ends, a signal comes, or a time is over.
//!
//! - Each rank leads a process group of its own and dies with the launcher (PR_SET_PDEATHSIG); a guard process kills
//!   what is left of the groups even if the launcher is killed by SIGKILL.
//! - Ended ranks are not reaped before the job is over, so that the number of a group cannot become somebody else's.
//! - Nothing that the launcher writes blocks it, so that Ctrl-C always works: see `output.rs`.

mod binding;
mod end;
mod files;
mod input;
mod output;
mod start;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oxmpi_os::segment::{RankState, SegmentError};
use oxmpi_os::spawn::{MAX_GUARDED, Signals};
use oxmpi_os::{cpus, fdpass};
use oxmpi_param::Params;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};

pub use self::binding::Bind;
pub use self::files::OutputFiles;
pub use self::input::Stdin;

use self::binding::Binding;
use self::files::Files;
use self::input::Feed;
use self::output::{Came, Lines, Sink, is_ready, read_some};
use self::start::{Outputs, Rank, Sockets, Started};
use crate::client::to_hex;
use crate::control::{MAX_MESSAGE, Reply, Request};
use crate::interfaces::InterfaceError;
use crate::job::{Action, Event, Exit, Glimpse, Job, Stage, WATCH_INTERVAL};

/// Ranks that one launcher starts at most.
pub const MAX_RANKS: u32 = MAX_GUARDED as u32;

/// How often each rank has been started, this time included.
const INCARNATION: u32 = 1;

/// How long the output of a job is awaited when its ranks have ended but others still hold their pipes.
const DRAIN_GRACE: Duration = Duration::from_millis(200);

/// One program and how many ranks run it.
#[derive(Clone, Debug)]
pub struct App {
    /// How many ranks.
    pub ranks: u32,
    /// The file to execute.
    pub path: PathBuf,
    /// Its arguments, its own name first.
    pub args: Vec<OsString>,
    /// Variables that these ranks inherit.
    pub inherited: Vec<(OsString, OsString)>,
    /// Variables for these ranks alone, stronger than all others.
    pub env: Vec<(OsString, OsString)>,
    /// The directory to start in, an absolute path, if not the launcher's.
    pub directory: Option<PathBuf>,
}

/// A job to run.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The programs; ranks are numbered through in this order.
    pub apps: Vec<App>,
    /// Variables for all ranks, stronger than what they inherit.
    pub env: Vec<(OsString, OsString)>,
    /// The parameters, for what the launcher itself makes (segments).
    pub params: Params,
    /// Whether each line of output gets its rank in front.
    pub tag_output: bool,
    /// Files that get the output of the ranks.
    pub output_files: Option<OutputFiles>,
    /// Who gets the standard input.
    pub stdin: Stdin,
    /// What ranks are bound to.
    pub bind: Bind,
    /// Whether a line for each rank says what it is bound to.
    pub report_bindings: bool,
    /// Whether a line for each rank says what was started.
    pub verbose: bool,
    /// Whether notes and warnings of ranks are left out; reports of failures are not.
    pub quiet: bool,
    /// When to end the job.
    pub timeout: Option<Duration>,
    /// Put in front of LD_LIBRARY_PATH.
    pub library_directory: Option<PathBuf>,
    /// The name of the MPI function that a status line gives as its last call (never 0).
    pub call_name: fn(u16) -> Option<&'static str>,
}

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A program cannot be executed.
    #[error("cannot run '{}': {error}{}", program.display(), missing(program, error))]
    Run {
        /// The file.
        program: PathBuf,
        /// What execve(2) said.
        error: io::Error,
    },
    /// The kernel refused something.
    #[error("cannot {0}: {1}")]
    Kernel(&'static str, #[source] io::Error),
    /// A new segment cannot be used.
    #[error(transparent)]
    Segment(SegmentError),
    /// The limit on open files is too low for so many ranks.
    #[error(
        "{ranks} ranks need {needed} open files in {place}, but its limit is {limit}: raise the hard limit \
         ('ulimit -Hn', or that of the batch system or container), or start fewer ranks"
    )]
    OpenFiles {
        /// The ranks.
        ranks: u64,
        /// Which process needs them: mpirun, or each rank.
        place: &'static str,
        /// Descriptors that it needs.
        needed: u64,
        /// The hard limit (RLIMIT_NOFILE).
        limit: u64,
    },
    /// The files for the ranks' output cannot be made.
    #[error("cannot make files for the output in {}: {error}", directory.display())]
    Files {
        /// Where.
        directory: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no network for the sockets of the job.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// Too many ranks for one launcher.
    #[error("{0} ranks are too many: one mpirun starts at most {MAX_RANKS}")]
    TooMany(u64),
}

/// execve(2) says "no such file" of a file that is there if what it names to run it is not.
fn missing(program: &Path, error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::NotFound && program.exists() {
        "; the file is there, but not the interpreter that it names (see its first line, or 'file PROGRAM')"
    } else {
        ""
    }
}

/// What an event of the poll set is about, packed into its 64 bits.
const OUTPUT: [u64; 2] = [0, 1];
const CONTROL: u64 = 2;
const ENDED: u64 = 3;
const SIGNALS: u64 = 4;

/// Runs a job to its end and returns the exit code for `mpirun`.
///
/// # Errors
/// The job could not be started; nothing of it is left.
pub fn run(launch: &Launch) -> Result<i32, LaunchError> {
    let size: u64 = launch.apps.iter().map(|app| u64::from(app.ranks)).sum();
    if size > u64::from(MAX_RANKS) {
        return Err(LaunchError::TooMany(size));
    }
    let kernel = |what| move |e: rustix::io::Errno| LaunchError::Kernel(what, e.into());
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(kernel("become a subreaper"))?;
    let wanted =
        [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::TSTP]
            .map(Signal::as_raw);
    let signals = Signals::new(&wanted).map_err(|e| LaunchError::Kernel("watch signals", e))?;
    let usable = cpus::usable();
    // Reading about cores takes time that only a job which may be bound should pay.
    let cores = match launch.bind {
        Bind::None => Vec::new(),
        Bind::Split if size == 1 || size > usable as u64 => Vec::new(),
        _ => cpus::cores().map_err(|e| LaunchError::Kernel("ask for the processors", e))?,
    };
    let binding = Binding::decide(launch.bind, size as usize, cores, usable);
    let open_files = start::raise_open_files(launch, size as u32)?;
    let files = launch.output_files.as_ref().map(|files| {
        let directory = files.directory.clone();
        Files::create(&directory, size as u32).map_err(|error| LaunchError::Files { directory, error })
    });
    let files = files.transpose()?;
    let mut started = start::start(launch, &signals, io::stdin().is_terminal(), &binding, open_files)?;
    let feed = std::mem::take(&mut started.feed);
    let pipes = std::mem::take(&mut started.outputs);
    let sockets = started.sockets.take();
    let code = match Launcher::new(launch, &signals, &started, (pipes, sockets), feed) {
        Ok(mut launcher) => {
            launcher.files = files;
            launcher.introduce(&binding);
            launcher.run()
        }
        Err(error) => Err(error),
    };
    end::kill_groups(&started.ranks);
    end::reap(started);
    code.map_err(kernel("wait for the ranks"))
}

/// The running loop.
struct Launcher<'a> {
    launch: &'a Launch,
    job: Job,
    signals: &'a Signals,
    started: &'a Started,
    running: Vec<bool>,
    /// What must always be listened to: control sockets, processes, signals.
    events: OwnedFd,
    /// The ranks' outputs, listened to while our own take more.
    outputs: OwnedFd,
    lines: Vec<[Lines; 2]>,
    pipes: Vec<Outputs>,
    /// What the ranks of a job over sockets will ask for.
    sockets: Option<Sockets>,
    open_count: usize,
    sinks: [Sink<'static>; 2],
    feed: Feed,
    files: Option<Files>,
    grace: Option<Instant>,
    timeout: Option<Instant>,
    watch: Option<Instant>,
    finished: Option<i32>,
    buffer: Vec<u8>,
}

impl<'a> Launcher<'a> {
    fn new(
        launch: &'a Launch,
        signals: &'a Signals,
        started: &'a Started,
        (pipes, sockets): (Vec<Outputs>, Option<Sockets>),
        feed: Feed,
    ) -> rustix::io::Result<Self> {
        let size = started.ranks.len() as u32;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let outputs = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let add = |set: &OwnedFd, fd: BorrowedFd<'_>, kind: u64, rank: u64| {
            epoll::add(set, fd, epoll::EventData::new_u64(kind << 32 | rank), epoll::EventFlags::IN)
        };
        add(&events, signals.as_fd(), SIGNALS, 0)?;
        for (i, rank) in (0..).zip(&started.ranks) {
            add(&events, rank.control.as_fd(), CONTROL, i)?;
            add(&events, rank.process.pidfd.as_fd(), ENDED, i)?;
        }
        for (i, pipes) in (0..).zip(&pipes) {
            for (kind, pipe) in OUTPUT.into_iter().zip(pipes.iter().flatten()) {
                add(&outputs, pipe.as_fd(), kind, i)?;
            }
        }
        let mut lines: Vec<_> =
            (0..size).map(|rank| [0, 1].map(|_| Lines::new(launch.tag_output.then_some(rank)))).collect();
        // Who talks with the user asks before the line is complete.
        if let (Stdin::Rank(rank), true) = (launch.stdin, feed.wants_more())
            && let Some(lines) = lines.get_mut(rank as usize)
        {
            lines.iter_mut().for_each(|l| l.eager = true);
        }
        Ok(Launcher {
            launch,
            job: Job::new(size, &host),
            signals,
            started,
            running: vec![true; size as usize],
            events,
            outputs,
            lines,
            pipes,
            sockets,
            open_count: 2 * size as usize,
            sinks: [Sink::new(rustix::stdio::stdout()), Sink::new(rustix::stdio::stderr())],
            feed,
            files: None,
            grace: None,
            timeout: launch.timeout.map(|t| Instant::now() + t),
            watch: None,
            finished: None,
            buffer: vec![0; 64 << 10],
        })
    }

    /// Says what was started, as far as the user wants to know.
    fn introduce(&mut self, binding: &Binding) {
        let mut text = binding.warning().filter(|_| !self.launch.quiet).unwrap_or_default();
        let apps = self.launch.apps.iter().flat_map(|app| (0..app.ranks).map(move |_| app));
        for ((number, rank), app) in (0..).zip(&self.started.ranks).zip(apps) {
            if self.launch.verbose {
                text += &format!("mpirun: rank {number}: pid {}, {}\n", rank.process.pid, app.path.display());
            }
            if self.launch.report_bindings {
                text += &binding.report(number);
            }
        }
        self.sinks[1].queue().extend_from_slice(text.as_bytes());
        self.sinks[1].write();
    }

    fn run(&mut self) -> rustix::io::Result<i32> {
        loop {
            self.wait()?;
            self.times();
            if let Some(code) = self.finished {
                self.drain()?;
                return Ok(code);
            }
        }
    }

    /// Sleeps until something happens, and sees to it.
    fn wait(&mut self) -> rustix::io::Result<()> {
        let timeout = [self.grace, self.timeout, self.watch].into_iter().flatten().min().map(|t| {
            let left = t.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        let full = self.sinks.iter().any(Sink::is_full);
        let stdin = rustix::stdio::stdin();
        let mut fds = vec![PollFd::new(&self.events, PollFlags::IN)];
        if !full {
            fds.push(PollFd::new(&self.outputs, PollFlags::IN));
        }
        let waiting: Vec<BorrowedFd<'_>> = self.sinks.iter().filter_map(Sink::waiting).collect();
        fds.extend(waiting.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        if self.feed.wants_more() {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        let behind: Vec<BorrowedFd<'_>> = self.feed.behind().collect();
        fds.extend(behind.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        drop(fds);
        self.feed.pass(rustix::stdio::stdin(), &mut self.buffer[..4096]);
        if !full {
            // Before the ends of ranks: what a rank wrote comes before the report on its death.
            self.take_events(false)?;
        }
        self.take_events(true)?;
        self.sinks.iter_mut().for_each(Sink::write);
        Ok(())
    }

    fn take_events(&mut self, urgent: bool) -> rustix::io::Result<()> {
        let mut list = Vec::with_capacity(128);
        let set = if urgent { &self.events } else { &self.outputs };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(set, rustix::buffer::spare_capacity(&mut list), Some(&now)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        for event in list {
            let data = event.data.u64();
            let rank = data as u32;
            match data >> 32 {
                CONTROL => self.control(rank),
                ENDED => self.ended(rank)?,
                SIGNALS => self.signalled()?,
                kind => self.output(rank, kind as usize),
            }
        }
        Ok(())
    }

    /// Takes what a rank wrote. `kind` is 0 for standard output, 1 for standard error.
    fn output(&mut self, rank: u32, kind: usize) {
        let at = rank as usize;
        let Some(fd) = &self.pipes[at][kind] else { return };
        let lines = &mut self.lines[at][kind];
        match read_some(fd, &mut self.buffer[..]) {
            Came::Bytes(n) => {
                let bytes = &self.buffer[..n];
                if self.launch.output_files.as_ref().is_none_or(|files| files.print) {
                    lines.take(bytes, self.sinks[kind].queue());
                }
                if let Some(text) = self.files.as_mut().and_then(|files| files.write(at, kind, bytes)) {
                    self.tell(Event::Say { text });
                }
            }
            Came::Nothing => return,
            Came::End => {
                lines.end(self.sinks[kind].queue());
                self.close(at, kind);
            }
        }
        self.sinks[kind].write();
    }

    fn close(&mut self, at: usize, kind: usize) {
        // Closing takes it out of the epoll set, too: nobody else has this end.
        if self.pipes[at][kind].take().is_some() {
            self.open_count -= 1;
        }
    }

    /// Answers one message of a rank. Returns whether there may be more.
    fn control_once(&mut self, rank: u32) -> bool {
        let socket = &self.started.ranks[rank as usize].control;
        let mut bytes = [0; MAX_MESSAGE];
        let n = match fdpass::receive(socket, &mut bytes) {
            Ok((0, _)) => {
                let _ = epoll::delete(&self.events, socket);
                return false;
            }
            Ok((n, _)) => n,
            Err(_) => return false,
        };
        match Request::decode(&bytes[..n]) {
            Ok(Request::Segment { rank: wanted }) => {
                let fd = self.started.ranks.get(wanted as usize).map(|r| r.segment_fd.as_fd());
                let reply = match fd {
                    Some(_) => Reply::Segment { rank: wanted },
                    None => {
                        let reason = format!("the job has {} ranks", self.started.ranks.len());
                        Reply::Refused { rank: wanted, reason }
                    }
                };
                // A rank that asks without reading the answers loses them.
                let _ = fdpass::send(socket, &reply.encode(), fd);
            }
            Ok(Request::Listener) => {
                let given = self.sockets.as_mut().and_then(|sockets| {
                    let listener = sockets.listeners[rank as usize].take()?;
                    Some((listener, to_hex(&sockets.secret)))
                });
                let (reply, listener) = match given {
                    Some((listener, secret)) => {
                        (Reply::Listener { incarnation: INCARNATION, secret }, Some(listener))
                    }
                    None => {
                        let reason = "there is no listening socket for it, or it has got one".to_string();
                        (Reply::Refused { rank, reason }, None)
                    }
                };
                let _ = fdpass::send(socket, &reply.encode(), listener.as_ref().map(AsFd::as_fd));
            }
            Ok(Request::Addresses { rank: wanted }) => {
                let reply = self.whereabouts(wanted);
                let _ = fdpass::send(socket, &reply.encode(), None);
            }
            Ok(Request::Abort { code, text }) => {
                let seen = self.glimpse(rank);
                self.tell(Event::Abort { rank, code, text, seen });
            }
            Ok(Request::Say { .. }) if self.launch.quiet => {}
            Ok(Request::Say { text }) => self.tell(Event::Say { text }),
            Err(error) => self.tell(Event::Say { text: format!("rank {rank}: {error}") }),
        }
        true
    }

    /// Where a rank of a job over sockets can be reached.
    fn whereabouts(&self, rank: u32) -> Reply {
        let refused = |reason| Reply::Refused { rank, reason };
        let Some(sockets) = &self.sockets else {
            return refused("the job was started without sockets".into());
        };
        let Some(address) = sockets.addresses.get(rank as usize) else {
            return refused(format!("the job has {} ranks", self.started.ranks.len()));
        };
        match self.started.ranks[rank as usize].segment.status().state() {
            RankState::Finalized => Reply::Left { rank },
            // It may come back as long as it runs.
            RankState::Resting if !self.running[rank as usize] => Reply::Left { rank },
            _ if !self.running[rank as usize] => refused("its process has ended".into()),
            _ => Reply::Addresses { rank, addresses: address.clone() },
        }
    }

    fn control(&mut self, rank: u32) {
        self.control_once(rank);
    }

    fn ended(&mut self, rank: u32) -> rustix::io::Result<()> {
        let pidfd = &self.started.ranks[rank as usize].process.pidfd;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let Some(status) = waitid(WaitId::PidFd(pidfd.as_fd()), options)? else { return Ok(()) };
        epoll::delete(&self.events, pidfd)?;
        // Its last words come before its end.
        while self.control_once(rank) {}
        for kind in [0, 1] {
            while !self.sinks[kind].is_full()
                && self.pipes[rank as usize][kind].as_ref().is_some_and(|pipe| is_ready(pipe, PollFlags::IN))
            {
                self.output(rank, kind);
            }
        }
        self.running[rank as usize] = false;
        if let Some(sockets) = &mut self.sockets {
            // If it has never asked for it: nobody may go on connecting to it.
            sockets.listeners[rank as usize] = None;
        }
        let exit = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        };
        let seen = self.glimpse(rank);
        self.tell(Event::Exited { rank, exit, seen });
        Ok(())
    }

    fn signalled(&mut self) -> rustix::io::Result<()> {
        while let Ok(Some(number)) = self.signals.next() {
            let Some(signal) = Signal::from_named_raw(number) else { continue };
            if signal == Signal::USR1 || signal == Signal::USR2 {
                self.signal_running(signal);
            } else if signal == Signal::TSTP {
                self.signal_running(Signal::STOP);
                rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)?;
                self.signal_running(Signal::CONT);
            } else {
                self.tell(Event::Signal(number));
            }
        }
        Ok(())
    }

    fn times(&mut self) {
        let now = Instant::now();
        if self.grace.is_some_and(|t| t <= now) {
            self.grace = None;
            self.tell(Event::GraceOver);
        }
        if self.timeout.is_some_and(|t| t <= now) {
            self.timeout = None;
            let time = self.launch.timeout.unwrap_or_default();
            let seen = self.glimpses();
            self.tell(Event::TimedOut { time, seen });
        }
        if !self.job.watches() {
            self.watch = None;
        } else if self.watch.is_none_or(|t| t <= now) {
            self.watch = Some(now + WATCH_INTERVAL);
            let seen = self.glimpses();
            self.tell(Event::Seen(seen));
        }
        for kind in [0, 1] {
            if self.sinks[kind].is_broken() {
                // Nobody reads our output: let the ranks feel it as if they wrote there themselves.
                (0..self.pipes.len()).for_each(|at| self.close(at, kind));
            }
        }
    }

    fn tell(&mut self, event: Event) {
        for action in self.job.on(event) {
            match action {
                Action::Print(text) => {
                    self.sinks[1].queue().extend_from_slice(text.as_bytes());
                    self.sinks[1].write();
                }
                Action::Signal(number) => {
                    if let Some(signal) = Signal::from_named_raw(number) {
                        self.signal_running(signal);
                    }
                }
                Action::Grace(time) => self.grace = Some(Instant::now() + time),
                Action::Finish(code) => self.finished = Some(code),
            }
        }
    }

    fn signal_running(&self, signal: Signal) {
        for (rank, _) in self.started.ranks.iter().zip(&self.running).filter(|(_, running)| **running) {
            end::signal_group(rank, signal);
        }
    }

    fn glimpses(&self) -> Vec<Glimpse> {
        (0..self.started.ranks.len() as u32).map(|rank| self.glimpse(rank)).collect()
    }

    fn glimpse(&self, rank: u32) -> Glimpse {
        let Rank { segment, process, .. } = &self.started.ranks[rank as usize];
        let status = segment.status();
        Glimpse {
            pid: status.pid().unwrap_or(process.pid.cast_unsigned()),
            stage: match status.state() {
                RankState::Created | RankState::Loaded => Stage::Untouched,
                RankState::Initialized | RankState::Aborting => Stage::Initialized,
                RankState::Finalized | RankState::Resting => Stage::Finalized,
            },
            last_call: Some(status.last_call()).filter(|&call| call != 0).and_then(self.launch.call_name),
        }
    }

    /// The ranks have ended: passes on what is still in their pipes.
    fn drain(&mut self) -> rustix::io::Result<()> {
        let end = Instant::now() + DRAIN_GRACE;
        while self.open_count > 0 {
            let full = self.sinks.iter().any(Sink::is_full);
            let now = Instant::now();
            if now >= end && !full && !is_ready(&self.outputs, PollFlags::IN) {
                break;
            }
            self.grace = Some(if full { now + DRAIN_GRACE } else { end.max(now) });
            self.wait()?;
            if self.sinks.iter().any(Sink::is_broken) {
                break;
            }
        }
        for at in 0..self.lines.len() {
            for kind in [0, 1] {
                if self.pipes[at][kind].is_some() {
                    self.lines[at][kind].end(self.sinks[kind].queue());
                }
            }
        }
        self.grace = None;
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
