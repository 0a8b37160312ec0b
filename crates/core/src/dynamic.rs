//! Communicators with processes of other jobs (MPI-5.0 chapter 11): [`spawn`], [`meet`], [`join`].
//!
//! A launcher numbers the processes of all its jobs in one sequence. So messages, contexts and
//! communicators work between jobs as within one. Processes of another launcher get numbers of this
//! launcher, too. A message that may go to another launcher's process has [`ProcessName`]s instead
//! of numbers. The names of contexts begin with the launcher's place (`Process::creator`).
//!
//! An abort ends all connected jobs. So `Foreign` reports each communicator with processes of other
//! jobs to the launcher.

pub mod join;
pub mod meet;
pub mod spawn;
pub mod spawn_info;

use crate::Communicator;
use crate::comm::from_group::hash_of;
use crate::comm::{CommShape, InterShape, Name};
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_engine::RankMap;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_rt_client::universe::ProcessName;
use oxmpi_wire::ContextId;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The launcher's view of communicators with processes of other jobs.
pub trait Bonds: Send + Sync {
    /// This process opened the communicator `bond` with these processes.
    fn bound(&self, bond: u64, members: &[u32]);
    /// This process closed the communicator `bond`.
    fn released(&self, bond: u64);
    /// Whether no process has the communicator `bond` any more: each has closed it or has ended.
    fn is_over(&self, bond: u64) -> bool;
    fn place(&self) -> u32;
    fn reach(&self) -> Result<()>;
    /// The names of processes for other launchers. Errors: MPI_ERR_PORT if the launcher does not
    /// know them.
    fn names(&self, numbers: &[u32]) -> Result<Vec<ProcessName>>;
    /// The numbers that processes have at this launcher. Errors: MPI_ERR_PORT if one cannot be
    /// reached.
    fn numbers(&self, names: &[ProcessName]) -> Result<Vec<u32>>;
}

pub(crate) struct Foreign {
    job: Range<u32>,
    pub(crate) bonds: Option<Arc<dyn Bonds>>,
    counts: HashMap<u32, u32>,
    meetings: HashMap<u32, u32>,
}

impl std::fmt::Debug for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Foreign").field("job", &self.job).finish_non_exhaustive()
    }
}

impl Foreign {
    pub(crate) fn new(job: Range<u32>) -> Foreign {
        Foreign { job, bonds: None, counts: HashMap::new(), meetings: HashMap::new() }
    }

    pub(crate) fn next_meeting(&mut self, call: u32) -> u32 {
        let count = self.meetings.entry(call).or_default();
        *count = count.wrapping_add(1);
        *count
    }

    fn of(&self, comm: &Communicator) -> Vec<u32> {
        match &comm.union().map {
            RankMap::Identity(n) if self.job.start == 0 && *n <= self.job.end => Vec::new(),
            map => {
                map.processes().into_iter().filter(|process| !self.job.contains(process)).collect()
            }
        }
    }

    /// Reports a communicator. Returns the processes that are in no other one of this process.
    pub(crate) fn bound(&mut self, comm: &Communicator) -> Vec<u32> {
        let mut others = self.of(comm);
        if others.is_empty() {
            return others;
        }
        if let Some(bonds) = &self.bonds {
            bonds.bound(comm.team.id.0, &comm.union().map.processes());
        }
        others.retain(|process| {
            let count = self.counts.entry(*process).or_default();
            *count += 1;
            *count == 1
        });
        others
    }

    /// Reports that a communicator will be freed. Returns `None` if it has no processes of other
    /// jobs; otherwise the processes that are in no other communicator of this process.
    pub(crate) fn released(&mut self, comm: &Communicator) -> Option<Vec<u32>> {
        let mut others = self.of(comm);
        if others.is_empty() {
            return None;
        }
        if let Some(bonds) = &self.bonds {
            bonds.released(comm.team.id.0);
        }
        others.retain(|process| match self.counts.get_mut(process) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => self.counts.remove(process).is_some(),
        });
        Some(others)
    }
}

struct RootResult {
    id: u64,
    is_first: bool,
    remote: Vec<u32>,
}

impl<F> Process<F> {
    /// Whether all these processes belong to this process's job.
    pub(crate) fn are_near(&self, map: &RankMap) -> bool {
        let is_linked = self.bonds.as_ref().is_some_and(|bonds| bonds.place() != 0);
        let world = &self.meeting.team.map;
        !is_linked || map.processes().iter().all(|process| world.rank(*process).is_some())
    }
}

impl<F: Fabric> Process<F> {
    /// Reports communicators with processes of other jobs to `bonds`. `universe` determines the
    /// first context name. So a later launcher with the same place draws other names, and peers do
    /// not mistake its contexts for old ones.
    pub fn with_bonds(mut self, bonds: Arc<dyn Bonds>, universe: u64) -> Process<F> {
        self.domain.lock().foreign.bonds = Some(bonds.clone());
        *self.next_context.get_mut() += first_name(universe);
        self.bonds = Some(bonds);
        self
    }

    /// The creator in the names of contexts: this process's number, and the launcher's place.
    pub(crate) fn creator(&self) -> u32 {
        let place = self.bonds.as_ref().map_or(0, |bonds| bonds.place());
        place << NUMBER_BITS | self.rank()
    }

    fn reach(&self) -> Result<()> {
        self.bonds.as_ref().map_or(Ok(()), |bonds| bonds.reach())
    }

    /// The identities of processes, equal at all launchers. They do not contain a launcher's place,
    /// since another launcher may have that place at another time.
    pub(crate) fn identities(&self, processes: &[u32]) -> Result<Vec<(u64, u32)>> {
        let names = ProcessName::decode_all(&self.names_of(processes)?);
        Ok(names.iter().map(|name| (name.universe, name.number)).collect())
    }

    pub(crate) fn names_of(&self, numbers: &[u32]) -> Result<Vec<u64>> {
        let names = match &self.bonds {
            Some(bonds) => bonds.names(numbers)?,
            None => numbers
                .iter()
                .map(|number| ProcessName { number: *number, ..ProcessName::NONE })
                .collect(),
        };
        Ok(ProcessName::encode_all(&names))
    }

    pub(crate) fn numbers_of(&self, names: &[u64]) -> Result<Vec<u32>> {
        let names = ProcessName::decode_all(names);
        let Some(bonds) = &self.bonds else {
            return Ok(names.into_iter().map(|name| name.number).collect());
        };
        let numbers = bonds.numbers(&names)?;
        let own = bonds.names(&[self.rank()])?.first().map(|own| own.universe);
        if names.iter().any(|name| Some(name.universe) != own) {
            self.reach_foreign()?;
        }
        Ok(numbers)
    }

    /// Makes processes of other launchers reachable. They may share no memory with this process.
    pub fn reach_foreign(&self) -> Result<()> {
        let unreachable = |why: String| MpiError::new(abi::MPI_ERR_PORT, why);
        let mut domain = self.domain.lock();
        let sleeps_on = domain.lane.fabric_mut().reach_foreign().map_err(unreachable)?;
        drop(domain);
        if let (Some(poller), Some(door)) = (sleeps_on, &self.door)
            && !door.sleep_on(poller)
        {
            let why = "this process sleeps on System V semaphores (rpi_sysv_semaphores) and cannot wait for messages over sockets at the \
                       same time: leave that parameter out";
            return Err(unreachable(why.to_string()));
        }
        Ok(())
    }

    /// Makes the intercommunicator that the root has arranged. Only the root reads `from_root`; an
    /// error there becomes the error of all ranks.
    fn make_known(
        &self,
        comm: &Communicator,
        root: u32,
        from_root: Result<RootResult>,
        what: &str,
    ) -> Result<Communicator> {
        let is_root = comm.team.rank == root;
        let from_root = from_root.and_then(|result| Ok((self.names_of(&result.remote)?, result)));
        let (head, mut remote, error) = match from_root {
            Ok((names, RootResult { id, is_first, .. })) => {
                (vec![0, id, u64::from(is_first), names.len() as u64], names, None)
            }
            Err(error) => {
                (vec![u64::from(error.class().cast_unsigned()), 0, 0, 0], Vec::new(), Some(error))
            }
        };
        let head = self.words_of_root(comm, root, head)?;
        if let Some(error) = error.filter(|_| is_root) {
            return Err(error);
        }
        let [class, id, is_first, size] = head[..] else {
            return Err(MpiError::new(abi::MPI_ERR_INTERN, "the words of the root are cut off"));
        };
        if class != 0 {
            let text = format!("the root, rank {root}, could not {what}");
            return Err(MpiError::new((class as u32).cast_signed(), text));
        }
        remote.resize(size as usize, 0);
        let remote = self.words_of_root(comm, root, remote)?;
        let remote = self.numbers_of(&remote)?;
        let local = comm.team.map.clone();
        Ok(self.open_inter(ContextId(id), (local, comm.team.rank), remote, is_first != 0, comm))
    }

    fn open_inter(
        &self,
        id: ContextId,
        (local, rank): (RankMap, u32),
        remote: Vec<u32>,
        is_first: bool,
        like: &Communicator,
    ) -> Communicator {
        let shape = InterShape { local, remote: RankMap::new(remote), rank, is_first };
        self.domain.lock().open(CommShape::Inter(shape), Name::of_inter(id), like.heritage())
    }
}

/// The number of context names that the processes of a universe skip, less than half of all names.
fn first_name(universe: u64) -> u32 {
    hash_of(b"", [universe].into_iter()) >> 3
}

/// The bits of a process's number in the name of a context; the rest is the launcher's place.
const NUMBER_BITS: u32 = 20;

/// The argument of [`Process::make_known`] at ranks other than the root.
fn nothing_known() -> Result<RootResult> {
    Ok(RootResult { id: 0, is_first: false, remote: Vec::new() })
}
