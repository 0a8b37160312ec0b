//! Starting the ranks: segments first, then one process after the other.

use std::collections::{BTreeMap, btree_map};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use oxmpi_os::net::{self, Listener};
use oxmpi_os::poller::new_alarm;
use oxmpi_os::segment::{Boot, Segment, SegmentError};
use oxmpi_os::spawn::{GUARD_VARIABLE, Guard, Process, Program, Signals, spawn};
use oxmpi_os::{barrier, fdpass, host};
use oxmpi_param::{Params, Transport};
use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, setrlimit};

use super::binding::Binding;
use super::input::{Feed, Inputs};
use super::{App, Launch, LaunchError};
use crate::client::{
    BOOT_VARIABLE, BOOT_VERSION, is_oversubscribed, new_universe, segment_config, socket_buffers,
};
use crate::interfaces;
use crate::lost::LAUNCHER_VARIABLE;
use crate::postboxes::{PostboxFile, postbox_sizes};

/// The number that the segment has in a rank: high enough to be out of the way of scripts, low enough to fit the
/// descriptor table that every process has.
const SEGMENT_NUMBER: i32 = 62;
/// The number that the control socket has in a rank.
const CONTROL_NUMBER: i32 = 63;
/// Descriptors that the launcher keeps for a rank: segment, control, two outputs, the process.
const FDS_PER_RANK: u64 = 5;
/// Descriptors that the launcher keeps for a rank with sockets, beside those: the one that listens, the alarm.
const PLUGS_PER_RANK: u64 = 2;
/// Descriptors that the launcher keeps for a rank whose output goes to files, beside those.
const FILES_PER_RANK: u64 = 2;
/// Descriptors that the launcher keeps for a rank whose input it reads, beside those: both ends of a pipe at first.
const FEEDS_PER_RANK: u64 = 2;
/// Descriptors that the launcher keeps for a daemon: its socket and its process; and what it will listen on, at first.
const FDS_PER_DAEMON: u64 = 3;
/// Descriptors that the launcher has beside those, and some that it may have inherited.
const FDS_OTHERWISE: u64 = 24;
/// Descriptors that a rank over sockets has beside one for each rank: its own, connections of those who have not yet said
/// who they are, and what its program opens.
const FDS_OF_RANK_OTHERWISE: u64 = 128;
/// Descriptors that handing over a rank's own takes, whatever their number (see [`spawn`]).
const FDS_AT_LEAST: u64 = 72;

/// A rank's process, as the launcher holds it.
#[derive(Debug)]
pub(super) struct Rank {
    pub(super) process: Process,
    pub(super) segment: Arc<Segment>,
    pub(super) segment_fd: OwnedFd,
    pub(super) control: OwnedFd,
    /// Whether the launcher has started it; the process of a singleton it has not.
    pub(super) is_child: bool,
    /// What it shares with the others of its job on its node, over usysv and sysv.
    pub(super) postboxes: Option<Arc<PostboxFile>>,
}

/// The reading ends of a rank's standard output and error, while they are open.
pub(super) type Outputs = [Option<OwnedFd>; 2];

/// All ranks, and what belongs to them together.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) ranks: Vec<Rank>,
    /// One for each rank.
    pub(super) outputs: Vec<Outputs>,
    pub(super) guard: Guard,
    /// Where standard input goes, if the launcher reads it.
    pub(super) feed: Feed,
    /// Of a job over sockets: one for each rank.
    pub(super) plugs: Vec<Plug>,
    /// What only processes of this launcher know.
    pub(super) secret: [u8; 32],
}

/// How a rank over sockets is reached.
#[derive(Debug)]
pub(super) struct Plug {
    /// What wakes it when it sleeps on descriptors.
    pub(super) alarm: OwnedFd,
    /// Its listening socket, until the rank asks for it.
    pub(super) listener: Option<Listener>,
    /// Where that can be reached.
    pub(super) address: String,
}

/// A job that is started: the first one, or one that was spawned.
pub(super) struct Crew<'a> {
    pub(super) launch: &'a Launch,
    /// Its programs.
    pub(super) apps: &'a [App],
    /// What the boot records of its ranks have in common.
    pub(super) boot: Boot,
}

/// Ranks that were just started.
pub(super) struct Recruits {
    pub(super) ranks: Vec<Rank>,
    pub(super) outputs: Vec<Outputs>,
    pub(super) plugs: Vec<Plug>,
}

struct Made {
    fd: OwnedFd,
    mapped: Arc<Segment>,
}

/// Starts all ranks of `launch`. If one fails, those before it are killed.
pub(super) fn start(
    launch: &Launch,
    signals: &Signals,
    stdin_is_terminal: bool,
    binding: &Binding,
    open_files: Option<(u64, u64)>,
) -> Result<Started, LaunchError> {
    let size: u32 = launch.apps.iter().map(|app| app.ranks).sum();
    let crew = Crew { launch, apps: &launch.apps, boot: first_boot(launch, size) };
    let secret = draw_secret()?;
    let guard = Guard::start().map_err(|e| LaunchError::Kernel("start the guard process", e))?;
    let (inputs, feed) =
        kernel("open standard input for the ranks", Inputs::open(launch.stdin, size, stdin_is_terminal))?;
    match crew.start(&guard, signals, &inputs, binding, open_files) {
        Ok(Recruits { ranks, outputs, plugs }) => Ok(Started { ranks, outputs, guard, feed, plugs, secret }),
        Err(error) => {
            guard.dismiss();
            Err(error)
        }
    }
}

/// Takes a singleton that has handed over its segment and the other end of its control socket for the first rank.
pub(super) fn adopt(segment_fd: OwnedFd, control: OwnedFd) -> Result<Started, LaunchError> {
    let segment = Segment::map(&segment_fd).map_err(LaunchError::Segment)?;
    let gone = || LaunchError::NoSingleton("no process has the segment".into());
    let pid = segment.status().pid().map(u32::cast_signed).ok_or_else(gone)?;
    let id = Pid::from_raw(pid).ok_or_else(gone)?;
    let pidfd = pidfd_open(id, PidfdFlags::empty())
        .map_err(|error| LaunchError::NoSingleton(format!("process {pid}: {error}")))?;
    kernel("make a socket nonblocking", rustix::fs::fcntl_setfl(&control, OFlags::NONBLOCK))?;
    let guard = Guard::start_for(pidfd.as_fd(), &segment);
    let process = Process { pid, pidfd };
    let rank = Rank { process, segment, segment_fd, control, is_child: false, postboxes: None };
    let guard = guard.map_err(|e| LaunchError::Kernel("start the guard process", e))?;
    Ok(Started {
        ranks: vec![rank],
        outputs: vec![[None, None]],
        guard,
        feed: Feed::default(),
        plugs: Vec::new(),
        secret: draw_secret()?,
    })
}

/// 32 random bytes.
pub(super) fn draw_secret() -> Result<[u8; 32], LaunchError> {
    let mut secret = [0; 32];
    net::fill_random(&mut secret).map_err(|e| LaunchError::Kernel("get random bytes", e))?;
    Ok(secret)
}

/// What the boot records of the first job have in common.
fn first_boot(launch: &Launch, size: u32) -> Boot {
    let oversubscribed = is_oversubscribed(size);
    let sockets = has_sockets(launch, size);
    Boot {
        job_id: new_universe(),
        rank: 0,
        base: 0,
        size,
        local_rank: 0,
        local_size: size,
        app: 0,
        oversubscribed,
        // Over sockets nobody rings a bell in shared memory.
        asymmetric: !sockets && !oversubscribed && barrier::asymmetric_is_available(),
        sockets,
        node: None,
        config: segment_config(&launch.params, oversubscribed),
    }
}

impl Crew<'_> {
    /// Starts the ranks. If one fails, those before it are killed, and nothing is left of them.
    pub(super) fn start(
        &self,
        guard: &Guard,
        signals: &Signals,
        inputs: &Inputs,
        binding: &Binding,
        open_files: Option<(u64, u64)>,
    ) -> Result<Recruits, LaunchError> {
        // All segments exist before the first rank runs: it may ask for any of them. So do the sockets.
        let segments = self.make_segments()?;
        let postboxes = self.make_postboxes()?;
        let plugs = if self.boot.sockets { plugs(self.launch, self.boot.size)? } else { Vec::new() };
        let mut recruits = Recruits { ranks: Vec::new(), outputs: Vec::new(), plugs };
        let apps = self.apps.iter().flat_map(|app| (0..app.ranks).map(move |_| app));
        for ((rank, app), made) in (0..).zip(apps).zip(segments) {
            let env = environment(self.launch, app, (rank, self.boot.size), self.place(rank), guard.mark());
            let cpus = binding.mask(rank);
            let hands = Hands { stdin: inputs.of(rank), signals, open_files, cpus: cpus.as_deref() };
            match start_one(app, &env, made, &hands) {
                Ok((mut one, outputs)) => {
                    one.postboxes = postboxes.get(&self.place(rank).node).cloned();
                    // The guard can only be missing if somebody killed it; then the job runs unguarded.
                    let _ = guard.watch(one.process.pid);
                    recruits.ranks.push(one);
                    recruits.outputs.push(outputs);
                }
                Err(error) => {
                    recruits.ranks.drain(..).for_each(|rank| super::end::bury(&rank, guard));
                    return Err(error);
                }
            }
        }
        Ok(recruits)
    }

    /// Where a rank of the job is. All processes of later jobs are where the first rank of the first is.
    fn place(&self, rank: u32) -> Place {
        let Boot { base, size, node, .. } = self.boot;
        if base > 0 {
            return Place { node, ..Place::of(rank, size, 1) };
        }
        Place::of(rank, size, nodes_of(&self.launch.params, size))
    }

    /// One segment for the ranks of each node, if the transport has them.
    fn make_postboxes(&self) -> Result<BTreeMap<Option<u32>, Arc<PostboxFile>>, LaunchError> {
        let mut made = BTreeMap::new();
        for Place { node, local_size, .. } in (0..self.boot.size).map(|rank| self.place(rank)) {
            let sizes = postbox_sizes(&self.launch.params, self.launch.transport, local_size);
            if let (Some((shape, _)), btree_map::Entry::Vacant(entry)) = (sizes, made.entry(node)) {
                entry.insert(Arc::new(PostboxFile::create(shape).map_err(LaunchError::Postboxes)?));
            }
        }
        Ok(made)
    }

    fn make_segments(&self) -> Result<Vec<Made>, LaunchError> {
        let make = |(number, app)| {
            let Place { node, local_rank, local_size } = self.place(number);
            let rank = self.boot.base + number;
            let boot = Boot { rank, node, local_rank, local_size, app, ..self.boot };
            let fd = Segment::create(&boot)
                .map_err(|e| LaunchError::Kernel("make a segment (memfd_create)", e))?;
            let mapped = Segment::map(&fd).map_err(|e: SegmentError| LaunchError::Segment(e))?;
            Ok(Made { fd, mapped })
        };
        let apps = (0..).zip(self.apps).flat_map(|(number, app)| (0..app.ranks).map(move |_| number));
        (0..self.boot.size).zip(apps).map(make).collect()
    }
}

/// Whether ranks sleep on descriptors: on sockets, which are asked for or needed because they are spread over nodes, or on those to
/// their daemons.
fn has_sockets(launch: &Launch, size: u32) -> bool {
    launch.transport.is_over_sockets() || nodes_of(&launch.params, size) > 1
}

/// The nodes over which so many ranks are spread.
fn nodes_of(params: &Params, size: u32) -> u32 {
    params.mpi_virtual_nodes().clamp(1, size.max(1))
}

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// If there are several.
    node: Option<u32>,
    local_rank: u32,
    local_size: u32,
}

impl Place {
    /// Of a rank among `size`, of which each of the nodes has a block, as even as can be.
    fn of(rank: u32, size: u32, nodes: u32) -> Place {
        let [rank, size, nodes] = [rank, size, nodes].map(u64::from);
        let node = ((rank + 1) * nodes - 1) / size;
        let first = |node: u64| node * size / nodes;
        Place {
            node: (nodes > 1).then_some(node as u32),
            local_rank: (rank - first(node)) as u32,
            local_size: (first(node + 1) - first(node)) as u32,
        }
    }
}

/// What a rank's process is handed beside its own things.
struct Hands<'a> {
    stdin: BorrowedFd<'a>,
    signals: &'a Signals,
    open_files: Option<(u64, u64)>,
    cpus: Option<&'a [u64]>,
}

/// The network that the sockets of a job use.
///
/// # Errors
/// There is none, or parameters leave none.
pub fn network(params: &Params) -> Result<net::Interface, LaunchError> {
    let there = net::interfaces().map_err(|e| LaunchError::Kernel("list the interfaces of this host", e))?;
    let chosen = interfaces::choose(&there, params.btl_tcp_if_include(), params.btl_tcp_if_exclude(), true)?;
    Ok(chosen.clone())
}

/// Sockets that listen, for `size` ranks; for ranks with daemons their alarms alone.
pub(super) fn plugs(launch: &Launch, size: u32) -> Result<Vec<Plug>, LaunchError> {
    let listeners = match launch.transport {
        Transport::Lamd => Vec::new(),
        _ => listeners(launch, size, Some(socket_buffers(&launch.params)))?,
    };
    let mut listeners = listeners.into_iter();
    let plug = |_| {
        let (listener, address) = listeners.next().unzip();
        let alarm = new_alarm().map_err(|e| LaunchError::Kernel("make an alarm (eventfd)", e))?;
        Ok(Plug { alarm, listener, address: address.unwrap_or_default() })
    };
    (0..size).map(plug).collect()
}

/// So many sockets that listen on the network of the job, with such `buffers`, and the addresses that others are told.
pub(super) fn listeners(
    launch: &Launch,
    count: u32,
    buffers: Option<usize>,
) -> Result<Vec<(Listener, String)>, LaunchError> {
    let chosen = network(&launch.params)?;
    let told = launch.hostmap.told(&host::name(), chosen.address);
    // Where it is this host's own; else something between the hosts translates it.
    let own = if net::is_own(told) { told } else { chosen.address };
    let listen = |e| LaunchError::Kernel("listen on a socket", e);
    let one = |_| {
        let listener = Listener::bind(own, buffers).map_err(listen)?;
        let port = listener.address().map_err(listen)?.port();
        Ok((listener, format!("{}%{}", SocketAddr::new(told, port), chosen.name)))
    };
    (0..count).map(one).collect()
}

fn start_one(
    app: &App,
    env: &[CString],
    made: Made,
    hands: &Hands<'_>,
) -> Result<(Rank, Outputs), LaunchError> {
    let (control, theirs) = fdpass::pair().map_err(|e| LaunchError::Kernel("make a socket pair", e))?;
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
        open_files: hands.open_files,
        cpus: hands.cpus,
        is_tied: true,
    };
    let mut result = spawn(&program);
    let shell;
    if result.as_ref().is_err_and(|e| e.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error())) {
        // A script without "#!": execvp(3) gives it to the shell, and so do we.
        shell = [&[c"sh".to_owned(), path.clone()], &args[1..]].concat();
        program.path = c"/bin/sh";
        program.args = &shell;
        result = spawn(&program);
    }
    let process = result.map_err(|error| LaunchError::Run { program: app.path.clone(), error })?;
    Ok((
        Rank { process, segment: made.mapped, segment_fd: made.fd, control, is_child: true, postboxes: None },
        [Some(out), Some(err)],
    ))
}

/// What the ranks of a program have in their environment.
fn base_environment(launch: &Launch, app: &App) -> Vec<(OsString, OsString)> {
    let mut env: Vec<_> = app.inherited.iter().filter(|(key, _)| key != BOOT_VARIABLE).cloned().collect();
    for (key, value) in launch.env.iter().chain(&app.env) {
        set(&mut env, key, value.clone());
    }
    if let Some(directory) = &launch.library_directory {
        let path = env.iter().find(|(key, _)| key == "LD_LIBRARY_PATH").map(|(_, value)| value.clone());
        let mut value = directory.clone().into_os_string();
        if let Some(path) = path.filter(|p| !p.is_empty()) {
            value.push(":");
            value.push(path);
        }
        set(&mut env, OsStr::new("LD_LIBRARY_PATH"), value);
    }
    env
}

/// The environment of one rank. Scripts read the numbers, under our names and under Open MPI's.
fn environment(
    launch: &Launch,
    app: &App,
    (rank, size): (u32, u32),
    place: Place,
    mark: &str,
) -> Vec<CString> {
    let mut env = base_environment(launch, app);
    if let Some(directory) = &app.directory {
        set(&mut env, OsStr::new("PWD"), directory.clone().into_os_string());
    }
    let boot = format!("{BOOT_VERSION}:{SEGMENT_NUMBER}:{CONTROL_NUMBER}");
    set(&mut env, OsStr::new(BOOT_VARIABLE), boot.into());
    set(&mut env, OsStr::new(LAUNCHER_VARIABLE), std::process::id().to_string().into());
    set(&mut env, OsStr::new(GUARD_VARIABLE), mark.into());
    for prefix in ["OXMPI", "OMPI"] {
        let Place { local_rank, local_size, .. } = place;
        for (name, value) in
            [("RANK", rank), ("SIZE", size), ("LOCAL_RANK", local_rank), ("LOCAL_SIZE", local_size)]
        {
            set(&mut env, OsStr::new(&format!("{prefix}_COMM_WORLD_{name}")), value.to_string().into());
        }
    }
    // What came from an environment has no zero bytes; what came from arguments neither.
    env.into_iter()
        .filter_map(|(mut key, value)| {
            key.push("=");
            key.push(value);
            CString::new(key.into_vec()).ok()
        })
        .collect()
}

fn set(env: &mut Vec<(OsString, OsString)>, key: &OsStr, value: OsString) {
    match env.iter_mut().find(|(k, _)| k == key) {
        Some(entry) => entry.1 = value,
        None => env.push((key.to_owned(), value)),
    }
}

/// Makes room for the descriptors of many ranks, before any of them is made. Returns the limits for the ranks, if they are
/// to be set: those from before, but a rank that may have a socket to each other one gets room for them.
pub(super) fn raise_open_files(launch: &Launch, size: u32) -> Result<Option<(u64, u64)>, LaunchError> {
    let nodes = if launch.transport.has_postboxes() { u64::from(nodes_of(&launch.params, size)) } else { 0 };
    let files = if launch.output_files.is_some() { FILES_PER_RANK } else { 0 };
    let feeds = if launch.stdin == super::Stdin::All { FEEDS_PER_RANK } else { 0 };
    let over_sockets = has_sockets(launch, size);
    let plugs = if over_sockets { PLUGS_PER_RANK } else { 0 };
    let (ranks, each) = (u64::from(size), FDS_PER_RANK + files + feeds + plugs);
    let before = getrlimit(Resource::Nofile);
    let (soft, hard) = (before.current.unwrap_or(u64::MAX), before.maximum.unwrap_or(u64::MAX));
    let of_rank = if over_sockets { ranks + FDS_OF_RANK_OTHERWISE } else { 0 };
    let relays = if launch.transport == Transport::Lamd { nodes_of(&launch.params, size).into() } else { 0 };
    let needed = (ranks * each + nodes + relays * FDS_PER_DAEMON + FDS_OTHERWISE).max(FDS_AT_LEAST);
    for (place, needed) in [("mpirun", needed), ("each rank", of_rank)] {
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

pub(super) fn kernel<T>(what: &'static str, result: rustix::io::Result<T>) -> Result<T, LaunchError> {
    result.map_err(|e| LaunchError::Kernel(what, e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_spread_over_nodes_in_even_blocks() {
        for size in 1..20 {
            for nodes in 1..=size {
                let places: Vec<_> = (0..size).map(|rank| Place::of(rank, size, nodes)).collect();
                let node = |place: &Place| place.node.unwrap_or(0);
                for node_number in 0..nodes {
                    let here: Vec<_> = places.iter().filter(|place| node(place) == node_number).collect();
                    assert!(
                        [size / nodes, size.div_ceil(nodes)].contains(&(here.len() as u32)),
                        "{places:?}"
                    );
                    for (at, place) in here.iter().enumerate() {
                        assert_eq!((place.local_rank, place.local_size), (at as u32, here.len() as u32));
                    }
                }
                assert!(places.is_sorted_by_key(node), "{places:?}");
            }
        }
        assert_eq!(Place::of(0, 3, 1).node, None);
    }
}
