//! libibverbs (InfiniBand, RoCE), opened when a program runs, behind safe functions.
//!
//! Nothing of libibverbs is needed to build OxMPI, nor to run it where no job goes over it. A [`Library`] is opened by name; it lists the
//! [`Device`]s of the machine and the state of their ports. An [`Adapter`] is one port of one device in use: a protection domain, a
//! completion queue with its channel, perhaps a shared receive queue, registered memory that is divided into *slots* of one length, and
//! reliable connections (queue pairs) with peers.
//!
//! Slots are why this is safe: a device writes only into registered memory, and all of that is the adapter's. A slot that is posted belongs
//! to the device until its completion is read; [`Adapter::slot`] and [`Adapter::slot_mut`] refuse its bytes until then. What a peer may write
//! is one word for each connection, read atomically. A *region* is memory of the program that is registered for one message: peers read it, or
//! what was read from them is stored there. It holds the buffer until the device does not know it any more. Memory of a window is opened to
//! peers, which read and write it at any time, as the program has promised that they may.
//!
//! [`declarations`] has what libibverbs' own pages say; it is the only foreign interface here.

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
    Adapter, AdapterSettings, AtomicOperation, AtomicScope, Completion, LocalEnd, Operation, RETRIES,
    Refusal, RegionId, RemoteEnd, RemoteMemory, SlotId,
};
pub use library::{Device, LIBRARY, Library, Port, VerbsError};
