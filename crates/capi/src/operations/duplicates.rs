//! Duplicates of communicators (MPI-5.0 section 7.4.2), with attributes and hints.

use crate::arguments::{null, put};
use crate::errors::on_comm;
use crate::operations::attributes::copy_attributes;
use crate::operations::communicators::enlist;
use crate::operations::hints::CommInfo;
use crate::state::library::Running;
use crate::state::named::CommArgument;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Info, Request};
use oxmpi_core::Communicator;
use oxmpi_objects::error::Result;
use std::ffi::c_int;
use std::sync::Arc;

/// Duplicates a communicator with its attributes and the given hints; hints are not inherited
/// (MPI-5.0 section 7.4.2). A rank with a failing copy function or a wrong info takes part, so that
/// other ranks do not wait for it.
fn duplicate(
    library: &Running,
    comm: &CommArgument,
    wanted: Result<CommInfo>,
) -> Result<Communicator> {
    // A copy function may free the communicator.
    let communicator = Arc::clone(comm);
    let copied = wanted
        .and_then(|wanted| Ok((wanted, copy_attributes(comm.handle, &communicator.attributes)?)));
    let component = copied.as_ref().ok().and_then(|(wanted, _)| wanted.component);
    let made = match library.process.dup_served_by(&communicator, component) {
        Ok(made) => made,
        Err(error) => {
            if let Ok((_, copied)) = copied {
                copied.delete();
            }
            return Err(error);
        }
    };
    match copied {
        Ok((wanted, copied)) => {
            made.set_hints(wanted.hints);
            copied.give_to(&made.attributes);
            Ok(made)
        }
        Err(error) => {
            library.process.close(&made);
            Err(error)
        }
    }
}

/// The address for a communicator's handle. Any thread in the library writes it when the request
/// completes.
pub(crate) struct NewCommPlace(pub(crate) *mut Comm);

// SAFETY: the handle is written under the lane's lock. The program does not access it until the
// request is complete (MPI-5.0 section 7.4.2), which it learns under the same lock.
unsafe impl Send for NewCommPlace {}

/// Starts a duplication. The attributes are copied now, and given to the duplicate when it is made.
fn duplicate_later(
    library: &'static Running,
    comm: &CommArgument,
    wanted: Result<CommInfo>,
    newcomm: *mut Comm,
    request: *mut Request,
) -> Result<()> {
    let communicator = Arc::clone(comm);
    let places = match (newcomm.is_null(), request.is_null()) {
        (false, false) => Ok(()),
        (is_null, _) => Err(null(if is_null { "newcomm" } else { "request" })),
    };
    let copied = places
        .and(wanted)
        .and_then(|wanted| Ok((wanted, copy_attributes(comm.handle, &communicator.attributes)?)));
    let (CommInfo { hints, component }, copied) = match copied {
        Ok(copied) => copied,
        Err(error) => {
            // The other ranks must not wait for this rank.
            library.process.idup_for_others(&communicator)?;
            return Err(error);
        }
    };
    let place = NewCommPlace(newcomm);
    let started = library.process.idup(&communicator, component, move |made| {
        let NewCommPlace(newcomm) = { place };
        made.set_hints(hints);
        copied.give_to(&made.attributes);
        // SAFETY: not null, and reserved for the handle until the request is complete.
        unsafe { newcomm.write(enlist(library, made)) };
    })?;
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(request, started.raw() as Request, "request") }
}

pub(crate) fn comm_dup(library: &Running, comm: &CommArgument) -> Result<Communicator> {
    duplicate(library, comm, Ok(CommInfo::default()))
}

/// Test: tests/c/info_comm.c.
pub(crate) fn comm_dup_with_info(
    library: &Running,
    comm: &CommArgument,
    info: Info,
) -> Result<Communicator> {
    duplicate(library, comm, CommInfo::given(info))
}

/// Test: tests/c/comm_idup.c.
pub(crate) fn comm_idup(
    function: FuncId,
    comm: Comm,
    newcomm: *mut Comm,
    request: *mut Request,
) -> c_int {
    comm_idup_with_info(function, comm, abi::MPI_INFO_NULL, newcomm, request)
}

pub(crate) fn comm_idup_with_info(
    function: FuncId,
    comm: Comm,
    info: Info,
    newcomm: *mut Comm,
    request: *mut Request,
) -> c_int {
    on_comm(function, comm, |library, comm| {
        duplicate_later(library, comm, CommInfo::given(info), newcomm, request)
    })
}
