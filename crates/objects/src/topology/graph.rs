//! Graphs (MPI-5.0 sections 8.5.3 and 8.5.4).

use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;

/// A graph that every process knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The end of each node's neighbours in `edges`.
    index: Vec<i32>,
    edges: Vec<u32>,
}

impl Graph {
    /// The graph of `index.len()` nodes in which node `i` has the neighbours `edges[index[i -
    /// 1]..index[i]]`. Fails with `MPI_ERR_ARG` if the index decreases or does not fit the number
    /// of edges, or a neighbour is no node.
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
                let text = format!(
                    "edges[{at}] is {edge}; the nodes go from 0 to {}",
                    index.len() as i64 - 1
                );
                Err(MpiError::new(abi::MPI_ERR_ARG, text))
            }
        };
        let edges = edges.iter().enumerate().map(node).collect::<Result<_>>()?;
        Ok(Graph { index: index.to_vec(), edges })
    }

    /// The end of each node's neighbours in [`edges`](Graph::edges).
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// The neighbours of all nodes.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The neighbours of a node; `None` if there is no such node.
    pub fn neighbors(&self, node: u32) -> Option<&[u32]> {
        let end = *self.index.get(node as usize)?;
        let start = if node == 0 { 0 } else { self.index[node as usize - 1] };
        self.edges.get(start as usize..end as usize)
    }
}

/// Checks the index of a [`Graph`] before its last element is used as the number of edges. Fails as
/// [`Graph::new`] does.
pub fn check_index(index: &[i32]) -> Result<()> {
    let mut before = 0;
    for (at, end) in index.iter().enumerate() {
        if *end < before {
            let text =
                format!("index[{at}] is {end}; it must not be below the one before, {before}");
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
    pub weights: Vec<i32>,
}

/// A graph of which each process knows its own edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistGraph {
    pub incoming: Neighbors,
    pub outgoing: Neighbors,
    pub weighted: bool,
}
