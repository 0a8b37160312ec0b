//! Access to memory of peers that they have opened: writes into it and reads from it, out of regions or slots, and atomic operations on words
//! of it.
//!
//! Memory that is opened is written by peers at any time until its region is deregistered; who opens it has promised that it may be.

use super::regions::RegionId;
use super::{ATOMIC_SLOT, Adapter, AtomicScope, READ_SLOT, SlotId, WRITE, WRITE_SLOT};
use crate::declarations::{
    AtomicOperands, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE, Operands,
};
use crate::library::VerbsError;
use libc::c_int;
use oxmpi_mem::buffer::UserBuf;

/// What is done at once to eight bytes of a peer's memory, whose address is a multiple of 8, in the byte order of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOperation {
    /// This is added to them.
    FetchAdd(u64),
    /// If they are equal to `compare` they become `new`.
    CompareSwap {
        /// The value that they are compared with.
        compare: u64,
        /// The value that they get.
        new: u64,
    },
}

impl Adapter {
    /// Registers a buffer in one piece, which peers may read and write from now on ([`Adapter::exposed`] says where it lies), and whose words they
    /// may change by atomic operations if the device has some.
    ///
    /// # Errors
    /// As for [`Adapter::expose`].
    ///
    /// # Panics
    /// If the buffer is read-only.
    pub fn open_to_peers(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        let _ = buffer.as_contiguous_mut();
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        self.add(buffer, access | self.atomic_access())
    }

    /// To what the device's operations on words of its host are atomic.
    pub fn atomics(&self) -> AtomicScope {
        self.limits.atomics
    }

    /// What lets peers change words by atomic operations, if there are some.
    pub(super) fn atomic_access(&self) -> c_int {
        if self.limits.atomics == AtomicScope::None { 0 } else { IBV_ACCESS_REMOTE_ATOMIC }
    }

    /// Changes eight bytes of a peer's memory. Their value from before comes into the slot, in the byte order of this host. The slot is the
    /// device's until [`Operation::AtomicSlot`](super::Operation::AtomicSlot).
    ///
    /// # Errors
    /// As for [`Adapter::write_slot`].
    pub fn atomic(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        operation: AtomicOperation,
        (address, rkey): (u64, u32),
    ) -> Result<(), VerbsError> {
        let (opcode, compare_add, swap) = match operation {
            AtomicOperation::FetchAdd(add) => (IBV_WR_ATOMIC_FETCH_AND_ADD, add, 0),
            AtomicOperation::CompareSwap { compare, new } => (IBV_WR_ATOMIC_CMP_AND_SWP, compare, new),
        };
        let operands = Operands { atomic: AtomicOperands { compare_add, swap, rkey } };
        self.access_by_slot(queue_pair, (slot, size_of::<u64>()), (opcode, ATOMIC_SLOT), (address, operands))
    }

    /// Registers a buffer in one piece, out of which this process writes into the memory of peers.
    ///
    /// # Errors
    /// As for [`Adapter::expose`].
    pub fn source(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        self.add(buffer, 0)
    }

    /// Writes `len` bytes of a region, from `offset` on, into a peer's memory at an address with its key. They are there with
    /// [`Operation::Write`](super::Operation::Write).
    ///
    /// # Errors
    /// They do not lie in the region, or what the library says.
    pub fn write(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        place: (usize, u32),
        to: (u64, u32),
    ) -> Result<(), VerbsError> {
        let Some(sge) = self.regions.part(region, place) else {
            return Err(self.error("ibv_post_send", libc::EINVAL));
        };
        self.post(queue_pair, (IBV_WR_RDMA_WRITE, 0, WRITE | u64::from(region.0)), sge, to)?;
        self.regions.is_used(region);
        Ok(())
    }

    /// Writes the first `len` bytes of a slot into a peer's memory. The slot is the device's until
    /// [`Operation::WriteSlot`](super::Operation::WriteSlot).
    ///
    /// # Errors
    /// What the library says; the slot is the caller's then.
    pub fn write_slot(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        len: usize,
        to: (u64, u32),
    ) -> Result<(), VerbsError> {
        self.access_by_slot(
            queue_pair,
            (slot, len),
            (IBV_WR_RDMA_WRITE, WRITE_SLOT),
            (to.0, Operands { rkey: to.1 }),
        )
    }

    /// Reads `len` bytes of a peer's memory into a slot, which is the device's until
    /// [`Operation::ReadSlot`](super::Operation::ReadSlot).
    ///
    /// # Errors
    /// As for [`Adapter::write_slot`].
    pub fn read_into_slot(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        len: usize,
        from: (u64, u32),
    ) -> Result<(), VerbsError> {
        let from = (from.0, Operands { rkey: from.1 });
        self.access_by_slot(queue_pair, (slot, len), (IBV_WR_RDMA_READ, READ_SLOT), from)
    }

    fn access_by_slot(
        &mut self,
        queue_pair: u32,
        (slot, len): (SlotId, usize),
        (opcode, kind): (c_int, u64),
        there: (u64, Operands),
    ) -> Result<(), VerbsError> {
        let Some(sge) = self.arena.lend(slot, len) else {
            return Err(self.error("ibv_post_send", libc::EBUSY));
        };
        let posted = self.post_with(queue_pair, (opcode, 0, kind | u64::from(slot.0)), sge, there);
        if posted.is_err() {
            self.arena.take_back(slot);
        }
        posted
    }
}
