//! How sockets are used, and where processes are found.

use super::Secret;
use crate::neighbours::ForeignProcess;
use oxmpi_sys::net::Socket;
use oxmpi_wire::noise::Encryption;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// How sockets are used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Longest eager message, bytes.
    pub eager_limit: usize,
    /// Bytes that the kernel shall buffer for each socket and direction, if not as many as it likes.
    pub buffers: Option<usize>,
    /// How long to try to reach a peer before it counts as lost.
    pub patience: Duration,
    /// Which connections this side wants to be encrypted.
    pub encrypt: Encryption,
}

/// Whether one side wants this connection to be encrypted. What is compared for [`Encryption::BetweenHosts`] are the addresses at both
/// ends: within a host, or a network namespace, they are the same or those of the loopback. The names of hosts say nothing of the
/// network between two namespaces.
pub(super) fn wants_encryption(encrypt: Encryption, socket: &Socket) -> bool {
    match encrypt {
        Encryption::Never => false,
        Encryption::BetweenHosts => !socket.is_within_host(),
        Encryption::Always => true,
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            eager_limit: 65535,
            buffers: Some(65535),
            patience: Duration::from_secs(10),
            encrypt: Encryption::default(),
        }
    }
}

/// Where a process can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where it listens.
    pub socket: SocketAddr,
    /// The interface there.
    pub interface: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%{}", self.socket, self.interface)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || format!("'{text}' is no address of the form IP:PORT%INTERFACE");
        // An IPv6 address may have a scope of its own, before the bracket.
        let (socket, interface) = text.rsplit_once('%').ok_or_else(wrong)?;
        let socket = socket.parse().map_err(|_| wrong())?;
        Ok(Address { socket, interface: interface.to_string() })
    }
}

/// What is known of a peer's whereabouts.
#[derive(Clone, Debug)]
pub enum Whereabouts {
    /// It can be reached here.
    At(Vec<Address>),
    /// It belongs to another launcher, as this says, and can be reached here.
    Elsewhere(ForeignProcess, Secret, Vec<Address>),
    /// It has ended as it should.
    Left,
}

/// Finds a process; the error is for a person.
pub type Find = Box<dyn FnMut(u32) -> Result<Whereabouts, String> + Send>;

/// By which secret processes of another launcher, whose jobs have this name, prove who they are; `None` if that is not known.
pub type SecretOf = Box<dyn FnMut(u64) -> Option<Secret> + Send>;
