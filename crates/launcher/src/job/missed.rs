//! Processes that have ended without a failure of their own, and fail their job if other ranks
//! still need them (rules 2 and 3).

use std::collections::HashSet;
use std::time::Duration;

use super::{
    Action, EndPhase, FAILURE_GRACE, Glimpse, JobState, Jobs, MpiStage, SIGTERM, WATCH_INTERVAL,
};
use crate::report::{self, Fault, Subject};

/// In how many consecutive checks others must be seen before MPI_Finalize: a rank that calls it
/// within a second is not ended. The first check comes at once.
pub(super) const CHECKS: u32 =
    1 + (Duration::from_secs(1).as_millis() / WATCH_INTERVAL.as_millis()) as u32;

#[derive(Debug)]
pub(super) struct Leaver {
    rank: u32,
    code: i32,
    /// In how many checks others were seen that may wait for the process.
    checks: u32,
}

impl Jobs {
    /// Sets whether a status other than 0 before or after the use of MPI fails the job (rule 3).
    #[must_use]
    pub fn failing_by_codes(self, fails: bool) -> Jobs {
        Jobs { fails_by_codes: fails, ..self }
    }

    /// Whether the job wants an [`super::JobEvent::Seen`] every [`super::WATCH_INTERVAL`].
    pub fn watches(&self) -> bool {
        // Processes that are bound to a job that is over may wait for it.
        let may_wait =
            |world: &JobState| !world.is_over() || self.bonds.is_bound_to(world.processes.start);
        let is_missed = |world: &JobState| {
            world.absent.is_some() || (world.leaver.is_some() && may_wait(world))
        };
        self.left > 0 && self.worlds.values().any(|w| w.phase == EndPhase::Running && is_missed(w))
    }

    /// Reports a first status other than 0 after which the others continue for the present.
    pub(super) fn note_code(
        &mut self,
        rank: u32,
        code: i32,
        seen: &Glimpse,
        out: &mut Vec<Action>,
    ) {
        if self.code.is_none() {
            self.code = Some(code);
            let name = self.name(rank);
            let subject = Subject { name: &name, host: self.host_of(rank), seen };
            out.push(Action::Print(report::fault(&subject, &Fault::Code(code), 0, code)));
        }
        let fails = self.fails_by_codes;
        if let Some(world) = self.world_mut(rank) {
            match seen.stage {
                MpiStage::Untouched => _ = world.absent.get_or_insert_with(|| (rank, seen.clone())),
                _ if fails => _ = world.leaver.get_or_insert(Leaver { rank, code, checks: 0 }),
                _ => {}
            }
        }
    }

    pub(super) fn check(&mut self, seen: &[(u32, Glimpse)], is_new: bool, out: &mut Vec<Action>) {
        for world in self.in_phase(EndPhase::Running) {
            self.check_absent(world, seen, out);
        }
        if !is_new {
            return; // a rank may have come to MPI_Finalize since
        }
        for world in self.in_phase(EndPhase::Running) {
            self.check_leaver(world, seen, out);
        }
    }

    fn check_absent(&mut self, world: u32, seen: &[(u32, Glimpse)], out: &mut Vec<Action>) {
        let Some((rank, _)) = self.worlds.get(&world).and_then(|world| world.absent.as_ref())
        else {
            return;
        };
        let others: HashSet<u32> = self.running_in(&self.connected(*rank)).into_iter().collect();
        let initialized =
            |(rank, seen): &&(u32, Glimpse)| seen.stage.is_inside() && others.contains(rank);
        let Some(other) = seen.iter().find(initialized).map(|(rank, _)| *rank) else { return };
        let absent =
            self.worlds.get_mut(&world).and_then(|w| Some((w.absent.take()?, w.is_renewed)));
        if let Some(((rank, seen), is_later)) = absent {
            let other = self.name(other);
            self.fail(rank, &Fault::NoInit { other, is_later }, 1, &seen, out);
        }
    }

    fn check_leaver(&mut self, world: u32, seen: &[(u32, Glimpse)], out: &mut Vec<Action>) {
        let Some(&Leaver { rank, code, checks }) =
            self.worlds.get(&world).and_then(|w| w.leaver.as_ref())
        else {
            return;
        };
        let worlds = self.connected(rank);
        let others: HashSet<u32> = self.running_in(&worlds).into_iter().collect();
        // A rank in MPI_Finalize waits for no rank that has left it.
        let counts_on_it = |(rank, seen): &&(u32, Glimpse)| {
            seen.stage == MpiStage::Initialized && others.contains(rank)
        };
        let waiting: Vec<u32> = seen.iter().filter(counts_on_it).map(|(rank, _)| *rank).collect();
        let checks = if waiting.is_empty() { 0 } else { checks + 1 };
        if let Some(leaver) = self.worlds.get_mut(&world).and_then(|world| world.leaver.as_mut()) {
            leaver.checks = checks;
        }
        let (CHECKS.., Some(first)) = (checks, waiting.first()) else { return };
        let waiting = (&*self.name(*first), waiting.len() - 1);
        let report = report::left(&self.name(rank), code, waiting, others.len());
        let text = report::first_line(&report);
        out.push(Action::Print(report));
        self.end(&worlds, code, SIGTERM, FAILURE_GRACE, &text, out);
    }
}
