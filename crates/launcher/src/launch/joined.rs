//! A job whose processes another launcher has started (`rt-client/src/client/joining.rs`): this
//! process is the agent of its host, and either the head, or called to the head.
//!
//! The head waits until all ranks have come, on its own host and with the agents that call, and
//! then starts the job as [`super::run`] does. The processes run already: each gets its segment and
//! keeps the connection with which it has come as its control socket.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use oxmpi_daemon::stream::Stream;
use oxmpi_rt_proto::agent::FromAgent;
use oxmpi_sys::spawn::Signals;
use oxmpi_sys::{fdpass, host};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, pidfd_send_signal};
use tracing::{info, warn};

use super::{App, Host, Launch, LaunchError, Spread, kernel, prepare, run_with};
use crate::hosts::agent::Agent;
use crate::hosts::branches::Branches;
use crate::hosts::callers::{Callers, Invitation, call};
use crate::hosts::child::Child;
use crate::hosts::joiners::{Joiner, JoinerNews, Joiners};
use crate::hosts::opening::{HostAgent, Starts};
use crate::polling::wait_for;

/// The limit for one attempt to call the head, after which this process checks its signals and the
/// processes that wait.
const CALL: Duration = Duration::from_secs(5);
/// The time for processes to read that the job cannot start.
const REFUSAL: Duration = Duration::from_secs(2);
/// The most missing ranks that a text names.
const SHOWN: usize = 8;

/// The agents and processes that have come, before their job starts.
pub(crate) struct Gathered {
    pub(crate) branches: Branches,
    pub(crate) joiners: Joiners,
}

/// Serves the processes of another launcher's job on this host, of which the first has passed a
/// listening socket and the connection with itself. `launch` has the parameters. Returns when the
/// job is over. An error before the start is sent to the processes, which print it.
pub fn serve_joined(
    mut launch: Launch,
    listener: OwnedFd,
    founder: OwnedFd,
) -> Result<i32, LaunchError> {
    let signals = prepare(false)?;
    let mut gathering = Gathering::begin(&launch, &signals, (listener, founder))?;
    let found = gathering.await_head();
    let Some((number, head)) = gathering.unless_refused(found) else { return Ok(1) };
    if head != gathering.card {
        let called = gathering.call_head(&head, number);
        let Some(stream) = gathering.unless_refused(called) else { return Ok(1) };
        let agent = Agent::new(launch.library_directory, &signals, stream)?;
        return agent.with_joiners(gathering.joiners)?.run();
    }
    let complete = gathering.await_all();
    let Some(()) = gathering.unless_refused(complete) else { return Ok(1) };
    let (gathered, spread, apps) = gathering.into_job(&launch);
    (launch.spread, launch.apps) = (spread, apps);
    run_with(&launch, &signals, None, Some(gathered))
}

/// The wait for all ranks of a job.
struct Gathering<'a> {
    signals: &'a Signals,
    limit: Duration,
    end: Instant,
    /// The number of the job's ranks, by the first process that has come.
    size: Option<u32>,
    /// The host of each rank that has come: 0 is this one, the others are those of `children`.
    nodes: BTreeMap<u32, u32>,
    children: Vec<Child>,
    joiners: Joiners,
    card: Vec<u8>,
    /// An error if this host has no network, which jobs on one host do not need.
    callers: Result<Callers, String>,
}

impl<'a> Gathering<'a> {
    fn begin(
        launch: &Launch,
        signals: &'a Signals,
        (listener, founder): (OwnedFd, OwnedFd),
    ) -> Result<Gathering<'a>, LaunchError> {
        let (callers, invitation) = match Callers::listen(&launch.params, &launch.hostmap) {
            Ok((callers, invitation)) => (Ok(callers), invitation),
            Err(error) => (Err(error.to_string()), Invitation::to_nowhere()?),
        };
        let card = invitation.encode();
        let joiners = Joiners::new(listener, founder, card.clone())
            .map_err(|error| LaunchError::Kernel("wait for the ranks", error))?;
        let limit = Duration::from_secs(launch.params.mpi_join_limit_s());
        Ok(Gathering {
            signals,
            limit,
            end: Instant::now() + limit,
            size: None,
            nodes: BTreeMap::new(),
            children: Vec::new(),
            joiners,
            card,
            callers,
        })
    }

    /// The value; an error is sent to all processes that wait.
    fn unless_refused<T>(&mut self, result: Result<T, LaunchError>) -> Option<T> {
        result.map_err(|error| self.refuse(&error)).ok()
    }

    /// Refuses all processes that wait. Those in a call of the process manager, which waits for
    /// processes that will not come, do not read that, and are ended.
    fn refuse(&mut self, error: &LaunchError) {
        warn!(%error, "the job cannot start");
        let waiting = self.joiners.refuse_all(&error.to_string());
        let end = Instant::now() + REFUSAL;
        let is_deaf = |joiner: &&Joiner| fdpass::has_unread(&joiner.control).unwrap_or(false);
        while waiting.iter().any(|joiner| is_deaf(&joiner)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let deaf: Vec<&Joiner> = waiting.iter().filter(is_deaf).collect();
        if !deaf.is_empty() {
            oxmpi_sys::complain!("mpirun: {error}");
        }
        for joiner in deaf {
            let _ = pidfd_send_signal(&joiner.process.pidfd, Signal::TERM);
        }
    }

    /// Calls the head as the agent with this number.
    fn call_head(&mut self, head: &[u8], number: u32) -> Result<Stream, LaunchError> {
        let head = Invitation::decode(head)
            .map_err(|error| LaunchError::Join(format!("the card of the head: {error}")))?;
        loop {
            let callers =
                self.callers.as_ref().map_err(|error| LaunchError::Join(error.clone()))?;
            let error = match call(&head, number, callers.keys(), &host::name(), CALL) {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            if self.end <= Instant::now() || error.kind() == io::ErrorKind::Unsupported {
                return Err(LaunchError::Kernel("reach the host of rank 0", error));
            }
            warn!(%error, "the host of rank 0 cannot be reached yet");
            self.serve_joiners()?;
            self.obey_signals()?;
        }
    }

    /// Waits for the card of the head, and this agent's number for the process manager.
    fn await_head(&mut self) -> Result<(u32, Vec<u8>), LaunchError> {
        loop {
            for news in self.serve_joiners()? {
                if let JoinerNews::Head { number, card } = news {
                    return Ok((number, card));
                }
            }
            self.wait("the card of the head")?;
        }
    }

    /// Waits until all ranks have come.
    fn await_all(&mut self) -> Result<(), LaunchError> {
        loop {
            for news in self.serve_joiners()? {
                if let JoinerNews::AgentCard { number, card } = news {
                    let card = card.and_then(|card| Invitation::decode(&card).ok());
                    self.callers.iter_mut().for_each(|callers| {
                        callers.know(number, card.as_ref().map(|card| card.key))
                    });
                }
            }
            if let Ok(callers) = &mut self.callers {
                callers.serve().into_iter().for_each(|number| self.joiners.request_card(number));
            }
            self.welcome_callers();
            self.read_children()?;
            let count = self.nodes.len() as u64;
            if self.size.is_some_and(|size| count >= u64::from(size)) {
                return Ok(());
            }
            self.wait("all ranks")?;
        }
    }

    /// Serves the processes of this host, and returns the messages about the process manager.
    fn serve_joiners(&mut self) -> Result<Vec<JoinerNews>, LaunchError> {
        let news = self.joiners.serve();
        let news = news.map_err(|error| LaunchError::Kernel("wait for the ranks", error))?;
        let mut others = Vec::new();
        for one in news {
            match one {
                JoinerNews::Came { rank, size } => {
                    if *self.size.get_or_insert(size) != size {
                        let text = format!("its processes name several sizes: {size}");
                        return Err(LaunchError::Join(text));
                    }
                    self.note_rank(rank, 0)?;
                }
                JoinerNews::Gone(text) => return Err(LaunchError::Join(text)),
                other => others.push(other),
            }
        }
        Ok(others)
    }

    fn note_rank(&mut self, rank: u32, node: u32) -> Result<(), LaunchError> {
        let is_new = self.nodes.insert(rank, node).is_none();
        match is_new && self.size.is_none_or(|size| rank < size) {
            true => Ok(()),
            false => Err(LaunchError::Join(format!(
                "two processes are rank {rank}, or it has fewer ranks"
            ))),
        }
    }

    fn welcome_callers(&mut self) {
        let Ok(callers) = &mut self.callers else { return };
        for caller in callers.take_arrived() {
            let node = self.children.len() as u32 + 1;
            info!(host = caller.host, number = caller.number, node, "an agent has called");
            self.children.push(Child::called((node, caller.host), caller.stream));
        }
    }

    fn read_children(&mut self) -> Result<(), LaunchError> {
        for at in 0..self.children.len() {
            let child = &mut self.children[at];
            let (node, ended) = (child.node, child.read());
            let mut came = Vec::new();
            loop {
                let next = child.next().and_then(|next| next.map(|next| next.read()).transpose());
                match next.map_err(|error| child.senseless(&error))? {
                    Some((_, FromAgent::Came { ranks })) => came.extend(ranks),
                    Some((_, FromAgent::Failed { text, .. })) => {
                        return Err(LaunchError::Join(text));
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            if let Some(error) = ended {
                return Err(child.why_ended(error));
            }
            came.into_iter().try_for_each(|rank| self.note_rank(rank, node))?;
        }
        Ok(())
    }

    /// Waits for an event; an error after the limit, and if this process is to end.
    fn wait(&mut self, awaited: &str) -> Result<(), LaunchError> {
        let now = Instant::now();
        if self.end <= now {
            return Err(LaunchError::Join(self.missing(awaited)));
        }
        let callers_limit = self.callers.as_ref().ok().and_then(Callers::next_limit);
        let end = callers_limit.map_or(self.end, |limit| self.end.min(limit));
        self.children.iter_mut().for_each(|child| child.stream.flush());
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.joiners.events(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        self.callers.iter().for_each(|callers| callers.poll_into(&mut fds));
        self.children.iter().for_each(|child| child.poll_into(&mut fds));
        let left = end.saturating_duration_since(now);
        kernel("wait for the ranks", wait_for(&mut fds, Some(left)))?;
        self.obey_signals()
    }

    /// An error if a signal is to end this process; SIGUSR1 prints the missing ranks.
    fn obey_signals(&self) -> Result<(), LaunchError> {
        while let Ok(Some(number)) = self.signals.next() {
            match Signal::from_named_raw(number) {
                Some(Signal::USR1) => {
                    oxmpi_sys::complain!(
                        "mpirun: the job starts when all ranks are here: {}",
                        self.state()
                    );
                }
                Some(Signal::CHILD | Signal::USR2 | Signal::TSTP | Signal::XFSZ) => {}
                _ => return Err(LaunchError::Interrupted(number)),
            }
        }
        Ok(())
    }

    /// The number of ranks that are here, and the missing ranks.
    fn state(&self) -> String {
        let size = self.size.unwrap_or(0);
        let missing: Vec<u32> = (0..size).filter(|rank| !self.nodes.contains_key(rank)).collect();
        let shown: Vec<String> = missing.iter().take(SHOWN).map(u32::to_string).collect();
        let more = match missing.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let network = match &self.callers {
            Ok(_) => String::new(),
            Err(error) => format!("; other hosts cannot reach this one: {error}"),
        };
        let here = self.nodes.len();
        format!("{here} of {size} are here; missing: {}{more}{network}", shown.join(", "))
    }

    /// The text about the limit.
    fn missing(&self, awaited: &str) -> String {
        format!(
            "it waited {} s (mpi_join_limit_s) for {awaited}: of the ranks {}; each process that the launcher starts must call \
             MPI_Init",
            self.limit.as_secs(),
            self.state()
        )
    }

    /// The hosts and the program of the job, all of whose ranks have come.
    fn into_job(self, launch: &Launch) -> (Gathered, Option<Spread>, Vec<App>) {
        let path = self.joiners.waiting().first().and_then(|rank| self.joiners.pid_of(*rank));
        let path = path.and_then(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok());
        let path = path.unwrap_or_else(|| PathBuf::from("the program of another launcher"));
        let app = App {
            ranks: self.nodes.len() as u32,
            args: vec![path.clone().into_os_string()],
            path,
            inherited: std::env::vars_os().collect::<Vec<(OsString, OsString)>>(),
            inherits_chosen: false,
            env: Vec::new(),
            directory: None,
        };
        let host = |name: &str, agent| Host { name: name.to_string(), agent, slots: 1 };
        let here = [host(&host::name(), HostAgent::Unneeded)];
        let called = self.children.iter().map(|child| host(&child.host, HostAgent::Called));
        let spread = (!self.children.is_empty()).then(|| Spread {
            hosts: here.into_iter().chain(called).collect(),
            nodes: self.nodes.into_values().collect(),
            starts: Starts::default(),
            step: None,
        });
        let branches = Branches::new(launch, self.children);
        (Gathered { branches, joiners: self.joiners }, spread, vec![app])
    }
}
