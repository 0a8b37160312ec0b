//! The second way in: by a name in the environment, where the inherited descriptors are not, or belong to a program before.
//!
//! The launcher listens under an abstract name, which ranks have in their environment with a secret. It gives the segment only to
//! a process that descends from the one that it has started as that rank, and decides whether that is the rank now
//! ([`crate::generation`]); the connection becomes the control socket.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use oxmpi_shm::segment::Segment;
use oxmpi_sys::local;
use rustix::fs::{OFlags, fcntl_setfl};

use super::{BootError, Client, DirectoryError, question};
use crate::control::{Reply, Request};

/// The environment variable with another address at which a rank reaches its launcher: `1:NAME:NUMBER:SECRET`.
pub const WAY_IN_VARIABLE: &str = "OXMPI_WAY_IN";
/// The version of what stands there.
const VERSION: &str = "1";
/// How long to wait for room among those who have connected.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a process reaches the launcher of its rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WayIn {
    /// Under which name the launcher listens.
    pub(crate) name: String,
    /// The rank's number among the launcher's processes.
    pub(crate) number: u32,
    /// What only ranks of this launcher know, in hexadecimal digits.
    pub(crate) secret: String,
}

impl WayIn {
    /// That of this process, if an `mpirun` has set it.
    pub(super) fn from_env() -> Option<WayIn> {
        WayIn::read(&std::env::var(WAY_IN_VARIABLE).ok()?)
    }

    pub(crate) fn read(value: &str) -> Option<WayIn> {
        let mut parts = value.split(':');
        let (Some(VERSION), Some(name), Some(number), Some(secret), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        Some(WayIn { name: name.into(), number: number.parse().ok()?, secret: secret.into() })
    }

    /// As [`WayIn::read`] reads it.
    pub(crate) fn write(&self) -> String {
        format!("{VERSION}:{}:{}:{}", self.name, self.number, self.secret)
    }

    /// A connection with the launcher. It belongs to the same user: nobody else gets the secret.
    fn connect(&self) -> io::Result<OwnedFd> {
        let limit = Instant::now() + PATIENCE;
        let socket = loop {
            match local::connect(&self.name) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < limit => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                other => break other?,
            }
        };
        // A rank that was restored may be in a PID namespace in which its launcher has no number.
        if local::peer_user(&socket)? != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("somebody else listens under its name"));
        }
        fcntl_setfl(&socket, OFlags::empty())?;
        Ok(socket)
    }

    /// A control socket in place of one that the program has closed.
    pub(super) fn connect_again(&self) -> Result<OwnedFd, String> {
        let socket = self.connect().map_err(|error| error.to_string())?;
        let request = Request::Return { number: self.number, secret: self.secret.clone() };
        match question(&socket, self.number, &request, None).map_err(|error| error.to_string())? {
            (Reply::Done { .. }, _) => Ok(socket),
            (other, _) => Err(format!("mpirun answered {other:?}")),
        }
    }
}

/// What came of the second way in.
pub(super) enum Entered {
    /// The process is the rank.
    Rank(Client),
    /// It is a job of one.
    Singleton,
    /// Nobody listens.
    NoLauncher,
}

impl Client {
    /// Asks the launcher whether this process is the rank, and waits until that is decided.
    ///
    /// # Errors
    /// It cannot be, and must not be anything else.
    pub(super) fn enter() -> Result<Entered, BootError> {
        let Some(way_in) = WayIn::from_env() else { return Ok(Entered::NoLauncher) };
        let Ok(socket) = way_in.connect() else { return Ok(Entered::NoLauncher) };
        let request = Request::Enter { number: way_in.number, secret: way_in.secret.clone() };
        let lost = |error: DirectoryError| BootError::NotAdmitted(error.to_string());
        match question(&socket, way_in.number, &request, None).map_err(lost)? {
            (Reply::Segment { .. }, Some(fd)) => {
                // The launcher has claimed it for this process.
                let segment = Segment::map(&fd)?;
                Client::of_rank(segment, fd, socket).map(Entered::Rank)
            }
            (Reply::Failed { reason }, _) => Err(BootError::NotAdmitted(reason)),
            _ => Ok(Entered::Singleton),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_in_survives_the_environment() {
        let way_in = WayIn { name: "oxmpi.rank.7".into(), number: 3, secret: "ab".into() };
        assert_eq!(WayIn::read(&way_in.write()), Some(way_in));
        for wrong in ["", "1:a:3", "2:a:3:b", "1:a:x:b", "1:a:3:b:c"] {
            assert_eq!(WayIn::read(wrong), None, "{wrong}");
        }
    }
}
