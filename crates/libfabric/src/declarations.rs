//! The part of libfabric's C interface that this crate uses, in the binary form of version 1.14:
//! structures and function tables from its headers and its pages fi_getinfo(3), fi_domain(3),
//! fi_endpoint(3), fi_msg(3), fi_tagged(3), fi_cq(3) and fi_av(3). Later versions append fields
//! after the fields that are declared here.
//!
//! Most calls of libfabric are inline functions of its headers, which call a function from the
//! table of an object. The other calls are symbols of the library: [`FabricSymbols`].

use libc::{c_char, c_int, c_void, iovec, size_t, ssize_t};
use oxmpi_sys::foreign_symbols;

pub(crate) const VERSION_1_14: u32 = 1 << 16 | 14;

pub(crate) const FI_MSG: u64 = 1 << 1;
pub(crate) const FI_TAGGED: u64 = 1 << 3;
pub(crate) const FI_RECV: u64 = 1 << 10;
pub(crate) const FI_SEND: u64 = 1 << 11;
pub(crate) const FI_PEEK: u64 = 1 << 19;
pub(crate) const FI_CLAIM: u64 = 1 << 59;
pub(crate) const FI_NAMED_RX_CTX: u64 = 1 << 58;
pub(crate) const FI_DIRECTED_RECV: u64 = 1 << 59;
pub(crate) const FI_CONTEXT: u64 = 1 << 59;
pub(crate) const FI_CONTEXT2: u64 = 1 << 52;
pub(crate) const FI_ORDER_SAS: u64 = 1 << 8;
pub(crate) const FI_ADDR_UNSPEC: u64 = u64::MAX;

pub(crate) const FI_EP_RDM: c_int = 3;
pub(crate) const FI_THREAD_DOMAIN: c_int = 3;
pub(crate) const FI_RM_ENABLED: c_int = 2;
pub(crate) const FI_CQ_FORMAT_TAGGED: c_int = 4;
pub(crate) const FI_WAIT_NONE: c_int = 0;
pub(crate) const FI_WAIT_FD: c_int = 3;
pub(crate) const FI_AV_UNSPEC: c_int = 0;
pub(crate) const FI_AV_TABLE: c_int = 2;
pub(crate) const FI_GETWAIT: c_int = 5;
pub(crate) const FI_ENABLE: c_int = 6;

pub(crate) const FI_EAGAIN: ssize_t = 11;
pub(crate) const FI_ENOMSG: c_int = 42;
pub(crate) const FI_ENODATA: c_int = 61;
pub(crate) const FI_ECANCELED: c_int = 125;
pub(crate) const FI_EAVAIL: ssize_t = 259;
pub(crate) const FI_ETRUNC: c_int = 265;

#[repr(C)]
pub(crate) struct Info {
    pub next: *mut Info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: size_t,
    pub dest_addrlen: size_t,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut c_void,
    pub tx_attr: *mut TxAttr,
    pub rx_attr: *mut RxAttr,
    pub ep_attr: *mut EpAttr,
    pub domain_attr: *mut DomainAttr,
    pub fabric_attr: *mut FabricAttr,
    pub nic: *mut c_void,
}

#[repr(C)]
pub(crate) struct TxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: size_t,
    pub size: size_t,
    pub iov_limit: size_t,
    pub rma_iov_limit: size_t,
    pub tclass: u32,
}

#[repr(C)]
pub(crate) struct RxAttr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: size_t,
    pub size: size_t,
    pub iov_limit: size_t,
}

#[repr(C)]
pub(crate) struct EpAttr {
    pub kind: c_int,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: size_t,
    pub msg_prefix_size: size_t,
    pub max_order_raw_size: size_t,
    pub max_order_war_size: size_t,
    pub max_order_waw_size: size_t,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: size_t,
    pub rx_ctx_cnt: size_t,
}

#[repr(C)]
pub(crate) struct DomainAttr {
    pub domain: *mut c_void,
    pub name: *mut c_char,
    pub threading: c_int,
    pub control_progress: c_int,
    pub data_progress: c_int,
    pub resource_mgmt: c_int,
    pub av_type: c_int,
    pub mr_mode: c_int,
    pub mr_key_size: size_t,
    pub cq_data_size: size_t,
    pub cq_cnt: size_t,
    pub ep_cnt: size_t,
    pub tx_ctx_cnt: size_t,
    pub rx_ctx_cnt: size_t,
    pub max_ep_tx_ctx: size_t,
    pub max_ep_rx_ctx: size_t,
}

#[repr(C)]
pub(crate) struct FabricAttr {
    pub fabric: *mut c_void,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
pub(crate) struct Fid {
    pub class: size_t,
    pub context: *mut c_void,
    pub ops: *const FidOps,
}

#[repr(C)]
pub(crate) struct FidOps {
    pub size: size_t,
    pub close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

/// The entry of a function table for a function that this crate does not call.
pub(crate) type Unused = *const c_void;

#[repr(C)]
pub(crate) struct FidFabric {
    pub fid: Fid,
    pub ops: *const FabricOps,
}

#[repr(C)]
pub(crate) struct FabricOps {
    pub size: size_t,
    pub domain:
        unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
    pub passive_ep: Unused,
    pub eq_open: Unused,
    pub wait_open: Unused,
    pub trywait: unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int,
}

#[repr(C)]
pub(crate) struct Domain {
    pub fid: Fid,
    pub ops: *const DomainOps,
}

#[repr(C)]
pub(crate) struct DomainOps {
    pub size: size_t,
    pub av_open: unsafe extern "C" fn(*mut Domain, *mut AvAttr, *mut *mut Av, *mut c_void) -> c_int,
    pub cq_open: unsafe extern "C" fn(*mut Domain, *mut CqAttr, *mut *mut Cq, *mut c_void) -> c_int,
    pub endpoint: unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Ep, *mut c_void) -> c_int,
    pub scalable_ep:
        unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Ep, *mut c_void) -> c_int,
}

#[repr(C)]
pub(crate) struct AvAttr {
    pub kind: c_int,
    pub rx_ctx_bits: c_int,
    pub count: size_t,
    pub ep_per_node: size_t,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub(crate) struct Av {
    pub fid: Fid,
    pub ops: *const AvOps,
}

#[repr(C)]
pub(crate) struct AvOps {
    pub size: size_t,
    pub insert:
        unsafe extern "C" fn(*mut Av, *const c_void, size_t, *mut u64, u64, *mut c_void) -> c_int,
}

#[repr(C)]
pub(crate) struct CqAttr {
    pub size: size_t,
    pub flags: u64,
    pub format: c_int,
    pub wait_obj: c_int,
    pub signaling_vector: c_int,
    pub wait_cond: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct Cq {
    pub fid: Fid,
    pub ops: *const CqOps,
}

#[repr(C)]
pub(crate) struct CqOps {
    pub size: size_t,
    pub read: unsafe extern "C" fn(*mut Cq, *mut c_void, size_t) -> ssize_t,
    pub readfrom: Unused,
    pub readerr: unsafe extern "C" fn(*mut Cq, *mut CqError, u64) -> ssize_t,
    pub sread: Unused,
    pub sreadfrom: Unused,
    pub signal: Unused,
    pub strerror:
        unsafe extern "C" fn(*mut Cq, c_int, *const c_void, *mut c_char, size_t) -> *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CqEntry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: size_t,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
}

#[repr(C)]
pub(crate) struct CqError {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: size_t,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: size_t,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: size_t,
    /// Room for the field that later versions append.
    pub later: [u64; 2],
}

#[repr(C)]
pub(crate) struct Ep {
    pub fid: Fid,
    pub ops: *const EpOps,
    pub cm: *const CmOps,
    pub msg: *const MsgOps,
    pub rma: Unused,
    pub tagged: *const TaggedOps,
}

#[repr(C)]
pub(crate) struct EpOps {
    pub size: size_t,
    pub cancel: unsafe extern "C" fn(*mut Fid, *mut c_void) -> ssize_t,
    pub getopt: Unused,
    pub setopt: Unused,
    pub tx_ctx:
        unsafe extern "C" fn(*mut Ep, c_int, *mut TxAttr, *mut *mut Ep, *mut c_void) -> c_int,
    pub rx_ctx:
        unsafe extern "C" fn(*mut Ep, c_int, *mut RxAttr, *mut *mut Ep, *mut c_void) -> c_int,
}

#[repr(C)]
pub(crate) struct CmOps {
    pub size: size_t,
    pub setname: Unused,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut size_t) -> c_int,
}

#[repr(C)]
pub(crate) struct TaggedMessage {
    pub iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: size_t,
    pub addr: u64,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

type Pointer = *mut c_void;

#[repr(C)]
pub(crate) struct MsgOps {
    pub size: size_t,
    pub recv: unsafe extern "C" fn(*mut Ep, Pointer, size_t, Pointer, u64, Pointer) -> ssize_t,
    pub recvv: Unused,
    pub recvmsg: Unused,
    pub send:
        unsafe extern "C" fn(*mut Ep, *const c_void, size_t, Pointer, u64, Pointer) -> ssize_t,
    pub sendv:
        unsafe extern "C" fn(*mut Ep, *const iovec, *mut Pointer, size_t, u64, Pointer) -> ssize_t,
}

#[repr(C)]
pub(crate) struct TaggedOps {
    pub size: size_t,
    pub recv:
        unsafe extern "C" fn(*mut Ep, Pointer, size_t, Pointer, u64, u64, u64, Pointer) -> ssize_t,
    pub recvv: Unused,
    pub recvmsg: unsafe extern "C" fn(*mut Ep, *const TaggedMessage, u64) -> ssize_t,
    pub send:
        unsafe extern "C" fn(*mut Ep, *const c_void, size_t, Pointer, u64, u64, Pointer) -> ssize_t,
    pub sendv: Unused,
    pub sendmsg: Unused,
    pub inject: Unused,
    pub senddata: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        size_t,
        Pointer,
        u64,
        u64,
        u64,
        Pointer,
    ) -> ssize_t,
}

foreign_symbols! {
    pub(crate) struct FabricSymbols {
        fn fi_version() -> u32;
        fn fi_getinfo(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;
        fn fi_freeinfo(*mut Info);
        fn fi_dupinfo(*const Info) -> *mut Info;
        fn fi_fabric(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int;
        fn fi_strerror(c_int) -> *const c_char;
    }
}

// The sizes of 1.14 on 64-bit machines; `<=` where the last fields are not declared.
const _: () =
    assert!(size_of::<Info>() == 120 && size_of::<TxAttr>() == 80 && size_of::<RxAttr>() == 64);
const _: () = assert!(
    size_of::<EpAttr>() <= 96 && size_of::<DomainAttr>() <= 192 && size_of::<FabricAttr>() == 32
);
const _: () =
    assert!(size_of::<Fid>() == 24 && size_of::<CqEntry>() == 48 && size_of::<AvAttr>() == 48);
const _: () = assert!(
    size_of::<CqAttr>() == 40 && size_of::<CqError>() >= 80 && size_of::<TaggedMessage>() == 64
);
const _: () = assert!(std::mem::offset_of!(DomainAttr, cq_data_size) == 48);
