//! Rest, partings and the end of a process (rules 5 and 6 of the module).

use super::Tcp;
use super::peer::{Bond, ConnectionState};
use std::time::Duration;

/// The longest wait of a process that ends for its peers' kernels to take its goodbyes.
const GOODBYE: Duration = Duration::from_secs(5);
const GOODBYE_CHECK: Duration = Duration::from_millis(1);

impl Tcp {
    /// Requests the peers' acknowledgements and sends the own ones
    /// ([`Membership::rest`](crate::Membership::rest)). Returns whether all needed records have
    /// arrived, and everything is written.
    pub(super) fn settle_all(&mut self) -> bool {
        let mut all = true;
        for at in 0..self.peers.len() as u32 {
            let Some(peer) = self.known(at) else { continue };
            peer.link.owe();
            // A resting peer may never read records that it does not need. A peer without a common
            // communicator does not have to acknowledge (rule 6), and may have ended.
            let is_free = peer.bond == Bond::None && peer.link.is_written();
            all &= is_free || !peer.has_unacknowledged_early();
            if !is_free && !peer.link.has_delivered() {
                all = false;
                self.ask(at);
            } else {
                self.write(at);
            }
            if let Some(peer) = self.known(at)
                && peer.state.connection().is_some()
                && !peer.is_broken
            {
                all &= peer.link.is_settled();
            }
        }
        all
    }

    fn ask(&mut self, at: u32) {
        let Some(peer) = self.known(at) else { return };
        peer.link.ask();
        match peer.state {
            ConnectionState::Apart => self.connect(at),
            _ => self.write(at),
        }
    }

    pub(super) fn settle_with(&mut self, at: u32) -> bool {
        let Some(peer) = self.known(at) else { return true };
        peer.bond = Bond::Ending;
        if !peer.link.has_delivered() {
            self.ask(at);
        }
        self.known(at).is_none_or(|peer| {
            peer.link.has_delivered() && !peer.has_unacknowledged_early()
                || matches!(peer.state, ConnectionState::Left | ConnectionState::Lost(_))
        })
    }

    pub(super) fn detach_from(&mut self, at: u32) {
        let Some(peer) = self.known(at) else { return };
        peer.bond = Bond::None;
        // This process may not read its sockets again for a long time.
        peer.link.owe();
        self.write(at);
    }

    /// Sends a goodbye to all peers when all records are acknowledged (rule 5). Returns success.
    pub(super) fn say_goodbye(&mut self) -> bool {
        let now = self.now();
        let Some(since) = self.leaving else {
            let mut is_acknowledged = true;
            for at in 0..self.peers.len() as u32 {
                let Some(peer) = self.known(at) else { continue };
                if peer.bond == Bond::None && peer.link.is_settled() {
                    continue;
                }
                is_acknowledged &= !peer.has_unacknowledged_early();
                if !peer.link.is_acknowledged() {
                    is_acknowledged = false;
                    self.ask(at);
                }
            }
            if is_acknowledged {
                self.leaving = Some(now);
                self.stop_listening();
                for at in 0..self.peers.len() as u32 {
                    if let Some(peer) = self.known(at)
                        && peer.state.connection().is_some()
                    {
                        peer.link.say_bye();
                        self.write(at);
                    }
                }
                return self.say_goodbye();
            }
            return false;
        };
        let is_late = now.saturating_sub(since) > GOODBYE;
        let mut all = true;
        for at in 0..self.peers.len() as u32 {
            all &= self.has_parted(at, is_late);
        }
        if !all {
            self.wake_at(now + GOODBYE_CHECK);
        }
        all
    }

    /// Whether a peer's kernel has the goodbye, or the peer needs none.
    fn has_parted(&mut self, at: u32, is_late: bool) -> bool {
        let Some(peer) = self.known(at) else { return true };
        let Some(socket) = peer.state.connection() else {
            // The peer does not wait; its next attempt to connect fails.
            self.end_connection(at, ConnectionState::Left);
            return true;
        };
        let has_it = peer.link.is_written() && socket.unsent().is_ok_and(|bytes| bytes == 0);
        if has_it || is_late || peer.is_broken {
            socket.finish();
            self.end_connection(at, ConnectionState::Left);
            return true;
        }
        false
    }
}
