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
pub(super) const LEFT_OUT: [LeftOut; 10] = [
    left_out("test_cco_pr_buf", "persistent collectives"),
    left_out("test_cco_pr_ngh_buf", "persistent collectives"),
    left_out("test_cco_pr_vec", "persistent collectives"),
    left_out("test_dynproc", "ports: open_port, connect, accept, join"),
    left_out("test_file", "files"),
    left_out("test_io", "files"),
    left_out("test_p2p_buf_part", "partitioned communication"),
    left_out("test_session", "sessions"),
    left_out("test_spawn", "spawning of processes"),
    left_out("test_util_pool", "spawning of processes: that is how pools get their workers"),
];
