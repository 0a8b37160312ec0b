//! The sockets of a process (or the one to its daemon), and which peers they are the way to.

use super::Far;
use super::both::Both;
use super::quiesce::Quiescing;
use crate::shm::Shm;
use crate::tcp::Tcp;
use crate::{Counts, Fabric, InUse, Message, Sent, Sink, Taken, Traffic, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, ContextId, Envelope, Frame, Tags};

/// Looks at the sockets are system calls, looks at shared memory are not: so many looks in vain at the one for each at the
/// other, and while something comes from near more of them.
const LOOKS_IN_VAIN: u32 = 4;
const LOOKS: u32 = 64;

/// Says on which nodes processes are: those from a number on, as many as there are by now.
pub type AskNodes = Box<dyn FnMut(u32) -> Vec<u32> + Send>;

/// The node of those of whom it is not known: none that a process can be on.
const NOWHERE: u32 = u32::MAX;

/// On which node each process is.
pub struct Nodes {
    own: u32,
    /// By process number.
    of: Vec<u32>,
    ask: AskNodes,
}

impl Nodes {
    /// Of a process on node `own`. `ask` is asked when a number is not known yet.
    pub fn new(own: u32, ask: AskNodes) -> Nodes {
        Nodes { own, of: Vec::new(), ask }
    }

    /// Whether nobody knows its node: it belongs to another launcher.
    #[inline]
    pub(super) fn is_nowhere(&mut self, peer: u32) -> bool {
        self.place(peer) == NOWHERE
    }

    /// Whether a process is on another node. One that nobody knows counts so: it is the sockets that will say why it cannot
    /// be reached.
    #[inline]
    fn is_far(&mut self, peer: u32) -> bool {
        self.place(peer) != self.own
    }

    #[inline]
    fn place(&mut self, peer: u32) -> u32 {
        let at = peer as usize;
        if at >= self.of.len() {
            self.learn(at);
        }
        self.of[at]
    }

    #[cold]
    fn learn(&mut self, at: usize) {
        let known = u32::try_from(self.of.len()).unwrap_or(u32::MAX);
        self.of.extend((self.ask)(known));
        // Who has a number has it for good: those of whom nothing was said are of other launchers.
        if at >= self.of.len() {
            self.of.resize(at + 1, NOWHERE);
        }
    }
}

/// The sockets of a process.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) far: Far,
    /// Of a job on several nodes. `None`: the sockets are the way to all peers.
    nodes: Option<Nodes>,
    /// Of a job on several nodes of which the sockets are the way to all peers.
    beside: Option<Nodes>,
    /// They came when the process first had to do with those of other launchers: of its own job all are on its node, as they were
    /// before.
    is_added: bool,
    /// If messages can stand still.
    pub(super) quiescing: Option<Quiescing>,
    looks: u32,
    sent: Traffic,
    received: Traffic,
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("own", &self.own).field("of", &self.of).finish_non_exhaustive()
    }
}

impl Sockets {
    pub(super) fn new(far: Far, nodes: Option<Nodes>) -> Sockets {
        let (sent, received) = (Traffic::default(), Traffic::default());
        Sockets { far, nodes, beside: None, is_added: false, quiescing: None, looks: 0, sent, received }
    }

    /// Of a process that had none until it had to do with those of other launchers.
    pub(super) fn added(far: Far, nodes: Nodes) -> Sockets {
        Sockets { is_added: true, ..Sockets::new(far, Some(nodes)) }
    }

    /// The daemon's way, which gets sockets beside it, to all of whom `nodes` knows no node. What are sockets already stays as
    /// it is.
    pub(super) fn with_strangers(self, tcp: Tcp, nodes: Nodes) -> Sockets {
        let far = match self.far {
            Far::Lamd(lamd) => Far::Both(Box::new(Both::new(*lamd, tcp, nodes))),
            far => far,
        };
        Sockets { far, ..self }
    }

    /// They stay the way to all peers, wherever these are.
    pub(super) fn know(&mut self, nodes: Nodes) {
        self.beside = Some(nodes);
    }

    /// On which node a process is, if that is known.
    pub(super) fn node(&mut self, peer: u32) -> Option<u32> {
        if self.is_added {
            return None;
        }
        let nodes = self.nodes.as_mut().or(self.beside.as_mut())?;
        Some(nodes.place(peer)).filter(|node| *node != NOWHERE)
    }

    /// Whether a process is on this one's node, as far as they know nodes.
    pub(super) fn is_beside(&mut self, peer: u32) -> bool {
        self.nodes.as_mut().or(self.beside.as_mut()).is_none_or(|nodes| !nodes.is_far(peer))
    }

    pub(super) fn nodes(&self) -> Option<&Nodes> {
        self.nodes.as_ref()
    }

    /// Whether they are the way to this peer.
    #[inline]
    pub(super) fn reaches(&mut self, peer: u32) -> bool {
        self.nodes.as_mut().is_none_or(|nodes| nodes.is_far(peer))
    }

    /// Them, if they are the way to this peer.
    #[inline]
    pub(super) fn to(&mut self, peer: u32) -> Option<&mut Far> {
        self.reaches(peer).then_some(&mut self.far)
    }

    /// Sends a message, of which `whole` is the body if it may be used until it is gone.
    pub(super) fn send(
        &mut self,
        to: u32,
        message: &Message<'_>,
        whole: Option<&UserBuf>,
    ) -> Result<Sent, Unreachable> {
        let sent = match whole {
            None => self.far.send(to, message)?,
            Some(buffer) => self.far.send_whole(to, message, buffer)?,
        };
        if self.nodes.is_some() && sent != Sent::Full {
            match message.frame {
                Frame::Eager { .. } | Frame::EagerSync { .. } => self.sent.add(message.body.len() as u64),
                Frame::Rendezvous { announced, .. } => self.sent.add(announced.length),
                _ => {}
            }
        }
        Ok(sent)
    }

    /// Sends a short message straight ([`Fabric::send_now`]): in which context, with which tag and number.
    pub(super) fn send_now(
        &mut self,
        to: u32,
        (context, tag, sequence): (u32, i32, u8),
        bytes: Bytes<'_>,
    ) -> bool {
        let sent = self.far.send_now(to, context, tag, sequence, bytes);
        if sent && self.nodes.is_some() {
            self.sent.add(bytes.len() as u64);
        }
        sent
    }

    /// Takes the next message straight ([`Fabric::receive_now`]).
    pub(super) fn receive_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        let taken = self.far.receive_now(from, context, tags, into);
        if self.nodes.is_some()
            && let Taken::Message { len, .. } | Taken::Begun { total: len, .. } = taken
        {
            self.received.add(len as u64);
        }
        taken
    }

    /// Whether they shall be looked at, besides shared memory, from where something `came` or not.
    #[inline]
    pub(super) fn is_look_due(&mut self, came: bool) -> bool {
        self.looks += if came { 1 } else { LOOKS / LOOKS_IN_VAIN };
        let is_due = self.looks >= LOOKS;
        if is_due {
            self.looks = 0;
        }
        is_due
    }

    /// As [`Fabric::before_sleep`]. The next look is at these, too: if the process must not sleep they have something, and what
    /// wakes it may be one of them.
    pub(super) fn before_sleep(&mut self) -> bool {
        self.looks = LOOKS;
        self.far.before_sleep()
    }

    pub(super) fn poll<S: Sink>(&mut self, except: Option<u32>, sink: &mut S) -> bool {
        let came = self.take_in(except, sink);
        if self.quiescing.as_ref().is_some_and(Quiescing::is_asked) {
            self.stand_still(sink);
            return true;
        }
        came
    }

    /// Takes in what has come.
    pub(super) fn take_in<S: Sink>(&mut self, except: Option<u32>, sink: &mut S) -> bool {
        let Sockets { far, received, nodes, .. } = self;
        match (nodes, except) {
            (Some(_), None) => far.poll(&mut Counting { sink, received }),
            (Some(_), Some(peer)) => far.poll_except(peer, &mut Counting { sink, received }),
            (None, None) => far.poll(sink),
            (None, Some(peer)) => far.poll_except(peer, sink),
        }
    }

    /// What they say of themselves, and shared memory if that is used as well.
    pub(super) fn counts(&mut self, shm: &mut Shm) -> Counts {
        let far = self.far.counts();
        if self.nodes.is_none() {
            // The inbox, rings and pool are there, and nobody uses them.
            return far;
        }
        Counts {
            ways: InUse::Both,
            far_sent: self.sent,
            far_received: self.received,
            connections: far.connections,
            connections_made: far.connections_made,
            connections_remade: far.connections_remade,
            ..shm.counts()
        }
    }
}

impl Traffic {
    fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// Counts what comes over sockets.
struct Counting<'a, S> {
    sink: &'a mut S,
    received: &'a mut Traffic,
}

impl<S: Sink> Sink for Counting<'_, S> {
    fn eager(&mut self, from: u32, sequence: u8, envelope: Envelope, total: usize, first: Bytes<'_>) {
        self.received.add(total as u64);
        self.sink.eager(from, sequence, envelope, total, first);
    }

    fn eager_sync(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        request: u64,
        total: usize,
        first: Bytes<'_>,
    ) {
        self.received.add(total as u64);
        self.sink.eager_sync(from, sequence, envelope, request, total, first);
    }

    fn rendezvous(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        announced: Announced,
        first: Bytes<'_>,
    ) {
        self.received.add(announced.length);
        self.sink.rendezvous(from, sequence, envelope, announced, first);
    }

    fn sync_ack(&mut self, from: u32, request: u64) {
        self.sink.sync_ack(from, request);
    }

    fn pull(&mut self, from: u32, request: u64, receiver: u64, length: u64, claimed: bool) {
        self.sink.pull(from, request, receiver, length, claimed);
    }

    fn fin(&mut self, from: u32, request: u64) {
        self.sink.fin(from, request);
    }

    fn withdraw(&mut self, from: u32, request: u64, number: u64) {
        self.sink.withdraw(from, request, number);
    }

    fn withdrawn(&mut self, from: u32, request: u64) {
        self.sink.withdrawn(from, request);
    }

    fn data(&mut self, from: u32, receiver: u64, offset: u64, total: usize, first: Bytes<'_>) {
        self.sink.data(from, receiver, offset, total, first);
    }

    fn learn(&mut self, from: u32, id: ContextId, index: u32) {
        self.sink.learn(from, id, index);
    }

    fn more(&mut self, from: u32, offset: usize, part: Bytes<'_>) {
        self.sink.more(from, offset, part);
    }

    fn place(&mut self, from: u32, offset: usize, len: usize) -> Option<BytesMut<'_>> {
        self.sink.place(from, offset, len)
    }

    fn placed(&mut self, from: u32, offset: usize, bytes: usize) {
        self.sink.placed(from, offset, bytes);
    }

    fn sent(&mut self, token: u64) {
        self.sink.sent(token);
    }

    fn left(&mut self, peer: u32) {
        self.sink.left(peer);
    }

    fn lost(&mut self, peer: u32) {
        self.sink.lost(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Tcp;
    use oxmpi_sys::poller::Poller;
    use std::sync::Arc;

    #[test]
    fn who_wakes_looks_at_the_sockets_first() {
        let tcp = Tcp::of_a_test(1, Arc::new(Poller::new().unwrap()));
        let mut sockets = Sockets::new(tcp.into(), None);
        for _ in 0..3 {
            assert!(!sockets.is_look_due(true), "other things come, and looks at sockets are rare");
            assert!(sockets.before_sleep());
            assert!(sockets.is_look_due(false));
        }
    }
}
