//! The attributes that the library sets (MPI-5.0 section 9.1.2). C programs get the addresses of
//! their integer values, and Fortran programs the values.

use oxmpi_objects::attribute::Language;
use oxmpi_rt_client::client::{Client, UNIVERSE_SIZE_VARIABLE};
use std::ffi::{c_int, c_void};

/// Values that are fixed by the initialisation of MPI.
#[derive(Debug)]
pub(crate) struct AttributeValues {
    /// The index of this rank's program in the job; none without a launcher.
    pub(crate) appnum: Option<c_int>,
    pub(crate) tag_ub: c_int,
    /// How many ranks can usefully run: the launcher's slots, or this host's processors, but at
    /// least the running ranks.
    pub(crate) universe_size: c_int,
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

/// One attribute.
pub(crate) struct Predefined {
    pub(crate) address: *const c_void,
    pub(crate) value: isize,
}

impl Predefined {
    pub(crate) fn seen_by(&self, language: Language) -> *const c_void {
        match language {
            Language::C => self.address,
            Language::Fortran => std::ptr::without_provenance(self.value.cast_unsigned()),
        }
    }
}

impl From<&c_int> for Predefined {
    fn from(variable: &c_int) -> Predefined {
        Predefined { address: (&raw const *variable).cast(), value: *variable as isize }
    }
}
