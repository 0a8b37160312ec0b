//! Errors, and panics for mistakes of the program.

use crate::communicator::Rank;
use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::MPIX_ERR_PROC_FAILED;
use oxmpi_core::completion::error_of;
use oxmpi_core::start::StartError;
use oxmpi_engine::Completion;
use oxmpi_objects::error::MpiError;
use std::fmt;

/// The result of most functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, by which a program can react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This process could not become a rank: a parameter, or the data from `mpirun`, are wrong.
    Start,
    /// [`init`](crate::init) or [`init_threaded`](crate::init_threaded) was called before.
    AlreadyInitialized,
    /// A message was longer than its receive buffer.
    Truncated,
    /// The length of a message is no multiple of the element's length in a message.
    WrongType,
    /// Another process has failed or cannot be reached.
    PeerFailed,
    /// There is not enough memory.
    NoMemory,
    /// Another error; see its text.
    Other,
}

/// An error that the network, another process or the machine caused.
///
/// ```
/// oxmpi::threads(1, |world| {
///     world.send(&[1u8; 9], 0, 3).unwrap();
///     let error = world.recv_into(&mut [0u8; 8], 0, 3).unwrap_err();
///     assert_eq!((error.kind(), error.rank()), (oxmpi::ErrorKind::Truncated, Some(0)));
///     let text = "recv_into: a message of 9 bytes arrived for a receive buffer of 8 bytes";
///     assert_eq!(error.to_string(), text);
/// });
/// ```
#[derive(PartialEq, Eq)]
pub struct Error(Box<ErrorInfo>);

#[derive(PartialEq, Eq)]
struct ErrorInfo {
    kind: ErrorKind,
    class: i32,
    rank: i32,
    operation: &'static str,
    detail: String,
}

impl Error {
    pub(crate) fn new(
        kind: ErrorKind,
        operation: &'static str,
        detail: impl Into<String>,
    ) -> Error {
        let class = match kind {
            ErrorKind::Truncated => abi::MPI_ERR_TRUNCATE,
            ErrorKind::WrongType => abi::MPI_ERR_TYPE,
            ErrorKind::PeerFailed => MPIX_ERR_PROC_FAILED,
            ErrorKind::NoMemory => abi::MPI_ERR_NO_MEM,
            ErrorKind::Start | ErrorKind::AlreadyInitialized | ErrorKind::Other => {
                abi::MPI_ERR_OTHER
            }
        };
        Error(Box::new(ErrorInfo { kind, class, rank: -1, operation, detail: detail.into() }))
    }

    pub(crate) fn start(error: &StartError) -> Error {
        Error::new(ErrorKind::Start, "init", error.to_string())
    }

    /// Adds the rank concerned, for kinds of errors that concern a rank.
    pub(crate) fn about(mut self, rank: i32) -> Error {
        let about_ranks = [ErrorKind::Truncated, ErrorKind::WrongType, ErrorKind::PeerFailed];
        if self.0.rank < 0 && about_ranks.contains(&self.0.kind) {
            self.0.rank = rank;
        }
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The error class of the standard (MPI-5.0 section 9.4), such as 15 for MPI_ERR_TRUNCATE.
    pub fn class(&self) -> i32 {
        self.0.class
    }

    /// The rank concerned, in the communicator of the operation: the failed rank, or the sender of
    /// the message. `None` if the error concerns no rank or an unknown one.
    pub fn rank(&self) -> Option<Rank> {
        (self.0.rank >= 0).then_some(self.0.rank)
    }

    /// The description with the values. [`Display`](fmt::Display) shows the operation and this
    /// text.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The function of this crate that failed, such as `recv`.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A program whose `main` returns an error prints this form.
        write!(f, "{self} ({:?}, MPI error class {})", self.kind(), self.class())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.operation, self.0.detail)
    }
}

impl std::error::Error for Error {}

/// Converts an error of the core. Panics if the program has caused the error.
#[track_caller]
pub(crate) fn settle<T>(operation: &'static str, result: Result<T, MpiError>) -> Result<T> {
    // A closure would hide the caller's line from `track_caller`.
    match result {
        Ok(value) => Ok(value),
        Err(error) => Err(of_mpi(operation, &error)),
    }
}

#[cold]
#[track_caller]
fn of_mpi(operation: &'static str, error: &MpiError) -> Error {
    let kind = match error.class() {
        abi::MPI_ERR_RANK
        | abi::MPI_ERR_ROOT
        | abi::MPI_ERR_TAG
        | abi::MPI_ERR_COUNT
        | abi::MPI_ERR_COMM
        | abi::MPI_ERR_ARG => panic!("{operation}: {}", error.detail()),
        abi::MPI_ERR_TRUNCATE => ErrorKind::Truncated,
        abi::MPI_ERR_PROC_ABORTED | MPIX_ERR_PROC_FAILED => ErrorKind::PeerFailed,
        abi::MPI_ERR_NO_MEM => ErrorKind::NoMemory,
        _ => ErrorKind::Other,
    };
    let mut out = Error::new(kind, operation, error.detail());
    out.0.class = error.class();
    out
}

/// The completion of a successful operation, or its error. `peer` is the partner.
#[track_caller]
pub(crate) fn outcome(
    operation: &'static str,
    completion: Completion,
    peer: i32,
) -> Result<Completion> {
    match error_of(&completion) {
        None => Ok(completion),
        Some(error) => Err(of_mpi(operation, &error).about(completion.source).about(peer)),
    }
}

/// The error of a complete operation that still uses its buffer.
pub(crate) fn buffer_still_used(operation: &'static str) -> Error {
    Error::new(
        ErrorKind::Other,
        operation,
        "a finished operation still has its buffer; this is a defect of OxMPI",
    )
}
