//! The memory that users hand over, and what is done to it.
//!
//! A call such as `MPI_Send(buf, count, type, ...)` names memory by an address, a count and a datatype. This crate
//! turns the three into values that the safe floors above can carry, cut, pack and reduce:
//!
//! - [`layout`]: a [`Layout`](layout::Layout) says where the bytes of one element of a datatype lie. It is kept as a
//!   short copy program, so that a vector of a million doubles is one line and not a million. Its size and
//!   [`bounds`] can be computed without it.
//! - [`blocks`]: the pieces of memory of a layout one by one.
//! - [`buffer`]: a [`UserBuf`](buffer::UserBuf) is (address, count, layout). Its *packed* form is the bytes of all
//!   elements in type-map order without gaps; it can pack or unpack any range of that.
//! - [`device`]: memory that only a driver copies.
//! - [`element`]: which bytes of a Rust type are data; [`regions`]: slices and rectangles of matrices as buffers.
//! - [`memory`]: memory that comes from safe Rust: a slice lent for a call, a vector moved in, scratch space.
//! - [`external32`]: basic elements in the representation that all machines read.
//! - [`kernels`]: `right <- left op right` for the predefined operations.
//! - [`atomics`]: the same on elements that others change at the same time; [`exposed`]: memory that others access.
//! - [`table`]: user handles (64 bits, never pointers) and the objects behind them.
//!
//! This is one of the few crates with unsafe code. The promise all of it rests on is made once, by whoever calls
//! [`UserBuf::new`](buffer::UserBuf::new): the memory is there as long as the `UserBuf` or any copy of it.

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
