//! The table of a lane's requests.

mod buffered;
mod slot;

use self::slot::{NONE, Slot, State};
use super::{
    Completion, FIRST, MatchedMessage, NO_CONTEXT, PlainReceive, Posting, ReceiveWork, Received, RequestId,
    SendWork, Work,
};
use crate::compound::{Persistent, Standing};
use crate::matching::{ANYBODY, Message};
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_mem::table::Int;
use oxmpi_shm::announcement::Announcement;
use oxmpi_sys::bytes::Bytes;
use std::collections::HashMap;

/// All requests of a lane.
#[derive(Debug)]
pub(crate) struct Requests {
    slots: Vec<Slot>,
    free: u32,
    active_sends: usize,
    /// Packed bytes that are kept for buffered sends, by the buffer in which they count: one with a number, or
    /// [`NO_CONTEXT`] for the buffer of all others.
    buffered: HashMap<u32, usize>,
    /// The contexts whose buffered sends do not count in the buffer of all, and the buffer in which they do.
    own_buffers: Vec<(u32, u32)>,
    /// Bytes of all sends of which the lane keeps the data and that go on.
    kept_bytes: usize,
    /// Announcements of sends that are over.
    ended_announcements: Vec<Announcement>,
    /// Something happened for which somebody may wait, since [`Requests::take_news`].
    news: bool,
}

/// A receive that goes on and for which nobody will ask.
#[derive(Debug)]
pub(crate) struct FreedReceive {
    pub(crate) request: RequestId,
    pub(crate) context: u32,
    /// The only process whose message it may take; `None`: any.
    pub(crate) from: Option<u32>,
    /// No message was matched, as far as is known here.
    pub(crate) is_posted: bool,
}

/// What a request that goes on is about.
pub(crate) enum Outstanding<'a> {
    /// A posted receive into memory in one piece.
    Posted(&'a PlainReceive),
    /// Anything else.
    Active(&'a Work),
    /// It does not go on.
    Over,
}

/// What a number names.
pub(crate) enum Found {
    Active,
    Complete(Completion),
    Stale,
}

impl Requests {
    pub(crate) fn new() -> Self {
        let mut all = Requests {
            slots: Vec::new(),
            free: NONE,
            active_sends: 0,
            buffered: HashMap::new(),
            own_buffers: Vec::new(),
            kept_bytes: 0,
            ended_announcements: Vec::new(),
            news: false,
        };
        all.slots.push(Slot::empty()); // index 0 stands for RequestId::COMPLETE
        all
    }

    /// The request that an integer stands for ([`oxmpi_mem::table::Int`]), which may be gone.
    pub(crate) fn of_int(&self, int: u32) -> RequestId {
        let int = Int::new(int);
        let slot = u64::from(int.index).checked_sub(FIRST).and_then(|at| self.slots.get(at as usize));
        RequestId(int.handle(slot.map_or(0, |slot| slot.generation)).raw())
    }

    /// The name that the next request will have.
    pub(crate) fn next_id(&self) -> RequestId {
        match self.free {
            NONE => RequestId(FIRST + self.slots.len() as u64),
            i => RequestId((u64::from(self.slots[i as usize].generation) << 32) | (FIRST + u64::from(i))),
        }
    }

    pub(crate) fn insert(&mut self, work: Work) -> RequestId {
        if matches!(work, Work::Send(_)) {
            self.active_sends += 1;
        }
        let (id, slot) = self.vacant();
        slot.state = State::Active;
        slot.work = work;
        id
    }

    /// A vacant slot, no longer among the free ones, and the name of the request that it will hold.
    #[inline(always)]
    fn vacant(&mut self) -> (RequestId, &mut Slot) {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let Some(slot) = self.slots.get_mut(index as usize) else { unreachable!("a free slot exists") };
        self.free = slot.next_free;
        (RequestId((u64::from(slot.generation) << 32) | (FIRST + u64::from(index))), slot)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.slots.push(Slot::empty());
        self.free = (self.slots.len() - 1) as u32;
    }

    #[inline]
    fn slot(&self, id: RequestId) -> Option<&Slot> {
        let (index, generation) = id.split()?;
        self.slots.get(index).filter(|s| s.generation == generation && s.state != State::Free)
    }

    #[inline(always)]
    fn slot_mut(&mut self, id: RequestId) -> Option<(usize, &mut Slot)> {
        let (index, generation) = id.split()?;
        let slot = self.slots.get_mut(index)?;
        (slot.generation == generation && slot.state != State::Free).then_some((index, slot))
    }

    /// The context that a request takes place in.
    #[inline]
    pub(crate) fn context(&self, id: RequestId) -> u32 {
        match self.slot(id) {
            Some(slot) if slot.state == State::Posted => slot.plain.context,
            Some(slot) => slot.work.context(),
            None => NO_CONTEXT,
        }
    }

    /// Whether somebody has a right to ask for it.
    #[inline(always)]
    pub(crate) fn knows(&self, id: RequestId) -> bool {
        self.slot(id).is_some_and(|slot| !slot.is_freed())
    }

    pub(crate) fn find(&self, id: RequestId) -> Found {
        match self.slot(id) {
            None => Found::Stale,
            Some(s) if s.is_freed() => Found::Stale,
            Some(s) => s.completed().map_or(Found::Active, Found::Complete),
        }
    }

    /// As [`Requests::find`]; a request that is complete is gone afterwards.
    #[inline]
    pub(crate) fn take(&mut self, id: RequestId) -> Found {
        let Some((index, slot)) = self.slot_mut(id) else { return Found::Stale };
        let Some(completion) = slot.completed() else {
            return if slot.is_freed() { Found::Stale } else { Found::Active };
        };
        self.release(index);
        Found::Complete(completion)
    }

    pub(crate) fn send_mut(&mut self, id: RequestId) -> Option<&mut SendWork> {
        match self.slot_mut(id) {
            Some((_, Slot { work: Work::Send(w), state: State::Active, .. })) => Some(w),
            _ => None,
        }
    }

    pub(crate) fn receive(&self, id: RequestId) -> Option<&ReceiveWork> {
        match self.slot(id) {
            Some(Slot { work: Work::Receive(w), state: State::Active, .. }) => Some(w),
            _ => None,
        }
    }

    pub(crate) fn receive_mut(&mut self, id: RequestId) -> Option<&mut ReceiveWork> {
        let (_, slot) = self.slot_mut(id)?;
        slot.widen();
        match slot {
            Slot { work: Work::Receive(w), state: State::Active, .. } => Some(w),
            _ => None,
        }
    }

    /// Whether an active request waits as a posted receive for a message from anybody; its context.
    pub(crate) fn waits_for_anybody(&self, id: RequestId) -> Option<u32> {
        match self.slot(id)? {
            Slot { state: State::Posted, plain, .. } if plain.from == ANYBODY => Some(plain.context),
            Slot { state: State::Active, work: Work::Receive(w), .. } if w.is_posted && w.from.is_none() => {
                Some(w.context)
            }
            _ => None,
        }
    }

    /// The process from which the message of a posted receive comes, and its context; also of the receive that does the work of a
    /// persistent request. `None`: it is no such receive, or takes anybody's message.
    #[inline]
    pub(crate) fn awaited_from(&self, id: RequestId) -> Option<(u32, u32)> {
        let mut slot = self.slot(id)?;
        if slot.state == State::Active
            && let Work::Persistent(persistent) = &slot.work
            && let Standing::Active(part) = persistent.standing
        {
            slot = self.slot(part)?;
        }
        match (slot.state, &slot.work) {
            (State::Posted, _) if slot.plain.from != ANYBODY => Some((slot.plain.from, slot.plain.context)),
            (State::Active, Work::Receive(work)) if work.is_posted => Some((work.from?, work.context)),
            _ => None,
        }
    }

    /// A new request that is complete already.
    #[inline(always)]
    pub(crate) fn insert_good(&mut self, received: Received) -> RequestId {
        let (id, slot) = self.vacant();
        slot.state = State::Good;
        slot.received = received;
        id
    }

    /// A new receive into memory in one piece, which is to be posted.
    #[inline(always)]
    pub(crate) fn insert_posted(&mut self, into: PlainBuf, context: u32, from: u32) -> RequestId {
        let (id, slot) = self.vacant();
        slot.state = State::Posted;
        slot.plain = PlainReceive { into, context, from };
        id
    }

    /// Stores a whole message into the plain receive that it was matched with, and completes it. `false`: it is no such
    /// receive, or the message does not fit, and nothing happened.
    #[inline(always)]
    pub(crate) fn complete_plain(&mut self, id: RequestId, message: Bytes<'_>, received: Received) -> bool {
        let Some((index, slot)) = self.slot_mut(id) else { return false };
        if slot.state != State::Posted || !message.copy_if_it_fits(slot.plain.into.bytes_mut()) {
            return false;
        }
        slot.state = State::Good;
        slot.received = received;
        let detached = slot.detached;
        self.news = true;
        if detached {
            self.release(index);
        }
        true
    }

    /// What a request says that went well; the request is then gone. `None`: it is not like that, and nothing
    /// happened.
    #[inline(always)]
    pub(crate) fn take_good(&mut self, id: RequestId) -> Option<Received> {
        let (index, slot) = self.slot_mut(id)?;
        if slot.state != State::Good {
            return None;
        }
        let received = slot.received;
        self.release(index);
        Some(received)
    }

    pub(crate) fn complete(&mut self, id: RequestId, mut completion: Completion) {
        let Some((index, slot)) = self.slot_mut(id) else { return };
        slot.widen();
        if slot.state != State::Active {
            return;
        }
        if let Some(buffer) = slot.work.buffer()
            && let Err(fault) = buffer.settle()
        {
            completion.fault.get_or_insert(fault.into());
        }
        if completion.fault.is_some() && completion.context == NO_CONTEXT {
            completion.context = slot.work.context();
        }
        let Completion { source, tag, bytes, cancelled, fault, .. } = completion;
        if fault.is_none() && !cancelled {
            slot.state = State::Good;
            slot.received = Received { source, tag, bytes };
        } else {
            slot.state = State::Complete;
            slot.completion = completion;
        }
        let kept = std::mem::take(&mut slot.kept);
        let detached = slot.detached;
        let owner = slot.owner;
        let work = std::mem::replace(&mut slot.work, Work::None);
        self.news = true;
        if kept > 0 {
            self.let_go(owner, kept);
        }
        if let Work::Send(send) = work {
            self.active_sends -= 1;
            self.ended_announcements.extend(send.announcement);
            if send.is_kept {
                self.kept_bytes -= send.buffer.packed_len();
            }
        }
        if detached {
            self.release(index);
        }
    }

    /// Completes a request of something above the lane that has more to say than the lane can keep. It never counts as
    /// one that went well, so that nobody takes it without asking. `false`: there is no such request.
    pub(crate) fn complete_generalized(&mut self, id: RequestId) -> bool {
        let Some((index, slot)) = self.slot_mut(id) else { return false };
        if slot.state != State::Active || !matches!(slot.work, Work::External) {
            return false;
        }
        slot.state = State::Complete;
        slot.completion = Completion { generalized: true, ..Completion::EMPTY };
        slot.work = Work::None;
        let detached = slot.detached;
        self.news = true;
        if detached {
            self.release(index);
        }
        true
    }

    /// Forgets a complete request.
    pub(crate) fn forget(&mut self, id: RequestId) {
        if let Some((index, slot)) = self.slot_mut(id)
            && !slot.is_open()
        {
            self.release(index);
        }
    }

    /// Nobody will ask for this request any more. Returns whether there was one.
    pub(crate) fn detach(&mut self, id: RequestId) -> bool {
        let Some((index, slot)) = self.slot_mut(id) else { return false };
        if slot.is_freed() {
            return false;
        }
        if !slot.is_open() {
            self.release(index);
        } else {
            slot.detached = true;
        }
        true
    }

    /// Makes a slot vacant. Its work is over.
    #[inline(always)]
    fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.state = State::Free;
        slot.detached = false;
        // Only a send keeps any, and gives it back when it is complete: so it is not written here, in a line of its own.
        debug_assert_eq!(slot.kept, 0);
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = self.free;
        self.free = index as u32;
    }

    /// Notes that something happened for which somebody may wait.
    #[inline]
    pub(crate) fn note_news(&mut self) {
        self.news = true;
    }

    /// Whether something happened, since the last such question, for which somebody may wait.
    #[inline]
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Whether this is an active request of something above the lane.
    pub(crate) fn is_external(&self, id: RequestId) -> bool {
        self.slot(id).is_some_and(|s| s.state == State::Active && matches!(s.work, Work::External))
    }

    /// From now on the lane has the data of a send, in `copy`.
    pub(crate) fn keep_send(&mut self, id: RequestId, copy: UserBuf) {
        if let Some(work) = self.send_mut(id) {
            let bytes = copy.packed_len();
            (work.buffer, work.is_kept) = (copy, true);
            self.kept_bytes += bytes;
        }
    }

    /// Bytes of all sends of which the lane keeps the data and that go on.
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// The announcement of a send that is over.
    pub(crate) fn take_ended_announcement(&mut self) -> Option<Announcement> {
        self.ended_announcements.pop()
    }

    /// Sends that are not complete.
    pub(crate) fn active_sends(&self) -> usize {
        self.active_sends
    }

    /// How many requests there are.
    pub(crate) fn alive(&self) -> u64 {
        // The first stands for those that were complete from the start.
        self.slots.iter().skip(1).filter(|slot| slot.state != State::Free).count() as u64
    }

    /// What a request is about, if it goes on.
    pub(crate) fn outstanding(&self, id: RequestId) -> Outstanding<'_> {
        match self.slot(id) {
            Some(slot) if slot.state == State::Posted => Outstanding::Posted(&slot.plain),
            Some(slot) if slot.state == State::Active => Outstanding::Active(&slot.work),
            _ => Outstanding::Over,
        }
    }

    /// The works of all requests that go on, but those of plain receives.
    pub(crate) fn works(&self) -> impl Iterator<Item = &Work> {
        self.slots.iter().filter(|slot| slot.state == State::Active).map(|slot| &slot.work)
    }

    /// Whether a message to this peer was announced that its receiver may read, and is not gone.
    pub(crate) fn has_announced_to(&self, to: u32) -> bool {
        self.works()
            .any(|work| matches!(work, Work::Send(send) if send.to == to && send.announcement.is_some()))
    }

    /// The work of a request that goes on.
    pub(crate) fn work_mut(&mut self, id: RequestId) -> Option<&mut Work> {
        match self.slot_mut(id) {
            Some((_, slot)) if slot.state == State::Active => Some(&mut slot.work),
            _ => None,
        }
    }

    /// A persistent request.
    pub(crate) fn persistent_mut(&mut self, id: RequestId) -> Option<&mut Persistent> {
        match self.work_mut(id)? {
            Work::Persistent(persistent) => Some(persistent),
            _ => None,
        }
    }

    /// Whether there is such a request.
    pub(crate) fn is_known(&self, id: RequestId) -> bool {
        self.slot(id).is_some()
    }

    /// Whether this is a persistent request that was not started.
    pub(crate) fn is_inactive(&self, id: RequestId) -> bool {
        matches!(
            self.slot(id),
            Some(Slot { state: State::Active, work: Work::Persistent(p), .. }) if p.standing == Standing::Inactive
        )
    }

    /// Takes a matched message; its request is gone.
    pub(crate) fn take_message(&mut self, id: RequestId) -> Option<MatchedMessage> {
        let (index, slot) = self.slot_mut(id)?;
        if slot.state != State::Active || !matches!(slot.work, Work::Message(_)) {
            return None;
        }
        let work = std::mem::replace(&mut slot.work, Work::None);
        self.release(index);
        match work {
            Work::Message(message) => Some(message),
            _ => None,
        }
    }

    /// The data of a matched message went down with their sender.
    pub(crate) fn break_messages_of(&mut self, process: u32) {
        for slot in &mut self.slots {
            if let Slot { state: State::Active, work: Work::Message(matched), .. } = slot
                && matched.message.from == process
                && matched.message.what.needs_sender()
            {
                matched.message.what = Message::Broken { length: matched.message.what.length() };
            }
        }
    }

    /// Makes the slot of a request vacant whose parts are over or live on by themselves.
    pub(crate) fn dissolve(&mut self, id: RequestId) {
        if let Some((index, slot)) = self.slot_mut(id) {
            slot.work = Work::None;
            self.release(index);
        }
    }

    /// Whether a persistent request that was not started is for one of two contexts.
    pub(crate) fn any_inactive_in(&self, contexts: [u32; 2]) -> bool {
        self.slots.iter().any(|slot| match slot {
            Slot { state: State::Active, work: Work::Persistent(p), .. } => {
                p.standing == Standing::Inactive
                    && p.operation.context().is_some_and(|c| contexts.contains(&c))
            }
            _ => false,
        })
    }

    /// The receives that go on and for which nobody will ask.
    pub(crate) fn freed_receives(&self) -> Vec<FreedReceive> {
        let freed = |(at, slot): (usize, &Slot)| {
            let request = self.id_at(at, slot);
            match (slot.state, &slot.work) {
                _ if !slot.detached => None,
                (State::Posted, _) => {
                    let (context, from) = (slot.plain.context, slot.plain.from());
                    Some(FreedReceive { request, context, from, is_posted: true })
                }
                (State::Active, Work::Receive(work)) => {
                    let ReceiveWork { context, from, .. } = *work;
                    let is_posted = work.is_posted || work.posting != Posting::Here;
                    Some(FreedReceive { request, context, from, is_posted })
                }
                _ => None,
            }
        };
        self.slots.iter().enumerate().filter_map(freed).collect()
    }

    /// The active requests, of these two contexts, that somebody may still ask for.
    pub(crate) fn held_in(&self, contexts: [u32; 2]) -> usize {
        let ids = self.active(|context, _| contexts.contains(&context));
        ids.into_iter().filter(|id| self.slot(*id).is_some_and(|slot| !slot.detached)).count()
    }

    /// Whether a send of one of these two contexts is not complete.
    pub(crate) fn is_sending_in(&self, contexts: [u32; 2]) -> bool {
        self.slots.iter().any(|slot| {
            slot.state == State::Active
                && matches!(slot.work, Work::Send(_))
                && contexts.contains(&slot.work.context())
        })
    }

    /// Whether nobody will ask for an active request.
    pub(crate) fn is_detached(&self, id: RequestId) -> bool {
        self.slot(id).is_some_and(|slot| slot.is_open() && slot.detached)
    }

    /// The active requests whose context and peer fulfil a condition; the peer of a receive from anybody is `None`.
    pub(crate) fn active(&self, mut wanted: impl FnMut(u32, Option<u32>) -> bool) -> Vec<RequestId> {
        let mut concerned = |s: &Slot| match s.state {
            State::Posted => wanted(s.plain.context, s.plain.from()),
            // One that was not started uses its context, and waits for nobody.
            State::Active if matches!(&s.work, Work::Persistent(p) if p.standing == Standing::Inactive) => {
                false
            }
            State::Active => wanted(s.work.context(), s.work.peer()),
            State::Free | State::Good | State::Complete => false,
        };
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| concerned(slot))
            .map(|(at, slot)| self.id_at(at, slot))
            .collect()
    }

    fn id_at(&self, at: usize, slot: &Slot) -> RequestId {
        RequestId((u64::from(slot.generation) << 32) | (FIRST + at as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_outlives_its_request_as_stale() {
        let mut all = Requests::new();
        assert!(matches!(all.find(RequestId::COMPLETE), Found::Stale));
        let expected = all.next_id();
        let id = all.insert(Work::External);
        assert_eq!(id, expected);
        assert!(matches!(all.find(id), Found::Active));
        all.complete(id, Completion::EMPTY);
        assert!(matches!(all.find(id), Found::Complete(_)));
        all.forget(id);
        assert!(matches!(all.find(id), Found::Stale));
        let next = all.insert(Work::External);
        assert_ne!(next, id);
        assert!(matches!(all.find(id), Found::Stale));
        assert!(matches!(all.find(RequestId::from_raw(3)), Found::Stale));
        assert!(matches!(all.find(RequestId::from_raw(u64::MAX)), Found::Stale));
    }

    #[test]
    fn a_generalized_request_never_goes_unasked() {
        let mut all = Requests::new();
        let id = all.insert(Work::External);
        assert!(all.complete_generalized(id));
        assert!(!all.complete_generalized(id));
        assert_eq!(all.take_good(id), None);
        assert!(matches!(all.take(id), Found::Complete(Completion { generalized: true, .. })));
        let id = all.insert(Work::External);
        assert!(all.detach(id) && all.complete_generalized(id));
        assert!(matches!(all.find(id), Found::Stale));
        let done = all.insert_good(Received::NOTHING);
        assert!(!all.complete_generalized(done));
    }

    #[test]
    fn a_detached_request_goes_when_it_is_complete() {
        let mut all = Requests::new();
        let id = all.insert(Work::External);
        assert!(all.detach(id));
        assert!(matches!(all.find(id), Found::Stale) && matches!(all.take(id), Found::Stale));
        assert!(!all.detach(id), "twice");
        all.complete(id, Completion::EMPTY);
        assert!(matches!(all.find(id), Found::Stale));
        assert!(!all.detach(id));
    }
}
