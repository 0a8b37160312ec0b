//! A process of a job over `ib` on a host without a port. All its messages go over the sockets.
//! Peers that request its introduction learn that it has no port.

use super::introduction::IbIntroduction;
use crate::introductions::Introductions;
use crate::{
    Body, Connected, Counts, FrameSink, Limits, Membership, OutgoingMessage, Sent, Statistics,
    Transport, Unreachable,
};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Frame;

#[derive(Debug)]
pub(super) struct WithoutPort {
    sockets: Box<dyn Transport>,
    introductions: Introductions,
    unanswered: Vec<u32>,
}

impl WithoutPort {
    pub(super) fn new(sockets: Box<dyn Transport>) -> WithoutPort {
        WithoutPort { sockets, introductions: Introductions::default(), unanswered: Vec::new() }
    }

    fn answer(&mut self, sink: &mut dyn FrameSink) {
        let met =
            self.introductions.take().into_iter().filter(|(_, wants_answer, _)| *wants_answer);
        self.unanswered.extend(met.map(|(from, ..)| from));
        let body = IbIntroduction::WITHOUT_PORT.encode();
        let body = Body::Bytes(Bytes::from(&body[..]));
        let frame = Frame::Meet { wants_answer: false };
        for to in std::mem::take(&mut self.unanswered) {
            match self.sockets.send(to, &OutgoingMessage::new(frame, body)) {
                Ok(Sent::Full) if !self.sockets.has_left(to) => self.unanswered.push(to),
                Ok(_) => {}
                Err(_) => sink.lost(to),
            }
        }
        self.introductions.take_lost().into_iter().for_each(|peer| sink.lost(peer));
    }

    fn has_answered(&mut self) -> bool {
        let WithoutPort { sockets, unanswered, .. } = self;
        unanswered.iter().all(|to| sockets.has_left(*to))
    }
}

impl Transport for WithoutPort {
    fn name(&self) -> &'static str {
        self.sockets.name()
    }

    fn reaches(&self, peer: u32) -> bool {
        self.sockets.reaches(peer)
    }

    fn limits(&self, to: u32) -> Limits {
        self.sockets.limits(to)
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        self.sockets.piece_limit(to)
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        self.sockets.send(to, message)
    }

    fn release(&mut self, token: u64) {
        self.sockets.release(token);
    }

    fn poll(&mut self, _except: Option<u32>, sink: &mut dyn FrameSink) -> bool {
        let came = self.sockets.poll(None, &mut self.introductions.watch(sink));
        self.answer(sink);
        came
    }

    fn poll_all_next(&mut self) {
        self.sockets.poll_all_next();
    }

    fn before_sleep(&mut self) -> bool {
        self.sockets.before_sleep()
    }

    fn sleeps_lightly(&self) -> bool {
        !self.unanswered.is_empty() || self.sockets.sleeps_lightly()
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        self.sockets.announce_waiting(peer)
    }

    fn share_among_threads(&mut self) {
        self.sockets.share_among_threads();
    }

    fn set_eager_limit(&mut self, bytes: usize) {
        self.sockets.set_eager_limit(bytes);
    }
}

impl Membership for WithoutPort {
    fn has_left(&mut self, peer: u32) -> bool {
        self.sockets.has_left(peer)
    }

    fn attach(&mut self, peer: u32) {
        self.sockets.attach(peer);
    }

    fn settle(&mut self, peer: u32) -> bool {
        self.sockets.settle(peer)
    }

    fn detach(&mut self, peer: u32) {
        self.sockets.detach(peer);
    }

    fn lost_messages(&mut self) -> Option<String> {
        self.sockets.lost_messages()
    }

    fn leave(&mut self) -> bool {
        self.has_answered() && self.sockets.leave()
    }

    fn rest(&mut self) -> bool {
        self.has_answered() && self.sockets.rest()
    }

    fn await_end(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        self.sockets.await_end(peer, &mut self.introductions.watch(sink));
        self.answer(sink);
    }

    fn remove_failed(&mut self, peer: u32) {
        self.unanswered.retain(|to| *to != peer);
        self.sockets.remove_failed(peer);
    }
}

impl Statistics for WithoutPort {
    fn count(&mut self, counts: &mut Counts) {
        self.sockets.count(counts);
    }

    fn watch_connections(&mut self, watch: bool) {
        self.sockets.watch_connections(watch);
    }

    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        self.sockets.take_connections()
    }
}
