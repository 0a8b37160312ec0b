//! Processes on other hosts, behind their agents.

mod looks;
mod loss;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFlags, epoll};
use rustix::process::Signal;

use super::Launch;
use super::launcher::{FAR, FAR_ERRORS, FAR_INPUT, Launcher, Member};
use super::output::{Came, Lines, Sink, is_ready, read_some};
use super::start::{Rank, app_of};
use crate::blob;
use crate::control::{Reply, Request};
use crate::hosts::agent::WINDOW;
use crate::hosts::head::Far;
use crate::hosts::message::{FromAgent, Seen, ToAgent};
use crate::job::{Event, Glimpse};

/// Bytes of standard input that may be under way to a process.
const INPUT_WINDOW: u64 = 256 << 10;
/// How long something may take from a host that has just said something.
const QUIET: Duration = Duration::from_millis(200);

/// What goes to a process on another host as its standard input.
pub(super) struct FarInput {
    pub(super) rank: u32,
    /// Where it comes from; `None` when it has ended.
    pub(super) pipe: Option<OwnedFd>,
    /// Bytes that the process has not taken.
    under_way: u64,
}

/// The names of the hosts of all ranks, if they are not all on this one, whose name is `own`.
pub(super) fn hosts_of(launch: &Launch, own: &str) -> Vec<String> {
    let Some(spread) = &launch.spread else { return Vec::new() };
    let name = |node: &u32| match spread.hosts.get(*node as usize) {
        Some(host) if host.opening.is_some() => host.name.clone(),
        _ => own.to_string(),
    };
    spread.nodes.iter().map(name).collect()
}

/// Which of the nodes this host is, if there are several; one of its own if no rank is here.
pub(super) fn own_node(launch: &Launch, ranks: &[(u32, Rank)]) -> Option<u32> {
    match (ranks.first(), &launch.spread) {
        // The memory of one that was restored knows where it was before.
        (Some((number, _)), Some(spread)) if spread.hosts.len() > 1 => {
            spread.nodes.get(*number as usize).copied()
        }
        (Some((_, rank)), _) => rank.segment.boot().node,
        (None, spread) => spread.as_ref().map(|spread| spread.hosts.len() as u32),
    }
}

impl Launcher<'_> {
    /// Takes the processes on other hosts among the members.
    pub(super) fn enlist_far(
        &mut self,
        nodes: &[u32],
        inputs: Vec<(u32, OwnedFd)>,
    ) -> rustix::io::Result<()> {
        for at in 0..self.far.len() {
            let Some(far) = &self.far[at] else { continue };
            self.listen(&self.events, far.stream.input(), FAR, at as u64)?;
            if let Some(errors) = &far.errors {
                self.listen(&self.events, errors.input(), FAR_ERRORS, at as u64)?;
            }
            let pids = far.pids.clone();
            for (number, pid) in pids {
                let Some(node) = nodes.get(number as usize) else { continue };
                let tag = self.launch.output.tags.then(|| number.to_string());
                let app = app_of(&self.launch.apps, number);
                self.enlist_far_one((at, *node), (number, pid), tag.as_deref(), app);
            }
        }
        for (rank, pipe) in inputs {
            self.listen(&self.events, pipe.as_fd(), FAR_INPUT, rank.into())?;
            self.far_inputs.push(FarInput { rank, pipe: Some(pipe), under_way: 0 });
        }
        Ok(())
    }

    /// Takes a process of an agent, which is on a node, among the members.
    pub(super) fn enlist_far_one(
        &mut self,
        (at, node): (usize, u32),
        (number, pid): (u32, u32),
        tag: Option<&str>,
        app: usize,
    ) {
        let times = self.launch.output.times;
        let member = Member {
            rank: None,
            relic: None,
            has_left: false,
            is_forgotten: false,
            running: true,
            outputs: [None, None],
            lines: [0, 1].map(|_| Lines::new(tag, times)),
            plug: None,
            node,
            host: Some(at),
            far_open: [true; 2],
            seen: Glimpse { pid, ..Glimpse::default() },
            rests: false,
            app,
        };
        self.open_count += 2;
        self.members.insert(number, member);
    }

    /// Whether a process is on another host.
    pub(super) fn is_far(&self, rank: u32) -> bool {
        self.members.get(&rank).is_some_and(|member| member.host.is_some())
    }

    pub(super) fn post_far(&mut self, at: usize, message: &ToAgent) {
        if let Some(Some(far)) = self.far.get_mut(at) {
            far.post(message);
        }
    }

    /// Sends a message to the agents of the hosts where processes are.
    pub(super) fn post_homes(&mut self, processes: &Range<u32>, message: &ToAgent) {
        let homes = self.members.range(processes.clone()).filter_map(|(_, member)| member.host);
        let homes: BTreeSet<usize> = homes.collect();
        homes.into_iter().for_each(|at| self.post_far(at, message));
    }

    pub(super) fn post_all(&mut self, message: &ToAgent) {
        self.far.iter_mut().flatten().for_each(|far| far.post(message));
    }

    /// An agent has said something, or there is room in its stream.
    pub(super) fn far_ready(&mut self, at: usize) {
        let Some(Some(far)) = self.far.get_mut(at) else { return };
        far.stream.flush();
        let ended = match far.stream.read() {
            Ok(true) => None,
            Ok(false) => Some(None),
            Err(error) => Some(Some(error)),
        };
        far.heard = Instant::now();
        self.hear_far(at);
        if let Some(error) = ended {
            self.lose_host(at, error);
        }
    }

    /// Takes what agents have said since their ranks run: it may have come together with the report that they do, and then
    /// nothing tells of it any more.
    pub(super) fn hear_all_far(&mut self) {
        let now = Instant::now();
        // Starting may have taken longer than an agent may be silent.
        self.far.iter_mut().flatten().for_each(|far| far.heard = now);
        (0..self.far.len()).for_each(|at| self.hear_far(at));
    }

    /// Takes all messages that have come whole; one read brings no more than others can wait for.
    pub(super) fn hear_far(&mut self, at: usize) {
        loop {
            let Some(Some(far)) = self.far.get_mut(at) else { return };
            match far.next() {
                Ok(Some(message)) => self.heed_far(at, message),
                Ok(None) => return,
                Err(error) => return self.lose_senseless(at, &error),
            }
        }
    }

    fn heed_far(&mut self, at: usize, message: FromAgent) {
        // An agent speaks for its own processes alone.
        let is_own = |launcher: &Self, rank: u32| {
            launcher.members.get(&rank).is_some_and(|member| member.host == Some(at))
        };
        match message {
            FromAgent::Alive => {}
            // Of processes that were to be spawned, and are not wanted any more.
            FromAgent::Ready { .. } | FromAgent::Started { .. } | FromAgent::Failed { .. } => {}
            FromAgent::Text { text } => self.print(&text),
            // Of processes that are forgotten or given up, or were to be spawned and are not wanted any more.
            FromAgent::Request { rank, .. } | FromAgent::Exited { rank, .. }
                if self.members.get(&rank).is_none_or(|member| !member.running) => {}
            FromAgent::Request { rank, request, blob, seen } if is_own(self, rank) => {
                self.note_seen(rank, seen);
                self.request_of_far(rank, &request, blob);
            }
            FromAgent::Output { rank, is_error, bytes } if is_own(self, rank) => {
                if let Some(Some(far)) = self.far.get_mut(at) {
                    far.owed += bytes.len() as u64;
                }
                self.take_output(rank, usize::from(is_error), &bytes);
            }
            FromAgent::Exited { rank, exit, seen } if is_own(self, rank) => {
                self.note_seen(rank, seen);
                let seen = self.glimpse(rank);
                self.far_inputs.retain(|input| input.rank != rank);
                self.note_end(rank, exit, seen);
            }
            FromAgent::Output { rank, bytes, .. } if !self.members.contains_key(&rank) => {
                if let Some(Some(far)) = self.far.get_mut(at) {
                    far.owed += bytes.len() as u64;
                }
            }
            FromAgent::Seen(all) => {
                for (rank, seen) in all {
                    if is_own(self, rank) {
                        self.note_seen(rank, seen);
                    }
                }
                if let Some(Some(far)) = self.far.get_mut(at) {
                    far.note_answer();
                }
                self.tell_deferred(Instant::now());
            }
            FromAgent::Answer { asker, reply } => {
                let Some(Some(far)) = self.far.get_mut(at) else { return };
                let place = far.asking.iter().position(|(by, _)| *by == asker);
                if let Some(place) = place {
                    let (asker, wanted) = far.asking.swap_remove(place);
                    let refusal =
                        |error| Reply::Refused { rank: wanted, reason: format!("its agent: {error}") };
                    let reply = Reply::decode(&reply).unwrap_or_else(refusal);
                    self.tell_whereabouts(asker, wanted, reply);
                }
            }
            FromAgent::Relay { notice } => {
                if let Some(node) = self.node_of_agent(at) {
                    self.heed_relay(node, &notice);
                }
            }
            FromAgent::RelayEnded { pid, exit } => {
                if let Some(node) = self.node_of_agent(at) {
                    self.note_relay_end(node, pid.cast_signed(), exit);
                }
            }
            FromAgent::InputTaken { rank, bytes } => self.input_taken(rank, bytes),
            FromAgent::Returned { number, error, values } => match error.is_empty() {
                true => self.note_returns(number, &values),
                false if self.calling.as_ref().is_some_and(|calling| calling.number == number) => {
                    self.give_up_call(error);
                }
                // Of a call that was given up.
                false => {}
            },
            FromAgent::Stopped { .. }
            | FromAgent::Described { .. }
            | FromAgent::Piece { .. }
            | FromAgent::Imaged { .. } => {
                self.hear_of_hold(at, message);
            }
            _ => {
                let error = io::Error::new(io::ErrorKind::InvalidData, "it says what it must not");
                self.lose_host(at, Some(error));
            }
        }
    }

    fn node_of_agent(&self, at: usize) -> Option<u32> {
        self.far.get(at)?.as_ref().map(|far| far.node)
    }

    fn note_seen(&mut self, rank: u32, Seen { pid, stage, last_call, rests }: Seen) {
        let last_call = self.call_name(last_call);
        if let Some(member) = self.members.get_mut(&rank) {
            (member.seen, member.rests) = (Glimpse { pid, stage, last_call }, rests);
        }
    }

    fn request_of_far(&mut self, rank: u32, request: &[u8], contents: Option<Vec<u8>>) {
        let came = contents.map(|bytes| blob::write(&bytes)).transpose();
        match (Request::decode(request), came) {
            (Ok(request), Ok(came)) => self.heed(rank, request, came),
            (Err(error), _) => self.tell(Event::Say { text: format!("{}: {error}", self.job.name(rank)) }),
            (_, Err(error)) => self.conclude(rank, Err(error.to_string())),
        }
    }

    /// Sends an answer to a process on another host. Whether it is one.
    pub(super) fn answer_far(&mut self, rank: u32, reply: &Reply, fd: Option<BorrowedFd<'_>>) -> bool {
        let Some(at) = self.members.get(&rank).and_then(|member| member.host) else { return false };
        let contents = match (reply, fd) {
            (Reply::Given, Some(fd)) => blob::read(fd).map(Some).map_err(|error| error.to_string()),
            (_, None) => Ok(None),
            // Memory and sockets do not leave their host.
            _ => Err("it is on another host".to_string()),
        };
        let message = match contents {
            Ok(blob) => ToAgent::Answer { rank, reply: reply.encode(), blob },
            Err(reason) => {
                ToAgent::Answer { rank, reply: Reply::Refused { rank, reason }.encode(), blob: None }
            }
        };
        self.note_answer_in_hold();
        self.post_far(at, &message);
        true
    }

    /// Asks the agent of a process where that can be reached, for another process.
    pub(super) fn ask_host(&mut self, asker: u32, wanted: u32) {
        let at = self.members.get(&wanted).and_then(|member| member.host);
        match at.and_then(|at| self.far.get_mut(at)?.as_mut()) {
            Some(far) => {
                far.asking.push((asker, wanted));
                far.post(&ToAgent::Where { asker, rank: wanted });
            }
            None => {
                let reason = "the agent of its host is lost".to_string();
                self.answer(asker, &Reply::Refused { rank: wanted, reason }, None);
            }
        }
    }

    /// Sends a signal to those of these processes that are on other hosts.
    pub(super) fn signal_far(&mut self, signal: Signal, ranks: impl Iterator<Item = u32>) {
        let mut by_host: Vec<Vec<u32>> = vec![Vec::new(); self.far.len()];
        for rank in ranks {
            if let Some(at) = self.members.get(&rank).and_then(|member| member.host) {
                by_host[at].push(rank);
            }
        }
        for (at, ranks) in by_host.into_iter().enumerate().filter(|(_, ranks)| !ranks.is_empty()) {
            match self.far.get_mut(at) {
                Some(Some(far)) if signal == Signal::KILL => far.kill(ranks, Instant::now()),
                _ => self.post_far(at, &ToAgent::Signal { number: signal.as_raw(), ranks }),
            }
        }
    }

    /// Tells the processes on other hosts of one more death.
    pub(super) fn announce_far(&mut self) {
        self.post_all(&ToAgent::Died { count: 1 });
    }

    /// What an agent, or who passes it on, complains about.
    pub(super) fn far_complains(&mut self, at: usize) {
        let Some(Some(far)) = self.far.get_mut(at) else { return };
        let said = far.read_errors();
        self.sinks[1].queue().extend_from_slice(&said);
        self.sinks[1].write();
    }

    /// There is standard input for a process on another host.
    pub(super) fn far_input(&mut self, rank: u32) {
        let Some(input) = self.far_inputs.iter_mut().find(|input| input.rank == rank) else { return };
        let Some(pipe) = &input.pipe else { return };
        let bytes = match read_some(pipe, &mut self.buffer[..]) {
            Came::Bytes(n) => self.buffer[..n].to_vec(),
            Came::Nothing => return,
            Came::End => Vec::new(),
        };
        input.under_way += bytes.len() as u64;
        if bytes.is_empty() {
            // Closing takes it out of the epoll set, too.
            input.pipe = None;
        } else if input.under_way >= INPUT_WINDOW {
            let _ = epoll::delete(&self.events, pipe);
        }
        if let Some(at) = self.members.get(&rank).and_then(|member| member.host) {
            self.post_far(at, &ToAgent::Input { rank, bytes });
        }
    }

    fn input_taken(&mut self, rank: u32, bytes: u64) {
        let Some(input) = self.far_inputs.iter_mut().find(|input| input.rank == rank) else { return };
        let was_full = input.under_way >= INPUT_WINDOW;
        input.under_way = input.under_way.saturating_sub(bytes);
        if let (true, Some(pipe)) = (was_full && input.under_way < INPUT_WINDOW, &input.pipe) {
            let name = epoll::EventData::new_u64(FAR_INPUT << 32 | u64::from(rank));
            // It fails only if the pipe is not there, and it is.
            let _ = epoll::add(&self.events, pipe, name, epoll::EventFlags::IN);
        }
    }

    /// When something is to be done about other hosts though nothing comes.
    pub(super) fn far_time(&self) -> Option<Instant> {
        self.far.iter().flatten().map(Far::next_limit).min()
    }

    /// Lets agents send more output, listens for room in streams, and sees who is silent.
    pub(super) fn look_after_far(&mut self) {
        let full = self.sinks.iter().any(Sink::is_full);
        let now = Instant::now();
        let (mut silent, mut unanswered) = (Vec::new(), Vec::new());
        for (at, far) in self.far.iter_mut().enumerate() {
            let Some(far) = far else { continue };
            if far.owed > WINDOW / 4 && !full {
                let bytes = std::mem::take(&mut far.owed);
                far.post(&ToAgent::Taken { bytes });
                if self.finished.is_some() {
                    // What it sends now is awaited.
                    far.look();
                }
            }
            far.stream.flush();
            if far.is_behind != far.stream.is_behind() {
                far.is_behind = !far.is_behind;
                let name = epoll::EventData::new_u64(FAR << 32 | at as u64);
                // It fails only if the descriptor is not there, or there already, and it is as it should be.
                let _ = match far.is_behind {
                    true => epoll::add(&self.events, far.stream.output(), name, epoll::EventFlags::OUT),
                    false => epoll::delete(&self.events, far.stream.output()),
                };
            }
            if far.silence_ends() < now {
                silent.push(at);
            }
            // This process may itself have been stopped for long.
            if far.next_limit() <= now && !is_ready(far.stream.input(), PollFlags::IN) {
                unanswered.extend(far.take_unanswered(now).into_iter().map(|rank| (at, rank)));
            }
        }
        self.give_up(&unanswered);
        for at in silent {
            // This process may itself have been stopped for long.
            self.far_ready_if_there(at);
        }
    }

    /// Whether output may come from other hosts that is under way.
    pub(super) fn is_far_busy(&self, now: Instant) -> bool {
        let is_open = |at| {
            self.members.values().any(|member| member.host == Some(at) && member.far_open.contains(&true))
        };
        let busy = |(at, far): (usize, &Option<Far>)| {
            far.as_ref().is_some_and(|far| far.looks > 0 || now < far.heard + QUIET) && is_open(at)
        };
        self.far.iter().enumerate().any(busy)
    }

    /// Everything is over: the agents end, and what is left of their processes with them.
    pub(super) fn end_far(&mut self) {
        let mut all: Vec<Far> = self.far.iter_mut().filter_map(Option::take).collect();
        Far::end_all(&mut all);
    }
}
