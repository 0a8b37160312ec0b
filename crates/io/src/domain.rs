//! Collective access: which ranks read and write which parts of the file, and when.
//!
//! In a *two-phase* access all ranks exchange data with some ranks, the *aggregators*. Each
//! aggregator has a part of the file, its *domain*. It handles the domain in *windows* of a
//! buffer's length, one per *round*. So it reads and writes long ranges, even if the pieces of the
//! ranks are short.

use crate::hints::{Hints, Switch};
use crate::view::View;

/// The facts about a rank's access, which it sends to the other ranks before the access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessExtent {
    pub start: u64,
    pub end: u64,
    /// Bytes of data. If 0, the offsets have no meaning.
    pub len: u64,
    /// Whether the pieces are in ascending order without overlap.
    pub disjoint: bool,
}

/// A page: each domain begins at a multiple.
const ALIGNMENT: u64 = 4096;

/// The rounds cover the whole range. A range longer than this factor times the data is slower than
/// single pieces.
const SPARSE: u64 = 64;

impl AccessExtent {
    pub const WORDS: usize = 4;

    /// The access to `len` bytes of the view's stream from `at` on, after [`View::check`].
    pub fn new(view: &View, at: u64, len: u64) -> AccessExtent {
        let disjoint = view.is_disjoint(at, len);
        if len == 0 {
            return AccessExtent { disjoint, ..AccessExtent::default() };
        }
        let place = |at| view.offset_of(at).unwrap_or(0);
        AccessExtent { start: place(at), end: place(at + len - 1).saturating_add(1), len, disjoint }
    }

    /// The access as words.
    pub fn encode(&self) -> [u64; AccessExtent::WORDS] {
        [self.start, self.end, self.len, u64::from(self.disjoint)]
    }

    /// The access of these words.
    pub fn decode([start, end, len, disjoint]: [u64; AccessExtent::WORDS]) -> AccessExtent {
        AccessExtent { start, end, len, disjoint: disjoint != 0 }
    }

    fn has_holes(&self) -> bool {
        self.end.saturating_sub(self.start) > self.len
    }
}

/// Whether a two-phase access is better. All ranks get the same result.
pub fn together(switch: Switch, accesses: &[AccessExtent]) -> bool {
    if !accesses.iter().all(|a| a.disjoint) {
        return false;
    }
    let with_data = || accesses.iter().filter(|a| a.len > 0);
    match switch {
        Switch::Enable => with_data().next().is_some(),
        Switch::Disable => false,
        // A rank has several pieces, interleaved with those of other ranks without long gaps.
        Switch::Automatic => {
            let mut order: Vec<&AccessExtent> = with_data().collect();
            order.sort_unstable_by_key(|a| a.start);
            let interleaved = order.windows(2).any(|w| w[1].start < w[0].end);
            let start = order.first().map_or(0, |a| a.start);
            let end = order.iter().map(|a| a.end).max().unwrap_or(start);
            let data = order.iter().fold(0_u64, |sum, a| sum.saturating_add(a.len));
            let sparse = end.saturating_sub(start) > data.saturating_mul(SPARSE);
            interleaved && !sparse && order.iter().any(|a| a.has_holes())
        }
    }
}

/// The domains of all aggregators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domains {
    start: u64,
    end: u64,
    each: u64,
    window: u64,
    ranks: u32,
    aggregators: u32,
}

impl Domains {
    /// The domains for these accesses, one access per rank.
    pub fn new(accesses: &[AccessExtent], hints: &Hints) -> Domains {
        let with_data = || accesses.iter().filter(|a| a.len > 0);
        let start = with_data().map(|a| a.start).min().unwrap_or(0);
        let end = with_data().map(|a| a.end).max().unwrap_or(start).max(start);
        let ranks = u32::try_from(accesses.len()).unwrap_or(u32::MAX).max(1);
        let aggregators = hints.aggregators.clamp(1, ranks);
        let first = start - start % ALIGNMENT;
        let each = (end - first).div_ceil(u64::from(aggregators));
        let each = each.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
        Domains { start, end, each, window: hints.aggregate_bytes.max(1), ranks, aggregators }
    }

    /// The number of aggregators.
    pub fn aggregators(&self) -> u32 {
        self.aggregators
    }

    /// The rank of an aggregator. Aggregators are spread evenly over the ranks.
    pub fn rank_of(&self, aggregator: u32) -> u32 {
        (u64::from(aggregator) * u64::from(self.ranks) / u64::from(self.aggregators)) as u32
    }

    /// The number of this rank as an aggregator, if it is one.
    pub fn aggregator_at(&self, rank: u32) -> Option<u32> {
        (0..self.aggregators).find(|&a| self.rank_of(a) == rank)
    }

    fn domain(&self, aggregator: u32) -> (u64, u64) {
        let first = self.start - self.start % ALIGNMENT;
        let edge =
            |n: u64| first.saturating_add(n.saturating_mul(self.each)).clamp(self.start, self.end);
        (edge(u64::from(aggregator)), edge(u64::from(aggregator) + 1))
    }

    /// The window of an aggregator in a round: start and end in the file.
    pub fn window(&self, aggregator: u32, round: u64) -> (u64, u64) {
        let (start, end) = self.domain(aggregator);
        let at = |n: u64| start.saturating_add(n.saturating_mul(self.window)).min(end);
        (at(round), at(round + 1))
    }

    /// The number of rounds, the same for all aggregators.
    pub fn rounds(&self) -> u64 {
        let longest =
            (0..self.aggregators).map(|a| self.domain(a)).map(|(s, e)| e - s).max().unwrap_or(0);
        longest.div_ceil(self.window)
    }
}

/// The part of `len` bytes of the view's stream from `at` on that lies in a window of the file, as
/// start and end in the stream.
pub fn part_in(view: &View, (at, len): (u64, u64), (start, end): (u64, u64)) -> (u64, u64) {
    if start >= end || len == 0 {
        return (at, at);
    }
    let inside = |offset| view.part_before(offset, (at, len));
    (inside(start), inside(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_mem::layout::Layout;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn access(start: u64, end: u64, len: u64) -> AccessExtent {
        AccessExtent { start, end, len, disjoint: true }
    }

    #[test]
    fn interleaved_pieces_are_accessed_together() {
        let apart = [access(0, 10, 10), access(10, 20, 10), access(0, 0, 0)];
        let mixed = [access(0, 20, 10), access(10, 30, 10)];
        assert!(!together(Switch::Automatic, &apart) && together(Switch::Enable, &apart));
        assert!(together(Switch::Automatic, &mixed) && !together(Switch::Disable, &mixed));
        assert!(!together(Switch::Enable, &[AccessExtent { disjoint: false, ..mixed[0] }]));
        assert!(!together(
            Switch::Enable,
            &[AccessExtent { disjoint: true, ..AccessExtent::default() }]
        ));
        let sparse = [access(0, 1 << 40, 10), access(10, 1 << 40, 10)];
        assert!(!together(Switch::Automatic, &sparse) && together(Switch::Enable, &sparse));
        let senseless = [access(50, 20, u64::MAX), access(u64::MAX, 0, u64::MAX)];
        let domains = Domains::new(&senseless, &Hints::new(2, 1));
        assert!(!together(Switch::Automatic, &senseless) && domains.rounds() < u64::MAX);
        let whole = [access(1, u64::MAX, u64::MAX)];
        assert!(Domains::new(&whole, &Hints::new(1, 1)).rounds() > 0);
        assert_eq!(AccessExtent::decode(mixed[0].encode()), mixed[0]);
    }

    proptest! {
        #[test]
        fn windows_cover_the_range(
            start in 0_u64..20_000, len in 1_u64..60_000, ranks in 1_u32..9, aggregators in 1_u32..9,
            window in 1_u64..20_000, block in 1_usize..50, hole in 0_isize..50,
        ) {
            let byte = Layout::basic(1, 1);
            let data = Layout::contiguous(block, &byte).unwrap();
            let layout = Arc::new(Layout::resized(0, block as isize + hole, &data).unwrap());
            let view = View::new(start, 1, &layout, true).unwrap();
            let accesses = vec![AccessExtent::new(&view, 0, len); ranks as usize];
            let hints = Hints { aggregators, aggregate_bytes: window, ..Hints::new(ranks, 1) };
            let domains = Domains::new(&accesses, &hints);
            let mut windows = Vec::new();
            for aggregator in 0..domains.aggregators() {
                for round in 0..domains.rounds() {
                    windows.push(domains.window(aggregator, round));
                }
                prop_assert_eq!(domains.aggregator_at(domains.rank_of(aggregator)), Some(aggregator));
            }
            let (mut place, mut stream) = (accesses[0].start, 0);
            for window in windows.into_iter().filter(|(s, e)| s < e) {
                prop_assert_eq!(window.0, place);
                let part = part_in(&view, (0, len), window);
                prop_assert_eq!(part.0, stream);
                prop_assert!(view.ranges(part.0, part.1 - part.0).all(|r| r.offset >= window.0 && r.end() <= window.1));
                (place, stream) = (window.1, part.1);
            }
            prop_assert_eq!((place, stream), (accesses[0].end, len));
        }
    }
}
