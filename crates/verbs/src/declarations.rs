//! The used part of libibverbs' interface: structures and functions of the pages
//! ibv_get_device_list(3), ibv_query_port(3), ibv_create_qp(3), ibv_modify_qp(3), ibv_post_send(3),
//! ibv_post_srq_recv(3), ibv_poll_cq(3) and ibv_create_comp_channel(3) and of its public header, in
//! the binary form of IBVERBS_1.1.
//!
//! The calls on the data path are inline functions of the header, which use the function table of a
//! context. Objects of the library are declared only as far as they are read.

use libc::{c_char, c_int, c_uint, c_void, size_t};
use oxmpi_sys::foreign_symbols;

pub(crate) const IBV_PORT_ACTIVE: c_int = 4;
pub(crate) const IBV_LINK_LAYER_ETHERNET: u8 = 2;
pub(crate) const IBV_QPT_RC: c_int = 2;
pub(crate) const IBV_QPS_INIT: c_int = 1;
pub(crate) const IBV_QPS_RTR: c_int = 2;
pub(crate) const IBV_QPS_RTS: c_int = 3;
pub(crate) const IBV_QPS_ERR: c_int = 6;

pub(crate) const IBV_QP_STATE: c_int = 1 << 0;
pub(crate) const IBV_QP_ACCESS_FLAGS: c_int = 1 << 3;
pub(crate) const IBV_QP_PKEY_INDEX: c_int = 1 << 4;
pub(crate) const IBV_QP_PORT: c_int = 1 << 5;
pub(crate) const IBV_QP_AV: c_int = 1 << 7;
pub(crate) const IBV_QP_PATH_MTU: c_int = 1 << 8;
pub(crate) const IBV_QP_TIMEOUT: c_int = 1 << 9;
pub(crate) const IBV_QP_RETRY_CNT: c_int = 1 << 10;
pub(crate) const IBV_QP_RNR_RETRY: c_int = 1 << 11;
pub(crate) const IBV_QP_RQ_PSN: c_int = 1 << 12;
pub(crate) const IBV_QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub(crate) const IBV_QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub(crate) const IBV_QP_SQ_PSN: c_int = 1 << 16;
pub(crate) const IBV_QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub(crate) const IBV_QP_DEST_QPN: c_int = 1 << 20;

pub(crate) const IBV_ACCESS_LOCAL_WRITE: c_int = 1;
pub(crate) const IBV_ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub(crate) const IBV_ACCESS_REMOTE_READ: c_int = 1 << 2;
pub(crate) const IBV_ACCESS_REMOTE_ATOMIC: c_int = 1 << 3;

pub(crate) const IBV_WR_RDMA_WRITE: c_int = 0;
pub(crate) const IBV_WR_SEND: c_int = 2;
pub(crate) const IBV_WR_RDMA_READ: c_int = 4;
pub(crate) const IBV_WR_ATOMIC_CMP_AND_SWP: c_int = 5;
pub(crate) const IBV_WR_ATOMIC_FETCH_AND_ADD: c_int = 6;
pub(crate) const IBV_ATOMIC_HCA: c_int = 1;
pub(crate) const IBV_ATOMIC_GLOB: c_int = 2;
pub(crate) const IBV_SEND_FENCE: c_uint = 1 << 0;
pub(crate) const IBV_SEND_SIGNALED: c_uint = 1 << 1;
pub(crate) const IBV_WC_SUCCESS: c_int = 0;
pub(crate) const IBV_WC_LOC_PROT_ERR: c_int = 4;
pub(crate) const IBV_WC_REM_INV_REQ_ERR: c_int = 9;
pub(crate) const IBV_WC_REM_ACCESS_ERR: c_int = 10;
pub(crate) const IBV_WC_REM_OP_ERR: c_int = 11;
pub(crate) const IBV_WC_RETRY_EXC_ERR: c_int = 12;

/// An object of the library that is never read.
#[repr(C)]
pub(crate) struct Opaque {
    _private: [u8; 0],
}

#[repr(C)]
pub(crate) struct DeviceAttr {
    pub fw_ver: [c_char; 64],
    pub guids: [u64; 2],
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub ids: [u32; 3],
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: c_int,
    pub unused: [c_int; 11],
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

#[repr(C)]
pub(crate) struct PortAttr {
    pub state: c_int,
    pub max_mtu: c_int,
    pub active_mtu: c_int,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub counters: [u32; 2],
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub small: [u8; 8],
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}

#[repr(C)]
pub(crate) struct GlobalRoute {
    pub dgid: [u64; 2],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

#[repr(C)]
pub(crate) struct AhAttr {
    pub grh: GlobalRoute,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
pub(crate) struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub cap: QpCap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
}

#[repr(C)]
pub(crate) struct QpAttr {
    pub qp_state: c_int,
    pub cur_qp_state: c_int,
    pub path_mtu: c_int,
    pub path_mig_state: c_int,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: QpCap,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SrqInitAttr {
    pub srq_context: *mut c_void,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

#[repr(C)]
pub(crate) struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: c_uint,
    pub imm_data: u32,
    pub remote_addr: u64,
    pub operands: Operands,
    pub unused: [u64; 7],
}

/// The fields behind the address at the peer.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Operands {
    pub rkey: u32,
    pub atomic: AtomicOperands,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AtomicOperands {
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

#[repr(C)]
pub(crate) struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Wc {
    pub wr_id: u64,
    pub status: c_int,
    pub opcode: c_int,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// A function of the table that is not used here.
pub(crate) type Unused = *const c_void;

#[repr(C)]
pub(crate) struct ContextOps {
    pub before_poll: [Unused; 11],
    pub poll_cq: unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int,
    pub req_notify_cq: unsafe extern "C" fn(*mut Cq, c_int) -> c_int,
    pub before_srq: [Unused; 7],
    pub post_srq_recv: unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int,
    pub before_send: [Unused; 4],
    pub post_send: unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int,
    pub post_recv: unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int,
    pub rest: [Unused; 5],
}

#[repr(C)]
pub(crate) struct IbvContext {
    pub device: *mut Opaque,
    pub ops: ContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
}

#[repr(C)]
pub(crate) struct CompletionChannel {
    pub context: *mut IbvContext,
    pub fd: c_int,
}

#[repr(C)]
pub(crate) struct Cq {
    pub context: *mut IbvContext,
    pub channel: *mut CompletionChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
}

#[repr(C)]
pub(crate) struct Srq {
    pub context: *mut IbvContext,
}

#[repr(C)]
pub(crate) struct Qp {
    pub context: *mut IbvContext,
    pub pointers: [*mut c_void; 5],
    pub handle: u32,
    pub qp_num: u32,
}

#[repr(C)]
pub(crate) struct Mr {
    pub context: *mut IbvContext,
    pub pd: *mut Opaque,
    pub addr: *mut c_void,
    pub length: size_t,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

foreign_symbols! {
    pub(crate) struct VerbsSymbols {
        fn ibv_get_device_list(*mut c_int) -> *mut *mut Opaque;
        fn ibv_free_device_list(*mut *mut Opaque);
        fn ibv_get_device_name(*mut Opaque) -> *const c_char;
        fn ibv_open_device(*mut Opaque) -> *mut IbvContext;
        fn ibv_close_device(*mut IbvContext) -> c_int;
        fn ibv_query_device(*mut IbvContext, *mut DeviceAttr) -> c_int;
        fn ibv_query_port(*mut IbvContext, u8, *mut PortAttr) -> c_int;
        fn ibv_query_gid(*mut IbvContext, u8, c_int, *mut [u64; 2]) -> c_int;
        fn ibv_alloc_pd(*mut IbvContext) -> *mut Opaque;
        fn ibv_dealloc_pd(*mut Opaque) -> c_int;
        fn ibv_reg_mr(*mut Opaque, *mut c_void, size_t, c_int) -> *mut Mr;
        fn ibv_dereg_mr(*mut Mr) -> c_int;
        fn ibv_create_comp_channel(*mut IbvContext) -> *mut CompletionChannel;
        fn ibv_destroy_comp_channel(*mut CompletionChannel) -> c_int;
        fn ibv_create_cq(*mut IbvContext, c_int, *mut c_void, *mut CompletionChannel, c_int) -> *mut Cq;
        fn ibv_resize_cq(*mut Cq, c_int) -> c_int;
        fn ibv_destroy_cq(*mut Cq) -> c_int;
        fn ibv_get_cq_event(*mut CompletionChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
        fn ibv_ack_cq_events(*mut Cq, c_uint);
        fn ibv_create_srq(*mut Opaque, *mut SrqInitAttr) -> *mut Srq;
        fn ibv_destroy_srq(*mut Srq) -> c_int;
        fn ibv_create_qp(*mut Opaque, *mut QpInitAttr) -> *mut Qp;
        fn ibv_modify_qp(*mut Qp, *mut QpAttr, c_int) -> c_int;
        fn ibv_destroy_qp(*mut Qp) -> c_int;
        fn ibv_wc_status_str(c_int) -> *const c_char;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// Sizes and offsets of the public header on x86-64 and AArch64 (LP64).
    #[test]
    fn structures_lie_as_the_header_says() {
        assert_eq!(size_of::<DeviceAttr>(), 232);
        assert_eq!(offset_of!(DeviceAttr, max_qp_wr), 112);
        assert_eq!(offset_of!(DeviceAttr, max_cqe), 132);
        assert_eq!(offset_of!(DeviceAttr, max_qp_rd_atom), 144);
        assert_eq!(offset_of!(DeviceAttr, atomic_cap), 164);
        assert_eq!(offset_of!(DeviceAttr, max_srq), 212);
        assert_eq!(offset_of!(DeviceAttr, phys_port_cnt), 227);
        assert_eq!(size_of::<PortAttr>(), 52);
        assert_eq!(offset_of!(PortAttr, lid), 34);
        assert_eq!(offset_of!(PortAttr, link_layer), 46);
        assert_eq!((size_of::<GlobalRoute>(), size_of::<AhAttr>()), (24, 32));
        assert_eq!((size_of::<QpInitAttr>(), size_of::<QpAttr>()), (64, 144));
        assert_eq!(offset_of!(QpAttr, ah_attr), 56);
        assert_eq!(offset_of!(QpAttr, pkey_index), 120);
        assert_eq!(offset_of!(QpAttr, max_rd_atomic), 126);
        assert_eq!(offset_of!(QpAttr, timeout), 130);
        assert_eq!((size_of::<SrqInitAttr>(), size_of::<Sge>()), (24, 16));
        assert_eq!((size_of::<SendWr>(), offset_of!(SendWr, remote_addr)), (128, 40));
        assert_eq!((offset_of!(SendWr, operands), offset_of!(AtomicOperands, rkey)), (48, 16));
        assert_eq!((size_of::<RecvWr>(), size_of::<Wc>()), (32, 48));
        assert_eq!((offset_of!(Wc, byte_len), offset_of!(Wc, qp_num)), (20, 28));
        assert_eq!(size_of::<ContextOps>(), 256);
        assert_eq!(offset_of!(ContextOps, poll_cq), 88);
        assert_eq!(offset_of!(ContextOps, req_notify_cq), 96);
        assert_eq!(offset_of!(ContextOps, post_srq_recv), 160);
        assert_eq!(offset_of!(ContextOps, post_send), 200);
        assert_eq!(offset_of!(ContextOps, post_recv), 208);
        assert_eq!(offset_of!(IbvContext, cmd_fd), 264);
        assert_eq!(offset_of!(CompletionChannel, fd), 8);
        assert_eq!(offset_of!(Cq, cqe), 28);
        assert_eq!(offset_of!(Qp, qp_num), 52);
        assert_eq!((size_of::<Mr>(), offset_of!(Mr, lkey), offset_of!(Mr, rkey)), (48, 36, 40));
    }
}
