//! Buffers for buffered sends (MPI-5.0 section 3.6): one of the process, and one of each communicator that was given one.
//!
//! The lane keeps the data of buffered messages in memory of its own, so a buffer that the program attaches is an
//! allowance: it says how many bytes may wait at a time, and its memory is not used. A message of a communicator that
//! has a buffer counts there, every other one counts in the process's.

use crate::comm::Communicator;
use crate::process::{Domain, Process};
use oxmpi_abi::constants as abi;
use oxmpi_engine::RequestId;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use std::collections::HashMap;

/// A buffer that the program attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// What the program gave, to be given back.
    pub address: usize,
    /// Its length, bytes; without limit if the library finds the space (MPI_BUFFER_AUTOMATIC).
    pub bytes: usize,
}

/// Whose buffer it is: that of a communicator, by its point-to-point context, or (`None`) the process's.
type Owner = Option<u32>;

/// All attached buffers.
#[derive(Debug, Default)]
pub(crate) struct AttachedBuffers(HashMap<Owner, Attached>);

impl AttachedBuffers {
    /// Whose buffer counts for a message in this context.
    fn owner(&self, context: u32) -> Owner {
        self.0.contains_key(&Some(context)).then_some(context)
    }

    /// A communicator is gone. Whether it had a buffer.
    pub(crate) fn forget(&mut self, context: u32) -> bool {
        self.0.remove(&Some(context)).is_some()
    }
}

fn owner_of(comm: Option<&Communicator>) -> Owner {
    comm.map(|comm| comm.team.point_to_point)
}

impl<F: Fabric> Domain<F> {
    /// Whether a buffered send of `len` bytes in this context fits the buffer that counts for it.
    ///
    /// # Errors
    /// MPI_ERR_BUFFER if it does not, or none is attached.
    pub(crate) fn check_attached(&self, context: u32, len: usize) -> Result<()> {
        let owner = self.attached.owner(context);
        let Some(&Attached { bytes, .. }) = self.attached.0.get(&owner) else {
            return Err(MpiError::new(
                abi::MPI_ERR_BUFFER,
                "a buffered send needs a buffer: none is attached (MPI_Buffer_attach)",
            ));
        };
        let need = len.saturating_add(abi::MPI_BSEND_OVERHEAD as usize);
        let free = bytes.saturating_sub(self.lane.buffered_in(owner));
        if need <= free {
            return Ok(());
        }
        Err(MpiError::new(
            abi::MPI_ERR_BUFFER,
            format!(
                "a buffered send of {len} bytes needs {need} bytes (with MPI_BSEND_OVERHEAD), the attached buffer of {bytes} bytes has {free} free"
            ),
        ))
    }

    /// The buffer of an owner.
    fn attached_buffer(&self, owner: Owner) -> Result<Attached> {
        let none = || MpiError::new(abi::MPI_ERR_BUFFER, "no buffer is attached");
        self.attached.0.get(&owner).copied().ok_or_else(none)
    }
}

/// In these calls the buffer is that of `comm` (MPI_Comm_attach_buffer and its kin), or else the process's
/// (MPI_Buffer_attach and its kin).
impl<F: Fabric> Process<F> {
    /// Allows buffered sends of so many bytes at a time.
    ///
    /// # Errors
    /// MPI_ERR_BUFFER if a buffer is attached already.
    pub fn attach(&self, comm: Option<&Communicator>, buffer: Attached) -> Result<()> {
        let mut domain = self.domain.lock();
        match domain.attached_buffer(owner_of(comm)) {
            Err(_) => {
                domain.attached.0.insert(owner_of(comm), buffer);
                if let Some(context) = owner_of(comm) {
                    domain.lane.set_own_buffer(context, true);
                }
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

    /// Waits until all buffered messages are delivered, then allows no more.
    ///
    /// # Errors
    /// MPI_ERR_BUFFER if no buffer is attached.
    pub fn detach(&self, comm: Option<&Communicator>) -> Result<Attached> {
        self.flush(comm)?;
        let mut domain = self.domain.lock();
        let buffer = domain.attached_buffer(owner_of(comm))?;
        domain.attached.0.remove(&owner_of(comm));
        if let Some(context) = owner_of(comm) {
            domain.lane.set_own_buffer(context, false);
        }
        Ok(buffer)
    }

    /// Waits until all buffered messages are delivered.
    ///
    /// # Errors
    /// MPI_ERR_BUFFER if no buffer is attached.
    pub fn flush(&self, comm: Option<&Communicator>) -> Result<()> {
        // Those that are there now: other threads may go on to send.
        let mut sends = {
            let domain = self.domain.lock();
            domain.attached_buffer(owner_of(comm))?;
            domain.lane.buffered_sends(owner_of(comm))
        };
        self.wait_for(|domain| {
            sends.retain(|send| domain.lane.is_known(*send));
            sends.is_empty().then_some(())
        });
        Ok(())
    }

    /// As [`Process::flush`] without waiting.
    ///
    /// # Errors
    /// As [`Process::flush`].
    pub fn iflush(&self, comm: Option<&Communicator>) -> Result<RequestId> {
        let mut domain = self.domain.lock();
        domain.attached_buffer(owner_of(comm))?;
        let sends = domain.lane.buffered_sends(owner_of(comm));
        Ok(domain.lane.open_flush(sends))
    }
}
