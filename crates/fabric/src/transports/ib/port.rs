//! The interface of the transport to a port of a device. Tests have another port, which a seed
//! makes late, full or faulty.

use oxmpi_mem::buffer::UserBuf;
use oxmpi_verbs::{
    Adapter, AtomicOperation, AtomicScope, Completion, LocalEnd, RegionId, RemoteEnd, RemoteMemory,
    SlotId, VerbsError,
};
use std::fmt::Debug;
use std::os::fd::BorrowedFd;

macro_rules! port_functions {
    ($($(#[$doc:meta])* fn $name:ident($me:ident: $of:ty $(, $arg:ident: $kind:ty)*) $(-> $result:ty)?;)*) => {
        /// The functions of [`Adapter`].
        #[allow(clippy::needless_arbitrary_self_type)] // a macro cannot pass `&self` on
        pub trait IbPort: Debug + Send {
            fn describe(&self) -> String;
            fn wait_fd(&self) -> Option<BorrowedFd<'_>>;
            $($(#[$doc])* fn $name($me: $of $(, $arg: $kind)*) $(-> $result)?;)*
        }

        #[allow(clippy::needless_arbitrary_self_type)]
        impl IbPort for Adapter {
            fn describe(&self) -> String {
                format!("device {}, port {}", self.device(), self.port().number)
            }
            fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
                Some(Adapter::wait_fd(self))
            }
            $(fn $name($me: $of $(, $arg: $kind)*) $(-> $result)? {
                Adapter::$name($me $(, $arg)*)
            })*
        }
    };
}

// A `place` is the offset and the length of a part of a region. A pair `to`, `from` or `at` is an
// address and a key in a peer's memory. After an error of a function with a slot the slot is free.
port_functions! {
    fn more_slots(self: &mut Self) -> Result<Vec<SlotId>, VerbsError>;
    /// The content of a slot; empty while it is posted.
    fn slot(self: &Self, slot: SlotId) -> &[u8];
    fn slot_mut(self: &mut Self, slot: SlotId) -> &mut [u8];
    fn create(self: &mut Self, first_packet: u32) -> Result<LocalEnd, VerbsError>;
    fn connect(self: &mut Self, local: &LocalEnd, remote: &RemoteEnd) -> Result<(), VerbsError>;
    fn close(self: &mut Self, queue_pair: u32);
    /// Destroys closed queue pairs without slots. Their numbers may be used again.
    fn take_closed(self: &mut Self) -> Vec<u32>;
    fn peer_word(self: &Self, queue_pair: u32) -> u64;
    fn write_word(self: &mut Self, queue_pair: u32, value: u64) -> Result<(), VerbsError>;
    fn send(self: &mut Self, queue_pair: u32, slot: SlotId, len: usize) -> Result<(), VerbsError>;
    fn receive(self: &mut Self, queue_pair: u32, slot: SlotId) -> Result<(), VerbsError>;
    /// Registers a contiguous buffer that peers may read.
    fn expose(self: &mut Self, buffer: &UserBuf) -> Result<RegionId, VerbsError>;
    /// Registers a contiguous buffer into which this process reads.
    fn register(self: &mut Self, buffer: &UserBuf) -> Result<RegionId, VerbsError>;
    /// Registers a contiguous buffer that peers may read and write.
    fn open_to_peers(self: &mut Self, buffer: &UserBuf) -> Result<RegionId, VerbsError>;
    /// Registers a contiguous buffer out of which this process writes.
    fn source(self: &mut Self, buffer: &UserBuf) -> Result<RegionId, VerbsError>;
    fn write(self: &mut Self, queue_pair: u32, region: RegionId, place: (usize, u32), to: (u64, u32)) -> Result<(), VerbsError>;
    /// Writes the beginning of a slot into a peer's memory.
    fn write_slot(self: &mut Self, queue_pair: u32, slot: SlotId, len: usize, to: (u64, u32)) -> Result<(), VerbsError>;
    /// Reads a peer's memory into the beginning of a slot.
    fn read_into_slot(self: &mut Self, queue_pair: u32, slot: SlotId, len: usize, from: (u64, u32)) -> Result<(), VerbsError>;
    fn atomics(self: &Self) -> AtomicScope;
    /// Changes eight bytes at a peer; the slot gets their old value.
    fn atomic(self: &mut Self, queue_pair: u32, slot: SlotId, operation: AtomicOperation, at: (u64, u32)) -> Result<(), VerbsError>;
    /// `false`: a read into the region or a write out of it is under way.
    fn deregister(self: &mut Self, region: RegionId) -> bool;
    /// This memory stays until [`IbPort::forget`], and may stay registered.
    fn keep(self: &mut Self, memory: &UserBuf);
    /// The memory that begins at `start` is freed. `false`: a read into it is under way.
    fn forget(self: &mut Self, start: usize) -> bool;
    fn is_of(self: &Self, region: RegionId, start: usize) -> bool;
    fn exposed(self: &Self, region: RegionId) -> Option<RemoteMemory>;
    fn set_check(self: &mut Self, region: RegionId, value: u64);
    fn check_of(self: &Self, region: RegionId) -> u64;
    fn read(self: &mut Self, queue_pair: u32, region: RegionId, place: (usize, u32), from: (u64, u32)) -> Result<(), VerbsError>;
    /// Reads the check at a peer into the check of a region, after all earlier reads.
    fn read_check(self: &mut Self, queue_pair: u32, region: RegionId, from: (u64, u32)) -> Result<(), VerbsError>;
    /// Reads completions. After an error the queue is unusable.
    fn poll(self: &mut Self, into: &mut Vec<Completion>) -> Result<(), VerbsError>;
    /// Makes the next completion raise an event.
    fn arm(self: &mut Self) -> Result<(), VerbsError>;
    fn take_events(self: &mut Self);
}
