//! Error classes, each with a text for users. The error code of a class is the class itself.
//! Classes and codes of a program are above [`MPI_ERR_LASTCODE`], and not in this crate. Source:
//! MPI-5.0, section "Error Codes and Classes" and the same section of the tool chapter.

use crate::extensions;
use std::ffi::c_int;

/// An error class.
#[derive(Clone, Copy, Debug)]
pub struct ErrorClass {
    pub name: &'static str,
    pub class: c_int,
    /// A few words, without a full stop.
    pub text: &'static str,
}

/// The greatest error code of the standard. Codes of programs are above it.
pub const MPI_ERR_LASTCODE: c_int = 16383;

macro_rules! classes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(
            #[doc = concat!("Error class ", $value, ": ", $text, ".")]
            pub const $name: c_int = $value;
        )*

        /// All error classes, in ascending order.
        pub static ERROR_CLASSES: &[ErrorClass] =
            &[$(ErrorClass { name: stringify!($name), class: $value, text: $text }),*];
    };
}

classes! {
    MPI_SUCCESS = 0, "no error";
    MPI_ERR_BUFFER = 1, "a buffer address is not valid";
    MPI_ERR_COUNT = 2, "a count is negative or too large";
    MPI_ERR_TYPE = 3, "a datatype is null, freed or not committed, or does not fit the call";
    MPI_ERR_TAG = 4, "a tag is negative or greater than the attribute MPI_TAG_UB";
    MPI_ERR_COMM = 5, "a communicator is null, freed or of the wrong kind for the call";
    MPI_ERR_RANK = 6, "a rank does not exist in the communicator or group";
    MPI_ERR_REQUEST = 7, "a request is freed, or of the wrong kind for the call";
    MPI_ERR_ROOT = 8, "the root of a collective operation is not a rank that may be root";
    MPI_ERR_GROUP = 9, "a group is null or freed, or has the wrong members for the call";
    MPI_ERR_OP = 10, "a reduction operation is null or freed, or does not apply to the datatype";
    MPI_ERR_TOPOLOGY = 11, "the communicator has no process topology, or one of another kind";
    MPI_ERR_DIMS = 12, "a number of dimensions or the extent of one does not fit";
    MPI_ERR_ARG = 13, "an argument is not valid and no other error class describes it";
    MPI_ERR_UNKNOWN = 14, "the error is of no known kind";
    MPI_ERR_TRUNCATE = 15, "the message is longer than the receive buffer";
    MPI_ERR_OTHER = 16, "an error that the standard has no class for; the text of the code says more";
    MPI_ERR_INTERN = 17, "the library found its own state inconsistent: this is a defect of the library";
    MPI_ERR_PENDING = 18, "the request is neither complete nor failed; another one of the call failed";
    MPI_ERR_IN_STATUS = 19, "one or more requests failed; the error codes are in the statuses";
    MPI_ERR_ACCESS = 20, "the file may not be opened or accessed with these permissions";
    MPI_ERR_AMODE = 21, "the access mode of a file is contradictory, or differs between processes";
    MPI_ERR_ASSERT = 22, "an assertion argument has bits that the call does not know";
    MPI_ERR_BAD_FILE = 23, "a file name is not valid";
    MPI_ERR_BASE = 24, "the base address of memory is not valid for the call";
    MPI_ERR_CONVERSION = 25, "a conversion function of a data representation failed";
    MPI_ERR_DISP = 26, "a displacement or a displacement unit is not valid";
    MPI_ERR_DUP_DATAREP = 27, "a data representation of this name is registered already";
    MPI_ERR_FILE_EXISTS = 28, "the file exists already";
    MPI_ERR_FILE_IN_USE = 29, "the file is open in some process, so the operation cannot be done";
    MPI_ERR_FILE = 30, "a file handle is null or closed";
    MPI_ERR_INFO_KEY = 31, "an info key is empty or longer than MPI_MAX_INFO_KEY";
    MPI_ERR_INFO_NOKEY = 32, "the info object has no such key";
    MPI_ERR_INFO_VALUE = 33, "an info value is longer than MPI_MAX_INFO_VAL, or makes no sense for its key";
    MPI_ERR_INFO = 34, "an info handle is null or freed";
    MPI_ERR_IO = 35, "the operating system failed to read or write";
    MPI_ERR_KEYVAL = 36, "an attribute key is freed, of the wrong kind, or may not be changed";
    MPI_ERR_LOCKTYPE = 37, "a lock type is neither shared nor exclusive";
    MPI_ERR_NAME = 38, "no service of this name is published";
    MPI_ERR_NO_MEM = 39, "memory is exhausted";
    MPI_ERR_NOT_SAME = 40, "an argument of a collective call differs between processes";
    MPI_ERR_NO_SPACE = 41, "the device has no space left";
    MPI_ERR_NO_SUCH_FILE = 42, "the file does not exist";
    MPI_ERR_PORT = 43, "a port name is not valid, or nobody listens there";
    MPI_ERR_QUOTA = 44, "the disk quota is exceeded";
    MPI_ERR_READ_ONLY = 45, "the file or its file system can only be read";
    MPI_ERR_RMA_ATTACH = 46, "the memory cannot be attached to the window";
    MPI_ERR_RMA_CONFLICT = 47, "one-sided accesses to the window conflict";
    MPI_ERR_RMA_RANGE = 48, "the target memory is outside the window";
    MPI_ERR_RMA_SHARED = 49, "the memory cannot be shared by the processes of the communicator";
    MPI_ERR_RMA_SYNC = 50, "one-sided calls are in the wrong order: no epoch is open, or the wrong one";
    MPI_ERR_SERVICE = 51, "a published name cannot be withdrawn, for it is not published by this process";
    MPI_ERR_SIZE = 52, "a size is negative or too large";
    MPI_ERR_SPAWN = 53, "processes could not be started";
    MPI_ERR_UNSUPPORTED_DATAREP = 54, "the data representation is not known";
    MPI_ERR_UNSUPPORTED_OPERATION = 55, "this library does not provide the operation";
    MPI_ERR_WIN = 56, "a window is null or freed";
    MPI_ERR_RMA_FLAVOR = 57, "the window is not of the flavor that the call needs";
    MPI_ERR_PROC_ABORTED = 58, "a process that takes part has aborted";
    MPI_ERR_VALUE_TOO_LARGE = 59, "a result does not fit the type of its argument; use the form of the call with large counts";
    MPI_ERR_SESSION = 60, "a session is null or finalized";
    MPI_ERR_ERRHANDLER = 61, "an error handler is null or freed, or of the wrong kind";
    MPI_ERR_ABI = 62, "the request does not agree with the binary interface of the running library";
    MPI_T_ERR_CANNOT_INIT = 1001, "the tool interface cannot be initialised now";
    MPI_T_ERR_NOT_ACCESSIBLE = 1002, "the requested functionality is not accessible now";
    MPI_T_ERR_NOT_INITIALIZED = 1003, "the tool interface is not initialised";
    MPI_T_ERR_NOT_SUPPORTED = 1004, "the tool interface does not provide this";
    MPI_T_ERR_MEMORY = 1005, "memory is exhausted in the tool interface";
    MPI_T_ERR_INVALID = 1006, "an argument of a tool call is not valid";
    MPI_T_ERR_INVALID_INDEX = 1007, "no variable, category, event or source has this index";
    MPI_T_ERR_INVALID_ITEM = 1008, "the enumeration has no item with this index";
    MPI_T_ERR_INVALID_SESSION = 1009, "the session of performance variables is not valid";
    MPI_T_ERR_INVALID_HANDLE = 1010, "the handle of a variable or event is not valid";
    MPI_T_ERR_INVALID_NAME = 1011, "no variable, category or event has this name";
    MPI_T_ERR_OUT_OF_HANDLES = 1012, "no more handles can be made";
    MPI_T_ERR_OUT_OF_SESSIONS = 1013, "no more sessions of performance variables can be made";
    MPI_T_ERR_CVAR_SET_NOT_NOW = 1014, "the control variable cannot be changed at this moment";
    MPI_T_ERR_CVAR_SET_NEVER = 1015, "the control variable cannot be changed";
    MPI_T_ERR_PVAR_NO_WRITE = 1016, "the performance variable cannot be written or reset";
    MPI_T_ERR_PVAR_NO_STARTSTOP = 1017, "the performance variable cannot be started or stopped";
    MPI_T_ERR_PVAR_NO_ATOMIC = 1018, "the performance variable cannot be read and reset in one step";
}

/// The error class of the standard or of an extension with this value.
pub fn error_class(class: c_int) -> Option<&'static ErrorClass> {
    let tables = [ERROR_CLASSES, extensions::ERROR_CLASSES];
    tables.into_iter().find_map(|classes| {
        let at = classes.binary_search_by_key(&class, |entry| entry.class).ok()?;
        classes.get(at)
    })
}

/// The C name of an error class (`MPI_ERR_RANK`).
pub fn error_class_name(class: c_int) -> Option<&'static str> {
    error_class(class).map(|entry| entry.name)
}

/// The text of an error class, without a full stop and shorter than `MPI_MAX_ERROR_STRING`.
pub fn error_class_text(class: c_int) -> Option<&'static str> {
    error_class(class).map(|entry| entry.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_ascend_and_are_found() {
        assert!(ERROR_CLASSES.windows(2).all(|pair| pair[0].class < pair[1].class));
        assert_eq!(error_class_name(6), Some("MPI_ERR_RANK"));
        assert_eq!(error_class_name(1018), Some("MPI_T_ERR_PVAR_NO_ATOMIC"));
        assert_eq!(error_class_name(63), None);
        assert_eq!(error_class_name(-1), None);
    }

    #[test]
    fn texts_fit_and_are_distinct() {
        let mut texts: Vec<_> = ERROR_CLASSES.iter().map(|entry| entry.text).collect();
        assert!(texts.iter().all(|text| text.len() < 128 && !text.ends_with('.')));
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), ERROR_CLASSES.len());
    }
}
