//! Starting the ranks: all segments first, then the processes one after another.

use std::collections::{BTreeMap, btree_map};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use oxmpi_param::Params;
use oxmpi_shm::segment::{Boot, RankState, Segment, SegmentError};
use oxmpi_sys::net;
use oxmpi_sys::semaphore::SemaphoreSets;
use oxmpi_sys::spawn::{Guard, PidNamespace, Process, Program, Signals, spawn};
use oxmpi_sys::{barrier, fdpass};
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, WaitId, WaitIdOptions, getrlimit, pidfd_open, setrlimit,
    waitid,
};
use tracing::{debug, info};

use super::beginning::Beginning;
use super::binding::Binding;
use super::entrance::Entrance;
use super::environment::environment;
use super::input::{Feed, Inputs};
use super::joined::Gathered;
use super::other_library;
use super::places::{RankPlace, has_sockets, nodes_of};
use super::plugs::{Plug, plugs};
use super::times::StartTimes;
use super::{App, Deadline, Launch, LaunchError};
use crate::host::HostLauncher;
use crate::hosts::branches::Branches;
use crate::hosts::head::order;
use crate::hosts::joiners::{Joiner, Joiners};
use crate::hosts::lifelines;
use crate::job::Exit;
use oxmpi_rt_client::client::{
    CONTROL_NUMBER, SEGMENT_NUMBER, WayIn, is_oversubscribed, new_universe, segment_config,
};
use oxmpi_rt_client::control::Reply;
use oxmpi_rt_client::postboxes::{PostboxFile, postbox_sizes};

/// The launcher's descriptors for a rank: segment, control, two outputs, the process.
const FDS_PER_RANK: u64 = 5;
/// Further ones for a rank with sockets: the listener, the alarm.
const PLUGS_PER_RANK: u64 = 2;
/// Further ones for a rank whose output goes to files.
const FILES_PER_RANK: u64 = 2;
/// Further ones for a rank whose input the launcher writes: at first both ends of a pipe.
const FEEDS_PER_RANK: u64 = 2;
/// The launcher's descriptors for a daemon: its socket, its process, and at first its listener.
const FDS_PER_DAEMON: u64 = 3;
/// The launcher's descriptors for another host: two for its agent's stream and two for its error
/// output, its process or the connection with a daemon, its lifeline, and an unauthenticated
/// connection in its place.
const FDS_PER_HOST: u64 = 7;
/// The launcher's other descriptors, and some inherited ones.
const FDS_OTHERWISE: u64 = 24;
/// Descriptors that a rank over sockets should have beside one for each rank: its own, connections
/// without a greeting, and files of its program.
const FDS_OF_RANK_OTHERWISE: u64 = 128;
/// The least number of such descriptors.
const FDS_OF_RANK_AT_LEAST: u64 = 32;
/// A rank's own descriptors have numbers below this.
const FDS_AT_LEAST: u64 = 64;

#[derive(Debug)]
pub(crate) struct RankProcess {
    pub(crate) process: Process,
    pub(crate) segment: Arc<Segment>,
    pub(crate) segment_fd: OwnedFd,
    pub(crate) control: OwnedFd,
    /// The inode of the other end of `control`; `None`: a connection from the entrance.
    pub(crate) peer: Option<u64>,
    pub(crate) starter: RankStarter,
    /// By how much the launcher's clock is ahead of the process's: a restored process's clock stood
    /// still.
    pub(crate) clock_ahead_ns: i64,
    /// Shared by the ranks of its job on its node, over usysv and sysv.
    pub(crate) postboxes: Option<Arc<PostboxFile>>,
    /// Set if the rank has its process numbers in a PID namespace of its own.
    pub(crate) nested: Option<Nested>,
}

/// Which process has started a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankStarter {
    /// This one, whose child it is.
    Own,
    /// A user, of a singleton.
    User,
    /// Another launcher.
    OtherLauncher,
}

#[derive(Debug)]
pub(crate) struct Nested {
    pub(crate) namespace: Arc<PidNamespace>,
    /// The process that called MPI when it was restored: its number in the namespace, and on this
    /// host.
    pub(crate) owner: (u32, u32),
}

impl RankProcess {
    /// A process that has its segment, and one end of `control`.
    pub(super) fn new(
        process: Process,
        (segment, segment_fd): (Arc<Segment>, OwnedFd),
        control: OwnedFd,
        starter: RankStarter,
    ) -> RankProcess {
        RankProcess {
            process,
            segment,
            segment_fd,
            control,
            peer: None,
            starter,
            clock_ahead_ns: 0,
            postboxes: None,
            nested: None,
        }
    }

    pub(crate) fn is_child(&self) -> bool {
        self.starter == RankStarter::Own
    }

    /// The number here of the process that has called MPI_Init, if any: the segment has the number
    /// that the rank itself knows.
    pub(crate) fn owner(&self) -> Option<u32> {
        let pid = self.segment.status().pid()?;
        match &self.nested {
            None => Some(pid),
            Some(Nested { owner: (inside, here), .. }) if *inside == pid => Some(*here),
            Some(Nested { namespace, .. }) => namespace.number_outside(pid),
        }
    }

    pub(crate) fn number_inside(&self, pid: u32) -> Option<u32> {
        self.nested.as_ref().map_or(Some(pid), |nested| nested.namespace.number_inside(pid))
    }
}

pub(crate) fn exit_of(rank: &RankProcess) -> rustix::io::Result<Option<Exit>> {
    match rank.starter {
        RankStarter::Own => {}
        RankStarter::User => return Ok(Some(Exit::Unknown)),
        RankStarter::OtherLauncher => return Ok(Some(Exit::Unseen)),
    }
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::PidFd(rank.process.pidfd.as_fd()), options)?;
    Ok(status.map(|status| match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    }))
}

/// The read ends of a rank's standard output and error, while open.
pub(crate) type Outputs = [Option<OwnedFd>; 2];

pub(crate) struct StartedRanks<'a> {
    /// The common part of the first job's boot records.
    pub(crate) boot: Boot,
    pub(crate) nodes: Vec<u32>,
    /// With the ranks of this host.
    pub(crate) host: HostLauncher<'a>,
    pub(crate) feed: Feed,
    /// Shared by the processes of this launcher only.
    pub(crate) secret: [u8; 32],
    pub(crate) deadline: Option<Deadline>,
    pub(crate) branches: Branches,
    pub(crate) entrance: Entrance,
    /// In a job of another launcher.
    pub(crate) joiners: Option<Joiners>,
    pub(crate) times: StartTimes,
}

/// A job that is being started: the first one, or a spawned one.
pub(crate) struct Crew<'a> {
    pub(crate) launch: &'a Launch,
    pub(crate) apps: &'a [App],
    pub(crate) boot: Boot,
    pub(crate) places: Vec<RankPlace>,
    pub(crate) here: Vec<u32>,
    /// Whether processes of other jobs are on other hosts, if none of this job is.
    pub(crate) has_others: bool,
    /// The address for later processes that want to be its ranks.
    pub(crate) way_in: Option<WayIn>,
}

pub(crate) struct Recruits {
    /// In the order of [`Crew::here`].
    pub(crate) ranks: Vec<RankProcess>,
    pub(crate) outputs: Vec<Outputs>,
    pub(crate) plugs: Vec<Plug>,
}

/// The segments and sockets that exist before the first rank runs.
pub(crate) struct PreparedRanks {
    segments: Vec<NewSegment>,
    pub(crate) plugs: Vec<Plug>,
}

impl PreparedRanks {
    /// For ranks whose images contain their segments.
    pub(crate) fn to_restore(plugs: Vec<Plug>) -> PreparedRanks {
        PreparedRanks { segments: Vec::new(), plugs }
    }

    /// Gives the segments to processes that run already.
    pub(crate) fn assign(&mut self, joiners: &mut Joiners) {
        for segment in &mut self.segments {
            segment.joiner = joiners.take(segment.mapped.boot().rank);
        }
    }
}

struct NewSegment {
    fd: OwnedFd,
    mapped: Arc<Segment>,
    /// The process that becomes the rank; `None`: one is started.
    joiner: Option<Joiner>,
}

impl NewSegment {
    /// Makes the process a rank.
    fn admit(self, joiner: Joiner) -> Result<RankProcess, LaunchError> {
        let Joiner { process, control } = joiner;
        let reply = Reply::Segment { rank: self.mapped.boot().rank, contact: None };
        fdpass::send(&control, &reply.encode(), Some(self.fd.as_fd()))
            .map_err(|error| LaunchError::Kernel("make a process a rank", error))?;
        let segment = (self.mapped, self.fd);
        Ok(RankProcess::new(process, segment, control, RankStarter::OtherLauncher))
    }
}

/// The limits on open files for the ranks, if they differ from the launcher's, and the job's limit.
type Limits = (Option<(u64, u64)>, Option<Deadline>);

/// Starts all ranks of `launch`, or makes the processes that have come with `gathered` ranks. After
/// an error none is left.
pub(crate) fn start<'a>(
    launch: &'a Launch,
    signals: &Signals,
    (open_files, deadline): Limits,
    stdin_is_terminal: bool,
    binding: &Binding,
    gathered: Option<Gathered>,
) -> Result<StartedRanks<'a>, LaunchError> {
    let size: u32 = launch.apps.iter().map(|app| app.ranks).sum();
    let (nodes, here) = (launch.nodes(size), launch.here(size));
    let boot = first_boot(launch, size, here.len() as u32);
    let entrance = Entrance::open(launch.spread.is_none() && gathered.is_none())?;
    let with = (!here.is_empty(), (signals, deadline));
    let mut beginning = Beginning::new(launch, &entrance, None, with)?;
    let (places, way_in) = (RankPlace::all(&nodes), entrance.way_in());
    let crew = Crew { launch, apps: &launch.apps, boot, places, here, has_others: false, way_in };
    let secret = draw_secret()?;
    let far: Vec<u32> = (0..size).filter(|rank| crew.here.binary_search(rank).is_err()).collect();
    let fed = launch.stdin.fed(size, stdin_is_terminal, &far);
    let (far_fed, own_fed): (Vec<u32>, Vec<u32>) =
        fed.clone().partition(|rank| far.binary_search(rank).is_ok());
    let (called, mut joiners) = gathered.map(|it| (it.branches, it.joiners)).unzip();
    let run = || -> Result<(), LaunchError> {
        let inputs = Inputs::open(launch.stdin, own_fed);
        let (inputs, writers) = kernel("open standard input for the ranks", inputs)?;
        let mut prepared = crew.prepare()?;
        let order = order(launch, (&boot, secret), &nodes, far_fed);
        let mut addresses = beginning.prepare_others(called, order)?;
        let own = crew.here.iter().zip(&prepared.plugs);
        addresses.extend(own.map(|(rank, plug)| (*rank, plug.address.clone())));
        if let Some(joiners) = &mut joiners {
            prepared.assign(joiners);
        }
        let guard = beginning.host.guard()?;
        let recruits = crew.start(prepared, guard, signals, &inputs, binding, open_files)?;
        beginning.start_others((crew.names(), recruits), writers, addresses)
    };
    if let Err(error) = run() {
        joiners.iter_mut().for_each(|joiners| _ = joiners.refuse_all(&error.to_string()));
        beginning.host.undo_start(0);
        return Err(error);
    }
    Ok(beginning.into_started((boot, nodes), (secret, Feed::new(fed)), entrance, joiners))
}

/// Makes a singleton the first rank, with its segment and control socket.
pub(crate) fn adopt(
    launch: &Launch,
    segment_fd: OwnedFd,
    control: OwnedFd,
) -> Result<StartedRanks<'_>, LaunchError> {
    let segment = Segment::map(&segment_fd).map_err(LaunchError::Segment)?;
    let gone = || LaunchError::NoSingleton("no process has the segment".into());
    let pid = segment.status().pid().map(u32::cast_signed).ok_or_else(gone)?;
    let id = Pid::from_raw(pid).ok_or_else(gone)?;
    let pidfd = pidfd_open(id, PidfdFlags::empty())
        .map_err(|error| LaunchError::NoSingleton(format!("process {pid}: {error}")))?;
    kernel("make a socket nonblocking", rustix::fs::fcntl_setfl(&control, OFlags::NONBLOCK))?;
    let has_left = || segment.status().state() == RankState::Finalized;
    let guard = Guard::start_for(pidfd.as_fd(), &has_left);
    let process = Process { pid, pidfd };
    let boot = *segment.boot();
    let rank = RankProcess::new(process, (segment, segment_fd), control, RankStarter::User);
    let (entrance, node) = (Entrance::open(true)?, boot.node.unwrap_or(0));
    let mut host = HostLauncher::of_head(launch, entrance.names().0)?;
    host.take_guard(guard)?;
    let recruits = Recruits { ranks: vec![rank], outputs: vec![[None, None]], plugs: Vec::new() };
    host.enlist_all([(0, node)], recruits, (0, None))?;
    Ok(StartedRanks {
        boot,
        nodes: vec![node],
        host,
        feed: Feed::default(),
        secret: draw_secret()?,
        deadline: None,
        branches: Branches::default(),
        entrance,
        joiners: None,
        times: StartTimes::begin(launch),
    })
}

pub(crate) fn draw_secret() -> Result<[u8; 32], LaunchError> {
    let mut secret = [0; 32];
    net::fill_random(&mut secret).map_err(|e| LaunchError::Kernel("get random bytes", e))?;
    Ok(secret)
}

fn first_boot(launch: &Launch, size: u32, here: u32) -> Boot {
    boot(&launch.params, new_universe(), (size, here), has_sockets(launch, size))
}

/// The common part of the boot records of a job on a host with `here` of its `size` ranks.
pub(crate) fn boot(params: &Params, job_id: u64, (size, here): (u32, u32), sockets: bool) -> Boot {
    let oversubscribed = is_oversubscribed(here);
    Boot {
        job_id,
        rank: 0,
        base: 0,
        size,
        local_rank: 0,
        local_size: here,
        app: 0,
        oversubscribed,
        // Ranks with sockets ring no doorbells in shared memory.
        asymmetric: !sockets && !oversubscribed && barrier::asymmetric_is_available(),
        sockets,
        node: None,
        config: segment_config(params, oversubscribed),
    }
}

impl Crew<'_> {
    /// Creates all segments and sockets before the first rank runs, which may request any.
    pub(crate) fn prepare(&self) -> Result<PreparedRanks, LaunchError> {
        self.check_libraries()?;
        let segments = self.make_segments()?;
        // Spawned ranks on this host have peers on the others.
        let is_alone = self.launch.spread.is_none() && !self.has_others;
        let is_one_host = self.places.len() == self.here.len() && is_alone;
        let plugs = match self.boot.sockets {
            true => plugs(self.launch, self.here.len(), is_one_host, self.has_near_sockets())?,
            false => Vec::new(),
        };
        info!(ranks = segments.len(), listeners = plugs.len(), "made the segments");
        Ok(PreparedRanks { segments, plugs })
    }

    fn check_libraries(&self) -> Result<(), LaunchError> {
        if self.launch.params.mpi_allow_singletons() {
            return Ok(());
        }
        let mut all: Vec<usize> = self.here.iter().map(|rank| self.app_of(*rank)).collect();
        all.dedup();
        let own = self.launch.faces_directory();
        all.into_iter().try_for_each(|app| other_library::refuse(&self.apps[app].path, own))
    }

    /// Whether ranks of this host use sockets among themselves.
    fn has_near_sockets(&self) -> bool {
        let mut nodes = self.here.iter().map(|rank| self.places[*rank as usize].node);
        let first = nodes.next();
        let is_all = self.launch.transport.is_over_sockets() && self.here.len() > 1;
        is_all || nodes.any(|node| Some(node) != first)
    }

    /// Starts the ranks. After an error none is left.
    pub(crate) fn start(
        &self,
        PreparedRanks { segments, plugs }: PreparedRanks,
        guard: &Guard,
        signals: &Signals,
        inputs: &Inputs,
        binding: &Binding,
        open_files: Option<(u64, u64)>,
    ) -> Result<Recruits, LaunchError> {
        let mut recruits = Recruits { ranks: Vec::new(), outputs: Vec::new(), plugs };
        let places = self.here.iter().map(|rank| self.places[*rank as usize]);
        let places = places.map(|place| (place.node, place.local_size));
        let postboxes = postboxes_of(self.launch, self.boot.sockets, places)?;
        let name_mpi: Vec<bool> =
            self.apps.iter().map(|app| other_library::names_mpi(&app.path)).collect();
        for ((at, rank), mut made) in (0..).zip(self.here.iter().copied()).zip(segments) {
            let place = self.places[rank as usize];
            let number = self.app_of(rank);
            let app = &self.apps[number];
            let way_in =
                self.way_in.clone().map(|way_in| WayIn { number: self.boot.base + rank, ..way_in });
            let way_in = way_in.as_ref().map(WayIn::write);
            let env = environment(
                self.launch,
                (app, name_mpi[number]),
                (rank, self.boot.size),
                place,
                (guard.mark(), way_in),
            );
            let cpus = binding.mask(at);
            let hands =
                Hands { stdin: inputs.of(rank), signals, open_files, cpus: cpus.as_deref() };
            let started = match made.joiner.take() {
                Some(joiner) => made.admit(joiner).map(|one| (one, [None, None])),
                None => start_one(app, &env, made, &hands),
            };
            match started {
                Ok((mut one, outputs)) => {
                    one.postboxes = postboxes.get(&place.node).cloned();
                    // Fails only if the guard was killed; then the job runs unguarded.
                    let _ = match one.is_child() {
                        true => guard.watch(one.process.pid),
                        false => guard.watch_one(one.process.pid),
                    };
                    let (rank, pid) = (self.boot.base + rank, one.process.pid);
                    debug!(rank, pid, program = %app.path.display(), "started a rank");
                    recruits.ranks.push(one);
                    recruits.outputs.push(outputs);
                }
                Err(error) => {
                    recruits
                        .ranks
                        .drain(..)
                        .for_each(|rank| super::end::kill_and_reap(&rank, guard));
                    return Err(error);
                }
            }
        }
        info!(ranks = recruits.ranks.len(), "started the ranks of this host");
        Ok(recruits)
    }

    /// The numbers of the ranks of this host, with their nodes.
    pub(crate) fn names(&self) -> Vec<(u32, u32)> {
        let node = |rank: u32| self.places[rank as usize].node.unwrap_or(0);
        self.here.iter().map(|rank| (self.boot.base + rank, node(*rank))).collect()
    }

    fn app_of(&self, rank: u32) -> usize {
        app_of(self.apps, rank)
    }

    fn make_segments(&self) -> Result<Vec<NewSegment>, LaunchError> {
        let make = |number: &u32| {
            let RankPlace { node, local_rank, local_size } = self.places[*number as usize];
            let (rank, app) = (self.boot.base + number, self.app_of(*number) as u32);
            let boot = Boot { rank, node, local_rank, local_size, app, ..self.boot };
            let fd =
                Segment::create(&boot).map_err(|e| LaunchError::Kernel("make a segment", e))?;
            let mapped = Segment::map(&fd).map_err(|e: SegmentError| LaunchError::Segment(e))?;
            Ok(NewSegment { fd, mapped, joiner: None })
        };
        self.here.iter().map(make).collect()
    }
}

/// A postbox segment for the ranks of each node, if the transport has them. Each item of `places`
/// is a rank's node, and the number of ranks there.
pub(super) fn postboxes_of(
    launch: &Launch,
    sockets: bool,
    places: impl Iterator<Item = (Option<u32>, u32)>,
) -> Result<BTreeMap<Option<u32>, Arc<PostboxFile>>, LaunchError> {
    let mut made = BTreeMap::new();
    for (node, local_size) in places {
        let sizes = postbox_sizes(&launch.params, launch.transport, local_size);
        if let (Some((shape, _)), btree_map::Entry::Vacant(entry)) = (sizes, made.entry(node)) {
            let mut file = PostboxFile::create(shape).map_err(LaunchError::Postboxes)?;
            file.semaphores = make_semaphores(launch, sockets, local_size)?;
            entry.insert(Arc::new(file));
        }
    }
    Ok(made)
}

/// The semaphores of `ranks` ranks of a node, if they sleep on semaphores.
fn make_semaphores(
    launch: &Launch,
    sockets: bool,
    ranks: u32,
) -> Result<Option<SemaphoreSets>, LaunchError> {
    let switch = launch.transport.postboxes().and_then(|of| of.semaphores);
    if !switch.is_some_and(|switch| launch.params.is_on(switch)) {
        return Ok(None);
    }
    if sockets {
        return Err(LaunchError::SemaphoresAndSockets);
    }
    Ok(if ranks > 1 { Some(SemaphoreSets::create(ranks)?) } else { None })
}

/// The program of a rank, as an index; programs have consecutive ranks.
pub(crate) fn app_of(apps: &[App], rank: u32) -> usize {
    let mut end = 0;
    let ends = apps.iter().map(|app| {
        end += app.ranks;
        end
    });
    ends.take_while(|end| *end <= rank).count()
}

/// What a rank's process inherits beside its own sockets.
struct Hands<'a> {
    stdin: BorrowedFd<'a>,
    signals: &'a Signals,
    open_files: Option<(u64, u64)>,
    cpus: Option<&'a [u64]>,
}

fn start_one(
    app: &App,
    env: &[CString],
    made: NewSegment,
    hands: &Hands<'_>,
) -> Result<(RankProcess, Outputs), LaunchError> {
    let (control, theirs) =
        fdpass::pair().map_err(|e| LaunchError::Kernel("make a socket pair", e))?;
    kernel("make a socket nonblocking", rustix::fs::fcntl_setfl(&control, OFlags::NONBLOCK))?;
    let (out, out_write) = kernel("make a pipe", pipe_with(PipeFlags::CLOEXEC))?;
    let (err, err_write) = kernel("make a pipe", pipe_with(PipeFlags::CLOEXEC))?;
    let path = c_string(app.path.as_os_str())?;
    let args = app.args.iter().map(|a| c_string(a)).collect::<Result<Vec<_>, _>>()?;
    let directory = app.directory.as_ref().map(|d| c_string(d.as_os_str())).transpose()?;
    let fds = [
        (hands.stdin, 0),
        (out_write.as_fd(), 1),
        (err_write.as_fd(), 2),
        (made.fd.as_fd(), SEGMENT_NUMBER),
        (theirs.as_fd(), CONTROL_NUMBER),
    ];
    let mut program = Program {
        path: &path,
        args: &args,
        env,
        directory: directory.as_deref(),
        fds: &fds,
        mask: hands.signals.before(),
        ignores_none: false,
        open_files: hands.open_files,
        cpus: hands.cpus,
        is_tied: true,
    };
    let mut result = spawn(&program);
    let shell;
    if result
        .as_ref()
        .is_err_and(|e| e.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()))
    {
        // A script without "#!": like execvp(3), runs the shell.
        shell = [&[c"sh".to_owned(), path.clone()], &args[1..]].concat();
        program.path = c"/bin/sh";
        program.args = &shell;
        result = spawn(&program);
    }
    let process = result.map_err(|error| LaunchError::Run { program: app.path.clone(), error })?;
    let peer = rustix::fs::fstat(&theirs).ok().map(|socket| socket.st_ino);
    let rank = RankProcess::new(process, (made.mapped, made.fd), control, RankStarter::Own);
    Ok((RankProcess { peer, ..rank }, [Some(out), Some(err)]))
}

/// Raises the limit on open files for `size` ranks, of which `here` are on this host, and
/// `children` agents. Returns the limits for the ranks, if they differ from the launcher's: the old
/// ones, but with room for a socket to each other rank.
pub(crate) fn raise_open_files(
    launch: &Launch,
    (size, here, children): (u32, usize, usize),
    over_sockets: bool,
) -> Result<Option<(u64, u64)>, LaunchError> {
    let nodes = if launch.transport.postboxes().is_some() { nodes_of(launch, size) } else { 0 };
    let files = if launch.output_files.is_some() { FILES_PER_RANK } else { 0 };
    let feeds = if launch.stdin == super::Stdin::All { FEEDS_PER_RANK } else { 0 };
    let plugs = if over_sockets { PLUGS_PER_RANK } else { 0 };
    let (ranks, each) = (u64::from(size), FDS_PER_RANK + feeds + plugs);
    let hosts = children as u64 * FDS_PER_HOST;
    let before = getrlimit(Resource::Nofile);
    let (soft, hard) = (before.current.unwrap_or(u64::MAX), before.maximum.unwrap_or(u64::MAX));
    let (least, wanted) = match over_sockets {
        true => (ranks + FDS_OF_RANK_AT_LEAST, ranks + FDS_OF_RANK_OTHERWISE),
        false => (0, 0),
    };
    let of_rank = wanted.min(hard);
    let relays = if launch.transport.has_daemons() { nodes_of(launch, size) } else { 0 };
    let unauthenticated = if hosts > 0 { lifelines::MAX_UNAUTHENTICATED as u64 } else { 0 };
    let needed = here as u64 * each
        + ranks * files
        + hosts
        + unauthenticated
        + nodes
        + relays * FDS_PER_DAEMON;
    let needed = (needed + FDS_OTHERWISE).max(FDS_AT_LEAST);
    for (place, needed) in [("mpirun", needed), ("each rank", least)] {
        if needed > hard {
            return Err(LaunchError::OpenFiles { ranks, place, needed, limit: hard });
        }
    }
    if needed <= soft {
        return Ok((of_rank > soft).then_some((of_rank, hard)));
    }
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    kernel("raise the limit on open files", setrlimit(Resource::Nofile, raised))?;
    Ok(Some((soft.max(of_rank), hard)))
}

fn c_string(text: &OsStr) -> Result<CString, LaunchError> {
    CString::new(text.as_bytes()).map_err(|_| LaunchError::Run {
        program: PathBuf::from(text),
        error: io::Error::new(io::ErrorKind::InvalidInput, "a name or argument with a zero byte"),
    })
}

pub(crate) fn kernel<T>(
    what: &'static str,
    result: rustix::io::Result<T>,
) -> Result<T, LaunchError> {
    result.map_err(|e| LaunchError::Kernel(what, e.into()))
}
