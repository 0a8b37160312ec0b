use super::attempts::FailedAttempts;
use super::greeting::{Initiator, PROOF, VERDICT, WELCOME};
use super::greetings::{receive_up_to, send_whole};
use super::record::Point;
use super::sealed::Sealed;
use super::{ANYBODY, Address, GreetingError, Link, RecordError, Secret};
use crate::peer_segments::ForeignProcess;
use oxmpi_sys::net::Socket;
use oxmpi_wire::noise::NoiseError;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) enum ConnectionState {
    #[default]
    Apart,
    Connecting {
        socket: Socket,
        limit: Duration,
    },
    Greeting {
        socket: Socket,
        greeting: Initiator,
        got: Vec<u8>,
        /// The Welcome has arrived; the Verdict is next.
        is_welcome: bool,
    },
    Up(Socket),
    Sealed(Box<Sealed>),
    Pause {
        until: Duration,
    },
    /// The peer has ended in good order: records to it are dropped.
    Left,
    Lost(String),
}

impl ConnectionState {
    pub(super) fn connection(&self) -> Option<&Socket> {
        match self {
            ConnectionState::Up(socket) => Some(socket),
            ConnectionState::Sealed(sealed) => Some(sealed.socket()),
            _ => None,
        }
    }

    pub(super) fn socket(&self) -> Option<&Socket> {
        match self {
            ConnectionState::Connecting { socket, .. }
            | ConnectionState::Greeting { socket, .. } => Some(socket),
            _ => self.connection(),
        }
    }

    pub(super) fn socket_mut(&mut self) -> Option<&mut Socket> {
        match self {
            ConnectionState::Connecting { socket, .. }
            | ConnectionState::Greeting { socket, .. }
            | ConnectionState::Up(socket) => Some(socket),
            ConnectionState::Sealed(sealed) => Some(sealed.socket_mut()),
            ConnectionState::Apart
            | ConnectionState::Pause { .. }
            | ConnectionState::Left
            | ConnectionState::Lost(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectionFailure {
    pub(super) why: String,
    pub(super) kind: FailureKind,
}

/// What a failure means for the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// Nothing: a process that computes does not answer, or this side has failed.
    Silent,
    /// The other end has closed the connection. A running process does that sometimes, for example
    /// without a place for a greeting. If it happens each time, another program accepts connections
    /// at the address, or something between the two ends them.
    Closed,
    /// The peer has refused the connection: it has another one, its own attempt goes first, or it
    /// has given up this process.
    Refused,
    /// No process of the job exists at the address, or it cannot be reached.
    Unreachable,
}

impl ConnectionFailure {
    pub(super) fn closed() -> ConnectionFailure {
        ConnectionFailure {
            why: "the connection was closed at the other end".into(),
            kind: FailureKind::Closed,
        }
    }

    pub(super) fn silent() -> ConnectionFailure {
        ConnectionFailure { why: "it does not answer".into(), kind: FailureKind::Silent }
    }
}

impl From<String> for ConnectionFailure {
    fn from(why: String) -> ConnectionFailure {
        ConnectionFailure { why, kind: FailureKind::Unreachable }
    }
}

impl From<io::Error> for ConnectionFailure {
    fn from(error: io::Error) -> ConnectionFailure {
        use ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut, UnexpectedEof,
        };
        let kind = match error.kind() {
            TimedOut => FailureKind::Silent,
            UnexpectedEof => return ConnectionFailure::closed(),
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected => FailureKind::Closed,
            _ => FailureKind::Unreachable,
        };
        ConnectionFailure { why: error.to_string(), kind }
    }
}

impl From<GreetingError> for ConnectionFailure {
    fn from(error: GreetingError) -> ConnectionFailure {
        let kind = match error {
            GreetingError::Refused => FailureKind::Refused,
            _ => FailureKind::Unreachable,
        };
        ConnectionFailure { why: error.to_string(), kind }
    }
}

impl From<NoiseError> for ConnectionFailure {
    fn from(error: NoiseError) -> ConnectionFailure {
        error.to_string().into()
    }
}

impl From<RecordError> for ConnectionFailure {
    fn from(error: RecordError) -> ConnectionFailure {
        error.to_string().into()
    }
}

/// The relation of a process with a peer.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub(super) enum Bond {
    /// They have a communicator, or this is their first contact.
    #[default]
    Close,
    Ending,
    /// They have no communicator: neither waits for the other, and connects only to send.
    None,
}

#[derive(Debug, Default)]
pub(super) struct TcpPeer {
    pub(super) link: Link,
    pub(super) state: ConnectionState,
    pub(super) failures: FailedAttempts,
    pub(super) incarnation: Option<u64>,
    pub(super) attempts: u32,
    pub(super) connections: u32,
    pub(super) up_since: Duration,
    pub(super) tried: Option<Address>,
    pub(super) alternatives: usize,
    /// Addresses that were reported to the user as unreachable.
    pub(super) skipped: Vec<SocketAddr>,
    /// The kernel takes no data for the moment, or never.
    pub(super) is_blocked: bool,
    /// Writing has failed: the connection is only read to its end.
    pub(super) is_broken: bool,
    /// The kernel had no memory to send; the time of the next attempt.
    pub(super) starved_until: Option<Duration>,
    pub(super) wants_room: bool,
    pub(super) sends_long: bool,
    pub(super) bond: Bond,
    /// Whether the loss or the end was reported to the sink.
    pub(super) is_reported: bool,
    /// The peer's job, if it is another launcher's.
    pub(super) other_job: Option<u64>,
    /// For a greeting with a peer of another launcher.
    pub(super) foreign: Option<(ForeignProcess, Secret)>,
}

impl TcpPeer {
    /// The source in frames: a peer of another launcher numbers this process differently.
    pub(super) fn source(&self, own: u32) -> u32 {
        if self.other_job.is_some() { ANYBODY } else { own }
    }

    /// Whether the peer has sent early records that were never acknowledged (`greeting.rs` rule
    /// 10).
    pub(super) fn has_unacknowledged_early(&self) -> bool {
        self.connections == 0
            && self.link.has_received()
            && !matches!(self.state, ConnectionState::Left | ConnectionState::Lost(_))
    }

    pub(super) fn takes_early(&self, len: usize) -> bool {
        let ConnectionState::Greeting { greeting, .. } = &self.state else { return false };
        let records = greeting.early_records(len);
        records.is_some_and(|records| self.link.has_written_only(records))
            && self.link.has_room(len)
    }

    /// Reads the next message of the own greeting. At its end, returns the peer's received point.
    pub(super) fn greeted(&mut self) -> Result<Option<Point>, ConnectionFailure> {
        let ConnectionState::Greeting { socket, greeting, got, is_welcome } = &mut self.state
        else {
            return Ok(None);
        };
        let whole = if *is_welcome { VERDICT } else { WELCOME };
        if !receive_up_to(socket, got, whole)? {
            return Ok(None);
        }
        if let (true, Some(verdict)) = (*is_welcome, got.first_chunk::<VERDICT>()) {
            return greeting.judged(verdict).map(Some).map_err(ConnectionFailure::from);
        }
        let Some(welcome) = got.first_chunk::<WELCOME>() else { return Ok(None) };
        let (incarnation, proof): (u64, [u8; PROOF]) =
            greeting.welcomed(welcome, self.link.point())?;
        if self.incarnation.is_some_and(|known| known != incarnation) {
            return Err(
                format!("incarnation {incarnation} answered instead of the one known").into()
            );
        }
        self.incarnation = Some(incarnation);
        send_whole(socket, &proof)?;
        got.clear();
        *is_welcome = true;
        Ok(None)
    }
}
