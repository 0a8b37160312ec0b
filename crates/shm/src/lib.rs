//! The protocols between processes that share memory, with their `unsafe`.
//!
//! Processes of one node talk through memory that both map. Each process owns one [`segment::Segment`]; in it lie
//!
//! - an [`inbox`], where any peer may leave a frame (for peers that seldom talk),
//! - [`ring`]s, one for each peer that sends often: the fast path,
//! - a [`pool`], through which the owner sends longer messages: their slots lie in the receiver's ring,
//! - [`announcement`]s: messages that wait with the owner, who may take them back,
//! - a [`heap`]: memory for the owner's program, from which a peer copies messages by itself,
//! - [`control_section`]s, through which ranks do collectives together in numbered steps,
//! - in the heap, [`mailbox`]es of windows, by which peers have the owner change its own memory,
//! - a [`door`]: how the owner sleeps when it has nothing to do, and how a peer wakes it,
//! - a [`wait_note`] for each of its threads that has waited long: on what, in words.
//!
//! Beside these segments the processes of a job on a node may share one with a [`postbox`] for each pair and a pool for all.
//! Wherever several change the same memory, a [`robust_lock`] outlives a process that ends while it has it.
//!
//! Which of these a message takes is for others to say: here is no policy. What all this
//! needs of the kernel and of memory is in `oxmpi_sys`.
//!
//! Each page opens with its protocol as numbered rules; the code and the tests cite them. The algorithms know only the atomics of
//! [`oxmpi_sys::sync`] and run alike between processes, between threads, and under the model checker loom (`RUSTFLAGS="--cfg
//! loom" cargo test -p oxmpi-shm --release --test loom --target-dir target/loom`), where everything that calls the kernel is
//! left out. To begin with, read [`ring`] and [`door`].

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
