//! The first words of `oxmpi`.

/// All that a person may type first: what a misspelt word is compared with, and what a shell offers.
pub(crate) const WORDS: &[&str] = &[
    "info",
    "bench",
    "explain",
    "quiesce",
    "checkpoint",
    "restart",
    "tune",
    "uninstall",
    "doctor",
    "boot",
    "nodes",
    "exec",
    "halt",
    "man",
    "completions",
    "mpirun",
    "mpiexec",
    "mpicc",
    "mpicxx",
    "--help",
    "--version",
];
