//! The ranks that are known to have entered a barrier.

use std::collections::HashMap;

/// A set of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankSet(Vec<u64>);

impl RankSet {
    /// One rank of `size`.
    fn one(rank: u32, size: u32) -> Self {
        let mut words = vec![0; size.div_ceil(64) as usize];
        words[rank as usize / 64] |= 1 << (rank % 64);
        Self(words)
    }

    fn add(&mut self, others: &Self) {
        self.0.iter_mut().zip(&others.0).for_each(|(word, other)| *word |= other);
    }

    /// The first of `size` ranks that is not in the set.
    fn missing(&self, size: u32) -> Option<u32> {
        (0..size).find(|rank| self.0[*rank as usize / 64] >> (rank % 64) & 1 == 0)
    }
}

/// The knowledge of one rank. A message carries the sender's certain knowledge at its issue.
#[derive(Clone, Debug)]
pub(super) struct BarrierKnowledge {
    /// This rank, and the knowledge of messages whose receives later steps depended on.
    certain: RankSet,
    /// The knowledge of all other messages, by the number of the receive.
    reported: HashMap<u64, RankSet>,
}

impl BarrierKnowledge {
    pub(super) fn new(rank: u32, size: u32) -> Self {
        Self { certain: RankSet::one(rank, size), reported: HashMap::new() }
    }

    /// The knowledge that a message carries now.
    pub(super) fn knowledge(&self) -> RankSet {
        self.certain.clone()
    }

    /// Records the knowledge of a received message.
    pub(super) fn deliver(&mut self, receive: u64, reported: RankSet) {
        self.reported.insert(receive, reported);
    }

    /// Makes the knowledge of all messages certain, except for the receives that `open` accepts.
    pub(super) fn settle(&mut self, open: impl Fn(u64) -> bool) {
        let certain = &mut self.certain;
        self.reported.retain(|receive, reported| {
            if !open(*receive) {
                certain.add(reported);
            }
            open(*receive)
        });
    }

    /// The first rank that is not known to have entered, when all steps are complete.
    pub(super) fn missing(mut self, size: u32) -> Option<u32> {
        self.settle(|_| false);
        self.certain.missing(size)
    }
}
