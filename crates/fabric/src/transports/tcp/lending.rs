//! Longer eager messages, written from the user's buffer.
//!
//! The connection may break, so a record must be retained until the peer has acknowledged it. If
//! many messages follow each other, the acknowledgement mostly comes while the sender still waits
//! for others, and a copy would be wasted. So such a message is lent. It is complete when it is
//! acknowledged, or when a copy was made during a poll in vain. A process that waits for a single
//! message copies it at the first such poll; the peer is already reading by then. The process does
//! not sleep while it could copy a message, because the peer does not acknowledge a few messages by
//! itself, and the acknowledgement may come late.

use super::peer::ConnectionState;
use super::{Link, Tcp};
use crate::{FrameSink, OutgoingMessage, Sent, Unreachable};
use oxmpi_mem::buffer::UserBuf;

pub(super) const LEND_FROM: usize = 8 << 10;
/// The number of polls in vain before the first of several messages is copied.
const PATIENCE: u32 = 8;
/// The number of polls after which a message is copied even if something arrives: another peer may
/// send without a pause.
const MAX_POLLS: u32 = 64;

impl Tcp {
    pub(super) fn lend_whole(
        &mut self,
        to: u32,
        message: &OutgoingMessage<'_>,
        buffer: &UserBuf,
    ) -> Result<Sent, Unreachable> {
        let sent =
            self.lend_by(to, |link, source| link.lend_whole(source, message, buffer.clone()))?;
        if sent == Sent::Later && !self.lenders.contains(&to) {
            (self.vain, self.uncopied) = (0, 0);
            self.lenders.push(to);
        }
        Ok(sent)
    }

    /// Lends a message by `lend` if it may leave now. `lend` gets the sender's number for the
    /// frame.
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
        if matches!(peer.state, ConnectionState::Left) {
            return Ok(Sent::Done);
        }
        let source = peer.source(own);
        lend(&mut peer.link, source);
        self.write(to);
        match &self.peer(to).state {
            ConnectionState::Lost(why) => Err(Unreachable { peer: to, why: why.clone() }),
            _ => Ok(Sent::Later),
        }
    }

    /// Copies one lent message after a poll, if it is time. Returns whether it did.
    pub(super) fn copy_lent_if_due(&mut self, came: bool, sink: &mut dyn FrameSink) -> bool {
        self.vain = if came { 0 } else { self.vain.saturating_add(1) };
        self.uncopied = self.uncopied.saturating_add(1);
        let is_overdue = self.uncopied >= MAX_POLLS;
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

    fn take_lenders(&mut self) -> Vec<u32> {
        let mut lenders = std::mem::take(&mut self.lenders);
        lenders.retain(|at| self.known(*at).is_some_and(|peer| peer.link.lent() > 0));
        lenders
    }

    fn copy_oldest(&mut self, at: u32, sink: &mut dyn FrameSink) -> bool {
        let copied = self.copy_or_ask(at);
        if copied && let Some(peer) = self.known(at) {
            peer.link.tell_gone(sink);
        }
        copied
    }

    /// The process is about to sleep, perhaps until a lent message is complete: copies the oldest
    /// message to each peer. Returns whether it copied any; the next poll reports that. All other
    /// messages are written, and the peer acknowledges them as soon as it polls.
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

    fn copy_or_ask(&mut self, at: u32) -> bool {
        let Some(peer) = self.known(at) else { return false };
        if peer.link.copy_oldest() {
            return true;
        }
        if peer.link.is_written() {
            peer.link.ask();
            self.write(at);
        }
        false
    }
}
