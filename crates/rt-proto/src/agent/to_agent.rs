//! Messages of the head to an agent: orders, and answers to its ranks' requests.

use super::{AgentOrder, StreamError, decode, encode};
use serde::{Deserialize, Serialize};

/// A message of the head to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// Prepares ranks. Answered by [`super::FromAgent::Ready`] or [`super::FromAgent::Failed`].
    Order(Box<AgentOrder>),
    /// Starts the prepared ranks. Answered by [`super::FromAgent::Started`] or
    /// [`super::FromAgent::Failed`].
    Go,
    /// Stops all processes, and forwards all their messages and output. Answered by
    /// [`super::FromAgent::Stopped`].
    Hold {
        /// Numbers the attempts, also in the answer.
        round: u32,
    },
    /// Describes the stopped processes. Answered by [`super::FromAgent::Described`].
    Describe { round: u32 },
    /// Makes images of the stopped processes. Answered by [`super::FromAgent::Piece`]s, if the host
    /// cannot write the directory of the set, and [`super::FromAgent::Imaged`].
    Image {
        round: u32,
        /// The directory, in the form that the requesting tool uses.
        place: String,
    },
    /// Calls the program's checkpoint functions. Answered by [`super::FromAgent::Returned`].
    CallFunctions {
        /// The number of the call, which identifies the functions.
        number: u32,
    },
    /// A piece of a file of the images that are to be restored.
    Piece {
        /// The file's path in the set. Its pieces are consecutive, up to the first piece of another
        /// file.
        name: String,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Lets the stopped processes run.
    GoOn,
    /// Abandons a spawned job, and removes all of it.
    Abandon { base: u32 },
    /// The spawned job with these numbers is over: only state for later requests is kept.
    ReleaseJob { base: u32, size: u32 },
    /// No request will name these processes any more.
    Forget { base: u32, size: u32 },
    /// The answer to a process's request.
    Answer {
        rank: u32,
        /// Of [`oxmpi_rt_client::control`], encoded.
        reply: Vec<u8>,
        /// The contents of the file that comes with it, if any.
        blob: Option<Vec<u8>>,
    },
    /// Sends a signal to processes.
    Signal { number: i32, ranks: Vec<u32> },
    /// An order for the relay of the agent's host (rpi lamd).
    Relay {
        /// Of `oxmpi_wire::relay`, encoded.
        order: Vec<u8>,
    },
    /// A failure notice about `count` further processes, which the others survive.
    Died { count: u32 },
    /// Requests a step of a quiescence from all processes.
    Step {
        number: u32,
        /// Whether the step closes connections: each process needs a new listener then.
        closes: bool,
    },
    /// Queries the progress of the processes. Answered by [`super::FromAgent::Seen`].
    QueryState,
    /// Requests the socket addresses of a process. Answered by [`super::FromAgent::Answer`].
    Where { asker: u32, rank: u32 },
    /// Standard input of a process.
    Input {
        rank: u32,
        /// Empty: the end.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Acknowledges printed output, which makes room for as much more.
    Taken { bytes: u64 },
    /// Kills all processes, and ends the agent.
    End,
}

impl ToAgent {
    /// Encodes the message, with its length in front.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Decodes a message with its length in front.
    pub fn decode(bytes: &[u8]) -> Result<ToAgent, StreamError> {
        decode(bytes)
    }
}
