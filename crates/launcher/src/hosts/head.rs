//! A child of the head in the tree of agents.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use oxmpi_shm::segment::Boot;
use oxmpi_sys::spawn::Signals;
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use super::branches::AnswerRound;
use super::child::{Child, FromChild, host_error};
use super::pieces::{FileSender, PIECES_WAITING};
use crate::launch::{App, Deadline, Launch, LaunchError, kernel};
use crate::polling::wait_for;
use oxmpi_rt_proto::agent::{
    AgentOrder, BranchReport, BranchRound, FromAgent, HostOrder, OrderedProgram, Receivers,
    StreamError, ToAgent, UpRoute,
};

/// The limit for the answer to an order to kill processes.
const KILLING: Duration = Duration::from_secs(3);

/// A child of the head, with the branch below it.
#[derive(Debug)]
pub(crate) struct RemoteAgent {
    pub(crate) child: Child,
    /// The length of the last step before the ranks run, and the host that has taken it.
    pub(crate) slowest: (Duration, String),
    /// The answer of the present round.
    pub(crate) report: Option<BranchReport>,
    /// The addresses of the relays, by host.
    pub(crate) relays: Vec<(u32, String)>,
    /// Messages that came while another answer was awaited.
    held: VecDeque<(UpRoute, FromAgent)>,
    /// The agent counts as lost after this time without a message.
    pub(crate) silence: Duration,
    /// Requests for addresses of processes of the branch.
    pub(crate) address_requests: Vec<AddressRequest>,
    pub(crate) unanswered_queries: u32,
    queries: u64,
    /// The number of the last state query of [`RemoteAgent::watch`].
    watch: u64,
    /// Orders to kill processes that may not be carried out yet.
    kills: Vec<Kill>,
}

/// The request of a process for the addresses of another one, on the host with this node.
#[derive(Debug)]
pub(crate) struct AddressRequest {
    pub(crate) asker: u32,
    pub(crate) wanted: u32,
    pub(crate) node: u32,
}

#[derive(Debug)]
struct Kill {
    since: Instant,
    /// The processes, each with its host.
    ranks: Vec<(u32, u32)>,
    /// The number of the state query behind the order, whose answer confirms the order.
    query: u64,
}

/// The events that may end the wait for agents: the user's signals, or the job's time limit.
pub(crate) type Watch<'a> = (&'a Signals, Option<Deadline>);

/// The end of a sentence about an agent that has answered in a round.
pub(super) fn done(round: BranchRound) -> &'static str {
    match round {
        BranchRound::Reached => "answered",
        BranchRound::Ready { .. } => "got the ranks ready",
        BranchRound::Started { .. } => "started the ranks",
        BranchRound::Seen { .. } => "reported the state of the ranks",
    }
}

/// The order to prepare the ranks of a job, for all agents.
pub(crate) fn order(
    launch: &Launch,
    (boot, secret): (&Boot, [u8; 32]),
    nodes: &[u32],
    fed: Vec<u32>,
) -> AgentOrder {
    AgentOrder {
        universe: boot.job_id,
        base: boot.base,
        several: launch.spread.as_ref().is_some_and(|spread| spread.hosts.len() > 1),
        deaths: 0,
        step: 0,
        sockets: boot.sockets,
        nodes: nodes.to_vec(),
        apps: launch.apps.iter().map(program).collect(),
        env: launch.env.clone(),
        secret,
        hostmap: launch.hostmap.pairs(),
        bind: launch.bind,
        report_bindings: launch.report_bindings,
        fed,
        restore: None,
    }
}

impl RemoteAgent {
    pub(crate) fn new(child: Child, silence: Duration) -> RemoteAgent {
        RemoteAgent {
            child,
            slowest: (Duration::ZERO, String::new()),
            report: None,
            relays: Vec::new(),
            held: VecDeque::new(),
            silence,
            address_requests: Vec::new(),
            unanswered_queries: 0,
            watch: 0,
            queries: 0,
            kills: Vec::new(),
        }
    }

    pub(super) fn send_files(
        &mut self,
        node: u32,
        mut files: FileSender,
        (signals, deadline): Watch<'_>,
    ) -> Result<(), LaunchError> {
        let host = self.child.name_of(node).to_string();
        let mut progress = (Instant::now(), usize::MAX);
        loop {
            self.child.stream.flush();
            while self.child.stream.behind() < PIECES_WAITING {
                let next = files.next().map_err(|error| {
                    LaunchError::Restore(format!(
                        "an image cannot be read for host '{host}': {error}"
                    ))
                });
                let Some((name, bytes)) = next? else { return Ok(()) };
                self.post_to(node, &ToAgent::Piece { name, bytes });
                self.child.stream.flush();
            }
            if self.child.stream.behind() != progress.1 {
                progress = (Instant::now(), self.child.stream.behind());
            }
            let left = self.silence.saturating_sub(progress.0.elapsed());
            if left.is_zero() {
                let text = format!(
                    "its agent has taken nothing of an image for {} s",
                    self.silence.as_secs()
                );
                return Err(host_error(&host, text));
            }
            if let Some(Deadline { time, .. }) =
                deadline.filter(|deadline| deadline.left().is_zero())
            {
                return Err(LaunchError::TimedOut {
                    time,
                    text: still_awaited(&[self], BranchRound::Started { base: 0 }),
                });
            }
            wait(&[self], signals, deadline.map_or(left, |deadline| deadline.left().min(left)))?;
            if let Some(number) = interrupted(signals) {
                return Err(LaunchError::Interrupted(number));
            }
            self.child.read_errors();
            if let Some(error) = self.child.read() {
                return Err(self.child.why_ended(error));
            }
        }
    }

    /// When the agent counts as lost if no message comes before.
    pub(crate) fn silence_ends(&self) -> Instant {
        self.child.last_message + self.silence
    }

    /// Kills processes of the branch, each with its host.
    pub(crate) fn kill(&mut self, ranks: Vec<(u32, u32)>, now: Instant) {
        let number = Signal::KILL.as_raw();
        let numbers = ranks.iter().map(|(rank, _)| *rank).collect();
        self.post(&ToAgent::Host(HostOrder::Signal { number, ranks: numbers }));
        self.query();
        self.kills.push(Kill { since: now, ranks, query: self.queries });
    }

    /// Notes the answer to a state query, which these hosts have not answered.
    pub(crate) fn note_answer(&mut self, silent: &[u32]) {
        self.unanswered_queries = self.unanswered_queries.saturating_sub(1);
        let answered = self.answered();
        for kill in self.kills.iter_mut().filter(|kill| kill.query <= answered) {
            kill.ranks.retain(|(_, node)| silent.contains(node));
        }
        self.kills.retain(|kill| !kill.ranks.is_empty());
    }

    /// The next time limit: for an order to kill, or for any message.
    pub(crate) fn next_limit(&self) -> Instant {
        let killed = self.kills.iter().map(|kill| kill.since + KILLING);
        killed.fold(self.silence_ends(), Instant::min)
    }

    /// The processes, each with its host, of orders to kill that were not answered in time.
    pub(crate) fn take_unanswered(&mut self, now: Instant) -> Vec<(u32, u32)> {
        let late = |kill: &mut Kill| kill.since + KILLING <= now;
        self.kills.extract_if(.., late).flat_map(|kill| kill.ranks).collect()
    }

    /// Sends a message to all agents of the branch.
    pub(crate) fn post(&mut self, message: &ToAgent) {
        self.child.post(message, Receivers::All, None);
    }

    /// Sends a message to the agent of a host.
    pub(crate) fn post_to(&mut self, node: u32, message: &ToAgent) {
        self.child.post(message, Receivers::Nodes(vec![node]), None);
    }

    /// Whether the branch has the host.
    pub(crate) fn leads_to(&self, node: u32) -> bool {
        self.child.nodes().any(|of| of == node)
    }

    pub(crate) fn query(&mut self) {
        self.unanswered_queries += 1;
        self.queries += 1;
        let query = self.queries;
        let round = Some(BranchRound::Seen { query });
        self.child.post(&ToAgent::QueryState { query }, Receivers::All, round);
    }

    /// Queries the state, and notes the query for [`RemoteAgent::has_answered_watch`].
    pub(crate) fn watch(&mut self) {
        self.query();
        self.watch = self.queries;
    }

    pub(crate) fn has_answered_watch(&self) -> bool {
        self.watch <= self.answered()
    }

    fn answered(&self) -> u64 {
        self.queries - u64::from(self.unanswered_queries)
    }

    pub(super) fn note_slowest(&mut self) {
        if let Some((took, node)) = self.report.as_ref().and_then(|report| report.slowest) {
            self.slowest = (Duration::from_nanos(took), self.child.name_of(node).into());
        }
    }

    /// Reads, and handles messages until the answer comes. Returns whether it has come.
    pub(super) fn read_answer(&mut self, answers: &AnswerRound) -> Result<bool, LaunchError> {
        if !answers.is_of_spawn {
            // What an agent says while ranks run is printed.
            self.child.read_errors();
        }
        let ended = self.child.read();
        // Messages before the end count.
        match (self.take_answer(answers)?, ended) {
            (true, _) => Ok(true),
            (false, None) => Ok(false),
            (false, Some(_)) if answers.is_of_spawn => Err(lost(&self.child.host)),
            (false, Some(error)) => Err(self.child.why_ended(error)),
        }
    }

    fn take_answer(&mut self, answers: &AnswerRound) -> Result<bool, LaunchError> {
        if self.report.is_some() {
            return Ok(true);
        }
        if answers.round == BranchRound::Reached && self.child.hosts.len() == 1 {
            let has_greeted = self.child.greets();
            let has_greeted = has_greeted.map_err(|error| self.child.senseless(&error))?;
            self.report = has_greeted.then(|| self.child.reached());
            return Ok(has_greeted);
        }
        let runs = answers.is_of_spawn;
        while let Some((route, message)) =
            self.read_next().map_err(|error| self.child.senseless(&error))?
        {
            let host = |node| self.child.name_of(node).to_string();
            match message {
                FromAgent::Report { round, mut report } if round == answers.round => {
                    self.relays.append(&mut report.relays);
                    if round == BranchRound::Reached {
                        report.add(self.child.reached());
                    }
                    self.report = Some(*report);
                    return Ok(true);
                }
                FromAgent::Failed { base, is_program, text } if base >= answers.base() => {
                    return Err(LaunchError::Host { host: host(route.node), is_program, text });
                }
                // About an earlier spawn, which has failed elsewhere.
                FromAgent::Failed { .. } => {}
                FromAgent::HostsLost { nodes, text } => {
                    let first = host(nodes.first().map_or(route.node, |first| *first));
                    if !runs {
                        return Err(host_error(&first, text));
                    }
                    self.held.push_back((route, FromAgent::HostsLost { nodes, text }));
                    return Err(lost(&first));
                }
                FromAgent::Text { text } if !runs => {
                    oxmpi_sys::stdio::complain(format_args!("{text}"));
                }
                FromAgent::Alive { .. } if !runs => {}
                // Ranks of a host may run before the answer of the whole branch is complete.
                message if runs || matches!(answers.round, BranchRound::Started { .. }) => {
                    self.held.push_back((route, message));
                }
                _ => {
                    let text = "its agent has sent an unexpected message".to_string();
                    return Err(host_error(&host(route.node), text));
                }
            }
        }
        Ok(false)
    }

    /// The next message, with its route.
    pub(crate) fn next(&mut self) -> Result<Option<(UpRoute, FromAgent)>, StreamError> {
        match self.held.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.read_next(),
        }
    }

    fn read_next(&mut self) -> Result<Option<(UpRoute, FromAgent)>, StreamError> {
        self.child.next()?.map(FromChild::read).transpose()
    }
}

fn lost(host: &str) -> LaunchError {
    LaunchError::AgentLost(format!("host '{host}' is lost"))
}

/// The agents without an answer, and the command that started the first one.
pub(super) fn still_awaited(awaited: &[&RemoteAgent], round: BranchRound) -> String {
    const NAMED: usize = 8;
    let names: Vec<String> =
        awaited.iter().take(NAMED).map(|far| format!("'{}'", far.child.host)).collect();
    let more = match awaited.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (agents, have) =
        if awaited.len() == 1 { ("agent of host", "has") } else { ("agents of hosts", "have") };
    let shown = awaited.first().map_or("", |far| &far.child.shown);
    format!(
        "the {agents} {}{more} {have} not {}; started by '{shown}'\n  Next:    give more time, or try that command by hand; it \
         should print a line that begins with OXMPI-AGENT",
        names.join(", "),
        done(round)
    )
}

pub(crate) fn program(app: &App) -> OrderedProgram {
    let here = || std::env::current_dir().unwrap_or_else(|_| "/".into());
    OrderedProgram {
        ranks: app.ranks,
        path: std::path::absolute(&app.path).unwrap_or_else(|_| app.path.clone()),
        args: app.args.clone(),
        inherited: app.inherits_chosen.then(|| app.inherited.clone()),
        env: app.env.clone(),
        directory: app.directory.clone().unwrap_or_else(here),
    }
}

pub(super) fn wait(
    awaited: &[&RemoteAgent],
    signals: &Signals,
    left: Duration,
) -> Result<(), LaunchError> {
    let signals: BorrowedFd<'_> = signals.as_fd();
    let mut fds = vec![PollFd::from_borrowed_fd(signals, PollFlags::IN)];
    awaited.iter().for_each(|far| far.child.poll_into(&mut fds));
    kernel("wait for the agents on other hosts", wait_for(&mut fds, Some(left))).map(drop)
}

/// The signal by which the user ends the job before it runs.
pub(super) fn interrupted(signals: &Signals) -> Option<i32> {
    let ends = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
    signals.next().ok().flatten().filter(|number| ends.contains(number))
}
