//! What this process asks of others.

use super::{Accumulating, Asked, Expected, HERE_MOST, Service, part, tag_of_answer, tag_of_data};
use crate::window::message::{Data, Message, Place};
use oxmpi_engine::{Fault, Lane, RequestId, Source, Started, TagMatch};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;

impl Service {
    /// Puts the first `len` packed bytes of `origin`. Returns the request that ends when `origin` may be used again, if it is
    /// wanted and may not yet.
    pub(in crate::window) fn put<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        (rank, place): (u32, Place),
        (origin, len): (&UserBuf, usize),
        wanted: bool,
    ) -> Result<Option<RequestId>, Fault> {
        self.check(lane, rank)?;
        if len <= HERE_MOST {
            let message = Message::Put { place, len, data: Data::Here };
            self.say_with(lane, rank, &message, origin, len)?;
            return Ok(None);
        }
        let data = part(origin, len).ok_or(Fault::NoMemory)?;
        let id = self.number();
        self.say(lane, rank, &Message::Put { place, len, data: Data::Apart(id) })?;
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

    /// Waits for data from a rank. Returns their number.
    fn ask<F: Fabric>(
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
            let from = Source::Process(self.team.map.process(rank).ok_or(Fault::Closed)?);
            let tag = TagMatch::Is(tag_of_answer(id));
            match lane.start_receive(self.context(), into.clone(), from, tag)? {
                Started::Pending(receive) => Some(receive),
                Started::Complete(_) => None,
            }
        } else {
            None
        };
        let what = Expected::Data { into: into.clone(), receive, user };
        self.asked.insert(id, Asked { rank, what });
        Ok((id, user))
    }

    /// Gets `len` packed bytes into `into`. Returns the request that ends when they are there, if it is wanted.
    pub(in crate::window) fn get<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        (rank, place): (u32, Place),
        (into, len): (&UserBuf, usize),
        wanted: bool,
    ) -> Result<Option<RequestId>, Fault> {
        let (id, user) = self.ask(lane, rank, (into, len), wanted)?;
        self.say(lane, rank, &Message::Get { place, len, id })?;
        Ok(user)
    }

    /// Accumulates `len` packed bytes. Returns the request that ends when the operation is complete here, if it is wanted and
    /// is not yet.
    pub(in crate::window) fn accumulate<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        (rank, place): (u32, Place),
        (what, len): (Accumulating, usize),
        wanted: bool,
    ) -> Result<Option<RequestId>, Fault> {
        self.check(lane, rank)?;
        let Accumulating { operands, accumulator, fetch } = what;
        let sent = if accumulator.op() == oxmpi_mem::kernels::Op::NoOp { 0 } else { len };
        let apart = if sent <= HERE_MOST { None } else { Some(part(&operands, len).ok_or(Fault::NoMemory)?) };
        let (fetch, mut user) = match &fetch {
            Some(into) => {
                let (id, user) = self.ask(lane, rank, (into, len), wanted)?;
                (Some(id), user)
            }
            None => (None, None),
        };
        let Some(data) = apart else {
            let message = Message::Accumulate { place, len, data: Data::Here, accumulator, fetch };
            self.say_with(lane, rank, &message, &operands, sent)?;
            return Ok(user);
        };
        let id = self.number();
        let message = Message::Accumulate { place, len, data: Data::Apart(id), accumulator, fetch };
        self.say(lane, rank, &message)?;
        // With an answer, that is the later end.
        let left = self.send_data(lane, rank, data, id, wanted && user.is_none())?;
        user = user.or(left);
        Ok(user)
    }

    /// Compares and swaps an element; `both` are the new one and the one to compare with.
    pub(in crate::window) fn swap<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        (rank, place): (u32, Place),
        both: &[u8],
        into: &UserBuf,
    ) -> Result<(), Fault> {
        let len = both.len() / 2;
        let (id, _) = self.ask(lane, rank, (into, len), false)?;
        let both = Owned::new(both.to_vec());
        self.say_with(lane, rank, &Message::Swap { place, len, id }, &both.buf(), 2 * len)
    }

    /// Asks to be told when all from before is done, and the lock given up if it is to be. Returns the number to ask for.
    pub(in crate::window) fn flush<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        unlock: Option<bool>,
    ) -> Result<u64, Fault> {
        self.check(lane, rank)?;
        let id = self.number();
        self.asked.insert(id, Asked { rank, what: Expected::Done(None) });
        let message = match unlock {
            Some(exclusive) => Message::Unlock { exclusive, id },
            None => Message::Flush { id },
        };
        self.say(lane, rank, &message)?;
        Ok(id)
    }

    /// Whether all that was asked before [`Service::flush`] is done: if so, whether it was done well.
    pub(in crate::window) fn flushed<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        id: u64,
    ) -> Option<Result<(), Fault>> {
        let rank = match self.asked.get(&id) {
            Some(Asked { rank, what: Expected::Done(told) }) => match told {
                None => return self.give_up(lane, *rank, id),
                // What was asked before it may have been given up when the death was heard, before its answer was looked at.
                Some(_) if self.check(lane, *rank).is_err() => return self.give_up(lane, *rank, id),
                Some(_) => *rank,
            },
            _ => return Some(Ok(())),
        };
        // Answers whose data come by themselves may still be on their way.
        let coming = |asked: &Asked| asked.rank == rank && matches!(asked.what, Expected::Data { .. });
        if self.asked.values().any(coming) || self.sends.iter().any(|send| send.rank == rank) {
            return self.give_up(lane, rank, id);
        }
        match self.asked.remove(&id).map(|asked| asked.what) {
            Some(Expected::Done(Some(true))) => Some(Err(Fault::Outside)),
            _ => Some(Ok(())),
        }
    }

    /// Expects an answer no more, if none will come; why.
    fn give_up<F: Fabric>(&mut self, lane: &Lane<F>, rank: u32, id: u64) -> Option<Result<(), Fault>> {
        let fault = self.check(lane, rank).err()?;
        self.asked.remove(&id);
        Some(Err(fault))
    }

    /// Whether a rank has granted its lock.
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
