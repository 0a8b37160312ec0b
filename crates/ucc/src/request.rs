//! One collective of a team.

use crate::declarations::{
    AnyInfo, BufferInfo, BufferInfoV, CollArgs, CollReq, Status, UCC_COLL_ARGS_FIELD_FLAGS,
    UCC_COLL_ARGS_FLAG_COUNT_64BIT, UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT,
    UCC_COLL_ARGS_FLAG_IN_PLACE, UCC_INPROGRESS, UCC_MEMORY_TYPE_HOST, UCC_OK,
    UCC_OPERATION_INITIALIZED,
};
use crate::library::{UCC, UccLibrary};
use crate::team::UccTeam;
use libc::{c_int, c_uint};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::foreign::LibraryError;
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The collectives that UCC and MPI have (`ucc_coll_type_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UccCollective {
    Allgather = 0,
    Allgatherv = 1,
    Allreduce = 2,
    Alltoall = 3,
    Alltoallv = 4,
    Barrier = 5,
    Bcast = 6,
    Gather = 9,
    Gatherv = 10,
    Reduce = 11,
    ReduceScatter = 12,
    ReduceScatterv = 13,
    Scatter = 14,
    Scatterv = 15,
}

impl UccCollective {
    pub(crate) fn bit(self) -> c_uint {
        1 << self as u32
    }
}

/// Operations of reductions (`ucc_reduction_op_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UccOperation {
    Sum = 0,
    Prod = 1,
    Max = 2,
    Min = 3,
    Land = 4,
    Lor = 5,
    Lxor = 6,
    Band = 7,
    Bor = 8,
    Bxor = 9,
}

/// Predefined datatypes (`ucc_datatype_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UccDatatype {
    Int8 = 0,
    Int16 = 1,
    Int32 = 2,
    Int64 = 3,
    Uint8 = 5,
    Uint16 = 6,
    Uint32 = 7,
    Uint64 = 8,
    Float32 = 11,
    Float64 = 12,
    Float128 = 14,
    Float32Complex = 15,
    Float64Complex = 16,
    Float128Complex = 17,
}

impl UccDatatype {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            UccDatatype::Int8 | UccDatatype::Uint8 => 1,
            UccDatatype::Int16 | UccDatatype::Uint16 => 2,
            UccDatatype::Int32 | UccDatatype::Uint32 | UccDatatype::Float32 => 4,
            UccDatatype::Int64
            | UccDatatype::Uint64
            | UccDatatype::Float64
            | UccDatatype::Float32Complex => 8,
            UccDatatype::Float128 | UccDatatype::Float64Complex => 16,
            UccDatatype::Float128Complex => 32,
        }
    }

    /// `UCC_PREDEFINED_DT`: the number is above three bits that mark it as predefined.
    fn code(self) -> u64 {
        (self as u64) << 3
    }
}

/// The source or the target of a collective.
#[derive(Clone, Debug)]
pub enum UccOperand {
    Nothing,
    /// One buffer of equal elements.
    Whole(UserBuf),
    /// A block for each rank, anywhere in memory.
    Blocks(Vec<UserBuf>),
    /// One buffer, and the number of elements of each rank in it.
    Counted(UserBuf, Vec<u64>),
}

/// The arguments of a collective. Each buffer is contiguous.
#[derive(Clone, Debug)]
pub struct UccArguments {
    pub kind: UccCollective,
    /// This rank's contribution; for a broadcast the only buffer.
    pub source: UccOperand,
    pub target: UccOperand,
    pub datatype: UccDatatype,
    pub operation: UccOperation,
    /// Ignored by collectives without a root.
    pub root: u32,
    /// This rank's contribution is already in the target.
    pub in_place: bool,
}

/// The state of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UccState {
    Going,
    Done,
    Failed(LibraryError),
}

/// The memory that UCC may read until a request is complete. It is not moved.
struct RequestMemory {
    args: CollArgs,
    _sides: [UccOperand; 2],
    _counts: [Vec<u64>; 4],
}

/// A collective of a team.
pub struct UccRequest {
    library: Arc<UccLibrary>,
    handle: *mut CollReq,
    memory: *mut RequestMemory,
    is_posted: bool,
    /// The number of live requests of the team, this one included.
    live: Arc<AtomicUsize>,
}

// SAFETY: UCC binds a request to no thread, and only one thread at a time has this value.
unsafe impl Send for UccRequest {}

impl fmt::Debug for UccRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UccRequest").field("is_posted", &self.is_posted).finish_non_exhaustive()
    }
}

fn in_pieces() -> LibraryError {
    UCC.call_failed("ucc_collective_init", "fails: a buffer does not lie in one piece")
}

fn address(buffer: &UserBuf, is_written: bool) -> Result<*mut u8, LibraryError> {
    if is_written {
        buffer.as_contiguous_mut().map(|mut bytes| bytes.as_mut_ptr()).ok_or_else(in_pieces)
    } else {
        buffer.as_contiguous().map(|bytes| bytes.as_ptr().cast_mut()).ok_or_else(in_pieces)
    }
}

/// A side as UCC reads it; counts and displacements go into `counts`.
fn describe(
    side: &UccOperand,
    is_written: bool,
    datatype: UccDatatype,
    counts: &mut [Vec<u64>],
) -> Result<AnyInfo, LibraryError> {
    let [lengths, places] = counts else { return Err(in_pieces()) };
    let whole = |buffer: *mut u8, count: u64| AnyInfo {
        info: BufferInfo {
            buffer: buffer.cast(),
            count,
            datatype: datatype.code(),
            mem_type: UCC_MEMORY_TYPE_HOST,
        },
    };
    let elements = |buffer: &UserBuf| (buffer.packed_len() / datatype.size()) as u64;
    let base = match side {
        UccOperand::Nothing => return Ok(whole(null_mut(), 0)),
        UccOperand::Whole(buffer) => {
            return Ok(whole(address(buffer, is_written)?, elements(buffer)));
        }
        UccOperand::Counted(buffer, each) => {
            lengths.clone_from(each);
            let starts = each.iter().scan(0, |at, count| {
                *at += count;
                Some(*at - count)
            });
            *places = starts.collect();
            address(buffer, is_written)?
        }
        UccOperand::Blocks(blocks) => {
            *lengths = blocks.iter().map(elements).collect();
            let mut addresses = Vec::with_capacity(blocks.len());
            for block in blocks {
                addresses.push(if block.is_empty() {
                    null_mut()
                } else {
                    address(block, is_written)?
                });
            }
            let base = addresses
                .iter()
                .copied()
                .filter(|start| !start.is_null())
                .min()
                .unwrap_or(null_mut());
            // Displacements count elements: blocks of elements longer than a byte would have to be
            // a multiple of the element apart.
            let place =
                |start: &*mut u8| start.addr().saturating_sub(base.addr()) / datatype.size();
            *places = addresses.iter().map(|start| place(start) as u64).collect();
            base
        }
    };
    let info_v = BufferInfoV {
        buffer: base.cast(),
        counts: lengths.as_mut_ptr(),
        displacements: places.as_mut_ptr(),
        datatype: datatype.code(),
        mem_type: UCC_MEMORY_TYPE_HOST,
    };
    Ok(AnyInfo { info_v })
}

impl UccRequest {
    /// Initialises a collective. All ranks of the team initialise their collectives in the same
    /// order; no data move before [`UccRequest::post`].
    pub fn new(team: &UccTeam, arguments: UccArguments) -> Result<UccRequest, LibraryError> {
        let UccArguments { kind, source, target, datatype, operation, root, in_place } = arguments;
        let mut counts = [const { Vec::new() }; 4];
        let (first, second) = counts.split_at_mut(2);
        let src = describe(&source, kind == UccCollective::Bcast, datatype, first)?;
        let dst = describe(&target, true, datatype, second)?;
        let in_place = if in_place { UCC_COLL_ARGS_FLAG_IN_PLACE } else { 0 };
        let args = CollArgs {
            mask: UCC_COLL_ARGS_FIELD_FLAGS,
            coll_type: kind.bit(),
            src,
            dst,
            op: operation as c_int,
            flags: in_place
                | UCC_COLL_ARGS_FLAG_COUNT_64BIT
                | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT,
            root: u64::from(root),
            error_type: 0,
            tag: 0,
            global_work_buffer: null_mut(),
            cb: [null_mut(); 2],
            timeout: 0.0,
            active_set: [0; 3],
            src_memh: null_mut(),
            dst_memh: null_mut(),
        };
        let memory = Box::into_raw(Box::new(RequestMemory {
            args,
            _sides: [source, target],
            _counts: counts,
        }));
        let library = team.library.clone();
        let mut handle = null_mut();
        // SAFETY: the arguments and all their buffers stay in place until the request is complete
        // (`memory`); the team lives.
        let status = unsafe {
            (library.symbols.ucc_collective_init)(&raw mut (*memory).args, &mut handle, team.handle)
        };
        match library.check("ucc_collective_init", status) {
            Ok(()) => {
                team.live.fetch_add(1, Ordering::Relaxed);
                Ok(UccRequest {
                    library,
                    handle,
                    memory,
                    is_posted: false,
                    live: team.live.clone(),
                })
            }
            Err(error) => {
                // SAFETY: UCC has no request that could use it.
                drop(unsafe { Box::from_raw(memory) });
                Err(error)
            }
        }
    }

    /// Posts the collective. After an error, UCC may have started parts of it.
    pub fn post(&mut self) -> Result<(), LibraryError> {
        self.is_posted = true;
        // SAFETY: the request is initialised and not posted.
        let status = unsafe { (self.library.symbols.ucc_collective_post)(self.handle) };
        self.library.check("ucc_collective_post", status)
    }

    /// The state, which [`UccContext::progress`](crate::UccContext::progress) advances.
    pub fn state(&self) -> UccState {
        let status = self.status();
        match self.library.check("a collective", status) {
            Err(error) => UccState::Failed(error),
            Ok(()) if status == UCC_OK => UccState::Done,
            Ok(()) if status == UCC_INPROGRESS || !self.is_posted => UccState::Going,
            Ok(()) => UccState::Failed(UCC.call_failed(
                "a collective",
                format!("fails: it was posted, and its status is neither done nor in progress ({status})"),
            )),
        }
    }

    fn status(&self) -> Status {
        // SAFETY: the handle lives; its first field is the status, which UCC changes only in
        // `progress`.
        unsafe { (&raw const (*self.handle).status).read_volatile() }
    }
}

impl Drop for UccRequest {
    fn drop(&mut self) {
        if self.is_posted && self.state() != UccState::Done {
            // UCC works on the request, or has failed in the middle of it, and cannot cancel it:
            // the request and its team leak.
            return;
        }
        // SAFETY: the request is complete or was never started, and the handle is not used any
        // more.
        let status = unsafe { (self.library.symbols.ucc_collective_finalize)(self.handle) };
        if (0..=UCC_OPERATION_INITIALIZED).contains(&status) {
            // SAFETY: UCC has released the request, and with it the arguments.
            drop(unsafe { Box::from_raw(self.memory) });
            self.live.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
