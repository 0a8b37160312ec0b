//! The message side of a window: operations that ranks send by messages.
//!
//! The messages belong to the window's own communicator. Those of [`super::message`] have the tag
//! 0. Long data are messages of their own, whose tags are their numbers. A target carries out the
//!    operations of an origin in their order: a message whose data are still under way stops all
//!    later ones. So the answer to `Flush` says that all earlier operations are done.

mod ask;
mod data;
mod loss;

use super::adapter::AdapterAccesses;
use super::mailbox::MailboxRequests;
use super::message::{MessageData, RmaMessage, TargetPlace};
use super::{Flavor, Target, WindowExposure};
use oxmpi_engine::{
    Completion, Fault, Lane, MatchSource, Mode, RequestId, Started, TagMatch, Team,
};
use oxmpi_fabric::Fabric;
use oxmpi_mem::atomics::{Accumulator, compare_and_swap};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::{Owned, zeros};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// In bytes. Data up to this length follow the words of their message.
const HERE_MOST: usize = 16 << 10;

/// The tag of [`RmaMessage`]s. The tags of data are greater than 0.
const MESSAGE: i32 = 0;

#[derive(Debug)]
pub(crate) struct Service {
    pub(super) team: Arc<Team>,
    pub(super) exposure: Arc<WindowExposure>,
    pub(super) flavor: Flavor,
    /// Whether only this process has mapped the exposed memory, and it has one thread.
    pub(super) is_alone: bool,
    pub(super) by_messages: BTreeMap<u32, MessageCounts>,
    pub(super) boxes: Option<MailboxRequests>,
    queues: BTreeMap<u32, VecDeque<IncomingWork>>,
    pub(super) accesses: AdapterAccesses,
    /// Sends whose buffers belong to the program or to the exposed memory.
    sends: Vec<PendingSend>,
    awaited: BTreeMap<u64, AwaitedAnswer>,
    next: u64,
    /// The ranks that wait for the lock of this process, and whether they want it exclusive.
    locks: VecDeque<(u32, bool)>,
    /// The number of grants that no call has taken yet, by the rank whose lock is granted.
    granted: BTreeMap<u32, u32>,
    /// The ranks that denied their lock, each with the process that failed with the lock.
    denied: BTreeMap<u32, u32>,
    /// The ranks with operations outside the exposed memory, until the next `Done` reports them.
    outside: BTreeSet<u32>,
    pub(super) targets: Arc<[Target]>,
    far: Arc<AtomicBool>,
    /// The number of the lane's lost processes that [`Service::attend`] has handled.
    lost: usize,
}

#[derive(Debug, Default)]
pub(super) struct MessageCounts {
    pub(super) issued: u64,
    pub(super) complete: u64,
}

#[derive(Debug)]
enum IncomingWork {
    Message(RequestId, Owned<u8>),
    Put(RequestId),
    Operands(RequestId, Owned<u8>, ReceivedAccumulate),
}

impl IncomingWork {
    fn request(&self) -> RequestId {
        let (IncomingWork::Message(request, _)
        | IncomingWork::Put(request)
        | IncomingWork::Operands(request, ..)) = self;
        *request
    }
}

#[derive(Debug)]
struct ReceivedAccumulate {
    place: TargetPlace,
    len: usize,
    accumulator: Accumulator,
    fetch: Option<u64>,
}

#[derive(Debug)]
struct PendingSend {
    send: RequestId,
    rank: u32,
    user: Option<RequestId>,
}

#[derive(Debug)]
struct AwaitedAnswer {
    rank: u32,
    what: Expected,
}

#[derive(Debug)]
enum Expected {
    /// The buffer for the data, and the receive of data that are a message of their own.
    Data { into: UserBuf, receive: Option<RequestId>, user: Option<RequestId> },
    /// When the answer has come, whether an earlier operation was outside the exposed memory.
    Done(Option<bool>),
}

const fn tag_of_data(id: u64) -> i32 {
    (1 + 2 * (id % (1 << 29))) as i32
}

const fn tag_of_answer(id: u64) -> i32 {
    tag_of_data(id) + 1
}

/// A part of the buffer if it is contiguous, otherwise a copy; `None` without memory for the copy.
fn part(buffer: &UserBuf, len: usize) -> Option<UserBuf> {
    buffer.packed_range(0, len).or_else(|| {
        let mut bytes = zeros(len).ok()?;
        buffer.pack(0, BytesMut::from(&mut bytes[..]));
        Some(Owned::new(bytes).buf())
    })
}

impl Service {
    pub(super) fn new(
        team: Arc<Team>,
        exposure: Arc<WindowExposure>,
        flavor: Flavor,
        (targets, far): (Arc<[Target]>, Arc<AtomicBool>),
    ) -> Service {
        let boxes = exposure.control.mailboxes().map(|_| MailboxRequests::new(team.size()));
        Service {
            team,
            exposure,
            flavor,
            is_alone: false,
            by_messages: BTreeMap::new(),
            boxes,
            targets,
            far,
            lost: 0,
            denied: BTreeMap::new(),
            queues: BTreeMap::new(),
            accesses: AdapterAccesses::default(),
            sends: Vec::new(),
            awaited: BTreeMap::new(),
            next: 1,
            locks: VecDeque::new(),
            granted: BTreeMap::new(),
            outside: BTreeSet::new(),
        }
    }

    pub(crate) fn context(&self) -> u32 {
        self.team.point_to_point
    }

    pub(super) fn failed(&self, fault: Fault) -> Completion {
        Completion { context: self.context(), ..Completion::failed(fault) }
    }

    pub(crate) fn share_among_threads(&mut self) {
        self.is_alone = false;
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Sends a buffer. The request `user` completes when the buffer is free.
    fn send<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        buffer: UserBuf,
        tag: i32,
        user: Option<RequestId>,
    ) -> Result<(), Fault> {
        let to = self.team.map.process(rank).ok_or(Fault::Closed)?;
        match lane.start_send(self.context(), Mode::Standard, buffer, to, tag)? {
            Started::Complete(completion) => {
                if let Some(user) = user {
                    lane.complete_external(
                        user,
                        Completion { context: self.context(), ..completion },
                    );
                }
            }
            Started::Pending(send) => self.sends.push(PendingSend { send, rank, user }),
        }
        Ok(())
    }

    fn send_with_data<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        message: &RmaMessage,
        data: &UserBuf,
        len: usize,
    ) -> Result<(), Fault> {
        let (mut bytes, at) = message.encode(len);
        data.pack(0, BytesMut::from(&mut bytes[at..]));
        let to = self.team.map.process(rank).ok_or(Fault::Closed)?;
        let buffer = Owned::new(bytes).buf();
        if let Started::Pending(send) =
            lane.start_send(self.context(), Mode::Standard, buffer, to, MESSAGE)?
        {
            // The send owns its bytes.
            lane.detach(send);
        }
        Ok(())
    }

    pub(super) fn send_message<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        message: &RmaMessage,
    ) -> Result<(), Fault> {
        self.send_with_data(lane, rank, message, &UserBuf::empty(), 0)
    }

    pub(super) fn is_idle(&self) -> bool {
        let messages = self.sends.is_empty() && self.awaited.is_empty() && self.queues.is_empty();
        messages && self.accesses.are_over() && self.has_no_request()
    }

    /// Whether the service waits for messages, or a rank waits for the lock of this process.
    pub(crate) fn awaits_messages(&self) -> bool {
        !self.is_idle() || !self.locks.is_empty()
    }

    /// Whether the service must be called again: it waits for messages, or polls mailboxes.
    pub(crate) fn is_busy(&self) -> bool {
        self.boxes.is_some() || self.awaits_messages()
    }

    pub(crate) fn advance<F: Fabric>(&mut self, lane: &mut Lane<F>) -> bool {
        let had_requests = self.boxes.is_some() && self.serve_requests(lane);
        if lane.has_unexpected(self.context()) {
            self.take_messages(lane);
        }
        if !self.queues.is_empty() {
            for rank in self.queues.keys().copied().collect::<Vec<_>>() {
                self.serve(lane, rank);
            }
        }
        if !self.sends.is_empty() {
            let context = self.context();
            self.sends.retain(|sending| match lane.test(sending.send) {
                Some(None) => true,
                done => {
                    if let Some(user) = sending.user {
                        let completion = done.flatten().unwrap_or(Completion::EMPTY);
                        lane.complete_external(user, Completion { context, ..completion });
                    }
                    false
                }
            });
        }
        if !self.awaited.is_empty() {
            self.collect(lane);
        }
        if !self.accesses.are_over() {
            self.end_accesses(lane);
        }
        if !self.locks.is_empty() {
            self.grant(lane);
        }
        had_requests
    }

    fn take_messages<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        loop {
            let (message, found) =
                match lane.take_message(self.context(), MatchSource::Any, TagMatch::Is(MESSAGE)) {
                    Ok(Some(taken)) => taken,
                    // A message that is lost with its sender must not block later messages.
                    Err(Fault::Lost { peer }) if self.discard(lane, peer) => continue,
                    _ => return,
                };
            // A message for which there is no memory decodes as no message and is lost.
            let room = zeros(usize::try_from(found.bytes).unwrap_or(usize::MAX));
            let room = Owned::new(room.unwrap_or_default());
            let Ok(rank) = u32::try_from(found.source) else { continue };
            let receive = match lane.receive_message(message, room.buf()) {
                Some(Started::Pending(receive)) => receive,
                Some(Started::Complete(_)) => RequestId::COMPLETE,
                None => continue,
            };
            self.queues.entry(rank).or_default().push_back(IncomingWork::Message(receive, room));
        }
    }

    fn discard<F: Fabric>(&self, lane: &mut Lane<F>, peer: u32) -> bool {
        let from = MatchSource::Process(peer);
        match lane.start_receive(self.context(), UserBuf::empty(), from, TagMatch::Is(MESSAGE)) {
            Ok(Started::Complete(_)) => true,
            Ok(Started::Pending(receive)) => {
                lane.abandon(receive);
                false
            }
            Err(_) => false,
        }
    }

    fn serve<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32) {
        let Some(mut queue) = self.queues.remove(&rank) else { return };
        while let Some(waiting) = queue.pop_front() {
            match lane.test(waiting.request()) {
                Some(None) => {
                    queue.push_front(waiting);
                    break;
                }
                // A receive that fails has lost its sender.
                Some(Some(Completion { fault: Some(_), .. })) | None => continue,
                Some(Some(_)) => {}
            }
            let next = match waiting {
                IncomingWork::Message(_, bytes) => {
                    bytes.into_vec().ok().and_then(|b| self.carry_out_message(lane, rank, &b))
                }
                IncomingWork::Put(_) => None,
                IncomingWork::Operands(_, operands, accumulate) => {
                    if let Ok(operands) = operands.into_vec() {
                        self.accumulate_here(lane, rank, &accumulate, Bytes::from(&operands[..]));
                    }
                    None
                }
            };
            if let Some(next) = next {
                queue.push_front(next);
            }
        }
        if !queue.is_empty() {
            self.queues.insert(rank, queue);
        }
    }

    /// Carries out a message. Returns the next step if the message's data are still under way.
    fn carry_out_message<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        bytes: &[u8],
    ) -> Option<IncomingWork> {
        // A request of this rank in the mailbox is older than its message.
        self.serve_request(lane, rank);
        // No process of this library sends bytes that are no message.
        let (message, at) = RmaMessage::decode(bytes)?;
        let here = Bytes::from(&bytes[at..]);
        match message {
            RmaMessage::Put { place, data, .. } => {
                let target = self.exposure.buffer(&place);
                match (data, target) {
                    (MessageData::Here, Some(target)) => target.unpack(0, here),
                    (MessageData::Here, None) => self.note_outside(rank),
                    (MessageData::Apart(id), target) => {
                        return self.await_put(lane, rank, target, id);
                    }
                }
            }
            RmaMessage::Get { place, len, id } => match self.exposure.buffer(&place) {
                Some(target) => self.answer(lane, rank, id, (&target, len)),
                None => self.refuse(lane, rank, id),
            },
            RmaMessage::Accumulate { place, len, data, accumulator, fetch } => {
                let accumulate = ReceivedAccumulate { place, len, accumulator, fetch };
                match data {
                    MessageData::Here => self.accumulate_here(lane, rank, &accumulate, here),
                    MessageData::Apart(id) => {
                        return self.await_operands(lane, rank, accumulate, id);
                    }
                }
            }
            RmaMessage::Swap { place, len, id } => {
                let target = self.exposure.buffer(&place);
                let Some(target) = target.as_ref().and_then(UserBuf::as_contiguous_mut) else {
                    self.refuse(lane, rank, id);
                    return None;
                };
                let mut old = [0u8; 16];
                let (new, compare) = (here.slice(0, len), here.slice(len, len));
                let room = BytesMut::from(&mut old[..len]);
                compare_and_swap(new, compare, target, room, || self.hold_elements(lane));
                self.answer(lane, rank, id, (&Owned::new(old[..len].to_vec()).buf(), len));
            }
            RmaMessage::Lock { exclusive } => {
                self.locks.push_back((rank, exclusive));
                self.grant(lane);
            }
            RmaMessage::Unlock { exclusive, id } => {
                self.unlock(lane, exclusive, rank);
                self.done(lane, rank, id);
            }
            RmaMessage::Flush { id } => self.done(lane, rank, id),
            RmaMessage::Post => self.exposure.control.post(rank),
            RmaMessage::Complete => self.exposure.control.complete(rank),
            RmaMessage::Granted => *self.granted.entry(rank).or_default() += 1,
            RmaMessage::Denied { process } => _ = self.denied.insert(rank, process),
            RmaMessage::Answer { id, data } => {
                self.take_data_of_answer(lane, rank, id, (data, here))
            }
            RmaMessage::Refused { id } => self.take_refusal(lane, rank, id),
            RmaMessage::Done { id, outside } => {
                if let Some(AwaitedAnswer { rank: awaited, what: Expected::Done(end) }) =
                    self.awaited.get_mut(&id)
                    && *awaited == rank
                {
                    *end = Some(outside);
                }
            }
        }
        None
    }

    /// Takes the data that follow the words of an answer. Other data have a receive of their own.
    fn take_data_of_answer<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        id: u64,
        (data, here): (MessageData, Bytes<'_>),
    ) {
        let Some(AwaitedAnswer {
            rank: awaited,
            what: Expected::Data { into, receive: None, user },
        }) = self.awaited.get(&id)
        else {
            return;
        };
        if *awaited != rank || data != MessageData::Here || here.len() > into.packed_len() {
            return;
        }
        into.unpack(0, here);
        if let Some(user) = user {
            lane.complete_external(*user, Completion::EMPTY);
        }
        self.awaited.remove(&id);
    }

    fn take_refusal<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, id: u64) {
        if self.awaited.get(&id).is_none_or(|awaited| awaited.rank != rank) {
            return;
        }
        if let Some(AwaitedAnswer { what: Expected::Data { receive, user, .. }, .. }) =
            self.awaited.remove(&id)
        {
            receive.into_iter().for_each(|receive| lane.abandon(receive));
            if let Some(user) = user {
                lane.complete_external(user, self.failed(Fault::Outside));
            }
        }
    }

    fn collect<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        let context = self.context();
        self.awaited.retain(|_, awaited| {
            let Expected::Data { receive: Some(receive), user, .. } = &awaited.what else {
                return true;
            };
            match lane.test(*receive) {
                Some(None) => true,
                done => {
                    if let Some(user) = user {
                        let fault = done.flatten().and_then(|completion| completion.fault);
                        lane.complete_external(
                            *user,
                            Completion { fault, context, ..Completion::EMPTY },
                        );
                    }
                    false
                }
            }
        });
    }

    /// Grants the lock in the order of requests. Denies it if a process has failed with the lock.
    pub(in crate::window) fn grant<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        while let Some(&(rank, exclusive)) = self.locks.front() {
            let answer = if self.exposure.control.try_lock(exclusive, rank, self.team.rank) {
                RmaMessage::Granted
            } else if let Some(process) = self.dead_holder(lane) {
                RmaMessage::Denied { process }
            } else {
                return;
            };
            self.locks.pop_front();
            let _ = self.send_message(lane, rank, &answer);
        }
    }

    /// Gives up the lock of this process for `holder`, and wakes ranks that wait for it.
    fn unlock<F: Fabric>(&mut self, lane: &mut Lane<F>, exclusive: bool, holder: u32) {
        if self.exposure.control.unlock(exclusive, holder) {
            for rank in self.exposure.control.take_waiters() {
                if rank != self.team.rank
                    && let Some(process) = self.team.map.process(rank)
                {
                    lane.fabric_mut().wake(process);
                }
            }
        }
        self.grant(lane);
    }
}
