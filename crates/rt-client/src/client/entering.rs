//! Entering a job by the launcher's name, where the inherited descriptors are closed or belong to
//! an earlier program.
//!
//! The launcher listens under an abstract name; the ranks' environment has that name and a secret.
//! The launcher gives the segment of a rank only to a descendant of the process that it started as
//! that rank, and decides whether the descendant is the rank now ([`crate::generation`]). The
//! connection becomes the control socket.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use oxmpi_shm::segment::Segment;
use oxmpi_sys::local;
use rustix::fs::{OFlags, fcntl_setfl};

use super::{BootError, Client, DirectoryError, question};
use crate::control::{Reply, Request};

/// The environment variable with the launcher's name: `1:NAME:NUMBER:SECRET`.
pub const WAY_IN_VARIABLE: &str = "OXMPI_WAY_IN";
const VERSION: &str = "1";
/// How long a connection waits for room in the launcher's accept queue.
const PATIENCE: Duration = Duration::from_secs(10);

/// The launcher's address, for a process that wants to be a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayIn {
    pub name: String,
    pub number: u32,
    /// Shared by the ranks of this launcher, in hexadecimal digits.
    pub secret: String,
}

impl WayIn {
    pub(super) fn from_env() -> Option<WayIn> {
        WayIn::read(&std::env::var(WAY_IN_VARIABLE).ok()?)
    }

    /// Reads the value of the variable; `None` if it has another form.
    pub fn read(value: &str) -> Option<WayIn> {
        let mut parts = value.split(':');
        let (Some(VERSION), Some(name), Some(number), Some(secret), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        Some(WayIn { name: name.into(), number: number.parse().ok()?, secret: secret.into() })
    }

    /// The value of the variable, as [`WayIn::read`] reads it.
    pub fn write(&self) -> String {
        format!("{VERSION}:{}:{}:{}", self.name, self.number, self.secret)
    }

    pub(super) fn connect_again(&self) -> Result<OwnedFd, String> {
        let socket = connect_patiently(&self.name, PATIENCE).map_err(|error| error.to_string())?;
        let request = Request::Return { number: self.number, secret: self.secret.clone() };
        match question(&socket, self.number, &request, None).map_err(|error| error.to_string())? {
            (Reply::Done { .. }, _) => Ok(socket),
            (other, _) => Err(format!("mpirun answered {other:?}")),
        }
    }
}

/// Connects to the process that listens under a name, which must have the same user: no other may
/// learn the secret. `patience`: the time for room in the accept queue. The socket is blocking.
pub(super) fn connect_patiently(name: &str, patience: Duration) -> io::Result<OwnedFd> {
    let limit = Instant::now() + patience;
    let socket = loop {
        match local::connect(name) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < limit => {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => break other?,
        }
    };
    // Checks the user, not the process: a restored rank may be in a PID namespace in which its
    // launcher has no number.
    if local::peer_user(&socket)? != rustix::process::geteuid().as_raw() {
        let text = "a process of another user listens under its name";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    fcntl_setfl(&socket, OFlags::empty())?;
    Ok(socket)
}

pub(super) enum Entered {
    Rank(Client),
    Singleton,
    NoLauncher,
}

impl Client {
    /// Applies to be the rank, and waits for the launcher's decision.
    ///
    /// # Errors
    /// The process cannot be the rank, and must not be a singleton.
    pub(super) fn enter() -> Result<Entered, BootError> {
        let Some(way_in) = WayIn::from_env() else { return Ok(Entered::NoLauncher) };
        let Ok(socket) = connect_patiently(&way_in.name, PATIENCE) else {
            return Ok(Entered::NoLauncher);
        };
        let request = Request::Enter { number: way_in.number, secret: way_in.secret.clone() };
        let lost = |error: DirectoryError| BootError::NotAdmitted(error.to_string());
        match question(&socket, way_in.number, &request, None).map_err(lost)? {
            (Reply::Segment { .. }, Some(fd)) => {
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
    fn an_entrance_is_read_as_it_was_written() {
        let way_in = WayIn { name: "oxmpi.rank.7".into(), number: 3, secret: "ab".into() };
        assert_eq!(WayIn::read(&way_in.write()), Some(way_in));
        for wrong in ["", "1:a:3", "2:a:3:b", "1:a:x:b", "1:a:3:b:c"] {
            assert_eq!(WayIn::read(wrong), None, "{wrong}");
        }
    }
}
