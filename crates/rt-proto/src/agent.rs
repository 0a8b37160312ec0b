//! The messages between `mpirun` (the head) and its agent on another host: pure encoding and
//! decoding.
//!
//! They travel over a byte stream in each direction. The agent's stream begins with the line
//! [`greeting`], possibly after output of a login script. Each message has its length in front (4
//! bytes, little endian) and a byte with its kind, below 64 to an agent and above from an agent;
//! the rest is encoded as in the module `codec`. Processes have their numbers in the head.

mod from_agent;
mod order;
mod to_agent;

pub use self::from_agent::{FromAgent, Seen};
pub use self::order::{AgentOrder, LifelineOffer, OrderedProgram, RestoreOrder, Variable};
pub use self::to_agent::ToAgent;

use oxmpi_rt_client::codec::{FieldReader, FieldWriter};

/// Head and agent must come from one installation: different versions are refused.
pub const VERSION: u32 = 8;
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
    #[error("a message of kind {kind} with {length} bytes makes no sense")]
    Nonsense { kind: u8, length: usize },
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
            return if found == own {
                Ok(Some(end))
            } else {
                Err(StreamError::Version { found, own })
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
        return Err(StreamError::Nonsense { kind: rest.first().copied().unwrap_or(0), length });
    }
    Ok((rest.len() >= length).then_some(4 + length))
}

fn framed(kind: u8, write: impl FnOnce(&mut FieldWriter)) -> Vec<u8> {
    let mut out = FieldWriter::default();
    write(&mut out);
    let rest = out.into_bytes();
    let mut bytes = Vec::with_capacity(5 + rest.len());
    bytes.extend((rest.len() as u32 + 1).to_le_bytes());
    bytes.push(kind);
    bytes.extend(rest);
    bytes
}

fn read<T>(
    bytes: &[u8],
    read: impl FnOnce(u8, &mut FieldReader<'_>) -> Option<T>,
) -> Result<T, StreamError> {
    let (kind, rest) = match bytes {
        [_, _, _, _, kind, rest @ ..] => (*kind, rest),
        _ => return Err(StreamError::Nonsense { kind: 0, length: bytes.len() }),
    };
    let mut from = FieldReader::new(rest);
    let message = read(kind, &mut from).filter(|_| from.is_empty());
    message.ok_or(StreamError::Nonsense { kind, length: bytes.len() })
}

#[cfg(test)]
mod tests;
