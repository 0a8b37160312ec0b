//! A team of UCC in the making, and agreements of a communicator's ranks about it: rounds of allgathers over the engine.
//!
//! All rounds of one making have one tag. They come one after the other, so messages of a later one match later receives.

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

/// By what the rounds of a call travel.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub(super) team: Arc<Team>,
    pub(super) tag: i32,
    pub(super) setup: Shared<Setup>,
}

/// An allgather of bytes under way.
pub(super) struct Round {
    run: Box<Run>,
    all: Owned<u8>,
}

impl Round {
    /// Starts one. All ranks contribute as much.
    pub(super) fn start(channel: &Channel, mine: Vec<u8>) -> Result<Round, String> {
        let Channel { team, tag, setup } = channel;
        let call = Call::Allgather { block: Shared(mine.len()), in_place: false };
        let all = Owned::new(vec![0_u8; mine.len() * team.size() as usize]);
        let buffers = Buffers { input: Owned::new(mine).buf(), output: all.buf(), element: None };
        let plan = fixed_plan(team, &call, None, *setup).map_err(|error| error.to_string())?;
        let run = Run::new(plan, team.clone(), *tag, buffers, Combine::Nothing);
        Ok(Round { run: Box::new(run.map_err(|error| error.to_string())?), all })
    }

    /// Starts one of two words.
    pub(super) fn of_words(channel: &Channel, words: [u64; 2]) -> Result<Round, String> {
        Round::start(channel, words.into_iter().flat_map(u64::to_ne_bytes).collect())
    }

    /// Gives it up.
    pub(super) fn abandon<F: Fabric>(mut self, lane: &mut Lane<F>) {
        self.run.abandon(lane);
    }

    /// Goes on with the round at this place, which is taken out when it is over: the contributions of all.
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

/// The words of all ranks, two of each.
pub(super) fn pairs(bytes: &[u8]) -> Vec<[u64; 2]> {
    let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(word).collect();
    words.as_chunks::<2>().0.to_vec()
}

/// An exchange that UCC wants.
#[derive(Debug, Default)]
enum Exchange {
    #[default]
    Idle,
    Wanted(Vec<u8>),
    Going,
    Over(Option<Vec<u8>>),
}

/// The exchanges of a team that is being made.
#[derive(Debug, Default)]
struct Exchanges(Mutex<Exchange>);

impl Exchanges {
    fn put(&self, exchange: Exchange) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = exchange;
    }

    fn wanted(&self) -> Option<usize> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Exchange::Wanted(mine) => Some(mine.len()),
            _ => None,
        }
    }

    fn take(&self) -> Vec<u8> {
        match std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), Exchange::Going)
        {
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

/// What a rank says in a round of words.
pub(super) mod said {
    /// UCC is there, and the number of the team is free.
    pub(in crate::handed) const HERE: u64 = 1;
    /// The number of the team is another's here.
    pub(in crate::handed) const TAKEN: u64 = 2;
    /// UCC wants an exchange of as many bytes as the second word says.
    pub(in crate::handed) const EXCHANGE: u64 = 3;
    /// The team is made.
    pub(in crate::handed) const MADE: u64 = 4;
    /// There is no team at this rank.
    pub(in crate::handed) const FAILED: u64 = 5;
    /// This rank is about to make something for another communicator.
    pub(in crate::handed) const BUSY: u64 = 6;
}

/// What UCC has of the team.
enum Ours {
    /// It does not know of it yet.
    Nothing,
    Going(UccTeamCreation),
    Made(oxmpi_ucc::UccTeam),
    Failed(String),
}

/// A team in the making.
pub(super) struct TeamInMaking {
    /// How many numbers were tried; from 1 on, one of them is proposed.
    attempts: u32,
    number: Option<u64>,
    ours: Ours,
    exchanges: Arc<Exchanges>,
    /// The words of a round under way, or the bytes of an exchange.
    words: Option<Round>,
    bytes: Option<Round>,
}

impl Default for TeamInMaking {
    fn default() -> TeamInMaking {
        TeamInMaking {
            attempts: 0,
            number: None,
            ours: Ours::Nothing,
            exchanges: Arc::default(),
            words: None,
            bytes: None,
        }
    }
}

/// How many numbers are tried at most: as many as [`candidate`] has for a name.
const MOST_ATTEMPTS: u32 = 256;

/// The `attempt`-th number that is tried for the team of a communicator of this name. All ranks try the same, and two communicators
/// seldom do.
fn candidate(name: u64, attempt: u32) -> u64 {
    let mixed = (name ^ u64::from(attempt) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40 & 0x7fff_u64
}

/// How it goes on.
pub(super) enum Making {
    Going,
    Made {
        team: MadeTeam,
        id: u64,
    },
    /// All ranks know that there is none. The text is of this rank's reason.
    Refused(String),
    /// All ranks know that there is none yet, and that the next call may find one. The text says why.
    Later(String),
    /// There is none at this rank, of which the others know nothing.
    Failed(String),
}

impl TeamInMaking {
    /// The number that it proposes.
    pub(super) fn number(&self) -> Option<u64> {
        self.number
    }

    /// Proposes the next number: what this rank says to it.
    fn propose(&mut self, handed: &Handed, channel: &Channel) -> Option<[u64; 2]> {
        if self.words.is_some() || !matches!(self.ours, Ours::Nothing) {
            return None;
        }
        let number = candidate(channel.team.id.0, self.attempts) % UccTeamCreation::LAST_ID;
        self.attempts += 1;
        if let Some(why) = handed.context.as_ref().err().or(handed.poison.as_ref()) {
            self.ours = Ours::Failed(why.clone());
            return Some([said::FAILED, 0]);
        }
        let is_free = !handed.uses(number, channel.team.collective);
        self.number = is_free.then_some(number);
        Some([if is_free { said::HERE } else { said::TAKEN }, number])
    }

    /// Goes on without waiting.
    pub(super) fn advance<F: Fabric>(
        &mut self,
        handed: &mut Handed,
        channel: &Channel,
        lane: &mut Lane<F>,
    ) -> Making {
        let proposal = self.propose(handed, channel);
        let context = match &handed.context {
            Ok(Backend::Ucc(context)) => Some(context),
            _ => None,
        };
        match self.step((proposal, context), channel, lane) {
            Ok(making) => making,
            // The engine cannot carry the messages of this rank: the others wait for them, or have a team.
            Err(why) => {
                self.release(lane);
                Making::Failed(why)
            }
        }
    }

    fn step<F: Fabric>(
        &mut self,
        (proposal, context): (Option<[u64; 2]>, Option<&UccContext>),
        channel: &Channel,
        lane: &mut Lane<F>,
    ) -> Result<Making, String> {
        if let Some(words) = proposal {
            self.words = Some(Round::of_words(channel, words)?);
        }
        if let Some(all) = Round::poll(&mut self.bytes, lane) {
            self.exchanges.put(Exchange::Over(Some(all?)));
        }
        if self.words.is_none() && self.bytes.is_none() {
            self.go_on();
            if let Some(words) = self.say() {
                self.words = Some(Round::of_words(channel, words)?);
            }
        }
        let Some(all) = Round::poll(&mut self.words, lane) else { return Ok(Making::Going) };
        let all = pairs(&all?);
        let all_say = |word: u64| all.iter().all(|[said, _]| *said == word);
        let failed = all.iter().position(|[said, _]| *said == said::FAILED);
        if let Some(rank) = failed {
            return Ok(self.refuse(format!("rank {rank} of it has no team")));
        }
        if all.iter().any(|[said, _]| *said == said::TAKEN) {
            self.number = None;
            if self.attempts >= MOST_ATTEMPTS {
                let why = format!("none of {MOST_ATTEMPTS} numbers is free at all of its ranks");
                return Ok(self.refuse(why));
            }
            return Ok(Making::Going);
        }
        if all_say(said::HERE)
            && let (Some(context), Some(number)) = (context, self.number)
        {
            let place = (channel.team.rank, channel.team.size());
            let oob: Arc<dyn OutOfBand> = self.exchanges.clone();
            self.ours = match UccTeamCreation::begin(context, place, number, oob) {
                Ok(creation) => Ours::Going(creation),
                Err(error) => Ours::Failed(error.to_string()),
            };
            return Ok(Making::Going);
        }
        if all_say(said::EXCHANGE) && all.iter().all(|pair| Some(pair) == all.first()) {
            self.bytes = Some(Round::start(channel, self.exchanges.take())?);
            return Ok(Making::Going);
        }
        if all_say(said::MADE)
            && let Ours::Made(team) = std::mem::replace(&mut self.ours, Ours::Nothing)
        {
            return Ok(Making::Made { team: MadeTeam::Ucc(team), id: self.number.unwrap_or_default() });
        }
        Ok(self.refuse("its ranks have not come to the same end".to_string()))
    }

    /// How UCC's part stands.
    fn go_on(&mut self) {
        self.ours = match std::mem::replace(&mut self.ours, Ours::Nothing) {
            Ours::Going(creation) => match creation.poll() {
                Ok(UccCreation::Going(creation)) => Ours::Going(creation),
                Ok(UccCreation::Made(team)) => Ours::Made(team),
                Err(error) => Ours::Failed(error.to_string()),
            },
            other => other,
        };
    }

    /// What this rank has to say to the others now.
    fn say(&self) -> Option<[u64; 2]> {
        match &self.ours {
            Ours::Nothing => None,
            Ours::Going(_) => self.exchanges.wanted().map(|len| [said::EXCHANGE, len as u64]),
            Ours::Made(_) => Some([said::MADE, 0]),
            Ours::Failed(_) => Some([said::FAILED, 0]),
        }
    }

    fn refuse(&mut self, why: String) -> Making {
        self.exchanges.put(Exchange::Over(None));
        let why = match std::mem::replace(&mut self.ours, Ours::Nothing) {
            Ours::Failed(own) => own,
            Ours::Nothing | Ours::Going(_) | Ours::Made(_) => why,
        };
        Making::Refused(why)
    }

    /// Gives up what is under way. UCC keeps what it has of the team.
    pub(super) fn release<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        self.exchanges.put(Exchange::Over(None));
        if let Ours::Made(team) = std::mem::replace(&mut self.ours, Ours::Nothing) {
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
