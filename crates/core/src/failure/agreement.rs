//! How the processes of a communicator agree although some of them fail: a state machine.
//!
//! It answers each event with the messages to send; it knows ranks, and neither processes nor the network. It needs two
//! things of them: messages between two ranks that live arrive, in order; and a rank is reported lost exactly if it has failed,
//! at some time, to everyone.
//!
//! Agreements of one communicator are numbered in the order in which all its ranks begin them. For each:
//!
//! 1. A rank sends its contribution to the *coordinator*: the lowest rank that it does not know to be lost.
//! 2. The coordinator waits for a contribution of each rank that it does not know to be lost, or for a decision that one of
//!    them knows already, which then is the decision. Otherwise it makes one of all contributions that it has. It tells it
//!    to all before it goes on itself.
//! 3. When a rank hears that its coordinator is lost, it sends to the next one the decisions that it knows, then its
//!    contribution, if it has no decision for it. From then on it listens no more to the lost one. So a coordinator
//!    that has heard everyone knows each decision that a living rank has made or ever will make.
//! 4. Who is asked for something that was decided answers with the decision. A contribution says which agreement is the first
//!    whose decision its rank lacks, and a decision the least of these: what was decided before that nobody can ask for.
//! 5. A rank that will no longer answer, because it frees the communicator or finalizes, tells all decisions to all that somebody
//!    may lack, and says nothing more: others leave as well, and it may have parted with them since.

use super::ranks::RankSet;
use std::collections::{BTreeMap, VecDeque};

/// What a rank brings to an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contribution {
    /// Bits, of which those stay that all have set.
    pub(crate) flag: u32,
    /// A context name that nobody else uses; the coordinator's will be the decision's.
    pub(crate) name: u64,
    /// The ranks that it knows to be lost.
    pub(crate) failed: RankSet,
    /// Those of them that its program has acknowledged.
    pub(crate) acknowledged: RankSet,
    /// The number of the first agreement whose decision it lacks.
    pub(crate) lacks: u64,
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
}

/// What ranks send each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// To the coordinator.
    Contribution(u64, Contribution),
    /// From it; or to it, if it is new.
    Decision(u64, Decision),
}

/// Messages to send: to which rank, and what.
pub(crate) type Outbox = Vec<(u32, Message)>;

/// The agreements of one communicator, as one of its ranks sees them.
#[derive(Debug)]
pub(crate) struct Agreements {
    me: u32,
    size: u32,
    lost: RankSet,
    /// The number of the next one that this rank begins.
    next: u64,
    /// Its contributions that have no decision yet.
    open: BTreeMap<u64, Contribution>,
    /// What the others have contributed, by agreement and rank.
    heard: BTreeMap<u64, BTreeMap<u32, Contribution>>,
    /// The decisions that somebody may lack.
    decided: VecDeque<(u64, Decision)>,
    /// This rank will not answer any more.
    has_left: bool,
}

impl Agreements {
    /// No agreement yet, for rank `me` of `size`.
    pub(crate) fn new(me: u32, size: u32) -> Agreements {
        Agreements {
            me,
            size,
            lost: RankSet::empty(size),
            next: 0,
            open: BTreeMap::new(),
            heard: BTreeMap::new(),
            decided: VecDeque::new(),
            has_left: false,
        }
    }

    /// Begins the next agreement: its number, and what to send. What the contribution lacks is noted here.
    pub(crate) fn begin(&mut self, contribution: Contribution) -> (u64, Outbox) {
        debug_assert!(!self.has_left, "rule 5");
        let number = self.next;
        self.next += 1;
        let lacks = self.open.first_key_value().map_or(number, |(first, _)| *first);
        let contribution = Contribution { lacks, ..contribution };
        self.open.insert(number, contribution.clone());
        let mut out = Outbox::new();
        match self.coordinator() {
            coordinator if coordinator == self.me => self.consider(number, &mut out),
            coordinator => out.push((coordinator, Message::Contribution(number, contribution))),
        }
        (number, out)
    }

    /// The decision of an agreement, if it is made and somebody may lack it.
    pub(crate) fn decision(&self, number: u64) -> Option<&Decision> {
        self.decided.iter().find(|(n, _)| *n == number).map(|(_, decision)| decision)
    }

    /// A message has come.
    pub(crate) fn hear(&mut self, from: u32, message: Message) -> Outbox {
        let mut out = Outbox::new();
        if from >= self.size || self.lost.contains(from) || self.has_left {
            return out; // rules 3 and 5
        }
        match message {
            Message::Contribution(number, contribution) => match self.decision(number) {
                Some(decision) => out.push((from, Message::Decision(number, decision.clone()))),
                None if self.is_over(number) => {}
                None => {
                    self.heard.entry(number).or_default().insert(from, contribution);
                    self.consider(number, &mut out);
                }
            },
            Message::Decision(number, decision) => {
                // A rank can only be told of what it has begun, or what it has not begun and will.
                if self.decision(number).is_none() && !self.is_over(number) {
                    let waiting = self.heard.get(&number).into_iter().flat_map(|heard| heard.keys().copied());
                    let waiting: Vec<u32> = waiting.filter(|rank| *rank != from).collect();
                    self.keep(number, decision.clone());
                    // They asked this rank because it is the coordinator now.
                    out.extend(
                        waiting.into_iter().map(|rank| (rank, Message::Decision(number, decision.clone()))),
                    );
                }
            }
        }
        out
    }

    /// A rank is lost.
    pub(crate) fn lose(&mut self, rank: u32) -> Outbox {
        let mut out = Outbox::new();
        if rank >= self.size || self.lost.contains(rank) || self.has_left {
            return out;
        }
        let before = self.coordinator();
        self.lost.insert(rank);
        let now = self.coordinator();
        if now == self.me {
            for number in self.open.keys().copied().collect::<Vec<_>>() {
                self.consider(number, &mut out);
            }
        } else if now != before {
            let known =
                self.decided.iter().map(|(n, decision)| (now, Message::Decision(*n, decision.clone())));
            out.extend(known);
            let open = self.open.iter().map(|(n, mine)| (now, Message::Contribution(*n, mine.clone())));
            out.extend(open);
        }
        out
    }

    /// This rank will not answer any more (rule 5). What to send is told once.
    pub(crate) fn leave(&mut self) -> Outbox {
        if std::mem::replace(&mut self.has_left, true) {
            return Outbox::new();
        }
        let others = (0..self.size).filter(|rank| *rank != self.me && !self.lost.contains(*rank));
        let all = |rank| {
            self.decided
                .iter()
                .map(move |(number, decision)| (rank, Message::Decision(*number, decision.clone())))
        };
        others.flat_map(all).collect()
    }

    fn coordinator(&self) -> u32 {
        (0..self.size).find(|rank| !self.lost.contains(*rank)).unwrap_or(self.me)
    }

    /// Whether this agreement was decided so long ago that nobody can ask for it.
    fn is_over(&self, number: u64) -> bool {
        number < self.next && !self.open.contains_key(&number)
    }

    fn keep(&mut self, number: u64, decision: Decision) {
        self.open.remove(&number);
        self.heard.remove(&number);
        let settled = decision.settled;
        self.decided.push_back((number, decision));
        self.decided.retain(|(number, _)| *number >= settled);
    }

    /// Decides, if this rank is the coordinator and has heard everyone.
    fn consider(&mut self, number: u64, out: &mut Outbox) {
        if self.coordinator() != self.me {
            return;
        }
        let Some(mine) = self.open.get(&number) else { return };
        let none = BTreeMap::new();
        let heard = self.heard.get(&number).unwrap_or(&none);
        let others = || (0..self.size).filter(|rank| *rank != self.me && !self.lost.contains(*rank));
        if !others().all(|rank| heard.contains_key(&rank)) {
            return;
        }
        let mut all = mine.clone();
        all.failed.unite(&self.lost);
        for contribution in heard.values() {
            all.flag &= contribution.flag;
            all.failed.unite(&contribution.failed);
        }
        // What a lost rank had acknowledged, or lacked, does not matter.
        for (_, contribution) in heard.iter().filter(|(rank, _)| !self.lost.contains(**rank)) {
            all.acknowledged.intersect(&contribution.acknowledged);
            all.lacks = all.lacks.min(contribution.lacks);
        }
        let news = !all.failed.is_within(&all.acknowledged);
        let Contribution { flag, name, failed, lacks: settled, .. } = all;
        let decision = Decision { flag, name, failed, news, settled };
        out.extend(others().map(|rank| (rank, Message::Decision(number, decision.clone()))));
        self.keep(number, decision);
    }
}

#[cfg(test)]
mod tests;
