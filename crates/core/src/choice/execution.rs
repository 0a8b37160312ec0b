//! Running a collective by what was chosen for it, with the barriers that the component sync puts around it.

use super::servers::Asked;
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

impl<F: Fabric> Process<F> {
    /// Runs a collective that combines nothing by a user's function to its end, by an algorithm that the caller names whatever
    /// is chosen otherwise: for measuring. All ranks name the same.
    ///
    /// # Errors
    /// The algorithm cannot serve the call; as [`Process::execute`].
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

    /// Runs a blocking call past the plans, with what sync puts around it, if shared memory serves it and has a place for it;
    /// `false`: nothing happened.
    ///
    /// # Errors
    /// No component serves the call, or it fails.
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

    /// Runs a blocking call for blocks of different lengths, or along the edges of a graph, through shared memory, if that is there
    /// and nothing else is chosen; `false`: nothing happened.
    ///
    /// # Errors
    /// As [`Process::execute_past_plans_if_chosen`].
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

    /// The same of a blocking reduction that goes element by element.
    ///
    /// # Errors
    /// As there.
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

    /// Has `run` run a call through shared memory, if that is there and nothing else is chosen.
    fn run_in_memory(
        &self,
        comm: &Communicator,
        call: &Call,
        of: (Option<&Arc<Layout>>, &Combine),
        run: impl FnOnce(MappedSection<'_>) -> Result<bool>,
    ) -> Result<bool> {
        if !self.is_choosy_on(comm) {
            let Some(place) = self.section_of(comm)? else { return Ok(false) };
            return run(place);
        }
        self.run_in_memory_if_chosen(comm, call, of, run)
    }

    /// As [`Process::run_in_memory`] where something may be chosen, with what sync puts around the call.
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
        let barriers = picked.asked.stack.barriers(call.collective(), picked.component);
        self.put_barrier(comm, picked.asked, barriers, Side::Before)?;
        if !run(place)? {
            return Ok(false);
        }
        let what = "through shared memory, as no algorithm is forced, component shmem";
        self.choice.tell(comm, &picked.facts, picked.component, || what.to_string());
        self.put_barrier(comm, picked.asked, barriers, Side::After)?;
        Ok(true)
    }

    /// Whether a nonblocking call that shared memory can serve shall go there.
    ///
    /// # Errors
    /// No component serves the call.
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
            let what = "through shared memory, as no algorithm is forced, component shmem";
            self.choice.tell(comm, &picked.facts, picked.component, || what.to_string());
        }
        Ok(is_chosen)
    }

    /// Starts a call of the program that is handed to a library, if that is chosen for it; `None`: it is not, and nothing happened. A blocking
    /// one is one that is waited for.
    ///
    /// # Errors
    /// No component serves the call, or there is no room for it.
    #[cold]
    pub(crate) fn start_handed_over(
        &self,
        comm: &Communicator,
        call: &Call,
        (memory, combine): (&Memory, Combine),
        form: Form,
    ) -> Result<Option<RequestId>> {
        if !self.choice.hands_over() || !self.is_choosy_on(comm) {
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
        // The tag and the number are drawn before anything can fail at this rank alone.
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
        let way = self.way_of(comm, &combine, form);
        let plan = self.prepare(comm, (call.clone(), way), memory.clone(), combine, draw, stand_in);
        // Without a number it has wrong arguments, and takes no part.
        let Some(number) = number.get() else { return plan.map(|_| None) };

        let component = library.component();
        let what = || match has_team.get() {
            true => format!("offered to {library}, component {component}"),
            false => format!("not by {library}, which has no team for it, component {component}"),
        };
        self.choice.tell(comm, &picked.facts, component, what);
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
        // Its first messages leave now.
        self.look(|_| ());
        Ok(Some(request))
    }

    /// Runs a blocking call of the program by a library, with what sync puts around it, if that is chosen for it; `false`: it is not, and
    /// nothing happened.
    ///
    /// # Errors
    /// As [`Process::start_handed_over`]; it fails.
    #[cold]
    pub(crate) fn execute_handed_over(
        &self,
        comm: &Communicator,
        call: &Call,
        (memory, combine): (&Memory, Combine),
    ) -> Result<bool> {
        let asked = self.choice.asked(comm);
        let mut barriers = None;
        if asked.stack.has_sync() {
            let setup = self.setup_of(comm.collective_team());
            let of = (memory.element.as_ref(), &combine);
            let picked = self.choice.pick(comm, call, of, (Form::Blocking, false), setup)?;
            if CollLibrary::of(picked.component).is_none() {
                return Ok(false);
            }
            barriers = asked.stack.barriers(call.collective(), picked.component);
            self.put_barrier(comm, asked, barriers, Side::Before)?;
        }
        let Some(request) = self.start_handed_over(comm, call, (memory, combine), Form::Blocking)? else {
            return Ok(false);
        };
        self.wait(request)?;
        self.put_barrier(comm, asked, barriers, Side::After)?;
        Ok(true)
    }

    /// Runs a blocking call of the program by a plan, with what sync puts around it. `run` gets what makes the plan, if it needs
    /// one.
    ///
    /// # Errors
    /// No component serves the call, or it fails.
    #[cold]
    pub(crate) fn execute_plan_if_chosen(
        &self,
        comm: &Communicator,
        call: &Call,
        (element, combine): (Option<&Arc<Layout>>, Combine),
        run: impl FnOnce(&dyn Fn(&Call) -> Result<AnyPlan>) -> Result<()>,
    ) -> Result<()> {
        let setup = self.setup_of(comm.collective_team());
        let picked = self.choice.pick(comm, call, (element, &combine), (Form::Blocking, false), setup)?;
        let barriers = picked.asked.stack.barriers(call.collective(), picked.component);
        self.put_barrier(comm, picked.asked, barriers, Side::Before)?;
        run(&|call| self.choice.plan(comm, call, &picked))?;
        self.put_barrier(comm, picked.asked, barriers, Side::After)
    }

    /// The barrier of sync on one side of an operation, if it is its turn.
    fn put_barrier(
        &self,
        comm: &Communicator,
        asked: &Asked,
        barriers: Option<Barriers>,
        side: Side,
    ) -> Result<()> {
        let Some(barriers) = barriers else { return Ok(()) };
        let every = if side == Side::Before { barriers.before } else { barriers.after };
        if every == 0 {
            return Ok(());
        }
        let since = &asked.since[side as usize];
        if since.fetch_add(1, Ordering::Relaxed) + 1 < every {
            return Ok(());
        }
        since.store(0, Ordering::Relaxed);
        self.meet_own(comm)
    }
}

/// A side of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    After,
}
