//! Collects the values of all parameters from files and environment.

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
    ENV_PREFIX, FILES_VARIABLE, FOREIGN_ENV_PREFIX, ParamError, SOURCES_VARIABLE, SYSTEM_FILE,
    USER_FILE, decode_source, file,
};

type MakeSource = fn(FileLine) -> Source;

/// A variable `OMPI_MCA_x` that is no parameter of OxMPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    pub variable: String,
    /// The parameter of OxMPI whose name is near enough to be meant.
    pub nearest: Option<&'static str>,
}

/// The most errors of one file that are reported one by one.
const MOST_ERRORS: usize = 10;

/// The collected values, and all problems.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// A parameter with an error has the value of the next weaker source.
    pub params: Params,
    /// In the order of reading.
    pub errors: Vec<ParamError>,
    /// Default files that cannot be read, such as those in another user's home directory.
    pub unread: Vec<ParamError>,
    /// Skipped variables of Open MPI, sorted.
    pub ignored: Vec<Ignored>,
    /// Parameters on the command line for components that OxMPI does not have.
    pub no_effect: Vec<NoEffect>,
}

impl Found {
    /// The values, or the first of [`Found::errors`].
    pub fn into_result(mut self) -> Result<Params, ParamError> {
        if self.errors.is_empty() { Ok(self.params) } else { Err(self.errors.remove(0)) }
    }

    /// Reads the environment variables, and the files that they select. `prefix` is the directory
    /// of the installation.
    pub fn gather<K, V>(vars: impl IntoIterator<Item = (K, V)>, prefix: Option<&Path>) -> Found
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        let variables = Variables::sort(vars);
        let mut found = Found::default();
        for (path, source) in variables.files(prefix) {
            // Files in OXMPI_PARAM_FILES must exist.
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
                self.unread
                    .push(ParamError::File { path: path.to_owned(), error: error.to_string() });
                return;
            }
            Err(error) => error.to_string(),
        };
        self.errors.push(ParamError::File { path: path.to_owned(), error });
    }

    /// Takes the values from the text of a parameter file. Wrong lines become errors; after the
    /// first few they are only counted.
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

    /// Limits the errors behind the first `before` to [`MOST_ERRORS`], and counts the rest.
    pub(crate) fn sum_up(&mut self, before: usize, path: &Path) {
        let more = self.errors.len().saturating_sub(before + MOST_ERRORS);
        if more > 1 {
            self.errors.truncate(before + MOST_ERRORS);
            self.errors.push(ParamError::More { path: path.to_owned(), more });
        }
    }

    /// Takes a value from the command line, which is stronger than the earlier values.
    pub fn set_strongest(&mut self, name: &str, value: &str, source: Source) {
        if !self.is_for_absent(name, value, &source) {
            self.set(name, value, source);
        }
    }

    /// Whether a parameter belongs to a component that OxMPI does not have; records a parameter
    /// without effect.
    pub(crate) fn is_for_absent(&mut self, name: &str, value: &str, source: &Source) -> bool {
        let absence = if Param::find(name).is_some() { None } else { absence(name, value) };
        if let Some(Absence::Tuned(instead)) = absence {
            self.no_effect.push(NoEffect { from: source.clone(), instead });
        }
        absence.is_some()
    }

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
            // A name of LAM/MPI is meant for OxMPI, and is an error if OxMPI does not have it.
            if Param::find(name).is_some() || is_of_guide(name) {
                self.set(name, value, Source::Environment(variable));
            } else {
                self.ignored.push(Ignored { variable, nearest: nearest_of_foreign(name) });
            }
        }
        for (name, value) in &variables.own {
            let source =
                variables.sources.as_ref().and_then(|source| decode_source(source, name, value));
            let source =
                source.unwrap_or_else(|| Source::Environment(format!("{ENV_PREFIX}{name}")));
            self.set(name, value, source);
        }
    }

    fn set(&mut self, name: &str, value: &str, source: Source) {
        if let Err(error) = self.params.set_from(name, value, source) {
            self.errors.push(error);
        }
    }
}

/// The parameter of OxMPI that a name probably means. Open MPI has some thousand names, so only a
/// misspelling counts.
pub(crate) fn nearest_of_foreign(name: &str) -> Option<&'static str> {
    nearest_within(name, Param::names(), name.len() / 6)
}

/// The relevant environment variables, without their prefixes, sorted.
#[derive(Default)]
struct Variables {
    own: BTreeMap<String, String>,
    foreign: BTreeMap<String, String>,
    files: Option<OsString>,
    sources: Option<String>,
    home: Option<OsString>,
}

impl Variables {
    fn sort<K: AsRef<OsStr>, V: AsRef<OsStr>>(vars: impl IntoIterator<Item = (K, V)>) -> Variables {
        let mut sorted = Variables::default();
        for (key, value) in vars {
            let (key, value) = (key.as_ref(), value.as_ref());
            // Almost all variables are irrelevant, so their names are compared as bytes.
            let bytes = key.as_encoded_bytes();
            let rest = |prefix: &str| key.to_string_lossy()[prefix.len()..].to_string();
            if bytes.starts_with(ENV_PREFIX.as_bytes()) {
                sorted.own.insert(rest(ENV_PREFIX), value.to_string_lossy().into_owned());
            } else if bytes.starts_with(FOREIGN_ENV_PREFIX.as_bytes()) {
                sorted
                    .foreign
                    .insert(rest(FOREIGN_ENV_PREFIX), value.to_string_lossy().into_owned());
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

    fn files(&self, prefix: Option<&Path>) -> Vec<(PathBuf, MakeSource)> {
        if let Some(named) = &self.files {
            if named.is_empty() || named == "none" {
                return Vec::new();
            }
            // The first file of the list is the strongest, as in a search path.
            let mut files: Vec<_> = std::env::split_paths(named)
                .filter(|path| !path.as_os_str().is_empty())
                .map(|path| (path, Source::NamedFile as MakeSource))
                .collect();
            files.reverse();
            return files;
        }
        let system =
            prefix.map(|prefix| (prefix.join(SYSTEM_FILE), Source::SystemFile as MakeSource));
        let user = self.home.as_ref();
        let user =
            user.map(|home| (Path::new(home).join(USER_FILE), Source::UserFile as MakeSource));
        system.into_iter().chain(user).collect()
    }
}

#[cfg(test)]
mod tests;
