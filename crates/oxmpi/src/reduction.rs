//! Collectives that combine data: reductions and scans (MPI-5.0 sections 6.9 to 6.11).

use crate::collective::{check_equal, sides_in_place};
use crate::communicator::{Communicator, Rank};
use crate::error::{Result, settle};
use crate::message::room;
use crate::op::{Lowered, Op};
use crate::universe::Level;
use oxmpi_coll::Buffers;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::element::{Element, layout_of};
use oxmpi_mem::memory::{lend, lend_mut};
use oxmpi_objects::error::Result as CoreResult;
use oxmpi_plan::{Call, Shared};

/// Check the arguments of a call and describe it, for the blocking and the nonblocking form.
impl<L: Level> Communicator<'_, L> {
    /// `len` is the length of each rank's vector; `result` is the length of the root's result.
    #[track_caller]
    pub(crate) fn reduce_call<T: Element>(
        &self,
        operation: &'static str,
        (len, result): (usize, usize),
        op: &Op<T>,
        root: Rank,
    ) -> Call {
        let root = self.root(operation, root);
        if self.is_root(root) {
            check_equal(operation, "data", len, result);
        }
        Call::Reduce { root, count: Shared(len), commutative: op.is_commutative(), in_place: false }
    }

    #[track_caller]
    pub(crate) fn reduce_in_place_call<T: Element>(
        &self,
        operation: &'static str,
        len: usize,
        op: &Op<T>,
        root: Rank,
    ) -> Call {
        let root = self.root(operation, root);
        let in_place = self.is_root(root);
        Call::Reduce { root, count: Shared(len), commutative: op.is_commutative(), in_place }
    }

    /// `len` is the length of each rank's vector.
    #[track_caller]
    pub(crate) fn reduce_scatter_block_call<T: Element>(
        &self,
        operation: &'static str,
        len: usize,
        op: &Op<T>,
        in_place: bool,
    ) -> Call {
        let block = Shared(self.share(operation, "blocks", len));
        Call::ReduceScatterBlock { block, commutative: op.is_commutative(), in_place }
    }

    fn combines<T: Element>(
        &self,
        call: Call,
        input: UserBuf,
        output: UserBuf,
        op: Op<T>,
    ) -> CoreResult<()> {
        let Lowered { combine, user, panic } = op.lower();
        let buffers = Buffers { input, output, element: Some(layout_of::<T>()) };
        let done = self.process.execute(&self.core, call, buffers, combine, user);
        panic.resume();
        done
    }

    #[track_caller]
    fn combines_into<T: Element>(
        &self,
        operation: &'static str,
        call: Call,
        data: &[T],
        result: &mut [T],
        op: Op<T>,
    ) -> Result<()> {
        let done = lend(data, |data| {
            lend_mut(result, |result| self.combines::<T>(call, data, result, op))
        });
        settle(operation, done)
    }

    #[track_caller]
    fn combines_within<T: Element>(
        &self,
        operation: &'static str,
        call: Call,
        data: &mut [T],
        op: Op<T>,
    ) -> Result<()> {
        let done = lend_mut(data, |data| {
            let (input, output) = sides_in_place(&call, data);
            self.combines::<T>(call, input, output, op)
        });
        settle(operation, done)
    }
}

pub(crate) fn all_reduce_call<T: Element>(len: usize, op: &Op<T>, in_place: bool) -> Call {
    Call::Allreduce { count: Shared(len), commutative: op.is_commutative(), in_place }
}

pub(crate) fn scan_call<T: Element>(len: usize, op: &Op<T>, in_place: bool) -> Call {
    Call::Scan { count: Shared(len), commutative: op.is_commutative(), in_place }
}

pub(crate) fn exclusive_scan_call<T: Element>(len: usize, op: &Op<T>, in_place: bool) -> Call {
    Call::Exscan { count: Shared(len), commutative: op.is_commutative(), in_place }
}

impl<L: Level> Communicator<'_, L> {
    /// Combines the vectors of all ranks at `root`, element by element (MPI_Reduce, MPI-5.0 section
    /// 6.9.1). Returns `Some` at `root` and `None` elsewhere. All vectors have the same length.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let sums = world.reduce(&[1, world.rank()], oxmpi::Sum, 2).unwrap();
    ///     assert_eq!(sums, (world.rank() == 2).then(|| vec![3, 3]));
    /// });
    /// ```
    #[track_caller]
    pub fn reduce<T: Element>(
        &self,
        data: &[T],
        op: impl Into<Op<T>>,
        root: Rank,
    ) -> Result<Option<Vec<T>>> {
        let (me, op) = (self.is_root(self.root("reduce", root)), op.into());
        let mut result = room::<T>("reduce", if me { data.len() } else { 0 })?;
        let call = self.reduce_call("reduce", (data.len(), result.len()), &op, root);
        self.combines_into("reduce", call, data, &mut result, op).map(|()| me.then_some(result))
    }

    /// [`reduce`](Communicator::reduce) into existing memory. `result` is used only at `root`, and
    /// may be empty elsewhere.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut sum = [0];
    ///     world.reduce_into(&[world.rank()], &mut sum, oxmpi::Sum, 0).unwrap();
    ///     assert!(world.rank() != 0 || sum == [3]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `data` and `result` differ in length at the root.
    #[track_caller]
    pub fn reduce_into<T: Element>(
        &self,
        data: &[T],
        result: &mut [T],
        op: impl Into<Op<T>>,
        root: Rank,
    ) -> Result<()> {
        let op = op.into();
        let call = self.reduce_call("reduce_into", (data.len(), result.len()), &op, root);
        self.combines_into("reduce_into", call, data, result, op)
    }

    /// [`reduce`](Communicator::reduce) with one buffer (MPI_Reduce with MPI_IN_PLACE at the root).
    /// At `root` the result replaces `data`.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut data = [world.rank()];
    ///     world.reduce_in_place(&mut data, oxmpi::Max, 0).unwrap();
    ///     assert_eq!(data, if world.rank() == 0 { [2] } else { [world.rank()] });
    /// });
    /// ```
    #[track_caller]
    pub fn reduce_in_place<T: Element>(
        &self,
        data: &mut [T],
        op: impl Into<Op<T>>,
        root: Rank,
    ) -> Result<()> {
        let op = op.into();
        let call = self.reduce_in_place_call("reduce_in_place", data.len(), &op, root);
        self.combines_within("reduce_in_place", call, data, op)
    }

    /// Combines one value of each rank at `root` (MPI_Reduce). Returns `Some` at `root` and `None`
    /// elsewhere.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let sum = world.reduce_one(f64::from(world.rank()), oxmpi::Sum, 0).unwrap();
    ///     assert_eq!(sum, (world.rank() == 0).then_some(3.0));
    /// });
    /// ```
    #[track_caller]
    pub fn reduce_one<T: Element>(
        &self,
        value: T,
        op: impl Into<Op<T>>,
        root: Rank,
    ) -> Result<Option<T>> {
        Ok(self.reduce(&[value], op, root)?.and_then(|all| all.first().copied()))
    }

    /// Combines the vectors of all ranks, element by element (MPI_Allreduce, MPI-5.0 section
    /// 6.9.6). All ranks get the result. All vectors have the same length.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let largest = world.all_reduce(&[world.rank(), -world.rank()], oxmpi::Max).unwrap();
    ///     assert_eq!(largest, [2, 0]);
    /// });
    /// ```
    #[track_caller]
    pub fn all_reduce<T: Element>(&self, data: &[T], op: impl Into<Op<T>>) -> Result<Vec<T>> {
        let op = op.into();
        let mut result = room::<T>("all_reduce", data.len())?;
        let call = all_reduce_call(data.len(), &op, false);
        self.combines_into("all_reduce", call, data, &mut result, op).map(|()| result)
    }

    /// [`all_reduce`](Communicator::all_reduce) into existing memory.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut sum = [0];
    ///     world.all_reduce_into(&[world.rank()], &mut sum, oxmpi::Sum).unwrap();
    ///     assert_eq!(sum, [3]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `data` and `result` differ in length.
    #[track_caller]
    pub fn all_reduce_into<T: Element>(
        &self,
        data: &[T],
        result: &mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<()> {
        check_equal("all_reduce_into", "data", data.len(), result.len());
        let op = op.into();
        let call = all_reduce_call(data.len(), &op, false);
        self.combines_into("all_reduce_into", call, data, result, op)
    }

    /// [`all_reduce`](Communicator::all_reduce) with one buffer: the result replaces `data`
    /// (MPI_Allreduce with MPI_IN_PLACE).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut data = [world.rank(), 1];
    ///     world.all_reduce_in_place(&mut data, oxmpi::Sum).unwrap();
    ///     assert_eq!(data, [3, 3]);
    /// });
    /// ```
    #[track_caller]
    pub fn all_reduce_in_place<T: Element>(
        &self,
        data: &mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<()> {
        let op = op.into();
        let call = all_reduce_call(data.len(), &op, true);
        self.combines_within("all_reduce_in_place", call, data, op)
    }

    /// Combines one value of each rank, and returns the result at all ranks (MPI_Allreduce).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     assert_eq!(world.all_reduce_one(world.rank(), oxmpi::Sum).unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn all_reduce_one<T: Element>(&self, value: T, op: impl Into<Op<T>>) -> Result<T> {
        let mut result = [value];
        self.all_reduce_into(&[value], &mut result, op)?;
        Ok(result[0])
    }

    /// Combines the vectors of all ranks, element by element, and gives each rank its block of the
    /// result (MPI_Reduce_scatter_block, MPI-5.0 section 6.10.1). All blocks have the same length.
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     let mine = world.reduce_scatter_block(&[1, 10 + world.rank()], oxmpi::Sum).unwrap();
    ///     assert_eq!(mine, [[2], [21]][world.rank() as usize]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `blocks` does not divide into a block for each rank.
    #[track_caller]
    pub fn reduce_scatter_block<T: Element>(
        &self,
        blocks: &[T],
        op: impl Into<Op<T>>,
    ) -> Result<Vec<T>> {
        let op = op.into();
        let call = self.reduce_scatter_block_call("reduce_scatter_block", blocks.len(), &op, false);
        let len = blocks.len() / self.core.team.size() as usize;
        let mut block = room::<T>("reduce_scatter_block", len)?;
        self.combines_into("reduce_scatter_block", call, blocks, &mut block, op).map(|()| block)
    }

    /// [`reduce_scatter_block`](Communicator::reduce_scatter_block) into existing memory.
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     let mut mine = [0];
    ///     let blocks = [1, 10 + world.rank()];
    ///     world.reduce_scatter_block_into(&blocks, &mut mine, oxmpi::Sum).unwrap();
    ///     assert_eq!(mine, [[2], [21]][world.rank() as usize]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If the length of `blocks` is not that of one `block` for each rank.
    #[track_caller]
    pub fn reduce_scatter_block_into<T: Element>(
        &self,
        blocks: &[T],
        block: &mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<()> {
        let op = op.into();
        self.check_blocks("reduce_scatter_block_into", "blocks", blocks.len(), block.len());
        let call =
            self.reduce_scatter_block_call("reduce_scatter_block_into", blocks.len(), &op, false);
        self.combines_into("reduce_scatter_block_into", call, blocks, block, op)
    }

    /// [`reduce_scatter_block`](Communicator::reduce_scatter_block) with one buffer
    /// (MPI_Reduce_scatter_block with MPI_IN_PLACE). The result replaces the first block and is
    /// returned. The other blocks become undefined.
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     let mut data = [1, 10 + world.rank()];
    ///     let mine = world.reduce_scatter_block_in_place(&mut data, oxmpi::Sum).unwrap();
    ///     assert_eq!(mine, [[2], [21]][world.rank() as usize]);
    /// });
    /// ```
    ///
    /// # Panics
    /// If `blocks` does not divide into a block for each rank.
    #[track_caller]
    pub fn reduce_scatter_block_in_place<'a, T: Element>(
        &self,
        blocks: &'a mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<&'a mut [T]> {
        let (op, operation) = (op.into(), "reduce_scatter_block_in_place");
        let call = self.reduce_scatter_block_call(operation, blocks.len(), &op, true);
        self.combines_within(operation, call, blocks, op)?;
        let len = blocks.len() / self.core.team.size() as usize;
        Ok(&mut blocks[..len])
    }

    /// Combines the vectors of ranks 0 to this one, element by element (MPI_Scan, MPI-5.0 section
    /// 6.11.1).
    ///
    /// ```
    /// oxmpi::threads(4, |world| {
    ///     let r = world.rank();
    ///     assert_eq!(world.scan(&[r], oxmpi::Sum).unwrap(), [r * (r + 1) / 2]);
    /// });
    /// ```
    #[track_caller]
    pub fn scan<T: Element>(&self, data: &[T], op: impl Into<Op<T>>) -> Result<Vec<T>> {
        let op = op.into();
        let mut result = room::<T>("scan", data.len())?;
        let call = scan_call(data.len(), &op, false);
        self.combines_into("scan", call, data, &mut result, op).map(|()| result)
    }

    /// [`scan`](Communicator::scan) with one buffer: the result replaces `data` (MPI_IN_PLACE).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut data = [1];
    ///     world.scan_in_place(&mut data, oxmpi::Sum).unwrap();
    ///     assert_eq!(data, [world.rank() + 1]);
    /// });
    /// ```
    #[track_caller]
    pub fn scan_in_place<T: Element>(&self, data: &mut [T], op: impl Into<Op<T>>) -> Result<()> {
        let op = op.into();
        let call = scan_call(data.len(), &op, true);
        self.combines_within("scan_in_place", call, data, op)
    }

    /// Combines the vectors of all ranks below this one, element by element (MPI_Exscan, MPI-5.0
    /// section 6.11.2). Returns `None` at rank 0.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let before = world.exclusive_scan(&[10], oxmpi::Sum).unwrap();
    ///     assert_eq!(before, [None, Some(vec![10]), Some(vec![20])][world.rank() as usize]);
    /// });
    /// ```
    #[track_caller]
    pub fn exclusive_scan<T: Element>(
        &self,
        data: &[T],
        op: impl Into<Op<T>>,
    ) -> Result<Option<Vec<T>>> {
        let op = op.into();
        let mut result = room::<T>("exclusive_scan", data.len())?;
        let call = exclusive_scan_call(data.len(), &op, false);
        let done = self.combines_into("exclusive_scan", call, data, &mut result, op);
        done.map(|()| (self.rank() > 0).then_some(result))
    }

    /// [`exclusive_scan`](Communicator::exclusive_scan) with one buffer: the result replaces
    /// `data`, except at rank 0 (MPI_Exscan with MPI_IN_PLACE).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut data = [10];
    ///     world.exclusive_scan_in_place(&mut data, oxmpi::Sum).unwrap();
    ///     assert_eq!(data, [[10], [10], [20]][world.rank() as usize]);
    /// });
    /// ```
    #[track_caller]
    pub fn exclusive_scan_in_place<T: Element>(
        &self,
        data: &mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<()> {
        let op = op.into();
        let call = exclusive_scan_call(data.len(), &op, true);
        self.combines_within("exclusive_scan_in_place", call, data, op)
    }
}
