//! Descriptors that were opened in another mount namespace and inherited, for example by a shell
//! that `docker exec` or `nsenter` started in a container.
//!
//! CRIU identifies files by the mounts that their process sees. A device such as /dev/null is the
//! same in each mount namespace. CRIU gets such a device as an external file ([`OuterDevice`]), and
//! a restart opens it again. Any other file makes an image impossible, which is reported before
//! CRIU starts.

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
/// Minor numbers and paths of devices whose opens are all equivalent.
const PLAIN: [(u32, &str); 5] =
    [(3, "/dev/null"), (5, "/dev/zero"), (7, "/dev/full"), (8, "/dev/random"), (9, "/dev/urandom")];
/// The major numbers of terminals, which CRIU handles by itself.
const TERMINALS: [u32; 2] = [4, 5];
const PSEUDO_TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;

/// A device that a process has open from another mount namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OuterDevice {
    pub name: String,
    pub path: PathBuf,
}

impl OuterDevice {
    pub(crate) fn stream(&self) -> Stream {
        Stream::Outside(self.name.clone())
    }

    /// Opens the device, for CRIU to inherit.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path);
        // Some devices may be read-only.
        let file = OwnedFd::from(file.or_else(|_| File::open(&self.path))?);
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(file)
    }
}

pub(crate) fn open_all(devices: &[&OuterDevice]) -> Result<Vec<OwnedFd>, RestartError> {
    let open = |device: &&OuterDevice| {
        device
            .open()
            .map_err(|error| RestartError::Kernel(device.path.display().to_string(), error))
    };
    devices.iter().map(open).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OuterDescriptor {
    Plain(OuterDevice),
    /// Descriptor, and path in the other namespace.
    Other(u32, PathBuf),
}

/// The devices that these processes have open from another mount namespace. [`MakeError::Mount`]
/// names a descriptor of any other file.
pub(crate) fn devices_of(processes: &[u32]) -> Result<Vec<OuterDevice>, MakeError> {
    let mut all = Vec::new();
    for process in processes {
        for found in outside_of(*process) {
            match found {
                OuterDescriptor::Plain(device) if !all.contains(&device) => all.push(device),
                OuterDescriptor::Plain(_) => {}
                OuterDescriptor::Other(number, path) => {
                    return Err(MakeError::Mount { process: *process, number, path });
                }
            }
        }
    }
    Ok(all)
}

fn outside_of(process: u32) -> Vec<OuterDescriptor> {
    let mut all = Vec::new();
    let Ok(mounts) = fs::read_to_string(format!("/proc/{process}/mountinfo")) else { return all };
    let mounts = mounts_in(&mounts);
    for entry in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
        let number: Option<u32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let (Some(number), Ok(link), Ok(file)) =
            (number, fs::read_link(entry.path()), fs::metadata(entry.path()))
        else {
            continue;
        };
        let info =
            fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")).unwrap_or_default();
        let Some(mount) = mount_in(&info).filter(|mount| !mounts.contains(mount)) else { continue };
        all.extend(judge(number, link, mount, &file));
    }
    all
}

/// Classifies a descriptor on a mount that its process does not see; `None` if it needs no mount.
fn judge(number: u32, link: PathBuf, mount: u32, file: &Metadata) -> Option<OuterDescriptor> {
    let kind = file.file_type();
    // Pipes, sockets and unnamed files are on mounts internal to the kernel.
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
            return Some(OuterDescriptor::Plain(OuterDevice { name, path: path.into() }));
        }
    }
    Some(OuterDescriptor::Other(number, link))
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
        let mounts = mounts_in(
            "24 27 0:6 / /dev rw - devtmpfs devtmpfs rw\n27 1 254:0 / / rw - ext4 /dev/x rw\n",
        );
        assert_eq!(mounts, BTreeSet::from([24, 27]));
        let of = |path: &str| judge(10, path.into(), 24, &fs::metadata(path).unwrap());
        let inode = fs::metadata("/dev/null").unwrap().ino();
        let device = OuterDevice { name: format!("file[18:{inode:x}]"), path: "/dev/null".into() };
        assert_eq!(of("/dev/null"), Some(OuterDescriptor::Plain(device.clone())));
        assert_eq!(of("/proc/self/exe"), Some(OuterDescriptor::Other(10, "/proc/self/exe".into())));
        assert_eq!(of("/tmp"), Some(OuterDescriptor::Other(10, "/tmp".into())));
        assert_eq!(of("/dev/tty"), None, "a terminal is another matter");
        let pipe = fs::metadata("/dev/null").unwrap();
        assert_eq!(judge(10, "pipe:[7]".into(), 13, &pipe), None);
        device.open().unwrap();
    }
}
