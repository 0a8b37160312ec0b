//! Continuation after process failures: the functions of `mpi-ext.h` (User-Level Failure
//! Mitigation, the proposal of the MPI Forum's fault tolerance working group). Tests:
//! tests/c/ulfm.c, tests/c/jobs/ulfm_windows.c, tests/c/jobs/ulfm_objects.h.

use crate::arguments::present;
use crate::errors::on_comm;
use crate::operations::communicators::enlist;
use crate::operations::duplicates::NewCommPlace;
use crate::operations::p2p::give;
use crate::operations::windows::WinArgument;
use crate::state::library::Running;
use crate::state::locked;
use crate::state::named::CommArgument;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Request};
use oxmpi_core::Communicator;
use oxmpi_core::file::File;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

/// The memory of a flag that is argument and result.
fn flag_at(flag: *mut c_int) -> Result<UserBuf> {
    present(flag, "flag")?;
    // SAFETY: the C program passes an int that it does not access until the operation is complete.
    Ok(unsafe { UserBuf::contiguous(flag.cast(), size_of::<c_int>()) })
}

/// Ends all waiting in the communicator. Not collective.
pub(crate) fn comm_revoke(library: &Running, comm: &CommArgument) -> Result<()> {
    library.process.revoke(comm);
    Ok(())
}

pub(crate) fn comm_is_revoked(library: &Running, comm: &CommArgument) -> Result<bool> {
    library.process.receive_notices();
    Ok(comm.is_revoked())
}

/// The processes that are known to have failed, in the order of the notices. Local.
pub(crate) fn comm_get_failed(library: &Running, comm: &CommArgument) -> Result<Group> {
    library.process.failed_group(comm)
}

/// Acknowledges the first `count` failures. Local.
pub(crate) fn comm_ack_failed(
    library: &Running,
    comm: &CommArgument,
    count: usize,
) -> Result<c_int> {
    Ok(library.process.acknowledge(comm, count) as c_int)
}

/// All living members get the bits that all of them have set. Collective.
pub(crate) fn comm_agree(function: FuncId, comm: Comm, flag: *mut c_int) -> c_int {
    on_comm(function, comm, |library, comm| library.process.agree(comm, flag_at(flag)?))
}

pub(crate) fn comm_iagree(
    function: FuncId,
    comm: Comm,
    flag: *mut c_int,
    request: *mut Request,
) -> c_int {
    on_comm(function, comm, |library, comm| {
        let flag = flag_at(flag)?;
        present(request, "request")?;
        give(request, library.process.start_agree(comm, flag)?)
    })
}

/// A communicator of the living members. Collective.
pub(crate) fn comm_shrink(library: &Running, comm: &CommArgument) -> Result<Communicator> {
    let made = Arc::new(Mutex::new(None));
    let place = Arc::clone(&made);
    let started = library.process.start_shrink(comm, move |comm| *locked(&place) = Some(comm))?;
    library.process.wait(started)?;
    let made = locked(&made).take();
    made.ok_or_else(|| MpiError::new(abi::MPI_ERR_INTERN, "no communicator was made"))
}

pub(crate) fn comm_ishrink(
    function: FuncId,
    comm: Comm,
    newcomm: *mut Comm,
    request: *mut Request,
) -> c_int {
    on_comm(function, comm, |library, comm| {
        present(newcomm, "newcomm")?;
        present(request, "request")?;
        let place = NewCommPlace(newcomm);
        let started = library.process.start_shrink(comm, move |made| {
            let NewCommPlace(newcomm) = { place };
            // SAFETY: not null, and not accessed by the program until the request is complete.
            unsafe { newcomm.write(enlist(library, made)) };
        })?;
        give(request, started)
    })
}

/// Ends all waiting in collective calls on the file. Not collective.
pub(crate) fn file_revoke(library: &Running, file: &File) -> Result<()> {
    library.process.revoke_file(file);
    Ok(())
}

/// The processes of the window that are known to have failed. Local.
pub(crate) fn win_get_failed(library: &Running, win: &WinArgument) -> Result<Group> {
    library.process.failed_of_window(win)
}

/// Ends all waiting in the window. Not collective.
pub(crate) fn win_revoke(library: &Running, win: &WinArgument) -> Result<()> {
    library.process.revoke_window(win);
    Ok(())
}
