//! The command line and whole jobs, by the installed programs and library: one program, as each more would be linked anew.
//!
//! `jobs` has jobs that do not go well, `hosts` those on several hosts, `coverage` a call of each function, `fuzz_calls` drawn ones; the
//! other modules have the name of the command that they test.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

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
mod mpirun;
mod params;
mod shell;
#[path = "../support/mod.rs"]
mod support;
mod tune;
mod wrappers;

/// The heads of C tests, whose own test program has no room for tests of this kind.
#[path = "../c_programs"]
mod c_programs {
    mod head;
    #[allow(dead_code)] // its names alone are of use here
    mod transport_options;
}
