//! The protocols between processes that share memory, with their `unsafe`.
//!
//! Processes of one node communicate through memory that both map. Each process owns one
//! [`segment::Segment`] with
//!
//! - an [`inbox`], for frames of peers that seldom send,
//! - [`ring`]s, one for each peer that sends often: the fast path,
//! - a [`pool`], through which the owner sends longer messages,
//! - [`announcement`]s of messages in the owner's memory that the owner may take back,
//! - a [`heap`]: memory for the owner's program, from which peers copy messages,
//! - [`control_section`]s, for collectives in numbered steps,
//! - in the heap, [`mailbox`]es of windows: requests of peers to change the owner's memory,
//! - a [`door`], at which the owner sleeps and a peer wakes it,
//! - [`wait_note`]s: the reasons of long waits, in words.
//!
//! The processes of a job on a node may also share one segment with a [`postbox`] for each pair and
//! a pool for all. A [`robust_lock`] guards memory that several processes change, and survives the
//! death of its holder.
//!
//! This crate has no policy: other crates choose the protocol of a message. `oxmpi_sys` has the
//! code for the kernel and for memory.
//!
//! Each module begins with its protocol as numbered rules, which the code and the tests cite. The
//! algorithms use only the atomics of [`oxmpi_sys::sync`], so the model checker loom can run them
//! (`RUSTFLAGS="--cfg loom" cargo test -p oxmpi-shm --release --test loom --target-dir
//! target/loom`); code that calls the kernel is left out there. To begin with, read [`ring`] and
//! [`door`].

pub mod announcement;
pub mod control_section;
pub mod door;
pub mod inbox;
pub mod mailbox;
pub mod pool;
pub mod postbox;
pub mod ring;
pub mod robust_lock;

#[cfg(not(loom))]
pub mod heap;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
pub mod wait_note;
