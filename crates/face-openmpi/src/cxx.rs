//! The functions that Open MPI's C++ library (`libmpi_cxx.so.40`) calls.

use crate::callbacks::{Function, FunctionState, KeyState, last_made};
use crate::handles::*;
use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::mem::transmute;
use std::sync::atomic::Ordering;

/// No function of the C++ library calls those of a key.
pub(crate) type KeyFunctions = ();

/// The last argument of an operation's function, which is one of the C++ library.
#[unsafe(no_mangle)]
unsafe extern "C" fn ompi_op_set_cxx_callback(op: op::Foreign, last: *mut c_void) {
    if let Some(state) = unsafe { last_made::<FunctionState>(op::input(op)) } {
        state.cxx.store(last, Ordering::Relaxed);
    }
}

macro_rules! lacking {
    ($($name:ident $purpose:literal;)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> ! {
            let (name, purpose) = (stringify!($name), $purpose);
            // Nothing else can be done if the line cannot be written.
            let _ = writeln!(
                std::io::stderr(),
                "OxMPI: libmpi.so.40 lacks the function {name}, which the C++ bindings of Open MPI \
                 need for {purpose}. Use the C functions of MPI for them."
            );
            std::process::abort()
        }
    )* };
}

lacking! {
    ompi_attr_create_keyval "keys of attributes";
    ompi_errhandler_create "error handlers";
    ompi_errhandler_invoke "calls of error handlers";
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

/// The C++ library makes error handlers by functions that are lacking, so it calls none.
pub(crate) unsafe fn handle(_: &FunctionState, _: &str, _: *mut c_void, _: &mut c_int) -> bool {
    false
}

/// As [`handle`], for keys of attributes.
pub(crate) unsafe fn copy(
    _: &KeyState,
    _: usize,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_int,
) -> Option<c_int> {
    None
}

/// See [`copy`].
pub(crate) unsafe fn delete(_: &KeyState, _: usize, _: c_int, _: *mut c_void) -> Option<c_int> {
    None
}
