//! A process's requests to its launcher about other jobs: spawning, ports, names.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde::de::DeserializeOwned;

use super::{Client, DirectoryError};
use crate::blob;
use crate::codec;
use crate::control::{Reply, Request};
use crate::universe::{Parent, ProcessName, Spawn};

/// Why the launcher did not carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum UniverseError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("cannot exchange a description with mpirun: {0}")]
    Blob(#[from] io::Error),
    #[error("this process was started without mpirun, and starting one for it failed: {0}")]
    NoLauncher(String),
}

/// The result of accepting or connecting at a port.
#[derive(Debug, PartialEq, Eq)]
pub enum Meeting {
    /// No process of the other kind waits: the one that comes later sends a message.
    Waits { ticket: u32 },
    /// A process waits, which has left these words and needs a message.
    Met { words: Vec<u64> },
}

type Answer<T> = Result<T, UniverseError>;

impl Client {
    /// Spawns processes; returns the number of the first, and their count. Nothing on an error.
    pub fn spawn(&self, spawn: &Spawn) -> Answer<(u32, u32)> {
        self.need_launcher()?;
        let (first, size) = self.done(&Request::Spawn, Some(&codec::encode(spawn)))?;
        match size.parse() {
            Ok(size) => Ok((first, size)),
            Err(_) => Err(UniverseError::Refused(format!(
                "mpirun says it has spawned '{size}' processes"
            ))),
        }
    }

    /// The parent of this process's job; `None` if the job was not spawned.
    pub fn parent(&self) -> Answer<Option<Parent>> {
        if self.segment.boot().base == 0 {
            return Ok(None);
        }
        let parent: Parent = self.given(&Request::Parent, None, "parent")?;
        if parent.is_mixed {
            self.reach()?;
        }
        Ok(Some(parent))
    }

    /// Makes this process reachable for processes of other launchers.
    pub fn reach(&self) -> Answer<()> {
        if self.place.get().is_none() {
            self.need_launcher()?;
            let (place, _) = self.done(&Request::Reach, None)?;
            // Another thread can only have set the same number.
            let _ = self.place.set(place);
        }
        Ok(())
    }

    /// The launcher's number among the user's launchers on this machine; 0 if this process does not
    /// communicate with other launchers.
    pub fn place(&self) -> u32 {
        self.place.get().copied().unwrap_or(0)
    }

    /// The names of processes, valid under every launcher.
    pub fn names(&self, numbers: &[u32]) -> Answer<Vec<ProcessName>> {
        let (boot, place) = (self.segment.boot(), self.place());
        let (first, size) = (boot.base, boot.size);
        let is_own = |number: &u32| number.checked_sub(first).is_some_and(|rank| rank < size);
        if place == 0 || numbers.iter().all(is_own) {
            // While this process has no peer of another launcher, no other launcher sees this name.
            let name = |number: &u32| ProcessName {
                universe: boot.job_id,
                place,
                number: *number,
                first,
                size,
            };
            return Ok(numbers.iter().map(name).collect());
        }
        let names: Vec<ProcessName> =
            self.given(&Request::Names, Some(&codec::encode(&numbers)), "names")?;
        if names.len() == numbers.len() { Ok(names) } else { Err(lost("names")) }
    }

    /// The numbers in this launcher of the processes with these names.
    pub fn numbers(&self, names: &[ProcessName]) -> Answer<Vec<u32>> {
        let universe = self.segment.boot().job_id;
        if names.iter().all(|name| name.universe == universe) {
            return Ok(names.iter().map(|name| name.number).collect());
        }
        self.reach()?;
        let numbers: Vec<u32> =
            self.given(&Request::Numbers, Some(&codec::encode(&names)), "numbers")?;
        if numbers.len() == names.len() { Ok(numbers) } else { Err(lost("numbers")) }
    }

    /// The secret by which processes of another launcher authenticate over sockets.
    pub fn secret_for(&self, universe: u64) -> Answer<[u8; 32]> {
        match self.ask(self.number(), &Request::Secret { universe })? {
            (Reply::Secret { secret }, _) => Ok(secret),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Reports a communicator that this process shares with `members`, some of them of other jobs.
    pub fn bound(&self, bond: u64, members: &[u32]) {
        // Otherwise the launcher ends one job without the other, as if they were not connected.
        if let Ok(fd) = blob::write(&codec::encode(&members)) {
            self.report_with(&Request::Bound { bond }, Some(&fd));
        }
    }

    /// Reports that this process has freed the communicator.
    pub fn released(&self, bond: u64) {
        self.report_with(&Request::Released { bond }, None);
    }

    /// Whether all members of a communicator have freed it, or have ended.
    pub fn is_over(&self, bond: u64) -> bool {
        // Without a launcher no further report can come.
        self.done(&Request::Bond { bond }, None).map_or(true, |(is_over, _)| is_over == 1)
    }

    /// Opens a port and returns its name.
    pub fn open_port(&self) -> Answer<String> {
        self.reach()?;
        self.done(&Request::OpenPort, None).map(|(_, name)| name)
    }

    /// Closes a port.
    pub fn close_port(&self, port: &str) -> Answer<()> {
        self.need_launcher()?;
        self.done(&Request::ClosePort { port: port.into() }, None).map(drop)
    }

    /// Accepts or connects at a port, with words for the other process.
    pub fn meet(&self, accepts: bool, port: &str, words: &[u64]) -> Answer<Meeting> {
        self.reach()?;
        let request = Request::Meet { accepts, port: port.into() };
        let words = blob::write(&codec::encode(&words))?;
        match self.ask_with(self.number(), &request, Some(words.as_fd()))? {
            (Reply::Done { number, .. }, _) => Ok(Meeting::Waits { ticket: number }),
            (Reply::Given, Some(fd)) => {
                let words = codec::decode(&blob::read(fd)?).ok_or_else(|| lost("words"))?;
                Ok(Meeting::Met { words })
            }
            (Reply::Refused { reason, .. }, _) if !reason.contains(port) => Err(
                UniverseError::Refused(format!("the port '{port}' cannot be reached: {reason}")),
            ),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Whether a ticket of a port still waits. If not, the process that it has met sends a message.
    /// An error if nobody can meet the ticket any more.
    pub fn waits(&self, ticket: u32, port: &str) -> Answer<bool> {
        self.done(&Request::Ticket { ticket, port: port.into() }, None).map(|(met, _)| met == 0)
    }

    /// As [`Client::waits`]; a waiting ticket is given back and meets nobody.
    pub fn give_back(&self, ticket: u32, port: &str) -> Answer<bool> {
        self.done(&Request::GiveBack { ticket, port: port.into() }, None).map(|(met, _)| met == 0)
    }

    /// Publishes a port under a name: for this launcher's processes, or `everywhere`, for processes
    /// of all of the user's launchers on this machine.
    pub fn publish(&self, service: &str, port: &str, everywhere: bool) -> Answer<()> {
        self.need_launcher()?;
        let request = Request::Publish { service: service.into(), port: port.into(), everywhere };
        self.done(&request, None).map(drop)
    }

    /// Takes a published name back.
    pub fn unpublish(&self, service: &str, port: &str) -> Answer<()> {
        self.need_launcher()?;
        let request = Request::Unpublish { service: service.into(), port: port.into() };
        self.done(&request, None).map(drop)
    }

    /// The port that is published under a name.
    pub fn look_up(&self, service: &str) -> Answer<String> {
        self.need_launcher()?;
        self.done(&Request::LookUp { service: service.into() }, None).map(|(_, port)| port)
    }

    fn number(&self) -> u32 {
        self.segment.boot().rank
    }

    fn done(&self, request: &Request, bytes: Option<&[u8]>) -> Answer<(u32, String)> {
        let fd = bytes.map(blob::write).transpose()?;
        match self.ask_with(self.number(), request, fd.as_ref().map(AsFd::as_fd))? {
            (Reply::Done { number, text }, _) => Ok((number, text)),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// The answer in the file of a [`Reply::Given`]; `contents` names it in an error.
    pub(super) fn given<T: DeserializeOwned>(
        &self,
        request: &Request,
        bytes: Option<&[u8]>,
        contents: &str,
    ) -> Answer<T> {
        let fd = bytes.map(blob::write).transpose()?;
        match self.ask_with(self.number(), request, fd.as_ref().map(AsFd::as_fd))? {
            (Reply::Given, Some(fd)) => {
                codec::decode(&blob::read(fd)?).ok_or_else(|| lost(contents))
            }
            (other, _) => Err(unexpected(other)),
        }
    }

    fn report_with(&self, request: &Request, fd: Option<&OwnedFd>) {
        let _ = self.send(request, fd.map(AsFd::as_fd));
    }
}

fn lost(contents: &str) -> UniverseError {
    UniverseError::Refused(format!("mpirun's answer does not have the requested {contents}"))
}

fn unexpected(reply: Reply) -> UniverseError {
    match reply {
        Reply::Refused { reason, .. } => UniverseError::Refused(reason),
        other => UniverseError::Refused(format!("mpirun answered {other:?}")),
    }
}
