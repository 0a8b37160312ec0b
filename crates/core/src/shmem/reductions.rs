//! Collectives that combine by kernels, in the order of the ranks.

use super::Served;
use super::combining::{Written, combine, share};
use super::limits;
use super::moves::{give, packed_copy};
use super::steps::{CollectivePiece, ExchangeAction, StepPieces, Steps};
use oxmpi_fabric::Fabric;
use oxmpi_mem::kernels::Kernel;
use oxmpi_objects::error::Result;
use oxmpi_plan::Call;
use oxmpi_shm::control_section::{Extent, Stated};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ops::Range;

#[inline]
pub(super) fn run<F: Fabric>(
    steps: Steps<'_, F>,
    served: &Served<'_>,
    kernel: &Kernel,
) -> Result<()> {
    let (input, output) = (&served.buffers.input, &served.buffers.output);
    let in_place = is_in_place(served.call);
    let given = if in_place { output } else { input };
    match (given.as_contiguous(), output.as_contiguous_mut()) {
        (Some(given), Some(output)) => {
            Reduction { steps, kernel, bytes: served.bytes, given, in_place }
                .run(served.call, output)
        }
        _ => run_packed(steps, served, kernel, in_place),
    }
}

#[inline]
fn is_in_place(call: &Call) -> bool {
    match *call {
        Call::Reduce { in_place, .. }
        | Call::Allreduce { in_place, .. }
        | Call::ReduceScatterBlock { in_place, .. }
        | Call::Scan { in_place, .. }
        | Call::Exscan { in_place, .. } => in_place,
        _ => false,
    }
}

/// [`run`] for elements that are not contiguous.
#[cold]
fn run_packed<F: Fabric>(
    steps: Steps<'_, F>,
    served: &Served<'_>,
    kernel: &Kernel,
    in_place: bool,
) -> Result<()> {
    let (input, output) = (&served.buffers.input, &served.buffers.output);
    let (from, to) = (packed_copy(input)?, packed_copy(output)?);
    if let (Some(given), Some(right)) =
        (if in_place { &to } else { &from }.as_contiguous(), to.as_contiguous_mut())
    {
        Reduction { steps, kernel, bytes: served.bytes, given, in_place }
            .run(served.call, right)?;
    }
    output.copy_from(0, &to, 0, to.packed_len());
    Ok(())
}

struct Reduction<'a, F: Fabric> {
    steps: Steps<'a, F>,
    kernel: &'a Kernel,
    bytes: usize,
    given: Bytes<'a>,
    in_place: bool,
}

impl<F: Fabric> Reduction<'_, F> {
    #[inline]
    fn run(&self, call: &Call, output: BytesMut<'_>) -> Result<()> {
        match *call {
            Call::Reduce { root, .. } => self.reduce(root, output),
            Call::Allreduce { .. } => {
                let ranks = self.steps.ranks;
                if limits::halves_allreduce(ranks, self.bytes) {
                    self.halved_allreduce(output)
                } else if limits::shares_allreduce(ranks, self.bytes) {
                    self.shared_allreduce(output)
                } else {
                    self.prefix(0..ranks, 0..ranks, output)
                }
            }
            Call::ReduceScatterBlock { .. } => self.reduce_scatter(output),
            Call::Scan { .. } => {
                let me = self.steps.me;
                self.prefix(0..me + 1, me + 1..self.steps.ranks, output)
            }
            Call::Exscan { .. } => {
                let me = self.steps.me;
                self.prefix(0..me, me + 1..self.steps.ranks, output)
            }
            _ => Ok(()),
        }
    }

    /// Combines the parts of `ranks`. `own` is this rank's part if not in the section.
    #[inline]
    fn combine<A: Fn(u32) -> Extent, P: Fn(u32) -> usize>(
        &self,
        ranks: Range<u32>,
        written: &Written<A, P>,
        own: Option<Bytes<'_>>,
        to: BytesMut<'_>,
    ) {
        combine(self.steps.view(), self.kernel, ranks, written, own, to);
    }

    #[inline]
    fn give(&self, at: usize, to: BytesMut<'_>) {
        let past_caches = self.steps.goes_past_caches(to.len());
        give(self.given.slice(at, to.len()), to, past_caches);
    }

    #[inline]
    fn see(
        &self,
        ranks: Range<u32>,
        pieces: &StepPieces,
        piece: CollectivePiece,
        written: usize,
    ) -> Result<()> {
        let mut others = ranks.filter(|rank| *rank != self.steps.me);
        others.try_for_each(|rank| self.steps.see_piece(rank, pieces, piece, written))
    }

    fn pieces(&self) -> StepPieces {
        self.steps.pieces_of(self.bytes)
    }

    fn reduce(&self, root: u32, mut output: BytesMut<'_>) -> Result<()> {
        let steps = &self.steps;
        let pieces = self.pieces();
        if steps.me != root {
            return steps.give(&pieces, |at, to| self.give(at, to));
        }
        for piece in pieces.all() {
            let CollectivePiece { step, at, len, .. } = piece;
            if self.in_place {
                steps.wait_until_free(step)?;
                steps.write(step, steps.extent(len), |to| self.give(at, to));
            }
            self.see(0..steps.ranks, &pieces, piece, len)?;
            let own = (!self.in_place).then(|| self.given.slice(at, len));
            self.combine(
                0..steps.ranks,
                &Written { step, all: |_| steps.extent(len), part: |_| 0 },
                own,
                output.slice(at, len),
            );
            steps.finish(step);
        }
        steps.all_seen(pieces.first);
        Ok(())
    }

    /// Combines the contributions of `needed`. The ranks `readers` need this rank's contribution.
    fn prefix(
        &self,
        needed: Range<u32>,
        readers: Range<u32>,
        mut output: BytesMut<'_>,
    ) -> Result<()> {
        let (steps, pieces) = (&self.steps, self.pieces());
        if needed.is_empty() {
            return steps.give(&pieces, |at, to| self.give(at, to));
        }
        let first = pieces.first;
        let gives = !readers.is_empty() || self.in_place;
        steps.exchange(&pieces, |action, piece| {
            let CollectivePiece { step, at, len, .. } = piece;
            if action != ExchangeAction::Read {
                if gives && action == ExchangeAction::Write {
                    steps.write(step, steps.extent(len), |to| self.give(at, to));
                }
                return Ok(());
            }
            self.see(needed.clone(), &pieces, piece, len)?;
            let own = (!self.in_place).then(|| self.given.slice(at, len));
            let written = Written { step, all: |_| steps.extent(len), part: |_| 0 };
            self.combine(needed.clone(), &written, own, output.slice(at, len));
            Ok(())
        })?;
        if needed.len() == steps.ranks as usize || steps.me == steps.ranks - 1 {
            steps.all_seen(first);
        }
        Ok(())
    }

    fn reduce_scatter(&self, mut output: BytesMut<'_>) -> Result<()> {
        let steps = &self.steps;
        let pieces = steps.spread_pieces(self.bytes)?;
        steps.exchange(&pieces, |action, piece| {
            let CollectivePiece { step, at, len, .. } = piece;
            if action != ExchangeAction::Read {
                if action == ExchangeAction::Write {
                    steps.write_spread(self.bytes, piece, |at, to| self.give(at, to));
                }
                return Ok(());
            }
            self.see(0..steps.ranks, &pieces, piece, steps.spread_len(piece))?;
            // In place, the result replaces the first block, which is in the section already.
            let own = self.given.slice(steps.me as usize * self.bytes + at, len);
            let part = |rank| steps.place(rank, steps.me) * len;
            let written = Written { step, all: |_| steps.spread_len(piece).into(), part };
            self.combine(0..steps.ranks, &written, Some(own), output.slice(at, len));
            Ok(())
        })?;
        steps.all_seen(pieces.first);
        Ok(())
    }

    /// Each rank combines its half of a piece in the other rank's memory, which takes the result
    /// from there. So copies write all other lines without fetching them.
    fn halved_allreduce(&self, mut output: BytesMut<'_>) -> Result<()> {
        let steps = &self.steps;
        let (me, other) = (steps.me, 1 - steps.me);
        let most = 2 * steps.most(self.bytes);
        let count = self.bytes.div_ceil(most);
        let mut step = steps.number(2 * count as u64);
        let first = step;
        let stated =
            |step| if step == first { Stated::InPool(self.bytes) } else { Stated::Nothing };
        let mut from = 0;
        while from < count {
            let batch = (count - from).min(steps.ahead() as usize);
            let pieces = || {
                (from..from + batch).map(|n| {
                    let at = n * most;
                    let len = most.min(self.bytes - at);
                    let half = |rank| {
                        let half = share(rank, 2, len);
                        (at + half.start, half.len())
                    };
                    (step + (n - from) as u64, half(me), half(other))
                })
            };
            for (step, _, (at, len)) in pieces() {
                steps.wait_until_free(step)?;
                steps.section.write_part(me, step, len, |to| self.give(at, to));
                steps.publish(step, stated(step));
            }
            for (step, (at, len), _) in pieces() {
                steps.see_long(other, first, step)?;
                let result = step + batch as u64;
                steps.wait_until_free(result)?;
                steps.section.write_part(other, step, len, |mut theirs| {
                    self.kernel.apply(self.given.slice(at, len), theirs.reborrow());
                    steps.publish(result, Stated::Nothing);
                    theirs.as_bytes().copy_to(output.slice(at, len));
                });
            }
            steps.all_seen(first);
            for (step, _, (at, len)) in pieces() {
                let result = step + batch as u64;
                steps.see(other, result)?;
                steps.read_own_part(step, len, |from| from.copy_to(output.slice(at, len)));
            }
            step += 2 * batch as u64;
            steps.finish(step - 1);
            from += batch;
        }
        Ok(())
    }

    fn shared_allreduce(&self, mut output: BytesMut<'_>) -> Result<()> {
        let steps = &self.steps;
        let most = steps.most(self.bytes);
        let count = self.bytes.div_ceil(most);
        let mut step = steps.number(2 * count as u64);
        let first = step;
        let stated =
            |step| if step == first { Stated::InPool(self.bytes) } else { Stated::Nothing };
        let mut from = 0;
        while from < count {
            let batch = (count - from).min(steps.ahead() as usize);
            let piece = |n| CollectivePiece::behind((step, from * most), n, most, self.bytes);
            for CollectivePiece { step, at, len, .. } in (0..batch).map(piece) {
                steps.wait_until_free(step)?;
                let mine = share(steps.me, steps.ranks, len);
                steps.write_all_but(step, len, mine, |start, to| self.give(at + start, to));
                steps.publish(step, stated(step));
            }
            for CollectivePiece { step, at, len, .. } in (0..batch).map(piece) {
                for rank in (0..steps.ranks).filter(|rank| *rank != steps.me) {
                    steps.see_long(rank, first, step)?;
                }
                let mine = share(steps.me, steps.ranks, len);
                let result = step + batch as u64;
                steps.wait_until_free(result)?;
                let own = self.given.slice(at + mine.start, mine.len());
                let written = Written { step, all: |_| len.into(), part: |_| mine.start };
                steps.write(result, mine.len(), |to| {
                    self.combine(0..steps.ranks, &written, Some(own), to);
                });
                steps.publish(result, Stated::Nothing);
            }
            steps.all_seen(first);
            steps.finish(step + batch as u64 - 1);
            for CollectivePiece { step, at, len, .. } in (0..batch).map(piece) {
                let result = step + batch as u64;
                for rank in (0..steps.ranks).map(|n| (steps.me + n) % steps.ranks) {
                    if rank != steps.me {
                        steps.see(rank, result)?;
                    }
                    let theirs = share(rank, steps.ranks, len);
                    steps.section.read(rank, result, theirs.len(), |from| {
                        from.copy_to(output.slice(at + theirs.start, theirs.len()));
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
