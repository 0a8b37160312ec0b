//! The state of HCOLL's runtime: groups, messages in progress, and handles of collectives.
//!
//! HCOLL has one runtime for a program, and its callbacks have no argument for a context, so this
//! state is global. All handles that HCOLL gets are numbers of it, so a stale handle is harmless.

use crate::library::HcollError;
use crate::turn;
use oxmpi_mem::buffer::UserBuf;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The largest tag of a message. The engine uses the next one itself.
pub(crate) const MAX_TAG: i32 = i32::MAX - 1;

/// The processes of a group, by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcollMembers {
    pub rank: u32,
    pub processes: Vec<u32>,
    pub nodes: Vec<u32>,
}

/// A message that HCOLL wants to send or receive.
#[derive(Debug)]
pub struct HcollTransfer {
    pub is_send: bool,
    pub peer: u32,
    /// From 0 on.
    pub tag: i32,
    /// The data, which stay in place until HCOLL is notified of the end.
    pub buffer: UserBuf,
    pub(crate) number: usize,
}

impl HcollTransfer {
    /// Reports the end of the transfer, with a fault if it failed.
    pub fn end(self, fault: Option<String>) {
        let mut runtime = runtime();
        let ended = if fault.is_none() { MessageState::Ended } else { MessageState::Failed };
        let group = match runtime.messages.get_mut(&self.number) {
            Some((group, message)) => {
                *message = ended;
                *group
            }
            None => return,
        };
        if let Some(fault) = fault
            && let Some(group) = runtime.groups.get_mut(&group)
        {
            group.fault.get_or_insert(fault);
        }
        drop(runtime);
        turn::note_end();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageState {
    Active,
    Ended,
    Failed,
}

#[derive(Debug)]
pub(crate) struct GroupState {
    pub(crate) members: HcollMembers,
    queued: Vec<HcollTransfer>,
    /// A closed group sends and receives no more messages.
    is_closed: bool,
    fault: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) groups: BTreeMap<usize, GroupState>,
    messages: BTreeMap<usize, (usize, MessageState)>,
    /// Handles of collectives, and whether they are complete.
    handles: BTreeMap<usize, bool>,
    last: usize,
    /// The group of the whole job; 0 until a process has claimed the library.
    pub(crate) world: usize,
    pub(crate) job: u32,
}

static RUNTIME: Mutex<Runtime> = Mutex::new(Runtime {
    groups: BTreeMap::new(),
    messages: BTreeMap::new(),
    handles: BTreeMap::new(),
    last: 0,
    world: 0,
    job: 0,
});

/// The runtime, locked. No group may be dropped while it is locked.
pub(crate) fn runtime() -> MutexGuard<'static, Runtime> {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime {
    /// The next number, which is never 0.
    fn draw(&mut self) -> usize {
        self.last += 1;
        self.last
    }

    /// Claims the library for a process; returns the group of its job.
    pub(crate) fn claim(
        &mut self,
        members: HcollMembers,
        job: u32,
    ) -> Result<HcollGroup, HcollError> {
        if self.world != 0 {
            return Err(HcollError::Claimed);
        }
        self.job = job;
        let group = self.add(members);
        self.world = group.number();
        Ok(group)
    }

    fn add(&mut self, members: HcollMembers) -> HcollGroup {
        let number = self.draw();
        self.groups.insert(
            number,
            GroupState { members, queued: Vec::new(), is_closed: false, fault: None },
        );
        HcollGroup(Arc::new(GroupNumber(number)))
    }

    /// Queues a message; `None`: there is no such group or process, or the group is closed.
    pub(crate) fn queue_message(
        &mut self,
        group: usize,
        (is_send, peer, tag): (bool, u32, i32),
        buffer: UserBuf,
    ) -> Option<usize> {
        let number = self.draw();
        let of = self.groups.get_mut(&group).filter(|of| !of.is_closed)?;
        if peer as usize >= of.members.processes.len() {
            return None;
        }
        of.queued.push(HcollTransfer { is_send, peer, tag, buffer, number });
        self.messages.insert(number, (group, MessageState::Active));
        Some(number)
    }

    /// The state of a message, which is removed when it has ended. A message of a closed group has
    /// failed.
    pub(crate) fn test(&mut self, number: usize) -> MessageState {
        let Some((group, message)) = self.messages.get(&number).copied() else {
            return MessageState::Failed;
        };
        let is_open = self.groups.get(&group).is_some_and(|group| !group.is_closed);
        if message == MessageState::Active && is_open {
            return MessageState::Active;
        }
        self.messages.remove(&number);
        if message == MessageState::Ended { MessageState::Ended } else { MessageState::Failed }
    }

    pub(crate) fn new_handle(&mut self) -> usize {
        let number = self.draw();
        self.handles.insert(number, false);
        number
    }

    pub(crate) fn complete_handle(&mut self, number: usize) {
        if let Some(is_complete) = self.handles.get_mut(&number) {
            *is_complete = true;
        }
    }

    /// A removed handle counts as complete.
    pub(crate) fn is_complete(&self, number: usize) -> bool {
        self.handles.get(&number).is_none_or(|is_complete| *is_complete)
    }

    pub(crate) fn free_handle(&mut self, number: usize) {
        self.handles.remove(&number);
    }
}

/// A group of processes in HCOLL, which exists as long as a clone of this value.
#[derive(Clone, Debug)]
pub struct HcollGroup(Arc<GroupNumber>);

#[derive(Debug)]
struct GroupNumber(usize);

impl Drop for GroupNumber {
    fn drop(&mut self) {
        let mut runtime = runtime();
        runtime.groups.remove(&self.0);
        runtime.messages.retain(|_, (group, _)| *group != self.0);
    }
}

impl HcollGroup {
    /// A group of these processes.
    pub fn new(members: HcollMembers) -> HcollGroup {
        runtime().add(members)
    }

    pub(crate) fn number(&self) -> usize {
        self.0.0
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        runtime().groups.get(&self.number()).map_or(0, |group| group.members.processes.len())
    }

    /// The messages that HCOLL queued since the last call, in its order. Each must be
    /// [ended](HcollTransfer::end).
    #[must_use]
    pub fn take_transfers(&self) -> Vec<HcollTransfer> {
        let mut runtime = runtime();
        let group = runtime.groups.get_mut(&self.number());
        group.map(|group| std::mem::take(&mut group.queued)).unwrap_or_default()
    }

    /// Why one of its messages has failed, if one has: HCOLL then never completes the collective.
    pub fn fault(&self) -> Option<String> {
        runtime().groups.get(&self.number())?.fault.clone()
    }

    /// Closes the group: messages in progress fail, and HCOLL cannot start others.
    pub fn close(&self) {
        if let Some(group) = runtime().groups.get_mut(&self.number()) {
            group.is_closed = true;
            group.queued.clear();
        }
        turn::note_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(size: u32) -> HcollMembers {
        HcollMembers { rank: 0, processes: (0..size).collect(), nodes: vec![0; size as usize] }
    }

    #[test]
    fn messages_go_through_the_queue_of_their_group() {
        let group = HcollGroup::new(members(2));
        let number = group.number();
        let queue_message =
            |peer| runtime().queue_message(number, (true, peer, 7), UserBuf::empty());
        let test = |message| runtime().test(message);
        assert_eq!(queue_message(2), None, "an unknown process");
        let (first, second) = (queue_message(1).unwrap(), queue_message(1).unwrap());
        assert_eq!(test(first), MessageState::Active);
        let mut all = group.take_transfers();
        assert!(group.take_transfers().is_empty());
        all.remove(0).end(None);
        assert_eq!((test(first), group.fault()), (MessageState::Ended, None));
        assert_eq!(test(first), MessageState::Failed, "a removed message");
        all.remove(0).end(Some("lost".to_string()));
        assert_eq!((test(second), group.fault()), (MessageState::Failed, Some("lost".to_string())));
        let third = queue_message(1).unwrap();
        group.close();
        assert_eq!((test(third), queue_message(1)), (MessageState::Failed, None));
        assert!(group.take_transfers().is_empty());
        drop(group);
        assert!(!runtime().groups.contains_key(&number));
    }

    #[test]
    fn handles_are_complete_after_complete_handle() {
        let handle = runtime().new_handle();
        assert!(!runtime().is_complete(handle));
        runtime().complete_handle(handle);
        assert!(runtime().is_complete(handle));
        runtime().free_handle(handle);
        runtime().free_handle(handle);
        assert!(runtime().is_complete(handle));
    }
}
