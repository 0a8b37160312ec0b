//! The functions, which the build script writes.
#![allow(non_snake_case)]
#![allow(unused_unsafe, unused_mut, clippy::all)] // generated

use crate::convert::*;
use crate::handles::*;
use crate::special::*;
use crate::statuses::*;
use crate::{aliases, by_hand, core};
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::*;
use oxmpi_foreign::EndsPanics;
use std::ffi::{c_char, c_int, c_void};

/// Defines a function under the name `PMPI_X`, with the weak name `MPI_X`.
macro_rules! face {
    (fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block) => {
        // SAFETY: the standard reserves the symbol for MPI libraries.
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            let ends = EndsPanics;
            let result = unsafe { $body };
            ::std::mem::forget(ends);
            result
        }
        ::std::arch::global_asm!(
            concat!(".weak ", stringify!($name)),
            concat!(".set ", stringify!($name), ", P", stringify!($name)),
        );
    };
}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
