//! Terms of cost formulas on a machine with two levels: the cost of patterns of messages.
//!
//! The parameters are those of [`oxmpi_plan::cost`]: LogGP within a node and between nodes, where
//! all ranks of a node share one link out and one link in. Nodes have consecutive ranks. All times
//! are in nanoseconds.

use crate::calls::Cell;
use oxmpi_plan::Parameters;
use oxmpi_plan::cost::{LogGp, Machine};
use oxmpi_tuned::Tuning;

/// A call on a machine.
#[derive(Clone, Copy, Debug)]
pub struct CostModel {
    machine: Machine,
    pub p: f64,
    q: f64,
    /// Bytes of the whole vector, or of a block.
    pub m: f64,
    element: f64,
    pub tuning: Tuning,
}

impl CostModel {
    /// A call on a machine, with the parameters of its algorithm.
    pub fn new(machine: &Machine, cell: &Cell, tuning: Tuning) -> CostModel {
        let ranks = f64::from(cell.ranks);
        CostModel {
            machine: *machine,
            p: ranks,
            q: f64::from(machine.ranks_per_node.max(1)).min(ranks),
            m: cell.bytes as f64,
            element: cell.element() as f64,
            tuning,
        }
    }

    /// The same call with a vector of `bytes` bytes and the algorithm's default parameters.
    pub fn untuned(&self, bytes: f64) -> CostModel {
        CostModel { m: bytes, tuning: Tuning::default(), ..*self }
    }

    fn is_one_node(&self) -> bool {
        self.p <= self.q
    }

    fn nodes(&self) -> f64 {
        (self.p / self.q).ceil()
    }

    /// The level of the longest distance.
    fn far(&self) -> LogGp {
        if self.is_one_node() { self.machine.inside } else { self.machine.between }
    }

    /// Combining `bytes` bytes.
    pub fn combine(&self, bytes: f64) -> f64 {
        self.machine.reduce_byte_ns * bytes
    }

    /// Copying `bytes` bytes.
    pub fn copy(&self, bytes: f64) -> f64 {
        self.machine.copy_byte_ns * bytes
    }

    /// Rounds of doubling: log2 p, rounded up.
    pub fn lg(&self) -> f64 {
        self.p.log2().ceil()
    }

    /// Whether the number of ranks is no power of two, so that some ranks are folded.
    pub fn is_folded(&self) -> bool {
        self.p.log2().fract() != 0.0
    }

    /// A message to and a message from a folded rank; 0 for powers of two.
    pub fn fold(&self, there: f64, back: f64) -> f64 {
        if !self.is_folded() {
            return 0.0;
        }
        let near = if self.q >= 2.0 { self.machine.inside } else { self.far() };
        hop(near, there) + hop(near, back)
    }

    /// 1, 2, 4... below p.
    pub fn doublings(&self) -> impl Iterator<Item = f64> + use<> {
        powers(2.0, self.p)
    }

    /// One message between any two ranks.
    pub fn hop(&self, bytes: f64) -> f64 {
        hop(self.far(), bytes)
    }

    /// One of several rounds in which each rank sends to the rank `distance` above, in ascending
    /// order of the distance.
    ///
    /// Only the last of the rounds with a total distance of less than a node counts a message from
    /// another node: the delays of such rounds overlap.
    pub fn shift(&self, distance: f64, bytes: f64) -> f64 {
        let distance = distance.min(self.p - distance).max(1.0);
        if self.is_one_node() || 2.0 * distance < self.q {
            return hop(self.machine.inside, bytes).max(if self.is_one_node() {
                0.0
            } else {
                distance * occupancy(self.far(), bytes)
            });
        }
        self.crossing(
            distance.min(self.q),
            distance < self.q || (self.q < 2.0 && distance < 2.0),
            bytes,
        )
    }

    /// An exchange of partners whose numbers differ in one bit.
    pub fn exchange(&self, distance: f64, bytes: f64) -> f64 {
        if self.is_one_node() || self.q % (2.0 * distance) == 0.0 {
            return hop(self.machine.inside, bytes);
        }
        self.crossing(distance.min(self.q), distance < 2.0 * self.q, bytes)
    }

    /// A round in which `ranks` ranks of each node send to other nodes. In the first such round the
    /// messages queue at the link; in later rounds they arrive one after another.
    fn crossing(&self, ranks: f64, is_first: bool, bytes: f64) -> f64 {
        let (hop, occupancy) = (hop(self.far(), bytes), occupancy(self.far(), bytes));
        if is_first { hop + (ranks - 1.0) * occupancy } else { hop.max(ranks * occupancy) }
    }

    /// A message between the first ranks of two ranges of ranks, as in a tree.
    fn descend(&self, distance: f64, bytes: f64) -> f64 {
        let level = if distance < self.q { self.machine.inside } else { self.far() };
        hop(level, bytes)
    }

    /// One rank sends to all others, or receives from all.
    pub fn flat(&self, bytes: f64) -> f64 {
        self.hop(bytes) + self.flat_rest(bytes)
    }

    /// The time in which the links and the root are busy in [`CostModel::flat`].
    fn flat_rest(&self, bytes: f64) -> f64 {
        let (inside, between) = (self.machine.inside, self.machine.between);
        let (near, apart) = (self.q - 1.0, self.p - self.q);
        let busy = near * inside.overhead_ns + apart * between.overhead_ns;
        busy.max(near * occupancy(inside, bytes)).max(apart * occupancy(between, bytes))
    }

    /// One rank receives from all others, which are ready.
    pub fn flat_in(&self, bytes: f64) -> f64 {
        let (inside, between) = (self.machine.inside, self.machine.between);
        let (near, apart) = (self.q - 1.0, self.p - self.q);
        self.hop(bytes) + (near * occupancy(inside, bytes)).max(apart * occupancy(between, bytes))
    }

    /// As [`CostModel::flat_in`], in the order of the ranks, within the window of a plan. With
    /// ranks on the root's node and on others, most of the window waits for late ranks, and the
    /// other receives are posted one after another.
    pub fn flat_in_order(&self, bytes: f64) -> f64 {
        let is_mixed = !self.is_one_node() && self.q > 1.0;
        let beyond = (self.p - 2.5 * Parameters::default().window as f64).max(0.0);
        let one_by_one = if is_mixed { beyond * self.machine.between.overhead_ns } else { 0.0 };
        self.flat_in(bytes).max(one_by_one)
    }

    /// One rank receives from all others and combines the vectors, beginning with the last rank.
    pub fn flat_combined(&self, bytes: f64) -> f64 {
        let (near, apart) = (self.q - 1.0, self.p - self.q);
        let overheads =
            near * self.machine.inside.overhead_ns + apart * self.machine.between.overhead_ns;
        let work = (self.p - 1.0) * self.combine(bytes);
        work + self.flat_in(bytes).max(self.hop(bytes) + overheads)
    }

    /// A message through all ranks, each of which adds `work`.
    pub fn chain(&self, bytes: f64, work: f64) -> f64 {
        let crossings = self.nodes() - 1.0;
        let rest = self.p - 1.0 - crossings;
        crossings * hop(self.machine.between, bytes)
            + rest * hop(self.machine.inside, bytes)
            + (self.p - 1.0) * work
    }

    /// A ring: in each of `rounds` rounds all ranks send to the next rank.
    pub fn ring(&self, rounds: f64, bytes: f64, work: f64) -> f64 {
        let part = rounds / (self.p - 1.0).max(1.0);
        let far = self.far();
        // Either the longest path or the link out of a node limits the ring.
        (part * self.chain(bytes, work))
            .max(rounds * (far.overhead_ns + occupancy(far, bytes) + work))
    }

    /// Each rank sends a block to each other rank, all at once.
    pub fn direct(&self, bytes: f64) -> f64 {
        let (inside, between) = (self.machine.inside, self.machine.between);
        let (near, apart) = (self.q - 1.0, self.p - self.q);
        let busy = near * inside.overhead_ns + apart * between.overhead_ns;
        self.hop(bytes)
            + busy
                .max(near * occupancy(inside, bytes))
                .max(self.q * apart * occupancy(between, bytes))
    }

    /// Each rank exchanges a block with each other rank, one after another.
    pub fn pairwise(&self, bytes: f64) -> f64 {
        if self.is_one_node() {
            return (self.p - 1.0) * self.hop(bytes);
        }
        let far = self.far();
        // The ranks of a node take turns: either the link is free for each, or all queue at it.
        hop(far, bytes) + (self.p - 2.0) * hop(far, bytes).max(self.q * occupancy(far, bytes))
    }

    /// The number of segments and the bytes of each; the default is one segment.
    pub fn segments(&self) -> (f64, f64) {
        let length = match self.tuning.segment_bytes {
            0 => self.m,
            bytes => self.whole(bytes as f64),
        };
        ((self.m / length.max(1.0)).ceil().max(1.0), length.min(self.m))
    }

    /// As [`CostModel::segments`]; the default is up to 32 segments of at least 4096 units.
    pub fn pipeline_segments(&self, bytes: f64) -> (f64, f64) {
        let length = match self.tuning.segment_bytes {
            0 => (bytes / 32.0).max(4096.0 * self.element),
            bytes => self.whole(bytes as f64),
        };
        ((bytes / length.max(1.0)).ceil().max(1.0), length.min(bytes))
    }

    fn whole(&self, bytes: f64) -> f64 {
        ((bytes / self.element).floor() * self.element).max(self.element)
    }

    /// The fan-out of the call's parameters, or the algorithm's `own`.
    pub fn fan_out(&self, own: f64) -> f64 {
        if self.tuning.fan_out == 0 { own } else { f64::from(self.tuning.fan_out) }
    }

    /// A broadcast of segments from one rank to all.
    pub fn flat_segments(&self) -> f64 {
        let (segments, bytes) = self.segments();
        self.hop(bytes) + segments * self.flat_rest(bytes)
    }

    /// Segments down several chains; `work` is the cost of a number of bytes at each rank.
    pub fn chains(&self, chains: f64, work: impl Fn(f64) -> f64) -> f64 {
        let (segments, bytes) = self.pipeline_segments(self.m);
        let chains = chains.min(self.p - 1.0).max(1.0);
        let length = ((self.p - 1.0) / chains).ceil();
        let far = self.far();
        let first = match chains > 1.0 {
            // Chains other than the first begin on other nodes.
            true => {
                self.chain(bytes, work(bytes)) * length / (self.p - 1.0) + hop(far, bytes)
                    - far.latency_ns * 0.5
            }
            false => self.chain(bytes, work(bytes)),
        };
        // The chains to other nodes share the link out.
        let apart =
            if self.is_one_node() { chains } else { (chains * (1.0 - self.q / self.p)).max(1.0) };
        let pace = (apart * occupancy(far, bytes)).max(chains * far.overhead_ns);
        first + (segments - 1.0) * pace.max(chains * work(bytes))
    }

    /// Segments down a binary tree whose levels are ranges of ranks.
    pub fn binary(&self, whole: f64, ranks: f64, work: impl Fn(f64) -> f64) -> f64 {
        let (segments, bytes) = self.pipeline_segments(whole);
        let (mut first, mut pace, mut queue) = (0.0, 0.0_f64, 0.0_f64);
        let far = self.far();
        for senders in powers(2.0, ranks / 2.0 + 0.5) {
            let (cost, busy) = if 4.0 * senders <= self.q {
                let near = self.machine.inside;
                (
                    hop(near, bytes) + occupancy(near, bytes).max(near.overhead_ns),
                    2.0 * occupancy(near, bytes).max(near.overhead_ns),
                )
            } else {
                let crossing = if self.is_one_node() { 2.0 } else { 2.0 * senders.min(self.q) };
                let busy = crossing * occupancy(far, bytes);
                let is_first = 2.0 * senders <= self.q;
                // The levels are on different nodes: while one queues at its link, the next has
                // begun.
                queue = queue.max(busy - 2.0 * occupancy(far, bytes));
                (self.crossing(2.0, is_first, bytes), busy.max(2.0 * far.overhead_ns))
            };
            first += cost + 2.0 * work(bytes);
            pace = pace.max(busy + 2.0 * work(bytes));
        }
        first + queue + (segments - 1.0) * pace
    }

    /// Segments up a balanced tree whose subtrees are ranges of ranks.
    pub fn in_order(&self, work: impl Fn(f64) -> f64) -> f64 {
        let (segments, bytes) = self.pipeline_segments(self.m);
        let cost = |distance: f64| self.descend(distance, bytes) + 2.0 * work(bytes);
        let far = self.far();
        let pace = (2.0 * occupancy(far, bytes)).max(2.0 * far.overhead_ns) + 2.0 * work(bytes);
        self.doublings().map(cost).sum::<f64>() + (segments - 1.0) * pace
    }

    /// Segments down a k-nomial tree; `work` is the cost of a number of bytes from a child.
    pub fn nomial(&self, radix: f64, work: impl Fn(f64) -> f64) -> f64 {
        let (segments, bytes) = self.segments();
        let (mut first, mut pace) = (0.0, 0.0);
        for place in powers(radix, self.p) {
            let is_near = place * (radix - 1.0) < self.q;
            let level = if is_near { self.machine.inside } else { self.far() };
            let children = (radix - 1.0).min(((self.p - 1.0) / place).floor());
            let each = occupancy(level, bytes).max(level.overhead_ns);
            first += hop(level, bytes) + (children - 1.0) * each.max(work(bytes)) + work(bytes);
            pace += children * each.max(work(bytes));
        }
        first + (segments - 1.0) * pace
    }

    /// Blocks of subtrees up or down a binomial tree: twice as many at each level.
    pub fn binomial_blocks(&self, block: f64) -> f64 {
        self.doublings().map(|far| self.descend(far, block * far.min(self.p - far))).sum()
    }

    /// The parts of a vector up or down a binomial tree; with fewer elements than ranks, the last
    /// ranks have none.
    pub fn binomial_parts(&self) -> f64 {
        let parts = self.m / self.element;
        let cost = |far: f64| self.descend(far, self.m / self.p * far.min(self.p - far));
        self.doublings().take_while(|far| *far < parts).map(cost).sum()
    }

    /// Blocks go to ranks at a distance of half the ranks, then a quarter, and so on, each in its
    /// own message.
    pub fn sparbit(&self) -> f64 {
        let far = self.far();
        let round = |blocks: f64| {
            let blocks = blocks.min(self.p - blocks);
            let distance = (self.p / (2.0 * blocks)).ceil();
            let more = blocks - 1.0;
            let crossing = if self.is_one_node() { 1.0 } else { distance.min(self.q) };
            // At any distance, the last rank of a node sends to another node.
            self.shift(distance, self.m)
                + more * far.overhead_ns.max(crossing * occupancy(far, self.m))
        };
        self.doublings().map(round).sum()
    }

    /// Neighbours on both sides alternate for `rounds` rounds.
    pub fn neighbours(&self, rounds: f64, bytes: f64) -> f64 {
        let near = if self.q > 1.0 { self.machine.inside } else { self.far() };
        rounds * (hop(self.far(), bytes) + hop(near, bytes)) / 2.0
    }

    /// An allgather of blocks of `block` bytes in rounds of distance 1, k, k^2...
    pub fn bruck(&self, radix: f64, block: f64) -> f64 {
        if radix <= 2.0 {
            return self.doublings().map(|d| self.shift(d, block * d.min(self.p - d))).sum();
        }
        let round = |place: f64| {
            let messages = (radix - 1.0).min(((self.p - 1.0) / place).floor()).max(1.0);
            let bytes = block * place.min(self.p - place);
            let crossing =
                (1..=messages as u32).map(|j| (f64::from(j) * place).min(self.q)).sum::<f64>();
            let far = self.far();
            match self.is_one_node() {
                true => {
                    self.hop(bytes) + (messages - 1.0) * occupancy(far, bytes).max(far.overhead_ns)
                }
                false => self.hop(bytes) + (crossing - 1.0) * occupancy(far, bytes),
            }
        };
        powers(radix, self.p).map(round).sum()
    }

    /// Partners at distances p/2, p/4... 1 exchange halves of `bytes` bytes, and combine them.
    pub fn halving(&self, bytes: f64, far_first: bool) -> f64 {
        let rounds: Vec<f64> =
            self.doublings().filter(|distance| 2.0 * distance <= self.p).collect();
        let all = rounds.len();
        let cost = |round: usize| {
            let part = bytes / 2.0_f64.powi(round as i32 + 1);
            let distance = if far_first { rounds[all - 1 - round] } else { rounds[round] };
            self.exchange(distance, part) + self.combine(part)
        };
        (0..all).map(cost).sum::<f64>()
    }

    /// As [`CostModel::halving`], with `block` bytes for each rank. After folding, the first ranks
    /// act for two ranks each, so the first half of the blocks is the longer one; the link of a
    /// node then has fewer active ranks.
    pub fn halving_blocks(&self, block: f64, far_first: bool) -> f64 {
        let active = 2.0_f64.powf(self.p.log2().floor());
        let pairs = self.p - active;
        let cost = |half: f64| {
            let blocks =
                if self.is_one_node() { half + half.min(pairs) } else { half * self.p / active };
            let part = blocks * block;
            let distance = if far_first { half } else { active / (2.0 * half) };
            self.exchange(distance, part) + self.combine(part)
        };
        powers(2.0, active).map(cost).sum()
    }

    /// Partners at distances 1, 2... exchange all their data, which grow from `bytes / p`.
    pub fn doubling(&self, bytes: f64) -> f64 {
        self.doublings()
            .filter(|distance| 2.0 * distance <= self.p)
            .map(|d| self.exchange(d, bytes * d / self.p))
            .sum()
    }
}

/// One message: from the sender's call to the end of the receiver's.
fn hop(level: LogGp, bytes: f64) -> f64 {
    2.0 * level.overhead_ns + level.latency_ns + level.byte_ns * bytes
}

fn occupancy(level: LogGp, bytes: f64) -> f64 {
    level.gap_ns.max(level.byte_ns * bytes)
}

fn powers(radix: f64, bound: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(1.0), move |power: &f64| Some(power * radix))
        .take_while(move |power| *power < bound)
}
