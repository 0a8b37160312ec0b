//! The functions beyond the standard that make operations and error handlers with a state: their
//! addresses.

use crate::convert::*;
use crate::core;
use std::ffi::{c_int, c_void};

type Destructor = unsafe extern "C-unwind" fn(*mut c_void);
type UserFunction = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, i64, usize, *mut c_void);
type Handler = unsafe extern "C-unwind" fn(usize, c_int, *mut c_void);

pub(crate) fn op_create_x() -> usize {
    create_op as *const () as usize
}

unsafe extern "C-unwind" fn create_op(
    function: UserFunction,
    destroy: Destructor,
    commute: c_int,
    state: *mut c_void,
    op: *mut usize,
) -> c_int {
    let call = core!(MPIX_Op_create_x);
    unsafe { code_out(call(Some(function), Some(destroy), commute, state, op)) }
}

/// The function of an error handler, which gets codes of the other ABI.
struct HandlerState {
    handler: Handler,
    destroy: Destructor,
    state: *mut c_void,
}

unsafe extern "C-unwind" fn handle(object: usize, code: c_int, state: *mut c_void) {
    unsafe {
        let state = &*state.cast::<HandlerState>();
        (state.handler)(object, code_out(code), state.state);
    }
}

unsafe extern "C-unwind" fn destroy(state: *mut c_void) {
    unsafe {
        let state = Box::from_raw(state.cast::<HandlerState>());
        (state.destroy)(state.state);
    }
}

macro_rules! errhandlers {
    ($($name:ident $create:ident;)*) => { $(
        pub(crate) fn $name() -> usize {
            unsafe extern "C-unwind" fn create(
                handler: Handler,
                free: Destructor,
                state: *mut c_void,
                errhandler: *mut usize,
            ) -> c_int {
                let state = Box::into_raw(Box::new(HandlerState { handler, destroy: free, state }));
                unsafe {
                    let code =
                        core!($create)(Some(handle), Some(destroy), state.cast(), errhandler);
                    if code != 0 {
                        drop(Box::from_raw(state));
                    }
                    code_out(code)
                }
            }
            create as *const () as usize
        }
    )* };
}

errhandlers! {
    comm_errhandler_x MPIX_Comm_create_errhandler_x;
    file_errhandler_x MPIX_File_create_errhandler_x;
    session_errhandler_x MPIX_Session_create_errhandler_x;
    win_errhandler_x MPIX_Win_create_errhandler_x;
}
