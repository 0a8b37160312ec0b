//! The arguments of a call for a library.
//!
//! Data that are only moved are passed as bytes. A contiguous copy stands for a buffer with gaps,
//! for MPI_IN_PLACE where a library lacks it, and for blocks for HCOLL that lie further apart than
//! its displacements of 32 bits reach. Each rank decides alone whether it makes a copy.

use super::{CallKind, CollLibrary};
use crate::errors::staging_error;
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Area, Combine, Memory};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::{Kernel, ReduceOp, Scalar};
use oxmpi_mem::memory::Scratch;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::Call;
use oxmpi_ucc::{UccArguments, UccCollective, UccDatatype, UccOperand, UccOperation};

fn reduction(kernel: &Kernel) -> Option<(UccOperation, UccDatatype)> {
    let (op, scalar) = kernel.kind();
    let operation = match op {
        ReduceOp::Sum => UccOperation::Sum,
        ReduceOp::Prod => UccOperation::Prod,
        ReduceOp::Max => UccOperation::Max,
        ReduceOp::Min => UccOperation::Min,
        ReduceOp::Land => UccOperation::Land,
        ReduceOp::Lor => UccOperation::Lor,
        ReduceOp::Lxor => UccOperation::Lxor,
        ReduceOp::Band => UccOperation::Band,
        ReduceOp::Bor => UccOperation::Bor,
        ReduceOp::Bxor => UccOperation::Bxor,
        ReduceOp::MinLoc | ReduceOp::MaxLoc | ReduceOp::Replace | ReduceOp::NoOp => return None,
    };
    let datatype = match scalar {
        Scalar::I8 => UccDatatype::Int8,
        Scalar::I16 => UccDatatype::Int16,
        Scalar::I32 => UccDatatype::Int32,
        Scalar::I64 => UccDatatype::Int64,
        Scalar::U8 | Scalar::Bool8 => UccDatatype::Uint8,
        Scalar::U16 => UccDatatype::Uint16,
        Scalar::U32 => UccDatatype::Uint32,
        Scalar::U64 => UccDatatype::Uint64,
        Scalar::F32 => UccDatatype::Float32,
        Scalar::F64 => UccDatatype::Float64,
        Scalar::C32 => UccDatatype::Float32Complex,
        Scalar::C64 => UccDatatype::Float64Complex,
        // UCC's 128-bit elements are the compiler's long double, with undefined padding.
        _ => return None,
    };
    Some((operation, datatype))
}

fn shared_bytes(call: &Call, unit: usize) -> Option<usize> {
    Some(match call {
        Call::Barrier => 0,
        Call::Bcast { bytes, .. } => bytes.0,
        Call::Gather { block, .. }
        | Call::Scatter { block, .. }
        | Call::Allgather { block, .. }
        | Call::Alltoall { block, .. } => block.0,
        Call::Reduce { count, .. } | Call::Allreduce { count, .. } => count.0.saturating_mul(unit),
        Call::ReduceScatterBlock { block, .. } => block.0.saturating_mul(unit),
        Call::Allgatherv { blocks, .. } => blocks.0.total(),
        Call::ReduceScatter { blocks, .. } => blocks.0.total().saturating_mul(unit),
        _ => return None,
    })
}

/// Whether a library may get a call. All ranks get the same answer.
pub(crate) fn can_hand_over(call: &Call, combine: &Combine) -> bool {
    // A plan completes a call without data at once.
    let has_data =
        matches!(call, Call::Barrier) || shared_bytes(call, 1).is_none_or(|bytes| bytes > 0);
    has_data
        && match combine {
            Combine::Nothing => true,
            Combine::Kernel(kernel) => reduction(kernel).is_some(),
            Combine::User => false,
        }
}

pub(super) struct PreparedCall {
    pub(super) call_kind: CallKind,
    pub(super) arguments: UccArguments,
    /// The copy to make after the call: from the buffer to the area.
    pub(super) results: Option<(UserBuf, Area)>,
}

fn scratch(bytes: usize) -> Result<UserBuf> {
    let room =
        Scratch::bytes(bytes).map_err(|e| MpiError::new(abi::MPI_ERR_NO_MEM, e.to_string()))?;
    Ok(room.buf().clone())
}

fn is_in_one_piece(buffer: &UserBuf) -> bool {
    buffer.as_contiguous().is_some()
}

fn copied(area: &Area) -> Result<UserBuf> {
    let copy = scratch(area.packed_len())?;
    Area::from(copy.clone()).copy_from(0, area, 0, area.packed_len());
    Ok(copy)
}

fn split(buffer: &UserBuf, lengths: impl Iterator<Item = usize>) -> Vec<UserBuf> {
    let starts = lengths.scan(0, |at, len| {
        *at += len;
        Some((*at - len, len))
    });
    starts.map(|(start, len)| buffer.packed_range(start, len).unwrap_or(UserBuf::empty())).collect()
}

fn read_whole(area: &Area) -> Result<UccOperand> {
    match area.as_whole() {
        Some(buffer) if is_in_one_piece(buffer) => Ok(UccOperand::Whole(buffer.clone())),
        _ => Ok(UccOperand::Whole(copied(area)?)),
    }
}

fn read_blocks(area: &Area, lengths: &[usize], library: CollLibrary) -> Result<UccOperand> {
    let blocks = blocks_in_place(area, lengths, library);
    Ok(UccOperand::Blocks(match blocks {
        Some(blocks) => blocks,
        None => split(&copied(area)?, lengths.iter().copied()),
    }))
}

fn is_in_reach(blocks: &[UserBuf], library: CollLibrary) -> bool {
    let starts =
        || blocks.iter().filter(|block| !block.is_empty()).map(|block| block.as_ptr().addr());
    let span = starts().max().unwrap_or(0) - starts().min().unwrap_or(0);
    library == CollLibrary::Ucc || i32::try_from(span).is_ok()
}

fn blocks_in_place(area: &Area, lengths: &[usize], library: CollLibrary) -> Option<Vec<UserBuf>> {
    let mut start = 0;
    let mut block = |len: &usize| {
        let range = area.packed_range(start, *len);
        start += len;
        range.filter(is_in_one_piece)
    };
    let blocks = lengths.iter().map(&mut block).collect::<Option<Vec<_>>>()?;
    is_in_reach(&blocks, library).then_some(blocks)
}

/// A buffer for results: the program's own, or a copy, which is copied back after the call.
struct ResultBuffer {
    buffer: Area,
    results: Option<(UserBuf, Area)>,
}

fn result_buffer(area: &Area, is_in_pieces: bool, keeps: bool) -> Result<ResultBuffer> {
    if !is_in_pieces {
        return Ok(ResultBuffer { buffer: area.clone(), results: None });
    }
    let copy = if keeps { copied(area)? } else { scratch(area.packed_len())? };
    Ok(ResultBuffer { buffer: copy.clone().into(), results: Some((copy, area.clone())) })
}

struct CollectiveArguments {
    kind: UccCollective,
    source: UccOperand,
    target: UccOperand,
    root: u32,
    in_place: bool,
    results: Option<(UserBuf, Area)>,
}

pub(super) fn prepare(
    library: CollLibrary,
    (call, memory, combine): (&Call, &Memory, &Combine),
    rank: u32,
) -> Result<Option<PreparedCall>> {
    let (operation, datatype) = match combine {
        Combine::Kernel(kernel) => match reduction(kernel) {
            Some(found) => found,
            None => return Ok(None),
        },
        _ => (UccOperation::Sum, UccDatatype::Uint8),
    };
    // A fault of an earlier start of a persistent collective must not count.
    memory.input.renew();
    memory.output.renew();
    let Some(arguments) = arguments(library, (call, memory), rank)? else { return Ok(None) };
    let copied = memory.input.settle().and(memory.output.settle());
    copied.map_err(|fault| staging_error(fault.into()))?;
    let bytes = shared_bytes(call, datatype.size()).unwrap_or(0);
    let is_alike = matches!(arguments.kind, UccCollective::Allreduce | UccCollective::Allgather);
    let call_kind = CallKind {
        kind: arguments.kind,
        datatype,
        operation,
        in_place: arguments.in_place && is_alike,
        class: bytes.checked_ilog2().map_or(0, |log| log + 1),
    };
    let CollectiveArguments { kind, source, target, root, in_place, results } = arguments;
    let arguments = UccArguments { kind, source, target, datatype, operation, root, in_place };
    Ok(Some(PreparedCall { call_kind, arguments, results }))
}

fn one(area: Area) -> UserBuf {
    area.as_whole().cloned().unwrap_or(UserBuf::empty())
}

fn arguments(
    library: CollLibrary,
    (call, memory): (&Call, &Memory),
    rank: u32,
) -> Result<Option<CollectiveArguments>> {
    let Memory { input, output, .. } = memory;
    let in_pieces = |area: &Area| !area.as_whole().is_some_and(is_in_one_piece);
    let nothing = |kind| CollectiveArguments {
        kind,
        source: UccOperand::Nothing,
        target: UccOperand::Nothing,
        root: 0,
        in_place: false,
        results: None,
    };
    let source_of = |in_place: bool| -> Result<UccOperand> {
        if in_place { Ok(UccOperand::Nothing) } else { read_whole(input) }
    };
    let whole = |kind, root, in_place: bool| -> Result<CollectiveArguments> {
        let ResultBuffer { buffer, results } = result_buffer(output, in_pieces(output), in_place)?;
        let (source, target) = (source_of(in_place)?, UccOperand::Whole(one(buffer)));
        Ok(CollectiveArguments { kind, source, target, root, in_place, results })
    };
    let only_source = |kind, root| -> Result<CollectiveArguments> {
        Ok(CollectiveArguments { source: read_whole(input)?, root, ..nothing(kind) })
    };
    let received = |in_place: bool| -> Result<(UccOperand, Option<(UserBuf, Area)>)> {
        if in_place {
            return Ok((UccOperand::Nothing, None));
        }
        let target = result_buffer(output, in_pieces(output), false)?;
        Ok((UccOperand::Whole(one(target.buffer)), target.results))
    };
    let target_blocks =
        |lengths: &[usize], keeps: bool| -> Result<(UccOperand, Option<(UserBuf, Area)>)> {
            if let Some(blocks) = blocks_in_place(output, lengths, library) {
                return Ok((UccOperand::Blocks(blocks), None));
            }
            let target = result_buffer(output, true, keeps)?;
            Ok((
                UccOperand::Blocks(split(&one(target.buffer), lengths.iter().copied())),
                target.results,
            ))
        };
    let reduce_scatter = |kind, count: usize, in_place: bool| {
        let source = if in_place { UccOperand::Whole(copied(output)?) } else { read_whole(input)? };
        let unit = one(output.clone()).element_size();
        let part = output.packed_range(0, count.saturating_mul(unit)).unwrap_or(UserBuf::empty());
        let ResultBuffer { buffer, results } =
            result_buffer(&part.clone().into(), !is_in_one_piece(&part), false)?;
        Ok::<_, MpiError>((CollectiveArguments { source, results, ..nothing(kind) }, one(buffer)))
    };
    let lengths = |blocks: &oxmpi_plan::Blocks| -> Vec<usize> {
        (0..blocks.how_many()).map(|at| blocks.length(at)).collect()
    };
    Ok(Some(match call {
        Call::Barrier => nothing(UccCollective::Barrier),
        Call::Bcast { root, .. } => {
            let target = result_buffer(output, in_pieces(output), true)?;
            let results = if rank == *root { None } else { target.results };
            let source = UccOperand::Whole(one(target.buffer));
            CollectiveArguments { source, root: *root, results, ..nothing(UccCollective::Bcast) }
        }
        Call::Gather { root, in_place, .. } if rank == *root => {
            whole(UccCollective::Gather, *root, *in_place)?
        }
        Call::Gather { root, .. } => only_source(UccCollective::Gather, *root)?,
        Call::Reduce { root, in_place, .. } if rank == *root => {
            whole(UccCollective::Reduce, *root, *in_place)?
        }
        Call::Reduce { root, .. } => only_source(UccCollective::Reduce, *root)?,
        Call::Scatter { root, in_place, .. } => {
            let source = if rank == *root { read_whole(input)? } else { UccOperand::Nothing };
            let ((target, results), kind) = (received(*in_place)?, UccCollective::Scatter);
            CollectiveArguments { kind, source, target, root: *root, in_place: *in_place, results }
        }
        Call::Allgather { in_place, .. } => whole(UccCollective::Allgather, 0, *in_place)?,
        Call::Allreduce { in_place, .. } => whole(UccCollective::Allreduce, 0, *in_place)?,
        Call::Alltoall { in_place, .. } => {
            let mut arguments = whole(UccCollective::Alltoall, 0, false)?;
            if *in_place {
                arguments.source = UccOperand::Whole(copied(output)?);
            }
            arguments
        }
        Call::ReduceScatterBlock { block, in_place, .. } => {
            let (arguments, buffer) =
                reduce_scatter(UccCollective::ReduceScatter, block.0, *in_place)?;
            CollectiveArguments { target: UccOperand::Whole(buffer), ..arguments }
        }
        Call::ReduceScatter { blocks, in_place, .. } => {
            let count = blocks.0.length(rank as usize);
            let (arguments, buffer) =
                reduce_scatter(UccCollective::ReduceScatterv, count, *in_place)?;
            let counts = lengths(&blocks.0).into_iter().map(|count| count as u64).collect();
            CollectiveArguments { target: UccOperand::Counted(buffer, counts), ..arguments }
        }
        Call::Gatherv { root, all, in_place, .. } => match all.get() {
            Some(blocks) if rank == *root => {
                let (target, results) = target_blocks(&lengths(blocks), *in_place)?;
                let (source, kind) = (source_of(*in_place)?, UccCollective::Gatherv);
                CollectiveArguments {
                    kind,
                    source,
                    target,
                    root: *root,
                    in_place: *in_place,
                    results,
                }
            }
            _ => only_source(UccCollective::Gatherv, *root)?,
        },
        Call::Scatterv { root, all, in_place, .. } => {
            let source = match all.get() {
                Some(blocks) if rank == *root => read_blocks(input, &lengths(blocks), library)?,
                _ => UccOperand::Nothing,
            };
            let ((target, results), kind) = (received(*in_place)?, UccCollective::Scatterv);
            CollectiveArguments { kind, source, target, root: *root, in_place: *in_place, results }
        }
        Call::Allgatherv { blocks, in_place } if library == CollLibrary::Hcoll => {
            let (target, results) = target_blocks(&lengths(&blocks.0), *in_place)?;
            let (source, kind) = (source_of(*in_place)?, UccCollective::Allgatherv);
            CollectiveArguments { kind, source, target, root: 0, in_place: *in_place, results }
        }
        Call::Allgatherv { blocks, in_place } => {
            // UCC's own ring (1.9) fails without a context that all processes have made together.
            let lengths = lengths(&blocks.0);
            let source = match in_place {
                true => {
                    let length = lengths.get(rank as usize).copied().unwrap_or(0);
                    let copy = scratch(length)?;
                    Area::from(copy.clone()).copy_from(
                        0,
                        output,
                        blocks.0.start(rank as usize),
                        length,
                    );
                    copy
                }
                false => match read_whole(input)? {
                    UccOperand::Whole(buffer) => buffer,
                    _ => UserBuf::empty(),
                },
            };
            let (target, results) = target_blocks(&lengths, false)?;
            let source = UccOperand::Blocks(vec![source; lengths.len()]);
            CollectiveArguments { source, target, results, ..nothing(UccCollective::Alltoallv) }
        }
        Call::Alltoallv { send, receive, in_place } => {
            let receive = lengths(&receive.0);
            let (target, results) = target_blocks(&receive, false)?;
            let source = match in_place {
                true => UccOperand::Blocks(split(&copied(output)?, receive.iter().copied())),
                false => read_blocks(input, &lengths(&send.0), library)?,
            };
            CollectiveArguments { source, target, results, ..nothing(UccCollective::Alltoallv) }
        }
        _ => return Ok(None),
    }))
}
