//! Requests of an agent's ranks: answered here if they are about this host, otherwise forwarded to
//! the head.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::Agent;
use crate::host::ranks::LocalRank;
use crate::launch::parts::{INCARNATION, Reach};
use oxmpi_rt_client::control::{Reply, Request};
use oxmpi_rt_client::{blob, codec};
use oxmpi_rt_proto::agent::FromAgent;

impl Agent<'_> {
    pub(super) fn handle_request(&mut self, rank: u32, request: Request, came: Option<OwnedFd>) {
        let identity = (INCARNATION, &self.secret);
        if let Some((reply, fd)) = self.host.answer_to(rank, &request, identity) {
            return self.answer(rank, &reply, fd.as_ref().map(AsFd::as_fd));
        }
        match request {
            Request::Segment { rank: wanted } | Request::Alarm { rank: wanted } => {
                self.answer(rank, &elsewhere(wanted), None);
            }
            Request::Abroad => self.give_abroad(rank),
            Request::Addresses { rank: wanted } if self.host.ranks.knows(wanted) => {
                let reply = self.whereabouts(wanted, false);
                self.answer(rank, &reply, None);
            }
            Request::Addresses { rank: wanted } if self.knows_address(rank, wanted) => {
                let addresses = self.addresses.get(&wanted).cloned().unwrap_or_default();
                let reply = Reply::Addresses { rank: wanted, addresses, contact: None };
                self.answer(rank, &reply, None);
            }
            Request::Nodes { from } if (from as usize) < self.nodes.len() => {
                let nodes = codec::encode(&self.nodes[from as usize..].to_vec());
                self.pass_answer(rank, Reply::Given, Some(nodes));
            }
            request => self.forward(rank, request, came),
        }
    }

    /// Sends a request to the head.
    fn forward(&mut self, rank: u32, request: Request, came: Option<OwnedFd>) {
        let seen = self.host.ranks.get(rank).map(LocalRank::seen).unwrap_or_default();
        self.sent.insert(rank, seen);
        match came.map(blob::read).transpose() {
            Ok(blob) => self.post(&FromAgent::Request { rank, request, blob, seen }),
            Err(error) => {
                let reason = format!("the file with the message cannot be read: {error}");
                self.answer(rank, &Reply::Refused { rank, reason }, None);
            }
        }
    }

    /// Whether this agent answers a rank's request for the addresses of another host's rank.
    fn knows_address(&mut self, rank: u32, wanted: u32) -> bool {
        self.addresses.contains_key(&wanted) && self.answered.insert((rank, wanted))
    }

    /// The socket addresses of a rank of this host; `is_far`: for a process of another host.
    pub(super) fn whereabouts(&mut self, wanted: u32, is_far: bool) -> Reply {
        if is_far && let Err(reason) = self.reach_member_abroad(wanted, true) {
            return Reply::Refused { rank: wanted, reason };
        }
        self.host.ranks.whereabouts(wanted, is_far).unwrap_or_else(|| elsewhere(wanted))
    }

    /// Makes a rank reachable from other hosts. If all ranks of its job are on this host, only
    /// processes of other launchers need this, and the rank may not know of it.
    fn reach_member_abroad(&mut self, wanted: u32, notifies: bool) -> Result<(), String> {
        let Some(one) = self.host.ranks.get(wanted) else { return Ok(()) };
        // If all ranks of the job are on this host, they listen on the loopback only, if at all.
        let own = match one.rank.segment.boot().node {
            None if self.restored.is_empty() => Reach::Loopback,
            None | Some(_) => Reach::Networks,
        };
        self.host.widen(wanted, (own, Reach::Networks), notifies)
    }

    fn give_abroad(&mut self, rank: u32) {
        if let Err(reason) = self.reach_member_abroad(rank, false) {
            return self.answer(rank, &Reply::Refused { rank, reason }, None);
        }
        let (reply, listener) = self.host.ranks.give_abroad(rank, &self.secret);
        self.answer(rank, &reply, listener.as_ref().map(AsFd::as_fd));
    }

    pub(super) fn pass_answer(&mut self, rank: u32, reply: Reply, contents: Option<Vec<u8>>) {
        if let Reply::Addresses { rank: wanted, addresses, contact: None } = &reply {
            // Its other ranks need not request the same.
            self.answered.insert((rank, *wanted));
            self.addresses.insert(*wanted, addresses.clone());
        }
        match contents.map(|bytes| blob::write(&bytes)).transpose() {
            Ok(fd) => self.answer(rank, &reply, fd.as_ref().map(AsFd::as_fd)),
            Err(error) => {
                self.answer(rank, &Reply::Refused { rank, reason: error.to_string() }, None)
            }
        }
    }

    pub(super) fn answer(&self, rank: u32, reply: &Reply, fd: Option<BorrowedFd<'_>>) {
        self.host.ranks.answer(rank, &reply.encode(), fd);
    }
}

fn elsewhere(rank: u32) -> Reply {
    Reply::Refused { rank, reason: "it is not on this host".to_string() }
}
