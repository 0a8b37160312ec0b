use super::landing::{OwnFrame, read_words};
use super::{Gm, GmPort, HEAD};
use crate::transports::peer_of;
use crate::{FrameSink, dispatch};
use oxmpi_gm::{GmEvent, GmOperation, GmSlot, GmStatus};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Frame;

impl<P: GmPort> Gm<P> {
    pub(super) fn read(&mut self) {
        let before = self.events.len();
        self.port.poll(&mut self.events);
        self.reads += u64::from(self.events.len() > before);
        // The ends of puts and gets deliver nothing, so they can be handled outside of a poll.
        let is_move = |event: &mut GmEvent| {
            let GmEvent::Ended { operation, .. } = event else { return false };
            matches!(operation, GmOperation::Put(_) | GmOperation::Get(_) | GmOperation::GetWord(_))
        };
        let moves: Vec<GmEvent> = self.events.extract_if(before.., is_move).collect();
        for event in moves {
            if let GmEvent::Ended { label, operation, status } = event {
                self.end_move(label, operation, &status);
            }
        }
    }

    pub(super) fn end_move(&mut self, with: u32, operation: GmOperation, status: &GmStatus) {
        match operation {
            GmOperation::Put(region) => self.put_ended(region, status),
            GmOperation::Get(region) => self.get_ended(region, status),
            GmOperation::GetWord(word) => self.check_ended(word, status),
            _ => {}
        }
        if matches!(status, GmStatus::TimedOut | GmStatus::Failed(_)) {
            self.stop(with);
        }
    }

    pub(super) fn stop(&mut self, to: u32) {
        let Some(peer) = self.peer(to) else { return };
        peer.needs_drop = true;
        if !self.stopped.contains(&to) {
            self.stopped.push(to);
        }
    }

    pub(super) fn drain(&mut self, sink: &mut dyn FrameSink) -> bool {
        if self.is_closed {
            return false;
        }
        let mut any = false;
        for event in std::mem::take(&mut self.early) {
            any = true;
            self.take(event, sink);
        }
        loop {
            self.read();
            if self.events.is_empty() {
                break;
            }
            any = true;
            let mut events = std::mem::take(&mut self.events);
            for event in events.drain(..) {
                self.take(event, sink);
            }
            self.events = events;
        }
        any |= self.finish_landings(sink);
        self.go_on();
        any |= self.send_owed();
        any |= self.send_streams();
        any | self.lending.pieces.report(sink)
    }

    pub(super) fn take(&mut self, event: GmEvent, sink: &mut dyn FrameSink) {
        match event {
            GmEvent::Received { slot, len, .. } => self.receive(slot, len, sink),
            GmEvent::Ended { label, operation, status } => self.end(label, operation, status),
        }
    }

    pub(super) fn end(&mut self, to: u32, operation: GmOperation, status: GmStatus) {
        let Some(peer) = peer_of(&mut self.peers, to) else {
            return;
        };
        let is_done = status == GmStatus::Done;
        let stops = matches!(status, GmStatus::TimedOut | GmStatus::Failed(_));
        let what = match operation {
            GmOperation::Send(slot) => {
                // A message that has failed for good is not sent again.
                if peer.lands(slot, is_done || matches!(status, GmStatus::Failed(_))) {
                    self.send_slots.push(slot);
                }
                "a message"
            }
            GmOperation::PutWord => {
                peer.reported(is_done);
                "the return of buffers"
            }
            GmOperation::Drop => {
                if let Some(met) = peer.met {
                    self.peers_of(met.target).for_each(|(_, peer)| peer.drop_ended());
                }
                "dropping messages"
            }
            GmOperation::Put(_) | GmOperation::Get(_) | GmOperation::GetWord(_) => return,
        };
        if stops {
            self.stop(to);
        }
        if let GmStatus::Failed(why) = status {
            self.fail(to, format!("{what} has failed: {why}"));
        }
        self.report(to);
    }

    pub(super) fn receive(&mut self, slot: GmSlot, len: usize, sink: &mut dyn FrameSink) {
        let Gm { peers, port, received, frames_received, .. } = self;
        let bytes = port.slot(slot);
        let bytes = &bytes[..len.min(bytes.len())];
        let (mut from, mut own) = (None, None);
        if let Some((head, rest)) = bytes.split_first_chunk::<HEAD>()
            && let Ok(got) = Frame::decode(rest)
            && let Some(peer) = peer_of(peers, got.source)
        {
            let [r0, r1, r2, r3, key @ ..] = *head;
            if u32::from_le_bytes(key) == peer.key && !peer.is_gone {
                from = Some(got.source);
                peer.credits.take_returned_lower(u32::from_le_bytes([r0, r1, r2, r3]));
                let body = &rest[got.body_at..];
                received.note(&got.frame, body.len());
                *frames_received += 1;
                let frame = dispatch(got.source, &got, body.len(), Bytes::from(body), sink);
                own = frame.map(|frame| OwnFrame {
                    frame,
                    place: read_words(body),
                    address: read_words(body),
                });
            }
        }
        if let Err(error) = self.port.provide(slot) {
            // Impossible: the token of the received message is free.
            self.receive_slots.push(slot);
            self.provided = self.provided.saturating_sub(1);
            self.say(&format!("a buffer cannot be provided again: {error}"));
            return;
        }
        if let Some(from) = from
            && let Some(peer) = self.peer(from)
        {
            peer.credits.freed += 1;
            self.report(from);
        }
        if let (Some(from), Some(own)) = (from, own) {
            self.take_own(from, &own, sink);
        }
    }
}
