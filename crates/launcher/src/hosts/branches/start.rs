//! The start of the agents, and of ranks on their hosts: those of the first job, or of a job that
//! the running ones spawn.

use std::rc::Rc;
use std::time::{Duration, Instant};

use oxmpi_sys::spawn::Signals;
use tracing::info;

use super::super::child::{Child, host_error, numbered};
use super::super::head::{RemoteAgent, Watch, done, interrupted, still_awaited, wait};
use super::super::lifelines::Lifelines;
use super::super::opening::HostAgent;
use super::super::pieces::FileSender;
use super::Branches;
use crate::launch::{Deadline, Launch, LaunchError, Spread};
use oxmpi_rt_proto::agent::{BranchHost, BranchRound, DownRoute, Receivers, ToAgent};

/// The limit for an answer of a branch before the ranks run.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The limit for a branch that restores images, which are as large as the ranks' memory.
pub(crate) const RESTORING: Duration = Duration::from_secs(3600);
/// The limit for an answer about a spawn, for which the running ranks wait.
const SPAWNING: Duration = Duration::from_secs(30);

/// A question to branches, until all have answered.
pub(crate) struct AnswerRound {
    pub(crate) round: BranchRound,
    /// Whether ranks run, whose messages are handled later.
    pub(crate) is_of_spawn: bool,
    awaited: Vec<usize>,
    patience: Duration,
    end: Instant,
}

impl AnswerRound {
    /// The first rank of the job that starts.
    pub(crate) fn base(&self) -> u32 {
        match self.round {
            BranchRound::Ready { base } | BranchRound::Started { base } => base,
            BranchRound::Reached | BranchRound::Seen { .. } => 0,
        }
    }
}

impl Branches {
    /// Agents that have called, or that are being started.
    pub(crate) fn new(launch: &Launch, mut children: Vec<Child>) -> Branches {
        let silence = Duration::from_secs(launch.params.mpi_agent_silence_s());
        let numbers = launch.params.mpi_ft_enable().then(Rc::default);
        children.iter_mut().for_each(|child| child.numbers.clone_from(&numbers));
        let all = children.into_iter().map(|child| Some(RemoteAgent::new(child, silence)));
        Branches { all: all.collect(), numbers, ..Branches::default() }
    }

    /// Starts all agents of a job, and waits until they have answered.
    pub(crate) fn open(
        launch: &Launch,
        (signals, deadline): Watch<'_>,
    ) -> Result<Branches, LaunchError> {
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
        let mut branches = Branches::new(launch, children);
        let answers = branches.begin_round(BranchRound::Reached, None, PATIENCE);
        branches.await_all(answers, (signals, deadline))?;
        Ok(branches)
    }

    /// Offers lifelines to the children that need one.
    pub(crate) fn offer_lifelines(&mut self, launch: &Launch) {
        let children = self.all.iter_mut().flatten().map(|far| &mut far.child).collect();
        self.lifelines = Lifelines::offer_to(launch, children, None).0;
    }

    /// Sends all agents a message, and waits until all have answered.
    pub(crate) fn ask_all(
        &mut self,
        message: &ToAgent,
        (round, patience): (BranchRound, Duration),
        watch: Watch<'_>,
    ) -> Result<(), LaunchError> {
        let number = numbered(self.numbers.as_deref(), message);
        let bytes = message.encode(&DownRoute { to: Receivers::All, round: Some(round), number });
        self.iter_mut().for_each(|far| far.child.post_frame(number, &bytes));
        let answers = self.begin_round(round, None, patience);
        self.await_all(answers, watch)
    }

    /// Sends a message about a spawn to the agents of some hosts (of branches with these indices).
    pub(crate) fn ask_for_spawn(
        &mut self,
        (branches, nodes): (&[usize], &[u32]),
        message: &ToAgent,
        round: BranchRound,
    ) -> AnswerRound {
        for at in branches {
            if let Some(far) = self.get_mut(*at) {
                far.child.post(message, Receivers::Nodes(nodes.to_vec()), Some(round));
            }
        }
        self.begin_round(round, Some(branches), SPAWNING)
    }

    /// Begins to wait for the answers of branches: of all, or in a spawn of some.
    fn begin_round(
        &mut self,
        round: BranchRound,
        of_spawn: Option<&[usize]>,
        patience: Duration,
    ) -> AnswerRound {
        self.iter_mut().for_each(|far| far.report = None);
        let awaited = of_spawn.map_or_else(|| (0..self.all.len()).collect(), <[usize]>::to_vec);
        let (is_of_spawn, end) = (of_spawn.is_some(), Instant::now() + patience);
        AnswerRound { round, is_of_spawn, awaited, patience, end }
    }

    /// Handles what has come. Returns whether all have answered.
    pub(crate) fn have_answered(&mut self, answers: &mut AnswerRound) -> Result<bool, LaunchError> {
        for at in std::mem::take(&mut answers.awaited) {
            let gone = || LaunchError::AgentLost("the agent of a host is lost".into());
            let far = self.get_mut(at).ok_or_else(gone)?;
            if far.read_answer(answers)? {
                far.note_slowest();
                let (host, took) = (&far.child.host, far.slowest.0);
                info!(host, ?took, "an agent has {}", done(answers.round));
            } else {
                answers.awaited.push(at);
            }
        }
        Ok(answers.awaited.is_empty())
    }

    /// Waits for answers once, for this time at most; an error if they are late.
    pub(crate) fn wait(
        &mut self,
        answers: &AnswerRound,
        signals: &Signals,
        left: Option<Duration>,
    ) -> Result<(), LaunchError> {
        let until_late = answers.end.saturating_duration_since(Instant::now());
        answers.awaited.iter().for_each(|at| {
            self.get_mut(*at).into_iter().for_each(|far| far.child.stream.flush());
        });
        let awaited: Vec<&RemoteAgent> = self.awaited(answers).collect();
        match awaited.first() {
            Some(late) if until_late.is_zero() => Err(late.is_late(answers)),
            _ => wait(&awaited, signals, left.map_or(until_late, |left| left.min(until_late))),
        }
    }

    fn awaited(&self, answers: &AnswerRound) -> impl Iterator<Item = &RemoteAgent> {
        answers.awaited.iter().filter_map(|at| self.get(*at))
    }

    fn await_all(
        &mut self,
        mut answers: AnswerRound,
        (signals, deadline): Watch<'_>,
    ) -> Result<(), LaunchError> {
        while !self.have_answered(&mut answers)? {
            if let Some(Deadline { time, .. }) = deadline.filter(|limit| limit.left().is_zero()) {
                let awaited: Vec<&RemoteAgent> = self.awaited(&answers).collect();
                return Err(LaunchError::TimedOut {
                    time,
                    text: still_awaited(&awaited, answers.round),
                });
            }
            self.wait(&answers, signals, deadline.map(|deadline| deadline.left()))?;
            if let Some(number) = interrupted(signals) {
                return Err(LaunchError::Interrupted(number));
            }
        }
        Ok(())
    }

    /// The addresses of the ranks that have been prepared.
    pub(crate) fn addresses(&self) -> Vec<(u32, String)> {
        let reports = self.iter().filter_map(|far| far.report.as_ref());
        reports.flat_map(|report| report.addresses.clone()).collect()
    }

    /// The ranks that have been started, each with its branch and process number.
    pub(crate) fn started(&self) -> Vec<(usize, u32, u32)> {
        let reports = self.all.iter().map(|far| far.as_ref()?.report.as_ref()).enumerate();
        let pids = reports.flat_map(|(at, report)| {
            report.into_iter().flat_map(move |report| report.pids.iter().map(move |pid| (at, pid)))
        });
        pids.map(|(at, (rank, pid))| (at, *rank, *pid)).collect()
    }

    /// The lengths of the last step of the branches, each with the host that has taken it.
    pub(crate) fn slowest(&self) -> impl Iterator<Item = &(Duration, String)> {
        self.iter().map(|far| &far.slowest)
    }

    /// Sends images to the hosts that have no access to them; `files`: those of a host.
    pub(crate) fn send_images(
        &mut self,
        files: impl Fn(u32) -> FileSender,
        watch: Watch<'_>,
    ) -> Result<(), LaunchError> {
        for far in self.iter_mut() {
            let nodes = far.report.as_ref().map(|report| report.wants_images.clone());
            for node in nodes.unwrap_or_default() {
                far.send_files(node, files(node), watch)?;
            }
        }
        Ok(())
    }
}

impl RemoteAgent {
    /// The error about an answer that has not come.
    fn is_late(&self, answers: &AnswerRound) -> LaunchError {
        let (seconds, shown) = (answers.patience.as_secs(), &self.child.shown);
        let text = match answers.is_of_spawn {
            true => format!("its agent has not answered for {seconds} s"),
            false => format!(
                "the agent there has not answered for {seconds} s; it was started by '{shown}'\n  Next:    try that command by \
                 hand; it should print a line that begins with OXMPI-AGENT"
            ),
        };
        host_error(&self.child.host, text)
    }
}
