//! What MPI calls are about, apart from communication: datatypes, operations, groups, errors.
//!
//! These are values. They know no process, send nothing and wait for nothing; `core` puts them behind handles.
//!
//! - [`datatype`]: a [`Datatype`](datatype::Datatype) and its constructors.
//! - [`predefined`]: the datatypes that exist from the start.
//! - [`op`]: operations of reductions, and for which datatypes they are defined.
//! - [`group`]: ordered sets of processes.
//! - [`error`]: what a failed call reports.
#![forbid(unsafe_code)]

pub mod datatype;
pub mod error;
pub mod group;
pub mod op;
pub mod predefined;
