//! Trees over ranks `0..size` with root 0.

use crate::shape::binomial;

/// The shape of a tree. The children of a rank are numbered from the lowest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    /// All ranks are children of the root.
    Flat,
    /// Each rank has the next rank as its child.
    Chain,
    /// This number of chains from the root, each of consecutive ranks. Their lengths differ by at
    /// most one.
    Chains(u32),
    /// `v` has the children `2v + 1` and `2v + 2`.
    Binary,
    /// `v` has the children `v + 2^k` below its lowest bit. Every subtree has consecutive ranks.
    Binomial,
    /// `v` has the children `v + j k^i`, `0 < j < k`, below its lowest digit to the base `k >= 2`.
    /// Every subtree has consecutive ranks.
    Knomial(u32),
}

impl Tree {
    pub(crate) fn parent(self, v: u32, size: u32) -> u32 {
        match self {
            Self::Flat => 0,
            Self::Chain => v - 1,
            Self::Chains(chains) => {
                let (_, at) = Chains::new(size, chains).find(v);
                if at == 0 { 0 } else { v - 1 }
            }
            Self::Binary => (v - 1) / 2,
            Self::Binomial => binomial::parent(v),
            Self::Knomial(radix) => {
                let place = lowest_place(v, radix, size);
                let v = u64::from(v);
                (v - v % (place * u64::from(radix))) as u32
            }
        }
    }

    pub(crate) fn children(self, v: u32, size: u32) -> u32 {
        match self {
            Self::Flat if v == 0 => size - 1,
            Self::Flat => 0,
            Self::Chain => u32::from(v + 1 < size),
            Self::Chains(chains) if v == 0 => chains.min(size - 1),
            Self::Chains(chains) => {
                let chains = Chains::new(size, chains);
                let (chain, at) = chains.find(v);
                u32::from(at + 1 < chains.length(chain))
            }
            Self::Binary => (size - 1).saturating_sub(v.saturating_mul(2)).min(2),
            Self::Binomial => binomial::children(v, size),
            Self::Knomial(radix) => {
                let rest = u64::from(size - v);
                let (mut place, mut children) = (1_u64, 0);
                let end = lowest_place(v, radix, size);
                while place < end && place < rest {
                    children += (u64::from(radix) - 1).min((rest - 1) / place) as u32;
                    place *= u64::from(radix);
                }
                children
            }
        }
    }

    pub(crate) fn child(self, v: u32, number: u32, size: u32) -> u32 {
        match self {
            Self::Flat | Self::Chain => v + 1 + number,
            Self::Chains(chains) if v == 0 => Chains::new(size, chains).start(number),
            Self::Chains(_) => v + 1,
            Self::Binary => 2 * v + 1 + number,
            Self::Binomial => v + (1 << number),
            Self::Knomial(radix) => {
                let place = u64::from(radix).pow(number / (radix - 1));
                v + (u64::from(number % (radix - 1) + 1) * place) as u32
            }
        }
    }

    /// Whether every subtree has consecutive ranks, with the children in ascending order.
    pub(crate) const fn keeps_order(self) -> bool {
        !matches!(self, Self::Binary)
    }

    /// Whether the last child has the largest subtree and is served first.
    pub(crate) const fn last_first(self) -> bool {
        matches!(self, Self::Binomial | Self::Knomial(_))
    }
}

/// The place value of the lowest digit of `v` that is not 0; for rank 0, of the first place above
/// all digits of `size`.
fn lowest_place(v: u32, radix: u32, size: u32) -> u64 {
    let (v, radix) = (u64::from(v), u64::from(radix));
    let mut place = 1_u64;
    while if v == 0 { place < u64::from(size) } else { v.is_multiple_of(place * radix) } {
        place *= radix;
    }
    place
}

#[derive(Clone, Copy, Debug)]
struct Chains {
    /// The length of a shorter chain.
    short: u32,
    /// The number of chains with one rank more, which are the first ones.
    longer: u32,
}

impl Chains {
    fn new(size: u32, chains: u32) -> Self {
        Self { short: (size - 1) / chains, longer: (size - 1) % chains }
    }

    fn length(self, chain: u32) -> u32 {
        self.short + u32::from(chain < self.longer)
    }

    fn start(self, chain: u32) -> u32 {
        1 + chain * self.short + chain.min(self.longer)
    }

    /// The chain of a rank, and its position in the chain.
    fn find(self, v: u32) -> (u32, u32) {
        let at = v - 1;
        let in_longer = self.longer * (self.short + 1);
        if at < in_longer {
            (at / (self.short + 1), at % (self.short + 1))
        } else {
            (self.longer + (at - in_longer) / self.short, (at - in_longer) % self.short)
        }
    }
}

/// The parent and children of a rank in a balanced binary tree in rank order: a left subtree has
/// lower ranks than its ancestor, a right one higher ranks. The top is always the root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InOrder {
    pub(crate) parent: Option<u32>,
    /// The child that leads the ranks below.
    pub(crate) left: Option<u32>,
    /// The child that leads the ranks above.
    pub(crate) right: Option<u32>,
}

impl InOrder {
    pub(crate) fn new(rank: u32, root: u32, size: u32) -> Self {
        let middle = |low: u32, high: u32| (low < high).then(|| low + (high - low) / 2);
        let (mut low, mut high, mut at, mut parent) = (0, size, root, None);
        while at != rank {
            parent = Some(at);
            if rank < at {
                high = at;
            } else {
                low = at + 1;
            }
            at = low + (high - low) / 2;
        }
        Self { parent, left: middle(low, at), right: middle(at + 1, high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_the_root_is_a_child_of_its_parent_once() {
        let shapes = [Tree::Flat, Tree::Chain, Tree::Binary, Tree::Binomial];
        let chains = [1, 2, 3, 4, 7, 100].map(Tree::Chains);
        let knomial = [2, 3, 4, 5, 8, 100].map(Tree::Knomial);
        for tree in shapes.into_iter().chain(chains).chain(knomial) {
            for size in 1..=130 {
                let mut seen = vec![false; size as usize];
                for v in 0..size {
                    for number in 0..tree.children(v, size) {
                        let child = tree.child(v, number, size);
                        assert_eq!(tree.parent(child, size), v, "{tree:?} of {size}, {child}");
                        assert!(
                            !std::mem::replace(&mut seen[child as usize], true),
                            "{tree:?} of {size}"
                        );
                    }
                }
                assert_eq!(
                    seen.iter().filter(|seen| **seen).count() as u32,
                    size - 1,
                    "{tree:?} of {size}"
                );
            }
        }
    }

    #[test]
    fn a_binary_tree_in_order_has_parents_and_children_that_agree() {
        for size in 1..=40 {
            for root in 0..size {
                for rank in 0..size {
                    let here = InOrder::new(rank, root, size);
                    assert_eq!(here.parent.is_none(), rank == root);
                    for child in [here.left, here.right].into_iter().flatten() {
                        assert_eq!(InOrder::new(child, root, size).parent, Some(rank));
                    }
                    assert!(here.left.is_none_or(|left| left < rank));
                    assert!(here.right.is_none_or(|right| right > rank));
                }
            }
        }
    }
}
