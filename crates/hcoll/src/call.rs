//! One collective of a group.

use crate::context::HcollContext;
use crate::declarations::{DataRepresentation, HCOLL_IN_PLACE, HCOLL_SUCCESS};
use crate::library::{Hcoll, HcollError};
use crate::runtime::runtime;
use crate::turn::HcollTurn;
use libc::{c_int, c_void};
use oxmpi_mem::buffer::UserBuf;
use std::fmt;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Arc;

/// The nonblocking functions of HCOLL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HcollFunction {
    Ibarrier,
    Ibcast,
    Iallgather,
    Iallgatherv,
    Iallreduce,
    Ireduce,
    Igatherv,
    Ialltoallv,
}

/// Makes an enumeration of HCOLL's objects, with the variable of the library that has each.
macro_rules! objects {
    ($(#[$attribute:meta])* $name:ident { $($variant:ident $symbol:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($variant),* }

        impl $name {
            /// In the order of the variants.
            pub(crate) const SYMBOLS: [&str; [$($symbol),*].len()] = [$($symbol),*];
        }
    };
}

objects! {
    /// The elements of reductions (`dte_data_representation_t`), signed ones first;
    /// [`HcollElement::Int8`] also stands for bytes.
    HcollElement {
        Int8 "byte_dte", Int16 "integer16_dte", Int32 "integer32_dte", Int64 "integer64_dte",
        Uint8 "u_byte_dte", Uint16 "u_integer16_dte", Uint32 "u_integer32_dte", Uint64 "u_integer64_dte",
        Float32 "float32_dte", Float64 "float64_dte",
        Float32Complex "float32_complex_dte", Float64Complex "float64_complex_dte",
    }
}

impl HcollElement {
    fn size(self) -> usize {
        match self {
            HcollElement::Int8 | HcollElement::Uint8 => 1,
            HcollElement::Int16 | HcollElement::Uint16 => 2,
            HcollElement::Int32 | HcollElement::Uint32 | HcollElement::Float32 => 4,
            HcollElement::Float64Complex => 16,
            _ => 8,
        }
    }
}

objects! {
    /// The operations of reductions (`hcoll_dte_op_t`).
    HcollOperation {
        Max "hcoll_dte_op_max", Min "hcoll_dte_op_min", Sum "hcoll_dte_op_sum", Prod "hcoll_dte_op_prod",
        Land "hcoll_dte_op_land", Band "hcoll_dte_op_band", Lor "hcoll_dte_op_lor", Bor "hcoll_dte_op_bor",
        Lxor "hcoll_dte_op_lxor", Bxor "hcoll_dte_op_bxor",
    }
}

/// A collective and its arguments. Each buffer is contiguous. Data that are only moved are bytes. A
/// `source` of `None`: this rank's contribution is already in its target.
#[derive(Clone, Debug)]
pub enum Invocation {
    Barrier,
    Bcast {
        buffer: UserBuf,
        root: u32,
    },
    Allgather {
        source: Option<UserBuf>,
        target: UserBuf,
    },
    Allgatherv {
        source: Option<UserBuf>,
        target: Vec<UserBuf>,
    },
    Allreduce {
        source: Option<UserBuf>,
        target: UserBuf,
        reduction: (HcollOperation, HcollElement),
    },
    Reduce {
        source: Option<UserBuf>,
        target: UserBuf,
        reduction: (HcollOperation, HcollElement),
        root: u32,
    },
    Gatherv {
        source: Option<UserBuf>,
        target: Vec<UserBuf>,
        root: u32,
    },
    Alltoallv {
        source: Vec<UserBuf>,
        target: Vec<UserBuf>,
    },
}

impl Invocation {
    /// The function of HCOLL that serves the call.
    pub fn function(&self) -> HcollFunction {
        match self {
            Invocation::Barrier => HcollFunction::Ibarrier,
            Invocation::Bcast { .. } => HcollFunction::Ibcast,
            Invocation::Allgather { .. } => HcollFunction::Iallgather,
            Invocation::Allgatherv { .. } => HcollFunction::Iallgatherv,
            Invocation::Allreduce { .. } => HcollFunction::Iallreduce,
            Invocation::Reduce { .. } => HcollFunction::Ireduce,
            Invocation::Gatherv { .. } => HcollFunction::Igatherv,
            Invocation::Alltoallv { .. } => HcollFunction::Ialltoallv,
        }
    }
}

#[derive(Clone, Copy)]
struct HcollBuffer {
    start: *mut c_void,
    count: c_int,
}

/// Blocks as HCOLL takes them: the length of each, and its distance from the lowest address.
#[derive(Default)]
struct HcollBlocks {
    counts: Vec<c_int>,
    starts: Vec<c_int>,
}

fn length(bytes: usize) -> Result<c_int, HcollError> {
    c_int::try_from(bytes).map_err(|_| HcollError::TooLong { bytes })
}

fn address(buffer: &UserBuf, is_written: bool) -> Result<*mut c_void, HcollError> {
    if buffer.is_empty() {
        return Ok(null_mut());
    }
    let start = match is_written {
        true => buffer.as_contiguous_mut().map(|mut bytes| bytes.as_mut_ptr()),
        false => buffer.as_contiguous().map(|bytes| bytes.as_ptr().cast_mut()),
    };
    start.map(<*mut u8>::cast).ok_or(HcollError::InPieces)
}

fn hcoll_buffer(
    buffer: &UserBuf,
    is_written: bool,
    size: usize,
) -> Result<HcollBuffer, HcollError> {
    Ok(HcollBuffer {
        start: address(buffer, is_written)?,
        count: length(buffer.packed_len() / size)?,
    })
}

/// This rank's contribution; `None`: `count` elements that are already in the target.
fn source_buffer(
    source: Option<&UserBuf>,
    size: usize,
    count: c_int,
) -> Result<HcollBuffer, HcollError> {
    match source {
        Some(buffer) => hcoll_buffer(buffer, false, size),
        None => Ok(HcollBuffer { start: without_provenance_mut(HCOLL_IN_PLACE), count }),
    }
}

fn hcoll_blocks(
    blocks: &[UserBuf],
    is_written: bool,
) -> Result<(*mut c_void, HcollBlocks), HcollError> {
    let mut starts = Vec::with_capacity(blocks.len());
    let mut counts = Vec::with_capacity(blocks.len());
    for block in blocks {
        starts.push(address(block, is_written)?);
        counts.push(length(block.packed_len())?);
    }
    let base = starts.iter().copied().filter(|start| !start.is_null()).min().unwrap_or(null_mut());
    let place = |start: &*mut c_void| length(start.addr().saturating_sub(base.addr()));
    let starts = starts.iter().map(place).collect::<Result<_, _>>()?;
    Ok((base, HcollBlocks { counts, starts }))
}

/// The memory that HCOLL may read until a collective is complete. It is not moved.
struct CallMemory {
    invocation: Invocation,
    source: HcollBuffer,
    target: HcollBuffer,
    /// Of the source and of the target, for collectives with blocks.
    blocks: [HcollBlocks; 2],
}

/// A collective of a group. HCOLL cannot cancel a collective: dropping the value of an incomplete
/// collective leaks its buffers and their description.
pub struct HcollCall {
    library: Arc<Hcoll>,
    context: *mut c_void,
    memory: *mut CallMemory,
    /// The number in the runtime; `None` before the start.
    handle: Option<usize>,
}

// SAFETY: HCOLL binds a collective to no thread, and only one thread at a time has this value.
unsafe impl Send for HcollCall {}

impl fmt::Debug for HcollCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HcollCall").field("handle", &self.handle).finish_non_exhaustive()
    }
}

const NOTHING: HcollBuffer = HcollBuffer { start: null_mut(), count: 0 };

impl HcollCall {
    /// Describes a collective. No data move before [`HcollCall::start`].
    pub fn new(context: &HcollContext, invocation: Invocation) -> Result<HcollCall, HcollError> {
        let function = invocation.function();
        let has = context.library.collectives();
        let is_there = match function {
            HcollFunction::Ibarrier => has.ibarrier.is_some(),
            HcollFunction::Ibcast => has.ibcast.is_some(),
            HcollFunction::Iallgather => has.iallgather.is_some(),
            HcollFunction::Iallgatherv => has.iallgatherv.is_some(),
            HcollFunction::Iallreduce => has.iallreduce.is_some(),
            HcollFunction::Ireduce => has.ireduce.is_some(),
            HcollFunction::Igatherv => has.igatherv.is_some(),
            HcollFunction::Ialltoallv => has.ialltoallv.is_some(),
        };
        if !is_there {
            return Err(HcollError::NoFunction(function));
        }
        let none = || (null_mut(), HcollBlocks::default());
        let whole = |count| HcollBuffer { start: null_mut(), count };
        let (source, target, blocks) = match &invocation {
            Invocation::Barrier => (NOTHING, NOTHING, [none(), none()]),
            Invocation::Bcast { buffer, .. } => {
                (NOTHING, hcoll_buffer(buffer, true, 1)?, [none(), none()])
            }
            Invocation::Allgather { source, target } => {
                let ranks = context.size().max(1);
                let block = length(target.packed_len() / ranks)?;
                let from = source_buffer(source.as_ref(), 1, block)?;
                (
                    from,
                    HcollBuffer { count: block, ..hcoll_buffer(target, true, 1)? },
                    [none(), none()],
                )
            }
            Invocation::Allreduce { source, target, reduction: (_, element) } => {
                let target = hcoll_buffer(target, true, element.size())?;
                (
                    source_buffer(source.as_ref(), element.size(), target.count)?,
                    target,
                    [none(), none()],
                )
            }
            Invocation::Reduce { source, target, reduction: (_, element), .. } => {
                let target = hcoll_buffer(target, true, element.size())?;
                let source = source_buffer(source.as_ref(), element.size(), target.count)?;
                // Ranks other than the root have no target, but need the count.
                (source, HcollBuffer { count: source.count, ..target }, [none(), none()])
            }
            Invocation::Allgatherv { source, target } => {
                // Every rank knows the sum, which bounds the distances of contiguous blocks.
                length(target.iter().map(UserBuf::packed_len).sum())?;
                (
                    source_buffer(source.as_ref(), 1, 0)?,
                    whole(0),
                    [none(), hcoll_blocks(target, true)?],
                )
            }
            Invocation::Gatherv { source, target, .. } => (
                source_buffer(source.as_ref(), 1, 0)?,
                whole(0),
                [none(), hcoll_blocks(target, true)?],
            ),
            Invocation::Alltoallv { source, target } => {
                (whole(0), whole(0), [hcoll_blocks(source, false)?, hcoll_blocks(target, true)?])
            }
        };
        let [(source_base, from), (target_base, into)] = blocks;
        let or = |place: HcollBuffer, base: *mut c_void| match base.is_null() {
            true => place,
            false => HcollBuffer { start: base, ..place },
        };
        let (source, target) = (or(source, source_base), or(target, target_base));
        let memory = Box::new(CallMemory { invocation, source, target, blocks: [from, into] });
        let (library, context) = (context.library.clone(), context.handle);
        Ok(HcollCall { library, context, memory: Box::into_raw(memory), handle: None })
    }

    /// Starts the collective; `false`: HCOLL does not support it, and nothing was started. This is
    /// the same on all ranks, as HCOLL requires of its users. All ranks start the collectives of a
    /// group in the same order.
    pub fn start(&mut self, _turn: &HcollTurn) -> bool {
        let has = self.library.collectives();
        let element = |element: HcollElement| -> DataRepresentation {
            // SAFETY: the variable is the library's, which never changes it.
            unsafe { *self.library.elements[element as usize] }
        };
        let operation = |operation: HcollOperation| self.library.operations[operation as usize];
        let byte = element(HcollElement::Int8);
        let mut handle: *mut c_void = null_mut();
        let (at, context) = (&mut handle, self.context);
        // SAFETY: `new` made it, and it is not moved or freed before the collective is complete.
        let memory = unsafe { &mut *self.memory };
        let (source, target) = (memory.source, memory.target);
        let [from, into] = &mut memory.blocks;
        let [counts, starts] = [into.counts.as_mut_ptr(), into.starts.as_mut_ptr()];
        // SAFETY: the context lives, this thread has the turn, and all buffers stay in place until
        // the collective is complete (`memory`).
        let status = unsafe {
            match &memory.invocation {
                Invocation::Barrier => has.ibarrier.map(|f| f(context, at)),
                Invocation::Bcast { root, .. } => has
                    .ibcast
                    .map(|f| f(target.start, target.count, byte, *root as c_int, at, context)),
                Invocation::Allgather { .. } => has.iallgather.map(|f| {
                    f(
                        source.start,
                        source.count,
                        byte,
                        target.start,
                        target.count,
                        byte,
                        context,
                        at,
                    )
                }),
                Invocation::Allgatherv { .. } => has.iallgatherv.map(|f| {
                    f(
                        source.start,
                        source.count,
                        byte,
                        target.start,
                        counts,
                        starts,
                        byte,
                        context,
                        at,
                    )
                }),
                Invocation::Allreduce { reduction: (op, of), .. } => has.iallreduce.map(|f| {
                    f(
                        source.start,
                        target.start,
                        target.count,
                        element(*of),
                        operation(*op),
                        context,
                        at,
                    )
                }),
                Invocation::Reduce { reduction: (op, of), root, .. } => has.ireduce.map(|f| {
                    let (of, op) = (element(*of), operation(*op));
                    f(source.start, target.start, target.count, of, op, *root as c_int, context, at)
                }),
                Invocation::Gatherv { root, .. } => has.igatherv.map(|f| {
                    let (root, into) = (*root as c_int, target.start);
                    f(
                        source.start,
                        source.count,
                        byte,
                        into,
                        counts,
                        starts,
                        byte,
                        root,
                        context,
                        at,
                    )
                }),
                Invocation::Alltoallv { .. } => has.ialltoallv.map(|f| {
                    let [lengths, places] = [from.counts.as_mut_ptr(), from.starts.as_mut_ptr()];
                    let (out, into) = (source.start, target.start);
                    f(out, lengths, places, byte, into, counts, starts, byte, context, at)
                }),
            }
        };
        let is_started = status == Some(HCOLL_SUCCESS);
        if is_started {
            // A null handle is that of a complete collective.
            self.handle = Some(handle.addr());
        }
        is_started
    }

    /// Whether the collective was started and is complete.
    pub fn is_over(&self) -> bool {
        self.handle.is_some_and(|handle| runtime().is_complete(handle))
    }
}

impl Drop for HcollCall {
    fn drop(&mut self) {
        match self.handle {
            Some(_) if !self.is_over() => return,
            Some(handle) => runtime().free_handle(handle),
            None => {}
        }
        // SAFETY: HCOLL has not started the collective, or has completed it.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}
