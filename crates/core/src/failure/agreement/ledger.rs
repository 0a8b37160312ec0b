//! The common state of all algorithms.

use super::super::ranks::RankSet;
use super::{Contribution, Decision};
use std::collections::{BTreeMap, VecDeque};

/// The agreements that a rank has begun, and the lost ranks.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) me: u32,
    pub(super) size: u32,
    pub(super) lost: RankSet,
    pub(super) next: u64,
    pub(super) open: BTreeMap<u64, Contribution>,
    /// The decisions that some rank may lack.
    pub(super) decided: VecDeque<(u64, Decision)>,
}

impl Ledger {
    pub(super) fn new(me: u32, size: u32) -> Ledger {
        let (open, decided) = (BTreeMap::new(), VecDeque::new());
        Ledger { me, size, lost: RankSet::empty(size), next: 0, open, decided }
    }

    pub(super) fn others(&self) -> impl Iterator<Item = u32> {
        (0..self.size).filter(|rank| *rank != self.me && !self.lost.contains(*rank))
    }

    pub(super) fn decision(&self, number: u64) -> Option<&Decision> {
        self.decided.iter().find(|(n, _)| *n == number).map(|(_, decision)| decision)
    }

    /// Whether an agreement was begun here and is decided.
    pub(super) fn is_over(&self, number: u64) -> bool {
        number < self.next && !self.open.contains_key(&number)
    }

    /// Records a decision, and drops the decisions that it makes unnecessary.
    pub(super) fn settle(&mut self, number: u64, decision: Decision) {
        self.open.remove(&number);
        let settled = decision.settled;
        self.decided.push_back((number, decision));
        self.decided.retain(|(number, _)| *number >= settled);
    }

    /// The ranks of a set that are not known to be lost. This rank is never among them.
    pub(super) fn newly_lost(&self, failed: &RankSet) -> Vec<u32> {
        failed.iter().filter(|rank| *rank != self.me && !self.lost.contains(*rank)).collect()
    }
}
