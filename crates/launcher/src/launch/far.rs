//! Processes on other hosts, behind their agents.

mod adoption;
mod checks;
mod loss;

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::Signal;

use super::Launch;
use super::launcher::{AGENT_ERRORS, AGENT_STREAM, JobMember, Launcher, call_name};
use super::output::{Sink, is_ready};
use super::start::app_of;
use crate::host::HostLauncher;
use crate::hosts::child::Child;
use crate::hosts::head::RemoteAgent;
use crate::job::Glimpse;
use oxmpi_rt_client::blob;
use oxmpi_rt_client::control::{Reply, Request};
use oxmpi_rt_proto::agent::{
    BranchReport, BranchRound, FromAgent, HostOrder, HostReport, ProcessEvent, Receivers, Seen,
    ToAgent,
};

/// How long output may follow a host's last message.
const QUIET: Duration = Duration::from_millis(200);

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
        for at in 0..self.far.len() {
            let Some(far) = &self.far[at] else { continue };
            self.host.listen(far.child.stream.input(), AGENT_STREAM, at as u32)?;
            if let Some(errors) = &far.child.errors {
                self.host.listen(errors.input(), AGENT_ERRORS, at as u32)?;
            }
            let pids = far.pids().to_vec();
            for (number, pid) in pids {
                let Some(node) = nodes.get(number as usize) else { continue };
                let tag = self.launch.output.tags.then(|| number.to_string());
                let app = app_of(&self.launch.apps, number);
                self.enlist_far_one((at, *node), (number, pid), tag.as_deref(), app);
            }
        }
        Ok(())
    }

    pub(super) fn enlist_far_one(
        &mut self,
        (at, node): (usize, u32),
        (number, pid): (u32, u32),
        tag: Option<&str>,
        app: usize,
    ) {
        self.add_member((number, node, Some(at)), [true; 2], (pid, tag), app);
    }

    pub(super) fn is_far(&self, rank: u32) -> bool {
        self.members.get(&rank).is_some_and(|member| member.host.is_some())
    }

    /// Sends a message to the agents of a branch.
    pub(super) fn post_far(&mut self, at: usize, message: &ToAgent) {
        match self.far.get_mut(at) {
            Some(Some(far)) => far.post(message),
            _ => self.keep_for_stranded(Some(at), message, &Receivers::All),
        }
    }

    /// Sends a message to the agent of a process.
    pub(super) fn post_home(&mut self, rank: u32, message: &ToAgent) {
        let Some(JobMember { node, host: Some(at), .. }) = self.members.get(&rank) else { return };
        match self.far.get_mut(*at) {
            Some(Some(far)) => far.post_to(*node, message),
            _ => {
                let to = Receivers::Nodes(vec![*node]);
                self.keep_for_stranded(None, message, &to);
            }
        }
    }

    /// Gives an order to the hosts of processes.
    pub(super) fn order_homes(&mut self, processes: &Range<u32>, order: HostOrder) {
        let homes = self.members.range(processes.clone()).filter_map(|(_, member)| member.host);
        let homes: BTreeSet<usize> = homes.collect();
        let message = ToAgent::Host(order.clone());
        homes.into_iter().for_each(|at| self.post_far(at, &message));
        self.host.obey(order);
    }

    /// Gives an order to all hosts. Their reports are handled later.
    pub(super) fn order_all(&mut self, order: HostOrder) {
        self.post_all(&ToAgent::Host(order.clone()));
        self.host.obey(order);
    }

    pub(super) fn post_all(&mut self, message: &ToAgent) {
        self.far.iter_mut().flatten().for_each(|far| far.post(message));
        self.keep_for_stranded(None, message, &Receivers::All);
    }

    /// Handles messages of an agent, and room in its stream.
    pub(super) fn far_ready(&mut self, at: usize) {
        let Some(Some(far)) = self.far.get_mut(at) else { return };
        let ended = far.child.read();
        self.read_agent(at);
        if let Some(error) = ended {
            self.lose_host(at, error);
        }
    }

    /// Handles messages that came with the agents' last start-up message, without a further event.
    pub(super) fn read_all_agents(&mut self) {
        let now = Instant::now();
        // Starting may have taken longer than the silence limit of agents.
        self.far.iter_mut().flatten().for_each(|far| far.child.last_message = now);
        (0..self.far.len()).for_each(|at| self.read_agent(at));
    }

    /// Handles all complete messages; a single read limits their number.
    pub(super) fn read_agent(&mut self, at: usize) {
        loop {
            let Some(Some(far)) = self.far.get_mut(at) else { return };
            match far.next() {
                Ok(Some((route, message))) => {
                    if self.is_new(at, &route) {
                        self.handle_agent_message((at, route.node), message);
                    }
                }
                Ok(None) => return,
                Err(error) => return self.lose_senseless(at, &error),
            }
        }
    }

    /// Handles a message of the agent of a host, in the branch with the index `at`.
    fn handle_agent_message(&mut self, (at, node): (usize, u32), message: FromAgent) {
        match message {
            FromAgent::Alive { number } => {
                if let Some(Some(far)) = self.far.get_mut(at) {
                    far.child.kept.note_received(number);
                }
            }
            FromAgent::Text { text } => self.print(&text),
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
                if self.is_of(rank, Some(at)) && self.members.get(&rank).is_some_and(|m| m.running)
                {
                    self.note_seen(rank, seen);
                    self.request_of_far(rank, request, blob);
                }
            }
            FromAgent::Host(report) => {
                if let HostReport::Output { rank, bytes, .. } = &report {
                    if let Some(Some(far)) = self.far.get_mut(at) {
                        far.child.owed += bytes.len() as u64;
                    }
                    if !self.is_of(*rank, Some(at)) {
                        return;
                    }
                }
                self.handle_report(Some(node), report);
            }
            FromAgent::HostsLost { nodes, text } => self.lose_below(at, &nodes, text),
            FromAgent::Answer { asker, reply } => self.forward_address(at, asker, reply),
            FromAgent::Piece { round, name, bytes } => {
                self.take_image_piece((node, round), &name, &bytes);
            }
            FromAgent::Imaged { round, images } => self.take_images((node, round), images),
        }
    }

    /// Whether a process is in the branch: an agent reports only on processes of its own. `None`:
    /// it is of this host.
    fn is_of(&self, rank: u32, at: Option<usize>) -> bool {
        self.members.get(&rank).is_some_and(|member| member.host == at)
    }

    pub(super) fn handle_process_event(&mut self, at: Option<usize>, event: ProcessEvent) {
        match event {
            ProcessEvent::Closed { rank, is_error } if self.is_of(rank, at) => {
                self.take_output(rank, usize::from(is_error), &[]);
            }
            ProcessEvent::Exited { rank, exit, seen } if self.is_of(rank, at) => {
                if self.members.get(&rank).is_some_and(|member| member.running) {
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
            if self.is_of(rank, Some(at)) {
                self.note_seen(rank, seen);
            }
        }
        if let Some(Some(far)) = self.far.get_mut(at) {
            far.note_answer(&report.silent);
        }
        self.handle_deferred(Instant::now());
    }

    fn forward_address(&mut self, at: usize, asker: u32, reply: Reply) {
        let Some(Some(far)) = self.far.get_mut(at) else { return };
        let Some(place) = far.address_requests.iter().position(|(by, _)| *by == asker) else {
            return;
        };
        let (asker, wanted) = far.address_requests.swap_remove(place);
        self.send_addresses(asker, wanted, reply);
    }

    fn note_seen(&mut self, rank: u32, Seen { pid, stage, last_call, rests }: Seen) {
        let last_call = call_name(last_call);
        self.note_contact(rank, stage, false);
        if let Some(member) = self.members.get_mut(&rank) {
            (member.seen, member.rests) = (Glimpse { pid, stage, last_call }, rests);
        }
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
        if !self.is_far(rank) {
            return false;
        }
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
        self.post_home(rank, &message);
        true
    }

    pub(super) fn request_addresses(&mut self, asker: u32, wanted: u32) {
        let home = self.members.get(&wanted).and_then(|member| Some((member.host?, member.node)));
        let far = home.and_then(|(at, node)| Some((self.far.get_mut(at)?.as_mut()?, node)));
        match far.filter(|(far, node)| far.leads_to(*node)) {
            Some((far, node)) => {
                far.address_requests.push((asker, wanted));
                far.post_to(node, &ToAgent::Where { asker, rank: wanted });
            }
            None => self.request_addresses_of_stranded(asker, wanted),
        }
    }

    pub(super) fn signal_far(&mut self, signal: Signal, ranks: impl Iterator<Item = u32>) {
        let mut by_branch: Vec<Vec<(u32, u32)>> = vec![Vec::new(); self.far.len()];
        for rank in ranks {
            if let Some(JobMember { node, host: Some(at), .. }) = self.members.get(&rank) {
                by_branch[*at].push((rank, *node));
            }
        }
        for at in self.stranded.iter().map(|(at, _)| *at).collect::<Vec<_>>() {
            let ranks = by_branch[at].iter().map(|(rank, _)| *rank).collect();
            let message = ToAgent::Host(HostOrder::Signal { number: signal.as_raw(), ranks });
            self.keep_for_stranded(Some(at), &message, &Receivers::All);
        }
        for (far, ranks) in self.far.iter_mut().zip(by_branch) {
            let Some(far) = far.as_mut().filter(|_| !ranks.is_empty()) else { continue };
            if signal == Signal::KILL {
                far.kill(ranks, Instant::now());
            } else {
                let ranks = ranks.into_iter().map(|(rank, _)| rank).collect();
                far.post(&ToAgent::Host(HostOrder::Signal { number: signal.as_raw(), ranks }));
            }
        }
    }

    pub(super) fn print_agent_errors(&mut self, at: usize) {
        let Some(Some(far)) = self.far.get_mut(at) else { return };
        let said = far.child.read_errors();
        self.sinks[1].queue().extend_from_slice(&said);
        self.sinks[1].write();
    }

    /// Sends standard input to the hosts of the ranks that get it.
    pub(super) fn send_input(&mut self) {
        while let Some((rank, bytes)) = self.feed.next() {
            let order = HostOrder::Input { rank, bytes };
            match self.is_far(rank) {
                true => self.post_home(rank, &ToAgent::Host(order)),
                false => self.host.obey(order),
            }
            // The rank may have taken it, and have room for more.
            self.handle_host_messages();
        }
    }

    pub(super) fn far_time(&self) -> Option<Instant> {
        let limits = self.far.iter().flatten().map(RemoteAgent::next_limit);
        limits.chain(self.stranded.iter().map(|(_, stranded)| stranded.until)).min()
    }

    /// Acknowledges output to agents, polls for room in streams, and finds silent agents.
    pub(super) fn service_agents(&mut self) {
        let full = self.sinks.iter().any(Sink::is_full);
        let now = Instant::now();
        let (mut silent, mut unanswered) = (Vec::new(), Vec::new());
        for (at, far) in self.far.iter_mut().enumerate() {
            let Some(far) = far else { continue };
            if far.child.acknowledge(!full) && self.finished.is_some() {
                // The output that follows is awaited.
                far.query();
            }
            far.child.write(&self.host.events, AGENT_STREAM << 32 | at as u64);
            if far.silence_ends() < now {
                silent.push(at);
            }
            // This process may have been stopped itself, so it reads first.
            if far.next_limit() <= now && !is_ready(far.child.stream.input(), PollFlags::IN) {
                unanswered.extend(far.take_unanswered(now));
            }
        }
        self.give_up(&unanswered);
        for at in silent {
            self.far_ready_if_there(at);
        }
        self.adopt_arrived();
        self.lose_late_stranded(now);
    }

    /// Whether output from other hosts may be on its way.
    pub(super) fn is_far_busy(&self, now: Instant) -> bool {
        let is_open = |at| {
            self.members
                .values()
                .any(|member| member.host == Some(at) && member.open.contains(&true))
        };
        let busy = |(at, far): (usize, &Option<RemoteAgent>)| {
            far.as_ref().is_some_and(|far| {
                far.unanswered_queries > 0 || now < far.child.last_message + QUIET
            }) && is_open(at)
        };
        self.far.iter().enumerate().any(busy)
    }

    pub(super) fn end_far(&mut self) {
        let all = self.far.iter_mut().filter_map(Option::take);
        let mut all: Vec<Child> = all.map(|far| far.child).collect();
        Child::end_all(&mut all, |text| oxmpi_sys::stdio::complain(format_args!("{text}")));
    }
}
