//! Nonblocking collectives: what a rank gives is written when it calls, as far as there is room, and what it needs is read
//! within whatever look finds it there.
//!
//! All ranks take the same steps for the same calls. They have a section of their own: a rank may call a blocking collective
//! before a nonblocking one that another rank calls the other way round. By the letter (MPI-5.0, "Nonblocking Collective
//! Operations") such a program is wrong, but programs and their tests do it.
//!
//! The rules cited are those of `oxmpi_shm::control_section`.

mod part;

use super::combining::{Written, combine, share};
use super::lengths::{self, fault_of_apart, fault_of_lengths, length_of};
use super::limits;
use super::moves::{others, pack, packed_copy, unpack};
use super::steps::{Piece, Pieces};
use super::{Control, Place, kind_of, spread};
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
use oxmpi_rt::waiting::Need;
use oxmpi_shm::control_section::{ControlSection, SHORT_BYTES, Stated};
use part::{End, Needs, Part};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One nonblocking collective of one rank, until its end.
#[derive(Debug)]
pub(crate) struct Later {
    job: Job,
    at: At,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct At {
    /// Pieces that this rank has written.
    written: u64,
    /// Steps of which it has all that it needs.
    read: u64,
    /// Ranks of which it has what they give in the step after those.
    seen: u32,
    /// One of them states another length than this rank; 0: it is not in this collective.
    odd: Option<usize>,
}

/// What is to be done.
#[derive(Debug)]
struct Job {
    team: Arc<Team>,
    control: Arc<Control>,
    collective: Collective,
    pieces: Pieces,
    /// Pieces that this rank writes: all of them, or none.
    writes: u64,
    part: Part,
    kernel: Option<Kernel>,
    /// Each rank combines its share of each piece, and gives the result in a step of its own behind those of all pieces.
    shares: bool,
}

impl Later {
    /// Lets it go on as far as it can without waiting.
    pub(crate) fn advance<F: Fabric>(&mut self, lane: &mut Lane<F>) -> Stand {
        let Later { job, at } = self;
        let Some(Some(section)) = job.control.section.get() else { return Stand::Done(Completion::EMPTY) };
        let before = *at;
        if job.write(section, at, lane) && job.is_turn() && job.read(section, at, lane) {
            let Some(odd) = at.odd else {
                job.close(lane, job.last() + 1);
                return job.device_fault().map_or(Stand::Done(Completion::EMPTY), |fault| job.failed(fault));
            };
            let last = job.end_apart(section, odd, lane);
            job.close(lane, last + 1);
            return job.failed(fault_of_lengths(odd, job.pieces.bytes));
        }
        if *at != before {
            return Stand::Moved;
        }
        match fault_of_apart(section) {
            None => Stand::Waiting,
            Some(fault) => {
                job.close(lane, job.last() + 1);
                job.failed(fault)
            }
        }
    }

    /// Gives it up: nothing of the user's memory is used any more. The communicator is of no use then.
    pub(crate) fn abandon<F: Fabric>(self, lane: &mut Lane<F>) {
        // Nobody waits for the turn of this one.
        self.job.close(lane, u64::MAX);
    }

    /// The processes that take part.
    pub(crate) fn team(&self) -> &Team {
        &self.job.team
    }

    /// This process is about to sleep: who is waited for shall wake it (rule 6). Look once more afterwards.
    pub(crate) fn announce_sleep(&self) {
        if let (Some(Some(section)), Some(rank)) = (self.job.control.section.get(), self.late().first()) {
            section.want(*rank, self.job.team.rank);
        }
    }

    /// Who must go on before this does, the next one first.
    fn late(&self) -> Vec<u32> {
        let Later { job, at } = self;
        let Some(Some(section)) = job.control.section.get() else { return Vec::new() };
        if at.written < job.writes {
            return job.busy(section, job.pieces.first + at.written).collect();
        }
        if !job.is_turn() {
            // The one whose turn it is says so.
            return Vec::new();
        }
        if job.shares && at.seen == job.needed() {
            return job.busy(section, job.result(at.read).step).collect();
        }
        let step = job.pieces.first + at.read;
        let needed = (at.seen..job.needed()).map(|n| job.nth(n));
        needed.filter(|rank| !section.is_published(*rank, step)).collect()
    }

    /// What it is about, and who is late.
    pub(crate) fn reason<F: Fabric>(&self, domain: &Domain<F>) -> Reason {
        let team = &self.job.team;
        let place = domain.place(team.collective, None);
        let late = self.late().into_iter().filter_map(|rank| team.map.process(rank));
        let collective = self.job.collective;
        let length = length_of(collective, self.job.pieces.bytes);
        Reason::new(format!("{collective}{length}{place}, in shared memory"), Need::All, Vec::from_iter(late))
    }
}

impl Job {
    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        others(self.team.rank, self.team.size())
    }

    /// How many ranks' data this one needs.
    fn needed(&self) -> u32 {
        match self.part.needs {
            Needs::Nobody => 0,
            Needs::One(_) => 1,
            Needs::Below => self.team.rank,
            Needs::All => self.team.size() - 1,
        }
    }

    /// The ranks whose data it needs, one after the other.
    fn nth(&self, n: u32) -> u32 {
        match self.part.needs {
            Needs::One(rank) => rank,
            Needs::Below => n,
            _ => (self.team.rank + 1 + n) % self.team.size(),
        }
    }

    /// The others that may still need what lies in the segment of a step.
    fn busy<'s>(&self, section: &'s ControlSection, step: u64) -> impl Iterator<Item = u32> + use<'s> {
        self.others().filter(move |rank| section.done_with(*rank) + section.segments() < step)
    }

    /// Steps in which this rank may need what others give.
    fn steps(&self) -> u64 {
        if self.shares { 2 * self.pieces.count } else { self.pieces.count }
    }

    /// The last step.
    fn last(&self) -> u64 {
        self.pieces.first + self.steps() - 1
    }

    /// A piece whose shares are combined, in the step of the results.
    fn result(&self, n: u64) -> Piece {
        let piece = self.pieces.piece(n % self.pieces.count);
        Piece { step: piece.step + self.pieces.count, ..piece }
    }

    /// Whether all open ones before it are over (rule 9).
    fn is_turn(&self) -> bool {
        self.pieces.first <= self.control.turn.load(Ordering::Relaxed)
    }

    /// Writes what there is room for. Whether that is all.
    fn write<F: Fabric>(&self, section: &ControlSection, at: &mut At, lane: &mut Lane<F>) -> bool {
        while at.written < self.writes {
            let Piece { step, at: from, len, .. } = self.pieces.piece(at.written);
            if !self.is_free(section, step) {
                return false;
            }
            let me = self.team.rank;
            if len > 0 {
                let (buffer, start) = &self.part.gives;
                let past_caches =
                    !self.control.is_oversubscribed && limits::goes_past_caches(self.collective, len);
                section.write(me, step, self.written(len), |mut to| match self.part.spreads {
                    // All but what this rank combines itself.
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
                            pack(buffer, begin, to.slice(self.place(me, rank, len), len), past_caches);
                        }
                    }
                });
            }
            section.publish(me, step, if at.written == 0 { self.stated() } else { Stated::Nothing });
            self.wake(section, lane);
            at.written += 1;
        }
        true
    }

    /// Whether the segment of a step may be written (rule 2).
    fn is_free(&self, section: &ControlSection, step: u64) -> bool {
        let free_to = &self.control.free_to;
        if step <= free_to.load(Ordering::Relaxed) {
            return true;
        }
        // This rank's own word counts as well: in place the section has the only copy of what it gave to an earlier one.
        let done = (0..self.team.size()).map(|rank| section.done_with(rank)).min().unwrap_or(u64::MAX);
        let free = done.saturating_add(section.segments());
        free_to.fetch_max(free, Ordering::Relaxed);
        step <= free
    }

    /// Reads what is there. Whether that is all; then this rank is done with all its steps, if nobody states another length.
    fn read<F: Fabric>(&self, section: &ControlSection, at: &mut At, lane: &mut Lane<F>) -> bool {
        let (needed, count, steps) = (self.needed(), self.pieces.count, self.steps());
        while needed > 0 && at.read < steps {
            let is_result = at.read >= count;
            let piece = if is_result { self.result(at.read) } else { self.pieces.piece(at.read) };
            while at.seen < needed {
                let rank = self.nth(at.seen);
                if !section.is_published(rank, piece.step) {
                    return false;
                }
                if at.read == 0 && !section.is_published_as(rank, piece.step, self.stated()) {
                    at.odd = Some(section.stated_length(rank, piece.step).unwrap_or(0));
                } else if at.odd.is_some() {
                    // All are seen, but nothing is taken any more.
                } else if is_result {
                    self.take_share(section, rank, piece);
                } else if self.kernel.is_none() && piece.len > 0 {
                    self.take(section, rank, piece);
                }
                at.seen += 1;
            }
            if at.odd.is_some() {
                return true;
            }
            match &self.kernel {
                Some(_) if is_result => self.take_share(section, self.team.rank, piece),
                Some(kernel) if self.shares => {
                    let result = self.result(at.read);
                    if !self.is_free(section, result.step) {
                        return false;
                    }
                    self.combine_share(section, kernel, piece, result.step);
                    section.publish(self.team.rank, result.step, Stated::Nothing);
                }
                Some(kernel) => self.combine(section, kernel, piece),
                None => {}
            }
            (at.read, at.seen) = (at.read + 1, 0);
            if at.read < steps {
                section.finish(self.team.rank, piece.step);
                self.wake(section, lane);
            }
        }
        let result = &self.part.output;
        match &self.part.end {
            End::Nothing => {}
            End::Own { from, at, to } => result.copy_from(*to, from, *at, self.pieces.bytes),
            End::Unpack(output) => output.copy_from(0, result, 0, result.packed_len()),
        }
        section.finish(self.team.rank, self.last());
        self.wake(section, lane);
        true
    }

    /// What this rank states with its first step, as all others should (rule 14).
    fn stated(&self) -> Stated {
        Stated::of(self.pieces.bytes, self.written(self.pieces.piece(0).len) <= SHORT_BYTES)
    }

    /// Steps of such a collective for `bytes`. `None`: it is not served.
    fn steps_for(&self, section: &ControlSection, bytes: usize) -> Option<u64> {
        let ranks = self.team.size();
        let most = limits::longest_later(self.collective, ranks, bytes, section.segment_bytes());
        let count = Pieces::how_many(bytes, most);
        let shares = self.collective == Collective::Allreduce && limits::shares_later(ranks, bytes);
        let steps = if shares { 2 * count } else { count };
        limits::serves_later(self.collective, ranks, bytes).then_some(steps)
    }

    /// Ends it, if a rank states another length than this one, and all that give data have stated theirs: its last step.
    fn end_apart<F: Fabric>(&self, section: &ControlSection, length: usize, lane: &mut Lane<F>) -> u64 {
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
        // Others that this rank has begun since have their steps.
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

    /// Whether a driver could not copy memory of a device for it.
    fn device_fault(&self) -> Option<Fault> {
        let end = match &self.part.end {
            End::Nothing => &self.part.output,
            End::Own { from, .. } => from,
            End::Unpack(output) => output,
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

    /// Takes a rank's piece to its place.
    fn take(&self, section: &ControlSection, rank: u32, Piece { step, at, len, .. }: Piece) {
        let start = match self.part.needs {
            Needs::All => rank as usize * self.pieces.bytes,
            _ => 0,
        };
        let place = self.place(rank, self.team.rank, len);
        section.read(rank, step, self.written(len), |from| {
            unpack(&self.part.output, start + at, from.slice(place, len));
        });
    }

    /// Bytes that a rank writes in a step with a piece of `len` bytes.
    fn written(&self, len: usize) -> usize {
        if self.part.spreads { len * (self.team.size() as usize - 1) } else { len }
    }

    /// Where in what `writer` has written for a step that begins which `reader` needs.
    fn place(&self, writer: u32, reader: u32, len: usize) -> usize {
        if self.part.spreads { spread::place(self.team.size(), writer, reader) * len } else { 0 }
    }

    /// Combines the pieces of all.
    fn combine(&self, section: &ControlSection, kernel: &Kernel, Piece { step, at, len, .. }: Piece) {
        let Some(output) = self.part.output.as_contiguous_mut() else { return };
        let (me, (given, start)) = (self.team.rank, &self.part.gives);
        // In place the section has the only copy, but of what is for this rank alone.
        let own = match given.as_contiguous() {
            Some(given) if self.part.spreads => Some(given.slice(me as usize * self.pieces.bytes + at, len)),
            Some(given) if !self.part.in_place => Some(given.slice(start + at, len)),
            _ => None,
        };
        let written =
            Written { step, all: |_| self.written(len).into(), part: |rank| self.place(rank, me, len) };
        let ranks = 0..self.part.combined;
        combine((section, me), kernel, ranks, &written, own, output.into_slice(at, len));
    }

    /// Combines this rank's share of the pieces of all for all of them.
    fn combine_share(&self, section: &ControlSection, kernel: &Kernel, piece: Piece, result: u64) {
        let Some(given) = self.part.gives.0.as_contiguous() else { return };
        let (me, ranks, Piece { step, at, len, .. }) = (self.team.rank, self.team.size(), piece);
        let mine = share(me, ranks, len);
        let own = given.slice(self.part.gives.1 + at + mine.start, mine.len());
        let written = Written { step, all: |_| len.into(), part: |_| mine.start };
        section.write(me, result, mine.len(), |to| {
            combine((section, me), kernel, 0..ranks, &written, Some(own), to);
        });
    }

    /// Takes what a rank has combined to its place.
    fn take_share(&self, section: &ControlSection, rank: u32, Piece { step, at, len, .. }: Piece) {
        let theirs = share(rank, self.team.size(), len);
        section.read(rank, step, theirs.len(), |from| {
            unpack(&self.part.output, at + theirs.start, from);
        });
    }

    /// Wakes who sleeps until this rank goes on (rule 6).
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

    /// It is not open any more; the one that begins with step `next` has its turn.
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
    /// Starts a nonblocking collective through shared memory, if it is served so; its ranks find alike whether it is.
    ///
    /// # Errors
    /// The control section cannot be reached; the communicator is revoked; there is no temporary space.
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
        let Some(Place { section, .. }) = self.place_in(comm, control)? else { return Ok(None) };
        let segment_bytes = section.segment_bytes();
        if !limits::fits_later(collective, comm.team.size(), bytes, (segment_bytes, section.segments())) {
            return Ok(None);
        }
        let (Some(input), Some(output)) = (memory.input.as_whole(), memory.output.as_whole()) else {
            return Ok(None);
        };
        if self.needs_selection_on(comm) && !self.chooses_shared_memory(comm, call, (memory, combine))? {
            return Ok(None);
        }
        let most = limits::longest_later(collective, comm.team.size(), bytes, segment_bytes);
        let mut domain = self.domain.lock();
        match check_alive(&domain.lane, &comm.team) {
            Ok(()) => {}
            Err(Fault::Revoked) => return Err(of_fault(Fault::Revoked)),
            Err(fault) => return Ok(Some(domain.start_failed(fault, &comm.team, None))),
        }
        // What failed when a persistent one was started before is over.
        input.renew();
        output.renew();
        let mut part = part::of(call, (&comm.team, bytes), (input, output), kernel.is_some())?;
        if part.gives.0.is_on_device() {
            // Others take what is published: it must have been read by then.
            part.gives.0 = packed_copy(&part.gives.0)?;
        }
        let count = Pieces::how_many(bytes, most);
        let shares = collective == Collective::Allreduce && limits::shares_later(comm.team.size(), bytes);
        let steps = if shares { 2 * count } else { count };
        let first = control.number(steps);
        let pieces = Pieces { before: first - 1, first, count, bytes, most, width: 1 };
        let (team, control) = (comm.team.clone(), control.clone());
        let writes = if part.writes { count } else { 0 };
        let job = Job { team, control, collective, pieces, writes, part, kernel, shares };
        let control = &job.control;
        control.count();
        if !control.has_open() {
            control.turn.store(pieces.first, Ordering::Relaxed);
        }
        control.open.store(control.open.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let request = domain.start_later(Later { job, at: At::default() }, collective);
        drop(domain);
        if self.is_threaded() {
            self.look(|_| ());
        }
        self.look_after_served();
        Ok(Some(request))
    }
}
