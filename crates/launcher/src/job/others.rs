//! Jobs of other launchers that are connected with jobs of this one (rule 9).

use super::{Action, EndPhase, FAILURE_GRACE, JobState, Jobs, SIGTERM};
use crate::report;

impl Jobs {
    /// A process of another launcher has ended. That launcher decides whether this is a failure,
    /// unless either side survives failures.
    pub(super) fn other_exited(&mut self, rank: u32, is_well: bool, out: &mut Vec<Action>) {
        if !self.note_end(rank) {
            return;
        }
        if !is_well && self.survives {
            let others = self.running_in(&self.connected(rank)).len();
            out.push(Action::Print(report::survived_other(&self.name(rank), others)));
            out.push(Action::Announce(rank));
        } else if let Some(JobState { phase: EndPhase::Running, processes, .. }) = self.world(rank)
            && !is_well
        {
            let (first, text) = (processes.start, format!("{} has ended", self.name(rank)));
            self.other_failed(&[first], 1, &text, out);
        }
        self.forget(out);
    }

    /// Jobs of another launcher have failed, and so have the connected jobs here.
    pub(super) fn other_failed(
        &mut self,
        firsts: &[u32],
        code: i32,
        text: &str,
        out: &mut Vec<Action>,
    ) {
        let mut worlds: Vec<u32> = firsts.iter().flat_map(|first| self.connected(*first)).collect();
        worlds.sort_unstable();
        worlds.dedup();
        let running = self.in_phase(EndPhase::Running);
        worlds.retain(|first| running.contains(first));
        // A job here may still connect before the last process there has ended.
        for first in firsts.iter().filter(|_| self.survives || !worlds.is_empty()) {
            if let Some(world) = self.worlds.get_mut(first) {
                world.phase = EndPhase::Killed;
            }
        }
        if self.survives || worlds.is_empty() {
            return;
        }
        let code = if code & 0xff == 0 { 1 } else { code & 0xff };
        let others = self.running_in(&worlds).len();
        out.push(Action::Print(report::connected(text, others, code)));
        self.end(&worlds, code, SIGTERM, FAILURE_GRACE, text, out);
    }

    /// Another launcher has disappeared. Processes whose end it has not reported are gone with it.
    pub(super) fn other_gone(&mut self, firsts: &[u32], text: &str, out: &mut Vec<Action>) {
        let missed = |first: &&u32| self.worlds.get(first).is_some_and(|world| !world.is_over());
        let missed: Vec<u32> = firsts.iter().filter(missed).copied().collect();
        let failed = |first: &&u32| {
            self.worlds.get(first).is_some_and(|world| world.phase == EndPhase::Running)
        };
        let failed: Vec<u32> = missed.iter().filter(failed).copied().collect();
        self.other_failed(&failed, 1, text, out);
        for first in missed {
            let dead: Vec<u32> =
                self.worlds.get(&first).into_iter().flat_map(JobState::running).collect();
            for rank in dead {
                self.note_end(rank);
                if self.survives {
                    out.push(Action::Announce(rank));
                }
            }
        }
        self.forget(out);
    }
}
