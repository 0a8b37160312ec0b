//! The kernel's interfaces and plain tools on memory, with their `unsafe`.
//!
//! Each module wraps one interface of the kernel, the processor or the C library in safe functions,
//! and documents their errors. The protocols in shared memory are in `oxmpi_shm`. This crate has no
//! policy.
//!
//! Memory:
//!
//! - [`bytes`]: views of memory that other threads or processes may write, and copies of it,
//! - [`memory`]: shared memory that stays mapped while it has a user,
//! - [`line`](mod@line): a cache line of atomic words,
//! - [`single_copy`]: one process reads the memory of another; [`tracer`]: which processes may.
//!
//! Threads and processors:
//!
//! - [`sync`]: the atomics of all algorithms here and in `oxmpi_shm`,
//! - [`barrier`]: a pair of memory barriers of which the frequent side is nearly free,
//! - [`lock`]: a lock that costs nothing in a single-threaded process,
//! - [`semaphore`]: sleeping on semaphores of System V,
//! - [`clock`], [`pause`], [`hint`] (prefetches and the fence of streaming stores),
//! - [`cpus`], [`hardware`]: the processors of this machine,
//!
//! Sockets and descriptors:
//!
//! - [`net`]: sockets between hosts; [`local`]: sockets with abstract names; [`socket`]: queries
//!   for any socket,
//! - [`poller`]: sleeping until a descriptor is ready,
//! - [`fdpass`]: descriptors over a socket; [`parcel`]: packets with files,
//! - [`descriptor`]: descriptors that the program may close,
//! - [`mod@file`], [`nameless`] (files without a name), [`stdio`] (the output of a command).
//!
//! Processes:
//!
//! - [`spawn`]: starting processes, and making sure that they end,
//! - [`pending`]: signals that wait in a stopped process,
//! - [`process_stat`], [`host`], [`library`] (the place of the installation), [`foreign`]
//!   (libraries that are opened at run time).
//!
//! The model checker loom checks [`lock`] (`RUSTFLAGS="--cfg loom" cargo test -p oxmpi-sys
//! --release --test loom --target-dir target/loom`). Under loom all code that calls the kernel is
//! left out.

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
