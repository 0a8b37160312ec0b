//! Collectives that another library serves: the components ucc and hcoll.
//!
//! The text is about UCC; `hcoll` has the differences. Each call is a task ([`HandedOver`]):
//!
//! 1. The calls of a communicator begin in the order of the program, which all ranks have in
//!    common.
//! 2. The first call makes the context of this process and the team (`creation`).
//! 3. For a new kind of call the ranks agree whether UCC supports it at all ranks. HCOLL's ranks
//!    agree only for calls whose lengths each rank alone knows.
//! 4. The call is posted. It is complete when UCC says so.
//!
//! If a call fails at one rank alone, the other ranks do not know it, so no plan can serve the
//! call: it and all later calls of its communicator fail at this rank ([`TeamState::Failed`]). If
//! UCC fails in a call that it has begun, or the program gives up such a call, UCC may still write
//! into its buffers, so it makes no more progress ([`Handed::poison`]).
//!
//! If all ranks know that UCC cannot serve a call, the call's own plan does. A rank may learn this
//! earlier than others, so [`oxmpi_tuned::handed`] alone decides which component serves a call, and
//! the call always takes a tag for the plan.
//!
//! UCC has no descriptor on which a process could sleep: a wait sleeps for short times
//! ([`Handed::nap`]).

mod arguments;
mod creation;
mod hcoll;
mod known;
mod libraries;
mod task;

pub(crate) use arguments::can_hand_over;
pub(crate) use libraries::{CollLibrary, HandedLibraries};
pub(crate) use libraries::{HandedSettings, LibrarySettings};
pub use libraries::{find_hcoll, find_ucc};
pub(crate) use task::HandedOver;

use crate::choice::Say;
use hcoll::HcollProcess;
use libraries::{Backend, MadeTeam, TeamInCreation};
use oxmpi_engine::{Lane, Team};
use oxmpi_fabric::Fabric;
use oxmpi_ucc::{UccCollective, UccContext, UccDatatype, UccLibrary, UccOperation};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The longest sleep of a process while UCC works on its calls.
const NAP: Duration = Duration::from_micros(50);
/// The longest sleep while only other ranks may need UCC's progress here.
const LONG_NAP: Duration = Duration::from_millis(1);

pub(crate) struct Handed {
    library: CollLibrary,
    verbose: u32,
    context: Result<Backend, String>,
    teams: HashMap<u32, CommTeam>,
    /// The numbers of teams that UCC still has although their communicators are gone.
    lost: Vec<u64>,
    active: usize,
    has_made: bool,
    /// The reason why UCC must make no more progress in this process.
    poison: Option<String>,
    /// Whether the process ends, so that other processes may have closed their connections.
    has_left: bool,
}

impl std::fmt::Debug for Handed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handed").field("library", &self.library).finish_non_exhaustive()
    }
}

/// A kind of call. All ranks of a call have the same kind, and agree once whether UCC supports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CallKind {
    kind: UccCollective,
    datatype: UccDatatype,
    operation: UccOperation,
    in_place: bool,
    /// The logarithm of the bytes if all ranks know the bytes; otherwise 0.
    class: u32,
}

struct CommTeam {
    is_first: bool,
    state: TeamState,
    /// The number of calls for the library; `begun` of these have begun.
    calls: u64,
    begun: u64,
    agreed: HashMap<CallKind, bool>,
}

enum TeamState {
    Creating(Box<TeamInCreation>),
    Made {
        team: MadeTeam,
        id: u64,
    },
    Refused,
    /// A step has failed at this rank, and the other ranks do not know it.
    Failed(String),
}

impl CommTeam {
    /// Makes all calls fail at this rank. UCC keeps its team. Returns the number of the team.
    fn fail<F: Fabric>(&mut self, why: &str, lane: &mut Lane<F>) -> Option<u64> {
        if let TeamState::Failed(_) = self.state {
            return None;
        }
        match std::mem::replace(&mut self.state, TeamState::Failed(why.to_string())) {
            TeamState::Creating(mut creation) => {
                creation.release(lane);
                creation.number()
            }
            TeamState::Made { team, id } => {
                team.abandon();
                Some(id)
            }
            TeamState::Refused | TeamState::Failed(_) => None,
        }
    }
}

impl Handed {
    pub(crate) fn new<F: Fabric>(
        library: CollLibrary,
        settings: &HandedSettings,
        (world, is_threaded): (&Arc<Team>, bool),
        lane: &mut Lane<F>,
    ) -> Handed {
        let (context, verbose) = match library {
            CollLibrary::Ucc => {
                let LibrarySettings { library, layers, verbose } = &settings.ucc;
                let context = UccLibrary::open(library)
                    .and_then(|library| UccContext::new(&library, is_threaded, layers))
                    .map_err(|error| error.to_string());
                (context.map(Backend::Ucc), *verbose)
            }
            CollLibrary::Hcoll => {
                let LibrarySettings { library, verbose, .. } = &settings.hcoll;
                let process = HcollProcess::open(library, (world, settings.job), lane);
                (process.map(Backend::Hcoll), *verbose)
            }
        };
        Handed::with(library, context, verbose)
    }

    fn with(library: CollLibrary, context: Result<Backend, String>, verbose: u32) -> Handed {
        let (teams, lost) = (HashMap::new(), Vec::new());
        let (active, has_made, poison, has_left) = (0, false, None, false);
        Handed { library, verbose, context, teams, lost, active, has_made, poison, has_left }
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.context.is_ok()
    }

    pub(crate) fn progress<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        if self.has_left || self.poison.is_some() {
            return;
        }
        match &mut self.context {
            Ok(Backend::Ucc(context)) => context.progress(),
            Ok(Backend::Hcoll(process)) => process.progress(lane),
            Err(_) => {}
        }
    }

    /// The longest sleep; `None` for no limit.
    pub(crate) fn nap(&self) -> Option<Duration> {
        if self.active > 0 {
            return Some(NAP);
        }
        (self.has_made && !self.has_left && self.poison.is_none()).then_some(LONG_NAP)
    }

    /// Ends all progress of UCC, so that UCC no longer writes into the program's memory. Calls of
    /// its teams fail. For a communicator without a team all ranks will agree that there is none.
    fn poison<F: Fabric>(&mut self, why: &str, lane: &mut Lane<F>) {
        let why = format!("{} cannot be used any more in this process: {why}", self.library);
        // A communicator without a team has plans at all ranks, so its calls need not fail.
        for (context, team) in
            self.teams.iter_mut().filter(|(_, team)| !matches!(team.state, TeamState::Refused))
        {
            self.lost.extend(team.fail(&why, lane));
            if let Ok(Backend::Hcoll(process)) = &mut self.context {
                process.abandon(*context, lane);
            }
        }
        self.poison.get_or_insert(why);
    }

    pub(crate) fn fail_team<F: Fabric>(&mut self, context: u32, why: &str, lane: &mut Lane<F>) {
        if let Some(team) = self.teams.get_mut(&context) {
            self.lost.extend(team.fail(why, lane));
        }
        if let Ok(Backend::Hcoll(process)) = &mut self.context {
            process.abandon(context, lane);
        }
    }

    fn fault(&mut self, context: u32) -> Option<String> {
        match &mut self.context {
            Ok(Backend::Hcoll(process)) => process.fault(context),
            _ => None,
        }
    }

    fn check(&self, context: u32) -> Result<(), String> {
        match self.teams.get(&context).map(|team| &team.state) {
            Some(TeamState::Failed(why)) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// The process sends no messages after this, since other processes may close their connections.
    pub(crate) fn leave(&mut self) {
        if self.has_left {
            return;
        }
        self.has_left = true;
        if let Ok(Backend::Hcoll(process)) = &mut self.context
            && self.active == 0
            && self.poison.is_none()
        {
            self.teams.values_mut().for_each(|team| team.state = TeamState::Refused);
            process.finalize();
            self.poison = Some("HCOLL has ended in this process".to_string());
        }
    }

    fn is_busy(&self, context: u32) -> bool {
        matches!(&self.context, Ok(Backend::Hcoll(process)) if process.is_busy(context))
    }

    pub(crate) fn forget<F: Fabric>(&mut self, context: u32, lane: &mut Lane<F>) {
        self.teams.remove(&context);
        if let Ok(Backend::Hcoll(process)) = &mut self.context {
            process.forget(context, lane);
        }
    }

    fn uses(&self, number: u64, but: u32) -> bool {
        self.lost.contains(&number)
            || self.teams.iter().any(|(context, team)| {
                *context != but
                    && match &team.state {
                        TeamState::Creating(creation) => creation.number() == Some(number),
                        TeamState::Made { id, .. } => *id == number,
                        TeamState::Refused | TeamState::Failed(_) => false,
                    }
            })
    }

    pub(crate) fn draw(&mut self, team: &Arc<Team>) -> u64 {
        let library = self.library;
        let comm = self.teams.entry(team.collective).or_insert_with(|| CommTeam {
            is_first: team.rank == 0,
            state: TeamState::Creating(Box::new(TeamInCreation::new(library))),
            calls: 0,
            begun: 0,
            agreed: HashMap::new(),
        });
        comm.calls += 1;
        comm.calls - 1
    }

    pub(crate) fn may_have(&self, team: &Team) -> bool {
        let is_refused =
            |comm: &CommTeam| matches!(comm.state, TeamState::Refused | TeamState::Failed(_));
        self.is_usable() && !self.teams.get(&team.collective).is_some_and(is_refused)
    }

    fn put_back(&mut self, team: &Team) {
        if let Some(comm) = self.teams.get_mut(&team.collective) {
            comm.calls -= 1;
        }
    }

    fn report(&self, say: &Say, is_first: bool, level: u32, text: &str) {
        if is_first && self.verbose >= level {
            say(&format!("coll: {}: {text}", self.library.component()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::world;

    /// Without the library; the job tests have it.
    #[test]
    fn failed_teams_stay_failed_and_refused_ones_have_plans() {
        let absent = LibrarySettings {
            library: "/nonexistent/lib.so".to_string(),
            ..LibrarySettings::default()
        };
        let settings = HandedSettings { ucc: absent.clone(), hcoll: absent, job: 1 };
        world(1, |process| {
            let team = process.world().collective_team();
            let context = team.collective;
            let mut domain = process.domain.lock();
            let lane = &mut domain.lane;
            let other = Handed::new(CollLibrary::Hcoll, &settings, (team, false), lane);
            assert!(!other.is_usable());
            let mut handed = Handed::new(CollLibrary::Ucc, &settings, (team, false), lane);
            assert!(!handed.is_usable());
            assert_eq!((handed.draw(team), handed.draw(team)), (0, 1));
            handed.put_back(team);
            assert_eq!(handed.draw(team), 1);
            handed.teams.get_mut(&context).unwrap().state = TeamState::Refused;
            handed.poison("a call was given up", lane);
            assert_eq!(handed.check(context), Ok(()));
            handed.fail_team(context, "no memory", lane);
            handed.fail_team(context, "another reason", lane);
            assert_eq!(handed.check(context), Err("no memory".to_string()));
            handed.forget(context, lane);
            assert_eq!((handed.draw(team), handed.check(context)), (0, Ok(())));
            handed.poison("another call was given up", lane);
            assert!(handed.check(context).unwrap_err().ends_with("another call was given up"));
            assert!(handed.poison.as_ref().unwrap().ends_with(": a call was given up"));
        });
    }

    #[test]
    fn sleeps_are_short_from_the_first_team_until_the_process_leaves() {
        let mut handed = Handed::with(CollLibrary::Ucc, Err("there is none".to_string()), 0);
        assert_eq!(handed.nap(), None);
        handed.active = 1;
        assert_eq!(handed.nap(), Some(NAP));
        (handed.active, handed.has_made) = (0, true);
        assert_eq!(handed.nap(), Some(LONG_NAP));
        handed.leave();
        assert_eq!(handed.nap(), None);
    }
}
