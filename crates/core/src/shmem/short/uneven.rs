//! The fast path of short calls with blocks of different lengths. It takes the same steps as
//! `edges`.

use super::ShortCollectives;
use crate::errors::of_fault;
use crate::shmem::edges::{FoundBlock, find, lay_out};
use crate::shmem::lengths::no_block;
use crate::shmem::limits;
use oxmpi_engine::Fault;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::PlainBuf;
use oxmpi_objects::error::Result;
use oxmpi_plan::{Collective, Edge};
use oxmpi_shm::control_section::Stated;
use oxmpi_sys::bytes::Bytes;

impl<F: Fabric> ShortCollectives<'_, F> {
    /// Whether the blocks for all other ranks are short enough; `all` is the sum of their bytes.
    #[inline]
    pub fn has_room_for_uneven(&self, all: usize) -> bool {
        all <= limits::SHORT_CALL_BYTES
            && self.steps.room_along() >= 2 * limits::SHORT_CALL_BYTES * self.steps.ranks as usize
    }

    #[inline]
    fn begin_uneven(&self, collective: Collective) -> (u64, u64) {
        // All ranks must take a tag, since `edges` takes one for messages.
        self.steps.comm.next_tag();
        self.steps.count(collective, 0);
        self.steps.step_along()
    }

    #[inline]
    fn give_uneven(
        &self,
        step: u64,
        blocks: impl Iterator<Item = (u32, PlainBuf)> + Clone,
    ) -> Result<Stated> {
        let s = &self.steps;
        let blocks = blocks.filter(|(_, block)| !block.is_empty());
        // Each block has another start, so that no two blocks count as the same data.
        let edges = blocks.clone().map(|(peer, block)| Edge {
            peer,
            start: peer as usize,
            len: block.len(),
        });
        let room = s.room_along();
        let len = lay_out(edges.clone(), room, |_, _, _, _| {});
        s.wait_until_free(step)?;
        s.write(step, len, |mut to| {
            let (mut count, mut given) = (0_u32, blocks);
            lay_out(edges, room, |at, word, start, _| {
                count = at as u32;
                Bytes::from(&word.to_ne_bytes()).copy_to(to.slice(4 * at, 4));
                if let (Some(start), Some((_, block))) = (start, given.next()) {
                    block.bytes().copy_to(to.slice(start, block.len()));
                }
            });
            Bytes::from(&count.to_ne_bytes()).copy_to(to.slice(0, 4));
        });
        Ok(Stated::of(len, s.is_short(len)))
    }

    #[inline]
    fn take_uneven(&self, rank: u32, step: u64, to: &PlainBuf) -> Result<()> {
        let s = &self.steps;
        s.section.fetch(rank, step, limits::SHORT_CALL_BYTES.min(s.segment()));
        s.see(rank, step)?;
        let len = s.section.stated_length(rank, step).filter(|len| *len <= s.room_along());
        s.section.read(rank, step, len.ok_or_else(|| no_block(rank))?, |all| {
            let room = to.len();
            match find(all, s.me, 0).ok_or_else(|| no_block(rank))? {
                FoundBlock::At(start, len) if len <= room => {
                    all.slice(start, len).copy_to(to.bytes_mut().slice(0, len));
                    Ok(())
                }
                FoundBlock::At(_, len) => {
                    Err(of_fault(Fault::Truncated { length: len as u64, room: room as u64 }))
                }
                // Only a block that is too long goes by a message.
                FoundBlock::Message => {
                    Err(of_fault(Fault::Truncated { length: u64::MAX, room: room as u64 }))
                }
            }
        })
    }

    /// `MPI_Gatherv` at a rank that is not the root.
    #[inline]
    pub fn give_to_gatherv(&self, root: u32, block: PlainBuf) -> Result<()> {
        let (step, _) = self.begin_uneven(Collective::Gatherv);
        let stated = self.give_uneven(step, std::iter::once((root, block)))?;
        self.steps.publish_last(step, stated);
        self.end()
    }

    /// `MPI_Gatherv` at the root. `place` gives the buffer for the block of each other rank.
    #[inline]
    pub fn gatherv(&self, place: impl Fn(u32) -> PlainBuf) -> Result<()> {
        let (step, before) = self.begin_uneven(Collective::Gatherv);
        self.take_all(step, before, place)
    }

    /// `MPI_Alltoallv`, not in place. `give` gives the blocks for the other ranks, `place` the
    /// buffers for theirs.
    #[inline]
    pub fn alltoallv(
        &self,
        give: impl Fn(u32) -> PlainBuf + Clone,
        place: impl Fn(u32) -> PlainBuf,
    ) -> Result<()> {
        let s = &self.steps;
        let (step, before) = self.begin_uneven(Collective::Alltoallv);
        let ranks = (s.me + 1..s.ranks).chain(0..s.me);
        let stated = self.give_uneven(step, ranks.map(move |rank| (rank, give(rank))))?;
        s.publish(step, stated);
        self.take_all(step, before, place)
    }

    #[inline]
    fn take_all(&self, step: u64, before: u64, place: impl Fn(u32) -> PlainBuf) -> Result<()> {
        let s = &self.steps;
        let (mut taken, mut wrong) = (0, Ok(()));
        for rank in s.others() {
            let to = place(rank);
            if !to.is_empty() {
                wrong = self.take_uneven(rank, step, &to).and(wrong);
                taken += 1;
            }
        }
        s.finish(step);
        if taken == s.ranks - 1 && wrong.is_ok() {
            s.all_seen(before + 1);
        }
        self.end().and(wrong)
    }

    /// `MPI_Allgatherv`: the length of the longest block, this rank's block, and all buffers.
    #[inline]
    pub fn allgatherv(
        &self,
        longest: usize,
        own: PlainBuf,
        place: impl Fn(u32) -> PlainBuf,
    ) -> Result<()> {
        let s = &self.steps;
        let step = self.begin(Collective::Allgatherv, longest);
        s.wait_until_free(step)?;
        s.write(step, longest, |mut to| own.bytes().copy_to(to.slice(0, own.len())));
        s.publish_to_all(step, longest);
        for rank in s.others() {
            s.see_data(rank, step, longest)?;
            s.section.read(rank, step, longest, |from| {
                let to = place(rank);
                from.slice(0, to.len()).copy_to(to.bytes_mut());
            });
        }
        s.finish(step);
        s.all_seen(step);
        self.end()
    }
}
