//! Messages that their senders want back: dropped if nothing has matched them, and only then.

use super::{State, Todo};
use crate::matching::{Message, Withdrawal};
use crate::peer::BodyTarget;
use crate::request::{Completion, Phase, RequestId};
use oxmpi_wire::Frame;

/// So many messages to one peer can be under way at most (the fabric's first promise), so that no more are withdrawn before
/// they have come.
const UNDER_WAY: usize = 127;

impl State {
    /// Another process withdraws the message of a request of its, which came behind `number` others (modulo 2^32).
    pub(super) fn drop_message(&mut self, from: u32, request: u64, number: u64) {
        let peer = self.peer(from);
        if (number as u32).wrapping_sub(peer.expected as u32) <= UNDER_WAY as u32 {
            // It has not had its turn: it is dropped when that comes.
            if peer.withdrawn.len() < UNDER_WAY && !peer.withdrawn.contains(&request) {
                peer.withdrawn.push(request);
            } else {
                self.nonsense += 1;
            }
            return;
        }
        self.drop_unexpected(from, request);
    }

    /// Drops an unexpected message that its sender withdraws, if it is there.
    pub(super) fn drop_unexpected(&mut self, from: u32, request: u64) {
        let Some((index, key)) = self.contexts.find_waiting(from, request) else {
            // It was matched, which is answered, or was nobody's, which was said if there was room.
            let unsaid = &mut self.peer(from).nobodys;
            if let Some(at) = unsaid.iter().position(|known| *known == request) {
                unsaid.swap_remove(at);
                self.todo.push_back(Todo::Answer { to: from, frame: Frame::Withdrawn { request } });
            }
            return;
        };
        if let Some(own) = self.contexts.get_mut(index)
            && let Some(contest) = own.contested.as_mut().filter(|contest| contest.key == key)
        {
            // It is matched, unless the network says that its receive has another one.
            contest.withdrawal = Some(Withdrawal::Of(from, request));
            return;
        }
        let peer = self.peer(from);
        if peer.body == Some(BodyTarget::Unexpected { context: index, key }) {
            peer.body = Some(BodyTarget::Nowhere);
        }
        let dropped = self.contexts.get_mut(index).and_then(|context| context.unexpected.remove(key));
        if let Some(Message::Eager { data, .. } | Message::Rendezvous { first: data, .. }) =
            dropped.map(|unexpected| unexpected.what)
        {
            self.spare.give_back(data);
        }
        self.todo.push_back(Todo::Answer { to: from, frame: Frame::Withdrawn { request } });
    }

    /// Takes a message of this process to itself back. Whether nobody had it.
    pub(crate) fn take_back_own(&mut self, index: u32, request: RequestId) -> bool {
        let Some(own) = self.contexts.get_mut(index) else { return false };
        let is_it =
            |message: &Message| matches!(message, Message::Own { request: own, .. } if *own == request);
        let Some(key) = own.unexpected.find(|unexpected| is_it(&unexpected.what)) else { return false };
        if let Some(contest) = own.contested.as_mut().filter(|contest| contest.key == key) {
            contest.withdrawal = Some(Withdrawal::Own(request));
            return false;
        }
        own.unexpected.remove(key).is_some()
    }

    /// Its sender wanted a message back while a receive was contested for it: if nobody has it now, it is dropped.
    pub(super) fn drop_withdrawn(&mut self, index: u32, withdrawal: Withdrawal) {
        match withdrawal {
            Withdrawal::Of(from, request) if self.contexts.find_waiting(from, request).is_some() => {
                self.drop_unexpected(from, request);
            }
            Withdrawal::Own(request) if self.take_back_own(index, request) => {
                let cancelled = Completion { cancelled: true, ..Completion::EMPTY };
                self.requests.complete(request, cancelled);
            }
            Withdrawal::Of(..) | Withdrawal::Own(_) => {}
        }
    }

    /// Whether a message whose turn has come was withdrawn before. Then its sender hears that nobody gets it.
    #[inline]
    pub(super) fn was_withdrawn(&mut self, from: u32, request: u64) -> bool {
        let withdrawn = &mut self.peer(from).withdrawn;
        let Some(at) = withdrawn.iter().position(|known| *known == request) else { return false };
        withdrawn.swap_remove(at);
        self.todo.push_back(Todo::Answer { to: from, frame: Frame::Withdrawn { request } });
        true
    }

    /// A message is nobody's any more, as its communicator is gone here. Its sender is told, if it waits: it may cancel it. (It may be
    /// over as well, and take nothing.)
    pub(crate) fn drop_nobodys(&mut self, from: u32, request: u64) {
        self.todo.push_back(Todo::SayNobodys { to: from, request });
    }

    /// A peer matches nothing any more: it has dropped all that it was to drop.
    pub(super) fn end_withdrawn(&mut self, peer: u32) {
        for request in self.requests.active(|_, to| to == Some(peer)) {
            if self.requests.send_mut(request).is_some_and(|work| work.is_withdrawn && work.is_unmatched()) {
                self.end_send(request, Phase::Dropped);
            }
        }
    }

    /// The receiver has dropped the message of a send that was cancelled, or may be.
    pub(super) fn message_was_dropped(&mut self, from: u32, request: u64) {
        let request = RequestId::from_raw(request);
        match self.requests.send_mut(request) {
            Some(work) if work.to == from && work.is_unmatched() => {
                work.is_nobodys = true;
                if work.is_withdrawn {
                    self.end_send(request, Phase::Dropped);
                }
            }
            _ => self.nonsense += 1,
        }
    }
}
