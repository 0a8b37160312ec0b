//! The protocols between processes that share memory, with their `unsafe`.
//!
//! Processes of one node communicate through memory that both map. Each process owns one
//! [`segment::Segment`] with
//!
//! - an [`inbox`], for frames of peers that seldom send,
//! - [`ring`]s, one for each peer that sends often: the fast path,
//! - a [`pool`], through which the owner sends longer messages: their slots are in the receiver's
//!   ring,
//! - [`announcement`]s: messages that wait in the owner's memory, and that the owner may take back,
//! - a [`heap`]: memory for the owner's program, from which a peer copies messages by itself,
//! - [`control_section`]s, for collectives in numbered steps,
//! - in the heap, [`mailbox`]es of windows, by which peers have the owner change its own memory,
//! - a [`door`]: how the owner sleeps while it has no work, and how a peer wakes it,
//! - a [`wait_note`] for each of its threads that has waited long, with the reason in words.
//!
//! The processes of a job on a node may also share one segment with a [`postbox`] for each pair and
//! a pool for all. A [`robust_lock`] guards memory that several processes change, and survives the
//! death of its holder.
//!
//! This crate has no policy: other crates choose the protocol of a message. `oxmpi_sys` has the
//! code for the kernel and for memory.
//!
//! Each module begins with its protocol as numbered rules, which the code and the tests cite. The
//! algorithms use only the atomics of [`oxmpi_sys::sync`] and run alike between processes, between
//! threads, and under the model checker loom (`RUSTFLAGS="--cfg loom" cargo test -p oxmpi-shm
//! --release --test loom --target-dir target/loom`), which leaves out all code that calls the
//! kernel. To begin with, read [`ring`] and [`door`].

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
