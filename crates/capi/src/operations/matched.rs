//! Matched probes and receives (MPI-5.0 sections 3.8.2 and 3.8.3).

use crate::arguments::BufferArgs;
use crate::errors::outcome;
use crate::state::library::{Running, library};
use crate::state::named::CommArgument;
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Message;
use oxmpi_engine::{Completion, RequestId};
use oxmpi_objects::error::Result;
use std::ffi::c_int;

/// Runs a call on a message, on whose communicator errors are raised.
pub(crate) fn on_message(
    function: FuncId,
    message: Message,
    call: impl FnOnce(&'static Running, Message) -> Result<()>,
) -> c_int {
    // The call may end the message.
    let context = library().ok().and_then(|library| library.process.context_of(message as u64));
    let result = library().and_then(|library| call(library, message));
    let on = result.as_ref().err().zip(context).map(|(error, context)| {
        On::Failed(Completion { context, ..Completion::EMPTY }, error.class())
    });
    outcome(function, on, result)
}

pub(crate) fn mprobe(
    library: &Running,
    source: c_int,
    tag: c_int,
    comm: &CommArgument,
) -> Result<(Message, Completion)> {
    let (message, completion) = library.process.mprobe(comm, source, tag)?;
    Ok((message as Message, completion))
}

pub(crate) fn improbe(
    library: &Running,
    source: c_int,
    tag: c_int,
    comm: &CommArgument,
) -> Result<(bool, Option<Message>, Option<Completion>)> {
    let found = library.process.improbe(comm, source, tag)?;
    let (message, completion) = found.unzip();
    Ok((message.is_some(), message.map(|message| message as Message), completion))
}

/// After an error of the arguments the message can still be received.
pub(crate) fn mrecv(
    library: &Running,
    message: Message,
    room: BufferArgs,
) -> Result<(Message, Completion)> {
    let completion = library.process.mrecv(message as u64, room.buffer(library)?)?;
    Ok((abi::MPI_MESSAGE_NULL, completion))
}

pub(crate) fn imrecv(
    library: &Running,
    message: Message,
    room: BufferArgs,
) -> Result<(Message, RequestId)> {
    let request = library.process.imrecv(message as u64, room.buffer(library)?)?;
    Ok((abi::MPI_MESSAGE_NULL, request))
}
