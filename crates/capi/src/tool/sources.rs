//! Event sources (MPI-5.0 section 15.3.8). All have the same clock.

use super::outputs::{put, put_string, put_wanted};
use super::{Result, at, call};
use crate::info;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Count, Info as InfoHandle, TSourceOrder};
use oxmpi_core::tool::events::EventSource;
use oxmpi_objects::info::Info;
use oxmpi_sys::clock;
use std::ffi::{c_char, c_int};

const TICKS_PER_SECOND: Count = 1_000_000_000;

pub(super) fn timestamp(ns: u64) -> Count {
    Count::try_from(ns).unwrap_or(Count::MAX)
}

/// Stores an empty info if the program wants one; there are no hints.
pub(super) fn give_empty_info(place: *mut InfoHandle) -> Result<()> {
    if place.is_null() {
        return Ok(());
    }
    info::give(Info::new(), place, "info").map_err(|_| abi::MPI_T_ERR_MEMORY)
}

mpi! {
    /// Test of this module: tests/c/mpit_events.c.
    fn MPI_T_source_get_num(num_sources: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        call(|| unsafe { put(num_sources, EventSource::ALL.len() as c_int) })
    }

    fn MPI_T_source_get_info(
        source_index: c_int,
        name: *mut c_char,
        name_len: *mut c_int,
        desc: *mut c_char,
        desc_len: *mut c_int,
        ordering: *mut TSourceOrder,
        ticks_per_second: *mut Count,
        max_ticks: *mut Count,
        info: *mut InfoHandle,
    ) -> c_int {
        call(|| {
            let source = at(&EventSource::ALL, source_index)?;
            // SAFETY: the C program passes a place for each result that it wants, else null.
            unsafe {
                put_string(source.name(), name, name_len);
                put_string(source.help(), desc, desc_len);
                put_wanted(ordering, abi::MPI_T_SOURCE_ORDERED);
                put_wanted(ticks_per_second, TICKS_PER_SECOND);
                put_wanted(max_ticks, Count::MAX);
            }
            give_empty_info(info)
        })
    }

    fn MPI_T_source_get_timestamp(source_index: c_int, timestamp: *mut Count) -> c_int {
        call(|| {
            at(&EventSource::ALL, source_index)?;
            // SAFETY: the C program passes a place for a count.
            unsafe { put(timestamp, self::timestamp(clock::now_ns())) }
        })
    }
}
