//! Functions that take functions of the program for keys of attributes, generalized requests and
//! data representations, and what C++ libraries need of new objects.
//!
//! The library calls a function of this module, which converts the arguments and calls that of the
//! program. It finds it in a state that the library keeps for each object.
#![allow(non_snake_case)]

use crate::convert::*;
use crate::core;
use crate::handles::*;
use crate::statuses::*;
use oxmpi_abi::types::{Aint, Count, Offset, Status};
use oxmpi_foreign::{boxed, free};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the program, of any type; null for some predefined functions.
pub(crate) type Function = *const c_void;

thread_local! {
    /// The operation, error handler (the handle in the standard ABI) or key that this thread has
    /// made last, and its state. The C++ library changes the state just after it has made one.
    static LAST_MADE: Cell<(usize, *mut c_void)> = const { Cell::new((UNSET, ptr::null_mut())) };
}

/// Notes what this thread has made, and its state.
pub(crate) fn note_made(object: usize, state: *mut c_void) {
    LAST_MADE.set((object, state));
}

/// The state of the operation, error handler or key that this thread has made last, if it is this
/// one. `T` is the type of the states of such objects.
pub(crate) unsafe fn last_made<'a, T>(object: usize) -> Option<&'a T> {
    let (last, state) = LAST_MADE.get();
    (last == object).then(|| unsafe { &*state.cast::<T>() })
}

// Attributes.

/// The functions of a key, and their extra argument.
pub(crate) struct KeyState {
    pub(crate) copy: AtomicPtr<c_void>,
    pub(crate) delete: AtomicPtr<c_void>,
    pub(crate) extra: AtomicPtr<c_void>,
}

impl KeyState {
    fn boxed(copy: Function, delete: Function, extra: *mut c_void) -> *mut c_void {
        let [copy, delete] = [copy, delete].map(|function| AtomicPtr::new(function.cast_mut()));
        boxed(KeyState { copy, delete, extra: AtomicPtr::new(extra) })
    }
}

macro_rules! keyvals {
    ($($word:ident $name:ident $create:ident;)*) => { $(
        pub(crate) unsafe fn $name(
            copy: Function,
            delete: Function,
            key: *mut c_int,
            extra: *mut c_void,
        ) -> c_int {
            unsafe extern "C-unwind" fn copy_proxy(
                object: usize,
                key: c_int,
                state: *mut c_void,
                from: *mut c_void,
                to: *mut c_void,
                flag: *mut c_int,
            ) -> c_int {
                type Copy = unsafe extern "C-unwind" fn(
                    $word::Foreign,
                    c_int,
                    *mut c_void,
                    *mut c_void,
                    *mut c_void,
                    *mut c_int,
                ) -> c_int;
                unsafe {
                    let state = &*state.cast::<KeyState>();
                    let object = $word::foreign(object);
                    let function: Copy = transmute(state.copy.load(Ordering::Relaxed));
                    let extra = state.extra.load(Ordering::Relaxed);
                    code_in(function(object, key, extra, from, to, flag))
                }
            }
            unsafe extern "C-unwind" fn delete_proxy(
                object: usize,
                key: c_int,
                value: *mut c_void,
                state: *mut c_void,
            ) -> c_int {
                type Delete = unsafe extern "C-unwind" fn(
                    $word::Foreign,
                    c_int,
                    *mut c_void,
                    *mut c_void,
                ) -> c_int;
                unsafe {
                    let state = &*state.cast::<KeyState>();
                    let object = $word::foreign(object);
                    let function: Delete = transmute(state.delete.load(Ordering::Relaxed));
                    let extra = state.extra.load(Ordering::Relaxed);
                    code_in(function(object, key, value, extra))
                }
            }
            let mut made = NOT_STORED;
            unsafe {
                let state = KeyState::boxed(copy, delete, extra);
                let code = core!($create)(
                    if copy.is_null() { None } else { Some(copy_proxy) },
                    if delete.is_null() { None } else { Some(delete_proxy) },
                    Some(free::<KeyState>),
                    number_place(key, &mut made),
                    state,
                );
                match code {
                    0 => note_made(made as usize, state),
                    _ => free::<KeyState>(state),
                }
                number_out(key, made, keyval_out);
                code_out(code)
            }
        }
    )* };
}

keyvals! {
    comm MPI_Comm_create_keyval MPIX_Comm_create_keyval_x;
    comm MPI_Keyval_create MPIX_Comm_create_keyval_x;
    datatype MPI_Type_create_keyval MPIX_Type_create_keyval_x;
    win MPI_Win_create_keyval MPIX_Win_create_keyval_x;
}

// Generalized requests.

struct RequestState {
    query: Function,
    free: Function,
    cancel: Function,
    extra: *mut c_void,
}

unsafe extern "C-unwind" fn query(state: *mut c_void, status: *mut Status) -> c_int {
    type Query = unsafe extern "C-unwind" fn(*mut c_void, *mut ForeignStatus) -> c_int;
    unsafe {
        let state = &*state.cast::<RequestState>();
        let function: Query = transmute(state.query);
        let mut foreign = foreign_status(&*status);
        let code = function(state.extra, &mut foreign);
        *status = status_in(&foreign);
        code_in(code)
    }
}

unsafe extern "C-unwind" fn free_request(state: *mut c_void) -> c_int {
    type Free = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
    unsafe {
        let state = Box::from_raw(state.cast::<RequestState>());
        let function: Free = transmute(state.free);
        code_in(function(state.extra))
    }
}

unsafe extern "C-unwind" fn cancel(state: *mut c_void, complete: c_int) -> c_int {
    type Cancel = unsafe extern "C-unwind" fn(*mut c_void, c_int) -> c_int;
    unsafe {
        let state = &*state.cast::<RequestState>();
        let function: Cancel = transmute(state.cancel);
        code_in(function(state.extra, complete))
    }
}

pub(crate) unsafe fn MPI_Grequest_start(
    query_fn: Function,
    free_fn: Function,
    cancel_fn: Function,
    extra: *mut c_void,
    request: *mut request::Foreign,
) -> c_int {
    let mut made = UNSET;
    unsafe {
        let state = RequestState { query: query_fn, free: free_fn, cancel: cancel_fn, extra };
        let state = boxed(state);
        let code = core!(MPI_Grequest_start)(
            if query_fn.is_null() { None } else { Some(query) },
            if free_fn.is_null() { None } else { Some(free_request) },
            if cancel_fn.is_null() { None } else { Some(cancel) },
            state,
            handle_place(request.is_null(), &mut made),
        );
        if code != 0 {
            free::<RequestState>(state);
        }
        request::output(request, made);
        code_out(code)
    }
}

// Data representations.

struct RepresentationState {
    read: Function,
    write: Function,
    extent: Function,
    extra: *mut c_void,
}

unsafe extern "C-unwind" fn extent(
    datatype: usize,
    extent: *mut Aint,
    state: *mut c_void,
) -> c_int {
    type Extent = unsafe extern "C-unwind" fn(datatype::Foreign, *mut Aint, *mut c_void) -> c_int;
    unsafe {
        let state = &*state.cast::<RepresentationState>();
        let function: Extent = transmute(state.extent);
        code_in(function(datatype::foreign(datatype), extent, state.extra))
    }
}

unsafe extern "C-unwind" fn convert<const READS: bool, N>(
    user: *mut c_void,
    datatype: usize,
    count: N,
    file: *mut c_void,
    position: Offset,
    state: *mut c_void,
) -> c_int {
    type Conversion<N> = unsafe extern "C-unwind" fn(
        *mut c_void,
        datatype::Foreign,
        N,
        *mut c_void,
        Offset,
        *mut c_void,
    ) -> c_int;
    unsafe {
        let state = &*state.cast::<RepresentationState>();
        let function: Conversion<N> = transmute(if READS { state.read } else { state.write });
        let datatype = datatype::foreign(datatype);
        code_in(function(user, datatype, count, file, position, state.extra))
    }
}

macro_rules! representations {
    ($($name:ident $number:ty;)*) => { $(
        /// A registered data representation stays for the rest of the process, as does its state.
        pub(crate) unsafe fn $name(
            name: *const c_char,
            read: Function,
            write: Function,
            extent_fn: Function,
            extra: *mut c_void,
        ) -> c_int {
            unsafe {
                let state = RepresentationState { read, write, extent: extent_fn, extra };
                let state = boxed(state);
                let code = core!($name)(
                    name,
                    if read.is_null() { None } else { Some(convert::<true, $number>) },
                    if write.is_null() { None } else { Some(convert::<false, $number>) },
                    if extent_fn.is_null() { None } else { Some(extent) },
                    state,
                );
                if code != 0 {
                    free::<RepresentationState>(state);
                }
                code_out(code)
            }
        }
    )* };
}

representations! {
    MPI_Register_datarep c_int;
    MPI_Register_datarep_c Count;
}
