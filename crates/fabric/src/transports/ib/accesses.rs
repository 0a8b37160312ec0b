//! One-sided access to memory that peers have opened (rule 10 of the module).

use super::reading::{FORCE, PATIENCE, READ_LEN};
use super::settings::ACCESSES;
use super::{Ib, IbPort};
use crate::transports::peer_of;
use crate::{AccessEnd, AtomicOperation, AtomicScope, Direction, RemoteAccess, RemotePlace};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_verbs::{AdapterOperation as Operation, Completion, Refusal, RegionId, SlotId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// The number of repetitions of a refused access: more connections would probably change nothing.
const REPETITIONS: u32 = 1;

const WORD: usize = size_of::<u64>();

/// If more accesses than this number wait, a new one first handles completions.
const QUEUED: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AccessKind {
    Data(Direction),
    Atomic(AtomicOperation),
}

impl AccessKind {
    fn name(self) -> &'static str {
        match self {
            AccessKind::Data(Direction::Put) => "a one-sided write (MPI_Put)",
            AccessKind::Data(Direction::Get) => "a one-sided read (MPI_Get)",
            AccessKind::Atomic(_) => "an atomic operation (MPI_Accumulate and its like)",
        }
    }
}

#[derive(Debug)]
struct Access {
    owner: u32,
    peer: u32,
    kind: AccessKind,
    buffer: UserBuf,
    len: usize,
    at: (u64, u32),
    /// `None`: the data fit into a slot.
    region: Option<RegionId>,
    /// The bytes whose operations were posted.
    posted: usize,
    /// Operations that have not ended.
    under_way: u32,
    /// An operation has failed, so all are repeated over the next connection.
    has_failed: bool,
    /// The error after which nobody knows whether an atomic operation was carried out.
    unknown: Option<String>,
    before: u64,
    refusals: u32,
    refused: String,
    is_given_up: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum OperationName {
    Region(RegionId),
    Slot(SlotId),
}

#[derive(Debug, Default)]
pub(super) struct Accesses {
    all: HashMap<u64, Access>,
    /// The accesses to each peer that are not completely posted, in order.
    waiting: BTreeMap<u32, VecDeque<u64>>,
    under_way: HashMap<OperationName, u64>,
    ended: HashMap<u32, Vec<AccessEnd>>,
    number: u64,
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) atomics: u64,
}

impl Accesses {
    pub(super) fn wait_for_room(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn owes(&self, peer: u32) -> bool {
        !self.all.is_empty() && self.all.values().any(|one| one.peer == peer)
    }

    fn end(&mut self, number: u64, how: Result<u64, String>) -> Option<Access> {
        let access = self.all.remove(&number)?;
        if !access.is_given_up {
            self.ended.entry(access.owner).or_default().push((number, how));
        }
        Some(access)
    }
}

impl<P: IbPort> Ib<P> {
    /// Returns whether an access has ended because its peer is unreachable.
    pub(super) fn post_accesses(&mut self) -> bool {
        if self.accesses.waiting.is_empty() {
            return false;
        }
        let peers: Vec<u32> = self.accesses.waiting.keys().copied().collect();
        let mut any = false;
        for peer in peers {
            any |= self.post_accesses_to(peer);
        }
        any
    }

    fn post_accesses_to(&mut self, number: u32) -> bool {
        let is_gone =
            self.peer(number).is_some_and(|peer| peer.is_gone) || self.sockets.has_left(number);
        if is_gone {
            return self.end_accesses(number, &format!("process {number} is gone"));
        }
        let is_new = self.peer(number).is_none_or(|peer| !peer.is_ready && peer.broken.is_none());
        if is_new && let Err(unreachable) = self.request_introduction(number) {
            return self.end_accesses(number, &unreachable.to_string());
        }
        while self.post_next(number) {} // at most ACCESSES times
        false
    }

    fn post_next(&mut self, number: u32) -> bool {
        let Some(at) = self.accesses.waiting.get(&number).and_then(|queue| queue.front().copied())
        else {
            self.accesses.waiting.remove(&number);
            return false;
        };
        let has_room = |peer: &mut super::peer::IbPeer| peer.is_ready && peer.accesses < ACCESSES;
        if !self.peer(number).is_some_and(has_room) {
            return false;
        }
        let is_short = self.accesses.all.get(&at).is_some_and(|access| access.region.is_none());
        let slot = if is_short { self.take_send_slot() } else { None };
        let Ib { peers, port, accesses, send_slots, .. } = self;
        let known = peer_of(peers, number);
        let (Some(access), Some(peer)) = (accesses.all.get_mut(&at), known) else { return false };
        let queue_pair = peer.end.queue_pair;
        let (address, key) = access.at;
        let there = (address.wrapping_add(access.posted as u64), key);
        let (by, len, posted) = match (access.region, slot) {
            (Some(region), _) => {
                let len = READ_LEN.min(access.len - access.posted);
                let place = (access.posted, len as u32);
                let posted = match access.kind {
                    AccessKind::Data(Direction::Put) => {
                        port.write(queue_pair, region, place, there)
                    }
                    AccessKind::Data(Direction::Get) => port.read(queue_pair, region, place, there),
                    AccessKind::Atomic(_) => return false, // these go through slots
                };
                (OperationName::Region(region), len, posted)
            }
            (None, Some(slot)) => {
                let posted = match access.kind {
                    AccessKind::Data(Direction::Put) => {
                        let room = port.slot_mut(slot);
                        let room = &mut room[..access.len];
                        access.buffer.pack(0, BytesMut::from(room));
                        port.write_slot(queue_pair, slot, access.len, there)
                    }
                    AccessKind::Data(Direction::Get) => {
                        port.read_into_slot(queue_pair, slot, access.len, there)
                    }
                    AccessKind::Atomic(operation) => {
                        port.atomic(queue_pair, slot, operation, there)
                    }
                };
                if posted.is_err() {
                    send_slots.push(slot);
                }
                (OperationName::Slot(slot), access.len, posted)
            }
            (None, None) => return false,
        };
        if let Err(error) = posted {
            access.has_failed = true;
            let why = format!("{} cannot be posted: {error}", access.kind.name());
            self.fail(number, why);
            return false;
        }
        access.posted += len;
        access.under_way += 1;
        peer.accesses += 1;
        let is_posted = access.posted == access.len;
        accesses.under_way.insert(by, at);
        if is_posted && let Some(queue) = accesses.waiting.get_mut(&number) {
            queue.pop_front();
        }
        true
    }

    pub(super) fn access_ended(&mut self, completion: &Completion) {
        let Completion { queue_pair, operation, error, refusal, .. } = completion;
        let by = match *operation {
            Operation::Read(region) | Operation::Write(region) => OperationName::Region(region),
            Operation::ReadSlot(slot)
            | Operation::WriteSlot(slot)
            | Operation::AtomicSlot(slot) => OperationName::Slot(slot),
            Operation::Send(_) | Operation::Receive(..) | Operation::WriteWord => return,
        };
        let Some(at) = self.accesses.under_way.get(&by).copied() else { return };
        let Ib { accesses, port, send_slots, peers, .. } = self;
        let Some(access) = accesses.all.get_mut(&at) else { return };
        access.under_way -= 1;
        if let Some(peer) = peer_of(peers, access.peer) {
            peer.accesses = peer.accesses.saturating_sub(1);
        }
        if let OperationName::Slot(slot) = by {
            accesses.under_way.remove(&by);
            let bytes = &port.slot(slot);
            match access.kind {
                AccessKind::Data(Direction::Get) if error.is_none() && !access.is_given_up => {
                    access.buffer.unpack(0, Bytes::from(&bytes[..access.len]));
                }
                AccessKind::Atomic(_) if error.is_none() => {
                    access.before = bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
                }
                AccessKind::Data(_) | AccessKind::Atomic(_) => {}
            }
            send_slots.push(slot);
        }
        if let Some(error) = error {
            access.has_failed = true;
            let is_atomic = matches!(access.kind, AccessKind::Atomic(_));
            match refusal {
                Some(refusal) if !is_atomic || *refusal == Refusal::Untouched => {
                    access.refusals += 1;
                    access.refused.clone_from(error);
                }
                _ if is_atomic && !self.untouched.contains(queue_pair) => {
                    access.unknown = Some(error.clone());
                }
                _ => {}
            }
        }
        if access.under_way > 0 {
            return;
        }
        let peer = access.peer;
        if access.is_given_up || access.refusals > REPETITIONS {
            let what = access.kind.name();
            let why = format!("{what} at process {peer} has failed: {}", access.refused);
            self.finish_access(at, Err(why));
        } else if let Some(error) = &access.unknown {
            let what = access.kind.name();
            let why = format!(
                "{what} at process {peer} was perhaps carried out, and perhaps not: {error}"
            );
            self.finish_access(at, Err(why.clone()));
            self.lose_unknown(peer, &why);
        } else if !access.has_failed && access.posted == access.len {
            let before = access.before;
            match access.kind {
                AccessKind::Data(Direction::Put) => accesses.written += access.len as u64,
                AccessKind::Data(Direction::Get) => accesses.read += access.len as u64,
                AccessKind::Atomic(_) => accesses.atomics += 1,
            }
            self.finish_access(at, Ok(before));
        }
    }

    /// The content of a peer's memory is unknown, so the peer counts as failed. This process
    /// continues, and knows that one of its operations has failed.
    fn lose_unknown(&mut self, peer: u32, why: &str) {
        let is_known =
            self.peer(peer).is_some_and(|peer| !peer.is_gone) && !self.sockets.has_left(peer);
        if peer == self.own || !is_known || self.lost.contains(&peer) {
            return;
        }
        self.say(&format!("nothing goes to process {peer} any more: {why}"));
        self.take_leave(peer);
        self.lost.push(peer);
    }

    fn finish_access(&mut self, number: u64, how: Result<u64, String>) {
        let Some(access) = self.accesses.end(number, how) else { return };
        if let Some(queue) = self.accesses.waiting.get_mut(&access.peer) {
            queue.retain(|waiting| *waiting != number);
        }
        if let Some(region) = access.region {
            self.accesses.under_way.remove(&OperationName::Region(region));
            self.port.deregister(region);
        }
    }

    /// Repeats all unfinished accesses to a peer over another connection, from the beginning.
    pub(super) fn restart_accesses(&mut self, peer: u32) {
        let mut numbers = Vec::new();
        for (number, access) in
            self.accesses.all.iter_mut().filter(|(_, access)| access.peer == peer)
        {
            (access.posted, access.has_failed) = (0, false);
            numbers.push(*number);
        }
        numbers.sort_unstable();
        if !numbers.is_empty() {
            self.accesses.waiting.insert(peer, numbers.into());
        }
    }

    fn end_accesses(&mut self, peer: u32, why: &str) -> bool {
        let to_it = self
            .accesses
            .all
            .iter()
            .filter(|(_, access)| access.peer == peer && access.under_way == 0);
        let numbers: Vec<u64> = to_it.map(|(number, _)| *number).collect();
        for number in &numbers {
            let what = self.accesses.all.get(number).map_or("", |access| access.kind.name());
            self.finish_access(*number, Err(format!("{what} at process {peer} has failed: {why}")));
        }
        self.accesses.waiting.remove(&peer);
        !numbers.is_empty()
    }

    pub(super) fn forget_accesses(&mut self, peer: u32) {
        if !self.accesses.owes(peer) {
            return;
        }
        self.await_accesses(FORCE, |access| access.peer == peer);
        if self.accesses.all.values().any(|access| access.peer == peer && access.under_way > 0) {
            self.say(
                "an access over a closed connection does not end, so no memory is safe from it",
            );
            std::process::abort();
        }
        self.end_accesses(peer, "the process is lost");
    }

    fn begin_access(
        &mut self,
        owner: u32,
        peer: u32,
        (kind, buffer, region): (AccessKind, UserBuf, Option<RegionId>),
        at: RemotePlace,
    ) -> u64 {
        self.accesses.number += 1;
        let number = self.accesses.number;
        let len = if matches!(kind, AccessKind::Atomic(_)) { WORD } else { buffer.packed_len() };
        let access = Access {
            owner,
            peer,
            kind,
            buffer,
            len,
            at: (at.address, at.key as u32),
            region,
            posted: 0,
            under_way: 0,
            has_failed: false,
            unknown: None,
            before: 0,
            refusals: 0,
            refused: String::new(),
            is_given_up: false,
        };
        self.accesses.all.insert(number, access);
        let queue = self.accesses.waiting.entry(peer).or_default();
        queue.push_back(number);
        if queue.len() > QUEUED {
            self.read();
            self.early.append(&mut self.events);
        }
        self.post_accesses_to(peer);
        number
    }

    /// Keeps other completions for the next poll.
    fn await_accesses(&mut self, most: Duration, which: impl Fn(&Access) -> bool) {
        let start = Instant::now();
        let is_used = |it: &Self| {
            it.accesses.all.values().any(|access| which(access) && access.under_way > 0)
        };
        while is_used(self) && start.elapsed() < most {
            self.read();
            self.early.append(&mut self.events);
            std::thread::yield_now();
        }
    }
}

impl<P: IbPort> RemoteAccess for Ib<P> {
    fn reaches_memory(&mut self, peer: u32) -> bool {
        self.settings.rma && self.goes_by_port(peer)
    }

    fn open(&mut self, memory: &UserBuf) -> Option<u64> {
        let opened =
            self.port.open_to_peers(memory).inspect_err(|error| self.warn_of_registration(error));
        let region = opened.ok()?;
        let (_, key) = self.port.exposed(region)?.memory;
        Some(u64::from(region.0) << 32 | u64::from(key))
    }

    fn close(&mut self, key: u64) {
        self.port.deregister(RegionId((key >> 32) as u32));
    }

    fn start(
        &mut self,
        owner: u32,
        peer: u32,
        direction: Direction,
        buffer: &UserBuf,
        at: RemotePlace,
    ) -> Option<u64> {
        let len = buffer.packed_len();
        let is_lost = self.peer(peer).is_some_and(|peer| peer.is_gone);
        if len == 0 || buffer.is_on_device() || is_lost || !self.reaches_memory(peer) {
            return None;
        }
        let region = if len <= self.settings.envelope_len() {
            None
        } else {
            buffer.as_contiguous()?;
            let registered = match direction {
                Direction::Put => self.port.source(buffer),
                Direction::Get => self.port.register(buffer),
            };
            Some(registered.inspect_err(|error| self.warn_of_registration(error)).ok()?)
        };
        Some(self.begin_access(
            owner,
            peer,
            (AccessKind::Data(direction), buffer.clone(), region),
            at,
        ))
    }

    fn atomics(&mut self) -> AtomicScope {
        let scope = if self.settings.rma { self.port.atomics() } else { AtomicScope::None };
        let is_ready = scope != AtomicScope::Adapter || self.join_itself().is_ok();
        if is_ready { scope } else { AtomicScope::None }
    }

    fn start_atomic(
        &mut self,
        owner: u32,
        peer: u32,
        operation: AtomicOperation,
        at: RemotePlace,
    ) -> Option<u64> {
        let is_lost = self.peer(peer).is_some_and(|peer| peer.is_gone);
        if is_lost || !at.address.is_multiple_of(WORD as u64) || !self.reaches_memory(peer) {
            return None;
        }
        Some(self.begin_access(
            owner,
            peer,
            (AccessKind::Atomic(operation), UserBuf::empty(), None),
            at,
        ))
    }

    fn ended(&mut self, owner: u32) -> Vec<AccessEnd> {
        self.accesses.ended.remove(&owner).unwrap_or_default()
    }

    fn abandon(&mut self, owner: u32, peer: u32) {
        let is_it = move |access: &Access| access.owner == owner && access.peer == peer;
        let given_up = self.accesses.all.iter_mut().filter(|(_, access)| is_it(access));
        let given_up: Vec<u64> =
            given_up.map(|(number, access)| (access.is_given_up = true, *number).1).collect();
        if given_up.is_empty() {
            return;
        }
        self.await_accesses(PATIENCE, is_it);
        if self.accesses.all.values().any(|access| is_it(access) && access.under_way > 0) {
            self.fail(peer, "an access whose memory is needed has not ended".into());
            self.await_accesses(FORCE, is_it);
        }
        for number in given_up {
            match self.accesses.all.get(&number) {
                Some(access) if access.under_way > 0 => {
                    self.say("an access over a closed connection does not end, so no memory is safe from it");
                    std::process::abort();
                }
                Some(_) => self.finish_access(number, Ok(0)),
                None => {}
            }
        }
    }
}
