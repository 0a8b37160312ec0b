//! Output of the ranks into files, whose names are patterns. `--output-filename` makes
//! `DIRECTORY/rank.N/stdout` and `stderr`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::OFlags;

use super::output::Lost;

/// Files for the ranks' output, beside or in place of the launcher's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputFiles {
    /// The patterns for standard output and standard error. `%r` stands for the rank (`JOB.RANK` of
    /// a spawned process), `%g` for the number of its job, `%p` for that of its host, `%h` for the
    /// host's name, `%%` for a `%`. Missing directories are created.
    pub patterns: [Option<OsString>; 2],
    pub print: bool,
}

impl OutputFiles {
    /// A directory for each rank in `directory`.
    pub fn in_directory(directory: &OsStr, print: bool) -> OutputFiles {
        let plain = directory.as_bytes().iter().flat_map(|&byte| match byte {
            b'%' => vec![b'%', b'%'],
            byte => vec![byte],
        });
        let plain: Vec<u8> = plain.collect();
        let file =
            |name: &str| OsString::from_vec([&plain[..], b"/rank.%r/", name.as_bytes()].concat());
        OutputFiles { patterns: [Some(file("stdout")), Some(file("stderr"))], print }
    }

    /// The files of standard output and standard error, for messages: `*` stands for the parts of a
    /// name that differ between ranks.
    pub fn places(&self) -> [Option<PathBuf>; 2] {
        let any = Named { rank: "*", node: None, host: "*" };
        self.patterns.each_ref().map(|pattern| pattern.as_ref().map(|pattern| any.file(pattern)))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'a> {
    /// `JOB.RANK` of a spawned process.
    pub(super) rank: &'a str,
    /// The number of its host; `None`: any.
    pub(super) node: Option<u32>,
    pub(super) host: &'a str,
}

impl Named<'_> {
    fn file(&self, pattern: &OsStr) -> PathBuf {
        let mut out = Vec::new();
        let mut bytes = pattern.as_bytes().iter();
        while let Some(&byte) = bytes.next() {
            match (byte, bytes.as_slice().first()) {
                (b'%', Some(b'r')) => out.extend(self.rank.bytes()),
                (b'%', Some(b'g')) => {
                    out.extend(self.rank.split_once('.').map_or("0", |(job, _)| job).bytes());
                }
                (b'%', Some(b'p')) => out
                    .extend(self.node.map_or_else(|| "*".into(), |node| node.to_string()).bytes()),
                (b'%', Some(b'h')) => out.extend(self.host.bytes()),
                (b'%', Some(b'%')) => out.push(b'%'),
                _ => {
                    out.push(byte);
                    continue;
                }
            }
            bytes.next();
        }
        PathBuf::from(OsString::from_vec(out))
    }
}

pub(super) struct Files {
    ranks: BTreeMap<u32, [Option<OutputFile>; 2]>,
    patterns: [Option<OsString>; 2],
    /// The files that were created: several processes may share one.
    made: BTreeSet<PathBuf>,
    short: Vec<(PathBuf, Lost)>,
    is_reported: bool,
}

struct OutputFile {
    path: PathBuf,
    file: File,
    lost: Lost,
}

impl Files {
    pub(super) fn new(files: &OutputFiles) -> Files {
        let (ranks, made, short) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Files { ranks, patterns: files.patterns.clone(), made, short, is_reported: false }
    }

    /// Creates the files of a process; `goes_on`: opens those of the checkpoint.
    pub(super) fn add(
        &mut self,
        number: u32,
        process: Named<'_>,
        goes_on: bool,
    ) -> Result<(), (PathBuf, io::Error)> {
        let mut files = [None, None];
        for (file, pattern) in files.iter_mut().zip(self.patterns.clone()) {
            let Some(path) = pattern.map(|pattern| process.file(&pattern)) else { continue };
            let opened = self.open(&path, goes_on).map_err(|error| (path.clone(), error))?;
            *file = Some(OutputFile { file: opened, path, lost: Lost::default() });
        }
        self.ranks.insert(number, files);
        Ok(())
    }

    fn open(&mut self, path: &PathBuf, goes_on: bool) -> io::Result<File> {
        let is_new = self.made.insert(path.clone()) && !goes_on;
        if let Some(directory) = path.parent().filter(|_| is_new) {
            fs::create_dir_all(directory)?;
        }
        let append = OFlags::APPEND.bits().cast_signed();
        File::options().write(true).create(is_new).truncate(is_new).custom_flags(append).open(path)
    }

    pub(super) fn has(&self, number: u32, kind: usize) -> bool {
        self.ranks.get(&number).and_then(|files| files.get(kind)).is_some_and(Option::is_some)
    }

    pub(super) fn close(&mut self, number: u32) {
        let closed = self.ranks.remove(&number).into_iter().flatten().flatten();
        self.short
            .extend(closed.map(|file| (file.path, file.lost)).filter(|(_, lost)| lost.is_any()));
    }

    /// Appends a rank's output. `kind` is 0 for standard output, 1 for standard error. Returns a
    /// warning for the first failure.
    pub(super) fn write(&mut self, number: u32, kind: usize, bytes: &[u8]) -> Option<String> {
        let file = self.ranks.get_mut(&number)?.get_mut(kind)?.as_mut()?;
        file.write(bytes);
        let error = file.lost.unreported()?;
        let text = format!(
            "warning: cannot write {}: {error}; what does not fit there is lost, and the job goes on, but mpirun will not end with code 0",
            file.path.display()
        );
        (!std::mem::replace(&mut self.is_reported, true)).then_some(text)
    }

    pub(super) fn lost(&self) -> Vec<String> {
        let open = self.ranks.values().flatten().flatten().map(|file| (&file.path, &file.lost));
        let all = self.short.iter().map(|(path, lost)| (path, lost)).chain(open);
        all.filter_map(|(path, lost)| lost.shown(path.display())).collect()
    }
}

impl OutputFile {
    /// Output that cannot be written is lost; later output may find room again.
    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return self.lost.note(bytes, io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.lost.note(bytes, error),
            }
        }
    }
}
