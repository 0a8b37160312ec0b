//! What `mpirun` does: starts the ranks, passes on their output, answers them, and carries out what
//! [`Job`](crate::job::Job) decides.
//!
//! One thread, one loop: it sleeps in poll(2) until a rank writes, asks or ends, a signal comes, or a time is over.
//!
//! - Each rank leads a process group of its own and dies with the launcher (PR_SET_PDEATHSIG); a guard process kills
//!   what is left of the groups even if the launcher is killed by SIGKILL, and what has left them, which it knows by a mark in
//!   the environment.
//! - Ended ranks are not reaped before the job is over, so that the number of a group cannot become somebody else's. What they
//!   have left behind is (`orphans.rs`).
//! - A signal that was ignored when the launcher was started does nothing to it, as with nohup(1); ranks ignore it, too.
//! - Nothing that the launcher writes blocks it, so that Ctrl-C always works: see `output.rs`.

mod abroad;
mod acting;
mod answers;
mod binding;
mod describing;
mod draining;
pub(crate) mod end;
mod entrance;
mod environment;
mod far;
mod files;
mod functions;
mod heirs;
mod held;
mod hold;
mod input;
mod launcher;
mod lifelines;
mod links;
mod other_library;
mod output;
mod places;
mod plugs;
mod quiesce;
mod recruiting;
mod relay;
mod relays;
mod resume;
mod spawning;
mod start;
mod still;
mod watching;

/// What an agent on another host does as the launcher does it here.
pub(crate) mod parts {
    pub(crate) use super::abroad::{Reach, give_abroad, reach_abroad};
    pub(crate) use super::answers::{INCARNATION, plug_whereabouts};
    pub(crate) use super::functions::{LOOK as CALL_LOOK, returned};
    pub(crate) use super::input::Inputs;
    pub(crate) use super::output::{Came, is_ready, read_some};
    pub(crate) use super::places::Place;
    pub(crate) use super::plugs::{Plug, listeners, plugs};
    pub(crate) use super::relay::Relay;
    pub(crate) use super::resume::{Back, bring_back};
    pub(crate) use super::start::{Crew, Outputs, Prepared, Rank, Recruits, boot, exit_of, raise_open_files};
    pub(crate) use super::still::{Input as HeldInput, describe, recover, send, stop};
}

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oxmpi_param::{Module, Params};
use oxmpi_shm::postbox::PostboxError;
use oxmpi_shm::segment::SegmentError;
use oxmpi_sys::cpus;
use oxmpi_sys::semaphore::SemaphoreError;
use oxmpi_sys::spawn::{MAX_GUARDED, Signals, stand_ins};
use rustix::process::Signal;

pub use self::binding::Bind;
pub use self::files::OutputFiles;
pub use self::held::{Held, HeldProgram, HeldRank, Images, Layout};
pub(crate) use self::held::{read_addresses, write_addresses};
pub use self::input::Stdin;
pub use self::output::OutputStyle;
pub use self::plugs::network;
pub use self::relay::{RELAY_CONTROL, RELAY_WORD};
pub use self::resume::{ApartOf, ApartRanks, FilesOf, NAMESPACE_WORD, Restore, Restored, Source, resume};
pub(crate) use self::start::{CONTROL_NUMBER, SEGMENT_NUMBER, kernel};

use self::binding::Binding;
use self::launcher::Launcher;
use crate::hostmap::Hostmap;
use crate::hosts::opening::Opening;
use crate::interfaces::InterfaceError;

/// Ranks that one launcher starts at most.
pub const MAX_RANKS: u32 = MAX_GUARDED as u32;

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
    /// Whether those were chosen, and are so for ranks on other hosts as well. If not, ranks there inherit what an agent there
    /// has.
    pub inherits_chosen: bool,
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
    /// The way that messages take, as it was selected.
    pub transport: &'static Module,
    /// Which addresses are told to peers in place of others.
    pub hostmap: Hostmap,
    /// How the output of ranks is printed.
    pub output: OutputStyle,
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
    /// Finds a program that is to be spawned.
    pub find_program: fn(&Wanted<'_>) -> Result<PathBuf, String>,
    /// The name of the MPI function that a status line gives as its last call (never 0).
    pub call_name: fn(u16) -> Option<&'static str>,
    /// On which hosts the ranks are, if not all on this one.
    pub spread: Option<Spread>,
    /// What the parent of the launcher does about checkpoints, if there is such a one.
    pub supervision: Option<Supervision>,
}

/// What the parent of a launcher, which is outside of the tree of processes that is imaged, does about checkpoints. Signals that end
/// the job are its affair: the launcher heeds those that it relays ([`oxmpi_sys::spawn::relay`]), and passes others on to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supervision {
    /// It makes one after each such time.
    pub every: Option<Duration>,
    /// It makes one when the job is to end by SIGTERM.
    pub on_term: bool,
}

/// Several hosts, or one that is not this one.
#[derive(Clone, Debug)]
pub struct Spread {
    /// The hosts; each has a rank at least.
    pub hosts: Vec<Host>,
    /// On which of them each rank is.
    pub nodes: Vec<u32>,
}

/// A host of a job.
#[derive(Clone, Debug)]
pub struct Host {
    /// As the user has named it.
    pub name: String,
    /// How its agent is reached; `None`: it is this machine, whose ranks need none.
    pub opening: Option<Opening>,
    /// How many ranks it has before others get more than their share; 1 at least.
    pub slots: u32,
}

impl Spread {
    /// The host of a rank.
    pub fn host(&self, rank: u32) -> Option<&Host> {
        self.hosts.get(*self.nodes.get(rank as usize)? as usize)
    }
}

/// A program that a process wants to spawn.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its name, as a shell would look for it.
    pub program: &'a OsStr,
    /// Where it will be started.
    pub directory: &'a Path,
    /// Directories to look in before those of PATH, with colons between them.
    pub path: Option<&'a OsStr>,
    /// Hosts on which it may run, with commas between them.
    pub hosts: Option<&'a str>,
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
    /// A program is linked against another MPI library.
    #[error(
        "'{}' is linked against {library}, which belongs to {owner}: under OxMPI's mpirun each of its processes would be a \
         job of one rank; compile it with OxMPI's mpicc, or start it with the mpirun of that library ('--mca \
         mpi_allow_singletons 1' runs it all the same)",
        program.display()
    )]
    OtherLibrary {
        /// The file.
        program: PathBuf,
        /// The library's file.
        library: String,
        /// What it belongs to.
        owner: &'static str,
    },
    /// The kernel refused something.
    #[error("cannot {0}: {1}")]
    Kernel(&'static str, #[source] io::Error),
    /// A new segment cannot be used.
    #[error(transparent)]
    Segment(SegmentError),
    /// There can be no segment with postboxes.
    #[error(transparent)]
    Postboxes(PostboxError),
    /// There can be no semaphores.
    #[error(transparent)]
    Semaphores(#[from] SemaphoreError),
    /// Ranks shall sleep on semaphores, and have sockets.
    #[error(
        "rpi_sysv_semaphores 1 is for jobs all of whose ranks are on one node: who has sockets to other nodes sleeps on those, and \
         not on a System V semaphore; leave it at 0, or run the job on one node"
    )]
    SemaphoresAndSockets,
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
    #[error("cannot make a file for the output, {}: {error}", path.display())]
    Files {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no network for the sockets of the job.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// There is nothing that the launcher of a singleton could serve.
    #[error("there is no singleton to serve: {0}")]
    NoSingleton(String),
    /// Another host cannot take part.
    #[error("host '{host}': {text}")]
    Host {
        /// Its name.
        host: String,
        /// Whether it is the program that cannot be run there.
        is_program: bool,
        /// Why, and what to do.
        text: String,
    },
    /// The time of the job is over, and agents are still awaited.
    #[error("the time of {} s (--timeout) is over, and {text}", time.as_secs_f64())]
    TimedOut {
        /// The time that it had.
        time: Duration,
        /// Who is awaited, and what to do.
        text: String,
    },
    /// The user has ended the job before it ran.
    #[error("ended by signal {0} before the job ran")]
    Interrupted(i32),
    /// The directory of a program is not there.
    #[error(
        "cannot start a program in {}: {error}; the directory (of -wdir, or where mpirun was called) must be there on each host",
        directory.display()
    )]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Processes of a host do not reach each other over sockets.
    #[error(
        "the ranks of one host cannot reach each other over sockets: connecting to its own address {address} fails: {error}; bring \
         the loopback interface up ('ip link set lo up'), or use shared memory ('--mca rpi shm')"
    )]
    NoLoopback {
        /// The address.
        address: IpAddr,
        /// What connect(2) says.
        error: io::Error,
    },
    /// The processes of a job cannot be restored from their images.
    #[error("{0}")]
    Restore(String),
    /// An agent is told what makes no sense to it.
    #[error("what mpirun orders makes no sense here: {0}")]
    Order(String),
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

/// When the time of a job is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// The time that it has.
    pub(crate) time: Duration,
    end: Instant,
}

impl Deadline {
    /// Of a job that begins now; `None`: its time is not limited.
    pub(crate) fn of(launch: &Launch) -> Option<Deadline> {
        launch.timeout.map(|time| Deadline { time, end: Instant::now() + time })
    }

    /// Of a job that goes on and has so much left of its time.
    fn of_rest(launch: &Launch, left: Option<Duration>) -> Option<Deadline> {
        let left = left?;
        Some(Deadline { time: launch.timeout.unwrap_or(left), end: Instant::now() + left })
    }

    /// How much is left of it.
    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// Runs a job to its end and returns the exit code for `mpirun`.
///
/// # Errors
/// The job could not be started; nothing of it is left.
pub fn run(launch: &Launch) -> Result<i32, LaunchError> {
    let size: u64 = launch.apps.iter().map(|app| u64::from(app.ranks)).sum();
    if size > u64::from(MAX_RANKS) {
        return Err(LaunchError::TooMany(size));
    }
    // Of a launcher that was killed together with its guard.
    oxmpi_sys::semaphore::remove_abandoned(None);
    let deadline = Deadline::of(launch);
    let signals = prepare(launch.supervision.is_some())?;
    let here = launch.here(size as u32).len();
    let binding = binding_of(launch.bind, here);
    let sockets = places::has_sockets(launch, size as u32);
    let open_files = start::raise_open_files(launch, (size as u32, here), sockets)?;
    let files = launch.files(size as u32, false)?;
    let started =
        start::start(launch, (&signals, deadline), io::stdin().is_terminal(), &binding, open_files)?;
    let mut launcher = Launcher::new(launch, &signals, started)?;
    launcher.files = files;
    launcher.open_files = open_files;
    launcher.introduce(&binding);
    if let Err(error) = launcher.start_relays() {
        launcher.bury_all();
        return Err(error);
    }
    launcher.run_to_the_end()
}

/// To which processors that many ranks of this host are bound.
pub(crate) fn binding_of(bind: Bind, here: usize) -> Binding {
    let usable = cpus::usable();
    // Reading about cores takes time that only a job which may be bound should pay.
    let cores = match bind {
        Bind::None => Ok(Vec::new()),
        Bind::Split if here <= 1 || here > usable => Ok(Vec::new()),
        _ => cpus::bindable_cores(),
    };
    match cores {
        Ok(cores) => Binding::decide(bind, here, cores, usable),
        Err(error) => Binding::impossible(bind, &error),
    }
}

/// Serves a process that was started without a launcher and wants to spawn, or to be connected with, others: it is process 0.
/// It has handed over its segment and the other end of its control socket. Returns when everything has ended.
///
/// # Errors
/// If it is gone already, or the kernel refuses something.
pub fn serve(launch: &Launch, segment: OwnedFd, control: OwnedFd) -> Result<i32, LaunchError> {
    let signals = prepare(false)?;
    let sockets = places::has_sockets(launch, 1);
    let open_files = start::raise_open_files(launch, (1, 1), sockets)?;
    let mut launcher = Launcher::new(launch, &signals, start::adopt(segment, control)?)?;
    launcher.open_files = open_files;
    launcher.run_to_the_end()
}

/// What every launcher does first.
pub(crate) fn prepare(is_supervised: bool) -> Result<Signals, LaunchError> {
    start::kernel(
        "become a subreaper",
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())),
    )?;
    let passed_on = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
    // With the error of a file that may not grow any more comes a signal.
    let others = [Signal::TSTP, Signal::CHILD, Signal::XFSZ];
    let relayed = stand_ins().into_iter().filter(|_| is_supervised);
    let wanted: Vec<i32> = passed_on.into_iter().chain(others).map(Signal::as_raw).chain(relayed).collect();
    Signals::new(&wanted).map_err(|e| LaunchError::Kernel("watch signals", e))
}
