//! The ranks that are known to have entered a barrier.

use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EnteredRanks(Vec<u64>);

impl EnteredRanks {
    fn one(rank: u32, size: u32) -> Self {
        let mut words = vec![0; size.div_ceil(64) as usize];
        words[rank as usize / 64] |= 1 << (rank % 64);
        Self(words)
    }

    fn add(&mut self, others: &Self) {
        self.0.iter_mut().zip(&others.0).for_each(|(word, other)| *word |= other);
    }

    fn missing(&self, size: u32) -> Option<u32> {
        (0..size).find(|rank| self.0[*rank as usize / 64] >> (rank % 64) & 1 == 0)
    }
}

/// A rank's knowledge. A message carries the certain knowledge of its sender at the time of issue.
#[derive(Clone, Debug)]
pub(super) struct BarrierKnowledge {
    /// This rank, and the knowledge of received messages on which later steps depend.
    certain: EnteredRanks,
    /// The knowledge of all other messages, by the number of the receive.
    reported: HashMap<u64, EnteredRanks>,
}

impl BarrierKnowledge {
    pub(super) fn new(rank: u32, size: u32) -> Self {
        Self { certain: EnteredRanks::one(rank, size), reported: HashMap::new() }
    }

    pub(super) fn knowledge(&self) -> EnteredRanks {
        self.certain.clone()
    }

    pub(super) fn deliver(&mut self, receive: u64, reported: EnteredRanks) {
        self.reported.insert(receive, reported);
    }

    /// Makes certain the knowledge of all messages, except for receives that `open` accepts.
    pub(super) fn settle(&mut self, open: impl Fn(u64) -> bool) {
        let certain = &mut self.certain;
        self.reported.retain(|receive, reported| {
            if !open(*receive) {
                certain.add(reported);
            }
            open(*receive)
        });
    }

    pub(super) fn missing(mut self, size: u32) -> Option<u32> {
        self.settle(|_| false);
        self.certain.missing(size)
    }
}
