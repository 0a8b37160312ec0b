//! One collective of one rank: it numbers its steps, waits for other ranks, and wakes them.
//!
//! The cited rules are those of `oxmpi_shm::control_section`.

use super::Control;
use super::lengths::{fault_of_apart, length_of};
use super::limits;
use super::spread;
use crate::Process;
use crate::comm::Communicator;
use crate::errors::of_fault;
use crate::failure::check_alive;
use crate::process::Domain;
use crate::wait_reason::{Awaited, Reason};
use oxmpi_engine::{Fault, Team};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::Result;
use oxmpi_plan::Collective;
use oxmpi_rt_client::waiting::Need;
use oxmpi_shm::control_section::{ControlSection, Extent, SHORT_BYTES, Stated};
use oxmpi_shm::door::Next;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::clock::{pass_ticks, ticks_of_ns};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The weight of a collective in the count after which progress is due, in short messages.
const WORTH: i32 = 2;
/// With the gaps about two microseconds on an AMD EPYC (family 25, model 17).
const POLLS: u32 = 80;
/// The clock fills a gap, since pause instructions of this length find the word later.
const POLL_GAP_NS: u64 = 18;
/// The number of polls with more ranks than processors; the rank yields its processor between two.
const OVERSUBSCRIBED_POLLS: u32 = 12;

#[derive(Debug)]
pub(super) struct Steps<'a, F: Fabric> {
    pub(super) process: &'a Process<F>,
    pub(super) comm: &'a Communicator,
    pub(super) control: &'a Control,
    pub(super) section: &'a ControlSection,
    pub(super) collective: Cell<Option<Collective>>,
    pub(super) bytes: Cell<usize>,
    /// In a reduction by elements, the packed bytes of an element. A piece has whole elements.
    pub(super) element: Option<usize>,
    /// Whether each wait makes progress at once, for ranks that need this rank's answers first.
    pub(super) has_requests: bool,
    pub(super) me: u32,
    pub(super) ranks: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CollectivePiece {
    pub(super) step: u64,
    pub(super) at: usize,
    pub(super) len: usize,
}

impl CollectivePiece {
    #[inline]
    pub(super) fn behind(
        (step, at): (u64, usize),
        n: usize,
        most: usize,
        bytes: usize,
    ) -> CollectivePiece {
        let at = at + n * most;
        CollectivePiece { step: step + n as u64, at, len: most.min(bytes - at) }
    }

    /// With the first piece ranks state their lengths (rule 14).
    #[inline]
    pub(super) fn is_first(&self) -> bool {
        self.at == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeAction {
    Write,
    CopyOwn,
    Read,
}

/// Each piece takes `width` steps. [`CollectivePiece::step`] is the last of these.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepPieces {
    pub(super) before: u64,
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) bytes: usize,
    pub(super) most: usize,
    /// The number of steps of a piece. The piece is written when its last step is published.
    pub(super) width: u64,
}

impl StepPieces {
    #[inline]
    pub(super) fn how_many(bytes: usize, most: usize) -> u64 {
        if bytes <= most { 1 } else { bytes.div_ceil(most) as u64 }
    }

    #[inline]
    pub(super) fn last(&self) -> u64 {
        self.first - 1 + self.count * self.width
    }

    #[inline]
    pub(super) fn piece(&self, n: u64) -> CollectivePiece {
        let at = n as usize * self.most;
        let len = self.most.min(self.bytes - at);
        CollectivePiece { step: self.first + (n + 1) * self.width - 1, at, len }
    }

    #[inline]
    pub(super) fn all(&self) -> impl Iterator<Item = CollectivePiece> + use<> {
        self.range(0..self.count)
    }

    #[inline]
    fn range(&self, range: Range<u64>) -> impl Iterator<Item = CollectivePiece> + use<> {
        let pieces = *self;
        range.map(move |n| pieces.piece(n))
    }
}

impl<'a, F: Fabric> Steps<'a, F> {
    #[inline]
    pub(super) fn new(
        process: &'a Process<F>,
        comm: &'a Communicator,
        control: &'a Control,
        section: &'a ControlSection,
    ) -> Steps<'a, F> {
        let (me, ranks) = (comm.team.rank, comm.team.size());
        let (collective, bytes) = (Cell::new(None), Cell::new(0));
        Steps {
            process,
            comm,
            control,
            section,
            collective,
            bytes,
            element: None,
            has_requests: false,
            me,
            ranks,
        }
    }

    #[inline]
    pub(super) fn count(&self, collective: Collective, bytes: usize) {
        self.collective.set(Some(collective));
        self.bytes.set(bytes);
        self.control.count();
        self.process.tool.calls.count_small(collective, self.process.is_threaded());
    }

    #[inline]
    pub(super) fn most(&self, bytes: usize) -> usize {
        let most = self.collective.get().map_or(limits::PIECE, |collective| {
            limits::longest(collective, bytes, self.control.is_oversubscribed)
        });
        let most = self.segment().min(most);
        self.element.map_or(most, |size| most / size * size)
    }

    #[inline]
    pub(super) fn segment(&self) -> usize {
        self.section.segment_bytes()
    }

    /// The steps of an exchange that a rank writes before its first read: half of the segments.
    #[inline]
    pub(super) fn ahead(&self) -> u64 {
        self.section.segments() / 2
    }

    #[inline]
    pub(super) fn number(&self, count: u64) -> u64 {
        self.control.number(count)
    }

    #[inline]
    pub(super) fn pieces_of(&self, bytes: usize) -> StepPieces {
        let pieces = self.pieces_after(self.control.last_begun(), bytes);
        self.number(pieces.count);
        pieces
    }

    /// The pieces after the step `before`, without a reservation of their steps.
    #[inline]
    fn pieces_after(&self, before: u64, bytes: usize) -> StepPieces {
        let most = self.most(bytes);
        StepPieces {
            before,
            first: before + 1,
            count: StepPieces::how_many(bytes, most),
            bytes,
            most,
            width: 1,
        }
    }

    #[inline]
    pub(super) fn spread_pieces(&self, block: usize) -> Result<StepPieces> {
        let pieces = self.spread_after(self.control.last_begun(), block);
        self.control.set_last(pieces.last());
        if pieces.width > 1 {
            self.state_width(&pieces)?;
        }
        Ok(pieces)
    }

    /// States the length, since other ranks may expect another number of steps for the first piece.
    #[inline(never)]
    fn state_width(&self, pieces: &StepPieces) -> Result<()> {
        let begin = pieces.before + 1;
        self.wait_until_free(begin)?;
        self.publish(begin, Stated::InPool(pieces.bytes));
        if pieces.first > begin {
            // No rank waits for the steps between.
            self.finish(pieces.first - 1);
        }
        Ok(())
    }

    fn differs(&self, rank: u32, begin: u64) -> bool {
        let stated = self.section.stated_length(rank, begin);
        stated.is_some_and(|length| length != self.bytes.get())
    }

    /// With more ranks than processors pieces are as long as possible (rule 11).
    #[inline]
    fn spread_after(&self, before: u64, block: usize) -> StepPieces {
        let others = self.ranks as usize - 1;
        let is_long =
            self.control.is_oversubscribed && self.ranks > 2 && block * others > self.segment();
        let width = if is_long {
            limits::segments_of(block * others, self.segment(), self.section.segments())
        } else {
            1
        };
        let most = match width {
            1 => spread::longest(self.segment(), self.most(block), self.ranks, block),
            _ => spread::longest(self.segment() * width as usize, usize::MAX, self.ranks, block),
        };
        let count = StepPieces::how_many(block, most);
        // No piece crosses the end of a lap.
        let first = if width == 1 { before + 1 } else { (before + 1).next_multiple_of(width) };
        StepPieces { before, first, count, bytes: block, most, width }
    }

    pub(super) fn last_after(&self, before: u64, bytes: usize) -> u64 {
        use Collective::{Allreduce, Alltoall, ReduceScatterBlock};
        let pieces = match self.collective.get() {
            Some(Alltoall | ReduceScatterBlock) => self.spread_after(before, bytes),
            Some(Allreduce)
                if self.element.is_none() && limits::halves_allreduce(self.ranks, bytes) =>
            {
                return before + 2 * bytes.div_ceil(2 * self.most(bytes)) as u64;
            }
            Some(Allreduce)
                if match self.element {
                    Some(_) => limits::shares_elements(bytes),
                    None => limits::shares_allreduce(self.ranks, bytes),
                } =>
            {
                return before + 2 * bytes.div_ceil(self.most(bytes)) as u64;
            }
            _ => self.pieces_after(before, bytes),
        };
        pieces.last()
    }

    /// All ranks write and all read, in batches of the pieces that may be under way together.
    #[inline]
    pub(super) fn exchange(
        &self,
        pieces: &StepPieces,
        mut take: impl FnMut(ExchangeAction, CollectivePiece) -> Result<()>,
    ) -> Result<()> {
        let mut from = 0;
        while from < pieces.count {
            let to = pieces.count.min(from + (self.ahead() / pieces.width).max(1));
            for piece in pieces.range(from..to) {
                self.wait_until_free(piece.step)?;
                take(ExchangeAction::Write, piece)?;
                self.publish(piece.step, self.stated_with(piece, self.exchanged_len(piece)));
            }
            let (first, last) = (pieces.piece(from), pieces.piece(to - 1));
            take(
                ExchangeAction::CopyOwn,
                CollectivePiece { len: last.at + last.len - first.at, ..first },
            )?;
            for piece in pieces.range(from..to) {
                take(ExchangeAction::Read, piece)?;
                self.finish(piece.step);
            }
            from = to;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn give(
        &self,
        pieces: &StepPieces,
        fill: impl Fn(usize, BytesMut<'_>),
    ) -> Result<()> {
        for piece in pieces.all() {
            self.wait_until_free(piece.step)?;
            self.write(piece.step, self.extent(piece.len), |to| fill(piece.at, to));
            self.publish_last(piece.step, self.stated_with(piece, piece.len));
        }
        Ok(())
    }

    #[inline]
    fn exchanged_len(&self, piece: CollectivePiece) -> usize {
        let spreads = self.collective.get().is_some_and(spread::spreads);
        if spreads { self.spread_len(piece) } else { piece.len }
    }

    #[inline]
    pub(super) fn stated_with(&self, piece: CollectivePiece, written: usize) -> Stated {
        match piece.is_first() {
            true => Stated::of(self.bytes.get(), self.is_short(written)),
            false => Stated::Nothing,
        }
    }

    /// With two ranks, one other rank is all others. So ranks that alternate as writers need not
    /// read each other's progress.
    #[inline]
    pub(super) fn one_seen(&self, first: u64) {
        if self.ranks == 2 {
            self.all_seen(first);
        }
    }

    /// Notes that all other ranks have begun the collective whose first step is `first` (rule 5).
    #[inline]
    pub(super) fn all_seen(&self, first: u64) {
        let free_to = first - 1 + self.section.segments();
        if self.control.free_to.load(Ordering::Relaxed) < free_to {
            self.control.free_to.store(free_to, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn wait_until_free(&self, step: u64) -> Result<()> {
        match step <= self.control.free_to.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.wait_until_done(step - self.section.segments()),
        }
    }

    /// Waits (rule 4). Notes the last step that all ranks have finished.
    #[inline(never)]
    fn wait_until_done(&self, step: u64) -> Result<()> {
        let mut all = u64::MAX;
        for rank in (0..self.ranks).filter(|rank| *rank != self.me) {
            let mut done = self.section.done_with(rank);
            if done < step {
                self.wait_for_rank(rank, step, || self.section.done_with(rank) >= step)?;
                done = self.section.done_with(rank);
            }
            all = all.min(done);
        }
        self.control.free_to.store(all + self.section.segments(), Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    pub(super) fn view(&self) -> (&ControlSection, u32) {
        (self.section, self.me)
    }

    #[inline]
    pub(super) fn see(&self, rank: u32, step: u64) -> Result<()> {
        match self.section.is_published(rank, step) {
            true => Ok(()),
            false => self.wait_for_rank(rank, step, || self.section.is_published(rank, step)),
        }
    }

    #[inline]
    pub(super) fn stated_alone(&self, written: usize) -> Stated {
        let bytes = self.bytes.get();
        if self.is_short(written) { Stated::InLine(bytes) } else { Stated::InPool(bytes) }
    }

    #[inline]
    pub(super) fn see_piece(
        &self,
        rank: u32,
        pieces: &StepPieces,
        piece: CollectivePiece,
        written: usize,
    ) -> Result<()> {
        match self.stated_with(piece, written) {
            Stated::Nothing => self.see(rank, piece.step),
            stated if pieces.width > 1 => self.see_wide(rank, pieces.before, piece.step, stated),
            stated => self.see_stated(rank, (pieces.before, piece.step), stated, || {}),
        }
    }

    #[inline(never)]
    fn see_wide(&self, rank: u32, before: u64, step: u64, stated: Stated) -> Result<()> {
        let is_there = || self.section.is_published(rank, step) || self.differs(rank, before + 1);
        if !is_there() {
            self.wait_for_rank(rank, step, is_there)?;
        }
        match self.section.is_published_as(rank, step, stated) {
            true => Ok(()),
            false => Err(self.end_apart(rank, before, before + 1)),
        }
    }

    /// [`Steps::see`] for a collective with its data in the pool, whose first step is `first`.
    #[inline]
    pub(super) fn see_long(&self, rank: u32, first: u64, step: u64) -> Result<()> {
        match step == first {
            true => {
                self.see_stated(rank, (first - 1, first), Stated::InPool(self.bytes.get()), || {})
            }
            false => self.see(rank, step),
        }
    }

    /// [`Steps::see`] for the only step of a collective; prefetches data in the pool.
    #[inline]
    pub(super) fn see_data(&self, rank: u32, step: u64, written: usize) -> Result<()> {
        match self.is_short(written) {
            true => self.see_in_line(rank, step),
            false => self.see_in_pool(rank, step, written),
        }
    }

    #[inline(never)]
    fn see_in_line(&self, rank: u32, step: u64) -> Result<()> {
        match self.section.is_published_as(rank, step, Stated::InLine(self.bytes.get())) {
            true => Ok(()),
            false => self.wait_in_line(rank, step),
        }
    }

    /// A function of its own, so that the fast path saves no registers.
    #[inline(never)]
    fn wait_in_line(&self, rank: u32, step: u64) -> Result<()> {
        self.wait_for_stated(rank, (step - 1, step), Stated::InLine(self.bytes.get()), || {})
    }

    #[inline(never)]
    fn see_in_pool(&self, rank: u32, step: u64, written: usize) -> Result<()> {
        let fetch = || self.section.fetch(rank, step, written);
        self.see_stated(rank, (step - 1, step), Stated::InPool(self.bytes.get()), fetch)
    }

    #[inline]
    pub(super) fn see_own_part(&self, rank: u32, step: u64, len: usize) -> Result<()> {
        let fetch = || self.section.fetch_part(self.me, step, len);
        self.see_stated(rank, (step - 1, step), Stated::InPool(len), fetch)
    }

    /// Waits for a rank's first step, and compares its statement (rule 14). `before` is the last
    /// step before the collective. Calls `fetch` before each poll.
    #[inline]
    pub(super) fn see_stated(
        &self,
        rank: u32,
        (before, step): (u64, u64),
        stated: Stated,
        fetch: impl Fn(),
    ) -> Result<()> {
        fetch();
        match self.section.is_published_as(rank, step, stated) {
            true => Ok(()),
            false => self.wait_for_stated(rank, (before, step), stated, fetch),
        }
    }

    #[inline(never)]
    fn wait_for_stated(
        &self,
        rank: u32,
        (before, step): (u64, u64),
        stated: Stated,
        fetch: impl Fn(),
    ) -> Result<()> {
        let is_there = || {
            fetch();
            self.section.is_published(rank, step)
        };
        self.wait_for_rank(rank, step, is_there)?;
        match self.section.is_published_as(rank, step, stated) {
            true => Ok(()),
            false => Err(self.end_apart(rank, before, step)),
        }
    }

    #[inline(never)]
    pub(super) fn wait_for_rank(
        &self,
        rank: u32,
        step: u64,
        is_there: impl Fn() -> bool,
    ) -> Result<()> {
        if self.has_requests {
            // Only progress carries out the requests, so there are no polls without progress.
        } else if !self.process.is_oversubscribed {
            let gap = ticks_of_ns(POLL_GAP_NS);
            for _ in 0..POLLS {
                pass_ticks(gap);
                if is_there() {
                    return Ok(());
                }
            }
        } else if let Some(door) = &self.process.door {
            let mut wait = door.begin();
            for _ in 0..OVERSUBSCRIBED_POLLS {
                match wait.next() {
                    Next::Poll if is_there() => return Ok(()),
                    Next::Poll => {}
                    Next::Sleep(sleepy) => {
                        sleepy.cancel();
                        break;
                    }
                }
            }
        }
        self.wait_long_for_rank(rank, step, &is_there)
    }

    /// The part of a wait that makes progress: 15 KiB of instructions, so in one copy.
    #[inline(never)]
    fn wait_long_for_rank(&self, rank: u32, step: u64, is_there: &dyn Fn() -> bool) -> Result<()> {
        // A rank that has failed, or that knows of a revocation, never arrives.
        let team = &self.comm.team;
        let reason = |domain: &Domain<F>| self.reason(domain, rank, step);
        self.process
            .wait_for_announced(
                &Awaited::Described(&reason),
                |domain| match is_there() {
                    true => Some(Ok(())),
                    false => self.fault(domain, team).map(Err),
                },
                || self.section.want(rank, self.me),
            )
            .map_err(of_fault)
    }

    fn fault(&self, domain: &Domain<F>, team: &Team) -> Option<Fault> {
        check_alive(&domain.lane, team).err().or_else(|| fault_of_apart(self.section))
    }

    /// If all ranks wait for all in this collective, the reason names all late ranks.
    fn reason(&self, domain: &Domain<F>, rank: u32, step: u64) -> Reason {
        use Collective::{Allgather, Allreduce, Alltoall, Barrier, ReduceScatterBlock};
        let for_all = matches!(
            self.collective.get(),
            Some(Allgather | Allreduce | Alltoall | Barrier | ReduceScatterBlock)
        );
        let is_late = |other: &u32| {
            *other == rank
                || (for_all && *other != self.me && !self.section.is_published(*other, step))
        };
        let late =
            (0..self.ranks).filter(is_late).filter_map(|rank| self.comm.team.map.process(rank));
        let place = domain.place(self.comm.team.collective, None);
        let name = self
            .collective
            .get()
            .map_or_else(|| "collective".into(), |collective| collective.to_string());
        let length = self
            .collective
            .get()
            .map_or_else(String::new, |collective| length_of(collective, self.bytes.get()));
        let text = format!("{name}{length}{place}, in shared memory");
        Reason::new(text, Need::All, Vec::from_iter(late))
    }

    #[inline]
    pub(super) fn write(
        &self,
        step: u64,
        extent: impl Into<Extent>,
        fill: impl FnOnce(BytesMut<'_>),
    ) {
        self.section.write(self.me, step, extent, fill);
    }

    pub(super) fn write_all_but(
        &self,
        step: u64,
        len: usize,
        mine: Range<usize>,
        give: impl Fn(usize, BytesMut<'_>),
    ) {
        self.write(step, len, |mut to| {
            for part in [0..mine.start, mine.end..len] {
                give(part.start, to.slice(part.start, part.len()));
            }
        });
    }

    #[inline]
    pub(super) fn read_own_part(
        &self,
        step: u64,
        extent: impl Into<Extent>,
        f: impl FnOnce(Bytes<'_>),
    ) {
        self.section.read_part(self.me, step, extent, f);
    }

    #[inline]
    pub(super) fn extent(&self, len: usize) -> Extent {
        if len >= limits::ALTERNATING && self.alternates(len) {
            Extent::turning(len)
        } else {
            len.into()
        }
    }

    #[inline]
    pub(super) fn goes_past_caches(&self, len: usize) -> bool {
        !self.control.is_oversubscribed
            && self
                .collective
                .get()
                .is_some_and(|collective| limits::goes_past_caches(collective, len))
    }

    #[inline(never)]
    fn alternates(&self, len: usize) -> bool {
        !self.control.is_oversubscribed
            && self.collective.get().is_some_and(|collective| limits::alternates(collective, len))
    }

    /// Whether data of this length are in the lines that announce their step.
    #[inline]
    pub(super) fn is_short(&self, len: usize) -> bool {
        len <= SHORT_BYTES
    }

    #[inline]
    pub(super) fn publish(&self, step: u64, stated: Stated) {
        self.section.publish(self.me, step, stated);
        self.wake();
    }

    /// Publishes the only step of a collective in which each rank waits for all others.
    #[inline]
    pub(super) fn publish_to_all(&self, step: u64, written: usize) {
        let bytes = self.bytes.get();
        match self.is_short(written) {
            true if self.ranks == 2 => self.section.publish_to_other(self.me, step, bytes),
            true => self.section.publish(self.me, step, Stated::InLine(bytes)),
            false => self.section.publish(self.me, step, Stated::InPool(bytes)),
        }
        self.wake();
    }

    /// Publishes and finishes the only step of a collective whose data are in the line.
    #[inline]
    pub(super) fn publish_last_in_line(&self, step: u64, bytes: usize) {
        self.section.publish(self.me, step, Stated::InLine(bytes));
        self.section.finish(self.me, step);
        self.wake();
    }

    #[inline]
    pub(super) fn finish(&self, step: u64) {
        self.section.finish(self.me, step);
        self.wake();
    }

    #[inline]
    pub(super) fn publish_last(&self, step: u64, stated: Stated) {
        self.section.publish(self.me, step, stated);
        self.section.finish(self.me, step);
        self.wake();
    }

    #[inline]
    pub(super) fn wake(&self) {
        let sleepers = self.section.take_sleepers(self.me);
        if sleepers != 0 {
            self.wake_all(sleepers);
        }
    }

    #[cold]
    pub(super) fn wake_all(&self, sleepers: u64) {
        let mut domain = self.process.domain.lock();
        for rank in (0..self.ranks).filter(|rank| sleepers >> rank & 1 == 1) {
            if let Some(process) = self.comm.team.map.process(rank) {
                domain.lane.fabric_mut().wake(process);
            }
        }
    }
}

impl<F: Fabric> Process<F> {
    /// A rank that never waits in its collectives must still serve the messages of its peers.
    #[inline(always)]
    pub(super) fn progress_after_served(&self) {
        let is_due = match self.domain.home() {
            Some(mut domain) => domain.lane.is_look_due(WORTH),
            None => self.domain.lock().lane.is_look_due(WORTH),
        };
        if is_due {
            self.make_progress();
        }
    }

    #[cold]
    fn make_progress(&self) {
        self.look(|_| ());
    }
}
