//! Thread levels.

use std::fmt;

/// How many threads of a process may call MPI (MPI-5.0 section 11.6), lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    Single,
    Funneled,
    Serialized,
    Multiple,
}

/// The environment variable that sets the thread level of a program, in place of the one that the
/// program requests. Also read with `OMPI_` in place of `OXMPI_`.
pub const LEVEL_VARIABLE: &str = "OXMPI_MPI_THREAD_LEVEL";
const FOREIGN_LEVEL_VARIABLE: &str = "OMPI_MPI_THREAD_LEVEL";

/// The error that the variable has no thread level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "environment variable {variable}: '{value}' is no thread level; it must be MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, \
     MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE, or 0, 1, 2 or 3"
)]
pub struct LevelError {
    pub variable: &'static str,
    pub value: String,
}

impl ThreadLevel {
    /// All levels, lowest first.
    pub const ALL: [ThreadLevel; 4] = [
        ThreadLevel::Single,
        ThreadLevel::Funneled,
        ThreadLevel::Serialized,
        ThreadLevel::Multiple,
    ];

    /// The next lower level.
    pub fn lower(self) -> Option<ThreadLevel> {
        ThreadLevel::ALL.into_iter().rfind(|level| *level < self)
    }

    /// The name of MPI's constant.
    pub fn name(self) -> &'static str {
        match self {
            ThreadLevel::Single => "MPI_THREAD_SINGLE",
            ThreadLevel::Funneled => "MPI_THREAD_FUNNELED",
            ThreadLevel::Serialized => "MPI_THREAD_SERIALIZED",
            ThreadLevel::Multiple => "MPI_THREAD_MULTIPLE",
        }
    }

    /// Reads the level from the environment, with the variable that sets it: a name with or without
    /// `MPI_THREAD_`, or a number from 0 to 3.
    pub fn from_env() -> Result<Option<(ThreadLevel, &'static str)>, LevelError> {
        for variable in [LEVEL_VARIABLE, FOREIGN_LEVEL_VARIABLE] {
            let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else {
                continue;
            };
            let value = value.to_string_lossy();
            return match ThreadLevel::read(&value) {
                Some(level) => Ok(Some((level, variable))),
                None => Err(LevelError { variable, value: value.into_owned() }),
            };
        }
        Ok(None)
    }

    fn read(text: &str) -> Option<ThreadLevel> {
        let word = text.trim().to_ascii_uppercase();
        let short = word.strip_prefix("MPI_THREAD_").unwrap_or(&word);
        let named = |level: &ThreadLevel| level.name().strip_prefix("MPI_THREAD_") == Some(short);
        let place =
            |text: &str| text.parse::<usize>().ok().and_then(|n| ThreadLevel::ALL.get(n).copied());
        ThreadLevel::ALL.into_iter().find(named).or_else(|| place(short))
    }
}

impl fmt::Display for ThreadLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_by_name_and_number_and_nothing_else() {
        for (text, level) in [
            ("MPI_THREAD_SINGLE", ThreadLevel::Single),
            ("funneled", ThreadLevel::Funneled),
            (" 2 ", ThreadLevel::Serialized),
            ("mpi_thread_multiple", ThreadLevel::Multiple),
        ] {
            assert_eq!(ThreadLevel::read(text), Some(level), "{text}");
        }
        for text in ["", "4", "-1", "THREAD_SINGLE", "PLE", "SINGLE_"] {
            assert_eq!(ThreadLevel::read(text), None, "{text}");
        }
        assert_eq!(ThreadLevel::Single.lower(), None);
        assert_eq!(ThreadLevel::Multiple.lower(), Some(ThreadLevel::Serialized));
    }
}
