//! Collectives that are handed to another library: the components ucc and hcoll.
//!
//! What is said here of UCC holds for HCOLL too, whose teams are called contexts; `hcoll` says what is different.
//!
//! The first call that is handed over makes the context of this process, and the team of its communicator. Nothing of this may wait, as
//! the call may be a nonblocking one; so a call that is handed over is a task ([`HandedOver`]) that goes through all of it:
//!
//! 1. The calls of a communicator begin in the order in which they were made: that is the same at all ranks, and UCC wants it.
//! 2. The first makes the team (`creation`): the ranks agree that UCC is there at all of them, on the number of the team, and exchange what
//!    UCC wants exchanged, by allgathers of the engine.
//! 3. A call of a kind that has not been made before is initialised, and the ranks agree whether UCC supports it at all of them. What is
//!    agreed once is kept. HCOLL answers alike at all ranks, by its interface, so they need not agree; but of calls whose lengths each rank
//!    knows for itself they say whether HCOLL can count them.
//! 4. It is posted, and over when UCC says so.
//!
//! What fails at one rank alone, so that the others know nothing of it, must not be served by a plan: the call fails, and so do all later
//! calls of its communicator at this rank ([`TeamState::Failed`]). Where UCC fails at, or is left alone with, a call that it has begun, it
//! may still write into its buffers: it is never let go on again, and serves no communicator any more ([`Handed::poison`]).
//!
//! Where UCC cannot serve the call at some rank and all know it, the plan does that every such call has in hand. Whether that is so a rank
//! may learn earlier than others, so who serves a call is decided by [`oxmpi_tuned::handed`] alone, and the tag of the plan is drawn in any case.
//!
//! UCC has no descriptor to sleep on: while it may have something to do, waits are cut into naps ([`Handed::nap`]).

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
use libraries::{Backend, InMaking, MadeTeam};
use oxmpi_engine::{Lane, Team};
use oxmpi_fabric::Fabric;
use oxmpi_ucc::{UccCollective, UccContext, UccDatatype, UccLibrary, UccOperation};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a process sleeps at most while UCC works for it.
const NAP: Duration = Duration::from_micros(50);
/// How long it sleeps at most while only others may need its part of UCC.
const LONG_NAP: Duration = Duration::from_millis(1);

/// What a process has of a library.
pub(crate) struct Handed {
    library: CollLibrary,
    /// How much is said.
    verbose: u32,
    context: Result<Backend, String>,
    /// The teams, by the collective context of the communicator.
    teams: HashMap<u32, CommTeam>,
    /// Numbers of teams that UCC keeps though no communicator has them any more.
    lost: Vec<u64>,
    /// Calls that were handed over and are not over.
    active: usize,
    /// A team was made: others may need this process's part of UCC.
    has_made: bool,
    /// Why UCC must do nothing any more in this process.
    poison: Option<String>,
    /// The process is about to end: others may have closed their connections.
    has_left: bool,
}

impl std::fmt::Debug for Handed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handed").field("library", &self.library).finish_non_exhaustive()
    }
}

/// A kind of call of which the ranks agree once whether UCC supports it: the same of a call at all its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sort {
    kind: UccCollective,
    datatype: UccDatatype,
    operation: UccOperation,
    in_place: bool,
    /// The power of two of its bytes, where all ranks know them.
    class: u32,
}

/// What a communicator has of UCC.
struct CommTeam {
    /// Its first rank says what is to be said.
    is_first: bool,
    state: TeamState,
    /// How many calls were handed over, and how many of them have begun.
    calls: u64,
    begun: u64,
    agreed: HashMap<Sort, bool>,
}

/// How its team stands.
enum TeamState {
    Making(Box<InMaking>),
    Made {
        team: MadeTeam,
        id: u64,
    },
    /// There is none at any rank, and never will be.
    Refused,
    /// Something has failed at this rank, of which the others know nothing: none of its calls can be served.
    Failed(String),
}

impl CommTeam {
    /// Nothing of it can be served at this rank any more. UCC keeps what it has of the team: its number, if it has one.
    fn fail<F: Fabric>(&mut self, why: &str, lane: &mut Lane<F>) -> Option<u64> {
        if let TeamState::Failed(_) = self.state {
            return None;
        }
        match std::mem::replace(&mut self.state, TeamState::Failed(why.to_string())) {
            TeamState::Making(mut making) => {
                making.release(lane);
                making.number()
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
    /// Opens the library and makes the context, if it can. `world` is the team of the job's processes.
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

    /// Whether there is something that may have to go on.
    pub(crate) fn is_usable(&self) -> bool {
        self.context.is_ok()
    }

    /// Lets the library go on.
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

    /// How long a process may sleep at most; `None`: UCC has nothing to do. Others may need its part of UCC as long as it has not left,
    /// even behind the end of all its teams.
    pub(crate) fn nap(&self) -> Option<Duration> {
        if self.active > 0 {
            return Some(NAP);
        }
        (self.has_made && !self.has_left && self.poison.is_none()).then_some(LONG_NAP)
    }

    /// UCC must do nothing any more in this process: it may write where it must not. Its teams stay as they are, and calls of them fail. Of
    /// communicators that have none yet all ranks will agree that there is none.
    fn poison<F: Fabric>(&mut self, why: &str, lane: &mut Lane<F>) {
        let why = format!("{} cannot be used any more in this process: {why}", self.library);
        // Where there is none, plans serve at all ranks.
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

    /// Nothing more of the communicator of this collective context can be served at this rank.
    pub(crate) fn fail_team<F: Fabric>(&mut self, context: u32, why: &str, lane: &mut Lane<F>) {
        if let Some(team) = self.teams.get_mut(&context) {
            self.lost.extend(team.fail(why, lane));
        }
        if let Ok(Backend::Hcoll(process)) = &mut self.context {
            process.abandon(context, lane);
        }
    }

    /// Why the library does not come to an end with what it does for a communicator, though it says nothing.
    fn fault(&mut self, context: u32) -> Option<String> {
        match &mut self.context {
            Ok(Backend::Hcoll(process)) => process.fault(context),
            _ => None,
        }
    }

    /// Whether calls of the communicator of this collective context can be served: by UCC, or else by a plan at all ranks.
    ///
    /// # Errors
    /// They cannot at this rank, and why.
    fn check(&self, context: u32) -> Result<(), String> {
        match self.teams.get(&context).map(|team| &team.state) {
            Some(TeamState::Failed(why)) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// The process sends nothing more: from now on others may close their connections.
    pub(crate) fn leave(&mut self) {
        if self.has_left {
            return;
        }
        self.has_left = true;
        if let Ok(Backend::Hcoll(process)) = &mut self.context
            && self.active == 0
            && self.poison.is_none()
        {
            // Their contexts go with them. A session that wakes this process finds that it has left.
            self.teams.values_mut().for_each(|team| team.state = TeamState::Refused);
            process.finalize();
            self.poison = Some("HCOLL has ended in this process".to_string());
        }
    }

    /// Whether the library still sends something in the communicator of this collective context.
    fn is_busy(&self, context: u32) -> bool {
        matches!(&self.context, Ok(Backend::Hcoll(process)) if process.is_busy(context))
    }

    /// The communicator of this collective context is gone, and nothing is under way in it.
    pub(crate) fn forget<F: Fabric>(&mut self, context: u32, lane: &mut Lane<F>) {
        self.teams.remove(&context);
        if let Ok(Backend::Hcoll(process)) = &mut self.context {
            process.forget(context, lane);
        }
    }

    /// The numbers of teams that this process uses.
    fn uses(&self, number: u64, but: u32) -> bool {
        self.lost.contains(&number)
            || self.teams.iter().any(|(context, team)| {
                *context != but
                    && match &team.state {
                        TeamState::Making(making) => making.number() == Some(number),
                        TeamState::Made { id, .. } => *id == number,
                        TeamState::Refused | TeamState::Failed(_) => false,
                    }
            })
    }

    /// The next number of a call of this team.
    pub(crate) fn draw(&mut self, team: &Arc<Team>) -> u64 {
        let library = self.library;
        let comm = self.teams.entry(team.collective).or_insert_with(|| CommTeam {
            is_first: team.rank == 0,
            state: TeamState::Making(Box::new(InMaking::new(library))),
            calls: 0,
            begun: 0,
            agreed: HashMap::new(),
        });
        comm.calls += 1;
        comm.calls - 1
    }

    /// Whether calls of this team may be served by the library, as far as this rank knows.
    pub(crate) fn may_have(&self, team: &Team) -> bool {
        let is_refused = |comm: &CommTeam| matches!(comm.state, TeamState::Refused | TeamState::Failed(_));
        self.is_usable() && !self.teams.get(&team.collective).is_some_and(is_refused)
    }

    /// Takes back the last number that was drawn, at all ranks.
    fn put_back(&mut self, team: &Team) {
        if let Some(comm) = self.teams.get_mut(&team.collective) {
            comm.calls -= 1;
        }
    }

    /// Says something if the user wants to hear so much of it.
    fn tell(&self, say: &Say, is_first: bool, level: u32, text: &str) {
        if is_first && self.verbose >= level {
            say(&format!("coll: {}: {text}", self.library.component()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::world;

    /// Without the library, which a test of the whole has: what a rank knows of its communicators.
    #[test]
    fn what_fails_at_one_rank_stays_failed_and_what_plans_serve_does_not() {
        let absent =
            LibrarySettings { library: "/nonexistent/lib.so".to_string(), ..LibrarySettings::default() };
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
            // Of the next communicator with this context nothing is known.
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
