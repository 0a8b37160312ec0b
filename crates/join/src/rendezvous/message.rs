//! The messages between node 0 and the other nodes after both have proved themselves, and their
//! encoding: postcard, version 1 of its wire format.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// In bytes: a limit against faulty senders.
pub(super) const MAX_MESSAGE: usize = 256 << 20;

/// A value under a key of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeValue {
    pub(super) node: u32,
    pub(super) key: String,
    #[serde(with = "serde_bytes")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NodeMessage {
    /// The first message of a member. The process is a random number: a process that connects again
    /// has the same one, and a second process of its node another one.
    Here { process: [u8; 16] },
    /// Node 0 does not go on with this member; the text is for users.
    Refused { text: String },
    /// All nodes are here. The number of this meeting and the secret of its processes are random.
    Start { meeting: [u8; 16], secret: [u8; 32] },
    /// To node 0, the member's values for this fence; from node 0, the values of all nodes.
    Values { fence: u64, entries: Vec<NodeValue> },
    /// A node takes part in no further fence. `why` follows the name of the node. To the hub, a
    /// failure is also for the members that wait for nothing.
    Lost { node: u32, why: String, has_failed: bool },
}

pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    // Fails only for a list of unknown length, which no message has.
    postcard::to_stdvec(message).unwrap_or_default()
}

/// Decodes bytes that contain a message and nothing else.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (message, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(message)
}

impl NodeMessage {
    /// The message with its length in front: 4 bytes, little endian.
    pub(super) fn frame(&self) -> Vec<u8> {
        let message = encode(self);
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        [&length.to_le_bytes()[..], &message].concat()
    }
}
