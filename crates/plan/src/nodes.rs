//! The distribution of the ranks of a team over nodes.

use std::collections::HashMap;
use std::sync::Arc;

/// Ranges of consecutive ranks: first rank and number of ranks.
type Runs = Arc<[(u32, u32)]>;

/// The node of each rank of a team, the same on all ranks. Nodes are numbered by their lowest
/// ranks.
///
/// ```
/// use oxmpi_plan::Nodes;
///
/// let nodes = Nodes::new(["a", "b", "a", "c"]);
/// assert_eq!((nodes.how_many(), nodes.largest()), (3, 2));
/// assert_eq!(nodes.members(0)[..], [0, 2]);
/// assert!(nodes.is_hierarchy() && !nodes.are_in_order());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    of: Arc<[u32]>,
    members: Arc<[Arc<[u32]>]>,
    runs: Arc<[Runs]>,
    leaders: Arc<[u32]>,
}

impl Nodes {
    /// `places` has a value for each rank, equal for the ranks of a node.
    pub fn new<K: Eq + std::hash::Hash>(places: impl IntoIterator<Item = K>) -> Nodes {
        let mut known: HashMap<K, u32> = HashMap::new();
        let mut members: Vec<Vec<u32>> = Vec::new();
        let mut of = Vec::new();
        for (rank, place) in (0_u32..).zip(places) {
            let node = *known.entry(place).or_insert(members.len() as u32);
            if node as usize == members.len() {
                members.push(Vec::new());
            }
            members[node as usize].push(rank);
            of.push(node);
        }
        Nodes {
            of: of.into(),
            runs: members.iter().map(|ranks| runs(ranks)).collect(),
            leaders: members.iter().map(|ranks| ranks[0]).collect(),
            members: members.into_iter().map(Arc::from).collect(),
        }
    }

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.of.len() as u32
    }

    /// The number of nodes.
    #[must_use]
    pub fn how_many(&self) -> u32 {
        self.members.len() as u32
    }

    /// The largest number of ranks on one node.
    #[must_use]
    pub fn largest(&self) -> u32 {
        self.members.iter().map(|ranks| ranks.len() as u32).max().unwrap_or(0)
    }

    /// The node of a rank.
    #[must_use]
    pub fn of(&self, rank: u32) -> u32 {
        self.of[rank as usize]
    }

    /// The ranks of a node, ascending.
    #[must_use]
    pub fn members(&self, node: u32) -> &Arc<[u32]> {
        &self.members[node as usize]
    }

    /// The lowest rank of each node.
    #[must_use]
    pub fn leaders(&self) -> &Arc<[u32]> {
        &self.leaders
    }

    /// The runs of consecutive ranks of a node: first rank and number of ranks of each.
    pub(crate) fn runs(&self, node: u32) -> &[(u32, u32)] {
        &self.runs[node as usize]
    }

    /// Whether there are at least two nodes, and at least two ranks on one of them.
    #[must_use]
    pub fn is_hierarchy(&self) -> bool {
        self.how_many() > 1 && self.how_many() < self.ranks()
    }

    /// Whether each node has consecutive ranks.
    #[must_use]
    pub fn are_in_order(&self) -> bool {
        self.runs.iter().all(|runs| runs.len() == 1)
    }
}

fn runs(ranks: &[u32]) -> Runs {
    ranks.chunk_by(|one, next| one + 1 == *next).map(|run| (run[0], run.len() as u32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_lowest_ranks() {
        let nodes = Nodes::new([7, 7, 3, 7, 3, 3]);
        assert_eq!((0..6).map(|rank| nodes.of(rank)).collect::<Vec<_>>(), [0, 0, 1, 0, 1, 1]);
        assert_eq!(nodes.leaders()[..], [0, 2]);
        assert_eq!((nodes.runs(0), nodes.runs(1)), (&[(0, 2), (3, 1)][..], &[(2, 1), (4, 2)][..]));
        assert!(!nodes.are_in_order());
        assert!(Nodes::new([1, 1, 0]).are_in_order());
    }

    #[test]
    fn two_levels_need_two_nodes_and_two_ranks_on_one() {
        assert!(!Nodes::new([0, 0, 0]).is_hierarchy());
        assert!(!Nodes::new([0, 1, 2]).is_hierarchy());
        assert!(Nodes::new([0, 1, 1]).is_hierarchy());
    }
}
