//! Collectives (MPI-5.0 chapter 6): an algorithm is chosen, and its plan is executed as a run with
//! a request. On one node, blocking and short nonblocking ones need no plan (`shmem.rs`).

use crate::choice::{FIXED, SelectionKey, fixed_plan};
use crate::comm::{Communicator, taken};
use crate::errors;
use crate::failure::check_alive;
use crate::persistent_state::{PersistentCollective, PersistentOp};
use crate::process::{Process, Then, UserCall};
use crate::run_cache::Single;
use crate::shmem::{Served, is_served_along, is_served_by_elements};
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Buffers, CollError, Combine, Memory, Run, Staging};
use oxmpi_engine::{Fault, Operation, RequestId, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::{Owned, Plain};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{AnyPlan, Call, Edges, Groups, Paired, Shared};
use oxmpi_tuned::{Component, Form};
use std::sync::Arc;

impl Communicator {
    /// The processes of its collectives.
    pub fn collective_team(&self) -> &Arc<Team> {
        self.union()
    }

    /// The two groups of an intercommunicator, as ranks of [`Communicator::collective_team`].
    pub fn groups(&self) -> Option<Groups> {
        let inter = self.inter()?;
        let first = if inter.is_first { inter.local.size() } else { self.team.size() };
        Some(Groups { first })
    }
}

impl<F: Fabric> Process<F> {
    /// Starts a collective. `call` has the operation and its counts, `memory` its buffers, and
    /// `user` the function of [`Combine::User`].
    pub fn start(
        &self,
        comm: &Communicator,
        call: Call,
        memory: impl Into<Memory>,
        combine: Combine,
        user: Option<UserCall>,
    ) -> Result<RequestId> {
        let memory = memory.into();
        if let Some(request) = self.start_past_plans(comm, &call, &memory, &combine)? {
            return Ok(request);
        }
        if self.choice.hands_over()
            && let Some(request) =
                self.start_handed_over(comm, &call, (&memory, combine), Form::Nonblocking)?
        {
            return Ok(request);
        }
        let key = self.selection_key_of(comm, &combine, Form::Nonblocking);
        let plan =
            |call: &Call, of: (&Memory, &Combine)| self.plan_of(comm, call, of, Form::Nonblocking);
        let single = self.prepare(
            comm,
            (call, key),
            memory,
            combine,
            Communicator::next_immediate_tag,
            plan,
        )?;
        self.launch(single, user, None)
    }

    /// A call of the program that is ready to run: a cached earlier run of the same call, or a new
    /// run by `plan`. A call with wrong arguments takes no part and draws no tag.
    pub(crate) fn prepare(
        &self,
        comm: &Communicator,
        (call, key): (Call, SelectionKey),
        memory: Memory,
        combine: Combine,
        tag: impl FnOnce(&Communicator) -> i32,
        plan: impl FnOnce(&Call, (&Memory, &Combine)) -> Result<AnyPlan>,
    ) -> Result<Box<Single>> {
        let team = comm.collective_team();
        let cached = self.domain.lock().run_cache.take(team, (&call, key), memory.element.as_ref());
        if let Some(mut single) = cached {
            single.run.renew(tag(comm), memory, combine).map_err(of_coll)?;
            return Ok(single);
        }
        let plan = plan(&call, (&memory, &combine))?;
        let run = new_run(plan, (team, tag(comm)), memory, combine)?;
        Ok(Box::new(Single { run, call: Some((call, key)) }))
    }

    /// Starts one of the library's own collectives in a team, with a tag that no other collective
    /// there has. `then` runs after the collective and before the request is complete.
    pub(crate) fn start_in(
        &self,
        (team, tag): (&Arc<Team>, i32),
        call: Call,
        buffers: Buffers,
        combine: Combine,
        user: Option<UserCall>,
        then: Option<Then<F>>,
    ) -> Result<RequestId> {
        let plan = fixed_plan(team, &call, buffers.element.as_ref(), self.setup_of(team))?;
        let run = new_run(plan, (team, tag), buffers.into(), combine)?;
        self.launch(Box::new(Single { run, call: None }), user, then)
    }

    /// A persistent collective (`MPI_*_init`), with the arguments of [`Process::start`]. Its plan
    /// and its temporaries are made here, once. Errors: those of [`Process::start`]; MPI_ERR_OTHER
    /// if a live request has the next tag, which can happen after 2^29 calls on one communicator.
    pub fn collective_init(
        &self,
        comm: &Communicator,
        call: Call,
        memory: impl Into<Memory>,
        combine: Combine,
        user: Option<UserCall>,
    ) -> Result<RequestId> {
        let (memory, team) = (memory.into(), comm.collective_team());
        let plan = self.plan_of(comm, &call, (&memory, &combine), Form::Persistent)?;
        let (tag, is_again) = comm.next_persistent_tag();
        let mut domain = self.domain.lock();
        if is_again && domain.persistent.has_tag(team.collective, tag) {
            let text = "the communicator has had 2^29 persistent collectives since one whose request is not freed: free requests that are not used";
            return Err(MpiError::new(abi::MPI_ERR_OTHER, text));
        }
        let run = new_run(plan, (team, tag), memory, combine)?;
        let key = domain.persistent.keep(PersistentOp::Collective(Box::new(
            PersistentCollective::new(run, user, Arc::clone(&comm.persistent_starts)),
        )));
        Ok(domain.lane.open_persistent(Operation::External { context: team.collective, key }))
    }

    /// Starts a collective without a reduction as one step of a longer operation. Its request is
    /// detached. Its first messages leave at the next progress.
    pub(crate) fn start_step(
        &self,
        (team, tag): (&Arc<Team>, i32),
        call: Call,
        buffers: Buffers,
        then: Then<F>,
    ) -> Result<()> {
        let plan = fixed_plan(team, &call, buffers.element.as_ref(), self.setup_of(team))?;
        let run = new_run(plan, (team, tag), buffers.into(), Combine::Nothing)?;
        let single = Box::new(Single { run, call: None });
        self.enter(|domain| {
            let request = match check_alive(&domain.lane, team) {
                Ok(()) => domain.start(single, None, Some(then)),
                Err(fault) => domain.start_failed(fault, team, Some(then)),
            };
            domain.lane.detach(request);
        });
        Ok(())
    }

    fn launch(
        &self,
        single: Box<Single>,
        user: Option<UserCall>,
        then: Option<Then<F>>,
    ) -> Result<RequestId> {
        let mut domain = self.domain.lock();
        let request = match check_alive(&domain.lane, single.run.team()) {
            Ok(()) if then.is_none() => {
                let has_user = user.is_some();
                let request = domain.start_at_once(single, user);
                drop(domain);
                if has_user || self.is_threaded() {
                    self.look(|_| ());
                }
                return Ok(request);
            }
            Ok(()) => domain.start(single, user, then),
            Err(Fault::Revoked) => return Err(errors::of_fault(Fault::Revoked)),
            // The start must not fail because of a failed process; the request reports the failure.
            Err(fault) => domain.start_failed(fault, single.run.team(), then),
        };
        drop(domain);
        self.look(|_| ());
        Ok(request)
    }

    /// Executes a blocking collective, with the arguments of [`Process::start`].
    pub fn execute(
        &self,
        comm: &Communicator,
        call: Call,
        buffers: Buffers,
        combine: Combine,
        user: Option<UserCall>,
    ) -> Result<()> {
        if self.execute_past_plans(comm, &call, &buffers, &combine, buffers.element.as_ref())? {
            return Ok(());
        }
        self.execute_plan(comm, call, buffers, combine, user)
    }

    /// [`Process::execute`] without a plan. `false` means that nothing happened, because shared
    /// memory does not serve the call. `element` is that of a reduction; the one in `buffers` is
    /// not used.
    #[inline]
    pub fn execute_past_plans(
        &self,
        comm: &Communicator,
        call: &Call,
        buffers: &Buffers,
        combine: &Combine,
        element: Option<&Arc<Layout>>,
    ) -> Result<bool> {
        let Some(served) = Served::of(comm, call, buffers, combine) else { return Ok(false) };
        if self.needs_selection_on(comm) {
            return self.execute_past_plans_if_chosen(comm, (call, &served), (element, combine));
        }
        let Some(place) = self.section_of(comm)? else { return Ok(false) };
        self.execute_served(comm, &served, place)?;
        Ok(true)
    }

    /// Executes a call with buffers in device memory (component accelerator). `run` receives host
    /// memory instead; results are copied back after it. This does not change the choice of the
    /// component that serves the call. Errors: those of `run`; MPI_ERR_BUFFER if the component is
    /// not selected or the driver cannot copy.
    #[cold]
    pub fn execute_staged(
        &self,
        memory: Memory,
        run: impl FnOnce(Memory) -> Result<()>,
    ) -> Result<()> {
        self.check_devices(&memory)?;
        Self::run_staged(memory, run)
    }

    /// [`Process::execute_staged`] for a call that is no collective and needs no component.
    #[cold]
    pub fn run_staged(mut memory: Memory, run: impl FnOnce(Memory) -> Result<()>) -> Result<()> {
        match Staging::of(&mut memory).map_err(of_coll)? {
            None => run(memory),
            Some(staging) => {
                staging.copy_in().map_err(of_coll)?;
                run(memory)?;
                staging.copy_out().map_err(of_coll)
            }
        }
    }

    /// Errors: MPI_ERR_BUFFER if a collective cannot use this memory.
    #[inline]
    pub fn check_devices(&self, memory: &Memory) -> Result<()> {
        let is_on_device = memory.input.is_on_device() || memory.output.is_on_device();
        if !is_on_device || self.choice.selects(Component::Accelerator) {
            return Ok(());
        }
        let text = "a buffer is in the memory of a device, and the collective component accelerator, which copies it, is not selected: add \
                    it to the parameter coll";
        Err(MpiError::new(abi::MPI_ERR_BUFFER, text))
    }

    pub(crate) fn meet_own(&self, comm: &Communicator) -> Result<()> {
        let buffers = Buffers { input: UserBuf::empty(), output: UserBuf::empty(), element: None };
        self.run_own(comm, Call::Barrier, buffers, Combine::Nothing)
    }

    /// [`Process::meet_own`] where other ranks wait for this rank's answers to their requests.
    pub(crate) fn meet_with_requests(&self, comm: &Communicator) -> Result<()> {
        let buffers = Buffers { input: UserBuf::empty(), output: UserBuf::empty(), element: None };
        if let Some(mut served) = Served::of(comm, &Call::Barrier, &buffers, &Combine::Nothing)
            && let Some(place) = self.section_of(comm)?
        {
            check_alive(&self.domain.lock().lane, comm.collective_team())
                .map_err(errors::of_fault)?;
            served.has_requests = true;
            return self.execute_served(comm, &served, place);
        }
        self.meet_own(comm)
    }

    /// An allgather of words. All ranks must pass the same number of words.
    pub(crate) fn words_of_all(&self, comm: &Communicator, mine: Vec<u64>) -> Result<Vec<u64>> {
        if comm.team.size() == 1 {
            return Ok(mine);
        }
        let block = Shared(8 * mine.len());
        let all = Owned::new(vec![0_u64; mine.len() * comm.team.size() as usize]);
        let mine = Owned::new(mine);
        let buffers = Buffers { input: mine.buf(), output: all.buf(), element: None };
        self.run_own(comm, Call::Allgather { block, in_place: false }, buffers, Combine::Nothing)?;
        taken(all)
    }

    /// A broadcast. The other ranks must pass vectors of the root's length.
    pub(crate) fn words_of_root<T: Plain>(
        &self,
        comm: &Communicator,
        root: u32,
        mine: Vec<T>,
    ) -> Result<Vec<T>> {
        if comm.team.size() == 1 {
            return Ok(mine);
        }
        let call = Call::Bcast { root, bytes: Shared(size_of_val(&mine[..])) };
        let said = Owned::new(mine);
        let buffers = Buffers { input: UserBuf::empty(), output: said.buf(), element: None };
        self.run_own(comm, call, buffers, Combine::Nothing)?;
        taken(said)
    }

    pub(crate) fn run_own(
        &self,
        comm: &Communicator,
        call: Call,
        buffers: Buffers,
        combine: Combine,
    ) -> Result<()> {
        // Through shared memory, a rank that needs no data of the failed rank would succeed.
        check_alive(&self.domain.lock().lane, comm.collective_team()).map_err(errors::of_fault)?;
        if let Some(served) = Served::of(comm, &call, &buffers, &combine)
            && let Some(place) = self.section_of(comm)?
        {
            return self.execute_served(comm, &served, place);
        }
        let at = (comm.collective_team(), comm.next_tag());
        let request = self.start_in(at, call, buffers, combine, None, None)?;
        self.wait(request).map(drop)
    }

    /// [`Process::execute`] for collectives that always use a plan.
    pub fn execute_plan(
        &self,
        comm: &Communicator,
        call: Call,
        memory: impl Into<Memory>,
        combine: Combine,
        user: Option<UserCall>,
    ) -> Result<()> {
        let memory = memory.into();
        if is_served_along(comm, &call) && self.execute_along_if_chosen(comm, &call, &memory)? {
            return Ok(());
        }
        if is_served_by_elements(comm, &call, &combine, memory.element.as_ref())
            && self.execute_elements_if_chosen(comm, (&call, &memory), (&combine, user.as_ref()))?
        {
            return Ok(());
        }
        let finish = |single| {
            let request = self.launch(single, user, None)?;
            self.wait(request).map(drop)
        };
        let key = self.selection_key_of(comm, &combine, Form::Blocking);
        if key != FIXED {
            if self.choice.hands_over()
                && self.execute_handed_over(comm, &call, (&memory, combine))?
            {
                return Ok(());
            }
            let (element, named_call) = (memory.element.clone(), call.clone());
            return self.execute_plan_if_chosen(
                comm,
                &named_call,
                (element.as_ref(), combine),
                |plan| {
                    let plan = |call: &Call, _: (&Memory, &Combine)| plan(call);
                    finish(self.prepare(
                        comm,
                        (call, key),
                        memory,
                        combine,
                        Communicator::next_tag,
                        plan,
                    )?)
                },
            );
        }
        let plan =
            |call: &Call, of: (&Memory, &Combine)| self.plan_of(comm, call, of, Form::Blocking);
        finish(self.prepare(comm, (call, key), memory, combine, Communicator::next_tag, plan)?)
    }

    pub(crate) fn execute_messages(
        &self,
        comm: &Communicator,
        tag: i32,
        edges: Edges,
        memory: Memory,
    ) -> Result<()> {
        let team = comm.collective_team();
        let call = Call::Neighbor { edges: Paired(edges) };
        let plan = fixed_plan(team, &call, None, self.setup_of(team))?;
        let run = new_run(plan, (team, tag), memory, Combine::Nothing)?;
        self.execute_run(run)
    }

    fn execute_run(&self, run: Run) -> Result<()> {
        let request = self.launch(Box::new(Single { run, call: None }), None, None)?;
        self.wait(request).map(drop)
    }

    pub(crate) fn execute_made(
        &self,
        comm: &Communicator,
        plan: AnyPlan,
        memory: Memory,
        combine: Combine,
    ) -> Result<()> {
        let run = new_run(plan, (comm.collective_team(), comm.next_tag()), memory, combine)?;
        self.execute_run(run)
    }

    /// [`Process::execute`] without a user's function.
    pub fn run(
        &self,
        comm: &Communicator,
        call: Call,
        buffers: Buffers,
        combine: Combine,
    ) -> Result<()> {
        self.execute(comm, call, buffers, combine, None)
    }
}

fn new_run(
    plan: AnyPlan,
    (team, tag): (&Arc<Team>, i32),
    memory: Memory,
    combine: Combine,
) -> Result<Run> {
    Run::new(plan, team.clone(), tag, memory, combine).map_err(of_coll)
}

fn of_coll(error: CollError) -> MpiError {
    errors::of_fault(errors::fault_of(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::world;
    use oxmpi_mem::memory::Owned;
    use oxmpi_plan::Blocks;
    use std::sync::atomic::Ordering;

    /// The tag of a live request is not reused when tags wrap.
    #[test]
    fn tags_of_persistent_ones_go_round() {
        const CALLS: u64 = 12;
        world(3, |p| {
            let comm = p.dup(p.world()).unwrap();
            comm.persistents.store((1 << 29) - 5, Ordering::Relaxed);
            let mine: Vec<_> = (0..CALLS).map(|_| Owned::new(vec![0_u64])).collect();
            let all: Vec<_> = (0..CALLS).map(|_| Owned::new(vec![0_u64; 3])).collect();
            let init = |call: usize| {
                let buffers =
                    Buffers { input: mine[call].buf(), output: all[call].buf(), element: None };
                let what = Call::Allgather { block: Shared(8), in_place: false };
                p.collective_init(&comm, what, buffers, Combine::Nothing, None)
            };
            let requests: Vec<_> = (0..CALLS as usize).map(|call| init(call).unwrap()).collect();
            for round in 0..3_u64 {
                for (call, mine) in mine.iter().enumerate() {
                    let word = [u64::from(comm.team.rank) + 100 * call as u64 + 10_000 * round];
                    mine.buf().unpack(0, oxmpi_mem::memory::view(&word));
                }
                for at in 0..CALLS as usize {
                    let at = (at * 5 + comm.team.rank as usize + round as usize) % CALLS as usize;
                    p.start_request(requests[at].raw()).unwrap();
                }
                for (call, request) in requests.iter().enumerate() {
                    p.wait(*request).unwrap();
                    let mut got = [0_u8; 24];
                    all[call].buf().pack(0, (&mut got[..]).into());
                    let wanted =
                        (0..3).flat_map(|r| (r + 100 * call as u64 + 10_000 * round).to_ne_bytes());
                    assert!(got.into_iter().eq(wanted));
                }
            }
            // The fourth request has tag number 2^29 - 2.
            comm.persistents.store((2 << 29) - 3, Ordering::Relaxed);
            assert_eq!(init(0).unwrap_err().class(), abi::MPI_ERR_OTHER);
            p.free_request(requests[3].raw()).unwrap();
            comm.persistents.store((2 << 29) - 3, Ordering::Relaxed);
            let again = init(0).unwrap();
            for request in
                requests.iter().enumerate().filter(|(n, _)| *n != 3).map(|(_, r)| *r).chain([again])
            {
                p.free_request(request.raw()).unwrap();
            }
        });
    }

    #[test]
    fn tags_go_round() {
        const CALLS: u64 = 12;
        for before in [(1 << 30) - 5, u32::MAX - 5] {
            world(4, |p| {
                let comm = p.dup(p.world()).unwrap();
                comm.immediates.store(before, Ordering::Relaxed);
                let started: Vec<_> = (0..CALLS)
                    .map(|call| {
                        let mine = Owned::new(vec![u64::from(comm.team.rank) + 100 * call; 4]);
                        let all = Owned::new(vec![0_u64; 4]);
                        let buffers =
                            Buffers { input: mine.buf(), output: all.buf(), element: None };
                        // Shared memory does not serve this call. Collectives there have no tags.
                        let blocks = || Paired(Blocks::new([8; 4]).unwrap());
                        let what =
                            Call::Alltoallv { send: blocks(), receive: blocks(), in_place: false };
                        (p.start(&comm, what, buffers, Combine::Nothing, None).unwrap(), call, all)
                    })
                    .collect();
                assert!(comm.next_immediate_tag() & 0xffff < 10, "the tags have gone round");
                for (request, call, all) in started.into_iter().rev() {
                    p.wait(request).unwrap();
                    let got = all.into_vec().ok().unwrap();
                    assert_eq!(got, (0..4).map(|rank| rank + 100 * call).collect::<Vec<_>>());
                }
            });
        }
    }
}
