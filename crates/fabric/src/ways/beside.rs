//! Peers whose messages come over sockets though they share memory with this process: the transport is what carries messages,
//! and what collectives do in the memory of a host is another matter.
//!
//! Only those of the own job count: of others nobody knows for sure whether their descriptors can be rung.

use super::Ways;
use super::far::Sockets;
use std::ops::Range;

/// Who they are.
#[derive(Debug)]
pub(super) struct Beside {
    job: Range<u32>,
}

impl Beside {
    /// Whether a peer is one of them. All processes of the job say the same of two of theirs.
    pub(super) fn has(&self, peer: u32, sockets: Option<&mut Sockets>) -> bool {
        self.job.contains(&peer) && sockets.is_none_or(|sockets| sockets.is_beside(peer))
    }
}

impl Ways {
    /// The same, of which the processes `job` use the control sections of their host, although sockets carry their messages.
    /// Their bells raise alarms ([`Shm::with_alarms`](crate::shm::Shm::with_alarms)).
    #[must_use]
    pub fn with_sections_of(self, job: Range<u32>) -> Ways {
        Ways { beside: Some(Beside { job }), ..self }
    }

    /// Whether a peer has this process's memory for control sections, though messages go to it over sockets.
    pub(super) fn is_beside(&mut self, peer: u32) -> bool {
        let sockets = self.others.as_mut().and_then(|others| others.sockets.as_mut());
        self.beside.as_ref().is_some_and(|beside| beside.has(peer, sockets))
    }
}
