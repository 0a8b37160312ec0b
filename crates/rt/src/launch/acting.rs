//! Doing what the state machine says.

use std::ops::Range;
use std::time::Instant;

use oxmpi_sys::poller::raise_alarm;
use rustix::process::Signal;

use super::end;
use super::launcher::Launcher;
use crate::hosts::message::ToAgent;
use crate::job::{Action, Event, Stage};

impl Launcher<'_> {
    /// Tells the state machine what has happened, and does what it says.
    pub(super) fn tell(&mut self, event: Event) {
        for action in self.job.on(event) {
            match action {
                Action::Print(text) => self.print(&text),
                Action::Signal { number, ranks } => {
                    if let Some(signal) = Signal::from_named_raw(number) {
                        self.signal(signal, ranks.iter().copied());
                    }
                }
                Action::Grace(time) => self.grace = Some(Instant::now() + time),
                Action::Announce(dead) => self.announce(dead),
                Action::Over(processes) => self.bury(processes),
                Action::Forget(processes) => self.forget(processes),
                Action::Tell { firsts, code, text } => self.tell_others_of_failure(&firsts, code, &text),
                Action::Finish(code) => self.finished = Some(code),
            }
        }
    }

    /// Tells all that run of a death, each in its own segment.
    fn announce(&mut self, dead: u32) {
        self.deaths.push(dead);
        self.announce_far();
        for member in self.members.values().filter(|member| member.running) {
            let Some(rank) = &member.rank else { continue };
            rank.segment.status().note_death();
            // The dead may have been about to wake it.
            rank.segment.ring_after_death(|| member.plug.iter().for_each(|plug| raise_alarm(&plug.alarm)));
        }
    }

    /// A spawned job is over: nothing of it is kept but its segments.
    fn bury(&mut self, processes: Range<u32>) {
        let (base, size) = (processes.start, processes.len() as u32);
        self.post_homes(&processes, &ToAgent::Bury { base, size });
        for number in processes {
            let has_left = self.glimpse(number).stage == Stage::Finalized;
            let Some(member) = self.members.get_mut(&number) else { continue };
            (member.plug, member.has_left) = (None, has_left);
            if let Some(rank) = member.rank.take() {
                end::bury(&rank, &self.guard);
                member.relic = Some(rank.segment_fd);
            }
        }
    }

    /// Nobody will ask for these processes any more, of this launcher or another.
    fn forget(&mut self, processes: Range<u32>) {
        self.parents.remove(&processes.start);
        let (base, size) = (processes.start, processes.len() as u32);
        self.post_homes(&processes, &ToAgent::Forget { base, size });
        self.links.forget(processes.start);
        for number in processes {
            if let Some(member) = self.members.get_mut(&number) {
                (member.relic, member.is_forgotten) = (None, true);
                self.drop_forgotten(number);
            }
        }
    }

    pub(super) fn signal_running(&mut self, signal: Signal) {
        let running = self.members.iter().filter(|(_, member)| member.running).map(|(rank, _)| *rank);
        let running: Vec<u32> = running.collect();
        self.signal(signal, running.into_iter());
    }

    /// Sends a signal to processes, here and on other hosts.
    fn signal(&mut self, signal: Signal, ranks: impl Iterator<Item = u32> + Clone) {
        self.break_hold(|| "mpirun had a signal for them".into());
        self.signal_here(signal, ranks.clone());
        self.signal_far(signal, ranks);
    }
}
