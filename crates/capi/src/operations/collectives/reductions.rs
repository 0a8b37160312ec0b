//! Collectives that combine data (MPI-5.0 sections 6.9 to 6.11). MPI_Reduce_scatter is in `vector`,
//! since its blocks have different lengths.

use super::arguments::ReductionArgs;
use super::inter::across;
use super::run::run_plan;
use super::short;
use crate::arguments::CallForm;
use crate::errors::{on_comm, outcome};
use crate::operations::ops::{Combining, combining};
use crate::state::library::{Running, check_count};
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Datatype};
use oxmpi_coll::{Area, Buffers};
use oxmpi_core::Communicator;
use oxmpi_core::shmem::short::Prefix;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Shared};
use std::ffi::c_int;

fn reduction(
    library: &'static Running,
    comm: &Communicator,
    how: Combining,
    call: Call,
    datatype: Datatype,
    (input, output): (UserBuf, UserBuf),
    form: CallForm,
) -> Result<()> {
    if matches!(form, CallForm::Blocking) && (input.is_on_device() || output.is_on_device()) {
        let buffers = Buffers { input, output, element: None };
        return library.process.execute_staged(buffers.into(), |memory| {
            match (memory.input, memory.output) {
                (Area::Whole(input), Area::Whole(output)) => {
                    reduction(library, comm, how, call, datatype, (input, output), form)
                }
                // Staging keeps the shape of each area.
                _ => Ok(()),
            }
        });
    }
    let datatype = library.datatype(datatype)?;
    let mut buffers = Buffers { input, output, element: None };
    // A reference count would cost more than a short reduction.
    if matches!(form, CallForm::Blocking)
        && library.process.execute_past_plans(
            comm,
            &call,
            &buffers,
            &how.combine,
            Some(datatype.layout()),
        )?
    {
        return Ok(());
    }
    buffers.element = Some(datatype.layout().clone());
    run_plan(library, comm, call, buffers.into(), how, form)
}

pub(crate) fn reduce(
    function: FuncId,
    r: ReductionArgs,
    root: c_int,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::reduce(&r, root, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.reduce(r, root);
        }
        let root = communicator.root(root)?;
        let at_root = root == communicator.team.rank;
        let in_place = at_root && r.send().is_in_place();
        let how = combining(library, r.op, r.datatype)?;
        let input = if in_place { UserBuf::empty() } else { r.send().buffer(library)? };
        let output = if at_root { r.receive().buffer(library)? } else { UserBuf::empty() };
        let count = Shared(check_count(r.count)?);
        let call = Call::Reduce { root, count, commutative: how.commutative, in_place };
        reduction(library, communicator, how, call, r.datatype, (input, output), form)
    })
}

/// Runs a reduction whose result goes to every rank. `describe` makes the call from the count,
/// whether the operation commutes, and whether the data are in place.
#[inline(always)]
fn reduce_to_all(
    library: &'static Running,
    communicator: &Communicator,
    r: ReductionArgs,
    form: CallForm,
    describe: impl FnOnce(Shared<usize>, bool, bool) -> Call,
) -> Result<()> {
    let in_place = r.send().is_in_place();
    let how = combining(library, r.op, r.datatype)?;
    let input = if in_place { UserBuf::empty() } else { r.send().buffer(library)? };
    let output = r.receive().buffer(library)?;
    let call = describe(Shared(check_count(r.count)?), how.commutative, in_place);
    reduction(library, communicator, how, call, r.datatype, (input, output), form)
}

pub(crate) fn allreduce(function: FuncId, r: ReductionArgs, comm: Comm, form: CallForm) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::prefix(&r, Prefix::All, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.allreduce(r);
        }
        reduce_to_all(library, communicator, r, form, |count, commutative, in_place| {
            Call::Allreduce { count, commutative, in_place }
        })
    })
}

/// Prefixes are not defined for intercommunicators (MPI-5.0 section 6.11).
fn check_one_group(comm: &Communicator) -> Result<()> {
    match comm.groups() {
        None => Ok(()),
        Some(_) => Err(MpiError::new(
            abi::MPI_ERR_COMM,
            "comm is an intercommunicator, for which this collective is not defined",
        )),
    }
}

pub(crate) fn scan(function: FuncId, r: ReductionArgs, comm: Comm, form: CallForm) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::prefix(&r, Prefix::Inclusive, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        check_one_group(communicator)?;
        reduce_to_all(library, communicator, r, form, |count, commutative, in_place| Call::Scan {
            count,
            commutative,
            in_place,
        })
    })
}

/// The receive buffer of rank 0 is not significant (MPI-5.0 section 6.11.2), so it is not read.
pub(crate) fn exscan(function: FuncId, r: ReductionArgs, comm: Comm, form: CallForm) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::prefix(&r, Prefix::Exclusive, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        check_one_group(communicator)?;
        let in_place = r.send().is_in_place();
        let how = combining(library, r.op, r.datatype)?;
        let input = if in_place { UserBuf::empty() } else { r.send().buffer(library)? };
        let needed = in_place || communicator.rank() > 0;
        let output = if needed { r.receive().buffer(library)? } else { UserBuf::empty() };
        let count = Shared(check_count(r.count)?);
        let call = Call::Exscan { count, commutative: how.commutative, in_place };
        reduction(library, communicator, how, call, r.datatype, (input, output), form)
    })
}

pub(crate) fn reduce_scatter_block(
    function: FuncId,
    r: ReductionArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::reduce_scatter_block(&r, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across
                .reduce_scatter(r, &vec![check_count(r.count)?; communicator.size() as usize]);
        }
        let in_place = r.send().is_in_place();
        let how = combining(library, r.op, r.datatype)?;
        let size = communicator.size();
        let input = if in_place { UserBuf::empty() } else { r.send().blocks(library, size)? };
        let output = if in_place {
            r.receive().blocks(library, size)?
        } else {
            r.receive().buffer(library)?
        };
        let block = Shared(check_count(r.count)?);
        let call = Call::ReduceScatterBlock { block, commutative: how.commutative, in_place };
        reduction(library, communicator, how, call, r.datatype, (input, output), form)
    })
}
