//! Receives whose requests were freed before their process finalises (MPI-5.0 sections 3.7.3 and
//! 11.2.2).
//!
//! 1. Such a receive is active until its message is in the buffer, or until no process is left that
//!    could send the message: the source, or any process of the communicator.
//! 2. A process that finalises with such receives sends [`Frame::AskLast`] to each possible sender.
//!    The sender answers [`Frame::Last`] when it finalises and all its messages have left; if it
//!    has finalised, it answers at once in a later session. The answer has the number of messages
//!    that the sender has sent: when all of these have arrived, none is missing.
//! 3. [`Frame::AskLast`] may arrive before the process has created the communicator, in a session
//!    that has not begun. The answer then waits.
//! 4. A process that has finalised makes no progress until its program ends; then it answers
//!    everything. It does not read later frames, so the requesting process also checks whether a
//!    sender has ended, or, in the context of the world, has left.
//! 5. A receive without a possible sender is abandoned.
//!
//! No process waits for these frames.

use super::Lane;
use crate::arrive::LaneState;
use crate::matching::{Context, WORLD};
use crate::outlook::Outlook;
use crate::request::FreedReceive;
use oxmpi_fabric::Fabric;
use oxmpi_wire::{ContextId, Frame};
use std::collections::hash_map::Entry;

impl<F: Fabric> Lane<F> {
    /// Whether all receives whose requests were freed have ended. Call this when everything was
    /// sent ([`Lane::is_drained`]) and nothing more will be sent until [`Lane::resume`]: peers that
    /// have requested it are notified.
    pub fn are_receives_over(&mut self) -> bool {
        self.state.has_sent_all = true;
        self.answer_last_requests();
        let freed = self.freed_receives();
        if freed.is_empty() {
            return self.is_drained();
        }
        let mut is_one_in_vain = false;
        for receive in &freed {
            is_one_in_vain |= self.is_in_vain(receive);
        }
        if is_one_in_vain {
            // The message may have arrived in the fabric.
            self.look_last();
            for receive in self.freed_receives() {
                if receive.is_posted && self.is_in_vain(&receive) {
                    self.abandon(receive.request);
                }
            }
        }
        self.freed_receives().is_empty() && self.is_drained()
    }

    /// The events for which the receives wait whose requests were freed.
    pub fn outlook_of_freed_receives(&self) -> Vec<Outlook> {
        self.freed_receives().iter().flat_map(|receive| self.outlook(receive.request)).collect()
    }

    /// Allows the process to send again, in contexts that it opens later.
    pub fn resume(&mut self) {
        if std::mem::take(&mut self.state.has_sent_all) {
            let own = self.state.contexts.iter_mut().filter(|context| context.team.is_some());
            own.for_each(|context| context.is_finalized = true);
            self.state.last_messages.clear();
        }
    }

    /// Takes in everything that has arrived and answers for the last time, when the program ends.
    pub fn end(&mut self) {
        self.state.ends = true;
        self.look_last();
        self.answer_last_requests();
    }

    fn answer_last_requests(&mut self) {
        let (now, later) = std::mem::take(&mut self.state.last_requests)
            .into_iter()
            .partition(|(_, id)| self.state.is_silent_in(*id));
        self.state.last_requests = later;
        let now: Vec<_> = now;
        now.into_iter().for_each(|(requester, id)| self.send_last(requester, id));
    }

    pub(super) fn send_last(&mut self, to: u32, id: ContextId) {
        let number = self.state.peer(to).next_send;
        self.answer(to, Frame::Last { id, number });
    }

    fn freed_receives(&self) -> Vec<FreedReceive> {
        let mut freed = self.state.requests.freed_receives();
        freed.retain(|receive| {
            let context = self.state.contexts.get(receive.context);
            let team = context.and_then(|context| context.team.as_ref());
            team.is_some_and(|team| team.point_to_point == receive.context)
        });
        freed
    }

    /// Whether no possible sender of a receive is left. Requests an answer from each sender.
    fn is_in_vain(&mut self, receive: &FreedReceive) -> bool {
        let Some(team) = self.team_of(receive.context) else { return true };
        let senders = receive.from.map_or_else(|| team.map.processes(), |from| vec![from]);
        let at = (receive.context, team.id);
        senders.into_iter().filter(|sender| !self.has_sent_last(*sender, at)).count() == 0
    }

    /// Whether all messages of a process in a context have arrived. Requests an answer from the
    /// process.
    fn has_sent_last(&mut self, process: u32, (context, id): (u32, ContextId)) -> bool {
        if process == self.state.me {
            return true;
        }
        if let Entry::Vacant(entry) = self.state.last_messages.entry((process, id)) {
            entry.insert(None);
            self.answer(process, Frame::AskLast { id });
        }
        let last = self.state.last_messages.get(&(process, id)).copied().flatten();
        let peer = self.state.peer(process);
        if peer.lost || last.is_some_and(|number| peer.expected >= number) {
            return true;
        }
        self.fabric.has_ended(process) || context == WORLD && self.fabric.has_left(process)
    }
}

impl LaneState {
    pub(crate) fn is_silent_in(&self, id: ContextId) -> bool {
        let own = self.contexts.index_of(id).and_then(|index| self.contexts.get(index));
        let is_over =
            |context: &Context| context.is_finalized || self.has_sent_all && context.team.is_some();
        self.ends || own.is_some_and(is_over)
    }
}
