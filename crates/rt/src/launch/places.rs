//! On which nodes the ranks of a job are.

use std::collections::BTreeMap;

use oxmpi_sys::host;

use super::files::{Files, Named};
use super::{Launch, LaunchError};

/// Whether ranks sleep on descriptors: on sockets, which are asked for or needed because they are spread over nodes, or on
/// those to their daemons.
pub(crate) fn has_sockets(launch: &Launch, size: u32) -> bool {
    launch.transport.is_over_sockets() || launch.nodes(size).iter().any(|node| *node > 0)
}

/// On how many nodes the ranks of a launcher are.
pub(super) fn nodes_of(launch: &Launch, size: u32) -> u64 {
    launch.nodes(size).iter().max().map_or(0, |last| u64::from(*last) + 1)
}

impl Launch {
    /// On which node each of the `size` ranks is: the host that it is placed on, or one of those that this machine pretends to
    /// be, of which each has a block of ranks, as even as can be.
    pub(super) fn nodes(&self, size: u32) -> Vec<u32> {
        match &self.spread {
            Some(spread) => spread.nodes.clone(),
            None => blocks(size, self.params.mpi_virtual_nodes()),
        }
    }

    /// The ranks that this process starts itself.
    pub(crate) fn here(&self, size: u32) -> Vec<u32> {
        let is_here = |rank: &u32| match &self.spread {
            Some(spread) => spread.host(*rank).is_none_or(|host| host.opening.is_none()),
            None => true,
        };
        (0..size).filter(is_here).collect()
    }

    /// The files for the output of the ranks that the job starts with, if there are such. They go on if it is restored.
    pub(super) fn files(&self, size: u32, goes_on: bool) -> Result<Option<Files>, LaunchError> {
        let Some(of) = &self.output_files else { return Ok(None) };
        let (mut files, here) = (Files::new(of), host::name());
        for (rank, node) in (0..size).zip(self.nodes(size)) {
            let host = self.spread.as_ref().and_then(|spread| spread.host(rank));
            let host = host.map_or(&here, |host| &host.name);
            let process = Named { rank: &rank.to_string(), node: Some(node), host };
            files.add(rank, process, goes_on).map_err(|(path, error)| LaunchError::Files { path, error })?;
        }
        Ok(Some(files))
    }
}

/// The node of each rank, if each of the nodes has a block of them.
fn blocks(size: u32, nodes: u32) -> Vec<u32> {
    let (all, nodes) = (u64::from(size), u64::from(nodes.clamp(1, size.max(1))));
    (0..all).map(|rank| (((rank + 1) * nodes - 1) / all) as u32).collect()
}

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// If there are several.
    pub(crate) node: Option<u32>,
    pub(crate) local_rank: u32,
    pub(crate) local_size: u32,
}

impl Place {
    /// Of all ranks, which are on these nodes.
    pub(crate) fn all(nodes: &[u32]) -> Vec<Place> {
        let mut sizes = BTreeMap::new();
        let ranks = nodes.iter().map(|node| {
            let size = sizes.entry(*node).or_insert(0);
            *size += 1;
            *size - 1
        });
        let ranks: Vec<u32> = ranks.collect();
        let place = |(node, local_rank)| Place {
            node: (sizes.len() > 1).then_some(node),
            local_rank,
            local_size: sizes.get(&node).copied().unwrap_or(0),
        };
        nodes.iter().copied().zip(ranks).map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_spread_over_nodes_in_even_blocks() {
        for size in 1..20 {
            for nodes in 1..=size {
                let places = Place::all(&blocks(size, nodes));
                let node = |place: &Place| place.node.unwrap_or(0);
                for node_number in 0..nodes {
                    let here: Vec<_> = places.iter().filter(|place| node(place) == node_number).collect();
                    assert!(
                        [size / nodes, size.div_ceil(nodes)].contains(&(here.len() as u32)),
                        "{places:?}"
                    );
                    for (at, place) in here.iter().enumerate() {
                        assert_eq!((place.local_rank, place.local_size), (at as u32, here.len() as u32));
                    }
                }
                assert!(places.is_sorted_by_key(node), "{places:?}");
            }
        }
        assert_eq!(Place::all(&blocks(3, 1))[0].node, None);
        assert_eq!(blocks(2, 9), [0, 1]);
    }

    #[test]
    fn ranks_of_a_node_need_not_be_in_a_row() {
        let places = Place::all(&[0, 1, 0, 1, 0]);
        let shown: Vec<_> = places.iter().map(|p| (p.node, p.local_rank, p.local_size)).collect();
        assert_eq!(
            shown,
            [(Some(0), 0, 3), (Some(1), 0, 2), (Some(0), 1, 3), (Some(1), 1, 2), (Some(0), 2, 3)]
        );
    }
}
