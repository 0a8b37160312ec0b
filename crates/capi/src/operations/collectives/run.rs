//! Runs collectives: blocking calls at once, other forms as requests.

use crate::arguments::{CallForm, null, put};
use crate::operations::info;
use crate::operations::ops::Combining;
use crate::state::library::Running;
use oxmpi_abi::types::Request;
use oxmpi_coll::{Area, Buffers, Combine, Memory};
use oxmpi_core::Communicator;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::Result;
use oxmpi_plan::Call;

pub(super) fn movement(
    library: &Running,
    comm: &Communicator,
    call: Call,
    (input, output): (UserBuf, UserBuf),
    form: CallForm,
) -> Result<()> {
    let buffers = Buffers { input, output, element: None };
    let moving = Combining { combine: Combine::Nothing, call: None, commutative: true };
    run(library, comm, call, buffers, moving, form)
}

pub(super) fn run(
    library: &Running,
    comm: &Communicator,
    call: Call,
    buffers: Buffers,
    how: Combining,
    form: CallForm,
) -> Result<()> {
    match form {
        CallForm::Blocking if buffers.input.is_on_device() || buffers.output.is_on_device() => {
            library.process.execute_staged(buffers.into(), |memory| {
                match (memory.input, memory.output) {
                    (Area::Whole(input), Area::Whole(output)) => run(
                        library,
                        comm,
                        call,
                        Buffers { input, output, element: memory.element },
                        how,
                        form,
                    ),
                    // Staging keeps the shape of each area.
                    _ => Ok(()),
                }
            })
        }
        CallForm::Blocking => library.process.execute(comm, call, buffers, how.combine, how.call),
        CallForm::Nonblocking(_) | CallForm::Persistent(..) => {
            run_plan(library, comm, call, buffers.into(), how, form)
        }
    }
}

/// Runs a collective that moves data between buffers or lists of blocks.
pub(crate) fn movement_of(
    library: &Running,
    comm: &Communicator,
    call: Call,
    (input, output): (Area, Area),
    form: CallForm,
) -> Result<()> {
    let moving = Combining { combine: Combine::Nothing, call: None, commutative: true };
    run_plan(library, comm, call, Memory { input, output, element: None }, moving, form)
}

pub(super) fn run_plan(
    library: &Running,
    comm: &Communicator,
    call: Call,
    memory: Memory,
    how: Combining,
    form: CallForm,
) -> Result<()> {
    match form {
        CallForm::Blocking if memory.input.is_on_device() || memory.output.is_on_device() => {
            return library
                .process
                .execute_staged(memory, |memory| run_plan(library, comm, call, memory, how, form));
        }
        CallForm::Nonblocking(_) | CallForm::Persistent(..) => {
            library.process.check_devices(&memory)?
        }
        CallForm::Blocking => {}
    }
    match form {
        CallForm::Blocking => {
            library.process.execute_plan(comm, call, memory, how.combine, how.call)
        }
        CallForm::Nonblocking(place) | CallForm::Persistent(_, place) if place.is_null() => {
            Err(null("request"))
        }
        CallForm::Nonblocking(place) => {
            let request = library.process.start(comm, call, memory, how.combine, how.call)?;
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(place, request.raw() as Request, "request") }
        }
        CallForm::Persistent(info, place) => {
            // No key is known, but the handle must be valid.
            info::given(info)?;
            let request =
                library.process.collective_init(comm, call, memory, how.combine, how.call)?;
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(place, request.raw() as Request, "request") }
        }
    }
}
