//! The C types of the interface under their Rust names.
//!
//! A handle is a pointer to an incomplete struct in C. Only its bits count, so here it is a
//! `usize`, as a plain alias. Predefined handles are small integers ([`crate::constants`]).
//!
//! An alias has the C name without `MPI_`, in Rust's case: `MPI_T_pvar_handle` is [`TPvarHandle`].

use std::ffi::c_int;

pub use crate::callbacks::*;
pub use crate::status::Status;

macro_rules! handles {
    ($($name:ident $c:literal;)*) => {
        $(#[doc = concat!("A handle of C type `", $c, "`.")] pub type $name = usize;)*

        /// The C names of all handle types.
        pub const HANDLE_TYPES: &[&str] = &[$($c),*];
    };
}

handles! {
    Comm "MPI_Comm";
    Datatype "MPI_Datatype";
    Errhandler "MPI_Errhandler";
    File "MPI_File";
    Group "MPI_Group";
    Info "MPI_Info";
    Message "MPI_Message";
    Op "MPI_Op";
    Request "MPI_Request";
    Session "MPI_Session";
    Win "MPI_Win";
    TEnum "MPI_T_enum";
    TCvarHandle "MPI_T_cvar_handle";
    TPvarHandle "MPI_T_pvar_handle";
    TPvarSession "MPI_T_pvar_session";
    TEventRegistration "MPI_T_event_registration";
    TEventInstance "MPI_T_event_instance";
}

/// `MPI_Aint`: an address or a difference of addresses, in bytes (`intptr_t`).
pub type Aint = isize;
/// `MPI_Count`: a number of elements or bytes (`int64_t`).
pub type Count = i64;
/// `MPI_Offset`: a position in a file (`int64_t`), in bytes or elements.
pub type Offset = i64;
/// `MPI_T_cb_safety`: the restrictions of a tool's event callback (a C enumeration).
pub type TCbSafety = c_int;
/// `MPI_T_source_order`: the order of the events of a source (a C enumeration).
pub type TSourceOrder = c_int;
