//! Values that the program has passed, in texts for the user.
//!
//! A special constant is shown by its name, a rank or a tag with its number too. A program of
//! another MPI passes the values of its own ABI, and the library for such programs converts them.
//! It gives this module the function that converts them back ([`show_values_by`]), so that the user
//! reads what the program has.

use crate::error::MpiError;
use oxmpi_abi::constants as abi;
use oxmpi_abi::error_class_name;
use oxmpi_abi::shown::ForeignValue;
pub use oxmpi_abi::shown::ValueKind;
use std::fmt;
use std::sync::OnceLock;

static FOREIGN: OnceLock<ForeignValue> = OnceLock::new();

/// Shows the numbers that this function returns. In a process with programs of several ABIs the
/// first function stays.
pub extern "C" fn show_values_by(function: ForeignValue) {
    let _ = FOREIGN.set(function);
}

/// A value, which is displayed as the program has it.
#[derive(Clone, Copy, Debug)]
pub struct Shown(ValueKind, i64);

/// A number: a rank, a tag, a code or one of the other kinds.
pub fn number(kind: ValueKind, value: i32) -> Shown {
    Shown(kind, value.into())
}

/// A handle.
pub fn handle(kind: ValueKind, raw: u64) -> Shown {
    Shown(kind, raw.cast_signed())
}

/// The error of a handle that names no object. `why` is the reason.
#[cold]
pub fn bad_handle(kind: ValueKind, raw: u64, why: impl fmt::Display) -> MpiError {
    let (class, what) = match kind {
        ValueKind::Comm => (abi::MPI_ERR_COMM, "communicator"),
        ValueKind::Datatype => (abi::MPI_ERR_TYPE, "datatype"),
        ValueKind::Errhandler => (abi::MPI_ERR_ERRHANDLER, "errhandler"),
        ValueKind::File => (abi::MPI_ERR_FILE, "file"),
        ValueKind::Group => (abi::MPI_ERR_GROUP, "group"),
        ValueKind::Info => (abi::MPI_ERR_INFO, "info"),
        ValueKind::Op => (abi::MPI_ERR_OP, "operation"),
        ValueKind::Session => (abi::MPI_ERR_SESSION, "session"),
        ValueKind::Win => (abi::MPI_ERR_WIN, "window"),
        ValueKind::Message => (abi::MPI_ERR_REQUEST, "message"),
        _ => (abi::MPI_ERR_REQUEST, "request"),
    };
    let shown = handle(kind, raw);
    let text = match shown.name() {
        Some(null) if null.ends_with("_NULL") => format!("the {what} is {null}"),
        _ => format!("the {what} {shown}: {why}"),
    };
    MpiError::new(class, text)
}

impl Shown {
    /// The name of a constant. A table of all constants would cost each process some pages.
    fn name(self) -> Option<&'static str> {
        let Shown(kind, value) = self;
        macro_rules! names {
            ($($name:ident)*) => {{ $(
                if value == abi::$name as i64 {
                    return Some(stringify!($name));
                }
            )* }};
        }
        match kind {
            ValueKind::Comm => names!(MPI_COMM_NULL MPI_COMM_WORLD MPI_COMM_SELF),
            ValueKind::Datatype => names!(MPI_DATATYPE_NULL),
            ValueKind::Errhandler => names!(MPI_ERRHANDLER_NULL),
            ValueKind::File => names!(MPI_FILE_NULL),
            ValueKind::Group => names!(MPI_GROUP_NULL),
            ValueKind::Info => names!(MPI_INFO_NULL),
            ValueKind::Message => names!(MPI_MESSAGE_NULL),
            ValueKind::Op => names!(MPI_OP_NULL),
            ValueKind::Request => names!(MPI_REQUEST_NULL),
            ValueKind::Session => names!(MPI_SESSION_NULL),
            ValueKind::Win => names!(MPI_WIN_NULL),
            ValueKind::Rank => names!(MPI_ANY_SOURCE MPI_PROC_NULL MPI_ROOT),
            ValueKind::Tag => names!(MPI_ANY_TAG),
            ValueKind::Keyval => names!(
                MPI_TAG_UB MPI_IO MPI_HOST MPI_WTIME_IS_GLOBAL MPI_APPNUM MPI_LASTUSEDCODE
                MPI_UNIVERSE_SIZE MPI_WIN_BASE MPI_WIN_DISP_UNIT MPI_WIN_SIZE
                MPI_WIN_CREATE_FLAVOR MPI_WIN_MODEL
            ),
            ValueKind::Code => return error_class_name(value as i32),
            _ => {}
        }
        None
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(kind, value) = *self;
        let foreign = || FOREIGN.get().map_or(value, |foreign| foreign(kind, value));
        match self.name() {
            // The program may have computed the number.
            Some(name) if matches!(kind, ValueKind::Rank | ValueKind::Tag) => {
                write!(f, "{name} ({})", foreign())
            }
            Some(name) => f.write_str(name),
            None if kind.is_handle() || kind == ValueKind::Assert => write!(f, "{:#x}", foreign()),
            None => write!(f, "{}", foreign()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_names_and_other_values_numbers() {
        let shown = |kind, value| number(kind, value).to_string();
        assert_eq!(shown(ValueKind::Rank, abi::MPI_ANY_SOURCE), "MPI_ANY_SOURCE (-1)");
        assert_eq!(shown(ValueKind::Rank, abi::MPI_TAG_UB), "501");
        assert_eq!(shown(ValueKind::Keyval, abi::MPI_TAG_UB), "MPI_TAG_UB");
        assert_eq!(shown(ValueKind::Code, abi::MPI_ERR_COMM), "MPI_ERR_COMM");
        assert_eq!(shown(ValueKind::Assert, 1024), "0x400");
        let shown = |raw| handle(ValueKind::Comm, raw).to_string();
        assert_eq!(shown(abi::MPI_COMM_WORLD as u64), "MPI_COMM_WORLD");
        assert_eq!(shown(1 << 63), "0x8000000000000000");
    }

    #[test]
    fn bad_handles_are_named() {
        let error = bad_handle(ValueKind::Group, abi::MPI_GROUP_NULL as u64, "it is freed");
        assert_eq!(
            (error.class(), error.detail()),
            (abi::MPI_ERR_GROUP, "the group is MPI_GROUP_NULL")
        );
        let error = bad_handle(ValueKind::Win, 0x5000, "it is freed");
        assert_eq!(
            (error.class(), error.detail()),
            (abi::MPI_ERR_WIN, "the window 0x5000: it is freed")
        );
    }
}
