//! The files that a job has open. They are recorded while the job stands still; before a restart they are judged.
//!
//! CRIU opens each file anew by its name, and refuses one whose length has changed. A job that went on after its checkpoint has
//! written more, so the files that it *writes* are cut back to what they were. Those that it *needs* (its program, libraries, what it
//! only reads) must be what they were: their code is mapped at addresses that the image knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use object::{Object as _, ReadCache};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::tree::Tree;

/// A file that the job has open for writing, or mapped so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// The file system that it lies in.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// When it was written to, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// The host where it was seen, if that is not the one where the set was made.
    #[serde(default)]
    pub host: Option<String>,
    /// The ranks of that host.
    #[serde(default)]
    pub ranks: Vec<u32>,
}

/// A file that the job reads or has mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// When it was written to, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Which build it is, in hexadecimal digits, if it is a program or library that says so.
    pub build_id: Option<String>,
}

/// A descriptor of a process of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// The process.
    pub process: u32,
    /// Its number there.
    pub number: u32,
}

/// All files of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Sockets that do not let their processes wait: CRIU forgets that of local ones in which messages wait.
    pub nonblocking: Vec<Descriptor>,
    /// Those that it writes, by path.
    pub written: Vec<WrittenFile>,
    /// Those that it needs as they are, by path.
    pub needed: Vec<NeededFile>,
}

/// What a restart does about a file that has grown or was written to (parameter `cr_files`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It cuts it back.
    Cut,
    /// It refuses.
    Refuse,
}

/// What is to be done about a file before a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: it is as it was.
    Same,
    /// It has grown and is cut back to its length.
    Cut,
    /// It was written to, and its length is the same: the restarted job writes over it.
    Rewritten,
    /// The job cannot be restarted; why, in words that go on from the file's name.
    Refused(String),
}

impl Survey {
    /// Looks at the files of processes that stand still.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn of(tree: &Tree) -> io::Result<Survey> {
        let mut written = BTreeMap::new();
        let mut needed = BTreeSet::new();
        let mut nonblocking = Vec::new();
        for process in &tree.processes {
            let mut note = |path: PathBuf, at: &Path, is_written: bool| {
                let Some(metadata) = named_file(&path, at) else { return };
                if is_written {
                    written.insert(path, metadata);
                } else {
                    needed.insert(path);
                }
            };
            for Open { number, path, flags } in open_in(*process)? {
                if path.to_string_lossy().starts_with("socket:") && flags & NONBLOCK != 0 {
                    nonblocking.push(Descriptor { process: *process, number });
                }
                let at = PathBuf::from(format!("/proc/{process}/fd/{number}"));
                note(path, &at, flags & ACCESS_MODE != 0);
            }
            let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
            for (path, is_written) in mapped_in(&maps) {
                note(path.clone(), &path, is_written);
            }
        }
        let written: Vec<_> = written.into_iter().map(|(path, is)| WrittenFile::new(path, &is)).collect();
        let is_read_only = |path: &PathBuf| written.iter().all(|file| file.path != *path);
        let needed = needed.into_iter().filter(is_read_only).map(NeededFile::of);
        Ok(Survey { nonblocking, needed: needed.collect::<io::Result<_>>()?, written })
    }
}

/// The sockets of processes that do not let them wait.
///
/// # Errors
/// If /proc cannot be read.
pub(crate) fn nonblocking_sockets(tree: &Tree) -> io::Result<Vec<Descriptor>> {
    let mut all = Vec::new();
    for process in &tree.processes {
        let open = open_in(*process)?.into_iter();
        let is_it =
            |open: &Open| open.path.to_string_lossy().starts_with("socket:") && open.flags & NONBLOCK != 0;
        all.extend(open.filter(is_it).map(|open| Descriptor { process: *process, number: open.number }));
    }
    Ok(all)
}

/// What a process has open.
struct Open {
    number: u32,
    path: PathBuf,
    flags: u32,
}

fn open_in(process: u32) -> io::Result<Vec<Open>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/fd"))? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|number| number.parse().ok());
        let (Some(number), Ok(path)) = (number, std::fs::read_link(entry.path())) else { continue };
        let info = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{number}"))?;
        all.push(Open { number, path, flags: flags_in(&info) });
    }
    Ok(all)
}

/// The regular file that a path names, if it is the one that is found `at` another: a file without a name is in the image.
fn named_file(path: &Path, at: &Path) -> Option<Metadata> {
    let named = std::fs::symlink_metadata(path).ok().filter(|_| path.is_absolute())?;
    let found = std::fs::metadata(at).ok()?;
    let is_same = (named.dev(), named.ino()) == (found.dev(), found.ino());
    // Files of /proc and the like have no length.
    let is_stored = !["/proc", "/sys", "/dev"].iter().any(|place| path.starts_with(place))
        || path.starts_with("/dev/shm");
    (is_same && is_stored && found.is_file()).then_some(found)
}

/// Those with which a descriptor is open, by `/proc/PID/fdinfo/FD` (proc_pid_fdinfo(5)); 0 if that is not known.
fn flags_in(info: &str) -> u32 {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0)
}

/// Those that say whether it reads and writes; 0: it only reads.
const ACCESS_MODE: u32 = OFlags::ACCMODE.bits();
const NONBLOCK: u32 = OFlags::NONBLOCK.bits();

impl Descriptor {
    /// Sees that a socket does not let its process wait. That of another process can be changed from outside, since a copy of its
    /// descriptor is the same open socket.
    ///
    /// # Errors
    /// What pidfd_getfd(2) and fcntl(2) say.
    pub fn set_nonblocking(self) -> io::Result<()> {
        let Descriptor { process, number } = self;
        let info = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{number}"))?;
        if flags_in(&info) & NONBLOCK != 0 {
            return Ok(());
        }
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or_else(invalid)?;
        let number = i32::try_from(number).map_err(|_| invalid())?;
        let socket = pidfd_getfd(pidfd_open(pid, PidfdFlags::empty())?, number, PidfdGetfdFlags::empty())?;
        let flags = fcntl_getfl(&socket)?;
        Ok(fcntl_setfl(&socket, flags | OFlags::NONBLOCK)?)
    }
}

/// The paths in `/proc/PID/maps` (proc_pid_maps(5)), and whether what is written to the mapping goes into the file.
fn mapped_in(maps: &str) -> BTreeSet<(PathBuf, bool)> {
    let path = |line: &str| {
        let (fields, path) = line.split_once('/')?;
        let rights = fields.split_ascii_whitespace().nth(1)?;
        Some((PathBuf::from(format!("/{path}")), rights.contains('w') && rights.ends_with('s')))
    };
    maps.lines().filter_map(path).collect()
}

fn modified_ns(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

impl WrittenFile {
    fn new(path: PathBuf, is: &Metadata) -> WrittenFile {
        let modified_ns = modified_ns(is);
        WrittenFile {
            path,
            device: is.dev(),
            inode: is.ino(),
            bytes: is.len(),
            modified_ns,
            host: None,
            ranks: Vec::new(),
        }
    }

    /// What to do about it.
    pub fn judge(&self, policy: Policy) -> Verdict {
        let found = match std::fs::symlink_metadata(&self.path) {
            Ok(metadata) => WrittenFile::new(self.path.clone(), &metadata),
            // That of another host may be seen there alone.
            Err(_) if self.host.is_some() => return Verdict::Same,
            Err(error) => return Verdict::Refused(format!("was open in the job, and is not there: {error}")),
        };
        self.judge_as(&found, policy)
    }

    fn judge_as(&self, found: &WrittenFile, policy: Policy) -> Verdict {
        let (was, is) = (self.bytes, found.bytes);
        let refuse = |what: String| Verdict::Refused(what);
        // A file system that several hosts have gives a file one number on all of them, while each host numbers file systems itself.
        if self.host.is_some() && self.inode != found.inode {
            return Verdict::Same;
        }
        if self.host.is_none() && (self.device, self.inode) != (found.device, found.inode) {
            return refuse("is another file than at the checkpoint: put the old one back".into());
        }
        if is < was {
            return refuse(format!(
                "has {is} bytes, and had {was} at the checkpoint: what is missing is not in the set"
            ));
        }
        match policy {
            _ if (found.bytes, found.modified_ns) == (self.bytes, self.modified_ns) => Verdict::Same,
            Policy::Cut if is > was => Verdict::Cut,
            Policy::Cut => Verdict::Rewritten,
            Policy::Refuse if is > was => refuse(format!(
                "has grown from {was} to {is} bytes since the checkpoint, and cr_files is 'refuse': keep a copy of it, \
                 then restart with '--files cut'"
            )),
            Policy::Refuse => refuse(
                "was written to since the checkpoint, and cr_files is 'refuse': restart with '--files cut' if its contents \
                 are good"
                    .into(),
            ),
        }
    }

    /// Cuts it back to its length at the checkpoint.
    ///
    /// # Errors
    /// What open(2) and ftruncate(2) say.
    pub fn cut(&self) -> io::Result<()> {
        OpenOptions::new().write(true).open(&self.path)?.set_len(self.bytes)
    }
}

impl NeededFile {
    fn of(path: PathBuf) -> io::Result<NeededFile> {
        let metadata = std::fs::metadata(&path)?;
        let build_id = build_id(&path);
        Ok(NeededFile { path, bytes: metadata.len(), modified_ns: modified_ns(&metadata), build_id })
    }

    /// What to do about it.
    pub fn judge(&self) -> Verdict {
        match NeededFile::of(self.path.clone()) {
            Ok(found) => self.judge_as(&found),
            Err(error) => Verdict::Refused(format!("is needed by the job, and is not there: {error}")),
        }
    }

    fn judge_as(&self, found: &NeededFile) -> Verdict {
        if self.bytes != found.bytes || self.build_id != found.build_id {
            let what = if self.build_id.is_some() { "is another build than" } else { "is not as it was" };
            return Verdict::Refused(format!(
                "{what} at the checkpoint ({} bytes instead of {}): the image needs the old one",
                found.bytes, self.bytes
            ));
        }
        // A build says by its number that it is the same one, whenever it was installed.
        let is_same = self.build_id.is_some() || self.modified_ns == found.modified_ns;
        if is_same { Verdict::Same } else { Verdict::Rewritten }
    }
}

/// Which build a program or library is.
fn build_id(path: &Path) -> Option<String> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn file(name: &str, contents: &str) -> WrittenFile {
        let path = std::env::temp_dir().join(format!("oxmpi-cr-{}-{name}", std::process::id()));
        std::fs::write(&path, contents).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        WrittenFile::new(path, &metadata)
    }

    #[test]
    fn what_is_written_is_cut_back_refused_or_left() {
        let was = file("judged", "12345");
        assert_eq!(was.judge(Policy::Refuse), Verdict::Same);
        std::fs::write(&was.path, "1234567").unwrap();
        assert_eq!(was.judge(Policy::Cut), Verdict::Cut);
        let Verdict::Refused(why) = was.judge(Policy::Refuse) else { panic!() };
        assert!(why.contains("from 5 to 7 bytes") && why.contains("--files cut"), "{why}");
        was.cut().unwrap();
        assert_eq!(std::fs::read_to_string(&was.path).unwrap(), "12345");
        assert_eq!(was.judge(Policy::Cut), Verdict::Rewritten);
        std::fs::write(&was.path, "123").unwrap();
        let Verdict::Refused(why) = was.judge(Policy::Cut) else { panic!() };
        assert!(why.contains("has 3 bytes, and had 5"), "{why}");
        let other = file("other", "12345");
        std::fs::rename(&other.path, &was.path).unwrap();
        let Verdict::Refused(why) = was.judge(Policy::Cut) else { panic!() };
        assert!(why.contains("another file"), "{why}");
        std::fs::remove_file(&was.path).unwrap();
        let Verdict::Refused(why) = was.judge(Policy::Cut) else { panic!() };
        assert!(why.contains("is not there"), "{why}");
    }

    #[test]
    fn another_build_is_refused_and_a_new_copy_is_not() {
        let is = |build: Option<&str>, modified_ns| NeededFile {
            path: "/lib/x".into(),
            bytes: 10,
            modified_ns,
            build_id: build.map(Into::into),
        };
        assert_eq!(is(Some("a"), 1).judge_as(&is(Some("a"), 2)), Verdict::Same);
        assert_eq!(is(None, 1).judge_as(&is(None, 2)), Verdict::Rewritten);
        let Verdict::Refused(why) = is(Some("a"), 1).judge_as(&is(Some("b"), 1)) else { panic!() };
        assert!(why.contains("another build"), "{why}");
    }

    #[test]
    fn descriptors_and_mappings_say_whether_they_write() {
        let is_for_writing = |info| flags_in(info) & ACCESS_MODE != 0;
        assert!(is_for_writing("pos:\t0\nflags:\t0100001\nmnt_id:\t29\n"));
        assert!(is_for_writing("flags:\t02100002\n"));
        assert!(!is_for_writing("pos:\t0\nflags:\t0100000\n") && !is_for_writing(""));
        let maps = "7f0 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n7f1 rw-s 0 08:01 13   /data/my file\n7f2 rw-p 0 0:0 0 [heap]\n";
        let found: Vec<_> = mapped_in(maps).into_iter().collect();
        assert_eq!(found, [("/data/my file".into(), true), ("/usr/lib/libc.so.6".into(), false)]);
    }

    #[test]
    fn a_socket_that_lets_its_process_wait_is_mended() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let own = Tree::of(std::process::id()).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&socket).cast_unsigned();
        let found = Descriptor { process: std::process::id(), number };
        assert!(Survey::of(&own).unwrap().nonblocking.contains(&found));
        socket.set_nonblocking(false).unwrap();
        assert!(!Survey::of(&own).unwrap().nonblocking.contains(&found));
        found.set_nonblocking().unwrap();
        assert!(Survey::of(&own).unwrap().nonblocking.contains(&found));
    }

    #[test]
    fn the_own_files_are_found() {
        let was = file("own", "x");
        let mut open = OpenOptions::new().append(true).open(&was.path).unwrap();
        open.write_all(b"y").unwrap();
        let survey = Survey::of(&Tree::of(std::process::id()).unwrap()).unwrap();
        let found = survey.written.iter().find(|file| file.path == was.path).unwrap();
        assert_eq!((found.bytes, found.inode), (2, was.inode));
        let program = std::env::current_exe().unwrap();
        let needed = survey.needed.iter().find(|file| file.path == program).unwrap();
        assert_eq!(needed.judge(), Verdict::Same);
        std::fs::remove_file(&was.path).unwrap();
        let survey = Survey::of(&Tree::of(std::process::id()).unwrap()).unwrap();
        assert!(
            survey.written.iter().all(|file| file.path != was.path),
            "a file without a name is in the image"
        );
    }
}
