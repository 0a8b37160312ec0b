//! Message passing between the processes of a parallel program: MPI for Rust, without a C MPI underneath.
//!
//! A *job* is a number of processes, the *ranks*, that `mpirun -n N PROGRAM` starts. Each calls [`init`] and talks to
//! the others through a [`Communicator`]; a program started without `mpirun` is a job of one rank.
//!
//! ```
//! let universe = oxmpi::init()?;
//! let world = universe.world();
//! let sum = world.all_reduce_one(world.rank() + 1, oxmpi::Sum)?;
//! println!("rank {} of {}: the sum of 1 to {} is {sum}", world.rank(), world.size(), world.size());
//! universe.finalize()?;
//! # Ok::<(), oxmpi::Error>(())
//! ```
//!
//! A process can be initialised once. For trying things and for tests, [`threads`] runs several ranks in one process:
//!
//! ```
//! oxmpi::threads(2, |world| {
//!     if world.rank() == 0 {
//!         world.send(&[3.0, 4.0], 1, 7).unwrap();
//!     } else {
//!         let (numbers, status) = world.recv::<f64>(0, oxmpi::ANY_TAG).unwrap();
//!         assert_eq!((numbers, status.tag()), (vec![3.0, 4.0], 7));
//!     }
//! });
//! ```
//!
//! # What is where
//!
//! | | |
//! |---|---|
//! | start and end | [`init`], [`init_threaded`], [`Universe`], [`threads`] |
//! | communicators | [`Communicator`]: rank, size, dup, split |
//! | messages | `send`, `ssend`, `recv`, `recv_into`, `sendrecv`, `probe` of [`Communicator`] |
//! | messages that go on while the program computes | `isend`, `irecv`: [`Request`] owns its buffer; [`Communicator::scope`] borrows it |
//! | collectives | `barrier`, `broadcast`, `reduce`, `all_reduce`, `gather`, ... of [`Communicator`] |
//! | what can be sent | slices of [`Plain`] types; [`Number`]s can be reduced with an [`Op`] |
//!
//! # Errors and panics
//!
//! What the network, another process or the machine can cause is an [`Error`]. What only a mistake in the program can
//! cause (a rank that does not exist, a negative tag, slices of wrong lengths) panics and says which argument has
//! which value. Nothing panics while it is dropped.
//!
//! # Threads
//!
//! [`Universe`] without a parameter belongs to the thread that called [`init`]: it and everything made from it is
//! neither `Send` nor `Sync`, so that MPI costs no locks. [`init_threaded`] gives a [`Universe<Multiple>`](Universe),
//! which all threads may use at once.
//!
//! ```compile_fail,E0277
//! # let universe = oxmpi::init()?;
//! let world = universe.world();
//! std::thread::scope(|s| { s.spawn(|| world.barrier()); });   // error: cannot be shared between threads
//! # Ok::<(), oxmpi::Error>(())
//! ```
//!
//! Communicators and requests borrow from the universe: the compiler refuses to use them after it has ended.
//!
//! ```compile_fail,E0505
//! # let universe = oxmpi::init()?;
//! let world = universe.world();
//! universe.finalize()?;   // error: cannot move out of `universe` because it is borrowed
//! world.barrier()?;
//! # Ok::<(), oxmpi::Error>(())
//! ```
#![forbid(unsafe_code)]

mod collective;
mod communicator;
mod error;
mod message;
mod op;
mod request;
mod scope;
mod universe;

pub use communicator::{Communicator, Rank};
pub use error::{Error, ErrorKind, Result};
pub use message::{ANY_SOURCE, ANY_TAG, Dest, Source, Status, Tag, TagMatch};
pub use op::{BitAnd, BitOr, BitXor, Integer, Max, Min, Number, Op, Product, Sum};
pub use oxmpi_mem::memory::Plain;
pub use request::Request;
pub use scope::{Scope, ScopedRequest};
pub use universe::{Funneled, Level, Multiple, Universe, init, init_threaded, threads};
