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

/// The way that the messages of a job take: the guide's RPI modules, in the order of the words of `rpi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Shared memory within a host.
    Shm,
    /// Sockets.
    Tcp,
    /// The guide's postboxes in shared memory within a host, where who waits looks again and again.
    Usysv,
    /// The same, where who waits sleeps.
    Sysv,
    /// Sockets whose connections can be given up and made again while messages stand still.
    Crtcp,
    /// A daemon on each node.
    Lamd,
}

impl Transport {
    /// Whether the processes of a job on a node share a segment with postboxes.
    pub fn has_postboxes(self) -> bool {
        matches!(self, Transport::Usysv | Transport::Sysv)
    }
}
