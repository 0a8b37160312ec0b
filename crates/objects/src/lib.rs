//! The objects of MPI calls apart from communication: datatypes, operations, groups, infos,
//! attributes, errors. They are values without communication; `core` puts them behind handles.
//!
//! - [`datatype`]: a [`Datatype`](datatype::Datatype) and its constructors.
//! - [`predefined`]: the predefined datatypes.
//! - [`op`]: operations of reductions, and the datatypes for which they are defined.
//! - [`group`]: ordered sets of processes; [`origin`]: the session of an object.
//! - [`info`]: pairs of keys and values; [`hints`], [`window_hints`]: their meaning for
//!   communicators and windows.
//! - [`attribute`]: values that a program attaches to objects, and their keys.
//! - [`errorcode`]: error classes and codes that a program adds.
//! - [`topology`]: grids and graphs over ranks.
//! - [`error`]: the error of a failed call; [`shown`]: the program's values in its text.
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
pub mod shown;
pub mod topology;
pub mod window_hints;
