//! HCOLL (hierarchical collectives, part of NVIDIA's HPC-X), loaded at run time, and its
//! nonblocking collectives behind safe functions.
//!
//! OxMPI is built without HCOLL, and needs it only at run time for collectives of the component
//! hcoll. An [`Hcoll`] is the library, opened by name. One process of a program
//! [claims](Hcoll::claim) it, as its state is that of the whole program. An [`HcollGroup`] is a
//! group of processes, an [`HcollContext`] ([`ContextCreation`]) is HCOLL's state for the group,
//! and an [`HcollCall`] is one collective of it.
//!
//! HCOLL sends messages through its user, the *runtime*: `callbacks` has the functions that it
//! calls. None of them waits or communicates. The messages that HCOLL wants to send or receive are
//! put into a queue of the group, from which the caller of this crate takes them
//! ([`HcollGroup::take_transfers`]); the caller later reports the end of each
//! ([`HcollTransfer::end`]), which HCOLL's test of the request reads.
//!
//! One thread at a time is in HCOLL: the thread with the [`HcollTurn`]. The creation of a context
//! is a call that returns when all processes have created it, so it has a short-lived thread, which
//! passes the turn on whenever HCOLL waits for messages.
//!
//! `declarations` has the public headers of HCOLL 4 (`hcoll_api.h`, `hcoll_runtime_api.h`,
//! `hcoll_dte.h`); it is the only unsafe foreign interface of this crate.

mod call;
mod callbacks;
mod context;
mod declarations;
mod library;
mod runtime;
mod turn;

pub use call::{HcollCall, HcollElement, HcollFunction, HcollOperation, Invocation};
pub use context::{ContextCreation, HcollContext, HcollCreation};
pub use library::{Hcoll, HcollError};
pub use runtime::{HcollGroup, HcollMembers, HcollTransfer};
pub use turn::HcollTurn;
