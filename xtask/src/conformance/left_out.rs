//! What is judged only when everything is (`--all`), and why.

/// A module of the suite that is left out, and the reason.
pub(super) struct LeftOut {
    pub(super) module: &'static str,
    pub(super) reason: &'static str,
}

const fn left_out(module: &'static str, reason: &'static str) -> LeftOut {
    LeftOut { module, reason }
}

/// Whole chapters of the standard that OxMPI does not have yet. A row goes when its chapter comes. MPI_T needs none: mpi4py
/// does not use it.
pub(super) const LEFT_OUT: [LeftOut; 4] = [
    left_out("test_rma", "windows"),
    left_out("test_rma_nb", "windows"),
    left_out("test_util_sync", "windows: counters and mutexes are made of them"),
    left_out("test_win", "windows"),
];
