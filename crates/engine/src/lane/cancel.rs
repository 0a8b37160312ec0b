//! Cancelling what was not matched yet.
//!
//! A receive is taken out of the posted ones. A send that has not left is taken out of what waits to leave; of one that has, whose
//! receiver must say something before it is complete, the receiver is asked to drop the message ([`Frame::Withdraw`]). It does
//! if nothing has matched it, and says so ([`Frame::Withdrawn`]); else the match is answered as always. So exactly one of the
//! two ends the send, and a message that was dropped is seen by nobody. A receiver that has left MPI drops everything, and may say
//! nothing ([`oxmpi_fabric::Membership::has_left`], [`FrameSink::left`](oxmpi_fabric::FrameSink::left)). All other sends need nobody, and go on.

use super::{LAST_LOOKS, Lane};
use crate::arrive::Todo;
use crate::peer::Waiting;
use crate::request::{Completion, Fault, Phase, RequestId};
use oxmpi_fabric::{Body, Fabric, FrameSink as _, Sent};
use oxmpi_wire::Frame;

impl<F: Fabric> Lane<F> {
    /// Cancels a receive or send that was not matched yet. Returns whether that is known already: it is then complete as
    /// cancelled. A send of which the receiver must be asked is complete when the answer has come, cancelled or not.
    pub fn cancel(&mut self, request: RequestId) -> bool {
        if let Some(parts) = self.parts(request) {
            // Only what is persistent can be cancelled: of a pair, one half would be left.
            return match parts {
                [Some(part), None] if self.state.requests.persistent_mut(request).is_some() => {
                    self.cancel(part)
                }
                _ => false,
            };
        }
        let in_network = if self.state.is_matching { self.cancel_tagged(request) } else { None };
        let is_over = in_network.unwrap_or_else(|| self.state.unpost(request) || self.take_back(request));
        if is_over {
            self.state.requests.complete(request, Completion { cancelled: true, ..Completion::EMPTY });
        }
        is_over
    }

    /// Takes a send back that nobody knows of, or asks its receiver for it. Whether it is back.
    fn take_back(&mut self, request: RequestId) -> bool {
        let me = self.state.me;
        let Some(work) = self.state.requests.send_mut(request) else { return false };
        let (to, context) = (work.to, work.context);
        match work.phase {
            Phase::Waiting => {
                let waiting = &mut self.state.peer(to).waiting;
                waiting.retain(|one| !matches!(one, Waiting::Start(waits) if *waits == request));
                true
            }
            Phase::Announced if to == me => self.state.take_back_own(context, request),
            Phase::Announced | Phase::Unacknowledged if work.is_nobodys => {
                work.phase = Phase::Dropped;
                work.is_done()
            }
            Phase::Announced | Phase::Unacknowledged if !work.is_withdrawn => {
                work.is_withdrawn = true;
                let number = u64::from(work.number);
                self.answer(to, Frame::Withdraw { request: request.raw(), number });
                self.state.todo.push_back(Todo::SeeWhetherLeft(to));
                // The thread that waits for it may sleep, and does what is due.
                self.state.requests.note_news();
                false
            }
            _ => false,
        }
    }

    /// Tells a process that nobody gets a message of its, or remembers that until it asks.
    pub(super) fn say_nobodys(&mut self, to: u32, request: u64) {
        if !self.hint(to, Frame::Withdrawn { request }) {
            self.state.peer(to).nobodys.push(request);
        }
    }

    /// Sends a word about a message that is asked back, or that nothing more is sent, which had to wait. A process that has left makes no room, and knows without
    /// that what it would say.
    pub(super) fn offer_late(&mut self, to: u32, frame: Frame) -> Result<Sent, Fault> {
        let sent = self.offer(to, frame, Body::NONE, 0)?;
        if sent == Sent::Full && !self.fabric.has_left(to) {
            return Ok(Sent::Full);
        }
        if matches!(frame, Frame::Withdraw { .. }) {
            self.state.todo.push_back(Todo::SeeWhetherLeft(to));
        }
        Ok(Sent::Done)
    }

    /// Whoever has left answers no [`Frame::Withdraw`] that it has not read by then.
    pub(super) fn see_whether_left(&mut self, peer: u32) {
        if !self.fabric.has_left(peer) {
            return;
        }
        // Perhaps it had matched the message, and said so.
        let _ = (0..LAST_LOOKS).find(|_| !self.fabric.poll(&mut self.state));
        self.state.left(peer);
        // Of what has not gone nobody takes the rest.
        for request in self.state.requests.active(|_, to| to == Some(peer)) {
            let work = self.state.requests.send_mut(request).filter(|work| work.phase == Phase::Dropped);
            if let Some(completion) = work.map(|work| work.completion()) {
                self.fabric.release(request.raw());
                self.state.requests.complete(request, completion);
            }
        }
    }
}
