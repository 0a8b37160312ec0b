//! A file of the system as a store.

use crate::failure::IoFailure;
use crate::mode::Mode;
use crate::store::{LockKind, Store};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::file;
use rustix::fs::{self, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// An open file.
#[derive(Debug)]
pub struct PosixFile {
    descriptor: OwnedFd,
    path: PathBuf,
    reads: bool,
    /// Range locks exclude other processes; this lock excludes other threads of this process.
    mine: Mutex<()>,
}

/// Identifies a file on one node, under any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

/// Read and write for all, before the umask.
const PERMISSIONS: u32 = 0o666;

impl PosixFile {
    /// Opens a file. MPI_MODE_CREATE and MPI_MODE_EXCL count only with `first`: the other ranks
    /// open the file that the first rank has created.
    pub fn open(name: &[u8], mode: Mode, first: bool) -> Result<PosixFile, IoFailure> {
        let mut flags = OFlags::CLOEXEC
            | match (mode.reads(), mode.writes()) {
                (true, false) => OFlags::RDONLY,
                (false, true) => OFlags::WRONLY,
                _ => OFlags::RDWR,
            };
        if first && mode.creates() {
            flags |= OFlags::CREATE;
        }
        // MPI_MODE_EXCL has no effect without MPI_MODE_CREATE.
        if first && mode.creates() && mode.is_exclusive() {
            flags |= OFlags::EXCL;
        }
        let path = Path::new(OsStr::from_bytes(name));
        let descriptor = loop {
            match fs::open(path, flags, PERMISSIONS.into()) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        let kind = fs::FileType::from_raw_mode(fs::fstat(&descriptor)?.st_mode);
        if kind == fs::FileType::Directory {
            return Err(Errno::ISDIR.into());
        }
        // The program may change its directory before the file is deleted.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(PosixFile { descriptor, path, reads: mode.reads(), mine: Mutex::new(()) })
    }

    /// The identity of the file.
    pub fn identity(&self) -> Result<Identity, IoFailure> {
        let facts = fs::fstat(&self.descriptor)?;
        Ok(Identity { device: facts.st_dev, inode: facts.st_ino })
    }

    /// The absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the file.
    pub fn size(&self) -> Result<u64, IoFailure> {
        Ok(u64::try_from(fs::fstat(&self.descriptor)?.st_size).unwrap_or(0))
    }

    /// Truncates the file, or extends it by zeros.
    pub fn set_size(&self, size: u64) -> Result<(), IoFailure> {
        loop {
            match fs::ftruncate(&self.descriptor, size) {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// Allocates space on the device for the first `size` bytes. The file then has at least this
    /// size.
    pub fn preallocate(&self, size: u64) -> Result<(), IoFailure> {
        if size == 0 {
            return Ok(());
        }
        match file::allocate(&self.descriptor, size) {
            Err(e)
                if matches!(e.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput) =>
            {
                self.write_again(size)
            }
            other => Ok(other?),
        }
    }

    /// Allocates space by writing the first bytes again, and zeros after the end. A file that may
    /// not be read gets only the zeros.
    fn write_again(&self, size: u64) -> Result<(), IoFailure> {
        const STEP: usize = 1 << 20;
        let mut buffer = vec![0; STEP];
        let mut at = if self.reads { 0 } else { self.size()? };
        while at < size {
            let part = &mut buffer[..STEP.min(usize::try_from(size - at).unwrap_or(STEP))];
            part.fill(0);
            if self.reads {
                self.read_all_at(BytesMut::from(&mut *part), at)?;
            }
            self.write_all_at(Bytes::from(&*part), at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes all data to the device.
    pub fn sync(&self) -> Result<(), IoFailure> {
        loop {
            match fs::fsync(&self.descriptor) {
                Err(Errno::INTR) => {}
                // A device without storage, such as /dev/null, cannot be synchronised.
                Err(Errno::INVAL | Errno::ROFS) => return Ok(()),
                other => return Ok(other?),
            }
        }
    }

    /// Deletes the file by its path.
    pub fn delete(&self) -> Result<(), IoFailure> {
        Ok(fs::unlink(&self.path)?)
    }
}

/// Deletes a file (MPI_File_delete).
pub fn delete(name: &[u8]) -> Result<(), IoFailure> {
    Ok(fs::unlink(OsStr::from_bytes(name))?)
}

impl Store for PosixFile {
    fn read_at(&self, to: BytesMut<'_>, offset: u64) -> io::Result<usize> {
        file::read_at(self.descriptor.as_fd(), to, offset)
    }

    fn write_at(&self, from: Bytes<'_>, offset: u64) -> io::Result<usize> {
        file::write_at(self.descriptor.as_fd(), from, offset)
    }

    fn locked(
        &self,
        kind: LockKind,
        (start, end): (u64, u64),
        what: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        if start >= end {
            return what();
        }
        let _mine = self.mine.lock().unwrap_or_else(PoisonError::into_inner);
        let _theirs = file::lock_range(self.descriptor.as_fd(), kind, start, end - start)?;
        what()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_abi::constants as abi;

    #[test]
    fn space_is_allocated_in_files_that_may_not_be_read() {
        let path = std::env::temp_dir().join(format!("oxmpi-io-posix-{}", std::process::id()));
        let before: Vec<u8> = (1..=100).collect();
        for access in [abi::MPI_MODE_WRONLY, abi::MPI_MODE_RDWR] {
            std::fs::write(&path, &before).unwrap();
            let file =
                PosixFile::open(path.as_os_str().as_bytes(), Mode::new(access).unwrap(), true)
                    .unwrap();
            for size in [50, 300] {
                file.write_again(size).unwrap();
            }
            let after = std::fs::read(&path);
            std::fs::remove_file(&path).unwrap();
            let after = after.unwrap();
            assert!(
                after.len() == 300
                    && after[..100] == before[..]
                    && after[100..].iter().all(|byte| *byte == 0)
            );
        }
    }

    #[test]
    fn exclusive_without_create_creates_no_file() {
        let path = std::env::temp_dir().join(format!("oxmpi-io-exclusive-{}", std::process::id()));
        let open =
            |amode| PosixFile::open(path.as_os_str().as_bytes(), Mode::new(amode).unwrap(), true);
        assert!(open(abi::MPI_MODE_WRONLY | abi::MPI_MODE_EXCL).is_err());
        assert!(!path.exists());
        let both = abi::MPI_MODE_WRONLY | abi::MPI_MODE_EXCL | abi::MPI_MODE_CREATE;
        let made = (open(both).is_ok(), open(both).is_err());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(made, (true, true));
    }
}
