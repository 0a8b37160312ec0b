//! The last request of ranks that another launcher has started: they have finalized MPI, and end.
//!
//! The head may be in the PID namespace of its rank (in a container), and then ends with it. So the
//! ranks of its host are answered when all ranks have finalized MPI: no other rank loses the head
//! before.

use super::launcher::Launcher;

impl Launcher<'_> {
    pub(super) fn note_finished(&mut self, rank: u32) {
        if self.members.is_far(rank) || self.branches.is_empty() {
            return self.conclude(rank, Ok((0, String::new())));
        }
        self.members.note_finishing(rank);
        self.answer_finishing();
    }

    /// Answers the waiting ranks, if all ranks that run have finalized MPI.
    pub(super) fn answer_finishing(&mut self) {
        for rank in self.members.take_finishing(&self.host.ranks) {
            self.conclude(rank, Ok((0, String::new())));
        }
    }
}
