//! Execution of a collective by its chosen component, with the barriers of the component sync.

use super::servers::ServingStack;
use crate::Process;
use crate::comm::Communicator;
use crate::errors::{of_fault, of_plan};
use crate::failure::check_alive;
use crate::handed::{CollLibrary, HandedOver};
use crate::process::UserCall;
use crate::shmem::{MappedSection, Served};
use oxmpi_coll::{Combine, Memory};
use oxmpi_engine::RequestId;
use oxmpi_fabric::Fabric;
use oxmpi_mem::layout::Layout;
use oxmpi_objects::error::Result;
use oxmpi_plan::{AlgorithmId, AnyPlan, Call, Parameters, TeamMember, make};
use oxmpi_tuned::components::Barriers;
use oxmpi_tuned::{Component, Form};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CHOSEN_IN_MEMORY: &str = "through shared memory, as no algorithm is forced, component shmem";
impl<F: Fabric> Process<F> {
    /// Executes a collective by a given algorithm, for measurements. All ranks must pass the same
    /// algorithm. The collective must not combine by a user's function.
    pub fn execute_by(
        &self,
        comm: &Communicator,
        call: &Call,
        memory: impl Into<Memory>,
        combine: Combine,
        (algorithm, parameters): (AlgorithmId, &Parameters),
    ) -> Result<()> {
        let team = comm.collective_team();
        let me = TeamMember { rank: team.rank, size: team.size() };
        let plan = make(algorithm, me, call, parameters).map_err(of_plan)?;
        self.execute_made(comm, plan, memory.into(), combine)
    }

    /// Executes a blocking call through shared memory without a plan, with the barriers of sync.
    /// `false` means that nothing happened, because shared memory is not chosen or not possible.
    #[cold]
    pub(crate) fn execute_past_plans_if_chosen(
        &self,
        comm: &Communicator,
        (call, served): (&Call, &Served<'_>),
        of: (Option<&Arc<Layout>>, &Combine),
    ) -> Result<bool> {
        self.run_in_memory_if_chosen(comm, call, of, |place| {
            self.execute_served(comm, served, place).map(|()| true)
        })
    }

    pub(crate) fn execute_along_if_chosen(
        &self,
        comm: &Communicator,
        call: &Call,
        memory: &Memory,
    ) -> Result<bool> {
        self.run_in_memory(comm, call, (None, &Combine::Nothing), |place| {
            self.execute_along(comm, call, memory, place).map(|()| true)
        })
    }

    pub(crate) fn execute_elements_if_chosen(
        &self,
        comm: &Communicator,
        (call, memory): (&Call, &Memory),
        (combine, user): (&Combine, Option<&UserCall>),
    ) -> Result<bool> {
        self.run_in_memory(comm, call, (memory.element.as_ref(), combine), |place| {
            self.execute_elements(comm, (call, memory), (combine, user), place)
        })
    }

    fn run_in_memory(
        &self,
        comm: &Communicator,
        call: &Call,
        of: (Option<&Arc<Layout>>, &Combine),
        run: impl FnOnce(MappedSection<'_>) -> Result<bool>,
    ) -> Result<bool> {
        if !self.needs_selection_on(comm) {
            let Some(place) = self.section_of(comm)? else { return Ok(false) };
            return run(place);
        }
        self.run_in_memory_if_chosen(comm, call, of, run)
    }

    fn run_in_memory_if_chosen(
        &self,
        comm: &Communicator,
        call: &Call,
        of: (Option<&Arc<Layout>>, &Combine),
        run: impl FnOnce(MappedSection<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let setup = self.setup_of(comm.collective_team());
        let picked = self.choice.pick(comm, call, of, (Form::Blocking, true), setup)?;
        if picked.component != Component::Shmem {
            return Ok(false);
        }
        let Some(place) = self.section_of(comm)? else { return Ok(false) };
        let barriers = picked.serving.stack.barriers(call.collective(), picked.component);
        self.put_barrier(comm, picked.serving, barriers, SyncSide::Before)?;
        if !run(place)? {
            return Ok(false);
        }
        let what = || CHOSEN_IN_MEMORY.to_string();
        self.choice.report_choice(comm, &picked.facts, picked.component, what);
        self.put_barrier(comm, picked.serving, barriers, SyncSide::After)?;
        Ok(true)
    }

    #[cold]
    pub(crate) fn chooses_shared_memory(
        &self,
        comm: &Communicator,
        call: &Call,
        (memory, combine): (&Memory, &Combine),
    ) -> Result<bool> {
        let of = (memory.element.as_ref(), combine);
        let setup = self.setup_of(comm.collective_team());
        let picked = self.choice.pick(comm, call, of, (Form::Nonblocking, true), setup)?;
        let is_chosen = picked.component == Component::Shmem;
        if is_chosen {
            let what = || CHOSEN_IN_MEMORY.to_string();
            self.choice.report_choice(comm, &picked.facts, picked.component, what);
        }
        Ok(is_chosen)
    }

    /// Starts a call by UCC or hcoll; a blocking call waits. `None` if neither is chosen.
    #[cold]
    pub(crate) fn start_handed_over(
        &self,
        comm: &Communicator,
        call: &Call,
        (memory, combine): (&Memory, Combine),
        form: Form,
    ) -> Result<Option<RequestId>> {
        if !self.choice.hands_over() || !self.needs_selection_on(comm) {
            return Ok(None);
        }
        let of = (memory.element.as_ref(), &combine);
        let setup = self.setup_of(comm.collective_team());
        let picked = self.choice.pick(comm, call, of, (form, false), setup)?;
        let Some(library) = CollLibrary::of(picked.component) else { return Ok(None) };
        let tag: fn(&Communicator) -> i32 = match form {
            Form::Blocking => Communicator::next_tag,
            Form::Nonblocking | Form::Persistent => Communicator::next_immediate_tag,
        };
        let stand_in = |call: &Call, (memory, combine): (&Memory, &Combine)| {
            let of = (memory.element.as_ref(), combine);
            let picked = self.choice.pick_among(comm, call, of, (form, false, false), setup)?;
            self.choice.plan(comm, call, &picked)
        };
        // All ranks draw a number, before anything can fail at this rank alone.
        let (number, has_team) = (Cell::new(None), Cell::new(true));
        let of_process = (self.world().collective_team(), self.is_threaded());
        let draw = |comm: &Communicator| {
            let mut domain = self.domain.lock();
            let handed = domain.handed_or_new(library, self.choice.handed(), of_process);
            number.set(Some(handed.draw(comm.collective_team())));
            has_team.set(handed.may_have(comm.collective_team()));
            drop(domain);
            tag(comm)
        };
        let key = self.selection_key_of(comm, &combine, form);
        let plan = self.prepare(comm, (call.clone(), key), memory.clone(), combine, draw, stand_in);
        let Some(number) = number.get() else { return plan.map(|_| None) };

        let component = library.component();
        let what = || match has_team.get() {
            true => format!("offered to {library}, component {component}"),
            false => format!("not by {library}, which has no team for it, component {component}"),
        };
        self.choice.report_choice(comm, &picked.facts, component, what);
        let mut domain = self.domain.lock();
        let handed_over = plan.and_then(|plan| {
            check_alive(&domain.lane, comm.collective_team()).map_err(of_fault)?;
            let handed = domain.handed_or_new(library, self.choice.handed(), of_process);
            HandedOver::new(handed, (call, memory, &combine), (number, setup), plan)
        });
        let request = match handed_over {
            Ok(Ok(handed_over)) => domain.start_handed(handed_over),
            Ok(Err(plan)) => domain.start_at_once(plan, None),
            Err(error) => {
                domain.fail_handed(library, comm.collective_team(), &error.to_string());
                return Err(error);
            }
        };
        drop(domain);
        self.look(|_| ());
        Ok(Some(request))
    }

    /// Executes a blocking call by UCC or hcoll. `false` if neither is chosen.
    #[cold]
    pub(crate) fn execute_handed_over(
        &self,
        comm: &Communicator,
        call: &Call,
        (memory, combine): (&Memory, Combine),
    ) -> Result<bool> {
        let serving = self.choice.serving(comm);
        let mut barriers = None;
        if serving.stack.has_sync() {
            let setup = self.setup_of(comm.collective_team());
            let of = (memory.element.as_ref(), &combine);
            let picked = self.choice.pick(comm, call, of, (Form::Blocking, false), setup)?;
            if CollLibrary::of(picked.component).is_none() {
                return Ok(false);
            }
            barriers = serving.stack.barriers(call.collective(), picked.component);
            self.put_barrier(comm, serving, barriers, SyncSide::Before)?;
        }
        let Some(request) =
            self.start_handed_over(comm, call, (memory, combine), Form::Blocking)?
        else {
            return Ok(false);
        };
        self.wait(request)?;
        self.put_barrier(comm, serving, barriers, SyncSide::After)?;
        Ok(true)
    }

    /// Executes a blocking call by a plan. `run` receives the function that makes the plan.
    #[cold]
    pub(crate) fn execute_plan_if_chosen(
        &self,
        comm: &Communicator,
        call: &Call,
        (element, combine): (Option<&Arc<Layout>>, Combine),
        run: impl FnOnce(&dyn Fn(&Call) -> Result<AnyPlan>) -> Result<()>,
    ) -> Result<()> {
        let setup = self.setup_of(comm.collective_team());
        let picked =
            self.choice.pick(comm, call, (element, &combine), (Form::Blocking, false), setup)?;
        let barriers = picked.serving.stack.barriers(call.collective(), picked.component);
        self.put_barrier(comm, picked.serving, barriers, SyncSide::Before)?;
        run(&|call| self.choice.plan(comm, call, &picked))?;
        self.put_barrier(comm, picked.serving, barriers, SyncSide::After)
    }

    fn put_barrier(
        &self,
        comm: &Communicator,
        serving: &ServingStack,
        barriers: Option<Barriers>,
        side: SyncSide,
    ) -> Result<()> {
        let Some(barriers) = barriers else { return Ok(()) };
        let every = if side == SyncSide::Before { barriers.before } else { barriers.after };
        if every == 0 {
            return Ok(());
        }
        let since = &serving.since[side as usize];
        if since.fetch_add(1, Ordering::Relaxed) + 1 < every {
            return Ok(());
        }
        since.store(0, Ordering::Relaxed);
        self.meet_own(comm)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncSide {
    Before,
    After,
}
