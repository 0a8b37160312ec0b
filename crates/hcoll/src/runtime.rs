//! What HCOLL's runtime has for it: groups, messages under way, and handles of collectives.
//!
//! The library has one runtime in a program, and its callbacks have no argument that says whose it is, so this is the one thing here that
//! belongs to the program and not to a value. All handles that HCOLL gets are numbers of it, so one that is used too late names nothing.

use crate::library::HcollError;
use crate::turn;
use oxmpi_mem::buffer::UserBuf;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The largest tag of a message. The one above it is the engine's own.
pub(crate) const MAX_TAG: i32 = i32::MAX - 1;

/// The processes of a group, by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcollMembers {
    /// The rank of this process.
    pub rank: u32,
    /// The number of each in the job.
    pub processes: Vec<u32>,
    /// The node of each.
    pub nodes: Vec<u32>,
}

/// A message that HCOLL wants sent or received.
#[derive(Debug)]
pub struct HcollTransfer {
    /// Whether it is sent, or else received.
    pub is_send: bool,
    /// The rank of the other process in the group.
    pub peer: u32,
    /// What it is matched by, besides the other process: from 0 on.
    pub tag: i32,
    /// The data, which stay in place until HCOLL has heard of the end.
    pub buffer: UserBuf,
    /// It comes back to its group when it has ended.
    pub(crate) number: usize,
}

impl HcollTransfer {
    /// It has ended, with this fault if any.
    pub fn end(self, fault: Option<String>) {
        let mut runtime = runtime();
        let ended = if fault.is_none() { Message::Ended } else { Message::Failed };
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

/// How a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Active,
    Ended,
    Failed,
}

/// A group that HCOLL knows.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) members: HcollMembers,
    wanted: Vec<HcollTransfer>,
    /// Nothing is sent or received for it any more.
    is_closed: bool,
    /// Why one of its messages has failed.
    fault: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) groups: BTreeMap<usize, Group>,
    /// The group of each message, and how it stands.
    messages: BTreeMap<usize, (usize, Message)>,
    /// Handles of collectives, and whether they are complete.
    handles: BTreeMap<usize, bool>,
    last: usize,
    /// The group of the whole job, once a process has claimed the library.
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

/// The runtime, locked for a moment. No group may be dropped meanwhile.
pub(crate) fn runtime() -> MutexGuard<'static, Runtime> {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime {
    /// The next number, which is never 0.
    fn draw(&mut self) -> usize {
        self.last += 1;
        self.last
    }

    /// A process claims the library: the group of its job.
    pub(crate) fn claim(&mut self, members: HcollMembers, job: u32) -> Result<HcollGroup, HcollError> {
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
        self.groups.insert(number, Group { members, wanted: Vec::new(), is_closed: false, fault: None });
        HcollGroup(Arc::new(Registered(number)))
    }

    /// HCOLL wants a message; `None`: there is no such group or process, or the group is closed.
    pub(crate) fn want(
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
        of.wanted.push(HcollTransfer { is_send, peer, tag, buffer, number });
        self.messages.insert(number, (group, Message::Active));
        Some(number)
    }

    /// How a message stands, which is forgotten when it has ended. One of a closed group has failed.
    pub(crate) fn test(&mut self, number: usize) -> Message {
        let Some((group, message)) = self.messages.get(&number).copied() else { return Message::Failed };
        let is_open = self.groups.get(&group).is_some_and(|group| !group.is_closed);
        if message == Message::Active && is_open {
            return Message::Active;
        }
        self.messages.remove(&number);
        if message == Message::Ended { Message::Ended } else { Message::Failed }
    }

    /// A new handle of a collective.
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

    /// One that is gone was complete.
    pub(crate) fn is_complete(&self, number: usize) -> bool {
        self.handles.get(&number).is_none_or(|is_complete| *is_complete)
    }

    pub(crate) fn free_handle(&mut self, number: usize) {
        self.handles.remove(&number);
    }
}

/// A group of processes as HCOLL sees it, which lasts as long as a clone of this value.
#[derive(Clone, Debug)]
pub struct HcollGroup(Arc<Registered>);

#[derive(Debug)]
struct Registered(usize);

impl Drop for Registered {
    fn drop(&mut self) {
        let mut runtime = runtime();
        runtime.groups.remove(&self.0);
        runtime.messages.retain(|_, (group, _)| *group != self.0);
    }
}

impl HcollGroup {
    /// A group of these processes.
    #[must_use]
    pub fn new(members: HcollMembers) -> HcollGroup {
        runtime().add(members)
    }

    /// The number by which HCOLL knows it.
    pub(crate) fn number(&self) -> usize {
        self.0.0
    }

    /// How many processes there are.
    #[must_use]
    pub fn size(&self) -> usize {
        runtime().groups.get(&self.number()).map_or(0, |group| group.members.processes.len())
    }

    /// The messages that HCOLL wants sent or received since the last call, in its order. Each must be [ended](HcollTransfer::end).
    #[must_use]
    pub fn take_transfers(&self) -> Vec<HcollTransfer> {
        let mut runtime = runtime();
        let group = runtime.groups.get_mut(&self.number());
        group.map(|group| std::mem::take(&mut group.wanted)).unwrap_or_default()
    }

    /// Why one of its messages has failed, if one has: HCOLL does not come to an end with it then.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        runtime().groups.get(&self.number())?.fault.clone()
    }

    /// Nothing is sent or received for it any more: messages under way have failed, and HCOLL cannot start others.
    pub fn close(&self) {
        if let Some(group) = runtime().groups.get_mut(&self.number()) {
            group.is_closed = true;
            group.wanted.clear();
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
        let want = |peer| runtime().want(number, (true, peer, 7), UserBuf::empty());
        let test = |message| runtime().test(message);
        assert_eq!(want(2), None, "there is no such process");
        let (first, second) = (want(1).unwrap(), want(1).unwrap());
        assert_eq!(test(first), Message::Active);
        let mut all = group.take_transfers();
        assert!(group.take_transfers().is_empty());
        all.remove(0).end(None);
        assert_eq!((test(first), group.fault()), (Message::Ended, None));
        assert_eq!(test(first), Message::Failed, "it is forgotten");
        all.remove(0).end(Some("lost".to_string()));
        assert_eq!((test(second), group.fault()), (Message::Failed, Some("lost".to_string())));
        let third = want(1).unwrap();
        group.close();
        assert_eq!((test(third), want(1)), (Message::Failed, None));
        assert!(group.take_transfers().is_empty());
        drop(group);
        assert!(!runtime().groups.contains_key(&number));
    }

    #[test]
    fn handles_are_complete_when_hcoll_says_so() {
        let handle = runtime().new_handle();
        assert!(!runtime().is_complete(handle));
        runtime().complete_handle(handle);
        assert!(runtime().is_complete(handle));
        runtime().free_handle(handle);
        runtime().free_handle(handle);
        assert!(runtime().is_complete(handle));
    }
}
