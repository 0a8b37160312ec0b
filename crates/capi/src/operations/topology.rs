//! Virtual topologies (MPI-5.0 chapter 8). Communication along their edges is in `neighborhood`.
//!
//! An info argument may have the hints of any call that makes a communicator. Ranks are never
//! reordered, so hints about reordering are ignored, as the standard allows.

use crate::arguments::{Places, array};
use crate::operations::hints::CommInfo;
use crate::state::library::Running;
use crate::state::named::CommArgument;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Info;
use oxmpi_core::Communicator;
use oxmpi_core::topology::{NamedEdge, check_cartesian_size, check_graph_size};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::topology::{Cartesian, DistGraph, Graph, Neighbors, Topology};
use std::ffi::c_int;

fn check_room(room: usize, needed: usize, what: &str) -> Result<()> {
    if room < needed {
        let text = format!("{what} is {room}, less than the {needed} that there are");
        return Err(MpiError::new(abi::MPI_ERR_ARG, text));
    }
    Ok(())
}

fn rank_or_null(rank: Option<u32>) -> c_int {
    rank.map_or(abi::MPI_PROC_NULL, u32::cast_signed)
}

fn flags(all: &[c_int]) -> Vec<bool> {
    all.iter().map(|flag| *flag != 0).collect()
}

/// The weights of edges; `None` for MPI_UNWEIGHTED. MPI_WEIGHTS_EMPTY stands for weights of no
/// edges.
/// # Safety
/// `first` must be null, one of the constants, or point to `edges` numbers.
pub(crate) unsafe fn edge_weights<'a>(
    first: *const c_int,
    edges: usize,
    what: &str,
) -> Result<Option<&'a [c_int]>> {
    match first as usize {
        abi::MPI_UNWEIGHTED => return Ok(None),
        abi::MPI_WEIGHTS_EMPTY if edges > 0 => {
            let text = format!("{what} is MPI_WEIGHTS_EMPTY, but there are {edges} edges");
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
        _ => {}
    }
    // SAFETY: by the contract of this function.
    let weights = unsafe { array(first, edges, what) }?;
    match weights.iter().enumerate().find(|(_, weight)| **weight < 0) {
        Some((index, weight)) => {
            let text = format!("{what}[{index}] is {weight}; it must not be negative");
            Err(MpiError::new(abi::MPI_ERR_ARG, text))
        }
        None => Ok(Some(weights)),
    }
}

/// The edges of one direction from the arguments of the adjacent constructor.
fn neighbors(
    comm: &Communicator,
    ranks: &[c_int],
    ranks_name: &str,
    weights: Option<&[c_int]>,
) -> Result<Neighbors> {
    let member =
        |(index, rank): (usize, &c_int)| comm.member(*rank, &format!("{ranks_name}[{index}]"));
    Ok(Neighbors {
        ranks: ranks.iter().enumerate().map(member).collect::<Result<_>>()?,
        weights: weights.unwrap_or_default().to_vec(),
    })
}

/// The edges from the arguments of the general constructor.
fn named_edges(
    comm: &Communicator,
    sources: &[c_int],
    degrees: &[c_int],
    destinations: &[c_int],
    weights: Option<&[c_int]>,
) -> Result<Vec<NamedEdge>> {
    let weights = weights.unwrap_or_default();
    let mut edges = Vec::with_capacity(destinations.len());
    for (index, (source, degree)) in sources.iter().zip(degrees).enumerate() {
        let source = comm.member(*source, &format!("sources[{index}]"))?;
        for _ in 0..*degree {
            let at = edges.len();
            let destination = comm.member(destinations[at], &format!("destinations[{at}]"))?;
            let weight = weights.get(at).copied().unwrap_or(0);
            edges.push(NamedEdge { source, destination, weight });
        }
    }
    Ok(edges)
}

pub(crate) fn cart_create(
    library: &Running,
    comm_old: &CommArgument,
    dims: Result<&[c_int]>,
    periods: Result<&[c_int]>,
    _reorder: bool,
) -> Result<Option<Communicator>> {
    library.process.cart_create(comm_old, Cartesian::new(dims?, &flags(periods?))?)
}

pub(crate) fn dims_create(_: &Running, nnodes: usize, dims: &mut [c_int]) -> Result<()> {
    oxmpi_objects::topology::dims_create(nnodes as c_int, dims)
}

pub(crate) fn graph_create(
    library: &Running,
    comm_old: &CommArgument,
    index: Result<&[c_int]>,
    edges: Result<&[c_int]>,
    _reorder: bool,
) -> Result<Option<Communicator>> {
    library.process.graph_create(comm_old, Graph::new(index?, edges?)?)
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn dist_graph_create_adjacent(
    library: &Running,
    comm_old: &CommArgument,
    sources: Result<&[c_int]>,
    sourceweights: Result<Option<&[c_int]>>,
    destinations: Result<&[c_int]>,
    destweights: Result<Option<&[c_int]>>,
    info: Info,
    _reorder: bool,
) -> Result<Communicator> {
    let graph = (|| {
        let (sourceweights, destweights) = (sourceweights?, destweights?);
        let incoming = neighbors(comm_old, sources?, "sources", sourceweights)?;
        let outgoing = neighbors(comm_old, destinations?, "destinations", destweights)?;
        let weighted = sourceweights.is_some();
        if weighted != destweights.is_some() {
            let text =
                "one of sourceweights and destweights is MPI_UNWEIGHTED and the other is not";
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
        Ok((DistGraph { incoming, outgoing, weighted }, CommInfo::given(info)?))
    })();
    // A rank with wrong arguments takes part, since the other ranks must not wait.
    let wanted = graph.as_ref().map_or_else(|_| CommInfo::default(), |(_, wanted)| *wanted);
    let graph = graph.map(|(graph, _)| graph);
    let made = library.process.dist_graph_create_adjacent(comm_old, graph, wanted.component)?;
    made.set_hints(wanted.hints);
    Ok(made)
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn dist_graph_create(
    library: &Running,
    comm_old: &CommArgument,
    sources: Result<&[c_int]>,
    degrees: Result<&[c_int]>,
    destinations: Result<&[c_int]>,
    weights: Result<Option<&[c_int]>>,
    info: Info,
    _reorder: bool,
) -> Result<Communicator> {
    let weighted = !matches!(weights, Ok(None));
    let edges = (|| {
        let wanted = CommInfo::given(info)?;
        Ok((named_edges(comm_old, sources?, degrees?, destinations?, weights?)?, wanted))
    })();
    // See `dist_graph_create_adjacent`.
    let wanted = edges.as_ref().map_or_else(|_| CommInfo::default(), |(_, wanted)| *wanted);
    let edges = edges.map(|(edges, _)| edges);
    let made = library.process.dist_graph_create(comm_old, edges, weighted, wanted.component)?;
    made.set_hints(wanted.hints);
    Ok(made)
}

pub(crate) fn topo_test(_: &Running, comm: &CommArgument) -> Result<c_int> {
    Ok(match comm.topology() {
        Some(Topology::Cartesian(_)) => abi::MPI_CART,
        Some(Topology::Graph(_)) => abi::MPI_GRAPH,
        Some(Topology::DistGraph(_)) => abi::MPI_DIST_GRAPH,
        None => abi::MPI_UNDEFINED,
    })
}

pub(crate) fn graphdims_get(_: &Running, comm: &CommArgument) -> Result<(c_int, c_int)> {
    let graph = comm.graph()?;
    Ok((graph.index().len() as c_int, graph.edges().len() as c_int))
}

pub(crate) fn graph_get(
    _: &Running,
    comm: &CommArgument,
    index: Places<c_int>,
    edges: Places<c_int>,
) -> Result<()> {
    let graph = comm.graph()?;
    check_room(index.len(), graph.index().len(), "maxindex")?;
    check_room(edges.len(), graph.edges().len(), "maxedges")?;
    index.put(graph.index().iter().copied());
    edges.put(graph.edges().iter().map(|node| node.cast_signed()));
    Ok(())
}

pub(crate) fn cartdim_get(_: &Running, comm: &CommArgument) -> Result<c_int> {
    Ok(comm.cartesian()?.dims().len() as c_int)
}

pub(crate) fn cart_get(
    _: &Running,
    comm: &CommArgument,
    dims: Places<c_int>,
    periods: Places<c_int>,
    coords: Places<c_int>,
) -> Result<()> {
    let grid = comm.cartesian()?;
    check_room(dims.len(), grid.dims().len(), "maxdims")?;
    dims.put(grid.dims().iter().copied());
    periods.put(grid.periods().iter().map(|period| c_int::from(*period)));
    coords.put(grid.coords(comm.team.rank));
    Ok(())
}

pub(crate) fn cart_rank(_: &Running, comm: &CommArgument, coords: &[c_int]) -> Result<c_int> {
    Ok(comm.cartesian()?.rank(coords)?.cast_signed())
}

pub(crate) fn cart_coords(
    _: &Running,
    comm: &CommArgument,
    rank: c_int,
    coords: Places<c_int>,
) -> Result<()> {
    let grid = comm.cartesian()?;
    let rank = comm.member(rank, "rank")?;
    check_room(coords.len(), grid.dims().len(), "maxdims")?;
    coords.put(grid.coords(rank));
    Ok(())
}

pub(crate) fn graph_neighbors_count(
    _: &Running,
    comm: &CommArgument,
    rank: c_int,
) -> Result<c_int> {
    let neighbors = comm.graph()?.neighbors(comm.member(rank, "rank")?).unwrap_or_default();
    Ok(neighbors.len() as c_int)
}

pub(crate) fn graph_neighbors(
    _: &Running,
    comm: &CommArgument,
    rank: c_int,
    neighbors: Places<c_int>,
) -> Result<()> {
    let ranks = comm.graph()?.neighbors(comm.member(rank, "rank")?).unwrap_or_default();
    check_room(neighbors.len(), ranks.len(), "maxneighbors")?;
    neighbors.put(ranks.iter().map(|node| node.cast_signed()));
    Ok(())
}

pub(crate) fn dist_graph_neighbors_count(
    _: &Running,
    comm: &CommArgument,
) -> Result<(c_int, c_int, bool)> {
    let graph = comm.dist_graph()?;
    let degrees = [&graph.incoming, &graph.outgoing].map(|edges| edges.ranks.len() as c_int);
    Ok((degrees[0], degrees[1], graph.weighted))
}

/// Shorter arrays get a part of the edges. Weights are stored if there are any.
pub(crate) fn dist_graph_neighbors(
    _: &Running,
    comm: &CommArgument,
    sources: Places<c_int>,
    sourceweights: Places<c_int>,
    destinations: Places<c_int>,
    destweights: Places<c_int>,
) -> Result<()> {
    let graph = comm.dist_graph()?;
    let put = |edges: &Neighbors, ranks: Places<c_int>, weights: Places<c_int>| {
        ranks.put(edges.ranks.iter().map(|rank| rank.cast_signed()));
        weights.put(edges.weights.iter().copied());
    };
    put(&graph.incoming, sources, sourceweights);
    put(&graph.outgoing, destinations, destweights);
    Ok(())
}

pub(crate) fn cart_shift(
    _: &Running,
    comm: &CommArgument,
    direction: c_int,
    disp: c_int,
) -> Result<(c_int, c_int)> {
    let (source, destination) = comm.cartesian()?.shift(comm.team.rank, direction, disp)?;
    Ok((rank_or_null(source), rank_or_null(destination)))
}

pub(crate) fn cart_sub(
    library: &Running,
    comm: &CommArgument,
    remain_dims: Result<&[c_int]>,
) -> Result<Communicator> {
    library.process.cart_sub(comm, &flags(remain_dims?))
}

pub(crate) fn cart_map(
    _: &Running,
    comm: &CommArgument,
    dims: &[c_int],
    periods: &[c_int],
) -> Result<c_int> {
    if dims.contains(&0) && dims.iter().all(|length| *length >= 0) {
        // A grid with a dimension of 0 has no ranks.
        return Ok(abi::MPI_UNDEFINED);
    }
    let grid = Cartesian::new(dims, &flags(periods))?;
    check_cartesian_size(comm, &grid)?;
    let rank = comm.rank();
    Ok(if rank < grid.size() { rank } else { abi::MPI_UNDEFINED })
}

pub(crate) fn graph_map(
    _: &Running,
    comm: &CommArgument,
    index: &[c_int],
    edges: &[c_int],
) -> Result<c_int> {
    let nodes = Graph::new(index, edges)?.index().len();
    check_graph_size(comm, nodes)?;
    let rank = comm.rank();
    Ok(if (rank as usize) < nodes { rank } else { abi::MPI_UNDEFINED })
}
