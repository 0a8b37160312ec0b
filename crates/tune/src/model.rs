//! Pieces of cost formulas on a machine of two levels: what patterns of messages cost whose plans nobody walks.
//!
//! The parameters are those of [`oxmpi_plan::cost`]: LogGP inside a node and between nodes, where all ranks of a node share a
//! way out and a way in. Ranks are dealt to nodes in order. All times are in nanoseconds.

use crate::question::Cell;
use oxmpi_plan::Parameters;
use oxmpi_plan::cost::{LogGp, Machine};
use oxmpi_tuned::Tuning;

/// A call on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    machine: Machine,
    /// Ranks.
    pub p: f64,
    /// Ranks on each node that has some.
    q: f64,
    /// Bytes of the whole vector, or of a block.
    pub m: f64,
    /// Bytes of an element.
    element: f64,
    /// What is said to the algorithm.
    pub tuning: Tuning,
}

impl Model {
    /// A call on a machine, with what is said to its algorithm.
    #[must_use]
    pub fn new(machine: &Machine, cell: &Cell, tuning: Tuning) -> Model {
        let ranks = f64::from(cell.ranks);
        Model {
            machine: *machine,
            p: ranks,
            q: f64::from(machine.ranks_per_node.max(1)).min(ranks),
            m: cell.bytes as f64,
            element: cell.element() as f64,
            tuning,
        }
    }

    /// The same for a vector of another length, with nothing said to the algorithm.
    #[must_use]
    pub fn untuned(&self, bytes: f64) -> Model {
        Model { m: bytes, tuning: Tuning::default(), ..*self }
    }

    fn is_one_node(&self) -> bool {
        self.p <= self.q
    }

    fn nodes(&self) -> f64 {
        (self.p / self.q).ceil()
    }

    /// The level of what goes far.
    fn far(&self) -> LogGp {
        if self.is_one_node() { self.machine.inside } else { self.machine.between }
    }

    /// What combining so many bytes costs.
    #[must_use]
    pub fn combine(&self, bytes: f64) -> f64 {
        self.machine.reduce_byte_ns * bytes
    }

    /// What copying so many bytes costs.
    #[must_use]
    pub fn copy(&self, bytes: f64) -> f64 {
        self.machine.copy_byte_ns * bytes
    }

    /// Rounds of doubling: log2 p, rounded up.
    #[must_use]
    pub fn lg(&self) -> f64 {
        self.p.log2().ceil()
    }

    /// Whether the ranks have to be folded to a power of two.
    #[must_use]
    pub fn is_folded(&self) -> bool {
        self.p.log2().fract() != 0.0
    }

    /// Two messages of so many bytes, if the ranks have to be folded to a power of two.
    #[must_use]
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
    #[must_use]
    pub fn hop(&self, bytes: f64) -> f64 {
        hop(self.far(), bytes)
    }

    /// One of several rounds in which all ranks send to the rank a distance above, each round further.
    ///
    /// As long as the distances together are less than a node, what comes late from another node is late once: it counts in
    /// the last such round.
    #[must_use]
    pub fn shift(&self, distance: f64, bytes: f64) -> f64 {
        let distance = distance.min(self.p - distance).max(1.0);
        if self.is_one_node() || 2.0 * distance < self.q {
            return hop(self.machine.inside, bytes).max(if self.is_one_node() {
                0.0
            } else {
                distance * way(self.far(), bytes)
            });
        }
        self.crossing(distance.min(self.q), distance < self.q || (self.q < 2.0 && distance < 2.0), bytes)
    }

    /// Partners whose numbers differ in one bit exchange.
    #[must_use]
    pub fn exchange(&self, distance: f64, bytes: f64) -> f64 {
        if self.is_one_node() || self.q % (2.0 * distance) == 0.0 {
            return hop(self.machine.inside, bytes);
        }
        self.crossing(distance.min(self.q), distance < 2.0 * self.q, bytes)
    }

    /// A round in which so many ranks of each node send to others: in the first they wait for each other, from then on they
    /// come one after the other anyway.
    fn crossing(&self, ranks: f64, is_first: bool, bytes: f64) -> f64 {
        let (hop, way) = (hop(self.far(), bytes), way(self.far(), bytes));
        if is_first { hop + (ranks - 1.0) * way } else { hop.max(ranks * way) }
    }

    /// One rank of each pair of groups sends to the first of the next, as the ranks of a tree do that leads ranges.
    fn descend(&self, distance: f64, bytes: f64) -> f64 {
        let level = if distance < self.q { self.machine.inside } else { self.far() };
        hop(level, bytes)
    }

    /// One rank sends to all others, or receives from all.
    #[must_use]
    pub fn flat(&self, bytes: f64) -> f64 {
        self.hop(bytes) + self.flat_rest(bytes)
    }

    /// Each rank's busy time in [`Model::flat`].
    fn flat_rest(&self, bytes: f64) -> f64 {
        let (inside, between) = (self.machine.inside, self.machine.between);
        let (near, apart) = (self.q - 1.0, self.p - self.q);
        let busy = near * inside.overhead_ns + apart * between.overhead_ns;
        busy.max(near * way(inside, bytes)).max(apart * way(between, bytes))
    }

    /// One rank receives from all others, which are ready.
    #[must_use]
    pub fn flat_in(&self, bytes: f64) -> f64 {
        let (inside, between) = (self.machine.inside, self.machine.between);
        let (near, apart) = (self.q - 1.0, self.p - self.q);
        self.hop(bytes) + (near * way(inside, bytes)).max(apart * way(between, bytes))
    }

    /// As [`Model::flat_in`], in the order of the ranks, as many at a time as the window of a plan has room for. What comes
    /// from the nodes is mixed: most of the window waits for ranks that come late, and the rest is soon asked for one after the
    /// other.
    #[must_use]
    pub fn flat_in_order(&self, bytes: f64) -> f64 {
        let is_mixed = !self.is_one_node() && self.q > 1.0;
        let beyond = (self.p - 2.5 * Parameters::default().window as f64).max(0.0);
        let one_by_one = if is_mixed { beyond * self.machine.between.overhead_ns } else { 0.0 };
        self.flat_in(bytes).max(one_by_one)
    }

    /// One rank receives from all others and combines what comes, beginning with what comes last.
    #[must_use]
    pub fn flat_combined(&self, bytes: f64) -> f64 {
        let (near, apart) = (self.q - 1.0, self.p - self.q);
        let overheads = near * self.machine.inside.overhead_ns + apart * self.machine.between.overhead_ns;
        let work = (self.p - 1.0) * self.combine(bytes);
        work + self.flat_in(bytes).max(self.hop(bytes) + overheads)
    }

    /// What travels from rank to rank, each adding `work`, once past all.
    #[must_use]
    pub fn chain(&self, bytes: f64, work: f64) -> f64 {
        let crossings = self.nodes() - 1.0;
        let rest = self.p - 1.0 - crossings;
        crossings * hop(self.machine.between, bytes)
            + rest * hop(self.machine.inside, bytes)
            + (self.p - 1.0) * work
    }

    /// A ring: in each of so many rounds all pass something on to the next.
    #[must_use]
    pub fn ring(&self, rounds: f64, bytes: f64, work: f64) -> f64 {
        let part = rounds / (self.p - 1.0).max(1.0);
        let far = self.far();
        // Either what travels is late, or the way out of a node is busy.
        (part * self.chain(bytes, work)).max(rounds * (far.overhead_ns + way(far, bytes) + work))
    }

    /// Each rank sends a block to each other, all at once.
    #[must_use]
    pub fn direct(&self, bytes: f64) -> f64 {
        let (inside, between) = (self.machine.inside, self.machine.between);
        let (near, apart) = (self.q - 1.0, self.p - self.q);
        let busy = near * inside.overhead_ns + apart * between.overhead_ns;
        self.hop(bytes) + busy.max(near * way(inside, bytes)).max(self.q * apart * way(between, bytes))
    }

    /// Each rank exchanges a block with each other, one after the other.
    #[must_use]
    pub fn pairwise(&self, bytes: f64) -> f64 {
        if self.is_one_node() {
            return (self.p - 1.0) * self.hop(bytes);
        }
        let far = self.far();
        // The ranks of a node come one after the other: each finds the way free, or all wait for it.
        hop(far, bytes) + (self.p - 2.0) * hop(far, bytes).max(self.q * way(far, bytes))
    }

    /// Segments of a buffer, where the algorithm's own choice is one: how many, and their bytes.
    #[must_use]
    pub fn segments(&self) -> (f64, f64) {
        let length = match self.tuning.segment_bytes {
            0 => self.m,
            bytes => self.whole(bytes as f64),
        };
        ((self.m / length.max(1.0)).ceil().max(1.0), length.min(self.m))
    }

    /// As [`Model::segments`], where the algorithm's own choice is up to 32 of at least 4096 units.
    #[must_use]
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

    /// The fan-out, or the algorithm's own.
    #[must_use]
    pub fn fan_out(&self, own: f64) -> f64 {
        if self.tuning.fan_out == 0 { own } else { f64::from(self.tuning.fan_out) }
    }

    /// A broadcast of segments from one rank to all.
    #[must_use]
    pub fn flat_segments(&self) -> f64 {
        let (segments, bytes) = self.segments();
        self.hop(bytes) + segments * self.flat_rest(bytes)
    }

    /// Segments down several chains; `work` is what a rank does with a byte on the way.
    #[must_use]
    pub fn chains(&self, chains: f64, work: impl Fn(f64) -> f64) -> f64 {
        let (segments, bytes) = self.pipeline_segments(self.m);
        let chains = chains.min(self.p - 1.0).max(1.0);
        let length = ((self.p - 1.0) / chains).ceil();
        let far = self.far();
        let first = match chains > 1.0 {
            // The far chains begin on other nodes.
            true => {
                self.chain(bytes, work(bytes)) * length / (self.p - 1.0) + hop(far, bytes)
                    - far.latency_ns * 0.5
            }
            false => self.chain(bytes, work(bytes)),
        };
        // Those that begin on other nodes share the way out.
        let apart = if self.is_one_node() { chains } else { (chains * (1.0 - self.q / self.p)).max(1.0) };
        let pace = (apart * way(far, bytes)).max(chains * far.overhead_ns);
        first + (segments - 1.0) * pace.max(chains * work(bytes))
    }

    /// Segments down a binary tree whose levels are ranges of ranks.
    #[must_use]
    pub fn binary(&self, whole: f64, ranks: f64, work: impl Fn(f64) -> f64) -> f64 {
        let (segments, bytes) = self.pipeline_segments(whole);
        let (mut first, mut pace, mut queue) = (0.0, 0.0_f64, 0.0_f64);
        let far = self.far();
        for senders in powers(2.0, ranks / 2.0 + 0.5) {
            let (cost, busy) = if 4.0 * senders <= self.q {
                let near = self.machine.inside;
                (
                    hop(near, bytes) + way(near, bytes).max(near.overhead_ns),
                    2.0 * way(near, bytes).max(near.overhead_ns),
                )
            } else {
                let crossing = if self.is_one_node() { 2.0 } else { 2.0 * senders.min(self.q) };
                let busy = crossing * way(far, bytes);
                let is_first = 2.0 * senders <= self.q;
                // The levels are on different nodes: while one queues at its way the next has begun.
                queue = queue.max(busy - 2.0 * way(far, bytes));
                (self.crossing(2.0, is_first, bytes), busy.max(2.0 * far.overhead_ns))
            };
            first += cost + 2.0 * work(bytes);
            pace = pace.max(busy + 2.0 * work(bytes));
        }
        first + queue + (segments - 1.0) * pace
    }

    /// Segments up a balanced tree whose subtrees are ranges of ranks.
    #[must_use]
    pub fn in_order(&self, work: impl Fn(f64) -> f64) -> f64 {
        let (segments, bytes) = self.pipeline_segments(self.m);
        let cost = |distance: f64| self.descend(distance, bytes) + 2.0 * work(bytes);
        let far = self.far();
        let pace = (2.0 * way(far, bytes)).max(2.0 * far.overhead_ns) + 2.0 * work(bytes);
        self.doublings().map(cost).sum::<f64>() + (segments - 1.0) * pace
    }

    /// Segments down a k-nomial tree; `work` is what a rank does with what comes from a child.
    #[must_use]
    pub fn nomial(&self, radix: f64, work: impl Fn(f64) -> f64) -> f64 {
        let (segments, bytes) = self.segments();
        let (mut first, mut pace) = (0.0, 0.0);
        for place in powers(radix, self.p) {
            let is_near = place * (radix - 1.0) < self.q;
            let level = if is_near { self.machine.inside } else { self.far() };
            let children = (radix - 1.0).min(((self.p - 1.0) / place).floor());
            let each = way(level, bytes).max(level.overhead_ns);
            first += hop(level, bytes) + (children - 1.0) * each.max(work(bytes)) + work(bytes);
            pace += children * each.max(work(bytes));
        }
        first + (segments - 1.0) * pace
    }

    /// Blocks of subtrees up or down a binomial tree: twice as much at each level.
    #[must_use]
    pub fn binomial_blocks(&self, block: f64) -> f64 {
        self.doublings().map(|far| self.descend(far, block * far.min(self.p - far))).sum()
    }

    /// The parts of a vector up or down a binomial tree; where it has less elements than there are ranks, the last have none.
    #[must_use]
    pub fn binomial_parts(&self) -> f64 {
        let parts = self.m / self.element;
        let cost = |far: f64| self.descend(far, self.m / self.p * far.min(self.p - far));
        self.doublings().take_while(|far| *far < parts).map(cost).sum()
    }

    /// Blocks go to ranks half of all away, then a quarter, and so on; each is a message of its own.
    #[must_use]
    pub fn sparbit(&self) -> f64 {
        let far = self.far();
        let round = |blocks: f64| {
            let blocks = blocks.min(self.p - blocks);
            let distance = (self.p / (2.0 * blocks)).ceil();
            let more = blocks - 1.0;
            let crossing = if self.is_one_node() { 1.0 } else { distance.min(self.q) };
            // However near they are, the last rank of a node sends to another one.
            self.shift(distance, self.m) + more * far.overhead_ns.max(crossing * way(far, self.m))
        };
        self.doublings().map(round).sum()
    }

    /// Neighbours on either side exchange in turn, in so many rounds.
    #[must_use]
    pub fn neighbours(&self, rounds: f64, bytes: f64) -> f64 {
        let near = if self.q > 1.0 { self.machine.inside } else { self.far() };
        rounds * (hop(self.far(), bytes) + hop(near, bytes)) / 2.0
    }

    /// An allgather in rounds of distance 1, k, k^2..., of blocks of so many bytes.
    #[must_use]
    pub fn bruck(&self, radix: f64, block: f64) -> f64 {
        if radix <= 2.0 {
            return self.doublings().map(|d| self.shift(d, block * d.min(self.p - d))).sum();
        }
        let round = |place: f64| {
            let messages = (radix - 1.0).min(((self.p - 1.0) / place).floor()).max(1.0);
            let bytes = block * place.min(self.p - place);
            let crossing = (1..=messages as u32).map(|j| (f64::from(j) * place).min(self.q)).sum::<f64>();
            let far = self.far();
            match self.is_one_node() {
                true => self.hop(bytes) + (messages - 1.0) * way(far, bytes).max(far.overhead_ns),
                false => self.hop(bytes) + (crossing - 1.0) * way(far, bytes),
            }
        };
        powers(radix, self.p).map(round).sum()
    }

    /// Partners at distances p/2, p/4... 1 exchange halves of so many bytes, and combine them.
    #[must_use]
    pub fn halving(&self, bytes: f64, far_first: bool) -> f64 {
        let rounds: Vec<f64> = self.doublings().filter(|distance| 2.0 * distance <= self.p).collect();
        let all = rounds.len();
        let cost = |round: usize| {
            let part = bytes / 2.0_f64.powi(round as i32 + 1);
            let distance = if far_first { rounds[all - 1 - round] } else { rounds[round] };
            self.exchange(distance, part) + self.combine(part)
        };
        (0..all).map(cost).sum::<f64>()
    }

    /// As [`Model::halving`], of a block of so many bytes for each rank. Of ranks that are folded the first act for two each,
    /// so that the first half of what is halved is the longer one; where they share the way out of a node, as many fewer of
    /// them are on it.
    #[must_use]
    pub fn halving_blocks(&self, block: f64, far_first: bool) -> f64 {
        let active = 2.0_f64.powf(self.p.log2().floor());
        let pairs = self.p - active;
        let cost = |half: f64| {
            let blocks = if self.is_one_node() { half + half.min(pairs) } else { half * self.p / active };
            let part = blocks * block;
            let distance = if far_first { half } else { active / (2.0 * half) };
            self.exchange(distance, part) + self.combine(part)
        };
        powers(2.0, active).map(cost).sum()
    }

    /// Partners at distances 1, 2... exchange all they have, which grows from `bytes / p`.
    #[must_use]
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

/// How long a message occupies a way out or in.
fn way(level: LogGp, bytes: f64) -> f64 {
    level.gap_ns.max(level.byte_ns * bytes)
}

/// 1, k, k^2... below a bound.
fn powers(radix: f64, bound: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(1.0), move |power: &f64| Some(power * radix))
        .take_while(move |power| *power < bound)
}
