//! Cancelling operations that are not matched.
//!
//! A receive leaves the posted receives. A send that has not left leaves the backlog. For a send
//! that has left and whose completion needs a frame of its receiver, the lane requests the receiver
//! to drop the message ([`Frame::Withdraw`]). If the message is unmatched, the receiver drops it
//! and answers [`Frame::Withdrawn`]; otherwise it answers as for any match. So exactly one of the
//! two answers ends the send, and no receive gets a dropped message. A receiver that has left MPI
//! drops all messages and may not answer ([`oxmpi_fabric::Membership::has_left`],
//! [`FrameSink::left`](oxmpi_fabric::FrameSink::left)). Other sends do not depend on their receiver
//! and continue.

use super::{LAST_POLLS, Lane};
use crate::arrive::Todo;
use crate::peer::BacklogEntry;
use crate::request::{Completion, Fault, Phase, RequestId};
use oxmpi_fabric::{Body, Fabric, FrameSink as _, Sent};
use oxmpi_wire::Frame;

impl<F: Fabric> Lane<F> {
    /// Cancels a receive or send that is not matched. Returns whether it is already complete as
    /// cancelled. A send that its receiver has to drop completes when the answer arrives, as
    /// cancelled or as matched.
    pub fn cancel(&mut self, request: RequestId) -> bool {
        if let Some(parts) = self.parts(request) {
            // Of pairs only persistent ones can be cancelled: of another pair one half would stay.
            return match parts {
                [Some(part), None] if self.state.requests.persistent_mut(request).is_some() => {
                    self.cancel(part)
                }
                _ => false,
            };
        }
        let in_network = if self.state.is_matching { self.cancel_tagged(request) } else { None };
        let is_over =
            in_network.unwrap_or_else(|| self.state.unpost(request) || self.take_back(request));
        if is_over {
            self.state
                .requests
                .complete(request, Completion { cancelled: true, ..Completion::EMPTY });
        }
        is_over
    }

    /// Takes back a send that has not left (`true`), or requests that its receiver drop the
    /// message.
    fn take_back(&mut self, request: RequestId) -> bool {
        let me = self.state.me;
        let Some(work) = self.state.requests.send_mut(request) else { return false };
        let (to, context) = (work.to, work.context);
        match work.phase {
            Phase::Waiting => {
                let backlog = &mut self.state.peer(to).backlog;
                backlog
                    .retain(|one| !matches!(one, BacklogEntry::Start(waits) if *waits == request));
                true
            }
            Phase::Announced if to == me => self.state.take_back_own(context, request),
            Phase::Announced | Phase::Unacknowledged if work.is_unmatchable => {
                work.phase = Phase::Dropped;
                work.is_done()
            }
            Phase::Announced | Phase::Unacknowledged if !work.is_withdrawn => {
                work.is_withdrawn = true;
                let number = u64::from(work.number);
                self.answer(to, Frame::Withdraw { request: request.raw(), number });
                self.state.todo.push_back(Todo::CheckLeft(to));
                // The thread that waits may sleep.
                self.state.requests.note_news();
                false
            }
            _ => false,
        }
    }

    pub(super) fn notify_unmatchable(&mut self, to: u32, request: u64) {
        if !self.hint(to, Frame::Withdrawn { request }) {
            self.state.peer(to).unmatchable.push(request);
        }
    }

    /// Sends a frame about a withdrawn or the last message. A process that has left needs no such
    /// frame, and makes no room for it.
    pub(super) fn offer_late(&mut self, to: u32, frame: Frame) -> Result<Sent, Fault> {
        let sent = self.offer(to, frame, Body::NONE, 0)?;
        if sent == Sent::Full && !self.fabric.has_left(to) {
            return Ok(Sent::Full);
        }
        if matches!(frame, Frame::Withdraw { .. }) {
            self.state.todo.push_back(Todo::CheckLeft(to));
        }
        Ok(Sent::Done)
    }

    /// Ends the withdrawals of a peer that has left, which does not answer a [`Frame::Withdraw`]
    /// that it has not read.
    pub(super) fn check_left(&mut self, peer: u32) {
        if !self.fabric.has_left(peer) {
            return;
        }
        // The peer may have matched the message and answered before it left.
        let _ = (0..LAST_POLLS).find(|_| !self.fabric.poll(&mut self.state));
        self.state.left(peer);
        // The network takes no more of these messages.
        for request in self.state.requests.active(|_, to| to == Some(peer)) {
            let work =
                self.state.requests.send_mut(request).filter(|work| work.phase == Phase::Dropped);
            if let Some(completion) = work.map(|work| work.completion()) {
                self.fabric.release(request.raw());
                self.state.requests.complete(request, completion);
            }
        }
    }
}
