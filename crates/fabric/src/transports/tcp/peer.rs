//! One peer: its link, and the present connection.

use super::greeting::{Initiator, PROOF, VERDICT, WELCOME};
use super::greetings::{receive_up_to, send_whole};
use super::record::Point;
use super::sealed::Sealed;
use super::trouble::Trouble;
use super::{ANYBODY, Address, GreetingError, Link, RecordError, Secret};
use crate::peer_segments::ForeignProcess;
use oxmpi_sys::net::Socket;
use oxmpi_wire::noise::NoiseError;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// The connection to a peer.
#[derive(Debug, Default)]
pub(super) enum Way {
    /// None: there was no reason to connect.
    #[default]
    Apart,
    /// An attempt to connect.
    Connecting { socket: Socket, limit: Duration },
    /// A connection without a complete greeting.
    Greeting {
        socket: Socket,
        greeting: Initiator,
        /// The received part of the next message.
        got: Vec<u8>,
        /// The Welcome has arrived, the Verdict is next.
        is_welcome: bool,
    },
    /// A usable connection.
    Up(Socket),
    /// A usable encrypted connection.
    Sealed(Box<Sealed>),
    /// Another attempt follows.
    Pause { until: Duration },
    /// The peer has ended as it should: records to it are dropped.
    Left,
    /// The peer cannot be reached.
    Lost(String),
}

impl Way {
    /// The socket of a usable connection.
    pub(super) fn connection(&self) -> Option<&Socket> {
        match self {
            Way::Up(socket) => Some(socket),
            Way::Sealed(sealed) => Some(sealed.socket()),
            _ => None,
        }
    }

    /// The socket of a connection, usable or not.
    pub(super) fn socket(&self) -> Option<&Socket> {
        match self {
            Way::Connecting { socket, .. } | Way::Greeting { socket, .. } => Some(socket),
            _ => self.connection(),
        }
    }

    pub(super) fn socket_mut(&mut self) -> Option<&mut Socket> {
        match self {
            Way::Connecting { socket, .. } | Way::Greeting { socket, .. } | Way::Up(socket) => Some(socket),
            Way::Sealed(sealed) => Some(sealed.socket_mut()),
            Way::Apart | Way::Pause { .. } | Way::Left | Way::Lost(_) => None,
        }
    }
}

/// The reason why a connection, or an attempt to make one, has failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// For the user.
    pub(super) why: String,
    pub(super) kind: FailureKind,
}

/// The meaning of a failure for the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// None: there was no answer, as from a process that computes or is stopped; or this side has
    /// failed.
    Silent,
    /// The connection was closed at the other end. A running process does that now and then, as
    /// when it has no place for a greeting; if it happens each time, another program accepts
    /// connections there, or something between the two ends them.
    Closed,
    /// There is no process of the job, or it cannot be reached.
    Told,
}

impl Failure {
    pub(super) fn closed() -> Failure {
        Failure { why: "the connection was closed at the other end".into(), kind: FailureKind::Closed }
    }

    pub(super) fn silent() -> Failure {
        Failure { why: "it does not answer".into(), kind: FailureKind::Silent }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure { why, kind: FailureKind::Told }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        use ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut, UnexpectedEof,
        };
        let kind = match error.kind() {
            TimedOut => FailureKind::Silent,
            UnexpectedEof => return Failure::closed(),
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected => FailureKind::Closed,
            _ => FailureKind::Told,
        };
        Failure { why: error.to_string(), kind }
    }
}

impl From<GreetingError> for Failure {
    fn from(error: GreetingError) -> Failure {
        error.to_string().into()
    }
}

impl From<NoiseError> for Failure {
    fn from(error: NoiseError) -> Failure {
        error.to_string().into()
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Failure {
        error.to_string().into()
    }
}

/// The relation of a process with a peer.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub(super) enum Bond {
    /// They have a communicator, or it is their first contact.
    #[default]
    Close,
    /// They are giving up the last communicator.
    Ending,
    /// They have no communicator: neither waits for the other, and a broken connection is made
    /// again at its next use.
    None,
}

#[derive(Debug, Default)]
pub(super) struct TcpPeer {
    pub(super) link: Link,
    pub(super) way: Way,
    pub(super) trouble: Trouble,
    pub(super) incarnation: Option<u64>,
    /// Attempts to connect.
    pub(super) attempts: u32,
    /// Connections that were made.
    pub(super) connections: u32,
    pub(super) up_since: Duration,
    /// The address of the last attempt.
    pub(super) tried: Option<Address>,
    /// The number of its addresses.
    pub(super) alternatives: usize,
    /// Addresses that were reported to the user as not reachable.
    pub(super) skipped: Vec<SocketAddr>,
    /// The kernel takes no more for the moment, or never.
    pub(super) is_blocked: bool,
    /// Writing has failed: the connection is only read any more, to its end.
    pub(super) is_broken: bool,
    /// The kernel had no memory to send; the next attempt is at this time.
    pub(super) starved_until: Option<Duration>,
    pub(super) wants_room: bool,
    /// The last message from it was long.
    pub(super) sends_long: bool,
    pub(super) bond: Bond,
    /// Whether the loss was reported to the sink.
    pub(super) is_told: bool,
    /// Its job, if it is another launcher's.
    pub(super) other_job: Option<u64>,
    /// Its identity and secret for the greeting, if it belongs to another launcher and this process
    /// connects to it.
    pub(super) stranger: Option<(ForeignProcess, Secret)>,
}

impl TcpPeer {
    /// The source in frames to it: a peer of another launcher numbers this process differently, and
    /// knows the sender by the connection.
    pub(super) fn source(&self, own: u32) -> u32 {
        if self.other_job.is_some() { ANYBODY } else { own }
    }

    /// Whether early records have arrived from it that were never acknowledged (`greeting.rs` rule
    /// 10).
    pub(super) fn has_unsaid(&self) -> bool {
        self.connections == 0 && self.link.has_received() && !matches!(self.way, Way::Left | Way::Lost(_))
    }

    /// Whether a message with a body of `len` bytes may go to it early (`greeting.rs` rule 7).
    pub(super) fn takes_early(&self, len: usize) -> bool {
        let Way::Greeting { greeting, .. } = &self.way else { return false };
        let records = greeting.early_records(len);
        records.is_some_and(|records| self.link.has_written_only(records)) && self.link.has_room(len)
    }

    /// Reads the next message of a greeting that this process has begun. At the end of the
    /// greeting: the point that the peer has received.
    pub(super) fn greeted(&mut self) -> Result<Option<Point>, Failure> {
        let Way::Greeting { socket, greeting, got, is_welcome } = &mut self.way else { return Ok(None) };
        let whole = if *is_welcome { VERDICT } else { WELCOME };
        if !receive_up_to(socket, got, whole)? {
            return Ok(None);
        }
        if let (true, Some(verdict)) = (*is_welcome, got.first_chunk::<VERDICT>()) {
            return greeting.judged(verdict).map(Some).map_err(Failure::from);
        }
        let Some(welcome) = got.first_chunk::<WELCOME>() else { return Ok(None) };
        let (incarnation, proof): (u64, [u8; PROOF]) = greeting.welcomed(welcome, self.link.point())?;
        if self.incarnation.is_some_and(|known| known != incarnation) {
            return Err(format!("incarnation {incarnation} answered instead of the one known").into());
        }
        self.incarnation = Some(incarnation);
        send_whole(socket, &proof)?;
        got.clear();
        *is_welcome = true;
        Ok(None)
    }
}
