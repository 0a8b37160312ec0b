//! Parameters: the knobs of OxMPI, each defined once.
//!
//! A parameter has a name with its unit last (`shm_eager_limit_bytes`), a type, a default, limits and a help text.
//! All of that stands in one place, the table in `registry.rs`, or for the parameters of a transport the folder of that ([`Module`]);
//! parsing, the getters of [`Params`], `oxmpi info --params` and "did you mean" come from it.
//!
//! Where a value comes from, strongest first ([`Source`]; `oxmpi info --params` shows it for each):
//!
//! 1. the command line, `mpirun --mca NAME VALUE` (also `-ssi`, `--gmca`), which reaches the ranks as the environment
//!    variable `OXMPI_MCA_NAME`;
//! 2. files that the command line names, `mpirun --am FILE,..` and `--tune FILE,..` ([`profile`]): those of `--tune` first,
//!    and of each list the first file;
//! 3. `OXMPI_MCA_NAME` in the environment: an unknown name or a bad value is an error, because it is meant for us;
//! 4. `OMPI_MCA_NAME` in the environment, for the names that we know (others are meant for Open MPI and are skipped);
//! 5. the user's file, `~/.oxmpi/mca-params.conf` ([`file`](mod@file));
//! 6. the file of the installation, `PREFIX/etc/oxmpi-mca-params.conf`;
//! 7. the default.
//!
//! `OXMPI_PARAM_FILES=FILE:FILE` names files to read instead of those of 5 and 6, the strongest first; `none` reads no
//! file. `mpirun` reads the files once and hands what they say to the ranks in their environment.
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
pub use definition::{Change, Level, Param, Value};
pub use load::{Found, Ignored};
pub use module::Module;
pub use parse::{ParamError, SWITCH_WORDS, Unit};
pub use registry::Params;
pub use select::modules::LEAST_SOCKET_BUFFERS;
pub use select::{Decision, Job, NodeCount, SelectError, ThreadLevel};
pub use source::{FileLine, Source};

use std::ffi::OsStr;
use std::path::Path;

/// The prefix of environment variables that set our parameters.
pub const ENV_PREFIX: &str = "OXMPI_MCA_";
/// The prefix under which values set for Open MPI are read, when the name is one of ours.
pub const FOREIGN_ENV_PREFIX: &str = "OMPI_MCA_";
/// The environment variable that names parameter files, or is `none`.
pub const FILES_VARIABLE: &str = "OXMPI_PARAM_FILES";
/// The environment variable in which `mpirun` hands its ranks the sources of the values that it sets for them: [`told_sources`].
pub const SOURCES_VARIABLE: &str = "OXMPI_PARAM_SOURCES";
/// The user's parameter file, below the home directory.
pub const USER_FILE: &str = ".oxmpi/mca-params.conf";
/// The installation's parameter file, below its prefix.
pub const SYSTEM_FILE: &str = "etc/oxmpi-mca-params.conf";

/// Between the parts of an entry of [`SOURCES_VARIABLE`], and between entries: what stands in no value.
const PART: char = '\u{1f}';
const ENTRY: char = '\u{1e}';

/// The text of [`SOURCES_VARIABLE`] for these values: names, values as `mpirun` sets them, and sources.
pub fn told_sources<'a>(all: impl Iterator<Item = (&'a str, &'a str, &'a Source)>) -> String {
    let entry = |(name, value, source): (&str, &str, &Source)| format!("{name}{PART}{value}{PART}{source}");
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

/// Where a value comes from by [`SOURCES_VARIABLE`]; `None`: somebody else has said it, or changed it since.
pub(crate) fn told_source(told: &str, name: &str, value: &str) -> Option<Source> {
    told.split(ENTRY).find_map(|entry| match entry.split(PART).collect::<Vec<_>>()[..] {
        [of, said, source] if of == name && said == value => Some(Source::Launcher(source.to_string())),
        _ => None,
    })
}

impl Params {
    /// The parameters of this process, from its environment and the files. `prefix` is the directory of the
    /// installation, if there is one.
    ///
    /// # Errors
    /// A variable `OXMPI_MCA_x` or a line of a file whose name is unknown, a value that its parameter does not take, a
    /// file that cannot be read.
    pub fn from_env(prefix: Option<&Path>) -> Result<Params, ParamError> {
        Found::gather(std::env::vars_os(), prefix).into_result()
    }

    /// The parameters given by `vars`, pairs of an environment variable's name and value, and by the files that they
    /// lead to (`HOME`, `OXMPI_PARAM_FILES`).
    ///
    /// # Errors
    /// As [`Params::from_env`].
    pub fn from_vars<K, V>(vars: impl IntoIterator<Item = (K, V)>) -> Result<Params, ParamError>
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        Found::gather(vars, None).into_result()
    }
}
