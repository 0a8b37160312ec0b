//! The MPI tool interface (MPI-5.0 chapter 15, "The MPI Tool Information Interface").
//!
//! A process without a tool pays nothing: most values exist for other reasons, the others are
//! counted outside fast paths. Events are recorded only in a process that is *observed*
//! ([`Process::observe`](crate::Process::observe)), which takes the paths of a process with
//! threads.

pub mod categories;
pub mod enums;
pub mod events;
pub mod gauge;
mod measure;
mod observe;
mod peaks;
pub mod pvars;

pub use events::{Event, EventKind};
pub use gauge::Gauge;
pub(crate) use measure::Calls;
pub(crate) use observe::{CollectiveEvents, Tool};
pub use observe::{ObservedEvents, Observer};
pub(crate) use peaks::Peaks;
pub use pvars::{Bind, Class, Pvar, Value};
