//! Blocking collectives of a few bytes, in the control section of their communicator.
//!
//! They do not go through a plan: every rank leaves its bytes in shared memory, the last one combines them in the
//! order of the ranks, all read the result (`oxmpi_os::control_section` has the protocol). So the result of a floating-point
//! sum does not depend on who came last. Whether a call takes this way follows from what all its ranks know alike:
//! the communicator, the collective, count, datatype and operation.

use crate::Process;
use crate::comm::Communicator;
use crate::errors::of_fault;
use crate::failure::check_alive;
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::Fault;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::Kernel;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_os::bytes::{Bytes, BytesMut};
use oxmpi_os::control_section::{CELL_BYTES, ControlSection};
use oxmpi_plan::{Call, Collective};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a small collective is worth, in short messages, when it is counted how long nobody has looked at everything.
const SMALL_COLLECTIVE: i32 = 16;

/// The control section that a communicator was given.
#[derive(Debug)]
pub(crate) struct Control {
    /// The process in whose segment it lies.
    leader: u32,
    index: u32,
    /// Mapped at the first use; `None` if the processes share no memory.
    section: OnceLock<Option<ControlSection>>,
    /// The last operation this rank took part in.
    generation: AtomicU64,
    /// The one before its first.
    first: u64,
    /// This rank has given up an operation: it must not be counted again, or the others took it for the one that is missing.
    is_broken: AtomicBool,
}

impl Control {
    pub(crate) fn new(leader: u32, index: u32, generation: u64) -> Control {
        Control {
            leader,
            index,
            section: OnceLock::new(),
            generation: AtomicU64::new(generation),
            first: generation,
            is_broken: AtomicBool::new(false),
        }
    }

    /// Operations that this rank took part in.
    pub(crate) fn operations(&self) -> u64 {
        self.generation.load(Ordering::Relaxed).wrapping_sub(self.first)
    }
}

/// A collective that fits a control section.
pub(crate) struct Small<'a> {
    contribution: &'a UserBuf,
    result: &'a UserBuf,
    /// Bytes of both; 0 for a barrier.
    len: usize,
    made: Made,
}

/// How the results are made of the contributions.
#[derive(Clone, Copy)]
enum Made {
    /// There are none.
    Nothing,
    /// One for all, by this kernel.
    Combined(Kernel),
    /// One for each rank, of blocks of so many bytes from each.
    Exchanged(usize),
}

impl Made {
    /// The collective whose results are made so.
    fn collective(self) -> Collective {
        match self {
            Made::Nothing => Collective::Barrier,
            Made::Combined(_) => Collective::Allreduce,
            Made::Exchanged(_) => Collective::Alltoall,
        }
    }
}

impl<'a> Small<'a> {
    /// The call as a small one, if it is one.
    #[inline]
    pub(crate) fn of(
        comm: &Communicator,
        call: &Call,
        buffers: &'a Buffers,
        combine: &Combine,
    ) -> Option<Small<'a>> {
        if comm.team.size() < 2 || comm.control.is_none() {
            return None;
        }
        let Buffers { input, output, .. } = buffers;
        match (call, combine) {
            (Call::Barrier, _) => {
                Some(Small { contribution: input, result: output, len: 0, made: Made::Nothing })
            }
            (Call::Allreduce { count, in_place, .. }, Combine::Kernel(kernel))
                if kernel.size() == kernel.extent()
                    && count.0 > 0
                    && count.0 <= CELL_BYTES / kernel.size().max(1) =>
            {
                let contribution = if *in_place { output } else { input };
                let len = count.0 * kernel.size();
                Some(Small { contribution, result: output, len, made: Made::Combined(*kernel) })
            }
            (Call::Alltoall { block, in_place }, _)
                if block.0 > 0 && block.0 <= CELL_BYTES / comm.team.size() as usize =>
            {
                let contribution = if *in_place { output } else { input };
                let len = block.0 * comm.team.size() as usize;
                Some(Small { contribution, result: output, len, made: Made::Exchanged(block.0) })
            }
            _ => None,
        }
    }
}

impl<F: Fabric> Process<F> {
    fn section<'c>(&self, comm: &Communicator, control: &'c Control) -> Result<Option<&'c ControlSection>> {
        if let Some(section) = control.section.get() {
            return Ok(section.as_ref());
        }
        let ranks = comm.team.size();
        let mapped =
            self.domain.lock().lane.fabric_mut().control_section(control.leader, control.index, ranks);
        match mapped {
            Ok(section) => Ok(control.section.get_or_init(|| section).as_ref()),
            Err(unreachable) => Err(MpiError::new(abi::MPI_ERR_OTHER, unreachable.to_string())),
        }
    }

    /// Runs a small collective. `false`: there is no shared memory for it.
    ///
    /// # Errors
    /// If the control section cannot be reached.
    pub(crate) fn execute_small(&self, comm: &Communicator, small: &Small<'_>) -> Result<bool> {
        let Some(control) = &comm.control else { return Ok(false) };
        let Some(section) = self.section(comm, control)? else { return Ok(false) };
        if comm.team.is_revoked() {
            return Err(of_fault(Fault::Revoked));
        }
        if control.is_broken.load(Ordering::Relaxed) {
            check_alive(&self.domain.lock().lane, &comm.team).map_err(of_fault)?;
        }
        let generation = control.generation.fetch_add(1, Ordering::Relaxed) + 1;
        self.tool.calls.count_small(small.made.collective(), self.is_threaded());
        let mut packed = [0u8; CELL_BYTES];
        let contribution = match small.contribution.as_contiguous() {
            Some(bytes) => bytes.slice(0, small.len),
            None => {
                small.contribution.pack(0, BytesMut::from(&mut packed[..small.len]));
                Bytes::from(&packed[..small.len])
            }
        };
        if section.arrive(comm.team.rank, contribution) {
            let sleepers = match &small.made {
                Made::Nothing => section.complete(generation, 0, |_, _| ()),
                Made::Combined(kernel) => {
                    section.complete(generation, small.len, |lower, higher| kernel.apply(lower, higher))
                }
                Made::Exchanged(block) => section.exchange(generation, *block),
            };
            if sleepers {
                self.wake_all(comm);
            }
            // Who is always last never waits, and others may wait for something else of it.
            if self.domain.lock().lane.is_look_due(SMALL_COLLECTIVE) {
                self.look(|_| ());
            }
        } else {
            // A member that has failed will not come, one that has heard of a revocation neither.
            self.wait_for_announced(
                |domain| match section.is_over(generation) {
                    true => Some(Ok(())),
                    false => check_alive(&domain.lane, &comm.team).err().map(Err),
                },
                || _ = section.want(generation),
            )
            .map_err(|fault| {
                control.is_broken.store(true, Ordering::Relaxed);
                of_fault(fault)
            })?;
        }
        if small.len > 0 {
            let read = |to: BytesMut<'_>| match small.made {
                Made::Exchanged(_) => section.own(comm.team.rank, to),
                _ => section.result(to),
            };
            match small.result.as_contiguous_mut() {
                Some(mut result) => read(result.slice(0, small.len)),
                None => {
                    read(BytesMut::from(&mut packed[..small.len]));
                    small.result.unpack(0, Bytes::from(&packed[..small.len]));
                }
            }
        }
        Ok(true)
    }

    #[cold]
    fn wake_all(&self, comm: &Communicator) {
        let mut domain = self.domain.lock();
        for rank in (0..comm.team.size()).filter(|r| *r != comm.team.rank) {
            if let Some(process) = comm.team.map.process(rank) {
                domain.lane.fabric_mut().wake(process);
            }
        }
    }

    /// This rank has no use for the section any more.
    pub(crate) fn leave(&self, comm: &Communicator, control: &Control) {
        // If it cannot be reached the section stays taken, which costs one of a few.
        if let Ok(Some(section)) = self.section(comm, control) {
            section.leave();
        }
        if control.leader == self.rank {
            let ranks = comm.team.size();
            self.domain.lock().lane.fabric_mut().release_control_section(control.index, Some(ranks));
        }
    }
}
