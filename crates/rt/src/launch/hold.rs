//! The processes of a job stand still while a tool makes an image of each rank.
//!
//! Rules
//! 1. All processes of all ranks are stopped (SIGSTOP) before the first image is made, and none goes on before the tool says that all
//!    images are there. So the images are one moment of the job. Nobody has to call MPI for that: what is with the kernel, on its way
//!    between two ranks, is kept by its sender as well and is sent again after a restart (rule 11 of the transport tcp).
//! 2. Nothing is under way between a rank and the launcher: all its requests are read, and so are all replies to it. A rank that
//!    was stopped between a request and its reply runs for a moment more, and then all are stopped again.
//! 3. What they have written is read from the pipes, and passed on.
//! 4. They go on when the tool says so, when it is gone, or when something has to be done to them (a signal, an end). In the last case
//!    the tool gets an error, and its images are worth nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_param::Module;
use oxmpi_sys::process_stat::ProcessStat;
use oxmpi_sys::{fdpass, spawn};
use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags, fstat};
use rustix::net::{SocketAddrUnix, getpeername};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, tee};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open};

use super::held::{CONTROL, Held, HeldRank, INPUT, OUTPUTS};
use super::launcher::Launcher;
use super::output::is_ready;
use super::plugs::Plug;
use super::start::Rank;
use crate::blob;
use crate::control::{Reply, Request};

/// How long the kernel may take to stop all processes.
const STOPPING: Duration = Duration::from_secs(5);
/// How often their states are read.
const LOOK: Duration = Duration::from_micros(200);
/// How often they are stopped at most until nothing is under way, and how long they run in between.
const ATTEMPTS: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(2);
/// The exit code of a job that has ended because there is a set of images to go on from: EX_TEMPFAIL of sysexits(3), "try again".
const CHECKPOINTED: i32 = 75;

/// A job that is held.
#[derive(Debug)]
pub(super) struct Hold {
    /// The tool's number at the entrance.
    holder: u32,
    /// Those that run when they are sent SIGCONT.
    stopped: Vec<u32>,
    /// Why they have gone on meanwhile, if they have.
    broken: Option<String>,
}

impl Launcher<'_> {
    /// A tool, which has this number at the entrance, wants the processes to stand still.
    pub(super) fn hold(&mut self, id: u32) {
        let held = match self.why_not_held() {
            Some(reason) => Err(reason),
            None => self.stand_still(id),
        };
        let given = held.and_then(|held| blob::write(&held.encode()).map_err(|error| error.to_string()));
        match given {
            Ok(fd) => self.tell_entrant(id, &Reply::Given, Some(fd.as_fd())),
            Err(reason) => {
                self.go_on_from_hold();
                self.end_entrant(id, &Reply::Refused { rank: 0, reason });
            }
        }
    }

    /// Why no image can be made of each rank; `None` if one can.
    fn why_not_held(&self) -> Option<String> {
        if !self.launch.transport.checkpoints {
            let name = self.launch.transport.name;
            let can = Module::all().iter().filter(|module| module.checkpoints).map(|module| module.name);
            let can = can.collect::<Vec<_>>().join("' or '--mca rpi ");
            return Some(format!(
                "messages over '{name}' are not in an image of one rank alone: start the job with '--mca rpi {can}', or make an image \
                 of all its processes together (--tree)"
            ));
        }
        if self.hold.is_some() {
            return Some("images of it are being made already: try again when that is done".into());
        }
        if self.standing.is_on() {
            return Some("its messages are being quiesced: try again when that is done".into());
        }
        if self.job.jobs() > 1 {
            return Some(
                "it has spawned another job, which is not in images of single ranks: make one of all its processes together (--tree)"
                    .into(),
            );
        }
        if let Some(dead) = self.deaths.first() {
            return Some(format!("{} has died, and the others have survived it", self.job.name(*dead)));
        }
        if self.ports.is_any() {
            return Some(
                "a port is open (MPI_Open_port), which is not there after a restart: close it first".into(),
            );
        }
        self.why_not_imaged()
    }

    /// Rules 1 to 3.
    fn stand_still(&mut self, holder: u32) -> Result<Held, String> {
        for _ in 0..ATTEMPTS {
            let stopped = self.stop_all(holder)?;
            self.hold = Some(Hold { holder, stopped, broken: None });
            self.hear_all();
            self.read_outputs();
            if let Some(Hold { broken: Some(reason), .. }) = &self.hold {
                return Err(reason.clone());
            }
            if !self.has_unread_answers() {
                return self.describe_held();
            }
            self.go_on_from_hold();
            std::thread::sleep(BETWEEN);
        }
        Err(format!(
            "ranks have asked mpirun something each time that they were stopped, {ATTEMPTS} times: try again"
        ))
    }

    /// Stops all processes of all ranks. Returns those that ran before.
    fn stop_all(&self, holder: u32) -> Result<Vec<u32>, String> {
        let tool = self.entrance.as_ref().and_then(|entrance| entrance.pid_of(holder));
        let roots: Vec<u32> = self.ranks().map(|(_, rank)| rank.process.pid.cast_unsigned()).collect();
        let start = Instant::now();
        let mut stopped = BTreeSet::new();
        loop {
            let all = descendants(&roots).map_err(|error| format!("/proc cannot be read: {error}"))?;
            if tool.is_some_and(|tool| all.contains_key(&tool)) {
                return Err("a process of the job cannot ask for it: it would have to stop itself".into());
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
            std::thread::sleep(LOOK);
        }
    }

    fn ranks(&self) -> impl Iterator<Item = (u32, &Rank)> {
        self.members.iter().filter_map(|(number, member)| Some((*number, member.rank.as_ref()?)))
    }

    /// Reads what is in the pipes; nobody writes to them.
    fn read_outputs(&mut self) {
        let all: Vec<u32> = self.members.keys().copied().collect();
        for (rank, kind) in all.into_iter().flat_map(|rank| [(rank, 0), (rank, 1)]) {
            while self
                .members
                .get(&rank)
                .and_then(|member| member.outputs[kind].as_ref())
                .is_some_and(|pipe| is_ready(pipe, PollFlags::IN))
            {
                self.output(rank, kind);
            }
        }
    }

    fn has_unread_answers(&self) -> bool {
        // If the socket has an error there is no reply to read.
        self.ranks().any(|(_, rank)| fdpass::has_unread(&rank.control).unwrap_or(false))
    }

    /// What has to be known of the processes, which stand still.
    fn describe_held(&mut self) -> Result<Held, String> {
        let Some(entrance) = &self.entrance else { return Err("it has no entrance".into()) };
        let held = Held {
            ranks: Vec::new(),
            listeners: self
                .members
                .values()
                .filter_map(|member| member.plug.as_ref())
                .flat_map(Plug::sockets)
                .collect(),
            universe: self.universe,
            entrance: entrance.names(),
            generation: entrance.generation(0),
            mark: self.guard.mark().into(),
            secret: self.secret,
            step: self.standing.step(),
            time_left: self.time_left(Instant::now()),
            queued: [0, 1].map(|at| self.sinks[at].unwritten().to_vec()),
            input_ended: self.feed.has_ended(),
        };
        let name = held.entrance.0.clone();
        let describe = |(number, _): (u32, &Rank)| {
            let rank = self.describe_rank(number, &name);
            rank.map_err(|why| format!("{}: {why}", self.job.name(number)))
        };
        let ranks = self.ranks().map(describe).collect::<Result<Vec<_>, _>>()?;
        Ok(Held { ranks, ..held })
    }

    fn describe_rank(&self, number: u32, entrance: &str) -> Result<HeldRank, String> {
        let member = self.members.get(&number).ok_or("it is gone")?;
        let rank = member.rank.as_ref().ok_or("it is gone")?;
        let owner = rank.segment.status().pid().ok_or("it has not called MPI_Init")?;
        let pid = rank.process.pid.cast_unsigned();
        let found = Descriptors::of(owner, rank, member.plug.as_ref().map(|plug| &plug.alarm), entrance);
        let found = found.map_err(|error| format!("its descriptors cannot be seen: {error}"))?;
        let closed = |what| format!("its program has closed OxMPI's descriptor for {what}");
        let mut outside: [Option<String>; 4] = Default::default();
        outside[CONTROL] = Some(found.control.ok_or_else(|| closed("mpirun"))?);
        for (at, pipe) in OUTPUTS.into_iter().zip(&member.outputs) {
            outside[at] = pipe.as_ref().and_then(|pipe| name_of(pipe, "pipe"));
        }
        let fed = self.feed.left(number);
        outside[INPUT] = match &fed {
            Some((pipe, _)) => name_of(pipe, "pipe"),
            // The launcher's own, which is another one after a restart.
            None if self.launch.stdin == super::Stdin::Rank(number) => own_input(pid),
            None => None,
        };
        let input = fed.map(|(pipe, rest)| Ok::<_, io::Error>([unread(pipe)?, rest.to_vec()].concat()));
        let stopped = self.hold.as_ref().map(|hold| hold.stopped.clone()).unwrap_or_default();
        let own = descendants(&[pid]).map_err(|error| error.to_string())?;
        Ok(HeldRank {
            number,
            pid,
            outside,
            owner,
            stopped: stopped.into_iter().filter(|pid| own.contains_key(pid)).collect(),
            segment: found.segment.ok_or_else(|| closed("its memory"))?,
            alarm: found.alarm,
            input: input.transpose().map_err(|error| format!("its input cannot be read: {error}"))?,
            partial: [0, 1].map(|kind| member.lines[kind].partial().to_vec()),
        })
    }

    /// Whether the tool with this number at the entrance holds the processes.
    pub(super) fn is_holder(&self, id: u32) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.holder == id)
    }

    /// Hears what the tool says; nothing: it is gone.
    pub(super) fn hear_holder(&mut self, id: u32, said: Option<&Request>) {
        let broken = self.hold.as_ref().and_then(|hold| hold.broken.clone());
        let done = Reply::Done { number: 0, text: String::new() };
        let reply = match broken {
            None => done,
            Some(why) => Reply::Refused { rank: 0, reason: format!("its processes have gone on: {why}") },
        };
        match (said, &reply) {
            (Some(Request::EndHeld { set }), Reply::Done { .. }) => {
                // What waits to be written is in the set.
                self.ended_by_checkpoint = Some(CHECKPOINTED);
                if self.launch.supervision.is_none() {
                    oxmpi_sys::complain!(
                        "mpirun: the job was checkpointed and has ended; 'oxmpi restart {set}' brings it back"
                    );
                }
            }
            (Some(Request::Imaged { ends: true }), Reply::Done { .. }) => {
                return self.tell_entrant(id, &reply, None);
            }
            _ => self.go_on_from_hold(),
        }
        self.end_entrant(id, &reply);
    }

    /// The processes go on.
    fn go_on_from_hold(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.stopped.iter().for_each(|pid| send(*pid, Signal::CONT));
        }
    }

    /// Something has to be done to the processes: they go on (rule 4).
    pub(super) fn break_hold(&mut self, why: impl FnOnce() -> String) {
        if let Some(hold) = &mut self.hold
            && hold.broken.is_none()
        {
            hold.broken = Some(why());
            hold.stopped.drain(..).for_each(|pid| send(pid, Signal::CONT));
        }
    }
}

/// It fails if the process is gone.
pub(super) fn send(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, signal);
    }
}

const fn is_stopped(state: char) -> bool {
    matches!(state, 'T' | 't' | 'Z' | 'X')
}

/// These processes and all that descend from them, with their states.
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
    fn of(owner: u32, rank: &Rank, alarm: Option<&OwnedFd>, entrance: &str) -> io::Result<Descriptors> {
        let mut found = Descriptors::default();
        let segment = fstat(&rank.segment_fd)?;
        let alarm = alarm.map(|alarm| eventfd_id("self", alarm.as_raw_fd().cast_unsigned())).transpose()?;
        let own = rank.peer.map(|inode| format!("socket:[{inode}]"));
        let process = Pid::from_raw(owner.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        for entry in std::fs::read_dir(format!("/proc/{owner}/fd"))? {
            let entry = entry?;
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let (Some(number), Ok(link)) = (number, std::fs::read_link(entry.path())) else { continue };
            let link = link.to_string_lossy().into_owned();
            if link.starts_with("anon_inode:[eventfd") {
                let is_it =
                    alarm.flatten().is_some() && eventfd_id(&owner.to_string(), number)? == alarm.flatten();
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

/// Whether a socket is a connection with a launcher's entrance, and the launcher has not given it up.
fn leads_to(socket: &OwnedFd, entrance: &str) -> bool {
    let peer = getpeername(socket).ok().flatten().and_then(|peer| SocketAddrUnix::try_from(peer).ok());
    peer.is_some_and(|peer| peer.abstract_name() == Some(entrance.as_bytes()))
        && spawn::is_live_socket(socket.as_raw_fd())
}

/// The kernel's number of an eventfd (proc_pid_fdinfo(5)); `None`: it does not say.
fn eventfd_id(process: &str, number: u32) -> io::Result<Option<u64>> {
    let info = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{number}"))?;
    Ok(info.lines().find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok()))
}

/// What the kernel calls a pipe or socket, whichever end this is.
fn name_of(fd: impl AsFd, kind: &str) -> Option<String> {
    Some(format!("{kind}:[{}]", fstat(fd).ok()?.st_ino))
}

/// The input of a rank that has the launcher's own, if that is a pipe or socket.
fn own_input(pid: u32) -> Option<String> {
    let link = |process: &str| std::fs::read_link(format!("/proc/{process}/fd/0")).ok();
    let own = link("self")?;
    let name = own.to_string_lossy().into_owned();
    let is_it =
        link(&pid.to_string()) == Some(own) && ["pipe:", "socket:"].iter().any(|kind| name.starts_with(kind));
    is_it.then_some(name)
}

/// What was written to a pipe and is not read yet. It stays there.
fn unread(pipe: impl AsFd) -> io::Result<Vec<u8>> {
    let end = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
    let reader = rustix::fs::open(end, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
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
    fn what_waits_in_a_pipe_is_seen_and_stays_there() {
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
    fn an_eventfd_is_told_from_another() {
        let [one, other] = [(), ()].map(|()| oxmpi_sys::poller::new_alarm().unwrap());
        let id = |fd: &OwnedFd| eventfd_id("self", fd.as_raw_fd().cast_unsigned()).unwrap();
        let copy = one.try_clone().unwrap();
        assert!(id(&one).is_some() && id(&one) == id(&copy) && id(&one) != id(&other));
    }
}
