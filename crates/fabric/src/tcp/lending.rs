//! Longer eager messages, which are written from the user's buffer.
//!
//! A record must be kept until the peer has acknowledged it, for the connection may break. But mostly the acknowledgement of a message in a
//! row of many comes while the sender still waits for others, and then nobody needs a copy. So the message is lent: it is gone when
//! it is acknowledged, or when this process looks in vain, and so has the time to copy it. Who waits for a single message has
//! it at the first such look; by then the peer reads already.

use super::Tcp;
use super::peer::Way;
use crate::{Message, Sent, Sink, Unreachable};
use oxmpi_mem::buffer::UserBuf;

/// The shortest message that is lent, bytes.
pub(super) const LEND_FROM: usize = 8 << 10;
/// Looks in vain before the first of several messages is copied.
const PATIENCE: u32 = 8;

impl Tcp {
    /// Sends a message, whose body is all of the buffer.
    pub(super) fn lend_whole(
        &mut self,
        to: u32,
        message: &Message<'_>,
        buffer: &UserBuf,
    ) -> Result<Sent, Unreachable> {
        if !self.may_send(to, 0)? {
            return Ok(Sent::Full);
        }
        let own = self.own.rank;
        let peer = self.peer(to);
        if matches!(peer.way, Way::Left) {
            return Ok(Sent::Done);
        }
        peer.link.lend_whole(peer.source(own), message, buffer.clone());
        if !self.lenders.contains(&to) {
            self.lenders.push(to);
        }
        self.write(to);
        match &self.peer(to).way {
            Way::Lost(why) => Err(Unreachable { peer: to, why: why.clone() }),
            _ => Ok(Sent::Later),
        }
    }

    /// After a look in vain: copies one message that is lent, if it is time. Returns whether it did.
    pub(super) fn copy_lent<S: Sink>(&mut self, sink: &mut S) -> bool {
        self.vain = self.vain.saturating_add(1);
        let mut lenders = std::mem::take(&mut self.lenders);
        lenders.retain(|at| self.known(*at).is_some_and(|peer| peer.link.lent() > 0));
        let is_single =
            matches!(lenders[..], [at] if self.known(at).is_some_and(|peer| peer.link.lent() == 1));
        let is_time = is_single || self.vain > PATIENCE;
        let copied = is_time && lenders.iter().any(|at| self.copy_oldest(*at, sink));
        self.lenders = lenders;
        copied
    }

    fn copy_oldest<S: Sink>(&mut self, at: u32, sink: &mut S) -> bool {
        let Some(peer) = self.known(at) else { return false };
        if peer.link.copy_oldest() {
            peer.link.tell_gone(sink);
            return true;
        }
        if peer.link.is_written() {
            // Too much is kept.
            peer.link.ask();
            self.write(at);
        }
        false
    }

    /// Whether a look in vain would copy something some time.
    pub(super) fn may_copy_lent(&self) -> bool {
        let peers = self.lenders.iter().filter_map(|at| self.peers.get(*at as usize)?.as_ref());
        peers.into_iter().any(|peer| peer.link.may_copy_oldest())
    }
}
