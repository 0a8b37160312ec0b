//! One call for a library, from its first step to its last.

use super::arguments::{PreparedCall, prepare};
use super::creation::{CreationStep, Round, RoundChannel, pairs};
use super::hcoll::Entered;
use super::known::{LibraryCall, LibraryRequest, describe, for_hcoll, post};
use super::libraries::{MadeTeam, TeamInCreation};
use super::{CallKind, CollLibrary, CommTeam, Handed, HandedLibraries, TeamState};
use crate::choice::Say;
use crate::run_cache::Single;
use crate::task::{Stand, advance_run};
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Area, Combine, Memory, Run};
use oxmpi_engine::{Completion, Fault, Lane, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Setup, Shared};
use oxmpi_ucc::{UccCollective, UccState};
use std::sync::Arc;

pub(crate) struct HandedOver {
    library: CollLibrary,
    channel: RoundChannel,
    number: u64,
    call_kind: CallKind,
    stage: CallStage,
    arguments: Option<LibraryCall>,
    results: Option<(UserBuf, Area)>,
    plan: Option<Box<Single>>,
}

pub(super) enum CallStage {
    Waiting,
    Agreeing { request: std::result::Result<LibraryRequest, String>, round: Option<Round> },
    Posted(LibraryRequest),
    Planned,
}

impl HandedOver {
    /// `plan` serves the call if the library does not. `number` comes from [`Handed::draw`]. The
    /// inner error returns the plan if the library has no such collective.
    pub(crate) fn new(
        handed: &mut Handed,
        (call, memory, combine): (&Call, &Memory, &Combine),
        (number, setup): (u64, Shared<Setup>),
        plan: Box<Single>,
    ) -> Result<std::result::Result<HandedOver, Box<Single>>> {
        let team: Arc<Team> = plan.run.team().clone();
        handed.check(team.collective).map_err(|why| MpiError::new(abi::MPI_ERR_OTHER, why))?;
        let library = handed.library;
        let prepared = prepare(library, (call, memory, combine), team.rank)?;
        let described = prepared.and_then(|PreparedCall { call_kind, arguments, results }| {
            let described = match library {
                CollLibrary::Ucc => Some(LibraryCall::Ucc(arguments)),
                CollLibrary::Hcoll => for_hcoll(arguments).map(LibraryCall::Hcoll),
            };
            Some((call_kind, described?, results))
        });
        let Some((call_kind, arguments, results)) = described else {
            handed.put_back(&team);
            return Ok(Err(plan));
        };
        let channel = RoundChannel { team, tag: plan.run.tag(), setup };
        handed.active += 1;
        Ok(Ok(HandedOver {
            library,
            channel,
            number,
            call_kind,
            stage: CallStage::Waiting,
            arguments: Some(arguments),
            results,
            plan: Some(plan),
        }))
    }

    pub(crate) fn team(&self) -> &Team {
        &self.channel.team
    }

    pub(crate) fn library(&self) -> CollLibrary {
        self.library
    }

    pub(crate) fn stand_in(&self) -> Option<&Run> {
        self.plan.as_ref().map(|plan| &plan.run)
    }

    pub(crate) fn into_plan(self) -> Option<Box<Single>> {
        self.plan
    }

    pub(crate) fn advance<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        libraries: &mut HandedLibraries,
        say: &Say,
    ) -> Stand {
        let Some(handed) = libraries.of(self.library) else { return self.failed() };
        loop {
            match self.step(lane, handed, say) {
                Ok(Some(stand)) => return stand,
                Ok(None) => {}
                Err(why) => {
                    let CallKind { kind, datatype, .. } = self.call_kind;
                    let component = self.library.component();
                    say(&format!(
                        "coll: {component}: {kind:?} of {datatype:?} has failed at this rank: {why}"
                    ));
                    handed.active = handed.active.saturating_sub(1);
                    self.give_up_round(lane);
                    return self.failed();
                }
            }
        }
    }

    fn step<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        handed: &mut Handed,
        say: &Say,
    ) -> std::result::Result<Option<Stand>, String> {
        let context = self.channel.team.collective;
        match &mut self.stage {
            CallStage::Waiting => {
                handed.check(context)?;
                let Some(entered) = self.library.enter() else { return Ok(Some(Stand::Waiting)) };
                let has_begun = self.begin(lane, &entered, handed, say)?;
                Ok((!has_begun).then_some(Stand::Waiting))
            }
            CallStage::Agreeing { round, .. } => {
                handed.check(context)?;
                let Some(entered) = self.library.enter() else { return Ok(Some(Stand::Waiting)) };
                let Some(all) = Round::poll(round, lane) else { return Ok(Some(Stand::Waiting)) };
                self.agree(all, (lane, &entered), handed, say)
                    .inspect_err(|why| handed.fail_team(context, why, lane))?;
                Ok(None)
            }
            CallStage::Posted(request) => match request.state() {
                // A poisoned library makes no more progress.
                UccState::Going if handed.poison.is_some() => {
                    Err(handed.poison.clone().unwrap_or_default())
                }
                UccState::Going => match handed.fault(context) {
                    None => Ok(Some(Stand::Waiting)),
                    Some(fault) => {
                        let why = format!("a message of {} has failed: {fault}", self.library);
                        handed.poison(&why, lane);
                        Err(why)
                    }
                },
                UccState::Done => {
                    let copied = self.results.take().map_or(Ok(()), |(from, into)| {
                        let len = from.packed_len();
                        into.copy_from(0, &from.into(), 0, len);
                        into.settle()
                    });
                    handed.active = handed.active.saturating_sub(1);
                    Ok(Some(Stand::Done(match copied {
                        Ok(()) => Completion::EMPTY,
                        Err(fault) => Completion { context, ..Completion::failed(fault.into()) },
                    })))
                }
                UccState::Failed(error) => {
                    let why = error.to_string();
                    handed.poison(&why, lane);
                    Err(why)
                }
            },
            CallStage::Planned => {
                let plan = self.plan.as_mut().ok_or("it has no plan")?;
                let stand = advance_run(&mut plan.run, lane);
                if matches!(stand, Stand::Done(_)) {
                    handed.active = handed.active.saturating_sub(1);
                }
                Ok(Some(stand))
            }
        }
    }

    fn failed(&self) -> Stand {
        let context = self.channel.team.collective;
        Stand::Done(Completion { context, ..Completion::failed(Fault::Handed) })
    }

    fn give_up_round<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        if let CallStage::Agreeing { round, .. } = &mut self.stage
            && let Some(round) = round.take()
        {
            round.abandon(lane);
        }
    }

    /// Gives up the call; a library that works on it makes no more progress.
    pub(crate) fn abandon<F: Fabric>(
        mut self,
        lane: &mut Lane<F>,
        libraries: &mut HandedLibraries,
    ) {
        self.give_up_round(lane);
        if let Some(handed) = libraries.of(self.library) {
            handed.active = handed.active.saturating_sub(1);
            match &self.stage {
                CallStage::Posted(request) if request.state() != UccState::Done => {
                    let why =
                        format!("a collective was given up while {} worked on it", self.library);
                    handed.poison(&why, lane);
                }
                // Later calls would wait for this call, and the other ranks for its words.
                CallStage::Waiting | CallStage::Agreeing { .. } => {
                    let context = self.channel.team.collective;
                    handed.fail_team(
                        context,
                        "an earlier collective was given up at this rank",
                        lane,
                    );
                }
                CallStage::Posted(_) | CallStage::Planned => {}
            }
        }
        if let CallStage::Planned = self.stage
            && let Some(plan) = &mut self.plan
        {
            plan.run.abandon(lane);
        }
    }

    fn begin<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        entered: &Entered,
        handed: &mut Handed,
        say: &Say,
    ) -> std::result::Result<bool, String> {
        let context = self.channel.team.collective;
        let Some(mut comm) = handed.teams.remove(&context) else {
            return Err(self.no_record());
        };
        let has_begun = match comm.begun == self.number {
            true => self.begin_in(&mut comm, (lane, entered), handed, say),
            false => Ok(false),
        };
        if let Err(why) = &has_begun {
            handed.lost.extend(comm.fail(why, lane));
        }
        handed.teams.insert(context, comm);
        has_begun
    }

    fn no_record(&self) -> String {
        format!(
            "its communicator has no {} of {}, and no record of why",
            self.library.team(),
            self.library
        )
    }

    fn begin_in<F: Fabric>(
        &mut self,
        comm: &mut CommTeam,
        (lane, entered): (&mut Lane<F>, &Entered),
        handed: &mut Handed,
        say: &Say,
    ) -> std::result::Result<bool, String> {
        if let TeamState::Creating(creation) = &mut comm.state {
            let made = match &mut **creation {
                TeamInCreation::Ucc(creation) => creation.advance(handed, &self.channel, lane),
                TeamInCreation::Hcoll(creation) => creation.advance(handed, &self.channel, lane),
            };
            let what = self.library.team();
            let of = format!("for a communicator of {} ranks", self.channel.team.size());
            match made {
                CreationStep::Going => {}
                CreationStep::Made { team, id } => {
                    let library =
                        handed.context.as_ref().map(ToString::to_string).unwrap_or_default();
                    handed.report(say, comm.is_first, 1, &format!("a {what} {of} by {library}"));
                    handed.has_made = true;
                    comm.state = TeamState::Made { team, id };
                }
                CreationStep::Refused(why) => {
                    handed.report(
                        say,
                        comm.is_first,
                        1,
                        &format!("no {what} {of}: {why}; plans serve it"),
                    );
                    // The library may still have its part of the team.
                    handed.lost.extend(creation.number());
                    comm.state = TeamState::Refused;
                }
                CreationStep::Later(why) => {
                    let text = format!("no {what} {of} yet: {why}; a plan serves this call");
                    handed.report(say, comm.is_first, 2, &text);
                    self.stage = CallStage::Planned;
                    comm.begun += 1;
                    return Ok(true);
                }
                CreationStep::Failed(why) => {
                    return Err(format!("no {what} {of} at this rank: {why}"));
                }
            }
        }
        match &comm.state {
            TeamState::Creating(_) => Ok(false),
            TeamState::Failed(why) => Err(why.clone()),
            TeamState::Refused => {
                self.stage = CallStage::Planned;
                comm.begun += 1;
                Ok(true)
            }
            TeamState::Made { team, .. } => {
                let agreed = comm.agreed.get(&self.call_kind).copied();
                self.stage = self.initialise((team, agreed), entered, handed, lane)?;
                // The next call must not begin before the ranks have agreed on this one.
                let is_agreeing = matches!(self.stage, CallStage::Agreeing { .. });
                comm.begun += u64::from(!is_agreeing);
                if !is_agreeing {
                    let why = "it does not support that";
                    self.note_served(comm, handed, say, why);
                }
                Ok(true)
            }
        }
    }

    fn note_served(&self, comm: &mut CommTeam, handed: &Handed, say: &Say, why: &str) {
        if self.library != CollLibrary::Hcoll {
            return;
        }
        let is_served = matches!(self.stage, CallStage::Posted(_));
        if comm.agreed.insert(self.call_kind, is_served) != Some(is_served) {
            let of = format!("{:?} of {:?}", self.call_kind.kind, self.call_kind.datatype);
            let by = if is_served { "HCOLL".to_string() } else { format!("a plan: {why}") };
            handed.report(say, comm.is_first, 2, &format!("{of} is served by {by}"));
        }
    }

    fn is_alike(&self) -> bool {
        !matches!(self.call_kind.kind, UccCollective::Gatherv | UccCollective::Alltoallv)
    }

    fn initialise<F: Fabric>(
        &mut self,
        (team, agreed): (&MadeTeam, Option<bool>),
        entered: &Entered,
        handed: &mut Handed,
        lane: &mut Lane<F>,
    ) -> std::result::Result<CallStage, String> {
        let arguments = self.arguments.take().ok_or("it has begun already")?;
        // HCOLL decides for each call.
        let agreed = agreed.filter(|_| self.library == CollLibrary::Ucc);
        if agreed == Some(false) {
            return Ok(CallStage::Planned);
        }
        let request = describe((team, arguments), handed)?;
        let is_known = self.library == CollLibrary::Hcoll && self.is_alike();
        match (agreed, request) {
            (_, Ok(request)) if is_known => post(request, entered, handed, lane),
            (_, Err(_)) if is_known => Ok(CallStage::Planned),
            (Some(true), Ok(request)) => post(request, entered, handed, lane),
            // The other ranks post their requests and take no part in a plan or an agreement.
            (Some(true), Err(why)) => {
                Err(format!("{why}, although UCC supports such calls at all ranks"))
            }
            (_, request) => {
                let round = Round::of_words(&self.channel, [u64::from(request.is_ok()), 0])?;
                Ok(CallStage::Agreeing { request, round: Some(round) })
            }
        }
    }

    fn agree<F: Fabric>(
        &mut self,
        all: std::result::Result<Vec<u8>, String>,
        (lane, entered): (&mut Lane<F>, &Entered),
        handed: &mut Handed,
        say: &Say,
    ) -> std::result::Result<(), String> {
        let yes = pairs(&all?).iter().filter(|[yes, _]| *yes == 1).count();
        let stage = std::mem::replace(&mut self.stage, CallStage::Planned);
        let CallStage::Agreeing { request, .. } = stage else { return Ok(()) };
        let is_agreed = yes == self.channel.team.size() as usize;
        let why =
            request.as_ref().err().cloned().unwrap_or_else(|| "other ranks cannot".to_string());
        let context = self.channel.team.collective;
        if self.library == CollLibrary::Hcoll {
            if let Ok(request) = request
                && is_agreed
            {
                self.stage = post(request, entered, handed, lane)?;
            }
            let Some(mut comm) = handed.teams.remove(&context) else {
                return Err(self.no_record());
            };
            comm.begun += 1;
            self.note_served(&mut comm, handed, say, &why);
            handed.teams.insert(context, comm);
            return Ok(());
        }
        let no_record = self.no_record();
        let comm = handed.teams.get_mut(&context).ok_or(no_record)?;
        comm.agreed.insert(self.call_kind, is_agreed);
        comm.begun += 1;
        let is_first = comm.is_first;
        let of = format!("{:?} of {:?}", self.call_kind.kind, self.call_kind.datatype);
        if let Ok(request) = request
            && is_agreed
        {
            self.stage = post(request, entered, handed, lane)?;
            handed.report(say, is_first, 2, &format!("{of} is served by UCC"));
            return Ok(());
        }
        // If only some ranks support the call, their UCC libraries count different calls from now
        // on.
        if yes > 0
            && let TeamState::Made { team, id } =
                std::mem::replace(&mut comm.state, TeamState::Refused)
        {
            // Dropping the team keeps it in UCC while earlier calls are under way in it.
            drop(team);
            handed.lost.push(id);
        }
        handed.report(say, is_first, 2, &format!("{of} is served by a plan: {why}"));
        Ok(())
    }
}
