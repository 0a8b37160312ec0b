//! Envelopes and the ends of operations (rules 2 and 3 of the module).

use super::settings::HEAD;
use super::{Ib, IbPort, lending};
use crate::transports::peer_of;
use crate::{FrameSink, OutgoingMessage, Sent, Unreachable, dispatch};
use oxmpi_sys::bytes::Bytes;
use oxmpi_verbs::{AdapterOperation as Operation, Completion, Refusal, SlotId, VerbsError};
use oxmpi_wire::{Frame, MAX_FRAME_LEN};

const SEND_SLOTS: usize = 1024;

impl<P: IbPort> Ib<P> {
    pub(super) fn read(&mut self) {
        let before = self.events.len();
        if let Err(error) = self.port.poll(&mut self.events) {
            self.give_up(&error);
        }
        for at in before..self.events.len() {
            let completion = &self.events[at];
            if completion.refusal == Some(Refusal::Untouched) {
                self.untouched.insert(completion.queue_pair);
            }
            if matches!(completion.operation, Operation::Send(_) | Operation::Receive(..)) {
                continue;
            }
            if let Completion { operation: Operation::Read(region), error, .. } = completion {
                let (region, has_failed) = (*region, error.is_some());
                if self.read_ended(region, has_failed) {
                    continue;
                }
            }
            let completion = self.events[at].clone();
            self.access_ended(&completion);
        }
        self.reads += u64::from(!self.events.is_empty());
    }

    pub(super) fn drain(&mut self, sink: &mut dyn FrameSink) -> bool {
        let mut any = false;
        for event in std::mem::take(&mut self.early) {
            any = true;
            self.end(event, sink);
        }
        loop {
            self.read();
            if self.events.is_empty() {
                break;
            }
            any = true;
            let mut events = std::mem::take(&mut self.events);
            for event in events.drain(..) {
                self.end(event, sink);
            }
            self.events = events;
        }
        for to in std::mem::take(&mut self.unconfirmed) {
            if self.awaits(to) && matches!(self.send_envelope(to, None), Ok(Sent::Full)) {
                self.unconfirmed.push(to);
            }
        }
        any |= self.finish_readings(sink);
        any |= self.send_streams();
        any |= self.post_accesses();
        any | self.lending.pieces.report(sink)
    }

    pub(super) fn end(
        &mut self,
        Completion { queue_pair, operation, error, has_timed_out, .. }: Completion,
        sink: &mut dyn FrameSink,
    ) {
        let number = self.numbers.get(&queue_pair).copied();
        match operation {
            Operation::Send(slot) => {
                let mut is_free = true;
                if let Some(peer) = number.and_then(|number| self.peer(number)) {
                    peer.in_flight = peer.in_flight.saturating_sub(1);
                    // An envelope that may not have arrived is sent again.
                    is_free = error.is_none() || peer.is_gone;
                    if is_free {
                        peer.acknowledged(slot);
                    }
                }
                if is_free {
                    self.send_slots.push(slot);
                }
            }
            Operation::WriteWord => {
                if let Some(peer) = number.and_then(|number| self.peer(number)) {
                    peer.is_reporting = false;
                }
            }
            Operation::Read(_)
            | Operation::Write(_)
            | Operation::ReadSlot(_)
            | Operation::WriteSlot(_)
            | Operation::AtomicSlot(_) => {}
            Operation::Receive(slot, len) if error.is_none() => {
                self.take(number, (queue_pair, slot, len), sink)
            }
            // The connection has failed, so this envelope does not count as one of the peer's.
            Operation::Receive(slot, _) if self.settings.shared.is_some() => {
                self.repost(number, (queue_pair, slot));
            }
            Operation::Receive(slot, _) => self.receive_slots.push(slot),
        }
        if let (Some(number), Some(error)) = (number, error) {
            let what = match operation {
                Operation::Send(_) => "a send",
                Operation::WriteWord => "the return of envelopes",
                Operation::Read(_) => "a read of a long message or of a window (MPI_Get)",
                Operation::ReadSlot(_) => "a one-sided read (MPI_Get)",
                Operation::Write(_) | Operation::WriteSlot(_) => "a one-sided write (MPI_Put)",
                Operation::AtomicSlot(_) => "an atomic operation (MPI_Accumulate and its like)",
                Operation::Receive(..) => "a receive",
            };
            self.break_connection(number, format!("{what} has failed: {error}"), has_timed_out);
        } else if let Some(number) = number {
            self.mended(number);
            self.report(number);
        }
    }

    pub(super) fn report(&mut self, to: u32) {
        let Some(peer) = peer_of(&mut self.peers, to) else {
            return;
        };
        if let Some(number) = peer.report()
            && let Err(error) = self.port.write_word(peer.end.queue_pair, number)
        {
            self.fail(to, error.to_string());
        }
    }

    pub(super) fn take(
        &mut self,
        from: Option<u32>,
        (queue_pair, slot, len): (u32, SlotId, usize),
        sink: &mut dyn FrameSink,
    ) {
        let Ib { peers, port, received, frames_received, .. } = self;
        let known = from.and_then(|from| Some((from, peer_of(peers, from)?)));
        let bytes = &port.slot(slot);
        let bytes = &bytes[..len.min(bytes.len())];
        let (mut own, mut is_ready) = (None, None);
        if let Some((from, peer)) = known
            && let Some((head, rest)) = bytes.split_first_chunk::<HEAD>()
        {
            peer.taken += 1;
            is_ready = (!peer.is_ready && peer.is_connected).then_some(from);
            peer.credits.take_returned_lower(u32::from_le_bytes(*head));
            if let Ok(got) = Frame::decode(rest)
                && got.source == from
                && !peer.is_gone
            {
                let body = &rest[got.body_at..];
                received.note(&got.frame, body.len());
                *frames_received += 1;
                let frame = dispatch(from, &got, body.len(), Bytes::from(body), sink);
                own = frame.map(|frame| (from, frame, lending::decode(body)));
            }
        }
        if self.repost(from, (queue_pair, slot))
            && let Some(peer) = from.and_then(|from| self.peer(from))
        {
            peer.credits.freed += 1;
        }
        if let Some(from) = is_ready {
            self.becomes_ready(from);
        }
        if let Some((from, frame, place)) = own {
            self.take_own(from, frame, place, sink);
        }
    }

    /// Posts a slot again after its receive. Returns whether it is posted. A shared queue always
    /// gets the slot back; the queue of a connection only gets it while the connection is used.
    pub(super) fn repost(&mut self, from: Option<u32>, (queue_pair, slot): (u32, SlotId)) -> bool {
        let is_shared = self.settings.shared.is_some();
        let is_open = from.and_then(|from| self.peer(from)).is_some_and(|peer| !peer.is_gone);
        if !is_shared && !is_open {
            self.receive_slots.push(slot);
            return false;
        }
        // The connection's next end gets another slot instead.
        if !is_shared && from.and_then(|from| self.peer(from)).is_some_and(|peer| peer.is_closing())
        {
            self.receive_slots.push(slot);
            return true;
        }
        let Err(error) = self.port.receive(queue_pair, slot) else { return true };
        self.receive_slots.push(slot);
        if is_shared {
            self.posted = self.posted.saturating_sub(1);
            match from.and_then(|from| self.peer(from)) {
                Some(peer) if peer.granted > 0 => peer.granted -= 1,
                _ => self.spare = self.spare.saturating_sub(1),
            }
        }
        if let Some(from) = from {
            self.fail(from, error.to_string());
        }
        false
    }

    pub(super) fn has_room(&mut self, to: u32) -> bool {
        let depth = self.settings.envelopes;
        let Ib { peers, port, .. } = self;
        let known = peer_of(peers, to);
        let Some(peer) = known.filter(|peer| !peer.is_gone && peer.is_ready) else { return false };
        if peer.credits() == 0 {
            peer.credits.take_returned(port.peer_word(peer.end.queue_pair));
        }
        peer.credits() > 0 && peer.in_flight < depth
    }

    fn make_send_slots(&mut self) -> Result<(), VerbsError> {
        if self.send_slots.is_empty() && self.made_send_slots < SEND_SLOTS {
            let slots = self.port.more_slots()?;
            self.made_send_slots += slots.len();
            self.send_slots.extend(slots);
        }
        Ok(())
    }

    pub(super) fn take_send_slot(&mut self) -> Option<SlotId> {
        let _ = self.make_send_slots();
        self.send_slots.pop()
    }

    pub(super) fn send_envelope(
        &mut self,
        to: u32,
        message: Option<&OutgoingMessage<'_>>,
    ) -> Result<Sent, Unreachable> {
        let own = self.own;
        match self.make_send_slots() {
            Ok(()) => {}
            Err(_) if self.made_send_slots > 0 => return Ok(Sent::Full),
            Err(error) => return Err(Unreachable { peer: to, why: error.to_string() }),
        }
        let has_room = self.has_room(to);
        let Ib { peers, port, send_slots, .. } = self;
        let known = peer_of(peers, to);
        let Some(peer) = known.filter(|peer| !peer.is_gone) else {
            return Err(Unreachable { peer: to, why: "it is gone".into() });
        };
        if !has_room {
            return Ok(Sent::Full);
        }
        let Some(slot) = send_slots.pop() else { return Ok(Sent::Full) };
        let mut len = HEAD;
        let bytes = port.slot_mut(slot);
        if let Some(message) = message {
            let mut encoded = [0; MAX_FRAME_LEN];
            let frame = message.frame.encode(message.sequence, own, &mut encoded);
            bytes[HEAD..HEAD + frame].copy_from_slice(&encoded[..frame]);
            len += frame;
            let body = message.body.len();
            let Some(room) = bytes.get_mut(len..len + body) else {
                send_slots.push(slot);
                let why = format!("a body of {body} bytes is longer than an envelope");
                return Err(Unreachable { peer: to, why });
            };
            message.body.fill(0, room.into());
            len += body;
        }
        let head = peer.sends();
        bytes[..HEAD].copy_from_slice(&head.to_le_bytes());
        peer.posted(slot, len);
        // A refused envelope goes over the next connection.
        if let Err(error) = port.send(peer.end.queue_pair, slot, len) {
            peer.in_flight -= 1;
            self.fail(to, error.to_string());
        }
        Ok(Sent::Done)
    }
}
