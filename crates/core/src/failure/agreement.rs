//! How the processes of a communicator agree although some of them fail: state machines.
//!
//! They answer each event with the messages to send; they know ranks, and neither processes nor the network. They need three
//! things of them: messages between two ranks that live arrive, in order; a rank is reported lost only if it has failed; and then it is, at some
//! time, to all. From when a rank hears that another is lost it listens no more to it.
//!
//! Agreements of one communicator are numbered in the order in which all its ranks begin them. Several may be open at a time. All ranks
//! of a communicator use one algorithm:
//!
//! | module | algorithm | messages of n ranks without a failure |
//! |---|---|---|
//! | [`early_returning`] | over a tree that is mended around the lost; by a coordinator that hears each rank when its root is lost | 2(n-1), of which the busiest rank has those of its children |
//! | [`early_terminating`] | rounds of all to all | 2n(n-1) |
//! | [`untolerant`] | over a binomial tree; it fails with the first failure | 2(n-1) |
//!
//! What the first two promise: all living ranks that have begun an agreement get a decision, all the same, of which the bits are
//! those that all living ranks have set, at most, and which names no living rank as failed. Two things are common to all:
//!
//! - A rank answers what comes for an agreement that is decided with the decision. A contribution says which agreement is the first
//!   whose decision its rank lacks, and a decision the least of these: what was decided before that no rank can ask for.
//! - A rank that will no longer answer, because it frees the communicator or finalizes, says all decisions that a rank may lack
//!   to all, and nothing more: others leave as well, and it may have parted with them since. It has none of its own to wait for.

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

/// What a rank brings to an agreement, or several have brought to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contribution {
    /// Bits, of which those stay that all have set.
    pub(crate) flag: u32,
    /// A context name that no other rank uses; that of the rank that decides will be the decision's.
    pub(crate) name: u64,
    /// The ranks that it knows to be lost.
    pub(crate) failed: RankSet,
    /// Those of them that its program has acknowledged.
    pub(crate) acknowledged: RankSet,
    /// The number of the first agreement whose decision it lacks.
    pub(crate) lacks: u64,
}

impl Contribution {
    /// Adds what others have contributed. The name stays.
    fn combine(&mut self, other: &Contribution) {
        self.flag &= other.flag;
        self.failed.unite(&other.failed);
        self.acknowledged.intersect(&other.acknowledged);
        self.lacks = self.lacks.min(other.lacks);
    }

    /// The decision of rank `by` that follows from the contributions of all.
    fn into_decision(self, by: u32) -> Decision {
        let news = !self.failed.is_within(&self.acknowledged);
        let Contribution { flag, name, failed, lacks: settled, .. } = self;
        Decision { flag, name, failed, news, settled, by }
    }
}

/// What all living ranks get of an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The bits that all have set.
    pub(crate) flag: u32,
    /// A context name.
    pub(crate) name: u64,
    /// The ranks that count as failed.
    pub(crate) failed: RankSet,
    /// Whether some rank has not acknowledged all of these.
    pub(crate) news: bool,
    /// All living ranks have the decisions of the agreements before this one.
    pub(crate) settled: u64,
    /// The rank that made it; 0 where all make the same.
    pub(crate) by: u32,
}

/// What ranks send each other; each begins with the number of the agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// To the parent in the tree: the vote of a rank and those below it.
    Contribution(u64, Contribution),
    /// To the coordinator: what one rank brings.
    Own(u64, Contribution),
    /// To the coordinator in place of that: the decision is known already.
    Known(u64, Decision),
    /// To the children, or in answer to a vote.
    Decision(u64, Decision),
    /// To all, by who leaves.
    Parting(u64, Decision),
    /// To all, in this round.
    Round(u64, u64, RoundState),
}

impl Message {
    /// The number of the agreement.
    fn number(&self) -> u64 {
        match self {
            Message::Contribution(number, _)
            | Message::Own(number, _)
            | Message::Known(number, _)
            | Message::Decision(number, _)
            | Message::Parting(number, _)
            | Message::Round(number, ..) => *number,
        }
    }
}

/// Messages to send: to which rank, and what.
pub(crate) type Outbox = Vec<(u32, Message)>;

/// What has become of an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is decided.
    Decided(Decision),
    /// It has failed, because this rank is lost and its algorithm tolerates no failure.
    Failed(u32),
}

/// The agreements of one communicator, as one of its ranks sees them.
#[derive(Debug)]
pub(crate) struct Agreements {
    ledger: Ledger,
    algorithm: Algorithm,
    /// This rank will not answer any more.
    has_left: bool,
}

#[derive(Debug)]
enum Algorithm {
    EarlyReturning(EarlyReturning),
    EarlyTerminating(EarlyTerminating),
    Untolerant(Untolerant),
}

impl Agreements {
    /// No agreement yet, for rank `me` of `size`. All ranks must have the same settings.
    pub(crate) fn new(me: u32, size: u32, settings: AgreementSettings) -> Agreements {
        let AgreementSettings { shape, rebuild, .. } = settings;
        let algorithm = match settings.algorithm {
            AgreementAlgorithm::EarlyReturning => {
                Algorithm::EarlyReturning(EarlyReturning::new(shape, rebuild, size))
            }
            AgreementAlgorithm::EarlyTerminating => Algorithm::EarlyTerminating(EarlyTerminating::default()),
            AgreementAlgorithm::Allreduce => Algorithm::Untolerant(Untolerant::new(size)),
        };
        Agreements { ledger: Ledger::new(me, size), algorithm, has_left: false }
    }

    /// Begins the next agreement: its number, and what to send. What the contribution lacks is noted here.
    pub(crate) fn begin(&mut self, contribution: Contribution) -> (u64, Outbox) {
        debug_assert!(!self.has_left, "who has left begins nothing");
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

    /// What has become of an agreement, if it is over and some rank may lack its decision.
    pub(crate) fn verdict(&self, number: u64) -> Option<Verdict> {
        let failure = match &self.algorithm {
            Algorithm::Untolerant(untolerant) => untolerant.failure(number),
            Algorithm::EarlyReturning(_) | Algorithm::EarlyTerminating(_) => None,
        };
        let decided = self.ledger.decision(number).cloned().map(Verdict::Decided);
        decided.or_else(|| failure.map(Verdict::Failed))
    }

    /// A message has come.
    pub(crate) fn hear(&mut self, from: u32, message: Message) -> Outbox {
        let (ledger, mut out) = (&mut self.ledger, Outbox::new());
        if from >= ledger.size || from == ledger.me || ledger.lost.contains(from) || self.has_left {
            return out;
        }
        match &mut self.algorithm {
            Algorithm::EarlyReturning(returning) => returning.hear(ledger, from, message, &mut out),
            Algorithm::EarlyTerminating(terminating) => terminating.hear(ledger, from, message, &mut out),
            Algorithm::Untolerant(untolerant) => untolerant.hear(ledger, from, message, &mut out),
        }
        out
    }

    /// A rank is lost.
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

    /// This rank will not answer any more. What to send is said once.
    pub(crate) fn leave(&mut self) -> Outbox {
        let is_tolerant = !matches!(self.algorithm, Algorithm::Untolerant(_));
        if std::mem::replace(&mut self.has_left, true) || !is_tolerant {
            return Outbox::new();
        }
        let all = |rank| {
            let decided = self.ledger.decided.iter();
            decided.map(move |(number, decision)| (rank, Message::Parting(*number, decision.clone())))
        };
        self.ledger.others().flat_map(all).collect()
    }
}

#[cfg(test)]
mod tests;
