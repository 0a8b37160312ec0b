//! What a tool asks a running `mpirun`, which it knows by its process number.
//!
//! A launcher listens at its entrance, an abstract socket that processes find by their environment. A tool finds it by the number of
//! that socket among the launcher's descriptors, in /proc.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oxmpi_sys::{fdpass, local};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::{MAX_MESSAGE, Reply, Request};

/// How the names of entrances begin.
pub(crate) const ENTRANCE_PREFIX: &str = "oxmpi.rank.";
/// How long an answer may take: a launcher is stopped, or its output is not read.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// Names it; it stays the same when the job is restarted from an image.
    pub id: u64,
    /// The transport of its messages.
    pub transport: String,
    /// How many processes it has, spawned ones among them.
    pub ranks: u32,
    /// The program of its first rank.
    pub program: PathBuf,
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
    /// Its job is on several hosts.
    #[error(
        "process {0} runs a job on several hosts: an image of the whole tree of processes is for jobs on one host alone"
    )]
    SeveralHosts(u32),
    /// It does not answer.
    #[error(
        "mpirun (process {0}) does not answer: is it stopped (kill -CONT {0}), or does nobody read its output?"
    )]
    Silent(u32),
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
    /// As [`JobFacts::decode`] reads it. The path is last: if a message had no room for it, only its end would be lost.
    pub(crate) fn encode(&self) -> String {
        let JobFacts { id, transport, ranks, program } = self;
        format!("{id:016x} {ranks} {transport} {}", program.display())
    }

    fn decode(text: &str) -> Option<JobFacts> {
        let mut words = text.splitn(4, ' ');
        let id = u64::from_str_radix(words.next()?, 16).ok()?;
        let ranks = words.next()?.parse().ok()?;
        Some(JobFacts { id, ranks, transport: words.next()?.into(), program: words.next()?.into() })
    }
}

/// Asks the `mpirun` with this process number which job it runs.
///
/// # Errors
/// See [`InquiryError`]; also if the job cannot be imaged now.
pub fn job_of(pid: u32) -> Result<JobFacts, InquiryError> {
    check_mpirun(pid)?;
    let name = entrance_of(pid).map_err(|error| InquiryError::Process(pid, error))?;
    let name = name.ok_or(InquiryError::SeveralHosts(pid))?;
    match ask(&name, pid) {
        Ok(Some(Reply::Done { text, .. })) => JobFacts::decode(&text).ok_or(InquiryError::Nonsense(pid)),
        Ok(Some(Reply::Refused { reason, .. })) => Err(InquiryError::Refused(reason)),
        Ok(Some(_)) => Err(InquiryError::Nonsense(pid)),
        Ok(None) => Err(InquiryError::Silent(pid)),
        Err(error) => Err(InquiryError::Unreachable(pid, error)),
    }
}

/// Whether a process is an `mpirun` of this installation.
fn check_mpirun(pid: u32) -> Result<(), InquiryError> {
    let of = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe"));
    let is_mpirun = |pid: u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|command| is_named_mpirun(&command))
    };
    let theirs = of(pid).map_err(|error| InquiryError::Process(pid, error))?;
    let own = std::fs::read_link("/proc/self/exe").map_err(|error| InquiryError::Process(pid, error))?;
    if theirs == own && is_mpirun(pid) {
        return Ok(());
    }
    let parent =
        parent_of(pid).filter(|parent| of(*parent).is_ok_and(|exe| exe == own) && is_mpirun(*parent));
    Err(InquiryError::NotMpirun { pid, program: theirs.display().to_string(), parent })
}

/// Whether a command line, its words ended by zeros, is one of `mpirun`: by its name, or as `oxmpi mpirun`.
fn is_named_mpirun(command: &[u8]) -> bool {
    let mut words = command.split(|byte| *byte == 0);
    let mut is = || {
        let word = words.next().map(|word| Path::new(std::ffi::OsStr::from_bytes(word)));
        word.and_then(Path::file_name).is_some_and(|name| name == "mpirun" || name == "mpiexec")
    };
    is() || is()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
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

/// Asks under a name; `None` if no answer comes.
fn ask(name: &str, pid: u32) -> io::Result<Option<Reply>> {
    let socket = local::connect(name)?;
    if local::peer(&socket)?.pid.cast_unsigned() != pid {
        return Err(io::Error::other("somebody else listens under its name"));
    }
    fdpass::send(&socket, &Request::Describe.encode(), None)?;
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    if rustix::io::retry_on_intr(|| poll(&mut fds, Some(&patience)))? == 0 {
        return Ok(None);
    }
    let mut bytes = [0; MAX_MESSAGE];
    let (n, _) = fdpass::receive(&socket, &mut bytes)?;
    Reply::decode(&bytes[..n]).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back_as_they_were() {
        let facts =
            JobFacts { id: 0xabc, transport: "shm".into(), ranks: 4, program: "/home/a b/heat".into() };
        assert_eq!(JobFacts::decode(&facts.encode()), Some(facts));
        assert_eq!(
            (JobFacts::decode(""), JobFacts::decode("x 4 shm /p"), JobFacts::decode("1 4 shm")),
            (None, None, None)
        );
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
            assert_eq!(is_named_mpirun(command.as_bytes()), is, "{command}");
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
