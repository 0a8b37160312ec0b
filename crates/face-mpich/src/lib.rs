//! `libmpi.so.12`: MPI for programs that were built for MPICH, Intel MPI, MVAPICH or Cray MPICH,
//! which have one ABI.
//!
//! The build script writes the functions from the table of functions (crate `oxmpi-face-build`,
//! which explains the whole, and has the modules that all faces share). This crate has the parts
//! that differ: [`handles`], the layout of a [`status`], [`special`] addresses, and functions
//! beyond the standard ([`extra`], [`cxx`]).
//!
//! The library has no state besides that of callbacks: objects live in `libmpi_abi.so.1`.
//!
//! A C program guarantees that its pointers are valid as the standard requires. All unsafe code
//! here relies on this guarantee.
#![allow(clippy::missing_safety_doc)]
#![allow(clippy::undocumented_unsafe_blocks)] // one reason for all of them, above
#![allow(clippy::too_many_arguments)]
#![allow(unused_unsafe)] // `core!` stands inside of unsafe blocks and outside

mod cxx;
mod extra;
mod files;
mod handles;
mod special;
mod status;

include!("../../face-build/common/modules.rs");

/// The functions that are written by hand.
mod by_hand {
    pub(crate) use crate::callbacks::*;
    pub(crate) use crate::files::*;
    pub(crate) use crate::results::*;
    pub(crate) use crate::states::*;
    pub(crate) use crate::tool_objects::*;
}
