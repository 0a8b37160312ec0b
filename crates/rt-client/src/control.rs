//! The messages between a rank and its launcher.
//!
//! They travel over a socket that keeps message boundaries (`SOCK_SEQPACKET`), so one message is
//! one packet: a byte with the version of this protocol, [`VERSION`], and the message as
//! [`crate::codec`] encodes it. The launcher only answers requests of a rank.
//!
//! The answers [`Reply::Segment`], [`Reply::Listener`], [`Reply::Relay`] and [`Reply::Given`] carry
//! a descriptor (`SCM_RIGHTS`), and so do some requests: data longer than a message are in a file
//! ([`crate::blob`]).

use serde::{Deserialize, Serialize};

use crate::codec::{self, Malformed};
use crate::universe::Contact;

/// Counts changes of these messages: rank and launcher must have the same number.
pub const VERSION: u8 = 5;

/// In bytes. Longer texts are cut.
pub const MAX_MESSAGE: usize = 4096;

/// A message from a rank to `mpirun`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Requests the segment of this rank. Answered by a [`Reply`].
    Segment { rank: u32 },
    /// Requests the sender's own listening socket, in a job over sockets. Answered by
    /// [`Reply::Listener`] or a refusal.
    Listener,
    /// Requests a rank's socket addresses. Answered by [`Reply::Addresses`], [`Reply::Left`] or a
    /// refusal.
    Addresses { rank: u32 },
    /// Spawns the processes in the file that comes with this message ([`crate::universe::Spawn`]).
    /// Answered by [`Reply::Done`] with the number of the first process and, as the text, the
    /// number of processes; or a refusal.
    Spawn,
    /// Requests the parent of this job. Answered by [`Reply::Given`] ([`crate::universe::Parent`])
    /// or a refusal.
    Parent,
    /// The sender has a communicator with processes of other jobs; the file that comes with this
    /// message lists the numbers of all. Not answered.
    Bound { bond: u64 },
    /// The sender has freed that communicator. Not answered.
    Released { bond: u64 },
    /// Queries whether every process has freed this communicator. Answered by [`Reply::Done`]: 1,
    /// or 0 if a process still has it.
    Bond { bond: u64 },
    /// Opens a port. Answered by [`Reply::Done`] with its name, or a refusal.
    OpenPort,
    /// Closes a port. Answered by [`Reply::Done`] or a refusal.
    ClosePort { port: String },
    /// Meets another process at a port; the file that comes with this message is for that process.
    /// Answered by [`Reply::Given`] if the other process waits there, which the sender must then
    /// contact; by [`Reply::Done`] with the number of a ticket if none waits; or by a refusal.
    Meet {
        /// True: accept. False: connect.
        accepts: bool,
        port: String,
    },
    /// Queries a ticket. Answered by [`Reply::Done`]: 0 if the ticket waits, else 1 more than the
    /// process that it has met. Refused if it can meet nobody, or the process that it met has
    /// ended.
    Ticket { ticket: u32, port: String },
    /// As `Ticket`, and gives a waiting ticket back.
    GiveBack { ticket: u32, port: String },
    /// Makes the sender's launcher reachable for other launchers. Answered by [`Reply::Done`] with
    /// the launcher's number among the user's launchers on this machine, or a refusal.
    Reach,
    /// Requests the names of processes, whose numbers are in the file that comes with this message.
    /// Answered by [`Reply::Given`] ([`crate::universe::ProcessName`]), or a refusal.
    Names,
    /// Requests the numbers of processes in this launcher, whose names are in the file that comes
    /// with this message. Answered by [`Reply::Given`], or a refusal.
    Numbers,
    /// Requests the secret by which processes of another launcher authenticate over sockets.
    /// Answered by [`Reply::Secret`] or a refusal.
    Secret { universe: u64 },
    /// Publishes a port under a name. Answered by [`Reply::Done`] or a refusal.
    Publish {
        port: String,
        service: String,
        /// Also to the user's other launchers on this machine.
        everywhere: bool,
    },
    /// Takes a published name back. Answered by [`Reply::Done`] or a refusal.
    Unpublish { port: String, service: String },
    /// Requests the port with this name. Answered by [`Reply::Done`] with the port, or a refusal.
    LookUp { service: String },
    /// Requests the process of a failure. Failures are numbered from 0; the status line of the
    /// segment has their count. Answered by [`Reply::Death`] or a refusal.
    Death { number: u32 },
    /// Requests the alarm of a process, in a job with sockets. Answered by [`Reply::Alarm`] or a
    /// refusal.
    Alarm { rank: u32 },
    /// Requests the sender's socket to the daemon of its node, in a job whose messages go through
    /// daemons. Answered by [`Reply::Relay`] or a refusal.
    Relay,
    /// Requests a further listening socket for processes of other launchers that share no memory
    /// with the sender. Answered by [`Reply::Listener`], by [`Reply::Done`] if the sender needs no
    /// further one, or a refusal.
    Abroad,
    /// Requests the nodes of the processes from a number on. Answered by [`Reply::Given`], a number
    /// for each.
    Nodes { from: u32 },
    /// The sender has taken the step of a quiescence (or of its end) with this number, as in its
    /// segment. Not answered.
    Quiesced { step: u32 },
    /// Requests the postbox segment of the sender's job on its node. Answered by
    /// [`Reply::Postboxes`] or a refusal.
    Postboxes,
    /// The sender descends from a rank's process and wants to be the rank. The first message of a
    /// new connection. Answered, possibly later, by [`Reply::Segment`], by [`Reply::Refused`] if
    /// the sender is a singleton, or by [`Reply::Failed`].
    Enter { number: u32, secret: String },
    /// The sender is the rank, and its control socket was closed: this connection replaces it.
    /// Answered by [`Reply::Done`] or a refusal.
    Return { number: u32, secret: String },
    /// Another launcher has started the sender as this rank of a job of `size` ranks. The first
    /// message to the agent of the host. Answered by [`Reply::Card`], and later by
    /// [`Reply::Segment`] or [`Reply::Failed`]; or at once by [`Reply::Refused`] if the sender is a
    /// singleton, [`Reply::Later`] or [`Reply::Elsewhere`].
    Join {
        rank: u32,
        size: u32,
        /// The number of the process in its own PID namespace.
        pid: u32,
        /// The evidence of that launcher, for diagnostics.
        evidence: String,
    },
    /// The card of the job's head, from the process that has started this agent and has the number
    /// `number` among the users of the process manager. Not answered.
    Head { number: u32, card: Vec<u8> },
    /// The answer to [`Reply::WantsCard`]; `None`: the process manager has none.
    AgentCard { number: u32, card: Option<Vec<u8>> },
    /// The sender, which another launcher has started, has finalized MPI and ends: its end is no
    /// failure, even if its agent ends with it, as in a PID namespace. Answered by [`Reply::Done`].
    Finished,
    /// Ends the job: MPI_Abort (MPI-5.0 section 9.4.1 "Startup"), or an error that the program did
    /// not handle. Not answered.
    Abort {
        /// The exit status of `mpirun`.
        code: i32,
        /// The job's report; only the first one is printed.
        text: String,
    },
    /// Prints this warning once, even if several ranks send it. Not answered.
    Say { text: String },
}

/// An answer of `mpirun`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The descriptor is the segment of `rank`.
    Segment {
        rank: u32,
        /// If the peer belongs to another launcher.
        contact: Option<Contact>,
    },
    /// The descriptor is the alarm of `rank`, which wakes it from a sleep on descriptors.
    Alarm { rank: u32 },
    /// The descriptor is a listening socket of the rank, for connections with this secret.
    Listener { incarnation: u32, secret: [u8; 32] },
    /// The descriptor is the rank's socket to the daemon of its node.
    Relay,
    /// The socket addresses of `rank`.
    Addresses {
        rank: u32,
        /// Separated by blanks.
        addresses: String,
        /// If the peer belongs to another launcher: its contact, and the secret shared with it.
        contact: Option<(Contact, [u8; 32])>,
    },
    /// `rank` has finalized MPI.
    Left { rank: u32 },
    /// The request was carried out.
    Done { number: u32, text: String },
    /// The shape of the postbox segment.
    Postboxes {
        ranks: u32,
        /// The size of a postbox in bytes.
        short: u64,
        /// The size of the pool in bytes.
        pool: u64,
        /// The semaphore sets of the rank.
        semaphores: Vec<i32>,
    },
    /// The secret by which processes of another launcher authenticate.
    Secret { secret: [u8; 32] },
    /// The descriptor is a file with the answer.
    Given,
    /// The card of the host's agent, by which others find and recognise the agent.
    Card { card: Vec<u8> },
    /// The agent is the head, and requests the card of another agent from the process manager.
    WantsCard { number: u32 },
    /// The rank has ended, and its job has not: the sender must try again.
    Later,
    /// The agent cannot serve the sender, which is in another PID namespace.
    Elsewhere,
    /// The process of a failure.
    Death {
        /// The number among all processes of the launcher.
        process: u32,
    },
    /// The process cannot be the rank that it wants to be, and must not be a singleton.
    Failed { reason: String },
    /// The request was not carried out.
    Refused { rank: u32, reason: String },
}

/// Why a message is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error(
        "control protocol version {found}, but this is version {VERSION}: mpirun and the library do not come from the same installation"
    )]
    Version { found: u8 },
    #[error("a control message of {length} bytes makes no sense")]
    Malformed { length: usize },
}

impl Request {
    /// Encodes the message in at most [`MAX_MESSAGE`] bytes: a longer text is cut.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode_packet(VERSION, MAX_MESSAGE, self, Request::text)
    }

    /// Decodes a message of a rank.
    pub fn decode(bytes: &[u8]) -> Result<Request, DecodeError> {
        decode(bytes)
    }

    fn text(&mut self) -> Option<&mut String> {
        match self {
            Request::Abort { text, .. }
            | Request::Say { text }
            | Request::Join { evidence: text, .. } => Some(text),
            Request::Publish { service, .. }
            | Request::Unpublish { service, .. }
            | Request::LookUp { service } => Some(service),
            Request::ClosePort { port }
            | Request::Meet { port, .. }
            | Request::Ticket { port, .. }
            | Request::GiveBack { port, .. } => Some(port),
            _ => None,
        }
    }
}

impl Reply {
    /// The answer to [`Request::Listener`]; `is_there`: the socket has not been sent yet.
    pub fn listener(rank: u32, is_there: bool, (incarnation, secret): (u32, &[u8; 32])) -> Reply {
        if is_there {
            return Reply::Listener { incarnation, secret: *secret };
        }
        let reason = "there is no listening socket for it, or it has got one".to_string();
        Reply::Refused { rank, reason }
    }

    /// Encodes the message in at most [`MAX_MESSAGE`] bytes: a longer text is cut.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode_packet(VERSION, MAX_MESSAGE, self, Reply::text)
    }

    /// Decodes a message of the launcher.
    pub fn decode(bytes: &[u8]) -> Result<Reply, DecodeError> {
        decode(bytes)
    }

    fn text(&mut self) -> Option<&mut String> {
        match self {
            Reply::Done { text, .. } => Some(text),
            Reply::Failed { reason } | Reply::Refused { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, DecodeError> {
    codec::decode_versioned(VERSION, bytes).map_err(|error| match error {
        Malformed::Version(found) => DecodeError::Version { found },
        Malformed::Message => DecodeError::Malformed { length: bytes.len() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let bytes = Request::Say { text: "ä".repeat(5000) }.encode();
        assert!(bytes.len() <= MAX_MESSAGE && bytes.len() > MAX_MESSAGE - 8);
        assert!(
            matches!(Request::decode(&bytes), Ok(Request::Say { text }) if text.chars().all(|c| c == 'ä'))
        );
        let reason = "x".repeat(MAX_MESSAGE);
        let bytes = Reply::Refused { rank: 3, reason }.encode();
        assert!(bytes.len() <= MAX_MESSAGE);
        assert!(matches!(Reply::decode(&bytes), Ok(Reply::Refused { rank: 3, .. })));
    }

    #[test]
    fn another_version_is_distinguished_from_rubbish() {
        assert_eq!(Request::decode(&[9, 1, 0]), Err(DecodeError::Version { found: 9 }));
        for rubbish in [&[][..], &[VERSION], &[VERSION, 200], &[VERSION, 1, 0, 0, 0]] {
            let length = rubbish.len();
            assert_eq!(Request::decode(rubbish), Err(DecodeError::Malformed { length }));
        }
    }
}
