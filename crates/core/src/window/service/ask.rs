//! The operations of this process at other ranks, by messages.

use super::{AwaitedAnswer, Expected, HERE_MOST, Service, part, tag_of_answer, tag_of_data};
use crate::window::Accumulate;
use crate::window::message::{MessageData, RmaMessage, TargetPlace};
use oxmpi_engine::{Fault, Lane, MatchSource, RequestId, Started, TagMatch};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;

impl Service {
    /// If `wanted`, returns the request that completes when `origin` is free.
    pub(in crate::window) fn put<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        (rank, place): (u32, TargetPlace),
        (origin, len): (&UserBuf, usize),
        wanted: bool,
    ) -> Result<Option<RequestId>, Fault> {
        self.check(lane, rank)?;
        if len <= HERE_MOST {
            let message = RmaMessage::Put { place, len, data: MessageData::Here };
            self.send_with_data(lane, rank, &message, origin, len)?;
            return Ok(None);
        }
        let data = part(origin, len).ok_or(Fault::NoMemory)?;
        let id = self.number();
        self.send_message(
            lane,
            rank,
            &RmaMessage::Put { place, len, data: MessageData::Apart(id) },
        )?;
        self.send_data(lane, rank, data, id, wanted)
    }

    fn send_data<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        data: UserBuf,
        id: u64,
        wanted: bool,
    ) -> Result<Option<RequestId>, Fault> {
        let user = wanted.then(|| lane.open_external());
        self.send(lane, rank, data, tag_of_data(id), user)?;
        Ok(user)
    }

    fn await_data<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        (into, len): (&UserBuf, usize),
        wanted: bool,
    ) -> Result<(u64, Option<RequestId>), Fault> {
        self.check(lane, rank)?;
        let id = self.number();
        let user = wanted.then(|| lane.open_external());
        let receive = if len > HERE_MOST {
            let from = MatchSource::Process(self.team.map.process(rank).ok_or(Fault::Closed)?);
            let tag = TagMatch::Is(tag_of_answer(id));
            match lane.start_receive(self.context(), into.clone(), from, tag)? {
                Started::Pending(receive) => Some(receive),
                Started::Complete(_) => None,
            }
        } else {
            None
        };
        let what = Expected::Data { into: into.clone(), receive, user };
        self.awaited.insert(id, AwaitedAnswer { rank, what });
        Ok((id, user))
    }

    /// If `wanted`, returns the request that completes with the data.
    pub(in crate::window) fn get<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        (rank, place): (u32, TargetPlace),
        (into, len): (&UserBuf, usize),
        wanted: bool,
    ) -> Result<Option<RequestId>, Fault> {
        let (id, user) = self.await_data(lane, rank, (into, len), wanted)?;
        self.send_message(lane, rank, &RmaMessage::Get { place, len, id })?;
        Ok(user)
    }

    /// If `wanted`, returns the request that completes with the operation.
    pub(in crate::window) fn accumulate<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        (rank, place): (u32, TargetPlace),
        (what, len): (Accumulate, usize),
        wanted: bool,
    ) -> Result<Option<RequestId>, Fault> {
        self.check(lane, rank)?;
        let Accumulate { operands, accumulator, fetch } = what;
        let sent = if accumulator.op() == oxmpi_mem::kernels::ReduceOp::NoOp { 0 } else { len };
        let apart = if sent <= HERE_MOST {
            None
        } else {
            Some(part(&operands, len).ok_or(Fault::NoMemory)?)
        };
        let (fetch, mut user) = match &fetch {
            Some(into) => {
                let (id, user) = self.await_data(lane, rank, (into, len), wanted)?;
                (Some(id), user)
            }
            None => (None, None),
        };
        let Some(data) = apart else {
            let message =
                RmaMessage::Accumulate { place, len, data: MessageData::Here, accumulator, fetch };
            self.send_with_data(lane, rank, &message, &operands, sent)?;
            return Ok(user);
        };
        let id = self.number();
        let message =
            RmaMessage::Accumulate { place, len, data: MessageData::Apart(id), accumulator, fetch };
        self.send_message(lane, rank, &message)?;
        // An answer comes after the operands have left.
        let left = self.send_data(lane, rank, data, id, wanted && user.is_none())?;
        user = user.or(left);
        Ok(user)
    }

    /// Compares and swaps an element; `both` has the new element, then the element to compare with.
    pub(in crate::window) fn swap<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        (rank, place): (u32, TargetPlace),
        both: &[u8],
        into: &UserBuf,
    ) -> Result<(), Fault> {
        let len = both.len() / 2;
        let (id, _) = self.await_data(lane, rank, (into, len), false)?;
        let both = Owned::new(both.to_vec());
        self.send_with_data(lane, rank, &RmaMessage::Swap { place, len, id }, &both.buf(), 2 * len)
    }

    /// Sends `Flush` or `Unlock`. Returns the number for [`Service::flushed`].
    pub(in crate::window) fn flush<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        unlock: Option<bool>,
    ) -> Result<u64, Fault> {
        self.check(lane, rank)?;
        let id = self.number();
        self.awaited.insert(id, AwaitedAnswer { rank, what: Expected::Done(None) });
        let message = match unlock {
            Some(exclusive) => RmaMessage::Unlock { exclusive, id },
            None => RmaMessage::Flush { id },
        };
        self.send_message(lane, rank, &message)?;
        Ok(id)
    }

    /// Once the operations before the [`Service::flush`] `id` are done, their fault.
    pub(in crate::window) fn flushed<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        id: u64,
    ) -> Option<Result<(), Fault>> {
        let rank = match self.awaited.get(&id) {
            Some(AwaitedAnswer { rank, what: Expected::Done(end) }) => match end {
                None => return self.give_up(lane, *rank, id),
                // A failure after the answer has dropped earlier operations.
                Some(_) if self.check(lane, *rank).is_err() => {
                    return self.give_up(lane, *rank, id);
                }
                Some(_) => *rank,
            },
            _ => return Some(Ok(())),
        };
        // Data of earlier answers that are messages of their own may still be under way.
        let coming = |awaited: &AwaitedAnswer| {
            awaited.rank == rank && matches!(awaited.what, Expected::Data { .. })
        };
        if self.awaited.values().any(coming) || self.sends.iter().any(|send| send.rank == rank) {
            return self.give_up(lane, rank, id);
        }
        match self.awaited.remove(&id).map(|awaited| awaited.what) {
            Some(Expected::Done(Some(true))) => Some(Err(Fault::Outside)),
            _ => Some(Ok(())),
        }
    }

    /// Drops the answer `id` and returns the fault if the answer will never come.
    fn give_up<F: Fabric>(
        &mut self,
        lane: &Lane<F>,
        rank: u32,
        id: u64,
    ) -> Option<Result<(), Fault>> {
        let fault = self.check(lane, rank).err()?;
        self.awaited.remove(&id);
        Some(Err(fault))
    }

    pub(in crate::window) fn take_grant<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
    ) -> Option<Result<(), Fault>> {
        match self.granted.get_mut(&rank) {
            Some(grants) if *grants > 0 => {
                *grants -= 1;
                Some(Ok(()))
            }
            _ => match self.denied.remove(&rank) {
                Some(peer) => Some(Err(Fault::Lost { peer })),
                None => self.check(lane, rank).err().map(Err),
            },
        }
    }
}
