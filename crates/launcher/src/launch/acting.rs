//! Carrying out the decisions of the state machine.

use std::ops::Range;

use rustix::process::Signal;
use tracing::{Level, debug, enabled, trace};

use super::launcher::Launcher;
use crate::job::{Action, JobEvent};
use oxmpi_rt_proto::agent::HostOrder;

impl Launcher<'_> {
    /// Passes an event to the state machine, and carries out its actions.
    pub(super) fn handle_event(&mut self, event: JobEvent) {
        // A check comes several times a second.
        let is_check = matches!(event, JobEvent::Seen { .. });
        let is_shown = if is_check { enabled!(Level::TRACE) } else { enabled!(Level::DEBUG) };
        let shown = if is_shown { format!("{event:?}") } else { String::new() };
        let actions = self.job.on(event);
        match is_check {
            true => trace!(event = shown, ?actions, "the job machine has decided"),
            false => debug!(event = shown, ?actions, "the job machine has decided"),
        }
        for action in actions {
            match action {
                Action::Print(text) => self.print(&text),
                Action::Signal { number, ranks } => {
                    if let Some(signal) = Signal::from_named_raw(number) {
                        self.signal(signal, ranks.iter().copied());
                    }
                }
                Action::Grace(time) => self.end.grant(time),
                Action::Announce(dead) => self.announce(dead),
                Action::Over(processes) => self.release_job(processes),
                Action::Forget(processes) => self.forget(processes),
                Action::ReportFailure { firsts, code, text } => {
                    self.links.report_failure(&firsts, code, &text)
                }
                Action::Finish(code) => self.end.finish(code),
            }
        }
    }

    fn announce(&mut self, dead: u32) {
        self.members.note_death(dead);
        self.order_all(HostOrder::Died { count: 1 });
    }

    /// Releases the state of a finished spawned job, except its segments.
    fn release_job(&mut self, processes: Range<u32>) {
        let (base, size) = (processes.start, processes.len() as u32);
        self.order_homes(processes, HostOrder::ReleaseJob { base, size });
    }

    /// Drops the segments of processes that no request can name any more.
    fn forget(&mut self, processes: Range<u32>) {
        let (base, size) = (processes.start, processes.len() as u32);
        self.order_homes(processes.clone(), HostOrder::Forget { base, size });
        self.links.forget(processes.start);
        self.members.forget(processes.clone());
        processes.for_each(|number| self.drop_forgotten(number));
    }

    pub(super) fn signal_running(&mut self, signal: Signal) {
        let running: Vec<u32> = self.members.running().collect();
        self.signal(signal, running.into_iter());
    }

    fn signal(&mut self, signal: Signal, ranks: impl Iterator<Item = u32> + Clone) {
        self.break_hold(|| "mpirun had a signal for them".into());
        let own = HostOrder::Signal { number: signal.as_raw(), ranks: ranks.clone().collect() };
        self.host.obey(own);
        self.signal_far(signal, ranks);
    }
}
