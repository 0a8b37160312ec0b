//! The entry points, which the build script writes.
//!
//! A Fortran program guarantees that the addresses it passes are those of variables as the
//! standard describes the arguments. All unsafe code here relies on this guarantee.
#![allow(non_snake_case)]
#![allow(unused_unsafe)]
#![allow(clippy::undocumented_unsafe_blocks)] // one reason for all of them, above
#![allow(clippy::too_many_arguments)]

use crate::arguments::*;
use crate::sections::ArrayDescriptor;
use crate::{by_hand, c};
use crate::abi;
use crate::types::{Aint, Count, Offset, Status};
use oxmpi_foreign::EndsPanics;
use std::ffi::{c_char, c_int, c_void};

/// Defines an entry point under the first name, and gives it the others as weak names.
macro_rules! entry {
    ($first:literal $($other:literal)* fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        // SAFETY: the standard reserves the symbol for MPI libraries.
        #[unsafe(export_name = $first)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) $(-> $result)? {
            let ends = EndsPanics;
            let result = unsafe { $body };
            ::std::mem::forget(ends);
            result
        }
        alias! { $first $($other)* }
    };
}

/// Gives weak names to a symbol. They must be in the object file of the symbol; a module is never
/// split between two object files.
macro_rules! alias {
    ($first:literal) => {};
    ($first:literal $($other:literal)*) => {
        ::std::arch::global_asm!(
            $(concat!(".weak ", $other), concat!(".set ", $other, ", ", $first),)*
        );
    };
}

/// The functions for calls with array sections that have gaps.
mod with_sections {
    use super::*;
    use crate::sections::{CBuffer, Ends, Sections, Use, own, sum};

    include!(concat!(env!("OUT_DIR"), "/sections.rs"));
}

include!(concat!(env!("OUT_DIR"), "/entries.rs"));
include!(concat!(env!("OUT_DIR"), "/own.rs"));
