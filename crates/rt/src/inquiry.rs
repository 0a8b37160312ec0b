//! What a tool asks a running `mpirun`, which it knows by its process number.
//!
//! A launcher listens at its entrance, an abstract socket that processes find by their environment. A tool finds it by the number of
//! that socket among the launcher's descriptors, in /proc.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use oxmpi_sys::{fdpass, local};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{RecvFlags, recv};

use crate::blob;
use crate::codec::Reader;
use crate::control::{MAX_MESSAGE, Reply, Request};
use crate::launch::{Held, Layout, Supervision};

/// How the names of entrances begin.
pub(crate) const ENTRANCE_PREFIX: &str = "oxmpi.rank.";
/// How long an answer may take: a launcher is stopped, or its output is not read.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take until all processes of a job stand still.
const HOLDING: Duration = Duration::from_secs(90);

/// How long other hosts may make images: as long as the memory of their ranks takes.
const IMAGING: Duration = Duration::from_secs(24 * 3600);

/// What a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// The process number of its `mpirun`: the one that looks after the ranks, if another one looks after that.
    pub mpirun: u32,
    /// Names it; it stays the same when the job is restarted from an image.
    pub id: u64,
    /// The transport of its messages.
    pub transport: String,
    /// How many processes it has, spawned ones among them.
    pub ranks: u32,
    /// On how many hosts they are.
    pub hosts: u32,
    /// Whether that is the host of `mpirun` alone.
    pub is_here: bool,
    /// Its module for checkpoints, if it has one by name.
    pub cr: Option<String>,
    /// What is done about checkpoints without being asked, if anything is.
    pub supervision: Option<Supervision>,
    /// The program of its first rank.
    pub program: PathBuf,
    /// The parameters for its checkpoints that `mpirun` was given, with their values. Directories are absolute.
    pub params: Vec<(String, String)>,
}

/// Why nothing is known of a job.
#[derive(Debug, thiserror::Error)]
pub enum InquiryError {
    /// There is no such process, or it belongs to somebody else.
    #[error("process {0}: {1}")]
    Process(u32, io::Error),
    /// It is something else.
    #[error("process {pid} is {program}, not mpirun of this installation{}", parent.map(|pid| format!("; its mpirun is process {pid}")).unwrap_or_default())]
    NotMpirun {
        /// Its number.
        pid: u32,
        /// What it is.
        program: String,
        /// Its parent, if that is one.
        parent: Option<u32>,
    },
    /// It does not listen yet, or any more.
    #[error("mpirun (process {0}) is only starting its job, or ending it: try again")]
    NotListening(u32),
    /// It has ended before it has answered.
    #[error("mpirun (process {0}) has ended")]
    Ended(u32),
    /// It does not answer.
    #[error(
        "mpirun (process {0}) does not answer: is it stopped (kill -CONT {0}), or does nobody read its output?"
    )]
    Silent(u32),
    /// It listens in another network namespace.
    #[error(
        "mpirun (process {0}) is in another network namespace, where it cannot be asked from here: nsenter --net=/proc/{0}/ns/net \
         oxmpi ..."
    )]
    Elsewhere(u32),
    /// It cannot be asked.
    #[error("mpirun (process {0}) cannot be asked: {1}")]
    Unreachable(u32, io::Error),
    /// It says no.
    #[error("{0}")]
    Refused(String),
    /// It makes no sense.
    #[error("mpirun (process {0}) has given an answer that makes no sense: is it of another version?")]
    Nonsense(u32),
}

impl JobFacts {
    /// As [`JobFacts::decode`] reads it. Paths and parameters are last, each with an end: what a message had no room for is lost.
    pub(crate) fn encode(&self) -> String {
        let JobFacts { mpirun, id, transport, ranks, hosts, is_here, cr, supervision, program, params } =
            self;
        let hosts = format!("{hosts}/{}", u8::from(*is_here));
        let cr = cr.as_deref().unwrap_or("-");
        let supervision = supervision.map_or("-".into(), |Supervision { every, on_term }| {
            format!("{}/{}", every.map_or(0, |time| time.as_millis()), u8::from(on_term))
        });
        let params: String = params.iter().map(|(name, value)| format!("{name}={value}\0")).collect();
        let program = program.display();
        format!("{mpirun} {id:016x} {ranks} {hosts} {transport} {cr} {supervision} {program}\0{params}")
    }

    fn decode(text: &str) -> Option<JobFacts> {
        let mut words = text.splitn(8, ' ');
        let mpirun = words.next()?.parse().ok()?;
        let id = u64::from_str_radix(words.next()?, 16).ok()?;
        let ranks = words.next()?.parse().ok()?;
        let (hosts, is_here) = words.next()?.split_once('/')?;
        let (hosts, is_here) = (hosts.parse().ok()?, is_here == "1");
        let transport = words.next()?.into();
        let cr = words.next().map(|word| Some(word.to_string()).filter(|word| word != "-"))?;
        let supervision = match words.next()? {
            "-" => None,
            text => {
                let (every_ms, on_term) = text.split_once('/')?;
                let every_ms: u64 = every_ms.parse().ok()?;
                let every = (every_ms > 0).then(|| Duration::from_millis(every_ms));
                Some(Supervision { every, on_term: on_term == "1" })
            }
        };
        let mut rest = words.next()?.split_inclusive('\0');
        let program = rest.next()?.trim_end_matches('\0').into();
        let whole = rest.filter_map(|word| word.strip_suffix('\0')?.split_once('='));
        let params = whole.map(|(name, value)| (name.into(), value.into())).collect();
        Some(JobFacts { mpirun, id, transport, ranks, hosts, is_here, cr, supervision, program, params })
    }
}

/// Asks the `mpirun` with this process number which job it runs. It may also be the number of the process that looks after that
/// `mpirun`: one that makes checkpoints, or `oxmpi restart`.
///
/// # Errors
/// See [`InquiryError`]; also if the job cannot be imaged now.
pub fn job_of(pid: u32) -> Result<JobFacts, InquiryError> {
    let (pid, name) = launcher_of(pid)?;
    match ask(&name, pid, &Request::Describe, PATIENCE)? {
        Reply::Done { text, .. } => JobFacts::decode(&text).ok_or(InquiryError::Nonsense(pid)),
        Reply::Refused { reason, .. } => Err(InquiryError::Refused(reason)),
        _ => Err(InquiryError::Nonsense(pid)),
    }
}

/// Has the messages of the job of this `mpirun` stand still, and its connections be made anew; waits for that so long. Returns what
/// there is to say about it.
///
/// # Errors
/// See [`InquiryError`]; also if the job cannot do it, or processes have not come to rest in that time.
pub fn quiesce(pid: u32, limit: Duration) -> Result<String, InquiryError> {
    let (pid, name) = launcher_of(pid)?;
    let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    match ask(&name, pid, &Request::Quiesce { limit_ms }, limit.saturating_add(PATIENCE))? {
        Reply::Done { text, .. } => Ok(text),
        Reply::Refused { reason, .. } => Err(InquiryError::Refused(reason)),
        _ => Err(InquiryError::Nonsense(pid)),
    }
}

/// A job whose processes stand still, as long as this lives.
#[derive(Debug)]
pub struct Hold {
    pid: u32,
    socket: OwnedFd,
    held: Held,
    bytes: Vec<u8>,
    /// Why the images are worth nothing.
    refusal: OnceLock<String>,
}

/// Has all processes of the job of this `mpirun` stand still, so that an image of each rank can be made. Programs that this process
/// starts meanwhile inherit the connection with `mpirun`: the ranks go on when it and all CRIUs that it has started have ended,
/// however that comes.
///
/// # Errors
/// See [`InquiryError`]; also if the job cannot be imaged so, or not now.
pub fn hold(pid: u32) -> Result<Hold, InquiryError> {
    let (pid, name) = launcher_of(pid)?;
    let socket = connect(&name, pid)?;
    match question(&socket, pid, &Request::Hold, HOLDING)? {
        (Reply::Given, Some(fd)) => {
            let bytes = blob::read(fd).map_err(|error| InquiryError::Unreachable(pid, error))?;
            let held = Held::decode(&bytes).ok_or(InquiryError::Nonsense(pid))?;
            let inherited = fcntl_setfd(&socket, FdFlags::empty());
            inherited.map_err(|error| InquiryError::Unreachable(pid, error.into()))?;
            Ok(Hold { pid, socket, held, bytes, refusal: OnceLock::new() })
        }
        (Reply::Refused { reason, .. }, _) => Err(InquiryError::Refused(reason)),
        _ => Err(InquiryError::Nonsense(pid)),
    }
}

impl Hold {
    /// What is to be imaged.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// The same, as the launcher has written it and the one that brings the job back reads it ([`Held::decode`]).
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the images may still be of use.
    ///
    /// # Errors
    /// Why not; then no further image is begun.
    pub fn goes_on(&self) -> Result<(), String> {
        if let Some(refusal) = self.refusal.get() {
            return Err(refusal.clone());
        }
        let mut bytes = [0; MAX_MESSAGE];
        // Whatever else has come is read by whoever waits for it.
        match recv(&self.socket, &mut bytes, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(InquiryError::Ended(self.pid).to_string()),
            Ok((read, _)) => match Reply::decode(&bytes[..read]) {
                Ok(Reply::Refused { reason, .. }) => Err(reason),
                _ => Ok(()),
            },
            Err(_) => Ok(()),
        }
    }

    /// Has the processes on other hosts imaged there, at a place that their agents' program understands. Returns what that says of it, by
    /// host. Waits as long as it takes.
    ///
    /// # Errors
    /// See [`InquiryError`].
    pub fn image_far(&self, place: String) -> Result<Vec<(String, Vec<u8>)>, InquiryError> {
        match question(&self.socket, self.pid, &Request::ImageFar { place }, IMAGING)? {
            (Reply::Given, Some(fd)) => {
                let bytes = blob::read(fd).map_err(|error| InquiryError::Unreachable(self.pid, error))?;
                let mut from = Reader::new(&bytes);
                from.list(|from| from.text().zip(from.bytes())).ok_or(InquiryError::Nonsense(self.pid))
            }
            (Reply::Refused { reason, .. }, _) => {
                let reason = self.refusal.get_or_init(|| reason);
                Err(InquiryError::Refused(reason.clone()))
            }
            _ => Err(InquiryError::Nonsense(self.pid)),
        }
    }

    /// All images are there: the processes go on, unless the job `ends`.
    ///
    /// # Errors
    /// See [`InquiryError`]; [`InquiryError::Refused`] if they have not stood still all the time, and the images are worth nothing.
    pub fn imaged(&self, ends: bool) -> Result<(), InquiryError> {
        self.say(&Request::Imaged { ends })
    }

    /// Ends the job: `set` has its images.
    ///
    /// # Errors
    /// See [`InquiryError`]; then the job goes on.
    pub fn end(self, set: &Path) -> Result<(), InquiryError> {
        self.say(&Request::EndHeld { set: set.display().to_string() })
    }

    fn say(&self, request: &Request) -> Result<(), InquiryError> {
        match question(&self.socket, self.pid, request, PATIENCE)? {
            (Reply::Done { .. }, _) => Ok(()),
            (Reply::Refused { reason, .. }, _) => Err(InquiryError::Refused(reason)),
            _ => Err(InquiryError::Nonsense(self.pid)),
        }
    }
}

/// A job whose program has saved its state by functions of its own.
#[derive(Debug)]
pub struct Saved {
    pid: u32,
    socket: OwnedFd,
    layout: Layout,
}

/// Has the program of the job of this `mpirun` save its state, by its functions for checkpoints; waits as long as that takes.
///
/// # Errors
/// See [`InquiryError`]; also if the job has no such functions, or one has not returned 0.
pub fn save(pid: u32) -> Result<Saved, InquiryError> {
    let (pid, name) = launcher_of(pid)?;
    let socket = connect(&name, pid)?;
    match question(&socket, pid, &Request::CallFunctions { saves: true }, IMAGING)? {
        (Reply::Given, Some(fd)) => {
            let bytes = blob::read(fd).map_err(|error| InquiryError::Unreachable(pid, error))?;
            let layout = Layout::decode(&bytes).ok_or(InquiryError::Nonsense(pid))?;
            Ok(Saved { pid, socket, layout })
        }
        (Reply::Refused { reason, .. }, _) => Err(InquiryError::Refused(reason)),
        _ => Err(InquiryError::Nonsense(pid)),
    }
}

impl Saved {
    /// The programs of the job, and the hosts of its ranks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its set is on disk: the functions are called that let the program go on.
    ///
    /// # Errors
    /// See [`InquiryError`]; also if one has not returned 0.
    pub fn go_on(self) -> Result<(), InquiryError> {
        self.say(&Request::CallFunctions { saves: false }, IMAGING)
    }

    /// Its set is on disk: the job ends.
    ///
    /// # Errors
    /// See [`InquiryError`]; then the job goes on.
    pub fn end(self, set: &Path) -> Result<(), InquiryError> {
        self.say(&Request::EndHeld { set: set.display().to_string() }, PATIENCE)
    }

    fn say(&self, request: &Request, patience: Duration) -> Result<(), InquiryError> {
        match question(&self.socket, self.pid, request, patience)? {
            (Reply::Done { .. }, _) => Ok(()),
            (Reply::Refused { reason, .. }, _) => Err(InquiryError::Refused(reason)),
            _ => Err(InquiryError::Nonsense(self.pid)),
        }
    }
}

/// The launcher that is meant by a process number, and where it listens.
fn launcher_of(pid: u32) -> Result<(u32, String), InquiryError> {
    let checked = check_mpirun(pid);
    if checked.is_ok()
        && let Some(found) = entrance_of(pid).map_err(|error| InquiryError::Process(pid, error))?
    {
        return Ok((pid, found));
    }
    let is_ours = checked.is_ok() || is_of_this_installation(pid).unwrap_or(false);
    match (is_ours.then(|| launcher_below(pid)).flatten(), checked) {
        (Some(found), _) => Ok(found),
        (None, Ok(())) => Err(InquiryError::NotListening(pid)),
        // It has not come to start its mpirun yet, or that has ended.
        (None, Err(_)) if is_ours && has_name(pid, &RESTARTS) => Err(InquiryError::NotListening(pid)),
        (None, Err(error)) => Err(error),
    }
}

/// The launcher that a process looks after: a child of it, or of a child that is no launcher but of this installation too, as where
/// `oxmpi restart` has needed a session of its own.
fn launcher_below(pid: u32) -> Option<(u32, String)> {
    children_of(pid).into_iter().find_map(|child| match check_mpirun(child) {
        Ok(()) => entrance_of(child).ok().flatten().map(|name| (child, name)),
        Err(_) if is_of_this_installation(child).unwrap_or(false) => launcher_below(child),
        Err(_) => None,
    })
}

/// Whether a process is an `mpirun` of this installation.
fn check_mpirun(pid: u32) -> Result<(), InquiryError> {
    let is_ours = is_of_this_installation(pid).map_err(|error| InquiryError::Process(pid, error))?;
    if is_ours && has_name(pid, &LAUNCHERS) {
        return Ok(());
    }
    let is_launcher =
        |parent: &u32| is_of_this_installation(*parent).unwrap_or(false) && has_name(*parent, &LAUNCHERS);
    let parent = parent_of(pid).filter(is_launcher);
    let program = program_of(pid).map_err(|error| InquiryError::Process(pid, error))?;
    Err(InquiryError::NotMpirun { pid, program: program.display().to_string(), parent })
}

pub(crate) fn program_of(pid: u32) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe"))
}

/// Whether a process runs the same program as this one.
fn is_of_this_installation(pid: u32) -> io::Result<bool> {
    Ok(program_of(pid)? == std::fs::read_link("/proc/self/exe")?)
}

/// How the program is called that runs jobs.
pub(crate) const LAUNCHERS: [&str; 2] = ["mpirun", "mpiexec"];
/// How it is called where it brings a job back.
pub(crate) const RESTARTS: [&str; 3] = ["restart", "lamrestart", "cr_restart"];

/// Whether the command line of a process has one of these names.
fn has_name(pid: u32, names: &[&str]) -> bool {
    is_named(&command_of(pid), names)
}

/// The command line of a process, its words ended by zeros; empty, if it cannot be read.
pub(crate) fn command_of(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// Whether a command line, its words ended by zeros, has one of these names: by its program, or behind that (`oxmpi mpirun`).
pub(crate) fn is_named(command: &[u8], names: &[&str]) -> bool {
    let mut words = command.split(|byte| *byte == 0);
    let mut is = || {
        let word = words.next().map(|word| Path::new(std::ffi::OsStr::from_bytes(word)));
        word.and_then(Path::file_name).is_some_and(|name| names.iter().any(|known| name == *known))
    };
    is() || is()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The processes that a process has started, and that are still there.
fn children_of(pid: u32) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| parent_of(*number) == Some(pid)).collect()
}

/// Under which name a launcher listens: one of its descriptors is the socket with that name.
fn entrance_of(pid: u32) -> io::Result<Option<String>> {
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let Ok(link) = std::fs::read_link(entry?.path()) else { continue };
        let link = link.to_string_lossy().into_owned();
        sockets
            .extend(link.strip_prefix("socket:[").and_then(|link| link.strip_suffix(']')).map(String::from));
    }
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/unix"))?;
    Ok(entrance_in(&table, &sockets))
}

/// The name of an entrance among these sockets (proc_net(5): the number is the seventh word, the name the last).
fn entrance_in(table: &str, sockets: &[String]) -> Option<String> {
    table.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(6);
        let (number, name) = (words.next()?, words.next()?);
        let name = name.strip_prefix('@').filter(|name| name.starts_with(ENTRANCE_PREFIX))?;
        sockets.iter().any(|socket| socket == number).then(|| name.to_string())
    })
}

/// Asks the process that listens under a name.
fn ask(name: &str, pid: u32, request: &Request, patience: Duration) -> Result<Reply, InquiryError> {
    question(&connect(name, pid)?, pid, request, patience).map(|(reply, _)| reply)
}

/// Connects to the process that listens under a name.
fn connect(name: &str, pid: u32) -> Result<OwnedFd, InquiryError> {
    let network = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let unreachable = |error: io::Error| {
        if error.kind() == io::ErrorKind::ConnectionRefused && network("self") != network(&pid.to_string()) {
            return InquiryError::Elsewhere(pid);
        }
        InquiryError::Unreachable(pid, error)
    };
    let socket = local::connect(name).map_err(unreachable)?;
    if local::peer(&socket).map_err(unreachable)?.pid.cast_unsigned() != pid {
        return Err(unreachable(io::Error::other("somebody else listens under its name")));
    }
    Ok(socket)
}

/// Sends a request over a connection, and waits for the reply, perhaps with a descriptor.
fn question(
    socket: &OwnedFd,
    pid: u32,
    request: &Request,
    patience: Duration,
) -> Result<(Reply, Option<OwnedFd>), InquiryError> {
    let unreachable = |error: io::Error| InquiryError::Unreachable(pid, error);
    fdpass::send(socket, &request.encode(), None).map_err(unreachable)?;
    let (tv_sec, tv_nsec) = (patience.as_secs() as i64, i64::from(patience.subsec_nanos()));
    let patience = Timespec { tv_sec, tv_nsec };
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let ready = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&patience)));
    if ready.map_err(|error| unreachable(error.into()))? == 0 {
        return Err(InquiryError::Silent(pid));
    }
    let mut bytes = [0; MAX_MESSAGE];
    match fdpass::receive(socket, &mut bytes) {
        Ok((0, _)) => Err(InquiryError::Ended(pid)),
        Ok((n, fd)) => {
            let reply = Reply::decode(&bytes[..n]).map_err(|_| InquiryError::Nonsense(pid))?;
            Ok((reply, fd))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(InquiryError::Ended(pid)),
        Err(error) => Err(unreachable(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back_as_they_were() {
        let supervised = |every_ms: Option<u64>, on_term| Supervision {
            every: every_ms.map(Duration::from_millis),
            on_term,
        };
        for supervision in [None, Some(supervised(None, true)), Some(supervised(Some(1500), false))] {
            let (transport, program) = ("shm".into(), "/home/a b/heat".into());
            let cr = supervision.map(|_| "blcr".to_string());
            let (mpirun, id, ranks, hosts, is_here) = (7, 0xabc, 4, 2, cr.is_some());
            let params = vec![("cr_base_dir".to_string(), "/a = b".into()), ("cr_keep".into(), "0".into())];
            let mut facts =
                JobFacts { mpirun, id, transport, ranks, hosts, is_here, cr, supervision, program, params };
            let text = facts.encode();
            assert_eq!(JobFacts::decode(&text).as_ref(), Some(&facts));
            facts.params.pop();
            assert_eq!(
                JobFacts::decode(&text[..text.len() - 1]),
                Some(facts),
                "what has no end does not count"
            );
        }
        for text in
            ["", "7 x 4 1/1 shm - - /p", "7 1 4 1/1 shm - -", "7 1 4 1/1 shm - 5 /p", "7 1 4 1 shm - - /p"]
        {
            assert_eq!(JobFacts::decode(text), None, "{text}");
        }
    }

    #[test]
    fn launchers_are_known_by_their_names() {
        for (command, is) in [
            ("/opt/bin/mpirun\0-n\x004\0", true),
            ("mpiexec\0", true),
            ("oxmpi\0mpirun\0-n\x004\0", true),
            ("oxmpi\0agent\0", false),
            ("./heat\0", false),
            ("", false),
        ] {
            assert_eq!(is_named(command.as_bytes(), &LAUNCHERS), is, "{command}");
        }
    }

    #[test]
    fn the_entrance_is_found_among_the_sockets() {
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
                     0000000000000000: 00000002 00000000 00010000 0005 01 77 @oxmpi.rank.00ff\n\
                     0000000000000000: 00000002 00000000 00010000 0005 01 78 @oxmpi.1000.3\n\
                     0000000000000000: 00000003 00000000 00000000 0001 03 79\n";
        let sockets = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(entrance_in(table, &sockets(&["79", "77"])), Some("oxmpi.rank.00ff".into()));
        assert_eq!(entrance_in(table, &sockets(&["78", "79"])), None);
    }

    #[test]
    fn who_is_no_mpirun_is_told() {
        let text = job_of(std::process::id()).unwrap_err().to_string();
        assert!(text.contains("not mpirun of this installation"), "{text}");
        let text = job_of(u32::MAX >> 1).unwrap_err().to_string();
        assert!(text.contains("No such file or directory"), "{text}");
    }
}
