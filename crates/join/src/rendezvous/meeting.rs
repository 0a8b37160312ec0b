//! The meeting of the processes of all nodes, and their fences afterwards, without sockets and
//! clocks: connections, bytes and times come as arguments.

mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oxmpi_wire::Secret;

use super::credential::{Credentials, MeetingName};
use super::link::{Link, LinkContext, LinkError, random};
use super::message::{Entry, Message};
use super::skipped::Skipped;
use state::Store;

/// The limit for the other end of a connection to prove itself. Both daemons of MUNGE, which are
/// slow under load, answer within it.
pub(super) const PROOF: Duration = Duration::from_secs(10);

/// The name of a connection; it grows with time.
pub(super) type LinkId = u64;

/// What becomes of the meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not all nodes are here.
    Gathering,
    /// All nodes were here.
    Running,
}

/// A connection with its other end.
#[derive(Debug)]
struct Peer {
    link: Link,
    /// Its address, in texts.
    from: String,
    since: Instant,
    /// The owner closes it as soon as everything was sent.
    is_ending: bool,
}

/// The process of one node of a step in the meeting with the others. The process of node 0, the
/// *host*, has a connection with each of the others, the *members*.
#[derive(Debug)]
pub(super) struct Meeting<C> {
    name: MeetingName,
    /// The index of this node.
    node: u32,
    credentials: C,
    /// A random number of this process.
    process: [u8; 16],
    peers: BTreeMap<LinkId, Peer>,
    next: LinkId,
    /// The proved connection with each node, by index; the own entry is empty. A member has an
    /// entry for node 0 only.
    present: Vec<Option<LinkId>>,
    /// The random number of the process that each entry of `present` belongs to.
    processes: Vec<[u8; 16]>,
    phase: Phase,
    /// The number and the secret of the meeting, since its start.
    started: Option<([u8; 16], Secret)>,
    /// The text of a host that refuses this member.
    refused: Option<String>,
    pub(super) skipped: Skipped,
    /// Connections that the owner is to close.
    closed: Vec<LinkId>,
    store: Store,
}

impl<C: Credentials> Meeting<C> {
    /// The process of `node`. An error if the kernel has no random bytes.
    pub(super) fn new(name: MeetingName, node: u32, credentials: C) -> Result<Self, LinkError> {
        let nodes = name.nodes as usize;
        let mut meeting = Meeting {
            name,
            node,
            credentials,
            process: random()?,
            peers: BTreeMap::new(),
            next: 0,
            present: vec![None; nodes],
            processes: vec![[0; 16]; nodes],
            phase: Phase::Gathering,
            started: None,
            refused: None,
            skipped: Skipped::default(),
            closed: Vec::new(),
            store: Store::new(nodes),
        };
        meeting.start_if_complete()?;
        Ok(meeting)
    }

    fn is_host(&self) -> bool {
        self.node == 0
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// The random number of the meeting, the same in all its processes, and their secret.
    pub(super) fn started(&self) -> Option<&([u8; 16], Secret)> {
        self.started.as_ref()
    }

    /// The host's reason to go on without this member.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Whether a member has proof that it is connected with node 0, and needs no other connection.
    pub(super) fn has_host(&self) -> bool {
        self.present.first().is_some_and(Option::is_some)
    }

    /// The nodes that are not here, at the host.
    pub(super) fn missing(&self) -> Vec<u32> {
        (1..)
            .zip(self.present.iter().skip(1))
            .filter(|(_, link)| link.is_none())
            .map(|(node, _)| node)
            .collect()
    }

    /// A connection was accepted at this port. If there are too many without a proof, the oldest of
    /// them is closed: any process can connect, and a member proves itself at once.
    pub(super) fn accepted(&mut self, from: String, port: u16, now: Instant) -> LinkId {
        let most = 2 * self.present.len() + 64;
        let unproved = || self.peers.iter().filter(|(_, peer)| peer.link.proved().is_none());
        if unproved().count() >= most
            && let Some(oldest) = unproved().next().map(|(id, _)| *id)
        {
            self.skip(oldest, "it was one of too many connections without a proof");
        }
        self.add(Link::host(port), from, now)
    }

    /// A connection with this port of a process that may be the host has been made.
    pub(super) fn connected(
        &mut self,
        to: String,
        port: u16,
        now: Instant,
    ) -> Result<LinkId, LinkError> {
        let context = LinkContext { credentials: &self.credentials, meeting: &self.name };
        let link = Link::member(&context, self.node, port)?;
        Ok(self.add(link, to, now))
    }

    fn add(&mut self, link: Link, from: String, since: Instant) -> LinkId {
        let id = self.next;
        self.next += 1;
        self.peers.insert(id, Peer { link, from, since, is_ending: false });
        id
    }

    /// Bytes have come by a connection.
    pub(super) fn received(&mut self, id: LinkId, bytes: &[u8]) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.link.feed(bytes);
        }
        // Each message can end this connection.
        while let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.is_ending) {
            let context = LinkContext { credentials: &self.credentials, meeting: &self.name };
            let was_proved = peer.link.proved().is_some();
            let next = peer.link.next(&context);
            if let Some(node) = peer.link.proved().filter(|_| !was_proved)
                && !self.is_host()
            {
                self.greet_host(id, node);
            }
            match next {
                Ok(Some(message)) => {
                    if let Err(error) = self.handle(id, message) {
                        self.skip(id, &error.to_string());
                    }
                }
                Ok(None) => break,
                Err(error) => self.skip(id, &error.to_string()),
            }
        }
    }

    /// The host has proved itself to this member.
    fn greet_host(&mut self, id: LinkId, host: u32) {
        let Some(place) = self.present.get_mut(host as usize) else { return };
        *place = Some(id);
        let others: Vec<LinkId> = self.peers.keys().copied().filter(|other| *other != id).collect();
        others.into_iter().for_each(|other| self.close(other));
        let process = self.process;
        self.post(id, &Message::Here { process });
    }

    fn handle(&mut self, id: LinkId, message: Message) -> Result<(), LinkError> {
        let Some(node) = self.peers.get(&id).and_then(|peer| peer.link.proved()) else {
            return Ok(());
        };
        if let Message::Here { process } = message {
            return match self.is_host() {
                true => self.welcome(id, node, process),
                false => Err(LinkError::Malformed(0)),
            };
        }
        if self.present_at(node) != Some(id) {
            return Err(LinkError::Malformed(0));
        }
        match message {
            Message::Refused { text } if !self.is_host() => self.refused = Some(text),
            Message::Start { meeting, secret } if !self.is_host() => {
                self.started.get_or_insert((meeting, Secret(secret)));
                self.phase = Phase::Running;
            }
            Message::Values { fence, entries } if self.is_host() => {
                // A member speaks for its own node only.
                let entries = entries.into_iter().map(|entry| Entry { node, ..entry });
                self.store.give(node, fence, entries.collect());
                self.end_fence_if_complete();
                self.tell_losses();
            }
            Message::Values { fence, entries } => self.store.end_fence(fence, entries),
            Message::Lost { node: lost, why, has_failed } => {
                // A member speaks for its own node only.
                let lost = if self.is_host() { node } else { lost };
                self.lose(lost, why, has_failed);
            }
            _ => return Err(LinkError::Malformed(0)),
        }
        Ok(())
    }

    fn present_at(&self, node: u32) -> Option<LinkId> {
        self.present.get(node as usize).copied().flatten()
    }

    /// A member is here. If it has connected before, its newer connection counts.
    fn welcome(&mut self, id: LinkId, node: u32, process: [u8; 16]) -> Result<(), LinkError> {
        let at = node as usize;
        let is_known = self.processes.get(at) == Some(&process);
        if let Some(old) = self.present_at(node).filter(|old| *old != id) {
            if !is_known {
                let text = format!("another process of node {node} is here already");
                self.refuse(id, text);
                return Ok(());
            }
            self.close(old);
        }
        if self.phase == Phase::Gathering
            && let (Some(place), Some(known)) =
                (self.present.get_mut(at), self.processes.get_mut(at))
        {
            (*place, *known) = (Some(id), process);
        }
        self.start_if_complete()
    }

    fn refuse(&mut self, id: LinkId, text: String) {
        self.post(id, &Message::Refused { text });
        self.end(id);
    }

    /// The host gives up: all members that are here learn the reason.
    pub(super) fn give_up(&mut self, text: &str) {
        let here: Vec<LinkId> = self.present.iter().flatten().copied().collect();
        here.into_iter().for_each(|id| self.refuse(id, text.to_string()));
    }

    fn start_if_complete(&mut self) -> Result<(), LinkError> {
        if !self.is_host() || self.phase == Phase::Running || !self.missing().is_empty() {
            return Ok(());
        }
        let (meeting, secret) = (random()?, random()?);
        self.started = Some((meeting, Secret(secret)));
        self.phase = Phase::Running;
        let here: Vec<LinkId> = self.present.iter().flatten().copied().collect();
        let others: Vec<LinkId> =
            self.peers.keys().copied().filter(|id| !here.contains(id)).collect();
        others.into_iter().for_each(|other| self.close(other));
        self.post_to_all(&Message::Start { meeting, secret });
        Ok(())
    }

    /// Gives the values of this process, and begins to wait for those of the others.
    pub(super) fn fence(&mut self, values: Vec<(String, Vec<u8>)>) {
        let node = self.node;
        let entries: Vec<Entry> =
            values.into_iter().map(|(key, value)| Entry { node, key, value }).collect();
        let fence = self.store.begin_fence();
        if self.is_host() {
            self.store.give(node, fence, entries);
            self.end_fence_if_complete();
            self.tell_losses();
        } else if let Some(host) = self.present_at(0) {
            self.post(host, &Message::Values { fence, entries });
        }
    }

    /// Whether the last fence has ended.
    pub(super) fn is_fence_over(&self) -> bool {
        self.store.is_fence_over()
    }

    fn end_fence_if_complete(&mut self) {
        if let Some((fence, entries)) = self.store.complete() {
            self.post_to_all(&Message::Values { fence, entries: entries.clone() });
            self.store.end_fence(fence, entries);
        }
    }

    /// The nodes that have not begun the fence that the host waits for.
    pub(super) fn behind(&self) -> Vec<u32> {
        (0..self.name.nodes).filter(|node| !self.store.has_given(*node)).collect()
    }

    pub(super) fn get(&self, node: u32, key: &str) -> Option<&[u8]> {
        self.store.get(node, key)
    }

    /// The nodes that take part in no further fence, with the reasons.
    pub(super) fn lost(&self) -> &BTreeMap<u32, String> {
        &self.store.lost
    }

    /// This process takes part in no further fence. The connections end after the notice, in which
    /// `why` follows the name of the node.
    pub(super) fn leave(&mut self, why: &str, has_failed: bool) {
        let notice = Message::Lost { node: self.node, why: why.to_string(), has_failed };
        self.post_to_all(&notice);
        let all: Vec<LinkId> = self.peers.keys().copied().collect();
        all.into_iter().for_each(|id| self.end(id));
    }

    /// A node takes part in no further fence. All others learn at once of a failure. They learn of
    /// an ordinary leave only if a fence waits for the node: at the end of a job every node leaves.
    fn lose(&mut self, node: u32, why: String, has_failed: bool) {
        if self.store.lost.contains_key(&node) {
            return;
        }
        self.store.lost.insert(node, why);
        if self.is_host() && (has_failed || self.store.has_given_any()) {
            self.tell_losses();
        }
    }

    /// The host informs all members of the nodes that take part in no further fence.
    fn tell_losses(&mut self) {
        let untold = self.store.untold();
        untold.iter().for_each(|notice| self.post_to_all(notice));
    }

    /// A connection has ended, or was not made.
    pub(super) fn ended(&mut self, id: LinkId, why: &str) {
        let Some(peer) = self.peers.remove(&id) else { return };
        let node = peer.link.proved();
        let place = node.and_then(|node| self.present.get_mut(node as usize));
        match (node, place) {
            (Some(node), Some(place)) if *place == Some(id) => {
                *place = None;
                // While the nodes gather, the process can connect again.
                if self.phase == Phase::Running {
                    self.lose(node, format!("is gone ({why})"), true);
                }
            }
            _ if !peer.is_ending => self.skipped.add(&peer.from, why),
            _ => {}
        }
    }

    /// Closes connections whose other ends have not proved themselves in time.
    pub(super) fn tick(&mut self, now: Instant) {
        let is_late = |peer: &Peer| {
            peer.link.proved().is_none() && now.saturating_duration_since(peer.since) >= PROOF
        };
        let late: Vec<LinkId> =
            self.peers.iter().filter(|(_, peer)| is_late(peer)).map(|(id, _)| *id).collect();
        for id in late {
            self.skip(id, "it has not proved itself in time");
        }
    }

    /// The bytes to send by a connection.
    pub(super) fn output(&mut self, id: LinkId) -> &[u8] {
        let Some(peer) = self.peers.get_mut(&id) else { return &[] };
        if let Err(error) = peer.link.seal() {
            self.skip(id, &error.to_string());
            return &[];
        }
        match self.peers.get(&id) {
            Some(peer) => peer.link.output(),
            None => &[],
        }
    }

    /// Drops bytes of the output of a connection, which have been sent.
    pub(super) fn sent(&mut self, id: LinkId, bytes: usize) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.link.sent(bytes);
        if peer.is_ending && !peer.link.is_behind() {
            self.close(id);
        }
    }

    /// Whether something waits to be sent.
    pub(super) fn is_behind(&self) -> bool {
        self.peers.values().any(|peer| peer.link.is_behind())
    }

    /// The connections that the owner is to close.
    pub(super) fn closed(&mut self) -> Vec<LinkId> {
        std::mem::take(&mut self.closed)
    }

    /// A connection that has not led to a member or to the host.
    fn skip(&mut self, id: LinkId, why: &str) {
        self.closed.push(id);
        self.ended(id, why);
    }

    fn close(&mut self, id: LinkId) {
        if self.peers.remove(&id).is_some() {
            self.closed.push(id);
        }
    }

    /// Closes a connection as soon as everything was sent.
    fn end(&mut self, id: LinkId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.is_ending = true;
        if !peer.link.is_behind() || peer.link.proved().is_none() {
            self.close(id);
        }
    }

    fn post(&mut self, id: LinkId, message: &Message) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.link.post(&Arc::from(message.frame()));
        }
    }

    fn post_to_all(&mut self, message: &Message) {
        let frame = Arc::from(message.frame());
        for id in self.present.iter().flatten() {
            if let Some(peer) = self.peers.get_mut(id) {
                peer.link.post(&frame);
            }
        }
    }
}
