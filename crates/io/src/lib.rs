//! Files without communication: what MPI-5.0, chapter "I/O", says of one process.
//!
//! - [`mode`]: access modes; [`hints`]: what a program says by infos.
//! - [`view`]: a [`View`](view::View) maps a stream of data bytes to ranges of a file, lazily.
//! - [`store`]: what bytes are read from and written to; going on after partial transfers. [`posix`]: a file of the
//!   system.
//! - [`transfer`]: independent access: memory of a user and a view, with data sieving.
//! - [`domain`], [`pieces`], [`window`]: what a collective access is made of: who does the input and output of which part
//!   of the file, how the others tell what they want there, and how that is put together.
//! - [`shared`]: the shared file pointer.
//! - [`failure`]: an error of the system as an error class of MPI.
//!
//! All offsets and lengths are bytes, unless something else is said.
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
