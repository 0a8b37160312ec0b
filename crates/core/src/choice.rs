//! Which algorithm serves a collective of the program: what parameters and a rules file say, then the fixed cut-offs.
//!
//! The choice is made once for each call, from what all its ranks know alike. Where neither parameters nor a rules file say
//! anything and nobody wants to hear of it, there is no [`Choice`] at all, and small collectives are as short as ever. The
//! collectives by which the library itself agrees on something are always served by the fixed cut-offs: what is forced for
//! the program must not make them fail.

use crate::Process;
use crate::comm::Communicator;
use crate::errors::of_plan;
use oxmpi_abi::constants as abi;
use oxmpi_coll::Memory;
use oxmpi_engine::Team;
use oxmpi_fabric::Fabric;
use oxmpi_mem::layout::Layout;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{AnyPlan, Call, Collective, Member, Setup, Shared, choose_on, make};
use oxmpi_tuned::{Decision, Facts, Position, Reason, Selection};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Tells the user something, once for the job whichever ranks tell it.
pub type Say = Box<dyn Fn(&str) + Send + Sync>;

/// What is chosen by, if not by the fixed cut-offs alone.
pub(crate) struct Choice {
    selection: Selection,
    /// Whether the first rank of each communicator says what served its collectives.
    is_verbose: bool,
    say: Say,
    /// Rules that were told not to fit.
    refused: Mutex<BTreeSet<Position>>,
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice").field("selection", &self.selection).finish_non_exhaustive()
    }
}

/// What a communicator has said already: collectives, classes of sizes, whether they went past the plans.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeSet<(Collective, u32, bool)>>);

impl Choice {
    /// `None` if it would not differ from the fixed cut-offs.
    pub(crate) fn new(selection: Selection, is_verbose: bool, say: Say) -> Option<Box<Choice>> {
        let is_tuned = Collective::ALL.iter().any(|collective| selection.is_tuned(*collective));
        (is_tuned || is_verbose)
            .then(|| Box::new(Choice { selection, is_verbose, say, refused: Mutex::default() }))
    }

    /// The decision for a call. A rule that does not fit is told once.
    fn decide(&self, facts: &Facts) -> Result<Decision<'_>> {
        let decision = self
            .selection
            .decide(facts)
            .map_err(|illegal| MpiError::new(abi::MPI_ERR_OTHER, illegal.to_string()))?;
        if let Some(refused) = &decision.refused
            && self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(refused.at)
        {
            (self.say)(&refused.to_string());
        }
        Ok(decision)
    }

    /// The plan of a call for this process, and a word about it.
    fn plan(&self, comm: &Communicator, call: &Call, facts: &Facts) -> Result<AnyPlan> {
        let decision = self.decide(facts)?;
        let team = comm.collective_team();
        let me = Member { rank: team.rank, size: team.size() };
        let parameters = decision.tuning.parameters(facts.unit);
        let plan = make(decision.algorithm, me, call, &parameters).map_err(of_plan)?;
        self.tell(comm, facts, false, || {
            let row = decision.algorithm.algorithm();
            format!("algorithm {} {}, by {}", row.number, row.name, decision.reason)
        });
        Ok(plan)
    }

    /// Says what serves such calls, if this rank shall and has not done so.
    fn tell(&self, comm: &Communicator, facts: &Facts, past_plans: bool, what: impl FnOnce() -> String) {
        if !self.is_verbose || comm.collective_team().rank != 0 {
            return;
        }
        let class = facts.bytes.checked_ilog2().map_or(0, |log| log + 1);
        let told = &mut comm.told.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert((facts.collective, class, past_plans)) {
            let name = comm.name();
            let name = match &*name {
                [] => format!("a communicator (context {})", comm.team.collective),
                name => String::from_utf8_lossy(name).into_owned(),
            };
            let Facts { collective, ranks, bytes, .. } = facts;
            let bytes = match facts.knows_bytes() {
                true => format!(" of {bytes} bytes"),
                false => String::new(),
            };
            let ranks = if *ranks == 1 { "1 rank".to_string() } else { format!("{ranks} ranks") };
            (self.say)(&format!("coll: {collective}{bytes} on {name}, {ranks}: {}", what()));
        }
    }
}

fn facts_of(ranks: u32, call: &Call, element: Option<&Arc<Layout>>) -> Facts {
    // The element's size is the same on all ranks, as counts are.
    Facts::of_call(call, ranks, element.map_or(1, |element| element.size()))
}

/// The plan that the fixed cut-offs give a call of the library's own, or of a program that has tuned nothing.
pub(crate) fn fixed_plan(
    team: &Team,
    call: &Call,
    element: Option<&Arc<Layout>>,
    setup: Shared<Setup>,
) -> Result<AnyPlan> {
    let me = Member { rank: team.rank, size: team.size() };
    let unit = element.map_or(1, |element| element.size());
    let bytes = call.count().map(|count| count.saturating_mul(unit));
    let chosen = choose_on(setup, call.collective(), me.size, bytes, call.commutative());
    make(chosen.algorithm, me, call, &chosen.parameters(unit)).map_err(of_plan)
}

impl<F: Fabric> Process<F> {
    /// Chooses by `selection`. If `is_verbose`, rank 0 of each communicator says which algorithm served a collective and
    /// why, once for each power of two of sizes.
    #[must_use]
    pub fn with_selection(mut self, selection: Selection, is_verbose: bool, say: Say) -> Process<F> {
        self.choice = Choice::new(selection, is_verbose, say);
        self
    }

    /// What all processes of a team know alike of their processors. The launcher has told all of a job the same, and those of
    /// another one perhaps something else.
    pub(crate) fn setup_of(&self, team: &Team) -> Shared<Setup> {
        Shared(match self.is_crowded && self.world().team.map.contains_all(&team.map) {
            true => Setup::Crowded,
            false => Setup::Roomy,
        })
    }

    /// The plan of a call of the program.
    pub(crate) fn plan_of(&self, comm: &Communicator, call: &Call, memory: &Memory) -> Result<AnyPlan> {
        let (team, element) = (comm.collective_team(), memory.element.as_ref());
        match &self.choice {
            None => fixed_plan(team, call, element, self.setup_of(team)),
            Some(choice) => {
                let facts = facts_of(team.size(), call, element).on(self.setup_of(team).0);
                choice.plan(comm, call, &facts)
            }
        }
    }

    /// Whether a small collective of the program may go past the plans: neither a parameter nor a rule names an algorithm.
    ///
    /// # Errors
    /// A parameter forces an algorithm that cannot serve the call.
    #[inline]
    pub(crate) fn may_go_past_plans(
        &self,
        comm: &Communicator,
        call: &Call,
        element: Option<&Arc<Layout>>,
    ) -> Result<bool> {
        match &self.choice {
            None => Ok(true),
            Some(choice) => choice.leaves_to_fixed(comm, call, element),
        }
    }

    /// A small collective went past the plans.
    #[inline]
    pub(crate) fn went_past_plans(&self, comm: &Communicator, call: &Call, element: Option<&Arc<Layout>>) {
        if let Some(choice) = &self.choice {
            let facts = facts_of(comm.team.size(), call, element);
            let what = "the control section of shared memory, as no algorithm is forced";
            choice.tell(comm, &facts, true, || what.to_string());
        }
    }
}

impl Choice {
    #[cold]
    fn leaves_to_fixed(
        &self,
        comm: &Communicator,
        call: &Call,
        element: Option<&Arc<Layout>>,
    ) -> Result<bool> {
        let decision = self.decide(&facts_of(comm.team.size(), call, element))?;
        Ok(matches!(decision.reason, Reason::Fixed(_)))
    }
}
