//! One collective of one rank: numbers its steps, waits for others, wakes them.
//!
//! The rules cited are those of `oxmpi_shm::control_section`.

use super::Control;
use super::lengths::{fault_of_apart, length_of};
use super::limits;
use super::spread;
use crate::Process;
use crate::awaited::{Awaited, Reason};
use crate::comm::Communicator;
use crate::errors::of_fault;
use crate::failure::check_alive;
use crate::process::Domain;
use oxmpi_engine::{Fault, Team};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::Result;
use oxmpi_plan::Collective;
use oxmpi_rt::waiting::Need;
use oxmpi_shm::control_section::{ControlSection, Extent, SHORT_BYTES, Stated};
use oxmpi_shm::door::Next;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::clock::{pass_ticks, ticks_of_ns};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// What a collective here is worth, in short messages, when it is counted how long nobody has looked at everything.
const WORTH: i32 = 2;
/// How often a wait looks at the word alone before it looks at everything, too: about two microseconds
/// on an AMD EPYC (family 25, model 17).
const SHORT_LOOKS: u32 = 80;
/// From one of those looks to the next, nanoseconds. As counted by the processor's clock: a pause as long finds the word later.
const BETWEEN_LOOKS_NS: u64 = 18;
/// As above, with more ranks than processors, where it gives up the processor between two looks.
const CROWDED_LOOKS: u32 = 12;

/// One rank's view of one collective.
#[derive(Debug)]
pub(super) struct Steps<'a, F: Fabric> {
    process: &'a Process<F>,
    pub(super) comm: &'a Communicator,
    pub(super) control: &'a Control,
    pub(super) section: &'a ControlSection,
    /// Which one, since [`Steps::count`].
    pub(super) collective: Cell<Option<Collective>>,
    /// The length of its call, bytes: those of a block, or of the vector of a broadcast, reduction or scan.
    pub(super) bytes: Cell<usize>,
    /// The packed bytes of an element of a reduction that goes element by element: pieces have whole ones.
    element: Option<usize>,
    /// Waits look at everything from the beginning ([`Steps::with_requests`]).
    has_requests: bool,
    /// This rank.
    pub(super) me: u32,
    /// Ranks of the team.
    pub(super) ranks: u32,
}

/// One step of a collective that moves `bytes` bytes of something in pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Its number in the section (rule 1).
    pub(super) step: u64,
    /// Where the piece begins.
    pub(super) at: usize,
    /// Its bytes.
    pub(super) len: usize,
}

impl Piece {
    /// The piece `n` pieces behind one that begins at `at` and has this step, of `bytes` bytes in pieces of `most`.
    #[inline]
    pub(super) fn behind((step, at): (u64, usize), n: usize, most: usize, bytes: usize) -> Piece {
        let at = at + n * most;
        Piece { step: step + n as u64, at, len: most.min(bytes - at) }
    }

    /// Whether it is the first of its collective, with which ranks state their lengths (rule 14).
    #[inline]
    pub(super) fn is_first(&self) -> bool {
        self.at == 0
    }
}

/// What is to be done with a piece of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Write it: its segment is free.
    Write,
    /// What was written, all of it one after the other, is in this processor's cache: the time to copy what stays here.
    Keep,
    /// See those of others, and read them.
    Read,
}

/// The steps of a collective, as many for each piece as its width; [`Piece::step`] is the last of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    /// The last step before.
    pub(super) before: u64,
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) bytes: usize,
    /// Bytes of all but the last.
    pub(super) most: usize,
    /// How many steps each takes: it is written when the last of these is published.
    pub(super) width: u64,
}

impl Pieces {
    /// Pieces of `most` bytes that `bytes` bytes make: one of nothing at all.
    #[inline]
    pub(super) fn how_many(bytes: usize, most: usize) -> u64 {
        if bytes <= most { 1 } else { bytes.div_ceil(most) as u64 }
    }

    /// The last step of the last one.
    #[inline]
    pub(super) fn last(&self) -> u64 {
        self.first - 1 + self.count * self.width
    }

    #[inline]
    pub(super) fn piece(&self, n: u64) -> Piece {
        let at = n as usize * self.most;
        let len = self.most.min(self.bytes - at);
        Piece { step: self.first + (n + 1) * self.width - 1, at, len }
    }

    /// All of them.
    #[inline]
    pub(super) fn all(&self) -> impl Iterator<Item = Piece> + use<> {
        self.range(0..self.count)
    }

    #[inline]
    fn range(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + use<> {
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

    /// The same where the other ranks may come only when this rank has carried out requests of theirs.
    pub(super) fn with_requests(self) -> Steps<'a, F> {
        Steps { has_requests: true, ..self }
    }

    /// The same, of a reduction whose elements have `size` packed bytes, and which goes element by element.
    pub(super) fn by_elements(steps: Steps<'a, F>, size: usize) -> Steps<'a, F> {
        Steps { element: Some(size), ..steps }
    }

    /// Counts the collective that begins, of a call for `bytes`.
    #[inline]
    pub(super) fn count(&self, collective: Collective, bytes: usize) {
        self.collective.set(Some(collective));
        self.bytes.set(bytes);
        self.control.count();
        self.process.tool.calls.count_small(collective, self.process.is_threaded());
    }

    /// The longest piece of one rank for another, bytes, of blocks or a vector of so many bytes.
    #[inline]
    pub(super) fn most(&self, bytes: usize) -> usize {
        let most = self
            .collective
            .get()
            .map_or(limits::PIECE, |collective| limits::longest(collective, bytes, self.control.is_crowded));
        let most = self.segment().min(most);
        self.element.map_or(most, |size| most / size * size)
    }

    /// All that a rank may write in a step, bytes.
    #[inline]
    pub(super) fn segment(&self) -> usize {
        self.section.segment_bytes()
    }

    /// How many steps of an exchange are written before the first of them is read: with as many again others may still be
    /// busy while the next are written.
    #[inline]
    pub(super) fn ahead(&self) -> u64 {
        self.section.segments() / 2
    }

    /// The numbers of the next `count` steps: the first of them.
    #[inline]
    pub(super) fn number(&self, count: u64) -> u64 {
        self.control.number(count)
    }

    /// Steps for `bytes` bytes, of a vector or of each block, in pieces as long as the collective has them.
    #[inline]
    pub(super) fn pieces_of(&self, bytes: usize) -> Pieces {
        let pieces = self.pieces_after(self.control.last_begun(), bytes);
        self.number(pieces.count);
        pieces
    }

    /// As [`Steps::pieces_of`], if the last step before was this one: a step for each piece, one for nothing at all.
    #[inline]
    fn pieces_after(&self, before: u64, bytes: usize) -> Pieces {
        let most = self.most(bytes);
        Pieces { before, first: before + 1, count: Pieces::how_many(bytes, most), bytes, most, width: 1 }
    }

    /// Steps for a block of `block` bytes for each other rank.
    #[inline]
    pub(super) fn spread_pieces(&self, block: usize) -> Result<Pieces> {
        let pieces = self.spread_after(self.control.last_begun(), block);
        self.control.set_last(pieces.last());
        if pieces.width > 1 {
            self.state_width(&pieces)?;
        }
        Ok(pieces)
    }

    /// States the length of a call whose first piece takes several steps where others may expect a piece of one step, or of more.
    #[inline(never)]
    fn state_width(&self, pieces: &Pieces) -> Result<()> {
        let begin = pieces.before + 1;
        self.wait_until_free(begin)?;
        self.publish(begin, Stated::InPool(pieces.bytes));
        if pieces.first > begin {
            // Nobody waits for what is left out.
            self.finish(pieces.first - 1);
        }
        Ok(())
    }

    /// Whether a rank has stated another length than this one in the step with which the collective begins.
    fn differs(&self, rank: u32, begin: u64) -> bool {
        let stated = self.section.stated_length(rank, begin);
        stated.is_some_and(|length| length != self.bytes.get())
    }

    /// As [`Steps::spread_pieces`], if the last step before was this one. With more ranks than processors pieces are as long as
    /// they can be (rule 11): each costs changes of process.
    #[inline]
    fn spread_after(&self, before: u64, block: usize) -> Pieces {
        let others = self.ranks as usize - 1;
        let is_long = self.control.is_crowded && self.ranks > 2 && block * others > self.segment();
        let width = if is_long {
            limits::segments_of(block * others, self.segment(), self.section.segments())
        } else {
            1
        };
        let most = match width {
            1 => spread::longest(self.segment(), self.most(block), self.ranks, block),
            _ => spread::longest(self.segment() * width as usize, usize::MAX, self.ranks, block),
        };
        let count = Pieces::how_many(block, most);
        // None lies across the end of a lap.
        let first = if width == 1 { before + 1 } else { (before + 1).next_multiple_of(width) };
        Pieces { before, first, count, bytes: block, most, width }
    }

    /// The last step of this collective, after the step `before`, of a call for `bytes`.
    pub(super) fn last_after(&self, before: u64, bytes: usize) -> u64 {
        use Collective::{Allreduce, Alltoall, ReduceScatterBlock};
        let pieces = match self.collective.get() {
            Some(Alltoall | ReduceScatterBlock) => self.spread_after(before, bytes),
            Some(Allreduce) if self.element.is_some() && limits::shares_elements(bytes) => {
                return before + 2 * bytes.div_ceil(self.most(bytes)) as u64;
            }
            Some(Allreduce) if self.element.is_none() && limits::halves_allreduce(self.ranks, bytes) => {
                return before + 2 * bytes.div_ceil(2 * self.most(bytes)) as u64;
            }
            Some(Allreduce) if self.element.is_none() && limits::shares_allreduce(self.ranks, bytes) => {
                return before + 2 * bytes.div_ceil(self.most(bytes)) as u64;
            }
            _ => self.pieces_after(before, bytes),
        };
        pieces.last()
    }

    /// All ranks write and all read: as many pieces are written as may be under way, then read.
    #[inline]
    pub(super) fn exchange(
        &self,
        pieces: &Pieces,
        mut take: impl FnMut(Turn, Piece) -> Result<()>,
    ) -> Result<()> {
        let mut from = 0;
        while from < pieces.count {
            let to = pieces.count.min(from + (self.ahead() / pieces.width).max(1));
            for piece in pieces.range(from..to) {
                self.wait_until_free(piece.step)?;
                take(Turn::Write, piece)?;
                self.publish(piece.step, self.stated_with(piece, self.exchanged_len(piece)));
            }
            let (first, last) = (pieces.piece(from), pieces.piece(to - 1));
            take(Turn::Keep, Piece { len: last.at + last.len - first.at, ..first })?;
            for piece in pieces.range(from..to) {
                take(Turn::Read, piece)?;
                self.finish(piece.step);
            }
            from = to;
        }
        Ok(())
    }

    /// This rank writes, and others read: `fill` copies what begins at some byte.
    #[inline]
    pub(super) fn give(&self, pieces: &Pieces, fill: impl Fn(usize, BytesMut<'_>)) -> Result<()> {
        for piece in pieces.all() {
            self.wait_until_free(piece.step)?;
            self.write(piece.step, self.extent(piece.len), |to| fill(piece.at, to));
            self.publish_last(piece.step, self.stated_with(piece, piece.len));
        }
        Ok(())
    }

    /// Bytes that a rank writes in a step of an exchange.
    #[inline]
    fn exchanged_len(&self, piece: Piece) -> usize {
        let spreads = self.collective.get().is_some_and(spread::spreads);
        if spreads { self.spread_len(piece) } else { piece.len }
    }

    /// What this rank states with a piece for which it, or its giver, writes `written` bytes.
    #[inline]
    pub(super) fn stated_with(&self, piece: Piece, written: usize) -> Stated {
        match piece.is_first() {
            true => Stated::of(self.bytes.get(), self.is_short(written)),
            false => Stated::Nothing,
        }
    }

    /// This rank has seen that one other rank has begun the collective of this first step. Of two ranks that is all: who gives
    /// and who takes in turn need not look for what the other one is done with.
    #[inline]
    pub(super) fn one_seen(&self, first: u64) {
        if self.ranks == 2 {
            self.all_seen(first);
        }
    }

    /// This rank has seen that all others have begun the collective of this first step (rule 5).
    #[inline]
    pub(super) fn all_seen(&self, first: u64) {
        let free_to = first - 1 + self.section.segments();
        if self.control.free_to.load(Ordering::Relaxed) < free_to {
            self.control.free_to.store(free_to, Ordering::Relaxed);
        }
    }

    /// Waits until the segment of a step may be written (rule 2).
    #[inline]
    pub(super) fn wait_until_free(&self, step: u64) -> Result<()> {
        match step <= self.control.free_to.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.wait_until_done(step - self.section.segments()),
        }
    }

    /// Waits until all ranks are done with a step (rule 4), and notes what they are all done with.
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

    /// The section, and this rank.
    #[inline]
    pub(super) fn view(&self) -> (&ControlSection, u32) {
        (self.section, self.me)
    }

    /// Whether a rank has published a step (rule 3).
    #[inline]
    pub(super) fn has_published(&self, rank: u32, step: u64) -> bool {
        self.section.is_published(rank, step)
    }

    /// Waits until a rank has published a step (rule 3).
    #[inline]
    pub(super) fn see(&self, rank: u32, step: u64) -> Result<()> {
        match self.section.is_published(rank, step) {
            true => Ok(()),
            false => self.wait_for_rank(rank, step, || self.section.is_published(rank, step)),
        }
    }

    /// What this rank states with the only step of a collective, for which it writes `written` bytes.
    #[inline]
    pub(super) fn stated_alone(&self, written: usize) -> Stated {
        let bytes = self.bytes.get();
        if self.is_short(written) { Stated::InLine(bytes) } else { Stated::InPool(bytes) }
    }

    /// As [`Steps::see`], of a piece for which the rank writes `written` bytes. With the first one it states its length.
    #[inline]
    pub(super) fn see_piece(&self, rank: u32, pieces: &Pieces, piece: Piece, written: usize) -> Result<()> {
        match self.stated_with(piece, written) {
            Stated::Nothing => self.see(rank, piece.step),
            stated if pieces.width > 1 => self.see_wide(rank, pieces.before, piece.step, stated),
            stated => self.see_stated(rank, (pieces.before, piece.step), stated, || {}),
        }
    }

    /// As [`Steps::see_stated`], of a piece of several steps.
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

    /// As [`Steps::see`], of a step of a collective that begins at the step `first`, where each has written in the pool.
    #[inline]
    pub(super) fn see_long(&self, rank: u32, first: u64, step: u64) -> Result<()> {
        match step == first {
            true => self.see_stated(rank, (first - 1, first), Stated::InPool(self.bytes.get()), || {}),
            false => self.see(rank, step),
        }
    }

    /// As [`Steps::see`], of the only step of a collective, for which the rank writes `written` bytes, which are read next: fetches them,
    /// too, if they lie in the pool.
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

    /// The rest of [`Steps::see_in_line`]. Apart, so that the straight line saves no registers.
    #[inline(never)]
    fn wait_in_line(&self, rank: u32, step: u64) -> Result<()> {
        self.wait_for_stated(rank, (step - 1, step), Stated::InLine(self.bytes.get()), || {})
    }

    #[inline(never)]
    fn see_in_pool(&self, rank: u32, step: u64, written: usize) -> Result<()> {
        let fetch = || self.section.fetch(rank, step, written);
        self.see_stated(rank, (step - 1, step), Stated::InPool(self.bytes.get()), fetch)
    }

    /// As [`Steps::see_data`], of `len` bytes in this rank's part of the pool.
    #[inline]
    pub(super) fn see_own_part(&self, rank: u32, step: u64, len: usize) -> Result<()> {
        let fetch = || self.section.fetch_part(self.me, step, len);
        self.see_stated(rank, (step - 1, step), Stated::InPool(len), fetch)
    }

    /// Waits until a rank has published the first step of this collective, and compares what it states (rule 14). The step before the
    /// collective, and the one of the rank. Calls `fetch` before each read of the line.
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

    /// The rest of [`Steps::see_stated`].
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
    pub(super) fn wait_for_rank(&self, rank: u32, step: u64, is_there: impl Fn() -> bool) -> Result<()> {
        if self.has_requests {
            // Only a look at everything carries them out.
        } else if !self.process.is_crowded {
            let gap = ticks_of_ns(BETWEEN_LOOKS_NS);
            for _ in 0..SHORT_LOOKS {
                pass_ticks(gap);
                if is_there() {
                    return Ok(());
                }
            }
        } else if let Some(door) = &self.process.door {
            let mut wait = door.begin();
            for _ in 0..CROWDED_LOOKS {
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

    /// The rest of such a wait, which looks at everything. Once for all that is waited for: it is 15 KiB of instructions.
    #[inline(never)]
    fn wait_long_for_rank(&self, rank: u32, step: u64, is_there: &dyn Fn() -> bool) -> Result<()> {
        // A member that has failed will not come, one that has heard of a revocation neither.
        let team = &self.comm.team;
        let reason = |domain: &Domain<F>| self.reason(domain, rank, step);
        self.process
            .wait_for_announced(
                &Awaited::Said(&reason),
                |domain| match is_there() {
                    true => Some(Ok(())),
                    false => self.fault(domain, team).map(Err),
                },
                || self.section.want(rank, self.me),
            )
            .map_err(of_fault)
    }

    /// Why nobody will come.
    fn fault(&self, domain: &Domain<F>, team: &Team) -> Option<Fault> {
        check_alive(&domain.lane, team).err().or_else(|| fault_of_apart(self.section))
    }

    /// Why a wait for a rank in a step goes on. Of collectives in which all wait for all, all are named that are not there yet.
    fn reason(&self, domain: &Domain<F>, rank: u32, step: u64) -> Reason {
        use Collective::{Allgather, Allreduce, Alltoall, Barrier, ReduceScatterBlock};
        let for_all = matches!(
            self.collective.get(),
            Some(Allgather | Allreduce | Alltoall | Barrier | ReduceScatterBlock)
        );
        let is_late = |other: &u32| {
            *other == rank || (for_all && *other != self.me && !self.section.is_published(*other, step))
        };
        let late = (0..self.ranks).filter(is_late).filter_map(|rank| self.comm.team.map.process(rank));
        let place = domain.place(self.comm.team.collective, None);
        let name =
            self.collective.get().map_or_else(|| "collective".into(), |collective| collective.to_string());
        let length = self
            .collective
            .get()
            .map_or_else(String::new, |collective| length_of(collective, self.bytes.get()));
        let text = format!("{name}{length}{place}, in shared memory");
        Reason::new(text, Need::All, Vec::from_iter(late))
    }

    /// Has `fill` write this rank's data of a step, whose segment is free.
    #[inline]
    pub(super) fn write(&self, step: u64, extent: impl Into<Extent>, fill: impl FnOnce(BytesMut<'_>)) {
        self.section.write(self.me, step, extent, fill);
    }

    /// As [`Steps::write`], all of `len` bytes but the range `mine`: `give` writes what begins at a place.
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

    /// Shows `f` what another rank has written for a step, which was seen, in this rank's part of the pool.
    #[inline]
    pub(super) fn read_own_part(&self, step: u64, extent: impl Into<Extent>, f: impl FnOnce(Bytes<'_>)) {
        self.section.read_part(self.me, step, extent, f);
    }

    /// How a piece of `len` bytes lies, of this collective whose data go one way.
    #[inline]
    pub(super) fn extent(&self, len: usize) -> Extent {
        if len >= limits::TURNING && self.turns(len) { Extent::turning(len) } else { len.into() }
    }

    /// Whether `len` bytes that this rank writes are stored past the caches.
    #[inline]
    pub(super) fn goes_past_caches(&self, len: usize) -> bool {
        !self.control.is_crowded
            && self.collective.get().is_some_and(|collective| limits::goes_past_caches(collective, len))
    }

    #[inline(never)]
    fn turns(&self, len: usize) -> bool {
        !self.control.is_crowded
            && self.collective.get().is_some_and(|collective| limits::turns(collective, len))
    }

    /// Whether data of this length ride in the lines that announce them.
    #[inline]
    pub(super) fn is_short(&self, len: usize) -> bool {
        len <= SHORT_BYTES
    }

    /// Tells that this rank has written its data of a step, and states its length.
    #[inline]
    pub(super) fn publish(&self, step: u64, stated: Stated) {
        self.section.publish(self.me, step, stated);
        self.wake();
    }

    /// As [`Steps::publish`], of `written` bytes in the only step of a collective, where every rank waits for all others.
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

    /// As [`Steps::publish_last`], of the only step of a collective, whose data ride in the line.
    #[inline]
    pub(super) fn publish_last_in_line(&self, step: u64, bytes: usize) {
        self.section.publish(self.me, step, Stated::InLine(bytes));
        self.section.finish(self.me, step);
        self.wake();
    }

    /// This rank is done with a step.
    #[inline]
    pub(super) fn finish(&self, step: u64) {
        self.section.finish(self.me, step);
        self.wake();
    }

    /// Publishes a step with which this rank is done then.
    #[inline]
    pub(super) fn publish_last(&self, step: u64, stated: Stated) {
        self.section.publish(self.me, step, stated);
        self.section.finish(self.me, step);
        self.wake();
    }

    /// Wakes who sleeps until this rank goes on (rule 6).
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
    /// Who never waits in a collective has others wait for something else of it.
    #[inline(always)]
    pub(super) fn look_after_served(&self) {
        let is_due = match self.domain.home() {
            Some(mut domain) => domain.lane.is_look_due(WORTH),
            None => self.domain.lock().lane.is_look_due(WORTH),
        };
        if is_due {
            self.look_at_all();
        }
    }

    #[cold]
    fn look_at_all(&self) {
        self.look(|_| ());
    }
}
