//! The head's side of an agent, until the ranks run.

mod end;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use oxmpi_shm::segment::Boot;
use oxmpi_sys::spawn::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::message::{self, FromAgent, LifelineOffer, Order, Program, StreamError, ToAgent};
use super::opening::{Carrier, Opened, Opening};
use super::pieces::{FileSender, PIECES_WAITING};
use super::stream::Stream;
use crate::daemon::PATIENCE as DAEMON_PATIENCE;
use crate::launch::{App, Deadline, Launch, LaunchError};

/// How long an agent may take for an answer, before the ranks run.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for the images of its ranks to be restored, which are as large as their memory.
const RESTORING: Duration = Duration::from_secs(3600);
/// What is kept of complaints, in bytes.
const MAX_SAID: usize = 4096;
/// How long the answer to an order to kill processes is awaited: nobody waits for long when everything is over.
const KILLING: Duration = Duration::from_secs(3);

/// The agent of another host, as the head holds it.
#[derive(Debug)]
pub(crate) struct Far {
    /// The host, as the user has named it.
    pub(crate) host: String,
    /// Which of the nodes it is.
    pub(crate) node: u32,
    pub(crate) stream: Stream,
    pub(crate) errors: Option<Stream>,
    /// The last complaints.
    said: Vec<u8>,
    carrier: Carrier,
    /// How the stream was opened, for a person.
    shown: String,
    /// What comes is read as messages: the agent has greeted.
    has_greeted: bool,
    /// Until when the ranks have to be ready, or run.
    limit: Instant,
    /// How long that may take.
    patience: Duration,
    /// Where its ranks can be reached.
    pub(crate) addresses: Vec<(u32, String)>,
    /// Where its relay can be reached; empty if there is none.
    pub(crate) relay: String,
    /// It does not see the images that are to be restored.
    pub(crate) wants_images: bool,
    /// Their process numbers.
    pub(crate) pids: Vec<(u32, u32)>,
    /// Why processes are not started that were spawned.
    pub(crate) refused: Option<String>,
    /// What it said while it was to answer something else.
    held: VecDeque<FromAgent>,
    /// After how long it counts as lost if nothing comes from it.
    pub(crate) silence: Duration,
    /// When something came last.
    pub(crate) heard: Instant,
    /// Bytes of output that were taken, and of which the agent was not told.
    pub(crate) owed: u64,
    /// Who has asked where a process there can be reached.
    pub(crate) asking: Vec<(u32, u32)>,
    /// Looks that are not answered.
    pub(crate) looks: u32,
    /// Looks in all.
    asked: u64,
    /// The number of the look that was asked for last to watch its processes.
    watch: u64,
    /// Orders to kill processes that it may not have heeded.
    kills: Vec<Kill>,
    /// Room is awaited.
    pub(crate) is_behind: bool,
}

/// An order to kill processes.
#[derive(Debug)]
struct Kill {
    since: Instant,
    ranks: Vec<u32>,
    /// The look that the agent was asked for behind it, by its number: who answers that has heeded the order.
    look: u64,
}

/// What may end the wait for agents: the user, or the time of the job.
pub(crate) type Watch<'a> = (&'a Signals, Option<Deadline>);

/// What an agent has to answer before it goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Greeting,
    Ready,
    Started,
}

impl Far {
    /// Opens the streams to all agents that a job needs, and waits until they have greeted.
    pub(crate) fn open_all(launch: &Launch, watch: Watch<'_>) -> Result<Vec<Far>, LaunchError> {
        let silence = Duration::from_secs(launch.params.mpi_agent_silence_s());
        let mut all = Vec::new();
        for (node, host) in (0..).zip(launch.spread.iter().flat_map(|spread| &spread.hosts)) {
            if let Some(opening) = &host.opening {
                all.push(Far::open((&host.name, node, opening), silence, watch)?);
            }
        }
        Far::await_all(&mut all, Stage::Greeting, watch)?;
        Ok(all)
    }

    fn open(
        (host, node, opening): (&str, u32, &Opening),
        silence: Duration,
        (signals, deadline): Watch<'_>,
    ) -> Result<Far, LaunchError> {
        let shown = opening.shown();
        let patience = deadline.map_or(DAEMON_PATIENCE, |deadline| deadline.left().min(DAEMON_PATIENCE));
        let opened = opening.open((silence, patience), signals);
        let Opened { stream, errors, carrier } = opened.map_err(|error| {
            let next = opening.remedy();
            let text = format!("cannot start an agent there: '{shown}': {error}\n  Next:    {next}");
            match deadline.filter(|deadline| deadline.left().is_zero()) {
                Some(Deadline { time, .. }) => {
                    LaunchError::TimedOut { time, text: format!("host '{host}': {text}") }
                }
                None => host_error(host, text),
            }
        })?;
        let now = Instant::now();
        Ok(Far {
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
            addresses: Vec::new(),
            relay: String::new(),
            wants_images: false,
            pids: Vec::new(),
            refused: None,
            held: VecDeque::new(),
            silence,
            heard: now,
            owed: 0,
            asking: Vec::new(),
            looks: 0,
            watch: 0,
            asked: 0,
            kills: Vec::new(),
            is_behind: false,
        })
    }

    /// What the agent is to do.
    pub(crate) fn order(
        &self,
        launch: &Launch,
        (boot, secret): (&Boot, [u8; 32]),
        nodes: &[u32],
        fed: &[u32],
        lifeline: Option<&LifelineOffer>,
    ) -> Order {
        let own = |rank: &&u32| nodes.get(**rank as usize) == Some(&self.node);
        Order {
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

    /// Whether the stream is none that ends when this host does not answer any more.
    pub(crate) fn needs_lifeline(&self) -> bool {
        matches!(self.carrier, Carrier::Process(_))
    }

    /// Tells all agents what to do, and waits until they are ready.
    pub(crate) fn prepare_all(
        all: &mut [Far],
        order: impl Fn(&Far) -> Order,
        watch: Watch<'_>,
    ) -> Result<(), LaunchError> {
        for far in &mut *all {
            let order = order(far);
            if order.restore.is_some() {
                far.patience = RESTORING;
            }
            far.post(&ToAgent::Order(Box::new(order)));
        }
        Far::await_all(all, Stage::Ready, watch)
    }

    /// Lets all agents start their ranks, and waits until they have.
    pub(crate) fn start_all(all: &mut [Far], watch: Watch<'_>) -> Result<(), LaunchError> {
        all.iter_mut().for_each(|far| far.post(&ToAgent::Go));
        Far::await_all(all, Stage::Started, watch)
    }

    /// Sends the agent files of a set.
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
                    LaunchError::Restore(format!("an image cannot be read for host '{}': {error}", self.host))
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
                let text =
                    format!("its agent has taken nothing of an image for {} s", self.silence.as_secs());
                return Err(host_error(&self.host, text));
            }
            if let Some(Deadline { time, .. }) = deadline.filter(|deadline| deadline.left().is_zero()) {
                return Err(LaunchError::TimedOut { time, text: still_awaited(&[self], Stage::Started) });
            }
            wait(&[self], signals, deadline.map_or(left, |deadline| deadline.left().min(left)))?;
            if let Some(number) = interrupted(signals) {
                return Err(LaunchError::Interrupted(number));
            }
            self.read_errors();
            self.read(Stage::Started)?;
        }
    }

    /// When it counts as lost if nothing comes from it until then.
    pub(crate) fn silence_ends(&self) -> Instant {
        self.heard + self.silence
    }

    /// Has it kill processes.
    pub(crate) fn kill(&mut self, ranks: Vec<u32>, now: Instant) {
        self.post(&ToAgent::Signal { number: Signal::KILL.as_raw(), ranks: ranks.clone() });
        self.look();
        self.kills.push(Kill { since: now, ranks, look: self.asked });
    }

    /// It has answered a look.
    pub(crate) fn note_answer(&mut self) {
        self.looks = self.looks.saturating_sub(1);
        let answered = self.answered();
        self.kills.retain(|kill| kill.look > answered);
    }

    /// Until when it is awaited that it heeds what it was told last, or says something at all.
    pub(crate) fn next_limit(&self) -> Instant {
        let killed = self.kills.iter().map(|kill| kill.since + KILLING);
        killed.fold(self.silence_ends(), Instant::min)
    }

    /// The processes that it was to kill, and has not answered that for so long that nobody waits for them any more.
    pub(crate) fn take_unanswered(&mut self, now: Instant) -> Vec<u32> {
        let late = |kill: &mut Kill| kill.since + KILLING <= now;
        self.kills.extract_if(.., late).flat_map(|kill| kill.ranks).collect()
    }

    pub(crate) fn post(&mut self, message: &ToAgent) {
        self.stream.post(&message.encode());
    }

    /// Asks how far its processes are.
    pub(crate) fn look(&mut self) {
        self.looks += 1;
        self.asked += 1;
        self.post(&ToAgent::Look);
    }

    /// The same, and knows afterwards whether this is answered.
    pub(crate) fn watch(&mut self) {
        self.look();
        self.watch = self.asked;
    }

    /// Whether the last [`Far::watch`] is answered.
    pub(crate) fn has_answered_watch(&self) -> bool {
        self.watch <= self.answered()
    }

    /// The number of the last look that is answered.
    fn answered(&self) -> u64 {
        self.asked - u64::from(self.looks)
    }

    fn await_all(all: &mut [Far], stage: Stage, (signals, deadline): Watch<'_>) -> Result<(), LaunchError> {
        all.iter_mut().for_each(|far| far.limit = Instant::now() + far.patience);
        let mut awaited: Vec<&mut Far> = all.iter_mut().collect();
        loop {
            let mut at = 0;
            while at < awaited.len() {
                if awaited[at].has_come(stage)? {
                    awaited.swap_remove(at);
                } else {
                    at += 1;
                }
            }
            let Some(limit) = awaited.iter().map(|far| far.limit).min() else { return Ok(()) };
            let left = limit.saturating_duration_since(Instant::now());
            if let Some(Deadline { time, .. }) = deadline.filter(|deadline| deadline.left().is_zero()) {
                return Err(LaunchError::TimedOut { time, text: still_awaited(&awaited, stage) });
            }
            if left.is_zero() {
                let late = awaited.iter().min_by_key(|far| far.limit).map_or("", |far| &far.host);
                let patience =
                    awaited.iter().find(|far| far.host == late).map_or(PATIENCE, |far| far.patience);
                let shown = awaited.iter().find(|far| far.host == late).map_or("", |far| &far.shown);
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

    /// Reads what has come; the end is an error.
    fn read(&mut self, stage: Stage) -> Result<(), LaunchError> {
        match self.stream.read() {
            Ok(true) => Ok(()),
            // What it has said before its end counts.
            Ok(false) if self.has_come(stage)? => Ok(()),
            ended => Err(self.why_ended(ended.err())),
        }
    }

    /// Whether what is awaited has come.
    fn has_come(&mut self, stage: Stage) -> Result<bool, LaunchError> {
        if !self.has_greeted {
            match message::find_greeting(self.stream.came()) {
                Ok(None) => return Ok(false),
                Ok(Some(length)) => _ = self.stream.take(length),
                Err(error) => return Err(self.senseless(&error)),
            }
            self.has_greeted = true;
        }
        let has_come = match stage {
            Stage::Greeting => true,
            Stage::Ready => !self.addresses.is_empty(),
            Stage::Started => !self.pids.is_empty(),
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
                FromAgent::Ready { addresses, relay } if stage == Stage::Ready => {
                    (self.addresses, self.relay) = (addresses, relay);
                    return Ok(true);
                }
                FromAgent::Started { pids } if stage == Stage::Started => {
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
                    let text = "its agent says what it must not at this time".to_string();
                    return Err(host_error(&self.host, text));
                }
            }
        }
    }

    /// The next message that has come.
    pub(crate) fn next(&mut self) -> Result<Option<FromAgent>, StreamError> {
        match self.held.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.stream.next()?.map(FromAgent::decode).transpose(),
        }
    }

    /// Takes what it has said of processes that are being spawned, and keeps the rest for [`Far::next`].
    pub(crate) fn take_answers(&mut self, base: u32) -> Result<(), StreamError> {
        // An earlier spawn may have failed elsewhere meanwhile.
        let is_new = |all: &[(u32, u32)]| all.iter().all(|(rank, _)| *rank >= base);
        while let Some(message) = self.stream.next()?.map(FromAgent::decode).transpose()? {
            match message {
                FromAgent::Ready { addresses, .. } if addresses.iter().all(|(rank, _)| *rank >= base) => {
                    self.addresses = addresses;
                }
                FromAgent::Started { pids } if is_new(&pids) => self.pids = pids,
                FromAgent::Ready { .. } | FromAgent::Started { .. } => {}
                FromAgent::Failed { base: failed, text, .. } if failed >= base => self.refused = Some(text),
                FromAgent::Failed { .. } => {}
                message => self.held.push_back(message),
            }
        }
        Ok(())
    }

    fn senseless(&self, error: &StreamError) -> LaunchError {
        let text = format!("the agent there is not understood: {error}; it was started by '{}'", self.shown);
        host_error(&self.host, text)
    }

    /// Reads complaints. They are kept for a report, and returned for the user.
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
        fds.extend(self.errors.iter().map(|errors| PollFd::from_borrowed_fd(errors.input(), PollFlags::IN)));
    }
}

/// Of which agents an answer is missing, and how the first one was started.
fn still_awaited(awaited: &[&mut Far], stage: Stage) -> String {
    const NAMED: usize = 8;
    let names: Vec<String> = awaited.iter().take(NAMED).map(|far| format!("'{}'", far.host)).collect();
    let more = match awaited.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (agents, have) =
        if awaited.len() == 1 { ("agent of host", "has") } else { ("agents of hosts", "have") };
    let what = match stage {
        Stage::Greeting => "answered",
        Stage::Ready => "got the ranks ready",
        Stage::Started => "started the ranks",
    };
    let shown = awaited.first().map_or("", |far| &far.shown);
    format!(
        "the {agents} {}{more} {have} not {what}; started by '{shown}'\n  Next:    give more time, or try that command by hand; it \
         should print a line that begins with OXMPI-AGENT",
        names.join(", ")
    )
}

fn host_error(host: &str, text: String) -> LaunchError {
    LaunchError::Host { host: host.into(), is_program: false, text }
}

pub(crate) fn program(app: &App) -> Program {
    let here = || std::env::current_dir().unwrap_or_else(|_| "/".into());
    Program {
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

fn wait(awaited: &[&mut Far], signals: &Signals, left: Duration) -> Result<(), LaunchError> {
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
