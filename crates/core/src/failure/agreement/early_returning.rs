//! The early returning agreement, over a tree that is mended around lost ranks (T. Herault, A. Bouteiller, G. Bosilca and others,
//! "Practical Scalable Consensus for Pseudo-Synchronous Distributed Systems", SC15).
//!
//! Without a failure each rank but the root sends one message up and one down each edge of the tree passes. The *epoch* of a rank is
//! the lowest rank that it does not know to be lost: its root (module [`tree`](super::tree)).
//!
//! 1. A rank *votes* once it has a vote of each of its children for its own epoch: it combines them with its contribution and sends
//!    them to its parent. The root decides instead, from all of them. A vote promises that its rank, and all that it counts,
//!    take no decision of a lower root any more, but as rules 3 and 5 say.
//! 2. A decision goes down: who decides, or learns of one, sends it to its children and to all who have sent it a vote,
//!    then goes on itself. It returns early: without hearing whether they have it.
//! 3. A rank takes a decision from its parent alone. Who gets a vote for what it has decided answers with the decision.
//! 4. Of a child that is lost its vote is dropped: its children have another parent now. Whenever a rank has another parent or another
//!    epoch than when it last voted it votes again. If it knows the decision, and has another parent, it says so instead: the
//!    decision is *known*. Who gets that says the same to its parent at once; a root takes it for its decision. Votes
//!    and known decisions of another epoch than the rank's own wait, or are old.
//! 5. Who leaves says all decisions that may be lacked to all. A rank takes such a one if the leaver is above it, and else
//!    takes it for known if the leaver is its child, in this epoch or any later one.
//! 6. If trees are rebuilt, an agreement is one of the ranks that the decision before it does not name as failed. Until a rank has
//!    that decision it only collects what comes for the next one.
//!
//! Why no two living ranks decide differently: a root e decides by itself only with a vote for epoch e of every living rank. Let a
//! living rank x hold a decision D that a lower root made. If x had D before it promised e it says so in place of a vote
//! (rule 4). If it promised e first then D came down to it through its living ancestors, of whom one, c, had D from that root before
//! it knew this to be lost, so before it promised e. All votes of x for e go through c: ancestors that live are the same to all,
//! and who voted past c knew c to be lost, so c could not answer x any more. So e hears of D from c; or c is lost, then those
//! below it have another parent and say that they know D. The proof rests on failures alone being reported, not on messages
//! that were sent before a failure being heard. A decision that only ranks know that are lost since may differ: it counts for no one.

use super::ledger::Ledger;
use super::tree::MendedTree;
use super::{Contribution, Decision, Message, Outbox};
use crate::failure::ranks::RankSet;
use oxmpi_tuned::agreement::TreeShape;
use std::collections::{BTreeMap, BTreeSet};

/// What another rank has sent for an agreement.
#[derive(Clone, Debug)]
enum FromBelow {
    /// Its vote, for this epoch.
    Vote(u32, Contribution),
    /// The decision that it knows, for this epoch.
    Known(u32, Decision),
    /// The decision that it knew when it left (rule 5).
    Left(Decision),
}

/// Where this rank stands with its parent in an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Upward {
    parent: Option<u32>,
    epoch: u32,
    /// It has said that it knows the decision, or its parent has it.
    knows: bool,
}

/// The state of early returning agreements, beside the ledger.
#[derive(Debug)]
pub(super) struct EarlyReturning {
    shape: TreeShape,
    /// The tree of all ranks.
    whole: MendedTree,
    /// The trees of agreements whose decision is not settled, if they are rebuilt (rule 6).
    rebuilt: Option<BTreeMap<u64, MendedTree>>,
    heard: BTreeMap<u64, BTreeMap<u32, FromBelow>>,
    upward: BTreeMap<u64, Upward>,
}

impl EarlyReturning {
    pub(super) fn new(shape: TreeShape, rebuild: bool, size: u32) -> EarlyReturning {
        EarlyReturning {
            shape,
            whole: MendedTree::new(shape, size),
            rebuilt: rebuild.then(BTreeMap::new),
            heard: BTreeMap::new(),
            upward: BTreeMap::new(),
        }
    }

    /// The tree of an agreement, if it is known.
    fn tree(&self, number: u64) -> Option<&MendedTree> {
        match &self.rebuilt {
            Some(trees) if number > 0 => trees.get(&number),
            _ => Some(&self.whole),
        }
    }

    pub(super) fn hear(&mut self, ledger: &mut Ledger, from: u32, message: Message, out: &mut Outbox) {
        let (number, below) = match message {
            Message::Contribution(number, epoch, contribution) => {
                if let Some(decision) = ledger.decision(number) {
                    return out.push((from, Message::Decision(number, decision.clone()))); // rule 3
                }
                (number, FromBelow::Vote(epoch, contribution))
            }
            Message::Known(number, epoch, decision) => (number, FromBelow::Known(epoch, decision)),
            Message::Parting(number, decision) => (number, FromBelow::Left(decision)),
            Message::Decision(number, decision) => {
                let parent = self.tree(number).and_then(|tree| tree.parent(ledger.me, &ledger.lost));
                if ledger.open.contains_key(&number) && parent == Some(from) {
                    self.decide(ledger, number, decision, out);
                }
                return;
            }
            Message::Round(..) => return,
        };
        // A decision needs a contribution of this rank: before that there can only be votes.
        let is_vote = matches!(below, FromBelow::Vote(..));
        if ledger.is_over(number) || number >= ledger.next && !is_vote {
            return;
        }
        let heard = self.heard.entry(number).or_default();
        // Who has left says nothing more.
        if !matches!(heard.get(&from), Some(FromBelow::Left(_))) {
            heard.insert(from, below);
        }
        self.consider(ledger, number, out);
    }

    pub(super) fn lose(&mut self, ledger: &mut Ledger, rank: u32, out: &mut Outbox) {
        ledger.lost.insert(rank);
        self.heard.values_mut().for_each(|heard| drop(heard.remove(&rank)));
        for number in ledger.open.keys().copied().collect::<Vec<_>>() {
            self.consider(ledger, number, out);
        }
        for (number, decision) in &ledger.decided {
            let parent = self.tree(*number).and_then(|tree| tree.parent(ledger.me, &ledger.lost));
            let now = Upward { parent, epoch: ledger.root(), knows: true };
            let before = self.upward.insert(*number, now);
            if before.is_none_or(|before| before.parent != parent)
                && let Some(parent) = parent
            {
                out.push((parent, Message::Known(*number, now.epoch, decision.clone()))); // rule 4
            }
        }
    }

    /// Does what can be done for an agreement.
    pub(super) fn consider(&mut self, ledger: &mut Ledger, number: u64, out: &mut Outbox) {
        let Some(mine) = ledger.open.get(&number) else { return };
        let Some(tree) = self.tree(number) else { return };
        let none = BTreeMap::new();
        let heard = self.heard.get(&number).unwrap_or(&none);
        let above = heard.iter().find_map(|(rank, below)| match below {
            FromBelow::Left(decision) if tree.is_above(*rank, ledger.me, &ledger.lost) => Some(decision.clone()),
            _ => None,
        });
        if let Some(decision) = above {
            self.decide(ledger, number, decision, out); // rule 5
            // The parent may not have heard the leaver, which may fail yet.
            self.upward.remove(&number);
            return;
        }
        let (parent, epoch) = (tree.parent(ledger.me, &ledger.lost), ledger.root());
        let children = tree.children(ledger.me, &ledger.lost);
        let known = children.iter().find_map(|child| match heard.get(child) {
            Some(FromBelow::Known(of, decision)) if *of == epoch => Some(decision),
            Some(FromBelow::Left(decision)) => Some(decision),
            _ => None,
        });
        if let Some(decision) = known.cloned() {
            let Some(parent) = parent else { return self.decide(ledger, number, decision, out) };
            let now = Upward { parent: Some(parent), epoch, knows: true };
            if self.upward.insert(number, now) != Some(now) {
                out.push((parent, Message::Known(number, epoch, decision)));
            }
            return;
        }
        let votes = children.iter().map(|child| match heard.get(child) {
            Some(FromBelow::Vote(of, vote)) if *of == epoch => Some(vote),
            _ => None,
        });
        let Some(votes) = votes.collect::<Option<Vec<_>>>() else { return };
        let mut all = mine.clone();
        all.failed.unite(&ledger.lost);
        votes.into_iter().for_each(|vote| all.combine(vote));
        let Some(parent) = parent else { return self.decide(ledger, number, all.into_decision(), out) };
        let now = Upward { parent: Some(parent), epoch, knows: false };
        if self.upward.get(&number) != Some(&now) {
            self.upward.insert(number, now);
            out.push((parent, Message::Contribution(number, epoch, all)));
        }
    }

    fn decide(&mut self, ledger: &mut Ledger, number: u64, decision: Decision, out: &mut Outbox) {
        let heard = self.heard.remove(&number).unwrap_or_default();
        let Some(tree) = self.tree(number) else { return };
        let waiting = heard.iter().filter(|(_, below)| !matches!(below, FromBelow::Left(_)));
        let mut receivers: BTreeSet<u32> = waiting.map(|(rank, _)| *rank).collect();
        receivers.extend(tree.children(ledger.me, &ledger.lost));
        let parent = tree.parent(ledger.me, &ledger.lost);
        out.extend(receivers.into_iter().map(|rank| (rank, Message::Decision(number, decision.clone()))));
        self.upward.insert(number, Upward { parent, epoch: ledger.root(), knows: true });
        let failed = decision.failed.clone();
        ledger.settle(number, decision);
        let needed = ledger.decided.iter().map(|(number, _)| *number).chain(ledger.open.keys().copied());
        let oldest = needed.min().unwrap_or(number);
        self.upward.retain(|number, _| *number >= oldest);
        self.learn(ledger, &failed, out);
        if let Some(trees) = &mut self.rebuilt {
            trees.insert(number + 1, MendedTree::without(self.shape, ledger.size, &failed));
            trees.retain(|number, _| *number >= oldest);
            self.consider(ledger, number + 1, out);
        }
    }

    /// What a decision says of failures is true: without it the next tree would have ranks that are lost.
    fn learn(&mut self, ledger: &mut Ledger, failed: &RankSet, out: &mut Outbox) {
        for rank in ledger.newly_lost(failed) {
            self.lose(ledger, rank, out);
        }
    }
}
