//! The interface of the transport to a port: a port of a device, or in tests one that a seed makes
//! late, full or faulty.

use oxmpi_mem::buffer::UserBuf;
use oxmpi_verbs::{
    Adapter, AtomicOperation, AtomicScope, Completion, LocalEnd, RegionId, RemoteEnd, RemoteMemory,
    SlotId, VerbsError,
};
use std::fmt::Debug;
use std::os::fd::BorrowedFd;

/// The functions of [`Adapter`].
pub trait IbPort: Debug + Send {
    fn describe(&self) -> String;
    fn more_slots(&mut self) -> Result<Vec<SlotId>, VerbsError>;
    /// The content of a slot; empty while it is posted.
    fn slot(&self, slot: SlotId) -> &[u8];
    fn slot_mut(&mut self, slot: SlotId) -> &mut [u8];
    fn create(&mut self, first_packet: u32) -> Result<LocalEnd, VerbsError>;
    fn connect(&mut self, local: &LocalEnd, remote: &RemoteEnd) -> Result<(), VerbsError>;
    fn close(&mut self, queue_pair: u32);
    /// Destroys closed queue pairs without slots. Their numbers may be used again.
    fn take_closed(&mut self) -> Vec<u32>;
    fn peer_word(&self, queue_pair: u32) -> u64;
    fn write_word(&mut self, queue_pair: u32, value: u64) -> Result<(), VerbsError>;
    fn send(&mut self, queue_pair: u32, slot: SlotId, len: usize) -> Result<(), VerbsError>;
    fn receive(&mut self, queue_pair: u32, slot: SlotId) -> Result<(), VerbsError>;
    /// Registers a contiguous buffer, which peers may read.
    fn expose(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError>;
    /// Registers a contiguous buffer, into which this process reads.
    fn register(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError>;
    /// Registers a contiguous buffer, which peers may read and write.
    fn open_to_peers(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError>;
    /// Registers a contiguous buffer, out of which this process writes.
    fn source(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError>;
    /// Writes a part of a region, `place` (offset, length), into a peer's memory.
    fn write(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        place: (usize, u32),
        to: (u64, u32),
    ) -> Result<(), VerbsError>;
    /// Writes the beginning of a slot into a peer's memory. On an error the slot is free.
    fn write_slot(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        len: usize,
        to: (u64, u32),
    ) -> Result<(), VerbsError>;
    /// Reads a peer's memory into the beginning of a slot. On an error the slot is free.
    fn read_into_slot(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        len: usize,
        from: (u64, u32),
    ) -> Result<(), VerbsError>;
    /// The scope in which atomic operations are atomic.
    fn atomics(&self) -> AtomicScope;
    /// Changes eight bytes at a peer; the slot gets their old value. On an error the slot is free.
    fn atomic(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        operation: AtomicOperation,
        at: (u64, u32),
    ) -> Result<(), VerbsError>;
    /// `false`: a read into the region or a write out of it is under way.
    fn deregister(&mut self, region: RegionId) -> bool;
    /// This memory stays until [`IbPort::forget`]: it need not be registered anew for each region.
    fn keep(&mut self, memory: &UserBuf);
    /// The memory that begins there is freed. `false`: a read into it is under way.
    fn forget(&mut self, start: usize) -> bool;
    fn is_of(&self, region: RegionId, start: usize) -> bool;
    fn exposed(&self, region: RegionId) -> Option<RemoteMemory>;
    fn set_check(&mut self, region: RegionId, value: u64);
    fn check_of(&self, region: RegionId) -> u64;
    /// Reads a peer's memory into a part of a region, `place` (offset, length).
    fn read(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        place: (usize, u32),
        from: (u64, u32),
    ) -> Result<(), VerbsError>;
    /// Reads the check at a peer into that of a region, after all earlier reads.
    fn read_check(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        from: (u64, u32),
    ) -> Result<(), VerbsError>;
    /// Reads completions. After an error the queue is unusable.
    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<(), VerbsError>;
    fn wait_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Makes the next completion raise an event.
    fn arm(&mut self) -> Result<(), VerbsError>;
    fn take_events(&mut self);
}

impl IbPort for Adapter {
    fn describe(&self) -> String {
        format!("device {}, port {}", self.device(), self.port().number)
    }
    fn more_slots(&mut self) -> Result<Vec<SlotId>, VerbsError> {
        Adapter::more_slots(self)
    }
    fn slot(&self, slot: SlotId) -> &[u8] {
        Adapter::slot(self, slot)
    }
    fn slot_mut(&mut self, slot: SlotId) -> &mut [u8] {
        Adapter::slot_mut(self, slot)
    }
    fn create(&mut self, first_packet: u32) -> Result<LocalEnd, VerbsError> {
        Adapter::create(self, first_packet)
    }
    fn connect(&mut self, local: &LocalEnd, remote: &RemoteEnd) -> Result<(), VerbsError> {
        Adapter::connect(self, local, remote)
    }
    fn close(&mut self, queue_pair: u32) {
        Adapter::close(self, queue_pair);
    }
    fn take_closed(&mut self) -> Vec<u32> {
        Adapter::take_closed(self)
    }
    fn peer_word(&self, queue_pair: u32) -> u64 {
        Adapter::peer_word(self, queue_pair)
    }
    fn write_word(&mut self, queue_pair: u32, value: u64) -> Result<(), VerbsError> {
        Adapter::write_word(self, queue_pair, value)
    }
    fn send(&mut self, queue_pair: u32, slot: SlotId, len: usize) -> Result<(), VerbsError> {
        Adapter::send(self, queue_pair, slot, len)
    }
    fn receive(&mut self, queue_pair: u32, slot: SlotId) -> Result<(), VerbsError> {
        Adapter::receive(self, queue_pair, slot)
    }
    fn expose(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        Adapter::expose(self, buffer)
    }
    fn register(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        Adapter::register(self, buffer)
    }
    fn open_to_peers(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        Adapter::open_to_peers(self, buffer)
    }
    fn source(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        Adapter::source(self, buffer)
    }
    fn write(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        place: (usize, u32),
        to: (u64, u32),
    ) -> Result<(), VerbsError> {
        Adapter::write(self, queue_pair, region, place, to)
    }
    fn write_slot(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        len: usize,
        to: (u64, u32),
    ) -> Result<(), VerbsError> {
        Adapter::write_slot(self, queue_pair, slot, len, to)
    }
    fn read_into_slot(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        len: usize,
        from: (u64, u32),
    ) -> Result<(), VerbsError> {
        Adapter::read_into_slot(self, queue_pair, slot, len, from)
    }
    fn atomics(&self) -> AtomicScope {
        Adapter::atomics(self)
    }
    fn atomic(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        operation: AtomicOperation,
        at: (u64, u32),
    ) -> Result<(), VerbsError> {
        Adapter::atomic(self, queue_pair, slot, operation, at)
    }
    fn deregister(&mut self, region: RegionId) -> bool {
        Adapter::deregister(self, region)
    }
    fn keep(&mut self, memory: &UserBuf) {
        Adapter::keep(self, memory);
    }
    fn forget(&mut self, start: usize) -> bool {
        Adapter::forget(self, start)
    }
    fn is_of(&self, region: RegionId, start: usize) -> bool {
        Adapter::is_of(self, region, start)
    }
    fn exposed(&self, region: RegionId) -> Option<RemoteMemory> {
        Adapter::exposed(self, region)
    }
    fn set_check(&mut self, region: RegionId, value: u64) {
        Adapter::set_check(self, region, value);
    }
    fn check_of(&self, region: RegionId) -> u64 {
        Adapter::check_of(self, region)
    }
    fn read(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        place: (usize, u32),
        from: (u64, u32),
    ) -> Result<(), VerbsError> {
        Adapter::read(self, queue_pair, region, place, from)
    }
    fn read_check(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        from: (u64, u32),
    ) -> Result<(), VerbsError> {
        Adapter::read_check(self, queue_pair, region, from)
    }
    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<(), VerbsError> {
        Adapter::poll(self, into)
    }
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(Adapter::wait_fd(self))
    }
    fn arm(&mut self) -> Result<(), VerbsError> {
        Adapter::arm(self)
    }
    fn take_events(&mut self) {
        Adapter::take_events(self);
    }
}
