//! What a process asks its launcher to have to do with others than those of its own job: spawning, ports, names.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::{Client, DirectoryError};
use crate::blob;
use crate::control::{Reply, Request};
use crate::universe::{Parent, Spawn, decode_words, encode_words};

/// Why the launcher does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum UniverseError {
    /// It says no.
    #[error("{0}")]
    Refused(String),
    /// It could not be asked, or not be understood.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// This process could not hand over what it wants, or read what it was given.
    #[error("cannot exchange a description with mpirun: {0}")]
    Blob(#[from] io::Error),
    /// A singleton has no launcher and could get none.
    #[error("this process was started without mpirun, and starting one for it failed: {0}")]
    NoLauncher(String),
}

/// What comes of going to a port.
#[derive(Debug, PartialEq, Eq)]
pub enum Meeting {
    /// Nobody is there yet: whoever comes will say so by a message.
    Waits {
        /// By which the launcher can be asked.
        ticket: u32,
    },
    /// Somebody was there, who has left these words, and must be told.
    Met {
        /// The words.
        words: Vec<u64>,
    },
}

type Answer<T> = Result<T, UniverseError>;

impl Client {
    /// Has processes spawned: the number of the first, and how many there are.
    ///
    /// # Errors
    /// See [`UniverseError`]; nothing was spawned then.
    pub fn spawn(&self, spawn: &Spawn) -> Answer<(u32, u32)> {
        self.need_launcher()?;
        let (first, size) = self.done(&Request::Spawn, Some(&spawn.encode()))?;
        match size.parse() {
            Ok(size) => Ok((first, size)),
            Err(_) => Err(UniverseError::Refused(format!("mpirun says it has spawned '{size}' processes"))),
        }
    }

    /// Who has spawned the job of this process; `None` if nobody has.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn parent(&self) -> Answer<Option<Parent>> {
        if self.segment.boot().base == 0 {
            return Ok(None);
        }
        let bytes = self.given(&Request::Parent)?;
        let parent = Parent::decode(&bytes);
        parent
            .map(Some)
            .ok_or_else(|| UniverseError::Refused("mpirun's account of the parent makes no sense".into()))
    }

    /// Says that this process has a communicator that is shared with `members`, of which some are of other jobs.
    pub fn bound(&self, bond: u64, members: &[u32]) {
        let words: Vec<u64> = members.iter().map(|member| u64::from(*member)).collect();
        // Without it the launcher takes the jobs for not connected, and ends one without the other.
        if let Ok(fd) = blob::write(&encode_words(&words)) {
            self.tell_with(&Request::Bound { bond }, Some(&fd));
        }
    }

    /// Says that this process does not have the communicator any more.
    pub fn released(&self, bond: u64) {
        self.tell_with(&Request::Released { bond }, None);
    }

    /// Whether nobody has the communicator any more: all who had it have said so, or have ended.
    pub fn is_over(&self, bond: u64) -> bool {
        // Without a launcher nobody says more.
        self.done(&Request::Bond { bond }, None).map_or(true, |(is_over, _)| is_over == 1)
    }

    /// Opens a port: its name.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn open_port(&self) -> Answer<String> {
        self.need_launcher()?;
        self.done(&Request::OpenPort, None).map(|(_, name)| name)
    }

    /// Closes a port.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn close_port(&self, port: &str) -> Answer<()> {
        self.need_launcher()?;
        self.done(&Request::ClosePort { port: port.into() }, None).map(drop)
    }

    /// Goes to a port, to accept or to connect, with words for the other.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn meet(&self, accepts: bool, port: &str, words: &[u64]) -> Answer<Meeting> {
        self.need_launcher()?;
        let request = Request::Meet { accepts, port: port.into() };
        let words = blob::write(&encode_words(words))?;
        match self.ask_with(self.number(), &request, Some(words.as_fd()))? {
            (Reply::Done { number, .. }, _) => Ok(Meeting::Waits { ticket: number }),
            (Reply::Given, Some(fd)) => Ok(Meeting::Met { words: decode_words(&blob::read(fd)?) }),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Whether a ticket waits still. If not, the process that it has met is on its way to say so.
    ///
    /// # Errors
    /// If nobody will meet it any more.
    pub fn waits(&self, ticket: u32) -> Answer<bool> {
        self.done(&Request::Ticket { ticket }, None).map(|(met, _)| met == 0)
    }

    /// As [`Client::waits`]; a ticket that waits is given back, and meets nobody any more.
    ///
    /// # Errors
    /// As there.
    pub fn give_back(&self, ticket: u32) -> Answer<bool> {
        self.done(&Request::GiveBack { ticket }, None).map(|(met, _)| met == 0)
    }

    /// Publishes a port under a name.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn publish(&self, service: &str, port: &str) -> Answer<()> {
        self.need_launcher()?;
        let request = Request::Publish { service: service.into(), port: port.into() };
        self.done(&request, None).map(drop)
    }

    /// Takes a published name back.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn unpublish(&self, service: &str, port: &str) -> Answer<()> {
        self.need_launcher()?;
        let request = Request::Unpublish { service: service.into(), port: port.into() };
        self.done(&request, None).map(drop)
    }

    /// The port that is published under a name.
    ///
    /// # Errors
    /// See [`UniverseError`].
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

    pub(super) fn given(&self, request: &Request) -> Answer<Vec<u8>> {
        match self.ask(self.number(), request)? {
            (Reply::Given, Some(fd)) => Ok(blob::read(fd)?),
            (other, _) => Err(unexpected(other)),
        }
    }

    fn tell_with(&self, request: &Request, fd: Option<&OwnedFd>) {
        if let Some(control) = self.control.get() {
            let socket = control.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // If the launcher is gone this process is about to be.
            let _ = oxmpi_os::fdpass::send(&*socket, &request.encode(), fd.map(AsFd::as_fd));
        }
    }
}

/// The error of an answer that is none to the question.
fn unexpected(reply: Reply) -> UniverseError {
    match reply {
        Reply::Refused { reason, .. } => UniverseError::Refused(reason),
        other => UniverseError::Refused(format!("mpirun answered {other:?}")),
    }
}
