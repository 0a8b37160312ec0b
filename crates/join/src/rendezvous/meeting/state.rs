//! The values of all nodes, and the fences.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::rendezvous::message::{NodeMessage, NodeValue};

/// The values of a node for a fence.
type Given = (u64, Vec<NodeValue>);

#[derive(Debug)]
pub(super) struct MeetingValues {
    values: HashMap<(u32, String), Vec<u8>>,
    /// The number of fences that this process has begun, and that have ended.
    begun: u64,
    over: u64,
    /// At the hub, the values for the next fence that have come from each node.
    given: Vec<Option<Given>>,
    /// The nodes that take part in no further fence, with the reasons.
    pub(super) lost: BTreeMap<u32, String>,
    /// At the hub, the nodes of `lost` of which all members know.
    reported: BTreeSet<u32>,
}

impl MeetingValues {
    pub(super) fn new(nodes: usize) -> MeetingValues {
        let given = (0..nodes).map(|_| None).collect();
        let (values, lost, reported) = Default::default();
        MeetingValues { values, begun: 0, over: 0, given, lost, reported }
    }

    /// The number of the fence that begins.
    pub(super) fn begin_fence(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    pub(super) fn is_fence_over(&self) -> bool {
        self.begun == self.over
    }

    /// Takes the values of a node for its next fence.
    pub(super) fn give(&mut self, node: u32, fence: u64, entries: Vec<NodeValue>) {
        if let Some(place) = self.given.get_mut(node as usize) {
            *place = Some((fence, entries));
        }
    }

    /// Whether a node waits for the end of a fence.
    pub(super) fn has_given(&self, node: u32) -> bool {
        self.given.get(node as usize).is_some_and(Option::is_some)
    }

    pub(super) fn has_given_any(&self) -> bool {
        self.given.iter().any(Option::is_some)
    }

    /// The notices of lost nodes that this function has not returned yet.
    pub(super) fn unreported(&mut self) -> Vec<NodeMessage> {
        let new = self.lost.iter().filter(|(node, _)| !self.reported.contains(node));
        let new = new.map(|(node, why)| (*node, why.clone()));
        let new: Vec<NodeMessage> =
            new.map(|(node, why)| NodeMessage::Lost { node, why, has_failed: false }).collect();
        self.reported.extend(self.lost.keys());
        new
    }

    /// The fence that all nodes have begun, with their values.
    pub(super) fn complete(&mut self) -> Option<Given> {
        let fence = self.over + 1;
        let has_begun = |given: &Option<Given>| given.as_ref().is_some_and(|(of, _)| *of == fence);
        if !self.given.iter().all(has_begun) {
            return None;
        }
        let entries = self.given.iter_mut().filter_map(Option::take).flat_map(|(_, all)| all);
        Some((fence, entries.collect()))
    }

    /// A fence has ended with these values.
    pub(super) fn end_fence(&mut self, fence: u64, entries: Vec<NodeValue>) {
        self.over = fence;
        self.values.extend(entries.into_iter().map(|entry| ((entry.node, entry.key), entry.value)));
    }

    pub(super) fn get(&self, node: u32, key: &str) -> Option<&[u8]> {
        self.values.get(&(node, key.to_string())).map(Vec::as_slice)
    }
}
