//! The command line and whole jobs, by the installed programs and library: one program, as each
//! more would be linked anew.
//!
//! `jobs` has jobs that fail, `hosts` jobs on several hosts, `coverage` a call of each function,
//! `fuzz_calls` random ones; each other module has the name of the command that it tests.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

mod allocation;
mod bench;
mod boot;
mod copy_costs;
mod coverage;
mod daemons;
mod doctor;
mod documents;
mod explain;
mod fuzz_calls;
mod hosts;
mod jobs;
mod launched_by;
mod mpirun;
mod params;
mod shell;
#[path = "../support/mod.rs"]
mod support;
mod tune;
mod wrappers;

/// The heads of C tests: the program `c_programs` has no room for tests of this kind.
#[path = "../c_programs"]
mod c_programs {
    mod head;
    #[allow(dead_code)] // only its names are used here
    mod transport_options;
}
