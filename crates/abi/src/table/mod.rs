//! The table of functions: each function of the interface is written down once, in
//! `functions/*.txt`. From the table come the numbers of functions ([`crate::FuncId`]), their
//! prototypes in `mpi.h`, their C faces in the library, the manual pages, and the tests that call
//! each function with wrong arguments.
//!
//! # The format
//!
//! An entry begins with a name at the start of a line. The indented lines below say all about it:
//!
//! ```text
//! MPI_Recv
//!     does      Receives a message, and returns when the data are in the buffer.
//!     section   3.2.4
//!     is        blocking
//!     forms     large, nonblocking, persistent
//!     out       buf       buffer(count, datatype)
//!     in        count     count
//!     in        datatype  datatype
//!     in        source    rank | MPI_ANY_SOURCE | MPI_PROC_NULL
//!     in        tag       tag | MPI_ANY_TAG
//!     in        comm      comm
//!     out       status    status | MPI_STATUS_IGNORE
//!     note      The message may be shorter than the buffer.
//!     error     MPI_ERR_TRUNCATE: the message is longer than the buffer
//!     example
//!         MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
//!     see       MPI_Send, MPI_Probe
//! ```
//!
//! - A line that is indented deeper continues the line above it. `#` at the start of a line begins
//!   a remark. The first line of a file is its title, after `chapter`.
//! - `in`, `out` and `inout` are the arguments: a name, a kind ([`Kind`]), and what follows from
//!   `buffer(count, datatype)`: which arguments say how long it is. `[n]` after the kind makes an
//!   array: of `n` entries ([`Length`]). `| MPI_PROC_NULL` allows a special value. `class
//!   MPI_ERR_ASSERT` is the error class of a bad value, if it is not that of the kind. `at root`
//!   says that other processes ignore the argument; `at leader` is the same for leaders of groups.
//!   `c "char *argv[]"` gives a declaration that does not follow from the kind. Text after a colon
//!   describes the argument in the manual page.
//! - `forms` are the other functions of the entry ([`FunctionForm`]): `large` (`MPI_Recv_c`),
//!   `nonblocking` (`MPI_Irecv`), `persistent` (`MPI_Recv_init`) and `request` (`MPI_Rput`). A
//!   nonblocking function has a request in place of the status.
//! - `returns` is the type of a result that is no error code.
//! - `is` lists properties: `blocking` (may wait for other processes), `collective`, `early`
//!   (allowed before MPI_Init and after MPI_Finalize), `deprecated`, `unopened` (errors go to the
//!   error handler of MPI_FILE_NULL), `variadic` (with `...`).
//!
//! Intent is that of the standard: `inout` is a handle or place that the call reads and changes.

mod forms;
mod kinds;
mod parse;

pub use forms::{Function, FunctionArgument, FunctionForm, rust_base};
pub use kinds::{KINDS, Kind};
pub use parse::parse_chapter;

use std::sync::LazyLock;

/// A part of the table: one file.
#[derive(Debug)]
pub struct Chapter {
    /// The name of the file without its ending.
    pub file: &'static str,
    /// The title.
    pub title: &'static str,
    /// The entries, in the order of the file.
    pub entries: Vec<FunctionEntry>,
}

/// A function with its forms.
#[derive(Debug)]
pub struct FunctionEntry {
    /// The C name of the plain form.
    pub name: &'static str,
    /// What the function does, in a sentence or two.
    pub does: String,
    /// The section of MPI-5.0.
    pub section: &'static str,
    /// The C type of the result.
    pub result: &'static str,
    /// Whether the result is a value and not an error code.
    pub is_value: bool,
    /// Forms besides the plain one.
    pub forms: Vec<&'static str>,
    /// Properties: `blocking`, `collective`, `early`, `deprecated`, `unopened`, `variadic`.
    pub is: Vec<&'static str>,
    /// The arguments of the plain form.
    pub arguments: Vec<Argument>,
    /// Paragraphs of the manual page.
    pub notes: Vec<String>,
    /// Error classes beyond the classes of the arguments, each with its reason.
    pub errors: Vec<(&'static str, String)>,
    /// Lines of a C example.
    pub example: Vec<&'static str>,
    /// Functions to read about next.
    pub see: Vec<&'static str>,
}

/// The direction of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The call reads it.
    In,
    /// The call writes it.
    Out,
    /// The call reads and writes it.
    InOut,
}

/// The number of entries of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Length {
    /// The value of this argument.
    Argument(&'static str),
    /// A constant of the interface.
    Constant(&'static str),
    /// The number of processes of the communicator; of its remote group for an intercommunicator.
    Ranks,
    /// The number of sources, or destinations, of the process in the topology.
    Sources,
    /// See [`Length::Sources`].
    Destinations,
    /// The number of dimensions of the communicator's Cartesian topology.
    Dimensions,
    /// The sum of the entries of this array argument.
    Sum(&'static str),
    /// The last entry of this array argument.
    Last(&'static str),
    /// A null pointer ends the array.
    Null,
}

/// Which processes read an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All.
    Everywhere,
    /// The root only.
    Root,
    /// The leader of the local group only.
    Leader,
}

/// An argument.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The direction.
    pub intent: Intent,
    /// The name in the standard.
    pub name: &'static str,
    /// The kind of one value.
    pub kind: &'static Kind,
    /// The names in parentheses after the kind: the arguments that say how long a buffer is, the
    /// type of a callback, the constants of `one` and `mask`.
    pub of: Vec<&'static str>,
    /// The number of entries of an array; for a string, the number of characters with the closing
    /// zero.
    pub length: Option<Length>,
    /// Special values that are allowed.
    pub or: Vec<&'static str>,
    /// The error class of a bad value; empty if every value is good.
    pub class: &'static str,
    /// Which processes read it.
    pub at: Place,
    /// The C declaration, if it does not follow from the kind.
    pub declaration: Option<&'static str>,
    /// The description, if the kind's is not enough.
    pub about: Option<String>,
}

macro_rules! chapters {
    ($($file:literal)*) => {
        /// The names and texts of all chapters.
        pub const TEXTS: &[(&str, &str)] = &[
            $(($file, include_str!(concat!("../../functions/", $file, ".txt")))),*
        ];
    };
}

chapters! {
    "abi" "attributes" "collectives" "communicators" "datatypes" "environment" "errors"
    "extensions" "files" "info" "one-sided" "point-to-point" "processes" "requests" "tools"
    "topologies"
}

/// All chapters.
/// # Panics
/// On a mistake in the table, with its file and line. The build script reads the table first, so
/// such a table is not built.
pub fn chapters() -> &'static [Chapter] {
    static CHAPTERS: LazyLock<Vec<Chapter>> = LazyLock::new(|| {
        let read = |(file, text): &(&'static str, &'static str)| {
            parse_chapter(file, text)
                .unwrap_or_else(|mistake| panic!("functions/{file}.txt:{mistake}"))
        };
        TEXTS.iter().map(read).collect()
    });
    &CHAPTERS
}

/// All functions: those of the standard by name, then those beyond it by name. The position of a
/// function is its number ([`crate::FuncId`]).
pub fn functions() -> &'static [Function] {
    static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
        let entries = chapters().iter().flat_map(|chapter| &chapter.entries);
        let mut functions: Vec<_> = entries.flat_map(FunctionEntry::functions).collect();
        functions.sort_by(|one, other| {
            (one.is_extension(), &one.name).cmp(&(other.is_extension(), &other.name))
        });
        functions
    });
    &FUNCTIONS
}

/// The Rust text of `FunctionTable`: a C structure with the address of each function, by which
/// libraries of this installation call functions of `libmpi_abi.so.1` past symbols of the same
/// names. `functions` is its size in functions, by which a library of another build is found.
pub fn address_table() -> String {
    let mut text = String::from(
        "/// The addresses of all functions.\n#[repr(C)]\n#[allow(non_snake_case)]\n\
         pub(crate) struct FunctionTable {\n    pub(crate) functions: usize,\n    \
         /// The number of error codes that the thread's last call of MPI_Comm_spawn or\n    \
         /// MPI_Comm_spawn_multiple has stored.\n    \
         pub(crate) spawned_codes: unsafe extern \"C\" fn() -> c_int,\n    \
         /// Gives texts for the user the numbers of another ABI.\n    \
         pub(crate) show_values_by: extern \"C\" fn(oxmpi_abi::shown::ForeignValue),\n",
    );
    for function in functions() {
        let types: Vec<_> = function.arguments.iter().map(FunctionArgument::rust_type).collect();
        text += &format!(
            "    pub(crate) {}: unsafe extern \"C-unwind\" fn({}) -> {},\n",
            function.name,
            types.join(", "),
            rust_base(function.result)
        );
    }
    text + "}\n"
}
