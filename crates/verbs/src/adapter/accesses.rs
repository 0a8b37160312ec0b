//! Access to memory that peers have opened: writes and reads, by regions or slots, and atomic
//! operations on words.
//!
//! Peers write opened memory at any time until its region is deregistered; the caller that opens it
//! guarantees that this is allowed.

use super::regions::RegionId;
use super::{ATOMIC_SLOT, Adapter, AtomicScope, READ_SLOT, SlotId, WRITE, WRITE_SLOT};
use crate::declarations::{
    AtomicOperands, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, Operands,
};
use crate::library::VerbsError;
use libc::c_int;
use oxmpi_mem::buffer::UserBuf;

/// An atomic operation on eight aligned bytes of a peer's memory, in the peer's byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOperation {
    FetchAdd(u64),
    CompareSwap { compare: u64, new: u64 },
}

impl Adapter {
    /// Registers a contiguous buffer for reads and writes of peers ([`Adapter::exposed`] has its
    /// address), and for atomic operations if the device has them. Panics if the buffer is
    /// read-only.
    pub fn open_to_peers(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        let _ = buffer.as_contiguous_mut();
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        self.add(buffer, access | self.atomic_access())
    }

    /// The scope of the device's atomic operations on words of its host.
    pub fn atomics(&self) -> AtomicScope {
        self.limits.atomics
    }

    /// The access flag for atomic operations of peers, if the device has them.
    pub(super) fn atomic_access(&self) -> c_int {
        if self.limits.atomics == AtomicScope::None { 0 } else { IBV_ACCESS_REMOTE_ATOMIC }
    }

    /// Changes eight bytes of a peer's memory. The old value comes into the slot, in the byte order
    /// of this host. The device has the slot until
    /// [`AdapterOperation::AtomicSlot`](super::AdapterOperation::AtomicSlot); after an error the
    /// caller has it.
    pub fn atomic(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        operation: AtomicOperation,
        (address, rkey): (u64, u32),
    ) -> Result<(), VerbsError> {
        let (opcode, compare_add, swap) = match operation {
            AtomicOperation::FetchAdd(add) => (IBV_WR_ATOMIC_FETCH_AND_ADD, add, 0),
            AtomicOperation::CompareSwap { compare, new } => {
                (IBV_WR_ATOMIC_CMP_AND_SWP, compare, new)
            }
        };
        let operands = Operands { atomic: AtomicOperands { compare_add, swap, rkey } };
        self.access_by_slot(
            queue_pair,
            (slot, size_of::<u64>()),
            (opcode, ATOMIC_SLOT),
            (address, operands),
        )
    }

    /// Registers a contiguous buffer for writes of this process into memory of peers.
    pub fn source(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        self.add(buffer, 0)
    }

    /// Writes `len` bytes of a region, from `offset` on, into a peer's memory at an address with
    /// its key. Ends with [`AdapterOperation::Write`](super::AdapterOperation::Write).
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

    /// Writes the first `len` bytes of a slot into a peer's memory. The slot belongs to the device
    /// until [`AdapterOperation::WriteSlot`](super::AdapterOperation::WriteSlot), or to the caller
    /// after an error.
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

    /// Reads `len` bytes of a peer's memory into a slot, which belongs to the device until
    /// [`AdapterOperation::ReadSlot`](super::AdapterOperation::ReadSlot), or to the caller after an
    /// error.
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
