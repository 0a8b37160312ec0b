//! All constants under their C names.
//!
//! One table gives the Rust constants and [`CONSTANTS`], from which the header is written. Integers
//! are `i32`. Handles, special addresses and predefined callbacks are `usize`, as the program
//! passes them. The error classes of [`crate::errors`] are re-exported here.
//!
//! Source: MPI-5.0, the chapter on the application binary interface, and Annex A.1.

pub use crate::errors::*;

/// The kind of a constant in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantKind {
    /// An `int`, usable in `#if`.
    Int,
    /// A member of the named enumeration.
    Enum(&'static str),
    /// A predefined handle of the named type.
    Handle(&'static str),
    /// A special address of the named pointer type.
    Pointer(&'static str),
    /// An `MPI_Offset`.
    Offset,
    /// A predefined function of the named callback type, which is only compared.
    Callback(&'static str),
}

/// A constant as data.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    pub name: &'static str,
    pub kind: ConstantKind,
    pub value: i64,
    pub group: &'static str,
}

/// Another name of a constant.
#[derive(Clone, Copy, Debug)]
pub struct ConstantAlias {
    pub name: &'static str,
    pub target: &'static str,
}

macro_rules! constants {
    ($($group:literal: $kind:expr, $type:ty { $($name:ident = $value:expr,)* })*) => {
        $($(
            #[doc = concat!("`", stringify!($name), "` (", $group, "): ", stringify!($value), ".")]
            pub const $name: $type = $value;
        )*)*

        /// All constants by group, without the error classes ([`ERROR_CLASSES`],
        /// [`MPI_ERR_LASTCODE`]).
        pub static CONSTANTS: &[Constant] = &[
            $($(Constant { name: stringify!($name), kind: $kind, value: $value, group: $group },)*)*
        ];
    };
}

macro_rules! aliases {
    ($($name:ident = $target:ident;)*) => {
        $(
            #[doc = concat!("Another name of [`", stringify!($target), "`].")]
            pub const $name: usize = $target;
        )*

        /// Names that stand for another constant.
        pub static ALIASES: &[ConstantAlias] =
            &[$(ConstantAlias { name: stringify!($name), target: stringify!($target) }),*];
    };
}

aliases! {
    MPI_LONG_LONG_INT = MPI_LONG_LONG;
    MPI_C_COMPLEX = MPI_C_FLOAT_COMPLEX;
}

constants! {
    "Places of the public fields of a status in an array of Fortran integers": ConstantKind::Int, i32 {
        MPI_F_STATUS_SIZE = 8,
        MPI_F_SOURCE = 0,
        MPI_F_TAG = 1,
        MPI_F_ERROR = 2,
    }
    "Access modes of a file (bits)": ConstantKind::Int, i32 {
        MPI_MODE_APPEND = 1,
        MPI_MODE_CREATE = 2,
        MPI_MODE_DELETE_ON_CLOSE = 4,
        MPI_MODE_EXCL = 8,
        MPI_MODE_RDONLY = 16,
        MPI_MODE_RDWR = 32,
        MPI_MODE_SEQUENTIAL = 64,
        MPI_MODE_UNIQUE_OPEN = 128,
        MPI_MODE_WRONLY = 256,
    }
    "Assertions on one-sided synchronisation (bits)": ConstantKind::Int, i32 {
        MPI_MODE_NOCHECK = 1024,
        MPI_MODE_NOPRECEDE = 2048,
        MPI_MODE_NOPUT = 4096,
        MPI_MODE_NOSTORE = 8192,
        MPI_MODE_NOSUCCEED = 16384,
    }
    "Wildcards, special ranks and the undefined value": ConstantKind::Int, i32 {
        MPI_ANY_SOURCE = -1,
        MPI_ANY_TAG = -2,
        MPI_PROC_NULL = -3,
        MPI_ROOT = -4,
        MPI_UNDEFINED = -32766,
    }
    "Thread levels, in rising order": ConstantKind::Int, i32 {
        MPI_THREAD_SINGLE = 0,
        MPI_THREAD_FUNNELED = 1024,
        MPI_THREAD_SERIALIZED = 2048,
        MPI_THREAD_MULTIPLE = 4096,
    }
    "Array orders and distributions for the datatype constructors": ConstantKind::Int, i32 {
        MPI_ORDER_C = 12,
        MPI_ORDER_FORTRAN = 15,
        MPI_DISTRIBUTE_NONE = 16,
        MPI_DISTRIBUTE_BLOCK = 17,
        MPI_DISTRIBUTE_CYCLIC = 18,
        MPI_DISTRIBUTE_DFLT_DARG = 19,
    }
    "Combiners: how a datatype was made": ConstantKind::Int, i32 {
        MPI_COMBINER_NAMED = 101,
        MPI_COMBINER_DUP = 102,
        MPI_COMBINER_CONTIGUOUS = 103,
        MPI_COMBINER_VECTOR = 104,
        MPI_COMBINER_HVECTOR = 105,
        MPI_COMBINER_INDEXED = 106,
        MPI_COMBINER_HINDEXED = 107,
        MPI_COMBINER_INDEXED_BLOCK = 108,
        MPI_COMBINER_HINDEXED_BLOCK = 109,
        MPI_COMBINER_STRUCT = 110,
        MPI_COMBINER_SUBARRAY = 111,
        MPI_COMBINER_DARRAY = 112,
        MPI_COMBINER_F90_REAL = 113,
        MPI_COMBINER_F90_COMPLEX = 114,
        MPI_COMBINER_F90_INTEGER = 115,
        MPI_COMBINER_RESIZED = 116,
        MPI_COMBINER_VALUE_INDEX = 117,
    }
    "Type classes of MPI_Type_match_size": ConstantKind::Int, i32 {
        MPIX_TYPECLASS_LOGICAL = 191,
        MPI_TYPECLASS_INTEGER = 192,
        MPI_TYPECLASS_REAL = 193,
        MPI_TYPECLASS_COMPLEX = 194,
    }
    "Results of comparing communicators or groups": ConstantKind::Int, i32 {
        MPI_IDENT = 201,
        MPI_CONGRUENT = 202,
        MPI_SIMILAR = 203,
        MPI_UNEQUAL = 204,
    }
    "Kinds of process topology": ConstantKind::Int, i32 {
        MPI_CART = 211,
        MPI_GRAPH = 212,
        MPI_DIST_GRAPH = 213,
    }
    "Types of splitting a communicator by locality": ConstantKind::Int, i32 {
        MPI_COMM_TYPE_SHARED = 221,
        MPI_COMM_TYPE_HW_UNGUIDED = 222,
        MPI_COMM_TYPE_HW_GUIDED = 223,
        MPI_COMM_TYPE_RESOURCE_GUIDED = 224,
    }
    "Lock types of a window": ConstantKind::Int, i32 {
        MPI_LOCK_EXCLUSIVE = 301,
        MPI_LOCK_SHARED = 302,
    }
    "How a window was made": ConstantKind::Int, i32 {
        MPI_WIN_FLAVOR_CREATE = 311,
        MPI_WIN_FLAVOR_ALLOCATE = 312,
        MPI_WIN_FLAVOR_DYNAMIC = 313,
        MPI_WIN_FLAVOR_SHARED = 314,
    }
    "Memory models of a window": ConstantKind::Int, i32 {
        MPI_WIN_UNIFIED = 321,
        MPI_WIN_SEPARATE = 322,
    }
    "Origins of a seek in a file": ConstantKind::Int, i32 {
        MPI_SEEK_CUR = 401,
        MPI_SEEK_END = 402,
        MPI_SEEK_SET = 403,
    }
    "The invalid attribute key": ConstantKind::Int, i32 {
        MPI_KEYVAL_INVALID = 0,
    }
    "Predefined attribute keys of communicators": ConstantKind::Int, i32 {
        MPI_TAG_UB = 501,
        MPI_IO = 502,
        MPI_HOST = 503,
        MPI_WTIME_IS_GLOBAL = 504,
        MPI_APPNUM = 505,
        MPI_LASTUSEDCODE = 506,
        MPI_UNIVERSE_SIZE = 507,
    }
    "Predefined attribute keys of windows": ConstantKind::Int, i32 {
        MPI_WIN_BASE = 601,
        MPI_WIN_DISP_UNIT = 602,
        MPI_WIN_SIZE = 603,
        MPI_WIN_CREATE_FLAVOR = 604,
        MPI_WIN_MODEL = 605,
    }
    "Tool interface: what an event callback may do": ConstantKind::Enum("MPI_T_cb_safety"), i32 {
        MPI_T_CB_REQUIRE_NONE = 0,
        MPI_T_CB_REQUIRE_MPI_RESTRICTED = 3,
        MPI_T_CB_REQUIRE_THREAD_SAFE = 15,
        MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE = 63,
    }
    "Tool interface: order of the events of a source": ConstantKind::Enum("MPI_T_source_order"), i32 {
        MPI_T_SOURCE_ORDERED = 1,
        MPI_T_SOURCE_UNORDERED = 2,
    }
    "Tool interface: verbosity levels": ConstantKind::Int, i32 {
        MPI_T_VERBOSITY_USER_BASIC = 9,
        MPI_T_VERBOSITY_USER_DETAIL = 10,
        MPI_T_VERBOSITY_USER_ALL = 12,
        MPI_T_VERBOSITY_TUNER_BASIC = 17,
        MPI_T_VERBOSITY_TUNER_DETAIL = 18,
        MPI_T_VERBOSITY_TUNER_ALL = 20,
        MPI_T_VERBOSITY_MPIDEV_BASIC = 33,
        MPI_T_VERBOSITY_MPIDEV_DETAIL = 34,
        MPI_T_VERBOSITY_MPIDEV_ALL = 36,
    }
    "Tool interface: the kind of object a variable belongs to": ConstantKind::Int, i32 {
        MPI_T_BIND_NO_OBJECT = 1,
        MPI_T_BIND_MPI_COMM = 2,
        MPI_T_BIND_MPI_DATATYPE = 3,
        MPI_T_BIND_MPI_ERRHANDLER = 4,
        MPI_T_BIND_MPI_FILE = 5,
        MPI_T_BIND_MPI_GROUP = 6,
        MPI_T_BIND_MPI_OP = 7,
        MPI_T_BIND_MPI_REQUEST = 8,
        MPI_T_BIND_MPI_WIN = 9,
        MPI_T_BIND_MPI_MESSAGE = 10,
        MPI_T_BIND_MPI_INFO = 11,
        MPI_T_BIND_MPI_SESSION = 12,
    }
    "Tool interface: where a control variable must be changed alike": ConstantKind::Int, i32 {
        MPI_T_SCOPE_CONSTANT = 1,
        MPI_T_SCOPE_READONLY = 2,
        MPI_T_SCOPE_LOCAL = 3,
        MPI_T_SCOPE_GROUP = 4,
        MPI_T_SCOPE_GROUP_EQ = 5,
        MPI_T_SCOPE_ALL = 6,
        MPI_T_SCOPE_ALL_EQ = 7,
    }
    "Tool interface: classes of performance variables": ConstantKind::Int, i32 {
        MPI_T_PVAR_CLASS_STATE = 1,
        MPI_T_PVAR_CLASS_LEVEL = 2,
        MPI_T_PVAR_CLASS_SIZE = 3,
        MPI_T_PVAR_CLASS_PERCENTAGE = 4,
        MPI_T_PVAR_CLASS_HIGHWATERMARK = 5,
        MPI_T_PVAR_CLASS_LOWWATERMARK = 6,
        MPI_T_PVAR_CLASS_COUNTER = 7,
        MPI_T_PVAR_CLASS_AGGREGATE = 8,
        MPI_T_PVAR_CLASS_TIMER = 9,
        MPI_T_PVAR_CLASS_GENERIC = 10,
    }
    "Versions of the standard and of the binary interface": ConstantKind::Int, i32 {
        MPI_VERSION = 5,
        MPI_SUBVERSION = 0,
        MPI_ABI_VERSION = 1,
        MPI_ABI_SUBVERSION = 0,
    }
    "Predefined reduction operations": ConstantKind::Handle("MPI_Op"), usize {
        MPI_OP_NULL = 0x20,
        MPI_SUM = 0x21,
        MPI_MIN = 0x22,
        MPI_MAX = 0x23,
        MPI_PROD = 0x24,
        MPI_BAND = 0x28,
        MPI_BOR = 0x29,
        MPI_BXOR = 0x2a,
        MPI_LAND = 0x30,
        MPI_LOR = 0x31,
        MPI_LXOR = 0x32,
        MPI_MINLOC = 0x38,
        MPI_MAXLOC = 0x39,
        MPI_REPLACE = 0x3c,
        MPI_NO_OP = 0x3d,
    }
    "Predefined communicators": ConstantKind::Handle("MPI_Comm"), usize {
        MPI_COMM_NULL = 0x100,
        MPI_COMM_WORLD = 0x101,
        MPI_COMM_SELF = 0x102,
    }
    "Predefined groups": ConstantKind::Handle("MPI_Group"), usize {
        MPI_GROUP_NULL = 0x108,
        MPI_GROUP_EMPTY = 0x109,
    }
    "The null window": ConstantKind::Handle("MPI_Win"), usize {
        MPI_WIN_NULL = 0x110,
    }
    "The null file": ConstantKind::Handle("MPI_File"), usize {
        MPI_FILE_NULL = 0x118,
    }
    "The null session": ConstantKind::Handle("MPI_Session"), usize {
        MPI_SESSION_NULL = 0x120,
    }
    "Predefined messages of a matched probe": ConstantKind::Handle("MPI_Message"), usize {
        MPI_MESSAGE_NULL = 0x128,
        MPI_MESSAGE_NO_PROC = 0x129,
    }
    "Predefined info objects": ConstantKind::Handle("MPI_Info"), usize {
        MPI_INFO_NULL = 0x130,
        MPI_INFO_ENV = 0x131,
    }
    "Predefined error handlers": ConstantKind::Handle("MPI_Errhandler"), usize {
        MPI_ERRHANDLER_NULL = 0x140,
        MPI_ERRORS_ARE_FATAL = 0x141,
        MPI_ERRORS_ABORT = 0x142,
        MPI_ERRORS_RETURN = 0x143,
    }
    "The null request": ConstantKind::Handle("MPI_Request"), usize {
        MPI_REQUEST_NULL = 0x180,
    }
    "Predefined datatypes": ConstantKind::Handle("MPI_Datatype"), usize {
        MPI_DATATYPE_NULL = 0x200,
        MPI_AINT = 0x201,
        MPI_COUNT = 0x202,
        MPI_OFFSET = 0x203,
        MPI_PACKED = 0x207,
        MPI_SHORT = 0x208,
        MPI_INT = 0x209,
        MPI_LONG = 0x20a,
        MPI_LONG_LONG = 0x20b,
        MPI_UNSIGNED_SHORT = 0x20c,
        MPI_UNSIGNED = 0x20d,
        MPI_UNSIGNED_LONG = 0x20e,
        MPI_UNSIGNED_LONG_LONG = 0x20f,
        MPI_FLOAT = 0x210,
        MPI_C_FLOAT_COMPLEX = 0x212,
        MPI_CXX_FLOAT_COMPLEX = 0x213,
        MPI_DOUBLE = 0x214,
        MPI_C_DOUBLE_COMPLEX = 0x216,
        MPI_CXX_DOUBLE_COMPLEX = 0x217,
        MPI_LOGICAL = 0x218,
        MPI_INTEGER = 0x219,
        MPI_REAL = 0x21a,
        MPI_COMPLEX = 0x21b,
        MPI_DOUBLE_PRECISION = 0x21c,
        MPI_DOUBLE_COMPLEX = 0x21d,
        MPI_CHARACTER = 0x21e,
        MPI_LONG_DOUBLE = 0x220,
        MPI_C_LONG_DOUBLE_COMPLEX = 0x224,
        MPI_CXX_LONG_DOUBLE_COMPLEX = 0x225,
        MPI_FLOAT_INT = 0x228,
        MPI_DOUBLE_INT = 0x229,
        MPI_LONG_INT = 0x22a,
        MPI_2INT = 0x22b,
        MPI_SHORT_INT = 0x22c,
        MPI_LONG_DOUBLE_INT = 0x22d,
        MPI_2REAL = 0x230,
        MPI_2DOUBLE_PRECISION = 0x231,
        MPI_2INTEGER = 0x232,
        MPI_C_BOOL = 0x238,
        MPI_CXX_BOOL = 0x239,
        MPI_WCHAR = 0x23c,
        MPI_INT8_T = 0x240,
        MPI_UINT8_T = 0x241,
        MPI_CHAR = 0x243,
        MPI_SIGNED_CHAR = 0x244,
        MPI_UNSIGNED_CHAR = 0x245,
        MPI_BYTE = 0x247,
        MPI_INT16_T = 0x248,
        MPI_UINT16_T = 0x249,
        MPI_INT32_T = 0x250,
        MPI_UINT32_T = 0x251,
        MPI_INT64_T = 0x258,
        MPI_UINT64_T = 0x259,
        MPI_LOGICAL1 = 0x2c0,
        MPI_INTEGER1 = 0x2c1,
        MPI_LOGICAL2 = 0x2c8,
        MPI_INTEGER2 = 0x2c9,
        MPI_REAL2 = 0x2ca,
        MPI_LOGICAL4 = 0x2d0,
        MPI_INTEGER4 = 0x2d1,
        MPI_REAL4 = 0x2d2,
        MPI_COMPLEX4 = 0x2d3,
        MPI_LOGICAL8 = 0x2d8,
        MPI_INTEGER8 = 0x2d9,
        MPI_REAL8 = 0x2da,
        MPI_COMPLEX8 = 0x2db,
        MPI_LOGICAL16 = 0x2e0,
        MPI_INTEGER16 = 0x2e1,
        MPI_REAL16 = 0x2e2,
        MPI_COMPLEX16 = 0x2e3,
        MPI_COMPLEX32 = 0x2eb,
    }
    "Special buffer addresses": ConstantKind::Pointer("void *"), usize {
        MPI_BOTTOM = 0,
        MPI_IN_PLACE = 1,
        MPI_BUFFER_AUTOMATIC = 2,
    }
    "No arguments for spawned programs": ConstantKind::Pointer("char **"), usize {
        MPI_ARGV_NULL = 0,
    }
    "No argument lists for several spawned programs": ConstantKind::Pointer("char ***"), usize {
        MPI_ARGVS_NULL = 0,
    }
    "No array for error codes": ConstantKind::Pointer("int *"), usize {
        MPI_ERRCODES_IGNORE = 0,
    }
    "No room for a status": ConstantKind::Pointer("MPI_Status *"), usize {
        MPI_STATUS_IGNORE = 0,
        MPI_STATUSES_IGNORE = 0,
    }
    "Special weights of a distributed graph": ConstantKind::Pointer("int *"), usize {
        MPI_UNWEIGHTED = 10,
        MPI_WEIGHTS_EMPTY = 11,
    }
    "Longest strings, in bytes with the closing zero": ConstantKind::Int, i32 {
        MPI_MAX_DATAREP_STRING = 128,
        MPI_MAX_ERROR_STRING = 512,
        MPI_MAX_INFO_KEY = 256,
        MPI_MAX_INFO_VAL = 1024,
        MPI_MAX_LIBRARY_VERSION_STRING = 8192,
        MPI_MAX_OBJECT_NAME = 128,
        MPI_MAX_PORT_NAME = 1024,
        MPI_MAX_PROCESSOR_NAME = 256,
        MPI_MAX_STRINGTAG_LEN = 1024,
        MPI_MAX_PSET_NAME_LEN = 1024,
    }
    "Bytes a buffered message needs beside its packed data": ConstantKind::Int, i32 {
        MPI_BSEND_OVERHEAD = 512,
    }
    "The displacement of a file view that stays where it is": ConstantKind::Offset, i64 {
        MPI_DISPLACEMENT_CURRENT = -1,
    }
    "Predefined attribute callbacks (deprecated forms)": ConstantKind::Callback("MPI_Copy_function"), usize {
        MPI_NULL_COPY_FN = 0,
        MPI_DUP_FN = 1,
    }
    "Predefined attribute callbacks (deprecated forms)": ConstantKind::Callback("MPI_Delete_function"), usize {
        MPI_NULL_DELETE_FN = 0,
    }
    "Predefined attribute callbacks of communicators": ConstantKind::Callback("MPI_Comm_copy_attr_function"), usize {
        MPI_COMM_NULL_COPY_FN = 0,
        MPI_COMM_DUP_FN = 1,
    }
    "Predefined attribute callbacks of communicators": ConstantKind::Callback("MPI_Comm_delete_attr_function"), usize {
        MPI_COMM_NULL_DELETE_FN = 0,
    }
    "Predefined attribute callbacks of datatypes": ConstantKind::Callback("MPI_Type_copy_attr_function"), usize {
        MPI_TYPE_NULL_COPY_FN = 0,
        MPI_TYPE_DUP_FN = 1,
    }
    "Predefined attribute callbacks of datatypes": ConstantKind::Callback("MPI_Type_delete_attr_function"), usize {
        MPI_TYPE_NULL_DELETE_FN = 0,
    }
    "Predefined attribute callbacks of windows": ConstantKind::Callback("MPI_Win_copy_attr_function"), usize {
        MPI_WIN_NULL_COPY_FN = 0,
        MPI_WIN_DUP_FN = 1,
    }
    "Predefined attribute callbacks of windows": ConstantKind::Callback("MPI_Win_delete_attr_function"), usize {
        MPI_WIN_NULL_DELETE_FN = 0,
    }
    "Predefined conversions of a data representation": ConstantKind::Callback("MPI_Datarep_conversion_function"), usize {
        MPI_CONVERSION_FN_NULL = 0,
    }
    "Predefined conversions of a data representation": ConstantKind::Callback("MPI_Datarep_conversion_function_c"), usize {
        MPI_CONVERSION_FN_NULL_C = 0,
    }
    "Tool interface: predefined handles": ConstantKind::Handle("MPI_T_enum"), usize {
        MPI_T_ENUM_NULL = 0,
    }
    "Tool interface: predefined handles": ConstantKind::Handle("MPI_T_cvar_handle"), usize {
        MPI_T_CVAR_HANDLE_NULL = 0,
    }
    "Tool interface: predefined handles": ConstantKind::Handle("MPI_T_pvar_session"), usize {
        MPI_T_PVAR_SESSION_NULL = 0,
    }
    "Tool interface: predefined handles": ConstantKind::Handle("MPI_T_pvar_handle"), usize {
        MPI_T_PVAR_HANDLE_NULL = 0,
        MPI_T_PVAR_ALL_HANDLES = 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_constants_is_that_of_the_standard() {
        assert_eq!(CONSTANTS.len() + ERROR_CLASSES.len() + 1, 363);
        assert_eq!(ALIASES.len(), 2);
    }

    #[test]
    fn predefined_handles_are_small_and_distinct_within_a_type() {
        for a in CONSTANTS {
            let ConstantKind::Handle(_) = a.kind else { continue };
            assert!((0..4096).contains(&a.value), "{}", a.name);
            for b in CONSTANTS {
                assert!(
                    a.name == b.name || a.kind != b.kind || a.value != b.value,
                    "{} {}",
                    a.name,
                    b.name
                );
            }
        }
    }

    #[test]
    fn fixed_size_types_encode_their_size() {
        // Bits 3 to 5 of these handles are the logarithm of the size in bytes.
        for (datatype, size) in [
            (MPI_INT8_T, 1),
            (MPI_UINT16_T, 2),
            (MPI_INT32_T, 4),
            (MPI_INT64_T, 8),
            (MPI_COMPLEX32, 32),
        ] {
            assert_eq!(1 << (datatype >> 3 & 7), size);
        }
    }
}
