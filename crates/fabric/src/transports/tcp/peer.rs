//! One peer: its link, and the connection that carries it now.

use super::greeting::{Initiator, PROOF, VERDICT, WELCOME};
use super::greetings::{receive_up_to, send_whole};
use super::record::Point;
use super::sealed::Sealed;
use super::trouble::Trouble;
use super::{ANYBODY, Address, GreetingError, Link, RecordError, Secret};
use crate::neighbours::ForeignProcess;
use oxmpi_sys::net::Socket;
use oxmpi_wire::noise::NoiseError;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// How a peer can be reached at the moment.
#[derive(Debug, Default)]
pub(super) enum Way {
    /// There was no reason yet to connect.
    #[default]
    Apart,
    /// It is being connected to.
    Connecting { socket: Socket, limit: Duration },
    /// The connection is there, and both sides find out about each other.
    Greeting {
        socket: Socket,
        greeting: Initiator,
        /// What has come of the next message.
        got: Vec<u8>,
        /// The Welcome has come, the Verdict is next.
        is_welcome: bool,
    },
    /// Over a connection.
    Up(Socket),
    /// Over an encrypted one.
    Sealed(Box<Sealed>),
    /// Another attempt will be made.
    Pause { until: Duration },
    /// It has ended as it should: what is sent to it is dropped.
    Left,
    /// It cannot be reached.
    Lost(String),
}

impl Way {
    /// The connection, if there is one over which records go.
    pub(super) fn connection(&self) -> Option<&Socket> {
        match self {
            Way::Up(socket) => Some(socket),
            Way::Sealed(sealed) => Some(sealed.socket()),
            _ => None,
        }
    }

    /// The connection, or what is to become one.
    pub(super) fn socket(&self) -> Option<&Socket> {
        match self {
            Way::Connecting { socket, .. } | Way::Greeting { socket, .. } => Some(socket),
            _ => self.connection(),
        }
    }

    /// The same, to be changed.
    pub(super) fn socket_mut(&mut self) -> Option<&mut Socket> {
        match self {
            Way::Connecting { socket, .. } | Way::Greeting { socket, .. } | Way::Up(socket) => Some(socket),
            Way::Sealed(sealed) => Some(sealed.socket_mut()),
            Way::Apart | Way::Pause { .. } | Way::Left | Way::Lost(_) => None,
        }
    }
}

/// Why a connection, or an attempt to make one, has failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// For a person.
    pub(super) why: String,
    pub(super) kind: FailureKind,
}

/// What a failure says of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// Nothing: no answer came, as from a process that computes or is stopped; or it is this side that has failed.
    Silent,
    /// The connection was closed at the other end. A process that runs does that now and then, as when it has no place for us; if it
    /// happens each time, something else accepts connections there, or something between the two ends them.
    Closed,
    /// There is no process of the job, or none that can be reached.
    Told,
}

impl Failure {
    /// The other side has closed the connection.
    pub(super) fn closed() -> Failure {
        Failure { why: "the connection was closed at the other end".into(), kind: FailureKind::Closed }
    }

    /// No answer has come.
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

/// How much a process has to do with a peer.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub(super) enum Bond {
    /// They have a communicator, or it is their first contact.
    #[default]
    Close,
    /// They are giving up the last one.
    Ending,
    /// They have none: neither waits for the other, and a connection that breaks is made again when somebody needs it.
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
    /// When the connection was made.
    pub(super) up_since: Duration,
    /// Where it was last tried.
    pub(super) tried: Option<Address>,
    /// How many addresses it has.
    pub(super) alternatives: usize,
    /// Addresses of which the user was told that it is not reached there.
    pub(super) skipped: Vec<SocketAddr>,
    /// The kernel takes no more for the moment, or never.
    pub(super) is_blocked: bool,
    /// Writing has failed: the connection is only read any more, to its end.
    pub(super) is_broken: bool,
    /// The kernel had no memory to send; it is asked again then.
    pub(super) starved_until: Option<Duration>,
    /// The poller watches for room.
    pub(super) wants_room: bool,
    /// The last message that came was long.
    pub(super) sends_long: bool,
    /// How much this process has to do with it.
    pub(super) bond: Bond,
    /// The sink was told that it is lost.
    pub(super) is_told: bool,
    /// Its job, if it is another launcher's.
    pub(super) other_job: Option<u64>,
    /// If so, how to greet it, when this process has connected to it.
    pub(super) stranger: Option<(ForeignProcess, Secret)>,
}

impl TcpPeer {
    /// The number with which frames to it say who has sent them: in another launcher's job this process has another, and
    /// the connection says it anyway.
    pub(super) fn source(&self, own: u32) -> u32 {
        if self.other_job.is_some() { ANYBODY } else { own }
    }

    /// Whether early records have come from it that were never acknowledged (`greeting.rs` rule 10).
    pub(super) fn has_unsaid(&self) -> bool {
        self.connections == 0 && self.link.has_received() && !matches!(self.way, Way::Left | Way::Lost(_))
    }

    /// Whether a message with a body of `len` bytes may go to it early (rule 7 there).
    pub(super) fn takes_early(&self, len: usize) -> bool {
        let Way::Greeting { greeting, .. } = &self.way else { return false };
        let records = greeting.early_records(len);
        records.is_some_and(|records| self.link.has_written_only(records)) && self.link.has_room(len)
    }

    /// Reads the next message of a greeting that we have begun. When it is over: what the peer has received.
    ///
    /// # Errors
    /// Why it is of no use.
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
