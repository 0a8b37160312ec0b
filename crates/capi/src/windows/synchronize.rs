//! Epochs of windows (MPI-5.0 section 12.5).

use super::{at_hand, on_win};
use crate::library::{Running, null, put};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Group, Win};
use oxmpi_core::window::LockType;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;

fn lock_type(lock_type: c_int) -> Result<LockType> {
    match lock_type {
        abi::MPI_LOCK_EXCLUSIVE => Ok(LockType::Exclusive),
        abi::MPI_LOCK_SHARED => Ok(LockType::Shared),
        other => {
            let text =
                format!("lock_type is {other}; it must be MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED");
            Err(MpiError::new(abi::MPI_ERR_LOCKTYPE, text))
        }
    }
}

/// Completes the accesses to a target, also for the local form: completion at the target implies
/// local completion.
#[inline(always)]
fn flush(function: FuncId, rank: c_int, win: Win) -> c_int {
    if let Some((library, window)) = at_hand(win)
        && let Some(due) = library.process.flush_now(&window, rank)
    {
        drop(window);
        return done(library, due);
    }
    flush_fully(function, rank, win)
}

/// Ends a straight line, after which a poll may be due.
#[inline(always)]
fn done(library: &Running, poll_is_due: bool) -> c_int {
    if poll_is_due {
        library.process.look_now_and_then();
    }
    abi::MPI_SUCCESS
}

#[inline(never)]
fn flush_fully(function: FuncId, rank: c_int, win: Win) -> c_int {
    on_win(function, win, |library, window| library.process.flush_window(window, rank))
}

#[inline(never)]
fn lock_fully(lock_type: c_int, rank: c_int, assert: c_int, win: Win) -> c_int {
    on_win(FuncId::MPI_Win_lock, win, |library, window| {
        library.process.lock_window(window, self::lock_type(lock_type)?, rank, assert)
    })
}

#[inline(never)]
fn unlock_fully(rank: c_int, win: Win) -> c_int {
    on_win(FuncId::MPI_Win_unlock, win, |library, window| {
        library.process.unlock_window(window, rank)
    })
}

fn flush_all(function: FuncId, win: Win) -> c_int {
    on_win(function, win, |library, window| library.process.flush_all_window(window))
}

mpi! {
    /// Test: tests/c/win_fence.c.
    fn MPI_Win_fence(assert: c_int, win: Win) -> c_int {
        on_win(FuncId::MPI_Win_fence, win, |library, window| library.process.fence_window(window, assert))
    }

    /// Test: tests/c/win_pscw.c.
    fn MPI_Win_start(group: Group, assert: c_int, win: Win) -> c_int {
        on_win(FuncId::MPI_Win_start, win, |library, window| {
            library.process.start_window(window, &*library.group(group)?, assert)
        })
    }

    fn MPI_Win_complete(win: Win) -> c_int {
        on_win(FuncId::MPI_Win_complete, win, |library, window| library.process.complete_window(window))
    }

    fn MPI_Win_post(group: Group, assert: c_int, win: Win) -> c_int {
        on_win(FuncId::MPI_Win_post, win, |library, window| {
            library.process.post_window(window, &*library.group(group)?, assert)
        })
    }

    fn MPI_Win_wait(win: Win) -> c_int {
        on_win(FuncId::MPI_Win_wait, win, |library, window| library.process.wait_window(window))
    }

    fn MPI_Win_test(win: Win, flag: *mut c_int) -> c_int {
        on_win(FuncId::MPI_Win_test, win, |library, window| {
            if flag.is_null() {
                return Err(null("flag"));
            }
            let over = library.process.test_window(window)?;
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(flag, c_int::from(over), "flag") }
        })
    }

    /// Test: tests/c/win_lock.c.
    fn MPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: Win) -> c_int {
        if assert == 0
            && (lock_type == abi::MPI_LOCK_SHARED || lock_type == abi::MPI_LOCK_EXCLUSIVE)
            && let Some((library, window)) = at_hand(win)
            && library.process.lock_now(&window, lock_type == abi::MPI_LOCK_EXCLUSIVE, rank)
        {
            return abi::MPI_SUCCESS;
        }
        lock_fully(lock_type, rank, assert, win)
    }

    fn MPI_Win_lock_all(assert: c_int, win: Win) -> c_int {
        on_win(FuncId::MPI_Win_lock_all, win, |library, window| library.process.lock_all_window(window, assert))
    }

    fn MPI_Win_unlock(rank: c_int, win: Win) -> c_int {
        if let Some((library, window)) = at_hand(win)
            && let Some(due) = library.process.unlock_now(&window, rank)
        {
            drop(window);
            return done(library, due);
        }
        unlock_fully(rank, win)
    }

    fn MPI_Win_unlock_all(win: Win) -> c_int {
        on_win(FuncId::MPI_Win_unlock_all, win, |library, window| library.process.unlock_all_window(window))
    }

    fn MPI_Win_flush(rank: c_int, win: Win) -> c_int {
        flush(FuncId::MPI_Win_flush, rank, win)
    }

    fn MPI_Win_flush_all(win: Win) -> c_int {
        flush_all(FuncId::MPI_Win_flush_all, win)
    }

    fn MPI_Win_flush_local(rank: c_int, win: Win) -> c_int {
        flush(FuncId::MPI_Win_flush_local, rank, win)
    }

    fn MPI_Win_flush_local_all(win: Win) -> c_int {
        flush_all(FuncId::MPI_Win_flush_local_all, win)
    }

    fn MPI_Win_sync(win: Win) -> c_int {
        on_win(FuncId::MPI_Win_sync, win, |library, window| {
            library.process.sync_window(window);
            Ok(())
        })
    }
}
