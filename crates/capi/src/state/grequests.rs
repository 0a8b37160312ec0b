//! The program's functions of generalized requests (MPI-5.0 section 13.2).

use oxmpi_abi::types::{GrequestCancelFunction, GrequestFreeFunction, GrequestQueryFunction};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// The generalized requests whose free function was not called yet.
#[derive(Debug, Default)]
pub(crate) struct GeneralizedRequests {
    pub(crate) all: Mutex<HashMap<u64, GeneralizedRequest>>,
    /// The number of requests made so far; while it is 0, no lock is taken.
    pub(crate) made: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GeneralizedRequest {
    pub(crate) calls: GrequestFunctions,
    pub(crate) is_complete: bool,
    pub(crate) is_freed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GrequestFunctions {
    pub(crate) query: GrequestQueryFunction,
    pub(crate) free: GrequestFreeFunction,
    pub(crate) cancel: GrequestCancelFunction,
    pub(crate) extra_state: usize,
}
