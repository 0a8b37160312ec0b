//! The messages between two `mpirun`s whose processes communicate.
//!
//! They travel over a connection that keeps message boundaries ([`oxmpi_sys::local`]), some with a
//! descriptor. The side that has connected sends [`LinkMessage::Hello`] first; the answer is
//! another one, or [`LinkMessage::Refused`]. After that either side may forward the requests that
//! its processes would send to their own launcher ([`oxmpi_rt_client::control`]), answers requests,
//! and reports the ends of its processes. A process has the number that its own launcher uses.

use oxmpi_rt_client::codec::{self, Malformed};
use oxmpi_rt_client::control::MAX_MESSAGE;
use serde::{Deserialize, Serialize};

/// Launchers of different versions do not connect.
pub const VERSION: u8 = 4;

/// A message between two launchers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkMessage {
    /// The first message of each side.
    Hello(Hello),
    /// In place of a greeting: the sender does not connect.
    Refused { reason: String },
    /// A request of a process of the sender. Answered by [`LinkMessage::Answer`], with the answer's
    /// descriptor.
    Ask { id: u32, process: Resident, request: Vec<u8> },
    /// The answer to [`LinkMessage::Ask`], with its descriptor.
    Answer { id: u32, reply: Vec<u8> },
    /// A process of the sender has ended.
    Exited {
        number: u32,
        /// Whether other launchers need not react.
        is_well: bool,
    },
    /// A job of the sender has failed or is aborted, and so are all jobs connected with it.
    Ending {
        /// The number of the job's first process.
        first: u32,
        code: i32,
        /// The cause, for the user.
        text: String,
    },
    /// The sender has given numbers to a job of the receiver; the answer is a
    /// [`LinkMessage::Exited`] for each process of the job that has ended already.
    Numbered {
        /// The number of the job's first process in the receiver.
        first: u32,
        size: u32,
    },
    /// The last message: all processes of the sender have ended, and the connection ends.
    Farewell,
}

/// The first message of each side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Identifies all jobs of the sender.
    pub universe: u64,
    /// The launcher that the sender expects; 0: any.
    pub wanted: u64,
    /// The sender's number among the user's launchers on this machine.
    pub place: u32,
    /// Whether all processes of the sender are on this machine and communicate only through memory.
    pub is_near: bool,
    /// Whether some processes of the sender are on other hosts.
    pub is_spread: bool,
    /// Authenticates the receiver's processes that connect to the sender's over sockets.
    pub secret: [u8; 32],
}

/// A process, as its own launcher identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resident {
    pub number: u32,
    /// The number of the first process of its job.
    pub first: u32,
    pub size: u32,
}

/// Why a message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error(
        "it speaks version {0} of the protocol between launchers, and this is version {VERSION}: start both jobs by the mpirun of one installation"
    )]
    Version(u8),
    #[error("a message makes no sense")]
    Malformed,
}

impl LinkMessage {
    /// Encodes the message in at most [`MAX_MESSAGE`] bytes: a longer text is cut. `None` if a
    /// request or reply is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let bytes = codec::encode_packet(VERSION, MAX_MESSAGE, self, |message| match message {
            LinkMessage::Refused { reason: text } | LinkMessage::Ending { text, .. } => Some(text),
            _ => None,
        });
        (bytes.len() <= MAX_MESSAGE).then_some(bytes)
    }

    /// Decodes a message.
    pub fn decode(bytes: &[u8]) -> Result<LinkMessage, LinkError> {
        let message = codec::decode_versioned(VERSION, bytes).map_err(|error| match error {
            Malformed::Version(found) => LinkError::Version(found),
            Malformed::Message => LinkError::Malformed,
        })?;
        match &message {
            LinkMessage::Ask { process, .. } if !process.is_in_job() => Err(LinkError::Malformed),
            _ => Ok(message),
        }
    }
}

impl Resident {
    fn is_in_job(self) -> bool {
        self.number.checked_sub(self.first).is_some_and(|rank| rank < self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_or_not_sent_and_other_versions_are_refused() {
        let long = "ä".repeat(5000);
        let refused = LinkMessage::Refused { reason: long.clone() }.encode().unwrap();
        assert!(refused.len() <= MAX_MESSAGE && LinkMessage::decode(&refused).is_ok());
        let process = Resident { number: 5, first: 3, size: 3 };
        assert_eq!(LinkMessage::Ask { id: 1, process, request: long.into() }.encode(), None);
        let alien = Resident { number: 6, ..process };
        let bytes = LinkMessage::Ask { id: 1, process: alien, request: vec![] }.encode().unwrap();
        assert_eq!(LinkMessage::decode(&bytes), Err(LinkError::Malformed));
        assert_eq!(LinkMessage::decode(&[9, 1]), Err(LinkError::Version(9)));
    }
}
