//! One call that is handed over, from the first step to the last.

use super::arguments::{Prepared, prepare};
use super::creation::{Channel, Making, Round, pairs};
use super::{Handed, Sort, TeamState};
use crate::choice::Say;
use crate::spare::Single;
use crate::task::{Stand, advance_run};
use oxmpi_coll::{Area, Combine, Memory};
use oxmpi_engine::{Completion, Fault, Lane, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::Result;
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
    /// A call of this team, which `plan` serves if UCC does not.
    ///
    /// # Errors
    /// There is no room for a copy.
    pub(crate) fn new(
        handed: &mut Handed,
        (call, memory, combine): (&Call, &Memory, &Combine),
        setup: Shared<Setup>,
        plan: Box<Single>,
    ) -> Result<std::result::Result<HandedOver, Box<Single>>> {
        let team: Arc<Team> = plan.run.team().clone();
        let Some(Prepared { sort, arguments, results }) = prepare(call, memory, combine, team.rank)? else {
            return Ok(Err(plan));
        };
        let channel = Channel { team, tag: plan.run.tag(), setup };
        let number = handed.draw(&channel.team);
        let arguments = Some(arguments);
        Ok(Ok(HandedOver {
            channel,
            number,
            sort,
            stage: Stage::Waiting,
            arguments,
            results,
            plan: Some(plan),
        }))
    }

    /// The processes that take part.
    pub(crate) fn team(&self) -> &Team {
        &self.channel.team
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
        let Some(handed) = handed else { return self.fail() };
        loop {
            match &mut self.stage {
                Stage::Waiting => {
                    if !self.begin(lane, handed, say) {
                        return Stand::Waiting;
                    }
                }
                Stage::Agreeing { round, .. } => {
                    let Some(all) = Round::poll(round, lane) else { return Stand::Waiting };
                    self.agree(all, handed, say);
                }
                Stage::Posted(request) => match request.state() {
                    State::Going => return Stand::Waiting,
                    State::Done => {
                        if let Some((from, into)) = self.results.take() {
                            let len = from.packed_len();
                            into.copy_from(0, &from.into(), 0, len);
                        }
                        handed.active = handed.active.saturating_sub(1);
                        return Stand::Done(Completion::EMPTY);
                    }
                    State::Failed(error) => {
                        say(&format!("coll: ucc: a collective has failed: {error}"));
                        handed.active = handed.active.saturating_sub(1);
                        return self.fail();
                    }
                },
                Stage::Planned => {
                    let Some(plan) = &mut self.plan else { return self.fail() };
                    let stand = advance_run(&mut plan.run, lane);
                    if matches!(stand, Stand::Done(_)) {
                        handed.active = handed.active.saturating_sub(1);
                    }
                    return stand;
                }
            }
        }
    }

    fn fail(&self) -> Stand {
        let context = self.channel.team.collective;
        Stand::Done(Completion { context, ..Completion::failed(Fault::Operation) })
    }

    /// Gives up. What UCC has already begun it keeps.
    pub(crate) fn abandon<F: Fabric>(mut self, lane: &mut Lane<F>, handed: &mut Option<Box<Handed>>) {
        if let Some(handed) = handed {
            handed.active = handed.active.saturating_sub(1);
        }
        if let Stage::Planned = self.stage
            && let Some(plan) = &mut self.plan
        {
            plan.run.abandon(lane);
        }
    }

    /// Takes the first step, if it is its turn: whether it has.
    fn begin<F: Fabric>(&mut self, lane: &mut Lane<F>, handed: &mut Handed, say: &Say) -> bool {
        let context = self.channel.team.collective;
        let Some(mut comm) = handed.teams.remove(&context) else {
            self.stage = Stage::Planned;
            return true;
        };
        let has_begun = comm.begun == self.number && {
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
                        comm.state = TeamState::Made { team, id };
                    }
                    Making::Refused(why) => {
                        handed.tell(say, comm.is_first, 1, &format!("no team {of}: {why}; plans serve it"));
                        comm.state = TeamState::Refused;
                    }
                }
            }
            match &comm.state {
                TeamState::Making(_) => false,
                TeamState::Refused => {
                    self.stage = Stage::Planned;
                    comm.begun += 1;
                    true
                }
                TeamState::Made { team, .. } => {
                    let agreed = comm.agreed.get(&self.sort).copied();
                    self.stage = self.initialise(team, agreed, handed);
                    // Until the ranks have agreed the next call must not begin.
                    comm.begun += u64::from(!matches!(self.stage, Stage::Agreeing { .. }));
                    true
                }
            }
        };
        handed.teams.insert(context, comm);
        has_begun
    }

    /// The stage behind the first step, with a team.
    fn initialise(&mut self, team: &oxmpi_ucc::Team, agreed: Option<bool>, handed: &Handed) -> Stage {
        let Some(arguments) = self.arguments.take() else { return Stage::Planned };
        if agreed == Some(false) {
            return Stage::Planned;
        }
        let is_there = handed.context.as_ref().is_ok_and(|context| context.has(arguments.kind));
        let request = match is_there {
            true => Request::new(team, arguments).map_err(|error| error.to_string()),
            false => Err("the layers that it uses have no such collective".to_string()),
        };
        match (agreed, request) {
            (Some(true), Ok(request)) => post(request),
            (_, request) => {
                let words = [u64::from(request.is_ok()), 0];
                match Round::of_words(&self.channel, words) {
                    Ok(round) => Stage::Agreeing { request, round: Some(round) },
                    // There is no memory for a message: the plan says so as well.
                    Err(_) => Stage::Planned,
                }
            }
        }
    }

    /// The ranks have said whether they can.
    fn agree(&mut self, all: std::result::Result<Vec<u8>, String>, handed: &mut Handed, say: &Say) {
        let Stage::Agreeing { request, .. } = std::mem::replace(&mut self.stage, Stage::Planned) else {
            return;
        };
        let yes = all.map(|all| pairs(&all).iter().filter(|[yes, _]| *yes == 1).count());
        let yes = yes.unwrap_or(0);
        let is_agreed = yes == self.channel.team.size() as usize;
        let why = request.as_ref().err().cloned().unwrap_or_else(|| "other ranks cannot".to_string());
        let Some(comm) = handed.teams.get_mut(&self.channel.team.collective) else { return };
        comm.agreed.insert(self.sort, is_agreed);
        comm.begun += 1;
        let is_first = comm.is_first;
        if let Ok(request) = request
            && is_agreed
        {
            self.stage = post(request);
            return;
        }
        // Where some can and some cannot, what UCC counts at its ranks is not the same any more.
        if yes > 0 {
            comm.state = TeamState::Refused;
        }
        let text = format!("{:?} of {:?} is served by a plan: {why}", self.sort.kind, self.sort.datatype);
        handed.tell(say, is_first, 2, &text);
    }
}

/// Starts a request that all ranks have.
fn post(mut request: Request) -> Stage {
    // One that cannot be started says so when it is asked how it stands.
    let _ = request.post();
    Stage::Posted(request)
}
