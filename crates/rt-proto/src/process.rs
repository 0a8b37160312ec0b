//! Facts about a rank's process that cross hosts.

use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// A singleton has ended: its launcher is not its parent, and has no exit status.
    Unknown,
    /// Another launcher has started the process, and alone gets its exit status.
    Unseen,
}

/// The progress of a rank's use of MPI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MpiStage {
    #[default]
    Untouched,
    Initialized,
    /// In MPI_Finalize, or in that of the last session.
    Finalizing,
    Finalized,
}

impl MpiStage {
    /// Whether the rank has called MPI_Init and not finished MPI_Finalize.
    pub fn is_inside(self) -> bool {
        matches!(self, MpiStage::Initialized | MpiStage::Finalizing)
    }
}

/// The binding of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bind {
    #[default]
    Split,
    None,
    Cores(usize),
    /// One processor for each rank, on different cores while any are left.
    HardwareThread,
    /// All cores of the package (socket) in which the rank's share begins.
    Package,
    /// All cores of the NUMA node in which the rank's share begins.
    Numa,
}
