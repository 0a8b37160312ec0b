//! Lost hosts, whose streams have ended or which are silent, and processes that are given up.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use tracing::warn;

use super::super::launcher::Launcher;
use crate::hosts::branches::LostHosts;
use crate::job::{Exit, JobEvent, MpiStage};
use oxmpi_rt_proto::agent::StreamError;

impl Launcher<'_> {
    /// Continues without processes that were to be killed and whose agents do not answer (each
    /// process comes with its host). Such an agent may have stalled and obey later; its other
    /// processes may continue.
    pub(super) fn give_up(&mut self, unanswered: &[(u32, u32)]) {
        let mut hosts = BTreeMap::new();
        for (rank, node) in unanswered.iter().filter(|(rank, _)| self.members.stop(*rank)) {
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

    pub(super) fn lose_senseless(&mut self, at: usize, error: &StreamError) {
        self.lose_host(at, Some(io::Error::new(io::ErrorKind::InvalidData, error.to_string())));
    }

    /// The stream to an agent has ended.
    pub(super) fn lose_host(&mut self, at: usize, error: Option<io::Error>) {
        let survives = self.launch.params.mpi_ft_enable();
        if let Some((said, lost)) = self.branches.lose(at, error, survives) {
            self.output.print_bytes(&said);
            self.note_lost(lost);
        }
    }

    /// The processes of lost hosts have ended.
    pub(super) fn note_lost(&mut self, lost: LostHosts) {
        let of_it = self.members.lost_with(&lost);
        let LostHosts { nodes, text, requests, .. } = lost;
        let host = nodes.first().map(|node| self.name_of_host(*node)).unwrap_or_default();
        let text = match nodes.len() {
            0 | 1 => text,
            2 => format!("{text}; with it another host, which was reached through it"),
            all => format!("{text}; with it {} hosts that were reached through it", all - 1),
        };
        warn!(host, why = text, "an agent is lost");
        let stopped = of_it.iter().copied().filter(|rank| self.members.stop(*rank));
        let stopped: Vec<u32> = stopped.collect();
        let outputs = of_it.into_iter().flat_map(|rank| [(rank, 0), (rank, 1)]);
        for (rank, kind) in outputs.filter(|name| self.output.is_open(*name)).collect::<Vec<_>>() {
            self.take_output(rank, kind, &[]);
        }
        // In a PID namespace of its own the agent has ended with the rank.
        let is_below_other = self.joiners.is_some();
        let is_over =
            |rank: &u32| is_below_other && self.glimpse(*rank).stage == MpiStage::Finalized;
        let (finished, ranks): (Vec<u32>, Vec<u32>) = stopped.into_iter().partition(is_over);
        self.feed.drop_readers(|rank| ranks.contains(&rank));
        for rank in &ranks {
            self.links.forget_services(*rank);
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
        ranks.into_iter().for_each(|rank| self.links.report_end(rank, false));
        requests.iter().for_each(|request| self.refuse_addresses(request));
        self.handle_deferred(Instant::now());
    }
}

fn silent_host(host: &str, killed: usize) -> String {
    format!(
        "host {host} has not confirmed the end of {killed} of its ranks; mpirun goes on without them, and they end when it does"
    )
}
