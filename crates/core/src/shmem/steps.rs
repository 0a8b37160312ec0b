//! One collective of one rank: numbers its steps, waits for others, wakes them.
//!
//! The rules cited are those of `oxmpi_os::control_section`.

use super::Control;
use super::limits;
use super::spread;
use crate::Process;
use crate::awaited::{Awaited, Reason};
use crate::comm::Communicator;
use crate::errors::of_fault;
use crate::failure::check_alive;
use crate::process::Domain;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::Result;
use oxmpi_os::bytes::{Bytes, BytesMut};
use oxmpi_os::clock::{pass_ticks, ticks_of_ns};
use oxmpi_os::control_section::{ControlSection, Extent, SHORT_BYTES};
use oxmpi_os::door::Next;
use oxmpi_plan::Collective;
use oxmpi_rt::waiting::Need;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// What a collective here is worth, in short messages, when it is counted how long nobody has looked at everything.
const WORTH: i32 = 2;
/// How often a wait looks at the word alone before it looks at everything, too: about two microseconds.
const SHORT_LOOKS: u32 = 80;
/// From one of those looks to the next, nanoseconds. As counted by the processor's clock: a pause as long finds the word later.
const BETWEEN_LOOKS_NS: u64 = 18;
/// As above, with more ranks than processors, where it gives up the processor between two looks.
const CROWDED_LOOKS: u32 = 12;

/// One rank's view of one collective.
#[derive(Debug)]
pub(super) struct Steps<'a, F: Fabric> {
    process: &'a Process<F>,
    comm: &'a Communicator,
    pub(super) control: &'a Control,
    pub(super) section: &'a ControlSection,
    /// Which one, since [`Steps::count`].
    collective: Cell<Option<Collective>>,
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
        Steps { process, comm, control, section, collective: Cell::new(None), me, ranks }
    }

    /// Counts the collective that begins.
    #[inline]
    pub(super) fn count(&self, collective: Collective) {
        self.collective.set(Some(collective));
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
        self.segment().min(most)
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

    /// Steps for `bytes` bytes in pieces of `most`, a step each; one step for nothing at all.
    #[inline]
    pub(super) fn pieces(&self, bytes: usize, most: usize) -> Pieces {
        let count = Pieces::how_many(bytes, most);
        Pieces { first: self.number(count), count, bytes, most, width: 1 }
    }

    /// Steps for `bytes` bytes, of a vector or of each block, in pieces as long as the collective has them.
    #[inline]
    pub(super) fn pieces_of(&self, bytes: usize) -> Pieces {
        self.pieces(bytes, self.most(bytes))
    }

    /// Steps for a block of `block` bytes for each other rank. With more ranks than processors pieces are as long as they can be
    /// (rule 11): each costs changes of process.
    #[inline]
    pub(super) fn spread_pieces(&self, block: usize) -> Pieces {
        let others = self.ranks as usize - 1;
        let is_long = self.control.is_crowded && self.ranks > 2 && block * others > self.segment();
        let width = if is_long {
            limits::segments_of(block * others, self.segment(), self.section.segments())
        } else {
            1
        };
        if width == 1 {
            return self.pieces(block, spread::longest(self.segment(), self.most(block), self.ranks, block));
        }
        let most = spread::longest(self.segment() * width as usize, usize::MAX, self.ranks, block);
        let count = Pieces::how_many(block, most);
        let (before, first) = self.control.number_wide(count, width);
        if first > before + 1 {
            // Nobody waits for what is left out.
            self.finish(first - 1);
        }
        Pieces { first, count, bytes: block, most, width }
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
                self.publish(piece.step);
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
            self.publish_last(piece.step);
        }
        Ok(())
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

    /// As [`Steps::see`], if `len` bytes that the rank writes for the step are read next: fetches them, too, if they lie in the
    /// pool.
    #[inline]
    pub(super) fn see_data(&self, rank: u32, step: u64, len: usize) -> Result<()> {
        if self.is_short(len) {
            return self.see(rank, step);
        }
        self.see_fetching(rank, step, || self.section.fetch(rank, step, len))
    }

    /// As [`Steps::see_data`], of data in this rank's part of the pool.
    #[inline]
    pub(super) fn see_own_part(&self, rank: u32, step: u64, len: usize) -> Result<()> {
        self.see_fetching(rank, step, || self.section.fetch_part(self.me, step, len))
    }

    #[inline]
    fn see_fetching(&self, rank: u32, step: u64, fetch: impl Fn()) -> Result<()> {
        let is_there = || {
            fetch();
            self.section.is_published(rank, step)
        };
        if is_there() { Ok(()) } else { self.wait_for_rank(rank, step, is_there) }
    }

    #[inline(never)]
    pub(super) fn wait_for_rank(&self, rank: u32, step: u64, is_there: impl Fn() -> bool) -> Result<()> {
        if !self.process.is_crowded {
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
                    Next::Look if is_there() => return Ok(()),
                    Next::Look => {}
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
                    false => check_alive(&domain.lane, team).err().map(Err),
                },
                || self.section.want(rank, self.me),
            )
            .map_err(of_fault)
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
        let text = format!("{name}{place}, in shared memory");
        Reason::new(text, Need::All, Vec::from_iter(late))
    }

    /// Has `fill` write this rank's data of a step, whose segment is free.
    #[inline]
    pub(super) fn write(&self, step: u64, extent: impl Into<Extent>, fill: impl FnOnce(BytesMut<'_>)) {
        self.section.write(self.me, step, extent, fill);
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

    /// Tells that this rank has written its data of a step.
    #[inline]
    pub(super) fn publish(&self, step: u64) {
        self.section.publish(self.me, step);
        self.wake();
    }

    /// As [`Steps::publish`], of `len` bytes, where every rank waits for all others.
    #[inline]
    pub(super) fn publish_to_all(&self, step: u64, len: usize) {
        if self.ranks == 2 && self.is_short(len) {
            self.section.publish_to_other(self.me, step);
        } else {
            self.section.publish(self.me, step);
        }
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
    pub(super) fn publish_last(&self, step: u64) {
        self.section.publish(self.me, step);
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
    fn wake_all(&self, sleepers: u64) {
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
