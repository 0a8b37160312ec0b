use crate::memory::{Area, Memory};
use crate::script::Script;
use crate::staging::Staging;
use oxmpi_engine::{Fault, Lane, MatchSource, Mode, Outlook, RequestId, Started, TagMatch, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::{Kernel, ReduceError};
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::{Scratch, ScratchError};
use oxmpi_plan::{Action, After, AlgorithmId, AnyPlan, Generator, PlanBuffer, PlanUnit, Span};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::Arc;

/// The operation of a reduction.
#[derive(Debug, Clone, Copy)]
pub enum Combine {
    Nothing,
    Kernel(Kernel),
    /// A function of the program, which the caller of [`Run::advance`] calls
    /// ([`Progress::NeedCallback`]).
    User,
}

/// The arguments of a reduction function of the program: `right <- left op right`, for all
/// elements.
#[derive(Debug, Clone)]
pub struct UserReduction {
    pub left: UserBuf,
    /// `inoutvec`, which also gets the result.
    pub right: UserBuf,
}

/// The state of a collective.
#[derive(Debug)]
pub enum Progress {
    Waiting,
    /// The function of the program is due; the run waits for [`Run::callback_done`].
    NeedCallback(UserReduction),
    Done(Result<(), CollError>),
}

/// The reason why a collective failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CollError {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    #[error(transparent)]
    Reduce(#[from] ReduceError),
}

#[derive(Debug)]
struct Outstanding {
    number: u64,
    request: RequestId,
    /// Received data that must still be unpacked.
    staged: Option<Box<Staged>>,
}

#[derive(Debug)]
struct Staged {
    from: UserBuf,
    into: Area,
    at: usize,
}

impl Staged {
    fn unpack(self) {
        let len = self.from.packed_len();
        self.into.copy_from(self.at, &self.from.into(), 0, len);
    }
}

/// One collective call of one rank, in execution.
#[derive(Debug)]
pub struct Run {
    script: Script,
    team: Arc<Team>,
    tag: i32,
    memory: Memory,
    temporaries: [Option<Area>; 4],
    combine: Combine,
    outstanding: Vec<Outstanding>,
    issued: u64,
    in_callback: bool,
    /// Copies of device buffers, which have the data from the first step on.
    staging: Option<Box<Staging>>,
}

impl Run {
    /// Prepares a call. Only collectives that move data may have [`Area::Blocks`]. `tag`
    /// distinguishes the call from the team's other collectives, in call order. Fails if there is
    /// no memory for temporaries.
    pub fn new(
        plan: AnyPlan,
        team: Arc<Team>,
        tag: i32,
        memory: impl Into<Memory>,
        combine: Combine,
    ) -> Result<Run, CollError> {
        let mut memory = memory.into();
        let staging = Staging::of(&mut memory)?.map(Box::new);
        let unit = plan.unit();
        let mut temporaries = [const { None }; 4];
        for (place, &len) in temporaries.iter_mut().zip(plan.temporaries()) {
            let scratch = match (&memory.element, unit) {
                (Some(element), PlanUnit::Elements) => Scratch::new(len, element)?,
                _ => Scratch::bytes(len)?,
            };
            *place = Some(scratch.buf().clone().into());
        }
        Ok(Run {
            script: Script::new(plan),
            team,
            tag,
            memory,
            temporaries,
            combine,
            outstanding: Vec::new(),
            issued: 0,
            in_callback: false,
            staging,
        })
    }

    /// Prepares a complete run for its repetition with the same memory, tag and temporaries.
    pub fn restart(&mut self) {
        self.script.restart();
        self.outstanding.clear();
        self.issued = 0;
        self.in_callback = false;
    }

    /// [`Run::restart`] for another call of the same shape, with memory of the same lengths. Fails
    /// if there is no memory for copies of device buffers.
    pub fn renew(
        &mut self,
        tag: i32,
        memory: impl Into<Memory>,
        combine: Combine,
    ) -> Result<(), CollError> {
        self.restart();
        let mut memory = memory.into();
        self.staging = Staging::of(&mut memory)?.map(Box::new);
        (self.tag, self.memory, self.combine) = (tag, memory, combine);
        Ok(())
    }

    /// Releases the memory of a complete call. Only [`Run::renew`] may follow.
    pub fn release(&mut self) {
        self.memory.input = Area::EMPTY;
        self.memory.output = Area::EMPTY;
        self.staging = None;
    }

    /// The packed length of the temporaries, in bytes.
    pub fn temporary_bytes(&self) -> usize {
        self.temporaries.iter().flatten().map(Area::packed_len).sum()
    }

    /// The layout of the reduction's elements.
    pub fn element(&self) -> Option<&Arc<Layout>> {
        self.memory.element.as_ref()
    }

    /// The tag of the messages.
    pub fn tag(&self) -> i32 {
        self.tag
    }

    /// The team of the collective.
    pub fn team(&self) -> &Arc<Team> {
        &self.team
    }

    /// The algorithm of the plan, if it is in the table, and the count of the call.
    pub fn algorithm(&self) -> Option<(AlgorithmId, usize)> {
        self.script.algorithm
    }

    /// The number of steps that have begun, and the events for which incomplete steps wait.
    pub fn outlook<F: Fabric>(&self, lane: &Lane<F>) -> (u64, Vec<Outlook>) {
        (self.issued, self.outstanding.iter().flat_map(|step| lane.outlook(step.request)).collect())
    }

    /// Executes steps as far as possible without waiting.
    pub fn advance<F: Fabric>(&mut self, lane: &mut Lane<F>) -> Progress {
        if self.in_callback {
            return Progress::Waiting;
        }
        match self.issue_steps(lane) {
            Ok(progress) => progress,
            Err(error) => {
                self.abandon(lane);
                Progress::Done(Err(error))
            }
        }
    }

    /// Continues the run after the function of [`Progress::NeedCallback`] has returned.
    pub fn callback_done(&mut self) {
        self.in_callback = false;
    }

    /// Ends the run; the user's memory is no longer used.
    pub fn abandon<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        for step in self.outstanding.drain(..) {
            lane.abandon(step.request);
        }
    }

    fn issue_steps<F: Fabric>(&mut self, lane: &mut Lane<F>) -> Result<Progress, CollError> {
        if self.issued == 0
            && let Some(staging) = &self.staging
        {
            staging.copy_in()?;
        }
        if !self.outstanding.is_empty() {
            self.collect(lane)?;
        }
        loop {
            let Some(step) = self.script.peek() else {
                let over = self.outstanding.is_empty();
                if over && let Some(staging) = &self.staging {
                    staging.copy_out()?;
                }
                return Ok(if over { Progress::Done(Ok(())) } else { Progress::Waiting });
            };
            if self.outstanding.len() >= self.script.window || !self.is_due(step.after) {
                return Ok(Progress::Waiting);
            }
            self.script.pass();
            let number = self.issued;
            self.issued += 1;
            match step.action {
                Action::Send { to, what } => self.send(lane, number, to, what)?,
                Action::Receive { from, into } => self.receive(lane, number, from, into)?,
                Action::Copy { from, into } => self.copy(from, into),
                Action::Reduce { left, right } => match self.combine {
                    Combine::Nothing => {}
                    Combine::Kernel(kernel) => self.reduce(&kernel, left, right)?,
                    Combine::User => {
                        let (left, right) = (self.elements(left), self.elements(right));
                        self.in_callback = true;
                        return Ok(Progress::NeedCallback(UserReduction { left, right }));
                    }
                },
            }
        }
    }

    fn collect<F: Fabric>(&mut self, lane: &mut Lane<F>) -> Result<(), CollError> {
        let mut at = 0;
        while let Some(step) = self.outstanding.get(at) {
            match lane.test(step.request) {
                Some(None) => at += 1,
                answer => {
                    let step = self.outstanding.swap_remove(at);
                    if let Some(Some(completion)) = answer
                        && let Some(fault) = completion.fault
                    {
                        return Err(fault.into());
                    }
                    if let Some(staged) = step.staged {
                        staged.unpack();
                    }
                }
            }
        }
        Ok(())
    }

    fn is_due(&self, after: After) -> bool {
        match after {
            After::None => true,
            _ if self.outstanding.is_empty() => true,
            After::All => false,
            After::One(back) => self.is_complete(back),
            After::Two(one, two) => self.is_complete(one) && self.is_complete(two),
        }
    }

    fn is_complete(&self, back: u32) -> bool {
        let number = self.issued.wrapping_sub(u64::from(back));
        !self.outstanding.iter().any(|o| o.number == number)
    }

    fn send<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        number: u64,
        to: u32,
        what: Span,
    ) -> Result<(), CollError> {
        let to = self.process(to)?;
        let context = self.team.collective;
        if let Some(bytes) = self.bytes(what)
            && lane.send_now(context, to, self.tag, bytes)
        {
            return Ok(());
        }
        let buffer = match self.piece(what) {
            Some(piece) => piece,
            None => {
                let copy = Scratch::bytes(what.len)?.buf().clone();
                Area::from(copy.clone()).copy_from(0, self.area(what.place), what.start, what.len);
                copy
            }
        };
        let started = lane.start_send(context, Mode::Standard, buffer, to, self.tag)?;
        self.note(number, started, None)
    }

    fn receive<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        number: u64,
        from: u32,
        into: Span,
    ) -> Result<(), CollError> {
        let from = self.process(from)?;
        let context = self.team.collective;
        if let Some(room) = self.bytes_mut(into)
            && lane.receive_short_in(context, from, self.tag, room)
        {
            return Ok(());
        }
        let (buffer, staged) = match self.piece(into) {
            Some(piece) => (piece, None),
            None => {
                let copy = Scratch::bytes(into.len)?.buf().clone();
                let staged = Staged {
                    from: copy.clone(),
                    into: self.area(into.place).clone(),
                    at: into.start,
                };
                (copy, Some(Box::new(staged)))
            }
        };
        let started = lane.start_receive(
            context,
            buffer,
            MatchSource::Process(from),
            TagMatch::Is(self.tag),
        )?;
        self.note(number, started, staged)
    }

    fn note(
        &mut self,
        number: u64,
        started: Started,
        staged: Option<Box<Staged>>,
    ) -> Result<(), CollError> {
        match started {
            Started::Complete(completion) => {
                if let Some(fault) = completion.fault {
                    return Err(fault.into());
                }
                if let Some(staged) = staged {
                    staged.unpack();
                }
            }
            Started::Pending(request) => {
                self.outstanding.push(Outstanding { number, request, staged })
            }
        }
        Ok(())
    }

    fn process(&self, rank: u32) -> Result<u32, CollError> {
        // The verifier proves that a plan names only ranks of its team.
        self.team.map.process(rank).ok_or(CollError::Fault(Fault::Lost { peer: u32::MAX }))
    }

    fn reduce(&self, kernel: &Kernel, left: Span, right: Span) -> Result<(), CollError> {
        if kernel.size() == kernel.extent()
            && let (Some(from), Some(into)) = (self.bytes(left), self.bytes_mut(right))
            && from.len() == into.len()
            && from.len().is_multiple_of(kernel.size())
        {
            kernel.apply(from, into);
            return Ok(());
        }
        Ok(kernel.reduce(&self.elements(left), &self.elements(right))?)
    }

    fn copy(&self, from: Span, into: Span) {
        let (source, target) = (self.area(from.place), self.area(into.place));
        // All elements of one call have one size.
        let unit = self.unit_bytes(source);
        target.copy_from(into.start * unit, source, from.start * unit, from.len * unit);
    }

    fn unit_bytes(&self, of: &Area) -> usize {
        match (self.script.unit, of) {
            (PlanUnit::Elements, Area::Whole(buffer)) => buffer.element_size(),
            (PlanUnit::Bytes, _) | (PlanUnit::Elements, Area::Blocks(_)) => 1,
        }
    }

    fn area(&self, place: PlanBuffer) -> &Area {
        const NONE: &Area = &Area::EMPTY;
        match place {
            PlanBuffer::Input => &self.memory.input,
            PlanBuffer::Output => &self.memory.output,
            PlanBuffer::Temporary(n) => {
                self.temporaries.get(usize::from(n)).and_then(Option::as_ref).unwrap_or(NONE)
            }
        }
    }

    fn whole(&self, place: PlanBuffer) -> Option<&UserBuf> {
        self.area(place).as_whole()
    }

    fn bytes(&self, span: Span) -> Option<Bytes<'_>> {
        if span.len == 0 {
            return Some(Bytes::empty());
        }
        let whole = self.whole(span.place)?;
        let unit = if self.script.unit == PlanUnit::Elements { whole.element_size() } else { 1 };
        Some(whole.as_contiguous()?.slice(span.start * unit, span.len * unit))
    }

    fn bytes_mut(&self, span: Span) -> Option<BytesMut<'_>> {
        if span.len == 0 {
            return Some(BytesMut::from(&mut [][..]));
        }
        let whole = self.whole(span.place)?;
        let unit = if self.script.unit == PlanUnit::Elements { whole.element_size() } else { 1 };
        Some(whole.as_contiguous_mut()?.into_slice(span.start * unit, span.len * unit))
    }

    /// The span as a buffer, if it has an address and whole elements.
    fn piece(&self, span: Span) -> Option<UserBuf> {
        if span.len == 0 {
            return Some(UserBuf::empty());
        }
        match self.script.unit {
            PlanUnit::Elements => Some(self.elements(span)),
            PlanUnit::Bytes => self.area(span.place).packed_range(span.start, span.len),
        }
    }

    fn elements(&self, span: Span) -> UserBuf {
        self.whole(span.place).map_or(UserBuf::empty(), |all| all.elements(span.start, span.len))
    }
}
