//! Procedures that a program passes to the library.
//!
//! C calls a function of this module, which converts the arguments and calls the procedure of the
//! program. The function finds the procedure in a state that C keeps for each object. For
//! operations and error handlers the standard has no such state, so these procedures call
//! functions beyond it, which have the prototypes of MPICH's: `MPIX_Op_create_x` and others. A
//! library without them refuses the call.

use super::attributes::{free_variable, user_value, variable_of};
use super::*;
use crate::cells::cells;
use crate::creators::*;
use crate::types::{Aint, Count, Offset};
pub(super) use oxmpi_foreign::{boxed, free};
use std::mem::transmute;

/// The procedure of a program, of any type.
pub(super) type Procedure = *const c_void;

type Destructor = unsafe extern "C-unwind" fn(*mut c_void);

cells! {
    // Entry points of this library.
    conversion_fn_null = ".globl" "mpi_conversion_fn_null_";
    conversion_fn_null_c = ".globl" "mpi_conversion_fn_null_c_";
}

fn lacks(procedure: &str, function: &str) -> c_int {
    let reason = format!(
        "this needs {function}, which libmpi_abi.so.1 of OxMPI has and the loaded one \
         lacks"
    );
    refuse(procedure, abi::MPI_ERR_UNSUPPORTED_OPERATION, &reason)
}

// Operations.

type UserFunction = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int);
type UserFunctionX =
    unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, Count, usize, *mut c_void);
type OpCreateX =
    unsafe extern "C-unwind" fn(UserFunctionX, Destructor, c_int, *mut c_void, *mut usize) -> c_int;

unsafe extern "C-unwind" fn operate(
    from: *mut c_void,
    to: *mut c_void,
    count: Count,
    datatype: usize,
    state: *mut c_void,
) {
    unsafe {
        let function: UserFunction = transmute(*state.cast::<Procedure>());
        let mut number = datatype::number(datatype);
        let (mut left, mut from, mut to) = (count, from, to);
        // An INTEGER may be too short for the number of elements.
        while left > c_int::MAX.into() {
            let (mut lower, mut extent, mut most) = (0, 0, c_int::MAX);
            c::PMPI_Type_get_extent(datatype, &mut lower, &mut extent);
            function(from, to, &mut most, &mut number);
            from = from.wrapping_byte_offset(extent * most as isize);
            to = to.wrapping_byte_offset(extent * most as isize);
            left -= Count::from(most);
        }
        let mut count = left as c_int;
        function(from, to, &mut count, &mut number);
    }
}

unsafe extern "C-unwind" fn operate_on_many(
    from: *mut c_void,
    to: *mut c_void,
    mut count: Count,
    datatype: usize,
    state: *mut c_void,
) {
    type UserFunctionC =
        unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut Count, *mut c_int);
    unsafe {
        let function: UserFunctionC = transmute(*state.cast::<Procedure>());
        function(from, to, &mut count, &mut datatype::number(datatype));
    }
}

unsafe fn create_op(
    name: &str,
    proxy: UserFunctionX,
    function: Procedure,
    commute: *mut c_int,
    op: *mut c_int,
) -> c_int {
    let create = op_create_x();
    if create == 0 {
        return lacks(name, "MPIX_Op_create_x");
    }
    let mut made = UNSET;
    unsafe {
        let create: OpCreateX = transmute(create);
        let state = boxed(function);
        let code = create(proxy, free::<Procedure>, *commute, state, &mut made);
        if code != 0 {
            free::<Procedure>(state);
        }
        op::output(op, made);
        code
    }
}

pub(crate) unsafe fn op_create(
    _: c::OpCreateFn,
    function: Procedure,
    commute: *mut c_int,
    op: *mut c_int,
) -> c_int {
    unsafe { create_op("MPI_OP_CREATE", operate, function, commute, op) }
}

pub(crate) unsafe fn op_create_c(
    _: c::OpCreateCFn,
    function: Procedure,
    commute: *mut c_int,
    op: *mut c_int,
) -> c_int {
    unsafe { create_op("MPI_OP_CREATE_C", operate_on_many, function, commute, op) }
}

// Error handlers.

type ErrhandlerFunction = unsafe extern "C-unwind" fn(*mut c_int, *mut c_int);
type ErrhandlerFunctionX = unsafe extern "C-unwind" fn(usize, c_int, *mut c_void);
type ErrhandlerCreateX =
    unsafe extern "C-unwind" fn(ErrhandlerFunctionX, Destructor, *mut c_void, *mut usize) -> c_int;

unsafe fn create_errhandler(
    create: usize,
    proxy: ErrhandlerFunctionX,
    names: (&str, &str),
    function: Procedure,
    errhandler: *mut c_int,
) -> c_int {
    if create == 0 {
        return lacks(names.0, names.1);
    }
    let mut made = UNSET;
    unsafe {
        let create: ErrhandlerCreateX = transmute(create);
        let state = boxed(function);
        let code = create(proxy, free::<Procedure>, state, &mut made);
        if code != 0 {
            free::<Procedure>(state);
        }
        errhandler::output(errhandler, made);
        code
    }
}

macro_rules! errhandlers {
    ($($word:ident $name:ident $call:ident $cell:ident $upper:literal $needs:literal;)*) => { $(
        pub(crate) unsafe fn $name(
            _: c::$call,
            function: Procedure,
            errhandler: *mut c_int,
        ) -> c_int {
            unsafe extern "C-unwind" fn handle(object: usize, code: c_int, state: *mut c_void) {
                unsafe {
                    let function: ErrhandlerFunction = transmute(*state.cast::<Procedure>());
                    let (mut object, mut code) = ($word::number(object), code);
                    function(&mut object, &mut code);
                }
            }
            unsafe { create_errhandler($cell(), handle, ($upper, $needs), function, errhandler) }
        }
    )* };
}

errhandlers! {
    comm comm_create_errhandler CommCreateErrhandlerFn comm_errhandler_x
        "MPI_COMM_CREATE_ERRHANDLER" "MPIX_Comm_create_errhandler_x";
    file file_create_errhandler FileCreateErrhandlerFn file_errhandler_x
        "MPI_FILE_CREATE_ERRHANDLER" "MPIX_File_create_errhandler_x";
    session session_create_errhandler SessionCreateErrhandlerFn session_errhandler_x
        "MPI_SESSION_CREATE_ERRHANDLER" "MPIX_Session_create_errhandler_x";
    win win_create_errhandler WinCreateErrhandlerFn win_errhandler_x
        "MPI_WIN_CREATE_ERRHANDLER" "MPIX_Win_create_errhandler_x";
}

pub(crate) unsafe fn errhandler_create(
    call: c::CommCreateErrhandlerFn,
    function: Procedure,
    errhandler: *mut c_int,
) -> c_int {
    unsafe { comm_create_errhandler(call, function, errhandler) }
}

// Attributes.

/// The procedures of a key, with attributes and extra state of type `T`. A procedure that changes
/// the extra state changes it for the calls that follow.
struct KeyState<T> {
    copy: Procedure,
    delete: Procedure,
    extra: T,
}

/// The integers of attributes: the new procedures have the size of an address, the deprecated ones
/// an INTEGER.
trait Integer: Copy {
    fn narrow(value: Aint) -> Self;
    fn widen(self) -> Aint;
}

impl Integer for Aint {
    fn narrow(value: Aint) -> Aint {
        value
    }

    fn widen(self) -> Aint {
        self
    }
}

impl Integer for c_int {
    fn narrow(value: Aint) -> c_int {
        value as c_int
    }

    fn widen(self) -> Aint {
        self as Aint
    }
}

type CopyProcedure<T> = unsafe extern "C-unwind" fn(
    *mut c_int,
    *mut c_int,
    *mut T,
    *mut T,
    *mut T,
    *mut c_int,
    *mut c_int,
);
type DeleteProcedure<T> =
    unsafe extern "C-unwind" fn(*mut c_int, *mut c_int, *mut T, *mut T, *mut c_int);

unsafe fn copy<T: Integer>(
    mut object: c_int,
    mut key: c_int,
    state: *mut c_void,
    from: *mut c_void,
    to: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    unsafe {
        let state = state.cast::<KeyState<T>>();
        let procedure: CopyProcedure<T> = transmute((*state).copy);
        let mut value = T::narrow(user_value(from));
        let (mut copied, mut is_copied, mut code) = (T::narrow(0), 0, 0);
        procedure(
            &mut object,
            &mut key,
            &raw mut (*state).extra,
            &mut value,
            &mut copied,
            &mut is_copied,
            &mut code,
        );
        put(flag, is_copied);
        if code == 0 && is_copied != 0 {
            put(to.cast::<*mut c_void>(), variable_of(copied.widen()));
        }
        code
    }
}

unsafe fn delete<T: Integer>(
    mut object: c_int,
    mut key: c_int,
    value: *mut c_void,
    state: *mut c_void,
) -> c_int {
    unsafe {
        let state = state.cast::<KeyState<T>>();
        let procedure: DeleteProcedure<T> = transmute((*state).delete);
        let (mut number, mut code) = (T::narrow(user_value(value)), 0);
        procedure(&mut object, &mut key, &mut number, &raw mut (*state).extra, &mut code);
        if code == 0 {
            free_variable(value);
        }
        code
    }
}

macro_rules! keyvals {
    ($($word:ident $name:ident $call:ident $integer:ty;)*) => { $(
        /// The state of the key stays for the rest of the process: attributes can outlive the key.
        pub(crate) unsafe fn $name(
            call: c::$call,
            copy_fn: Procedure,
            delete_fn: Procedure,
            key: *mut c_int,
            extra: *mut $integer,
        ) -> c_int {
            unsafe extern "C-unwind" fn copy_proxy(
                object: usize,
                key: c_int,
                state: *mut c_void,
                from: *mut c_void,
                to: *mut c_void,
                flag: *mut c_int,
            ) -> c_int {
                unsafe { copy::<$integer>($word::number(object), key, state, from, to, flag) }
            }
            unsafe extern "C-unwind" fn delete_proxy(
                object: usize,
                key: c_int,
                value: *mut c_void,
                state: *mut c_void,
            ) -> c_int {
                unsafe { delete::<$integer>($word::number(object), key, value, state) }
            }
            unsafe {
                let state = KeyState { copy: copy_fn, delete: delete_fn, extra: *extra };
                let state = boxed(state);
                let code = call(Some(copy_proxy), Some(delete_proxy), key, state);
                if code != 0 {
                    free::<KeyState<$integer>>(state);
                }
                code
            }
        }
    )* };
}

keyvals! {
    comm comm_create_keyval CommCreateKeyvalFn Aint;
    datatype type_create_keyval TypeCreateKeyvalFn Aint;
    win win_create_keyval WinCreateKeyvalFn Aint;
    comm keyval_create KeyvalCreateFn c_int;
}

// Data representations.

/// As for a key, a procedure that changes the extra state changes it for the calls that follow.
struct RepresentationState {
    read: Procedure,
    write: Procedure,
    extent: Procedure,
    extra: Aint,
}

/// A conversion of the program. `N` is the type of the number of elements.
type Conversion<N> = unsafe extern "C-unwind" fn(
    *mut c_void,
    *mut c_int,
    *mut N,
    *mut c_void,
    *mut Offset,
    *mut Aint,
    *mut c_int,
);

unsafe extern "C-unwind" fn convert<const READS: bool, N>(
    user: *mut c_void,
    datatype: usize,
    mut count: N,
    file: *mut c_void,
    mut position: Offset,
    state: *mut c_void,
) -> c_int {
    unsafe {
        let state = state.cast::<RepresentationState>();
        let procedure: Conversion<N> =
            transmute(if READS { (*state).read } else { (*state).write });
        let (mut datatype, mut code) = (datatype::number(datatype), 0);
        procedure(
            user,
            &mut datatype,
            &mut count,
            file,
            &mut position,
            &raw mut (*state).extra,
            &mut code,
        );
        code
    }
}

unsafe extern "C-unwind" fn extent(
    datatype: usize,
    extent: *mut Aint,
    state: *mut c_void,
) -> c_int {
    type Extent = unsafe extern "C-unwind" fn(*mut c_int, *mut Aint, *mut Aint, *mut c_int);
    unsafe {
        let state = state.cast::<RepresentationState>();
        let procedure: Extent = transmute((*state).extent);
        let (mut datatype, mut code) = (datatype::number(datatype), 0);
        procedure(&mut datatype, extent, &raw mut (*state).extra, &mut code);
        code
    }
}

macro_rules! representations {
    ($($name:ident $call:ident $null:ident $number:ty;)*) => { $(
        /// A registered data representation stays for the rest of the process, as does its state.
        pub(crate) unsafe fn $name(
            call: c::$call,
            name: *mut c_char,
            read: Procedure,
            write: Procedure,
            extent_fn: Procedure,
            extra: *mut Aint,
            name_len: usize,
        ) -> c_int {
            let is_null = |procedure: Procedure| procedure.addr() == $null();
            unsafe {
                let name = trimmed(name, name_len);
                let state = RepresentationState { read, write, extent: extent_fn, extra: *extra };
                let state = boxed(state);
                let code = call(
                    name.as_ptr(),
                    if is_null(read) { None } else { Some(convert::<true, $number>) },
                    if is_null(write) { None } else { Some(convert::<false, $number>) },
                    Some(extent),
                    state,
                );
                if code != 0 {
                    free::<RepresentationState>(state);
                }
                code
            }
        }
    )* };
}

representations! {
    register_datarep RegisterDatarepFn conversion_fn_null c_int;
    register_datarep_c RegisterDatarepCFn conversion_fn_null_c Count;
}
