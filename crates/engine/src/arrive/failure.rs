//! What becomes of requests and messages when a process is lost or a context is revoked.

use super::State;
use crate::matching::{Message, Revocation, Unexpected};
use crate::notes::Note;
use crate::peer::BodyTarget;
use crate::request::{Completion, Fault, RequestId};

impl State {
    /// Completes everything that a lost process would have taken part in.
    pub(crate) fn lose(&mut self, process: u32) {
        let peer = self.peer(process);
        if std::mem::replace(&mut peer.lost, true) {
            return;
        }
        peer.waiting.clear();
        peer.streams.clear();
        peer.early.clear();
        peer.withdrawn.clear();
        peer.nobodys.clear();
        peer.body = None;
        self.lost.push(process);
        self.alarm = true;
        self.requests.note_news();
        self.notes.push(Note::PeerLost { process });
        // Receives from anybody fail only when somebody asks for them: until then they keep their place, so that no
        // receive behind them gets a message that was theirs.
        let concerned = self.requests.active(|_, peer| peer == Some(process));
        for request in concerned {
            self.fail_with(request, process);
        }
        // What it announced and never sent cannot be received any more.
        self.requests.break_messages_of(process);
        for context in self.contexts.iter_mut() {
            let of_it = |u: &&mut Unexpected| u.from == process && u.what.needs_sender();
            for unexpected in context.unexpected.values_mut().filter(of_it) {
                unexpected.what = Message::Broken { length: unexpected.what.length() };
            }
        }
    }

    /// Nobody may talk in a context any more: everything under way in it fails, and so does what is begun.
    pub(crate) fn revoke(&mut self, index: u32) {
        let Some(context) = self.contexts.get_mut(index) else { return };
        if context.revoked {
            return;
        }
        let Revocation { requests, dropped } = context.revoke();
        for (from, key) in dropped {
            // Another message may have its place when the rest of it comes.
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

    /// The process because of which an active request will perhaps never be complete: it is a receive from anybody, and this
    /// member is lost.
    pub(crate) fn hopeless(&self, request: RequestId) -> Option<u32> {
        if self.lost.is_empty() {
            return None;
        }
        let context = self.requests.waits_for_anybody(request)?;
        self.lost_member(context)
    }

    /// A member of a context's team that is lost and not acknowledged: nobody can wait for anybody's message there.
    pub(crate) fn lost_member(&self, context: u32) -> Option<u32> {
        if self.lost.is_empty() {
            return None;
        }
        let own = self.contexts.get(context)?;
        let team = own.team.as_ref()?;
        let mut members = self.lost.iter().copied().filter(|process| team.map.rank(*process).is_some());
        members.nth(own.acknowledged)
    }
}
