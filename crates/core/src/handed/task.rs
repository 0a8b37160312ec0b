//! One call that is handed over, from the first step to the last.

use super::arguments::{Prepared, prepare};
use super::creation::{Channel, Making, Round, pairs};
use super::{CommTeam, Handed, Sort, TeamState};
use crate::choice::Say;
use crate::spare::Single;
use crate::task::{Stand, advance_run};
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Area, Combine, Memory, Run};
use oxmpi_engine::{Completion, Fault, Lane, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Setup, Shared};
use oxmpi_ucc::{Arguments, Request, State};
use std::sync::Arc;

/// A collective that UCC serves, or else a plan.
pub(crate) struct HandedOver {
    channel: Channel,
    /// Which call of its communicator it is.
    number: u64,
    sort: Sort,
    stage: Stage,
    arguments: Option<Arguments>,
    results: Option<(UserBuf, Area)>,
    /// What serves it if UCC does not.
    plan: Option<Box<Single>>,
}

enum Stage {
    /// Others come first, or there is no team yet.
    Waiting,
    /// The ranks agree whether UCC supports such calls.
    Agreeing { request: std::result::Result<Request, String>, round: Option<Round> },
    /// UCC works on it.
    Posted(Request),
    /// The plan serves it.
    Planned,
}

impl HandedOver {
    /// A call of the team of `plan`, which serves it if UCC does not. `number` was drawn by [`Handed::draw`].
    ///
    /// # Errors
    /// There is no room for a copy; nothing of the communicator can be served at this rank any more.
    pub(crate) fn new(
        handed: &mut Handed,
        (call, memory, combine): (&Call, &Memory, &Combine),
        (number, setup): (u64, Shared<Setup>),
        plan: Box<Single>,
    ) -> Result<std::result::Result<HandedOver, Box<Single>>> {
        let team: Arc<Team> = plan.run.team().clone();
        handed.check(team.collective).map_err(|why| MpiError::new(abi::MPI_ERR_OTHER, why))?;
        let Some(Prepared { sort, arguments, results }) = prepare(call, memory, combine, team.rank)? else {
            handed.put_back(&team);
            return Ok(Err(plan));
        };
        let channel = Channel { team, tag: plan.run.tag(), setup };
        handed.active += 1;
        Ok(Ok(HandedOver {
            channel,
            number,
            sort,
            stage: Stage::Waiting,
            arguments: Some(arguments),
            results,
            plan: Some(plan),
        }))
    }

    /// The processes that take part.
    pub(crate) fn team(&self) -> &Team {
        &self.channel.team
    }

    /// The plan that serves it if UCC does not.
    pub(crate) fn stand_in(&self) -> Option<&Run> {
        self.plan.as_ref().map(|plan| &plan.run)
    }

    /// The plan that was not needed, for another call.
    pub(crate) fn into_plan(self) -> Option<Box<Single>> {
        self.plan
    }

    /// Goes on as far as it can without waiting.
    pub(crate) fn advance<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        handed: &mut Option<Box<Handed>>,
        say: &Say,
    ) -> Stand {
        let Some(handed) = handed else { return self.failed() };
        loop {
            match self.step(lane, handed, say) {
                Ok(Some(stand)) => return stand,
                Ok(None) => {}
                Err(why) => {
                    let Sort { kind, datatype, .. } = self.sort;
                    say(&format!("coll: ucc: {kind:?} of {datatype:?} has failed at this rank: {why}"));
                    handed.active = handed.active.saturating_sub(1);
                    self.give_up_round(lane);
                    return self.failed();
                }
            }
        }
    }

    /// One stage; `None`: the next one may begin.
    ///
    /// # Errors
    /// Neither UCC nor a plan can serve it at this rank; later calls of the communicator know that it is so.
    fn step<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        handed: &mut Handed,
        say: &Say,
    ) -> std::result::Result<Option<Stand>, String> {
        let context = self.channel.team.collective;
        match &mut self.stage {
            Stage::Waiting => {
                handed.check(context)?;
                let has_begun = self.begin(lane, handed, say)?;
                Ok((!has_begun).then_some(Stand::Waiting))
            }
            Stage::Agreeing { round, .. } => {
                handed.check(context)?;
                let Some(all) = Round::poll(round, lane) else { return Ok(Some(Stand::Waiting)) };
                self.agree(all, lane, handed, say).inspect_err(|why| handed.fail_team(context, why, lane))?;
                Ok(None)
            }
            Stage::Posted(request) => match request.state() {
                // Nothing carries it on any more.
                State::Going if handed.poison.is_some() => Err(handed.poison.clone().unwrap_or_default()),
                State::Going => Ok(Some(Stand::Waiting)),
                State::Done => {
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
                State::Failed(error) => {
                    let why = error.to_string();
                    handed.poison(&why, lane);
                    Err(why)
                }
            },
            Stage::Planned => {
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
        if let Stage::Agreeing { round, .. } = &mut self.stage
            && let Some(round) = round.take()
        {
            round.abandon(lane);
        }
    }

    /// Gives up. UCC cannot take back what it has begun: it must do nothing any more then, as it would write into the user's memory.
    pub(crate) fn abandon<F: Fabric>(mut self, lane: &mut Lane<F>, handed: &mut Option<Box<Handed>>) {
        self.give_up_round(lane);
        if let Some(handed) = handed {
            handed.active = handed.active.saturating_sub(1);
            match &self.stage {
                Stage::Posted(request) if request.state() != State::Done => {
                    handed.poison("a collective was given up while UCC worked on it", lane);
                }
                // Those behind it would wait for its turn, and the other ranks for what it has to say.
                Stage::Waiting | Stage::Agreeing { .. } => {
                    let context = self.channel.team.collective;
                    handed.fail_team(context, "a collective before it was given up at this rank", lane);
                }
                Stage::Posted(_) | Stage::Planned => {}
            }
        }
        if let Stage::Planned = self.stage
            && let Some(plan) = &mut self.plan
        {
            plan.run.abandon(lane);
        }
    }

    /// Takes the first step, if it is its turn: whether it has.
    fn begin<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        handed: &mut Handed,
        say: &Say,
    ) -> std::result::Result<bool, String> {
        let context = self.channel.team.collective;
        let Some(mut comm) = handed.teams.remove(&context) else {
            return Err("its communicator has no team of UCC, and no record of why".to_string());
        };
        let has_begun = match comm.begun == self.number {
            true => self.begin_in(&mut comm, lane, handed, say),
            false => Ok(false),
        };
        if let Err(why) = &has_begun {
            handed.lost.extend(comm.fail(why, lane));
        }
        handed.teams.insert(context, comm);
        has_begun
    }

    /// As [`HandedOver::begin`], when it is its turn.
    fn begin_in<F: Fabric>(
        &mut self,
        comm: &mut CommTeam,
        lane: &mut Lane<F>,
        handed: &mut Handed,
        say: &Say,
    ) -> std::result::Result<bool, String> {
        if let TeamState::Making(making) = &mut comm.state {
            let proposal = making.propose(handed, &self.channel);
            let made = making.advance((proposal, handed.context.as_ref().ok()), &self.channel, lane);
            let of = format!("for a communicator of {} ranks", self.channel.team.size());
            match made {
                Making::Going => {}
                Making::Made { team, id } => {
                    let library = handed.context.as_ref().map(|c| c.library().to_string());
                    let library = library.unwrap_or_default();
                    handed.tell(say, comm.is_first, 1, &format!("a team {of} by {library}"));
                    handed.has_made = true;
                    comm.state = TeamState::Made { team, id };
                }
                Making::Refused(why) => {
                    handed.tell(say, comm.is_first, 1, &format!("no team {of}: {why}; plans serve it"));
                    // UCC may have something of it left.
                    handed.lost.extend(making.number());
                    comm.state = TeamState::Refused;
                }
                Making::Failed(why) => return Err(format!("no team {of} at this rank: {why}")),
            }
        }
        match &comm.state {
            TeamState::Making(_) => Ok(false),
            TeamState::Failed(why) => Err(why.clone()),
            TeamState::Refused => {
                self.stage = Stage::Planned;
                comm.begun += 1;
                Ok(true)
            }
            TeamState::Made { team, .. } => {
                let agreed = comm.agreed.get(&self.sort).copied();
                self.stage = self.initialise(team, agreed, handed, lane)?;
                // Until the ranks have agreed the next call must not begin.
                comm.begun += u64::from(!matches!(self.stage, Stage::Agreeing { .. }));
                Ok(true)
            }
        }
    }

    /// The stage behind the first step, with a team.
    ///
    /// # Errors
    /// The others know nothing of what has failed here.
    fn initialise<F: Fabric>(
        &mut self,
        team: &oxmpi_ucc::Team,
        agreed: Option<bool>,
        handed: &mut Handed,
        lane: &mut Lane<F>,
    ) -> std::result::Result<Stage, String> {
        let arguments = self.arguments.take().ok_or("it has begun already")?;
        if agreed == Some(false) {
            return Ok(Stage::Planned);
        }
        let is_there = handed.context.as_ref().is_ok_and(|context| context.has(arguments.kind));
        let request = match is_there {
            true => Request::new(team, arguments).map_err(|error| error.to_string()),
            false => Err("the layers that it uses have no such collective".to_string()),
        };
        match (agreed, request) {
            (Some(true), Ok(request)) => post(request, handed, lane),
            // The others post theirs: neither a plan nor another agreement would find them.
            (Some(true), Err(why)) => Err(format!("{why}, though UCC supports such calls at all ranks")),
            (_, request) => {
                let round = Round::of_words(&self.channel, [u64::from(request.is_ok()), 0])?;
                Ok(Stage::Agreeing { request, round: Some(round) })
            }
        }
    }

    /// The ranks have said whether they can.
    ///
    /// # Errors
    /// The round has failed; UCC does not start what all ranks have.
    fn agree<F: Fabric>(
        &mut self,
        all: std::result::Result<Vec<u8>, String>,
        lane: &mut Lane<F>,
        handed: &mut Handed,
        say: &Say,
    ) -> std::result::Result<(), String> {
        let yes = pairs(&all?).iter().filter(|[yes, _]| *yes == 1).count();
        let stage = std::mem::replace(&mut self.stage, Stage::Planned);
        let Stage::Agreeing { request, .. } = stage else { return Ok(()) };
        let is_agreed = yes == self.channel.team.size() as usize;
        let why = request.as_ref().err().cloned().unwrap_or_else(|| "other ranks cannot".to_string());
        let comm = handed.teams.get_mut(&self.channel.team.collective);
        let comm = comm.ok_or("its communicator has no team of UCC")?;
        comm.agreed.insert(self.sort, is_agreed);
        comm.begun += 1;
        let is_first = comm.is_first;
        let of = format!("{:?} of {:?}", self.sort.kind, self.sort.datatype);
        if let Ok(request) = request
            && is_agreed
        {
            self.stage = post(request, handed, lane)?;
            handed.tell(say, is_first, 2, &format!("{of} is served by UCC"));
            return Ok(());
        }
        // Where some can and some cannot, what UCC counts at its ranks is not the same any more.
        if yes > 0
            && let TeamState::Made { team, id } = std::mem::replace(&mut comm.state, TeamState::Refused)
        {
            // Calls before this one may be under way in it: then it stays.
            drop(team);
            handed.lost.push(id);
        }
        handed.tell(say, is_first, 2, &format!("{of} is served by a plan: {why}"));
        Ok(())
    }
}

/// Starts a request that all ranks have.
///
/// # Errors
/// UCC does not start it, and cannot be used any more.
fn post<F: Fabric>(
    mut request: Request,
    handed: &mut Handed,
    lane: &mut Lane<F>,
) -> std::result::Result<Stage, String> {
    match request.post() {
        Ok(()) => Ok(Stage::Posted(request)),
        Err(error) => {
            let why = error.to_string();
            handed.poison(&why, lane);
            Err(why)
        }
    }
}
