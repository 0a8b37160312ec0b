//! Reductions by functions of the program, and by kernels for elements with padding. The combining
//! rank unpacks one contribution after another, so the function gets whole elements. It combines
//! `a0 op (a1 op (a2 op ...))` between steps, without a lock.

use super::combining::share_of_elements;
use super::steps::{CollectivePiece, ExchangeAction, Steps};
use super::{MappedSection, limits};
use crate::Process;
use crate::comm::Communicator;
use crate::errors::{fault_of, of_fault};
use crate::process::UserCall;
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Combine, Memory, UserReduction};
use oxmpi_engine::Fault;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Scratch;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Collective};
use oxmpi_shm::control_section::Stated;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

struct ElementReduction<'a, F: Fabric> {
    steps: Steps<'a, F>,
    /// `right <- left op right`, with the same number of elements on both sides.
    combine: &'a dyn Fn(&UserBuf, &UserBuf) -> Result<()>,
    size: usize,
    bytes: usize,
    given: &'a UserBuf,
    output: &'a UserBuf,
    in_place: bool,
    left: Scratch,
    /// The first error of the operation. The other ranks complete the collective all the same.
    error: Cell<Option<MpiError>>,
}

fn kind_of(call: &Call) -> Option<(Collective, usize, bool)> {
    Some(match call {
        Call::Reduce { count, in_place, .. } => (Collective::Reduce, count.0, *in_place),
        Call::Allreduce { count, in_place, .. } => (Collective::Allreduce, count.0, *in_place),
        Call::Scan { count, in_place, .. } => (Collective::Scan, count.0, *in_place),
        Call::Exscan { count, in_place, .. } => (Collective::Exscan, count.0, *in_place),
        _ => return None,
    })
}

pub(crate) fn is_served(
    comm: &Communicator,
    call: &Call,
    combine: &Combine,
    element: Option<&Arc<Layout>>,
) -> bool {
    let is_by_elements = match combine {
        Combine::Nothing => false,
        Combine::Kernel(kernel) => kernel.size() != kernel.extent(),
        Combine::User => true,
    };
    let (Some((collective, count, _)), Some(element)) =
        (kind_of(call), element.filter(|_| is_by_elements))
    else {
        return false;
    };
    let bytes = count.checked_mul(element.size());
    comm.blocking.is_some()
        && bytes.is_some_and(|bytes| limits::serves(collective, comm.team.size(), bytes))
}

impl<F: Fabric> Process<F> {
    /// Runs a served reduction. Returns `false` if a segment has no room for an element.
    pub(crate) fn execute_elements(
        &self,
        comm: &Communicator,
        (call, memory): (&Call, &Memory),
        (combine, user): (&Combine, Option<&UserCall>),
        MappedSection { control, section }: MappedSection<'_>,
    ) -> Result<bool> {
        let Some((collective, count, in_place)) = kind_of(call) else { return Ok(false) };
        let (Some(input), Some(output)) = (memory.input.as_whole(), memory.output.as_whole())
        else {
            return Ok(false);
        };
        let Some(element) = memory.element.as_ref() else { return Ok(false) };
        let size = element.size();
        let steps = Steps { element: Some(size), ..Steps::new(self, comm, control, section) };
        let bytes = count * size;
        let most = steps.most(bytes);
        if most == 0 {
            return Ok(false);
        }
        if comm.team.is_revoked() {
            return Err(of_fault(Fault::Revoked));
        }
        let combine = |left: &UserBuf, right: &UserBuf| match (combine, user) {
            (Combine::Kernel(kernel), _) => {
                kernel.reduce(left, right).map_err(|error| of_fault(fault_of(error.into())))
            }
            (_, Some(user)) => {
                user(&UserReduction { left: left.clone(), right: right.clone() });
                Ok(())
            }
            _ => Ok(()),
        };
        let left = Scratch::new(most.min(bytes) / size, element)
            .map_err(|error| MpiError::new(abi::MPI_ERR_NO_MEM, error.to_string()))?;
        let given = if in_place { output } else { input };
        let error = Cell::new(None);
        let elements = ElementReduction {
            steps,
            combine: &combine,
            size,
            bytes,
            given,
            output,
            in_place,
            left,
            error,
        };
        elements.steps.count(collective, bytes);
        elements.run(call)?;
        self.progress_after_served();
        elements.error.into_inner().map_or(Ok(true), Err)
    }
}

impl<F: Fabric> ElementReduction<'_, F> {
    fn run(&self, call: &Call) -> Result<()> {
        let (me, ranks) = (self.steps.me, self.steps.ranks);
        match *call {
            Call::Reduce { root, .. } if root != me => {
                let pieces = self.steps.pieces_of(self.bytes);
                self.steps.give(&pieces, |at, to| self.given.pack(at, to))
            }
            Call::Reduce { .. } => self.reduce(),
            Call::Allreduce { .. } if limits::shares_elements(self.bytes) => self.shared(),
            Call::Allreduce { .. } => self.prefix(0..ranks, 0..ranks),
            Call::Scan { .. } => self.prefix(0..me + 1, me + 1..ranks),
            _ => self.prefix(0..me, me + 1..ranks),
        }
    }

    /// Combines `len` bytes at the offset `at` of each rank's piece into the output at `to`. `own`
    /// is the offset of this rank's contribution in its input; `None` if only the section has it.
    fn fold(
        &self,
        ranks: Range<u32>,
        piece: CollectivePiece,
        (at, to, len): (usize, usize, usize),
        own: Option<usize>,
    ) {
        let (size, CollectivePiece { step, len: all, .. }) = (self.size, piece);
        let count = len / size;
        if count == 0 {
            return;
        }
        let right = self.output.elements(to / size, count);
        let left = self.left.buf().elements(0, count);
        let take = |rank: u32, into: &UserBuf| {
            self.steps.section.read(rank, step, self.steps.extent(all), |from| {
                into.unpack(0, from.slice(at, len))
            });
        };
        let mut ranks = ranks.rev();
        match (ranks.next(), own) {
            (Some(last), Some(own)) if last == self.steps.me => {
                right.copy_from(0, self.given, own, len)
            }
            (Some(last), _) => take(last, &right),
            (None, _) => return,
        }
        for rank in ranks {
            let combined = match own {
                Some(own) if rank == self.steps.me => {
                    (self.combine)(&self.given.elements(own / size, count), &right)
                }
                _ => {
                    take(rank, &left);
                    (self.combine)(&left, &right)
                }
            };
            if let Err(error) = combined {
                self.error.set(Some(error));
            }
        }
    }

    fn reduce(&self) -> Result<()> {
        let steps = &self.steps;
        let pieces = steps.pieces_of(self.bytes);
        for piece in pieces.all() {
            let CollectivePiece { step, at, len, .. } = piece;
            if self.in_place {
                steps.wait_until_free(step)?;
                steps.write(step, steps.extent(len), |to| self.given.pack(at, to));
            }
            for rank in steps.others() {
                steps.see_piece(rank, &pieces, piece, len)?;
            }
            self.fold(0..steps.ranks, piece, (0, at, len), (!self.in_place).then_some(at));
            steps.finish(step);
        }
        steps.all_seen(pieces.first);
        Ok(())
    }

    /// Combines the contributions of `needed`. The ranks `readers` need this rank's contribution.
    fn prefix(&self, needed: Range<u32>, readers: Range<u32>) -> Result<()> {
        let steps = &self.steps;
        let pieces = steps.pieces_of(self.bytes);
        if needed.is_empty() {
            return steps.give(&pieces, |at, to| self.given.pack(at, to));
        }
        let gives = !readers.is_empty() || self.in_place;
        steps.exchange(&pieces, |action, piece| {
            let CollectivePiece { step, at, len, .. } = piece;
            if action != ExchangeAction::Read {
                if gives && action == ExchangeAction::Write {
                    steps.write(step, steps.extent(len), |to| self.given.pack(at, to));
                }
                return Ok(());
            }
            for rank in needed.clone().filter(|rank| *rank != steps.me) {
                steps.see_piece(rank, &pieces, piece, len)?;
            }
            self.fold(needed.clone(), piece, (0, at, len), (!self.in_place).then_some(at));
            Ok(())
        })?;
        if needed.len() == steps.ranks as usize || steps.me == steps.ranks - 1 {
            steps.all_seen(pieces.first);
        }
        Ok(())
    }

    fn shared(&self) -> Result<()> {
        let steps = &self.steps;
        let most = steps.most(self.bytes);
        let count = self.bytes.div_ceil(most);
        let mut step = steps.number(2 * count as u64);
        let first = step;
        let mut from = 0;
        while from < count {
            // Half of the segments are for contributions, the other half for results.
            let batch = (count - from).min(steps.ahead() as usize);
            let piece = |n| CollectivePiece::behind((step, from * most), n, most, self.bytes);
            let share = |rank, len| share_of_elements(rank, steps.ranks, len, self.size);
            for CollectivePiece { step, at, len, .. } in (0..batch).map(piece) {
                steps.wait_until_free(step)?;
                // Only this rank reads its own share. In place, the section must keep it.
                let mine = if self.in_place { 0..0 } else { share(steps.me, len) };
                steps.write_all_but(step, len, mine, |start, to| self.given.pack(at + start, to));
                let stated =
                    if step == first { Stated::InPool(self.bytes) } else { Stated::Nothing };
                steps.publish(step, stated);
            }
            for piece in (0..batch).map(piece) {
                for rank in steps.others() {
                    steps.see_long(rank, first, piece.step)?;
                }
                let mine = share(steps.me, piece.len);
                let result = piece.step + batch as u64;
                steps.wait_until_free(result)?;
                let at = piece.at + mine.start;
                self.fold(
                    0..steps.ranks,
                    piece,
                    (mine.start, at, mine.len()),
                    (!self.in_place).then_some(at),
                );
                steps.write(result, mine.len(), |to| self.output.pack(at, to));
                steps.publish(result, Stated::Nothing);
            }
            steps.all_seen(first);
            steps.finish(step + batch as u64 - 1);
            for CollectivePiece { step, at, len, .. } in (0..batch).map(piece) {
                let result = step + batch as u64;
                for rank in steps.others() {
                    steps.see(rank, result)?;
                    let theirs = share(rank, len);
                    steps.section.read(rank, result, theirs.len(), |part| {
                        self.output.unpack(at + theirs.start, part);
                    });
                }
                steps.finish(result);
            }
            step += 2 * batch as u64;
            from += batch;
        }
        Ok(())
    }
}
