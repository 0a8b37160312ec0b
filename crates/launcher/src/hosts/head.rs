//! The head's side of an agent until the ranks run.

mod end;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use oxmpi_shm::segment::Boot;
use oxmpi_sys::spawn::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use tracing::{debug, info, trace};

use super::opening::{Carrier, OpenedStream, Opening};
use super::pieces::{FileSender, PIECES_WAITING};
use crate::launch::{App, Deadline, Launch, LaunchError};
use oxmpi_daemon::PATIENCE as DAEMON_PATIENCE;
use oxmpi_daemon::diagnostics::MessageName;
use oxmpi_daemon::stream::Stream;
use oxmpi_rt_proto::agent::{
    self, AgentOrder, FromAgent, LifelineOffer, OrderedProgram, StreamError, ToAgent,
};

/// The limit for an agent's answer before the ranks run.
const PATIENCE: Duration = Duration::from_secs(60);
/// The limit for an agent that restores images, which are as large as the ranks' memory.
const RESTORING: Duration = Duration::from_secs(3600);
/// The most bytes of an agent's error output that are kept.
const MAX_SAID: usize = 4096;
/// The limit for the answer to an order to kill processes.
const KILLING: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct RemoteAgent {
    /// As the user has named it.
    pub(crate) host: String,
    pub(crate) node: u32,
    pub(crate) stream: Stream,
    pub(crate) errors: Option<Stream>,
    said: Vec<u8>,
    carrier: Carrier,
    /// The command that opened the stream, for the user.
    shown: String,
    /// Whether the agent has greeted, so that messages follow.
    has_greeted: bool,
    /// Until when the ranks must be prepared, or run.
    limit: Instant,
    patience: Duration,
    /// The beginning and the length of the last step before the ranks run.
    since: Instant,
    pub(crate) took: Duration,
    pub(crate) addresses: Vec<(u32, String)>,
    /// The address of the agent's relay; empty if there is none.
    pub(crate) relay: String,
    /// The agent's host has no access to the images that are to be restored.
    pub(crate) wants_images: bool,
    pub(crate) pids: Vec<(u32, u32)>,
    pub(crate) refused: Option<String>,
    /// Messages that came while another answer was awaited.
    held: VecDeque<FromAgent>,
    /// The agent counts as lost after this time without a message.
    pub(crate) silence: Duration,
    pub(crate) last_message: Instant,
    /// Bytes of output that are printed and not yet acknowledged to the agent.
    pub(crate) owed: u64,
    /// Requests for addresses of processes there: requester and process.
    pub(crate) address_requests: Vec<(u32, u32)>,
    pub(crate) unanswered_queries: u32,
    queries: u64,
    /// The number of the last state query of [`RemoteAgent::watch`].
    watch: u64,
    /// Orders to kill processes that may not be carried out yet.
    kills: Vec<Kill>,
    pub(crate) is_behind: bool,
}

#[derive(Debug)]
struct Kill {
    since: Instant,
    ranks: Vec<u32>,
    /// The number of the state query behind the order, whose answer confirms the order.
    query: u64,
}

/// The events that may end the wait for agents: the user's signals, or the job's time limit.
pub(crate) type Watch<'a> = (&'a Signals, Option<Deadline>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum AgentStage {
    Greeting,
    Ready,
    Started,
}

impl AgentStage {
    /// The end of a sentence about an agent that has come so far.
    fn done(self) -> &'static str {
        match self {
            AgentStage::Greeting => "answered",
            AgentStage::Ready => "got the ranks ready",
            AgentStage::Started => "started the ranks",
        }
    }
}

impl RemoteAgent {
    /// Opens the streams to all agents of a job, and waits for their greetings.
    pub(crate) fn open_all(
        launch: &Launch,
        watch: Watch<'_>,
    ) -> Result<Vec<RemoteAgent>, LaunchError> {
        let silence = Duration::from_secs(launch.params.mpi_agent_silence_s());
        let mut all = Vec::new();
        for (node, host) in (0..).zip(launch.spread.iter().flat_map(|spread| &spread.hosts)) {
            if let Some(opening) = &host.opening {
                all.push(RemoteAgent::open((&host.name, node, opening), silence, watch)?);
            }
        }
        RemoteAgent::await_all(&mut all, AgentStage::Greeting, watch)?;
        Ok(all)
    }

    fn open(
        (host, node, opening): (&str, u32, &Opening),
        silence: Duration,
        (signals, deadline): Watch<'_>,
    ) -> Result<RemoteAgent, LaunchError> {
        let (shown, since) = (opening.shown(), Instant::now());
        debug!(host, command = shown, "starting an agent");
        let patience =
            deadline.map_or(DAEMON_PATIENCE, |deadline| deadline.left().min(DAEMON_PATIENCE));
        let opened = opening.open((silence, patience), signals);
        let OpenedStream { stream, errors, carrier } = opened.map_err(|error| {
            let next = opening.remedy();
            let text =
                format!("cannot start an agent there: '{shown}': {error}\n  Next:    {next}");
            match deadline.filter(|deadline| deadline.left().is_zero()) {
                Some(Deadline { time, .. }) => {
                    LaunchError::TimedOut { time, text: format!("host '{host}': {text}") }
                }
                None => host_error(host, text),
            }
        })?;
        let now = Instant::now();
        Ok(RemoteAgent {
            host: host.into(),
            node,
            stream,
            errors: Some(errors),
            said: Vec::new(),
            carrier,
            shown,
            has_greeted: false,
            limit: now + PATIENCE,
            patience: PATIENCE,
            since,
            took: Duration::ZERO,
            addresses: Vec::new(),
            relay: String::new(),
            wants_images: false,
            pids: Vec::new(),
            refused: None,
            held: VecDeque::new(),
            silence,
            last_message: now,
            owed: 0,
            address_requests: Vec::new(),
            unanswered_queries: 0,
            watch: 0,
            queries: 0,
            kills: Vec::new(),
            is_behind: false,
        })
    }

    pub(crate) fn order(
        &self,
        launch: &Launch,
        (boot, secret): (&Boot, [u8; 32]),
        nodes: &[u32],
        fed: &[u32],
        lifeline: Option<&LifelineOffer>,
    ) -> AgentOrder {
        let own = |rank: &&u32| nodes.get(**rank as usize) == Some(&self.node);
        AgentOrder {
            universe: boot.job_id,
            node: self.node,
            base: 0,
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
            fed: fed.iter().filter(own).copied().collect(),
            lifeline: lifeline.filter(|_| self.needs_lifeline()).cloned(),
            restore: None,
        }
    }

    /// Whether the stream is one that does not end when this host stops answering.
    pub(crate) fn needs_lifeline(&self) -> bool {
        matches!(self.carrier, Carrier::Process(_))
    }

    /// Sends all agents their orders, and waits until their ranks are prepared.
    pub(crate) fn prepare_all(
        all: &mut [RemoteAgent],
        order: impl Fn(&RemoteAgent) -> AgentOrder,
        watch: Watch<'_>,
    ) -> Result<(), LaunchError> {
        for far in &mut *all {
            let order = order(far);
            if order.restore.is_some() {
                far.patience = RESTORING;
            }
            far.begin_step(&ToAgent::Order(Box::new(order)));
        }
        RemoteAgent::await_all(all, AgentStage::Ready, watch)
    }

    pub(crate) fn start_all(all: &mut [RemoteAgent], watch: Watch<'_>) -> Result<(), LaunchError> {
        all.iter_mut().for_each(|far| far.begin_step(&ToAgent::Go));
        RemoteAgent::await_all(all, AgentStage::Started, watch)
    }

    pub(crate) fn send_files(
        &mut self,
        mut files: FileSender,
        (signals, deadline): Watch<'_>,
    ) -> Result<(), LaunchError> {
        let mut progress = (Instant::now(), usize::MAX);
        loop {
            self.stream.flush();
            while self.stream.behind() < PIECES_WAITING {
                let next = files.next().map_err(|error| {
                    LaunchError::Restore(format!(
                        "an image cannot be read for host '{}': {error}",
                        self.host
                    ))
                });
                let Some((name, bytes)) = next? else { return Ok(()) };
                self.post(&ToAgent::Piece { name, bytes });
                self.stream.flush();
            }
            if self.stream.behind() != progress.1 {
                progress = (Instant::now(), self.stream.behind());
            }
            let left = self.silence.saturating_sub(progress.0.elapsed());
            if left.is_zero() {
                let text = format!(
                    "its agent has taken nothing of an image for {} s",
                    self.silence.as_secs()
                );
                return Err(host_error(&self.host, text));
            }
            if let Some(Deadline { time, .. }) =
                deadline.filter(|deadline| deadline.left().is_zero())
            {
                return Err(LaunchError::TimedOut {
                    time,
                    text: still_awaited(&[self], AgentStage::Started),
                });
            }
            wait(&[self], signals, deadline.map_or(left, |deadline| deadline.left().min(left)))?;
            if let Some(number) = interrupted(signals) {
                return Err(LaunchError::Interrupted(number));
            }
            self.read_errors();
            self.read(AgentStage::Started)?;
        }
    }

    /// When the agent counts as lost if no message comes before.
    pub(crate) fn silence_ends(&self) -> Instant {
        self.last_message + self.silence
    }

    pub(crate) fn kill(&mut self, ranks: Vec<u32>, now: Instant) {
        self.post(&ToAgent::Signal { number: Signal::KILL.as_raw(), ranks: ranks.clone() });
        self.query();
        self.kills.push(Kill { since: now, ranks, query: self.queries });
    }

    pub(crate) fn note_answer(&mut self) {
        self.unanswered_queries = self.unanswered_queries.saturating_sub(1);
        let answered = self.answered();
        self.kills.retain(|kill| kill.query > answered);
    }

    /// The next time limit: for an order to kill, or for any message.
    pub(crate) fn next_limit(&self) -> Instant {
        let killed = self.kills.iter().map(|kill| kill.since + KILLING);
        killed.fold(self.silence_ends(), Instant::min)
    }

    /// The processes of orders to kill that were not answered in time.
    pub(crate) fn take_unanswered(&mut self, now: Instant) -> Vec<u32> {
        let late = |kill: &mut Kill| kill.since + KILLING <= now;
        self.kills.extract_if(.., late).flat_map(|kill| kill.ranks).collect()
    }

    pub(crate) fn post(&mut self, message: &ToAgent) {
        let bytes = message.encode();
        trace!(host = self.host, kind = %MessageName(message), bytes = bytes.len(), "to an agent");
        self.stream.post(&bytes);
    }

    fn begin_step(&mut self, message: &ToAgent) {
        self.since = Instant::now();
        self.post(message);
    }

    pub(crate) fn query(&mut self) {
        self.unanswered_queries += 1;
        self.queries += 1;
        self.post(&ToAgent::QueryState);
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
        stage: AgentStage,
        (signals, deadline): Watch<'_>,
    ) -> Result<(), LaunchError> {
        all.iter_mut().for_each(|far| far.limit = Instant::now() + far.patience);
        let mut awaited: Vec<&mut RemoteAgent> = all.iter_mut().collect();
        loop {
            let mut at = 0;
            while at < awaited.len() {
                if awaited[at].has_come(stage)? {
                    let far = awaited.swap_remove(at);
                    far.took = far.since.elapsed();
                    info!(host = far.host, took = ?far.took, "an agent has {}", stage.done());
                } else {
                    at += 1;
                }
            }
            let Some(limit) = awaited.iter().map(|far| far.limit).min() else { return Ok(()) };
            let left = limit.saturating_duration_since(Instant::now());
            if let Some(Deadline { time, .. }) =
                deadline.filter(|deadline| deadline.left().is_zero())
            {
                return Err(LaunchError::TimedOut { time, text: still_awaited(&awaited, stage) });
            }
            if left.is_zero() {
                let late = awaited.iter().min_by_key(|far| far.limit).map_or("", |far| &far.host);
                let patience = awaited
                    .iter()
                    .find(|far| far.host == late)
                    .map_or(PATIENCE, |far| far.patience);
                let shown =
                    awaited.iter().find(|far| far.host == late).map_or("", |far| &far.shown);
                let text = format!(
                    "the agent there has not answered for {} s; it was started by '{shown}'\n  Next:    try that command by \
                     hand; it should print a line that begins with OXMPI-AGENT",
                    patience.as_secs()
                );
                return Err(host_error(late, text));
            }
            awaited.iter_mut().for_each(|far| far.stream.flush());
            let left = deadline.map_or(left, |deadline| deadline.left().min(left));
            wait(&awaited, signals, left)?;
            if let Some(number) = interrupted(signals) {
                return Err(LaunchError::Interrupted(number));
            }
            for far in &mut awaited {
                far.read_errors();
                far.read(stage)?;
            }
        }
    }

    fn read(&mut self, stage: AgentStage) -> Result<(), LaunchError> {
        match self.stream.read() {
            Ok(true) => Ok(()),
            // Messages before the end count.
            Ok(false) if self.has_come(stage)? => Ok(()),
            ended => Err(self.why_ended(ended.err())),
        }
    }

    fn has_come(&mut self, stage: AgentStage) -> Result<bool, LaunchError> {
        if !self.has_greeted {
            match agent::find_greeting(self.stream.came()) {
                Ok(None) => return Ok(false),
                Ok(Some(length)) => _ = self.stream.take(length),
                Err(error) => return Err(self.senseless(&error)),
            }
            self.has_greeted = true;
        }
        let has_come = match stage {
            AgentStage::Greeting => true,
            AgentStage::Ready => !self.addresses.is_empty(),
            AgentStage::Started => !self.pids.is_empty(),
        };
        if has_come {
            return Ok(true);
        }
        loop {
            let message = match self.next() {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(false),
                Err(error) => return Err(self.senseless(&error)),
            };
            match message {
                FromAgent::Ready { addresses, relay } if stage == AgentStage::Ready => {
                    (self.addresses, self.relay) = (addresses, relay);
                    return Ok(true);
                }
                FromAgent::Started { pids } if stage == AgentStage::Started => {
                    self.pids = pids;
                    return Ok(true);
                }
                FromAgent::Failed { is_program, text, .. } => {
                    return Err(LaunchError::Host { host: self.host.clone(), is_program, text });
                }
                FromAgent::WantsImages => self.wants_images = true,
                FromAgent::Text { text } => oxmpi_sys::stdio::complain(format_args!("{text}")),
                FromAgent::Alive => {}
                _ => {
                    let text = "its agent has sent an unexpected message".to_string();
                    return Err(host_error(&self.host, text));
                }
            }
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<FromAgent>, StreamError> {
        match self.held.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.decode_next(),
        }
    }

    fn decode_next(&mut self) -> Result<Option<FromAgent>, StreamError> {
        let Some(bytes) = self.stream.next_frame()? else { return Ok(None) };
        let (length, message) = (bytes.len(), FromAgent::decode(bytes)?);
        // Diagnostics come in texts.
        if !matches!(message, FromAgent::Text { .. }) {
            trace!(host = self.host, kind = %MessageName(&message), bytes = length, "from an agent");
        }
        Ok(Some(message))
    }

    /// Handles the answers about a spawn, and keeps other messages for [`RemoteAgent::next`].
    pub(crate) fn take_answers(&mut self, base: u32) -> Result<(), StreamError> {
        // An answer about an earlier spawn, which failed elsewhere, may come late.
        let is_new = |all: &[(u32, u32)]| all.iter().all(|(rank, _)| *rank >= base);
        while let Some(message) = self.decode_next()? {
            match message {
                FromAgent::Ready { addresses, .. }
                    if addresses.iter().all(|(rank, _)| *rank >= base) =>
                {
                    self.addresses = addresses;
                }
                FromAgent::Started { pids } if is_new(&pids) => self.pids = pids,
                FromAgent::Ready { .. } | FromAgent::Started { .. } => {}
                FromAgent::Failed { base: failed, text, .. } if failed >= base => {
                    self.refused = Some(text)
                }
                FromAgent::Failed { .. } => {}
                message => self.held.push_back(message),
            }
        }
        Ok(())
    }

    fn senseless(&self, error: &StreamError) -> LaunchError {
        let text =
            format!("the agent there cannot be used: {error}; it was started by '{}'", self.shown);
        host_error(&self.host, text)
    }

    /// Reads error output: kept for a report, and returned for the user.
    pub(crate) fn read_errors(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(errors) = &mut self.errors {
            let goes_on = matches!(errors.read(), Ok(true));
            let came = errors.came().len();
            all.extend_from_slice(errors.take(came));
            if !goes_on {
                self.errors = None;
            } else if came == 0 {
                break;
            }
        }
        self.said.extend_from_slice(&all);
        let surplus = self.said.len().saturating_sub(MAX_SAID);
        self.said.drain(..surplus);
        all
    }

    pub(crate) fn poll_into<'f>(&'f self, fds: &mut Vec<PollFd<'f>>) {
        fds.push(PollFd::from_borrowed_fd(self.stream.input(), PollFlags::IN));
        if self.stream.is_behind() {
            fds.push(PollFd::from_borrowed_fd(self.stream.output(), PollFlags::OUT));
        }
        fds.extend(
            self.errors
                .iter()
                .map(|errors| PollFd::from_borrowed_fd(errors.input(), PollFlags::IN)),
        );
    }
}

/// The agents without an answer, and the command that started the first one.
fn still_awaited(awaited: &[&mut RemoteAgent], stage: AgentStage) -> String {
    const NAMED: usize = 8;
    let names: Vec<String> =
        awaited.iter().take(NAMED).map(|far| format!("'{}'", far.host)).collect();
    let more = match awaited.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (agents, have) =
        if awaited.len() == 1 { ("agent of host", "has") } else { ("agents of hosts", "have") };
    let shown = awaited.first().map_or("", |far| &far.shown);
    format!(
        "the {agents} {}{more} {have} not {}; started by '{shown}'\n  Next:    give more time, or try that command by hand; it \
         should print a line that begins with OXMPI-AGENT",
        names.join(", "),
        stage.done()
    )
}

fn host_error(host: &str, text: String) -> LaunchError {
    LaunchError::Host { host: host.into(), is_program: false, text }
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

pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

fn wait(
    awaited: &[&mut RemoteAgent],
    signals: &Signals,
    left: Duration,
) -> Result<(), LaunchError> {
    let signals: BorrowedFd<'_> = signals.as_fd();
    let mut fds = vec![PollFd::from_borrowed_fd(signals, PollFlags::IN)];
    awaited.iter().for_each(|far| far.poll_into(&mut fds));
    match poll(&mut fds, Some(&timespec(left))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(LaunchError::Kernel("wait for the agents on other hosts", error.into())),
    }
}

/// The signal by which the user ends the job before it runs.
fn interrupted(signals: &Signals) -> Option<i32> {
    let ends = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
    signals.next().ok().flatten().filter(|number| ends.contains(number))
}
