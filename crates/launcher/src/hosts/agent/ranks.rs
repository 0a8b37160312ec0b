//! What an agent knows of its ranks beside its host.

use std::ops::Range;

use super::{Agent, JoinerNews, Joiners};
use crate::host::ranks::LocalRank;
use oxmpi_rt_proto::agent::{FromAgent, ProcessEvent, Seen};

impl Agent<'_> {
    /// Drops the state of processes that no request can name any more.
    pub(super) fn forget(&mut self, processes: Range<u32>) {
        self.addresses.retain(|number, _| !processes.contains(number));
        self.answered
            .retain(|(asker, number)| !processes.contains(asker) && !processes.contains(number));
        self.sent.retain(|number, _| !processes.contains(number));
        self.all_events.retain(|event| {
            let (ProcessEvent::Closed { rank, .. } | ProcessEvent::Exited { rank, .. }) = event;
            !processes.contains(rank)
        });
    }

    /// The states of ranks that have changed since they were last sent.
    pub(super) fn changed_states(&mut self) -> Vec<(u32, Seen)> {
        let states = self.host.ranks.iter().map(|(rank, one)| (rank, LocalRank::seen(one)));
        let sent = &mut self.sent;
        states.filter(|(rank, seen)| sent.insert(*rank, *seen) != Some(*seen)).collect()
    }

    /// Serves processes that come to be ranks. Before the start the head learns of each.
    pub(super) fn serve_joiners(&mut self) {
        let Some(joiners) = &mut self.joiners else { return };
        if self.host.launch.is_some() {
            return joiners.serve_late();
        }
        let news = match joiners.serve() {
            Ok(news) => news,
            Err(error) => {
                self.joiners = None;
                return self.fail(0, false, format!("it cannot wait for its ranks: {error}"));
            }
        };
        for one in news {
            match one {
                JoinerNews::Came { rank, .. } => self.post(&FromAgent::Came { ranks: vec![rank] }),
                JoinerNews::Gone(text) => self.fail(0, false, text),
                // The head alone queries the process manager.
                JoinerNews::Head { .. } | JoinerNews::AgentCard { .. } => {}
            }
        }
    }

    /// Reports the processes that have come before this agent knew its number.
    pub(super) fn report_joiners(&mut self) {
        if let Some(ranks) = self.joiners.as_ref().map(Joiners::waiting) {
            self.post(&FromAgent::Came { ranks });
        }
    }
}
