//! What a tool wants to hear of: kept until whoever drives the lane takes it. Nothing is kept that nobody wants.

use crate::lane::Lane;
use std::collections::VecDeque;

/// Something that happened in a lane. Processes are named by their index, contexts by the lane's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A receive, or a matched probe, took a message that had come before it.
    UnexpectedMatched {
        /// The context of both.
        context: u32,
        /// The sender.
        from: u32,
        /// The message's tag.
        tag: i32,
        /// Its length.
        bytes: u64,
    },
    /// A long message was announced to its receiver.
    RendezvousSent {
        /// The context.
        context: u32,
        /// The receiver.
        to: u32,
        /// The message's tag.
        tag: i32,
        /// Its length.
        bytes: u64,
    },
    /// The receive of an announced message was found, and its data are got from now on.
    RendezvousReceived {
        /// The context.
        context: u32,
        /// The sender.
        from: u32,
        /// The message's tag.
        tag: i32,
        /// Its length.
        bytes: u64,
    },
    /// A process is lost.
    PeerLost {
        /// Its index.
        process: u32,
    },
}

impl Note {
    /// How many kinds there are.
    pub const KINDS: usize = 4;

    /// Its kind, a number below [`Note::KINDS`].
    pub const fn kind(&self) -> usize {
        match self {
            Note::UnexpectedMatched { .. } => 0,
            Note::RendezvousSent { .. } => 1,
            Note::RendezvousReceived { .. } => 2,
            Note::PeerLost { .. } => 3,
        }
    }
}

/// The most notes that wait at a time; what comes then is dropped, and counted.
const MOST: usize = 1024;

/// Notes that wait to be taken.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    is_wanted: bool,
    waiting: VecDeque<Note>,
    dropped: [u64; Note::KINDS],
    has_dropped: bool,
}

impl Notes {
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
    /// From now on notes are kept, or no longer; those that wait are then forgotten.
    pub fn want_notes(&mut self, want: bool) {
        self.state.notes = Notes { is_wanted: want, ..Notes::default() };
    }

    /// Whether notes wait, or were dropped.
    #[inline]
    pub fn has_notes(&self) -> bool {
        !self.state.notes.waiting.is_empty() || self.state.notes.has_dropped
    }

    /// Takes the notes that wait, the oldest first, and how many of each kind were dropped since the last time.
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
        let mut notes = Notes::default();
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
