//! Agents that call the head. A cluster's launcher such as Slurm's `srun` starts an agent on each
//! host, so no stream from the head leads to them. Each agent connects with the head.
//!
//! Head and agents share no secret, and the launcher's streams are not encrypted. But data of other
//! users do not come through these streams. So both sides exchange public keys there: the head
//! gives each agent an [`Invitation`], and gets the key of the agent with each number. The secret
//! of a connection follows from both keys ([`oxmpi_wire::keys`]).
//!
//! ```text
//! agent                                             head
//!   magic (16 bytes), number (4 bytes)      ->        waits for the key of the agent
//!   handshake (`oxmpi_daemon::channel`)    <->
//!   purpose, with the name of its host      ->
//!                                          <-       accepted
//!   stream                                 <->      stream
//! ```
//!
//! The number comes in plain, and any process can send it. Such a connection is closed by its age,
//! or for newer ones ([`oxmpi_daemon::unauthenticated`]). An agent whose connection is closed
//! before the head has accepted it calls again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::str::FromStr;
use std::time::{Duration, Instant};

use oxmpi_param::Params;
use oxmpi_sys::net::{Listener, Socket};
use oxmpi_wire::Secret;
use oxmpi_wire::hex::{from_hex, to_hex};
use oxmpi_wire::keys::{KeyPair, PublicKey};
use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};
use tracing::debug;

use super::encrypted::EncryptedSocket;
use super::lifeline::HEAD;
use crate::hostmap::Hostmap;
use crate::launch::LaunchError;
use crate::launch::parts::listen_for_agents;
use oxmpi_daemon::channel::SecureChannel;
use oxmpi_daemon::interfaces::near_first;
use oxmpi_daemon::stream::Stream;
use oxmpi_daemon::unauthenticated::{self, AT_ONCE};
use oxmpi_rt_client::codec;
use oxmpi_rt_proto::agent::{self, StreamError};
use oxmpi_rt_proto::daemon::{DaemonMessage, Purpose};

/// The first bytes of a caller, with the version of this protocol.
const MAGIC: [u8; 16] = *b"OxMPI caller 001";
const PREAMBLE: usize = MAGIC.len() + 4;
/// The most connections without proof, beside one for each caller whose key is known.
const MAX_UNAUTHENTICATED: usize = 256;
/// The limit for the proof of a connection.
const PROVING: Duration = Duration::from_secs(10);
/// How long an agent waits before it calls again, and how long the head accepts no connection after
/// its descriptors ran out.
const PAUSE: Duration = Duration::from_millis(200);
/// The silence of the head's host after which an agent ends, until it has a lifeline.
const SILENCE: Duration = Duration::from_secs(60);

/// How an agent finds and recognises the head: nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// The version of the agents' messages ([`agent::VERSION`]).
    pub version: u32,
    /// The addresses of the head's listener.
    pub addresses: Vec<SocketAddr>,
    /// The key of the head.
    pub key: PublicKey,
}

impl Invitation {
    /// The invitation of a head that no agent can call.
    pub(crate) fn to_nowhere() -> Result<Invitation, LaunchError> {
        let key = key_pair()?.public();
        Ok(Invitation { version: agent::VERSION, addresses: Vec::new(), key })
    }

    /// The invitation as bytes for [`Invitation::decode`].
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Reads an invitation; an error also if it is one of another version of OxMPI.
    pub fn decode(bytes: &[u8]) -> Result<Invitation, StreamError> {
        codec::decode(bytes).ok_or(StreamError::Malformed { length: bytes.len() })
    }
}

/// The invitation in hexadecimal digits, as a word of a command line.
impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.encode()))
    }
}

impl FromStr for Invitation {
    type Err = StreamError;

    fn from_str(text: &str) -> Result<Invitation, StreamError> {
        let bytes = from_hex(text).ok_or(StreamError::Malformed { length: text.len() })?;
        Invitation::decode(&bytes)
    }
}

/// The listener of the head for agents that it has not started itself.
#[derive(Debug)]
pub(crate) struct Callers {
    listener: Listener,
    keys: KeyPair,
    guests: BTreeMap<u64, Guest>,
    next: u64,
    /// The secrets that the head shares with callers.
    known: BTreeMap<u32, Secret>,
    /// The numbers of the callers that have proved their keys.
    proved: BTreeSet<u32>,
    arrived: Vec<Caller>,
    /// No connection is accepted before.
    paused: Option<Instant>,
}

/// An agent that has called, and has proved its key.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) number: u32,
    /// The caller's own name of its host.
    pub(crate) host: String,
    pub(crate) stream: Stream,
}

/// A connection without proof.
#[derive(Debug)]
struct Guest {
    since: Instant,
    state: GuestState,
}

#[derive(Debug)]
enum GuestState {
    /// The first bytes have not all come.
    Anonymous(Socket, Vec<u8>),
    /// The key of the caller with this number was not known at the last event.
    Named(Socket, u32),
    Proving(EncryptedSocket, u32),
}

impl GuestState {
    fn has_greeted(&self) -> bool {
        matches!(self, GuestState::Proving(link, _) if link.channel.has_greeted())
    }
}

/// A new pair of keys.
pub(super) fn key_pair() -> Result<KeyPair, LaunchError> {
    KeyPair::generate().map_err(|e| LaunchError::Kernel("make a key pair", io::Error::other(e)))
}

/// The first bytes of the caller with this number; also the label of its secret.
fn preamble(number: u32) -> Vec<u8> {
    [&MAGIC[..], &number.to_le_bytes()].concat()
}

impl Callers {
    /// Listens for agents of other hosts.
    pub(crate) fn listen(
        params: &Params,
        hostmap: &Hostmap,
    ) -> Result<(Callers, Invitation), LaunchError> {
        let (listener, addresses) = listen_for_agents(params, hostmap)?;
        Callers::over(listener, addresses)
    }

    fn over(
        listener: Listener,
        addresses: Vec<SocketAddr>,
    ) -> Result<(Callers, Invitation), LaunchError> {
        let keys = key_pair()?;
        let invitation = Invitation { version: agent::VERSION, addresses, key: keys.public() };
        let callers = Callers {
            listener,
            keys,
            guests: BTreeMap::new(),
            next: 0,
            known: BTreeMap::new(),
            proved: BTreeSet::new(),
            arrived: Vec::new(),
            paused: None,
        };
        Ok((callers, invitation))
    }

    /// The head's keys, by which it may also call another head.
    pub(crate) fn keys(&self) -> &KeyPair {
        &self.keys
    }

    /// Adds the descriptors whose events [`Callers::serve`] handles.
    pub(crate) fn poll_into<'f>(&'f self, fds: &mut Vec<PollFd<'f>>) {
        if self.paused.is_none() {
            fds.push(PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN));
        }
        let sockets = self.guests.values().filter_map(|guest| match &guest.state {
            GuestState::Anonymous(socket, _) => Some(socket),
            // Its next bytes stay in the socket until the key is known.
            GuestState::Named(socket, number) => self.known.contains_key(number).then_some(socket),
            GuestState::Proving(link, _) => Some(&link.socket),
        });
        fds.extend(sockets.map(|socket| PollFd::new(socket, PollFlags::IN)));
    }

    /// When [`Callers::serve`] has something to do without an event.
    pub(crate) fn next_limit(&self) -> Option<Instant> {
        let ages = self.guests.values().map(|guest| guest.since + PROVING);
        ages.chain(self.paused).min()
    }

    /// Serves connections without waiting. Returns the numbers of callers whose keys are not known
    /// yet; [`Callers::know`] answers.
    pub(crate) fn serve(&mut self) -> Vec<u32> {
        let now = Instant::now();
        self.paused.take_if(|until| *until <= now);
        if self.paused.is_none() {
            self.welcome(now);
        }
        let mut unknown = BTreeSet::new();
        for (id, Guest { since, state }) in std::mem::take(&mut self.guests) {
            let next = if since + PROVING > now { self.advance(state) } else { None };
            if let Some(state) = next {
                if let GuestState::Named(_, number) = state {
                    unknown.insert(number);
                }
                self.guests.insert(id, Guest { since, state });
            }
        }
        unknown.into_iter().collect()
    }

    /// The key of the caller with this number, from a source that the head trusts. `None`: the
    /// number has no caller, and its connections are closed.
    pub(crate) fn know(&mut self, number: u32, key: Option<PublicKey>) {
        // A key that hides no secret is none.
        match key.and_then(|key| self.keys.shared(&key, &preamble(number)).ok()) {
            Some(secret) => _ = self.known.insert(number, secret),
            None => self.guests.retain(
                |_, guest| !matches!(guest.state, GuestState::Named(_, of) if of == number),
            ),
        }
    }

    /// The callers that have proved their keys since the last call, each number once.
    pub(crate) fn take_arrived(&mut self) -> Vec<Caller> {
        std::mem::take(&mut self.arrived)
    }

    /// Accepts connections; if there are too many without proof, the oldest is closed.
    fn welcome(&mut self, now: Instant) {
        for _ in 0..AT_ONCE {
            match self.listener.accept() {
                Ok(Some((socket, _))) => {
                    self.make_room(self.known.len() + MAX_UNAUTHENTICATED);
                    let state = GuestState::Anonymous(socket, Vec::new());
                    self.guests.insert(self.next, Guest { since: now, state });
                    self.next += 1;
                }
                Ok(None) => return,
                // No descriptors or no memory are left.
                Err(_) if self.make_room(1) => {}
                Err(_) => return self.paused = Some(now + PAUSE),
            }
        }
    }

    /// If there are `most` connections without proof, closes one; returns whether it did.
    fn make_room(&mut self, most: usize) -> bool {
        let all = self.guests.iter().map(|(id, guest)| (*id, guest.state.has_greeted()));
        unauthenticated::loser(all, most).is_some_and(|id| self.guests.remove(&id).is_some())
    }

    /// Handles a connection's data. `None`: the connection is closed, or has become a caller's.
    fn advance(&mut self, state: GuestState) -> Option<GuestState> {
        let (socket, number) = match state {
            GuestState::Anonymous(socket, mut came) => {
                while came.len() < PREAMBLE {
                    // The bytes behind these stay in the socket, for the channel.
                    let mut bytes = [0; PREAMBLE];
                    match socket.receive(&mut bytes[came.len()..]) {
                        Ok(0) => return None,
                        Ok(n) => came.extend_from_slice(&bytes[came.len()..][..n]),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            return Some(GuestState::Anonymous(socket, came));
                        }
                        Err(_) => return None,
                    }
                }
                let number = came.strip_prefix(&MAGIC)?.try_into().ok()?;
                (socket, u32::from_le_bytes(number))
            }
            GuestState::Named(socket, number) => (socket, number),
            GuestState::Proving(link, number) => return self.advance_proof(link, number),
        };
        if self.proved.contains(&number) {
            return None;
        }
        let Some(secret) = self.known.get(&number) else {
            return Some(GuestState::Named(socket, number));
        };
        let channel = SecureChannel::acceptor(secret, HEAD);
        self.advance_proof(EncryptedSocket { socket, channel }, number)
    }

    fn advance_proof(&mut self, mut link: EncryptedSocket, number: u32) -> Option<GuestState> {
        match link.next().ok()? {
            None => Some(GuestState::Proving(link, number)),
            Some(DaemonMessage::Purpose(Purpose::Caller { host }))
                if !self.proved.contains(&number) =>
            {
                debug!(number, host, "an agent has called");
                link.send(&DaemonMessage::Accepted { connection: number.into() }).ok()?;
                // The agent's messages are its signs of life.
                let stream = link.into_stream(None).ok()?;
                self.proved.insert(number);
                self.arrived.push(Caller { number, host, stream });
                None
            }
            Some(_) => None,
        }
    }
}

/// Connects with the head as the agent with this number, on a host with this name; `limit`: the
/// time until the head must have accepted the connection.
pub(crate) fn call(
    invitation: &Invitation,
    number: u32,
    keys: &KeyPair,
    host: &str,
    limit: Duration,
) -> io::Result<Stream> {
    if invitation.version != agent::VERSION {
        let text = format!(
            "the head has version {} of the agents' messages, and this agent version {}: install the same version of OxMPI \
             on all hosts",
            invitation.version,
            agent::VERSION
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let until = Instant::now() + limit;
    let preamble = preamble(number);
    let secret = keys.shared(&invitation.key, &preamble).map_err(io::Error::other)?;
    let purpose = Purpose::Caller { host: host.into() };
    let mut addresses = invitation.addresses.clone();
    near_first(&mut addresses);
    let call = |address: SocketAddr| {
        // Another process may listen at an address that is unique in its network only.
        let until = until.min(Instant::now() + PROVING + PAUSE);
        let mut link = EncryptedSocket::dial(address, &preamble, &secret, &purpose, until)?;
        match link.await_next(until)? {
            DaemonMessage::Accepted { .. } => link.into_stream(Some(SILENCE)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    };
    loop {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in &addresses {
            match call(*address) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = io::Error::new(error.kind(), format!("{address}: {error}")),
            }
        }
        if Instant::now() + PAUSE >= until {
            return Err(last);
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
