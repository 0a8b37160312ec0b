//! The kernel and the shared memory: all that lies below the protocols, with its `unsafe`.
//!
//! Processes of one node talk through memory that both map. Each process owns one [`segment::Segment`]; in it lie
//!
//! - an [`inbox`], where any peer may leave a frame (for peers that seldom talk),
//! - [`ring`]s, one for each peer that talks often: the fast way,
//! - a [`pool`], through which the owner sends longer messages: their slots lie in the receiver's ring,
//! - [`announcement`]s: messages that wait with the owner, who may take them back,
//! - a [`heap`]: memory for the owner's program, from which a peer copies messages by itself,
//! - a [`door`]: how the owner sleeps when it has nothing to do, and how a peer wakes it.
//!
//! Beside these segments the processes of a job on a node may share one with a [`postbox`] for each pair and a pool for all, and
//! sleep on a [`semaphore`] of System V.
//!
//! Processes that share no memory talk over sockets ([`net`]) and sleep on a [`poller`].
//!
//! Others: [`single_copy`] (one process reads another's memory), [`tracer`] (who may read this one's), [`descriptor`] (those that a program may close),
//! [`fdpass`] (file descriptors over a socket), [`local`] (sockets with names that no file has), [`nameless`] (files without a name), [`parcel`] (packets with files),
//! [`mod@file`], [`spawn`] (starting processes), [`stdio`] (what a command says),
//! [`clock`], [`cpus`], [`hardware`], [`library`] (where we are installed),
//! [`lock`] (a lock that costs nothing in a single-threaded process), [`robust_lock`] (one between processes, which outlives its owner),
//! [`bytes`] (views of memory that somebody else may write).
//!
//! The algorithms of ring, inbox, door and lock know only atomics from the internal module `sync`, and run alike between
//! processes, between threads, and under the model checker loom (`RUSTFLAGS="--cfg loom" cargo test -p oxmpi-os
//! --release --test loom --target-dir target/loom`), where everything that calls the kernel is left out. Each of
//! their pages opens with the protocol as numbered rules; the code and the tests cite them.

pub mod announcement;
pub mod barrier;
pub mod bytes;
pub mod control_section;
pub mod door;
mod hint;
pub mod host;
pub mod inbox;
pub mod line;
pub mod lock;
pub mod pool;
pub mod postbox;
pub mod ring;
pub mod robust_lock;
mod sync;

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
pub mod hardware;
#[cfg(not(loom))]
pub mod heap;
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
pub mod poller;
#[cfg(not(loom))]
pub mod process_stat;
#[cfg(not(loom))]
pub mod segment;
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
#[cfg(not(loom))]
pub mod wait_note;
