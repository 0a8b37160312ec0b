//! What the fabric hands up: one entry for each frame, matched with the continuation known statically.
//!
//! What becomes of a message by its protocol is in `arrival`; what becomes of everything when a process is lost, in `failure`;
//! messages that their senders want back are in `withdrawal`.

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
use crate::matching::{Contexts, Message, Unexpected, is_notice};
use crate::notes::{Note, Notes};
use crate::peer::{BodyTarget, Early, EarlyKind, Peer, Turn};
use crate::request::{Completion, Fault, Mover, Phase, Received, RequestId, Requests, Work};
use oxmpi_fabric::FrameSink;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, Context as Name, ContextId, Envelope, Frame};
use std::collections::{HashMap, VecDeque};

/// Something the lane has to do with its fabric when the poll is over.
#[derive(Debug)]
pub(crate) enum Todo {
    /// Send an answer.
    Answer { to: u32, frame: Frame },
    /// Send something that helps and that nobody waits for: if there is no room it is dropped. (It must not wait: the
    /// peer may have finalised and take nothing any more.)
    Hint { to: u32, frame: Frame },
    /// Tell a process that nobody gets the message of this request of its. If there is no room it hears that when it asks.
    SayNobodys { to: u32, request: u64 },
    /// This process was asked something, and perhaps answers nothing any more.
    SeeWhetherLeft(u32),
    /// Tell a process that nothing more is sent to it in this context.
    SayLast(u32, ContextId),
    /// Get the data of an announced message that was matched.
    Fetch(Fetch),
    /// Something waits to leave for this peer.
    Flush(u32),
    /// Have the network give a receive up, for which a message has come that it does not know.
    Contest(RequestId),
    /// End an operation by tag whose peer is lost.
    EndLost { request: RequestId, peer: u32 },
}

/// An announced message that was matched by a receive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetch {
    pub(crate) receive: RequestId,
    pub(crate) from: u32,
    pub(crate) announced: Announced,
    /// Bytes wanted: the message's, or the buffer's if that is shorter.
    pub(crate) wanted: usize,
    /// Bytes of the message that came with the announcement, and are stored.
    pub(crate) begun: usize,
}

/// All of a lane but its fabric.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) me: u32,
    pub(crate) peers: Vec<Option<Box<Peer>>>,
    pub(crate) contexts: Contexts,
    pub(crate) requests: Requests,
    pub(crate) todo: VecDeque<Todo>,
    /// Processes that are lost, in the order in which that was heard.
    pub(crate) lost: Vec<u32>,
    /// Frames that made no sense, for diagnosis.
    pub(crate) nonsense: u64,
    /// Memory for the data of unexpected messages.
    pub(crate) spare: Spare,
    /// Memory for the data of sends of which the user has the buffer back.
    pub(crate) copies: Copies,
    /// Contexts in which a notice waits, one entry for each.
    pub(crate) notices: VecDeque<u32>,
    /// Whether a notice has come or a process was lost since [`crate::Lane::take_alarm`].
    pub(crate) alarm: bool,
    /// What is counted where nobody hurries.
    pub(crate) tally: Tally,
    /// What a tool wants to hear of.
    pub(crate) notes: Notes,
    /// Whether this process finalises, and has sent everything.
    pub(crate) has_sent_all: bool,
    /// Whether its program ends, and sends nothing more in any context.
    pub(crate) ends: bool,
    /// Processes that want to hear when this one sends nothing more in a context.
    pub(crate) askers: Vec<(u32, ContextId)>,
    /// Processes that were asked when they send nothing more in a context, and how many messages they have sent by then.
    pub(crate) last_messages: HashMap<(u32, ContextId), Option<u64>>,
    /// Whether there is a network that matches.
    pub(crate) is_matching: bool,
    /// The highest index of a context that it can name.
    pub(crate) last_tagged: u32,
}

impl State {
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

    /// Matches a message that came in its turn, and what then becomes of it.
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
            // A communicator that was freed with messages under way: its user's error, and nobody's message.
            self.nonsense += 1;
            if let Some(request) = arrival.waiting() {
                self.drop_nobodys(from, request);
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
                    what: arrival.unexpected(&mut self.spare),
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

    /// A whole message that comes in its turn and is what the oldest posted receive waits for: what happens to most of
    /// them, in one straight line. `false`: it is not like that, and nothing happened.
    #[inline(always)]
    fn eager_now(&mut self, from: u32, sequence: u8, (index, tag): (u32, i32), message: Bytes<'_>) -> bool {
        let State { peers, contexts, requests, .. } = self;
        let Some(Some(peer)) = peers.get_mut(from as usize) else { return false };
        let peer = &mut **peer;
        let Some(context) = contexts.get_mut(index) else { return false };
        if peer.expected as u8 != sequence || !peer.early.is_empty() {
            return false;
        }
        // No closures here: the compiler makes calls of them.
        let Some(receive) = context.oldest_posted(from, tag) else { return false };
        let bytes = message.len() as u64;
        if !requests.complete_plain(receive, message, Received { source: context.rank_of(from), tag, bytes })
        {
            return false;
        }
        peer.count_in(bytes);
        context.posted.forget_first();
        true
    }

    /// Puts a message in its turn, then matches it and all early ones that follow it.
    #[inline]
    fn in_turn<A: Arrival>(&mut self, from: u32, sequence: u8, envelope: Envelope, arrival: A) {
        let peer = self.peer(from);
        match peer.turn(sequence) {
            Turn::Now => {
                peer.count_in(arrival.length());
                let some_are_early = !peer.early.is_empty();
                self.arrive(from, envelope, arrival);
                if some_are_early {
                    self.catch_up(from);
                }
            }
            Turn::Early(number) if !peer.early.contains_key(&number) => {
                if arrival.more_comes() {
                    peer.body = Some(BodyTarget::Early(number));
                }
                let kind = arrival.early(&mut self.spare);
                self.peer(from).early.insert(number, Early { envelope, kind });
            }
            Turn::Early(_) | Turn::Again => {
                self.nonsense += 1;
                if arrival.more_comes() {
                    self.peer(from).body = Some(BodyTarget::Nowhere);
                }
            }
        }
    }

    /// An eager message to a context that its sender knows by its index here.
    #[inline(never)]
    fn eager_in_turn(
        &mut self,
        from: u32,
        sequence: u8,
        (index, tag): (u32, i32),
        total: usize,
        first: Bytes<'_>,
    ) {
        let envelope = Envelope { context: Name::Local(index), tag };
        self.in_turn(from, sequence, envelope, EagerArrival { sync: None, total, first });
    }

    /// Matches the early messages whose turn has come.
    #[cold]
    fn catch_up(&mut self, from: u32) {
        while let Some(Early { envelope, kind }) = self.peer(from).take_early() {
            self.peer(from).count_in(kind.length());
            match kind {
                EarlyKind::Eager { data, total, sync } => {
                    self.arrive(from, envelope, EagerArrival { sync, total, first: Bytes::from(&data[..]) });
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

    /// Notes the message that a receive was matched with; returns how many bytes it will store.
    pub(crate) fn note_match(&mut self, receive: RequestId, from: u32, tag: i32, length: u64) -> usize {
        let Some(work) = self.requests.receive_mut(receive) else { return 0 };
        work.is_posted = false;
        work.from = Some(from);
        work.tag = tag;
        work.length = length;
        work.expected = usize::try_from(length).unwrap_or(usize::MAX).min(work.buffer.packed_len());
        work.expected
    }

    /// Counts an announced message that was matched, and notes it for a tool.
    pub(crate) fn note_rendezvous(&mut self, receive: RequestId, from: u32, tag: i32, bytes: u64) {
        self.tally.rendezvous_received += 1;
        let context = self.requests.context(receive);
        self.notes.push(Note::RendezvousReceived { context, from, tag, bytes });
    }

    /// Gives an announced message to a receive: what came with the announcement, and the rest is to be got.
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

    /// Stores data of a message at packed byte `at` of a receive's buffer, as far as they fit, and completes the
    /// receive with the last of them. Data for a receive that is complete are dropped: they did not fit.
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

    /// Completes a receive whose data are all stored.
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

    /// The receiver has what it wanted of an announced or synchronous message.
    fn finish_send(&mut self, from: u32, request: u64, phase: Phase) {
        let request = RequestId::from_raw(request);
        match self.requests.send_mut(request) {
            Some(work)
                if work.to == from
                    && (work.phase == phase || phase == Phase::Announced && work.is_asked_for()) =>
            {
                self.end_send(request, Phase::Leaving);
            }
            _ => self.nonsense += 1,
        }
    }

    /// The receiver needs nothing more of a send, which ends by this phase: when all is gone, for of a message that was matched, or
    /// dropped, by its beginning the path still reads what follows.
    fn end_send(&mut self, request: RequestId, phase: Phase) {
        let Some(work) = self.requests.send_mut(request) else { return };
        work.phase = phase;
        if work.is_done() {
            let completion = work.completion();
            self.requests.complete(request, completion);
        }
    }

    /// Takes a receive out of the posted ones. Returns whether it was there.
    pub(crate) fn unpost(&mut self, receive: RequestId) -> bool {
        let Some(work) = self.requests.receive_mut(receive) else { return false };
        let context = work.context;
        std::mem::take(&mut work.is_posted)
            && self.contexts.get_mut(context).is_some_and(|c| c.unpost(receive))
    }
}

impl FrameSink for State {
    #[inline(always)]
    fn eager(&mut self, from: u32, sequence: u8, envelope: Envelope, total: usize, first: Bytes<'_>) {
        // In words, so that the short way need not put an envelope together.
        match envelope {
            Envelope { context: Name::Local(index), tag } => {
                if first.len() < total || !self.eager_now(from, sequence, (index, tag), first) {
                    self.eager_in_turn(from, sequence, (index, tag), total, first);
                }
            }
            _ => self.in_turn(from, sequence, envelope, EagerArrival { sync: None, total, first }),
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
        self.in_turn(from, sequence, envelope, EagerArrival { sync: Some(request), total, first });
    }

    fn rendezvous(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        announced: Announced,
        first: Bytes<'_>,
    ) {
        self.in_turn(from, sequence, envelope, RendezvousArrival { announced, first });
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
            // It had pulled before, has claimed the message or the rest of it since, and could not read that.
            Some(work) if work.to == from && claimed && work.is_asked_for() => work.mover = Mover::Sender,
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
        // A receive that is still posted has asked for nothing.
        let ours = self.requests.receive(request).is_some_and(|w| w.from == Some(from) && !w.is_posted);
        if first.len() < total {
            let target = if ours { BodyTarget::Receive { request, base } } else { BodyTarget::Nowhere };
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
            // Sends may wait for that.
            self.todo.push_back(Todo::Flush(from));
        }
    }

    fn ask_index(&mut self, from: u32, id: ContextId) {
        // Also if the communicator is yet to be made here.
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
                let message = self.contexts.get_mut(context).and_then(|c| c.unexpected.get_mut(key));
                if let Some(Unexpected { what: Message::Eager { data, .. }, .. }) = message {
                    part.append_to(data);
                }
            }
            Some(BodyTarget::Message(message)) => {
                if let Some(Work::Message(matched)) = self.requests.work_mut(message)
                    && let Message::Eager { data, .. } = &mut matched.message.what
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
        // Of what does not fit the rest is dropped.
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
            self.todo.push_back(Todo::SayLast(from, id));
        } else if !self.askers.contains(&(from, id)) {
            self.askers.push((from, id));
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
