//! The launcher's answers to what processes ask and say over their control sockets.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use oxmpi_os::fdpass;
use oxmpi_os::segment::RankState;
use rustix::event::epoll;

use super::launcher::Launcher;
use crate::blob;
use crate::client::to_hex;
use crate::control::{MAX_MESSAGE, Reply, Request};
use crate::job::Event;
use crate::ports::{Going, Ticket};
use crate::universe::{Parent, Spawn, decode_words, encode_words};

/// How often each rank has been started, this time included.
const INCARNATION: u32 = 1;

impl Launcher<'_> {
    /// Answers one message of a process. Returns whether there may be more.
    pub(super) fn control_once(&mut self, rank: u32) -> bool {
        let Some(socket) = self.rank(rank).map(|rank| &rank.control) else { return false };
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
            Ok(request) => self.heed(rank, request, came),
            Err(error) => self.tell(Event::Say { text: format!("{}: {error}", self.job.name(rank)) }),
        }
        true
    }

    fn heed(&mut self, rank: u32, request: Request, came: Option<OwnedFd>) {
        match request {
            Request::Segment { rank: wanted } => {
                let member = self.members.get(wanted as usize);
                let fd = member.and_then(|m| m.rank.as_ref().map(|r| &r.segment_fd).or(m.relic.as_ref()));
                let reply = match fd {
                    Some(_) => Reply::Segment { rank: wanted },
                    None => Reply::Refused { rank: wanted, reason: self.why_gone(wanted) },
                };
                self.answer(rank, &reply, fd.map(AsFd::as_fd));
            }
            Request::Listener => self.give_listener(rank),
            Request::Addresses { rank: wanted } => self.answer(rank, &self.whereabouts(wanted), None),
            Request::Spawn => {
                let spawn = contents(came).and_then(|bytes| Spawn::decode(&bytes).ok_or_else(nonsense));
                let spawned = spawn.and_then(|spawn| self.spawn(rank, spawn));
                self.conclude(rank, spawned.map(|(first, size)| (first, size.to_string())));
            }
            Request::Parent => match self.parents.get(self.job.world_of(rank)) {
                Some(Some(parent)) => self.give(rank, &Parent::encode(parent)),
                _ => self.conclude(rank, Err("nobody has spawned it".into())),
            },
            Request::Bound { bond } => match contents(came) {
                Ok(bytes) => {
                    let members = decode_words(&bytes).into_iter().map(|word| word as u32).collect();
                    self.tell(Event::Bound { rank, bond, members });
                }
                Err(text) => self.tell(Event::Say { text }),
            },
            Request::Bond { bond } => {
                let is_over = !self.job.is_bound(bond);
                self.conclude(rank, Ok((is_over.into(), String::new())));
            }
            Request::Released { bond } => self.tell(Event::Released { rank, bond }),
            Request::OpenPort => {
                let prefix = self.port_prefix();
                let name = self.ports.open(rank, &prefix);
                self.conclude(rank, Ok((0, name)));
            }
            Request::ClosePort { port } => {
                let closed = self.ports.close(rank, &port);
                self.conclude(rank, closed.map(|()| (0, String::new())));
            }
            Request::Meet { accepts, port } => {
                let words = self.check_port(&port).and_then(|()| contents(came));
                let going = words.and_then(|words| self.ports.go(rank, accepts, &port, words));
                match going {
                    Ok(Going::Meets(words)) => self.give(rank, &words),
                    Ok(Going::Waits(ticket)) => self.conclude(rank, Ok((ticket, String::new()))),
                    Err(reason) => self.conclude(rank, Err(reason)),
                }
            }
            Request::Ticket { ticket } => self.show_ticket(rank, ticket, false),
            Request::GiveBack { ticket } => self.show_ticket(rank, ticket, true),
            Request::Publish { port, service } => {
                let done = self.ports.publish(rank, &service, &port);
                self.conclude(rank, done.map(|()| (0, String::new())));
            }
            Request::Unpublish { port, service } => {
                let done = self.ports.unpublish(&service, &port);
                self.conclude(rank, done.map(|()| (0, String::new())));
            }
            Request::LookUp { service } => {
                let found = self.ports.look_up(&service).map(|port| (0, port.to_string()));
                self.conclude(rank, found);
            }
            Request::Death { number } => {
                let reply = match self.deaths.get(number as usize) {
                    Some(process) => Reply::Death { process: *process },
                    None => {
                        let reason = format!("{} processes have died", self.deaths.len());
                        Reply::Refused { rank, reason }
                    }
                };
                self.answer(rank, &reply, None);
            }
            Request::Alarm { rank: wanted } => {
                let plug = self.members.get(wanted as usize).and_then(|member| member.plug.as_ref());
                let reply = match plug {
                    Some(_) => Reply::Alarm { rank: wanted },
                    None => Reply::Refused { rank: wanted, reason: self.why_gone(wanted) },
                };
                self.answer(rank, &reply, plug.map(|plug| plug.alarm.as_fd()));
            }
            Request::Nodes { from } => {
                let nodes = self.members.iter().skip(from as usize).map(|member| u64::from(member.node));
                self.give(rank, &encode_words(&nodes.collect::<Vec<_>>()));
            }
            Request::Abort { code, text } => {
                let seen = self.glimpse(rank);
                self.tell(Event::Abort { rank, code, text, seen });
            }
            Request::Say { .. } if self.launch.quiet => {}
            Request::Say { text } => self.tell(Event::Say { text }),
        }
    }

    /// Sends an answer. A process that asks without reading the answers loses them.
    fn answer(&self, rank: u32, reply: &Reply, fd: Option<BorrowedFd<'_>>) {
        if let Some(rank) = self.rank(rank) {
            let _ = fdpass::send(&rank.control, &reply.encode(), fd);
        }
    }

    fn conclude(&self, rank: u32, result: Result<(u32, String), String>) {
        let reply = match result {
            Ok((number, text)) => Reply::Done { number, text },
            Err(reason) => Reply::Refused { rank, reason },
        };
        self.answer(rank, &reply, None);
    }

    fn give(&self, rank: u32, bytes: &[u8]) {
        match blob::write(bytes) {
            Ok(fd) => self.answer(rank, &Reply::Given, Some(fd.as_fd())),
            Err(error) => self.conclude(rank, Err(error.to_string())),
        }
    }

    fn give_listener(&mut self, rank: u32) {
        let listener = self.members[rank as usize].plug.as_mut().and_then(|plug| plug.listener.take());
        let reply = match listener {
            Some(_) => Reply::Listener { incarnation: INCARNATION, secret: to_hex(&self.secret) },
            None => {
                let reason = "there is no listening socket for it, or it has got one".to_string();
                Reply::Refused { rank, reason }
            }
        };
        self.answer(rank, &reply, listener.as_ref().map(AsFd::as_fd));
    }

    fn show_ticket(&mut self, rank: u32, ticket: u32, back: bool) {
        let number = match self.ports.ask(rank, ticket, back) {
            Ok(Ticket::Waits) => Ok(0),
            Ok(Ticket::Met(other)) if self.members[other as usize].running => Ok(other + 1),
            Ok(Ticket::Met(other)) => Err(format!("{} has ended meanwhile", self.job.name(other))),
            Err(reason) => Err(reason),
        };
        self.conclude(rank, number.map(|number| (number, String::new())));
    }

    /// Where a process of a job over sockets can be reached.
    fn whereabouts(&self, wanted: u32) -> Reply {
        let refused = |reason| Reply::Refused { rank: wanted, reason };
        let Some(member) = self.members.get(wanted as usize) else { return refused(self.why_gone(wanted)) };
        let Some(rank) = &member.rank else {
            return if member.has_left {
                Reply::Left { rank: wanted }
            } else {
                refused(self.why_gone(wanted))
            };
        };
        let Some(plug) = &member.plug else {
            return refused("the job was started without sockets".into());
        };
        match rank.segment.status().state() {
            RankState::Finalized => Reply::Left { rank: wanted },
            // It may come back as long as it runs.
            RankState::Resting if !member.running => Reply::Left { rank: wanted },
            _ if !member.running => refused("its process has ended".into()),
            _ => Reply::Addresses { rank: wanted, addresses: plug.address.clone() },
        }
    }

    /// Why there is no process of this number.
    fn why_gone(&self, wanted: u32) -> String {
        match self.members.get(wanted as usize) {
            Some(_) => "its process has ended, and its job is over".into(),
            None if self.parents.len() == 1 => format!("the job has {} ranks", self.members.len()),
            None => format!("all jobs have {} processes", self.members.len()),
        }
    }

    /// What tells this launcher's ports from those of others: nobody can guess it.
    fn port_prefix(&self) -> String {
        format!("{PORT}{}", &to_hex(&self.secret)[..PORT_DIGITS])
    }

    /// Whether a port can be one of this launcher's.
    fn check_port(&self, port: &str) -> Result<(), String> {
        if !port.starts_with(PORT) || port.starts_with(&self.port_prefix()) {
            return Ok(());
        }
        Err(format!("the port '{port}' was opened under another mpirun, and jobs of two cannot be connected"))
    }
}

/// With this the names of ports begin.
const PORT: &str = "oxmpi:";
/// Digits of a launcher's own in them.
const PORT_DIGITS: usize = 16;

fn contents(came: Option<OwnedFd>) -> Result<Vec<u8>, String> {
    let fd = came.ok_or("no descriptor came with the message")?;
    blob::read(fd).map_err(|error| error.to_string())
}

fn nonsense() -> String {
    "the description of what to spawn makes no sense".into()
}
