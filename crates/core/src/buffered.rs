//! Buffers for buffered sends (MPI-5.0 section 3.6).
//!
//! The lane keeps the data itself, so an attached buffer only limits the bytes. A message counts in
//! the buffer of its communicator, else of its session, else of the process. It counts [`OVERHEAD`]
//! bytes more than its data: less than MPI_BSEND_OVERHEAD, since a program for another library may
//! attach a buffer with that library's overhead.

use crate::comm::Communicator;
use crate::process::{Domain, Process};
use crate::wait_reason::Awaited;
use oxmpi_abi::constants as abi;
use oxmpi_engine::RequestId;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::origin::Origin;
use std::collections::HashMap;

/// A buffer that the program has attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    pub address: usize,
    /// In bytes; `usize::MAX` for MPI_BUFFER_AUTOMATIC.
    pub bytes: usize,
}

/// The owner of a buffer.
#[derive(Clone, Copy, Debug)]
pub enum BufferOf<'a> {
    Process,
    Communicator(&'a Communicator),
    Session(Origin),
}

/// The number of a buffer in the lane: the point-to-point context of its communicator, or
/// [`SESSION`] plus the number of its session; `None` for the buffer of the process.
type Owner = Option<u32>;

const SESSION: u32 = 1 << 31;

const _: () = assert!(Origin::SESSIONS < SESSION - 1, "u32::MAX is no number of a buffer");

impl BufferOf<'_> {
    fn owner(self) -> Owner {
        match self {
            BufferOf::Process => None,
            BufferOf::Communicator(comm) => Some(comm.team.point_to_point),
            BufferOf::Session(origin) => owner_of(origin),
        }
    }
}

fn owner_of(origin: Origin) -> Owner {
    origin.session().map(|number| SESSION | number)
}

#[derive(Debug, Default)]
pub(crate) struct AttachedBuffers {
    buffers: HashMap<Owner, Attached>,
    of_sessions: HashMap<u32, Origin>,
    /// Whether a message counts MPI_BSEND_OVERHEAD (parameter mpi_strict).
    pub(crate) is_strict: bool,
}

/// The least MPI_BSEND_OVERHEAD of other libraries, that of Intel MPI: MPICH has 96, Open MPI 128.
const OVERHEAD: usize = 88;

impl AttachedBuffers {
    fn owner(&self, context: u32) -> Owner {
        let of_session = self.of_sessions.get(&context).and_then(|origin| owner_of(*origin));
        [Some(context), of_session]
            .into_iter()
            .find(|owner| owner.is_some() && self.buffers.contains_key(owner))
            .flatten()
    }

    /// Drops a communicator's buffer. Returns whether its messages could count in another buffer.
    pub(crate) fn forget(&mut self, context: u32) -> bool {
        let had_own = self.buffers.remove(&Some(context)).is_some();
        self.of_sessions.remove(&context).is_some() || had_own
    }
}

impl<F: Fabric> Domain<F> {
    pub(crate) fn note_origin(&mut self, comm: &Communicator) {
        if !comm.origin().is_world() {
            let context = comm.team.point_to_point;
            self.attached.of_sessions.insert(context, comm.origin());
            self.settle_owner(context);
        }
    }

    fn settle_owner(&mut self, context: u32) {
        self.lane.set_own_buffer(context, self.attached.owner(context));
    }

    fn settle_owners(&mut self, changed: BufferOf<'_>) {
        match changed {
            BufferOf::Process => {}
            BufferOf::Communicator(comm) => self.settle_owner(comm.team.point_to_point),
            BufferOf::Session(origin) => {
                let of_sessions = &self.attached.of_sessions;
                let ours = of_sessions
                    .iter()
                    .filter(|(_, of)| **of == origin)
                    .map(|(context, _)| *context);
                for context in ours.collect::<Vec<_>>() {
                    self.settle_owner(context);
                }
            }
        }
    }

    /// Errors: MPI_ERR_BUFFER if a buffered send of `len` bytes in this context does not fit the
    /// free room of its buffer, or if no buffer is attached.
    pub(crate) fn check_room(&self, context: u32, len: usize) -> std::result::Result<(), NoRoom> {
        self.check_attached(context, len).map_err(NoRoom)
    }

    fn check_attached(&self, context: u32, len: usize) -> Result<()> {
        let owner = self.attached.owner(context);
        let Some(&Attached { bytes, .. }) = self.attached.buffers.get(&owner) else {
            return Err(MpiError::new(
                abi::MPI_ERR_BUFFER,
                "a buffered send needs a buffer: none is attached (MPI_Buffer_attach)",
            ));
        };
        let overhead =
            if self.attached.is_strict { abi::MPI_BSEND_OVERHEAD as usize } else { OVERHEAD };
        let need = len.saturating_add(overhead);
        let free = bytes.saturating_sub(self.lane.buffered_in(owner));
        if need <= free {
            return Ok(());
        }
        Err(MpiError::new(
            abi::MPI_ERR_BUFFER,
            format!(
                "a buffered send of {len} bytes needs {need} bytes ({overhead} for the message itself), the attached buffer of {bytes} bytes has {free} free; a program should allow MPI_BSEND_OVERHEAD ({}) for each message",
                abi::MPI_BSEND_OVERHEAD
            ),
        ))
    }

    fn attached_buffer(&self, owner: Owner) -> Result<Attached> {
        let none = || MpiError::new(abi::MPI_ERR_BUFFER, "no buffer is attached");
        self.attached.buffers.get(&owner).copied().ok_or_else(none)
    }
}

pub(crate) struct NoRoom(MpiError);

/// The limit of progress calls of [`Process::start_with_room`] while peers send all the time.
const PROGRESS_FOR_ROOM: usize = 1000;

impl<F: Fabric> Process<F> {
    /// Starts a buffered send by `attempt`. Without room it tries again while frames arrive, since
    /// these can complete earlier messages. `attempt` checks for room and uses the room under one
    /// lock of the lane, since another thread could otherwise take the room in between.
    pub(crate) fn start_with_room<R>(
        &self,
        mut attempt: impl FnMut(&mut Domain<F>) -> std::result::Result<Result<R>, NoRoom>,
    ) -> Result<R> {
        let mut lacks = match self.enter(&mut attempt) {
            Ok(started) => return started,
            Err(lacks) => lacks,
        };
        for _ in 0..PROGRESS_FOR_ROOM {
            let (started, came) = self.look_all(|domain, came| (attempt(domain), came));
            match started {
                Ok(started) => return started,
                Err(still) => lacks = still,
            }
            if !came {
                break;
            }
        }
        Err(lacks.0)
    }

    /// Errors: MPI_ERR_BUFFER if a buffer is attached already.
    pub fn attach(&self, of: BufferOf<'_>, buffer: Attached) -> Result<()> {
        let mut domain = self.domain.lock();
        match domain.attached_buffer(of.owner()) {
            Err(_) => {
                domain.attached.buffers.insert(of.owner(), buffer);
                domain.settle_owners(of);
                Ok(())
            }
            Ok(before) => {
                let what = match before.bytes {
                    usize::MAX => "MPI_BUFFER_AUTOMATIC".to_string(),
                    bytes => format!("a buffer of {bytes} bytes"),
                };
                let text = format!("{what} is attached already; detach it first");
                Err(MpiError::new(abi::MPI_ERR_BUFFER, text))
            }
        }
    }

    /// Waits until all messages of the buffer are delivered, then detaches it.
    pub fn detach(&self, of: BufferOf<'_>) -> Result<Attached> {
        self.flush(of)?;
        let mut domain = self.domain.lock();
        let buffer = domain.attached_buffer(of.owner())?;
        domain.attached.buffers.remove(&of.owner());
        domain.settle_owners(of);
        Ok(buffer)
    }

    /// Waits until all present messages of the buffer are delivered.
    pub fn flush(&self, of: BufferOf<'_>) -> Result<()> {
        // Other threads may continue to send.
        let mut sends = {
            let domain = self.domain.lock();
            domain.attached_buffer(of.owner())?;
            domain.lane.buffered_sends(of.owner())
        };
        self.wait_for(&Awaited::Described(&Domain::reason_of_sends), |domain| {
            sends.retain(|send| domain.lane.is_known(*send));
            sends.is_empty().then_some(())
        });
        Ok(())
    }

    /// [`Process::flush`] as a request.
    pub fn iflush(&self, of: BufferOf<'_>) -> Result<RequestId> {
        let mut domain = self.domain.lock();
        domain.attached_buffer(of.owner())?;
        let sends = domain.lane.buffered_sends(of.owner());
        Ok(domain.lane.open_flush(sends))
    }
}
