//! Processes on other hosts, behind their agents.

mod checks;
mod loss;

pub(super) use self::checks::DeferredEvents;

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Launch;
use super::launcher::Launcher;
use super::start::app_of;
use crate::host::HostLauncher;
use crate::hosts::head::AddressRequest;
use oxmpi_rt_client::blob;
use oxmpi_rt_client::control::{Reply, Request};
use oxmpi_rt_proto::agent::{
    BranchReport, BranchRound, FromAgent, HostOrder, HostReport, ProcessEvent, Seen, ToAgent,
};

/// The host of each rank, if they are not all on this one, whose name is `own`.
pub(super) fn hosts_of(launch: &Launch, own: &str) -> Vec<String> {
    let Some(spread) = &launch.spread else { return Vec::new() };
    let name = |node: &u32| match spread.hosts.get(*node as usize) {
        Some(host) if !host.agent.is_unneeded() => host.name.clone(),
        _ => own.to_string(),
    };
    spread.nodes.iter().map(name).collect()
}

/// The number of this host's node, if there are several; a number of its own if no rank is here.
pub(super) fn own_node(launch: &Launch, own: &HostLauncher<'_>) -> Option<u32> {
    let first = own.ranks.iter().next();
    match (first, &launch.spread) {
        // The boot record of a restored rank has the node of its image.
        (Some((number, _)), Some(spread)) if spread.hosts.len() > 1 => {
            spread.nodes.get(number as usize).copied()
        }
        (Some((_, one)), _) => one.rank.segment.boot().node,
        (None, spread) => spread.as_ref().map(|spread| spread.hosts.len() as u32),
    }
}

impl Launcher<'_> {
    /// Makes the processes on other hosts members.
    pub(super) fn enlist_far(&mut self, nodes: &[u32]) -> rustix::io::Result<()> {
        self.branches.listen(&self.host)?;
        for (at, number, pid) in self.branches.started() {
            let Some(node) = nodes.get(number as usize) else { continue };
            let home = (Some(at), *node);
            let (app, name) = (app_of(&self.launch.apps, number), number.to_string());
            self.add_member((number, home), [true; 2], (pid, &name), app);
        }
        Ok(())
    }

    /// Gives an order to the hosts of processes.
    pub(super) fn order_homes(&mut self, processes: Range<u32>, order: HostOrder) {
        let (homes, message) = (self.members.branches(processes), ToAgent::Host(order.clone()));
        homes.into_iter().for_each(|at| self.branches.post(at, &message));
        self.host.obey(order);
    }

    /// Gives an order to all hosts. Their reports are handled later.
    pub(super) fn order_all(&mut self, order: HostOrder) {
        self.branches.post_all(&ToAgent::Host(order.clone()));
        self.host.obey(order);
    }

    /// Handles messages of an agent, and room in its stream.
    pub(super) fn far_ready(&mut self, at: usize) {
        let ended = self.branches.read(at);
        self.read_agent(at);
        if let Some(error) = ended {
            self.lose_host(at, error);
        }
    }

    /// Handles all complete messages; a single read limits their number.
    pub(super) fn read_agent(&mut self, at: usize) {
        loop {
            match self.branches.next(at) {
                Ok(Some((route, message))) => {
                    self.handle_agent_message((at, route.node), message);
                }
                Ok(None) => return,
                Err(error) => return self.lose_senseless(at, &error),
            }
        }
    }

    /// Handles a message of the agent of a host, in the branch with the index `at`.
    fn handle_agent_message(&mut self, (at, node): (usize, u32), message: FromAgent) {
        match message {
            FromAgent::Alive { number } => self.branches.note_received(at, number),
            FromAgent::Text { text } => self.output.print(&text),
            FromAgent::Report { round: BranchRound::Seen { .. }, report } => {
                self.note_states(at, *report);
            }
            // About a spawn that was abandoned, or of the time before the start.
            FromAgent::Report { .. } | FromAgent::Failed { .. } | FromAgent::Came { .. } => {}
            FromAgent::Events(events) => {
                events.into_iter().for_each(|event| self.handle_process_event(Some(at), event));
            }
            FromAgent::Request { rank, request, blob, seen } => {
                // Not of processes that are forgotten, given up, or of an abandoned spawn.
                if self.members.is_of(rank, Some(at)) && self.members.is_running(rank) {
                    self.note_seen(rank, seen);
                    self.request_of_far(rank, request, blob);
                }
            }
            FromAgent::Host(report) => {
                if let HostReport::Output { rank, bytes, .. } = &report {
                    self.branches.note_output(at, bytes.len());
                    if !self.members.is_of(*rank, Some(at)) {
                        return;
                    }
                }
                self.handle_report(Some(node), report);
            }
            FromAgent::HostsLost { nodes, text } => {
                if let Some(lost) = self.branches.lose_below(at, nodes, text) {
                    self.note_lost(lost);
                }
            }
            FromAgent::Answer { asker, reply } => {
                if let Some(request) = self.branches.take_request(at, asker) {
                    self.send_addresses(request.asker, request.wanted, reply);
                }
            }
            FromAgent::Piece { round, name, bytes } => {
                self.take_image_piece((node, round), &name, &bytes);
            }
            FromAgent::Imaged { round, images } => self.take_images((node, round), images),
        }
    }

    pub(super) fn handle_process_event(&mut self, at: Option<usize>, event: ProcessEvent) {
        match event {
            ProcessEvent::Closed { rank, is_error } if self.members.is_of(rank, at) => {
                self.take_output(rank, usize::from(is_error), &[]);
            }
            ProcessEvent::Exited { rank, exit, seen } if self.members.is_of(rank, at) => {
                if self.members.is_running(rank) {
                    self.note_seen(rank, seen);
                    let seen = self.glimpse(rank);
                    self.note_end(rank, exit, seen);
                }
            }
            // Of processes that are forgotten, or of an abandoned spawn.
            ProcessEvent::Closed { .. } | ProcessEvent::Exited { .. } => {}
        }
    }

    fn note_states(&mut self, at: usize, report: BranchReport) {
        for (rank, seen) in report.seen {
            if self.members.is_of(rank, Some(at)) {
                self.note_seen(rank, seen);
            }
        }
        self.branches.note_answer(at, &report.silent);
        self.handle_deferred(Instant::now());
    }

    fn note_seen(&mut self, rank: u32, seen: Seen) {
        self.note_contact(rank, seen.stage, false);
        self.members.note_seen(rank, seen);
    }

    fn request_of_far(&mut self, rank: u32, request: Request, contents: Option<Vec<u8>>) {
        match contents.map(|bytes| blob::write(&bytes)).transpose() {
            Ok(came) => self.handle_request(rank, request, came),
            Err(error) => self.conclude(rank, Err(error.to_string())),
        }
    }

    pub(super) fn answer_far(
        &mut self,
        rank: u32,
        reply: &Reply,
        fd: Option<BorrowedFd<'_>>,
    ) -> bool {
        let Some(home) = self.members.home(rank) else { return false };
        let contents = match (reply, fd) {
            (Reply::Given, Some(fd)) => blob::read(fd).map(Some).map_err(|error| error.to_string()),
            (_, None) => Ok(None),
            // Memory and sockets do not leave their host.
            _ => Err("it is on another host".to_string()),
        };
        let message = match contents {
            Ok(blob) => ToAgent::Answer { rank, reply: reply.clone(), blob },
            Err(reason) => {
                ToAgent::Answer { rank, reply: Reply::Refused { rank, reason }, blob: None }
            }
        };
        self.branches.post_home(home, &message);
        true
    }

    /// Requests the addresses of a process on another host from its agent.
    pub(super) fn request_addresses(&mut self, asker: u32, wanted: u32) {
        let Some((at, node)) = self.members.home(wanted) else { return };
        let request = AddressRequest { asker, wanted, node };
        if let Some(request) = self.branches.request_addresses(at, request) {
            self.refuse_addresses(&request);
        }
    }

    pub(super) fn refuse_addresses(
        &mut self,
        AddressRequest { asker, wanted, .. }: &AddressRequest,
    ) {
        let reason = "the agent of its host is lost".to_string();
        self.answer(*asker, &Reply::Refused { rank: *wanted, reason }, None);
    }

    pub(super) fn signal_far(&mut self, signal: Signal, ranks: impl Iterator<Item = u32>) {
        let members = &self.members;
        self.branches.signal(signal, ranks.filter_map(|rank| Some((rank, members.home(rank)?))));
    }

    /// Sends standard input to the hosts of the ranks that get it.
    pub(super) fn send_input(&mut self) {
        while let Some((rank, bytes)) = self.feed.next() {
            let order = HostOrder::Input { rank, bytes };
            match self.members.home(rank) {
                Some(home) => self.branches.post_home(home, &ToAgent::Host(order)),
                None => self.host.obey(order),
            }
            // The rank may have taken it, and have room for more.
            self.handle_host_messages();
        }
    }

    /// Acknowledges output to agents, polls for room in streams, and finds silent agents.
    pub(super) fn service_agents(&mut self) {
        let (now, has_room) = (Instant::now(), !self.output.is_full());
        // After the end of the ranks the output that follows is awaited.
        let drains = self.end.is_over();
        let (silent, unanswered) =
            self.branches.service(&self.host.events, (has_room, drains), now);
        self.give_up(&unanswered);
        for at in silent {
            match self.branches.confirm_silence(at) {
                Some(error) => self.lose_host(at, Some(error)),
                None => self.far_ready(at),
            }
        }
        let silence = Duration::from_secs(self.launch.params.mpi_agent_silence_s());
        for adopted in self.branches.adopt_arrived(&self.host, silence) {
            self.members.move_with(&adopted);
            if let Some(error) = adopted.error {
                self.lose_host(adopted.branch, Some(error));
            }
        }
        self.branches.take_late(now).into_iter().for_each(|lost| self.note_lost(lost));
    }

    /// Whether output from other hosts may be on its way.
    pub(super) fn is_far_busy(&self, now: Instant) -> bool {
        self.branches.is_busy(now, |at| {
            let mut members = self.members.iter();
            members.any(|(rank, member)| member.branch == Some(at) && self.output.awaits(rank))
        })
    }
}
