//! The part of a window that talks: it carries out here what others ask for by messages, and asks them.
//!
//! The messages are ordinary ones of the window's own communicator: those of [`super::message`] with tag 0, long data by
//! themselves with a tag of their number. It goes on with every look of any thread at anything, so a process serves while it
//! waits or tests for whatever it likes.
//!
//! What one process asks of another is done there in the order in which it was asked: a message whose data have not come yet
//! stops those behind it. So accumulates keep their order, and an answer to `Flush` says that all before it is done.

mod ask;
mod data;
mod loss;

use super::adapter::AdapterAccesses;
use super::mailbox::Boxes;
use super::message::{Data, Message, Place};
use super::{Exposure, Flavor, Target};
use oxmpi_engine::{Completion, Fault, Lane, Mode, RequestId, Source, Started, TagMatch, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::atomics::{Accumulator, compare_and_swap};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Data of up to so many bytes travel behind the words of their message.
const HERE_MOST: usize = 16 << 10;

/// The tag of messages. Those of data are not 0.
const MESSAGE: i32 = 0;

/// One window's part in the domain of its process.
#[derive(Debug)]
pub(crate) struct Service {
    pub(super) team: Arc<Team>,
    pub(super) exposure: Arc<Exposure>,
    pub(super) flavor: Flavor,
    /// Whether the exposed memory is mapped in this process alone, which has one thread: nobody else changes elements.
    pub(super) is_alone: bool,
    /// Operations that go to each rank by messages.
    pub(super) by_messages: BTreeMap<u32, MessageCounts>,
    /// What goes by mailboxes, in a window that has some.
    pub(super) boxes: Option<Boxes>,
    /// What has come from each rank and is not done.
    queues: BTreeMap<u32, VecDeque<Waiting>>,
    /// What goes by the adapter.
    pub(super) accesses: AdapterAccesses,
    /// What leaves from memory that is not this window's own to keep.
    sends: Vec<Sending>,
    /// What this process waits for.
    asked: BTreeMap<u64, Asked>,
    next: u64,
    /// Ranks that wait for the lock here, and whether exclusively.
    locks: VecDeque<(u32, bool)>,
    /// How many locks each rank has granted that nobody has asked for yet.
    granted: BTreeMap<u32, u32>,
    /// Ranks that have not granted their lock, because a process has died with it.
    denied: BTreeMap<u32, u32>,
    /// Ranks with operations that had a place outside of the memory here, to be told.
    outside: BTreeMap<u32, ()>,
    /// What the window knows of its targets; whether it must ask here before it takes something for complete.
    pub(super) targets: Arc<[Target]>,
    far: Arc<AtomicBool>,
    /// How many of the lane's lost processes were seen to.
    lost: usize,
}

/// Operations that go to a rank by messages.
#[derive(Debug, Default)]
pub(super) struct MessageCounts {
    /// How many were asked for.
    pub(super) said: u64,
    /// How many of these are known to be complete.
    pub(super) complete: u64,
}

/// Something that came and is not done.
#[derive(Debug)]
enum Waiting {
    /// A message that is not here whole.
    Message(RequestId, Owned<u8>),
    /// Data that come into the window's memory.
    Put(RequestId),
    /// Operands that come.
    Operands(RequestId, Owned<u8>, Change),
}

impl Waiting {
    fn request(&self) -> RequestId {
        let (Waiting::Message(request, _) | Waiting::Put(request) | Waiting::Operands(request, ..)) = self;
        *request
    }
}

/// An accumulate, its operands apart.
#[derive(Debug)]
struct Change {
    place: Place,
    len: usize,
    accumulator: Accumulator,
    fetch: Option<u64>,
}

#[derive(Debug)]
struct Sending {
    send: RequestId,
    rank: u32,
    /// The user's request that ends with it.
    user: Option<RequestId>,
}

/// What is to come from a rank.
#[derive(Debug)]
struct Asked {
    rank: u32,
    what: Expected,
}

#[derive(Debug)]
enum Expected {
    /// Data for this buffer, perhaps by this receive.
    Data { into: UserBuf, receive: Option<RequestId>, user: Option<RequestId> },
    /// The end of what came before; how it was, when it is told.
    Done(Option<bool>),
}

/// What an accumulate is to do, at its origin.
#[derive(Debug)]
pub(super) struct Accumulating {
    pub(super) operands: UserBuf,
    pub(super) accumulator: Accumulator,
    /// Where the values from before go.
    pub(super) fetch: Option<UserBuf>,
}

const fn tag_of_data(id: u64) -> i32 {
    (1 + 2 * (id % (1 << 29))) as i32
}

const fn tag_of_answer(id: u64) -> i32 {
    tag_of_data(id) + 1
}

/// So many zeros; `None`: there is no room for them.
pub(super) fn zeros(len: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).ok()?;
    bytes.resize(len, 0);
    Some(bytes)
}

/// The first `len` packed bytes; a copy of them if they are no buffer of their own, for which
/// there may be no room.
fn part(buffer: &UserBuf, len: usize) -> Option<UserBuf> {
    buffer.packed_range(0, len).or_else(|| {
        let mut bytes = zeros(len)?;
        buffer.pack(0, BytesMut::from(&mut bytes[..]));
        Some(Owned::new(bytes).buf())
    })
}

impl Service {
    pub(super) fn new(
        team: Arc<Team>,
        exposure: Arc<Exposure>,
        flavor: Flavor,
        (targets, far): (Arc<[Target]>, Arc<AtomicBool>),
    ) -> Service {
        let boxes = exposure.control.mailboxes().map(|_| Boxes::new(team.size()));
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
            asked: BTreeMap::new(),
            next: 1,
            locks: VecDeque::new(),
            granted: BTreeMap::new(),
            outside: BTreeMap::new(),
        }
    }

    /// What tells the window from others.
    pub(crate) fn context(&self) -> u32 {
        self.team.point_to_point
    }

    /// What a request of this window says that has failed: the window's error handler counts.
    pub(super) fn failed(&self, fault: Fault) -> Completion {
        Completion { context: self.context(), ..Completion::failed(fault) }
    }

    /// From now on the process has several threads.
    pub(crate) fn share_among_threads(&mut self) {
        self.is_alone = false;
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Sends a buffer; `user` is the request that ends when it has left.
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
                    lane.complete_external(user, Completion { context: self.context(), ..completion });
                }
            }
            Started::Pending(send) => self.sends.push(Sending { send, rank, user }),
        }
        Ok(())
    }

    /// Sends a message with the first `len` packed bytes of `data` behind it.
    fn say_with<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        message: &Message,
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
            // It keeps its bytes itself.
            lane.detach(send);
        }
        Ok(())
    }

    /// Sends a message.
    pub(super) fn say<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        message: &Message,
    ) -> Result<(), Fault> {
        self.say_with(lane, rank, message, &UserBuf::empty(), 0)
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        let messages = self.sends.is_empty() && self.asked.is_empty() && self.queues.is_empty();
        messages && self.accesses.are_over() && self.has_no_request()
    }

    /// Whether it waits for something of the lane, or of a lock.
    pub(crate) fn awaits_messages(&self) -> bool {
        !self.is_idle() || !self.locks.is_empty()
    }

    /// Whether it waits for something, or polls mailboxes.
    pub(crate) fn is_busy(&self) -> bool {
        self.boxes.is_some() || self.awaits_messages()
    }

    /// Makes progress. Whether there were requests in mailboxes.
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
        if !self.asked.is_empty() {
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
            let (message, found) = match lane.take_message(self.context(), Source::Any, TagMatch::Is(MESSAGE))
            {
                Ok(Some(taken)) => taken,
                // What went down with its sender is in the way of what others have said.
                Err(Fault::Lost { peer }) if self.discard(lane, peer) => continue,
                _ => return,
            };
            // A message for which there is no room is lost, and so is one too short for it to be anything.
            let room = zeros(usize::try_from(found.bytes).unwrap_or(usize::MAX));
            let room = Owned::new(room.unwrap_or_default());
            let Ok(rank) = u32::try_from(found.source) else { continue };
            let receive = match lane.receive_message(message, room.buf()) {
                Some(Started::Pending(receive)) => receive,
                Some(Started::Complete(_)) => RequestId::COMPLETE,
                None => continue,
            };
            self.queues.entry(rank).or_default().push_back(Waiting::Message(receive, room));
        }
    }

    /// Takes away a message that went down with its sender. `false`: there is none.
    fn discard<F: Fabric>(&self, lane: &mut Lane<F>, peer: u32) -> bool {
        let from = Source::Process(peer);
        match lane.start_receive(self.context(), UserBuf::empty(), from, TagMatch::Is(MESSAGE)) {
            Ok(Started::Complete(_)) => true,
            Ok(Started::Pending(receive)) => {
                lane.abandon(receive);
                false
            }
            Err(_) => false,
        }
    }

    /// Does what has come from a rank, as far as it is here.
    fn serve<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32) {
        let Some(mut queue) = self.queues.remove(&rank) else { return };
        while let Some(waiting) = queue.pop_front() {
            match lane.test(waiting.request()) {
                Some(None) => {
                    queue.push_front(waiting);
                    break;
                }
                // What failed on the way is lost with its sender.
                Some(Some(Completion { fault: Some(_), .. })) | None => continue,
                Some(Some(_)) => {}
            }
            let next = match waiting {
                Waiting::Message(_, bytes) => bytes.into_vec().ok().and_then(|b| self.obey(lane, rank, &b)),
                Waiting::Put(_) => None,
                Waiting::Operands(_, operands, change) => {
                    if let Ok(operands) = operands.into_vec() {
                        self.change(lane, rank, &change, Bytes::from(&operands[..]));
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

    /// Does what a message says. Returns what must come first, if the data are not here.
    fn obey<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, bytes: &[u8]) -> Option<Waiting> {
        // Its request from before comes first.
        self.serve_request(lane, rank);
        // Nonsense comes from no process of this library.
        let (message, at) = Message::decode(bytes)?;
        let here = Bytes::from(&bytes[at..]);
        match message {
            Message::Put { place, data, .. } => {
                let target = self.exposure.buffer(&place);
                match (data, target) {
                    (Data::Here, Some(target)) => target.unpack(0, here),
                    (Data::Here, None) => self.note_outside(rank),
                    (Data::Apart(id), target) => return self.await_put(lane, rank, target, id),
                }
            }
            Message::Get { place, len, id } => match self.exposure.buffer(&place) {
                Some(target) => self.answer(lane, rank, id, (&target, len)),
                None => self.refuse(lane, rank, id),
            },
            Message::Accumulate { place, len, data, accumulator, fetch } => {
                let change = Change { place, len, accumulator, fetch };
                match data {
                    Data::Here => self.change(lane, rank, &change, here),
                    Data::Apart(id) => {
                        return self.await_operands(lane, rank, change, id);
                    }
                }
            }
            Message::Swap { place, len, id } => {
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
            Message::Lock { exclusive } => {
                self.locks.push_back((rank, exclusive));
                self.grant(lane);
            }
            Message::Unlock { exclusive, id } => {
                self.unlock(lane, exclusive, rank);
                self.done(lane, rank, id);
            }
            Message::Flush { id } => self.done(lane, rank, id),
            Message::Post => self.exposure.control.post(rank),
            Message::Complete => self.exposure.control.complete(rank),
            Message::Granted => *self.granted.entry(rank).or_default() += 1,
            Message::Denied { process } => _ = self.denied.insert(rank, process),
            Message::Answer { id, data } => self.hear(lane, rank, id, (data, here)),
            Message::Refused { id } => self.hear_refusal(lane, rank, id),
            Message::Done { id, outside } => {
                if let Some(Asked { rank: asked, what: Expected::Done(told) }) = self.asked.get_mut(&id)
                    && *asked == rank
                {
                    *told = Some(outside);
                }
            }
        }
        None
    }

    /// Data that this process has asked for are here, or come by themselves.
    fn hear<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, id: u64, (data, here): (Data, Bytes<'_>)) {
        let Some(Asked { rank: asked, what: Expected::Data { into, receive: None, user } }) =
            self.asked.get(&id)
        else {
            return;
        };
        if *asked != rank || data != Data::Here || here.len() > into.packed_len() {
            return;
        }
        into.unpack(0, here);
        if let Some(user) = user {
            lane.complete_external(*user, Completion::EMPTY);
        }
        self.asked.remove(&id);
    }

    fn hear_refusal<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, id: u64) {
        if self.asked.get(&id).is_none_or(|asked| asked.rank != rank) {
            return;
        }
        if let Some(Asked { what: Expected::Data { receive, user, .. }, .. }) = self.asked.remove(&id) {
            receive.into_iter().for_each(|receive| lane.abandon(receive));
            if let Some(user) = user {
                lane.complete_external(user, self.failed(Fault::Outside));
            }
        }
    }

    /// Sees which data have come by themselves.
    fn collect<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        let context = self.context();
        self.asked.retain(|_, asked| {
            let Expected::Data { receive: Some(receive), user, .. } = &asked.what else { return true };
            match lane.test(*receive) {
                Some(None) => true,
                done => {
                    if let Some(user) = user {
                        let fault = done.flatten().and_then(|completion| completion.fault);
                        lane.complete_external(*user, Completion { fault, context, ..Completion::EMPTY });
                    }
                    false
                }
            }
        });
    }

    /// Grants the lock to those who wait, in their order, or tells them that a process has died with it.
    fn grant<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        while let Some(&(rank, exclusive)) = self.locks.front() {
            let answer = if self.exposure.control.try_lock(exclusive, rank, self.team.rank) {
                Message::Granted
            } else if let Some(process) = self.dead_holder(lane) {
                Message::Denied { process }
            } else {
                return;
            };
            self.locks.pop_front();
            let _ = self.say(lane, rank, &answer);
        }
    }

    /// Gives up the lock here, and wakes those of this node who wait for it.
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

    /// This process has given up its own lock: others may have it.
    pub(super) fn lock_is_free<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        self.grant(lane);
    }
}
