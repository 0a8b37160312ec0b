//! Virtual topologies (MPI-5.0 chapter 8): grids and graphs over the ranks of a communicator.
//!
//! These are the values alone, with their arithmetic. Making a communicator of one needs communication and is done in
//! `core`.

mod cartesian;
mod dims;
mod graph;

pub use cartesian::Cartesian;
pub use dims::dims_create;
pub use graph::{DistGraph, Graph, Neighbors, check_index};

/// What a communicator has beside its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A grid (`MPI_Cart_create`).
    Cartesian(Cartesian),
    /// A graph that every process knows (`MPI_Graph_create`).
    Graph(Graph),
    /// A graph of which each process knows its own edges (`MPI_Dist_graph_create`).
    DistGraph(DistGraph),
}

/// A neighbour and its place in the buffers of a neighbourhood collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The neighbour's rank, or `None` for `MPI_PROC_NULL`.
    pub peer: Option<u32>,
    /// The number of its block in the buffer.
    pub block: usize,
}

impl Topology {
    /// How many blocks the buffers of a neighbourhood collective have at this rank: to receive, and to send.
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

    /// From whom a rank receives in a neighbourhood collective, in the order in which messages of one neighbour come
    /// (MPI-5.0 section 8.6).
    ///
    /// In a graph, several edges from one neighbour carry its messages in their order. In a grid, what a neighbour sends
    /// in the negative direction comes from the positive one: where both are one process, in a periodic dimension of
    /// one or two processes, the positive one comes first, since the negative direction is sent first.
    pub fn sources(&self, rank: u32) -> Vec<Slot> {
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

    /// To whom a rank sends in a neighbourhood collective, in order.
    pub fn destinations(&self, rank: u32) -> Vec<Slot> {
        match self {
            Topology::Cartesian(grid) => grid.neighbors(rank),
            Topology::Graph(graph) => slots(graph.neighbors(rank).unwrap_or_default()),
            Topology::DistGraph(graph) => slots(&graph.outgoing.ranks),
        }
    }
}

fn slots(ranks: &[u32]) -> Vec<Slot> {
    ranks.iter().enumerate().map(|(block, rank)| Slot { peer: Some(*rank), block }).collect()
}

#[cfg(test)]
mod tests;
