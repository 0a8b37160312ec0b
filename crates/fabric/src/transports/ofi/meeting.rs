//! How two processes meet: each says over sockets, where both have proved that they are of the job, where the provider finds it
//! ([`Frame::Meet`](oxmpi_wire::Frame::Meet)).
//!
//! The body of that frame is the cookie that all messages to its sender begin with (`frames.rs`), 8 bytes, and the address.

use super::Ofi;
use super::OfiPeer;
use crate::{Body, Message, Sent, Sink, Unreachable};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, ContextId, Envelope, Frame};
use std::collections::HashMap;

/// Bytes of the cookie.
const COOKIE: usize = 8;
/// The longest body that is one, bytes.
const LONGEST: usize = COOKIE + 256;

/// What a process says of itself when it meets another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Introduction {
    /// What messages to it begin with.
    pub(super) cookie: u64,
    /// Where the provider finds it.
    pub(super) address: Vec<u8>,
}

impl Introduction {
    /// The body of the frame.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.cookie.to_le_bytes().to_vec();
        out.extend_from_slice(&self.address);
        out
    }

    /// Reads such a body. `None`: it is none.
    pub(super) fn decode(body: &[u8]) -> Option<Introduction> {
        let (cookie, address) = body.split_first_chunk::<COOKIE>()?;
        let is_one = !address.is_empty() && body.len() <= LONGEST;
        is_one.then(|| Introduction { cookie: u64::from_le_bytes(*cookie), address: address.to_vec() })
    }
}

/// A frame of which the body has come in part.
#[derive(Debug)]
struct PartialIntroduction {
    asks: bool,
    total: usize,
    came: usize,
    /// As far as it is no longer than any introduction.
    body: Vec<u8>,
}

/// Introductions that come over sockets.
#[derive(Debug, Default)]
pub(super) struct Meetings {
    begun: HashMap<u32, PartialIntroduction>,
    /// The sender, whether it wants an answer, and the body.
    whole: Vec<(u32, bool, Vec<u8>)>,
    /// Peers that are lost, as the sockets say.
    lost: Vec<u32>,
}

impl Meetings {
    /// A sink for the sockets, which keeps what is for this and hands everything else up.
    pub(super) fn watch<'a>(&'a mut self, sink: &'a mut dyn Sink) -> MeetingSink<'a> {
        MeetingSink { meetings: self, sink }
    }

    /// Takes those that have come whole.
    pub(super) fn take(&mut self) -> Vec<(u32, bool, Vec<u8>)> {
        std::mem::take(&mut self.whole)
    }

    /// Takes those that are lost.
    pub(super) fn take_lost(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.lost)
    }

    fn part(&mut self, from: u32, mut begun: PartialIntroduction, part: Bytes<'_>) {
        begun.came += part.len();
        if begun.total <= LONGEST {
            part.append_to(&mut begun.body);
        }
        if begun.came < begun.total {
            self.begun.insert(from, begun);
        } else {
            self.whole.push((from, begun.asks, begun.body));
        }
    }
}

/// See [`Meetings::watch`].
pub(super) struct MeetingSink<'a> {
    meetings: &'a mut Meetings,
    sink: &'a mut dyn Sink,
}

impl Sink for MeetingSink<'_> {
    fn eager(&mut self, from: u32, sequence: u8, envelope: Envelope, total: usize, first: Bytes<'_>) {
        self.sink.eager(from, sequence, envelope, total, first);
    }

    fn eager_sync(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        request: u64,
        total: usize,
        first: Bytes<'_>,
    ) {
        self.sink.eager_sync(from, sequence, envelope, request, total, first);
    }

    fn rendezvous(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        announced: Announced,
        first: Bytes<'_>,
    ) {
        self.sink.rendezvous(from, sequence, envelope, announced, first);
    }

    fn sync_ack(&mut self, from: u32, request: u64) {
        self.sink.sync_ack(from, request);
    }

    fn pull(&mut self, from: u32, request: u64, receiver: u64, length: u64, claimed: bool) {
        self.sink.pull(from, request, receiver, length, claimed);
    }

    fn fin(&mut self, from: u32, request: u64) {
        self.sink.fin(from, request);
    }

    fn withdraw(&mut self, from: u32, request: u64, number: u64) {
        self.sink.withdraw(from, request, number);
    }

    fn withdrawn(&mut self, from: u32, request: u64) {
        self.sink.withdrawn(from, request);
    }

    fn data(&mut self, from: u32, receiver: u64, offset: u64, total: usize, first: Bytes<'_>) {
        self.sink.data(from, receiver, offset, total, first);
    }

    fn learn(&mut self, from: u32, id: ContextId, index: u32) {
        self.sink.learn(from, id, index);
    }

    fn ask_index(&mut self, from: u32, id: ContextId) {
        self.sink.ask_index(from, id);
    }

    fn meet(&mut self, from: u32, asks: bool, total: usize, first: Bytes<'_>) {
        self.meetings.part(from, PartialIntroduction { asks, total, came: 0, body: Vec::new() }, first);
    }

    fn more(&mut self, from: u32, offset: usize, part: Bytes<'_>) {
        match self.meetings.begun.remove(&from) {
            Some(begun) => self.meetings.part(from, begun, part),
            None => self.sink.more(from, offset, part),
        }
    }

    fn place(&mut self, from: u32, offset: usize, len: usize) -> Option<BytesMut<'_>> {
        if self.meetings.begun.contains_key(&from) { None } else { self.sink.place(from, offset, len) }
    }

    fn placed(&mut self, from: u32, offset: usize, bytes: usize) {
        self.sink.placed(from, offset, bytes);
    }

    fn sent(&mut self, token: u64) {
        self.sink.sent(token);
    }

    fn left(&mut self, peer: u32) {
        self.sink.left(peer);
    }

    fn lost(&mut self, peer: u32) {
        self.meetings.lost.push(peer);
    }
}

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    /// Whether a process belongs to the same launcher.
    pub(super) fn is_of_launcher(&mut self, peer: u32) -> bool {
        self.nodes.as_mut().is_none_or(|nodes| nodes.node(peer).is_some())
    }

    /// Introduces this process to a peer and requests its introduction, once.
    pub(super) fn begin_meeting(&mut self, to: u32) -> Result<(), Unreachable> {
        if !self.introduced.contains(&to) && self.introduce(to, true)? {
            self.introduced.insert(to);
        }
        Ok(())
    }

    /// Sends a peer the introduction of this process. Whether there was room for it.
    pub(super) fn introduce(&mut self, to: u32, asks: bool) -> Result<bool, Unreachable> {
        let body = self.introduction.encode();
        let body = Body::Bytes(Bytes::from(&body[..]));
        let message = Message { sequence: 0, frame: Frame::Meet { asks }, body, lent: None, token: 0 };
        Ok(self.sockets.send(to, &message)? != Sent::Full)
    }

    /// Polls the sockets, and does what follows.
    pub(super) fn poll_sockets(&mut self, sink: &mut dyn Sink) -> bool {
        let came = self.sockets.poll(None, &mut self.meetings.watch(sink));
        self.end_meetings(sink);
        for peer in self.meetings.take_lost() {
            // What it had sent comes first.
            self.drain(sink);
            self.lose(peer, sink);
        }
        for failed in std::mem::take(&mut self.failed) {
            self.settle_failed(failed, sink);
        }
        came
    }

    /// Takes in the peers that have introduced themselves, and answers them.
    pub(super) fn end_meetings(&mut self, sink: &mut dyn Sink) {
        for (from, asks, body) in self.meetings.take() {
            if let Err(why) = self.meet(from, &body) {
                (self.tell.0)(&format!("rank {}: process {from} cannot be met: {why}", self.own));
                self.lost.push(from);
                continue;
            }
            if asks {
                self.unanswered.push(from);
            }
            for (_, room, length) in std::mem::take(&mut self.held_rooms) {
                self.take_frame(room, length, sink);
            }
        }
        for to in std::mem::take(&mut self.unanswered) {
            match self.introduce(to, false) {
                Ok(true) => {}
                Ok(false) => self.unanswered.push(to),
                Err(_) => self.lost.push(to),
            }
        }
    }

    /// A peer has introduced itself.
    pub(super) fn meet(&mut self, from: u32, body: &[u8]) -> Result<(), String> {
        self.introduced.remove(&from);
        if self.address_of(from).is_some() {
            return Ok(());
        }
        let Introduction { cookie, address } =
            Introduction::decode(body).ok_or("what it says of itself makes no sense")?;
        let address = self.endpoint.insert(&address).map_err(|error| error.to_string())?;
        let at = from as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        self.peers[at] = Some(Box::new(OfiPeer::new(address, cookie)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::testing::CountingSink;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_introduction_survives_the_wire(cookie: u64, address in prop::collection::vec(any::<u8>(), 1..=256)) {
            let one = Introduction { cookie, address };
            prop_assert_eq!(Introduction::decode(&one.encode()), Some(one));
        }

        #[test]
        fn an_introduction_comes_in_parts_of_any_length(body in prop::collection::vec(any::<u8>(), 1..400), cut in 1usize..40) {
            let mut meetings = Meetings::default();
            let mut above = CountingSink::default();
            let mut sink = meetings.watch(&mut above);
            let mut parts = body.chunks(cut);
            sink.meet(3, true, body.len(), Bytes::from(parts.next().unwrap_or_default()));
            let mut offset = cut;
            for part in parts {
                sink.more(3, offset, Bytes::from(part));
                offset += part.len();
            }
            let kept = if body.len() <= LONGEST { body } else { Vec::new() };
            prop_assert_eq!(meetings.take(), vec![(3, true, kept)]);
            prop_assert!(meetings.begun.is_empty());
            prop_assert_eq!(above.bytes, 0, "all parts are of the introduction");
        }
    }

    #[test]
    fn what_is_no_introduction_is_refused() {
        for body in [vec![], vec![1; 8], vec![1; LONGEST + 1]] {
            assert_eq!(Introduction::decode(&body), None);
        }
    }
}
