//! Access modes (MPI-5.0, "Opening a File").

use oxmpi_abi::constants as abi;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{self, ValueKind};

const KNOWN: i32 = abi::MPI_MODE_RDONLY
    | abi::MPI_MODE_RDWR
    | abi::MPI_MODE_WRONLY
    | abi::MPI_MODE_CREATE
    | abi::MPI_MODE_EXCL
    | abi::MPI_MODE_DELETE_ON_CLOSE
    | abi::MPI_MODE_UNIQUE_OPEN
    | abi::MPI_MODE_SEQUENTIAL
    | abi::MPI_MODE_APPEND;

/// A valid access mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(i32);

impl Mode {
    /// Checks an access mode. Fails with MPI_ERR_AMODE.
    pub fn new(amode: i32) -> Result<Mode> {
        let wrong = |why: &str| {
            let text = format!("amode is {}: {why}", shown::number(ValueKind::Amode, amode));
            Err(MpiError::new(abi::MPI_ERR_AMODE, text))
        };
        let mode = Mode(amode);
        if amode & !KNOWN != 0 {
            return wrong("it has bits that are no access mode");
        }
        let access = [abi::MPI_MODE_RDONLY, abi::MPI_MODE_RDWR, abi::MPI_MODE_WRONLY];
        if access.into_iter().filter(|bit| amode & bit != 0).count() != 1 {
            return wrong(
                "it needs exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR",
            );
        }
        if !mode.writes() && amode & (abi::MPI_MODE_CREATE | abi::MPI_MODE_EXCL) != 0 {
            return wrong("MPI_MODE_RDONLY does not go with MPI_MODE_CREATE or MPI_MODE_EXCL");
        }
        if mode.is_sequential() && mode.reads() && mode.writes() {
            return wrong("MPI_MODE_RDWR does not go with MPI_MODE_SEQUENTIAL");
        }
        Ok(mode)
    }

    /// The mode as an integer.
    pub const fn bits(self) -> i32 {
        self.0
    }

    const fn has(self, bit: i32) -> bool {
        self.0 & bit != 0
    }

    /// Whether the file may be read.
    pub const fn reads(self) -> bool {
        !self.has(abi::MPI_MODE_WRONLY)
    }

    /// Whether the file may be written.
    pub const fn writes(self) -> bool {
        !self.has(abi::MPI_MODE_RDONLY)
    }

    /// Whether the file is created if it does not exist.
    pub const fn creates(self) -> bool {
        self.has(abi::MPI_MODE_CREATE)
    }

    /// Whether it is an error if the file exists.
    pub const fn is_exclusive(self) -> bool {
        self.has(abi::MPI_MODE_EXCL)
    }

    /// Whether the file is deleted when it is closed.
    pub const fn deletes(self) -> bool {
        self.has(abi::MPI_MODE_DELETE_ON_CLOSE)
    }

    /// Whether the file is accessed by the shared file pointer only.
    pub const fn is_sequential(self) -> bool {
        self.has(abi::MPI_MODE_SEQUENTIAL)
    }

    /// Whether the file pointers start at the end of the file.
    pub const fn appends(self) -> bool {
        self.has(abi::MPI_MODE_APPEND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_checked() {
        let class = |amode| Mode::new(amode).err().map(|e| e.class());
        for good in [
            abi::MPI_MODE_RDONLY,
            abi::MPI_MODE_RDWR | abi::MPI_MODE_CREATE | abi::MPI_MODE_EXCL,
            abi::MPI_MODE_WRONLY | abi::MPI_MODE_SEQUENTIAL | abi::MPI_MODE_APPEND,
            abi::MPI_MODE_RDONLY | abi::MPI_MODE_DELETE_ON_CLOSE | abi::MPI_MODE_UNIQUE_OPEN,
        ] {
            assert_eq!(Mode::new(good).unwrap().bits(), good);
        }
        for bad in [
            0,
            -1,
            1 << 20 | abi::MPI_MODE_RDONLY,
            abi::MPI_MODE_CREATE,
            abi::MPI_MODE_RDONLY | abi::MPI_MODE_RDWR,
            abi::MPI_MODE_RDONLY | abi::MPI_MODE_CREATE,
            abi::MPI_MODE_RDONLY | abi::MPI_MODE_EXCL,
            abi::MPI_MODE_RDWR | abi::MPI_MODE_SEQUENTIAL,
        ] {
            assert_eq!(class(bad), Some(abi::MPI_ERR_AMODE), "{bad}");
        }
    }
}
