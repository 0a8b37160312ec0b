//! Longer eager messages, which are written from the user's buffer.
//!
//! A record must be retained until the peer has acknowledged it, as the connection may break. But
//! in a row of many messages the acknowledgement mostly comes while the sender still waits for
//! others, and then no copy is needed. So the message is lent: it is complete when it is
//! acknowledged, or when a poll in vain gives this process the time to copy it. A process that
//! waits for a single message completes it at the first such poll; the peer reads already by then.
//! The process does not sleep while a message could be copied: the acknowledgement may come late,
//! as the peer does not acknowledge a few messages by itself.

use super::peer::ConnectionState;
use super::{Link, Tcp};
use crate::{FrameSink, OutgoingMessage, Sent, Unreachable};
use oxmpi_mem::buffer::UserBuf;

pub(super) const LEND_FROM: usize = 8 << 10;
/// Polls in vain before the first of several messages is copied.
const PATIENCE: u32 = 8;
/// Polls after which a message is copied in any case: another peer may send without a pause.
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

    /// Lends a message by `lend`, if it may leave now, with the sender's number for the frame.
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

    /// After a poll: copies one lent message if it is time. Returns whether it did.
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

    /// The caller puts the list back.
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
    /// one to each peer. Returns whether any was; the next poll reports it. All others are written,
    /// and acknowledged as soon as the peer polls.
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
