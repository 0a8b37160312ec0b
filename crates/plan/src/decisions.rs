//! The fixed decisions, computed by the cost model.
//!
//! For each collective, each [`Setup`] and each class of team sizes, every algorithm that is legal
//! for all sizes of the class is tried for lengths from 8 bytes to 16 MiB, with some segments and
//! fan-outs. The cheapest is chosen, but the choice of the previous length stays if it costs nearly
//! the same, so that tables are short. `cargo xtask decisions` writes the table, which is
//! committed; a test checks that it agrees with this module.
//!
//! The model is [`cost`](crate::cost) with parameters measured over shared memory. If ranks share
//! processors, waiting for a message costs the time until the rank is scheduled again, and fewer
//! processors do all work.

use std::fmt::Write;

use crate::blocks::Blocks;
use crate::call::{Call, Collective, TeamMember};
use crate::choice::Setup;
use crate::cost::{LogGp, Machine, Outline, outline};
use crate::ir::PlanUnit;
use crate::knowledge::Shared;
use crate::table::{AlgorithmId, Parameter, Parameters, make, settled, unit};

/// Ranks of one node with a processor each.
pub const DEDICATED: Machine = Machine {
    ranks_per_node: u32::MAX,
    inside: LogGp { latency_ns: 80.0, overhead_ns: 50.0, gap_ns: 50.0, byte_ns: 0.025 },
    between: LogGp { latency_ns: 80.0, overhead_ns: 50.0, gap_ns: 50.0, byte_ns: 0.025 },
    copy_byte_ns: 0.012,
    reduce_byte_ns: 0.02,
};

/// The time for each other rank on a processor until a waiting rank is scheduled.
const TURN_NS: f64 = 800.0;

/// The time until sender and receiver of a copied message have met on shared processors.
const FETCH_NS: f64 = 12_000.0;

/// From this length on, if ranks share processors, receivers copy messages from the sender's
/// memory. With a processor for each rank, the plain model is used.
const FETCHED_FROM: usize = (128 << 10) + 1;

const SHARING: f64 = 4.0;

const ELEMENT: usize = 8;

/// The longest call that is tried; its decision applies to longer calls.
const MAX_BYTES: usize = 16 << 20;

/// The most data of all blocks of a rank in a call that is tried.
const MAX_BYTES_OF_ALL: usize = 256 << 20;

/// Algorithms that pass segments from rank to rank. They are not tried if ranks share processors:
/// by measurement a rank is then scheduled for little more than one segment, which the model does
/// not show.
const PIPELINES: [&str; 8] = [
    "binary",
    "binary_tree",
    "chain",
    "in-order_binary",
    "linear_sync",
    "pipeline",
    "segmented_ring",
    "split_binary_tree",
];

/// The collectives with decisions, and whether their decisions depend on commutativity.
pub const DECIDED: [(Collective, bool); 13] = [
    (Collective::Barrier, false),
    (Collective::Bcast, false),
    (Collective::Gather, false),
    (Collective::Scatter, false),
    (Collective::Allgather, false),
    (Collective::Allgatherv, false),
    (Collective::Alltoall, false),
    (Collective::Reduce, true),
    (Collective::Allreduce, true),
    (Collective::ReduceScatterBlock, true),
    (Collective::ReduceScatter, true),
    (Collective::Scan, false),
    (Collective::Exscan, false),
];

/// Team sizes with common decisions. Powers of two have their own classes: some algorithms serve
/// only them, and others are faster for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    pub min: u32,
    /// `u32::MAX`: no bound.
    pub max: u32,
    /// Whether the class has the powers of two from `min` to `max`, or all other sizes.
    pub powers_of_two: bool,
}

impl SizeClass {
    fn samples(&self, collective: Collective) -> Vec<u32> {
        match (self.powers_of_two, self.max) {
            (true, _) => vec![self.min],
            // A barrier has one length, so a larger team can be tried.
            (false, u32::MAX) if collective == Collective::Barrier => vec![300, 1025],
            (false, u32::MAX) => vec![300],
            (false, max) if max > self.min => vec![self.min, max],
            (false, max) => vec![max],
        }
    }

    /// Whether the class may use algorithms for special sizes.
    fn is_exact(&self) -> bool {
        self.powers_of_two || self.min == self.max
    }
}

/// All classes of powers of two, or of other sizes, ascending and without gaps.
#[must_use]
pub fn classes(powers_of_two: bool) -> Vec<SizeClass> {
    let class = |(min, max)| SizeClass { min, max, powers_of_two };
    if powers_of_two {
        let exact = (0..9).map(|bits| (1 << bits, 1 << bits));
        return exact.chain([(512, u32::MAX)]).map(class).collect();
    }
    let between =
        [(9, 15), (17, 31), (33, 63), (65, 95), (96, 127), (129, 191), (192, 255), (257, u32::MAX)];
    [(3, 3), (5, 5), (6, 6), (7, 7)].into_iter().chain(between).map(class).collect()
}

/// One decision of a class, for lengths above those of the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthDecision {
    /// `usize::MAX`: no bound.
    pub max_bytes: usize,
    pub candidate: Candidate,
}

/// An algorithm and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub algorithm: AlgorithmId,
    /// Bytes of a segment; 0: the algorithm's default.
    pub segment_bytes: usize,
    /// 0: the algorithm's default.
    pub fan_out: u32,
}

impl Candidate {
    /// The parameters for a plan whose unit has `unit` bytes.
    #[must_use]
    pub fn parameters(&self, unit: usize) -> Parameters {
        let segment = match self.segment_bytes {
            0 => 0,
            bytes => (bytes / unit.max(1)).max(1),
        };
        Parameters { segment, fanout: self.fan_out, ..Parameters::default() }
    }
}

fn call(collective: Collective, size: u32, bytes: usize, commutative: bool) -> Option<Call> {
    let count =
        Shared(bytes.div_ceil(if unit(collective) == PlanUnit::Elements { ELEMENT } else { 1 }));
    let (root, in_place) = (0, false);
    let blocks = || Blocks::new(std::iter::repeat_n(count.0, size as usize)).map(Shared);
    Some(match collective {
        Collective::Barrier => Call::Barrier,
        Collective::Bcast => Call::Bcast { root, bytes: count },
        Collective::Gather => Call::Gather { root, block: count, in_place },
        Collective::Scatter => Call::Scatter { root, block: count, in_place },
        Collective::Allgather => Call::Allgather { block: count, in_place },
        Collective::Allgatherv => Call::Allgatherv { blocks: blocks()?, in_place },
        Collective::Alltoall => Call::Alltoall { block: count, in_place },
        Collective::Reduce => Call::Reduce { root, count, commutative, in_place },
        Collective::Allreduce => Call::Allreduce { count, commutative, in_place },
        Collective::ReduceScatterBlock => {
            Call::ReduceScatterBlock { block: count, commutative, in_place }
        }
        Collective::ReduceScatter => {
            Call::ReduceScatter { blocks: blocks()?, commutative, in_place }
        }
        Collective::Scan => Call::Scan { count, commutative, in_place },
        Collective::Exscan => Call::Exscan { count, commutative, in_place },
        _ => return None,
    })
}

fn has_blocks(collective: Collective) -> bool {
    use Collective as C;
    matches!(
        collective,
        C::Gather
            | C::Scatter
            | C::Allgather
            | C::Allgatherv
            | C::Alltoall
            | C::ReduceScatterBlock
            | C::ReduceScatter
    )
}

/// The predicted time of a call of `size` ranks, in nanoseconds. `None`: it exceeds `most_ns`, or
/// there is no such call.
#[must_use]
pub fn predicted(
    setup: Setup,
    collective: Collective,
    (size, bytes, commutative): (u32, usize, bool),
    candidate: &Candidate,
    most_ns: f64,
) -> Option<f64> {
    let call = call(collective, size, bytes, commutative)?;
    let element = if unit(collective) == PlanUnit::Elements { ELEMENT } else { 1 };
    let parameters = candidate.parameters(element);
    let plan = |rank| make(candidate.algorithm, TeamMember { rank, size }, &call, &parameters);
    let plans = (0..size).map(plan).collect::<Result<Vec<_>, _>>().ok()?;
    let sharing = (f64::from(size) / 2.0).clamp(1.0, SHARING);
    let oversubscribed = LogGp { latency_ns: TURN_NS * sharing, ..DEDICATED.inside };
    let (machine, fetched_from) = match setup {
        Setup::Dedicated => (DEDICATED, usize::MAX),
        Setup::Oversubscribed => (Machine { inside: oversubscribed, ..DEDICATED }, FETCHED_FROM),
    };
    let Outline { time_ns, work_ns, fetched, .. } =
        outline(&machine, element, plans, fetched_from, most_ns).ok()??;
    let time_ns = match setup {
        Setup::Dedicated => time_ns,
        Setup::Oversubscribed => {
            time_ns + (work_ns + FETCH_NS * fetched as f64) * sharing / f64::from(size)
        }
    };
    Some(time_ns).filter(|time| *time <= most_ns)
}

fn candidates(
    setup: Setup,
    collective: Collective,
    class: SizeClass,
    commutative: bool,
) -> Vec<Candidate> {
    let legal = |id: &AlgorithmId| {
        class
            .samples(collective)
            .iter()
            .all(|size| id.algorithm().refusal(*size, commutative).is_none())
            && (class.is_exact()
                || id.algorithm().restrictions.iter().all(|r| r.allows_all_sizes()))
    };
    let mut all = Vec::new();
    let is_fluent =
        |id: &AlgorithmId| setup == Setup::Dedicated || !PIPELINES.contains(&id.algorithm().name);
    for algorithm in settled(collective).filter(legal).filter(is_fluent) {
        let row = algorithm.algorithm();
        let has = |parameter| row.parameters.contains(&parameter);
        let is_cut = has(Parameter::Segment) && setup == Setup::Dedicated;
        let segments: &[usize] = if is_cut { &[0, 16 << 10, 128 << 10] } else { &[0] };
        let fan_outs: &[u32] = match () {
            () if has(Parameter::TreeFanout) => &[0, 8],
            () if has(Parameter::ChainFanout) => &[2, 0],
            () => &[0],
        };
        for &segment_bytes in segments {
            all.extend(fan_outs.iter().map(|&fan_out| Candidate {
                algorithm,
                segment_bytes,
                fan_out,
            }));
        }
    }
    all
}

/// The previous choice stays if it takes at most this factor of the best time.
const SLACK: f64 = 1.15;

/// The decisions for a class, by ascending length. `smaller`: the decisions of the previous class.
#[must_use]
pub fn decide(
    setup: Setup,
    collective: Collective,
    commutative: bool,
    class: SizeClass,
    smaller: &[LengthDecision],
) -> Vec<LengthDecision> {
    let candidates = candidates(setup, collective, class, commutative);
    let samples = class.samples(collective);
    let largest = samples.last().copied().unwrap_or(1) as usize;
    let blocks = if has_blocks(collective) { largest } else { 1 };
    // For large teams, fewer and shorter lengths are tried, to limit the time.
    let (most_of_all, step) =
        if largest > 64 { (MAX_BYTES_OF_ALL / 16, 4) } else { (MAX_BYTES_OF_ALL, 2) };
    let most = MAX_BYTES.min(most_of_all / blocks);
    let mut decided: Vec<LengthDecision> = Vec::new();
    let mut bytes = 8;
    while bytes <= most {
        let before = decided.last().map(|last| last.candidate);
        let like_smaller =
            smaller.iter().find(|other| bytes <= other.max_bytes).map(|other| other.candidate);
        let preferred = [like_smaller.filter(|one| candidates.contains(one)), before];
        let is_preferred = |candidate: &Candidate| preferred.contains(&Some(*candidate));
        let mut order: Vec<Candidate> = preferred.into_iter().flatten().collect();
        order.dedup();
        let likely = order.len();
        // A segment longer than the vector has no effect.
        order.extend(candidates.iter().filter(|c| c.segment_bytes < bytes && !is_preferred(c)));
        let worst = ratios(setup, collective, commutative, (&samples, bytes), &order);
        let least = worst.iter().copied().fold(f64::INFINITY, f64::min);
        let is_good = |at: &usize| worst[*at] <= least * SLACK;
        let best = || worst.iter().position(|worst| *worst == least);
        if let Some(at) = (0..likely).find(is_good).or_else(best) {
            let candidate = order[at];
            match decided.last_mut() {
                Some(last) if last.candidate == candidate => {}
                last => {
                    if let Some(last) = last {
                        // Half way between the last length of the previous decision and the first
                        // of this one.
                        last.max_bytes = (bytes / step + bytes) / 2;
                    }
                    decided.push(LengthDecision { max_bytes: usize::MAX, candidate });
                }
            }
        }
        if collective == Collective::Barrier {
            break;
        }
        bytes *= step;
    }
    decided
}

/// The time of each candidate relative to the best one, at its worst size.
fn ratios(
    setup: Setup,
    collective: Collective,
    commutative: bool,
    (samples, bytes): (&[u32], usize),
    order: &[Candidate],
) -> Vec<f64> {
    let mut worst = vec![1.0_f64; order.len()];
    for &size in samples {
        let mut best = f64::INFINITY;
        let mut time = |candidate: &Candidate| {
            let what = (size, bytes, commutative);
            let time =
                predicted(setup, collective, what, candidate, best * 2.0).unwrap_or(f64::INFINITY);
            best = best.min(time);
            time
        };
        let times: Vec<f64> = order.iter().map(&mut time).collect();
        for (worst, time) in worst.iter_mut().zip(times) {
            *worst = worst.max(if best > 0.0 { time / best } else { 1.0 });
        }
    }
    worst
}

/// All decisions of a collective for powers of two, or for other sizes, as rows of `fixed.txt`.
#[must_use]
pub fn text(
    setup: Setup,
    collective: Collective,
    commutative: bool,
    powers_of_two: bool,
) -> String {
    let mut text = String::new();
    let mut before: Vec<LengthDecision> = Vec::new();
    let mut rows: Vec<(u32, Vec<LengthDecision>)> = Vec::new();
    for class in classes(powers_of_two) {
        let decided = decide(setup, collective, commutative, class, &before);
        match rows.last_mut() {
            Some((max, _)) if decided == before => *max = class.max,
            _ => rows.push((class.max, decided.clone())),
        }
        before = decided;
    }
    for (max_size, decided) in rows {
        for LengthDecision { max_bytes, candidate } in decided {
            let Candidate { algorithm, segment_bytes, fan_out } = candidate;
            let bound = |n: String, is_none: bool| if is_none { "-".to_string() } else { n };
            let size = bound(max_size.to_string(), max_size == u32::MAX);
            let bytes = bound(max_bytes.to_string(), max_bytes == usize::MAX);
            let row = algorithm.algorithm();
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{size} {bytes} {} {} {segment_bytes} {fan_out}",
                row.number, row.name
            );
        }
    }
    text
}
