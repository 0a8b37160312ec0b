//! The results of receives in the network, and messages in frames for such receives (rules in
//! `lane/tagged.rs`).

use super::{LaneState, Todo};
use crate::matching::Contest;
use crate::peer::BodyTarget;
use crate::request::{Completion, Posting, RequestId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    No,
    /// The message waits behind a contested one.
    Behind,
    /// The message waits for this receive, which is posted in the network.
    For(RequestId),
}

impl LaneState {
    pub(crate) fn hold(&mut self, index: u32, from: u32, tag: i32) -> Hold {
        let Some(own) = self.contexts.get(index) else { return Hold::No };
        if own.contested.is_some() {
            return Hold::Behind;
        }
        let Some(request) = own.posted.first_matching(from, tag) else { return Hold::No };
        let Some(work) = self.requests.receive_mut(request) else { return Hold::No };
        match work.posting {
            Posting::Here => Hold::No,
            // The receive is not yet posted in the network, and now stays here.
            Posting::Waiting => {
                work.posting = Posting::Here;
                Hold::No
            }
            Posting::Posted | Posting::Contested | Posting::Cancelled | Posting::Probed => {
                Hold::For(request)
            }
        }
    }

    pub(crate) fn contest(&mut self, index: u32, key: u32, receive: RequestId) {
        let Some(own) = self.contexts.get_mut(index) else { return };
        own.contested = Some(Contest { receive, key, withdrawal: None });
        if let Some(work) = self.requests.receive_mut(receive)
            && work.posting == Posting::Posted
        {
            work.posting = Posting::Contested;
            self.todo.push_back(Todo::Contest(receive));
        }
    }

    pub(crate) fn end_contest(&mut self, index: u32, receive: RequestId) {
        let Some(own) = self.contexts.get_mut(index) else { return };
        let Some(contest) = own.contested.take_if(|contest| contest.receive == receive) else {
            return;
        };
        self.match_held(index);
        if let Some(withdrawal) = contest.withdrawal {
            self.drop_withdrawn(index, withdrawal);
        }
        // Fails receives from a lost process that were posted during the contest and got no
        // message.
        for peer in self.lost.clone() {
            for request in
                self.requests.active(|context, from| context == index && from == Some(peer))
            {
                if self.requests.receive(request).is_some_and(|work| work.is_posted) {
                    self.fail_with(request, peer);
                }
            }
        }
    }

    fn give_contested(&mut self, index: u32) {
        let Some(own) = self.contexts.get_mut(index) else { return };
        let Some(Contest { receive, key, .. }) = own.contested else { return };
        let Some(message) = own.unexpected.remove(key) else { return };
        self.unpost(receive);
        self.note_unexpected_match(index, &message);
        self.give(message, BodyTarget::Unexpected { context: index, key }, receive);
    }

    fn match_held(&mut self, index: u32) {
        loop {
            let Some(own) = self.contexts.get_mut(index) else { return };
            let posted = &own.posted;
            let Some(key) =
                own.unexpected.find(|held| posted.first_matching(held.from, held.tag).is_some())
            else {
                return;
            };
            let Some((from, tag)) = own.unexpected.get(key).map(|held| (held.from, held.tag))
            else {
                return;
            };
            match self.hold(index, from, tag) {
                Hold::Behind => return,
                Hold::For(receive) => return self.contest(index, key, receive),
                Hold::No => {}
            }
            let Some(own) = self.contexts.get_mut(index) else { return };
            let (Some(receive), Some(message)) =
                (own.take_posted(from, tag), own.unexpected.remove(key))
            else {
                return;
            };
            self.note_unexpected_match(index, &message);
            self.give(message, BodyTarget::Unexpected { context: index, key }, receive);
        }
    }

    pub(super) fn end_received(&mut self, token: u64, from: u32, tag: i32, length: u64) {
        let request = RequestId::from_raw(token);
        let Some(work) =
            self.requests.receive_mut(request).filter(|work| work.posting != Posting::Here)
        else {
            return;
        };
        work.posting = Posting::Here;
        let context = work.context;
        self.unpost(request);
        self.tally.tagged_received += 1;
        self.tally.tagged_bytes_received += length;
        let stored = self.note_match(request, from, tag, length);
        if let Some(work) = self.requests.receive_mut(request) {
            work.stored = stored;
        }
        self.finish_receive(request);
        self.end_contest(context, request);
    }

    pub(super) fn end_not_received(&mut self, token: u64) {
        let request = RequestId::from_raw(token);
        let Some(work) = self.requests.receive_mut(request) else { return };
        let context = work.context;
        match std::mem::replace(&mut work.posting, Posting::Here) {
            Posting::Contested => self.give_contested(context),
            Posting::Cancelled => {
                self.unpost(request);
                let cancelled = Completion { cancelled: true, ..Completion::EMPTY };
                self.requests.complete(request, cancelled);
            }
            Posting::Here | Posting::Waiting | Posting::Posted | Posting::Probed => {
                self.nonsense += 1;
                return;
            }
        }
        self.end_contest(context, request);
    }
}
