//! The messages of daemons: with each other, with the programs of their user, and with `oxmpi
//! boot`. Pure encoding and decoding.
//!
//! [`oxmpi_rt_client::codec`] encodes them. The side that connects sends its [`Purpose`] first; the
//! answer is [`DaemonMessage::Accepted`] or [`DaemonMessage::Refused`].

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use oxmpi_rt_client::codec;
use oxmpi_wire::Secret;
use serde::{Deserialize, Serialize};

/// A node of a universe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    /// Processors to run ranks on.
    pub cpus: u32,
    /// Whether `N` and `C` include the node.
    pub is_scheduled: bool,
    /// Whether `oxmpi boot` ran on it.
    pub is_origin: bool,
    /// The addresses of its daemon for other daemons; empty if there are none.
    pub addresses: Vec<SocketAddr>,
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProgramEnd {
    Exited(i32),
    Killed(i32),
}

impl ProgramEnd {
    /// The exit status as a shell reports it: 128 + the signal's number.
    pub fn code(self) -> i32 {
        match self {
            ProgramEnd::Exited(code) => code,
            ProgramEnd::Killed(signal) => 128 + signal,
        }
    }
}

/// Daemons and programs of one universe come from one installation.
pub const VERSION: u32 = 3;

/// The purpose of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Requests of the user's program.
    Control,
    /// A standard stream, after the answer, of a program that a control connection will start.
    Stream {
        /// The number of the control connection, from [`DaemonMessage::Accepted`].
        connection: u64,
        stream: u32,
    },
    /// A link with another daemon; of an agent, its lifeline.
    Peer { node: u32 },
    /// The stream of an agent whose parent is lost, to its grandparent.
    Stranded {
        node: u32,
        /// The number of the last message of the head that it has.
        number: u64,
        /// The hosts of its branch, its own first.
        nodes: Vec<u32>,
    },
    /// The stream of an agent that the head has not started.
    Caller {
        /// The agent's own name of its host.
        host: String,
    },
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    pub id: u32,
    pub stdio: u32,
    pub errors: u32,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    #[serde(with = "codec::path")]
    pub directory: PathBuf,
    /// Whether `directory` must exist; otherwise the home directory replaces it.
    pub is_strict: bool,
    /// After this time without an answer of the requester's host, the program ends.
    pub silence_s: u32,
}

/// What a new daemon needs from `oxmpi boot`: the secret, its node, and the choice of interfaces.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seed {
    #[serde(with = "secret")]
    pub secret: Secret,
    pub node: u32,
    pub size: u32,
    pub suffix: String,
    pub include: String,
    pub exclude: String,
}

impl PartialEq for Seed {
    fn eq(&self, other: &Seed) -> bool {
        let fields = |seed: &Seed| {
            (seed.node, seed.size, seed.suffix.clone(), seed.include.clone(), seed.exclude.clone())
        };
        self.secret.0 == other.secret.0 && fields(self) == fields(other)
    }
}

/// A node, as a daemon sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    pub node: Node,
    /// Why its daemon does not answer; `None`: it answers.
    pub trouble: Option<String>,
}

/// The universe, as a daemon sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct View {
    pub own: u32,
    #[serde(with = "secret")]
    pub secret: Secret,
    pub nodes: Vec<NodeView>,
}

impl PartialEq for View {
    fn eq(&self, other: &View) -> bool {
        (self.own, &self.nodes, self.secret.0) == (other.own, &other.nodes, other.secret.0)
    }
}

/// A message of a daemon, to one, or of a new one to `oxmpi boot`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DaemonMessage {
    /// The first message of each connection.
    Purpose(Purpose),
    /// The answer to a purpose. The number identifies the connection.
    Accepted { connection: u64 },
    /// The answer to a purpose that the daemon does not serve.
    Refused { reason: String },
    /// Requests the daemon's view of the universe. Answered by [`DaemonMessage::View`].
    Ask,
    /// The universe, as the daemon sees it.
    View(View),
    /// Runs a program. Answered by [`DaemonMessage::Started`] or [`DaemonMessage::Failed`], and
    /// later by [`DaemonMessage::Ended`].
    Exec(Exec),
    /// The program runs.
    Started { id: u32, pid: u32 },
    /// The program cannot be run.
    Failed {
        id: u32,
        /// errno, or 0.
        error: i32,
        reason: String,
    },
    /// The program has ended.
    Ended { id: u32, how: ProgramEnd },
    /// From a program: ends the universe; answered by [`DaemonMessage::Halted`]. From another
    /// daemon: ends this one; answered by the same message after all its programs.
    Halt,
    /// The universe has ended; the daemons of the missing nodes have not answered.
    Halted { missing: Vec<u32> },
    /// From `oxmpi boot` to a new daemon: the facts that it needs.
    Seed(Seed),
    /// From a new daemon: its addresses.
    Ready { version: u32, host: String, cpus: u32, addresses: Vec<SocketAddr> },
    /// From `oxmpi boot` to a new daemon: all nodes, to which it connects.
    Table { nodes: Vec<Node> },
    /// From a new daemon: it has a link with each other daemon.
    Connected,
    /// To a new daemon: go into the background. Answered by [`DaemonMessage::Gone`].
    Go,
    /// From a new daemon: it is in the background.
    Gone,
    /// From a new daemon: it cannot continue.
    Trouble { reason: String },
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message makes no sense")]
pub struct MalformedMessage;

impl DaemonMessage {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Decodes a message.
    pub fn decode(bytes: &[u8]) -> Result<DaemonMessage, MalformedMessage> {
        match codec::decode(bytes) {
            Some(DaemonMessage::View(view)) if view.own as usize >= view.nodes.len() => {
                Err(MalformedMessage)
            }
            Some(message) => Ok(message),
            None => Err(MalformedMessage),
        }
    }
}

/// Encodes a secret as its bytes.
mod secret {
    use oxmpi_wire::Secret;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        secret.0.serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Secret, D::Error> {
        <[u8; 32]>::deserialize(from).map(Secret)
    }
}
