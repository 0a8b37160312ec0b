//! Nonblocking collectives: the call writes as far as room permits, and progress reads. They have
//! their own section, since programs mix them with blocking ones in different orders at different
//! ranks.

mod part;

use super::combining::{Written, combine, share};
use super::lengths::{self, fault_of_apart, fault_of_lengths, length_of};
use super::limits;
use super::moves::{others, pack, packed_copy, unpack};
use super::steps::{CollectivePiece, StepPieces};
use super::{Control, MappedSection, kind_of, spread};
use crate::Process;
use crate::comm::Communicator;
use crate::errors::of_fault;
use crate::failure::check_alive;
use crate::process::Domain;
use crate::task::Stand;
use crate::wait_reason::Reason;
use oxmpi_coll::{Combine, Memory};
use oxmpi_engine::{Completion, Fault, Lane, RequestId, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::kernels::Kernel;
use oxmpi_objects::error::Result;
use oxmpi_plan::{Call, Collective};
use oxmpi_rt_client::waiting::Need;
use oxmpi_shm::control_section::{ControlSection, SHORT_BYTES, Stated};
use part::{FinalCopy, Needs, RankRole};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Debug)]
pub(crate) struct Later {
    call: NonblockingCall,
    progress: CollectiveProgress,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CollectiveProgress {
    written: u64,
    read: u64,
    seen: u32,
    /// Another length that one of these ranks states; 0 if that rank is not in this collective.
    other_length: Option<usize>,
}

#[derive(Debug)]
struct NonblockingCall {
    team: Arc<Team>,
    control: Arc<Control>,
    collective: Collective,
    pieces: StepPieces,
    writes: u64,
    part: RankRole,
    kernel: Option<Kernel>,
    /// Whether each rank combines a share of each piece; the results then have steps of their own.
    shares: bool,
}

impl Later {
    pub(crate) fn advance<F: Fabric>(&mut self, lane: &mut Lane<F>) -> Stand {
        let Later { call, progress } = self;
        let Some(Some(section)) = call.control.section.get() else {
            return Stand::Done(Completion::EMPTY);
        };
        let before = *progress;
        if call.write(section, progress, lane)
            && call.is_turn()
            && call.read(section, progress, lane)
        {
            let Some(other_length) = progress.other_length else {
                call.close(lane, call.last() + 1);
                return call
                    .device_fault()
                    .map_or(Stand::Done(Completion::EMPTY), |fault| call.failed(fault));
            };
            let last = call.end_apart(section, other_length, lane);
            call.close(lane, last + 1);
            return call.failed(fault_of_lengths(other_length, call.pieces.bytes));
        }
        if *progress != before {
            return Stand::Moved;
        }
        match fault_of_apart(section) {
            None => Stand::Waiting,
            Some(fault) => {
                call.close(lane, call.last() + 1);
                call.failed(fault)
            }
        }
    }

    /// Ends the use of the program's memory. After this the communicator is unusable.
    pub(crate) fn abandon<F: Fabric>(self, lane: &mut Lane<F>) {
        // `u64::MAX`, so that no later collective waits for this one.
        self.call.close(lane, u64::MAX);
    }

    pub(crate) fn team(&self) -> &Team {
        &self.call.team
    }

    /// Requests that the awaited rank wakes this one (rule 6). The caller must poll once more.
    pub(crate) fn announce_sleep(&self) {
        if let (Some(Some(section)), Some(rank)) =
            (self.call.control.section.get(), self.late().first())
        {
            section.want(*rank, self.call.team.rank);
        }
    }

    fn late(&self) -> Vec<u32> {
        let Later { call, progress } = self;
        let Some(Some(section)) = call.control.section.get() else { return Vec::new() };
        if progress.written < call.writes {
            return call.busy(section, call.pieces.first + progress.written).collect();
        }
        if !call.is_turn() {
            // The collective before this one reports its late ranks.
            return Vec::new();
        }
        if call.shares && progress.seen == call.needed() {
            return call.busy(section, call.result(progress.read).step).collect();
        }
        let step = call.pieces.first + progress.read;
        let needed = (progress.seen..call.needed()).map(|n| call.nth(n));
        needed.filter(|rank| !section.is_published(*rank, step)).collect()
    }

    pub(crate) fn reason<F: Fabric>(&self, domain: &Domain<F>) -> Reason {
        let team = &self.call.team;
        let place = domain.place(team.collective, None);
        let late = self.late().into_iter().filter_map(|rank| team.map.process(rank));
        let collective = self.call.collective;
        let length = length_of(collective, self.call.pieces.bytes);
        Reason::new(
            format!("{collective}{length}{place}, in shared memory"),
            Need::All,
            Vec::from_iter(late),
        )
    }
}

impl NonblockingCall {
    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        others(self.team.rank, self.team.size())
    }

    fn needed(&self) -> u32 {
        match self.part.needs {
            Needs::Nobody => 0,
            Needs::One(_) => 1,
            Needs::Below => self.team.rank,
            Needs::All => self.team.size() - 1,
        }
    }

    fn nth(&self, n: u32) -> u32 {
        match self.part.needs {
            Needs::One(rank) => rank,
            Needs::Below => n,
            _ => (self.team.rank + 1 + n) % self.team.size(),
        }
    }

    fn busy<'s>(
        &self,
        section: &'s ControlSection,
        step: u64,
    ) -> impl Iterator<Item = u32> + use<'s> {
        self.others().filter(move |rank| section.done_with(*rank) + section.segments() < step)
    }

    fn steps(&self) -> u64 {
        if self.shares { 2 * self.pieces.count } else { self.pieces.count }
    }

    fn last(&self) -> u64 {
        self.pieces.first + self.steps() - 1
    }

    /// The piece `n`, with the step of its results.
    fn result(&self, n: u64) -> CollectivePiece {
        let piece = self.pieces.piece(n % self.pieces.count);
        CollectivePiece { step: piece.step + self.pieces.count, ..piece }
    }

    /// Whether all earlier open collectives are complete (rule 9).
    fn is_turn(&self) -> bool {
        self.pieces.first <= self.control.turn.load(Ordering::Relaxed)
    }

    fn write<F: Fabric>(
        &self,
        section: &ControlSection,
        progress: &mut CollectiveProgress,
        lane: &mut Lane<F>,
    ) -> bool {
        while progress.written < self.writes {
            let CollectivePiece { step, at: from, len, .. } = self.pieces.piece(progress.written);
            if !self.is_free(section, step) {
                return false;
            }
            let me = self.team.rank;
            if len > 0 {
                let (buffer, start) = &self.part.gives;
                let past_caches = !self.control.is_oversubscribed
                    && limits::goes_past_caches(self.collective, len);
                section.write(me, step, self.written(len), |mut to| match self.part.spreads {
                    // This rank combines its own share, so no other rank reads it.
                    _ if self.shares => {
                        let mine = share(me, self.team.size(), len);
                        for others in [0..mine.start, mine.end..len] {
                            let begin = start + from + others.start;
                            pack(buffer, begin, to.slice(others.start, others.len()), past_caches);
                        }
                    }
                    false => pack(buffer, start + from, to, past_caches),
                    true => {
                        for rank in self.others() {
                            let begin = rank as usize * self.pieces.bytes + from;
                            pack(
                                buffer,
                                begin,
                                to.slice(self.place(me, rank, len), len),
                                past_caches,
                            );
                        }
                    }
                });
            }
            section.publish(
                me,
                step,
                if progress.written == 0 { self.stated() } else { Stated::Nothing },
            );
            self.wake(section, lane);
            progress.written += 1;
        }
        true
    }

    fn is_free(&self, section: &ControlSection, step: u64) -> bool {
        let free_to = &self.control.free_to;
        if step <= free_to.load(Ordering::Relaxed) {
            return true;
        }
        // This rank's own word counts, too: in place, only the section has an earlier contribution.
        let done =
            (0..self.team.size()).map(|rank| section.done_with(rank)).min().unwrap_or(u64::MAX);
        let free = done.saturating_add(section.segments());
        free_to.fetch_max(free, Ordering::Relaxed);
        step <= free
    }

    fn read<F: Fabric>(
        &self,
        section: &ControlSection,
        progress: &mut CollectiveProgress,
        lane: &mut Lane<F>,
    ) -> bool {
        let (needed, count, steps) = (self.needed(), self.pieces.count, self.steps());
        while needed > 0 && progress.read < steps {
            let is_result = progress.read >= count;
            let piece = if is_result {
                self.result(progress.read)
            } else {
                self.pieces.piece(progress.read)
            };
            while progress.seen < needed {
                let rank = self.nth(progress.seen);
                if !section.is_published(rank, piece.step) {
                    return false;
                }
                if progress.read == 0 && !section.is_published_as(rank, piece.step, self.stated()) {
                    progress.other_length =
                        Some(section.stated_length(rank, piece.step).unwrap_or(0));
                } else if progress.other_length.is_some() {
                    // The lengths of the other ranks are needed, but their data are not.
                } else if is_result {
                    self.take_share(section, rank, piece);
                } else if self.kernel.is_none() && piece.len > 0 {
                    self.take(section, rank, piece);
                }
                progress.seen += 1;
            }
            if progress.other_length.is_some() {
                return true;
            }
            match &self.kernel {
                Some(_) if is_result => self.take_share(section, self.team.rank, piece),
                Some(kernel) if self.shares => {
                    let result = self.result(progress.read);
                    if !self.is_free(section, result.step) {
                        return false;
                    }
                    self.combine_share(section, kernel, piece, result.step);
                    section.publish(self.team.rank, result.step, Stated::Nothing);
                }
                Some(kernel) => self.combine(section, kernel, piece),
                None => {}
            }
            (progress.read, progress.seen) = (progress.read + 1, 0);
            if progress.read < steps {
                section.finish(self.team.rank, piece.step);
                self.wake(section, lane);
            }
        }
        let result = &self.part.output;
        match &self.part.end {
            FinalCopy::Nothing => {}
            FinalCopy::Own { from, at, to } => result.copy_from(*to, from, *at, self.pieces.bytes),
            FinalCopy::Unpack(output) => output.copy_from(0, result, 0, result.packed_len()),
        }
        section.finish(self.team.rank, self.last());
        self.wake(section, lane);
        true
    }

    fn stated(&self) -> Stated {
        Stated::of(self.pieces.bytes, self.written(self.pieces.piece(0).len) <= SHORT_BYTES)
    }

    /// The number of steps of the collective for `bytes`; `None` if it is not served.
    fn steps_for(&self, section: &ControlSection, bytes: usize) -> Option<u64> {
        let ranks = self.team.size();
        let most = limits::longest_later(self.collective, ranks, bytes, section.segment_bytes());
        let count = StepPieces::how_many(bytes, most);
        let shares = self.collective == Collective::Allreduce && limits::shares_later(ranks, bytes);
        let steps = if shares { 2 * count } else { count };
        limits::serves_later(self.collective, ranks, bytes).then_some(steps)
    }

    /// Ends the collective after a rank has stated another length. Returns its last step.
    fn end_apart<F: Fabric>(
        &self,
        section: &ControlSection,
        length: usize,
        lane: &mut Lane<F>,
    ) -> u64 {
        let lasts = (0..self.needed()).map(|n| {
            let length = section.stated_length(self.nth(n), self.pieces.first);
            length.and_then(|length| Some(self.pieces.before + self.steps_for(section, length)?))
        });
        let lasts: Option<Vec<u64>> = lasts.collect();
        let team = (self.team.rank, self.team.size());
        let agreed = match lasts {
            Some(lasts) => lengths::agreed(self.collective, team, self.last(), &lasts),
            None => Err(self.last()),
        };
        // Only the latest collective can move its last step, since later ones have their steps
        // already.
        let is_latest = self.control.last_begun() == self.last();
        let last = match agreed {
            Ok(last) if last == self.last() || is_latest => last,
            Ok(last) | Err(last) => {
                section.set_apart(length, self.pieces.bytes);
                self.wake_all(!(1 << self.team.rank), lane);
                last
            }
        };
        if is_latest {
            self.control.set_last(last);
        }
        section.finish(self.team.rank, last);
        self.wake(section, lane);
        last
    }

    fn device_fault(&self) -> Option<Fault> {
        let end = match &self.part.end {
            FinalCopy::Nothing => &self.part.output,
            FinalCopy::Own { from, .. } => from,
            FinalCopy::Unpack(output) => output,
        };
        [&self.part.gives.0, &self.part.output, end]
            .into_iter()
            .find_map(|buffer| buffer.settle().err())
            .map(Fault::from)
    }

    fn failed(&self, fault: Fault) -> Stand {
        let context = self.team.collective;
        Stand::Done(Completion { fault: Some(fault), context, ..Completion::EMPTY })
    }

    fn take(
        &self,
        section: &ControlSection,
        rank: u32,
        CollectivePiece { step, at, len, .. }: CollectivePiece,
    ) {
        let start = match self.part.needs {
            Needs::All => rank as usize * self.pieces.bytes,
            _ => 0,
        };
        let place = self.place(rank, self.team.rank, len);
        section.read(rank, step, self.written(len), |from| {
            unpack(&self.part.output, start + at, from.slice(place, len));
        });
    }

    fn written(&self, len: usize) -> usize {
        if self.part.spreads { len * (self.team.size() as usize - 1) } else { len }
    }

    fn place(&self, writer: u32, reader: u32, len: usize) -> usize {
        if self.part.spreads { spread::place(self.team.size(), writer, reader) * len } else { 0 }
    }

    fn combine(
        &self,
        section: &ControlSection,
        kernel: &Kernel,
        CollectivePiece { step, at, len, .. }: CollectivePiece,
    ) {
        let Some(output) = self.part.output.as_contiguous_mut() else { return };
        let (me, (given, start)) = (self.team.rank, &self.part.gives);
        // In place, only the section has the contribution, except the block for this rank.
        let own = match given.as_contiguous() {
            Some(given) if self.part.spreads => {
                Some(given.slice(me as usize * self.pieces.bytes + at, len))
            }
            Some(given) if !self.part.in_place => Some(given.slice(start + at, len)),
            _ => None,
        };
        let written = Written {
            step,
            all: |_| self.written(len).into(),
            part: |rank| self.place(rank, me, len),
        };
        let ranks = 0..self.part.combined;
        combine((section, me), kernel, ranks, &written, own, output.into_slice(at, len));
    }

    fn combine_share(
        &self,
        section: &ControlSection,
        kernel: &Kernel,
        piece: CollectivePiece,
        result: u64,
    ) {
        let Some(given) = self.part.gives.0.as_contiguous() else { return };
        let (me, ranks, CollectivePiece { step, at, len, .. }) =
            (self.team.rank, self.team.size(), piece);
        let mine = share(me, ranks, len);
        let own = given.slice(self.part.gives.1 + at + mine.start, mine.len());
        let written = Written { step, all: |_| len.into(), part: |_| mine.start };
        section.write(me, result, mine.len(), |to| {
            combine((section, me), kernel, 0..ranks, &written, Some(own), to);
        });
    }

    fn take_share(
        &self,
        section: &ControlSection,
        rank: u32,
        CollectivePiece { step, at, len, .. }: CollectivePiece,
    ) {
        let theirs = share(rank, self.team.size(), len);
        section.read(rank, step, theirs.len(), |from| {
            unpack(&self.part.output, at + theirs.start, from);
        });
    }

    fn wake<F: Fabric>(&self, section: &ControlSection, lane: &mut Lane<F>) {
        let sleepers = section.take_sleepers(self.team.rank);
        if sleepers != 0 {
            self.wake_all(sleepers, lane);
        }
    }

    fn wake_all<F: Fabric>(&self, sleepers: u64, lane: &mut Lane<F>) {
        for rank in (0..self.team.size()).filter(|rank| sleepers >> rank & 1 == 1) {
            if let Some(process) = self.team.map.process(rank) {
                lane.fabric_mut().wake(process);
            }
        }
    }

    /// Ends this collective, after which the one that begins with the step `next` may read.
    fn close<F: Fabric>(&self, lane: &mut Lane<F>, next: u64) {
        let control = &self.control;
        let before = control.turn.load(Ordering::Relaxed);
        control.turn.store(before.max(next), Ordering::Relaxed);
        let open = control.open.load(Ordering::Relaxed) - 1;
        control.open.store(open, Ordering::Release);
        if open == 0 && control.is_left.load(Ordering::Relaxed) {
            control.leave(lane, self.team.size(), true);
        }
    }
}

impl<F: Fabric> Process<F> {
    pub(crate) fn start_past_plans(
        &self,
        comm: &Communicator,
        call: &Call,
        memory: &Memory,
        combine: &Combine,
    ) -> Result<Option<RequestId>> {
        let Some(control) = &comm.nonblocking else { return Ok(None) };
        let Some((collective, bytes, kernel)) = kind_of(call, combine) else { return Ok(None) };
        if !limits::serves_later(collective, comm.team.size(), bytes) {
            return Ok(None);
        }
        let Some(MappedSection { section, .. }) = self.mapped_section(comm, control)? else {
            return Ok(None);
        };
        let segment_bytes = section.segment_bytes();
        if !limits::fits_later(
            collective,
            comm.team.size(),
            bytes,
            (segment_bytes, section.segments()),
        ) {
            return Ok(None);
        }
        let (Some(input), Some(output)) = (memory.input.as_whole(), memory.output.as_whole())
        else {
            return Ok(None);
        };
        if self.needs_selection_on(comm)
            && !self.chooses_shared_memory(comm, call, (memory, combine))?
        {
            return Ok(None);
        }
        let most = limits::longest_later(collective, comm.team.size(), bytes, segment_bytes);
        let mut domain = self.domain.lock();
        match check_alive(&domain.lane, &comm.team) {
            Ok(()) => {}
            Err(Fault::Revoked) => return Err(of_fault(Fault::Revoked)),
            Err(fault) => return Ok(Some(domain.start_failed(fault, &comm.team, None))),
        }
        // A fault of an earlier start of a persistent collective must not count.
        input.renew();
        output.renew();
        let mut part = part::of(call, (&comm.team, bytes), (input, output), kernel.is_some())?;
        if part.gives.0.is_on_device() {
            // Other ranks may take published data at once, so the device is read first.
            part.gives.0 = packed_copy(&part.gives.0)?;
        }
        let count = StepPieces::how_many(bytes, most);
        let shares =
            collective == Collective::Allreduce && limits::shares_later(comm.team.size(), bytes);
        let steps = if shares { 2 * count } else { count };
        let first = control.number(steps);
        let pieces = StepPieces { before: first - 1, first, count, bytes, most, width: 1 };
        let (team, control) = (comm.team.clone(), control.clone());
        let writes = if part.writes { count } else { 0 };
        let call =
            NonblockingCall { team, control, collective, pieces, writes, part, kernel, shares };
        let control = &call.control;
        control.count();
        if !control.has_open() {
            control.turn.store(pieces.first, Ordering::Relaxed);
        }
        control.open.store(control.open.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let request =
            domain.start_later(Later { call, progress: CollectiveProgress::default() }, collective);
        drop(domain);
        if self.is_threaded() {
            self.look(|_| ());
        }
        self.progress_after_served();
        Ok(Some(request))
    }
}
