//! The interface of UCC as far as OxMPI uses it: structures and functions of the header
//! `ucc/api/ucc.h` of UCC 1.x. Fields that later versions append are announced by bits of a mask,
//! which are never set here.

use libc::{c_char, c_int, c_uint, c_void, size_t};
use oxmpi_sys::foreign_symbols;

/// `ucc_status_t`.
pub(crate) type Status = c_int;

pub(crate) const UCC_OK: Status = 0;
pub(crate) const UCC_INPROGRESS: Status = 1;
pub(crate) const UCC_OPERATION_INITIALIZED: Status = 2;
pub(crate) const UCC_ERR_NO_MESSAGE: Status = -6;

pub(crate) const UCC_THREAD_SINGLE: c_int = 0;
pub(crate) const UCC_THREAD_MULTIPLE: c_int = 2;

pub(crate) const UCC_LIB_PARAM_FIELD_THREAD_MODE: u64 = 1;
pub(crate) const UCC_LIB_ATTR_FIELD_COLL_TYPES: u64 = 1 << 1;

pub(crate) const UCC_TEAM_PARAM_FIELD_EP: u64 = 1 << 2;
pub(crate) const UCC_TEAM_PARAM_FIELD_EP_RANGE: u64 = 1 << 4;
pub(crate) const UCC_TEAM_PARAM_FIELD_OOB: u64 = 1 << 7;
pub(crate) const UCC_TEAM_PARAM_FIELD_ID: u64 = 1 << 11;
pub(crate) const UCC_COLLECTIVE_EP_RANGE_CONTIG: c_int = 0;

pub(crate) const UCC_COLL_ARGS_FIELD_FLAGS: u64 = 1;
pub(crate) const UCC_COLL_ARGS_FLAG_IN_PLACE: u64 = 1;
pub(crate) const UCC_COLL_ARGS_FLAG_COUNT_64BIT: u64 = 1 << 2;
pub(crate) const UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT: u64 = 1 << 3;

pub(crate) const UCC_MEMORY_TYPE_HOST: c_int = 0;

/// `ucc_lib_params_t` and `ucc_lib_attr_t`, which have the same fields.
#[repr(C)]
pub(crate) struct LibParams {
    pub mask: u64,
    pub thread_mode: c_int,
    pub coll_types: u64,
    pub reduction_types: u64,
    pub sync_type: c_int,
}

/// `ucc_oob_coll_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct OobColl {
    pub allgather: Option<OobAllgather>,
    pub req_test: Option<unsafe extern "C" fn(*mut c_void) -> Status>,
    pub req_free: Option<unsafe extern "C" fn(*mut c_void) -> Status>,
    pub coll_info: *mut c_void,
    pub n_oob_eps: u32,
    pub oob_ep: u32,
}

pub(crate) type OobAllgather =
    unsafe extern "C" fn(*mut c_void, *mut c_void, size_t, *mut c_void, *mut *mut c_void) -> Status;

/// `ucc_context_params_t`.
#[repr(C)]
pub(crate) struct ContextParams {
    pub mask: u64,
    pub kind: c_int,
    pub sync_type: c_int,
    pub oob: OobColl,
    pub ctx_id: u64,
    pub mem_params: [u64; 2],
}

/// `ucc_team_params_t`.
#[repr(C)]
pub(crate) struct TeamParams {
    pub mask: u64,
    pub flags: u64,
    pub ordering: c_int,
    pub outstanding_colls: u64,
    pub ep: u64,
    pub ep_list: *mut u64,
    pub ep_range: c_int,
    pub team_size: u64,
    pub sync_type: c_int,
    pub oob: OobColl,
    pub p2p_conn: [u64; 5],
    pub mem_params: [u64; 2],
    pub ep_map: [u64; 4],
    pub id: u64,
}

/// `ucc_coll_buffer_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BufferInfo {
    pub buffer: *mut c_void,
    pub count: u64,
    pub datatype: u64,
    pub mem_type: c_int,
}

/// `ucc_coll_buffer_info_v_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BufferInfoV {
    pub buffer: *mut c_void,
    pub counts: *mut u64,
    pub displacements: *mut u64,
    pub datatype: u64,
    pub mem_type: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union AnyInfo {
    pub info: BufferInfo,
    pub info_v: BufferInfoV,
}

/// `ucc_coll_args_t`.
#[repr(C)]
pub(crate) struct CollArgs {
    pub mask: u64,
    /// `ucc_coll_type_t`, an enumeration of four bytes.
    pub coll_type: c_uint,
    pub src: AnyInfo,
    pub dst: AnyInfo,
    pub op: c_int,
    pub flags: u64,
    pub root: u64,
    pub error_type: c_int,
    pub tag: u16,
    pub global_work_buffer: *mut c_void,
    pub cb: [*mut c_void; 2],
    pub timeout: f64,
    pub active_set: [u64; 3],
    pub src_memh: *mut c_void,
    pub dst_memh: *mut c_void,
}

/// `ucc_coll_req_t`: the beginning of a request, which is all that the header shows.
#[repr(C)]
pub(crate) struct CollReq {
    pub status: Status,
}

foreign_symbols! {
    pub(crate) struct UccSymbols {
        fn ucc_get_version(*mut c_uint, *mut c_uint, *mut c_uint);
        fn ucc_status_string(Status) -> *const c_char;
        fn ucc_lib_config_read(*const c_char, *const c_char, *mut *mut c_void) -> Status;
        fn ucc_lib_config_modify(*mut c_void, *const c_char, *const c_char) -> Status;
        fn ucc_lib_config_release(*mut c_void);
        fn ucc_init_version(c_uint, c_uint, *const LibParams, *mut c_void, *mut *mut c_void) -> Status;
        fn ucc_lib_get_attr(*mut c_void, *mut LibParams) -> Status;
        fn ucc_finalize(*mut c_void) -> Status;
        fn ucc_context_config_read(*mut c_void, *const c_char, *mut *mut c_void) -> Status;
        fn ucc_context_config_release(*mut c_void);
        fn ucc_context_create(*mut c_void, *const ContextParams, *mut c_void, *mut *mut c_void) -> Status;
        fn ucc_context_progress(*mut c_void) -> Status;
        fn ucc_team_create_post(*mut *mut c_void, u32, *const TeamParams, *mut *mut c_void) -> Status;
        fn ucc_team_create_test(*mut c_void) -> Status;
        fn ucc_team_destroy(*mut c_void) -> Status;
        fn ucc_collective_init(*mut CollArgs, *mut *mut CollReq, *mut c_void) -> Status;
        fn ucc_collective_post(*mut CollReq) -> Status;
        fn ucc_collective_finalize(*mut CollReq) -> Status;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The layout of a C compiler for ucc.h (1.9) on 64-bit Linux.
    #[test]
    fn structures_have_the_layout_of_the_header() {
        assert_eq!(size_of::<LibParams>(), 40);
        assert_eq!((offset_of!(LibParams, coll_types), offset_of!(LibParams, sync_type)), (16, 32));
        assert_eq!(size_of::<OobColl>(), 40);
        assert_eq!(size_of::<ContextParams>(), 80);
        let context = (offset_of!(ContextParams, oob), offset_of!(ContextParams, ctx_id));
        assert_eq!((context, offset_of!(ContextParams, mem_params)), ((16, 56), 64));
        assert_eq!(size_of::<TeamParams>(), 208);
        let team = [
            offset_of!(TeamParams, flags),
            offset_of!(TeamParams, ordering),
            offset_of!(TeamParams, outstanding_colls),
            offset_of!(TeamParams, ep),
            offset_of!(TeamParams, ep_list),
            offset_of!(TeamParams, ep_range),
            offset_of!(TeamParams, team_size),
            offset_of!(TeamParams, sync_type),
            offset_of!(TeamParams, oob),
            offset_of!(TeamParams, p2p_conn),
            offset_of!(TeamParams, mem_params),
            offset_of!(TeamParams, ep_map),
            offset_of!(TeamParams, id),
        ];
        assert_eq!(team, [8, 16, 24, 32, 40, 48, 56, 64, 72, 112, 152, 168, 200]);
        assert_eq!((size_of::<BufferInfo>(), size_of::<BufferInfoV>()), (32, 40));
        assert_eq!(size_of::<CollArgs>(), 200);
        let args = [
            offset_of!(CollArgs, coll_type),
            offset_of!(CollArgs, src),
            offset_of!(CollArgs, dst),
            offset_of!(CollArgs, op),
            offset_of!(CollArgs, flags),
            offset_of!(CollArgs, root),
            offset_of!(CollArgs, error_type),
            offset_of!(CollArgs, tag),
            offset_of!(CollArgs, global_work_buffer),
            offset_of!(CollArgs, cb),
            offset_of!(CollArgs, timeout),
            offset_of!(CollArgs, active_set),
            offset_of!(CollArgs, src_memh),
            offset_of!(CollArgs, dst_memh),
        ];
        assert_eq!(args, [8, 16, 56, 96, 104, 112, 120, 124, 128, 136, 152, 160, 184, 192]);
    }
}
