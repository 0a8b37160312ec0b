//! Messages that the network matches by itself ([`MatchingTransport`](oxmpi_fabric::MatchingTransport)).
//!
//! Between this process and a peer on such a route the messages of a communicator are sent by tag, and receives from that peer are
//! posted with the network instead of here. Both only name the receiver's index of the context, so a sender asks for that first
//! ([`Frame::AskIndex`]), in a frame; notices, and contexts that keep to frames ([`Lane::keep_to_frames`]), go in frames as well.
//!
//! A receive from anybody is posted in both places. When a message comes that the network has not matched, and the receive
//! is the one that gets it, the receive is *contested*: it is cancelled in the network, and until the network has said how that ended
//! nothing else is matched in the context (`arrive/tagged.rs`). So exactly one of the two gets the receive, and no later message or
//! receive overtakes them.
//!
//! A receive that finds no room in the network waits, and no later one that could take its message passes it.
//!
//! Nothing is sent to a peer by tag, nor posted from it by name, before the two have met in the network
//! ([`MatchingTransport::meets`](oxmpi_fabric::MatchingTransport::meets)).

use super::Lane;
use crate::arrive::{State, Todo};
use crate::matching::{Message as Waits, Unexpected, Wanted, is_notice};
use crate::request::{
    Completion, Fault, MatchedMessage, Mode, Phase, Posting, ReceiveWork, RequestId, SendWork, Source,
    Started, TagMatch, Work,
};
use oxmpi_fabric::{Body, Fabric, Probed, Sent, TaggedReceive, TaggedSend};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Context as Name, Frame, Tags};

/// A receive that waits to be posted with the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unposted {
    request: RequestId,
    context: u32,
    from: Option<u32>,
    /// The message that it gets, if that was taken out by a probe.
    name: Option<u64>,
    tags: Tags,
}

impl Unposted {
    /// Whether a receive in this context from this source could take the same message.
    fn overlaps(&self, context: u32, from: Option<u32>) -> bool {
        self.context == context && (self.from == from || self.from.is_none() || from.is_none())
    }
}

impl<F: Fabric> Lane<F> {
    /// The messages of a context go in frames, also where the network matches: the library looks for them all the time, and
    /// posts no receives for them. All processes of the context do so before the first message.
    pub fn keep_to_frames(&mut self, context: u32) {
        if let Some(own) = self.state.contexts.get_mut(context) {
            own.keeps_to_frames = true;
        }
    }

    /// Whether a message from a peer comes by tag.
    fn comes_by_tag(&mut self, context: u32, peer: u32) -> bool {
        context <= self.state.last_tagged && self.goes_by_tag(context, peer, 0)
    }

    /// From whom the network would match a receive of this source, `Some(None)` for anybody. `None`: the network has no messages for it.
    fn source_in_network(&mut self, context: u32, source: Source) -> Option<Option<u32>> {
        match source {
            Source::Any => {
                let own = self.state.contexts.get(context)?;
                (!own.keeps_to_frames && context <= self.state.last_tagged).then_some(None)
            }
            Source::Process(from) => self.comes_by_tag(context, from).then_some(Some(from)),
        }
    }

    /// Whether a message to a peer goes by tag, as long as the tags can name what the peer calls the context.
    pub(super) fn goes_by_tag(&mut self, context: u32, peer: u32, tag: i32) -> bool {
        peer != self.state.me
            && self
                .state
                .contexts
                .get(context)
                .is_some_and(|own| !own.keeps_to_frames && !is_notice(own.id, tag))
            && self.fabric.is_matched(peer)
    }

    /// As [`Lane::start_send`], by tag. `None`: the tags cannot name the context, and nothing happened.
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
            // The user has the buffer back when this returns, wherever the message is by then.
            buffer = self.state.copies.copy_of(&buffer);
        }
        let peer = self.state.peer(to);
        if peer.lost {
            return Err(Fault::Lost { peer: to });
        }
        let work = SendWork { is_tagged: true, ..SendWork::new(buffer.clone(), to, (context, tag), mode) };
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

    /// Sends a message of a few bytes by tag, in a context whose messages to this peer go so; only such peers are known to the network. What
    /// goes on is kept like any send. `None`: nothing happened.
    #[inline]
    pub(super) fn send_tagged_now(
        &mut self,
        context: u32,
        to: u32,
        tag: i32,
        bytes: Bytes<'_>,
    ) -> Option<Started> {
        let State { peers, contexts, requests, last_tagged, tally, .. } = &mut self.state;
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

    /// Whether the tags can name what a peer calls a context, as far as is known.
    fn is_nameable(&self, context: u32, peer: u32) -> bool {
        let name = self.state.contexts.get(context).map(|own| own.name_for(context, peer));
        !matches!(name, Some(Name::Local(index)) if index > self.state.last_tagged)
    }

    /// Begins a send by tag that had to wait. `None`: the tags cannot name the context, as is known now.
    pub(super) fn begin_tagged(&mut self, to: u32, request: RequestId) -> Result<Option<Sent>, Fault> {
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

    /// Gives a message to the network, if what the receiver calls the context is known; else asks for it.
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
        let Name::Local(index) = name else { return self.ask_index(context, to) };
        let is_synchronous = mode == Mode::Synchronous;
        let message = TaggedSend { context: index, tag, buffer, is_synchronous, token: token.raw() };
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

    /// Whether this process and a peer have met in the network; if not, that begins.
    fn meets(&mut self, peer: u32) -> bool {
        self.fabric.matching().is_none_or(|network| network.meets(peer))
    }

    /// Requests a peer's index of a context, once.
    fn ask_index(&mut self, context: u32, peer: u32) -> Result<Sent, Fault> {
        let Some(own) = self.state.contexts.get(context) else { return Err(Fault::Closed) };
        if !own.asked.contains(&peer) {
            let id = own.id;
            let sent = self.offer(peer, Frame::AskIndex { id }, Body::NONE, 0)?;
            if sent != Sent::Full
                && let Some(own) = self.state.contexts.get_mut(context)
            {
                own.asked.push(peer);
            }
        }
        Ok(Sent::Full)
    }

    /// As [`Lane::start_receive`], for one that the network may have to match. `None`: it has not, and nothing happened.
    pub(super) fn start_tagged_receive(
        &mut self,
        context: u32,
        buffer: &UserBuf,
        source: Source,
        tag: TagMatch,
    ) -> Option<Result<Started, Fault>> {
        let from = self.source_in_network(context, source)?;
        let tags = Tags::from(tag);
        let work =
            ReceiveWork { posting: Posting::Waiting, ..ReceiveWork::new(buffer.clone(), context, from) };
        if let Some(peer) = from {
            let is_lost = self.state.known_peer(peer).is_some_and(|peer| peer.lost);
            // What has come from it can be received.
            if is_lost && self.fabric.matching()?.tprobe(from, context, tags, false).is_none() {
                return Some(Err(Fault::Lost { peer }));
            }
            let request = self.state.requests.insert(Work::Receive(work));
            self.post(Unposted { request, context, from, name: None, tags });
            return Some(Ok(Started::Pending(request)));
        }
        let wanted = Wanted::new(source, tag);
        let own = self.state.contexts.get_mut(context)?;
        if own.contested.is_none() && own.find_unexpected(wanted).is_some() {
            return None;
        }
        let request = self.state.requests.insert(Work::Receive(ReceiveWork { is_posted: true, ..work }));
        self.state.contexts.get_mut(context)?.post(wanted, request);
        self.post(Unposted { request, context, from, name: None, tags });
        Some(Ok(Started::Pending(request)))
    }

    /// Posts a receive with the network, or has it wait until that can be done.
    fn post(&mut self, one: Unposted) {
        if self.is_waited_for(one.context, one.from) || !self.try_post(one) {
            self.unposted.push(one);
        }
    }

    /// Whether an earlier receive waits to be posted that could take the same message.
    fn is_waited_for(&self, context: u32, from: Option<u32>) -> bool {
        self.unposted.iter().any(|one| one.overlaps(context, from))
    }

    /// Whether a receive waits for room in the network, for which there is no event. What the others wait for wakes this process: a peer that
    /// is to be met, or a receive that comes before them.
    pub(super) fn waits_for_room(&mut self) -> bool {
        let all = std::mem::take(&mut self.unposted);
        let waits = all.iter().enumerate().any(|(at, one)| {
            one.from.is_none_or(|peer| self.meets(peer))
                && !all[..at].iter().any(|first| first.overlaps(one.context, one.from))
        });
        self.unposted = all;
        waits
    }

    /// Posts what waits, each after those before it that could take the same message.
    pub(super) fn post_waiting(&mut self) {
        for one in std::mem::take(&mut self.unposted) {
            self.post(one);
        }
    }

    /// Whether a receive is posted now, or need not be any more.
    fn try_post(&mut self, Unposted { request, name, tags, .. }: Unposted) -> bool {
        let Some(work) = self.state.requests.receive_mut(request) else { return true };
        let is_probed = name.is_some() && work.posting == Posting::Probed;
        if !is_probed && work.posting != Posting::Waiting {
            return true;
        }
        let (from, context, buffer) = (work.from, work.context, work.buffer.clone());
        if from.is_some_and(|peer| !self.meets(peer)) {
            // If it is lost the receive has failed by now.
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

    /// Cancels a receive that is the network's to end. Whether it is over already; `None`: it is none.
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
            // It has its message, of one kind or the other, or was cancelled before.
            Posting::Contested | Posting::Cancelled | Posting::Probed => Some(false),
        }
    }

    /// A message that no receive has here is contested: the network gives the receive up, or completes it.
    pub(super) fn contest(&mut self, receive: RequestId) {
        if let Some(network) = self.fabric.matching() {
            network.tcancel(receive.raw());
        }
    }

    /// Ends an operation by tag whose peer is lost.
    pub(super) fn end_lost(&mut self, request: RequestId, peer: u32) {
        self.fabric.release(request.raw());
        self.state.requests.complete(request, Completion::failed(Fault::Lost { peer }));
    }

    /// Takes the receives of a context back from the network.
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

    /// The message that a receive would get from the network, by [`Lane::probe`] or [`Lane::take_message`].
    pub(super) fn probe_tagged(
        &mut self,
        context: u32,
        source: Source,
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

    /// A request for a message that was taken out of the network.
    pub(super) fn insert_probed(&mut self, context: u32, probed: Probed) -> (RequestId, Completion) {
        let Probed { from, tag, length, name } = probed;
        let message =
            Unexpected { from, tag, what: Waits::InNetwork { name: name.unwrap_or(u64::MAX), length } };
        let request = self.state.requests.insert(Work::Message(MatchedMessage { context, message }));
        (request, self.state.found(context, probed))
    }

    /// Receives a message that was taken out of the network.
    pub(super) fn receive_probed(
        &mut self,
        context: u32,
        from: u32,
        name: u64,
        buffer: UserBuf,
    ) -> RequestId {
        let work = ReceiveWork { posting: Posting::Probed, ..ReceiveWork::new(buffer, context, Some(from)) };
        let request = self.state.requests.insert(Work::Receive(work));
        let from = Some(from);
        self.post(Unposted { request, context, from, name: Some(name), tags: Tags::ANY });
        request
    }

    /// Takes a receive from the network by force, and from here: its buffer is not used any more.
    pub(super) fn withdraw_receive(&mut self, request: RequestId) {
        let Some(work) = self.state.requests.receive_mut(request) else { return };
        let context = work.context;
        work.posting = Posting::Here;
        self.state.unpost(request);
        self.state.end_contest(context, request);
    }
}

impl State {
    /// What a probe says of a message in the network.
    pub(super) fn found(&self, context: u32, Probed { from, tag, length, .. }: Probed) -> Completion {
        let source = self.contexts.get(context).map_or(-1, |own| own.rank_of(from));
        Completion { source, tag, bytes: length, ..Completion::EMPTY }
    }

    /// Whether an operation is one that the network ends, whose buffer it may use.
    pub(crate) fn is_in_network(&mut self, request: RequestId) -> bool {
        match self.requests.send_mut(request) {
            Some(work) => work.is_tagged && work.phase == Phase::Leaving,
            None => self.requests.receive_mut(request).is_some_and(|work| work.posting != Posting::Here),
        }
    }

    /// Fails an operation with a lost process: at once, or when the network has given its buffer back.
    pub(crate) fn fail_with(&mut self, request: RequestId, peer: u32) {
        if self.is_matching && self.is_in_network(request) {
            self.todo.push_back(Todo::EndLost { request, peer });
        } else {
            self.unpost(request);
            self.requests.complete(request, Completion::failed(Fault::Lost { peer }));
        }
    }
}
