//! The messages between `mpirun` (the head) and its agents on other hosts: pure encoding and
//! decoding.
//!
//! They travel over a byte stream in each direction, from agent to agent along a tree whose root is
//! the head. An agent's stream begins with the line [`greeting`], possibly after output of a login
//! script. Each message is a frame: its length (4 bytes, little endian), its route ([`DownRoute`]
//! or [`UpRoute`]), and the message itself, both encoded by [`oxmpi_rt_client::codec`]. Processes
//! have their numbers in the head.

mod from_agent;
mod host;
mod order;
mod to_agent;
mod tree;

pub use self::from_agent::{FromAgent, ProcessEvent, Seen};
pub use self::host::{HostOrder, HostReport};
pub use self::order::{
    AgentOrder, LifelineOffer, OfferedLifelines, OrderedProgram, RestoreOrder, Variable,
};
pub use self::to_agent::ToAgent;
pub use self::tree::{
    AgentStarts, AgentWay, Branch, BranchHost, BranchReport, BranchRound, DaemonStarts, DownRoute,
    Receivers, StartCommand, UpRoute,
};

use oxmpi_rt_client::codec;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Head and agent must come from one installation: different versions are refused.
pub const VERSION: u32 = 14;
/// In bytes: a limit against faulty senders.
pub const MAX_MESSAGE: usize = 128 << 20;
/// The beginning of the line by which an agent announces itself.
const GREETING: &str = "OXMPI-AGENT ";
/// The most bytes that may come before that line.
const MAX_NOISE: usize = 64 << 10;

/// Why a stream is not that of an agent, or of a head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    #[error(
        "it is of OxMPI {found}, and this is {own}: name the directory of the same installation there with --prefix, or \
         install the same version"
    )]
    Version { found: String, own: String },
    #[error("it does not begin with an agent's greeting, but with: {0}")]
    NoAgent(String),
    #[error("a message of {length} bytes makes no sense")]
    Malformed { length: usize },
}

fn own_version() -> String {
    format!("{} (agents {VERSION})", env!("CARGO_PKG_VERSION"))
}

/// The first line of an agent.
pub fn greeting() -> String {
    format!("{GREETING}{}\n", own_version())
}

/// Searches for the greeting. `None`: it may still come. Otherwise returns the number of bytes
/// before the first message.
pub fn find_greeting(bytes: &[u8]) -> Result<Option<usize>, StreamError> {
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = at + line.len();
        if let Some(version) = line.strip_prefix(GREETING.as_bytes()) {
            let Some(version) = version.strip_suffix(b"\n") else { return Ok(None) };
            let (found, own) = (String::from_utf8_lossy(version).into_owned(), own_version());
            // Releases with the same messages understand each other.
            let messages = |version: &str| version.rsplit_once(" (").map(|(_, of)| of.to_string());
            return match messages(&found) == messages(&own) {
                true => Ok(Some(end)),
                false => Err(StreamError::Version { found, own }),
            };
        }
        at = end;
    }
    if bytes.len() > MAX_NOISE {
        return Err(StreamError::NoAgent(shown(bytes)));
    }
    Ok(None)
}

/// The first bytes that came in place of a greeting, printable.
pub fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    text.trim().chars().map(|c| if c.is_control() && c != '\n' { '.' } else { c }).collect()
}

/// The length of the next message with its length field. `None`: it is incomplete.
pub fn next(bytes: &[u8]) -> Result<Option<usize>, StreamError> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > MAX_MESSAGE {
        return Err(StreamError::Malformed { length });
    }
    Ok((rest.len() >= length).then_some(4 + length))
}

/// Encodes a route and a message, with their length in front.
fn frame(route: &impl Serialize, message: &impl Serialize) -> Vec<u8> {
    let (route, message) = (codec::encode(route), codec::encode(message));
    let mut bytes = Vec::with_capacity(4 + route.len() + message.len());
    bytes.extend(((route.len() + message.len()) as u32).to_le_bytes());
    bytes.extend(route);
    bytes.extend(message);
    bytes
}

/// The route of a frame, and the bytes of its message.
fn open<T: DeserializeOwned>(frame: &[u8]) -> Result<(T, &[u8]), StreamError> {
    let opened = frame.split_at_checked(4).and_then(|(_, rest)| codec::decode_front(rest));
    opened.ok_or(StreamError::Malformed { length: frame.len() })
}

fn decode<T: DeserializeOwned>(message: &[u8]) -> Result<T, StreamError> {
    codec::decode(message).ok_or(StreamError::Malformed { length: message.len() })
}

#[cfg(test)]
mod tests;
