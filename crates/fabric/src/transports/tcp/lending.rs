//! Longer eager messages, which are written from the user's buffer.
//!
//! A record must be kept until the peer has acknowledged it, for the connection may break. But mostly the acknowledgement of a
//! message in a row of many comes while the sender still waits for others, and then nobody needs a copy. So the message is
//! lent: it is gone when it is acknowledged, or when this process looks in vain, and so has the time to copy it. Who waits for
//! a single message has it at the first such look; by then the peer reads already. Nobody sleeps while one could be copied: the
//! acknowledgement may be far away, as the peer says nothing of a few messages by itself.

use super::peer::Way;
use super::{Link, Tcp};
use crate::{Message, Sent, Sink, Unreachable};
use oxmpi_mem::buffer::UserBuf;

/// The shortest message that is lent, bytes.
pub(super) const LEND_FROM: usize = 8 << 10;
/// Looks in vain before the first of several messages is copied.
const PATIENCE: u32 = 8;
/// Looks after which one is copied in any case: another peer may send without a pause.
const LOOKS: u32 = 64;

impl Tcp {
    /// Sends a message, whose body is all of the buffer.
    pub(super) fn lend_whole(
        &mut self,
        to: u32,
        message: &Message<'_>,
        buffer: &UserBuf,
    ) -> Result<Sent, Unreachable> {
        let sent = self.lend_by(to, |link, source| link.lend_whole(source, message, buffer.clone()))?;
        if sent == Sent::Later && !self.lenders.contains(&to) {
            (self.vain, self.uncopied) = (0, 0);
            self.lenders.push(to);
        }
        Ok(sent)
    }

    /// Sends a message whose body stays where it is, if it may go now: `lend` gives it to the peer's link, with the number that
    /// names its sender.
    pub(super) fn lend_by(
        &mut self,
        to: u32,
        lend: impl FnOnce(&mut Link, u32),
    ) -> Result<Sent, Unreachable> {
        if !self.may_send(to, 0)? {
            return Ok(Sent::Full);
        }
        let own = self.own.rank;
        let peer = self.peer(to);
        if matches!(peer.way, Way::Left) {
            return Ok(Sent::Done);
        }
        let source = peer.source(own);
        lend(&mut peer.link, source);
        self.write(to);
        match &self.peer(to).way {
            Way::Lost(why) => Err(Unreachable { peer: to, why: why.clone() }),
            _ => Ok(Sent::Later),
        }
    }

    /// After a look, which has brought something or not: copies one message that is lent, if it is time. Returns whether it did.
    pub(super) fn look_at_lent(&mut self, came: bool, sink: &mut dyn Sink) -> bool {
        self.vain = if came { 0 } else { self.vain.saturating_add(1) };
        self.uncopied = self.uncopied.saturating_add(1);
        let is_overdue = self.uncopied >= LOOKS;
        if came && !is_overdue {
            return false;
        }
        let lenders = self.take_lenders();
        let is_single =
            matches!(lenders[..], [at] if self.known(at).is_some_and(|peer| peer.link.lent() == 1));
        let is_time = is_single || is_overdue || self.vain > PATIENCE;
        let copied = is_time && lenders.iter().any(|at| self.copy_oldest(*at, sink));
        self.lenders = lenders;
        if copied {
            self.uncopied = 0;
        }
        copied
    }

    /// Takes the list of those to whom something is still lent; it is to be put back.
    fn take_lenders(&mut self) -> Vec<u32> {
        let mut lenders = std::mem::take(&mut self.lenders);
        lenders.retain(|at| self.known(*at).is_some_and(|peer| peer.link.lent() > 0));
        lenders
    }

    fn copy_oldest(&mut self, at: u32, sink: &mut dyn Sink) -> bool {
        let copied = self.copy_or_ask(at);
        if copied && let Some(peer) = self.known(at) {
            peer.link.tell_gone(sink);
        }
        copied
    }

    /// The process is about to sleep, perhaps until a message is gone that is lent: copies the oldest one to each peer. Returns
    /// whether any was; the next look tells of it. All others are written, and acknowledged as soon as the peer looks.
    pub(super) fn copy_lent_before_sleep(&mut self) -> bool {
        let lenders = self.take_lenders();
        let mut any = false;
        for at in &lenders {
            if self.copy_or_ask(*at) {
                self.news.push(*at);
                any = true;
            }
        }
        self.lenders = lenders;
        any
    }

    /// Copies the oldest lent message to a peer, if it may be copied; else sees that its acknowledgement comes soon.
    fn copy_or_ask(&mut self, at: u32) -> bool {
        let Some(peer) = self.known(at) else { return false };
        if peer.link.copy_oldest() {
            return true;
        }
        if peer.link.is_written() {
            // Too much is kept.
            peer.link.ask();
            self.write(at);
        }
        false
    }
}
