//! Private copies of standard sends that would wait for their receivers.
//!
//! A standard send of up to [`Fabric::standard_limit`] bytes does not depend on its receiver:
//! MPI-5.0 section 3.4 allows the library to wait, but programs rely on this. Such a message is
//! announced by its address, so that the receiver can copy it. Before the process waits, the lane
//! copies each such message to its own memory (it *keeps* the message), and the send is complete
//! for the program. If the awaited call also waits for a message, which copies do not bring nearer,
//! the lane copies only sends from buffers in several pieces ([`CopiedSends::InPieces`]); so each
//! of the two messages of an exchange is copied once. If the receiver is about to read the message,
//! one compare-exchange decides ([`oxmpi_shm::announcement`]). Only messages that the receiver can
//! get without the sender are kept, as the sender may make no progress for long. A message that
//! found no room in ring or pool stays in the backlog.

use super::Lane;
use crate::compound::Standing;
use crate::request::{Mode, Mover, Outstanding, Phase, RequestId, Work};
use oxmpi_fabric::Fabric;

/// Bytes of all private copies together. Above this limit sends wait: otherwise a program that
/// sends without end to a process without receives would use all memory.
const MOST_KEPT: usize = 64 << 20;

/// The sends of which a process makes private copies before it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiedSends {
    /// The process may wait for one of the sends.
    All,
    /// Only sends from buffers in several pieces, which no receiver can read by itself. The process
    /// waits for a message, and copies of other sends would not end that wait.
    InPieces,
}

impl<F: Fabric> Lane<F> {
    pub(super) fn may_keep(&mut self, context: u32, to: u32, mode: Mode, len: usize) -> bool {
        // The receivers of collective messages come without a copy.
        let is_users = |id: oxmpi_wire::ContextId| !id.is_collective();
        matches!(mode, Mode::Standard | Mode::Ready)
            && len <= self.fabric.standard_limit(to)
            && self.state.contexts.get(context).is_some_and(|own| is_users(own.id))
    }

    pub(super) fn note_keepable(&mut self, request: RequestId) {
        if self.keepable.len() == self.keepable.capacity() {
            // Removes ended sends, as a program that never waits never reaches `keep_sends`.
            self.keepable.retain(|request| self.state.requests.send_mut(*request).is_some());
        }
        self.keepable.push(request);
    }

    /// Whether the lane has sends that may be kept.
    pub fn has_keepable(&self) -> bool {
        !self.keepable.is_empty()
    }

    /// Whether a request cannot complete before a receive that is active.
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

    /// Keeps the sends of `copied` that would wait for their receivers. A peer for which this
    /// process is about to wait may itself wait for one of them. Returns whether any send was kept.
    pub fn keep_sends(&mut self, copied: CopiedSends) -> bool {
        if self.keepable.is_empty() {
            return false;
        }
        let before = self.state.requests.kept_bytes();
        let mut sends = std::mem::take(&mut self.keepable);
        sends.retain(|request| self.keep(*request, copied));
        self.keepable = sends;
        let any = self.state.requests.kept_bytes() != before;
        if any {
            // Another thread may wait for one of the sends.
            self.state.requests.note_news();
        }
        any
    }

    /// Keeps a send if its receiver has not begun to read it. Returns whether to try again later:
    /// the send is not announced yet, `copied` excludes it, or [`MOST_KEPT`] bytes are kept.
    fn keep(&mut self, request: RequestId, copied: CopiedSends) -> bool {
        let kept_bytes = self.state.requests.kept_bytes();
        let Some(work) = self.state.requests.send_mut(request) else { return false };
        if work.phase == Phase::Waiting {
            return true;
        }
        let Some(announcement) = work.announcement.filter(|_| work.phase == Phase::Announced)
        else {
            return false;
        };
        // For a pulled message, `mover` says whether this process sends the data.
        if work.is_kept || work.is_withdrawn || work.mover != Mover::Open {
            return false;
        }
        let is_left = copied == CopiedSends::InPieces && work.buffer.as_contiguous().is_some();
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

    pub(super) fn is_kept(&mut self, request: RequestId) -> bool {
        self.state.requests.send_mut(request).is_some_and(|work| work.is_kept && !work.is_withdrawn)
    }

    pub(super) fn close_announcements(&mut self) {
        while let Some(announcement) = self.state.requests.take_ended_announcement() {
            self.fabric.close_announcement(announcement);
        }
    }
}
