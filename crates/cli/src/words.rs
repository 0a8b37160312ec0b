//! The subcommands of `oxmpi`.

/// The words that a user may type first: for suggestions and for the completion of shells.
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
