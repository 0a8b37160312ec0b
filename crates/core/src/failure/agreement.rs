//! State machines of agreements among the processes of a communicator, some of which may fail.
//!
//! A state machine answers each event with messages to send. It uses ranks; it knows no processes
//! and no network. It requires that messages between two living ranks arrive in order, that only
//! failed ranks are reported lost, and that each failed rank is at some time reported to all ranks.
//! A rank ignores messages of ranks that it knows to be lost.
//!
//! The agreements of one communicator are numbered in the order in which all ranks begin them.
//! Several may be open at a time. All ranks of a communicator use one algorithm:
//!
//! | module | algorithm | messages of n ranks without a failure |
//! |---|---|---|
//! | [`early_returning`] | a mended tree; a coordinator if the root is lost | 2(n-1) |
//! | [`early_terminating`] | rounds of all to all | 2n(n-1) |
//! | [`untolerant`] | a binomial tree; fails with the first failure | 2(n-1) |
//!
//! The first two guarantee that all living ranks that have begun an agreement get the same
//! decision. The decision has only bits that all living ranks have set, and names no living rank as
//! failed. All three have in common:
//!
//! - A rank answers a message for a decided agreement with the decision. A contribution contains
//!   the number of the first agreement whose decision its rank lacks. A decision contains the
//!   minimum of these numbers: no rank can need an earlier decision.
//! - A rank that frees the communicator or finalizes sends all ranks each decision that some rank
//!   may lack, and sends nothing after that. It waits for no answer.

mod early_returning;
mod early_terminating;
mod ledger;
mod tree;
mod untolerant;

use super::ranks::RankSet;
use early_returning::EarlyReturning;
use early_terminating::EarlyTerminating;
use ledger::Ledger;
use oxmpi_tuned::agreement::{AgreementAlgorithm, AgreementSettings};
use untolerant::Untolerant;

pub(crate) use early_terminating::RoundState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contribution {
    /// In the decision, the bits that all ranks have set.
    pub(crate) flag: u32,
    /// A context name that no other rank uses; in the decision, the name of the deciding rank.
    pub(crate) name: u64,
    pub(crate) failed: RankSet,
    pub(crate) acknowledged: RankSet,
    /// The number of the first agreement whose decision the rank lacks.
    pub(crate) lacks: u64,
}

impl Contribution {
    fn combine(&mut self, other: &Contribution) {
        self.flag &= other.flag;
        self.failed.unite(&other.failed);
        self.acknowledged.intersect(&other.acknowledged);
        self.lacks = self.lacks.min(other.lacks);
    }

    fn into_decision(self, by: u32) -> Decision {
        let news = !self.failed.is_within(&self.acknowledged);
        let Contribution { flag, name, failed, lacks: settled, .. } = self;
        Decision { flag, name, failed, news, settled, by }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) flag: u32,
    pub(crate) name: u64,
    pub(crate) failed: RankSet,
    pub(crate) news: bool,
    /// The number of the first agreement whose decision some living rank may lack.
    pub(crate) settled: u64,
    /// The rank that made this decision; 0 if all ranks compute it.
    pub(crate) by: u32,
}

/// The messages between ranks. The first field is the number of the agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgreementMessage {
    /// To the parent in the tree: the vote of a rank and its descendants.
    Contribution(u64, Contribution),
    /// To the coordinator: the sender's contribution.
    Own(u64, Contribution),
    /// To the coordinator instead of `Own`, if the sender has a decision.
    Known(u64, Decision),
    /// To the children, or in answer to a vote.
    Decision(u64, Decision),
    /// To all ranks, from a leaving rank.
    Parting(u64, Decision),
    /// To all ranks: the number of the round, and the sender's state.
    Round(u64, u64, RoundState),
}

impl AgreementMessage {
    fn number(&self) -> u64 {
        match self {
            AgreementMessage::Contribution(number, _)
            | AgreementMessage::Own(number, _)
            | AgreementMessage::Known(number, _)
            | AgreementMessage::Decision(number, _)
            | AgreementMessage::Parting(number, _)
            | AgreementMessage::Round(number, ..) => *number,
        }
    }
}

pub(crate) type Outbox = Vec<(u32, AgreementMessage)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgreementResult {
    Decided(Decision),
    Failed(u32),
}

#[derive(Debug)]
pub(crate) struct Agreements {
    ledger: Ledger,
    algorithm: Algorithm,
    has_left: bool,
}

#[derive(Debug)]
enum Algorithm {
    EarlyReturning(EarlyReturning),
    EarlyTerminating(EarlyTerminating),
    Untolerant(Untolerant),
}

impl Agreements {
    /// All ranks must have the same settings.
    pub(crate) fn new(me: u32, size: u32, settings: AgreementSettings) -> Agreements {
        let AgreementSettings { shape, rebuild, .. } = settings;
        let algorithm = match settings.algorithm {
            AgreementAlgorithm::EarlyReturning => {
                Algorithm::EarlyReturning(EarlyReturning::new(shape, rebuild, size))
            }
            AgreementAlgorithm::EarlyTerminating => {
                Algorithm::EarlyTerminating(EarlyTerminating::default())
            }
            AgreementAlgorithm::Allreduce => Algorithm::Untolerant(Untolerant::new(size)),
        };
        Agreements { ledger: Ledger::new(me, size), algorithm, has_left: false }
    }

    /// Begins the next agreement. Returns its number and the messages to send.
    pub(crate) fn begin(&mut self, contribution: Contribution) -> (u64, Outbox) {
        debug_assert!(!self.has_left, "a rank that has left begins no agreement");
        let (ledger, mut out) = (&mut self.ledger, Outbox::new());
        let number = ledger.next;
        ledger.next += 1;
        let lacks = ledger.open.first_key_value().map_or(number, |(first, _)| *first);
        ledger.open.insert(number, Contribution { lacks, ..contribution });
        match &mut self.algorithm {
            Algorithm::EarlyReturning(returning) => returning.consider(ledger, number, &mut out),
            Algorithm::EarlyTerminating(terminating) => terminating.begin(ledger, number, &mut out),
            Algorithm::Untolerant(untolerant) => untolerant.begin(ledger, number, &mut out),
        }
        (number, out)
    }

    pub(crate) fn verdict(&self, number: u64) -> Option<AgreementResult> {
        let failure = match &self.algorithm {
            Algorithm::Untolerant(untolerant) => untolerant.failure(number),
            Algorithm::EarlyReturning(_) | Algorithm::EarlyTerminating(_) => None,
        };
        let decided = self.ledger.decision(number).cloned().map(AgreementResult::Decided);
        decided.or_else(|| failure.map(AgreementResult::Failed))
    }

    pub(crate) fn receive(&mut self, from: u32, message: AgreementMessage) -> Outbox {
        let (ledger, mut out) = (&mut self.ledger, Outbox::new());
        if from >= ledger.size || from == ledger.me || ledger.lost.contains(from) || self.has_left {
            return out;
        }
        match &mut self.algorithm {
            Algorithm::EarlyReturning(returning) => {
                returning.receive(ledger, from, message, &mut out)
            }
            Algorithm::EarlyTerminating(terminating) => {
                terminating.receive(ledger, from, message, &mut out)
            }
            Algorithm::Untolerant(untolerant) => {
                untolerant.receive(ledger, from, message, &mut out)
            }
        }
        out
    }

    pub(crate) fn lose(&mut self, rank: u32) -> Outbox {
        let (ledger, mut out) = (&mut self.ledger, Outbox::new());
        if rank >= ledger.size || rank == ledger.me || ledger.lost.contains(rank) || self.has_left {
            return out;
        }
        match &mut self.algorithm {
            Algorithm::EarlyReturning(returning) => returning.lose(ledger, rank, &mut out),
            Algorithm::EarlyTerminating(terminating) => terminating.lose(ledger, rank, &mut out),
            Algorithm::Untolerant(untolerant) => untolerant.lose(ledger, rank),
        }
        out
    }

    pub(crate) fn leave(&mut self) -> Outbox {
        let is_tolerant = !matches!(self.algorithm, Algorithm::Untolerant(_));
        if std::mem::replace(&mut self.has_left, true) || !is_tolerant {
            return Outbox::new();
        }
        let all = |rank| {
            let decided = self.ledger.decided.iter();
            decided.map(move |(number, decision)| {
                (rank, AgreementMessage::Parting(*number, decision.clone()))
            })
        };
        self.ledger.others().flat_map(all).collect()
    }
}

#[cfg(test)]
mod tests;
