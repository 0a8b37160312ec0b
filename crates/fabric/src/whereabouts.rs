//! Where processes listen.

use crate::neighbours::ForeignProcess;
use oxmpi_wire::Secret;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

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
