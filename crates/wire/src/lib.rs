//! Every header and frame between two processes, encoded and decoded. This crate performs no I/O.
//!
//! A *frame* is a 16-byte header, an extension whose length depends on the kind, and a body of user
//! data:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0 | sequence | number of the message between the two processes, modulo 256 (matched kinds
//! only) |
//! | 1 | kind | 4 bits protocol, 4 bits message |
//! | 2..4 | extension | length of the extension in bytes |
//! | 4..8 | tag | tag of the message |
//! | 8..12 | context | index of the communicator context *at the receiver* |
//! | 12..16 | source | process index of the sender |
//!
//! A sender that does not yet know the receiver's index names the context by its global 64-bit
//! [`ContextId`] in the extension; the receiver answers with [`Frame::Learn`]. Integers are little
//! endian. [`Frame::decode`] accepts any bytes and returns a frame or a [`WireError`] that names
//! the wrong value.
#![forbid(unsafe_code)]

mod frame;
pub mod hex;
pub mod keys;
pub mod noise;
pub mod relay;
mod transcript;

pub use frame::{
    Announced, Context, ContextId, Envelope, Frame, HEADER_LEN, MAX_FRAME_LEN, Received, Tags,
    WireError,
};
pub use transcript::{MAC, Nonce, Secret, Transcript, WrongMac};
