//! Event sources (MPI-5.0 section 15.3.8). All have the same clock.

use super::checks::{Result, at};
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Count, TSourceOrder};
use oxmpi_core::tool::events::EventSource;
use oxmpi_objects::info::Info;
use oxmpi_sys::clock;
use std::ffi::c_int;

const TICKS_PER_SECOND: Count = 1_000_000_000;

pub(super) fn timestamp(ns: u64) -> Count {
    Count::try_from(ns).unwrap_or(Count::MAX)
}

/// Test of this module: tests/c/mpit_events.c.
pub(crate) fn t_source_get_num() -> Result<c_int> {
    Ok(EventSource::ALL.len() as c_int)
}

type SourceInfo = (&'static str, &'static str, TSourceOrder, Count, Count, Info);

/// There are no hints.
pub(crate) fn t_source_get_info(source_index: c_int) -> Result<SourceInfo> {
    let source = at(&EventSource::ALL, source_index)?;
    let order = abi::MPI_T_SOURCE_ORDERED;
    Ok((source.name(), source.help(), order, TICKS_PER_SECOND, Count::MAX, Info::new()))
}

pub(crate) fn t_source_get_timestamp(source_index: c_int) -> Result<Count> {
    at(&EventSource::ALL, source_index)?;
    Ok(timestamp(clock::now_ns()))
}
