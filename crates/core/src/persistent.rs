//! Persistent requests (MPI-5.0 section 3.9).

use crate::comm::Communicator;
use crate::errors::of_fault;
use crate::p2p::{NO_PROCESS, source_of};
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Completion, Mode, Operation, RequestId, StartFault};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{ValueKind, bad_handle};

fn of_start(request: u64, fault: StartFault) -> MpiError {
    match fault {
        StartFault::Fault(fault) => of_fault(fault),
        other => bad_handle(ValueKind::Request, request, other),
    }
}

impl<F: Fabric> Process<F> {
    /// A persistent send (MPI_Send_init and related calls).
    pub fn send_init(
        &self,
        comm: &Communicator,
        mode: Mode,
        buffer: UserBuf,
        dest: i32,
        tag: i32,
    ) -> Result<RequestId> {
        self.check_tag(tag)?;
        let operation = if dest == abi::MPI_PROC_NULL {
            Operation::Nothing(Completion::EMPTY)
        } else {
            let to = comm.process(dest, "dest")?;
            Operation::Send { context: comm.team.point_to_point, mode, buffer, to, tag }
        };
        Ok(self.domain.lock().lane.open_persistent(operation))
    }

    /// A persistent receive (MPI_Recv_init).
    pub fn recv_init(
        &self,
        comm: &Communicator,
        buffer: UserBuf,
        source: i32,
        tag: i32,
    ) -> Result<RequestId> {
        let tag = self.tag_match(tag)?;
        let operation = match source_of(comm, source)? {
            None => Operation::Nothing(NO_PROCESS),
            Some(source) => {
                Operation::Receive { context: comm.team.point_to_point, buffer, source, tag }
            }
        };
        Ok(self.domain.lock().lane.open_persistent(operation))
    }

    /// Starts a persistent request (MPI_Start). Errors: MPI_ERR_REQUEST if the request is not
    /// persistent or is active; the errors of the operation.
    pub fn start_request(&self, request: u64) -> Result<()> {
        let id = RequestId::from_raw(request);
        // Only a buffered send can lack room; all other operations start at the first attempt.
        let look_is_due = self.start_with_room(|domain| {
            match domain.lane.startable(id) {
                Ok(Operation::External { key, .. }) => {
                    let key = *key;
                    let started = domain.start_persistent(id, key);
                    return Ok(started.map(|()| true).map_err(|fault| of_start(request, fault)));
                }
                Ok(Operation::Send { mode: Mode::Buffered, context, buffer, .. }) => {
                    let (context, len) = (*context, buffer.packed_len());
                    domain.check_room(context, len)?;
                }
                Ok(_) => {}
                Err(fault) => return Ok(Err(of_start(request, fault))),
            }
            let started = domain.lane.start(id).map_err(|fault| of_start(request, fault));
            Ok(started.map(|()| domain.lane.is_look_due(1)))
        })?;
        if look_is_due {
            self.look(|_| ());
        }
        Ok(())
    }

    /// Starts a persistent request once with another buffer.
    pub fn start_request_with(&self, request: u64, buffer: UserBuf) -> Result<()> {
        let id = RequestId::from_raw(request);
        self.enter(|domain| {
            domain.lane.start_with(id, buffer).map_err(|fault| of_start(request, fault))
        })
    }

    /// Checks that all requests can be started, since MPI_Startall starts all or none.
    pub fn check_startable(&self, requests: impl Iterator<Item = u64>) -> Result<()> {
        if !self.checks {
            return Ok(());
        }
        let mut domain = self.domain.lock();
        requests.enumerate().try_for_each(|(at, request)| {
            domain
                .lane
                .startable(RequestId::from_raw(request))
                .map(drop)
                .map_err(|f| of_start(request, f).within(format_args!("array_of_requests[{at}]")))
        })
    }
}
