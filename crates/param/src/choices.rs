//! What parameters choose that take one of some words.

/// Whether messages may be copied straight between the address spaces of two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleCopy {
    /// Where that is fast, if a real probe between the two processes succeeds.
    Auto,
    /// No: through the shared segment always.
    Off,
    /// Wherever a real probe between the two processes succeeds.
    On,
}

/// Which messages over sockets are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encrypt {
    /// None.
    Off,
    /// All.
    On,
    /// Those between hosts.
    Auto,
}

/// What is done about buffers in the memory of accelerators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// They are copied by the driver that the program has loaded.
    Auto,
    /// They are copied by the driver, which is loaded if the program has not done so.
    Cuda,
    /// They are errors.
    Null,
    /// The program has none, and promises it.
    Off,
}

/// The error handler that counts until a program sets another one (MPI-5.0 section 11.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialErrhandler {
    /// MPI_ERRORS_ARE_FATAL.
    Fatal,
    /// MPI_ERRORS_ABORT.
    Abort,
    /// MPI_ERRORS_RETURN.
    Return,
}
