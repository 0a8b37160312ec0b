//! The one encoding of the launcher's messages: [postcard], version 1 of its wire format, in which
//! a number has a variable length, and a list or a text its length in front.
//!
//! [postcard]: https://postcard.jamesmunns.com/wire-format

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Encodes a message.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    // Fails only for a list of unknown length, which no message has; nobody decodes an empty one.
    postcard::to_stdvec(message).unwrap_or_default()
}

/// Decodes a message, which must have no byte more.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (message, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(message)
}

/// Decodes the message at the front of some bytes, and returns it with the rest.
pub fn decode_front<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, &[u8])> {
    postcard::take_from_bytes(bytes).ok()
}

/// Encodes a message, with the version of its protocol in front.
pub fn encode_versioned<T: Serialize>(version: u8, message: &T) -> Vec<u8> {
    let mut bytes = vec![version];
    bytes.extend(encode(message));
    bytes
}

/// As [`encode_versioned`] for a message of at most `most` bytes: its `text` is cut if it is
/// longer.
pub fn encode_packet<T: Serialize + Clone>(
    version: u8,
    most: usize,
    message: &T,
    text: impl Fn(&mut T) -> Option<&mut String>,
) -> Vec<u8> {
    let bytes = encode_versioned(version, message);
    let Some(excess) = bytes.len().checked_sub(most).filter(|excess| *excess > 0) else {
        return bytes;
    };
    let mut cut = message.clone();
    if let Some(text) = text(&mut cut) {
        text.truncate(text.floor_char_boundary(text.len().saturating_sub(excess)));
    }
    encode_versioned(version, &cut)
}

/// Why a message with a version is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The sender has this version of the protocol.
    Version(u8),
    /// The version fits, and the bytes are no message of it.
    Message,
}

/// Decodes a message of [`encode_versioned`].
pub fn decode_versioned<T: DeserializeOwned>(version: u8, bytes: &[u8]) -> Result<T, Malformed> {
    match bytes.split_first() {
        Some((found, rest)) if *found == version => decode(rest).ok_or(Malformed::Message),
        Some((found, _)) => Err(Malformed::Version(*found)),
        None => Err(Malformed::Message),
    }
}

/// Encodes a path as its bytes, for `#[serde(with = "oxmpi_rt_client::codec::path")]`: serde
/// refuses paths that are not UTF-8.
pub mod path {
    use std::ffi::{OsStr, OsString};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    /// Encodes a path.
    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        OsStr::serialize(path.as_os_str(), to)
    }

    /// Decodes a path.
    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(from).map(PathBuf::from)
    }
}
