//! Lost hosts, whose streams have ended or which are silent, and processes that are given up.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use tracing::warn;

use super::super::launcher::Launcher;
use crate::job::{Exit, JobEvent};
use oxmpi_rt_client::control::Reply;
use oxmpi_rt_proto::agent::StreamError;

impl Launcher<'_> {
    /// Continues without processes that were to be killed and whose agents (`unanswered` has their
    /// indices) do not answer. Such an agent may have stalled and obey later; its other processes
    /// may continue.
    pub(super) fn give_up(&mut self, unanswered: &[(usize, u32)]) {
        let mut hosts = BTreeMap::new();
        for (at, rank) in unanswered {
            let Some(member) = self.members.get_mut(rank).filter(|member| member.running) else {
                continue;
            };
            member.running = false;
            hosts.entry(*at).or_insert_with(Vec::new).push(*rank);
        }
        for (at, ranks) in hosts {
            let host = self.far[at].as_ref().map_or_else(String::new, |far| far.host.clone());
            self.handle_event(JobEvent::Say { text: silent_host(&host, ranks.len()) });
            for rank in ranks {
                [0, 1].into_iter().for_each(|kind| self.take_output(rank, kind, &[]));
                self.far_inputs.retain(|input| input.rank != rank);
                let seen = self.glimpse(rank);
                self.note_end(rank, Exit::Unknown, seen);
            }
        }
    }

    pub(super) fn far_ready_if_there(&mut self, at: usize) {
        let Some(Some(far)) = self.far.get_mut(at) else { return };
        let had = far.stream.came().len();
        match far.stream.read() {
            Ok(true) if far.stream.came().len() == had => {
                let text = format!("nothing has come from it for {} s", far.silence.as_secs());
                self.lose_host(at, Some(io::Error::new(io::ErrorKind::TimedOut, text)));
            }
            _ => self.far_ready(at),
        }
    }

    pub(super) fn lose_senseless(&mut self, at: usize, error: &StreamError) {
        self.lose_host(at, Some(io::Error::new(io::ErrorKind::InvalidData, error.to_string())));
    }

    /// The stream to an agent has ended, and with it the agent and its processes.
    pub(super) fn lose_host(&mut self, at: usize, error: Option<io::Error>) {
        let Some(mut far) = self.far.get_mut(at).and_then(Option::take) else { return };
        let said = far.read_errors();
        self.sinks[1].queue().extend_from_slice(&said);
        let text = far.why_lost(error);
        let (host, node) = (far.host.clone(), far.node);
        warn!(host, why = text, "an agent is lost");
        let requests = std::mem::take(&mut far.address_requests);
        drop(far);
        let mut ranks = Vec::new();
        for (rank, member) in self.members.iter_mut().filter(|(_, member)| member.host == Some(at))
        {
            if std::mem::take(&mut member.running) {
                ranks.push(*rank);
            }
        }
        let of_it = self.members.iter().filter(|(_, member)| member.host == Some(at));
        let open = of_it.flat_map(|(rank, member)| {
            [0, 1].into_iter().filter(|kind| member.far_open[*kind]).map(|kind| (*rank, kind))
        });
        let open: Vec<(u32, usize)> = open.collect();
        open.into_iter().for_each(|(rank, kind)| self.take_output(rank, kind, &[]));
        self.far_inputs.retain(|input| !ranks.contains(&input.rank));
        for rank in &ranks {
            self.forget_services(*rank);
            self.ports.ended(*rank);
            self.takes_no_step(*rank);
        }
        // Before survivors get failure notices and query their relays.
        self.report_loss_to_relays(node);
        self.handle_event(JobEvent::HostLost { host, ranks: ranks.clone(), text });
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
