//! The order to prepare ranks: all that an agent needs to start them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::held::{HeldRank, Images};
use crate::process::Bind;
use oxmpi_rt_client::codec;
use serde::{Deserialize, Serialize};

/// A variable of an environment.
pub type Variable = (OsString, OsString);

/// A job whose ranks agents are to start, each those of its host. The same for all agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentOrder {
    /// Identifies all jobs of the head.
    pub universe: u64,
    /// The number of the first process of the job; the others follow.
    pub base: u32,
    /// Whether the jobs of the head are on several hosts.
    pub several: bool,
    /// The number of failed processes so far.
    pub deaths: u32,
    /// The last step of a quiescence that was requested.
    pub step: u32,
    pub sockets: bool,
    /// The host of each rank.
    pub nodes: Vec<u32>,
    /// Ranks are numbered in this order.
    pub apps: Vec<OrderedProgram>,
    /// Variables for all ranks; they replace inherited ones.
    pub env: Vec<Variable>,
    pub secret: [u8; 32],
    pub hostmap: Vec<(String, String)>,
    pub bind: Bind,
    pub report_bindings: bool,
    /// The ranks of all agents whose standard input the head sends.
    pub fed: Vec<u32>,
    /// Restores the ranks from images in place of starting them.
    pub restore: Option<RestoreOrder>,
}

/// How ranks are restored. They stay stopped until [`super::ToAgent::GoOn`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreOrder {
    pub images: Images,
    pub mark: String,
    /// All marks that processes of the job may have: while a process has one, the job still runs.
    pub marks: Vec<String>,
    /// The quiescence step by which the ranks notice that they continue.
    pub step: u32,
    /// The ranks of all hosts.
    pub ranks: Vec<HeldRank>,
}

/// How an agent can connect a lifeline (`hosts/lifeline.rs`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifelineOffer {
    pub addresses: Vec<SocketAddr>,
    pub secret: [u8; 32],
}

/// The connections that an agent can make with agents above it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedLifelines {
    /// That with its parent.
    pub parent: LifelineOffer,
    /// Whether the stream does not tell that the parent's host is gone.
    pub is_needed: bool,
    /// That with its grandparent, which takes the agent over if the parent is lost: in a job that
    /// survives failures.
    pub adopter: Option<LifelineOffer>,
}

/// A program of an [`AgentOrder`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedProgram {
    pub ranks: u32,
    /// As the head has found it.
    #[serde(with = "codec::path")]
    pub path: PathBuf,
    pub args: Vec<OsString>,
    /// Variables that the ranks inherit from the head; `None`: those of the agent.
    pub inherited: Option<Vec<Variable>>,
    pub env: Vec<Variable>,
    #[serde(with = "codec::path")]
    pub directory: PathBuf,
}
