//! The memory of buffers, and the operations on it.
//!
//! A call such as `MPI_Send(buf, count, type, ...)` names memory by an address, a count and a
//! datatype. This crate makes one value of the three, for the safe crates above:
//!
//! - [`layout`]: a [`Layout`](layout::Layout) has the positions of the bytes of one element as a
//!   short copy program; a vector of a million doubles is one line. [`bounds`] has size and bounds,
//!   which can be computed without it; [`blocks`] has its blocks one by one.
//! - [`buffer`]: a [`UserBuf`](buffer::UserBuf) is (address, count, layout). Its *packed* form is
//!   the bytes of all elements in type-map order without gaps.
//! - [`device`]: memory that only a driver copies.
//! - [`element`]: the data bytes of a Rust type; [`regions`]: slices and rectangles of matrices as
//!   buffers.
//! - [`memory`]: memory of safe Rust: a slice lent for a call, a vector moved in, scratch space.
//! - [`external32`]: basic elements in the representation that all machines read.
//! - [`kernels`]: `right <- left op right` for the predefined operations.
//! - [`atomics`]: these operations on elements that other processes change at the same time;
//!   [`exposed`]: memory that other processes access.
//! - [`table`]: user handles (64 bits, never pointers) and their objects.
//!
//! All unsafe code relies on the promise of the caller of [`UserBuf::new`](buffer::UserBuf::new):
//! the memory is mapped as long as the `UserBuf` or a copy of it exists.

pub mod atomics;
pub mod blocks;
pub mod bounds;
pub mod buffer;
mod copy;
pub mod device;
pub mod element;
pub mod exposed;
pub mod external32;
pub mod kernels;
pub mod layout;
pub mod memory;
mod program;
pub mod regions;
pub mod table;
mod written;
