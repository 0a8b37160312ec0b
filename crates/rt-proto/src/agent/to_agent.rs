//! Messages of the head to an agent: orders, and answers to its ranks' requests.

use super::{
    AgentOrder, Branch, DownRoute, HostOrder, LifelineOffer, OfferedLifelines, StreamError, decode,
    frame, open,
};
use crate::tool::ImagePlace;
use oxmpi_rt_client::control::Reply;
use serde::{Deserialize, Serialize};

/// A message of the head to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// The first message: the agent's place in the tree. Its answer is a report of the round
    /// [`super::BranchRound::Reached`], if there are agents below it.
    Branch(Branch),
    /// How the agent connects with its parent and its grandparent.
    Lifeline(OfferedLifelines),
    /// Prepares ranks. Answered by a report of the round [`super::BranchRound::Ready`], or
    /// [`super::FromAgent::Failed`].
    Order(Box<AgentOrder>),
    /// Starts the prepared ranks. Answered by a report of the round
    /// [`super::BranchRound::Started`], or [`super::FromAgent::Failed`].
    Go {
        /// The addresses of ranks, for the peers on the agent's host.
        addresses: Vec<(u32, String)>,
    },
    /// An order about the processes of the agent's host.
    Host(HostOrder),
    /// Makes images of the stopped processes. Answered by [`super::FromAgent::Piece`]s, if the host
    /// cannot write the directory of the set, and [`super::FromAgent::Imaged`].
    Image { round: u32, place: ImagePlace },
    /// A piece of a file of the images that are to be restored.
    Piece {
        /// The file's path in the set. Its pieces are consecutive, up to the first piece of another
        /// file.
        name: String,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Abandons a spawned job, and removes all of it.
    Abandon { base: u32 },
    /// The answer to a process's request.
    Answer {
        rank: u32,
        reply: Reply,
        /// The contents of the file that comes with it, if any.
        blob: Option<Vec<u8>>,
    },
    /// Queries the progress of the processes. Answered by a report of the round
    /// [`super::BranchRound::Seen`].
    QueryState { query: u64 },
    /// Requests the socket addresses of a process. Answered by [`super::FromAgent::Answer`].
    Where { asker: u32, rank: u32 },
    /// The agent that was lost between this one and the sender has a successor: the sender is the
    /// new parent.
    Adopted {
        /// Of the new grandparent, if there is one.
        adopter: Option<LifelineOffer>,
    },
    /// A parent has changed: sends all again that the head may not have.
    Resend,
    /// The head has all messages of the agent up to this number.
    Received { number: u64 },
    /// Acknowledges printed output, which makes room for as much more.
    Taken { bytes: u64 },
    /// Kills all processes, and ends the agent.
    End,
}

impl ToAgent {
    /// Whether the message must reach its receivers even if an agent between is lost.
    pub fn is_kept(&self) -> bool {
        match self {
            ToAgent::Host(order) => order.is_kept(),
            ToAgent::Order(_)
            | ToAgent::Go { .. }
            | ToAgent::Abandon { .. }
            | ToAgent::Answer { .. }
            | ToAgent::Where { .. }
            | ToAgent::End => true,
            _ => false,
        }
    }

    /// Encodes the message as a frame.
    pub fn encode(&self, route: &DownRoute) -> Vec<u8> {
        frame(route, self)
    }

    /// The route of a frame, and the bytes of its message.
    pub fn open(frame: &[u8]) -> Result<(DownRoute, &[u8]), StreamError> {
        open(frame)
    }

    /// Decodes the message of a frame.
    pub fn decode(message: &[u8]) -> Result<ToAgent, StreamError> {
        decode(message)
    }
}
