//! Parameters: the knobs of OxMPI, each defined once.
//!
//! A parameter has a name with its unit last (`shm_eager_limit_bytes`), a type, a default, limits and a help text.
//! All of that stands in one place, the table in [`registry`]; parsing, the getters of [`Params`], `oxmpi info
//! --params` and "did you mean" come from it.
//!
//! Where a value comes from, strongest first:
//!
//! 1. `mpirun --mca NAME VALUE`, which reaches the ranks as the environment variable `OXMPI_MCA_NAME`;
//! 2. `OXMPI_MCA_NAME` in the environment: an unknown name or a bad value is an error, because it is meant for us;
//! 3. `OMPI_MCA_NAME` in the environment, for the names that we know (others are meant for Open MPI and are skipped);
//! 4. the default.
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

pub mod nearest;
mod parse;
pub mod registry;

pub use parse::{ParamError, Unit};
pub use registry::{InitialErrhandler, Level, Param, Params, SingleCopy};

use std::ffi::{OsStr, OsString};

/// The prefix of environment variables that set our parameters.
pub const ENV_PREFIX: &str = "OXMPI_MCA_";
/// The prefix under which values set for Open MPI are read, when the name is one of ours.
pub const FOREIGN_ENV_PREFIX: &str = "OMPI_MCA_";

impl Params {
    /// The parameters of this process, from its environment. One pass over the environment.
    ///
    /// # Errors
    /// A variable `OXMPI_MCA_x` whose name is unknown, or a value that its parameter does not take.
    pub fn from_env() -> Result<Params, ParamError> {
        Params::from_vars(std::env::vars_os())
    }

    /// The parameters given by `vars`, pairs of an environment variable's name and value.
    ///
    /// # Errors
    /// As [`Params::from_env`].
    pub fn from_vars<K, V>(vars: impl IntoIterator<Item = (K, V)>) -> Result<Params, ParamError>
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        let mut params = Params::default();
        let mut foreign: Vec<(OsString, OsString)> = Vec::new();
        let mut own: Vec<(OsString, OsString)> = Vec::new();
        for (key, value) in vars {
            let (key, value) = (key.as_ref(), value.as_ref());
            // Byte-wise: one look at each variable, almost all of which are somebody else's.
            let bytes = key.as_encoded_bytes();
            if bytes.starts_with(ENV_PREFIX.as_bytes()) {
                own.push((key.to_owned(), value.to_owned()));
            } else if bytes.starts_with(FOREIGN_ENV_PREFIX.as_bytes()) {
                foreign.push((key.to_owned(), value.to_owned()));
            }
        }
        for (key, value) in &foreign {
            let name = &key.to_string_lossy()[FOREIGN_ENV_PREFIX.len()..];
            if Param::find(name).is_some() {
                params.set(name, &value.to_string_lossy()).map_err(|e| e.in_variable(key))?;
            }
        }
        for (key, value) in &own {
            let name = &key.to_string_lossy()[ENV_PREFIX.len()..];
            params.set(name, &value.to_string_lossy()).map_err(|e| e.in_variable(key))?;
        }
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_variables_win_over_foreign_ones_in_any_order() {
        for swap in [false, true] {
            let mut vars = vec![("OXMPI_MCA_wait_spin_us", "7"), ("OMPI_MCA_wait_spin_us", "9")];
            if swap {
                vars.reverse();
            }
            assert_eq!(Params::from_vars(vars).unwrap().wait_spin_us(), 7);
        }
    }

    #[test]
    fn names_of_open_mpi_that_are_not_ours_are_skipped() {
        let params = Params::from_vars([("OMPI_MCA_btl", "self,vader"), ("PATH", "/bin")]).unwrap();
        assert_eq!(params, Params::default());
    }

    #[test]
    fn an_error_names_the_variable_and_the_value() {
        let e = Params::from_vars([("OMPI_MCA_shm_ring_slots", "many")]).unwrap_err().to_string();
        assert!(e.contains("OMPI_MCA_shm_ring_slots") && e.contains("'many'"), "{e}");
        let e = Params::from_vars([("OXMPI_MCA_single_cpoy", "on")]).unwrap_err().to_string();
        assert!(e.contains("did you mean 'single_copy'"), "{e}");
    }
}
