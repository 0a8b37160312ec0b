use oxmpi_mem::buffer::UserBuf;
pub use oxmpi_verbs::{AtomicOperation, AtomicScope};

/// The target of an access, with the key that [`RemoteAccess::open`] has returned to the peer.
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

/// The number of a finished access, and the old value of an atomic operation, or the error.
pub type AccessEnd = (u64, Result<u64, String>);

/// Direct access to memory that peers have opened.
///
/// Every access ends, well or with an error, even if connections break. A put or get is carried out
/// at least once, and only until its end is reported: the caller starts only accesses that may be
/// repeated. An atomic operation that ends well was carried out once. The accesses to one peer are
/// carried out in the order in which they began. The *owner* of an access is a number of the
/// caller.
pub trait RemoteAccess {
    /// Whether the adapter reaches memory that this peer opens.
    fn reaches_memory(&mut self, peer: u32) -> bool;

    /// Opens contiguous memory of this process to all peers. Returns the key for them, never 0;
    /// `None`: the memory cannot be registered.
    fn open(&mut self, memory: &UserBuf) -> Option<u64>;

    /// Closes memory by its key. When this returns, the memory is no longer registered.
    fn close(&mut self, key: u64);

    /// Begins an access of all bytes of a buffer, which it uses until its end. Returns the number
    /// of the access. `None`: nothing has happened, as this buffer cannot be accessed.
    fn start(
        &mut self,
        owner: u32,
        peer: u32,
        direction: Direction,
        buffer: &UserBuf,
        at: RemotePlace,
    ) -> Option<u64>;

    /// The scope in which atomic operations on opened memory are atomic. If it is the adapter, this
    /// process also accesses its own memory through the adapter.
    fn atomics(&mut self) -> AtomicScope;

    /// Begins an atomic operation on memory of a peer or of this process. Returns the number of the
    /// access. `None`: nothing has happened, as the operation is impossible there.
    fn start_atomic(
        &mut self,
        owner: u32,
        peer: u32,
        operation: AtomicOperation,
        at: RemotePlace,
    ) -> Option<u64>;

    /// Takes the finished accesses of an owner, those to lost peers included.
    fn ended(&mut self, owner: u32) -> Vec<AccessEnd>;

    /// Abandons the accesses of an owner to a peer: their buffers are no longer used.
    fn abandon(&mut self, owner: u32, peer: u32);
}
