//! Sends and receives of an adapter.

use super::{Adapter, RECEIVE, SEND, SlotId};
use crate::declarations::{IBV_SEND_SIGNALED, IBV_WR_SEND, Operands, RecvWr, SendWr, Sge};
use crate::library::VerbsError;
use libc::{c_int, c_uint};
use std::ptr::null_mut;

impl Adapter {
    pub(super) fn post(
        &mut self,
        queue_pair: u32,
        what: (c_int, c_uint, u64),
        sge: Sge,
        (remote_addr, rkey): (u64, u32),
    ) -> Result<(), VerbsError> {
        self.post_with(queue_pair, what, sge, (remote_addr, Operands { rkey }))
    }

    /// [`Adapter::post`] with the operands for the peer's memory.
    pub(super) fn post_with(
        &mut self,
        queue_pair: u32,
        (opcode, flags, name): (c_int, c_uint, u64),
        mut sge: Sge,
        (remote_addr, operands): (u64, Operands),
    ) -> Result<(), VerbsError> {
        let Some(pair) = self.queue_pairs.get_mut(&queue_pair) else {
            return Err(self.error("ibv_post_send", libc::ENOTCONN));
        };
        let mut wr = SendWr {
            wr_id: name,
            next: null_mut(),
            sg_list: &mut sge,
            num_sge: 1,
            opcode,
            send_flags: IBV_SEND_SIGNALED | flags,
            imm_data: 0,
            remote_addr,
            operands,
            unused: [0; 7],
        };
        let mut bad = null_mut();
        // SAFETY: the queue pair is open; the request is copied during the call, and its memory is
        // registered and stays until the completion.
        let answer = unsafe { ((*(*pair.raw).context).ops.post_send)(pair.raw, &mut wr, &mut bad) };
        if answer == 0 {
            pair.live += 1;
        }
        self.check("ibv_post_send", answer)
    }

    /// Sends the first `len` bytes of a slot, which belongs to the device until
    /// `AdapterOperation::Send`, or to the caller after an error.
    pub fn send(&mut self, queue_pair: u32, slot: SlotId, len: usize) -> Result<(), VerbsError> {
        let Some(sge) = self.arena.lend(slot, len) else {
            return Err(self.error("ibv_post_send", libc::EBUSY));
        };
        let posted = self.post(queue_pair, (IBV_WR_SEND, 0, SEND | u64::from(slot.0)), sge, (0, 0));
        if posted.is_err() {
            self.arena.take_back(slot);
        }
        posted
    }

    /// Posts a slot for a receive, on a connection or on the shared queue if there is one. After an
    /// error the slot belongs to the caller.
    pub fn receive(&mut self, queue_pair: u32, slot: SlotId) -> Result<(), VerbsError> {
        let Some(mut sge) = self.arena.lend(slot, self.settings.slot_len) else {
            return Err(self.error("ibv_post_recv", libc::EBUSY));
        };
        let mut wr = RecvWr {
            wr_id: RECEIVE | u64::from(slot.0),
            next: null_mut(),
            sg_list: &mut sge,
            num_sge: 1,
        };
        let mut bad = null_mut();
        let answer = match self.queue_pairs.get_mut(&queue_pair) {
            // SAFETY: the shared queue is open; the request is copied during the call, and its
            // memory is registered and stays until the completion.
            _ if !self.srq.is_null() => unsafe {
                ((*(*self.srq).context).ops.post_srq_recv)(self.srq, &mut wr, &mut bad)
            },
            Some(pair) => {
                pair.live += 1;
                // SAFETY: the queue pair is open; the request is copied during the call, and its
                // memory is registered and stays until the completion.
                let answer =
                    unsafe { ((*(*pair.raw).context).ops.post_recv)(pair.raw, &mut wr, &mut bad) };
                pair.live -= u32::from(answer != 0);
                answer
            }
            None => libc::ENOTCONN,
        };
        if answer != 0 {
            self.arena.take_back(slot);
        }
        self.check("ibv_post_recv", answer)
    }
}
