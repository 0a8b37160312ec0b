//! Both the way through the daemon and sockets: of a process whose own job's messages go through daemons, and which has to do
//! with processes of other launchers, where those daemons do not reach.

use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::Tags;

use super::Nodes;
use crate::lamd::Lamd;
use crate::tcp::Tcp;
use crate::{Connected, Counts, Fabric, Message, Sent, Sink, Taken, Unreachable};

/// The two ways, and who tells for whom each is.
#[derive(Debug)]
pub struct Both {
    lamd: Lamd,
    tcp: Tcp,
    nodes: Nodes,
}

/// A call of the way to a peer.
macro_rules! to {
    ($self:ident, $peer:expr, $way:ident => $call:expr) => {
        match $self.is_strange($peer) {
            true => {
                let $way = &mut $self.tcp;
                $call
            }
            false => {
                let $way = &mut $self.lamd;
                $call
            }
        }
    };
}

impl Both {
    /// The daemon's way with sockets beside it, to all of whom `nodes` knows no node.
    pub(super) fn new(lamd: Lamd, tcp: Tcp, nodes: Nodes) -> Both {
        Both { lamd, tcp, nodes }
    }

    pub(super) fn tcp(&mut self) -> &mut Tcp {
        &mut self.tcp
    }

    /// Takes in all that a process has sent of which the launcher says that it has died.
    pub(super) fn await_end<S: Sink>(&mut self, peer: u32, sink: &mut S) {
        match self.is_strange(peer) {
            true => self.tcp.read_to_end(peer, sink),
            false => self.lamd.await_end(peer, sink),
        }
    }

    /// A process is known to be dead.
    pub(super) fn bury(&mut self, peer: u32) {
        to!(self, peer, way => way.bury(peer));
    }

    /// Whether a process belongs to another launcher.
    #[inline]
    fn is_strange(&mut self, peer: u32) -> bool {
        self.nodes.is_nowhere(peer)
    }
}

impl Fabric for Both {
    fn eager_limit(&mut self, to: u32) -> usize {
        to!(self, to, way => way.eager_limit(to))
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        to!(self, to, way => way.piece_limit(to))
    }

    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable> {
        to!(self, to, way => way.send(to, message))
    }

    fn send_piece(
        &mut self,
        to: u32,
        message: &Message<'_>,
        buffer: &UserBuf,
        offset: usize,
    ) -> Result<Sent, Unreachable> {
        to!(self, to, way => way.send_piece(to, message, buffer, offset))
    }

    fn send_whole(&mut self, to: u32, message: &Message<'_>, buffer: &UserBuf) -> Result<Sent, Unreachable> {
        to!(self, to, way => way.send_whole(to, message, buffer))
    }

    /// The daemon's way lends nothing.
    fn release(&mut self, token: u64) {
        self.tcp.release(token);
    }

    fn has_left(&mut self, peer: u32) -> bool {
        to!(self, peer, way => way.has_left(peer))
    }

    fn poll<S: Sink>(&mut self, sink: &mut S) -> bool {
        let near = self.lamd.poll(sink);
        self.tcp.poll(sink) || near
    }

    fn poll_except<S: Sink>(&mut self, peer: u32, sink: &mut S) -> bool {
        let near = self.lamd.poll_except(peer, sink);
        self.tcp.poll_except(peer, sink) || near
    }

    fn send_now(&mut self, to: u32, context: u32, tag: i32, sequence: u8, bytes: Bytes<'_>) -> bool {
        to!(self, to, way => way.send_now(to, context, tag, sequence, bytes))
    }

    fn receive_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        to!(self, from, way => way.receive_now(from, context, tags, into))
    }

    fn before_sleep(&mut self) -> bool {
        let may = self.lamd.before_sleep();
        self.tcp.before_sleep() && may
    }

    fn share_among_threads(&mut self) {
        self.lamd.share_among_threads();
        self.tcp.share_among_threads();
    }

    fn attach(&mut self, peer: u32) {
        to!(self, peer, way => way.attach(peer));
    }

    fn settle(&mut self, peer: u32) -> bool {
        to!(self, peer, way => way.settle(peer))
    }

    fn detach(&mut self, peer: u32) {
        to!(self, peer, way => way.detach(peer));
    }

    fn leave(&mut self) -> bool {
        let near = self.lamd.leave();
        self.tcp.leave() && near
    }

    fn rest(&mut self) -> bool {
        let near = self.lamd.rest();
        self.tcp.rest() && near
    }

    fn counts(&mut self) -> Counts {
        let (near, far) = (self.lamd.counts(), self.tcp.counts());
        Counts {
            connections: near.connections + far.connections,
            connections_made: near.connections_made + far.connections_made,
            ..far
        }
    }

    fn watch_connections(&mut self, watch: bool) {
        self.tcp.watch_connections(watch);
    }

    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        self.tcp.take_connections()
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        to!(self, peer, way => way.announce_waiting(peer))
    }
}
