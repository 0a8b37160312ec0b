//! The functions of the runtime that HCOLL calls: `rte_comm_fns_t`. None of them waits, except
//! [`progress`] on the creator's thread.
//!
//! Handles of groups, messages and collectives are numbers of the [`crate::runtime`]. The handle of
//! a process is its number in the job plus 1, so it is the same in all groups and never null.

use crate::declarations::{
    DataRepresentation, EcHandle, GroupHandle, HCOLL_ERROR, HCOLL_SUCCESS, HCOLRTE_REQUEST_ACTIVE,
    HCOLRTE_REQUEST_DONE, RequestHandle, RteFunctions,
};
use crate::runtime::{GroupState, MAX_TAG, MessageState, runtime};
use crate::turn;
use libc::{c_int, c_void};
use oxmpi_mem::buffer::UserBuf;
use std::ptr::{null_mut, without_provenance_mut};

/// Fills the library's table of functions, except `wait_completion`.
///
/// # Safety
/// The table belongs to a library that is never unloaded, and no other thread uses it.
pub(crate) unsafe fn fill(table: *mut RteFunctions) {
    // SAFETY: the caller's promise.
    let wait_completion = unsafe { (*table).wait_completion };
    let all = RteFunctions {
        recv: receive,
        send,
        test,
        ec_cmp,
        get_ec_handles,
        group_size,
        my_rank,
        ec_on_local_node,
        world_group,
        jobid,
        progress,
        get_coll_handle,
        coll_handle_test,
        coll_handle_free,
        coll_handle_complete,
        wait_completion,
        group_id: null_mut(),
        world_rank,
    };
    // SAFETY: the caller's promise.
    unsafe { table.write(all) };
}

/// Calls `f` with a group; `otherwise` for an unknown group.
fn of<T>(group: GroupHandle, otherwise: T, f: impl FnOnce(&GroupState) -> T) -> T {
    runtime().groups.get(&group.addr()).map_or(otherwise, f)
}

fn count(of: usize) -> c_int {
    c_int::try_from(of).unwrap_or(c_int::MAX)
}

/// Queues a send or a receive.
///
/// # Safety
/// `buffer` has `elements` elements and stays in place until HCOLL is notified of the end of the
/// message; `request` is writable.
unsafe fn queue_message(
    is_send: bool,
    (data, elements, buffer): (DataRepresentation, u32, *mut c_void),
    (peer, group, tag): (EcHandle, GroupHandle, u32),
    request: *mut RequestHandle,
) -> c_int {
    let Some(bytes) = data.size().and_then(|size| size.checked_mul(elements as usize)) else {
        return HCOLL_ERROR;
    };
    // A negative rank stands for any process, which no collective uses.
    let (Ok(rank), Ok(tag)) = (u32::try_from(peer.rank), i32::try_from(tag)) else {
        return HCOLL_ERROR;
    };
    if tag > MAX_TAG || buffer.is_null() && bytes > 0 {
        return HCOLL_ERROR;
    }
    let buffer = match bytes {
        0 => UserBuf::empty(),
        // SAFETY: the caller's promise.
        _ => unsafe { UserBuf::contiguous(buffer.cast(), bytes) },
    };
    match runtime().queue_message(group.addr(), (is_send, rank, tag), buffer) {
        Some(number) => {
            let data = without_provenance_mut(number);
            // SAFETY: the caller's promise: `request` is writable.
            unsafe { request.write(RequestHandle { data, status: HCOLRTE_REQUEST_ACTIVE }) };
            HCOLL_SUCCESS
        }
        None => HCOLL_ERROR,
    }
}

/// # Safety
/// As [`queue_message`].
unsafe extern "C" fn receive(
    data: DataRepresentation,
    elements: u32,
    buffer: *mut c_void,
    from: EcHandle,
    group: GroupHandle,
    tag: u32,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { queue_message(false, (data, elements, buffer), (from, group, tag), request) }
}

/// # Safety
/// As [`queue_message`].
unsafe extern "C" fn send(
    data: DataRepresentation,
    elements: u32,
    buffer: *mut c_void,
    to: EcHandle,
    group: GroupHandle,
    tag: u32,
    request: *mut RequestHandle,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { queue_message(true, (data, elements, buffer), (to, group, tag), request) }
}

/// # Safety
/// `request` comes from [`queue_message`], and `completed` is writable.
unsafe extern "C" fn test(request: *mut RequestHandle, completed: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    let (request, completed) = unsafe { (&mut *request, &mut *completed) };
    *completed = 1;
    if request.status != HCOLRTE_REQUEST_ACTIVE {
        return HCOLL_SUCCESS;
    }
    match runtime().test(request.data.addr()) {
        MessageState::Active => {
            *completed = 0;
            HCOLL_SUCCESS
        }
        MessageState::Ended => {
            request.status = HCOLRTE_REQUEST_DONE;
            HCOLL_SUCCESS
        }
        MessageState::Failed => {
            *completed = 0;
            HCOLL_ERROR
        }
    }
}

unsafe extern "C" fn ec_cmp(
    one: EcHandle,
    _: GroupHandle,
    other: EcHandle,
    _: GroupHandle,
) -> c_int {
    c_int::from(one.handle == other.handle)
}

/// # Safety
/// `ranks` has `count` ranks, and `handles` has room for as many handles.
unsafe extern "C" fn get_ec_handles(
    count: c_int,
    ranks: *mut c_int,
    group: GroupHandle,
    handles: *mut EcHandle,
) -> c_int {
    of(group, HCOLL_ERROR, |group| {
        for at in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the caller's promise.
            let rank = unsafe { ranks.add(at).read() };
            let process =
                usize::try_from(rank).ok().and_then(|rank| group.members.processes.get(rank));
            let Some(process) = process else { return HCOLL_ERROR };
            let handle = without_provenance_mut(*process as usize + 1);
            // SAFETY: the caller's promise.
            unsafe { handles.add(at).write(EcHandle { rank, handle }) };
        }
        HCOLL_SUCCESS
    })
}

unsafe extern "C" fn group_size(group: GroupHandle) -> c_int {
    of(group, HCOLL_ERROR, |group| count(group.members.processes.len()))
}

unsafe extern "C" fn my_rank(group: GroupHandle) -> c_int {
    of(group, HCOLL_ERROR, |group| count(group.members.rank as usize))
}

unsafe extern "C" fn ec_on_local_node(process: EcHandle, group: GroupHandle) -> c_int {
    of(group, 0, |group| {
        let node = |rank: usize| group.members.nodes.get(rank);
        let there = usize::try_from(process.rank).ok().and_then(node);
        c_int::from(there.is_some() && there == node(group.members.rank as usize))
    })
}

unsafe extern "C" fn world_group() -> GroupHandle {
    without_provenance_mut(runtime().world)
}

unsafe extern "C" fn world_rank(group: GroupHandle, process: EcHandle) -> c_int {
    let runtime = runtime();
    let processes = |group: usize| Some(&runtime.groups.get(&group)?.members.processes);
    let first = processes(runtime.world).and_then(|world| world.first());
    let rank = usize::try_from(process.rank).ok();
    let process = processes(group.addr()).zip(rank).and_then(|(all, rank)| all.get(rank));
    // The processes of a job have consecutive numbers.
    match (process, first) {
        (Some(process), Some(first)) if process >= first => count((process - first) as usize),
        _ => HCOLL_ERROR,
    }
}

unsafe extern "C" fn jobid() -> u32 {
    runtime().job
}

unsafe extern "C" fn progress() {
    turn::park();
}

unsafe extern "C" fn get_coll_handle() -> *mut c_void {
    without_provenance_mut(runtime().new_handle())
}

unsafe extern "C" fn coll_handle_test(handle: *mut c_void) -> c_int {
    c_int::from(runtime().is_complete(handle.addr()))
}

unsafe extern "C" fn coll_handle_free(handle: *mut c_void) {
    runtime().free_handle(handle.addr());
}

unsafe extern "C" fn coll_handle_complete(handle: *mut c_void) {
    runtime().complete_handle(handle.addr());
}
