//! HCOLL (hierarchical collectives, part of NVIDIA's HPC-X), opened when a program runs, and its nonblocking collectives behind safe functions.
//!
//! Nothing of HCOLL is needed to build OxMPI, nor to run it where no collective goes over it. An [`Hcoll`] is the library, opened by name. One
//! process of a program [claims](Hcoll::claim) it, as its state is that of the whole program. An [`HcollGroup`] is a group of processes as HCOLL
//! sees it, an [`HcollContext`] what HCOLL has made for one ([`ContextCreation`]), and an [`HcollCall`] one collective of it.
//!
//! HCOLL sends messages through its user, the *runtime*: `callbacks` are the functions that it calls for that. None of them waits and none
//! communicates. What HCOLL wants sent or received is put into a queue of the group, from which the caller of this crate takes it
//! ([`HcollGroup::take_transfers`]), and says later how it has ended ([`HcollTransfer::end`]); HCOLL's test of a request reads that.
//!
//! One thread at a time is in HCOLL: the one that has the [`HcollTurn`]. The creation of a context is a call that returns when all processes
//! have made it, so it has a short-lived thread of its own, which gives the turn away whenever HCOLL waits for messages.
//!
//! `declarations` has what the public headers of HCOLL 4 say (`hcoll_api.h`, `hcoll_runtime_api.h`, `hcoll_dte.h`); it is the only unsafe
//! foreign interface here.

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
