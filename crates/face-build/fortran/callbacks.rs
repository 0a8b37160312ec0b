//! Functions that take functions of the Fortran library (`crates/fortran/src/by_hand`), whose
//! statuses and error codes are those of the other ABI.
#![allow(non_snake_case)]

use crate::convert::*;
use crate::core;
use crate::statuses::*;
use crate::types::GrequestQueryFunction;
use oxmpi_abi::types::{
    Aint, DatarepExtentFunction, GrequestCancelFunction, GrequestFreeFunction, Offset, Status,
};
use oxmpi_foreign::{boxed, free};
use std::ffi::{c_char, c_int, c_void};

// Attributes.

type Copy = unsafe extern "C-unwind" fn(
    usize,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
) -> c_int;
type Delete = unsafe extern "C-unwind" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// The functions of a key.
struct KeyState {
    copy: Option<Copy>,
    delete: Option<Delete>,
    state: *mut c_void,
}

unsafe extern "C-unwind" fn copy_attribute(
    object: usize,
    key: c_int,
    state: *mut c_void,
    from: *mut c_void,
    to: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    unsafe {
        let state = &*state.cast::<KeyState>();
        let copied = state.copy.map(|copy| copy(object, key, state.state, from, to, flag));
        code_in(copied.unwrap_or(0))
    }
}

unsafe extern "C-unwind" fn delete_attribute(
    object: usize,
    key: c_int,
    value: *mut c_void,
    state: *mut c_void,
) -> c_int {
    unsafe {
        let state = &*state.cast::<KeyState>();
        let deleted = state.delete.map(|delete| delete(object, key, value, state.state));
        code_in(deleted.unwrap_or(0))
    }
}

macro_rules! keyvals {
    ($($name:ident $create:ident;)*) => { $(
        pub(crate) unsafe fn $name(
            copy: Option<Copy>,
            delete: Option<Delete>,
            key: *mut c_int,
            state: *mut c_void,
        ) -> c_int {
            let mut made = NOT_STORED;
            unsafe {
                let state = boxed(KeyState { copy, delete, state });
                let code = core!($create)(
                    copy.map(|_| copy_attribute as Copy),
                    delete.map(|_| delete_attribute as Delete),
                    Some(free::<KeyState>),
                    number_place(key, &mut made),
                    state,
                );
                if code != 0 {
                    free::<KeyState>(state);
                }
                number_out(key, made, keyval_out);
                code_out(code)
            }
        }
    )* };
}

keyvals! {
    MPI_Comm_create_keyval MPIX_Comm_create_keyval_x;
    MPI_Keyval_create MPIX_Comm_create_keyval_x;
    MPI_Type_create_keyval MPIX_Type_create_keyval_x;
    MPI_Win_create_keyval MPIX_Win_create_keyval_x;
}

// Generalized requests.

struct RequestState {
    query: Option<GrequestQueryFunction>,
    free: Option<GrequestFreeFunction>,
    cancel: Option<GrequestCancelFunction>,
    state: *mut c_void,
}

unsafe extern "C-unwind" fn query(state: *mut c_void, status: *mut Status) -> c_int {
    unsafe {
        let state = &*state.cast::<RequestState>();
        let mut foreign = foreign_status(&*status);
        let code = state.query.map_or(0, |query| query(state.state, &mut foreign));
        *status = status_in(&foreign);
        code_in(code)
    }
}

unsafe extern "C-unwind" fn free_request(state: *mut c_void) -> c_int {
    unsafe {
        let state = Box::from_raw(state.cast::<RequestState>());
        code_in(state.free.map_or(0, |free| free(state.state)))
    }
}

unsafe extern "C-unwind" fn cancel(state: *mut c_void, complete: c_int) -> c_int {
    unsafe {
        let state = &*state.cast::<RequestState>();
        code_in(state.cancel.map_or(0, |cancel| cancel(state.state, complete)))
    }
}

pub(crate) unsafe fn MPI_Grequest_start(
    query_fn: Option<GrequestQueryFunction>,
    free_fn: Option<GrequestFreeFunction>,
    cancel_fn: Option<GrequestCancelFunction>,
    state: *mut c_void,
    request: *mut usize,
) -> c_int {
    unsafe {
        let state =
            boxed(RequestState { query: query_fn, free: free_fn, cancel: cancel_fn, state });
        let code =
            core!(MPI_Grequest_start)(Some(query), Some(free_request), Some(cancel), state, request);
        if code != 0 {
            free::<RequestState>(state);
        }
        code_out(code)
    }
}

// Data representations.

type Conversion<N> = unsafe extern "C-unwind" fn(
    *mut c_void,
    usize,
    N,
    *mut c_void,
    Offset,
    *mut c_void,
) -> c_int;

struct RepresentationState<N> {
    read: Option<Conversion<N>>,
    write: Option<Conversion<N>>,
    extent: Option<DatarepExtentFunction>,
    state: *mut c_void,
}

unsafe extern "C-unwind" fn extent<N>(
    datatype: usize,
    to: *mut Aint,
    state: *mut c_void,
) -> c_int {
    unsafe {
        let state = &*state.cast::<RepresentationState<N>>();
        code_in(state.extent.map_or(0, |extent| extent(datatype, to, state.state)))
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
    unsafe {
        let state = &*state.cast::<RepresentationState<N>>();
        let convert = if READS { state.read } else { state.write };
        let call = |convert: Conversion<N>| {
            convert(user, datatype, count, file, position, state.state)
        };
        code_in(convert.map_or(0, call))
    }
}

macro_rules! representations {
    ($($name:ident $number:ty;)*) => { $(
        /// A registered data representation stays for the rest of the process, as does its state.
        pub(crate) unsafe fn $name(
            name: *const c_char,
            read: Option<Conversion<$number>>,
            write: Option<Conversion<$number>>,
            extent_fn: Option<DatarepExtentFunction>,
            state: *mut c_void,
        ) -> c_int {
            type State = RepresentationState<$number>;
            unsafe {
                let state = boxed(State { read, write, extent: extent_fn, state });
                let code = core!($name)(
                    name,
                    read.map(|_| convert::<true, $number> as Conversion<$number>),
                    write.map(|_| convert::<false, $number> as Conversion<$number>),
                    extent_fn.map(|_| extent::<$number> as DatarepExtentFunction),
                    state,
                );
                if code != 0 {
                    free::<State>(state);
                }
                code_out(code)
            }
        }
    )* };
}

representations! {
    MPI_Register_datarep c_int;
    MPI_Register_datarep_c i64;
}
