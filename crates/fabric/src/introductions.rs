//! Introductions: the exchange of network addresses over another transport, by
//! [`Frame::Meet`](oxmpi_wire::Frame::Meet). The network defines the body. This module joins the
//! parts of a body, and hands all other frames of the transport up.

use crate::constructor::{Constructor, Services, Situation};
use crate::{FrameSink, Transport};
use oxmpi_param::module::Module;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, ContextId, Envelope};
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) fn carrier(
    of: &Situation<'_>,
    services: &Arc<dyn Services>,
) -> Result<Box<dyn Transport>, String> {
    let carrier = Module::between_nodes().and_then(Constructor::of);
    let carrier =
        carrier.ok_or("there is no transport between nodes, over which processes meet")?;
    let made = (carrier.open)(of, services)?;
    Ok(made.ok_or("the transport between nodes has nothing for this process")?.transport)
}

/// The longest introduction, in bytes. A longer one is reported as empty.
pub(crate) const LONGEST_INTRODUCTION: usize = 264;

#[derive(Debug)]
struct PartialIntroduction {
    wants_answer: bool,
    total: usize,
    came: usize,
    /// Empty if the introduction is too long.
    body: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Introductions {
    begun: HashMap<u32, PartialIntroduction>,
    /// The sender, whether it wants an answer, and the body.
    whole: Vec<(u32, bool, Vec<u8>)>,
    lost: Vec<u32>,
}

impl Introductions {
    /// A sink that takes introductions and hands everything else to `sink`.
    pub(crate) fn watch<'a>(&'a mut self, sink: &'a mut dyn FrameSink) -> IntroductionSink<'a> {
        IntroductionSink { introductions: self, sink }
    }

    pub(crate) fn take(&mut self) -> Vec<(u32, bool, Vec<u8>)> {
        std::mem::take(&mut self.whole)
    }

    pub(crate) fn take_lost(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.lost)
    }

    fn part(&mut self, from: u32, mut begun: PartialIntroduction, part: Bytes<'_>) {
        begun.came += part.len();
        if begun.total <= LONGEST_INTRODUCTION {
            part.append_to(&mut begun.body);
        }
        if begun.came < begun.total {
            self.begun.insert(from, begun);
        } else {
            self.whole.push((from, begun.wants_answer, begun.body));
        }
    }
}

pub(crate) struct IntroductionSink<'a> {
    introductions: &'a mut Introductions,
    sink: &'a mut dyn FrameSink,
}

impl FrameSink for IntroductionSink<'_> {
    fn eager(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        total: usize,
        first: Bytes<'_>,
    ) {
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

    fn ask_last(&mut self, from: u32, id: ContextId) {
        self.sink.ask_last(from, id);
    }

    fn last(&mut self, from: u32, id: ContextId, number: u64) {
        self.sink.last(from, id, number);
    }

    fn ask_index(&mut self, from: u32, id: ContextId) {
        self.sink.ask_index(from, id);
    }

    fn meet(&mut self, from: u32, wants_answer: bool, total: usize, first: Bytes<'_>) {
        self.introductions.part(
            from,
            PartialIntroduction { wants_answer, total, came: 0, body: Vec::new() },
            first,
        );
    }

    fn more(&mut self, from: u32, offset: usize, part: Bytes<'_>) {
        match self.introductions.begun.remove(&from) {
            Some(begun) => self.introductions.part(from, begun, part),
            None => self.sink.more(from, offset, part),
        }
    }

    fn place(&mut self, from: u32, offset: usize, len: usize) -> Option<BytesMut<'_>> {
        if self.introductions.begun.contains_key(&from) {
            None
        } else {
            self.sink.place(from, offset, len)
        }
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
        self.introductions.lost.push(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_sink::testing::CountingSink;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_introduction_comes_in_parts_of_any_length(body in prop::collection::vec(any::<u8>(), 1..400), cut in 1usize..40) {
            let mut introductions = Introductions::default();
            let mut above = CountingSink::default();
            let mut sink = introductions.watch(&mut above);
            let mut parts = body.chunks(cut);
            sink.meet(3, true, body.len(), Bytes::from(parts.next().unwrap_or_default()));
            let mut offset = cut;
            for part in parts {
                sink.more(3, offset, Bytes::from(part));
                offset += part.len();
            }
            let kept = if body.len() <= LONGEST_INTRODUCTION { body } else { Vec::new() };
            prop_assert_eq!(introductions.take(), vec![(3, true, kept)]);
            prop_assert!(introductions.begun.is_empty());
            prop_assert_eq!(above.bytes, 0, "all parts are of the introduction");
        }
    }
}
