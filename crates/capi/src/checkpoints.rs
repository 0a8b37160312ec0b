//! Functions of the program that save and restore its state (`cr self`): found by name when MPI is initialised, and called by a helper, a
//! thread of its own, when the launcher wants it, at the same time on all ranks. While one runs MPI is closed
//! ([`library::Closed`]): the function's own calls are refused, and those of other threads wait. Who is within a call already stays there.
//! MPI stays closed until the functions that save have returned on all ranks, so that no rank can have received what its sender had not
//! sent yet when that saved its state.

use crate::errors::end_job;
use crate::library::{Closed, Running};
use crate::objects::locked;
use oxmpi_param::Params;
use oxmpi_rt::client::RESTART_VARIABLE;
use oxmpi_shm::segment::{CheckpointCall, Status};
use std::ffi::{CString, c_int};
use std::sync::Mutex;

/// `int f(void)`; 0: all is well.
type Function = unsafe extern "C-unwind" fn() -> c_int;

/// Those of the program, with their names.
struct Functions {
    checkpoint: (Function, String),
    restart: (Function, String),
    go_on: (Function, String),
}

/// There is one helper, however often MPI is initialised.
static HAS_HELPER: Mutex<bool> = Mutex::new(false);

/// Looks the functions up, if the job has them; restores the state of the program, if it is to go on from a checkpoint; and starts the
/// helper. A function that is missing ends the job.
pub(crate) fn begin(library: &'static Running) {
    let params = library.modules.params();
    if params.cr() != Some("self") || library.client.is_singleton() {
        return;
    }
    let mut has_helper = locked(&HAS_HELPER);
    if std::mem::replace(&mut *has_helper, true) {
        return;
    }
    let functions = find(params).unwrap_or_else(|text| end_job(1, &format!("MPI_Init: cr self: {text}")));
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
    let serve = move || {
        status.note_return(0, Status::HELPED);
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
    // SAFETY: the program has a function of this name, and has asked for it to be called as one without arguments.
    closed.run(|| unsafe { function() })
}

/// The functions by the parameters; the error is for a person.
fn find(params: &Params) -> Result<Functions, String> {
    let found = |name: String, parameter: &str| {
        let function = look_up(&name).ok_or_else(|| {
            format!(
                "symbol lookup failed: the program has no function '{name}' (parameter {parameter}) among its dynamic symbols; mpicc and \
                 mpifort link so that all of them are found, other linkers need -Wl,--export-dynamic"
            )
        })?;
        Ok::<_, String>((function, name))
    };
    let [checkpoint, restart, go_on] = params.cr_self_functions()?;
    Ok(Functions {
        checkpoint: found(checkpoint.0, checkpoint.1)?,
        restart: found(restart.0, restart.1)?,
        go_on: found(go_on.0, go_on.1)?,
    })
}

/// A function of the program by its name in C, or as Fortran compilers write it: in small letters, with an underscore.
fn look_up(name: &str) -> Option<Function> {
    [name.to_string(), format!("{name}_"), format!("{}_", name.to_lowercase())].into_iter().find_map(|name| {
        let name = CString::new(name).ok()?;
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // SAFETY: a null pointer is no function, and another one is a function of this type by the contract of `call`.
        unsafe { std::mem::transmute::<*mut libc::c_void, Option<Function>>(found) }
    })
}
