//! The early returning agreement over a tree (T. Herault, A. Bouteiller, G. Bosilca and others,
//! "Practical Scalable Consensus for Pseudo-Synchronous Distributed Systems", SC15), with a
//! coordinator after the loss of the root.
//!
//! Without a failure one message goes up each edge of the tree and one down. The root of an
//! agreement is the lowest rank that takes part. A rank is *in the tree* until it learns that the
//! root is lost. From then on it is *coordinated*: its coordinator is the lowest rank that it does
//! not know to be lost.
//!
//! In the tree:
//!
//! 1. A rank *votes* after all its children have voted: it combines their votes with its own
//!    contribution and sends the result to its parent, its nearest ancestor that it does not know
//!    to be lost. The root decides instead. The vote of a lost child is dropped; the children of
//!    that child get another parent and vote again.
//! 2. A rank that decides or learns a decision sends it to its children and to all ranks whose vote
//!    it has, and returns without an acknowledgement. It answers a later vote with the decision.
//! 3. A rank accepts a decision from any rank.
//!
//! Coordinated:
//!
//! 4. A rank sends each new coordinator its decision, or its own contribution if it has no
//!    decision. From then on it accepts decisions of its coordinator alone.
//! 5. The coordinator decides when it has a message of each rank that it does not know to be lost.
//!    If such a message is a decision, the coordinator takes it. Of several decisions it takes the
//!    one that the highest rank made, which is the last decision: the others were made by ranks
//!    that left and have failed since. Without a decision it combines all contributions. It sends
//!    the decision to all before it continues.
//!
//! In either state:
//!
//! 6. A rank that leaves sends all ranks each decision that some rank may lack. A coordinator takes
//!    it as the message of rule 4; other ranks take it from their coordinator as the decision.
//! 7. With rebuilt trees an agreement consists of the ranks that the previous decision does not
//!    name as failed. Until a rank has that decision it only collects messages for the next
//!    agreement.
//!
//! Why no two living ranks decide differently: let a living rank x have the decision D of a rank e,
//! and a coordinator c decide after e. By rule 4 or 6, c has a message of x, which x sent when it
//! knew all ranks below c to be lost. If x had D then, the message contained D. Otherwise x has D
//! from c or from a later coordinator. That coordinator has D from c, or has a message of c or has
//! outlived c, and the same argument holds for it and x. So c knew D. While some rank is in the
//! tree, no coordinator can have decided, since none has a message of that rank. So the only
//! decision is that of the root, and rule 3 accepts no other. Only the decision of ranks that are
//! lost by now may differ, and it counts for no rank.

use super::ledger::Ledger;
use super::tree::MendedTree;
use super::{AgreementMessage, Contribution, Decision, Outbox};
use oxmpi_tuned::agreement::TreeShape;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
struct AgreementInbox {
    votes: BTreeMap<u32, Contribution>,
    coordinated: BTreeMap<u32, Coordinated>,
    left: BTreeMap<u32, Decision>,
}

#[derive(Clone, Debug)]
enum Coordinated {
    Own(Contribution),
    Known(Decision),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastReceiver {
    Parent(u32),
    Coordinator(u32),
}

#[derive(Debug)]
pub(super) struct EarlyReturning {
    shape: TreeShape,
    whole: MendedTree,
    rebuilt: Option<BTreeMap<u64, MendedTree>>,
    inboxes: BTreeMap<u64, AgreementInbox>,
    sent: BTreeMap<u64, LastReceiver>,
}

impl EarlyReturning {
    pub(super) fn new(shape: TreeShape, rebuild: bool, size: u32) -> EarlyReturning {
        EarlyReturning {
            shape,
            whole: MendedTree::new(shape, size),
            rebuilt: rebuild.then(BTreeMap::new),
            inboxes: BTreeMap::new(),
            sent: BTreeMap::new(),
        }
    }

    fn tree(&self, number: u64) -> Option<&MendedTree> {
        match &self.rebuilt {
            Some(trees) if number > 0 => trees.get(&number),
            _ => Some(&self.whole),
        }
    }

    fn coordinator(&self, ledger: &Ledger, number: u64) -> Option<u32> {
        let tree = self.tree(number)?;
        if ledger.lost.contains(tree.root()) { tree.lowest(&ledger.lost) } else { None }
    }

    pub(super) fn receive(
        &mut self,
        ledger: &mut Ledger,
        from: u32,
        message: AgreementMessage,
        out: &mut Outbox,
    ) {
        let number = message.number();
        let known = ledger.decision(number);
        match message {
            AgreementMessage::Contribution(..) | AgreementMessage::Own(..) if known.is_some() => {
                out.extend(
                    known.map(|decision| {
                        (from, AgreementMessage::Decision(number, decision.clone()))
                    }),
                );
                return;
            }
            _ if ledger.is_over(number) => return,
            AgreementMessage::Contribution(_, vote) => {
                self.inboxes.entry(number).or_default().votes.insert(from, vote);
            }
            AgreementMessage::Own(_, own) => {
                self.inboxes
                    .entry(number)
                    .or_default()
                    .coordinated
                    .insert(from, Coordinated::Own(own));
            }
            // Before this rank has begun an agreement, other ranks can only send contributions to
            // it.
            _ if number >= ledger.next => return,
            AgreementMessage::Known(_, decision) => {
                self.inboxes
                    .entry(number)
                    .or_default()
                    .coordinated
                    .insert(from, Coordinated::Known(decision));
            }
            AgreementMessage::Parting(_, decision) => {
                self.inboxes.entry(number).or_default().left.insert(from, decision);
            }
            AgreementMessage::Decision(_, decision) => {
                let coordinator = self.coordinator(ledger, number);
                if self.tree(number).is_some()
                    && coordinator.is_none_or(|coordinator| coordinator == from)
                {
                    self.decide(ledger, number, decision, out); // rules 3 and 4
                }
                return;
            }
            AgreementMessage::Round(..) => return,
        }
        self.consider(ledger, number, out);
    }

    pub(super) fn lose(&mut self, ledger: &mut Ledger, rank: u32, out: &mut Outbox) {
        ledger.lost.insert(rank);
        for inbox in self.inboxes.values_mut() {
            inbox.votes.remove(&rank);
            inbox.coordinated.remove(&rank);
            inbox.left.remove(&rank);
        }
        for number in ledger.open.keys().copied().collect::<Vec<_>>() {
            self.consider(ledger, number, out);
        }
        for (number, decision) in &ledger.decided {
            let Some(coordinator) = self.coordinator(ledger, *number) else { continue };
            let now = LastReceiver::Coordinator(coordinator);
            if self.sent.insert(*number, now) != Some(now) && coordinator != ledger.me {
                out.push((coordinator, AgreementMessage::Known(*number, decision.clone()))); // rule 4
            }
        }
    }

    pub(super) fn consider(&mut self, ledger: &mut Ledger, number: u64, out: &mut Outbox) {
        if !ledger.open.contains_key(&number) || self.tree(number).is_none() {
            return;
        }
        let decision = match self.coordinator(ledger, number) {
            None => self.vote(ledger, number, out),
            Some(coordinator) if coordinator == ledger.me => self.coordinate(ledger, number),
            Some(coordinator) => self.report(ledger, number, coordinator, out),
        };
        if let Some(decision) = decision {
            self.decide(ledger, number, decision, out);
        }
    }

    /// Rules 1, 3 and 6 in the tree: the decision, if there is one.
    fn vote(&mut self, ledger: &Ledger, number: u64, out: &mut Outbox) -> Option<Decision> {
        let (mine, tree) = (ledger.open.get(&number)?, self.tree(number)?);
        let none = AgreementInbox::default();
        let inbox = self.inboxes.get(&number).unwrap_or(&none);
        if let Some(decision) = inbox.left.values().next() {
            return Some(decision.clone());
        }
        let children = tree.children(ledger.me, &ledger.lost);
        let votes =
            children.iter().map(|child| inbox.votes.get(child)).collect::<Option<Vec<_>>>()?;
        let mut all = mine.clone();
        all.failed.unite(&ledger.lost);
        votes.into_iter().for_each(|vote| all.combine(vote));
        let Some(parent) = tree.parent(ledger.me, &ledger.lost) else {
            return Some(all.into_decision(ledger.me));
        };
        let now = LastReceiver::Parent(parent);
        if self.sent.insert(number, now) != Some(now) {
            out.push((parent, AgreementMessage::Contribution(number, all)));
        }
        None
    }

    /// Rule 5: the decision, if this rank has the messages of all.
    fn coordinate(&self, ledger: &Ledger, number: u64) -> Option<Decision> {
        let (mine, tree) = (ledger.open.get(&number)?, self.tree(number)?);
        let none = AgreementInbox::default();
        let inbox = self.inboxes.get(&number).unwrap_or(&none);
        let mut known: Option<&Decision> = None;
        let mut all = mine.clone();
        all.failed.unite(&ledger.lost);
        for rank in ledger.others().filter(|rank| tree.has(*rank)) {
            let decision = match (inbox.coordinated.get(&rank), inbox.left.get(&rank)) {
                (_, Some(decision)) | (Some(Coordinated::Known(decision)), None) => decision,
                (Some(Coordinated::Own(own)), None) => {
                    all.combine(own);
                    continue;
                }
                (None, None) => return None,
            };
            if known.is_none_or(|known| known.by < decision.by) {
                known = Some(decision);
            }
        }
        Some(known.cloned().unwrap_or_else(|| all.into_decision(ledger.me)))
    }

    /// Rules 4 and 6 under another coordinator: the decision, if the coordinator has left.
    fn report(
        &mut self,
        ledger: &Ledger,
        number: u64,
        coordinator: u32,
        out: &mut Outbox,
    ) -> Option<Decision> {
        let mine = ledger.open.get(&number)?;
        let now = LastReceiver::Coordinator(coordinator);
        if self.sent.insert(number, now) != Some(now) {
            let mut own = mine.clone();
            own.failed.unite(&ledger.lost);
            out.push((coordinator, AgreementMessage::Own(number, own)));
        }
        self.inboxes.get(&number)?.left.get(&coordinator).cloned()
    }

    fn decide(&mut self, ledger: &mut Ledger, number: u64, decision: Decision, out: &mut Outbox) {
        let Some(tree) = self.tree(number) else { return };
        let coordinator = self.coordinator(ledger, number);
        let mut receivers: BTreeSet<u32> = match coordinator {
            None => tree.children(ledger.me, &ledger.lost).into_iter().collect(),
            Some(coordinator) if coordinator == ledger.me => {
                ledger.others().filter(|rank| tree.has(*rank)).collect()
            }
            Some(_) => BTreeSet::new(),
        };
        let inbox = self.inboxes.remove(&number).unwrap_or_default();
        receivers.extend(inbox.votes.keys());
        receivers.extend(inbox.coordinated.keys());
        let has_it = |rank: &u32| {
            inbox.left.contains_key(rank)
                || matches!(inbox.coordinated.get(rank), Some(Coordinated::Known(_)))
        };
        let lacking = receivers.into_iter().filter(|rank| !has_it(rank));
        out.extend(
            lacking.map(|rank| (rank, AgreementMessage::Decision(number, decision.clone()))),
        );
        let failed = decision.failed.clone();
        ledger.settle(number, decision);
        let needed =
            ledger.decided.iter().map(|(number, _)| *number).chain(ledger.open.keys().copied());
        let oldest = needed.min().unwrap_or(number);
        self.sent.retain(|number, _| *number >= oldest);
        // Without these failures the next tree would contain lost ranks.
        for rank in ledger.newly_lost(&failed) {
            self.lose(ledger, rank, out);
        }
        if let Some(trees) = &mut self.rebuilt {
            trees.insert(number + 1, MendedTree::without(self.shape, ledger.size, &failed));
            trees.retain(|number, _| *number >= oldest);
            self.consider(ledger, number + 1, out);
        }
    }
}
