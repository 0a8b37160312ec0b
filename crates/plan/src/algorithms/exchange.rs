//! Messages along any edges, all at once: neighbourhoods, and messages between two groups.

use super::Rounds;
use crate::burst::{Burst, Wait};
use crate::edges::Edges;
use crate::ir::PlanBuffer;

/// Posts all sends and receives at once, as a graph may have any shape.
#[derive(Clone, Debug)]
pub(crate) struct EdgeExchange {
    rank: u32,
    edges: Edges,
    source: PlanBuffer,
    target: PlanBuffer,
    next: usize,
    /// The receives before this index were searched for messages of the rank to itself.
    own: usize,
}

impl EdgeExchange {
    pub(crate) fn new(rank: u32, edges: Edges) -> Self {
        Self::between(rank, edges, PlanBuffer::Input, PlanBuffer::Output)
    }

    pub(crate) fn between(rank: u32, edges: Edges, source: PlanBuffer, target: PlanBuffer) -> Self {
        Self { rank, edges, source, target, next: 0, own: 0 }
    }

    pub(crate) fn steps(&self) -> usize {
        self.edges.sends.len() + self.edges.receives.len()
    }
}

impl Rounds for EdgeExchange {
    fn round(&mut self, steps: &mut Burst) -> bool {
        let at = self.next;
        self.next += 1;
        let receive = self.edges.receives.get(at);
        let send = self.edges.sends.get(at);
        if let Some(edge) = receive
            && edge.peer != self.rank
        {
            steps.receive(Wait::Nothing, edge.peer, edge.span(self.target));
        }
        if let Some(edge) = send {
            if edge.peer != self.rank {
                steps.send(Wait::Nothing, edge.peer, edge.span(self.source));
            } else if let Some((skipped, own)) = self.edges.receives[self.own..]
                .iter()
                .enumerate()
                .find(|(_, own)| own.peer == self.rank)
            {
                steps.copy(Wait::Nothing, edge.span(self.source), own.span(self.target));
                self.own += skipped + 1;
            }
        }
        receive.is_some() || send.is_some()
    }
}
