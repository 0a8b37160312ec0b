//! Access to windows by an adapter, which reads and writes the memory of peers without their help.

use oxmpi_mem::buffer::UserBuf;
pub use oxmpi_verbs::{AtomicOperation, AtomicScope};

/// The target of an access, with the key that the peer got from [`RemoteAccess::open`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemotePlace {
    pub address: u64,
    pub key: u64,
}

/// The direction of the data of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Into the peer's memory (MPI_Put).
    Put,
    /// Out of the peer's memory (MPI_Get).
    Get,
}

/// The number of a finished access, and the value from before an atomic operation, or the error.
pub type AccessEnd = (u64, Result<u64, String>);

/// Direct access to memory that peers have opened.
///
/// An access that has begun ends well or with an error, whatever happens to connections. A put or
/// get is carried out at least once, and only until its end is reported: the caller starts only
/// accesses that may be repeated. An atomic operation is carried out once if it ends well. Accesses
/// to one peer are carried out in the order in which they have begun. The *owner* of an access is a
/// number of the caller.
pub trait RemoteAccess {
    /// Whether it reaches memory that this peer opens.
    fn reaches_memory(&mut self, peer: u32) -> bool;

    /// Opens contiguous memory of this process to all peers. Returns the key for them, which is not
    /// 0; `None`: the memory cannot be registered.
    fn open(&mut self, memory: &UserBuf) -> Option<u64>;

    /// Closes memory that was opened with a key: its registration has ended when this returns.
    fn close(&mut self, key: u64);

    /// Begins an access of all bytes of a buffer, which is in use until the end. Returns the number
    /// of the access. `None`: this buffer cannot be accessed so, and nothing has happened.
    fn start(
        &mut self,
        owner: u32,
        peer: u32,
        direction: Direction,
        buffer: &UserBuf,
        at: RemotePlace,
    ) -> Option<u64>;

    /// The scope in which atomic operations on opened memory are atomic. If it is the adapter, this
    /// process also uses the adapter, as a peer with its own number.
    fn atomics(&mut self) -> AtomicScope;

    /// Begins an atomic operation on memory of a peer or of this process. Returns the number of the
    /// access. `None`: the operation is not possible there, and nothing has happened.
    fn start_atomic(
        &mut self,
        owner: u32,
        peer: u32,
        operation: AtomicOperation,
        at: RemotePlace,
    ) -> Option<u64>;

    /// Takes the finished accesses of an owner. Accesses to a lost peer have ended, too.
    fn ended(&mut self, owner: u32) -> Vec<AccessEnd>;

    /// Gives up the accesses of an owner to a peer: none of their buffers is used any more.
    fn abandon(&mut self, owner: u32, peer: u32);
}
