//! The functions of the library that run the calls.
//!
//! A body has the name of its function in lower case without `MPI_` (`comm_size`); the plain and
//! the large form have the same body. This list has the exceptions.

use oxmpi_abi::table::{Form, Function};

/// The arguments that a body takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Checked values and objects in place of handles. The face stores the results.
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
    /// Arguments before those of the program.
    pub(crate) first: &'static str,
}

/// Functions with raw arguments, since a short way comes before all checks, or a result is stored
/// when the request completes. All collectives whose forms have one body take them too: their
/// arguments count at some ranks only.
const RAW: &[&str] = &[
    "MPI_Bsend",
    "MPI_Comm_idup",
    "MPI_Comm_idup_with_info",
    "MPI_Ibsend",
    "MPI_Iprobe",
    "MPI_Irecv",
    "MPI_Irsend",
    "MPI_Isend",
    "MPI_Issend",
    "MPI_Recv",
    "MPI_Rsend",
    "MPI_Send",
    "MPI_Sendrecv",
    "MPI_Ssend",
];

/// Entries whose body has another name, with its first arguments.
const NAMED: &[(&str, &str, &str)] = &[
    ("MPI_Send", "send", "Mode::Standard"),
    ("MPI_Bsend", "send", "Mode::Buffered"),
    ("MPI_Ssend", "send", "Mode::Synchronous"),
    ("MPI_Rsend", "send", "Mode::Ready"),
    ("MPI_Alltoallw", "alltoallv", ""),
    ("MPI_Neighbor_alltoallw", "neighbor_alltoallv", ""),
    ("MPI_Psend_init_c", "psend_init", ""),
    ("MPI_Precv_init_c", "precv_init", ""),
];

/// The body of a function.
pub(crate) fn body(function: &Function) -> Body {
    let entry = function.entry.name;
    let plain = function.name.strip_suffix("_c").unwrap_or(&function.name);
    let is_raw = RAW.contains(&plain) || has_call_form(function);
    let takes = if is_raw { Takes::Raw } else { Takes::Resolved };
    let named = NAMED.iter().find(|(name, ..)| *name == entry);
    let (_, name, first) = named.copied().unwrap_or((entry, entry, ""));
    Body { takes, name, first }
}

impl Body {
    /// The name of the function of the library.
    pub(crate) fn name(&self, function: &Function) -> String {
        let name = self.name.trim_start_matches("MPI_").trim_start_matches("MPIX_").to_lowercase();
        if has_call_form(function) {
            return name;
        }
        match function.form {
            Form::Plain => name,
            Form::Persistent => format!("{name}_init"),
            Form::Nonblocking => before_verb(&name, 'i'),
            Form::Request => before_verb(&name, 'r'),
        }
    }
}

fn before_verb(name: &str, letter: char) -> String {
    for object in ["file_", "comm_", "buffer_", "session_"] {
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
