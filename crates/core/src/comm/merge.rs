//! MPI_Intercomm_merge (MPI-5.0 section 7.6.2).

use super::name::Name;
use super::{CommShape, Communicator, taken};
use crate::Process;
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::{RankMap, RequestId};
use oxmpi_fabric::Fabric;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Shared};

/// An intercommunicator that is being merged.
#[derive(Debug)]
pub struct Merge {
    pub request: RequestId,
    entries: Owned<u64>,
    mine: Option<Name>,
}

const WORDS: usize = 1 + Name::WORDS;

impl<F: Fabric> Process<F> {
    /// An intracommunicator of both groups; the group with `high` comes last (MPI_Intercomm_merge).
    /// If both groups pass the same value, the first group comes first. Collective.
    pub fn merge(&self, comm: &Communicator, high: bool) -> Result<Communicator> {
        let merge = self.start_merge(comm, high)?;
        self.wait(merge.request)?;
        self.finish_merge(comm, merge)
    }

    /// Starts [`Process::merge`].
    pub fn start_merge(&self, comm: &Communicator, high: bool) -> Result<Merge> {
        comm.check_inter()?;
        let all = comm.union();
        // Only the first rank of a group can be the first rank of the result.
        let mine = if comm.team.rank == 0 { Some(self.new_name(all, false)?) } else { None };
        let mut entry = vec![u64::from(high)];
        entry.extend(mine.unwrap_or(Name::NONE).encode());
        let input = Owned::new(entry);
        let entries = Owned::new(vec![0u64; WORDS * all.size() as usize]);
        let buffers = Buffers { input: input.buf(), output: entries.buf(), element: None };
        let call = Call::Allgather { block: Shared(8 * WORDS), in_place: false };
        let at = (all, comm.next_tag());
        match self.start_in(at, call, buffers, Combine::Nothing, None, None) {
            Ok(request) => Ok(Merge { request, entries, mine }),
            Err(error) => {
                mine.into_iter().for_each(|name| self.release_name(name));
                Err(error)
            }
        }
    }

    /// Completes [`Process::start_merge`] after its request succeeded.
    pub fn finish_merge(&self, comm: &Communicator, merge: Merge) -> Result<Communicator> {
        let merged = taken(merge.entries).and_then(|words| merged(comm, &words));
        if let Some(mine) = merge.mine
            && !matches!(&merged, Ok((_, name)) if name.id == mine.id)
        {
            self.release_name(mine);
        }
        merged.map(|(shape, name)| self.domain.lock().open(shape, name, comm.heritage()))
    }
}

fn merged(comm: &Communicator, words: &[u64]) -> Result<(CommShape, Name)> {
    let all = comm.union();
    let (local, remote) = comm.sides();
    let (first, second) = if local.start == 0 { (local, remote) } else { (remote, local) };
    let is_high = |rank: u32| words.get(rank as usize * WORDS).is_some_and(|high| *high != 0);
    for (group, side) in [("first", &first), ("second", &second)] {
        if side.clone().any(|rank| is_high(rank) != is_high(side.start)) {
            let text = format!(
                "the processes of the {group} group do not all pass the same value of high"
            );
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
    }
    let turned = is_high(first.start) && !is_high(second.start);
    let order: Vec<u32> =
        if turned { second.chain(first).collect() } else { first.chain(second).collect() };
    let lost =
        || MpiError::new(abi::MPI_ERR_INTERN, "a rank of a merged communicator has no process");
    let leader = *order.first().ok_or_else(lost)? as usize;
    let rank = order.iter().position(|rank| *rank == all.rank).ok_or_else(lost)?;
    let processes: Option<Vec<u32>> = order.iter().map(|rank| all.map.process(*rank)).collect();
    let map = RankMap::new(processes.ok_or_else(lost)?);
    Ok((CommShape::Intra { map, rank: rank as u32 }, Name::decode(words, leader * WORDS + 1)))
}
