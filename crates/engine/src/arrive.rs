//! The sink of the fabric: one entry for each kind of frame.
//!
//! Module `arrival` has the handling of a message by its protocol, `failure` that of a lost process
//! or a revoked context, `withdrawal` that of messages that their senders cancel.

mod arrival;
mod copies;
mod failure;
mod spare;
mod tagged;
mod withdrawal;

pub(crate) use self::copies::Copies;
pub(crate) use self::spare::Spare;
pub(crate) use self::tagged::Hold;

use self::arrival::{Arrival, EagerArrival, RendezvousArrival};
use crate::counts::Tally;
use crate::matching::{Contexts, Unexpected, UnexpectedData, is_notice};
use crate::notes::{Note, NoteQueue};
use crate::peer::{ArrivalOrder, BodyTarget, Early, EarlyKind, Peer};
use crate::request::{Completion, Fault, Mover, Phase, Received, RequestId, Requests, Work};
use oxmpi_fabric::FrameSink;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, Context as Name, ContextId, Envelope, Frame};
use std::collections::{HashMap, VecDeque};

#[derive(Debug)]
pub(crate) enum Todo {
    Answer {
        to: u32,
        frame: Frame,
    },
    /// Send a frame for which no process waits. It is dropped without room, as the peer may have
    /// finalised and take no more frames.
    Hint {
        to: u32,
        frame: Frame,
    },
    /// Notify the sender that no receive will take its message. Without room the notice waits
    /// until the sender withdraws the message.
    NotifyUnmatchable {
        to: u32,
        request: u64,
    },
    CheckLeft(u32),
    SendLast(u32, ContextId),
    Fetch(Fetch),
    Flush(u32),
    /// Cancel a receive in the network, because a message for it has arrived in a frame.
    Contest(RequestId),
    EndLost {
        request: RequestId,
        peer: u32,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetch {
    pub(crate) receive: RequestId,
    pub(crate) from: u32,
    pub(crate) announced: Announced,
    /// Bytes to transfer: the length of the message, or of the buffer if that is shorter.
    pub(crate) wanted: usize,
    /// Stored bytes of the message, which came with the announcement.
    pub(crate) begun: usize,
}

/// The lane without its fabric.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) me: u32,
    pub(crate) peers: Vec<Option<Box<Peer>>>,
    pub(crate) contexts: Contexts,
    pub(crate) requests: Requests,
    pub(crate) todo: VecDeque<Todo>,
    pub(crate) lost: Vec<u32>,
    pub(crate) nonsense: u64,
    pub(crate) spare: Spare,
    pub(crate) copies: Copies,
    pub(crate) notices: VecDeque<u32>,
    pub(crate) alarm: bool,
    pub(crate) tally: Tally,
    pub(crate) notes: NoteQueue,
    /// Whether this process finalises and all its messages have left.
    pub(crate) has_sent_all: bool,
    /// Whether the program ends, and sends nothing more in any context.
    pub(crate) ends: bool,
    /// Processes that requested a [`Frame::Last`] for a context.
    pub(crate) last_requests: Vec<(u32, ContextId)>,
    /// The answers to [`Frame::AskLast`]; `None` until they arrive.
    pub(crate) last_messages: HashMap<(u32, ContextId), Option<u64>>,
    pub(crate) is_matching: bool,
    /// The highest index of a context that a tag of the network can name.
    pub(crate) last_tagged: u32,
}

impl LaneState {
    #[inline]
    pub(crate) fn peer(&mut self, process: u32) -> &mut Peer {
        let at = process as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        self.peers[at].get_or_insert_with(Box::default)
    }

    #[inline]
    pub(crate) fn known_peer(&self, process: u32) -> Option<&Peer> {
        self.peers.get(process as usize)?.as_deref()
    }

    #[inline]
    fn arrive<A: Arrival>(&mut self, from: u32, envelope: Envelope, arrival: A) {
        let index = match envelope.context {
            Name::Local(index) => index,
            Name::Global(id) => {
                let index = self.contexts.adopt(id);
                self.todo.push_back(Todo::Hint { to: from, frame: Frame::Learn { id, index } });
                index
            }
        };
        if let Some(request) = arrival.waiting()
            && self.was_withdrawn(from, request)
        {
            if arrival.more_comes() {
                self.peer(from).body = Some(BodyTarget::Nowhere);
            }
            return;
        }
        let hold = if self.is_matching { self.hold(index, from, envelope.tag) } else { Hold::No };
        let Some(context) = self.contexts.get_mut(index) else {
            // The communicator was freed with messages under way, which is an error of the program:
            // no receive can take the message.
            self.nonsense += 1;
            if let Some(request) = arrival.waiting() {
                self.drop_unmatchable(from, request);
            }
            if arrival.more_comes() {
                self.peer(from).body = Some(BodyTarget::Nowhere);
            }
            return;
        };
        let posted = if hold == Hold::No { context.take_posted(from, envelope.tag) } else { None };
        match posted {
            Some(request) => arrival.matched(self, from, envelope.tag, request),
            None => {
                let more = arrival.more_comes();
                self.requests.note_news();
                if is_notice(context.id, envelope.tag) {
                    self.notices.push_back(index);
                    self.alarm = true;
                } else if context.revoked {
                    if more {
                        self.peer(from).body = Some(BodyTarget::Nowhere);
                    }
                    return;
                }
                let key = context.unexpected.push(Unexpected {
                    from,
                    tag: envelope.tag,
                    content: arrival.unexpected(&mut self.spare),
                });
                if more {
                    self.peer(from).body = Some(BodyTarget::Unexpected { context: index, key });
                }
                if let Hold::For(receive) = hold {
                    self.contest(index, key, receive);
                }
            }
        }
    }

    /// The most frequent case: a whole message, the next one of its sender, that fits the oldest
    /// posted receive. `false`: another case, and nothing happened.
    #[inline(always)]
    fn eager_now(
        &mut self,
        from: u32,
        sequence: u8,
        (index, tag): (u32, i32),
        message: Bytes<'_>,
    ) -> bool {
        let LaneState { peers, contexts, requests, .. } = self;
        let Some(Some(peer)) = peers.get_mut(from as usize) else { return false };
        let peer = &mut **peer;
        let Some(context) = contexts.get_mut(index) else { return false };
        if peer.expected as u8 != sequence || !peer.early.is_empty() {
            return false;
        }
        // No closures here: the compiler makes calls of them.
        let Some(receive) = context.oldest_posted(from, tag) else { return false };
        let bytes = message.len() as u64;
        if !requests.complete_plain(
            receive,
            message,
            Received { source: context.rank_of(from), tag, bytes },
        ) {
            return false;
        }
        peer.count_in(bytes);
        context.posted.forget_first();
        true
    }

    #[inline]
    fn in_order<A: Arrival>(&mut self, from: u32, sequence: u8, envelope: Envelope, arrival: A) {
        let peer = self.peer(from);
        match peer.order_of(sequence) {
            ArrivalOrder::Due => {
                peer.count_in(arrival.length());
                let some_are_early = !peer.early.is_empty();
                self.arrive(from, envelope, arrival);
                if some_are_early {
                    self.catch_up(from);
                }
            }
            ArrivalOrder::Early(number) if !peer.early.contains_key(&number) => {
                if arrival.more_comes() {
                    peer.body = Some(BodyTarget::Early(number));
                }
                let kind = arrival.early(&mut self.spare);
                self.peer(from).early.insert(number, Early { envelope, kind });
            }
            ArrivalOrder::Early(_) | ArrivalOrder::Duplicate => {
                self.nonsense += 1;
                if arrival.more_comes() {
                    self.peer(from).body = Some(BodyTarget::Nowhere);
                }
            }
        }
    }

    #[inline(never)]
    fn eager_in_order(
        &mut self,
        from: u32,
        sequence: u8,
        (index, tag): (u32, i32),
        total: usize,
        first: Bytes<'_>,
    ) {
        let envelope = Envelope { context: Name::Local(index), tag };
        self.in_order(from, sequence, envelope, EagerArrival { sync: None, total, first });
    }

    #[cold]
    fn catch_up(&mut self, from: u32) {
        while let Some(Early { envelope, kind }) = self.peer(from).take_early() {
            self.peer(from).count_in(kind.length());
            match kind {
                EarlyKind::Eager { data, total, sync } => {
                    self.arrive(
                        from,
                        envelope,
                        EagerArrival { sync, total, first: Bytes::from(&data[..]) },
                    );
                    self.spare.give_back(data);
                }
                EarlyKind::Rendezvous { announced, first } => {
                    let bytes = Bytes::from(&first[..]);
                    self.arrive(from, envelope, RendezvousArrival { announced, first: bytes });
                    self.spare.give_back(first);
                }
            }
        }
    }

    /// Records the message of a receive; returns the number of bytes that the receive will store.
    pub(crate) fn note_match(
        &mut self,
        receive: RequestId,
        from: u32,
        tag: i32,
        length: u64,
    ) -> usize {
        let Some(work) = self.requests.receive_mut(receive) else { return 0 };
        work.is_posted = false;
        work.from = Some(from);
        work.tag = tag;
        work.length = length;
        work.expected = usize::try_from(length).unwrap_or(usize::MAX).min(work.buffer.packed_len());
        work.expected
    }

    pub(crate) fn note_rendezvous(&mut self, receive: RequestId, from: u32, tag: i32, bytes: u64) {
        self.tally.rendezvous_received += 1;
        let context = self.requests.context(receive);
        self.notes.push(Note::RendezvousReceived { context, from, tag, bytes });
    }

    pub(crate) fn match_announced(
        &mut self,
        receive: RequestId,
        (from, tag): (u32, i32),
        announced: Announced,
        first: Bytes<'_>,
    ) {
        let wanted = self.note_match(receive, from, tag, announced.length);
        self.note_rendezvous(receive, from, tag, announced.length);
        let begun = first.len();
        if begun > 0 {
            self.store(receive, 0, first);
        }
        self.todo.push_back(Todo::Fetch(Fetch { receive, from, announced, wanted, begun }));
    }

    /// Stores data at packed byte `at` of a receive's buffer, as far as they fit. The last data
    /// complete the receive.
    pub(crate) fn store(&mut self, receive: RequestId, at: usize, data: Bytes<'_>) {
        let Some(work) = self.requests.receive_mut(receive) else { return };
        let room = work.expected.saturating_sub(at).min(data.len());
        if room > 0 {
            work.buffer.unpack(at, data.slice(0, room));
            work.stored += room;
        }
        if work.stored == work.expected {
            self.finish_receive(receive);
        }
    }

    pub(crate) fn finish_receive(&mut self, receive: RequestId) {
        let Some(work) = self.requests.receive_mut(receive) else { return };
        let room = work.buffer.packed_len() as u64;
        let (tag, length) = (work.tag, work.length);
        let source = match (self.contexts.get(work.context), work.from) {
            (Some(context), Some(from)) => context.rank_of(from),
            _ => -1,
        };
        let fault = (length > room).then_some(Fault::Truncated { length, room });
        self.requests.complete(
            receive,
            Completion { source, tag, bytes: length.min(room), fault, ..Completion::EMPTY },
        );
    }

    fn finish_send(&mut self, from: u32, request: u64, phase: Phase) {
        let request = RequestId::from_raw(request);
        match self.requests.send_mut(request) {
            Some(work)
                if work.to == from
                    && (work.phase == phase || phase == Phase::Announced && work.is_pulled()) =>
            {
                self.end_send(request, Phase::Leaving);
            }
            _ => self.nonsense += 1,
        }
    }

    /// Ends a send when all of it has left. The path may still read data behind the beginning of a
    /// message that was matched or dropped.
    fn end_send(&mut self, request: RequestId, phase: Phase) {
        let Some(work) = self.requests.send_mut(request) else { return };
        work.phase = phase;
        if work.is_done() {
            let completion = work.completion();
            self.requests.complete(request, completion);
        }
    }

    pub(crate) fn unpost(&mut self, receive: RequestId) -> bool {
        let Some(work) = self.requests.receive_mut(receive) else { return false };
        let context = work.context;
        std::mem::take(&mut work.is_posted)
            && self.contexts.get_mut(context).is_some_and(|c| c.unpost(receive))
    }
}

impl FrameSink for LaneState {
    #[inline(always)]
    fn eager(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        total: usize,
        first: Bytes<'_>,
    ) {
        // Without an [`Envelope`], which the fast path would have to build.
        match envelope {
            Envelope { context: Name::Local(index), tag } => {
                if first.len() < total || !self.eager_now(from, sequence, (index, tag), first) {
                    self.eager_in_order(from, sequence, (index, tag), total, first);
                }
            }
            _ => self.in_order(from, sequence, envelope, EagerArrival { sync: None, total, first }),
        }
    }

    fn eager_sync(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        request: u64,
        total: usize,
        first: Bytes<'_>,
    ) {
        self.in_order(from, sequence, envelope, EagerArrival { sync: Some(request), total, first });
    }

    fn rendezvous(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        announced: Announced,
        first: Bytes<'_>,
    ) {
        self.in_order(from, sequence, envelope, RendezvousArrival { announced, first });
    }

    fn sync_ack(&mut self, from: u32, request: u64) {
        self.finish_send(from, request, Phase::Unacknowledged);
    }

    fn pull(&mut self, from: u32, request: u64, receiver: u64, length: u64, claimed: bool) {
        let request = RequestId::from_raw(request);
        match self.requests.send_mut(request) {
            Some(work)
                if work.to == from
                    && work.phase == Phase::Announced
                    && length <= work.buffer.packed_len() as u64 =>
            {
                let wanted = length as usize;
                work.phase = Phase::Streaming { receiver, wanted, sent: work.begun.min(wanted) };
                if claimed {
                    work.mover = Mover::Sender;
                }
                self.peer(from).streams.push_back(request);
                self.todo.push_back(Todo::Flush(from));
            }
            // The receiver has pulled before, has then claimed the message or its rest, and could
            // not read it.
            Some(work) if work.to == from && claimed && work.is_pulled() => {
                work.mover = Mover::Sender
            }
            _ => self.nonsense += 1,
        }
    }

    fn fin(&mut self, from: u32, request: u64) {
        self.finish_send(from, request, Phase::Announced);
    }

    fn withdraw(&mut self, from: u32, request: u64, number: u64) {
        self.drop_message(from, request, number);
    }

    fn withdrawn(&mut self, from: u32, request: u64) {
        self.message_was_dropped(from, request);
    }

    fn data(&mut self, from: u32, receiver: u64, offset: u64, total: usize, first: Bytes<'_>) {
        let request = RequestId::from_raw(receiver);
        let base = offset as usize;
        let ours =
            self.requests.receive(request).is_some_and(|w| w.from == Some(from) && !w.is_posted);
        if first.len() < total {
            let target =
                if ours { BodyTarget::Receive { request, base } } else { BodyTarget::Nowhere };
            self.peer(from).body = Some(target);
        }
        if !ours {
            self.nonsense += 1;
        } else {
            self.store(request, base, first);
        }
    }

    fn learn(&mut self, from: u32, id: ContextId, index: u32) {
        if let Some(own) = self.contexts.index_of(id)
            && let Some(context) = self.contexts.get_mut(own)
        {
            context.learn(from, index);
        }
        if self.is_matching {
            // Sends may wait for the index.
            self.todo.push_back(Todo::Flush(from));
        }
    }

    fn ask_index(&mut self, from: u32, id: ContextId) {
        // The communicator need not exist here yet.
        let index = self.contexts.adopt(id);
        self.todo.push_back(Todo::Answer { to: from, frame: Frame::Learn { id, index } });
    }

    fn received(&mut self, token: u64, from: u32, tag: i32, length: u64) {
        self.end_received(token, from, tag, length);
    }

    fn not_received(&mut self, token: u64) {
        self.end_not_received(token);
    }

    fn more(&mut self, from: u32, offset: usize, part: Bytes<'_>) {
        match self.peer(from).body {
            Some(BodyTarget::Receive { request, base }) => {
                self.store(request, base.saturating_add(offset), part)
            }
            Some(BodyTarget::Unexpected { context, key }) => {
                let message =
                    self.contexts.get_mut(context).and_then(|c| c.unexpected.get_mut(key));
                if let Some(Unexpected { content: UnexpectedData::Eager { data, .. }, .. }) =
                    message
                {
                    part.append_to(data);
                }
            }
            Some(BodyTarget::Message(message)) => {
                if let Some(Work::Message(matched)) = self.requests.work_mut(message)
                    && let UnexpectedData::Eager { data, .. } = &mut matched.message.content
                {
                    part.append_to(data);
                }
            }
            Some(BodyTarget::Early(number)) => {
                if let Some(Early { kind: EarlyKind::Eager { data, .. }, .. }) =
                    self.peer(from).early.get_mut(&number)
                {
                    part.append_to(data);
                }
                self.catch_up(from);
            }
            Some(BodyTarget::Nowhere) => {}
            None => self.nonsense += 1,
        }
    }

    fn place(&mut self, from: u32, offset: usize, len: usize) -> Option<BytesMut<'_>> {
        let Some(BodyTarget::Receive { request, base }) = self.peer(from).body else { return None };
        let at = base.checked_add(offset)?;
        let work = self.requests.receive_mut(request)?;
        if len > work.expected.checked_sub(at)? {
            return None;
        }
        Some(work.buffer.as_contiguous_mut()?.into_slice(at, len))
    }

    fn place_lent(&mut self, from: u32, offset: usize, len: usize) -> Option<UserBuf> {
        let Some(BodyTarget::Receive { request, base }) = self.peer(from).body else { return None };
        let at = base.checked_add(offset)?;
        let work = self.requests.receive_mut(request)?;
        if len > work.expected.checked_sub(at)? {
            return None;
        }
        work.buffer.packed_range(at, len).filter(|part| part.as_contiguous().is_some())
    }

    fn placed(&mut self, from: u32, _offset: usize, bytes: usize) {
        let Some(BodyTarget::Receive { request, .. }) = self.peer(from).body else { return };
        let Some(work) = self.requests.receive_mut(request) else { return };
        work.stored += bytes;
        if work.stored == work.expected {
            self.finish_receive(request);
        }
    }

    fn sent(&mut self, token: u64) {
        let request = RequestId::from_raw(token);
        if let Some(work) = self.requests.send_mut(request) {
            work.leaving = work.leaving.saturating_sub(1);
            if work.is_done() {
                let completion = work.completion();
                self.requests.complete(request, completion);
            }
        }
    }

    fn ask_last(&mut self, from: u32, id: ContextId) {
        if self.is_silent_in(id) {
            self.todo.push_back(Todo::SendLast(from, id));
        } else if !self.last_requests.contains(&(from, id)) {
            self.last_requests.push((from, id));
        }
    }

    fn last(&mut self, from: u32, id: ContextId, number: u64) {
        self.last_messages.insert((from, id), Some(number));
        self.requests.note_news();
    }

    fn left(&mut self, peer: u32) {
        self.end_withdrawn(peer);
        self.requests.note_news();
    }

    fn lost(&mut self, peer: u32) {
        self.lose(peer);
    }
}
