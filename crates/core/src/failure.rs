//! Continuation after failures of processes (User-Level Failure Mitigation, the proposal of the MPI
//! Forum's fault tolerance working group; the functions `MPIX_Comm_*` of `mpi-ext.h`).
//!
//! The fabric reports lost processes. An operation that needs a lost process fails; the engine
//! fails the messages, this module fails the collectives. All other operations continue. The
//! program can then
//!
//! - *revoke* a communicator: all its members are notified, and every wait in it ends
//!   ([`Process::revoke`]);
//! - *agree* with the other living members while more members fail ([`Process::start_agree`];
//!   module [`agreement`]);
//! - *shrink* a communicator to its living members ([`Process::start_shrink`]).
//!
//! For these three, processes send each other *notices* ([`notice`]). Each progress of a process
//! reads them. A process that receives a revocation sends it to all members. So the revocation
//! reaches all members even if the first sender fails before it has notified all.

mod agreement;
mod notice;
mod ranks;

use crate::comm::Communicator;
use crate::file::File;
use crate::process::{Domain, Process};
use crate::wait_reason::{Awaited, Reason};
use agreement::{AgreementMessage, AgreementResult, Agreements, Contribution, Outbox};
use notice::Text;
use oxmpi_abi::extensions::{MPIX_ERR_PROC_FAILED, MPIX_ERR_REVOKED};
use oxmpi_engine::{Completion, Fault, Lane, RequestId, Team, TeamNotice};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_rt_client::waiting::Need;
use oxmpi_sys::bytes::Bytes;
use oxmpi_tuned::AgreementSettings;
use oxmpi_wire::ContextId;
use ranks::RankSet;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use agreement::Decision;

/// Called for a decision, with the lane locked. Returns the fault of the agreement's request.
type Conclude<F> = Box<dyn FnOnce(&mut Domain<F>, &Decision) -> Option<Fault> + Send>;

pub(crate) struct Failures<F> {
    /// The number of the lane's lost processes that [`Domain::attend`] has handled.
    seen: usize,
    /// By collective context of the communicator, with the team that agrees.
    agreements: HashMap<u32, (Arc<Team>, Agreements)>,
    /// Messages with their senders' ranks, by collective context, for communicators in which this
    /// process has begun no agreement. Until then this process does not know the algorithm.
    unopened: HashMap<u32, Vec<(u32, AgreementMessage)>>,
    waiting: Vec<OpenAgreement<F>>,
    early: Vec<TeamNotice>,
    /// The processes that have confirmed a revocation, by collective context.
    revoked: HashMap<u32, HashSet<u32>>,
}

impl<F> Failures<F> {
    pub(crate) fn is_agreeing(&self, context: u32) -> bool {
        self.waiting.iter().any(|waiting| waiting.context == context)
    }

    fn take_over(&mut self, context: u32) -> Option<(OpenAgreement<F>, AgreementResult)> {
        let (_, agreements) = self.agreements.get(&context)?;
        let here = |waiting: &OpenAgreement<F>| waiting.context == context;
        let (at, verdict) = self.waiting.iter().enumerate().find_map(|(at, waiting)| {
            Some((at, agreements.verdict(waiting.number).filter(|_| here(waiting))?))
        })?;
        Some((self.waiting.swap_remove(at), verdict))
    }

    /// Drops the state of a closed team. Until the close, other members may send notices for it.
    pub(crate) fn forget(&mut self, team: &Team) {
        let context = team.collective;
        self.agreements.remove(&context);
        self.unopened.remove(&context);
        self.revoked.remove(&context);
        self.early.retain(|notice| notice.context != context);
    }
}

const LOOK_AFTER: Duration = Duration::from_millis(50);

struct OpenAgreement<F> {
    context: u32,
    number: u64,
    request: RequestId,
    conclude: Conclude<F>,
}

impl<F> Default for Failures<F> {
    fn default() -> Failures<F> {
        Failures {
            seen: 0,
            agreements: HashMap::new(),
            unopened: HashMap::new(),
            waiting: Vec::new(),
            early: Vec::new(),
            revoked: HashMap::new(),
        }
    }
}

impl<F> std::fmt::Debug for Failures<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failures")
            .field("agreements", &self.agreements.len())
            .finish_non_exhaustive()
    }
}

impl<F: Fabric> Domain<F> {
    #[cold]
    #[inline(never)]
    pub(crate) fn attend(&mut self) {
        let lost = self.lane.lost()[self.failures.seen..].to_vec();
        self.failures.seen += lost.len();
        for process in lost {
            self.fail_collectives(|team| {
                team.map.rank(process).is_some().then_some(Fault::Lost { peer: process })
            });
            let contexts: Vec<u32> = self.failures.agreements.keys().copied().collect();
            for context in contexts {
                self.with_agreements(context, |team, agreements| match team.map.rank(process) {
                    Some(rank) => agreements.lose(rank),
                    None => Outbox::new(),
                });
            }
        }
        let mut notices = std::mem::take(&mut self.failures.early);
        while let Some(notice) = self.lane.take_notice() {
            notices.push(notice);
        }
        for notice in notices {
            self.notice(notice);
        }
        self.fail_collectives(|team| team.is_revoked().then_some(Fault::Revoked));
        for window in &mut self.windows {
            window.attend(&mut self.lane);
        }
        self.serving |= !self.windows.is_empty();
    }

    fn notice(&mut self, notice: TeamNotice) {
        let team =
            self.lane.team_of(notice.context).filter(|team| team.id.collective() == notice.id);
        // A process without the team can use only a revocation, whose text does not depend on the
        // size.
        let size = team.as_ref().map_or(1, |team| team.size());
        match (Text::decode(&notice.text, size), team) {
            (Some(Text::Revoke(id)), team) if id.collective() == notice.id => {
                self.failures.revoked.entry(notice.context).or_default().insert(notice.from);
                self.revoke(id);
                if team.is_none() {
                    self.lane.send_notice(notice.context, notice.from, Text::Revoked(id).encode());
                }
            }
            (Some(Text::Revoked(id)), Some(_)) if id.collective() == notice.id => {
                self.failures.revoked.entry(notice.context).or_default().insert(notice.from);
            }
            (Some(Text::Revoked(_)), None) => self.lane.forget_context(notice.context),
            (Some(Text::Agreement(message)), Some(team)) => {
                let Some(from) = team.map.rank(notice.from) else { return };
                match self.failures.agreements.contains_key(&notice.context) {
                    true => self.with_agreements(notice.context, |_, agreements| {
                        agreements.receive(from, message)
                    }),
                    false => self
                        .failures
                        .unopened
                        .entry(notice.context)
                        .or_default()
                        .push((from, message)),
                }
            }
            (_, None) => self.keep_early(notice),
            // No process of this library sends such a notice.
            (_, Some(_)) => {}
        }
    }

    /// Keeps a notice for a communicator that this process has not made yet, and drops one for a
    /// communicator that this process has closed. A notice that another process sends only after
    /// this process's contribution is for a closed communicator.
    fn keep_early(&mut self, notice: TeamNotice) {
        if Text::follows_contribution(&notice.text) {
            self.lane.forget_context(notice.context);
        } else {
            self.failures.early.push(notice);
        }
    }

    fn revoke(&mut self, id: ContextId) {
        if self.lane.revoke(id) {
            self.send_revocation(id);
        }
    }

    fn send_revocation(&mut self, id: ContextId) {
        // Without a team, [`Domain::note_opened`] notifies the members later.
        let Some(team) = self.lane.team_called(id.collective()) else { return };
        let text = Text::Revoke(id).encode();
        let me = self.lane.me();
        for process in team.map.processes().into_iter().filter(|process| *process != me) {
            self.lane.send_notice(team.collective, process, text.clone());
        }
    }

    pub(crate) fn note_opened(&mut self, union: &Team) {
        if union.is_revoked() {
            self.send_revocation(union.id);
        }
        if !self.failures.early.is_empty() {
            self.attend();
        }
    }

    /// Sends the decisions that other ranks may need before this communicator is freed.
    pub(crate) fn leave_agreements_of(&mut self, context: u32) {
        if !self.failures.is_agreeing(context) {
            self.with_agreements(context, |_, agreements| agreements.leave());
        }
    }

    /// [`Domain::leave_agreements_of`] for all communicators, at MPI_Finalize.
    pub(crate) fn leave_agreements(&mut self) {
        for context in self.failures.agreements.keys().copied().collect::<Vec<_>>() {
            self.leave_agreements_of(context);
        }
    }

    fn open_agreements(&mut self, team: &Arc<Team>, settings: AgreementSettings) {
        let context = team.collective;
        if self.failures.agreements.contains_key(&context) {
            return;
        }
        let mut agreements = Agreements::new(team.rank, team.size(), settings);
        let mut out = Outbox::new();
        for rank in self.lane.lost().iter().filter_map(|process| team.map.rank(*process)) {
            out.extend(agreements.lose(rank));
        }
        for (from, message) in self.failures.unopened.remove(&context).unwrap_or_default() {
            out.extend(agreements.receive(from, message));
        }
        debug_assert!(out.is_empty(), "before an agreement is begun there is nothing to send");
        self.failures.agreements.insert(context, (team.clone(), agreements));
    }

    fn with_agreements(
        &mut self,
        context: u32,
        act: impl FnOnce(&Team, &mut Agreements) -> Outbox,
    ) {
        let Some((team, agreements)) = self.failures.agreements.get_mut(&context) else { return };
        let out = act(team, agreements);
        let team = team.clone();
        self.send(&team, out);
        self.conclude(context);
    }

    fn send(&mut self, team: &Team, out: Outbox) {
        for (rank, message) in out {
            if let Some(process) = team.map.process(rank) {
                self.lane.send_notice(team.collective, process, Text::Agreement(message).encode());
            }
        }
    }

    fn conclude(&mut self, context: u32) {
        // Search from the beginning each time: a conclusion can complete other agreements.
        while let Some((OpenAgreement { request, conclude, .. }, verdict)) =
            self.failures.take_over(context)
        {
            // `conclude` can open a communicator, after which the program may free this one.
            if self.closing.iter().any(|team| team.collective == context) {
                self.leave_agreements_of(context);
            }
            let fault = match verdict {
                AgreementResult::Decided(decision) => conclude(self, &decision),
                AgreementResult::Failed(rank) => {
                    let team = self.failures.agreements.get(&context).map(|(team, _)| team);
                    let peer = team.and_then(|team| team.map.process(rank));
                    Some(Fault::Lost { peer: peer.unwrap_or(self.lane.me()) })
                }
            };
            self.lane
                .complete_external(request, Completion { fault, context, ..Completion::EMPTY });
        }
    }

    /// Begins an agreement on `flag`, and on one `name` out of those of all ranks.
    fn agree(
        &mut self,
        (union, settings): (&Arc<Team>, AgreementSettings),
        (flag, name): (u32, u64),
        conclude: Conclude<F>,
    ) -> RequestId {
        self.open_agreements(union, settings);
        let context = union.collective;
        let failed = self.lost_ranks(union, usize::MAX);
        let acknowledged = self.lost_ranks(union, self.lane.acknowledged(context));
        let request = self.lane.open_external();
        let contribution = Contribution { flag, name, failed, acknowledged, lacks: 0 };
        if let Some((_, agreements)) = self.failures.agreements.get_mut(&context) {
            let (number, out) = agreements.begin(contribution);
            self.failures.waiting.push(OpenAgreement { context, number, request, conclude });
            self.send(union, out);
            self.conclude(context);
        }
        request
    }

    fn lost_ranks(&self, team: &Team, count: usize) -> RankSet {
        let mut set = RankSet::empty(team.size());
        lost_of(&self.lane, team).take(count).for_each(|rank| set.insert(rank));
        set
    }

    fn learn_failed(&mut self, team: &Team, decision: &Decision) {
        for process in decision.failed.iter().filter_map(|rank| team.map.process(rank)) {
            if process != self.lane.me() {
                self.lane.fail(process);
            }
        }
    }
}

fn lost_of<'a, F: Fabric>(lane: &'a Lane<F>, team: &'a Team) -> impl Iterator<Item = u32> + 'a {
    lane.lost().iter().filter_map(|process| team.map.rank(*process))
}

pub(crate) fn check_not_revoked(comm: &Communicator) -> Result<()> {
    match comm.union().is_revoked() {
        false => Ok(()),
        true => Err(MpiError::new(MPIX_ERR_REVOKED, Fault::Revoked.to_string())),
    }
}

impl Communicator {
    /// Whether this process knows of a revocation (MPIX_Comm_is_revoked).
    pub fn is_revoked(&self) -> bool {
        self.union().is_revoked()
    }
}

impl<F: Fabric> Process<F> {
    /// Revokes a communicator: at all its members all open and new operations in it fail with
    /// MPIX_ERR_REVOKED, except agreements and shrinking (MPIX_Comm_revoke). The call is local.
    pub fn revoke(&self, comm: &Communicator) {
        self.enter(|domain| domain.revoke(comm.union().id));
        self.look(|_| ());
    }

    /// [`Process::revoke`] of a file: its collective calls end. The program can then only close it
    /// (MPIX_File_revoke).
    pub fn revoke_file(&self, file: &File) {
        self.revoke(file.communicator());
    }

    /// Waits until each living member of a revoked communicator on this node knows of the
    /// revocation or has finalized. After that no member writes into this process's memory for the
    /// communicator.
    pub(crate) fn wait_for_revoked(&self, comm: &Communicator) {
        let team = comm.union();
        let mut awaited = team.map.processes();
        awaited.retain(|process| *process != self.rank);
        let mut over = |domain: &mut Domain<F>| {
            let Domain { lane, failures, .. } = domain;
            let confirmed = failures.revoked.get(&team.collective);
            awaited.retain(|process| {
                !confirmed.is_some_and(|confirmed| confirmed.contains(process))
                    && !lane.lost().contains(process)
                    && lane.fabric_mut().may_write_here(*process)
            });
            awaited.is_empty().then_some(())
        };
        // A finalizing process rings no door, so the wait below polls.
        let reason = |domain: &Domain<F>| {
            let text =
                format!("to learn of the revocation{}", domain.place(team.point_to_point, None));
            Reason::new(text, Need::Attention, crate::wait_reason::others(team, self.rank))
        };
        let awaited = Awaited::Described(&reason);
        let mut note_writer = self.wait_note_writer(&awaited);
        while self.wait_until(Instant::now() + LOOK_AFTER, &mut note_writer, &mut over).is_none() {}
    }

    /// The known failed processes of a communicator, in the order of the reports
    /// (MPIX_Comm_get_failed). In an intercommunicator, those of both groups.
    pub fn failed(&self, comm: &Communicator) -> Vec<u32> {
        self.look(|domain| {
            let team = comm.union();
            lost_of(&domain.lane, team).filter_map(|rank| team.map.process(rank)).collect()
        })
    }

    /// The group of [`Process::failed`].
    pub fn failed_group(&self, comm: &Communicator) -> Result<Group> {
        Group::new(&self.failed(comm))
    }

    /// Makes progress, so that waiting notices are handled.
    pub fn receive_notices(&self) {
        self.look_again(|_| (), |()| true);
    }

    /// Acknowledges the first `count` processes of [`Process::failed`] (MPIX_Comm_ack_failed).
    /// Receives from any source wait again, unless more processes have failed. Returns the number
    /// of acknowledged processes.
    pub fn acknowledge(&self, comm: &Communicator, count: usize) -> usize {
        self.look(|domain| {
            let union = comm.union();
            let known = count.min(lost_of(&domain.lane, union).count());
            domain.lane.acknowledge(union.collective, known);
            let known = domain.lane.acknowledged(union.collective);
            let senders = lost_of(&domain.lane, union)
                .take(known)
                .filter_map(|rank| union.map.process(rank))
                .filter(|process| comm.team.map.rank(*process).is_some());
            let senders = senders.count();
            domain.lane.acknowledge(comm.team.point_to_point, senders);
            known
        })
    }

    /// Starts an agreement of all living processes of a communicator, which may be revoked, on the
    /// bits that all have set (MPIX_Comm_iagree). `flag` is an `int`, which receives the result.
    /// Collective.
    ///
    /// If some rank has not acknowledged a failure, the request fails with MPIX_ERR_PROC_FAILED on
    /// all ranks, with the same result in `flag`. Without tolerance of failures
    /// (`coll_ftagree_agreement 0`) the request fails at any failure and leaves the flag unchanged,
    /// while other ranks may have a result.
    pub fn start_agree(&self, comm: &Communicator, flag: UserBuf) -> Result<RequestId> {
        let settings = self.choice.agreement(comm)?;
        let mut bytes = [0; 4];
        flag.pack(0, oxmpi_sys::bytes::BytesMut::from(&mut bytes[..]));
        let union = comm.union().clone();
        let team = union.clone();
        let conclude: Conclude<F> = Box::new(move |domain, decision| {
            flag.unpack(0, Bytes::from(&decision.flag.to_ne_bytes()[..]));
            domain.learn_failed(&team, decision);
            let first = decision.failed.iter().next().and_then(|rank| team.map.process(rank));
            first.filter(|_| decision.news).map(|peer| Fault::Lost { peer })
        });
        let flag = u32::from_ne_bytes(bytes);
        let request = self.enter(|domain| domain.agree((&union, settings), (flag, 0), conclude));
        self.look(|_| ());
        Ok(request)
    }

    /// Starts to make a communicator of the living processes of `comm`, which may be revoked, in
    /// the same order (MPIX_Comm_ishrink). Collective. `deliver` receives the new communicator just
    /// before the request is complete, with the lane locked. Errors: this process has no context
    /// names left; MPI_ERR_OTHER if no component serves agreements.
    pub fn start_shrink(
        &self,
        comm: &Communicator,
        deliver: impl FnOnce(Communicator) + Send + 'static,
    ) -> Result<RequestId> {
        let settings = self.choice.agreement(comm)?;
        let name = self.new_context_ids(if comm.is_inter() { 3 } else { 1 })?;
        let (union, shape, heritage) = (comm.union().clone(), comm.shape(), comm.heritage());
        let team = union.clone();
        let conclude: Conclude<F> = Box::new(move |domain, decision| {
            domain.learn_failed(&team, decision);
            let is_alive = |process: u32| match team.map.rank(process) {
                Some(rank) => !decision.failed.contains(rank),
                None => false,
            };
            match shape.without(is_alive) {
                Some(shape) => {
                    deliver(domain.open_unshared(shape, ContextId(decision.name), heritage));
                    None
                }
                // The other ranks have declared this process failed.
                None => Some(Fault::Lost { peer: domain.lane.me() }),
            }
        });
        let request =
            self.enter(|domain| domain.agree((&union, settings), (u32::MAX, name.0), conclude));
        self.look(|_| ());
        Ok(request)
    }

    /// Blocking [`Process::start_agree`] (MPIX_Comm_agree). The flag has the result even if the
    /// call fails with MPIX_ERR_PROC_FAILED.
    pub fn agree(&self, comm: &Communicator, flag: UserBuf) -> Result<()> {
        let request = self.start_agree(comm, flag)?;
        self.wait(request).map(drop)
    }

    /// Sets whether a nonblocking receive from any source stays open after it has reported a failed
    /// member (MPIX_ERR_PROC_FAILED_PENDING). If not, its request is freed.
    pub fn keep_pending(&self, keeps: bool) {
        self.domain.lock().lane.keep_vain(keeps);
    }

    /// A request with a fault, for a nonblocking call whose start must not fail on a lost process.
    pub(crate) fn failed_request(&self, fault: Fault, context: u32) -> RequestId {
        let mut domain = self.domain.lock();
        let request = domain.lane.open_external();
        domain.lane.complete_external(request, Completion { context, ..Completion::failed(fault) });
        request
    }
}

pub(crate) fn is_failure(error: &MpiError) -> bool {
    [MPIX_ERR_PROC_FAILED, MPIX_ERR_REVOKED].contains(&error.class())
}

#[inline]
pub(crate) fn check_alive<F: Fabric>(
    lane: &Lane<F>,
    team: &Team,
) -> std::result::Result<(), Fault> {
    match team.is_revoked() {
        true => Err(Fault::Revoked),
        false => lane.lost_of(team).map_or(Ok(()), |peer| Err(Fault::Lost { peer })),
    }
}
