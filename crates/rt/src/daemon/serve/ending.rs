//! How a daemon ends: when its user wants all to end, when another passes that on, or by a signal.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::message::Message;
use super::{Connection, Daemon, Role};

/// How long the other daemons have to end.
const HALT_LIMIT: Duration = Duration::from_secs(15);
/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// How it comes to an end.
pub(super) struct Ending {
    /// Who wants to know of the end of all.
    pub(super) clients: Vec<u64>,
    /// The daemons that want to know of the end of this one.
    peers: Vec<u64>,
    /// Those that have not yet said that they end.
    pub(super) waiting: BTreeSet<u32>,
    /// Those that did not say so.
    pub(super) missing: BTreeSet<u32>,
    pub(super) limit: Instant,
}

impl Daemon {
    /// A program wants the universe to end.
    pub(super) fn halt_all(&mut self, client: u64) {
        let mut waiting = BTreeSet::new();
        if self.ending.is_none() {
            let links: Vec<(u32, u64)> =
                (0..).zip(&self.peers).filter_map(|(n, p)| Some((n, p.link?))).collect();
            for (node, link) in links {
                self.tell(link, &Message::Halt);
                if self.connections.contains_key(&link) {
                    waiting.insert(node);
                }
            }
        }
        self.end();
        let (own, peers) = (self.seed.node, self.peers.len() as u32);
        if let Some(ending) = &mut self.ending {
            ending.missing.extend((0..peers).filter(|node| *node != own && !waiting.contains(node)));
            ending.waiting.extend(waiting);
            ending.clients.push(client);
        }
    }

    /// Another daemon wants this one to end, or has ended itself.
    pub(super) fn halt_from(&mut self, number: u64) {
        let Some(Connection { role: Role::Peer(node), .. }) = self.connections.get(&number) else { return };
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

    /// Begins to end this daemon.
    pub(super) fn end(&mut self) {
        if self.ending.is_some() {
            return;
        }
        if let Some((_, programs)) = &mut self.background {
            programs.end(None);
        }
        self.ending = Some(Ending {
            clients: Vec::new(),
            peers: Vec::new(),
            waiting: BTreeSet::new(),
            missing: BTreeSet::new(),
            limit: Instant::now() + HALT_LIMIT,
        });
    }

    /// Whether nothing is left to wait for.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_quiet = self.background.as_ref().is_none_or(|(_, programs)| programs.is_empty());
        self.ending
            .as_ref()
            .is_some_and(|ending| (is_quiet && ending.waiting.is_empty()) || ending.limit <= now)
    }

    /// Says farewell, when its programs have ended.
    pub(super) fn finish(&mut self) {
        if let Some((_, programs)) = self.background.take() {
            programs.finish();
        }
        // Who hears of the end may boot another at once: the name is free by then.
        self.door = None;
        let Some(ending) = self.ending.take() else { return };
        let missing = ending.missing.iter().chain(&ending.waiting).copied().collect();
        ending
            .clients
            .iter()
            .for_each(|client| self.tell(*client, &Message::Halted { missing: Vec::clone(&missing) }));
        ending.peers.iter().for_each(|peer| self.tell(*peer, &Message::Halt));
        let limit = Instant::now() + FAREWELL;
        let mut ready = Vec::new();
        // What its programs have written goes, too.
        while (!self.pass_last() || self.connections.values().any(|connection| connection.is_full))
            && Instant::now() < limit
        {
            self.poller.wait(Some(limit.saturating_duration_since(Instant::now())));
            self.poller.look(&mut ready);
            ready.iter().filter(|ready| ready.writable).for_each(|ready| self.flush(ready.name));
        }
    }
}
