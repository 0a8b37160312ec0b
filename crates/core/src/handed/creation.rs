//! The creation of a UCC team, and agreements of a communicator's ranks about the team, in rounds
//! of allgathers over the engine. All rounds of one creation have one tag: messages of a later
//! round match later receives.

use crate::choice::fixed_plan;
use crate::comm::taken;
use crate::handed::Handed;
use crate::handed::libraries::{Backend, MadeTeam};
use oxmpi_coll::{Buffers, Combine, Progress, Run};
use oxmpi_engine::{Lane, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::memory::Owned;
use oxmpi_plan::{Call, Setup, Shared};
use oxmpi_ucc::{OutOfBand, UccContext, UccCreation, UccTeamCreation};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

#[derive(Clone, Debug)]
pub(super) struct RoundChannel {
    pub(super) team: Arc<Team>,
    pub(super) tag: i32,
    pub(super) setup: Shared<Setup>,
}

pub(super) struct Round {
    run: Box<Run>,
    all: Owned<u8>,
}

impl Round {
    /// Starts a round. All ranks must contribute the same length.
    pub(super) fn start(channel: &RoundChannel, mine: Vec<u8>) -> Result<Round, String> {
        let RoundChannel { team, tag, setup } = channel;
        let call = Call::Allgather { block: Shared(mine.len()), in_place: false };
        let all = Owned::new(vec![0_u8; mine.len() * team.size() as usize]);
        let buffers = Buffers { input: Owned::new(mine).buf(), output: all.buf(), element: None };
        let plan = fixed_plan(team, &call, None, *setup).map_err(|error| error.to_string())?;
        let run = Run::new(plan, team.clone(), *tag, buffers, Combine::Nothing);
        Ok(Round { run: Box::new(run.map_err(|error| error.to_string())?), all })
    }

    pub(super) fn of_words(channel: &RoundChannel, words: [u64; 2]) -> Result<Round, String> {
        Round::start(channel, words.into_iter().flat_map(u64::to_ne_bytes).collect())
    }

    pub(super) fn abandon<F: Fabric>(mut self, lane: &mut Lane<F>) {
        self.run.abandon(lane);
    }

    /// Advances the round in `place`. Removes a complete round and returns all contributions.
    pub(super) fn poll<F: Fabric>(
        place: &mut Option<Round>,
        lane: &mut Lane<F>,
    ) -> Option<Result<Vec<u8>, String>> {
        let done = match place.as_mut()?.run.advance(lane) {
            Progress::Done(done) => done,
            Progress::Waiting | Progress::NeedCallback(_) => return None,
        };
        let Round { run, all } = place.take()?;
        drop(run);
        Some(
            done.map_err(|error| error.to_string())
                .and_then(|()| taken(all).map_err(|error| error.to_string())),
        )
    }
}

pub(super) fn pairs(bytes: &[u8]) -> Vec<[u64; 2]> {
    let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(word).collect();
    words.as_chunks::<2>().0.to_vec()
}

#[derive(Debug, Default)]
enum Exchange {
    #[default]
    Idle,
    Wanted(Vec<u8>),
    Going,
    Over(Option<Vec<u8>>),
}

#[derive(Debug, Default)]
struct Exchanges(Mutex<Exchange>);

impl Exchanges {
    fn put(&self, exchange: Exchange) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = exchange;
    }

    fn wanted_len(&self) -> Option<usize> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Exchange::Wanted(mine) => Some(mine.len()),
            _ => None,
        }
    }

    fn take(&self) -> Vec<u8> {
        match std::mem::replace(
            &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner),
            Exchange::Going,
        ) {
            Exchange::Wanted(mine) => mine,
            _ => Vec::new(),
        }
    }
}

impl OutOfBand for Exchanges {
    fn start(&self, mine: Vec<u8>) {
        self.put(Exchange::Wanted(mine));
    }

    fn poll(&self) -> Poll<Option<Vec<u8>>> {
        let mut exchange = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut *exchange) {
            Exchange::Over(all) => Poll::Ready(all),
            other => {
                *exchange = other;
                Poll::Pending
            }
        }
    }
}

pub(super) mod vote {
    /// The rank has UCC, and the number of the team is free at the rank.
    pub(in crate::handed) const HERE: u64 = 1;
    pub(in crate::handed) const TAKEN: u64 = 2;
    /// UCC needs an exchange of data; the second word is their length.
    pub(in crate::handed) const EXCHANGE: u64 = 3;
    pub(in crate::handed) const MADE: u64 = 4;
    pub(in crate::handed) const FAILED: u64 = 5;
    pub(in crate::handed) const BUSY: u64 = 6;
}

enum UccTeamState {
    Nothing,
    Going(UccTeamCreation),
    Made(oxmpi_ucc::UccTeam),
    Failed(String),
}

pub(super) struct UccTeamInCreation {
    attempts: u32,
    number: Option<u64>,
    state: UccTeamState,
    exchanges: Arc<Exchanges>,
    words: Option<Round>,
    bytes: Option<Round>,
}

impl Default for UccTeamInCreation {
    fn default() -> UccTeamInCreation {
        UccTeamInCreation {
            attempts: 0,
            number: None,
            state: UccTeamState::Nothing,
            exchanges: Arc::default(),
            words: None,
            bytes: None,
        }
    }
}

/// The number of team numbers that are tried, as [`candidate`] has this number for a name.
const MAX_ATTEMPTS: u32 = 256;

/// All ranks of a communicator try the same numbers. Two communicators seldom do.
fn candidate(name: u64, attempt: u32) -> u64 {
    let mixed = (name ^ u64::from(attempt) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40 & 0x7fff_u64
}

pub(super) enum CreationStep {
    Going,
    Made {
        team: MadeTeam,
        id: u64,
    },
    Refused(String),
    /// All ranks know that there is no team yet, and the next call tries again.
    Later(String),
    /// This rank has no team, and the other ranks do not know it.
    Failed(String),
}

impl UccTeamInCreation {
    pub(super) fn number(&self) -> Option<u64> {
        self.number
    }

    fn propose(&mut self, handed: &Handed, channel: &RoundChannel) -> Option<[u64; 2]> {
        if self.words.is_some() || !matches!(self.state, UccTeamState::Nothing) {
            return None;
        }
        let number = candidate(channel.team.id.0, self.attempts) % UccTeamCreation::LAST_ID;
        self.attempts += 1;
        if let Some(why) = handed.context.as_ref().err().or(handed.poison.as_ref()) {
            self.state = UccTeamState::Failed(why.clone());
            return Some([vote::FAILED, 0]);
        }
        let is_free = !handed.uses(number, channel.team.collective);
        self.number = is_free.then_some(number);
        Some([if is_free { vote::HERE } else { vote::TAKEN }, number])
    }

    pub(super) fn advance<F: Fabric>(
        &mut self,
        handed: &mut Handed,
        channel: &RoundChannel,
        lane: &mut Lane<F>,
    ) -> CreationStep {
        let proposal = self.propose(handed, channel);
        let context = match &handed.context {
            Ok(Backend::Ucc(context)) => Some(context),
            _ => None,
        };
        match self.step((proposal, context), channel, lane) {
            Ok(making) => making,
            // The engine cannot send this rank's messages, and the other ranks wait for them.
            Err(why) => {
                self.release(lane);
                CreationStep::Failed(why)
            }
        }
    }

    fn step<F: Fabric>(
        &mut self,
        (proposal, context): (Option<[u64; 2]>, Option<&UccContext>),
        channel: &RoundChannel,
        lane: &mut Lane<F>,
    ) -> Result<CreationStep, String> {
        if let Some(words) = proposal {
            self.words = Some(Round::of_words(channel, words)?);
        }
        if let Some(all) = Round::poll(&mut self.bytes, lane) {
            self.exchanges.put(Exchange::Over(Some(all?)));
        }
        if self.words.is_none() && self.bytes.is_none() {
            self.advance_ucc();
            if let Some(words) = self.next_words() {
                self.words = Some(Round::of_words(channel, words)?);
            }
        }
        let Some(all) = Round::poll(&mut self.words, lane) else { return Ok(CreationStep::Going) };
        let all = pairs(&all?);
        let all_vote = |word: u64| all.iter().all(|[vote, _]| *vote == word);
        let failed = all.iter().position(|[vote, _]| *vote == vote::FAILED);
        if let Some(rank) = failed {
            return Ok(self.refuse(format!("rank {rank} of it has no team")));
        }
        if all.iter().any(|[vote, _]| *vote == vote::TAKEN) {
            self.number = None;
            if self.attempts >= MAX_ATTEMPTS {
                let why = format!("none of {MAX_ATTEMPTS} numbers is free at all of its ranks");
                return Ok(self.refuse(why));
            }
            return Ok(CreationStep::Going);
        }
        if all_vote(vote::HERE)
            && let (Some(context), Some(number)) = (context, self.number)
        {
            let place = (channel.team.rank, channel.team.size());
            let oob: Arc<dyn OutOfBand> = self.exchanges.clone();
            self.state = match UccTeamCreation::begin(context, place, number, oob) {
                Ok(creation) => UccTeamState::Going(creation),
                Err(error) => UccTeamState::Failed(error.to_string()),
            };
            return Ok(CreationStep::Going);
        }
        if all_vote(vote::EXCHANGE) && all.iter().all(|pair| Some(pair) == all.first()) {
            self.bytes = Some(Round::start(channel, self.exchanges.take())?);
            return Ok(CreationStep::Going);
        }
        if all_vote(vote::MADE)
            && let UccTeamState::Made(team) =
                std::mem::replace(&mut self.state, UccTeamState::Nothing)
        {
            return Ok(CreationStep::Made {
                team: MadeTeam::Ucc(team),
                id: self.number.unwrap_or_default(),
            });
        }
        Ok(self.refuse("its ranks have not come to the same end".to_string()))
    }

    fn advance_ucc(&mut self) {
        self.state = match std::mem::replace(&mut self.state, UccTeamState::Nothing) {
            UccTeamState::Going(creation) => match creation.poll() {
                Ok(UccCreation::Going(creation)) => UccTeamState::Going(creation),
                Ok(UccCreation::Made(team)) => UccTeamState::Made(team),
                Err(error) => UccTeamState::Failed(error.to_string()),
            },
            other => other,
        };
    }

    fn next_words(&self) -> Option<[u64; 2]> {
        match &self.state {
            UccTeamState::Nothing => None,
            UccTeamState::Going(_) => {
                self.exchanges.wanted_len().map(|len| [vote::EXCHANGE, len as u64])
            }
            UccTeamState::Made(_) => Some([vote::MADE, 0]),
            UccTeamState::Failed(_) => Some([vote::FAILED, 0]),
        }
    }

    fn refuse(&mut self, why: String) -> CreationStep {
        self.exchanges.put(Exchange::Over(None));
        let why = match std::mem::replace(&mut self.state, UccTeamState::Nothing) {
            UccTeamState::Failed(own) => own,
            UccTeamState::Nothing | UccTeamState::Going(_) | UccTeamState::Made(_) => why,
        };
        CreationStep::Refused(why)
    }

    /// Gives up all rounds. UCC keeps its team.
    pub(super) fn release<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        self.exchanges.put(Exchange::Over(None));
        if let UccTeamState::Made(team) = std::mem::replace(&mut self.state, UccTeamState::Nothing)
        {
            team.abandon();
        }
        for round in [self.words.take(), self.bytes.take()].into_iter().flatten() {
            round.abandon(lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_of_a_communicator_are_many_and_differ_from_others() {
        let of = |name| (0..8).map(|attempt| candidate(name, attempt)).collect::<Vec<_>>();
        assert!(of(1).iter().collect::<std::collections::BTreeSet<_>>().len() > 6);
        assert_ne!(of(1), of(2));
    }
}
