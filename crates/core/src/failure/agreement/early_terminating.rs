//! The early terminating agreement: rounds in which each rank sends its state to all others, until
//! all states of a round are equal. It ends two rounds after the last failure that any rank learns
//! of; a round takes n(n-1) messages.
//!
//! The *state* of a rank: the contributors, their combined contributions, and the failed ranks.
//!
//! 1. In a round a rank sends its state to all others, then waits for the state of each rank that
//!    it does not know to be lost. A rank that a state names as failed counts as lost from then on,
//!    so a rank that sends a state ignores the ranks that the state names.
//! 2. If each rank that the own state does not name as failed has sent an equal state in the round,
//!    this state is the decision. Otherwise the rank merges the states into its own and begins the
//!    next round.
//! 3. A rank with a decision answers a state with it, also a state of a round in which it will not
//!    send. A rank accepts a decision from each rank that it does not know to be lost.
//! 4. A rank that leaves sends all decisions that a rank may lack to all.
//!
//! Why no two living ranks decide differently: of two ranks that decide by rule 2 in one round,
//! each has the other's state, or one was lost before the other sent its state of the round, and
//! then all holders of only its decision were lost, too. A rank that decides by rule 2 in a later
//! round r has equal states of all ranks that it does not name as failed; ranks that decided before
//! send no state, so they are named. A living rank x also sent that state in r, so it had no
//! decision, and ignored the named ranks from then on. So x can get another decision only from a
//! rank that sent the same state in r, and so on: from none.

use super::ledger::Ledger;
use super::{AgreementMessage, Contribution, Decision, Outbox};
use crate::failure::ranks::RankSet;
use std::collections::BTreeMap;

/// The state of a rank in an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoundState {
    pub(crate) contributors: RankSet,
    /// All contributions combined; the name is that of the lowest contributor.
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

#[derive(Debug, Default)]
pub(super) struct EarlyTerminating {
    /// For each open agreement the round, and the state sent in it.
    rounds: BTreeMap<u64, (u64, RoundState)>,
    /// The states of others, by agreement, round and rank.
    received: BTreeMap<u64, BTreeMap<(u64, u32), RoundState>>,
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

    pub(super) fn receive(
        &mut self,
        ledger: &mut Ledger,
        from: u32,
        message: AgreementMessage,
        out: &mut Outbox,
    ) {
        match message {
            AgreementMessage::Round(number, round, state) => {
                if let Some(decision) = ledger.decision(number) {
                    out.push((from, AgreementMessage::Decision(number, decision.clone()))); // rule 3
                } else if !ledger.is_over(number) {
                    self.received.entry(number).or_default().insert((round, from), state);
                    self.consider(ledger, number, out);
                }
            }
            AgreementMessage::Decision(number, decision)
            | AgreementMessage::Parting(number, decision) => {
                if ledger.open.contains_key(&number) {
                    self.decide(ledger, number, decision, out);
                }
            }
            AgreementMessage::Contribution(..)
            | AgreementMessage::Own(..)
            | AgreementMessage::Known(..) => {}
        }
    }

    pub(super) fn lose(&mut self, ledger: &mut Ledger, rank: u32, out: &mut Outbox) {
        let mut lost = RankSet::empty(ledger.size);
        lost.insert(rank);
        self.learn(ledger, &lost);
        self.consider_all(ledger, out);
    }

    fn next_round(&mut self, ledger: &mut Ledger, number: u64, out: &mut Outbox) {
        let Some((round, state)) = self.rounds.get_mut(&number) else { return };
        *round += 1;
        state.all.failed.unite(&ledger.lost);
        let (round, state) = (*round, state.clone());
        // Before the state is sent (rule 1).
        let is_news = self.learn(ledger, &state.all.failed);
        out.extend(
            ledger
                .others()
                .map(|rank| (rank, AgreementMessage::Round(number, round, state.clone()))),
        );
        if is_news {
            self.consider_all(ledger, out);
        }
    }

    fn consider(&mut self, ledger: &mut Ledger, number: u64, out: &mut Outbox) {
        while let Some((round, state)) = self.rounds.get_mut(&number) {
            let received = self.received.entry(number).or_default();
            let of = |rank: u32| received.get(&(*round, rank));
            if !ledger.others().all(|rank| of(rank).is_some()) {
                return;
            }
            let named = |rank: u32| rank == ledger.me || state.all.failed.contains(rank);
            if (0..ledger.size).all(|rank| named(rank) || of(rank) == Some(&*state)) {
                let decision = state.all.clone().into_decision(0);
                return self.decide(ledger, number, decision, out);
            }
            let rest = received.split_off(&(*round + 1, 0));
            let ended = std::mem::replace(received, rest);
            ended.values().for_each(|other| state.combine(other));
            self.next_round(ledger, number, out);
        }
    }

    fn decide(&mut self, ledger: &mut Ledger, number: u64, decision: Decision, out: &mut Outbox) {
        let sent = self.rounds.remove(&number).map_or(0, |(round, _)| round);
        let received = self.received.remove(&number).unwrap_or_default();
        let waiting = received.into_keys().filter(|(round, _)| *round > sent); // rule 3
        out.extend(
            waiting.map(|(_, rank)| (rank, AgreementMessage::Decision(number, decision.clone()))),
        );
        let failed = decision.failed.clone();
        ledger.settle(number, decision);
        if self.learn(ledger, &failed) {
            self.consider_all(ledger, out);
        }
    }

    /// Marks these ranks as lost. Returns whether any was not known.
    fn learn(&mut self, ledger: &mut Ledger, failed: &RankSet) -> bool {
        let lost = ledger.newly_lost(failed);
        for rank in &lost {
            ledger.lost.insert(*rank);
            self.received
                .values_mut()
                .for_each(|received| received.retain(|(_, from), _| from != rank));
        }
        !lost.is_empty()
    }

    fn consider_all(&mut self, ledger: &mut Ledger, out: &mut Outbox) {
        for number in ledger.open.keys().copied().collect::<Vec<_>>() {
            self.consider(ledger, number, out);
        }
    }
}
