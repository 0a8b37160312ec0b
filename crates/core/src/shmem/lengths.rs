//! Ranks that call a collective with different lengths.
//!
//! A rank may read another length than its own in a first step (rule 14 of
//! `oxmpi_shm::control_section`). It then takes no data, and continues after the steps of the
//! giving ranks, so that the communicator stays usable. If it cannot know that all ranks do this,
//! it sets the team apart for good (rule 15).

use super::limits;
use super::steps::Steps;
use crate::errors::of_fault;
use oxmpi_abi::constants as abi;
use oxmpi_engine::Fault;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::MpiError;
use oxmpi_plan::Collective;
use oxmpi_shm::control_section::ControlSection;
use std::ops::Range;

/// The fault that ends a wait in a section whose team is set apart.
pub(super) fn fault_of_apart(section: &ControlSection) -> Option<Fault> {
    section.apart().map(|(longer, shorter)| fault_of_lengths(longer as usize, shorter as usize))
}

pub(super) fn fault_of_lengths(length: usize, own: usize) -> Fault {
    let (length, room) = (length as u64, own as u64);
    if length > room { Fault::Truncated { length, room } } else { Fault::Short { length, room } }
}

/// The length for messages, since ranks that wait may have called with different lengths.
pub(crate) fn length_of(collective: Collective, bytes: usize) -> String {
    use Collective::{
        Allgatherv, Allreduce, Alltoallv, Barrier, Bcast, Exscan, Gatherv, Neighbor, Reduce, Scan,
        Scatterv,
    };
    let of_what = match collective {
        // In these collectives no rank knows the lengths of the other ranks.
        Barrier | Gatherv | Scatterv | Allgatherv | Alltoallv | Neighbor => return String::new(),
        Bcast | Reduce | Allreduce | Scan | Exscan => "",
        _ => " a block",
    };
    format!(" of {bytes} byte{}{of_what}", if bytes == 1 { "" } else { "s" })
}

/// The ranks whose lengths this rank must read after the length of `rank` differed.
fn givers(collective: Collective, rank: u32, (me, ranks): (u32, u32)) -> Range<u32> {
    match collective {
        Collective::Bcast | Collective::Scatter => rank..rank + 1,
        Collective::Scan | Collective::Exscan => 0..me,
        _ => 0..ranks,
    }
}

/// The last step, from the last step `own` by this rank's length and the last steps `seen` by the
/// lengths that it has read. `Err` if another rank may compute another last step.
pub(super) fn agreed(
    collective: Collective,
    (me, ranks): (u32, u32),
    own: u64,
    seen: &[u64],
) -> Result<u64, u64> {
    use Collective::{Bcast, Exscan, Gather, Reduce, Scan, Scatter};
    let theirs = seen.iter().copied().max().unwrap_or(own);
    let are_all = |last| seen.iter().all(|other| *other == last);
    match collective {
        // The giving ranks read no lengths.
        Bcast | Scatter | Gather | Reduce if are_all(theirs) => Ok(theirs),
        // The first rank reads no lengths, and no rank reads the length of the last rank.
        Scan | Exscan if are_all(own) || (are_all(theirs) && me + 1 == ranks) => Ok(theirs),
        Bcast | Scatter | Gather | Reduce | Scan | Exscan => Err(own.max(theirs)),
        // Each rank reads all lengths.
        _ => Ok(own.max(theirs)),
    }
}

impl<F: Fabric> Steps<'_, F> {
    /// Ends a collective in which `rank` has stated another length; `before` is the step before it.
    #[cold]
    #[inline(never)]
    pub(super) fn end_apart(&self, rank: u32, before: u64, step: u64) -> MpiError {
        let (own, Some(collective)) = (self.bytes.get(), self.collective.get()) else {
            return of_fault(Fault::Operation);
        };
        let mut lasts = Vec::new();
        let mut wrong = None;
        for giver in
            givers(collective, rank, (self.me, self.ranks)).filter(|giver| *giver != self.me)
        {
            if let Err(error) = self.see(giver, step) {
                return error;
            }
            let length = self.section.stated_length(giver, step);
            match length.filter(|length| limits::serves(collective, self.ranks, *length)) {
                Some(length) => lasts.push(self.last_after(before, length)),
                None => return self.no_part(giver, before),
            }
            if giver == rank {
                wrong = length;
            }
        }
        let length = wrong.unwrap_or(own);
        let last =
            match agreed(collective, (self.me, self.ranks), self.last_after(before, own), &lasts) {
                Ok(last) => last,
                Err(last) => {
                    self.section.set_apart(length, own);
                    self.wake_all(!(1 << self.me));
                    last
                }
            };
        self.control.set_last(last);
        self.finish(last);
        different(collective, rank, length, own)
    }

    fn no_part(&self, rank: u32, before: u64) -> MpiError {
        self.finish(self.control.last_begun().max(before));
        let text = format!("rank {rank} has called another collective than this one");
        MpiError::new(abi::MPI_ERR_OTHER, text)
    }
}

pub(super) fn no_block(rank: u32) -> MpiError {
    let text = format!(
        "rank {rank} has called another collective, or sends fewer blocks than this rank expects"
    );
    MpiError::new(abi::MPI_ERR_OTHER, text)
}

fn different(collective: Collective, rank: u32, length: usize, own: usize) -> MpiError {
    let error = of_fault(fault_of_lengths(length, own));
    let text = format!(
        "{collective}: rank {rank} has called it{}, this one{}",
        length_of(collective, length),
        length_of(collective, own)
    );
    MpiError::new(error.class(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_continue_behind_the_steps_of_the_givers() {
        use Collective::{Allgather, Bcast, Gather, Scan};
        assert_eq!(agreed(Bcast, (1, 4), 1, &[16]), Ok(16));
        assert_eq!(agreed(Gather, (0, 4), 1, &[4, 4, 4]), Ok(4));
        assert_eq!(agreed(Gather, (0, 4), 1, &[4, 1, 4]), Err(4));
        assert_eq!(agreed(Allgather, (0, 4), 1, &[4, 1, 4]), Ok(4));
        assert_eq!(agreed(Scan, (3, 4), 2, &[1, 1, 1]), Ok(1));
        assert_eq!(agreed(Scan, (2, 4), 2, &[1, 1]), Err(2));
        assert_eq!(agreed(Scan, (2, 4), 1, &[1, 1]), Ok(1));
    }
}
