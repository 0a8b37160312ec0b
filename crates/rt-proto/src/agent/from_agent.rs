//! Messages of an agent to the head: its ranks' progress, requests, output and ends.

use super::{BranchReport, BranchRound, HostReport, StreamError, UpRoute, decode, frame, open};

use crate::process::{Exit, MpiStage};
use oxmpi_checkpoint::ranks::HostImages;
use oxmpi_rt_client::control::{Reply, Request};
use serde::{Deserialize, Serialize};

/// A message of an agent to the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// The answer of a branch to the question of a round.
    Report { round: BranchRound, report: Box<BranchReport> },
    /// Processes of another launcher's job that have come to the agent as these ranks, before the
    /// job starts.
    Came { ranks: Vec<u32> },
    /// The ranks cannot be started, and none of them is left.
    Failed {
        base: u32,
        /// Whether the program cannot be executed.
        is_program: bool,
        text: String,
    },
    /// Whole lines for the user.
    Text { text: String },
    /// A request or report of a process.
    Request { rank: u32, request: Request, blob: Option<Vec<u8>>, seen: Seen },
    /// Processes of a branch have ended or closed outputs, in this order.
    Events(Vec<ProcessEvent>),
    /// The agents of these hosts are lost: the first has not answered or has ended, and the others
    /// were reached through it. In a job that survives failures its parent takes them over, and
    /// they are lost only if they do not come.
    HostsLost { nodes: Vec<u32>, text: String },
    /// The answer to [`super::ToAgent::Where`].
    Answer { asker: u32, reply: Reply },
    /// A report about the processes of the agent's host.
    Host(HostReport),
    /// A piece of an image file, if images were not made in the directory of the set.
    Piece {
        round: u32,
        /// The file's path in the set. Its pieces are consecutive, up to the first piece of another
        /// file.
        name: String,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// The processes are imaged, and all pieces were sent.
    Imaged { round: u32, images: Result<HostImages, String> },
    /// A sign of life, when nothing else was sent for a while.
    Alive {
        /// The whole branch has all messages up to this number of the head.
        number: u64,
    },
}

/// A change of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessEvent {
    /// The process has closed its standard output, or its standard error output.
    Closed { rank: u32, is_error: bool },
    /// The process has ended.
    Exited { rank: u32, exit: Exit, seen: Seen },
}

/// A rank's state in the header page of its segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// 0: unknown.
    pub pid: u32,
    pub stage: MpiStage,
    /// The number of the last MPI function; 0: none.
    pub last_call: u16,
    /// Whether the process has left MPI for now, and may return (a script's next program).
    pub rests: bool,
}

impl FromAgent {
    /// Whether the message must reach the head even if an agent between is lost. Answers need not,
    /// as their round fails or is begun again, and texts may be lost with a host.
    pub fn is_kept(&self) -> bool {
        match self {
            FromAgent::Host(report) => report.is_kept(),
            FromAgent::Request { .. } | FromAgent::Answer { .. } => true,
            _ => false,
        }
    }

    /// Encodes the message of a host as a frame. `number` is 0 if the message is not kept.
    pub fn encode(&self, node: u32, number: u64) -> Vec<u8> {
        let is_for_parent = matches!(
            self,
            FromAgent::Report { .. }
                | FromAgent::Events(_)
                | FromAgent::HostsLost { .. }
                | FromAgent::Alive { .. }
        );
        let output = match self {
            FromAgent::Host(HostReport::Output { bytes, .. }) => bytes.len() as u32,
            _ => 0,
        };
        frame(&UpRoute { node, is_for_parent, output, number }, self)
    }

    /// The route of a frame, and the bytes of its message.
    pub fn open(frame: &[u8]) -> Result<(UpRoute, &[u8]), StreamError> {
        open(frame)
    }

    /// Decodes the message of a frame.
    pub fn decode(message: &[u8]) -> Result<FromAgent, StreamError> {
        decode(message)
    }
}
