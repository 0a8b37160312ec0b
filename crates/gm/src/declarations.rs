//! The used part of GM 2's interface, from gm.h on 64-bit machines.

use libc::{c_char, c_int, c_uint, c_ulong, c_void};
use oxmpi_sys::foreign_symbols;

/// The first version with gm_put() and global identifiers.
pub(crate) const GM_API_VERSION_2_0: c_int = 0x200;

pub(crate) const GM_SUCCESS: c_int = 0;
pub(crate) const GM_BUSY: c_int = 5;
pub(crate) const GM_INVALID_PARAMETER: c_int = 8;
pub(crate) const GM_SEND_TIMED_OUT: c_int = 15;
pub(crate) const GM_SEND_DROPPED: c_int = 19;
pub(crate) const GM_STILL_SHUTTING_DOWN: c_int = 22;
pub(crate) const GM_INVALID_PORT_NUMBER: c_int = 42;

pub(crate) const GM_LOW_PRIORITY: c_int = 0;
pub(crate) const GM_HIGH_PRIORITY: c_int = 1;

pub(crate) const GM_NO_RECV_EVENT: u8 = 0;
/// The first of the eight kinds of events that report a message.
pub(crate) const GM_RECV_EVENT: u8 = 11;
/// The first of the kinds whose message lies in the receive queue and not in the buffer.
pub(crate) const GM_FAST_RECV_EVENT: u8 = 15;
pub(crate) const GM_FAST_HIGH_PEER_RECV_EVENT: u8 = 18;

#[repr(C)]
pub(crate) struct RawPort {
    _private: [u8; 0],
}

/// `gm_recv_t`, whose length all events have. Numbers are in network byte order.
#[repr(C)]
pub(crate) struct RecvEvent {
    pub _rdma_padding: [u8; 32],
    pub message: u64,
    pub buffer: u64,
    pub reserved_after_buffer: u32,
    pub length: u32,
    pub sender_node_id: u16,
    pub reserved_after_sender_node_id: u16,
    pub tag: u8,
    pub size: u8,
    pub sender_port_id: u8,
    pub kind: u8,
}

const _: () = assert!(size_of::<RecvEvent>() == 64 && std::mem::offset_of!(RecvEvent, kind) == 63);

/// `gm_send_completion_callback_t`.
pub(crate) type Callback = unsafe extern "C" fn(*mut RawPort, *mut c_void, c_int);

type Port = *mut RawPort;

foreign_symbols! {
    pub(crate) struct GmSymbols {
        fn gm_init() -> c_int;
        fn gm_finalize();
        fn gm_open(*mut Port, c_uint, c_uint, *const c_char, c_int) -> c_int;
        fn gm_close(Port);
        fn gm_num_send_tokens(Port) -> c_uint;
        fn gm_num_receive_tokens(Port) -> c_uint;
        fn gm_min_size_for_length(c_ulong) -> c_uint;
        fn gm_max_length_for_size(c_uint) -> c_ulong;
        fn gm_get_node_id(Port, *mut c_uint) -> c_int;
        fn gm_node_id_to_global_id(Port, c_uint, *mut c_uint) -> c_int;
        fn gm_global_id_to_node_id(Port, c_uint, *mut c_uint) -> c_int;
        fn gm_dma_malloc(Port, c_ulong) -> *mut c_void;
        fn gm_set_acceptable_sizes(Port, c_int, c_ulong) -> c_int;
        fn gm_allow_remote_memory_access(Port) -> c_int;
        fn gm_provide_receive_buffer_with_tag(Port, *mut c_void, c_uint, c_uint, c_uint);
        fn gm_send_with_callback(
            Port, *mut c_void, c_uint, c_ulong, c_uint, c_uint, c_uint, Callback, *mut c_void
        );
        fn gm_put(Port, *mut c_void, u64, c_ulong, c_int, c_uint, c_uint, Callback, *mut c_void);
        fn gm_get(Port, u64, *mut c_void, c_ulong, c_int, c_uint, c_uint, Callback, *mut c_void);
        fn gm_register_memory(Port, *mut c_void, c_ulong) -> c_int;
        fn gm_deregister_memory(Port, *mut c_void, c_ulong) -> c_int;
        fn gm_drop_sends(Port, c_uint, c_uint, c_uint, Callback, *mut c_void);
        fn gm_receive(Port) -> *mut RecvEvent;
        fn gm_unknown(Port, *mut RecvEvent);
        fn gm_strerror(c_int) -> *const c_char;
    }
}
