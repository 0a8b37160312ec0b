//! Message passing between the processes of a parallel program: MPI in Rust, without a C MPI.
//!
//! # The first program
//!
//! `mpirun -n N PROGRAM` starts a *job* of N processes, the *ranks*. Each rank calls [`init`] and
//! communicates with the others through a [`Communicator`]. A program started without `mpirun` is a
//! job of one rank.
//!
//! ```
//! fn main() -> oxmpi::Result<()> {
//!     let universe = oxmpi::init()?;
//!     let world = universe.world();
//!     let sum = world.all_reduce_one(world.rank() + 1, oxmpi::Sum)?;
//!     println!("rank {} of {}: the sum is {sum}", world.rank(), world.size());
//!     universe.finalize()
//! }
//! ```
//!
//! A process can be initialised once. For experiments and tests, [`threads`] runs several ranks in
//! one process; the examples of these pages use it.
//!
//! # Messages
//!
//! A message goes to a rank and has a *tag*, a number by which the receiver selects messages. The
//! received vector has the length of the sent data:
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
//! [`recv_into`](Communicator::recv_into) receives into existing memory. A
//! [`send`](Communicator::send) of a long message waits for its receiver, so two ranks that
//! exchange data use [`sendrecv`](Communicator::sendrecv) or requests. The partner may be an
//! `Option` of a rank: `None` means no partner, for example beyond the edge of a grid.
//!
//! # Requests
//!
//! A program can compute while messages are under way. A [`Request`] takes the buffer, and returns
//! it on completion. [`wait_all`] and [`RequestSet`] wait for several requests:
//!
//! ```
//! oxmpi::threads(2, |world| {
//!     let peer = 1 - world.rank();
//!     let receive = world.irecv(vec![0; 1000], peer, 0).unwrap();
//!     let send = world.isend(vec![world.rank(); 1000], peer, 0).unwrap();
//!     // ... compute ...
//!     let received = oxmpi::wait_all([receive, send]).unwrap();
//!     assert_eq!(received[0].0, [peer; 1000]);
//! });
//! ```
//!
//! A [`scope`](Communicator::scope) borrows buffers instead. All requests that start in a scope are
//! complete when it returns:
//!
//! ```
//! oxmpi::threads(2, |world| {
//!     let (mine, mut theirs, peer) = ([world.rank(); 3], [-1; 3], 1 - world.rank());
//!     world.scope(|s| {
//!         s.irecv(&mut theirs, peer, 0)?;
//!         s.isend(&mine, peer, 0)?;
//!         Ok(())
//!     }).unwrap();
//!     assert_eq!(theirs, [peer; 3]);
//! });
//! ```
//!
//! A [`Persistent`] message is described once and sent or received repeatedly. A [`Message`] is
//! examined before it is received.
//!
//! # Structs
//!
//! Messages consist of [`Element`]s: numbers, arrays and tuples of elements, and structs of
//! elements, nested to any depth. Padding is not sent, so this struct has 13 bytes in a message:
//!
//! ```
//! #[derive(oxmpi::Element, Clone, Copy, Debug, PartialEq)]
//! #[repr(C)]
//! struct Particle {
//!     kind: u8,
//!     mass: f64,
//!     charge: f32,
//! }
//!
//! oxmpi::threads(2, |world| {
//!     let particle = Particle { kind: 1, mass: 2.0, charge: -1.0 };
//!     if world.rank() == 0 {
//!         world.send(&[particle; 10], 1, 0).unwrap();
//!     } else {
//!         let (particles, status) = world.recv::<Particle>(0, 0).unwrap();
//!         assert_eq!((particles, status.bytes()), (vec![particle; 10], 130));
//!     }
//! });
//! ```
//!
//! A message can contain any pattern of bits, so a type with invalid patterns is no element. The
//! compiler reports such a type:
//!
//! ```compile_fail,E0277
//! oxmpi::threads(1, |world| {
//!     world.recv::<bool>(0, 0).unwrap();   // error: `bool` cannot be an element of a message
//! });
//! ```
//!
//! ```compile_fail
//! #[derive(oxmpi::Element, Clone, Copy)]
//! enum Colour { Red, Green }   // error: an enum cannot be an element of a message
//! ```
//!
//! ```compile_fail
//! #[derive(oxmpi::Element, Clone, Copy)]
//! // error: a reference cannot be a member of an element of a message
//! struct Name { text: &'static str }
//! ```
//!
//! ```compile_fail,E0277
//! #[derive(oxmpi::Element, Clone, Copy)]
//! struct Flagged { flag: bool, value: f64 }   // error: `bool` cannot be an element of a message
//! ```
//!
//! # Matrices
//!
//! Buffers need not be contiguous. [`Strided`] and [`StridedMut`] are rectangles of a matrix, such
//! as a column. They are accepted wherever a slice is:
//!
//! ```
//! use oxmpi::{Strided, StridedMut};
//! oxmpi::threads(2, |world| {
//!     let peer = 1 - world.rank();
//!     let matrix: Vec<i32> = (0..12).collect();          // 3 rows of 4
//!     let mut other = [0; 6];                            // 3 rows of 2
//!     let from = Strided::new(&matrix, 4).column(2);
//!     let mut to = StridedMut::new(&mut other, 2);
//!     world.sendrecv(&from, peer, 0, &mut to.column(1), peer, 0).unwrap();
//!     assert_eq!(other, [0, 2, 0, 6, 0, 10]);
//! });
//! ```
//!
//! # Collectives
//!
//! All ranks of a communicator call its collectives in the same order. If only the root gets a
//! result, the result is an `Option`:
//!
//! ```
//! oxmpi::threads(4, |world| {
//!     let limits = world.broadcast_one([0.5, world.rank().into()], 2).unwrap();
//!     assert_eq!(limits, [0.5, 2.0]);
//!     let ranks = world.gather(&[world.rank()], 0).unwrap();
//!     assert_eq!(ranks, (world.rank() == 0).then(|| vec![0, 1, 2, 3]));
//!     let longest = world.all_reduce(&[1, world.rank()], oxmpi::Max).unwrap();
//!     assert_eq!(longest, [1, 3]);
//! });
//! ```
//!
//! Any associative function of two elements can be an operation: [`Op::commutative`],
//! [`Op::ordered`]. Most collectives have a form that writes into existing memory (`_into`), one
//! that replaces its argument (`_in_place`), and one that does not block (in a [`Scope`], with the
//! prefix `i`).
//!
//! # Communicators
//!
//! A message of one communicator is never received in another. So a library uses a
//! [`dup`](Communicator::dup) of its caller's communicator. [`split`](Communicator::split) makes
//! smaller communicators by colours, and [`create`](Communicator::create) makes one from a
//! [`Group`]:
//!
//! ```
//! oxmpi::threads(4, |world| {
//!     let row = world.split(Some(world.rank() / 2), 0).unwrap().unwrap();
//!     let sum = row.all_reduce_one(world.rank(), oxmpi::Sum).unwrap();
//!     assert_eq!(sum, [1, 5][world.rank() as usize / 2]);
//! });
//! ```
//!
//! # Overview
//!
//! | | |
//! |---|---|
//! | start and end | [`init`], [`init_threaded`], [`Universe`], [`threads`] |
//! | communicators, groups | [`Communicator`], [`Group`] |
//! | blocking messages | `send`, `recv`, `sendrecv`, `probe` and others in [`Communicator`] |
//! | messages examined before they are received | `mprobe`, `improbe`: [`Message`] |
//! | nonblocking messages | `isend`, `issend`, `irecv`: [`Request`] owns its buffer |
//! | messages with borrowed buffers | [`Communicator::scope`] |
//! | several requests | [`wait_all`], [`RequestSet`] |
//! | repeated messages | `send_init`, `recv_init`: [`Persistent`] |
//! | collectives | in [`Communicator`], and with the prefix `i` in [`Scope`] |
//! | send buffers | a [`Buffer`] of [`Element`]s: slices, arrays, vectors, [`Strided`] |
//! | receive buffers | a [`BufferMut`] |
//! | operations | [`Sum`], [`Max`] and others, [`MinLoc`], [`MaxLoc`]; own ones as [`Op`] |
//!
//! # Errors and panics
//!
//! A problem that the network, another process or the machine can cause is an [`Error`] with its
//! kind, the rank concerned, and a text. Every function that communicates returns an error if a
//! rank has failed or memory is exhausted. A mistake of the program itself (a rank that does not
//! exist, a negative tag, slices of wrong lengths) panics at the line of the call, with the
//! argument and its value. No drop panics.
//!
//! # Threads
//!
//! A [`Universe`] without a parameter belongs to the thread that called [`init`]. The universe and
//! everything made from it are neither `Send` nor `Sync`, so that MPI needs no locks.
//! [`init_threaded`] returns a [`Universe<Multiple>`](Universe), which all threads may use at the
//! same time.
//!
//! ```compile_fail,E0277
//! # let universe = oxmpi::init()?;
//! let world = universe.world();
//! // error: cannot be shared between threads
//! std::thread::scope(|s| { s.spawn(|| world.barrier()); });
//! # Ok::<(), oxmpi::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! oxmpi::threads(1, |world| {
//!     let request = world.irecv(vec![0], 0, 0).unwrap();
//!     // error: cannot be sent between threads
//!     std::thread::scope(|s| { s.spawn(move || request.wait().map(drop)); });
//! });
//! ```
//!
//! Communicators and requests borrow from the universe, and cannot be used after its end.
//!
//! ```compile_fail,E0505
//! # let universe = oxmpi::init()?;
//! let world = universe.world();
//! universe.finalize()?;   // error: cannot move out of `universe` because it is borrowed
//! world.barrier()?;
//! # Ok::<(), oxmpi::Error>(())
//! ```
#![deny(missing_docs)]
#![forbid(unsafe_code)]

// The code of `#[derive(Element)]` names this crate, also inside it.
extern crate self as oxmpi;

mod collective;
mod communicator;
mod error;
mod group;
mod immediate;
mod matched;
mod message;
mod op;
mod pairs;
mod pending;
mod persistent;
mod reduction;
mod request;
mod scope;
mod universe;

pub use communicator::{Communicator, Rank};
pub use error::{Error, ErrorKind, Result};
pub use group::{Comparison, Group};
pub use matched::Message;
pub use message::{ANY_SOURCE, ANY_TAG, Dest, Source, Status, Tag, TagMatch};
pub use op::{Arithmetic, BitAnd, BitOr, BitXor, Integer, Max, Min, Number, Op, Product, Sum};
pub use oxmpi_derive::Element;
pub use oxmpi_mem::element::Element;
pub use oxmpi_mem::regions::{Buffer, BufferMut};

/// ```
/// use oxmpi::{Buffer, Strided};
/// let matrix = [1, 2, 3, 4, 5, 6];
/// let view = Strided::new(&matrix, 3);
/// assert_eq!((view.rows(), view.columns(), view.row(1)), (2, 3, &[4, 5, 6][..]));
/// assert_eq!(view.part(.., 1..).count(), 4);
/// ```
#[doc(inline)]
pub use oxmpi_mem::regions::Strided;

/// ```
/// use oxmpi::StridedMut;
/// let mut matrix = [1, 2, 3, 4, 5, 6];
/// let (mut left, right) = StridedMut::new(&mut matrix, 3).split_at_column(1);
/// left.row_mut(1)[0] = right.row(0)[1];
/// assert_eq!(matrix, [1, 2, 3, 3, 5, 6]);
/// ```
#[doc(inline)]
pub use oxmpi_mem::regions::StridedMut;

pub use pairs::{Complex, Located, MaxLoc, MinLoc};
pub use pending::{Indexed, Pending, RequestSet, wait_all};
pub use persistent::{Persistent, Started};
pub use request::Request;
pub use scope::{Scope, ScopedRequest};
pub use universe::{Funneled, Level, Multiple, Universe, init, init_threaded, threads};

/// For the code of `#[derive(Element)]`. A wrong implementation of [`Element`] is unsound.
#[doc(hidden)]
pub mod derive {
    pub use oxmpi_mem::element::{ElementShape, Member};
}
