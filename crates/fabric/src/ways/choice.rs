//! The way to the peers to which shared memory is not: sockets, the daemons, or both.

use super::both::Both;
use crate::lamd::Lamd;
use crate::tcp::Tcp;
use crate::{Connected, Counts, Fabric, Message, Sent, Sink, Taken, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::Tags;

/// Which of them a process has.
#[derive(Debug)]
pub enum Far {
    /// Sockets of its own.
    Tcp(Box<Tcp>),
    /// One socket to its node's daemon.
    Lamd(Box<Lamd>),
    /// That one for the jobs of its launcher, and sockets of its own to processes of other launchers.
    Both(Box<Both>),
}

impl From<Tcp> for Far {
    fn from(tcp: Tcp) -> Far {
        Far::Tcp(Box::new(tcp))
    }
}

impl From<Lamd> for Far {
    fn from(lamd: Lamd) -> Far {
        Far::Lamd(Box::new(lamd))
    }
}

impl Far {
    /// Changes the longest eager message of sockets from now on, bytes.
    pub(super) fn set_eager_limit(&mut self, bytes: usize) {
        if let Some(tcp) = self.sockets() {
            tcp.set_eager_limit(bytes);
        }
    }

    /// The sockets, if there are some.
    pub(super) fn sockets(&mut self) -> Option<&mut Tcp> {
        match self {
            Far::Tcp(tcp) => Some(tcp),
            Far::Lamd(_) => None,
            Far::Both(both) => Some(both.tcp()),
        }
    }

    /// Takes in all that a process has sent of which the launcher says that it has died, as far as a look at everything
    /// does not do that.
    pub(super) fn await_end<S: Sink>(&mut self, peer: u32, sink: &mut S) {
        match self {
            Far::Tcp(tcp) => tcp.read_to_end(peer, sink),
            Far::Lamd(lamd) => lamd.await_end(peer, sink),
            Far::Both(both) => both.await_end(peer, sink),
        }
    }

    /// A peer is known to be dead.
    pub(super) fn bury(&mut self, peer: u32) {
        match self {
            Far::Tcp(tcp) => tcp.bury(peer),
            Far::Lamd(lamd) => lamd.bury(peer),
            Far::Both(both) => both.bury(peer),
        }
    }
}

/// Calls a function of whichever it is.
macro_rules! whichever {
    ($self:ident, $way:ident => $call:expr) => {
        match $self {
            Far::Tcp($way) => $call,
            Far::Lamd($way) => $call,
            Far::Both($way) => $call,
        }
    };
}

/// What none of them has of its own is left to what [`Fabric`] does by itself.
impl Fabric for Far {
    #[inline]
    fn eager_limit(&mut self, to: u32) -> usize {
        whichever!(self, way => way.eager_limit(to))
    }

    #[inline]
    fn piece_limit(&mut self, to: u32) -> usize {
        whichever!(self, way => way.piece_limit(to))
    }

    #[inline]
    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable> {
        whichever!(self, way => way.send(to, message))
    }

    #[inline]
    fn send_piece(
        &mut self,
        to: u32,
        message: &Message<'_>,
        buffer: &UserBuf,
        offset: usize,
    ) -> Result<Sent, Unreachable> {
        whichever!(self, way => way.send_piece(to, message, buffer, offset))
    }

    #[inline]
    fn send_whole(&mut self, to: u32, message: &Message<'_>, buffer: &UserBuf) -> Result<Sent, Unreachable> {
        whichever!(self, way => way.send_whole(to, message, buffer))
    }

    fn release(&mut self, token: u64) {
        whichever!(self, way => way.release(token));
    }

    fn has_left(&mut self, peer: u32) -> bool {
        whichever!(self, way => way.has_left(peer))
    }

    #[inline]
    fn poll<S: Sink>(&mut self, sink: &mut S) -> bool {
        whichever!(self, way => way.poll(sink))
    }

    #[inline]
    fn poll_except<S: Sink>(&mut self, peer: u32, sink: &mut S) -> bool {
        whichever!(self, way => way.poll_except(peer, sink))
    }

    #[inline]
    fn send_now(&mut self, to: u32, context: u32, tag: i32, sequence: u8, bytes: Bytes<'_>) -> bool {
        whichever!(self, way => way.send_now(to, context, tag, sequence, bytes))
    }

    #[inline]
    fn receive_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        whichever!(self, way => way.receive_now(from, context, tags, into))
    }

    fn before_sleep(&mut self) -> bool {
        whichever!(self, way => way.before_sleep())
    }

    fn share_among_threads(&mut self) {
        whichever!(self, way => way.share_among_threads());
    }

    fn attach(&mut self, peer: u32) {
        whichever!(self, way => way.attach(peer));
    }

    fn settle(&mut self, peer: u32) -> bool {
        whichever!(self, way => way.settle(peer))
    }

    fn detach(&mut self, peer: u32) {
        whichever!(self, way => way.detach(peer));
    }

    fn leave(&mut self) -> bool {
        whichever!(self, way => way.leave())
    }

    fn rest(&mut self) -> bool {
        whichever!(self, way => way.rest())
    }

    fn counts(&mut self) -> Counts {
        whichever!(self, way => way.counts())
    }

    fn watch_connections(&mut self, watch: bool) {
        whichever!(self, way => way.watch_connections(watch));
    }

    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        whichever!(self, way => way.take_connections())
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        whichever!(self, way => way.announce_waiting(peer))
    }
}
