//! The actions of `mpirun`: starts the ranks, forwards their output, answers their requests, and
//! carries out the decisions of [`Jobs`](crate::job::Jobs).
//!
//! One thread with one loop: it sleeps in poll(2) until a rank writes, sends a request or ends, a
//! signal comes, or a time limit is over.
//!
//! - Each rank leads a process group and dies with the launcher (PR_SET_PDEATHSIG). A guard process
//!   kills the remaining groups even if the launcher is killed by SIGKILL, and also the processes
//!   that have left their groups, which it finds by a mark in their environment.
//! - Ended ranks are reaped only when the job is over, so that no other process can get the number
//!   of a group. Orphans are reaped at once (`orphans.rs`).
//! - Signals that are ignored when the launcher starts stay ignored, as under nohup(1), also in the
//!   ranks.
//! - No write of the launcher blocks, so that Ctrl-C always works: see `output.rs`.

mod abroad;
mod acting;
mod answers;
mod beginning;
mod binding;
mod describing;
mod draining;
pub(crate) mod end;
mod ending;
mod entrance;
mod environment;
mod far;
mod files;
mod finishing;
mod functions;
mod hold;
mod input;
mod joined;
mod launcher;
mod links;
mod loaded;
mod members;
mod other_library;
mod output;
mod places;
mod plugs;
mod printing;
mod program;
mod quiesce;
mod recruiting;
mod relay;
mod relays;
mod resume;
mod spawning;
mod start;
mod times;
mod watching;

/// Functions that the launcher of a host, here or in an agent, shares with `mpirun`.
pub(crate) mod parts {
    pub(crate) use super::abroad::{Reach, give_abroad, reach_abroad};
    pub(crate) use super::answers::{INCARNATION, plug_whereabouts};
    pub(crate) use super::binding::Binding;
    pub(crate) use super::functions::returned;
    pub(crate) use super::input::Inputs;
    pub(crate) use super::other_library::{STANDARD, is_standard};
    pub(crate) use super::output::{Came, is_ready, read_some};
    pub(crate) use super::places::RankPlace;
    pub(crate) use super::plugs::{Plug, listen_for_agents, listener, plugs};
    pub(crate) use super::relay::RelayProcess;
    pub(crate) use super::resume::{Back, bring_back};
    pub(crate) use super::start::{
        Crew, Outputs, PreparedRanks, RankProcess, Recruits, boot, draw_secret, exit_of,
        raise_open_files,
    };
}

use std::ffi::OsString;
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
use tracing::info;

pub(crate) use oxmpi_rt_proto::held::{HeldProgram, HeldRank, Images};
pub use oxmpi_rt_proto::process::Bind;
pub use oxmpi_rt_proto::tool::Supervision;

pub use self::files::OutputFiles;
pub use self::input::Stdin;
pub use self::joined::serve_joined;
pub use self::output::OutputStyle;
pub use self::plugs::network;
pub use self::program::{NOT_EXECUTABLE, NOT_FOUND, ProgramSearch};
pub use self::relay::{RELAY_CONTROL, RELAY_WORD};
pub use self::resume::NAMESPACE_WORD;
pub(crate) use self::resume::resume;
pub(crate) use self::start::kernel;
pub use self::times::Resolving;

use self::binding::Binding;
use self::joined::Gathered;
use self::launcher::Launcher;
use crate::hostmap::Hostmap;
use crate::hosts::opening::{HostAgent, Starts};
use crate::hosts::step::AgentStep;
use oxmpi_daemon::interfaces::InterfaceError;

/// The most ranks of one launcher on its host.
pub const MAX_RANKS: u32 = MAX_GUARDED as u32;

/// A program and the number of its ranks.
#[derive(Clone, Debug)]
pub struct App {
    pub ranks: u32,
    pub path: PathBuf,
    /// The program's name first.
    pub args: Vec<OsString>,
    pub inherited: Vec<(OsString, OsString)>,
    /// Whether `inherited` was selected, and holds on other hosts too. Otherwise ranks there
    /// inherit the agent's environment.
    pub inherits_chosen: bool,
    /// Variables for these ranks alone; they replace all others.
    pub env: Vec<(OsString, OsString)>,
    /// The absolute working directory, if not the launcher's.
    pub directory: Option<PathBuf>,
}

impl App {
    /// The program and its arguments, as a held job describes them.
    pub(crate) fn held(&self) -> HeldProgram {
        let words = self.args.iter().map(|word| word.to_string_lossy().into_owned());
        HeldProgram { ranks: self.ranks, words: words.collect() }
    }
}

/// A job to run.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Ranks are numbered in this order.
    pub apps: Vec<App>,
    /// Variables for all ranks; they replace inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// The parameters, also for the launcher's own work (segments).
    pub params: Params,
    pub transport: &'static Module,
    /// Addresses that hosts announce in place of their own.
    pub hostmap: Hostmap,
    pub output: OutputStyle,
    pub output_files: Option<OutputFiles>,
    pub stdin: Stdin,
    pub bind: Bind,
    /// Whether a line per rank reports its binding.
    pub report_bindings: bool,
    /// Whether a line per rank reports its start.
    pub verbose: bool,
    /// Whether notes and warnings of ranks are suppressed; reports of failures are not.
    pub quiet: bool,
    pub timeout: Option<Duration>,
    /// Comes first in LD_LIBRARY_PATH.
    pub library_directory: Option<PathBuf>,
    pub spread: Option<Spread>,
    /// The automatic checkpoints by the launcher's parent, if any.
    pub supervision: Option<Supervision>,
    /// The beginning of the table of the start, if the table is wanted.
    pub times: Option<Resolving>,
}

/// Several hosts, or one other host.
#[derive(Clone, Debug)]
pub struct Spread {
    /// Each has at least one rank.
    pub hosts: Vec<Host>,
    pub nodes: Vec<u32>,
    /// How the agents that do not call are started.
    pub starts: Starts,
    /// The command that starts the agents that call, in an allocation of Slurm.
    pub step: Option<AgentStep>,
}

/// A host of a job.
#[derive(Clone, Debug)]
pub struct Host {
    /// As the user has named it.
    pub name: String,
    pub agent: HostAgent,
    /// The ranks that the host gets before others get more than their slots; at least 1.
    pub slots: u32,
}

impl Spread {
    /// The host of a rank.
    pub fn host(&self, rank: u32) -> Option<&Host> {
        self.hosts.get(*self.nodes.get(rank as usize)? as usize)
    }

    /// The command that starts the agents that call, and their hosts.
    pub(crate) fn called(&self) -> Option<(&AgentStep, Vec<(u32, String)>)> {
        let hosts = (0..).zip(&self.hosts);
        let called = hosts.filter(|(_, host)| matches!(host.agent, HostAgent::Called));
        Some((self.step.as_ref()?, called.map(|(node, host)| (node, host.name.clone())).collect()))
    }
}

impl Launch {
    /// The directory of the libraries for programs of other MPIs, if they may be used.
    pub(crate) fn faces_directory(&self) -> Option<&Path> {
        self.library_directory.as_deref().filter(|_| self.params.mpi_foreign())
    }
}

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("cannot run '{}': {error}{}", program.display(), missing(program, error))]
    Run { program: PathBuf, error: io::Error },
    #[error(
        "'{}' is linked against {library}, which belongs to {owner}: under OxMPI's mpirun each of its processes would be a \
         job of one rank; compile it with OxMPI's mpicc, or start it with the mpirun of that library ('--mca \
         mpi_allow_singletons 1' runs it all the same)",
        program.display()
    )]
    OtherLibrary { program: PathBuf, library: String, owner: &'static str },
    #[error(
        "'{0}' would load {1}, because its DT_RPATH comes before the libraries of OxMPI in {2}: each of its processes would \
         be a job of one rank; remove the path ('patchelf --remove-rpath {0}'), or link the program anew with \
         -Wl,--enable-new-dtags ('--mca mpi_allow_singletons 1' runs it all the same)",
        program.display(), library.display(), own.display()
    )]
    OtherLibraryFirst { program: PathBuf, library: PathBuf, own: PathBuf },
    #[error("cannot {0}: {1}")]
    Kernel(&'static str, #[source] io::Error),
    #[error(transparent)]
    Segment(SegmentError),
    #[error(transparent)]
    Postboxes(PostboxError),
    #[error(transparent)]
    Semaphores(#[from] SemaphoreError),
    /// Semaphores cannot wake ranks with sockets.
    #[error(
        "rpi_sysv_semaphores 1 is for jobs all of whose ranks are on one node: a rank with sockets to other nodes sleeps on its sockets, \
         not on a System V semaphore; leave it at 0, or run the job on one node"
    )]
    SemaphoresAndSockets,
    #[error(
        "{ranks} ranks need {needed} open files in {place}, but its limit is {limit}: raise the hard limit \
         ('ulimit -Hn', or that of the batch system or container), or start fewer ranks"
    )]
    OpenFiles {
        ranks: u64,
        /// The process that needs the files: mpirun, or each rank.
        place: &'static str,
        needed: u64,
        limit: u64,
    },
    #[error("cannot make a file for the output, {}: {error}", path.display())]
    Files { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The launcher of a singleton has no singleton to serve.
    #[error("there is no singleton to serve: {0}")]
    NoSingleton(String),
    /// An agent is lost while a job starts that a running one has spawned.
    #[error("{0}")]
    AgentLost(String),
    #[error("host '{host}': {text}")]
    Host { host: String, is_program: bool, text: String },
    /// The time limit is over while agents are awaited.
    #[error("the time of {} s (--timeout) is over, and {text}", time.as_secs_f64())]
    TimedOut { time: Duration, text: String },
    #[error("ended by signal {0} before the job ran")]
    Interrupted(i32),
    #[error(
        "cannot start a program in {}: {error}; the directory (of -wdir, or where mpirun was called) must be there on each host",
        directory.display()
    )]
    Directory { directory: PathBuf, error: io::Error },
    #[error(
        "the ranks of one host cannot reach each other over sockets: connecting to its own address {address} fails: {error}; bring \
         the loopback interface up ('ip link set lo up'), or use shared memory ('--mca rpi shm')"
    )]
    NoLoopback { address: IpAddr, error: io::Error },
    #[error("{0}")]
    Restore(String),
    /// The processes of another launcher do not become one job.
    #[error("the job cannot start: {0}")]
    Join(String),
    #[error("the order of mpirun cannot be carried out here: {0}")]
    Order(String),
    #[error("{0} ranks are too many: one mpirun starts at most {MAX_RANKS}")]
    TooMany(u64),
}

/// execve(2) reports "no such file" also if the interpreter of a file is missing.
fn missing(program: &Path, error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::NotFound && program.exists() {
        "; the file is there, but not the interpreter that it names (see its first line, or 'file PROGRAM')"
    } else {
        ""
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) time: Duration,
    end: Instant,
}

impl Deadline {
    /// The limit of a job that begins now; `None`: no limit.
    pub(crate) fn of(launch: &Launch) -> Option<Deadline> {
        launch.timeout.map(|time| Deadline { time, end: Instant::now() + time })
    }

    /// The limit of a job that continues with this much time left.
    fn of_rest(launch: &Launch, left: Option<Duration>) -> Option<Deadline> {
        let left = left?;
        Some(Deadline { time: launch.timeout.unwrap_or(left), end: Instant::now() + left })
    }

    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// Runs a job to its end; returns the exit status for `mpirun`. An error leaves no process.
pub fn run(launch: &Launch) -> Result<i32, LaunchError> {
    let size: u64 = launch.apps.iter().map(|app| u64::from(app.ranks)).sum();
    if size > u64::from(MAX_RANKS) {
        return Err(LaunchError::TooMany(size));
    }
    let hosts = launch.spread.as_ref().map_or(1, |spread| spread.hosts.len());
    info!(ranks = size, hosts, transport = launch.transport.name, "starting a job");
    // Left over by launchers that were killed together with their guard.
    oxmpi_sys::semaphore::remove_abandoned(None);
    let deadline = Deadline::of(launch);
    let signals = prepare(launch.supervision.is_some())?;
    run_with(launch, &signals, deadline, None)
}

/// Starts the ranks, or makes the processes that have come with `gathered` ranks, and serves them
/// to the end.
fn run_with(
    launch: &Launch,
    signals: &Signals,
    deadline: Option<Deadline>,
    gathered: Option<Gathered>,
) -> Result<i32, LaunchError> {
    let size = launch.apps.iter().map(|app| app.ranks).sum();
    let here = launch.here(size).len();
    let binding = binding_of(launch.bind, here);
    let sockets = places::has_sockets(launch, size);
    let numbers = (size, here, launch.children());
    let open_files = start::raise_open_files(launch, numbers, sockets)?;
    let files = launch.files(size, false)?;
    let stdin_is_terminal = io::stdin().is_terminal();
    let limits = (open_files, deadline);
    let started = start::start(launch, signals, limits, stdin_is_terminal, &binding, gathered)?;
    let mut launcher = Launcher::new(launch, signals, started)?;
    launcher.output.write_to(files);
    launcher.open_files = open_files;
    launcher.introduce(&binding);
    if let Err(error) = launcher.start_relays() {
        launcher.kill_all();
        return Err(error);
    }
    launcher.run_to_the_end()
}

pub(crate) fn binding_of(bind: Bind, here: usize) -> Binding {
    let usable = cpus::usable();
    // Only a job that may be bound pays for reading the topology.
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

/// Serves a singleton, which becomes process 0, with its segment and its control socket. Returns
/// when all processes have ended. An error if the singleton has ended, or the kernel refuses a
/// call.
pub fn serve(launch: &Launch, segment: OwnedFd, control: OwnedFd) -> Result<i32, LaunchError> {
    let signals = prepare(false)?;
    let sockets = places::has_sockets(launch, 1);
    let open_files = start::raise_open_files(launch, (1, 1, 0), sockets)?;
    let mut launcher = Launcher::new(launch, &signals, start::adopt(launch, segment, control)?)?;
    launcher.open_files = open_files;
    launcher.run_to_the_end()
}

/// Prepares signals and orphans, for every launcher.
pub(crate) fn prepare(is_supervised: bool) -> Result<Signals, LaunchError> {
    start::kernel(
        "become a subreaper",
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())),
    )?;
    let passed_on =
        [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
    // SIGXFSZ comes with the write error of a file at its size limit.
    let others = [Signal::TSTP, Signal::CHILD, Signal::XFSZ];
    let relayed = stand_ins().into_iter().filter(|_| is_supervised);
    let wanted: Vec<i32> =
        passed_on.into_iter().chain(others).map(Signal::as_raw).chain(relayed).collect();
    Signals::new(&wanted).map_err(|e| LaunchError::Kernel("watch signals", e))
}
