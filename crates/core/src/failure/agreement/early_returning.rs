//! The early returning agreement, over a tree that is mended around lost ranks (T. Herault, A. Bouteiller, G. Bosilca and others,
//! "Practical Scalable Consensus for Pseudo-Synchronous Distributed Systems", SC15).
//!
//! Without a failure one message goes up each edge of the tree and one down. After one those alone send more that had the lost rank
//! for their parent.
//!
//! 1. A rank *votes* once it has a vote of each of its children: it combines them with its contribution and sends them to its
//!    parent. The root decides instead, from all of them.
//! 2. A decision goes down: who decides, or learns of one, sends it to its children and to all who have sent it a vote,
//!    then goes on itself. It returns early: without hearing whether they have it.
//! 3. A rank takes a decision from its parent alone. Who gets a vote for what it has decided answers with the decision.
//! 4. Of a child that is lost its vote is dropped: its children have another parent now. A rank that has another parent votes
//!    again. If it has the decision it says so instead: the decision is *known*. Who hears that says the same to its parent
//!    at once; a root takes it for its decision.
//! 5. Who leaves says all decisions that may be lacked to all. A rank takes such a one if the leaver is above it, and takes it for
//!    known once the leaver is its child.
//! 6. If trees are rebuilt, an agreement is one of the ranks that the decision before it does not name as failed. Until a rank has
//!    that decision it only collects what comes for the next one.
//!
//! Why no two living ranks decide differently: a root e decides by itself only with votes that count every living rank. Let a living
//! rank x have a decision D of another root, which is lost. D came down to x along a chain of ranks, each of which took it from its
//! parent. Votes that count x have gone up that chain, or past one of the chain that the sender knew to be lost. The sender then
//! outlived that one, whom a rank below has taken D from; but who takes D from a parent knows all ranks between them to be lost, and
//! its parent lived after them. So no such vote has gone past: those without D have ended in the chain, with ranks that are lost. The highest
//! living rank of the chain has or will have another parent than the one that it took D from, and says then that it knows D
//! (rule 4); without a word of it e does not have all votes. The proof rests on failures alone being reported, and not on messages
//! that were sent before a failure being heard. A decision that only ranks have that are lost since may differ: it counts for no one.

use super::ledger::Ledger;
use super::tree::MendedTree;
use super::{Contribution, Decision, Message, Outbox};
use crate::failure::ranks::RankSet;
use oxmpi_tuned::agreement::TreeShape;
use std::collections::{BTreeMap, BTreeSet};

/// What another rank has sent for an agreement.
#[derive(Clone, Debug)]
enum FromBelow {
    /// Its vote.
    Vote(Contribution),
    /// The decision that it knows.
    Known(Decision),
    /// The decision that it knew when it left (rule 5).
    Left(Decision),
}

/// Where this rank stands with its parent in an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Upward {
    parent: Option<u32>,
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
            Message::Contribution(number, contribution) => {
                if let Some(decision) = ledger.decision(number) {
                    return out.push((from, Message::Decision(number, decision.clone()))); // rule 3
                }
                (number, FromBelow::Vote(contribution))
            }
            Message::Known(number, decision) => (number, FromBelow::Known(decision)),
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
            let before = self.upward.insert(*number, Upward { parent, knows: true });
            if before.is_none_or(|before| before.parent != parent)
                && let Some(parent) = parent
            {
                out.push((parent, Message::Known(*number, decision.clone()))); // rule 4
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
            FromBelow::Left(decision) if tree.is_above(*rank, ledger.me, &ledger.lost) => {
                Some(decision.clone())
            }
            _ => None,
        });
        if let Some(decision) = above {
            self.decide(ledger, number, decision, out); // rule 5
            // The parent may not have heard the leaver, which may fail yet.
            self.upward.remove(&number);
            return;
        }
        let parent = tree.parent(ledger.me, &ledger.lost);
        let children = tree.children(ledger.me, &ledger.lost);
        let known = children.iter().find_map(|child| match heard.get(child) {
            Some(FromBelow::Known(decision) | FromBelow::Left(decision)) => Some(decision),
            _ => None,
        });
        if let Some(decision) = known.cloned() {
            let Some(parent) = parent else { return self.decide(ledger, number, decision, out) };
            let now = Upward { parent: Some(parent), knows: true };
            if self.upward.insert(number, now) != Some(now) {
                out.push((parent, Message::Known(number, decision)));
            }
            return;
        }
        let votes = children.iter().map(|child| match heard.get(child) {
            Some(FromBelow::Vote(vote)) => Some(vote),
            _ => None,
        });
        let Some(votes) = votes.collect::<Option<Vec<_>>>() else { return };
        let mut all = mine.clone();
        all.failed.unite(&ledger.lost);
        votes.into_iter().for_each(|vote| all.combine(vote));
        let Some(parent) = parent else { return self.decide(ledger, number, all.into_decision(), out) };
        let now = Upward { parent: Some(parent), knows: false };
        if self.upward.get(&number) != Some(&now) {
            self.upward.insert(number, now);
            out.push((parent, Message::Contribution(number, all)));
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
        self.upward.insert(number, Upward { parent, knows: true });
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
