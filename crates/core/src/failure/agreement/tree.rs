//! The tree of an agreement, mended around lost ranks.
//!
//! The ranks of an agreement have *positions* 0 to n-1 in the order of their numbers. A
//! [`TreeShape`] defines the parent of each position, which is always lower. The parent of a rank
//! is its nearest living ancestor. The *root* is the lowest living rank; all its ancestors are
//! lower and therefore lost. A rank without a living ancestor in the shape has the root as parent.

use super::super::ranks::RankSet;
use oxmpi_tuned::agreement::TreeShape;

#[derive(Clone, Debug)]
pub(super) struct MendedTree {
    shape: TreeShape,
    size: u32,
    /// The ranks by position; `None` if the position is the rank.
    members: Option<Vec<u32>>,
}

fn parent_of(shape: TreeShape, position: u32) -> u32 {
    match shape {
        TreeShape::Binary => (position - 1) / 2,
        TreeShape::Star => 0,
        TreeShape::String => position - 1,
        TreeShape::Binomial => position & (position - 1),
    }
}

fn children_of(shape: TreeShape, position: u32, size: u32) -> Vec<u32> {
    let at = u64::from(position);
    let all: Vec<u64> = match shape {
        TreeShape::Binary => vec![2 * at + 1, 2 * at + 2],
        TreeShape::Star if position == 0 => (1..u64::from(size)).collect(),
        TreeShape::Star => Vec::new(),
        TreeShape::String => vec![at + 1],
        TreeShape::Binomial => (0..position.trailing_zeros()).map(|bit| at | 1 << bit).collect(),
    };
    all.into_iter()
        .filter_map(|child| u32::try_from(child).ok())
        .filter(|child| *child < size)
        .collect()
}

impl MendedTree {
    pub(super) fn new(shape: TreeShape, size: u32) -> MendedTree {
        MendedTree { shape, size, members: None }
    }

    /// The tree of the ranks outside this set.
    pub(super) fn without(shape: TreeShape, size: u32, failed: &RankSet) -> MendedTree {
        let members: Vec<u32> = (0..size).filter(|rank| !failed.contains(*rank)).collect();
        MendedTree { shape, size: members.len() as u32, members: Some(members) }
    }

    fn rank(&self, position: u32) -> u32 {
        match &self.members {
            None => position,
            Some(members) => members.get(position as usize).copied().unwrap_or(position),
        }
    }

    fn position(&self, rank: u32) -> Option<u32> {
        match &self.members {
            None => Some(rank).filter(|rank| *rank < self.size),
            Some(members) => members.binary_search(&rank).ok().map(|position| position as u32),
        }
    }

    pub(super) fn root(&self) -> u32 {
        self.rank(0)
    }

    pub(super) fn lowest(&self, lost: &RankSet) -> Option<u32> {
        (0..self.size).map(|position| self.rank(position)).find(|rank| !lost.contains(*rank))
    }

    pub(super) fn has(&self, rank: u32) -> bool {
        self.position(rank).is_some()
    }

    fn ancestors(&self, rank: u32, lost: &RankSet) -> Vec<u32> {
        let mut found = Vec::new();
        let mut position = self.position(rank).unwrap_or(0);
        while position > 0 {
            position = parent_of(self.shape, position);
            let above = self.rank(position);
            if !lost.contains(above) {
                found.push(above);
            }
        }
        let root = self.lowest(lost);
        found.extend(root.filter(|root| *root != rank && found.last() != Some(root)));
        found
    }

    pub(super) fn parent(&self, rank: u32, lost: &RankSet) -> Option<u32> {
        self.ancestors(rank, lost).first().copied()
    }

    pub(super) fn children(&self, rank: u32, lost: &RankSet) -> Vec<u32> {
        let Some(own) = self.position(rank) else { return Vec::new() };
        let mut found = Vec::new();
        let mut below = children_of(self.shape, own, self.size);
        if own > 0 && self.parent(rank, lost).is_none() {
            below.push(0);
        }
        while let Some(position) = below.pop() {
            let child = self.rank(position);
            if position == own {
                continue;
            }
            if lost.contains(child) {
                below.extend(children_of(self.shape, position, self.size));
            } else {
                found.push(child);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// For any set of lost ranks, one root is the ancestor of all living ranks, and the parents
        /// fit the children.
        #[test]
        fn a_mended_tree_spans_the_living(
            shape in proptest::sample::select(&TreeShape::ALL[..]), size in 1u32..70, bits in any::<[u64; 2]>(), spared in 0u32..70,
            rebuilt in any::<u64>(),
        ) {
            let spared = spared % size;
            let set = |bits: [u64; 2]| {
                let mut set = RankSet::empty(size);
                let chosen = (0..size).filter(|rank| bits[*rank as usize / 64] >> (rank % 64) & 1 == 1);
                chosen.filter(|rank| *rank != spared).for_each(|rank| set.insert(rank));
                set
            };
            let lost = set(bits);
            let before = set([bits[0] & rebuilt, bits[1] & rebuilt]);
            for tree in [MendedTree::new(shape, size), MendedTree::without(shape, size, &before)] {
                let living: Vec<u32> = (0..size).filter(|rank| !lost.contains(*rank)).collect();
                let mut reached = vec![living[0]];
                let mut at = 0;
                while let Some(rank) = reached.get(at).copied() {
                    for child in tree.children(rank, &lost) {
                        prop_assert_eq!(tree.parent(child, &lost), Some(rank));
                        prop_assert!(child > rank && tree.ancestors(child, &lost).contains(&living[0]));
                        reached.push(child);
                    }
                    at += 1;
                }
                prop_assert_eq!(tree.parent(living[0], &lost), None);
                reached.sort_unstable();
                prop_assert_eq!(reached, living);
            }
        }
    }
}
