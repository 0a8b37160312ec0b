//! The straight line of short blocking collectives, from the arguments to one step in shared memory: memory in one piece,
//! predefined datatypes and operations, a group that shares memory.
//!
//! `None`: the call goes the full way, which also says what is wrong with its arguments.

use super::Named;
use super::reductions::Reducing;
use super::vector::{NamedBlocks, Numbers, Types};
use crate::library::{array, running};
use crate::p2p::plain;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Datatype};
use oxmpi_core::Communicator;
use oxmpi_core::shmem::short::{Prefix, ShortWay};
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::buffer::PlainBuf;
use oxmpi_mem::kernels::Kernel;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::Result;
use std::ffi::{c_int, c_void};

/// Runs a call by the straight line of its communicator, if that has one.
#[inline(always)]
fn by_line(comm: Comm, run: impl FnOnce(&ShortWay<'_, Routes>) -> Option<Result<()>>) -> Option<Result<()>> {
    let process = &running()?.process;
    if comm == abi::MPI_COMM_WORLD {
        return run(&process.short_way(process.world())?);
    }
    by_line_of_made(comm, run)
}

/// As [`by_line`], of a communicator that the program has made.
#[inline(never)]
fn by_line_of_made(
    comm: Comm,
    run: impl FnOnce(&ShortWay<'_, Routes>) -> Option<Result<()>>,
) -> Option<Result<()>> {
    let library = running()?;
    let comm = library.communicators.get(Handle::from_raw(comm as u64)).ok()?;
    let comm: &Communicator = &comm;
    run(&library.process.short_way(comm)?)
}

#[inline(always)]
fn memory(named: Named) -> Option<PlainBuf> {
    plain(named.address, named.count, named.datatype)
}

/// As many blocks as there are ranks.
#[inline(always)]
fn blocks(named: Named, way: &ShortWay<'_, Routes>) -> Option<PlainBuf> {
    let count = named.count.checked_mul(i64::from(way.ranks()))?;
    memory(Named { count, ..named })
}

#[inline(always)]
fn rank(way: &ShortWay<'_, Routes>, root: c_int) -> Option<u32> {
    u32::try_from(root).ok().filter(|root| *root < way.ranks())
}

#[inline(always)]
pub(super) fn barrier(comm: Comm) -> Option<Result<()>> {
    by_line(comm, |way| Some(way.barrier()))
}

#[inline(always)]
pub(super) fn bcast(data: Named, root: c_int, comm: Comm) -> Option<Result<()>> {
    let data = memory(data)?;
    by_line(comm, |way| {
        let root = rank(way, root)?;
        way.has_room(data.len(), 1).then(|| way.bcast(root, data.bytes_mut()))
    })
}

/// This rank's block, if it is not in its place, and the place of all blocks.
#[inline(always)]
fn gathered(send: Named, receive: Named, way: &ShortWay<'_, Routes>) -> Option<(Option<PlainBuf>, PlainBuf)> {
    let all = blocks(receive, way)?;
    let block = memory(Named { address: all.start().cast(), ..receive })?.len();
    let own = match send.is_in_place() {
        true => None,
        false => Some(memory(send).filter(|own| own.len() == block)?),
    };
    way.has_room(block, 1).then_some((own, all))
}

#[inline(always)]
pub(super) fn gather(send: Named, receive: Named, root: c_int, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |way| {
        if !way.is_root(rank(way, root)?) {
            let block = memory(send)?;
            return way.has_room(block.len(), 1).then(|| way.give_to_gather(block.bytes()));
        }
        let (own, all) = gathered(send, receive, way)?;
        Some(way.gather(own.as_ref().map(PlainBuf::bytes), all.bytes_mut()))
    })
}

#[inline(always)]
pub(super) fn allgather(send: Named, receive: Named, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |way| {
        let (own, all) = gathered(send, receive, way)?;
        Some(way.allgather(own.as_ref().map(PlainBuf::bytes), all.bytes_mut()))
    })
}

/// The blocks of all ranks, and the bytes of one, of which a step has room for those of all others.
#[inline(always)]
fn spread(named: Named, way: &ShortWay<'_, Routes>) -> Option<(PlainBuf, usize)> {
    let all = blocks(named, way)?;
    let block = memory(Named { address: all.start().cast(), ..named })?.len();
    way.has_room(block, way.ranks() - 1).then_some((all, block))
}

#[inline(always)]
pub(super) fn scatter(send: Named, receive: Named, root: c_int, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |way| {
        let root = rank(way, root)?;
        if !way.is_root(root) {
            let block = memory(receive)?;
            let has_room = way.has_room(block.len(), way.ranks() - 1);
            return has_room.then(|| way.take_of_scatter(root, block.bytes_mut()));
        }
        let (all, block) = spread(send, way)?;
        let own = match receive.is_in_place() {
            true => None,
            false => Some(memory(receive).filter(|own| own.len() == block)?),
        };
        Some(way.scatter(all.bytes(), own.as_ref().map(PlainBuf::bytes_mut)))
    })
}

#[inline(always)]
pub(super) fn alltoall(send: Named, receive: Named, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |way| {
        let (all, block) = spread(receive, way)?;
        let given = match send.is_in_place() {
            true => all,
            false => spread(send, way).filter(|given| given.1 == block)?.0,
        };
        Some(way.alltoall(given.bytes(), all.bytes_mut()))
    })
}

/// What a rank gives to a reduction, and what combines.
#[inline(always)]
fn given(r: &Reducing) -> Option<(&'static Kernel, PlainBuf)> {
    let kernel = running()?.kernels.known(r.op, r.datatype)?;
    let given = if r.send().is_in_place() { r.receive() } else { r.send() };
    Some((kernel, memory(given)?))
}

#[inline(always)]
pub(super) fn reduce(r: &Reducing, root: c_int, comm: Comm) -> Option<Result<()>> {
    let (kernel, given) = given(r)?;
    by_line(comm, |way| {
        let root = rank(way, root)?;
        if !way.has_room(given.len(), 1) {
            return None;
        }
        if !way.is_root(root) {
            // In place is for the root.
            return (!r.send().is_in_place()).then(|| way.give_to_reduce(given.bytes()));
        }
        Some(way.reduce(kernel, given.bytes(), memory(r.receive())?.bytes_mut()))
    })
}

#[inline(always)]
pub(super) fn prefix(r: &Reducing, prefix: Prefix, comm: Comm) -> Option<Result<()>> {
    let (kernel, given) = given(r)?;
    by_line(comm, |way| {
        // The place of a result that there is none of need not be one.
        let result = match prefix == Prefix::Exclusive && way.is_root(0) {
            true => PlainBuf::EMPTY,
            false => memory(r.receive())?,
        };
        let has_room = way.has_room(given.len(), 1);
        has_room.then(|| way.prefix(prefix, kernel, given.bytes(), result.bytes_mut()))
    })
}

#[inline(always)]
pub(super) fn reduce_scatter_block(r: &Reducing, comm: Comm) -> Option<Result<()>> {
    let kernel = running()?.kernels.known(r.op, r.datatype)?;
    by_line(comm, |way| {
        let given = if r.send().is_in_place() { r.receive() } else { r.send() };
        let (given, _) = spread(given, way)?;
        Some(way.reduce_scatter(kernel, given.bytes(), memory(r.receive())?.bytes_mut()))
    })
}

/// Blocks of different lengths, all of one predefined datatype.
#[derive(Clone, Copy)]
struct Uneven<'a> {
    address: *const c_void,
    counts: &'a [c_int],
    places: &'a [c_int],
    datatype: Datatype,
    /// Bytes of an element.
    size: usize,
}

impl Uneven<'_> {
    #[inline(always)]
    fn of(named: &NamedBlocks, ranks: u32) -> Option<Self> {
        let (Numbers::Int(counts), Numbers::Int(places), Types::One(datatype)) =
            (named.counts, named.displacements, named.types)
        else {
            return None;
        };
        let size = plain(named.address, 1, datatype)?.len();
        // SAFETY: the C program passes arrays with a number for each rank.
        let (counts, places) =
            unsafe { (array(counts, ranks as usize, "").ok()?, array(places, ranks as usize, "").ok()?) };
        Some(Uneven { address: named.address, counts, places, datatype, size })
    }

    #[inline(always)]
    fn block(&self, rank: u32) -> Option<PlainBuf> {
        let offset = (self.places[rank as usize] as isize).wrapping_mul(self.size as isize);
        plain(self.address.wrapping_byte_offset(offset), i64::from(self.counts[rank as usize]), self.datatype)
    }

    /// Whether all blocks are memory; the bytes of all, and of the longest.
    #[inline(always)]
    fn lengths(&self) -> Option<(usize, usize)> {
        (0..self.counts.len() as u32).try_fold((0, 0), |(all, longest), rank| {
            let len = self.block(rank)?.len();
            Some((len.checked_add(all)?, len.max(longest)))
        })
    }

    /// A block, after [`Uneven::lengths`].
    #[inline(always)]
    fn bytes(&self, rank: u32) -> PlainBuf {
        self.block(rank).unwrap_or(PlainBuf::EMPTY)
    }
}

/// Copies this rank's own block, if it is not in its place. `None`: it does not fit.
#[inline(always)]
fn place_own(send: Named, to: &PlainBuf) -> Option<PlainBuf> {
    if send.is_in_place() {
        return Some(*to);
    }
    memory(send).filter(|own| own.len() == to.len())
}

#[inline(always)]
pub(super) fn gatherv(send: Named, receive: &NamedBlocks, root: c_int, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |way| {
        let root = rank(way, root)?;
        if !way.is_root(root) {
            let block = memory(send)?;
            return way.has_room_for_uneven(block.len()).then(|| way.give_to_gatherv(root, block));
        }
        let all = Uneven::of(receive, way.ranks())?;
        let (_, longest) = all.lengths()?;
        let (to, room) = (all.bytes(root), way.has_room_for_uneven(longest));
        let own = place_own(send, &to).filter(|_| room)?;
        if !send.is_in_place() {
            own.bytes().copy_to(to.bytes_mut());
        }
        Some(way.gatherv(|rank| all.bytes(rank)))
    })
}

#[inline(always)]
pub(super) fn allgatherv(send: Named, receive: &NamedBlocks, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |way| {
        let all = Uneven::of(receive, way.ranks())?;
        let (_, longest) = all.lengths()?;
        if !way.has_room(longest, 1) {
            return None;
        }
        let to = all.bytes(way.rank());
        let own = place_own(send, &to)?;
        if !send.is_in_place() {
            own.bytes().copy_to(to.bytes_mut());
        }
        Some(way.allgatherv(longest, own, |rank| all.bytes(rank)))
    })
}

#[inline(always)]
pub(super) fn alltoallv(send: &NamedBlocks, receive: &NamedBlocks, comm: Comm) -> Option<Result<()>> {
    by_line(comm, |way| {
        let (given, all) = (Uneven::of(send, way.ranks())?, Uneven::of(receive, way.ranks())?);
        let ((sum, _), (_, longest)) = (given.lengths()?, all.lengths()?);
        if !way.has_room_for_uneven(sum) || !way.has_room_for_uneven(longest) {
            return None;
        }
        let (own, to) = (given.bytes(way.rank()), all.bytes(way.rank()));
        if own.len() != to.len() {
            return None;
        }
        own.bytes().copy_to(to.bytes_mut());
        Some(way.alltoallv(|rank| given.bytes(rank), |rank| all.bytes(rank)))
    })
}
