//! The children of the head with the branches below them, and the agents that have lost such a
//! child (rule 5 of [`super::tree`]).
//!
//! `start.rs` starts the agents and has them start ranks; what follows is for ranks that run.

mod start;

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::Signal;

use super::child::{Child, numbered};
use super::head::{AddressRequest, RemoteAgent};
use super::lifelines::{Lifelines, StrandedArrival};
use super::tree::Stranded;
use crate::host::{HostLauncher, OTHER_EVENTS};
use crate::launch::parts::is_ready;
use oxmpi_rt_proto::agent::{
    DownRoute, FromAgent, HostOrder, Receivers, StreamError, ToAgent, UpRoute,
};

pub(crate) use self::start::{AnswerRound, PATIENCE, RESTORING};

/// Kinds of events of the head.
pub(crate) const AGENT_STREAM: u64 = OTHER_EVENTS;
/// The error output of an agent, or of the process that forwards its stream.
pub(crate) const AGENT_ERRORS: u64 = OTHER_EVENTS + 1;
pub(crate) const LIFELINES: u64 = OTHER_EVENTS + 2;
/// The first kind that is free.
pub(crate) const FURTHER_EVENTS: u64 = OTHER_EVENTS + 3;

/// How long output may follow a host's last message.
const QUIET: Duration = Duration::from_millis(200);
/// After this count of messages of a host they are acknowledged.
const ACKNOWLEDGED: u64 = 32;

/// Where a process on another host is: the index of its branch, and its node.
pub(crate) type RemoteHome = (usize, u32);

/// The children of the head, with the branches below them.
#[derive(Default)]
pub(crate) struct Branches {
    /// By index; `None`: the stream has ended.
    all: Vec<Option<RemoteAgent>>,
    lifelines: Lifelines,
    /// The agents below lost children, each with the child's index.
    stranded: Vec<(usize, Stranded)>,
    /// Requests for addresses of their processes.
    stranded_requests: Vec<AddressRequest>,
    /// Numbers the messages to agents, in a job that survives failures.
    numbers: Option<Rc<Cell<u64>>>,
    /// The number of the last message of each host, in a job that survives failures.
    received: HashMap<u32, u64>,
    /// Branches with messages that are not handled yet.
    unread: Vec<usize>,
}

/// Hosts of a branch that are lost.
pub(crate) struct LostHosts {
    pub(crate) branch: usize,
    /// The first has not answered or has ended, and the others were reached through it.
    pub(crate) nodes: Vec<u32>,
    pub(crate) text: String,
    /// The requests that nobody answers any more.
    pub(crate) requests: Vec<AddressRequest>,
}

/// Agents that were taken over from a lost child.
pub(crate) struct Adopted {
    pub(crate) from: usize,
    pub(crate) branch: usize,
    pub(crate) nodes: Vec<u32>,
    /// Why their stream cannot be used.
    pub(crate) error: Option<io::Error>,
}

impl Branches {
    /// Polls all streams, and the listener for lifelines.
    pub(crate) fn listen(&self, host: &HostLauncher<'_>) -> rustix::io::Result<()> {
        for (at, far) in (0..).zip(&self.all) {
            let Some(RemoteAgent { child, .. }) = far else { continue };
            host.listen(child.stream.input(), AGENT_STREAM, at)?;
            if let Some(errors) = &child.errors {
                host.listen(errors.input(), AGENT_ERRORS, at)?;
            }
        }
        self.lifelines.watch(&host.events, LIFELINES << 32)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RemoteAgent> {
        self.all.iter().flatten()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut RemoteAgent> {
        self.all.iter_mut().flatten()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&RemoteAgent> {
        self.all.get(at)?.as_ref()
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut RemoteAgent> {
        self.all.get_mut(at)?.as_mut()
    }

    /// Whether there have been other hosts.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The branch that has the host.
    pub(crate) fn leading_to(&self, node: u32) -> Option<usize> {
        (0..self.all.len()).find(|at| self.get(*at).is_some_and(|far| far.leads_to(node)))
    }

    /// The number of hosts with agents.
    pub(crate) fn agents(&self) -> usize {
        self.iter().map(|far| far.child.hosts.len()).sum()
    }

    /// The processes of this one that carry the streams of agents.
    pub(crate) fn carriers(&self) -> Vec<i32> {
        self.iter().filter_map(|far| far.child.carrier()).collect()
    }

    /// The addresses of the relays, by host.
    pub(crate) fn relays(&self) -> Vec<(u32, String)> {
        self.iter().flat_map(|far| far.relays.clone()).collect()
    }

    /// Sends a message to the agents of a branch.
    pub(crate) fn post(&mut self, at: usize, message: &ToAgent) {
        match self.get_mut(at) {
            Some(far) => far.post(message),
            None => self.keep_for_stranded(Some(at), message, &Receivers::All),
        }
    }

    /// Sends a message to the agent of a host.
    pub(crate) fn post_home(&mut self, (at, node): RemoteHome, message: &ToAgent) {
        match self.get_mut(at) {
            Some(far) => far.post_to(node, message),
            None => self.keep_for_stranded(None, message, &Receivers::Nodes(vec![node])),
        }
    }

    pub(crate) fn post_all(&mut self, message: &ToAgent) {
        self.iter_mut().for_each(|far| far.post(message));
        self.keep_for_stranded(None, message, &Receivers::All);
    }

    /// Keeps a message for agents that have lost their parent: those of the branch `at`, or of all.
    fn keep_for_stranded(&mut self, at: Option<usize>, message: &ToAgent, to: &Receivers) {
        let is_for =
            |of: usize, stranded: &Stranded| at.is_none_or(|at| at == of) && stranded.are_for(to);
        for (_, stranded) in self.stranded.iter_mut().filter(|(of, all)| is_for(*of, all)) {
            let number = numbered(self.numbers.as_deref(), message);
            if number > 0 {
                let route = DownRoute { to: to.clone(), round: None, number };
                stranded.kept.keep(number, message.encode(&route));
            }
        }
    }

    /// Sends a signal to processes on other hosts.
    pub(crate) fn signal(
        &mut self,
        signal: Signal,
        ranks: impl Iterator<Item = (u32, RemoteHome)>,
    ) {
        let mut by_branch: Vec<Vec<(u32, u32)>> = vec![Vec::new(); self.all.len()];
        ranks.for_each(|(rank, (at, node))| by_branch[at].push((rank, node)));
        for (at, ranks) in by_branch.into_iter().enumerate() {
            let numbers = ranks.iter().map(|(rank, _)| *rank).collect();
            match self.get_mut(at) {
                _ if ranks.is_empty() => {}
                Some(far) if signal == Signal::KILL => far.kill(ranks, Instant::now()),
                _ => {
                    let order = HostOrder::Signal { number: signal.as_raw(), ranks: numbers };
                    self.post(at, &ToAgent::Host(order));
                }
            }
        }
    }

    /// Writes and reads. Returns the end of the stream, with its error if it has one.
    pub(crate) fn read(&mut self, at: usize) -> Option<Option<io::Error>> {
        self.get_mut(at)?.child.read()
    }

    /// The next message of a branch, with its route; `None`: it has not come whole.
    pub(crate) fn next(&mut self, at: usize) -> Result<Option<(UpRoute, FromAgent)>, StreamError> {
        while let Some(far) = self.get_mut(at) {
            let Some((route, message)) = far.next()? else { return Ok(None) };
            if self.is_new(at, &route) {
                return Ok(Some((route, message)));
            }
        }
        Ok(None)
    }

    /// Whether a message is the next one of its host; acknowledges some. One that has come before
    /// is not, nor one behind a gap: the host sends all of the gap again, and then that one too.
    fn is_new(&mut self, at: usize, route: &UpRoute) -> bool {
        if route.number == 0 {
            return true;
        }
        let last = self.received.entry(route.node).or_default();
        let is_new = route.number == *last + 1;
        *last += u64::from(is_new);
        let number = *last;
        let Some(far) = self.get_mut(at) else { return is_new };
        if !is_new {
            far.child.owed += u64::from(route.output);
        }
        if is_new && number.is_multiple_of(ACKNOWLEDGED) {
            far.post_to(route.node, &ToAgent::Received { number });
        }
        is_new
    }

    /// The agents of a branch have all messages up to this number.
    pub(crate) fn note_received(&mut self, at: usize, number: u64) {
        self.get_mut(at).into_iter().for_each(|far| far.child.kept.note_received(number));
    }

    /// Output has come, which is acknowledged when there is room for more.
    pub(crate) fn note_output(&mut self, at: usize, bytes: usize) {
        self.get_mut(at).into_iter().for_each(|far| far.child.owed += bytes as u64);
    }

    /// Handle the messages of these branches later, without a further event.
    pub(crate) fn read_later(&mut self, branches: &[usize]) {
        self.unread.extend(branches);
    }

    pub(crate) fn take_unread(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unread)
    }

    /// The ranks run from now on: starting them may have taken longer than the silence limit.
    pub(crate) fn note_running(&mut self) {
        let now = Instant::now();
        self.iter_mut().for_each(|far| far.child.last_message = now);
        self.unread = (0..self.all.len()).collect();
    }

    /// The error output of an agent, for the user.
    pub(crate) fn read_errors(&mut self, at: usize) -> Vec<u8> {
        self.get_mut(at).map(|far| far.child.read_errors()).unwrap_or_default()
    }

    /// Queries the state of the processes on other hosts.
    pub(crate) fn query(&mut self) {
        self.iter_mut().for_each(RemoteAgent::query);
    }

    pub(crate) fn are_queries_answered(&self) -> bool {
        self.iter().all(|far| far.unanswered_queries == 0)
    }

    /// Queries the state of the processes on other hosts if the query before is answered. Returns
    /// whether all their states are newer than that query; never after the first one.
    pub(crate) fn watch(&mut self, is_first: bool) -> bool {
        let is_alone = self.iter().next().is_none();
        let is_answered = self.iter().all(RemoteAgent::has_answered_watch);
        if is_first || is_answered {
            self.iter_mut().for_each(RemoteAgent::watch);
        }
        is_alone || (is_answered && !is_first)
    }

    /// Notes the answer to a state query, which these hosts have not answered.
    pub(crate) fn note_answer(&mut self, at: usize, silent: &[u32]) {
        self.get_mut(at).into_iter().for_each(|far| far.note_answer(silent));
    }

    /// Requests the addresses of a process from its agent, also from one that may come back.
    /// Returns the request if there is none.
    pub(crate) fn request_addresses(
        &mut self,
        at: usize,
        request: AddressRequest,
    ) -> Option<AddressRequest> {
        let AddressRequest { asker, wanted: rank, node } = request;
        let (message, to) = (ToAgent::Where { asker, rank }, Receivers::Nodes(vec![node]));
        if let Some(far) = self.get_mut(at).filter(|far| far.leads_to(node)) {
            far.address_requests.push(request);
            far.post_to(node, &message);
            return None;
        }
        if !self.stranded.iter().any(|(_, stranded)| stranded.are_for(&to)) {
            return Some(request);
        }
        self.stranded_requests.push(request);
        self.keep_for_stranded(None, &message, &to);
        None
    }

    /// Takes the request of a process that an agent has answered.
    pub(crate) fn take_request(&mut self, at: usize, asker: u32) -> Option<AddressRequest> {
        let requests = &mut self.get_mut(at)?.address_requests;
        let place = requests.iter().position(|request| request.asker == asker)?;
        Some(requests.swap_remove(place))
    }

    /// Whether an agent has not answered a request yet.
    pub(crate) fn has_requests(&self) -> bool {
        self.iter().any(|far| !far.address_requests.is_empty())
    }

    pub(crate) fn time(&self) -> Option<Instant> {
        let limits = self.iter().map(RemoteAgent::next_limit);
        limits.chain(self.stranded.iter().map(|(_, stranded)| stranded.until)).min()
    }

    /// Acknowledges output to agents if there is room for more, and polls for room in streams. With
    /// `drains` the output that follows is awaited. Returns the silent branches, and the processes,
    /// each with its host, of orders to kill that were not answered in time.
    pub(crate) fn service(
        &mut self,
        events: &OwnedFd,
        (has_room, drains): (bool, bool),
        now: Instant,
    ) -> (Vec<usize>, Vec<(u32, u32)>) {
        let (mut silent, mut unanswered) = (Vec::new(), Vec::new());
        for (at, far) in self.all.iter_mut().enumerate() {
            let Some(far) = far else { continue };
            if far.child.acknowledge(has_room) && drains {
                far.query();
            }
            far.child.write(events, AGENT_STREAM << 32 | at as u64);
            if far.silence_ends() < now {
                silent.push(at);
            }
            // This process may have been stopped itself, so it reads first.
            if far.next_limit() <= now && !is_ready(far.child.stream.input(), PollFlags::IN) {
                unanswered.extend(far.take_unanswered(now));
            }
        }
        (silent, unanswered)
    }

    /// An error if nothing has come from a silent branch meanwhile either.
    pub(crate) fn confirm_silence(&mut self, at: usize) -> Option<io::Error> {
        let far = self.get_mut(at)?;
        let had = far.child.stream.came().len();
        let is_silent = matches!(far.child.stream.read(), Ok(true));
        let text = format!("nothing has come from it for {} s", far.silence.as_secs());
        (is_silent && far.child.stream.came().len() == had)
            .then(|| io::Error::new(io::ErrorKind::TimedOut, text))
    }

    /// Whether output may be on its way from a branch with open outputs.
    pub(crate) fn is_busy(&self, now: Instant, has_open: impl Fn(usize) -> bool) -> bool {
        let is_busy =
            |far: &RemoteAgent| far.unanswered_queries > 0 || now < far.child.last_message + QUIET;
        (0..self.all.len()).any(|at| self.get(at).is_some_and(is_busy) && has_open(at))
    }

    /// The stream of a branch has ended, and with it all its agents; if the job `survives` that,
    /// only the child itself. Returns its last error output too.
    pub(crate) fn lose(
        &mut self,
        branch: usize,
        error: Option<io::Error>,
        survives: bool,
    ) -> Option<(Vec<u8>, LostHosts)> {
        let mut far = self.all.get_mut(branch).and_then(Option::take)?;
        let said = far.child.read_errors();
        let text = far.child.why_lost(error);
        let mut nodes: Vec<u32> = far.child.nodes().collect();
        let mut requests = std::mem::take(&mut far.address_requests);
        if survives {
            nodes.truncate(1);
            let stranded = far.child.stranded(far.silence);
            self.stranded.extend(stranded.map(|stranded| (branch, stranded)));
            // Their answers may still come.
            let all = &self.stranded;
            let is_kept = |request: &mut AddressRequest| {
                all.iter().any(|(_, of)| of.hosts.iter().any(|(host, _)| *host == request.node))
            };
            self.stranded_requests.extend(requests.extract_if(.., is_kept));
        }
        Some((said, LostHosts { branch, nodes, text, requests }))
    }

    /// An agent of a branch has lost these hosts below it.
    pub(crate) fn lose_below(
        &mut self,
        branch: usize,
        nodes: Vec<u32>,
        text: String,
    ) -> Option<LostHosts> {
        let far = self.get_mut(branch)?;
        far.child.hosts.retain(|(node, _)| !nodes.contains(node));
        let is_lost = |request: &mut AddressRequest| nodes.contains(&request.node);
        let requests = far.address_requests.extract_if(.., is_lost).collect();
        Some(LostHosts { branch, nodes, text, requests })
    }

    /// Handles an event of the listener for lifelines, or of one of them.
    pub(crate) fn lifeline_ready(&mut self, name: u32, events: &OwnedFd) {
        self.lifelines.ready(name, events, LIFELINES << 32);
    }

    /// Takes over the agents that have come after the loss of their parent.
    pub(crate) fn adopt_arrived(
        &mut self,
        host: &HostLauncher<'_>,
        silence: Duration,
    ) -> Vec<Adopted> {
        let mut adopted = Vec::new();
        for arrival in self.lifelines.take_arrived() {
            let place = self.stranded.iter_mut().enumerate();
            let mut found =
                place.filter_map(|(place, (_, of))| Some((place, of.take(&arrival.nodes)?)));
            match found.next() {
                Some((place, hosts)) => {
                    adopted.push(self.adopt((place, hosts), arrival, (host, silence)));
                }
                None => self.lifelines.keep_for_later(arrival),
            }
        }
        self.stranded.retain(|(_, stranded)| !stranded.hosts.is_empty());
        adopted
    }

    fn adopt(
        &mut self,
        (place, hosts): (usize, Vec<(u32, String)>),
        arrival: StrandedArrival,
        (host, silence): (&HostLauncher<'_>, Duration),
    ) -> Adopted {
        let (from, stranded) = &self.stranded[place];
        let mut child = Child::adopt(arrival, hosts, &stranded.kept, None);
        child.numbers.clone_from(&self.numbers);
        let (from, branch, nodes) = (*from, self.all.len(), Vec::from_iter(child.nodes()));
        let listened = host.listen(child.stream.input(), AGENT_STREAM, branch as u32);
        let mut far = RemoteAgent::new(child, silence);
        let is_its = |request: &mut AddressRequest| nodes.contains(&request.node);
        far.address_requests.extend(self.stranded_requests.extract_if(.., is_its));
        self.all.push(Some(far));
        Adopted { from, branch, nodes, error: listened.err().map(io::Error::from) }
    }

    /// The agents that have not come in time after the loss of their parent.
    pub(crate) fn take_late(&mut self, now: Instant) -> Vec<LostHosts> {
        let late = self.stranded.extract_if(.., |(_, stranded)| stranded.until <= now);
        let hosts = late.flat_map(|(branch, stranded)| {
            stranded.hosts.into_iter().map(move |(node, _)| (branch, node))
        });
        let requests = &mut self.stranded_requests;
        let lost = |(branch, node)| LostHosts {
            branch,
            nodes: vec![node],
            text: "it has not come to mpirun after the loss of its parent".into(),
            requests: requests.extract_if(.., |request| request.node == node).collect(),
        };
        hosts.map(lost).collect()
    }

    /// Ends all agents, and waits for that.
    pub(crate) fn end(&mut self) {
        let all = self.all.iter_mut().filter_map(Option::take);
        let mut all: Vec<Child> = all.map(|far| far.child).collect();
        Child::end_all(&mut all, |text| oxmpi_sys::stdio::complain(format_args!("{text}")));
    }
}
