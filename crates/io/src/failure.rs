//! Errors of file operations.

use oxmpi_abi::constants as abi;
use rustix::io::Errno;
use std::fmt;
use std::io;

/// The reason of a failed file operation, as a plain value that ranks can exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFailure {
    pub class: i32,
    /// The system's error number; 0 if no system call failed.
    pub errno: i32,
}

impl IoFailure {
    /// A failure without an error number.
    pub const fn of_class(class: i32) -> IoFailure {
        IoFailure { class, errno: 0 }
    }
}

impl From<Errno> for IoFailure {
    fn from(errno: Errno) -> IoFailure {
        IoFailure { class: class_of(errno), errno: errno.raw_os_error() }
    }
}

impl From<io::Error> for IoFailure {
    fn from(error: io::Error) -> IoFailure {
        match error.raw_os_error() {
            Some(errno) => Errno::from_raw_os_error(errno).into(),
            None => IoFailure::of_class(abi::MPI_ERR_IO),
        }
    }
}

impl fmt::Display for IoFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            0 => {
                f.write_str(oxmpi_abi::errors::error_class_text(self.class).unwrap_or("it failed"))
            }
            errno => write!(f, "{}", io::Error::from_raw_os_error(errno)),
        }
    }
}

/// The class of a system error (MPI-5.0, "I/O Error Classes").
fn class_of(errno: Errno) -> i32 {
    match errno {
        Errno::NOENT => abi::MPI_ERR_NO_SUCH_FILE,
        Errno::EXIST => abi::MPI_ERR_FILE_EXISTS,
        Errno::ACCESS | Errno::PERM => abi::MPI_ERR_ACCESS,
        Errno::ROFS => abi::MPI_ERR_READ_ONLY,
        Errno::NOSPC | Errno::FBIG => abi::MPI_ERR_NO_SPACE,
        Errno::DQUOT => abi::MPI_ERR_QUOTA,
        Errno::BUSY | Errno::TXTBSY => abi::MPI_ERR_FILE_IN_USE,
        Errno::ISDIR | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::NXIO => {
            abi::MPI_ERR_BAD_FILE
        }
        Errno::OVERFLOW => abi::MPI_ERR_ARG,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::SPIPE => abi::MPI_ERR_UNSUPPORTED_OPERATION,
        Errno::NOMEM => abi::MPI_ERR_NO_MEM,
        _ => abi::MPI_ERR_IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_classes() {
        let full = IoFailure::from(io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error()));
        assert_eq!(full.class, abi::MPI_ERR_NO_SPACE);
        assert!(full.to_string().contains("No space left"), "{full}");
        assert_eq!(IoFailure::from(io::Error::other("odd")).class, abi::MPI_ERR_IO);
        assert!(!IoFailure::of_class(abi::MPI_ERR_AMODE).to_string().is_empty());
    }
}
