use crate::peer_segments::ForeignProcess;
use oxmpi_wire::Secret;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// An address at which a process listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub socket: SocketAddr,
    pub interface: String,
    pub host: Option<String>,
}

impl Address {
    /// Reads the addresses of a process as the launcher writes them: words separated by blanks, one
    /// of which is the host's name after a slash. No interface has a slash in its name.
    pub fn list(text: &str) -> Result<Vec<Address>, String> {
        let host =
            text.split_whitespace().find_map(|word| word.strip_prefix('/')).map(str::to_string);
        let words = text.split_whitespace().filter(|word| !word.starts_with('/'));
        words.map(|word| Ok(Address { host: host.clone(), ..word.parse()? })).collect()
    }

    /// The address for a message to the user.
    pub fn shown(&self) -> String {
        let host = self.host.as_ref().map_or(String::new(), |host| format!(" of host {host}"));
        format!("{} on interface {}{host}", self.socket, self.interface)
    }
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
        Ok(Address { socket, interface: interface.to_string(), host: None })
    }
}

/// The launcher's answer about the addresses of a process. `Left`: the process has left.
#[derive(Clone, Debug)]
pub enum PeerLocation {
    At(Vec<Address>),
    Elsewhere(ForeignProcess, Secret, Vec<Address>),
    Left,
}
