//! One peer: its link, and the connection that carries it now.

use super::greeting::{Initiator, PROOF, VERDICT, WELCOME};
use super::greetings::{receive_up_to, send_whole};
use super::record::Point;
use super::trouble::Trouble;
use super::{Address, Link};
use oxmpi_os::net::Socket;
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
    /// Another attempt will be made.
    Pause { until: Duration },
    /// It has ended as it should: what is sent to it is dropped.
    Left,
    /// It cannot be reached.
    Lost(String),
}

#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) link: Link,
    pub(super) way: Way,
    pub(super) trouble: Trouble,
    pub(super) incarnation: Option<u64>,
    /// Attempts to connect.
    pub(super) attempts: u32,
    /// When the connection was made.
    pub(super) up_since: Duration,
    /// Where it was last tried.
    pub(super) tried: Option<Address>,
    /// The kernel takes no more for the moment, or never.
    pub(super) is_blocked: bool,
    /// Writing has failed: the connection is only read any more, to its end.
    pub(super) is_broken: bool,
    /// The poller watches for room.
    pub(super) wants_room: bool,
    /// The sink was told that it is lost.
    pub(super) is_told: bool,
}

impl Peer {
    /// Reads the next message of a greeting that we have begun. When it is over: what the peer has received.
    ///
    /// # Errors
    /// Why it is of no use, for a person.
    pub(super) fn greeted(&mut self) -> Result<Option<Point>, String> {
        let Way::Greeting { socket, greeting, got, is_welcome } = &mut self.way else { return Ok(None) };
        let whole = if *is_welcome { VERDICT } else { WELCOME };
        if !receive_up_to(socket, got, whole).map_err(|error| error.to_string())? {
            return Ok(None);
        }
        if let (true, Some(verdict)) = (*is_welcome, got.first_chunk::<VERDICT>()) {
            return greeting.judged(verdict).map(Some).map_err(|error| error.to_string());
        }
        let Some(welcome) = got.first_chunk::<WELCOME>() else { return Ok(None) };
        let (incarnation, proof): (u64, [u8; PROOF]) =
            greeting.welcomed(welcome, self.link.point()).map_err(|error| error.to_string())?;
        if self.incarnation.is_some_and(|known| known != incarnation) {
            return Err(format!("incarnation {incarnation} answered instead of the one known"));
        }
        self.incarnation = Some(incarnation);
        send_whole(socket, &proof).map_err(|error| error.to_string())?;
        got.clear();
        *is_welcome = true;
        Ok(None)
    }
}
