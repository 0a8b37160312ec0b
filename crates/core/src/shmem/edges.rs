//! Collectives of one step: those with blocks of different lengths, and those of neighbourhoods.
//!
//! A rank knows only the lengths of the blocks that it sends and receives. So a rank writes a
//! *directory* for the step, and the blocks as far as room permits. The directory marks the other
//! blocks, which go by messages afterwards; the expected length does not matter.
//!
//! ```text
//! words of 32 bits    the number of blocks; for each block, in 8 bits its receiver, a bit if its
//!                     data are those of the block before, and in 23 bits its length, or BY_MESSAGE
//! then                the blocks, short ones at multiples of 8, the others at multiples of a line
//! ```
//!
//! Empty blocks have no entry. Several blocks for one rank are in the order of the call. An
//! MPI_Allgatherv goes piece by piece like an allgather, since all ranks know all lengths.

use super::lengths::no_block;
use super::moves::{give, unpack};
use super::steps::{CollectivePiece, ExchangeAction, Steps};
use super::{MappedSection, limits};
use crate::Process;
use crate::comm::Communicator;
use crate::errors::{of_fault, of_plan};
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Area, Memory};
use oxmpi_engine::Fault;
use oxmpi_fabric::Fabric;
use oxmpi_mem::memory::Scratch;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Blocks, Call, Collective, Edge, Edges, PlanError};
use oxmpi_shm::control_section::{MAX_RANKS, Stated};
use oxmpi_sys::bytes::{Bytes, BytesMut};

const BY_MESSAGE: u32 = MAX_LENGTH + 1;
const MAX_LENGTH: u32 = (1 << 23) - 2;
/// The bit for a block whose data are those of the block before.
const SAME: u32 = 1 << 23;
const RANK_SHIFT: u32 = 24;

/// Stands for the number of blocks if there is no directory: all blocks go by messages.
pub(super) const NO_DIRECTORY: u32 = u32::MAX;
/// In bytes. Blocks of at least this length begin at a cache line.
const LONG_BLOCK: usize = 64;

pub(crate) struct EdgeBlocks {
    collective: Collective,
    sends: Vec<Edge>,
    receives: Vec<Edge>,
    gives: bool,
    in_place: bool,
}

impl EdgeBlocks {
    pub(crate) fn of(call: &Call, me: u32) -> Option<EdgeBlocks> {
        let to_each = |blocks: &Blocks, with_own: bool| {
            let count = blocks.how_many() as u32;
            let edge = |peer: u32| {
                let (start, len) = (blocks.start(peer as usize), blocks.length(peer as usize));
                Edge { peer, start, len }
            };
            // From the next rank on, so that not all ranks begin with the same rank.
            let ranks = (me + 1..count).chain(0..me).chain(with_own.then_some(me));
            ranks.map(edge).collect::<Vec<_>>()
        };
        let one = |peer, len| vec![Edge { peer, start: 0, len }];
        let collective = call.collective();
        let (sends, receives, gives, in_place) = match call {
            Call::Gatherv { root, mine, all, in_place } => match all.get() {
                Some(all) if *in_place => (vec![], to_each(all, false), false, false),
                Some(all) => (one(me, mine.0), to_each(all, true), false, false),
                None => (one(*root, mine.0), vec![], true, false),
            },
            Call::Scatterv { root, mine, all, in_place } => match all.get() {
                Some(all) if *in_place => (to_each(all, false), vec![], true, false),
                Some(all) => (to_each(all, true), one(me, mine.0), true, false),
                None => (vec![], one(*root, mine.0), false, false),
            },
            Call::Alltoallv { send, receive, in_place } => {
                let send = if *in_place { receive } else { send };
                (to_each(&send.0, !in_place), to_each(&receive.0, !in_place), true, *in_place)
            }
            Call::Neighbor { edges } => {
                (edges.0.sends.to_vec(), edges.0.receives.to_vec(), true, false)
            }
            _ => return None,
        };
        Some(EdgeBlocks { collective, sends, receives, gives, in_place })
    }

    fn check_own(&self, me: u32) -> Result<()> {
        let own = |edges: &[Edge]| edges.iter().filter(|edge| edge.peer == me).count();
        let check = |sent: usize, received: usize| match sent == received {
            true => Ok(()),
            false => Err(of_plan(PlanError::OwnBlock { sent, received })),
        };
        check(own(&self.sends), own(&self.receives))?;
        self.own(me).try_for_each(|(sent, received)| check(sent.len, received.len))
    }

    fn own(&self, me: u32) -> impl Iterator<Item = (&Edge, &Edge)> {
        let own = move |edge: &&Edge| edge.peer == me;
        self.sends.iter().filter(own).zip(self.receives.iter().filter(own))
    }

    fn sent(&self, me: u32) -> impl Iterator<Item = Edge> + Clone {
        self.sends.iter().filter(move |edge| edge.peer != me && edge.len > 0).copied()
    }

    fn received(&self, me: u32) -> impl Iterator<Item = &Edge> + Clone {
        self.receives.iter().filter(move |edge| edge.peer != me && edge.len > 0)
    }
}

fn place(end: usize, len: usize) -> usize {
    end.next_multiple_of(if len < LONG_BLOCK { 8 } else { 64 })
}

/// Lays out the blocks. `show` gets for each block its index, its word of the directory and its
/// offset. The offset is `None` without room, and 0 for the data of the block before. Returns the
/// bytes of the directory and the blocks.
#[inline]
pub(super) fn lay_out(
    blocks: impl Iterator<Item = Edge> + Clone,
    room: usize,
    mut show: impl FnMut(usize, u32, Option<usize>, Edge),
) -> usize {
    let mut end = 4 * (blocks.clone().count() + 1);
    if end > room {
        // Even the directory has no room.
        blocks.for_each(|block| show(0, NO_DIRECTORY, None, block));
        return 4;
    }
    // A rank that expects only short blocks posts no receives, so short blocks have room first.
    let reserved = |len: usize| {
        if len <= limits::SHORT_CALL_BYTES { len.next_multiple_of(64) + 64 } else { 0 }
    };
    let mut reserve: usize = blocks.clone().map(|block| reserved(block.len)).sum();
    let mut last = None;
    for (at, block) in (1..).zip(blocks) {
        reserve -= reserved(block.len);
        let (start, len) = (place(end, block.len), block.len);
        let (what, written) = if last == Some((block.start, len)) {
            (SAME | len as u32, Some(0))
        } else if len <= MAX_LENGTH as usize
            && start <= room
            && len + (if len > limits::SHORT_CALL_BYTES { reserve } else { 0 }) <= room - start
        {
            (end, last) = (start + len, Some((block.start, len)));
            (len as u32, Some(start))
        } else {
            (BY_MESSAGE, None)
        };
        show(at, block.peer << RANK_SHIFT | what, written, block);
    }
    end
}

fn write(
    blocks: impl Iterator<Item = Edge> + Clone,
    (room, area): (usize, &Area),
    past_caches: impl Fn(usize) -> bool,
    mut to: BytesMut<'_>,
    messages: &mut Vec<Edge>,
) {
    let mut count = 0;
    lay_out(blocks, room, |at, word, start, block| {
        count = if at == 0 { NO_DIRECTORY } else { at as u32 };
        if at > 0 {
            Bytes::from(&word.to_ne_bytes()).copy_to(to.slice(4 * at, 4));
        }
        match start {
            None => messages.push(block),
            Some(0) => {}
            Some(mut begin) => area.each_part(block.start, block.len, |buffer, from, len| {
                let to = to.slice(begin, len);
                match buffer.as_contiguous() {
                    Some(bytes) => give(bytes.slice(from, len), to, past_caches(len)),
                    None => buffer.pack(from, to),
                }
                begin += len;
            }),
        }
    });
    Bytes::from(&count.to_ne_bytes()).copy_to(to.slice(0, 4));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundBlock {
    At(usize, usize),
    Message,
}

/// The `nth` block for rank `me`; `None` if there is none or the directory is not valid.
pub(super) fn find(all: Bytes<'_>, me: u32, nth: u16) -> Option<FoundBlock> {
    let word = |at: usize| {
        let mut bytes = [0; 4];
        (4 * at + 4 <= all.len())
            .then(|| all.slice(4 * at, 4).copy_to(BytesMut::from(&mut bytes[..])))?;
        Some(u32::from_ne_bytes(bytes))
    };
    let count = word(0)?;
    if count == NO_DIRECTORY {
        return Some(FoundBlock::Message);
    }
    let (mut end, mut last, mut passed) = (4 * (count as usize).checked_add(1)?, None, 0);
    for at in 1..=count as usize {
        let word = word(at)?;
        let (peer, what) = (word >> RANK_SHIFT, word & (SAME - 1));
        let found = if what == BY_MESSAGE {
            FoundBlock::Message
        } else {
            let len = what as usize;
            let start = match last {
                Some(start) if word & SAME != 0 => start,
                _ => place(end, len),
            };
            (end, last) = (end.max(start + len), Some(start));
            FoundBlock::At(start, len)
        };
        if peer == me {
            if passed == nth {
                let is_inside = |found| match found {
                    FoundBlock::At(start, len) => start + len <= all.len(),
                    FoundBlock::Message => true,
                };
                return Some(found).filter(|found| is_inside(*found));
            }
            passed += 1;
        }
    }
    None
}

impl<F: Fabric> Steps<'_, F> {
    /// The number of segments of such a collective (rule 11). With more ranks than processors a
    /// message costs more than the wait for a free segment.
    fn width_along(&self) -> u64 {
        let segments = self.section.segments();
        let gives_many = self.collective.get() != Some(Collective::Gatherv);
        let width = if self.control.is_oversubscribed && gives_many { segments / 2 } else { 2 };
        if width > 0 && segments.is_multiple_of(width) { width } else { 1 }
    }

    pub(super) fn step_along(&self) -> (u64, u64) {
        let (before, width) = (self.control.last_begun(), self.width_along());
        // The steps of a collective do not cross the end of a lap.
        let step = (before + 1).next_multiple_of(width) + width - 1;
        self.control.set_last(step);
        (step, before)
    }

    pub(super) fn room_along(&self) -> usize {
        self.width_along() as usize * self.segment()
    }

    /// `sends` and `receives` get the blocks for messages. The inner error is one in the lengths.
    fn along(
        &self,
        along: &EdgeBlocks,
        (input, output): (&Area, &Area),
        (sends, receives): (&mut Vec<Edge>, &mut Vec<Edge>),
    ) -> Result<Result<()>> {
        let (step, before) = self.step_along();
        let room = self.room_along();
        if along.gives {
            let given = along.sent(self.me);
            let len = lay_out(given.clone(), room, |_, _, _, _| {});
            self.wait_until_free(step)?;
            self.write(step, len, |to| {
                write(given, (room, input), |len| self.goes_past_caches(len), to, sends);
            });
            let stated = Stated::of(len, self.is_short(len));
            if along.received(self.me).next().is_none() {
                self.publish_last(step, stated);
            } else {
                self.publish(step, stated);
            }
        }
        for (from, to) in along.own(self.me) {
            output.copy_from(to.start, input, from.start, from.len);
        }
        let (mut taken, mut seen, mut wrong) = ([0_u16; MAX_RANKS as usize], 0_u64, Ok(()));
        for edge in along.received(self.me) {
            self.see(edge.peer, step)?;
            seen |= 1 << (edge.peer % MAX_RANKS);
            let nth = &mut taken[edge.peer as usize % MAX_RANKS as usize];
            match self.take_along(step, edge, *nth, output) {
                Ok(FoundBlock::Message) => receives.push(*edge),
                Ok(FoundBlock::At(..)) => {}
                Err(error) => wrong = Err(error),
            }
            *nth += 1;
        }
        self.finish(step);
        if seen.count_ones() == self.ranks - 1 {
            self.all_seen(before + 1);
        }
        Ok(wrong)
    }

    fn take_along(&self, step: u64, edge: &Edge, nth: u16, output: &Area) -> Result<FoundBlock> {
        let len =
            self.section.stated_length(edge.peer, step).filter(|len| *len <= self.room_along());
        self.section.read(edge.peer, step, len.ok_or_else(|| no_block(edge.peer))?, |all| {
            let found = find(all, self.me, nth).ok_or_else(|| no_block(edge.peer))?;
            if let FoundBlock::At(start, len) = found {
                let mut at = start;
                output.each_part(edge.start, len.min(edge.len), |buffer, to, len| {
                    unpack(buffer, to, all.slice(at, len));
                    at += len;
                });
                if len > edge.len {
                    let fault = Fault::Truncated { length: len as u64, room: edge.len as u64 };
                    return Err(of_fault(fault));
                }
            }
            Ok(found)
        })
    }

    fn allgatherv(
        &self,
        blocks: &Blocks,
        in_place: bool,
        (input, output): (&Area, &Area),
    ) -> Result<()> {
        let own = (blocks.start(self.me as usize), blocks.length(self.me as usize));
        let pieces = self.pieces_of(blocks.longest());
        // A block may be shorter than the longest one: the bytes of a piece that are in the block.
        let part = |len: usize, piece: CollectivePiece| len.saturating_sub(piece.at).min(piece.len);
        let (from, start) = if in_place { (output, own.0) } else { (input, 0) };
        self.exchange(&pieces, |action, piece| {
            let CollectivePiece { step, at, len, .. } = piece;
            match action {
                ExchangeAction::Write => self.write(step, len, |mut to| {
                    let mut done = 0;
                    from.each_part(start + at, part(own.1, piece), |buffer, from, len| {
                        buffer.pack(from, to.slice(done, len));
                        done += len;
                    });
                }),
                ExchangeAction::CopyOwn if in_place => {}
                ExchangeAction::CopyOwn => {
                    output.copy_from(own.0 + at, input, at, part(own.1, piece))
                }
                ExchangeAction::Read => {
                    for rank in self.others() {
                        self.see_piece(rank, &pieces, piece, len)?;
                        let (start, all) =
                            (blocks.start(rank as usize), blocks.length(rank as usize));
                        self.section.read(rank, step, len, |from| {
                            let mut done = 0;
                            output.each_part(start + at, part(all, piece), |buffer, to, len| {
                                unpack(buffer, to, from.slice(done, len));
                                done += len;
                            });
                        });
                    }
                }
            }
            Ok(())
        })?;
        self.all_seen(pieces.first);
        Ok(())
    }
}

/// Whether shared memory serves the call. All ranks get the same answer.
pub(crate) fn is_served(comm: &Communicator, call: &Call) -> bool {
    let bytes = match call {
        Call::Allgatherv { blocks, .. } => blocks.0.longest(),
        Call::Gatherv { .. }
        | Call::Scatterv { .. }
        | Call::Alltoallv { .. }
        | Call::Neighbor { .. } => 0,
        _ => return false,
    };
    comm.blocking.is_some() && limits::serves(call.collective(), comm.team.size(), bytes)
}

impl<F: Fabric> Process<F> {
    pub(crate) fn execute_along(
        &self,
        comm: &Communicator,
        call: &Call,
        memory: &Memory,
        MappedSection { control, section }: MappedSection<'_>,
    ) -> Result<()> {
        if comm.team.is_revoked() {
            return Err(of_fault(Fault::Revoked));
        }
        let steps = Steps::new(self, comm, control, section);
        let (input, output) = (&memory.input, &memory.output);
        if let Call::Allgatherv { blocks, in_place } = call {
            steps.count(Collective::Allgatherv, blocks.0.longest());
            steps.allgatherv(&blocks.0, *in_place, (input, output))?;
            self.progress_after_served();
            return Ok(());
        }
        let Some(along) = EdgeBlocks::of(call, comm.team.rank) else { return Ok(()) };
        along.check_own(comm.team.rank)?;
        let tag = comm.next_tag();
        steps.count(along.collective, 0);
        let given = if along.in_place { output } else { input };
        // A later block may replace data in place while their message is still under way.
        let copy = match along.in_place && given.packed_len() > steps.segment() / 2 {
            true => Some(packed(given)?),
            false => None,
        };
        let given = copy.as_ref().unwrap_or(given);
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        let lengths = steps.along(&along, (given, output), (&mut sends, &mut receives))?;
        if sends.is_empty() && receives.is_empty() {
            self.progress_after_served();
            return lengths;
        }
        let edges = Edges::new(sends, receives);
        let memory = Memory { input: given.clone(), output: output.clone(), element: None };
        lengths.and(self.execute_messages(comm, tag, edges, memory))
    }
}

fn packed(area: &Area) -> Result<Area> {
    let room = Scratch::bytes(area.packed_len())
        .map_err(|error| MpiError::new(abi::MPI_ERR_NO_MEM, error.to_string()))?;
    let copy = Area::from(room.buf().clone());
    copy.copy_from(0, area, 0, area.packed_len());
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_mem::memory::Owned;

    fn edge(peer: u32, start: usize, len: usize) -> Edge {
        Edge { peer, start, len }
    }

    /// The written bytes, out of memory with the bytes 0, 1, 2..., and the blocks for messages.
    fn written(blocks: &[Edge], room: usize) -> (Vec<u8>, Vec<Edge>) {
        let memory = Owned::new((0..=255).collect::<Vec<u8>>());
        let len = lay_out(blocks.iter().copied(), room, |_, _, _, _| {});
        assert!(len <= room.max(4));
        let (mut bytes, mut messages) = (vec![0; len], Vec::new());
        let area = memory.buf().into();
        write(
            blocks.iter().copied(),
            (room, &area),
            |_| false,
            BytesMut::from(&mut bytes[..]),
            &mut messages,
        );
        (bytes, messages)
    }

    #[test]
    fn receivers_find_their_blocks_in_order() {
        let blocks =
            [edge(1, 10, 8), edge(2, 18, 70), edge(1, 100, 3), edge(3, 100, 3), edge(1, 0, 200)];
        let (bytes, messages) = written(&blocks, 256);
        assert_eq!(messages, [blocks[4]], "the last one has no room");
        let find = |me, nth| find(Bytes::from(&bytes[..]), me, nth);
        let data = |found| match found {
            Some(FoundBlock::At(start, len)) => bytes[start..start + len].to_vec(),
            _ => vec![],
        };
        assert_eq!(data(find(1, 0)), (10..18).collect::<Vec<u8>>());
        assert_eq!(data(find(2, 0)), (18..88).collect::<Vec<u8>>());
        assert_eq!(
            (data(find(1, 1)), data(find(3, 0))),
            (vec![100, 101, 102], vec![100, 101, 102])
        );
        assert_eq!(find(1, 1), find(3, 0), "the same bytes are written once");
        assert_eq!(find(1, 2), Some(FoundBlock::Message));
        assert_eq!((find(1, 3), find(0, 0)), (None, None));
    }

    #[test]
    fn four_short_blocks_ride_in_a_line() {
        let blocks: Vec<Edge> = (1..5).map(|peer| edge(peer, 8 * peer as usize, 8)).collect();
        assert_eq!(written(&blocks, 4096).0.len(), 56);
        assert_eq!(written(&[], 4096).0, [0; 4]);
    }

    #[test]
    fn without_room_for_the_directory_all_go_by_messages() {
        let blocks = [edge(1, 0, 1); 20];
        let (bytes, messages) = written(&blocks, 64);
        assert_eq!((messages.len(), bytes.len()), (20, 4));
        assert_eq!(find(Bytes::from(&bytes[..]), 1, 7), Some(FoundBlock::Message));
    }

    #[test]
    fn invalid_directories_give_no_block_outside_of_the_data() {
        for count in [1_u32, 3, 1 << 20, u32::MAX - 1] {
            for word in [0, 1 << RANK_SHIFT | 40, 1 << RANK_SHIFT | MAX_LENGTH, SAME | 9, u32::MAX]
            {
                let bytes: Vec<u8> =
                    [count, word, word, word].iter().flat_map(|word| word.to_ne_bytes()).collect();
                for me in 0..2 {
                    if let Some(FoundBlock::At(start, len)) = find(Bytes::from(&bytes[..]), me, 0) {
                        assert!(start + len <= bytes.len());
                    }
                }
            }
        }
        assert_eq!(find(Bytes::empty(), 0, 0), None);
    }
}
