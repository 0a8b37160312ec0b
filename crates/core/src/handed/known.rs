//! A call in the types of its library.

use super::Handed;
use super::hcoll::Entered;
use super::libraries::{Backend, MadeTeam};
use super::task::CallStage;
use oxmpi_engine::Lane;
use oxmpi_fabric::Fabric;
use oxmpi_hcoll::{HcollCall, HcollElement, HcollOperation, Invocation};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_ucc::{
    UccArguments, UccCollective, UccDatatype, UccOperand, UccOperation, UccRequest, UccState,
};

pub(super) enum LibraryCall {
    Ucc(UccArguments),
    Hcoll(Invocation),
}

pub(super) enum LibraryRequest {
    Ucc(UccRequest),
    Hcoll(HcollCall),
}

impl LibraryRequest {
    pub(super) fn state(&self) -> UccState {
        match self {
            LibraryRequest::Ucc(request) => request.state(),
            LibraryRequest::Hcoll(call) if call.is_over() => UccState::Done,
            LibraryRequest::Hcoll(_) => UccState::Going,
        }
    }
}

/// Makes the library's request. The inner error means that the library does not support it.
pub(super) fn describe(
    (team, arguments): (&MadeTeam, LibraryCall),
    handed: &Handed,
) -> Result<Result<LibraryRequest, String>, String> {
    Ok(match (team, arguments) {
        (MadeTeam::Ucc(team), LibraryCall::Ucc(arguments)) => match &handed.context {
            Ok(Backend::Ucc(context)) if context.has(arguments.kind) => {
                UccRequest::new(team, arguments)
                    .map(LibraryRequest::Ucc)
                    .map_err(|error| error.to_string())
            }
            _ => Err("the layers that it uses have no such collective".to_string()),
        },
        (MadeTeam::Hcoll(context), LibraryCall::Hcoll(invocation)) => {
            HcollCall::new(context, invocation)
                .map(LibraryRequest::Hcoll)
                .map_err(|error| error.to_string())
        }
        _ => return Err("its communicator has a team of another library".to_string()),
    })
}

/// Posts a request. If HCOLL does not support it, no rank's HCOLL does, and a plan serves the call.
pub(super) fn post<F: Fabric>(
    request: LibraryRequest,
    entered: &Entered,
    handed: &mut Handed,
    lane: &mut Lane<F>,
) -> Result<CallStage, String> {
    match request {
        LibraryRequest::Hcoll(mut call) => {
            let is_started = entered.0.as_ref().is_some_and(|turn| call.start(turn));
            Ok(if is_started {
                CallStage::Posted(LibraryRequest::Hcoll(call))
            } else {
                CallStage::Planned
            })
        }
        LibraryRequest::Ucc(mut request) => match request.post() {
            Ok(()) => Ok(CallStage::Posted(LibraryRequest::Ucc(request))),
            Err(error) => {
                let why = error.to_string();
                handed.poison(&why, lane);
                Err(why)
            }
        },
    }
}

pub(super) fn for_hcoll(arguments: UccArguments) -> Option<Invocation> {
    let UccArguments { kind, source, target, datatype, operation, root, .. } = arguments;
    let whole = |side| match side {
        UccOperand::Whole(buffer) => buffer,
        _ => UserBuf::empty(),
    };
    let given = |side| match side {
        UccOperand::Nothing => None,
        side => Some(whole(side)),
    };
    let blocks = |side| match side {
        UccOperand::Blocks(blocks) => blocks,
        _ => Vec::new(),
    };
    let reduction = (hcoll_operation(operation), hcoll_element(datatype)?);
    Some(match kind {
        UccCollective::Barrier => Invocation::Barrier,
        UccCollective::Bcast => Invocation::Bcast { buffer: whole(source), root },
        UccCollective::Allgather => {
            Invocation::Allgather { source: given(source), target: whole(target) }
        }
        UccCollective::Allgatherv => {
            Invocation::Allgatherv { source: given(source), target: blocks(target) }
        }
        UccCollective::Allreduce => {
            Invocation::Allreduce { source: given(source), target: whole(target), reduction }
        }
        UccCollective::Reduce => {
            Invocation::Reduce { source: given(source), target: whole(target), reduction, root }
        }
        UccCollective::Gatherv => {
            Invocation::Gatherv { source: given(source), target: blocks(target), root }
        }
        UccCollective::Alltoallv => {
            Invocation::Alltoallv { source: blocks(source), target: blocks(target) }
        }
        _ => return None,
    })
}

fn hcoll_operation(operation: UccOperation) -> HcollOperation {
    match operation {
        UccOperation::Sum => HcollOperation::Sum,
        UccOperation::Prod => HcollOperation::Prod,
        UccOperation::Max => HcollOperation::Max,
        UccOperation::Min => HcollOperation::Min,
        UccOperation::Land => HcollOperation::Land,
        UccOperation::Lor => HcollOperation::Lor,
        UccOperation::Lxor => HcollOperation::Lxor,
        UccOperation::Band => HcollOperation::Band,
        UccOperation::Bor => HcollOperation::Bor,
        UccOperation::Bxor => HcollOperation::Bxor,
    }
}

fn hcoll_element(datatype: UccDatatype) -> Option<HcollElement> {
    Some(match datatype {
        UccDatatype::Int8 => HcollElement::Int8,
        UccDatatype::Int16 => HcollElement::Int16,
        UccDatatype::Int32 => HcollElement::Int32,
        UccDatatype::Int64 => HcollElement::Int64,
        UccDatatype::Uint8 => HcollElement::Uint8,
        UccDatatype::Uint16 => HcollElement::Uint16,
        UccDatatype::Uint32 => HcollElement::Uint32,
        UccDatatype::Uint64 => HcollElement::Uint64,
        UccDatatype::Float32 => HcollElement::Float32,
        UccDatatype::Float64 => HcollElement::Float64,
        UccDatatype::Float32Complex => HcollElement::Float32Complex,
        UccDatatype::Float64Complex => HcollElement::Float64Complex,
        UccDatatype::Float128 | UccDatatype::Float128Complex => return None,
    })
}
