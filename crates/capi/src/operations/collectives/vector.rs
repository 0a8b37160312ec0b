//! Collectives with blocks of different lengths (MPI-5.0 sections 6.5 to 6.8 and 6.10.2): the v and
//! w forms. A buffer is a list of blocks, each with a displacement, a count and possibly a
//! datatype. Arguments that are significant only at the root are not read at other ranks.

use super::arguments::{BlockArgs, NumberArray, ReductionArgs, check_blocks, lengths, together};
use super::inter::{RemoteBlocks, across};
use super::run::{movement_of, run_plan};
use super::short;
use crate::arguments::{BufferArgs, CallForm};
use crate::errors::{on_comm, outcome};
use crate::operations::ops::combining;
use crate::state::library::check_count;
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::types::Comm;
use oxmpi_coll::{Area, Memory};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::Result;
use oxmpi_plan::{Call, Paired, RootOnly, Shared};
use std::ffi::c_int;

/// Memory for an argument that is not significant at this rank.
fn no_blocks() -> Area {
    UserBuf::empty().into()
}

pub(crate) fn gatherv(
    function: FuncId,
    send: BufferArgs,
    receive: BlockArgs,
    root: c_int,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::gatherv(send, &receive, root, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.gather(send, &RemoteBlocks::Uneven(receive), root);
        }
        let root = communicator.root(root)?;
        let at_root = root == communicator.team.rank;
        let in_place = at_root && send.is_in_place();
        let input = if in_place { UserBuf::empty() } else { send.buffer(library)? };
        let (output, all) = if at_root {
            let list = receive.list(library, communicator.size() as usize, |_| true)?;
            let all = RootOnly::at_root(lengths(&list, receive.names)?);
            (Area::Blocks(list), all)
        } else {
            (no_blocks(), RootOnly::elsewhere())
        };
        let call = Call::Gatherv { root, mine: Paired(input.packed_len()), all, in_place };
        movement_of(library, communicator, call, (input.into(), output), form)
    })
}

pub(crate) fn scatterv(
    function: FuncId,
    send: BlockArgs,
    receive: BufferArgs,
    root: c_int,
    comm: Comm,
    form: CallForm,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.scatter(&RemoteBlocks::Uneven(send), receive, root);
        }
        let root = communicator.root(root)?;
        let at_root = root == communicator.team.rank;
        let in_place = at_root && receive.is_in_place();
        let output = if in_place { UserBuf::empty() } else { receive.buffer(library)? };
        let (input, all) = if at_root {
            let list = send.list(library, communicator.size() as usize, |_| true)?;
            let all = RootOnly::at_root(lengths(&list, send.names)?);
            (Area::Blocks(list), all)
        } else {
            (no_blocks(), RootOnly::elsewhere())
        };
        let call = Call::Scatterv { root, mine: Paired(output.packed_len()), all, in_place };
        movement_of(library, communicator, call, (input, output.into()), form)
    })
}

pub(crate) fn allgatherv(
    function: FuncId,
    send: BufferArgs,
    receive: BlockArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::allgatherv(send, &receive, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.allgather(send, &RemoteBlocks::Uneven(receive));
        }
        let in_place = send.is_in_place();
        let list = receive.list(library, communicator.size() as usize, |_| true)?;
        let blocks = lengths(&list, receive.names)?;
        let input = if in_place { UserBuf::empty() } else { send.buffer(library)? };
        if !in_place {
            check_blocks(input.packed_len(), blocks.length(communicator.team.rank as usize))?;
        }
        let call = Call::Allgatherv { blocks: Shared(blocks), in_place };
        movement_of(library, communicator, call, (input.into(), Area::Blocks(list)), form)
    })
}

pub(crate) fn alltoallv(
    function: FuncId,
    send: BlockArgs,
    receive: BlockArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::alltoallv(&send, &receive, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.alltoall(&RemoteBlocks::Uneven(send), &RemoteBlocks::Uneven(receive));
        }
        let size = communicator.size() as usize;
        let in_place = send.is_in_place();
        let output = receive.list(library, size, |_| true)?;
        let receive = lengths(&output, receive.names)?;
        let (input, send) = if in_place {
            (no_blocks(), receive.clone())
        } else {
            let input = send.list(library, size, |_| true)?;
            let lengths = lengths(&input, send.names)?;
            (Area::Blocks(input), lengths)
        };
        let call = Call::Alltoallv { send: Paired(send), receive: Paired(receive), in_place };
        movement_of(library, communicator, call, (input, Area::Blocks(output)), form)
    })
}

/// `counts` are the elements of each rank's block; `r.count` is not used.
pub(crate) fn reduce_scatter(
    function: FuncId,
    r: ReductionArgs,
    counts: NumberArray,
    comm: Comm,
    form: CallForm,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        let counts = counts.read(communicator.size() as usize, "recvcounts")?;
        let element = |(index, count): (usize, &i64)| {
            check_count(*count).map_err(|error| error.within(format!("recvcounts[{index}]")))
        };
        let counts = counts.iter().enumerate().map(element).collect::<Result<Vec<_>>>()?;
        if let Some(across) = across(library, communicator, form) {
            return across.reduce_scatter(r, &counts);
        }
        let in_place = r.send().is_in_place();
        let how = combining(library, r.op, r.datatype)?;
        let blocks = together(counts.into_iter(), "recvcounts")?;
        let all = ReductionArgs { count: blocks.total() as i64, ..r };
        let mine =
            ReductionArgs { count: blocks.length(communicator.team.rank as usize) as i64, ..r };
        let input = if in_place { UserBuf::empty() } else { all.send().buffer(library)? };
        let output = if in_place { all.receive() } else { mine.receive() }.buffer(library)?;
        let element = Some(library.datatype(r.datatype)?.layout().clone());
        let memory = Memory { input: input.into(), output: output.into(), element };
        let call =
            Call::ReduceScatter { blocks: Shared(blocks), commutative: how.commutative, in_place };
        run_plan(library, communicator, call, memory, how, form)
    })
}
