//! The interface of HCOLL as far as OxMPI uses it: structures, functions and variables of the
//! public headers of HCOLL 4.

#![allow(missing_docs)] // named and described by HCOLL's own headers

use libc::{c_char, c_int, c_short, c_void};
use oxmpi_sys::foreign_symbols;

pub(crate) const HCOLL_SUCCESS: c_int = 0;
pub(crate) const HCOLL_ERROR: c_int = -1;

/// `HCOL_DTE_ZERO`: no data.
pub(crate) const HCOL_DTE_ZERO: c_short = 0;

pub(crate) const HCOLL_IN_PLACE: usize = 1;

pub(crate) const HCOLRTE_REQUEST_DONE: c_int = 0;
pub(crate) const HCOLRTE_REQUEST_ACTIVE: c_int = 2;

/// `dte_data_representation_t`, which is passed by value. The header's structure of bit fields has
/// ten bytes, and the union around it sixteen.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DataRepresentation {
    /// Byte 0 has the flag that the type is described here (bit 0), byte 1 the bits of an element.
    pub rep: [u64; 2],
    pub id: c_short,
}

impl DataRepresentation {
    /// Bytes of one element; `None` for a type that is described elsewhere.
    pub(crate) fn size(&self) -> Option<usize> {
        let [first, bits, ..] = self.rep[0].to_le_bytes();
        match self.id {
            HCOL_DTE_ZERO => Some(0),
            _ => (first & 1 == 1).then_some(usize::from(bits) / 8),
        }
    }
}

/// `hcoll_dte_op_t`.
#[repr(C)]
pub(crate) struct DteOp {
    pub id: c_int,
}

/// `rte_ec_handle_t` of a library that is not built for debugging.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EcHandle {
    pub rank: c_int,
    pub handle: *mut c_void,
}

/// `rte_request_handle_t`.
#[repr(C)]
pub(crate) struct RequestHandle {
    pub data: *mut c_void,
    pub status: c_int,
}

/// `rte_grp_handle_t`, a number of [`crate::runtime`].
pub(crate) type GroupHandle = *mut c_void;

pub(crate) type Transfer = unsafe extern "C" fn(
    DataRepresentation,
    u32,
    *mut c_void,
    EcHandle,
    GroupHandle,
    u32,
    *mut RequestHandle,
) -> c_int;

/// `rte_comm_fns_t` up to the last function that every version of the library has. Optional
/// functions for derived datatypes follow.
#[repr(C)]
pub(crate) struct RteFunctions {
    pub recv: Transfer,
    pub send: Transfer,
    pub test: unsafe extern "C" fn(*mut RequestHandle, *mut c_int) -> c_int,
    pub ec_cmp: unsafe extern "C" fn(EcHandle, GroupHandle, EcHandle, GroupHandle) -> c_int,
    pub get_ec_handles:
        unsafe extern "C" fn(c_int, *mut c_int, GroupHandle, *mut EcHandle) -> c_int,
    pub group_size: unsafe extern "C" fn(GroupHandle) -> c_int,
    pub my_rank: unsafe extern "C" fn(GroupHandle) -> c_int,
    pub ec_on_local_node: unsafe extern "C" fn(EcHandle, GroupHandle) -> c_int,
    pub world_group: unsafe extern "C" fn() -> GroupHandle,
    pub jobid: unsafe extern "C" fn() -> u32,
    pub progress: unsafe extern "C" fn(),
    pub get_coll_handle: unsafe extern "C" fn() -> *mut c_void,
    pub coll_handle_test: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub coll_handle_free: unsafe extern "C" fn(*mut c_void),
    pub coll_handle_complete: unsafe extern "C" fn(*mut c_void),
    /// The library's function, which is kept.
    pub wait_completion: *mut c_void,
    /// Null: groups have no number of 16 bits, so the library numbers contexts itself.
    pub group_id: *mut c_void,
    pub world_rank: unsafe extern "C" fn(GroupHandle, EcHandle) -> c_int,
}

type Buffer = *mut c_void;
type Counts = *mut c_int;
type Handle = *mut *mut c_void;
type Dte = DataRepresentation;

pub(crate) type Ibarrier = unsafe extern "C" fn(*mut c_void, Handle) -> c_int;
pub(crate) type Ibcast =
    unsafe extern "C" fn(Buffer, c_int, Dte, c_int, Handle, *mut c_void) -> c_int;
pub(crate) type Iallgather =
    unsafe extern "C" fn(Buffer, c_int, Dte, Buffer, c_int, Dte, *mut c_void, Handle) -> c_int;
pub(crate) type Iallgatherv = unsafe extern "C" fn(
    Buffer,
    c_int,
    Dte,
    Buffer,
    Counts,
    Counts,
    Dte,
    *mut c_void,
    Handle,
) -> c_int;
pub(crate) type Iallreduce =
    unsafe extern "C" fn(Buffer, Buffer, c_int, Dte, *mut DteOp, *mut c_void, Handle) -> c_int;
pub(crate) type Ireduce = unsafe extern "C" fn(
    Buffer,
    Buffer,
    c_int,
    Dte,
    *mut DteOp,
    c_int,
    *mut c_void,
    Handle,
) -> c_int;
pub(crate) type Igatherv = unsafe extern "C" fn(
    Buffer,
    c_int,
    Dte,
    Buffer,
    Counts,
    Counts,
    Dte,
    c_int,
    *mut c_void,
    Handle,
) -> c_int;
pub(crate) type Ialltoallv = unsafe extern "C" fn(
    Buffer,
    Counts,
    Counts,
    Dte,
    Buffer,
    Counts,
    Counts,
    Dte,
    *mut c_void,
    Handle,
) -> c_int;

/// `hcoll_collectives_t`: seventeen blocking functions, then the nonblocking ones; null if the
/// library does not have a function.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Collectives {
    pub blocking: [*mut c_void; 17],
    pub ibarrier: Option<Ibarrier>,
    pub ibcast: Option<Ibcast>,
    pub iallgather: Option<Iallgather>,
    pub iallgatherv: Option<Iallgatherv>,
    pub iallreduce: Option<Iallreduce>,
    pub ireduce: Option<Ireduce>,
    pub igatherv: Option<Igatherv>,
    pub ialltoallv: Option<Ialltoallv>,
}

/// `hcoll_init_opts_t`.
#[repr(C)]
pub(crate) struct InitOpts {
    pub base_tag: c_int,
    pub max_tag: c_int,
    pub enable_thread_support: c_int,
    pub mem_hook_needed: c_int,
}

foreign_symbols! {
    pub(crate) struct HcollSymbols {
        fn hcoll_get_version() -> *const c_char;
        fn hcoll_read_init_opts(*mut *mut InitOpts) -> c_int;
        fn hcoll_init_with_opts(*mut *mut InitOpts) -> c_int;
        fn hcoll_free_init_opts(*mut InitOpts);
        fn hcoll_create_context(GroupHandle) -> *mut c_void;
        fn hcoll_context_free(*mut c_void, GroupHandle) -> c_int;
        fn hcoll_finalize() -> c_int;
        static hcoll_rte_functions: RteFunctions;
        static hcoll_collectives: Collectives;
        static hcoll_progress_fn: Option<unsafe extern "C" fn() -> c_int>;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The layout of a C compiler on 64-bit Linux: `tests/hcoll-emulation/hcoll.c` asserts the same
    /// numbers.
    #[test]
    fn structures_have_the_layout_of_the_headers() {
        assert_eq!((size_of::<DataRepresentation>(), offset_of!(DataRepresentation, id)), (24, 16));
        assert_eq!((size_of::<EcHandle>(), size_of::<RequestHandle>()), (16, 16));
        assert_eq!(size_of::<RteFunctions>(), 18 * 8);
        assert_eq!(offset_of!(RteFunctions, world_rank), 17 * 8);
        assert_eq!((size_of::<Collectives>(), offset_of!(Collectives, ibarrier)), (25 * 8, 17 * 8));
        assert_eq!(size_of::<InitOpts>(), 16);
    }

    #[test]
    fn elements_have_the_size_of_their_description() {
        let inline = |bits: u64, id| DataRepresentation { rep: [1 | bits << 8, 0], id };
        assert_eq!((inline(8, 1).size(), inline(128, 16).size()), (Some(1), Some(16)));
        assert_eq!(DataRepresentation { rep: [0x7f00, 0], id: 31 }.size(), None);
        assert_eq!(DataRepresentation { rep: [0; 2], id: HCOL_DTE_ZERO }.size(), Some(0));
    }
}
