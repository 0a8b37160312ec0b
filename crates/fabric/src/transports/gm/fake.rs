//! A network in memory for the tests of this transport: two ports, and sockets for introductions.
//! Operations end late, in an order that a seed chooses. A test fails if it sends without a token,
//! or changes memory that GM has.

#![allow(clippy::panic_in_result_fn, clippy::expect_used)] // they fail the test

use super::GmPort;
use crate::sim::Random;
use crate::{
    Body, FrameSink, Limits, Membership, OutgoingMessage, Sent, Statistics, Transport, Unreachable,
};
use oxmpi_gm::{GmError, GmEvent, GmOperation, GmRegion, GmSlot, GmStatus, GmTarget, WordId};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Frame;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// In bytes.
pub(super) const SLOT: usize = 248;

enum FakeGmOperation {
    Slot(GmSlot, Vec<u8>),
    Word(u64, u64),
    Put(GmRegion, u64),
    Get(GmRegion, u64),
    GetWord(WordId, u64),
}

impl FakeGmOperation {
    fn is_word(&self) -> bool {
        matches!(self, FakeGmOperation::Word(..))
    }
    fn operation(&self) -> GmOperation {
        match self {
            FakeGmOperation::Slot(slot, _) => GmOperation::Send(*slot),
            FakeGmOperation::Word(..) => GmOperation::PutWord,
            FakeGmOperation::Put(region, _) => GmOperation::Put(*region),
            FakeGmOperation::Get(region, _) => GmOperation::Get(*region),
            FakeGmOperation::GetWord(word, _) => GmOperation::GetWord(*word),
        }
    }
}

struct FakeEnd {
    send_tokens: u32,
    receive_tokens: u32,
    provided: VecDeque<GmSlot>,
    queue: VecDeque<FakeGmOperation>,
    is_disabled: bool,
    is_closed: bool,
    done: VecDeque<(GmEvent, Vec<u8>)>,
    words: Vec<u64>,
    regions: HashMap<u32, UserBuf>,
    meets: VecDeque<(bool, Vec<u8>)>,
}

impl FakeEnd {
    fn new(send_tokens: u32, receive_tokens: u32) -> FakeEnd {
        FakeEnd {
            send_tokens,
            receive_tokens,
            provided: VecDeque::new(),
            queue: VecDeque::new(),
            is_disabled: false,
            is_closed: false,
            done: VecDeque::new(),
            words: Vec::new(),
            regions: HashMap::new(),
            meets: VecDeque::new(),
        }
    }
}

pub(super) struct GmWorld {
    random: Random,
    ends: [FakeEnd; 2],
    pub(super) is_broken: bool,
    /// If set, one in this number of messages finds no buffer in time.
    pub(super) times_out: Option<u64>,
    pub(super) timed_out: u32,
    pub(super) has_left: [bool; 2],
    pub(super) cannot_register: [bool; 2],
    made_regions: u32,
    tokens: (u32, u32),
    pub(super) moved: u64,
}

#[derive(Clone)]
pub(super) struct SharedGmWorld(Arc<Mutex<GmWorld>>);

impl std::fmt::Debug for SharedGmWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedGmWorld")
    }
}

impl SharedGmWorld {
    pub(super) fn new(seed: u64, send_tokens: u32, receive_tokens: u32) -> SharedGmWorld {
        let end = || FakeEnd::new(send_tokens, receive_tokens);
        SharedGmWorld(Arc::new(Mutex::new(GmWorld {
            random: Random::new(seed),
            ends: [end(), end()],
            is_broken: false,
            times_out: None,
            timed_out: 0,
            has_left: [false; 2],
            cannot_register: [false; 2],
            made_regions: 0,
            tokens: (send_tokens, receive_tokens),
            moved: 0,
        })))
    }

    pub(super) fn with<T>(&self, of: impl FnOnce(&mut GmWorld) -> T) -> T {
        of(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl GmWorld {
    /// Stops the sends of an end, as after a failure.
    pub(super) fn disable(&mut self, me: usize) {
        self.ends[me].is_disabled = true;
    }

    pub(super) fn has_delivered(&self) -> bool {
        self.ends.iter().all(|end| end.done.is_empty())
    }

    pub(super) fn regions(&self) -> usize {
        self.ends.iter().map(|end| end.regions.len()).sum()
    }

    fn ended(&mut self, me: usize, operation: GmOperation, status: GmStatus) {
        self.ends[me]
            .done
            .push_back((GmEvent::Ended { label: 1 - me as u32, operation, status }, Vec::new()));
    }

    fn step(&mut self) {
        let me = self.random.below(2) as usize;
        let random = self.random.below(1 << 20);
        let [first, second] = &mut self.ends;
        let (from, to) = if me == 0 { (first, second) } else { (second, first) };
        if from.is_disabled {
            return;
        }
        let Some(sending) = from.queue.pop_front() else { return };
        if to.is_closed {
            assert!(sending.is_word(), "something goes to a closed port");
            from.is_disabled = true;
            let why = "send says: target port was closed (status 17)".to_string();
            return self.ended(me, sending.operation(), GmStatus::Failed(why));
        }
        let operation = sending.operation();
        if self.is_broken {
            from.is_disabled = true;
            let why = "send says: target node was unreachable (status 18)".to_string();
            return self.ended(me, operation, GmStatus::Failed(why));
        }
        let is_move = !matches!(sending, FakeGmOperation::Slot(..) | FakeGmOperation::Word(..));
        if is_move && self.times_out.is_some_and(|one_of| random.is_multiple_of(one_of)) {
            from.is_disabled = true;
            self.timed_out += 1;
            return self.ended(me, operation, GmStatus::TimedOut);
        }
        match sending {
            FakeGmOperation::Word(address, value) => to.words[address as usize] = value,
            FakeGmOperation::GetWord(word, address) => {
                from.words[word.0 as usize] = to.words[address as usize]
            }
            FakeGmOperation::Put(region, address) | FakeGmOperation::Get(region, address) => {
                let Some(other) = to.regions.get(&(address as u32)) else {
                    from.is_disabled = true;
                    let why = "send says: send was rejected (status 16)".to_string();
                    return self.ended(me, operation, GmStatus::Failed(why));
                };
                if let Some(own) = from.regions.get(&region.0) {
                    let is_put = matches!(operation, GmOperation::Put(_));
                    let (source, into) = if is_put { (own, other) } else { (other, own) };
                    into.unpack(0, source.as_contiguous().expect("it lies in one piece"));
                    self.moved += own.packed_len() as u64;
                }
            }
            FakeGmOperation::Slot(slot, bytes) => {
                let is_late = self.times_out.is_some_and(|one_of| random.is_multiple_of(one_of));
                if is_late || to.provided.is_empty() {
                    // If the receiver has no buffer it may just be slow: GM tries again.
                    if !is_late && !random.is_multiple_of(4) {
                        return from.queue.push_front(FakeGmOperation::Slot(slot, bytes));
                    }
                    from.is_disabled = true;
                    self.timed_out += 1;
                    return self.ended(me, operation, GmStatus::TimedOut);
                }
                let into = to.provided.pop_front().expect("there is one");
                let from = GmTarget { node: 0, port: me as u32 };
                to.done
                    .push_back((GmEvent::Received { slot: into, len: bytes.len(), from }, bytes));
            }
        }
        self.ended(me, operation, GmStatus::Done);
    }
}

#[derive(Debug)]
pub(super) struct FakeGmPort {
    pub(super) world: SharedGmWorld,
    pub(super) me: usize,
    pub(super) slots: Vec<Vec<u8>>,
    pub(super) lent: HashSet<GmSlot>,
}

impl FakeGmPort {
    pub(super) fn new(world: SharedGmWorld, me: usize) -> FakeGmPort {
        FakeGmPort { world, me, slots: Vec::new(), lent: HashSet::new() }
    }

    fn end<T>(&self, of: impl FnOnce(&mut FakeEnd) -> T) -> T {
        self.world.with(|world| of(&mut world.ends[self.me]))
    }

    fn queue(&self, sending: FakeGmOperation) -> Result<(), GmError> {
        self.take_token()?;
        self.end(|end| end.queue.push_back(sending));
        Ok(())
    }

    fn take_token(&self) -> Result<(), GmError> {
        let exhausted = GmError::Exhausted { port: self.me as u32, what: "send tokens" };
        self.end(|end| end.send_tokens.checked_sub(1).map(|left| end.send_tokens = left))
            .ok_or(exhausted)
    }
}

impl GmPort for FakeGmPort {
    fn describe(&self) -> String {
        format!("port {} of the world", self.me)
    }
    fn close(&mut self) {
        self.slots.clear();
        self.lent.clear();
        self.world.with(|world| {
            let (sends, receives) = world.tokens;
            let end = &mut world.ends[self.me];
            assert!(
                end.queue.iter().all(FakeGmOperation::is_word) && end.regions.is_empty(),
                "something is under way"
            );
            let meets = std::mem::take(&mut end.meets);
            *end = FakeEnd { meets, is_closed: true, ..FakeEnd::new(sends, receives) };
        });
    }
    fn reopen(&mut self) -> Result<(), String> {
        self.end(|end| end.is_closed = false);
        Ok(())
    }
    fn address(&self) -> (u32, u32) {
        (7, self.me as u32)
    }
    fn target(&self, address: (u32, u32)) -> Result<GmTarget, GmError> {
        assert_eq!(address, (7, 1 - self.me as u32));
        Ok(GmTarget { node: 0, port: address.1 })
    }
    fn send_tokens(&self) -> u32 {
        self.end(|end| end.send_tokens)
    }
    fn receive_tokens(&self) -> u32 {
        self.end(|end| end.receive_tokens)
    }
    fn slot_len(&self) -> usize {
        SLOT
    }
    fn more_slots(&mut self, count: usize) -> Result<Vec<GmSlot>, GmError> {
        let first = self.slots.len();
        self.slots.resize(first + count, vec![0; SLOT]);
        Ok((first..first + count).map(|at| GmSlot(at as u32)).collect())
    }
    fn slot(&self, slot: GmSlot) -> &[u8] {
        assert!(!self.lent.contains(&slot));
        &self.slots[slot.0 as usize]
    }
    fn slot_mut(&mut self, slot: GmSlot) -> &mut [u8] {
        assert!(!self.lent.contains(&slot));
        &mut self.slots[slot.0 as usize]
    }
    fn provide(&mut self, slot: GmSlot) -> Result<(), GmError> {
        let exhausted = GmError::Exhausted { port: self.me as u32, what: "receive tokens" };
        self.end(|end| end.receive_tokens.checked_sub(1).map(|left| end.receive_tokens = left))
            .ok_or(exhausted)?;
        assert!(self.lent.insert(slot), "a slot is provided once");
        self.end(|end| end.provided.push_back(slot));
        Ok(())
    }
    fn send(&mut self, label: u32, to: GmTarget, slot: GmSlot, len: usize) -> Result<(), GmError> {
        assert_eq!((label, to.port), (1 - self.me as u32, 1 - self.me as u32));
        self.take_token()?;
        assert!(self.lent.insert(slot), "a slot is sent once");
        let bytes = self.slots[slot.0 as usize][..len].to_vec();
        self.end(|end| end.queue.push_back(FakeGmOperation::Slot(slot, bytes)));
        Ok(())
    }
    fn new_word(&mut self) -> Result<WordId, GmError> {
        self.end(|end| end.words.push(0));
        Ok(WordId(self.end(|end| end.words.len() as u32 - 1)))
    }
    fn word(&self, word: WordId) -> u64 {
        self.end(|end| end.words[word.0 as usize])
    }
    fn word_address(&self, word: WordId) -> u64 {
        word.0.into()
    }
    fn put_word(
        &mut self,
        _: u32,
        _: GmTarget,
        _: WordId,
        at_peer: (u64, u64),
    ) -> Result<(), GmError> {
        self.take_token()?;
        self.end(|end| end.queue.push_back(FakeGmOperation::Word(at_peer.0, at_peer.1)));
        Ok(())
    }
    fn set_word(&mut self, word: WordId, value: u64) {
        self.end(|end| end.words[word.0 as usize] = value);
    }
    fn get_word(&mut self, _: u32, _: GmTarget, word: WordId, address: u64) -> Result<(), GmError> {
        self.queue(FakeGmOperation::GetWord(word, address))
    }
    fn register(&mut self, buffer: &UserBuf) -> Result<GmRegion, GmError> {
        assert!(buffer.as_contiguous().is_some_and(|bytes| !bytes.is_empty()));
        self.world.with(|world| {
            if world.cannot_register[self.me] {
                return Err(GmError::Exhausted {
                    port: self.me as u32,
                    what: "memory to register",
                });
            }
            world.made_regions += 1;
            world.ends[self.me].regions.insert(world.made_regions, buffer.clone());
            Ok(GmRegion(world.made_regions))
        })
    }
    fn deregister(&mut self, region: GmRegion) {
        assert!(
            self.end(|end| end.regions.remove(&region.0)).is_some(),
            "a region is deregistered once"
        );
    }
    fn region_address(&self, region: GmRegion) -> u64 {
        region.0.into()
    }
    fn put(&mut self, _: u32, _: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError> {
        self.queue(FakeGmOperation::Put(region, address))
    }
    fn get(&mut self, _: u32, _: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError> {
        self.queue(FakeGmOperation::Get(region, address))
    }
    fn drop_sends(&mut self, label: u32, _: GmTarget) -> Result<(), GmError> {
        self.take_token()?;
        self.world.with(|world| {
            let end = &mut world.ends[self.me];
            assert!(std::mem::take(&mut end.is_disabled), "sends are dropped after a failure");
            let queue = std::mem::take(&mut end.queue);
            // The callback of the drop comes before or after the callbacks of the dropped sends.
            let is_first = world.random.below(2) == 0;
            let end =
                GmEvent::Ended { label, operation: GmOperation::Drop, status: GmStatus::Done };
            if is_first {
                world.ends[self.me].done.push_back((end.clone(), Vec::new()));
            }
            for sending in queue {
                world.ended(self.me, sending.operation(), GmStatus::Dropped);
            }
            if !is_first {
                world.ends[self.me].done.push_back((end, Vec::new()));
            }
        });
        Ok(())
    }
    fn poll(&mut self, into: &mut Vec<GmEvent>) {
        let FakeGmPort { world, me, slots, lent } = self;
        world.with(|world| {
            for _ in 0..world.random.below(4) {
                world.step();
            }
            for _ in 0..world.random.below(4) {
                let end = &mut world.ends[*me];
                let Some((event, bytes)) = end.done.pop_front() else { break };
                match &event {
                    GmEvent::Received { slot, .. } => {
                        end.receive_tokens += 1;
                        lent.remove(slot);
                        slots[slot.0 as usize][..bytes.len()].copy_from_slice(&bytes);
                    }
                    GmEvent::Ended { operation, .. } => {
                        end.send_tokens += 1;
                        if let GmOperation::Send(slot) = operation {
                            lent.remove(slot);
                        }
                    }
                }
                into.push(event);
            }
        });
    }
}

#[derive(Debug)]
pub(super) struct GmSockets {
    pub(super) world: SharedGmWorld,
    pub(super) me: usize,
}

impl Transport for GmSockets {
    fn name(&self) -> &'static str {
        "sockets"
    }
    fn limits(&self, _: u32) -> Limits {
        Limits { eager: 1 << 16, announced: 0 }
    }
    fn piece_limit(&mut self, _: u32) -> usize {
        1 << 16
    }
    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        let Frame::Meet { wants_answer } = message.frame else {
            panic!("{:?} goes over the network", message.frame)
        };
        let Body::Bytes(body) = message.body else { panic!("an introduction lies in one piece") };
        Ok(self.world.with(|world| {
            if world.random.below(3) == 0 {
                return Sent::Full;
            }
            world.ends[to as usize].meets.push_back((wants_answer, body.to_vec()));
            Sent::Done
        }))
    }
    fn poll(&mut self, _: Option<u32>, sink: &mut dyn FrameSink) -> bool {
        let came = self.world.with(|world| {
            if world.random.below(3) == 0 { None } else { world.ends[self.me].meets.pop_front() }
        });
        let Some((wants_answer, body)) = came else { return false };
        sink.meet(1 - self.me as u32, wants_answer, body.len(), Bytes::from(&body[..]));
        true
    }
}

impl Membership for GmSockets {
    fn has_left(&mut self, _: u32) -> bool {
        self.world.with(|world| world.has_left[self.me])
    }
}

impl Statistics for GmSockets {}
