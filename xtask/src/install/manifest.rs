//! The list of the files of an installation, which `oxmpi uninstall` removes.
//!
//! Lines of a word and a path below the prefix: `file` and `link`, `config` for a file that stays
//! if it was changed (its length and a number of its content stand before the path),
//! `directory` for one that was made for the installation.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::run::Failure;

const FILE: &str = "share/oxmpi/installed";

pub(super) struct Manifest {
    prefix: PathBuf,
    lines: BTreeSet<String>,
}

impl Manifest {
    pub(super) fn open(prefix: &Path) -> Manifest {
        let old = fs::read_to_string(prefix.join(FILE)).unwrap_or_default();
        Manifest { prefix: prefix.to_owned(), lines: old.lines().map(str::to_owned).collect() }
    }

    pub(super) fn directory(&mut self, name: &str) -> Result<(), Failure> {
        let directory = self.prefix.join(name);
        let missing: Vec<String> = Path::new(name)
            .ancestors()
            .filter(|ancestor| !self.prefix.join(ancestor).exists())
            .map(|ancestor| ancestor.display().to_string())
            .collect();
        fs::create_dir_all(&directory)
            .map_err(Failure::io(format!("cannot make {}", directory.display())))?;
        self.lines.extend(missing.into_iter().map(|name| match &*name {
            "" => "directory .".to_string(),
            name => format!("directory {name}"),
        }));
        Ok(())
    }

    pub(super) fn file(&mut self, name: &str) {
        self.lines.insert(format!("file {name}"));
    }

    /// Adds a file of this content that its owner may change.
    pub(super) fn config(&mut self, name: &str, content: &str) {
        self.lines.insert(format!(
            "config {} {:016x} {name}",
            content.len(),
            hash(content.as_bytes())
        ));
    }

    pub(super) fn write(mut self) -> Result<(), Failure> {
        if let Some(parent) = Path::new(FILE).parent() {
            self.directory(&parent.display().to_string())?;
        }
        self.file(FILE);
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        super::write(&self.prefix.join(FILE), &text)
    }
}

/// FNV-1a, as `oxmpi uninstall` computes it.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
