//! A lane: what may be started, asked and driven.

use crate::arrive::{Fetch, Spare, State, Todo};
use crate::matching::{Contexts, Message as Waits, Unexpected, Wanted};
use crate::peer::{BodyTarget, Waiting};
use crate::request::{
    Completion, Fault, Found, Mode, Phase, ReceiveWork, RequestId, Requests, SendWork, Source, Started,
    TagMatch, Work,
};
use crate::team::{RankMap, Team};
use oxmpi_fabric::{Body, Fabric, Message, Sent, Taken};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_os::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Context as Name, ContextId, Frame};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many pieces of one long message leave in a row before others get a turn.
const PIECES_IN_A_ROW: usize = 8;

/// One matching domain of one process.
#[derive(Debug)]
pub struct Lane<F> {
    fabric: F,
    state: State,
    /// Peers for which something waits to leave.
    busy: Vec<u32>,
    /// Whether something could leave now: others only had their turn first.
    restless: bool,
}

/// What came of [`Lane::receive_now`].
#[derive(Clone, Copy, Debug)]
pub enum Now {
    /// The message is in the buffer.
    Received(Completion),
    /// It is not there.
    NotYet,
    /// It cannot be taken like this, or something older must be looked at first: use [`Lane::start_receive`].
    NeverSo,
}

/// Whether the process may sleep while nothing comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Until somebody rings.
    Long,
    /// For a short time: a peer has no room and cannot say when it has.
    Short,
    /// Not at all: there is something to do.
    Not,
}

impl<F: Fabric> Lane<F> {
    /// The lane of process `me`, without contexts.
    pub fn new(me: u32, fabric: F) -> Lane<F> {
        let state = State {
            me,
            peers: Vec::new(),
            contexts: Contexts::default(),
            requests: Requests::new(),
            todo: VecDeque::new(),
            lost: Vec::new(),
            nonsense: 0,
            spare: Spare::default(),
        };
        Lane { fabric, state, busy: Vec::new(), restless: false }
    }

    /// The fabric below.
    pub fn fabric(&self) -> &F {
        &self.fabric
    }

    /// The fabric below, to be changed.
    pub fn fabric_mut(&mut self) -> &mut F {
        &mut self.fabric
    }

    /// Opens the pair of contexts of a communicator. With `symmetric`, all its processes open it as the same
    /// indices (world and self, which are opened first); otherwise they learn each other's.
    ///
    /// Messages that came for it before are found in it.
    pub fn open_team(&mut self, map: RankMap, rank: u32, id: ContextId, symmetric: bool) -> Arc<Team> {
        let point_to_point = self.state.contexts.adopt(id);
        let collective = self.state.contexts.adopt(id.collective());
        let team = Arc::new(Team { map, rank, id, point_to_point, collective });
        for index in [point_to_point, collective] {
            if let Some(context) = self.state.contexts.get_mut(index) {
                context.team = Some(team.clone());
                context.symmetric = symmetric;
            }
        }
        team
    }

    /// Whether something is under way in the contexts of a team.
    pub fn is_busy(&self, team: &Team) -> bool {
        let ours = |context| context == team.point_to_point || context == team.collective;
        let active = self.state.requests.active(|work| match work {
            Work::Send(w) => ours(w.context),
            Work::Receive(w) => ours(w.context),
            Work::External | Work::None => false,
        });
        !active.is_empty()
    }

    /// Closes a pair of contexts. Receives still posted in them fail as cancelled; unexpected messages are dropped.
    pub fn close_team(&mut self, team: &Team) {
        for index in [team.point_to_point, team.collective] {
            let Some(mut context) = self.state.contexts.retire(index) else { continue };
            for posted in context.posted.drain() {
                let cancelled = Completion { cancelled: true, ..Completion::EMPTY };
                self.state.requests.complete(posted.request, cancelled);
            }
        }
    }

    /// Sends a short contiguous message at once if that needs no thought (row L6): nothing older waits, the path
    /// is warm, the receiver's index is known. `false`: nothing happened, use [`Lane::start_send`].
    #[inline]
    pub fn send_now(&mut self, context: u32, to: u32, tag: i32, bytes: Bytes<'_>) -> bool {
        let State { peers, contexts, .. } = &mut self.state;
        let Some(Some(peer)) = peers.get_mut(to as usize) else { return false };
        if peer.listed || peer.lost {
            return false;
        }
        let Some(Name::Local(index)) = contexts.get(context).map(|c| c.name_for(context, to)) else {
            return false;
        };
        let gone = self.fabric.send_now(to, index, tag, bytes);
        if gone {
            peer.next_send = peer.next_send.wrapping_add(1);
        }
        gone
    }

    /// Receives a short contiguous message from process `from` straight from where it lies, without any request. It
    /// may do so exactly if no receive is posted in the context, this one's elders, and nothing of that peer has
    /// come by another way: no unexpected message here, none before its turn, no body half stored.
    #[inline]
    pub fn receive_now(&mut self, context: u32, from: u32, tag: Option<i32>, into: &mut BytesMut<'_>) -> Now {
        let State { peers, contexts, .. } = &mut self.state;
        let (Some(Some(peer)), Some(own)) = (peers.get_mut(from as usize), contexts.get(context)) else {
            return Now::NeverSo;
        };
        if !own.is_quiet() || peer.lost || !peer.early.is_empty() {
            return Now::NeverSo;
        }
        let (tag, len) = match self.fabric.receive_now(from, context, tag, into) {
            Taken::Message { tag, len } => (tag, len),
            Taken::Nothing => return Now::NotYet,
            Taken::Other => return Now::NeverSo,
        };
        peer.expected = peer.expected.wrapping_add(1);
        Now::Received(Completion {
            source: own.rank_of(from),
            tag,
            bytes: len as u64,
            cancelled: false,
            fault: None,
        })
    }

    /// Starts to send `buffer` to process `to`.
    ///
    /// # Errors
    /// If the process is lost or cannot be reached.
    pub fn start_send(
        &mut self,
        context: u32,
        mode: Mode,
        mut buffer: UserBuf,
        to: u32,
        tag: i32,
    ) -> Result<Started, Fault> {
        let len = buffer.packed_len();
        if to == self.state.me {
            return Ok(self.send_to_self(context, mode, buffer, tag));
        }
        if mode == Mode::Buffered {
            // The user has the buffer back when this returns, wherever the message is by then.
            buffer = copy_of(&buffer);
        }
        let peer = self.state.peer(to);
        if peer.lost {
            return Err(Fault::Lost { peer: to });
        }
        let free = !peer.listed;
        let eager = len <= self.fabric.eager_limit(to);
        if eager && mode != Mode::Synchronous && free {
            // Two-stage initialisation (row L5): no request unless the message stays.
            let token = self.state.requests.next_id();
            match self.send_eager(context, &buffer, to, tag, token)? {
                Sent::Done => return Ok(Started::Complete(Completion::EMPTY)),
                Sent::Full => {}
                Sent::Later => {
                    let buffered = mode == Mode::Buffered;
                    let work = SendWork {
                        buffer: buffer.clone(),
                        to,
                        context,
                        tag,
                        mode,
                        phase: Phase::Leaving,
                        leaving: 1,
                    };
                    let request = self.state.requests.insert(Work::Send(work));
                    return Ok(self.started(request, if buffered { Some(len) } else { None }));
                }
            }
        }
        let work = SendWork { buffer, to, context, tag, mode, phase: Phase::Waiting, leaving: 0 };
        let request = self.state.requests.insert(Work::Send(work));
        let started = self.started(request, (mode == Mode::Buffered).then_some(len));
        self.state.peer(to).waiting.push_back(Waiting::Start(request));
        self.flush(to);
        Ok(match started {
            Started::Pending(id) => match self.test(id) {
                Some(Some(completion)) => Started::Complete(completion),
                _ => started,
            },
            complete => complete,
        })
    }

    /// A buffered send is complete for its user as soon as the lane has the data.
    fn started(&mut self, request: RequestId, buffered: Option<usize>) -> Started {
        match buffered {
            None => Started::Pending(request),
            Some(len) => {
                self.state.requests.keep(request, len);
                Started::Complete(Completion::EMPTY)
            }
        }
    }

    fn send_eager(
        &mut self,
        context: u32,
        buffer: &UserBuf,
        to: u32,
        tag: i32,
        token: RequestId,
    ) -> Result<Sent, Fault> {
        let Some(envelope) = self.state.envelope(context, to, tag) else { return Ok(Sent::Done) };
        let body = Body::of(buffer, 0, buffer.packed_len());
        self.offer(to, Frame::Eager { envelope }, body, token.raw())
    }

    /// Gives a message to the fabric; advances the sequence number if it took it.
    fn offer(&mut self, to: u32, frame: Frame, body: Body<'_>, token: u64) -> Result<Sent, Fault> {
        let sequence = self.state.peer(to).next_send;
        let message = Message { sequence: sequence as u8, frame, body, token };
        match self.fabric.send(to, &message) {
            Ok(sent) => {
                if sent != Sent::Full && message.frame.matches() {
                    self.state.peer(to).next_send = sequence.wrapping_add(1);
                }
                Ok(sent)
            }
            Err(_) => {
                self.state.lose(to);
                Err(Fault::Lost { peer: to })
            }
        }
    }

    /// Sends an answer, or lets it wait for room.
    fn answer(&mut self, to: u32, frame: Frame) {
        if !self.state.peer(to).listed
            && matches!(self.offer(to, frame, Body::NONE, 0), Ok(Sent::Done | Sent::Later))
        {
            return;
        }
        if !self.state.peer(to).lost {
            self.state.peer(to).waiting.push_back(Waiting::Answer(frame));
            self.list(to);
        }
    }

    fn list(&mut self, to: u32) {
        let peer = self.state.peer(to);
        if !std::mem::replace(&mut peer.listed, true) {
            self.busy.push(to);
        }
    }

    /// Sends what waits for a peer, as far as there is room and for its turn.
    fn flush(&mut self, to: u32) {
        self.flush_waiting(to);
        let turn_over = self.flush_streams(to);
        if self.state.peer(to).has_work() {
            self.restless |= turn_over;
            self.list(to);
        }
    }

    fn flush_waiting(&mut self, to: u32) {
        while let Some(first) = self.state.peer(to).waiting.front() {
            let sent = match *first {
                Waiting::Answer(frame) => self.offer(to, frame, Body::NONE, 0),
                Waiting::Start(request) => self.begin(to, request),
            };
            match sent {
                Ok(Sent::Full) | Err(_) => return,
                Ok(Sent::Done | Sent::Later) => drop(self.state.peer(to).waiting.pop_front()),
            }
        }
    }

    /// Begins a send that had to wait.
    fn begin(&mut self, to: u32, request: RequestId) -> Result<Sent, Fault> {
        let Some(work) = self.state.requests.send_mut(request) else { return Ok(Sent::Done) };
        let (context, tag, mode, buffer) = (work.context, work.tag, work.mode, work.buffer.clone());
        let len = buffer.packed_len();
        let Some(envelope) = self.state.envelope(context, to, tag) else { return Ok(Sent::Done) };
        let raw = request.raw();
        let (frame, body, phase) = if len > self.fabric.eager_limit(to) {
            let address = buffer.as_contiguous().map_or(0, |b| b.as_ptr() as u64);
            let frame = Frame::Rendezvous { envelope, request: raw, length: len as u64, address };
            (frame, Body::NONE, Phase::Announced)
        } else if mode == Mode::Synchronous {
            (Frame::EagerSync { envelope, request: raw }, Body::of(&buffer, 0, len), Phase::Unacknowledged)
        } else {
            (Frame::Eager { envelope }, Body::of(&buffer, 0, len), Phase::Leaving)
        };
        let sent = self.offer(to, frame, body, raw)?;
        if sent != Sent::Full
            && let Some(work) = self.state.requests.send_mut(request)
        {
            work.phase = phase;
            work.leaving += u32::from(sent == Sent::Later);
            if work.is_done() {
                self.state.requests.complete(request, Completion::EMPTY);
            }
        }
        Ok(sent)
    }

    /// Sends pieces of the long messages that the peer has asked for. Returns whether there may be room for more.
    fn flush_streams(&mut self, to: u32) -> bool {
        for _ in 0..PIECES_IN_A_ROW {
            let Some(&request) = self.state.peer(to).streams.front() else { return false };
            let piece_limit = self.fabric.piece_limit(to);
            let Some(SendWork { phase: Phase::Streaming { receiver, wanted, sent }, buffer, .. }) =
                self.state.requests.send_mut(request)
            else {
                self.state.peer(to).streams.pop_front();
                continue;
            };
            let (receiver, wanted, from, buffer) = (*receiver, *wanted, *sent, buffer.clone());
            let len = (wanted - from).min(piece_limit);
            let frame = Frame::Data { receiver, offset: from as u64 };
            let Ok(taken @ (Sent::Done | Sent::Later)) =
                self.offer(to, frame, Body::of(&buffer, from, len), request.raw())
            else {
                return false;
            };
            if let Some(work) = self.state.requests.send_mut(request) {
                work.phase = Phase::Streaming { receiver, wanted, sent: from + len };
                work.leaving += u32::from(taken == Sent::Later);
                let done = work.is_done();
                if from + len == wanted {
                    self.state.peer(to).streams.pop_front();
                }
                if done {
                    self.state.requests.complete(request, Completion::EMPTY);
                }
            }
        }
        true
    }

    /// A message to oneself is matched on the spot.
    fn send_to_self(&mut self, context: u32, mode: Mode, buffer: UserBuf, tag: i32) -> Started {
        let me = self.state.me;
        let len = buffer.packed_len();
        let Some(own) = self.state.contexts.get_mut(context) else {
            return Started::Complete(Completion::EMPTY);
        };
        if let Some(receive) = own.take_posted(me, tag) {
            self.state.note_match(receive, me, tag, len as u64);
            self.state.copy_own(receive, &buffer);
            return Started::Complete(Completion::EMPTY);
        }
        let eager = len <= self.fabric.eager_limit(me) && mode != Mode::Synchronous;
        let (what, started) = if eager || mode == Mode::Buffered {
            let mut data = vec![0; len];
            buffer.pack(0, BytesMut::from(&mut data[..]));
            (Waits::Eager { data, total: len, sync: None }, Started::Complete(Completion::EMPTY))
        } else {
            let work = SendWork { buffer, to: me, context, tag, mode, phase: Phase::Announced, leaving: 0 };
            let request = self.state.requests.insert(Work::Send(work));
            (Waits::Own { request, length: len }, Started::Pending(request))
        };
        if let Some(own) = self.state.contexts.get_mut(context) {
            own.unexpected.push(Unexpected { from: me, tag, what });
        }
        started
    }

    /// Starts to receive into `buffer`.
    ///
    /// # Errors
    /// If a process from which it could come is lost, and none is waiting. With [`Source::Any`] that is any member.
    pub fn start_receive(
        &mut self,
        context: u32,
        buffer: UserBuf,
        source: Source,
        tag: TagMatch,
    ) -> Result<Started, Fault> {
        let wanted = Wanted::new(source, tag);
        let from = match source {
            Source::Any => None,
            Source::Process(p) => Some(p),
        };
        let waiting = self.state.contexts.get(context).and_then(|c| c.find_unexpected(wanted));
        if waiting.is_none()
            && let Some(peer) = self.state.lost_source(context, source)
        {
            return Err(Fault::Lost { peer });
        }
        let request = self.state.requests.insert(Work::Receive(ReceiveWork::new(buffer, context, from)));
        match waiting {
            Some(key) => {
                self.take_unexpected(context, key, request);
                self.work();
                match self.test(request) {
                    Some(Some(completion)) => Ok(Started::Complete(completion)),
                    _ => Ok(Started::Pending(request)),
                }
            }
            None => {
                let posted = self.state.contexts.get_mut(context).map(|c| c.post(wanted, request));
                if let Some(work) = self.state.requests.receive_mut(request) {
                    work.posted = posted;
                }
                Ok(Started::Pending(request))
            }
        }
    }

    /// Gives an unexpected message to a receive.
    fn take_unexpected(&mut self, context: u32, key: u32, receive: RequestId) {
        let state = &mut self.state;
        let Some(Unexpected { from, tag, what }) =
            state.contexts.get_mut(context).and_then(|c| c.unexpected.remove(key))
        else {
            return;
        };
        let wanted = state.note_match(receive, from, tag, what.length());
        match what {
            Waits::Eager { data, total, sync } => {
                if data.len() < total {
                    // The rest is still coming: it goes straight into the user's buffer.
                    let peer = state.peer(from);
                    if peer.body == Some(BodyTarget::Unexpected { context, key }) {
                        peer.body = Some(BodyTarget::Receive { request: receive, base: 0 });
                    }
                }
                state.store(receive, 0, Bytes::from(&data[..]));
                state.spare.give_back(data);
                if let Some(request) = sync {
                    state.todo.push_back(Todo::Answer { to: from, frame: Frame::SyncAck { request } });
                }
            }
            Waits::Rendezvous { request, address, .. } => {
                state.todo.push_back(Todo::Fetch(Fetch { receive, from, request, address, wanted }))
            }
            Waits::Own { request, .. } => {
                if let Some(work) = state.requests.send_mut(request) {
                    let buffer = work.buffer.clone();
                    state.copy_own(receive, &buffer);
                    state.requests.complete(request, Completion::EMPTY);
                }
            }
            Waits::Broken { .. } => {
                state.requests.complete(receive, Completion::failed(Fault::Lost { peer: from }));
            }
        }
    }

    /// Looks for a message that a receive would get: its source rank, tag and length.
    ///
    /// # Errors
    /// If a process from which it could come is lost, and none is waiting; or it went down with its sender.
    pub fn probe(
        &mut self,
        context: u32,
        source: Source,
        tag: TagMatch,
    ) -> Result<Option<Completion>, Fault> {
        let Some(own) = self.state.contexts.get(context) else { return Ok(None) };
        match own.find_unexpected(Wanted::new(source, tag)).and_then(|key| own.unexpected.get(key)) {
            Some(Unexpected { from, what: Waits::Broken { .. }, .. }) => Err(Fault::Lost { peer: *from }),
            Some(u) => Ok(Some(Completion {
                source: own.rank_of(u.from),
                tag: u.tag,
                bytes: u.what.length(),
                cancelled: false,
                fault: None,
            })),
            None => match self.state.lost_source(context, source) {
                Some(peer) => Err(Fault::Lost { peer }),
                None => Ok(None),
            },
        }
    }

    /// Lets the fabric hand up what has come, and does what follows from it. Returns whether anything had come.
    pub fn progress(&mut self) -> bool {
        let came = self.fabric.poll(&mut self.state);
        if came || !self.state.todo.is_empty() || !self.busy.is_empty() {
            self.work();
        }
        came
    }

    /// Does what is due.
    fn work(&mut self) {
        while let Some(todo) = self.state.todo.pop_front() {
            match todo {
                Todo::Answer { to, frame } => self.answer(to, frame),
                Todo::Fetch(fetch) => self.fetch(fetch),
                Todo::Flush(to) => self.flush(to),
            }
        }
        self.restless = false;
        for to in std::mem::take(&mut self.busy) {
            self.state.peer(to).listed = false;
            self.flush(to);
        }
    }

    /// Gets the data of an announced message: by reading the sender's memory if that is allowed, else by asking.
    fn fetch(&mut self, fetch: Fetch) {
        let Fetch { receive, from, request, address, wanted } = fetch;
        let readable = wanted == 0 || (address != 0 && self.fabric.can_read(from));
        if readable && let Some(work) = self.state.requests.receive_mut(receive) {
            let buffer = work.buffer.clone();
            if let Some(mut into) = buffer.as_contiguous_mut()
                && (wanted == 0 || self.fabric.read(from, address, into.slice(0, wanted)).is_ok())
            {
                work.stored = wanted;
                self.state.finish_receive(receive);
                return self.answer(from, Frame::Fin { request });
            }
        }
        self.answer(from, Frame::Pull { request, receiver: receive.raw(), length: wanted as u64 });
    }

    /// Asks for a request: `None` if there is no such request (any more), `Some(None)` if it goes on, and its
    /// completion if it is complete, after which there is no such request.
    #[inline]
    pub fn test(&mut self, request: RequestId) -> Option<Option<Completion>> {
        if request == RequestId::COMPLETE {
            return Some(Some(Completion::EMPTY));
        }
        match self.state.requests.take(request) {
            Found::Stale => None,
            Found::Active => match self.state.hopeless(request) {
                None => Some(None),
                Some(fault) => {
                    self.abandon(request);
                    Some(Some(Completion::failed(fault)))
                }
            },
            Found::Complete(completion) => Some(Some(completion)),
        }
    }

    /// As [`Lane::test`], but the request stays (MPI-5.0 section 3.7.6, MPI_Request_get_status).
    #[inline]
    pub fn peek(&self, request: RequestId) -> Option<Option<Completion>> {
        if request == RequestId::COMPLETE {
            return Some(Some(Completion::EMPTY));
        }
        match self.state.requests.find(request) {
            Found::Stale => None,
            Found::Active => Some(self.state.hopeless(request).map(Completion::failed)),
            Found::Complete(completion) => Some(Some(completion)),
        }
    }

    /// The request whose index (the low 32 bits of its number) this is.
    pub fn current(&self, index: u32) -> Option<RequestId> {
        if u64::from(index) == RequestId::COMPLETE.raw() {
            return Some(RequestId::COMPLETE);
        }
        self.state.requests.current(index)
    }

    /// Lets a request end on its own (MPI_Request_free). Returns whether there was one.
    pub fn detach(&mut self, request: RequestId) -> bool {
        request == RequestId::COMPLETE || self.state.requests.detach(request)
    }

    /// Cancels a receive that was not matched yet. Returns whether it was; it is then complete as cancelled.
    pub fn cancel_receive(&mut self, request: RequestId) -> bool {
        let withdrawn = self.state.withdraw(request);
        if withdrawn {
            self.state.requests.complete(request, Completion { cancelled: true, ..Completion::EMPTY });
        }
        withdrawn
    }

    /// Ends a request whatever its state, because what it belongs to has failed. Its buffer is not used any more.
    pub fn abandon(&mut self, request: RequestId) {
        self.state.withdraw(request);
        self.state.requests.complete(request, Completion { cancelled: true, ..Completion::EMPTY });
        self.state.requests.forget(request);
    }

    /// A request for something above the lane, which says by [`Lane::complete_external`] when it is over.
    pub fn open_external(&mut self) -> RequestId {
        self.state.requests.insert(Work::External)
    }

    /// Completes a request made by [`Lane::open_external`].
    pub fn complete_external(&mut self, request: RequestId, completion: Completion) {
        self.state.requests.complete(request, completion);
    }

    /// A process is known to have failed: completes everything it would have taken part in.
    pub fn fail(&mut self, process: u32) {
        self.state.lose(process);
    }

    /// Whether nothing of this process waits to leave any more (the drain hook: finalize, checkpoint).
    pub fn is_drained(&self) -> bool {
        self.state.requests.active_sends() == 0 && self.busy.is_empty() && self.state.todo.is_empty()
    }

    /// Packed bytes that the lane keeps for buffered sends.
    pub fn buffered_bytes(&self) -> usize {
        self.state.requests.buffered()
    }

    /// Frames that made no sense so far: a defect of a peer, or messages for a communicator that was freed.
    pub fn nonsense(&self) -> u64 {
        self.state.nonsense
    }

    /// The process is about to sleep: asks the peers for which messages wait to wake it when there is room.
    pub fn announce_sleep(&mut self) -> Rest {
        if self.restless || !self.state.todo.is_empty() {
            return Rest::Not;
        }
        let mut rest = Rest::Long;
        for at in 0..self.busy.len() {
            if !self.fabric.announce_waiting(self.busy[at]) {
                rest = Rest::Short;
            }
        }
        rest
    }
}

impl State {
    /// What a message to a process is matched by, in the words of that process.
    fn envelope(&self, context: u32, to: u32, tag: i32) -> Option<oxmpi_wire::Envelope> {
        let name = self.contexts.get(context)?.name_for(context, to);
        Some(oxmpi_wire::Envelope { context: name, tag })
    }

    /// The process because of which no message of this source will come any more, if there is one.
    fn lost_source(&self, context: u32, source: Source) -> Option<u32> {
        match source {
            Source::Any => self.lost_member(context),
            Source::Process(peer) => self.known_peer(peer).is_some_and(|p| p.lost).then_some(peer),
        }
    }

    /// Copies a message of this process to itself and completes the receive.
    fn copy_own(&mut self, receive: RequestId, from: &UserBuf) {
        let Some(work) = self.requests.receive_mut(receive) else { return };
        let len = work.expected;
        match from.as_contiguous() {
            Some(bytes) => work.buffer.unpack(0, bytes.slice(0, len)),
            None => {
                let mut data = vec![0; len];
                from.pack(0, BytesMut::from(&mut data[..]));
                work.buffer.unpack(0, Bytes::from(&data[..]));
            }
        }
        work.stored = len;
        self.finish_receive(receive);
    }
}

/// A buffer of the lane's own with the same packed bytes.
fn copy_of(buffer: &UserBuf) -> UserBuf {
    let mut data = vec![0u8; buffer.packed_len()];
    buffer.pack(0, BytesMut::from(&mut data[..]));
    Owned::new(data).buf()
}
