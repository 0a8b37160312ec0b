//! Nonblocking collectives (MPI-5.0 section 6.12), with buffers borrowed for a [`Scope`].

use crate::collective::{check_equal, sides_in_place};
use crate::communicator::Rank;
use crate::error::{Result, settle};
use crate::op::{Lowered, Op};
use crate::reduction::{all_reduce_call, exclusive_scan_call, scan_call};
use crate::scope::{Scope, ScopedOperation, ScopedRequest};
use crate::universe::Level;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::element::{Element, layout_of};
use oxmpi_mem::regions::{Buffer, BufferMut};
use oxmpi_plan::Call;

impl<'run, 'scope, L: Level> Scope<'run, 'scope, '_, L> {
    #[track_caller]
    fn moves(
        &self,
        operation: &'static str,
        call: Call,
        input: UserBuf,
        output: UserBuf,
    ) -> Result<ScopedRequest<'run, L>> {
        let (comm, buffers) = (self.communicator, Buffers { input, output, element: None });
        let id = settle(
            operation,
            comm.process.start(&comm.core, call, buffers, Combine::Nothing, None),
        )?;
        Ok(self.started(ScopedOperation::collective(id, None)))
    }

    #[track_caller]
    fn moves_within<B: BufferMut + ?Sized>(
        &self,
        operation: &'static str,
        call: Call,
        data: &'scope mut B,
    ) -> Result<ScopedRequest<'run, L>> {
        let (input, output) = sides_in_place(&call, self.lender.lend_mut(data));
        self.moves(operation, call, input, output)
    }

    #[track_caller]
    fn combines<T: Element>(
        &self,
        operation: &'static str,
        call: Call,
        (input, output): (UserBuf, UserBuf),
        op: Op<T>,
    ) -> Result<ScopedRequest<'run, L>> {
        let (comm, Lowered { combine, user, panic }) = (self.communicator, op.lower());
        let buffers = Buffers { input, output, element: Some(layout_of::<T>()) };
        let id = settle(operation, comm.process.start(&comm.core, call, buffers, combine, user))?;
        Ok(self.started(ScopedOperation::collective(id, Some(panic))))
    }

    #[track_caller]
    fn combines_into<T: Element>(
        &self,
        operation: &'static str,
        call: Call,
        data: &'scope [T],
        result: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedRequest<'run, L>> {
        let buffers = (self.lender.lend(data), self.lender.lend_mut(result));
        self.combines(operation, call, buffers, op)
    }

    #[track_caller]
    fn combines_within<T: Element>(
        &self,
        operation: &'static str,
        call: Call,
        data: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedRequest<'run, L>> {
        let buffers = sides_in_place(&call, self.lender.lend_mut(data));
        self.combines(operation, call, buffers, op)
    }
}

/// Nonblocking collectives. Arguments and panics are those of the blocking form in
/// [`Communicator`](crate::Communicator). A failure of a rank is an error of the call or of the
/// wait.
impl<'run, 'scope, L: Level> Scope<'run, 'scope, '_, L> {
    /// The request is complete when all ranks have called this function (MPI_Ibarrier).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     world.scope(|s| {
    ///         let all_here = s.ibarrier()?;
    ///         while !all_here.test() { /* compute */ }
    ///         Ok(())
    ///     }).unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn ibarrier(&self) -> Result<ScopedRequest<'run, L>> {
        self.moves("ibarrier", Call::Barrier, UserBuf::empty(), UserBuf::empty())
    }

    /// [`broadcast`](crate::Communicator::broadcast) (MPI_Ibcast).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut data = [world.rank(); 2];
    ///     world.scope(|s| {
    ///         s.ibroadcast(&mut data, 1)?;
    ///         Ok(())
    ///     }).unwrap();
    ///     assert_eq!(data, [1; 2]);
    /// });
    /// ```
    #[track_caller]
    pub fn ibroadcast<B: BufferMut + ?Sized>(
        &self,
        data: &'scope mut B,
        root: Rank,
    ) -> Result<ScopedRequest<'run, L>> {
        let call = self.communicator.broadcast_call::<B::Element>("ibroadcast", data.count(), root);
        self.moves_within("ibroadcast", call, data)
    }

    /// [`gather_into`](crate::Communicator::gather_into) (MPI_Igather).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let (block, mut all) = ([world.rank()], [0; 3]);
    ///     world.scope(|s| {
    ///         s.igather(&block, &mut all, 0)?;
    ///         Ok(())
    ///     }).unwrap();
    ///     assert!(world.rank() != 0 || all == [0, 1, 2]);
    /// });
    /// ```
    #[track_caller]
    pub fn igather<B, C>(
        &self,
        block: &'scope B,
        all: &'scope mut C,
        root: Rank,
    ) -> Result<ScopedRequest<'run, L>>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        let comm = self.communicator;
        let call = comm.gather_call::<B::Element>("igather", block.count(), all.count(), root);
        self.moves("igather", call, self.lender.lend(block), self.lender.lend_mut(all))
    }

    /// [`gather_in_place`](crate::Communicator::gather_in_place)
    /// (MPI_Igather with MPI_IN_PLACE at the root).
    #[track_caller]
    pub fn igather_in_place<B: BufferMut + ?Sized>(
        &self,
        data: &'scope mut B,
        root: Rank,
    ) -> Result<ScopedRequest<'run, L>> {
        let call = self.communicator.gather_in_place_call::<B::Element>(
            "igather_in_place",
            data.count(),
            root,
        );
        self.moves_within("igather_in_place", call, data)
    }

    /// [`all_gather_into`](crate::Communicator::all_gather_into) (MPI_Iallgather).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let (block, mut all) = ([world.rank()], [0; 3]);
    ///     world.scope(|s| {
    ///         s.iall_gather(&block, &mut all)?;
    ///         Ok(())
    ///     }).unwrap();
    ///     assert_eq!(all, [0, 1, 2]);
    /// });
    /// ```
    #[track_caller]
    pub fn iall_gather<B, C>(
        &self,
        block: &'scope B,
        all: &'scope mut C,
    ) -> Result<ScopedRequest<'run, L>>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        let call = self.communicator.all_gather_call::<B::Element>(
            "iall_gather",
            block.count(),
            all.count(),
        );
        self.moves("iall_gather", call, self.lender.lend(block), self.lender.lend_mut(all))
    }

    /// [`all_gather_in_place`](crate::Communicator::all_gather_in_place)
    /// (MPI_Iallgather with MPI_IN_PLACE).
    #[track_caller]
    pub fn iall_gather_in_place<B: BufferMut + ?Sized>(
        &self,
        data: &'scope mut B,
    ) -> Result<ScopedRequest<'run, L>> {
        let operation = "iall_gather_in_place";
        let call =
            self.communicator.all_gather_in_place_call::<B::Element>(operation, data.count());
        self.moves_within(operation, call, data)
    }

    /// [`scatter`](crate::Communicator::scatter) (MPI_Iscatter).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let (all, mut block) = ([10, 11, 12], [0]);
    ///     world.scope(|s| {
    ///         s.iscatter(&all, &mut block, 2)?;
    ///         Ok(())
    ///     }).unwrap();
    ///     assert_eq!(block, [10 + world.rank()]);
    /// });
    /// ```
    #[track_caller]
    pub fn iscatter<B, C>(
        &self,
        all: &'scope B,
        block: &'scope mut C,
        root: Rank,
    ) -> Result<ScopedRequest<'run, L>>
    where
        B: Buffer<Element = C::Element> + ?Sized,
        C: BufferMut + ?Sized,
    {
        let comm = self.communicator;
        let call = comm.scatter_call::<B::Element>("iscatter", all.count(), block.count(), root);
        self.moves("iscatter", call, self.lender.lend(all), self.lender.lend_mut(block))
    }

    /// [`scatter_in_place`](crate::Communicator::scatter_in_place)
    /// (MPI_Iscatter with MPI_IN_PLACE at the root).
    #[track_caller]
    pub fn iscatter_in_place<B: BufferMut + ?Sized>(
        &self,
        data: &'scope mut B,
        root: Rank,
    ) -> Result<ScopedRequest<'run, L>> {
        let operation = "iscatter_in_place";
        let call =
            self.communicator.scatter_in_place_call::<B::Element>(operation, data.count(), root);
        self.moves_within(operation, call, data)
    }

    /// [`all_to_all_into`](crate::Communicator::all_to_all_into) (MPI_Ialltoall).
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     let (r, mut from) = (world.rank(), [0; 2]);
    ///     let to = [10 * r, 10 * r + 1];
    ///     world.scope(|s| {
    ///         s.iall_to_all(&to, &mut from)?;
    ///         Ok(())
    ///     }).unwrap();
    ///     assert_eq!(from, [r, 10 + r]);
    /// });
    /// ```
    #[track_caller]
    pub fn iall_to_all<B, C>(
        &self,
        blocks: &'scope B,
        result: &'scope mut C,
    ) -> Result<ScopedRequest<'run, L>>
    where
        B: Buffer + ?Sized,
        C: BufferMut<Element = B::Element> + ?Sized,
    {
        let comm = self.communicator;
        let call =
            comm.all_to_all_call::<B::Element>("iall_to_all", blocks.count(), result.count());
        self.moves("iall_to_all", call, self.lender.lend(blocks), self.lender.lend_mut(result))
    }

    /// [`all_to_all_in_place`](crate::Communicator::all_to_all_in_place)
    /// (MPI_Ialltoall with MPI_IN_PLACE).
    #[track_caller]
    pub fn iall_to_all_in_place<B: BufferMut + ?Sized>(
        &self,
        blocks: &'scope mut B,
    ) -> Result<ScopedRequest<'run, L>> {
        let operation = "iall_to_all_in_place";
        let call =
            self.communicator.all_to_all_in_place_call::<B::Element>(operation, blocks.count());
        self.moves_within(operation, call, blocks)
    }

    /// [`reduce_into`](crate::Communicator::reduce_into) (MPI_Ireduce).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let (data, mut sum) = ([world.rank()], [0]);
    ///     world.scope(|s| {
    ///         s.ireduce(&data, &mut sum, oxmpi::Sum, 0)?;
    ///         Ok(())
    ///     }).unwrap();
    ///     assert!(world.rank() != 0 || sum == [3]);
    /// });
    /// ```
    #[track_caller]
    pub fn ireduce<T: Element>(
        &self,
        data: &'scope [T],
        result: &'scope mut [T],
        op: impl Into<Op<T>>,
        root: Rank,
    ) -> Result<ScopedRequest<'run, L>> {
        let op = op.into();
        let call = self.communicator.reduce_call("ireduce", (data.len(), result.len()), &op, root);
        self.combines_into("ireduce", call, data, result, op)
    }

    /// [`reduce_in_place`](crate::Communicator::reduce_in_place)
    /// (MPI_Ireduce with MPI_IN_PLACE at the root).
    #[track_caller]
    pub fn ireduce_in_place<T: Element>(
        &self,
        data: &'scope mut [T],
        op: impl Into<Op<T>>,
        root: Rank,
    ) -> Result<ScopedRequest<'run, L>> {
        let op = op.into();
        let call =
            self.communicator.reduce_in_place_call("ireduce_in_place", data.len(), &op, root);
        self.combines_within("ireduce_in_place", call, data, op)
    }

    /// [`all_reduce_into`](crate::Communicator::all_reduce_into) (MPI_Iallreduce).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let (residual, mut largest) = ([f64::from(world.rank())], [0.0]);
    ///     world.scope(|s| {
    ///         let reduced = s.iall_reduce(&residual, &mut largest, oxmpi::Max)?;
    ///         // ... compute ...
    ///         reduced.wait()
    ///     }).unwrap();
    ///     assert_eq!(largest, [2.0]);
    /// });
    /// ```
    #[track_caller]
    pub fn iall_reduce<T: Element>(
        &self,
        data: &'scope [T],
        result: &'scope mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<ScopedRequest<'run, L>> {
        check_equal("iall_reduce", "data", data.len(), result.len());
        let op = op.into();
        let call = all_reduce_call(data.len(), &op, false);
        self.combines_into("iall_reduce", call, data, result, op)
    }

    /// [`all_reduce_in_place`](crate::Communicator::all_reduce_in_place)
    /// (MPI_Iallreduce with MPI_IN_PLACE).
    #[track_caller]
    pub fn iall_reduce_in_place<T: Element>(
        &self,
        data: &'scope mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<ScopedRequest<'run, L>> {
        let op = op.into();
        let call = all_reduce_call(data.len(), &op, true);
        self.combines_within("iall_reduce_in_place", call, data, op)
    }

    /// [`reduce_scatter_block_into`](crate::Communicator::reduce_scatter_block_into)
    /// (MPI_Ireduce_scatter_block).
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     let (blocks, mut mine) = ([1, 10 + world.rank()], [0]);
    ///     world.scope(|s| {
    ///         s.ireduce_scatter_block(&blocks, &mut mine, oxmpi::Sum)?;
    ///         Ok(())
    ///     }).unwrap();
    ///     assert_eq!(mine, [[2], [21]][world.rank() as usize]);
    /// });
    /// ```
    #[track_caller]
    pub fn ireduce_scatter_block<T: Element>(
        &self,
        blocks: &'scope [T],
        block: &'scope mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<ScopedRequest<'run, L>> {
        let (comm, op) = (self.communicator, op.into());
        comm.check_blocks("ireduce_scatter_block", "blocks", blocks.len(), block.len());
        let call =
            comm.reduce_scatter_block_call("ireduce_scatter_block", blocks.len(), &op, false);
        self.combines_into("ireduce_scatter_block", call, blocks, block, op)
    }

    /// [`scan`](crate::Communicator::scan) into existing memory (MPI_Iscan).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut sum = [0];
    ///     world.scope(|s| {
    ///         s.iscan(&[1], &mut sum, oxmpi::Sum)?;
    ///         Ok(())
    ///     }).unwrap();
    ///     assert_eq!(sum, [world.rank() + 1]);
    /// });
    /// ```
    #[track_caller]
    pub fn iscan<T: Element>(
        &self,
        data: &'scope [T],
        result: &'scope mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<ScopedRequest<'run, L>> {
        check_equal("iscan", "data", data.len(), result.len());
        let op = op.into();
        let call = scan_call(data.len(), &op, false);
        self.combines_into("iscan", call, data, result, op)
    }

    /// [`scan_in_place`](crate::Communicator::scan_in_place) (MPI_Iscan with MPI_IN_PLACE).
    #[track_caller]
    pub fn iscan_in_place<T: Element>(
        &self,
        data: &'scope mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<ScopedRequest<'run, L>> {
        let op = op.into();
        let call = scan_call(data.len(), &op, true);
        self.combines_within("iscan_in_place", call, data, op)
    }

    /// [`exclusive_scan`](crate::Communicator::exclusive_scan) into existing memory (MPI_Iexscan).
    /// `result` stays unchanged at rank 0.
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let mut before = [-1];
    ///     world.scope(|s| {
    ///         s.iexclusive_scan(&[10], &mut before, oxmpi::Sum)?;
    ///         Ok(())
    ///     }).unwrap();
    ///     assert_eq!(before, [[-1], [10], [20]][world.rank() as usize]);
    /// });
    /// ```
    #[track_caller]
    pub fn iexclusive_scan<T: Element>(
        &self,
        data: &'scope [T],
        result: &'scope mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<ScopedRequest<'run, L>> {
        check_equal("iexclusive_scan", "data", data.len(), result.len());
        let op = op.into();
        let call = exclusive_scan_call(data.len(), &op, false);
        self.combines_into("iexclusive_scan", call, data, result, op)
    }

    /// [`exclusive_scan_in_place`](crate::Communicator::exclusive_scan_in_place)
    /// (MPI_Iexscan with MPI_IN_PLACE).
    #[track_caller]
    pub fn iexclusive_scan_in_place<T: Element>(
        &self,
        data: &'scope mut [T],
        op: impl Into<Op<T>>,
    ) -> Result<ScopedRequest<'run, L>> {
        let op = op.into();
        let call = exclusive_scan_call(data.len(), &op, true);
        self.combines_within("iexclusive_scan_in_place", call, data, op)
    }
}
