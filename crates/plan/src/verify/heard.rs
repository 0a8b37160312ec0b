//! Of which ranks a rank has heard that they have entered a barrier.

use std::collections::HashMap;

/// A set of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranks(Vec<u64>);

impl Ranks {
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

/// What one rank has heard. A message tells what its sender had heard for certain when it was issued.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    /// Of which it has heard by messages that it has waited for, and itself.
    certain: Ranks,
    /// What messages tell that it has not waited for, by the number of the receive.
    told: HashMap<u64, Ranks>,
}

impl Heard {
    pub(super) fn new(rank: u32, size: u32) -> Self {
        Self { certain: Ranks::one(rank, size), told: HashMap::new() }
    }

    /// What a message tells that is sent now.
    pub(super) fn tell(&self) -> Ranks {
        self.certain.clone()
    }

    /// A message has met a receive.
    pub(super) fn listen(&mut self, receive: u64, told: Ranks) {
        self.told.insert(receive, told);
    }

    /// Only the receives that `open` names have not been waited for.
    pub(super) fn settle(&mut self, open: impl Fn(u64) -> bool) {
        let certain = &mut self.certain;
        self.told.retain(|receive, told| {
            if !open(*receive) {
                certain.add(told);
            }
            open(*receive)
        });
    }

    /// The first rank of which this one has not heard when all is over.
    pub(super) fn missing(mut self, size: u32) -> Option<u32> {
        self.settle(|_| false);
        self.certain.missing(size)
    }
}
