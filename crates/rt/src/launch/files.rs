//! Output of the ranks into files: `DIRECTORY/rank.N/stdout` and `stderr`; of spawned ones `DIRECTORY/rank.JOB.N/...`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

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
    ranks: BTreeMap<u32, [Option<File>; 2]>,
    directory: PathBuf,
}

impl Files {
    /// Makes the files anew.
    pub(super) fn create(directory: &Path, size: u32) -> io::Result<Files> {
        let mut files = Files { ranks: BTreeMap::new(), directory: directory.to_owned() };
        (0..size).try_for_each(|rank| files.add(rank, &rank.to_string()))?;
        Ok(files)
    }

    /// Makes the files of one more process.
    pub(super) fn add(&mut self, number: u32, name: &str) -> io::Result<()> {
        let directory = self.directory.join(format!("rank.{name}"));
        fs::create_dir_all(&directory)?;
        let open = |name| File::create(directory.join(name)).map(Some);
        self.ranks.insert(number, [open("stdout")?, open("stderr")?]);
        Ok(())
    }

    /// A process writes nothing more.
    pub(super) fn close(&mut self, number: u32) {
        self.ranks.remove(&number);
    }

    /// Adds what a rank wrote. `kind` is 0 for standard output, 1 for standard error. What to tell the user if it
    /// fails; that file gets nothing more then.
    pub(super) fn write(&mut self, number: u32, kind: usize, bytes: &[u8]) -> Option<String> {
        let slot = self.ranks.get_mut(&number)?.get_mut(kind)?;
        let error = slot.as_mut()?.write_all(bytes).err()?;
        *slot = None;
        Some(format!(
            "warning: cannot write output to the files in {}: {error}; what is missing there is lost",
            self.directory.display()
        ))
    }
}
