//! The early terminating agreement: rounds in which every rank sends what it knows to all others, until one passes in which all have
//! said the same. It ends two rounds after the last failure that any rank hears of meanwhile; each takes n(n-1) messages.
//!
//! What a rank knows is its *state*: who has contributed, their contributions combined, and who has failed.
//!
//! 1. In a round a rank sends its state to all others, then waits for that of each rank that it does not know to be lost. Who is
//!    named as failed in a state counts as lost from then on, so a rank that sends a state listens no more to those whom it names.
//! 2. If every rank that its state does not name as failed has sent the very same state in that round, that state is the decision.
//!    Else it takes what the others know to its own, and begins the next round.
//! 3. Who gets a state for what it has decided, or has got one of a round that it will not send in, answers with the decision.
//!    A rank takes a decision from every rank that it does not know to be lost.
//! 4. Who leaves says all decisions that may be lacked to all.
//!
//! Why no two living ranks decide differently: of those that decide by rule 2 in one round each has heard the other, or one
//! was lost before the other sent its state of that round, and then so were all that held its decision only. Who decides by rule 2 in a
//! later round r has heard the same state of all that it does not name as failed; who had decided before sends no state, so it is among
//! those named. A living rank x sent that state in r, too, so it had no decision, and listened to none of the named ones
//! from then on. So x can have another decision only from one that sent the same state in r, and so on: from no one.

use super::ledger::Ledger;
use super::{Contribution, Decision, Message, Outbox};
use crate::failure::ranks::RankSet;
use std::collections::BTreeMap;

/// What a rank knows in an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoundState {
    /// Whose contributions these are.
    pub(crate) contributors: RankSet,
    /// All of them combined; the name is that of the lowest contributor.
    pub(crate) all: Contribution,
}

impl RoundState {
    fn combine(&mut self, other: &RoundState) {
        let name = match other.contributors.iter().next() < self.contributors.iter().next() {
            true => other.all.name,
            false => self.all.name,
        };
        self.contributors.unite(&other.contributors);
        self.all.combine(&other.all);
        self.all.name = name;
    }
}

/// The state of early terminating agreements, besides the ledger.
#[derive(Debug, Default)]
pub(super) struct EarlyTerminating {
    /// Of each that is open: the round, and what this rank has sent in it.
    rounds: BTreeMap<u64, (u64, RoundState)>,
    /// What others have sent, by agreement, round and rank.
    heard: BTreeMap<u64, BTreeMap<(u64, u32), RoundState>>,
}

impl EarlyTerminating {
    pub(super) fn begin(&mut self, ledger: &mut Ledger, number: u64, out: &mut Outbox) {
        let Some(mine) = ledger.open.get(&number) else { return };
        let mut contributors = RankSet::empty(ledger.size);
        contributors.insert(ledger.me);
        self.rounds.insert(number, (0, RoundState { contributors, all: mine.clone() }));
        self.next_round(ledger, number, out);
        self.consider(ledger, number, out);
    }

    pub(super) fn hear(&mut self, ledger: &mut Ledger, from: u32, message: Message, out: &mut Outbox) {
        match message {
            Message::Round(number, round, state) => {
                if let Some(decision) = ledger.decision(number) {
                    out.push((from, Message::Decision(number, decision.clone()))); // rule 3
                } else if !ledger.is_over(number) {
                    self.heard.entry(number).or_default().insert((round, from), state);
                    self.consider(ledger, number, out);
                }
            }
            Message::Decision(number, decision) | Message::Parting(number, decision) => {
                if ledger.open.contains_key(&number) {
                    self.decide(ledger, number, decision, out);
                }
            }
            Message::Contribution(..) | Message::Own(..) | Message::Known(..) => {}
        }
    }

    pub(super) fn lose(&mut self, ledger: &mut Ledger, rank: u32, out: &mut Outbox) {
        let mut lost = RankSet::empty(ledger.size);
        lost.insert(rank);
        self.learn(ledger, &lost);
        self.consider_all(ledger, out);
    }

    /// Begins the next round of an agreement.
    fn next_round(&mut self, ledger: &mut Ledger, number: u64, out: &mut Outbox) {
        let Some((round, state)) = self.rounds.get_mut(&number) else { return };
        *round += 1;
        state.all.failed.unite(&ledger.lost);
        let (round, state) = (*round, state.clone());
        // Before it sends the state (rule 1).
        let is_news = self.learn(ledger, &state.all.failed);
        out.extend(ledger.others().map(|rank| (rank, Message::Round(number, round, state.clone()))));
        if is_news {
            self.consider_all(ledger, out);
        }
    }

    /// Ends as many rounds as are complete.
    fn consider(&mut self, ledger: &mut Ledger, number: u64, out: &mut Outbox) {
        while let Some((round, state)) = self.rounds.get_mut(&number) {
            let heard = self.heard.entry(number).or_default();
            let of = |rank: u32| heard.get(&(*round, rank));
            if !ledger.others().all(|rank| of(rank).is_some()) {
                return;
            }
            let named = |rank: u32| rank == ledger.me || state.all.failed.contains(rank);
            if (0..ledger.size).all(|rank| named(rank) || of(rank) == Some(&*state)) {
                let decision = state.all.clone().into_decision(0);
                return self.decide(ledger, number, decision, out);
            }
            let rest = heard.split_off(&(*round + 1, 0));
            let ended = std::mem::replace(heard, rest);
            ended.values().for_each(|other| state.combine(other));
            self.next_round(ledger, number, out);
        }
    }

    fn decide(&mut self, ledger: &mut Ledger, number: u64, decision: Decision, out: &mut Outbox) {
        let sent = self.rounds.remove(&number).map_or(0, |(round, _)| round);
        let heard = self.heard.remove(&number).unwrap_or_default();
        let waiting = heard.into_keys().filter(|(round, _)| *round > sent); // rule 3
        out.extend(waiting.map(|(_, rank)| (rank, Message::Decision(number, decision.clone()))));
        let failed = decision.failed.clone();
        ledger.settle(number, decision);
        if self.learn(ledger, &failed) {
            self.consider_all(ledger, out);
        }
    }

    /// These ranks are lost. Whether any was not known to be.
    fn learn(&mut self, ledger: &mut Ledger, failed: &RankSet) -> bool {
        let lost = ledger.newly_lost(failed);
        for rank in &lost {
            ledger.lost.insert(*rank);
            self.heard.values_mut().for_each(|heard| heard.retain(|(_, from), _| from != rank));
        }
        !lost.is_empty()
    }

    fn consider_all(&mut self, ledger: &mut Ledger, out: &mut Outbox) {
        for number in ledger.open.keys().copied().collect::<Vec<_>>() {
            self.consider(ledger, number, out);
        }
    }
}
