//! Receives whose requests were freed, when their process finalises (MPI-5.0 sections 3.7.3 and 11.2.2).
//!
//! 1. Such a receive goes on until its message is in the buffer, or until no process is left that could send one: the source, or any
//!    process of the communicator.
//! 2. A process that finalises with such receives asks each possible sender when it sends nothing more in their context
//!    ([`Frame::AskLast`]). The sender answers when it finalises itself and all that it has sent is gone ([`Frame::Last`]); later on, in
//!    another session, at once. The answer has the number of messages that it had sent: when as many have come, none is missing.
//! 3. A process may be asked about a context before it has created the communicator: a session that it has not begun yet. Such a
//!    question waits.
//! 4. A process that has finalised looks at nothing before its program ends; then it answers all. It does not see what is written to it
//!    afterwards: so the asking process also looks whether a sender has ended, or the world of it for the context of the world.
//! 5. A receive for which no sender is left is given up.
//!
//! Nobody waits for these frames to arrive: a process that has finalised may never look at them.

use super::Lane;
use crate::arrive::State;
use crate::matching::{Context, WORLD};
use crate::outlook::Outlook;
use crate::request::FreedReceive;
use oxmpi_fabric::Fabric;
use oxmpi_wire::{ContextId, Frame};
use std::collections::hash_map::Entry;

impl<F: Fabric> Lane<F> {
    /// Whether all receives are over whose requests were freed. Ask when everything was sent ([`Lane::is_drained`]) and nothing
    /// more will be: peers that want to know are told, until [`Lane::resume`].
    pub fn are_receives_over(&mut self) -> bool {
        self.state.has_sent_all = true;
        self.answer_askers();
        let freed = self.freed_receives();
        if freed.is_empty() {
            return self.is_drained();
        }
        let mut is_one_in_vain = false;
        for receive in &freed {
            is_one_in_vain |= self.is_in_vain(receive);
        }
        if is_one_in_vain {
            // What has come may lie where the fabric keeps it.
            self.look_last();
            for receive in self.freed_receives() {
                if receive.is_posted && self.is_in_vain(&receive) {
                    self.abandon(receive.request);
                }
            }
        }
        self.freed_receives().is_empty() && self.is_drained()
    }

    /// What receives need whose requests were freed.
    pub fn outlook_of_freed_receives(&self) -> Vec<Outlook> {
        self.freed_receives().iter().flat_map(|receive| self.outlook(receive.request)).collect()
    }

    /// The process may send again, in contexts that it opens from now on.
    pub fn resume(&mut self) {
        if std::mem::take(&mut self.state.has_sent_all) {
            let own = self.state.contexts.iter_mut().filter(|context| context.team.is_some());
            own.for_each(|context| context.is_finalized = true);
            self.state.last_messages.clear();
        }
    }

    /// Takes in what has come, and answers, for the last time: the program ends.
    pub fn end(&mut self) {
        self.state.ends = true;
        self.look_last();
        self.answer_askers();
    }

    /// Tells those that have asked where nothing more is sent.
    fn answer_askers(&mut self) {
        let (now, later) = std::mem::take(&mut self.state.askers)
            .into_iter()
            .partition(|(_, id)| self.state.is_silent_in(*id));
        self.state.askers = later;
        let now: Vec<_> = now;
        now.into_iter().for_each(|(asker, id)| self.say_last(asker, id));
    }

    /// Tells a peer that nothing more is sent to it in a context.
    pub(super) fn say_last(&mut self, to: u32, id: ContextId) {
        let number = self.state.peer(to).next_send;
        self.answer(to, Frame::Last { id, number });
    }

    /// The freed receives of the program; those of the library itself are in other contexts.
    fn freed_receives(&self) -> Vec<FreedReceive> {
        let mut freed = self.state.requests.freed_receives();
        freed.retain(|receive| {
            let context = self.state.contexts.get(receive.context);
            let team = context.and_then(|context| context.team.as_ref());
            team.is_some_and(|team| team.point_to_point == receive.context)
        });
        freed
    }

    /// Whether no process is left that may send what a receive waits for. All of them are asked.
    fn is_in_vain(&mut self, receive: &FreedReceive) -> bool {
        let Some(team) = self.team_of(receive.context) else { return true };
        let senders = receive.from.map_or_else(|| team.map.processes(), |from| vec![from]);
        let at = (receive.context, team.id);
        senders.into_iter().filter(|sender| !self.has_sent_last(*sender, at)).count() == 0
    }

    /// Whether a process sends nothing more in a context, and all that it has sent has come. It is asked if that is not known.
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

impl State {
    /// Whether this process sends nothing more in a context.
    pub(crate) fn is_silent_in(&self, id: ContextId) -> bool {
        let own = self.contexts.index_of(id).and_then(|index| self.contexts.get(index));
        let is_over = |context: &Context| context.is_finalized || self.has_sent_all && context.team.is_some();
        self.ends || own.is_some_and(is_over)
    }
}
