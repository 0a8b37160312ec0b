//! The types of the functions that a program passes to the library.
//!
//! The header takes the C types from the table [`CALLBACKS`]. The aliases are the same types as
//! Rust function pointers. Prototypes use `Option<Alias>`, since many callbacks may be null. Some
//! predefined values are small integers that must never be called (`MPI_COMM_DUP_FN` is 1): compare
//! the address with [`crate::constants`] before a call.

use std::ffi::{c_int, c_void};

use crate::types::{
    Aint, Comm, Count, Datatype, File, Offset, Session, Status, TCbSafety, TEventInstance,
    TEventRegistration, Win,
};

/// A callback type of the C interface.
#[derive(Clone, Copy, Debug)]
pub struct Callback {
    /// The C name of the function type.
    pub name: &'static str,
    /// The C result type; empty for an older name of another type.
    pub result: &'static str,
    /// The C parameters; for an older name, the type for which it stands.
    pub params: &'static str,
}

macro_rules! callbacks {
    ($($result:literal $name:literal $params:literal;)*) => {
        /// All callback types. An older name follows the type for which it stands.
        pub static CALLBACKS: [Callback; 27] =
            [$(Callback { name: $name, result: $result, params: $params }),*];
    };
}

callbacks! {
    "void" "MPI_User_function" "void *invec, void *inoutvec, int *len, MPI_Datatype *datatype";
    "void" "MPI_User_function_c" "void *invec, void *inoutvec, MPI_Count *len, MPI_Datatype *datatype";
    "int" "MPI_Grequest_query_function" "void *extra_state, MPI_Status *status";
    "int" "MPI_Grequest_free_function" "void *extra_state";
    "int" "MPI_Grequest_cancel_function" "void *extra_state, int complete";
    "int" "MPI_Copy_function" "MPI_Comm comm, int keyval, void *extra_state, void *attribute_val_in, void *attribute_val_out, int *flag";
    "int" "MPI_Delete_function" "MPI_Comm comm, int keyval, void *attribute_val, void *extra_state";
    "int" "MPI_Comm_copy_attr_function" "MPI_Comm comm, int keyval, void *extra_state, void *attribute_val_in, void *attribute_val_out, int *flag";
    "int" "MPI_Comm_delete_attr_function" "MPI_Comm comm, int keyval, void *attribute_val, void *extra_state";
    "int" "MPI_Type_copy_attr_function" "MPI_Datatype datatype, int keyval, void *extra_state, void *attribute_val_in, void *attribute_val_out, int *flag";
    "int" "MPI_Type_delete_attr_function" "MPI_Datatype datatype, int keyval, void *attribute_val, void *extra_state";
    "int" "MPI_Win_copy_attr_function" "MPI_Win win, int keyval, void *extra_state, void *attribute_val_in, void *attribute_val_out, int *flag";
    "int" "MPI_Win_delete_attr_function" "MPI_Win win, int keyval, void *attribute_val, void *extra_state";
    "int" "MPI_Datarep_extent_function" "MPI_Datatype datatype, MPI_Aint *extent, void *extra_state";
    "int" "MPI_Datarep_conversion_function" "void *userbuf, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position, void *extra_state";
    "int" "MPI_Datarep_conversion_function_c" "void *userbuf, MPI_Datatype datatype, MPI_Count count, void *filebuf, MPI_Offset position, void *extra_state";
    "void" "MPI_Comm_errhandler_function" "MPI_Comm *comm, int *error_code, ...";
    "void" "MPI_File_errhandler_function" "MPI_File *file, int *error_code, ...";
    "void" "MPI_Win_errhandler_function" "MPI_Win *win, int *error_code, ...";
    "void" "MPI_Session_errhandler_function" "MPI_Session *session, int *error_code, ...";
    "void" "MPI_T_event_cb_function" "MPI_T_event_instance event_instance, MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety, void *user_data";
    "void" "MPI_T_event_free_cb_function" "MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety, void *user_data";
    "void" "MPI_T_event_dropped_cb_function" "MPI_Count count, MPI_T_event_registration event_registration, int source_index, MPI_T_cb_safety cb_safety, void *user_data";
    "" "MPI_Comm_errhandler_fn" "MPI_Comm_errhandler_function";
    "" "MPI_File_errhandler_fn" "MPI_File_errhandler_function";
    "" "MPI_Win_errhandler_fn" "MPI_Win_errhandler_function";
    "" "MPI_Session_errhandler_fn" "MPI_Session_errhandler_function";
}

/// The callback types of functions beyond the standard, which `mpi-ext.h` declares.
#[rustfmt::skip] // a table
pub static EXTENSION_CALLBACKS: [Callback; 6] = [
    Callback { result: "void", name: "MPIX_Destructor_function", params: "void *extra_state" },
    Callback { result: "void", name: "MPIX_User_function_x", params: "void *invec, void *inoutvec, MPI_Count len, MPI_Datatype datatype, void *extra_state" },
    Callback { result: "void", name: "MPIX_Comm_errhandler_function_x", params: "MPI_Comm comm, int error_code, void *extra_state" },
    Callback { result: "void", name: "MPIX_File_errhandler_function_x", params: "MPI_File file, int error_code, void *extra_state" },
    Callback { result: "void", name: "MPIX_Win_errhandler_function_x", params: "MPI_Win win, int error_code, void *extra_state" },
    Callback { result: "void", name: "MPIX_Session_errhandler_function_x", params: "MPI_Session session, int error_code, void *extra_state" },
];

// "C-unwind" lets a C++ callback throw an exception through the library.

/// `MPI_User_function`.
pub type UserFunction =
    unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_int, *mut Datatype);
/// `MPI_User_function_c`.
pub type UserFunctionC =
    unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut Count, *mut Datatype);
/// `MPIX_User_function_x`.
pub type UserFunctionX =
    unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, Count, Datatype, *mut c_void);
/// `MPIX_Destructor_function`.
pub type DestructorFunction = unsafe extern "C-unwind" fn(*mut c_void);
/// `MPIX_Comm_errhandler_function_x`.
pub type CommErrhandlerFunctionX = unsafe extern "C-unwind" fn(Comm, c_int, *mut c_void);
/// `MPIX_File_errhandler_function_x`.
pub type FileErrhandlerFunctionX = unsafe extern "C-unwind" fn(File, c_int, *mut c_void);
/// `MPIX_Win_errhandler_function_x`.
pub type WinErrhandlerFunctionX = unsafe extern "C-unwind" fn(Win, c_int, *mut c_void);
/// `MPIX_Session_errhandler_function_x`.
pub type SessionErrhandlerFunctionX = unsafe extern "C-unwind" fn(Session, c_int, *mut c_void);
/// `MPI_Grequest_query_function`.
pub type GrequestQueryFunction = unsafe extern "C-unwind" fn(*mut c_void, *mut Status) -> c_int;
/// `MPI_Grequest_free_function`.
pub type GrequestFreeFunction = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
/// `MPI_Grequest_cancel_function`.
pub type GrequestCancelFunction = unsafe extern "C-unwind" fn(*mut c_void, c_int) -> c_int;
/// `MPI_Copy_function`.
pub type CopyFunction = unsafe extern "C-unwind" fn(
    Comm,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
) -> c_int;
/// `MPI_Delete_function`.
pub type DeleteFunction =
    unsafe extern "C-unwind" fn(Comm, c_int, *mut c_void, *mut c_void) -> c_int;
/// `MPI_Comm_copy_attr_function`.
pub type CommCopyAttrFunction = unsafe extern "C-unwind" fn(
    Comm,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
) -> c_int;
/// `MPI_Comm_delete_attr_function`.
pub type CommDeleteAttrFunction =
    unsafe extern "C-unwind" fn(Comm, c_int, *mut c_void, *mut c_void) -> c_int;
/// `MPI_Type_copy_attr_function`.
pub type TypeCopyAttrFunction = unsafe extern "C-unwind" fn(
    Datatype,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
) -> c_int;
/// `MPI_Type_delete_attr_function`.
pub type TypeDeleteAttrFunction =
    unsafe extern "C-unwind" fn(Datatype, c_int, *mut c_void, *mut c_void) -> c_int;
/// `MPI_Win_copy_attr_function`.
pub type WinCopyAttrFunction = unsafe extern "C-unwind" fn(
    Win,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_int,
) -> c_int;
/// `MPI_Win_delete_attr_function`.
pub type WinDeleteAttrFunction =
    unsafe extern "C-unwind" fn(Win, c_int, *mut c_void, *mut c_void) -> c_int;
/// `MPI_Datarep_extent_function`.
pub type DatarepExtentFunction =
    unsafe extern "C-unwind" fn(Datatype, *mut Aint, *mut c_void) -> c_int;
/// `MPI_Datarep_conversion_function`.
pub type DatarepConversionFunction = unsafe extern "C-unwind" fn(
    *mut c_void,
    Datatype,
    c_int,
    *mut c_void,
    Offset,
    *mut c_void,
) -> c_int;
/// `MPI_Datarep_conversion_function_c`.
pub type DatarepConversionFunctionC = unsafe extern "C-unwind" fn(
    *mut c_void,
    Datatype,
    Count,
    *mut c_void,
    Offset,
    *mut c_void,
) -> c_int;
/// `MPI_Comm_errhandler_function`.
pub type CommErrhandlerFunction = unsafe extern "C-unwind" fn(*mut Comm, *mut c_int, ...);
/// `MPI_File_errhandler_function`.
pub type FileErrhandlerFunction = unsafe extern "C-unwind" fn(*mut File, *mut c_int, ...);
/// `MPI_Win_errhandler_function`.
pub type WinErrhandlerFunction = unsafe extern "C-unwind" fn(*mut Win, *mut c_int, ...);
/// `MPI_Session_errhandler_function`.
pub type SessionErrhandlerFunction = unsafe extern "C-unwind" fn(*mut Session, *mut c_int, ...);
/// `MPI_T_event_cb_function`.
pub type TEventCbFunction =
    unsafe extern "C-unwind" fn(TEventInstance, TEventRegistration, TCbSafety, *mut c_void);
/// `MPI_T_event_free_cb_function`.
pub type TEventFreeCbFunction =
    unsafe extern "C-unwind" fn(TEventRegistration, TCbSafety, *mut c_void);
/// `MPI_T_event_dropped_cb_function`.
pub type TEventDroppedCbFunction =
    unsafe extern "C-unwind" fn(Count, TEventRegistration, c_int, TCbSafety, *mut c_void);
/// Older name of [`CommErrhandlerFunction`] (`MPI_Comm_errhandler_fn`).
pub type CommErrhandlerFn = CommErrhandlerFunction;
/// Older name of [`FileErrhandlerFunction`] (`MPI_File_errhandler_fn`).
pub type FileErrhandlerFn = FileErrhandlerFunction;
/// Older name of [`WinErrhandlerFunction`] (`MPI_Win_errhandler_fn`).
pub type WinErrhandlerFn = WinErrhandlerFunction;
/// Older name of [`SessionErrhandlerFunction`] (`MPI_Session_errhandler_fn`).
pub type SessionErrhandlerFn = SessionErrhandlerFunction;
