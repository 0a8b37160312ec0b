//! The operations of other ranks on the memory of this process, by messages.

use super::{
    HERE_MOST, IncomingWork, ReceivedAccumulate, Service, part, tag_of_answer, tag_of_data,
};
use crate::window::message::{MessageData, RmaMessage};
use oxmpi_engine::{Lane, MatchSource, RequestId, Started, TagMatch};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::{Owned, zeros};
use oxmpi_shm::robust_lock::RobustGuard;
use oxmpi_sys::bytes::{Bytes, BytesMut};

impl Service {
    fn receive<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        into: UserBuf,
        id: u64,
    ) -> Option<RequestId> {
        let from = MatchSource::Process(self.team.map.process(rank)?);
        match lane.start_receive(self.context(), into, from, TagMatch::Is(tag_of_data(id))).ok()? {
            Started::Pending(receive) => Some(receive),
            Started::Complete(_) => Some(RequestId::COMPLETE),
        }
    }

    pub(super) fn await_put<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        target: Option<UserBuf>,
        id: u64,
    ) -> Option<IncomingWork> {
        match target {
            Some(target) => self.receive(lane, rank, target, id).map(IncomingWork::Put),
            None => {
                self.note_outside(rank);
                // The data come all the same; the receive without a buffer drops them.
                self.receive(lane, rank, UserBuf::empty(), id).map(IncomingWork::Put)
            }
        }
    }

    /// Receives the operands of an accumulate, never longer than the exposed memory.
    pub(super) fn await_operands<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        accumulate: ReceivedAccumulate,
        id: u64,
    ) -> Option<IncomingWork> {
        let sound = accumulate.len <= self.exposure.len()
            && self.exposure.buffer(&accumulate.place).is_some();
        match zeros(accumulate.len).ok().filter(|_| sound) {
            Some(room) => {
                let room = Owned::new(room);
                let receive = self.receive(lane, rank, room.buf(), id)?;
                Some(IncomingWork::Operands(receive, room, accumulate))
            }
            None => {
                self.decline(lane, rank, accumulate.fetch);
                self.await_put(lane, rank, None, id)
            }
        }
    }

    pub(super) fn decline<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, fetch: Option<u64>) {
        match fetch {
            Some(id) => self.refuse(lane, rank, id),
            None => self.note_outside(rank),
        }
    }

    pub(super) fn note_outside(&mut self, rank: u32) {
        self.outside.insert(rank);
    }

    pub(super) fn refuse<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, id: u64) {
        self.note_outside(rank);
        // A lost rank needs no answer.
        let _ = self.send_message(lane, rank, &RmaMessage::Refused { id });
    }

    pub(super) fn done<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, id: u64) {
        let outside = self.outside.remove(&rank);
        let _ = self.send_message(lane, rank, &RmaMessage::Done { id, outside });
    }

    pub(super) fn answer<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        id: u64,
        (data, len): (&UserBuf, usize),
    ) {
        if len <= HERE_MOST {
            let _ = self.send_with_data(
                lane,
                rank,
                &RmaMessage::Answer { id, data: MessageData::Here },
                data,
                len,
            );
            return;
        }
        let Some(data) = part(data, len) else { return self.refuse(lane, rank, id) };
        let _ =
            self.send_message(lane, rank, &RmaMessage::Answer { id, data: MessageData::Apart(id) });
        let _ = self.send(lane, rank, data, tag_of_answer(id), None);
    }

    pub(in crate::window) fn hold_elements<F: Fabric>(
        &self,
        lane: &mut Lane<F>,
    ) -> RobustGuard<'_> {
        self.exposure.control.hold_elements(self.team.rank, |rank| {
            let process = self.team.map.process(rank);
            process.is_some_and(|process| lane.fabric_mut().has_died(process))
        })
    }

    pub(super) fn accumulate_here<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        accumulate: &ReceivedAccumulate,
        operands: Bytes<'_>,
    ) {
        let ReceivedAccumulate { place, len, accumulator, fetch } = accumulate;
        let target = self.exposure.buffer(place).filter(|_| *len <= self.exposure.len());
        let Some((target, mut old)) =
            target.zip(zeros(if fetch.is_some() { *len } else { 0 }).ok())
        else {
            return self.decline(lane, rank, *fetch);
        };
        let room = fetch.is_some().then(|| BytesMut::from(&mut old[..]));
        if accumulator.accumulate(operands, &target, 0, room, || self.hold_elements(lane)).is_err()
        {
            self.note_outside(rank);
        }
        if let Some(id) = fetch {
            self.answer(lane, rank, *id, (&Owned::new(old).buf(), *len));
        }
    }
}
