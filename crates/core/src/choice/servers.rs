//! The components that serve a communicator, and what it keeps of the choices among them.

use crate::comm::Communicator;
use oxmpi_engine::RankMap;
use oxmpi_fabric::Fabric;
use oxmpi_plan::{Collective, Nodes};
use oxmpi_tuned::{Component, Stack};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a communicator has said already: collectives, classes of sizes, what served them.
#[derive(Debug, Default)]
pub(crate) struct Told(
    pub(super) Mutex<BTreeSet<(Collective, u32, Component)>>,
    /// How its ranks agree.
    pub(super) AtomicBool,
);

/// The components that serve a communicator.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    /// The only one that is asked, if the communicator that this one was made of named one.
    pub(super) only: Option<Component>,
    /// The only one for communicators that are made of this one.
    pub(super) heirs: Mutex<Option<Component>>,
    /// The parameter coll_base_associative for its own reductions, plus one; 0: as for all.
    pub(super) associative: AtomicU8,
    /// Where its ranks are, in a job on several nodes.
    pub(super) nodes: Option<Nodes>,
    /// Found out when it is first needed: most programs never do.
    pub(super) asked: OnceLock<Box<Asked>>,
}

/// What came of asking all components.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) stack: Stack,
    pub(super) nodes: Option<Nodes>,
    /// Operations since the last barrier of sync: before, and behind one.
    pub(super) since: [AtomicU32; 2],
}

impl Servers {
    /// All that are asked, or this one alone.
    pub(crate) fn new(only: Option<Component>) -> Servers {
        Servers { only, ..Servers::default() }
    }
}

impl Communicator {
    /// Its ranks are on these nodes.
    pub(crate) fn set_nodes(&mut self, nodes: Option<Nodes>) {
        self.servers.nodes = nodes;
    }

    /// No component alone serves it, whatever those that it was made of have named.
    pub(crate) fn forget_component(&mut self) {
        self.servers.only = None;
    }

    /// Whether it is on several nodes, with several ranks on one.
    pub(crate) fn is_hierarchy(&self) -> bool {
        self.servers.nodes.as_ref().is_some_and(Nodes::is_hierarchy)
    }

    /// The only component that serves its collectives, if one is named.
    pub fn component(&self) -> Option<Component> {
        self.servers.only
    }

    /// The only component that communicators made of this one are served by, if it names one.
    pub(crate) fn component_of_heirs(&self) -> Option<Component> {
        *self.servers.heirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// On which nodes the ranks of a team are, in a job on several. `None`: it is not, or processes of other jobs are among them: of
/// those is not known alike everywhere where they are.
pub(crate) fn nodes_of(fabric: &mut impl Fabric, map: &RankMap, job: &Range<u32>) -> Option<Nodes> {
    let node = |rank| map.process(rank).filter(|process| job.contains(process)).and_then(|p| fabric.node(p));
    Some(Nodes::new((0..map.size()).map(node).collect::<Option<Vec<_>>>()?))
}
