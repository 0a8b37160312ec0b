//! Ending jobs, and the reports (rules 4, 5, 11, 12, 14 and 15).

use std::collections::HashSet;
use std::time::Duration;

use super::{
    Action, EndPhase, Exit, FAILURE_GRACE, Glimpse, INTERRUPT_GRACE, Jobs, SIGINT, SIGKILL,
    SIGPIPE, SIGTERM, TIMEOUT_CODE, YIELD_GRACE,
};
use crate::report::{self, Fault, Subject};

impl Jobs {
    pub(super) fn aborted(
        &mut self,
        rank: u32,
        code: i32,
        text: &str,
        seen: &Glimpse,
        out: &mut Vec<Action>,
    ) {
        if self.world(rank).is_none_or(|world| world.phase != EndPhase::Running) {
            return;
        }
        // An exit status has 8 bits, and an aborted job must not exit with 0.
        let (wanted, code) = (code, if code & 0xff == 0 { 1 } else { code & 0xff });
        let worlds = self.connected(rank);
        let others = self.running_in(&worlds).iter().filter(|other| **other != rank).count();
        let name = self.name(rank);
        let subject = Subject { name: &name, host: self.host_of(rank), seen };
        let report = report::abort(&subject, text, others, (wanted, code));
        let text = report::first_line(&report);
        out.push(Action::Print(report));
        self.end(&worlds, code, SIGTERM, FAILURE_GRACE, &text, out);
    }

    pub(super) fn timed_out(
        &mut self,
        time: Duration,
        (seen, waits): (Vec<(u32, Glimpse)>, &str),
        out: &mut Vec<Action>,
    ) {
        let worlds = self.in_phase(EndPhase::Running);
        if worlds.is_empty() {
            return;
        }
        let all: Vec<u32> = self.worlds.keys().copied().collect();
        let all: HashSet<u32> = self.running_in(&all).into_iter().collect();
        let seen = seen.into_iter().filter(|(rank, _)| all.contains(rank));
        let name = |rank| match self.hosts.is_empty() {
            true => self.name(rank),
            false => format!("{} on host {}", self.name(rank), self.host_of(rank)),
        };
        let running: Vec<(String, Glimpse)> = seen.map(|(rank, seen)| (name(rank), seen)).collect();
        let host = Some(&*self.host).filter(|_| self.hosts.is_empty());
        let report = report::timeout(time, host, &running, waits);
        let text = report::first_line(&report);
        out.push(Action::Print(report));
        self.end(&worlds, TIMEOUT_CODE, SIGTERM, FAILURE_GRACE, &text, out);
    }

    pub(super) fn hung(&mut self, text: String, out: &mut Vec<Action>) {
        let worlds = self.in_phase(EndPhase::Running);
        if worlds.is_empty() {
            return;
        }
        let first = report::first_line(&text);
        let others = self.running_in(&worlds).len();
        out.push(Action::Print(text + &report::ending(others, TIMEOUT_CODE)));
        self.end(&worlds, TIMEOUT_CODE, SIGTERM, FAILURE_GRACE, &first, out);
    }

    /// Unknown messages that went through the daemon are lost: no rank can continue (rule 12).
    pub(super) fn daemon_ended(
        &mut self,
        (node, pid, host): (u32, i32, Option<&str>),
        exit: Exit,
        why: Option<&str>,
        out: &mut Vec<Action>,
    ) {
        let worlds = self.in_phase(EndPhase::Running);
        let others = self.running_in(&worlds).len();
        if others == 0 {
            return;
        }
        let code = report::shell_code(exit).max(1);
        let report =
            report::daemon((node, pid, host.unwrap_or(&self.host)), (exit, why), others, code);
        let text = report::first_line(&report);
        out.push(Action::Print(report));
        self.end(&worlds, code, SIGTERM, FAILURE_GRACE, &text, out);
    }

    pub(super) fn unread(&mut self, out: &mut Vec<Action>) {
        let worlds = self.in_phase(EndPhase::Running);
        if !worlds.is_empty() {
            let text = "nobody reads the output of this job any more";
            self.end(&worlds, 128 + SIGPIPE, SIGTERM, FAILURE_GRACE, text, out);
        }
    }

    pub(super) fn signalled(&mut self, signal: i32, out: &mut Vec<Action>) {
        let worlds = self.in_phase(EndPhase::Running);
        if worlds.is_empty() {
            return self.kill(out);
        }
        let ranks = self.running_in(&worlds);
        let report = report::interrupted(signal, ranks.len());
        let text = report::first_line(&report);
        out.push(Action::Print(report));
        self.end(&worlds, 128 + signal, signal, INTERRUPT_GRACE, &text, out);
        if signal != SIGINT && signal != SIGTERM && !ranks.is_empty() {
            // Programs that ignore the rarer signals should still get SIGTERM before SIGKILL.
            out.push(Action::Signal { number: SIGTERM, ranks });
        }
    }

    pub(super) fn fail(
        &mut self,
        rank: u32,
        fault: &Fault,
        code: i32,
        seen: &Glimpse,
        out: &mut Vec<Action>,
    ) {
        let worlds = self.connected(rank);
        self.fail_all(rank, fault, code, seen, &worlds, out);
    }

    pub(super) fn fail_all(
        &mut self,
        rank: u32,
        fault: &Fault,
        code: i32,
        seen: &Glimpse,
        worlds: &[u32],
        out: &mut Vec<Action>,
    ) {
        let (name, others) = (self.name(rank), self.running_in(worlds).len());
        let subject = Subject { name: &name, host: self.host_of(rank), seen };
        let report = report::fault(&subject, fault, others, code);
        let text = report::first_line(&report);
        out.push(Action::Print(report));
        self.end(worlds, code, SIGTERM, FAILURE_GRACE, &text, out);
    }

    /// Ends jobs of this launcher; `text` is the cause for other launchers.
    pub(super) fn end(
        &mut self,
        worlds: &[u32],
        code: i32,
        signal: i32,
        grace: Duration,
        text: &str,
        out: &mut Vec<Action>,
    ) {
        self.code.get_or_insert(code);
        let mut firsts = Vec::new();
        for first in worlds {
            if let Some(world) = self.worlds.get_mut(first)
                && world.other.is_none()
                && world.phase == EndPhase::Running
            {
                world.phase = EndPhase::Ending;
                firsts.push(*first);
            }
        }
        if self.worlds.values().any(|world| world.other.is_some()) {
            out.push(Action::ReportFailure { firsts, code, text: text.to_string() });
        }
        let ranks = self.running_in(worlds);
        if ranks.is_empty() {
            return;
        }
        // The user's signal reaches the other launcher's processes through that launcher too.
        if self.is_below_other && signal == SIGTERM && grace == FAILURE_GRACE {
            self.postponed = Some((signal, grace));
            out.push(Action::Grace(YIELD_GRACE));
        } else {
            out.push(Action::Signal { number: signal, ranks });
            out.push(Action::Grace(grace));
        }
    }

    /// The time is over that processes had to end.
    pub(super) fn grace_over(&mut self, out: &mut Vec<Action>) {
        let Some((number, grace)) = self.postponed.take() else { return self.kill(out) };
        let ranks = self.running_in(&self.in_phase(EndPhase::Ending));
        if !ranks.is_empty() {
            out.push(Action::Signal { number, ranks });
            out.push(Action::Grace(grace));
        }
    }

    pub(super) fn kill(&mut self, out: &mut Vec<Action>) {
        let worlds = self.in_phase(EndPhase::Ending);
        let ranks = self.running_in(&worlds);
        for first in worlds {
            if let Some(world) = self.worlds.get_mut(&first) {
                world.phase = EndPhase::Killed;
            }
        }
        if !ranks.is_empty() {
            out.push(Action::Signal { number: SIGKILL, ranks });
        }
    }
}
