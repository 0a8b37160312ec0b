//! The kinds of values for which texts for the user name a constant or give a number.
//!
//! A library for programs of another MPI gives `libmpi_abi.so.1` a [`ForeignValue`], so that texts
//! have the numbers that the program has passed.

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ValueKind {
    Comm,
    Datatype,
    Errhandler,
    File,
    Group,
    Info,
    Message,
    Op,
    Request,
    Session,
    Win,
    Rank,
    Tag,
    Keyval,
    /// An error class or code.
    Code,
    /// The assertions of a synchronisation of windows.
    Assert,
    /// The access mode of a file.
    Amode,
    Distribution,
    LockType,
    Order,
    SplitType,
    TypeClass,
    Whence,
}

/// The value in the other ABI for a value in the standard ABI.
pub type ForeignValue = extern "C" fn(ValueKind, i64) -> i64;

impl ValueKind {
    /// Whether values of this kind are handles.
    pub const fn is_handle(self) -> bool {
        (self as u32) < ValueKind::Rank as u32
    }
}
