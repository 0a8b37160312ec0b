//! The end of a daemon: on the user's request, on another daemon's, or by a signal.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tracing::info;

use super::{Daemon, DaemonConnection, Role};
use oxmpi_rt_proto::daemon::DaemonMessage;

const HALT_LIMIT: Duration = Duration::from_secs(15);
const FAREWELL: Duration = Duration::from_secs(2);

pub(super) struct HaltState {
    /// Clients that wait for the end of all daemons.
    pub(super) clients: Vec<u64>,
    /// Daemons that wait for the end of this one.
    peers: Vec<u64>,
    pub(super) waiting: BTreeSet<u32>,
    pub(super) missing: BTreeSet<u32>,
    pub(super) limit: Instant,
}

impl Daemon {
    pub(super) fn halt_all(&mut self, client: u64) {
        let mut waiting = BTreeSet::new();
        if self.ending.is_none() {
            let links: Vec<(u32, u64)> =
                (0..).zip(&self.peers).filter_map(|(n, p)| Some((n, p.link?))).collect();
            for (node, link) in links {
                self.send(link, &DaemonMessage::Halt);
                if self.connections.contains_key(&link) {
                    waiting.insert(node);
                }
            }
        }
        self.end();
        let (own, peers) = (self.seed.node, self.peers.len() as u32);
        if let Some(ending) = &mut self.ending {
            ending
                .missing
                .extend((0..peers).filter(|node| *node != own && !waiting.contains(node)));
            ending.waiting.extend(waiting);
            ending.clients.push(client);
        }
    }

    /// Another daemon requests the end of this one, or has ended itself.
    pub(super) fn halt_from(&mut self, number: u64) {
        let Some(DaemonConnection { role: Role::Peer(node), .. }) = self.connections.get(&number)
        else {
            return;
        };
        let node = *node;
        if let Some(ending) = &mut self.ending
            && ending.waiting.remove(&node)
        {
            return;
        }
        self.end();
        if let Some(ending) = &mut self.ending {
            ending.peers.push(number);
        }
    }

    pub(super) fn end(&mut self) {
        if self.ending.is_some() {
            return;
        }
        info!("ending all programs");
        if let Some((_, programs)) = &mut self.background {
            programs.end(None);
        }
        self.ending = Some(HaltState {
            clients: Vec::new(),
            peers: Vec::new(),
            waiting: BTreeSet::new(),
            missing: BTreeSet::new(),
            limit: Instant::now() + HALT_LIMIT,
        });
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_quiet = self.background.as_ref().is_none_or(|(_, programs)| programs.is_empty());
        self.ending
            .as_ref()
            .is_some_and(|ending| (is_quiet && ending.waiting.is_empty()) || ending.limit <= now)
    }

    pub(super) fn finish(&mut self) {
        if let Some((_, programs)) = self.background.take() {
            programs.finish();
        }
        // The name is free before a client learns of the end, as the client may boot again at once.
        self.door = None;
        let Some(ending) = self.ending.take() else { return };
        let missing = ending.missing.iter().chain(&ending.waiting).copied().collect();
        ending.clients.iter().for_each(|client| {
            self.send(*client, &DaemonMessage::Halted { missing: Vec::clone(&missing) })
        });
        ending.peers.iter().for_each(|peer| self.send(*peer, &DaemonMessage::Halt));
        let limit = Instant::now() + FAREWELL;
        let mut ready = Vec::new();
        while (!self.pass_last() || self.connections.values().any(|connection| connection.is_full))
            && Instant::now() < limit
        {
            self.poller.wait(Some(limit.saturating_duration_since(Instant::now())));
            self.poller.look(&mut ready);
            ready.iter().filter(|ready| ready.writable).for_each(|ready| self.flush(ready.name));
        }
    }
}
