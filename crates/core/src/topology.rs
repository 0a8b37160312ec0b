//! Virtual topologies (MPI-5.0 chapter 8).
//!
//! Ranks are never reordered, which the standard leaves to the library. Through shared memory on
//! one host, another order gains little.

use crate::Process;
use crate::comm::{Communicator, taken};
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_fabric::Fabric;
use oxmpi_mem::kernels::{ReduceOp, Scalar, kernel};
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::topology::{Cartesian, DistGraph, Graph, Neighbors, Topology};
use oxmpi_plan::{Blocks, Call, Edge, Edges, Paired, Shared};
use oxmpi_tuned::Component;
use std::sync::Arc;

/// An edge of a distributed graph; any rank may pass it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedEdge {
    pub source: u32,
    pub destination: u32,
    /// Unused if the graph is not weighted.
    pub weight: i32,
}

impl Communicator {
    /// The topology (`MPI_Topo_test`).
    pub fn topology(&self) -> Option<&Topology> {
        self.topology.as_deref()
    }

    /// The Cartesian topology.
    pub fn cartesian(&self) -> Result<&Cartesian> {
        match self.topology() {
            Some(Topology::Cartesian(grid)) => Ok(grid),
            _ => Err(no_topology("Cartesian topology (MPI_Cart_create)")),
        }
    }

    /// The graph topology.
    pub fn graph(&self) -> Result<&Graph> {
        match self.topology() {
            Some(Topology::Graph(graph)) => Ok(graph),
            _ => Err(no_topology("graph topology (MPI_Graph_create)")),
        }
    }

    /// The distributed graph topology.
    pub fn dist_graph(&self) -> Result<&DistGraph> {
        match self.topology() {
            Some(Topology::DistGraph(graph)) => Ok(graph),
            _ => Err(no_topology("distributed graph topology (MPI_Dist_graph_create)")),
        }
    }

    /// The neighbours of this rank, for neighbourhood collectives.
    pub fn neighborhood(&self) -> Result<Neighborhood<'_>> {
        match self.topology() {
            Some(topology) => Ok(Neighborhood { topology, rank: self.team.rank }),
            None => Err(no_topology("topology, so its ranks have no neighbours")),
        }
    }

    /// Checks a rank of the communicator. `what` is the name of the argument. Errors: MPI_ERR_RANK.
    pub fn member(&self, rank: i32, what: &str) -> Result<u32> {
        self.process(rank, what)?;
        Ok(rank.cast_unsigned())
    }
}

#[cold]
fn no_topology(what: &str) -> MpiError {
    MpiError::new(abi::MPI_ERR_TOPOLOGY, format!("the communicator has no {what}"))
}

/// The neighbours of this rank.
#[derive(Clone, Copy, Debug)]
pub struct Neighborhood<'a> {
    topology: &'a Topology,
    rank: u32,
}

impl Neighborhood<'_> {
    /// The numbers of blocks in the receive buffer and in the send buffer.
    pub fn degrees(&self) -> (usize, usize) {
        self.topology.degrees(self.rank)
    }

    /// Whether each block of the receive buffer comes from a process; `false` for `MPI_PROC_NULL`.
    pub fn received(&self) -> Vec<bool> {
        used(self.degrees().0, self.topology.sources(self.rank))
    }

    /// Whether each block of the send buffer goes to a process; `false` for `MPI_PROC_NULL`.
    pub fn sent(&self) -> Vec<bool> {
        used(self.degrees().1, self.topology.destinations(self.rank))
    }

    /// The messages of this rank. `send` and `receive` return the offset and length of a block.
    pub fn edges(
        &self,
        send: impl Fn(usize) -> (usize, usize),
        receive: impl Fn(usize) -> (usize, usize),
    ) -> Edges {
        let edge = |peer: Option<u32>, (start, len): (usize, usize)| {
            peer.map(|peer| Edge { peer, start, len })
        };
        let sends = self.topology.destinations(self.rank).into_iter();
        let receives = self.topology.sources(self.rank).into_iter();
        Edges::new(
            sends.filter_map(|slot| edge(slot.peer, send(slot.block))),
            receives.filter_map(|slot| edge(slot.peer, receive(slot.block))),
        )
    }
}

fn used(degree: usize, slots: Vec<oxmpi_objects::topology::NeighborBlock>) -> Vec<bool> {
    let mut used = vec![false; degree];
    for slot in slots {
        used[slot.block] = slot.peer.is_some();
    }
    used
}

impl<F: Fabric> Process<F> {
    /// A communicator whose first ranks form a grid (MPI_Cart_create); `None` at ranks beyond it.
    /// Collective. Errors: MPI_ERR_DIMS if the grid has more ranks than the communicator;
    /// MPI_ERR_COMM for an intercommunicator.
    pub fn cart_create(
        &self,
        comm: &Communicator,
        grid: Cartesian,
    ) -> Result<Option<Communicator>> {
        comm.check_intra()?;
        check_cartesian_size(comm, &grid)?;
        let inside = comm.rank() < grid.size();
        self.part_with(comm, inside, comm.rank(), Topology::Cartesian(grid))
    }

    /// Communicators of the parts of a grid in which only some dimensions remain (MPI_Cart_sub).
    /// Collective. Errors: MPI_ERR_TOPOLOGY if the communicator has no grid.
    ///
    /// # Panics
    /// If `remain` does not have one value for each dimension.
    pub fn cart_sub(&self, comm: &Communicator, remain: &[bool]) -> Result<Communicator> {
        let grid = comm.cartesian()?;
        let (part, place) = grid.sub_place(remain, comm.team.rank);
        let topology = Topology::Cartesian(grid.sub(remain));
        let made = self.split(comm, part, place)?;
        made.map(|made| with_topology(made, topology)).ok_or_else(|| {
            MpiError::new(abi::MPI_ERR_INTERN, "this rank is in no part of its own grid")
        })
    }

    /// A communicator whose first ranks are the nodes of a graph (MPI_Graph_create); `None` at
    /// ranks beyond it. Collective. Errors: MPI_ERR_ARG if the graph has more nodes than the
    /// communicator ranks; MPI_ERR_COMM for an intercommunicator.
    pub fn graph_create(&self, comm: &Communicator, graph: Graph) -> Result<Option<Communicator>> {
        comm.check_intra()?;
        check_graph_size(comm, graph.index().len())?;
        let inside = (comm.team.rank as usize) < graph.index().len();
        self.part_with(comm, inside, comm.rank(), Topology::Graph(graph))
    }

    /// A communicator with a graph of which each rank passes its own edges
    /// (MPI_Dist_graph_create_adjacent). Collective: a rank with wrong arguments takes part with
    /// its error. If a component is named, only this one serves the collectives; all ranks must
    /// name the same. Errors: the error that was passed; MPI_ERR_OTHER if another rank passed one;
    /// MPI_ERR_COMM for an intercommunicator.
    pub fn dist_graph_create_adjacent(
        &self,
        comm: &Communicator,
        graph: Result<DistGraph>,
        component: Option<Component>,
    ) -> Result<Communicator> {
        comm.check_intra()?;
        let graph = self.agreed(comm, graph)?;
        Ok(with_topology(self.dup_served_by(comm, component)?, Topology::DistGraph(graph)))
    }

    /// A communicator with a graph of which each rank passes any edges (MPI_Dist_graph_create).
    /// Collective: a rank with wrong arguments takes part with its error.
    pub fn dist_graph_create(
        &self,
        comm: &Communicator,
        edges: Result<Vec<NamedEdge>>,
        weighted: bool,
        component: Option<Component>,
    ) -> Result<Communicator> {
        comm.check_intra()?;
        let edges = self.agreed(comm, edges)?;
        let mut graph =
            DistGraph { incoming: Neighbors::default(), outgoing: Neighbors::default(), weighted };
        for [source, destination, weight] in self.spread(comm, &edges)? {
            let mine = comm.rank();
            let ends = [
                (source == mine, &mut graph.outgoing, destination),
                (destination == mine, &mut graph.incoming, source),
            ];
            for (is_end, neighbors, other) in ends {
                if is_end {
                    neighbors.ranks.push(other.cast_unsigned());
                    if weighted {
                        neighbors.weights.push(weight);
                    }
                }
            }
        }
        Ok(with_topology(self.dup_served_by(comm, component)?, Topology::DistGraph(graph)))
    }

    fn part_with(
        &self,
        comm: &Communicator,
        inside: bool,
        key: i32,
        topology: Topology,
    ) -> Result<Option<Communicator>> {
        let color = if inside { 0 } else { abi::MPI_UNDEFINED };
        Ok(self.split(comm, color, key)?.map(|made| with_topology(made, topology)))
    }

    fn agreed<T>(&self, comm: &Communicator, mine: Result<T>) -> Result<T> {
        let input = Owned::new(vec![i32::from(mine.is_err())]);
        let output = Owned::new(vec![0_i32]);
        let element = Some(Arc::new(Layout::basic(size_of::<i32>(), align_of::<i32>())));
        let Some(max) = kernel(ReduceOp::Max, Scalar::I32) else {
            return Err(MpiError::new(abi::MPI_ERR_INTERN, "there is no maximum of integers"));
        };
        let call = Call::Allreduce { count: Shared(1), commutative: true, in_place: false };
        let buffers = Buffers { input: input.buf(), output: output.buf(), element };
        self.run_own(comm, call, buffers, Combine::Kernel(max))?;
        let wrong = taken(output)?.first() != Some(&0);
        let mine = mine?;
        if wrong {
            return Err(MpiError::new(abi::MPI_ERR_OTHER, "another rank passed wrong arguments"));
        }
        Ok(mine)
    }

    /// Sends each edge to the ranks at its ends. The received edges have the order of the senders'
    /// lists, so both ends have parallel edges in the same order.
    fn spread(&self, comm: &Communicator, edges: &[NamedEdge]) -> Result<Vec<[i32; 3]>> {
        const WORDS: usize = 3;
        let size = comm.team.size() as usize;
        let mut words: Vec<Vec<i32>> = vec![Vec::new(); size];
        for NamedEdge { source, destination, weight } in edges {
            let edge = [source.cast_signed(), destination.cast_signed(), *weight];
            words[*source as usize].extend(edge);
            if source != destination {
                words[*destination as usize].extend(edge);
            }
        }
        let lengths: Vec<u64> = words.iter().map(|words| words.len() as u64).collect();
        let theirs = self.exchange_lengths(comm, lengths)?;
        let bytes = |lengths: &mut dyn Iterator<Item = usize>| {
            Blocks::new(lengths.map(|words| words.saturating_mul(size_of::<i32>())))
                .ok_or_else(|| MpiError::new(abi::MPI_ERR_NO_MEM, "the graph has too many edges"))
        };
        let send = bytes(&mut words.iter().map(Vec::len))?;
        let receive = bytes(&mut theirs.iter().map(|words| *words as usize))?;
        let input = Owned::new(words.concat());
        let output = Owned::new(vec![0_i32; receive.total() / size_of::<i32>()]);
        let call =
            Call::Alltoallv { send: Paired(send), receive: Paired(receive), in_place: false };
        let buffers = Buffers { input: input.buf(), output: output.buf(), element: None };
        self.run_own(comm, call, buffers, Combine::Nothing)?;
        Ok(taken(output)?.as_chunks::<WORDS>().0.to_vec())
    }

    fn exchange_lengths(&self, comm: &Communicator, lengths: Vec<u64>) -> Result<Vec<u64>> {
        let output = Owned::new(vec![0_u64; lengths.len()]);
        let input = Owned::new(lengths);
        let call = Call::Alltoall { block: Shared(size_of::<u64>()), in_place: false };
        let buffers = Buffers { input: input.buf(), output: output.buf(), element: None };
        self.run_own(comm, call, buffers, Combine::Nothing)?;
        taken(output)
    }
}

fn with_topology(mut made: Communicator, topology: Topology) -> Communicator {
    made.topology = Some(Arc::new(topology));
    made
}

/// Errors: MPI_ERR_DIMS if a grid has more ranks than the communicator.
pub fn check_cartesian_size(comm: &Communicator, grid: &Cartesian) -> Result<()> {
    if grid.size() > comm.size() {
        let text = format!(
            "a grid of the dimensions {:?} has {} ranks, the communicator only {}",
            grid.dims(),
            grid.size(),
            comm.size()
        );
        return Err(MpiError::new(abi::MPI_ERR_DIMS, text));
    }
    Ok(())
}

/// Errors: MPI_ERR_ARG if a graph has more nodes than the communicator has ranks.
pub fn check_graph_size(comm: &Communicator, nodes: usize) -> Result<()> {
    if nodes > comm.size() as usize {
        let text =
            format!("nnodes is {nodes}, more than the {} ranks of the communicator", comm.size());
        return Err(MpiError::new(abi::MPI_ERR_ARG, text));
    }
    Ok(())
}
