//! Virtual topologies (MPI-5.0 chapter 8): grids and graphs over ranks. `core` creates their
//! communicators, which needs communication.

mod cartesian;
mod dims;
mod graph;

pub use cartesian::Cartesian;
pub use dims::dims_create;
pub use graph::{DistGraph, Graph, Neighbors, check_index};

/// The topology of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    Cartesian(Cartesian),
    /// A graph that every process knows (`MPI_Graph_create`).
    Graph(Graph),
    /// A graph of which each process knows its own edges (`MPI_Dist_graph_create`).
    DistGraph(DistGraph),
}

/// A neighbour and its block in the buffers of a neighbourhood collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborBlock {
    /// The neighbour's rank; `None` for `MPI_PROC_NULL`.
    pub peer: Option<u32>,
    pub block: usize,
}

impl Topology {
    /// The numbers of blocks of this rank in a neighbourhood collective, received and sent.
    pub fn degrees(&self, rank: u32) -> (usize, usize) {
        match self {
            Topology::Cartesian(grid) => (2 * grid.dims().len(), 2 * grid.dims().len()),
            Topology::Graph(graph) => {
                let degree = graph.neighbors(rank).map_or(0, <[u32]>::len);
                (degree, degree)
            }
            Topology::DistGraph(graph) => (graph.incoming.ranks.len(), graph.outgoing.ranks.len()),
        }
    }

    /// The sources of a rank in a neighbourhood collective, in the order in which messages of one
    /// neighbour arrive (MPI-5.0 section 8.6).
    ///
    /// In a graph, several edges from one neighbour carry its messages in order. In a grid, a
    /// message sent in the negative direction arrives from the positive neighbour. In a periodic
    /// dimension of one or two processes, both neighbours are one process. The positive source then
    /// comes first, since the negative direction is sent first.
    pub fn sources(&self, rank: u32) -> Vec<NeighborBlock> {
        match self {
            Topology::Cartesian(grid) => {
                let mut slots = grid.neighbors(rank);
                slots.as_chunks_mut::<2>().0.iter_mut().for_each(|[negative, positive]| {
                    std::mem::swap(negative, positive);
                });
                slots
            }
            Topology::Graph(graph) => slots(graph.neighbors(rank).unwrap_or_default()),
            Topology::DistGraph(graph) => slots(&graph.incoming.ranks),
        }
    }

    /// The destinations of a rank in a neighbourhood collective, in order.
    pub fn destinations(&self, rank: u32) -> Vec<NeighborBlock> {
        match self {
            Topology::Cartesian(grid) => grid.neighbors(rank),
            Topology::Graph(graph) => slots(graph.neighbors(rank).unwrap_or_default()),
            Topology::DistGraph(graph) => slots(&graph.outgoing.ranks),
        }
    }
}

fn slots(ranks: &[u32]) -> Vec<NeighborBlock> {
    ranks
        .iter()
        .enumerate()
        .map(|(block, rank)| NeighborBlock { peer: Some(*rank), block })
        .collect()
}

#[cfg(test)]
mod tests;
