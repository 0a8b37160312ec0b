//! Requests and messages after the failure of a process or the revocation of a context.

use super::LaneState;
use crate::matching::{Revocation, Unexpected, UnexpectedData};
use crate::notes::Note;
use crate::peer::BodyTarget;
use crate::request::{Completion, Fault, RequestId};

impl LaneState {
    pub(crate) fn lose(&mut self, process: u32) {
        let peer = self.peer(process);
        if std::mem::replace(&mut peer.lost, true) {
            return;
        }
        peer.backlog.clear();
        peer.streams.clear();
        peer.early.clear();
        peer.withdrawn.clear();
        peer.unmatchable.clear();
        peer.body = None;
        self.lost.push(process);
        self.alarm = true;
        self.requests.note_news();
        self.notes.push(Note::PeerLost { process });
        // Receives from MPI_ANY_SOURCE fail only when they are queried. Until then they stay
        // posted, so that no later receive gets their message.
        let concerned = self.requests.active(|_, peer| peer == Some(process));
        for request in concerned {
            self.fail_with(request, process);
        }
        // The data of announced messages will not come.
        self.requests.break_messages_of(process);
        for context in self.contexts.iter_mut() {
            let of_it = |u: &&mut Unexpected| u.from == process && u.content.needs_sender();
            for unexpected in context.unexpected.values_mut().filter(of_it) {
                unexpected.content = UnexpectedData::Broken { length: unexpected.content.length() };
            }
        }
    }

    pub(crate) fn revoke(&mut self, index: u32) {
        let Some(context) = self.contexts.get_mut(index) else { return };
        if context.revoked {
            return;
        }
        let Revocation { requests, dropped } = context.revoke();
        for (from, key) in dropped {
            // Another message may have this key when the rest of the body arrives.
            let peer = self.peer(from);
            if peer.body == Some(BodyTarget::Unexpected { context: index, key }) {
                peer.body = Some(BodyTarget::Nowhere);
            }
        }
        for posted in requests {
            self.requests.complete(posted, Completion::failed(Fault::Revoked));
        }
        self.alarm = true;
        self.requests.note_news();
    }

    /// The lost process because of which a receive from MPI_ANY_SOURCE may never complete.
    pub(crate) fn hopeless(&self, request: RequestId) -> Option<u32> {
        if self.lost.is_empty() {
            return None;
        }
        let context = self.requests.waits_for_any_source(request)?;
        self.lost_member(context)
    }

    /// A member of a context's team that is lost and not acknowledged, so that receives from
    /// MPI_ANY_SOURCE fail there.
    pub(crate) fn lost_member(&self, context: u32) -> Option<u32> {
        if self.lost.is_empty() {
            return None;
        }
        let own = self.contexts.get(context)?;
        let team = own.team.as_ref()?;
        let mut members =
            self.lost.iter().copied().filter(|process| team.map.rank(*process).is_some());
        members.nth(own.acknowledged)
    }
}
