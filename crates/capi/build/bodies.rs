//! The functions of the library that run the calls.
//!
//! A body has the name of its function in lower case without `MPI_` (`comm_size`); the plain and
//! the large form have the same body. This list has the exceptions.

use oxmpi_abi::table::{Function, FunctionForm};

/// The arguments that a body takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Checked values and objects in place of handles. The face stores the results. In a collective
    /// call an argument that may be wrong comes as a `Result`: the body must take part in the
    /// operation before it returns the error, because other processes wait for this one.
    Resolved,
    /// The number of the function, and the arguments of the program, unchecked. The body returns
    /// the error code.
    Raw,
}

/// The call of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub(crate) takes: Takes,
    /// The name without what the form adds.
    name: &'static str,
    /// Arguments before those of the program. An argument of the program that stands here in
    /// parentheses is not passed again.
    pub(crate) first: &'static str,
}

/// Functions with raw arguments: a short way comes before all checks, a result is stored when the
/// request completes or although the call fails, errors are raised on another object than an
/// argument, or the call begins or ends MPI. All collectives whose forms have one body take raw
/// arguments too, since these count at some ranks only.
const RAW: &[&str] = &[
    "MPIX_Comm_agree",
    "MPIX_Comm_iagree",
    "MPIX_Comm_ishrink",
    "MPI_Abort",
    "MPI_Bsend",
    "MPI_Comm_call_errhandler",
    "MPI_Comm_idup",
    "MPI_Comm_idup_with_info",
    "MPI_Comm_spawn",
    "MPI_Comm_spawn_multiple",
    "MPI_Compare_and_swap",
    "MPI_Fetch_and_op",
    "MPI_File_call_errhandler",
    "MPI_File_close",
    "MPI_Get",
    "MPI_Grequest_complete",
    "MPI_Group_from_session_pset",
    "MPI_Ibsend",
    "MPI_Info_create_env",
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Iprobe",
    "MPI_Irecv",
    "MPI_Irsend",
    "MPI_Isend",
    "MPI_Issend",
    "MPI_Put",
    "MPI_Recv",
    "MPI_Reduce_local",
    "MPI_Request_free",
    "MPI_Rsend",
    "MPI_Send",
    "MPI_Sendrecv",
    "MPI_Session_call_errhandler",
    "MPI_Ssend",
    "MPI_Startall",
    "MPI_T_finalize",
    "MPI_T_init_thread",
    "MPI_Test",
    "MPI_Testall",
    "MPI_Testany",
    "MPI_Testsome",
    "MPI_Type_dup",
    "MPI_Wait",
    "MPI_Waitall",
    "MPI_Waitany",
    "MPI_Waitsome",
    "MPI_Win_call_errhandler",
    "MPI_Win_flush",
    "MPI_Win_flush_local",
    "MPI_Win_free",
    "MPI_Win_lock",
    "MPI_Win_unlock",
];

/// Entries whose body has another name, with its first arguments.
const NAMED: &[(&str, &str, &str)] = &[
    ("MPIX_Comm_create_errhandler_x", "create_errhandler_with", "HandlerKind::Comm"),
    ("MPIX_Comm_create_keyval_x", "create_keyval_with", "ObjectKind::Comm"),
    ("MPIX_Comm_get_attr_as_fortran", "comm_get_attr", "Language::Fortran"),
    ("MPIX_Comm_set_attr_as_fortran", "comm_set_attr", "Language::Fortran"),
    ("MPIX_File_create_errhandler_x", "create_errhandler_with", "HandlerKind::File"),
    ("MPIX_Op_create_x", "op_create_with", ""),
    ("MPIX_Session_create_errhandler_x", "create_errhandler_with", "HandlerKind::Session"),
    ("MPIX_Type_create_keyval_x", "create_keyval_with", "ObjectKind::Type"),
    ("MPIX_Type_get_attr_as_fortran", "type_get_attr", "Language::Fortran"),
    ("MPIX_Type_set_attr_as_fortran", "type_set_attr", "Language::Fortran"),
    ("MPIX_Win_create_errhandler_x", "create_errhandler_with", "HandlerKind::Win"),
    ("MPIX_Win_create_keyval_x", "create_keyval_with", "ObjectKind::Win"),
    ("MPIX_Win_get_attr_as_fortran", "win_get_attr", "Language::Fortran"),
    ("MPIX_Win_set_attr_as_fortran", "win_set_attr", "Language::Fortran"),
    ("MPI_Alltoallw", "alltoallv", ""),
    ("MPI_Attr_delete", "comm_delete_attr", ""),
    ("MPI_Attr_get", "comm_get_attr", "Language::C"),
    ("MPI_Attr_put", "comm_set_attr", "Language::C"),
    ("MPI_Bsend", "send", "Mode::Buffered"),
    ("MPI_Comm_call_errhandler", "call_errhandler", "On::Comm"),
    ("MPI_Comm_create_errhandler", "create_errhandler", "HandlerKind::Comm"),
    ("MPI_Comm_create_keyval", "create_keyval", "ObjectKind::Comm"),
    ("MPI_Comm_free_keyval", "free_keyval", "ObjectKind::Comm"),
    ("MPI_Comm_get_attr", "comm_get_attr", "Language::C"),
    ("MPI_Comm_set_attr", "comm_set_attr", "Language::C"),
    ("MPI_File_call_errhandler", "call_errhandler", "On::File"),
    ("MPI_File_create_errhandler", "create_errhandler", "HandlerKind::File"),
    ("MPI_File_read", "file_access", "Direction::Read, At::Individual"),
    ("MPI_File_read_all", "file_collective", "Direction::Read, At::Individual"),
    ("MPI_File_read_all_begin", "file_begin", "READ_ALL, At::Individual"),
    ("MPI_File_read_all_end", "file_end", "READ_ALL"),
    ("MPI_File_read_at", "file_access", "Direction::Read, At::Offset(offset)"),
    ("MPI_File_read_at_all", "file_collective", "Direction::Read, At::Offset(offset)"),
    ("MPI_File_read_at_all_begin", "file_begin", "READ_AT_ALL, At::Offset(offset)"),
    ("MPI_File_read_at_all_end", "file_end", "READ_AT_ALL"),
    ("MPI_File_read_ordered", "file_collective", "Direction::Read, At::Shared"),
    ("MPI_File_read_ordered_begin", "file_begin", "READ_ORDERED, At::Shared"),
    ("MPI_File_read_ordered_end", "file_end", "READ_ORDERED"),
    ("MPI_File_read_shared", "file_access", "Direction::Read, At::Shared"),
    ("MPI_File_write", "file_access", "Direction::Write, At::Individual"),
    ("MPI_File_write_all", "file_collective", "Direction::Write, At::Individual"),
    ("MPI_File_write_all_begin", "file_begin", "WRITE_ALL, At::Individual"),
    ("MPI_File_write_all_end", "file_end", "WRITE_ALL"),
    ("MPI_File_write_at", "file_access", "Direction::Write, At::Offset(offset)"),
    ("MPI_File_write_at_all", "file_collective", "Direction::Write, At::Offset(offset)"),
    ("MPI_File_write_at_all_begin", "file_begin", "WRITE_AT_ALL, At::Offset(offset)"),
    ("MPI_File_write_at_all_end", "file_end", "WRITE_AT_ALL"),
    ("MPI_File_write_ordered", "file_collective", "Direction::Write, At::Shared"),
    ("MPI_File_write_ordered_begin", "file_begin", "WRITE_ORDERED, At::Shared"),
    ("MPI_File_write_ordered_end", "file_end", "WRITE_ORDERED"),
    ("MPI_File_write_shared", "file_access", "Direction::Write, At::Shared"),
    ("MPI_Get", "win_get", ""),
    ("MPI_Info_get", "info_get_string", ""),
    ("MPI_Keyval_create", "create_keyval", "ObjectKind::Comm"),
    ("MPI_Keyval_free", "free_keyval", "ObjectKind::Comm"),
    ("MPI_Neighbor_alltoallw", "neighbor_alltoallv", ""),
    ("MPI_Put", "win_put", ""),
    ("MPI_Rsend", "send", "Mode::Ready"),
    ("MPI_Send", "send", "Mode::Standard"),
    ("MPI_Session_call_errhandler", "call_errhandler", "On::Session"),
    ("MPI_Session_create_errhandler", "create_errhandler", "HandlerKind::Session"),
    ("MPI_Ssend", "send", "Mode::Synchronous"),
    ("MPI_Type_create_keyval", "create_keyval", "ObjectKind::Type"),
    ("MPI_Type_free_keyval", "free_keyval", "ObjectKind::Type"),
    ("MPI_Type_get_attr", "type_get_attr", "Language::C"),
    ("MPI_Type_set_attr", "type_set_attr", "Language::C"),
    ("MPI_Win_allocate", "win_allocate", "Flavor::Allocate"),
    ("MPI_Win_allocate_shared", "win_allocate", "Flavor::Shared"),
    ("MPI_Win_call_errhandler", "call_errhandler", "On::Win"),
    ("MPI_Win_create_errhandler", "create_errhandler", "HandlerKind::Win"),
    ("MPI_Win_create_keyval", "create_keyval", "ObjectKind::Win"),
    ("MPI_Win_flush_local", "win_flush", ""),
    ("MPI_Win_flush_local_all", "win_flush_all", ""),
    ("MPI_Win_free_keyval", "free_keyval", "ObjectKind::Win"),
    ("MPI_Win_get_attr", "win_get_attr", "Language::C"),
    ("MPI_Win_set_attr", "win_set_attr", "Language::C"),
];

/// The body of a function.
pub(crate) fn body(function: &Function) -> Body {
    let entry = function.entry.name;
    let plain = function.name.strip_suffix("_c").unwrap_or(&function.name);
    let is_raw = RAW.contains(&plain) || has_call_form(function);
    let takes = if is_raw { Takes::Raw } else { Takes::Resolved };
    let named = NAMED.iter().find(|(name, ..)| *name == entry);
    let (_, name, first) = match named {
        Some(named) => *named,
        None if entry.ends_with("_toint") => (entry, "to_int", ""),
        None => (entry, entry, ""),
    };
    Body { takes, name, first }
}

impl Body {
    /// The name of the function of the library.
    pub(crate) fn name(&self, function: &Function) -> String {
        // The deprecated forms with large results are named MPI_X_x.
        let name = self.name.trim_start_matches("MPI_").trim_start_matches("MPIX_");
        let name = name.trim_end_matches("_x").to_lowercase();
        if has_call_form(function) {
            return name;
        }
        match function.form {
            FunctionForm::Plain => name,
            FunctionForm::Persistent => format!("{name}_init"),
            FunctionForm::Nonblocking => before_verb(&name, 'i'),
            FunctionForm::Request => before_verb(&name, 'r'),
        }
    }
}

fn before_verb(name: &str, letter: char) -> String {
    for object in ["file_", "comm_", "buffer_", "session_", "win_"] {
        if let Some(verb) = name.strip_prefix(object) {
            return format!("{object}{letter}{verb}");
        }
    }
    format!("{letter}{name}")
}

/// Whether all forms have one body, with the form as its last argument.
pub(crate) fn has_call_form(function: &Function) -> bool {
    function.entry.is.contains(&"collective") && function.entry.forms.contains(&"persistent")
}
