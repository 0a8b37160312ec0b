//! The straight line for short blocking collectives: one step in shared memory. It serves
//! contiguous buffers, predefined datatypes and operations, and groups that share memory. `None`
//! stands for the full path, which also reports wrong arguments.

use super::arguments::{BlockArgs, BlockTypes, NumberArray, ReductionArgs};
use crate::arguments::{BufferArgs, array, plain};
use crate::state::library::running;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Datatype};
use oxmpi_core::Communicator;
use oxmpi_core::shmem::short::{Prefix, ShortCollectives};
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::buffer::PlainBuf;
use oxmpi_mem::kernels::Kernel;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::Result;
use std::ffi::{c_int, c_void};

/// Runs a call on the communicator's straight line, if it has one.
#[inline(always)]
fn by_line(
    comm: Comm,
    run: impl FnOnce(&ShortCollectives<'_, Routes>) -> Option<Result<()>>,
) -> Option<Result<()>> {
    let process = &running()?.process;
    if comm == abi::MPI_COMM_WORLD {
        return run(&process.short_collectives(process.world())?);
    }
    by_line_of_user_comm(comm, run)
}

/// [`by_line`] for a communicator that the program has made.
#[inline(never)]
fn by_line_of_user_comm(
    comm: Comm,
    run: impl FnOnce(&ShortCollectives<'_, Routes>) -> Option<Result<()>>,
) -> Option<Result<()>> {
    let library = running()?;
    let comm = library.communicators.get(Handle::from_raw(comm as u64)).ok()?;
    let comm: &Communicator = &comm;
    run(&library.process.short_collectives(comm)?)
}

#[inline(always)]
fn memory(named: BufferArgs) -> Option<PlainBuf> {
    plain(named.address, named.count, named.datatype)
}

/// The memory of one block for each rank.
#[inline(always)]
fn blocks(named: BufferArgs, line: &ShortCollectives<'_, Routes>) -> Option<PlainBuf> {
    let count = named.count.checked_mul(i64::from(line.ranks()))?;
    memory(BufferArgs { count, ..named })
}

#[inline(always)]
fn rank(line: &ShortCollectives<'_, Routes>, root: c_int) -> Option<u32> {
    u32::try_from(root).ok().filter(|root| *root < line.ranks())
}

#[inline(always)]
pub(super) fn barrier(comm: Comm) -> Option<Result<()>> {
    by_line(comm, |line| Some(line.barrier()))
}

#[inline(always)]
pub(super) fn bcast(data: BufferArgs, root: c_int, comm: Comm) -> Option<Result<()>> {
    let data = memory(data)?;
    by_line(comm, |line| {
        let root = rank(line, root)?;
        line.has_room(data.len(), 1).then(|| line.bcast(root, data.bytes_mut()))
    })
}

/// This rank's block, unless it is in place, and the memory of all blocks.
#[inline(always)]
fn gathered(
    send: BufferArgs,
    receive: BufferArgs,
    line: &ShortCollectives<'_, Routes>,
) -> Option<(Option<PlainBuf>, PlainBuf)> {
    let all = blocks(receive, line)?;
    let block = memory(BufferArgs { address: all.start().cast(), ..receive })?.len();
    let own = match send.is_in_place() {
        true => None,
        false => Some(memory(send).filter(|own| own.len() == block)?),
    };
    line.has_room(block, 1).then_some((own, all))
}

#[inline(always)]
pub(super) fn gather(
    send: BufferArgs,
    receive: BufferArgs,
    root: c_int,
    comm: Comm,
) -> Option<Result<()>> {
    by_line(comm, |line| {
        if !line.is_root(rank(line, root)?) {
            let block = memory(send)?;
            return line.has_room(block.len(), 1).then(|| line.give_to_gather(block.bytes()));
        }
        let (own, all) = gathered(send, receive, line)?;
        Some(line.gather(own.as_ref().map(PlainBuf::bytes), all.bytes_mut()))
    })
}

#[inline(always)]
pub(super) fn allgather(send: BufferArgs, receive: BufferArgs, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |line| {
        let (own, all) = gathered(send, receive, line)?;
        Some(line.allgather(own.as_ref().map(PlainBuf::bytes), all.bytes_mut()))
    })
}

/// The memory of all blocks, and the bytes of one. A step must have room for the blocks of all
/// other ranks.
#[inline(always)]
fn spread(named: BufferArgs, line: &ShortCollectives<'_, Routes>) -> Option<(PlainBuf, usize)> {
    let all = blocks(named, line)?;
    let block = memory(BufferArgs { address: all.start().cast(), ..named })?.len();
    line.has_room(block, line.ranks() - 1).then_some((all, block))
}

#[inline(always)]
pub(super) fn scatter(
    send: BufferArgs,
    receive: BufferArgs,
    root: c_int,
    comm: Comm,
) -> Option<Result<()>> {
    by_line(comm, |line| {
        let root = rank(line, root)?;
        if !line.is_root(root) {
            let block = memory(receive)?;
            let has_room = line.has_room(block.len(), line.ranks() - 1);
            return has_room.then(|| line.take_of_scatter(root, block.bytes_mut()));
        }
        let (all, block) = spread(send, line)?;
        let own = match receive.is_in_place() {
            true => None,
            false => Some(memory(receive).filter(|own| own.len() == block)?),
        };
        Some(line.scatter(all.bytes(), own.as_ref().map(PlainBuf::bytes_mut)))
    })
}

#[inline(always)]
pub(super) fn alltoall(send: BufferArgs, receive: BufferArgs, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |line| {
        let (all, block) = spread(receive, line)?;
        let given = match send.is_in_place() {
            true => all,
            false => spread(send, line).filter(|given| given.1 == block)?.0,
        };
        Some(line.alltoall(given.bytes(), all.bytes_mut()))
    })
}

/// The kernel of a reduction and this rank's data.
#[inline(always)]
fn given(r: &ReductionArgs) -> Option<(&'static Kernel, PlainBuf)> {
    let kernel = running()?.kernels.known(r.op, r.datatype)?;
    let given = if r.send().is_in_place() { r.receive() } else { r.send() };
    Some((kernel, memory(given)?))
}

#[inline(always)]
pub(super) fn reduce(r: &ReductionArgs, root: c_int, comm: Comm) -> Option<Result<()>> {
    let (kernel, given) = given(r)?;
    by_line(comm, |line| {
        let root = rank(line, root)?;
        if !line.has_room(given.len(), 1) {
            return None;
        }
        if !line.is_root(root) {
            // MPI_IN_PLACE is allowed only at the root.
            return (!r.send().is_in_place()).then(|| line.give_to_reduce(given.bytes()));
        }
        Some(line.reduce(kernel, given.bytes(), memory(r.receive())?.bytes_mut()))
    })
}

#[inline(always)]
pub(super) fn prefix(r: &ReductionArgs, prefix: Prefix, comm: Comm) -> Option<Result<()>> {
    let (kernel, given) = given(r)?;
    by_line(comm, |line| {
        // Rank 0 of an exclusive prefix gets no result; its receive buffer is not read.
        let result = match prefix == Prefix::Exclusive && line.is_root(0) {
            true => PlainBuf::EMPTY,
            false => memory(r.receive())?,
        };
        let has_room = line.has_room(given.len(), 1);
        has_room.then(|| line.prefix(prefix, kernel, given.bytes(), result.bytes_mut()))
    })
}

#[inline(always)]
pub(super) fn reduce_scatter_block(r: &ReductionArgs, comm: Comm) -> Option<Result<()>> {
    let kernel = running()?.kernels.known(r.op, r.datatype)?;
    by_line(comm, |line| {
        let given = if r.send().is_in_place() { r.receive() } else { r.send() };
        let (given, _) = spread(given, line)?;
        Some(line.reduce_scatter(kernel, given.bytes(), memory(r.receive())?.bytes_mut()))
    })
}

/// Blocks of different lengths, of one predefined datatype.
#[derive(Clone, Copy)]
struct UnevenBlocks<'a> {
    address: *const c_void,
    counts: &'a [c_int],
    places: &'a [c_int],
    datatype: Datatype,
    /// In bytes.
    size: usize,
}

impl UnevenBlocks<'_> {
    #[inline(always)]
    fn of(named: &BlockArgs, ranks: u32) -> Option<Self> {
        let (NumberArray::Int(counts), NumberArray::Int(places), BlockTypes::One(datatype)) =
            (named.counts, named.displacements, named.types)
        else {
            return None;
        };
        let size = plain(named.address, 1, datatype)?.len();
        // SAFETY: the C program passes arrays with a number for each rank.
        let (counts, places) = unsafe {
            (array(counts, ranks as usize, "").ok()?, array(places, ranks as usize, "").ok()?)
        };
        Some(UnevenBlocks { address: named.address, counts, places, datatype, size })
    }

    #[inline(always)]
    fn block(&self, rank: u32) -> Option<PlainBuf> {
        let offset = (self.places[rank as usize] as isize).wrapping_mul(self.size as isize);
        plain(
            self.address.wrapping_byte_offset(offset),
            i64::from(self.counts[rank as usize]),
            self.datatype,
        )
    }

    /// Checks all blocks. Returns the sum of their lengths and the longest length, in bytes.
    #[inline(always)]
    fn lengths(&self) -> Option<(usize, usize)> {
        (0..self.counts.len() as u32).try_fold((0, 0), |(all, longest), rank| {
            let len = self.block(rank)?.len();
            Some((len.checked_add(all)?, len.max(longest)))
        })
    }

    /// A block after the check by [`UnevenBlocks::lengths`].
    #[inline(always)]
    fn bytes(&self, rank: u32) -> PlainBuf {
        self.block(rank).unwrap_or(PlainBuf::EMPTY)
    }
}

/// This rank's own block, which is `to` if in place. `None` if the lengths differ.
#[inline(always)]
fn place_own(send: BufferArgs, to: &PlainBuf) -> Option<PlainBuf> {
    if send.is_in_place() {
        return Some(*to);
    }
    memory(send).filter(|own| own.len() == to.len())
}

#[inline(always)]
pub(super) fn gatherv(
    send: BufferArgs,
    receive: &BlockArgs,
    root: c_int,
    comm: Comm,
) -> Option<Result<()>> {
    by_line(comm, |line| {
        let root = rank(line, root)?;
        if !line.is_root(root) {
            let block = memory(send)?;
            return line
                .has_room_for_uneven(block.len())
                .then(|| line.give_to_gatherv(root, block));
        }
        let all = UnevenBlocks::of(receive, line.ranks())?;
        let (_, longest) = all.lengths()?;
        let (to, room) = (all.bytes(root), line.has_room_for_uneven(longest));
        let own = place_own(send, &to).filter(|_| room)?;
        if !send.is_in_place() {
            own.bytes().copy_to(to.bytes_mut());
        }
        Some(line.gatherv(|rank| all.bytes(rank)))
    })
}

#[inline(always)]
pub(super) fn allgatherv(send: BufferArgs, receive: &BlockArgs, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |line| {
        let all = UnevenBlocks::of(receive, line.ranks())?;
        let (_, longest) = all.lengths()?;
        if !line.has_room(longest, 1) {
            return None;
        }
        let to = all.bytes(line.rank());
        let own = place_own(send, &to)?;
        if !send.is_in_place() {
            own.bytes().copy_to(to.bytes_mut());
        }
        Some(line.allgatherv(longest, own, |rank| all.bytes(rank)))
    })
}

#[inline(always)]
pub(super) fn alltoallv(send: &BlockArgs, receive: &BlockArgs, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |line| {
        let (given, all) =
            (UnevenBlocks::of(send, line.ranks())?, UnevenBlocks::of(receive, line.ranks())?);
        let ((sum, _), (_, longest)) = (given.lengths()?, all.lengths()?);
        if !line.has_room_for_uneven(sum) || !line.has_room_for_uneven(longest) {
            return None;
        }
        let (own, to) = (given.bytes(line.rank()), all.bytes(line.rank()));
        if own.len() != to.len() {
            return None;
        }
        own.bytes().copy_to(to.bytes_mut());
        Some(line.alltoallv(|rank| given.bytes(rank), |rank| all.bytes(rank)))
    })
}
