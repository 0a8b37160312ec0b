//! Messages that their senders cancel. They are dropped if no receive has matched them.

use super::{LaneState, Todo};
use crate::matching::{UnexpectedData, Withdrawal};
use crate::peer::BodyTarget;
use crate::request::{Completion, Phase, RequestId};
use oxmpi_wire::Frame;

/// The most messages from one peer under way (the fabric's first promise), and so the most
/// withdrawals that arrive before their messages.
const UNDER_WAY: usize = 127;

impl LaneState {
    /// Another process withdraws the message of `request`, whose message number modulo 2^32 is
    /// `number`.
    pub(super) fn drop_message(&mut self, from: u32, request: u64, number: u64) {
        let peer = self.peer(from);
        if (number as u32).wrapping_sub(peer.expected as u32) <= UNDER_WAY as u32 {
            // The message has not arrived: it will be dropped when it is the expected one.
            if peer.withdrawn.len() < UNDER_WAY && !peer.withdrawn.contains(&request) {
                peer.withdrawn.push(request);
            } else {
                self.nonsense += 1;
            }
            return;
        }
        self.drop_unexpected(from, request);
    }

    pub(super) fn drop_unexpected(&mut self, from: u32, request: u64) {
        let Some((index, key)) = self.contexts.find_waiting(from, request) else {
            // Either the message was matched, which another frame reports, or no receive could take
            // it, which a notice has reported if there was room.
            let unsaid = &mut self.peer(from).unmatchable;
            if let Some(at) = unsaid.iter().position(|known| *known == request) {
                unsaid.swap_remove(at);
                self.todo.push_back(Todo::Answer { to: from, frame: Frame::Withdrawn { request } });
            }
            return;
        };
        if let Some(own) = self.contexts.get_mut(index)
            && let Some(contest) = own.contested.as_mut().filter(|contest| contest.key == key)
        {
            // The receive has the message, unless the network gives it another one.
            contest.withdrawal = Some(Withdrawal::Of(from, request));
            return;
        }
        let peer = self.peer(from);
        if peer.body == Some(BodyTarget::Unexpected { context: index, key }) {
            peer.body = Some(BodyTarget::Nowhere);
        }
        let dropped =
            self.contexts.get_mut(index).and_then(|context| context.unexpected.remove(key));
        if let Some(
            UnexpectedData::Eager { data, .. } | UnexpectedData::Rendezvous { first: data, .. },
        ) = dropped.map(|unexpected| unexpected.content)
        {
            self.spare.give_back(data);
        }
        self.todo.push_back(Todo::Answer { to: from, frame: Frame::Withdrawn { request } });
    }

    pub(crate) fn take_back_own(&mut self, index: u32, request: RequestId) -> bool {
        let Some(own) = self.contexts.get_mut(index) else { return false };
        let is_it = |message: &UnexpectedData| matches!(message, UnexpectedData::Own { request: own, .. } if *own == request);
        let Some(key) = own.unexpected.find(|unexpected| is_it(&unexpected.content)) else {
            return false;
        };
        if let Some(contest) = own.contested.as_mut().filter(|contest| contest.key == key) {
            contest.withdrawal = Some(Withdrawal::Own(request));
            return false;
        }
        own.unexpected.remove(key).is_some()
    }

    pub(super) fn drop_withdrawn(&mut self, index: u32, withdrawal: Withdrawal) {
        match withdrawal {
            Withdrawal::Of(from, request)
                if self.contexts.find_waiting(from, request).is_some() =>
            {
                self.drop_unexpected(from, request);
            }
            Withdrawal::Own(request) if self.take_back_own(index, request) => {
                let cancelled = Completion { cancelled: true, ..Completion::EMPTY };
                self.requests.complete(request, cancelled);
            }
            Withdrawal::Of(..) | Withdrawal::Own(_) => {}
        }
    }

    #[inline]
    pub(super) fn was_withdrawn(&mut self, from: u32, request: u64) -> bool {
        let withdrawn = &mut self.peer(from).withdrawn;
        let Some(at) = withdrawn.iter().position(|known| *known == request) else { return false };
        withdrawn.swap_remove(at);
        self.todo.push_back(Todo::Answer { to: from, frame: Frame::Withdrawn { request } });
        true
    }

    /// Notifies the sender of a message whose communicator was freed here, as it may cancel the
    /// send.
    pub(crate) fn drop_unmatchable(&mut self, from: u32, request: u64) {
        self.todo.push_back(Todo::NotifyUnmatchable { to: from, request });
    }

    /// Ends the withdrawn sends to a peer that has left, and so has dropped their messages.
    pub(super) fn end_withdrawn(&mut self, peer: u32) {
        for request in self.requests.active(|_, to| to == Some(peer)) {
            if self
                .requests
                .send_mut(request)
                .is_some_and(|work| work.is_withdrawn && work.is_unmatched())
            {
                self.end_send(request, Phase::Dropped);
            }
        }
    }

    pub(super) fn message_was_dropped(&mut self, from: u32, request: u64) {
        let request = RequestId::from_raw(request);
        match self.requests.send_mut(request) {
            Some(work) if work.to == from && work.is_unmatched() => {
                work.is_unmatchable = true;
                if work.is_withdrawn {
                    self.end_send(request, Phase::Dropped);
                }
            }
            _ => self.nonsense += 1,
        }
    }
}
