//! The components that serve a communicator, and its own parameters of the choice.

use crate::comm::Communicator;
use oxmpi_engine::RankMap;
use oxmpi_fabric::Fabric;
use oxmpi_plan::{Collective, Nodes};
use oxmpi_tuned::{Component, Stack};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The reported choices: collective, size class (log2 of bytes) and component; and whether the
/// settings of agreements are reported.
#[derive(Debug, Default)]
pub(crate) struct ReportedChoices(
    pub(super) Mutex<BTreeSet<(Collective, u32, Component)>>,
    pub(super) AtomicBool,
);

#[derive(Debug, Default)]
pub(crate) struct Servers {
    /// The only component, if the parent communicator named one.
    pub(super) only: Option<Component>,
    /// The only component of communicators that are made of this one.
    pub(super) heirs: Mutex<Option<Component>>,
    /// coll_base_associative for this communicator, plus one; 0 for the value of the process.
    pub(super) associative: AtomicU8,
    pub(super) nodes: Option<Nodes>,
    pub(super) serving: OnceLock<Box<ServingStack>>,
}

#[derive(Debug)]
pub(super) struct ServingStack {
    pub(super) stack: Stack,
    pub(super) nodes: Option<Nodes>,
    /// The number of operations since the last barrier of sync before an operation, and after one.
    pub(super) since: [AtomicU32; 2],
}

impl Servers {
    pub(crate) fn new(only: Option<Component>) -> Servers {
        Servers { only, ..Servers::default() }
    }
}

impl Communicator {
    pub(crate) fn set_nodes(&mut self, nodes: Option<Nodes>) {
        self.servers.nodes = nodes;
    }

    pub(crate) fn forget_component(&mut self) {
        self.servers.only = None;
    }

    pub(crate) fn is_hierarchy(&self) -> bool {
        self.servers.nodes.as_ref().is_some_and(Nodes::is_hierarchy)
    }

    /// The only component of this communicator's collectives, if one is named.
    pub fn component(&self) -> Option<Component> {
        self.servers.only
    }

    pub(crate) fn component_of_heirs(&self) -> Option<Component> {
        *self.servers.heirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The nodes of a team's ranks. `None` on one node, or if not all ranks know their nodes.
pub(crate) fn nodes_of(fabric: &mut impl Fabric, map: &RankMap, job: &Range<u32>) -> Option<Nodes> {
    let node = |rank| {
        map.process(rank).filter(|process| job.contains(process)).and_then(|p| fabric.node(p))
    };
    Some(Nodes::new((0..map.size()).map(node).collect::<Option<Vec<_>>>()?))
}
