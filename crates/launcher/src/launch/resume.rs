//! Restarting a job from images of its ranks: a new launcher restores them as its children, each
//! with a new control socket, new pipes and a new listener, and continues from the old launcher's
//! state ([`Held`]).
//!
//! The processes are restored stopped, as they were imaged. While none of them runs, each segment
//! is marked ([`oxmpi_shm::segment::OwnerStatus::note_restored`]): a rank then adopts its new
//! control socket, drops its old connections, and requests its new listener. It requests the
//! addresses of its peers when it connects.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use oxmpi_checkpoint::origins::NamespaceGroup;
use oxmpi_checkpoint::ranks::{Given, bring_back as restore};
use oxmpi_shm::segment::{Boot, Segment};
use oxmpi_sys::fdpass;
use oxmpi_sys::process_stat::ProcessStat;
use oxmpi_sys::spawn::{Guard, PidNamespace, Process, Signals};
use rustix::fs::{OFlags, fcntl_setfl, fstat};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, WaitId, WaitIdOptions, pidfd_getfd, pidfd_open,
    waitid,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use tracing::info;

use super::beginning::Beginning;
use super::binding::Binding;
use super::entrance::Entrance;
use super::input::{Feed, Inputs};
use super::launcher::Launcher;
use super::plugs::{Plug, plugs};
use super::quiesce::Standing;
use super::start::{
    Nested, Outputs, RankProcess, RankStarter, Recruits, StartedRanks, boot, kernel,
    raise_open_files,
};
use super::{Deadline, Launch, LaunchError, Stdin, binding_of, prepare};
use crate::checkpoint::resumption::{HostRestart, Resumption};
use crate::host::still::send;
use crate::hosts::head::order;
use crate::hosts::pieces::FileSender;
use oxmpi_rt_proto::agent::{AgentOrder, HostOrder, RestoreOrder};
use oxmpi_rt_proto::held::{CONTROL, Held, HeldRank, INPUT, Images, OUTPUTS};

/// The argument that makes this program the init of a PID namespace ([`oxmpi_sys::spawn::init`]).
pub const NAMESPACE_WORD: &str = "pid-namespace";

/// Restarts a job and runs it to its end. Returns the exit status for `mpirun`. After an error no
/// process of the job is left.
pub(crate) fn resume(
    launch: &Launch,
    held: &Held,
    restart: &mut Resumption,
) -> Result<i32, LaunchError> {
    let size = held.ranks.len() as u32;
    let wanted: u32 = launch.apps.iter().map(|app| app.ranks).sum();
    if wanted != size {
        return Err(LaunchError::Restore(format!(
            "the command line of the job has {wanted} ranks, and its set has {size}: it is not the set of this job"
        )));
    }
    let signals = prepare(launch.supervision.is_some())?;
    let here = launch.here(size).len();
    let open_files = raise_open_files(launch, (size, here, launch.children()), true)?;
    let files = launch.files(size, true)?;
    let binding = binding_of(launch.bind, here);
    let started = bring_all_back(launch, held, restart, (&signals, &binding))?;
    let mut launcher = Launcher::new(launch, &signals, started)?;
    launcher.output.write_to(files);
    launcher.open_files = open_files;
    restart.note_back(launch);
    launcher.take_up(held);
    launcher.introduce(&binding);
    launcher.run_to_the_end()
}

impl Launcher<'_> {
    /// Takes over the old launcher's state, and lets the processes run.
    fn take_up(&mut self, held: &Held) {
        self.standing = Standing::restored(held.step);
        self.output.go_on(&held.queued);
        let nodes = self.launch.nodes(held.ranks.len() as u32);
        for (rank, node) in held.ranks.iter().zip(nodes) {
            // The boot record has the node of the image.
            self.members.set_node(rank.number, node);
            self.output.go_on_with(rank.number, &rank.partial, Instant::now());
        }
        self.order_all(HostOrder::GoOn);
    }
}

/// A new launcher's descriptors for a rank, and the replacements for its process.
struct Ends {
    control: OwnedFd,
    peer: u64,
    outputs: Outputs,
    given: Vec<(RestoreInput, String)>,
}

enum RestoreInput {
    New(OwnedFd),
    Own,
}

impl RestoreInput {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            RestoreInput::New(fd) => fd.as_fd(),
            RestoreInput::Own => rustix::stdio::stdin(),
        }
    }
}

/// Ranks that were restored on this host, with their descriptors.
pub(crate) struct Back {
    pub(crate) ranks: Vec<RankProcess>,
    pub(crate) outputs: Vec<Outputs>,
    pub(crate) plugs: Vec<Plug>,
    /// Each with its process numbers on this host.
    pub(crate) restored: Vec<HeldRank>,
}

/// Restores ranks on this host, with these listeners and inputs. Their segments get the restored
/// mark with `step`, and whether the host is oversubscribed; the ranks do not run yet. After an
/// error none is left.
pub(crate) fn bring_back(
    ranks: &[&HeldRank],
    plugs: Vec<Plug>,
    inputs: &mut Inputs,
    (step, oversubscribed): (u32, bool),
    (binding, guard): (&Binding, &Guard),
    HostRestart { set, criu, work, apart, place }: &HostRestart<'_>,
) -> Result<Back, LaunchError> {
    let namespaces = namespaces(apart)?;
    let mut ends = Vec::new();
    for rank in ranks {
        ends.push(ends_of(rank, inputs)?);
    }
    let given = |(rank, ends): (&&HeldRank, &Ends)| {
        let inherited = |(fd, name): &(RestoreInput, String)| {
            fcntl_setfd(fd.as_fd(), FdFlags::empty())?;
            Ok((fd.as_fd().as_raw_fd(), name.clone()))
        };
        let descriptors = ends.given.iter().map(inherited).collect::<rustix::io::Result<_>>()?;
        let namespace = namespaces.get(&rank.number).map(|namespace| &**namespace);
        Ok(Given { rank: rank.number, namespace, descriptors })
    };
    let given = ranks.iter().zip(&ends).map(given).collect::<rustix::io::Result<Vec<_>>>();
    let done = given
        .map_err(|error| error.to_string())
        .and_then(|given| restore(set, criu, work, &given).map_err(|error| error.to_string()));
    let done = done.map_err(|error| LaunchError::Restore(format!("{place}{error}")));
    let taken = done.and_then(|()| take_all_over(ranks, ends, plugs, &namespaces));
    // Ranks in namespaces end with their namespace; their numbers are other processes' here.
    let is_here = |rank: &&&HeldRank| !namespaces.contains_key(&rank.number);
    let back = taken.inspect_err(|_| kill_restored(ranks.iter().filter(is_here).copied()))?;
    for ((at, rank), taken) in (0..).zip(&back.restored).zip(&back.ranks) {
        // Fails only if the guard was killed; then the job runs unguarded.
        let _ = guard.watch(taken.process.pid);
        taken.segment.status().note_restored(oversubscribed);
        taken.segment.status().ask_quiesce_step(step);
        if let Some(mask) = binding.mask(at) {
            bind_all(rank, &mask);
        }
    }
    Ok(back)
}

fn namespaces(apart: &[NamespaceGroup]) -> Result<BTreeMap<u32, Arc<PidNamespace>>, LaunchError> {
    let mut all = BTreeMap::new();
    for group @ NamespaceGroup { ranks, highest, needed, .. } in apart {
        let program = oxmpi_sys::library::program();
        let made = program.and_then(|program| {
            PidNamespace::start_outside_of(needed, (&program, NAMESPACE_WORD, *highest))
        });
        let namespace = Arc::new(made.map_err(|error| {
            let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
            let (ranks, reason) = (ranks.join(", "), group.reason());
            LaunchError::Restore(format!(
                "ranks {ranks} need a PID namespace, as {reason}; none can be made here: {error}; end what has the numbers, give the ranks \
                 other hosts (--host), or permit it: in a container by '--cap-add SYS_ADMIN --security-opt apparmor=unconfined', and \
                 where / is the root of a chroot by making it a mount point (mount --bind)"
            ))
        })?);
        all.extend(ranks.iter().map(|rank| (*rank, namespace.clone())));
    }
    Ok(all)
}

/// A restored rank with its process numbers on this host.
fn numbered_here(rank: &HeldRank, namespace: Option<&PidNamespace>) -> io::Result<HeldRank> {
    let Some(namespace) = namespace else { return Ok(rank.clone()) };
    let outside = |pid: u32| {
        let gone = || io::Error::other(format!("process {pid} of its PID namespace is not there"));
        namespace.number_outside(pid).ok_or_else(gone)
    };
    let stopped = rank.stopped.iter().map(|pid| outside(*pid)).collect::<io::Result<_>>()?;
    Ok(HeldRank { pid: outside(rank.pid)?, owner: outside(rank.owner)?, stopped, ..rank.clone() })
}

fn take_all_over(
    ranks: &[&HeldRank],
    ends: Vec<Ends>,
    plugs: Vec<Plug>,
    namespaces: &BTreeMap<u32, Arc<PidNamespace>>,
) -> Result<Back, LaunchError> {
    let mut back =
        Back { ranks: Vec::new(), outputs: Vec::new(), plugs: Vec::new(), restored: Vec::new() };
    for ((rank, ends), plug) in ranks.iter().zip(ends).zip(plugs) {
        let gone = |error: Box<dyn std::error::Error>| {
            let (number, pid) = (rank.number, rank.pid);
            LaunchError::Restore(format!(
                "rank {number} (process {pid}) cannot be taken over: {error}"
            ))
        };
        let namespace = namespaces.get(&rank.number);
        let here = numbered_here(rank, namespace.map(|namespace| &**namespace));
        let here = here.map_err(|error| gone(error.into()))?;
        let (mut taken, plug) =
            take_over((rank, &here), ends.control, ends.peer, plug).map_err(gone)?;
        let owner = (rank.owner, here.owner);
        taken.nested = namespace.map(|namespace| Nested { namespace: namespace.clone(), owner });
        back.ranks.push(taken);
        back.restored.push(here);
        back.outputs.push(ends.outputs);
        back.plugs.push(plug);
    }
    Ok(back)
}

/// Restores all processes on all hosts.
fn bring_all_back<'a>(
    launch: &'a Launch,
    held: &Held,
    restart: &mut Resumption,
    (signals, binding): (&Signals, &Binding),
) -> Result<StartedRanks<'a>, LaunchError> {
    let size = held.ranks.len() as u32;
    let (nodes, here) = (launch.nodes(size), launch.here(size));
    let deadline = Deadline::of_rest(launch, held.time_left);
    let entrance = Entrance::open_as(held.entrance.clone(), held.generation)?;
    let boot = boot(&launch.params, held.universe, (size, here.len() as u32), true);
    let with = (!here.is_empty(), (signals, deadline));
    let mut beginning = Beginning::new(launch, &entrance, Some(&held.mark), with)?;
    let restored = restore_all(&mut beginning, (held, &boot), restart, (&nodes, &here), binding);
    let feed = restored.inspect_err(|_| beginning.host.undo_start(0))?;
    Ok(beginning.into_started((boot, nodes), (held.secret, feed), entrance, None))
}

/// Restores the processes of this host and, by the agents, those of others. Returns the standard
/// input that they have not got.
fn restore_all(
    beginning: &mut Beginning<'_, '_>,
    (held, boot): (&Held, &Boot),
    restart: &mut Resumption,
    (nodes, here): (&[u32], &[u32]),
    binding: &Binding,
) -> Result<Feed, LaunchError> {
    let (images, marks) = (restart.images().map_err(LaunchError::Restore)?, restart.marks(held));
    info!(ranks = nodes.len(), set = %images.set.display(), "restoring the ranks of a job");
    let (launch, step) = (beginning.launch, Standing::restored(held.step).step());
    let is_here = |rank: &HeldRank| here.binary_search(&rank.number).is_ok();
    let own: Vec<&HeldRank> = held.ranks.iter().filter(|rank| is_here(rank)).collect();
    // A rank on another host cannot inherit the launcher's own input.
    let is_fed = |rank: &&HeldRank| {
        rank.outside[INPUT].is_some() && (rank.input.is_some() || !is_here(rank))
    };
    let fed: Vec<&HeldRank> = held.ranks.iter().filter(is_fed).collect();
    let own_fed = fed.iter().filter(|rank| is_here(rank)).map(|rank| rank.number);
    let inputs = Inputs::open(Stdin::None, own_fed);
    let (mut inputs, writers) = kernel("open standard input for the ranks", inputs)?;
    let plugs = plugs(launch, own.len(), launch.spread.is_none(), own.len() > 1)?;
    let restore = RestoreOrder {
        images: images.clone(),
        mark: held.mark.clone(),
        marks: marks.clone(),
        step,
        ranks: held.ranks.clone(),
    };
    let numbers = fed.iter().map(|rank| rank.number).collect();
    let order = order(launch, (boot, held.secret), nodes, numbers);
    let order = AgentOrder { restore: Some(restore), ..order };
    let addresses = beginning.prepare_others(None, order)?;
    restart.prepare(&marks).map_err(LaunchError::Restore)?;
    send_images(beginning, &images, restart, nodes)?;
    let Back { ranks, outputs, plugs, restored } = bring_back(
        &own,
        plugs,
        &mut inputs,
        (step, boot.oversubscribed),
        (binding, beginning.host.guard()?),
        &restart.here(here).map_err(LaunchError::Restore)?,
    )?;
    info!(ranks = own.len(), "restored the ranks of this host");
    beginning.host.note_restored(&restored);
    let names = here.iter().map(|rank| (*rank, nodes[*rank as usize])).collect();
    let recruits = Recruits { ranks, outputs, plugs };
    beginning.start_others((names, recruits), writers, addresses).inspect_err(|_| {
        // They may have left the groups of their ranks.
        let all = restored.iter().flat_map(|rank| &rank.stopped);
        all.for_each(|pid| send(*pid, Signal::KILL));
    })?;
    let rest = |rank: &HeldRank| (rank.number, rank.input.clone().unwrap_or_default());
    Ok(Feed::of_rest(fed.into_iter().map(rest).collect(), held.input_ended))
}

/// Sends images to the hosts that have no access to them.
fn send_images(
    beginning: &mut Beginning<'_, '_>,
    images: &Images,
    restart: &Resumption,
    nodes: &[u32],
) -> Result<(), LaunchError> {
    let files = |node| {
        let its = (0..).zip(nodes).filter(|(_, of)| **of == node);
        let ranks: Vec<u32> = its.map(|(rank, _)| rank).collect();
        FileSender::of(&images.set, restart.files_of(&ranks))
    };
    beginning.branches.send_images(files, beginning.watch)
}

fn ends_of(rank: &HeldRank, inputs: &mut Inputs) -> Result<Ends, LaunchError> {
    let (control, theirs) =
        fdpass::pair().map_err(|e| LaunchError::Kernel("make a socket pair", e))?;
    kernel("make a socket nonblocking", fcntl_setfl(&control, OFlags::NONBLOCK))?;
    let peer = kernel("see a socket", fstat(&theirs))?.st_ino;
    let mut given = vec![(RestoreInput::New(theirs), CONTROL)];
    let mut outputs: Outputs = [None, None];
    for (output, at) in outputs.iter_mut().zip(OUTPUTS) {
        if rank.outside[at].is_some() {
            let (read, write) = kernel("make a pipe", pipe_with(PipeFlags::CLOEXEC))?;
            *output = Some(read);
            given.push((RestoreInput::New(write), at));
        }
    }
    if rank.outside[INPUT].is_some() {
        let pipe = inputs.take(rank.number);
        given.push((pipe.map_or(RestoreInput::Own, RestoreInput::New), INPUT));
    }
    let named = given.into_iter().filter_map(|(fd, at)| Some((fd, rank.outside[at].clone()?)));
    Ok(Ends { control, peer, outputs, given: named.collect() })
}

/// Takes a restored process over with its segment and alarm: `inside` has the process numbers of
/// its PID namespace, `rank` those of this host.
fn take_over(
    (inside, rank): (&HeldRank, &HeldRank),
    control: OwnedFd,
    peer: u64,
    plug: Plug,
) -> Result<(RankProcess, Plug), Box<dyn std::error::Error>> {
    let open = |pid: u32| {
        let pid = Pid::from_raw(pid.cast_signed()).ok_or(rustix::io::Errno::SRCH)?;
        pidfd_open(pid, PidfdFlags::empty())
    };
    let owner = open(rank.owner)?;
    let take = |number: u32| pidfd_getfd(&owner, number.cast_signed(), PidfdGetfdFlags::empty());
    let segment_fd = take(rank.segment)?;
    let segment = Segment::map(&segment_fd)?;
    let (found, wanted) = (segment.boot().rank, rank.number);
    if found != wanted || segment.status().pid() != Some(inside.owner) {
        return Err(io::Error::other(format!("its memory is that of rank {found}")).into());
    }
    let alarm = rank.alarm.map(take).transpose()?.unwrap_or(plug.alarm);
    let process = Process { pid: rank.pid.cast_signed(), pidfd: open(rank.pid)? };
    let clock_ahead_ns =
        clock_offset_ns("self").saturating_sub(clock_offset_ns(&rank.owner.to_string()));
    let rank = RankProcess::new(process, (segment, segment_fd), control, RankStarter::Own);
    Ok((RankProcess { peer: Some(peer), clock_ahead_ns, ..rank }, Plug { alarm, ..plug }))
}

/// The offset of a process's monotonic clock to the kernel's (time_namespaces(7)).
fn clock_offset_ns(process: &str) -> i64 {
    let text =
        std::fs::read_to_string(format!("/proc/{process}/timens_offsets")).unwrap_or_default();
    let numbers = text.lines().find_map(|line| {
        let mut words =
            line.strip_prefix("monotonic")?.split_ascii_whitespace().map(str::parse::<i64>);
        words.next()?.ok().zip(words.next()?.ok())
    });
    // A kernel without time namespaces has no such file.
    numbers.map_or(0, |(seconds, ns)| seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

fn bind_all(rank: &HeldRank, mask: &[u64]) {
    let mut cpus = CpuSet::new();
    for cpu in 0..CpuSet::MAX_CPU.min(mask.len() * 64) {
        if mask[cpu / 64] >> (cpu % 64) & 1 == 1 {
            cpus.set(cpu);
        }
    }
    for pid in &rank.stopped {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks
            .filter_map(|task| task.file_name().to_str()?.parse().ok())
            .filter_map(Pid::from_raw)
        {
            let _ = sched_setaffinity(Some(task), &cpus);
        }
    }
}

fn kill_restored<'r>(ranks: impl IntoIterator<Item = &'r HeldRank>) {
    for rank in ranks {
        let is_ours =
            ProcessStat::of(rank.pid).is_some_and(|stat| stat.parent == std::process::id());
        let Some(pid) = Pid::from_raw(rank.pid.cast_signed()).filter(|_| is_ours) else { continue };
        rank.stopped.iter().for_each(|pid| send(*pid, Signal::KILL));
        send(rank.pid, Signal::KILL);
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_the_clock_of_its_host_and_a_missing_process_has_no_offset() {
        assert_eq!(clock_offset_ns("self"), clock_offset_ns(&std::process::id().to_string()));
        assert_eq!(clock_offset_ns("no process"), 0);
    }
}
