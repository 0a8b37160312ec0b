//! Graphs (MPI-5.0 sections 8.5.3 and 8.5.4).

use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;

/// A graph that every process knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Where the neighbours of each node end in `edges`.
    index: Vec<i32>,
    edges: Vec<u32>,
}

impl Graph {
    /// The graph of `index.len()` nodes in which the neighbours of node `i` are those from `index[i - 1]` to
    /// `index[i]` of `edges`.
    ///
    /// # Errors
    /// Class `MPI_ERR_ARG` if the index decreases, there are not as many edges as it says, or a neighbour is no node.
    pub fn new(index: &[i32], edges: &[i32]) -> Result<Graph> {
        check_index(index)?;
        let named = index.last().map_or(0, |end| *end as usize);
        if edges.len() != named {
            let text = format!("{} edges with an index that ends at {named}", edges.len());
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
        let node = |(at, edge): (usize, &i32)| match u32::try_from(*edge) {
            Ok(node) if (node as usize) < index.len() => Ok(node),
            _ => {
                let text =
                    format!("edges[{at}] is {edge}; the nodes go from 0 to {}", index.len() as i64 - 1);
                Err(MpiError::new(abi::MPI_ERR_ARG, text))
            }
        };
        let edges = edges.iter().enumerate().map(node).collect::<Result<_>>()?;
        Ok(Graph { index: index.to_vec(), edges })
    }

    /// Where the neighbours of each node end among the edges.
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// The neighbours of all nodes.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The neighbours of a node, if there is such a one.
    pub fn neighbors(&self, node: u32) -> Option<&[u32]> {
        let end = *self.index.get(node as usize)?;
        let start = if node == 0 { 0 } else { self.index[node as usize - 1] };
        self.edges.get(start as usize..end as usize)
    }
}

/// Checks the index of a [`Graph`], before as many edges are read as it says.
///
/// # Errors
/// As [`Graph::new`].
pub fn check_index(index: &[i32]) -> Result<()> {
    let mut before = 0;
    for (at, end) in index.iter().enumerate() {
        if *end < before {
            let text = format!("indx[{at}] is {end}; it must not be below the one before, {before}");
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
        before = *end;
    }
    Ok(())
}

/// The edges of one process in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors {
    /// The ranks at the other ends; a rank may appear several times.
    pub ranks: Vec<u32>,
    /// The weight of each edge; as many as ranks, or none if the graph is not weighted.
    pub weights: Vec<i32>,
}

/// A graph of which each process knows its own edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistGraph {
    /// The edges that end here.
    pub incoming: Neighbors,
    /// The edges that begin here.
    pub outgoing: Neighbors,
    /// Whether edges have weights.
    pub weighted: bool,
}
