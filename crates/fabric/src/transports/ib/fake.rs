//! A network in memory for the tests of this transport: two ports, and sockets for introductions.
//! Operations end late, in an order that a seed chooses. A test fails if it sends without a posted
//! receive, or has more sends under way than announced.

#![allow(clippy::panic_in_result_fn, clippy::expect_used)] // they fail the test

use super::settings::{ACCESSES, READS};
use super::{IbPort, IbSettings};
use crate::sim::Random;
use crate::{
    AtomicOperation, AtomicScope, Body, FrameSink, Limits, Membership, OutgoingMessage, Sent,
    Statistics, Transport, Unreachable,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_verbs::{
    AdapterOperation as Operation, Completion, LocalEnd, Refusal, RegionId, RemoteEnd,
    RemoteMemory, SlotId, VerbsError,
};
use oxmpi_wire::{Envelope, Frame};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

const SECOND: u32 = 1000;

enum FakeIbOperation {
    Slot(SlotId, Vec<u8>),
    Word(u64),
    Read(RegionId, (usize, u32), (u64, u32)),
    Check(RegionId, u32),
    Write(RegionId, Vec<u8>, (u64, u32)),
    WriteSlot(SlotId, Vec<u8>, (u64, u32)),
    ReadSlot(SlotId, usize, (u64, u32)),
    Atomic(SlotId, AtomicOperation, (u64, u32)),
}

impl FakeIbOperation {
    fn operation(&self) -> Operation {
        match self {
            FakeIbOperation::Slot(slot, _) => Operation::Send(*slot),
            FakeIbOperation::Word(_) => Operation::WriteWord,
            FakeIbOperation::Read(region, ..) | FakeIbOperation::Check(region, _) => {
                Operation::Read(*region)
            }
            FakeIbOperation::Write(region, ..) => Operation::Write(*region),
            FakeIbOperation::WriteSlot(slot, ..) => Operation::WriteSlot(*slot),
            FakeIbOperation::ReadSlot(slot, ..) => Operation::ReadSlot(*slot),
            FakeIbOperation::Atomic(slot, ..) => Operation::AtomicSlot(*slot),
        }
    }
}

struct FakeRegion {
    buffer: UserBuf,
    check: u64,
    is_exposed: bool,
    is_open: bool,
    uses: u32,
    /// The start of the lasting memory that contains it.
    of: Option<usize>,
}

#[derive(Default)]
struct FakeEnd {
    remote: Option<u32>,
    receives: VecDeque<SlotId>,
    word: u64,
    /// Posted operations that have not arrived, in order.
    wire: VecDeque<FakeIbOperation>,
    in_flight: u32,
    reads: u32,
    accesses: u32,
    is_writing: bool,
    is_in_error: bool,
}

pub(super) struct IbWorld {
    random: Random,
    settings: IbSettings,
    ends: HashMap<u32, FakeEnd>,
    shared: [VecDeque<SlotId>; 2],
    done: [VecDeque<(Completion, Vec<u8>)>; 2],
    meets: [VecDeque<(bool, Vec<u8>)>; 2],
    /// Whether each process has a port. The sockets carry eager messages only if one has none.
    pub(super) has_port: [bool; 2],
    messages: [VecDeque<(Envelope, Vec<u8>)>; 2],
    made: u32,
    has_made: [bool; 2],
    closed: [Vec<u32>; 2],
    /// Nothing arrives any more, and all operations under way fail.
    pub(super) is_broken: bool,
    pub(super) has_left: [bool; 2],
    pub(super) are_full: bool,
    /// The number of calls of `receive` after which one call fails.
    pub(super) receives_left: Option<u32>,
    pub(super) is_exhausted: bool,
    regions: HashMap<u32, FakeRegion>,
    made_regions: u32,
    lasting: [HashMap<usize, usize>; 2],
    pub(super) cannot_register: [bool; 2],
    pub(super) denies_reads: bool,
    pub(super) denies_accesses: bool,
    pub(super) atomics: AtomicScope,
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) changes: u64,
    /// If not 0, one in this number of operations fails, although it may have arrived.
    pub(super) failures: u64,
    pub(super) refuses: bool,
    /// If not 0, one in this number of steps towards a connection is refused.
    pub(super) refusals: u64,
    pub(super) refused: u32,
    pub(super) failed: u32,
}

#[derive(Clone)]
pub(super) struct SharedIbWorld(Arc<Mutex<IbWorld>>);

impl std::fmt::Debug for SharedIbWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedIbWorld")
    }
}

fn port_of(queue_pair: u32) -> usize {
    usize::from(queue_pair >= SECOND)
}

impl SharedIbWorld {
    pub(super) fn new(seed: u64, settings: IbSettings) -> SharedIbWorld {
        SharedIbWorld(Arc::new(Mutex::new(IbWorld {
            random: Random::new(seed),
            settings,
            ends: HashMap::new(),
            shared: Default::default(),
            done: Default::default(),
            meets: Default::default(),
            has_port: [true; 2],
            messages: Default::default(),
            made: 1,
            has_made: [false; 2],
            closed: Default::default(),
            is_broken: false,
            has_left: [false; 2],
            are_full: false,
            receives_left: None,
            is_exhausted: false,
            regions: HashMap::new(),
            made_regions: 0,
            lasting: Default::default(),
            cannot_register: [false; 2],
            denies_reads: false,
            denies_accesses: false,
            atomics: AtomicScope::Adapter,
            read: 0,
            written: 0,
            changes: 0,
            failures: 0,
            refuses: false,
            refusals: 0,
            refused: 0,
            failed: 0,
        })))
    }

    pub(super) fn with<T>(&self, of: impl FnOnce(&mut IbWorld) -> T) -> T {
        of(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl IbWorld {
    pub(super) fn ends_made(&self) -> u32 {
        self.made - 1
    }

    pub(super) fn regions(&self) -> usize {
        self.regions.len()
    }

    pub(super) fn shared_len(&self, me: usize) -> usize {
        self.shared[me].len()
    }

    pub(super) fn flush(&mut self, me: usize, queue_pair: u32) {
        let slot = self.shared[me].pop_front().expect("the shared queue has a slot");
        let error = Some("Work Request Flushed Error (vendor error 0xf9)".to_string());
        let operation = Operation::Receive(slot, 0);
        let ended = completion(queue_pair, operation, error);
        self.done[me].push_back((ended, Vec::new()));
    }

    fn refuses_step(&mut self) -> bool {
        let is_refused = self.refusals > 0 && self.random.below(self.refusals) == 0;
        self.refused += u32::from(is_refused);
        is_refused
    }

    fn step(&mut self) {
        let mut busy: Vec<u32> =
            self.ends.iter().filter(|(_, end)| !end.wire.is_empty()).map(|(at, _)| *at).collect();
        busy.sort_unstable();
        if busy.is_empty() {
            return;
        }
        let from = busy[self.random.below(busy.len() as u64) as usize];
        let Some(end) = self.ends.get_mut(&from) else { return };
        let (Some(sending), to) = (end.wire.pop_front(), end.remote) else { return };
        let is_flushed = end.is_in_error;
        let to = to.expect("a sender is connected");
        let has_peer = self.ends.contains_key(&to);
        let has_timed_out = !is_flushed && (self.is_broken || !has_peer);
        let operation = sending.operation();
        let mut bytes = Vec::new();
        let mut error = has_timed_out
            .then(|| "transport retry counter exceeded (vendor error 0x81)".to_string());
        if is_flushed {
            error = Some("Work Request Flushed Error (vendor error 0xf9)".to_string());
        } else if error.is_none() {
            let fails = self.failures > 0 && self.random.below(self.failures) == 0;
            if !fails || self.random.below(2) == 0 {
                (error, bytes) = self.arrive(to, sending);
            }
            if fails {
                self.failed += 1;
                error = Some("local QP operation error (vendor error 0x70)".to_string());
            }
        }
        if let (Some(_), Some(end)) = (&error, self.ends.get_mut(&from)) {
            end.is_in_error = true;
        }
        // The test detects the end of a peer sooner than the adapter gives up.
        let has_timed_out = has_timed_out && self.is_broken;
        let is_refused = error.as_ref().is_some_and(|error| error.contains("remote access error"));
        let refusal = is_refused.then_some(Refusal::Untouched);
        let ended = Completion { queue_pair: from, operation, error, has_timed_out, refusal };
        self.done[port_of(from)].push_back((ended, bytes));
    }

    fn opened(&self, (address, key): (u64, u32), len: usize) -> Option<BytesMut<'_>> {
        let region =
            self.regions.get(&key).filter(|region| region.is_open && !self.denies_accesses)?;
        Some(region.buffer.as_contiguous_mut()?.into_slice(address as usize, len))
    }

    /// Carries out an operation. Returns its error, and the bytes that it brings back.
    fn arrive(&mut self, to: u32, sending: FakeIbOperation) -> (Option<String>, Vec<u8>) {
        let denied = || (Some("remote access error (vendor error 0x88)".to_string()), Vec::new());
        let shared = &mut self.shared[port_of(to)];
        let end = self.ends.get_mut(&to).expect("the other end is there");
        assert!(end.remote.is_some(), "the receiver is connected before anybody sends to it");
        if end.is_in_error {
            return (
                Some("transport retry counter exceeded (vendor error 0x81)".to_string()),
                Vec::new(),
            );
        }
        match sending {
            FakeIbOperation::Write(_, bytes, there)
            | FakeIbOperation::WriteSlot(_, bytes, there) => {
                let Some(memory) = self.opened(there, bytes.len()) else { return denied() };
                Bytes::from(&bytes[..]).copy_to(memory);
                self.written += bytes.len() as u64;
            }
            FakeIbOperation::ReadSlot(_, len, there) => {
                let Some(memory) = self.opened(there, len) else { return denied() };
                return (None, memory.as_bytes().to_vec());
            }
            FakeIbOperation::Atomic(_, operation, there) => {
                let Some(memory) = self.opened(there, size_of::<u64>()) else { return denied() };
                let before = memory.as_bytes().to_vec();
                let value = u64::from_ne_bytes(before[..].try_into().expect("it has eight bytes"));
                let new = match operation {
                    AtomicOperation::FetchAdd(add) => value.wrapping_add(add),
                    AtomicOperation::CompareSwap { compare, new } if value == compare => new,
                    AtomicOperation::CompareSwap { .. } => value,
                };
                Bytes::from(&new.to_ne_bytes()[..]).copy_to(memory);
                self.changes += 1;
                return (None, before);
            }
            FakeIbOperation::Word(value) => end.word = value,
            FakeIbOperation::Slot(_, bytes) => {
                let queue = if self.settings.shared.is_some() { shared } else { &mut end.receives };
                let slot = queue.pop_front().expect("a receiver is always ready (rule 2)");
                let operation = Operation::Receive(slot, bytes.len());
                let ended = completion(to, operation, None);
                self.done[port_of(to)].push_back((ended, bytes));
            }
            FakeIbOperation::Read(region, (offset, len), (address, key)) => {
                let may_read = |source: &&FakeRegion| {
                    source.is_exposed && !self.denies_reads
                        || source.is_open && !self.denies_accesses
                };
                let source = self.regions.get(&key).filter(may_read);
                let Some(source) = source else { return denied() };
                let bytes = source.buffer.as_contiguous().expect("it lies in one piece");
                let bytes = bytes.slice(address as usize, len as usize);
                let target = &self.regions.get(&region.0).expect("the target is registered").buffer;
                let target = target.as_contiguous_mut().expect("it lies in one piece");
                bytes.copy_to(target.into_slice(offset, len as usize));
                self.read += u64::from(len);
            }
            FakeIbOperation::Check(region, key) => {
                let Some(check) = self.regions.get(&key).map(|source| source.check) else {
                    return denied();
                };
                self.regions.get_mut(&region.0).expect("the target is registered").check = check;
            }
        }
        (None, Vec::new())
    }
}

fn completion(queue_pair: u32, operation: Operation, error: Option<String>) -> Completion {
    Completion { queue_pair, operation, error, has_timed_out: false, refusal: None }
}

#[derive(Debug)]
pub(super) struct FakePort {
    pub(super) world: SharedIbWorld,
    pub(super) me: usize,
    pub(super) slots: Vec<Vec<u8>>,
    pub(super) posted: HashSet<SlotId>,
}

impl FakePort {
    fn lend(&mut self, slot: SlotId) {
        assert!(self.posted.insert(slot), "a slot is posted once");
    }

    fn exhausted(&self, what: &'static str) -> VerbsError {
        VerbsError::Exhausted { device: self.describe(), what }
    }

    fn add(
        &mut self,
        buffer: &UserBuf,
        (is_exposed, is_open): (bool, bool),
    ) -> Result<RegionId, VerbsError> {
        self.world.with(|world| {
            if world.cannot_register[self.me] {
                return Err(self.exhausted("memory that it may lock"));
            }
            world.made_regions += 1;
            let (at, len) = (buffer.as_ptr() as usize, buffer.packed_len());
            let mut lasting = world.lasting[self.me].iter();
            let of = lasting.find(|(start, room)| **start <= at && at + len <= **start + **room);
            let of = of.map(|(start, _)| *start);
            let region =
                FakeRegion { buffer: buffer.clone(), check: 0, is_exposed, is_open, uses: 0, of };
            world.regions.insert(world.made_regions, region);
            Ok(RegionId(world.made_regions))
        })
    }

    fn post_read(&mut self, queue_pair: u32, region: RegionId, sending: FakeIbOperation) {
        self.world.with(|world| {
            let end = world.ends.get_mut(&queue_pair).expect("it is open");
            end.reads += 1;
            assert!(
                end.reads <= READS + ACCESSES,
                "the send queue has room for {READS} reads and accesses"
            );
            end.wire.push_back(sending);
            world.regions.get_mut(&region.0).expect("it is registered").uses += 1;
        });
    }

    fn post_access(&mut self, queue_pair: u32, sending: FakeIbOperation) {
        self.world.with(|world| {
            let end = world.ends.get_mut(&queue_pair).expect("it is open");
            end.accesses += 1;
            assert!(end.accesses <= ACCESSES, "the send queue has room for {ACCESSES} accesses");
            end.wire.push_back(sending);
        });
    }
}

impl IbPort for FakePort {
    fn describe(&self) -> String {
        format!("port {} of the world", self.me)
    }
    fn more_slots(&mut self) -> Result<Vec<SlotId>, VerbsError> {
        let (len, count) =
            self.world.with(|world| (world.settings.envelope_len(), world.settings.envelopes));
        let first = self.slots.len() as u32;
        self.slots.extend((0..count).map(|_| vec![0; len]));
        Ok((first..first + count).map(SlotId).collect())
    }
    fn slot(&self, slot: SlotId) -> &[u8] {
        assert!(!self.posted.contains(&slot));
        &self.slots[slot.0 as usize]
    }
    fn slot_mut(&mut self, slot: SlotId) -> &mut [u8] {
        assert!(!self.posted.contains(&slot));
        &mut self.slots[slot.0 as usize]
    }
    fn create(&mut self, first_packet: u32) -> Result<LocalEnd, VerbsError> {
        let queue_pair = self.world.with(|world| {
            // Only a failure of the first queue pair is final.
            if world.is_exhausted || world.has_made[self.me] && world.refuses_step() {
                return Err(self.exhausted("queue pairs"));
            }
            world.made += 1;
            world.has_made[self.me] = true;
            let number = world.made + self.me as u32 * SECOND;
            world.ends.insert(number, FakeEnd::default());
            Ok(number)
        })?;
        Ok(LocalEnd { queue_pair, first_packet, ..LocalEnd::default() })
    }
    fn connect(&mut self, local: &LocalEnd, remote: &RemoteEnd) -> Result<(), VerbsError> {
        self.world.with(|world| {
            if world.refuses || world.refuses_step() {
                return Err(self.exhausted("routes"));
            }
            let end = world.ends.get_mut(&local.queue_pair).expect("it was made");
            assert_eq!(end.remote.replace(remote.queue_pair), None, "it is connected once");
            Ok(())
        })
    }
    fn close(&mut self, queue_pair: u32) {
        self.world.with(|world| {
            let Some(end) = world.ends.remove(&queue_pair) else { return };
            let receives = end.receives.iter().map(|slot| Operation::Receive(*slot, 0));
            for operation in end.wire.iter().map(FakeIbOperation::operation).chain(receives) {
                let error = Some("Work Request Flushed Error (vendor error 0xf9)".to_string());
                let ended = completion(queue_pair, operation, error);
                world.done[self.me].push_back((ended, Vec::new()));
            }
            world.closed[self.me].push(queue_pair);
        });
    }
    fn take_closed(&mut self) -> Vec<u32> {
        self.world.with(|world| {
            let done = &world.done[self.me];
            let is_used = |number: &u32| done.iter().any(|(ended, _)| ended.queue_pair == *number);
            let (later, now) =
                std::mem::take(&mut world.closed[self.me]).into_iter().partition(is_used);
            world.closed[self.me] = later;
            now
        })
    }
    fn peer_word(&self, queue_pair: u32) -> u64 {
        self.world.with(|world| world.ends.get(&queue_pair).map_or(0, |end| end.word))
    }
    fn write_word(&mut self, queue_pair: u32, value: u64) -> Result<(), VerbsError> {
        self.world.with(|world| {
            let end = world.ends.get_mut(&queue_pair).expect("it is open");
            assert!(!std::mem::replace(&mut end.is_writing, true), "one word at a time");
            end.wire.push_back(FakeIbOperation::Word(value));
        });
        Ok(())
    }
    fn send(&mut self, queue_pair: u32, slot: SlotId, len: usize) -> Result<(), VerbsError> {
        self.lend(slot);
        let bytes = self.slots[slot.0 as usize][..len].to_vec();
        self.world.with(|world| {
            let most = world.settings.envelopes;
            let end = world.ends.get_mut(&queue_pair).expect("it is open");
            end.in_flight += 1;
            assert!(end.in_flight <= most, "the send queue has room for {most}");
            end.wire.push_back(FakeIbOperation::Slot(slot, bytes));
        });
        Ok(())
    }
    fn receive(&mut self, queue_pair: u32, slot: SlotId) -> Result<(), VerbsError> {
        let fails = self.world.with(|world| {
            let left = world.receives_left.as_mut();
            left.is_some_and(|left| std::mem::replace(left, left.saturating_sub(1)) == 0)
        });
        if fails {
            self.world.with(|world| world.receives_left = None);
            return Err(self.exhausted("receives"));
        }
        self.lend(slot);
        self.world.with(|world| match (world.settings.shared, world.ends.get_mut(&queue_pair)) {
            (None, Some(end)) => end.receives.push_back(slot),
            _ => world.shared[self.me].push_back(slot),
        });
        Ok(())
    }
    fn expose(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        self.add(buffer, (true, false))
    }
    fn register(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        self.add(buffer, (false, false))
    }
    fn open_to_peers(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        self.add(buffer, (false, true))
    }
    fn source(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        self.add(buffer, (false, false))
    }
    fn write(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        (offset, len): (usize, u32),
        to: (u64, u32),
    ) -> Result<(), VerbsError> {
        let bytes = self.world.with(|world| {
            let region = world.regions.get_mut(&region.0).expect("it is registered");
            region.uses += 1;
            let bytes = region.buffer.as_contiguous().expect("it lies in one piece");
            bytes.slice(offset, len as usize).to_vec()
        });
        self.post_access(queue_pair, FakeIbOperation::Write(region, bytes, to));
        Ok(())
    }
    fn write_slot(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        len: usize,
        to: (u64, u32),
    ) -> Result<(), VerbsError> {
        self.lend(slot);
        let bytes = self.slots[slot.0 as usize][..len].to_vec();
        self.post_access(queue_pair, FakeIbOperation::WriteSlot(slot, bytes, to));
        Ok(())
    }
    fn read_into_slot(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        len: usize,
        from: (u64, u32),
    ) -> Result<(), VerbsError> {
        self.lend(slot);
        self.post_access(queue_pair, FakeIbOperation::ReadSlot(slot, len, from));
        Ok(())
    }
    fn atomics(&self) -> AtomicScope {
        self.world.with(|world| world.atomics)
    }
    fn atomic(
        &mut self,
        queue_pair: u32,
        slot: SlotId,
        operation: AtomicOperation,
        at: (u64, u32),
    ) -> Result<(), VerbsError> {
        self.lend(slot);
        self.post_access(queue_pair, FakeIbOperation::Atomic(slot, operation, at));
        Ok(())
    }
    fn deregister(&mut self, region: RegionId) -> bool {
        self.world.with(|world| {
            let is_used = world.regions.get(&region.0).is_some_and(|region| region.uses > 0);
            assert!(!is_used, "a region is deregistered when no read into it is under way");
            world.regions.remove(&region.0);
            true
        })
    }
    fn keep(&mut self, memory: &UserBuf) {
        let (start, len) = (memory.as_ptr() as usize, memory.packed_len());
        self.world.with(|world| world.lasting[self.me].insert(start, len));
    }
    fn forget(&mut self, start: usize) -> bool {
        self.world.with(|world| {
            let mut of = world.regions.values_mut().filter(|region| region.of == Some(start));
            if of.any(|region| region.uses > 0) {
                return false;
            }
            for region in world.regions.values_mut().filter(|region| region.of == Some(start)) {
                (region.buffer, region.of) = (UserBuf::empty(), None);
                (region.is_exposed, region.is_open) = (false, false);
            }
            world.lasting[self.me].remove(&start);
            true
        })
    }
    fn is_of(&self, region: RegionId, start: usize) -> bool {
        self.world
            .with(|world| world.regions.get(&region.0).is_some_and(|known| known.of == Some(start)))
    }
    fn exposed(&self, region: RegionId) -> Option<RemoteMemory> {
        Some(RemoteMemory { memory: (0, region.0), check: (0, region.0) })
    }
    fn set_check(&mut self, region: RegionId, value: u64) {
        self.world.with(|world| {
            world.regions.get_mut(&region.0).expect("it is registered").check = value
        });
    }
    fn check_of(&self, region: RegionId) -> u64 {
        self.world.with(|world| world.regions.get(&region.0).expect("it is registered").check)
    }
    fn read(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        place: (usize, u32),
        from: (u64, u32),
    ) -> Result<(), VerbsError> {
        self.post_read(queue_pair, region, FakeIbOperation::Read(region, place, from));
        Ok(())
    }
    fn read_check(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        from: (u64, u32),
    ) -> Result<(), VerbsError> {
        self.post_read(queue_pair, region, FakeIbOperation::Check(region, from.1));
        Ok(())
    }
    fn poll(&mut self, into: &mut Vec<Completion>) -> Result<(), VerbsError> {
        let FakePort { world, me, slots, posted } = self;
        world.with(|world| {
            for _ in 0..world.random.below(4) {
                world.step();
            }
            for _ in 0..world.random.below(4) {
                let Some((ended, bytes)) = world.done[*me].pop_front() else { break };
                match ended.operation {
                    Operation::WriteWord => {}
                    Operation::Read(region) | Operation::Write(region) => {
                        world.regions.get_mut(&region.0).expect("it is registered").uses -= 1;
                    }
                    Operation::Send(slot)
                    | Operation::Receive(slot, _)
                    | Operation::ReadSlot(slot)
                    | Operation::WriteSlot(slot)
                    | Operation::AtomicSlot(slot) => {
                        posted.remove(&slot);
                        slots[slot.0 as usize][..bytes.len()].copy_from_slice(&bytes);
                    }
                }
                if let Some(end) = world.ends.get_mut(&ended.queue_pair) {
                    match ended.operation {
                        Operation::WriteWord => end.is_writing = false,
                        Operation::Send(_) => end.in_flight -= 1,
                        Operation::Read(_) => end.reads -= 1,
                        Operation::Write(_)
                        | Operation::ReadSlot(_)
                        | Operation::WriteSlot(_)
                        | Operation::AtomicSlot(_) => end.accesses -= 1,
                        Operation::Receive(..) => {}
                    }
                }
                into.push(ended);
            }
        });
        Ok(())
    }
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn arm(&mut self) -> Result<(), VerbsError> {
        Ok(())
    }
    fn take_events(&mut self) {}
}

#[derive(Debug)]
pub(super) struct FakeSockets {
    pub(super) world: SharedIbWorld,
    pub(super) me: usize,
}

impl Transport for FakeSockets {
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
        let Body::Bytes(body) = message.body else { panic!("it lies in one piece") };
        if let Frame::Eager { envelope } = message.frame {
            return Ok(self.world.with(|world| {
                assert_ne!(world.has_port, [true; 2], "messages go over the network");
                if world.random.below(3) == 0 {
                    return Sent::Full;
                }
                world.messages[to as usize].push_back((envelope, body.to_vec()));
                Sent::Done
            }));
        }
        let Frame::Meet { wants_answer } = message.frame else {
            panic!("{:?} goes over the network", message.frame)
        };
        Ok(self.world.with(|world| {
            if world.are_full || world.random.below(3) == 0 {
                return Sent::Full;
            }
            world.meets[to as usize].push_back((wants_answer, body.to_vec()));
            Sent::Done
        }))
    }
    fn poll(&mut self, _: Option<u32>, sink: &mut dyn FrameSink) -> bool {
        let came = self.world.with(|world| {
            if world.random.below(3) == 0 { None } else { world.meets[self.me].pop_front() }
        });
        let other = 1 - self.me as u32;
        if let Some((envelope, body)) = self.world.with(|world| world.messages[self.me].pop_front())
        {
            sink.eager(other, 0, envelope, body.len(), Bytes::from(&body[..]));
        }
        let Some((wants_answer, body)) = came else { return false };
        // The introduction arrives in two parts.
        let (first, second) = body.split_at(body.len() / 2);
        sink.meet(other, wants_answer, body.len(), Bytes::from(first));
        sink.more(other, first.len(), Bytes::from(second));
        true
    }
}

impl Membership for FakeSockets {
    fn has_left(&mut self, _: u32) -> bool {
        self.world.with(|world| world.has_left[self.me])
    }
}

impl Statistics for FakeSockets {}
