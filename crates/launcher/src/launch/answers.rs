//! The launcher's answers to requests and reports on the control sockets.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use oxmpi_shm::segment::RankState;
use tracing::trace;

use super::launcher::Launcher;
use super::plugs::Plug;
use super::start::RankProcess;
use crate::job::JobEvent;
use crate::ports::{PortName, PortVisit, Ticket};
use oxmpi_daemon::diagnostics::MessageName;
use oxmpi_rt_client::blob;
use oxmpi_rt_client::codec;
use oxmpi_rt_client::control::{Reply, Request};
use oxmpi_rt_client::universe::{Contact, Spawn};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The incarnation of each rank where generations are not counted.
pub(crate) const INCARNATION: u32 = 1;

impl Launcher<'_> {
    /// Carries out a request of a process of this launcher or another.
    pub(super) fn handle_request(&mut self, rank: u32, request: Request, came: Option<OwnedFd>) {
        trace!(rank, request = %MessageName(&request), "a rank sends a request");
        let Some((request, came)) = self.pass_on(rank, request, came) else { return };
        let identity = (self.incarnation(rank), &self.secret);
        if let Some((reply, fd)) = self.host.answer_to(rank, &request, identity) {
            return self.hand_over(rank, reply, fd.as_ref().map(AsFd::as_fd));
        }
        match request {
            Request::Segment { .. }
            | Request::Alarm { .. }
            | Request::Listener
            | Request::Postboxes
            | Request::Abroad
            | Request::Addresses { .. }
            | Request::Death { .. }
            | Request::Relay
            | Request::Nodes { .. } => self.handle_peer_request(rank, request),
            Request::Quiesced { step } => self.step_taken(rank, step),
            Request::Abort { code, text } => {
                let seen = self.glimpse(rank);
                self.take_abort(JobEvent::Abort { rank, code, text, seen });
            }
            Request::Finished => self.note_finished(rank),
            // An answer to a request of the head before the job started, when a process that is no
            // agent had named the number. The sender waits for no reply.
            Request::AgentCard { .. } => {}
            // Only valid as the first message of a new connection.
            Request::Enter { .. }
            | Request::Return { .. }
            | Request::Join { .. }
            | Request::Head { .. } => {
                let reason = "it has its control socket".into();
                self.answer(rank, &Reply::Refused { rank, reason }, None);
            }
            Request::Say { .. } if self.launch.quiet => {}
            Request::Say { text } => self.handle_event(JobEvent::Say { text }),
            Request::Spawn
            | Request::Parent
            | Request::Bound { .. }
            | Request::Bond { .. }
            | Request::Released { .. } => self.handle_job_request(rank, request, came),
            Request::OpenPort
            | Request::ClosePort { .. }
            | Request::Meet { .. }
            | Request::Ticket { .. }
            | Request::GiveBack { .. }
            | Request::Publish { .. }
            | Request::Unpublish { .. }
            | Request::LookUp { .. } => self.handle_port_request(rank, request, came),
            Request::Reach | Request::Names | Request::Numbers | Request::Secret { .. } => {
                self.handle_meeting_request(rank, request, came)
            }
        }
    }

    /// Requests about the sender's peers, and for its own means to reach them.
    fn handle_peer_request(&mut self, rank: u32, request: Request) {
        match request {
            Request::Segment { rank: wanted } => {
                let reason = self.why_gone(wanted);
                self.answer(rank, &Reply::Refused { rank: wanted, reason }, None);
            }
            Request::Alarm { rank: wanted } => {
                let reason = "there is no alarm for it".into();
                self.answer(rank, &Reply::Refused { rank: wanted, reason }, None);
            }
            Request::Listener | Request::Postboxes | Request::Relay => {
                let reason = "it is not on this host".into();
                self.answer(rank, &Reply::Refused { rank, reason }, None);
            }
            Request::Abroad => self.give_abroad(rank),
            Request::Addresses { rank: wanted } if self.members.is_far(wanted) => {
                self.request_addresses(rank, wanted)
            }
            Request::Addresses { rank: wanted } => {
                let is_other = self.links.is_other(rank);
                let reply = match self.reach_for(rank, wanted) {
                    Ok(()) => self.whereabouts(wanted, is_other),
                    Err(reason) => Reply::Refused { rank: wanted, reason },
                };
                self.send_addresses(rank, wanted, reply);
            }
            Request::Death { number } => {
                let reply = match self.members.deaths().get(number as usize) {
                    Some(process) => Reply::Death { process: *process },
                    None => {
                        let reason = format!("{} processes have died", self.members.deaths().len());
                        Reply::Refused { rank, reason }
                    }
                };
                self.answer(rank, &reply, None);
            }
            Request::Nodes { from } => {
                let numbers = from..self.job.next();
                let nodes: Vec<u32> = numbers.map(|number| self.node_for(rank, number)).collect();
                self.give(rank, &codec::encode(&nodes));
            }
            _ => {}
        }
    }

    /// Requests about spawned jobs and their communicators.
    fn handle_job_request(&mut self, rank: u32, request: Request, came: Option<OwnedFd>) {
        match request {
            Request::Spawn => {
                let spawned = decoded(came).and_then(|spawn: Spawn| self.spawn(rank, spawn));
                self.conclude(rank, spawned.map(|(first, size)| (first, size.to_string())));
            }
            Request::Parent => {
                let parent = self.job.first_of(rank).and_then(|first| self.members.parent(first));
                match parent.map(codec::encode) {
                    Some(parent) => self.give(rank, &parent),
                    None => self.conclude(rank, Err("nobody has spawned it".into())),
                }
            }
            Request::Bound { bond } => match decoded(came) {
                Ok(members) => self.handle_event(JobEvent::Bound { rank, bond, members }),
                Err(text) => self.handle_event(JobEvent::Say { text }),
            },
            Request::Bond { bond } => {
                if self.links.is_other(rank) {
                    // Reports of our processes that have come count before another launcher gets
                    // the answer.
                    self.read_all();
                }
                let is_over = !self.job.is_bound(bond);
                self.conclude(rank, Ok((is_over.into(), String::new())));
            }
            Request::Released { bond } => {
                self.note_parts(rank, bond);
                self.handle_event(JobEvent::Released { rank, bond });
            }
            _ => {}
        }
    }

    /// Requests about ports and published names.
    fn handle_port_request(&mut self, rank: u32, request: Request, came: Option<OwnedFd>) {
        match request {
            Request::OpenPort => {
                let opened = self.reach().map(|place| {
                    let name = PortName { universe: self.boot.job_id, place };
                    let word = format!("{:016x}", self.links.port_word());
                    (0, self.ports.open(rank, &name.prefix(&word)))
                });
                self.conclude(rank, opened);
            }
            Request::ClosePort { port } => {
                let closed = self.ports.close(rank, &port);
                self.conclude(rank, closed.map(|()| (0, String::new())));
            }
            Request::Meet { accepts, port } => {
                let words = contents(came);
                let going = words.and_then(|words| self.ports.go(rank, accepts, &port, words));
                match going {
                    Ok(PortVisit::Meets(words)) => self.give(rank, &words),
                    Ok(PortVisit::Waits(ticket)) => {
                        self.conclude(rank, Ok((ticket, String::new())))
                    }
                    Err(reason) => self.conclude(rank, Err(reason)),
                }
            }
            Request::Ticket { ticket, .. } => self.show_ticket(rank, ticket, false),
            Request::GiveBack { ticket, .. } => self.show_ticket(rank, ticket, true),
            Request::Publish { port, service, everywhere } => {
                let mut done = self.ports.publish(rank, &service, &port);
                if done.is_ok() && everywhere {
                    done = self.publish_everywhere(rank, &service);
                    if done.is_err() {
                        // Then it is not published here either.
                        let _ = self.ports.unpublish(&service, &port);
                    }
                }
                self.conclude(rank, done.map(|()| (0, String::new())));
            }
            Request::Unpublish { port, service } => {
                let done = self.ports.unpublish(&service, &port);
                if done.is_ok() {
                    self.links.unpublish(&service);
                }
                self.conclude(rank, done.map(|()| (0, String::new())));
            }
            Request::LookUp { service } => {
                let found = self.ports.look_up(&service).map(|port| (0, port.to_string()));
                if found.is_err() && !self.links.is_other(rank) {
                    // Another launcher answers if the name is published there.
                    if let Err(reason) = self.search(rank, &service) {
                        self.conclude(rank, Err(reason));
                    }
                } else {
                    self.conclude(rank, found);
                }
            }
            _ => {}
        }
    }

    /// Requests about processes of other launchers.
    fn handle_meeting_request(&mut self, rank: u32, request: Request, came: Option<OwnedFd>) {
        match request {
            Request::Reach => {
                let place = self.reach();
                self.conclude(rank, place.map(|place| (place, String::new())));
            }
            Request::Names => {
                let names = decoded(came).and_then(|numbers: Vec<u32>| self.names(&numbers));
                self.give_result(rank, names);
            }
            Request::Numbers => {
                let names = decoded(came);
                let numbers = names.and_then(|names: Vec<_>| self.numbers(&names));
                self.give_result(rank, numbers);
            }
            Request::Secret { universe } => {
                let reply = match self.links.secret_for(universe) {
                    Ok(secret) => Reply::Secret { secret },
                    Err(reason) => Reply::Refused { rank, reason },
                };
                self.answer(rank, &reply, None);
            }
            _ => {}
        }
    }

    /// Aborts a job and all connected jobs. A process that has freed the communicator is not
    /// connected; all have reported that before a disconnect returns, but the reports may not be
    /// read yet.
    fn take_abort(&mut self, abort: JobEvent) {
        if self.job.jobs() == 1 && !self.links.is_any() {
            return self.handle_in_order(abort);
        }
        // Further aborts that are read meanwhile are queued: handled at once they would nest.
        if self.deferred.add_abort(abort) {
            self.read_all();
            let aborts = self.deferred.take_aborts();
            aborts.into_iter().for_each(|abort| self.handle_after_checks(abort));
        }
    }

    /// Sends an answer. A process that sends requests without reading the answers loses them.
    pub(super) fn answer(&mut self, rank: u32, reply: &Reply, fd: Option<BorrowedFd<'_>>) {
        self.holding.set_unread(true);
        if self.answer_other(rank, reply, fd) || self.answer_far(rank, reply, fd) {
            return;
        }
        self.host.ranks.answer(rank, &reply.encode(), fd);
    }

    pub(super) fn conclude(&mut self, rank: u32, result: Result<(u32, String), String>) {
        let reply = match result {
            Ok((number, text)) => Reply::Done { number, text },
            Err(reason) => Reply::Refused { rank, reason },
        };
        self.answer(rank, &reply, None);
    }

    /// Sends an answer about this host; to a process of another launcher with its contact.
    fn hand_over(&mut self, rank: u32, mut reply: Reply, fd: Option<BorrowedFd<'_>>) {
        if let Reply::Segment { rank: wanted, contact } = &mut reply {
            *contact = self.contact(rank, *wanted);
        }
        self.answer(rank, &reply, fd);
    }

    /// The contact beside an answer about `wanted` to a process of another launcher.
    fn contact(&self, asker: u32, wanted: u32) -> Option<Contact> {
        let contact = Contact { universe: self.boot.job_id, number: wanted, known_as: asker };
        self.links.is_other(asker).then_some(contact)
    }

    fn give_result(&mut self, rank: u32, result: Result<impl Serialize, String>) {
        match result {
            Ok(answer) => self.give(rank, &codec::encode(&answer)),
            Err(reason) => self.conclude(rank, Err(reason)),
        }
    }

    fn give(&mut self, rank: u32, bytes: &[u8]) {
        match blob::write(bytes) {
            Ok(fd) => self.answer(rank, &Reply::Given, Some(fd.as_fd())),
            Err(error) => self.conclude(rank, Err(error.to_string())),
        }
    }

    fn show_ticket(&mut self, rank: u32, ticket: u32, back: bool) {
        let number = match self.ports.query(rank, ticket, back) {
            Ok(Ticket::Waits) => Ok(0),
            Ok(Ticket::Met(other)) if self.job.runs(other) => Ok(other + 1),
            Ok(Ticket::Met(other)) => Err(format!("{} has ended meanwhile", self.job.name(other))),
            Err(reason) => Err(reason),
        };
        self.conclude(rank, number.map(|number| (number, String::new())));
    }

    fn whereabouts(&self, wanted: u32, is_other: bool) -> Reply {
        self.host.ranks.whereabouts(wanted, is_other).unwrap_or_else(|| {
            let reason = self.why_gone(wanted);
            Reply::Refused { rank: wanted, reason }
        })
    }

    pub(super) fn send_addresses(&mut self, rank: u32, wanted: u32, mut reply: Reply) {
        if let Reply::Addresses { contact, .. } = &mut reply {
            // The launcher of `rank` knows the secret that both launchers share.
            *contact = self.contact(rank, wanted).map(|contact| (contact, [0; 32]));
        }
        self.answer(rank, &reply, None);
    }

    pub(super) fn why_gone(&self, wanted: u32) -> String {
        match wanted < self.job.next() {
            true => "its process has ended, and its job is over".into(),
            false if self.job.jobs() == 1 => format!("the job has {} ranks", self.members.len()),
            false => format!("all jobs have had {} processes", self.job.next()),
        }
    }
}

/// The socket addresses of a process of this host, for a process of its own launcher or of another.
pub(crate) fn plug_whereabouts(
    wanted: u32,
    (rank, for_other): (&RankProcess, bool),
    plug: Option<&Plug>,
    running: bool,
) -> Reply {
    let refused = |reason: &str| Reply::Refused { rank: wanted, reason: reason.to_string() };
    let Some(plug) = plug else { return refused("the job was started without sockets") };
    match rank.segment.status().state() {
        RankState::Finalized => Reply::Left { rank: wanted },
        // A resting process may return as long as it runs.
        RankState::Resting if !running => Reply::Left { rank: wanted },
        _ if !running => refused("its process has ended"),
        _ => {
            let address = if for_other { plug.address_abroad() } else { &plug.address };
            let addresses = address.to_string();
            Reply::Addresses { rank: wanted, addresses, contact: None }
        }
    }
}

fn contents(came: Option<OwnedFd>) -> Result<Vec<u8>, String> {
    let fd = came.ok_or("no descriptor came with the message")?;
    blob::read(fd).map_err(|error| error.to_string())
}

fn decoded<T: DeserializeOwned>(came: Option<OwnedFd>) -> Result<T, String> {
    codec::decode(&contents(came)?)
        .ok_or_else(|| "the file with the message makes no sense".to_string())
}
