//! Output of the ranks into files: `DIRECTORY/rank.N/stdout` and `stderr`; of spawned ones `DIRECTORY/rank.JOB.N/...`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::output::Lost;

/// Where the output of the ranks goes, beside or instead of the launcher's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFiles {
    /// The directory; it is made if it is not there.
    pub directory: PathBuf,
    /// Whether the launcher prints the output as well.
    pub print: bool,
}

/// The open files, two for each process, by its number.
pub(super) struct Files {
    ranks: BTreeMap<u32, [OutputFile; 2]>,
    directory: PathBuf,
    /// Files that are not open any more and have not got everything.
    short: Vec<(PathBuf, Lost)>,
    is_told: bool,
}

struct OutputFile {
    path: PathBuf,
    file: File,
    lost: Lost,
}

impl Files {
    /// Makes the files anew.
    pub(super) fn create(directory: &Path, size: u32) -> io::Result<Files> {
        let ranks = BTreeMap::new();
        let mut files = Files { ranks, directory: directory.to_owned(), short: Vec::new(), is_told: false };
        (0..size).try_for_each(|rank| files.add(rank, &rank.to_string()))?;
        Ok(files)
    }

    /// Goes on with those of a job that is restored, which are as long as they were when it stood still.
    pub(super) fn reopen(directory: &Path, size: u32) -> io::Result<Files> {
        let mut files = Files {
            ranks: BTreeMap::new(),
            directory: directory.to_owned(),
            short: Vec::new(),
            is_told: false,
        };
        for rank in 0..size {
            let open = |name| {
                let path = directory.join(format!("rank.{rank}")).join(name);
                let file = File::options().append(true).open(&path)?;
                Ok::<_, io::Error>(OutputFile { file, path, lost: Lost::default() })
            };
            files.ranks.insert(rank, [open("stdout")?, open("stderr")?]);
        }
        Ok(files)
    }

    /// Makes the files of one more process.
    pub(super) fn add(&mut self, number: u32, name: &str) -> io::Result<()> {
        let directory = self.directory.join(format!("rank.{name}"));
        fs::create_dir_all(&directory)?;
        let open = |name| {
            let path = directory.join(name);
            Ok::<_, io::Error>(OutputFile { file: File::create(&path)?, path, lost: Lost::default() })
        };
        self.ranks.insert(number, [open("stdout")?, open("stderr")?]);
        Ok(())
    }

    /// Whether there are files for a process.
    pub(super) fn has(&self, number: u32) -> bool {
        self.ranks.contains_key(&number)
    }

    /// A process writes nothing more.
    pub(super) fn close(&mut self, number: u32) {
        let closed = self.ranks.remove(&number).into_iter().flatten();
        self.short.extend(closed.map(|file| (file.path, file.lost)).filter(|(_, lost)| lost.is_any()));
    }

    /// Adds what a rank wrote. `kind` is 0 for standard output, 1 for standard error. What to tell the user if it
    /// fails for the first time.
    pub(super) fn write(&mut self, number: u32, kind: usize, bytes: &[u8]) -> Option<String> {
        let file = self.ranks.get_mut(&number)?.get_mut(kind)?;
        file.write(bytes);
        let error = file.lost.untold()?;
        let text = format!(
            "warning: cannot write {}: {error}; what does not fit there is lost, and the job goes on, but mpirun will not end with code 0",
            file.path.display()
        );
        (!std::mem::replace(&mut self.is_told, true)).then_some(text)
    }

    /// How much was lost of which files, for a person.
    pub(super) fn lost(&self) -> Vec<String> {
        let open = self.ranks.values().flatten().map(|file| (&file.path, &file.lost));
        let all = self.short.iter().map(|(path, lost)| (path, lost)).chain(open);
        all.filter_map(|(path, lost)| lost.shown(path.display())).collect()
    }
}

impl OutputFile {
    /// What cannot be written is lost; later output may find room again.
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
