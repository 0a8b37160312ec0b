//! Random programs: phases that all ranks run, each of which checks the received data.

#[path = "communicators.rs"]
mod communicators;

use oxmpi_abi::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_UNDEFINED};
use oxmpi_coll::{Buffers, Combine, UserReduction};
use oxmpi_core::Communicator;
use oxmpi_core::buffered::Attached;
use oxmpi_core::process::UserCall;
use oxmpi_core::sim::Rank;
use oxmpi_engine::{Completion, Mode, RequestId};
use oxmpi_fabric::sim::Random;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::{ReduceOp, Scalar, kernel};
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::Result;
use oxmpi_plan::{Call, Collective, Shared};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct RandomProgram {
    room: usize,
    phases: Vec<ProgramPhase>,
}

#[derive(Debug)]
enum ProgramPhase {
    Ring { len: usize, rounds: usize },
    Messages { messages: Vec<PlannedMessage>, receive: ReceiveMode },
    Collectives(Vec<PlannedCollective>),
    Compute { longest_ns: u64 },
    Dup,
    Split { colors: i32, len: usize },
    Groups { len: usize },
    Inter { first: u32, len: usize },
}

#[derive(Debug, Clone)]
struct PlannedMessage {
    from: u32,
    to: u32,
    tag: i32,
    len: usize,
    mode: Mode,
}

#[derive(Debug, Clone, Copy)]
enum ReceiveMode {
    /// All receives posted before the first send, by source and tag.
    Posted,
    /// One after another after all sends have begun, by source and tag.
    Late,
    /// From any source, with tag 0. The messages of each source must come in order.
    Anybody,
    Probed,
    /// Each receiver has one sender; with and without wildcards.
    Mixed,
}

#[derive(Debug, Clone, Copy)]
struct PlannedCollective {
    what: Collective,
    count: usize,
    root: u32,
    in_place: bool,
    user: bool,
}

impl RandomProgram {
    pub(crate) fn new(random: &mut Random, ranks: u32, eager_limit: usize) -> RandomProgram {
        let phases = (0..1 + random.below(5)).map(|_| match random.below(10) {
            0 => ProgramPhase::Ring {
                len: length(random, eager_limit),
                rounds: 1 + random.below(8) as usize,
            },
            1..=3 => messages(random, ranks, eager_limit),
            4..=5 => {
                let together = 1 + random.below(3);
                ProgramPhase::Collectives(
                    (0..together).map(|_| planned(random, ranks, eager_limit)).collect(),
                )
            }
            6 if random.below(2) == 0 => ProgramPhase::Split {
                colors: 1 + random.below(4) as i32,
                len: length(random, eager_limit),
            },
            7 => ProgramPhase::Groups { len: length(random, eager_limit) },
            8 if ranks > 1 => ProgramPhase::Inter {
                first: 1 + random.below(u64::from(ranks - 1)) as u32,
                len: length(random, eager_limit),
            },
            6 => ProgramPhase::Compute { longest_ns: 1 << random.below(18) },
            _ => ProgramPhase::Dup,
        });
        RandomProgram { phases: phases.collect(), room: 1 << 30 }
    }

    pub(crate) async fn run(self: Rc<RandomProgram>, rank: Rank) -> Result<()> {
        rank.process().attach(
            oxmpi_core::buffered::BufferOf::Process,
            Attached { address: 0, bytes: self.room },
        )?;
        let mut comm = rank.world();
        for (number, phase) in self.phases.iter().enumerate() {
            match phase {
                ProgramPhase::Ring { len, rounds } => {
                    ring(&rank, &comm, number, *len, *rounds).await?
                }
                ProgramPhase::Messages { messages, receive } => {
                    exchange(&rank, &comm, number, messages, *receive).await?;
                    if matches!(
                        receive,
                        ReceiveMode::Anybody | ReceiveMode::Probed | ReceiveMode::Mixed
                    ) {
                        // A wildcard must not match a message of the next phase.
                        rank.barrier(&comm).await?;
                    }
                }
                ProgramPhase::Collectives(all) => collectives(&rank, &comm, number, all).await?,
                ProgramPhase::Compute { longest_ns } => rank.compute(rank.below(*longest_ns)).await,
                ProgramPhase::Split { colors, len } => {
                    split(&rank, &comm, number, *colors, *len).await?
                }
                ProgramPhase::Groups { len } => {
                    communicators::groups(&rank, &comm, number, *len).await?
                }
                ProgramPhase::Inter { first, len } => {
                    communicators::inter(&rank, &comm, number, *first, *len).await?;
                }
                ProgramPhase::Dup => {
                    let twin = if number % 2 == 0 {
                        rank.dup(&comm).await?
                    } else {
                        rank.idup(&comm).await?
                    };
                    if comm.team.id != rank.world().team.id {
                        rank.process().close(&comm);
                    }
                    comm = Arc::new(twin);
                }
            }
        }
        assert_eq!(rank.nonsense(), 0, "rank {} received malformed frames", rank.rank());
        Ok(())
    }
}

fn length(random: &mut Random, eager_limit: usize) -> usize {
    let e = eager_limit as u64;
    (match random.below(8) {
        0 => 0,
        1 => random.below(9),
        2 => e,
        3 => e + 1,
        4 => random.below(e + 1),
        5 => e * 3 + random.below(100),
        _ => random.below(2 * e + 16),
    }) as usize
}

fn messages(random: &mut Random, ranks: u32, eager_limit: usize) -> ProgramPhase {
    let receive = [
        ReceiveMode::Posted,
        ReceiveMode::Late,
        ReceiveMode::Anybody,
        ReceiveMode::Probed,
        ReceiveMode::Mixed,
    ][random.below(5) as usize];
    let n = u64::from(ranks);
    let tags = 1 + random.below(3);
    let shift = random.below(n) as u32;
    let mut messages = Vec::new();
    for _ in 0..1 + random.below(n.min(12)) {
        let from = random.below(n) as u32;
        let to = match receive {
            ReceiveMode::Mixed => (from + shift) % ranks,
            _ => random.below(n) as u32,
        };
        // Often a few messages, sometimes more than a window of sequence numbers.
        let many = if random.below(8) == 0 { 1 + random.below(300) } else { 1 + random.below(12) };
        let modes = random.below(4);
        for _ in 0..many {
            let mode = match (modes, random.below(4)) {
                (0, _) => Mode::Standard,
                (1, 0) | (2, _) => Mode::Synchronous,
                (1, 1) | (3, _) => Mode::Buffered,
                _ => Mode::Standard,
            };
            let tag =
                if matches!(receive, ReceiveMode::Anybody) { 0 } else { random.below(tags) as i32 };
            messages.push(PlannedMessage { from, to, tag, len: length(random, eager_limit), mode });
        }
    }
    ProgramPhase::Messages { messages, receive }
}

fn planned(random: &mut Random, ranks: u32, eager_limit: usize) -> PlannedCollective {
    let what = Collective::REGULAR[random.below(Collective::REGULAR.len() as u64) as usize];
    let longest = if ranks > 16 { 16 } else { 8 + eager_limit as u64 };
    let count = if random.below(8) == 0 { 0 } else { 1 + random.below(longest) };
    PlannedCollective {
        what,
        count: count as usize,
        root: random.below(u64::from(ranks)) as u32,
        in_place: random.below(3) == 0,
        user: random.below(3) == 0,
    }
}

fn pattern(phase: usize, n: usize, len: usize) -> Vec<u8> {
    let mut random = Random::new((phase as u64) << 32 | n as u64);
    let start = random.draw() as u8;
    let step = random.draw() as u8 | 1;
    (0..len).map(|i| start.wrapping_add((i as u8).wrapping_mul(step))).collect()
}

async fn ring(
    rank: &Rank,
    comm: &Communicator,
    phase: usize,
    len: usize,
    rounds: usize,
) -> Result<()> {
    let size = comm.size();
    let (left, right) = ((comm.rank() + size - 1) % size, (comm.rank() + 1) % size);
    for round in 0..rounds {
        let n = |from: i32| from as usize * 1000 + round;
        let input = Owned::new(vec![0u8; len]);
        let receive = rank.irecv(comm, input.buf(), left, 1)?;
        let sent =
            rank.send(comm, Mode::Standard, &pattern(phase, n(comm.rank()), len), right, 1).await;
        let done = rank.wait(receive).await?;
        sent?;
        assert_eq!((done.source, done.tag, done.bytes), (left, 1, len as u64));
        assert!(
            input.into_vec().unwrap_or_default() == pattern(phase, n(left), len),
            "round {round} from {left}"
        );
    }
    Ok(())
}

async fn split(
    rank: &Rank,
    comm: &Communicator,
    phase: usize,
    colors: i32,
    len: usize,
) -> Result<()> {
    let color = |r: i32| if r % (colors + 1) == colors { MPI_UNDEFINED } else { r % (colors + 1) };
    let mine = color(comm.rank());
    let part = rank.split(comm, mine, -comm.rank()).await?;
    let members: Vec<i32> = (0..comm.size()).rev().filter(|r| color(*r) == mine).collect();
    let Some(part) = part else {
        assert_eq!(mine, MPI_UNDEFINED);
        return Ok(());
    };
    assert_eq!(part.size() as usize, members.len());
    assert_eq!(members[part.rank() as usize], comm.rank());
    ring(rank, &part, phase, len, 3).await?;
    let sum = rank.allreduce(&part, &[comm.rank() as u64, 1], ReduceOp::Sum).await?;
    assert_eq!(sum, [members.iter().map(|r| *r as u64).sum(), members.len() as u64]);
    rank.process().close(&part);
    Ok(())
}

struct OpenReceive {
    request: RequestId,
    data: Owned<u8>,
    /// The message that it must match; `None` for a wildcard.
    expected: Option<usize>,
}

async fn exchange(
    rank: &Rank,
    comm: &Communicator,
    phase: usize,
    messages: &[PlannedMessage],
    how: ReceiveMode,
) -> Result<()> {
    let me = rank.rank();
    let sends: Vec<usize> = (0..messages.len()).filter(|n| messages[*n].from == me).collect();
    let receives: Vec<usize> = (0..messages.len()).filter(|n| messages[*n].to == me).collect();
    let mut open: Vec<OpenReceive> = Vec::new();
    let mut sent: Vec<RequestId> = Vec::new();
    let posted = matches!(how, ReceiveMode::Posted)
        || (matches!(how, ReceiveMode::Anybody | ReceiveMode::Mixed) && rank.below(2) == 0);
    let mut queues: HashMap<(u32, i32), VecDeque<usize>> = HashMap::new();
    for n in &receives {
        queues.entry((messages[*n].from, messages[*n].tag)).or_default().push_back(*n);
    }
    let mut wanted = Vec::new();
    for _ in 0..receives.len() {
        wanted.push(next_receive(rank, how, messages, &mut queues));
    }
    let mut wanted = VecDeque::from(wanted);
    let room = |expected: Option<usize>| match expected {
        Some(n) => messages[n].len + rank.below(3) as usize,
        None => messages.iter().map(|m| m.len).max().unwrap_or(0),
    };
    if posted {
        for NextReceive { from, tag, expected } in wanted.drain(..) {
            let data = Owned::new(vec![0xee; room(expected)]);
            let request = rank.irecv(comm, data.buf(), from, tag)?;
            open.push(OpenReceive { request, data, expected });
            if rank.below(50) == 0 {
                rank.compute(rank.below(3000)).await;
            }
        }
    }
    for n in sends {
        let PlannedMessage { to, tag, len, mode, .. } = messages[n];
        let data = Owned::new(pattern(phase, n, len));
        if mode == Mode::Standard
            && rank.below(2) == 0
            && let Some(bytes) = data.buf().as_contiguous()
            && rank.process().send_now(comm, bytes, to as i32, tag)
        {
            continue;
        }
        let request = rank.isend(comm, mode, data.buf(), to as i32, tag)?;
        if mode == Mode::Buffered {
            // The program may change its buffer at once.
            data.buf().unpack(0, Bytes::from(&vec![0xdd; len][..]));
        }
        sent.push(request);
        if rank.below(50) == 0 {
            rank.compute(rank.below(3000)).await;
        }
    }
    let mut check = MessageCheck { phase, me, messages, next: HashMap::new() };
    while let Some(NextReceive { mut from, mut tag, expected }) = wanted.pop_front() {
        if matches!(how, ReceiveMode::Probed) {
            let found = rank.probe(comm, from, tag).await?;
            (from, tag) = (found.source, found.tag);
            let (data, done) = rank.recv(comm, found.bytes as usize, from, tag).await?;
            assert_eq!((done.source, done.tag, done.bytes), (found.source, found.tag, found.bytes));
            check.received(&data, &done, None);
        } else {
            let (data, done) = rank.recv(comm, room(expected), from, tag).await?;
            check.received(&data, &done, expected);
        }
    }
    // Posted receives complete in any order, but match in the order of posting.
    let mut done: Vec<Option<Completion>> = vec![None; open.len()];
    let mut left: Vec<usize> = (0..open.len()).collect();
    while !left.is_empty() {
        if rank.below(2) == 0 {
            let requests: Vec<RequestId> = left.iter().map(|at| open[*at].request).collect();
            if let Some((at, completion)) = rank.wait_any(&requests).await? {
                done[left.swap_remove(at)] = Some(completion);
            }
        } else {
            let at = left.swap_remove(rank.below(left.len() as u64) as usize);
            done[at] = Some(rank.wait(open[at].request).await?);
        }
    }
    for (OpenReceive { data, expected, .. }, done) in open.into_iter().zip(done) {
        let Some(done) = done else { panic!("a request was not waited for") };
        let data = data.into_vec().unwrap_or_else(|_| panic!("a buffer is still in use"));
        check.received(&data[..done.bytes as usize], &done, expected);
        assert!(
            data[done.bytes as usize..].iter().all(|byte| *byte == 0xee),
            "written beyond the message"
        );
    }
    for request in sent {
        rank.wait(request).await?;
    }
    Ok(())
}

struct NextReceive {
    from: i32,
    tag: i32,
    expected: Option<usize>,
}

fn next_receive(
    rank: &Rank,
    how: ReceiveMode,
    messages: &[PlannedMessage],
    queues: &mut HashMap<(u32, i32), VecDeque<usize>>,
) -> NextReceive {
    match how {
        ReceiveMode::Anybody => {
            return NextReceive { from: MPI_ANY_SOURCE, tag: 0, expected: None };
        }
        ReceiveMode::Probed => {
            return NextReceive { from: MPI_ANY_SOURCE, tag: MPI_ANY_TAG, expected: None };
        }
        ReceiveMode::Posted | ReceiveMode::Late | ReceiveMode::Mixed => {}
    }
    // Sorted, since the order of a hash map would not repeat with a seed.
    let mut keys: Vec<(u32, i32)> =
        queues.iter().filter(|(_, q)| !q.is_empty()).map(|(k, _)| *k).collect();
    keys.sort_unstable();
    let mut key = keys[rank.below(keys.len() as u64) as usize];
    let (mut from, mut tag) = (key.0 as i32, key.1);
    if matches!(how, ReceiveMode::Mixed) {
        // There is one sender, so a wildcard tag matches its oldest message.
        if rank.below(2) == 0 {
            from = MPI_ANY_SOURCE;
        }
        if rank.below(2) == 0 {
            tag = MPI_ANY_TAG;
            if let Some(oldest) = keys.iter().min_by_key(|k| queues[*k].front()) {
                key = *oldest;
            }
        }
    }
    let expected = queues.get_mut(&key).and_then(VecDeque::pop_front);
    debug_assert!(expected.is_none_or(|n| messages[n].to == rank.rank()));
    NextReceive { from, tag, expected }
}

struct MessageCheck<'a> {
    phase: usize,
    me: u32,
    messages: &'a [PlannedMessage],
    next: HashMap<(i32, i32), usize>,
}

impl MessageCheck<'_> {
    fn received(&mut self, data: &[u8], done: &Completion, expected: Option<usize>) {
        let key = (done.source, done.tag);
        let n = expected.unwrap_or_else(|| {
            let start = self.next.get(&key).copied().unwrap_or(0);
            let ours = |m: &PlannedMessage| m.to == self.me && (m.from as i32, m.tag) == key;
            let at = self.messages[start..].iter().position(ours);
            start
                + at.unwrap_or_else(|| {
                    panic!("one message too many from {} with tag {}", key.0, key.1)
                })
        });
        self.next.insert(key, n + 1);
        let message = &self.messages[n];
        assert_eq!(key, (message.from as i32, message.tag), "message {n} at rank {}", self.me);
        assert_eq!(done.bytes, message.len as u64, "length of message {n} at rank {}", self.me);
        assert!(
            data == pattern(self.phase, n, message.len),
            "content of message {n} at rank {}",
            self.me
        );
    }
}

/// An affine map x -> a x + b; composition does not commute.
type Affine = [u64; 2];

fn compose(first: Affine, then: Affine) -> Affine {
    [then[0].wrapping_mul(first[0]), then[0].wrapping_mul(first[1]).wrapping_add(then[1])]
}

fn composing() -> UserCall {
    Arc::new(|reduction: &UserReduction| {
        let read = |buffer: &UserBuf| {
            let mut bytes = vec![0; buffer.packed_len()];
            buffer.pack(0, BytesMut::from(&mut bytes[..]));
            let words: Vec<u64> =
                bytes.as_chunks::<8>().0.iter().map(|w| u64::from_ne_bytes(*w)).collect();
            words.as_chunks::<2>().0.to_vec()
        };
        let (left, right) = (read(&reduction.left), read(&reduction.right));
        let both = left.iter().zip(&right).flat_map(|(l, r)| compose(*l, *r));
        let bytes: Vec<u8> = both.flat_map(u64::to_ne_bytes).collect();
        reduction.right.unpack(0, Bytes::from(&bytes[..]));
    })
}

const WORDS: usize = 2;

fn contribution(phase: usize, n: usize, r: u32, count: usize) -> Vec<u64> {
    let mut random = Random::new((phase as u64) << 40 | (n as u64) << 32 | u64::from(r));
    (0..count * WORDS).map(|_| random.draw()).collect()
}

fn combined(all: &[Vec<u64>], user: bool) -> Vec<u64> {
    let mut result = all[0].clone();
    for more in &all[1..] {
        if user {
            for (a, b) in result.as_chunks_mut::<2>().0.iter_mut().zip(more.as_chunks::<2>().0) {
                *a = compose(*a, *b);
            }
        } else {
            result.iter_mut().zip(more).for_each(|(a, b)| *a = a.wrapping_add(*b));
        }
    }
    result
}

struct StartedCollective {
    request: RequestId,
    output: Owned<u64>,
    expected: Vec<u64>,
    what: PlannedCollective,
}

const UNTOUCHED: u64 = 0xeeee_eeee_eeee_eeee;

async fn collectives(
    rank: &Rank,
    comm: &Communicator,
    phase: usize,
    all: &[PlannedCollective],
) -> Result<()> {
    let mut started = Vec::new();
    for (n, planned) in all.iter().enumerate() {
        started.push(begin(rank, comm, phase, n, *planned)?);
        rank.compute(rank.below(500)).await;
    }
    while let Some(StartedCollective { request, output, expected, what }) = started.pop() {
        rank.wait(request).await?;
        let got = output.into_vec().unwrap_or_else(|_| panic!("{what:?} still uses its buffer"));
        let got = &got[..expected.len()];
        assert!(
            got == expected,
            "{what:?} at rank {}: {got:x?} instead of {expected:x?}",
            rank.rank()
        );
    }
    Ok(())
}

fn begin(
    rank: &Rank,
    comm: &Communicator,
    phase: usize,
    n: usize,
    p: PlannedCollective,
) -> Result<StartedCollective> {
    let (me, size) = (rank.rank(), rank.size());
    let PlannedCollective { what, count, root, user, .. } = p;
    let words = count * WORDS;
    let blocks = |r: u32, blocks: u32| contribution(phase, n, r, count * blocks as usize);
    let block = |from: &[u64], r: u32| from[r as usize * words..][..words].to_vec();
    let untouched = |blocks: u32| vec![UNTOUCHED; words * blocks as usize];
    let at_root = me == root;
    // In rooted collectives only the root may give MPI_IN_PLACE.
    let rooted = matches!(what, Collective::Gather | Collective::Scatter | Collective::Reduce);
    let in_place = p.in_place && (at_root || !rooted);
    let upto = |last: u32| (0..=last).map(|r| blocks(r, 1)).collect::<Vec<_>>();
    let bytes = Shared(words * 8);
    let count = Shared(count);
    let commutative = !user;
    let mine = blocks(me, 1);
    let (call, input, mut before, after) = match what {
        Collective::Barrier => (Call::Barrier, vec![], vec![], vec![]),
        Collective::Bcast => {
            let data = blocks(root, 1);
            let before = if at_root { data.clone() } else { untouched(1) };
            (Call::Bcast { root, bytes }, vec![], before, data)
        }
        Collective::Gather => {
            let call = Call::Gather { root, block: bytes, in_place };
            match at_root {
                true => (call, mine, untouched(size), upto(size - 1).concat()),
                false => (call, mine, vec![], vec![]),
            }
        }
        Collective::Scatter => {
            let call = Call::Scatter { root, block: bytes, in_place };
            let all = blocks(root, size);
            let own = block(&all, me);
            match (at_root, in_place) {
                (true, true) => (call, all, vec![], vec![]),
                (true, false) => (call, all, untouched(1), own),
                (false, _) => (call, vec![], untouched(1), own),
            }
        }
        Collective::Allgather => (
            Call::Allgather { block: bytes, in_place },
            mine,
            untouched(size),
            upto(size - 1).concat(),
        ),
        Collective::Alltoall => {
            let after = (0..size).flat_map(|r| block(&blocks(r, size), me)).collect();
            (Call::Alltoall { block: bytes, in_place }, blocks(me, size), untouched(size), after)
        }
        Collective::Reduce => {
            let call = Call::Reduce { root, count, commutative, in_place };
            match at_root {
                true => (call, mine, untouched(1), combined(&upto(size - 1), user)),
                false => (call, mine, vec![], vec![]),
            }
        }
        Collective::Allreduce => {
            let call = Call::Allreduce { count, commutative, in_place };
            (call, mine, untouched(1), combined(&upto(size - 1), user))
        }
        Collective::ReduceScatterBlock => {
            let call = Call::ReduceScatterBlock { block: count, commutative, in_place };
            let all: Vec<_> = (0..size).map(|r| blocks(r, size)).collect();
            let after = block(&combined(&all, user), me);
            (call, blocks(me, size), untouched(1), after)
        }
        Collective::Scan => {
            let call = Call::Scan { count, commutative, in_place };
            (call, mine, untouched(1), combined(&upto(me), user))
        }
        Collective::Exscan => {
            let call = Call::Exscan { count, commutative, in_place };
            let after = match (me, in_place) {
                (0, true) => mine.clone(),
                (0, false) => untouched(1),
                _ => combined(&upto(me - 1), user),
            };
            (call, mine, untouched(1), after)
        }
        _ => unreachable!("{what} has blocks of different lengths"),
    };
    if in_place {
        match what {
            Collective::Gather | Collective::Allgather => {
                before[me as usize * words..][..words].copy_from_slice(&input);
            }
            Collective::Scatter | Collective::Barrier | Collective::Bcast => {}
            _ => before = input.clone(),
        }
    }
    let reduces = !matches!(
        what,
        Collective::Barrier
            | Collective::Bcast
            | Collective::Gather
            | Collective::Scatter
            | Collective::Allgather
            | Collective::Alltoall
    );
    // Elements have two words for the user's function, and one word for the sum.
    let element = reduces.then(|| Arc::new(Layout::basic(if user { 16 } else { 8 }, 8)));
    let call = if reduces && !user { with_count(call, words) } else { call };
    let input = Owned::new(if in_place && what != Collective::Scatter { vec![] } else { input });
    let output = Owned::new(before);
    let shaped = |buffer: UserBuf| match &element {
        Some(element) if user => {
            let count = buffer.packed_len() / 16;
            buffer.cast(count, element).expect("whole elements")
        }
        _ => buffer,
    };
    let buffers = Buffers {
        input: shaped(input.buf()),
        output: shaped(output.buf()),
        element: element.clone(),
    };
    let sum = kernel(ReduceOp::Sum, Scalar::U64).expect("a kernel for a sum");
    let (combine, function) = match (reduces, user) {
        (false, _) => (Combine::Nothing, None),
        (true, false) => (Combine::Kernel(sum), None),
        (true, true) => (Combine::User, Some(composing())),
    };
    let request = rank.start(comm, call, buffers, combine, function)?;
    let mut expected = after;
    // A reduce-scatter in place may leave any data after its result.
    if expected.len() < output.len() && !(in_place && what == Collective::ReduceScatterBlock) {
        expected.resize(output.len(), UNTOUCHED);
    }
    Ok(StartedCollective { request, output, expected, what: p })
}

fn with_count(call: Call, n: usize) -> Call {
    let n = Shared(n);
    match call {
        Call::Reduce { root, commutative, in_place, .. } => {
            Call::Reduce { root, count: n, commutative, in_place }
        }
        Call::Allreduce { commutative, in_place, .. } => {
            Call::Allreduce { count: n, commutative, in_place }
        }
        Call::ReduceScatterBlock { commutative, in_place, .. } => {
            Call::ReduceScatterBlock { block: n, commutative, in_place }
        }
        Call::Scan { commutative, in_place, .. } => Call::Scan { count: n, commutative, in_place },
        Call::Exscan { commutative, in_place, .. } => {
            Call::Exscan { count: n, commutative, in_place }
        }
        other => other,
    }
}
