//! The memory of the user's buffers, and the operations on it.
//!
//! A call such as `MPI_Send(buf, count, type, ...)` names memory by an address, a count and a
//! datatype. This crate makes one value of the three, which the safe crates above carry, cut, pack
//! and reduce:
//!
//! - [`layout`]: a [`Layout`](layout::Layout) has the positions of the bytes of one element as a
//!   short copy program, so that a vector of a million doubles is one line. Its size and [`bounds`]
//!   can be computed without it.
//! - [`blocks`]: the blocks of a layout one by one.
//! - [`buffer`]: a [`UserBuf`](buffer::UserBuf) is (address, count, layout). Its *packed* form is
//!   the bytes of all elements in type-map order without gaps; any range of it can be packed or
//!   unpacked.
//! - [`device`]: memory that only a driver copies.
//! - [`element`]: which bytes of a Rust type are data; [`regions`]: slices and rectangles of
//!   matrices as buffers.
//! - [`memory`]: memory that comes from safe Rust: a slice lent for a call, a vector moved in,
//!   scratch space.
//! - [`external32`]: basic elements in the representation that all machines read.
//! - [`kernels`]: `right <- left op right` for the predefined operations.
//! - [`atomics`]: the same on elements that other processes change at the same time; [`exposed`]:
//!   memory that other processes access.
//! - [`table`]: user handles (64 bits, never pointers) and their objects.
//!
//! This is one of the few crates with unsafe code. All of it relies on one promise, which the
//! caller of [`UserBuf::new`](buffer::UserBuf::new) makes: the memory is mapped as long as the
//! `UserBuf` or a copy of it exists.

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
