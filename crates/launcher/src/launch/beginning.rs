//! The start of a job on all its hosts: the ranks are prepared on this host and then on the others,
//! and run when all are prepared. New ranks (`start.rs`) and restored ones (`resume.rs`) differ in
//! how those of this host are prepared and begin.

use std::time::Duration;

use oxmpi_shm::segment::Boot;

use super::entrance::Entrance;
use super::input::{Feed, InputWriters};
use super::start::{Recruits, StartedRanks};
use super::times::{StartPhase, StartTimes};
use super::{Launch, LaunchError};
use crate::host::HostLauncher;
use crate::hosts::branches::{Branches, PATIENCE, RESTORING};
use crate::hosts::head::Watch;
use crate::hosts::joiners::Joiners;
use oxmpi_rt_proto::agent::{AgentOrder, BranchRound, ToAgent};

/// A job whose ranks do not run on all hosts yet.
pub(super) struct Beginning<'a, 'w> {
    pub(super) launch: &'a Launch,
    pub(super) watch: Watch<'w>,
    /// Whether this host has ranks.
    has_ranks: bool,
    pub(super) times: StartTimes,
    pub(super) host: HostLauncher<'a>,
    pub(super) branches: Branches,
    /// The limit for an answer of a branch.
    patience: Duration,
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
        let patience = if mark.is_some() { RESTORING } else { PATIENCE };
        let branches = Branches::default();
        Ok(Beginning { launch, watch, has_ranks, times, host, branches, patience })
    }

    /// The job whose ranks run on all hosts.
    pub(super) fn into_started(
        self,
        (boot, nodes): (Boot, Vec<u32>),
        (secret, feed): ([u8; 32], Feed),
        entrance: Entrance,
        joiners: Option<Joiners>,
    ) -> StartedRanks<'a> {
        let Beginning { watch: (_, deadline), times, host, branches, .. } = self;
        StartedRanks {
            boot,
            nodes,
            host,
            feed,
            secret,
            deadline,
            branches,
            entrance,
            joiners,
            times,
        }
    }

    /// Prepares the ranks of other hosts, when those of this host are. Starts the agents, unless
    /// these have called. Returns the addresses of the ranks.
    pub(super) fn prepare_others(
        &mut self,
        called: Option<Branches>,
        order: AgentOrder,
    ) -> Result<Vec<(u32, String)>, LaunchError> {
        self.times.add_own(StartPhase::Segments, self.has_ranks);
        self.branches = match called {
            Some(called) => called,
            None => Branches::open(self.launch, self.watch)?,
        };
        self.times.add_far(StartPhase::Agents, &self.branches);
        self.branches.offer_lifelines(self.launch);
        let round = (BranchRound::Ready { base: 0 }, self.patience);
        self.branches.ask_all(&ToAgent::Order(Box::new(order)), round, self.watch)?;
        self.times.add_far(StartPhase::Segments, &self.branches);
        Ok(self.branches.addresses())
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
        let round = (BranchRound::Started { base: 0 }, self.patience);
        self.branches.ask_all(&ToAgent::Go { addresses }, round, self.watch)?;
        self.times.add_far(StartPhase::Exec, &self.branches);
        Ok(())
    }
}
