//! Collectives of one node through shared memory, without plans: the component `shmem`.
//!
//! Each intracommunicator whose processes share memory has two control sections with message pools
//! in the segment of its lowest rank (`Control`; `oxmpi_shm::control_section` has the protocol).
//! A segment has sections for only a few communicators at a time, of at most 64 ranks. One section
//! serves blocking collectives, the other nonblocking ones, so that neither kind waits for the
//! other. A collective is a few numbered steps. In each step the ranks with data for others write a
//! piece and publish it, and the ranks that need the piece read it in place. A rank waits for
//! readers only if it needs a segment that they still read.
//!
//! Values that all ranks of a call have in common decide whether the call is served ([`limits`],
//! and the shape of the pool). Reductions combine in the order of the ranks whatever the order of
//! arrival, so that results of floating-point operations do not depend on timing.

mod combining;
mod edges;
mod elements;
mod later;
mod lengths;
pub mod limits;
mod moves;
mod reductions;
pub mod short;
mod spread;
mod steps;

use crate::Process;
use crate::comm::Communicator;
use crate::errors::of_fault;
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::{Fault, Lane};
use oxmpi_fabric::Fabric;
use oxmpi_mem::kernels::Kernel;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Collective};
use oxmpi_shm::control_section::ControlSection;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use steps::Steps;

pub(crate) use edges::is_served as is_served_along;
pub(crate) use elements::is_served as is_served_by_elements;
pub(crate) use later::Later;
pub(crate) use lengths::length_of;

/// The control section of a communicator for its blocking collectives, or for its nonblocking ones.
#[derive(Debug)]
pub(crate) struct Control {
    leader: u32,
    index: u32,
    /// Whether there are more ranks than processors, as all ranks of the communicator see it.
    is_oversubscribed: bool,
    /// Mapped at the first use; `None` if the processes share no memory.
    section: OnceLock<Option<ControlSection>>,
    step: AtomicU64,
    /// The last step that may be written without reading the other ranks' progress; 0 if unknown.
    free_to: AtomicU64,
    begun: AtomicU64,
    open: AtomicU32,
    /// The first step of the nonblocking collective that may read now (rule 9).
    turn: AtomicU64,
    is_left: AtomicBool,
}

impl Control {
    /// The sections for blocking and nonblocking collectives. `step` is the last used step of both.
    pub(crate) fn pair(
        leader: u32,
        index: u32,
        step: u64,
        is_oversubscribed: bool,
    ) -> [Control; 2] {
        [index, index + 1].map(|index| Control::new(leader, index, step, is_oversubscribed))
    }

    fn new(leader: u32, index: u32, step: u64, is_oversubscribed: bool) -> Control {
        Control {
            leader,
            index,
            is_oversubscribed,
            section: OnceLock::new(),
            step: AtomicU64::new(step),
            free_to: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            open: AtomicU32::new(0),
            turn: AtomicU64::new(0),
            is_left: AtomicBool::new(false),
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    fn note_mapped(&self, section: &ControlSection) {
        // This team has used no segment yet (rule 7).
        self.free_to
            .fetch_max(self.step.load(Ordering::Relaxed) + section.segments(), Ordering::Relaxed);
    }
}

#[derive(Clone, Copy)]
pub(crate) struct MappedSection<'c> {
    control: &'c Control,
    section: &'c ControlSection,
}

pub(crate) struct Served<'a> {
    call: &'a Call,
    buffers: &'a Buffers,
    kernel: Option<Kernel>,
    collective: Collective,
    /// The bytes of a block, or of the vector of a broadcast, reduction or scan; 0 for a barrier.
    bytes: usize,
    /// Whether this rank has open requests, which other ranks may need before they arrive.
    pub(crate) has_requests: bool,
}

impl<'a> Served<'a> {
    /// Reads only values that all ranks of the call have in common.
    #[inline]
    pub(crate) fn of(
        comm: &Communicator,
        call: &'a Call,
        buffers: &'a Buffers,
        combine: &Combine,
    ) -> Option<Served<'a>> {
        let ranks = comm.team.size();
        if ranks < 2 || comm.blocking.is_none() {
            return None;
        }
        let (collective, bytes, kernel) = kind_of(call, combine)?;
        limits::serves(collective, ranks, bytes).then_some(Served {
            call,
            buffers,
            kernel,
            collective,
            bytes,
            has_requests: false,
        })
    }
}

#[inline]
fn kind_of(call: &Call, combine: &Combine) -> Option<(Collective, usize, Option<Kernel>)> {
    let (collective, count, kernel) = match (call, combine) {
        (Call::Barrier, _) => (Collective::Barrier, 0, None),
        (Call::Bcast { bytes, .. }, _) => (Collective::Bcast, bytes.0, None),
        (Call::Gather { block, .. }, _) => (Collective::Gather, block.0, None),
        (Call::Scatter { block, .. }, _) => (Collective::Scatter, block.0, None),
        (Call::Allgather { block, .. }, _) => (Collective::Allgather, block.0, None),
        (Call::Alltoall { block, .. }, _) => (Collective::Alltoall, block.0, None),
        // Elements with padding cannot be packed piece by piece.
        (_, Combine::Kernel(kernel)) if kernel.size() == kernel.extent() => {
            let (collective, count) = match call {
                Call::Reduce { count, .. } => (Collective::Reduce, count.0),
                Call::Allreduce { count, .. } => (Collective::Allreduce, count.0),
                Call::ReduceScatterBlock { block, .. } => (Collective::ReduceScatterBlock, block.0),
                Call::Scan { count, .. } => (Collective::Scan, count.0),
                Call::Exscan { count, .. } => (Collective::Exscan, count.0),
                _ => return None,
            };
            (collective, count, Some(*kernel))
        }
        _ => return None,
    };
    let bytes = count.checked_mul(kernel.map_or(1, |kernel| kernel.size()))?;
    Some((collective, bytes, kernel))
}

impl<F: Fabric> Process<F> {
    #[inline]
    fn section<'c>(
        &self,
        comm: &Communicator,
        control: &'c Control,
    ) -> Result<Option<&'c ControlSection>> {
        match control.section.get() {
            Some(section) => Ok(section.as_ref()),
            None => self.map_section(comm, control),
        }
    }

    #[cold]
    fn map_section<'c>(
        &self,
        comm: &Communicator,
        control: &'c Control,
    ) -> Result<Option<&'c ControlSection>> {
        let ranks = comm.team.size();
        let mapped = self.domain.lock().lane.fabric_mut().control_section(
            control.leader,
            control.index,
            ranks,
        );
        match mapped {
            Ok(section) => {
                let section = control.section.get_or_init(|| section).as_ref();
                section.into_iter().for_each(|section| control.note_mapped(section));
                Ok(section)
            }
            Err(unreachable) => Err(MpiError::new(abi::MPI_ERR_OTHER, unreachable.to_string())),
        }
    }

    /// The section for blocking collectives. All ranks get the same answer.
    #[inline]
    pub(crate) fn section_of<'c>(
        &self,
        comm: &'c Communicator,
    ) -> Result<Option<MappedSection<'c>>> {
        match &comm.blocking {
            Some(control) => self.mapped_section(comm, control),
            None => Ok(None),
        }
    }

    #[inline]
    fn mapped_section<'c>(
        &self,
        comm: &'c Communicator,
        control: &'c Control,
    ) -> Result<Option<MappedSection<'c>>> {
        let Some(section) = self.section(comm, control)? else { return Ok(None) };
        let has_room = limits::has_room(section.segment_bytes(), comm.team.size());
        Ok(has_room.then_some(MappedSection { control, section }))
    }

    /// Whether shared memory serves such a blocking collective. A parameter that selects a
    /// component prevents this.
    pub fn serves_in_memory(
        &self,
        comm: &Communicator,
        collective: Collective,
        bytes: usize,
    ) -> bool {
        !self.needs_selection()
            && limits::serves(collective, comm.team.size(), bytes)
            && matches!(self.section_of(comm), Ok(Some(_)))
    }

    #[inline]
    pub(crate) fn execute_served(
        &self,
        comm: &Communicator,
        served: &Served<'_>,
        MappedSection { control, section }: MappedSection<'_>,
    ) -> Result<()> {
        if comm.team.is_revoked() {
            return Err(of_fault(Fault::Revoked));
        }
        let has_requests = served.has_requests;
        let steps = Steps { has_requests, ..Steps::new(self, comm, control, section) };
        steps.count(served.collective, served.bytes);
        match served.kernel {
            None => moves::run(steps, served)?,
            Some(kernel) => reductions::run(steps, served, &kernel)?,
        }
        self.progress_after_served();
        Ok(())
    }

    pub(crate) fn leave_sections(&self, comm: &Communicator) {
        for control in comm.blocking.iter().chain(&comm.nonblocking) {
            // A section that cannot be reached stays in use, although a segment has only a few.
            let mapped = matches!(self.section(comm, control), Ok(Some(_)));
            let mut domain = self.domain.lock();
            match control.has_open() {
                // The last open collective gives up the section.
                true => control.is_left.store(true, Ordering::Relaxed),
                false => control.leave(&mut domain.lane, comm.team.size(), mapped),
            }
        }
    }
}

impl Control {
    /// Counts a collective. No two threads call collectives of one communicator at the same time.
    #[inline]
    fn count(&self) {
        self.begun.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[inline]
    fn number(&self, count: u64) -> u64 {
        let before = self.last_begun();
        self.set_last(before + count);
        before + 1
    }

    #[inline]
    fn last_begun(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    #[inline]
    fn set_last(&self, step: u64) {
        self.step.store(step, Ordering::Relaxed);
    }

    #[inline]
    fn has_open(&self) -> bool {
        self.open.load(Ordering::Acquire) != 0
    }

    fn leave<F: Fabric>(&self, lane: &mut Lane<F>, ranks: u32, mapped: bool) {
        if mapped && let Some(Some(section)) = self.section.get() {
            section.leave(self.step.load(Ordering::Relaxed));
        }
        if self.leader == lane.me() {
            lane.fabric_mut().release_control_section(self.index, Some(ranks));
        }
    }
}
