//! The fast path of a short collective. It takes one step. Its data are in the lines that announce
//! the step, or in a few lines of the pool that each poll prefetches. `moves` and `reductions` take
//! the same steps, so that the ranks of one call may take different paths.

mod uneven;

use super::limits;
use super::steps::Steps;
use crate::Process;
use crate::comm::Communicator;
use oxmpi_fabric::Fabric;
use oxmpi_mem::kernels::Kernel;
use oxmpi_objects::error::Result;
use oxmpi_plan::Collective;
use oxmpi_shm::control_section::{SHORT_BYTES, Stated};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ops::Range;

/// The fast path of the short collectives of a communicator ([`Process::short_collectives`]).
///
/// All data that a rank writes must be [short](ShortCollectives::has_room), and a block has at
/// least one byte. The result may overwrite the input unless a method excludes that.
#[derive(Debug)]
pub struct ShortCollectives<'a, F: Fabric> {
    process: &'a Process<F>,
    steps: Steps<'a, F>,
}

/// The ranks whose contributions a rank combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// `MPI_Allreduce`: all ranks.
    All,
    /// `MPI_Scan`: the ranks up to its own.
    Inclusive,
    /// `MPI_Exscan`: the ranks before its own.
    Exclusive,
}

impl<F: Fabric> Process<F> {
    /// The fast path of a communicator. `None` if this rank has not mapped its shared memory, or if
    /// a parameter selects other components.
    #[inline(always)]
    pub fn short_collectives<'a>(
        &'a self,
        comm: &'a Communicator,
    ) -> Option<ShortCollectives<'a, F>> {
        let control = comm.blocking.as_ref()?;
        let section = control.section.get()?.as_ref()?;
        let ranks = comm.team.size();
        let is_served = limits::serves(Collective::Barrier, ranks, 0)
            && limits::has_room(section.segment_bytes(), ranks)
            && !comm.team.is_revoked();
        if !is_served || self.needs_selection() {
            return None;
        }
        Some(ShortCollectives { process: self, steps: Steps::new(self, comm, control, section) })
    }
}

impl<F: Fabric> ShortCollectives<'_, F> {
    /// The number of ranks of the communicator.
    #[inline(always)]
    pub fn ranks(&self) -> u32 {
        self.steps.ranks
    }

    /// The rank of this process.
    #[inline(always)]
    pub fn rank(&self) -> u32 {
        self.steps.me
    }

    /// Whether this process is the rank `root`.
    #[inline(always)]
    pub fn is_root(&self, root: u32) -> bool {
        self.steps.me == root
    }

    /// Whether `blocks` blocks of `block` bytes are short enough, and a step has room for them.
    #[inline(always)]
    pub fn has_room(&self, block: usize, blocks: u32) -> bool {
        // After the first comparison both factors are too small for an overflow.
        block.wrapping_sub(1) < limits::SHORT_CALL_BYTES && {
            let all = block * blocks as usize;
            all <= SHORT_BYTES || all <= limits::SHORT_CALL_BYTES.min(self.steps.segment())
        }
    }

    #[inline(always)]
    fn begin(&self, collective: Collective, bytes: usize) -> u64 {
        self.steps.count(collective, bytes);
        self.steps.number(1)
    }

    #[inline(always)]
    fn end(&self) -> Result<()> {
        self.process.progress_after_served();
        Ok(())
    }

    /// `MPI_Barrier`.
    #[inline(always)]
    pub fn barrier(&self) -> Result<()> {
        let (s, step) = (&self.steps, self.begin(Collective::Barrier, 0));
        s.wait_until_free(step)?;
        s.publish(step, Stated::Nothing);
        self.see_all(step)?;
        s.finish(step);
        self.end()
    }

    /// `MPI_Bcast`.
    #[inline(always)]
    pub fn bcast(&self, root: u32, data: BytesMut<'_>) -> Result<()> {
        let len = data.len();
        let (s, step) = (&self.steps, self.begin(Collective::Bcast, len));
        if s.me == root {
            self.give(step, len, |to| data.as_bytes().copy_to(to))?;
        } else {
            s.see_data(root, step, len)?;
            s.section.read(root, step, len, |from| from.copy_to(data));
            s.finish(step);
            s.one_seen(step);
        }
        self.end()
    }

    /// `MPI_Gather` at a rank that is not the root.
    #[inline(always)]
    pub fn give_to_gather(&self, block: Bytes<'_>) -> Result<()> {
        let step = self.begin(Collective::Gather, block.len());
        self.give(step, block.len(), |to| block.copy_to(to))?;
        self.end()
    }

    /// `MPI_Gather` at the root. `block` is its own block, if the block is not in its place in
    /// `all`.
    #[inline(always)]
    pub fn gather(&self, block: Option<Bytes<'_>>, mut all: BytesMut<'_>) -> Result<()> {
        let s = &self.steps;
        let len = all.len() / s.ranks as usize;
        self.place_own(block, len, &mut all);
        let step = self.begin(Collective::Gather, len);
        self.read_all(step, len, &mut all)?;
        s.finish(step);
        s.all_seen(step);
        self.end()
    }

    /// `MPI_Allgather`. `block` is this rank's block, if the block is not in its place in `all`.
    #[inline(always)]
    pub fn allgather(&self, block: Option<Bytes<'_>>, mut all: BytesMut<'_>) -> Result<()> {
        let s = &self.steps;
        let len = all.len() / s.ranks as usize;
        self.place_own(block, len, &mut all);
        let step = self.begin(Collective::Allgather, len);
        s.wait_until_free(step)?;
        s.write(step, len, |to| all.as_bytes().slice(s.me as usize * len, len).copy_to(to));
        s.publish_to_all(step, len);
        self.read_all(step, len, &mut all)?;
        s.finish(step);
        s.all_seen(step);
        self.end()
    }

    /// `MPI_Scatter` at the root. `block` gets its own block; `None` leaves the block in `all`.
    #[inline(always)]
    pub fn scatter(&self, all: Bytes<'_>, block: Option<BytesMut<'_>>) -> Result<()> {
        let s = &self.steps;
        let len = all.len() / s.ranks as usize;
        let others = len * (s.ranks as usize - 1);
        let step = self.begin(Collective::Scatter, len);
        if s.is_short(others) {
            self.give(step, others, |to| self.spread(all, len, to))?;
        } else {
            s.wait_until_free(step)?;
            for rank in s.others() {
                let block = all.slice(rank as usize * len, len);
                s.section.write_part(rank, step, len, |to| block.copy_to(to));
            }
            s.publish_last(step, Stated::InPool(len));
        }
        if let Some(block) = block {
            all.slice(s.me as usize * len, len).copy_to(block);
        }
        self.end()
    }

    /// `MPI_Scatter` at a rank that is not the root.
    #[inline(always)]
    pub fn take_of_scatter(&self, root: u32, block: BytesMut<'_>) -> Result<()> {
        let len = block.len();
        let (s, step) = (&self.steps, self.begin(Collective::Scatter, len));
        if s.is_short(len * (s.ranks as usize - 1)) {
            s.see_data(root, step, len * (s.ranks as usize - 1))?;
            self.read_block(root, step, len, |from| from.copy_to(block));
        } else {
            s.see_own_part(root, step, len)?;
            s.read_own_part(step, len, |from| from.copy_to(block));
        }
        s.finish(step);
        s.one_seen(step);
        self.end()
    }

    /// `MPI_Alltoall`. In place, `given` and `all` are the same memory.
    #[inline(always)]
    pub fn alltoall(&self, given: Bytes<'_>, mut all: BytesMut<'_>) -> Result<()> {
        let s = &self.steps;
        let len = all.len() / s.ranks as usize;
        let own = s.me as usize * len;
        let step = self.begin(Collective::Alltoall, len);
        s.wait_until_free(step)?;
        s.write(step, len * (s.ranks as usize - 1), |to| self.spread(given, len, to));
        s.publish_to_all(step, len * (s.ranks as usize - 1));
        given.slice(own, len).copy_to(all.slice(own, len));
        for rank in s.others() {
            self.see_part(rank, step, len)?;
            self.read_block(rank, step, len, |from| {
                from.copy_to(all.slice(rank as usize * len, len))
            });
        }
        s.finish(step);
        s.all_seen(step);
        self.end()
    }

    /// `MPI_Reduce_scatter_block` of the blocks in `given`.
    #[inline(always)]
    pub fn reduce_scatter(
        &self,
        kernel: &Kernel,
        given: Bytes<'_>,
        result: BytesMut<'_>,
    ) -> Result<()> {
        let s = &self.steps;
        let len = result.len();
        let own = given.slice(s.me as usize * len, len);
        let step = self.begin(Collective::ReduceScatterBlock, len);
        s.wait_until_free(step)?;
        s.write(step, len * (s.ranks as usize - 1), |to| self.spread(given, len, to));
        s.publish_to_all(step, len * (s.ranks as usize - 1));
        self.combine(kernel, 0..s.ranks, own, result, |rank, take| {
            self.see_part(rank, step, len)?;
            self.read_block(rank, step, len, take);
            Ok(())
        })?;
        s.finish(step);
        s.all_seen(step);
        self.end()
    }

    /// `MPI_Reduce` at a rank that is not the root.
    #[inline(always)]
    pub fn give_to_reduce(&self, given: Bytes<'_>) -> Result<()> {
        let step = self.begin(Collective::Reduce, given.len());
        self.give(step, given.len(), |to| given.copy_to(to))?;
        self.end()
    }

    /// `MPI_Reduce` at the root.
    #[inline(always)]
    pub fn reduce(&self, kernel: &Kernel, given: Bytes<'_>, result: BytesMut<'_>) -> Result<()> {
        let s = &self.steps;
        let step = self.begin(Collective::Reduce, given.len());
        self.combine_whole(step, kernel, 0..s.ranks, given, result)?;
        s.finish(step);
        s.all_seen(step);
        self.end()
    }

    /// `MPI_Allreduce`, `MPI_Scan` or `MPI_Exscan`. The first rank of an exscan leaves `result`.
    #[inline(always)]
    pub fn prefix(
        &self,
        prefix: Prefix,
        kernel: &Kernel,
        given: Bytes<'_>,
        result: BytesMut<'_>,
    ) -> Result<()> {
        let s = &self.steps;
        let (collective, needed) = match prefix {
            Prefix::All => (Collective::Allreduce, 0..s.ranks),
            Prefix::Inclusive => (Collective::Scan, 0..s.me + 1),
            Prefix::Exclusive => (Collective::Exscan, 0..s.me),
        };
        let step = self.begin(collective, given.len());
        s.wait_until_free(step)?;
        s.write(step, given.len(), |to| given.copy_to(to));
        if needed.is_empty() {
            s.publish_last(step, s.stated_alone(given.len()));
            return self.end();
        }
        match prefix {
            Prefix::All => s.publish_to_all(step, given.len()),
            Prefix::Inclusive | Prefix::Exclusive => s.publish(step, s.stated_alone(given.len())),
        }
        let sees_all = prefix == Prefix::All || s.me == s.ranks - 1;
        self.combine_whole(step, kernel, needed, given, result)?;
        s.finish(step);
        if sees_all {
            s.all_seen(step);
        }
        self.end()
    }

    #[inline(always)]
    fn give(&self, step: u64, len: usize, fill: impl FnOnce(BytesMut<'_>)) -> Result<()> {
        let s = &self.steps;
        s.wait_until_free(step)?;
        s.write(step, len, fill);
        match s.is_short(len) {
            true => s.publish_last_in_line(step, s.bytes.get()),
            false => s.publish_last(step, Stated::InPool(s.bytes.get())),
        }
        Ok(())
    }

    #[inline(always)]
    fn see_all(&self, step: u64) -> Result<()> {
        for rank in self.steps.others() {
            self.steps.see(rank, step)?;
        }
        self.steps.all_seen(step);
        Ok(())
    }

    #[inline(always)]
    fn place_own(&self, block: Option<Bytes<'_>>, len: usize, all: &mut BytesMut<'_>) {
        if let Some(block) = block {
            block.copy_to(all.slice(self.steps.me as usize * len, len));
        }
    }

    #[inline(always)]
    fn read_all(&self, step: u64, len: usize, all: &mut BytesMut<'_>) -> Result<()> {
        let s = &self.steps;
        for rank in s.others() {
            s.see_data(rank, step, len)?;
            s.section
                .read(rank, step, len, |from| from.copy_to(all.slice(rank as usize * len, len)));
        }
        Ok(())
    }

    #[inline(always)]
    fn spread(&self, all: Bytes<'_>, len: usize, mut to: BytesMut<'_>) {
        for rank in self.steps.others() {
            let place = self.steps.place(self.steps.me, rank);
            all.slice(rank as usize * len, len).copy_to(to.slice(place * len, len));
        }
    }

    #[inline(always)]
    fn see_part(&self, rank: u32, step: u64, len: usize) -> Result<()> {
        self.steps.see_data(rank, step, len * (self.steps.ranks as usize - 1))
    }

    #[inline(always)]
    fn read_block(&self, rank: u32, step: u64, len: usize, take: impl FnOnce(Bytes<'_>)) {
        let (s, place) = (&self.steps, self.steps.place(rank, self.steps.me));
        s.section.read(rank, step, len * (s.ranks as usize - 1), |all| {
            take(all.slice(place * len, len))
        });
    }

    #[inline(always)]
    fn combine_whole(
        &self,
        step: u64,
        kernel: &Kernel,
        ranks: Range<u32>,
        given: Bytes<'_>,
        result: BytesMut<'_>,
    ) -> Result<()> {
        let (s, len) = (&self.steps, given.len());
        self.combine(kernel, ranks, given, result, |rank, take| {
            s.see_data(rank, step, len)?;
            s.section.read(rank, step, len, take);
            Ok(())
        })
    }

    /// Combines contributions in the order of the ranks. `read` shows another rank's contribution.
    #[inline(always)]
    fn combine(
        &self,
        kernel: &Kernel,
        ranks: Range<u32>,
        own: Bytes<'_>,
        mut result: BytesMut<'_>,
        read: impl Fn(u32, &mut dyn FnMut(Bytes<'_>)) -> Result<()>,
    ) -> Result<()> {
        let mut copy;
        // The result may overwrite this rank's contribution before the contribution is combined.
        let own = if self.steps.me > 0 && own.as_ptr() == result.as_bytes().as_ptr() {
            copy = [0_u8; limits::SHORT_CALL_BYTES];
            let copy = &mut copy[..own.len()];
            own.copy_to(BytesMut::from(&mut *copy));
            Bytes::from(&*copy)
        } else {
            own
        };
        for rank in ranks {
            let mut take = |part: Bytes<'_>| match rank {
                0 => part.copy_to(result.reborrow()),
                _ => kernel.apply(part, result.reborrow()),
            };
            if rank == self.steps.me {
                take(own);
            } else {
                read(rank, &mut take)?;
            }
        }
        Ok(())
    }
}
