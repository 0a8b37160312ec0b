//! MPI_Comm_spawn (MPI-5.0 section 11.8).

use super::{RootResult, nothing_known};
use crate::comm::Communicator;
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_wire::ContextId;

/// The parents of a spawned job, which the root sends to the launcher.
#[derive(Debug)]
pub struct Parents {
    pub context: u64,
    pub processes: Vec<u32>,
}

/// The processes that the root has started.
#[derive(Debug)]
pub struct Children {
    pub first: u32,
    pub size: u32,
    /// MPI_SUCCESS or an error class for each requested process.
    pub codes: Vec<i32>,
}

/// The result of a spawn.
#[derive(Debug)]
pub struct Spawned {
    pub made: Result<Communicator>,
    /// The code of each requested process. Empty if the root has started nothing and does not know
    /// the number.
    pub codes: Vec<i32>,
}

impl<F: Fabric> Process<F> {
    /// Starts processes (MPI_Comm_spawn, MPI_Comm_spawn_multiple). Only the root calls `start`,
    /// whose error has the codes of the requested processes. Collective over `comm`.
    pub fn spawn(
        &self,
        comm: &Communicator,
        root: i32,
        start: impl FnOnce(Parents) -> std::result::Result<Children, (MpiError, Vec<i32>)>,
    ) -> Result<Spawned> {
        comm.check_intra()?;
        let root = comm.root(root)?;
        let (from_root, codes) = if comm.team.rank == root {
            self.start_children(comm, start)
        } else {
            (nothing_known(), Vec::new())
        };
        let codes_of_all = self.words_of_root(comm, root, vec![codes.len() as u64]);
        let codes_of_all = codes_of_all.and_then(|count| {
            let mut codes = codes;
            codes.resize(count.first().map_or(0, |count| *count as usize), 0);
            self.words_of_root(comm, root, codes)
        })?;
        Ok(Spawned { made: self.make_known(comm, root, from_root, "spawn"), codes: codes_of_all })
    }

    fn start_children(
        &self,
        comm: &Communicator,
        start: impl FnOnce(Parents) -> std::result::Result<Children, (MpiError, Vec<i32>)>,
    ) -> (Result<RootResult>, Vec<i32>) {
        let id = match self.new_context_ids(3) {
            Ok(id) => id.0,
            Err(error) => return (Err(error), Vec::new()),
        };
        match start(Parents { context: id, processes: comm.team.map.processes() }) {
            Ok(Children { first, size, codes }) => (
                Ok(RootResult { id, is_first: true, remote: (first..first + size).collect() }),
                codes,
            ),
            Err((error, codes)) => (Err(error), codes),
        }
    }

    /// The intercommunicator with the parents of this job (MPI_Comm_get_parent).
    pub fn parent_of(&self, parents: Parents) -> Communicator {
        let Parents { context, processes } = parents;
        let world = self.world();
        let local = (world.team.map.clone(), world.team.rank);
        let parent = self.open_inter(ContextId(context), local, processes, false, world);
        parent.set_name(b"MPI_COMM_PARENT");
        parent
    }
}

/// The error of a spawn that started nothing.
pub fn failed(why: String) -> MpiError {
    MpiError::new(abi::MPI_ERR_SPAWN, why)
}
