//! The functions that Open MPI's C++ library (`libmpi_cxx.so.40`) calls.

use crate::callbacks::{self, FunctionState};
use crate::convert::code_in;
use crate::core;
use crate::handles::*;
use crate::objects;
use crate::states::{self, Function, last_made};
use oxmpi_abi::constants as abi;
use std::ffi::{c_char, c_int, c_void};
use std::io::Write as _;
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last argument of an operation's function, which is one of the C++ library.
#[unsafe(no_mangle)]
unsafe extern "C" fn ompi_op_set_cxx_callback(op: op::Foreign, last: *mut c_void) {
    if let Some(state) = unsafe { last_made::<FunctionState>(op::input(op)) } {
        state.cxx.store(last, Ordering::Relaxed);
    }
}

/// What the functions of a key of communicators call, as the C++ library has it in memory.
#[repr(C)]
struct KeyOfComms {
    /// The functions of the program that have the types of C.
    copy: Function,
    delete: Function,
}

/// Makes a key of communicators (1), datatypes (2) or windows (3). The functions have the types of
/// C. Those of communicators read the object behind the handle, which is none here, before they
/// call a function of C++.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ompi_attr_create_keyval(
    kind: c_int,
    copy: Function,
    delete: Function,
    key: *mut c_int,
    extra: *mut c_void,
    _flags: c_int,
    of_comms: *const KeyOfComms,
) -> c_int {
    let has_types_of_c =
        unsafe { of_comms.as_ref() }.is_none_or(|key| !key.copy.is_null() && !key.delete.is_null());
    let create = match kind {
        2 => states::MPI_Type_create_keyval,
        3 => states::MPI_Win_create_keyval,
        _ if has_types_of_c => states::MPI_Comm_create_keyval,
        _ => refuse_functions_of_comms(),
    };
    unsafe { create(copy, delete, key, extra) }
}

fn refuse_functions_of_comms() -> ! {
    // Nothing else can be done if the line cannot be written.
    let _ = writeln!(
        std::io::stderr(),
        "OxMPI: libmpi.so.40 cannot serve MPI::Comm::Create_keyval with functions of C++. Use \
         functions with the types of C, as for MPI_Comm_create_keyval."
    );
    std::process::abort()
}

/// An error handler for the C++ library, which stores a function in it just after it is made.
#[repr(C)]
struct CxxHandler {
    unused: [usize; 15],
    /// Calls the function of the program.
    caller: AtomicPtr<c_void>,
}

/// Error handlers of the C++ library: the address of each, and the handle in the standard ABI. The
/// objects are never freed.
static HANDLERS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

fn handlers() -> MutexGuard<'static, Vec<(usize, usize)>> {
    HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an error handler of communicators (1), windows (2) or files (3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ompi_errhandler_create(
    kind: c_int,
    function: Function,
    _language: c_int,
) -> errhandler::Foreign {
    let create = match kind {
        2 => callbacks::MPI_Win_create_errhandler,
        3 => callbacks::MPI_File_create_errhandler,
        _ => callbacks::MPI_Comm_create_errhandler,
    };
    let mut made = 0;
    // After an error the caller gets an object that is no error handler.
    unsafe { create(function, &mut made) };
    let handle = objects::input(made);
    let object = CxxHandler { unused: [0; 15], caller: AtomicPtr::default() };
    let object = ptr::from_mut(Box::leak(Box::new(object)));
    if let Some(state) = unsafe { last_made::<FunctionState>(handle) } {
        state.cxx.store(object.cast(), Ordering::Relaxed);
    }
    handlers().push((object.addr(), handle));
    object.addr()
}

/// The handle of an error handler, also of one of the C++ library.
pub(crate) fn errhandler_input(foreign: usize) -> usize {
    let handle = objects::input(foreign);
    if handle & MARKS != REFUSED {
        return handle;
    }
    let known = handlers().iter().find(|(object, _)| *object == foreign).map(|(_, handle)| *handle);
    known.unwrap_or(handle)
}

/// The same error handler in this ABI.
pub(crate) fn errhandler_foreign(handle: usize) -> usize {
    let known = handlers().iter().find(|(_, known)| *known == handle).map(|(object, _)| *object);
    known.unwrap_or_else(|| objects::foreign(handle))
}

/// Reports an error of the C++ library itself, which names MPI_COMM_WORLD or MPI_FILE_NULL.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ompi_errhandler_invoke(
    _errhandler: *const c_void,
    object: usize,
    _kind: c_int,
    code: c_int,
    _message: *const c_char,
) -> c_int {
    match objects::input(object) {
        abi::MPI_FILE_NULL => unsafe {
            core!(MPI_File_call_errhandler)(abi::MPI_FILE_NULL, code_in(code))
        },
        comm => unsafe { core!(MPI_Comm_call_errhandler)(comm, code_in(code)) },
    };
    code
}

pub(crate) unsafe fn operate(
    last: Function,
    function: Function,
    from: *mut c_void,
    to: *mut c_void,
    count: &mut c_int,
    datatype: &mut datatype::Foreign,
) {
    type Operate = unsafe extern "C-unwind" fn(
        *mut c_void,
        *mut c_void,
        *mut c_int,
        *mut datatype::Foreign,
        Function,
    );
    unsafe { transmute::<Function, Operate>(function)(from, to, count, datatype, last) };
}

/// Calls the function of an error handler, if the C++ library has made it.
pub(crate) unsafe fn handle(
    state: &FunctionState,
    _: &str,
    object: *mut c_void,
    code: &mut c_int,
) -> bool {
    type Handle = unsafe extern "C-unwind" fn(*mut c_void, *mut c_int, *const c_char, Function);
    let Some(handler) = state.cxx() else { return false };
    unsafe {
        let caller = (*handler.cast::<CxxHandler>()).caller.load(Ordering::Relaxed);
        let caller: Handle = transmute(caller);
        caller(object, code, c"".as_ptr(), state.function);
    }
    true
}
