//! Matched probes (MPI-5.0 sections 3.8.2 and 3.8.3). The probe removes the message from the
//! unexpected queue, so that no other thread can receive it.

use crate::comm::Communicator;
use crate::completion::outcome;
use crate::errors::of_fault;
use crate::p2p::{NO_PROCESS, source_of};
use crate::process::Process;
use crate::wait_reason::Awaited;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Completion, RequestId, Started};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::Result;
use oxmpi_objects::shown::{ValueKind, bad_handle};

/// MPI_MESSAGE_NULL as a raw number.
pub const NULL: u64 = abi::MPI_MESSAGE_NULL as u64;
/// The message of MPI_PROC_NULL.
pub const NO_PROC: u64 = abi::MPI_MESSAGE_NO_PROC as u64;

/// A matched message, by its raw number, and the completion of its receive.
pub type MatchedMessage = (u64, Completion);

impl<F: Fabric> Process<F> {
    /// Takes the message that a receive would match, if the message has arrived (MPI_Improbe).
    pub fn improbe(
        &self,
        comm: &Communicator,
        source: i32,
        tag: i32,
    ) -> Result<Option<MatchedMessage>> {
        let tag = self.tag_match(tag)?;
        let Some(source) = source_of(comm, source)? else { return Ok(Some((NO_PROC, NO_PROCESS))) };
        let context = comm.team.point_to_point;
        let found = self
            .look_again(
                |domain| domain.lane.take_message(context, source, tag),
                |found| matches!(found, Ok(None)),
            )
            .map_err(of_fault)?;
        Ok(found.map(|(message, completion)| (message.raw(), completion)))
    }

    /// Waits for a message and takes it (MPI_Mprobe).
    pub fn mprobe(&self, comm: &Communicator, source: i32, tag: i32) -> Result<MatchedMessage> {
        let tag = self.tag_match(tag)?;
        let Some(source) = source_of(comm, source)? else { return Ok((NO_PROC, NO_PROCESS)) };
        let context = comm.team.point_to_point;
        let awaited = Awaited::Message(context, source, tag);
        let found = self.wait_for(&awaited, |domain| {
            domain.lane.take_message(context, source, tag).transpose()
        });
        found.map(|(message, completion)| (message.raw(), completion)).map_err(of_fault)
    }

    /// Receives a matched message (MPI_Mrecv). Like [`Process::recv_whatever`] it returns the
    /// completion of a failed message.
    pub fn mrecv(&self, message: u64, buffer: UserBuf) -> Result<Completion> {
        match self.start_matched(message, buffer)? {
            Started::Complete(completion) => Ok(completion),
            Started::Pending(request) => self.wait_raw(request.raw()),
        }
    }

    /// MPI_Imrecv.
    pub fn imrecv(&self, message: u64, buffer: UserBuf) -> Result<RequestId> {
        let started = self.start_matched(message, buffer)?;
        Ok(self.request_of(started))
    }

    /// [`Process::mrecv`], except that a failed message is an error.
    pub fn receive_matched(&self, message: u64, buffer: UserBuf) -> Result<Completion> {
        outcome(self.mrecv(message, buffer)?)
    }

    fn start_matched(&self, message: u64, buffer: UserBuf) -> Result<Started> {
        if message == NO_PROC {
            return Ok(Started::Complete(NO_PROCESS));
        }
        let started =
            self.enter(|domain| domain.lane.receive_message(RequestId::from_raw(message), buffer));
        started.ok_or_else(|| {
            let why = "it does not exist, or was received before";
            bad_handle(ValueKind::Message, message, why)
        })
    }
}
