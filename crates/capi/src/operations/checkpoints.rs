//! Functions of the program that save and restore its state (`cr self`). MPI_Init finds them by
//! name. At the launcher's request, a helper thread calls them on all ranks at the same time.
//!
//! While such a function runs, MPI is closed ([`Closed`]): calls of the function itself
//! fail, and new calls of other threads wait. Calls that have begun continue. MPI stays closed
//! until the save functions of all ranks have returned. Otherwise a rank could save its state and
//! then send a message that another rank receives before saving. The saved states would then
//! contain a received message that was never sent.

use crate::errors::end_job;
use crate::state::library::{Closed, Running};
use crate::state::locked;
use oxmpi_param::Params;
use oxmpi_rt_client::client::RESTART_VARIABLE;
use oxmpi_shm::segment::{CheckpointCall, OwnerStatus};
use std::ffi::{CString, c_int};
use std::sync::Mutex;

/// The type `int f(void)`; 0 means success.
type Function = unsafe extern "C-unwind" fn() -> c_int;

struct CheckpointFunctions {
    checkpoint: (Function, String),
    restart: (Function, String),
    go_on: (Function, String),
}

/// MPI can be initialised several times, but needs only one helper thread.
static HAS_HELPER: Mutex<bool> = Mutex::new(false);

/// For `cr self`: finds the functions, restores the program's state after a restart, and starts the
/// helper. A missing function ends the job.
pub(crate) fn begin(library: &'static Running) {
    let params = library.modules.params();
    if params.cr() != Some("self") || library.client.is_singleton() {
        return;
    }
    let mut has_helper = locked(&HAS_HELPER);
    if std::mem::replace(&mut *has_helper, true) {
        return;
    }
    let functions =
        find(params).unwrap_or_else(|text| end_job(1, &format!("MPI_Init: cr self: {text}")));
    if std::env::var_os(RESTART_VARIABLE).is_some() {
        let (restart, name) = &functions.restart;
        let value = call(*restart, &Closed::begin());
        if value != 0 {
            end_job(
                1,
                &format!(
                    "MPI_Init: cr self: {name} has returned {value}: the job cannot go on from its checkpoint"
                ),
            );
        }
    }
    let status = library.client.segment().status();
    // The note is made here and not by the helper, which may start long after MPI_Init on a busy
    // machine. A call of the launcher waits for the helper.
    status.note_return(0, OwnerStatus::HELPED);
    let serve = move || {
        let (mut last, mut closed) = (0, None);
        loop {
            last = status.await_call(last);
            match CheckpointCall::of(last) {
                CheckpointCall::Save => {
                    let closed = closed.get_or_insert_with(Closed::begin);
                    status.note_return(last, call(functions.checkpoint.0, closed));
                }
                CheckpointCall::Open => closed = None,
                CheckpointCall::Continue => {
                    status.note_return(last, call(functions.go_on.0, &Closed::begin()));
                    closed = None;
                }
            }
        }
    };
    let started = oxmpi_sys::spawn::without_signals(|| {
        std::thread::Builder::new().name("oxmpi-cr".into()).spawn(serve)
    });
    if let Err(error) = started {
        end_job(1, &format!("MPI_Init: cr self: no thread for it can be started: {error}"));
    }
}

fn call(function: Function, closed: &Closed) -> c_int {
    // SAFETY: by naming this function in a parameter of `cr self`, the user promises its type.
    closed.run(|| unsafe { function() })
}

/// Finds the functions that the parameters name. An error is a message for the user.
fn find(params: &Params) -> Result<CheckpointFunctions, String> {
    let found = |name: String, parameter: &str| {
        let function = look_up(&name).ok_or_else(|| {
            format!(
                "symbol lookup failed: the program exports no function '{name}' (parameter \
                 {parameter}): link it with mpicc, or add -Wl,--export-dynamic"
            )
        })?;
        Ok::<_, String>((function, name))
    };
    let [checkpoint, restart, go_on] = params.cr_self_functions()?;
    Ok(CheckpointFunctions {
        checkpoint: found(checkpoint.0, checkpoint.1)?,
        restart: found(restart.0, restart.1)?,
        go_on: found(go_on.0, go_on.1)?,
    })
}

/// Finds a function by its name in C, or as Fortran compilers write it: in small letters, with an
/// underscore.
fn look_up(name: &str) -> Option<Function> {
    [name.to_string(), format!("{name}_"), format!("{}_", name.to_lowercase())]
        .into_iter()
        .find_map(|name| {
            let name = CString::new(name).ok()?;
            // SAFETY: the name ends with a zero.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            // SAFETY: null becomes `None`; another pointer is a function of this type (see `call`).
            unsafe { std::mem::transmute::<*mut libc::c_void, Option<Function>>(found) }
        })
}
