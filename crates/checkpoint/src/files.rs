//! The files that a job has open. They are recorded while the job is held, and judged before a
//! restart.
//!
//! CRIU opens each file by its name, and refuses a file whose length or mode has changed, or a
//! program of another build. It compares neither inodes nor devices nor contents. A job that went
//! on after its checkpoint has written more. So the files that it *writes* are cut back to their
//! lengths at the checkpoint, and the cut parts are kept ([`crate::tails`]). The files that it
//! *needs* (its program, libraries, files that it only reads) must be unchanged, since their code
//! is mapped at addresses in the image.
//!
//! A written file is the same as at the checkpoint if it has the same inode and device, or the same
//! contents up to its length then (`content.rs`). Contents count because devices get other numbers
//! after a reboot or a new mount, and on another host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use object::{Object as _, ReadCache};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::content::checksum_of;
use crate::tree::Tree;

/// A file that the job has open for writing, or mapped with shared write access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    pub path: PathBuf,
    /// Of its file system.
    pub device: u64,
    pub inode: u64,
    pub bytes: u64,
    /// In nanoseconds since 1970.
    pub modified_ns: i64,
    /// The checksum of the first `bytes` bytes (`content.rs`), if the host that made the set could
    /// read the file.
    #[serde(default)]
    pub content: Option<String>,
    #[serde(default)]
    pub host: Option<String>,
    #[serde(default)]
    pub ranks: Vec<u32>,
}

/// A file that the job reads or has mapped without shared write access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededFile {
    pub path: PathBuf,
    pub bytes: u64,
    /// In nanoseconds since 1970.
    pub modified_ns: i64,
    /// The build ID of a program or library, in hexadecimal digits.
    pub build_id: Option<String>,
}

/// A descriptor of a process of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    pub process: u32,
    pub number: u32,
}

/// The files of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Non-blocking sockets. CRIU loses the flag of local sockets with queued messages.
    pub nonblocking: Vec<Descriptor>,
    pub written: Vec<WrittenFile>,
    pub needed: Vec<NeededFile>,
}

/// How a restart treats files that have changed since the checkpoint (parameter `cr_files`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Cut files back that have grown, put cut parts back, refuse other changes.
    Cut,
    Refuse,
    Accept,
}

impl Policy {
    const ALL: [Policy; 3] = [Policy::Cut, Policy::Refuse, Policy::Accept];

    /// The value of the parameter.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Cut => "cut",
            Policy::Refuse => "refuse",
            Policy::Accept => "accept",
        }
    }

    /// The policy for a value of the parameter.
    pub fn named(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// The treatment of a file before a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileVerdict {
    Same,
    /// Cut it to the length at the checkpoint. The remark continues a sentence after the file's
    /// name.
    Fit(Option<&'static str>),
    /// Use the present contents, which have the right length; a remark as in `Fit`.
    Taken(&'static str),
    /// Refuse the restart. The reason continues a sentence after the file's name.
    Refused(String),
}

/// The first bytes of a file compared with its contents at the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    Same,
    /// Tails can restore the contents.
    Kept,
    /// Tails have enough bytes, but no checksum confirms the contents.
    Reached,
    Other,
    Unknown,
}

/// The present file under a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Of its file system.
    pub device: u64,
    pub inode: u64,
    pub bytes: u64,
    /// In nanoseconds since 1970.
    pub modified_ns: i64,
    pub is_file: bool,
}

const REWRITTEN: &str = "was written to since the checkpoint; it is taken as it is";
const REWRITTEN_BEFORE: &str = "was written to since the checkpoint, also before its length then; these bytes are taken as they are";
const ANOTHER: &str =
    "is another file than at the checkpoint; it is taken as it is (--files accept)";
const UNVERIFIED: &str = "gets back the part that another restart has cut off; no checksum says whether its contents are as they were";

impl Survey {
    /// Records the files of held processes. Fails if /proc cannot be read.
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
            for open in open_in(*process)? {
                let number = open.number;
                if open.is_nonblocking_socket() {
                    nonblocking.push(Descriptor { process: *process, number });
                }
                let at = PathBuf::from(format!("/proc/{process}/fd/{number}"));
                note(open.path, &at, open.flags & ACCESS_MODE != 0);
            }
            let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
            for (path, is_written) in mapped_in(&maps) {
                note(path.clone(), &path, is_written);
            }
        }
        let written: Vec<_> =
            written.into_iter().map(|(path, is)| WrittenFile::new(path, &is)).collect();
        let is_read_only = |path: &PathBuf| written.iter().all(|file| file.path != *path);
        let needed = needed.into_iter().filter(is_read_only).map(NeededFile::of);
        Ok(Survey { nonblocking, needed: needed.collect::<io::Result<_>>()?, written })
    }
}

/// The non-blocking sockets of these processes. Fails if /proc cannot be read.
pub(crate) fn nonblocking_sockets(tree: &Tree) -> io::Result<Vec<Descriptor>> {
    let mut all = Vec::new();
    for process in &tree.processes {
        let sockets = open_in(*process)?.into_iter().filter(Open::is_nonblocking_socket);
        all.extend(sockets.map(|open| Descriptor { process: *process, number: open.number }));
    }
    Ok(all)
}

struct Open {
    number: u32,
    path: PathBuf,
    flags: u32,
}

impl Open {
    fn is_nonblocking_socket(&self) -> bool {
        self.path.to_string_lossy().starts_with("socket:") && self.flags & NONBLOCK != 0
    }
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

/// The metadata of `at` if it is the regular file under this path. Files without a name are in the
/// image.
fn named_file(path: &Path, at: &Path) -> Option<Metadata> {
    let named = std::fs::symlink_metadata(path).ok().filter(|_| path.is_absolute())?;
    let found = std::fs::metadata(at).ok()?;
    let is_same = (named.dev(), named.ino()) == (found.dev(), found.ino());
    // Files of /proc and similar file systems have no stored contents.
    let is_stored = !["/proc", "/sys", "/dev"].iter().any(|place| path.starts_with(place))
        || path.starts_with("/dev/shm");
    (is_same && is_stored && found.is_file()).then_some(found)
}

/// The flags of a descriptor, by `/proc/PID/fdinfo/FD` (proc_pid_fdinfo(5)); 0 if unknown.
fn flags_in(info: &str) -> u32 {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0)
}

const ACCESS_MODE: u32 = OFlags::ACCMODE.bits();
const NONBLOCK: u32 = OFlags::NONBLOCK.bits();

impl Descriptor {
    /// Makes a socket of any process non-blocking, by a copy of its descriptor.
    pub fn set_nonblocking(self) -> io::Result<()> {
        let Descriptor { process, number } = self;
        let info = std::fs::read_to_string(format!("/proc/{process}/fdinfo/{number}"))?;
        if flags_in(&info) & NONBLOCK != 0 {
            return Ok(());
        }
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or_else(invalid)?;
        let number = i32::try_from(number).map_err(|_| invalid())?;
        let socket =
            pidfd_getfd(pidfd_open(pid, PidfdFlags::empty())?, number, PidfdGetfdFlags::empty())?;
        let flags = fcntl_getfl(&socket)?;
        Ok(fcntl_setfl(&socket, flags | OFlags::NONBLOCK)?)
    }
}

/// The paths in `/proc/PID/maps` (proc_pid_maps(5)), and whether the mapping writes to the file.
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

impl FoundFile {
    fn of(is: &Metadata) -> FoundFile {
        FoundFile {
            device: is.dev(),
            inode: is.ino(),
            bytes: is.len(),
            modified_ns: modified_ns(is),
            is_file: is.is_file(),
        }
    }
}

impl WrittenFile {
    pub(crate) fn new(path: PathBuf, is: &Metadata) -> WrittenFile {
        let FoundFile { device, inode, bytes, modified_ns, .. } = FoundFile::of(is);
        WrittenFile {
            path,
            device,
            inode,
            bytes,
            modified_ns,
            content: None,
            host: None,
            ranks: Vec::new(),
        }
    }

    /// Opens the regular file at `path`. Follows no links and does not wait at a FIFO.
    pub(crate) fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = options.custom_flags(flags.bits().cast_signed()).open(&self.path)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
        }
    }

    /// Records the checksum of the bytes at the checkpoint. The job may append to the file
    /// meanwhile.
    pub(crate) fn note_content(&mut self) {
        let checksum = self.open(OpenOptions::new().read(true)).ok().and_then(|file| {
            let is = file.metadata().ok()?;
            // Another host may have its own file under this path.
            let is_it = is.ino() == self.inode && (self.host.is_some() || is.dev() == self.device);
            is_it.then(|| checksum_of(&file, self.bytes).ok()).flatten()
        });
        self.content = checksum;
    }

    /// The present file at `path`; `None` if only another host has the file. Fails if it is
    /// missing.
    pub(crate) fn find(&self) -> Result<Option<FoundFile>, FileVerdict> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(metadata) => Ok(Some(FoundFile::of(&metadata))),
            Err(_) if self.host.is_some() => Ok(None),
            Err(error) => {
                Err(FileVerdict::Refused(format!("was open in the job, and is not there: {error}")))
            }
        }
    }

    /// The verdict for the present file. `contents` is called only if needed. Pure.
    pub(crate) fn judge(
        &self,
        found: &FoundFile,
        policy: Policy,
        contents: impl FnOnce() -> Contents,
    ) -> FileVerdict {
        let (was, is) = (self.bytes, found.bytes);
        let is_inode = self.inode == found.inode;
        let is_there = is_inode && self.device == found.device;
        let is_unchanged = (is, found.modified_ns) == (was, self.modified_ns);
        if is_there && is_unchanged {
            return FileVerdict::Same;
        }
        let refuse = FileVerdict::Refused;
        if !found.is_file {
            return refuse("is no regular file any more: put the old one back".into());
        }
        let contents = match contents() {
            // Each file begins with the contents of an empty file.
            Contents::Same if was == 0 && is > 0 => Contents::Unknown,
            contents => contents,
        };
        let is_right = matches!(contents, Contents::Same | Contents::Kept);
        // Hosts with a common file system see the same inodes, but number its device differently.
        let is_it = is_there
            || is_right
            || is_inode && (self.host.is_some() || contents == Contents::Unknown);
        if !is_it && self.host.is_some() {
            return FileVerdict::Same;
        }
        if !is_it && policy != Policy::Accept {
            return refuse(
                "is another file than at the checkpoint, with other contents: put the old one \
                 back, or restart with '--files accept' if the job can go on with this one"
                    .into(),
            );
        }
        let can_be_put_back = matches!(contents, Contents::Kept | Contents::Reached);
        if is < was && !can_be_put_back {
            return refuse(format!(
                "has {is} bytes, and had {was} at the checkpoint: the missing bytes are neither in the set nor beside it"
            ));
        }
        match policy {
            Policy::Refuse if is > was => refuse(format!(
                "has grown from {was} to {is} bytes since the checkpoint, and cr_files is \
                 'refuse': restart with '--files cut', which keeps what it cuts off"
            )),
            Policy::Refuse if can_be_put_back => refuse(
                "was cut back by the restart of another set, and cr_files is 'refuse': restart \
                 with '--files cut', which puts back what was cut off"
                    .into(),
            ),
            Policy::Refuse if !is_unchanged && (is_there || contents != Contents::Same) => refuse(
                "was written to since the checkpoint, and cr_files is 'refuse': restart with '--files cut' if its contents \
                 are good"
                    .into(),
            ),
            _ if contents == Contents::Kept => FileVerdict::Fit(None),
            _ if contents == Contents::Reached => FileVerdict::Fit(Some(UNVERIFIED)),
            _ if is > was => FileVerdict::Fit(match contents {
                Contents::Other if is_it => Some(REWRITTEN_BEFORE),
                _ if !is_it => Some(ANOTHER),
                _ => None,
            }),
            _ if contents == Contents::Same || is_it && is_unchanged => FileVerdict::Same,
            _ if !is_it => FileVerdict::Taken(ANOTHER),
            _ => FileVerdict::Taken(REWRITTEN),
        }
    }
}

impl NeededFile {
    fn of(path: PathBuf) -> io::Result<NeededFile> {
        let metadata = std::fs::metadata(&path)?;
        let build_id = build_id(&path);
        Ok(NeededFile {
            path,
            bytes: metadata.len(),
            modified_ns: modified_ns(&metadata),
            build_id,
        })
    }

    pub(crate) fn judge(&self) -> FileVerdict {
        match NeededFile::of(self.path.clone()) {
            Ok(found) => self.judge_as(&found),
            Err(error) => {
                FileVerdict::Refused(format!("is needed by the job, and is not there: {error}"))
            }
        }
    }

    fn judge_as(&self, found: &NeededFile) -> FileVerdict {
        if self.bytes != found.bytes || self.build_id != found.build_id {
            let what =
                if self.build_id.is_some() { "is another build than" } else { "is not as it was" };
            return FileVerdict::Refused(format!(
                "{what} at the checkpoint ({} bytes instead of {}): the image needs the old one",
                found.bytes, self.bytes
            ));
        }
        // The build ID identifies the build; the time of its installation does not count.
        let is_same = self.build_id.is_some() || self.modified_ns == found.modified_ns;
        if is_same { FileVerdict::Same } else { FileVerdict::Taken(REWRITTEN) }
    }
}

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

    fn was() -> WrittenFile {
        WrittenFile {
            path: "/o".into(),
            device: 1,
            inode: 2,
            bytes: 5,
            modified_ns: 3,
            content: None,
            host: None,
            ranks: Vec::new(),
        }
    }

    const FOUND: FoundFile =
        FoundFile { device: 1, inode: 2, bytes: 5, modified_ns: 3, is_file: true };

    fn why(verdict: FileVerdict) -> String {
        match verdict {
            FileVerdict::Refused(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_written_is_cut_back_refused_or_left() {
        let was = was();
        let judge = |found: FoundFile, policy, contents| was.judge(&found, policy, || contents);
        let unread = was.judge(&FOUND, Policy::Refuse, || panic!("nothing has changed"));
        assert_eq!(unread, FileVerdict::Same);
        let grown = FoundFile { bytes: 7, modified_ns: 4, ..FOUND };
        assert_eq!(judge(grown, Policy::Cut, Contents::Same), FileVerdict::Fit(None));
        assert_eq!(judge(grown, Policy::Cut, Contents::Unknown), FileVerdict::Fit(None));
        assert_eq!(
            judge(grown, Policy::Cut, Contents::Other),
            FileVerdict::Fit(Some(REWRITTEN_BEFORE))
        );
        let refused = why(judge(grown, Policy::Refuse, Contents::Same));
        assert!(
            refused.contains("from 5 to 7 bytes") && refused.contains("--files cut"),
            "{refused}"
        );
        let written = FoundFile { modified_ns: 4, ..FOUND };
        assert_eq!(judge(written, Policy::Cut, Contents::Same), FileVerdict::Same);
        assert_eq!(judge(written, Policy::Cut, Contents::Other), FileVerdict::Taken(REWRITTEN));
        assert!(
            why(judge(written, Policy::Refuse, Contents::Same)).contains("was written to since")
        );
        let short = FoundFile { bytes: 3, modified_ns: 4, ..FOUND };
        for contents in [Contents::Other, Contents::Unknown] {
            for policy in Policy::ALL {
                assert!(why(judge(short, policy, contents)).contains("has 3 bytes, and had 5"));
            }
        }
        let other_kind = FoundFile { is_file: false, ..written };
        assert!(
            why(judge(other_kind, Policy::Accept, Contents::Unknown)).contains("no regular file")
        );
    }

    #[test]
    fn tails_are_put_back_unless_changed_files_are_refused() {
        let short = FoundFile { bytes: 3, modified_ns: 4, ..FOUND };
        let other = FoundFile { bytes: 9, ..short };
        for found in [short, other] {
            let judge = |policy, contents| was().judge(&found, policy, || contents);
            assert_eq!(judge(Policy::Cut, Contents::Kept), FileVerdict::Fit(None));
            assert_eq!(judge(Policy::Accept, Contents::Kept), FileVerdict::Fit(None));
            assert_eq!(judge(Policy::Cut, Contents::Reached), FileVerdict::Fit(Some(UNVERIFIED)));
            assert!(why(judge(Policy::Refuse, Contents::Kept)).contains("--files cut"));
        }
    }

    #[test]
    fn a_file_with_the_right_contents_is_the_old_one_and_another_is_refused_or_accepted() {
        let other_device = FoundFile { device: 9, modified_ns: 4, ..FOUND };
        let copy = FoundFile { device: 9, inode: 8, modified_ns: 4, ..FOUND };
        let judge = |found: FoundFile, policy, contents| was().judge(&found, policy, || contents);
        for found in [other_device, copy] {
            assert_eq!(judge(found, Policy::Cut, Contents::Same), FileVerdict::Same);
            assert_eq!(judge(found, Policy::Refuse, Contents::Same), FileVerdict::Same);
            let grown = FoundFile { bytes: 9, ..found };
            assert_eq!(judge(grown, Policy::Cut, Contents::Same), FileVerdict::Fit(None));
            let refused = why(judge(found, Policy::Cut, Contents::Other));
            assert!(
                refused.contains("another file") && refused.contains("--files accept"),
                "{refused}"
            );
            assert_eq!(judge(found, Policy::Accept, Contents::Other), FileVerdict::Taken(ANOTHER));
            assert_eq!(
                judge(grown, Policy::Accept, Contents::Other),
                FileVerdict::Fit(Some(ANOTHER))
            );
        }
        assert_eq!(
            judge(other_device, Policy::Cut, Contents::Unknown),
            FileVerdict::Taken(REWRITTEN)
        );
        let mounted_anew = FoundFile { device: 9, ..FOUND };
        assert_eq!(judge(mounted_anew, Policy::Refuse, Contents::Unknown), FileVerdict::Same);
        assert!(why(judge(copy, Policy::Cut, Contents::Unknown)).contains("another file"));
        let empty = WrittenFile { bytes: 0, ..was() };
        assert!(why(empty.judge(&copy, Policy::Cut, || Contents::Same)).contains("another file"));
        assert_eq!(
            empty.judge(&other_device, Policy::Cut, || Contents::Same),
            FileVerdict::Fit(None)
        );
        // The path of another host's file leads to a different file here, which stays unchanged.
        let far = WrittenFile { host: Some("nodea".into()), ..was() };
        assert_eq!(far.judge(&copy, Policy::Refuse, || Contents::Other), FileVerdict::Same);
        let grown = FoundFile { bytes: 9, ..other_device };
        assert!(matches!(far.judge(&grown, Policy::Cut, || Contents::Other), FileVerdict::Fit(_)));
        assert!(why(far.judge(&grown, Policy::Refuse, || Contents::Other)).contains("from 5 to 9"));
    }

    #[test]
    fn the_checksum_is_that_of_the_bytes_at_the_checkpoint() {
        let mut was = file("checksum", "12345");
        std::fs::write(&was.path, "1234567").unwrap();
        was.note_content();
        std::fs::write(&was.path, "12345").unwrap();
        assert_eq!(was.content, Some(checksum_of(&File::open(&was.path).unwrap(), 5).unwrap()));
        std::fs::write(&was.path, "12").unwrap();
        was.note_content();
        assert_eq!(was.content, None, "it has fewer bytes now");
        std::fs::remove_file(&was.path).unwrap();
        assert!(
            matches!(was.find(), Err(FileVerdict::Refused(why)) if why.contains("is not there"))
        );
    }

    #[test]
    fn another_build_is_refused_and_a_new_copy_is_not() {
        let is = |build: Option<&str>, modified_ns| NeededFile {
            path: "/lib/x".into(),
            bytes: 10,
            modified_ns,
            build_id: build.map(Into::into),
        };
        assert_eq!(is(Some("a"), 1).judge_as(&is(Some("a"), 2)), FileVerdict::Same);
        assert_eq!(is(None, 1).judge_as(&is(None, 2)), FileVerdict::Taken(REWRITTEN));
        let FileVerdict::Refused(why) = is(Some("a"), 1).judge_as(&is(Some("b"), 1)) else {
            panic!()
        };
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
        assert_eq!(needed.judge(), FileVerdict::Same);
        std::fs::remove_file(&was.path).unwrap();
        let survey = Survey::of(&Tree::of(std::process::id()).unwrap()).unwrap();
        assert!(
            survey.written.iter().all(|file| file.path != was.path),
            "a file without a name is in the image"
        );
    }
}
