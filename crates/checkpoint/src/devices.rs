//! Descriptors that were opened in another mount namespace, as a shell has them that was entered into a container (`docker exec`,
//! `nsenter`) and passes them on.
//!
//! CRIU knows files by the mounts that their process sees. A device such as /dev/null is the same in each mount namespace: it is named
//! to CRIU as an external file ([`OuterDevice`]), and a restart opens it anew. Of any other file there can be no image, which is said before
//! CRIU begins.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::PathBuf;

use rustix::fs::{major, minor};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};

use crate::making::MakeError;
use crate::manifest::Stream;
use crate::restart::RestartError;

/// The major number of the kernel's own devices (null(4), random(4)).
const MEMORY: u32 = 1;
/// Their minor numbers and paths: each open of one is like any other.
const PLAIN: [(u32, &str); 5] =
    [(3, "/dev/null"), (5, "/dev/zero"), (7, "/dev/full"), (8, "/dev/random"), (9, "/dev/urandom")];
/// The major numbers of terminals, which CRIU treats by itself.
const TERMINALS: [u32; 2] = [4, 5];
const PSEUDO_TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;

/// A device that processes of a job have open, and that was opened in another mount namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OuterDevice {
    /// How CRIU names it: by its mount and its inode.
    pub name: String,
    /// Where a restart opens it.
    pub path: PathBuf,
}

impl OuterDevice {
    /// As a stream that is given from outside.
    pub(crate) fn stream(&self) -> Stream {
        Stream::Outside(self.name.clone())
    }

    /// Opens it for CRIU, which inherits it.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path);
        // It may be forbidden to write to some of them.
        let file = OwnedFd::from(file.or_else(|_| File::open(&self.path))?);
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(file)
    }
}

/// Opens devices of a set for CRIU, which inherits them.
pub(crate) fn open_all(devices: &[&OuterDevice]) -> Result<Vec<OwnedFd>, RestartError> {
    let open = |device: &&OuterDevice| {
        device.open().map_err(|error| RestartError::Kernel(device.path.display().to_string(), error))
    };
    devices.iter().map(open).collect()
}

/// A descriptor that was opened in another mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Plain(OuterDevice),
    /// Its number, and where the file was there.
    Other(u32, PathBuf),
}

/// The devices of these processes that were opened in another mount namespace.
///
/// # Errors
/// [`MakeError::Mount`] names a descriptor of another file.
pub(crate) fn devices_of(processes: &[u32]) -> Result<Vec<OuterDevice>, MakeError> {
    let mut all = Vec::new();
    for process in processes {
        for found in outside_of(*process) {
            match found {
                Found::Plain(device) if !all.contains(&device) => all.push(device),
                Found::Plain(_) => {}
                Found::Other(number, path) => {
                    return Err(MakeError::Mount { process: *process, number, path });
                }
            }
        }
    }
    Ok(all)
}

/// The descriptors of a process; none of one that has ended meanwhile.
fn outside_of(process: u32) -> Vec<Found> {
    let mut all = Vec::new();
    let Ok(mounts) = fs::read_to_string(format!("/proc/{process}/mountinfo")) else { return all };
    let mounts = mounts_in(&mounts);
    for entry in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
        let number: Option<u32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // Whatever was closed meanwhile is not in the image.
        let (Some(number), Ok(link), Ok(file)) =
            (number, fs::read_link(entry.path()), fs::metadata(entry.path()))
        else {
            continue;
        };
        let info = fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")).unwrap_or_default();
        let Some(mount) = mount_in(&info).filter(|mount| !mounts.contains(mount)) else { continue };
        all.extend(judge(number, link, mount, &file));
    }
    all
}

/// What a descriptor is whose mount its process does not see; `None`: it needs no mount.
fn judge(number: u32, link: PathBuf, mount: u32, file: &Metadata) -> Option<Found> {
    let kind = file.file_type();
    // What has no name among files is on mounts that the kernel has for itself.
    if !link.is_absolute() || file.nlink() == 0 {
        return None;
    }
    let device = (major(file.rdev()), minor(file.rdev()));
    if kind.is_char_device() {
        if TERMINALS.contains(&device.0) || PSEUDO_TERMINALS.contains(&device.0) {
            return None;
        }
        let plain = PLAIN.iter().find(|(minor, _)| device == (MEMORY, *minor));
        if let Some((_, path)) = plain {
            let name = format!("file[{mount:x}:{:x}]", file.ino());
            return Some(Found::Plain(OuterDevice { name, path: path.into() }));
        }
    }
    Some(Found::Other(number, link))
}

/// The numbers of the mounts in `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
fn mounts_in(mountinfo: &str) -> BTreeSet<u32> {
    mountinfo.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
}

/// The number of the mount in `/proc/PID/fdinfo/NUMBER` (proc_pid_fdinfo(5)).
fn mount_in(fdinfo: &str) -> Option<u32> {
    fdinfo.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_of_another_mount_namespace_is_an_external_device_or_named() {
        assert_eq!(mount_in("pos:\t0\nflags:\t0100000\nmnt_id:\t24\nino:\t3\n"), Some(24));
        let mounts =
            mounts_in("24 27 0:6 / /dev rw - devtmpfs devtmpfs rw\n27 1 254:0 / / rw - ext4 /dev/x rw\n");
        assert_eq!(mounts, BTreeSet::from([24, 27]));
        let of = |path: &str| judge(10, path.into(), 24, &fs::metadata(path).unwrap());
        let inode = fs::metadata("/dev/null").unwrap().ino();
        let device = OuterDevice { name: format!("file[18:{inode:x}]"), path: "/dev/null".into() };
        assert_eq!(of("/dev/null"), Some(Found::Plain(device.clone())));
        assert_eq!(of("/proc/self/exe"), Some(Found::Other(10, "/proc/self/exe".into())));
        assert_eq!(of("/tmp"), Some(Found::Other(10, "/tmp".into())));
        assert_eq!(of("/dev/tty"), None, "a terminal is another matter");
        let pipe = fs::metadata("/dev/null").unwrap();
        assert_eq!(judge(10, "pipe:[7]".into(), 13, &pipe), None);
        device.open().unwrap();
    }
}
