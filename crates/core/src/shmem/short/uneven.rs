//! The straight line of short calls for blocks of different lengths. It writes and reads what `edges` would, step by step alike.

use super::ShortWay;
use crate::errors::of_fault;
use crate::shmem::edges::{Found, find, lay_out};
use crate::shmem::limits;
use oxmpi_abi::constants as abi;
use oxmpi_engine::Fault;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::PlainBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Collective, Edge};
use oxmpi_shm::control_section::Stated;
use oxmpi_sys::bytes::Bytes;

impl<F: Fabric> ShortWay<'_, F> {
    /// Whether so many bytes for all others together are short enough, and all find their short blocks in shared memory.
    #[inline]
    pub fn has_room_for_uneven(&self, all: usize) -> bool {
        all <= limits::STRAIGHT && self.steps.room_along() >= 2 * limits::STRAIGHT * self.steps.ranks as usize
    }

    /// Begins a call of a collective in which no rank knows what the others give: its step, and the last one before.
    #[inline]
    fn begin_uneven(&self, collective: Collective) -> (u64, u64) {
        // Of which the messages take one, if there are any.
        self.steps.comm.next_tag();
        self.steps.count(collective, 0);
        self.steps.step_along()
    }

    /// Writes blocks for others.
    #[inline]
    fn give_uneven(
        &self,
        step: u64,
        blocks: impl Iterator<Item = (u32, PlainBuf)> + Clone,
    ) -> Result<Stated> {
        let s = &self.steps;
        let blocks = blocks.filter(|(_, block)| !block.is_empty());
        // Starts differ, so that no block is taken for the one before.
        let edges = blocks.clone().map(|(peer, block)| Edge { peer, start: peer as usize, len: block.len() });
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

    /// Takes a rank's block, which has at least one byte.
    #[inline]
    fn take_uneven(&self, rank: u32, step: u64, to: &PlainBuf) -> Result<()> {
        let s = &self.steps;
        s.section.fetch(rank, step, limits::STRAIGHT.min(s.segment()));
        s.see(rank, step)?;
        let len = s.section.stated_length(rank, step).filter(|len| *len <= s.room_along());
        let no_part = || {
            let text = format!("rank {rank} has called another collective than this one, or gives less");
            MpiError::new(abi::MPI_ERR_OTHER, text)
        };
        s.section.read(rank, step, len.ok_or_else(no_part)?, |all| {
            let room = to.len();
            match find(all, s.me, 0).ok_or_else(no_part)? {
                Found::At(start, len) if len <= room => {
                    all.slice(start, len).copy_to(to.bytes_mut().slice(0, len));
                    Ok(())
                }
                Found::At(_, len) => {
                    Err(of_fault(Fault::Truncated { length: len as u64, room: room as u64 }))
                }
                // Only what is longer goes by messages.
                Found::Message => Err(of_fault(Fault::Truncated { length: u64::MAX, room: room as u64 })),
            }
        })
    }

    /// `MPI_Gatherv`, of a rank that is not the root.
    ///
    /// # Errors
    /// See [`ShortWay`].
    #[inline]
    pub fn give_to_gatherv(&self, root: u32, block: PlainBuf) -> Result<()> {
        let (step, _) = self.begin_uneven(Collective::Gatherv);
        let stated = self.give_uneven(step, std::iter::once((root, block)))?;
        self.steps.publish_last(step, stated);
        self.end()
    }

    /// `MPI_Gatherv`, of the root: where the blocks of the others go.
    ///
    /// # Errors
    /// See [`ShortWay`].
    #[inline]
    pub fn gatherv(&self, place: impl Fn(u32) -> PlainBuf) -> Result<()> {
        let (step, before) = self.begin_uneven(Collective::Gatherv);
        self.take_all(step, before, place)
    }

    /// `MPI_Alltoallv`, not in place: what is for the others, and where their blocks go.
    ///
    /// # Errors
    /// See [`ShortWay`].
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

    /// Takes the blocks of all others.
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

    /// `MPI_Allgatherv`: the length of the longest block, this rank's block, and where all blocks go.
    ///
    /// # Errors
    /// See [`ShortWay`].
    #[inline]
    pub fn allgatherv(&self, longest: usize, own: PlainBuf, place: impl Fn(u32) -> PlainBuf) -> Result<()> {
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
