//! Errors, and where programmer errors end.

use crate::communicator::Rank;
use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::MPIX_ERR_PROC_FAILED;
use oxmpi_core::completion::error_of;
use oxmpi_core::start::StartError;
use oxmpi_engine::Completion;
use oxmpi_objects::error::MpiError;
use std::fmt;

/// What most functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing has gone wrong, for programs that react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This process could not become a rank: a wrong parameter, or what `mpirun` has handed over is unusable.
    Start,
    /// [`init`](crate::init) or [`init_threaded`](crate::init_threaded) was called before in this process.
    AlreadyInitialized,
    /// A message was longer than the buffer it was received into.
    Truncated,
    /// A message is no whole number of elements of the type it was received as.
    WrongType,
    /// Another process has failed or cannot be reached.
    PeerFailed,
    /// There is no memory.
    NoMemory,
    /// Anything else; the text says what.
    Other,
}

/// Something that the network, another process or the machine has caused.
///
/// ```
/// oxmpi::threads(1, |world| {
///     world.send(&[1u8; 9], 0, 3).unwrap();
///     let error = world.recv_into(&mut [0u8; 8], 0, 3).unwrap_err();
///     assert_eq!((error.kind(), error.rank()), (oxmpi::ErrorKind::Truncated, Some(0)));
///     assert_eq!(error.to_string(), "recv_into: a message of 9 bytes arrived for a receive buffer of 8 bytes");
/// });
/// ```
#[derive(PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    class: i32,
    /// Whom it is about; negative if that is not known.
    rank: i32,
    operation: &'static str,
    detail: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, operation: &'static str, detail: impl Into<String>) -> Error {
        let class = match kind {
            ErrorKind::Truncated => abi::MPI_ERR_TRUNCATE,
            ErrorKind::WrongType => abi::MPI_ERR_TYPE,
            ErrorKind::PeerFailed => MPIX_ERR_PROC_FAILED,
            ErrorKind::NoMemory => abi::MPI_ERR_NO_MEM,
            ErrorKind::Start | ErrorKind::AlreadyInitialized | ErrorKind::Other => abi::MPI_ERR_OTHER,
        };
        Error(Box::new(Inner { kind, class, rank: -1, operation, detail: detail.into() }))
    }

    pub(crate) fn start(error: &StartError) -> Error {
        Error::new(ErrorKind::Start, "init", error.to_string())
    }

    /// The same error about a rank, if it is one and errors of this kind are about ranks.
    pub(crate) fn about(mut self, rank: i32) -> Error {
        let about_ranks = [ErrorKind::Truncated, ErrorKind::WrongType, ErrorKind::PeerFailed];
        if self.0.rank < 0 && about_ranks.contains(&self.0.kind) {
            self.0.rank = rank;
        }
        self
    }

    /// What kind of thing has gone wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The error class of the standard (MPI-5.0 section 9.4), such as 15 for MPI_ERR_TRUNCATE.
    pub fn class(&self) -> i32 {
        self.0.class
    }

    /// The rank that it is about, in the communicator of the operation: who has failed, or has sent the message. `None`
    /// if it is about none, or it is not known about which.
    pub fn rank(&self) -> Option<Rank> {
        (self.0.rank >= 0).then_some(self.0.rank)
    }

    /// What has happened, with the values; the error displays as the operation and this.
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
        // Programs whose `main` returns a `Result` print it this way.
        write!(f, "{self} ({:?}, MPI error class {})", self.kind(), self.class())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.operation, self.0.detail)
    }
}

impl std::error::Error for Error {}

/// From a floor below: an error, or a panic if only the program itself can have caused it.
#[track_caller]
pub(crate) fn settle<T>(operation: &'static str, result: Result<T, MpiError>) -> Result<T> {
    // No closure: it would hide the caller.
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

/// A completion of an operation that went well, or its error. `peer` is whom the operation was with.
#[track_caller]
pub(crate) fn outcome(operation: &'static str, completion: Completion, peer: i32) -> Result<Completion> {
    match error_of(&completion) {
        None => Ok(completion),
        Some(error) => Err(of_mpi(operation, &error).about(completion.source).about(peer)),
    }
}

/// A buffer that an operation keeps although it is over: a defect of the library, reported and not hidden.
pub(crate) fn kept(operation: &'static str) -> Error {
    Error::new(
        ErrorKind::Other,
        operation,
        "a finished operation still has its buffer; this is a defect of OxMPI",
    )
}
