//! The poller's set of sockets, which omits at most one peer.
//!
//! A write to a socket in an epoll(7) set also updates the set. This costs the writer time, and
//! more time if the processors are far apart. So the socket of a peer from which many messages have
//! come in a row is taken out of the set, and each poll reads it. It is put back before the process
//! sleeps, and as soon as something arrives from another peer. With several threads it stays in the
//! set: one thread may sleep while another one polls.

use super::{PEER, Tcp};
use oxmpi_sys::clock;

/// The number of successful reads in a row from one peer after which its socket is taken out.
const IN_A_ROW: u32 = 64;
/// The time after a poll of all descriptors during which only the peer that has sent last is
/// polled.
const LAST_ALONE_NS: u64 = 10_000;
/// The same for a peer out of the set that has sent something within [`RECENT_NS`].
const LONG_ALONE_NS: u64 = 100_000;
const RECENT_NS: u64 = 20_000;

/// The peer that has sent last. All times are in ticks.
#[derive(Debug)]
pub(super) struct RecentPeer {
    pub(super) last: Option<u32>,
    /// Successful reads from this peer in a row.
    in_a_row: u32,
    is_out: bool,
    came: u64,
    polled: u64,
    alone: u64,
    long_alone: u64,
    recent: u64,
}

impl RecentPeer {
    pub(super) fn new() -> RecentPeer {
        RecentPeer {
            last: None,
            in_a_row: 0,
            is_out: false,
            came: 0,
            polled: clock::ticks(),
            alone: clock::ticks_of_ns(LAST_ALONE_NS),
            long_alone: clock::ticks_of_ns(LONG_ALONE_NS),
            recent: clock::ticks_of_ns(RECENT_NS),
        }
    }

    pub(super) fn out(&self) -> Option<u32> {
        self.last.filter(|_| self.is_out)
    }

    pub(super) fn note_poll(&mut self) {
        self.polled = clock::ticks();
    }

    pub(super) fn was_polled_lately(&self) -> bool {
        let now = clock::ticks();
        let since = now.wrapping_sub(self.polled);
        since < self.alone
            || self.is_out && since < self.long_alone && now.wrapping_sub(self.came) < self.recent
    }
}

impl Tcp {
    pub(super) fn note_came(&mut self, at: u32) {
        if self.recent.last != Some(at) {
            self.watch_all();
            self.recent.last = Some(at);
        }
        let recent = &mut self.recent;
        recent.came = clock::ticks();
        recent.in_a_row = recent.in_a_row.saturating_add(1);
        if recent.in_a_row == IN_A_ROW
            && self.is_alone
            && let Some(Some(peer)) = self.peers.get(at as usize)
            && let Some(socket) = peer.state.connection()
            && !peer.wants_room
        {
            self.poller.remove(socket);
            self.recent.is_out = true;
        }
    }

    pub(super) fn watch_all(&mut self) {
        self.recent.in_a_row = 0;
        let out = self.recent.out();
        self.recent.is_out = false;
        if let Some(at) = out
            && let Some(Some(peer)) = self.peers.get(at as usize)
            && let Some(socket) = peer.state.connection()
            && let Err(error) = self.poller.add(socket, PEER | u64::from(at), peer.wants_room)
        {
            // Otherwise its data would stay unnoticed.
            self.connection_failed(at, &error.into());
        }
    }

    pub(super) fn forget_watched(&mut self, at: u32) {
        if self.recent.last == Some(at) {
            (self.recent.is_out, self.recent.in_a_row) = (false, 0);
        }
        // Bytes that were not processed count as not received.
        self.ahead.take(at);
    }
}
