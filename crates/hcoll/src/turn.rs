//! The turn: the right of a thread to be in HCOLL.
//!
//! 1. A thread is in HCOLL only with the turn: the *caller*, which runs collectives and has the
//!    lock of its process, or the *creator*, the thread that creates a context. There is at most
//!    one of each.
//! 2. The caller takes the turn if it is free, and else does other work: it never waits.
//! 3. The creator waits for the turn. When HCOLL calls for progress of messages ([`park`]), the
//!    creator releases the turn, sleeps until a message has ended, and waits for the turn again.
//!    HCOLL allows any call meanwhile.
//! 4. A callback on another thread than the creator's finds the turn taken by its own thread, and
//!    returns.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

struct TurnState {
    is_taken: bool,
    ended: u64,
}

static STATE: Mutex<TurnState> = Mutex::new(TurnState { is_taken: false, ended: 0 });
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// On the creator's thread: the value of `ended` at its last call.
    static SEEN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The longest sleep of the creator: HCOLL may wait for something other than messages.
const NAP: Duration = Duration::from_millis(1);

/// The turn of the thread that has it.
#[derive(Debug)]
pub struct HcollTurn(());

fn lock() -> MutexGuard<'static, TurnState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HcollTurn {
    /// Takes the turn as the caller, if it is free (rule 2).
    pub fn take() -> Option<HcollTurn> {
        let mut state = lock();
        let is_free = !state.is_taken;
        state.is_taken = true;
        // The closure makes the value only if it is returned: dropping it would release the turn of
        // the other thread.
        is_free.then(|| HcollTurn(()))
    }

    /// Makes this thread the creator, and waits for the turn (rule 3).
    pub(crate) fn wait_as_creator() -> HcollTurn {
        let state = wait(lock());
        SEEN.set(Some(state.ended));
        HcollTurn(())
    }
}

impl Drop for HcollTurn {
    fn drop(&mut self) {
        lock().is_taken = false;
        CHANGED.notify_all();
    }
}

fn wait(state: MutexGuard<'static, TurnState>) -> MutexGuard<'static, TurnState> {
    let is_taken = |state: &mut TurnState| state.is_taken;
    let mut state = CHANGED.wait_while(state, is_taken).unwrap_or_else(PoisonError::into_inner);
    state.is_taken = true;
    state
}

/// Counts the end of a message, and wakes the creator.
pub(crate) fn note_end() {
    lock().ended += 1;
    CHANGED.notify_all();
}

/// Called when HCOLL waits for messages (rules 3 and 4).
pub(crate) fn park() {
    let Some(seen) = SEEN.get() else { return };
    let mut state = lock();
    state.is_taken = false;
    CHANGED.notify_all();
    let is_idle = |state: &mut TurnState| state.ended == seen;
    let (state, _) =
        CHANGED.wait_timeout_while(state, NAP, is_idle).unwrap_or_else(PoisonError::into_inner);
    SEEN.set(Some(wait(state).ended));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_creator_releases_its_turn_while_it_waits_for_messages() {
        let caller = HcollTurn::take().unwrap();
        assert!(HcollTurn::take().is_none());
        // Rule 4.
        park();
        let creator = std::thread::spawn(|| {
            let turn = HcollTurn::wait_as_creator();
            for _ in 0..3 {
                park();
            }
            drop(turn);
        });
        drop(caller);
        let mut turns = 0;
        while !creator.is_finished() {
            turns += u32::from(HcollTurn::take().is_some());
            note_end();
        }
        creator.join().unwrap();
        assert!(turns > 0, "the caller has its turn meanwhile");
        assert!(HcollTurn::take().is_some());
    }
}
