//! libibverbs (InfiniBand, RoCE), opened at run time, behind safe functions.
//!
//! OxMPI builds without libibverbs, and runs without it where no job uses it. A [`VerbsLibrary`] is
//! opened by name; it lists the [`Device`]s of the machine and the state of their ports. An
//! [`Adapter`] is a port of a device in use: a protection domain, a completion queue with its
//! channel, an optional shared receive queue, registered memory that is divided into *slots* of one
//! length, and reliable connections (queue pairs) with peers.
//!
//! Slots make this safe: a device writes only into registered memory, and all registered memory
//! belongs to the adapter. A posted slot belongs to the device until its completion is read;
//! [`Adapter::slot`] and [`Adapter::slot_mut`] return no bytes until then. A peer may write one
//! word for each connection, which is read atomically. A *region* is memory of the program that is
//! registered for one message: peers read it, or reads from peers store into it. It holds its
//! buffer until it is deregistered. The memory of a window is opened to peers, which read and write
//! it at any time, as the program has permitted.
//!
//! [`declarations`] follows libibverbs' own pages; it is the only foreign interface of this crate.

mod adapter;
mod arena;
mod declarations;
#[cfg(test)]
mod fake;
mod library;
mod limits;
#[cfg(test)]
mod tests;

pub use adapter::{
    Adapter, AdapterOperation, AdapterSettings, AtomicOperation, AtomicScope, Completion, LocalEnd,
    RETRIES, Refusal, RegionId, RemoteEnd, RemoteMemory, SlotId,
};
pub use library::{Device, DevicePort, LIBRARY, VerbsError, VerbsLibrary};
