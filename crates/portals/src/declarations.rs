//! The used part of the interface of Portals 4: structures, constants and calls in the binary form
//! of the public header `portals4.h` of the reference implementation (`libportals.so.4`, interface
//! versions 4.1 to 4.3), with its names. The specification leaves the binary form to each
//! implementation: one with other handles or constants needs other declarations.

use libc::{c_int, c_uint, c_void};
use oxmpi_sys::foreign_symbols;

pub(crate) const PTL_OK: c_int = 0;
pub(crate) const PTL_EQ_DROPPED: c_int = 3;
pub(crate) const PTL_EQ_EMPTY: c_int = 4;
pub(crate) const PTL_LIST_TOO_LONG: c_int = 8;
pub(crate) const PTL_NO_SPACE: c_int = 11;

/// The names of return codes, by number.
#[rustfmt::skip] // a table
pub(crate) const RETURN_CODES: [&str; 19] = [
    "PTL_OK", "PTL_ARG_INVALID", "PTL_CT_NONE_REACHED", "PTL_EQ_DROPPED", "PTL_EQ_EMPTY",
    "PTL_FAIL", "PTL_IGNORED", "PTL_IN_USE", "PTL_LIST_TOO_LONG", "PTL_NO_INIT",
    "PTL_SIZE_INVALID", "PTL_NO_SPACE", "PTL_PID_IN_USE", "PTL_PT_FULL", "PTL_PT_EQ_NEEDED",
    "PTL_TRY_AGAIN", "PTL_INTERRUPTED", "PTL_PT_IN_USE", "PTL_ABORTED",
];

pub(crate) const PTL_IFACE_DEFAULT: c_uint = u32::MAX;
pub(crate) const PTL_PID_ANY: u32 = 0xffff;
pub(crate) const PTL_NID_ANY: u32 = 0xffff;
pub(crate) const PTL_PT_ANY: u32 = u32::MAX;
pub(crate) const PTL_CT_NONE: u32 = 0x5fff_ffff;
pub(crate) const PTL_INVALID_HANDLE: u32 = u32::MAX;

pub(crate) const PTL_NI_MATCHING: c_uint = 1;
pub(crate) const PTL_NI_PHYSICAL: c_uint = 1 << 3;

pub(crate) const PTL_PT_FLOWCTRL: c_uint = 1 << 1;

pub(crate) const PTL_MD_EVENT_SEND_DISABLE: c_uint = 1 << 7;

pub(crate) const PTL_ME_OP_PUT: c_uint = 1 << 1;
pub(crate) const PTL_ME_OP_GET: c_uint = 1 << 2;
pub(crate) const PTL_ME_USE_ONCE: c_uint = 1 << 3;
pub(crate) const PTL_ME_EVENT_LINK_DISABLE: c_uint = 1 << 6;
pub(crate) const PTL_ME_EVENT_COMM_DISABLE: c_uint = 1 << 7;
pub(crate) const PTL_ME_EVENT_UNLINK_DISABLE: c_uint = 1 << 11;
pub(crate) const PTL_ME_MANAGE_LOCAL: c_uint = 1 << 15;

pub(crate) const PTL_PRIORITY_LIST: u8 = 0;
pub(crate) const PTL_OVERFLOW_LIST: u8 = 1;
pub(crate) const PTL_SEARCH_ONLY: u8 = 0;
pub(crate) const PTL_SEARCH_DELETE: u8 = 1;
pub(crate) const PTL_ACK_REQ: u8 = 1;

pub(crate) const PTL_EVENT_GET: u8 = 0;
pub(crate) const PTL_EVENT_PUT: u8 = 2;
pub(crate) const PTL_EVENT_PUT_OVERFLOW: u8 = 3;
pub(crate) const PTL_EVENT_REPLY: u8 = 8;
pub(crate) const PTL_EVENT_ACK: u8 = 10;
pub(crate) const PTL_EVENT_PT_DISABLED: u8 = 11;
pub(crate) const PTL_EVENT_AUTO_UNLINK: u8 = 13;
pub(crate) const PTL_EVENT_AUTO_FREE: u8 = 14;
pub(crate) const PTL_EVENT_SEARCH: u8 = 15;

pub(crate) const PTL_NI_OK: u8 = 0;
pub(crate) const PTL_NI_DROPPED: u8 = 2;
pub(crate) const PTL_NI_PT_DISABLED: u8 = 3;

/// The names of failures in events, by number.
#[rustfmt::skip] // a table
pub(crate) const FAILURES: [&str; 8] = [
    "PTL_NI_OK", "PTL_NI_UNDELIVERABLE", "PTL_NI_DROPPED", "PTL_NI_PT_DISABLED",
    "PTL_NI_PERM_VIOLATION", "PTL_NI_OP_VIOLATION", "PTL_NI_NO_MATCH", "PTL_NI_SEGV",
];

/// A process of the network: the physical address in `ptl_process_t`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProcessAddress {
    pub nid: u32,
    /// The process's number on the node, which is not the kernel's.
    pub pid: u32,
}

impl ProcessAddress {
    pub(crate) const ANY: ProcessAddress = ProcessAddress { nid: PTL_NID_ANY, pid: PTL_PID_ANY };
}

/// `ptl_ni_limits_t`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct NiLimits {
    pub max_entries: c_int,
    pub max_unexpected_headers: c_int,
    pub max_mds: c_int,
    pub max_cts: c_int,
    pub max_eqs: c_int,
    pub max_pt_index: c_int,
    pub max_iovecs: c_int,
    pub max_list_size: c_int,
    pub max_triggered_ops: c_int,
    pub max_msg_size: u64,
    pub max_atomic_size: u64,
    pub max_fetch_atomic_size: u64,
    pub max_waw_ordered_size: u64,
    pub max_war_ordered_size: u64,
    pub max_volatile_size: u64,
    pub features: c_uint,
    /// Room for fields of later versions.
    pub later: [u64; 4],
}

/// `ptl_md_t`.
#[repr(C)]
pub(crate) struct MemoryDescriptor {
    pub start: *mut c_void,
    pub length: u64,
    pub options: c_uint,
    pub eq_handle: u32,
    pub ct_handle: u32,
}

/// `ptl_me_t`.
#[repr(C)]
pub(crate) struct MatchEntry {
    pub start: *mut c_void,
    pub length: u64,
    pub ct_handle: u32,
    pub uid: u32,
    pub options: c_uint,
    pub match_id: ProcessAddress,
    pub match_bits: u64,
    pub ignore_bits: u64,
    pub min_free: u64,
}

/// `ptl_event_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawEvent {
    pub start: *mut c_void,
    pub user_ptr: *mut c_void,
    pub hdr_data: u64,
    pub match_bits: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub remote_offset: u64,
    pub initiator: ProcessAddress,
    pub uid: u32,
    pub pt_index: u32,
    pub kind: u8,
    pub ptl_list: u8,
    pub ni_fail_type: u8,
    pub atomic_operation: u8,
    pub atomic_type: u8,
}

const _: () = assert!(size_of::<ProcessAddress>() == 8 && size_of::<NiLimits>() >= 96);
const _: () = assert!(std::mem::offset_of!(NiLimits, max_msg_size) == 40);
const _: () = assert!(size_of::<MemoryDescriptor>() == 32 && size_of::<MatchEntry>() == 64);
const _: () = assert!(std::mem::offset_of!(MatchEntry, match_bits) == 40);
const _: () = assert!(size_of::<RawEvent>() == 80 && std::mem::offset_of!(RawEvent, kind) == 72);

type Pointer = *mut c_void;

foreign_symbols! {
    pub(crate) struct PortalsSymbols {
        fn PtlInit() -> c_int;
        fn PtlFini();
        fn PtlNIInit(c_uint, c_uint, u32, *const NiLimits, *mut NiLimits, *mut u32) -> c_int;
        fn PtlNIFini(u32) -> c_int;
        fn PtlGetUid(u32, *mut u32) -> c_int;
        fn PtlGetPhysId(u32, *mut ProcessAddress) -> c_int;
        fn PtlEQAlloc(u32, u64, *mut u32) -> c_int;
        fn PtlEQFree(u32) -> c_int;
        fn PtlEQGet(u32, *mut RawEvent) -> c_int;
        fn PtlPTAlloc(u32, c_uint, u32, u32, *mut u32) -> c_int;
        fn PtlPTFree(u32, u32) -> c_int;
        fn PtlPTEnable(u32, u32) -> c_int;
        fn PtlMDBind(u32, *const MemoryDescriptor, *mut u32) -> c_int;
        fn PtlMDRelease(u32) -> c_int;
        fn PtlMEAppend(u32, u32, *const MatchEntry, u8, Pointer, *mut u32) -> c_int;
        fn PtlMEUnlink(u32) -> c_int;
        fn PtlMESearch(u32, u32, *const MatchEntry, u8, Pointer) -> c_int;
        fn PtlPut(u32, u64, u64, u8, ProcessAddress, u32, u64, u64, Pointer, u64) -> c_int;
        fn PtlGet(u32, u64, u64, ProcessAddress, u32, u64, u64, Pointer) -> c_int;
    }
}
