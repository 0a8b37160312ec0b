//! One collective of a team.

use crate::declarations::{
    AnyInfo, BufferInfo, BufferInfoV, CollArgs, CollReq, Status, UCC_COLL_ARGS_FIELD_FLAGS,
    UCC_COLL_ARGS_FLAG_COUNT_64BIT, UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT, UCC_COLL_ARGS_FLAG_IN_PLACE,
    UCC_INPROGRESS, UCC_MEMORY_TYPE_HOST, UCC_OK, UCC_OPERATION_INITIALIZED,
};
use crate::library::{Library, LibraryError};
use crate::team::Team;
use libc::{c_int, c_uint};
use oxmpi_mem::buffer::UserBuf;
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The collectives of UCC that MPI has, too (`ucc_coll_type_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
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

impl Kind {
    pub(crate) fn bit(self) -> c_uint {
        1 << self as u32
    }
}

/// Operations of reductions (`ucc_reduction_op_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
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
pub enum Datatype {
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

impl Datatype {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Datatype::Int8 | Datatype::Uint8 => 1,
            Datatype::Int16 | Datatype::Uint16 => 2,
            Datatype::Int32 | Datatype::Uint32 | Datatype::Float32 => 4,
            Datatype::Int64 | Datatype::Uint64 | Datatype::Float64 | Datatype::Float32Complex => 8,
            Datatype::Float128 | Datatype::Float64Complex => 16,
            Datatype::Float128Complex => 32,
        }
    }

    /// As `UCC_PREDEFINED_DT` has it: the number is behind three bits that say that it is predefined.
    fn code(self) -> u64 {
        (self as u64) << 3
    }
}

/// What one side of a collective is.
#[derive(Clone, Debug)]
pub enum Side {
    /// There is none at this rank.
    Nothing,
    /// One buffer, of as many elements as it has room for.
    Whole(UserBuf),
    /// A block for each rank, anywhere.
    Blocks(Vec<UserBuf>),
    /// One buffer, and how many elements each rank has of the whole.
    Counted(UserBuf, Vec<u64>),
}

/// The arguments of a collective. All buffers lie in one piece each.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// Which it is.
    pub kind: Kind,
    /// What this rank gives; of a broadcast the only buffer.
    pub source: Side,
    /// What it gets.
    pub target: Side,
    /// The elements.
    pub datatype: Datatype,
    /// What a reduction does.
    pub operation: Operation,
    /// The root, if there is one.
    pub root: u32,
    /// What this rank gives is in the target already.
    pub in_place: bool,
}

/// How a request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It goes on.
    Going,
    /// It is over.
    Done,
    /// It has failed.
    Failed(LibraryError),
}

/// What UCC may read until a request is over. It is not moved.
struct Kept {
    args: CollArgs,
    _sides: [Side; 2],
    _counts: [Vec<u64>; 4],
}

/// A collective of a team.
pub struct Request {
    library: Arc<Library>,
    handle: *mut CollReq,
    kept: *mut Kept,
    /// UCC was called to start it.
    is_posted: bool,
    /// The requests of its team that UCC has, of which this is one.
    live: Arc<AtomicUsize>,
}

// SAFETY: UCC binds a request to no thread, and only one thread at a time has this value.
unsafe impl Send for Request {}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("is_posted", &self.is_posted).finish_non_exhaustive()
    }
}

/// A buffer in several pieces is refused.
fn in_pieces() -> LibraryError {
    LibraryError::Call { call: "ucc_collective_init", why: "a buffer does not lie in one piece".to_string() }
}

/// The address of a buffer in one piece.
fn address(buffer: &UserBuf, is_written: bool) -> Result<*mut u8, LibraryError> {
    if is_written {
        buffer.as_contiguous_mut().map(|mut bytes| bytes.as_mut_ptr()).ok_or_else(in_pieces)
    } else {
        buffer.as_contiguous().map(|bytes| bytes.as_ptr().cast_mut()).ok_or_else(in_pieces)
    }
}

/// A side as UCC reads it; counts and displacements go into `counts`.
fn describe(
    side: &Side,
    is_written: bool,
    datatype: Datatype,
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
        Side::Nothing => return Ok(whole(null_mut(), 0)),
        Side::Whole(buffer) => return Ok(whole(address(buffer, is_written)?, elements(buffer))),
        Side::Counted(buffer, each) => {
            lengths.clone_from(each);
            let starts = each.iter().scan(0, |at, count| {
                *at += count;
                Some(*at - count)
            });
            *places = starts.collect();
            address(buffer, is_written)?
        }
        Side::Blocks(blocks) => {
            *lengths = blocks.iter().map(elements).collect();
            let mut addresses = Vec::with_capacity(blocks.len());
            for block in blocks {
                addresses.push(if block.is_empty() { null_mut() } else { address(block, is_written)? });
            }
            let base = addresses.iter().copied().filter(|start| !start.is_null()).min().unwrap_or(null_mut());
            // Displacements count elements, so the blocks of anything longer than a byte would have to lie in steps of its size.
            let place = |start: &*mut u8| start.addr().saturating_sub(base.addr()) / datatype.size();
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

impl Request {
    /// Describes a collective to UCC. All ranks of the team initialise their collectives in the same order; nothing moves before
    /// [`Request::post`].
    ///
    /// # Errors
    /// UCC does not support it; a buffer lies in several pieces.
    pub fn new(team: &Team, arguments: Arguments) -> Result<Request, LibraryError> {
        let Arguments { kind, source, target, datatype, operation, root, in_place } = arguments;
        let mut counts = [const { Vec::new() }; 4];
        let (first, second) = counts.split_at_mut(2);
        let src = describe(&source, kind == Kind::Bcast, datatype, first)?;
        let dst = describe(&target, true, datatype, second)?;
        let in_place = if in_place { UCC_COLL_ARGS_FLAG_IN_PLACE } else { 0 };
        let args = CollArgs {
            mask: UCC_COLL_ARGS_FIELD_FLAGS,
            coll_type: kind.bit(),
            src,
            dst,
            op: operation as c_int,
            flags: in_place | UCC_COLL_ARGS_FLAG_COUNT_64BIT | UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT,
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
        let kept = Box::into_raw(Box::new(Kept { args, _sides: [source, target], _counts: counts }));
        let library = team.library.clone();
        let mut handle = null_mut();
        // SAFETY: the arguments and all that they name stay where they are until the request is over (`kept`), the team lives.
        let status =
            unsafe { (library.symbols.collective_init)(&raw mut (*kept).args, &mut handle, team.handle) };
        match library.check("ucc_collective_init", status) {
            Ok(()) => {
                team.live.fetch_add(1, Ordering::Relaxed);
                Ok(Request { library, handle, kept, is_posted: false, live: team.live.clone() })
            }
            Err(error) => {
                // SAFETY: UCC has no request that could use it.
                drop(unsafe { Box::from_raw(kept) });
                Err(error)
            }
        }
    }

    /// Starts it.
    ///
    /// # Errors
    /// What UCC says. Parts of it may have been started all the same.
    pub fn post(&mut self) -> Result<(), LibraryError> {
        self.is_posted = true;
        // SAFETY: it is initialised and not posted.
        let status = unsafe { (self.library.symbols.collective_post)(self.handle) };
        self.library.check("ucc_collective_post", status)
    }

    /// How it stands. [`Context::progress`](crate::Context::progress) carries it on.
    pub fn state(&self) -> State {
        let status = self.status();
        match self.library.check("a collective", status) {
            Err(error) => State::Failed(error),
            Ok(()) if status == UCC_OK => State::Done,
            Ok(()) if status == UCC_INPROGRESS || !self.is_posted => State::Going,
            Ok(()) => State::Failed(LibraryError::Call {
                call: "a collective",
                why: format!("it was posted, and its status is neither done nor in progress ({status})"),
            }),
        }
    }

    fn status(&self) -> Status {
        // SAFETY: the handle lives; its first field is the status, which UCC changes in `progress` alone.
        unsafe { (&raw const (*self.handle).status).read_volatile() }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.is_posted && self.state() != State::Done {
            // UCC works on it, or has failed in the middle of it, and cannot take it back: all of it stays, and with it the team.
            return;
        }
        // SAFETY: it is over or was never started, and the handle is not used behind this.
        let status = unsafe { (self.library.symbols.collective_finalize)(self.handle) };
        if (0..=UCC_OPERATION_INITIALIZED).contains(&status) {
            // SAFETY: UCC has given up the request, and with it what describes it.
            drop(unsafe { Box::from_raw(self.kept) });
            self.live.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
