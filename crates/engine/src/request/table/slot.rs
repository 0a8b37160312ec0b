//! The slot of one request in the table: its state and result.

use super::super::{Completion, NO_CONTEXT, PlainReceive, Received, Work};
use crate::matching::ANYBODY;
use oxmpi_mem::buffer::PlainBuf;
use oxmpi_sys::line::LINE_BYTES;

pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum SlotState {
    Free,
    Posted,
    Active,
    /// Complete, with the result `received`.
    Good,
    /// Complete, with the result `completion`.
    Complete,
}

/// `repr(C)` puts the fields of a plain receive into the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct RequestSlot {
    pub(super) generation: u32,
    pub(super) next_free: u32,
    pub(super) state: SlotState,
    pub(super) detached: bool,
    pub(super) plain: PlainReceive,
    pub(super) received: Received,
    pub(super) work: Work,
    pub(super) completion: Completion,
    pub(super) kept: usize,
    /// The buffer that the kept bytes belong to.
    pub(super) owner: u32,
}

const _: () = assert!(align_of::<RequestSlot>() == LINE_BYTES);
const _: () =
    assert!(std::mem::offset_of!(RequestSlot, received) + size_of::<Received>() <= LINE_BYTES);

impl RequestSlot {
    pub(super) const fn empty() -> RequestSlot {
        RequestSlot {
            generation: 0,
            state: SlotState::Free,
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

    pub(super) fn completed(&self) -> Option<Completion> {
        match self.state {
            SlotState::Good => Some(self.received.into()),
            SlotState::Complete => Some(self.completion),
            SlotState::Free | SlotState::Posted | SlotState::Active => None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, SlotState::Posted | SlotState::Active)
    }

    /// Whether the program has freed an active request. The engine itself detaches buffered sends.
    pub(super) fn is_freed(&self) -> bool {
        self.detached && self.kept == 0
    }

    pub(super) fn widen(&mut self) {
        if self.state == SlotState::Posted {
            self.state = SlotState::Active;
            self.work = Work::Receive(self.plain.into());
        }
    }
}
