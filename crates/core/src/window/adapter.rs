//! Accesses by the adapter of the route to a target, which reads and writes the window without the
//! target's help ([`RemoteAccess`](oxmpi_fabric::RemoteAccess)).
//!
//! Each rank opens its memory when the window is made, and sends its key to all ranks; 0 means not
//! open. An access whose end is reported here is complete at the target, so flushes, unlocks and
//! the ends of epochs wait for these reports before they send a message to the target.

use super::service::Service;
use super::words::{Accumulates, WordOperation, WordOwner};
use super::{Target, Window};
use crate::Process;
use crate::comm::Communicator;
use crate::window::message::TargetPlace;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Completion, Fault, Lane, RequestId};
use oxmpi_fabric::{AccessEnd, Direction, Fabric, RemotePlace};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::exposed::Exposed;
use oxmpi_mem::layout::Layout;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_rt_client::waiting::Need;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct AdapterAccess {
    pub(super) rank: u32,
    pub(super) user: Option<RequestId>,
}

#[derive(Debug, Default)]
pub(super) struct AdapterAccesses {
    all: HashMap<u64, AdapterAccess>,
    to: BTreeMap<u32, BTreeSet<u64>>,
    /// The first error of each rank, until a flush or the end of an epoch reports it.
    pub(super) failed: BTreeMap<u32, String>,
    data: HashMap<u64, u64>,
    pub(super) parts: HashMap<u64, WordOperation>,
    pub(super) accumulates: BTreeMap<u32, Accumulates>,
    last: u64,
}

impl AdapterAccesses {
    pub(super) fn are_over(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn begin(&mut self, access: AdapterAccess) -> u64 {
        self.last += 1;
        self.to.entry(access.rank).or_default().insert(self.last);
        self.all.insert(self.last, access);
        self.last
    }

    fn end(&mut self, number: u64) -> Option<AdapterAccess> {
        let access = self.all.remove(&number)?;
        if let Some(numbers) = self.to.get_mut(&access.rank) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.to.remove(&access.rank);
            }
        }
        Some(access)
    }

    /// The newest access to a rank that is under way; 0 if there is none.
    fn newest(&self, rank: u32) -> u64 {
        self.to.get(&rank).and_then(|numbers| numbers.last().copied()).unwrap_or(0)
    }

    /// Whether an access to a rank is under way that is not newer than the access `newest`.
    fn has_one(&self, rank: u32, newest: u64) -> bool {
        self.to.get(&rank).and_then(BTreeSet::first).is_some_and(|oldest| *oldest <= newest)
    }
}

impl Service {
    /// Begins a put or get. `None` means that the adapter does not take it.
    fn access<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        (rank, direction, buffer): (u32, Direction, &UserBuf),
        at: RemotePlace,
        wanted: bool,
    ) -> std::result::Result<Option<Option<RequestId>>, Fault> {
        self.check(lane, rank)?;
        let peer = self.team.map.process(rank).ok_or(Fault::Closed)?;
        let owner = self.context();
        let remote = lane.fabric_mut().remote_access_to(peer);
        let Some(number) =
            remote.and_then(|remote| remote.start(owner, peer, direction, buffer, at))
        else {
            return Ok(None);
        };
        let user = wanted.then(|| lane.open_external());
        let at = self.accesses.begin(AdapterAccess { rank, user });
        self.accesses.data.insert(number, at);
        Ok(Some(user))
    }

    pub(super) fn end_accesses<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        let owner = self.context();
        loop {
            // The handler of an end may begin accesses that end at once.
            let ended = lane
                .fabric_mut()
                .remote_access()
                .map(|remote| remote.ended(owner))
                .unwrap_or_default();
            if ended.is_empty() {
                return;
            }
            ended.into_iter().for_each(|end| self.access_ended(lane, end));
        }
    }

    fn access_ended<F: Fabric>(&mut self, lane: &mut Lane<F>, (number, how): AccessEnd) {
        if let Some(part) = self.accesses.parts.remove(&number) {
            return self.word_ended(lane, part, how);
        }
        let Some(at) = self.accesses.data.remove(&number) else { return };
        let fault = how.is_err().then_some(Fault::Outside);
        if let (Some(access), Err(why)) = (self.accesses.all.get(&at), how) {
            self.accesses.failed.entry(access.rank).or_insert(why);
        }
        self.end_access(lane, at, fault);
    }

    pub(super) fn end_access<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        at: u64,
        fault: Option<Fault>,
    ) {
        let context = self.context();
        if let Some(user) = self.accesses.end(at).and_then(|access| access.user) {
            lane.complete_external(user, Completion { fault, context, ..Completion::EMPTY });
        }
    }

    /// Once all accesses up to the number `newest` have ended, the first error since the last call.
    fn accessed<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        newest: u64,
    ) -> Option<std::result::Result<Option<String>, Fault>> {
        if let Err(fault) = self.check(lane, rank) {
            return Some(Err(fault));
        }
        if self.accesses.has_one(rank, newest) {
            self.end_accesses(lane);
        }
        (!self.accesses.has_one(rank, newest)).then(|| Ok(self.accesses.failed.remove(&rank)))
    }

    /// Gives up accesses to a rank. After this no adapter uses their buffers.
    pub(super) fn give_up_accesses<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        fault: Fault,
    ) {
        if !self.accesses.to.contains_key(&rank) {
            return;
        }
        let owner = self.context();
        if let Some(peer) = self.team.map.process(rank)
            && let Some(remote) = lane.fabric_mut().remote_access()
        {
            remote.abandon(owner, peer);
        }
        let failed = self.failed(fault);
        let ours = self.accesses.all.iter().filter(|(_, one)| one.rank == rank);
        let numbers: Vec<u64> = ours.map(|(number, _)| *number).collect();
        let AdapterAccesses { all, parts, data, accumulates, .. } = &mut self.accesses;
        parts.retain(|_, part| part.rank != rank);
        data.retain(|_, at| all.get(at).is_some_and(|access| access.rank != rank));
        accumulates.remove(&rank);
        for number in numbers {
            if let Some(user) = self.accesses.end(number).and_then(|access| access.user) {
                lane.complete_external(user, failed);
            }
        }
    }
}

impl<F: Fabric> Process<F> {
    /// Opens memory if an adapter reaches some rank. Returns the key; 0 if it is not open.
    pub(super) fn open_to_adapters(&self, comm: &Communicator, memory: &Exposed) -> u64 {
        if memory.is_empty() {
            return 0;
        }
        let mut domain = self.domain.lock();
        let fabric = domain.lane.fabric_mut();
        if fabric.remote_access().is_none() {
            return 0;
        }
        let mut processes = (0..comm.team.size()).filter_map(|rank| comm.team.map.process(rank));
        let is_reached =
            processes.any(|peer| peer != self.rank && fabric.remote_access_to(peer).is_some());
        let bytes = memory.elements(0, memory.len(), &Arc::new(Layout::basic(1, 1)));
        match (fabric.remote_access(), bytes) {
            (Some(remote), Ok(bytes)) if is_reached => remote.open(&bytes).unwrap_or(0),
            _ => 0,
        }
    }

    pub(super) fn close_to_adapters(&self, key: u64) {
        if key != 0
            && let Some(remote) = self.domain.lock().lane.fabric_mut().remote_access()
        {
            remote.close(key);
        }
    }

    /// Begins a put or get. `None` means that it must go by messages.
    pub(super) fn access_by_adapter(
        &self,
        window: &Window,
        (target, rank): (&Target, u32),
        place: &TargetPlace,
        (direction, buffer): (Direction, &UserBuf),
        wanted: bool,
    ) -> Result<Option<Option<RequestId>>> {
        let is_reached = target.routes.get().is_some_and(|routes| routes.by_adapter);
        if !is_reached || !place.layout.is_contiguous() || target.is_gone() {
            return Ok(None);
        }
        let address = target.base.wrapping_add(place.at.cast_unsigned());
        let at = RemotePlace { address, key: target.key };
        self.with_service(window, |service, lane| {
            let begun = service.access(lane, (rank, direction, buffer), at, wanted)?;
            if begun.is_some() {
                window.note_issued(target);
            }
            Ok(begun)
        })
    }

    /// Waits for the accesses that have begun by now, since other threads may begin more.
    pub(super) fn finish_accesses(&self, window: &Window, rank: u32) -> Result<()> {
        let target = &window.targets[rank as usize];
        if target.words == WordOwner::Processor
            && target.routes.get().is_none_or(|routes| !routes.by_adapter)
        {
            return Ok(());
        }
        let what = ("to let the adapter end accesses to its part of", Need::Outside, rank);
        let mut begun = None;
        let failed = self.wait_for_service(window, what, |service, lane| {
            let newest = *begun.get_or_insert_with(|| service.accesses.newest(rank));
            service.accessed(lane, rank, newest)
        })?;
        match failed {
            None => Ok(()),
            Some(why) => Err(MpiError::new(abi::MPI_ERR_RMA_RANGE, why)),
        }
    }
}
