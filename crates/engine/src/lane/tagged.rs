//! Messages that the network matches ([`MatchingTransport`](oxmpi_fabric::MatchingTransport)).
//!
//! On such a route the messages of a communicator are sent by tag, and receives are posted in the
//! network instead of the lane. A tag has the receiver's index of the context, so a sender first
//! requests that index by a frame ([`Frame::AskIndex`]). Notices, and contexts that keep to frames
//! ([`Lane::keep_to_frames`]), use frames.
//!
//! A receive from MPI_ANY_SOURCE is posted in both places. When a message for it arrives in a
//! frame, the receive is *contested*: it is cancelled in the network, and nothing else is matched
//! in the context until the network has reported the result (`arrive/tagged.rs`). So exactly one
//! message gets the receive, and no later message or receive overtakes.
//!
//! A receive waits if the network has no room for it, and no later receive that could take its
//! message passes it.
//!
//! A peer can be named in the network only after the two processes have met there
//! ([`MatchingTransport::meets`](oxmpi_fabric::MatchingTransport::meets)).

use super::Lane;
use crate::arrive::{LaneState, Todo};
use crate::matching::{MatchPattern, Unexpected, UnexpectedData, is_notice};
use crate::request::{
    Completion, Fault, MatchSource, MatchedMessage, Mode, Phase, Posting, ReceiveWork, RequestId,
    SendWork, Started, TagMatch, Work,
};
use oxmpi_fabric::{Body, Fabric, Probed, Sent, TaggedReceive, TaggedSend};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Context as Name, Frame, Tags};

#[derive(Clone, Copy, Debug)]
pub(super) struct Unposted {
    request: RequestId,
    context: u32,
    from: Option<u32>,
    /// The message of the receive, if a matched probe has taken it.
    name: Option<u64>,
    tags: Tags,
}

impl Unposted {
    /// Whether a receive from `from` in this context could take the same message.
    fn overlaps(&self, context: u32, from: Option<u32>) -> bool {
        self.context == context && (self.from == from || self.from.is_none() || from.is_none())
    }
}

impl<F: Fabric> Lane<F> {
    /// Keeps the messages of a context in frames, also where the network matches. The library then
    /// posts no receives there, and polls for messages. All processes of the context call this
    /// before the first message.
    pub fn keep_to_frames(&mut self, context: u32) {
        if let Some(own) = self.state.contexts.get_mut(context) {
            own.keeps_to_frames = true;
        }
    }

    fn comes_by_tag(&mut self, context: u32, peer: u32) -> bool {
        context <= self.state.last_tagged && self.goes_by_tag(context, peer, 0)
    }

    /// The source of a receive in the network, `Some(None)` for any; `None` if the lane matches it.
    fn source_in_network(&mut self, context: u32, source: MatchSource) -> Option<Option<u32>> {
        match source {
            MatchSource::Any => {
                let own = self.state.contexts.get(context)?;
                (!own.keeps_to_frames && context <= self.state.last_tagged).then_some(None)
            }
            MatchSource::Process(from) => self.comes_by_tag(context, from).then_some(Some(from)),
        }
    }

    /// Whether a message to a peer goes by tag, if a tag can name the context.
    pub(super) fn goes_by_tag(&mut self, context: u32, peer: u32, tag: i32) -> bool {
        peer != self.state.me
            && self
                .state
                .contexts
                .get(context)
                .is_some_and(|own| !own.keeps_to_frames && !is_notice(own.id, tag))
            && self.fabric.is_matched(peer)
    }

    /// As [`Lane::start_send`], by tag. `None`: no tag can name the context, and nothing happened.
    pub(super) fn start_tagged_send(
        &mut self,
        context: u32,
        mode: Mode,
        buffer: &UserBuf,
        (to, tag): (u32, i32),
    ) -> Result<Option<Started>, Fault> {
        if !self.is_nameable(context, to) {
            return Ok(None);
        }
        let len = buffer.packed_len();
        let mut buffer = buffer.clone();
        if mode == Mode::Buffered {
            buffer = self.state.copies.copy_of(&buffer);
        }
        let peer = self.state.peer(to);
        if peer.lost {
            return Err(Fault::Lost { peer: to });
        }
        let work =
            SendWork { is_tagged: true, ..SendWork::new(buffer.clone(), to, (context, tag), mode) };
        let mut sent = Sent::Full;
        if !peer.listed {
            let token = self.state.requests.next_id();
            sent = self.offer_tagged(context, (to, tag), &buffer, mode, token)?;
        }
        let is_buffered = (mode == Mode::Buffered).then_some(len);
        Ok(Some(match sent {
            Sent::Done => Started::Complete(Completion::EMPTY),
            Sent::Later => {
                let work = SendWork { phase: Phase::Leaving, leaving: 1, ..work };
                let request = self.state.requests.insert(Work::Send(work));
                self.started(request, is_buffered)
            }
            Sent::Full => {
                let request = self.state.requests.insert(Work::Send(work));
                let started = self.started(request, is_buffered);
                self.wait_to_begin(to, request);
                started
            }
        }))
    }

    /// Sends a short message by tag, if the network knows the peer. A message that has not left
    /// becomes an active send. `None`: nothing happened.
    #[inline]
    pub(super) fn send_tagged_now(
        &mut self,
        context: u32,
        to: u32,
        tag: i32,
        bytes: Bytes<'_>,
    ) -> Option<Started> {
        let LaneState { peers, contexts, requests, last_tagged, tally, .. } = &mut self.state;
        let peer = peers.get(to as usize)?.as_ref()?;
        let own = contexts.get(context)?;
        if peer.listed | peer.lost | own.revoked | own.keeps_to_frames | (tag < 0) {
            return None;
        }
        let Name::Local(index) = own.name_for(context, to) else { return None };
        if index > *last_tagged {
            return None;
        }
        let token = requests.next_id();
        let sent = self.fabric.matching()?.tsend_short(to, index, tag, bytes, token.raw());
        if sent == Sent::Full {
            return None;
        }
        tally.tagged_sent += 1;
        tally.tagged_bytes_sent += bytes.len() as u64;
        if sent == Sent::Done {
            return Some(Started::Complete(Completion::EMPTY));
        }
        let work = SendWork::new(UserBuf::empty(), to, (context, tag), Mode::Standard);
        let work = SendWork { is_tagged: true, phase: Phase::Leaving, leaving: 1, ..work };
        Some(Started::Pending(requests.insert(Work::Send(work))))
    }

    fn is_nameable(&self, context: u32, peer: u32) -> bool {
        let name = self.state.contexts.get(context).map(|own| own.name_for(context, peer));
        !matches!(name, Some(Name::Local(index)) if index > self.state.last_tagged)
    }

    /// Begins a send of the backlog by tag. `None`: no tag can name the context.
    pub(super) fn begin_tagged(
        &mut self,
        to: u32,
        request: RequestId,
    ) -> Result<Option<Sent>, Fault> {
        let Some(work) = self.state.requests.send_mut(request) else { return Ok(Some(Sent::Done)) };
        let own = work.context;
        if !self.is_nameable(own, to) {
            if let Some(work) = self.state.requests.send_mut(request) {
                work.is_tagged = false;
            }
            return Ok(None);
        }
        let Some(work) = self.state.requests.send_mut(request) else { return Ok(Some(Sent::Done)) };
        let (context, tag, mode, buffer) = (work.context, work.tag, work.mode, work.buffer.clone());
        let sent = self.offer_tagged(context, (to, tag), &buffer, mode, request)?;
        if sent != Sent::Full
            && let Some(work) = self.state.requests.send_mut(request)
        {
            work.phase = Phase::Leaving;
            work.leaving += u32::from(sent == Sent::Later);
            if work.is_done() {
                self.state.requests.complete(request, Completion::EMPTY);
            }
        }
        Ok(Some(sent))
    }

    fn offer_tagged(
        &mut self,
        context: u32,
        (to, tag): (u32, i32),
        buffer: &UserBuf,
        mode: Mode,
        token: RequestId,
    ) -> Result<Sent, Fault> {
        let Some(own) = self.state.contexts.get(context) else { return Err(Fault::Closed) };
        let name = own.name_for(context, to);
        if !self.meets(to) {
            // A process that has left takes nothing.
            let is_nothing = mode != Mode::Synchronous && self.fabric.has_left(to);
            return Ok(if is_nothing { Sent::Done } else { Sent::Full });
        }
        let Name::Local(index) = name else { return self.request_index(context, to) };
        let is_synchronous = mode == Mode::Synchronous;
        let message =
            TaggedSend { context: index, tag, buffer, is_synchronous, token: token.raw() };
        let Some(network) = self.fabric.matching() else { return Err(Fault::Closed) };
        match network.tsend(to, &message) {
            Ok(Sent::Full) => Ok(Sent::Full),
            Ok(sent) => {
                self.state.tally.tagged_sent += 1;
                self.state.tally.tagged_bytes_sent += buffer.packed_len() as u64;
                Ok(sent)
            }
            Err(_) => Err(self.unreachable(to)),
        }
    }

    /// Whether this process and a peer have met in the network. If not, the meeting begins.
    fn meets(&mut self, peer: u32) -> bool {
        self.fabric.matching().is_none_or(|network| network.meets(peer))
    }

    fn request_index(&mut self, context: u32, peer: u32) -> Result<Sent, Fault> {
        let Some(own) = self.state.contexts.get(context) else { return Err(Fault::Closed) };
        if !own.index_requested.contains(&peer) {
            let id = own.id;
            let sent = self.offer(peer, Frame::AskIndex { id }, Body::NONE, 0)?;
            if sent != Sent::Full
                && let Some(own) = self.state.contexts.get_mut(context)
            {
                own.index_requested.push(peer);
            }
        }
        Ok(Sent::Full)
    }

    /// Starts a receive that the network may have to match. `None`: the lane matches it, and
    /// nothing happened.
    pub(super) fn start_tagged_receive(
        &mut self,
        context: u32,
        buffer: &UserBuf,
        source: MatchSource,
        tag: TagMatch,
    ) -> Option<Result<Started, Fault>> {
        let from = self.source_in_network(context, source)?;
        let tags = Tags::from(tag);
        let work = ReceiveWork {
            posting: Posting::Waiting,
            ..ReceiveWork::new(buffer.clone(), context, from)
        };
        if let Some(peer) = from {
            let is_lost = self.state.known_peer(peer).is_some_and(|peer| peer.lost);
            // Messages of a lost process that have arrived can be received.
            if is_lost && self.fabric.matching()?.tprobe(from, context, tags, false).is_none() {
                return Some(Err(Fault::Lost { peer }));
            }
            let request = self.state.requests.insert(Work::Receive(work));
            self.post(Unposted { request, context, from, name: None, tags });
            return Some(Ok(Started::Pending(request)));
        }
        let wanted = MatchPattern::new(source, tag);
        let own = self.state.contexts.get_mut(context)?;
        if own.contested.is_none() && own.find_unexpected(wanted).is_some() {
            return None;
        }
        let request =
            self.state.requests.insert(Work::Receive(ReceiveWork { is_posted: true, ..work }));
        self.state.contexts.get_mut(context)?.post(wanted, request);
        self.post(Unposted { request, context, from, name: None, tags });
        Some(Ok(Started::Pending(request)))
    }

    fn post(&mut self, one: Unposted) {
        if self.is_waited_for(one.context, one.from) || !self.try_post(one) {
            self.unposted.push(one);
        }
    }

    fn is_waited_for(&self, context: u32, from: Option<u32>) -> bool {
        self.unposted.iter().any(|one| one.overlaps(context, from))
    }

    /// Whether a receive waits for room in the network, which no event reports. Other receives wait
    /// for events that wake this process: a meeting, or an earlier receive.
    pub(super) fn waits_for_room(&mut self) -> bool {
        let all = std::mem::take(&mut self.unposted);
        let waits = all.iter().enumerate().any(|(at, one)| {
            one.from.is_none_or(|peer| self.meets(peer))
                && !all[..at].iter().any(|first| first.overlaps(one.context, one.from))
        });
        self.unposted = all;
        waits
    }

    pub(super) fn post_waiting(&mut self) {
        for one in std::mem::take(&mut self.unposted) {
            self.post(one);
        }
    }

    fn try_post(&mut self, Unposted { request, name, tags, .. }: Unposted) -> bool {
        let Some(work) = self.state.requests.receive_mut(request) else { return true };
        let is_probed = name.is_some() && work.posting == Posting::Probed;
        if !is_probed && work.posting != Posting::Waiting {
            return true;
        }
        let (from, context, buffer) = (work.from, work.context, work.buffer.clone());
        if from.is_some_and(|peer| !self.meets(peer)) {
            // If the peer is lost the receive has failed by now.
            return false;
        }
        let Some(network) = self.fabric.matching() else { return true };
        let token = request.raw();
        let is_posted = match name {
            Some(name) => network.receive_probed(name, &buffer, token),
            None => network.trecv(&TaggedReceive { from, context, tags, buffer: &buffer, token }),
        };
        if is_posted
            && !is_probed
            && let Some(work) = self.state.requests.receive_mut(request)
        {
            work.posting = Posting::Posted;
        }
        is_posted
    }

    /// Cancels a receive that the network ends. Returns whether it is already over. `None`: the
    /// network has no such receive.
    pub(super) fn cancel_tagged(&mut self, request: RequestId) -> Option<bool> {
        let work = self.state.requests.receive_mut(request)?;
        match work.posting {
            Posting::Here => None,
            Posting::Waiting => {
                work.posting = Posting::Here;
                self.state.unpost(request);
                Some(true)
            }
            Posting::Posted => {
                work.posting = Posting::Cancelled;
                self.fabric.matching()?.tcancel(request.raw());
                Some(false)
            }
            // The receive has its message, or was cancelled before.
            Posting::Contested | Posting::Cancelled | Posting::Probed => Some(false),
        }
    }

    pub(super) fn contest(&mut self, receive: RequestId) {
        if let Some(network) = self.fabric.matching() {
            network.tcancel(receive.raw());
        }
    }

    pub(super) fn end_lost(&mut self, request: RequestId, peer: u32) {
        self.fabric.release(request.raw());
        self.state.requests.complete(request, Completion::failed(Fault::Lost { peer }));
    }

    pub(super) fn take_back_receives(&mut self, context: u32) {
        for request in self.state.requests.active(|own, _| own == context) {
            let work = self.state.requests.receive_mut(request);
            if work.is_some_and(|work| work.posting != Posting::Here) {
                self.fabric.release(request.raw());
                self.state.unpost(request);
                let cancelled = Completion { cancelled: true, ..Completion::EMPTY };
                self.state.requests.complete(request, cancelled);
            }
        }
    }

    pub(super) fn probe_tagged(
        &mut self,
        context: u32,
        source: MatchSource,
        tag: TagMatch,
        takes: bool,
    ) -> Option<Probed> {
        self.state.contexts.get(context).filter(|own| !own.revoked)?;
        let from = self.source_in_network(context, source)?;
        self.post_waiting();
        if self.is_waited_for(context, from) {
            return None;
        }
        if from.is_some_and(|peer| !self.meets(peer)) {
            return None;
        }
        self.fabric.matching()?.tprobe(from, context, tag.into(), takes)
    }

    pub(super) fn insert_probed(
        &mut self,
        context: u32,
        probed: Probed,
    ) -> (RequestId, Completion) {
        let Probed { from, tag, length, name } = probed;
        let message = Unexpected {
            from,
            tag,
            content: UnexpectedData::InNetwork { name: name.unwrap_or(u64::MAX), length },
        };
        let request =
            self.state.requests.insert(Work::Message(MatchedMessage { context, message }));
        (request, self.state.found(context, probed))
    }

    pub(super) fn receive_probed(
        &mut self,
        context: u32,
        from: u32,
        name: u64,
        buffer: UserBuf,
    ) -> RequestId {
        let work = ReceiveWork {
            posting: Posting::Probed,
            ..ReceiveWork::new(buffer, context, Some(from))
        };
        let request = self.state.requests.insert(Work::Receive(work));
        let from = Some(from);
        self.post(Unposted { request, context, from, name: Some(name), tags: Tags::ANY });
        request
    }

    pub(super) fn withdraw_receive(&mut self, request: RequestId) {
        let Some(work) = self.state.requests.receive_mut(request) else { return };
        let context = work.context;
        work.posting = Posting::Here;
        self.state.unpost(request);
        self.state.end_contest(context, request);
    }
}

impl LaneState {
    pub(super) fn found(
        &self,
        context: u32,
        Probed { from, tag, length, .. }: Probed,
    ) -> Completion {
        let source = self.contexts.get(context).map_or(-1, |own| own.rank_of(from));
        Completion { source, tag, bytes: length, ..Completion::EMPTY }
    }

    /// Whether the network ends an operation, and may still use its buffer.
    pub(crate) fn is_in_network(&mut self, request: RequestId) -> bool {
        match self.requests.send_mut(request) {
            Some(work) => work.is_tagged && work.phase == Phase::Leaving,
            None => {
                self.requests.receive_mut(request).is_some_and(|work| work.posting != Posting::Here)
            }
        }
    }

    /// Fails an operation, if necessary after the network has released its buffer.
    pub(crate) fn fail_with(&mut self, request: RequestId, peer: u32) {
        if self.is_matching && self.is_in_network(request) {
            self.todo.push_back(Todo::EndLost { request, peer });
        } else {
            self.unpost(request);
            self.requests.complete(request, Completion::failed(Fault::Lost { peer }));
        }
    }
}
