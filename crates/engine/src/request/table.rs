//! The table of a lane's requests.

mod buffered;
mod slot;

use self::slot::{NONE, RequestSlot, SlotState};
use super::{
    Completion, FIRST, MatchedMessage, NO_CONTEXT, PlainReceive, Posting, ReceiveWork, Received,
    RequestId, SendWork, Work,
};
use crate::compound::{Persistent, Standing};
use crate::matching::{ANYBODY, UnexpectedData};
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_mem::table::Int;
use oxmpi_shm::announcement::Announcement;
use oxmpi_sys::bytes::Bytes;
use std::collections::HashMap;

#[derive(Debug)]
pub(crate) struct Requests {
    slots: Vec<RequestSlot>,
    free: u32,
    active_sends: usize,
    /// Packed bytes that are kept for buffered sends, by the number of their buffer
    /// ([`NO_CONTEXT`]: the common one).
    buffered: HashMap<u32, usize>,
    /// The contexts whose buffered sends use a buffer with a number, and that number.
    own_buffers: Vec<(u32, u32)>,
    /// Bytes of the private copies of active sends.
    kept_bytes: usize,
    ended_announcements: Vec<Announcement>,
    /// Whether an event has happened for which a thread may wait, since [`Requests::take_news`].
    news: bool,
}

/// An active receive whose request the program has freed.
#[derive(Debug)]
pub(crate) struct FreedReceive {
    pub(crate) request: RequestId,
    pub(crate) context: u32,
    /// The source; `None`: any.
    pub(crate) from: Option<u32>,
    /// Whether no message was matched, as far as this process knows.
    pub(crate) is_posted: bool,
}

pub(crate) enum Outstanding<'a> {
    Posted(&'a PlainReceive),
    Active(&'a Work),
    Over,
}

pub(crate) enum RequestLookup {
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
        all.slots.push(RequestSlot::empty()); // index 0 stands for RequestId::COMPLETE
        all
    }

    /// The request with this integer ([`oxmpi_mem::table::Int`]); it need not exist any more.
    pub(crate) fn of_int(&self, int: u32) -> RequestId {
        let int = Int::new(int);
        let slot =
            u64::from(int.index).checked_sub(FIRST).and_then(|at| self.slots.get(at as usize));
        RequestId(int.handle(slot.map_or(0, |slot| slot.generation)).raw())
    }

    pub(crate) fn next_id(&self) -> RequestId {
        match self.free {
            NONE => RequestId(FIRST + self.slots.len() as u64),
            i => RequestId(
                (u64::from(self.slots[i as usize].generation) << 32) | (FIRST + u64::from(i)),
            ),
        }
    }

    pub(crate) fn insert(&mut self, work: Work) -> RequestId {
        if matches!(work, Work::Send(_)) {
            self.active_sends += 1;
        }
        let (id, slot) = self.vacant();
        slot.state = SlotState::Active;
        slot.work = work;
        id
    }

    #[inline(always)]
    fn vacant(&mut self) -> (RequestId, &mut RequestSlot) {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let Some(slot) = self.slots.get_mut(index as usize) else {
            unreachable!("a free slot exists")
        };
        self.free = slot.next_free;
        (RequestId((u64::from(slot.generation) << 32) | (FIRST + u64::from(index))), slot)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.slots.push(RequestSlot::empty());
        self.free = (self.slots.len() - 1) as u32;
    }

    #[inline]
    fn slot(&self, id: RequestId) -> Option<&RequestSlot> {
        let (index, generation) = id.split()?;
        self.slots.get(index).filter(|s| s.generation == generation && s.state != SlotState::Free)
    }

    #[inline(always)]
    fn slot_mut(&mut self, id: RequestId) -> Option<(usize, &mut RequestSlot)> {
        let (index, generation) = id.split()?;
        let slot = self.slots.get_mut(index)?;
        (slot.generation == generation && slot.state != SlotState::Free).then_some((index, slot))
    }

    #[inline]
    pub(crate) fn context(&self, id: RequestId) -> u32 {
        match self.slot(id) {
            Some(slot) if slot.state == SlotState::Posted => slot.plain.context,
            Some(slot) => slot.work.context(),
            None => NO_CONTEXT,
        }
    }

    #[inline(always)]
    pub(crate) fn knows(&self, id: RequestId) -> bool {
        self.slot(id).is_some_and(|slot| !slot.is_freed())
    }

    pub(crate) fn find(&self, id: RequestId) -> RequestLookup {
        match self.slot(id) {
            None => RequestLookup::Stale,
            Some(s) if s.is_freed() => RequestLookup::Stale,
            Some(s) => s.completed().map_or(RequestLookup::Active, RequestLookup::Complete),
        }
    }

    /// As [`Requests::find`]; a complete request is removed.
    #[inline]
    pub(crate) fn take(&mut self, id: RequestId) -> RequestLookup {
        let Some((index, slot)) = self.slot_mut(id) else { return RequestLookup::Stale };
        let Some(completion) = slot.completed() else {
            return if slot.is_freed() { RequestLookup::Stale } else { RequestLookup::Active };
        };
        self.release(index);
        RequestLookup::Complete(completion)
    }

    pub(crate) fn send_mut(&mut self, id: RequestId) -> Option<&mut SendWork> {
        match self.slot_mut(id) {
            Some((_, RequestSlot { work: Work::Send(w), state: SlotState::Active, .. })) => Some(w),
            _ => None,
        }
    }

    pub(crate) fn receive(&self, id: RequestId) -> Option<&ReceiveWork> {
        match self.slot(id) {
            Some(RequestSlot { work: Work::Receive(w), state: SlotState::Active, .. }) => Some(w),
            _ => None,
        }
    }

    pub(crate) fn receive_mut(&mut self, id: RequestId) -> Option<&mut ReceiveWork> {
        let (_, slot) = self.slot_mut(id)?;
        slot.widen();
        match slot {
            RequestSlot { work: Work::Receive(w), state: SlotState::Active, .. } => Some(w),
            _ => None,
        }
    }

    pub(crate) fn waits_for_any_source(&self, id: RequestId) -> Option<u32> {
        match self.slot(id)? {
            RequestSlot { state: SlotState::Posted, plain, .. } if plain.from == ANYBODY => {
                Some(plain.context)
            }
            RequestSlot { state: SlotState::Active, work: Work::Receive(w), .. }
                if w.is_posted && w.from.is_none() =>
            {
                Some(w.context)
            }
            _ => None,
        }
    }

    /// Source and context of a posted receive, or of the active receive of a persistent request.
    /// `None`: there is no such receive, or it is from MPI_ANY_SOURCE.
    #[inline]
    pub(crate) fn awaited_from(&self, id: RequestId) -> Option<(u32, u32)> {
        let mut slot = self.slot(id)?;
        if slot.state == SlotState::Active
            && let Work::Persistent(persistent) = &slot.work
            && let Standing::Active(part) = persistent.standing
        {
            slot = self.slot(part)?;
        }
        match (slot.state, &slot.work) {
            (SlotState::Posted, _) if slot.plain.from != ANYBODY => {
                Some((slot.plain.from, slot.plain.context))
            }
            (SlotState::Active, Work::Receive(work)) if work.is_posted => {
                Some((work.from?, work.context))
            }
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn insert_good(&mut self, received: Received) -> RequestId {
        let (id, slot) = self.vacant();
        slot.state = SlotState::Good;
        slot.received = received;
        id
    }

    #[inline(always)]
    pub(crate) fn insert_posted(&mut self, into: PlainBuf, context: u32, from: u32) -> RequestId {
        let (id, slot) = self.vacant();
        slot.state = SlotState::Posted;
        slot.plain = PlainReceive { into, context, from };
        id
    }

    /// Stores a whole message into the plain receive that has matched it, and completes the
    /// receive. `false`: the receive is not plain or the message does not fit, and nothing
    /// happened.
    #[inline(always)]
    pub(crate) fn complete_plain(
        &mut self,
        id: RequestId,
        message: Bytes<'_>,
        received: Received,
    ) -> bool {
        let Some((index, slot)) = self.slot_mut(id) else { return false };
        if slot.state != SlotState::Posted || !message.copy_if_it_fits(slot.plain.into.bytes_mut())
        {
            return false;
        }
        slot.state = SlotState::Good;
        slot.received = received;
        let detached = slot.detached;
        self.news = true;
        if detached {
            self.release(index);
        }
        true
    }

    /// Takes the result of a request that succeeded, and removes the request. `None`: the request
    /// is active or failed, and unchanged.
    #[inline(always)]
    pub(crate) fn take_good(&mut self, id: RequestId) -> Option<Received> {
        let (index, slot) = self.slot_mut(id)?;
        if slot.state != SlotState::Good {
            return None;
        }
        let received = slot.received;
        self.release(index);
        Some(received)
    }

    pub(crate) fn complete(&mut self, id: RequestId, mut completion: Completion) {
        let Some((index, slot)) = self.slot_mut(id) else { return };
        slot.widen();
        if slot.state != SlotState::Active {
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
            slot.state = SlotState::Good;
            slot.received = Received { source, tag, bytes };
        } else {
            slot.state = SlotState::Complete;
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

    /// Completes a request whose result code above the lane completes. Such a request never counts
    /// as succeeded, so no fast path takes it. `false`: there is no such request.
    pub(crate) fn complete_generalized(&mut self, id: RequestId) -> bool {
        let Some((index, slot)) = self.slot_mut(id) else { return false };
        if slot.state != SlotState::Active || !matches!(slot.work, Work::External) {
            return false;
        }
        slot.state = SlotState::Complete;
        slot.completion = Completion { generalized: true, ..Completion::EMPTY };
        slot.work = Work::None;
        let detached = slot.detached;
        self.news = true;
        if detached {
            self.release(index);
        }
        true
    }

    pub(crate) fn forget(&mut self, id: RequestId) {
        if let Some((index, slot)) = self.slot_mut(id)
            && !slot.is_open()
        {
            self.release(index);
        }
    }

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

    #[inline(always)]
    fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.state = SlotState::Free;
        slot.detached = false;
        // Only a buffered send sets `kept`, and clears it on completion, so this line of the slot
        // need not be written.
        debug_assert_eq!(slot.kept, 0);
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = self.free;
        self.free = index as u32;
    }

    #[inline]
    pub(crate) fn note_news(&mut self) {
        self.news = true;
    }

    #[inline]
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn is_external(&self, id: RequestId) -> bool {
        self.slot(id)
            .is_some_and(|s| s.state == SlotState::Active && matches!(s.work, Work::External))
    }

    pub(crate) fn keep_send(&mut self, id: RequestId, copy: UserBuf) {
        if let Some(work) = self.send_mut(id) {
            let bytes = copy.packed_len();
            (work.buffer, work.is_kept) = (copy, true);
            self.kept_bytes += bytes;
        }
    }

    pub(crate) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    pub(crate) fn take_ended_announcement(&mut self) -> Option<Announcement> {
        self.ended_announcements.pop()
    }

    pub(crate) fn active_sends(&self) -> usize {
        self.active_sends
    }

    pub(crate) fn alive(&self) -> u64 {
        // The first slot stands for [`RequestId::COMPLETE`].
        self.slots.iter().skip(1).filter(|slot| slot.state != SlotState::Free).count() as u64
    }

    pub(crate) fn outstanding(&self, id: RequestId) -> Outstanding<'_> {
        match self.slot(id) {
            Some(slot) if slot.state == SlotState::Posted => Outstanding::Posted(&slot.plain),
            Some(slot) if slot.state == SlotState::Active => Outstanding::Active(&slot.work),
            _ => Outstanding::Over,
        }
    }

    pub(crate) fn works(&self) -> impl Iterator<Item = &Work> {
        self.slots.iter().filter(|slot| slot.state == SlotState::Active).map(|slot| &slot.work)
    }

    /// Whether an announced message to this peer is incomplete, and the peer may read it.
    pub(crate) fn has_announced_to(&self, to: u32) -> bool {
        self.works().any(
            |work| matches!(work, Work::Send(send) if send.to == to && send.announcement.is_some()),
        )
    }

    pub(crate) fn work_mut(&mut self, id: RequestId) -> Option<&mut Work> {
        match self.slot_mut(id) {
            Some((_, slot)) if slot.state == SlotState::Active => Some(&mut slot.work),
            _ => None,
        }
    }

    pub(crate) fn persistent_mut(&mut self, id: RequestId) -> Option<&mut Persistent> {
        match self.work_mut(id)? {
            Work::Persistent(persistent) => Some(persistent),
            _ => None,
        }
    }

    pub(crate) fn is_known(&self, id: RequestId) -> bool {
        self.slot(id).is_some()
    }

    pub(crate) fn is_inactive(&self, id: RequestId) -> bool {
        matches!(
            self.slot(id),
            Some(RequestSlot { state: SlotState::Active, work: Work::Persistent(p), .. }) if p.standing == Standing::Inactive
        )
    }

    pub(crate) fn take_message(&mut self, id: RequestId) -> Option<MatchedMessage> {
        let (index, slot) = self.slot_mut(id)?;
        if slot.state != SlotState::Active || !matches!(slot.work, Work::Message(_)) {
            return None;
        }
        let work = std::mem::replace(&mut slot.work, Work::None);
        self.release(index);
        match work {
            Work::Message(message) => Some(message),
            _ => None,
        }
    }

    pub(crate) fn break_messages_of(&mut self, process: u32) {
        for slot in &mut self.slots {
            if let RequestSlot { state: SlotState::Active, work: Work::Message(matched), .. } = slot
                && matched.message.from == process
                && matched.message.content.needs_sender()
            {
                matched.message.content =
                    UnexpectedData::Broken { length: matched.message.content.length() };
            }
        }
    }

    /// Removes a compound request, whose parts are complete or independent of it.
    pub(crate) fn dissolve(&mut self, id: RequestId) {
        if let Some((index, slot)) = self.slot_mut(id) {
            slot.work = Work::None;
            self.release(index);
        }
    }

    pub(crate) fn any_inactive_in(&self, contexts: [u32; 2]) -> bool {
        self.slots.iter().any(|slot| match slot {
            RequestSlot { state: SlotState::Active, work: Work::Persistent(p), .. } => {
                p.standing == Standing::Inactive
                    && p.operation.context().is_some_and(|c| contexts.contains(&c))
            }
            _ => false,
        })
    }

    pub(crate) fn freed_receives(&self) -> Vec<FreedReceive> {
        let freed = |(at, slot): (usize, &RequestSlot)| {
            let request = self.id_at(at, slot);
            match (slot.state, &slot.work) {
                _ if !slot.detached => None,
                (SlotState::Posted, _) => {
                    let (context, from) = (slot.plain.context, slot.plain.from());
                    Some(FreedReceive { request, context, from, is_posted: true })
                }
                (SlotState::Active, Work::Receive(work)) => {
                    let ReceiveWork { context, from, .. } = *work;
                    let is_posted = work.is_posted || work.posting != Posting::Here;
                    Some(FreedReceive { request, context, from, is_posted })
                }
                _ => None,
            }
        };
        self.slots.iter().enumerate().filter_map(freed).collect()
    }

    pub(crate) fn held_in(&self, contexts: [u32; 2]) -> usize {
        let ids = self.active(|context, _| contexts.contains(&context));
        ids.into_iter().filter(|id| self.slot(*id).is_some_and(|slot| !slot.detached)).count()
    }

    pub(crate) fn is_sending_in(&self, contexts: [u32; 2]) -> bool {
        self.slots.iter().any(|slot| {
            slot.state == SlotState::Active
                && matches!(slot.work, Work::Send(_))
                && contexts.contains(&slot.work.context())
        })
    }

    pub(crate) fn is_detached(&self, id: RequestId) -> bool {
        self.slot(id).is_some_and(|slot| slot.is_open() && slot.detached)
    }

    pub(crate) fn active(
        &self,
        mut wanted: impl FnMut(u32, Option<u32>) -> bool,
    ) -> Vec<RequestId> {
        let mut concerned = |s: &RequestSlot| match s.state {
            SlotState::Posted => wanted(s.plain.context, s.plain.from()),
            // An inactive persistent request uses its context, but waits for no process.
            SlotState::Active if matches!(&s.work, Work::Persistent(p) if p.standing == Standing::Inactive) => {
                false
            }
            SlotState::Active => wanted(s.work.context(), s.work.peer()),
            SlotState::Free | SlotState::Good | SlotState::Complete => false,
        };
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| concerned(slot))
            .map(|(at, slot)| self.id_at(at, slot))
            .collect()
    }

    fn id_at(&self, at: usize, slot: &RequestSlot) -> RequestId {
        RequestId((u64::from(slot.generation) << 32) | (FIRST + at as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_outlives_its_request_as_stale() {
        let mut all = Requests::new();
        assert!(matches!(all.find(RequestId::COMPLETE), RequestLookup::Stale));
        let expected = all.next_id();
        let id = all.insert(Work::External);
        assert_eq!(id, expected);
        assert!(matches!(all.find(id), RequestLookup::Active));
        all.complete(id, Completion::EMPTY);
        assert!(matches!(all.find(id), RequestLookup::Complete(_)));
        all.forget(id);
        assert!(matches!(all.find(id), RequestLookup::Stale));
        let next = all.insert(Work::External);
        assert_ne!(next, id);
        assert!(matches!(all.find(id), RequestLookup::Stale));
        assert!(matches!(all.find(RequestId::from_raw(3)), RequestLookup::Stale));
        assert!(matches!(all.find(RequestId::from_raw(u64::MAX)), RequestLookup::Stale));
    }

    #[test]
    fn a_generalized_request_never_goes_unasked() {
        let mut all = Requests::new();
        let id = all.insert(Work::External);
        assert!(all.complete_generalized(id));
        assert!(!all.complete_generalized(id));
        assert_eq!(all.take_good(id), None);
        assert!(matches!(
            all.take(id),
            RequestLookup::Complete(Completion { generalized: true, .. })
        ));
        let id = all.insert(Work::External);
        assert!(all.detach(id) && all.complete_generalized(id));
        assert!(matches!(all.find(id), RequestLookup::Stale));
        let done = all.insert_good(Received::NOTHING);
        assert!(!all.complete_generalized(done));
    }

    #[test]
    fn a_detached_request_goes_when_it_is_complete() {
        let mut all = Requests::new();
        let id = all.insert(Work::External);
        assert!(all.detach(id));
        assert!(
            matches!(all.find(id), RequestLookup::Stale)
                && matches!(all.take(id), RequestLookup::Stale)
        );
        assert!(!all.detach(id), "twice");
        all.complete(id, Completion::EMPTY);
        assert!(matches!(all.find(id), RequestLookup::Stale));
        assert!(!all.detach(id));
    }
}
