//! The extra arguments of operations and error handlers (MPIX_Op_create_x and its like), by which
//! interfaces for other languages find the functions of the program.

use crate::state::locked;
use oxmpi_abi::types::DestructorFunction;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// An extra argument, and the function that ends it.
#[derive(Debug)]
pub(crate) struct ExtraState {
    address: usize,
    destructor: Option<DestructorFunction>,
}

impl ExtraState {
    pub(crate) fn new(
        address: *mut c_void,
        destructor: Option<DestructorFunction>,
    ) -> Arc<ExtraState> {
        Arc::new(ExtraState { address: address.expose_provenance(), destructor })
    }

    /// The address that the program has passed.
    pub(crate) fn pointer(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.address)
    }
}

impl Drop for ExtraState {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the program has passed both for one another, and no object has them any more.
            unsafe { destructor(self.pointer()) };
        }
    }
}

/// The extra arguments of operations, by numbers above 0. An operation is copied, so it has the
/// number only.
#[derive(Debug, Default)]
pub(crate) struct ExtraStates(Mutex<ExtraStateTable>);

#[derive(Debug, Default)]
struct ExtraStateTable {
    made: u64,
    states: HashMap<u64, Arc<ExtraState>>,
}

impl ExtraStates {
    pub(crate) fn insert(&self, state: Arc<ExtraState>) -> u64 {
        let mut table = locked(&self.0);
        table.made += 1;
        let number = table.made;
        table.states.insert(number, state);
        number
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<ExtraState>> {
        locked(&self.0).states.get(&number).cloned()
    }

    /// Removes a state. The caller drops it without a lock, because its destructor may make calls.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<ExtraState>> {
        locked(&self.0).states.remove(&number)
    }
}
