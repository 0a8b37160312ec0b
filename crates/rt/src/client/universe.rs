//! What a process asks its launcher to have to do with others than those of its own job: spawning, ports, names.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::{Client, DirectoryError, from_hex};
use crate::blob;
use crate::control::{Reply, Request};
use crate::universe::{Parent, ProcessName, Spawn, decode_words, encode_words};

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
        let bytes = self.given(&Request::Parent, None)?;
        let parent = Parent::decode(&bytes)
            .ok_or_else(|| UniverseError::Refused("mpirun's account of the parent makes no sense".into()))?;
        if parent.is_mixed {
            self.reach()?;
        }
        Ok(Some(parent))
    }

    /// Sees that processes of other launchers can have to do with this one.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn reach(&self) -> Answer<()> {
        if self.place.get().is_none() {
            self.need_launcher()?;
            let (place, _) = self.done(&Request::Reach, None)?;
            // Whoever else has asked has got the same.
            let _ = self.place.set(place);
        }
        Ok(())
    }

    /// The launcher's place among those of the user on this machine; 0 if this process has nothing to do with others.
    pub fn place(&self) -> u32 {
        self.place.get().copied().unwrap_or(0)
    }

    /// What processes are called by everybody.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn names(&self, numbers: &[u32]) -> Answer<Vec<ProcessName>> {
        let (boot, place) = (self.segment.boot(), self.place());
        let (first, size) = (boot.base, boot.size);
        let is_own = |number: &u32| number.checked_sub(first).is_some_and(|rank| rank < size);
        if place == 0 || numbers.iter().all(is_own) {
            // As long as this process knows nobody of another launcher, nobody of another launcher hears it.
            let name =
                |number: &u32| ProcessName { universe: boot.job_id, place, number: *number, first, size };
            return Ok(numbers.iter().map(name).collect());
        }
        let words: Vec<u64> = numbers.iter().map(|number| u64::from(*number)).collect();
        let names = self.given(&Request::Names, Some(&encode_words(&words)))?;
        let names = ProcessName::decode_all(&decode_words(&names));
        if names.len() == numbers.len() { Ok(names) } else { Err(lost("names")) }
    }

    /// Which numbers processes have here.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn numbers(&self, names: &[ProcessName]) -> Answer<Vec<u32>> {
        let universe = self.segment.boot().job_id;
        if names.iter().all(|name| name.universe == universe) {
            return Ok(names.iter().map(|name| name.number).collect());
        }
        self.reach()?;
        let numbers = self.given(&Request::Numbers, Some(&encode_words(&ProcessName::encode_all(names))))?;
        let numbers: Vec<u32> = decode_words(&numbers).into_iter().map(|word| word as u32).collect();
        if numbers.len() == names.len() { Ok(numbers) } else { Err(lost("numbers")) }
    }

    /// By which secret processes of another launcher prove who they are when they connect to this one over sockets.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn secret_for(&self, universe: u64) -> Answer<[u8; 32]> {
        let (_, secret) = self.done(&Request::Secret { universe }, None)?;
        from_hex(&secret).ok_or_else(|| lost("secret"))
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
        self.reach()?;
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
        self.reach()?;
        let request = Request::Meet { accepts, port: port.into() };
        let words = blob::write(&encode_words(words))?;
        match self.ask_with(self.number(), &request, Some(words.as_fd()))? {
            (Reply::Done { number, .. }, _) => Ok(Meeting::Waits { ticket: number }),
            (Reply::Given, Some(fd)) => Ok(Meeting::Met { words: decode_words(&blob::read(fd)?) }),
            (Reply::Refused { reason, .. }, _) if !reason.contains(port) => {
                Err(UniverseError::Refused(format!("the port '{port}' cannot be reached: {reason}")))
            }
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Whether a ticket that was got at a port waits still. If not, the process that it has met is on its way to say so.
    ///
    /// # Errors
    /// If nobody will meet it any more.
    pub fn waits(&self, ticket: u32, port: &str) -> Answer<bool> {
        self.done(&Request::Ticket { ticket, port: port.into() }, None).map(|(met, _)| met == 0)
    }

    /// As [`Client::waits`]; a ticket that waits is given back, and meets nobody any more.
    ///
    /// # Errors
    /// As there.
    pub fn give_back(&self, ticket: u32, port: &str) -> Answer<bool> {
        self.done(&Request::GiveBack { ticket, port: port.into() }, None).map(|(met, _)| met == 0)
    }

    /// Publishes a port under a name: for this launcher's processes, or `everywhere`, for those of all of the user's launchers on
    /// this machine.
    ///
    /// # Errors
    /// See [`UniverseError`].
    pub fn publish(&self, service: &str, port: &str, everywhere: bool) -> Answer<()> {
        self.need_launcher()?;
        let request = Request::Publish { service: service.into(), port: port.into(), everywhere };
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

    pub(super) fn given(&self, request: &Request, bytes: Option<&[u8]>) -> Answer<Vec<u8>> {
        let fd = bytes.map(blob::write).transpose()?;
        match self.ask_with(self.number(), request, fd.as_ref().map(AsFd::as_fd))? {
            (Reply::Given, Some(fd)) => Ok(blob::read(fd)?),
            (other, _) => Err(unexpected(other)),
        }
    }

    fn tell_with(&self, request: &Request, fd: Option<&OwnedFd>) {
        // If the launcher is gone this process is about to be.
        let _ = self.send(request, fd.map(AsFd::as_fd));
    }
}

fn lost(what: &str) -> UniverseError {
    UniverseError::Refused(format!("mpirun's answer has not the {what} that were asked for"))
}

/// The error of an answer that is none to the question.
fn unexpected(reply: Reply) -> UniverseError {
    match reply {
        Reply::Refused { reason, .. } => UniverseError::Refused(reason),
        other => UniverseError::Refused(format!("mpirun answered {other:?}")),
    }
}
