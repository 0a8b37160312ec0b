//! The messages between `mpirun`, the head, and the agent that it has started on another host: pure encoding and decoding.
//!
//! They travel over a stream of bytes in each direction. The agent's begins with a line, [`greeting`]; what a login script prints
//! before it is not ours. From then on each message has its length in front, 4 bytes, little endian; a byte says its kind,
//! below 64 to an agent and above from one; the rest is as in the module `codec`. A process is named by its number among all of
//! the head.

mod from_agent;
mod order;
mod to_agent;

pub use self::from_agent::{FromAgent, Seen};
pub use self::order::{LifelineOffer, Order, Program, RestoreOrder, Variable};
pub use self::to_agent::ToAgent;

use crate::codec::{Reader, Writer};

/// The version of this protocol. Both sides come from one installation; a difference means that they do not.
pub const VERSION: u32 = 8;
/// The longest message in bytes: a limit against senders that are wrong.
pub const MAX_MESSAGE: usize = 128 << 20;
/// How the line begins with which an agent says that it is there.
const GREETING: &str = "OXMPI-AGENT ";
/// What may come before it.
const MAX_NOISE: usize = 64 << 10;

/// Why a stream is none of an agent, or of a head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The other side is of another version.
    #[error(
        "it is of OxMPI {found}, and this is {own}: name the directory of the same installation there with --prefix, or \
         install the same version"
    )]
    Version {
        /// What it says.
        found: String,
        /// What we say.
        own: String,
    },
    /// It is no agent.
    #[error("it does not speak as an agent does, but says: {0}")]
    NoAgent(String),
    /// A message that nobody has encoded.
    #[error("a message of kind {kind} with {length} bytes makes no sense")]
    Nonsense {
        /// Its kind.
        kind: u8,
        /// Its length in bytes.
        length: usize,
    },
}

fn own_version() -> String {
    format!("{} (agents {VERSION})", env!("CARGO_PKG_VERSION"))
}

/// The line with which an agent begins.
pub fn greeting() -> String {
    format!("{GREETING}{}\n", own_version())
}

/// Looks for the line in what has come. `None`: it may come yet. Else how many bytes come before what follows it.
///
/// # Errors
/// The line is of another version, or something else has come.
pub fn find_greeting(bytes: &[u8]) -> Result<Option<usize>, StreamError> {
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = at + line.len();
        if let Some(version) = line.strip_prefix(GREETING.as_bytes()) {
            let Some(version) = version.strip_suffix(b"\n") else { return Ok(None) };
            let (found, own) = (String::from_utf8_lossy(version).into_owned(), own_version());
            return if found == own { Ok(Some(end)) } else { Err(StreamError::Version { found, own }) };
        }
        at = end;
    }
    if bytes.len() > MAX_NOISE {
        return Err(StreamError::NoAgent(shown(bytes)));
    }
    Ok(None)
}

/// The beginning of what has come in place of a greeting.
pub fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    text.trim().chars().map(|c| if c.is_control() && c != '\n' { '.' } else { c }).collect()
}

/// The next message of a stream, without its length: how many bytes it takes with it. `None` if it has not come whole.
///
/// # Errors
/// It claims to be longer than messages are, or empty.
pub fn next(bytes: &[u8]) -> Result<Option<usize>, StreamError> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > MAX_MESSAGE {
        return Err(StreamError::Nonsense { kind: rest.first().copied().unwrap_or(0), length });
    }
    Ok((rest.len() >= length).then_some(4 + length))
}

/// A message of this kind, with its length.
fn framed(kind: u8, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::default();
    write(&mut out);
    let rest = out.into_bytes();
    let mut bytes = Vec::with_capacity(5 + rest.len());
    bytes.extend((rest.len() as u32 + 1).to_le_bytes());
    bytes.push(kind);
    bytes.extend(rest);
    bytes
}

/// Reads one message, which has its length in front.
fn read<T>(bytes: &[u8], read: impl FnOnce(u8, &mut Reader<'_>) -> Option<T>) -> Result<T, StreamError> {
    let (kind, rest) = match bytes {
        [_, _, _, _, kind, rest @ ..] => (*kind, rest),
        _ => return Err(StreamError::Nonsense { kind: 0, length: bytes.len() }),
    };
    let mut from = Reader::new(rest);
    let message = read(kind, &mut from).filter(|_| from.is_empty());
    message.ok_or(StreamError::Nonsense { kind, length: bytes.len() })
}

#[cfg(test)]
mod tests;
