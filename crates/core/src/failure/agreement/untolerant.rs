//! The agreement without fault tolerance: a reduction to rank 0 and a broadcast, like an allreduce.
//! It shows what tolerance costs in measurements. After a loss all open and later agreements fail
//! at each rank that learns of the loss, so some ranks may have a decision while others have an
//! error.

use super::ledger::Ledger;
use super::tree::MendedTree;
use super::{AgreementMessage, Contribution, Decision, Outbox};
use crate::failure::ranks::RankSet;
use oxmpi_tuned::agreement::TreeShape;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Untolerant {
    tree: MendedTree,
    received: BTreeMap<u64, BTreeMap<u32, Contribution>>,
    /// The first failed agreement and the lost rank. All later undecided agreements fail, too.
    failed: Option<(u64, u32)>,
    /// Always empty, since this tree is not mended.
    none: RankSet,
}

impl Untolerant {
    pub(super) fn new(size: u32) -> Untolerant {
        Untolerant {
            tree: MendedTree::new(TreeShape::Binomial, size),
            received: BTreeMap::new(),
            failed: None,
            none: RankSet::empty(size),
        }
    }

    pub(super) fn failure(&self, number: u64) -> Option<u32> {
        self.failed.filter(|(first, _)| number >= *first).map(|(_, rank)| rank)
    }

    pub(super) fn begin(&mut self, ledger: &mut Ledger, number: u64, out: &mut Outbox) {
        let lost = ledger.lost.iter().next();
        match lost {
            Some(rank) => self.fail(ledger, rank),
            None => self.consider(ledger, number, out),
        }
    }

    pub(super) fn receive(
        &mut self,
        ledger: &mut Ledger,
        from: u32,
        message: AgreementMessage,
        out: &mut Outbox,
    ) {
        match message {
            AgreementMessage::Contribution(number, contribution) if !ledger.is_over(number) => {
                self.received.entry(number).or_default().insert(from, contribution);
                self.consider(ledger, number, out);
            }
            AgreementMessage::Decision(number, decision) if ledger.open.contains_key(&number) => {
                self.decide(ledger, number, decision, out);
            }
            _ => {}
        }
    }

    pub(super) fn lose(&mut self, ledger: &mut Ledger, rank: u32) {
        ledger.lost.insert(rank);
        self.fail(ledger, rank);
    }

    fn fail(&mut self, ledger: &mut Ledger, rank: u32) {
        let first = ledger.open.keys().next().copied().unwrap_or(ledger.next);
        self.failed.get_or_insert((first, rank));
        ledger.open.clear();
        self.received.clear();
    }

    fn consider(&mut self, ledger: &mut Ledger, number: u64, out: &mut Outbox) {
        let Some(mine) = ledger.open.get(&number) else { return };
        let received = self.received.get(&number);
        let mut all = mine.clone();
        for child in self.tree.children(ledger.me, &self.none) {
            let Some(vote) = received.and_then(|received| received.get(&child)) else { return };
            all.combine(vote);
        }
        match self.tree.parent(ledger.me, &self.none) {
            Some(parent) => out.push((parent, AgreementMessage::Contribution(number, all))),
            None => self.decide(ledger, number, all.into_decision(0), out),
        }
    }

    fn decide(&mut self, ledger: &mut Ledger, number: u64, decision: Decision, out: &mut Outbox) {
        self.received.remove(&number);
        let children = self.tree.children(ledger.me, &self.none);
        out.extend(
            children
                .into_iter()
                .map(|child| (child, AgreementMessage::Decision(number, decision.clone()))),
        );
        ledger.settle(number, decision);
    }
}
