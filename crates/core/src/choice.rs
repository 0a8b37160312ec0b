//! The choice of the component and the algorithm for a collective of the program.
//!
//! It depends only on facts that all ranks of the call share: the components of the communicator
//! (`oxmpi_tuned::stack`), parameters, a rules file, and the fixed decisions. With default
//! parameters on one node, one flag skips it (`Process::needs_selection`). It never concerns the
//! library's own collectives, since a choice that the program forces must not make them fail.

mod execution;
mod servers;

pub(crate) use self::servers::{ReportedChoices, Servers, nodes_of};

use self::servers::ServingStack;
use crate::Process;
use crate::comm::Communicator;
use crate::errors::of_plan;
use crate::handed::{HandedSettings, can_hand_over};
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Combine, Memory};
use oxmpi_engine::{RankMap, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::layout::Layout;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::table::by_name;
use oxmpi_plan::{
    AlgorithmId, AnyPlan, Call, Collective, Nodes, Parameters, Setup, Shared, TeamMember,
    choose_on, make, make_on,
};
use oxmpi_tuned::components::{ComponentSet, serves};
use oxmpi_tuned::stack::{basic, reasons, smp_reason, smp_segment};
use oxmpi_tuned::{
    AgreementSettings, AlgorithmDecision, CallFacts, CollectiveFacts, CommFacts, Component,
    Components, Form, Position, Reason, Reduction, Selection, Stack,
};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Prints a message for the user. If several ranks print the same message, the job prints it once.
pub type Say = Box<dyn Fn(&str) + Send + Sync>;

pub(crate) struct Choice {
    selection: Selection,
    components: Components,
    job: Range<u32>,
    is_verbose: bool,
    say: Say,
    handed: HandedSettings,
    refused: Mutex<BTreeSet<Position>>,
    /// The parameter coll_base_associative: [`UNSET`], 0 or 1.
    associative: AtomicU8,
}

const UNSET: u8 = 2;

fn associative(stored: u8) -> Option<bool> {
    (stored != UNSET).then_some(stored != 0)
}

/// The inputs of the choice of a plan beyond the call and its communicator, as a number.
pub(crate) type SelectionKey = u8;

pub(crate) const FIXED: SelectionKey = 0;

const KEEPS_TO_FIXED: &str =
    "the collectives of a communicator with ranks of several jobs keep to the fixed decisions";

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice").field("selection", &self.selection).finish_non_exhaustive()
    }
}

struct Picked<'a> {
    component: Component,
    facts: CollectiveFacts,
    reduction: Option<Reduction>,
    decision: Option<AlgorithmDecision<'a>>,
    serving: &'a ServingStack,
}

impl Choice {
    pub(crate) fn job(&self) -> &Range<u32> {
        &self.job
    }

    pub(crate) fn is_of_job(&self, map: &RankMap) -> bool {
        (0..map.size())
            .all(|rank| map.process(rank).is_some_and(|process| self.job.contains(&process)))
    }

    pub(crate) fn silent(job: Range<u32>) -> Choice {
        Choice {
            selection: Selection::default(),
            components: Components::default(),
            job,
            is_verbose: false,
            say: Box::new(|_| ()),
            handed: HandedSettings::default(),
            refused: Mutex::default(),
            associative: AtomicU8::new(UNSET),
        }
    }

    pub(crate) fn say(&self) -> &Say {
        &self.say
    }

    pub(crate) fn handed(&self) -> &HandedSettings {
        &self.handed
    }

    pub(crate) fn selects(&self, component: Component) -> bool {
        self.components.selected.has(component)
    }

    pub(crate) fn hands_over(&self) -> bool {
        self.components.ucc.is_enabled() || self.components.hcoll.is_enabled()
    }

    fn differs_from_fixed(&self) -> bool {
        let is_tuned =
            Collective::ALL.iter().any(|collective| self.selection.is_tuned(*collective));
        is_tuned
            || self.is_verbose
            || !self.components.is_plain()
            || self.associative() == Some(false)
    }

    fn associative(&self) -> Option<bool> {
        associative(self.associative.load(Ordering::Relaxed))
    }

    fn associative_on(&self, comm: &Communicator) -> u8 {
        match comm.servers.associative.load(Ordering::Relaxed) {
            0 => self.associative.load(Ordering::Relaxed),
            own => own - 1,
        }
    }

    fn decide(&self, facts: &CollectiveFacts) -> Result<AlgorithmDecision<'_>> {
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

    fn serving<'a>(&self, comm: &'a Communicator) -> &'a ServingStack {
        comm.servers.serving.get_or_init(|| {
            let team = comm.collective_team();
            let processes = (0..team.size()).map(|rank| team.map.process(rank).unwrap_or(u32::MAX));
            let nodes = match &self.components.virtual_nodes {
                Some(nodes) => nodes.nodes(processes, &self.job),
                None => comm.servers.nodes.clone(),
            };
            let facts = CommFacts {
                ranks: team.size(),
                is_inter: comm.is_inter(),
                nodes: nodes.as_ref(),
                has_control_section: comm.blocking.is_some(),
            };
            let stack = Stack::new(&self.components, &facts, comm.servers.only);
            Box::new(ServingStack { stack, nodes, since: Default::default() })
        })
    }

    fn pick<'a>(
        &'a self,
        comm: &'a Communicator,
        call: &Call,
        (element, combine): (Option<&Arc<Layout>>, &Combine),
        (form, is_small): (Form, bool),
        setup: Shared<Setup>,
    ) -> Result<Picked<'a>> {
        let hands_over = self.hands_over() && can_hand_over(call, combine);
        self.pick_among(comm, call, (element, combine), (form, is_small, hands_over), setup)
    }

    fn pick_among<'a>(
        &'a self,
        comm: &'a Communicator,
        call: &Call,
        (element, combine): (Option<&Arc<Layout>>, &Combine),
        (form, is_small, can_hand_over): (Form, bool, bool),
        setup: Shared<Setup>,
    ) -> Result<Picked<'a>> {
        let serving = self.serving(comm);
        let facts = facts_of(comm.collective_team().size(), call, element).on(setup.0);
        let associative = associative(self.associative_on(comm));
        let reduction = match combine {
            Combine::Nothing => None,
            Combine::Kernel(kernel) => Some(Reduction { is_exact: kernel.is_exact(), associative }),
            Combine::User => Some(Reduction { is_exact: false, associative }),
        };
        let may_decide =
            serving.stack.has(Component::Tuned) && serves(Component::Tuned, facts.collective, form);
        let decision = match may_decide && !reduction.is_some_and(Reduction::is_strict) {
            true => Some(self.decide(&facts)?),
            false => None,
        };
        let is_named =
            decision.is_some_and(|decision| !matches!(decision.reason, Reason::Fixed(_)));
        let question =
            CallFacts { facts: &facts, form, is_small, is_named, reduction, can_hand_over };
        let component =
            serving.stack.pick(&question, serving.nodes.as_ref()).map_err(|unserved| {
                MpiError::new(abi::MPI_ERR_OTHER, format!("{unserved} ({})", name_of(comm)))
            })?;
        Ok(Picked { component, facts, reduction, decision, serving })
    }

    /// The settings of a communicator's agreements. Ranks of several jobs use the defaults.
    pub(crate) fn agreement(&self, comm: &Communicator) -> Result<AgreementSettings> {
        if !self.is_of_job(&comm.collective_team().map) {
            return Ok(AgreementSettings::default());
        }
        let (component, settings) = self.serving(comm).stack.agreement().map_err(|why| {
            MpiError::new(abi::MPI_ERR_OTHER, format!("{why} ({})", name_of(comm)))
        })?;
        let is_silent = !self.is_verbose || comm.collective_team().rank != 0;
        if !is_silent && !comm.reported.1.swap(true, Ordering::Relaxed) {
            (self.say)(&format!(
                "coll: agreement on {}: {settings}, component {component}",
                name_of(comm)
            ));
        }
        Ok(settings)
    }

    fn plan(&self, comm: &Communicator, call: &Call, picked: &Picked<'_>) -> Result<AnyPlan> {
        let Picked { component, facts, reduction, decision, serving } = picked;
        let team = comm.collective_team();
        let me = TeamMember { rank: team.rank, size: team.size() };
        let plain = Parameters::default();
        let missing = || {
            MpiError::new(
                abi::MPI_ERR_INTERN,
                format!("{component} has no algorithm for {}", facts.collective),
            )
        };
        let (plan, algorithm, reason) = match (component, decision, &serving.nodes) {
            (Component::Tuned, Some(decision), _) => {
                let plan =
                    make(decision.algorithm, me, call, &decision.tuning.parameters(facts.unit));
                (plan, decision.algorithm, decision.reason.to_string())
            }
            (Component::Basic | Component::Base, ..) => {
                let algorithm = basic(&self.components, facts, *reduction).ok_or_else(missing)?;
                (
                    make(algorithm, me, &call.clone().in_rank_order(), &plain),
                    algorithm,
                    "the crossovers".to_string(),
                )
            }
            (Component::Smp, _, Some(nodes)) => {
                let algorithm = by_name(facts.collective, "smp").ok_or_else(missing)?;
                let segment = smp_segment(&self.components, facts, nodes, algorithm);
                let reason = smp_reason(nodes, segment);
                let segment = segment.map_or(0, |segment| (segment / facts.unit.max(1)).max(1));
                let parameters = Parameters { segment, ..plain };
                (make_on(algorithm, me, call, &parameters, nodes), algorithm, reason)
            }
            _ => {
                let CollectiveFacts { collective, ranks, bytes, commutative, setup, .. } = *facts;
                let chosen =
                    choose_on(Shared(setup), collective, ranks, Shared(bytes), commutative);
                let plan = make(chosen.algorithm, me, call, &chosen.parameters(facts.unit));
                (plan, chosen.algorithm, Reason::Fixed(chosen).to_string())
            }
        };
        let plan = plan.map_err(of_plan)?;
        self.report_choice(comm, facts, *component, || {
            let row = AlgorithmId::algorithm(algorithm);
            format!("algorithm {} {}, by {reason}, component {component}", row.number, row.name)
        });
        Ok(plan)
    }

    fn report_choice(
        &self,
        comm: &Communicator,
        facts: &CollectiveFacts,
        by: Component,
        what: impl FnOnce() -> String,
    ) {
        if !self.is_verbose || comm.collective_team().rank != 0 {
            return;
        }
        let class = facts.bytes.checked_ilog2().map_or(0, |log| log + 1);
        let reported = &mut comm.reported.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.insert((facts.collective, class, by)) {
            let CollectiveFacts { collective, bytes, .. } = facts;
            let bytes = match facts.knows_bytes() {
                true => format!(" of {bytes} bytes"),
                false => String::new(),
            };
            (self.say)(&format!("coll: {collective}{bytes} on {}: {}", name_of(comm), what()));
        }
    }

    /// Step 7 of the selection of modules. Errors: MPI_ERR_OTHER if no component is left for a
    /// communicator.
    pub(crate) fn check_served(&self, comm: &Communicator) -> Result<()> {
        if self.components.selected == ComponentSet::ALL
            || !self.is_of_job(&comm.collective_team().map)
        {
            return Ok(());
        }
        let stack = &self.serving(comm).stack;
        if stack.serves_collectives() {
            return Ok(());
        }
        let why: Vec<_> = stack.left_out().collect();
        let text = format!(
            "no component of collectives is left for {}; {}. The parameter coll says which components are selected: 'oxmpi info --select' \
            shows the result",
            name_of(comm),
            reasons(&why)
        );
        Err(MpiError::new(abi::MPI_ERR_OTHER, text))
    }

    pub(crate) fn report_components(&self, comm: &Communicator) {
        if !self.is_verbose || comm.collective_team().rank != 0 {
            return;
        }
        if !self.is_of_job(&comm.collective_team().map) {
            let name = name_of(comm);
            return (self.say)(&format!(
                "coll: {name} of several jobs is served by: the fixed decisions, whatever parameters say"
            ));
        }
        let ServingStack { stack, nodes, .. } = self.serving(comm);
        let nodes = match nodes.as_ref().map(Nodes::how_many) {
            None => String::new(),
            Some(1) => " on 1 node".to_string(),
            Some(nodes) => format!(" on {nodes} nodes"),
        };
        (self.say)(&format!("coll: {}{nodes} is served by: {stack}", name_of(comm)));
    }
}

fn name_of(comm: &Communicator) -> String {
    let name = comm.name();
    let name = match &*name {
        [] => format!("a communicator (context {})", comm.team.collective),
        name => String::from_utf8_lossy(name).into_owned(),
    };
    match comm.collective_team().size() {
        1 => format!("{name}, 1 rank"),
        ranks => format!("{name}, {ranks} ranks"),
    }
}

fn facts_of(ranks: u32, call: &Call, element: Option<&Arc<Layout>>) -> CollectiveFacts {
    CollectiveFacts::of_call(call, ranks, element.map_or(1, |element| element.size()))
}

pub(crate) fn fixed_plan(
    team: &Team,
    call: &Call,
    element: Option<&Arc<Layout>>,
    setup: Shared<Setup>,
) -> Result<AnyPlan> {
    let me = TeamMember { rank: team.rank, size: team.size() };
    let unit = element.map_or(1, |element| element.size());
    let bytes = call.count().map(|count| count.saturating_mul(unit));
    let chosen = choose_on(setup, call.collective(), me.size, bytes, call.commutative());
    make(chosen.algorithm, me, call, &chosen.parameters(unit)).map_err(of_plan)
}

impl<F: Fabric> Process<F> {
    /// Chooses by `selection` among the algorithms of the component tuned, and by `components`
    /// among the components. With `is_verbose`, rank 0 of each communicator reports its components,
    /// and each choice once for each power of two of sizes. `associative` is coll_base_associative.
    #[must_use]
    pub fn with_selection(
        mut self,
        (selection, components): (Selection, Components),
        associative: Option<bool>,
        handed: HandedSettings,
        is_verbose: bool,
        say: Say,
    ) -> Process<F> {
        let job = self.choice.job.clone();
        let choice =
            Choice { selection, components, handed, is_verbose, say, ..Choice::silent(job) };
        choice.associative.store(associative.map_or(UNSET, u8::from), Ordering::Relaxed);
        *self.needs_selection.get_mut() =
            choice.differs_from_fixed() || self.world().is_hierarchy();
        let choice = Arc::new(choice);
        self.domain.lock().choice = choice.clone();
        for comm in [self.world(), self.own()] {
            choice.report_components(comm);
        }
        self.choice = choice;
        self
    }

    #[must_use]
    pub(crate) fn with_agreement(mut self, agreement: AgreementSettings) -> Process<F> {
        let components = Components { agreement, ..Components::default() };
        let choice = Arc::new(Choice { components, ..Choice::silent(self.choice.job.clone()) });
        self.domain.lock().choice = choice.clone();
        self.choice = choice;
        self
    }

    /// Errors: MPI_ERR_OTHER if no component serves the world communicator; the text has the reason
    /// for each component. MPI_Init then aborts.
    pub fn check_world_is_served(&self) -> Result<()> {
        self.choice.check_served(self.world())
    }

    /// The facts about processors that all ranks of a team share. The launcher sends the same facts
    /// to all ranks of a job on one node. Other jobs and nodes may have other facts.
    pub(crate) fn setup_of(&self, team: &Team) -> Shared<Setup> {
        let is_known = self.is_alike && self.is_oversubscribed;
        Shared(match is_known && self.world().team.map.contains_all(&team.map) {
            true => Setup::Oversubscribed,
            false => Setup::Dedicated,
        })
    }

    /// Sets the parameter coll_base_associative for later reductions. All ranks must call this
    /// between the same collectives.
    pub(crate) fn take_associative(&self, associative: Option<bool>) {
        self.choice.associative.store(associative.map_or(UNSET, u8::from), Ordering::Relaxed);
        if associative == Some(false) {
            self.needs_selection.store(true, Ordering::Relaxed);
        }
    }

    /// [`Process::take_associative`] for one communicator; `None` restores the value of the
    /// process. Errors: MPI_ERR_ARG for ranks of several jobs, which the fixed decisions serve.
    pub fn take_associative_on(
        &self,
        comm: &Communicator,
        associative: Option<Option<bool>>,
    ) -> Result<()> {
        if associative.is_some() && !self.is_of_this_job(comm) {
            return Err(MpiError::new(abi::MPI_ERR_ARG, KEEPS_TO_FIXED));
        }
        let stored = associative.map_or(0, |stored| stored.map_or(UNSET, u8::from) + 1);
        comm.servers.associative.store(stored, Ordering::Relaxed);
        if associative.is_some() {
            self.needs_selection.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes communicators that are made of this one from now on use this component alone; `None`
    /// restores the parameters. All ranks must call this between the same calls that make
    /// communicators. Errors: MPI_ERR_ARG for ranks of several jobs.
    pub fn name_component(&self, comm: &Communicator, component: Option<Component>) -> Result<()> {
        if component.is_some() && !self.is_of_this_job(comm) {
            return Err(MpiError::new(abi::MPI_ERR_ARG, KEEPS_TO_FIXED));
        }
        *comm.servers.heirs.lock().unwrap_or_else(PoisonError::into_inner) = component;
        self.select_if_named(component);
        Ok(())
    }

    /// Notes that an info key names a component. Errors: MPI_ERR_INFO_VALUE with several jobs.
    pub(crate) fn follow_component(
        &self,
        component: Option<Component>,
        is_of_this_job: bool,
    ) -> Result<()> {
        if component.is_some() && !is_of_this_job {
            return Err(MpiError::new(abi::MPI_ERR_INFO_VALUE, KEEPS_TO_FIXED));
        }
        self.select_if_named(component);
        Ok(())
    }

    fn select_if_named(&self, component: Option<Component>) {
        if component.is_some() {
            self.needs_selection.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_of_this_job(&self, comm: &Communicator) -> bool {
        self.world().team.map.contains_all(&comm.collective_team().map)
    }

    #[inline]
    pub(crate) fn needs_selection(&self) -> bool {
        self.needs_selection.load(Ordering::Relaxed)
    }

    /// [`Process::needs_selection`] for a communicator. False with ranks of several jobs, which may
    /// have different parameters but must choose alike.
    #[inline]
    pub(crate) fn needs_selection_on(&self, comm: &Communicator) -> bool {
        self.needs_selection() && self.is_of_this_job(comm)
    }

    pub(crate) fn selection_key_of(
        &self,
        comm: &Communicator,
        combine: &Combine,
        form: Form,
    ) -> SelectionKey {
        if !self.needs_selection_on(comm) {
            return FIXED;
        }
        let grouping = match combine {
            Combine::Nothing => 0,
            Combine::Kernel(kernel) => 1 + u8::from(kernel.is_exact()),
            Combine::User => 3,
        };
        1 + (form as u8 * 4 + grouping) * 3 + self.choice.associative_on(comm)
    }

    pub(crate) fn plan_of(
        &self,
        comm: &Communicator,
        call: &Call,
        (memory, combine): (&Memory, &Combine),
        form: Form,
    ) -> Result<AnyPlan> {
        let (team, element) = (comm.collective_team(), memory.element.as_ref());
        let setup = self.setup_of(team);
        if !self.needs_selection_on(comm) {
            return fixed_plan(team, call, element, setup);
        }
        let picked = self.choice.pick(comm, call, (element, combine), (form, false), setup)?;
        self.choice.plan(comm, call, &picked)
    }
}
