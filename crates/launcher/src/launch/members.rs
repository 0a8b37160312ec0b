//! The processes of all jobs of this launcher, on all hosts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::launcher::call_name;
use crate::host::ranks::{HostRanks, LocalRank};
use crate::hosts::branches::{Adopted, LostHosts, RemoteHome};
use crate::job::{Glimpse, MpiStage};
use oxmpi_rt_client::universe::Parent;
use oxmpi_rt_proto::agent::Seen;

#[derive(Debug)]
pub(super) struct JobMember {
    pub(super) running: bool,
    pub(super) node: u32,
    /// The index of the process's branch; `None`: this launcher's own process.
    pub(super) branch: Option<usize>,
    /// The last reported state of a process on another host.
    pub(super) seen: Glimpse,
    /// Whether a process on another host had left MPI for a time in that report.
    pub(super) rests: bool,
    /// The program of the process in the launcher's list, also through spawning.
    pub(super) app: usize,
    /// No request can name the process any more: it is kept while its outputs are open.
    is_forgotten: bool,
}

impl JobMember {
    /// A process that has been started.
    pub(super) fn new((branch, node): (Option<usize>, u32), pid: u32, app: usize) -> JobMember {
        let seen = Glimpse { pid, ..Glimpse::default() };
        JobMember { running: true, node, branch, seen, rests: false, app, is_forgotten: false }
    }

    /// Where a process on another host is.
    fn home(&self) -> Option<RemoteHome> {
        Some((self.branch?, self.node))
    }
}

/// The processes, by their numbers.
#[derive(Debug, Default)]
pub(super) struct JobMembers {
    all: BTreeMap<u32, JobMember>,
    /// The parent of each spawned job, by the number of its first process.
    parents: HashMap<u32, Parent>,
    /// The failed processes that the others were notified of, in order.
    deaths: Vec<u32>,
    /// Ranks of this host that wait until all have finalized MPI.
    finishing: Vec<u32>,
}

impl JobMembers {
    pub(super) fn add(&mut self, number: u32, member: JobMember) {
        self.all.insert(number, member);
    }

    pub(super) fn get(&self, number: u32) -> Option<&JobMember> {
        self.all.get(&number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &JobMember)> {
        self.all.iter().map(|(number, member)| (*number, member))
    }

    pub(super) fn range(&self, numbers: Range<u32>) -> impl Iterator<Item = (u32, &JobMember)> {
        self.all.range(numbers).map(|(number, member)| (*number, member))
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Behind the highest number.
    pub(super) fn end(&self) -> u32 {
        self.all.last_key_value().map_or(0, |(number, _)| number + 1)
    }

    pub(super) fn running(&self) -> impl Iterator<Item = u32> {
        self.iter().filter(|(_, member)| member.running).map(|(number, _)| number)
    }

    pub(super) fn is_running(&self, number: u32) -> bool {
        self.get(number).is_some_and(|member| member.running)
    }

    /// Notes that a process has ended, or is given up. Returns whether it was running.
    pub(super) fn stop(&mut self, number: u32) -> bool {
        self.all.get_mut(&number).is_some_and(|member| std::mem::take(&mut member.running))
    }

    /// Where a process on another host is.
    pub(super) fn home(&self, number: u32) -> Option<RemoteHome> {
        self.get(number)?.home()
    }

    pub(super) fn is_far(&self, number: u32) -> bool {
        self.home(number).is_some()
    }

    /// Whether a process is in the branch: an agent reports only on processes of its own. `None`:
    /// it is of this host.
    pub(super) fn is_of(&self, number: u32, branch: Option<usize>) -> bool {
        self.get(number).is_some_and(|member| member.branch == branch)
    }

    /// The branches of processes.
    pub(super) fn branches(&self, numbers: Range<u32>) -> BTreeSet<usize> {
        self.range(numbers).filter_map(|(_, member)| member.branch).collect()
    }

    pub(super) fn node(&self, number: u32) -> Option<u32> {
        Some(self.get(number)?.node)
    }

    /// A restored process is on another node than in its image.
    pub(super) fn set_node(&mut self, number: u32, node: u32) {
        self.all.get_mut(&number).into_iter().for_each(|member| member.node = node);
    }

    /// Notes the state of a process on another host.
    pub(super) fn note_seen(&mut self, number: u32, Seen { pid, stage, last_call, rests }: Seen) {
        if let Some(member) = self.all.get_mut(&number) {
            let last_call = call_name(last_call);
            (member.seen, member.rests) = (Glimpse { pid, stage, last_call }, rests);
        }
    }

    /// The processes on lost hosts.
    pub(super) fn lost_with(&self, lost: &LostHosts) -> Vec<u32> {
        let nodes: BTreeSet<u32> = lost.nodes.iter().copied().collect();
        let is_lost =
            |member: &JobMember| member.branch == Some(lost.branch) && nodes.contains(&member.node);
        self.iter().filter(|(_, member)| is_lost(member)).map(|(number, _)| number).collect()
    }

    /// The agents of processes have another parent.
    pub(super) fn move_with(&mut self, adopted: &Adopted) {
        let Adopted { from, branch, nodes, .. } = adopted;
        for member in self.all.values_mut() {
            if member.branch == Some(*from) && nodes.contains(&member.node) {
                member.branch = Some(*branch);
            }
        }
    }

    /// The state of a process: that of its segment, or the last reported one.
    pub(super) fn glimpse(&self, number: u32, here: &HostRanks) -> Glimpse {
        match here.get(number).map(LocalRank::seen) {
            Some(Seen { pid, stage, last_call, .. }) => {
                Glimpse { pid, stage, last_call: call_name(last_call) }
            }
            None => self.get(number).map(|member| member.seen.clone()).unwrap_or_default(),
        }
    }

    /// A rank of this host waits until all have finalized MPI.
    pub(super) fn note_finishing(&mut self, number: u32) {
        self.finishing.push(number);
    }

    /// The ranks that wait, if all ranks that run have finalized MPI.
    pub(super) fn take_finishing(&mut self, here: &HostRanks) -> Vec<u32> {
        let is_over = |number| self.glimpse(number, here).stage == MpiStage::Finalized;
        if self.finishing.is_empty() || !self.running().all(is_over) {
            return Vec::new();
        }
        std::mem::take(&mut self.finishing)
    }

    /// No request can name the processes of a job any more.
    pub(super) fn forget(&mut self, numbers: Range<u32>) {
        self.parents.remove(&numbers.start);
        self.all.range_mut(numbers).for_each(|(_, member)| member.is_forgotten = true);
    }

    /// Drops a process if it is forgotten; returns whether it was.
    pub(super) fn drop_forgotten(&mut self, number: u32) -> bool {
        let is_forgotten = self.get(number).is_some_and(|member| member.is_forgotten);
        is_forgotten && self.all.remove(&number).is_some()
    }

    pub(super) fn note_parent(&mut self, first: u32, parent: Parent) {
        self.parents.insert(first, parent);
    }

    /// The parent of the job with this first process, if it is a spawned one.
    pub(super) fn parent(&self, first: u32) -> Option<&Parent> {
        self.parents.get(&first)
    }

    /// The next program of a spawned job has no parent.
    pub(super) fn drop_parent(&mut self, first: u32) {
        self.parents.remove(&first);
    }

    pub(super) fn note_death(&mut self, number: u32) {
        self.deaths.push(number);
    }

    pub(super) fn deaths(&self) -> &[u32] {
        &self.deaths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank 0 is of this host, 1 to 3 are on nodes 1 to 3 of branch 0, and 4 is in branch 1.
    fn members() -> JobMembers {
        let mut members = JobMembers::default();
        let homes = [(None, 0), (Some(0), 1), (Some(0), 2), (Some(0), 3), (Some(1), 4)];
        for (number, home) in (0..).zip(homes) {
            members.add(number, JobMember::new(home, 100 + number, 0));
        }
        members
    }

    #[test]
    fn processes_are_found_by_their_homes_and_move_with_their_agents() {
        let mut members = members();
        assert_eq!((members.home(0), members.home(2)), (None, Some((0, 2))));
        assert_eq!(members.branches(0..5), BTreeSet::from([0, 1]));
        let adopted = Adopted { from: 0, branch: 2, nodes: vec![2, 3, 4], error: None };
        members.move_with(&adopted);
        assert_eq!((members.home(1), members.home(3)), (Some((0, 1)), Some((2, 3))));
        assert!(members.is_of(4, Some(1)) && !members.is_of(3, Some(0)) && members.is_of(0, None));
        let (text, requests) = (String::new(), Vec::new());
        let lost = LostHosts { branch: 2, nodes: vec![3, 4], text, requests };
        assert_eq!(members.lost_with(&lost), [3]);
    }

    #[test]
    fn a_process_stops_once_and_is_dropped_when_it_is_forgotten() {
        let mut members = members();
        assert!(members.stop(1) && !members.stop(1) && !members.stop(9));
        assert_eq!(members.running().collect::<Vec<_>>(), [0, 2, 3, 4]);
        assert!(!members.drop_forgotten(1));
        members.forget(1..3);
        assert!(members.drop_forgotten(1) && !members.drop_forgotten(3));
        assert_eq!((members.numbers(), members.end()), (vec![0, 2, 3, 4], 5));
    }

    #[test]
    fn a_rank_waits_until_all_that_run_have_finalized() {
        let (mut members, here) = (members(), HostRanks::default());
        members.note_finishing(0);
        members.stop(1);
        let over = Seen { pid: 1, stage: MpiStage::Finalized, last_call: 0, rests: false };
        for number in [0, 2, 3, 4] {
            assert!(members.take_finishing(&here).is_empty(), "before {number}");
            members.note_seen(number, over);
        }
        assert_eq!(members.take_finishing(&here), [0]);
        assert!(members.take_finishing(&here).is_empty());
    }
}
