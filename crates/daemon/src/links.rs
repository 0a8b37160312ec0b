//! The links of a daemon with the others: each connects to the daemons with lower numbers.
//!
//! A broken link is made again by the side that has made it: after a second, then after growing
//! times. A daemon that refuses connections at all its addresses has ended, as a new one has other
//! ports; then no further attempt is made.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use oxmpi_sys::net::{self, Socket};
use tracing::{debug, info, warn};

use super::Node;
use super::channel::SecureChannel;
use super::serve::{Daemon, DaemonConnection, PeerSocket, Role};
use crate::interfaces;
use oxmpi_rt_proto::daemon::{DaemonMessage, Purpose};

/// The first and the longest pause before a link is made again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The limit for answers of the kernel of another daemon's host.
const SILENCE: Duration = Duration::from_secs(60);

pub(super) struct DaemonPeer {
    pub(super) node: Node,
    pub(super) link: Option<u64>,
    is_own: bool,
    trouble: Option<String>,
    /// The attempts to connect, if this side connects.
    dial: Option<Dial>,
}

struct Dial {
    address: usize,
    /// The time of the next attempt; `None` during an attempt, and while there is a link.
    next: Option<Instant>,
    pause: Duration,
    is_refused: bool,
}

impl DaemonPeer {
    /// Node `number`, as seen by node `own`.
    pub(super) fn new(mut node: Node, number: u32, own: u32) -> DaemonPeer {
        if number < own {
            // Addresses in networks of this host come first.
            interfaces::near_first(&mut node.addresses);
        }
        let dial = (number < own).then(|| Dial {
            address: 0,
            next: Some(Instant::now()),
            pause: PAUSES.0,
            is_refused: true,
        });
        DaemonPeer { node, link: None, is_own: number == own, trouble: None, dial }
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_own || self.link.is_some()
    }

    pub(super) fn trouble(&self) -> Option<String> {
        match (self.is_up(), &self.trouble) {
            (true, _) => None,
            (false, Some(trouble)) => Some(trouble.clone()),
            (false, None) => Some("there is no connection with it yet".into()),
        }
    }
}

impl Daemon {
    pub(super) fn dial_time(&self) -> Option<Instant> {
        self.peers.iter().filter_map(|peer| peer.dial.as_ref()?.next).min()
    }

    pub(super) fn dial_due(&mut self, now: Instant) {
        for node in 0..self.peers.len() {
            let is_due = |dial: &Dial| dial.next.is_some_and(|next| next <= now);
            if self.peers[node].dial.as_ref().is_some_and(is_due) {
                self.dial(node as u32);
            }
        }
    }

    fn dial(&mut self, node: u32) {
        let peer = &mut self.peers[node as usize];
        let Some(dial) = &mut peer.dial else { return };
        dial.next = None;
        let Some(to) = peer.node.addresses.get(dial.address).copied() else {
            return self.not_reached(node, "its addresses are not known");
        };
        let channel = match SecureChannel::initiator(&self.seed.secret, node) {
            Ok(channel) => channel,
            Err(error) => return self.not_reached(node, &error.to_string()),
        };
        debug!(node, %to, "connecting to a daemon");
        match Socket::connect(to, None) {
            Ok(socket) => {
                if self.add(PeerSocket::Far(socket), channel, Role::Dialling(node)).is_none() {
                    self.not_reached(node, "no descriptor is left");
                }
            }
            Err(error) => {
                let is_refused = error.kind() == std::io::ErrorKind::ConnectionRefused;
                self.failed(node, is_refused, &format!("{to}: {error}"));
            }
        }
    }

    /// Handles the outcome if the connection is an attempt; `false` if it has failed.
    pub(super) fn dialled(&mut self, number: u64) -> bool {
        let Some(DaemonConnection {
            role: Role::Dialling(node),
            link: PeerSocket::Far(socket),
            ..
        }) = self.connections.get(&number)
        else {
            return true;
        };
        let (node, outcome) = (*node, socket.outcome());
        if let Err(error) = outcome {
            if let Some(connection) = self.connections.remove(&number) {
                self.poller.remove(&connection.link);
            }
            let to = self.address_of(node);
            let is_refused = error.kind() == std::io::ErrorKind::ConnectionRefused;
            self.failed(node, is_refused, &format!("{to}: {error}"));
            return false;
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.role = Role::Greeting(node);
        }
        let own = self.seed.node;
        self.send(number, &DaemonMessage::Purpose(Purpose::Peer { node: own }));
        true
    }

    fn address_of(&self, node: u32) -> String {
        let peer = &self.peers[node as usize];
        let address = peer.dial.as_ref().and_then(|dial| peer.node.addresses.get(dial.address));
        address.map_or_else(|| peer.node.name.clone(), SocketAddr::to_string)
    }

    pub(super) fn not_reached(&mut self, node: u32, why: &str) {
        let to = self.address_of(node);
        self.failed(node, false, &format!("{to}: {why}"));
    }

    fn failed(&mut self, node: u32, is_refused: bool, why: &str) {
        warn!(node, why, "a daemon is not reached");
        let peer = &mut self.peers[node as usize];
        let Some(dial) = &mut peer.dial else { return };
        dial.is_refused &= is_refused;
        dial.address += 1;
        if dial.address < peer.node.addresses.len() {
            dial.next = Some(Instant::now());
            return;
        }
        peer.trouble = Some(why.into());
        dial.address = 0;
        dial.next = (!dial.is_refused).then(|| Instant::now() + dial.pause);
        dial.pause = (dial.pause * 2).min(PAUSES.1);
        dial.is_refused = true;
    }

    pub(super) fn answered(&mut self, number: u64, message: DaemonMessage) {
        let Some(DaemonConnection { role: Role::Greeting(node), .. }) =
            self.connections.get(&number)
        else {
            return;
        };
        let node = *node;
        match message {
            DaemonMessage::Accepted { .. } => self.link_up(number, node),
            DaemonMessage::Refused { reason } => self.lose(number, &reason),
            _ => self.lose(number, "its answer is malformed"),
        }
    }

    pub(super) fn welcome_peer(&mut self, number: u64, node: u32) {
        if node <= self.seed.node || node as usize >= self.peers.len() {
            let reason = format!("n{node} is not to connect to n{}", self.seed.node);
            self.send(number, &DaemonMessage::Refused { reason });
            return self.lose(number, "it is not to connect to this one");
        }
        self.send(number, &DaemonMessage::Accepted { connection: number });
        self.link_up(number, node);
    }

    fn link_up(&mut self, number: u64, node: u32) {
        // An older link is broken, or the other side would not have connected again.
        if let Some(old) = self.peers[node as usize].link.take() {
            self.lose(old, "it has connected again");
        }
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.role = Role::Peer(node);
        connection.limit = None;
        if let PeerSocket::Far(socket) = &connection.link {
            let _ = net::end_when_unanswered(socket, SILENCE);
        }
        let peer = &mut self.peers[node as usize];
        info!(node, name = peer.node.name, "connected with a daemon");
        peer.link = Some(number);
        peer.trouble = None;
        if let Some(dial) = &mut peer.dial {
            dial.next = None;
            dial.pause = PAUSES.0;
        }
    }

    pub(super) fn unlink(&mut self, node: u32, number: u64, why: &str) {
        let peer = &mut self.peers[node as usize];
        if peer.link != Some(number) {
            return;
        }
        warn!(node, name = peer.node.name, why, "the link with a daemon is broken");
        peer.link = None;
        peer.trouble = Some(why.into());
        if let Some(dial) = &mut peer.dial {
            dial.address = 0;
            dial.is_refused = true;
            dial.next = Some(Instant::now() + dial.pause);
        }
    }

    /// A node that has no link and will have none soon.
    pub(super) fn broken_peer(&self) -> Option<(u32, String)> {
        let broken = |(number, peer): (u32, &DaemonPeer)| {
            (!peer.is_up()).then(|| peer.trouble.clone().map(|trouble| (number, trouble)))?
        };
        (0..).zip(&self.peers).find_map(broken)
    }
}
