//! Access to windows by an adapter, which reads and writes the memory of peers without their help.

use oxmpi_mem::buffer::UserBuf;
pub use oxmpi_verbs::{AtomicOperation, AtomicScope};

/// Where an access goes: an address in the peer's memory, and the key by which the peer has opened it ([`RemoteAccess::open`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemotePlace {
    /// The address in the peer's process.
    pub address: u64,
    /// The key that the peer has told.
    pub key: u64,
}

/// In which direction the data of an access go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Into the peer's memory (MPI_Put).
    Put,
    /// Out of it (MPI_Get).
    Get,
}

/// An access that has ended: its number, and the value from before an atomic operation (0 of another access), or what has failed, for a
/// person.
pub type AccessEnd = (u64, Result<u64, String>);

/// What a transport can do that has direct access to the memory of peers, as far as they open it.
///
/// An access that has begun ends well or with an error, whatever becomes of connections. A put or get is carried out at least once, and only
/// until its end is handed up: so it must be one that does no harm if it is repeated. An atomic operation is carried out once if it ends
/// well. Those to one peer are carried out in the order in which they have begun. Whose the accesses are is a number of the caller's,
/// the *owner*.
pub trait RemoteAccess {
    /// Whether it reaches memory that this peer opens.
    fn reaches_memory(&mut self, peer: u32) -> bool;

    /// Opens memory of this process, in one piece, to all peers. The key for them, which is not 0; `None`: it cannot be registered.
    fn open(&mut self, memory: &UserBuf) -> Option<u64>;

    /// Memory that was opened with a key is not accessed any more: its registration is gone when this returns.
    fn close(&mut self, key: u64);

    /// Begins an access of all bytes of a buffer, which is left alone until the end. The number of the access. `None`: this buffer cannot be
    /// accessed so, and nothing has happened.
    fn start(
        &mut self,
        owner: u32,
        peer: u32,
        direction: Direction,
        buffer: &UserBuf,
        at: RemotePlace,
    ) -> Option<u64>;

    /// To what atomic operations of other processes on memory that this one opens are atomic. Where that is the adapter alone, this process
    /// accesses its own memory by the adapter, too: as a peer with its own number.
    fn atomics(&mut self) -> AtomicScope;

    /// Begins an atomic operation on memory of a peer or of this process. The number of the access. `None`: nothing can be done to that peer's
    /// memory, and nothing has happened.
    fn start_atomic(
        &mut self,
        owner: u32,
        peer: u32,
        operation: AtomicOperation,
        at: RemotePlace,
    ) -> Option<u64>;

    /// Takes the accesses of an owner that have ended since the last time. Those to a peer that is lost have ended, too.
    fn ended(&mut self, owner: u32) -> Vec<AccessEnd>;

    /// Gives up the accesses of an owner to a peer: when this returns no buffer of theirs is used any more. They end no more.
    fn abandon(&mut self, owner: u32, peer: u32);
}
