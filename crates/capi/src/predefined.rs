//! The attributes that the library sets (MPI-5.0 section 9.1.2). Programs get the addresses of
//! their integer values.

use crate::errorcodes;
use crate::library::Running;
use oxmpi_abi::constants as abi;
use oxmpi_rt_client::client::{Client, UNIVERSE_SIZE_VARIABLE};
use std::ffi::c_int;

/// Values that are fixed by the initialisation of MPI.
#[derive(Debug)]
pub(crate) struct AttributeValues {
    /// The index of this rank's program in the job; none without a launcher.
    appnum: Option<c_int>,
    tag_ub: c_int,
    /// How many ranks can usefully run: the launcher's slots, or this host's processors, but at
    /// least the running ranks.
    universe_size: c_int,
}

impl AttributeValues {
    pub(crate) fn new(client: &Client, tag_ub: c_int) -> AttributeValues {
        let boot = client.segment().boot();
        let is_launched = !client.is_singleton();
        // A bound rank sees only some processors of its host, and no other host.
        let slots = std::env::var(UNIVERSE_SIZE_VARIABLE).ok().filter(|_| is_launched);
        let slots = slots.and_then(|slots| slots.parse().ok());
        let slots =
            slots.unwrap_or_else(|| u32::try_from(oxmpi_sys::cpus::usable()).unwrap_or(u32::MAX));
        AttributeValues {
            tag_ub,
            appnum: is_launched.then_some(boot.app as c_int),
            universe_size: c_int::try_from(slots.max(boot.size)).unwrap_or(c_int::MAX),
        }
    }
}

static HOST_VALUE: c_int = abi::MPI_PROC_NULL;
static IO_VALUE: c_int = abi::MPI_ANY_SOURCE;
static TRUE_VALUE: c_int = 1;

/// The address of a predefined attribute's value, if it is set.
pub(crate) fn attribute(library: &'static Running, keyval: c_int) -> Option<*const c_int> {
    match keyval {
        abi::MPI_TAG_UB => Some(&library.attribute_values.tag_ub),
        abi::MPI_HOST => Some(&HOST_VALUE),
        abi::MPI_IO => Some(&IO_VALUE),
        abi::MPI_WTIME_IS_GLOBAL => Some(&TRUE_VALUE),
        abi::MPI_APPNUM => library.attribute_values.appnum.as_ref().map(std::ptr::from_ref),
        abi::MPI_UNIVERSE_SIZE => Some(&library.attribute_values.universe_size),
        abi::MPI_LASTUSEDCODE => Some(errorcodes::last_used()),
        _ => None,
    }
}
