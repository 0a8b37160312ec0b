//! The objects of variables and events of the tool interface: an argument is the address of a
//! handle, whose type the variable says.
#![allow(non_snake_case)]

use crate::convert::*;
use crate::core;
use crate::handles::*;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{TCvarHandle, TEventRegistration, TPvarHandle, TPvarSession};
use std::ffi::{c_int, c_void};
use std::ptr::{self, null_mut};

/// The address of the object's handle for the C function, which reads it. `own` has the handle.
unsafe fn object_in(bind: c_int, object: *mut c_void, own: &mut usize) -> *mut c_void {
    if object.is_null() {
        return object;
    }
    *own = unsafe {
        match bind {
            abi::MPI_T_BIND_MPI_COMM => comm::at(object.cast()),
            abi::MPI_T_BIND_MPI_DATATYPE => datatype::at(object.cast()),
            abi::MPI_T_BIND_MPI_ERRHANDLER => errhandler::at(object.cast()),
            abi::MPI_T_BIND_MPI_FILE => file::at(object.cast()),
            abi::MPI_T_BIND_MPI_GROUP => group::at(object.cast()),
            abi::MPI_T_BIND_MPI_OP => op::at(object.cast()),
            abi::MPI_T_BIND_MPI_REQUEST => request::at(object.cast()),
            abi::MPI_T_BIND_MPI_WIN => win::at(object.cast()),
            abi::MPI_T_BIND_MPI_MESSAGE => message::at(object.cast()),
            abi::MPI_T_BIND_MPI_INFO => info::at(object.cast()),
            abi::MPI_T_BIND_MPI_SESSION => session::at(object.cast()),
            _ => return object,
        }
    };
    ptr::from_mut(own).cast()
}

pub(crate) unsafe fn MPI_T_cvar_handle_alloc(
    index: c_int,
    object: *mut c_void,
    handle: *mut TCvarHandle,
    count: *mut c_int,
) -> c_int {
    let (no, text, kind, values) = (null_mut(), null_mut(), null_mut(), null_mut());
    let (mut bind, mut own) = (abi::MPI_T_BIND_NO_OBJECT, 0);
    unsafe {
        // The call below reports a bad index.
        let get = core!(MPI_T_cvar_get_info);
        get(index, text, no, no, kind, values, text, no, &mut bind, no);
        let object = object_in(bind, object, &mut own);
        code_out(core!(MPI_T_cvar_handle_alloc)(index, object, handle, count))
    }
}

pub(crate) unsafe fn MPI_T_pvar_handle_alloc(
    session: TPvarSession,
    index: c_int,
    object: *mut c_void,
    handle: *mut TPvarHandle,
    count: *mut c_int,
) -> c_int {
    let (no, text, kind, values) = (null_mut(), null_mut(), null_mut(), null_mut());
    let (mut bind, mut own) = (abi::MPI_T_BIND_NO_OBJECT, 0);
    unsafe {
        // The call below reports a bad index.
        let get = core!(MPI_T_pvar_get_info);
        get(index, text, no, no, no, kind, values, text, no, &mut bind, no, no, no);
        let object = object_in(bind, object, &mut own);
        code_out(core!(MPI_T_pvar_handle_alloc)(session, index, object, handle, count))
    }
}

pub(crate) unsafe fn MPI_T_event_handle_alloc(
    index: c_int,
    object: *mut c_void,
    info: info::Foreign,
    registration: *mut TEventRegistration,
) -> c_int {
    let (no, text, kinds, places) = (null_mut(), null_mut(), null_mut(), null_mut());
    let values = null_mut();
    let (mut bind, mut own) = (abi::MPI_T_BIND_NO_OBJECT, 0);
    unsafe {
        // The call below reports a bad index.
        let get = core!(MPI_T_event_get_info);
        get(index, text, no, no, kinds, places, no, values, null_mut(), text, no, &mut bind);
        let object = object_in(bind, object, &mut own);
        let info = info::input(info);
        code_out(core!(MPI_T_event_handle_alloc)(index, object, info, registration))
    }
}
