//! The nodes of a job's ranks.

use std::collections::BTreeMap;

use oxmpi_sys::host;

use super::files::{Files, Named};
use super::{HostAgent, Launch, LaunchError};

/// Whether ranks sleep on descriptors: on sockets, which are selected or needed for several nodes,
/// or on those of their daemons.
pub(crate) fn has_sockets(launch: &Launch, size: u32) -> bool {
    launch.transport.is_over_sockets() || launch.nodes(size).iter().any(|node| *node > 0)
}

pub(super) fn nodes_of(launch: &Launch, size: u32) -> u64 {
    launch.nodes(size).iter().max().map_or(0, |last| u64::from(*last) + 1)
}

impl Launch {
    /// The node of each of `size` ranks: its host, or one of this machine's virtual nodes, which
    /// get even blocks of ranks.
    pub(super) fn nodes(&self, size: u32) -> Vec<u32> {
        match &self.spread {
            Some(spread) => spread.nodes.clone(),
            None => blocks(size, self.params.mpi_virtual_nodes()),
        }
    }

    /// The most agents that one process starts.
    pub(crate) fn fan_out(&self) -> usize {
        self.params.mpi_agent_fan_out() as usize
    }

    /// The number of agents with a stream to this process.
    pub(crate) fn children(&self) -> usize {
        let count = |is_one: fn(&HostAgent) -> bool| {
            let hosts = self.spread.iter().flat_map(|spread| &spread.hosts);
            hosts.filter(|host| is_one(&host.agent)).count()
        };
        let opened = count(|agent| matches!(agent, HostAgent::Opened(_)));
        opened.min(self.fan_out()) + count(|agent| matches!(agent, HostAgent::Called))
    }

    /// The ranks that this process starts itself.
    pub(crate) fn here(&self, size: u32) -> Vec<u32> {
        let is_here = |rank: &u32| match &self.spread {
            Some(spread) => spread.host(*rank).is_none_or(|host| host.agent.is_unneeded()),
            None => true,
        };
        (0..size).filter(is_here).collect()
    }

    /// The files for the output of the first job's ranks, if any. They are continued in a restored
    /// job.
    pub(super) fn files(&self, size: u32, goes_on: bool) -> Result<Option<Files>, LaunchError> {
        let Some(of) = &self.output_files else { return Ok(None) };
        let (mut files, here) = (Files::new(of), host::name());
        for (rank, node) in (0..size).zip(self.nodes(size)) {
            let host = self.spread.as_ref().and_then(|spread| spread.host(rank));
            let host = host.map_or(&here, |host| &host.name);
            let process = Named { rank: &rank.to_string(), node: Some(node), host };
            files
                .add(rank, process, goes_on)
                .map_err(|(path, error)| LaunchError::Files { path, error })?;
        }
        Ok(Some(files))
    }
}

/// The node of each rank, if each node has a block of them.
fn blocks(size: u32, nodes: u32) -> Vec<u32> {
    let (all, nodes) = (u64::from(size), u64::from(nodes.clamp(1, size.max(1))));
    (0..all).map(|rank| (((rank + 1) * nodes - 1) / all) as u32).collect()
}

/// The node of a rank, and its rank there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankPlace {
    /// `None` if there is one node.
    pub(crate) node: Option<u32>,
    pub(crate) local_rank: u32,
    pub(crate) local_size: u32,
}

impl RankPlace {
    /// The slots of all ranks, from their nodes.
    pub(crate) fn all(nodes: &[u32]) -> Vec<RankPlace> {
        let mut sizes = BTreeMap::new();
        let ranks = nodes.iter().map(|node| {
            let size = sizes.entry(*node).or_insert(0);
            *size += 1;
            *size - 1
        });
        let ranks: Vec<u32> = ranks.collect();
        let place = |(node, local_rank)| RankPlace {
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
                let places = RankPlace::all(&blocks(size, nodes));
                let node = |place: &RankPlace| place.node.unwrap_or(0);
                for node_number in 0..nodes {
                    let here: Vec<_> =
                        places.iter().filter(|place| node(place) == node_number).collect();
                    assert!(
                        [size / nodes, size.div_ceil(nodes)].contains(&(here.len() as u32)),
                        "{places:?}"
                    );
                    for (at, place) in here.iter().enumerate() {
                        assert_eq!(
                            (place.local_rank, place.local_size),
                            (at as u32, here.len() as u32)
                        );
                    }
                }
                assert!(places.is_sorted_by_key(node), "{places:?}");
            }
        }
        assert_eq!(RankPlace::all(&blocks(3, 1))[0].node, None);
        assert_eq!(blocks(2, 9), [0, 1]);
    }

    #[test]
    fn ranks_of_a_node_need_not_be_in_a_row() {
        let places = RankPlace::all(&[0, 1, 0, 1, 0]);
        let shown: Vec<_> = places.iter().map(|p| (p.node, p.local_rank, p.local_size)).collect();
        assert_eq!(
            shown,
            [(Some(0), 0, 3), (Some(1), 0, 2), (Some(0), 1, 3), (Some(1), 1, 2), (Some(0), 2, 3)]
        );
    }
}
