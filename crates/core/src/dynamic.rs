//! Processes of other jobs (MPI-5.0 chapter 11): how a communicator with them comes to be.
//!
//! All processes of a launcher are numbered through, whichever job they belong to, so that messages, contexts and communicators
//! are between any of them as between those of one job. What differs is how they come to know of each other:
//!
//! - [`spawn`]: the root has the launcher start a job, which is told by the launcher who its parents are and how the
//!   intercommunicator between the two is called. Nobody waits for a message.
//! - [`meet`]: two roots go to a port. The launcher tells the second who the first is; the second tells the first, in a context
//!   that belongs to no communicator.
//! - [`join`]: two processes exchange over a socket of the program's who they are.
//!
//! Processes of another launcher have numbers of this one's as well, so that nothing else knows of them. But what is told to a
//! process that may be another launcher's is the [`ProcessName`] of a process, and the names of contexts begin with the
//! launcher's place (`Process::creator`).
//!
//! The launcher has to know which jobs are connected, as an abort ends those. `Foreign` tells it of each communicator that
//! has processes of other jobs.

pub mod join;
pub mod meet;
pub mod spawn;
pub mod wishes;

use crate::Communicator;
use crate::comm::from_group::hash_of;
use crate::comm::{InterShape, Name, Shape};
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_engine::RankMap;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_rt::universe::ProcessName;
use oxmpi_wire::ContextId;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Who is told of communicators with processes of other jobs.
pub trait Bonds: Send + Sync {
    /// This process has one, named `bond`, with these processes.
    fn bound(&self, bond: u64, members: &[u32]);
    /// It does not have it any more.
    fn released(&self, bond: u64);
    /// Whether nobody has it any more: all who had it have said so, or have ended.
    fn is_over(&self, bond: u64) -> bool;
    /// The launcher's place among those whose processes have to do with each other; 0 if this process has nothing to do with
    /// those of others.
    fn place(&self) -> u32;
    /// Sees that it can have to do with those.
    ///
    /// # Errors
    /// MPI_ERR_PORT if that cannot be.
    fn reach(&self) -> Result<()>;
    /// What processes are called by those of other launchers.
    ///
    /// # Errors
    /// MPI_ERR_PORT if the launcher does not know.
    fn names(&self, numbers: &[u32]) -> Result<Vec<ProcessName>>;
    /// Which numbers processes have here.
    ///
    /// # Errors
    /// MPI_ERR_PORT if one of them cannot be reached.
    fn numbers(&self, names: &[ProcessName]) -> Result<Vec<u32>>;
}

/// Which processes are of other jobs, and who is told of communicators with them.
pub(crate) struct Foreign {
    job: Range<u32>,
    pub(crate) bonds: Option<Arc<dyn Bonds>>,
    /// How many communicators there are with each process of another job.
    counts: HashMap<u32, u32>,
    /// How often this process has met others for one call, by what that was.
    meetings: HashMap<u32, u32>,
}

impl std::fmt::Debug for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Foreign").field("job", &self.job).finish_non_exhaustive()
    }
}

impl Foreign {
    /// Those that are not in `job` are of others.
    pub(crate) fn new(job: Range<u32>) -> Foreign {
        Foreign { job, bonds: None, counts: HashMap::new(), meetings: HashMap::new() }
    }

    /// How often this process has met others before for the same call.
    pub(crate) fn next_meeting(&mut self, call: u32) -> u32 {
        let count = self.meetings.entry(call).or_default();
        *count = count.wrapping_add(1);
        *count
    }

    /// The processes of other jobs in a communicator.
    fn of(&self, comm: &Communicator) -> Vec<u32> {
        match &comm.union().map {
            RankMap::Identity(n) if self.job.start == 0 && *n <= self.job.end => Vec::new(),
            map => map.processes().into_iter().filter(|process| !self.job.contains(process)).collect(),
        }
    }

    /// There is a new communicator. Returns the processes with which it is the first.
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

    /// A communicator is about to end. If it has processes of other jobs: those with which it was the last one.
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

/// What the root of a call has found out, or what went wrong there, for all of its communicator.
struct News {
    /// The first context of the new intercommunicator.
    id: u64,
    /// Whether the local group is its first.
    is_first: bool,
    /// The processes of the remote group.
    remote: Vec<u32>,
}

impl<F> Process<F> {
    /// Whether all these are of this process's job; as long as it knows nobody of another launcher it does not matter.
    pub(crate) fn are_near(&self, map: &RankMap) -> bool {
        let is_linked = self.bonds.as_ref().is_some_and(|bonds| bonds.place() != 0);
        let world = &self.meeting.team.map;
        !is_linked || map.processes().iter().all(|process| world.rank(*process).is_some())
    }
}

impl<F: Fabric> Process<F> {
    /// The process tells `bonds` of communicators with processes of other jobs. Its launcher's `universe` says from which number on
    /// it names contexts: another launcher that has the same place later begins elsewhere, so that what processes have not
    /// forgotten of the one is not taken for the other's.
    pub fn with_bonds(mut self, bonds: Arc<dyn Bonds>, universe: u64) -> Process<F> {
        self.domain.lock().foreign.bonds = Some(bonds.clone());
        *self.next_context.get_mut() += first_name(universe);
        self.bonds = Some(bonds);
        self
    }

    /// Who gives names to contexts, in their names: this process's number, and its launcher's place as soon as processes of
    /// others can be told of them.
    pub(crate) fn creator(&self) -> u32 {
        let place = self.bonds.as_ref().map_or(0, |bonds| bonds.place());
        place << NUMBER_BITS | self.rank()
    }

    /// Sees that processes of other launchers can have to do with this one.
    fn reach(&self) -> Result<()> {
        self.bonds.as_ref().map_or(Ok(()), |bonds| bonds.reach())
    }

    /// What distinguishes processes that are of several launchers, the same for all of them: not by the place of their launcher, which
    /// another one may have had before, or will have.
    pub(crate) fn identities(&self, processes: &[u32]) -> Result<Vec<(u64, u32)>> {
        let names = ProcessName::decode_all(&self.names_of(processes)?);
        Ok(names.iter().map(|name| (name.universe, name.number)).collect())
    }

    /// What processes are called, for others to read.
    pub(crate) fn names_of(&self, numbers: &[u32]) -> Result<Vec<u64>> {
        let names = match &self.bonds {
            Some(bonds) => bonds.names(numbers)?,
            None => {
                numbers.iter().map(|number| ProcessName { number: *number, ..ProcessName::NONE }).collect()
            }
        };
        Ok(ProcessName::encode_all(&names))
    }

    /// Which numbers the processes have here that others have named.
    pub(crate) fn numbers_of(&self, names: &[u64]) -> Result<Vec<u32>> {
        let names = ProcessName::decode_all(names);
        let Some(bonds) = &self.bonds else { return Ok(names.into_iter().map(|name| name.number).collect()) };
        let numbers = bonds.numbers(&names)?;
        // Those of one launcher are reached as ever.
        let own = bonds.names(&[self.rank()])?.first().map(|own| own.universe);
        if names.iter().any(|name| Some(name.universe) != own) {
            self.reach_foreign()?;
        }
        Ok(numbers)
    }

    /// Sees that processes of other launchers can be reached, and reach this one, which may share no memory with it.
    ///
    /// # Errors
    /// MPI_ERR_PORT if that cannot be.
    pub fn reach_foreign(&self) -> Result<()> {
        let unreachable = |why: String| MpiError::new(abi::MPI_ERR_PORT, why);
        let mut domain = self.domain.lock();
        let sleeps_on = domain.lane.fabric_mut().reach_foreign().map_err(unreachable)?;
        drop(domain);
        if let (Some(poller), Some(door)) = (sleeps_on, &self.door)
            && !door.sleep_on(poller)
        {
            let why = "this process sleeps on System V semaphores (rpi_sysv_semaphores), and cannot await messages over sockets at the \
                       same time: leave that parameter out";
            return Err(unreachable(why.to_string()));
        }
        Ok(())
    }

    /// Makes the intercommunicator of which the root knows. `news` is looked at there alone; what went wrong there goes wrong
    /// everywhere.
    fn make_known(
        &self,
        comm: &Communicator,
        root: u32,
        news: Result<News>,
        what: &str,
    ) -> Result<Communicator> {
        let is_root = comm.team.rank == root;
        let news = news.and_then(|news| Ok((self.names_of(&news.remote)?, news)));
        let (head, mut remote, error) = match news {
            Ok((names, News { id, is_first, .. })) => {
                (vec![0, id, u64::from(is_first), names.len() as u64], names, None)
            }
            Err(error) => (vec![u64::from(error.class().cast_unsigned()), 0, 0, 0], Vec::new(), Some(error)),
        };
        let head = self.words_of_root(comm, root, head)?;
        if let Some(error) = error.filter(|_| is_root) {
            return Err(error);
        }
        let [class, id, is_first, size] = head[..] else {
            return Err(MpiError::new(abi::MPI_ERR_INTERN, "a root's news is cut off"));
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
        self.domain.lock().open(Shape::Inter(shape), Name::of_inter(id), like.heritage())
    }
}

/// How many names of contexts the processes of a universe leave out: fewer than half of all.
fn first_name(universe: u64) -> u32 {
    hash_of(b"", [universe].into_iter()) >> 3
}

/// Bits of a process's number in the name of a context; the others are the launcher's place.
const NUMBER_BITS: u32 = 20;

/// What those who are not the root know at first: nothing.
fn nothing_known() -> Result<News> {
    Ok(News { id: 0, is_first: false, remote: Vec::new() })
}
