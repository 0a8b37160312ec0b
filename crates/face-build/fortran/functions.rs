//! The functions that entry points call, which the build script writes: they convert statuses,
//! constants and error codes.
#![allow(non_snake_case)]
#![allow(unused_unsafe, unused_mut, clippy::all)] // generated

use crate::convert::*;
use crate::core;
use crate::handles::*;
use crate::special::*;
use crate::statuses::*;
use crate::types::*;
use oxmpi_abi::constants as abi;
use std::ffi::{c_char, c_int, c_void};

/// The functions that are written by hand.
mod by_hand {
    pub(super) use crate::results::*;
    pub(super) use crate::states::*;
}

/// The address of a function of the Fortran library, whose statuses and error codes are those of
/// the other ABI.
fn address<F: Copy>(function: Option<F>) -> *const c_void {
    const { assert!(size_of::<Option<F>>() == size_of::<usize>()) };
    // SAFETY: the option of a function pointer is an address, or null.
    unsafe { std::mem::transmute_copy(&function) }
}

macro_rules! face {
    (fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block) => {
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            unsafe { $body }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
