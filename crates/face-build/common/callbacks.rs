//! Functions that take functions of the program for operations and error handlers.
//!
//! The library calls a function of this module, which converts the arguments and calls that of the
//! program. It finds it in a state that the library keeps for each object.
#![allow(non_snake_case)]

use crate::convert::*;
use crate::core;
use crate::cxx;
use crate::handles::*;
use crate::states::{Function, note_made};
use oxmpi_abi::types::Count;
use oxmpi_foreign::{boxed, free};
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering};

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
                    0 => note_made(made, state),
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
                    0 => note_made(made, state),
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
