//! A message by its protocol, eager or rendezvous: its handling when it is matched, unexpected or
//! early.

use super::{LaneState, Spare, Todo};
use crate::matching::UnexpectedData;
use crate::peer::{BodyTarget, EarlyKind};
use crate::request::{Received, RequestId};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Announced, Frame};

pub(super) trait Arrival {
    fn matched(self, state: &mut LaneState, from: u32, tag: i32, receive: RequestId);
    fn unexpected(self, spare: &mut Spare) -> UnexpectedData;
    fn early(self, spare: &mut Spare) -> EarlyKind;
    /// The sender's request, if the sender waits for the match.
    fn waiting(&self) -> Option<u64>;
    /// Whether later parts of the body are under way.
    fn more_comes(&self) -> bool;
    /// In bytes.
    fn length(&self) -> u64;
}

pub(super) struct EagerArrival<'a> {
    pub(super) sync: Option<u64>,
    pub(super) total: usize,
    pub(super) first: Bytes<'a>,
}

impl Arrival for EagerArrival<'_> {
    #[inline]
    fn matched(self, state: &mut LaneState, from: u32, tag: i32, receive: RequestId) {
        if self.sync.is_none() && !self.more_comes() {
            let context = state.requests.context(receive);
            let source = state.contexts.get(context).map_or(-1, |context| context.rank_of(from));
            let received = Received { source, tag, bytes: self.total as u64 };
            if state.requests.complete_plain(receive, self.first, received) {
                return;
            }
        }
        state.note_match(receive, from, tag, self.total as u64);
        if let Some(request) = self.sync {
            state.todo.push_back(Todo::Answer { to: from, frame: Frame::SyncAck { request } });
        }
        if self.more_comes() {
            state.peer(from).body = Some(BodyTarget::Receive { request: receive, base: 0 });
        }
        state.store(receive, 0, self.first);
    }

    #[inline]
    fn unexpected(self, spare: &mut Spare) -> UnexpectedData {
        if self.sync.is_none()
            && !self.more_comes()
            && let Some(short) = UnexpectedData::short(self.first)
        {
            return short;
        }
        UnexpectedData::Eager {
            data: spare.collect(self.first, self.total),
            total: self.total,
            sync: self.sync,
        }
    }

    fn early(self, spare: &mut Spare) -> EarlyKind {
        EarlyKind::Eager {
            data: spare.collect(self.first, self.total),
            total: self.total,
            sync: self.sync,
        }
    }

    #[inline]
    fn waiting(&self) -> Option<u64> {
        self.sync
    }

    #[inline]
    fn more_comes(&self) -> bool {
        self.first.len() < self.total
    }

    #[inline]
    fn length(&self) -> u64 {
        self.total as u64
    }
}

pub(super) struct RendezvousArrival<'a> {
    pub(super) announced: Announced,
    pub(super) first: Bytes<'a>,
}

impl Arrival for RendezvousArrival<'_> {
    fn matched(self, state: &mut LaneState, from: u32, tag: i32, receive: RequestId) {
        let RendezvousArrival { announced, first } = self;
        state.match_announced(receive, (from, tag), announced, first);
    }

    fn unexpected(self, spare: &mut Spare) -> UnexpectedData {
        let RendezvousArrival { announced, first } = self;
        UnexpectedData::Rendezvous { announced, first: spare.beginning(first) }
    }

    fn early(self, spare: &mut Spare) -> EarlyKind {
        let RendezvousArrival { announced, first } = self;
        EarlyKind::Rendezvous { announced, first: spare.beginning(first) }
    }

    fn waiting(&self) -> Option<u64> {
        Some(self.announced.request)
    }

    fn more_comes(&self) -> bool {
        false
    }

    fn length(&self) -> u64 {
        self.announced.length
    }
}
