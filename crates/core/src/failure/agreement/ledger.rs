//! The state that all algorithms have in common.

use super::super::ranks::RankSet;
use super::{Contribution, Decision};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) me: u32,
    pub(super) size: u32,
    pub(super) lost: RankSet,
    pub(super) next: u64,
    pub(super) open: BTreeMap<u64, Contribution>,
    /// Decisions that some rank may lack, with the numbers of their agreements.
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

    pub(super) fn is_over(&self, number: u64) -> bool {
        number < self.next && !self.open.contains_key(&number)
    }

    pub(super) fn settle(&mut self, number: u64, decision: Decision) {
        self.open.remove(&number);
        let settled = decision.settled;
        self.decided.push_back((number, decision));
        self.decided.retain(|(number, _)| *number >= settled);
    }

    pub(super) fn newly_lost(&self, failed: &RankSet) -> Vec<u32> {
        failed.iter().filter(|rank| *rank != self.me && !self.lost.contains(*rank)).collect()
    }
}
