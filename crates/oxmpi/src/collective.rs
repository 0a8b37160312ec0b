//! Collectives that move data (MPI-5.0 chapter 6). Reductions are in `reduction.rs`, nonblocking
//! collectives in `immediate.rs`.

use crate::communicator::{Communicator, Rank};
use crate::error::{Result, settle};
use crate::message::{room, size_of_element};
use crate::universe::Level;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::element::Element;
use oxmpi_mem::memory::{lend_buffer, lend_buffer_mut};
use oxmpi_mem::regions::{Buffer, BufferMut};
use oxmpi_objects::error::Result as CoreResult;
use oxmpi_plan::{Call, Shared};

fn bytes<T: Element>(count: usize) -> Shared<usize> {
    Shared(size_of_element::<T>().saturating_mul(count))
}

/// Check the arguments of a call and describe it, for the blocking and the nonblocking form.
impl<L: Level> Communicator<'_, L> {
    #[track_caller]
    pub(crate) fn root(&self, operation: &'static str, root: Rank) -> u32 {
        match self.core.root(root) {
            Ok(root) => root,
            Err(error) => panic!("{operation}: {error}"),
        }
    }

    pub(crate) fn is_root(&self, root: u32) -> bool {
        self.core.team.rank == root
    }

    pub(crate) fn times_size(&self, len: usize) -> usize {
        len.saturating_mul(self.core.team.size() as usize)
    }

    /// The length of one rank's block in a buffer of `len` elements.
    #[track_caller]
    pub(crate) fn share(&self, operation: &str, what: &str, len: usize) -> usize {
        let block = len / self.core.team.size() as usize;
        self.check_blocks(operation, what, len, block);
        block
    }

    #[track_caller]
    pub(crate) fn check_blocks(&self, operation: &str, what: &str, len: usize, block: usize) {
        assert!(
            len == self.times_size(block),
            "{operation}: {what} has {len} elements, which are not {} blocks of {block}",
            self.size()
        );
    }

    #[track_caller]
    pub(crate) fn broadcast_call<T: Element>(
        &self,
        operation: &'static str,
        len: usize,
        root: Rank,
    ) -> Call {
        Call::Bcast { root: self.root(operation, root), bytes: bytes::<T>(len) }
    }

    /// `all` is the length of the receive buffer, which counts at the root.
    #[track_caller]
    pub(crate) fn gather_call<T: Element>(
        &self,
        operation: &'static str,
        block: usize,
        all: usize,
        root: Rank,
    ) -> Call {
        let root = self.root(operation, root);
        if self.is_root(root) {
            self.check_blocks(operation, "all", all, block);
        }
        Call::Gather { root, block: bytes::<T>(block), in_place: false }
    }

    /// `len` is the length of all blocks at the root, and of one block elsewhere.
    #[track_caller]
    pub(crate) fn gather_in_place_call<T: Element>(
        &self,
        operation: &'static str,
        len: usize,
        root: Rank,
    ) -> Call {
        let root = self.root(operation, root);
        let in_place = self.is_root(root);
        let block = if in_place { self.share(operation, "data", len) } else { len };
        Call::Gather { root, block: bytes::<T>(block), in_place }
    }

    /// `all` is the length of the send buffer, which counts at the root.
    #[track_caller]
    pub(crate) fn scatter_call<T: Element>(
        &self,
        operation: &'static str,
        all: usize,
        block: usize,
        root: Rank,
    ) -> Call {
        let root = self.root(operation, root);
        if self.is_root(root) {
            self.check_blocks(operation, "all", all, block);
        }
        Call::Scatter { root, block: bytes::<T>(block), in_place: false }
    }

    /// `len` is the length of all blocks at the root, and of one block elsewhere.
    #[track_caller]
    pub(crate) fn scatter_in_place_call<T: Element>(
        &self,
        operation: &'static str,
        len: usize,
        root: Rank,
    ) -> Call {
        let root = self.root(operation, root);
        let in_place = self.is_root(root);
        let block = if in_place { self.share(operation, "data", len) } else { len };
        Call::Scatter { root, block: bytes::<T>(block), in_place }
    }

    #[track_caller]
    pub(crate) fn all_gather_call<T: Element>(
        &self,
        operation: &'static str,
        block: usize,
        all: usize,
    ) -> Call {
        self.check_blocks(operation, "all", all, block);
        Call::Allgather { block: bytes::<T>(block), in_place: false }
    }

    #[track_caller]
    pub(crate) fn all_gather_in_place_call<T: Element>(
        &self,
        operation: &'static str,
        len: usize,
    ) -> Call {
        Call::Allgather { block: bytes::<T>(self.share(operation, "data", len)), in_place: true }
    }

    #[track_caller]
    pub(crate) fn all_to_all_call<T: Element>(
        &self,
        operation: &'static str,
        blocks: usize,
        result: usize,
    ) -> Call {
        let block = self.share(operation, "blocks", blocks);
        check_equal(operation, "blocks", blocks, result);
        Call::Alltoall { block: bytes::<T>(block), in_place: false }
    }

    #[track_caller]
    pub(crate) fn all_to_all_in_place_call<T: Element>(
        &self,
        operation: &'static str,
        len: usize,
    ) -> Call {
        Call::Alltoall { block: bytes::<T>(self.share(operation, "blocks", len)), in_place: true }
    }

    fn moves(&self, call: Call, input: UserBuf, output: UserBuf) -> CoreResult<()> {
        self.process.run(
            &self.core,
            call,
            Buffers { input, output, element: None },
            Combine::Nothing,
        )
    }

    #[track_caller]
    fn moves_between<B, C>(
        &self,
        operation: &'static str,
        call: Call,
        from: &B,
        to: &mut C,
    ) -> Result<()>
    where
        B: Buffer + ?Sized,
        C: BufferMut + ?Sized,
    {
        let done = lend_buffer(from, |input| {
            lend_buffer_mut(to, |output| self.moves(call, input, output))
        });
        settle(operation, done)
    }

    #[track_caller]
    fn moves_within<B>(&self, operation: &'static str, call: Call, data: &mut B) -> Result<()>
    where
        B: BufferMut + ?Sized,
    {
        let done = lend_buffer_mut(data, |data| {
            let (input, output) = sides_in_place(&call, data);
            self.moves(call, input, output)
        });
        settle(operation, done)
    }
}

/// The input and the output of a call with one buffer.
pub(crate) fn sides_in_place(call: &Call, data: UserBuf) -> (UserBuf, UserBuf) {
    let is_input = match call {
        // The root receives all blocks, and each other rank sends its block.
        Call::Gather { in_place, .. } | Call::Reduce { in_place, .. } => !in_place,
        // The root sends all blocks, and each other rank receives its block.
        Call::Scatter { in_place, .. } => *in_place,
        _ => false,
    };
    if is_input { (data, UserBuf::empty()) } else { (UserBuf::empty(), data) }
}

#[track_caller]
pub(crate) fn check_equal(operation: &str, what: &str, len: usize, result: usize) {
    assert!(len == result, "{operation}: {what} has {len} elements and result has {result}");
}

impl<L: Level> Communicator<'_, L> {
    /// Waits until all ranks have called it (MPI_Barrier, MPI-5.0 section 6.3).
    ///
    /// ```
    /// oxmpi::threads(3, |world| world.barrier().unwrap());
    /// ```
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        settle("barrier", self.moves(Call::Barrier, UserBuf::empty(), UserBuf::empty()))
    }

    /// Sends the `data` of `root` to all ranks (MPI_Bcast, MPI-5.0 section 6.4). `data` has the
    /// same length at all ranks.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut data = if world.rank() == 1 { [1.5, 2.5] } else { [0.0; 2] };
    ///     world.broadcast(&mut data, 1).unwrap();
    ///     assert_eq!(data, [1.5, 2.5]);
    /// });
    /// ```
    #[track_caller]
    pub fn broadcast<B: BufferMut + ?Sized>(&self, data: &mut B, root: Rank) -> Result<()> {
        let call = self.broadcast_call::<B::Element>("broadcast", data.count(), root);
        self.moves_within("broadcast", call, data)
    }

    /// Sends the value of `root` to all ranks (MPI_Bcast).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     assert_eq!(world.broadcast_one(world.rank(), 2).unwrap(), 2);
    /// });
    /// ```
    #[track_caller]
    pub fn broadcast_one<T: Element>(&self, value: T, root: Rank) -> Result<T> {
        let mut data = [value];
        self.broadcast(&mut data, root)?;
        Ok(data[0])
    }

    /// Joins the blocks of all ranks at `root`, in the order of ranks (MPI_Gather, MPI-5.0 section
    /// 6.5). Returns `Some` at `root` and `None` elsewhere. All blocks have the same length.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let all = world.gather(&[world.rank(), -1], 0).unwrap();
    ///     assert_eq!(all, (world.rank() == 0).then(|| vec![0, -1, 1, -1, 2, -1]));
    /// });
    /// ```
    #[track_caller]
    pub fn gather<B: Buffer + ?Sized>(
        &self,
        block: &B,
        root: Rank,
    ) -> Result<Option<Vec<B::Element>>> {
        let me = self.is_root(self.root("gather", root));
        let mut all =
            room::<B::Element>("gather", if me { self.times_size(block.count()) } else { 0 })?;
        let call = self.gather_call::<B::Element>("gather", block.count(), all.len(), root);
        self.moves_between("gather", call, block, &mut all).map(|()| me.then_some(all))
    }

    /// [`gather`](Communicator::gather) into existing memory. `all` is used only at `root`.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut all = vec![0; if world.rank() == 0 { 3 } else { 0 }];
    ///     world.gather_into(&[world.rank()], &mut all, 0).unwrap();
    ///     assert!(world.rank() != 0 || all == [0, 1, 2]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `all` at the root does not have the length of all blocks together.
    #[track_caller]
    pub fn gather_into<B, C>(&self, block: &B, all: &mut C, root: Rank) -> Result<()>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        let call = self.gather_call::<B::Element>("gather_into", block.count(), all.count(), root);
        self.moves_between("gather_into", call, block, all)
    }

    /// [`gather`](Communicator::gather) with one buffer (MPI_IN_PLACE at the root). At `root`,
    /// `data` has room for all blocks and contains the root's block in its place. Elsewhere `data`
    /// is the block.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut data = if world.rank() == 1 { vec![-1, 1, -1] } else { vec![world.rank()] };
    ///     world.gather_in_place(&mut data, 1).unwrap();
    ///     assert!(world.rank() != 1 || data == [0, 1, 2]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `data` at the root does not divide into a block for each rank.
    #[track_caller]
    pub fn gather_in_place<B: BufferMut + ?Sized>(&self, data: &mut B, root: Rank) -> Result<()> {
        let call = self.gather_in_place_call::<B::Element>("gather_in_place", data.count(), root);
        self.moves_within("gather_in_place", call, data)
    }

    /// Joins the blocks of all ranks at all ranks, in the order of ranks (MPI_Allgather, MPI-5.0
    /// section 6.7). All blocks have the same length.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     assert_eq!(world.all_gather(&[world.rank()]).unwrap(), [0, 1, 2]);
    /// });
    /// ```
    #[track_caller]
    pub fn all_gather<B: Buffer + ?Sized>(&self, block: &B) -> Result<Vec<B::Element>> {
        let mut all = room::<B::Element>("all_gather", self.times_size(block.count()))?;
        let call = self.all_gather_call::<B::Element>("all_gather", block.count(), all.len());
        self.moves_between("all_gather", call, block, &mut all).map(|()| all)
    }

    /// [`all_gather`](Communicator::all_gather) into existing memory.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut all = [0; 3];
    ///     world.all_gather_into(&[world.rank()], &mut all).unwrap();
    ///     assert_eq!(all, [0, 1, 2]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `all` does not have the length of all blocks together.
    #[track_caller]
    pub fn all_gather_into<B, C>(&self, block: &B, all: &mut C) -> Result<()>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        let call =
            self.all_gather_call::<B::Element>("all_gather_into", block.count(), all.count());
        self.moves_between("all_gather_into", call, block, all)
    }

    /// [`all_gather`](Communicator::all_gather) with one buffer (MPI_Allgather with MPI_IN_PLACE).
    /// `data` has room for all blocks and contains this rank's block in its place.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut all = [-1; 3];
    ///     all[world.rank() as usize] = world.rank();
    ///     world.all_gather_in_place(&mut all).unwrap();
    ///     assert_eq!(all, [0, 1, 2]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `data` does not divide into a block for each rank.
    #[track_caller]
    pub fn all_gather_in_place<B: BufferMut + ?Sized>(&self, data: &mut B) -> Result<()> {
        let call = self.all_gather_in_place_call::<B::Element>("all_gather_in_place", data.count());
        self.moves_within("all_gather_in_place", call, data)
    }

    /// Sends each rank its block of `all` at `root` (MPI_Scatter, MPI-5.0 section 6.6). All ranks
    /// get their blocks in `block`. `all` is read only at `root`.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let all = if world.rank() == 0 { &[10, 11, 12][..] } else { &[] };
    ///     let mut mine = [0];
    ///     world.scatter(all, &mut mine, 0).unwrap();
    ///     assert_eq!(mine, [10 + world.rank()]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `all` at the root does not have the length of all blocks together.
    #[track_caller]
    pub fn scatter<B, C>(&self, all: &B, block: &mut C, root: Rank) -> Result<()>
    where
        B: Buffer<Element = C::Element> + ?Sized,
        C: BufferMut + ?Sized,
    {
        let call = self.scatter_call::<B::Element>("scatter", all.count(), block.count(), root);
        self.moves_between("scatter", call, all, block)
    }

    /// [`scatter`](Communicator::scatter) with one buffer (MPI_IN_PLACE at the root). At `root`,
    /// `data` contains all blocks, and the root's block stays there. Elsewhere `data` is the block.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut data = if world.rank() == 0 { vec![10, 11, 12] } else { vec![0] };
    ///     world.scatter_in_place(&mut data, 0).unwrap();
    ///     assert_eq!(data[0], 10 + world.rank());
    /// });
    /// ```
    ///
    /// # Panics
    /// If `data` at the root does not divide into a block for each rank.
    #[track_caller]
    pub fn scatter_in_place<B: BufferMut + ?Sized>(&self, data: &mut B, root: Rank) -> Result<()> {
        let call = self.scatter_in_place_call::<B::Element>("scatter_in_place", data.count(), root);
        self.moves_within("scatter_in_place", call, data)
    }

    /// Sends a block to each rank and receives a block from each rank (MPI_Alltoall, MPI-5.0
    /// section 6.8). Block `r` of `blocks` goes to rank `r`, and block `r` of the result comes from
    /// rank `r`. All blocks have the same length.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let r = world.rank();
    ///     let from = world.all_to_all(&[10 * r, 10 * r + 1, 10 * r + 2]).unwrap();
    ///     assert_eq!(from, [r, 10 + r, 20 + r]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `blocks` does not divide into a block for each rank.
    #[track_caller]
    pub fn all_to_all<B: Buffer + ?Sized>(&self, blocks: &B) -> Result<Vec<B::Element>> {
        let call = self.all_to_all_call::<B::Element>("all_to_all", blocks.count(), blocks.count());
        let mut result = room::<B::Element>("all_to_all", blocks.count())?;
        self.moves_between("all_to_all", call, blocks, &mut result).map(|()| result)
    }

    /// [`all_to_all`](Communicator::all_to_all) into existing memory.
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     let (r, mut from) = (world.rank(), [0; 2]);
    ///     world.all_to_all_into(&[10 * r, 10 * r + 1], &mut from).unwrap();
    ///     assert_eq!(from, [r, 10 + r]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `blocks` does not divide into a block for each rank, or `result` has another length.
    #[track_caller]
    pub fn all_to_all_into<B, C>(&self, blocks: &B, result: &mut C) -> Result<()>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        let call =
            self.all_to_all_call::<B::Element>("all_to_all_into", blocks.count(), result.count());
        self.moves_between("all_to_all_into", call, blocks, result)
    }

    /// [`all_to_all`](Communicator::all_to_all) with one buffer: the received blocks replace the
    /// sent ones (MPI_Alltoall with MPI_IN_PLACE).
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     let r = world.rank();
    ///     let mut blocks = [10 * r, 10 * r + 1];
    ///     world.all_to_all_in_place(&mut blocks).unwrap();
    ///     assert_eq!(blocks, [r, 10 + r]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `blocks` does not divide into a block for each rank.
    #[track_caller]
    pub fn all_to_all_in_place<B: BufferMut + ?Sized>(&self, blocks: &mut B) -> Result<()> {
        let call =
            self.all_to_all_in_place_call::<B::Element>("all_to_all_in_place", blocks.count());
        self.moves_within("all_to_all_in_place", call, blocks)
    }
}
