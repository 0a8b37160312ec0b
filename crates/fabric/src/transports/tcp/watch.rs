//! Connections that a tool wants to hear of.

use crate::Connected;

/// The most connections that are noted at a time.
const MOST: usize = 1024;

/// Connections that were made since somebody asked. Nothing is noted that nobody wants.
#[derive(Debug, Default)]
pub(super) struct Watch {
    is_wanted: bool,
    noted: Vec<Connected>,
    dropped: u64,
}

impl Watch {
    /// Notes connections from now on, or does not.
    pub(super) fn new(is_wanted: bool) -> Watch {
        Watch { is_wanted, ..Watch::default() }
    }

    /// A connection was made.
    pub(super) fn note(&mut self, connected: Connected) {
        if self.is_wanted && self.noted.len() < MOST {
            self.noted.push(connected);
        } else if self.is_wanted {
            self.dropped += 1;
        }
    }

    /// Takes what was noted, and how many more there were.
    pub(super) fn take(&mut self) -> (Vec<Connected>, u64) {
        (std::mem::take(&mut self.noted), std::mem::take(&mut self.dropped))
    }
}
