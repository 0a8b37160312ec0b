//! The agents below an agent: started, watched and ended by it.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use tracing::{info, warn};

use super::super::child::{Child, FromChild};
use super::super::lifeline::Lifeline;
use super::super::lifelines::Lifelines;
use super::super::opening::Starts;
use super::super::tree::Junction;
use super::{Agent, CHILD, CHILD_ERRORS, LIFELINE, LIFELINES, WINDOW};
use crate::launch::parts::is_ready;
use crate::launch::{Launch, LaunchError};
use oxmpi_daemon::PATIENCE as DAEMON_PATIENCE;
use oxmpi_rt_proto::agent::{
    Branch, BranchHost, BranchReport, BranchRound, FromAgent, OfferedLifelines, Receivers,
};

/// How long the good end of a process waits for others, to be sent with them, if the branch has
/// further processes: nothing but reports depends on it.
pub(super) const EVENTS_WAIT: Duration = Duration::from_millis(500);
/// The limit for the greetings of the branch, shorter than the head's for the whole tree, so that
/// this agent names the host.
const GREETING: Duration = Duration::from_secs(50);
/// The remedy if only the host of mpirun reaches all others.
const FROM_HERE: &str = "with '--mca mpi_agent_fan_out 65535' mpirun starts all agents itself";

impl Agent<'_> {
    /// Takes the place in the tree, and starts the agents below.
    pub(super) fn begin_branch(&mut self, branch: Branch) {
        let Branch { node, fan_out, starts, hosts } = branch;
        self.node = Some(node);
        if hosts.is_empty() {
            self.junction = Junction::new(node, Vec::new(), fan_out as usize);
            return;
        }
        info!(hosts = hosts.len(), fan_out, "starting the agents below this one");
        let (starts, mut of) = (Starts::received(starts), node);
        let open = |host: &BranchHost| {
            of = host.node;
            let limits = (self.silence, DAEMON_PATIENCE);
            let named = (host.node, host.name.clone());
            Child::open(named, &starts.opening(host)?, limits, self.signals)
        };
        let children = match Child::open_all(hosts, (&starts, fan_out as usize), open) {
            Ok(children) => children,
            Err(error) => return self.fail_below(of, text_of(error)),
        };
        let branches = children.iter().map(|child| child.nodes().collect()).collect();
        self.junction = Junction::new(node, branches, fan_out as usize);
        let all: Vec<usize> = (0..children.len()).collect();
        self.junction.begin(BranchRound::Reached, &Receivers::Child, &all, Instant::now());
        for (at, child) in children.into_iter().enumerate() {
            let watched = self.watch_child(at, &child);
            self.children.push(Some(child));
            if let Err(error) = watched {
                self.lose_child(at, Some(error));
            }
        }
    }

    pub(super) fn watch_child(&self, at: usize, child: &Child) -> io::Result<()> {
        self.host.listen(child.stream.input(), CHILD, at as u32)?;
        let mut errors = child.errors.iter();
        errors.try_for_each(|of| self.host.listen(of.input(), CHILD_ERRORS, at as u32))?;
        Ok(())
    }

    /// Reports that the agent of a host below cannot be started.
    fn fail_below(&mut self, node: u32, text: String) {
        let here = oxmpi_sys::host::name();
        let text =
            format!("{text}\n  Where:   on host {here}, whose agent starts that one; {FROM_HERE}");
        warn!(text, "an agent below this one cannot be started");
        let failed = FromAgent::Failed { base: 0, is_program: false, text };
        self.head.post(&failed.encode(node, 0));
    }

    /// Offers lifelines to the children.
    pub(super) fn offer_lifelines(&mut self, launch: &Launch) -> Result<(), LaunchError> {
        let children = self.children.iter_mut().flatten().collect();
        let (lifelines, own) = Lifelines::offer_to(launch, children, self.parent.as_ref());
        let watched = lifelines.watch(&self.host.events, LIFELINES << 32);
        (self.lifelines, self.own_way) = (lifelines, own);
        crate::launch::kernel("wait for lifelines", watched)
    }

    pub(super) fn begin_lifeline(&mut self, offered: OfferedLifelines) {
        let OfferedLifelines { parent, is_needed, adopter } = offered;
        if let (Some(node), None, true) = (self.node, &self.lifeline, is_needed) {
            let events = (&self.host.events, LIFELINE << 32);
            self.lifeline = Some(Lifeline::begin(&parent, (node, self.silence), events));
        }
        (self.parent, self.adopter) = (Some(parent), adopter);
        // The children got their own offer before this one came.
        self.name_grandparent();
    }

    /// Handles messages of a child, and room in its stream.
    pub(super) fn child_ready(&mut self, at: usize) {
        let Some(Some(child)) = self.children.get_mut(at) else { return };
        let ended = child.read();
        self.read_child(at);
        if let Some(error) = ended {
            self.lose_child(at, error);
        }
    }

    fn read_child(&mut self, at: usize) {
        loop {
            let Some(Some(child)) = self.children.get_mut(at) else { return };
            let had_greeted = child.greeted_after.is_some();
            let next = child.next();
            if !had_greeted && child.greeted_after.is_some() && child.hosts.len() == 1 {
                let report = child.reached();
                self.take_report(at, BranchRound::Reached, report);
            }
            match next {
                Ok(Some(FromChild::Message(_, message))) => self.handle_child_message(at, message),
                Ok(Some(FromChild::Frame(route, frame))) => {
                    self.send_events();
                    self.head.post(&frame);
                    self.under_way += u64::from(route.output);
                    if let Some(Some(child)) = self.children.get_mut(at) {
                        child.owed += u64::from(route.output);
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    let error = io::Error::new(io::ErrorKind::InvalidData, error.to_string());
                    return self.lose_child(at, Some(error));
                }
            }
        }
    }

    fn handle_child_message(&mut self, at: usize, message: FromAgent) {
        match message {
            FromAgent::Report { round, report } => {
                let mut report = *report;
                if let (BranchRound::Reached, Some(Some(child))) = (round, self.children.get(at)) {
                    report.add(child.reached());
                }
                self.take_report(at, round, report);
            }
            FromAgent::Events(events) => self.queue_events(events),
            FromAgent::HostsLost { nodes, text } => {
                self.junction.lose_below(at, &nodes);
                if let Some(Some(child)) = self.children.get_mut(at) {
                    child.hosts.retain(|(node, _)| !nodes.contains(node));
                }
                self.post(&FromAgent::HostsLost { nodes, text });
            }
            FromAgent::Alive { number } => {
                if let Some(Some(child)) = self.children.get_mut(at) {
                    child.kept.note_received(number);
                }
            }
            _ => {}
        }
    }

    fn take_report(&mut self, at: usize, round: BranchRound, report: BranchReport) {
        if matches!(round, BranchRound::Started { .. }) {
            self.junction.note_started(report.pids.len());
        }
        if let Some(report) = self.junction.add(round, Some(at), report) {
            self.post_report(round, report);
        }
    }

    pub(super) fn pass_child_errors(&mut self, at: usize) {
        let Some(Some(child)) = self.children.get_mut(at) else { return };
        let said = child.read_errors();
        if !said.is_empty() {
            let text = String::from_utf8_lossy(&said).into_owned();
            self.post(&FromAgent::Text { text });
        }
    }

    /// The stream to a child has ended, or its agent cannot be used.
    pub(super) fn lose_child(&mut self, at: usize, error: Option<io::Error>) {
        let Some(mut child) = self.children.get_mut(at).and_then(Option::take) else { return };
        let is_start = self.host.ranks.is_empty();
        let (mut nodes, complete) = self.junction.lose(at);
        if is_start {
            let error = child.why_ended(error);
            return self.fail_below(child.node, text_of(error));
        }
        let text = child.why_lost(error);
        warn!(host = child.host, why = text, "an agent below this one is lost");
        if self.survives {
            nodes.truncate(1);
            self.stranded.extend(child.stranded(self.silence));
        }
        self.post(&FromAgent::HostsLost { nodes, text });
        for (round, report) in complete {
            self.post_report(round, report);
        }
    }

    /// Acknowledges output to children, polls for room in their streams, and finds silent ones.
    pub(super) fn service_children(&mut self, now: Instant) {
        if self.events_due.is_some_and(|due| due <= now) {
            self.send_events();
        }
        for (round, report) in self.junction.give_up(now) {
            self.post_report(round, report);
        }
        let has_room = self.under_way < WINDOW;
        let mut silent = Vec::new();
        for (at, child) in self.children.iter_mut().enumerate() {
            let Some(child) = child else { continue };
            child.acknowledge(has_room);
            child.write(&self.host.events, CHILD << 32 | at as u64);
            let limit = limit_of(child, self.silence);
            // This process may have been stopped itself, so it reads first.
            if child.last_message + limit <= now && !is_ready(child.stream.input(), PollFlags::IN) {
                silent.push((at, limit));
            }
        }
        for (at, limit) in silent {
            let text = format!("nothing has come from it for {} s", limit.as_secs());
            self.lose_child(at, Some(io::Error::new(io::ErrorKind::TimedOut, text)));
        }
        self.adopt_arrived();
        self.lose_late_stranded(now);
    }

    /// The time of the next [`Agent::service_children`].
    pub(super) fn children_time(&self) -> Option<Instant> {
        let limit = |child: &Child| child.last_message + limit_of(child, self.silence);
        let stranded = self.stranded.iter().map(|stranded| stranded.until);
        let times = self.junction.time().into_iter().chain(stranded).chain(self.adopted_until);
        self.children.iter().flatten().map(limit).chain(times).min()
    }

    /// Ends the agents below, and waits for that. If this agent alone ends, in a job that survives
    /// failures, they go to its parent.
    pub(super) fn end_children(&mut self) {
        if self.survives && !self.is_ended {
            return self.children.clear();
        }
        let mut all: Vec<Child> = self.children.iter_mut().filter_map(Option::take).collect();
        let mut texts = Vec::new();
        Child::end_all(&mut all, |text| texts.push(text.to_string()));
        texts.into_iter().for_each(|text| self.post(&FromAgent::Text { text }));
    }
}

/// The longest time without a message of a child.
fn limit_of(child: &Child, silence: Duration) -> Duration {
    if child.greeted_after.is_none() { GREETING } else { silence }
}

/// The text of an error about a host, which its reader names.
fn text_of(error: LaunchError) -> String {
    match error {
        LaunchError::Host { text, .. } => text,
        other => other.to_string(),
    }
}
