//! Gathering the values of all parameters from files and environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::absent::{Absence, NoEffect, absence};
use crate::definition::Param;
use crate::file::{Assignment, LineError, Wrong};
use crate::foreign::is_of_guide;
use crate::nearest::nearest_within;
use crate::registry::Params;
use crate::source::{FileLine, Source};
use crate::{
    ENV_PREFIX, FILES_VARIABLE, FOREIGN_ENV_PREFIX, ParamError, SOURCES_VARIABLE, SYSTEM_FILE, USER_FILE,
    file, told_source,
};

/// Says of a line of a file what kind of source it is.
type MakeSource = fn(FileLine) -> Source;

/// A variable `OMPI_MCA_x` that is not for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The variable.
    pub variable: String,
    /// The parameter of ours whose name is so near that it was probably meant.
    pub nearest: Option<&'static str>,
}

/// How many errors of one file are reported one by one.
const MOST_ERRORS: usize = 10;

/// What was found: values, and what could not be used.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The values; where there was an error, the next weaker one.
    pub params: Params,
    /// What is wrong, in the order in which it was met.
    pub errors: Vec<ParamError>,
    /// Files that are there, perhaps, and cannot be read, of those that nobody has named: a home directory that belongs to somebody
    /// else, as in a container.
    pub unread: Vec<ParamError>,
    /// Variables for Open MPI that were skipped, sorted.
    pub ignored: Vec<Ignored>,
    /// What the command line and its files say to components that are not here.
    pub no_effect: Vec<NoEffect>,
}

impl Found {
    /// The values, or the first error.
    ///
    /// # Errors
    /// The first of [`Found::errors`].
    pub fn into_result(mut self) -> Result<Params, ParamError> {
        if self.errors.is_empty() { Ok(self.params) } else { Err(self.errors.remove(0)) }
    }

    /// Reads the environment variables that are for us, and then the files that they leave to be read. `prefix` is the
    /// directory of the installation, if there is one.
    pub fn gather<K, V>(vars: impl IntoIterator<Item = (K, V)>, prefix: Option<&Path>) -> Found
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        let variables = Variables::sort(vars);
        let mut found = Found::default();
        for (path, source) in variables.files(prefix) {
            // A file that somebody names must be there.
            found.open_file(&path, source, variables.files.is_some());
        }
        found.read_variables(&variables);
        found
    }

    fn open_file(&mut self, path: &Path, source: MakeSource, must_be_there: bool) {
        let error = match file::read(path) {
            Ok(Some(bytes)) => return self.read_file(&bytes, path, source),
            Ok(None) if must_be_there => "there is no such file".to_string(),
            Ok(None) => return,
            Err(error) if !must_be_there && error.raw_os_error().is_some() => {
                self.unread.push(ParamError::File { path: path.to_owned(), error: error.to_string() });
                return;
            }
            Err(error) => error.to_string(),
        };
        self.errors.push(ParamError::File { path: path.to_owned(), error });
    }

    /// Takes the values from the text of a parameter file. Wrong lines become errors, the first few each; the others count.
    pub fn read_file(&mut self, bytes: &[u8], path: &Path, source: fn(FileLine) -> Source) {
        let before = self.errors.len();
        for (line, said) in file::lines(bytes) {
            let at = |column| source(FileLine { path: path.to_owned(), line, column });
            match said {
                Ok(one) => self.assign(&one, &at),
                Err(Wrong { column, error }) => self.refuse(error, at(column)),
            }
        }
        self.sum_up(before, path);
    }

    /// Of the errors of one file, those behind the first `before`, keeps as many as somebody reads, and how many more there are.
    pub(crate) fn sum_up(&mut self, before: usize, path: &Path) {
        let more = self.errors.len().saturating_sub(before + MOST_ERRORS);
        if more > 1 {
            self.errors.truncate(before + MOST_ERRORS);
            self.errors.push(ParamError::More { path: path.to_owned(), more });
        }
    }

    /// Takes one value from the command line, stronger than what was found before.
    pub fn say(&mut self, name: &str, value: &str, source: Source) {
        if !self.says_to_absent(name, value, &source) {
            self.set(name, value, source);
        }
    }

    /// Whether a parameter is not ours, and means a component that is not here; what has no effect is noted.
    pub(crate) fn says_to_absent(&mut self, name: &str, value: &str, source: &Source) -> bool {
        let absence = if Param::find(name).is_some() { None } else { absence(name, value) };
        if let Some(Absence::Tuned(instead)) = absence {
            self.no_effect.push(NoEffect { from: source.clone(), instead });
        }
        absence.is_some()
    }

    /// Takes one value from a file, in which `at` is the place of a column.
    pub(crate) fn assign(&mut self, one: &Assignment<'_>, at: &dyn Fn(usize) -> Source) {
        let (name, value) = one.columns;
        match self.params.set(&one.name, &one.value) {
            Ok(()) => self.set(&one.name, &one.value, at(name)),
            Err(error) => {
                let column = if matches!(error, ParamError::Value { .. }) { value } else { name };
                self.errors.push(ParamError::At { from: at(column), error: Box::new(error) });
            }
        }
    }

    pub(crate) fn refuse(&mut self, error: LineError, from: Source) {
        self.errors.push(ParamError::At { from, error: Box::new(error.into()) });
    }

    fn read_variables(&mut self, variables: &Variables) {
        for (name, value) in &variables.foreign {
            let variable = format!("{FOREIGN_ENV_PREFIX}{name}");
            // A name that only the guide has is meant for OxMPI, and is an error as long as there is no such parameter.
            if Param::find(name).is_some() || is_of_guide(name) {
                self.set(name, value, Source::Environment(variable));
            } else {
                self.ignored.push(Ignored { variable, nearest: nearest_of_foreign(name) });
            }
        }
        for (name, value) in &variables.own {
            let told = variables.sources.as_ref().and_then(|told| told_source(told, name, value));
            let source = told.unwrap_or_else(|| Source::Environment(format!("{ENV_PREFIX}{name}")));
            self.set(name, value, source);
        }
    }

    fn set(&mut self, name: &str, value: &str, source: Source) {
        if let Err(error) = self.params.set_from(name, value, source) {
            self.errors.push(error);
        }
    }
}

/// The parameter of ours that a name probably means which can be one of Open MPI's: that has some thousand, so only what differs by
/// a slip.
pub(crate) fn nearest_of_foreign(name: &str) -> Option<&'static str> {
    nearest_within(name, Param::names(), name.len() / 6)
}

/// The variables of an environment that matter, without their prefixes, sorted.
#[derive(Default)]
struct Variables {
    own: BTreeMap<String, String>,
    foreign: BTreeMap<String, String>,
    files: Option<OsString>,
    /// Where the launcher says that its values come from.
    sources: Option<String>,
    home: Option<OsString>,
}

impl Variables {
    fn sort<K: AsRef<OsStr>, V: AsRef<OsStr>>(vars: impl IntoIterator<Item = (K, V)>) -> Variables {
        let mut sorted = Variables::default();
        for (key, value) in vars {
            let (key, value) = (key.as_ref(), value.as_ref());
            // Byte-wise: one look at each variable, almost all of which are somebody else's.
            let bytes = key.as_encoded_bytes();
            let rest = |prefix: &str| key.to_string_lossy()[prefix.len()..].to_string();
            if bytes.starts_with(ENV_PREFIX.as_bytes()) {
                sorted.own.insert(rest(ENV_PREFIX), value.to_string_lossy().into_owned());
            } else if bytes.starts_with(FOREIGN_ENV_PREFIX.as_bytes()) {
                sorted.foreign.insert(rest(FOREIGN_ENV_PREFIX), value.to_string_lossy().into_owned());
            } else if bytes == FILES_VARIABLE.as_bytes() {
                sorted.files = Some(value.to_owned());
            } else if bytes == SOURCES_VARIABLE.as_bytes() {
                sorted.sources = Some(value.to_string_lossy().into_owned());
            } else if bytes == b"HOME" {
                sorted.home = Some(value.to_owned()).filter(|home| !home.is_empty());
            }
        }
        sorted
    }

    /// The files to read, weakest first.
    fn files(&self, prefix: Option<&Path>) -> Vec<(PathBuf, MakeSource)> {
        if let Some(named) = &self.files {
            if named.is_empty() || named == "none" {
                return Vec::new();
            }
            // The first of a list is the strongest, as in a search path.
            let mut files: Vec<_> = std::env::split_paths(named)
                .filter(|path| !path.as_os_str().is_empty())
                .map(|path| (path, Source::NamedFile as MakeSource))
                .collect();
            files.reverse();
            return files;
        }
        let system = prefix.map(|prefix| (prefix.join(SYSTEM_FILE), Source::SystemFile as MakeSource));
        let user = self.home.as_ref();
        let user = user.map(|home| (Path::new(home).join(USER_FILE), Source::UserFile as MakeSource));
        system.into_iter().chain(user).collect()
    }
}

#[cfg(test)]
mod tests;
