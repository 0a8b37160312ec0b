//! A tool's requests to a running `mpirun`, which the tool knows by its process number.
//!
//! A launcher listens at its entrance, an abstract socket whose name ranks have in their
//! environment. A tool finds that name in /proc, by the numbers of the sockets among the launcher's
//! descriptors.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use oxmpi_sys::{fdpass, local};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{RecvFlags, recv};
use serde::de::DeserializeOwned;

use crate::polling::timespec;
use oxmpi_rt_client::blob;
use oxmpi_rt_client::codec;
use oxmpi_rt_client::control::MAX_MESSAGE;
use oxmpi_rt_client::programs::{LAUNCHERS, RESTARTS, command_of, is_named, program_of};
use oxmpi_rt_proto::held::{Held, Layout};
use oxmpi_rt_proto::tool::{FarImages, ImagePlace, JobFacts, ToolReply, ToolRequest};

pub(crate) const ENTRANCE_PREFIX: &str = "oxmpi.rank.";
/// The limit for an answer: a launcher may be stopped, or blocked by its output.
const PATIENCE: Duration = Duration::from_secs(5);
/// The limit for holding all processes of a job.
const HOLDING: Duration = Duration::from_secs(90);

/// The limit for images on other hosts, whose time depends on the memory of the ranks.
const IMAGING: Duration = Duration::from_secs(24 * 3600);

/// Why a request to a job failed.
#[derive(Debug, thiserror::Error)]
pub enum InquiryError {
    #[error("process {0}: {1}")]
    Process(u32, io::Error),
    #[error("process {pid} is {program}, not mpirun of this installation{}", parent.map(|pid| format!("; its mpirun is process {pid}")).unwrap_or_default())]
    NotMpirun {
        pid: u32,
        program: String,
        /// The parent process, if that is an `mpirun`.
        parent: Option<u32>,
    },
    #[error("mpirun (process {0}) is only starting its job, or ending it: try again")]
    NotListening(u32),
    #[error("mpirun (process {0}) has ended")]
    Ended(u32),
    #[error(
        "mpirun (process {0}) does not answer: is it stopped (kill -CONT {0}), or does nobody read its output?"
    )]
    Silent(u32),
    #[error(
        "mpirun (process {0}) is in another network namespace, which this command cannot reach: nsenter --net=/proc/{0}/ns/net \
         oxmpi ..."
    )]
    Elsewhere(u32),
    #[error("mpirun (process {0}) cannot be reached: {1}")]
    Unreachable(u32, io::Error),
    #[error("{0}")]
    Refused(String),
    #[error("mpirun (process {0}) has sent a malformed answer: is it of another version?")]
    Nonsense(u32),
}

/// Queries the job of the `mpirun` with this process number. `pid` may also be that of its
/// supervisor, a process that makes checkpoints, or of `oxmpi restart`. An error also if the job
/// cannot be imaged now.
pub fn job_of(pid: u32) -> Result<JobFacts, InquiryError> {
    ToolConnection::with(pid)?.decoded(&ToolRequest::Describe, PATIENCE)
}

/// Quiesces the messages of the job of this `mpirun` and makes their connections anew, within
/// `limit`. Returns a line for the user. An error also if the job does not support it, or processes
/// have not come to rest in that time.
pub fn quiesce(pid: u32, limit: Duration) -> Result<String, InquiryError> {
    let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    let request = ToolRequest::Quiesce { limit_ms };
    ToolConnection::with(pid)?.done(&request, limit.saturating_add(PATIENCE))
}

/// A job whose processes are held as long as this value lives.
#[derive(Debug)]
pub struct Hold {
    mpirun: ToolConnection,
    held: Held,
    bytes: Vec<u8>,
    refusal: OnceLock<String>,
}

/// Holds all processes of the job of this `mpirun`, so that an image of each rank can be made.
/// Programs that this process starts meanwhile inherit the connection with `mpirun`: the ranks
/// continue when this process and all CRIUs that it has started have ended, for any reason. An
/// error also if the job cannot be held, or not now.
pub fn hold(pid: u32) -> Result<Hold, InquiryError> {
    let mpirun = ToolConnection::with(pid)?;
    let bytes = mpirun.given(&ToolRequest::Hold, HOLDING)?;
    let held = Held::decode(&bytes).ok_or(InquiryError::Nonsense(mpirun.pid))?;
    let inherited = fcntl_setfd(&mpirun.socket, FdFlags::empty());
    inherited.map_err(|error| InquiryError::Unreachable(mpirun.pid, error.into()))?;
    Ok(Hold { mpirun, held, bytes, refusal: OnceLock::new() })
}

impl Hold {
    /// The processes to image.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// The encoded [`Held`], which a restart reads ([`Held::decode`]).
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the images are still valid; otherwise the reason, and no further image should begin.
    pub fn goes_on(&self) -> Result<(), String> {
        if let Some(refusal) = self.refusal.get() {
            return Err(refusal.clone());
        }
        let mut bytes = [0; MAX_MESSAGE];
        // Peeks, as answers are read by the function that has sent the request.
        match recv(&self.mpirun.socket, &mut bytes, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(InquiryError::Ended(self.mpirun.pid).to_string()),
            Ok((read, _)) => match ToolReply::decode(&bytes[..read]) {
                Some(ToolReply::Refused { reason }) => Err(reason),
                _ => Ok(()),
            },
            Err(_) => Ok(()),
        }
    }

    /// Images the processes on other hosts there, in a directory in the form that their agents'
    /// program reads. Returns the agents' results by host. Has no practical time limit.
    pub fn image_far(&self, place: ImagePlace) -> Result<FarImages, InquiryError> {
        match self.mpirun.decoded(&ToolRequest::ImageFar { place }, IMAGING) {
            Err(InquiryError::Refused(reason)) => {
                let reason = self.refusal.get_or_init(|| reason);
                Err(InquiryError::Refused(reason.clone()))
            }
            images => images,
        }
    }

    /// Reports that all images are complete: the processes continue, unless the job `ends`.
    /// [`InquiryError::Refused`]: the processes were not held throughout, and the images are
    /// invalid.
    pub fn imaged(&self, ends: bool) -> Result<(), InquiryError> {
        self.mpirun.done(&ToolRequest::Imaged { ends }, PATIENCE).map(drop)
    }

    /// Ends the job, whose checkpoint is in `set`. After an error the job continues.
    pub fn end(self, set: &Path) -> Result<(), InquiryError> {
        self.mpirun.end(set)
    }
}

/// A job whose program has saved its state by functions of its own.
#[derive(Debug)]
pub struct Saved {
    mpirun: ToolConnection,
    layout: Layout,
}

/// Calls the checkpoint functions of the program of this `mpirun`'s job that save its state, and
/// waits for them. An error also if the job has no such functions, or one has not returned 0.
pub fn save(pid: u32) -> Result<Saved, InquiryError> {
    let mpirun = ToolConnection::with(pid)?;
    let layout = mpirun.decoded(&ToolRequest::CallFunctions { saves: true }, IMAGING)?;
    Ok(Saved { mpirun, layout })
}

impl Saved {
    /// The programs of the job, and the hosts of its ranks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Calls the functions that continue the program, as its checkpoint is on disk. An error also
    /// if one has not returned 0.
    pub fn go_on(self) -> Result<(), InquiryError> {
        self.mpirun.done(&ToolRequest::CallFunctions { saves: false }, IMAGING).map(drop)
    }

    /// Ends the job, as its checkpoint is on disk. After an error the job continues.
    pub fn end(self, set: &Path) -> Result<(), InquiryError> {
        self.mpirun.end(set)
    }
}

/// The launcher for a process number, and the name of its entrance.
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
        // The restart has not started its mpirun yet, or that mpirun has ended.
        (None, Err(_)) if is_ours && has_name(pid, &RESTARTS) => {
            Err(InquiryError::NotListening(pid))
        }
        (None, Err(error)) => Err(error),
    }
}

/// The launcher of a supervisor: its child, or a child's child if the child is of this installation
/// and no launcher, as where `oxmpi restart` needs a session of its own.
fn launcher_below(pid: u32) -> Option<(u32, String)> {
    children_of(pid).into_iter().find_map(|child| match check_mpirun(child) {
        Ok(()) => entrance_of(child).ok().flatten().map(|name| (child, name)),
        Err(_) if is_of_this_installation(child).unwrap_or(false) => launcher_below(child),
        Err(_) => None,
    })
}

fn check_mpirun(pid: u32) -> Result<(), InquiryError> {
    let is_ours =
        is_of_this_installation(pid).map_err(|error| InquiryError::Process(pid, error))?;
    if is_ours && has_name(pid, &LAUNCHERS) {
        return Ok(());
    }
    let is_launcher = |parent: &u32| {
        is_of_this_installation(*parent).unwrap_or(false) && has_name(*parent, &LAUNCHERS)
    };
    let parent = parent_of(pid).filter(is_launcher);
    let program = program_of(pid).map_err(|error| InquiryError::Process(pid, error))?;
    Err(InquiryError::NotMpirun { pid, program: program.display().to_string(), parent })
}

fn is_of_this_installation(pid: u32) -> io::Result<bool> {
    Ok(program_of(pid)? == std::fs::read_link("/proc/self/exe")?)
}

fn has_name(pid: u32, names: &[&str]) -> bool {
    is_named(&command_of(pid), names)
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn children_of(pid: u32) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| parent_of(*number) == Some(pid)).collect()
}

/// The name of a launcher's entrance: that of a socket among its descriptors.
fn entrance_of(pid: u32) -> io::Result<Option<String>> {
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let Ok(link) = std::fs::read_link(entry?.path()) else { continue };
        let link = link.to_string_lossy().into_owned();
        sockets.extend(
            link.strip_prefix("socket:[").and_then(|link| link.strip_suffix(']')).map(String::from),
        );
    }
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/unix"))?;
    Ok(entrance_in(&table, &sockets))
}

/// The name of an entrance among these sockets (proc_net(5): the seventh word is the number, the
/// last the name).
fn entrance_in(table: &str, sockets: &[String]) -> Option<String> {
    table.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(6);
        let (number, name) = (words.next()?, words.next()?);
        let name = name.strip_prefix('@').filter(|name| name.starts_with(ENTRANCE_PREFIX))?;
        sockets.iter().any(|socket| socket == number).then(|| name.to_string())
    })
}

/// A connection with the launcher of a job.
#[derive(Debug)]
struct ToolConnection {
    /// The launcher's process number.
    pid: u32,
    socket: OwnedFd,
}

impl ToolConnection {
    /// Connects with the launcher for a process number.
    fn with(pid: u32) -> Result<ToolConnection, InquiryError> {
        let (pid, name) = launcher_of(pid)?;
        let network = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/net")).ok();
        let unreachable = |error: io::Error| {
            if error.kind() == io::ErrorKind::ConnectionRefused
                && network("self") != network(&pid.to_string())
            {
                return InquiryError::Elsewhere(pid);
            }
            InquiryError::Unreachable(pid, error)
        };
        let socket = local::connect(&name).map_err(unreachable)?;
        if local::peer(&socket).map_err(unreachable)?.pid.cast_unsigned() != pid {
            return Err(unreachable(io::Error::other(
                "a process of another user listens under its name",
            )));
        }
        Ok(ToolConnection { pid, socket })
    }

    /// Ends the job, whose checkpoint is in `set`.
    fn end(&self, set: &Path) -> Result<(), InquiryError> {
        let set = set.display().to_string();
        self.done(&ToolRequest::EndHeld { set }, PATIENCE).map(drop)
    }

    /// Sends a request whose answer is a text for the user.
    fn done(&self, request: &ToolRequest, patience: Duration) -> Result<String, InquiryError> {
        match self.question(request, patience)? {
            (ToolReply::Done { text }, _) => Ok(text),
            _ => Err(InquiryError::Nonsense(self.pid)),
        }
    }

    /// Sends a request whose answer comes in a file.
    fn given(&self, request: &ToolRequest, patience: Duration) -> Result<Vec<u8>, InquiryError> {
        match self.question(request, patience)? {
            (ToolReply::Given, Some(fd)) => {
                blob::read(fd).map_err(|error| InquiryError::Unreachable(self.pid, error))
            }
            _ => Err(InquiryError::Nonsense(self.pid)),
        }
    }

    fn decoded<T: DeserializeOwned>(
        &self,
        request: &ToolRequest,
        patience: Duration,
    ) -> Result<T, InquiryError> {
        codec::decode(&self.given(request, patience)?).ok_or(InquiryError::Nonsense(self.pid))
    }

    /// Sends a request, and waits for the reply, which may have a descriptor. A refusal is an
    /// error.
    fn question(
        &self,
        request: &ToolRequest,
        patience: Duration,
    ) -> Result<(ToolReply, Option<OwnedFd>), InquiryError> {
        let ToolConnection { pid, socket } = self;
        let unreachable = |error: io::Error| InquiryError::Unreachable(*pid, error);
        fdpass::send(socket, &request.encode(), None).map_err(unreachable)?;
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        let ready = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&timespec(patience))));
        if ready.map_err(|error| unreachable(error.into()))? == 0 {
            return Err(InquiryError::Silent(*pid));
        }
        let mut bytes = [0; MAX_MESSAGE];
        match fdpass::receive(socket, &mut bytes) {
            Ok((0, _)) => Err(InquiryError::Ended(*pid)),
            Ok((n, fd)) => match ToolReply::decode(&bytes[..n]) {
                Some(ToolReply::Refused { reason }) => Err(InquiryError::Refused(reason)),
                Some(reply) => Ok((reply, fd)),
                None => Err(InquiryError::Nonsense(*pid)),
            },
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                Err(InquiryError::Ended(*pid))
            }
            Err(error) => Err(unreachable(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn another_program_is_reported() {
        let text = job_of(std::process::id()).unwrap_err().to_string();
        assert!(text.contains("not mpirun of this installation"), "{text}");
        let text = job_of(u32::MAX >> 1).unwrap_err().to_string();
        assert!(text.contains("No such file or directory"), "{text}");
    }
}
