//! Functions that take functions of the program.
//!
//! The library calls a function of this module, which converts the arguments and calls that of the
//! program. It finds it in a state that the library keeps for each object.
#![allow(non_snake_case)]

use crate::convert::*;
use crate::core;
use crate::cxx;
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

/// A function of the program, and that of its C++ library which calls it, if there is one.
pub(crate) struct FunctionState {
    pub(crate) function: Function,
    pub(crate) cxx: AtomicPtr<c_void>,
}

impl FunctionState {
    fn boxed(function: Function) -> *mut c_void {
        boxed(FunctionState { function, cxx: AtomicPtr::default() })
    }

    /// The function of the C++ library.
    pub(crate) fn cxx(&self) -> Option<Function> {
        let cxx = self.cxx.load(Ordering::Relaxed).cast_const();
        (!cxx.is_null()).then_some(cxx)
    }
}

thread_local! {
    /// The operation, error handler (the handle in the standard ABI) or key that this thread has
    /// made last, and its state. The C++ library changes the state just after it has made one.
    static LAST_MADE: Cell<(usize, *mut c_void)> = const { Cell::new((UNSET, ptr::null_mut())) };
}

/// The state of the operation, error handler or key that this thread has made last, if it is this
/// one. `T` is the type of the states of such objects.
pub(crate) unsafe fn last_made<'a, T>(object: usize) -> Option<&'a T> {
    let (last, state) = LAST_MADE.get();
    (last == object).then(|| unsafe { &*state.cast::<T>() })
}

// Operations.

unsafe extern "C-unwind" fn operate(
    from: *mut c_void,
    to: *mut c_void,
    count: Count,
    datatype: usize,
    state: *mut c_void,
) {
    unsafe {
        let state = &*state.cast::<FunctionState>();
        let mut foreign = datatype::foreign(datatype);
        let (mut left, mut from, mut to) = (count, from, to);
        // An int may be too short for the number of elements.
        while left > c_int::MAX.into() {
            let (mut lower, mut extent, mut most) = (0, 0, c_int::MAX);
            core!(MPI_Type_get_extent)(datatype, &mut lower, &mut extent);
            operate_once(state, from, to, &mut most, &mut foreign);
            from = from.wrapping_byte_offset(extent * most as isize);
            to = to.wrapping_byte_offset(extent * most as isize);
            left -= Count::from(most);
        }
        let mut count = left as c_int;
        operate_once(state, from, to, &mut count, &mut foreign);
    }
}

unsafe fn operate_once(
    state: &FunctionState,
    from: *mut c_void,
    to: *mut c_void,
    count: &mut c_int,
    datatype: &mut datatype::Foreign,
) {
    type UserFunction =
        unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_int, *mut datatype::Foreign);
    unsafe {
        match state.cxx() {
            Some(function) => cxx::operate(function, state.function, from, to, count, datatype),
            None => {
                let function: UserFunction = transmute(state.function);
                function(from, to, count, datatype);
            }
        }
    }
}

unsafe extern "C-unwind" fn operate_on_many(
    from: *mut c_void,
    to: *mut c_void,
    mut count: Count,
    datatype: usize,
    state: *mut c_void,
) {
    type UserFunction =
        unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut Count, *mut datatype::Foreign);
    unsafe {
        let function: UserFunction = transmute((*state.cast::<FunctionState>()).function);
        function(from, to, &mut count, &mut datatype::foreign(datatype));
    }
}

macro_rules! operations {
    ($($name:ident $proxy:ident;)*) => { $(
        pub(crate) unsafe fn $name(
            function: Function,
            commute: c_int,
            op: *mut op::Foreign,
        ) -> c_int {
            if function.is_null() {
                return unsafe { code_out(core!($name)(None, commute, &mut UNSET.clone())) };
            }
            let mut made = UNSET;
            let state = FunctionState::boxed(function);
            unsafe {
                let code = core!(MPIX_Op_create_x)(
                    Some($proxy),
                    Some(free::<FunctionState>),
                    commute,
                    state,
                    handle_place(op.is_null(), &mut made),
                );
                match code {
                    0 => LAST_MADE.set((made, state)),
                    _ => free::<FunctionState>(state),
                }
                op::output(op, made);
                code_out(code)
            }
        }
    )* };
}

operations! {
    MPI_Op_create operate;
    MPI_Op_create_c operate_on_many;
}

// Error handlers.

macro_rules! errhandlers {
    ($($word:ident $name:ident $create:ident;)*) => { $(
        pub(crate) unsafe fn $name(
            function: Function,
            errhandler: *mut errhandler::Foreign,
        ) -> c_int {
            unsafe extern "C-unwind" fn handle(object: usize, code: c_int, state: *mut c_void) {
                type Handler =
                    unsafe extern "C-unwind" fn(*mut $word::Foreign, *mut c_int, ...);
                unsafe {
                    let state = &*state.cast::<FunctionState>();
                    let (mut object, mut code) = ($word::foreign(object), code_out(code));
                    let place = (&raw mut object).cast();
                    if cxx::handle(state, stringify!($word), place, &mut code) {
                        return;
                    }
                    let function: Handler = transmute(state.function);
                    function(&mut object, &mut code);
                }
            }
            if function.is_null() {
                return unsafe { code_out(core!($name)(None, &mut UNSET.clone())) };
            }
            let mut made = UNSET;
            let state = FunctionState::boxed(function);
            unsafe {
                let code = core!($create)(
                    Some(handle),
                    Some(free::<FunctionState>),
                    state,
                    handle_place(errhandler.is_null(), &mut made),
                );
                match code {
                    0 => LAST_MADE.set((made, state)),
                    _ => free::<FunctionState>(state),
                }
                errhandler::output(errhandler, made);
                code_out(code)
            }
        }
    )* };
}

errhandlers! {
    comm MPI_Comm_create_errhandler MPIX_Comm_create_errhandler_x;
    file MPI_File_create_errhandler MPIX_File_create_errhandler_x;
    session MPI_Session_create_errhandler MPIX_Session_create_errhandler_x;
    win MPI_Win_create_errhandler MPIX_Win_create_errhandler_x;
}

// Attributes.

/// The functions of a key, and those of the C++ library that call them.
pub(crate) struct KeyState {
    pub(crate) copy: Function,
    pub(crate) delete: Function,
    pub(crate) extra: *mut c_void,
    #[allow(dead_code)] // read where the C++ library has such functions
    pub(crate) cxx: cxx::KeyFunctions,
}

impl KeyState {
    fn boxed(copy: Function, delete: Function, extra: *mut c_void) -> *mut c_void {
        boxed(KeyState { copy, delete, extra, cxx: Default::default() })
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
                    if let Some(code) = cxx::copy(state, object, key, from, to, flag) {
                        return code_in(code);
                    }
                    let function: Copy = transmute(state.copy);
                    code_in(function(object, key, state.extra, from, to, flag))
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
                    if let Some(code) = cxx::delete(state, object, key, value) {
                        return code_in(code);
                    }
                    let function: Delete = transmute(state.delete);
                    code_in(function(object, key, value, state.extra))
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
                    0 => LAST_MADE.set((made as usize, state)),
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
