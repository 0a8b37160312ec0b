//! A simulated library for the tests of the adapter: one device `a0` with one port, whose calls
//! fail as a test requests. Each thread has its own.

use crate::declarations::{
    CompletionChannel, ContextOps, Cq, DeviceAttr, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RTS,
    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IbvContext, Mr, Opaque, PortAttr, Qp,
    QpAttr, QpInitAttr, RecvWr, SendWr, Srq, SrqInitAttr, VerbsSymbols, Wc,
};
use libc::{c_char, c_int, c_uint, c_void, size_t};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::zeroed;
use std::ptr::{null, null_mut};

#[derive(Default)]
pub(crate) struct FakeLibrary {
    pub(crate) max_qp_wr: c_int,
    pub(crate) max_srq_wr: c_int,
    pub(crate) max_cqe: c_int,
    /// The longest completion queue for which there is memory.
    pub(crate) memory: c_int,
    pub(crate) fails_to_create: bool,
    pub(crate) fails_to_modify: bool,
    pub(crate) open: Vec<u32>,
    pub(crate) broken: Vec<u32>,
    pub(crate) resized: Vec<c_int>,
    /// The repetition limit of each connected queue pair.
    pub(crate) repetitions: Vec<u8>,
    pub(crate) shared: u32,
    pub(crate) receives: VecDeque<u64>,
    /// The identifiers of posted sends, writes and reads, with kinds and flags.
    pub(crate) sends: VecDeque<(u64, c_int, c_uint)>,
    /// The operands and remote keys of atomic operations among them.
    pub(crate) atomics: Vec<(u64, u64, u32)>,
    /// The device's capability for atomic operations.
    pub(crate) atomic_cap: c_int,
    pub(crate) access: Vec<c_uint>,
    /// The start and the access flags of registered memory.
    pub(crate) registered: Vec<(usize, c_int)>,
    pub(crate) fails_to_register: bool,
    pub(crate) lockable: Option<usize>,
    pub(crate) locked: usize,
    pub(crate) registrations: u32,
    pub(crate) done: VecDeque<Wc>,
    made: u32,
}

thread_local! {
    static FAKE: RefCell<FakeLibrary> = RefCell::default();
}

pub(crate) fn with<T>(of: impl FnOnce(&mut FakeLibrary) -> T) -> T {
    FAKE.with_borrow_mut(of)
}

fn object<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// # Safety
/// `raw` comes from [`object`], and is freed once.
unsafe fn free<T>(raw: *mut T) -> c_int {
    // SAFETY: the caller guarantees it.
    drop(unsafe { Box::from_raw(raw) });
    0
}

unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut Opaque {
    // SAFETY: the caller passes the address of a number.
    unsafe { *count = 1 };
    object(null_mut())
}
unsafe extern "C" fn ibv_free_device_list(list: *mut *mut Opaque) {
    // SAFETY: `ibv_get_device_list` has made it.
    unsafe { free(list) };
}
unsafe extern "C" fn ibv_get_device_name(_: *mut Opaque) -> *const c_char {
    c"a0".as_ptr()
}
unsafe extern "C" fn ibv_open_device(_: *mut Opaque) -> *mut IbvContext {
    let ops = ContextOps {
        before_poll: [null(); 11],
        poll_cq,
        req_notify_cq,
        before_srq: [null(); 7],
        post_srq_recv,
        before_send: [null(); 4],
        post_send,
        post_recv,
        rest: [null(); 5],
    };
    object(IbvContext { device: null_mut(), ops, cmd_fd: -1, async_fd: -1 })
}
unsafe extern "C" fn ibv_close_device(context: *mut IbvContext) -> c_int {
    // SAFETY: `ibv_open_device` has made it.
    unsafe { free(context) }
}
unsafe extern "C" fn ibv_query_device(_: *mut IbvContext, attr: *mut DeviceAttr) -> c_int {
    // SAFETY: the caller passes such a structure.
    let attr = unsafe { &mut *attr };
    (attr.max_qp_wr, attr.max_srq_wr, attr.max_cqe) =
        with(|fake| (fake.max_qp_wr, fake.max_srq_wr, fake.max_cqe));
    attr.atomic_cap = with(|fake| fake.atomic_cap);
    attr.phys_port_cnt = 1;
    0
}
unsafe extern "C" fn ibv_query_port(_: *mut IbvContext, _: u8, attr: *mut PortAttr) -> c_int {
    // SAFETY: the caller passes such a structure.
    let attr = unsafe { &mut *attr };
    (attr.state, attr.active_mtu, attr.max_mtu, attr.lid) = (4, 3, 5, 1);
    0
}
unsafe extern "C" fn ibv_query_gid(_: *mut IbvContext, _: u8, _: c_int, _: *mut [u64; 2]) -> c_int {
    libc::EINVAL
}
unsafe extern "C" fn ibv_alloc_pd(_: *mut IbvContext) -> *mut Opaque {
    object(0u64).cast()
}
unsafe extern "C" fn ibv_dealloc_pd(pd: *mut Opaque) -> c_int {
    // SAFETY: `ibv_alloc_pd` has made it.
    unsafe { free(pd.cast::<u64>()) }
}
unsafe extern "C" fn ibv_reg_mr(
    pd: *mut Opaque,
    addr: *mut c_void,
    length: size_t,
    access: c_int,
) -> *mut Mr {
    let is_full = with(|fake| fake.lockable.is_some_and(|most| fake.locked + length > most));
    if is_full || with(|fake| fake.fails_to_register) {
        // SAFETY: the address of this thread's errno.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return null_mut();
    }
    with(|fake| {
        fake.registered.push((addr as usize, access));
        (fake.locked, fake.registrations) = (fake.locked + length, fake.registrations + 1);
    });
    object(Mr { context: null_mut(), pd, addr, length, handle: 0, lkey: 1, rkey: 2 })
}
unsafe extern "C" fn ibv_dereg_mr(mr: *mut Mr) -> c_int {
    // SAFETY: `ibv_reg_mr` has made it.
    unsafe {
        let start = (*mr).addr as usize;
        with(|fake| {
            fake.locked -= (*mr).length;
            fake.registered.retain(|known| known.0 != start);
        });
        free(mr)
    }
}
unsafe extern "C" fn ibv_create_comp_channel(context: *mut IbvContext) -> *mut CompletionChannel {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    object(CompletionChannel { context, fd })
}
unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut CompletionChannel) -> c_int {
    // SAFETY: `ibv_create_comp_channel` has made it and its descriptor.
    unsafe {
        libc::close((*channel).fd);
        free(channel)
    }
}
unsafe extern "C" fn ibv_create_cq(
    context: *mut IbvContext,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut CompletionChannel,
    _: c_int,
) -> *mut Cq {
    object(Cq { context, channel, cq_context, handle: 0, cqe })
}
unsafe extern "C" fn ibv_resize_cq(_: *mut Cq, cqe: c_int) -> c_int {
    with(|fake| {
        fake.resized.push(cqe);
        if cqe > fake.memory { libc::ENOMEM } else { 0 }
    })
}
unsafe extern "C" fn ibv_destroy_cq(cq: *mut Cq) -> c_int {
    // SAFETY: `ibv_create_cq` has made it.
    unsafe { free(cq) }
}
unsafe extern "C" fn ibv_get_cq_event(
    _: *mut CompletionChannel,
    _: *mut *mut Cq,
    _: *mut *mut c_void,
) -> c_int {
    -1
}
unsafe extern "C" fn ibv_ack_cq_events(_: *mut Cq, _: c_uint) {}
unsafe extern "C" fn ibv_create_srq(_: *mut Opaque, init: *mut SrqInitAttr) -> *mut Srq {
    // SAFETY: the caller passes such a structure.
    with(|fake| fake.shared = unsafe { (*init).max_wr });
    // SAFETY: `ibv_open_device` ignores its argument; a queue needs a context with its functions.
    object(Srq { context: unsafe { ibv_open_device(null_mut()) } })
}
unsafe extern "C" fn ibv_destroy_srq(srq: *mut Srq) -> c_int {
    // SAFETY: `ibv_create_srq` has made it and its context.
    unsafe {
        free((*srq).context);
        free(srq)
    }
}
unsafe extern "C" fn ibv_create_qp(_: *mut Opaque, init: *mut QpInitAttr) -> *mut Qp {
    if with(|fake| fake.fails_to_create) {
        return null_mut();
    }
    let number = with(|fake| {
        fake.made += 1;
        fake.open.push(fake.made);
        fake.made
    });
    // SAFETY: the caller passes such a structure, whose queue is open.
    let context = unsafe { (*(*init).send_cq).context };
    object(Qp { context, pointers: [null_mut(); 5], handle: 0, qp_num: number })
}
unsafe extern "C" fn ibv_modify_qp(qp: *mut Qp, attr: *mut QpAttr, _: c_int) -> c_int {
    // SAFETY: the caller passes an open queue pair and such a structure.
    let (number, attr) = unsafe { ((*qp).qp_num, &*attr) };
    let (state, repetitions) = (attr.qp_state, attr.retry_cnt);
    with(|fake| {
        if state == IBV_QPS_INIT {
            fake.access.push(attr.qp_access_flags);
        }
        if state == IBV_QPS_ERR {
            fake.broken.push(number);
        }
        if state == IBV_QPS_RTS {
            fake.repetitions.push(repetitions);
        }
        if fake.fails_to_modify { libc::ENOMEM } else { 0 }
    })
}
/// Drops the unread completions of the queue pair, as libraries do.
unsafe extern "C" fn ibv_destroy_qp(qp: *mut Qp) -> c_int {
    // SAFETY: `ibv_create_qp` has made it.
    unsafe {
        let number = (*qp).qp_num;
        with(|fake| {
            fake.open.retain(|open| *open != number);
            fake.done.retain(|done| done.qp_num != number);
        });
        free(qp)
    }
}
unsafe extern "C" fn ibv_wc_status_str(_: c_int) -> *const c_char {
    c"status".as_ptr()
}
unsafe extern "C" fn poll_cq(_: *mut Cq, most: c_int, entries: *mut Wc) -> c_int {
    with(|fake| {
        let count = fake.done.len().min(most as usize);
        for (at, wc) in fake.done.drain(..count).enumerate() {
            // SAFETY: the caller has room for `most` entries.
            unsafe { entries.add(at).write(wc) };
        }
        count as c_int
    })
}
unsafe extern "C" fn req_notify_cq(_: *mut Cq, _: c_int) -> c_int {
    0
}
unsafe extern "C" fn post_srq_recv(_: *mut Srq, wr: *mut RecvWr, _: *mut *mut RecvWr) -> c_int {
    // SAFETY: the caller passes such a structure.
    with(|fake| fake.receives.push_back(unsafe { (*wr).wr_id }));
    0
}
unsafe extern "C" fn post_send(_: *mut Qp, wr: *mut SendWr, _: *mut *mut SendWr) -> c_int {
    // SAFETY: the caller passes such a structure.
    let wr = unsafe { &*wr };
    with(|fake| {
        fake.sends.push_back((wr.wr_id, wr.opcode, wr.send_flags));
        if matches!(wr.opcode, IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD) {
            // SAFETY: operations of these kinds have such operands.
            let operands = unsafe { wr.operands.atomic };
            fake.atomics.push((operands.compare_add, operands.swap, operands.rkey));
        }
    });
    0
}
unsafe extern "C" fn post_recv(_: *mut Qp, wr: *mut RecvWr, _: *mut *mut RecvWr) -> c_int {
    // SAFETY: the caller passes such a structure.
    with(|fake| fake.receives.push_back(unsafe { (*wr).wr_id }));
    0
}

/// Ends the oldest posted receive with an error, on this queue pair.
pub(crate) fn flush(queue_pair: u32) {
    // SAFETY: zeros are valid for this structure of numbers.
    let mut wc: Wc = unsafe { zeroed() };
    (wc.status, wc.qp_num) = (5, queue_pair);
    with(|fake| {
        wc.wr_id = fake.receives.pop_front().unwrap_or_default();
        fake.done.push_back(wc);
    });
}

/// Ends the oldest posted send, write or read successfully, on this queue pair.
pub(crate) fn complete(queue_pair: u32) {
    // SAFETY: zeros are valid for this structure of numbers.
    let mut wc: Wc = unsafe { zeroed() };
    wc.qp_num = queue_pair;
    with(|fake| {
        wc.wr_id = fake.sends.pop_front().unwrap_or_default().0;
        fake.done.push_back(wc);
    });
}

pub(crate) fn symbols() -> VerbsSymbols {
    VerbsSymbols {
        ibv_get_device_list,
        ibv_free_device_list,
        ibv_get_device_name,
        ibv_open_device,
        ibv_close_device,
        ibv_query_device,
        ibv_query_port,
        ibv_query_gid,
        ibv_alloc_pd,
        ibv_dealloc_pd,
        ibv_reg_mr,
        ibv_dereg_mr,
        ibv_create_comp_channel,
        ibv_destroy_comp_channel,
        ibv_create_cq,
        ibv_resize_cq,
        ibv_destroy_cq,
        ibv_get_cq_event,
        ibv_ack_cq_events,
        ibv_create_srq,
        ibv_destroy_srq,
        ibv_create_qp,
        ibv_modify_qp,
        ibv_destroy_qp,
        ibv_wc_status_str,
    }
}
