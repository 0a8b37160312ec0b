//! What MPI calls are about, apart from communication: datatypes, operations, groups, infos, attributes, errors.
//!
//! These are values. They know no process, send nothing and wait for nothing; `core` puts them behind handles.
//!
//! - [`datatype`]: a [`Datatype`](datatype::Datatype) and its constructors.
//! - [`predefined`]: the datatypes that exist from the start.
//! - [`op`]: operations of reductions, and for which datatypes they are defined.
//! - [`group`]: ordered sets of processes; [`origin`]: the session that they come from.
//! - [`info`]: pairs of keys and values; [`hints`]: what they say of a communicator.
//! - [`attribute`]: what a program attaches to objects, and its keys.
//! - [`errorcode`]: error classes and codes that a program adds.
//! - [`topology`]: grids and graphs over ranks.
//! - [`error`]: what a failed call reports.
#![forbid(unsafe_code)]

pub mod attribute;
pub mod datatype;
pub mod error;
pub mod errorcode;
pub mod group;
pub mod hints;
pub mod info;
pub mod op;
pub mod origin;
pub mod predefined;
pub mod topology;
pub mod window_hints;
