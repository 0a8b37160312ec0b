//! Files without a name, through which processes share memory. Nothing is left when these processes
//! have ended.
//!
//! They are memfds. Where memfd_create(2) is denied or missing (by a seccomp profile, in another
//! kernel), a file in a directory that never had a name there (O_TMPFILE) serves as well, in memory
//! or, at worst, on a disk. Such a directory may be small, as /dev/shm of a container is, and a
//! process that writes more than the directory holds is killed by SIGBUS. So a directory with 256
//! MiB free is preferred.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, fstatvfs, ftruncate, memfd_create, open,
};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

const PREFERRED_FREE_BYTES: u64 = 256 << 20;

/// Creates an empty file, close-on-exec; /proc shows it as `label`.
pub fn create(label: &str) -> io::Result<OwnedFd> {
    match memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING) {
        Ok(fd) => Ok(fd),
        // ENOSYS comes from a kernel without the call; seccomp profiles return any of these.
        Err(error @ (Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP)) => {
            create_in(&directories()).map_err(|others| {
                io::Error::new(
                    io::Error::from(error).kind(),
                    format!("memfd_create: {error}; {others}"),
                )
            })
        }
        Err(error) => {
            Err(io::Error::new(io::Error::from(error).kind(), format!("memfd_create: {error}")))
        }
    }
}

/// The error of memfd_create(2) if the call is denied; files are then in directories.
pub fn denied() -> Option<io::Error> {
    memfd_create("oxmpi-test", MemfdFlags::CLOEXEC).err().map(io::Error::from)
}

fn directories() -> Vec<PathBuf> {
    let temporary = std::env::var_os("TMPDIR").filter(|path| !path.is_empty()).map(PathBuf::from);
    let known = ["/tmp", "/var/tmp"].map(PathBuf::from);
    [PathBuf::from("/dev/shm")].into_iter().chain(temporary).chain(known).collect()
}

/// Creates a file in the first directory with enough free bytes, or else in any.
fn create_in(directories: &[PathBuf]) -> Result<OwnedFd, String> {
    let (mut narrow, mut refusals) = (None, Vec::new());
    for directory in directories {
        match create_at(directory) {
            Ok((fd, room)) if room >= PREFERRED_FREE_BYTES => return Ok(fd),
            Ok((fd, _)) => narrow = narrow.or(Some(fd)),
            Err(error) => {
                refusals.push(format!("a file without a name in {}: {error}", directory.display()))
            }
        }
    }
    narrow.ok_or_else(|| refusals.join("; "))
}

fn create_at(directory: &Path) -> rustix::io::Result<(OwnedFd, u64)> {
    // EXCL: the file can never be given a name.
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = open(directory, flags, Mode::RUSR | Mode::WUSR)?;
    let free = fstatvfs(&fd)?;
    Ok((fd, free.f_bavail.saturating_mul(free.f_frsize)))
}

/// Sets the length of a file. Fails for a length above the limit on file sizes, for which the
/// kernel would kill the program by SIGXFSZ.
pub fn set_length(file: impl AsFd, bytes: u64) -> io::Result<()> {
    check_length(bytes)?;
    Ok(ftruncate(file, bytes)?)
}

/// Checks a length against the limit on file sizes.
pub fn check_length(bytes: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if bytes > limit => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "it is a file of {bytes} bytes, of memory, and the limit on the size of files is {limit} bytes: raise it \
                 ('ulimit -f unlimited', limits.conf)"
            ),
        )),
        _ => Ok(()),
    }
}

/// Fixes the length of a memfd, so that no process can truncate it under a mapping (SIGBUS). Other
/// files cannot be sealed, but only processes of this user can open them.
pub fn seal(file: impl AsFd) -> io::Result<()> {
    match fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL) {
        // The file is no memfd.
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;

    #[test]
    fn without_memfds_a_file_of_a_directory_has_no_name_either() {
        let nowhere = PathBuf::from("/nonexistent");
        let fd = create_in(&[nowhere.clone(), "/dev/shm".into(), "/tmp".into()]).unwrap();
        set_length(&fd, 1 << 20).unwrap();
        seal(&fd).unwrap();
        let stat = fstat(&fd).unwrap();
        assert_eq!((stat.st_nlink, stat.st_size), (0, 1 << 20));
        let said = create_in(&[nowhere, "/proc".into()]).unwrap_err();
        assert!(said.contains("a file without a name in /nonexistent: No such file"), "{said}");
        assert!(said.contains("in /proc: "), "{said}");
    }

    #[test]
    fn a_memfd_keeps_its_length_when_it_is_sealed() {
        let fd = create("test").unwrap();
        set_length(&fd, 4096).unwrap();
        seal(&fd).unwrap();
        assert_eq!(set_length(&fd, 0).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(denied().is_none());
    }
}
