//! Collectives: operations that all ranks of a communicator call, in the same order (MPI-5.0 chapter 6).

use crate::communicator::{Communicator, Rank};
use crate::error::{Error, ErrorKind, Result, settle};
use crate::message::size_of_element;
use crate::op::{Lowered, Op};
use crate::universe::Level;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::{Plain, lend, lend_mut, zeros};
use oxmpi_objects::error::Result as CoreResult;
use oxmpi_plan::{Call, Shared};
use std::sync::Arc;

/// A vector of `len` zeros that the operation is to fill.
fn room<T: Plain>(operation: &'static str, len: usize) -> Result<Vec<T>> {
    zeros(len).map_err(|e| Error::new(ErrorKind::NoMemory, operation, e.to_string()))
}

impl<L: Level> Communicator<'_, L> {
    /// The root as a number, checked.
    #[track_caller]
    fn root(&self, operation: &'static str, root: Rank) -> u32 {
        match self.core.root(root) {
            Ok(root) => root,
            Err(error) => panic!("{operation}: {error}"),
        }
    }

    /// Elements of all ranks together.
    fn times_size(&self, len: usize) -> usize {
        len.saturating_mul(self.core.team.size() as usize)
    }

    /// Moves data.
    fn moves(&self, call: Call, input: UserBuf, output: UserBuf) -> CoreResult<()> {
        self.process.run(&self.core, call, Buffers { input, output, element: None }, Combine::Nothing)
    }

    /// Waits until all ranks have called it (MPI_Barrier).
    ///
    /// # Errors
    /// If a rank has failed.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        settle("barrier", self.moves(Call::Barrier, UserBuf::empty(), UserBuf::empty()))
    }

    /// Gives all ranks what `root` has in `data`, which must be of the same length everywhere (MPI_Bcast).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut data = if world.rank() == 1 { [1.5, 2.5] } else { [0.0; 2] };
    ///     world.broadcast(&mut data, 1).unwrap();
    ///     assert_eq!(data, [1.5, 2.5]);
    /// });
    /// ```
    ///
    /// # Errors
    /// If a rank has failed.
    ///
    /// # Panics
    /// If there is no rank `root`.
    #[track_caller]
    pub fn broadcast<T: Plain>(&self, data: &mut [T], root: Rank) -> Result<()> {
        let root = self.root("broadcast", root);
        let bytes = Shared(size_of_element::<T>() * data.len());
        let done = lend_mut(data, |data| self.moves(Call::Bcast { root, bytes }, UserBuf::empty(), data));
        settle("broadcast", done)
    }

    /// Joins the blocks of all ranks, in the order of ranks, at `root`: `Some` there and `None` elsewhere
    /// (MPI_Gather). All blocks must be of the same length.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let all = world.gather(&[world.rank(), -1], 0).unwrap();
    ///     assert_eq!(all, (world.rank() == 0).then(|| vec![0, -1, 1, -1, 2, -1]));
    /// });
    /// ```
    ///
    /// # Errors
    /// If a rank has failed or there is no memory.
    ///
    /// # Panics
    /// If there is no rank `root`.
    #[track_caller]
    pub fn gather<T: Plain>(&self, block: &[T], root: Rank) -> Result<Option<Vec<T>>> {
        let (me, root) = (self.rank() == root, self.root("gather", root));
        let call = Call::Gather { root, block: Shared(size_of_val(block)), in_place: false };
        let mut all = room::<T>("gather", if me { self.times_size(block.len()) } else { 0 })?;
        let done = lend(block, |block| lend_mut(&mut all, |all| self.moves(call, block, all)));
        settle("gather", done).map(|()| me.then_some(all))
    }

    /// Joins the blocks of all ranks, in the order of ranks, at all ranks (MPI_Allgather). All blocks must be of the
    /// same length.
    ///
    /// # Errors
    /// If a rank has failed or there is no memory.
    #[track_caller]
    pub fn all_gather<T: Plain>(&self, block: &[T]) -> Result<Vec<T>> {
        let call = Call::Allgather { block: Shared(size_of_val(block)), in_place: false };
        let mut all = room::<T>("all_gather", self.times_size(block.len()))?;
        let done = lend(block, |block| lend_mut(&mut all, |all| self.moves(call, block, all)));
        settle("all_gather", done).map(|()| all)
    }

    /// Gives each rank its block of what `root` has: `block` is filled at all ranks (MPI_Scatter). `all` is read at
    /// `root` only.
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
    /// # Errors
    /// If a rank has failed.
    ///
    /// # Panics
    /// If there is no rank `root`, or `all` at the root is not as long as all blocks together.
    #[track_caller]
    pub fn scatter<T: Plain>(&self, all: &[T], block: &mut [T], root: Rank) -> Result<()> {
        let me = self.rank() == root;
        let root = self.root("scatter", root);
        if me {
            self.check_length("scatter", "all", all.len(), block.len());
        }
        let call = Call::Scatter { root, block: Shared(size_of_val(block)), in_place: false };
        let all = if me { all } else { &[] };
        let done = lend(all, |all| lend_mut(block, |block| self.moves(call, all, block)));
        settle("scatter", done)
    }

    /// Gives each rank the block for it from each rank: block `r` of `blocks` goes to rank `r`, and block `r` of the
    /// result has come from it (MPI_Alltoall). All blocks must be of the same length.
    ///
    /// # Errors
    /// If a rank has failed or there is no memory.
    ///
    /// # Panics
    /// If the length of `blocks` is no multiple of the number of ranks.
    #[track_caller]
    pub fn all_to_all<T: Plain>(&self, blocks: &[T]) -> Result<Vec<T>> {
        let len = blocks.len() / self.core.team.size() as usize;
        self.check_length("all_to_all", "blocks", blocks.len(), len);
        let call = Call::Alltoall { block: Shared(len * size_of_element::<T>()), in_place: false };
        let mut all = room::<T>("all_to_all", blocks.len())?;
        let done = lend(blocks, |blocks| lend_mut(&mut all, |all| self.moves(call, blocks, all)));
        settle("all_to_all", done).map(|()| all)
    }

    #[track_caller]
    fn check_length(&self, operation: &str, what: &str, len: usize, block: usize) {
        assert!(
            len == self.times_size(block),
            "{operation}: {what} has {len} elements, which are not {} blocks of {block}",
            self.size()
        );
    }

    /// Combines the vectors of all ranks, element by element, at `root`: `Some` there and `None` elsewhere
    /// (MPI_Reduce). All must be of the same length.
    ///
    /// # Errors
    /// If a rank has failed or there is no memory.
    ///
    /// # Panics
    /// If there is no rank `root`.
    #[track_caller]
    pub fn reduce<T: Plain>(&self, data: &[T], op: impl Into<Op<T>>, root: Rank) -> Result<Option<Vec<T>>> {
        let (me, root) = (self.rank() == root, self.root("reduce", root));
        let op = op.into();
        let (count, commutative) = (Shared(data.len()), op.is_commutative());
        let call = Call::Reduce { root, count, commutative, in_place: false };
        let mut result = room::<T>("reduce", if me { data.len() } else { 0 })?;
        let done =
            lend(data, |data| lend_mut(&mut result, |result| self.combines::<T>(call, data, result, op)));
        settle("reduce", done).map(|()| me.then_some(result))
    }

    /// Combines one value of each rank at `root`: `Some` there and `None` elsewhere (MPI_Reduce).
    ///
    /// # Errors
    /// As [`reduce`](Communicator::reduce).
    ///
    /// # Panics
    /// As [`reduce`](Communicator::reduce).
    #[track_caller]
    pub fn reduce_one<T: Plain>(&self, value: T, op: impl Into<Op<T>>, root: Rank) -> Result<Option<T>> {
        Ok(self.reduce(&[value], op, root)?.and_then(|all| all.first().copied()))
    }

    /// Combines the vectors of all ranks, element by element, at all ranks (MPI_Allreduce). All must be of the same
    /// length.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let largest = world.all_reduce(&[world.rank(), -world.rank()], oxmpi::Max).unwrap();
    ///     assert_eq!(largest, [2, 0]);
    /// });
    /// ```
    ///
    /// # Errors
    /// If a rank has failed or there is no memory.
    #[track_caller]
    pub fn all_reduce<T: Plain>(&self, data: &[T], op: impl Into<Op<T>>) -> Result<Vec<T>> {
        let mut result = room::<T>("all_reduce", data.len())?;
        self.all_reduce_into(data, &mut result, op)?;
        Ok(result)
    }

    /// As [`all_reduce`](Communicator::all_reduce), into memory that is there.
    ///
    /// # Errors
    /// If a rank has failed.
    ///
    /// # Panics
    /// If `data` and `result` differ in length.
    #[track_caller]
    pub fn all_reduce_into<T: Plain>(
        &self,
        data: &[T],
        result: &mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<()> {
        check_equal(data.len(), result.len());
        let op = op.into();
        let (count, commutative) = (Shared(data.len()), op.is_commutative());
        let call = Call::Allreduce { count, commutative, in_place: false };
        let done = lend(data, |data| lend_mut(result, |result| self.combines::<T>(call, data, result, op)));
        settle("all_reduce", done)
    }

    /// Combines one value of each rank at all ranks (MPI_Allreduce).
    ///
    /// # Errors
    /// If a rank has failed.
    #[track_caller]
    pub fn all_reduce_one<T: Plain>(&self, value: T, op: impl Into<Op<T>>) -> Result<T> {
        let mut result = [value];
        self.all_reduce_into(&[value], &mut result, op)?;
        Ok(result[0])
    }

    /// Combines the vectors of ranks 0 to this one, element by element (MPI_Scan).
    ///
    /// ```
    /// oxmpi::threads(4, |world| {
    ///     let r = world.rank();
    ///     assert_eq!(world.scan(&[r], oxmpi::Sum).unwrap(), [r * (r + 1) / 2]);
    /// });
    /// ```
    ///
    /// # Errors
    /// If a rank has failed or there is no memory.
    #[track_caller]
    pub fn scan<T: Plain>(&self, data: &[T], op: impl Into<Op<T>>) -> Result<Vec<T>> {
        let op = op.into();
        let call =
            Call::Scan { count: Shared(data.len()), commutative: op.is_commutative(), in_place: false };
        let mut result = room::<T>("scan", data.len())?;
        let done =
            lend(data, |data| lend_mut(&mut result, |result| self.combines::<T>(call, data, result, op)));
        settle("scan", done).map(|()| result)
    }

    /// Reduces.
    fn combines<T: Plain>(&self, call: Call, input: UserBuf, output: UserBuf, op: Op<T>) -> CoreResult<()> {
        let element = Some(Arc::new(Layout::basic(size_of_element::<T>(), align_of::<T>())));
        let Lowered { combine, user, panic } = op.lower();
        let buffers = Buffers { input, output, element };
        let done = self.process.execute(&self.core, call, buffers, combine, user);
        panic.resume();
        done
    }
}

#[track_caller]
fn check_equal(data: usize, result: usize) {
    assert!(data == result, "all_reduce_into: data has {data} elements and result has {result}");
}
