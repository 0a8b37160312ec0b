//! Duplicates of communicators (MPI-5.0 section 7.4.2): what goes with them.

use crate::attributes::copy_attributes;
use crate::communicators::{enlist, give};
use crate::errors::outcome;
use crate::hints::Wanted;
use crate::library::{library, null, put};
use crate::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Comm, Info, Request};
use oxmpi_objects::error::Result;
use std::ffi::c_int;
use std::sync::Arc;

/// Duplicates a communicator with its attributes, and with what is wanted of it (MPI-5.0 section 7.4.2: those of the old one
/// are not inherited). A rank whose copy functions fail, or whose info is wrong, takes part all the same, so that the others do
/// not wait for it.
pub(crate) fn duplicate(comm: Comm, wanted: Result<Wanted>, newcomm: *mut Comm) -> Result<()> {
    let library = library()?;
    let communicator = Arc::clone(&*library.communicator(comm)?);
    let copied = wanted.and_then(|wanted| Ok((wanted, copy_attributes(comm, &communicator.attributes)?)));
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
            give(library, newcomm, "newcomm", made)
        }
        Err(error) => {
            library.process.close(&made);
            Err(error)
        }
    }
}

/// Where the handle of a communicator is written when a request completes, by whichever thread is in the library then.
pub(crate) struct Place(pub(crate) *mut Comm);

// SAFETY: the program leaves the place alone until the request is complete (MPI-5.0 section 7.4.2), and learns of that
// with the lane's lock, under which it is written.
unsafe impl Send for Place {}

/// As [`duplicate`], without waiting. Attributes are copied now; the duplicate gets them when it is made.
pub(crate) fn duplicate_later(
    comm: Comm,
    wanted: Result<Wanted>,
    newcomm: *mut Comm,
    request: *mut Request,
) -> Result<()> {
    let library = library()?;
    let communicator = Arc::clone(&*library.communicator(comm)?);
    let places = match (newcomm.is_null(), request.is_null()) {
        (false, false) => Ok(()),
        (is_null, _) => Err(null(if is_null { "newcomm" } else { "request" })),
    };
    let copied =
        places.and(wanted).and_then(|wanted| Ok((wanted, copy_attributes(comm, &communicator.attributes)?)));
    let (Wanted { hints, component }, copied) = match copied {
        Ok(copied) => copied,
        Err(error) => {
            // The others must not wait for this rank's part.
            library.process.idup_for_others(&communicator)?;
            return Err(error);
        }
    };
    let place = Place(newcomm);
    let started = library.process.idup(&communicator, component, move |made| {
        let Place(newcomm) = { place };
        made.set_hints(hints);
        copied.give_to(&made.attributes);
        // SAFETY: not null, and the program's place for a handle until the request is complete.
        unsafe { newcomm.write(enlist(library, made)) };
    })?;
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(request, started.raw() as Request, "request") }
}

mpi! {
    /// MPI-5.0 section 7.4.2. Collective. Test: tests/c/info_comm.c.
    fn MPI_Comm_dup_with_info(comm: Comm, info: Info, newcomm: *mut Comm) -> c_int {
        let wanted = Wanted::given(info);
        outcome(FuncId::MPI_Comm_dup_with_info, Some(On::Comm(comm)), duplicate(comm, wanted, newcomm))
    }

    /// MPI-5.0 section 7.4.2. Collective. Test: tests/c/comm_idup.c.
    fn MPI_Comm_idup(comm: Comm, newcomm: *mut Comm, request: *mut Request) -> c_int {
        let result = duplicate_later(comm, Ok(Wanted::default()), newcomm, request);
        outcome(FuncId::MPI_Comm_idup, Some(On::Comm(comm)), result)
    }

    /// MPI-5.0 section 7.4.2. Collective. Test: tests/c/comm_idup.c.
    fn MPI_Comm_idup_with_info(comm: Comm, info: Info, newcomm: *mut Comm, request: *mut Request) -> c_int {
        let wanted = Wanted::given(info);
        let result = duplicate_later(comm, wanted, newcomm, request);
        outcome(FuncId::MPI_Comm_idup_with_info, Some(On::Comm(comm)), result)
    }
}
