//! A child in the tree of agents, as its parent sees it: the stream to it, and the process at the
//! other end.

mod end;

use std::cell::Cell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use oxmpi_sys::spawn::Signals;
use rustix::event::{PollFd, PollFlags, epoll};
use tracing::{debug, info, trace};

use super::agent::WINDOW;
use super::lifelines::StrandedArrival;
use super::opening::{Carrier, OpenedStream, Opening, Starts};
use super::step::RunningStep;
use super::tree::{Kept, Stranded, divide};
use crate::launch::LaunchError;
use oxmpi_daemon::PATIENCE as DAEMON_PATIENCE;
use oxmpi_daemon::diagnostics::MessageName;
use oxmpi_daemon::stream::Stream;
use oxmpi_rt_proto::agent::{
    self, AgentStarts, Branch, BranchHost, BranchReport, BranchRound, DownRoute, FromAgent,
    LifelineOffer, Receivers, StreamError, ToAgent, UpRoute,
};

/// The most bytes of an agent's error output that are kept.
const MAX_SAID: usize = 4096;

/// An agent that this process has started, or has taken over.
#[derive(Debug)]
pub(crate) struct Child {
    /// As the user has named it.
    pub(crate) host: String,
    pub(crate) node: u32,
    /// The hosts of its branch, its own first, with their names.
    pub(crate) hosts: Vec<(u32, String)>,
    pub(crate) stream: Stream,
    pub(crate) errors: Option<Stream>,
    said: Vec<u8>,
    carrier: Carrier,
    /// The command that opened the stream, for the user.
    pub(crate) shown: String,
    opened: Instant,
    /// The time until the agent's greeting, behind which messages follow.
    pub(crate) greeted_after: Option<Duration>,
    pub(crate) last_message: Instant,
    /// Bytes of output that were passed on and are not yet acknowledged to the agent.
    pub(crate) owed: u64,
    /// Whether the stream is polled for room.
    pub(crate) is_behind: bool,
    /// The number of the head's last message, in a job that survives failures.
    pub(crate) numbers: Option<Rc<Cell<u64>>>,
    /// Frames that the branch may not have yet.
    pub(crate) kept: Kept<Vec<u8>>,
}

/// What comes from a child.
#[derive(Debug)]
pub(crate) enum FromChild {
    /// A message for the parent.
    Message(UpRoute, FromAgent),
    /// A frame for the head.
    Frame(UpRoute, Vec<u8>),
}

impl FromChild {
    /// The message with its route.
    pub(crate) fn read(self) -> Result<(UpRoute, FromAgent), StreamError> {
        let (route, frame) = match self {
            FromChild::Message(route, message) => return Ok((route, message)),
            FromChild::Frame(route, frame) => (route, frame),
        };
        let message = FromAgent::decode(FromAgent::open(&frame)?.1)?;
        // Diagnostics come in texts.
        if !matches!(message, FromAgent::Text { .. }) {
            let (node, kind) = (route.node, MessageName(&message));
            trace!(node, %kind, bytes = frame.len(), "from an agent");
        }
        Ok((route, message))
    }
}

impl Child {
    /// Starts the agents of these hosts: `open` those of the first hosts of at most `fan_out`
    /// parts, and these agents the others.
    pub(crate) fn open_all(
        hosts: Vec<BranchHost>,
        (starts, fan_out): (&Starts, usize),
        mut open: impl FnMut(&BranchHost) -> Result<Child, LaunchError>,
    ) -> Result<Vec<Child>, LaunchError> {
        let mut children = Vec::new();
        for mut below in divide(hosts, fan_out) {
            let Some(first) = below.drain(..below.len().min(1)).next() else { continue };
            let mut child = open(&first)?;
            child.hosts.extend(below.iter().map(|host| (host.node, host.name.clone())));
            // An agent without others below it answers by its greeting alone.
            let round = (!below.is_empty()).then_some(BranchRound::Reached);
            let starts = round.map(|_| starts.to_send()).unwrap_or_default();
            let branch = Branch { node: child.node, fan_out: fan_out as u32, starts, hosts: below };
            child.post(&ToAgent::Branch(branch), Receivers::Child, round);
            children.push(child);
        }
        Ok(children)
    }

    /// Begins to start the agent of a host. The agent of a daemon ends when this host has not
    /// answered for `silence`; `patience` is the limit for the daemon's answer.
    pub(crate) fn open(
        (node, host): (u32, String),
        opening: &Opening,
        (silence, patience): (Duration, Duration),
        signals: &Signals,
    ) -> Result<Child, LaunchError> {
        let (shown, opened) = (opening.shown(), Instant::now());
        debug!(host, command = shown, "starting an agent");
        let stream = opening.open((silence, patience.min(DAEMON_PATIENCE)), signals);
        let OpenedStream { stream, errors, carrier } = stream.map_err(|error| {
            let next = opening.remedy();
            let text =
                format!("cannot start an agent there: '{shown}': {error}\n  Next:    {next}");
            host_error(&host, text)
        })?;
        let mut child = Child::new((node, host), stream, (carrier, shown));
        (child.errors, child.opened, child.last_message) = (Some(errors), opened, opened);
        Ok(child)
    }

    fn new(
        (node, host): (u32, String),
        stream: Stream,
        (carrier, shown): (Carrier, String),
    ) -> Child {
        let now = Instant::now();
        Child {
            hosts: vec![(node, host.clone())],
            host,
            node,
            stream,
            errors: None,
            said: Vec::new(),
            carrier,
            shown,
            opened: now,
            greeted_after: None,
            last_message: now,
            owed: 0,
            is_behind: false,
            numbers: None,
            kept: Kept::default(),
        }
    }

    /// An agent that has called this process, the only one of its branch. It learns the number of
    /// its host.
    pub(crate) fn called((node, host): (u32, String), stream: Stream) -> Child {
        let shown = format!("its call from host {host}");
        let mut child = Child::new((node, host), stream, (Carrier::Network, shown));
        let starts = AgentStarts::default();
        let branch = Branch { node, fan_out: 1, starts, hosts: Vec::new() };
        child.post(&ToAgent::Branch(branch), Receivers::Child, None);
        child
    }

    /// A step has started the agent.
    pub(crate) fn note_step(&mut self, step: &Rc<RunningStep>) {
        self.shown.clone_from(&step.srun.shown);
        self.opened = step.srun.opened;
        self.carrier = Carrier::Step(Rc::clone(step));
    }

    /// Takes over an agent whose parent is lost, with the hosts of its branch and the frames that
    /// the lost agent was sent.
    pub(crate) fn adopt(
        StrandedArrival { number, stream, .. }: StrandedArrival,
        hosts: Vec<(u32, String)>,
        kept: &Kept<Vec<u8>>,
        adopter: Option<LifelineOffer>,
    ) -> Child {
        let (node, host) = hosts.first().cloned().unwrap_or_default();
        info!(host, hosts = hosts.len(), "taking over an agent whose parent is lost");
        let shown = format!("its connection after the loss of its parent ({host})");
        let mut child = Child::new((node, host), stream, (Carrier::Network, shown));
        (child.hosts, child.greeted_after) = (hosts, Some(Duration::ZERO));
        child.post(&ToAgent::Adopted { adopter }, Receivers::Child, None);
        for (of, frame) in kept.after(0) {
            let is_for = |route: DownRoute| child.hosts.iter().any(|(node, _)| route.to.has(*node));
            if ToAgent::open(frame).is_ok_and(|(route, _)| is_for(route)) {
                child.kept.keep(*of, frame.clone());
                if *of > number {
                    child.stream.post(frame);
                }
            }
        }
        child.post(&ToAgent::Resend, Receivers::All, None);
        child
    }

    /// The hosts below it, when it is lost. Their agents notice the loss at most `silence` earlier
    /// or later than this process.
    pub(crate) fn stranded(&mut self, silence: Duration) -> Option<Stranded> {
        let hosts: Vec<(u32, String)> = self.hosts.drain(1.min(self.hosts.len())..).collect();
        let kept = std::mem::take(&mut self.kept);
        let until = Instant::now() + 2 * silence;
        (!hosts.is_empty()).then_some(Stranded { hosts, kept, until })
    }

    /// Whether the stream is one that does not end when this host stops answering. A daemon ends
    /// that of its agent.
    pub(crate) fn needs_lifeline(&self) -> bool {
        !matches!(self.carrier, Carrier::Agent(_))
    }

    /// Sends a message down the branch.
    pub(crate) fn post(&mut self, message: &ToAgent, to: Receivers, round: Option<BranchRound>) {
        let number = numbered(self.numbers.as_deref(), message);
        let bytes = message.encode(&DownRoute { to, round, number });
        trace!(host = self.host, kind = %MessageName(message), bytes = bytes.len(), "to an agent");
        self.post_frame(number, &bytes);
    }

    /// Sends a frame with this number down the branch.
    pub(crate) fn post_frame(&mut self, number: u64, frame: &[u8]) {
        self.stream.post(frame);
        if number > 0 {
            self.kept.keep(number, frame.to_vec());
        }
    }

    /// Its own part of an answer in the round [`BranchRound::Reached`].
    pub(crate) fn reached(&self) -> BranchReport {
        let took = self.greeted_after.map(|took| (took.as_nanos() as u64, self.node));
        BranchReport { slowest: took, ..BranchReport::default() }
    }

    /// Writes and reads. Returns the end of the stream, with its error if it has one.
    pub(crate) fn read(&mut self) -> Option<Option<io::Error>> {
        self.stream.flush();
        let had = self.stream.came().len();
        let ended = match self.stream.read() {
            Ok(true) => None,
            Ok(false) => Some(None),
            Err(error) => Some(Some(error)),
        };
        // Room for output is no sign of life.
        if self.stream.came().len() != had {
            self.last_message = Instant::now();
        }
        ended
    }

    /// Acknowledges output that was passed on, if there is room for more and it is worth a message.
    /// Returns whether it was.
    pub(crate) fn acknowledge(&mut self, has_room: bool) -> bool {
        let is_due = has_room && self.owed > WINDOW / 4;
        if is_due {
            let bytes = std::mem::take(&mut self.owed);
            self.post(&ToAgent::Taken { bytes }, Receivers::Child, None);
        }
        is_due
    }

    /// Writes without waiting, and has the stream polled for room (an event with this name) while
    /// data wait.
    pub(crate) fn write(&mut self, events: &OwnedFd, name: u64) {
        self.stream.flush();
        if self.is_behind == self.stream.is_behind() {
            return;
        }
        self.is_behind = !self.is_behind;
        let (output, data) = (self.stream.output(), epoll::EventData::new_u64(name));
        let _ = match self.is_behind {
            true => epoll::add(events, output, data, epoll::EventFlags::OUT),
            false => epoll::delete(events, output),
        };
    }

    /// The numbers of the hosts of its branch.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.hosts.iter().map(|(node, _)| *node)
    }

    /// The name of a host of its branch.
    pub(crate) fn name_of(&self, node: u32) -> &str {
        let host = self.hosts.iter().find(|(of, _)| *of == node);
        host.map_or(&self.host, |(_, name)| name)
    }

    /// Whether the agent has greeted by now.
    pub(crate) fn greets(&mut self) -> Result<bool, StreamError> {
        if self.greeted_after.is_none()
            && let Some(length) = agent::find_greeting(self.stream.came())?
        {
            self.stream.take(length);
            self.greeted_after = Some(self.opened.elapsed());
        }
        Ok(self.greeted_after.is_some())
    }

    /// The next message; `None`: it has not come whole.
    pub(crate) fn next(&mut self) -> Result<Option<FromChild>, StreamError> {
        if !self.greets()? {
            return Ok(None);
        }
        let Some(frame) = self.stream.next_frame()? else { return Ok(None) };
        let (route, message) = FromAgent::open(frame)?;
        if !self.hosts.iter().any(|(node, _)| *node == route.node) {
            return Err(StreamError::Malformed { length: frame.len() });
        }
        if !route.is_for_parent {
            return Ok(Some(FromChild::Frame(route, frame.to_vec())));
        }
        let (bytes, message) = (frame.len(), FromAgent::decode(message)?);
        trace!(host = self.host, kind = %MessageName(&message), bytes, "from an agent");
        Ok(Some(FromChild::Message(route, message)))
    }

    pub(crate) fn senseless(&self, error: &StreamError) -> LaunchError {
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
        let errors = self.errors.iter().map(|errors| errors.input());
        fds.extend(
            errors.map(|errors: BorrowedFd<'_>| PollFd::from_borrowed_fd(errors, PollFlags::IN)),
        );
    }
}

/// The number of a message of the head; 0 if it is not kept.
pub(crate) fn numbered(numbers: Option<&Cell<u64>>, message: &ToAgent) -> u64 {
    let Some(numbers) = numbers.filter(|_| message.is_kept()) else { return 0 };
    numbers.set(numbers.get() + 1);
    numbers.get()
}

pub(super) fn host_error(host: &str, text: String) -> LaunchError {
    LaunchError::Host { host: host.into(), is_program: false, text }
}
