//! The requests of a tool (`oxmpi checkpoint`, `oxmpi ps`, ...) to a running `mpirun`.
//!
//! They travel over a connection to the launcher's entrance, a socket that keeps message
//! boundaries. A packet is the byte [`VERSION`] and the message as [`oxmpi_rt_client::codec`]
//! encodes it. Ranks connect to the same entrance with messages of [`oxmpi_rt_client::control`].

use std::path::PathBuf;
use std::time::Duration;

use oxmpi_checkpoint::ranks::HostImages;
use oxmpi_rt_client::codec;
use oxmpi_rt_client::control::MAX_MESSAGE;
use serde::{Deserialize, Serialize};

/// Counts changes of these messages; the high bit distinguishes them from those of ranks.
pub const VERSION: u8 = 0x82;

/// A request of a tool. `Imaged`, `ImageFar` and `EndHeld` come later on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolRequest {
    /// Queries the job and whether it can be imaged now. Answered by [`ToolReply::Given`]
    /// ([`JobFacts`]) or a refusal.
    Describe,
    /// Quiesces the messages of all jobs and makes their connections anew. Answered by
    /// [`ToolReply::Done`] with a line for the user when all ranks continue, or by a refusal.
    Quiesce {
        /// Time after which processes that have not come to rest cause a refusal.
        limit_ms: u32,
    },
    /// Holds all processes of the job for imaging, until [`ToolRequest::Imaged`] or the end of the
    /// connection. Answered by [`ToolReply::Given`] ([`crate::held::Held`]) or a refusal.
    Hold,
    /// From the sender of [`ToolRequest::Hold`], on the same connection: all images are complete.
    /// Answered by [`ToolReply::Done`], or by a refusal if the processes have not been held
    /// throughout. The processes continue unless the job is to end.
    Imaged { ends: bool },
    /// From the same sender: images the processes on other hosts there. Answered by
    /// [`ToolReply::Given`] ([`FarImages`]) or a refusal.
    ImageFar { place: ImagePlace },
    /// Calls the program's checkpoint functions (`cr self`), which save its state, or continue it
    /// afterwards. Answered when all have returned 0, by [`ToolReply::Given`]
    /// ([`crate::held::Layout`]) or [`ToolReply::Done`]; or by a refusal.
    CallFunctions { saves: bool },
    /// From the same sender: the checkpoint is on disk, end the job. Answered as
    /// [`ToolRequest::Imaged`].
    EndHeld { set: String },
}

/// An answer of `mpirun` to a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolReply {
    /// The request was carried out.
    Done {
        /// For the user.
        text: String,
    },
    /// The descriptor is a file with the answer.
    Given,
    /// The request was not carried out.
    Refused { reason: String },
}

/// The images that other hosts have made, by the names of the hosts.
pub type FarImages = Vec<(String, HostImages)>;

/// The directory for images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagePlace {
    #[serde(with = "codec::path")]
    pub directory: PathBuf,
    /// The contents of a file there, by which another host knows whether it sees the same
    /// directory.
    pub word: String,
}

impl ToolRequest {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode_versioned(VERSION, self)
    }

    /// Decodes a message; `None` if it is malformed, or of another version.
    pub fn decode(bytes: &[u8]) -> Option<ToolRequest> {
        codec::decode_versioned(VERSION, bytes).ok()
    }
}

impl ToolReply {
    /// Encodes the message in at most [`MAX_MESSAGE`] bytes: a longer text is cut.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode_packet(VERSION, MAX_MESSAGE, self, |reply| match reply {
            ToolReply::Done { text } | ToolReply::Refused { reason: text } => Some(text),
            ToolReply::Given => None,
        })
    }

    /// Decodes a message; `None` if it is malformed, or of another version.
    pub fn decode(bytes: &[u8]) -> Option<ToolReply> {
        codec::decode_versioned(VERSION, bytes).ok()
    }
}

/// The automatic checkpoints of a launcher's parent, the supervisor, which is outside of the imaged
/// process tree. The supervisor handles signals that end the job: the launcher acts on signals
/// that the supervisor relays ([`oxmpi_sys::spawn::relay`]), and forwards others to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervision {
    pub every: Option<Duration>,
    /// Whether a checkpoint is made when SIGTERM ends the job.
    pub on_term: bool,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFacts {
    /// The process number of its `mpirun`, not of a supervisor.
    pub mpirun: u32,
    /// Identifies the job, also after a restart from images.
    pub id: u64,
    pub transport: String,
    /// The number of processes, spawned ones included.
    pub ranks: u32,
    pub hosts: u32,
    pub is_here: bool,
    pub cr: Option<String>,
    /// The automatic checkpoints, if any.
    pub supervision: Option<Supervision>,
    #[serde(with = "codec::path")]
    pub program: PathBuf,
    /// The checkpoint parameters of `mpirun`. Directories are absolute.
    pub params: Vec<(String, String)>,
}
