//! The agent: starts the ranks of one host for the head on another, and supervises them.
//!
//! One thread with one loop, as the launcher. The ranks are those of its [`HostLauncher`], which
//! gets the orders of the head, and whose reports the agent sends. It sends at most [`WINDOW`]
//! bytes of output more than its parent has passed on, so that no side buffers output that no
//! process reads. It also starts the agents below it in the tree, and forwards their messages
//! (`children.rs`).

mod adoption;
mod answers;
mod children;
mod images;
mod ranks;
mod starting;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use oxmpi_sys::net::wait_when_unanswered;
use oxmpi_sys::spawn::Signals;
use rustix::event::{PollFd, PollFlags, epoll};
use rustix::process::Signal;
use tracing::{debug, info, trace, warn};

use self::children::EVENTS_WAIT;
use self::images::ImageTransfer;
use self::starting::ReadyRanks;
use super::child::Child;
use super::joiners::{JoinerNews, Joiners};
use super::lifeline::{Fate, Lifeline};
use super::lifelines::Lifelines;
use super::pieces::{FileReceiver, ImageDirectory};
use super::tree::{Junction, Kept, Stranded};
use crate::host::{FromHost, HostLauncher, OTHER_EVENTS};
use crate::launch::{HeldRank, LaunchError};
use crate::polling::{self, wait_for};
use oxmpi_daemon::diagnostics::{HeldLines, MessageName};
use oxmpi_daemon::stream::Stream;
use oxmpi_rt_proto::agent::{
    BranchReport, BranchRound, FromAgent, HostOrder, HostReport, LifelineOffer, ProcessEvent,
    Receivers, Seen, StreamError, ToAgent, greeting,
};

/// Bytes of output that may be on their way to the parent.
pub(crate) const WINDOW: u64 = 1 << 20;
/// The longest interval between signs of life.
const ALIVE: Duration = Duration::from_secs(15);

/// The upper half of the 64 bits of an event that is not the host's.
const SIGNALS: u64 = OTHER_EVENTS;
const HEAD: u64 = OTHER_EVENTS + 1;
const HEAD_ROOM: u64 = OTHER_EVENTS + 2;
const LIFELINE: u64 = OTHER_EVENTS + 3;
const CHILD: u64 = OTHER_EVENTS + 4;
const CHILD_ERRORS: u64 = OTHER_EVENTS + 5;
const LIFELINES: u64 = OTHER_EVENTS + 6;
const JOINERS: u64 = OTHER_EVENTS + 7;

/// Serves the head over standard input and output; returns the exit status. `library_directory` is
/// put in front of LD_LIBRARY_PATH.
pub fn serve(library_directory: Option<PathBuf>) -> Result<i32, LaunchError> {
    let kernel =
        |error: rustix::io::Errno| LaunchError::Kernel("take over standard input", error.into());
    let input = rustix::io::dup(rustix::stdio::stdin()).map_err(kernel)?;
    let output = rustix::io::dup(rustix::stdio::stdout()).map_err(kernel)?;
    for fd in [&input, &output] {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC).map_err(kernel)?;
    }
    leave_stdio()?;
    let signals = crate::launch::prepare(false)?;
    let stream =
        Stream::new(input, output).map_err(|e| LaunchError::Kernel("use the stream", e))?;
    Agent::new(library_directory, &signals, stream)?.run()
}

/// Closes standard input and output, so that no other code writes to the stream that they carry.
pub(crate) fn leave_stdio() -> Result<(), LaunchError> {
    let kernel =
        |error: rustix::io::Errno| LaunchError::Kernel("take over standard input", error.into());
    let null =
        std::fs::File::open("/dev/null").map_err(|e| LaunchError::Kernel("open /dev/null", e))?;
    rustix::stdio::dup2_stdin(&null).map_err(kernel)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).map_err(kernel)
}

struct Over;

pub(crate) struct Agent<'a> {
    library_directory: Option<PathBuf>,
    signals: &'a Signals,
    head: Stream,
    is_waiting_for_room: bool,
    /// The number of this host; `None` before the head's first message.
    node: Option<u32>,
    /// The agents below this one; `None`: it is lost.
    children: Vec<Option<Child>>,
    junction: Junction,
    lifelines: Lifelines,
    /// When the queued changes of processes are sent.
    events_due: Option<Instant>,
    /// Whether the job survives the loss of hosts. The fields up to `adopted_until` are for that.
    survives: bool,
    /// Whether the head has ended the job.
    is_ended: bool,
    /// Whether the new parent has not had all messages again yet: changes of processes wait.
    is_moving: bool,
    /// Messages that the head may not have yet, and the number of the last one.
    kept: Kept<Vec<u8>>,
    last_sent: u64,
    /// All changes of processes of this host.
    all_events: Vec<ProcessEvent>,
    /// The number of the head's last message, and the count of messages without an acknowledgement.
    last_got: (u64, u32),
    /// The agents below lost children.
    stranded: Vec<Stranded>,
    /// How to connect with the parent, and with the grandparent.
    parent: Option<LifelineOffer>,
    adopter: Option<LifelineOffer>,
    /// How agents below connect with this one.
    own_way: Option<LifelineOffer>,
    /// Until when the new parent must answer.
    adopted_until: Option<Instant>,
    /// The states of ranks as last sent.
    sent: HashMap<u32, Seen>,
    /// The addresses of ranks on other hosts.
    addresses: HashMap<u32, String>,
    /// Requests for addresses that had an answer: requester and rank. The next one goes to the
    /// head, as the rank may have ended or moved.
    answered: HashSet<(u32, u32)>,
    /// The hosts of the first job's ranks.
    nodes: Vec<u32>,
    /// The ranks, and the events that this process waits for.
    host: HostLauncher<'a>,
    /// Bytes of output that the parent has not passed on.
    under_way: u64,
    ready: Option<ReadyRanks>,
    /// Restored ranks, whose memory describes the host of their image.
    restored: Vec<HeldRank>,
    sending: Option<ImageTransfer>,
    received: Option<(FileReceiver, ImageDirectory)>,
    secret: [u8; 32],
    /// Detects the end of the head's host, if the stream goes through ssh.
    lifeline: Option<Lifeline>,
    /// The processes that have come to be ranks, in a job of another launcher.
    joiners: Option<Joiners>,
    /// After this time without a message a child, or the parent's host, is lost.
    silence: Duration,
    next_alive: Instant,
    /// Diagnostics that wait to be sent to the head.
    lines: HeldLines,
}

impl<'a> Agent<'a> {
    pub(crate) fn new(
        library_directory: Option<PathBuf>,
        signals: &'a Signals,
        mut head: Stream,
    ) -> Result<Self, LaunchError> {
        let kernel =
            |error: rustix::io::Errno| LaunchError::Kernel("wait for the head", error.into());
        let host = HostLauncher::new().map_err(kernel)?;
        head.post(greeting().as_bytes());
        let agent = Agent {
            library_directory,
            signals,
            head,
            is_waiting_for_room: false,
            node: None,
            children: Vec::new(),
            junction: Junction::default(),
            lifelines: Lifelines::default(),
            events_due: None,
            survives: false,
            is_ended: false,
            is_moving: false,
            kept: Kept::default(),
            last_sent: 0,
            all_events: Vec::new(),
            last_got: (0, 0),
            stranded: Vec::new(),
            parent: None,
            adopter: None,
            own_way: None,
            adopted_until: None,
            sent: HashMap::new(),
            addresses: HashMap::new(),
            answered: HashSet::new(),
            nodes: Vec::new(),
            host,
            under_way: 0,
            ready: None,
            restored: Vec::new(),
            sending: None,
            received: None,
            secret: [0; 32],
            lifeline: None,
            joiners: None,
            silence: 4 * ALIVE,
            next_alive: Instant::now() + ALIVE,
            lines: HeldLines::begin(),
        };
        info!(pid = std::process::id(), "the agent has started");
        agent.host.listen(agent.head.input(), HEAD, 0).map_err(kernel)?;
        agent.host.listen(signals.as_fd(), SIGNALS, 0).map_err(kernel)?;
        Ok(agent)
    }

    /// The agent makes these processes ranks, and starts none in their place.
    pub(crate) fn with_joiners(mut self, joiners: Joiners) -> Result<Self, LaunchError> {
        self.host
            .listen(joiners.events(), JOINERS, 0)
            .map_err(|error| LaunchError::Kernel("wait for the ranks", error.into()))?;
        self.joiners = Some(joiners);
        Ok(self)
    }

    pub(crate) fn run(mut self) -> Result<i32, LaunchError> {
        let result = loop {
            match self.wait() {
                Ok(Ok(())) => {}
                Ok(Err(Over)) => break Ok(0),
                Err(error) => break Err(LaunchError::Kernel("wait for the ranks", error.into())),
            }
        };
        info!(error = result.as_ref().err().map(ToString::to_string), "the agent ends");
        self.host.ranks.signal(Signal::KILL, self.host.ranks.unfinished());
        if let Some(joiners) = &mut self.joiners {
            joiners.refuse_all(
                "the head, on the host of rank 0, has ended before the job has started",
            );
        }
        // Before the search for processes that ranks have left, which would find those of ssh.
        self.end_children();
        self.host.end();
        self.send_lines();
        self.head.flush();
        result
    }

    fn wait(&mut self) -> rustix::io::Result<Result<(), Over>> {
        let now = Instant::now();
        if self.adopted_until.is_some_and(|until| until <= now) {
            warn!("the new parent has not answered");
            return Ok(Err(Over));
        }
        if self.next_alive <= now {
            self.next_alive = now + ALIVE.min(self.silence / 4);
            self.acknowledge();
        }
        self.service_children(now);
        self.host.carriers = self.children.iter().flatten().filter_map(Child::carrier).collect();
        self.host.on_time(now, self.room())?;
        self.send_host_messages();
        self.send_pieces();
        self.send_lines();
        self.head.flush();
        self.await_room()?;
        let times = [self.host.time(), self.events_due, self.children_time()];
        let next = times.into_iter().flatten().fold(self.next_alive, Instant::min);
        let left = next.saturating_duration_since(now);
        let may_send = self.room() > 0;
        let mut fds = vec![PollFd::new(&self.host.events, PollFlags::IN)];
        if may_send {
            fds.push(PollFd::new(&self.host.outputs, PollFlags::IN));
        }
        wait_for(&mut fds, Some(left))?;
        drop(fds);
        // Outputs before the ends of ranks: a rank's output comes before the report on its failure.
        if may_send && let Err(over) = self.take_events(false)? {
            return Ok(Err(over));
        }
        self.take_events(true)
    }

    /// The node of this host.
    fn own_node(&self) -> u32 {
        self.node.unwrap_or_default()
    }

    /// The bytes of output that may be sent.
    fn room(&self) -> u64 {
        WINDOW.saturating_sub(self.under_way)
    }

    /// Polls the stream for room while data wait.
    fn await_room(&mut self) -> rustix::io::Result<()> {
        let is_behind = self.head.is_behind();
        if is_behind != self.is_waiting_for_room {
            self.is_waiting_for_room = is_behind;
            let (events, name) = (&self.host.events, epoll::EventData::new_u64(HEAD_ROOM << 32));
            match is_behind {
                true => {
                    epoll::add(events, self.head.output(), name, epoll::EventFlags::OUT)?;
                }
                false => epoll::delete(events, self.head.output())?,
            }
        }
        Ok(())
    }

    fn take_events(&mut self, urgent: bool) -> rustix::io::Result<Result<(), Over>> {
        let set = if urgent { &self.host.events } else { &self.host.outputs };
        for (kind, name) in polling::events_of(set)? {
            match kind {
                HEAD_ROOM => self.head.flush(),
                CHILD => self.child_ready(name as usize),
                CHILD_ERRORS => self.pass_child_errors(name as usize),
                LIFELINES => self.lifeline_ready(name),
                JOINERS => self.serve_joiners(),
                LIFELINE => {
                    let fate =
                        self.lifeline.as_mut().map(|lifeline| lifeline.ready(&self.host.events));
                    if fate == Some(Fate::Broken) && !self.move_to_grandparent() {
                        return Ok(Err(Over));
                    }
                    if self.lifeline.as_ref().is_some_and(Lifeline::is_proved) {
                        // Output may wait for a parent that is stopped. Fails for a pipe.
                        let _ = wait_when_unanswered(self.head.output());
                    }
                }
                SIGNALS => {
                    if let Err(over) = self.signalled() {
                        return Ok(Err(over));
                    }
                }
                HEAD => {
                    if let Err(over) = self.read_head() {
                        return Ok(Err(over));
                    }
                }
                kind => self.host.ready(kind, name, self.room())?,
            }
            self.send_host_messages();
        }
        Ok(Ok(()))
    }

    /// Sends the messages of the host, and answers requests that the head need not answer.
    fn send_host_messages(&mut self) {
        while let Some(message) = self.host.next_message() {
            match message {
                FromHost::Report(report) => {
                    if let HostReport::Output { bytes, .. } = &report {
                        self.under_way += bytes.len() as u64;
                    }
                    self.post(&FromAgent::Host(report));
                }
                FromHost::Event(event) => self.note_event(event),
                FromHost::Request { rank, request, came } => {
                    self.handle_request(rank, request, came);
                }
                FromHost::Malformed { rank, error } => {
                    let text = format!("mpirun: rank {rank}: {error}\n");
                    self.post(&FromAgent::Text { text });
                }
                FromHost::Imaged { round, made } => self.send_images(round, made),
            }
        }
    }

    /// Sends a message, after the queued changes of processes.
    fn post(&mut self, message: &FromAgent) {
        self.send_events();
        self.post_now(message);
    }

    fn post_now(&mut self, message: &FromAgent) {
        let Some(node) = self.node else { return };
        let is_kept = self.survives && message.is_kept();
        self.last_sent += u64::from(is_kept);
        let bytes = message.encode(node, if is_kept { self.last_sent } else { 0 });
        trace!(kind = %MessageName(message), bytes = bytes.len(), "to mpirun");
        self.head.post(&bytes);
        if is_kept {
            self.kept.keep(self.last_sent, bytes);
        }
    }

    /// Sends a change of a process of this host.
    fn note_event(&mut self, event: ProcessEvent) {
        if self.survives {
            self.all_events.push(event.clone());
        }
        self.queue_events(vec![event]);
    }

    /// Sends changes of processes: at once if they are urgent, and otherwise together with others.
    fn queue_events(&mut self, events: Vec<ProcessEvent>) {
        match self.junction.queue_events(events) {
            true => self.send_events(),
            false => _ = self.events_due.get_or_insert(Instant::now() + EVENTS_WAIT),
        }
    }

    fn send_events(&mut self) {
        self.events_due = None;
        if self.junction.has_events() && !self.is_moving {
            let events = self.junction.take_events();
            self.post_now(&FromAgent::Events(events));
        }
    }

    /// Answers in a round, together with the agents below.
    fn answer_round(&mut self, round: BranchRound, report: BranchReport) {
        let complete = self.junction.add(round, None, report);
        complete.into_iter().for_each(|report| self.post_report(round, report));
    }

    fn post_report(&mut self, round: BranchRound, report: BranchReport) {
        self.post(&FromAgent::Report { round, report: Box::new(report) });
    }

    /// Sends the diagnostics so far. They cause none themselves.
    fn send_lines(&mut self) {
        let Some(node) = self.node else { return };
        let text = self.lines.take();
        if !text.is_empty() {
            self.head.post(&FromAgent::Text { text }.encode(node, 0));
        }
    }

    /// A signal to the agent itself requests its end; the head forwards the user's signals.
    fn signalled(&mut self) -> Result<(), Over> {
        while let Ok(Some(number)) = self.signals.next() {
            let signal = Signal::from_named_raw(number);
            if signal != Some(Signal::CHILD) {
                debug!(signal = number, "got a signal");
            }
            match signal {
                Some(Signal::CHILD) => self.host.note_child_ended(),
                Some(Signal::USR1 | Signal::USR2 | Signal::TSTP | Signal::XFSZ) => {}
                _ => return Err(Over),
            }
        }
        Ok(())
    }

    fn read_head(&mut self) -> Result<(), Over> {
        let goes_on = matches!(self.head.read(), Ok(true));
        loop {
            let message = match self.head.next_frame() {
                Ok(Some(frame)) => {
                    let frame = frame.to_vec();
                    self.take_frame(&frame)
                }
                Ok(None) => break,
                Err(error) => Err(error),
            };
            match message {
                Ok(message) => {
                    message.into_iter().try_for_each(|message| self.handle_head_message(message))?
                }
                Err(error) => {
                    let host = oxmpi_sys::host::name();
                    let text = format!("mpirun: the agent on host {host} cannot go on: {error}\n");
                    self.post(&FromAgent::Text { text });
                    return Err(Over);
                }
            }
        }
        if goes_on || self.move_to_grandparent() {
            return Ok(());
        }
        if self.joiners.is_some() && !self.host.ranks.unfinished().is_empty() {
            let host = oxmpi_sys::host::name();
            oxmpi_sys::complain!(
                "mpirun: the head, on the host of rank 0, is lost, so the ranks of host {host} are ended"
            );
        }
        Err(Over)
    }

    /// Forwards a message to agents below, and returns it if it is for this one.
    fn take_frame(&mut self, frame: &[u8]) -> Result<Option<ToAgent>, StreamError> {
        let (route, message) = ToAgent::open(frame)?;
        let is_own = match (&route.to, self.node) {
            (Receivers::Child, _) => true,
            (to, Some(node)) => to.has(node),
            (_, None) => return Err(StreamError::Malformed { length: frame.len() }),
        };
        if let Some(BranchRound::Ready { base }) = route.round
            && self.stranded.iter().any(|stranded| stranded.are_for(&route.to))
        {
            let text = "the agent of a host has lost its parent, and has no new one yet".into();
            self.fail(base, false, text);
        }
        let children = self.junction.children_for(&route.to);
        if let (Some(round), false) = (route.round, route.to == Receivers::Child) {
            self.junction.begin(round, &route.to, &children, Instant::now());
        }
        for at in children {
            if let Some(Some(child)) = self.children.get_mut(at) {
                child.post_frame(route.number, frame);
            }
        }
        if route.number > 0 {
            self.note_number(&route, frame);
        }
        is_own.then(|| ToAgent::decode(message)).transpose()
    }

    fn handle_head_message(&mut self, message: ToAgent) -> Result<(), Over> {
        trace!(kind = %MessageName(&message), "from mpirun");
        match message {
            ToAgent::Branch(branch) => {
                self.begin_branch(branch);
                self.report_joiners();
            }
            ToAgent::Lifeline(offered) => self.begin_lifeline(offered),
            ToAgent::Adopted { adopter } => self.note_new_parent(adopter),
            ToAgent::Resend => self.resend(),
            ToAgent::Received { number } => self.kept.note_received(number),
            ToAgent::Order(order) => {
                let base = order.base;
                let prepared = self.prepare(*order);
                self.conclude(base, prepared);
            }
            ToAgent::Go { addresses } => {
                self.addresses.extend(addresses);
                let base = self.ready.as_ref().map_or(0, |ready| ready.job.order.base);
                let started = self.start();
                self.conclude(base, started);
            }
            ToAgent::Host(order) => self.obey(order),
            ToAgent::Image { round, place } => self.host.begin_imaging(round, place),
            ToAgent::Piece { name, bytes } => {
                if let Err(error) = self.receive_piece(&name, &bytes) {
                    self.fail(0, false, format!("an image cannot be written there: {error}"));
                }
            }
            ToAgent::Abandon { base } => self.abandon(base),
            ToAgent::Answer { rank, reply, blob } => self.pass_answer(rank, reply, blob),
            ToAgent::QueryState { query } => self.report_states(query),
            ToAgent::Where { asker, rank } => {
                let reply = self.whereabouts(rank, true);
                self.post(&FromAgent::Answer { asker, reply });
            }
            ToAgent::Taken { bytes } => self.under_way = self.under_way.saturating_sub(bytes),
            ToAgent::End => {
                self.is_ended = true;
                return Err(Over);
            }
        }
        Ok(())
    }

    /// Passes an order to the host, and drops the state of the agent that it makes void.
    fn obey(&mut self, order: HostOrder) {
        match &order {
            HostOrder::Hold { .. } | HostOrder::GoOn => self.sending = None,
            HostOrder::Step { closes: true, .. } => {
                (self.addresses, self.answered) = Default::default();
            }
            HostOrder::Forget { base, size } => self.forget(*base..base.saturating_add(*size)),
            _ => {}
        }
        self.host.obey(order);
    }

    /// Reports the states of the ranks, after all their messages and those of the relay.
    fn report_states(&mut self, query: u64) {
        self.host.read_all_messages();
        self.host.read_relays();
        self.send_host_messages();
        let seen = self.changed_states();
        let hosts = self.stranded.iter().flat_map(|stranded| &stranded.hosts);
        let silent = hosts.map(|(node, _)| *node).collect();
        let report = BranchReport { seen, silent, ..BranchReport::default() };
        self.answer_round(BranchRound::Seen { query }, report);
    }
}
