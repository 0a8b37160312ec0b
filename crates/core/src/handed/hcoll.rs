//! The component hcoll: contexts of HCOLL, and the messages that it sends through this process.
//!
//! HCOLL's messages of a communicator have an engine context of their own ([`Lane::open_handed`]), so no tag of theirs meets another's. What
//! HCOLL wants is taken from the queue of its group within any look at everything ([`HcollProcess::progress`]).
//!
//! All ranks of a communicator make its context together, in a call of HCOLL that waits, and HCOLL makes one at a time. Two ranks that begin
//! with different communicators would wait for each other, so the ranks agree before they begin: each says that it is free, and is from then
//! on reserved for this communicator, or that it is busy with another one. If one is busy all are set free, a plan serves the call, and the next
//! call of the communicator tries again.

use super::creation::{Channel, Making, Round, pairs, said};
use super::libraries::{Backend, MadeTeam};
use super::{CollLibrary, Handed};
use oxmpi_engine::{Lane, Mode, RequestId, Source, Started, TagMatch, Team};
use oxmpi_fabric::Fabric;
use oxmpi_hcoll::{
    ContextCreation, Hcoll, HcollContext, HcollCreation, HcollGroup, HcollMembers, HcollTransfer, HcollTurn,
};
use std::sync::Arc;

/// What this process has of HCOLL.
pub(super) struct HcollProcess {
    library: Arc<Hcoll>,
    /// The messages of each group; the first is that of MPI_COMM_WORLD, which HCOLL knows from the beginning.
    groups: Vec<GroupMessages>,
    /// The collective context of the communicator for which a context is being made.
    reserved: Option<u32>,
}

/// The messages of a group.
struct GroupMessages {
    team: Arc<Team>,
    group: HcollGroup,
    /// The engine's context of the messages.
    context: u32,
    active: Vec<(RequestId, HcollTransfer)>,
}

fn members<F: Fabric>(team: &Team, lane: &mut Lane<F>) -> HcollMembers {
    let processes = team.map.processes();
    // Where no node is known all are on one.
    let node = |process: &u32| lane.fabric_mut().node(*process).unwrap_or(u32::MAX);
    HcollMembers { rank: team.rank, nodes: processes.iter().map(node).collect(), processes }
}

impl GroupMessages {
    fn open<F: Fabric>(team: &Arc<Team>, group: HcollGroup, lane: &mut Lane<F>) -> GroupMessages {
        GroupMessages { team: team.clone(), group, context: lane.open_handed(team), active: Vec::new() }
    }

    /// Hands the ends of messages to HCOLL.
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

    /// Starts what HCOLL wants.
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
                    let from = Source::Process(process);
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

    /// Gives up what is under way: no memory of the program is used any more.
    fn abandon<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        self.group.close();
        self.active.drain(..).for_each(|(request, _)| lane.abandon(request));
    }
}

impl HcollProcess {
    /// Opens the library for a process of a job whose processes are those of `world`.
    ///
    /// # Errors
    /// It cannot be used, and why.
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

    /// Lets HCOLL and its messages go on.
    pub(super) fn progress<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        self.groups.iter_mut().for_each(|group| group.end(lane));
        if let Some(turn) = HcollTurn::take() {
            self.library.progress(&turn);
        }
        self.groups.iter_mut().for_each(|group| group.start(lane));
    }

    /// Whether a message of a communicator has not left yet. Others may wait for it, whatever is over here.
    pub(super) fn is_busy(&self, context: u32) -> bool {
        let of = self.groups.iter().filter(|group| group.team.collective == context);
        of.flat_map(|group| &group.active).any(|(_, transfer)| transfer.is_send)
    }

    fn of(&mut self, context: u32) -> Option<&mut GroupMessages> {
        self.groups.iter_mut().find(|group| group.team.collective == context)
    }

    /// Why HCOLL does not come to an end with what it does for a communicator.
    pub(super) fn fault(&mut self, context: u32) -> Option<String> {
        self.of(context)?.group.fault()
    }

    /// The group of a communicator.
    fn group<F: Fabric>(&mut self, team: &Arc<Team>, lane: &mut Lane<F>) -> HcollGroup {
        if let Some(messages) = self.of(team.collective) {
            return messages.group.clone();
        }
        let group = HcollGroup::new(members(team, lane));
        self.groups.push(GroupMessages::open(team, group.clone(), lane));
        group
    }

    /// Nothing of HCOLL goes on for a communicator any more. Its messages may still come.
    pub(super) fn abandon<F: Fabric>(&mut self, context: u32, lane: &mut Lane<F>) {
        self.reserved = self.reserved.filter(|reserved| *reserved != context);
        if let Some(messages) = self.of(context) {
            messages.abandon(lane);
        }
    }

    /// The communicator is gone, and nothing is under way in it.
    pub(super) fn forget<F: Fabric>(&mut self, context: u32, lane: &mut Lane<F>) {
        let is_gone = |group: &GroupMessages| group.team.collective == context;
        if let Some(at) = self.groups.iter().position(is_gone) {
            let mut messages = self.groups.swap_remove(at);
            messages.abandon(lane);
            lane.close_context(messages.context);
        }
    }

    /// This process uses HCOLL no more, and nothing is under way in it.
    pub(super) fn finalize(&mut self) {
        // The creator of a context that nobody waits for may be in it.
        if let Some(turn) = HcollTurn::take() {
            self.library.finalize(turn);
        }
    }
}

/// What HCOLL has of a group.
#[derive(Default)]
enum Ours {
    /// It does not know of it yet.
    #[default]
    Nothing,
    /// The ranks say whether they are free.
    Proposed,
    Going(ContextCreation),
    Made(HcollContext),
    Failed(String),
}

/// A context in the making.
#[derive(Default)]
pub(super) struct GroupInMaking {
    ours: Ours,
    words: Option<Round>,
}

impl GroupInMaking {
    /// Goes on without waiting.
    pub(super) fn advance<F: Fabric>(
        &mut self,
        handed: &mut Handed,
        channel: &Channel,
        lane: &mut Lane<F>,
    ) -> Making {
        self.step(handed, channel, lane).unwrap_or_else(|why| {
            self.release(lane);
            Making::Failed(why)
        })
    }

    fn step<F: Fabric>(
        &mut self,
        handed: &mut Handed,
        channel: &Channel,
        lane: &mut Lane<F>,
    ) -> Result<Making, String> {
        let own = channel.team.collective;
        if self.words.is_none() {
            self.ours = match std::mem::take(&mut self.ours) {
                Ours::Going(creation) => match creation.poll() {
                    Ok(HcollCreation::Going(creation)) => Ours::Going(creation),
                    Ok(HcollCreation::Made(context)) => Ours::Made(context),
                    Err(error) => Ours::Failed(error.to_string()),
                },
                other => other,
            };
            let word = match &self.ours {
                Ours::Nothing => self.propose(handed, own),
                Ours::Proposed | Ours::Going(_) => return Ok(Making::Going),
                Ours::Made(_) => said::MADE,
                Ours::Failed(_) => said::FAILED,
            };
            self.words = Some(Round::of_words(channel, [word, 0])?);
        }
        let Some(all) = Round::poll(&mut self.words, lane) else { return Ok(Making::Going) };
        let all = pairs(&all?);
        let all_say = |word: u64| all.iter().all(|[said, _]| *said == word);
        let Ok(Backend::Hcoll(process)) = &mut handed.context else {
            return Ok(self.refuse("the library is not here"));
        };
        if let Some(rank) = all.iter().position(|[said, _]| *said == said::FAILED) {
            process.abandon(own, lane);
            return Ok(self.refuse(&format!("rank {rank} of it has no context")));
        }
        if all.iter().any(|[said, _]| *said == said::BUSY) {
            process.reserved = process.reserved.filter(|reserved| *reserved != own);
            self.ours = Ours::Nothing;
            return Ok(Making::Later("a rank of it makes a context for another one".to_string()));
        }
        if all_say(said::HERE) {
            let group = process.group(&channel.team, lane);
            self.ours = match ContextCreation::begin(process.library(), &group) {
                Ok(creation) => Ours::Going(creation),
                Err(error) => Ours::Failed(error.to_string()),
            };
            return Ok(Making::Going);
        }
        process.reserved = None;
        match std::mem::take(&mut self.ours) {
            Ours::Made(context) if all_say(said::MADE) => {
                Ok(Making::Made { team: MadeTeam::Hcoll(context), id: 0 })
            }
            ours => {
                self.ours = ours;
                process.abandon(own, lane);
                Ok(self.refuse("its ranks have not come to the same end"))
            }
        }
    }

    /// What this rank says first.
    fn propose(&mut self, handed: &mut Handed, own: u32) -> u64 {
        let poison = handed.poison.clone();
        let process = match (&mut handed.context, poison) {
            (Ok(Backend::Hcoll(process)), None) => process,
            (context, poison) => {
                let why = poison.or(context.as_ref().err().cloned());
                self.ours = Ours::Failed(why.unwrap_or_default());
                return said::FAILED;
            }
        };
        self.ours = Ours::Proposed;
        match process.reserved {
            Some(other) if other != own => said::BUSY,
            _ => {
                process.reserved = Some(own);
                said::HERE
            }
        }
    }

    fn refuse(&mut self, why: &str) -> Making {
        Making::Refused(match std::mem::take(&mut self.ours) {
            Ours::Failed(own) => own,
            _ => why.to_string(),
        })
    }

    /// Gives up what is under way.
    pub(super) fn release<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        if let Some(words) = self.words.take() {
            words.abandon(lane);
        }
        if let Ours::Made(context) = std::mem::take(&mut self.ours) {
            context.abandon();
        }
    }
}

impl CollLibrary {
    /// The turn of the thread that calls the library, if it needs one: `None`: another thread has it.
    pub(super) fn enter(self) -> Option<Entered> {
        match self {
            CollLibrary::Ucc => Some(Entered(None)),
            CollLibrary::Hcoll => HcollTurn::take().map(Some).map(Entered),
        }
    }
}

/// This thread may call the library.
pub(super) struct Entered(pub(super) Option<HcollTurn>);
