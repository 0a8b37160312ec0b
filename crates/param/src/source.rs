//! Where the value of a parameter comes from.

use std::fmt;
use std::path::PathBuf;

/// Where the value of a parameter comes from, weakest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Nobody has said anything.
    #[default]
    Default,
    /// The file of the installation.
    SystemFile(FileLine),
    /// The user's own file.
    UserFile(FileLine),
    /// A file named in the environment (`OXMPI_PARAM_FILES`) or on the command line (`--tune`).
    NamedFile(FileLine),
    /// This environment variable.
    Environment(String),
    /// This option of `mpirun`.
    CommandLine(String),
    /// What `mpirun` that has started this process says of where its value comes from.
    Launcher(String),
    /// The program itself, by [`crate::Params::set`].
    Program,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLine {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// The character of the line, counted from 1.
    pub column: usize,
}

impl Source {
    /// The kind of source in one word, for programs that read it.
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

    /// It as text, for an error: of a file, the very place.
    pub fn position(&self) -> String {
        match self.place() {
            Some(place) => format!("file {place}:{}", place.column),
            None => self.to_string(),
        }
    }

    /// The place in a file.
    pub(crate) fn place(&self) -> Option<&FileLine> {
        match self {
            Source::SystemFile(place) | Source::UserFile(place) | Source::NamedFile(place) => Some(place),
            _ => None,
        }
    }

    /// Whether it is a line of a file.
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
