//! The values of parameters that take one of several words.

/// Whether messages may be copied directly between the address spaces of two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleCopy {
    /// Where that is fast, if a probe between the two processes succeeds.
    Auto,
    Off,
    /// Wherever a probe between the two processes succeeds.
    On,
}

/// Which messages over sockets are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encrypt {
    Off,
    On,
    Auto,
}

/// The treatment of buffers in the memory of accelerators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The driver copies them, once the program has loaded it.
    Auto,
    /// The driver copies them; MPI_Init loads it if the program has not.
    Cuda,
    Null,
    /// The user asserts that the program has no such buffers.
    Off,
}

/// The error handler until a program sets another one (MPI-5.0 section 11.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialErrhandler {
    Fatal,
    Abort,
    Return,
}
