//! Stopping and describing the processes of one host for images of each rank, by /proc (see
//! `launch/hold.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_sys::pending::discard_pending;
use oxmpi_sys::process_stat::ProcessStat;
use oxmpi_sys::spawn;
use rustix::fs::{Mode, OFlags, fstat};
use rustix::net::{SocketAddrUnix, getpeername};
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, tee,
};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open,
};

use crate::launch::parts::{Outputs, RankProcess};
use oxmpi_rt_proto::held::{CONTROL, HeldRank, INPUT, OUTPUTS};

/// The limit for the kernel to stop all processes.
pub(crate) const STOPPING: Duration = Duration::from_secs(5);
/// The limit for CRIU's code in the processes to end.
const RECOVERY: Duration = Duration::from_secs(1);
const CHECK_INTERVAL: Duration = Duration::from_micros(200);

/// Stops these processes and all their descendants. Returns the processes that ran before. `tool`
/// is a process that must not be among them. After an error, which is for the user, the processes
/// run.
pub(crate) fn stop(roots: &[u32], tool: Option<u32>) -> Result<Vec<u32>, String> {
    let start = Instant::now();
    let mut stopped = BTreeSet::new();
    loop {
        let all = descendants(roots).map_err(|error| format!("/proc cannot be read: {error}"))?;
        if tool.is_some_and(|tool| all.contains_key(&tool)) {
            return Err(
                "a process of the job cannot ask for it: it would have to stop itself".into()
            );
        }
        let running: Vec<u32> =
            all.into_iter().filter(|(_, state)| !is_stopped(*state)).map(|(pid, _)| pid).collect();
        if running.is_empty() {
            return Ok(stopped.into_iter().collect());
        }
        for pid in &running {
            if stopped.insert(*pid) {
                send(*pid, Signal::STOP);
            }
        }
        if start.elapsed() > STOPPING {
            stopped.iter().for_each(|pid| send(*pid, Signal::CONT));
            let names: Vec<String> = running.iter().map(u32::to_string).collect();
            return Err(format!(
                "the kernel does not stop all processes within {} s: {}",
                STOPPING.as_secs(),
                names.join(", ")
            ));
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

/// Repairs stopped processes after a CRIU that may have been killed while it made an image: its
/// code in them ends by itself and they are stopped again, but a SIGPIPE may be pending, from a
/// write of that code to CRIU.
pub(crate) fn recover(stopped: &[u32]) {
    let end = Instant::now() + RECOVERY;
    for pid in stopped {
        let is_changing = || {
            ProcessStat::of(*pid).is_some_and(|stat| stat.state == 't' || !is_stopped(stat.state))
        };
        while is_changing() && Instant::now() < end {
            std::thread::sleep(CHECK_INTERVAL);
        }
        // A process that is gone, or that another process traces, is left as it is.
        let _ = discard_pending(*pid, Signal::PIPE);
    }
}

/// Describes a stopped rank of this host. `input` is the pipe of its standard input, if the
/// launcher writes that, with the unwritten bytes; `stopped` are the processes that the hold has
/// stopped. The error, why the rank cannot be imaged, is for the user.
pub(crate) fn describe(
    number: u32,
    (rank, alarm): (&RankProcess, Option<&OwnedFd>),
    outputs: &Outputs,
    input: Option<(BorrowedFd<'_>, &[u8])>,
    (entrance, stopped): (&str, &[u32]),
) -> Result<HeldRank, String> {
    let owner = rank.owner().ok_or("it has not called MPI_Init")?;
    let pid = rank.process.pid.cast_unsigned();
    let found = Descriptors::of(owner, rank, alarm, entrance);
    let found = found.map_err(|error| format!("its descriptors cannot be read: {error}"))?;
    let closed = |what| format!("its program has closed OxMPI's descriptor for {what}");
    let mut outside: [Option<String>; 4] = Default::default();
    outside[CONTROL] = Some(found.control.ok_or_else(|| closed("mpirun"))?);
    for (at, pipe) in OUTPUTS.into_iter().zip(outputs) {
        outside[at] = pipe.as_ref().and_then(|pipe| name_of(pipe, "pipe"));
    }
    outside[INPUT] = match input {
        Some((pipe, _)) => name_of(pipe, "pipe"),
        None => own_input(pid),
    };
    let rest = match input {
        Some((pipe, rest)) => {
            let waits =
                unread(pipe).map_err(|error| format!("its input cannot be read: {error}"))?;
            Some([&waits, rest].concat())
        }
        None => None,
    };
    let own = descendants(&[pid]).map_err(|error| error.to_string())?;
    let inside = |pid| rank.number_inside(pid).ok_or_else(|| format!("its process {pid} is gone"));
    let stopped = stopped.iter().copied().filter(|pid| own.contains_key(pid));
    Ok(HeldRank {
        number,
        host: None,
        pid: inside(pid)?,
        imaged: pid,
        outside,
        owner: inside(owner)?,
        stopped: stopped.map(inside).collect::<Result<_, _>>()?,
        segment: found.segment.ok_or_else(|| closed("its memory"))?,
        alarm: found.alarm,
        input: rest,
        partial: Default::default(),
    })
}

pub(crate) fn send(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, signal);
    }
}

const fn is_stopped(state: char) -> bool {
    matches!(state, 'T' | 't' | 'Z' | 'X')
}

/// These processes and all their descendants, with their states.
fn descendants(roots: &[u32]) -> io::Result<BTreeMap<u32, char>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut states = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Some(stat) = ProcessStat::of(pid) else { continue };
        children.entry(stat.parent).or_default().push(pid);
        states.insert(pid, stat.state);
    }
    let (mut found, mut next) = (BTreeMap::new(), roots.to_vec());
    while let Some(pid) = next.pop() {
        if let Some(state) = states.get(&pid)
            && found.insert(pid, *state).is_none()
        {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    Ok(found)
}

/// The descriptors of a rank's process that a new launcher needs.
#[derive(Default)]
struct Descriptors {
    control: Option<String>,
    segment: Option<u32>,
    alarm: Option<u32>,
}

impl Descriptors {
    fn of(
        owner: u32,
        rank: &RankProcess,
        alarm: Option<&OwnedFd>,
        entrance: &str,
    ) -> io::Result<Descriptors> {
        let mut found = Descriptors::default();
        let segment = fstat(&rank.segment_fd)?;
        let alarm =
            alarm.map(|alarm| eventfd_id("self", alarm.as_raw_fd().cast_unsigned())).transpose()?;
        let own = rank.peer.map(|inode| format!("socket:[{inode}]"));
        let process = Pid::from_raw(owner.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        for entry in std::fs::read_dir(format!("/proc/{owner}/fd"))? {
            let entry = entry?;
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let (Some(number), Ok(link)) = (number, std::fs::read_link(entry.path())) else {
                continue;
            };
            let link = link.to_string_lossy().into_owned();
            if link.starts_with("anon_inode:[eventfd") {
                let is_it = alarm.flatten().is_some()
                    && eventfd_id(&owner.to_string(), number)? == alarm.flatten();
                found.alarm = found.alarm.or(is_it.then_some(number));
            } else if link.starts_with("socket:") {
                let copy = || pidfd_getfd(&process, number.cast_signed(), PidfdGetfdFlags::empty());
                let is_it = match &own {
                    Some(own) => *own == link,
                    None => copy().is_ok_and(|socket| leads_to(&socket, entrance)),
                };
                found.control = found.control.or(is_it.then_some(link));
            } else if std::fs::metadata(entry.path()).is_ok_and(|is| {
                use std::os::unix::fs::MetadataExt as _;
                (is.dev(), is.ino()) == (segment.st_dev, segment.st_ino)
            }) {
                found.segment = found.segment.or(Some(number));
            }
        }
        Ok(found)
    }
}

/// Whether a socket is a live connection with a launcher's entrance.
fn leads_to(socket: &OwnedFd, entrance: &str) -> bool {
    let peer =
        getpeername(socket).ok().flatten().and_then(|peer| SocketAddrUnix::try_from(peer).ok());
    peer.is_some_and(|peer| peer.abstract_name() == Some(entrance.as_bytes()))
        && spawn::is_live_socket(socket.as_raw_fd())
}

/// The kernel's number of an eventfd (proc_pid_fdinfo(5)); `None` on kernels without it.
fn eventfd_id(process: &str, number: u32) -> io::Result<Option<u64>> {
    let info = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{number}"))?;
    Ok(info.lines().find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok()))
}

/// The kernel's name of a pipe or socket, the same for both ends.
fn name_of(fd: impl AsFd, kind: &str) -> Option<String> {
    Some(format!("{kind}:[{}]", fstat(fd).ok()?.st_ino))
}

/// The name of a rank's input, if that is the launcher's own and a pipe or socket.
fn own_input(pid: u32) -> Option<String> {
    let link = |process: &str| std::fs::read_link(format!("/proc/{process}/fd/0")).ok();
    let own = link("self")?;
    let name = own.to_string_lossy().into_owned();
    let is_it = link(&pid.to_string()) == Some(own)
        && ["pipe:", "socket:"].iter().any(|kind| name.starts_with(kind));
    is_it.then_some(name)
}

/// The unread bytes of a pipe, which stay in it.
pub(crate) fn unread(pipe: impl AsFd) -> io::Result<Vec<u8>> {
    let end = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
    let reader =
        rustix::fs::open(end, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let (copy, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    fcntl_setpipe_size(&into, fcntl_getpipe_size(&reader)?)?;
    let mut bytes = vec![0; fcntl_getpipe_size(&into)?];
    let copied = match tee(&reader, &into, bytes.len(), SpliceFlags::NONBLOCK) {
        Ok(copied) => copied,
        Err(rustix::io::Errno::AGAIN) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut read = 0;
    while read < copied {
        match rustix::io::read(&copy, &mut bytes[read..])? {
            0 => break,
            n => read += n,
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_bytes_of_a_pipe_are_seen_and_stay_there() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        assert_eq!(unread(&write).unwrap(), b"");
        rustix::io::write(&write, b"some ").unwrap();
        rustix::io::write(&write, &[b'x'; 9000]).unwrap();
        let waits = unread(&write).unwrap();
        assert!(waits.starts_with(b"some x") && waits.len() == 9005);
        let mut bytes = [0; 10000];
        assert_eq!(rustix::io::read(&read, &mut bytes).unwrap(), 9005);
        assert_eq!(unread(&write).unwrap(), b"");
        assert_eq!(name_of(&read, "pipe"), name_of(&write, "pipe"));
    }

    #[test]
    fn the_processes_below_this_one_are_found() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let own = std::process::id();
        let all = descendants(&[own]).unwrap();
        assert!(all.contains_key(&own) && all.contains_key(&child.id()), "{all:?}");
        assert!(!all.contains_key(&std::os::unix::process::parent_id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn two_eventfds_are_distinguished() {
        let [one, other] = [(), ()].map(|()| oxmpi_sys::poller::new_alarm().unwrap());
        let id = |fd: &OwnedFd| eventfd_id("self", fd.as_raw_fd().cast_unsigned()).unwrap();
        let copy = one.try_clone().unwrap();
        assert!(id(&one).is_some() && id(&one) == id(&copy) && id(&one) != id(&other));
    }
}
