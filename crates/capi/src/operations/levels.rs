//! Levels of thread support.

use oxmpi_abi::constants as abi;
use oxmpi_param::ThreadLevel;
use std::ffi::c_int;

/// In the order of [`ThreadLevel::ALL`].
pub(crate) const LEVELS: [c_int; 4] = [
    abi::MPI_THREAD_SINGLE,
    abi::MPI_THREAD_FUNNELED,
    abi::MPI_THREAD_SERIALIZED,
    abi::MPI_THREAD_MULTIPLE,
];

/// The thread level of MPI_Init; `None` if the environment names an invalid level.
pub(crate) fn level_before_init() -> Option<c_int> {
    let said = ThreadLevel::from_env().ok()?;
    Some(said.map_or(abi::MPI_THREAD_SINGLE, |(level, _)| LEVELS[level as usize]))
}

pub(crate) fn level_name(level: c_int) -> Option<&'static str> {
    Some(match level {
        abi::MPI_THREAD_SINGLE => "MPI_THREAD_SINGLE",
        abi::MPI_THREAD_FUNNELED => "MPI_THREAD_FUNNELED",
        abi::MPI_THREAD_SERIALIZED => "MPI_THREAD_SERIALIZED",
        abi::MPI_THREAD_MULTIPLE => "MPI_THREAD_MULTIPLE",
        _ => return None,
    })
}
