//! The component hcoll: contexts of HCOLL, and the messages that it sends through this process.
//!
//! HCOLL's messages of a communicator have an engine context of their own ([`Lane::open_handed`]).
//!
//! All ranks of a communicator make its context together, in a call of HCOLL that waits. HCOLL
//! makes one context at a time, so two ranks that begin with different communicators would wait for
//! each other. Therefore each rank first reports that it is free, and is then reserved for this
//! communicator, or busy. If one rank is busy, all are released, a plan serves the call, and the
//! next call tries again.

use super::creation::{CreationStep, Round, RoundChannel, pairs, vote};
use super::libraries::{Backend, MadeTeam};
use super::{CollLibrary, Handed};
use oxmpi_engine::{Lane, MatchSource, Mode, RequestId, Started, TagMatch, Team};
use oxmpi_fabric::Fabric;
use oxmpi_hcoll::{
    ContextCreation, Hcoll, HcollContext, HcollCreation, HcollGroup, HcollMembers, HcollTransfer,
    HcollTurn,
};
use std::sync::Arc;

pub(super) struct HcollProcess {
    library: Arc<Hcoll>,
    /// The first group is that of MPI_COMM_WORLD, which HCOLL needs from the beginning.
    groups: Vec<GroupMessages>,
    /// The collective context of the communicator whose HCOLL context is in creation.
    reserved: Option<u32>,
}

struct GroupMessages {
    team: Arc<Team>,
    group: HcollGroup,
    context: u32,
    active: Vec<(RequestId, HcollTransfer)>,
}

fn members<F: Fabric>(team: &Team, lane: &mut Lane<F>) -> HcollMembers {
    let processes = team.map.processes();
    let node = |process: &u32| lane.fabric_mut().node(*process).unwrap_or(u32::MAX);
    HcollMembers { rank: team.rank, nodes: processes.iter().map(node).collect(), processes }
}

impl GroupMessages {
    fn open<F: Fabric>(team: &Arc<Team>, group: HcollGroup, lane: &mut Lane<F>) -> GroupMessages {
        GroupMessages {
            team: team.clone(),
            group,
            context: lane.open_handed(team),
            active: Vec::new(),
        }
    }

    fn end<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        let mut at = 0;
        while let Some((request, _)) = self.active.get(at) {
            let fault = match lane.test(*request) {
                Some(None) => {
                    at += 1;
                    continue;
                }
                Some(Some(completion)) => completion.fault.map(|fault| fault.to_string()),
                None => Some("its request is gone".to_string()),
            };
            self.active.swap_remove(at).1.end(fault);
        }
    }

    fn start<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        for transfer in self.group.take_transfers() {
            let Some(process) = self.team.map.process(transfer.peer) else {
                let fault = format!("there is no rank {}", transfer.peer);
                transfer.end(Some(fault));
                continue;
            };
            let (buffer, tag) = (transfer.buffer.clone(), transfer.tag);
            let started = match transfer.is_send {
                true => lane.start_send(self.context, Mode::Standard, buffer, process, tag),
                false => {
                    let from = MatchSource::Process(process);
                    lane.start_receive(self.context, buffer, from, TagMatch::Is(tag))
                }
            };
            match started {
                Ok(Started::Pending(request)) => self.active.push((request, transfer)),
                Ok(Started::Complete(completion)) => {
                    transfer.end(completion.fault.map(|fault| fault.to_string()));
                }
                Err(fault) => transfer.end(Some(fault.to_string())),
            }
        }
    }

    /// Gives up all messages, so that HCOLL's group no longer uses the program's memory.
    fn abandon<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        self.group.close();
        self.active.drain(..).for_each(|(request, _)| lane.abandon(request));
    }
}

impl HcollProcess {
    pub(super) fn open<F: Fabric>(
        library: &str,
        (world, job): (&Arc<Team>, u32),
        lane: &mut Lane<F>,
    ) -> Result<HcollProcess, String> {
        let claimed = Hcoll::open(library).and_then(|library| {
            let group = library.claim(members(world, lane), job)?;
            Ok((library, group))
        });
        let (library, group) = claimed.map_err(|error| error.to_string())?;
        let groups = vec![GroupMessages::open(world, group, lane)];
        Ok(HcollProcess { library, groups, reserved: None })
    }

    pub(super) fn library(&self) -> &Arc<Hcoll> {
        &self.library
    }

    pub(super) fn progress<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        self.groups.iter_mut().for_each(|group| group.end(lane));
        if let Some(turn) = HcollTurn::take() {
            self.library.progress(&turn);
        }
        self.groups.iter_mut().for_each(|group| group.start(lane));
    }

    /// Whether a message has not left yet, for which other ranks may wait after the calls here.
    pub(super) fn is_busy(&self, context: u32) -> bool {
        let of = self.groups.iter().filter(|group| group.team.collective == context);
        of.flat_map(|group| &group.active).any(|(_, transfer)| transfer.is_send)
    }

    fn of(&mut self, context: u32) -> Option<&mut GroupMessages> {
        self.groups.iter_mut().find(|group| group.team.collective == context)
    }

    pub(super) fn fault(&mut self, context: u32) -> Option<String> {
        self.of(context)?.group.fault()
    }

    fn group<F: Fabric>(&mut self, team: &Arc<Team>, lane: &mut Lane<F>) -> HcollGroup {
        if let Some(messages) = self.of(team.collective) {
            return messages.group.clone();
        }
        let group = HcollGroup::new(members(team, lane));
        self.groups.push(GroupMessages::open(team, group.clone(), lane));
        group
    }

    pub(super) fn abandon<F: Fabric>(&mut self, context: u32, lane: &mut Lane<F>) {
        self.reserved = self.reserved.filter(|reserved| *reserved != context);
        if let Some(messages) = self.of(context) {
            messages.abandon(lane);
        }
    }

    pub(super) fn forget<F: Fabric>(&mut self, context: u32, lane: &mut Lane<F>) {
        let is_gone = |group: &GroupMessages| group.team.collective == context;
        if let Some(at) = self.groups.iter().position(is_gone) {
            let mut messages = self.groups.swap_remove(at);
            messages.abandon(lane);
            lane.close_context(messages.context);
        }
    }

    pub(super) fn finalize(&mut self) {
        // Another thread has the turn if it creates an abandoned context.
        if let Some(turn) = HcollTurn::take() {
            self.library.finalize(turn);
        }
    }
}

#[derive(Default)]
enum HcollContextState {
    #[default]
    Nothing,
    Proposed,
    Going(ContextCreation),
    Made(HcollContext),
    Failed(String),
}

#[derive(Default)]
pub(super) struct HcollContextInCreation {
    state: HcollContextState,
    words: Option<Round>,
}

impl HcollContextInCreation {
    pub(super) fn advance<F: Fabric>(
        &mut self,
        handed: &mut Handed,
        channel: &RoundChannel,
        lane: &mut Lane<F>,
    ) -> CreationStep {
        self.step(handed, channel, lane).unwrap_or_else(|why| {
            self.release(lane);
            CreationStep::Failed(why)
        })
    }

    fn step<F: Fabric>(
        &mut self,
        handed: &mut Handed,
        channel: &RoundChannel,
        lane: &mut Lane<F>,
    ) -> Result<CreationStep, String> {
        let own = channel.team.collective;
        if self.words.is_none() {
            self.state = match std::mem::take(&mut self.state) {
                HcollContextState::Going(creation) => match creation.poll() {
                    Ok(HcollCreation::Going(creation)) => HcollContextState::Going(creation),
                    Ok(HcollCreation::Made(context)) => HcollContextState::Made(context),
                    Err(error) => HcollContextState::Failed(error.to_string()),
                },
                other => other,
            };
            let word = match &self.state {
                HcollContextState::Nothing => self.propose(handed, own),
                HcollContextState::Proposed | HcollContextState::Going(_) => {
                    return Ok(CreationStep::Going);
                }
                HcollContextState::Made(_) => vote::MADE,
                HcollContextState::Failed(_) => vote::FAILED,
            };
            self.words = Some(Round::of_words(channel, [word, 0])?);
        }
        let Some(all) = Round::poll(&mut self.words, lane) else { return Ok(CreationStep::Going) };
        let all = pairs(&all?);
        let all_vote = |word: u64| all.iter().all(|[vote, _]| *vote == word);
        let Ok(Backend::Hcoll(process)) = &mut handed.context else {
            return Ok(self.refuse("the library is not here"));
        };
        if let Some(rank) = all.iter().position(|[vote, _]| *vote == vote::FAILED) {
            process.abandon(own, lane);
            return Ok(self.refuse(&format!("rank {rank} of it has no context")));
        }
        if all.iter().any(|[vote, _]| *vote == vote::BUSY) {
            process.reserved = process.reserved.filter(|reserved| *reserved != own);
            self.state = HcollContextState::Nothing;
            return Ok(CreationStep::Later(
                "a rank of it makes a context for another one".to_string(),
            ));
        }
        if all_vote(vote::HERE) {
            let group = process.group(&channel.team, lane);
            self.state = match ContextCreation::begin(process.library(), &group) {
                Ok(creation) => HcollContextState::Going(creation),
                Err(error) => HcollContextState::Failed(error.to_string()),
            };
            return Ok(CreationStep::Going);
        }
        process.reserved = None;
        match std::mem::take(&mut self.state) {
            HcollContextState::Made(context) if all_vote(vote::MADE) => {
                Ok(CreationStep::Made { team: MadeTeam::Hcoll(context), id: 0 })
            }
            state => {
                self.state = state;
                process.abandon(own, lane);
                Ok(self.refuse("its ranks have not come to the same end"))
            }
        }
    }

    fn propose(&mut self, handed: &mut Handed, own: u32) -> u64 {
        let poison = handed.poison.clone();
        let process = match (&mut handed.context, poison) {
            (Ok(Backend::Hcoll(process)), None) => process,
            (context, poison) => {
                let why = poison.or(context.as_ref().err().cloned());
                self.state = HcollContextState::Failed(why.unwrap_or_default());
                return vote::FAILED;
            }
        };
        self.state = HcollContextState::Proposed;
        match process.reserved {
            Some(other) if other != own => vote::BUSY,
            _ => {
                process.reserved = Some(own);
                vote::HERE
            }
        }
    }

    fn refuse(&mut self, why: &str) -> CreationStep {
        CreationStep::Refused(match std::mem::take(&mut self.state) {
            HcollContextState::Failed(own) => own,
            _ => why.to_string(),
        })
    }

    pub(super) fn release<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        if let Some(words) = self.words.take() {
            words.abandon(lane);
        }
        if let HcollContextState::Made(context) = std::mem::take(&mut self.state) {
            context.abandon();
        }
    }
}

impl CollLibrary {
    /// Takes the turn to call the library; `None` if another thread has the turn.
    pub(super) fn enter(self) -> Option<Entered> {
        match self {
            CollLibrary::Ucc => Some(Entered(None)),
            CollLibrary::Hcoll => HcollTurn::take().map(Some).map(Entered),
        }
    }
}

pub(super) struct Entered(pub(super) Option<HcollTurn>);
