//! The source of a parameter's value.

use std::fmt;
use std::path::PathBuf;

/// Weakest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    #[default]
    Default,
    SystemFile(FileLine),
    UserFile(FileLine),
    /// A file in the environment (`OXMPI_PARAM_FILES`) or on the command line (`--tune`).
    NamedFile(FileLine),
    Environment(String),
    CommandLine(String),
    /// The source that the `mpirun` of this process reports.
    Launcher(String),
    /// [`crate::Params::set`].
    Program,
}

/// A position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLine {
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Source {
    /// The kind of source in one word, for machine-readable output.
    pub fn kind(&self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::SystemFile(_) => "system file",
            Source::UserFile(_) => "user file",
            Source::NamedFile(_) => "named file",
            Source::Environment(_) => "environment",
            Source::CommandLine(_) => "command line",
            Source::Launcher(_) => "launcher",
            Source::Program => "program",
        }
    }

    /// The source as a text for an error, with line and column for a file.
    pub fn position(&self) -> String {
        match self.place() {
            Some(place) => format!("file {place}:{}", place.column),
            None => self.to_string(),
        }
    }

    pub(crate) fn place(&self) -> Option<&FileLine> {
        match self {
            Source::SystemFile(place) | Source::UserFile(place) | Source::NamedFile(place) => {
                Some(place)
            }
            _ => None,
        }
    }

    /// Whether the source is a file.
    pub fn is_file(&self) -> bool {
        self.place().is_some()
    }
}

impl fmt::Display for FileLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.line)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::SystemFile(place) | Source::UserFile(place) | Source::NamedFile(place) => {
                write!(f, "file {place}")
            }
            Source::Environment(variable) => write!(f, "environment variable {variable}"),
            Source::CommandLine(text) | Source::Launcher(text) => f.write_str(text),
            Source::Program => f.write_str("the program"),
        }
    }
}
