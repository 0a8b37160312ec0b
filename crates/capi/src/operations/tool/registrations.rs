//! Event registrations (MPI-5.0 section 15.3.8): their handles, and when events are observed.

use super::checks::{Result, at, measured};
use super::handles::Handles;
use super::hub;
use super::registered::{ALL, Registration};
use crate::state::library::running_unless_closed;
use crate::state::locked;
use crate::state::objects::ObjectKind;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, TEventFreeCbFunction, TEventRegistration};
use oxmpi_core::tool::events::{self, EventType};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

const MOST: usize = 1 << 12;

static HANDLES: LazyLock<Handles<Arc<Registration>>> = LazyLock::new(|| {
    Handles::new(
        ObjectKind::Registration,
        MOST,
        abi::MPI_T_ERR_INVALID_HANDLE,
        abi::MPI_T_ERR_OUT_OF_HANDLES,
    )
});

/// Adds a registration. The first one starts the observation of events.
pub(super) fn add(kind: &'static EventType, comm: Option<Comm>) -> Result<TEventRegistration> {
    let context = match comm {
        None => None,
        Some(comm) => {
            let library = running_unless_closed().ok_or(abi::MPI_T_ERR_INVALID_HANDLE)?;
            let comm = library.communicator(comm).map_err(|_| abi::MPI_T_ERR_INVALID_HANDLE)?;
            Some(comm.team.point_to_point)
        }
    };
    // A thread that may not call MPI must not register.
    measured()?;
    let one = Arc::new(Registration {
        handle: AtomicUsize::new(0),
        kind,
        context,
        functions: Mutex::default(),
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

pub(super) fn get(handle: TEventRegistration) -> Result<Arc<Registration>> {
    Ok((*HANDLES.get(handle)?).clone())
}

/// Frees a registration. `on_free` is called when none of its functions runs.
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

pub(super) fn free_all() {
    // Another thread may have freed the handle.
    HANDLES.all().for_each(|handle| _ = remove(handle, None));
}

pub(super) fn event_type(index: c_int) -> Result<&'static EventType> {
    at(events::all(), index)
}
