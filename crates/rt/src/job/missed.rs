//! Processes that ended well enough by themselves, and fail their job if others still count on them (rules 2 and 3).

use std::collections::HashSet;
use std::time::Duration;

use super::{Action, FAILURE_GRACE, Glimpse, Job, Phase, SIGTERM, Stage, WATCH_INTERVAL, World};
use crate::report::{self, Fault, Subject};

/// In how many looks, one after the other, others have to be seen before MPI_Finalize: who calls it within a second is not
/// ended. The first look comes at once.
pub(super) const LOOKS: u32 = 1 + (Duration::from_secs(1).as_millis() / WATCH_INTERVAL.as_millis()) as u32;

/// A process that exited with a code other than 0 after MPI_Finalize.
#[derive(Debug)]
pub(super) struct Leaver {
    rank: u32,
    code: i32,
    /// In how many looks others have been seen that may wait for it.
    looks: u32,
}

impl Job {
    /// The same, whose processes may exit with codes other than 0 before and after their use of MPI, or fail it so (rule 3).
    #[must_use]
    pub fn failing_by_codes(self, fails: bool) -> Job {
        Job { fails_by_codes: fails, ..self }
    }

    /// Whether the job wants an [`super::Event::Seen`] every [`super::WATCH_INTERVAL`].
    pub fn watches(&self) -> bool {
        // Of a job that is over those may wait that are bound to it.
        let may_wait = |world: &World| !world.is_over() || self.bonds.is_bound_to(world.processes.start);
        let is_missed = |world: &World| world.absent.is_some() || (world.leaver.is_some() && may_wait(world));
        self.left > 0 && self.worlds.values().any(|w| w.phase == Phase::Running && is_missed(w))
    }

    /// A process has exited with a code other than 0, and the others go on for the present. The first one is reported.
    pub(super) fn note_code(&mut self, rank: u32, code: i32, seen: &Glimpse, out: &mut Vec<Action>) {
        if self.code.is_none() {
            self.code = Some(code);
            let name = self.name(rank);
            let subject = Subject { name: &name, host: self.host_of(rank), seen };
            out.push(Action::Print(report::fault(&subject, &Fault::Code(code), 0, code)));
        }
        let fails = self.fails_by_codes;
        if let Some(world) = self.world_mut(rank) {
            match seen.stage {
                Stage::Untouched => _ = world.absent.get_or_insert_with(|| (rank, seen.clone())),
                _ if fails => _ = world.leaver.get_or_insert(Leaver { rank, code, looks: 0 }),
                _ => {}
            }
        }
    }

    pub(super) fn look(&mut self, seen: &[(u32, Glimpse)], is_new: bool, out: &mut Vec<Action>) {
        for world in self.in_phase(Phase::Running) {
            self.look_for_absent(world, seen, out);
        }
        if !is_new {
            return; // somebody may have come to MPI_Finalize since
        }
        for world in self.in_phase(Phase::Running) {
            self.look_for_leaver(world, seen, out);
        }
    }

    fn look_for_absent(&mut self, world: u32, seen: &[(u32, Glimpse)], out: &mut Vec<Action>) {
        let Some((rank, _)) = self.worlds.get(&world).and_then(|world| world.absent.as_ref()) else { return };
        let others: HashSet<u32> = self.running_in(&self.connected(*rank)).into_iter().collect();
        let initialized = |(rank, seen): &&(u32, Glimpse)| seen.stage.is_inside() && others.contains(rank);
        let Some(other) = seen.iter().find(initialized).map(|(rank, _)| *rank) else { return };
        let absent = self.worlds.get_mut(&world).and_then(|w| Some((w.absent.take()?, w.is_renewed)));
        if let Some(((rank, seen), is_later)) = absent {
            let other = self.name(other);
            self.fail(rank, &Fault::NoInit { other, is_later }, 1, &seen, out);
        }
    }

    fn look_for_leaver(&mut self, world: u32, seen: &[(u32, Glimpse)], out: &mut Vec<Action>) {
        let Some(&Leaver { rank, code, looks }) = self.worlds.get(&world).and_then(|w| w.leaver.as_ref())
        else {
            return;
        };
        let worlds = self.connected(rank);
        let others: HashSet<u32> = self.running_in(&worlds).into_iter().collect();
        // Who is in MPI_Finalize waits for nobody that has left it.
        let counts_on_it =
            |(rank, seen): &&(u32, Glimpse)| seen.stage == Stage::Initialized && others.contains(rank);
        let waiting: Vec<u32> = seen.iter().filter(counts_on_it).map(|(rank, _)| *rank).collect();
        let looks = if waiting.is_empty() { 0 } else { looks + 1 };
        if let Some(leaver) = self.worlds.get_mut(&world).and_then(|world| world.leaver.as_mut()) {
            leaver.looks = looks;
        }
        let (LOOKS.., Some(first)) = (looks, waiting.first()) else { return };
        let waiting = (&*self.name(*first), waiting.len() - 1);
        let report = report::left(&self.name(rank), code, waiting, others.len());
        let text = report::first_line(&report);
        out.push(Action::Print(report));
        self.end(&worlds, code, SIGTERM, FAILURE_GRACE, &text, out);
    }
}
