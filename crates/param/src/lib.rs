//! Parameters, each defined once.
//!
//! A parameter has a name with its unit last (`shm_eager_limit_bytes`), a type, a default, limits
//! and a help text. All of these stand in the table in `registry.rs`, or for the parameters of a
//! transport in its folder ([`Module`]). Parsing, the getters of [`Params`], `oxmpi info --params`
//! and "did you mean" use this definition.
//!
//! Sources of values, strongest first ([`Source`]; `oxmpi info --params` shows the source of each):
//!
//! 1. the command line, `mpirun --mca NAME VALUE` (also `-ssi`, `--gmca`), which reaches the ranks
//!    as the environment variable `OXMPI_MCA_NAME`;
//! 2. files on the command line, `mpirun --am FILE,..` and `--tune FILE,..` ([`profile`]): the
//!    files of `--tune` first, and of each list the first file;
//! 3. `OXMPI_MCA_NAME` in the environment: an unknown name or a bad value is an error;
//! 4. `OMPI_MCA_NAME` in the environment, for known names (others are meant for Open MPI and are
//!    skipped);
//! 5. the user's file, `~/.oxmpi/mca-params.conf` ([`file`](mod@file));
//! 6. the file of the installation, `PREFIX/etc/oxmpi-mca-params.conf`;
//! 7. the default.
//!
//! `OXMPI_PARAM_FILES=FILE:FILE` replaces files 5 and 6, the strongest first; `none` means no file.
//! `mpirun` reads the files once and passes the values to the ranks in their environment.
//!
//! ```
//! use oxmpi_param::Params;
//!
//! let params = Params::from_vars([("OXMPI_MCA_shm_ring_slots", "256")])?;
//! assert_eq!(params.shm_ring_slots(), 256);
//! assert_eq!(params.shm_max_rings(), 16); // the default
//!
//! let error = Params::from_vars([("OXMPI_MCA_shm_ring_slot", "256")]).unwrap_err();
//! assert!(error.to_string().contains("did you mean 'shm_ring_slots'?"));
//! # Ok::<(), oxmpi_param::ParamError>(())
//! ```
#![forbid(unsafe_code)]

mod absent;
mod choices;
pub mod components;
mod definition;
pub mod file;
pub mod foreign;
mod load;
pub mod module;
pub mod nearest;
mod parse;
pub mod profile;
mod registry;
pub mod select;
mod source;
pub mod tuned;

pub use absent::{Absence, NoEffect, absence};
pub use choices::{Accelerator, Encrypt, InitialErrhandler, SingleCopy};
pub use definition::{ChangeRule, Level, Param, Value};
pub use load::{Found, Ignored};
pub use module::Module;
pub use parse::{ParamError, SWITCH_WORDS, Unit, bytes};
pub use registry::Params;
pub use select::modules::LEAST_SOCKET_BUFFERS;
pub use select::{Job, ModuleSelection, NodeCount, SelectError, ThreadLevel};
pub use source::{FileLine, Source};

use std::ffi::OsStr;
use std::path::Path;

/// The prefix of environment variables that set parameters.
pub const ENV_PREFIX: &str = "OXMPI_MCA_";
/// The prefix of Open MPI's environment variables, which are read for known names.
pub const FOREIGN_ENV_PREFIX: &str = "OMPI_MCA_";
/// The environment variable with the list of parameter files, or `none`.
pub const FILES_VARIABLE: &str = "OXMPI_PARAM_FILES";
/// The environment variable by which `mpirun` passes the sources of values to its ranks:
/// [`encode_sources`].
pub const SOURCES_VARIABLE: &str = "OXMPI_PARAM_SOURCES";
/// The user's parameter file, below the home directory.
pub const USER_FILE: &str = ".oxmpi/mca-params.conf";
/// The installation's parameter file, below its prefix.
pub const SYSTEM_FILE: &str = "etc/oxmpi-mca-params.conf";

/// Separators in [`SOURCES_VARIABLE`] that occur in no value: between the parts of an entry, and
/// between entries.
const PART: char = '\u{1f}';
const ENTRY: char = '\u{1e}';

/// Encodes names, values and sources for [`SOURCES_VARIABLE`].
pub fn encode_sources<'a>(all: impl Iterator<Item = (&'a str, &'a str, &'a Source)>) -> String {
    let entry =
        |(name, value, source): (&str, &str, &Source)| format!("{name}{PART}{value}{PART}{source}");
    all.map(entry).filter(|entry| entry.matches(PART).count() == 2 && !entry.contains(ENTRY)).fold(
        String::new(),
        |mut all, entry| {
            if !all.is_empty() {
                all.push(ENTRY);
            }
            all + &entry
        },
    )
}

/// The source of a value by [`SOURCES_VARIABLE`]; `None` if `mpirun` has not set this value.
pub(crate) fn decode_source(encoded: &str, name: &str, value: &str) -> Option<Source> {
    encoded.split(ENTRY).find_map(|entry| match entry.split(PART).collect::<Vec<_>>()[..] {
        [of, said, source] if of == name && said == value => {
            Some(Source::Launcher(source.to_string()))
        }
        _ => None,
    })
}

impl Params {
    /// Reads the parameters of this process from its environment and the files. `prefix` is the
    /// directory of the installation. Errors: an unknown name in a variable `OXMPI_MCA_x` or a
    /// file, a value that its parameter does not accept, an unreadable file.
    pub fn from_env(prefix: Option<&Path>) -> Result<Params, ParamError> {
        Found::gather(std::env::vars_os(), prefix).into_result()
    }

    /// [`Params::from_env`] with the given environment variables, as pairs of name and value.
    pub fn from_vars<K, V>(vars: impl IntoIterator<Item = (K, V)>) -> Result<Params, ParamError>
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        Found::gather(vars, None).into_result()
    }
}
