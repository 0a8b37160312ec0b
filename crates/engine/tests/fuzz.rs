//! Matching against a naive model: random sends, receives of every kind, probes and cancels, over
//! paths that reorder.
//!
//! The model is the rule of MPI-5.0 section 3.5: of two messages of one sender that fit a receive,
//! the receive takes the earlier one; of two receives that match a message, the earlier receive
//! takes it. So no message may be left, or be taken by a later receive, while an earlier receive
//! that matches it is open or has taken a later message of the same sender.
//!
//! `OXMPI_FUZZ_SECONDS` (default 1) is the run time, `OXMPI_FUZZ_SEED` runs one seed.

mod lanes;
#[path = "../../wire/tests/support/seeds.rs"]
mod seeds;

use lanes::{Lanes, rough};
use oxmpi_engine::{
    ANYBODY, Completion, Lane, MatchSource, Mode, Now, Operation, RankMap, RequestId, Started,
    StartedReceive, TagMatch,
};
use oxmpi_fabric::sim::{LinkFaults, Random, Sim};
use oxmpi_mem::buffer::PlainBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_sys::bytes::BytesMut;
use oxmpi_wire::{ContextId, Tags};

/// Length in bytes of every receive buffer, and of the longest message.
const ROOM: usize = 3000;
const RANKS: u32 = 4;

#[derive(Debug)]
struct ModelMessage {
    context: usize,
    from: u32,
    tag: i32,
    len: usize,
    cancelled: bool,
}

struct Leaving {
    from: u32,
    request: RequestId,
    message: usize,
    withdrawn: bool,
}

#[derive(Debug)]
struct ModelReceive {
    context: usize,
    source: MatchSource,
    tag: TagMatch,
    /// `None`: still active.
    got: Option<usize>,
    /// The rule does not apply to cancelled receives.
    cancelled: bool,
}

impl ModelReceive {
    fn matches(&self, message: &ModelMessage) -> bool {
        self.context == message.context
            && (self.source == MatchSource::Any
                || self.source == MatchSource::Process(message.from))
            && (self.tag == TagMatch::Any || self.tag == TagMatch::Is(message.tag))
    }
}

struct Open {
    wanted: usize,
    request: RequestId,
    room: Room,
    persistent: bool,
}

enum Room {
    Owned(Owned<u8>),
    Plain(PlainBuf),
}

struct Fuzz {
    plain: Vec<PlainBuf>,
    lanes: Lanes,
    random: Random,
    contexts: Vec<Vec<u32>>,
    /// The number of ranks of a node, if the network matches messages of other nodes.
    matched_beyond: Option<u32>,
    sent: Vec<ModelMessage>,
    wanted: Vec<ModelReceive>,
    open: Vec<Open>,
    sends: Vec<Leaving>,
}

fn content(number: usize, len: usize) -> Vec<u8> {
    let number = (number as u32).to_le_bytes();
    number.into_iter().chain((4..len).map(|i| (i as u8).wrapping_mul(7) ^ number[0])).collect()
}

impl Fuzz {
    fn new(seed: u64) -> Fuzz {
        // Messages of all senders, of those of the other node, or of none use a network that
        // matches.
        let matched_beyond = [None, Some(2), Some(1)][seed as usize % 3];
        // In every second run a tag can name only the first communicator.
        let last_context = if seed.is_multiple_of(2) { u32::MAX } else { 1 };
        let mut lanes =
            Lanes::new(RANKS, seed, LinkFaults { matched_beyond, last_context, ..rough() });
        let mut contexts = Vec::new();
        for me in 0..RANKS {
            let lane = &mut lanes.lanes[me as usize];
            let other = lane.open_team(RankMap::Identity(RANKS), me, ContextId::new(0, 2), false);
            contexts.push(vec![lanes.worlds[me as usize].point_to_point, other.point_to_point]);
        }
        let random = Random::new(seed ^ 0x5eed);
        let (sent, wanted, plain) = (Vec::new(), Vec::new(), Vec::new());
        let (open, sends) = (Vec::new(), Vec::new());
        Fuzz { plain, lanes, random, contexts, matched_beyond, sent, wanted, open, sends }
    }

    fn receiver(&mut self) -> &mut Lane<Sim> {
        &mut self.lanes.lanes[0]
    }

    fn send(&mut self) {
        let from = self.random.below(u64::from(RANKS)) as u32;
        let context = self.random.below(2) as usize;
        let tag = self.random.below(3) as i32;
        let len = [4, 8, 56, 57, 99, 100, 101, ROOM][self.random.below(8) as usize];
        let data = Owned::new(content(self.sent.len(), len));
        let own = self.contexts[from as usize][context];
        let lane = &mut self.lanes.lanes[from as usize];
        let mode =
            [Mode::Standard, Mode::Synchronous, Mode::Buffered][self.random.below(3) as usize];
        if let Some(bytes) = data.buf().as_contiguous()
            && mode == Mode::Standard
            && from != 0
            && lane.send_now(own, 0, tag, bytes)
        {
            self.sent.push(ModelMessage { context, from, tag, len, cancelled: false });
            return;
        }
        let started = lane.start_send(own, mode, data.buf(), 0, tag).expect("nobody is lost");
        if let Started::Pending(request) = started {
            self.sends.push(Leaving { from, request, message: self.sent.len(), withdrawn: false });
        }
        self.sent.push(ModelMessage { context, from, tag, len, cancelled: false });
    }

    fn source_and_tag(&mut self) -> (MatchSource, TagMatch) {
        let source = match self.random.below(u64::from(RANKS) + 2) as u32 {
            process if process < RANKS => MatchSource::Process(process),
            _ => MatchSource::Any,
        };
        let tag = match self.random.below(4) {
            3 => TagMatch::Any,
            tag => TagMatch::Is(tag as i32),
        };
        (source, tag)
    }

    fn receive(&mut self) {
        let context = self.random.below(2) as usize;
        let own = self.contexts[0][context];
        let (source, tag) = self.source_and_tag();
        let tags = match tag {
            TagMatch::Any => Tags::ANY,
            TagMatch::Is(tag) => Tags::one(tag),
        };
        let from = match source {
            MatchSource::Any => ANYBODY,
            MatchSource::Process(process) => process,
        };
        let data = Owned::new(vec![0u8; ROOM]);
        let plain = self.plain.pop().unwrap_or_else(|| PlainBuf::leaked(ROOM));
        let kind = self.random.below(5);
        let lane = self.receiver();
        let started = match kind {
            0 => match lane.receive_plain(own, (Some(from), from as i32), tags, plain) {
                Some(StartedReceive::Waits(request) | StartedReceive::Taken(request)) => {
                    Some(Started::Pending(request))
                }
                None => None,
            },
            1 if from != ANYBODY && from != 0 => {
                match lane.receive_now(own, (from, from as i32), tags, &plain) {
                    Now::Received(received) => Some(Started::Complete(received.into())),
                    Now::Begun(request) => Some(Started::Pending(request)),
                    Now::NotYet | Now::NeverSo => None,
                }
            }
            2 => {
                lane.take_message(own, source, tag).expect("nobody is lost").map(|(message, _)| {
                    lane.receive_message(message, data.buf()).expect("it was found")
                })
            }
            3 => {
                let operation =
                    Operation::Receive { context: own, buffer: data.buf(), source, tag };
                let request = lane.open_persistent(operation);
                lane.start(request).expect("it is new");
                Some(Started::Pending(request))
            }
            _ => Some(lane.start_receive(own, data.buf(), source, tag).expect("nobody is lost")),
        };
        let is_plain = kind == 0 || (kind == 1 && from != ANYBODY && from != 0);
        let room = if is_plain && started.is_some() {
            Room::Plain(plain)
        } else {
            self.plain.push(plain);
            Room::Owned(data)
        };
        let Some(started) = started else { return };
        let wanted = self.wanted.len();
        self.wanted.push(ModelReceive { context, source, tag, got: None, cancelled: false });
        match started {
            Started::Complete(said) => self.complete(wanted, said, room),
            Started::Pending(request) => {
                self.open.push(Open { wanted, request, room, persistent: kind == 3 })
            }
        }
    }

    fn complete(&mut self, wanted: usize, said: Completion, room: Room) {
        assert_eq!(said.fault, None);
        let data = match room {
            Room::Owned(owned) => {
                owned.into_vec().unwrap_or_else(|_| panic!("the buffer is still in use"))
            }
            Room::Plain(plain) => {
                let mut data = vec![0; ROOM];
                plain.bytes().copy_to(BytesMut::from(&mut data[..]));
                self.plain.push(plain);
                data
            }
        };
        if said.cancelled {
            self.wanted[wanted].cancelled = true;
            return;
        }
        let number = u32::from_le_bytes([data[0], data[1], data[2], data[3]]) as usize;
        let message = &self.sent[number];
        assert_eq!(
            (said.source, said.tag, said.bytes),
            (message.from as i32, message.tag, message.len as u64)
        );
        assert!(data[..message.len] == content(number, message.len), "message {number} is damaged");
        assert!(self.wanted[wanted].matches(message), "receive {wanted} got message {number}");
        assert!(self.wanted.iter().all(|w| w.got != Some(number)), "message {number} came twice");
        self.wanted[wanted].got = Some(number);
    }

    fn query(&mut self) {
        let mut at = 0;
        while at < self.open.len() {
            let Open { request, persistent, .. } = self.open[at];
            let cancels = self.random.below(30) == 0;
            let lane = self.receiver();
            if cancels {
                lane.cancel(request);
            }
            match lane.test(request).expect("a request of this lane") {
                None => at += 1,
                Some(said) => {
                    assert_eq!(said.stays, persistent);
                    if persistent {
                        assert!(lane.is_inactive(request));
                        assert!(lane.detach(request));
                    }
                    assert!(lane.test(request).is_none(), "it is gone");
                    let Open { wanted, room, .. } = self.open.swap_remove(at);
                    self.complete(wanted, said, room);
                }
            }
        }
    }

    fn query_sends(&mut self, may_cancel: bool) {
        let mut at = 0;
        while at < self.sends.len() {
            let cancels = may_cancel && self.random.below(10) == 0;
            let Leaving { from, request, message, ref mut withdrawn } = self.sends[at];
            let lane = &mut self.lanes.lanes[from as usize];
            if cancels {
                lane.cancel(request);
                *withdrawn = true;
            }
            match lane.test(request).expect("a request of this lane") {
                None => at += 1,
                Some(said) => {
                    assert!(said.fault.is_none() && (!said.cancelled || *withdrawn));
                    self.sent[message].cancelled = said.cancelled;
                    self.sends.swap_remove(at);
                }
            }
        }
    }

    fn check(&self) {
        for (number, message) in self.sent.iter().enumerate() {
            let taken_by = self.wanted.iter().position(|w| w.got == Some(number));
            if message.cancelled {
                assert_eq!(taken_by, None, "message {number} was cancelled");
                continue;
            }
            for (at, receive) in self.wanted.iter().enumerate() {
                if receive.cancelled
                    || !receive.matches(message)
                    || taken_by.is_some_and(|by| by <= at)
                {
                    continue;
                }
                // An earlier receive matches the message, so it must have an earlier message of
                // this sender, or a message of another sender.
                let better = receive
                    .got
                    .is_some_and(|got| self.sent[got].from != message.from || got < number);
                let taker = taken_by.map(|by| (by, &self.wanted[by]));
                let got = receive.got.map(|got| &self.sent[got]);
                assert!(
                    better,
                    "{message:?} (message {number}, taken by {taker:?}) passed {receive:?} (receive {at}), which has {got:?}"
                );
            }
        }
    }
}

fn play(seed: u64) {
    let mut fuzz = Fuzz::new(seed);
    for _ in 0..200 {
        match fuzz.random.below(6) {
            0 | 1 => fuzz.send(),
            2 | 3 => fuzz.receive(),
            4 => {
                fuzz.query();
                fuzz.query_sends(true);
            }
            _ => {
                for _ in 0..fuzz.random.below(6) {
                    fuzz.lanes.step();
                }
            }
        }
    }
    fuzz.lanes.settle();
    while fuzz.receiver().progress() {}
    fuzz.query();
    fuzz.lanes.settle();
    fuzz.query();
    fuzz.query_sends(true);
    fuzz.lanes.settle();
    while fuzz.receiver().progress() {}
    fuzz.lanes.settle();
    fuzz.query_sends(false);
    // The network cannot withdraw a message that has left.
    let is_matched = |from| fuzz.matched_beyond.is_some_and(|of_a_node| from >= of_a_node);
    let waits = fuzz.sends.iter().any(|send| send.withdrawn && !is_matched(send.from));
    assert!(!waits, "a cancelled send waits for nobody");
    fuzz.check();
    assert_eq!(fuzz.lanes.nonsense(), 0);
}

#[test]
fn every_message_goes_to_the_first_receive_that_wants_it() {
    seeds::each_seed(play);
}
