//! Registered callbacks of events (MPI-5.0 section 15.3.8).
//!
//! Callbacks run only where their thread may call MPI. So the situation always has the safety level
//! MPI_T_CB_REQUIRE_NONE, which allows callbacks of any level. If there are several callbacks, the
//! one with the least guarantees is called.

use super::checks::Result;
use super::instances;
use crate::state::locked;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    TCbSafety, TEventCbFunction, TEventDroppedCbFunction, TEventFreeCbFunction, TEventRegistration,
};
use oxmpi_core::tool::events::EventType;
use oxmpi_core::tool::{Event, EventKind};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// All registrations, the oldest first.
pub(super) static ALL: Mutex<Vec<Arc<Registration>>> = Mutex::new(Vec::new());

/// The safety level of all situations.
const SITUATION: TCbSafety = abi::MPI_T_CB_REQUIRE_NONE;

/// Safety levels of callbacks, those with the least guarantees first.
const LEVELS: [TCbSafety; 4] = [
    abi::MPI_T_CB_REQUIRE_NONE,
    abi::MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    abi::MPI_T_CB_REQUIRE_THREAD_SAFE,
    abi::MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

#[derive(Clone, Copy)]
pub(super) struct Callback {
    pub(super) function: TEventCbFunction,
    pub(super) user_data: usize,
}

fn address(user_data: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(user_data)
}

pub(super) struct Registration {
    pub(super) handle: AtomicUsize,
    pub(super) kind: &'static EventType,
    /// The context whose events are received; `None` for all contexts.
    pub(super) context: Option<u32>,
    pub(super) functions: Mutex<RegistrationFunctions>,
    pub(super) dropped: AtomicU64,
}

#[derive(Default)]
pub(super) struct RegistrationFunctions {
    callbacks: [Option<Callback>; LEVELS.len()],
    on_drop: Option<TEventDroppedCbFunction>,
    is_called: bool,
    /// Whether the registration was freed. `on_free` is called when its other functions have
    /// returned.
    is_freed: bool,
    on_free: Option<(TEventFreeCbFunction, usize)>,
}

pub(super) fn level(safety: TCbSafety) -> Result<usize> {
    LEVELS.iter().position(|level| *level == safety).ok_or(abi::MPI_T_ERR_INVALID)
}

pub(super) fn registered() -> Vec<Arc<Registration>> {
    locked(&ALL).clone()
}

impl Registration {
    pub(super) fn kind(&self) -> EventKind {
        self.kind.kind
    }

    pub(super) fn receives(&self, context: Option<u32>) -> bool {
        self.context.is_none() || self.context == context
    }

    pub(super) fn set_callback(&self, level: usize, callback: Option<Callback>) {
        locked(&self.functions).callbacks[level] = callback;
    }

    pub(super) fn has_callback(&self, level: usize) -> bool {
        locked(&self.functions).callbacks[level].is_some()
    }

    pub(super) fn set_on_drop(&self, on_drop: Option<TEventDroppedCbFunction>) {
        locked(&self.functions).on_drop = on_drop;
    }

    pub(super) fn note_dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    fn handle(&self) -> TEventRegistration {
        self.handle.load(Ordering::Relaxed)
    }

    /// Delivers an event that the registration receives, after the number of dropped events. The
    /// caller holds no lock.
    pub(super) fn deliver(&self, event: &Event) {
        let (callback, on_drop) = {
            let mut functions = locked(&self.functions);
            if functions.is_freed {
                return;
            }
            functions.is_called = true;
            (functions.callbacks.iter().flatten().next().copied(), functions.on_drop)
        };
        let user_data = callback.map_or(0, |callback| callback.user_data);
        if let Some(on_drop) = on_drop {
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                let (count, source) =
                    (i64::try_from(dropped).unwrap_or(i64::MAX), self.kind.source as c_int);
                // SAFETY: the argument of MPI_T_event_set_dropped_handler gets the arguments of the
                // standard.
                unsafe { on_drop(count, self.handle(), source, SITUATION, address(user_data)) };
            }
        }
        let is_meant = event.kind == self.kind() && self.receives(event.context);
        // The function for dropped events may have freed the registration.
        if is_meant
            && let Some(callback) = callback
            && !locked(&self.functions).is_freed
        {
            instances::during(*event, |instance| {
                // SAFETY: the argument of MPI_T_event_register_callback gets the arguments of the
                // standard.
                unsafe {
                    (callback.function)(instance, self.handle(), SITUATION, address(user_data))
                };
            });
        }
        let on_free = {
            let mut functions = locked(&self.functions);
            functions.is_called = false;
            functions.on_free.take()
        };
        self.call_on_free(on_free);
    }

    pub(super) fn free(&self, on_free: Option<(TEventFreeCbFunction, usize)>) {
        let now = {
            let mut functions = locked(&self.functions);
            functions.is_freed = true;
            if functions.is_called {
                functions.on_free = on_free;
                None
            } else {
                on_free
            }
        };
        self.call_on_free(now);
    }

    fn call_on_free(&self, on_free: Option<(TEventFreeCbFunction, usize)>) {
        if let Some((function, user_data)) = on_free {
            // SAFETY: the argument of MPI_T_event_handle_free gets the arguments of the standard.
            unsafe { function(self.handle(), SITUATION, address(user_data)) };
        }
    }
}
