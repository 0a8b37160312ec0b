//! Sends, the backlog, and the data of long messages.

use super::Lane;
use crate::arrive::{Hold, LaneState};
use crate::matching::{NOTICE_TAG, UNKNOWN, Unexpected, UnexpectedData, is_notice};
use crate::notes::Note;
use crate::peer::BacklogEntry;
use crate::request::{Completion, Fault, Mode, Mover, Phase, RequestId, SendWork, Started, Work};
use oxmpi_fabric::{Body, Fabric, OutgoingMessage, Room, Sent, SentNow};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_shm::announcement::{Announcement, OwnClaim};
use oxmpi_shm::ring::INLINE_MAX;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, Context as Name, Envelope, Frame};

/// Limits of one flush for the pieces of long messages, so that other peers get their share.
const PIECES_IN_A_ROW: usize = 8;
const BYTES_IN_A_ROW: usize = 1 << 20;

impl<F: Fabric> Lane<F> {
    /// Sends a contiguous message to a rank of a context's team on the fast path: its route is
    /// known ([`Lane::note_route`]), no older message waits, and the fabric has room. A message of
    /// at most [`INLINE_MAX`] bytes goes by [`Fabric::send_short_now`]; for a longer one this call
    /// also wakes the receiver.
    #[inline(always)]
    pub fn try_send(&mut self, context: u32, dest: i32, tag: i32, bytes: Bytes<'_>) -> SentNow {
        let LaneState { peers, contexts, .. } = &mut self.state;
        // No closures here: the compiler makes calls of them.
        let Some(own) = contexts.with_routes(context) else { return SentNow::No };
        let Some(route) = own.route(dest) else { return SentNow::No };
        let Some(Some(peer)) = peers.get_mut(route.process as usize) else { return SentNow::No };
        let peer = &mut **peer;
        if peer.listed | peer.lost {
            return SentNow::No;
        }
        let sent = if bytes.len() <= INLINE_MAX {
            // No route accepts an unknown index.
            self.fabric.send_short_now(route.process, route.index, tag, bytes)
        } else if route.index == UNKNOWN {
            SentNow::No
        } else if self.fabric.send_now(route.process, route.index, tag, peer.next_send as u8, bytes)
        {
            SentNow::Done
        } else {
            SentNow::No
        };
        if sent != SentNow::No {
            peer.count_out(bytes.len() as u64);
        }
        sent
    }

    /// As [`Lane::try_send`], for a short message by tag, which has left when the returned
    /// operation is complete. `None`: nothing happened.
    #[inline]
    pub fn try_send_tagged(
        &mut self,
        context: u32,
        dest: i32,
        tag: i32,
        bytes: Bytes<'_>,
    ) -> Option<Started> {
        // No check by [`Lane::goes_by_tag`]: the network does not know peers whose messages go in
        // frames.
        let to = self.state.contexts.get(context)?.route(dest)?.process;
        self.send_tagged_now(context, to, tag, bytes)
    }

    /// Whether the fabric has a network that matches messages.
    #[inline(always)]
    pub fn is_matching(&self) -> bool {
        self.state.is_matching
    }

    /// Records the process of a rank of a context's team, for the fast paths. Returns whether it
    /// was unknown.
    pub fn note_route(&mut self, context: u32, rank: u32, process: u32) -> bool {
        let by_tag = self.state.is_matching && self.goes_by_tag(context, process, 0);
        self.state
            .contexts
            .get_mut(context)
            .is_some_and(|own| own.note_route(context, rank, process, by_tag))
    }

    /// Sends an eager message at once, in a context whose index in the receiver is known, and wakes
    /// the receiver. `false`: nothing happened; use [`Lane::start_send`].
    pub fn send_now(&mut self, context: u32, to: u32, tag: i32, bytes: Bytes<'_>) -> bool {
        let LaneState { peers, contexts, .. } = &mut self.state;
        let Some(Some(peer)) = peers.get_mut(to as usize) else { return false };
        if peer.listed | peer.lost {
            return false;
        }
        let Some(own) = contexts.get(context) else { return false };
        let Name::Local(index) = own.name_for(context, to) else { return false };
        if !self.fabric.send_now(to, index, tag, peer.next_send as u8, bytes) {
            return false;
        }
        peer.count_out(bytes.len() as u64);
        true
    }

    /// Starts to send `buffer` to process `to`. Fails if the process is lost or cannot be reached,
    /// or if the context was revoked.
    pub fn start_send(
        &mut self,
        context: u32,
        mode: Mode,
        mut buffer: UserBuf,
        to: u32,
        tag: i32,
    ) -> Result<Started, Fault> {
        let len = buffer.packed_len();
        match self.state.contexts.get(context) {
            None => return Err(Fault::Closed),
            Some(own) if own.revoked && !is_notice(own.id, tag) => return Err(Fault::Revoked),
            Some(_) => {}
        }
        if buffer.is_on_device() {
            buffer = self.with_data_here(buffer, mode, to)?;
        }
        if to == self.state.me {
            return Ok(self.send_to_self(context, mode, buffer, tag));
        }
        if self.state.is_matching
            && self.goes_by_tag(context, to, tag)
            && let Some(started) = self.start_tagged_send(context, mode, &buffer, (to, tag))?
        {
            return Ok(started);
        }
        if mode == Mode::Buffered {
            if let Some(bytes) = buffer.as_contiguous()
                && self.send_now(context, to, tag, bytes)
            {
                return Ok(Started::Complete(Completion::EMPTY));
            }
            // The program may reuse the buffer when this returns.
            buffer = self.state.copies.copy_of(&buffer);
        }
        let peer = self.state.peer(to);
        if peer.lost {
            return Err(Fault::Lost { peer: to });
        }
        let free = !peer.listed;
        // A copy that this process writes again and again goes by the pool: if the receiver read it
        // in place, the next write would have to fetch each line from the receiver's cache.
        let eager = match mode {
            Mode::Buffered => len <= self.fabric.eager_limit(to),
            _ => self.is_eager(context, to, tag, &buffer),
        };
        if eager && mode != Mode::Synchronous && free {
            // An eager message needs a request only if it cannot leave.
            let token = self.state.requests.next_id();
            match self.send_eager(context, &buffer, to, tag, token)? {
                Sent::Done => {
                    buffer.settle()?;
                    return Ok(Started::Complete(Completion::EMPTY));
                }
                Sent::Full => {}
                Sent::Later => {
                    let buffered = mode == Mode::Buffered;
                    let work = SendWork {
                        phase: Phase::Leaving,
                        leaving: 1,
                        ..SendWork::new(buffer.clone(), to, (context, tag), mode)
                    };
                    let request = self.state.requests.insert(Work::Send(work));
                    return Ok(self.started(request, if buffered { Some(len) } else { None }));
                }
            }
        }
        let request =
            self.state.requests.insert(Work::Send(SendWork::new(buffer, to, (context, tag), mode)));
        let started = self.started(request, (mode == Mode::Buffered).then_some(len));
        if self.may_keep(context, to, mode, len) {
            self.note_keepable(request);
        }
        self.wait_to_begin(to, request);
        Ok(match started {
            Started::Pending(id) => match self.test(id) {
                Some(Some(completion)) => Started::Complete(completion),
                _ => started,
            },
            complete => complete,
        })
    }

    /// The data of a buffer in device memory: a copy in memory of this process, so that nothing
    /// leaves if the device cannot be read. A long message stays in the device and is read while it
    /// leaves, if every fault can be reported by its request.
    #[cold]
    fn with_data_here(&self, buffer: UserBuf, mode: Mode, to: u32) -> Result<UserBuf, Fault> {
        // Another part of the same memory may be under way. Its failure must not be lost here, only
        // where an operation is started again.
        buffer.refresh();
        if buffer.is_read_ahead()
            && to != self.state.me
            && !self.state.is_matching
            && mode != Mode::Buffered
        {
            return Ok(buffer);
        }
        match buffer.staged() {
            Some(copy) => Ok(copy?),
            None => Ok(buffer),
        }
    }

    pub(super) fn wait_to_begin(&mut self, to: u32, request: RequestId) {
        self.state.peer(to).backlog.push_back(BacklogEntry::Start(request));
        self.flush(to);
    }

    /// Whether a message leaves without a pull. A notice always does, as its receiver may make no
    /// progress.
    #[inline]
    fn is_eager(&mut self, context: u32, to: u32, tag: i32, buffer: &UserBuf) -> bool {
        self.fabric.is_eager(to, buffer)
            || tag == NOTICE_TAG
                && self.state.contexts.get(context).is_some_and(|own| is_notice(own.id, tag))
    }

    pub(super) fn started(&mut self, request: RequestId, buffered: Option<usize>) -> Started {
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
        let Some(envelope) = self.state.envelope(context, to, tag) else {
            return Err(Fault::Closed);
        };
        self.offer_eager(to, envelope, buffer, token.raw())
    }

    fn offer_eager(
        &mut self,
        to: u32,
        envelope: Envelope,
        buffer: &UserBuf,
        token: u64,
    ) -> Result<Sent, Fault> {
        let body = Body::of(buffer, 0, buffer.packed_len());
        self.offer_lent(to, Frame::Eager { envelope }, body, Some(buffer), token)
    }

    pub(super) fn offer(
        &mut self,
        to: u32,
        frame: Frame,
        body: Body<'_>,
        token: u64,
    ) -> Result<Sent, Fault> {
        self.offer_lent(to, frame, body, None, token)
    }

    /// Gives a message to the fabric, and advances the sequence number if the fabric takes it. With
    /// `lent`, the fabric may use the buffer of the body until the message has left.
    #[inline]
    fn offer_lent(
        &mut self,
        to: u32,
        frame: Frame,
        body: Body<'_>,
        lent: Option<&UserBuf>,
        token: u64,
    ) -> Result<Sent, Fault> {
        let sequence = self.state.peer(to).next_send;
        let message = OutgoingMessage { sequence: sequence as u8, frame, body, lent, token };
        match self.fabric.send(to, &message) {
            Ok(sent) => {
                if sent != Sent::Full && message.frame.matches() {
                    let peer = self.state.peer(to);
                    peer.next_send = sequence.wrapping_add(1);
                    let length = match message.frame {
                        Frame::Rendezvous { announced, .. } => announced.length,
                        _ => message.body.len() as u64,
                    };
                    peer.bytes_sent = peer.bytes_sent.wrapping_add(length);
                }
                Ok(sent)
            }
            Err(_) => Err(self.unreachable(to)),
        }
    }

    pub(super) fn unreachable(&mut self, peer: u32) -> Fault {
        self.state.lose(peer);
        Fault::Lost { peer }
    }

    /// Sends an answer, or adds it to the backlog. A withdrawal passes the sends there, for which a
    /// receiver that has left makes no room.
    pub(super) fn answer(&mut self, to: u32, frame: Frame) {
        if self.hint(to, frame) {
            return;
        }
        if !self.state.peer(to).lost {
            let (waiting, answer) = (&mut self.state.peer(to).backlog, BacklogEntry::Answer(frame));
            match frame {
                // Sends in the backlog may wait for the index that `Learn` brings.
                Frame::Withdraw { .. } | Frame::Learn { .. } => waiting.push_front(answer),
                _ => waiting.push_back(answer),
            }
            self.list(to);
        }
    }

    pub(super) fn hint(&mut self, to: u32, frame: Frame) -> bool {
        !self.state.peer(to).listed
            && matches!(self.offer(to, frame, Body::NONE, 0), Ok(Sent::Done | Sent::Later))
    }

    fn list(&mut self, to: u32) {
        let peer = self.state.peer(to);
        if !std::mem::replace(&mut peer.listed, true) {
            self.busy.push(to);
            self.unannounced = true;
        }
    }

    pub(super) fn flush(&mut self, to: u32) {
        self.flush_backlog(to);
        let share_used = self.flush_streams(to);
        if self.state.peer(to).has_work() {
            self.restless |= share_used;
            self.list(to);
        }
    }

    fn flush_backlog(&mut self, to: u32) {
        while let Some(first) = self.state.peer(to).backlog.front() {
            let sent = match *first {
                BacklogEntry::Answer(
                    frame @ (Frame::Withdraw { .. } | Frame::Withdrawn { .. } | Frame::Last { .. }),
                ) => self.offer_late(to, frame),
                BacklogEntry::Answer(frame) => self.offer(to, frame, Body::NONE, 0),
                BacklogEntry::Start(request) => self.begin(to, request),
            };
            match sent {
                Ok(Sent::Full) | Err(_) => return,
                Ok(Sent::Done | Sent::Later) => drop(self.state.peer(to).backlog.pop_front()),
            }
        }
    }

    fn begin(&mut self, to: u32, request: RequestId) -> Result<Sent, Fault> {
        let Some(work) = self.state.requests.send_mut(request) else { return Ok(Sent::Done) };
        if work.is_tagged
            && let Some(sent) = self.begin_tagged(to, request)?
        {
            return Ok(sent);
        }
        let Some(work) = self.state.requests.send_mut(request) else { return Ok(Sent::Done) };
        let (context, tag, mode, buffer) = (work.context, work.tag, work.mode, work.buffer.clone());
        let len = buffer.packed_len();
        let Some(envelope) = self.state.envelope(context, to, tag) else {
            self.state.requests.complete(request, Completion::failed(Fault::Closed));
            return Ok(Sent::Done);
        };
        let raw = request.raw();
        let mut announcement = None;
        let (frame, body, phase) = if !self.is_eager(context, to, tag, &buffer) {
            let address = buffer.as_contiguous().map_or(0, |b| b.as_ptr() as u64);
            if address != 0 || self.may_keep(context, to, mode, len) {
                self.close_announcements();
                announcement = self.fabric.open_announcement(to);
            }
            let name = announcement.map_or(0, Announcement::raw);
            let announced =
                Announced { request: raw, length: len as u64, address, announcement: name };
            let frame = Frame::Rendezvous { envelope, announced };
            (
                frame,
                Body::of(&buffer, 0, self.fabric.announced_limit(to).min(len)),
                Phase::Announced,
            )
        } else if mode == Mode::Synchronous {
            (
                Frame::EagerSync { envelope, request: raw },
                Body::of(&buffer, 0, len),
                Phase::Unacknowledged,
            )
        } else {
            (Frame::Eager { envelope }, Body::of(&buffer, 0, len), Phase::Leaving)
        };
        let begun = if phase == Phase::Announced { body.len() } else { 0 };
        let number = self.state.peer(to).next_send;
        let sent = match frame {
            Frame::Eager { envelope } => self.offer_eager(to, envelope, &buffer, raw)?,
            _ => self.offer(to, frame, body, raw)?,
        };
        if let Some(announcement) = announcement.take_if(|_| sent == Sent::Full) {
            self.fabric.close_announcement(announcement);
        }
        if sent != Sent::Full && phase == Phase::Announced {
            self.state.tally.rendezvous_sent += 1;
            self.state.notes.push(Note::RendezvousSent { context, to, tag, bytes: len as u64 });
        }
        if sent != Sent::Full
            && let Some(work) = self.state.requests.send_mut(request)
        {
            work.phase = phase;
            work.begun = begun;
            work.announcement = announcement;
            work.number = number as u32;
            work.leaving += u32::from(sent == Sent::Later);
            if work.is_done() {
                self.state.requests.complete(request, Completion::EMPTY);
            }
        }
        Ok(sent)
    }

    /// Sends pieces of pulled messages. Returns whether there may be room for more.
    fn flush_streams(&mut self, to: u32) -> bool {
        let mut given = 0;
        for _ in 0..PIECES_IN_A_ROW {
            if given >= BYTES_IN_A_ROW {
                break;
            }
            let Some(&request) = self.state.peer(to).streams.front() else { return false };
            let gone = match self.state.requests.send_mut(request).map(|work| work.phase) {
                Some(Phase::Streaming { receiver, wanted, sent }) => {
                    self.stream_piece(to, request, (receiver, wanted, sent))
                }
                _ => {
                    self.state.peer(to).streams.pop_front();
                    Some(0)
                }
            };
            match gone {
                Some(bytes) => given += bytes,
                None => return false,
            }
        }
        true
    }

    /// Whether this process sends the bytes `from..from + len` of a pulled message. `false`: the
    /// receiver reads these and all later bytes, and reports when it has them. `None`: the peer
    /// must first take the earlier pieces.
    fn gives(&mut self, to: u32, request: RequestId, (from, len): (usize, usize)) -> Option<bool> {
        let Some(work) = self.state.requests.send_mut(request) else { return Some(false) };
        let Some(announcement) = work.announcement else { return Some(true) };
        if work.mover == Mover::Open {
            work.mover = match self.fabric.claim_own(announcement) {
                OwnClaim::InPieces => Mover::Pieces,
                OwnClaim::Whole => Mover::Sender,
                OwnClaim::Receivers => Mover::Receiver,
            };
        }
        if work.mover == Mover::Pieces {
            let gives = match self.fabric.room_for_piece(to, len) {
                Room::Now => self.fabric.give(announcement, from, len),
                Room::Later => return None,
                Room::Never => {
                    self.fabric.stop_giving(announcement);
                    false
                }
            };
            if !gives {
                work.mover = Mover::Receiver;
            }
        }
        if work.mover == Mover::Receiver {
            (work.phase, work.begun) = (Phase::Announced, from);
        }
        Some(work.mover != Mover::Receiver)
    }

    /// Sends the next piece of a message; `None`: there was no room.
    fn stream_piece(
        &mut self,
        to: u32,
        request: RequestId,
        (receiver, wanted, from): (u64, usize, usize),
    ) -> Option<usize> {
        let len = (wanted - from).min(self.fabric.piece_limit(to));
        if !self.gives(to, request, (from, len))? {
            self.state.peer(to).streams.pop_front();
            return Some(0);
        }
        let taken = self.send_piece(to, request, receiver, (from, len))?;
        if from + len == wanted {
            self.state.peer(to).streams.pop_front();
        }
        if let Some(work) = self.state.requests.send_mut(request) {
            work.phase = Phase::Streaming { receiver, wanted, sent: from + len };
            work.leaving += u32::from(taken == Sent::Later);
            if work.is_done() {
                self.state.requests.complete(request, Completion::EMPTY);
            }
        }
        Some(len)
    }

    fn send_piece(
        &mut self,
        to: u32,
        request: RequestId,
        receiver: u64,
        (from, len): (usize, usize),
    ) -> Option<Sent> {
        let buffer = self.state.requests.send_mut(request)?.buffer.clone();
        let frame = Frame::Data { receiver, offset: from as u64 };
        let body = Body::of(&buffer, from, len);
        let message =
            OutgoingMessage { sequence: 0, frame, body, lent: Some(&buffer), token: request.raw() };
        match self.fabric.send(to, &message) {
            Ok(taken @ (Sent::Done | Sent::Later)) => Some(taken),
            Ok(Sent::Full) => None,
            Err(_) => {
                self.unreachable(to);
                None
            }
        }
    }

    fn send_to_self(&mut self, context: u32, mode: Mode, buffer: UserBuf, tag: i32) -> Started {
        let me = self.state.me;
        let len = buffer.packed_len();
        self.state.tally.own_messages += 1;
        self.state.tally.own_bytes += len as u64;
        let hold =
            if self.state.is_matching { self.state.hold(context, me, tag) } else { Hold::No };
        let Some(own) = self.state.contexts.get_mut(context) else {
            return Started::Complete(Completion::EMPTY);
        };
        let posted = if hold == Hold::No { own.take_posted(me, tag) } else { None };
        if let Some(receive) = posted {
            self.state.note_match(receive, me, tag, len as u64);
            self.state.copy_own(receive, &buffer);
            return Started::Complete(Completion::EMPTY);
        }
        let eager = len <= self.fabric.eager_limit(me) && mode != Mode::Synchronous;
        let (content, started) = if eager || mode == Mode::Buffered {
            let mut data = vec![0; len];
            buffer.pack(0, BytesMut::from(&mut data[..]));
            (
                UnexpectedData::Eager { data, total: len, sync: None },
                Started::Complete(Completion::EMPTY),
            )
        } else {
            let work = SendWork {
                phase: Phase::Announced,
                ..SendWork::new(buffer, me, (context, tag), mode)
            };
            let request = self.state.requests.insert(Work::Send(work));
            (UnexpectedData::Own { request, length: len }, Started::Pending(request))
        };
        if let Some(own) = self.state.contexts.get_mut(context) {
            let key = own.unexpected.push(Unexpected { from: me, tag, content });
            self.state.requests.note_news();
            if let Hold::For(receive) = hold {
                self.state.contest(context, key, receive);
                self.work();
            }
        }
        started
    }
}

impl LaneState {
    fn envelope(&self, context: u32, to: u32, tag: i32) -> Option<Envelope> {
        let name = self.contexts.get(context)?.name_for(context, to);
        Some(Envelope { context: name, tag })
    }
}
