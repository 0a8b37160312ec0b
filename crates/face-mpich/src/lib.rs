//! `libmpi.so.12`: MPI for programs that were built for MPICH, Intel MPI, MVAPICH or Cray MPICH,
//! which have one ABI.
//!
//! The build script writes the functions from the table of functions (crate `oxmpi-face-build`,
//! which explains the whole). This crate has the conversions ([`convert`], [`handles`],
//! [`statuses`]) and the functions whose arguments are functions of the program ([`by_hand`]).
//!
//! The library has no state besides that of callbacks: objects live in `libmpi_abi.so.1`.
//!
//! A C program guarantees that its pointers are valid as the standard requires. All unsafe code
//! here relies on this guarantee.
#![allow(clippy::missing_safety_doc)]
#![allow(clippy::undocumented_unsafe_blocks)] // one reason for all of them, above
#![allow(clippy::too_many_arguments)]
#![allow(unused_unsafe)] // `core!` stands inside of unsafe blocks and outside

mod by_hand;
mod convert;
mod extra;
mod functions;
mod handles;
mod standard;
mod statuses;

/// The address of a function of the standard ABI.
macro_rules! core {
    ($name:ident) => {
        unsafe { (*$crate::standard::FUNCTIONS.load(::std::sync::atomic::Ordering::Relaxed)).$name }
    };
}
pub(crate) use core;
