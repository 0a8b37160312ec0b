//! Buffered sends (MPI-5.0 section 3.6): the bytes kept for them in each buffer.

use super::super::{FIRST, NO_CONTEXT, RequestId};
use super::{Requests, SlotState};

impl Requests {
    /// Counts the bytes of a buffered send until it is complete; an empty message counts one.
    pub(crate) fn keep(&mut self, id: RequestId, bytes: usize) {
        let Requests { buffered, own_buffers, .. } = self;
        if let Some((index, generation)) = id.split()
            && let Some(slot) = self.slots.get_mut(index)
            && slot.generation == generation
            && slot.state != SlotState::Free
        {
            let context = slot.work.context();
            slot.kept = bytes.max(1);
            slot.detached = true;
            let own = own_buffers.iter().find(|(of, _)| *of == context);
            slot.owner = own.map_or(NO_CONTEXT, |(_, owner)| *owner);
            *buffered.entry(slot.owner).or_default() += slot.kept;
        }
    }

    pub(crate) fn set_own_buffer(&mut self, context: u32, owner: Option<u32>) {
        self.own_buffers.retain(|(of, _)| *of != context);
        self.own_buffers.extend(owner.map(|owner| (context, owner)));
    }

    pub(crate) fn kept_in(&self, owner: u32) -> Vec<RequestId> {
        let kept = self.slots.iter().enumerate().filter(|(_, s)| s.kept > 0 && s.owner == owner);
        kept.map(|(i, s)| RequestId((u64::from(s.generation) << 32) | (FIRST + i as u64))).collect()
    }

    #[cold]
    pub(super) fn let_go(&mut self, owner: u32, bytes: usize) {
        if let Some(kept) = self.buffered.get_mut(&owner) {
            *kept -= bytes;
            if *kept == 0 {
                self.buffered.remove(&owner);
            }
        }
    }

    pub(crate) fn buffered_in(&self, owner: u32) -> usize {
        self.buffered.get(&owner).copied().unwrap_or(0)
    }

    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.buffered.values().map(|bytes| *bytes as u64).sum()
    }
}
