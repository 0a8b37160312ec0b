//! Virtual topologies (MPI-5.0 chapter 8). Communication along their edges is in `neighborhood`.
//!
//! An info argument may have the hints of any call that makes a communicator. Ranks are never
//! reordered, so hints about reordering are ignored, as the standard allows.

use crate::arguments::NewObject;
use crate::errors::{on_comm, on_none};
use crate::hints::CommInfo;
use crate::library::{Running, array, null, put};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Info};
use oxmpi_core::Communicator;
use oxmpi_core::topology::{NamedEdge, check_cartesian_size, check_graph_size};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::topology::{
    Cartesian, DistGraph, Graph, Neighbors, Topology, check_index, dims_create,
};
use std::ffi::c_int;

fn check_length(length: c_int, what: &str) -> Result<usize> {
    usize::try_from(length).map_err(|_| {
        MpiError::new(abi::MPI_ERR_ARG, format!("{what} is {length}; it must not be negative"))
    })
}

fn integers<'a>(first: *const c_int, length: usize, what: &str) -> Result<&'a [c_int]> {
    // SAFETY: the C program passes an array of `length` integers.
    unsafe { array(first, length, what) }
}

fn put_all(place: *mut c_int, values: impl IntoIterator<Item = c_int>, what: &str) -> Result<()> {
    for (index, value) in values.into_iter().enumerate() {
        if place.is_null() {
            return Err(null(what));
        }
        // SAFETY: the C program passes room for the integers; the callers have checked its size.
        unsafe { place.add(index).write(value) };
    }
    Ok(())
}

fn check_room(room: c_int, needed: usize, what: &str) -> Result<()> {
    if check_length(room, what)? < needed {
        let text = format!("{what} is {room}, less than the {needed} that there are");
        return Err(MpiError::new(abi::MPI_ERR_ARG, text));
    }
    Ok(())
}

/// Stores MPI_COMM_NULL if this process is no member.
fn give(library: &Running, place: *mut Comm, what: &str, made: Option<Communicator>) -> Result<()> {
    match made {
        Some(made) => unsafe { made.give(library, place, what) },
        // SAFETY: the C program passes a place for a handle.
        None => unsafe { put(place, abi::MPI_COMM_NULL, what) },
    }
}

fn rank_or_null(rank: Option<u32>) -> c_int {
    rank.map_or(abi::MPI_PROC_NULL, u32::cast_signed)
}

fn grid(ndims: c_int, dims: *const c_int, periods: *const c_int) -> Result<Cartesian> {
    let ndims = check_length(ndims, "ndims")?;
    let periods: Vec<bool> =
        integers(periods, ndims, "periods")?.iter().map(|period| *period != 0).collect();
    Cartesian::new(integers(dims, ndims, "dims")?, &periods)
}

fn graph(nnodes: c_int, indx: *const c_int, edges: *const c_int) -> Result<Graph> {
    let index = integers(indx, check_length(nnodes, "nnodes")?, "indx")?;
    check_index(index)?;
    let edges = integers(edges, index.last().map_or(0, |end| *end as usize), "edges")?;
    Graph::new(index, edges)
}

/// MPI_WEIGHTS_EMPTY stands for weights of no edges.
fn is_weighted(weights: *const c_int) -> bool {
    weights as usize != abi::MPI_UNWEIGHTED
}

/// One weight for each edge; none without weights.
fn weights<'a>(first: *const c_int, edges: usize, what: &str) -> Result<&'a [c_int]> {
    if !is_weighted(first) {
        return Ok(&[]);
    }
    if first as usize == abi::MPI_WEIGHTS_EMPTY && edges > 0 {
        let text = format!("{what} is MPI_WEIGHTS_EMPTY, but there are {edges} edges");
        return Err(MpiError::new(abi::MPI_ERR_ARG, text));
    }
    let weights = integers(first, edges, what)?;
    match weights.iter().enumerate().find(|(_, weight)| **weight < 0) {
        Some((index, weight)) => {
            let text = format!("{what}[{index}] is {weight}; it must not be negative");
            Err(MpiError::new(abi::MPI_ERR_ARG, text))
        }
        None => Ok(weights),
    }
}

/// The edges of one direction from the arguments of the adjacent constructor.
fn neighbors(
    comm: &Communicator,
    degree: c_int,
    ranks: *const c_int,
    given_weights: *const c_int,
    (degree_name, ranks_name, weights_name): (&str, &str, &str),
) -> Result<Neighbors> {
    let degree = check_length(degree, degree_name)?;
    let ranks = integers(ranks, degree, ranks_name)?;
    let member =
        |(index, rank): (usize, &c_int)| comm.member(*rank, &format!("{ranks_name}[{index}]"));
    let weights = weights(given_weights, degree, weights_name)?.to_vec();
    Ok(Neighbors { ranks: ranks.iter().enumerate().map(member).collect::<Result<_>>()?, weights })
}

/// The edges from the arguments of the general constructor.
fn named_edges(
    comm: &Communicator,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    given_weights: *const c_int,
) -> Result<Vec<NamedEdge>> {
    let n = check_length(n, "n")?;
    let sources = integers(sources, n, "sources")?;
    let degrees = integers(degrees, n, "degrees")?;
    let mut total = 0_usize;
    for (index, degree) in degrees.iter().enumerate() {
        total = total.saturating_add(check_length(*degree, &format!("degrees[{index}]"))?);
    }
    let destinations = integers(destinations, total, "destinations")?;
    let weights = weights(given_weights, total, "weights")?;
    let mut edges = Vec::with_capacity(total);
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

/// Stores the edges of one direction, as far as the arrays have room. Weights are stored if there
/// are any and the program wants them.
fn put_neighbors(
    neighbors: &Neighbors,
    room: usize,
    ranks: *mut c_int,
    weights: *mut c_int,
    (ranks_name, weights_name): (&str, &str),
) -> Result<()> {
    put_all(ranks, neighbors.ranks.iter().take(room).map(|rank| rank.cast_signed()), ranks_name)?;
    if is_weighted(weights) {
        put_all(weights, neighbors.weights.iter().take(room).copied(), weights_name)?;
    }
    Ok(())
}

mpi! {
    fn MPI_Cart_create(comm_old: Comm, ndims: c_int, dims: *const c_int, periods: *const c_int, _reorder: c_int, comm_cart: *mut Comm) -> c_int {
        on_comm(FuncId::MPI_Cart_create, comm_old, |library, communicator| {
            let grid = grid(ndims, dims, periods)?;
            if comm_cart.is_null() {
                return Err(null("comm_cart"));
            }
            let made = library.process.cart_create(communicator, grid)?;
            give(library, comm_cart, "comm_cart", made)
        })
    }

    fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Dims_create, |_| {
            let mut filled = integers(dims, check_length(ndims, "ndims")?, "dims")?.to_vec();
            dims_create(nnodes, &mut filled)?;
            put_all(dims, filled, "dims")
        })
    }

    fn MPI_Graph_create(comm_old: Comm, nnodes: c_int, indx: *const c_int, edges: *const c_int, _reorder: c_int, comm_graph: *mut Comm) -> c_int {
        on_comm(FuncId::MPI_Graph_create, comm_old, |library, communicator| {
            let graph = graph(nnodes, indx, edges)?;
            if comm_graph.is_null() {
                return Err(null("comm_graph"));
            }
            let made = library.process.graph_create(communicator, graph)?;
            give(library, comm_graph, "comm_graph", made)
        })
    }

    fn MPI_Dist_graph_create_adjacent(comm_old: Comm, indegree: c_int, sources: *const c_int, sourceweights: *const c_int, outdegree: c_int, destinations: *const c_int, destweights: *const c_int, info: Info, _reorder: c_int, comm_dist_graph: *mut Comm) -> c_int {
        on_comm(FuncId::MPI_Dist_graph_create_adjacent, comm_old, |library, communicator| {
            let graph = (|| {
                if comm_dist_graph.is_null() {
                    return Err(null("comm_dist_graph"));
                }
                let names = ("indegree", "sources", "sourceweights");
                let incoming = neighbors(communicator, indegree, sources, sourceweights, names)?;
                let names = ("outdegree", "destinations", "destweights");
                let outgoing = neighbors(communicator, outdegree, destinations, destweights, names)?;
                let weighted = is_weighted(sourceweights);
                if weighted != is_weighted(destweights) {
                    let text = "one of sourceweights and destweights is MPI_UNWEIGHTED and the other is not";
                    return Err(MpiError::new(abi::MPI_ERR_ARG, text));
                }
                Ok((DistGraph { incoming, outgoing, weighted }, CommInfo::given(info)?))
            })();
            // A rank with wrong arguments takes part, since the other ranks must not wait.
            let wanted = graph.as_ref().map_or_else(|_| CommInfo::default(), |(_, wanted)| *wanted);
            let graph = graph.map(|(graph, _)| graph);
            let made = library.process.dist_graph_create_adjacent(communicator, graph, wanted.component)?;
            made.set_hints(wanted.hints);
            give(library, comm_dist_graph, "comm_dist_graph", Some(made))
        })
    }

    fn MPI_Dist_graph_create(comm_old: Comm, n: c_int, sources: *const c_int, degrees: *const c_int, destinations: *const c_int, weights: *const c_int, info: Info, _reorder: c_int, comm_dist_graph: *mut Comm) -> c_int {
        on_comm(FuncId::MPI_Dist_graph_create, comm_old, |library, communicator| {
            let edges = if comm_dist_graph.is_null() {
                Err(null("comm_dist_graph"))
            } else {
                CommInfo::given(info).and_then(|wanted| {
                    Ok((named_edges(communicator, n, sources, degrees, destinations, weights)?, wanted))
                })
            };
            let wanted = edges.as_ref().map_or_else(|_| CommInfo::default(), |(_, wanted)| *wanted);
            let (edges, weighted) = (edges.map(|(edges, _)| edges), is_weighted(weights));
            let made = library.process.dist_graph_create(communicator, edges, weighted, wanted.component)?;
            made.set_hints(wanted.hints);
            give(library, comm_dist_graph, "comm_dist_graph", Some(made))
        })
    }

    fn MPI_Topo_test(comm: Comm, status: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Topo_test, comm, |_, communicator| {
            let kind = match communicator.topology() {
                Some(Topology::Cartesian(_)) => abi::MPI_CART,
                Some(Topology::Graph(_)) => abi::MPI_GRAPH,
                Some(Topology::DistGraph(_)) => abi::MPI_DIST_GRAPH,
                None => abi::MPI_UNDEFINED,
            };
            put_all(status, [kind], "status")
        })
    }

    fn MPI_Graphdims_get(comm: Comm, nnodes: *mut c_int, nedges: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Graphdims_get, comm, |_, communicator| {
            let graph = communicator.graph()?;
            put_all(nnodes, [graph.index().len() as c_int], "nnodes")?;
            put_all(nedges, [graph.edges().len() as c_int], "nedges")
        })
    }

    fn MPI_Graph_get(comm: Comm, maxindex: c_int, maxedges: c_int, indx: *mut c_int, edges: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Graph_get, comm, |_, communicator| {
            let graph = communicator.graph()?;
            check_room(maxindex, graph.index().len(), "maxindex")?;
            check_room(maxedges, graph.edges().len(), "maxedges")?;
            put_all(indx, graph.index().iter().copied(), "indx")?;
            put_all(edges, graph.edges().iter().map(|node| node.cast_signed()), "edges")
        })
    }

    fn MPI_Cartdim_get(comm: Comm, ndims: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Cartdim_get, comm, |_, communicator| {
            put_all(ndims, [communicator.cartesian()?.dims().len() as c_int], "ndims")
        })
    }

    fn MPI_Cart_get(comm: Comm, maxdims: c_int, dims: *mut c_int, periods: *mut c_int, coords: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Cart_get, comm, |_, communicator| {
            let grid = communicator.cartesian()?;
            check_room(maxdims, grid.dims().len(), "maxdims")?;
            put_all(dims, grid.dims().iter().copied(), "dims")?;
            put_all(periods, grid.periods().iter().map(|period| c_int::from(*period)), "periods")?;
            put_all(coords, grid.coords(communicator.team.rank), "coords")
        })
    }

    fn MPI_Cart_rank(comm: Comm, coords: *const c_int, rank: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Cart_rank, comm, |_, communicator| {
            let grid = communicator.cartesian()?;
            let found = grid.rank(integers(coords, grid.dims().len(), "coords")?)?;
            put_all(rank, [found.cast_signed()], "rank")
        })
    }

    fn MPI_Cart_coords(comm: Comm, rank: c_int, maxdims: c_int, coords: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Cart_coords, comm, |_, communicator| {
            let grid = communicator.cartesian()?;
            let rank = communicator.member(rank, "rank")?;
            check_room(maxdims, grid.dims().len(), "maxdims")?;
            put_all(coords, grid.coords(rank), "coords")
        })
    }

    fn MPI_Graph_neighbors_count(comm: Comm, rank: c_int, nneighbors: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Graph_neighbors_count, comm, |_, communicator| {
            let graph = communicator.graph()?;
            let neighbors = graph.neighbors(communicator.member(rank, "rank")?).unwrap_or_default();
            put_all(nneighbors, [neighbors.len() as c_int], "nneighbors")
        })
    }

    fn MPI_Graph_neighbors(comm: Comm, rank: c_int, maxneighbors: c_int, neighbors: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Graph_neighbors, comm, |_, communicator| {
            let graph = communicator.graph()?;
            let ranks = graph.neighbors(communicator.member(rank, "rank")?).unwrap_or_default();
            check_room(maxneighbors, ranks.len(), "maxneighbors")?;
            put_all(neighbors, ranks.iter().map(|node| node.cast_signed()), "neighbors")
        })
    }

    fn MPI_Dist_graph_neighbors_count(comm: Comm, indegree: *mut c_int, outdegree: *mut c_int, weighted: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Dist_graph_neighbors_count, comm, |_, communicator| {
            let graph = communicator.dist_graph()?;
            put_all(indegree, [graph.incoming.ranks.len() as c_int], "indegree")?;
            put_all(outdegree, [graph.outgoing.ranks.len() as c_int], "outdegree")?;
            put_all(weighted, [c_int::from(graph.weighted)], "weighted")
        })
    }

    /// Shorter arrays get a part of the edges.
    fn MPI_Dist_graph_neighbors(comm: Comm, maxindegree: c_int, sources: *mut c_int, sourceweights: *mut c_int, maxoutdegree: c_int, destinations: *mut c_int, destweights: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Dist_graph_neighbors, comm, |_, communicator| {
            let graph = communicator.dist_graph()?;
            let room = check_length(maxindegree, "maxindegree")?;
            let names = ("sources", "sourceweights");
            put_neighbors(&graph.incoming, room, sources, sourceweights, names)?;
            let room = check_length(maxoutdegree, "maxoutdegree")?;
            let names = ("destinations", "destweights");
            put_neighbors(&graph.outgoing, room, destinations, destweights, names)
        })
    }

    fn MPI_Cart_shift(comm: Comm, direction: c_int, disp: c_int, rank_source: *mut c_int, rank_dest: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Cart_shift, comm, |_, communicator| {
            let grid = communicator.cartesian()?;
            let (source, destination) = grid.shift(communicator.team.rank, direction, disp)?;
            put_all(rank_source, [rank_or_null(source)], "rank_source")?;
            put_all(rank_dest, [rank_or_null(destination)], "rank_dest")
        })
    }

    fn MPI_Cart_sub(comm: Comm, remain_dims: *const c_int, newcomm: *mut Comm) -> c_int {
        on_comm(FuncId::MPI_Cart_sub, comm, |library, communicator| {
            let ndims = communicator.cartesian()?.dims().len();
            let remain: Vec<bool> =
                integers(remain_dims, ndims, "remain_dims")?.iter().map(|remains| *remains != 0).collect();
            if newcomm.is_null() {
                return Err(null("newcomm"));
            }
            let made = library.process.cart_sub(communicator, &remain)?;
            give(library, newcomm, "newcomm", Some(made))
        })
    }

    fn MPI_Cart_map(comm: Comm, ndims: c_int, dims: *const c_int, periods: *const c_int, newrank: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Cart_map, comm, |_, communicator| {
            let lengths = integers(dims, check_length(ndims, "ndims")?, "dims")?;
            if lengths.contains(&0) && lengths.iter().all(|length| *length >= 0) {
                // A grid with a dimension of 0 has no ranks.
                return put_all(newrank, [abi::MPI_UNDEFINED], "newrank");
            }
            let grid = grid(ndims, dims, periods)?;
            check_cartesian_size(communicator, &grid)?;
            let rank = communicator.rank();
            let mapped = if rank < grid.size() { rank } else { abi::MPI_UNDEFINED };
            put_all(newrank, [mapped], "newrank")
        })
    }

    fn MPI_Graph_map(comm: Comm, nnodes: c_int, indx: *const c_int, edges: *const c_int, newrank: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Graph_map, comm, |_, communicator| {
            let nodes = graph(nnodes, indx, edges)?.index().len();
            check_graph_size(communicator, nodes)?;
            let rank = communicator.rank();
            let mapped = if (rank as usize) < nodes { rank } else { abi::MPI_UNDEFINED };
            put_all(newrank, [mapped], "newrank")
        })
    }
}
