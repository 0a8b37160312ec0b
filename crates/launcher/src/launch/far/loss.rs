//! Lost hosts, whose streams have ended or which are silent, and processes that are given up.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Instant;

use tracing::warn;

use super::super::launcher::{JobMember, Launcher};
use crate::job::{Exit, JobEvent, MpiStage};
use oxmpi_rt_client::control::Reply;
use oxmpi_rt_proto::agent::StreamError;

impl Launcher<'_> {
    /// Continues without processes that were to be killed and whose agents do not answer (each
    /// process comes with its host). Such an agent may have stalled and obey later; its other
    /// processes may continue.
    pub(super) fn give_up(&mut self, unanswered: &[(u32, u32)]) {
        let mut hosts = BTreeMap::new();
        for (rank, node) in unanswered {
            let Some(member) = self.members.get_mut(rank).filter(|member| member.running) else {
                continue;
            };
            member.running = false;
            hosts.entry(*node).or_insert_with(Vec::new).push(*rank);
        }
        for (node, ranks) in hosts {
            let host = self.name_of_host(node);
            self.handle_event(JobEvent::Say { text: silent_host(&host, ranks.len()) });
            for rank in ranks {
                [0, 1].into_iter().for_each(|kind| self.take_output(rank, kind, &[]));
                let seen = self.glimpse(rank);
                self.note_end(rank, Exit::Unknown, seen);
            }
        }
    }

    /// The name of another host of the job.
    pub(in super::super) fn name_of_host(&self, node: u32) -> String {
        let host = self.launch.spread.as_ref().and_then(|spread| spread.hosts.get(node as usize));
        host.map(|host| host.name.clone()).unwrap_or_default()
    }

    pub(super) fn far_ready_if_there(&mut self, at: usize) {
        let Some(Some(far)) = self.far.get_mut(at) else { return };
        let had = far.child.stream.came().len();
        match far.child.stream.read() {
            Ok(true) if far.child.stream.came().len() == had => {
                let text = format!("nothing has come from it for {} s", far.silence.as_secs());
                self.lose_host(at, Some(io::Error::new(io::ErrorKind::TimedOut, text)));
            }
            _ => self.far_ready(at),
        }
    }

    pub(super) fn lose_senseless(&mut self, at: usize, error: &StreamError) {
        self.lose_host(at, Some(io::Error::new(io::ErrorKind::InvalidData, error.to_string())));
    }

    /// The stream to an agent has ended, and with it all agents of the branch and their processes.
    pub(super) fn lose_host(&mut self, at: usize, error: Option<io::Error>) {
        let Some(mut far) = self.far.get_mut(at).and_then(Option::take) else { return };
        let said = far.child.read_errors();
        self.sinks[1].queue().extend_from_slice(&said);
        let text = far.child.why_lost(error);
        let mut nodes: Vec<u32> = far.child.nodes().collect();
        let mut requests = std::mem::take(&mut far.address_requests);
        if self.launch.params.mpi_ft_enable() {
            nodes.truncate(1);
            self.stranded.extend(far.child.stranded(far.silence).map(|stranded| (at, stranded)));
            requests = self.put_back_requests(requests);
        }
        drop(far);
        self.note_lost(at, &nodes, text, requests);
    }

    /// An agent of a branch has lost these hosts below it.
    pub(super) fn lose_below(&mut self, at: usize, nodes: &[u32], text: String) {
        let Some(Some(far)) = self.far.get_mut(at) else { return };
        far.child.hosts.retain(|(node, _)| !nodes.contains(node));
        let members = &self.members;
        let is_lost = |(_, wanted): &mut (u32, u32)| {
            members.get(wanted).is_some_and(|member| nodes.contains(&member.node))
        };
        let requests = far.address_requests.extract_if(.., is_lost).collect();
        self.note_lost(at, nodes, text, requests);
    }

    /// Hosts of a branch are lost: the first has not answered or has ended, and the others were
    /// reached through it.
    pub(super) fn note_lost(
        &mut self,
        at: usize,
        nodes: &[u32],
        text: String,
        requests: Vec<(u32, u32)>,
    ) {
        let host = nodes.first().map(|node| self.name_of_host(*node)).unwrap_or_default();
        let text = match nodes.len() {
            0 | 1 => text,
            2 => format!("{text}; with it another host, which was reached through it"),
            all => format!("{text}; with it {} hosts that were reached through it", all - 1),
        };
        warn!(host, why = text, "an agent is lost");
        let lost: BTreeSet<u32> = nodes.iter().copied().collect();
        let is_lost = |member: &JobMember| member.host == Some(at) && lost.contains(&member.node);
        let of_it = self.members.iter().filter(|(_, member)| is_lost(member));
        let open = of_it.flat_map(|(rank, member)| {
            [0, 1].into_iter().filter(|kind| member.open[*kind]).map(|kind| (*rank, kind))
        });
        let open: Vec<(u32, usize)> = open.collect();
        let (mut ranks, mut finished) = (Vec::new(), Vec::new());
        let is_below_other = self.joiners.is_some();
        for (rank, member) in self.members.iter_mut().filter(|(_, member)| is_lost(member)) {
            if std::mem::take(&mut member.running) {
                // In a PID namespace of its own the agent has ended with the rank.
                let is_over = is_below_other && member.seen.stage == MpiStage::Finalized;
                if is_over { finished.push(*rank) } else { ranks.push(*rank) }
            }
        }
        open.into_iter().for_each(|(rank, kind)| self.take_output(rank, kind, &[]));
        self.feed.drop_readers(|rank| ranks.contains(&rank));
        for rank in &ranks {
            self.forget_services(*rank);
            self.ports.ended(*rank);
            self.takes_no_step(*rank);
        }
        // Before survivors get failure notices and query their relays.
        nodes.iter().for_each(|node| self.report_loss_to_relays(*node));
        for rank in finished {
            let seen = self.glimpse(rank);
            self.note_end(rank, Exit::Unseen, seen);
        }
        if !ranks.is_empty() || !is_below_other {
            self.handle_event(JobEvent::HostLost { host, ranks: ranks.clone(), text });
        }
        ranks.into_iter().for_each(|rank| self.report_end_to_others(rank, false));
        for (asker, wanted) in requests {
            let reason = "the agent of its host is lost".to_string();
            self.answer(asker, &Reply::Refused { rank: wanted, reason }, None);
        }
        self.handle_deferred(Instant::now());
    }
}

fn silent_host(host: &str, killed: usize) -> String {
    format!(
        "host {host} has not confirmed the end of {killed} of its ranks; mpirun goes on without them, and they end when it does"
    )
}
