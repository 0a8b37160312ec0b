//! The last request of ranks that another launcher has started: they have finalized MPI, and end.
//!
//! The head may be in the PID namespace of its rank (in a container), and then ends with it. So the
//! ranks of its host are answered when all ranks have finalized MPI: no other rank loses the head
//! before.

use super::launcher::Launcher;
use crate::job::MpiStage;

impl Launcher<'_> {
    pub(super) fn note_finished(&mut self, rank: u32) {
        if self.is_far(rank) || self.far.is_empty() {
            return self.conclude(rank, Ok((0, String::new())));
        }
        self.finishing.push(rank);
        self.answer_finishing();
    }

    /// Answers the waiting ranks, if all ranks that run have finalized MPI.
    pub(super) fn answer_finishing(&mut self) {
        let running = self.members.iter().filter(|(_, member)| member.running);
        let mut ranks = running.map(|(rank, _)| *rank);
        if self.finishing.is_empty()
            || ranks.any(|rank| self.glimpse(rank).stage != MpiStage::Finalized)
        {
            return;
        }
        for rank in std::mem::take(&mut self.finishing) {
            self.conclude(rank, Ok((0, String::new())));
        }
    }
}
