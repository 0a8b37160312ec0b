//! What tools can measure and hear of (MPI-5.0 chapter 15, "The MPI Tool Information Interface").
//!
//! One table each: [`pvars`] of the performance variables, [`events`] of the event types, [`categories`] of what belongs
//! together. The C interface and `oxmpi info` read them. How a handle of a variable behaves is in [`gauge`], where the
//! numbers come from in `measure`.
//!
//! Measuring costs nobody anything who does not measure. Almost all numbers are there for other reasons (sequence numbers,
//! places of queues) and are read when a tool asks; the rest is counted where nobody hurries. Events are kept only for a
//! process that is *observed* ([`Process::observe`](crate::Process::observe)), which then takes the ways of a process
//! with threads.

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
pub(crate) use observe::{Notes, Tool};
pub use observe::{Observer, Seen};
pub(crate) use peaks::Peaks;
pub use pvars::{Bind, Class, Pvar, Value};
