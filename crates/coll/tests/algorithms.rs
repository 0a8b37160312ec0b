//! Every algorithm of the table over simulated networks, with reductions that do not commute and
//! blocks of different lengths.

use oxmpi_coll::{Buffers, Combine, Progress, Run, UserReduction};
use oxmpi_engine::{CopiedSends, Lane, RankMap, Rest};
use oxmpi_fabric::sim::{LinkFaults, Network, Random, Sim};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Owned;
use oxmpi_plan::{
    AlgorithmId, Blocks, Call, Collective, Paired, Parameters, RootOnly, Shared, TeamMember, make,
    table,
};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::ContextId;
use std::sync::Arc;

/// An affine map, whose composition in rank order does not commute.
type Affine = [u64; 2];

fn compose(first: Affine, then: Affine) -> Affine {
    [then[0].wrapping_mul(first[0]), then[0].wrapping_mul(first[1]).wrapping_add(then[1])]
}

fn sum(a: Affine, b: Affine) -> Affine {
    [a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])]
}

fn combine(reduction: &UserReduction, op: fn(Affine, Affine) -> Affine) {
    let read = |buffer: &oxmpi_mem::buffer::UserBuf| {
        let mut bytes = vec![0; buffer.packed_len()];
        buffer.pack(0, BytesMut::from(&mut bytes[..]));
        let words: Vec<u64> =
            bytes.as_chunks::<8>().0.iter().map(|w| u64::from_ne_bytes(*w)).collect();
        words.as_chunks::<2>().0.to_vec()
    };
    let pairs = read(&reduction.left).into_iter().zip(read(&reduction.right));
    let bytes: Vec<u8> = pairs.flat_map(|(l, r)| op(l, r)).flat_map(u64::to_ne_bytes).collect();
    reduction.right.unpack(0, Bytes::from(&bytes[..]));
}

fn contribution(rank: u32, elements: usize) -> Vec<Affine> {
    let mut random = Random::new(u64::from(rank) + 99);
    (0..elements).map(|_| [random.draw(), random.draw()]).collect()
}

struct Case {
    call: Call,
    input: Vec<Affine>,
    output: usize,
    /// `None`: the output is undefined or empty.
    expected: Option<Vec<Affine>>,
}

fn case(
    collective: Collective,
    rank: u32,
    size: u32,
    count: usize,
    root: u32,
    commutative: bool,
) -> Case {
    let op = if commutative { sum } else { compose };
    let (n, all) = (size as usize, count * size as usize);
    let mine = contribution(rank, count);
    let at = |v: Vec<Affine>, r: u32| v[r as usize * count..][..count].to_vec();
    let gathered = || (0..size).flat_map(|r| contribution(r, count)).collect::<Vec<_>>();
    let reduced = |ranks: u32, len: usize| {
        let first = contribution(0, len);
        (1..ranks).fold(first, |acc, r| {
            acc.into_iter().zip(contribution(r, len)).map(|(a, b)| op(a, b)).collect()
        })
    };
    let (block, elements) = (Shared(count * 16), Shared(count));
    let is_root = rank == root;
    let in_place = false;
    let root_only = |v: Vec<Affine>| if is_root { Some(v) } else { None };
    let (call, input, output, expected) = match collective {
        Collective::Barrier => (Call::Barrier, vec![], 0, None),
        Collective::Bcast => {
            let input = if is_root { mine.clone() } else { vec![[0; 2]; count] };
            (Call::Bcast { root, bytes: block }, input, count, Some(contribution(root, count)))
        }
        Collective::Gather => (
            Call::Gather { root, block, in_place },
            mine,
            if is_root { all } else { 0 },
            root_only(gathered()),
        ),
        Collective::Scatter => {
            let input = if is_root { contribution(root, all) } else { vec![] };
            (
                Call::Scatter { root, block, in_place },
                input,
                count,
                Some(at(contribution(root, all), rank)),
            )
        }
        Collective::Allgather => (Call::Allgather { block, in_place }, mine, all, Some(gathered())),
        Collective::Alltoall => {
            let expected = (0..size).flat_map(|r| at(contribution(r, all), rank)).collect();
            (Call::Alltoall { block, in_place }, contribution(rank, all), all, Some(expected))
        }
        Collective::Reduce => {
            let call = Call::Reduce { root, count: elements, commutative, in_place };
            (call, mine, if is_root { count } else { 0 }, root_only(reduced(size, count)))
        }
        Collective::Allreduce => {
            let call = Call::Allreduce { count: elements, commutative, in_place };
            (call, mine, count, Some(reduced(size, count)))
        }
        Collective::ReduceScatterBlock => {
            let call = Call::ReduceScatterBlock { block: elements, commutative, in_place };
            (call, contribution(rank, all), count, Some(at(reduced(size, n * count), rank)))
        }
        Collective::Scan => {
            let call = Call::Scan { count: elements, commutative, in_place };
            (call, mine, count, Some(reduced(rank + 1, count)))
        }
        Collective::Exscan => {
            let call = Call::Exscan { count: elements, commutative, in_place };
            let expected = if rank == 0 { vec![[7; 2]; count] } else { reduced(rank, count) };
            (call, mine, count, Some(expected))
        }
        _ => unreachable!("{collective} has blocks of different lengths"),
    };
    Case { call, input, output, expected }
}

const PARAMETERS: [Parameters; 4] = [
    Parameters { segment: 0, fanout: 0, max_requests: 0, window: 64 },
    Parameters { segment: 3, fanout: 2, max_requests: 1, window: 0 },
    Parameters { segment: 50, fanout: 3, max_requests: 2, window: 10 },
    Parameters { segment: 1000, fanout: 7, max_requests: 9, window: 64 },
];

fn run(
    id: AlgorithmId,
    collective: Collective,
    size: u32,
    count: usize,
    commutative: bool,
    seed: u64,
) {
    let root = Random::new(seed).below(u64::from(size)) as u32;
    let cases =
        (0..size).map(|rank| case(collective, rank, size, count, root, commutative)).collect();
    let what = format!(
        "{collective} {} of {count} on {size} ranks, root {root}, seed {seed}",
        id.algorithm().name
    );
    run_cases(id, cases, commutative, seed, None, &what);
}

/// Describes a rank's buffer by another datatype.
type Describe<'a> = &'a dyn Fn(u32, &UserBuf) -> UserBuf;

fn run_cases(
    id: AlgorithmId,
    cases: Vec<Case>,
    commutative: bool,
    seed: u64,
    element_of: Option<Describe>,
    what: &str,
) {
    let mut random = Random::new(seed);
    let size = cases.len() as u32;
    let network = Network::new(size, seed, LinkFaults::any(&mut random));
    let element = Arc::new(Layout::basic(16, 8));
    let parameters = PARAMETERS[seed as usize % PARAMETERS.len()];
    let mut lanes = Vec::new();
    let mut runs = Vec::new();
    let mut results = Vec::new();
    for (rank, case) in (0..size).zip(cases) {
        let mut lane = Lane::new(rank, Sim::new(rank, network.clone()));
        let team = lane.open_team(RankMap::Identity(size), rank, ContextId::new(0, 0), true);
        let Case { call, input, output, expected } = case;
        let begin =
            if matches!(call, Call::Bcast { .. }) { input.clone() } else { vec![[7; 2]; output] };
        let (input, output) = (Owned::new(input), Owned::new(begin));
        let given = match element_of {
            None => output.buf(),
            Some(of) => of(rank, &output.buf()),
        };
        let buffers = Buffers { input: input.buf(), output: given, element: Some(element.clone()) };
        let plan = make(id, TeamMember { rank, size }, &call, &parameters).expect("a legal call");
        runs.push(Some(Run::new(plan, team, 3, buffers, Combine::User).expect("temporary space")));
        lanes.push(lane);
        results.push((output, expected));
    }
    let op = if commutative { sum } else { compose };
    let mut advance = |rank: usize| {
        loop {
            lanes[rank].progress();
            match runs[rank].as_mut().map(|run| run.advance(&mut lanes[rank])) {
                Some(Progress::NeedCallback(reduction)) => {
                    combine(&reduction, op);
                    runs[rank].iter_mut().for_each(Run::callback_done);
                    continue;
                }
                Some(Progress::Done(result)) => {
                    result.unwrap_or_else(|e| panic!("{what}: {e}"));
                    runs[rank] = None;
                }
                Some(Progress::Waiting) | None => {}
            }
            if lanes[rank].announce_sleep(CopiedSends::All) != Rest::Not {
                return runs.iter().all(Option::is_none);
            }
        }
    };
    let mut over = (0..size as usize).fold(false, |_, rank| advance(rank));
    while !over {
        let event = network.borrow_mut().advance().unwrap_or_else(|| panic!("{what}: deadlock"));
        if let Some(rank) = event {
            over = advance(rank as usize);
        }
    }
    for (rank, (output, expected)) in results.into_iter().enumerate() {
        let got = output.into_vec().unwrap_or_else(|_| panic!("{what}: a buffer is still in use"));
        if let Some(expected) = expected {
            assert!(got == expected, "{what}: wrong result at rank {rank}");
        }
    }
}

#[test]
fn every_algorithm_gives_the_naive_result() {
    let mut runs = 0;
    for collective in Collective::REGULAR {
        for id in table::algorithms(collective) {
            for size in [1, 2, 3, 4, 5, 7, 8, 12, 16] {
                for (count, commutative) in
                    [(0, true), (1, false), (5, true), (5, false), (40, true), (200, false)]
                {
                    if id.algorithm().refusal(size, commutative).is_none() {
                        runs += 1;
                        run(id, collective, size, count, commutative, runs);
                    }
                }
            }
        }
    }
    assert!(runs > 1000, "{runs} runs");
}

fn part(from: u32, to: u32) -> Vec<Affine> {
    let len = [0, 3, 0, 1, 40][((from * 7 + to * 3) % 5) as usize];
    contribution(1000 * from + to, len)
}

fn uneven_case(collective: Collective, rank: u32, size: u32, root: u32, commutative: bool) -> Case {
    let blocks = |lengths: &mut dyn Iterator<Item = usize>, unit: usize| {
        Blocks::new(lengths.map(|length| length * unit)).expect("they fit")
    };
    let of = |parts: &dyn Fn(u32) -> Vec<Affine>| (0..size).flat_map(parts).collect::<Vec<_>>();
    let own = |r: u32| part(r, r);
    let lengths = || blocks(&mut (0..size).map(|r| own(r).len()), 16);
    let (is_root, in_place) = (rank == root, false);
    let all = if is_root { RootOnly::at_root(lengths()) } else { RootOnly::elsewhere() };
    let mine = Paired(own(rank).len() * 16);
    let total = of(&own).len();
    match collective {
        Collective::Gatherv => Case {
            call: Call::Gatherv { root, mine, all, in_place },
            input: own(rank),
            output: if is_root { total } else { 0 },
            expected: is_root.then(|| of(&own)),
        },
        Collective::Scatterv => Case {
            call: Call::Scatterv { root, mine, all, in_place },
            input: if is_root { of(&own) } else { vec![] },
            output: own(rank).len(),
            expected: Some(own(rank)),
        },
        Collective::Allgatherv => Case {
            call: Call::Allgatherv { blocks: Shared(lengths()), in_place },
            input: own(rank),
            output: total,
            expected: Some(of(&own)),
        },
        Collective::Alltoallv => {
            let expected = of(&|peer| part(peer, rank));
            let send = Paired(blocks(&mut (0..size).map(|peer| part(rank, peer).len()), 16));
            let receive = Paired(blocks(&mut (0..size).map(|peer| part(peer, rank).len()), 16));
            Case {
                call: Call::Alltoallv { send, receive, in_place },
                input: of(&|peer| part(rank, peer)),
                output: expected.len(),
                expected: Some(expected),
            }
        }
        Collective::ReduceScatter => {
            let op = if commutative { sum } else { compose };
            let cut = blocks(&mut (0..size).map(|r| own(r).len()), 1);
            let combined = (1..size).fold(contribution(0, total), |acc, r| {
                acc.into_iter().zip(contribution(r, total)).map(|(a, b)| op(a, b)).collect()
            });
            let (start, len) = (cut.start(rank as usize), cut.length(rank as usize));
            Case {
                call: Call::ReduceScatter { blocks: Shared(cut), commutative, in_place },
                input: contribution(rank, total),
                output: len,
                expected: Some(combined[start..start + len].to_vec()),
            }
        }
        _ => unreachable!("{collective} has blocks of one length"),
    }
}

#[test]
fn blocks_of_different_lengths_arrive_with_every_algorithm() {
    let mut seed = 0;
    for collective in [
        Collective::Gatherv,
        Collective::Scatterv,
        Collective::Allgatherv,
        Collective::Alltoallv,
        Collective::ReduceScatter,
    ] {
        for id in table::algorithms(collective) {
            for size in [1, 2, 3, 4, 5, 6, 7, 8, 12, 17] {
                for commutative in [true, false] {
                    if id.algorithm().refusal(size, commutative).is_some() {
                        continue;
                    }
                    seed += 1;
                    let root = (seed % u64::from(size)) as u32;
                    let cases = (0..size)
                        .map(|rank| uneven_case(collective, rank, size, root, commutative))
                        .collect();
                    let what = format!("{id} on {size} ranks, root {root}, seed {seed}");
                    run_cases(id, cases, commutative, seed, None, &what);
                }
            }
        }
    }
    assert!(seed > 250, "{seed} runs");
}

/// Root and leaves of a broadcast describe one signature by different datatypes: pairs of words,
/// words, and words with gaps. Segments then end within elements.
#[test]
fn a_broadcast_arrives_in_elements_of_another_type() {
    let word = Arc::new(Layout::basic(8, 8));
    let with_gap = Arc::new(Layout::resized(0, 16, &word).expect("a layout"));
    let apart =
        |pairs: Vec<Affine>| pairs.into_iter().flatten().map(|word| [word, 7]).collect::<Vec<_>>();
    let describe = |rank: u32, buffer: &UserBuf| {
        let words = buffer.packed_len() / 8;
        match rank % 3 {
            0 => buffer.clone(),
            1 => buffer.cast(words, &word).expect("it fits"),
            _ => buffer.cast(words / 2, &with_gap).expect("it fits"),
        }
    };
    let mut seed = 0;
    // The crate of plans verifies the algorithms of nodes, which are never selected on one node.
    for id in table::algorithms(Collective::Bcast).filter(|id| !id.algorithm().needs_nodes()) {
        for size in [2, 3, 4, 5, 8, 11, 16] {
            for count in [1, 5, 64, 300] {
                seed += 1;
                let root = (seed % u64::from(size)) as u32;
                let cases = (0..size).map(|rank| {
                    let Case { call, input, output, expected } =
                        case(Collective::Bcast, rank, size, count, root, true);
                    match rank % 3 {
                        2 => {
                            let input = match rank == root {
                                true => apart(input),
                                false => vec![[7; 2]; 2 * count],
                            };
                            Case { call, input, output: 2 * count, expected: expected.map(apart) }
                        }
                        _ => Case { call, input, output, expected },
                    }
                });
                let what = format!("{id} of {count} on {size} ranks, root {root}, seed {seed}");
                run_cases(id, cases.collect(), true, seed, Some(&describe), &what);
            }
        }
    }
}
