//! Epochs of windows (MPI-5.0 section 12.5). Tests: tests/c/win_lock.c, tests/c/win_pscw.c,
//! tests/c/win_put_get.c.

use super::{WinArgument, at_hand, on_win};
use crate::state::library::Running;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Win;
use oxmpi_core::window::LockType;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_objects::shown::{self, ValueKind};
use std::ffi::c_int;
use std::sync::Arc;

fn lock_type(lock_type: c_int) -> Result<LockType> {
    match lock_type {
        abi::MPI_LOCK_EXCLUSIVE => Ok(LockType::Exclusive),
        abi::MPI_LOCK_SHARED => Ok(LockType::Shared),
        other => {
            let other = shown::number(ValueKind::LockType, other);
            let text =
                format!("lock_type is {other}; it must be MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED");
            Err(MpiError::new(abi::MPI_ERR_LOCKTYPE, text))
        }
    }
}

/// Ends a straight line, after which a poll may be due.
#[inline(always)]
fn done(library: &Running, poll_is_due: bool) -> c_int {
    if poll_is_due {
        library.process.look_now_and_then();
    }
    abi::MPI_SUCCESS
}

/// Completes the accesses to a target, also for the local form: completion at the target implies
/// local completion.
#[inline(always)]
pub(crate) fn win_flush(function: FuncId, rank: c_int, win: Win) -> c_int {
    if let Some((library, window)) = at_hand(win)
        && let Some(due) = library.process.flush_now(&window, rank)
    {
        drop(window);
        return done(library, due);
    }
    flush_fully(function, rank, win)
}

#[inline(never)]
fn flush_fully(function: FuncId, rank: c_int, win: Win) -> c_int {
    on_win(function, win, "win", |library, window| library.process.flush_window(window, rank))
}

#[inline(always)]
pub(crate) fn win_lock(
    function: FuncId,
    lock_type: c_int,
    rank: c_int,
    assert: c_int,
    win: Win,
) -> c_int {
    if assert == 0
        && (lock_type == abi::MPI_LOCK_SHARED || lock_type == abi::MPI_LOCK_EXCLUSIVE)
        && let Some((library, window)) = at_hand(win)
        && library.process.lock_now(&window, lock_type == abi::MPI_LOCK_EXCLUSIVE, rank)
    {
        return abi::MPI_SUCCESS;
    }
    lock_fully(function, lock_type, rank, assert, win)
}

#[inline(never)]
fn lock_fully(function: FuncId, lock_type: c_int, rank: c_int, assert: c_int, win: Win) -> c_int {
    on_win(function, win, "win", |library, window| {
        library.process.lock_window(window, self::lock_type(lock_type)?, rank, assert)
    })
}

#[inline(always)]
pub(crate) fn win_unlock(function: FuncId, rank: c_int, win: Win) -> c_int {
    if let Some((library, window)) = at_hand(win)
        && let Some(due) = library.process.unlock_now(&window, rank)
    {
        drop(window);
        return done(library, due);
    }
    unlock_fully(function, rank, win)
}

#[inline(never)]
fn unlock_fully(function: FuncId, rank: c_int, win: Win) -> c_int {
    on_win(function, win, "win", |library, window| library.process.unlock_window(window, rank))
}

pub(crate) fn win_lock_all(library: &Running, assert: c_int, win: &WinArgument) -> Result<()> {
    library.process.lock_all_window(win, assert)
}

pub(crate) fn win_unlock_all(library: &Running, win: &WinArgument) -> Result<()> {
    library.process.unlock_all_window(win)
}

pub(crate) fn win_flush_all(library: &Running, win: &WinArgument) -> Result<()> {
    library.process.flush_all_window(win)
}

pub(crate) fn win_sync(library: &Running, win: &WinArgument) -> Result<()> {
    library.process.sync_window(win);
    Ok(())
}

pub(crate) fn win_fence(library: &Running, assert: c_int, win: &WinArgument) -> Result<()> {
    library.process.fence_window(win, assert)
}

pub(crate) fn win_start(
    library: &Running,
    group: Arc<Group>,
    assert: c_int,
    win: &WinArgument,
) -> Result<()> {
    library.process.start_window(win, &group, assert)
}

pub(crate) fn win_complete(library: &Running, win: &WinArgument) -> Result<()> {
    library.process.complete_window(win)
}

pub(crate) fn win_post(
    library: &Running,
    group: Arc<Group>,
    assert: c_int,
    win: &WinArgument,
) -> Result<()> {
    library.process.post_window(win, &group, assert)
}

pub(crate) fn win_wait(library: &Running, win: &WinArgument) -> Result<()> {
    library.process.wait_window(win)
}

pub(crate) fn win_test(library: &Running, win: &WinArgument) -> Result<bool> {
    library.process.test_window(win)
}
