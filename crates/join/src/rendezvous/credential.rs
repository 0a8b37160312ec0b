//! The content of the credentials by which two processes of a step prove themselves to each other.

use oxmpi_wire::Nonce;
use serde::{Deserialize, Serialize};

use super::message;
use crate::munge::{Munge, MungeError, Opened};
use crate::slurm::SlurmStep;

/// The time for which a credential is valid. A nonce makes it useless for any other connection, so
/// a longer time costs nothing, and it allows clocks that differ by as much.
const SECONDS: u16 = 300;

/// Makes and opens credentials: MUNGE, or the one of a test.
pub(super) trait Credentials {
    /// A fresh credential of this process, which is enciphered for its own user.
    fn make(&self, payload: &[u8]) -> Result<String, MungeError>;

    /// Opens a credential, once.
    fn open(&self, credential: &str) -> Result<Opened, MungeError>;

    /// The user of this process, as credentials name it.
    fn uid(&self) -> u32;
}

/// MUNGE with this process's user.
#[derive(Debug)]
pub(super) struct MungeCredentials {
    munge: Munge,
    uid: u32,
}

impl MungeCredentials {
    /// Makes a credential and opens it. This checks the daemon, and finds the user as the daemon
    /// sees it: in a user namespace a process sees another number.
    pub(super) fn new(munge: Munge) -> Result<MungeCredentials, MungeError> {
        let uid = munge.decode(&munge.encode(&[], None, SECONDS)?)?.uid;
        Ok(MungeCredentials { munge, uid })
    }
}

impl Credentials for MungeCredentials {
    fn make(&self, payload: &[u8]) -> Result<String, MungeError> {
        self.munge.encode(payload, Some(self.uid), SECONDS)
    }

    fn open(&self, credential: &str) -> Result<Opened, MungeError> {
        self.munge.decode(credential)
    }

    fn uid(&self) -> u32 {
        self.uid
    }
}

/// The meeting to which a credential belongs: two steps, and two starts of one batch job, never
/// meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MeetingName {
    pub(super) job: u32,
    pub(super) step: u32,
    pub(super) restart: u32,
    /// The number of nodes.
    pub(super) nodes: u32,
}

impl MeetingName {
    pub(super) fn of(step: &SlurmStep) -> MeetingName {
        let nodes = u32::try_from(step.nodes.len()).unwrap_or(u32::MAX);
        MeetingName { job: step.job, step: step.step, restart: step.restart, nodes }
    }
}

impl std::fmt::Display for MeetingName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MeetingName { job, step, restart, nodes } = self;
        write!(f, "step {job}.{step} on {nodes} nodes")?;
        if *restart > 0 { write!(f, ", restart {restart}") } else { Ok(()) }
    }
}

/// Which of the two sides of a connection has made a credential. A credential that comes back to
/// its maker has the wrong side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ClaimedSide {
    /// The process that has connected.
    Member,
    /// The process of node 0, which has accepted.
    Hub {
        /// The hash of the member's credential.
        answers: [u8; 32],
    },
}

/// The payload of a credential.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeClaim {
    pub(super) side: ClaimedSide,
    pub(super) meeting: MeetingName,
    /// The index of the node in the step's list.
    pub(super) node: u32,
    /// The port to which the member has connected. A process that listens on another port cannot
    /// pass the credential on.
    pub(super) port: u16,
    /// Fresh: the nonce of this side, and its half of the connection's key. It is secret, as only
    /// processes of the same user can open the credential.
    pub(super) key: Nonce,
}

impl std::fmt::Debug for NodeClaim {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NodeClaim { side, meeting, node, port, key: _ } = self;
        write!(f, "NodeClaim({side:?}, {meeting}, node {node}, port {port})")
    }
}

/// Why a credential is not that of the process at the other end. The text follows "a connection
/// from ...".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NodeClaimError {
    #[error(transparent)]
    Munge(#[from] MungeError),
    #[error("it is of the user {0}")]
    User(u32),
    #[error("its credential has no content of this version of OxMPI")]
    Malformed,
    #[error("its credential is of the wrong side: it was sent back")]
    Side,
    #[error("it is of {0}")]
    Meeting(MeetingName),
    #[error("its credential is of node {0}, which cannot be")]
    Node(u32),
    #[error("its credential was made for port {0}: another process has passed it on")]
    Port(u16),
    #[error("its credential answers another one: it was recorded, or passed on")]
    Answer,
}

impl NodeClaim {
    pub(super) fn encode(&self) -> Vec<u8> {
        message::encode(self)
    }

    /// Opens a credential and checks everything that both sides know beforehand.
    pub(super) fn open(
        credentials: &impl Credentials,
        credential: &str,
        meeting: &MeetingName,
        port: u16,
    ) -> Result<NodeClaim, NodeClaimError> {
        let opened = credentials.open(credential)?;
        if opened.uid != credentials.uid() {
            return Err(NodeClaimError::User(opened.uid));
        }
        let claim: NodeClaim = message::decode(&opened.payload).ok_or(NodeClaimError::Malformed)?;
        if claim.meeting != *meeting {
            return Err(NodeClaimError::Meeting(claim.meeting));
        }
        if claim.port != port {
            return Err(NodeClaimError::Port(claim.port));
        }
        Ok(claim)
    }

    /// The node of a claim that node 0 has received.
    pub(super) fn member_node(&self) -> Result<u32, NodeClaimError> {
        match self.side {
            ClaimedSide::Member if (1..self.meeting.nodes).contains(&self.node) => Ok(self.node),
            ClaimedSide::Member => Err(NodeClaimError::Node(self.node)),
            ClaimedSide::Hub { .. } => Err(NodeClaimError::Side),
        }
    }

    /// Checks a claim that a member has received as the answer to its credential with this hash.
    pub(super) fn check_hub(&self, hash: &[u8; 32]) -> Result<(), NodeClaimError> {
        match &self.side {
            ClaimedSide::Member => Err(NodeClaimError::Side),
            ClaimedSide::Hub { answers } if answers != hash => Err(NodeClaimError::Answer),
            ClaimedSide::Hub { .. } if self.node != 0 => Err(NodeClaimError::Node(self.node)),
            ClaimedSide::Hub { .. } => Ok(()),
        }
    }
}
