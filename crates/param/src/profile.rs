//! Files of `mpirun --am` and `--tune`: sets of parameters for a job.
//!
//! ```text
//! # Lines as in other parameter files, and lines with one or more options of the command line:
//! wait_spin_us = 5
//! --mca btl self,tcp --mca rpi_tcp_short 16k
//! -x OMP_NUM_THREADS=2 -x "NOTE=two words" -x HOME
//! ```
//!
//! A file name without a `/` is searched for in several directories: [`search_path`].

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::{self, Assignment, LineError, Wrong, column};
use crate::load::Found;
use crate::parse::ParamError;
use crate::source::{FileLine, Source};

/// The directory of the user's own sets, below the home directory.
const USER_SETS: &str = ".oxmpi/amca-param-sets";
/// The directory of sets for all users, below the prefix of the installation.
const SYSTEM_SETS: &str = "share/oxmpi/amca-param-sets";

/// The directories for file names without a `/`: the working directory, `~/.oxmpi/amca-param-sets`,
/// `PREFIX/share/oxmpi/amca-param-sets`.
pub fn search_path(home: Option<&OsStr>, prefix: Option<&Path>) -> Vec<PathBuf> {
    let home = home.filter(|home| !home.is_empty()).map(|home| Path::new(home).join(USER_SETS));
    [Some(PathBuf::from(".")), home, prefix.map(|prefix| prefix.join(SYSTEM_SETS))]
        .into_iter()
        .flatten()
        .collect()
}

/// One entry of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileEntry<'a> {
    Parameter(Assignment<'a>),
    /// An environment variable for the ranks; without a value, `mpirun`'s value is used.
    Variable {
        name: String,
        value: Option<String>,
        /// In characters, from 1.
        column: usize,
    },
}

/// The lines with content: their numbers, from 1, and their entries.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, Result<Vec<ProfileEntry<'_>>, Wrong>)> {
    file::texts(bytes).map(|(number, line)| {
        let entries = line.and_then(|line| match line.trim_start().starts_with('-') {
            true => options(line),
            false => Ok(vec![ProfileEntry::Parameter(file::assignment(line)?)]),
        });
        (number, entries)
    })
}

fn options(line: &str) -> Result<Vec<ProfileEntry<'_>>, Wrong> {
    let mut words = words(line)?.into_iter();
    let mut entries = Vec::new();
    while let Some((column, option)) = words.next() {
        let mut next = |what| words.next().ok_or(Wrong { column, error: LineError::Missing(what) });
        match option.trim_start_matches('-') {
            "mca" | "ssi" | "gmca" if option.starts_with('-') => {
                let (at, name) = next("NAME and VALUE")?;
                let (value_at, value) = next("VALUE")?;
                let (name, value) = (Cow::Owned(name), Cow::Owned(value));
                entries.push(ProfileEntry::Parameter(Assignment {
                    name,
                    value,
                    columns: (at, value_at),
                }));
            }
            "x" if option.starts_with('-') => {
                let (column, word) = next("NAME=VALUE")?;
                let (name, value) = match word.split_once('=') {
                    Some((name, value)) => (name.to_string(), Some(value.to_string())),
                    None => (word, None),
                };
                if name.is_empty() {
                    return Err(Wrong { column, error: LineError::Variable });
                }
                entries.push(ProfileEntry::Variable { name, value, column });
            }
            _ => return Err(Wrong { column, error: LineError::Option }),
        }
    }
    Ok(entries)
}

/// The words of a line with their positions. Blanks between quotes belong to the word; a word that
/// starts with `#` starts a comment.
fn words(line: &str) -> Result<Vec<(usize, String)>, Wrong> {
    let mut all = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        let start = column(line, rest);
        let mut word = String::new();
        while let Some(c) = rest.chars().next().filter(|c| !c.is_whitespace()) {
            let behind = &rest[c.len_utf8()..];
            rest = if matches!(c, '"' | '\'') {
                let wrong = Wrong { column: column(line, rest), error: LineError::Quote };
                let (inside, after) = behind.split_once(c).ok_or(wrong)?;
                word += inside;
                after
            } else {
                word.push(c);
                behind
            };
        }
        all.push((start, word));
        rest = rest.trim_start();
    }
    Ok(all)
}

/// A file of `--am` or `--tune`.
#[derive(Clone, Debug)]
pub struct Profile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Profile {
    /// Finds and reads a file. A name without a `/` is searched for in the directories of `search`.
    pub fn open(name: &Path, search: &[PathBuf]) -> Result<Profile, ParamError> {
        let is_plain = name.components().count() == 1 && !name.is_absolute();
        let places: Vec<PathBuf> = match is_plain {
            true => search.iter().map(|directory| clean(directory.join(name))).collect(),
            false => vec![name.to_owned()],
        };
        for path in &places {
            match file::read(path) {
                Ok(Some(bytes)) => return Ok(Profile { path: path.clone(), bytes }),
                Ok(None) => {}
                Err(error) => return Err(failed(path, &error)),
            }
        }
        let searched: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        let text = match is_plain {
            true => format!("there is no such file; searched: {}", searched.join(", ")),
            false => "there is no such file".to_string(),
        };
        Err(ParamError::File { path: name.to_owned(), error: text })
    }

    /// A file with this path and content.
    pub fn of(path: &Path, bytes: &[u8]) -> Profile {
        Profile { path: path.to_owned(), bytes: bytes.to_vec() }
    }

    /// The variables that the file sets, in order. `own` returns `mpirun`'s value of a variable
    /// without a value. Wrong lines are skipped: [`Found::read_profile`] reports them.
    pub fn variables(&self, own: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
        let entries = lines(&self.bytes).filter_map(|(_, entries)| entries.ok()).flatten();
        entries
            .filter_map(|entry| match entry {
                ProfileEntry::Variable { name, value, .. } => {
                    value.or_else(|| own(&name)).map(|value| (name, value))
                }
                ProfileEntry::Parameter(_) => None,
            })
            .collect()
    }
}

impl Found {
    /// Takes the parameters of the file, which are stronger than the earlier values. Wrong lines
    /// become errors; after the first few they are only counted.
    pub fn read_profile(&mut self, profile: &Profile, own: impl Fn(&str) -> Option<String>) {
        let before = self.errors.len();
        for (line, entries) in lines(&profile.bytes) {
            let at =
                |column| Source::NamedFile(FileLine { path: profile.path.clone(), line, column });
            match entries {
                Err(Wrong { column, error }) => self.refuse(error, at(column)),
                Ok(entries) => entries.into_iter().for_each(|entry| match entry {
                    ProfileEntry::Parameter(one)
                        if self.is_for_absent(&one.name, &one.value, &at(one.columns.0)) => {}
                    ProfileEntry::Parameter(one) => self.assign(&one, &at),
                    ProfileEntry::Variable { name, value: None, column }
                        if own(&name).is_none() =>
                    {
                        self.refuse(LineError::Variable, at(column));
                    }
                    ProfileEntry::Variable { .. } => {}
                }),
            }
        }
        self.sum_up(before, &profile.path);
    }
}

fn clean(path: PathBuf) -> PathBuf {
    path.strip_prefix(".").map(Path::to_owned).unwrap_or(path)
}

fn failed(path: &Path, error: &io::Error) -> ParamError {
    ParamError::File { path: path.to_owned(), error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (Found, Vec<(String, String)>) {
        let profile = Profile::of(Path::new("set"), text.as_bytes());
        let own = |name: &str| (name == "SET").then(|| "yes".to_string());
        let mut found = Found::default();
        found.read_profile(&profile, own);
        (found, profile.variables(own))
    }

    #[test]
    fn lines_of_parameters_and_of_options_may_stand_beside_each_other() {
        let (found, variables) = found(
            "# both\nwait_yields = 3\n --mca wait_spin_us 5ms -ssi rpi tcp # end\n-x A=1 -x 'B=two words' -x SET -gmca \
             btl_tcp_if_include \"lo, eth0\"\n",
        );
        assert_eq!(found.errors, []);
        assert_eq!((found.params.wait_yields(), found.params.wait_spin_us()), (3, 5000));
        assert_eq!(found.params.btl_tcp_if_include(), "lo, eth0");
        let text = |name, value: &str| (String::from(name), value.to_string());
        assert_eq!(variables, [text("A", "1"), text("B", "two words"), text("SET", "yes")]);
        let source = found.params.source(crate::Param::find("rpi").unwrap());
        assert_eq!(source.to_string(), "file set:3");
    }

    #[test]
    fn what_is_wrong_is_named_with_line_and_column() {
        for (text, error) in [
            ("-n 4", "file set:1:1: this is none of the options"),
            ("--mca rpi", "file set:1:1: the option needs VALUE after it"),
            ("\n  -x", "file set:2:3: the option needs NAME=VALUE after it"),
            ("-x =1", "file set:1:4: -x needs a variable"),
            ("-x A=1 -x UNSET", "file set:1:11: -x needs a variable"),
            ("--mca rpi tcp mca rpi shm", "file set:1:15: this is none of the options"),
            ("--mca rpi 'tcp", "file set:1:11: the value starts with a quote"),
            ("--mca rpi tpc", "file set:1:11: parameter 'rpi': 'tpc' is not one of shm, tcp"),
            ("--mca rip tcp", "file set:1:7: there is no parameter 'rip' (did you mean 'rpi'?)"),
            ("rpi tcp", "file set:1:1: the line is not of the form"),
        ] {
            let (found, _) = found(text);
            assert_eq!(found.errors.len(), 1, "{text}");
            assert!(found.errors[0].to_string().starts_with(error), "{}", found.errors[0]);
        }
    }

    #[test]
    fn plain_names_are_searched_for_in_the_directories_of_sets() {
        let path = search_path(Some(OsStr::new("/home/me")), Some(Path::new("/opt")));
        assert_eq!(
            path,
            [".", "/home/me/.oxmpi/amca-param-sets", "/opt/share/oxmpi/amca-param-sets"]
                .map(PathBuf::from)
        );
        let error = Profile::open(Path::new("no-such-set"), &path).unwrap_err().to_string();
        assert_eq!(
            error,
            "parameter file no-such-set: there is no such file; searched: no-such-set, \
             /home/me/.oxmpi/amca-param-sets/no-such-set, /opt/share/oxmpi/amca-param-sets/no-such-set"
        );
        let error = Profile::open(Path::new("./no-such-set"), &path).unwrap_err().to_string();
        assert_eq!(error, "parameter file ./no-such-set: there is no such file");
    }
}
