//! Messages along the edges of a graph, as one rank sees them.

use std::sync::Arc;

use crate::ir::{PlanBuffer, Span};

/// One message that a rank sends or receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// The rank at the other end; a rank may have edges to itself.
    pub peer: u32,
    pub start: usize,
    pub len: usize,
}

impl Edge {
    pub(crate) fn span(&self, place: PlanBuffer) -> Span {
        place.span(self.start, self.len)
    }
}

/// All messages of one rank, sent from the input and received into the output. Two ranks may have
/// several edges: the sends of a rank to a peer match the peer's receives from this rank in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Edges {
    /// Spans may overlap: one block can go to all neighbours.
    pub sends: Arc<[Edge]>,
    /// Spans do not overlap.
    pub receives: Arc<[Edge]>,
}

impl Edges {
    /// The edges of a rank.
    pub fn new(
        sends: impl IntoIterator<Item = Edge>,
        receives: impl IntoIterator<Item = Edge>,
    ) -> Self {
        Self { sends: sends.into_iter().collect(), receives: receives.into_iter().collect() }
    }

    /// The messages from a rank to itself: its sends, and its receives.
    pub(crate) fn own(
        &self,
        rank: u32,
    ) -> (impl Iterator<Item = Edge> + '_, impl Iterator<Item = Edge> + '_) {
        let own = move |edge: &&Edge| edge.peer == rank;
        (self.sends.iter().filter(own).copied(), self.receives.iter().filter(own).copied())
    }
}
