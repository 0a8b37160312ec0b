//! The start of a job on all its hosts: the ranks are prepared on this host and then on the others,
//! and run when all are prepared. New ranks (`start.rs`) and restored ones (`resume.rs`) differ in
//! how those of this host are prepared and begin.

use oxmpi_shm::segment::Boot;

use super::entrance::Entrance;
use super::input::{Feed, InputWriters};
use super::start::{Recruits, StartedRanks};
use super::times::{StartPhase, StartTimes};
use super::{Launch, LaunchError};
use crate::host::HostLauncher;
use crate::hosts::head::{RemoteAgent, Watch};
use crate::hosts::joiners::Joiners;
use crate::hosts::lifelines::Lifelines;
use oxmpi_rt_proto::agent::AgentOrder;

/// A job whose ranks do not run on all hosts yet.
pub(super) struct Beginning<'a, 'w> {
    pub(super) launch: &'a Launch,
    pub(super) watch: Watch<'w>,
    /// Whether this host has ranks.
    has_ranks: bool,
    pub(super) times: StartTimes,
    pub(super) host: HostLauncher<'a>,
    pub(super) far: Vec<RemoteAgent>,
    pub(super) lifelines: Lifelines,
}

impl<'a, 'w> Beginning<'a, 'w> {
    /// Before anything is prepared. `mark` is that of restored processes.
    pub(super) fn new(
        launch: &'a Launch,
        entrance: &Entrance,
        mark: Option<&str>,
        (has_ranks, watch): (bool, Watch<'w>),
    ) -> Result<Self, LaunchError> {
        let times = StartTimes::begin(launch);
        let mut host = HostLauncher::of_head(launch, entrance.names().0)?;
        host.start_guard(mark)?;
        let (far, lifelines) = (Vec::new(), Lifelines::default());
        Ok(Beginning { launch, watch, has_ranks, times, host, far, lifelines })
    }

    /// The job whose ranks run on all hosts.
    pub(super) fn into_started(
        self,
        (boot, nodes): (Boot, Vec<u32>),
        (secret, feed): ([u8; 32], Feed),
        entrance: Entrance,
        joiners: Option<Joiners>,
    ) -> StartedRanks<'a> {
        let Beginning { watch: (_, deadline), times, host, far, lifelines, .. } = self;
        let entrance = Some(entrance);
        StartedRanks {
            boot,
            nodes,
            host,
            feed,
            secret,
            deadline,
            far,
            lifelines,
            entrance,
            joiners,
            times,
        }
    }

    /// Prepares the ranks of other hosts, when those of this host are. Starts the agents, unless
    /// these have called. Returns the addresses of the ranks.
    pub(super) fn prepare_others(
        &mut self,
        agents: Option<Vec<RemoteAgent>>,
        order: AgentOrder,
    ) -> Result<Vec<(u32, String)>, LaunchError> {
        self.times.add_own(StartPhase::Segments, self.has_ranks);
        self.far = match agents {
            Some(agents) => agents,
            None => RemoteAgent::open_all(self.launch, self.watch)?,
        };
        self.times.add_far(StartPhase::Agents, &self.far);
        self.lifelines = Lifelines::offer(self.launch, &mut self.far);
        RemoteAgent::prepare_all(&mut self.far, order, self.watch)?;
        self.times.add_far(StartPhase::Segments, &self.far);
        Ok(RemoteAgent::addresses(&self.far))
    }

    /// Starts the ranks of other hosts, when those of this host are started: these have the numbers
    /// and nodes of `names`.
    pub(super) fn start_others(
        &mut self,
        (names, recruits): (Vec<(u32, u32)>, Recruits),
        inputs: InputWriters,
        addresses: Vec<(u32, String)>,
    ) -> Result<(), LaunchError> {
        self.host.enlist_all(names, recruits, (0, None))?;
        inputs.into_iter().for_each(|(rank, pipe)| self.host.add_input(rank, pipe));
        self.times.add_own(StartPhase::Exec, self.has_ranks);
        RemoteAgent::start_all(&mut self.far, addresses, self.watch)?;
        self.times.add_far(StartPhase::Exec, &self.far);
        Ok(())
    }
}
