//! Standard sends that would wait for their receivers.
//!
//! A standard send of up to [`Fabric::standard_limit`] bytes does not depend on its receiver (MPI-5.0 section 3.4 leaves that to the
//! library, and programs count on it). It waits where it was announced by its address, so that the receiver can copy it alone. When
//! the process is about to wait, the lane *keeps* such messages: it copies each to memory of its own, and the send is complete for its
//! user. While a call also waits for a message, which a copy of its sends does not bring nearer, the
//! lane keeps only sends from buffers in several pieces ([`Kept::InPieces`]): so each of the two
//! messages of an exchange is copied once. The receiver may be about to read a message: one
//! compare-exchange decides ([`oxmpi_shm::announcement`]). Only what the receiver gets
//! without the sender is kept, as the sender may make no progress for long: what found no room in ring or pool stays until there is some.

use super::Lane;
use crate::compound::Standing;
use crate::request::{Mode, Mover, Outstanding, Phase, RequestId, Work};
use oxmpi_fabric::Fabric;

/// So many bytes are kept for all sends together: more of them wait, as a program that sends without end to somebody who does not
/// receive would take all memory.
const MOST_KEPT: usize = 64 << 20;

/// The sends of which a process makes private copies before it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All sends: one of them may be the one that the process waits for.
    All,
    /// Only sends from buffers in several pieces, which no receiver can read by itself. The process
    /// waits for a message, and copies of the other sends would not end that wait.
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

    /// Keeps the sends of `kept` that would wait for their receivers, because a peer on which this
    /// process is about to wait may itself wait for one of them. Returns whether any was kept.
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

    /// Keeps a send if its receiver has not begun to read it. Returns whether to try again later: the
    /// send is not announced yet, `kept` leaves it out, or [`MOST_KEPT`] bytes are kept.
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
