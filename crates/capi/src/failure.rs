//! Continuation after process failures: the functions of `mpi-ext.h` (User-Level Failure
//! Mitigation, the proposal of the MPI Forum's fault tolerance working group). Tests:
//! tests/c/ulfm.c, tests/c/jobs/ulfm_windows.c, tests/c/jobs/ulfm_objects.h.

use crate::arguments::NewObject;
use crate::communicators::enlist;
use crate::duplicates::NewCommPlace;
use crate::errors::on_comm;
use crate::files::on_file;
use crate::library::{null, put};
use crate::objects::locked;
use crate::windows::on_win;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, File, Group as GroupHandle, Request, Win};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

/// The memory of a flag that is argument and result.
fn flag_at(flag: *mut c_int) -> Result<UserBuf> {
    if flag.is_null() {
        return Err(null("flag"));
    }
    // SAFETY: the C program passes an int that it does not access until the operation is complete.
    Ok(unsafe { UserBuf::contiguous(flag.cast(), size_of::<c_int>()) })
}

mpix! {
    /// Ends all waiting in the communicator. Not collective.
    fn MPIX_Comm_revoke(comm: Comm) -> c_int {
        on_comm(FuncId::MPIX_Comm_revoke, comm, |library, communicator| {
            library.process.revoke(communicator);
            Ok(())
        })
    }

    fn MPIX_Comm_is_revoked(comm: Comm, flag: *mut c_int) -> c_int {
        on_comm(FuncId::MPIX_Comm_is_revoked, comm, |library, communicator| {
            library.process.receive_notices();
            // SAFETY: the C program passes a place for an int.
            unsafe { put(flag, c_int::from(communicator.is_revoked()), "flag") }
        })
    }

    /// The processes that are known to have failed, in the order of the notices. Local.
    fn MPIX_Comm_get_failed(comm: Comm, failedgrp: *mut GroupHandle) -> c_int {
        on_comm(FuncId::MPIX_Comm_get_failed, comm, |library, communicator| {
            unsafe { (library.process.failed_group(communicator)?).give(library, failedgrp, "failedgrp") }
        })
    }

    /// Acknowledges the first `num_to_ack` failures. Local.
    fn MPIX_Comm_ack_failed(comm: Comm, num_to_ack: c_int, num_acked: *mut c_int) -> c_int {
        on_comm(FuncId::MPIX_Comm_ack_failed, comm, |library, communicator| {
            let Ok(count) = usize::try_from(num_to_ack) else {
                let text = format!("num_to_ack is {num_to_ack}; it must not be negative");
                return Err(MpiError::new(abi::MPI_ERR_ARG, text));
            };
            if num_acked.is_null() {
                return Err(null("num_acked"));
            }
            let known = library.process.acknowledge(communicator, count);
            // SAFETY: the C program passes a place for an int.
            unsafe { put(num_acked, known as c_int, "num_acked") }
        })
    }

    /// All living members get the bits that all of them have set. Collective.
    fn MPIX_Comm_agree(comm: Comm, flag: *mut c_int) -> c_int {
        on_comm(FuncId::MPIX_Comm_agree, comm, |library, communicator| {
            library.process.agree(communicator, flag_at(flag)?)
        })
    }

    fn MPIX_Comm_iagree(comm: Comm, flag: *mut c_int, request: *mut Request) -> c_int {
        on_comm(FuncId::MPIX_Comm_iagree, comm, |library, communicator| {
            let flag = flag_at(flag)?;
            if request.is_null() {
                return Err(null("request"));
            }
            let started = library.process.start_agree(communicator, flag)?;
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(request, started.raw() as Request, "request") }
        })
    }

    /// A communicator of the living members. Collective.
    fn MPIX_Comm_shrink(comm: Comm, newcomm: *mut Comm) -> c_int {
        on_comm(FuncId::MPIX_Comm_shrink, comm, |library, communicator| {
            let made = Arc::new(Mutex::new(None));
            let place = Arc::clone(&made);
            let request = library.process.start_shrink(communicator, move |comm| *locked(&place) = Some(comm))?;
            library.process.wait(request)?;
            match locked(&made).take() {
                Some(made) => unsafe { made.give(library, newcomm, "newcomm") },
                None => Err(MpiError::new(abi::MPI_ERR_INTERN, "no communicator was made")),
            }
        })
    }

    /// Ends all waiting in collective calls on the file. Not collective.
    fn MPIX_File_revoke(fh: File) -> c_int {
        on_file(FuncId::MPIX_File_revoke, fh, |library, file| {
            library.process.revoke_file(file);
            Ok(())
        })
    }

    /// The processes of the window that are known to have failed. Local.
    fn MPIX_Win_get_failed(win: Win, failedgrp: *mut GroupHandle) -> c_int {
        on_win(FuncId::MPIX_Win_get_failed, win, |library, window| {
            unsafe { (library.process.failed_of_window(window)?).give(library, failedgrp, "failedgrp") }
        })
    }

    /// Ends all waiting in the window. Not collective.
    fn MPIX_Win_revoke(win: Win) -> c_int {
        on_win(FuncId::MPIX_Win_revoke, win, |library, window| {
            library.process.revoke_window(window);
            Ok(())
        })
    }

    fn MPIX_Comm_ishrink(comm: Comm, newcomm: *mut Comm, request: *mut Request) -> c_int {
        on_comm(FuncId::MPIX_Comm_ishrink, comm, |library, communicator| {
            if newcomm.is_null() {
                return Err(null("newcomm"));
            }
            if request.is_null() {
                return Err(null("request"));
            }
            let place = NewCommPlace(newcomm);
            let started = library.process.start_shrink(communicator, move |made| {
                let NewCommPlace(newcomm) = { place };
                // SAFETY: not null, and not accessed by the program until the request is complete.
                unsafe { newcomm.write(enlist(library, made)) };
            })?;
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(request, started.raw() as Request, "request") }
        })
    }
}
