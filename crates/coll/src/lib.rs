//! Collectives in execution: plans that are run over the engine.
//!
//! `oxmpi_plan` says what a rank has to do, step by step; a [`Run`] does it. It is a state machine like everything
//! below: [`Run::advance`] issues what may be issued and returns. A blocking collective calls it in its waiting loop,
//! a nonblocking one from every progress call, the simulator when it likes.
//!
//! A reduction by a user's function is not called from here: `advance` returns [`Progress::NeedCallback`], the
//! caller drops every lock and borrow, runs the function and says [`Run::callback_done`] (no lock is held across user code).
#![forbid(unsafe_code)]

mod memory;
mod run;
mod script;
mod staging;

pub use memory::{Area, BlockList, Buffers, Memory};
pub use run::{CollError, Combine, Progress, Run, UserReduction};
pub use staging::Staging;
