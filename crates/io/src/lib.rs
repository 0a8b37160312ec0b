//! Files without communication: the part of MPI-5.0, chapter "I/O", that concerns one process.
//!
//! - [`mode`]: access modes; [`hints`]: hints of infos.
//! - [`view`]: a [`View`](view::View) maps a stream of data bytes to ranges of a file, lazily.
//! - [`store`]: positioned reads and writes, with retries after partial transfers. [`posix`]: a
//!   file of the system.
//! - [`transfer`]: independent access between a user's memory and a view, with data sieving.
//! - [`domain`], [`pieces`], [`window`]: two-phase collective access: the parts of the file and
//!   their aggregators, the requested pieces, and their combination.
//! - [`shared`]: the shared file pointer.
//! - [`failure`]: a system error as an error class of MPI.
//!
//! Offsets and lengths are in bytes, unless stated otherwise.
#![forbid(unsafe_code)]

pub mod domain;
pub mod failure;
pub mod hints;
pub mod mode;
pub mod pieces;
pub mod posix;
pub mod shared;
pub mod store;
pub mod transfer;
pub mod view;
pub mod window;
