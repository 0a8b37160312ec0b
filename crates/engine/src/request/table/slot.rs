//! The place of one request in the table: how far the request is, and what it says.

use super::super::{Completion, NO_CONTEXT, PlainReceive, Received, Work};
use crate::matching::ANYBODY;
use oxmpi_mem::buffer::PlainBuf;
use oxmpi_sys::line::LINE_BYTES;

pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum State {
    Free,
    /// A posted receive, of which `plain` says all.
    Posted,
    /// It goes on, as `work` says.
    Active,
    /// Complete, and `received` is all there is to say.
    Good,
    /// Complete, with a `completion`.
    Complete,
}

/// In the order in which it is written here, so that all that a plain receive needs lies in the first line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Slot {
    pub(super) generation: u32,
    pub(super) next_free: u32,
    pub(super) state: State,
    /// Nobody will ask: free it as soon as it is complete.
    pub(super) detached: bool,
    pub(super) plain: PlainReceive,
    pub(super) received: Received,
    pub(super) work: Work,
    pub(super) completion: Completion,
    /// Packed bytes kept for a buffered send.
    pub(super) kept: usize,
    /// The buffer in which they count.
    pub(super) owner: u32,
}

const _: () = assert!(align_of::<Slot>() == LINE_BYTES);
const _: () = assert!(std::mem::offset_of!(Slot, received) + size_of::<Received>() <= LINE_BYTES);

impl Slot {
    pub(super) const fn empty() -> Slot {
        Slot {
            generation: 0,
            state: State::Free,
            detached: false,
            next_free: NONE,
            plain: PlainReceive { into: PlainBuf::EMPTY, context: NO_CONTEXT, from: ANYBODY },
            received: Received::NOTHING,
            work: Work::None,
            completion: Completion::EMPTY,
            kept: 0,
            owner: NO_CONTEXT,
        }
    }

    /// What it says if it is complete.
    pub(super) fn completed(&self) -> Option<Completion> {
        match self.state {
            State::Good => Some(self.received.into()),
            State::Complete => Some(self.completion),
            State::Free | State::Posted | State::Active => None,
        }
    }

    /// Whether it goes on.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Posted | State::Active)
    }

    /// Whether it goes on, but whoever started it has let go of it: nobody has a right to ask. (A buffered send is let
    /// go of by the engine itself.)
    pub(super) fn is_freed(&self) -> bool {
        self.detached && self.kept == 0
    }

    /// Makes a plain receive one that can keep more.
    pub(super) fn widen(&mut self) {
        if self.state == State::Posted {
            self.state = State::Active;
            self.work = Work::Receive(self.plain.into());
        }
    }
}
