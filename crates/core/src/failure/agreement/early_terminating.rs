//! The early terminating agreement. In rounds, each rank sends its state to all others, until all
//! states of a round are equal. The agreement ends two rounds after the last failure that any rank
//! learns of; a round takes n(n-1) messages.
//!
//! The *state* of a rank: the contributors, their combined contributions, and the failed ranks.
//!
//! 1. In a round a rank sends its state to all others, then waits for the state of each rank that
//!    it does not know to be lost. A rank that a state names as failed counts as lost from then on,
//!    for the sender of the state and for its receivers.
//! 2. The own state is the decision if each rank that it does not name as failed has sent an equal
//!    state in the round. Otherwise the rank merges the states into its own and begins the next
//!    round.
//! 3. A rank with a decision answers each state with the decision, even a state of a round in which
//!    the rank itself will not send. A rank accepts a decision from each rank that it does not know
//!    to be lost.
//! 4. A rank that leaves sends all ranks each decision that some rank may lack.
//!
//! Why no two living ranks decide differently: let two ranks decide by rule 2 in one round. Either
//! each has the other's state. Or one was lost before the other sent its state of the round, and
//! then all ranks that had only the lost rank's decision were lost, too. Let a rank decide by rule
//! 2 in a later round r. It has equal states of all ranks that it does not name as failed; ranks
//! that decided before r send no state in r, so it names them. A living rank x also sent that state
//! in r, so x had no decision and ignored the named ranks from then on. So x can get another
//! decision only from a rank that sent the same state in r, and no such rank had one.

use super::ledger::Ledger;
use super::{AgreementMessage, Contribution, Decision, Outbox};
use crate::failure::ranks::RankSet;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoundState {
    pub(crate) contributors: RankSet,
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
    rounds: BTreeMap<u64, (u64, RoundState)>,
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
        // A rank ignores the ranks that its state names, from before the state is sent (rule 1).
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
