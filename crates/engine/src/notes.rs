//! Events for tools, recorded only if a tool wants them, until the owner of the lane takes them.

use crate::lane::Lane;
use std::collections::VecDeque;

/// An event in a lane. Processes and contexts are named by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A receive or a matched probe took a message that had arrived before it.
    UnexpectedMatched {
        context: u32,
        from: u32,
        tag: i32,
        bytes: u64,
    },
    /// A long message was announced to its receiver.
    RendezvousSent {
        context: u32,
        to: u32,
        tag: i32,
        bytes: u64,
    },
    /// A receive matched an announced message, whose transfer begins.
    RendezvousReceived {
        context: u32,
        from: u32,
        tag: i32,
        bytes: u64,
    },
    PeerLost {
        process: u32,
    },
}

impl Note {
    pub const KINDS: usize = 4;

    /// A number below [`Note::KINDS`].
    pub const fn kind(&self) -> usize {
        match self {
            Note::UnexpectedMatched { .. } => 0,
            Note::RendezvousSent { .. } => 1,
            Note::RendezvousReceived { .. } => 2,
            Note::PeerLost { .. } => 3,
        }
    }
}

/// When this number of notes waits, new ones are dropped and counted.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct NoteQueue {
    is_wanted: bool,
    waiting: VecDeque<Note>,
    dropped: [u64; Note::KINDS],
    has_dropped: bool,
}

impl NoteQueue {
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    #[inline]
    pub(crate) fn push(&mut self, note: Note) {
        if self.is_wanted {
            self.keep(note);
        }
    }

    #[cold]
    fn keep(&mut self, note: Note) {
        if self.waiting.len() < MOST {
            self.waiting.push_back(note);
        } else {
            self.dropped[note.kind()] += 1;
            self.has_dropped = true;
        }
    }
}

impl<F> Lane<F> {
    /// Begins or ends the recording of notes, and drops waiting notes.
    pub fn want_notes(&mut self, want: bool) {
        self.state.notes = NoteQueue { is_wanted: want, ..NoteQueue::default() };
    }

    /// Whether notes wait, or were dropped.
    #[inline]
    pub fn has_notes(&self) -> bool {
        !self.state.notes.waiting.is_empty() || self.state.notes.has_dropped
    }

    /// Takes the waiting notes, oldest first, and the number of dropped notes of each kind since
    /// the last call.
    pub fn take_notes(&mut self) -> (VecDeque<Note>, [u64; Note::KINDS]) {
        let notes = &mut self.state.notes;
        notes.has_dropped = false;
        (std::mem::take(&mut notes.waiting), std::mem::take(&mut notes.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_unasked_and_too_much_is_counted() {
        let mut notes = NoteQueue::default();
        notes.push(Note::PeerLost { process: 1 });
        assert!(notes.waiting.is_empty());
        notes.is_wanted = true;
        for process in 0..MOST as u32 + 3 {
            notes.push(Note::PeerLost { process });
        }
        assert_eq!((notes.waiting.len(), notes.dropped), (MOST, [0, 0, 0, 3]));
        assert_eq!(notes.waiting.front(), Some(&Note::PeerLost { process: 0 }));
    }
}
