//! The functions of `libmpi_abi.so.1`, and a type of pointers to each.
#![allow(dead_code)] // the tool interface and large counts are for module mpi_f08

use crate::types::*;
use std::ffi::{c_char, c_int, c_void};

include!(concat!(env!("OUT_DIR"), "/c.rs"));
