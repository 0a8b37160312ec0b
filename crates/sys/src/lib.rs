//! The kernel, and plain tools on memory: what every crate above may use, with its `unsafe`.
//!
//! Each module wraps one thing of the kernel, the processor or the C library behind safe functions, and says what can go wrong.
//! Nothing here knows a message or what lies where in memory that processes share: that is in `oxmpi_shm`. There is no policy in
//! either.
//!
//! Memory:
//!
//! - [`bytes`]: views of memory that somebody else may write meanwhile, and how they are copied,
//! - [`memory`]: memory that many read and write, and which stays mapped as long as somebody has it,
//! - [`line`](mod@line): a cache line of atomic words,
//! - [`single_copy`]: one process reads another's memory; [`tracer`]: who may read this one's.
//!
//! Threads and processors:
//!
//! - [`sync`]: the atomics of all algorithms here and in `oxmpi_shm`,
//! - [`barrier`]: a pair of memory barriers of which the frequent side is nearly free,
//! - [`lock`]: a lock that costs nothing in a single-threaded process,
//! - [`semaphore`]: sleeping on semaphores of System V,
//! - [`clock`], [`pause`], [`hint`] (prefetches and the fence of streaming stores),
//! - [`cpus`], [`hardware`]: which processors there are, and of what kind.
//!
//! Sockets and descriptors:
//!
//! - [`net`]: sockets between hosts; [`local`]: sockets with names that no file has; [`socket`]: what can be asked of any,
//! - [`poller`]: sleeping until a descriptor is ready,
//! - [`fdpass`]: descriptors over a socket; [`parcel`]: packets with files,
//! - [`descriptor`]: those that a program may close behind our back,
//! - [`mod@file`], [`nameless`] (files without a name), [`stdio`] (what a command says).
//!
//! Processes:
//!
//! - [`spawn`]: starting them, and seeing that they end,
//! - [`pending`]: signals that wait in those that stand still,
//! - [`process_stat`], [`host`], [`library`] (where we are installed), [`foreign`] (libraries that are opened while a program runs).
//!
//! The model checker loom checks [`lock`] (`RUSTFLAGS="--cfg loom" cargo test -p oxmpi-sys --release --test loom --target-dir
//! target/loom`). Under it everything that calls the kernel is left out.

pub mod barrier;
pub mod bytes;
pub mod hint;
pub mod host;
pub mod line;
pub mod lock;
pub mod sync;

#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod cpus;
#[cfg(not(loom))]
pub mod descriptor;
#[cfg(not(loom))]
pub mod fdpass;
#[cfg(not(loom))]
pub mod file;
#[cfg(not(loom))]
pub mod foreign;
#[cfg(not(loom))]
pub mod hardware;
#[cfg(not(loom))]
pub mod library;
#[cfg(not(loom))]
pub mod local;
#[cfg(not(loom))]
pub mod memory;
#[cfg(not(loom))]
pub mod nameless;
#[cfg(not(loom))]
pub mod net;
#[cfg(not(loom))]
pub mod parcel;
#[cfg(not(loom))]
pub mod pause;
#[cfg(not(loom))]
pub mod pending;
#[cfg(not(loom))]
pub mod poller;
#[cfg(not(loom))]
pub mod process_stat;
#[cfg(not(loom))]
pub mod semaphore;
#[cfg(not(loom))]
pub mod single_copy;
#[cfg(not(loom))]
pub mod socket;
#[cfg(not(loom))]
pub mod spawn;
#[cfg(not(loom))]
pub mod stdio;
#[cfg(not(loom))]
pub mod tracer;
