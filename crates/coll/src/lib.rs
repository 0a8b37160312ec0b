//! The execution of collectives: runs plans over the engine.
//!
//! `oxmpi_plan` describes the steps of a rank; a [`Run`] executes them. It is a state machine:
//! [`Run::advance`] issues the steps that are due and returns. A blocking collective calls it in
//! its waiting loop, a nonblocking one in every progress call.
//!
//! No lock may be held while a function of the program runs. So `advance` does not call a reduction
//! function of the program but returns [`Progress::NeedCallback`]; the caller drops every lock and
//! borrow, runs the function and calls [`Run::callback_done`].
#![forbid(unsafe_code)]

mod memory;
mod run;
mod script;
mod staging;

pub use memory::{Area, BlockList, Buffers, Memory};
pub use run::{CollError, Combine, Progress, Run, UserReduction};
pub use staging::Staging;
