//! Standard sends that would wait for their receivers.
//!
//! A standard send of up to [`Fabric::standard_limit`] bytes does not depend on its receiver (MPI-5.0 section 3.4 leaves that to the
//! library, and programs count on it). It waits where it was announced by its address, so that the receiver can copy it alone. When
//! the process is about to wait, the lane *keeps* such messages: it copies each to memory of its own, and the send is complete for its
//! user. While a call waits for a message as well, which its sends do not bring, it keeps only what lies in several pieces
//! ([`Kept::InPieces`]): so the two messages of an exchange are copied once each. The receiver may be about to read it: one compare-exchange decides ([`oxmpi_shm::announcement`]). Only what the receiver gets
//! without the sender is kept, as the sender may make no progress for long: what found no room in ring or pool stays until there is some.

use super::Lane;
use crate::compound::Standing;
use crate::request::{Mode, Mover, Outstanding, Phase, RequestId, Work};
use oxmpi_fabric::Fabric;

/// So many bytes are kept for all sends together: more of them wait, as a program that sends without end to somebody who does not
/// receive would take all memory.
const MOST_KEPT: usize = 64 << 20;

/// Which sends a process keeps that is about to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All of them: perhaps it waits for one.
    All,
    /// Those alone whose receivers cannot read the data by themselves, and would wait while this process computes behind its wait. It
    /// waits for something that no copy of the others brings nearer.
    InPieces,
}

impl<F: Fabric> Lane<F> {
    /// Whether a send of this mode and length, in this context, does not wait for its receiver.
    pub(super) fn may_keep(&mut self, context: u32, to: u32, mode: Mode, len: usize) -> bool {
        // Those of collectives are the library's own, and their receivers come.
        let is_users = |id: oxmpi_wire::ContextId| !id.is_collective();
        matches!(mode, Mode::Standard | Mode::Ready)
            && len <= self.fabric.standard_limit(to)
            && self.state.contexts.get(context).is_some_and(|own| is_users(own.id))
    }

    /// Notes a send that goes on and may be kept.
    pub(super) fn note_keepable(&mut self, request: RequestId) {
        if self.keepable.len() == self.keepable.capacity() {
            // A program that never waits never has them kept.
            self.keepable.retain(|request| self.state.requests.send_mut(*request).is_some());
        }
        self.keepable.push(request);
    }

    /// Whether some sends may be kept.
    pub fn has_keepable(&self) -> bool {
        !self.keepable.is_empty()
    }

    /// Whether a request cannot be complete before a receive is that goes on.
    pub fn is_receiving(&self, request: RequestId) -> bool {
        match self.state.requests.outstanding(request) {
            Outstanding::Posted(_) | Outstanding::Active(Work::Receive(_)) => true,
            Outstanding::Active(Work::Pair(pair)) => {
                pair.parts.iter().flatten().any(|part| self.is_receiving(*part))
            }
            Outstanding::Active(Work::Persistent(persistent)) => match persistent.standing {
                Standing::Active(part) => self.is_receiving(part),
                Standing::Inactive | Standing::Complete(_) => false,
            },
            Outstanding::Active(_) | Outstanding::Over => false,
        }
    }

    /// Keeps these sends of those that would wait for their receivers: the process is about to wait, and perhaps for what somebody does
    /// who waits for it. Whether any was.
    pub fn keep_sends(&mut self, kept: Kept) -> bool {
        if self.keepable.is_empty() {
            return false;
        }
        let before = self.state.requests.kept_bytes();
        let mut sends = std::mem::take(&mut self.keepable);
        sends.retain(|request| self.keep(*request, kept));
        self.keepable = sends;
        let any = self.state.requests.kept_bytes() != before;
        if any {
            // Perhaps it is another thread that waits for one of them.
            self.state.requests.note_news();
        }
        any
    }

    /// Keeps a send, if its receiver has not begun to read it. Whether to try it again: it was not announced yet, it is not to be kept
    /// now, or too much is kept.
    fn keep(&mut self, request: RequestId, kept: Kept) -> bool {
        let kept_bytes = self.state.requests.kept_bytes();
        let Some(work) = self.state.requests.send_mut(request) else { return false };
        if work.phase == Phase::Waiting {
            return true;
        }
        let Some(announcement) = work.announcement.filter(|_| work.phase == Phase::Announced) else {
            return false;
        };
        // Of what was pulled before the entry says how much this process gives.
        if work.is_kept || work.is_withdrawn || work.mover != Mover::Open {
            return false;
        }
        let is_left = kept == Kept::InPieces && work.buffer.as_contiguous().is_some();
        if is_left || kept_bytes + work.buffer.packed_len() > MOST_KEPT {
            return true;
        }
        let buffer = work.buffer.clone();
        let copy = self.state.copies.copy_of(&buffer);
        let address = copy.as_contiguous().map_or(0, |bytes| bytes.as_ptr() as u64);
        if self.fabric.keep_announcement(announcement, address) {
            self.state.requests.keep_send(request, copy);
        }
        false
    }

    /// Whether a send is complete for its user, and goes on.
    pub(super) fn is_kept(&mut self, request: RequestId) -> bool {
        self.state.requests.send_mut(request).is_some_and(|work| work.is_kept && !work.is_withdrawn)
    }

    /// Gives back the announcements of sends that are over.
    pub(super) fn close_announcements(&mut self) {
        while let Some(announcement) = self.state.requests.take_ended_announcement() {
            self.fabric.close_announcement(announcement);
        }
    }
}
