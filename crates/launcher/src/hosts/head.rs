//! The head's side of its children in the tree of agents, until the ranks run.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use oxmpi_shm::segment::Boot;
use oxmpi_sys::spawn::Signals;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use tracing::info;

use super::child::{Child, FromChild, host_error, numbered, timespec};
use super::opening::HostAgent;
use super::pieces::{FileSender, PIECES_WAITING};
use crate::launch::{App, Deadline, Launch, LaunchError, Spread};
use oxmpi_rt_proto::agent::{
    AgentOrder, BranchHost, BranchReport, BranchRound, DownRoute, FromAgent, HostOrder,
    OrderedProgram, Receivers, StreamError, ToAgent, UpRoute,
};

/// The limit for an answer of a branch before the ranks run.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The limit for a branch that restores images, which are as large as the ranks' memory.
const RESTORING: Duration = Duration::from_secs(3600);
/// The limit for the answer to an order to kill processes.
const KILLING: Duration = Duration::from_secs(3);

/// A child of the head, with the branch below it.
#[derive(Debug)]
pub(crate) struct RemoteAgent {
    pub(crate) child: Child,
    /// Until when the ranks must be prepared, or run.
    limit: Instant,
    patience: Duration,
    /// The length of the last step before the ranks run, and the host that has taken it.
    pub(crate) slowest: (Duration, String),
    /// The answer of the present round.
    pub(crate) report: Option<BranchReport>,
    /// The addresses of the relays, by host.
    pub(crate) relays: Vec<(u32, String)>,
    pub(crate) refused: Option<String>,
    /// Messages that came while another answer was awaited.
    held: VecDeque<(UpRoute, FromAgent)>,
    /// The agent counts as lost after this time without a message.
    pub(crate) silence: Duration,
    /// Requests for addresses of processes of the branch: requester and process.
    pub(crate) address_requests: Vec<(u32, u32)>,
    pub(crate) unanswered_queries: u32,
    queries: u64,
    /// The number of the last state query of [`RemoteAgent::watch`].
    watch: u64,
    /// Orders to kill processes that may not be carried out yet.
    kills: Vec<Kill>,
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
fn done(round: BranchRound) -> &'static str {
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
    /// Starts all agents of a job, and waits until they have answered.
    pub(crate) fn open_all(
        launch: &Launch,
        (signals, deadline): Watch<'_>,
    ) -> Result<Vec<RemoteAgent>, LaunchError> {
        let silence = Duration::from_secs(launch.params.mpi_agent_silence_s());
        let hosts = (0..).zip(launch.spread.iter().flat_map(|spread| &spread.hosts));
        let to_reach = hosts.filter_map(|(node, host)| match host.agent.clone() {
            HostAgent::Opened(way) => Some(BranchHost { node, name: host.name.clone(), way }),
            HostAgent::Unneeded | HostAgent::Called => None,
        });
        let to_reach: Vec<BranchHost> = to_reach.collect();
        let starts = launch.spread.as_ref().map(|spread| spread.starts.clone()).unwrap_or_default();
        let step = launch.spread.as_ref().and_then(Spread::called);
        let open = |host: &BranchHost| {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.left());
            let named = (host.node, host.name.clone());
            let child = Child::open(named, &starts.opening(host)?, (silence, left), signals);
            child.map_err(|error| match deadline.filter(|deadline| deadline.left().is_zero()) {
                Some(Deadline { time, .. }) => {
                    LaunchError::TimedOut { time, text: error.to_string() }
                }
                None => error,
            })
        };
        let mut children = Child::open_all(to_reach, (&starts, launch.fan_out()), open)?;
        if let Some((step, hosts)) = step {
            children.extend(step.open(hosts, launch, (signals, deadline))?);
        }
        let mut all = RemoteAgent::of_children(launch, children);
        RemoteAgent::await_all(&mut all, BranchRound::Reached, (signals, deadline))?;
        Ok(all)
    }

    /// All children of the head of a new job.
    pub(crate) fn of_children(launch: &Launch, mut children: Vec<Child>) -> Vec<RemoteAgent> {
        let silence = Duration::from_secs(launch.params.mpi_agent_silence_s());
        let numbers = launch.params.mpi_ft_enable().then(Rc::default);
        children.iter_mut().for_each(|child| child.numbers.clone_from(&numbers));
        children.into_iter().map(|child| RemoteAgent::new(child, silence)).collect()
    }

    pub(crate) fn new(child: Child, silence: Duration) -> RemoteAgent {
        RemoteAgent {
            limit: child.last_message + PATIENCE,
            child,
            patience: PATIENCE,
            slowest: (Duration::ZERO, String::new()),
            report: None,
            relays: Vec::new(),
            refused: None,
            held: VecDeque::new(),
            silence,
            address_requests: Vec::new(),
            unanswered_queries: 0,
            watch: 0,
            queries: 0,
            kills: Vec::new(),
        }
    }

    /// Sends all agents the order, and waits until their ranks are prepared.
    pub(crate) fn prepare_all(
        all: &mut [RemoteAgent],
        order: AgentOrder,
        watch: Watch<'_>,
    ) -> Result<(), LaunchError> {
        if order.restore.is_some() {
            all.iter_mut().for_each(|far| far.patience = RESTORING);
        }
        RemoteAgent::ask_all(
            all,
            &ToAgent::Order(Box::new(order)),
            BranchRound::Ready { base: 0 },
            watch,
        )
    }

    pub(crate) fn start_all(
        all: &mut [RemoteAgent],
        addresses: Vec<(u32, String)>,
        watch: Watch<'_>,
    ) -> Result<(), LaunchError> {
        RemoteAgent::ask_all(
            all,
            &ToAgent::Go { addresses },
            BranchRound::Started { base: 0 },
            watch,
        )
    }

    fn ask_all(
        all: &mut [RemoteAgent],
        message: &ToAgent,
        round: BranchRound,
        watch: Watch<'_>,
    ) -> Result<(), LaunchError> {
        let numbers = all.first().and_then(|far| far.child.numbers.clone());
        let number = numbered(numbers.as_deref(), message);
        let bytes = message.encode(&DownRoute { to: Receivers::All, round: Some(round), number });
        all.iter_mut().for_each(|far| far.child.post_frame(number, &bytes));
        RemoteAgent::await_all(all, round, watch)
    }

    /// The addresses of all prepared ranks.
    pub(crate) fn addresses(all: &[RemoteAgent]) -> Vec<(u32, String)> {
        let reports = all.iter().filter_map(|far| far.report.as_ref());
        reports.flat_map(|report| report.addresses.clone()).collect()
    }

    /// The hosts that have no access to the images that are to be restored.
    pub(crate) fn hosts_without_images(&self) -> Vec<u32> {
        self.report.as_ref().map(|report| report.wants_images.clone()).unwrap_or_default()
    }

    /// Running ranks and their processes.
    pub(crate) fn pids(&self) -> &[(u32, u32)] {
        self.report.as_ref().map_or(&[], |report| &report.pids)
    }

    pub(crate) fn send_files(
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
            let round = BranchRound::Started { base: 0 };
            if let Some(Deadline { time, .. }) =
                deadline.filter(|deadline| deadline.left().is_zero())
            {
                return Err(LaunchError::TimedOut { time, text: still_awaited(&[self], round) });
            }
            wait(&[self], signals, deadline.map_or(left, |deadline| deadline.left().min(left)))?;
            if let Some(number) = interrupted(signals) {
                return Err(LaunchError::Interrupted(number));
            }
            self.child.read_errors();
            self.read(round)?;
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

    fn await_all(
        all: &mut [RemoteAgent],
        round: BranchRound,
        (signals, deadline): Watch<'_>,
    ) -> Result<(), LaunchError> {
        let now = Instant::now();
        all.iter_mut().for_each(|far| (far.report, far.limit) = (None, now + far.patience));
        let mut awaited: Vec<&mut RemoteAgent> = all.iter_mut().collect();
        loop {
            let mut at = 0;
            while at < awaited.len() {
                if awaited[at].has_come(round)? {
                    let far = awaited.swap_remove(at);
                    far.note_slowest();
                    let (host, took) = (&far.child.host, far.slowest.0);
                    info!(host, ?took, "an agent has {}", done(round));
                } else {
                    at += 1;
                }
            }
            let Some(limit) = awaited.iter().map(|far| far.limit).min() else { return Ok(()) };
            let left = limit.saturating_duration_since(Instant::now());
            if let Some(Deadline { time, .. }) =
                deadline.filter(|deadline| deadline.left().is_zero())
            {
                return Err(LaunchError::TimedOut { time, text: still_awaited(&awaited, round) });
            }
            if left.is_zero() {
                let late = awaited.into_iter().min_by_key(|far| far.limit);
                let Some(RemoteAgent { child, patience, .. }) = late else { return Ok(()) };
                let text = format!(
                    "the agent there has not answered for {} s; it was started by '{}'\n  Next:    try that command by \
                     hand; it should print a line that begins with OXMPI-AGENT",
                    patience.as_secs(),
                    child.shown
                );
                return Err(host_error(&child.host, text));
            }
            awaited.iter_mut().for_each(|far| far.child.stream.flush());
            let left = deadline.map_or(left, |deadline| deadline.left().min(left));
            wait(&awaited, signals, left)?;
            if let Some(number) = interrupted(signals) {
                return Err(LaunchError::Interrupted(number));
            }
            for far in &mut awaited {
                far.child.read_errors();
                far.read(round)?;
            }
        }
    }

    fn note_slowest(&mut self) {
        if let Some((took, node)) = self.report.as_ref().and_then(|report| report.slowest) {
            self.slowest = (Duration::from_nanos(took), self.child.name_of(node).into());
        }
    }

    fn read(&mut self, round: BranchRound) -> Result<(), LaunchError> {
        match self.child.stream.read() {
            Ok(true) => Ok(()),
            // Messages before the end count.
            Ok(false) if self.has_come(round)? => Ok(()),
            ended => Err(self.child.why_ended(ended.err())),
        }
    }

    fn has_come(&mut self, round: BranchRound) -> Result<bool, LaunchError> {
        if self.report.is_some() {
            return Ok(true);
        }
        if round == BranchRound::Reached && self.child.hosts.len() == 1 {
            let has_greeted = self.child.greets();
            let has_greeted = has_greeted.map_err(|error| self.child.senseless(&error))?;
            self.report = has_greeted.then(|| self.child.reached());
            return Ok(has_greeted);
        }
        loop {
            let (route, message) = match self.read_next() {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(false),
                Err(error) => return Err(self.child.senseless(&error)),
            };
            let node = route.node;
            let host = || self.child.name_of(node).to_string();
            match message {
                FromAgent::Report { round: of, mut report } if of == round => {
                    match round {
                        BranchRound::Ready { .. } => self.relays.clone_from(&report.relays),
                        BranchRound::Reached => report.add(self.child.reached()),
                        _ => {}
                    }
                    self.report = Some(*report);
                    return Ok(true);
                }
                FromAgent::Failed { is_program, text, .. } => {
                    return Err(LaunchError::Host { host: host(), is_program, text });
                }
                FromAgent::Text { text } => oxmpi_sys::stdio::complain(format_args!("{text}")),
                FromAgent::Alive { .. } => {}
                FromAgent::HostsLost { nodes, text } => {
                    let first = nodes.first().map_or(node, |first| *first);
                    return Err(host_error(self.child.name_of(first), text));
                }
                // Ranks of a host may run before the answer of the whole branch is complete.
                message if matches!(round, BranchRound::Started { .. }) => {
                    self.held.push_back((route, message));
                }
                _ => {
                    let text = "its agent has sent an unexpected message".to_string();
                    return Err(host_error(&host(), text));
                }
            }
        }
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

    /// Handles the answers about a spawn, and keeps other messages for [`RemoteAgent::next`].
    pub(crate) fn take_answers(
        &mut self,
        round: BranchRound,
        base: u32,
    ) -> Result<(), StreamError> {
        while let Some((route, message)) = self.read_next()? {
            match message {
                FromAgent::Report { round: of, report } if of == round => {
                    self.report = Some(*report);
                }
                FromAgent::Failed { base: failed, text, .. } if failed >= base => {
                    self.refused =
                        Some(format!("host '{}': {text}", self.child.name_of(route.node)));
                }
                // About an earlier spawn, which has failed elsewhere.
                FromAgent::Failed { .. } => {}
                message => {
                    if let FromAgent::HostsLost { .. } = message {
                        self.refused = Some("a host is lost".into());
                    }
                    self.held.push_back((route, message));
                }
            }
        }
        Ok(())
    }
}

/// The agents without an answer, and the command that started the first one.
fn still_awaited(awaited: &[&mut RemoteAgent], round: BranchRound) -> String {
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

fn wait(
    awaited: &[&mut RemoteAgent],
    signals: &Signals,
    left: Duration,
) -> Result<(), LaunchError> {
    let signals: BorrowedFd<'_> = signals.as_fd();
    let mut fds = vec![PollFd::from_borrowed_fd(signals, PollFlags::IN)];
    awaited.iter().for_each(|far| far.child.poll_into(&mut fds));
    match poll(&mut fds, Some(&timespec(left))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(LaunchError::Kernel("wait for the agents on other hosts", error.into())),
    }
}

/// The signal by which the user ends the job before it runs.
pub(super) fn interrupted(signals: &Signals) -> Option<i32> {
    let ends = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
    signals.next().ok().flatten().filter(|number| ends.contains(number))
}
