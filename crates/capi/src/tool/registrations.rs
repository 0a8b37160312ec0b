//! Event registrations: who wants to hear of what, and how (MPI-5.0 section 15.3.8).
//!
//! A callback runs where its thread may call MPI, so the safety level of the situation is always MPI_T_CB_REQUIRE_NONE,
//! which a callback of any level meets; of several that one is called which promises least.

use super::handles::Handles;
use super::{Result, hub, instances};
use crate::library::running_unless_closed;
use crate::objects::locked;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    Comm, TCbSafety, TEventCbFunction, TEventDroppedCbFunction, TEventFreeCbFunction, TEventRegistration,
};
use oxmpi_core::tool::events::{self, EventType};
use oxmpi_core::tool::{Event, EventKind};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

/// The most registrations at a time.
const MOST: usize = 1 << 12;

static HANDLES: LazyLock<Handles<Arc<Registration>>> =
    LazyLock::new(|| Handles::new(MOST, abi::MPI_T_ERR_INVALID_HANDLE, abi::MPI_T_ERR_OUT_OF_HANDLES));
/// Those that hear of events.
static ALL: Mutex<Vec<Arc<Registration>>> = Mutex::new(Vec::new());

/// The safety level of the situations in which callbacks are called.
const SITUATION: TCbSafety = abi::MPI_T_CB_REQUIRE_NONE;
/// The safety levels that a callback may have, the one that promises least first.
const LEVELS: [TCbSafety; 4] = [
    abi::MPI_T_CB_REQUIRE_NONE,
    abi::MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    abi::MPI_T_CB_REQUIRE_THREAD_SAFE,
    abi::MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

/// A callback with the address that it is given.
#[derive(Clone, Copy)]
pub(super) struct Callback {
    pub(super) function: TEventCbFunction,
    pub(super) user_data: usize,
}

fn address(user_data: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(user_data)
}

/// A registration.
pub(super) struct Registration {
    handle: AtomicUsize,
    kind: &'static EventType,
    /// The context whose events it hears of; of all if there is none.
    context: Option<u32>,
    told: Mutex<Told>,
    dropped: AtomicU64,
}

/// How a registration is told.
#[derive(Default)]
struct Told {
    /// By safety level.
    callbacks: [Option<Callback>; LEVELS.len()],
    on_drop: Option<TEventDroppedCbFunction>,
    /// Its functions are being called.
    is_called: bool,
    /// It was freed: what is to be called when its other functions have returned.
    is_freed: bool,
    on_free: Option<(TEventFreeCbFunction, usize)>,
}

/// The place of a safety level.
pub(super) fn level(safety: TCbSafety) -> Result<usize> {
    LEVELS.iter().position(|level| *level == safety).ok_or(abi::MPI_T_ERR_INVALID)
}

/// Registers for an event; the handle. The first one lets MPI keep events.
pub(super) fn add(kind: &'static EventType, comm: Option<Comm>) -> Result<TEventRegistration> {
    let context = match comm {
        None => None,
        Some(comm) => {
            let library = running_unless_closed().ok_or(abi::MPI_T_ERR_INVALID_HANDLE)?;
            let comm = library.communicator(comm).map_err(|_| abi::MPI_T_ERR_INVALID_HANDLE)?;
            Some(comm.team.point_to_point)
        }
    };
    // Not from a thread that may not call MPI.
    super::measured()?;
    let one = Arc::new(Registration {
        handle: AtomicUsize::new(0),
        kind,
        context,
        told: Mutex::default(),
        dropped: AtomicU64::new(0),
    });
    let handle = HANDLES.insert(one.clone())?;
    one.handle.store(handle, Ordering::Relaxed);
    locked(&ALL).push(one);
    if hub::observe().is_err() {
        remove(handle, None)?;
        return Err(abi::MPI_T_ERR_NOT_ACCESSIBLE);
    }
    Ok(handle)
}

/// The registration of a handle.
pub(super) fn get(handle: TEventRegistration) -> Result<Arc<Registration>> {
    Ok((*HANDLES.get(handle)?).clone())
}

/// All that hear of events.
pub(super) fn registered() -> Vec<Arc<Registration>> {
    locked(&ALL).clone()
}

/// Frees a registration. `on_free` is called when none of its functions runs any more.
pub(super) fn remove(
    handle: TEventRegistration,
    on_free: Option<(TEventFreeCbFunction, usize)>,
) -> Result<()> {
    let one = get(handle)?;
    HANDLES.free(handle)?;
    let is_last = {
        let mut all = locked(&ALL);
        all.retain(|other| !Arc::ptr_eq(other, &one));
        all.is_empty()
    };
    if is_last {
        hub::unobserve();
    }
    one.free(on_free);
    Ok(())
}

/// Frees all of them.
pub(super) fn free_all() {
    // Somebody else may be faster.
    HANDLES.all().for_each(|handle| _ = remove(handle, None));
}

impl Registration {
    /// What it hears of.
    pub(super) fn kind(&self) -> EventKind {
        self.kind.kind
    }

    /// Whether it hears of events of this context.
    pub(super) fn hears_of(&self, context: Option<u32>) -> bool {
        self.context.is_none() || self.context == context
    }

    /// Sets or removes the callback of a safety level.
    pub(super) fn set_callback(&self, level: usize, callback: Option<Callback>) {
        locked(&self.told).callbacks[level] = callback;
    }

    /// Whether there is a callback of a safety level.
    pub(super) fn has_callback(&self, level: usize) -> bool {
        locked(&self.told).callbacks[level].is_some()
    }

    /// Sets or removes the function that is told of dropped events.
    pub(super) fn set_on_drop(&self, on_drop: Option<TEventDroppedCbFunction>) {
        locked(&self.told).on_drop = on_drop;
    }

    /// Some events were dropped.
    pub(super) fn note_dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }

    fn handle(&self) -> TEventRegistration {
        self.handle.load(Ordering::Relaxed)
    }

    /// Tells an event, if it is one of those that are wanted, and before it how many were dropped. Nothing is locked.
    pub(super) fn tell(&self, event: &Event) {
        let (callback, on_drop) = {
            let mut told = locked(&self.told);
            if told.is_freed {
                return;
            }
            told.is_called = true;
            (told.callbacks.iter().flatten().next().copied(), told.on_drop)
        };
        let user_data = callback.map_or(0, |callback| callback.user_data);
        if let Some(on_drop) = on_drop {
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                let (count, source) = (i64::try_from(dropped).unwrap_or(i64::MAX), self.kind.source as c_int);
                // SAFETY: it is what MPI_T_event_set_dropped_handler was given, and gets what the standard says.
                unsafe { on_drop(count, self.handle(), source, SITUATION, address(user_data)) };
            }
        }
        let is_meant = event.kind == self.kind() && self.hears_of(event.context);
        // A function that was told of dropped events may have freed the registration.
        if is_meant
            && let Some(callback) = callback
            && !locked(&self.told).is_freed
        {
            instances::during(*event, |instance| {
                // SAFETY: it is what MPI_T_event_register_callback was given, and gets what the standard says.
                unsafe { (callback.function)(instance, self.handle(), SITUATION, address(user_data)) };
            });
        }
        let on_free = {
            let mut told = locked(&self.told);
            told.is_called = false;
            told.on_free.take()
        };
        self.call_on_free(on_free);
    }

    fn free(&self, on_free: Option<(TEventFreeCbFunction, usize)>) {
        let now = {
            let mut told = locked(&self.told);
            told.is_freed = true;
            if told.is_called {
                told.on_free = on_free;
                None
            } else {
                on_free
            }
        };
        self.call_on_free(now);
    }

    fn call_on_free(&self, on_free: Option<(TEventFreeCbFunction, usize)>) {
        if let Some((function, user_data)) = on_free {
            // SAFETY: it is what MPI_T_event_handle_free was given, and gets what the standard says.
            unsafe { function(self.handle(), SITUATION, address(user_data)) };
        }
    }
}

/// The type of event with this index.
pub(super) fn event_type(index: c_int) -> Result<&'static EventType> {
    super::at(events::all(), index)
}
