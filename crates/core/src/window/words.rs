//! Accumulates by the adapter, which changes words of eight bytes at the target in one atomic
//! operation ([`AtomicOperation`](oxmpi_fabric::AtomicOperation)).
//!
//! Rules
//! 1. All accumulates to a word must be atomic with each other. Operations of a processor and of an
//!    adapter need not be. So the words of a target belong to the adapter or to the processor for
//!    the life of the window ([`owners`]). They belong to the adapter only if all ranks accumulate
//!    there by their adapters, the target included, or if the adapter is atomic with processors.
//! 2. Each word costs at least one round trip. So the adapter is used only if the program has
//!    declared that accumulates are short: by the hint `mpi_accumulate_granularity` of 1 to 8 bytes
//!    at all ranks (MPI-5.0 section 12.2.1).
//! 3. A word is an element of any type with eight bytes, without padding, at an address that is
//!    a multiple of eight. The processor of the target changes all other elements. The choice
//!    depends on the element alone.
//! 4. A sum of integers or a read is one operation of the adapter (fetch-and-add), and so is
//!    MPI_Compare_and_swap. Any other operation is a compare and swap that is repeated until the
//!    word had the expected value.
//! 5. Accumulates of one origin to a target keep their order (`accumulate_ordering`). Accumulates
//!    with one operation for each word may follow each other at once. An accumulate with repeated
//!    operations is under way alone.

use super::adapter::{AdapterAccess, AdapterAccesses};
use super::message::TargetPlace;
use super::service::Service;
use super::{Target, Window};
use crate::Process;
use crate::comm::Communicator;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Fault, Lane, RequestId};
use oxmpi_fabric::{AtomicOperation, AtomicScope, Fabric, RemotePlace};
use oxmpi_mem::atomics::Accumulator;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::ReduceOp;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::collections::{HashMap, VecDeque};

pub(super) const WORD: usize = size_of::<u64>();
/// The most operations under way to a rank: this number keeps a connection busy.
const UNDER_WAY_MOST: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordFacts {
    pub(super) are_short: bool,
    pub(super) reaches_all: bool,
    pub(super) is_open: bool,
    pub(super) scope: AtomicScope,
}

impl WordFacts {
    pub(super) fn encode(self) -> u64 {
        let scope = match self.scope {
            AtomicScope::None => 0,
            AtomicScope::Adapter => 1,
            AtomicScope::Everything => 2,
        };
        let [are_short, reaches_all, is_open] =
            [self.are_short, self.reaches_all, self.is_open].map(u64::from);
        scope | are_short << 2 | reaches_all << 3 | is_open << 4
    }

    /// Unknown numbers decode as the facts of a rank without an adapter.
    pub(super) fn decode(number: u64) -> WordFacts {
        let scope = match number & 3 {
            1 => AtomicScope::Adapter,
            2 => AtomicScope::Everything,
            _ => AtomicScope::None,
        };
        let [are_short, reaches_all, is_open] = [4, 8, 16].map(|bit| number & bit != 0);
        WordFacts { are_short, reaches_all, is_open, scope }
    }
}

/// The hardware that changes the words of a rank's part of a window (rule 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordOwner {
    /// The processors of ranks that have mapped the memory; the target's processor for messages.
    Processor,
    /// Adapters with atomic operations that reach the target, and processors for the other ranks.
    Both,
    /// Adapters alone, even for the rank's own accumulates.
    Adapter,
}

pub(super) fn owners(facts: &[WordFacts]) -> Vec<WordOwner> {
    let are_short = facts.iter().all(|rank| rank.are_short);
    let are_alone = facts
        .iter()
        .all(|rank| rank.reaches_all && rank.is_open && rank.scope != AtomicScope::None);
    let owner = |rank: &WordFacts| match rank.scope {
        _ if !are_short || !rank.is_open => WordOwner::Processor,
        AtomicScope::Everything => WordOwner::Both,
        AtomicScope::Adapter if are_alone => WordOwner::Adapter,
        AtomicScope::Adapter | AtomicScope::None => WordOwner::Processor,
    };
    facts.iter().map(owner).collect()
}

#[derive(Debug)]
pub(super) enum WordUpdate {
    Accumulate(Accumulator, Vec<u8>),
    Swap { compare: u64, new: u64 },
}

impl WordUpdate {
    fn is_direct(&self) -> bool {
        match self {
            WordUpdate::Accumulate(accumulator, _) => {
                accumulator.op() == ReduceOp::NoOp
                    || accumulator.op() == ReduceOp::Sum && accumulator.is_integer()
            }
            WordUpdate::Swap { .. } => true,
        }
    }

    fn operand(operands: &[u8], at: usize) -> [u8; WORD] {
        operands.get(at * WORD..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
    }

    fn first(&self, at: usize) -> AtomicOperation {
        match self {
            WordUpdate::Accumulate(accumulator, _) if accumulator.op() == ReduceOp::NoOp => {
                AtomicOperation::FetchAdd(0)
            }
            WordUpdate::Accumulate(_, operands) if self.is_direct() => {
                AtomicOperation::FetchAdd(u64::from_ne_bytes(WordUpdate::operand(operands, at)))
            }
            WordUpdate::Accumulate(..) => self.attempt(at, 0),
            WordUpdate::Swap { compare, new } => {
                AtomicOperation::CompareSwap { compare: *compare, new: *new }
            }
        }
    }

    /// A compare and swap that changes a word with the value `compare`.
    fn attempt(&self, at: usize, compare: u64) -> AtomicOperation {
        let mut new = compare.to_ne_bytes();
        if let WordUpdate::Accumulate(accumulator, operands) = self {
            let operand = WordUpdate::operand(operands, at);
            accumulator.apply_alone(Bytes::from(&operand[..]), BytesMut::from(&mut new[..]), None);
        }
        AtomicOperation::CompareSwap { compare, new: u64::from_ne_bytes(new) }
    }

    /// The next operation for a word that had the value `before`; `None` if the word is done.
    fn next(&self, at: usize, operation: AtomicOperation, before: u64) -> Option<AtomicOperation> {
        match operation {
            AtomicOperation::CompareSwap { compare, .. }
                if !self.is_direct() && compare != before =>
            {
                Some(self.attempt(at, before))
            }
            AtomicOperation::CompareSwap { .. } | AtomicOperation::FetchAdd(_) => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct WordChanges {
    /// The addresses of the words at the target, and the key of its memory.
    addresses: Vec<u64>,
    key: u64,
    change: WordUpdate,
    fetch: Option<UserBuf>,
    /// The number of words whose changes have begun; `under_way` of these have not ended.
    begun: usize,
    under_way: usize,
    has_failed: bool,
}

impl WordChanges {
    pub(super) fn new(
        addresses: Vec<u64>,
        key: u64,
        change: WordUpdate,
        fetch: Option<UserBuf>,
    ) -> WordChanges {
        WordChanges { addresses, key, change, fetch, begun: 0, under_way: 0, has_failed: false }
    }

    fn has_begun_all(&self) -> bool {
        self.begun == self.addresses.len()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WordOperation {
    pub(super) access: u64,
    pub(super) rank: u32,
    word: usize,
    operation: AtomicOperation,
    at: RemotePlace,
}

#[derive(PartialEq, Eq, Debug)]
enum AfterOperation {
    /// The same word needs another operation, since its value was not the expected one.
    Again(WordOperation),
    Nothing,
    Ended {
        access: u64,
        is_well: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct Accumulates {
    all: HashMap<u64, WordChanges>,
    waiting: VecDeque<u64>,
    under_way: usize,
    /// Whether the accumulate under way repeats operations (rule 5).
    are_repeated: bool,
}

impl Accumulates {
    fn push(&mut self, access: u64, changes: WordChanges) {
        self.all.insert(access, changes);
        self.waiting.push_back(access);
    }

    /// Begins to change the next word if rule 5 allows it.
    fn begin(&mut self, rank: u32) -> Option<WordOperation> {
        let access = *self.waiting.front()?;
        let changes = self.all.get_mut(&access)?;
        let is_direct = changes.change.is_direct();
        let is_its_turn =
            self.under_way == 0 || changes.begun > 0 || is_direct && !self.are_repeated;
        if !is_its_turn || self.under_way == UNDER_WAY_MOST {
            return None;
        }
        let word = changes.begun;
        let at = RemotePlace { address: changes.addresses[word], key: changes.key };
        (changes.begun, changes.under_way) = (changes.begun + 1, changes.under_way + 1);
        (self.under_way, self.are_repeated) = (self.under_way + 1, !is_direct);
        let operation = changes.change.first(word);
        if changes.has_begun_all() {
            self.waiting.pop_front();
        }
        Some(WordOperation { access, rank, word, operation, at })
    }

    /// Ends an operation, which found the value `before`; `None` if it failed.
    fn end(&mut self, part: WordOperation, before: Option<u64>) -> AfterOperation {
        let WordOperation { access, word, operation, .. } = part;
        let Some(changes) = self.all.get_mut(&access) else { return AfterOperation::Nothing };
        match before.map(|before| (before, changes.change.next(word, operation, before))) {
            Some((_, Some(operation))) => {
                return AfterOperation::Again(WordOperation { operation, ..part });
            }
            Some((before, None)) => {
                if let Some(fetch) = &changes.fetch {
                    fetch.unpack(word * WORD, Bytes::from(&before.to_ne_bytes()[..]));
                }
            }
            None => changes.has_failed = true,
        }
        changes.under_way -= 1;
        self.under_way -= 1;
        if !changes.has_begun_all() || changes.under_way > 0 {
            return AfterOperation::Nothing;
        }
        let is_well = self.all.remove(&access).is_some_and(|changes| !changes.has_failed);
        AfterOperation::Ended { access, is_well }
    }
}

impl Service {
    /// If `wanted`, returns the request that completes with the changes.
    pub(super) fn change_words<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        changes: WordChanges,
        wanted: bool,
    ) -> std::result::Result<Option<RequestId>, Fault> {
        self.check(lane, rank)?;
        let user = wanted.then(|| lane.open_external());
        let access = self.accesses.begin(AdapterAccess { rank, user });
        self.accesses.accumulates.entry(rank).or_default().push(access, changes);
        self.begin_words(lane, rank);
        Ok(user)
    }

    fn begin_words<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32) {
        while let Some(part) =
            self.accesses.accumulates.get_mut(&rank).and_then(|line| line.begin(rank))
        {
            self.begin_operation(lane, part);
        }
    }

    fn begin_operation<F: Fabric>(&mut self, lane: &mut Lane<F>, part: WordOperation) {
        let (owner, WordOperation { rank, operation, at, .. }) = (self.context(), part);
        let is_own = rank == self.team.rank;
        let started = self.team.map.process(rank).and_then(|peer| {
            let fabric = lane.fabric_mut();
            let remote =
                if is_own { fabric.remote_access() } else { fabric.remote_access_to(peer) };
            remote?.start_atomic(owner, peer, operation, at)
        });
        match started {
            Some(number) => _ = self.accesses.parts.insert(number, part),
            None => {
                let why = format!("the adapter does not reach the memory of rank {rank} any more");
                self.end_operation(lane, part, Err(why));
            }
        }
    }

    pub(super) fn word_ended<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        part: WordOperation,
        how: std::result::Result<u64, String>,
    ) {
        self.end_operation(lane, part, how);
        self.begin_words(lane, part.rank);
    }

    fn end_operation<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        part: WordOperation,
        how: std::result::Result<u64, String>,
    ) {
        let AdapterAccesses { accumulates, failed, .. } = &mut self.accesses;
        let before = how.map_err(|why| _ = failed.entry(part.rank).or_insert(why)).ok();
        let Some(line) = accumulates.get_mut(&part.rank) else { return };
        match line.end(part, before) {
            AfterOperation::Again(part) => self.begin_operation(lane, part),
            AfterOperation::Nothing => {}
            AfterOperation::Ended { access, is_well } => {
                self.end_access(lane, access, (!is_well).then_some(Fault::Outside));
            }
        }
    }
}

#[cold]
pub(super) fn no_memory(len: usize) -> MpiError {
    MpiError::new(
        abi::MPI_ERR_NO_MEM,
        format!("there is no memory for an accumulate of {len} bytes"),
    )
}

#[derive(Debug)]
pub(super) enum AdapterWords {
    Nowhere,
    /// The adapter changes all elements, which have these addresses at the target.
    Everywhere(Vec<u64>),
    /// The adapter changes some of the elements, which have these addresses at the target.
    Somewhere(Vec<u64>),
}

/// The addresses of the elements for `len` bytes of data; `None` without memory for the list.
fn addresses(target: &Target, place: &TargetPlace, len: usize) -> Option<Vec<u64>> {
    let start = target.base.wrapping_add(place.at.cast_unsigned());
    let (mut all, layout) = (Vec::new(), &place.layout);
    all.try_reserve_exact(len / WORD).ok()?;
    for element in (0..place.count).map(|at| layout.extent().wrapping_mul(at.cast_signed())) {
        for block in layout.blocks_from(0) {
            if all.len() == len / WORD {
                return Some(all);
            }
            let first = start.wrapping_add(element.wrapping_add(block.offset) as u64);
            let words = (0..block.len / WORD).map(|word| first.wrapping_add((word * WORD) as u64));
            all.extend(words.take(len / WORD - all.len()));
        }
    }
    Some(all)
}

impl<F: Fabric> Process<F> {
    /// The facts of this rank. A part without memory counts as open, since it has no words.
    pub(super) fn word_facts(
        &self,
        comm: &Communicator,
        are_short: bool,
        (key, len): (u64, usize),
    ) -> WordFacts {
        let is_open = key != 0 || len == 0;
        let mut facts =
            WordFacts { are_short, reaches_all: false, is_open, scope: AtomicScope::None };
        if !are_short || comm.team.size() == 1 {
            return facts;
        }
        let mut domain = self.domain.lock();
        let fabric = domain.lane.fabric_mut();
        let mut processes = (0..comm.team.size()).map(|rank| comm.team.map.process(rank));
        facts.reaches_all = processes.all(|peer| {
            peer.is_some_and(|peer| peer == self.rank || fabric.remote_access_to(peer).is_some())
        });
        facts.scope = fabric.remote_access().map_or(AtomicScope::None, |remote| remote.atomics());
        facts
    }

    /// The elements that the adapter changes (rules 1 and 3) for `len` bytes of data.
    pub(super) fn adapter_words(
        &self,
        window: &Window,
        target: &Target,
        place: &TargetPlace,
        len: usize,
    ) -> Result<AdapterWords> {
        let is_its = match target.words {
            WordOwner::Processor => false,
            WordOwner::Adapter => true,
            WordOwner::Both => {
                window.has_atomics
                    && target.process != self.rank
                    && self.routes(window, target).by_adapter
            }
        };
        if !is_its {
            return Ok(AdapterWords::Nowhere);
        }
        let all = addresses(target, place, len).ok_or_else(|| no_memory(len))?;
        Ok(match all.iter().filter(|address| address.is_multiple_of(WORD as u64)).count() {
            0 => AdapterWords::Nowhere,
            words if words == all.len() => AdapterWords::Everywhere(all),
            _ => AdapterWords::Somewhere(all),
        })
    }

    pub(super) fn change_by_adapter(
        &self,
        window: &Window,
        (target, rank): (&Target, i32),
        changes: WordChanges,
        wanted: bool,
    ) -> Result<Option<RequestId>> {
        self.with_service(window, |service, lane| {
            window.note_issued(target);
            service.change_words(lane, rank as u32, changes, wanted)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_fabric::sim::Random;
    use oxmpi_mem::kernels::Scalar;
    use oxmpi_mem::memory::Owned;

    fn facts(are_short: bool, reaches_all: bool, scope: AtomicScope) -> WordFacts {
        WordFacts { are_short, reaches_all, is_open: true, scope }
    }

    #[test]
    fn facts_survive_the_wire() {
        for scope in [AtomicScope::None, AtomicScope::Adapter, AtomicScope::Everything] {
            for (are_short, reaches_all) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                for is_open in [false, true] {
                    let one = WordFacts { is_open, ..facts(are_short, reaches_all, scope) };
                    assert_eq!(WordFacts::decode(one.encode()), one);
                }
            }
        }
        assert_eq!(WordFacts::decode(u64::MAX).scope, AtomicScope::None);
    }

    #[test]
    fn words_have_one_owner() {
        use AtomicScope as Scope;
        use WordOwner::{Adapter, Both, Processor};
        let all = |scopes: [Scope; 3], reach: [bool; 3]| {
            let ranks: Vec<_> =
                scopes.into_iter().zip(reach).map(|(s, r)| facts(true, r, s)).collect();
            owners(&ranks)
        };
        assert_eq!(all([Scope::Adapter; 3], [true; 3]), [Adapter; 3]);
        // A rank that shares memory, or has no adapter, changes words by its processor.
        assert_eq!(all([Scope::Adapter; 3], [true, false, true]), [Processor; 3]);
        assert_eq!(all([Scope::Adapter, Scope::None, Scope::Adapter], [true; 3]), [Processor; 3]);
        // Adapters and processors that are atomic with each other may change the same words.
        assert_eq!(
            all([Scope::Everything, Scope::None, Scope::Adapter], [false, true, true]),
            [Both, Processor, Processor]
        );
        assert_eq!(
            all([Scope::Everything, Scope::Adapter, Scope::Adapter], [true; 3]),
            [Both, Adapter, Adapter]
        );
        // The hint must come from all ranks.
        let mut some = vec![facts(true, true, Scope::Everything); 3];
        some[1].are_short = false;
        assert_eq!(owners(&some), [Processor; 3]);
        // No adapter reaches memory that could not be registered.
        let mut some = vec![facts(true, true, Scope::Everything); 3];
        some[1].is_open = false;
        assert_eq!(owners(&some), [Both, Processor, Both]);
        let mut some = vec![facts(true, true, Scope::Adapter); 3];
        some[1].is_open = false;
        assert_eq!(owners(&some), [Processor; 3]);
    }

    struct SimulatedTarget {
        words: Vec<u64>,
        carried_out: usize,
    }

    impl SimulatedTarget {
        fn carry_out(&mut self, part: WordOperation) -> u64 {
            self.carried_out += 1;
            let word = &mut self.words[part.at.address as usize / WORD];
            let before = *word;
            match part.operation {
                AtomicOperation::FetchAdd(add) => *word = before.wrapping_add(add),
                AtomicOperation::CompareSwap { compare, new } if compare == before => *word = new,
                AtomicOperation::CompareSwap { .. } => {}
            }
            before
        }
    }

    #[derive(Default)]
    struct SimulatedOrigin {
        line: Accumulates,
        there: VecDeque<WordOperation>,
        back: VecDeque<(WordOperation, u64)>,
        ended: Vec<u64>,
        most: usize,
    }

    impl SimulatedOrigin {
        fn begin(&mut self) {
            while let Some(part) = self.line.begin(0) {
                self.there.push_back(part);
            }
            self.most = self.most.max(self.line.under_way);
        }

        fn step(&mut self, target: &mut SimulatedTarget, random: &mut Random) {
            if random.below(2) == 0
                && let Some(part) = self.there.pop_front()
            {
                self.back.push_back((part, target.carry_out(part)));
            }
            if random.below(2) == 0
                && let Some((part, before)) = self.back.pop_front()
            {
                match self.line.end(part, Some(before)) {
                    AfterOperation::Again(part) => self.there.push_back(part),
                    AfterOperation::Nothing => {}
                    AfterOperation::Ended { access, is_well } => {
                        assert!(is_well);
                        self.ended.push(access);
                    }
                }
                self.begin();
            }
        }

        fn is_over(&self) -> bool {
            self.there.is_empty() && self.back.is_empty() && self.line.waiting.is_empty()
        }
    }

    fn change(op: ReduceOp, operands: &[i64]) -> WordUpdate {
        let bytes = operands.iter().flat_map(|operand| operand.to_ne_bytes()).collect();
        WordUpdate::Accumulate(Accumulator::new(op, Scalar::I64).unwrap(), bytes)
    }

    fn words(from: u64, count: u64) -> Vec<u64> {
        (from..from + count).map(|word| word * WORD as u64).collect()
    }

    fn run(origins: &mut [SimulatedOrigin], target: &mut SimulatedTarget, seed: u64) {
        let mut random = Random::new(seed);
        origins.iter_mut().for_each(SimulatedOrigin::begin);
        let mut steps = 0;
        while !origins.iter().all(SimulatedOrigin::is_over) {
            let at = random.below(origins.len() as u64) as usize;
            origins[at].step(target, &mut random);
            steps += 1;
            assert!(steps < 1_000_000, "nothing ends");
        }
    }

    #[test]
    fn accumulates_of_several_origins_are_atomic_whatever_their_operations() {
        for seed in 0..20 {
            let mut target = SimulatedTarget { words: vec![1; 40], carried_out: 0 };
            let mut origins: Vec<SimulatedOrigin> =
                (0..3).map(|_| SimulatedOrigin::default()).collect();
            for (number, origin) in origins.iter_mut().enumerate() {
                for access in 0..30u64 {
                    let (op, operands) = match access % 3 {
                        0 => (ReduceOp::Sum, [1i64; 20]),
                        1 => (ReduceOp::Prod, [1; 20]),
                        _ => (ReduceOp::Bxor, [1 << (40 + number); 20]),
                    };
                    origin.line.push(
                        access,
                        WordChanges::new(words(5, 20), 7, change(op, &operands), None),
                    );
                }
            }
            run(&mut origins, &mut target, seed);
            for (at, word) in target.words.iter().enumerate() {
                let expected = if (5..25).contains(&at) { 1 + 30 } else { 1 };
                assert_eq!(*word, expected, "seed {seed}: word {at} has {word:#x}");
            }
            for origin in &origins {
                assert!(origin.ended.iter().copied().eq(0..30), "seed {seed}: {:?}", origin.ended);
                assert_eq!((origin.most, origin.line.all.len()), (UNDER_WAY_MOST, 0));
            }
        }
    }

    #[test]
    fn accumulates_of_an_origin_keep_their_order_and_return_the_values_from_before() {
        for seed in 0..30 {
            let mut random = Random::new(1000 + seed);
            let mut target = SimulatedTarget { words: vec![0; 4], carried_out: 0 };
            let mut origin = SimulatedOrigin::default();
            let (mut value, mut results) = ([0u64; 4], Vec::new());
            for access in 0..40u64 {
                let into = Owned::new(vec![0u8; 4 * WORD]);
                let operand = random.below(1000);
                let kinds = [ReduceOp::Sum, ReduceOp::Replace, ReduceOp::Max, ReduceOp::NoOp];
                let op = kinds[random.below(4) as usize];
                let change = change(op, &[operand.cast_signed(); 4]);
                origin
                    .line
                    .push(access, WordChanges::new(words(0, 4), 7, change, Some(into.buf())));
                results.push((into, value));
                for word in &mut value {
                    *word = match op {
                        ReduceOp::Sum => *word + operand,
                        ReduceOp::Replace => operand,
                        ReduceOp::Max => (*word).max(operand),
                        _ => *word,
                    };
                }
                let into = Owned::new(vec![0u8; WORD]);
                let swap = WordUpdate::Swap { compare: value[0], new: access };
                origin
                    .line
                    .push(100 + access, WordChanges::new(words(0, 1), 7, swap, Some(into.buf())));
                results.push((into, value));
                value[0] = access;
            }
            run(std::slice::from_mut(&mut origin), &mut target, seed);
            assert_eq!(target.words, value, "seed {seed}");
            for (at, (into, before)) in results.into_iter().enumerate() {
                let bytes = into.into_vec().unwrap();
                let fetched =
                    bytes.chunks(WORD).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
                let expected = before.into_iter().take(bytes.len() / WORD);
                assert!(fetched.eq(expected), "seed {seed}: number {at}");
            }
        }
    }

    #[test]
    fn sums_and_reads_take_one_operation_for_each_word() {
        let mut target = SimulatedTarget { words: vec![3; 2], carried_out: 0 };
        let mut origin = SimulatedOrigin::default();
        let sum = change(ReduceOp::Sum, &[-1, 2]);
        origin.line.push(1, WordChanges::new(words(0, 2), 7, sum, None));
        let into = Owned::new(vec![0u8; 2 * WORD]);
        let read = WordUpdate::Accumulate(
            Accumulator::new(ReduceOp::NoOp, Scalar::F64).unwrap(),
            Vec::new(),
        );
        origin.line.push(2, WordChanges::new(words(0, 2), 7, read, Some(into.buf())));
        run(std::slice::from_mut(&mut origin), &mut target, 1);
        assert_eq!((target.words, target.carried_out), (vec![2, 5], 4));
        assert_eq!(into.into_vec().unwrap(), [2u64.to_ne_bytes(), 5u64.to_ne_bytes()].concat());
        // No adapter can add floating-point numbers.
        let sum = WordUpdate::Accumulate(
            Accumulator::new(ReduceOp::Sum, Scalar::F64).unwrap(),
            vec![0; WORD],
        );
        assert!(!sum.is_direct());
        let (half, two) = (0.5f64.to_bits(), 2.0f64.to_ne_bytes().to_vec());
        let sum =
            WordUpdate::Accumulate(Accumulator::new(ReduceOp::Sum, Scalar::F64).unwrap(), two);
        let next = AtomicOperation::CompareSwap { compare: half, new: 2.5f64.to_bits() };
        assert_eq!(sum.next(0, sum.first(0), half), Some(next));
        assert_eq!(sum.next(0, next, half), None);
    }

    #[test]
    fn a_failed_operation_fails_its_access_alone() {
        let mut line = Accumulates::default();
        line.push(1, WordChanges::new(words(0, 2), 7, change(ReduceOp::Sum, &[1, 1]), None));
        line.push(2, WordChanges::new(words(0, 1), 7, change(ReduceOp::Sum, &[1]), None));
        let parts: Vec<WordOperation> = std::iter::from_fn(|| line.begin(3)).collect();
        assert_eq!(parts.len(), 3);
        assert_eq!(line.end(parts[0], None), AfterOperation::Nothing);
        assert_eq!(line.end(parts[2], Some(0)), AfterOperation::Ended { access: 2, is_well: true });
        assert_eq!(
            line.end(parts[1], Some(0)),
            AfterOperation::Ended { access: 1, is_well: false }
        );
        assert!(line.all.is_empty() && line.under_way == 0);
    }
}
