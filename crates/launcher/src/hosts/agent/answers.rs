//! Requests of an agent's ranks: answered here if they are about this host, otherwise forwarded to
//! the head.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use oxmpi_sys::fdpass;
use rustix::event::epoll;

use super::Agent;
use crate::launch::parts::{INCARNATION, Reach, give_abroad, plug_whereabouts, reach_abroad};
use oxmpi_rt_client::control::{MAX_MESSAGE, Reply, Request};
use oxmpi_rt_client::{blob, codec};
use oxmpi_rt_proto::agent::FromAgent;

impl Agent<'_> {
    /// Handles one message of a rank; returns whether there may be more.
    pub(super) fn control_once(&mut self, rank: u32) -> bool {
        let Some(socket) = self.members.get(&rank).map(|member| &member.rank.control) else {
            return false;
        };
        let mut bytes = [0; MAX_MESSAGE];
        let (n, came) = match fdpass::receive(socket, &mut bytes) {
            Ok((0, _)) => {
                let _ = epoll::delete(&self.events, socket);
                return false;
            }
            Ok(got) => got,
            Err(_) => return false,
        };
        match Request::decode(&bytes[..n]) {
            Ok(request) => self.handle_request(rank, &request, &bytes[..n], came),
            Err(error) => {
                let text = format!("mpirun: rank {rank}: {error}\n");
                self.post(&FromAgent::Text { text });
            }
        }
        true
    }

    fn handle_request(
        &mut self,
        rank: u32,
        request: &Request,
        bytes: &[u8],
        came: Option<OwnedFd>,
    ) {
        match *request {
            Request::Segment { rank: wanted } => {
                let member = self.members.get(&wanted);
                let relic = self.relics.get(&wanted).and_then(|relic| relic.segment.as_ref());
                let fd = member.map(|member| &member.rank.segment_fd).or(relic);
                let fd = fd.and_then(|fd| fd.try_clone().ok());
                let reply = match fd {
                    Some(_) => Reply::Segment { rank: wanted, contact: None },
                    None => elsewhere(wanted),
                };
                self.answer(rank, &reply, fd.as_ref().map(AsFd::as_fd));
            }
            Request::Alarm { rank: wanted } => {
                let plug = self.members.get(&wanted).and_then(|member| member.plug.as_ref());
                let fd = plug.and_then(|plug| plug.alarm.try_clone().ok());
                let reply = match fd {
                    Some(_) => Reply::Alarm { rank: wanted },
                    None => elsewhere(wanted),
                };
                self.answer(rank, &reply, fd.as_ref().map(AsFd::as_fd));
            }
            Request::Listener => {
                let plug = self.members.get_mut(&rank).and_then(|member| member.plug.as_mut());
                let listener = plug.and_then(|plug| plug.listener.take());
                let reply = Reply::listener(rank, listener.is_some(), (INCARNATION, &self.secret));
                self.answer(rank, &reply, listener.as_ref().map(AsFd::as_fd));
            }
            Request::Abroad => self.give_abroad(rank),
            Request::Relay => self.give_relay(rank),
            Request::Postboxes => {
                let member = self.members.get(&rank).map(|member| &member.rank);
                let place = member.map_or(0, |rank| rank.segment.boot().local_rank);
                let file = member.and_then(|rank| rank.postboxes.clone());
                let reply = match &file {
                    Some(file) => file.reply(place),
                    None => Reply::Refused { rank, reason: "its job has no postboxes".into() },
                };
                self.answer(rank, &reply, file.as_ref().map(|file| file.fd.as_fd()));
            }
            Request::Addresses { rank: wanted }
                if self.members.contains_key(&wanted) || self.relics.contains_key(&wanted) =>
            {
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
                self.pass_answer(rank, &Reply::Given.encode(), Some(nodes));
            }
            _ => {
                let seen = self.members.get(&rank).map(|member| member.seen()).unwrap_or_default();
                self.sent.insert(rank, seen);
                match came.map(blob::read).transpose() {
                    Ok(blob) => {
                        let request = bytes.to_vec();
                        self.post(&FromAgent::Request { rank, request, blob, seen });
                    }
                    Err(error) => {
                        let reason = format!("the file beside the message cannot be read: {error}");
                        self.answer(rank, &Reply::Refused { rank, reason }, None);
                    }
                }
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
        match self.members.get(&wanted) {
            Some(member) => plug_whereabouts(
                wanted,
                (&member.rank, is_far),
                member.plug.as_ref(),
                member.running,
            ),
            None => match self.relics.get(&wanted) {
                Some(relic) if relic.has_left => Reply::Left { rank: wanted },
                Some(_) => Reply::Refused { rank: wanted, reason: "its process has ended".into() },
                None => elsewhere(wanted),
            },
        }
    }

    /// Makes a rank reachable from other hosts. If all ranks of its job are on this host, only
    /// processes of other launchers need this, and the rank may not know of it.
    fn reach_member_abroad(&mut self, wanted: u32, notifies: bool) -> Result<(), String> {
        let (Some(launch), Some(member)) = (&self.launch, self.members.get_mut(&wanted)) else {
            return Ok(());
        };
        // If all ranks of the job are on this host, they listen on the loopback only, if at all.
        let own = match member.rank.segment.boot().node {
            None if self.restored.is_empty() => Reach::Loopback,
            None => Reach::Networks,
            Some(_) => Reach::Networks,
        };
        if !member.running {
            return Ok(());
        }
        reach_abroad(
            (&member.rank.segment, &mut member.plug),
            launch,
            (own, Reach::Networks),
            notifies,
        )
    }

    fn give_abroad(&mut self, rank: u32) {
        if let Err(reason) = self.reach_member_abroad(rank, false) {
            return self.answer(rank, &Reply::Refused { rank, reason }, None);
        }
        let plug = self.members.get_mut(&rank).and_then(|member| member.plug.as_mut());
        let (reply, listener) = give_abroad(rank, plug, &self.secret);
        self.answer(rank, &reply, listener.as_ref().map(AsFd::as_fd));
    }

    pub(super) fn pass_answer(&mut self, rank: u32, reply: &[u8], contents: Option<Vec<u8>>) {
        if let Ok(Reply::Addresses { rank: wanted, addresses, contact: None }) =
            Reply::decode(reply)
        {
            // Its other ranks need not request the same.
            self.answered.insert((rank, wanted));
            self.addresses.insert(wanted, addresses);
        }
        let Some(member) = self.members.get(&rank) else { return };
        match contents.map(|bytes| blob::write(&bytes)).transpose() {
            // A process that sends requests without reading the answers loses them.
            Ok(fd) => _ = fdpass::send(&member.rank.control, reply, fd.as_ref().map(AsFd::as_fd)),
            Err(error) => {
                self.answer(rank, &Reply::Refused { rank, reason: error.to_string() }, None)
            }
        }
    }

    pub(super) fn answer(&self, rank: u32, reply: &Reply, fd: Option<BorrowedFd<'_>>) {
        if let Some(member) = self.members.get(&rank) {
            let _ = fdpass::send(&member.rank.control, &reply.encode(), fd);
        }
    }
}

fn elsewhere(rank: u32) -> Reply {
    Reply::Refused { rank, reason: "it is not on this host".to_string() }
}
