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
use super::link::{LinkContext, NodeLink, NodeLinkError, random};
use super::message::{NodeMessage, NodeValue};
use super::skipped::Skipped;
use state::MeetingValues;

/// The limit for the other end of a connection to prove itself. Both daemons of MUNGE, which are
/// slow under load, answer within it.
pub(super) const PROOF: Duration = Duration::from_secs(10);

/// The most connections without a proof at the hub, besides one for each node.
const UNPROVED: usize = 256;

/// The name of a connection; it grows with time.
pub(super) type LinkId = u64;

/// What becomes of the meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeetingPhase {
    /// Not all nodes are here.
    Gathering,
    /// All nodes were here.
    Running,
}

/// A connection with its other end.
#[derive(Debug)]
struct LinkEnd {
    link: NodeLink,
    /// Its address, in texts.
    from: String,
    since: Instant,
    /// The owner closes it as soon as everything was sent.
    is_ending: bool,
}

/// The process of one node of a step in the meeting with the others. The process of node 0, the
/// *hub*, has a connection with each of the others, the *members*.
#[derive(Debug)]
pub(super) struct NodeMeeting<C> {
    name: MeetingName,
    /// The index of this node.
    node: u32,
    credentials: C,
    /// A random number of this process.
    process: [u8; 16],
    peers: BTreeMap<LinkId, LinkEnd>,
    next: LinkId,
    /// The proved connection with each node, by index; the own entry is empty. A member has an
    /// entry for node 0 only.
    present: Vec<Option<LinkId>>,
    /// The random number of the process that each entry of `present` belongs to.
    processes: Vec<[u8; 16]>,
    phase: MeetingPhase,
    /// The number and the secret of the meeting, since its start.
    started: Option<([u8; 16], Secret)>,
    /// The text of a hub that refuses this member.
    refused: Option<String>,
    pub(super) skipped: Skipped,
    /// Connections that the owner is to close.
    closed: Vec<LinkId>,
    store: MeetingValues,
}

impl<C: Credentials> NodeMeeting<C> {
    /// The process of `node`. An error if the kernel has no random bytes.
    pub(super) fn new(name: MeetingName, node: u32, credentials: C) -> Result<Self, NodeLinkError> {
        let nodes = name.nodes as usize;
        let mut meeting = NodeMeeting {
            name,
            node,
            credentials,
            process: random()?,
            peers: BTreeMap::new(),
            next: 0,
            present: vec![None; nodes],
            processes: vec![[0; 16]; nodes],
            phase: MeetingPhase::Gathering,
            started: None,
            refused: None,
            skipped: Skipped::default(),
            closed: Vec::new(),
            store: MeetingValues::new(nodes),
        };
        meeting.start_if_complete()?;
        Ok(meeting)
    }

    fn is_hub(&self) -> bool {
        self.node == 0
    }

    pub(super) fn phase(&self) -> MeetingPhase {
        self.phase
    }

    /// The random number of the meeting, the same in all its processes, and their secret.
    pub(super) fn started(&self) -> Option<&([u8; 16], Secret)> {
        self.started.as_ref()
    }

    /// The hub's reason to go on without this member.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Whether a member has proof that it is connected with node 0, and needs no other connection.
    pub(super) fn has_hub(&self) -> bool {
        self.present.first().is_some_and(Option::is_some)
    }

    /// The nodes that are not here, at the hub.
    pub(super) fn missing(&self) -> Vec<u32> {
        (1..)
            .zip(self.present.iter().skip(1))
            .filter(|(_, link)| link.is_none())
            .map(|(node, _)| node)
            .collect()
    }

    /// A connection was accepted at this port. If there are too many without a proof, the oldest of
    /// them is closed, and connections with a valid credential last: any process can connect, and a
    /// member sends its credential at once.
    pub(super) fn accepted(&mut self, from: String, port: u16, now: Instant) -> LinkId {
        let unproved = || self.peers.iter().filter(|(_, peer)| peer.link.proved().is_none());
        if unproved().count() >= self.present.len() + UNPROVED
            && let Some((_, oldest)) =
                unproved().map(|(id, peer)| (peer.link.has_greeted(), *id)).min()
        {
            self.skip(oldest, "it was one of too many connections without a proof");
        }
        self.add(NodeLink::hub(port), from, now)
    }

    /// A connection with this port of a process that may be the hub has been made.
    pub(super) fn connected(
        &mut self,
        to: String,
        port: u16,
        now: Instant,
    ) -> Result<LinkId, NodeLinkError> {
        let context = LinkContext { credentials: &self.credentials, meeting: &self.name };
        let link = NodeLink::member(&context, self.node, port)?;
        Ok(self.add(link, to, now))
    }

    fn add(&mut self, link: NodeLink, from: String, since: Instant) -> LinkId {
        let id = self.next;
        self.next += 1;
        self.peers.insert(id, LinkEnd { link, from, since, is_ending: false });
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
                && !self.is_hub()
            {
                self.greet_hub(id, node);
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

    /// The hub has proved itself to this member.
    fn greet_hub(&mut self, id: LinkId, hub: u32) {
        let Some(place) = self.present.get_mut(hub as usize) else { return };
        *place = Some(id);
        let others: Vec<LinkId> = self.peers.keys().copied().filter(|other| *other != id).collect();
        others.into_iter().for_each(|other| self.close(other));
        let process = self.process;
        self.post(id, &NodeMessage::Here { process });
    }

    fn handle(&mut self, id: LinkId, message: NodeMessage) -> Result<(), NodeLinkError> {
        let Some(node) = self.peers.get(&id).and_then(|peer| peer.link.proved()) else {
            return Ok(());
        };
        if let NodeMessage::Here { process } = message {
            return match self.is_hub() {
                true => self.welcome(id, node, process),
                false => Err(NodeLinkError::Malformed(0)),
            };
        }
        if self.present_at(node) != Some(id) {
            return Err(NodeLinkError::Malformed(0));
        }
        match message {
            NodeMessage::Refused { text } if !self.is_hub() => self.refused = Some(text),
            NodeMessage::Start { meeting, secret } if !self.is_hub() => {
                self.started.get_or_insert((meeting, Secret(secret)));
                self.phase = MeetingPhase::Running;
            }
            NodeMessage::Values { fence, entries } if self.is_hub() => {
                // A member speaks for its own node only.
                let entries = entries.into_iter().map(|entry| NodeValue { node, ..entry });
                self.store.give(node, fence, entries.collect());
                self.end_fence_if_complete();
                self.report_losses();
            }
            NodeMessage::Values { fence, entries } => self.store.end_fence(fence, entries),
            NodeMessage::Lost { node: lost, why, has_failed } => {
                // A member speaks for its own node only.
                let lost = if self.is_hub() { node } else { lost };
                self.lose(lost, why, has_failed);
            }
            _ => return Err(NodeLinkError::Malformed(0)),
        }
        Ok(())
    }

    fn present_at(&self, node: u32) -> Option<LinkId> {
        self.present.get(node as usize).copied().flatten()
    }

    /// A member is here. If it has connected before, its newer connection counts.
    fn welcome(&mut self, id: LinkId, node: u32, process: [u8; 16]) -> Result<(), NodeLinkError> {
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
        if self.phase == MeetingPhase::Gathering
            && let (Some(place), Some(known)) =
                (self.present.get_mut(at), self.processes.get_mut(at))
        {
            (*place, *known) = (Some(id), process);
        }
        self.start_if_complete()
    }

    fn refuse(&mut self, id: LinkId, text: String) {
        self.post(id, &NodeMessage::Refused { text });
        self.end(id);
    }

    /// The hub gives up: all members that are here learn the reason.
    pub(super) fn give_up(&mut self, text: &str) {
        let here: Vec<LinkId> = self.present.iter().flatten().copied().collect();
        here.into_iter().for_each(|id| self.refuse(id, text.to_string()));
    }

    fn start_if_complete(&mut self) -> Result<(), NodeLinkError> {
        if !self.is_hub() || self.phase == MeetingPhase::Running || !self.missing().is_empty() {
            return Ok(());
        }
        let (meeting, secret) = (random()?, random()?);
        self.started = Some((meeting, Secret(secret)));
        self.phase = MeetingPhase::Running;
        let here: Vec<LinkId> = self.present.iter().flatten().copied().collect();
        let others: Vec<LinkId> =
            self.peers.keys().copied().filter(|id| !here.contains(id)).collect();
        others.into_iter().for_each(|other| self.close(other));
        self.post_to_all(&NodeMessage::Start { meeting, secret });
        Ok(())
    }

    /// Gives the values of this process, and begins to wait for those of the others.
    pub(super) fn fence(&mut self, values: Vec<(String, Vec<u8>)>) {
        let node = self.node;
        let entries: Vec<NodeValue> =
            values.into_iter().map(|(key, value)| NodeValue { node, key, value }).collect();
        let fence = self.store.begin_fence();
        if self.is_hub() {
            self.store.give(node, fence, entries);
            self.end_fence_if_complete();
            self.report_losses();
        } else if let Some(hub) = self.present_at(0) {
            self.post(hub, &NodeMessage::Values { fence, entries });
        }
    }

    /// Whether the last fence has ended.
    pub(super) fn is_fence_over(&self) -> bool {
        self.store.is_fence_over()
    }

    fn end_fence_if_complete(&mut self) {
        if let Some((fence, entries)) = self.store.complete() {
            self.post_to_all(&NodeMessage::Values { fence, entries: entries.clone() });
            self.store.end_fence(fence, entries);
        }
    }

    /// The nodes that have not begun the fence that the hub waits for.
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
        let notice = NodeMessage::Lost { node: self.node, why: why.to_string(), has_failed };
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
        if self.is_hub() && (has_failed || self.store.has_given_any()) {
            self.report_losses();
        }
    }

    /// The hub informs all members of the nodes that take part in no further fence.
    fn report_losses(&mut self) {
        let unreported = self.store.unreported();
        unreported.iter().for_each(|notice| self.post_to_all(notice));
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
                if self.phase == MeetingPhase::Running {
                    self.lose(node, format!("is gone ({why})"), true);
                }
            }
            _ if !peer.is_ending => self.skipped.add(&peer.from, why),
            _ => {}
        }
    }

    /// Closes connections whose other ends have not proved themselves in time.
    pub(super) fn tick(&mut self, now: Instant) {
        let is_late = |peer: &LinkEnd| {
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

    /// A connection that has not led to a member or to the hub.
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

    fn post(&mut self, id: LinkId, message: &NodeMessage) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.link.post(&Arc::from(message.frame()));
        }
    }

    fn post_to_all(&mut self, message: &NodeMessage) {
        let frame = Arc::from(message.frame());
        for id in self.present.iter().flatten() {
            if let Some(peer) = self.peers.get_mut(id) {
                peer.link.post(&frame);
            }
        }
    }
}
