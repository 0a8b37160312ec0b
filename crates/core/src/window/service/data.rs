//! What this process does with its memory for others: it receives what they put, changes elements, and answers.

use super::{Change, HERE_MOST, Service, Waiting, part, tag_of_answer, tag_of_data, zeros};
use crate::window::message::{Data, Message};
use oxmpi_engine::{Lane, RequestId, Source, Started, TagMatch};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
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
        let from = Source::Process(self.team.map.process(rank)?);
        match lane.start_receive(self.context(), into, from, TagMatch::Is(tag_of_data(id))).ok()? {
            Started::Pending(receive) => Some(receive),
            Started::Complete(_) => Some(RequestId::COMPLETE),
        }
    }

    /// Receives the data of a put; those for a place outside go nowhere.
    pub(super) fn await_put<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        target: Option<UserBuf>,
        id: u64,
    ) -> Option<Waiting> {
        match target {
            Some(target) => self.receive(lane, rank, target, id).map(Waiting::Put),
            None => {
                self.note_outside(rank);
                // They come all the same, and there is no room for them.
                self.receive(lane, rank, UserBuf::empty(), id).map(Waiting::Put)
            }
        }
    }

    /// Receives the operands of an accumulate. No element is named twice, so they are not more than all that is exposed.
    pub(super) fn await_operands<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        change: Change,
        id: u64,
    ) -> Option<Waiting> {
        let sound = change.len <= self.exposure.len() && self.exposure.buffer(&change.place).is_some();
        match zeros(change.len).filter(|_| sound) {
            Some(room) => {
                let room = Owned::new(room);
                let receive = self.receive(lane, rank, room.buf(), id)?;
                Some(Waiting::Operands(receive, room, change))
            }
            None => {
                self.decline(lane, rank, change.fetch);
                self.await_put(lane, rank, None, id)
            }
        }
    }

    /// Says that an accumulate is not carried out.
    pub(super) fn decline<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, fetch: Option<u64>) {
        match fetch {
            Some(id) => self.refuse(lane, rank, id),
            None => self.note_outside(rank),
        }
    }

    pub(super) fn note_outside(&mut self, rank: u32) {
        self.outside.insert(rank, ());
    }

    pub(super) fn refuse<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, id: u64) {
        self.note_outside(rank);
        // Whoever is lost needs no answer.
        let _ = self.say(lane, rank, &Message::Refused { id });
    }

    pub(super) fn done<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, id: u64) {
        let outside = self.outside.remove(&rank).is_some();
        let _ = self.say(lane, rank, &Message::Done { id, outside });
    }

    /// Answers with the first `len` packed bytes of `data`.
    pub(super) fn answer<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        id: u64,
        (data, len): (&UserBuf, usize),
    ) {
        if len <= HERE_MOST {
            let _ = self.say_with(lane, rank, &Message::Answer { id, data: Data::Here }, data, len);
            return;
        }
        let Some(data) = part(data, len) else { return self.refuse(lane, rank, id) };
        let _ = self.say(lane, rank, &Message::Answer { id, data: Data::Apart(id) });
        let _ = self.send(lane, rank, data, tag_of_answer(id), None);
    }

    /// Acquires the element lock of this process.
    pub(in crate::window) fn hold_elements<F: Fabric>(&self, lane: &mut Lane<F>) -> RobustGuard<'_> {
        self.exposure.control.hold_elements(self.team.rank, |rank| {
            let process = self.team.map.process(rank);
            process.is_some_and(|process| lane.fabric_mut().has_died(process))
        })
    }

    /// Carries out an accumulate.
    pub(super) fn change<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        change: &Change,
        operands: Bytes<'_>,
    ) {
        let Change { place, len, accumulator, fetch } = change;
        let target = self.exposure.buffer(place).filter(|_| *len <= self.exposure.len());
        let Some((target, mut old)) = target.zip(zeros(if fetch.is_some() { *len } else { 0 })) else {
            return self.decline(lane, rank, *fetch);
        };
        let room = fetch.is_some().then(|| BytesMut::from(&mut old[..]));
        if accumulator.accumulate(operands, &target, 0, room, || self.hold_elements(lane)).is_err() {
            self.note_outside(rank);
        }
        if let Some(id) = fetch {
            self.answer(lane, rank, *id, (&Owned::new(old).buf(), *len));
        }
    }
}
